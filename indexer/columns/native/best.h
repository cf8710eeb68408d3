/* The best keys of a search: a key is a score, and below it the document with its bits turned, so
   that of equal scores the lower document has the larger key. No two are equal. */

enum { FEW_KEYS = 16 }; /* that are sorted by insertion */

/* Keys in no order. Room is left for some beside the best k: they are told apart when it is full. */
typedef struct {
    int64_t k, room, size;
    int64_t worst; /* of the k best when they were last told apart: smaller keys are of no use */
    int64_t *keys;
} best_t;

INLINE int64_t best_room(int64_t k) { return k + 1 + k / 4; }

INLINE int64_t least_score(const best_t *best) {
    int64_t least = best->worst >> 32;
    return least > 1 ? least : 1;
}

INLINE void swap_keys(int64_t *keys, int64_t i, int64_t j) {
    int64_t key = keys[i];
    keys[i] = keys[j];
    keys[j] = key;
}

/* Move larger keys before smaller ones (Hoare); returns how many are before, neither none nor all. */
static int64_t split_keys(int64_t *keys, int64_t size) {
    int64_t a = keys[0], b = keys[size / 2], c = keys[size - 1];
    int64_t pivot = a < b ? (b < c ? b : a < c ? c : a) : (a < c ? a : b < c ? c : b);
    for (int64_t i = 0, j = size - 1;; i++, j--) {
        while (keys[i] > pivot) i++;
        while (keys[j] < pivot) j--;
        if (i >= j) return j + 1;
        swap_keys(keys, i, j);
    }
}

/* Sort keys, falling. */
static void sort_keys(int64_t *keys, int64_t size) {
    while (size > FEW_KEYS) {
        int64_t larger = split_keys(keys, size);
        sort_keys(keys, larger);
        keys += larger;
        size -= larger;
    }
    for (int64_t i = 1; i < size; i++)
        for (int64_t j = i; j > 0 && keys[j - 1] < keys[j]; j--) swap_keys(keys, j - 1, j);
}

/* Move the k best to the front, of which the last is the worst, and forget the others. */
static void tell_best(best_t *best) {
    int64_t *keys = best->keys, size = best->size, wanted = best->k;
    while (size > FEW_KEYS) {
        int64_t larger = split_keys(keys, size);
        if (wanted <= larger) {
            size = larger;
        } else {
            keys += larger;
            size -= larger;
            wanted -= larger;
        }
    }
    sort_keys(keys, size);
    best->size = best->k;
    best->worst = best->keys[best->k - 1];
}

INLINE void add_key(best_t *best, int64_t key) {
    if (key <= best->worst) return;
    best->keys[best->size++] = key;
    if (best->size == best->room) tell_best(best);
}
