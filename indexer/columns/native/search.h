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
        const POSTING *last = postings + starts[batch[b] + 1];
        for (const POSTING *posting = postings + starts[batch[b]]; posting < last; posting++)
            own[*posting & PLACE_MASK] += (SUM)(count * (SUM)(*posting >> PLACE_BITS));
    }
}

/* Put the documents of a block that are better than the worst kept into the heap.

   A key is the score, and below it the document with its bits turned, so that of equal scores the
   lower document has the larger key. */
INLINE void NAME(keep_best)(const columns_t *columns, const query_t *query, const SUM *sums,
                            int64_t first, heap_t *heap) {
    int64_t size = columns->images - first < BLOCK ? columns->images - first : BLOCK;
    int64_t least = least_score(heap);
    for (int64_t place = 0; place < size; place++) {
        if (sums[place] < least) continue;
        int64_t document = columns->order[first + place];
        int64_t key = ((int64_t)sums[place] << 32) | (~document & 0xFFFFFFFF);
        if (key > heap->keys[0] && (!query->allowed || query->allowed[document])) {
            replace_worst(heap, key);
            least = least_score(heap);
        }
    }
}

/* Request what the dense columns have of a block. Pieces of 32 bytes lie far apart: a search would
   wait for memory most of its time. */
INLINE void NAME(prefetch_dense)(const columns_t *columns, const query_t *query, int64_t first) {
    const IMPACT *dense = columns->dense;
    for (int64_t i = 0; i < query->dense; i++)
        PREFETCH(dense + query->rows[i] * columns->superblocks * SUPERBLOCK + first);
}

/* Add what the dense columns have of a block to its sums. */
INLINE void NAME(add_dense)(const columns_t *columns, const query_t *query, int64_t first,
                            SUM *sums) {
    const IMPACT *dense = columns->dense;
    const SUM *counts = query->counts;
    for (int64_t i = 0; i < query->dense; i++)
        NAME(add)(sums, dense + query->rows[i] * columns->superblocks * SUPERBLOCK + first,
                  counts[i], BLOCK);
}

/* Finish the blocks of some superblocks that may still enter the heap. */
INLINE void NAME(finish_blocks)(const columns_t *columns, const query_t *query,
                                const int64_t *batch, int64_t size, SUM sums[][SUPERBLOCK],
                                SUM bounds[][BLOCKS], heap_t *heap) {
    int64_t chosen[BATCH * BLOCKS], count = 0, least = least_score(heap);
    for (int64_t place = 0; place < size * BLOCKS; place++) {
        chosen[count] = place;
        count += bounds[place / BLOCKS][place % BLOCKS] >= least;
    }
    for (int64_t turn = 0; turn < count + AHEAD; turn++) {
        if (turn < count) {
            int64_t place = chosen[turn];
            NAME(prefetch_dense)(columns, query, batch[place / BLOCKS] * SUPERBLOCK +
                                                     place % BLOCKS * BLOCK);
        }
        if (turn < AHEAD) continue;
        int64_t b = chosen[turn - AHEAD] / BLOCKS, block = chosen[turn - AHEAD] % BLOCKS;
        if (bounds[b][block] < least_score(heap)) continue;
        SUM *own = sums[b] + block * BLOCK;
        int64_t first = batch[b] * SUPERBLOCK + block * BLOCK;
        NAME(add_dense)(columns, query, first, own);
        NAME(keep_best)(columns, query, own, first, heap);
    }
}

/* Sum the lists of some superblocks exactly, bound what the dense columns add, and finish the
   blocks that may still enter the heap. */
INLINE void NAME(score_batch)(const columns_t *columns, const query_t *query,
                              const int64_t *batch, int64_t size, heap_t *heap) {
    SUM sums[BATCH][SUPERBLOCK], bounds[BATCH][BLOCKS];
    const SUM *counts = query->counts;
    const IMPACT *block_maxima = columns->block_maxima;
    memset(sums, 0, size * sizeof *sums);
    for (int64_t i = query->dense; i < query->terms; i++)
        NAME(add_postings)(columns, query->rows[i] - columns->dense_rows, counts[i], batch, size,
                           sums);
    for (int64_t b = 0; b < size; b++)
        for (int block = 0; block < BLOCKS; block++) {
            SUM largest = 0, *own = sums[b] + block * BLOCK;
            for (int place = 0; place < BLOCK; place++)
                largest = own[place] > largest ? own[place] : largest;
            bounds[b][block] = largest;
        }
    for (int64_t i = 0; i < query->dense; i++) {
        const IMPACT *maxima = block_maxima + query->rows[i] * columns->superblocks * BLOCKS;
        for (int64_t b = 0; b < size; b++)
            NAME(add)(bounds[b], maxima + batch[b] * BLOCKS, counts[i], BLOCKS);
    }
    NAME(finish_blocks)(columns, query, batch, size, sums, bounds, heap);
}

/* Score the superblocks with least <= bound < below that may still enter the heap. They come as
   they lie in memory, which reads ahead where few are skipped. */
INLINE void NAME(score_between)(const columns_t *columns, const query_t *query, const SUM *bounds,
                                int64_t least, int64_t below, heap_t *heap) {
    int64_t batch[BATCH], filled = 0;
    if (least < least_score(heap)) least = least_score(heap);
    for (int64_t s = 0; s < columns->superblocks; s++) {
        if (bounds[s] < least || bounds[s] >= below) continue;
        batch[filled++] = s;
        if (filled == BATCH) {
            NAME(score_batch)(columns, query, batch, filled, heap);
            filled = 0;
            if (least < least_score(heap)) least = least_score(heap);
        }
    }
    if (filled) NAME(score_batch)(columns, query, batch, filled, heap);
}

CLONED static void NAME(best_documents)(const columns_t *columns, const query_t *query,
                                        void *scratch, heap_t *heap) {
    SUM *bounds = scratch;
    NAME(superblock_bounds)(columns, query, bounds);
    int64_t least = NAME(leading_bound)(bounds, columns->superblocks);
    if (least < 1) least = 1;
    NAME(score_between)(columns, query, bounds, least, INT64_MAX, heap);
    NAME(score_between)(columns, query, bounds, 1, least, heap);
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
    int64_t superblock = position / SUPERBLOCK, place = position % SUPERBLOCK;
    int64_t listed = row - columns->dense_rows;
    if (row < 0) return 0;
    if (listed < 0)
        return ((const IMPACT *)columns
                    ->dense)[(row * columns->superblocks + superblock) * SUPERBLOCK + place];
    const uint32_t *starts = columns->starts + listed * (columns->superblocks + 1) + superblock;
    const POSTING *postings = (const POSTING *)columns->postings + columns->bases[listed];
    for (uint32_t posting = starts[0]; posting < starts[1]; posting++)
        if ((postings[posting] & PLACE_MASK) == place) return postings[posting] >> PLACE_BITS;
    return 0;
}

/* Impacts of all documents for the term of a row. */
INLINE void NAME(impacts_of_row)(const columns_t *columns, int64_t row, uint16_t *impacts) {
    int64_t listed = row - columns->dense_rows;
    if (listed < 0) {
        const IMPACT *dense = columns->dense;
        dense += row * columns->superblocks * SUPERBLOCK;
        for (int64_t position = 0; position < columns->images; position++)
            impacts[columns->order[position]] = dense[position];
        return;
    }
    const uint32_t *starts = columns->starts + listed * (columns->superblocks + 1);
    const POSTING *postings = (const POSTING *)columns->postings + columns->bases[listed];
    memset(impacts, 0, columns->images * sizeof *impacts);
    for (int64_t s = 0; s < columns->superblocks; s++)
        for (uint32_t at = starts[s]; at < starts[s + 1]; at++) {
            int64_t position = s * SUPERBLOCK + (postings[at] & PLACE_MASK);
            impacts[columns->order[position]] = (uint16_t)(postings[at] >> PLACE_BITS);
        }
}
