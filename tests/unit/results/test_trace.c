/* test_trace.c - the trace is JSON with the keys that Perfetto needs, and nothing is lost in it. */
#include <stdarg.h>
#include <setjmp.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>

#include <cjson/cJSON.h>
#include "results/trace.h"
#include "tests/unit/results/sample_rows.h"

static char *write_sample(const char *title) {
    char *text = NULL;
    size_t size;
    FILE *out = open_memstream(&text, &size);
    struct error err = { 0 };
    if (!trace_write(out, title, sample_spans, SAMPLE_COUNT(sample_spans), sample_points,
                     SAMPLE_COUNT(sample_points), &err))
        fail_msg("%s", err.text);
    fclose(out);
    return text;
}

static const char *text_at(const cJSON *object, const char *key) {
    const cJSON *item = cJSON_GetObjectItemCaseSensitive(object, key);
    return cJSON_IsString(item) ? item->valuestring : "";
}

static double number_at(const cJSON *object, const char *key) {
    const cJSON *item = cJSON_GetObjectItemCaseSensitive(object, key);
    return cJSON_IsNumber(item) ? item->valuedouble : NAN;
}

static void test_every_event_has_its_keys(void **state) {
    (void)state;
    static const struct {
        const char *phase;
        const char *keys[8];
        int count;
    } kinds[] = {
        { "M", { "name", "pid", "tid", "args" }, 2 * 2 + 2 * 4 },
        { "X", { "name", "cat", "pid", "tid", "ts", "dur" }, 5 },
        { "s", { "name", "cat", "id", "pid", "tid", "ts" }, 1 },
        { "f", { "name", "cat", "id", "pid", "tid", "ts", "bp" }, 1 },
        { "C", { "name", "pid", "ts", "args" }, 3 },
    };
    char *text = write_sample("a \"quoted\" title\n");
    cJSON *root = cJSON_Parse(text);
    assert_non_null(root);
    assert_string_equal(text_at(cJSON_GetObjectItem(root, "otherData"), "title"),
                        "a \"quoted\" title\n");
    const cJSON *events = cJSON_GetObjectItem(root, "traceEvents"), *event;
    int seen = 0;
    for (size_t k = 0; k < sizeof kinds / sizeof kinds[0]; k++) {
        int count = 0;
        cJSON_ArrayForEach(event, events) {
            if (strcmp(text_at(event, "ph"), kinds[k].phase) != 0) continue;
            for (int i = 0; i < 8 && kinds[k].keys[i] != NULL; i++)
                if (!cJSON_HasObjectItem(event, kinds[k].keys[i]))
                    fail_msg("event %s without %s", kinds[k].phase, kinds[k].keys[i]);
            count++;
        }
        if (count != kinds[k].count) fail_msg("%d events %s", count, kinds[k].phase);
        seen += count;
    }
    assert_int_equal(seen, cJSON_GetArraySize(events));
    cJSON_Delete(root);
    free(text);
}

/* The event of a phase whose name and process are these. */
static const cJSON *find(const cJSON *events, const char *phase, const char *name, double process,
                         double thread) {
    const cJSON *event;
    cJSON_ArrayForEach(event, events) {
        if (strcmp(text_at(event, "ph"), phase) == 0 && strcmp(text_at(event, "name"), name) == 0 &&
            number_at(event, "pid") == process && number_at(event, "tid") == thread)
            return event;
    }
    fail_msg("no event %s '%s'", phase, name);
    return NULL;
}

static void test_times_tracks_and_arrows(void **state) {
    (void)state;
    char *text = write_sample("t");
    cJSON *root = cJSON_Parse(text);
    const cJSON *events = cJSON_GetObjectItem(root, "traceEvents");
    /* tracks of rank 0: 1 stage 1 compute, 2 stage 1 send, 3 stage 2 compute (people count from 1);
     * of rank 1: 4 */
    const cJSON *named = find(events, "M", "thread_name", 0, 3);
    assert_string_equal(text_at(cJSON_GetObjectItem(named, "args"), "name"), "stage 2 compute");
    named = find(events, "M", "process_name", 1, 0);
    assert_string_equal(text_at(cJSON_GetObjectItem(named, "args"), "name"), "DP rank 1");
    find(events, "X", "forward 0", 1, 4);
    find(events, "X", "update", 0, 3);
    const cJSON *args =
        cJSON_GetObjectItem(find(events, "X", "language forward 0.2", 0, 3), "args");
    assert_string_equal(text_at(args, "module"), "language");
    assert_string_equal(text_at(args, "direction"), "forward");
    assert_true(number_at(args, "sub_microbatch") == 2 && number_at(args, "chunk") == 0);
    const cJSON *send = find(events, "X", "send 0", 0, 2);
    assert_true(number_at(send, "ts") == 1500.001 && number_at(send, "dur") == 99.999);
    assert_non_null(strstr(text, "\"ts\":1500.001,\"dur\":99.999"));
    const cJSON *start = find(events, "s", "send", 0, 2), *end = find(events, "f", "send", 0, 3);
    assert_true(number_at(start, "id") == 7 && number_at(end, "id") == 7);
    assert_true(number_at(start, "ts") == 1500.001 && number_at(end, "ts") == 1600);
    const cJSON *memory = find(events, "C", "stage 2 memory", 0, 0);
    assert_true(number_at(cJSON_GetObjectItem(memory, "args"), "bytes") == 40e9);
    cJSON_Delete(root);
    free(text);
}

static void test_an_empty_trace_is_json(void **state) {
    (void)state;
    char *text = NULL;
    size_t size;
    FILE *out = open_memstream(&text, &size);
    assert_true(trace_write(out, "nothing", NULL, 0, NULL, 0, NULL));
    fclose(out);
    cJSON *root = cJSON_Parse(text);
    assert_int_equal(cJSON_GetArraySize(cJSON_GetObjectItem(root, "traceEvents")), 0);
    cJSON_Delete(root);
    free(text);
}

static void test_a_failed_write_is_a_failure(void **state) {
    (void)state;
    FILE *out = fopen("/dev/full", "w");
    if (out == NULL) skip();
    struct error err = { 0 };
    assert_false(trace_write(out, "t", sample_spans, 5, NULL, 0, &err));
    assert_non_null(strstr(err.text, "cannot write the trace"));
    fclose(out);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_every_event_has_its_keys),
        cmocka_unit_test(test_times_tracks_and_arrows),
        cmocka_unit_test(test_an_empty_trace_is_json),
        cmocka_unit_test(test_a_failed_write_is_a_failure),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
