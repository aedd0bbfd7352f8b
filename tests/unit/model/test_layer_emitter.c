/* test_layer_emitter.c - shapes, bytes, precision and casts of single operators, and what a stack
 * runs around a block's column-parallel products. */
#include "tests/unit/model/operators_fixture.h"

#include <math.h>

/* ---- shapes and bytes of single operators ---- */

/* llama3-8b, 4096 tokens; h 4096, ffn 14336, 32 heads of 128, 8 key-value heads */
static const struct {
    const char *name;
    enum pass_set set;
    enum operator_pass pass;
    int64_t tp;
    bool sequence_parallel;
    int64_t m, n, k;
    double memory_bytes, network_bytes; /* 0: not checked */
} operator_cases[] = {
    { "qkv", PASS_SET_FORWARD, PASS_FORWARD, 1, false, 4096, 6144, 4096, 0, 0 },
    { "qkv", PASS_SET_FORWARD, PASS_FORWARD, 4, true, 4096, 1536, 4096, 0, 0 },
    /* 16 ranks share 8 key-value heads: 2 heads, one key and one value head each */
    { "qkv", PASS_SET_FORWARD, PASS_FORWARD, 16, true, 4096, 4 * 128, 4096, 0, 0 },
    { "qkv", PASS_SET_BACKWARD, PASS_INPUT_GRADIENT, 4, true, 4096, 4096, 1536, 0, 0 },
    { "qkv", PASS_SET_BACKWARD, PASS_WEIGHT_GRADIENT, 4, true, 1536, 4096, 4096, 0, 0 },
    { "proj", PASS_SET_FORWARD, PASS_FORWARD, 4, true, 4096, 4096, 1024, 0, 0 },
    { "up", PASS_SET_FORWARD, PASS_FORWARD, 4, true, 4096, 2 * 3584, 4096, 0, 0 },
    { "down", PASS_SET_FORWARD, PASS_FORWARD, 4, true, 4096, 4096, 3584, 0, 0 },
    { "down", PASS_SET_BACKWARD, PASS_WEIGHT_GRADIENT, 4, true, 4096, 3584, 4096, 0, 0 },
    { "attention norm", PASS_SET_FORWARD, PASS_FORWARD, 4, true, 0, 0, 0, 2 * 2.0 * 1024 * 4096,
      0 },
    { "attention norm", PASS_SET_FORWARD, PASS_FORWARD, 4, false, 0, 0, 0, 2 * 2.0 * 4096 * 4096,
      0 },
    { "attention norm", PASS_SET_BACKWARD, PASS_BACKWARD, 4, true, 0, 0, 0, 3 * 2.0 * 1024 * 4096,
      0 },
    { "mlp residual", PASS_SET_FORWARD, PASS_FORWARD, 4, true, 0, 0, 0, 3 * 2.0 * 1024 * 4096, 0 },
    { "rotary", PASS_SET_FORWARD, PASS_FORWARD, 4, true, 0, 0, 0, 2 * 2.0 * 4096 * (8 + 2) * 128,
      0 },
    /* gate and up in, product out; backward reads them and a gradient, writes two */
    { "activation", PASS_SET_FORWARD, PASS_FORWARD, 4, true, 0, 0, 0, 3 * 2.0 * 4096 * 3584, 0 },
    { "activation", PASS_SET_BACKWARD, PASS_BACKWARD, 4, true, 0, 0, 0, 5 * 2.0 * 4096 * 3584, 0 },
    { "attention all-gather", PASS_SET_FORWARD, PASS_FORWARD, 4, true, 0, 0, 0, 0,
      2.0 * 4096 * 4096 },
    { "mlp reduce-scatter", PASS_SET_FORWARD, PASS_FORWARD, 4, true, 0, 0, 0, 0,
      2.0 * 4096 * 4096 },
    { "mlp all-reduce", PASS_SET_FORWARD, PASS_FORWARD, 4, false, 0, 0, 0, 0, 2.0 * 4096 * 4096 },
    { "mlp saved all-gather", PASS_SET_BACKWARD, PASS_WEIGHT_GRADIENT, 4, true, 0, 0, 0, 0,
      2.0 * 4096 * 4096 },
};

static void test_operators(void **state) {
    (void)state;
    struct arena *arena = arena_create();
    const struct model *m = fixture_model(arena, "llama3-8b");
    struct batch_shape shape = fixture_group(m);
    for (size_t i = 0; i < sizeof operator_cases / sizeof operator_cases[0]; i++) {
        const char *name = operator_cases[i].name;
        struct operator_list list =
            operators_of(m, LAYER_LANGUAGE_BLOCK, &shape,
                         split_of(operator_cases[i].tp, operator_cases[i].sequence_parallel),
                         operator_cases[i].set, both);
        const struct operator_work *w = find_operator(&list, name, operator_cases[i].pass);
        if (w == NULL) fail_msg("row %zu: no %s", i, name);
        if (w->m != operator_cases[i].m || w->n != operator_cases[i].n ||
            w->k != operator_cases[i].k)
            fail_msg("row %zu: %s is %lld x %lld x %lld", i, name, (long long)w->m, (long long)w->n,
                     (long long)w->k);
        if (operator_cases[i].memory_bytes > 0 && w->memory_bytes != operator_cases[i].memory_bytes)
            fail_msg("row %zu: %s moves %.0f bytes, want %.0f", i, name, w->memory_bytes,
                     operator_cases[i].memory_bytes);
        if (operator_cases[i].network_bytes > 0 &&
            (w->network_bytes != operator_cases[i].network_bytes ||
             w->communicator != COMMUNICATOR_TENSOR))
            fail_msg("row %zu: %s sends %.0f bytes, want %.0f", i, name, w->network_bytes,
                     operator_cases[i].network_bytes);
        operator_list_free(&list);
    }
    arena_destroy(arena);
}

static void test_operators_of_other_layers(void **state) {
    (void)state;
    struct arena *arena = arena_create();
    const struct model *m = fixture_model(arena, "internvl-6b-20b");
    struct batch_shape shape = fixture_group(m);
    struct operator_list list =
        operators_of(m, LAYER_VISION_BLOCK, &shape, split_of(2, true), PASS_SET_FORWARD, both);
    const struct operator_work *w = find_operator(&list, "attention", PASS_FORWARD);
    assert_false(w->causal);
    assert_true(w->square_sum == 9.0 * 1025 * 1025 && w->token_sum == 9.0 * 1025);
    assert_int_equal(w->heads, 13); /* 25 on two ranks */
    expect_bytes("sums of squares",
                 find_operator(&list, "qk norm all-reduce", PASS_FORWARD)->network_bytes,
                 8.0 * 9225);
    operator_list_free(&list);

    /* a weight gradient that is added by a kernel of its own, and in its matmul */
    for (int fused = 0; fused < 2; fused++) {
        struct tensor_split split = split_of(1, false);
        split.adds_in_matmul = fused == 1;
        list = operators_of(m, LAYER_LANGUAGE_BLOCK, &shape, split, PASS_SET_BACKWARD, both);
        expect_bytes("projection's weight gradient",
                     find_operator(&list, "proj", PASS_WEIGHT_GRADIENT)->memory_bytes,
                     2.0 * 4096 * (6144 + 6144) + (fused ? 8.0 : 2.0) * 6144 * 6144);
        operator_list_free(&list);
    }

    /* frozen layer scale: the gradient in and out */
    list = operators_of(m, LAYER_VISION_BLOCK, &shape, split_of(2, true), PASS_SET_BACKWARD,
                        input_only);
    expect_bytes("frozen layer scale",
                 find_operator(&list, "mlp residual", PASS_BACKWARD)->memory_bytes,
                 2 * 2.0 * 4613 * 3200);
    operator_list_free(&list);

    list = operators_of(m, LAYER_LANGUAGE_BLOCK, &shape, split_of(2, true), PASS_SET_FORWARD, both);
    w = find_operator(&list, "attention", PASS_FORWARD);
    assert_true(w->causal && w->square_sum == 4096.0 * 4096.0);
    assert_int_equal(w->kv_heads, 4);
    operator_list_free(&list);

    list =
        operators_of(m, LAYER_PATCH_EMBEDDING, &shape, split_of(1, false), PASS_SET_FORWARD, both);
    w = find_operator(&list, "patch embedding", PASS_FORWARD);
    assert_int_equal(w->m, 9 * 1024); /* no class token */
    assert_int_equal(w->n, 3200);
    assert_int_equal(w->k, 3 * 14 * 14);
    operator_list_free(&list);

    list = operators_of(m, LAYER_CONNECTOR, &shape, split_of(2, true), PASS_SET_FORWARD, both);
    w = find_operator(&list, "connector up", PASS_FORWARD);
    assert_int_equal(w->m, 9 * 256 / 2);
    assert_int_equal(w->n, 6144);
    assert_int_equal(w->k, 12800);
    expect_bytes("encoder output",
                 find_operator(&list, "connector all-gather", PASS_FORWARD)->network_bytes,
                 2.0 * 9225 * 3200);
    operator_list_free(&list);

    list =
        operators_of(m, LAYER_TOKEN_EMBEDDING, &shape, split_of(2, true), PASS_SET_FORWARD, both);
    expect_bytes("vision rows",
                 find_operator(&list, "vision rows all-gather", PASS_FORWARD)->network_bytes,
                 2.0 * 2304 * 6144);
    operator_list_free(&list);

    list = operators_of(m, LAYER_HEAD, &shape, split_of(2, true), PASS_SET_FORWARD, both);
    assert_int_equal(find_operator(&list, "logits", PASS_FORWARD)->n, 46277);
    expect_bytes("one fp32 per token",
                 find_operator(&list, "loss sum all-reduce", PASS_FORWARD)->network_bytes,
                 4.0 * 4096);
    operator_list_free(&list);
    arena_destroy(arena);
}

/* A masked language model's head: 0.15 of 4096 tokens pass it, rounded up, and its norm and
 * collectives of hidden states take all. */
static void test_head_share(void **state) {
    (void)state;
    struct arena *arena = arena_create();
    char path[256];
    struct error err = { 0 };
    const struct model *m = fixture_text(
        arena,
        "{ \"name\": \"t\", \"source\": \"s\", \"language\": { \"module\": \"llama3-8b\", "
        "\"head_share\": 0.15 } }",
        path, sizeof path, &err);
    assert_non_null(m);
    const struct batch_shape shape = model_batch_shape(m, 1, 0, 4096, 4096.0 * 4096.0);
    const struct tensor_split split = split_of(2, true);
    const int64_t head = fixture_layer(m, LAYER_HEAD);
    struct operator_list list = operators_of(m, LAYER_HEAD, &shape, split, PASS_SET_FORWARD, both);
    assert_int_equal(find_operator(&list, "logits", PASS_FORWARD)->m, 615);
    expect_bytes("all are normed", find_operator(&list, "final norm", PASS_FORWARD)->memory_bytes,
                 2.0 * 2 * 2048 * 4096);
    expect_bytes("all are gathered",
                 find_operator(&list, "head all-gather", PASS_FORWARD)->network_bytes,
                 2.0 * 4096 * 4096);
    expect_bytes("some are picked",
                 find_operator(&list, "head positions", PASS_FORWARD)->memory_bytes,
                 2.0 * 2 * 615 * 4096);
    expect_bytes("loss", find_operator(&list, "loss", PASS_FORWARD)->memory_bytes,
                 26.0 * 615 * 64128);
    expect_bytes("their sums",
                 find_operator(&list, "loss sum all-reduce", PASS_FORWARD)->network_bytes,
                 4.0 * 615);
    operator_list_free(&list);
    list = operators_of(m, LAYER_HEAD, &shape, split, PASS_SET_BACKWARD, both);
    assert_int_equal(find_operator(&list, "logits", PASS_INPUT_GRADIENT)->m, 615);
    expect_bytes("zeros beside them",
                 find_operator(&list, "head positions", PASS_BACKWARD)->memory_bytes,
                 2.0 * (2 * 615 + 4096) * 4096);
    expect_bytes("all are scattered",
                 find_operator(&list, "head reduce-scatter", PASS_INPUT_GRADIENT)->network_bytes,
                 2.0 * 4096 * 4096);
    operator_list_free(&list);
    /* Kept: the picked rows; of a sequence shard the shard, which is gathered again. */
    const struct model *all = fixture_model(arena, "llama3-8b");
    for (int tp = 1; tp <= 2; tp++) {
        const struct tensor_split own = split_of(tp, tp > 1);
        const double spared = layer_saved_bytes(all, head, &shape, &own, RECOMPUTE_NONE) -
                              layer_saved_bytes(m, head, &shape, &own, RECOMPUTE_NONE);
        const double rows = 4096 - 615;
        assert_true(spared == rows * 4 * 128256 / tp + (tp == 1 ? rows * 2 * 4096 : 0));
    }
    assert_true(model_layer_flop(m, head, &shape) == 2.0 * 4096 * 0.15 * 4096 * 128256);
    assert_true(layer_workspace_bytes(m, head, &shape, &split) ==
                6.0 * 615 * 64128 + 2.0 * 4096 * 4096);
    arena_destroy(arena);
}

/* ---- bytes of the memory-bound operators ---- */

/* All on two ranks with SP, 9 tiles and 4096 tokens, as tensors x element x rows x columns. In
 * internvl-6b-20b a shard of 9225 encoder tokens is 4613, of 2304 connector rows 1152. */
static const struct {
    const char *model;
    enum layer_kind kind;
    enum pass_set set;
    const char *name;
    enum operator_pass pass;
    double want_bytes;
} streaming_cases[] = {
    { "internvl-6b-20b", LAYER_VISION_BLOCK, PASS_SET_FORWARD, "attention norm", PASS_FORWARD,
      2 * 2.0 * 4613 * 3200 },
    { "internvl-6b-20b", LAYER_VISION_BLOCK, PASS_SET_FORWARD, "qk norm", PASS_FORWARD,
      2 * 2.0 * 9225 * 2 * 13 * 128 },
    { "internvl-6b-20b", LAYER_VISION_BLOCK, PASS_SET_BACKWARD, "qk norm", PASS_BACKWARD,
      3 * 2.0 * 9225 * 2 * 13 * 128 },
    { "internvl-6b-20b", LAYER_VISION_BLOCK, PASS_SET_FORWARD, "activation", PASS_FORWARD,
      2 * 2.0 * 9225 * 6400 },
    { "internvl-6b-20b", LAYER_VISION_BLOCK, PASS_SET_BACKWARD, "activation", PASS_BACKWARD,
      3 * 2.0 * 9225 * 6400 },
    /* layer scale: gradient in and out, and the branch for its own gradient */
    { "internvl-6b-20b", LAYER_VISION_BLOCK, PASS_SET_BACKWARD, "mlp residual", PASS_BACKWARD,
      3 * 2.0 * 4613 * 3200 },
    /* only a bias: the gradient is read once */
    { "eva-8b-20b", LAYER_VISION_BLOCK, PASS_SET_BACKWARD, "mlp residual", PASS_BACKWARD,
      2.0 * 4613 * 4096 },
    { "internvl-6b-20b", LAYER_VISION_BLOCK, PASS_SET_BACKWARD, "mlp residual gradient",
      PASS_BACKWARD, 3 * 2.0 * 4613 * 3200 },
    { "internvl-6b-20b", LAYER_PATCH_EMBEDDING, PASS_SET_FORWARD, "patch unfold", PASS_FORWARD,
      2 * 2.0 * 4608 * 588 },
    { "internvl-6b-20b", LAYER_PATCH_EMBEDDING, PASS_SET_FORWARD, "patch position", PASS_FORWARD,
      2 * 2.0 * 4608 * 3200 },
    { "internvl-6b-20b", LAYER_PATCH_EMBEDDING, PASS_SET_BACKWARD, "patch position",
      PASS_WEIGHT_GRADIENT, 2.0 * 4608 * 3200 },
    { "llava-1.6-7b", LAYER_PATCH_EMBEDDING, PASS_SET_FORWARD, "embedding norm", PASS_FORWARD,
      2 * 2.0 * 2592 * 1024 },
    { "llava-1.6-7b", LAYER_PATCH_EMBEDDING, PASS_SET_BACKWARD, "embedding norm", PASS_BACKWARD,
      3 * 2.0 * 2592 * 1024 },
    { "internvl-6b-20b", LAYER_CONNECTOR, PASS_SET_FORWARD, "pixel shuffle", PASS_FORWARD,
      2 * 2.0 * 1152 * 12800 },
    { "internvl-6b-20b", LAYER_CONNECTOR, PASS_SET_BACKWARD, "pixel shuffle", PASS_BACKWARD,
      2 * 2.0 * 1152 * 12800 },
    { "internvl-6b-20b", LAYER_CONNECTOR, PASS_SET_FORWARD, "connector norm", PASS_FORWARD,
      2 * 2.0 * 1152 * 12800 },
    { "internvl-6b-20b", LAYER_CONNECTOR, PASS_SET_BACKWARD, "connector norm", PASS_BACKWARD,
      3 * 2.0 * 1152 * 12800 },
    { "internvl-6b-20b", LAYER_CONNECTOR, PASS_SET_FORWARD, "connector activation", PASS_FORWARD,
      2 * 2.0 * 1152 * 6144 },
    { "internvl-6b-20b", LAYER_CONNECTOR, PASS_SET_BACKWARD, "connector activation", PASS_BACKWARD,
      3 * 2.0 * 1152 * 6144 },
    { "internvl-6b-20b", LAYER_TOKEN_EMBEDDING, PASS_SET_FORWARD, "token lookup", PASS_FORWARD,
      2 * 2.0 * 4096 * 6144 },
    { "internvl-6b-20b", LAYER_TOKEN_EMBEDDING, PASS_SET_FORWARD, "vision rows", PASS_FORWARD,
      2 * 2.0 * 2304 * 6144 },
    { "internvl-6b-20b", LAYER_TOKEN_EMBEDDING, PASS_SET_BACKWARD, "vision rows",
      PASS_INPUT_GRADIENT, 2 * 2.0 * 2304 * 6144 },
    { "internvl-6b-20b", LAYER_TOKEN_EMBEDDING, PASS_SET_BACKWARD, "token scatter",
      PASS_WEIGHT_GRADIENT, 3 * 2.0 * 4096 * 6144 },
    { "internvl-6b-20b", LAYER_TOKEN_EMBEDDING, PASS_SET_BACKWARD, "token gradient sum",
      PASS_WEIGHT_GRADIENT, 12.0 * 46277 * 6144 },
    { "gpt-175b", LAYER_TOKEN_EMBEDDING, PASS_SET_FORWARD, "token position", PASS_FORWARD,
      3 * 2.0 * 2048 * 12288 },
    { "gpt-175b", LAYER_TOKEN_EMBEDDING, PASS_SET_BACKWARD, "token position", PASS_WEIGHT_GRADIENT,
      2.0 * 2048 * 12288 },
    { "internvl-6b-20b", LAYER_HEAD, PASS_SET_FORWARD, "final norm", PASS_FORWARD,
      2 * 2.0 * 2048 * 6144 },
    { "internvl-6b-20b", LAYER_HEAD, PASS_SET_FORWARD, "loss", PASS_FORWARD, 26.0 * 4096 * 46277 },
    { "internvl-6b-20b", LAYER_HEAD, PASS_SET_BACKWARD, "loss", PASS_BACKWARD,
      14.0 * 4096 * 46277 },
};

static void test_streaming_bytes(void **state) {
    (void)state;
    struct arena *arena = arena_create();
    for (size_t i = 0; i < sizeof streaming_cases / sizeof streaming_cases[0]; i++) {
        const struct model *m = fixture_model(arena, streaming_cases[i].model);
        struct batch_shape shape = fixture_group(m);
        struct operator_list list = operators_of(m, streaming_cases[i].kind, &shape,
                                                 split_of(2, true), streaming_cases[i].set, both);
        const struct operator_work *w =
            find_operator(&list, streaming_cases[i].name, streaming_cases[i].pass);
        if (w == NULL) fail_msg("row %zu: no %s", i, streaming_cases[i].name);
        if (w->memory_bytes != streaming_cases[i].want_bytes)
            fail_msg("row %zu: %s of %s moves %.0f bytes, want %.0f", i, w->name, m->name,
                     w->memory_bytes, streaming_cases[i].want_bytes);
        operator_list_free(&list);
    }
    arena_destroy(arena);
}

/* ---- precision and casts ---- */

static void test_precision(void **state) {
    (void)state;
    struct arena *arena = arena_create();
    const struct model *m =
        model_with_precision(arena, fixture_model(arena, "llama3-8b"), PRECISION_FP8);
    struct batch_shape shape = fixture_group(m);
    struct operator_list list =
        operators_of(m, LAYER_LANGUAGE_BLOCK, &shape, split_of(2, true), PASS_SET_FORWARD, both);
    assert_int_equal(find_operator(&list, "qkv", PASS_FORWARD)->precision, PRECISION_FP8);
    assert_int_equal(find_operator(&list, "attention", PASS_FORWARD)->precision, PRECISION_BF16);
    /* Operands are gathered as cast, sums are reduced in bf16. */
    expect_bytes("fp8 operands",
                 find_operator(&list, "attention all-gather", PASS_FORWARD)->network_bytes,
                 4096 * 4096);
    expect_bytes("bf16 sums",
                 find_operator(&list, "mlp reduce-scatter", PASS_FORWARD)->network_bytes,
                 2.0 * 4096 * 4096);
    operator_list_free(&list);
    list =
        operators_of(m, LAYER_LANGUAGE_BLOCK, &shape, split_of(2, true), PASS_SET_BACKWARD, both);
    expect_bytes("fp8 gradients",
                 find_operator(&list, "mlp gradient all-gather", PASS_BACKWARD)->network_bytes,
                 4096 * 4096);
    expect_bytes("fp8 inputs once more",
                 find_operator(&list, "mlp saved all-gather", PASS_WEIGHT_GRADIENT)->network_bytes,
                 4096 * 4096);
    operator_list_free(&list);
    list = operators_of(m, LAYER_HEAD, &shape, split_of(2, true), PASS_SET_FORWARD, both);
    assert_int_equal(find_operator(&list, "logits", PASS_FORWARD)->precision, PRECISION_BF16);
    expect_bytes("bf16 input of the head",
                 find_operator(&list, "head all-gather", PASS_FORWARD)->network_bytes,
                 2.0 * 4096 * 4096);
    operator_list_free(&list);

    m = model_with_precision(arena, m, PRECISION_FP32);
    list = operators_of(m, LAYER_LANGUAGE_BLOCK, &shape, split_of(2, true), PASS_SET_FORWARD, both);
    expect_bytes("fp32 activations",
                 find_operator(&list, "attention all-gather", PASS_FORWARD)->network_bytes,
                 4.0 * 4096 * 4096);
    operator_list_free(&list);
    arena_destroy(arena);
}

/* fp8: norm and activation write their result quantised, so only what comes from elsewhere is cast.
 * fp4: every operand, after a pass for its maximum, by two kernels. */
static void test_casts(void **state) {
    (void)state;
    struct arena *arena = arena_create();
    const struct model *llama = fixture_model(arena, "llama3-8b");
    struct batch_shape shape = fixture_group(llama);
    const struct tensor_split split = split_of(2, true);
    static const struct {
        enum precision precision;
        enum pass_set set;
        const char *name;
        enum operator_pass pass;
        double bytes; /* 0: not there */
    } cases[] = {
        { PRECISION_BF16, PASS_SET_FORWARD, "proj cast", PASS_FORWARD, 0 },
        { PRECISION_FP8, PASS_SET_FORWARD, "proj cast", PASS_FORWARD, 4.0 * 4096 * 2048 },
        { PRECISION_FP8, PASS_SET_FORWARD, "qkv cast", PASS_FORWARD, 0 },
        { PRECISION_FP8, PASS_SET_BACKWARD, "down cast", PASS_BACKWARD, 4.0 * 4096 * 4096 },
        { PRECISION_FP8, PASS_SET_BACKWARD, "up cast", PASS_BACKWARD, 0 },
        { PRECISION_FP4, PASS_SET_FORWARD, "qkv cast", PASS_FORWARD, 7.125 * 4096 * 4096 },
        { PRECISION_FP4, PASS_SET_FORWARD, "down cast", PASS_FORWARD, 7.125 * 4096 * 7168 },
        { PRECISION_FP4, PASS_SET_BACKWARD, "up cast", PASS_BACKWARD, 7.125 * 4096 * 14336 },
    };
    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
        const struct model *m = model_with_precision(arena, llama, cases[i].precision);
        struct operator_list list =
            operators_of(m, LAYER_LANGUAGE_BLOCK, &shape, split, cases[i].set, both);
        const struct operator_work *cast = find_operator(&list, cases[i].name, cases[i].pass);
        if (cases[i].bytes == 0)
            assert_null(cast);
        else
            expect_bytes(cases[i].name, cast->memory_bytes, cases[i].bytes);
        operator_list_free(&list);
    }
    arena_destroy(arena);
}

/* Who casts decides what is left to cast: llama3-8b at TP 2, f 7168, bytes a value. */
static void test_who_casts(void **state) {
    (void)state;
    struct arena *arena = arena_create();
    const struct model *m =
        model_with_precision(arena, fixture_model(arena, "llama3-8b"), PRECISION_FP8);
    struct batch_shape shape = fixture_group(m);
    static const struct {
        const char *name;
        enum pass_set set;
        int64_t columns;
        double fused, norm, linear, dynamic; /* 0: not there */
    } cases[] = {
        { "qkv cast", PASS_SET_FORWARD, 4096, 0, 0, 4, 3 },
        { "proj cast", PASS_SET_FORWARD, 2048, 4, 4, 4, 5 },
        { "down cast", PASS_SET_FORWARD, 7168, 0, 4, 4, 3 },
        { "up cast", PASS_SET_BACKWARD, 14336, 0, 4, 4, 6 },
        { "down cast", PASS_SET_BACKWARD, 4096, 4, 4, 4, 6 },
        { "up operand", PASS_SET_BACKWARD, 4096, 0, 2, 0, 3 },
        { "down operand", PASS_SET_BACKWARD, 7168, 0, 0, 0, 3 },
    };
    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
        const double bytes[] = { cases[i].fused, cases[i].norm, cases[i].linear, cases[i].dynamic };
        for (int casts = CASTS_FUSED; casts <= CASTS_DYNAMIC; casts++) {
            struct tensor_split split = split_of(2, true);
            split.block.casts = (enum stack_casts)casts;
            struct operator_list list =
                operators_of(m, LAYER_LANGUAGE_BLOCK, &shape, split, cases[i].set, both);
            const struct operator_work *cast =
                find_operator(&list, cases[i].name,
                              cases[i].set == PASS_SET_FORWARD ? PASS_FORWARD : PASS_BACKWARD);
            if (bytes[casts] == 0)
                assert_null(cast);
            else
                expect_bytes(cases[i].name, cast->memory_bytes,
                             bytes[casts] * 4096 * (double)cases[i].columns);
            operator_list_free(&list);
        }
    }
    arena_destroy(arena);
}

/* And the scaling of operands decides it too: bytes a value with one kernel for both ways
 * (Transformer Engine's norm casts nothing before its maximum is known) and, by torchao, one
 * each. */
static void test_casts_of_recipes(void **state) {
    (void)state;
    struct arena *arena = arena_create();
    const struct model *m =
        model_with_precision(arena, fixture_model(arena, "llama3-8b"), PRECISION_FP8);
    struct batch_shape shape = fixture_group(m);
    const double scaled = 1 + 1.0 / 32; /* a byte and its share of a scale */
    const struct {
        const char *name;
        enum pass_set set;
        int64_t columns;
        enum stack_casts casts;
        enum fp8_recipe recipe;
        double bytes; /* 0: not there */
    } cases[] = {
        { "qkv cast", PASS_SET_FORWARD, 4096, CASTS_NORM, FP8_RECIPE_DELAYED, 0 },
        { "qkv cast", PASS_SET_FORWARD, 4096, CASTS_NORM, FP8_RECIPE_TENSORWISE, 4 },
        { "qkv cast", PASS_SET_FORWARD, 4096, CASTS_FUSED, FP8_RECIPE_TENSORWISE, 4 },
        { "qkv cast", PASS_SET_FORWARD, 4096, CASTS_LINEAR, FP8_RECIPE_TENSORWISE, 6 },
        { "proj cast", PASS_SET_FORWARD, 2048, CASTS_NORM, FP8_RECIPE_TENSORWISE, 6 },
        { "up operand", PASS_SET_BACKWARD, 4096, CASTS_NORM, FP8_RECIPE_TENSORWISE, 0 },
        { "qkv cast", PASS_SET_FORWARD, 4096, CASTS_NORM, FP8_RECIPE_MXFP8, 2 + 2 * scaled },
        { "down cast", PASS_SET_BACKWARD, 4096, CASTS_NORM, FP8_RECIPE_BLOCKWISE, 2 + 2 * scaled },
        { "up operand", PASS_SET_BACKWARD, 4096, CASTS_NORM, FP8_RECIPE_MXFP8, 0 },
        { "proj cast", PASS_SET_FORWARD, 2048, CASTS_DYNAMIC, FP8_RECIPE_TENSORWISE, 5 },
        { "proj cast", PASS_SET_FORWARD, 2048, CASTS_DYNAMIC, FP8_RECIPE_ROWWISE, 3 },
        { "up cast", PASS_SET_BACKWARD, 14336, CASTS_DYNAMIC, FP8_RECIPE_MXFP8, 4 + 2 * scaled },
        { "up operand", PASS_SET_BACKWARD, 4096, CASTS_DYNAMIC, FP8_RECIPE_MXFP8, 2 + scaled },
        { "down cast", PASS_SET_BACKWARD, 4096, CASTS_DYNAMIC, FP8_RECIPE_ROWWISE, 8 },
        { "up operand", PASS_SET_BACKWARD, 4096, CASTS_DYNAMIC, FP8_RECIPE_ROWWISE, 5 },
    };
    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
        struct tensor_split split = split_of(2, true);
        split.block.casts = cases[i].casts;
        split.fp8_recipe = cases[i].recipe;
        struct operator_list list =
            operators_of(m, LAYER_LANGUAGE_BLOCK, &shape, split, cases[i].set, both);
        const bool forward = cases[i].set == PASS_SET_FORWARD;
        const struct operator_work *cast =
            find_operator(&list, cases[i].name, forward ? PASS_FORWARD : PASS_BACKWARD);
        if ((cast != NULL) != (cases[i].bytes > 0))
            fail_msg("row %zu: %s %s", i, cases[i].name, cast != NULL ? "is cast" : "is not cast");
        if (cast != NULL)
            expect_bytes(cases[i].name, cast->memory_bytes,
                         cases[i].bytes * 4096 * (double)cases[i].columns);
        const struct operator_work *scales =
            find_operator(&list, "weight gradient scales", PASS_WEIGHT_GRADIENT);
        if ((scales != NULL) != (!forward && cases[i].recipe == FP8_RECIPE_ROWWISE))
            fail_msg("row %zu: scales of weight gradients", i);
        const struct operator_work *matmul = &list.operators[0];
        while (matmul->kind != OPERATOR_MATMUL)
            matmul++;
        assert_int_equal(matmul->recipe, cases[i].recipe);
        operator_list_free(&list);
    }
    arena_destroy(arena);
}

/* The first weight that each pass of llama3-8b at TP 2 casts: qkv's 3072 x 4096 in the forward, the
 * MLP's second 4096 x 7168 in the backward. Bytes a value. */
static void test_weight_casts(void **state) {
    (void)state;
    struct arena *arena = arena_create();
    const struct model *plain = fixture_model(arena, "llama3-8b");
    struct batch_shape shape = fixture_group(plain);
    const double scaled = 1 + 1.0 / 32;
    const struct {
        enum precision precision;
        enum fp8_recipe recipe;
        bool each_pass, come_cast;
        double forward, backward; /* 0: not there */
    } cases[] = {
        { PRECISION_FP8, FP8_RECIPE_TENSORWISE, false, false, 0, 0 },
        { PRECISION_FP8, FP8_RECIPE_TENSORWISE, true, false, 5, 3 },
        { PRECISION_FP8, FP8_RECIPE_TENSORWISE, true, true, 0, 2 },
        { PRECISION_FP8, FP8_RECIPE_ROWWISE, true, false, 3, 7 },
        { PRECISION_FP8, FP8_RECIPE_MXFP8, true, false, 2 + scaled, 2 + scaled },
        { PRECISION_FP4, FP8_RECIPE_USUAL, true, false, 4.5625, 2.5625 },
        { PRECISION_BF16, FP8_RECIPE_USUAL, true, false, 0, 0 },
    };
    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
        const struct model *m = model_with_precision(arena, plain, cases[i].precision);
        struct tensor_split split = split_of(2, true);
        split.block.casts = CASTS_DYNAMIC;
        split.block.casts_weights = cases[i].each_pass;
        split.fp8_recipe = cases[i].recipe;
        split.weights_come_cast = cases[i].come_cast;
        const struct {
            enum pass_set set;
            const char *name;
            enum operator_pass pass;
            double bytes;
        } passes[] = { { PASS_SET_FORWARD, "weight cast", PASS_FORWARD,
                         cases[i].forward * 3072 * 4096 },
                       { PASS_SET_BACKWARD, "weight cast by columns", PASS_INPUT_GRADIENT,
                         cases[i].backward * 4096 * 7168 } };
        for (int p = 0; p < 2; p++) {
            struct operator_list list =
                operators_of(m, LAYER_LANGUAGE_BLOCK, &shape, split, passes[p].set, both);
            const struct operator_work *cast = find_operator(&list, passes[p].name, passes[p].pass);
            if ((cast != NULL) != (passes[p].bytes > 0))
                fail_msg("row %zu: %s", i, cast != NULL ? "a weight is cast" : "no weight is cast");
            if (cast != NULL) expect_bytes(passes[p].name, cast->memory_bytes, passes[p].bytes);
            operator_list_free(&list);
        }
    }
    arena_destroy(arena);
}

/* ---- collectives and copies around column-parallel products ---- */

/* A block under the other ways of tensor parallelism, forward and backward, and the head. */
static const struct {
    enum stack_tensor_traffic traffic;
    bool whole_logits;
    enum layer_kind kind;
    enum pass_set set;
    const char *want;
} traffic_cases[] = {
    { TENSOR_ALONE, false, LAYER_LANGUAGE_BLOCK, PASS_SET_BACKWARD,
      "mlp gradient all-gather b, down i, down w, activation b, up i, mlp reduce-scatter b, up w, "
      "mlp norm b, mlp residual gradient b, attention gradient all-gather b, proj i, proj w, "
      "attention b, rotary b, qkv i, attention reduce-scatter b, qkv w, attention norm b, "
      "attention residual gradient b" },
    { TENSOR_COPIED, false, LAYER_LANGUAGE_BLOCK, PASS_SET_FORWARD,
      "attention norm f, attention all-gather f, sequence copies f, qkv f, rotary f, attention f, "
      "proj f, attention reduce-scatter f, sequence copies f, attention residual f, "
      "mlp norm f, mlp all-gather f, sequence copies f, up f, activation f, down f, "
      "mlp reduce-scatter f, sequence copies f, mlp residual f" },
    { TENSOR_EACH, false, LAYER_LANGUAGE_BLOCK, PASS_SET_FORWARD,
      "attention norm f, attention all-gather f, attention all-gather f, attention all-gather f, "
      "sequence copies f, qkv f, rotary f, attention f, proj f, attention reduce-scatter f, "
      "sequence copies f, attention residual f, "
      "mlp norm f, mlp all-gather f, mlp all-gather f, sequence copies f, up f, activation f, "
      "down f, mlp reduce-scatter f, sequence copies f, mlp residual f" },
    { TENSOR_MERGED, false, LAYER_LANGUAGE_BLOCK, PASS_SET_FORWARD,
      "attention norm f, attention all-gather f, sequence copies f, qkv f, rotary f, attention f, "
      "proj f, attention reduce-scatter f, sequence copies f, attention residual f, "
      "mlp norm f, mlp all-gather f, sequence copies f, up f, activation f, down f, "
      "mlp reduce-scatter f, sequence copies f, mlp residual f" },
    { TENSOR_MERGED, false, LAYER_LANGUAGE_BLOCK, PASS_SET_BACKWARD,
      "mlp gradient all-gather b, sequence copies b, down i, down w, activation b, up i, "
      "mlp reduce-scatter b, mlp reduce-scatter b, sequence copies b, up w, "
      "mlp norm b, mlp residual gradient b, attention gradient all-gather b, sequence copies b, "
      "proj i, proj w, attention b, rotary b, qkv i, attention reduce-scatter b, "
      "attention reduce-scatter b, attention reduce-scatter b, sequence copies b, qkv w, "
      "attention norm b, attention residual gradient b" },
    { TENSOR_ALONE, true, LAYER_HEAD, PASS_SET_FORWARD,
      "final norm f, head all-gather f, logits f, logits all-gather f, loss f" },
};

static void test_tensor_traffic(void **state) {
    (void)state;
    struct arena *arena = arena_create();
    const struct model *m = fixture_model(arena, "llama3-8b");
    char text[4096];
    for (size_t i = 0; i < sizeof traffic_cases / sizeof traffic_cases[0]; i++) {
        struct batch_shape shape = fixture_group(m);
        struct tensor_split split = split_of(4, true);
        split.block.tensor_traffic = traffic_cases[i].traffic;
        split.block.whole_logits = traffic_cases[i].whole_logits;
        struct operator_list list =
            operators_of(m, traffic_cases[i].kind, &shape, split, traffic_cases[i].set,
                         (struct gradient_need){ true, true });
        sequence_of(&list, text, sizeof text);
        assert_string_equal(text, traffic_cases[i].want);
        operator_list_free(&list);
    }
    /* A copy reads and writes the gathered activation once for each collective beside it. */
    struct batch_shape shape = fixture_group(m);
    struct tensor_split split = split_of(4, true);
    split.block.tensor_traffic = TENSOR_EACH;
    struct operator_list list =
        operators_of(m, LAYER_LANGUAGE_BLOCK, &shape, split, PASS_SET_FORWARD,
                     (struct gradient_need){ true, true });
    const struct operator_work *gather = find_operator(&list, "attention all-gather", PASS_FORWARD),
                               *copies = find_operator(&list, "sequence copies", PASS_FORWARD);
    assert_true(fabs(copies->memory_bytes - 3 * 2 * gather->network_bytes) < 1);
    operator_list_free(&list);
    arena_destroy(arena);
}

/* Without sequence parallelism a stack whose q, k, v, gate and up are layers of their own reduces the
 * gradient of their input for each (picotron); PaddlePaddle's copy the input besides. */
static void test_reductions_of_each(void **state) {
    (void)state;
    struct arena *arena = arena_create();
    const struct model *m = fixture_model(arena, "llama3-8b");
    static const char backward[] =
        "down i, down w, activation b, up i, mlp all-reduce b, mlp all-reduce b, up w, mlp norm b, "
        "mlp residual gradient b, proj i, proj w, attention b, rotary b, qkv i, "
        "attention all-reduce b, attention all-reduce b, attention all-reduce b, qkv w, "
        "attention norm b, attention residual gradient b";
    static const struct {
        enum stack_tensor_traffic traffic;
        unsigned keeps;
        enum pass_set set;
        const char *want;
    } cases[] = {
        { TENSOR_MERGED, 0, PASS_SET_BACKWARD, backward },
        { TENSOR_EACH, 0, PASS_SET_BACKWARD, backward },
        { TENSOR_ALONE, KEEPS_COPIED_INPUTS, PASS_SET_BACKWARD, backward },
        { TENSOR_ALONE, KEEPS_COPIED_INPUTS, PASS_SET_FORWARD,
          "attention norm f, input copies f, qkv f, rotary f, attention f, proj f, "
          "attention all-reduce f, attention residual f, mlp norm f, input copies f, up f, "
          "activation f, down f, mlp all-reduce f, mlp residual f" },
    };
    struct batch_shape shape = fixture_group(m);
    struct tensor_split split = split_of(4, false);
    char text[4096];
    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
        split.block.tensor_traffic = cases[i].traffic;
        split.block.keeps = cases[i].keeps;
        struct operator_list list =
            operators_of(m, LAYER_LANGUAGE_BLOCK, &shape, split, cases[i].set, both);
        sequence_of(&list, text, sizeof text);
        assert_string_equal(text, cases[i].want);
        operator_list_free(&list);
    }
    /* Read and written for q, k and v, then for gate and up; the last case is still set. */
    struct operator_list list =
        operators_of(m, LAYER_LANGUAGE_BLOCK, &shape, split, PASS_SET_FORWARD, both);
    const double bytes = find_operator(&list, "mlp all-reduce", PASS_FORWARD)->network_bytes;
    double copied = 0;
    for (int64_t i = 0; i < list.count; i++)
        if (strcmp(list.operators[i].name, "input copies") == 0)
            copied += list.operators[i].memory_bytes;
    assert_true(fabs(copied - (3 + 2) * 2 * bytes) < 1);
    operator_list_free(&list);
    arena_destroy(arena);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_operators),          cmocka_unit_test(test_operators_of_other_layers),
        cmocka_unit_test(test_head_share),         cmocka_unit_test(test_streaming_bytes),
        cmocka_unit_test(test_precision),          cmocka_unit_test(test_casts),
        cmocka_unit_test(test_who_casts),          cmocka_unit_test(test_casts_of_recipes),
        cmocka_unit_test(test_weight_casts),       cmocka_unit_test(test_tensor_traffic),
        cmocka_unit_test(test_reductions_of_each),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
