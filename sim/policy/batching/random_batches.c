/* random_batches.c - samples in random order, a fixed number in a micro-batch: the baseline. */
#include "sim/policy/batching/policies.h"
#include "sim/policy/batching/samplers.h"

struct random_parameters {
    int64_t sampler_seed;
    int sampler;
};

#define AT(member) offsetof(struct random_parameters, member)
static const struct field fields[] = {
    { "sampler", FIELD_CHOICE, AT(sampler), 0, 0, "\"block\"", "",
      "block: each rank walks its own contiguous block in a PyTorch permutation, as published; "
      "shuffle: one NumPy permutation of all samples, dealt in turn",
      sampler_names },
    SAMPLER_SEED_FIELD(struct random_parameters, 0, "added to the epoch to seed the permutation"),
};
static const struct field_table parameters =
    FIELD_TABLE("random", "a fixed number of samples in random order", fields);

static bool random_plan(const struct batch_request *request, const void *parameter_values,
                        struct batch_plan *plan, struct error *err) {
    const struct random_parameters *p = parameter_values;
    if (!sampler_begin("random", request, plan, err)) return false;
    int64_t rounds;
    uint32_t seed = sampler_seed_of(p->sampler_seed, 0, request) + (uint32_t)request->epoch;
    uint32_t *samples = sampler_sequence((enum sampler)p->sampler, seed, (uint32_t)plan->samples_in,
                                         request->dp, request->micro_batch, &rounds);
    sampler_plan_equal(request, samples, rounds, 0, plan);
    return true;
}

const struct batching_policy batching_random = {
    .name = "random",
    .help = "a fixed number of samples in random order, padded to the longest of the micro-batch",
    .parameters = &parameters,
    .parameters_size = sizeof(struct random_parameters),
    .plan = random_plan,
};
