/* test_measured_words.c - spellings of sources are read as the format's words, and others are
 * not. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>
#include <cmocka.h>
#include "sim/study/measured/measured_words.h"

static bool same(const char *a, const char *b) {
    return a == NULL || b == NULL ? a == b : strcmp(a, b) == 0;
}

static void test_word(void **state) {
    (void)state;
    static const struct {
        const char *column, *cell, *word;
    } cases[] = {
        { "precision", "bf16", "bf16" },
        { "precision", "BFloat16", "bf16" },
        { "precision", "bf16_mixed", "bf16" },
        { "precision", "bf", NULL },
        { "precision", "TF32", "tf32" },
        { "precision", "tf", NULL },
        { "precision", "MXFP8", "fp8" },
        { "fp8_recipe", "MXFP8", "mxfp8" },
        { "fp8_recipe", "Current Scaling", "tensorwise" },
        { "fp8_recipe", "fp8_ds", "delayed" },
        { "fp8_recipe", "fp8", NULL },
        { "fp8_recipe", "fp8 (rowwise)", "rowwise" },
        { "precision", "fp8 (rowwise)", "fp8" },
        { "precision", "rowwise fp8", "fp8" },
        { "fp8_recipe", "rowwise fp8", "rowwise" },
        { "precision", "fp8 (TransformerEngine)", "fp8" },
        { "recompute", "selective (core_attn)", "selective" },
        { "recompute", "layers:5", "layers:5" },
        { "recompute", "5 layers", "layers:5" },
        { "recompute", "layers:", NULL },
        { "recompute", "layers:-1", NULL },
        { "recompute", "Selective (core_attn)", "selective" },
        { "recompute", "op (each other)", NULL },
        { "attention", "flash_attention_2", "flash-2" },
        { "attention", "flash", "flash" },
        { "attention", "flashy", NULL },
        { "modality", "Text + Vision", NULL },
        { "modality", "text+vision", "vision+text" },
        { "modality", "text-image", "vision+text" },
        { "modality", "Text-to-Video", "diffusion" },
        { "modality", "T2I", "diffusion" },
        { "modality", "DiT", "diffusion" },
        { "attention", "flash-attn 2.3", "flash-2" },
        { "attention", "flash_attn==2.6.3", "flash-2" },
        { "attention", "scaled_dot_product_attention", "flash" },
        { "attention", "TE DotProductAttention", "cudnn" },
        { "recompute", "full AC", "full" },
        { "recompute", "no AC", "none" },
        { "recompute", "gradient_checkpointing=True", "full" },
        { "recompute", "8 of 32 layers", "layers:8" },
        { "recompute", "full (8 layers)", "layers:8" },
        { "recompute", "full (every layer)", "full" },
        { "recompute", "block 4", NULL },
        { "precision", "bf16-true", "bf16" },
        { "precision", "FP32 (TF32 on)", "tf32" },
        { "precision", "FP32 (TF32 off)", "fp32" },
        { "precision", "FP8 current scaling", "fp8" },
        { "fp8_recipe", "FP8 current scaling", "tensorwise" },
        { "schedule", "Interleaved1F1B", "interleaved" },
        { "schedule", "zero bubble", NULL },
        { "moe", "dense", "" },
        { "moe", "8 experts, top-2", NULL },
        { "stack", "bf16", NULL },
    };
    struct arena *arena = arena_create();
    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
        const char *word = measured_word(arena, cases[i].column, cases[i].cell);
        if (!same(word, cases[i].word))
            fail_msg("%s: %s: got %s, want %s", cases[i].column, cases[i].cell,
                     word != NULL ? word : "none", cases[i].word != NULL ? cases[i].word : "none");
    }
    arena_destroy(arena);
}

static void test_word_list(void **state) {
    (void)state;
    static const struct {
        const char *cell, *list;
    } cases[] = {
        { "", "" },
        { "vision", "vision" },
        { "vision encoder, llm", "vision;language" },
        { "vit+projector", "vision;connector" },
        { "none", "none" },
        { "none;vision", NULL },
        { "vision, none", NULL },
        { "supervision", NULL },
        { "vision;optimizer", NULL },
    };
    struct arena *arena = arena_create();
    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
        const char *list = measured_word_list(arena, "frozen", cases[i].cell);
        if (!same(list, cases[i].list))
            fail_msg("%s: got %s", cases[i].cell, list != NULL ? list : "none");
    }
    assert_string_equal(
        measured_word_list(arena, "overlap", "--overlap-grad-reduce --overlap-param-gather"),
        "gradients;parameters");
    assert_string_equal(measured_word_list(arena, "overlap", "all"), "gradients;parameters;tensor");
    assert_null(measured_word_list(arena, "frozen", "all"));
    arena_destroy(arena);
}

static void test_count_word(void **state) {
    (void)state;
    struct arena *arena = arena_create();
    int64_t value = -1;
    assert_true(measured_count_word(arena, "zero_stage", "FULL_SHARD", &value));
    assert_int_equal(value, 3);
    assert_true(measured_count_word(arena, "sp", "False", &value));
    assert_int_equal(value, 0);
    assert_true(measured_count_word(arena, "zero_stage", "stage 2", &value));
    assert_int_equal(value, 2);
    assert_true(measured_count_word(arena, "zero_stage", "none", &value));
    assert_int_equal(value, 0);
    assert_false(measured_count_word(arena, "tp", "true", &value));
    arena_destroy(arena);
}

static void test_cell(void **state) {
    (void)state;
    struct arena *arena = arena_create();
    assert_string_equal(measured_cell(arena, " bf16\t"), "bf16");
    assert_string_equal(measured_cell(arena, "N/A"), "");
    assert_string_equal(measured_cell(arena, " - "), "");
    assert_string_equal(measured_cell(arena, "none"), "none"); /* a word of recompute */
    arena_destroy(arena);
}

static void test_column_meant(void **state) {
    (void)state;
    static const struct {
        const char *name, *column;
    } cases[] = {
        { "num_gpus", "gpu_count" },
        { "World Size", "gpu_count" },
        { "GPU", "hardware" },
        { "Seq-Length", "seq_len" },
        { "MBS", "micro_batch" },
        { "step_time_ms", "iter_time_s" },
        { "Hardware", "hardware" },
        { "peak memory gib", "peak_mem_GiB" },
        { "batch_size", NULL },
        { "colour", NULL },
        { "", NULL },
    };
    struct arena *arena = arena_create();
    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
        const char *column = measured_column_meant(arena, cases[i].name);
        if (!same(column, cases[i].column))
            fail_msg("%s: got %s", cases[i].name, column != NULL ? column : "none");
    }
    arena_destroy(arena);
}

static void test_text_says(void **state) {
    (void)state;
    static const struct {
        const char *text;
        bool says;
    } cases[] = {
        { "LoRA rank 16", true },
        { "with lora", true },
        { "an exploratory run", false },
        { "full fine-tuning, not LoRA", false },
        { "no LoRA here, but LoRA there", true },
        { "non-LoRA", false },
        { "LoRA: off", false },
        { "LoRA=false, else the same", false },
        { "LoRA offloads", true },
        { "use_lora_kernel=False", false },
        { "LoRA disabled", false },
        { "LoRA not used", false },
        { "lora: no", false },
        { "lora=0", false },
        { "LoRA 0.5", true }, /* a version */
        { "LoRA no dropout", true },
        { "DoRA instead of LoRA", false },
        { "faster than LoRA", false },
        { "LoRA instead of all weights", true },
        { "", false },
    };
    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++)
        if (measured_text_says(cases[i].text, "LoRA") != cases[i].says)
            fail_msg("\"%s\"", cases[i].text);
    assert_true(measured_text_denies("no LoRA here, but LoRA there", "LoRA"));
    assert_false(measured_text_denies("LoRA", "LoRA"));
    assert_false(measured_text_denies("without adapters", "LoRA"));
}

static void test_zero_stage_of_a_stack(void **state) {
    (void)state;
    static const struct {
        const char *stack;
        int64_t want;
    } cases[] = {
        { "DeepSpeed ZeRO-3 HF Trainer", 3 },
        { "llama-factory zero2", 2 },
        { "PyTorch DDP", 0 },
        { "deepspeed zero stage 1", 1 },
        { "ZeRO_Stage-0", 0 },
        { "ColossalAI Gemini", 3 },
        { "geminis", -1 },
        { "zero30", -1 },
        { "hddp", -1 },
        { "ddpx", -1 },
        { "zero-4", -1 },
        { "nonzero3", -1 },
        { "torchtitan", -1 },
        { "", -1 },
    };
    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++)
        if (measured_zero_stage(cases[i].stack) != cases[i].want) fail_msg("%s", cases[i].stack);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_word),
        cmocka_unit_test(test_word_list),
        cmocka_unit_test(test_count_word),
        cmocka_unit_test(test_cell),
        cmocka_unit_test(test_column_meant),
        cmocka_unit_test(test_text_says),
        cmocka_unit_test(test_zero_stage_of_a_stack),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
