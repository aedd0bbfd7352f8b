/* device_group.c - the ranks of one round get samples of similar length, so that none waits.
 *
 * Two variants, because the published sampler does more than the paper describes (OmniBal, ablation
 * of data balance):
 *
 *   paper  samples are permuted and put in bins of length; dp neighbours, one for each rank, form
 *          a run; runs are shuffled, and micro_batch of them make a round. Inside a micro-batch
 *          lengths differ, so no padding is saved.
 *
 *   code   the sampler of ModelTC/OmniBal: rounds are permuted too, but then all samples are put
 *          in ascending bins again, so the whole epoch runs from short to long. Padding and
 *          imbalance are both small, but the data are no longer in random order. The last round
 *          is filled up with the first samples of the permutation.
 */
#include <stdlib.h>
#include "sim/base/arena.h"
#include "sim/policy/batching/policies.h"
#include "sim/policy/batching/samplers.h"

enum { RUN_SEED_OFFSET = 10 }; /* the published sampler permutes rounds with seed epoch + 10 */

enum variant { VARIANT_CODE, VARIANT_PAPER };
static const char *const variant_names[] = { "code", "paper", NULL };

struct device_parameters {
    int64_t bin_tokens, sampler_seed;
    int variant;
};

#define AT(member) offsetof(struct device_parameters, member)
static const struct field fields[] = {
    { "variant", FIELD_CHOICE, AT(variant), 0, 0, "\"paper\"", "",
      "paper: similar lengths across ranks, different ones within a micro-batch; code: the "
      "published sampler, which runs from short to long over the epoch",
      variant_names },
    { "bin_tokens", FIELD_COUNT, AT(bin_tokens), 1, 1e9, "512", "tokens",
      "lengths in one bin of this width count as similar", NULL },
    SAMPLER_SEED_FIELD(struct device_parameters, 0, "added to the epoch to seed the permutations"),
};
static const struct field_table parameters =
    FIELD_TABLE("device-group", "the ranks of a round get samples of similar length", fields);

static uint32_t *permutation(uint32_t seed, uint32_t count) {
    struct random_mt mt;
    random_mt_seed(&mt, seed);
    return sampler_torch_permutation(&mt, count);
}

static void plan_paper(const struct batch_request *request, const struct device_parameters *p,
                       uint32_t seed, struct batch_plan *plan) {
    const int64_t dp = request->dp, size = request->micro_batch;
    const int64_t rounds = plan->samples_in / (dp * size), used = rounds * dp * size;
    /* The tail is cut before sorting: otherwise each epoch would leave out the longest samples. */
    uint32_t *items = permutation(seed, (uint32_t)plan->samples_in);
    sampler_sort_bins(items, (uint32_t)used, request->dataset, p->bin_tokens);
    uint32_t *runs = permutation(seed + RUN_SEED_OFFSET, (uint32_t)(rounds * size));
    uint32_t *samples = memory_alloc(sizeof *samples * (size_t)used);
    for (int64_t rank = 0; rank < dp; rank++)
        for (int64_t i = 0; i < rounds * size; i++)
            samples[rank * rounds * size + i] = items[runs[i] * dp + rank];
    free(runs);
    free(items);
    sampler_plan_equal(request, samples, rounds, 0, plan);
}

static void plan_code(const struct batch_request *request, const struct device_parameters *p,
                      uint32_t seed, struct batch_plan *plan) {
    const int64_t dp = request->dp, size = request->micro_batch, round_size = dp * size;
    const int64_t count = plan->samples_in;
    const int64_t rounds = (count + round_size - 1) / round_size;
    uint32_t *permuted = permutation(seed, (uint32_t)count);
    uint32_t *blocks = permutation(seed + RUN_SEED_OFFSET, (uint32_t)rounds);
    uint32_t *items = memory_alloc(sizeof *items * (size_t)(rounds * round_size));
    for (int64_t i = 0; i < rounds * round_size; i++) {
        int64_t place = blocks[i / round_size] * round_size + i % round_size;
        items[i] = permuted[place < count ? place : place - count];
    }
    sampler_sort_bins(items, (uint32_t)(rounds * round_size), request->dataset, p->bin_tokens);
    uint32_t *samples = memory_alloc(sizeof *samples * (size_t)(rounds * round_size));
    for (int64_t rank = 0; rank < dp; rank++)
        for (int64_t i = 0; i < rounds * size; i++)
            samples[rank * rounds * size + i] = items[i * dp + rank];
    free(items);
    free(blocks);
    free(permuted);
    sampler_plan_equal(request, samples, rounds, rounds * round_size - count, plan);
}

static bool device_group_plan(const struct batch_request *request, const void *parameter_values,
                              struct batch_plan *plan, struct error *err) {
    const struct device_parameters *p = parameter_values;
    if (!sampler_begin("device-group", request, plan, err)) return false;
    uint32_t seed = sampler_seed_of(p->sampler_seed, 0, request) + (uint32_t)request->epoch;
    if (p->variant == VARIANT_CODE)
        plan_code(request, p, seed, plan);
    else
        plan_paper(request, p, seed, plan);
    return true;
}

const struct batching_policy batching_device_group = {
    .name = "device-group",
    .sorts = true,
    .help = "the ranks of a round get samples of similar length, so that none waits for another",
    .parameters = &parameters,
    .parameters_size = sizeof(struct device_parameters),
    .plan = device_group_plan,
};
