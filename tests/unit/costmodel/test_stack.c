/* test_stack.c - stack files: what is shipped loads, names and layouts find their family, mistakes are
 * told. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>
#include <cmocka.h>
#include "tests/unit/costmodel/stack_fixture.h"

static void test_shipped(void **state) {
    (void)state;
    struct arena *arena = arena_create();
    struct stack_list list = fixture_stacks(arena);
    assert_true(list.count >= 10);
    for (int64_t i = 0; i < list.count; i++) {
        const struct stack *stack = list.stacks[i];
        for (int64_t k = 0; k < stack->factor_count; k++)
            if (stack->factors[k].calibrated_on[0] == NULL)
                fail_msg("%s has a factor of no rows", stack->name);
        if (stack->borrows && stack->factor_count == 0)
            fail_msg("%s borrows from %s, which has no factors", stack->name, stack->relative);
        bool exact = true;
        if (stack->pipeline_stack != NULL) stack_find(&list, stack->pipeline_stack, true, &exact);
        if (!exact) fail_msg("%s: no stack '%s'", stack->name, stack->pipeline_stack);
        for (const char **name = stack->refines; *name != NULL; name++)
            if (strcmp(stack_find(&list, *name, false, &exact)->name, *name) != 0)
                fail_msg("%s refines %s, which is no stack", stack->name, *name);
    }
    arena_destroy(arena);
}

/* A stack that runs a norm or a gated product as operators keeps what they keep. One kernel of a norm
 * under autocast moves 4.1 times as much as one in 16 bits, operators 11 times and more. */
static void test_eager_kernels_keep(void **state) {
    (void)state;
    struct arena *arena = arena_create();
    const struct stack_list list = fixture_stacks(arena);
    for (int64_t i = 0; i < list.count; i++) {
        const struct stack *stack = list.stacks[i];
        const bool norms = stack->kernel_traffic[FORM_RMS_NORM].forward > 5,
                   gate = stack->kernel_traffic[FORM_SWIGLU].forward > 1.2;
        if (norms != ((stack->block.keeps & KEEPS_FP32_NORMS) != 0))
            fail_msg("%s: its RMS norms, and fp32-norms", stack->name);
        if (gate && (stack->block.keeps & KEEPS_GATE_OUTPUT) == 0)
            fail_msg("%s: its gated product, and gate-output", stack->name);
    }
    arena_destroy(arena);
}

/* What a kernel computes decides where the file has figures for it, else its kind. */
static void test_kernel_traffic(void **state) {
    (void)state;
    static const struct {
        enum operator_kind kind;
        enum operator_form form;
        enum operator_pass pass;
        double want;
    } cases[] = {
        { OPERATOR_NORM, FORM_RMS_NORM, PASS_FORWARD, 6 },
        { OPERATOR_NORM, FORM_RMS_NORM, PASS_BACKWARD, 7 },
        { OPERATOR_NORM, FORM_LAYER_NORM, PASS_FORWARD, 2 },
        { OPERATOR_NORM, FORM_LAYER_NORM, PASS_BACKWARD, 3 },
        { OPERATOR_ELEMENTWISE, FORM_GELU_NEW, PASS_FORWARD, 9 },
        { OPERATOR_ELEMENTWISE, FORM_GELU_NEW, PASS_BACKWARD, 9.5 },
        { OPERATOR_ELEMENTWISE, FORM_GELU, PASS_FORWARD, 1.5 },
        { OPERATOR_ELEMENTWISE, FORM_ROTARY, PASS_FORWARD, 8 },
        { OPERATOR_ELEMENTWISE, FORM_ROTARY, PASS_BACKWARD, 10 },
        { OPERATOR_ELEMENTWISE, FORM_OTHER, PASS_BACKWARD, 1.5 },
        { OPERATOR_ELEMENTWISE, FORM_SOFTMAX, PASS_FORWARD, 11 },
        { OPERATOR_ELEMENTWISE, FORM_CAUSAL_SOFTMAX, PASS_BACKWARD, 12 }, /* as the other */
        { OPERATOR_ELEMENTWISE, FORM_DROPPED_CAUSAL_SOFTMAX, PASS_BACKWARD, 0.33 },
    };
    struct arena *arena = arena_create();
    struct error err = { 0 };
    const struct stack *stack = fixture_stack(arena, fixture_stack_text, &err);
    if (stack == NULL) fail_msg("%s", err.text);
    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
        struct operator_work kernel =
            operator_streaming("k", cases[i].kind, cases[i].pass, PRECISION_BF16, 1e9);
        kernel.form = cases[i].form;
        if (stack_traffic_factor(stack, &kernel) != cases[i].want)
            fail_msg("%s: got %g, want %g", operator_form_name(cases[i].form),
                     stack_traffic_factor(stack, &kernel), cases[i].want);
    }
    arena_destroy(arena);
    /* rotary, softmax in one kernel or several, the other element-wise ones; stated bytes stay */
    const struct stack usual = { .elementwise_traffic = 1.5,
                                 .rotary_traffic = 4,
                                 .softmax_traffic = 5 };
    static const struct {
        enum operator_form form;
        double traffic;
    } kernels[] = { { FORM_OTHER, 1.5 },        { FORM_SWIGLU, 1.5 },
                    { FORM_ROTARY, 4 },         { FORM_SOFTMAX, 5 },
                    { FORM_CAUSAL_SOFTMAX, 5 }, { FORM_DROPPED_CAUSAL_SOFTMAX, 5 },
                    { FORM_SOFTMAX_STEPS, 5 },  { FORM_STATED, 1 } };
    for (size_t i = 0; i < sizeof kernels / sizeof kernels[0]; i++) {
        struct operator_work kernel =
            operator_streaming("k", OPERATOR_ELEMENTWISE, PASS_FORWARD, PRECISION_BF16, 1e9);
        kernel.form = kernels[i].form;
        if (stack_traffic_factor(&usual, &kernel) != kernels[i].traffic)
            fail_msg("%s: got %g, want %g", operator_form_name(kernels[i].form),
                     stack_traffic_factor(&usual, &kernel), kernels[i].traffic);
    }
    /* one that leaves out what is masked tells nothing of an encoder's */
    const struct stack half = { .softmax_traffic = 1.25,
                                .kernel_traffic = { [FORM_CAUSAL_SOFTMAX] = { 0.75, 0.67 } } };
    struct operator_work softmax = operator_streaming("attention softmax", OPERATOR_ELEMENTWISE,
                                                      PASS_FORWARD, PRECISION_BF16, 1e9);
    softmax.form = FORM_CAUSAL_SOFTMAX;
    assert_true(stack_traffic_factor(&half, &softmax) == 0.75);
    softmax.form = FORM_SOFTMAX;
    assert_true(stack_traffic_factor(&half, &softmax) == 1.25);
}

/* What frameworks compute in fp32 between casts has none where all is fp32: of 6 times 2 bytes read
 * and written 3 times 4 remain, of 1.5 times one. */
static void test_traffic_in_fp32(void **state) {
    (void)state;
    static const struct {
        enum operator_kind kind;
        enum operator_form form;
        double fp32;
    } cases[] = {
        { OPERATOR_NORM, FORM_RMS_NORM, 3 },         { OPERATOR_NORM, FORM_LAYER_NORM, 1 },
        { OPERATOR_ELEMENTWISE, FORM_GELU_NEW, 9 },  { OPERATOR_ELEMENTWISE, FORM_OTHER, 1 },
        { OPERATOR_ELEMENTWISE, FORM_SOFTMAX, 5.5 }, { OPERATOR_ELEMENTWISE, FORM_ROTARY, 8 }
    };
    struct arena *arena = arena_create();
    struct error err = { 0 };
    const struct stack *stack = fixture_stack(arena, fixture_stack_text, &err);
    if (stack == NULL) fail_msg("%s", err.text);
    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++)
        for (int p = 0; p < 2; p++) {
            struct operator_work kernel = operator_streaming(
                "k", cases[i].kind, PASS_FORWARD, p ? PRECISION_TF32 : PRECISION_FP32, 1e9);
            kernel.form = cases[i].form;
            if (stack_traffic_factor(stack, &kernel) != cases[i].fp32)
                fail_msg("%s: got %g, want %g", operator_form_name(cases[i].form),
                         stack_traffic_factor(stack, &kernel), cases[i].fp32);
        }
    arena_destroy(arena);
}

/* Autocast computes a power in fp32 as well, and counts its bytes so: nothing doubles in fp32. */
static void test_autocast_in_fp32(void **state) {
    (void)state;
    struct arena *arena = arena_create();
    struct stack_list list = fixture_stacks(arena);
    static const struct {
        const char *stack;
        double in_16_bits, in_fp32;
    } cases[] = { { "hf-ddp", 19, 9.5 }, { "hf-deepspeed", 9, 9 } };
    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
        bool exact;
        const struct stack *stack = stack_find(&list, cases[i].stack, true, &exact);
        struct operator_work gelu =
            operator_streaming("gelu", OPERATOR_ELEMENTWISE, PASS_FORWARD, PRECISION_BF16, 1e9);
        gelu.form = FORM_GELU_NEW;
        assert_true(stack_traffic_factor(stack, &gelu) == cases[i].in_16_bits);
        gelu.precision = PRECISION_FP32;
        assert_true(stack_traffic_factor(stack, &gelu) == cases[i].in_fp32);
    }
    arena_destroy(arena);
}

static void test_memory(void **state) {
    (void)state;
    struct arena *arena = arena_create();
    struct error err = { 0 };
    const struct stack *stack = fixture_stack(
        arena,
        "{\"name\":\"t\",\"description\":\"d\",\"year\":2024,\"backend\":\"fsdp\","
        "\"keeps\":[\"key-value-copy\",\"gate-output\"],\"time_rows\":[\"t\"],\"memory_"
        "rows\":[\"r\"],"
        "\"placeholder_gradients\":true,\"fp8_gradient_bytes\":2,"
        "\"sources\":{\"fp8_gradient_bytes\":\"x\"}}",
        &err);
    if (stack == NULL) fail_msg("%s", err.text);
    assert_int_equal(stack->block.keeps, KEEPS_GATE_OUTPUT | KEEPS_KEY_VALUE_COPY);
    assert_true(stack->step.placeholder_gradients && stack->fp8_gradient_bytes == 2);
    assert_string_equal(stack->time_rows[0], "t");
    assert_null(stack->time_rows[1]);
    assert_string_equal(stack->memory_rows[0], "r");
    assert_null(stack->memory_rows[1]);
    /* Causes are what changes prices and memory, each with its source. */
    static const char *const causes[][3] = {
        { "keeps", "[\"key-value-copy\",\"gate-output\"]", "" },
        { "placeholder_gradients", "true", "" },
        { "fp8_gradient_bytes", "2", "x" },
    };
    assert_int_equal(stack->cause_count, 3);
    for (int i = 0; i < 3; i++) {
        assert_string_equal(stack->causes[i].name, causes[i][0]);
        assert_string_equal(stack->causes[i].value, causes[i][1]);
        assert_string_equal(stack->causes[i].source, causes[i][2]);
    }
    arena_destroy(arena);
}

/* A broken file stops those that do not name it too, and says why. */
static void test_a_broken_file(void **state) {
    (void)state;
    struct arena *arena = arena_create();
    struct error err = { 0 };
    char folder[] = "/tmp/ballast-test-XXXXXX";
    assert_non_null(mkdtemp(folder));
    const char *stacks = arena_format(arena, "%s/stacks", folder);
    assert_int_equal(mkdir(stacks, 0700), 0);
    static const char good[] = "{\"name\":\"good\",\"description\":\"d\",\"year\":2024,"
                               "\"backend\":\"fsdp\",\"sources\":{}}";
    const struct {
        const char *name, *text;
    } files[] = { { "good.json", good }, { ".#good.json", "{" }, { "broken.json", "{\n  broken" } };
    for (size_t i = 0; i < 3; i++) {
        FILE *file = fopen(arena_format(arena, "%s/%s", stacks, files[i].name), "w");
        fputs(files[i].text, file);
        fclose(file);
        struct stack_list list;
        if (i < 2 && (!stack_load_all(arena, folder, &list, &err) || list.count != 1))
            fail_msg("%s: %s", files[i].name, err.text);
    }
    assert_null(stack_load(arena, folder, "good", &err));
    assert_non_null(strstr(err.text, "stacks/broken.json:2:3: error: expected a key"));
    assert_non_null(strstr(err.text, "hint: write \"broken\""));
    assert_non_null(strstr(err.text, "every file of "));
    for (size_t i = 0; i < 3; i++)
        unlink(arena_format(arena, "%s/%s", stacks, files[i].name));
    rmdir(stacks);
    rmdir(folder);
    arena_destroy(arena);
}

static void test_mistakes(void **state) {
    (void)state;
    static const struct {
        const char *text, *want;
    } cases[] = {
        { "{\"name\":\"t\",\"description\":\"d\",\"year\":2024,\"backend\":\"fsdp\","
          "\"norm_traffic\":2,\"sources\":{}}",
          "has no source" },
        { "{\"name\":\"t\",\"description\":\"d\",\"year\":2024,\"backend\":\"fsdp\","
          "\"factors\":[{\"gpu\":\"a100\",\"precision\":\"bf16\",\"kernel_time_factor\":1,"
          "\"calibrated_on\":[]}],\"sources\":{}}",
          "names no row" },
        { "{\"name\":\"t\",\"description\":\"d\",\"year\":2024,\"backend\":\"fsdp\","
          "\"factors\":\"x\",\"sources\":{}}",
          "must be a list" },
        { "{\"name\":\"t\",\"description\":\"d\",\"year\":2024,\"backend\":\"fsdp\","
          "\"factors\":[{\"gpu\":\"a100\",\"precision\":\"bf16\",\"kernel_time_factor\":1,"
          "\"calibrated_on\":[\"r\"],\"calibrated_runs\":[]}],\"sources\":{}}",
          "one entry for each of the 1 rows" },
        { "{\"name\":\"t\",\"description\":\"d\",\"year\":2024,\"backend\":\"fsdp\","
          "\"factors\":[{\"gpu\":\"a100\",\"precision\":\"bf16\",\"kernel_time_factor\":1,"
          "\"calibrated_on\":[\"r\"],\"calibrated_runs\":[[8,0,32,4096]]}],\"sources\":{}}",
          "GPUs, seconds a step" },
        { "{\"name\":\"t\",\"description\":\"d\",\"year\":2024,\"backend\":\"fsdp\","
          "\"keeps\":[\"gate-output\",\"everything\"],\"sources\":{}}",
          "is no tensor that a block can keep" },
        { "{\"name\":\"t\",\"description\":\"d\",\"year\":2024,\"backend\":\"fsdp\","
          "\"kernel_traffic\":{\"norm\":[1,2]},\"sources\":{\"kernel_traffic\":\"x\"}}",
          "is no kernel" },
        { "{\"name\":\"t\",\"description\":\"d\",\"year\":2024,\"backend\":\"fsdp\","
          "\"kernel_traffic\":{\"gelu\":[1]},\"sources\":{\"kernel_traffic\":\"x\"}}",
          "two numbers" },
        { "{\"name\":\"t\",\"description\":\"d\",\"year\":2024,\"backend\":\"fsdp\","
          "\"kernel_traffic\":{\"gelu\":[1,0]},\"sources\":{\"kernel_traffic\":\"x\"}}",
          "from 0.1 to 100" },
        { "{\"name\":\"t\",\"description\":\"d\",\"year\":2024,\"backend\":\"fsdp\","
          "\"kernel_traffic\":{\"gelu\":[1,1]},\"sources\":{}}",
          "has no source" },
        { "{\"name\":\"t\",\"description\":\"d\",\"year\":2024,\"backend\":\"fsdp\","
          "\"refines\":[\"u\"],\"sources\":{}}",
          "nothing tells when it does" },
        { "{\"name\":\"t\",\"description\":\"d\",\"year\":2024,\"backend\":\"fsdp\","
          "\"told_by\":[\"a word\"],\"sources\":{}}",
          "it refines no stack" },
        { "{\"name\":\"t\",\"description\":\"d\",\"year\":2024,\"backend\":\"fsdp\","
          "\"refines\":[\"u\"],\"told_by\":[\" \"],\"sources\":{}}",
          "must not be blank" },
        { "{\"name\":\"t\",\"description\":\"d\",\"year\":2024,\"backend\":\"fsdp\","
          "\"chunk_tokens\":256,\"sources\":{\"chunk_tokens\":\"x\"}}",
          "/chunk_tokens: is of a chunked head" },
        { "{\"name\":\"t\",\"description\":\"d\",\"year\":2024,\"backend\":\"fsdp\","
          "\"chunked_head\":\"copied\",\"chunk_fp32\":true,"
          "\"sources\":{\"chunked_head\":\"x\",\"chunk_fp32\":\"x\"}}",
          "/chunk_fp32: is of a head that makes its logits anew" },
    };
    struct arena *arena = arena_create();
    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
        struct error err = { 0 };
        if (fixture_stack(arena, cases[i].text, &err) != NULL ||
            strstr(err.text, cases[i].want) == NULL)
            fail_msg("case %zu: \"%s\"", i, err.text);
    }
    arena_destroy(arena);
}

/* As a stack states what shall be as without its base. */
static void test_states_no_chunks(void **state) {
    (void)state;
    static const char text[] =
        "{\"name\":\"t\",\"description\":\"d\",\"year\":2026,"
        "\"base\":\"hf-fsdp-chunked-loss-1.13\",\"chunked_head\":\"no\",\"chunk_fp32\":false,"
        "\"chunk_tokens\":0,\"chunk_sum_bytes\":0,"
        "\"sources\":{\"chunked_head\":\"x\",\"chunk_tokens\":\"x\","
        "\"chunk_sum_bytes\":\"x\",\"chunk_fp32\":\"x\"}}";
    struct arena *arena = arena_create();
    struct error err = { 0 };
    const struct stack *stack = fixture_stack(arena, text, &err);
    if (stack == NULL) fail_msg("%s", err.text);
    assert_int_equal(stack->block.chunked_head, CHUNKED_HEAD_NO);
    assert_int_equal(stack->block.chunk.tokens, 0);
    arena_destroy(arena);
}

static void test_find(void **state) {
    (void)state;
    static const struct {
        const char *name, *want; /* NULL: none */
        bool exact;
    } cases[] = {
        { "nemo-2025", "nemo-2025", true },
        { "llm-foundry-fsdp1", "llm-foundry-2023", true },
        { "nemo-2024", "nemo-2024", true },
        { "nemo-2023", "nemo-2024", false },
        { "nemo-2026", "nemo-2025", false },
        { "megatron-deepspeed-2021", "megatron-deepspeed-2021", true },
        { "megatron-2022", "megatron-2022", true },
        { "megatron-2021", "megatron-2022", false },
        { "megatron-core-2025", "megatron-core", true },
        { "megatron-lm-2025", "megatron-core", true },
        { "megatron-lm-2023", "megatron-2022", false },
        { "nemo-1999", "nemo-2025", false }, /* no year of its software, nor is a width */
        { "nemo-h2048", "nemo-2025", false },
        { "nemo-2024x", "nemo-2025", false },
        { "nemo-20240101", "nemo-2025", false },
        { "nemo-4096-2024", "nemo-2024", true },
        { "nemo", "nemo-2025", false },      /* of two, the newest */
        { "nemo-25.04", "nemo-2025", true }, /* a release by year and month */
        { "NeMo 24.07 (H100)", "nemo-2024", true },
        { "nemo-24.13", "nemo-2025", false },
        { "nemo-124.05", "nemo-2025", false },
        { "Megatron-LM core_r0.9", "megatron-core", false },
        { "Megatron Core 2024", "megatron-core-2024", true },
        { "HuggingFace Trainer, FSDP", "hf-fsdp-2025", false }, /* words that stand apart */
        { "FSDP by Lightning", "lightning-fsdp", true },
        { "PyTorch Lightning", "hf-ddp", true }, /* its usual strategy */
        { "Lightning Thunder", "thunder", true },
        { "NeMo Lightning 2025", "nemo-2025", true },
        { "llama-factory DDP", "llama-factory-ddp", true },
        { "LLaMA-Factory 2024", "llama-factory", true },
        { "chfx fsdp", "pytorch-fsdp2", true },
        { "fms-fsdp-2024", "fms-fsdp", true },
        { "jax-fsdp-2025", "jax-fsdp", true },
        { "NeMo 1.23", "nemo-2024", true },
        { "mcore r0.6", "megatron-core-2024", true },
        { "(DeepSpeed)", "hf-deepspeed-2025", false },
        { "LLM Foundry", "llm-foundry-2024", false },
        { "llm-foundry-2023", "llm-foundry-2023", true },
        { "llm.c", "llm-c", true },
        { "LLM.Q", "llm-q", true },
        { "...", NULL, false },
        { "ms-swift 3.6 (ZeRO-2)", "ms-swift", false },
        { "Megatron-SWIFT 2025", "megatron-swift", true },
        { "modelscope/ms-swift", "ms-swift", false }, /* of two of one year, by the layout */
        { "KempnerInstitute/KempnerForge", "kempnerforge", true },
        { "mlcommons/training_results_v5.1 (NVIDIA)", "nemo-2025", true },
        { "arXiv 2312.12391 (vTrain)", "megatron-deepspeed-2023", true },
        { "QwenLM/Qwen", "qwen-deepspeed", true },
        { "nanotron", "nanotron", true },
        { "something else", NULL, false },
        { "torchtitan-2024", "torchtitan-2024", true }, /* its loss was not compiled yet */
        { "torchtitan-2025", "torchtitan", true },
        { "torchtitan-2026-05", "torchtitan-chunked", true },
        { "torchtitan-2026-07", "torchtitan-chunked", true },
        { "torchtitan-eager 2026-11", "torchtitan-eager-chunked", true },
        { "torchtitan-eager-chunked-2026", "torchtitan-eager-chunked", true },
        { "torchtitan-2026", "torchtitan-2026", true },
        { "fsdp2", "pytorch-fsdp2", true },
        { "nanogpt-2025", "nanogpt-2025", true }, /* its loss is compiled with the model */
        { "nanogpt-2023", "nanogpt", false },
        { "my-hf-trainer", "hf-deepspeed-2025", false },
        { "hf-compile-2026", "hf-compile", false }, /* of 2025 */
        { "HuggingFace Trainer, FSDP, 2026", "hf-fsdp-2026", true },
        { "my-nanoGPT 2026", "nanogpt-2026", true },
        { "nanogpt-2027", "nanogpt-2026", false },
        { "nanogpt", "nanogpt", true }, /* without a year: before PyTorch 2.11 */
        { "fsdp2-prime-rl-2026", "torchtitan-eager", false }, /* not the stack of "fsdp2 2026" */
        { "Transformers, torch.compile", "hf-compile", true },
        { "diffusers-2025", "hf-ddp", false }, /* of 2022 */
        { "diffusers with FSDP", "hf-fsdp", true },
        { "diffusers-deepspeed", "hf-deepspeed", false },
        { "transformers-fsdp-2024", "hf-fsdp", true },
        { "transformers-fsdp-bf16-2024", "hf-bf16", true },
        { "transformers-fsdp-foak-2024", "hf-unsloth", true },
        { "transformers-foak-bf16-2024", "hf-unsloth-bf16", true },
        { "DeepSpeed-Megatron 2021", "megatron-deepspeed-2021", true },
        { "mosaicml", "llm-foundry-2024", true },
        { "lit-gpt", "litgpt", true },
        { "DTensor", "pytorch-fsdp2", true },
        { "VeOmni", "pytorch-fsdp2", true },
        { "Torch Titan", "torchtitan-2026", false },
        { "torch titan 2025", "torchtitan", true },
        { "Hugging Face Trainer 2025", "hf-deepspeed-2025", true },
        { "Fully Sharded Data Parallel", "pytorch-fsdp2", true },
        { "LLaMAFactory", "llama-factory", true },
        { "MSSwift", "ms-swift", false },
        { "h-f", NULL, false },
        { "LLM Foundry FSDP 128 GPUs", "llm-foundry-2024", false },
        { "LLM Foundry FSDP, 1 node", "llm-foundry-2024", false },
        { "PyTorch FSDP + FlashAttn2", "pytorch-fsdp2", true },
        { "MaxText A 30", "maxtext", true },
        { "chfx", NULL, false }, /* a word within a word */
        { "ctrl-net", NULL, false },
        { "transformersfsdp", NULL, false },
    };
    struct arena *arena = arena_create();
    struct stack_list list = fixture_stacks(arena);
    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
        bool exact;
        const struct stack *stack = stack_find(&list, cases[i].name, false, &exact);
        const char *got = stack != NULL ? stack->name : "none";
        if (strcmp(got, cases[i].want != NULL ? cases[i].want : "none") || exact != cases[i].exact)
            fail_msg("%s: got %s, %s", cases[i].name, got, exact ? "exact" : "a relative");
    }
    arena_destroy(arena);
}

/* Sources that name every release alike are told apart by the ids of their rows. */
static void test_stack_of_run(void **state) {
    (void)state;
    static const char *const cases[][3] = {
        /* source and id, stack that the row names, stack of the run */
        { "NVIDIA/dgxc-benchmarking dgxc_v24.11.1_8b", "nemo-2025", "nemo-2024" },
        { "NVIDIA/dgxc-benchmarking dgxc_v25.04_8b", "nemo-2025", "nemo-2025" },
        { "elsewhere dgxc_v24.11.1_8b", "nemo-2025", "nemo-2025" },
        { "NVIDIA/dgxc-benchmarking dgxc_v24.11.1_maxtext_70b", "jax-fsdp", "maxtext" },
        { "NVIDIA/dgxc-benchmarking dgxc_v24.11.1_paxml_5b", "jax-fsdp", "jax-fsdp" },
        { "bigscience-workshop/bigscience tr11_L633", "megatron-deepspeed-2021",
          "megatron-deepspeed-bloom" },
        { "arXiv 2201.11990 (MT-NLG) mtnlg_280", "megatron-deepspeed-2021",
          "megatron-deepspeed-2021" },
    };
    struct arena *arena = arena_create();
    struct stack_list list = fixture_stacks(arena);
    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
        bool exact;
        const struct stack *named = stack_find(&list, cases[i][1], false, &exact);
        assert_string_equal(stack_of_run(&list, named, cases[i][0])->name, cases[i][2]);
    }
    arena_destroy(arena);
}

/* A layout chooses between stacks of one word and year alone. */
static void test_find_by_layout(void **state) {
    (void)state;
    static const char *const cases[][3] = {
        /* name, undivided, divided by TP or PP */
        { "modelscope/ms-swift", "ms-swift", "megatron-swift" },
        { "ms-swift-deepspeed-2025", "ms-swift", "ms-swift" },
        { "transformers-deepspeed-2023", "hf-deepspeed", "hf-deepspeed" },
        { "nemo-2024", "nemo-2024", "nemo-2024" },
    };
    struct arena *arena = arena_create();
    struct stack_list list = fixture_stacks(arena);
    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
        bool exact;
        assert_string_equal(stack_find(&list, cases[i][0], false, &exact)->name, cases[i][1]);
        assert_string_equal(stack_find(&list, cases[i][0], true, &exact)->name, cases[i][2]);
    }
    arena_destroy(arena);
}

/* What names a stack, or fills in measured runs alone, prices nothing. */
static void test_causes_are_of_prices(void **state) {
    (void)state;
    static const char *const others[] = { "name",
                                          "words",
                                          "projects",
                                          "refines",
                                          "told_by",
                                          "packs_samples",
                                          "packed_sample_tokens",
                                          "year",
                                          "sources",
                                          "offloads_to_fit" };
    struct arena *arena = arena_create();
    struct stack_list list;
    struct error err = { 0 };
    assert_true(stack_load_all(arena, SCENARIOS, &list, &err));
    for (int64_t i = 0; i < list.count; i++)
        for (int64_t c = 0; c < list.stacks[i]->cause_count; c++)
            for (size_t o = 0; o < sizeof others / sizeof others[0]; o++)
                if (strcmp(list.stacks[i]->causes[c].name, others[o]) == 0)
                    fail_msg("%s: %s", list.stacks[i]->name, others[o]);
    arena_destroy(arena);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_shipped),
        cmocka_unit_test(test_eager_kernels_keep),
        cmocka_unit_test(test_kernel_traffic),
        cmocka_unit_test(test_traffic_in_fp32),
        cmocka_unit_test(test_autocast_in_fp32),
        cmocka_unit_test(test_memory),
        cmocka_unit_test(test_a_broken_file),
        cmocka_unit_test(test_mistakes),
        cmocka_unit_test(test_states_no_chunks),
        cmocka_unit_test(test_find),
        cmocka_unit_test(test_stack_of_run),
        cmocka_unit_test(test_find_by_layout),
        cmocka_unit_test(test_causes_are_of_prices),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
