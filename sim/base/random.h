/* random.h - random streams that other tools can repeat bit for bit.
 *
 * struct random_mt is MT19937 with the single-integer seeding of NumPy's RandomState(seed) and of
 * PyTorch's CPU generator. Distributions come from GSL, seeded from here.
 *
 *     struct random_mt mt;
 *     random_mt_seed(&mt, 1024);
 *     random_numpy_shuffle(&mt, items, count);   // = RandomState(1024).shuffle(items)
 */
#ifndef BALLAST_SIM_BASE_RANDOM_H
#define BALLAST_SIM_BASE_RANDOM_H

#include <stdint.h>

#define RANDOM_MT_WORDS 624

struct random_mt {
    uint32_t state[RANDOM_MT_WORDS];
    uint32_t output[RANDOM_MT_WORDS]; /* tempered, generated a block at a time */
    uint32_t next_index;
};

void random_mt_seed(struct random_mt *mt, uint32_t seed);
void random_mt_refill(struct random_mt *mt);

static inline uint32_t random_mt_next(struct random_mt *mt)
{
    if (mt->next_index == RANDOM_MT_WORDS) random_mt_refill(mt);
    return mt->output[mt->next_index++];
}

/* Uniform in [0, 1) with 53 bits, as NumPy's random_sample. */
double random_mt_uniform(struct random_mt *mt);
/* NumPy legacy shuffle: i from count-1 down to 1, j by masked rejection in [0, i], swap. */
void random_numpy_shuffle(struct random_mt *mt, uint32_t *items, uint32_t count);
/* PyTorch CPU randperm: items = 0..count-1, then i from 0: swap with i + next() % (count - i). */
void random_torch_permutation(struct random_mt *mt, uint32_t *items, uint32_t count);
/* A seed for stream `index` of family `seed` (splitmix64): streams never depend on thread order. */
uint32_t random_stream_seed(uint64_t seed, uint64_t index);

#endif
