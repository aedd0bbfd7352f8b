/* explanation.c - layers, prices, the critical path of one iteration, and the parts of a step as
 * advice. */
#include "sim/study/explanation.h"

#include <stdlib.h>
#include <string.h>
#include "sim/base/field.h"
#include "sim/base/units.h"
#include "sim/study/explanation_parts.h"

/* Of a step. */
#define NOTABLE_LAUNCHES 0.05

static const char *const advice_texts[REPLAY_CLASS_COUNT] = {
    [REPLAY_COMPUTE] = "faster kernels or GPUs, or fp8",
    [REPLAY_PADDING] = "a batching policy that packs (isf) or groups by length",
    [REPLAY_RECOMPUTE] = "keep more activations where memory allows (policy.recompute)",
    [REPLAY_LAUNCH] = "more tokens a micro-batch; CUDA graphs or compiled layers (layout.stack "
                      "megatron-bridge-2026, torchtitan)",
    [REPLAY_TENSOR] = "a smaller layout.tp, or links that are faster inside the node",
    [REPLAY_CONTEXT] = "a smaller layout.cp, or another layout.cp_kind or cp_heads",
    [REPLAY_HOST_COPY] = "fewer blocks in host memory (training.offload_blocks), or a faster "
                         "link to the host",
    [REPLAY_SEND] = "a backend that overlaps sends, or cuts where less is sent",
    [REPLAY_BUBBLE] = "more micro-batches per step or fewer stages",
    [REPLAY_STAGE_IMBALANCE] = "another policy.partition: the slowest stage sets the pace",
    [REPLAY_TIME_IMBALANCE] = "micro-batches of equal size (policy.batching isf)",
    [REPLAY_RANK_IMBALANCE] = "equal work on all data-parallel ranks (policy.batching isf)",
    [REPLAY_DATA] = "a faster network between data-parallel ranks, or overlap of the reduction",
    [REPLAY_UPDATE] = "ZeRO-1, or a larger global batch",
    [REPLAY_LOADING] = "more data-loading workers, or loading beside compute (what_if)",
};

static bool could_reduce_once(const struct scenario *s) {
    return scenario_accumulates_shards(s) && s->layout.pp == 1 && !s->backend->step.reduces_once;
}

/* Clips are no samples of images and text: what packs those has no meaning for them. */
static const char *advice_text(const struct execution *e, int class) {
    const bool clips = e->scenario->model->modules[MODULE_DIFFUSION_DECODER].layer_count > 0;
    if (clips && class == REPLAY_PADDING)
        return "a batching policy that groups clips of like size (clip-group)";
    if (clips && class == REPLAY_TIME_IMBALANCE)
        return "micro-batches of equal size (limits of policy.batching clip-group)";
    if (clips && class == REPLAY_RANK_IMBALANCE)
        return "equal work on all data-parallel ranks (limits of policy.batching clip-group)";
    /* Most of it is what the traffic takes from the compute beside it. */
    if (class == REPLAY_DATA && could_reduce_once(e->scenario))
        return "fewer gathers and reductions beside the compute: training.gradient_sync last where "
               "whole gradients fit, larger micro-batches, a lower layout.zero_stage; a faster "
               "network where they are exposed";
    if (class == REPLAY_DATA && e->scenario->layout.zero_stage >= 2)
        return "fewer gathers and reductions beside the compute: larger micro-batches, a lower "
               "layout.zero_stage; a faster network where they are exposed";
    if (class == REPLAY_DATA && e->scenario->layout.overlap_gradient_reduce)
        return "a faster network between data-parallel ranks, or a larger global batch";
    if (class == REPLAY_UPDATE && e->scenario->layout.zero_stage >= 1)
        return "a larger global batch";
    if (class == REPLAY_HOST_COPY && e->scenario->training_fields.offload_blocks == 0)
        return "less of it (policy.joint.offload), or a faster link to the host";
    if (class == REPLAY_LAUNCH && e->scenario->layout.tp > 1)
        return "more tokens a micro-batch, a smaller layout.tp; CUDA graphs or compiled layers "
               "(layout.stack megatron-bridge-2026, torchtitan)";
    if (class == REPLAY_COMPUTE &&
        e->replay->launch_cost_s > NOTABLE_LAUNCHES * e->replay->step_time_mean_s)
        return "launches first: passes that wait for them gain nothing by faster kernels or GPUs, "
               "and fp8 launches more";
    return advice_texts[class];
}

static void keep_layer(struct explanation *x, const char *layer_kind) {
    int64_t kept = 0;
    for (int64_t i = 0; i < x->price_count; i++)
        if (strcmp(x->prices[i].layer_kind, layer_kind) == 0) x->prices[kept++] = x->prices[i];
    x->price_count = kept;
}

static int compare_prices(const void *a, const void *b) {
    const struct price_record *left = a, *right = b;
    double left_s = left->price_s * left->calls_per_step,
           right_s = right->price_s * right->calls_per_step;
    if (left_s != right_s) return left_s > right_s ? -1 : 1;
    return (left->price_index > right->price_index) - (left->price_index < right->price_index);
}

/* ---- layers ---- */

static bool stage_holds(const struct execution *e, int64_t stage, int kind) {
    const struct job_plan *plan = &e->job->plan;
    for (int64_t part = stage; part < plan->part_count; part += plan->stage_count)
        for (int64_t i = plan->first_layer[part]; i < plan->first_layer[part + 1]; i++)
            if ((int)e->scenario->model->layers[i].kind == kind) return true;
    return false;
}

/* Sums over the layers of a kind in a mean step: over all micro-batches that were replayed. */
struct layer_sums {
    double forward_s, backward_s, recompute_s;
};

/* `layers` of them recompute as listed, all priced by one table. */
static void add_layer_time(const struct execution *e, const struct price_table *prices, int kind,
                           int64_t layers, const int64_t recomputing[RECOMPUTE_KIND_COUNT],
                           struct layer_sums *sums) {
    const struct job *job = e->job;
    const int64_t replayed = e->replay->iteration_count * e->scenario->micro_batches_per_rank;
    const int64_t count = job->batches.rank_count * replayed;
    double forward_ns = 0, backward_ns = 0, recompute_ns = 0;
    for (int64_t i = 0; i < count; i++) {
        const struct batch_shape *shape =
            &job->shapes[i / replayed * job->batches.per_rank + i % replayed];
        if (batch_shape_tokens(shape, layer_kind_axis((enum layer_kind)kind)) == 0) continue;
        struct layer_time time;
        price_table_layer(prices, (enum layer_kind)kind, shape, &time);
        forward_ns += (double)time.forward_ns;
        backward_ns += (double)time.backward_ns;
        for (int how = 0; how < RECOMPUTE_KIND_COUNT; how++)
            recompute_ns += (double)(recomputing[how] * time.recompute_ns[how]);
    }
    double scale = (double)e->scenario->micro_batches_per_rank / (double)count / NS_PER_S;
    sums->forward_s += forward_ns * scale * (double)layers;
    sums->backward_s += backward_ns * scale * (double)layers;
    sums->recompute_s += recompute_ns * scale;
}

static void add_layer_kind(const struct execution *e, int kind, struct explanation *x) {
    const struct model *model = e->scenario->model;
    const struct price_table *prices = e->job->prices;
    int64_t layers = 0, alike = 0, stages = 0;
    int64_t recomputing[RECOMPUTE_KIND_COUNT] = { 0 };
    struct layer_sums sums = { 0 };
    for (int64_t i = 0; i < model->layer_count; i++) {
        if ((int)model->layers[i].kind != kind) continue;
        layers++;
        int64_t own[RECOMPUTE_KIND_COUNT] = { 0 };
        own[e->job->plan.recompute[i]] = 1;
        if (price_table_of_layer(prices, i) != prices) {
            add_layer_time(e, price_table_of_layer(prices, i), kind, 1, own, &sums);
            continue;
        }
        alike++;
        recomputing[e->job->plan.recompute[i]]++;
    }
    for (int64_t stage = 0; stage < e->job->plan.stage_count; stage++)
        stages += stage_holds(e, stage, kind);
    if (layers == 0) return;
    if (alike > 0) add_layer_time(e, prices, kind, alike, recomputing, &sums);
    struct layer_share *share = &x->layers[x->layer_kind_count++];
    *share = (struct layer_share){ .layer_kind = layer_kind_name((enum layer_kind)kind),
                                   .layer_count = layers,
                                   .stage_count = stages,
                                   .forward_s = sums.forward_s / (double)stages,
                                   .backward_s = sums.backward_s / (double)stages,
                                   .recompute_s = sums.recompute_s / (double)stages };
    share->step_fraction =
        (share->forward_s + share->backward_s + share->recompute_s) / e->replay->step_time_mean_s;
}

static void mean_micro_batch(const struct execution *e, struct explanation *x) {
    int64_t count = e->job->batches.rank_count * e->job->batches.per_rank;
    for (int64_t i = 0; i < count; i++) {
        x->tiles_per_micro_batch += (double)e->job->shapes[i].vision_tiles / (double)count;
        x->language_tokens_per_micro_batch +=
            (double)e->job->shapes[i].language_tokens / (double)count;
    }
    x->samples_per_micro_batch = e->job->balance.average_batch_size;
}

/* ---- critical path ---- */

struct path_sum {
    struct explanation *x;
    struct step_span *spans; /* last first */
    int64_t span_count;
};

static void keep_span(void *context, const struct step_span *span) {
    struct path_sum *sum = context;
    sum->spans[sum->span_count++] = *span;
}

static bool is_send(const struct step_span *span) {
    return span->kind == SPAN_SEND_FORWARD || span->kind == SPAN_SEND_BACKWARD;
}

/* Puts the path in order of time and joins what follows on one stage. */
static void make_chain(struct explanation *x, const struct path_sum *sum, struct arena *arena) {
    x->chain = arena_array(arena, struct path_stretch, sum->span_count + 1);
    for (int64_t i = sum->span_count - 1; i >= 0; i--) {
        const struct step_span *span = &sum->spans[i];
        struct path_stretch *last = x->chain_count > 0 ? &x->chain[x->chain_count - 1] : NULL;
        if (last == NULL || is_send(span) || last->send || last->stage != span->stage) {
            last = &x->chain[x->chain_count++];
            *last = (struct path_stretch){ .stage = span->stage,
                                           .start_ns = span->start_ns,
                                           .first_micro_batch = span->micro_batch,
                                           .send = is_send(span) };
        }
        last->pass_count++;
        last->finish_ns = span->finish_ns;
        last->last_micro_batch = span->micro_batch;
    }
}

#define GAIN_FACTOR 0.9

/* Runs the iteration again with each stage a tenth faster. */
static bool find_gains(const struct execution *e, struct explanation *x,
                       const struct batch_shape *shapes, struct arena *arena, struct error *err) {
    const struct step_model *step = e->job->step;
    if (step->sharded) return true;
    x->gains = arena_array(arena, struct stage_gain, step->stage_count);
    struct step_runner *runner = step_runner_create(step);
    step_runner_times_only(runner, true);
    bool ok = true;
    for (int64_t stage = 0; ok && stage < step->stage_count; stage++) {
        struct step_slowness faster = { 1, GAIN_FACTOR, 1, stage, 0 };
        struct rank_outcome outcome;
        step_runner_slow(runner, &faster);
        ok = step_run_rank(runner, FIDELITY_STAGE, shapes, e->scenario->micro_batches_per_rank,
                           &outcome, err);
        struct stage_gain gain = { stage, x->makespan_ns - outcome.makespan_ns };
        int64_t at = x->gain_count++;
        for (; at > 0 && x->gains[at - 1].gain_ns < gain.gain_ns; at--)
            x->gains[at] = x->gains[at - 1];
        x->gains[at] = gain;
    }
    step_runner_destroy(runner);
    return ok;
}

static void add_path(void *context, const struct step_span *span) {
    struct explanation *x = ((struct path_sum *)context)->x;
    keep_span(context, span);
    const char *kind = span->kind == SPAN_FORWARD    ? "forward"
                       : span->kind == SPAN_BACKWARD ? "backward"
                                                     : "send";
    int64_t i = 0;
    while (i < x->path_count &&
           (x->path[i].stage != span->stage || strcmp(x->path[i].kind, kind) != 0))
        i++;
    if (i == x->path_count)
        x->path[x->path_count++] = (struct path_share){ .stage = span->stage, .kind = kind };
    x->path[i].task_count++;
    x->path[i].ns += span->finish_ns - span->start_ns;
}

static bool critical_path(const struct execution *e, struct explanation *x, struct arena *arena,
                          struct error *err) {
    const struct job *job = e->job;
    if (x->iteration >= e->replay->iteration_count)
        return error_set(err, "--iteration %ld: the replay has iterations 0 to %ld",
                         (long)x->iteration, (long)e->replay->iteration_count - 1);
    x->rank = e->replay->iterations[x->iteration].slowest_rank;
    int64_t count = e->scenario->micro_batches_per_rank;
    x->path = arena_array(arena, struct path_share, 3 * job->step->stage_count);
    struct step_runner *runner = step_runner_create(job->step);
    struct rank_outcome outcome;
    const struct batch_shape *shapes =
        job->shapes + x->rank * job->batches.per_rank + x->iteration * count;
    bool ok = step_run_rank(runner, FIDELITY_STAGE, shapes, count, &outcome, err);
    if (ok) {
        x->makespan_ns = outcome.makespan_ns;
        struct path_sum sum = { .x = x };
        sum.spans = arena_array(arena, struct step_span, step_runner_task_count(runner) + 1);
        step_runner_critical_path(runner, add_path, &sum);
        make_chain(x, &sum, arena);
    }
    step_runner_destroy(runner);
    return ok && find_gains(e, x, shapes, arena, err);
}

bool explanation_make(const struct execution *e, int64_t iteration, const char *layer_kind,
                      struct arena *arena, struct explanation *x, struct error *err) {
    *x = (struct explanation){ .typical = e->job->typical, .iteration = iteration };
    mean_micro_batch(e, x);
    for (int kind = 0; kind < LAYER_KIND_COUNT; kind++)
        add_layer_kind(e, kind, x);
    x->prices = execution_prices(e, arena, &x->price_count);
    explanation_outer_prices(e, arena, x);
    explanation_parts(e, x);
    if (layer_kind != NULL) {
        const char *names[LAYER_KIND_COUNT + 1] = { NULL };
        bool known = false;
        for (int kind = 0; kind < LAYER_KIND_COUNT; kind++) {
            names[kind] = layer_kind_name((enum layer_kind)kind);
            known = known || strcmp(names[kind], layer_kind) == 0;
        }
        if (!known) {
            const char *near = nearest_in_list(layer_kind, names);
            error_set(err, "--layer: unknown layer kind \"%s\"", layer_kind);
            if (near != NULL) return error_hint(err, "did you mean \"%s\"?", near);
            const char *all = names[0];
            for (int kind = 1; kind < LAYER_KIND_COUNT; kind++)
                all = arena_format(arena, "%s, %s", all, names[kind]);
            return error_hint(err, "there are: %s", all);
        }
        keep_layer(x, layer_kind);
    }
    qsort(x->prices, (size_t)x->price_count, sizeof *x->prices, compare_prices);
    if (!critical_path(e, x, arena, err)) return false;
    x->advice = arena_array(arena, struct advice, REPLAY_CLASS_COUNT);
    for (int class = 0; class < REPLAY_CLASS_COUNT; class ++) {
        if (replay_class_is_rare(class) && e->replay->classes_s[class] == 0) continue;
        struct advice one = { replay_class_name((enum replay_class) class), advice_text(e, class),
                              e->replay->classes_s[class] / e->replay->step_time_mean_s };
        int64_t at = x->advice_count++;
        for (; at > 0 && x->advice[at - 1].step_fraction < one.step_fraction; at--)
            x->advice[at] = x->advice[at - 1];
        x->advice[at] = one;
    }
    return true;
}
