/* test_engine.c - start and end of every task of small graphs worked by hand, by both methods. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>
#include <cmocka.h>

#include "sim/base/random.h"
#include "sim/engine/engine.h"

#define LENGTH(array) (sizeof(array) / sizeof((array)[0]))

enum { MAX_TASKS = 8, MAX_RESOURCES = 3 };

struct graph_case {
    const char *name;
    int32_t resource_count;
    enum resource_kind kinds[MAX_RESOURCES];
    int32_t task_count;
    struct {
        int32_t resource;
        int64_t duration_ns;
        int32_t priority;
        double rate; /* 0: not set */
    } tasks[MAX_TASKS];
    int32_t dependency_count;
    struct {
        int32_t before, after;
        int64_t lag_ns;
    } dependencies[MAX_TASKS];
    int64_t want_start_ns[MAX_TASKS], want_finish_ns[MAX_TASKS];
    int64_t want_busy_ns[MAX_RESOURCES];
};

/* Resources and tasks are named by index: the comments say r0, t3. */
static const struct graph_case cases[] = {
    { .name = "no tasks", .resource_count = 1, .kinds = { RESOURCE_STREAM } },
    { .name = "a stream keeps its order",
      .resource_count = 1,
      .kinds = { RESOURCE_STREAM },
      .task_count = 3,
      .tasks = { { 0, 10, 0, 0 }, { 0, 20, 0, 0 }, { 0, 30, 0, 0 } },
      .want_start_ns = { 0, 10, 30 },
      .want_finish_ns = { 10, 30, 60 },
      .want_busy_ns = { 60 } },
    { .name = "the head of a stream holds up the rest",
      .resource_count = 2,
      .kinds = { RESOURCE_STREAM, RESOURCE_STREAM },
      .task_count = 3,
      .tasks = { { 0, 10, 0, 0 }, { 0, 20, 0, 0 }, { 1, 50, 0, 0 } },
      .dependency_count = 1,
      .dependencies = { { 2, 0, 0 } },
      .want_start_ns = { 50, 60, 0 },
      .want_finish_ns = { 60, 80, 50 },
      .want_busy_ns = { 30, 50 } },
    { .name = "the last of several dependencies, with lags",
      .resource_count = 2,
      .kinds = { RESOURCE_STREAM, RESOURCE_NONE },
      .task_count = 3,
      .tasks = { { 0, 10, 0, 0 }, { 1, 12, 0, 0 }, { 1, 5, 0, 0 } },
      .dependency_count = 2,
      .dependencies = { { 0, 2, 7 }, { 1, 2, 4 } },
      .want_start_ns = { 0, 0, 17 },
      .want_finish_ns = { 10, 12, 22 },
      .want_busy_ns = { 10, 0 } },
    { .name = "two causes at once",
      .resource_count = 2,
      .kinds = { RESOURCE_STREAM, RESOURCE_STREAM },
      .task_count = 3,
      .tasks = { { 0, 10, 0, 0 }, { 1, 10, 0, 0 }, { 0, 5, 0, 0 } },
      .dependency_count = 2,
      .dependencies = { { 1, 2, 0 }, { 0, 2, 0 } },
      .want_start_ns = { 0, 0, 10 },
      .want_finish_ns = { 10, 10, 15 },
      .want_busy_ns = { 15, 10 } },
    { .name = "delays run at once",
      .resource_count = 1,
      .kinds = { RESOURCE_NONE },
      .task_count = 3,
      .tasks = { { 0, 10, 0, 0 }, { 0, 10, 0, 0 }, { 0, 0, 0, 0 } },
      .dependency_count = 1,
      .dependencies = { { 1, 2, 0 } },
      .want_start_ns = { 0, 0, 10 },
      .want_finish_ns = { 10, 10, 10 } },
    { .name = "two stages, two micro-batches",
      /* r0 runs forward, forward, backward, backward; r1 forward, backward twice */
      .resource_count = 2,
      .kinds = { RESOURCE_STREAM, RESOURCE_STREAM },
      .task_count = 8,
      .tasks = { { 0, 1, 0, 0 },
                 { 0, 1, 0, 0 },
                 { 0, 2, 0, 0 },
                 { 0, 2, 0, 0 },
                 { 1, 1, 0, 0 },
                 { 1, 2, 0, 0 },
                 { 1, 1, 0, 0 },
                 { 1, 2, 0, 0 } },
      .dependency_count = 6,
      .dependencies = { { 0, 4, 0 },
                        { 1, 6, 0 },
                        { 4, 5, 0 },
                        { 6, 7, 0 },
                        { 5, 2, 0 },
                        { 7, 3, 0 } },
      .want_start_ns = { 0, 1, 4, 7, 1, 2, 4, 5 },
      .want_finish_ns = { 1, 2, 6, 9, 2, 4, 5, 7 },
      .want_busy_ns = { 6, 6 } },
    { .name = "higher priority first, then lower id",
      .resource_count = 1,
      .kinds = { RESOURCE_PRIORITY },
      .task_count = 4,
      .tasks = { { 0, 10, -1, 0 }, { 0, 10, 5, 0 }, { 0, 10, 5, 0 }, { 0, 10, 0, 0 } },
      .want_start_ns = { 30, 0, 10, 20 },
      .want_finish_ns = { 40, 10, 20, 30 },
      .want_busy_ns = { 40 } },
    { .name = "without priorities the lower id first",
      .resource_count = 1,
      .kinds = { RESOURCE_PRIORITY },
      .task_count = 3,
      .tasks = { { 0, 3, 0, 0 }, { 0, 2, 0, 0 }, { 0, 1, 0, 0 } },
      .want_start_ns = { 0, 3, 5 },
      .want_finish_ns = { 3, 5, 6 },
      .want_busy_ns = { 6 } },
    { .name = "a task that runs is not interrupted",
      .resource_count = 2,
      .kinds = { RESOURCE_PRIORITY, RESOURCE_NONE },
      .task_count = 3,
      .tasks = { { 0, 10, 0, 0 }, { 0, 10, 9, 0 }, { 1, 5, 0, 0 } },
      .dependency_count = 1,
      .dependencies = { { 2, 1, 0 } },
      .want_start_ns = { 0, 10, 0 },
      .want_finish_ns = { 10, 20, 5 },
      .want_busy_ns = { 20, 0 } },
    { .name = "who arrives as the resource falls free takes part",
      /* t0 runs to 10; t1 waits since 3; t2 arrives at 10 with more priority */
      .resource_count = 2,
      .kinds = { RESOURCE_PRIORITY, RESOURCE_NONE },
      .task_count = 5,
      .tasks = { { 0, 10, 0, 0 },
                 { 0, 10, 0, 0 },
                 { 0, 10, 9, 0 },
                 { 1, 3, 0, 0 },
                 { 1, 10, 0, 0 } },
      .dependency_count = 2,
      .dependencies = { { 3, 1, 0 }, { 4, 2, 0 } },
      .want_start_ns = { 0, 20, 10, 0, 0 },
      .want_finish_ns = { 10, 30, 20, 3, 10 },
      .want_busy_ns = { 30, 0 } },
    { .name = "and who arrives through tasks of no length",
      /* t0 ends at 10, t3 and t4 take no time, t2 outranks t1 */
      .resource_count = 3,
      .kinds = { RESOURCE_PRIORITY, RESOURCE_NONE, RESOURCE_STREAM },
      .task_count = 5,
      .tasks = { { 0, 10, 1, 0 },
                 { 0, 10, 0, 0 },
                 { 0, 10, 9, 0 },
                 { 1, 0, 0, 0 },
                 { 2, 0, 0, 0 } },
      .dependency_count = 3,
      .dependencies = { { 0, 3, 0 }, { 3, 4, 0 }, { 4, 2, 0 } },
      .want_start_ns = { 0, 20, 10, 10, 10 },
      .want_finish_ns = { 10, 30, 20, 10, 10 },
      .want_busy_ns = { 30, 0, 0 } },
    { .name = "and who arrives by the end of a flow",
      /* t3 and t4 share r1 and both end at 10 */
      .resource_count = 2,
      .kinds = { RESOURCE_PRIORITY, RESOURCE_SHARED },
      .task_count = 5,
      .tasks = { { 0, 10, 1, 0 },
                 { 0, 10, 0, 0 },
                 { 0, 10, 9, 0 },
                 { 1, 5, 0, 0 },
                 { 1, 5, 0, 0 } },
      .dependency_count = 1,
      .dependencies = { { 4, 2, 0 } },
      .want_start_ns = { 0, 20, 10, 0, 0 },
      .want_finish_ns = { 10, 30, 20, 10, 10 },
      .want_busy_ns = { 30, 10 } },
    { .name = "a lag ends while the resource is busy",
      .resource_count = 1,
      .kinds = { RESOURCE_PRIORITY },
      .task_count = 3,
      .tasks = { { 0, 4, 2, 0 }, { 0, 10, 1, 0 }, { 0, 1, 9, 0 } },
      .dependency_count = 1,
      .dependencies = { { 0, 2, 6 } },
      .want_start_ns = { 0, 4, 14 },
      .want_finish_ns = { 4, 14, 15 },
      .want_busy_ns = { 15 } },
    { .name = "two equal flows",
      .resource_count = 1,
      .kinds = { RESOURCE_SHARED },
      .task_count = 2,
      .tasks = { { 0, 100, 0, 0 }, { 0, 100, 0, 0 } },
      .want_start_ns = { 0, 0 },
      .want_finish_ns = { 200, 200 },
      .want_busy_ns = { 200 } },
    { .name = "flows below their caps do not slow each other",
      .resource_count = 1,
      .kinds = { RESOURCE_SHARED },
      .task_count = 3,
      .tasks = { { 0, 100, 0, 0.5 }, { 0, 60, 0, 0.25 }, { 0, 80, 0, 0.25 } },
      .want_start_ns = { 0, 0, 0 },
      .want_finish_ns = { 100, 60, 80 },
      .want_busy_ns = { 100 } },
    { .name = "a capped flow leaves the rest to the other",
      /* 1/4 and 3/4: at 100 t1 has 25 left */
      .resource_count = 1,
      .kinds = { RESOURCE_SHARED },
      .task_count = 2,
      .tasks = { { 0, 100, 0, 0.25 }, { 0, 100, 0, 0 } },
      .want_start_ns = { 0, 0 },
      .want_finish_ns = { 100, 125 },
      .want_busy_ns = { 125 } },
    { .name = "three flows of different rates",
      /* 0.2, 0.4, 0.4 until 100; then 0.5, 0.5 until 120; then t2 alone with 50 left */
      .resource_count = 1,
      .kinds = { RESOURCE_SHARED },
      .task_count = 3,
      .tasks = { { 0, 100, 0, 1.0 }, { 0, 100, 0, 0.2 }, { 0, 100, 0, 0.5 } },
      .want_start_ns = { 0, 0, 0 },
      .want_finish_ns = { 170, 100, 120 },
      .want_busy_ns = { 170 } },
    { .name = "a flow that comes later",
      /* t0 alone until 40, then halves: t0 ends at 160; t1 has 40 left and is alone; t3 follows
       * after a pause */
      .resource_count = 2,
      .kinds = { RESOURCE_SHARED, RESOURCE_STREAM },
      .task_count = 4,
      .tasks = { { 0, 100, 0, 0 }, { 0, 100, 0, 0 }, { 1, 40, 0, 0 }, { 0, 10, 0, 0 } },
      .dependency_count = 2,
      .dependencies = { { 2, 1, 0 }, { 1, 3, 50 } },
      .want_start_ns = { 0, 40, 0, 250 },
      .want_finish_ns = { 160, 200, 40, 260 },
      .want_busy_ns = { 210, 40 } },
    { .name = "ends of flows are rounded up",
      /* 1/2 each: t1 at speed 5/7 ends at 7; t0 has 1.5 left: 8.5 */
      .resource_count = 2,
      .kinds = { RESOURCE_SHARED, RESOURCE_NONE },
      .task_count = 3,
      .tasks = { { 0, 5, 0, 0 }, { 0, 5, 0, 0.7 }, { 1, 1, 0, 0 } },
      .dependency_count = 1,
      .dependencies = { { 0, 2, 0 } },
      .want_start_ns = { 0, 0, 9 },
      .want_finish_ns = { 9, 7, 10 },
      .want_busy_ns = { 9, 0 } },
    { .name = "a chain on a shared resource is never slowed",
      .resource_count = 1,
      .kinds = { RESOURCE_SHARED },
      .task_count = 3,
      .tasks = { { 0, 7, 0, 0.3 }, { 0, 0, 0, 0 }, { 0, 9, 0, 0.9 } },
      .dependency_count = 2,
      .dependencies = { { 0, 1, 0 }, { 1, 2, 0 } },
      .want_start_ns = { 0, 7, 7 },
      .want_finish_ns = { 7, 7, 16 },
      .want_busy_ns = { 16 } },
};

static void fill(struct task_graph *graph, const struct graph_case *c) {
    static const char *const names[MAX_RESOURCES] = { "r0", "r1", "r2" };
    task_graph_clear(graph);
    for (int32_t i = 0; i < c->resource_count; i++)
        task_graph_add_resource(graph, c->kinds[i], names[i]);
    for (int32_t i = 0; i < c->task_count; i++) {
        task_graph_add_task(graph, c->tasks[i].resource, c->tasks[i].duration_ns, 0);
        if (c->tasks[i].priority != 0) task_graph_set_priority(graph, i, c->tasks[i].priority);
        if (c->tasks[i].rate > 0) task_graph_set_rate(graph, i, c->tasks[i].rate);
    }
    for (int32_t i = 0; i < c->dependency_count; i++)
        task_graph_add_dependency(graph, c->dependencies[i].before, c->dependencies[i].after,
                                  c->dependencies[i].lag_ns);
}

static void check(const struct engine *engine, const struct graph_case *c, const char *method) {
    int64_t makespan_ns = 0;
    for (int32_t i = 0; i < c->task_count; i++) {
        if (engine->start_ns[i] != c->want_start_ns[i] ||
            engine->finish_ns[i] != c->want_finish_ns[i])
            fail_msg("%s, %s: task %d runs %lld to %lld, want %lld to %lld", c->name, method, i,
                     (long long)engine->start_ns[i], (long long)engine->finish_ns[i],
                     (long long)c->want_start_ns[i], (long long)c->want_finish_ns[i]);
        if (makespan_ns < c->want_finish_ns[i]) makespan_ns = c->want_finish_ns[i];
    }
    for (int32_t r = 0; r < c->resource_count; r++)
        if (engine->busy_ns[r] != c->want_busy_ns[r])
            fail_msg("%s, %s: resource %d is busy for %lld, want %lld", c->name, method, r,
                     (long long)engine->busy_ns[r], (long long)c->want_busy_ns[r]);
    if (engine->makespan_ns != makespan_ns)
        fail_msg("%s, %s: makespan %lld, want %lld", c->name, method,
                 (long long)engine->makespan_ns, (long long)makespan_ns);
}

/* One graph and one engine for all cases, twice: nothing may be left over from the run before. */
static void test_hand_worked_graphs(void **state) {
    (void)state;
    struct task_graph *graph = task_graph_create();
    struct engine *engine = engine_create();
    struct error err;
    for (size_t k = 0; k < 2 * LENGTH(cases); k++) {
        const struct graph_case *c = &cases[k % LENGTH(cases)];
        fill(graph, c);
        if (!engine_run(engine, graph, &err)) fail_msg("%s: %s", c->name, err.text);
        check(engine, c, "relaxed");
        if (!engine_run_events(engine, graph, &err)) fail_msg("%s: %s", c->name, err.text);
        check(engine, c, "by events");
    }
    engine_destroy(engine);
    task_graph_destroy(graph);
}

static void test_streams_need_no_agenda(void **state) {
    (void)state;
    struct task_graph *graph = task_graph_create();
    struct engine *engine = engine_create();
    struct error err;
    int32_t gpu = task_graph_add_resource(graph, RESOURCE_STREAM, "gpu");
    int32_t wire = task_graph_add_resource(graph, RESOURCE_NONE, "wire");
    for (int32_t i = 0; i < 20; i++)
        task_graph_add_task(graph, i % 2 == 0 ? gpu : wire, 5, 0);
    assert_true(engine_run(engine, graph, &err));
    assert_int_equal(engine->event_count, 0);
    assert_true(engine_run_events(engine, graph, &err));
    assert_int_equal(engine->event_count, 20);

    int32_t link = task_graph_add_resource(graph, RESOURCE_SHARED, "link");
    task_graph_add_task(graph, link, 5, 0);
    assert_true(engine_run(engine, graph, &err));
    assert_in_range(engine->event_count, 1, 19); /* for the one flow, not for the others */
    engine_destroy(engine);
    task_graph_destroy(graph);
}

/* --- random graphs of streams ----------------------------------------------------------------- */

enum { RANDOM_TASKS = 60, RANDOM_STREAMS = 5 };

/* Tasks have a hidden order in which they could run; ids go stream by stream, so that dependencies
 * point to later and to earlier ids alike. */
static void fill_random_streams(struct task_graph *graph, struct random_mt *mt) {
    int32_t stream_of[RANDOM_TASKS], id_of[RANDOM_TASKS];
    task_graph_clear(graph);
    for (int32_t s = 0; s < RANDOM_STREAMS; s++)
        task_graph_add_resource(graph, s == 0 ? RESOURCE_NONE : RESOURCE_STREAM, "stream");
    for (int32_t i = 0; i < RANDOM_TASKS; i++)
        stream_of[i] = (int32_t)(random_mt_next(mt) % RANDOM_STREAMS);
    for (int32_t s = RANDOM_STREAMS - 1; s >= 0; s--)
        for (int32_t i = 0; i < RANDOM_TASKS; i++)
            if (stream_of[i] == s)
                id_of[i] = task_graph_add_task(graph, s, random_mt_next(mt) % 20, 0);
    for (int32_t i = 1; i < RANDOM_TASKS; i++)
        for (uint32_t k = random_mt_next(mt) % 3; k > 0; k--) {
            int32_t before = (int32_t)(random_mt_next(mt) % (uint32_t)i);
            int64_t lag_ns = random_mt_next(mt) % 4 == 0 ? random_mt_next(mt) % 30 : 0;
            task_graph_add_dependency(graph, id_of[before], id_of[i], lag_ns);
        }
}

/* Start times as the least fixed point of "not before what it waits for", by plain repetition. */
static void start_by_repetition(const struct task_graph *graph, int64_t *start_ns) {
    memset(start_ns, 0, RANDOM_TASKS * sizeof(*start_ns));
    for (bool changed = true; changed;) {
        changed = false;
        for (int32_t d = 0; d < graph->dependency_count; d++) {
            int32_t before = graph->before[d], after = graph->after[d];
            int64_t ready_ns = start_ns[before] + graph->duration_ns[before] +
                               (graph->lag_ns != NULL ? graph->lag_ns[d] : 0);
            if (start_ns[after] < ready_ns) start_ns[after] = ready_ns, changed = true;
        }
        for (int32_t i = 0; i < RANDOM_TASKS; i++) {
            if (graph->resource_kind[graph->resource[i]] == RESOURCE_NONE) continue;
            int32_t next = i + 1;
            while (next < RANDOM_TASKS && graph->resource[next] != graph->resource[i])
                next++;
            if (next == RANDOM_TASKS) continue;
            int64_t ready_ns = start_ns[i] + graph->duration_ns[i];
            if (start_ns[next] < ready_ns) start_ns[next] = ready_ns, changed = true;
        }
    }
}

static void test_random_streams(void **state) {
    (void)state;
    struct task_graph *graph = task_graph_create();
    struct engine *engine = engine_create();
    struct error err;
    for (uint32_t seed = 0; seed < 300; seed++) {
        struct random_mt mt;
        random_mt_seed(&mt, seed);
        fill_random_streams(graph, &mt);
        int64_t want_ns[RANDOM_TASKS];
        start_by_repetition(graph, want_ns);
        for (int method = 0; method < 2; method++) {
            bool done = method == 0 ? engine_run(engine, graph, &err)
                                    : engine_run_events(engine, graph, &err);
            if (!done) fail_msg("seed %u: %s", seed, err.text);
            for (int32_t i = 0; i < RANDOM_TASKS; i++)
                if (engine->start_ns[i] != want_ns[i] ||
                    engine->finish_ns[i] != want_ns[i] + graph->duration_ns[i])
                    fail_msg("seed %u, %s: task %d starts at %lld, want %lld", seed,
                             method == 0 ? "relaxed" : "by events", i,
                             (long long)engine->start_ns[i], (long long)want_ns[i]);
        }
    }
    engine_destroy(engine);
    task_graph_destroy(graph);
}

/* --- graphs that cannot finish ---------------------------------------------------------------- */

static const struct {
    const char *name;
    int32_t task_count;
    int32_t resources[6]; /* 0: stream "left", 1: stream "right", 2: priority "device", 3: "wait" */
    int32_t dependency_count;
    int32_t dependencies[6][2];
    const char *want;
} circles[] = {
    { "streams against dependencies",
      4,
      { 0, 0, 1, 1 },
      2,
      { { 1, 2 }, { 3, 0 } },
      "task 0 on 'left' depends on task 3 on 'right', which waits for it in turn (a circle of 4); "
      "4 of 4 tasks never start" },
    { "a stream in the wrong order",
      2,
      { 1, 1 },
      1,
      { { 1, 0 } },
      "task 0 on 'right' depends on task 1 on 'right', which waits for it in turn (a circle of 2); "
      "2 of 2 tasks never start" },
    { "a task that waits for itself",
      2,
      { 3, 3 },
      1,
      { { 1, 1 } },
      "task 1 on 'wait' depends on task 1 on 'wait', which waits for it in turn (a circle of 1); "
      "1 of 2 tasks never start" },
    { "the circle is named, not who waits for it",
      5,
      { 0, 2, 3, 1, 3 },
      4,
      { { 1, 0 }, { 1, 3 }, { 3, 2 }, { 2, 1 } },
      "task 1 on 'device' depends on task 2 on 'wait', which waits for it in turn (a circle of 3); "
      "4 of 5 tasks never start" },
    { "what comes before runs",
      4,
      { 0, 0, 2, 2 },
      3,
      { { 0, 2 }, { 2, 3 }, { 3, 2 } },
      "task 2 on 'device' depends on task 3 on 'device', which waits for it in turn (a circle of "
      "2); 2 of 4 tasks never start" },
};

static void test_circles_are_named(void **state) {
    (void)state;
    static const char *const hint =
        "\n  hint: the order of tasks on a stream contradicts their dependencies, or the "
        "dependencies themselves form a circle";
    struct task_graph *graph = task_graph_create();
    struct engine *engine = engine_create();
    for (size_t k = 0; k < LENGTH(circles); k++) {
        task_graph_clear(graph);
        task_graph_add_resource(graph, RESOURCE_STREAM, "left");
        task_graph_add_resource(graph, RESOURCE_STREAM, "right");
        task_graph_add_resource(graph, RESOURCE_PRIORITY, "device");
        task_graph_add_resource(graph, RESOURCE_NONE, "wait");
        for (int32_t i = 0; i < circles[k].task_count; i++)
            task_graph_add_task(graph, circles[k].resources[i], 10, 0);
        for (int32_t i = 0; i < circles[k].dependency_count; i++)
            task_graph_add_dependency(graph, circles[k].dependencies[i][0],
                                      circles[k].dependencies[i][1], 0);
        for (int method = 0; method < 2; method++) {
            struct error err;
            bool done = method == 0 ? engine_run(engine, graph, &err)
                                    : engine_run_events(engine, graph, &err);
            if (done) fail_msg("%s: ran", circles[k].name);
            char want[512] = "the task graph cannot finish: ";
            strcat(want, circles[k].want);
            strcat(want, hint);
            if (strcmp(err.text, want) != 0)
                fail_msg("%s:\n got  %s\n want %s", circles[k].name, err.text, want);
        }
    }
    engine_destroy(engine);
    task_graph_destroy(graph);
}

/* --- critical path ---------------------------------------------------------------------------- */

static const struct {
    const char *graph; /* the name of a case above */
    int32_t count;
    int32_t want[MAX_TASKS]; /* last task first */
} paths[] = {
    { "no tasks", 0, { 0 } },
    { "a stream keeps its order", 3, { 2, 1, 0 } },
    { "the head of a stream holds up the rest", 3, { 1, 0, 2 } },
    { "the last of several dependencies, with lags", 2, { 2, 0 } },
    { "two causes at once", 2, { 2, 1 } },
    { "two stages, two micro-batches", 6, { 3, 7, 6, 5, 4, 0 } },
    { "higher priority first, then lower id", 4, { 0, 3, 2, 1 } },
    { "a task that runs is not interrupted", 2, { 1, 0 } },
    { "a lag ends while the resource is busy", 3, { 2, 1, 0 } },
    { "and who arrives through tasks of no length", 5, { 1, 2, 4, 3, 0 } },
    { "a flow that comes later", 3, { 3, 1, 2 } },
};

static const struct graph_case *case_named(const char *name) {
    for (size_t k = 0; k < LENGTH(cases); k++)
        if (strcmp(cases[k].name, name) == 0) return &cases[k];
    fail_msg("no case is named '%s'", name);
    return NULL;
}

static void test_critical_paths(void **state) {
    (void)state;
    struct task_graph *graph = task_graph_create();
    struct engine *engine = engine_create();
    struct error err;
    for (size_t k = 0; k < LENGTH(paths); k++) {
        fill(graph, case_named(paths[k].graph));
        assert_true(engine_run(engine, graph, &err));
        int32_t tasks[MAX_TASKS];
        int32_t count = engine_critical_path(engine, graph, tasks, MAX_TASKS);
        if (count != paths[k].count)
            fail_msg("%s: %d tasks, want %d", paths[k].graph, count, paths[k].count);
        for (int32_t i = 0; i < paths[k].count; i++)
            if (tasks[i] != paths[k].want[i])
                fail_msg("%s: step %d is task %d, want %d", paths[k].graph, i, tasks[i],
                         paths[k].want[i]);
    }
    fill(graph, case_named("a stream keeps its order"));
    assert_true(engine_run(engine, graph, &err));
    int32_t tasks[2];
    assert_int_equal(engine_critical_path(engine, graph, tasks, 2), 2);
    assert_int_equal(tasks[1], 1);
    engine_destroy(engine);
    task_graph_destroy(graph);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_hand_worked_graphs), cmocka_unit_test(test_streams_need_no_agenda),
        cmocka_unit_test(test_random_streams),     cmocka_unit_test(test_circles_are_named),
        cmocka_unit_test(test_critical_paths),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
