/* The search of columns, compiled ahead of time: indexer/columns/native/__init__.py calls it.

   Arrays are passed as buffers in C order, columns as the tuple `Columns` of layout.py, whose files
   were checked to fit together. Every function lets other threads run while it computes. */

#define PY_SSIZE_T_CLEAN
#define Py_LIMITED_API 0x030b0000
#include <Python.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

enum { SUPERBLOCK = 255, PLACES = 256 }; /* images, and places for them */
enum { GROUP = 32 }; /* superblocks that share an anchor */
enum { PLACE_BITS = 8, PLACE_MASK = (1 << PLACE_BITS) - 1 };
enum { LEADERS = 32 }; /* superblocks of the highest bounds, scored first */
enum { BATCH = 64 }; /* superblocks scored term by term; a power of two */
enum { MANY = 32 }; /* images of a superblock whose impacts are added up one by one */
enum { BUCKETS = 256 };
enum { FEW = 4 }; /* in place of MANY where AVX2 adds impacts up: it pays from fewer images on */
enum { LIST_COST = 24 }; /* postings that take as long as finding a list's place in memory */
enum { AHEAD = 2 }; /* superblocks whose levels are requested from memory before their turn */

#if defined(__GNUC__)
#define INLINE static inline __attribute__((always_inline))
#define PREFETCH(address) __builtin_prefetch(address)
#define UNROLLED _Pragma("GCC unroll 8")
#define ALIGNED __attribute__((aligned(64))) /* what crosses a line of the cache takes longer */
#else
#define INLINE static inline
#define PREFETCH(address) ((void)(address))
#define UNROLLED
#define ALIGNED
#endif
/* One version for each kind of processor, chosen when the library is loaded. */
#if defined(__x86_64__) && defined(__linux__) && defined(__GLIBC__) && defined(__GNUC__)
#include <immintrin.h>
#define CLONED __attribute__((target_clones("avx2", "default")))
#define AVX2 __attribute__((target("avx2,popcnt")))
static int has_avx2;
#else
#define CLONED
#endif

typedef struct {
    int64_t images, superblocks, vocabulary, rows, dense_rows, levelled;
    int wide; /* impacts of 16 bits */
    const int32_t *order, *row_of;
    const void *maxima;
    const int64_t *bases;
    const uint32_t *anchors;
    const uint16_t *steps;
    const uint8_t *sizes, *levels, *bitmaps;
    const void *impacts, *postings;
} columns_t;

typedef struct {
    int64_t terms, dense;                 /* how many, and how many of them in dense rows */
    const int64_t *rows;                  /* rising */
    const void *counts;                   /* uint16 or uint32 */
    const uint8_t *allowed, *occupied;    /* by document, by superblock; NULL for all */
} query_t;

typedef struct {
    int64_t images, capacity, least;
    const void *impacts;
} newest_t;

typedef struct {
    int64_t size;
    int64_t *keys;
} heap_t;

/* Put a key in the place of the smallest, which a heap has first. */
INLINE void replace_worst(heap_t *heap, int64_t key) {
    int64_t place = 0, child, *keys = heap->keys;
    while ((child = 2 * place + 1) < heap->size) {
        if (child + 1 < heap->size && keys[child + 1] < keys[child]) child++;
        if (keys[child] >= key) break;
        keys[place] = keys[child];
        place = child;
    }
    keys[place] = key;
}

INLINE int may_be_found(const columns_t *columns, const query_t *query, int64_t position) {
    return position < columns->images &&
           (!query->allowed || query->allowed[columns->order[position]]);
}

#include "best.h"
#include "levels.h"

/* How many images of each superblock of a group have the term of a row. */
INLINE const uint8_t *group_of(const columns_t *columns, int64_t row, int64_t superblock) {
    int64_t groups = columns->superblocks / GROUP + 1;
    return columns->sizes + (row * groups + (int64_t)((uint64_t)superblock / GROUP)) * GROUP;
}

INLINE int size_of(const columns_t *columns, int64_t row, int64_t superblock) {
    return group_of(columns, row, superblock)[superblock % GROUP];
}

/* The sum of the first sizes of a group. */
INLINE int sum_of(const uint8_t *sizes, int count) {
    static const uint8_t counted[2 * GROUP] = {
        255, 255, 255, 255, 255, 255, 255, 255, 255, 255, 255, 255, 255, 255, 255, 255,
        255, 255, 255, 255, 255, 255, 255, 255, 255, 255, 255, 255, 255, 255, 255, 255};
#ifdef AVX2
    const __m128i *own = (const __m128i *)sizes;
    const __m128i *mask = (const __m128i *)(counted + GROUP - count), zero = _mm_setzero_si128();
    __m128i low = _mm_and_si128(_mm_loadu_si128(own), _mm_loadu_si128(mask));
    __m128i high = _mm_and_si128(_mm_loadu_si128(own + 1), _mm_loadu_si128(mask + 1));
    __m128i sum = _mm_add_epi64(_mm_sad_epu8(low, zero), _mm_sad_epu8(high, zero));
    return _mm_cvtsi128_si32(_mm_add_epi64(sum, _mm_unpackhi_epi64(sum, sum)));
#else
    int sum = 0;
    for (int i = 0; i < GROUP; i++) sum += sizes[i] & counted[GROUP - count + i];
    return sum;
#endif
}

/* Where a superblock of a row begins, in impacts or in postings. */
INLINE int64_t start_of(const columns_t *columns, int64_t row, int64_t superblock) {
    int64_t groups = columns->superblocks / GROUP + 1;
    int64_t group = (int64_t)((uint64_t)superblock / GROUP); /* unsigned: a shift */
    return columns->bases[row] + columns->anchors[row * groups + group] +
           sum_of(group_of(columns, row, superblock), (int)(superblock % GROUP));
}

/* A dense row's levels, or its bitmap, from a superblock on. */
INLINE const uint8_t *levels_in(const columns_t *columns, int64_t row, int64_t superblock) {
    return columns->levels + (row * columns->superblocks + superblock) * HALF;
}

INLINE const uint8_t *bitmap_in(const columns_t *columns, int64_t row, int64_t superblock) {
    return columns->bitmaps +
           ((row - columns->levelled) * columns->superblocks + superblock) * BITMAP;
}

/* The level that bounds the impact of the image at a place, 0 if it lacks the term. */
INLINE int bound_at(const filter_t *filter, int64_t row, int64_t superblock, int place) {
    if (row < filter->levelled) return level_at(filter->levels[row] + superblock * HALF, place);
    const uint8_t *bitmap = filter->bitmaps[row] + superblock * BITMAP;
    return has_bit(bitmap, place) * top_of(bitmap, place / BLOCK);
}

#define JOIN_(name, widths) name##_##widths
#define JOIN(name, widths) JOIN_(name, widths)
#define NAME(name) JOIN(name, WIDTHS)

#define IMPACT uint8_t
#define POSTING uint16_t
#define SUM uint16_t
#define WIDTHS 8_16
#include "search.h"
#undef SUM
#undef WIDTHS
#define SUM uint32_t
#define WIDTHS 8_32
#include "search.h"
#undef IMPACT
#undef POSTING
#undef SUM
#undef WIDTHS
#define IMPACT uint16_t
#define POSTING uint32_t
#define SUM uint16_t
#define WIDTHS 16_16
#include "search.h"
#undef SUM
#undef WIDTHS
#define SUM uint32_t
#define WIDTHS 16_32
#include "search.h"

/* ---- buffers ---------------------------------------------------------------------------------- */

enum {
    ORDER, ROW_OF, MAXIMA, BASES, ANCHORS, SIZES, STEPS, LEVELS, BITMAPS, IMPACTS, POSTINGS, ARRAYS
};
enum { MOST = ARRAYS + 3 };

typedef struct {
    Py_buffer views[MOST];
    int count;
} buffers_t;

static void release(buffers_t *buffers) {
    while (buffers->count) PyBuffer_Release(&buffers->views[--buffers->count]);
}

/* The memory of an array in C order; NULL with an exception set if it is none. */
static Py_buffer *acquire(buffers_t *buffers, PyObject *array, int flags) {
    Py_buffer *view = &buffers->views[buffers->count];
    if (PyObject_GetBuffer(array, view, flags | PyBUF_ND) < 0) return NULL;
    buffers->count++;
    return view;
}

/* 1 if the first arrays were acquired to be read and the others to be written, 0 with an exception
   set. */
static int acquire_all(buffers_t *buffers, PyObject **arrays, int readable, int writable,
                       Py_buffer **views) {
    for (int i = 0; i < readable + writable; i++) {
        views[i] = acquire(buffers, arrays[i], i < readable ? PyBUF_SIMPLE : PyBUF_WRITABLE);
        if (!views[i]) return 0;
    }
    return 1;
}

static int64_t length(const Py_buffer *view) { return view->len / view->itemsize; }

/* 1 if the arrays of a tuple `Columns` were acquired, 0 with an exception set. */
static int read_columns(PyObject *tuple, buffers_t *buffers, columns_t *columns) {
    Py_buffer *views[ARRAYS];
    if (!PyTuple_Check(tuple) || PyTuple_Size(tuple) != ARRAYS) {
        PyErr_Format(PyExc_TypeError, "columns are a tuple of %d arrays", ARRAYS);
        return 0;
    }
    for (int i = 0; i < ARRAYS; i++)
        if (!(views[i] = acquire(buffers, PyTuple_GetItem(tuple, i), PyBUF_SIMPLE))) return 0;
    columns->images = length(views[ORDER]);
    columns->superblocks = (columns->images + SUPERBLOCK - 1) / SUPERBLOCK;
    columns->vocabulary = length(views[ROW_OF]);
    columns->rows = views[MAXIMA]->shape[0];
    columns->dense_rows = views[STEPS]->shape[0];
    columns->wide = views[MAXIMA]->itemsize == 2;
    columns->order = views[ORDER]->buf;
    columns->row_of = views[ROW_OF]->buf;
    columns->maxima = views[MAXIMA]->buf;
    columns->bases = views[BASES]->buf;
    columns->anchors = views[ANCHORS]->buf;
    columns->sizes = views[SIZES]->buf;
    columns->steps = views[STEPS]->buf;
    columns->levelled = views[LEVELS]->shape[0];
    columns->levels = views[LEVELS]->buf;
    columns->bitmaps = views[BITMAPS]->buf;
    columns->impacts = views[IMPACTS]->buf;
    columns->postings = views[POSTINGS]->buf;
    return 1;
}

/* ---- columns that are read again and again -------------------------------------------------------- */

typedef struct {
    buffers_t buffers;
    columns_t columns;
} opened_t;

static void close_columns(PyObject *capsule) {
    opened_t *opened = PyCapsule_GetPointer(capsule, NULL);
    release(&opened->buffers);
    free(opened);
}

static PyObject *open_columns(PyObject *self, PyObject *tuple) {
    opened_t *opened = calloc(1, sizeof *opened);
    if (!opened) return PyErr_NoMemory();
    PyObject *capsule = NULL;
    if (read_columns(tuple, &opened->buffers, &opened->columns))
        capsule = PyCapsule_New(opened, NULL, close_columns);
    if (!capsule) {
        release(&opened->buffers);
        free(opened);
    }
    return capsule;
}

/* An array's memory, NULL for an empty one, which stands for "all". */
static const void *unless_empty(const Py_buffer *view) { return view->len ? view->buf : NULL; }

static int all_within(const int64_t *numbers, int64_t count, int64_t least, int64_t below) {
    for (int64_t i = 0; i < count; i++)
        if (numbers[i] < least || numbers[i] >= below) {
            PyErr_Format(PyExc_ValueError, "%lld is not from %lld to %lld", (long long)numbers[i],
                         (long long)least, (long long)below - 1);
            return 0;
        }
    return 1;
}

#define BY_WIDTH(wide, wide_sums, call)     \
    do {                                    \
        if (!(wide) && !(wide_sums))        \
            call(8_16);                     \
        else if (!(wide))                   \
            call(8_32);                     \
        else if (!(wide_sums))              \
            call(16_16);                    \
        else                                \
            call(16_32);                    \
    } while (0)

/* ---- the best documents ------------------------------------------------------------------------- */

typedef struct {
    const int64_t *terms; /* ids of the vocabulary */
    const void *counts;
    int64_t size, k;
    int wide_sums;
} words_t;

/* Memory of one search: rows and counts of a segment, its levels, bounds or sums, the best keys, and
   a heap of the k best scores of all segments. */
typedef struct {
    int64_t *rows, *keys, *best;
    void *counts, *sums;
    filter_t filter;
} scratch_t;

static void free_scratch(scratch_t *scratch) {
    free(scratch->rows);
    free(scratch->keys);
    free(scratch->best);
    free(scratch->counts);
    free(scratch->sums);
    free(scratch->filter.levels);
    free(scratch->filter.bitmaps);
    free(scratch->filter.steps);
    free(scratch->filter.shares);
    free(scratch->filter.lists);
    free(scratch->filter.gains);
    free(scratch->filter.impacts);
}

static int make_scratch(scratch_t *scratch, int64_t terms, int64_t k, int64_t sums) {
    scratch->rows = malloc((terms + 1) * sizeof(int64_t));
    scratch->counts = malloc((terms + 1) * sizeof(uint32_t));
    scratch->keys = malloc(best_room(k) * sizeof(int64_t));
    scratch->best = malloc((k + 1) * sizeof(int64_t));
    scratch->sums = malloc((sums + 1) * sizeof(uint32_t));
    scratch->filter.levels = malloc((terms + 1) * sizeof *scratch->filter.levels);
    scratch->filter.bitmaps = malloc((terms + 1) * sizeof *scratch->filter.bitmaps);
    scratch->filter.steps = malloc((terms + 1) * sizeof *scratch->filter.steps);
    scratch->filter.shares = malloc((terms + 1) * sizeof *scratch->filter.shares);
    scratch->filter.lists = malloc((terms + 1) * sizeof *scratch->filter.lists);
    scratch->filter.gains = malloc((terms + 1) * sizeof *scratch->filter.gains);
    scratch->filter.impacts = malloc((terms + 1) * sizeof *scratch->filter.impacts);
    if (scratch->rows && scratch->counts && scratch->keys && scratch->best && scratch->sums &&
        scratch->filter.levels && scratch->filter.bitmaps && scratch->filter.steps &&
        scratch->filter.shares && scratch->filter.lists && scratch->filter.gains &&
        scratch->filter.impacts)
        return 1;
    free_scratch(scratch);
    PyErr_NoMemory();
    return 0;
}

/* The rows that a segment has of the words, rising, with the words' counts. */
static query_t rows_of(const columns_t *columns, const words_t *words, scratch_t *scratch) {
    query_t query = {.rows = scratch->rows, .counts = scratch->counts};
    for (int64_t i = 0; i < words->size; i++) {
        int64_t row = columns->row_of[words->terms[i]], place = query.terms;
        if (row < 0) continue;
        query.terms++;
        for (; place > 0 && scratch->rows[place - 1] > row; place--) {
            scratch->rows[place] = scratch->rows[place - 1];
            if (words->wide_sums)
                ((uint32_t *)scratch->counts)[place] = ((uint32_t *)scratch->counts)[place - 1];
            else
                ((uint16_t *)scratch->counts)[place] = ((uint16_t *)scratch->counts)[place - 1];
        }
        scratch->rows[place] = row;
        if (words->wide_sums)
            ((uint32_t *)scratch->counts)[place] = ((const uint32_t *)words->counts)[i];
        else
            ((uint16_t *)scratch->counts)[place] = ((const uint16_t *)words->counts)[i];
        query.dense += row < columns->dense_rows;
    }
    return query;
}

/* The best documents of a segment that reach the floor, falling; returns how many. */
static int64_t search_segment(const columns_t *columns, query_t *query, const words_t *words,
                              int64_t floor, scratch_t *scratch, int32_t *documents,
                              int64_t *scores) {
    int64_t k = words->k < columns->images ? words->k : columns->images, found = 0;
    /* Every key of the floor's score is larger than this one. */
    best_t best = {.k = k, .room = best_room(k), .worst = floor << 32, .keys = scratch->keys};
    if (!k) return 0;
#define CALL(widths) JOIN(best_documents, widths)(columns, query, &scratch->filter, scratch->sums, &best)
    BY_WIDTH(columns->wide, words->wide_sums, CALL);
#undef CALL
    sort_keys(best.keys, best.size);
    for (; found < k && found < best.size; found++) {
        documents[found] = (int32_t)(~best.keys[found] & 0xFFFFFFFF);
        scores[found] = best.keys[found] >> 32;
    }
    return found;
}

/* The k-th best score of the segments searched so far is the floor of the next one. */
static int64_t search_all(const columns_t *const *segments, int64_t count, const int64_t *firsts,
                          const words_t *words, const uint8_t *allowed, const uint8_t *occupied,
                          scratch_t *scratch, int32_t *documents, int64_t *scores) {
    heap_t best = {.size = words->k, .keys = scratch->best};
    int64_t found = 0;
    for (int64_t i = 0; i < words->k; i++) best.keys[i] = 0;
    for (int64_t n = 0; n < count; n++) {
        const columns_t *columns = segments[n];
        query_t query = rows_of(columns, words, scratch);
        query.allowed = allowed ? allowed + firsts[n] : NULL;
        query.occupied = occupied;
        int64_t own = search_segment(columns, &query, words, best.keys[0], scratch,
                                     documents + found, scores + found);
        for (int64_t i = 0; i < own; i++, found++) {
            documents[found] += (int32_t)firsts[n];
            if (scores[found] > best.keys[0]) replace_worst(&best, scores[found]);
        }
        if (occupied) occupied += columns->superblocks;
    }
    return found;
}

static PyObject *best_documents(PyObject *self, PyObject *arguments) {
    PyObject *list, *arrays[7], *result = NULL;
    long long k;
    buffers_t buffers = {.count = 0};
    const columns_t **segments = NULL;
    Py_buffer *views[7];
    scratch_t scratch;
    if (!PyArg_ParseTuple(arguments, "O!OOOOOLOO", &PyList_Type, &list, &arrays[0], &arrays[1],
                          &arrays[2], &arrays[3], &arrays[4], &k, &arrays[5], &arrays[6]))
        return NULL;
    int64_t count = PyList_Size(list), widest = 0, vocabulary = INT64_MAX, room = 0;
    if (!acquire_all(&buffers, arrays, 5, 2, views)) goto done;
    segments = calloc(count + 1, sizeof *segments);
    if (!segments) {
        PyErr_NoMemory();
        goto done;
    }
    for (int64_t n = 0; n < count; n++) {
        opened_t *opened = PyCapsule_GetPointer(PyList_GetItem(list, n), NULL);
        if (!opened) goto done;
        const columns_t *columns = segments[n] = &opened->columns;
        if (columns->superblocks > widest) widest = columns->superblocks;
        if (columns->vocabulary < vocabulary) vocabulary = columns->vocabulary;
        room += k < columns->images ? k : columns->images;
    }
    words_t words = {.terms = views[1]->buf, .counts = views[2]->buf, .size = length(views[1]),
                     .k = k, .wide_sums = views[2]->itemsize == 4};
    if (!all_within(words.terms, words.size, 0, vocabulary)) goto done;
    if (length(views[0]) < count || length(views[5]) < room || length(views[6]) < room) {
        PyErr_SetString(PyExc_ValueError, "an array is too short");
        goto done;
    }
    if (!make_scratch(&scratch, words.size, k, widest)) goto done;
    int64_t found = 0;
    Py_BEGIN_ALLOW_THREADS;
    found = search_all(segments, count, views[0]->buf, &words, unless_empty(views[3]),
                       unless_empty(views[4]), &scratch, views[5]->buf, views[6]->buf);
    free_scratch(&scratch);
    Py_END_ALLOW_THREADS;
    result = PyLong_FromLongLong(found);
done:
    free(segments);
    release(&buffers);
    return result;
}

static PyObject *best_of_newest(PyObject *self, PyObject *arguments) {
    PyObject *arrays[6], *result = NULL;
    long long images, k, floor;
    buffers_t buffers = {.count = 0};
    Py_buffer *views[6];
    scratch_t scratch;
    if (!PyArg_ParseTuple(arguments, "OLOOOLLOO", &arrays[0], &images, &arrays[1], &arrays[2],
                          &arrays[3], &k, &floor, &arrays[4], &arrays[5]))
        return NULL;
    if (!acquire_all(&buffers, arrays, 4, 2, views)) goto done;
    newest_t newest = {.images = images, .capacity = views[0]->shape[1],
                       .least = floor > 1 ? floor : 1, .impacts = views[0]->buf};
    query_t query = {.terms = length(views[1]), .rows = views[1]->buf, .counts = views[2]->buf,
                     .allowed = unless_empty(views[3])};
    int wide = views[0]->itemsize == 2, wide_sums = views[2]->itemsize == 4;
    if (!all_within(query.rows, query.terms, 0, views[0]->shape[0])) goto done;
    if (!make_scratch(&scratch, 0, k, images)) goto done;
    heap_t heap = {.size = k, .keys = scratch.keys};
    int64_t found = 0;
    Py_BEGIN_ALLOW_THREADS;
    for (int64_t i = 0; i < k; i++) heap.keys[i] = newest.least - 1;
#define CALL(widths)                                                                       \
    found = JOIN(best_of_newest, widths)(&newest, &query, scratch.sums, &heap, views[4]->buf, \
                                         views[5]->buf)
    if (k > 0) BY_WIDTH(wide, wide_sums, CALL);
#undef CALL
    free_scratch(&scratch);
    Py_END_ALLOW_THREADS;
    result = PyLong_FromLongLong(found);
done:
    release(&buffers);
    return result;
}

/* ---- single impacts ------------------------------------------------------------------------------ */

static PyObject *impacts_at(PyObject *self, PyObject *arguments) {
    PyObject *tuple, *arrays[3], *result = NULL;
    buffers_t buffers = {.count = 0};
    Py_buffer *views[3];
    columns_t columns;
    if (!PyArg_ParseTuple(arguments, "OOOO", &tuple, &arrays[0], &arrays[1], &arrays[2]))
        return NULL;
    if (!read_columns(tuple, &buffers, &columns)) goto done;
    if (!acquire_all(&buffers, arrays, 2, 1, views)) goto done;
    const int64_t *positions = views[0]->buf, *rows = views[1]->buf;
    int64_t documents = length(views[0]), terms = length(views[1]), *impacts = views[2]->buf;
    if (!all_within(rows, terms, -1, columns.rows)) goto done;
    if (!all_within(positions, documents, 0, columns.images)) goto done;
    for (int64_t i = 0; i < documents; i++)
        for (int64_t j = 0; j < terms; j++)
            *impacts++ = columns.wide ? impact_at_16_32(&columns, rows[j], positions[i])
                                      : impact_at_8_32(&columns, rows[j], positions[i]);
    result = Py_NewRef(Py_None);
done:
    release(&buffers);
    return result;
}

static PyObject *impacts_of_row(PyObject *self, PyObject *arguments) {
    PyObject *tuple, *array, *result = NULL;
    long long row;
    buffers_t buffers = {.count = 0};
    Py_buffer *impacts;
    columns_t columns;
    if (!PyArg_ParseTuple(arguments, "OLO", &tuple, &row, &array)) return NULL;
    if (!read_columns(tuple, &buffers, &columns)) goto done;
    if (!acquire_all(&buffers, &array, 0, 1, &impacts)) goto done;
    int64_t number = row;
    if (!all_within(&number, 1, 0, columns.rows)) goto done;
    Py_BEGIN_ALLOW_THREADS;
    if (columns.wide)
        impacts_of_row_16_32(&columns, number, impacts->buf);
    else
        impacts_of_row_8_32(&columns, number, impacts->buf);
    Py_END_ALLOW_THREADS;
    result = Py_NewRef(Py_None);
done:
    release(&buffers);
    return result;
}

static PyObject *occupied(PyObject *self, PyObject *arguments) {
    PyObject *arrays[3], *result = NULL;
    buffers_t buffers = {.count = 0};
    Py_buffer *views[3];
    if (!PyArg_ParseTuple(arguments, "OOO", &arrays[0], &arrays[1], &arrays[2])) return NULL;
    if (!acquire_all(&buffers, arrays, 2, 1, views)) goto done;
    const int32_t *order = views[0]->buf;
    const uint8_t *allowed = views[1]->buf;
    uint8_t *found = views[2]->buf;
    int64_t images = length(views[0]);
    Py_BEGIN_ALLOW_THREADS;
    for (int64_t first = 0; first < images; first += SUPERBLOCK) {
        int64_t place = first, last = first + SUPERBLOCK < images ? first + SUPERBLOCK : images;
        while (place < last && !allowed[order[place]]) place++;
        found[first / SUPERBLOCK] = place < last;
    }
    Py_END_ALLOW_THREADS;
    result = Py_NewRef(Py_None);
done:
    release(&buffers);
    return result;
}

/* ---- a piece of text in many words --------------------------------------------------------------- */

enum { SIGN, LETTER };                /* classes of bytes, and results: as in filters/words.py */
enum { NOT_FOUND, FOUND, UNDECIDED };

static uint8_t piece_in(const uint8_t *texts, int64_t begin, int64_t end, const uint8_t *piece,
                        int64_t size, const int64_t *steps, const uint8_t *classes) {
    uint8_t result = NOT_FOUND, last = piece[size - 1];
    for (int64_t place = begin; place + size <= end;) {
        uint8_t byte = texts[place + size - 1];
        if (byte == last && !memcmp(texts + place, piece, size)) {
            uint8_t before = place > begin ? classes[texts[place - 1]] : SIGN;
            uint8_t behind = place + size < end ? classes[texts[place + size]] : SIGN;
            if (before == SIGN && behind == SIGN) return FOUND;
            if (before != LETTER && behind != LETTER) result = UNDECIDED;
        }
        place += steps[byte];
    }
    return result;
}

static PyObject *find_piece(PyObject *self, PyObject *arguments) {
    PyObject *arrays[5], *result = NULL;
    buffers_t buffers = {.count = 0};
    Py_buffer *views[5];
    if (!PyArg_ParseTuple(arguments, "OOOOO", &arrays[0], &arrays[1], &arrays[2], &arrays[3],
                          &arrays[4]))
        return NULL;
    if (!acquire_all(&buffers, arrays, 4, 1, views)) goto done;
    const uint8_t *texts = views[0]->buf, *piece = views[2]->buf, *classes = views[3]->buf;
    const int32_t *starts = views[1]->buf;
    uint8_t *found = views[4]->buf;
    int64_t size = length(views[2]), words = length(views[4]), bytes = length(views[0]);
    if (size < 1 || length(views[1]) <= words || length(views[3]) < 256) {
        PyErr_SetString(PyExc_ValueError, "an array is too short");
        goto done;
    }
    int64_t steps[256], damaged = 0;
    for (int byte = 0; byte < 256; byte++) steps[byte] = size;
    for (int64_t place = 0; place < size - 1; place++) steps[piece[place]] = size - 1 - place;
    Py_BEGIN_ALLOW_THREADS;
    for (int64_t word = 0; word < words && !damaged; word++) {
        int64_t begin = starts[word], end = starts[word + 1];
        damaged = begin < 0 || end < begin || end > bytes;
        if (!damaged) found[word] = piece_in(texts, begin, end, piece, size, steps, classes);
    }
    Py_END_ALLOW_THREADS;
    if (damaged)
        PyErr_SetString(PyExc_ValueError, "a word is not within the texts");
    else
        result = Py_NewRef(Py_None);
done:
    release(&buffers);
    return result;
}

/* ---- columns from postings ------------------------------------------------------------------------ */

#include "passes.h"

/* ---- what won the terms of images ---------------------------------------------------------------- */

#include "winners.h"

static PyObject *find_winners(PyObject *self, PyObject *arguments) {
    PyObject *arrays[11], *result = NULL;
    buffers_t buffers = {.count = 0};
    Py_buffer *views[11];
    int64_t *scratch = NULL, places = 0, label_words = 0, wanted = 0, sound = 1;
    if (!PyArg_ParseTuple(arguments, "OOOOOOOOOOO", &arrays[0], &arrays[1], &arrays[2], &arrays[3],
                          &arrays[4], &arrays[5], &arrays[6], &arrays[7], &arrays[8], &arrays[9],
                          &arrays[10]))
        return NULL;
    if (!acquire_all(&buffers, arrays, 5, 6, views)) goto done;
    winning_t winning = {
        .data = views[0]->buf, .at = views[1]->buf, .terms = views[2]->buf,
        .order = views[3]->buf, .wanted = views[4]->buf, .images = views[1]->shape[0],
        .count = length(views[2]), .won = views[5]->buf, .regions = views[6]->buf,
        .corners = views[7]->buf, .tokens = views[8]->buf, .labels = views[9]->buf,
        .words = views[10]->buf,
    };
    if (!all_within(winning.order, winning.count, 0, winning.count)) goto done;
    for (int64_t i = 0; i < length(views[4]); i++) wanted += winning.wanted[i] != 0;
    if (length(views[1]) != winning.images * (int64_t)(sizeof(layout_t) / sizeof(int64_t)) ||
        length(views[4]) != winning.images * winning.count || length(views[5]) < wanted ||
        length(views[6]) < wanted || length(views[7]) < 4 * wanted || length(views[8]) < wanted ||
        length(views[9]) < 2 * wanted)
        goto short_array;
    for (int64_t image = 0; image < winning.images; image++) {
        const layout_t *at = winning.at + image;
        if (!is_within(at, length(views[0]))) {
            PyErr_SetString(PyExc_ValueError, "a grounding is not within the data");
            goto done;
        }
        if (at->boxes + at->labels > places) places = at->boxes + at->labels;
        label_words += at->labels;
    }
    if (length(views[10]) < label_words) goto short_array;
    scratch = malloc((winning.count + 2 * places + 1) * sizeof *scratch);
    if (!scratch) {
        PyErr_NoMemory();
        goto done;
    }
    winning.positions = scratch;
    winning.number_of = scratch + winning.count;
    winning.labelled = winning.number_of + places;
    Py_BEGIN_ALLOW_THREADS;
    for (int64_t image = 0; image < winning.images && sound; image++)
        sound = find_in_image(&winning, image);
    Py_END_ALLOW_THREADS;
    if (sound)
        result = Py_BuildValue("LL", (long long)winning.winners, (long long)winning.labelled_words);
    else
        PyErr_SetString(PyExc_ValueError, "a grounding is damaged");
    goto done;
short_array:
    PyErr_SetString(PyExc_ValueError, "an array is too short");
done:
    free(scratch);
    release(&buffers);
    return result;
}

static PyObject *use_avx2(PyObject *self, PyObject *wanted) {
#ifdef AVX2
    int former = has_avx2, there = __builtin_cpu_supports("avx2") != 0;
    has_avx2 = there && PyObject_IsTrue(wanted) == 1;
    return PyBool_FromLong(former);
#else
    (void)wanted;
    return PyBool_FromLong(0);
#endif
}

static PyMethodDef methods[] = {
    {"open_columns", open_columns, METH_O, "(columns) -> what `best_documents` searches"},
    {"best_documents", best_documents, METH_VARARGS,
     "(segments, firsts, terms, counts, allowed, occupied, k, documents out, scores out) -> found"},
    {"best_of_newest", best_of_newest, METH_VARARGS,
     "(impacts, images, terms, counts, allowed, k, floor, documents out, scores out) -> found"},
    {"impacts_at", impacts_at, METH_VARARGS, "(columns, positions, rows, impacts out)"},
    {"impacts_of_row", impacts_of_row, METH_VARARGS, "(columns, row, impacts out)"},
    {"project", project, METH_VARARGS,
     "(starts, terms, impacts, directions or points, back, points or directions inout)"},
    {"transpose", transpose, METH_VARARGS,
     "(starts, numbers, values, starts out, numbers out, values out)"},
    {"survey", survey, METH_VARARGS,
     "(positions, starts, terms, impacts, first, row_of, maxima out, sizes out)"},
    {"fill", fill, METH_VARARGS,
     "(positions, starts, terms, impacts, first, row_of, steps, following inout, levels out, "
     "bitmaps out, impacts out, postings out)"},
    {"occupied", occupied, METH_VARARGS, "(order, allowed, superblocks out)"},
    {"find_piece", find_piece, METH_VARARGS, "(texts, starts, piece, classes, found out)"},
    {"find_winners", find_winners, METH_VARARGS,
     "(data, layouts, terms, order, wanted, won out, regions out, corners out, tokens out, labels "
     "out, words out) -> (winners, words)"},
    {"use_avx2", use_avx2, METH_O,
     "(wanted) -> whether it did: search with AVX2 where the processor has it, or without"},
    {NULL, NULL, 0, NULL},
};

static struct PyModuleDef definition = {
    PyModuleDef_HEAD_INIT, .m_name = "_native", .m_doc = "The search of columns, in C.",
    .m_size = -1, .m_methods = methods,
};

PyMODINIT_FUNC PyInit__native(void) {
#ifdef AVX2
    fill_spread();
    has_avx2 = __builtin_cpu_supports("avx2") != 0;
#endif
    return PyModule_Create(&definition);
}
