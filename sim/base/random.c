/* random.c - MT19937 (Matsumoto and Nishimura, 1998) with the 2002 single-integer seeding. */
#include "sim/base/random.h"

enum { MT_SHIFT = 397 };

void random_mt_seed(struct random_mt *mt, uint32_t seed) {
    mt->state[0] = seed;
    for (uint32_t i = 1; i < RANDOM_MT_WORDS; i++) {
        uint32_t last = mt->state[i - 1];
        mt->state[i] = 1812433253u * (last ^ (last >> 30)) + i;
    }
    mt->next_index = RANDOM_MT_WORDS;
}

static inline uint32_t twist(uint32_t high, uint32_t low) {
    uint32_t mixed = (high & 0x80000000u) | (low & 0x7fffffffu);
    return (mixed >> 1) ^ (-(low & 1u) & 0x9908b0dfu);
}

void random_mt_refill(struct random_mt *mt) {
    uint32_t *s = mt->state;
    int i = 0;
    for (; i < RANDOM_MT_WORDS - MT_SHIFT; i++)
        s[i] = s[i + MT_SHIFT] ^ twist(s[i], s[i + 1]);
    for (; i < RANDOM_MT_WORDS - 1; i++)
        s[i] = s[i + MT_SHIFT - RANDOM_MT_WORDS] ^ twist(s[i], s[i + 1]);
    s[i] = s[MT_SHIFT - 1] ^ twist(s[i], s[0]);
    for (i = 0; i < RANDOM_MT_WORDS; i++) {
        uint32_t y = s[i];
        y ^= y >> 11;
        y ^= (y << 7) & 0x9d2c5680u;
        y ^= (y << 15) & 0xefc60000u;
        y ^= y >> 18;
        mt->output[i] = y;
    }
    mt->next_index = 0;
}

double random_mt_uniform(struct random_mt *mt) {
    uint32_t a = random_mt_next(mt) >> 5, b = random_mt_next(mt) >> 6;
    return ((double)a * 67108864.0 + (double)b) / 9007199254740992.0;
}

static inline void swap(uint32_t *items, uint32_t i, uint32_t j) {
    uint32_t kept = items[i];
    items[i] = items[j];
    items[j] = kept;
}

void random_numpy_shuffle(struct random_mt *mt, uint32_t *items, uint32_t count) {
    if (count < 2) return;
    for (uint32_t i = count - 1; i > 0; i--) {
        uint32_t mask = 0xffffffffu >> __builtin_clz(i);
        uint32_t j;
        do
            j = random_mt_next(mt) & mask;
        while (j > i);
        swap(items, i, j);
    }
}

void random_torch_permutation(struct random_mt *mt, uint32_t *items, uint32_t count) {
    for (uint32_t i = 0; i < count; i++)
        items[i] = i;
    for (uint32_t i = 0; i + 1 < count; i++)
        swap(items, i, i + random_mt_next(mt) % (count - i));
}

uint32_t random_stream_seed(uint64_t seed, uint64_t index) {
    uint64_t z = seed + (index + 1) * 0x9e3779b97f4a7c15u;
    z = (z ^ (z >> 30)) * 0xbf58476d1ce4e5b9u;
    z = (z ^ (z >> 27)) * 0x94d049bb133111ebu;
    return (uint32_t)(z ^ (z >> 31));
}
