/* test_huggingface_text.c - that what a config of Gemma 2 and 3 has beyond others reaches the
 * operators, bytes and memory of the imported blocks. */
#include "sim/model/huggingface.h"
#include "tests/unit/model/operators_fixture.h"

#include <math.h>

static const struct model *imported(struct arena *arena, const char *name) {
    struct error err = { 0 };
    struct json *config = json_load(
        arena_format(arena, "%s/tests/data/huggingface/%s.json", BALLAST_SOURCE_DIR, name), &err);
    struct huggingface_model m;
    if (config == NULL || !huggingface_import(arena, config, NULL, &m, &err))
        fail_msg("%s: %s", name, err.text);
    cJSON_Delete(m.file);
    json_destroy(config);
    return m.model;
}

/* The same model without what makes it a Gemma. */
static const struct model *plain(struct arena *arena, const struct model *model) {
    struct model *copy = arena_new(arena, struct model);
    *copy = *model;
    copy->modules[MODULE_LANGUAGE].branch_norm = false;
    copy->modules[MODULE_LANGUAGE].logit_cap = false;
    return copy;
}

static void test_gemma_sequences(void **state) {
    (void)state;
    static const struct {
        const char *model;
        enum layer_kind kind;
        int64_t tp;
        enum pass_set set;
        struct gradient_need need;
        const char *want;
    } cases[] = {
        { "gemma-2-2b",
          LAYER_LANGUAGE_BLOCK,
          1,
          PASS_SET_FORWARD,
          { true, true },
          "attention norm f, qkv f, rotary f, attention f, proj f, attention branch norm f, "
          "attention residual f, mlp norm f, up f, activation f, down f, mlp branch norm f, "
          "mlp residual f" },
        { "gemma-2-2b",
          LAYER_LANGUAGE_BLOCK,
          2,
          PASS_SET_BACKWARD,
          { true, true },
          "mlp branch norm b, mlp gradient all-gather b, down i, down w, activation b, "
          "mlp saved all-gather w, up i, mlp reduce-scatter i, up w, mlp norm b, "
          "mlp residual gradient b, attention branch norm b, attention gradient all-gather b, "
          "proj i, proj w, attention b, rotary b, attention saved all-gather w, qkv i, "
          "attention reduce-scatter i, qkv w, attention norm b, attention residual gradient b" },
        { "gemma-3-4b",
          LAYER_LANGUAGE_BLOCK,
          2,
          PASS_SET_FORWARD,
          { true, true },
          "attention norm f, attention all-gather f, qkv f, qk norm f, rotary f, attention f, "
          "proj f, attention reduce-scatter f, attention branch norm f, attention residual f, "
          "mlp norm f, mlp all-gather f, up f, activation f, down f, mlp reduce-scatter f, "
          "mlp branch norm f, mlp residual f" },
        { "gemma-3-4b",
          LAYER_VISION_BLOCK,
          1,
          PASS_SET_FORWARD,
          { true, true },
          "attention norm f, qkv f, attention f, proj f, attention residual f, mlp norm f, up f, "
          "activation f, down f, mlp residual f" },
        { "gemma-2-2b",
          LAYER_HEAD,
          1,
          PASS_SET_FORWARD,
          { true, true },
          "final norm f, logits f, logit cap f, loss f" },
        { "gemma-2-2b",
          LAYER_HEAD,
          1,
          PASS_SET_BACKWARD,
          { true, true },
          "loss b, logit cap b, logits i, logits w, final norm b" },
        { "gemma-3-4b",
          LAYER_HEAD,
          1,
          PASS_SET_FORWARD,
          { true, true },
          "final norm f, logits f, loss f" },
        { "gemma-3-4b",
          LAYER_CONNECTOR,
          2,
          PASS_SET_FORWARD,
          { true, true },
          "encoder norm f, connector all-gather f, patch pooling f, connector norm f, "
          "connector linear f" },
        { "gemma-3-4b",
          LAYER_CONNECTOR,
          2,
          PASS_SET_BACKWARD,
          { true, true },
          "connector linear i, connector linear w, connector norm b, patch pooling b, "
          "connector reduce-scatter i, encoder norm b" },
        /* a frozen encoder: its last norm too */
        { "gemma-3-4b",
          LAYER_CONNECTOR,
          2,
          PASS_SET_BACKWARD,
          { false, true },
          "connector linear i, connector linear w, connector norm b" },
    };
    struct arena *arena = arena_create();
    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
        const struct model *m = imported(arena, cases[i].model);
        const struct batch_shape shape = model_batch_shape(m, 1, 1, 2048, 2048.0 * 2048.0);
        struct operator_list list = operators_of(
            m, cases[i].kind, &shape, split_of(cases[i].tp, true), cases[i].set, cases[i].need);
        char text[2048];
        sequence_of(&list, text, sizeof text);
        if (strcmp(text, cases[i].want) != 0)
            fail_msg("%zu:\n got %s\nwant %s", i, text, cases[i].want);
        operator_list_free(&list);
    }
    arena_destroy(arena);
}

static void test_gemma_bytes(void **state) {
    (void)state;
    struct arena *arena = arena_create();
    const struct model *m = imported(arena, "gemma-2-2b"), *vlm = imported(arena, "gemma-3-4b");
    const struct batch_shape shape = model_batch_shape(m, 1, 0, 2048, 2048.0 * 2048.0);
    const struct batch_shape images = model_batch_shape(vlm, 1, 2, 2048, 2048.0 * 2048.0);
    static const struct {
        enum layer_kind kind;
        enum pass_set set;
        const char *name;
        enum operator_pass pass;
        double bytes;
    } cases[] = {
        { LAYER_LANGUAGE_BLOCK, PASS_SET_FORWARD, "mlp branch norm", PASS_FORWARD,
          2.0 * 1024 * 2304 * 2 },
        { LAYER_LANGUAGE_BLOCK, PASS_SET_BACKWARD, "attention branch norm", PASS_BACKWARD,
          3.0 * 1024 * 2304 * 2 },
        { LAYER_HEAD, PASS_SET_FORWARD, "logit cap", PASS_FORWARD, 2.0 * 2048 * 128000 * 2 },
        { LAYER_HEAD, PASS_SET_BACKWARD, "logit cap", PASS_BACKWARD, 3.0 * 2048 * 128000 * 2 },
        /* two tiles of 4096 patches, each half on a rank; 16 of them become one */
        { LAYER_CONNECTOR, PASS_SET_FORWARD, "encoder norm", PASS_FORWARD, 2.0 * 4096 * 1152 * 2 },
        { LAYER_CONNECTOR, PASS_SET_FORWARD, "patch pooling", PASS_FORWARD, 17.0 * 256 * 1152 * 2 },
        { LAYER_CONNECTOR, PASS_SET_BACKWARD, "patch pooling", PASS_BACKWARD,
          17.0 * 256 * 1152 * 2 },
    };
    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
        const bool text = cases[i].kind != LAYER_CONNECTOR;
        struct operator_list list =
            operators_of(text ? m : vlm, cases[i].kind, text ? &shape : &images, split_of(2, true),
                         cases[i].set, both);
        const struct operator_work *work = find_operator(&list, cases[i].name, cases[i].pass);
        assert_non_null(work);
        expect_bytes(cases[i].name, work->memory_bytes, cases[i].bytes);
        operator_list_free(&list);
    }
    arena_destroy(arena);
}

/* The norm behind the branch keeps its input, and a recomputed block runs up to it. */
static void test_gemma_memory_and_recomputation(void **state) {
    (void)state;
    struct arena *arena = arena_create();
    const struct model *m = imported(arena, "gemma-2-2b"), *without = plain(arena, m);
    const struct batch_shape shape = model_batch_shape(m, 1, 0, 2048, 2048.0 * 2048.0);
    struct tensor_split split = split_of(2, true);
    const int64_t block = fixture_layer(m, LAYER_LANGUAGE_BLOCK),
                  head = fixture_layer(m, LAYER_HEAD);
    expect_bytes("block",
                 layer_saved_bytes(m, block, &shape, &split, RECOMPUTE_NONE) -
                     layer_saved_bytes(without, block, &shape, &split, RECOMPUTE_NONE),
                 2 * (1024.0 * 2304 * 2 + 1024.0 * 4));
    expect_bytes("recomputed block",
                 layer_saved_bytes(m, block, &shape, &split, RECOMPUTE_FULL) -
                     layer_saved_bytes(without, block, &shape, &split, RECOMPUTE_FULL),
                 0);
    expect_bytes("head",
                 layer_saved_bytes(m, head, &shape, &split, RECOMPUTE_NONE) -
                     layer_saved_bytes(without, head, &shape, &split, RECOMPUTE_NONE),
                 2048.0 * 128000 * 2);
    split.block.recompute_style = RECOMPUTE_NEEDED;
    static const char *const last[] = { "mlp branch norm", "activation" };
    for (int i = 0; i < 2; i++) {
        struct operator_list again = { 0 };
        layer_recompute_operators(i == 0 ? m : without, block, &shape, &split, RECOMPUTE_FULL, both,
                                  &again);
        assert_string_equal(again.operators[again.count - 1].name, last[i]);
        assert_int_equal(find_operator(&again, "down", PASS_FORWARD) != NULL, i == 0);
        operator_list_free(&again);
    }
    /* Kept outputs of q, k and v: all that is needed but their matmul, and 2 bytes for each
     * value. */
    struct operator_list needed = { 0 }, projected = { 0 };
    layer_recompute_operators(without, block, &shape, &split, RECOMPUTE_FULL, both, &needed);
    const double input_bytes = layer_saved_bytes(without, block, &shape, &split, RECOMPUTE_FULL);
    split.block.recompute_style = RECOMPUTE_PROJECTED;
    layer_recompute_operators(without, block, &shape, &split, RECOMPUTE_FULL, both, &projected);
    const struct operator_work *qkv = find_operator(&needed, "qkv", PASS_FORWARD);
    assert_non_null(qkv);
    assert_null(find_operator(&projected, "qkv", PASS_FORWARD));
    assert_int_equal(projected.count, needed.count - 1);
    expect_bytes("projected block",
                 layer_saved_bytes(without, block, &shape, &split, RECOMPUTE_FULL) - input_bytes,
                 2.0 * (double)qkv->m * (double)qkv->n);
    operator_list_free(&needed);
    operator_list_free(&projected);
    split.block.recompute_style = RECOMPUTE_OPERATORS;
    struct operator_list again = { 0 };
    layer_recompute_operators(m, block, &shape, &split, RECOMPUTE_SELECTIVE, both, &again);
    assert_non_null(find_operator(&again, "mlp branch norm", PASS_FORWARD));
    assert_null(find_operator(&again, "down", PASS_FORWARD)); /* its output is kept */
    operator_list_free(&again);
    arena_destroy(arena);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_gemma_sequences),
        cmocka_unit_test(test_gemma_bytes),
        cmocka_unit_test(test_gemma_memory_and_recomputation),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
