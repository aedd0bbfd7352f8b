/* test_scenario_property.c - what must hold for any scenario: better hardware never makes an
 * operator dearer, order never changes the work, and utilisation is a fraction.
 *
 * Of an operator, not of a step: a step of more work may be shorter only by chance of scheduling,
 * but one operator has no such excuse.
 */
#include "tests/unit/replay/replay_fixture.h"

#include <math.h>

/* ---- better hardware ---- */

enum { OPERATORS = 4000 };
static const double factors[] = { 0.25, 0.5, 0.8, 1, 1.3, 2, 4 };
enum { FACTOR_COUNT = sizeof factors / sizeof factors[0] };

/* What is made faster; "nic" is of the network, the others are keys of the hardware file. */
static const char *const figures[] = { "peak_bf16_TFLOP_per_s", "hbm_GB_per_s", "nvlink_GB_per_s",
                                       "nic" };

static const struct cost_model *scaled_model(struct arena *arena, const char *figure,
                                             double factor) {
    bool nic = strcmp(figure, "nic") == 0;
    struct fixture_scale scale = { figure, factor };
    struct cluster_network network = { .gpus_per_node = 8,
                                       .nic_bytes_per_s_per_gpu = 12.5e9 * (nic ? factor : 1),
                                       .nic_latency_s = 5e-6 };
    struct error err = { 0 };
    const struct cost_model *model = cost_model_create(
        arena, SCENARIOS, fixture_hardware("gpu.json", &scale, nic ? 0 : 1), &network, &err);
    if (model == NULL) fail_msg("%s", err.text);
    return model;
}

static int64_t between(struct random_mt *mt, double least, double most) {
    return llround(least * pow(most / least, random_mt_uniform(mt)));
}

static struct operator_work random_operator(struct random_mt *mt, struct communicator *group) {
    *group = (struct communicator){ 1, 1, 1, 1 };
    enum operator_kind kind = (enum operator_kind)(random_mt_next(mt) % OPERATOR_KIND_COUNT);
    enum operator_pass pass = (enum operator_pass)(random_mt_next(mt) % PASS_UPDATE);
    int64_t length = between(mt, 16, 65536), count = between(mt, 1, 64);
    switch (kind) {
    case OPERATOR_MATMUL:
        return operator_matmul("matmul", pass, PRECISION_BF16, between(mt, 1, 65536),
                               between(mt, 64, 65536), between(mt, 64, 65536));
    case OPERATOR_ATTENTION:
        return operator_attention("attention", pass, PRECISION_BF16, (double)(length * count),
                                  (double)count * (double)length * (double)length, 32, 8,
                                  random_mt_next(mt) % 2 ? 64 : 128, random_mt_next(mt) % 2);
    default:
        break;
    }
    double bytes = (double)between(mt, 1024, 4e9);
    if (!operator_is_collective(kind)) {
        pass = kind == OPERATOR_OPTIMIZER ? PASS_UPDATE : pass;
        return operator_streaming("streaming", kind, pass, PRECISION_BF16, bytes);
    }
    int64_t nodes = (int64_t)1 << random_mt_next(mt) % 5,
            inside = (int64_t)1 << random_mt_next(mt) % 4;
    if (kind == OPERATOR_SEND) {
        nodes = 1 + random_mt_next(mt) % 2;
        inside = 3 - nodes;
    }
    *group = (struct communicator){ .rank_count = nodes * inside,
                                    .node_count = nodes,
                                    .ranks_per_node = inside,
                                    .groups_per_node = nodes > 1 ? 8 / inside : 1 };
    return operator_collective("collective", kind, PASS_FORWARD, COMMUNICATOR_DATA, bytes);
}

static void test_better_hardware_is_never_dearer(void **state) {
    (void)state;
    for (size_t f = 0; f < sizeof figures / sizeof figures[0]; f++) {
        struct arena *arena = arena_create();
        const struct cost_model *models[FACTOR_COUNT];
        for (int k = 0; k < FACTOR_COUNT; k++)
            models[k] = scaled_model(arena, figures[f], factors[k]);
        struct random_mt mt;
        random_mt_seed(&mt, 41);
        int64_t cheaper = 0;
        for (int n = 0; n < OPERATORS; n++) {
            struct communicator group;
            struct operator_work work = random_operator(&mt, &group);
            double before = INFINITY, first = 0;
            for (int k = 0; k < FACTOR_COUNT; k++) {
                double seconds = cost_model_price(models[k], &work, &group).seconds;
                if (seconds > before * (1 + 1e-12))
                    fail_msg("%s x %g: %s, m %ld n %ld k %ld, %ld ranks on %ld nodes, %.0f bytes: "
                             "%.9g s after %.9g s",
                             figures[f], factors[k], operator_kind_name(work.kind), (long)work.m,
                             (long)work.n, (long)work.k, (long)group.rank_count,
                             (long)group.node_count, work.network_bytes + work.memory_bytes,
                             seconds, before);
                if (k == 0) first = seconds;
                before = seconds;
            }
            cheaper += before < first * 0.999;
        }
        print_message("%s: %ld of %d operators get cheaper\n", figures[f], (long)cheaper,
                      OPERATORS);
        /* One node's collectives are measured tables, which no link figure of the file scales. */
        if (strcmp(figures[f], "nvlink_GB_per_s") != 0) assert_true(cheaper > OPERATORS / 20);
        arena_destroy(arena);
    }
}

/* ---- order ---- */

static void test_order_does_not_change_the_work(void **state) {
    (void)state;
    fixture_samples("samples.csv", 96, 43);
    static const char *const setups[][3] = {
        { NULL },
        { "layout.backend=megatron-lm", "policy.schedule=gpipe", NULL },
        { "layout.pp=4", "layout.tp=1", NULL },
    };
    struct random_mt mt;
    random_mt_seed(&mt, 44);
    for (size_t k = 0; k < sizeof setups / sizeof setups[0]; k++) {
        struct scenario *s = fixture_scenario("samples.csv", setups[k]);
        struct job *job = fixture_job(s);
        struct step_runner *runner = step_runner_create(job->step);
        enum { COUNT = 16 };
        struct batch_shape shapes[COUNT];
        memcpy(shapes, job->shapes, sizeof shapes);
        struct rank_outcome outcome;
        int64_t busy[8], recompute[8], shortest = INT64_MAX, longest = 0;
        double flop = 0, work = 0;
        for (int round = 0; round < 40; round++) {
            assert_true(step_run_rank(runner, FIDELITY_STAGE, shapes, COUNT, &outcome, NULL));
            double sum = 0;
            for (int class = 0; class < TIME_CLASS_COUNT; class ++)
                sum += outcome.class_ns[class];
            for (int64_t stage = 0; stage < job->step->stage_count; stage++) {
                if (round == 0) {
                    busy[stage] = outcome.busy_ns[stage];
                    recompute[stage] = outcome.recompute_ns[stage];
                }
                assert_int_equal(outcome.busy_ns[stage], busy[stage]);
                assert_int_equal(outcome.recompute_ns[stage], recompute[stage]);
                assert_true(outcome.makespan_ns >= busy[stage]);
            }
            if (round == 0) {
                flop = outcome.model_flop;
                work = sum;
            }
            assert_true(fabs(outcome.model_flop / flop - 1) < 1e-12);
            assert_true(fabs(sum / work - 1) < 1e-12);
            if (outcome.makespan_ns < shortest) shortest = outcome.makespan_ns;
            if (outcome.makespan_ns > longest) longest = outcome.makespan_ns;
            for (uint32_t i = COUNT - 1; i > 0; i--) {
                uint32_t j = random_mt_next(&mt) % (i + 1);
                struct batch_shape shape = shapes[i];
                shapes[i] = shapes[j];
                shapes[j] = shape;
            }
        }
        assert_true(longest > shortest); /* the length of the step does depend on it */
        step_runner_destroy(runner);
        job_destroy(job);
        scenario_destroy(s);
    }
}

/* ---- utilisation ---- */

static void test_utilisation_is_a_fraction(void **state) {
    (void)state;
    fixture_samples("samples.csv", 64, 45);
    static const char *const models[] = { "internvl-6b-8b", "llava-1.6-7b", "llama3-8b", "vlm-s" };
    static const char *const hardware[] = { "a100-80g-sxm", "h100-80g-sxm", "h20-96g",
                                            "b200-180g-sxm" };
    static const char *const recompute[] = { "none", "full" };
    struct random_mt mt;
    random_mt_seed(&mt, 46);
    double most = 0;
    for (int round = 0; round < 60; round++) {
        char texts[5][96];
        int tp_log2 = (int)(random_mt_next(&mt) % 3);
        const char *recompute_name = recompute[random_mt_next(&mt) % 2];
        snprintf(texts[0], sizeof texts[0], "model=%s", models[random_mt_next(&mt) % 4]);
        snprintf(texts[1], sizeof texts[1], "cluster.hardware=%s",
                 hardware[random_mt_next(&mt) % 4]);
        snprintf(texts[2], sizeof texts[2], "layout.tp=%d", 1 << tp_log2);
        snprintf(texts[3], sizeof texts[3], "layout.pp=%d",
                 1 << random_mt_next(&mt) % (4 - (unsigned)tp_log2));
        snprintf(texts[4], sizeof texts[4], "policy.recompute=%s", recompute_name);
        const char *overrides[] = { texts[0], texts[1], texts[2], texts[3], texts[4], NULL };
        struct scenario *s = fixture_scenario("samples.csv", overrides);
        struct job *job = fixture_job(s);
        struct replay *r = fixture_replay(job, FIDELITY_STAGE, 1);
        bool again = strcmp(recompute_name, "full") == 0;
        if (!(r->mfu_fraction > 0 && r->hfu_fraction <= 1 &&
              (again ? r->mfu_fraction < r->hfu_fraction : r->mfu_fraction == r->hfu_fraction)))
            fail_msg("%s %s %s %s %s: MFU %g, HFU %g", texts[0], texts[1], texts[2], texts[3],
                     texts[4], r->mfu_fraction, r->hfu_fraction);
        most = fmax(most, r->hfu_fraction);
        replay_destroy(r);
        job_destroy(job);
        scenario_destroy(s);
    }
    assert_true(most > 0.2); /* some of them do work */
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_better_hardware_is_never_dearer),
        cmocka_unit_test(test_order_does_not_change_the_work),
        cmocka_unit_test(test_utilisation_is_a_fraction),
    };
    return cmocka_run_group_tests(tests, fixture_begin, fixture_end);
}
