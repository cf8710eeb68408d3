/* The exact best k of columns and of the newest images, for one width of impacts and of sums.

   Included once for each pair of widths by native.c, which defines IMPACT (an impact), POSTING
   (impact << 8 | place) and SUM (a sum of count x impact, or a bound of one: the caller makes it
   wide enough for twice the largest sum). */

/* Add count x impact, image by image: the inner loop of most queries. */
INLINE void NAME(add)(SUM *restrict sums, const IMPACT *restrict impacts, SUM count,
                      int64_t size) {
    if (count == 1) /* most words of a query: a multiplication fewer */
        for (int64_t i = 0; i < size; i++) sums[i] = (SUM)(sums[i] + impacts[i]);
    else
        for (int64_t i = 0; i < size; i++) sums[i] = (SUM)(sums[i] + count * impacts[i]);
}

INLINE void NAME(superblock_bounds)(const columns_t *columns, const query_t *query,
                                    SUM *restrict bounds) {
    const IMPACT *maxima = columns->maxima;
    const SUM *counts = query->counts;
    int64_t size = columns->superblocks;
    memset(bounds, 0, size * sizeof(SUM));
    for (int64_t i = 0; i < query->terms; i++)
        NAME(add)(bounds, maxima + query->rows[i] * size, counts[i], size);
    if (query->occupied)
        for (int64_t s = 0; s < size; s++)
            if (!query->occupied[s]) bounds[s] = 0;
}

/* A bound that about LEADERS superblocks reach. */
INLINE int64_t NAME(leading_bound)(const SUM *bounds, int64_t size) {
    int64_t largest = 0, buckets[BUCKETS] = {0}, reached = 0, bucket = BUCKETS;
    int shift = 0;
    for (int64_t s = 0; s < size; s++) largest = bounds[s] > largest ? bounds[s] : largest;
    while (largest >> shift >= BUCKETS) shift++;
    for (int64_t s = 0; s < size; s++) buckets[bounds[s] >> shift]++;
    while (bucket > 0 && reached < LEADERS) reached += buckets[--bucket];
    return bucket << shift;
}

/* Keep a document that is one of the best so far and may be found. */
INLINE void NAME(keep)(const columns_t *columns, const query_t *query, int64_t position,
                       int64_t score, best_t *best) {
    if (position >= columns->images) return;
    int64_t document = columns->order[position];
    if (!query->allowed || query->allowed[document])
        add_key(best, (score << 32) | (~document & 0xFFFFFFFF));
}

INLINE const IMPACT *NAME(impacts_in)(const columns_t *columns, int64_t row, int64_t superblock) {
    return (const IMPACT *)columns->impacts + start_of(columns, row, superblock);
}

INLINE const POSTING *NAME(list_in)(const columns_t *columns, int64_t row, int64_t superblock) {
    return (const POSTING *)columns->postings + start_of(columns, row, superblock);
}

/* Add count x impact of a row with levels in a superblock. */
INLINE void NAME(add_impacts)(const uint8_t *levels, const IMPACT *next, SUM count,
                              SUM *restrict sums) {
#ifdef AVX2
    if (has_avx2 && sizeof(IMPACT) == 1 && sizeof(SUM) == 2) {
        add_spread(levels, (const uint8_t *)next, (uint16_t)count, (uint16_t *)sums);
        return;
    }
#endif
    for (int half = 0; half < 2; half++)
        for (int i = 0; i < HALF; i++) { /* without branches, which would be mispredicted */
            SUM has = (levels[i] >> 4 * half & 15) != 0;
            sums[half * HALF + i] += (SUM)(count * *next) * has;
            next += has;
        }
}

/* Set bounds, and a copy of them, to what the levels of the dense rows allow; returns the largest, or
   -1 if none reaches the least score even if as much as is left is added. */
INLINE int64_t NAME(bound_levels)(const filter_t *filter, int64_t superblock, int64_t next,
                                  int64_t least, int64_t left, SUM *restrict bounds,
                                  SUM *restrict copy) {
#ifdef AVX2
    if (has_avx2) {
        ALIGNED uint8_t shares[PLACES];
        const uint8_t more = share_of(left + filter->least - least, 255.0 / (double)filter->least);
        const uint8_t largest = add_shares(filter, superblock, next, shares);
        if (largest + more < 255) return -1;
        const uint64_t most = (uint64_t)filter->least;
        if (sizeof(SUM) == 2) { /* without a division; never less, for scores below 65,535 */
            for (int i = 0; i < PLACES; i++)
                bounds[i] = copy[i] = (SUM)scaled(shares[i], (uint16_t)(most + 1));
            return scaled(largest, (uint16_t)(most + 1));
        }
        for (int i = 0; i < PLACES; i++)
            bounds[i] = copy[i] = (SUM)((shares[i] * most + 254) / 255);
        return (int64_t)((largest * most + 254) / 255);
    }
#endif
    (void)next;
    memset(bounds, 0, PLACES * sizeof *bounds);
    for (int64_t row = 0; row < filter->levelled; row++) {
        const uint8_t *restrict levels = filter->levels[row] + superblock * HALF;
        SUM step = (SUM)filter->steps[row];
        for (int i = 0; i < HALF; i++) bounds[i] = (SUM)(bounds[i] + step * (levels[i] & 15));
        for (int i = 0; i < HALF; i++)
            bounds[HALF + i] = (SUM)(bounds[HALF + i] + step * (levels[i] >> 4));
    }
    for (int64_t row = filter->levelled; row < filter->rows; row++) {
        const uint8_t *restrict bitmap = filter->bitmaps[row] + superblock * BITMAP;
        for (int place = 0; place < PLACES; place++) {
            SUM most = (SUM)(filter->steps[row] * top_of(bitmap, place / BLOCK));
            bounds[place] = (SUM)(bounds[place] + most * has_bit(bitmap, place));
        }
    }
    SUM most = 0;
    for (int i = 0; i < PLACES; i++) {
        copy[i] = bounds[i];
        most = bounds[i] > most ? bounds[i] : most;
    }
    return most;
}

/* The impact of the image at a place of a superblock, whose impacts for the term of a dense row are
   given. */
INLINE int64_t NAME(dense_impact)(const columns_t *columns, int64_t row, int64_t superblock,
                                  const IMPACT *impacts, int place) {
    if (row < columns->levelled) {
        const uint8_t *levels = levels_in(columns, row, superblock);
        return level_at(levels, place) ? impacts[images_before(levels, place)] : 0;
    }
    const uint8_t *bitmap = bitmap_in(columns, row, superblock);
    return has_bit(bitmap, place) ? impacts[bits_before(bitmap, place)] : 0;
}

/* Add impacts in dense rows to an image's score in lists, until it cannot be one of the best any
   more. */
INLINE void NAME(finish)(const columns_t *columns, const query_t *query, const filter_t *filter,
                         int64_t superblock, int place, int64_t score, best_t *best) {
    const SUM *counts = query->counts;
    const int64_t least = least_score(best);
    for (int64_t i = 0; i < filter->rows; i++)
        score += filter->steps[i] * bound_at(filter, i, superblock, place);
    for (int64_t i = 0; i < filter->rows && score >= least; i++) {
        int64_t bound = filter->steps[i] * bound_at(filter, i, superblock, place);
        int64_t impact = NAME(dense_impact)(columns, query->rows[i], superblock,
                                            filter->impacts[i], place);
        score += (int64_t)counts[i] * impact - bound;
    }
    if (score >= least)
        NAME(keep)(columns, query, superblock * SUPERBLOCK + place, score, best);
}

/* Which of 64 images have a bound that reaches the least score. */
INLINE uint64_t NAME(reaching)(const SUM *bounds, int64_t least) {
#ifdef AVX2
    if (has_avx2 && sizeof(SUM) == 2) return reaching((const uint16_t *)bounds, (uint16_t)least);
#endif
    uint64_t found = 0;
    for (int i = 0; i < 64; i++) found |= (uint64_t)(bounds[i] >= least) << i;
    return found;
}

/* Add up the impacts of all images of a superblock in rows with levels, look up those of the chosen
   ones in rows with bitmaps, and keep those that may be one of the best. */
INLINE void NAME(finish_all)(const columns_t *columns, const query_t *query,
                             const filter_t *filter, int64_t superblock, const uint8_t *chosen,
                             int count, SUM *sums, best_t *best) {
    const SUM *counts = query->counts;
    for (int64_t i = 0; i < filter->levelled; i++)
        NAME(add_impacts)(levels_in(columns, query->rows[i], superblock), filter->impacts[i],
                          counts[i], sums);
    for (int c = 0; c < count; c++) {
        int64_t score = sums[chosen[c]];
        for (int64_t i = filter->levelled; i < filter->rows; i++)
            if (has_bit(filter->bitmaps[i] + superblock * BITMAP, chosen[c]))
                score += (int64_t)counts[i] *
                         NAME(dense_impact)(columns, query->rows[i], superblock, filter->impacts[i],
                                            chosen[c]);
        if (score >= least_score(best))
            NAME(keep)(columns, query, superblock * SUPERBLOCK + chosen[c], score, best);
    }
}

/* Images of a superblock up to which they are looked up one by one. */
INLINE int NAME(looked_up)(void) {
#ifdef AVX2
    if (has_avx2 && sizeof(IMPACT) == 1 && sizeof(SUM) == 2) return FEW;
#endif
    return MANY;
}

/* Superblocks that are scored together, so that the reads of one do not wait for another's. */
typedef struct {
    int64_t size, numbers[BATCH];
    int64_t left[BATCH];                /* what lists that were not added yet may add */
    SUM most[BATCH];                    /* the largest bound of each */
    ALIGNED SUM levels[BATCH][PLACES];  /* what levels of dense rows allow */
    ALIGNED SUM bounds[BATCH][PLACES];  /* the same, and the lists that were added */
    uint8_t reached[BATCH];             /* those in which an image may be one of the best */
    int64_t remaining;
    uint8_t chosen[BATCH][PLACES];      /* images that may, and how many */
    int count[BATCH];
} NAME(batch_t);

/* Choose the images of a superblock whose bounds reach the least score and that may be found, and
   request their impacts from memory. */
INLINE void NAME(choose)(const columns_t *columns, const query_t *query, int64_t least,
                         NAME(batch_t) *batch, int b) {
    const int64_t superblock = batch->numbers[b];
    int count = 0;
    for (int first = 0; first < PLACES; first += 64)
        for (uint64_t rest = NAME(reaching)(batch->bounds[b] + first, least); rest;
             rest &= rest - 1) {
            int place = first + __builtin_ctzll(rest);
            PREFETCH(columns->order + superblock * SUPERBLOCK + place);
            batch->chosen[b][count] = (uint8_t)place;
            count += may_be_found(columns, query, superblock * SUPERBLOCK + place);
        }
    batch->count[b] = count;
    for (int64_t i = 0; i < query->dense && count; i++) {
        const IMPACT *first = NAME(impacts_in)(columns, query->rows[i], superblock);
        const IMPACT *end = first + size_of(columns, query->rows[i], superblock);
        for (; first < end; first += 64 / sizeof *first) PREFETCH(first);
    }
}

/* Keep the chosen images of a superblock that may be one of the best. */
INLINE void NAME(finish_superblock)(const columns_t *columns, const query_t *query,
                                    const filter_t *filter, NAME(batch_t) *batch, int b,
                                    best_t *best) {
    const int64_t superblock = batch->numbers[b];
    SUM *lists = batch->bounds[b];
    if (batch->count[b] == 0) return;
    for (int i = 0; i < PLACES; i++) lists[i] -= batch->levels[b][i];
    for (int64_t i = 0; i < filter->rows; i++)
        filter->impacts[i] = NAME(impacts_in)(columns, query->rows[i], superblock);
    if (batch->count[b] > NAME(looked_up)()) {
        NAME(finish_all)(columns, query, filter, superblock, batch->chosen[b], batch->count[b],
                         lists, best);
        return;
    }
    for (int i = 0; i < batch->count[b]; i++) {
        int place = batch->chosen[b][i];
        NAME(finish)(columns, query, filter, superblock, place, lists[place], best);
    }
}

/* What reading a list costs in a superblock, in postings. */
INLINE double NAME(list_cost)(const columns_t *columns, int64_t row) {
    int64_t postings = start_of(columns, row, columns->superblocks) - columns->bases[row];
    return LIST_COST + (double)postings / (double)columns->superblocks;
}

/* Add up what lists may add, and order them by how much of that is known once their postings are
   read: those first that rule most out for their cost. Returns how many there are. */
INLINE int64_t NAME(order_lists)(const columns_t *columns, const query_t *query, filter_t *filter,
                                 NAME(batch_t) *batch) {
    const IMPACT *maxima = columns->maxima;
    const SUM *counts = query->counts;
    int64_t found = 0;
    memset(batch->left, 0, sizeof batch->left);
    for (int64_t i = query->dense; i < query->terms; i++) {
        const IMPACT *own = maxima + query->rows[i] * columns->superblocks;
        int64_t total = 0, place = found++;
        for (int64_t b = 0; b < batch->size; b++) {
            int64_t s = batch->numbers[b], most = (int64_t)counts[i] * own[s];
            batch->left[b] += most;
            total += most;
        }
        double gain = (double)total / NAME(list_cost)(columns, query->rows[i]);
        for (; place > 0 && filter->gains[place - 1] < gain; place--) {
            filter->gains[place] = filter->gains[place - 1];
            filter->lists[place] = filter->lists[place - 1];
        }
        filter->gains[place] = gain;
        filter->lists[place] = i;
    }
    return found;
}

/* Add count x impact of a list's postings in a superblock; returns the largest bound there, which
   was given. */
INLINE SUM NAME(add_postings)(const POSTING *posting, const POSTING *end, SUM count,
                              SUM *restrict bounds, SUM most) {
    for (; posting < end; posting++) {
        SUM sum = (SUM)(bounds[*posting & PLACE_MASK] + count * (SUM)(*posting >> PLACE_BITS));
        bounds[*posting & PLACE_MASK] = sum;
        most = sum > most ? sum : most;
    }
    return most;
}

/* Add a list, which rules out what else it might have added. Leave superblocks in which no image can
   reach the least score any more. */
INLINE void NAME(add_list)(const columns_t *columns, int64_t row, SUM count, int64_t least,
                           NAME(batch_t) *batch) {
    const IMPACT *own = (const IMPACT *)columns->maxima + row * columns->superblocks;
    const POSTING *first[BATCH], *last[BATCH];
    int64_t kept = 0;
    for (int64_t r = 0; r < batch->remaining; r++) {
        int64_t superblock = batch->numbers[batch->reached[r]];
        first[r] = NAME(list_in)(columns, row, superblock);
        last[r] = first[r] + size_of(columns, row, superblock);
        PREFETCH(first[r]);
    }
    for (int64_t r = 0; r < batch->remaining; r++) {
        uint8_t b = batch->reached[r];
        SUM *bounds = batch->bounds[b], most = batch->most[b];
        most = count == 1 ? NAME(add_postings)(first[r], last[r], 1, bounds, most)
                          : NAME(add_postings)(first[r], last[r], count, bounds, most);
        batch->most[b] = most;
        batch->left[b] -= (int64_t)count * own[batch->numbers[b]];
        batch->reached[kept] = b;
        kept += (int64_t)most + batch->left[b] >= least;
    }
    batch->remaining = kept;
}

/* Bound the images of some superblocks by the levels of dense rows and, list by list, by their
   postings; a superblock is left as soon as none of its images can be one of the best. Finish the
   images that remain. */
INLINE void NAME(score_batch)(const columns_t *columns, const query_t *query, filter_t *filter,
                              NAME(batch_t) *batch, best_t *best) {
    const SUM *counts = query->counts;
    const int64_t least = least_score(best), size = batch->size;
    int64_t lists = NAME(order_lists)(columns, query, filter, batch);
#ifdef AVX2
    if (has_avx2) share_levels(filter, least);
#endif
    batch->remaining = 0;
    for (int64_t b = 0; b < size; b++) {
        int64_t next = batch->numbers[b + AHEAD < size ? b + AHEAD : size - 1];
        int64_t most = NAME(bound_levels)(filter, batch->numbers[b], next, least, batch->left[b],
                                          batch->levels[b], batch->bounds[b]);
        if (most < 0) continue;
        batch->most[b] = (SUM)most;
        batch->reached[batch->remaining++] = (uint8_t)b;
    }
    for (int64_t i = 0; i < lists && batch->remaining; i++) {
        int64_t word = filter->lists[i];
        NAME(add_list)(columns, query->rows[word], counts[word], least, batch);
    }
    for (int64_t r = 0; r < batch->remaining; r++)
        for (int64_t i = 0; i < filter->rows; i++)
            PREFETCH(group_of(columns, query->rows[i], batch->numbers[batch->reached[r]]));
    for (int64_t r = 0; r < batch->remaining; r++)
        NAME(choose)(columns, query, least, batch, batch->reached[r]);
    for (int64_t r = 0; r < batch->remaining; r++)
        NAME(finish_superblock)(columns, query, filter, batch, batch->reached[r], best);
}

/* Score the superblocks with least <= bound < below that may still be one of the best. They come as
   they lie in memory, which reads ahead where few are skipped. */
INLINE void NAME(score_between)(const columns_t *columns, const query_t *query, filter_t *filter,
                                const SUM *bounds, int64_t least, int64_t below, best_t *best) {
    NAME(batch_t) batch;
    int64_t limit = least_score(best) == 1 ? 1 : BATCH; /* the first images raise the least score */
    batch.size = 0;
    if (least < least_score(best)) least = least_score(best);
    for (int64_t s = 0; s < columns->superblocks; s++) {
        if (bounds[s] < least || bounds[s] >= below) continue;
        batch.numbers[batch.size++] = s;
        if (batch.size == limit) {
            NAME(score_batch)(columns, query, filter, &batch, best);
            batch.size = 0;
            if (limit < BATCH) limit *= 2;
            if (least < least_score(best)) least = least_score(best);
        }
    }
    if (batch.size) NAME(score_batch)(columns, query, filter, &batch, best);
}

CLONED static void NAME(best_documents)(const columns_t *columns, const query_t *query,
                                        filter_t *filter, void *scratch, best_t *best) {
    SUM *bounds = scratch;
    NAME(superblock_bounds)(columns, query, bounds);
    int64_t least = NAME(leading_bound)(bounds, columns->superblocks);
    if (least < 1) least = 1;
    filter->rows = query->dense;
    filter->levelled = 0;
    for (int64_t i = 0; i < query->dense; i++) {
        int64_t row = query->rows[i];
        filter->steps[i] = (int64_t)((const SUM *)query->counts)[i] * columns->steps[row];
        if (row < columns->levelled) {
            filter->levels[i] = levels_in(columns, row, 0);
            filter->levelled++;
        } else {
            filter->bitmaps[i] = bitmap_in(columns, row, 0);
        }
    }
    filter->least = 0;
    NAME(score_between)(columns, query, filter, bounds, least, INT64_MAX, best);
    NAME(score_between)(columns, query, filter, bounds, 1, least, best);
}

/* Sums of the newest images, and those that are not below the k-th best of them. */
CLONED static int64_t NAME(best_of_newest)(const newest_t *newest, const query_t *query,
                                           void *scratch, heap_t *heap, int32_t *documents,
                                           int64_t *scores) {
    SUM *restrict sums = scratch;
    const SUM *counts = query->counts;
    const uint8_t *allowed = query->allowed;
    memset(sums, 0, newest->images * sizeof(SUM));
    for (int64_t i = 0; i < query->terms; i++) {
        const IMPACT *impacts = newest->impacts;
        NAME(add)(sums, impacts + query->rows[i] * newest->capacity, counts[i], newest->images);
    }
    for (int64_t image = 0; image < newest->images; image++)
        if (sums[image] > heap->keys[0] && (!allowed || allowed[image]))
            replace_worst(heap, sums[image]);
    int64_t least = heap->keys[0] > newest->least ? heap->keys[0] : newest->least, found = 0;
    for (int64_t image = 0; image < newest->images; image++)
        if (sums[image] >= least && (!allowed || allowed[image])) {
            documents[found] = (int32_t)image;
            scores[found++] = sums[image];
        }
    return found;
}

INLINE int64_t NAME(impact_at)(const columns_t *columns, int64_t row, int64_t position) {
    int64_t superblock = position / SUPERBLOCK;
    int place = position % SUPERBLOCK;
    if (row < 0) return 0;
    if (row < columns->dense_rows)
        return NAME(dense_impact)(columns, row, superblock,
                                  NAME(impacts_in)(columns, row, superblock), place);
    const POSTING *posting = NAME(list_in)(columns, row, superblock);
    const POSTING *end = posting + size_of(columns, row, superblock);
    for (; posting < end; posting++)
        if ((int)(*posting & PLACE_MASK) == place) return *posting >> PLACE_BITS;
    return 0;
}

/* Impacts of all documents for the term of a row. */
INLINE void NAME(impacts_of_row)(const columns_t *columns, int64_t row, uint16_t *impacts) {
    memset(impacts, 0, columns->images * sizeof *impacts);
    for (int64_t s = 0; s < columns->superblocks; s++)
        if (row < columns->dense_rows) {
            int64_t first = s * SUPERBLOCK, left = columns->images - first;
            const IMPACT *own = NAME(impacts_in)(columns, row, s);
            for (int i = 0; i < SUPERBLOCK && i < left; i++)
                impacts[columns->order[first + i]] =
                    (uint16_t)NAME(dense_impact)(columns, row, s, own, i);
        } else {
            const POSTING *posting = NAME(list_in)(columns, row, s);
            const POSTING *end = posting + size_of(columns, row, s);
            for (; posting < end; posting++) {
                int64_t position = s * SUPERBLOCK + (*posting & PLACE_MASK);
                impacts[columns->order[position]] = (uint16_t)(*posting >> PLACE_BITS);
            }
        }
}
