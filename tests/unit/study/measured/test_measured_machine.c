/* test_measured_machine.c - what a source or its notes say finds the machine, and its network. */
#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>
#include <cmocka.h>
#include "sim/study/measured/measured_row.h"
#include "tests/unit/study/measured/measured_fixture.h"

static void test_machine(void **state) {
    (void)state;
    static const struct {
        const char *source, *notes, *gpu;
        int64_t gpus_per_node;
        const char *machine; /* NULL: none */
        double nic_Gbit_per_s_per_gpu;
    } cases[] = {
        { "OpenLLM-France/Lucie-Training", "A100 of Jean Zay, eight a node", "a100-80g-sxm", 8,
          "jean-zay-a100", 0 },
        { "OpenLLM-France/Lucie-Training", "A100 of Jean Zay", "a100-80g-sxm", -1, "jean-zay-a100",
          0 },
        { "bigscience-workshop/bigscience", "", "a100-80g-sxm", 8, "jean-zay-a100", 0 },
        { "bigscience-workshop/bigscience", "", "a100-80g-sxm", 8, "jean-zay-a100", 50 },
        { "x", "Standard_ND96amsr_A100_v4, bigscience-workshop/Megatron-DeepSpeed", "a100-80g-sxm",
          8, "azure-ndm-a100-v4", 0 }, /* BLOOM's code elsewhere */
        { "x", "bigscience-workshop/Megatron-DeepSpeed", "a100-80g-sxm", 8, NULL, 0 },
        { "bigscience-workshop/bigscience", "", "v100-32g-sxm", 4, "jean-zay-v100", 0 },
        { "x", "Perlmutter", "a100-40g-sxm", -1, "perlmutter", 0 },
        { "x", "Perlmutter", "a100-80g-sxm", -1, "perlmutter-80g", 0 },
        { "x", "TACC Vista", "gh200-96g", 1, "vista", 0 },
        { "x", "as on Jean Zay", "a100-80g-sxm", 8, NULL, 200 },
        { "OpenLLM-France/Lucie-Training", "four H100 a node of Jean Zay", "h100-80g-sxm", 4, NULL,
          0 },
        { "x", "not Jean Zay", "a100-80g-sxm", 8, NULL, 0 },
        { "x", "Jean Zay was not used", "a100-80g-sxm", 8, NULL, 0 },
        { "x", "Jean Zay", "a100-80g-sxm", 4, NULL, 0 },
        { "AI-Hypercomputer/maxtext", "A3 High of Google Cloud", "h100-80g-sxm", 8, "gcp-a3-high",
          0 },
        { "x", "training/a3mega/llama3-70b/README.md", "h100-80g-sxm", 8, "gcp-a3-mega", 0 },
        { "x", "four p5.48xlarge", "h100-80g-sxm", 8, "aws-p5", 0 },
        { "x", "p4d or p4de", "a100-80g-sxm", 8, "aws-p4de", 0 },
        { "x", "p4d or p4de", "a100-40g-sxm", 8, "aws-p4d", 0 },
        { "x", "p5 of a proposal", "h100-80g-sxm", 8, NULL, 0 },
    };
    struct measured_context context = shipped_context();
    struct arena *arena = context.arena;
    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
        struct measured_scenario out = { .gpu = cases[i].gpu };
        const struct measured_row row = {
            .context = &context,
            .run = { .source = cases[i].source,
                     .notes = cases[i].notes,
                     .gpus_per_node = cases[i].gpus_per_node,
                     .nic_Gbit_per_s_per_gpu = cases[i].nic_Gbit_per_s_per_gpu > 0
                                                   ? cases[i].nic_Gbit_per_s_per_gpu
                                                   : NAN },
            .out = &out,
        };
        const struct known_machine *got = measured_known_machine(&row);
        const char *name = got != NULL ? got->name : "none",
                   *want = cases[i].machine != NULL ? cases[i].machine : "none";
        if (strcmp(name, want) != 0)
            fail_msg("%s, %s, %s: got %s, want %s", cases[i].source, cases[i].notes, cases[i].gpu,
                     name, want);
    }
    arena_destroy(arena);
}

static double number(const cJSON *cluster, const char *key) {
    const cJSON *item = cJSON_GetObjectItemCaseSensitive(cluster, key);
    return cJSON_IsNumber(item) ? item->valuedouble : NAN;
}

/* What the row says itself goes first; a run in one node has no network. */
static void test_network(void **state) {
    (void)state;
    static const char header[] =
        "row_id,source,notes,model,layers,hidden,heads,seq_len,hardware,gpu_count,gpus_per_node,"
        "nic_Gbit_per_s_per_gpu,tp,pp,micro_batch,global_batch,stack,iter_time_s\n";
    static const struct {
        const char *row;
        double Gbit_per_s, nics, efficiency;
        const char *fabric;
    } cases[] = {
        { "a,s,Jean Zay,GPT,2,1024,16,2048,a100-80g-sxm,64,8,,1,1,1,64,megatron-core,1\n", 50, 4,
          0.35, NULL },
        { "a,s,Jean Zay,GPT,2,1024,16,2048,a100-80g-sxm,64,8,200,1,1,1,64,megatron-core,1\n", 200,
          NAN, NAN, NULL },
        { "a,s,p5.48xlarge,GPT,2,1024,16,2048,h100-80g-sxm,64,,,1,1,1,64,megatron-core,1\n", 400,
          32, NAN, "efa-3200" },
        { "a,s,,GPT,2,1024,16,2048,h100-80g-sxm,64,,,1,1,1,64,megatron-core,1\n", 400, NAN, NAN,
          NULL },
        { "a,s,Jean Zay,GPT,2,1024,16,2048,a100-80g-sxm,8,8,,1,1,1,64,megatron-core,1\n", 200, NAN,
          NAN, NULL },
    };
    struct measured_context context = shipped_context();
    struct arena *arena = context.arena;
    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
        const struct measured_scenario m = scenario_of_row(&context, header, cases[i].row);
        const cJSON *cluster = cJSON_GetObjectItemCaseSensitive(m.document, "cluster"),
                    *fabric = cJSON_GetObjectItemCaseSensitive(cluster, "fabric");
        const double got[] = { number(cluster, "nic_Gbit_per_s_per_gpu"),
                               number(cluster, "nics_per_node"),
                               number(cluster, "nic_efficiency_fraction") },
                     want[] = { cases[i].Gbit_per_s, cases[i].nics, cases[i].efficiency };
        for (size_t k = 0; k < sizeof want / sizeof want[0]; k++)
            if (isnan(want[k]) != isnan(got[k]) || fabs(got[k] - want[k]) > 1e-9)
                fail_msg("%s: figure %zu: got %g, want %g", cases[i].row, k, got[k], want[k]);
        const char *name = cJSON_IsString(fabric) ? fabric->valuestring : "none";
        assert_string_equal(name, cases[i].fabric != NULL ? cases[i].fabric : "none");
        cJSON_Delete(m.document);
    }
    arena_destroy(arena);
}

/* However a source writes the card, or its machine. */
static void test_hardware(void **state) {
    (void)state;
    static const char *const cases[][2] = {
        { "NVIDIA H100 80GB HBM3", "h100-80g-sxm" },
        { "8xH100", "h100-80g-sxm" },
        { "8 x A100-SXM4-40GB", "a100-40g-sxm" },
        { "H100-SXM5-80GBx8", "h100-80g-sxm" },
        { "H-100", "h100-80g-sxm" },
        { "GB 200", "gb200-186g-nvl72" },
        { "p5.48xlarge", "h100-80g-sxm" },
        { "p4de.24xlarge", "a100-80g-sxm" },
        { "a3-ultragpu-8g", "h200-141g-sxm" },
        { "AWS p5.48xlarge x 4", "h100-80g-sxm" },
        { "A100 40 GB", "a100-40g-sxm" },
        { "H20 141 GB", "h20-141g" },
        { "MI300A (Alps)", NULL },
        { "Intel Max, MareNostrum 5", NULL },
        { "MI300X p5en.48xlarge", NULL },
        { "RTX A6000", NULL },
        { "x8", NULL },
        { "8x", NULL },
    };
    struct measured_context context = shipped_context();
    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
        const char *why_not, *got = measured_hardware(&context, cases[i][0], &why_not),
                             *want = cases[i][1];
        if ((got == NULL) != (want == NULL) || (got != NULL && strcmp(got, want) != 0))
            fail_msg("%s: %s", cases[i][0], got != NULL ? got : "none");
    }
    arena_destroy(context.arena);
}

/* A bridge of four cards is a node, PCIe between two of them its network. */
static void test_bridges(void **state) {
    (void)state;
    static const char header[] =
        "row_id,source,notes,model,layers,hidden,heads,seq_len,hardware,gpu_count,gpus_per_node,"
        "tp,pp,micro_batch,global_batch,stack,iter_time_s\n";
    static const struct {
        const char *hardware, *notes, *want;
        double gpus_per_node;
    } cases[] = {
        { "NVIDIA H200 NVL", "4-WAY NVLINK BRIDGES", "h200-141g-nvl-bridge4", 4 },
        { "h200-141g-nvl", "two bridges of four", "h200-141g-nvl-bridge4", 4 },
        { "h200-141g-nvl", "NVLink bridges of two", "h200-141g-nvl", 8 },
        { "h200-141g-nvl", "no 4-way bridges", "h200-141g-nvl", 8 },
        { "h200-141g-nvl", "bridges; one of 48 nodes", "h200-141g-nvl", 8 },
        { "h200-141g-nvl", "4 NVLink bridges", "h200-141g-nvl", 8 },
        { "h200-141g-nvl", "", "h200-141g-nvl", 8 },
        { "h200-141g-sxm", "4-way bridges", "h200-141g-sxm", 8 },
    };
    struct measured_context context = shipped_context();
    struct arena *arena = context.arena;
    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
        const struct measured_scenario m = scenario_of_row(
            &context, header,
            arena_format(arena, "a,s,%s,GPT,2,1024,16,2048,%s,8,8,4,1,1,16,megatron-core,1\n",
                         cases[i].notes, cases[i].hardware));
        const cJSON *cluster = cJSON_GetObjectItemCaseSensitive(m.document, "cluster");
        assert_string_equal(cJSON_GetObjectItemCaseSensitive(cluster, "hardware")->valuestring,
                            cases[i].want);
        assert_true(number(cluster, "gpus_per_node") == cases[i].gpus_per_node);
        cJSON_Delete(m.document);
    }
    arena_destroy(arena);
}

int main(void) {
    const struct CMUnitTest tests[] = { cmocka_unit_test(test_machine),
                                        cmocka_unit_test(test_network),
                                        cmocka_unit_test(test_hardware),
                                        cmocka_unit_test(test_bridges) };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
