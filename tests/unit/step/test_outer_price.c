/* test_outer_price.c - what the host takes for lists of shards, and parameters that come owner by
 * owner. */
#include "tests/unit/step/step_fixture.h"

#include <math.h>
#include "sim/step/outer_price.h"

/* A list of shards costs the host a fixed time for each rank, in every gather and reduction. */
static void test_shard_lists(void **state) {
    (void)state;
    struct step_fixture f;
    fixture_open_planned(&f, fully_sharded);
    struct backend backend = *f.scenario->backend;
    f.scenario->backend = &backend;
    int64_t block = 0;
    while (!layer_kind_is_block(f.scenario->model->layers[block].kind))
        block++;
    f.plan.recompute[block] = RECOMPUTE_NONE;
    f.step = step_model_create(f.arena, f.scenario, &f.plan, f.prices);
    const int64_t update_ns = f.step->update_ns;
    assert_int_equal(outer_block_lists(f.step, block).forward_ns, 0);
    backend.step.shard_list_s = 10e-6;
    f.step = step_model_create(f.arena, f.scenario, &f.plan, f.prices);
    /* Five matrices and two norms without a shift, among eight ranks. */
    struct outer_lists lists = outer_block_lists(f.step, block);
    assert_int_equal(lists.forward_ns, 5 * 8 * 10000);
    assert_int_equal(lists.backward_ns, 5 * 8 * 10000);
    assert_int_equal(lists.reduce_ns, 7 * 8 * 10000);
    assert_int_equal(lists.update_ns, 2 * 8 * 10000);
    assert_int_equal(f.step->update_ns - update_ns, f.step->unit_count * lists.update_ns);
    f.plan.recompute[block] = RECOMPUTE_FULL;
    assert_int_equal(outer_block_lists(f.step, block).backward_ns, 9 * 8 * 10000);
    fixture_close(&f);
}

/* What the host takes for a step stands in each stage's update, once a step. */
static void test_host_step(void **state) {
    (void)state;
    struct step_fixture f;
    fixture_open_planned(&f, fully_sharded);
    struct backend backend = *f.scenario->backend;
    f.scenario->backend = &backend;
    const struct step_model *without = step_model_create(f.arena, f.scenario, &f.plan, f.prices);
    backend.step.host_step_s = 0.012;
    const struct step_model *with = step_model_create(f.arena, f.scenario, &f.plan, f.prices);
    assert_int_equal(with->optimizer_ns[0] - without->optimizer_ns[0], 12000000);
    assert_int_equal(with->update_ns - without->update_ns, 12000000);
    fixture_close(&f);
}

/* Owner by owner the parameters cross once too, and no more owners begin than there are tensors. */
static void test_owner_broadcasts(void **state) {
    (void)state;
    static const char *const sizes[] = { "cluster.gpu_count=16", "cluster.gpu_count=128",
                                         "cluster.gpu_count=1024", "cluster.gpu_count=2048" };
    static const char *const batches[] = { "training.global_batch.micro_batches=16",
                                           "training.global_batch.micro_batches=128",
                                           "training.global_batch.micro_batches=1024",
                                           "training.global_batch.micro_batches=2048" };
    double start_ns[4];
    for (int i = 0; i < 4; i++) {
        const char *const setup[] = { "model=internlm2-20b",
                                      "layout.tp=1",
                                      "layout.pp=1",
                                      "layout.zero_stage=1",
                                      sizes[i],
                                      batches[i],
                                      NULL };
        struct step_fixture f;
        fixture_open_planned(&f, setup);
        f.step = step_model_create(f.arena, f.scenario, &f.plan, f.prices);
        const int64_t together_ns = f.step->gather_ns[0];
        struct backend backend = *f.scenario->backend;
        backend.step.owner_broadcasts = true;
        f.scenario->backend = &backend;
        f.step = step_model_create(f.arena, f.scenario, &f.plan, f.prices);
        start_ns[i] = (double)(f.step->gather_ns[0] - together_ns);
        assert_true(start_ns[i] > 0);
        fixture_close(&f);
    }
    /* 48 blocks of 7 tensors and three more: all of 16 or 128 ranks own some, then 339 do. A ring's
     * start grows with its ranks. */
    const double rings = start_ns[1] / 128 / (start_ns[0] / 16);
    assert_true(rings > 4 && rings < 8);
    assert_true(fabs(start_ns[3] / start_ns[2] - 2) < 0.02);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_shard_lists),
        cmocka_unit_test(test_host_step),
        cmocka_unit_test(test_owner_broadcasts),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
