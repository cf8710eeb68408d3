/* The bounds of dense rows: levels, four bits for each image of a superblock, at a place and 128
   after; or bitmaps, a level for each block of 32 images, then a bit for each image: place p is bit p / 32 of
   byte p % 32, so that a block's bits are at one place of every byte. */

enum { HALF = PLACES / 2, BLOCK = 32, BLOCKS = PLACES / BLOCK, TOPS = BLOCKS / 2 };
enum { BITMAP = TOPS + PLACES / 8 };

/* What one query's words add to a score at most: levels of dense rows, and lists in the order in
   which they are added in a batch. */
typedef struct {
    int64_t rows, levelled;             /* how many words are dense rows, and have levels */
    const uint8_t **levels;             /* of each of those, all superblocks */
    const uint8_t **bitmaps;            /* of each of the others */
    int64_t *steps;                     /* what a level adds at most */
    uint8_t (*shares)[16];              /* of each level, in 255ths of least, rounded up */
    int64_t least;
    const void **impacts;               /* of each dense row, in the superblock that is finished */
    int64_t *lists;                     /* numbers of the words that are lists */
    double *gains;                      /* of each of them */
} filter_t;

INLINE int level_at(const uint8_t *levels, int place) {
    return place < HALF ? levels[place] & 15 : levels[place - HALF] >> 4;
}

INLINE int has_bit(const uint8_t *bitmap, int place) {
    return bitmap[TOPS + place % BLOCK] >> place / BLOCK & 1;
}

INLINE int top_of(const uint8_t *bitmap, int block) {
    return bitmap[block / 2] >> 4 * (block % 2) & 15;
}

/* How many bits before that of a place are set. */
INLINE int bits_before(const uint8_t *bitmap, int place) {
    const int bits = 8 * (place % BLOCK) + place / BLOCK;
    int found = 0;
    for (int word = 0; word < 4; word++) {
        uint64_t own;
        memcpy(&own, bitmap + TOPS + 8 * word, 8);
        uint64_t mask = word < bits / 64 ? ~0ull : word == bits / 64 ? (1ull << bits % 64) - 1 : 0;
        found += __builtin_popcountll(own & mask);
    }
    return found;
}

/* How many of the first bytes have a level in their low (shift 0) or high (shift 4) bits. */
INLINE int count_levels(const uint8_t *levels, int shift, int bytes) {
    const uint64_t low = 0x0f0f0f0f0f0f0f0f, carry = 0x1010101010101010;
    int found = 0;
    for (int i = 0; i < bytes; i += 8) {
        uint64_t eight;
        memcpy(&eight, levels + i, 8);
        if (bytes - i < 8) eight &= (1ull << 8 * (bytes - i)) - 1;
        found += __builtin_popcountll(((eight >> shift & low) + low) & carry);
    }
    return found;
}

#ifdef AVX2
/* Which of 64 images have a level in their low (shift 0) or high (shift 4) bits. */
AVX2 static uint64_t with_level(const uint8_t *levels, int shift) {
    const __m256i bits = _mm256_set1_epi8((char)(15 << shift)), zero = _mm256_setzero_si256();
    uint64_t without = 0;
    for (int i = 0; i < 2; i++) {
        __m256i own = _mm256_loadu_si256((const __m256i *)(levels + 32 * i));
        __m256i none = _mm256_cmpeq_epi8(_mm256_and_si256(own, bits), zero);
        without |= (uint64_t)(uint32_t)_mm256_movemask_epi8(none) << 32 * i;
    }
    return ~without;
}

AVX2 static int images_before_avx2(const uint8_t *levels, int place) {
    int found = 0, first = 0;
    for (; first + 64 <= place; first += 64)
        found += __builtin_popcountll(with_level(levels + first % HALF, first / HALF * 4));
    if (first == place) return found;
    uint64_t last = with_level(levels + first % HALF, first / HALF * 4);
    return found + __builtin_popcountll(last & ((1ull << (place - first)) - 1));
}
#endif

/* How many images before a place have a level. */
INLINE int images_before(const uint8_t *levels, int place) {
#ifdef AVX2
    if (has_avx2) return images_before_avx2(levels, place);
#endif
    if (place < HALF) return count_levels(levels, 0, place);
    return count_levels(levels, 0, HALF) + count_levels(levels, 4, place - HALF);
}

#ifdef AVX2
INLINE uint8_t share_of(int64_t bound, double per_score) {
    double share = (double)bound * per_score;
    return bound == 0 ? 0 : share < 254 ? (uint8_t)((int)share + 1) : 255;
}

/* A share of a score below 65,535, given one more than that, rounded up. */
INLINE uint32_t scaled(uint8_t share, uint16_t more) {
    return (((uint32_t)(uint16_t)(share * 257) * more) >> 16) + 1;
}

/* Let shares be those of a score that is hardly more than a least one: the share of an image that
   reaches the former is 255, however much larger its score is. */
static void share_levels(filter_t *filter, int64_t least) {
    if (least <= filter->least) return;
    least += least / 128;
    if (least > INT32_MAX) least = INT32_MAX; /* so that lists can be added to it in 32 bits */
    filter->least = least;
    for (int64_t i = 0; i < filter->rows; i++)
        for (int level = 0; level < 16; level++)
            filter->shares[i][level] = share_of(level * filter->steps[i], 255.0 / (double)least);
}

/* Add the shares of a row with levels to those of the images of a superblock. */
AVX2 INLINE void add_levels(const uint8_t *levels, __m256i own, __m256i *sums) {
    const __m256i low = _mm256_set1_epi8(15);
    UNROLLED
    for (int i = 0; i < BLOCKS / 2; i++) {
        __m256i pairs = _mm256_loadu_si256((const __m256i *)(levels + BLOCK * i));
        __m256i first = _mm256_and_si256(pairs, low);
        __m256i second = _mm256_and_si256(_mm256_srli_epi16(pairs, 4), low);
        sums[i] = _mm256_adds_epu8(sums[i], _mm256_shuffle_epi8(own, first));
        sums[BLOCKS / 2 + i] =
            _mm256_adds_epu8(sums[BLOCKS / 2 + i], _mm256_shuffle_epi8(own, second));
    }
}

/* The same of a row with a bitmap: the share of a block's level for each image that has the term. */
AVX2 INLINE void add_bits(const uint8_t *bitmap, __m256i own, __m256i *sums) {
    const __m256i bits = _mm256_loadu_si256((const __m256i *)(bitmap + TOPS));
    const __m256i zero = _mm256_setzero_si256();
    const __m128i low = _mm_set1_epi8(15), pairs = _mm_loadu_si32(bitmap);
    __m128i tops = _mm_and_si128(_mm_unpacklo_epi8(pairs, _mm_srli_epi16(pairs, 4)), low);
    __m256i most = _mm256_shuffle_epi8(own, _mm256_broadcastsi128_si256(tops));
    UNROLLED
    for (int b = 0; b < BLOCKS; b++) { /* the highest bit of each byte chooses */
        __m256i each = _mm256_shuffle_epi8(most, _mm256_set1_epi8((char)b));
        each = _mm256_blendv_epi8(zero, each, _mm256_slli_epi16(bits, 7 - b));
        sums[b] = _mm256_adds_epu8(sums[b], each);
    }
}

AVX2 INLINE __m256i twice(const uint8_t *sixteen) {
    return _mm256_broadcastsi128_si256(_mm_loadu_si128((const __m128i *)sixteen));
}

/* Set shares to those of the images of a superblock; returns the largest. Reads ahead of next. */
AVX2 static uint8_t add_shares(const filter_t *filter, int64_t superblock, int64_t next,
                               uint8_t *shares) {
    __m256i sums[BLOCKS], most = _mm256_setzero_si256();
    UNROLLED
    for (int b = 0; b < BLOCKS; b++) sums[b] = _mm256_setzero_si256();
    for (int64_t row = 0; row < filter->levelled; row++) {
        PREFETCH(filter->levels[row] + next * HALF);
        PREFETCH(filter->levels[row] + next * HALF + HALF / 2);
        add_levels(filter->levels[row] + superblock * HALF, twice(filter->shares[row]), sums);
    }
    for (int64_t row = filter->levelled; row < filter->rows; row++) {
        PREFETCH(filter->bitmaps[row] + next * BITMAP);
        add_bits(filter->bitmaps[row] + superblock * BITMAP, twice(filter->shares[row]), sums);
    }
    UNROLLED
    for (int b = 0; b < BLOCKS; b++) {
        _mm256_storeu_si256((__m256i *)(shares + BLOCK * b), sums[b]);
        most = _mm256_max_epu8(most, sums[b]);
    }
    __m128i half = _mm_max_epu8(_mm256_castsi256_si128(most), _mm256_extracti128_si256(most, 1));
    half = _mm_max_epu8(half, _mm_srli_epi16(half, 8));
    /* The smallest of eight numbers of 16 bits is one instruction: that of 255 less each share. */
    half = _mm_sub_epi16(_mm_set1_epi16(255), _mm_and_si128(half, _mm_set1_epi16(255)));
    return (uint8_t)(255 - _mm_extract_epi16(_mm_minpos_epu16(half), 0));
}

/* Which of 64 numbers are at least as large as another one. */
AVX2 static uint64_t reaching(const uint16_t *bounds, uint16_t least) {
    const __m256i enough = _mm256_set1_epi16((int16_t)least);
    uint64_t found = 0;
    for (int i = 0; i < 2; i++) {
        __m256i halves[2];
        for (int j = 0; j < 2; j++) {
            __m256i own = _mm256_loadu_si256((const __m256i *)(bounds + 32 * i + 16 * j));
            halves[j] = _mm256_cmpeq_epi16(_mm256_max_epu16(own, enough), own);
        }
        __m256i packed = _mm256_packs_epi16(halves[0], halves[1]);
        packed = _mm256_permute4x64_epi64(packed, 0xD8);
        found |= (uint64_t)(uint32_t)_mm256_movemask_epi8(packed) << 32 * i;
    }
    return found;
}

static uint8_t spread[256][8]; /* where each of eight images with a level finds its impact */

static void fill_spread(void) {
    for (int mask = 0; mask < 256; mask++)
        for (int image = 0, next = 0; image < 8; image++)
            spread[mask][image] = mask >> image & 1 ? (uint8_t)next++ : 0x80;
}

/* Add count x impact to sums of eight images; a mask says whose impacts these are. */
AVX2 INLINE const uint8_t *add_eight(unsigned mask, const uint8_t *impacts, __m128i counts,
                                     uint16_t *sums) {
    __m128i places = _mm_loadl_epi64((const __m128i *)spread[mask]);
    __m128i eight = _mm_shuffle_epi8(_mm_loadl_epi64((const __m128i *)impacts), places);
    eight = _mm_mullo_epi16(_mm_cvtepu8_epi16(eight), counts);
    eight = _mm_add_epi16(_mm_loadu_si128((const __m128i *)sums), eight);
    _mm_storeu_si128((__m128i *)sums, eight);
    return impacts + __builtin_popcount(mask);
}

/* Add count x impact of a row with levels in a superblock. */
AVX2 static void add_spread(const uint8_t *levels, const uint8_t *impacts, uint16_t count,
                            uint16_t *sums) {
    const __m128i low = _mm_set1_epi8(15), zero = _mm_setzero_si128();
    const __m128i counts = _mm_set1_epi16((int16_t)count);
    for (int i = 0; i < PLACES; i += 16) {
        __m128i pairs = _mm_loadu_si128((const __m128i *)(levels + i % HALF));
        if (i >= HALF) pairs = _mm_srli_epi16(pairs, 4);
        __m128i none = _mm_cmpeq_epi8(_mm_and_si128(pairs, low), zero);
        unsigned masks = ~(unsigned)_mm_movemask_epi8(none) & 0xFFFF;
        impacts = add_eight(masks & 0xFF, impacts, counts, sums + i);
        impacts = add_eight(masks >> 8, impacts, counts, sums + i + 8);
    }
}
#endif
