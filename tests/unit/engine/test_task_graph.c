/* test_task_graph.c - ids, defaults and memory of a task graph. */
#include <setjmp.h>
#include <signal.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <sys/wait.h>
#include <unistd.h>
#include <cmocka.h>

#include "sim/engine/task_graph.h"

static void test_ids_are_dense(void **state) {
    (void)state;
    struct task_graph *graph = task_graph_create();
    assert_int_equal(task_graph_add_resource(graph, RESOURCE_STREAM, "compute"), 0);
    assert_int_equal(task_graph_add_resource(graph, RESOURCE_SHARED, "link"), 1);
    for (int32_t i = 0; i < 1000; i++)
        assert_int_equal(task_graph_add_task(graph, i % 2, 10 * i, 7 * i), i);
    for (int32_t i = 0; i + 1 < 1000; i++)
        task_graph_add_dependency(graph, i, i + 1, 0);
    assert_int_equal(graph->task_count, 1000);
    assert_int_equal(graph->dependency_count, 999);
    for (int32_t i = 0; i < 1000; i++) {
        if (graph->resource[i] != i % 2 || graph->duration_ns[i] != 10 * i ||
            graph->tag[i] != 7 * i)
            fail_msg("task %d was not kept", i);
        if (i + 1 < 1000 && (graph->before[i] != i || graph->after[i] != i + 1))
            fail_msg("dependency %d was not kept", i);
    }
    assert_string_equal(graph->resource_name[1], "link");
    assert_int_equal(graph->resource_kind[1], RESOURCE_SHARED);
    task_graph_destroy(graph);
}

static void test_rare_columns_have_defaults(void **state) {
    (void)state;
    struct task_graph *graph = task_graph_create();
    int32_t link = task_graph_add_resource(graph, RESOURCE_SHARED, "link");
    for (int32_t i = 0; i < 10; i++)
        task_graph_add_task(graph, link, 1, 0);
    task_graph_add_dependency(graph, 0, 1, 0);
    assert_null(graph->priority);
    assert_null(graph->rate);
    assert_null(graph->lag_ns);

    task_graph_set_priority(graph, 4, -3);
    task_graph_set_rate(graph, 5, 0.25);
    task_graph_add_dependency(graph, 1, 2, 900);
    for (int32_t i = 10; i < 500; i++) {
        task_graph_add_task(graph, link, 1, 0);
        task_graph_add_dependency(graph, 0, i, 0);
    }
    for (int32_t i = 0; i < 500; i++) {
        if (graph->priority[i] != (i == 4 ? -3 : 0))
            fail_msg("task %d has priority %d", i, graph->priority[i]);
        if (graph->rate[i] != (i == 5 ? 0.25 : 1.0))
            fail_msg("task %d has rate %g", i, graph->rate[i]);
    }
    for (int32_t d = 0; d < graph->dependency_count; d++)
        if (graph->lag_ns[d] != (d == 1 ? 900 : 0))
            fail_msg("dependency %d has lag %lld", d, (long long)graph->lag_ns[d]);
    task_graph_destroy(graph);
}

static void test_clear_keeps_memory(void **state) {
    (void)state;
    struct task_graph *graph = task_graph_create();
    task_graph_reserve(graph, 300, 400);
    int64_t *durations = graph->duration_ns;
    int32_t *befores = graph->before;
    for (int32_t round = 0; round < 3; round++) {
        task_graph_clear(graph);
        int32_t gpu = task_graph_add_resource(graph, RESOURCE_PRIORITY, "gpu");
        for (int32_t i = 0; i < 300; i++)
            task_graph_add_task(graph, gpu, i, 0);
        for (int32_t i = 0; i < 400; i++)
            task_graph_add_dependency(graph, 0, 1, 0);
        if (round > 0) assert_int_equal(graph->priority[17], 0); /* set in the round before */
        task_graph_set_priority(graph, 17, 1);
        assert_int_equal(gpu, 0);
        assert_int_equal(graph->task_count, 300);
        assert_int_equal(graph->dependency_count, 400);
    }
    assert_ptr_equal(graph->duration_ns, durations);
    assert_ptr_equal(graph->before, befores);
    task_graph_destroy(graph);
}

static void add_negative_duration(struct task_graph *graph) {
    task_graph_add_task(graph, 0, -1, 0);
}

static void add_negative_lag(struct task_graph *graph) {
    task_graph_add_dependency(graph, 0, 1, -1);
}

static void add_unknown_resource(struct task_graph *graph) {
    task_graph_add_task(graph, 1, 5, 0);
}

static void set_rate_zero(struct task_graph *graph) {
    task_graph_set_rate(graph, 0, 0.0);
}

static void set_rate_above_one(struct task_graph *graph) {
    task_graph_set_rate(graph, 0, 1.5);
}

/* Our own mistakes, which stop the program instead of giving a wrong answer. */
static const struct {
    const char *name;
    void (*act)(struct task_graph *graph);
} mistakes[] = {
    { "negative duration", add_negative_duration }, { "negative lag", add_negative_lag },
    { "unknown resource", add_unknown_resource },   { "rate 0", set_rate_zero },
    { "rate above 1", set_rate_above_one },
};

static void test_mistakes_stop_the_program(void **state) {
    (void)state;
    for (size_t i = 0; i < sizeof(mistakes) / sizeof(mistakes[0]); i++) {
        fflush(NULL);
        pid_t child = fork();
        assert_true(child >= 0);
        if (child == 0) {
            signal(SIGABRT, SIG_DFL); /* not cmocka's handler */
            if (freopen("/dev/null", "w", stderr) == NULL) _exit(1);
            struct task_graph *graph = task_graph_create();
            task_graph_add_resource(graph, RESOURCE_SHARED, "link");
            task_graph_add_task(graph, 0, 5, 0);
            task_graph_add_task(graph, 0, 5, 0);
            mistakes[i].act(graph);
            _exit(0);
        }
        int status = 0;
        assert_int_equal(waitpid(child, &status, 0), child);
        if (!WIFSIGNALED(status) || WTERMSIG(status) != SIGABRT)
            fail_msg("%s: did not stop the program", mistakes[i].name);
    }
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_ids_are_dense),
        cmocka_unit_test(test_rare_columns_have_defaults),
        cmocka_unit_test(test_clear_keeps_memory),
        cmocka_unit_test(test_mistakes_stop_the_program),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
