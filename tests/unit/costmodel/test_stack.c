/* test_stack.c - stack files: what is shipped loads, names find their family, factors reach
 * prices. */
#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>
#include <cmocka.h>
#include "costmodel/cost_model.h"
#include "costmodel/stack.h"
#include "costmodel/step_band.h"

#define SCENARIOS BALLAST_SOURCE_DIR "/scenarios"

static struct stack_list all(struct arena *arena) {
    struct stack_list list;
    struct error err = { 0 };
    if (!stack_load_all(arena, SCENARIOS, &list, &err)) fail_msg("%s", err.text);
    return list;
}

/* A stack that runs a norm or a gated product as operators keeps what they keep. One kernel of a norm
 * under autocast moves 4.1 times as much as one in 16 bits, operators 11 times and more. */
static void test_eager_kernels_keep(void **state) {
    (void)state;
    struct arena *arena = arena_create();
    const struct stack_list list = all(arena);
    for (int64_t i = 0; i < list.count; i++) {
        const struct stack *stack = list.stacks[i];
        const bool norms = stack->kernel_traffic[FORM_RMS_NORM].forward > 5,
                   gate = stack->kernel_traffic[FORM_SWIGLU].forward > 1.2;
        if (norms != ((stack->keeps & KEEPS_FP32_NORMS) != 0))
            fail_msg("%s: its RMS norms, and fp32-norms", stack->name);
        if (gate && (stack->keeps & KEEPS_GATE_OUTPUT) == 0)
            fail_msg("%s: its gated product, and gate-output", stack->name);
    }
    arena_destroy(arena);
}

static void test_shipped(void **state) {
    (void)state;
    struct arena *arena = arena_create();
    struct stack_list list = all(arena);
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
    }
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
        { "FSDP by Lightning", "hf-fsdp", true },
        { "PyTorch Lightning", "hf-ddp", true }, /* its usual strategy */
        { "Lightning Thunder", "thunder", true },
        { "NeMo Lightning 2025", "nemo-2025", true },
        { "llama-factory DDP", "hf-ddp-2025", false },
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
        { "torchtitan-2024", "pytorch-fsdp2", true }, /* its loss was not compiled yet */
        { "torchtitan-2025", "torchtitan", true },
        { "torchtitan-2026-05", "torchtitan-chunked", true },
        { "torchtitan-2026-07", "torchtitan-chunked", true },
        { "torchtitan-eager 2026-11", "torchtitan-eager-chunked", true },
        { "torchtitan-eager-chunked-2026", "torchtitan-eager-chunked", true },
        { "torchtitan-2026", "torchtitan-2026", true },
        { "fsdp2", "pytorch-fsdp2", true },
        { "nanogpt-2025", "nanogpt", true }, /* its loss is compiled with the model */
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
        { "chfx", NULL, false }, /* a word within a word */
        { "ctrl-net", NULL, false },
        { "transformersfsdp", NULL, false },
    };
    struct arena *arena = arena_create();
    struct stack_list list = all(arena);
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
    struct stack_list list = all(arena);
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
    struct stack_list list = all(arena);
    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
        bool exact;
        assert_string_equal(stack_find(&list, cases[i][0], false, &exact)->name, cases[i][1]);
        assert_string_equal(stack_find(&list, cases[i][0], true, &exact)->name, cases[i][2]);
    }
    arena_destroy(arena);
}

/* One factor on A100, none on H100; thrice the traffic of norms in backward; twice the traffic of
 * norms; a fifth of TP traffic hidden. */
static const char text[] =
    "{\"name\":\"t\",\"description\":\"d\",\"year\":2024,\"backend\":\"fsdp\",\"norm_traffic\":2,"
    "\"norm_backward_traffic\":3,\"elementwise_traffic\":1.5,\"rotary_traffic\":4,"
    "\"kernel_traffic\":{\"rms-norm\":[6,7],\"gelu-new\":[9,9.5],\"rotary\":[8,10],"
    "\"softmax\":[11,12],\"dropped-causal-softmax\":[0.75,0.33]},"
    "\"softmax_traffic\":5,\"tensor_hidden_fraction\":0.2,\"attention_forward_time\":1.5,"
    "\"factors\":[{\"gpu\":\"a100\",\"precision\":\"bf16\",\"kernel_time_factor\":1.1,"
    "\"attention_time_factor\":2,\"calibrated_on\":[\"r\"]}],"
    "\"sources\":{\"kernel_traffic\":\"x\",\"norm_traffic\":\"x\",\"norm_backward_traffic\":\"x\","
    "\"elementwise_traffic\":\"x\",\"rotary_traffic\":\"x\",\"softmax_traffic\":\"x\",\"tensor_"
    "hidden_fraction\":\"x\","
    "\"attention_forward_time\":\"x\"}}";

static const struct stack *load_text(struct arena *arena, const char *content, struct error *err) {
    char path[] = "/tmp/ballast-stack-XXXXXX.json";
    const int file = mkstemps(path, 5);
    FILE *out = fdopen(file, "w");
    fputs(content, out);
    fclose(out);
    const struct stack *stack = stack_load(arena, SCENARIOS, path, err);
    remove(path);
    return stack;
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
    const struct stack *stack = load_text(arena, text, &err);
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

static void test_doubt(void **state) {
    (void)state;
    static const struct {
        double factor, error, want;
    } cases[] = {
        { 1.0, 0.02, 0.02 }, { 1.5, 0, 0 },     { 3, 0.02, 0.5 },
        { 0.5, 0, 0.6 },     { 1.6, 0.3, 0.3 }, { 0.2, 0, 0.99 },
    };
    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
        const struct stack_factor f = { .kernel_time_factor = cases[i].factor,
                                        .fit_error = cases[i].error };
        assert_true(fabs(stack_factor_doubt(&f) - cases[i].want) < 1e-8);
    }
}

static void test_prices(void **state) {
    (void)state;
    struct arena *arena = arena_create();
    struct error err = { 0 };
    const struct stack *stack = load_text(arena, text, &err);
    if (stack == NULL) fail_msg("%s", err.text);
    struct cluster_network network = { .gpus_per_node = 8, .nic_bytes_per_s_per_gpu = 25e9 };
    struct cost_model *plain = cost_model_create(arena, SCENARIOS, "a100-80g-sxm", &network, &err);
    struct cost_model *with = cost_model_create(arena, SCENARIOS, "a100-80g-sxm", &network, &err);
    cost_model_use_stack(with, stack, PRECISION_BF16, true);
    const struct communicator group = { 8, 1, 8, 1 };
    const struct operator_work works[] = {
        operator_matmul("m", PASS_FORWARD, PRECISION_BF16, 4096, 4096, 4096),
        operator_attention("a", PASS_FORWARD, PRECISION_BF16, 4096, 4096.0 * 4096, 32, 32, 128,
                           true),
        operator_attention("a", PASS_BACKWARD, PRECISION_BF16, 4096, 4096.0 * 4096, 32, 32, 128,
                           true),
        operator_collective("c", OPERATOR_ALL_GATHER, PASS_FORWARD, COMMUNICATOR_TENSOR, 1e8),
        operator_collective("c", OPERATOR_ALL_GATHER, PASS_UPDATE, COMMUNICATOR_DATA, 1e8),
    };
    /* a tensor-parallel group waits for its last rank besides, and nothing hides that */
    const double gathers_s = cost_model_price_isolated(plain, &works[3], &group).seconds,
                 waits_s = cost_model_price(plain, &works[3], &group).seconds - gathers_s,
                 want[] = { 1.1, 1.1 * 2 * 1.5, 1.1 * 2,
                            (0.8 * gathers_s + waits_s) / (gathers_s + waits_s), 1 };
    for (size_t i = 0; i < sizeof works / sizeof works[0]; i++) {
        const double ratio = cost_model_price(with, &works[i], &group).seconds /
                             cost_model_price(plain, &works[i], &group).seconds;
        if (fabs(ratio - want[i]) > 1e-9)
            fail_msg("operator %zu: got %g, want %g", i, ratio, want[i]);
        /* Microbenchmarks know no stack. */
        assert_true(cost_model_price_isolated(with, &works[i], &group).seconds ==
                    cost_model_price_isolated(plain, &works[i], &group).seconds);
    }
    const struct operator_work norm =
        operator_streaming("n", OPERATOR_NORM, PASS_FORWARD, PRECISION_BF16, 1e9);
    const struct price a = cost_model_price(plain, &norm, NULL),
                       b = cost_model_price(with, &norm, NULL);
    assert_true(fabs(b.seconds - 1.1 * (a.launch_s + 2 * a.memory_s)) < 1e-12);
    const struct operator_work backward =
        operator_streaming("n", OPERATOR_NORM, PASS_BACKWARD, PRECISION_BF16, 1e9);
    const struct price c = cost_model_price(plain, &backward, NULL),
                       d = cost_model_price(with, &backward, NULL);
    assert_true(fabs(d.seconds - 1.1 * (c.launch_s + 3 * c.memory_s)) < 1e-12);
    assert_false(stack_on(stack, "h100-80g-sxm", PRECISION_BF16).calibrated);
    assert_true(stack_on(stack, "a100-40g-sxm", PRECISION_FP16).calibrated);
    assert_false(stack_on(stack, "a100-40g-sxm", PRECISION_FP8).calibrated);
    assert_false(stack_on(stack, "a100-40g-sxm", PRECISION_FP4).calibrated);
    arena_destroy(arena);
}

/* Kernels of a stack whose file has no factors take what bands.json says of such stacks more, with
 * its relative's factors too; traffic does not. */
static void test_uncalibrated(void **state) {
    (void)state;
    struct arena *arena = arena_create();
    struct error err = { 0 };
    assert_false(stack_load(arena, SCENARIOS, "nemo-2024", &err)->uncalibrated);
    assert_false(stack_load(arena, SCENARIOS, "megatron-core-simulated", &err)->uncalibrated);
    const struct stack *borrowing = stack_load(arena, SCENARIOS, "torchtitan", &err);
    assert_true(borrowing->uncalibrated && borrowing->borrows);
    struct stack as_fitted = *borrowing;
    as_fitted.uncalibrated = false;
    struct cluster_network network = { .gpus_per_node = 8, .nic_bytes_per_s_per_gpu = 25e9 };
    struct cost_model *more = cost_model_create(arena, SCENARIOS, "h200-141g-sxm", &network, &err);
    struct cost_model *plain = cost_model_create(arena, SCENARIOS, "h200-141g-sxm", &network, &err);
    cost_model_use_stack(more, borrowing, PRECISION_BF16, true);
    cost_model_use_stack(plain, &as_fitted, PRECISION_BF16, true);
    const double ratio =
        cost_model_stack(more).kernel_time_factor / cost_model_stack(plain).kernel_time_factor;
    assert_true(ratio > 1 && ratio < 1.1);
    const struct communicator group = { 8, 1, 8, 1 };
    const struct operator_work matmul = operator_matmul("m", PASS_FORWARD, PRECISION_BF16, 4096,
                                                        4096, 4096),
                               gather = operator_collective("c", OPERATOR_ALL_GATHER, PASS_FORWARD,
                                                            COMMUNICATOR_DATA, 1e8);
    assert_true(fabs(cost_model_price(more, &matmul, NULL).seconds /
                         cost_model_price(plain, &matmul, NULL).seconds -
                     ratio) < 1e-9);
    assert_true(cost_model_price(more, &gather, &group).seconds ==
                cost_model_price(plain, &gather, &group).seconds);
    arena_destroy(arena);
}

/* Kernels of a model that writes no text take encoder_factor of bands.json in place of that, but
 * where a stack stands for a simulator, or for the place that such models were measured at. */
static void test_encoders(void **state) {
    (void)state;
    struct arena *arena = arena_create();
    struct error err = { 0 };
    static const struct {
        const char *stack, *hardware;
        bool held_back, takes;
    } cases[] = { { "torchtitan", "a100-80g-sxm", false, true },
                  { "megatron-core", "a100-80g-sxm", false, true },
                  { "torchtitan", "a100-80g-sxm", true, false },
                  { "easyllm", "a100-80g-sxm", false, true },
                  { "dip-2025", "a100-80g-sxm", false, true },
                  { "dip-2025", "h800-80g-sxm", false, false },
                  { "megatron-core-simulated", "h100-80g-sxm", false, false } };
    struct cluster_network network = { .gpus_per_node = 8, .nic_bytes_per_s_per_gpu = 25e9 };
    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
        struct stack own = *stack_load(arena, SCENARIOS, cases[i].stack, &err);
        own.held_back = cases[i].held_back;
        struct cost_model *of_text =
            cost_model_create(arena, SCENARIOS, cases[i].hardware, &network, &err);
        struct cost_model *other =
            cost_model_create(arena, SCENARIOS, cases[i].hardware, &network, &err);
        cost_model_use_stack(of_text, &own, PRECISION_BF16, true);
        cost_model_use_stack(other, &own, PRECISION_BF16, false);
        const struct step_bands *bands = cost_model_bands(of_text);
        const double usual = own.uncalibrated ? bands->uncalibrated_stack_factor : 1,
                     want = cases[i].takes ? bands->encoder_factor / usual : 1,
                     got = cost_model_stack(other).kernel_time_factor /
                           cost_model_stack(of_text).kernel_time_factor;
        assert_true(bands->encoder_factor > 1 && bands->encoder_factor < 1.4);
        if (fabs(got - want) > 1e-9)
            fail_msg("case %zu, %s: got %g, want %g", i, cases[i].stack, got, want);
        assert_true(cost_model_encoder_factor(of_text) == 1);
        assert_true(cost_model_encoder_factor(other) ==
                    (cases[i].takes ? bands->encoder_factor : 1));
    }
    arena_destroy(arena);
}

/* A stack's own gap stands in the profile's place, and what no operator stands for comes on top;
 * of a matmul that is cut into pieces once. */
static void test_gaps(void **state) {
    (void)state;
    struct arena *arena = arena_create();
    struct error err = { 0 };
    struct stack own = *stack_load(arena, SCENARIOS, "megatron-core", &err);
    struct cluster_network network = { .gpus_per_node = 8, .nic_bytes_per_s_per_gpu = 25e9 };
    struct operator_work norm = operator_streaming("n", OPERATOR_NORM, PASS_FORWARD, PRECISION_BF16,
                                                   1e7),
                         matmul = operator_matmul("m", PASS_FORWARD, PRECISION_BF16, 64, 64, 64);
    struct price at[3];
    static const double gaps_s[] = { 0, 2e-6, 5e-6 };
    struct cost_model *model = NULL;
    for (int i = 0; i < 3; i++) {
        own.launch_gap_s = gaps_s[i];
        model = cost_model_create(arena, SCENARIOS, "a100-80g-sxm", &network, &err);
        cost_model_use_stack(model, &own, PRECISION_BF16, true);
        at[i] = cost_model_price(model, &norm, NULL);
    }
    const double factor = cost_model_stack(model).kernel_time_factor;
    assert_true(fabs(at[0].launch_s - 8e-6 * factor) < 1e-12);
    assert_true(fabs(at[2].launch_s - at[1].launch_s - 3e-6 * factor) < 1e-12);
    assert_true(fabs(at[2].seconds - at[1].seconds - 3e-6 * factor) < 1e-12);
    const double whole_s = cost_model_price(model, &matmul, NULL).launch_s;
    matmul.pieces = 4;
    const double piece_s = cost_model_price(model, &matmul, NULL).launch_s;
    assert_true(fabs(whole_s - piece_s - 6e-6 * factor) < 1e-12);
    arena_destroy(arena);
}

/* Of a stack's kernels those that compute wait for the slowest GPU of the job; without a stack
 * none. */
static void test_slowest_gpu(void **state) {
    (void)state;
    struct arena *arena = arena_create();
    struct error err = { 0 };
    /* expected largest of n standard normal variables, Tippett 1925: 0.564, 1.424, 2.344, 3.241 */
    static const struct {
        int64_t gpu_count;
        double want;
    } cases[] = { { 0, 0 }, { 1, 0 }, { 2, 0.564 }, { 8, 1.424 }, { 64, 2.344 }, { 1024, 3.241 } };
    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
        const double got = (stack_slowest_gpu_time(cases[i].gpu_count) - 1) * 5.4 / 0.08;
        if (fabs(got - cases[i].want) > 0.03)
            fail_msg("%ld GPUs: got %g deviations, want %g", (long)cases[i].gpu_count, got,
                     cases[i].want);
    }
    struct cluster_network network = { .gpus_per_node = 8,
                                       .nic_bytes_per_s_per_gpu = 25e9,
                                       .gpu_count = 64 };
    const struct stack *stack = load_text(arena, text, &err);
    struct cost_model *plain = cost_model_create(arena, SCENARIOS, "a100-80g-sxm", &network, &err);
    struct cost_model *with = cost_model_create(arena, SCENARIOS, "a100-80g-sxm", &network, &err);
    cost_model_use_stack(with, stack, PRECISION_BF16, true);
    const struct operator_work matmul =
        operator_matmul("m", PASS_FORWARD, PRECISION_BF16, 4096, 4096, 4096);
    const struct operator_work norm =
        operator_streaming("n", OPERATOR_NORM, PASS_FORWARD, PRECISION_BF16, 1e9);
    const double slowest = stack_slowest_gpu_time(64);
    assert_true(slowest > 1.03 && slowest < 1.04);
    assert_true(fabs(cost_model_price(with, &matmul, NULL).seconds /
                         cost_model_price(plain, &matmul, NULL).seconds -
                     1.1 * slowest) < 1e-9);
    const struct price a = cost_model_price(plain, &norm, NULL);
    assert_true(fabs(cost_model_price(with, &norm, NULL).seconds -
                     1.1 * (a.launch_s + 2 * a.memory_s)) < 1e-12);
    arena_destroy(arena);
}

/* Three stacks on A100 (0.9, 1.0, 1.2), two on H100 (1.1, 1.4), the last of them in fp8 too
 * (2.0). */
static void test_usual_factors(void **state) {
    (void)state;
    static const char *rows[] = { "r", NULL };
#define FACTOR(gpu_, precision_, factor_)                                                          \
    {                                                                                              \
        .gpu = gpu_, .precision = PRECISION_##precision_, .kernel_time_factor = factor_,           \
        .attention_time_factor = 1, .calibrated_on = rows                                          \
    }
    struct stack_factor a[] = { FACTOR("a100", BF16, 0.9) },
                        b[] = { FACTOR("a100", BF16, 1.0), FACTOR("h100", BF16, 1.1) },
                        c[] = { FACTOR("a100", BF16, 1.2), FACTOR("h100", BF16, 1.4),
                                FACTOR("h100", FP8, 2.0) };
    struct stack stacks[] = {
        { .name = "a", .factors = a, .factor_count = 1, .attention_gpu = "" },
        { .name = "b", .factors = b, .factor_count = 2, .attention_gpu = "h" },
        { .name = "c", .factors = c, .factor_count = 3, .attention_gpu = "" },
        { .name = "d", .factors = c, .factor_count = 3, .borrows = true, .attention_gpu = "" },
        { .name = "e", .attention_gpu = "" },
    };
    const struct stack *list[5];
    for (int i = 0; i < 5; i++) {
        list[i] = &stacks[i];
        stacks[i].known = list;
        stacks[i].known_count = 5;
    }
    static const struct {
        int stack;
        const char *gpu;
        enum precision precision;
        double want;
    } cases[] = {
        { 4, "a100-80g-sxm", PRECISION_FP16, 1.0 }, /* the median */
        { 4, "h100-80g-sxm", PRECISION_BF16, 1.2409673645990857 },
        { 4, "h800-80g-sxm", PRECISION_BF16, 1.2409673645990857 }, /* the generation */
        { 1, "h200-141g-sxm", PRECISION_BF16, 1.1 },               /* its own there */
        { 2, "a800-80g-sxm", PRECISION_FP16, 1.2 },
        { 4, "gh200-96g", PRECISION_FP8, 2.0 },
        { 4, "v100-32g-sxm", PRECISION_BF16, 1.0488088481701516 }, /* of all: b's (1 x 1.1)^(1/2) */
        { 4, "b200-180g-sxm", PRECISION_FP4, 2.0 },
        { 0, "h100-80g-sxm", PRECISION_BF16, 0.9 * 1.2409673645990857 },
        { 3, "a100-80g-sxm", PRECISION_BF16, 1.2 }, /* its relative's own */
        /* (1.2 x (1.4 / 1.2410))^(1/2) of 1.0488; of eight bits, what sixteen left on that
         * generation */
        { 2, "v100-32g-sxm", PRECISION_BF16, 1.220311778816751 },
        { 1, "h100-80g-sxm", PRECISION_FP8, 1.7728105208558367 },
    };
    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
        const struct stack_use use =
            stack_on(&stacks[cases[i].stack], cases[i].gpu, cases[i].precision);
        if (fabs(use.kernel_time_factor - cases[i].want) > 1e-9)
            fail_msg("case %zu: got %.10f, want %.10f", i, use.kernel_time_factor, cases[i].want);
    }
    assert_true(stack_gpu_is("h200-141g-sxm", "h200") && stack_gpu_is("h200", "h200"));
    assert_false(stack_gpu_is("h200-141g-sxm", "h20"));
    /* "ascend" is not of the A100's generation: the median of all, a stack's factors as their mean. */
    assert_true(fabs(stack_usual_log_factor(list, 5, "ascend-x", PRECISION_BF16) - log(1.1) / 2) <
                1e-12);
    assert_true(stack_on(&stacks[1], "h200-141g-sxm", PRECISION_BF16).attention_stated);
    assert_false(stack_on(&stacks[1], "a100-80g-sxm", PRECISION_BF16).attention_stated);
    stacks[0].attention_forward_time = stacks[0].attention_backward_time = 1;
    assert_false(stack_on(&stacks[0], "h100-80g-sxm", PRECISION_BF16).attention_stated);
    stacks[0].attention_forward_time = 2;
    assert_true(stack_on(&stacks[0], "a100-80g-sxm", PRECISION_BF16).attention_stated);
}

/* A precision's own factors hold on all of the generation before those of the other one of its
 * width do. */
static void test_factors_of_fp8_and_fp4(void **state) {
    (void)state;
    static const char *rows[] = { "r", NULL };
    struct stack_factor factors[] = { FACTOR("gb200", FP8, 1.2), FACTOR("gb200", FP4, 1.5),
                                      FACTOR("gb300", FP4, 1.35) };
    struct stack stack = { .name = "a", .attention_gpu = "", .factors = factors };
    const struct stack *list[] = { &stack };
    stack.known = list;
    stack.known_count = 1;
    static const struct {
        int count; /* of the factors */
        const char *gpu;
        enum precision precision;
        double want;
        bool calibrated;
    } cases[] = {
        { 3, "gb200-186g-nvl72", PRECISION_FP8, 1.2, true },
        { 3, "gb200-186g-nvl72", PRECISION_FP4, 1.5, true },
        { 3, "gb300-288g-nvl72", PRECISION_FP8, 1.2, false },
        { 3, "b200-180g-sxm", PRECISION_FP4, 1.42302494707577, false },
        { 1, "gb200-186g-nvl72", PRECISION_FP4, 1.2, false },
        { 1, "b200-180g-sxm", PRECISION_FP4, 1.2, false },
    };
    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
        stack.factor_count = cases[i].count;
        const struct stack_use use = stack_on(&stack, cases[i].gpu, cases[i].precision);
        if (fabs(use.kernel_time_factor - cases[i].want) > 1e-9 ||
            use.calibrated != cases[i].calibrated)
            fail_msg("case %zu: got %.10f, want %.10f", i, use.kernel_time_factor, cases[i].want);
    }
}
#undef FACTOR

/* A kernel of 16 bits takes what it takes, whatever the matmuls around it run in. */
static void test_attention_of_other_precisions(void **state) {
    (void)state;
#define WITH_ATTENTION(gpu_, precision_, attention_)                                               \
    {                                                                                              \
        .gpu = gpu_, .precision = PRECISION_##precision_, .kernel_time_factor = 1,                 \
        .attention_time_factor = attention_                                                        \
    }
    struct stack_factor bf16[] = { WITH_ATTENTION("h100", BF16, 3),
                                   WITH_ATTENTION("a100", BF16, 2) },
                        both[] = { WITH_ATTENTION("h100", FP8, 1.5),
                                   WITH_ATTENTION("h100", BF16, 3) },
                        fp8[] = { WITH_ATTENTION("h100", FP8, 1.5) };
    const struct {
        struct stack_factor *factors;
        int64_t count;
        const char *gpu;
        enum precision precision;
        double want;
    } cases[] = {
        { bf16, 2, "h100-80g-sxm", PRECISION_BF16, 3 },
        { bf16, 2, "h100-80g-sxm", PRECISION_FP8, 3 },
        { bf16, 2, "h200-141g-sxm", PRECISION_FP4, 3 },                 /* the generation */
        { bf16, 2, "b200-180g-sxm", PRECISION_FP8, 2.449489742783178 }, /* of both */
        { both, 2, "h100-80g-sxm", PRECISION_FP8, 1.5 }, /* fitted beside its kernels' */
        { both, 2, "h200-141g-sxm", PRECISION_FP8, 3 },
        { fp8, 1, "b200-180g-sxm", PRECISION_BF16, 1 },
    };
    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
        struct stack stack = { .factors = cases[i].factors,
                               .factor_count = cases[i].count,
                               .attention_gpu = "" };
        const struct stack *list[] = { &stack };
        stack.known = list;
        stack.known_count = 1;
        const double got = stack_on(&stack, cases[i].gpu, cases[i].precision).attention_time_factor;
        if (fabs(got - cases[i].want) > 1e-9)
            fail_msg("case %zu: got %.10f, want %.10f", i, got, cases[i].want);
    }
}

static void test_memory(void **state) {
    (void)state;
    struct arena *arena = arena_create();
    struct error err = { 0 };
    const struct stack *stack =
        load_text(arena,
                  "{\"name\":\"t\",\"description\":\"d\",\"year\":2024,\"backend\":\"fsdp\","
                  "\"keeps\":[\"key-value-copy\",\"gate-output\"],\"time_rows\":[\"t\"],\"memory_"
                  "rows\":[\"r\"],"
                  "\"placeholder_gradients\":true,\"fp8_gradient_bytes\":2,"
                  "\"sources\":{\"fp8_gradient_bytes\":\"x\"}}",
                  &err);
    if (stack == NULL) fail_msg("%s", err.text);
    assert_int_equal(stack->keeps, KEEPS_GATE_OUTPUT | KEEPS_KEY_VALUE_COPY);
    assert_true(stack->placeholder_gradients && stack->fp8_gradient_bytes == 2);
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
    };
    struct arena *arena = arena_create();
    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
        struct error err = { 0 };
        if (load_text(arena, cases[i].text, &err) != NULL ||
            strstr(err.text, cases[i].want) == NULL)
            fail_msg("case %zu: \"%s\"", i, err.text);
    }
    arena_destroy(arena);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_shipped),
        cmocka_unit_test(test_eager_kernels_keep),
        cmocka_unit_test(test_find),
        cmocka_unit_test(test_find_by_layout),
        cmocka_unit_test(test_stack_of_run),
        cmocka_unit_test(test_kernel_traffic),
        cmocka_unit_test(test_doubt),
        cmocka_unit_test(test_prices),
        cmocka_unit_test(test_uncalibrated),
        cmocka_unit_test(test_encoders),
        cmocka_unit_test(test_gaps),
        cmocka_unit_test(test_slowest_gpu),
        cmocka_unit_test(test_usual_factors),
        cmocka_unit_test(test_factors_of_fp8_and_fp4),
        cmocka_unit_test(test_attention_of_other_precisions),
        cmocka_unit_test(test_memory),
        cmocka_unit_test(test_a_broken_file),
        cmocka_unit_test(test_mistakes),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
