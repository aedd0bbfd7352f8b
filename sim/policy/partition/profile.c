/* profile.c - stages of about equal measured (here: priced) time, OmniBal's "profile-based".
 *
 * min-max: the exact minimum of the slowest stage, by dynamic programming. min-variance: the exact
 * minimum of the sum of squared differences to the mean stage, OmniBal eq. (4). Times are those of
 * the mean micro-batch, of layers alone: forward as the paper profiles it, or forward and backward,
 * without which a frozen encoder would count as much as one that also runs its backward.
 * Recomputation, memory and communication are not looked at.
 */
#include "sim/policy/partition/partition.h"
#include "sim/policy/partition/partition_profile.h"

#include <math.h>

enum profile_method { METHOD_MIN_MAX, METHOD_MIN_VARIANCE };

struct profile_parameters {
    int method, time;
};

static const char *const method_names[] = { "min-max", "min-variance", NULL };
static const struct field profile_fields[] = {
    { "method", FIELD_CHOICE, offsetof(struct profile_parameters, method), 0, 0, "\"min-max\"", "",
      "what is smallest: the slowest stage, or the variance of stage times (OmniBal eq. 4)",
      method_names },
    { "time", FIELD_CHOICE, offsetof(struct profile_parameters, time), 0, 0, "\"auto\"", "",
      "of a layer: its forward, as OmniBal profiles, or forward and backward; auto: forward, and "
      "both where a module is frozen",
      partition_time_names },
};
static const struct field_table profile_table =
    FIELD_TABLE("profile", "stages of about equal priced time", profile_fields);

const char *const partition_time_names[] = { [PARTITION_TIME_AUTO] = "auto",
                                             [PARTITION_TIME_FORWARD] = "forward",
                                             [PARTITION_TIME_STEP] = "step",
                                             NULL };

static bool has_frozen_blocks(const struct model *model) {
    for (int role = 0; role < MODULE_ROLE_COUNT; role++)
        if (model->modules[role].frozen && model->modules[role].layer_count > 0) return true;
    return false;
}

double *partition_profile(struct arena *arena, const struct planner_oracle *oracle, int time) {
    const struct model *model = oracle->model;
    const bool both = time == PARTITION_TIME_STEP ||
                      (time == PARTITION_TIME_AUTO && has_frozen_blocks(model));
    int64_t block_count = partition_block_count(model);
    double *seconds = arena_array(arena, double, block_count);
    for (int64_t block = 0; block < block_count; block++) {
        int64_t end = partition_stage_start(model, block + 1);
        for (int64_t i = partition_stage_start(model, block); i < end; i++) {
            seconds[block] +=
                oracle->layer_seconds(oracle->context, i, &oracle->typical, PASS_SET_FORWARD);
            if (both)
                seconds[block] +=
                    oracle->layer_seconds(oracle->context, i, &oracle->typical, PASS_SET_BACKWARD);
        }
    }
    return seconds;
}

/* least[s][b]: smallest sum of squares when blocks b.. go to the last s stages. The mean is that of
 * the whole, so the sum of squares of stage times has its minimum where the variance has. */
static void plan_min_variance(struct arena *arena, const double *seconds, int64_t block_count,
                              int64_t stage_count, int64_t *blocks) {
    double *prefix = arena_array(arena, double, block_count + 1);
    for (int64_t i = 0; i < block_count; i++)
        prefix[i + 1] = prefix[i] + seconds[i];
    int64_t width = block_count + 1;
    double *least = arena_array(arena, double, (stage_count + 1) * width);
    int64_t *take = arena_array(arena, int64_t, (stage_count + 1) * width);
    for (int64_t b = 0; b < block_count; b++) {
        double all = prefix[block_count] - prefix[b];
        least[width + b] = all * all;
        take[width + b] = block_count - b;
    }
    for (int64_t s = 2; s <= stage_count; s++)
        for (int64_t b = 0; b + s <= block_count; b++) {
            double found = INFINITY;
            for (int64_t n = 1; b + n + s - 1 <= block_count; n++) {
                double own = prefix[b + n] - prefix[b];
                double sum = own * own + least[(s - 1) * width + b + n];
                if (sum >= found) continue;
                found = sum;
                take[s * width + b] = n;
            }
            least[s * width + b] = found;
        }
    for (int64_t stage = 0, b = 0; stage < stage_count; stage++) {
        blocks[stage] = take[(stage_count - stage) * width + b];
        b += blocks[stage];
    }
}

static bool profile_plan(const struct planner_oracle *oracle, const void *parameters,
                         struct job_plan *plan, struct error *err) {
    (void)err;
    const struct profile_parameters *p = parameters;
    int64_t block_count = partition_block_count(oracle->model);
    struct arena *scratch = arena_create();
    int64_t *blocks = arena_array(scratch, int64_t, plan->part_count);
    const double *seconds = partition_profile(scratch, oracle, p->time);
    if (p->method == METHOD_MIN_MAX)
        partition_min_max(scratch, seconds, block_count, plan->part_count, blocks);
    else
        plan_min_variance(scratch, seconds, block_count, plan->part_count, blocks);
    partition_apply(oracle->model, blocks, plan);
    arena_destroy(scratch);
    return true;
}

const struct planner partition_profile_based = {
    .name = "profile",
    .help = "stages of about equal priced time, exactly (OmniBal's profile-based)",
    .slot = PLANNER_PARTITION,
    .parameters = &profile_table,
    .parameters_size = sizeof(struct profile_parameters),
    .plan_job = profile_plan,
};
