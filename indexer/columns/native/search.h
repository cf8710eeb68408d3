/* The exact best k of columns and of the newest images, for one width of impacts and of sums.

   Included once for each pair of widths by native.c, which defines IMPACT (an impact), POSTING
   (impact << 8 | place) and SUM (a sum of count x impact, which the caller makes wide enough).
   The numba functions in indexer/columns/kernel.py are the same algorithm, and its reference. */

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

/* Add count x impact of a list's postings in some superblocks. */
INLINE void NAME(add_postings)(const columns_t *columns, int64_t row, SUM count,
                               const int64_t *batch, int64_t size, SUM sums[][SUPERBLOCK]) {
    const uint32_t *starts = columns->starts + row * (columns->superblocks + 1);
    const POSTING *postings = (const POSTING *)columns->postings + columns->bases[row];
    for (int64_t b = 0; b < size; b++) PREFETCH(postings + starts[batch[b]]);
    for (int64_t b = 0; b < size; b++) {
        SUM *restrict own = sums[b];
        const POSTING *posting = postings + starts[batch[b]], *last = postings + starts[batch[b] + 1];
        if (count == 1)
            for (; posting < last; posting++)
                own[*posting & PLACE_MASK] += (SUM)(*posting >> PLACE_BITS);
        else
            for (; posting < last; posting++)
                own[*posting & PLACE_MASK] += (SUM)(count * (SUM)(*posting >> PLACE_BITS));
    }
}

/* Put a document into the heap if it is better than the worst there.

   A key is the score, and below it the document with its bits turned, so that of equal scores the
   lower document has the larger key. */
INLINE void NAME(keep)(const columns_t *columns, const query_t *query, int64_t position,
                       int64_t score, heap_t *heap) {
    if (position >= columns->images) return;
    int64_t document = columns->order[position];
    int64_t key = (score << 32) | (~document & 0xFFFFFFFF);
    if (key > heap->keys[0] && (!query->allowed || query->allowed[document]))
        replace_worst(heap, key);
}

INLINE const IMPACT *NAME(impacts_in)(const columns_t *columns, int64_t row, int64_t superblock) {
    return (const IMPACT *)columns->impacts + columns->bases[row] +
           columns->starts[row * (columns->superblocks + 1) + superblock];
}

/* Add count x impact of a dense row in a superblock. */
INLINE void NAME(add_impacts)(const columns_t *columns, int64_t row, SUM count,
                              int64_t superblock, SUM *restrict sums) {
    const uint8_t *levels = columns->levels + (row * columns->superblocks + superblock) * HALF;
    const IMPACT *next = NAME(impacts_in)(columns, row, superblock);
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

/* Add what the levels of the dense rows allow. */
INLINE void NAME(add_levels)(const levels_t *query, int64_t superblock, SUM *restrict bounds) {
    for (int64_t row = 0; row < query->rows; row++) {
        const uint8_t *restrict levels = query->levels[row] + superblock * HALF;
        SUM step = (SUM)query->steps[row];
        for (int i = 0; i < HALF; i++) bounds[i] = (SUM)(bounds[i] + step * (levels[i] & 15));
        for (int i = 0; i < HALF; i++)
            bounds[HALF + i] = (SUM)(bounds[HALF + i] + step * (levels[i] >> 4));
    }
}

/* Images of a superblock whose bound may reach the least score, as filter does. */
INLINE int NAME(choose)(levels_t *query, int64_t superblock, int64_t next, const SUM *sums,
                        int lists, int64_t least, uint64_t *chosen) {
#ifdef AVX2
    if (has_avx2) {
        uint8_t given[SUPERBLOCK];
        filter_for(query, least);
        if (lists && sizeof(SUM) == 2 && query->least <= UINT16_MAX)
            shares_of((const uint16_t *)sums, query->least, given);
        else if (lists)
            for (int i = 0; i < SUPERBLOCK; i++)
                given[i] = share_of(sums[i], 255.0 / (double)query->least);
        return filter(query, superblock, next, lists ? given : NULL, chosen);
    }
#endif
    (void)next, (void)lists;
    SUM bounds[SUPERBLOCK], most = (SUM)-1;
    const SUM enough = least < (int64_t)most ? (SUM)least : most;
    int count = 0;
    memcpy(bounds, sums, sizeof bounds);
    NAME(add_levels)(query, superblock, bounds);
    for (int i = 0; i < SUPERBLOCK; i++) count += bounds[i] >= enough;
    memset(chosen, 0, MASKS * sizeof *chosen);
    for (int i = 0; count && i < SUPERBLOCK; i++)
        chosen[i / 64] |= (uint64_t)(bounds[i] >= enough) << i % 64;
    return count;
}

/* Look an image up in the dense rows, until it cannot enter the heap any more. */
INLINE void NAME(finish)(const columns_t *columns, const query_t *query, const levels_t *dense,
                         int64_t superblock, int place, int64_t score, heap_t *heap) {
    const SUM *counts = query->counts;
    int64_t least = least_score(heap);
    for (int64_t i = 0; i < dense->rows; i++)
        score += dense->steps[i] * level_at(dense->levels[i] + superblock * HALF, place);
    for (int64_t i = 0; i < dense->rows && score >= least; i++) {
        const uint8_t *levels = dense->levels[i] + superblock * HALF;
        int level = level_at(levels, place);
        if (!level) continue;
        const IMPACT *impacts = NAME(impacts_in)(columns, query->rows[i], superblock);
        score += (int64_t)counts[i] * impacts[images_before(levels, place)];
        score -= dense->steps[i] * level;
    }
    if (score >= least)
        NAME(keep)(columns, query, superblock * SUPERBLOCK + place, score, heap);
}

/* Leave out images that may not be found, before they are looked up; returns how many are left. */
INLINE int NAME(allow)(const columns_t *columns, const query_t *query, int64_t superblock,
                       uint64_t *chosen) {
    int left = 0;
    for (int i = 0; i < MASKS; i++)
        for (uint64_t rest = chosen[i]; rest; rest &= rest - 1) {
            int64_t position = superblock * SUPERBLOCK + 64 * i + __builtin_ctzll(rest);
            if (position < columns->images && query->allowed[columns->order[position]])
                left++;
            else
                chosen[i] &= ~(rest & -rest);
        }
    return left;
}

/* Finish the images of a superblock that may still enter the heap, from their sums of lists. */
INLINE void NAME(finish_superblock)(const columns_t *columns, const query_t *query,
                                    levels_t *dense, int64_t superblock, int64_t next, SUM *sums,
                                    heap_t *heap) {
    uint64_t chosen[MASKS];
    const SUM *counts = query->counts;
    int count = NAME(choose)(dense, superblock, next, sums, query->terms > query->dense,
                             least_score(heap), chosen);
    if (count && query->allowed) count = NAME(allow)(columns, query, superblock, chosen);
    if (count > MANY) {
        for (int64_t i = 0; i < dense->rows; i++)
            NAME(add_impacts)(columns, query->rows[i], counts[i], superblock, sums);
        for (int i = 0; i < SUPERBLOCK; i++)
            if (sums[i] >= least_score(heap))
                NAME(keep)(columns, query, superblock * SUPERBLOCK + i, sums[i], heap);
    } else if (count)
        for (int i = 0; i < MASKS; i++)
            for (; chosen[i]; chosen[i] &= chosen[i] - 1) {
                int place = 64 * i + __builtin_ctzll(chosen[i]);
                NAME(finish)(columns, query, dense, superblock, place, sums[place], heap);
            }
}

/* Keep the superblocks in which an image may reach the least score if it has the lists' maxima: where
   images alike are together, most lists need not be read. */
INLINE int64_t NAME(screen)(const columns_t *columns, const query_t *query, levels_t *dense,
                            int64_t *batch, int64_t size, int64_t least) {
    const IMPACT *maxima = columns->maxima;
    const SUM *counts = query->counts;
    uint64_t chosen[MASKS];
    int64_t kept = 0;
    for (int64_t b = 0; b < size; b++) {
        SUM sums[SUPERBLOCK], largest = 0;
        for (int64_t i = query->dense; i < query->terms; i++)
            largest += (SUM)(counts[i] * maxima[query->rows[i] * columns->superblocks + batch[b]]);
        for (int i = 0; i < SUPERBLOCK; i++) sums[i] = largest;
        batch[kept] = batch[b];
        kept += NAME(choose)(dense, batch[b], batch[b + AHEAD < size ? b + AHEAD : size - 1], sums, 1,
                             least, chosen) > 0;
    }
    dense->screens = 3 * kept < size; /* not worth its time otherwise */
    return kept;
}

/* Sum the lists of some superblocks exactly, and finish the images that may enter the heap. */
INLINE void NAME(score_batch)(const columns_t *columns, const query_t *query, levels_t *dense,
                              int64_t *batch, int64_t size, heap_t *heap) {
    SUM sums[BATCH][SUPERBLOCK];
    const SUM *counts = query->counts;
    if (dense->screens) size = NAME(screen)(columns, query, dense, batch, size, least_score(heap));
    memset(sums, 0, size * sizeof *sums);
    for (int64_t i = query->dense; i < query->terms; i++)
        NAME(add_postings)(columns, query->rows[i], counts[i], batch, size, sums);
    for (int64_t b = 0; b < size; b++)
        NAME(finish_superblock)(columns, query, dense, batch[b],
                                batch[b + AHEAD < size ? b + AHEAD : size - 1], sums[b], heap);
}

/* Score the superblocks with least <= bound < below that may still enter the heap. They come as
   they lie in memory, which reads ahead where few are skipped. */
INLINE void NAME(score_between)(const columns_t *columns, const query_t *query, levels_t *dense,
                                const SUM *bounds, int64_t least, int64_t below, heap_t *heap) {
    int64_t batch[BATCH], filled = 0;
    dense->screens = dense->rows > 0 && dense->rows < query->terms;
    if (least < least_score(heap)) least = least_score(heap);
    for (int64_t s = 0; s < columns->superblocks; s++) {
        if (bounds[s] < least || bounds[s] >= below) continue;
        batch[filled++] = s;
        if (filled == BATCH) {
            NAME(score_batch)(columns, query, dense, batch, filled, heap);
            filled = 0;
            if (least < least_score(heap)) least = least_score(heap);
        }
    }
    if (filled) NAME(score_batch)(columns, query, dense, batch, filled, heap);
}

CLONED static void NAME(best_documents)(const columns_t *columns, const query_t *query,
                                        levels_t *dense, void *scratch, heap_t *heap) {
    SUM *bounds = scratch;
    NAME(superblock_bounds)(columns, query, bounds);
    int64_t least = NAME(leading_bound)(bounds, columns->superblocks);
    if (least < 1) least = 1;
    for (dense->rows = 0; dense->rows < query->dense; dense->rows++) {
        int64_t row = query->rows[dense->rows];
        dense->levels[dense->rows] = columns->levels + row * columns->superblocks * HALF;
        dense->steps[dense->rows] =
            (int64_t)((const SUM *)query->counts)[dense->rows] * columns->steps[row];
    }
    dense->least = 0;
    NAME(score_between)(columns, query, dense, bounds, least, INT64_MAX, heap);
    NAME(score_between)(columns, query, dense, bounds, 1, least, heap);
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
    if (row < columns->dense_rows) {
        const uint8_t *levels = columns->levels + (row * columns->superblocks + superblock) * HALF;
        if (!level_at(levels, place)) return 0;
        return NAME(impacts_in)(columns, row, superblock)[images_before(levels, place)];
    }
    const uint32_t *starts = columns->starts + row * (columns->superblocks + 1) + superblock;
    const POSTING *postings = (const POSTING *)columns->postings + columns->bases[row];
    for (uint32_t posting = starts[0]; posting < starts[1]; posting++)
        if ((int)(postings[posting] & PLACE_MASK) == place) return postings[posting] >> PLACE_BITS;
    return 0;
}

/* Impacts of all documents for the term of a row. */
INLINE void NAME(impacts_of_row)(const columns_t *columns, int64_t row, uint16_t *impacts) {
    const uint32_t *starts = columns->starts + row * (columns->superblocks + 1);
    const POSTING *postings = (const POSTING *)columns->postings + columns->bases[row];
    memset(impacts, 0, columns->images * sizeof *impacts);
    for (int64_t s = 0; s < columns->superblocks; s++)
        if (row < columns->dense_rows) {
            int64_t first = s * SUPERBLOCK, left = columns->images - first;
            SUM sums[SUPERBLOCK] = {0};
            NAME(add_impacts)(columns, row, 1, s, sums);
            for (int64_t i = 0; i < SUPERBLOCK && i < left; i++)
                impacts[columns->order[first + i]] = (uint16_t)sums[i];
        } else
            for (uint32_t at = starts[s]; at < starts[s + 1]; at++) {
                int64_t position = s * SUPERBLOCK + (postings[at] & PLACE_MASK);
                impacts[columns->order[position]] = (uint16_t)(postings[at] >> PLACE_BITS);
            }
}
