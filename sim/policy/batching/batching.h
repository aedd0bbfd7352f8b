/* batching.h - how samples become micro-batches, and which data-parallel rank gets them when.
 *
 * A batching policy is one file with one table row: a name, its parameters as a field table, and a
 * function. It fills a batch_plan: micro-batches as ranges of sample indices, in the order in which
 * they were made, and an assignment to iterations and ranks.
 *
 *     const struct batching_policy *p = batching_policy_find("isf", err);
 *     struct batch_plan plan;
 *     p->plan(&request, params, &plan, err);
 *     ... plan.samples[plan.starts[g] .. plan.starts[g + 1])
 *     batch_plan_free(&plan);
 */
#ifndef BALLAST_SIM_POLICY_BATCHING_H
#define BALLAST_SIM_POLICY_BATCHING_H

#include "sim/base/field.h"
#include "sim/base/random.h"
#include "sim/data/dataset.h"

struct batch_request {
    const struct dataset *dataset;
    int64_t dp;               /* data-parallel ranks */
    int64_t micro_batch;      /* samples (or groups, for a packing policy) in a micro-batch */
    uint32_t seed;
    int64_t epoch;
};

struct batch_plan {
    /* Micro-batch g holds samples[starts[g]] .. samples[starts[g+1]-1], dataset indices. */
    uint32_t *samples;
    uint32_t *starts;         /* group_count + 1 */
    int64_t group_count;
    bool packed;              /* samples are concatenated (no padding), attention per sample */
    /* rank r's micro-batches in the order it consumes them: order[r * per_rank + i] is a group. */
    uint32_t *order;
    int64_t rank_count, per_rank;
    /* accounting: samples_in = samples_packed + oversize_skipped + lost_with_last_group + dropped */
    int64_t samples_in, samples_packed, oversize_skipped, lost_with_last_group;
    int64_t dropped_by_sampler; /* tail that does not fill a round of all ranks */
};

struct batching_policy {
    const char *name;
    const char *help;
    const struct field_table *parameters;
    size_t parameters_size;
    bool (*plan)(const struct batch_request *request, const void *parameters,
                 struct batch_plan *plan, struct error *err);
};

const struct batching_policy *batching_policy_find(const char *name); /* NULL: unknown */
const struct batching_policy *const *batching_policies(size_t *count); /* sorted by name */
void batch_plan_free(struct batch_plan *plan);

/* Pad and dist ratio of a plan as OmniBal's test code computes them (algorithms section 4): pad is
 * token-weighted; dist is the mean over iterations of sum(max - x) / (max x ranks). */
struct batch_balance {
    double average_batch_size;    /* samples per micro-batch */
    double pad_ratio;
    double pad_ratio_mean;        /* mean over micro-batches of eq. (1) */
    double dist_ratio_vision, dist_ratio_language;
    double dist_ratio_language_unpadded;
    int64_t max_vision_tiles, max_language_tokens; /* of one micro-batch, padded */
    double mean_vision_tiles, mean_language_tokens;
    int64_t iterations;
};
void batch_plan_balance(const struct batch_plan *plan, const struct dataset *dataset,
                        struct batch_balance *out);

#endif
