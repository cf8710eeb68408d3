/* What won some terms of many packed images, read from all their groundings at once.

   The numba functions in indexer/winners_in_numba.py are its reference, and say what is written. */

enum { ESCAPE = 255 }; /* as in indexer/grounding.py, whose `Layout` this is */

typedef struct {
    int64_t position_size, label_size, terms, gaps, positions, corners, label_terms, label_regions,
        boxes, labels;
} layout_t;

typedef struct {
    const uint8_t *data;
    const layout_t *at;
    const int64_t *terms, *order;
    const uint8_t *wanted;
    int64_t images, count;                                /* of images, and of terms */
    int64_t *won, *regions, *tokens, *labels, *words;     /* what is written */
    uint16_t *corners;
    int64_t winners, written, labelled_words;             /* how much of it is */
    int64_t *positions, *number_of, *labelled;            /* of one image */
} winning_t;

static int64_t number_at(const uint8_t *data, int64_t place, int64_t size) {
    int64_t number = 0;
    for (int64_t byte = 0; byte < size; byte++) number |= (int64_t)data[place + byte] << 8 * byte;
    return number;
}

/* The position that won each term of one image, -1 for none; 0 if the image is damaged. */
static int find_positions(winning_t *winning, const layout_t *at) {
    const uint8_t *data = winning->data;
    const int64_t size = at->position_size, nothing = ((int64_t)1 << 8 * size) - 1;
    int64_t next = 0, found = 0, term = 0;
    for (int64_t i = 0; i < winning->count; i++) winning->positions[i] = -1;
    for (int64_t place = at->gaps; place < at->positions; place++) {
        term += data[place];
        if (data[place] == ESCAPE) continue;
        if (found == at->terms) return 0;
        for (; next < winning->count && winning->terms[next] <= term; next++)
            if (winning->terms[next] == term) {
                int64_t position = number_at(data, at->positions + found * size, size);
                winning->positions[winning->order[next]] = position != nothing ? position : -1;
            }
        found++;
    }
    return 1;
}

/* Write the words of a region's label, unless another winner has them. */
static void describe_label(winning_t *winning, const layout_t *at, int64_t region) {
    int64_t *own = winning->labels + 2 * winning->winners, former = winning->labelled[region];
    if (former < 0) {
        winning->labelled[region] = winning->winners;
        own[0] = winning->labelled_words;
        for (int64_t other = 0; other < at->labels; other++) {
            int64_t place = at->label_regions + other * at->position_size;
            if (number_at(winning->data, place, at->position_size) != region) continue;
            place = at->label_terms + other * at->label_size;
            winning->words[winning->labelled_words++] =
                number_at(winning->data, place, at->label_size);
        }
        own[1] = winning->labelled_words;
    } else
        memcpy(own, winning->labels + 2 * former, 2 * sizeof *own);
}

/* Write what a position of an image stands for; 0 if the image is damaged. */
static int describe(winning_t *winning, const layout_t *at, int64_t position) {
    const uint8_t *data = winning->data;
    int64_t region = position, label = position - at->boxes, winner = winning->winners;
    if (label >= 0) {
        int64_t place = at->label_regions + label * at->position_size;
        region = number_at(data, place, at->position_size);
        if (region >= at->boxes) return 0;
        place = at->label_terms + label * at->label_size;
        winning->tokens[winner] = number_at(data, place, at->label_size);
        describe_label(winning, at, region);
    }
    winning->regions[winner] = region;
    for (int corner = 0; corner < 4; corner++)
        winning->corners[4 * winner + corner] =
            (uint16_t)number_at(data, at->corners + 8 * region + 2 * corner, 2);
    winning->winners++;
    return 1;
}

/* What won the wanted terms of one image; 0 if it is damaged. */
static int find_in_image(winning_t *winning, int64_t image) {
    const layout_t *at = winning->at + image;
    const int64_t places = at->boxes + at->labels;
    if (!find_positions(winning, at)) return 0;
    for (int64_t i = 0; i < places; i++) winning->number_of[i] = -1;
    for (int64_t i = 0; i < at->boxes; i++) winning->labelled[i] = -1;
    for (int64_t i = 0; i < winning->count; i++) {
        int64_t position = winning->positions[i];
        if (!winning->wanted[image * winning->count + i]) continue;
        if (position >= places) return 0;
        if (position >= 0 && winning->number_of[position] < 0) {
            winning->number_of[position] = winning->winners;
            if (!describe(winning, at, position)) return 0;
        }
        winning->won[winning->written++] = position >= 0 ? winning->number_of[position] : -1;
    }
    return 1;
}

/* Whether the parts of an image follow one another within the data, as `Layout.of` makes sure. */
static int is_within(const layout_t *at, int64_t bytes) {
    int64_t end = at->label_regions + at->labels * at->position_size;
    return at->position_size >= 1 && at->position_size <= 4 && at->label_size >= 1 &&
           at->label_size <= 4 && at->terms >= 0 && at->boxes >= 0 && at->labels >= 0 &&
           at->gaps >= 0 && at->positions >= at->gaps &&
           at->corners == at->positions + at->terms * at->position_size &&
           at->label_terms == at->corners + 8 * at->boxes &&
           at->label_regions == at->label_terms + at->labels * at->label_size && end <= bytes;
}
