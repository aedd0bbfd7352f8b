/* quantity.c - one row per quantity. */
#include "sim/study/reproduce/quantity.h"

#include <math.h>
#include <string.h>
#include "sim/base/field.h"
#include "sim/base/units.h"
#include "sim/policy/partition/uneven_guide.h"
#include "sim/study/reproduce/data_quantity.h"
#include "sim/study/reproduce/plan_quantity.h"
#include "sim/study/reproduce/search_quantity.h"

/* ---- time ---- */

static double gpu_days(struct quantity_source *s, int64_t index) {
    (void)index;
    /* Papers time the passes of their sampler, whatever it drops of one. */
    const struct job *job = s->execution->job;
    return s->execution->replay->gpu_days * (job->pass_steps / job->epoch_steps);
}

static double step_time(struct quantity_source *s, int64_t index) {
    (void)index;
    return s->execution->replay->step_time_mean_s * 1e3;
}

/* index: of the iteration. */
static double iteration_time(struct quantity_source *s, int64_t index) {
    const struct replay *r = s->execution->replay;
    if (index < 0 || index >= r->iteration_count) return NAN;
    return seconds_from_ns(r->iterations[index].step_time_ns) * 1e3;
}

/* The mean of iterations, from 1: the number is first x 100 + last, 1520 for 15 to 20. */
static double window_time(struct quantity_source *s, int64_t index) {
    const struct replay *r = s->execution->replay;
    const int64_t first = (index + 1) / 100, last = (index + 1) % 100;
    if (first < 1 || last < first || last > r->iteration_count) return NAN;
    double sum_ms = 0;
    for (int64_t i = first; i <= last; i++)
        sum_ms += iteration_time(s, i - 1);
    return sum_ms / (double)(last - first + 1);
}

/* Image tiles of a micro-batch, in the mean of an iteration. */
static double iteration_images(struct quantity_source *s, int64_t index) {
    const struct replay *r = s->execution->replay;
    if (index < 0 || index >= r->iteration_count) return NAN;
    const struct execution *e = s->execution;
    return (double)r->iterations[index].vision_tiles /
           (double)(e->scenario->micro_batches_per_rank * e->job->batches.rank_count);
}

static double mfu(struct quantity_source *s, int64_t index) {
    (void)index;
    return s->execution->replay->mfu_fraction;
}

/* As if each data-parallel rank went on without the slowest: what one pipeline alone reaches. */
static double mfu_mean_rank(struct quantity_source *s, int64_t index) {
    (void)index;
    const struct replay *r = s->execution->replay;
    return r->mfu_fraction * r->step_time_mean_s /
           (r->step_time_mean_s - r->classes_s[REPLAY_RANK_IMBALANCE]);
}

/* Of a step, as if waiting shrank and grew with the kernels; the rest is traffic, launches that are
 * waited for, and the update. */
static double kernel_share(struct quantity_source *s, int64_t index) {
    (void)index;
    const double *c = s->execution->replay->classes_s;
    double kernels = c[REPLAY_COMPUTE] + c[REPLAY_PADDING] + c[REPLAY_RECOMPUTE];
    return kernels / (kernels + c[REPLAY_LAUNCH] + c[REPLAY_TENSOR] + c[REPLAY_CONTEXT] +
                      c[REPLAY_HOST_COPY] + c[REPLAY_SEND] + c[REPLAY_DATA] + c[REPLAY_UPDATE]);
}

/* What pipelines wait for: the bubble of equal stages, unequal stages, unequal micro-batches. */
static double idle_share(struct quantity_source *s, int64_t index) {
    (void)index;
    const struct replay *r = s->execution->replay;
    return (r->classes_s[REPLAY_BUBBLE] + r->classes_s[REPLAY_STAGE_IMBALANCE] +
            r->classes_s[REPLAY_TIME_IMBALANCE]) /
           r->step_time_mean_s;
}

static double sum_over_stages(const struct execution *e,
                              double (*of)(const struct execution *e, int64_t stage)) {
    double sum = 0;
    for (int64_t stage = 0; stage < e->job->plan.stage_count; stage++)
        sum += of(e, stage);
    return sum;
}

static double forward_time(struct quantity_source *s, int64_t index) {
    return plan_stage_forward_ms(s->execution, index);
}

static double stage_time(struct quantity_source *s, int64_t index) {
    return plan_stage_pass_ms(s->execution, index);
}

static double block_time_vision(struct quantity_source *s, int64_t index) {
    (void)index;
    return plan_block_pass_ms(s->execution, LAYER_VISION_BLOCK);
}

static double block_time_language(struct quantity_source *s, int64_t index) {
    (void)index;
    return plan_block_pass_ms(s->execution, LAYER_LANGUAGE_BLOCK);
}

static double forward_time_total(struct quantity_source *s, int64_t index) {
    (void)index;
    return sum_over_stages(s->execution, plan_stage_forward_ms);
}

static double forward_share(struct quantity_source *s, int64_t index) {
    return forward_time(s, index) / forward_time_total(s, 0);
}

static double forward_deviation(struct quantity_source *s, int64_t index) {
    (void)index;
    return plan_spread(s->execution, PLAN_FORWARD_TIME, SPREAD_DEVIATION);
}

/* ---- batches ---- */

static const struct batch_balance *balance(const struct quantity_source *s) {
    return &s->execution->job->balance;
}

static double average_batch_size(struct quantity_source *s, int64_t index) {
    (void)index;
    return balance(s)->average_batch_size;
}

/* The papers count patches, not class tokens: 1K for a tile of 448 pixels. Of native resolution,
 * the balance counts patches already. */
static double max_vision_tokens(struct quantity_source *s, int64_t index) {
    (void)index;
    if (s->execution->job->dataset->vision_patches != NULL)
        return (double)balance(s)->max_vision_tiles;
    const struct model *model = s->execution->scenario->model;
    int64_t patches =
        model->tile_vision_tokens - module_extra_tokens(&model->modules[MODULE_VISION]);
    return (double)(balance(s)->max_vision_tiles * patches);
}

static double max_language_tokens(struct quantity_source *s, int64_t index) {
    (void)index;
    return (double)balance(s)->max_language_tokens;
}

static double pad_ratio(struct quantity_source *s, int64_t index) {
    (void)index;
    return balance(s)->pad_ratio;
}

static double dist_ratio_vision(struct quantity_source *s, int64_t index) {
    (void)index;
    return balance(s)->dist_ratio_vision;
}

static double dist_ratio_language(struct quantity_source *s, int64_t index) {
    (void)index;
    return balance(s)->dist_ratio_language;
}

/* The papers tick a method as balanced when neither padding nor either dist ratio is large; all
 * their ticks agree with one fifth as the limit. */
static double balanced(struct quantity_source *s, int64_t index) {
    (void)index;
    const struct batch_balance *b = balance(s);
    return b->pad_ratio <= 0.2 && b->dist_ratio_vision <= 0.2 && b->dist_ratio_language <= 0.2;
}

static double text_per_image(struct quantity_source *s, int64_t index) {
    (void)index;
    return data_text_per_image(s->execution);
}

static double work_spread(struct quantity_source *s, int64_t index) {
    (void)index;
    return data_work_spread(s->execution);
}

/* ---- variation between micro-batches ---- */

static const struct imbalance *imbalance(struct quantity_source *s) {
    if (s->imbalance == NULL) s->imbalance = imbalance_measure(s->execution, s->arena);
    return s->imbalance;
}

#define SPREAD_OF(name, member, scale)                                                             \
    static double name##_mean(struct quantity_source *s, int64_t index) {                          \
        (void)index;                                                                               \
        return imbalance(s)->member.mean * (scale);                                                \
    }                                                                                              \
    static double name##_std(struct quantity_source *s, int64_t index) {                           \
        (void)index;                                                                               \
        return imbalance(s)->member.deviation * (scale);                                           \
    }
SPREAD_OF(all_forward, forward_ms, 1)
SPREAD_OF(all_memory, memory_bytes, 1 / BYTES_PER_GiB)
SPREAD_OF(vision_tokens, vision_tokens, 1)
SPREAD_OF(language_tokens, language_tokens, 1)
SPREAD_OF(input_tokens, stage_input_tokens, 1)
SPREAD_OF(first_forward, stage_forward_ms[0], 1)
SPREAD_OF(first_memory, stage_memory_bytes[0], 1 / BYTES_PER_GiB)

/* ---- memory ---- */

static double stage_memory(const struct quantity_source *s, int64_t stage, bool peak) {
    const struct replay *r = s->execution->replay;
    if (stage < 0 || stage >= r->stage_count) return NAN;
    return stage_memory_device(peak ? &r->stages[stage].peak : &r->stages[stage].least) /
           BYTES_PER_GiB;
}

static double capacity(const struct quantity_source *s) {
    return cost_model_gpu(s->execution->scenario->cost_model)->hbm_bytes / BYTES_PER_GiB;
}

static double memory(struct quantity_source *s, int64_t index) {
    return stage_memory(s, index, true);
}

static double remaining_memory(struct quantity_source *s, int64_t index) {
    return capacity(s) - stage_memory(s, index, true);
}

static double remaining_memory_most(struct quantity_source *s, int64_t index) {
    return capacity(s) - stage_memory(s, index, false);
}

static double memory_deviation(struct quantity_source *s, int64_t index) {
    (void)index;
    int64_t stages = s->execution->replay->stage_count;
    double mean = 0, squares = 0;
    for (int64_t i = 0; i < stages; i++)
        mean += stage_memory(s, i, true) / (double)stages;
    for (int64_t i = 0; i < stages; i++)
        squares += pow(stage_memory(s, i, true) - mean, 2);
    return sqrt(squares / (double)stages);
}

/* Both readings of one stage are measured together. */
static const struct fluctuation *fluctuation(struct quantity_source *s, int64_t stage) {
    if (s->fluctuation == NULL || s->fluctuation_stage != stage) {
        s->fluctuation = arena_new(s->arena, struct fluctuation);
        *s->fluctuation = fluctuation_measure(s->execution, stage);
        s->fluctuation_stage = stage;
    }
    return s->fluctuation;
}

static double memory_fluctuation(struct quantity_source *s, int64_t index) {
    return fluctuation(s, index)->deviation_bytes / BYTES_PER_GiB;
}

static double memory_swing(struct quantity_source *s, int64_t index) {
    return fluctuation(s, index)->range_bytes / BYTES_PER_GiB;
}

/* ---- the plan ---- */

static double layers(struct quantity_source *s, int64_t index) {
    return plan_stage_blocks(s->execution, index);
}

static double language_layers(struct quantity_source *s, int64_t index) {
    return plan_stage_language_blocks(s->execution, index);
}

static double recompute_layers(struct quantity_source *s, int64_t index) {
    return plan_stage_recompute(s->execution, index);
}

/* index: the kind of spread, so that three rows share a function. */
#define SPREAD_OF_PLAN(name, measure, kind)                                                        \
    static double name(struct quantity_source *s, int64_t index) {                                 \
        (void)index;                                                                               \
        return plan_spread(s->execution, measure, kind);                                           \
    }
SPREAD_OF_PLAN(layers_squares, PLAN_BLOCKS, SPREAD_SQUARES)
SPREAD_OF_PLAN(layers_variance, PLAN_BLOCKS, SPREAD_VARIANCE)
SPREAD_OF_PLAN(layers_deviation, PLAN_BLOCKS, SPREAD_DEVIATION)
SPREAD_OF_PLAN(parameters_squares, PLAN_PARAMETERS, SPREAD_SQUARES)
SPREAD_OF_PLAN(parameters_variance, PLAN_PARAMETERS, SPREAD_VARIANCE)
SPREAD_OF_PLAN(parameters_deviation, PLAN_PARAMETERS, SPREAD_DEVIATION)
SPREAD_OF_PLAN(forward_squares, PLAN_FORWARD_TIME, SPREAD_SQUARES)
SPREAD_OF_PLAN(forward_variance, PLAN_FORWARD_TIME, SPREAD_VARIANCE)

static double cut_volume(struct quantity_source *s, int64_t index) {
    (void)index;
    return plan_cut_bytes(s->execution) / BYTES_PER_MiB;
}

/* With equal language blocks, moving some of them from the first of two stages to the last gains
 * most when both then take the same time: (last - first + even) / last blocks. */
static double balance_bound(struct quantity_source *s, int64_t index) {
    (void)index;
    double first = language_layers(s, 0), last = language_layers(s, 1);
    return (last - first + (first + last) / 2) / last;
}

/* ---- the uneven pipeline guide's own formulas ---- */

/* Of one sample: the encoder's image and the longest language sequence of the run. */
static struct uneven_guide_model guide_model(const struct model *m) {
    const struct module *v = &m->modules[MODULE_VISION], *c = &m->modules[MODULE_CONNECTOR],
                        *l = &m->modules[MODULE_LANGUAGE];
    return (struct uneven_guide_model){
        .vision_layers = v->layer_count,
        .vision_hidden = v->hidden,
        .vision_ffn = v->ffn_hidden,
        .patch = v->patch_size,
        .channels = v->channels,
        .adaptor_in = c->connector_in,
        .adaptor_out = c->connector_out,
        .language_layers = l->layer_count,
        .language_hidden = l->hidden,
        .language_ffn = l->ffn_hidden,
    };
}

static struct uneven_guide_memory guide_of(const struct quantity_source *s) {
    const struct execution *e = s->execution;
    struct uneven_guide_model m = guide_model(e->scenario->model);
    return uneven_guide_memory(&m, e->scenario->model->modules[MODULE_VISION].image_size,
                               balance(s)->max_language_tokens, 1, e->scenario->layout.tp,
                               (int64_t)plan_stage_language_blocks(e, 0));
}

static double guide_memory(struct quantity_source *s, int64_t index) {
    (void)index;
    return guide_of(s).total / BYTES_PER_GB;
}

static double guide_memory_vision(struct quantity_source *s, int64_t index) {
    (void)index;
    return guide_of(s).vision / BYTES_PER_GB;
}

static double guide_memory_language(struct quantity_source *s, int64_t index) {
    (void)index;
    return guide_of(s).language / BYTES_PER_GB;
}

/* ---- DIP's search ---- */

#define SEARCHED(name, call)                                                                       \
    static double name(struct quantity_source *s, int64_t index) {                                 \
        (void)index;                                                                               \
        return call;                                                                               \
    }
SEARCHED(tree_excess, search_excess(s, SEARCH_TREE))
SEARCHED(depth_first_excess, search_excess(s, SEARCH_DEPTH_FIRST))
SEARCHED(random_excess, search_excess(s, SEARCH_RANDOM))
SEARCHED(tree_near_schedules, search_near_schedules(s, SEARCH_TREE))
SEARCHED(tree_near_time, search_near_s(s, SEARCH_TREE))
SEARCHED(tree_gap, search_gap(s))
SEARCHED(search_time, search_wall_s(s))
SEARCHED(glpk_time, solver_wall_s(s, MONOLITHIC_GLPK))
SEARCHED(glpk_solved, solver_solved(s, MONOLITHIC_GLPK))
SEARCHED(glpk_ratio, solver_ratio(s, MONOLITHIC_GLPK))
SEARCHED(z3_killed, solver_killed(s, MONOLITHIC_Z3))
SEARCHED(z3_time, solver_wall_s(s, MONOLITHIC_Z3))
SEARCHED(z3_solved, solver_solved(s, MONOLITHIC_Z3))
SEARCHED(z3_ratio, solver_ratio(s, MONOLITHIC_Z3))

/* ---- the table ---- */

#define UNPROVEN "nothing is proven within the budget"
#define NO_Z3    "this build has no Z3"
#define PLAN     .replayed = false
#define REPLAYED .replayed = true
#define TIMED    .replayed = true, .timed = true
#define STAGE    .indexed = true
#define MEASURED .replayed = false, .measured = true
static const struct quantity table[] = {
    { "average_batch_size", "samples", average_batch_size, PLAN },
    { "balance_bound", "ratio", balance_bound, PLAN },
    { "balanced", "ratio", balanced, PLAN },
    { "block_time_language", "ms", block_time_language, PLAN },
    { "block_time_vision", "ms", block_time_vision, PLAN },
    { "cut_volume", "MiB", cut_volume, PLAN },
    { "cut_volume_change", "MiB", cut_volume, PLAN, .comparison = COMPARE_DIFFERENCE },
    { "depth_first_excess", "ratio", depth_first_excess, PLAN },
    { "dist_ratio_language", "ratio", dist_ratio_language, PLAN },
    { "dist_ratio_vision", "ratio", dist_ratio_vision, PLAN },
    { "first_stage_forward_mean", "ms", first_forward_mean, PLAN },
    { "first_stage_forward_std", "ms", first_forward_std, PLAN },
    { "first_stage_memory_mean", "GB", first_memory_mean, PLAN },
    { "first_stage_memory_std", "GB", first_memory_std, PLAN },
    { "forward_mean", "ms", all_forward_mean, PLAN },
    { "forward_share_stage", "ratio", forward_share, PLAN, STAGE },
    { "forward_std", "ms", all_forward_std, PLAN },
    { "forward_time_squares", "ratio", forward_squares, PLAN },
    { "forward_time_stage", "ms", forward_time, PLAN, STAGE },
    { "forward_time_std", "ms", forward_deviation, PLAN },
    { "forward_time_total", "ms", forward_time_total, PLAN },
    { "forward_time_variance", "ratio", forward_variance, PLAN },
    { "glpk_ratio", "ratio", glpk_ratio, PLAN, .absent = UNPROVEN },
    { "glpk_solved", "ratio", glpk_solved, PLAN },
    { "glpk_time", "s", glpk_time, MEASURED },
    { "gpu_days", "GPU-days", gpu_days, TIMED },
    { "guide_memory", "GB", guide_memory, PLAN },
    { "guide_memory_language", "GB", guide_memory_language, PLAN },
    { "guide_memory_vision", "GB", guide_memory_vision, PLAN },
    { "idle_share", "ratio", idle_share, TIMED, .classed = true },
    { "input_tokens_mean", "tokens", input_tokens_mean, PLAN },
    { "input_tokens_std", "tokens", input_tokens_std, PLAN },
    { "iteration_images", "tiles", iteration_images, REPLAYED, STAGE },
    { "iteration_speedup", "ratio", iteration_time, TIMED, STAGE, .comparison = COMPARE_RATIO },
    { "iteration_time", "ms", iteration_time, TIMED, STAGE },
    { "iteration_window_speedup", "ratio", window_time, TIMED, STAGE, .comparison = COMPARE_RATIO },
    { "kernel_share", "ratio", kernel_share, REPLAYED, .classed = true },
    { "language_layers_stage", "layers", language_layers, PLAN, STAGE },
    { "language_tokens_mean", "tokens", language_tokens_mean, PLAN },
    { "language_tokens_std", "tokens", language_tokens_std, PLAN },
    { "layers_squares", "ratio", layers_squares, PLAN },
    { "layers_stage", "layers", layers, PLAN, STAGE },
    { "layers_std", "layers", layers_deviation, PLAN },
    { "layers_variance", "ratio", layers_variance, PLAN },
    { "max_language_tokens", "tokens", max_language_tokens, PLAN },
    { "max_vision_tokens", "tokens", max_vision_tokens, PLAN },
    { "mcts_excess", "ratio", tree_excess, PLAN },
    { "mcts_gap", "ratio", tree_gap, PLAN },
    { "mcts_near_schedules", "schedules", tree_near_schedules, PLAN },
    { "mcts_near_time", "s", tree_near_time, MEASURED },
    { "memory_fluctuation_ratio_stage", "ratio", memory_fluctuation, PLAN, STAGE,
      .comparison = COMPARE_RATIO },
    { "memory_fluctuation_stage", "GB", memory_fluctuation, PLAN, STAGE },
    { "memory_mean", "GB", all_memory_mean, PLAN },
    { "memory_ratio_stage", "ratio", memory, REPLAYED, STAGE, .comparison = COMPARE_RATIO },
    { "memory_stage", "GB", memory, REPLAYED, STAGE },
    { "memory_std", "GB", all_memory_std, PLAN },
    { "memory_std_stages", "GB", memory_deviation, REPLAYED },
    { "memory_swing_ratio_stage", "ratio", memory_swing, PLAN, STAGE, .comparison = COMPARE_RATIO },
    { "memory_swing_stage", "GB", memory_swing, PLAN, STAGE },
    { "mfu", "ratio", mfu, TIMED, .rate = true },
    { "mfu_mean_rank", "ratio", mfu_mean_rank, TIMED, .rate = true, .classed = true },
    { "pad_ratio", "ratio", pad_ratio, PLAN },
    { "parameters_squares", "ratio", parameters_squares, PLAN },
    { "parameters_std", "ratio", parameters_deviation, PLAN },
    { "parameters_variance", "ratio", parameters_variance, PLAN },
    { "random_excess", "ratio", random_excess, PLAN },
    { "recompute_layers_stage", "layers", recompute_layers, PLAN, STAGE },
    { "remaining_memory_most_stage", "GB", remaining_memory_most, REPLAYED, STAGE },
    { "remaining_memory_stage", "GB", remaining_memory, REPLAYED, STAGE },
    { "scaling_efficiency", "ratio", gpu_days, TIMED, .comparison = COMPARE_RATIO },
    { "search_time", "s", search_time, MEASURED },
    { "speedup", "ratio", gpu_days, TIMED, .comparison = COMPARE_RATIO },
    { "stage_time_stage", "ms", stage_time, PLAN, STAGE },
    { "step_speedup", "ratio", step_time, TIMED, .comparison = COMPARE_RATIO },
    { "step_time", "ms", step_time, TIMED },
    { "text_per_image", "tokens", text_per_image, PLAN },
    { "vision_tokens_mean", "tokens", vision_tokens_mean, PLAN },
    { "vision_tokens_std", "tokens", vision_tokens_std, PLAN },
    { "work_spread", "ratio", work_spread, PLAN },
    { "z3_killed", "ratio", z3_killed, MEASURED, .absent = NO_Z3 },
    { "z3_ratio", "ratio", z3_ratio, PLAN, .absent = NO_Z3 " or " UNPROVEN },
    { "z3_solved", "ratio", z3_solved, PLAN, .absent = NO_Z3 },
    { "z3_time", "s", z3_time, MEASURED, .absent = NO_Z3 },
};
enum { QUANTITY_COUNT = sizeof table / sizeof table[0] };

const struct quantity *quantities(size_t *count) {
    *count = QUANTITY_COUNT;
    return table;
}

/* "memory_stage2": the name without digits, and 1. */
static size_t split_name(const char *name, int64_t *number) {
    size_t length = strlen(name), end = length;
    while (end > 0 && name[end - 1] >= '0' && name[end - 1] <= '9')
        end--;
    *number = 0;
    for (size_t i = end; i < length && *number < 1000000; i++)
        *number = 10 * *number + (name[i] - '0');
    return end;
}

const struct quantity *quantity_find(const char *name, int64_t *index) {
    int64_t number;
    size_t length = split_name(name, &number);
    for (size_t i = 0; i < QUANTITY_COUNT; i++) {
        const struct quantity *q = &table[i];
        if (strlen(q->name) != length || strncmp(q->name, name, length) != 0) continue;
        if (q->indexed ? number == 0 : name[length] != '\0') return NULL;
        *index = q->indexed ? number - 1 : 0;
        return q;
    }
    return NULL;
}

static const char *name_at(const void *names, size_t index) {
    (void)names;
    return table[index].name;
}

const char *quantity_nearest(const char *name) {
    return nearest_name(name, QUANTITY_COUNT, name_at, NULL);
}

bool quantity_compares(const struct quantity *quantity) {
    return quantity->comparison != COMPARE_NOTHING;
}

double quantity_compare(const struct quantity *quantity, double own, double against) {
    switch (quantity->comparison) {
    case COMPARE_NOTHING:
        return own;
    case COMPARE_RATIO:
        return against / own;
    case COMPARE_DIFFERENCE:
        return own - against;
    }
    return NAN;
}
