/* test_layer_attention.c - naive attention, context parallelism, dropout and what recomputation
 * runs again, against values computed by hand. */
#include "tests/unit/model/model_fixture.h"

#include <math.h>

static const struct gradient_need both = { .input = true, .weight = true };
static const struct gradient_need none = { .input = false, .weight = false };

/* Of gpt-175b and its kin: 96 heads of 128 on 8 ranks, two samples of 2048 tokens. */
static const struct tensor_split naive_8 = {
    .tp = 8, .sequence_parallel = true, .cp = 1, .attention = ATTENTION_NAIVE
};
enum { HEADS = 12, HEAD_DIM = 128, TOKENS = 2 * 2048 };
#define SCORES (12.0 * 2 * 2048 * 2048)

static const struct model *gpt(struct arena *arena, bool dropout) {
    static const char *const texts[] = {
        "{ \"name\": \"g\", \"source\": \"test\", \"language\": { \"module\": \"gpt-175b\" } }",
        "{ \"name\": \"g\", \"source\": \"test\", \"language\": { \"module\": \"gpt-175b\", "
        "\"dropout\": true } }",
    };
    struct error err = { 0 };
    char path[256];
    const struct model *model = fixture_text(arena, texts[dropout], path, sizeof path, &err);
    if (model == NULL) fail_msg("%s", err.text);
    return model;
}

static struct operator_list block_operators(const struct model *m, const struct batch_shape *shape,
                                            struct tensor_split split, enum pass_set set) {
    struct operator_list list = { 0 };
    layer_operators(m, fixture_layer(m, LAYER_LANGUAGE_BLOCK), shape, &split, set, both, &list);
    return list;
}

static struct operator_list attention_operators(const struct model *m,
                                                const struct batch_shape *shape,
                                                struct tensor_split split, enum pass_set set) {
    struct operator_list list = { 0 };
    layer_attention_operators(m, fixture_layer(m, LAYER_LANGUAGE_BLOCK), shape, &split, set, both,
                              &list);
    return list;
}

static const struct operator_work *find(const struct operator_list *list, const char *name) {
    for (int64_t i = 0; i < list->count; i++)
        if (strcmp(list->operators[i].name, name) == 0) return &list->operators[i];
    return NULL;
}

static void names_of(const struct operator_list *list, char *text, size_t size) {
    size_t used = 0;
    text[0] = '\0';
    for (int64_t i = 0; i < list->count; i++)
        used += (size_t)snprintf(text + used, size - used, "%s%s", i > 0 ? ", " : "",
                                 list->operators[i].name);
}

static bool same_operator(const struct operator_work *a, const struct operator_work *b) {
    return strcmp(a->name, b->name) == 0 && a->kind == b->kind && a->pass == b->pass &&
           a->precision == b->precision && a->communicator == b->communicator && a->m == b->m &&
           a->n == b->n && a->k == b->k && a->token_sum == b->token_sum &&
           a->square_sum == b->square_sum && a->flop == b->flop &&
           a->memory_bytes == b->memory_bytes && a->network_bytes == b->network_bytes;
}

/* ---- naive attention ---- */

/* A matmul of the batch reads or writes queries, keys and scores once each. */
#define MATMUL_BYTES (2 * (2.0 * HEADS * TOKENS * HEAD_DIM + SCORES))

static const struct {
    enum pass_set set;
    const char *name;
    enum operator_kind kind;
    int64_t m, n, k;
    double memory_bytes;
} naive_cases[] = {
    { PASS_SET_FORWARD, "attention scores", OPERATOR_MATMUL, HEADS *TOKENS, 2048, 128,
      MATMUL_BYTES },
    { PASS_SET_FORWARD, "attention softmax", OPERATOR_ELEMENTWISE, 0, 0, 0, 4 * SCORES },
    { PASS_SET_FORWARD, "attention dropout", OPERATOR_ELEMENTWISE, 0, 0, 0, 5 * SCORES },
    { PASS_SET_FORWARD, "attention values", OPERATOR_MATMUL, HEADS *TOKENS, 128, 2048,
      MATMUL_BYTES },
    { PASS_SET_BACKWARD, "attention softmax gradient", OPERATOR_MATMUL, HEADS *TOKENS, 2048, 128,
      MATMUL_BYTES },
    { PASS_SET_BACKWARD, "attention value gradient", OPERATOR_MATMUL, HEADS *TOKENS, 128, 2048,
      MATMUL_BYTES },
    { PASS_SET_BACKWARD, "attention dropout", OPERATOR_ELEMENTWISE, 0, 0, 0, 5 * SCORES },
    { PASS_SET_BACKWARD, "attention softmax", OPERATOR_ELEMENTWISE, 0, 0, 0, 6 * SCORES },
    { PASS_SET_BACKWARD, "attention query gradient", OPERATOR_MATMUL, HEADS *TOKENS, 128, 2048,
      MATMUL_BYTES },
    { PASS_SET_BACKWARD, "attention key gradient", OPERATOR_MATMUL, HEADS *TOKENS, 128, 2048,
      MATMUL_BYTES },
};

static void test_naive_operators(void **state) {
    (void)state;
    struct arena *arena = arena_create();
    const struct model *m = gpt(arena, true);
    struct batch_shape shape = model_batch_shape(m, 2, 0, TOKENS, 2 * 2048.0 * 2048.0);
    for (size_t i = 0; i < sizeof naive_cases / sizeof naive_cases[0]; i++) {
        struct operator_list list = attention_operators(m, &shape, naive_8, naive_cases[i].set);
        const struct operator_work *w = find(&list, naive_cases[i].name);
        if (w == NULL) fail_msg("row %zu: no %s", i, naive_cases[i].name);
        const bool matmul = w->kind == OPERATOR_MATMUL;
        if (w->kind != naive_cases[i].kind || w->m != naive_cases[i].m ||
            w->n != naive_cases[i].n || w->k != naive_cases[i].k)
            fail_msg("row %zu: %s is a %s of %lld x %lld x %lld", i, w->name,
                     operator_kind_name(w->kind), (long long)w->m, (long long)w->n,
                     (long long)w->k);
        if (w->flop != (matmul ? 2 * SCORES * HEAD_DIM : 0))
            fail_msg("row %zu: %s has %.0f flop", i, w->name, w->flop);
        if (w->memory_bytes != naive_cases[i].memory_bytes)
            fail_msg("row %zu: %s moves %.0f bytes, want %.0f", i, w->name, w->memory_bytes,
                     naive_cases[i].memory_bytes);
        assert_int_equal(w->precision, PRECISION_BF16);
        operator_list_free(&list);
    }
    arena_destroy(arena);
}

static void test_naive_lists(void **state) {
    (void)state;
    static const struct {
        bool dropout;
        enum pass_set set;
        const char *want;
    } cases[] = {
        { false, PASS_SET_FORWARD, "attention scores, attention softmax, attention values" },
        { true, PASS_SET_FORWARD,
          "attention scores, attention softmax, attention dropout, attention values" },
        { false, PASS_SET_BACKWARD,
          "attention softmax gradient, attention value gradient, attention softmax, "
          "attention query gradient, attention key gradient" },
        { true, PASS_SET_BACKWARD,
          "attention softmax gradient, attention value gradient, attention dropout, "
          "attention softmax, attention query gradient, attention key gradient" },
    };
    struct arena *arena = arena_create();
    char text[1024];
    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
        const struct model *m = gpt(arena, cases[i].dropout);
        struct batch_shape shape = model_batch_shape(m, 2, 0, TOKENS, 2 * 2048.0 * 2048.0);
        struct operator_list core = attention_operators(m, &shape, naive_8, cases[i].set);
        names_of(&core, text, sizeof text);
        assert_int_equal(find(&core, "attention softmax")->form,
                         cases[i].dropout ? FORM_DROPPED_CAUSAL_SOFTMAX : FORM_CAUSAL_SOFTMAX);
        if (strcmp(text, cases[i].want) != 0)
            fail_msg("row %zu:\n got %s\nwant %s", i, text, cases[i].want);
        /* The same operators stand in the list of the block, one after another and nowhere else. */
        struct operator_list block = block_operators(m, &shape, naive_8, cases[i].set);
        int64_t first = 0, marked = 0;
        while (first < block.count && !operator_is_core_attention(&block.operators[first]))
            first++;
        for (int64_t j = 0; j < block.count; j++)
            marked += operator_is_core_attention(&block.operators[j]);
        assert_int_equal(marked, core.count);
        for (int64_t j = 0; j < core.count; j++)
            if (!same_operator(&block.operators[first + j], &core.operators[j]))
                fail_msg("row %zu: operator %lld is %s", i, (long long)j,
                         block.operators[first + j].name);
        /* All others are those of flash attention. */
        struct tensor_split flash = naive_8;
        flash.attention = ATTENTION_FLASH;
        struct operator_list fused = block_operators(m, &shape, flash, cases[i].set);
        assert_int_equal(fused.count, block.count - core.count + 1);
        assert_string_equal(fused.operators[first].name, "attention");
        assert_true(operator_is_core_attention(&fused.operators[first]));
        for (int64_t j = 0; j < fused.count; j++)
            if (j != first && !same_operator(&fused.operators[j],
                                             &block.operators[j < first ? j : j + core.count - 1]))
                fail_msg("row %zu: operator %lld differs", i, (long long)j);
        operator_list_free(&fused);
        operator_list_free(&block);
        operator_list_free(&core);
    }
    arena_destroy(arena);
}

/* Two samples of 1000 and 3000 tokens: a token sees 2500 on average. Twice the FLOP of flash
 * attention, which leaves the upper triangle out. */
static void test_naive_mixed_lengths(void **state) {
    (void)state;
    struct arena *arena = arena_create();
    const struct model *m = gpt(arena, false);
    struct batch_shape shape = model_batch_shape(m, 2, 0, 4000, 1e6 + 9e6);
    struct operator_list list = attention_operators(m, &shape, naive_8, PASS_SET_FORWARD);
    const struct operator_work *scores = find(&list, "attention scores");
    assert_int_equal(scores->n, 2500);
    assert_true(scores->flop == 2 * 1e7 * HEADS * HEAD_DIM);
    double flop = scores->flop + find(&list, "attention values")->flop;
    struct tensor_split split = naive_8;
    split.attention = ATTENTION_FLASH;
    struct operator_list fused = attention_operators(m, &shape, split, PASS_SET_FORWARD);
    assert_true(flop == 2 * fused.operators[0].flop);
    operator_list_free(&list);
    operator_list_free(&fused);
    /* shorter than a token on average, as a probe may be: still a matmul */
    shape.language_square_sum = 1;
    list = attention_operators(m, &shape, naive_8, PASS_SET_FORWARD);
    assert_int_equal(find(&list, "attention scores")->n, 1);
    operator_list_free(&list);
    arena_destroy(arena);
}

/* The encoder of internvl-6b-20b: 9 tiles of 1025 tokens, 25 heads on two ranks, none causal. */
static void test_naive_encoder(void **state) {
    (void)state;
    struct arena *arena = arena_create();
    const struct model *m = fixture_model(arena, "internvl-6b-20b");
    struct batch_shape shape = fixture_group(m);
    struct tensor_split split = { .tp = 2, .cp = 1, .attention = ATTENTION_NAIVE };
    struct operator_list list = { 0 };
    layer_attention_operators(m, fixture_layer(m, LAYER_VISION_BLOCK), &shape, &split,
                              PASS_SET_FORWARD, both, &list);
    assert_int_equal(list.operators[0].m, 13 * 9 * 1025);
    assert_int_equal(list.operators[0].n, 1025);
    assert_true(list.operators[0].flop == 2 * 13 * 9.0 * 1025 * 1025 * 128);
    operator_list_free(&list);
    layer_attention_operators(m, fixture_layer(m, LAYER_CONNECTOR), &shape, &split,
                              PASS_SET_FORWARD, both, &list);
    layer_attention_operators(m, fixture_layer(m, LAYER_VISION_BLOCK), &shape, &split,
                              PASS_SET_BACKWARD, none, &list);
    shape.vision_tokens = 0;
    layer_attention_operators(m, fixture_layer(m, LAYER_VISION_BLOCK), &shape, &split,
                              PASS_SET_FORWARD, both, &list);
    assert_int_equal(list.count, 0);
    operator_list_free(&list);
    arena_destroy(arena);
}

/* ---- dropout after a branch and after the embedding ---- */

static void test_dropout(void **state) {
    (void)state;
    static const struct {
        enum layer_kind kind;
        enum pass_set set;
        const char *name;
        double bytes_without, bytes_with; /* a value of a shard of 512 tokens x 12288 */
    } cases[] = {
        /* branch and residual in, their sum and a mask out */
        { LAYER_LANGUAGE_BLOCK, PASS_SET_FORWARD, "attention residual", 6, 7 },
        { LAYER_LANGUAGE_BLOCK, PASS_SET_FORWARD, "mlp residual", 6, 7 },
        /* the gradient in for the bias; with dropout mask in and gradient out as well */
        { LAYER_LANGUAGE_BLOCK, PASS_SET_BACKWARD, "attention residual", 2, 5 },
        { LAYER_LANGUAGE_BLOCK, PASS_SET_BACKWARD, "mlp residual", 2, 5 },
        { LAYER_TOKEN_EMBEDDING, PASS_SET_FORWARD, "embedding dropout", 0, 5 },
        { LAYER_TOKEN_EMBEDDING, PASS_SET_BACKWARD, "embedding dropout", 0, 5 },
    };
    struct arena *arena = arena_create();
    for (int dropout = 0; dropout < 2; dropout++) {
        const struct model *m = gpt(arena, dropout);
        struct batch_shape shape = model_batch_shape(m, 2, 0, TOKENS, 2 * 2048.0 * 2048.0);
        for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
            struct operator_list list = { 0 };
            layer_operators(m, fixture_layer(m, cases[i].kind), &shape, &naive_8, cases[i].set,
                            both, &list);
            const struct operator_work *w = find(&list, cases[i].name);
            double want = dropout ? cases[i].bytes_with : cases[i].bytes_without;
            double got = w == NULL ? 0 : w->memory_bytes / (512.0 * 12288);
            if (got != want) fail_msg("row %zu: %s, %g bytes a value", i, cases[i].name, got);
            operator_list_free(&list);
        }
    }
    arena_destroy(arena);
}

/* A training's own dropout stands above the model's file, each of the two for itself, and not for
 * an encoder. */
static void test_dropout_of_training(void **state) {
    (void)state;
    static const struct {
        bool of_model;
        enum dropout hidden, attention;
        bool want_hidden, want_attention;
    } cases[] = {
        { false, DROPOUT_OF_MODEL, DROPOUT_OF_MODEL, false, false },
        { true, DROPOUT_OF_MODEL, DROPOUT_OF_MODEL, true, true },
        { false, DROPOUT_ON, DROPOUT_OFF, true, false },
        { true, DROPOUT_OFF, DROPOUT_ON, false, true },
    };
    struct arena *arena = arena_create();
    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
        const struct model *m = gpt(arena, cases[i].of_model);
        const int64_t block = fixture_layer(m, LAYER_LANGUAGE_BLOCK);
        struct batch_shape shape = model_batch_shape(m, 2, 0, TOKENS, 2 * 2048.0 * 2048.0);
        struct tensor_split split = naive_8;
        split.attention = ATTENTION_FLASH;
        split.hidden_dropout = split.attention_dropout = DROPOUT_OFF;
        const double without = layer_saved_bytes(m, block, &shape, &split, RECOMPUTE_NONE);
        split.hidden_dropout = cases[i].hidden;
        split.attention_dropout = cases[i].attention;
        const double masks = layer_saved_bytes(m, block, &shape, &split, RECOMPUTE_NONE) - without;
        if (masks != (cases[i].want_hidden ? 2 * 512.0 * 12288 : 0))
            fail_msg("row %zu: %.0f bytes of masks", i, masks);
        struct operator_list list = { 0 };
        layer_operators(m, block, &shape, &split, PASS_SET_FORWARD, both, &list);
        if (find(&list, "attention")->dropout != cases[i].want_attention) fail_msg("row %zu", i);
        assert_false(find(&list, "attention")->deterministic);
        operator_list_free(&list);
    }
    const struct model *m = fixture_model(arena, "internvl-6b-8b");
    struct batch_shape shape = model_batch_shape(m, 1, 7, 2048, 2048.0 * 2048.0);
    struct tensor_split split = {
        .tp = 1, .cp = 1, .hidden_dropout = DROPOUT_ON, .attention_dropout = DROPOUT_ON
    };
    struct operator_list list = { 0 };
    layer_operators(m, fixture_layer(m, LAYER_VISION_BLOCK), &shape, &split, PASS_SET_FORWARD, both,
                    &list);
    assert_false(find(&list, "attention")->dropout);
    operator_list_free(&list);
    arena_destroy(arena);
}

/* ---- samples without their padding ---- */

/* q, k and v of 12 heads of 128: read and written before, the result's zeros, its read and write
 * behind; backward the other way round. Two bytes each. */
static void test_unpads(void **state) {
    (void)state;
    struct arena *arena = arena_create();
    const struct model *m = gpt(arena, false);
    struct batch_shape shape = model_batch_shape(m, 2, 0, TOKENS, 2 * 2048.0 * 2048.0);
    static const struct {
        enum pass_set set;
        double tensors; /* of q's width */
        int64_t before; /* places of the operator before attention; negative: behind it */
    } cases[] = { { PASS_SET_FORWARD, 2 * 3 + 3, 1 }, { PASS_SET_BACKWARD, 3 * 3 + 2, -1 } };
    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
        struct tensor_split split = { .tp = 8, .cp = 1, .attention = ATTENTION_FLASH };
        struct operator_list plain = block_operators(m, &shape, split, cases[i].set);
        split.unpads_samples = true;
        struct operator_list list = block_operators(m, &shape, split, cases[i].set);
        assert_int_equal(list.count, plain.count + 1);
        const struct operator_work *attention = find(&list, "attention"),
                                   *unpads = find(&list, "attention unpadding");
        assert_null(find(&plain, "attention unpadding"));
        assert_non_null(unpads);
        assert_int_equal(attention - unpads, cases[i].before);
        assert_true(unpads->memory_bytes == cases[i].tensors * 2.0 * TOKENS * HEADS * HEAD_DIM);
        assert_int_equal(unpads->kind, OPERATOR_ELEMENTWISE);
        operator_list_free(&list);
        operator_list_free(&plain);
        split.attention = ATTENTION_NAIVE;
        list = block_operators(m, &shape, split, cases[i].set);
        assert_null(find(&list, "attention unpadding"));
        operator_list_free(&list);
    }
    arena_destroy(arena);
}

/* ---- context parallelism ---- */

/* internvl-6b-70b, 8192 tokens, tp 2, cp 4: a rank has 2048 tokens, 32 query and 4 key-value heads
 * of 128. Keys and values of a token: 2 x 4 x 128 values of 2 bytes; queries 32 x 128. */
#define KEY_VALUE (2048 * 2.0 * 4 * 128 * 2)
#define QUERY     (2048 * 32.0 * 128 * 2)

static const struct {
    enum context_kind context;
    int64_t heads; /* of the four ranks, those that exchange heads */
    enum pass_set set;
    const char *before, *after; /* names of what surrounds attention */
    double before_bytes, after_bytes;
} exchange_cases[] = {
    { CONTEXT_ALL_GATHER, 1, PASS_SET_FORWARD, "key-value all-gather", NULL, 4 * KEY_VALUE, 0 },
    { CONTEXT_ALL_GATHER, 1, PASS_SET_BACKWARD, "key-value all-gather", "key-value reduce-scatter",
      4 * KEY_VALUE, 4 * KEY_VALUE },
    { CONTEXT_RING, 1, PASS_SET_FORWARD, "key-value ring", NULL, 3 * KEY_VALUE, 0 },
    { CONTEXT_RING, 1, PASS_SET_BACKWARD, "key-value ring", NULL, 6 * KEY_VALUE, 0 },
    { CONTEXT_ALL_TO_ALL, 1, PASS_SET_FORWARD, "query all-to-all, key-value all-to-all",
      "output all-to-all", QUERY + KEY_VALUE, QUERY },
    { CONTEXT_ALL_TO_ALL, 1, PASS_SET_BACKWARD, "output gradient all-to-all",
      "query gradient all-to-all, key-value gradient all-to-all", QUERY, QUERY + KEY_VALUE },
    { CONTEXT_RING, 2, PASS_SET_FORWARD, "query all-to-all, key-value all-to-all, key-value ring",
      "output all-to-all", QUERY + KEY_VALUE + KEY_VALUE, QUERY },
    { CONTEXT_RING, 2, PASS_SET_BACKWARD, "output gradient all-to-all, key-value ring",
      "query gradient all-to-all, key-value gradient all-to-all", QUERY + 2 * KEY_VALUE,
      QUERY + KEY_VALUE },
    { CONTEXT_ALL_GATHER, 2, PASS_SET_BACKWARD, "output gradient all-to-all, key-value all-gather",
      "key-value reduce-scatter, query gradient all-to-all, key-value gradient all-to-all",
      QUERY + 2 * KEY_VALUE, 2 * KEY_VALUE + QUERY + KEY_VALUE },
    { CONTEXT_RING, 4, PASS_SET_FORWARD, "query all-to-all, key-value all-to-all",
      "output all-to-all", QUERY + KEY_VALUE, QUERY },
    { CONTEXT_GATHERED_RING, 1, PASS_SET_FORWARD, "key-value all-gather", NULL, 4 * KEY_VALUE, 0 },
    /* gradients in fp32, a step for each rank */
    { CONTEXT_GATHERED_RING, 1, PASS_SET_BACKWARD, "key-value all-gather, key-value gradient ring",
      NULL, 4 * KEY_VALUE + 8 * KEY_VALUE, 0 },
    { CONTEXT_GATHERED_RING, 2, PASS_SET_FORWARD,
      "query all-to-all, key-value all-to-all, key-value all-gather", "output all-to-all",
      QUERY + KEY_VALUE + 2 * KEY_VALUE, QUERY },
};

static void test_exchange(void **state) {
    (void)state;
    struct arena *arena = arena_create();
    const struct model *m = fixture_model(arena, "internvl-6b-70b");
    struct batch_shape shape = model_batch_shape(m, 1, 8, 8192, 8192.0 * 8192.0);
    for (size_t i = 0; i < sizeof exchange_cases / sizeof exchange_cases[0]; i++) {
        struct tensor_split split = { .tp = 2,
                                      .sequence_parallel = true,
                                      .cp = 4,
                                      .context_heads = exchange_cases[i].heads,
                                      .context = exchange_cases[i].context };
        struct operator_list list = block_operators(m, &shape, split, exchange_cases[i].set);
        struct operator_list parts[2] = { { 0 }, { 0 } };
        int64_t attention = -1;
        for (int64_t j = 0; j < list.count; j++) {
            const struct operator_work *w = &list.operators[j];
            if (operator_is_core_attention(w)) attention = j;
            if (communicator_shares_sequence(w->communicator))
                operator_list_push(&parts[attention >= 0], *w);
            const bool two_ways = exchange_cases[i].heads == 2,
                       all = w->kind == OPERATOR_ALL_TO_ALL;
            if (communicator_shares_sequence(w->communicator))
                assert_int_equal(w->communicator, !two_ways ? COMMUNICATOR_CONTEXT
                                                  : all     ? COMMUNICATOR_CONTEXT_HEADS
                                                            : COMMUNICATOR_CONTEXT_RING);
            bool beside = operator_runs_beside_attention(w);
            const bool gathers = exchange_cases[i].context == CONTEXT_GATHERED_RING &&
                                 strcmp(w->name, "key-value all-gather") == 0;
            if (beside != (gathers || strcmp(w->name, "key-value ring") == 0 ||
                           strcmp(w->name, "key-value gradient ring") == 0))
                fail_msg("row %zu: %s beside attention", i, w->name);
            /* the ring ends right where the attention begins that hides it */
            if (beside)
                assert_true(operator_is_core_attention(&list.operators[j + 1]) ||
                            operator_runs_beside_attention(&list.operators[j + 1]));
        }
        char text[2][256];
        double bytes[2] = { 0, 0 };
        for (int part = 0; part < 2; part++) {
            names_of(&parts[part], text[part], sizeof text[part]);
            for (int64_t j = 0; j < parts[part].count; j++)
                bytes[part] += parts[part].operators[j].network_bytes;
            operator_list_free(&parts[part]);
        }
        const char *after = exchange_cases[i].after != NULL ? exchange_cases[i].after : "";
        if (strcmp(text[0], exchange_cases[i].before) != 0 || strcmp(text[1], after) != 0)
            fail_msg("row %zu: %s | %s", i, text[0], text[1]);
        if (bytes[0] != exchange_cases[i].before_bytes || bytes[1] != exchange_cases[i].after_bytes)
            fail_msg("row %zu: %.0f and %.0f bytes", i, bytes[0], bytes[1]);
        /* The work is a quarter of the whole, whichever way the keys come. */
        const struct operator_work *w = &list.operators[attention];
        double flop = 0;
        for (int64_t j = 0; j < list.count; j++)
            if (operator_is_core_attention(&list.operators[j])) flop += list.operators[j].flop;
        assert_true(flop == (exchange_cases[i].set == PASS_SET_FORWARD ? 1 : 2.5) * 2 * 32 * 128 *
                                8192.0 * 8192.0 / 4);
        const bool in_pieces = exchange_cases[i].context == CONTEXT_RING ||
                               exchange_cases[i].context == CONTEXT_GATHERED_RING;
        if (!in_pieces || exchange_cases[i].heads == 4)
            assert_true(w->token_sum == 2048 && w->square_sum == 8192.0 * 8192.0 / 4);
        assert_int_equal(w->heads, 32);
        assert_int_equal(w->kv_heads, 4);
        operator_list_free(&list);
    }
    arena_destroy(arena);
}

/* A ring of four: the rank's 2048 tokens under the mask, then half of the pairs with the 2048 of
 * each of three others, without; outputs copied once and added three times. Cut into runs instead,
 * the last rank attends to all of theirs. */
static void test_ring_pieces(void **state) {
    (void)state;
    struct arena *arena = arena_create();
    const struct model *m = fixture_model(arena, "internvl-6b-70b");
    struct batch_shape shape = model_batch_shape(m, 1, 8, 8192, 8192.0 * 8192.0);
    struct tensor_split split = { .tp = 2, .cp = 4, .context = CONTEXT_RING };
    struct operator_list list = block_operators(m, &shape, split, PASS_SET_FORWARD);
    const struct operator_work *own = find(&list, "attention"),
                               *others = find(&list, "attention of other ranks' keys");
    assert_true(own->causal && !others->causal);
    assert_true(own->token_sum == 2048 && own->square_sum == 2048.0 * 2048.0);
    assert_true(others->token_sum == 3 * 2048 && others->square_sum == 3 * 2048.0 * 1024.0);
    assert_true(find(&list, "attention merge")->memory_bytes == 2048 * (32.0 * 128) * 2 * 11);
    operator_list_free(&list);
    /* Around pairs that exchange heads it has two places, of twice the tokens and half the heads. */
    split.context_heads = 2;
    list = block_operators(m, &shape, split, PASS_SET_FORWARD);
    own = find(&list, "attention");
    others = find(&list, "attention of other ranks' keys");
    assert_true(own->token_sum == 2048 && own->square_sum == 2048.0 * 4096.0);
    assert_true(others->token_sum == 2048 && others->square_sum == 2048.0 * 2048.0);
    assert_true(find(&list, "attention merge")->memory_bytes == 2048 * (32.0 * 128) * 2 * 5);
    operator_list_free(&list);
    split.context_heads = 1;
    split.context_unbalanced = true;
    list = block_operators(m, &shape, split, PASS_SET_FORWARD);
    assert_true(find(&list, "attention")->square_sum == 2048.0 * 2048.0);
    assert_true(find(&list, "attention of other ranks' keys")->square_sum == 3 * 2048.0 * 2048.0);
    operator_list_free(&list);
    arena_destroy(arena);
}

/* PyTorch's ring of four, 32 query and 4 key-value heads. Compiled it waits for each collective where
 * it is called; keys and values copied for each query head are eight times as many. */
static void test_gathered_ring(void **state) {
    (void)state;
    struct arena *arena = arena_create();
    const struct model *m = fixture_model(arena, "internvl-6b-70b");
    struct batch_shape shape = model_batch_shape(m, 1, 8, 8192, 8192.0 * 8192.0);
    const double output = 2048 * 32.0 * 128, keys = 2048 * 2.0 * 32 * 128;
    for (int compiled = 0; compiled < 2; compiled++)
        for (int repeats = 0; repeats < 2; repeats++) {
            struct tensor_split split = { .tp = 2, .cp = 4, .context = CONTEXT_GATHERED_RING };
            split.block.compiled = compiled == 1;
            split.block.repeats_keys = repeats == 1;
            const double moved = repeats == 1 ? keys : keys / 8;
            struct operator_list list = block_operators(m, &shape, split, PASS_SET_FORWARD);
            const struct operator_work *gather = find(&list, "key-value all-gather"),
                                       *others = find(&list, "attention of other ranks' keys");
            assert_true(gather->network_bytes == 4 * moved * 2);
            assert_int_equal(operator_runs_beside_attention(gather), !split.block.compiled);
            assert_int_equal(others->kv_heads, repeats == 1 ? 32 : 4);
            assert_true(others->square_sum == 3 * 2048.0 * 1024.0 && !others->causal);
            assert_true(find(&list, "attention merge")->memory_bytes ==
                        output * (compiled == 1 ? 12 + 3 * 10 : 12 + 3 * 42));
            operator_list_free(&list);
            list = block_operators(m, &shape, split, PASS_SET_BACKWARD);
            const struct operator_work *ring = find(&list, "key-value gradient ring");
            assert_int_equal(ring->kind, OPERATOR_SEND);
            assert_true(ring->network_bytes == 4 * moved * 4);
            assert_int_equal(operator_runs_beside_attention(ring), !split.block.compiled);
            /* before the attention that hides it, or behind the one that made it */
            assert_int_equal(ring > find(&list, "attention"), compiled == 1);
            assert_true(find(&list, "attention merge")->memory_bytes ==
                        (compiled == 1 ? (output + moved) * (12 + 3 * 10)
                                       : (output + moved) * 12 + 3 * (18 * output + 26 * moved)));
            operator_list_free(&list);
        }
    arena_destroy(arena);
}

/* Heads of 150 begin on 300 bytes: no multiple of 16, unlike those of 192. */
static void test_unaligned_heads(void **state) {
    (void)state;
    struct arena *arena = arena_create();
    struct model *m = arena_new(arena, struct model);
    *m = *fixture_model(arena, "gpt-175b");
    struct batch_shape shape = model_batch_shape(m, 1, 0, 2048, 2048.0 * 2048.0);
    struct tensor_split split = { .tp = 8, .cp = 1, .attention = ATTENTION_NAIVE };
    static const int64_t head_dims[] = { 150, 192 };
    for (int i = 0; i < 2; i++) {
        m->modules[MODULE_LANGUAGE].head_dim = head_dims[i];
        struct operator_list list = block_operators(m, &shape, split, PASS_SET_BACKWARD);
        for (int64_t j = 0; j < list.count; j++) {
            const struct operator_work *w = &list.operators[j];
            bool core = operator_is_core_attention(w) && w->kind == OPERATOR_MATMUL;
            assert_int_equal(w->unaligned, core && head_dims[i] == 150);
        }
        operator_list_free(&list);
    }
    arena_destroy(arena);
}

static void test_no_exchange(void **state) {
    (void)state;
    struct arena *arena = arena_create();
    const struct model *m = fixture_model(arena, "internvl-6b-70b");
    struct batch_shape shape = model_batch_shape(m, 1, 8, 8192, 8192.0 * 8192.0);
    for (int context = 0; context < CONTEXT_KIND_COUNT; context++)
        for (int cp = 1; cp <= 4; cp += 3)
            for (int set = 0; set < 2; set++) {
                struct tensor_split split = { .tp = 2, .cp = cp, .context = context };
                struct operator_list list = { 0 };
                /* one rank exchanges with nobody; whole tiles are dealt to the encoder's ranks */
                enum layer_kind kind = cp == 1 ? LAYER_LANGUAGE_BLOCK : LAYER_VISION_BLOCK;
                layer_operators(m, fixture_layer(m, kind), &shape, &split, (enum pass_set)set, both,
                                &list);
                assert_true(list.count > 0);
                for (int64_t i = 0; i < list.count; i++)
                    assert_false(communicator_shares_sequence(list.operators[i].communicator));
                operator_list_free(&list);
            }
    arena_destroy(arena);
}

/* qwen2-7b has 28 query and 4 key-value heads. Dealt to 8 ranks they count as 32 and 8. */
static void test_heads_dealt(void **state) {
    (void)state;
    struct arena *arena = arena_create();
    const struct model *m = fixture_model(arena, "qwen2-7b");
    struct batch_shape shape = model_batch_shape(m, 1, 0, 8192, 8192.0 * 8192.0);
    struct tensor_split split = { .tp = 1, .cp = 8, .context = CONTEXT_ALL_TO_ALL };
    struct operator_list list = block_operators(m, &shape, split, PASS_SET_FORWARD);
    const struct operator_work *w = find(&list, "attention");
    assert_int_equal(w->heads, 32);
    assert_int_equal(w->kv_heads, 8);
    assert_true(find(&list, "query all-to-all")->network_bytes == 1024 * 32 * 128 * 2);
    assert_true(find(&list, "key-value all-to-all")->network_bytes == 1024 * 2 * 8 * 128 * 2);
    assert_int_equal(find(&list, "qkv")->n, (28 + 2 * 4) * 128);
    operator_list_free(&list);
    /* Kept: 32 + 2 x 8 heads after the exchange in place of 28 + 2 x 4, the statistics of 32 heads,
     * 32 heads of the output, and the projection's input, 28, beside it. */
    int64_t block = fixture_layer(m, LAYER_LANGUAGE_BLOCK);
    double dealt = layer_saved_bytes(m, block, &shape, &split, RECOMPUTE_NONE);
    split.context = CONTEXT_RING;
    double ring = layer_saved_bytes(m, block, &shape, &split, RECOMPUTE_NONE);
    assert_true(dealt - ring == 1024 * (2.0 * 128 * (48 - 36 + 32 - 28 + 28) + 4 * (32 - 28)));
    arena_destroy(arena);
}

/* Naive scores of a rank: all keys for its queries, or all tokens of its heads. */
static void test_naive_context_parallel(void **state) {
    (void)state;
    static const struct {
        enum context_kind context;
        double key_tokens;
    } cases[] = { { CONTEXT_ALL_GATHER, 8192 },
                  { CONTEXT_RING, 8192 },
                  { CONTEXT_ALL_TO_ALL, 2048 } };
    struct arena *arena = arena_create();
    const struct model *m = fixture_model(arena, "internvl-6b-70b");
    struct batch_shape shape = model_batch_shape(m, 1, 8, 8192, 8192.0 * 8192.0);
    const double scores = 32 * 8192.0 * 8192.0 / 4;
    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
        struct tensor_split split = {
            .tp = 2, .cp = 4, .attention = ATTENTION_NAIVE, .context = cases[i].context
        };
        struct operator_list list = attention_operators(m, &shape, split, PASS_SET_FORWARD);
        const struct operator_work *w = find(&list, "attention scores");
        assert_int_equal(w->m, 32 * 2048);
        assert_int_equal(w->n, 8192);
        assert_true(w->flop == 2 * scores * 128);
        double want = 2 * (32 * 128 * (2048 + cases[i].key_tokens) + scores);
        if (w->memory_bytes != want) fail_msg("row %zu: %.0f bytes", i, w->memory_bytes);
        operator_list_free(&list);
    }
    arena_destroy(arena);
}

/* ---- recomputation ---- */

static void test_recompute_operators(void **state) {
    (void)state;
    struct arena *arena = arena_create();
    const struct model *m = gpt(arena, true);
    struct batch_shape shape = model_batch_shape(m, 2, 0, TOKENS, 2 * 2048.0 * 2048.0);
    int64_t block = fixture_layer(m, LAYER_LANGUAGE_BLOCK);
    for (int k = 0; k < 2 * ATTENTION_KIND_COUNT; k++) {
        const int attention = k / 2;
        struct tensor_split split = naive_8;
        split.attention = (enum attention_kind)attention;
        split.block.recompute_style = k % 2 == 0 ? RECOMPUTE_WHOLE : RECOMPUTE_CORE;
        struct operator_list forward = block_operators(m, &shape, split, PASS_SET_FORWARD);
        struct operator_list core = attention_operators(m, &shape, split, PASS_SET_FORWARD);
        static const struct operator_list nothing = { 0 };
        const struct operator_list *want[RECOMPUTE_KIND_COUNT] = {
            [RECOMPUTE_NONE] = &nothing,
            [RECOMPUTE_FULL] = &forward,
            [RECOMPUTE_SELECTIVE] = attention == ATTENTION_NAIVE || k % 2 == 1 ? &core : &nothing,
        };
        for (int kind = 0; kind < RECOMPUTE_KIND_COUNT; kind++) {
            struct operator_list got = { 0 };
            layer_recompute_operators(m, block, &shape, &split, (enum recompute_kind)kind, both,
                                      &got);
            if (got.count != want[kind]->count)
                fail_msg("%s, %s: %lld operators", attention_kind_name(split.attention),
                         recompute_kind_name((enum recompute_kind)kind), (long long)got.count);
            for (int64_t i = 0; i < got.count; i++)
                assert_true(same_operator(&got.operators[i], &want[kind]->operators[i]));
            operator_list_free(&got);
            /* no backward, and layers that are not blocks */
            layer_recompute_operators(m, block, &shape, &split, (enum recompute_kind)kind, none,
                                      &got);
            layer_recompute_operators(m, fixture_layer(m, LAYER_HEAD), &shape, &split,
                                      (enum recompute_kind)kind, both, &got);
            assert_int_equal(got.count, 0);
        }
        operator_list_free(&forward);
        operator_list_free(&core);
    }
    arena_destroy(arena);
}

/* Llama 3 8B, of whose matmuls q, k, v, proj, gate, up, down the second, fourth and sixth run again
 * in style "operators", in fp8 too; in full recomputation all but down, and attention. */
static void test_recompute_styles(void **state) {
    (void)state;
    struct arena *arena = arena_create();
    struct error err = { 0 };
    const struct model *m = model_load(arena, BALLAST_SOURCE_DIR "/scenarios", "llama3-8b", &err);
    if (m == NULL) fail_msg("%s", err.text);
    struct module *language = (struct module *)&m->modules[MODULE_LANGUAGE];
    const double h = 4096, kv = 1024, f = 14336, t = 8192;
    struct batch_shape shape = model_batch_shape(m, 1, 0, (int64_t)t, t * t);
    const int64_t block = fixture_layer(m, LAYER_LANGUAGE_BLOCK);
    static const struct {
        enum recompute_style style;
        enum recompute_kind kind;
        enum precision precision;
        bool k_only, down, attention; /* of what runs again; none but k of q, k, v */
        bool matmuls;
    } cases[] = {
        { RECOMPUTE_WHOLE, RECOMPUTE_FULL, PRECISION_BF16, false, true, true, true },
        { RECOMPUTE_NEEDED, RECOMPUTE_FULL, PRECISION_BF16, false, false, true, true },
        { RECOMPUTE_PROJECTED, RECOMPUTE_FULL, PRECISION_BF16, false, false, true, true },
        { RECOMPUTE_NEEDED, RECOMPUTE_SELECTIVE, PRECISION_BF16, false, false, false, false },
        { RECOMPUTE_OPERATORS, RECOMPUTE_FULL, PRECISION_FP8, false, false, true, true },
        { RECOMPUTE_OPERATORS, RECOMPUTE_SELECTIVE, PRECISION_BF16, true, false, false, true },
        { RECOMPUTE_OPERATORS, RECOMPUTE_SELECTIVE, PRECISION_FP8, true, false, false, true },
    };
    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
        language->precision = cases[i].precision;
        struct tensor_split split = {
            .tp = 1, .cp = 1, .attention = ATTENTION_FLASH, .block.recompute_style = cases[i].style
        };
        struct operator_list again = { 0 };
        layer_recompute_operators(m, block, &shape, &split, cases[i].kind, both, &again);
        double matmul = 0, attention = 0;
        for (int64_t k = 0; k < again.count; k++) {
            if (again.operators[k].kind == OPERATOR_MATMUL) matmul += again.operators[k].flop;
            if (again.operators[k].kind == OPERATOR_ATTENTION) attention += again.operators[k].flop;
        }
        const double columns = cases[i].k_only                         ? kv + h + f
                               : cases[i].style == RECOMPUTE_PROJECTED ? h + 2 * f
                               : cases[i].matmuls ? h + 2 * kv + h + 2 * f + (cases[i].down ? f : 0)
                                                  : 0;
        if (fabs(matmul - 2 * t * h * columns) > 1)
            fail_msg("case %zu: %g FLOP, want %g", i, matmul, 2 * t * h * columns);
        if ((attention > 0) != cases[i].attention) fail_msg("case %zu: attention", i);
        operator_list_free(&again);
    }
    /* Kept in style "operators": the input, q, v, gate, down and attention's output and
     * statistics. */
    struct tensor_split split = {
        .tp = 1, .cp = 1, .attention = ATTENTION_FLASH, .block.recompute_style = RECOMPUTE_OPERATORS
    };
    language->precision = PRECISION_BF16;
    assert_true(layer_saved_bytes(m, block, &shape, &split, RECOMPUTE_SELECTIVE) ==
                t * (2 * (h + h + kv + f + h + h) + 4 * 32));
    language->precision = PRECISION_FP8;
    assert_true(layer_saved_bytes(m, block, &shape, &split, RECOMPUTE_SELECTIVE) ==
                t * (2 * (h + h + kv + f + h + h) + 4 * 32));
    arena_destroy(arena);
}

/* A layer's 72 b s h^2 (1 + s / 6h) FLOP (Narayanan et al. 2021, appendix, without recomputation):
 * full recomputation adds a third, the attention of forward 4 b s^2 h, which is 0.9 % at 175B. */
static void test_recompute_flop(void **state) {
    (void)state;
    struct arena *arena = arena_create();
    const struct model *m = gpt(arena, true);
    struct batch_shape shape = model_batch_shape(m, 2, 0, TOKENS, 2 * 2048.0 * 2048.0);
    int64_t block = fixture_layer(m, LAYER_LANGUAGE_BLOCK);
    struct operator_list step = block_operators(m, &shape, naive_8, PASS_SET_FORWARD);
    layer_operators(m, block, &shape, &naive_8, PASS_SET_BACKWARD, both, &step);
    double flop[RECOMPUTE_KIND_COUNT] = { 0 };
    for (int64_t i = 0; i < step.count; i++)
        flop[RECOMPUTE_NONE] += step.operators[i].flop;
    for (int kind = RECOMPUTE_FULL; kind < RECOMPUTE_KIND_COUNT; kind++) {
        struct operator_list again = { 0 };
        layer_recompute_operators(m, block, &shape, &naive_8, (enum recompute_kind)kind, both,
                                  &again);
        for (int64_t i = 0; i < again.count; i++)
            flop[kind] += again.operators[i].flop;
        operator_list_free(&again);
    }
    const double b = 2, s = 2048, h = 12288, t = 8;
    double layer = 72 * b * s * h * h * (1 + s / (6 * h));
    assert_true(fabs(flop[RECOMPUTE_NONE] * t / layer - 1) < 1e-12);
    assert_true(fabs(flop[RECOMPUTE_FULL] / flop[RECOMPUTE_NONE] - 1.0 / 3) < 1e-12);
    assert_true(flop[RECOMPUTE_SELECTIVE] * t == 4 * b * s * s * h);
    assert_true(fabs(flop[RECOMPUTE_SELECTIVE] / flop[RECOMPUTE_NONE] - 0.009) < 0.0005);
    operator_list_free(&step);
    arena_destroy(arena);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_naive_operators),
        cmocka_unit_test(test_naive_lists),
        cmocka_unit_test(test_naive_mixed_lengths),
        cmocka_unit_test(test_naive_encoder),
        cmocka_unit_test(test_dropout),
        cmocka_unit_test(test_dropout_of_training),
        cmocka_unit_test(test_unpads),
        cmocka_unit_test(test_exchange),
        cmocka_unit_test(test_ring_pieces),
        cmocka_unit_test(test_gathered_ring),
        cmocka_unit_test(test_unaligned_heads),
        cmocka_unit_test(test_no_exchange),
        cmocka_unit_test(test_heads_dealt),
        cmocka_unit_test(test_naive_context_parallel),
        cmocka_unit_test(test_recompute_operators),
        cmocka_unit_test(test_recompute_styles),
        cmocka_unit_test(test_recompute_flop),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
