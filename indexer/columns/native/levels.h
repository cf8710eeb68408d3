/* The levels of dense rows: four bits for each image of a superblock, at a place and 128 after. */

enum { HALF = SUPERBLOCK / 2, MASKS = SUPERBLOCK / 64 };

/* Levels and what they are of one query's dense rows. */
typedef struct {
    int64_t rows;                       /* how many */
    const uint8_t **levels;             /* of each row, all superblocks */
    int64_t *steps;                     /* what a level adds to a score at most */
    uint8_t (*shares)[16];              /* of each level, as filter_for makes them */
    int64_t least;                      /* the score that these are shares of */
    int screens;                        /* whether superblocks are screened before lists are read */
} levels_t;

INLINE int level_at(const uint8_t *levels, int place) {
    return place < HALF ? levels[place] & 15 : levels[place - HALF] >> 4;
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

/* How many images before a place have a level. */
INLINE int images_before(const uint8_t *levels, int place) {
    if (place < HALF) return count_levels(levels, 0, place);
    return count_levels(levels, 0, HALF) + count_levels(levels, 4, place - HALF);
}

/* A bound as its share of a score, in 255ths, rounded up: shares of what reaches that score add up
   to 255 or more. */
INLINE uint8_t share_of(int64_t bound, double per_score) {
    double share = (double)bound * per_score;
    return bound == 0 ? 0 : share < 254 ? (uint8_t)((int)share + 1) : 255;
}

#ifdef AVX2
/* Let the shares be those of a least score, or of one that is hardly less. */
static void filter_for(levels_t *query, int64_t least) {
    if (query->least && least - query->least <= query->least / 32) return;
    query->least = least;
    for (int64_t i = 0; i < query->rows; i++)
        for (int level = 0; level < 16; level++)
            query->shares[i][level] = share_of(level * query->steps[i], 255.0 / (double)least);
}

/* The shares of sums of lists, for a least score below 65,536. */
AVX2 static void shares_of(const uint16_t *sums, int64_t least, uint8_t *shares) {
    const int shift = least < 256 ? 8 : 0; /* so that a share of each fits 16 bits */
    const int64_t each = ((255ll << (16 - shift)) + least - 1) / least;
    const __m256i zero = _mm256_setzero_si256(), one = _mm256_set1_epi16(1);
    const __m256i most = _mm256_set1_epi16((int16_t)least);
    const __m256i factor = _mm256_set1_epi16((int16_t)each);
    for (int i = 0; i < SUPERBLOCK; i += 32) {
        __m256i halves[2];
        for (int j = 0; j < 2; j++) {
            __m256i own = _mm256_loadu_si256((const __m256i *)(sums + i + 16 * j));
            __m256i shifted = _mm256_slli_epi16(_mm256_min_epu16(own, most), shift);
            __m256i whole = _mm256_mulhi_epu16(shifted, factor);
            __m256i some = _mm256_andnot_si256(_mm256_cmpeq_epi16(own, zero), one);
            halves[j] = _mm256_add_epi16(whole, some);
        }
        __m256i packed = _mm256_packus_epi16(halves[0], halves[1]);
        _mm256_storeu_si256((__m256i *)(shares + i), _mm256_permute4x64_epi64(packed, 0xD8));
    }
}

/* The images of a superblock whose shares, with those given, may add up to 255: bit i of chosen[j]
   is place 64 j + i. Returns how many. */
AVX2 static int filter(const levels_t *query, int64_t superblock, int64_t next,
                       const uint8_t *given, uint64_t *chosen) {
    const __m256i low = _mm256_set1_epi8(15), full = _mm256_set1_epi8(-1);
    __m256i sums[8];
    int count = 0;
    for (int i = 0; i < 8; i++)
        sums[i] = given ? _mm256_loadu_si256((const __m256i *)(given + 32 * i))
                        : _mm256_setzero_si256();
    for (int64_t row = 0; row < query->rows; row++) {
        const uint8_t *levels = query->levels[row] + superblock * HALF;
        const __m256i shares =
            _mm256_broadcastsi128_si256(_mm_loadu_si128((const __m128i *)query->shares[row]));
        PREFETCH(query->levels[row] + next * HALF);
        PREFETCH(query->levels[row] + next * HALF + HALF / 2);
        for (int i = 0; i < 4; i++) {
            __m256i pairs = _mm256_loadu_si256((const __m256i *)(levels + 32 * i));
            __m256i first = _mm256_and_si256(pairs, low);
            __m256i second = _mm256_and_si256(_mm256_srli_epi16(pairs, 4), low);
            sums[i] = _mm256_adds_epu8(sums[i], _mm256_shuffle_epi8(shares, first));
            sums[4 + i] = _mm256_adds_epu8(sums[4 + i], _mm256_shuffle_epi8(shares, second));
        }
    }
    for (int i = 0; i < MASKS; i++) {
        uint32_t first = _mm256_movemask_epi8(_mm256_cmpeq_epi8(sums[2 * i], full));
        uint32_t second = _mm256_movemask_epi8(_mm256_cmpeq_epi8(sums[2 * i + 1], full));
        chosen[i] = first | (uint64_t)second << 32;
        count += __builtin_popcountll(chosen[i]);
    }
    return count;
}

static uint8_t spread[256][8]; /* where each of eight images with a level finds its impact */

static void fill_spread(void) {
    for (int mask = 0; mask < 256; mask++)
        for (int image = 0, next = 0; image < 8; image++)
            spread[mask][image] = mask >> image & 1 ? (uint8_t)next++ : 0x80;
}

/* Add count x impact of a dense row in a superblock, eight images at once. */
AVX2 static void add_spread(const uint8_t *levels, const uint8_t *impacts, uint16_t count,
                            uint16_t *sums) {
    const __m128i low = _mm_set1_epi8(15), zero = _mm_setzero_si128();
    const __m128i counts = _mm_set1_epi16((int16_t)count);
    for (int i = 0; i < SUPERBLOCK; i += 16) {
        __m128i pairs = _mm_loadu_si128((const __m128i *)(levels + i % HALF));
        if (i >= HALF) pairs = _mm_srli_epi16(pairs, 4);
        __m128i none = _mm_cmpeq_epi8(_mm_and_si128(pairs, low), zero);
        unsigned masks = ~(unsigned)_mm_movemask_epi8(none) & 0xFFFF;
        for (int j = 0; j < 16; j += 8) {
            unsigned mask = masks >> j & 0xFF;
            __m128i places = _mm_loadl_epi64((const __m128i *)spread[mask]);
            __m128i eight = _mm_shuffle_epi8(_mm_loadl_epi64((const __m128i *)impacts), places);
            __m128i *own = (__m128i *)(sums + i + j);
            eight = _mm_mullo_epi16(_mm_cvtepu8_epi16(eight), counts);
            _mm_storeu_si128(own, _mm_add_epi16(_mm_loadu_si128(own), eight));
            impacts += __builtin_popcount(mask);
        }
    }
}
#endif
