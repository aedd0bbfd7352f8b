/* test_hardware.c - hardware and cluster files: what is shipped loads; what is broken is
 * explained. */
#include <dirent.h>
#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <cmocka.h>
#include "costmodel/hardware.h"
#include "sim/base/file_read.h"

#define SCENARIOS BALLAST_SOURCE_DIR "/scenarios"

static void test_presets(void **state) {
    (void)state;
    static const struct {
        const char *name, *hardware;
        int64_t gpu_count;
        double nic_GB_per_s;
    } cases[] = {
        { "omnibal-a100-4x200g", "a100-80g-sxm", 32, 12.5 },
        { "omnibal-a100-2x200g", "a100-80g-sxm", 32, 6.25 },
        { "omnibal-h100-8x400g", "h100-80g-sxm", 64, 50 },
        { "dip-h800", "h800-80g-sxm", 64, 25 },
        { "dip-h20", "h20-96g", 16, 25 },
        { "dip-h100-simulated", "h100-80g-sxm", 8192, 50 },
        { "uneven-pp-h20", "h20-96g", 4, 50 },
        { "aws-p4d", "a100-40g-sxm", 0, 6.25 },
        { "aws-p4de", "a100-80g-sxm", 0, 6.25 },
        { "aws-p5", "h100-80g-sxm", 0, 50 },
        { "aws-p5en", "h200-141g-sxm", 0, 50 },
        { "aws-p6-b200", "b200-180g-sxm", 0, 50 },
        { "aws-p6-b300", "b300-288g-sxm", 0, 100 },
        { "azure-nd-h100-v5", "h100-80g-sxm", 0, 50 },
        { "gcp-a3-high", "h100-80g-sxm", 0, 12.5 },
        { "gcp-a3-mega", "h100-80g-sxm", 0, 25 },
        { "gcp-a3-ultra", "h200-141g-sxm", 0, 50 },
        { "gcp-a4", "b200-180g-sxm", 0, 50 },
        { "jean-zay-a100", "a100-80g-sxm", 0, 6.25 },
        { "juwels-booster", "a100-40g-sxm", 0, 25 },
        { "perlmutter", "a100-40g-sxm", 0, 25 },
        { "alps", "gh200-96g", 0, 25 },
    };
    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
        struct arena *arena = arena_create();
        struct error err = { 0 };
        struct cluster_preset p;
        if (!cluster_preset_read(arena, SCENARIOS, cases[i].name, &p, &err))
            fail_msg("%s: %s", cases[i].name, err.text);
        if (strcmp(p.hardware, cases[i].hardware) || p.gpu_count != cases[i].gpu_count ||
            p.network.nic_bytes_per_s_per_gpu != cases[i].nic_GB_per_s * 1e9)
            fail_msg("%s: %s, %ld GPUs, %g bytes/s", cases[i].name, p.hardware, (long)p.gpu_count,
                     p.network.nic_bytes_per_s_per_gpu);
        if (!cost_model_create(arena, SCENARIOS, p.hardware, &p.network, &err))
            fail_msg("%s: %s", cases[i].name, err.text);
        arena_destroy(arena);
    }
}

static void test_figures(void **state) {
    (void)state;
    struct arena *arena = arena_create();
    struct error err = { 0 };
    const struct cluster_network network = { .gpus_per_node = 8, .nic_bytes_per_s_per_gpu = 25e9 };
    struct cost_model *model = cost_model_create(arena, SCENARIOS, "h800-80g-sxm", &network, &err);
    if (!model) fail_msg("%s", err.text);
    const struct gpu *gpu = cost_model_gpu(model);
    assert_string_equal(gpu->name, "h800-80g-sxm");
    assert_true(gpu->peak_flop_per_s[PRECISION_BF16] == 989e12);
    assert_true(gpu->nvlink_bytes_per_s == 200e9);
    assert_true(gpu->hbm_bytes == 80.0 * 1073741824);
    assert_true(strncmp(cost_model_profile_id(model), "h800-80g-sxm@", 13) == 0);
    assert_true(cost_model_network(model)->nic_bytes_per_s_per_gpu == 25e9);
    arena_destroy(arena);
}

static void test_unknown_name(void **state) {
    (void)state;
    struct arena *arena = arena_create();
    struct error err = { 0 };
    const struct cluster_network network = { .gpus_per_node = 8, .nic_bytes_per_s_per_gpu = 25e9 };
    assert_null(cost_model_create(arena, SCENARIOS, "h100-80-sxm", &network, &err));
    assert_non_null(strstr(err.text, "no 'h100-80-sxm.json' in"));
    assert_non_null(strstr(err.text, "did you mean 'h100-80g-sxm'?"));
    assert_non_null(strstr(err.text, "while loading hardware 'h100-80-sxm'"));
    arena_destroy(arena);
}

/* What a fit writes is a profile: the GPU that it names, with these curves. */
static void test_curves_are_a_gpu(void **state) {
    (void)state;
    struct arena *arena = arena_create();
    struct error err = { 0 };
    const struct cluster_network network = { .gpus_per_node = 8, .nic_bytes_per_s_per_gpu = 25e9 };
    const char *path = SCENARIOS "/hardware/curves/h20-96g.json";
    const struct cost_model *curves = cost_model_create(arena, SCENARIOS, path, &network, &err),
                            *gpu = cost_model_create(arena, SCENARIOS, "h20-96g", &network, &err);
    assert_non_null(curves);
    assert_string_equal(cost_model_gpu(curves)->name, "h20-96g");
    assert_string_equal(cost_model_profile_id(curves), cost_model_profile_id(gpu));
    int64_t node_gpus = 0;
    assert_true(hardware_node_gpus(arena, SCENARIOS, path, &node_gpus, &err));
    assert_int_equal(node_gpus, 8);
    arena_destroy(arena);
}

/* The shipped text with one passage replaced must be refused with these words. */
static void expect_error(const char *file, const char *old, const char *new, const char *wanted[]) {
    struct arena *arena = arena_create();
    struct error err = { 0 };
    char *text;
    size_t size;
    const char *path = arena_format(arena, "%s/hardware/%s", SCENARIOS, file);
    assert_true(file_read(path, &text, &size, &err));
    const char *whole = arena_format(arena, "%.*s", (int)size, text);
    free(text);
    const char *at = strstr(whole, old);
    if (!at) {
        fail_msg("%s has no %s to break", file, old);
        return;
    }
    const char *broken =
        arena_format(arena, "%.*s%s%s", (int)(at - whole), whole, new, at + strlen(old));
    const bool is_gpu = strncmp(file, "curves/", 7) != 0;
    struct json *gpu = is_gpu ? json_parse("broken.json", broken, strlen(broken), &err)
                              : json_load(SCENARIOS "/hardware/a100-80g-sxm.json", &err);
    struct json *curves = is_gpu ? json_load(SCENARIOS "/hardware/curves/a100-80g-sxm.json", &err)
                                 : json_parse("broken.json", broken, strlen(broken), &err);
    const struct cluster_network network = { .gpus_per_node = 8, .nic_bytes_per_s_per_gpu = 25e9 };
    if (gpu && curves && cost_model_create_from(arena, gpu, curves, &network, &err))
        fail_msg("%s with %s was accepted", file, new);
    for (int i = 0; wanted[i]; i++)
        if (!strstr(err.text, wanted[i]))
            fail_msg("%s with %s: no \"%s\" in\n%s", file, new, wanted[i], err.text);
    json_destroy(gpu);
    json_destroy(curves);
    arena_destroy(arena);
}

static void test_broken_files(void **state) {
    (void)state;
    const char *gpu = "a100-80g-sxm.json", *curves = "curves/a100-80g-sxm.json";
    const struct {
        const char *file, *old, *new, *wanted[4];
    } cases[] = {
        { gpu, "\"hbm_GiB\": 80", "\"hbm_GiB\": -4", { "broken.json:", "hbm_GiB", "-4", NULL } },
        { gpu, "\"sm_count\": 108", "\"sm_cuont\": 108", { "broken.json:", "sm_count", NULL } },
        { gpu, "\"tdp_w\": 400", "\"tdp_w\": \"400\"", { "broken.json:", "tdp_w", NULL } },
        { gpu, "\"tdp_w\": \"", "\"tdp_v\": \"", { "broken.json:", "tdp_w", "source", NULL } },
        { gpu, "\"tdp_w\": 400,", "\"tdp_w\": 400 ", { "broken.json:", NULL } },
        { curves, "\"efficiency\": ", "\"efficiency\": 3", { "broken.json:", "efficiency", NULL } },
        { curves, "\"wave_slots\": 108,", "", { "broken.json:", "wave_slots", NULL } },
        { curves, "\"m\": [128,", "\"m\": [", { "broken.json:", "log_ratio_milli", "rows", NULL } },
        { curves,
          "\"k\": [128,256",
          "\"k\": [256,128",
          { "broken.json:", "above the one before" } },
        { curves,
          "\"op\": \"all-gather\"",
          "\"op\": \"all-gathr\"",
          { "broken.json:", "all-gather", NULL } },
        { curves, "\"rank_count\": 4", "\"rank_count\": 1", { "broken.json:", "rank_count" } },
        { curves,
          "\"precision\": \"bf16\"",
          "\"precision\": \"bf17\"",
          { "broken.json:", "precision", "bf17", NULL } },
        { curves,
          "\"pass\": \"forward\"",
          "\"pass\": \"weight gradient\"",
          { "broken.json:", "needs the forward curve before it", NULL } },
        { curves, "\"causal\": true", "\"causal\": false", { "broken.json:", "sorted", NULL } },
    };
    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++)
        expect_error(cases[i].file, cases[i].old, cases[i].new, (const char **)cases[i].wanted);
}

static void test_broken_fabrics(void **state) {
    (void)state;
#define FABRIC(bytes, overhead_us)                                                                 \
    "{\"name\":\"f\",\"description\":\"\",\"source\":\"\",\"efficiency_fraction\":0.9,"            \
    "\"hop_latency_us\":10,\"node_count\":2,\"ranks_per_node\":8,\"bytes\":" bytes                 \
    ",\"overhead_us\":" overhead_us "}"
    static const struct {
        const char *text, *wanted;
    } cases[] = {
        { FABRIC("[1,2]", "[3,4]"), NULL },
        { FABRIC("[]", "[]"), "must not be empty" },
        { FABRIC("[2,2]", "[3,4]"), "above the one before" },
        { FABRIC("[1,2]", "[3]"), "one number from 0 for each of bytes" },
        { FABRIC("[1]", "[3,4]"), "one number from 0 for each of bytes" },
        { FABRIC("[1]", "[-3]"), "one number from 0 for each of bytes" },
    };
    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
        struct arena *arena = arena_create();
        struct error err = { 0 };
        struct fabric fabric;
        struct json *json = json_parse("f.json", cases[i].text, strlen(cases[i].text), &err);
        if (!json) fail_msg("%s", err.text);
        if (fabric_read(json, arena, &fabric, &err) != !cases[i].wanted)
            fail_msg("%s: %s", cases[i].text, err.text);
        if (cases[i].wanted && !strstr(err.text, cases[i].wanted)) fail_msg("%s", err.text);
        json_destroy(json);
        arena_destroy(arena);
    }
}

static void test_fabric_overhead(void **state) {
    (void)state;
    const struct fabric fabric = { .hop_latency_s = 1,
                                   .node_count = 2,
                                   .ranks_per_node = 8,
                                   .count = 2,
                                   .log2_bytes = { 10, 20 },
                                   .overhead_s = { 10, 30 } };
    static const struct {
        const char *name;
        double bytes, node_count, ranks_per_node;
        int passes;
        double want_s;
    } cases[] = {
        { "a point", 1024, 2, 8, 2, 10 },
        { "between", 32768, 2, 8, 2, 20 },
        { "below", 1, 2, 8, 2, 10 },
        { "beyond", 1e12, 2, 8, 2, 30 },
        { "two doublings", 1024, 8, 8, 2, 12 },
        { "one rank a node", 4096, 2, 1, 2, 20 },
        { "one pass: the latency of both", 1024, 2, 8, 1, 10 },
        { "one pass: half of what grows", 32768, 2, 8, 1, 15 },
    };
    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
        const double got_s = fabric_overhead_s(&fabric, cases[i].bytes, cases[i].node_count,
                                               cases[i].ranks_per_node, cases[i].passes);
        if (fabs(got_s - cases[i].want_s) > 1e-9)
            fail_msg("%s: got %g s, want %g", cases[i].name, got_s, cases[i].want_s);
    }
}

static void test_bad_network(void **state) {
    (void)state;
    static const struct {
        struct cluster_network network;
        const char *wanted;
    } cases[] = {
        { { .gpus_per_node = 0, .nic_bytes_per_s_per_gpu = 1e9 }, "at least one GPU" },
        { { .gpus_per_node = 8, .nic_bytes_per_s_per_gpu = 0 }, "above 0" },
        { { .gpus_per_node = 8, .nic_bytes_per_s_per_gpu = 1e9, .nic_latency_s = -1 }, "negative" },
    };
    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
        struct arena *arena = arena_create();
        struct error err = { 0 };
        assert_null(cost_model_create(arena, SCENARIOS, "h20-96g", &cases[i].network, &err));
        if (!strstr(err.text, cases[i].wanted)) fail_msg("%s", err.text);
        arena_destroy(arena);
    }
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_presets),         cmocka_unit_test(test_figures),
        cmocka_unit_test(test_unknown_name),
        cmocka_unit_test(test_curves_are_a_gpu),    cmocka_unit_test(test_broken_files),
        cmocka_unit_test(test_bad_network),     cmocka_unit_test(test_broken_fabrics),
        cmocka_unit_test(test_fabric_overhead),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
