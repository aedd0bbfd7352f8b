/* test_measured_document.c - what of a row's model and layout its cells, its notes and its stack say. */
#include <string.h>
#include "tests/unit/study/measured/measured_fixture.h"

static const char header[] = "row_id,source,model,layers,hidden,ffn,position,heads,vocab,seq_len,"
                             "hardware,gpu_count,micro_batch,global_batch,iter_time_s,notes,"
                             "stack,optimizer\n";

static const char *position_of(const struct measured_scenario *m) {
    const cJSON *model = cJSON_GetObjectItemCaseSensitive(m->document, "model");
    const cJSON *definition = cJSON_GetObjectItemCaseSensitive(model, "definition");
    const cJSON *language = cJSON_GetObjectItemCaseSensitive(definition, "language");
    return cJSON_GetStringValue(cJSON_GetObjectItemCaseSensitive(language, "position"));
}

static const char layout_header[] = "row_id,source,model,layers,hidden,ffn,heads,vocab,seq_len,"
                                    "hardware,gpu_count,tp,cp,micro_batch,"
                                    "global_batch,precision,iter_time_s,overlap,stack,notes\n";

static struct measured_scenario scenario_of(struct measured_context *context, const char *ffn,
                                            int64_t tp, int64_t cp, const char *overlap,
                                            const char *stack, const char *notes) {
    return scenario_of_row(context, layout_header,
                           arena_format(context->arena,
                                        "a,s,mine,2,1024,%s,16,32000,4096,h100-80g-sxm,8,%ld,%ld,"
                                        "1,8,bf16,1,%s,%s,\"%s\"\n",
                                        ffn, (long)tp, (long)cp, overlap, stack, notes));
}

static const cJSON *member(const struct measured_scenario *m, const char *section,
                           const char *key) {
    return cJSON_GetObjectItemCaseSensitive(cJSON_GetObjectItemCaseSensitive(m->document, section),
                                            key);
}

/* FlexAttention gathers keys and values where PyTorch's SDPA passes them around. */
static void test_sequence(void **state) {
    (void)state;
    static const char *const cases[][3] = {
        { "torchtitan-2025", "", "gathered-ring" },
        { "torchtitan-2025", "flavor 8B_flex_attn", "all-gather" },
        { "torchtitan-2025 (FlexAttention)", "", "all-gather" },
        { "torchtitan-2025", "no FlexAttention", "gathered-ring" },
        { "megatron-core-2025", "FlexAttention", "ring" },
    };
    struct measured_context context = shipped_context();
    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
        const struct measured_scenario m =
            scenario_of(&context, "swiglu", 1, 2, "", cases[i][0], cases[i][1]);
        assert_string_equal(cJSON_GetStringValue(member(&m, "layout", "cp_kind")), cases[i][2]);
        cJSON_Delete(m.document);
    }
    arena_destroy(context.arena);
}

/* The cell, else the notes, else the stack; NVIDIA's own runs of 2023 and 2024 overlap. */
static void test_overlap(void **state) {
    (void)state;
    static const struct {
        const char *cell, *stack, *notes;
        bool gradients, parameters;
    } cases[] = {
        { "", "megatron-core-2025", "", true, true },
        { "", "megatron-core-2025", "overlap_grad_reduce false", false, true },
        { "gradients", "megatron-core-2025", "overlap_grad_reduce false", true, false },
        { "", "megatron-core-2024", "", false, false },
        { "", "megatron-core-2024", "--overlap-grad-reduce", true, false },
        { "", "megatron-core-2024", "golden_values of its release test", true, true },
    };
    struct measured_context context = shipped_context();
    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
        const struct measured_scenario m =
            scenario_of(&context, "swiglu", 1, 1, cases[i].cell, cases[i].stack, cases[i].notes);
        if (cJSON_IsTrue(member(&m, "layout", "overlap_gradient_reduce")) != cases[i].gradients ||
            cJSON_IsTrue(member(&m, "layout", "overlap_parameter_gather")) != cases[i].parameters)
            fail_msg("case %zu", i);
        cJSON_Delete(m.document);
    }
    arena_destroy(context.arena);
}

/* Of GPTs: as notes say, else as the stack's arguments have it. */
static void test_dropout(void **state) {
    (void)state;
    static const struct {
        const char *ffn, *stack, *notes;
        bool drops_out;
    } cases[] = {
        { "gelu", "megatron-core-2025", "", true },
        { "gelu", "megatron-core-2025", "no dropout", false },
        { "swiglu", "megatron-core-2025", "", false },
        { "swiglu", "megatron-core-2025", "dropout 0.1", true },
        { "gelu", "llm.c-2024", "naive attention", false },
    };
    struct measured_context context = shipped_context();
    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
        const struct measured_scenario m =
            scenario_of(&context, cases[i].ffn, 1, 1, "", cases[i].stack, cases[i].notes);
        const cJSON *stated = member(&m, "training", "hidden_dropout"),
                    *definition = member(&m, "model", "definition"),
                    *language = cJSON_GetObjectItemCaseSensitive(definition, "language");
        const bool model = cJSON_IsTrue(cJSON_GetObjectItemCaseSensitive(language, "dropout"));
        if ((stated != NULL ? stated->valuedouble > 0 : model) != cases[i].drops_out)
            fail_msg("case %zu", i);
        cJSON_Delete(m.document);
    }
    arena_destroy(context.arena);
}

static void test_positions(void **state) {
    (void)state;
    static const struct {
        const char *model, *ffn, *cell, *notes, *position;
    } cases[] = {
        { "mine", "gelu", "", "", "learned" },
        { "mine", "swiglu", "", "", "rotary" },
        { "mine", "swiglu", "learned", "", "learned" },
        { "mine", "gelu", "RoPE", "", "rotary" },
        { "mine", "gelu", "none", "rotary", "none" },
        { "mine", "gelu", "odd", "", "learned" },
        { "mine with RoPE", "gelu", "", "", "rotary" },
        { "mine", "gelu", "", "rotary embeddings", "rotary" },
        { "mine", "gelu", "", "no rotary embeddings", "learned" },
        { "mine", "gelu", "", "the LLaMA rows beside it have RoPE", "learned" },
        { "mine", "gelu", "", "position embeddings learned; RoPE tried elsewhere", "learned" },
        { "mine", "gelu", "", "norm and rope unfused; learned positions", "learned" },
    };
    struct measured_context context = shipped_context();
    struct arena *arena = context.arena;
    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
        const char *row =
            arena_format(arena, "a,s,%s,2,1024,%s,%s,8,32000,1024,h100-80g-sxm,1,1,1,1,%s,,\n",
                         cases[i].model, cases[i].ffn, cases[i].cell, cases[i].notes);
        const struct measured_scenario m = scenario_of_row(&context, header, row);
        const char *got = position_of(&m);
        if (got == NULL || strcmp(got, cases[i].position) != 0)
            fail_msg("%s: got %s, want %s", row, got, cases[i].position);
        cJSON_Delete(m.document);
    }
    arena_destroy(arena);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_positions),
        cmocka_unit_test(test_sequence),
        cmocka_unit_test(test_overlap),
        cmocka_unit_test(test_dropout),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
