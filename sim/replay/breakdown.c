/* breakdown.c - the classes of a mean step, from the sums of all its iterations. */
#include "sim/replay/breakdown.h"

#include <math.h>
#include <stdlib.h>
#include "sim/base/units.h"

/* Idle time of a pipeline whose stages always take their mean times. */
static bool constant_idle(const struct job *job, const struct replay *replay, double *idle_s,
                          struct error *err) {
    struct step_runner *runner = step_runner_create(job->step);
    int64_t count = job->scenario->micro_batches_per_rank, stages = replay->stage_count;
    struct stage_cost *costs = memory_alloc(sizeof *costs * (size_t)replay->part_count);
    double busy_ns = 0;
    struct layer_time times[LAYER_KIND_COUNT];
    step_layer_times(job->step, &job->typical, times);
    for (int64_t part = 0; part < replay->part_count; part++) {
        struct stage_cost *cost = &costs[part];
        step_stage_cost(job->step, part, &job->typical, times, NULL, cost);
        cost->forward_ns = ns_from_seconds(replay->part_forward_s[part] / (double)count);
        cost->backward_ns = ns_from_seconds(replay->part_backward_s[part] / (double)count);
        busy_ns += (double)((cost->forward_ns + cost->backward_ns) * count);
        if (job->scenario->backend->send_blocks_compute)
            busy_ns += (double)((cost->send_forward_ns + cost->send_backward_ns) * count);
    }
    int64_t makespan_ns = 0;
    bool ok = step_run_constant(runner, costs, count, &makespan_ns, err);
    *idle_s = ((double)makespan_ns * (double)stages - busy_ns) / (double)stages / NS_PER_S;
    free(costs);
    step_runner_destroy(runner);
    return ok;
}

/* Where each iteration has its own order: what stages wait for the busiest, which none can avoid.
 * The bubble of an ideal pipeline is on top. */
static double spread_idle(const struct replay *replay) {
    double most = 0, mean = 0;
    for (int64_t stage = 0; stage < replay->stage_count; stage++) {
        most = fmax(most, replay->stages[stage].busy_s);
        mean += replay->stages[stage].busy_s / (double)replay->stage_count;
    }
    return most - mean;
}

/* A pipeline of typical micro-batches, with a slow GPU in its place where there is one: its makespan,
 * and what its stages wait for launches in it, their mean. */
static bool typical_makespan(const struct job *job, bool launched, int64_t *makespan_ns,
                             double *waits_ns, struct error *err) {
    const struct scenario_what_if *w = &job->scenario->what_if;
    const int64_t count = job->scenario->micro_batches_per_rank;
    struct step_runner *runner = step_runner_create(job->step);
    struct stage_cost *costs = memory_alloc(sizeof *costs * (size_t)job->step->part_count);
    *waits_ns = 0;
    for (int64_t part = 0; part < job->step->part_count; part++) {
        struct step_model model = *job->step;
        struct layer_time times[LAYER_KIND_COUNT];
        model.launched = launched;
        if (part % model.stage_count == w->slow_gpu_stage) model.slow_factor = w->slow_gpu_factor;
        step_layer_times(&model, &job->typical, times);
        step_stage_cost(&model, part, &job->typical, times, NULL, &costs[part]);
        *waits_ns += costs[part].class_ns[TIME_LAUNCH] * (double)count / (double)model.stage_count;
    }
    const bool ok = step_run_constant(runner, costs, count, makespan_ns, err);
    free(costs);
    step_runner_destroy(runner);
    return ok;
}

/* What the waits of a mean step cost, as those of typical micro-batches do: stages wait for one that
 * waits for its host, and a wait beside a slower stage, or beside traffic, costs less or nothing. */
static bool price_launches(const struct job *job, struct replay *replay, struct error *err) {
    replay->launch_cost_s = replay->classes_s[REPLAY_LAUNCH];
    /* Where each iteration has its own order, the mean over GPUs is all that is known. */
    if (replay->launch_cost_s == 0 || job->step->iteration_planner != NULL) return true;
    int64_t waiting_ns, launched_ns;
    double waits_ns, none_ns;
    if (!typical_makespan(job, false, &waiting_ns, &waits_ns, err) ||
        !typical_makespan(job, true, &launched_ns, &none_ns, err))
        return false;
    if (waits_ns > 0) replay->launch_cost_s *= (double)(waiting_ns - launched_ns) / waits_ns;
    return true;
}

bool replay_break_down(const struct job *job, struct replay *replay,
                       const struct iteration_sums *sums, int64_t update_ns, struct error *err) {
    int64_t stages = replay->stage_count, dp = job->batches.rank_count, n = replay->iteration_count;
    double class_ns[TIME_CLASS_COUNT] = { 0 }, idle_ns = 0, wait_ns = 0, data_ns = 0;
    double loading = 0, late = 0, slowest = 0; /* ns */
    for (int64_t i = 0; i < n; i++) {
        for (int class = 0; class < TIME_CLASS_COUNT; class ++)
            class_ns[class] += sums[i].class_ns[class];
        idle_ns += (double)sums[i].pipeline_idle_ns;
        wait_ns += (double)sums[i].rank_wait_ns;
        loading += (double)sums[i].loading_ns;
        late += (double)sums[i].late_loading_ns;
        slowest += (double)sums[i].slowest_loading_ns;
        replay->late_loading_count += sums[i].late_loading_ns > 0;
        data_ns += (double)(replay->iterations[i].step_time_ns - update_ns -
                            replay->iterations[i].slowest_rank_ns - sums[i].late_loading_ns);
    }
    replay->loading_mean_s = slowest / ((double)n * NS_PER_S);
    double gpus = (double)(stages * dp), scale = 1 / (gpus * (double)n * NS_PER_S);
    double *c = replay->classes_s;
    c[REPLAY_COMPUTE] = class_ns[TIME_COMPUTE] * scale;
    c[REPLAY_PADDING] = class_ns[TIME_PADDING] * scale;
    c[REPLAY_RECOMPUTE] = class_ns[TIME_RECOMPUTE] * scale;
    c[REPLAY_LAUNCH] = class_ns[TIME_LAUNCH] * scale;
    c[REPLAY_TENSOR] = class_ns[TIME_COMMUNICATION] * scale;
    c[REPLAY_CONTEXT] = class_ns[TIME_CONTEXT] * scale;
    c[REPLAY_HOST_COPY] = class_ns[TIME_HOST_COPY] * scale;
    c[REPLAY_SEND] = class_ns[TIME_SEND] * scale;
    c[REPLAY_RANK_IMBALANCE] = (wait_ns + class_ns[TIME_WAIT]) * scale;
    c[REPLAY_DATA] = data_ns / ((double)n * NS_PER_S) + class_ns[TIME_DATA] * scale;
    c[REPLAY_UPDATE] = seconds_from_ns(update_ns);
    c[REPLAY_LOADING] = loading / ((double)(dp * n) * NS_PER_S) + late / ((double)n * NS_PER_S);
    /* What is idle inside a pipeline: first what an ideal one of equal stages would have, then what
     * unequal stages add, then the rest. */
    double idle_s = idle_ns * scale, constant_s = 0, busy_s = 0;
    bool planned = job->step->iteration_planner != NULL;
    if (!planned && !constant_idle(job, replay, &constant_s, err)) return false;
    for (int class = 0; class < TIME_CLASS_COUNT; class ++)
        busy_s += class_ns[class] * scale;
    double ideal_s = busy_s * (double)(stages - 1) /
                     (double)(job->scenario->micro_batches_per_rank * job->plan.chunk_count);
    if (planned) constant_s = ideal_s + spread_idle(replay);
    c[REPLAY_BUBBLE] = fmin(ideal_s, idle_s);
    c[REPLAY_STAGE_IMBALANCE] = fmin(fmax(constant_s - ideal_s, 0), idle_s - c[REPLAY_BUBBLE]);
    c[REPLAY_TIME_IMBALANCE] = idle_s - c[REPLAY_BUBBLE] - c[REPLAY_STAGE_IMBALANCE];
    return price_launches(job, replay, err);
}
