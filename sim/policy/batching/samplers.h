/* samplers.h - orders of samples and of groups, and how they are dealt to data-parallel ranks.
 *
 *     uint32_t *items = sampler_sequence(SAMPLER_BLOCK, seed, count, dp, micro_batch, &rounds);
 *     // rank r, round k: items[(r * rounds + k) * micro_batch] .. micro_batch of them
 *
 * Two samplers:
 *   block    OmniBal's RandomSampler: rank r owns the r-th contiguous block of the items and walks
 *            it in one PyTorch permutation, the same on every rank. Items keep their neighbourhood:
 *            what is at the end of the list (groups that ISF could not fill) stays on the last
 * rank. shuffle  one NumPy permutation of all items; each round deals the next dp x micro_batch of
 * them. Both give out whole rounds only; the tail that fills no round is not used in this epoch.
 */
#ifndef BALLAST_SIM_POLICY_BATCHING_SAMPLERS_H
#define BALLAST_SIM_POLICY_BATCHING_SAMPLERS_H

#include "sim/policy/batching/batching.h"

enum sampler { SAMPLER_BLOCK, SAMPLER_SHUFFLE };
extern const char *const sampler_names[]; /* choices of a FIELD_CHOICE */

/* The parameter sampler_seed of every policy; null stands for the published seed, moved with the
 * run's seed as sampler_seed_of() does. `published` is a number. */
#define SAMPLER_SEED_FIELD(structure, published, help_text)                                        \
    {                                                                                              \
        "sampler_seed", FIELD_COUNT, offsetof(structure, sampler_seed), 0, UINT32_MAX, "null", "", \
            help_text "; null: " #published                                                        \
                      " + seed - 1024, so that the default seed of 1024 gives "                    \
                      "the published stream",                                                      \
            NULL                                                                                   \
    }
/* The sampler's own seed if it is given (not negative); otherwise `published`, moved by as much as
 * the request's seed differs from BATCH_DEFAULT_SEED. */
uint32_t sampler_seed_of(int64_t given, uint32_t published, const struct batch_request *request);

/* Empties the plan and checks that one round is possible: at least one micro-batch per rank. */
bool sampler_begin(const char *policy, const struct batch_request *request, struct batch_plan *plan,
                   struct error *err);

/* Item numbers below count, rank by rank; *rounds of each rank. The caller frees. */
uint32_t *sampler_sequence(enum sampler sampler, uint32_t seed, uint32_t count, int64_t dp,
                           int64_t micro_batch, int64_t *rounds);

/* Fills plan->order with the plan's groups, one per round and rank, and closes the accounting. */
bool sampler_deal_groups(enum sampler sampler, uint32_t seed, const char *policy,
                         const struct batch_request *request, struct batch_plan *plan,
                         struct error *err);

/* Makes a plan of equal micro-batches: `samples` (whose ownership passes to the plan) lists them
 * rank by rank, `rounds` per rank. Of them, `repeated` are given out for the second time. */
void sampler_plan_equal(const struct batch_request *request, uint32_t *samples, int64_t rounds,
                        int64_t repeated, struct batch_plan *plan);

/* A permutation of 0..count-1 as PyTorch's randperm gives it. The caller frees. */
uint32_t *sampler_torch_permutation(struct random_mt *mt, uint32_t count);

/* Sorts each window of `window` consecutive items by keys[item], smallest first; equal keys keep
 * their order. The last window may be shorter. */
void sampler_sort_windows(uint32_t *items, uint32_t count, uint32_t window, const uint32_t *keys);

/* Puts items in ascending bins of length, bin_tokens wide; inside a bin their order is kept. */
void sampler_sort_bins(uint32_t *items, uint32_t count, const struct dataset *dataset,
                       int64_t bin_tokens);

#endif
