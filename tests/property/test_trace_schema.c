/* test_trace_schema.c - the trace of real steps is what the Trace Event Format and Perfetto ask
 * for: every event has its keys, tracks are named, spans of a track do not overlap, arrows have two
 * ends inside spans of other tracks and point forward in time, counters count bytes.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>
#include "results/trace.h"
#include "sim/study/execution.h"

enum { PIPELINES = 6 };
static const char *const overrides[PIPELINES][4] = {
    { "policy.recompute=none", NULL },
    { "policy.recompute=full", NULL },
    { "layout.vpp=2", "policy.recompute=full", "policy.partition=layer", NULL },
    { "layout.pp=1", "layout.tp=4", NULL },
    { "policy={\"joint\":{\"name\":\"dip\",\"rollouts\":30,\"memory\":false}}", NULL },
    { "policy={\"joint\":{\"name\":\"dip\",\"rollouts\":30}}", NULL }, /* stage fidelity alone */
};

static double number(const cJSON *event, const char *key) {
    const cJSON *node = cJSON_GetObjectItemCaseSensitive(event, key);
    if (!cJSON_IsNumber(node)) {
        char *text = cJSON_PrintUnformatted(event);
        fail_msg("no number \"%s\" in %s", key, text);
    }
    return node->valuedouble;
}

static const char *text(const cJSON *event, const char *key) {
    const cJSON *node = cJSON_GetObjectItemCaseSensitive(event, key);
    if (!cJSON_IsString(node)) fail_msg("no text \"%s\"", key);
    return node->valuestring;
}

/* A span or one end of an arrow. Times in whole nanoseconds: they are written with three
 * decimals. */
struct event {
    char phase;
    int64_t process, thread, start_ns, finish_ns, id;
};

static int64_t ns(double us) {
    return (int64_t)(us * 1e3 + 0.5);
}

static int by_track(const void *a, const void *b) {
    const struct event *x = a, *y = b;
    if (x->process != y->process) return x->process < y->process ? -1 : 1;
    if (x->thread != y->thread) return x->thread < y->thread ? -1 : 1;
    if (x->start_ns != y->start_ns) return x->start_ns < y->start_ns ? -1 : 1;
    return (x->finish_ns > y->finish_ns) - (x->finish_ns < y->finish_ns);
}

static const struct event *span_around(const struct event *spans, int64_t count,
                                       const struct event *end) {
    for (int64_t i = 0; i < count; i++)
        if (spans[i].process == end->process && spans[i].thread == end->thread &&
            spans[i].start_ns <= end->start_ns && end->start_ns <= spans[i].finish_ns)
            return &spans[i];
    return NULL;
}

static void check_arrows(const struct event *ends, int64_t count, const struct event *spans,
                         int64_t span_count, bool pipelined) {
    assert_true(pipelined ? count > 0 : count == 0);
    assert_int_equal(count % 2, 0);
    for (int64_t i = 0; i < count; i += 2) {
        assert_int_equal(ends[i].phase, 's');
        assert_int_equal(ends[i + 1].phase, 'f');
        assert_int_equal(ends[i].id, ends[i + 1].id);
        assert_true(ends[i].start_ns <= ends[i + 1].start_ns);
        assert_true(ends[i].process == ends[i + 1].process);
        assert_true(ends[i].thread != ends[i + 1].thread);
        assert_non_null(span_around(spans, span_count, &ends[i]));
        assert_non_null(span_around(spans, span_count, &ends[i + 1]));
        for (int64_t j = i + 2; j < count; j += 2)
            assert_int_not_equal(ends[i].id, ends[j].id);
    }
}

static void check(const cJSON *trace, bool pipelined) {
    assert_string_equal(text(trace, "displayTimeUnit"), "ns");
    const cJSON *events = cJSON_GetObjectItemCaseSensitive(trace, "traceEvents"), *e;
    const int64_t limit = cJSON_GetArraySize(events);
    assert_true(limit > 20);
    struct event *spans = calloc((size_t)limit, sizeof *spans);
    struct event *ends = calloc((size_t)limit, sizeof *ends);
    int64_t span_count = 0, end_count = 0, counters = 0, named = 0;
    bool names[4096] = { false };
    cJSON_ArrayForEach(e, events) {
        struct event now = { .phase = text(e, "ph")[0],
                             .process = (int64_t)number(e, "pid"),
                             .thread = (int64_t)number(e, "tid") };
        assert_true(now.process >= 0 && now.thread >= 0 && now.thread < 4096);
        assert_true(text(e, "name")[0] != '\0');
        switch (now.phase) {
        case 'M':
            if (strcmp(text(e, "name"), "thread_name") == 0) names[now.thread] = true, named++;
            assert_true(cJSON_IsObject(cJSON_GetObjectItemCaseSensitive(e, "args")));
            break;
        case 'X':
            now.start_ns = ns(number(e, "ts"));
            now.finish_ns = now.start_ns + ns(number(e, "dur"));
            assert_true(now.start_ns >= 0 && now.finish_ns >= now.start_ns);
            assert_true(names[now.thread]);
            assert_true(text(e, "cat")[0] != '\0');
            spans[span_count++] = now;
            break;
        case 's':
        case 'f':
            now.start_ns = ns(number(e, "ts"));
            now.id = (int64_t)number(e, "id");
            if (now.phase == 'f') assert_string_equal(text(e, "bp"), "e");
            ends[end_count++] = now;
            break;
        case 'C':
            assert_true(number(e, "ts") >= 0);
            assert_true(number(cJSON_GetObjectItemCaseSensitive(e, "args"), "bytes") > 0);
            counters++;
            break;
        default:
            fail_msg("an event of phase '%c'", now.phase);
        }
    }
    assert_true(counters > 0 && named > 0);
    check_arrows(ends, end_count, spans, span_count, pipelined);
    qsort(spans, (size_t)span_count, sizeof *spans, by_track);
    for (int64_t i = 1; i < span_count; i++)
        if (spans[i].process == spans[i - 1].process && spans[i].thread == spans[i - 1].thread)
            assert_true(spans[i].start_ns >= spans[i - 1].finish_ns);
    free(spans);
    free(ends);
}

static void traces_are_well_formed(void **state) {
    (void)state;
    for (int p = 0; p < PIPELINES; p++) {
        struct error err = { 0 };
        const struct scenario_options options = { .directory = "scenarios",
                                                  .overrides = overrides[p] };
        struct execution *e = execution_prepare(&options, "tests/golden/input/small.json", &err);
        if (e == NULL) fail_msg("%s", err.text);
        for (int fidelity = 0; fidelity < (p + 1 < PIPELINES ? 2 : 1); fidelity++) {
            struct arena *arena = arena_create();
            struct timeline t;
            if (!execution_timeline(e, 1, 2, (enum fidelity)fidelity, arena, &t, &err))
                fail_msg("%s", err.text);
            char *written = NULL;
            size_t size = 0;
            FILE *out = open_memstream(&written, &size);
            assert_true(trace_write(out, "title \"quoted\"", t.spans, t.span_count, t.memory,
                                    t.memory_count, &err));
            fclose(out);
            cJSON *trace = cJSON_ParseWithLength(written, size);
            assert_non_null(trace);
            check(trace, e->job->plan.part_count > 1);
            cJSON_Delete(trace);
            free(written);
            arena_destroy(arena);
        }
        execution_destroy(e);
    }
}

int main(void) {
    const struct CMUnitTest tests[] = { cmocka_unit_test(traces_are_well_formed) };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
