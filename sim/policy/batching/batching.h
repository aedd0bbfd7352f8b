/* batching.h - how samples become micro-batches, and which data-parallel rank gets them when.
 *
 * A batching policy is one file with one table row: a name, its parameters as a field table, and a
 * function. It fills a batch_plan: micro-batches as ranges of sample indices, in the order in which
 * they were made, and an assignment to iterations and ranks.
 *
 *     const struct batching_policy *p = batching_policy_find("isf");
 *     struct batch_plan plan;
 *     if (!p->plan(&request, params, &plan, err)) return false;   // the plan is then empty
 *     ... plan.samples[plan.starts[g] .. plan.starts[g + 1])
 *     batch_plan_free(&plan);
 *
 * Same request and parameters: the same plan, on every machine. The plan owns its arrays and does
 * not keep a pointer to the data set.
 */
#ifndef BALLAST_SIM_POLICY_BATCHING_H
#define BALLAST_SIM_POLICY_BATCHING_H

#include "sim/base/field.h"
#include "sim/base/random.h"
#include "sim/data/dataset.h"

/* The seed of a run that gives none: the published random streams. */
enum { BATCH_DEFAULT_SEED = 1024 };

struct batch_request {
    const struct dataset *dataset;
    int64_t dp;          /* data-parallel ranks */
    int64_t micro_batch; /* samples in a micro-batch; 1 for a policy that packs, see `packs` */
    uint32_t seed;
    int64_t epoch;
};

struct batch_plan {
    /* Micro-batch g holds samples[starts[g]] .. samples[starts[g+1]-1], dataset indices. */
    uint32_t *samples;
    uint32_t *starts; /* group_count + 1 */
    int64_t group_count;
    int64_t full_group_count; /* packed: groups that reach a threshold; otherwise all */
    int64_t qv, qt;           /* isf: most tiles and tokens of a group */
    bool limits_chosen;       /* from the data, not given */
    bool packed;              /* samples are concatenated (no padding), attention per sample */
    /* packed: every micro-batch is one sequence of so many tokens, the rest of it padding (0: as
     * long as its samples); tokens attend to all before them in the sequence, not in their sample
     * alone */
    int64_t sequence_tokens;
    bool joint_attention;
    /* Micro-batches whose parts are padded to their longest: language tokens of each, padding
     * included; NULL: sequence_tokens holds for all. */
    int64_t *padded_tokens;
    /* rank r's micro-batches in the order it consumes them: order[r * per_rank + i] is a group. */
    uint32_t *order;
    int64_t rank_count, per_rank;
    /* What became of each sample of the data set:
     *   samples_in = samples_packed + oversize_skipped + lost_with_last_group + leftover_dropped.
     * The last one is 0 unless it is asked for.
     * What the ranks get in this epoch:
     *   sum of the sizes of the groups in order
     *     = samples_packed + repeated_by_sampler - dropped_by_sampler. */
    int64_t samples_in, samples_packed, oversize_skipped, lost_with_last_group;
    /* isf with leftovers "drop": in no group that is full enough; a plug-in: never given */
    int64_t leftover_dropped;
    bool leftover_of_plugin;
    int64_t dropped_by_sampler;  /* tail that does not fill a round of all ranks */
    int64_t repeated_by_sampler; /* samples given out twice to fill the last round */
};

struct batching_policy {
    const char *name;
    const char *help;
    bool packs; /* decides itself how many samples a micro-batch has: request.micro_batch is 1 */
    bool fits_clips; /* and counts video clips for that */
    bool sorts;      /* joins samples of like length, of text and images */
    const struct field_table *parameters;
    size_t parameters_size;
    /* Optional: with these parameters tokens attend across the samples of a packed sequence. */
    bool (*joint_attention)(const void *parameters);
    /* Optional: a micro-batch joins so many packed groups, one for each context-parallel rank. */
    int64_t (*groups_joined)(const void *parameters);
    /* On false, err says why and the plan is empty. */
    bool (*plan)(const struct batch_request *request, const void *parameters,
                 struct batch_plan *plan, struct error *err);
};

const struct batching_policy *batching_policy_find(const char *name);  /* NULL: unknown */
const struct batching_policy *const *batching_policies(size_t *count); /* sorted by name */
/* Adds a row of a plug-in, found by name but not listed; it stays. Before any other thread starts.
 * False: there is no room. */
bool batching_policy_register(const struct batching_policy *policy);
void batch_plan_free(struct batch_plan *plan);
/* Language tokens to which a group is padded as one sequence; 0: as it is. */
static inline int64_t batch_plan_sequence_tokens(const struct batch_plan *plan, int64_t group) {
    return plan->padded_tokens != NULL ? plan->padded_tokens[group] : plan->sequence_tokens;
}
/* Packed groups that a micro-batch of the policy joins. */
int64_t batching_policy_groups_joined(const struct batching_policy *policy, const void *parameters);
/* Samples of the data set that are in no group; the sampler's tail is not among them. */
int64_t batch_plan_left_out(const struct batch_plan *plan);

/* The groups as text, in the order in which they were made: `,` between the samples of a group, `;`
 * between groups, nothing at the end. False when the stream fails. */
bool batch_plan_write_groups(const struct batch_plan *plan, FILE *out);

/* What a sample costs the vision encoder: tiles, or patches where resolution is native. */
static inline uint32_t batch_sample_vision(const struct dataset *dataset, uint32_t index) {
    return dataset->vision_patches != NULL ? dataset->vision_patches[index]
                                           : dataset->samples[index].vision_tiles;
}

/* Pad and dist ratio of a plan, OmniBal eq. (1) and (2) as its test code averages them. Sizes of
 * groups are over all groups of the plan; ratios are over the micro-batches that the ranks get.
 * "Vision" counts tiles, or patches where resolution is native. */
struct batch_balance {
    double average_batch_size; /* samples per micro-batch */
    double pad_ratio;          /* padding tokens / all tokens: weighted by tokens */
    double pad_ratio_mean;     /* mean over micro-batches of eq. (1) */
    double dist_ratio_vision, dist_ratio_language;
    double dist_ratio_language_unpadded;
    int64_t min_vision_tiles, min_language_tokens; /* of one micro-batch, padded */
    int64_t max_vision_tiles, max_language_tokens;
    double mean_vision_tiles, mean_language_tokens;
    int64_t iterations;
};
void batch_plan_balance(const struct batch_plan *plan, const struct dataset *dataset,
                        struct batch_balance *out);

#endif
