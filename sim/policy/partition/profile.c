/* profile.c - stages of about equal measured (here: priced) time, OmniBal's "profile-based".
 *
 * min-max: the exact minimum of the slowest stage, by dynamic programming. min-variance: the exact
 * minimum of the sum of squared differences to the mean stage, OmniBal eq. (4). Times are those of
 * layers alone: forward as the paper profiles it, or forward and backward, without which a frozen
 * encoder would count as much as one that also runs its backward. Recomputation, memory and
 * communication are not looked at.
 *
 * What is profiled is the mean micro-batch, or one sample of given tiles and tokens: whoever
 * profiles before the data are packed has a single picture at hand, whose ratio of vision to text
 * is another than the mean of the data, and so are the cuts.
 */
#include "sim/policy/partition/partition.h"
#include "sim/policy/partition/partition_profile.h"

#include <math.h>

enum profile_method { METHOD_MIN_MAX, METHOD_MIN_VARIANCE };

struct profile_parameters {
    int method, time;
    int64_t tiles, tokens; /* of the sample; not given: the mean micro-batch */
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
    { "tiles", FIELD_COUNT, offsetof(struct profile_parameters, tiles), 1, 1e6, "null", "tiles",
      "profiles one sample with so many tiles and with `tokens`, in place of the mean micro-batch",
      NULL },
    { "tokens", FIELD_COUNT, offsetof(struct profile_parameters, tokens), 1, 1e8, "null", "tokens",
      "language tokens of that sample, those of its tiles included", NULL },
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

double *partition_profile(struct arena *arena, const struct planner_oracle *oracle,
                          const struct batch_shape *shape, int time) {
    const struct model *model = oracle->model;
    const bool both =
        time == PARTITION_TIME_STEP || (time == PARTITION_TIME_AUTO && has_frozen_blocks(model));
    int64_t block_count = partition_block_count(model);
    double *seconds = arena_array(arena, double, block_count);
    for (int64_t block = 0; block < block_count; block++) {
        int64_t end = partition_stage_start(model, block + 1);
        for (int64_t i = partition_stage_start(model, block); i < end; i++) {
            seconds[block] += oracle->layer_seconds(oracle->context, i, shape, PASS_SET_FORWARD);
            if (both)
                seconds[block] +=
                    oracle->layer_seconds(oracle->context, i, shape, PASS_SET_BACKWARD);
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

static bool profile_check(const struct model *model, int64_t part_count, const void *parameters,
                          struct error *err) {
    (void)part_count;
    const struct profile_parameters *p = parameters;
    if ((p->tiles > 0) != (p->tokens > 0))
        return error_set(err, "tiles and tokens describe one sample: give both or neither");
    if (p->tiles <= 0) return true;
    if (model->modules[MODULE_VISION].layer_count == 0 ||
        model->modules[MODULE_LANGUAGE].layer_count == 0 ||
        model->modules[MODULE_DIFFUSION_DECODER].layer_count > 0)
        return error_set(err, "tiles and tokens describe a sample of an encoder and a language "
                              "model: leave out both");
    const int64_t of_tiles = p->tiles * model->tile_language_tokens;
    if (p->tokens < of_tiles)
        return error_set(err, "a sample of %ld tiles has at least the %ld tokens of these, not %ld",
                         (long)p->tiles, (long)of_tiles, (long)p->tokens);
    return true;
}

static struct batch_shape profiled_shape(const struct planner_oracle *oracle,
                                         const struct profile_parameters *p) {
    if (p->tiles <= 0) return oracle->typical;
    const struct module *language = &oracle->model->modules[MODULE_LANGUAGE];
    return model_batch_shape(oracle->model, 1, p->tiles, p->tokens,
                             module_sequence_square(language, (double)p->tokens));
}

static bool profile_plan(const struct planner_oracle *oracle, const void *parameters,
                         struct job_plan *plan, struct error *err) {
    (void)err;
    const struct profile_parameters *p = parameters;
    const struct batch_shape shape = profiled_shape(oracle, p);
    int64_t block_count = partition_block_count(oracle->model);
    struct arena *scratch = arena_create();
    int64_t *blocks = arena_array(scratch, int64_t, plan->part_count);
    const double *seconds = partition_profile(scratch, oracle, &shape, p->time);
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
    .check = profile_check,
    .plan_job = profile_plan,
};
