/* What builds columns: the two passes over the postings of some superblocks that lay them out,
   products with directions, which order the images, and transposes; see builder.py. */

typedef struct {
    int64_t images, first;     /* number of the first superblock */
    int64_t vocabulary, rows;
    const int32_t *positions;  /* of the images, counted from the first superblock */
    const int64_t *starts;
    const void *terms, *impacts;
    int wide_terms, wide;      /* of 32 bits, of 16 bits */
    const int32_t *row_of;
} stretch_t;

INLINE int impact_in(const stretch_t *own, int64_t posting) {
    return own->wide ? ((const uint16_t *)own->impacts)[posting]
                     : ((const uint8_t *)own->impacts)[posting];
}

INLINE int64_t term_in(const stretch_t *own, int64_t posting) {
    return own->wide_terms ? ((const uint32_t *)own->terms)[posting]
                           : ((const uint16_t *)own->terms)[posting];
}

/* The row of a posting's term; -1 if there is none, which a sound spool never has. */
INLINE int64_t row_in(const stretch_t *own, int64_t posting) {
    int64_t term = term_in(own, posting);
    int64_t row = term < own->vocabulary ? own->row_of[term] : -1;
    return row < own->rows ? row : -1;
}

/* The largest impacts of superblocks, and how many postings they have; 0 if something does not fit.
   Rows of the results are so many superblocks long. */
static int survey_postings(const stretch_t *own, void *maxima, int64_t superblocks, uint8_t *sizes,
                           int64_t padded) {
    for (int64_t image = 0; image < own->images; image++) {
        int64_t superblock = own->first + own->positions[image] / SUPERBLOCK;
        if (superblock >= superblocks) return 0;
        for (int64_t p = own->starts[image]; p < own->starts[image + 1]; p++) {
            int64_t row = row_in(own, p), cell = row * superblocks + superblock;
            int impact = impact_in(own, p);
            if (row < 0) return 0;
            sizes[row * padded + superblock]++;
            if (own->wide) {
                uint16_t *largest = (uint16_t *)maxima + cell;
                if (impact > *largest) *largest = (uint16_t)impact;
            } else {
                uint8_t *largest = (uint8_t *)maxima + cell;
                if (impact > *largest) *largest = (uint8_t)impact;
            }
        }
    }
    return 1;
}

typedef struct {
    int64_t superblocks, levelled, dense;
    int64_t room_dense, room_listed;      /* impacts and postings that there is room for */
    int64_t *following;                   /* where each row goes on */
    const int64_t *steps;
    uint8_t *levels, *bitmaps;
    void *impacts, *postings;
    uint16_t *kept;                       /* [levelled, GROUP, PLACES], of zeros */
} filling_t;

INLINE int level_of(const filling_t *made, int64_t row, int impact) {
    uint32_t step = (uint32_t)made->steps[row];
    return (int)(((uint32_t)impact + step - 1) / step);
}

INLINE int append_impact(const filling_t *made, int wide, int64_t row, int impact) {
    int64_t at = made->following[row]++;
    if (at < 0 || at >= made->room_dense) return 0;
    if (wide)
        ((uint16_t *)made->impacts)[at] = (uint16_t)impact;
    else
        ((uint8_t *)made->impacts)[at] = (uint8_t)impact;
    return 1;
}

INLINE int append_posting(const filling_t *made, int wide, int64_t row, int impact, int place) {
    int64_t at = made->following[row]++;
    if (at < 0 || at >= made->room_listed) return 0;
    uint32_t posting = (uint32_t)impact << PLACE_BITS | (uint32_t)place;
    if (wide)
        ((uint32_t *)made->postings)[at] = posting;
    else
        ((uint16_t *)made->postings)[at] = (uint16_t)posting;
    return 1;
}

INLINE void mark(uint8_t *bitmap, int place, int level) {
    int block = place / BLOCK, shift = 4 * (block % 2);
    bitmap[TOPS + place % BLOCK] |= (uint8_t)(1 << block);
    if (level > top_of(bitmap, block))
        bitmap[block / 2] = (uint8_t)((bitmap[block / 2] & ~(15 << shift)) | level << shift);
}

/* Levels and impacts of the rows with levels, which stand by place. */
static int finish_levels(const stretch_t *own, const filling_t *made) {
    for (int64_t row = 0; row < made->levelled; row++)
        for (int64_t s = 0; s < GROUP && own->first + s < made->superblocks; s++) {
            const uint16_t *kept = made->kept + (row * GROUP + s) * PLACES;
            uint8_t *levels = made->levels + (row * made->superblocks + own->first + s) * HALF;
            for (int place = 0; place < PLACES; place++) {
                if (!kept[place]) continue;
                int level = level_of(made, row, kept[place]);
                levels[place % HALF] |= (uint8_t)(level << 4 * (place / HALF));
                if (!append_impact(made, own->wide, row, kept[place])) return 0;
            }
        }
    return 1;
}

/* Dense rows and lists; the files are of zeros. 0 if something does not fit. */
static int fill_columns(const stretch_t *own, const filling_t *made) {
    for (int64_t image = 0; image < own->images; image++) {
        int64_t s = own->positions[image] / SUPERBLOCK;
        int place = own->positions[image] % SUPERBLOCK;
        if (s >= GROUP || own->first + s >= made->superblocks) return 0;
        for (int64_t p = own->starts[image]; p < own->starts[image + 1]; p++) {
            int64_t row = row_in(own, p);
            int impact = impact_in(own, p);
            if (row < 0) return 0;
            if (row < made->levelled) {
                made->kept[(row * GROUP + s) * PLACES + place] = (uint16_t)impact;
            } else if (row < made->dense) {
                int64_t cell = (row - made->levelled) * made->superblocks + own->first + s;
                int level = level_of(made, row, impact);
                mark(made->bitmaps + cell * BITMAP, place, level);
                if (!append_impact(made, own->wide, row, impact)) return 0;
            } else if (!append_posting(made, own->wide, row, impact, place)) {
                return 0;
            }
        }
    }
    return finish_levels(own, made);
}

/* 1 if starts, terms and impacts of images fit together, 0 with an exception set. */
static int read_postings(Py_buffer **views, stretch_t *own) {
    *own = (stretch_t){
        .images = length(views[0]) - 1, .starts = views[0]->buf, .terms = views[1]->buf,
        .impacts = views[2]->buf, .wide_terms = views[1]->itemsize == 4,
        .wide = views[2]->itemsize == 2,
    };
    int64_t postings = length(views[1]), after = 0;
    int sound = own->images >= 0 && length(views[2]) == postings;
    for (int64_t i = 0; sound && i <= own->images; i++) {
        sound = own->starts[i] >= after;
        after = own->starts[i];
    }
    if (!sound || after > postings) {
        PyErr_SetString(PyExc_ValueError, "the postings of images do not fit together");
        return 0;
    }
    return 1;
}

/* The same with positions before, and rows of terms behind. */
static int read_stretch(Py_buffer **views, long long first, stretch_t *own) {
    if (!read_postings(views + 1, own)) return 0;
    own->first = first;
    own->positions = views[0]->buf;
    own->row_of = views[4]->buf;
    own->vocabulary = length(views[4]);
    int sound = length(views[0]) == own->images && first >= 0;
    for (int64_t i = 0; sound && i < own->images; i++) sound = own->positions[i] >= 0;
    if (!sound) PyErr_SetString(PyExc_ValueError, "the positions of images do not fit together");
    return sound;
}

/* Images' impacts times directions, [vocabulary, size] float32: of each image the sum over its
   postings; or back, points of images times their impacts: of each term the sum over its images. */
static int project_postings(const stretch_t *own, int64_t size, int back, const float *from,
                            float *to) {
    for (int64_t image = 0; image < own->images; image++)
        for (int64_t p = own->starts[image]; p < own->starts[image + 1]; p++) {
            int64_t term = term_in(own, p);
            if (term >= own->vocabulary) return 0;
            const float *source = from + (back ? image : term) * size;
            float *sum = to + (back ? term : image) * size, impact = (float)impact_in(own, p);
            for (int64_t i = 0; i < size; i++) sum[i] += impact * source[i];
        }
    return 1;
}

static PyObject *project(PyObject *self, PyObject *arguments) {
    PyObject *arrays[5], *result = NULL;
    int back;
    buffers_t buffers = {.count = 0};
    Py_buffer *views[5];
    if (!PyArg_ParseTuple(arguments, "OOOOpO", &arrays[0], &arrays[1], &arrays[2], &arrays[3],
                          &back, &arrays[4]))
        return NULL;
    if (!acquire_all(&buffers, arrays, 4, 1, views)) goto done;
    stretch_t own;
    if (!read_postings(views, &own)) goto done;
    int64_t images = views[back ? 3 : 4]->shape[0], size = views[3]->shape[1];
    own.vocabulary = views[back ? 4 : 3]->shape[0];
    int fits = images == own.images && size == views[4]->shape[1];
    Py_BEGIN_ALLOW_THREADS;
    fits = fits && project_postings(&own, size, back, views[3]->buf, views[4]->buf);
    Py_END_ALLOW_THREADS;
    if (fits)
        result = Py_NewRef(Py_None);
    else
        PyErr_SetString(PyExc_ValueError, "the postings do not fit the directions");
done:
    release(&buffers);
    return result;
}

static PyObject *survey(PyObject *self, PyObject *arguments) {
    PyObject *arrays[7], *result = NULL;
    long long first;
    buffers_t buffers = {.count = 0};
    Py_buffer *views[7];
    stretch_t own;
    if (!PyArg_ParseTuple(arguments, "OOOOLOOO", &arrays[0], &arrays[1], &arrays[2], &arrays[3],
                          &first, &arrays[4], &arrays[5], &arrays[6]))
        return NULL;
    if (!acquire_all(&buffers, arrays, 5, 2, views) || !read_stretch(views, first, &own)) goto done;
    own.rows = views[5]->shape[0];
    int fits = views[6]->shape[0] == own.rows && views[6]->shape[1] >= views[5]->shape[1] &&
               views[5]->itemsize == 1 + own.wide;
    Py_BEGIN_ALLOW_THREADS;
    fits = fits && survey_postings(&own, views[5]->buf, views[5]->shape[1], views[6]->buf,
                                   views[6]->shape[1]);
    Py_END_ALLOW_THREADS;
    if (fits)
        result = Py_NewRef(Py_None);
    else
        PyErr_SetString(PyExc_ValueError, "the postings do not fit the columns");
done:
    release(&buffers);
    return result;
}

static PyObject *fill(PyObject *self, PyObject *arguments) {
    PyObject *arrays[11], *result = NULL;
    long long first;
    buffers_t buffers = {.count = 0};
    Py_buffer *views[11];
    stretch_t own;
    uint16_t *kept = NULL;
    if (!PyArg_ParseTuple(arguments, "OOOOLOOOOOOO", &arrays[0], &arrays[1], &arrays[2],
                          &arrays[3], &first, &arrays[4], &arrays[5], &arrays[6], &arrays[7],
                          &arrays[8], &arrays[9], &arrays[10]))
        return NULL;
    if (!acquire_all(&buffers, arrays, 6, 5, views) || !read_stretch(views, first, &own)) goto done;
    own.rows = length(views[6]);
    filling_t made = {
        .superblocks = views[7]->shape[1], .levelled = views[7]->shape[0],
        .dense = length(views[5]), .room_dense = length(views[9]),
        .room_listed = length(views[10]), .following = views[6]->buf, .steps = views[5]->buf,
        .levels = views[7]->buf, .bitmaps = views[8]->buf, .impacts = views[9]->buf,
        .postings = views[10]->buf,
    };
    int fits = made.levelled <= made.dense && made.dense <= own.rows &&
               views[8]->shape[0] == made.dense - made.levelled &&
               views[8]->shape[1] == made.superblocks && views[9]->itemsize == 1 + own.wide &&
               views[10]->itemsize == 2 + 2 * own.wide;
    for (int64_t row = 0; fits && row < made.dense; row++)
        fits = made.steps[row] > 0 && made.steps[row] <= UINT16_MAX;
    if (fits && !(kept = made.kept = calloc(made.levelled * GROUP * PLACES + 1, sizeof *kept))) {
        PyErr_NoMemory();
        goto done;
    }
    Py_BEGIN_ALLOW_THREADS;
    fits = fits && fill_columns(&own, &made);
    Py_END_ALLOW_THREADS;
    if (fits)
        result = Py_NewRef(Py_None);
    else
        PyErr_SetString(PyExc_ValueError, "the postings do not fit the columns");
done:
    free(kept);
    release(&buffers);
    return result;
}

/* Rows of numbers with values → for each number the rows that have it, rising. */
static PyObject *transpose(PyObject *self, PyObject *arguments) {
    PyObject *arrays[6], *result = NULL;
    buffers_t buffers = {.count = 0};
    Py_buffer *views[6];
    if (!PyArg_ParseTuple(arguments, "OOOOOO", &arrays[0], &arrays[1], &arrays[2], &arrays[3],
                          &arrays[4], &arrays[5]))
        return NULL;
    if (!acquire_all(&buffers, arrays, 3, 3, views)) goto done;
    const int64_t *starts = views[0]->buf;
    const int32_t *numbers = views[1]->buf;
    const uint16_t *values = views[2]->buf;
    int64_t rows = length(views[0]) - 1, count = length(views[1]), size = length(views[3]) - 1;
    int64_t *ends = views[3]->buf; /* of zeros */
    int32_t *made = views[4]->buf;
    uint16_t *moved = views[5]->buf;
    int sound = rows >= 0 && size >= 0 && length(views[2]) == count &&
                length(views[4]) == count && length(views[5]) == count && !starts[0] &&
                starts[rows] == count;
    for (int64_t i = 0; sound && i < rows; i++) sound = starts[i] <= starts[i + 1];
    for (int64_t i = 0; sound && i < count; i++) sound = numbers[i] >= 0 && numbers[i] < size;
    if (!sound) {
        PyErr_SetString(PyExc_ValueError, "the rows do not fit together");
        goto done;
    }
    Py_BEGIN_ALLOW_THREADS;
    for (int64_t i = 0; i < count; i++) ends[numbers[i] + 1]++;
    for (int64_t n = 0; n < size; n++) ends[n + 1] += ends[n];
    for (int64_t row = 0; row < rows; row++)
        for (int64_t i = starts[row]; i < starts[row + 1]; i++) {
            int64_t at = ends[numbers[i]]++;
            made[at] = (int32_t)row;
            moved[at] = values[i];
        }
    for (int64_t n = size; n > 0; n--) ends[n] = ends[n - 1]; /* each had moved to its end */
    ends[0] = 0;
    Py_END_ALLOW_THREADS;
    result = Py_NewRef(Py_None);
done:
    release(&buffers);
    return result;
}
