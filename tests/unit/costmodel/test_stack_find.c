/* test_stack_find.c - names and layouts find their stack or the nearest of its family. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>
#include <cmocka.h>
#include "tests/unit/costmodel/stack_fixture.h"

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

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_find),
        cmocka_unit_test(test_stack_of_run),
        cmocka_unit_test(test_find_by_layout),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
