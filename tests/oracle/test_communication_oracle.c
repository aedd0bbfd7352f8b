/* test_communication_oracle.c - what the cuts of a partition send, against the differences that
 * OmniBal prints.
 *
 * OmniBal (arXiv 2407.20761), Table 4: communication of a partition of InternVL-Chat-6B-20B over
 * four stages, less that of the parameter-based one, for a micro-batch of 9 tiles and 4096 tokens:
 * +8.2 MiB with one cut inside the encoder, +16.6 with two, -21.0 with one at its end. BMP's own
 * partition, [22, 23, 24, 24] in its Table 8, has a cut inside the encoder and one at its end,
 * which gives -12.7: the two tables do not speak of the same partition.
 *
 * The paper counts a tile as 1024 patches in one row (8.25 MiB) and with the class token as 1025 in
 * the next (16.61 MiB); here it always has 1025, hence 8.30, so figures agree within 0.11.
 */
#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>
#include "sim/base/units.h"
#include "sim/policy/partition/partition.h"
#include "sim/step/step.h"

enum { STAGES = 4 };

/* Transformer blocks by stage: 45 of the encoder, then 48 of the language model. */
static const struct {
    const char *name;
    int64_t blocks[STAGES];
    double want_MiB;
} partitions[] = {
    { "no cut in the encoder", { 57, 12, 12, 12 }, 0 },
    { "one cut in the encoder", { 30, 35, 14, 14 }, 8.2 },
    { "two cuts in the encoder", { 20, 20, 30, 23 }, 16.6 },
    { "a cut at its end", { 45, 16, 16, 16 }, -21.0 },
    { "BMP as Table 8 lists it", { 22, 23, 24, 24 }, -12.7 },
};

static double sent_MiB(const struct model *model, const struct batch_shape *shape,
                       const int64_t *blocks) {
    int64_t first_layer[STAGES + 1];
    struct job_plan plan = {
        .stage_count = STAGES, .chunk_count = 1, .part_count = STAGES, .first_layer = first_layer
    };
    partition_apply(model, blocks, &plan);
    double bytes = 0;
    for (int stage = 0; stage + 1 < STAGES; stage++)
        bytes += layer_output_bytes(model, first_layer[stage + 1] - 1, shape);
    return bytes / BYTES_PER_MiB;
}

static void test_published_differences(void **state) {
    (void)state;
    struct arena *arena = arena_create();
    struct error err = { 0 };
    const struct model *model =
        model_load(arena, BALLAST_SOURCE_DIR "/scenarios", "internvl-6b-20b", &err);
    if (model == NULL) fail_msg("%s", err.text);
    struct batch_shape shape = model_batch_shape(model, 1, 9, 4096, 4096.0 * 4096.0);
    double reference = sent_MiB(model, &shape, partitions[0].blocks);
    assert_true(fabs(reference - 3 * 48) < 1e-9); /* 4096 x 6144 x 2 bytes, three times */
    for (size_t k = 0; k < sizeof partitions / sizeof partitions[0]; k++) {
        double got = sent_MiB(model, &shape, partitions[k].blocks) - reference;
        if (fabs(got - partitions[k].want_MiB) > 0.11)
            fail_msg("%s: got %+.2f MiB, want %+.1f", partitions[k].name, got,
                     partitions[k].want_MiB);
    }
    arena_destroy(arena);
}

/* The step model sends what the cut says: the time of each send is that of its bytes. */
static void test_sends_carry_these_bytes(void **state) {
    (void)state;
    static const char *const overrides[] = { "policy.partition={\"name\":\"manual\",\"blocks\":[22,"
                                             "23,24,24]}",
                                             NULL };
    struct scenario_options options = { .directory = BALLAST_SOURCE_DIR "/scenarios",
                                        .overrides = overrides };
    struct error err = { 0 };
    struct scenario *s = scenario_load(
        &options, BALLAST_SOURCE_DIR "/scenarios/examples/internvl-6b-20b-isf.json", &err);
    if (s == NULL) fail_msg("%s", err.text);
    struct arena *arena = arena_create();
    struct price_table *prices = price_table_create(arena, s);
    struct batch_shape shape = model_batch_shape(s->model, 1, 9, 4096, 4096.0 * 4096.0);
    price_table_prepare(prices, &shape, 1);
    struct job_plan plan = { .stage_count = STAGES,
                             .chunk_count = 1,
                             .part_count = STAGES,
                             .first_layer = arena_array(arena, int64_t, STAGES + 1),
                             .recompute =
                                 arena_array(arena, enum recompute_kind, s->model->layer_count),
                             .schedule = schedule_policy_find("1f1b") };
    partition_apply(s->model, partitions[4].blocks, &plan);
    struct step_model *step = step_model_create(arena, s, &plan, prices);
    struct layer_time times[LAYER_KIND_COUNT];
    step_layer_times(step, &shape, times);
    /* Cuts inside the encoder, at its end and in the language model; half on each of two TP
     * ranks. */
    static const double want_MiB[] = { 9 * 1025 * 3200 * 2 / BYTES_PER_MiB, 27, 48 };
    for (int64_t stage = 0; stage + 1 < STAGES; stage++) {
        struct stage_cost cost, next;
        step_stage_cost(step, stage, &shape, times, NULL, &cost);
        step_stage_cost(step, stage + 1, &shape, times, NULL, &next);
        struct operator_work send =
            operator_collective("test", OPERATOR_SEND, PASS_FORWARD, COMMUNICATOR_PIPELINE,
                                want_MiB[stage] * BYTES_PER_MiB / 2);
        struct communicator link = layout_stage_link(&s->layout, stage);
        int64_t want_ns = ns_from_seconds(cost_model_price(s->cost_model, &send, &link).seconds);
        assert_int_equal(cost.send_forward_ns, want_ns);
        assert_int_equal(next.send_backward_ns, want_ns);
    }
    price_table_destroy(prices);
    arena_destroy(arena);
    scenario_destroy(s);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_published_differences),
        cmocka_unit_test(test_sends_carry_these_bytes),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
