/* test_scenario_cache.c - what comes from the cache is what the files give, whoever asked
 * before. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>
#include <stdio.h>
#include <string.h>
#include "sim/scenario/scenario_cache.h"

#define SCENARIOS BALLAST_SOURCE_DIR "/scenarios"

struct question {
    const char *hardware;
    struct cluster_network network;
    const char *stack;
    bool writes_text;
};

static const struct question questions[] = {
    { "h100-80g-sxm",
      { .gpus_per_node = 8, .nic_bytes_per_s_per_gpu = 50e9, .gpu_count = 64 },
      "megatron-core",
      true },
    { "h100-80g-sxm",
      { .gpus_per_node = 8, .nic_bytes_per_s_per_gpu = 50e9, .gpu_count = 64 },
      "megatron-core",
      false },
    { "h100-80g-sxm",
      { .gpus_per_node = 8, .nic_bytes_per_s_per_gpu = 12.5e9, .gpu_count = 512 },
      "torchtitan",
      true },
    { "h100-80g-sxm",
      { .gpus_per_node = 8, .nic_bytes_per_s_per_gpu = 50e9, .fabric = "infiniband" },
      NULL,
      true },
    { "a100-80g-sxm",
      { .gpus_per_node = 8, .nic_bytes_per_s_per_gpu = 25e9, .nic_latency_s = 1e-5 },
      NULL,
      true },
    { "h100-80g-sxm",
      { .gpus_per_node = 4, .nic_bytes_per_s_per_gpu = 25e9, .nvlink_mesh_gpus = 4 },
      NULL,
      true },
    { "a100-80g-sxm",
      { .gpus_per_node = 8, .nic_bytes_per_s_per_gpu = 25e9, .fabric = "efa", .gpu_count = 32 },
      "megatron-core",
      true },
};
enum { QUESTION_COUNT = sizeof questions / sizeof questions[0] };

static double price_s(const struct cost_model *model, const struct operator_work *work) {
    const struct communicator group = { 16, 4, 4, 2 };
    return cost_model_price(model, work, &group).seconds;
}

static void expect_same(int64_t i, struct arena *arena, const struct cost_model *got,
                        const struct cost_model *want) {
    const struct operator_work works[] = {
        operator_matmul("", PASS_FORWARD, PRECISION_BF16, 4096, 6144, 6144),
        operator_streaming("", OPERATOR_NORM, PASS_FORWARD, PRECISION_BF16, 1e8),
        operator_collective("", OPERATOR_ALL_REDUCE, PASS_UPDATE, COMMUNICATOR_DATA, 1e9),
        operator_collective("", OPERATOR_SEND, PASS_UPDATE, COMMUNICATOR_DATA, 1e7),
    };
    for (size_t w = 0; w < sizeof works / sizeof works[0]; w++)
        if (price_s(got, &works[w]) != price_s(want, &works[w]))
            fail_msg("question %ld, work %zu: %.17g s, want %.17g s", (long)i, w,
                     price_s(got, &works[w]), price_s(want, &works[w]));
    assert_string_equal(cost_model_profile_id(got), cost_model_profile_id(want));
    assert_string_equal(cost_model_stack_id(got, arena), cost_model_stack_id(want, arena));
    assert_int_equal(cost_model_rules(got)->count, cost_model_rules(want)->count);
    int64_t got_count, want_count;
    const struct cost_model_file *got_files = cost_model_files(got, &got_count),
                                 *want_files = cost_model_files(want, &want_count);
    assert_int_equal(got_count, want_count);
    for (int64_t f = 0; f < got_count; f++) {
        assert_string_equal(got_files[f].kind, want_files[f].kind);
        assert_string_equal(got_files[f].path, want_files[f].path);
    }
}

static const struct cost_model *ask(struct scenario_cache *cache, const struct question *q,
                                    const struct json *json, const cJSON *rules,
                                    struct error *err) {
    const struct stack *stack =
        q->stack != NULL ? scenario_cache_stack(cache, SCENARIOS, q->stack, err) : NULL;
    return scenario_cache_cost_model(cache, SCENARIOS, q->hardware, &q->network, stack,
                                     PRECISION_BF16, q->writes_text, json, rules, err);
}

static void test_cost_models(void **state) {
    (void)state;
    struct scenario_cache *cache = scenario_cache_create();
    struct arena *arena = arena_create();
    struct error err = { 0 };
    /* The first one has rules, which the others must not take from it. */
    static const char text[] = "[{\"operator\": \"matmul\", \"factor\": 2}]";
    struct json *json = json_parse("rules", text, sizeof text - 1, &err);
    if (ask(cache, &questions[0], json, json_root(json), &err) == NULL) fail_msg("%s", err.text);
    for (int64_t i = 0; i < QUESTION_COUNT; i++) {
        const struct question *q = &questions[i];
        const struct cost_model *got = ask(cache, q, NULL, NULL, &err);
        if (got == NULL) fail_msg("question %ld: %s", (long)i, err.text);
        struct cost_model *want =
            cost_model_create(arena, SCENARIOS, q->hardware, &q->network, &err);
        assert_non_null(want);
        if (q->stack != NULL)
            cost_model_use_stack(want, stack_load(arena, SCENARIOS, q->stack, &err), PRECISION_BF16,
                                 q->writes_text);
        expect_same(i, arena, got, want);
        assert_ptr_equal(ask(cache, q, NULL, NULL, &err), got);
    }
    json_destroy(json);
    arena_destroy(arena);
    scenario_cache_destroy(cache);
}

/* The same sentence whether or not the GPU was read before. */
static void test_mistakes(void **state) {
    (void)state;
    struct question q = questions[0];
    q.network.fabric = "infinband";
    struct error first = { 0 }, second = { 0 }, none = { 0 };
    struct scenario_cache *cache = scenario_cache_create();
    assert_null(ask(cache, &q, NULL, NULL, &first));
    assert_non_null(ask(cache, &questions[0], NULL, NULL, &none));
    assert_null(ask(cache, &q, NULL, NULL, &second));
    assert_string_equal(first.text, second.text);
    assert_non_null(strstr(second.text, "while loading hardware 'h100-80g-sxm'"));
    scenario_cache_destroy(cache);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_cost_models),
        cmocka_unit_test(test_mistakes),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
