/* test_scenario_warnings.c - what is simulated as asked and seldom meant is said. */
#include "tests/unit/scenario/scenario_fixture.h"

static const char small[] = BALLAST_SOURCE_DIR "/tests/golden/input/small.json";
static const char pack[] = BALLAST_SOURCE_DIR "/scenarios/examples/vlm-s-pack.json";
static const char layouts[] = BALLAST_SOURCE_DIR "/scenarios/examples/internvl-6b-20b-isf.json";

static const char wan[] = BALLAST_SOURCE_DIR "/scenarios/examples/wan-14b.json";

static const struct {
    const char *path, *set[7];
    const char *text; /* in the only warning; NULL: none */
} cases[] = {
    { small, { NULL }, NULL },
    { layouts, { "cluster.gpus_per_node=16" }, "16 GPUs a node" },
    { layouts, { "cluster.gpus_per_node=8" }, NULL },
    { layouts, { "cluster.gpus_per_node=4" }, NULL },
    { layouts,
      { "cluster.hardware=gb200-186g-nvl72", "cluster.price_usd_per_gpu_hour=3",
        "cluster.gpus_per_node=32" },
      NULL },
    { layouts,
      { "cluster.hardware=gb200-186g-nvl72", "cluster.price_usd_per_gpu_hour=3",
        "cluster.gpus_per_node=4" },
      "NVLink joins 72 of gb200-186g-nvl72" },
    { layouts,
      { "cluster.hardware=gb200-186g-nvl72", "cluster.price_usd_per_gpu_hour=3",
        "cluster.gpus_per_node=4", "cluster.gpu_count=4", "layout.pp=1", "layout.dp=null" },
      NULL },
    { small, { "cluster.name=aws-p55" }, "did you mean \"aws-p5\"?" },
    { small, { "cluster.name=our own machine" }, NULL },
    /* a part of one server says nothing of its size */
    { layouts, { "cluster.gpu_count=8", "cluster.gpus_per_node=16", "layout.dp=null" }, NULL },
    { layouts, { "cluster.nic_Gbit_per_s_per_gpu=3200" }, "400 is a GPU's share" },
    { layouts, { "cluster.nic_Gbit_per_s_per_gpu=400" }, "PCIe link of a100-80g-sxm carries 210" },
    { layouts, { "cluster.nic_Gbit_per_s_per_gpu=210" }, NULL },
    { layouts, { "cluster.gpu_count=8", "cluster.nic_Gbit_per_s_per_gpu=400" }, NULL }, /* idle */
    { layouts,
      { "cluster.hardware=b300-288g-sxm", "cluster.price_usd_per_gpu_hour=3",
        "cluster.nic_Gbit_per_s_per_gpu=800" },
      NULL },
    { layouts, { "cluster.gpu_count=8", "cluster.nic_Gbit_per_s_per_gpu=3200" }, NULL }, /* idle */
    { layouts, { "cluster.hardware=h100-80g-sxm" }, "2 USD a GPU-hour stands in the file" },
    { layouts, { "cluster.hardware=h100-80g-sxm", "cluster.price_usd_per_gpu_hour=3" }, NULL },
    { layouts, { "cluster.price_usd_per_gpu_hour=3" }, NULL },
    { layouts, { "cluster.hardware=a100-80g-sxm" }, NULL }, /* as it is */
    { layouts, { "cluster.hardware=h100-80g-sxm", "cluster.hardware=a100-80g-sxm" }, NULL },
    { layouts,
      { "layout.cp=2", "layout.dp=null", "layout.backend=megatron-lm", "layout.cp_kind=all-to-all",
        "layout.cp_balanced=false" },
      "cp_balanced false changes nothing" },
    { layouts,
      { "layout.cp=2", "layout.dp=null", "layout.backend=megatron-lm",
        "layout.cp_kind=all-to-all" },
      NULL },
    { wan, { "layout.cp=2", "layout.cp_kind=ring", "layout.cp_balanced=false" }, "is causal" },
    { wan, { "layout.cp=2", "layout.cp_kind=ring" }, NULL },
    { layouts,
      { "layout.pp=1", "layout.dp=null", "layout.backend=fsdp", "layout.zero_stage=3",
        "layout.overlap_gradient_reduce=false" },
      "overlap_gradient_reduce false changes nothing" },
    { layouts,
      { "layout.pp=1", "layout.dp=null", "layout.backend=deepspeed", "layout.zero_stage=1",
        "layout.overlap_gradient_reduce=false" },
      NULL },
    { layouts, /* what a stack chose is nobody's mistake */
      { "layout.cp=2", "layout.dp=null", "layout.tp=1", "layout.cp_heads=2",
        "layout.stack=picotron", "layout.pp=1" },
      NULL },
    { layouts,
      { "layout.cp=2", "layout.dp=null", "layout.backend=megatron-lm", "layout.cp_balanced=false" },
      NULL },
    { pack, { "cluster.name=dip-h20", "cluster.hardware=h800-80g-sxm" }, NULL },
    { pack, { "cluster.name=dip-h800" }, NULL },
    { pack, { "cluster.hardware=h800-80g-sxm" }, NULL }, /* its cluster's */
    { pack, { "cluster.hardware=h20-96g" }, "USD a GPU-hour stands in the file" },
    { pack, { "cluster.name=omnibal-h100-8x400g" }, "USD a GPU-hour stands in the file" },
};

static void test_each(void **state) {
    (void)state;
    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
        struct error err = { 0 };
        struct scenario_options options = { .directory = BALLAST_SOURCE_DIR "/scenarios",
                                            .overrides = cases[i].set };
        struct scenario *s = scenario_load(&options, cases[i].path, &err);
        if (s == NULL) fail_msg("case %zu: %s", i, err.text);
        const char *said = s->warnings[0];
        if ((said == NULL) != (cases[i].text == NULL) ||
            (said != NULL && (strstr(said, cases[i].text) == NULL || s->warnings[1] != NULL)))
            fail_msg("case %zu: %s", i, said != NULL ? said : "no warning");
        scenario_destroy(s);
    }
}

int main(void) {
    const struct CMUnitTest tests[] = { cmocka_unit_test(test_each) };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
