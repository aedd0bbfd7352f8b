/* test_stage_cost.c - what a micro-batch costs a stage: recomputed and offloaded blocks, and its
 * classes of time. */
#include "tests/unit/step/step_fixture.h"

#include <math.h>
#include "sim/base/units.h"

/* ---- selective recomputation ---- */

/* One block's scores, 48 heads on two ranks and 14,000 tokens in two samples, two bytes each: what
 * a selective block drops, and what stands beside its backward again. */
static void test_selective_recomputation(void **state) {
    (void)state;
    static const char *const setup[] = { "model=internlm2-20b", "layout.tp=2", "layout.pp=2",
                                         "training.attention=naive", NULL };
    struct step_fixture f;
    fixture_open(&f, setup);
    fixture_halves(&f);
    struct batch_shape shape =
        model_batch_shape(f.scenario->model, 2, 0, 14000, 8000.0 * 8000.0 + 6000.0 * 6000.0);
    price_table_prepare(f.prices, &shape, 1);
    struct layer_time times[LAYER_KIND_COUNT];
    struct stage_cost costs[RECOMPUTE_KIND_COUNT];
    for (int how = 0; how < RECOMPUTE_KIND_COUNT; how++) {
        for (int64_t i = 0; i < f.scenario->model->layer_count; i++)
            f.plan.recompute[i] = layer_can_recompute(f.scenario->model, i)
                                      ? (enum recompute_kind)how
                                      : RECOMPUTE_NONE;
        struct step_model *m = step_model_create(f.arena, f.scenario, &f.plan, f.prices);
        step_layer_times(m, &shape, times);
        step_stage_cost(m, 0, &shape, times, NULL, &costs[how]);
    }
    const double scores = 2 * 24 * 1e8;
    const struct stage_cost *none = &costs[RECOMPUTE_NONE], *some = &costs[RECOMPUTE_SELECTIVE],
                            *full = &costs[RECOMPUTE_FULL];
    assert_true(none->activation_bytes - some->activation_bytes == 24 * scores);
    assert_true(some->workspace_bytes - none->workspace_bytes == scores);
    assert_true(full->activation_bytes < some->activation_bytes);
    assert_true(full->workspace_bytes > some->workspace_bytes);
    assert_int_equal(none->recompute_ns, 0);
    assert_true(none->forward_ns == some->forward_ns && some->recompute_ns > 0);
    assert_int_equal(some->backward_ns, none->backward_ns + some->recompute_ns);
    assert_int_equal(some->recompute_ns,
                     24 * times[LAYER_LANGUAGE_BLOCK].recompute_ns[RECOMPUTE_SELECTIVE]);
    assert_int_equal(full->recompute_ns, 24 * times[LAYER_LANGUAGE_BLOCK].forward_ns);
    fixture_close(&f);
}

/* ---- activations in host memory ---- */

/* Twenty of a stage's 24 blocks: what they keep leaves the GPU but for two, and what the copies need
 * longer than the passes beside them shows. The first four have two blocks for their copies, the
 * others one. */
static void test_offload(void **state) {
    (void)state;
    static const char *const setups[][5] = {
        { "model=internlm2-20b", "layout.tp=2", "layout.pp=2", NULL },
        { "model=internlm2-20b", "layout.tp=2", "layout.pp=2", "training.offload_blocks=20", NULL },
    };
    struct stage_cost costs[2][2];
    double kept = 0, input = 0;
    int64_t forward_ns = 0, backward_ns = 0, copy_ns = 0;
    for (int i = 0; i < 2; i++) {
        struct step_fixture f;
        fixture_open(&f, setups[i]);
        fixture_halves(&f);
        struct batch_shape shape =
            model_batch_shape(f.scenario->model, 14, 0, 14000, 14 * 1000.0 * 1000.0);
        price_table_prepare(f.prices, &shape, 1);
        struct layer_time times[LAYER_KIND_COUNT];
        step_layer_times(f.step, &shape, times);
        for (int stage = 0; stage < 2; stage++)
            step_stage_cost(f.step, stage, &shape, times, NULL, &costs[i][stage]);
        kept = price_table_saved_bytes(f.prices, LAYER_LANGUAGE_BLOCK, &shape, RECOMPUTE_NONE);
        input = price_table_saved_bytes(f.prices, LAYER_LANGUAGE_BLOCK, &shape, RECOMPUTE_FULL);
        copy_ns = ns_from_seconds(kept / cost_model_gpu(f.scenario->cost_model)->pcie_bytes_per_s);
        forward_ns = times[LAYER_LANGUAGE_BLOCK].forward_ns;
        backward_ns = times[LAYER_LANGUAGE_BLOCK].backward_ns;
        fixture_close(&f);
    }
    /* The second stage recomputes nothing: 20 copies of a whole block each way. The first
     * recomputes its first ten, whose inputs are all that goes: their copies hide. */
    assert_true(copy_ns > forward_ns && copy_ns < 2 * forward_ns && copy_ns < 2 * backward_ns);
    const int64_t late_ns = copy_ns > backward_ns ? copy_ns - backward_ns : 0;
    static const int64_t exposed[2] = { 10, 16 };
    for (int stage = 0; stage < 2; stage++) {
        const double gone = stage == 0 ? 10 * input + 10 * kept : 20 * kept;
        assert_int_equal(costs[1][stage].forward_ns - costs[0][stage].forward_ns,
                         exposed[stage] * (copy_ns - forward_ns));
        assert_int_equal(costs[1][stage].backward_ns - costs[0][stage].backward_ns,
                         exposed[stage] * late_ns);
        assert_true(
            fabs(costs[0][stage].activation_bytes - costs[1][stage].activation_bytes - gone) < 1);
        assert_true(costs[1][stage].workspace_bytes >= 2 * kept);
    }
}

/* What a planner offloads hides beside all blocks of the pass, and its buffers stand beside every
 * pass of the rank. */
static void test_chosen_offload(void **state) {
    (void)state;
    static const char *const setup[] = { "model=internlm2-20b", "layout.tp=2", "layout.pp=2",
                                         NULL };
    struct step_fixture f;
    fixture_open(&f, setup);
    fixture_halves(&f);
    struct batch_shape shape =
        model_batch_shape(f.scenario->model, 14, 0, 14000, 14 * 1000.0 * 1000.0);
    price_table_prepare(f.prices, &shape, 1);
    struct layer_time times[LAYER_KIND_COUNT];
    step_layer_times(f.step, &shape, times);
    const struct layer_time *block = &times[LAYER_LANGUAGE_BLOCK];
    const double kept = block->saved_bytes[RECOMPUTE_NONE],
                 input = block->saved_bytes[RECOMPUTE_FULL];
    const double rate = cost_model_gpu(f.scenario->cost_model)->pcie_bytes_per_s;
    struct pass_choice none = { .blocks = { { 16, 8 } } }, some = none;
    const int64_t copies = ns_from_seconds(kept / rate) * 10 + ns_from_seconds(input / rate) * 3;
    some.offloaded[0][RECOMPUTE_NONE] = 10;
    some.offloaded[0][RECOMPUTE_FULL] = 3;
    some.buffer_bytes = 5e9;
    struct stage_cost before, after;
    step_stage_cost_as(f.step, 0, &shape, times, NULL, &none, &before);
    step_stage_cost_as(f.step, 0, &shape, times, NULL, &some, &after);
    assert_true(fabs(after.host_bytes - 10 * kept - 3 * input) < 1);
    assert_true(fabs(before.activation_bytes - after.activation_bytes - after.host_bytes) < 1);
    assert_true(fabs(after.workspace_bytes - before.workspace_bytes - 5e9) < 1);
    const int64_t forward = 24 * block->forward_ns,
                  backward = 24 * block->backward_ns + 8 * block->recompute_ns[RECOMPUTE_FULL];
    assert_int_equal(after.forward_ns - before.forward_ns, copies > forward ? copies - forward : 0);
    assert_int_equal(after.backward_ns - before.backward_ns,
                     copies > backward ? copies - backward : 0);
    /* All of them: the forward is too short for their copies. */
    some.offloaded[0][RECOMPUTE_NONE] = 16;
    some.offloaded[0][RECOMPUTE_FULL] = 0;
    step_stage_cost_as(f.step, 0, &shape, times, NULL, &some, &after);
    assert_true(16 * ns_from_seconds(kept / rate) > forward);
    assert_int_equal(after.forward_ns - before.forward_ns,
                     16 * ns_from_seconds(kept / rate) - forward);
    double sum = 0;
    for (int class = 0; class < TIME_CLASS_COUNT; class ++)
        sum += after.class_ns[class];
    assert_true(fabs(sum - (double)(after.forward_ns + after.backward_ns)) < 1);
    fixture_close(&f);
}

/* ---- costs of a stage ---- */

static void test_classes_sum_to_both_passes(void **state) {
    (void)state;
    struct random_mt mt;
    random_mt_seed(&mt, 4);
    for (int round = 0; round < 30; round++) {
        static const char *const setup[] = { "layout.tp=2", "layout.pp=4",
                                             "layout.backend=megatron-deepspeed", NULL };
        struct step_fixture f;
        fixture_open(&f, setup);
        fixture_plan(&f, &mt, "1f1b");
        struct batch_shape shape = random_shape(&mt, f.scenario->model);
        shape.useful_language_tokens = 1 + random_below(&mt, shape.language_tokens);
        price_table_prepare(f.prices, &shape, 1);
        struct layer_time times[LAYER_KIND_COUNT];
        step_layer_times(f.step, &shape, times);
        int64_t forward_ns = 0;
        for (int64_t stage = 0; stage < 4; stage++) {
            struct stage_cost cost;
            step_stage_cost(f.step, stage, &shape, times, NULL, &cost);
            double sum = 0;
            for (int class = 0; class < TIME_CLASS_COUNT; class ++) {
                assert_true(cost.class_ns[class] >= 0);
                sum += cost.class_ns[class];
            }
            assert_true(fabs(sum - (double)(cost.forward_ns + cost.backward_ns)) < 1);
            int64_t back_ns = 0;
            if (stage > 0)
                back_ns =
                    price_table_send_ns(f.prices, stage - 1, f.step->last_kind[stage - 1], &shape);
            assert_int_equal(cost.send_backward_ns, back_ns);
            forward_ns += cost.forward_ns;
        }
        /* However it is cut, the layers are the same. */
        int64_t layers_ns = 0;
        for (int64_t i = 0; i < f.scenario->model->layer_count; i++)
            layers_ns += times[f.scenario->model->layers[i].kind].forward_ns;
        assert_int_equal(forward_ns, layers_ns);
        fixture_close(&f);
    }
}

/* ---- gathers ---- */

/* Under ZeRO-3 blocks with fp8 matmuls come as cast, in half the bytes, and slow the passes beside
 * them half as long; the root's embedding and head come in bf16. */
static void test_gathers_as_cast(void **state) {
    (void)state;
    static const char *const setup[] = { "model=internlm2-20b",
                                         "cluster.hardware=h100-80g-sxm",
                                         "cluster.gpu_count=64",
                                         "layout.backend=fsdp",
                                         "layout.zero_stage=3",
                                         "layout.tp=1",
                                         "layout.pp=1",
                                         "layout.stack=none",
                                         "training.precision=fp8",
                                         NULL };
    int64_t block_ns[2], root_ns[2], forward_ns[2];
    for (int cast = 0; cast < 2; cast++) {
        struct step_fixture f;
        fixture_open_planned(&f, setup);
        struct backend backend = *f.scenario->backend;
        backend.step.overlap_cost = 1;
        backend.fp8_gather_saves = cast;
        f.scenario->backend = &backend;
        f.step = step_model_create(f.arena, f.scenario, &f.plan, f.prices);
        block_ns[cast] = f.step->unit_gather_ns[0];
        root_ns[cast] = f.step->root_gather_ns;
        const struct batch_shape shape =
            model_batch_shape(f.scenario->model, 1, 0, 65536, 65536.0 * 65536.0);
        price_table_prepare(f.prices, &shape, 1);
        struct layer_time times[LAYER_KIND_COUNT];
        struct stage_cost cost;
        step_layer_times(f.step, &shape, times);
        step_stage_cost(f.step, 0, &shape, times, NULL, &cost);
        forward_ns[cast] = cost.forward_ns;
        fixture_close(&f);
    }
    const double share = (double)block_ns[1] / (double)block_ns[0];
    assert_true(share > 0.5 && share < 0.55); /* latency stays */
    assert_int_equal(root_ns[0], root_ns[1]);
    assert_true(forward_ns[1] < forward_ns[0]);
}

/* Stage 0's, of a micro-batch of one sequence. */
static struct stage_cost cost_of_one(struct step_fixture *f, int64_t tokens,
                                     struct layer_time times[LAYER_KIND_COUNT]) {
    const struct batch_shape shape =
        model_batch_shape(f->scenario->model, 1, 0, tokens, (double)tokens * (double)tokens);
    struct stage_cost cost;
    price_table_prepare(f->prices, &shape, 1);
    step_layer_times(f->step, &shape, times);
    step_stage_cost(f->step, 0, &shape, times, NULL, &cost);
    return cost;
}

/* A fused loss keeps no softmax: of a logit there is what the stack says, no more. */
static void test_loss_of_a_stack(void **state) {
    (void)state;
    static const double held[] = { NAN, 0.5, 2, 12 };
    enum { CASES = sizeof held / sizeof held[0] };
    double bytes[CASES];
    for (size_t i = 0; i < CASES; i++) {
        struct step_fixture f;
        fixture_open(&f, fully_sharded);
        struct backend backend = *f.scenario->backend;
        backend.step.logit_bytes = held[i];
        f.scenario->backend = &backend;
        struct random_mt mt;
        random_mt_seed(&mt, 1);
        random_plan(&f, &mt, "1f1b");
        f.step = step_model_create(f.arena, f.scenario, &f.plan, f.prices);
        struct layer_time times[LAYER_KIND_COUNT];
        const struct stage_cost cost = cost_of_one(&f, 4096, times);
        bytes[i] = cost.loss_bytes + cost.loss_workspace_bytes;
        assert_true(cost.loss_bytes > 0 && cost.loss_workspace_bytes >= 0);
        fixture_close(&f);
    }
    for (size_t i = 1; i < CASES; i++)
        assert_true(fabs(bytes[0] - bytes[i] - (10 - held[i]) * 4096 * 92544) < 1);
}

/* Of a chunked head it is of the logits of 256 tokens alone, which the backward makes again. */
static void test_loss_of_a_chunk(void **state) {
    (void)state;
    static const char *const setup[] = { "model=llama3-8b",
                                         "layout.backend=fsdp",
                                         "layout.stack=hf-fsdp-chunked-loss-1.13",
                                         "layout.zero_stage=3",
                                         "layout.dp=8",
                                         "cluster.gpu_count=8",
                                         NULL };
    double bytes[2], again_flop = 0, training_flop = 0;
    for (int i = 0; i < 2; i++) {
        struct step_fixture f;
        fixture_open(&f, setup);
        struct backend backend = *f.scenario->backend;
        backend.step.logit_bytes = i == 0 ? 17 : 12;
        f.scenario->backend = &backend;
        struct random_mt mt;
        random_mt_seed(&mt, 1);
        fixture_plan(&f, &mt, "1f1b");
        struct layer_time times[LAYER_KIND_COUNT];
        const struct stage_cost cost = cost_of_one(&f, 4096, times);
        bytes[i] = cost.loss_bytes + cost.loss_workspace_bytes;
        again_flop = times[LAYER_HEAD].recompute_flop[RECOMPUTE_NONE];
        training_flop = times[LAYER_HEAD].training_flop;
        fixture_close(&f);
    }
    assert_true(fabs(bytes[0] - bytes[1] - 5.0 * 256 * 128256) < 1);
    assert_true(again_flop > 0 && fabs(3 * again_flop / training_flop - 1) < 1e-9);
}

/* DeepSpeed's ZeRO-3 gathers the head for each of 17 chunks, forward and backward, beside nothing. */
static void test_head_gathers(void **state) {
    (void)state;
    static const char *const setup[] = { "model=llama3-8b",
                                         "layout.backend=deepspeed",
                                         "layout.stack=hf-deepspeed-chunked-loss-1.13",
                                         "layout.zero_stage=3",
                                         "layout.dp=8",
                                         "cluster.gpu_count=8",
                                         NULL };
    int64_t forward_ns[2], backward_ns[2], gather_ns[2], root_ns[2];
    double data_ns[2];
    for (int gathers = 0; gathers < 2; gathers++) {
        struct step_fixture f;
        struct random_mt mt;
        random_mt_seed(&mt, 1);
        fixture_open(&f, setup);
        struct backend backend = *f.scenario->backend;
        assert_true(backend.step.chunk_gathers && backend.block.chunk.tokens == 256);
        backend.step.chunk_gathers = gathers;
        f.scenario->backend = &backend;
        fixture_plan(&f, &mt, "1f1b");
        struct layer_time times[LAYER_KIND_COUNT];
        const struct stage_cost cost = cost_of_one(&f, 4100, times);
        const struct batch_shape shape =
            model_batch_shape(f.scenario->model, 1, 0, 4100, 4100.0 * 4100.0);
        assert_int_equal(price_table_head_chunks(f.prices, &shape), 17);
        forward_ns[gathers] = cost.forward_ns;
        backward_ns[gathers] = cost.backward_ns;
        data_ns[gathers] = cost.class_ns[TIME_DATA];
        gather_ns[gathers] = f.step->head_gather_ns;
        root_ns[gathers] = f.step->root_gather_ns;
        fixture_close(&f);
    }
    assert_int_equal(gather_ns[0], 0);
    assert_true(gather_ns[1] > 1000 * 1000);
    const int64_t all_ns = 17 * gather_ns[1];
    const int64_t spared_ns = root_ns[0] - root_ns[1]; /* by no gather of the head before all */
    assert_true(spared_ns > 0);
    assert_int_equal(forward_ns[1] - forward_ns[0], all_ns - spared_ns);
    /* The first block's gather no longer hides beside the head's matmuls, which wait. */
    assert_true(backward_ns[1] - backward_ns[0] >= all_ns);
    assert_true(data_ns[1] - data_ns[0] >= 2 * (double)all_ns - (double)spared_ns);
}

static int64_t head_gather_ns(const char *const *setup, int64_t *root_ns) {
    struct step_fixture f;
    struct random_mt mt;
    random_mt_seed(&mt, 1);
    fixture_open(&f, setup);
    fixture_plan(&f, &mt, "1f1b");
    const int64_t ns = f.step->head_gather_ns;
    *root_ns = f.step->root_gather_ns;
    fixture_close(&f);
    return ns;
}

/* A rank gathers its part of the head, beside what is gathered once, and a model without a head
 * nothing. */
static void test_head_gathers_of_a_part(void **state) {
    (void)state;
#define CHUNKED "layout.backend=deepspeed", "layout.stack=hf-deepspeed-chunked-loss-1.13"
    static const char *const whole[] = { "model=llama3-8b",     CHUNKED,
                                         "layout.zero_stage=3", "layout.dp=4",
                                         "cluster.gpu_count=4", NULL },
                             *const halves[] = { "model=llama3-8b",
                                                 CHUNKED,
                                                 "layout.zero_stage=3",
                                                 "layout.tp=2",
                                                 "layout.dp=4",
                                                 "cluster.gpu_count=8",
                                                 NULL },
                             *const plain[] = { "model=llama3-8b",
                                                "layout.backend=deepspeed",
                                                "layout.stack=hf-deepspeed-2026",
                                                "layout.zero_stage=3",
                                                "layout.dp=4",
                                                "cluster.gpu_count=4",
                                                NULL },
                             *const video[] = { "model=t2v-s",         CHUNKED,
                                                "layout.zero_stage=3", "layout.dp=8",
                                                "cluster.gpu_count=8", NULL };
    int64_t root_ns[4];
    const int64_t ns = head_gather_ns(whole, &root_ns[0]);
    const double share = (double)head_gather_ns(halves, &root_ns[1]) / (double)ns;
    assert_true(share > 0.48 && share < 0.55);
    assert_int_equal(head_gather_ns(plain, &root_ns[2]), 0);
    assert_true((double)root_ns[0] / (double)root_ns[2] < 0.55);
    assert_int_equal(head_gather_ns(video, &root_ns[3]), 0);
#undef CHUNKED
}

/* Waits for the host's launches are a class of their own, whatever of the tokens is padding. */
static void test_waits_for_launches(void **state) {
    (void)state;
    static const char *const stacks[] = { "layout.stack=none", "layout.stack=hf-deepspeed" };
    for (size_t k = 0; k < 2; k++) {
        const char *const setup[] = { "model=llama3-8b",     "layout.backend=deepspeed", stacks[k],
                                      "layout.zero_stage=1", "policy.recompute=full",    NULL };
        struct step_fixture f;
        struct random_mt mt;
        random_mt_seed(&mt, 1);
        fixture_open(&f, setup);
        fixture_plan(&f, &mt, "1f1b");
        struct batch_shape shape = model_batch_shape(f.scenario->model, 1, 0, 64, 64.0 * 64.0);
        shape.useful_language_tokens = 48;
        price_table_prepare(f.prices, &shape, 1);
        struct layer_time times[LAYER_KIND_COUNT];
        step_layer_times(f.step, &shape, times);
        struct stage_cost cost;
        step_stage_cost(f.step, 0, &shape, times, NULL, &cost);
        int64_t want = 0;
        for (int64_t i = 0; i < f.scenario->model->layer_count; i++) {
            const struct layer_time *time = &times[f.scenario->model->layers[i].kind];
            want += time->forward_wait_ns + time->backward_wait_ns +
                    (f.plan.recompute[i] != RECOMPUTE_NONE
                         ? time->recompute_wait_ns[f.plan.recompute[i]]
                         : 0);
        }
        assert_true(cost.class_ns[TIME_LAUNCH] == (double)want);
        assert_true(k == 0 ? want == 0
                           : (double)want > 0.2 * (double)(cost.forward_ns + cost.backward_ns));
        /* A quarter of what the device does, on whatever, is padding. */
        const double device_ns =
            (double)(cost.forward_ns + cost.backward_ns - want - f.step->accumulate_ns[0]);
        assert_true(fabs(cost.class_ns[TIME_PADDING] / device_ns - 0.25) < 1e-9);
        fixture_close(&f);
    }
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_selective_recomputation),
        cmocka_unit_test(test_offload),
        cmocka_unit_test(test_chosen_offload),
        cmocka_unit_test(test_classes_sum_to_both_passes),
        cmocka_unit_test(test_gathers_as_cast),
        cmocka_unit_test(test_loss_of_a_stack),
        cmocka_unit_test(test_loss_of_a_chunk),
        cmocka_unit_test(test_head_gathers),
        cmocka_unit_test(test_head_gathers_of_a_part),
        cmocka_unit_test(test_waits_for_launches),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
