/* test_rules.c - rules as read, what they match, and what they do to a price of the shipped
 * H100. */
#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>
#include <cmocka.h>
#include "costmodel/cost_model.h"
#include "costmodel/efficiency.h"

#define SCENARIOS BALLAST_SOURCE_DIR "/scenarios"

static bool read_rules(struct arena *arena, const char *text, struct rule_list *rules,
                       struct error *err) {
    struct json *json = json_parse("r.json", text, strlen(text), err);
    if (json == NULL) fail_msg("%s", err->text);
    bool ok = rules_read(json, json_root(json), "the test", arena, rules, err);
    json_destroy(json);
    return ok;
}

static struct rule_list rules_of(struct arena *arena, const char *text) {
    struct error err = { 0 };
    struct rule_list rules;
    if (!read_rules(arena, text, &rules, &err)) fail_msg("%s", err.text);
    return rules;
}

static void test_mistakes(void **state) {
    (void)state;
    static const struct {
        const char *text, *want, *hint;
    } cases[] = {
        { "{}", "r.json:1:1: error: /: must be a list of rules",
          "for example [{ \"operator\": \"matmul\", \"factor\": 1.1 }]" },
        { "[3]", "r.json:1:2: error: /0: a rule must be an object",
          "for example { \"operator\": \"matmul\", \"factor\": 1.1 }" },
        { "[{\"operator\": \"matmull\", \"factor\": 2}]",
          "r.json:1:15: error: /0/operator: unknown operator \"matmull\"",
          "did you mean \"matmul\"? one of: any, matmul, attention, norm, elementwise, embedding, "
          "loss, optimizer, all-reduce, all-gather, reduce-scatter, all-to-all, send" },
        { "[{\"operater\": \"matmul\", \"factor\": 2}]",
          "r.json:1:3: error: /0/operater: unknown key \"operater\" in \"rules\"",
          "did you mean \"operator\"?" },
        { "[{\"module\": \"audio\", \"factor\": 2}]",
          "r.json:1:13: error: /0/module: unknown module \"audio\"",
          "one of: any, vision, connector, language, diffusion_decoder" },
        { "[{\"operator\": \"matmul\"}]", "r.json:1:2: error: /0: the rule sets nothing",
          "one of: efficiency, time_us, bandwidth_GB_per_s, factor" },
        { "[{\"factor\": 2, \"time_us\": 3}]",
          "r.json:1:2: error: /0: the rule sets more than one figure",
          "one of: efficiency, time_us, bandwidth_GB_per_s, factor" },
        { "[{\"efficiency\": 1.5}]",
          "r.json:1:17: error: /0/efficiency: must be 1e-06 to 1, got 1.5",
          "set: fraction of the peak of what binds it: FLOP/s of matmul and attention, HBM of "
          "other kernels, the link of a collective; a kernel's launch is added" },
        { "[{\"operator\": \"matmul\", \"factor\": 2}, {\"operator\": \"matmul\", \"name\": "
          "\"up\", "
          "\"m\": [64, null], \"factor\": 3}]",
          "r.json:1:39: error: /1: the rule never decides: rule 1 matches all that it does",
          "put it before rule 1" },
        { "[{\"factor\": -1}]", "r.json:1:13: error: /0/factor: must be 0.001 to 1000, got -1",
          "set: its estimated time times this" },
        { "[{\"operator\": \"matmul\", \"m\": [5, 4], \"factor\": 2}]",
          "r.json:1:25: error: /0/m: the least, 5, is above the most, 4", NULL },
        { "[{\"operator\": \"matmul\", \"m\": [5], \"factor\": 2}]",
          "r.json:1:25: error: /0/m: must be a number, or a list of least and most",
          "for example [1024, null]" },
        { "[{\"m\": 5, \"factor\": 2}]",
          "r.json:1:8: error: /0/m: \"m\" belongs to operators of kind \"matmul\": say so with "
          "\"operator\"",
          NULL },
        { "[{\"operator\": \"matmul\", \"length\": [1, 2], \"factor\": 2}]",
          "r.json:1:25: error: /0/length: \"length\" belongs to operators of kind \"attention\": "
          "say so with \"operator\"",
          NULL },
        { "[{\"layers\": [0, 3], \"factor\": 2}]",
          "r.json:1:3: error: /0/layers: blocks are counted within a module: name it",
          "for example \"module\": \"language\"" },
        { "[{\"module\": \"vision\", \"layers\": [0, null], \"factor\": 2}]",
          "r.json:1:23: error: /0/layers: must be whole numbers from 0: the first and the last "
          "block",
          "for example [0, 11]" },
        { "[{\"factor\": 2},\n {\"module\": \"vision\", \"layers\": 1.5, \"factor\": 2}]",
          "r.json:2:33: error: /1/layers: must be whole numbers from 0: the first and the last "
          "block",
          "for example [0, 11]" },
    };
    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
        struct arena *arena = arena_create();
        struct error err = { 0 };
        struct rule_list rules;
        if (read_rules(arena, cases[i].text, &rules, &err))
            fail_msg("%s is accepted", cases[i].text);
        size_t length = strcspn(err.text, "\n");
        if (length != strlen(cases[i].want) || strncmp(err.text, cases[i].want, length) != 0)
            fail_msg("%s: got\n%s\nwant\n%s", cases[i].text, err.text, cases[i].want);
        const char *hint = strstr(err.text, "\n  hint: ");
        if ((hint != NULL) != (cases[i].hint != NULL))
            fail_msg("%s: got\n%s", cases[i].text, err.text);
        if (hint != NULL && strncmp(hint + 9, cases[i].hint, strlen(cases[i].hint)) != 0)
            fail_msg("%s: got\n%s\nwant the hint\n%s", cases[i].text, err.text, cases[i].hint);
        arena_destroy(arena);
    }
}

static void test_matching(void **state) {
    (void)state;
    const struct operator_work up =
        operator_matmul("up", PASS_FORWARD, PRECISION_BF16, 4096, 8192, 1024);
    const struct operator_work attention = operator_attention(
        "attention", PASS_BACKWARD, PRECISION_BF16, 4096, 4096.0 * 512, 32, 8, 128, true);
    const struct operator_work gather = operator_collective("mlp all-gather", OPERATOR_ALL_GATHER,
                                                            PASS_FORWARD, COMMUNICATOR_TENSOR, 1e6);
    const struct rule_place block = { 2, 5 }, language = { 2, RULE_ANY },
                            nowhere = { RULE_ANY, RULE_ANY };
    const struct {
        const char *text;
        const struct operator_work *work;
        const struct rule_place *place;
        bool want;
    } cases[] = {
        { "{\"factor\": 2}", &up, &nowhere, true },
        { "{\"operator\": \"matmul\", \"factor\": 2}", &up, &nowhere, true },
        { "{\"operator\": \"matmul\", \"factor\": 2}", &gather, &nowhere, false },
        { "{\"name\": \"up\", \"factor\": 2}", &up, &nowhere, true },
        { "{\"name\": \"down\", \"factor\": 2}", &up, &nowhere, false },
        { "{\"pass\": \"forward\", \"factor\": 2}", &up, &nowhere, true },
        { "{\"pass\": \"forward\", \"factor\": 2}", &attention, &nowhere, false },
        { "{\"module\": \"language\", \"factor\": 2}", &up, &language, true },
        { "{\"module\": \"vision\", \"factor\": 2}", &up, &language, false },
        { "{\"module\": \"language\", \"factor\": 2}", &up, &nowhere, false },
        { "{\"module\": \"language\", \"layers\": [5, 7], \"factor\": 2}", &up, &block, true },
        { "{\"module\": \"language\", \"layers\": 5, \"factor\": 2}", &up, &block, true },
        { "{\"module\": \"language\", \"layers\": [6, 7], \"factor\": 2}", &up, &block, false },
        { "{\"module\": \"language\", \"layers\": [5, 7], \"factor\": 2}", &up, &language, false },
        { "{\"operator\": \"matmul\", \"m\": 4096, \"factor\": 2}", &up, &nowhere, true },
        { "{\"operator\": \"matmul\", \"m\": [4097, null], \"factor\": 2}", &up, &nowhere, false },
        { "{\"operator\": \"matmul\", \"n\": [null, 8192], \"factor\": 2}", &up, &nowhere, true },
        { "{\"operator\": \"matmul\", \"k\": [1, 1000], \"factor\": 2}", &up, &nowhere, false },
        { "{\"flop\": [7e10, null], \"factor\": 2}", &up, &nowhere, false },
        { "{\"flop\": [6e10, 7e10], \"factor\": 2}", &up, &nowhere, true },
        { "{\"operator\": \"attention\", \"length\": 512, \"factor\": 2}", &attention, &nowhere,
          true },
        { "{\"operator\": \"attention\", \"tokens\": [1, 4095], \"factor\": 2}", &attention,
          &nowhere, false },
        { "{\"bytes\": 1000000, \"factor\": 2}", &gather, &nowhere, true },
        { "{\"bytes\": [null, 999999], \"factor\": 2}", &gather, &nowhere, false },
    };
    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
        struct arena *arena = arena_create();
        char text[256];
        snprintf(text, sizeof text, "[%s]", cases[i].text);
        struct rule_list rules = rules_of(arena, text);
        const struct rule *found = rules_find(&rules, cases[i].work, cases[i].place);
        if ((found != NULL) != cases[i].want)
            fail_msg("%s, %s: %s", cases[i].text, cases[i].work->name,
                     found != NULL ? "matches" : "does not match");
        arena_destroy(arena);
    }
}

static void test_layers_told_apart(void **state) {
    (void)state;
    struct arena *arena = arena_create();
    struct rule_list rules = rules_of(
        arena, "[{\"module\": \"vision\", \"layers\": 4, \"factor\": 4},"
               " {\"module\": \"vision\", \"layers\": [2, 4], \"factor\": 2},"
               " {\"module\": \"language\", \"layers\": [4, 9], \"factor\": 3}, {\"factor\": 2}]");
    static const struct {
        int module;
        int64_t a, b;
        bool named, apart; /* a by a rule; from b */
    } cases[] = {
        { 0, 1, 5, false, false }, { 0, 2, 3, true, false },   { 0, 4, 2, true, true },
        { 0, 5, 2, false, true },  { 2, 3, 10, false, false }, { 2, 4, 9, true, false },
    };
    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
        assert_int_equal(rules_name_layer(&rules, cases[i].module, cases[i].a), cases[i].named);
        assert_int_equal(rules_tell_apart(&rules, cases[i].module, cases[i].a, cases[i].b),
                         cases[i].apart);
    }
    /* A rule for each block of a large model: none is left out. */
    const char *text = "[";
    for (int i = 0; i < 100; i++)
        text = arena_format(arena, "%s%s{\"module\": \"language\", \"layers\": %d, \"factor\": 2}",
                            text, i > 0 ? "," : "", i);
    rules = rules_of(arena, arena_format(arena, "%s]", text));
    for (int i = 0; i < 99; i++)
        assert_true(rules_name_layer(&rules, 2, i) && rules_tell_apart(&rules, 2, i, i + 1));
    assert_false(rules_name_layer(&rules, 2, 100));
    arena_destroy(arena);
}

/* ---- prices ---- */

static struct cost_model *h100(struct arena *arena) {
    struct error err = { 0 };
    static const struct cluster_network network = { .gpus_per_node = 8,
                                                    .nic_bytes_per_s_per_gpu = 50e9,
                                                    .nic_latency_s = 5e-6 };
    struct cost_model *model = cost_model_create(arena, SCENARIOS, "h100-80g-sxm", &network, &err);
    if (model == NULL) fail_msg("%s", err.text);
    return model;
}

static void test_settings(void **state) {
    (void)state;
    const struct operator_work up =
        operator_matmul("up", PASS_FORWARD, PRECISION_BF16, 4096, 8192, 8192);
    const struct operator_work norm =
        operator_streaming("norm", OPERATOR_NORM, PASS_FORWARD, PRECISION_BF16, 1e9);
    const struct operator_work gather =
        operator_collective("gather", OPERATOR_ALL_GATHER, PASS_FORWARD, COMMUNICATOR_TENSOR, 8e8);
    struct communicator node = { 8, 1, 8, 1 }, four_nodes = { 32, 4, 8, 1 };
    struct arena *arena = arena_create();
    const struct cost_model *plain = h100(arena);
    const struct gpu *gpu = cost_model_gpu(plain);
    const double peak = gpu->peak_flop_per_s[PRECISION_BF16], hbm = gpu->hbm_bytes_per_s;
    const double up_s = cost_model_price(plain, &up, NULL).seconds;
    const double up_launch_s = cost_model_price(plain, &up, NULL).launch_s;
    const double norm_launch_s = cost_model_price(plain, &norm, NULL).launch_s;
    const double gather_s = cost_model_price(plain, &gather, &node).seconds;
    const struct {
        const char *text;
        const struct operator_work *work;
        const struct communicator *group;
        double want_s, want_efficiency;
    } cases[] = {
        { "\"factor\": 2", &up, NULL, 2 * up_s, up.flop / peak / (2 * up_s) },
        { "\"factor\": 0.5", &gather, &node, gather_s / 2, -1 },
        { "\"time_us\": 1000", &up, NULL, 1000e-6, up.flop / peak / 1000e-6 },
        { "\"time_us\": 250", &gather, &four_nodes, 250e-6, -1 },
        { "\"efficiency\": 0.25", &up, NULL, up_launch_s + up.flop / (0.25 * peak), -1 },
        { "\"efficiency\": 0.5", &norm, NULL, norm_launch_s + 1e9 / (0.5 * hbm), -1 },
        { "\"bandwidth_GB_per_s\": 100", &norm, NULL, norm_launch_s + 1e9 / 100e9, -1 },
        /* 7/8 of the buffer over the link, or at the given bus bandwidth, and the wait for the last
         * of the ranks, which neither holds */
        { "\"efficiency\": 0.5", &gather, &node, 7e8 / (0.5 * gpu->nvlink_bytes_per_s) + 60e-6,
          0.5 },
        { "\"bandwidth_GB_per_s\": 100", &gather, &node, 7e8 / 100e9 + 60e-6, -1 },
        /* 31/32 of it over eight NICs of 50 GB/s */
        { "\"efficiency\": 0.5", &gather, &four_nodes, 8e8 * 31 / 32 / (0.5 * 400e9) + 60e-6, 0.5 },
    };
    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
        char text[256];
        snprintf(text, sizeof text, "[{%s, \"source\": \"mine\"}]", cases[i].text);
        struct rule_list rules = rules_of(arena, text);
        struct cost_model *model = h100(arena);
        cost_model_use_rules(model, arena, &rules);
        struct price p = cost_model_price(model, cases[i].work, cases[i].group);
        if (!(fabs(p.seconds / cases[i].want_s - 1) < 1e-9))
            fail_msg("%s, %s: got %g s, want %g", cases[i].text, cases[i].work->name, p.seconds,
                     cases[i].want_s);
        if (cases[i].want_efficiency >= 0 &&
            !(fabs(p.efficiency / cases[i].want_efficiency - 1) < 0.05))
            fail_msg("%s, %s: efficiency %g, want %g", cases[i].text, cases[i].work->name,
                     p.efficiency, cases[i].want_efficiency);
        if (strncmp(p.source, "rule 1 of the test (", 20) != 0 ||
            strcmp(p.source + strlen(p.source) - 7, ": mine)") != 0)
            fail_msg("%s", p.source);
        assert_ptr_equal(p.rule, &cost_model_rules(model)->rules[0]);
        /* microbenchmarks are held against the curves themselves */
        assert_null(cost_model_price_isolated(model, cases[i].work, cases[i].group).rule);
    }
    arena_destroy(arena);
}

static void test_words(void **state) {
    (void)state;
    static const struct {
        const char *rule, *words;
    } cases[] = {
        { "{\"operator\": \"matmul\", \"m\": [1024, null], \"efficiency\": 0.6}",
          "operator matmul, m [1024,null], efficiency 0.6" },
        { "{\"source\": \"mine\", \"pass\": null, \"factor\": 2}", "factor 2: mine" },
        { "{\"factor\": 2, \"source\": \"\"}", "factor 2" },
        { "{}", "" },
    };
    struct arena *arena = arena_create();
    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
        cJSON *rule = cJSON_Parse(cases[i].rule);
        assert_string_equal(rule_words(arena, rule), cases[i].words);
        cJSON_Delete(rule);
    }
    arena_destroy(arena);
}

static void test_order_band_and_range(void **state) {
    (void)state;
    struct arena *arena = arena_create();
    struct rule_list rules =
        rules_of(arena, "[{\"operator\": \"matmul\", \"m\": [1, 10], \"factor\": 5},"
                        " {\"operator\": \"matmul\", \"time_us\": 70, \"band_fraction\": 0.3},"
                        " {\"factor\": 9}]");
    struct cost_model *model = h100(arena), *plain = h100(arena);
    cost_model_use_rules(model, arena, &rules);
    /* Far outside the measured table, until somebody says what it takes. */
    const struct operator_work huge =
        operator_matmul("huge", PASS_FORWARD, PRECISION_BF16, 1, 4000000, 1000000);
    assert_false(cost_model_price(plain, &huge, NULL).inside_range);
    struct price p = cost_model_price(model, &huge, NULL);
    assert_true(fabs(p.seconds - cost_model_price(plain, &huge, NULL).seconds * 5) < 1e-9);
    assert_false(p.inside_range); /* a factor on an estimate leaves it one */
    const struct operator_work up =
        operator_matmul("up", PASS_FORWARD, PRECISION_BF16, 4096, 4096, 4096);
    p = cost_model_price(model, &up, NULL);
    assert_true(fabs(p.seconds - 70e-6) < 1e-12 && p.inside_range && p.band_fraction == 0.3);
    const struct operator_work nothing =
        operator_streaming("nothing", OPERATOR_LOSS, PASS_FORWARD, PRECISION_BF16, 0);
    p = cost_model_price(model, &nothing, NULL);
    assert_true(p.seconds == 0 && p.rule == NULL);
    arena_destroy(arena);
}

/* By name wherever it stands, and by shape between two sizes of the same operator. */
static void test_may_fit(void **state) {
    (void)state;
    const struct operator_work small =
        operator_matmul("up", PASS_FORWARD, PRECISION_BF16, 1000, 512, 256);
    const struct operator_work large =
        operator_matmul("up", PASS_FORWARD, PRECISION_BF16, 3000, 512, 256);
    const struct rule_range open = { -INFINITY, INFINITY };
    const struct {
        struct rule_range m;
        bool fits;
    } cases[] = {
        { { 1, 999 }, false },        { { 1, 1000 }, true },     { { 1500, 1600 }, true },
        { { 3000, INFINITY }, true }, { { 3001, 4000 }, false },
    };
    struct rule rule = { .operator_kind = OPERATOR_MATMUL,
                         .module = RULE_ANY,
                         .pass = RULE_ANY,
                         .n = open,
                         .k = open,
                         .tokens = open,
                         .length = open,
                         .flop = open,
                         .bytes = open };
    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
        rule.m = cases[i].m;
        if (rule_may_fit(&rule, &small, &large) != cases[i].fits) fail_msg("case %zu", i);
    }
    assert_true(rule_names_operator(&rule, &small, 2));
    rule.module = 1;
    assert_false(rule_names_operator(&rule, &small, 2));
    rule.module = RULE_ANY;
    rule.name = "down";
    assert_false(rule_names_operator(&rule, &small, 2));
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_words),
        cmocka_unit_test(test_mistakes),
        cmocka_unit_test(test_matching),
        cmocka_unit_test(test_layers_told_apart),
        cmocka_unit_test(test_settings),
        cmocka_unit_test(test_may_fit),
        cmocka_unit_test(test_order_band_and_range),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
