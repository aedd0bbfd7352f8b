/* test_network_property.c - what must hold for any job: a larger NVLink domain, faster NICs and
 * shorter latencies never make its step longer, whatever hides beside what.
 *
 * Of jobs without a pipeline's choice of links: the walk keeps layouts and changes the network
 * alone. Latencies beyond the measured eight GPUs are extrapolated, so 0.01 % is allowed. */
#include "tests/unit/replay/replay_fixture.h"

#define TOLERANCE 1e-4
enum { SETTING_LIMIT = 8 };

static const char *const gpus[] = { "a100-40g-sxm",  "a100-80g-sxm",     "a800-80g-sxm",
                                    "h100-80g-sxm",  "h100-96g-sxm",     "h800-80g-sxm",
                                    "h20-96g",       "h200-141g-sxm",    "b200-180g-sxm",
                                    "b300-288g-sxm", "gb200-186g-nvl72", "gb300-288g-nvl72" };

/* Traffic that hides: of FSDP by several frameworks, of ZeRO-1 with overlap; beside them tensor and
 * context parallelism and a pipeline. */
static const char *const jobs[][SETTING_LIMIT] = {
    { "layout.backend=fsdp", "layout.stack=torchtitan", "layout.zero_stage=3", "layout.pp=1",
      "layout.tp=1", NULL },
    { "layout.backend=fsdp", "layout.stack=llm-foundry-2023", "layout.zero_stage=3", "layout.pp=1",
      "layout.tp=1", NULL },
    { "layout.backend=fsdp", "layout.stack=maxtext", "layout.zero_stage=3", "layout.pp=1",
      "layout.tp=1", NULL },
    { "layout.backend=fsdp", "layout.stack=torchtitan", "layout.zero_stage=3", "layout.pp=1",
      "layout.tp=1", "layout.zero_group=8", NULL },
    { "layout.backend=megatron-lm", "layout.stack=nemo-2025", "layout.zero_stage=1",
      "layout.overlap_gradient_reduce=true", "layout.overlap_parameter_gather=true", "layout.pp=1",
      "layout.tp=1", NULL },
    { "layout.backend=megatron-lm", "layout.stack=megatron-core", "layout.zero_stage=1",
      "layout.overlap_gradient_reduce=true", "layout.tp=4", "layout.pp=2", NULL },
};

/* Each step of the walk is a network at least as good as the one before. */
static const char *const networks[][3] = {
    { "cluster.gpus_per_node=4", "cluster.nic_Gbit_per_s_per_gpu=200",
      "cluster.nic_latency_us=10" },
    { "cluster.gpus_per_node=8", "cluster.nic_Gbit_per_s_per_gpu=200",
      "cluster.nic_latency_us=10" },
    { "cluster.gpus_per_node=8", "cluster.nic_Gbit_per_s_per_gpu=400",
      "cluster.nic_latency_us=10" },
    { "cluster.gpus_per_node=8", "cluster.nic_Gbit_per_s_per_gpu=400", "cluster.nic_latency_us=5" },
    { "cluster.gpus_per_node=8", "cluster.nic_Gbit_per_s_per_gpu=800", "cluster.nic_latency_us=5" },
    { "cluster.gpus_per_node=16", "cluster.nic_Gbit_per_s_per_gpu=800",
      "cluster.nic_latency_us=5" },
    { "cluster.gpus_per_node=32", "cluster.nic_Gbit_per_s_per_gpu=800",
      "cluster.nic_latency_us=5" },
    { "cluster.gpus_per_node=64", "cluster.nic_Gbit_per_s_per_gpu=800",
      "cluster.nic_latency_us=5" },
};

static double step_ms(const char *gpu, const char *const *settings, const char *const network[3]) {
    char hardware[64];
    snprintf(hardware, sizeof hardware, "cluster.hardware=%s", gpu);
    const char *overrides[SETTING_LIMIT + 9] = { "model=llama3-8b", hardware,
                                                 "cluster.gpu_count=64",
                                                 "training.global_batch={\"micro_batches\":64}",
                                                 "policy.recompute=none" };
    int count = 5;
    for (int i = 0; i < 3; i++)
        overrides[count++] = network[i];
    for (int i = 0; settings[i] != NULL; i++)
        overrides[count++] = settings[i];
    overrides[count] = NULL;
    struct scenario *s = fixture_scenario("samples.csv", overrides);
    struct job *job = fixture_job(s);
    struct replay *r = fixture_replay(job, FIDELITY_STAGE, 1);
    const double ms = 1e3 * r->step_time_mean_s;
    replay_destroy(r);
    job_destroy(job);
    scenario_destroy(s);
    return ms;
}

static void test_a_better_network_is_never_slower(void **state) {
    (void)state;
    fixture_samples("samples.csv", 64, 47);
    for (size_t g = 0; g < sizeof gpus / sizeof gpus[0]; g++)
        for (size_t j = 0; j < sizeof jobs / sizeof jobs[0]; j++) {
            double before = 0, first = 0;
            for (size_t n = 0; n < sizeof networks / sizeof networks[0]; n++) {
                const double ms = step_ms(gpus[g], jobs[j], networks[n]);
                if (n > 0 && ms > before * (1 + TOLERANCE))
                    fail_msg("%s, %s: %.6g ms with %s, %s, %s, and %.6g ms before", gpus[g],
                             jobs[j][1], ms, networks[n][0], networks[n][1], networks[n][2],
                             before);
                if (n == 0) first = ms;
                before = ms;
            }
            assert_true(before < first); /* the walk leads somewhere */
        }
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_a_better_network_is_never_slower),
    };
    return cmocka_run_group_tests(tests, fixture_begin, fixture_end);
}
