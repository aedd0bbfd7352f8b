/* test_step_model.c - layer counts and FLOPs of stages, sharding and synchronisation, against sums
 * over layers and hand-computed figures. */
#include "tests/unit/step/step_fixture.h"

#include <math.h>
#include "sim/base/units.h"
#include "sim/step/outer_operators.h"

static void test_hand_computed_stages(void **state) {
    (void)state;
    struct step_fixture f;
    fixture_open(&f, language_setup);
    fixture_halves(&f);
    const struct step_model *m = f.step;
    const int64_t *first = &m->layers[0], *second = &m->layers[LAYER_KIND_COUNT];
    assert_int_equal(first[LAYER_TOKEN_EMBEDDING], 1);
    assert_int_equal(first[LAYER_LANGUAGE_BLOCK], 24);
    assert_int_equal(first[LAYER_HEAD], 0);
    assert_int_equal(second[LAYER_LANGUAGE_BLOCK], 24);
    assert_int_equal(second[LAYER_HEAD], 1);
    const int64_t *again = &m->recomputing[LAYER_LANGUAGE_BLOCK * RECOMPUTE_KIND_COUNT];
    assert_int_equal(again[RECOMPUTE_FULL], 10);
    assert_int_equal(again[RECOMPUTE_NONE], 14);
    again += LAYER_KIND_COUNT * RECOMPUTE_KIND_COUNT;
    assert_int_equal(again[RECOMPUTE_FULL], 0);
    assert_int_equal(again[RECOMPUTE_NONE], 24);
    assert_int_equal(m->last_kind[0], LAYER_LANGUAGE_BLOCK);
    const double parameters[] = { 24 * BLOCK + EMBEDDING, 24 * BLOCK + HEAD };
    for (int64_t stage = 0; stage < 2; stage++) {
        assert_int_equal(m->rank_parameters[stage], (int64_t)parameters[stage]);
        check_bytes(m, stage, MEMORY_WEIGHTS, 2 * parameters[stage]);
        check_bytes(m, stage, MEMORY_GRADIENTS, 4 * parameters[stage]);
        check_bytes(m, stage, MEMORY_OPTIMIZER, 12 * parameters[stage] / 2);
        check_bytes(m, stage, MEMORY_ACTIVATIONS, 0);
        check_bytes(m, stage, MEMORY_WORKSPACE, 0);
        /* TP and DP, and two pipeline neighbours of 24 x 2 x 4 MiB. */
        check_bytes(m, stage, MEMORY_COMMUNICATION, (2 * 688.0 + 2 * 192) * 1048576);
        check_bytes(m, stage, MEMORY_CONTEXT, 1.35 * 1073741824);
    }
    fixture_close(&f);
}

/* FSDP, in backward: the whole gradient of a block in bf16 and one more in the reduction's fp32. */
static void test_unit_gradients(void **state) {
    (void)state;
    struct step_fixture f;
    fixture_open_planned(&f, fully_sharded);
    const struct model *model = f.scenario->model;
    for (int64_t i = 0; i < model->layer_count; i++)
        f.plan.recompute[i] = RECOMPUTE_NONE;
    f.step = step_model_create(f.arena, f.scenario, &f.plan, f.prices);
    /* So few tokens that no head is larger. */
    const struct batch_shape shape = model_batch_shape(model, 1, 0, 64, 64.0 * 64.0);
    price_table_prepare(f.prices, &shape, 1);
    struct layer_time times[LAYER_KIND_COUNT];
    struct stage_cost cost;
    step_layer_times(f.step, &shape, times);
    step_stage_cost(f.step, 0, &shape, times, NULL, &cost);
    /* What the head kept is gone by then. */
    const double want = price_table_workspace_bytes(f.prices, LAYER_LANGUAGE_BLOCK, &shape) +
                        (2 + 4) * (double)layer_rank_parameters(model, 1, 1) - cost.loss_bytes;
    assert_true(cost.loss_bytes > 0);
    if (fabs(cost.workspace_bytes - want) > 1)
        fail_msg("got %.0f bytes, want %.0f", cost.workspace_bytes, want);
    fixture_close(&f);
}

static int64_t update_price_ns(const struct step_fixture *f, enum operator_kind kind,
                               double bytes) {
    struct operator_work work =
        operator_streaming("test", kind, PASS_UPDATE, PRECISION_FP32, bytes);
    return ns_from_seconds(cost_model_price(f->scenario->cost_model, &work, NULL).seconds);
}

/* no_sync: between micro-batches the whole gradient stays, and the network has nothing but
 * gathers. */
static void test_reduces_once(void **state) {
    (void)state;
    struct step_fixture f;
    fixture_open_planned(&f, fully_sharded);
    struct backend backend = *f.scenario->backend;
    f.scenario->backend = &backend;
    const struct batch_shape shape =
        model_batch_shape(f.scenario->model, 1, 0, 4096, 4096.0 * 4096.0);
    price_table_prepare(f.prices, &shape, 1);
    struct stage_cost cost[2];
    struct layer_time times[LAYER_KIND_COUNT];
    int64_t exposed_ns = 0, added_ns = 0;
    double parameters = 0;
    for (int once = 0; once < 2; once++) {
        backend.step.reduces_once = once == 1;
        f.step = step_model_create(f.arena, f.scenario, &f.plan, f.prices);
        parameters = (double)f.step->trainable_rank_parameters[0];
        check_bytes(f.step, 0, MEMORY_GRADIENTS, 4 * parameters / (once ? 1 : 8));
        step_layer_times(f.step, &shape, times);
        step_stage_cost(f.step, 0, &shape, times, NULL, &cost[once]);
        exposed_ns = step_exposed_reduce_ns(f.step, 0, cost[once].backward_ns);
        added_ns = f.step->accumulate_ns[0];
        if (!once) assert_int_equal(exposed_ns, 0);
        if (!once) assert_int_equal(added_ns, 0);
    }
    assert_true(cost[1].backward_ns - added_ns < cost[0].backward_ns);
    /* Each micro-batch but the first reads its bf16 gradient and adds to one of fp32. */
    const double count = (double)f.scenario->micro_batches_per_rank,
                 bytes = 10 * parameters * (count - 1) / count;
    assert_int_equal(added_ns, update_price_ns(&f, OPERATOR_ELEMENTWISE, bytes));
    assert_int_equal(cost[1].forward_ns, cost[0].forward_ns);
    /* The last one pays what each paid, or more if all of them could hide less. */
    assert_true(cost[1].backward_ns + exposed_ns >= cost[0].backward_ns * 99 / 100);
    assert_true(exposed_ns > 0);
    f.scenario->micro_batches_per_rank = 1;
    f.step = step_model_create(f.arena, f.scenario, &f.plan, f.prices);
    check_bytes(f.step, 0, MEMORY_GRADIENTS, 4 * parameters / 8);
    fixture_close(&f);
}

/* fp32 gradients are read, added and reduced as they are, where a recipe of bf16 reduces 2
 * bytes. */
static void test_fp32_gradients(void **state) {
    (void)state;
    static const struct {
        const char *precision;
        double reduced_bytes, added_bytes;
    } cases[] = { { "training.precision=bf16", 2, 6 },
                  { "training.precision=fp32", 4, 12 },
                  { "training.precision=tf32", 4, 12 } };
    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
        const char *const setup[] = { "model=llama3-8b",   "layout.backend=deepspeed",
                                      "layout.stack=none", "layout.zero_stage=1",
                                      cases[i].precision,  NULL };
        struct step_fixture f;
        fixture_open_planned(&f, setup);
        f.step = step_model_create(f.arena, f.scenario, &f.plan, f.prices);
        assert_true(f.scenario->backend->gradient_reduce_bytes == cases[i].reduced_bytes);
        const double count = (double)f.scenario->micro_batches_per_rank,
                     bytes = cases[i].added_bytes * (double)f.step->trainable_rank_parameters[0] *
                             (count - 1) / count;
        assert_int_equal(f.step->accumulate_ns[0],
                         update_price_ns(&f, OPERATOR_ELEMENTWISE, bytes));
        fixture_close(&f);
    }
}

static int64_t collective_price_ns(const struct step_fixture *f, enum operator_kind kind,
                                   double bytes) {
    struct operator_work work =
        operator_collective("test", kind, PASS_UPDATE, COMMUNICATOR_DATA, bytes);
    struct communicator group = layout_communicator(&f->scenario->layout, COMMUNICATOR_DATA);
    return ns_from_seconds(cost_model_price(f->scenario->cost_model, &work, &group).seconds);
}

/* Beside a pipeline FSDP has shares beside the weights that it gathered, but where they are the
 * optimizer's fp32 copy; it gathers what is frozen as well; and the first gradient is cast, not
 * added, where the reduction is in another precision. */
static void test_gathered_once(void **state) {
    (void)state;
    static const struct {
        const char *stack, *frozen, *precision;
        double first_bytes, added_bytes;
    } cases[] = {
        { "layout.stack=none", "model.frozen=[]", "training.precision=bf16", 6, 10 },
        { "layout.stack=none", "model.frozen=[\"vision\"]", "training.precision=bf16", 6, 10 },
        { "layout.stack=none", "model.frozen=[]", "training.precision=fp32", 0, 12 },
        { "layout.stack=litgpt", "model.frozen=[]", "training.precision=bf16", 0, 6 },
        { "layout.stack=litgpt", "model.frozen=[\"vision\"]", "training.precision=bf16", 0, 6 },
    };
    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
        const char *const setup[] = { "layout.backend=fsdp", "layout.zero_stage=3",
                                      "layout.tp=2",         "layout.pp=2",
                                      cases[i].stack,        cases[i].frozen,
                                      cases[i].precision,    NULL };
        struct step_fixture f;
        fixture_open_planned(&f, setup);
        f.step = step_model_create(f.arena, f.scenario, &f.plan, f.prices);
        const struct step_model *m = f.step;
        const double shares = (double)f.scenario->layout.zero_group,
                     count = (double)f.scenario->micro_batches_per_rank;
        assert_true(shares > 1 && count > 1);
        for (int64_t stage = 0; stage < 2; stage++) {
            const double all = m->weight_bytes[stage], trained = m->trainable_weight_bytes[stage];
            const double held = f.scenario->backend->no_master_weights ? all : all - trained;
            check_bytes(m, stage, MEMORY_WEIGHTS, all + held / shares);
            check_bytes(m, stage, MEMORY_OPTIMIZER,
                        f.scenario->optimizer->state_bytes *
                            (double)m->trainable_rank_parameters[stage] / shares);
            assert_true(m->gathered_weight_bytes[stage] == all);
            assert_int_equal(m->gather_ns[stage],
                             collective_price_ns(&f, OPERATOR_ALL_GATHER, all));
            const double bytes =
                (cases[i].first_bytes + cases[i].added_bytes * (count - 1)) / count;
            assert_int_equal(m->accumulate_ns[stage],
                             update_price_ns(&f, OPERATOR_ELEMENTWISE,
                                             bytes * (double)m->trainable_part_parameters[stage]));
        }
        fixture_close(&f);
    }
}

/* Groups of eight on two nodes: what the copies' all-reduces take is hidden, or comes last. */
static void test_replicas_last(void **state) {
    (void)state;
    static const char *const setup[] = { "model=internlm2-20b",   "cluster.gpu_count=16",
                                         "layout.backend=fsdp",   "layout.zero_stage=3",
                                         "layout.zero_group=8",   "layout.tp=1",
                                         "layout.pp=1",           "layout.stack=none",
                                         "policy.recompute=none", NULL };
    struct step_fixture f;
    fixture_open_planned(&f, setup);
    struct backend backend = *f.scenario->backend;
    f.scenario->backend = &backend;
    const struct batch_shape shape =
        model_batch_shape(f.scenario->model, 1, 0, 65536, 65536.0 * 65536.0);
    price_table_prepare(f.prices, &shape, 1);
    struct stage_cost cost[2];
    struct layer_time times[LAYER_KIND_COUNT];
    int64_t root_ns[2], units_ns[2] = { 0 };
    double all_reduces[2] = { 0 };
    for (int last = 0; last < 2; last++) {
        backend.step.reduces_replicas_last = last == 1;
        f.step = step_model_create(f.arena, f.scenario, &f.plan, f.prices);
        root_ns[last] = f.step->root_reduce_ns;
        for (int64_t i = 0; i < f.step->unit_count; i++)
            units_ns[last] += f.step->unit_reduce_ns[i];
        step_layer_times(f.step, &shape, times);
        step_stage_cost(f.step, 0, &shape, times, NULL, &cost[last]);
        struct outer_list list = { 0 };
        step_model_record(f.step, f.arena, &list);
        for (int64_t i = 0; i < list.count; i++)
            if (list.operators[i].work.kind == OPERATOR_ALL_REDUCE)
                all_reduces[last] += list.operators[i].calls;
        outer_list_free(&list);
    }
    /* of each block and the root, or two */
    assert_true(2 * all_reduces[0] == (double)(f.step->unit_count + 1) * all_reduces[1]);
    assert_true(root_ns[1] > 2 * root_ns[0]);
    /* combined: the calls of all blocks but one are saved */
    assert_true(root_ns[1] - root_ns[0] < units_ns[0] - units_ns[1]);
    /* Enough compute hides all of it otherwise but the last block's and the root's. */
    const int64_t longer_ns = cost[1].backward_ns - cost[0].backward_ns;
    assert_true(longer_ns > (root_ns[1] - root_ns[0]) * 9 / 10);
    assert_true(longer_ns <= root_ns[1] - root_ns[0]);
    fixture_close(&f);
}

/* Backward of one micro-batch under FSDP on two nodes with so fast a network. */
static int64_t sharded_backward_ns(const char *nic, double overlap_cost, double gather_copy_bytes) {
    const char *const setup[] = { "model=internlm2-20b",
                                  "cluster.gpu_count=16",
                                  "layout.backend=fsdp",
                                  "layout.zero_stage=3",
                                  "layout.tp=1",
                                  "layout.pp=1",
                                  "layout.stack=none",
                                  "policy.recompute=none",
                                  "training.global_batch.micro_batches=16",
                                  nic,
                                  NULL };
    struct step_fixture f;
    fixture_open_planned(&f, setup);
    struct backend backend = *f.scenario->backend;
    backend.step.overlap_cost = overlap_cost;
    backend.step.gather_copy_bytes = gather_copy_bytes;
    f.scenario->backend = &backend;
    f.step = step_model_create(f.arena, f.scenario, &f.plan, f.prices);
    /* Enough tokens to hide all but the ends of the traffic. */
    const struct batch_shape shape =
        model_batch_shape(f.scenario->model, 1, 0, 65536, 65536.0 * 65536.0);
    price_table_prepare(f.prices, &shape, 1);
    struct layer_time times[LAYER_KIND_COUNT];
    struct stage_cost cost;
    step_layer_times(f.step, &shape, times);
    step_stage_cost(f.step, 0, &shape, times, NULL, &cost);
    const int64_t ns = cost.backward_ns;
    fixture_close(&f);
    return ns;
}

/* Weights are copied where they are gathered, under ZeRO-3 twice; gradients once for each
 * reduction. */
static void test_sharded_copies(void **state) {
    (void)state;
    static const struct {
        const char *stage;
        bool once;
        double gather_bytes, reduce_bytes;
        bool each_wanted, last_wanted;
    } cases[] = {
        { "layout.zero_stage=3", false, 8, 0, true, false },
        { "layout.zero_stage=2", false, 8, 0, true, false },
        { "layout.zero_stage=1", false, 8, 0, false, false },
        { "layout.zero_stage=3", false, 0, 6, true, false },
        { "layout.zero_stage=2", false, 0, 6, true, false },
        { "layout.zero_stage=3", true, 0, 6, false, true },
        { "layout.zero_stage=1", true, 8, 6, false, false },
    };
    int64_t twice_ns = 0;
    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
        const char *const setup[] = { "model=internlm2-20b",
                                      "layout.backend=fsdp",
                                      cases[i].stage,
                                      "layout.tp=1",
                                      "layout.pp=1",
                                      "layout.stack=none",
                                      "policy.recompute=none",
                                      "training.global_batch.micro_batches=64",
                                      NULL };
        struct step_fixture f;
        fixture_open_planned(&f, setup);
        struct backend backend = *f.scenario->backend;
        backend.step.reduces_once = cases[i].once;
        f.scenario->backend = &backend;
        const struct step_model *without =
            step_model_create(f.arena, f.scenario, &f.plan, f.prices);
        backend.step.gather_copy_bytes = cases[i].gather_bytes;
        backend.step.reduce_copy_bytes = cases[i].reduce_bytes;
        const struct step_model *with = step_model_create(f.arena, f.scenario, &f.plan, f.prices);
        const int64_t each_ns = with->accumulate_ns[0] - without->accumulate_ns[0];
        const int64_t last_ns =
            step_exposed_reduce_ns(with, 0, 1000000) - step_exposed_reduce_ns(without, 0, 1000000);
        if ((each_ns > 0) != cases[i].each_wanted || (last_ns > 0) != cases[i].last_wanted)
            fail_msg("case %zu: %ld ns each, %ld ns in the last", i, (long)each_ns, (long)last_ns);
        if (i == 0) twice_ns = each_ns;
        if (i == 1 && llabs(twice_ns - 2 * each_ns) > twice_ns / 100)
            fail_msg("%ld ns for two gathers, %ld for one", (long)twice_ns, (long)each_ns);
        fixture_close(&f);
    }
}

/* Blocks that come in fp8 are half as much to copy: 18.7 of InternLM2 20B's 19.9 billion parameters. */
static void test_copies_of_fp8(void **state) {
    (void)state;
    static const char *const setup[] = { "model=internlm2-20b",
                                         "layout.backend=fsdp",
                                         "layout.zero_stage=3",
                                         "layout.tp=1",
                                         "layout.pp=1",
                                         "layout.stack=none",
                                         "policy.recompute=none",
                                         "cluster.hardware=h100-80g-sxm",
                                         "training.precision=fp8",
                                         "training.global_batch.micro_batches=64",
                                         NULL };
    struct step_fixture f;
    fixture_open_planned(&f, setup);
    struct backend backend = *f.scenario->backend;
    f.scenario->backend = &backend;
    int64_t ns[3]; /* no copies, in 16 bits, in fp8 */
    for (int i = 0; i < 3; i++) {
        backend.step.gather_copy_bytes = i > 0 ? 8 : 0;
        backend.fp8_gather_saves = i > 1 ? 1 : 0;
        ns[i] = step_model_create(f.arena, f.scenario, &f.plan, f.prices)->accumulate_ns[0];
    }
    const double share = (double)(ns[2] - ns[0]) / (double)(ns[1] - ns[0]);
    if (share < 0.52 || share > 0.54) fail_msg("in fp8 %.3f of the copies", share);
    fixture_close(&f);
}

/* What is cleared, scaled and checked whole is so on every rank, and nowhere without a
 * reduction. */
static void test_gradient_passes(void **state) {
    (void)state;
    static const char *const alone[] = { "model=internlm2-20b", "layout.tp=2", "layout.pp=4",
                                         "layout.stack=none", NULL };
    for (int reduced = 0; reduced < 2; reduced++) {
        struct step_fixture f;
        fixture_open_planned(&f, reduced ? language_setup : alone);
        struct backend backend = *f.scenario->backend;
        f.scenario->backend = &backend;
        int64_t ns[3];
        for (int passes = 0; passes < 3; passes++) {
            backend.step.gradient_passes = 2 * passes;
            ns[passes] = step_model_create(f.arena, f.scenario, &f.plan, f.prices)->optimizer_ns[0];
        }
        assert_true(reduced ? ns[1] > ns[0] : ns[1] == ns[0]);
        if (llabs(ns[2] - 2 * ns[1] + ns[0]) > (ns[1] - ns[0]) / 100)
            fail_msg("%ld ns for two passes, %ld for four", (long)(ns[1] - ns[0]),
                     (long)(ns[2] - ns[0]));
        fixture_close(&f);
    }
}

/* Traffic that waits for NICs takes nothing from the compute beside it: its cost goes by its
 * bytes. */
static void test_overlap_cost(void **state) {
    (void)state;
    const char *const fast = "cluster.nic_Gbit_per_s_per_gpu=100",
                      *const slow = "cluster.nic_Gbit_per_s_per_gpu=50";
    const int64_t fast_ns = sharded_backward_ns(fast, 1, 0) - sharded_backward_ns(fast, 0, 0),
                  slow_ns = sharded_backward_ns(slow, 1, 0) - sharded_backward_ns(slow, 0, 0);
    assert_true(fast_ns > 0);
    if (llabs(fast_ns - slow_ns) > fast_ns / 10)
        fail_msg("cost %lld ns, with half the NICs %lld", (long long)fast_ns, (long long)slow_ns);
    const int64_t half_ns = sharded_backward_ns(fast, 0.5, 0) - sharded_backward_ns(fast, 0, 0);
    assert_true(llabs(2 * half_ns - fast_ns) <= 2);
    /* Copies run in the compute's stream, in proportion to the parameters. */
    const int64_t one_ns = sharded_backward_ns(fast, 0, 7) - sharded_backward_ns(fast, 0, 0),
                  two_ns = sharded_backward_ns(fast, 0, 14) - sharded_backward_ns(fast, 0, 0);
    assert_true(one_ns > 0 && llabs(two_ns - 2 * one_ns) < two_ns / 100);
}

/* ---- frozen modules ---- */

static void test_frozen_encoder(void **state) {
    (void)state;
    static const char *const setup[] = {
        "model={\"name\":\"internvl-6b-8b\",\"frozen\":[\"vision\"]}", "layout.tp=2", "layout.pp=2",
        NULL
    };
    struct step_fixture f;
    fixture_open_planned(&f, setup);
    for (int64_t i = 0; i < f.scenario->model->layer_count; i++)
        f.plan.recompute[i] =
            layer_can_recompute(f.scenario->model, i) ? RECOMPUTE_FULL : RECOMPUTE_NONE;
    f.plan.first_layer[1] = 40; /* inside the encoder, which has 45 blocks */
    struct step_model *m = f.step = step_model_create(f.arena, f.scenario, &f.plan, f.prices);
    assert_int_equal(m->trainable_rank_parameters[0], 0);
    assert_true(m->rank_parameters[0] > 0);
    check_bytes(m, 0, MEMORY_GRADIENTS, 0);
    check_bytes(m, 0, MEMORY_OPTIMIZER, 0);
    assert_int_equal(m->synchronize_ns[0], 0);
    assert_true(m->synchronize_ns[1] > 0);

    struct batch_shape shape = model_batch_shape(f.scenario->model, 1, 4, 2000, 4e6);
    price_table_prepare(f.prices, &shape, 1);
    struct layer_time times[LAYER_KIND_COUNT];
    step_layer_times(m, &shape, times);
    struct stage_cost cost;
    step_stage_cost(m, 0, &shape, times, NULL, &cost);
    assert_true(cost.forward_ns > 0);
    assert_int_equal(cost.backward_ns, 0);
    assert_int_equal(cost.recompute_ns, 0);
    assert_true(cost.activation_bytes == 0);
    assert_true(cost.send_forward_ns > 0);
    step_stage_cost(m, 1, &shape, times, NULL, &cost);
    /* Nothing trainable below the cut: no gradient goes back. */
    assert_int_equal(cost.send_backward_ns, 0);
    assert_true(cost.backward_ns > 0);
    /* The five frozen blocks of this stage do not recompute: 32 language blocks do. */
    assert_int_equal(cost.recompute_ns, 32 * times[LAYER_LANGUAGE_BLOCK].forward_ns);
    fixture_close(&f);
}

/* ---- context parallelism ---- */

/* Sharded state is divided by all ranks that hold the same parameters, and half as much is sent. */
static void test_context_parallel_ranks_share_parameters(void **state) {
    (void)state;
    static const char *const setups[][6] = {
        { "model=internlm2-20b", "layout.tp=2", "layout.pp=2", NULL },
        { "model=internlm2-20b", "layout.tp=2", "layout.pp=2", "layout.cp=2", NULL },
    };
    double optimizer[2];
    int64_t synchronize_ns[2], send_ns[2];
    for (int i = 0; i < 2; i++) {
        struct step_fixture f;
        fixture_open(&f, setups[i]);
        fixture_halves(&f);
        optimizer[i] = f.step->static_memory[0].bytes[MEMORY_OPTIMIZER];
        synchronize_ns[i] = f.step->synchronize_ns[0];
        struct batch_shape shape = model_batch_shape(f.scenario->model, 1, 0, 4096, 4096.0 * 4096);
        price_table_prepare(f.prices, &shape, 1);
        send_ns[i] = price_table_send_ns(f.prices, 0, LAYER_LANGUAGE_BLOCK, &shape);
        fixture_close(&f);
    }
    assert_true(optimizer[0] == optimizer[1]); /* dp 2 against dp 1 x cp 2 */
    assert_int_equal(synchronize_ns[0], synchronize_ns[1]);
    assert_true(send_ns[1] < send_ns[0]);
}

/* ---- FLOPs ---- */

static const char *const flop_setups[][3] = {
    { "model=internvl-6b-8b", "layout.pp=2", NULL },
    { "model={\"name\":\"internvl-6b-8b\",\"frozen\":[\"vision\"]}", "layout.pp=2", NULL },
    { "model={\"name\":\"internvl-6b-8b\",\"frozen\":[\"language\"]}", "layout.pp=2", NULL },
    { "model={\"name\":\"internvl-6b-8b\",\"frozen\":[\"vision\",\"language\"]}", "layout.pp=2",
      NULL },
    { "model=llama3-8b", "layout.pp=2", NULL },
};

static void test_flop_are_those_of_the_model(void **state) {
    (void)state;
    struct random_mt mt;
    random_mt_seed(&mt, 3);
    for (size_t k = 0; k < sizeof flop_setups / sizeof flop_setups[0]; k++) {
        struct step_fixture f;
        fixture_open(&f, flop_setups[k]);
        fixture_plan(&f, &mt, "1f1b");
        const struct model *model = f.scenario->model;
        struct batch_shape shapes[4];
        double want = 0, want_again = 0;
        for (int i = 0; i < 4; i++) {
            shapes[i] = random_shape(&mt, model);
            for (int64_t layer = 0; layer < model->layer_count; layer++) {
                struct gradient_need need = model_gradient_need(model, layer);
                want += model_layer_training_flop(model, layer, &shapes[i]);
                if (f.plan.recompute[layer] == RECOMPUTE_NONE || (!need.input && !need.weight))
                    continue;
                want_again += model_layer_flop(model, layer, &shapes[i]);
                if (f.plan.recompute[layer] == RECOMPUTE_FULL) continue;
                /* selective: core attention alone, which Megatron-core repeats though it is
                 * fused */
                struct batch_shape without = shapes[i];
                without.language_square_sum = without.vision_square_sum = 0;
                want_again -= model_layer_flop(model, layer, &without);
            }
        }
        price_table_prepare(f.prices, shapes, 4);
        struct step_runner *runner = step_runner_create(f.step);
        struct rank_outcome outcome;
        struct error err;
        assert_true(step_run_rank(runner, FIDELITY_STAGE, shapes, 4, &outcome, &err));
        if (fabs(outcome.model_flop / want - 1) > 1e-12)
            fail_msg("%s: got %.6g model FLOPs, want %.6g", flop_setups[k][0], outcome.model_flop,
                     want);
        if (fabs(outcome.recompute_flop - want_again) > 1e-12 * want)
            fail_msg("%s: got %.6g recomputed FLOPs, want %.6g", flop_setups[k][0],
                     outcome.recompute_flop, want_again);
        step_runner_destroy(runner);
        fixture_close(&f);
    }
}

/* ---- synchronisation ---- */

static const struct {
    const char *backend, *zero, *dp_gpus;
    enum operator_kind reduce;
    bool gathers, accumulates;
} synchronisations[] = {
    { "layout.backend=megatron-lm", "layout.zero_stage=1", "cluster.gpu_count=8",
      OPERATOR_REDUCE_SCATTER, true, false },
    { "layout.backend=megatron-lm", "layout.zero_stage=0", "cluster.gpu_count=8",
      OPERATOR_ALL_REDUCE, false, false },
    { "layout.backend=megatron-deepspeed", "layout.zero_stage=1", "cluster.gpu_count=8",
      OPERATOR_ALL_REDUCE, true, true },
    { "layout.backend=megatron-deepspeed", "layout.zero_stage=0", "cluster.gpu_count=8",
      OPERATOR_ALL_REDUCE, false, true },
    { "layout.backend=megatron-lm", "layout.zero_stage=1", "cluster.gpu_count=4",
      OPERATOR_KIND_COUNT, false, false },
};

static void test_synchronisation(void **state) {
    (void)state;
    for (size_t k = 0; k < sizeof synchronisations / sizeof synchronisations[0]; k++) {
        const char *const setup[] = { "model=internlm2-20b",
                                      "layout.tp=2",
                                      "layout.pp=2",
                                      synchronisations[k].backend,
                                      synchronisations[k].zero,
                                      synchronisations[k].dp_gpus,
                                      NULL };
        struct step_fixture f;
        fixture_open(&f, setup);
        fixture_halves(&f);
        const double parameters[] = { 24 * BLOCK + EMBEDDING, 24 * BLOCK + HEAD };
        double dp = (double)f.scenario->layout.dp;
        int64_t update_ns = 0;
        for (int64_t stage = 0; stage < 2; stage++) {
            int64_t want_ns =
                dp > 1 ? collective_price_ns(&f, synchronisations[k].reduce, 4 * parameters[stage])
                       : 0;
            if (f.step->synchronize_ns[stage] != want_ns)
                fail_msg("case %zu, stage %ld: synchronisation %ld ns, want %ld", k, (long)stage,
                         (long)f.step->synchronize_ns[stage], (long)want_ns);
            assert_int_equal(f.step->accumulate_ns[stage] > 0, synchronisations[k].accumulates);
            double share = synchronisations[k].gathers ? parameters[stage] / dp : parameters[stage];
            int64_t ns = update_price_ns(&f, OPERATOR_OPTIMIZER, share * 30);
            const double passed = f.scenario->backend->step.gradient_passes * 4 * parameters[stage];
            if (dp > 1 && passed > 0) ns += update_price_ns(&f, OPERATOR_ELEMENTWISE, passed);
            ns += llround(f.scenario->backend->step.host_step_s * 1e9);
            if (synchronisations[k].gathers)
                ns += collective_price_ns(&f, OPERATOR_ALL_GATHER, 2 * parameters[stage]);
            if (ns > update_ns) update_ns = ns;
        }
        if (f.step->update_ns != update_ns)
            fail_msg("case %zu: update %ld ns, want %ld", k, (long)f.step->update_ns,
                     (long)update_ns);
        fixture_close(&f);
    }
}

/* Traffic of ZeRO-1 hides beside one pass of a part, and of an interleaved stage beside one turn of
 * each other part more, but for its last bucket; what hides costs the passes what it moves. */
static void test_hidden_synchronisation(void **state) {
    (void)state;
    static const struct {
        int64_t chunks, hidden_passes;
        double cost;
    } cases[] = { { 1, 1, 0 }, { 3, 5, 0 }, { 1, 1, 1 }, { 3, 5, 0.5 } };
    for (size_t k = 0; k < sizeof cases / sizeof cases[0]; k++) {
        struct step_fixture f;
        fixture_open(&f, language_setup);
        f.scenario->layout.overlap_gradient_reduce = true;
        f.scenario->layout.overlap_parameter_gather = true;
        struct backend backend = *f.scenario->backend;
        backend.step.data_overlap_cost = cases[k].cost;
        backend.zero1_all_reduce = false;
        f.scenario->backend = &backend;
        fixture_halves(&f);
        struct step_model m = *f.step;
        m.chunk_count = cases[k].chunks;
        const int64_t whole_ns = m.synchronize_ns[0], gather_ns = m.gather_ns[0], pass_ns = 1000000;
        const int64_t hidden_ns = cases[k].hidden_passes * pass_ns;
        assert_true(whole_ns > 2 * hidden_ns && gather_ns > 2 * hidden_ns);
        /* Two ranks of one node: all of the traffic moves bytes in it. */
        const int64_t slowed_ns = (int64_t)(cases[k].cost * (double)hidden_ns);
        assert_int_equal(step_exposed_reduce_ns(&m, 0, pass_ns), whole_ns - hidden_ns + slowed_ns);
        assert_int_equal(step_exposed_update_ns(&m, 0, pass_ns),
                         m.optimizer_ns[0] + gather_ns - hidden_ns + slowed_ns);
        /* 25 layers, a bucket each. */
        const int64_t last_ns = whole_ns / 25;
        assert_int_equal(step_exposed_reduce_ns(&m, 0, whole_ns),
                         last_ns + llround(cases[k].cost * (double)(whole_ns - last_ns)));
        fixture_close(&f);
    }
}

/* A step model with such buckets, whose gathers wait for activations or not. */
static struct step_model bucketed(struct step_fixture *f, struct backend *backend) {
    fixture_open(f, language_setup);
    f->scenario->layout.overlap_gradient_reduce = true;
    f->scenario->layout.overlap_parameter_gather = true;
    *backend = *f->scenario->backend;
    backend->zero1_all_reduce = false;
    f->scenario->backend = backend;
    fixture_halves(f);
    return *f->step;
}

static void check_share(size_t index, int64_t got_ns, int64_t whole_ns, double share) {
    if (fabs((double)got_ns - share * (double)whole_ns) > 1)
        fail_msg("case %zu: got %ld ns, want %.6f of %ld", index, (long)got_ns, share,
                 (long)whole_ns);
}

/* With time enough to hide the rest, the last bucket is left: what full ones leave of the blocks, and
 * the embedding; of Megatron-core's later stages all. */
static void test_reduction_buckets(void **state) {
    (void)state;
    const double first = 24 * BLOCK + EMBEDDING, second = 24 * BLOCK + HEAD;
    static const struct {
        double parameters, rank_parameters;
        bool first_stage;
        double left_first, left_second; /* blocks' and head's parameters of the last bucket */
    } cases[] = {
        { 5 * BLOCK, 0, false, 4 * BLOCK, HEAD - BLOCK }, /* head and 4 blocks fill one */
        { 5 * BLOCK, 0, true, 4 * BLOCK, 24 * BLOCK + HEAD },
        { BLOCK, 3.5 * BLOCK, false, 3 * BLOCK, 3 * BLOCK + HEAD }, /* two ranks: 7 blocks */
        { 1e12, 0, true, 24 * BLOCK, 24 * BLOCK + HEAD },
    };
    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
        struct step_fixture f;
        struct backend backend;
        const struct step_model m = bucketed(&f, &backend);
        backend.step.reduce_bucket_parameters = cases[i].parameters;
        backend.step.reduce_bucket_rank_parameters = cases[i].rank_parameters;
        backend.step.first_stage_buckets = cases[i].first_stage;
        const int64_t long_ns = 1000 * NS_PER_S;
        check_share(i, step_exposed_reduce_ns(&m, 0, long_ns), m.synchronize_ns[0],
                    (cases[i].left_first + EMBEDDING) / first);
        check_share(i, step_exposed_reduce_ns(&m, 1, long_ns), m.synchronize_ns[1],
                    cases[i].left_second / second);
        check_share(i, step_exposed_update_ns(&m, 0, long_ns) - m.optimizer_ns[0], m.gather_ns[0],
                    (cases[i].left_first + EMBEDDING) / first);
        fixture_close(&f);
    }
}

/* A later stage's gather, one bucket, has the forwards of the stages before it, unless it begins
 * behind them. */
static void test_later_gathers(void **state) {
    (void)state;
    struct step_fixture f;
    struct backend backend;
    const struct step_model m = bucketed(&f, &backend);
    backend.step.reduce_bucket_parameters = BLOCK;
    backend.step.first_stage_buckets = true;
    const int64_t gather_ns = m.gather_ns[1], pass_ns = gather_ns / 4;
    assert_int_equal(step_exposed_update_ns(&m, 1, pass_ns) - m.optimizer_ns[1],
                     gather_ns - pass_ns);
    assert_int_equal(step_exposed_update_ns(&m, 1, 2 * gather_ns), m.optimizer_ns[1]);
    backend.step.gathers_at_forward = true;
    assert_int_equal(step_exposed_update_ns(&m, 1, 2 * gather_ns), m.optimizer_ns[1]);
    backend.send_blocks_host = true;
    const int64_t first_ns = step_exposed_update_ns(&m, 0, 1000 * NS_PER_S) - m.optimizer_ns[0];
    assert_int_equal(step_exposed_update_ns(&m, 1, 2 * gather_ns),
                     m.optimizer_ns[1] + first_ns + gather_ns);
    fixture_close(&f);
}

/* DeepSpeed's ZeRO-2 reduces by buckets as well: 48 blocks in 9 of five, three with the root. */
static void test_shard_buckets(void **state) {
    (void)state;
    const char *const setup[] = { "model=internlm2-20b",   "layout.backend=deepspeed",
                                  "layout.zero_stage=2",   "layout.tp=1",
                                  "layout.pp=1",           "layout.stack=none",
                                  "policy.recompute=none", NULL };
    struct step_fixture f;
    fixture_open_planned(&f, setup);
    struct backend backend = *f.scenario->backend;
    f.scenario->backend = &backend;
    const struct step_model *apart = step_model_create(f.arena, f.scenario, &f.plan, f.prices);
    const double block = (double)layer_rank_parameters(f.scenario->model, 1, 1);
    backend.step.reduce_bucket_parameters = 5 * block;
    const struct step_model *joined = step_model_create(f.arena, f.scenario, &f.plan, f.prices);
    const int64_t block_ns = apart->unit_reduce_ns[0];
    assert_true(block_ns > 0 && apart->unit_count == 48);
    for (int64_t unit = 0; unit < 48; unit++)
        assert_int_equal(joined->unit_reduce_ns[unit], (48 - unit) % 5 == 0 ? 5 * block_ns : 0);
    assert_int_equal(joined->root_reduce_ns, apart->root_reduce_ns + 3 * block_ns);
    fixture_close(&f);
}

/* Blocks with fp8 matmuls come back from ZeRO-1 as cast; what stands around them in bf16. */
static void test_gather_as_cast(void **state) {
    (void)state;
    static const struct {
        const char *precision, *recipe;
        enum stack_casts casts;
        bool saves;
    } cases[] = {
        { "bf16", "usual", CASTS_NORM, false },       { "fp8", "usual", CASTS_NORM, true },
        { "fp8", "delayed", CASTS_NORM, true },       { "fp8", "tensorwise", CASTS_DYNAMIC, true },
        { "fp8", "rowwise", CASTS_DYNAMIC, false },   { "fp8", "blockwise", CASTS_NORM, true },
        { "fp8", "blockwise", CASTS_DYNAMIC, false }, { "fp8", "mxfp8", CASTS_NORM, false },
    };
    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
        char precision[40], recipe[40];
        snprintf(precision, sizeof precision, "training.precision=%s", cases[i].precision);
        snprintf(recipe, sizeof recipe, "training.fp8_recipe=%s", cases[i].recipe);
        const char *setup[] = { "model=internlm2-20b",
                                "layout.tp=2",
                                "layout.pp=2",
                                "layout.stack=none",
                                "cluster.hardware=b200-180g-sxm",
                                precision,
                                recipe,
                                NULL };
        struct step_fixture f;
        fixture_open(&f, setup);
        struct backend backend = *f.scenario->backend;
        backend.fp8_gather_saves = 1;
        backend.block.casts = cases[i].casts;
        f.scenario->backend = &backend;
        fixture_halves(&f);
        const double parameters = (double)f.step->rank_parameters[0];
        const double saved = 2 - f.step->gathered_bytes[0] / parameters;
        /* 24 of 25.5 blocks */
        if (cases[i].saves ? saved <= 0.93 || saved >= 0.95 : saved != 0)
            fail_msg("case %zu: %g bytes less", i, saved);
        assert_true(f.step->trainable_weight_bytes[0] == 2 * parameters);
        fixture_close(&f);
    }
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_hand_computed_stages),
        cmocka_unit_test(test_fp32_gradients),
        cmocka_unit_test(test_gathered_once),
        cmocka_unit_test(test_reduces_once),
        cmocka_unit_test(test_replicas_last),
        cmocka_unit_test(test_overlap_cost),
        cmocka_unit_test(test_gradient_passes),
        cmocka_unit_test(test_sharded_copies),
        cmocka_unit_test(test_copies_of_fp8),
        cmocka_unit_test(test_gather_as_cast),
        cmocka_unit_test(test_unit_gradients),
        cmocka_unit_test(test_frozen_encoder),
        cmocka_unit_test(test_context_parallel_ranks_share_parameters),
        cmocka_unit_test(test_flop_are_those_of_the_model),
        cmocka_unit_test(test_synchronisation),
        cmocka_unit_test(test_hidden_synchronisation),
        cmocka_unit_test(test_reduction_buckets),
        cmocka_unit_test(test_later_gathers),
        cmocka_unit_test(test_shard_buckets),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
