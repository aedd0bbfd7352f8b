/* large_benchmark.c - a planner that keeps what DIP decides, and one that repeats it. */
#include "sim/study/bench/large_benchmark.h"

#include <stdlib.h>
#include <string.h>
#include "sim/base/wall_clock.h"
#include "sim/replay/replay.h"

struct kept_plan {
    int64_t micro_batch_count;
    struct batch_shape *shapes; /* by micro-batch */
    struct schedule_entry *entries;
    struct pass_choice *choices;
};

/* For one thread. */
struct keeper {
    const struct planner *planner;
    const void *parameters;
    struct kept_plan *plans; /* owned */
    int64_t count, rank_count;
};

static size_t shape_bytes(const struct iteration_plan *it) {
    return sizeof *it->shapes * (size_t)it->micro_batch_count;
}

static size_t entry_bytes(const struct job_plan *plan, const struct iteration_plan *it) {
    return sizeof *it->entries * (size_t)(plan->stage_count * it->entry_count);
}

static size_t choice_bytes(const struct job_plan *plan, const struct iteration_plan *it) {
    return sizeof *it->choices * (size_t)it->cell_first[plan->part_count];
}

/* A rank is planned more than once, and not in the order of ranks: its micro-batches tell it. */
static struct kept_plan *find(const struct keeper *k, const struct iteration_plan *it) {
    for (int64_t i = 0; i < k->count; i++)
        if (k->plans[i].micro_batch_count == it->micro_batch_count &&
            memcmp(k->plans[i].shapes, it->shapes, shape_bytes(it)) == 0)
            return &k->plans[i];
    return NULL;
}

static bool plan_and_keep(const struct planner_oracle *oracle, const void *parameters,
                          const struct job_plan *plan, struct iteration_plan *it,
                          struct error *err) {
    struct keeper *k = *(struct keeper *const *)parameters;
    if (!k->planner->plan_iteration(oracle, k->parameters, plan, it, err)) return false;
    struct kept_plan *kept = find(k, it);
    if (kept == NULL) {
        ballast_check(k->count < k->rank_count);
        kept = &k->plans[k->count++];
        kept->micro_batch_count = it->micro_batch_count;
        kept->shapes = memory_alloc(shape_bytes(it));
        kept->entries = memory_alloc(entry_bytes(plan, it));
        kept->choices = memory_alloc(choice_bytes(plan, it));
        memcpy(kept->shapes, it->shapes, shape_bytes(it));
    }
    memcpy(kept->entries, it->entries, entry_bytes(plan, it));
    memcpy(kept->choices, it->choices, choice_bytes(plan, it));
    return true;
}

static bool repeat(const struct planner_oracle *oracle, const void *parameters,
                   const struct job_plan *plan, struct iteration_plan *it, struct error *err) {
    (void)oracle, (void)err;
    const struct kept_plan *kept = find(*(struct keeper *const *)parameters, it);
    ballast_check(kept != NULL);
    memcpy(it->entries, kept->entries, entry_bytes(plan, it));
    memcpy(it->choices, kept->choices, choice_bytes(plan, it));
    return true;
}

static bool replay_once(const struct job *job, double *step_s, struct error *err) {
    struct replay_options options = { .fidelity = FIDELITY_STAGE, .threads = 1 };
    struct replay *replay = replay_run(job, &options, err);
    if (replay != NULL) *step_s = replay->step_time_mean_s;
    replay_destroy(replay);
    return replay != NULL;
}

static bool run_planned(struct large_work *w, struct job *job) {
    static const struct planner keeping = { .name = "keeping", .plan_iteration = plan_and_keep };
    static const struct planner repeating = { .name = "repeating", .plan_iteration = repeat };
    struct keeper keeper = { .planner = job->step->iteration_planner,
                             .parameters = job->step->iteration_parameters,
                             .rank_count = w->rank_count };
    struct keeper *shared = &keeper;
    keeper.plans = memory_alloc(sizeof *keeper.plans * (size_t)w->rank_count);
    memset(keeper.plans, 0, sizeof *keeper.plans * (size_t)w->rank_count);
    job->step->iteration_parameters = &shared;
    job->step->iteration_planner = &keeping;
    double start = wall_clock_s(), planned_s = 0;
    bool ok = replay_once(job, &planned_s, &w->err);
    double both_s = wall_clock_s() - start;
    job->step->iteration_planner = &repeating;
    start = wall_clock_s();
    ok = ok && replay_once(job, &w->step_s, &w->err);
    double own_s = wall_clock_s() - start;
    w->simulate_s += own_s;
    w->plan_s = both_s - own_s;
    ballast_check(!ok || w->step_s == planned_s);
    for (int64_t r = 0; r < keeper.count; r++) {
        free(keeper.plans[r].shapes);
        free(keeper.plans[r].entries);
        free(keeper.plans[r].choices);
    }
    free(keeper.plans);
    return ok;
}

void large_benchmark_run(struct large_work *w) {
    const char *overrides[] = {
        "cluster.gpu_count=16384", "layout.pp=16", "simulate.iterations=1",
        w->planned
            ? NULL
            : "policy={\"partition\":\"parameter\",\"recompute\":\"full\",\"schedule\":\"1f1b\"}",
        NULL
    };
    struct scenario_options options = { .directory = w->options->directory,
                                        .overrides = overrides };
    struct arena *arena = arena_create();
    double start = wall_clock_s();
    struct scenario *s = scenario_load(
        &options, arena_format(arena, "%s/papers/dip/vlm-xl.json", options.directory), &w->err);
    struct job *job = s != NULL ? job_create(s, &w->err) : NULL;
    w->ok = job != NULL;
    if (w->ok) {
        w->rank_count = job->batches.rank_count;
        if (w->planned) {
            w->simulate_s = wall_clock_s() - start;
            w->ok = run_planned(w, job);
        } else {
            w->ok = replay_once(job, &w->step_s, &w->err);
            w->simulate_s = wall_clock_s() - start;
        }
    }
    job_destroy(job);
    scenario_destroy(s);
    arena_destroy(arena);
}
