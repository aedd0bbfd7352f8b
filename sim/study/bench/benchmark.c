/* benchmark.c - each figure is a function that returns one repeat's value. */
#include "sim/study/bench/benchmark.h"

#include <gsl/gsl_sort.h>
#include <gsl/gsl_statistics_double.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>
#include "sim/base/wall_clock.h"
#include "sim/replay/replay.h"
#include "sim/study/bench/large_benchmark.h"
#include "sim/study/bench/planner_benchmark.h"
#include "sim/study/sweep/sweep.h"

enum { REPEAT_LIMIT = 64 };
#define EPOCH_SCENARIO "examples/internvl-6b-20b-isf.json"
#define SWEEP_FILE "examples/vlm-8-stages-sweep.json"

struct bench {
    const struct scenario_options *options;
    struct arena *arena;
    struct error *err;
    int64_t repeats;
    benchmark_isolate isolate;
    struct benchmark *results;
    int64_t count;
};

static void keep(struct bench *b, const char *key, const char *what, double *values) {
    gsl_sort(values, 1, (size_t)b->repeats);
    b->results[b->count++] = (struct benchmark){
        .key = key,
        .what = what,
        .median = gsl_stats_median_from_sorted_data(values, 1, (size_t)b->repeats),
        .least = values[0],
        .most = values[b->repeats - 1],
    };
}

/* ---- ISF ---- */

static bool bench_isf(struct bench *b, const char *dataset_name, const char *key) {
    struct dataset *d = dataset_load(b->options->directory, dataset_name, NULL, b->err);
    if (d == NULL) return false;
    const struct batching_policy *isf = batching_policy_find("isf");
    static const char text[] = "{\"qv\": 9, \"qt\": 4096, \"iterations\": 10}";
    struct json *json = json_parse("benchmark", text, sizeof text - 1, b->err);
    void *parameters = arena_alloc(b->arena, isf->parameters_size);
    bool ok = json != NULL && field_table_read(isf->parameters, json, json_root(json), parameters,
                                               b->arena, b->err);
    double values[REPEAT_LIMIT];
    int64_t groups = 0;
    for (int64_t i = 0; ok && i < b->repeats; i++) {
        struct batch_request request = { .dataset = d, .dp = 8, .micro_batch = 1, .seed = 1024 };
        struct batch_plan plan;
        double start = wall_clock_s();
        ok = isf->plan(&request, parameters, &plan, b->err);
        values[i] = (wall_clock_s() - start) * 1e3;
        if (!ok) break;
        groups = plan.group_count;
        batch_plan_free(&plan);
    }
    if (ok)
        keep(b, key,
             arena_format(
                 b->arena,
                 "ISF on %s, Qv 9, Qt 4096, 10 iterations: %ld samples into %ld groups (ms)",
                 dataset_name, (long)d->sample_count, (long)groups),
             values);
    json_destroy(json);
    dataset_destroy(d);
    return ok;
}

/* ---- engine ---- */

/* A 1F1B pipeline as tasks, with sends between neighbours as tasks of their own. */
static void build_pipeline(struct task_graph *graph, int64_t stages, int64_t micro_batches) {
    const struct schedule_policy *policy = schedule_policy_find("1f1b");
    struct schedule_entry *entries = memory_alloc(sizeof *entries * (size_t)(2 * micro_batches));
    size_t cells = (size_t)(stages * micro_batches);
    int32_t *forward = memory_alloc(sizeof *forward * cells),
            *backward = memory_alloc(sizeof *backward * cells);
    int32_t *sent = memory_alloc(sizeof *sent * cells),
            *returned = memory_alloc(sizeof *returned * cells);
    task_graph_clear(graph);
    for (int64_t s = 0; s < stages; s++) {
        int32_t compute = task_graph_add_resource(graph, RESOURCE_STREAM, "compute");
        int32_t down = task_graph_add_resource(graph, RESOURCE_STREAM, "link forward");
        int32_t up = task_graph_add_resource(graph, RESOURCE_STREAM, "link backward");
        struct schedule_place place = { s, stages, 1, micro_batches, false };
        policy->order(&place, entries);
        for (int64_t i = 0; i < 2 * micro_batches; i++) {
            int64_t cell = s * micro_batches + entries[i].micro_batch;
            /* Durations differ, so that the agenda has no equal times to fall back on. */
            int64_t ns = 1000 + (cell * 7919 + s * 104729) % 997;
            if (entries[i].backward) {
                backward[cell] = task_graph_add_task(graph, compute, 2 * ns, 0);
                if (s > 0) {
                    returned[cell] = task_graph_add_task(graph, up, 50, 0);
                    task_graph_add_dependency(graph, backward[cell], returned[cell], 0);
                }
            } else {
                forward[cell] = task_graph_add_task(graph, compute, ns, 0);
                if (s + 1 < stages) {
                    sent[cell] = task_graph_add_task(graph, down, 50, 0);
                    task_graph_add_dependency(graph, forward[cell], sent[cell], 0);
                }
            }
        }
    }
    for (int64_t s = 0; s < stages; s++) {
        for (int64_t i = 0; i < micro_batches; i++) {
            int64_t cell = s * micro_batches + i;
            if (s > 0)
                task_graph_add_dependency(graph, sent[cell - micro_batches], forward[cell], 0);
            if (s + 1 < stages)
                task_graph_add_dependency(graph, returned[cell + micro_batches], backward[cell], 0);
            else
                task_graph_add_dependency(graph, forward[cell], backward[cell], 0);
        }
    }
    free(entries);
    free(forward);
    free(backward);
    free(sent);
    free(returned);
}

static bool bench_engine(struct bench *b) {
    enum { STAGES = 64, MICRO_BATCHES = 2048 };
    struct task_graph *graph = task_graph_create();
    struct engine *engine = engine_create();
    build_pipeline(graph, STAGES, MICRO_BATCHES);
    double events[REPEAT_LIMIT], relaxed[REPEAT_LIMIT];
    bool ok = engine_run_events(engine, graph, b->err);
    for (int64_t i = 0; ok && i < b->repeats; i++) {
        double start = wall_clock_s();
        ok = engine_run_events(engine, graph, b->err);
        events[i] = (double)engine->event_count / (wall_clock_s() - start);
        start = wall_clock_s();
        ok = ok && engine_run(engine, graph, b->err);
        relaxed[i] = (double)graph->task_count / (wall_clock_s() - start);
    }
    if (ok) {
        keep(b, "engine_events_per_s",
             arena_format(b->arena,
                          "1F1B of %d stages, %d micro-batches, every task an event through the "
                          "heap: %d tasks, %d dependencies",
                          STAGES, MICRO_BATCHES, graph->task_count, graph->dependency_count),
             events);
        keep(b, "engine_relaxed_tasks_per_s",
             "the same graph in topological order, without the heap", relaxed);
    }
    task_graph_destroy(graph);
    engine_destroy(engine);
    return ok;
}

/* ---- steps and epochs ---- */

static bool bench_operators(struct bench *b, const struct job *job) {
    struct step_runner *runner = step_runner_create(job->step);
    double values[REPEAT_LIMIT];
    int64_t count = job->scenario->micro_batches_per_rank, tasks = 0;
    bool ok = true;
    for (int64_t i = -1; ok && i < b->repeats; i++) { /* one to warm up */
        struct rank_outcome outcome;
        double start = wall_clock_s();
        ok = step_run_rank(runner, FIDELITY_OPERATOR, job->shapes, count, &outcome, b->err);
        tasks = step_runner_task_count(runner);
        if (i >= 0) values[i] = (double)tasks / (wall_clock_s() - start);
    }
    if (ok)
        keep(b, "operator_events_per_s",
             arena_format(b->arena,
                          "operator fidelity, one step of one rank, priced, built and run: %ld "
                          "operator tasks",
                          (long)tasks),
             values);
    step_runner_destroy(runner);
    return ok;
}

static bool bench_price(struct bench *b, const struct job *job) {
    enum { ROUNDS = 2000 };
    const struct scenario *s = job->scenario;
    struct tensor_split split = scenario_split(s);
    struct operator_list list = { 0 };
    for (int64_t i = 0; i < s->model->layer_count; i++)
        if (i == 0 || s->model->layers[i].kind != s->model->layers[i - 1].kind)
            for (int set = 0; set < 2; set++)
                layer_operators(s->model, i, &job->typical, &split, (enum pass_set)set,
                                model_gradient_need(s->model, i), &list);
    struct communicator groups[COMMUNICATOR_KIND_COUNT];
    for (int kind = 0; kind < COMMUNICATOR_KIND_COUNT; kind++)
        groups[kind] = layout_communicator(&s->layout, (enum communicator_kind)kind);
    double values[REPEAT_LIMIT], sum = 0;
    for (int64_t r = 0; r < b->repeats; r++) {
        double start = wall_clock_s();
        for (int round = 0; round < ROUNDS; round++)
            for (int64_t i = 0; i < list.count; i++)
                sum += cost_model_price(s->cost_model, &list.operators[i],
                                        &groups[list.operators[i].communicator])
                           .seconds;
        values[r] = (wall_clock_s() - start) * 1e9 / ROUNDS / (double)list.count;
    }
    ballast_check(sum > 0);
    keep(b, "operator_price_ns",
         arena_format(b->arena,
                      "price of one operator, mean over the %ld of one layer of each kind (ns)",
                      (long)list.count),
         values);
    operator_list_free(&list);
    return true;
}

/* Crosses between processes as bytes: the pointers are the parent's and stay valid in its copy. */
struct epoch_work {
    const struct scenario_options *options;
    const char *path;
    double replay_s, total_s;
    int64_t steps, groups;
    bool ok;
    struct error err;
};

static void run_epoch(void *shared) {
    struct epoch_work *w = shared;
    double start = wall_clock_s();
    struct scenario *s = scenario_load(w->options, w->path, &w->err);
    struct job *job = s != NULL ? job_create(s, &w->err) : NULL;
    struct replay_options options = { .fidelity = FIDELITY_STAGE, .threads = 1 };
    double replay_start = wall_clock_s();
    struct replay *replay = job != NULL ? replay_run(job, &options, &w->err) : NULL;
    w->replay_s = wall_clock_s() - replay_start;
    w->total_s = wall_clock_s() - start;
    w->ok = replay != NULL;
    if (replay != NULL) {
        w->steps = replay->iteration_count;
        w->groups = job->batches.group_count;
    }
    replay_destroy(replay);
    job_destroy(job);
    scenario_destroy(s);
}

static bool bench_epoch(struct bench *b, const char *path) {
    double replay[REPEAT_LIMIT], total[REPEAT_LIMIT], peak[REPEAT_LIMIT];
    struct epoch_work figures = { .options = b->options, .path = path };
    for (int64_t i = 0; i < b->repeats; i++) {
        if (!b->isolate(run_epoch, &figures, sizeof figures, &peak[i], b->err)) return false;
        if (!figures.ok) {
            *b->err = figures.err;
            return false;
        }
        replay[i] = figures.replay_s;
        total[i] = figures.total_s;
    }
    keep(b, "epoch_replay_s",
         arena_format(b->arena,
                      "replay of the InternVL-1.2M epoch, ISF, TP2 PP4 DP4, stage fidelity: %ld "
                      "groups, %ld steps",
                      (long)figures.groups, (long)figures.steps),
         replay);
    keep(b, "epoch_total_s", "the same with reading the data, ISF, pricing and planning", total);
    keep(b, "epoch_replay_peak_MB", "peak resident memory of that process", peak);
    return true;
}

/* ---- the largest job ---- */

static void run_large(void *shared) {
    large_benchmark_run(shared);
}

static bool bench_large(struct bench *b) {
    double simulate[REPEAT_LIMIT], plan[REPEAT_LIMIT], peak[REPEAT_LIMIT];
    for (int planned = 0; planned < 2; planned++) {
        struct large_work work = { .options = b->options, .planned = planned };
        for (int64_t i = 0; i < b->repeats; i++) {
            if (!b->isolate(run_large, &work, sizeof work, &peak[i], b->err)) return false;
            if (!work.ok) {
                *b->err = work.err;
                return false;
            }
            simulate[i] = work.simulate_s;
            plan[i] = work.plan_s;
        }
        keep(b, planned ? "xl_dip_s" : "xl_1f1b_s",
             arena_format(
                 b->arena,
                 "one iteration of VLM-XL on 16,384 GPUs, %ld data-parallel ranks with their "
                 "own data, %s",
                 (long)work.rank_count, planned ? "DIP with plans made before" : "1F1B"),
             simulate);
        keep(b, planned ? "xl_dip_peak_MB" : "xl_1f1b_peak_MB",
             planned ? "peak resident memory of that process, plans and planning included"
                     : "peak resident memory of that process",
             peak);
        if (planned)
            keep(b, "xl_dip_plan_s",
                 "making those plans, all ranks on one thread, 10 schedules each", plan);
    }
    return true;
}

/* ---- DIP's planner ---- */

enum { PLANNER_THREADS = 2 };
#define SHORT_PLAN_S 1
#define LONG_PLAN_S 60

static bool bench_planner(struct bench *b) {
    double rollouts[REPEAT_LIMIT], program[REPEAT_LIMIT], gap[REPEAT_LIMIT], long_s;
    struct planner_figures f = { 0 };
    for (int64_t i = 0; i < b->repeats; i++) {
        if (!planner_benchmark_search(b->options, PLANNER_THREADS, &f, b->err)) return false;
        rollouts[i] = f.rollouts_per_s;
    }
    keep(b, "mcts_rollouts_per_s",
         arena_format(b->arena,
                      "schedules that the search of DIP tries a second, VLM-S, 8 micro-batches, %d "
                      "threads, no memory step: %ld passes each",
                      PLANNER_THREADS, (long)f.tasks),
         rollouts);
    for (int64_t i = 0; i < b->repeats; i++) {
        if (!planner_benchmark_memory(b->options, &f, b->err)) return false;
        program[i] = f.program_ms;
    }
    keep(b, "memory_program_ms",
         arena_format(
             b->arena,
             "memory step of one rank, VLM-S, 64 micro-batches: %ld stage pairs, proven gap "
             "at most %.2f %% (ms)",
             (long)f.pairs, f.program_gap_fraction * 100),
         program);
    if (!planner_benchmark_plan(b->options, PLANNER_THREADS, LONG_PLAN_S, &long_s, &f, b->err))
        return false;
    double bound_s = f.bound_s;
    for (int64_t i = 0; i < b->repeats; i++) {
        double short_s;
        if (!planner_benchmark_plan(b->options, PLANNER_THREADS, SHORT_PLAN_S, &short_s, &f,
                                    b->err))
            return false;
        gap[i] = short_s / long_s - 1;
    }
    keep(
        b, "dip_plan_1s_gap",
        arena_format(b->arena,
                     "VLM-L, 64 micro-batches, %ld passes: makespan after %d s of search over that "
                     "after %d s (%.3f s; lower bound %.3f s), less 1",
                     (long)f.tasks, SHORT_PLAN_S, LONG_PLAN_S, long_s, bound_s),
        gap);
    return true;
}

static bool bench_sweep(struct bench *b) {
    const char *path = arena_format(b->arena, "%s/" SWEEP_FILE, b->options->directory);
    double values[REPEAT_LIMIT];
    int64_t valid = 0;
    for (int64_t i = 0; i < b->repeats; i++) {
        struct provenance none = { .command_line = "" };
        struct sweep_options options = { .scenario_options = b->options,
                                         .provenance = &none,
                                         .threads = 2,
                                         .shard_count = 1,
                                         .deadline_days = NAN,
                                         .budget_usd = NAN };
        struct sweep *sweep = sweep_run(&options, path, b->err);
        if (sweep == NULL) return false;
        valid = sweep->valid;
        values[i] = (double)sweep->evaluated / sweep->race_s;
        sweep_destroy(sweep);
    }
    keep(b, "sweep_valid_configurations_per_s",
         arena_format(b->arena,
                      "%s on two threads: %ld valid configurations of 8 stages, 4 data-parallel "
                      "ranks, 64 micro-batches each, one iteration, nothing pruned, data read and "
                      "batched in that time",
                      SWEEP_FILE, (long)valid),
         values);
    return true;
}

int64_t benchmark_run(const struct scenario_options *options, int64_t repeats,
                      benchmark_isolate isolate, struct arena *arena, struct benchmark *results,
                      struct error *err) {
    struct bench b = {
        .options = options, .arena = arena, .err = err, .isolate = isolate, .results = results
    };
    b.repeats = repeats < 5 ? 5 : repeats > REPEAT_LIMIT ? REPEAT_LIMIT : repeats;
    const char *path = arena_format(arena, "%s/" EPOCH_SCENARIO, options->directory);
    /* Processes before threads or big allocations of our own: fork copies what is there. */
    bool ok = bench_epoch(&b, path) && bench_large(&b) &&
              bench_isf(&b, "omnibal-real", "isf_real_ms") &&
              bench_isf(&b, "internvl-1.2m", "isf_mixture_ms") && bench_engine(&b);
    if (!ok) return -1;
    struct scenario *s = scenario_load(options, path, err);
    struct job *job = s != NULL ? job_create(s, err) : NULL;
    ok = job != NULL && bench_operators(&b, job) && bench_price(&b, job) && bench_sweep(&b) &&
         bench_planner(&b);
    job_destroy(job);
    scenario_destroy(s);
    return ok ? b.count : -1;
}
