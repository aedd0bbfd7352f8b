/* explanation.c - prices, the critical path of one iteration, and the parts of a step as advice. */
#include "sim/study/explanation.h"

#include <string.h>
#include "sim/base/field.h"

static const char *const advice_texts[REPLAY_CLASS_COUNT] = {
    [REPLAY_COMPUTE] = "faster kernels or GPUs, or fp8",
    [REPLAY_PADDING] = "a batching policy that packs (isf) or groups by length",
    [REPLAY_RECOMPUTE] = "keep more activations where memory allows (policy.recompute)",
    [REPLAY_TENSOR] = "a smaller layout.tp, or links that are faster inside the node",
    [REPLAY_SEND] = "a backend that overlaps sends, or cuts where less is sent",
    [REPLAY_BUBBLE] = "more micro-batches per step or fewer stages",
    [REPLAY_STAGE_IMBALANCE] = "another policy.partition: the slowest stage sets the pace",
    [REPLAY_TIME_IMBALANCE] = "micro-batches of equal size (policy.batching isf)",
    [REPLAY_RANK_IMBALANCE] = "equal work on all data-parallel ranks (policy.batching isf)",
    [REPLAY_DATA] = "a faster network between data-parallel ranks, or overlap of the reduction",
    [REPLAY_UPDATE] = "ZeRO-1, or a larger global batch",
};

static void keep_layer(struct explanation *x, const char *layer_kind) {
    int64_t kept = 0;
    for (int64_t i = 0; i < x->price_count; i++)
        if (strcmp(x->prices[i].layer_kind, layer_kind) == 0) x->prices[kept++] = x->prices[i];
    x->price_count = kept;
}

struct path_sum {
    struct explanation *x;
};

static void add_path(void *context, const struct step_span *span) {
    struct explanation *x = ((struct path_sum *)context)->x;
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
        return error_set(err, "--iteration: the replay has iterations 0 to %ld",
                         (long)e->replay->iteration_count - 1);
    x->rank = e->replay->iterations[x->iteration].slowest_rank;
    int64_t count = e->scenario->micro_batches_per_rank;
    x->path = arena_array(arena, struct path_share, 3 * job->step->stage_count);
    struct step_runner *runner = step_runner_create(job->step);
    struct rank_outcome outcome;
    bool ok = step_run_rank(runner, FIDELITY_STAGE,
                            job->shapes + x->rank * job->batches.per_rank + x->iteration * count,
                            count, &outcome, err);
    if (ok) {
        x->makespan_ns = outcome.makespan_ns;
        step_runner_critical_path(runner, add_path, &(struct path_sum){ x });
    }
    step_runner_destroy(runner);
    return ok;
}

bool explanation_make(const struct execution *e, int64_t iteration, const char *layer_kind,
                      struct arena *arena, struct explanation *x, struct error *err) {
    *x = (struct explanation){ .typical = e->job->typical, .iteration = iteration };
    x->samples_per_micro_batch = e->job->balance.average_batch_size;
    x->prices = execution_prices(e, arena, &x->price_count);
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
            return near != NULL ? error_hint(err, "did you mean \"%s\"?", near) : false;
        }
        keep_layer(x, layer_kind);
    }
    if (!critical_path(e, x, arena, err)) return false;
    x->advice = arena_array(arena, struct advice, REPLAY_CLASS_COUNT);
    for (int class = 0; class < REPLAY_CLASS_COUNT; class ++) {
        struct advice one = { replay_class_name((enum replay_class) class), advice_texts[class],
                              e->replay->classes_s[class] / e->replay->step_time_mean_s };
        int64_t at = x->advice_count++;
        for (; at > 0 && x->advice[at - 1].step_fraction < one.step_fraction; at--)
            x->advice[at] = x->advice[at - 1];
        x->advice[at] = one;
    }
    return true;
}
