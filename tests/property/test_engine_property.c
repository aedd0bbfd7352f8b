/* test_engine_property.c - what must hold for any graph, on random ones with every kind of
 * resource.
 *
 * Nothing here knows how the engine works: each property is checked from the graph and from the
 * start and end of each task alone.
 */
#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>
#include <cmocka.h>

#include "sim/base/random.h"
#include "sim/engine/engine.h"

enum { MAX_TASKS = 80, MAX_RESOURCES = 6, SEEDS = 1500 };

struct subject {
    uint32_t seed;
    const struct task_graph *graph;
    int64_t start_ns[MAX_TASKS], finish_ns[MAX_TASKS], ready_ns[MAX_TASKS];
    int64_t busy_ns[MAX_RESOURCES], makespan_ns;
};

/* Ids go resource by resource while dependencies follow a hidden order, so that they point to later
 * and to earlier ids and never contradict a stream. */
static void fill(struct task_graph *graph, uint32_t seed) {
    struct random_mt mt;
    random_mt_seed(&mt, seed);
    task_graph_clear(graph);
    int32_t resource_count = 1 + (int32_t)(random_mt_next(&mt) % MAX_RESOURCES);
    int32_t task_count = 1 + (int32_t)(random_mt_next(&mt) % MAX_TASKS);
    uint32_t longest_ns = 1 + random_mt_next(&mt) % 60; /* short ones make many ties */
    int32_t resource_of[MAX_TASKS], id_of[MAX_TASKS];
    for (int32_t r = 0; r < resource_count; r++)
        task_graph_add_resource(graph, (enum resource_kind)(random_mt_next(&mt) % 4), "resource");
    for (int32_t i = 0; i < task_count; i++)
        resource_of[i] = (int32_t)(random_mt_next(&mt) % (uint32_t)resource_count);
    for (int32_t r = resource_count - 1; r >= 0; r--)
        for (int32_t i = 0; i < task_count; i++) {
            if (resource_of[i] != r) continue;
            id_of[i] = task_graph_add_task(graph, r, random_mt_next(&mt) % longest_ns, 0);
            if (random_mt_next(&mt) % 2 == 0)
                task_graph_set_priority(graph, id_of[i], (int32_t)(random_mt_next(&mt) % 4) - 1);
            if (random_mt_next(&mt) % 2 == 0)
                task_graph_set_rate(graph, id_of[i], 1.0 - 0.97 * random_mt_uniform(&mt));
        }
    uint32_t density = random_mt_next(&mt) % 3;
    for (int32_t i = 1; i < task_count; i++)
        for (uint32_t k = random_mt_next(&mt) % (density + 1); k > 0; k--)
            task_graph_add_dependency(graph, id_of[random_mt_next(&mt) % (uint32_t)i], id_of[i],
                                      random_mt_next(&mt) % 5 == 0 ? random_mt_next(&mt) % 20 : 0);
}

static enum resource_kind kind_of(const struct subject *s, int32_t task) {
    return s->graph->resource_kind[s->graph->resource[task]];
}

static int64_t lag_ns(const struct task_graph *graph, int32_t dependency) {
    return graph->lag_ns != NULL ? graph->lag_ns[dependency] : 0;
}

static int32_t priority_of(const struct subject *s, int32_t task) {
    return s->graph->priority != NULL ? s->graph->priority[task] : 0;
}

static double rate_of(const struct subject *s, int32_t task) {
    return s->graph->rate != NULL ? s->graph->rate[task] : 1.0;
}

/* --- times of single tasks -------------------------------------------------------------------- */

/* A task is ready when its dependencies are over; unless it queues, it starts at once. */
static void check_tasks(struct subject *s) {
    const struct task_graph *graph = s->graph;
    int64_t makespan_ns = 0;
    memset(s->ready_ns, 0, sizeof(s->ready_ns));
    for (int32_t d = 0; d < graph->dependency_count; d++) {
        int64_t ready_ns = s->finish_ns[graph->before[d]] + lag_ns(graph, d);
        if (s->ready_ns[graph->after[d]] < ready_ns) s->ready_ns[graph->after[d]] = ready_ns;
    }
    for (int32_t i = 0; i < graph->task_count; i++) {
        bool queues = kind_of(s, i) == RESOURCE_STREAM || kind_of(s, i) == RESOURCE_PRIORITY;
        int64_t lasted_ns = s->finish_ns[i] - s->start_ns[i];
        if (s->start_ns[i] < s->ready_ns[i] || (!queues && s->start_ns[i] != s->ready_ns[i]))
            fail_msg("seed %u: task %d is ready at %lld and starts at %lld", s->seed, i,
                     (long long)s->ready_ns[i], (long long)s->start_ns[i]);
        if (lasted_ns < graph->duration_ns[i] ||
            (kind_of(s, i) != RESOURCE_SHARED && lasted_ns != graph->duration_ns[i]))
            fail_msg("seed %u: task %d of %lld ns lasts %lld ns", s->seed, i,
                     (long long)graph->duration_ns[i], (long long)lasted_ns);
        if (makespan_ns < s->finish_ns[i]) makespan_ns = s->finish_ns[i];
    }
    if (s->makespan_ns != makespan_ns) fail_msg("seed %u: wrong makespan", s->seed);
}

/* --- exclusive resources ---------------------------------------------------------------------- */

/* Tasks of a resource in the order in which they ran. */
static int32_t tasks_in_order(const struct subject *s, int32_t resource, int32_t *tasks) {
    int32_t count = 0;
    for (int32_t i = 0; i < s->graph->task_count; i++) {
        if (s->graph->resource[i] != resource) continue;
        int32_t at = count++;
        for (; at > 0; at--) {
            int32_t other = tasks[at - 1];
            if (s->start_ns[other] < s->start_ns[i] ||
                (s->start_ns[other] == s->start_ns[i] && s->finish_ns[other] <= s->finish_ns[i]))
                break;
            tasks[at] = other;
        }
        tasks[at] = i;
    }
    return count;
}

/* No two at a time, and never idle while a task could run. */
static void check_exclusive(const struct subject *s, int32_t resource) {
    bool stream = s->graph->resource_kind[resource] == RESOURCE_STREAM;
    int32_t tasks[MAX_TASKS];
    int32_t count = tasks_in_order(s, resource, tasks);
    int64_t free_ns = 0, busy_ns = 0;
    for (int32_t k = 0; k < count; k++) {
        int32_t task = tasks[k];
        busy_ns += s->graph->duration_ns[task];
        int64_t want_ns = free_ns > s->ready_ns[task] ? free_ns : s->ready_ns[task];
        if (s->start_ns[task] != want_ns)
            fail_msg("seed %u: task %d starts at %lld, could and must at %lld", s->seed, task,
                     (long long)s->start_ns[task], (long long)want_ns);
        free_ns = s->finish_ns[task];
        for (int32_t j = k + 1; !stream && j < count; j++) {
            int32_t passed = tasks[j];
            bool outranks = priority_of(s, passed) > priority_of(s, task) ||
                            (priority_of(s, passed) == priority_of(s, task) && passed < task);
            /* Among tasks of no length at one instant the order cannot be seen. */
            bool goes_later = s->finish_ns[passed] > s->start_ns[task];
            if (outranks && goes_later && s->ready_ns[passed] < s->start_ns[task])
                fail_msg("seed %u: task %d goes before task %d, which outranks it", s->seed, task,
                         passed);
        }
    }
    for (int32_t i = 0, previous = -1; stream && i < s->graph->task_count; i++) {
        if (s->graph->resource[i] != resource) continue;
        if (previous >= 0 && s->start_ns[i] < s->finish_ns[previous])
            fail_msg("seed %u: task %d overtakes task %d on its stream", s->seed, i, previous);
        previous = i;
    }
    if (s->busy_ns[resource] != busy_ns || s->makespan_ns < busy_ns)
        fail_msg("seed %u: resource %d is busy for %lld of %lld, has %lld to do", s->seed, resource,
                 (long long)s->busy_ns[resource], (long long)s->makespan_ns, (long long)busy_ns);
}

/* --- shared resources ------------------------------------------------------------------------- */

/* The level L at which the sum of min(rate, L) fills the resource, by bisection; 1 if it is never
 * full. */
static double fair_level(const double *rates, int32_t count) {
    double low = 0.0, high = 1.0;
    for (int step = 0; step < 60; step++) {
        double level = 0.5 * (low + high), used = 0.0;
        for (int32_t k = 0; k < count; k++)
            used += fmin(rates[k], level);
        if (used > 1.0)
            high = level;
        else
            low = level;
    }
    return high;
}

static int compare_times(const void *left, const void *right) {
    int64_t a = *(const int64_t *)left, b = *(const int64_t *)right;
    return (a > b) - (a < b);
}

/* Gives every flow its fair share between any two changes, as they are seen from outside, and asks
 * that each has received its work at its end, and had not a nanosecond before. Since the shares
 * given never exceed the capacity, neither did the engine's. */
static void check_shared(const struct subject *s, int32_t resource) {
    int32_t tasks[MAX_TASKS];
    int32_t count = tasks_in_order(s, resource, tasks);
    int64_t times_ns[2 * MAX_TASKS];
    double done_ns[MAX_TASKS] = { 0 }, last_speed[MAX_TASKS] = { 0 };
    double work_ns = 0.0;
    int64_t busy_ns = 0;
    for (int32_t k = 0; k < count; k++) {
        times_ns[2 * k] = s->start_ns[tasks[k]];
        times_ns[2 * k + 1] = s->finish_ns[tasks[k]];
        work_ns += (double)s->graph->duration_ns[tasks[k]] * rate_of(s, tasks[k]);
    }
    qsort(times_ns, 2 * (size_t)count, sizeof(times_ns[0]), compare_times);
    for (int32_t t = 0; t + 1 < 2 * count; t++) {
        int64_t passed_ns = times_ns[t + 1] - times_ns[t];
        if (passed_ns == 0) continue;
        int32_t active[MAX_TASKS], active_count = 0;
        double rates[MAX_TASKS];
        for (int32_t k = 0; k < count; k++)
            if (s->start_ns[tasks[k]] <= times_ns[t] && times_ns[t] < s->finish_ns[tasks[k]]) {
                rates[active_count] = rate_of(s, tasks[k]);
                active[active_count++] = k;
            }
        double level = fair_level(rates, active_count);
        for (int32_t a = 0; a < active_count; a++) {
            last_speed[active[a]] = fmin(1.0, level / rates[a]);
            done_ns[active[a]] += last_speed[active[a]] * (double)passed_ns;
        }
        if (active_count > 0) busy_ns += passed_ns;
    }
    for (int32_t k = 0; k < count; k++) {
        double duration_ns = (double)s->graph->duration_ns[tasks[k]];
        if (done_ns[k] < duration_ns - 0.01 ||
            (duration_ns > 0 && done_ns[k] - last_speed[k] > duration_ns + 0.01))
            fail_msg("seed %u: task %d of %g ns has %g done at its end at %lld", s->seed, tasks[k],
                     duration_ns, done_ns[k], (long long)s->finish_ns[tasks[k]]);
    }
    if (s->busy_ns[resource] != busy_ns)
        fail_msg("seed %u: resource %d is busy for %lld, want %lld", s->seed, resource,
                 (long long)s->busy_ns[resource], (long long)busy_ns);
    if (work_ns > (double)busy_ns + 0.01)
        fail_msg("seed %u: resource %d does %g in %lld ns", s->seed, resource, work_ns,
                 (long long)busy_ns);
}

/* --- bounds and the critical path ------------------------------------------------------------- */

/* The longest chain of dependencies, by repetition. */
static int64_t longest_chain_ns(const struct task_graph *graph) {
    int64_t end_ns[MAX_TASKS], longest_ns = 0;
    memcpy(end_ns, graph->duration_ns, (size_t)graph->task_count * sizeof(end_ns[0]));
    for (bool changed = true; changed;) {
        changed = false;
        for (int32_t d = 0; d < graph->dependency_count; d++) {
            int32_t after = graph->after[d];
            int64_t chain_ns =
                end_ns[graph->before[d]] + lag_ns(graph, d) + graph->duration_ns[after];
            if (end_ns[after] < chain_ns) end_ns[after] = chain_ns, changed = true;
        }
    }
    for (int32_t i = 0; i < graph->task_count; i++)
        if (end_ns[i] > longest_ns) longest_ns = end_ns[i];
    return longest_ns;
}

static bool sets_start(const struct subject *s, int32_t before, int32_t after) {
    const struct task_graph *graph = s->graph;
    for (int32_t d = 0; d < graph->dependency_count; d++)
        if (graph->before[d] == before && graph->after[d] == after &&
            s->finish_ns[before] + lag_ns(graph, d) == s->start_ns[after])
            return true;
    bool exclusive = kind_of(s, after) == RESOURCE_STREAM || kind_of(s, after) == RESOURCE_PRIORITY;
    return exclusive && graph->resource[before] == graph->resource[after] &&
           s->finish_ns[before] == s->start_ns[after];
}

/* An unbroken chain from time 0 to the makespan, without a task twice. */
static void check_critical_path(const struct subject *s, const struct engine *engine) {
    int32_t path[MAX_TASKS + 1];
    bool seen[MAX_TASKS] = { false };
    int32_t count = engine_critical_path(engine, s->graph, path, MAX_TASKS + 1);
    if (count < 1 || count > s->graph->task_count || s->finish_ns[path[0]] != s->makespan_ns ||
        s->start_ns[path[count - 1]] != 0)
        fail_msg("seed %u: the critical path does not span the run", s->seed);
    for (int32_t k = 0; k < count; k++) {
        if (seen[path[k]]) fail_msg("seed %u: task %d is twice on the path", s->seed, path[k]);
        seen[path[k]] = true;
        if (k + 1 < count && !sets_start(s, path[k + 1], path[k]))
            fail_msg("seed %u: task %d does not set the start of task %d", s->seed, path[k + 1],
                     path[k]);
    }
}

static void take(struct subject *s, const struct engine *engine) {
    size_t bytes = (size_t)s->graph->task_count * sizeof(int64_t);
    memcpy(s->start_ns, engine->start_ns, bytes);
    memcpy(s->finish_ns, engine->finish_ns, bytes);
    memcpy(s->busy_ns, engine->busy_ns, (size_t)s->graph->resource_count * sizeof(int64_t));
    s->makespan_ns = engine->makespan_ns;
}

static void check_same(const struct subject *s, const struct engine *engine, const char *what) {
    for (int32_t i = 0; i < s->graph->task_count; i++)
        if (engine->start_ns[i] != s->start_ns[i] || engine->finish_ns[i] != s->finish_ns[i])
            fail_msg("seed %u, %s: task %d runs %lld to %lld, before %lld to %lld", s->seed, what,
                     i, (long long)engine->start_ns[i], (long long)engine->finish_ns[i],
                     (long long)s->start_ns[i], (long long)s->finish_ns[i]);
    for (int32_t r = 0; r < s->graph->resource_count; r++)
        if (engine->busy_ns[r] != s->busy_ns[r])
            fail_msg("seed %u, %s: resource %d is busy for another time", s->seed, what, r);
    if (engine->makespan_ns != s->makespan_ns)
        fail_msg("seed %u, %s: another makespan", s->seed, what);
}

static void test_random_graphs(void **state) {
    (void)state;
    struct task_graph *graph = task_graph_create();
    struct engine *engine = engine_create();
    struct error err;
    for (uint32_t seed = 0; seed < SEEDS; seed++) {
        struct subject s = { .seed = seed, .graph = graph };
        fill(graph, seed);
        if (!engine_run(engine, graph, &err)) fail_msg("seed %u: %s", seed, err.text);
        take(&s, engine);
        check_tasks(&s);
        for (int32_t r = 0; r < graph->resource_count; r++) {
            switch (graph->resource_kind[r]) {
            case RESOURCE_STREAM:
            case RESOURCE_PRIORITY:
                check_exclusive(&s, r);
                break;
            case RESOURCE_SHARED:
                check_shared(&s, r);
                break;
            case RESOURCE_NONE:
                assert_int_equal(s.busy_ns[r], 0);
                break;
            }
        }
        if (s.makespan_ns < longest_chain_ns(graph))
            fail_msg("seed %u: shorter than its longest chain", seed);
        check_critical_path(&s, engine);
        assert_true(engine_run(engine, graph, &err));
        check_same(&s, engine, "run again");
        assert_true(engine_run_events(engine, graph, &err));
        check_same(&s, engine, "by events");
    }
    engine_destroy(engine);
    task_graph_destroy(graph);
}

int main(void) {
    const struct CMUnitTest tests[] = { cmocka_unit_test(test_random_graphs) };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
