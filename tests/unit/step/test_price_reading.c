/* test_price_reading.c - what a layer waits for the host that launches its kernels. */
#include "tests/unit/step/step_fixture.h"

/* What the device takes for the head, for each of the blocks that the host launches meanwhile. */
static int64_t head_share_ns(const struct step_fixture *f, const struct batch_shape *shape) {
    struct layer_time head;
    price_table_layer(f->prices, LAYER_HEAD, shape, &head);
    assert_true(head.forward_ns > 0 && head.backward_ns > 0);
    return (head.forward_ns + head.backward_ns) /
           f->scenario->model->modules[MODULE_LANGUAGE].layer_count;
}

/* With a pipeline the host waits for the device at each message, so that no pass is shorter than
 * its own launches; alone it launches the backward while the forward and the head run.
 * Megatron-core, 2 ms each. */
static void test_host_launches_ahead_within_a_pass(void **state) {
    (void)state;
    static const char *const layouts[][5] = {
        { "model=llama3-8b", "layout.tp=4", "layout.pp=1", "layout.stack=megatron-core", NULL },
        { "model=llama3-8b", "layout.tp=4", "layout.pp=2", "layout.stack=megatron-core", NULL },
    };
    struct layer_time times[2], devices;
    int64_t heads[2];
    for (int k = 0; k < 2; k++) {
        struct step_fixture f;
        fixture_open(&f, layouts[k]);
        struct batch_shape shape = model_batch_shape(f.scenario->model, 1, 0, 256, 256.0 * 256);
        price_table_prepare(f.prices, &shape, 1);
        price_table_layer(f.prices, LAYER_LANGUAGE_BLOCK, &shape, &times[k]);
        struct host_waits waits;
        price_table_host_waits(f.prices, LAYER_LANGUAGE_BLOCK, &shape, &waits);
        heads[k] = head_share_ns(&f, &shape);
        devices.forward_ns = times[k].forward_ns - waits.forward_ns;
        devices.backward_ns = times[k].backward_ns - waits.backward_ns;
        fixture_close(&f);
    }
    assert_true(devices.forward_ns < 2000000 && devices.backward_ns < 2000000);
    assert_int_equal(times[0].forward_ns, devices.forward_ns);
    assert_int_equal(times[0].forward_ns + times[0].backward_ns, 4000000 - heads[0]);
    assert_int_equal(times[1].forward_ns, 2000000);
    assert_int_equal(times[1].backward_ns, 2000000);
}

/* A backward without weight gradients launches less; three adapters launch 4 kernels of 25 us each
 * forward, and 6 of half of that backward. */
static void test_launches_of_frozen_blocks(void **state) {
    (void)state;
    static const char *const setups_of[][6] = {
        { "model=llama3-8b", "layout.tp=1", "layout.pp=1", "layout.stack=megatron-core", NULL },
        { "model=llama3-8b", "layout.tp=1", "layout.pp=1", "layout.stack=megatron-core",
          "model.lora={\"rank\":8,\"targets\":[\"q_proj\",\"v_proj\",\"down_proj\"]}", NULL },
    };
    static const int64_t expected_ns[] = { 4000000,
                                           4000000 - 574000 + 3 * (4 * 25000 + 6 * 12500) };
    for (int k = 0; k < 2; k++) {
        struct step_fixture f;
        fixture_open(&f, setups_of[k]);
        struct batch_shape shape = model_batch_shape(f.scenario->model, 1, 0, 64, 64.0 * 64.0);
        price_table_prepare(f.prices, &shape, 1);
        struct layer_time time;
        price_table_layer(f.prices, LAYER_LANGUAGE_BLOCK, &shape, &time);
        assert_int_equal(time.forward_ns + time.backward_ns,
                         expected_ns[k] - head_share_ns(&f, &shape));
        fixture_close(&f);
    }
}

/* hf-deepspeed needs 1.2 ms to launch a pass, and 2.6 ms more on ZeRO-3: no block's passes together
 * are shorter, and where the device has more to do nothing is waited for. */
static void test_launches_of_the_host(void **state) {
    (void)state;
    static const char *const setup[] = { "model=llama3-8b", "layout.backend=deepspeed",
                                         "layout.stack=hf-deepspeed", "layout.zero_stage=3", NULL };
    enum { PASS_NS = 3800000 };
    struct step_fixture f;
    fixture_open(&f, setup);
    const struct batch_shape shapes[] = {
        model_batch_shape(f.scenario->model, 1, 0, 64, 64.0 * 64.0),
        model_batch_shape(f.scenario->model, 1, 0, 32768, 32768.0 * 32768.0),
    };
    price_table_prepare(f.prices, shapes, 2);
    struct layer_time time;
    struct host_waits waits;
    price_table_layer(f.prices, LAYER_LANGUAGE_BLOCK, &shapes[0], &time);
    price_table_host_waits(f.prices, LAYER_LANGUAGE_BLOCK, &shapes[0], &waits);
    assert_int_equal(time.forward_ns + time.backward_ns,
                     2 * PASS_NS - head_share_ns(&f, &shapes[0]));
    assert_int_equal(time.recompute_ns[RECOMPUTE_FULL], PASS_NS);
    assert_int_equal(waits.forward_ns, 0);
    assert_true(waits.backward_ns > 0 && waits.backward_ns < time.backward_ns);
    assert_int_equal(time.backward_wait_ns, waits.backward_ns);
    assert_int_equal(time.recompute_wait_ns[RECOMPUTE_FULL], waits.recompute_ns[RECOMPUTE_FULL]);
    price_table_host_waits(f.prices, LAYER_HEAD, &shapes[0], &waits);
    assert_int_equal(waits.backward_ns, 0);
    price_table_host_waits(f.prices, LAYER_LANGUAGE_BLOCK, &shapes[1], &waits);
    assert_int_equal(waits.backward_ns + waits.recompute_ns[RECOMPUTE_FULL], 0);
    fixture_close(&f);
}

/* BLOOM's jobs of 160 GPUs and more wait for each kernel, so that the host's 1.2 ms a pass come on
 * top of the device's time; on fewer it launches ahead. */
static void test_blocking_launches(void **state) {
    (void)state;
    static const char *const jobs[][8] = {
        { "model=llama3-8b", "layout.tp=8", "cluster.hardware=a100-80g-sxm",
          "cluster.gpu_count=128", "layout.backend=megatron-deepspeed",
          "layout.stack=megatron-deepspeed-bloom", "policy.recompute=full", NULL },
        { "model=llama3-8b", "layout.tp=8", "cluster.hardware=a100-80g-sxm",
          "cluster.gpu_count=256", "layout.backend=megatron-deepspeed",
          "layout.stack=megatron-deepspeed-bloom", "policy.recompute=full", NULL },
    };
    enum { PASS_NS = 1200000 };
    for (int k = 0; k < 2; k++) {
        struct step_fixture f;
        fixture_open(&f, jobs[k]);
        struct batch_shape shape = model_batch_shape(f.scenario->model, 1, 0, 8192, 8192.0 * 8192);
        price_table_prepare(f.prices, &shape, 1);
        struct host_waits waits;
        price_table_host_waits(f.prices, LAYER_LANGUAGE_BLOCK, &shape, &waits);
        assert_int_equal(waits.forward_ns, k * PASS_NS);
        assert_int_equal(waits.backward_ns, k * PASS_NS);
        assert_int_equal(waits.recompute_ns[RECOMPUTE_FULL], k * PASS_NS);
        fixture_close(&f);
    }
}

/* PaddleFleet's recomputation of a whole block takes the host 1.7 ms beside the forward's 1.45 that
 * it launches again; the passes themselves take 2.9, less what the host is ahead by from the head. */
static void test_recompute_launches(void **state) {
    (void)state;
    static const char *const job[] = { "model=llama3-8b",
                                       "layout.tp=8",
                                       "cluster.hardware=h800-80g-sxm",
                                       "cluster.gpu_count=8",
                                       "layout.backend=megatron-lm",
                                       "layout.stack=paddleformers-2026",
                                       "policy.recompute=full",
                                       NULL };
    struct step_fixture f;
    fixture_open(&f, job);
    struct batch_shape shape = model_batch_shape(f.scenario->model, 1, 0, 256, 256.0 * 256);
    price_table_prepare(f.prices, &shape, 1);
    struct layer_time time;
    price_table_layer(f.prices, LAYER_LANGUAGE_BLOCK, &shape, &time);
    assert_in_range(time.forward_ns + time.backward_ns, 2800000, 2900000);
    assert_int_equal(time.recompute_ns[RECOMPUTE_FULL], 1450000 + 1700000);
    fixture_close(&f);
}

/* Where nothing below a frozen encoder is trained it has no backward, and so nothing to run
 * again. */
static void test_blocking_launches_of_frozen_blocks(void **state) {
    (void)state;
    static const char *const setup[] = {
        "model={\"name\":\"internvl-6b-8b\",\"frozen\":[\"vision\"]}",
        "layout.tp=8",
        "cluster.gpu_count=256",
        "layout.backend=megatron-deepspeed",
        "layout.stack=megatron-deepspeed-bloom",
        "policy.recompute=full",
        NULL
    };
    struct step_fixture f;
    fixture_open(&f, setup);
    struct batch_shape shape = model_batch_shape(f.scenario->model, 1, 4, 4096, 4096.0 * 4096.0);
    price_table_prepare(f.prices, &shape, 1);
    struct layer_time time;
    price_table_layer(f.prices, LAYER_VISION_BLOCK, &shape, &time);
    assert_true(time.forward_ns > 1200000);
    assert_int_equal(time.backward_ns, 0);
    assert_int_equal(time.recompute_ns[RECOMPUTE_FULL], 0);
    fixture_close(&f);
}

/* The head's lead is that of the whole model's table: in a table that borrows and has shapes of its
 * own, and in that of a block which a rule names. */
static void test_lead_of_other_tables(void **state) {
    (void)state;
    static const char *const setup[] = { "model=llama3-8b", "layout.tp=8",
                                         "layout.stack=megatron-core", NULL };
    static const char *const ruled[] = {
        "model=llama3-8b", "layout.tp=8", "layout.stack=megatron-core",
        "rules=[{\"operator\":\"matmul\",\"module\":\"language\",\"layers\":0,\"factor\":1}]", NULL
    };
    struct step_fixture f, g;
    fixture_open(&f, setup);
    fixture_open(&g, ruled);
    struct batch_shape shapes[2];
    for (int i = 0; i < 2; i++)
        shapes[i] =
            model_batch_shape(f.scenario->model, 1, 0, 512 << i, 512.0 * 512 * (1 << 2 * i));
    price_table_prepare(f.prices, &shapes[0], 1);
    price_table_prepare(g.prices, shapes, 2);
    struct arena *arena = arena_create();
    struct price_table *other = price_table_borrow(arena, f.scenario, f.prices);
    price_table_prepare(other, shapes, 2);
    int64_t first = 0;
    while (g.scenario->model->layers[first].kind != LAYER_LANGUAGE_BLOCK)
        first++;
    for (int i = 0; i < 2; i++) {
        struct layer_time borrowed, named, whole;
        struct host_waits waits;
        price_table_host_waits(other, LAYER_LANGUAGE_BLOCK, &shapes[i], &waits);
        assert_true(waits.backward_ns > 0);
        price_table_layer(other, LAYER_LANGUAGE_BLOCK, &shapes[i], &borrowed);
        price_table_layer(g.prices, LAYER_LANGUAGE_BLOCK, &shapes[i], &whole);
        price_table_layer(price_table_of_layer(g.prices, first), LAYER_LANGUAGE_BLOCK, &shapes[i],
                          &named);
        assert_memory_equal(&borrowed, &whole, offsetof(struct layer_time, send_ns));
        assert_memory_equal(&named, &whole, offsetof(struct layer_time, send_ns));
    }
    price_table_destroy(other);
    arena_destroy(arena);
    fixture_close(&g);
    fixture_close(&f);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_host_launches_ahead_within_a_pass),
        cmocka_unit_test(test_launches_of_frozen_blocks),
        cmocka_unit_test(test_launches_of_the_host),
        cmocka_unit_test(test_recompute_launches),
        cmocka_unit_test(test_blocking_launches),
        cmocka_unit_test(test_blocking_launches_of_frozen_blocks),
        cmocka_unit_test(test_lead_of_other_tables),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
