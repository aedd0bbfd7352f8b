/* test_scenario_stack.c - what the stack of a scenario changes in it. */
#include <math.h>
#include "sim/base/file_read.h"
#include "tests/unit/scenario/scenario_fixture.h"

/* Every backend has a usual stack, and "none" leaves the kernels as the profile has them. */
static void test_the_usual_stack(void **state) {
    (void)state;
    for (int i = 0; backend_names[i] != NULL; i++) {
        char backend[64];
        snprintf(backend, sizeof backend, "layout.backend=%s", backend_names[i]);
        const char *const usual[] = { backend, NULL };
        struct scenario *s = load_valid(MODEL, NULL, usual);
        assert_non_null(s->stack);
        assert_string_equal(s->stack->name, backend_at(i)->usual_stack);
        assert_string_equal(s->layout_fields.stack, backend_at(i)->usual_stack);
        scenario_destroy(s);
        const char *const none[] = { backend, "layout.stack=none", NULL };
        s = load_valid(MODEL, NULL, none);
        assert_null(s->stack);
        scenario_destroy(s);
    }
}

/* What megatron-core says of attention is of B200 and GB200. */
static void test_attention_of_another_gpu_is_not_told(void **state) {
    (void)state;
    static const struct {
        const char *hardware;
        bool told;
    } cases[] = { { "cluster.hardware=a100-80g-sxm", false },
                  { "cluster.hardware=b200-180g-sxm", true } };
    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
        const char *const overrides[] = { cases[i].hardware, NULL };
        struct scenario *s = load_valid(MODEL, NULL, overrides);
        bool told = false, stack = false;
        for (int64_t k = 0; s->assumptions[k] != NULL; k++) {
            told = told || strstr(s->assumptions[k], "attention_forward_time") != NULL;
            stack = stack || strstr(s->assumptions[k], "stack megatron-core: ") != NULL;
        }
        assert_true(stack);
        assert_true(told == cases[i].told);
        scenario_destroy(s);
    }
}

#define ZERO_2 "layout.backend=deepspeed", "layout.zero_stage=2", "layout.pp=1", "layout.dp=null"

/* megatron-core hides both; what the layout says goes first. */
static void test_overlap_as_the_stack_does(void **state) {
    (void)state;
    static const struct {
        const char *overrides[7];
        bool reduce, gather;
    } cases[] = {
        { { NULL }, true, true },
        { { "layout.overlap_gradient_reduce=false" }, false, true },
        { { "layout.overlap_parameter_gather=null" }, true, true },
        { { "layout.stack=none" }, false, false },
        { { "layout.stack=none", "layout.overlap_parameter_gather=true" }, false, true },
        { { "layout.backend=megatron-deepspeed" }, false, false },
        /* what sharding does by itself, whatever the stack */
        { { "layout.stack=none", "layout.backend=fsdp", "layout.zero_stage=2" }, true, true },
        { { "layout.stack=none", "layout.backend=fsdp", "layout.zero_stage=3" }, true, true },
        /* DeepSpeed's ZeRO-2 by its overlap_comm, which Transformers' files set */
        { { "layout.stack=hf-deepspeed", ZERO_2 }, true, false },
        { { "layout.stack=megatron-deepspeed-2023", ZERO_2 }, false, false },
        { { "layout.stack=megatron-deepspeed-2023", "layout.overlap_gradient_reduce=true", ZERO_2 },
          true,
          false },
    };
    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
        struct scenario *s = load_valid(MODEL, NULL, cases[i].overrides);
        if (s->layout.overlap_gradient_reduce != cases[i].reduce ||
            s->layout.overlap_parameter_gather != cases[i].gather)
            fail_msg("case %zu: %d %d", i, s->layout.overlap_gradient_reduce,
                     s->layout.overlap_parameter_gather);
        scenario_destroy(s);
    }
}

/* hf-deepspeed exchanges heads where its ranks divide them and the layout names no other way;
 * PyTorch's own ring gathers keys and values. */
static void test_sharing_of_sequences(void **state) {
    (void)state;
    static const struct {
        const char *overrides[6];
        enum context_kind kind;
    } cases[] = {
        { { "layout.cp=4" }, CONTEXT_RING }, /* megatron-core's */
        { { "layout.stack=hf-deepspeed", "layout.cp=4" }, CONTEXT_ALL_TO_ALL },
        { { "layout.stack=llama-factory", "layout.cp=4" }, CONTEXT_ALL_TO_ALL },
        { { "layout.stack=hf-deepspeed", "layout.cp=4", "layout.cp_kind=ring" }, CONTEXT_RING },
        { { "layout.stack=hf-deepspeed", "layout.cp=32", "layout.tp=1", "layout.pp=1" },
          CONTEXT_RING },
        { { "layout.stack=hf-deepspeed", "layout.cp=4", "layout.cp_heads=2" }, CONTEXT_RING },
        { { "layout.cp=4", "layout.cp_heads=4" }, CONTEXT_ALL_TO_ALL }, /* of all ranks */
        { { "layout.stack=torchtitan", "layout.cp=4" }, CONTEXT_GATHERED_RING },
        { { "layout.stack=torchtitan", "layout.cp=4", "layout.cp_heads=2" },
          CONTEXT_GATHERED_RING },
        { { "layout.stack=torchtitan", "layout.cp=4", "layout.cp_kind=ring" }, CONTEXT_RING },
        { { "layout.stack=torchtitan" }, CONTEXT_RING },              /* nothing is shared */
        { { "layout.stack=picotron", "layout.cp=4" }, CONTEXT_RING }, /* its base is torchtitan's */
    };
    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
        struct scenario *s = load_valid(MODEL, NULL, cases[i].overrides);
        if (s->layout_fields.cp_kind != (int)cases[i].kind)
            fail_msg("case %zu: %s", i,
                     context_kind_name((enum context_kind)s->layout_fields.cp_kind));
        scenario_destroy(s);
    }
}

/* PyTorch up to 2.8 takes FlashAttention-2 on Blackwell unless another kernel is asked for. */
static void test_attention_on_blackwell(void **state) {
    (void)state;
    static const struct {
        const char *overrides[5];
        enum attention_kernel kernel;
    } cases[] = {
        { { "layout.stack=hf-bf16", "cluster.hardware=b200-180g-sxm" }, ATTENTION_KERNEL_FLASH_2 },
        { { "layout.stack=hf-bf16", "cluster.hardware=h200-141g-sxm" }, ATTENTION_KERNEL_USUAL },
        { { "layout.stack=hf-bf16", "cluster.hardware=b200-180g-sxm", "training.attention=cudnn" },
          ATTENTION_KERNEL_CUDNN },
        { { "layout.stack=hf-bf16-2026", "cluster.hardware=b200-180g-sxm" },
          ATTENTION_KERNEL_USUAL },
        { { "layout.stack=torchtitan", "cluster.hardware=b200-180g-sxm" }, ATTENTION_KERNEL_USUAL },
        { { "layout.stack=none", "cluster.hardware=b200-180g-sxm" }, ATTENTION_KERNEL_USUAL },
    };
    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
        struct scenario *s = load_valid(MODEL, NULL, cases[i].overrides);
        const enum attention_kernel kernel = scenario_split(s).attention_kernel;
        if (kernel != cases[i].kernel) fail_msg("case %zu: kernel %d", i, (int)kernel);
        scenario_destroy(s);
    }
}

/* picotron's ranks hold contiguous tokens, unless the layout says otherwise. */
static void test_balance_of_sequences(void **state) {
    (void)state;
    static const struct {
        const char *overrides[5];
        bool balanced;
    } cases[] = {
        { { "layout.cp=2", "layout.stack=picotron", NULL }, false },
        { { "layout.cp=2", "layout.stack=picotron", "layout.cp_balanced=true", NULL }, true },
        { { "layout.cp=2", "layout.stack=picotron", "layout.cp_kind=all-to-all", NULL }, true },
        { { "layout.cp=1", "layout.stack=picotron", NULL }, true },
        { { "layout.cp=2", "layout.stack=megatron-core", NULL }, true },
    };
    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
        struct scenario *s = load_valid(MODEL, NULL, cases[i].overrides);
        if (s->layout_fields.cp_balanced != cases[i].balanced) fail_msg("case %zu", i);
        scenario_destroy(s);
    }
}

/* Which GPU leaves launches to the host goes by its own name, not by the file that the scenario
 * names. */
static void test_host_of_a_file(void **state) {
    (void)state;
    struct arena *arena = arena_create();
    struct error err = { 0 };
    char *text;
    size_t size;
    const char *shipped = SCENARIOS "/hardware/h100-80g-sxm.json";
    assert_true(file_read(shipped, &text, &size, &err));
    FILE *file = fopen("mine.json", "w");
    assert_non_null(file);
    for (const char *at = text; at < text + size; at++) {
        static const char key[] = "\"curves\": \"";
        if (strncmp(at, key, strlen(key)) == 0) {
            fprintf(file, "%s%s/hardware/", key, SCENARIOS);
            at += strlen(key);
        }
        fputc(*at, file);
    }
    free(text);
    assert_int_equal(fclose(file), 0);
    static const struct {
        const char *hardware;
        bool host;
    } cases[] = { { "h100-80g-sxm", true }, { "mine.json", true }, { "b200-180g-sxm", false } };
    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
        const char *const overrides[] = { arena_format(arena, "cluster.hardware=%s",
                                                       cases[i].hardware),
                                          "layout.stack=nemo-2025", NULL };
        struct scenario *s = load_valid(MODEL, NULL, overrides);
        if ((s->backend->step.host_forward_s > 0) != cases[i].host)
            fail_msg("%s", cases[i].hardware);
        scenario_destroy(s);
    }
    unlink("mine.json");
    arena_destroy(arena);
}

/* NeMo's recipes leave the launches to the host on Hopper alone. */
static void test_host_of_a_gpu(void **state) {
    (void)state;
    static const struct {
        const char *hardware, *stack;
        bool waits;
        double slower; /* than the Xeon server whose times the stack has */
    } cases[] = {
        { "cluster.hardware=h100-80g-sxm", "layout.stack=nemo-2025", true, 1 },
        { "cluster.hardware=h200-141g-sxm", "layout.stack=nemo-2025", true, 1 },
        { "cluster.hardware=b200-180g-sxm", "layout.stack=nemo-2025", false, 1 },
        { "cluster.hardware=b200-180g-sxm", "layout.stack=megatron-core", true, 1 },
        { "cluster.hardware=gh200-96g", "layout.stack=megatron-core", true, 1.45 },
        { "cluster.hardware=gh200-96g", "layout.stack=nemo-2025", true, 1.45 },
        { "cluster.hardware=gh200-96g", "layout.stack=paddleformers-2026", true, 1.45 },
        { "cluster.hardware=gb200-186g-nvl72", "layout.stack=megatron-core", true, 1.45 },
        { "cluster.hardware=gb200-186g-nvl72", "layout.stack=nemo-2025", false, 1.45 },
    };
    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
        const char *const overrides[] = { cases[i].hardware, cases[i].stack, NULL };
        struct scenario *s = load_valid(MODEL, NULL, overrides);
        assert_true((s->backend->step.host_forward_s > 0) == cases[i].waits);
        assert_true((s->backend->step.host_backward_s > 0) == cases[i].waits);
        const double slower = cases[i].slower, block = cases[i].waits ? slower : 0;
        const struct {
            double got, want;
        } times[] = {
            { s->backend->step.host_forward_s, s->stack->step.host_forward_s * block },
            { s->backend->step.host_backward_s, s->stack->step.host_backward_s * block },
            { s->backend->step.host_recompute_s, s->stack->step.host_recompute_s * block },
            { s->backend->step.host_frozen_s, s->stack->step.host_frozen_s * slower },
            { s->backend->step.host_step_s, s->stack->step.host_step_s * block },
            { s->backend->host_kernel_s, 25e-6 * slower },
        };
        for (size_t k = 0; k < sizeof times / sizeof times[0]; k++)
            if (fabs(times[k].got - times[k].want) > 1e-9)
                fail_msg("case %zu, time %zu: %g for %g s", i, k, times[k].got, times[k].want);
        scenario_destroy(s);
    }
}

/* Transformers gathers the samples of a padded micro-batch; those of one length have no padding. */
static void test_padding_taken_out(void **state) {
    (void)state;
#define TEXT(length)                                                                               \
    "dataset={ \"name\": \"d\", \"definition\": { \"name\": \"d\", \"kind\": \"distribution\", "   \
    "\"sample_count\": 64, \"vision_tiles\": 0, "                                                  \
    "\"language_tokens\": " length " } }"
    static const struct {
        const char *dataset;
        int micro_batch;
        bool want;
    } cases[] = {
        { "dataset=\"omnibal-real\"", 4, true },
        { "dataset=\"omnibal-real\"", 1, false },
        { TEXT("{ \"distribution\": \"uniform\", \"min\": 64, \"max\": 2048 }"), 4, true },
        { TEXT("{ \"distribution\": \"constant\", \"value\": 2048 }"), 4, false },
        { TEXT("2048"), 4, false },
    };
#undef TEXT
    struct arena *arena = arena_create();
    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
        const char *const overrides[] = {
            cases[i].dataset,
            "layout={ \"backend\": \"deepspeed\", \"stack\": \"hf-deepspeed\" }",
            "policy.batching=random",
            "training.global_batch.samples=128",
            arena_format(arena, "training.micro_batch.samples=%d", cases[i].micro_batch),
            NULL,
        };
        struct scenario *s = load_valid(MODEL, NULL, overrides);
        if (scenario_split(s).unpads_samples != cases[i].want)
            fail_msg("%s: %d", cases[i].dataset, cases[i].micro_batch);
        scenario_destroy(s);
    }
    arena_destroy(arena);
}

/* Megatron-LM and Megatron-core keep and reduce gradients in fp32 where weights are bf16 alone; in
 * fp16 the update copies them. What a stack states of another precision is not said. */
static void test_stack_of_a_precision(void **state) {
    (void)state;
    static const struct {
        const char *stack, *precision;
        double gradient_bytes, update_bytes;
        bool said;
    } cases[] = {
        { "megatron-core", "bf16", 4, 0, false },
        { "megatron-core", "fp16", 2, 4, true },
        { "megatron-core-2024", "bf16", 4, 0, false },
        { "megatron-core-2024", "fp16", 2, 4, true },
        { "megatron-core-simulated", "fp16", 2, 4, true },
        { "megatron-swift", "fp16", 2, 4, true },
        { "megatron-2022", "fp16", 2, 4, true },
        { "none", "fp16", 4, 0, false },
    };
    struct arena *arena = arena_create();
    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
        const char *const overrides[] = {
            arena_format(arena, "training.precision=%s", cases[i].precision),
            arena_format(arena, "layout.stack=%s", cases[i].stack), NULL
        };
        struct scenario *s = load_valid(MODEL, NULL, overrides);
        bool said = false;
        for (int64_t k = 0; s->assumptions[k] != NULL; k++)
            said = said || strstr(s->assumptions[k], "fp16_gradient_bytes") != NULL;
        const struct backend *b = s->backend;
        if (b->gradient_bytes != cases[i].gradient_bytes ||
            b->gradient_reduce_bytes != cases[i].gradient_bytes ||
            b->step.update_bytes != cases[i].update_bytes || said != cases[i].said)
            fail_msg("%s, %s: %g %g %g %d", cases[i].stack, cases[i].precision, b->gradient_bytes,
                     b->gradient_reduce_bytes, b->step.update_bytes, said);
        if (i > 0 && cases[i].said)
            assert_true(s->optimizer->update_bytes_moved > s->optimizer->state_bytes * 2 + 6);
        scenario_destroy(s);
    }
    arena_destroy(arena);
}

/* What a stack's hooks of ZeRO-3 take is taken too where FSDP's usual ZeRO-3 is not said. */
static void test_hooks_of_the_usual_zero_stage(void **state) {
    (void)state;
    static const struct {
        const char *stack;
        const char *overrides[6];
        double want_s;
    } cases[] = {
        { "torchtitan-eager", { "layout.backend=fsdp", "layout.pp=1", "layout.zero_stage=3" }, 3 },
        { "torchtitan-eager", { "layout.backend=fsdp", "layout.pp=1" }, 3 },
        { "torchtitan-eager", { "layout.backend=fsdp", "layout.pp=1", "layout.zero_stage=2" }, 1 },
        /* nobody to share with */
        { "torchtitan-eager",
          { "layout.backend=fsdp", "layout.pp=1", "layout.tp=1", "cluster.gpu_count=1" },
          1 },
        { "torchtitan-eager",
          { "layout.backend=fsdp", "layout.pp=1", "layout.tp=2", "cluster.gpu_count=2" },
          1 },
        { "torchtitan-eager",
          { "layout.backend=fsdp", "layout.pp=1", "layout.tp=1", "layout.cp=2",
            "cluster.gpu_count=2" },
          3 },
        /* another framework's stack, whose hooks this backend never took */
        { "hf-deepspeed",
          { "layout.backend=fsdp", "layout.pp=1", "layout.tp=1", "cluster.gpu_count=1" },
          1 },
        { "hf-deepspeed",
          { "layout.backend=deepspeed", "layout.pp=1", "layout.tp=1", "layout.zero_stage=3",
            "cluster.gpu_count=1" },
          3 },
    };
    struct arena *arena = arena_create();
    struct error err = { 0 };
    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
        const struct stack *shipped = stack_load(arena, SCENARIOS, cases[i].stack, &err);
        if (shipped == NULL) fail_msg("%s", err.text);
        struct stack stack = *shipped;
        stack.step.host_forward_s = 0.001;
        stack.host_sharded_s = 0.002;
        stack.host_divided_forward_s = 0;
        write_lines(MODEL, NULL);
        const struct scenario_options options = { .directory = SCENARIOS,
                                                  .overrides = cases[i].overrides,
                                                  .stack = &stack };
        struct scenario *s = scenario_load(&options, "s.json", &err);
        if (s == NULL) fail_msg("case %zu: %s", i, err.text);
        if (fabs(s->backend->step.host_forward_s - cases[i].want_s * 1e-3) > 1e-9)
            fail_msg("case %zu: %g s", i, s->backend->step.host_forward_s);
        scenario_destroy(s);
    }
    arena_destroy(arena);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_the_usual_stack),
        cmocka_unit_test(test_attention_of_another_gpu_is_not_told),
        cmocka_unit_test(test_overlap_as_the_stack_does),
        cmocka_unit_test(test_sharing_of_sequences),
        cmocka_unit_test(test_attention_on_blackwell),
        cmocka_unit_test(test_balance_of_sequences),
        cmocka_unit_test(test_host_of_a_file),
        cmocka_unit_test(test_host_of_a_gpu),
        cmocka_unit_test(test_padding_taken_out),
        cmocka_unit_test(test_stack_of_a_precision),
        cmocka_unit_test(test_hooks_of_the_usual_zero_stage),
    };
    return cmocka_run_group_tests(tests, enter_folder, leave_folder);
}
