/* entry_shuffle.c - Fisher-Yates from the end with NumPy's masked rejection.
 *
 * For i from count-1 down to 1: j = next 32-bit output AND (smallest 2^k - 1 >= i), again while
 * j > i; swap i and j. Three things make it fast without changing a draw:
 *   - the mask is constant while i stays between two powers of two: one loop per such stretch;
 *   - outputs are tested without a branch: each is written down, and kept by advancing the count;
 *   - a block of targets is drawn before the first swap, which gives the prefetches time.
 */
#include "sim/policy/batching/entry_shuffle.h"

/* Draws targets for i, i-1, ... from the words of one generator block. At most word_count words are
 * read, at most one target per word is kept; returns how many. */
static uint32_t draw_targets(const uint32_t *words, uint32_t word_count, uint32_t mask, uint32_t i,
                             const uint64_t *entries, uint32_t *targets) {
    uint32_t kept = 0;
    for (uint32_t w = 0; w < word_count; w++) {
        uint32_t target = words[w] & mask;
        __builtin_prefetch(&entries[target], 1);
        targets[kept] = target;
        kept += target <= i - kept;
    }
    return kept;
}

void entry_shuffle(struct random_mt *mt, uint64_t *entries, uint32_t count) {
    if (count < 2) return;
    uint32_t targets[RANDOM_MT_WORDS];
    uint32_t i = count - 1;
    while (i > 0) {
        uint32_t mask = 0xffffffffu >> __builtin_clz(i);
        uint32_t lowest = (mask >> 1) + 1; /* of the indices that share this mask */
        while (i >= lowest) {
            if (mt->next_index == RANDOM_MT_WORDS) random_mt_refill(mt);
            uint32_t words = RANDOM_MT_WORDS - mt->next_index;
            if (words > i - lowest + 1) words = i - lowest + 1; /* never draws past the stretch */
            uint32_t kept =
                draw_targets(mt->output + mt->next_index, words, mask, i, entries, targets);
            mt->next_index += words;
            for (uint32_t k = 0; k < kept; k++, i--) {
                uint64_t entry = entries[i];
                entries[i] = entries[targets[k]];
                entries[targets[k]] = entry;
            }
        }
    }
}
