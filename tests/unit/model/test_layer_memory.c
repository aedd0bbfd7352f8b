/* test_layer_memory.c - saved activations, transient buffers and cut volumes. */
#include "tests/unit/model/model_fixture.h"

#include <math.h>
#include "costmodel/stack.h"
#include "sim/base/units.h"

static const struct tensor_split one_rank = { .tp = 1, .sequence_parallel = false, .cp = 1 };

/* ---- saved activations ---- */

/* A plain block (gpt-175b: 2-matrix GELU with f = 4h, layer norm) keeps the 34 s b h of Korthikanti
 * et al. without the two dropout masks, plus fp32 statistics: 4 bytes per query and head, 8 per row
 * of each norm. */
static void test_34_sbh(void **state) {
    (void)state;
    struct arena *arena = arena_create();
    const struct model *m = fixture_model(arena, "gpt-175b");
    struct batch_shape shape = model_batch_shape(m, 1, 0, 2048, 2048.0 * 2048.0);
    int64_t block = fixture_layer(m, LAYER_LANGUAGE_BLOCK);
    const double sbh = 2048.0 * 12288.0;
    for (int64_t tp = 1; tp <= 8; tp *= 2) {
        const double t = (double)tp;
        struct tensor_split split = { .tp = tp, .sequence_parallel = true, .cp = 1 };
        double statistics = 4.0 * 2048 * 96 / t + 2 * 8.0 * 2048 / t;
        double got = layer_saved_bytes(m, block, &shape, &split, RECOMPUTE_NONE);
        if (got != (34.0 - 2.0) * sbh / t + statistics)
            fail_msg("tp %lld with SP: %.4f s b h", (long long)tp, got / sbh);
        assert_true(layer_saved_bytes(m, block, &shape, &split, RECOMPUTE_FULL) == 2 * sbh / t);
        /* Without SP their formula is s b h (10 + 24 / t); both masks belong to the 10. */
        split.sequence_parallel = false;
        statistics = 4.0 * 2048 * 96 / t + 2 * 8.0 * 2048;
        got = layer_saved_bytes(m, block, &shape, &split, RECOMPUTE_NONE);
        if (got != sbh * (10.0 - 2.0 + 24.0 / t) + statistics)
            fail_msg("tp %lld without SP: %.4f s b h", (long long)tp, got / sbh);
        assert_true(layer_saved_bytes(m, block, &shape, &split, RECOMPUTE_FULL) == 2 * sbh);
        /* a mask in memory, in 16 bits, whole on each rank */
        split.attention_kernel = ATTENTION_KERNEL_MASKED;
        assert_true(layer_saved_bytes(m, block, &shape, &split, RECOMPUTE_NONE) - got ==
                    2 * 2048.0 * 2048.0);
    }
    arena_destroy(arena);
}

/* The four models of Korthikanti et al. 2022, Table 3, and their equations 2, 4 and 6: naive
 * attention and dropout, sequences of 2048 tokens, 8 ranks of TP. The statistics of the norms
 * come on top. */
static const struct {
    const char *model;
    double hidden, heads, samples;
} korthikanti_cases[] = {
    { "gpt-22b", 6144, 64, 4 },
    { "gpt-175b", 12288, 96, 1 },
    { "gpt-530b", 20480, 128, 1 },
    { "gpt-1t", 25600, 160, 1 },
};

static const struct model *with_dropout(struct arena *arena, const char *module) {
    char text[256], path[256];
    snprintf(text, sizeof text,
             "{ \"name\": \"d\", \"source\": \"test\", "
             "\"language\": { \"module\": \"%s\", \"dropout\": true } }",
             module);
    struct error err = { 0 };
    const struct model *model = fixture_text(arena, text, path, sizeof path, &err);
    if (model == NULL) fail_msg("%s: %s", module, err.text);
    return model;
}

static void expect_saved(const struct model *m, const char *what, const struct batch_shape *shape,
                         struct tensor_split split, enum recompute_kind kind, double want) {
    double got = layer_saved_bytes(m, fixture_layer(m, LAYER_LANGUAGE_BLOCK), shape, &split, kind);
    if (fabs(got - want) > 1e-12 * want)
        fail_msg("%s, SP %d, %s: got %.0f bytes, want %.0f", what, split.sequence_parallel,
                 recompute_kind_name(kind), got, want);
}

static void test_korthikanti(void **state) {
    (void)state;
    struct arena *arena = arena_create();
    const double s = 2048, t = 8;
    for (size_t i = 0; i < sizeof korthikanti_cases / sizeof korthikanti_cases[0]; i++) {
        const char *name = korthikanti_cases[i].model;
        const double h = korthikanti_cases[i].hidden, a = korthikanti_cases[i].heads;
        const double b = korthikanti_cases[i].samples, sbh = s * b * h;
        const struct model *m = with_dropout(arena, name);
        assert_true((double)m->modules[MODULE_LANGUAGE].hidden == h);
        assert_true((double)m->modules[MODULE_LANGUAGE].heads == a);
        struct batch_shape shape = model_batch_shape(m, (int64_t)b, 0, (int64_t)(b * s), b * s * s);
        struct tensor_split split = {
            .tp = 8, .sequence_parallel = true, .cp = 1, .attention = ATTENTION_NAIVE
        };
        double statistics = 2 * 8 * s * b / t;
        expect_saved(m, name, &shape, split, RECOMPUTE_NONE,
                     sbh * (34 + 5 * a * s / h) / t + statistics);
        expect_saved(m, name, &shape, split, RECOMPUTE_SELECTIVE, 34 * sbh / t + statistics);
        expect_saved(m, name, &shape, split, RECOMPUTE_FULL, 2 * sbh / t);
        split.sequence_parallel = false;
        statistics *= t;
        expect_saved(m, name, &shape, split, RECOMPUTE_NONE,
                     sbh * (10 + 24 / t + 5 * a * s / (h * t)) + statistics);
        expect_saved(m, name, &shape, split, RECOMPUTE_SELECTIVE, sbh * (10 + 24 / t) + statistics);
        expect_saved(m, name, &shape, split, RECOMPUTE_FULL, 2 * sbh);
    }
    arena_destroy(arena);
}

/* 175B, one rank, without dropout: 32 s b h and 2 bytes a score; flash attention has 4 bytes a
 * query and head in place of scores, and nothing that selective recomputation could drop. */
static void test_scores_without_dropout(void **state) {
    (void)state;
    struct arena *arena = arena_create();
    const struct model *m = fixture_model(arena, "gpt-175b");
    struct batch_shape shape = model_batch_shape(m, 2, 0, 4000, 1e6 + 9e6);
    const double plain = 32.0 * 4000 * 12288 + 2 * 8.0 * 4000;
    struct tensor_split split = { .tp = 1, .cp = 1, .attention = ATTENTION_NAIVE };
    expect_saved(m, "naive", &shape, split, RECOMPUTE_NONE, plain + 2 * 96 * 1e7);
    expect_saved(m, "naive", &shape, split, RECOMPUTE_SELECTIVE, plain);
    split.attention = ATTENTION_FLASH;
    expect_saved(m, "flash", &shape, split, RECOMPUTE_NONE, plain + 4.0 * 96 * 4000);
    expect_saved(m, "flash", &shape, split, RECOMPUTE_SELECTIVE, plain + 4.0 * 96 * 4000);
    /* dropout with flash attention: two masks, none of scores */
    m = with_dropout(arena, "gpt-175b");
    expect_saved(m, "flash, dropout", &shape, split, RECOMPUTE_NONE,
                 plain + 2.0 * 4000 * 12288 + 4.0 * 96 * 4000);
    /* fp32: 4 bytes a score */
    m = model_with_precision(arena, fixture_model(arena, "gpt-175b"), PRECISION_FP32);
    split.attention = ATTENTION_NAIVE;
    expect_saved(m, "fp32", &shape, split, RECOMPUTE_NONE,
                 64.0 * 4000 * 12288 + 2 * 8.0 * 4000 + 4 * 96 * 1e7);
    arena_destroy(arena);
}

/* The paper's section 4.3: s b h / t for the dropout of the embedding. */
static void test_embedding_dropout(void **state) {
    (void)state;
    struct arena *arena = arena_create();
    const struct model *with = with_dropout(arena, "gpt-175b");
    const struct model *without = fixture_model(arena, "gpt-175b");
    struct batch_shape shape = model_batch_shape(with, 1, 0, 2048, 2048.0 * 2048.0);
    struct tensor_split split = { .tp = 8, .sequence_parallel = true, .cp = 1 };
    int64_t embedding = fixture_layer(with, LAYER_TOKEN_EMBEDDING);
    assert_true(layer_saved_bytes(with, embedding, &shape, &split, RECOMPUTE_NONE) -
                    layer_saved_bytes(without, embedding, &shape, &split, RECOMPUTE_NONE) ==
                2048.0 * 12288 / 8);
    arena_destroy(arena);
}

/* A frozen block that passes a gradient on needs softmax and mask, but no input of a matmul:
 * neither of qkv, up and down, nor, in naive attention, of the projection. */
static void test_naive_without_weights(void **state) {
    (void)state;
    struct arena *arena = arena_create();
    const struct model *all = fixture_model(arena, "internvl-6b-20b");
    struct batch_shape shape = fixture_group(all);
    struct error err = { 0 };
    const char *const frozen[] = { "language" };
    const struct model *m = model_with_frozen(arena, all, frozen, 1, &err);
    int64_t block = fixture_layer(m, LAYER_LANGUAGE_BLOCK);
    struct tensor_split split = { .tp = 1, .cp = 1, .attention = ATTENTION_NAIVE };
    assert_true(layer_saved_bytes(all, block, &shape, &split, RECOMPUTE_NONE) -
                    layer_saved_bytes(m, block, &shape, &split, RECOMPUTE_NONE) ==
                4096.0 * (6.0 * 6144 + 2.0 * 16384));
    arena_destroy(arena);
}

/* llama3-8b, tp 4, SP: h 4096, q 4096, k and v 1024 each, f 14336. Per token and rank, in bytes:
 * 2h x 4 inputs of norms and matmuls, 2(q + k + v), 2q out, 4f gate and up, 2f product. */
static void test_grouped_queries_and_gate(void **state) {
    (void)state;
    struct arena *arena = arena_create();
    const struct model *m = fixture_model(arena, "llama3-8b");
    struct batch_shape shape = fixture_group(m);
    struct tensor_split split = { .tp = 4, .sequence_parallel = true, .cp = 1 };
    double per_token = (8.0 * 4096 + 2.0 * 6144 + 2.0 * 4096 + 6.0 * 14336) / 4;
    double statistics = 4.0 * 32 / 4 + 2 * 4.0 / 4;
    int64_t block = fixture_layer(m, LAYER_LANGUAGE_BLOCK);
    assert_true(layer_saved_bytes(m, block, &shape, &split, RECOMPUTE_NONE) ==
                4096 * (per_token + statistics));
    split.cp = 2;
    assert_true(layer_saved_bytes(m, block, &shape, &split, RECOMPUTE_NONE) ==
                2048 * (per_token + statistics));
    arena_destroy(arena);
}

/* OmniBal's memory table (arXiv 2407.20761 Table 5, A100-80G, InternVL 6B+20B, tp 2): between full
 * and no recomputation the free memory of stage 1 (22 ViT blocks, 4 micro-batches in flight) falls
 * by 45.9 GB and that of stage 2 (23, 3 in flight) by 34.5 GB. One micro-batch of a recomputing
 * stage holds one block in full. 34 s b h / tp would be 0.502 GB per block; qk norm and layer scale
 * of InternViT make it 40 s b h / tp here. */
static void test_internvit_measurement(void **state) {
    (void)state;
    struct arena *arena = arena_create();
    const struct model *m = fixture_model(arena, "internvl-6b-20b");
    struct batch_shape shape = fixture_group(m);
    struct tensor_split split = { .tp = 2, .sequence_parallel = true, .cp = 1 };
    int64_t block = fixture_layer(m, LAYER_VISION_BLOCK);
    double full = layer_saved_bytes(m, block, &shape, &split, RECOMPUTE_NONE);
    double input = layer_saved_bytes(m, block, &shape, &split, RECOMPUTE_FULL);
    static const struct {
        double blocks, in_flight, measured_GB;
    } stages[] = { { 22, 4, 58.2 - 12.3 }, { 23, 3, 56.2 - 21.7 } };
    for (size_t i = 0; i < sizeof stages / sizeof stages[0]; i++) {
        double kept = stages[i].blocks * stages[i].in_flight;
        double got_GB = (kept * (full - input) - full) / BYTES_PER_GB;
        if (fabs(got_GB / stages[i].measured_GB - 1) > 0.15)
            fail_msg("stage %zu: %.1f GB, measured %.1f", i + 1, got_GB, stages[i].measured_GB);
    }
    /* 40 s b h / tp, but for 13 heads in place of 12.5 and the statistics */
    double sbh = 9225.0 * 3200 / 2;
    assert_true(full > 40 * sbh && full < 41 * sbh);
    arena_destroy(arena);
}

static void test_saved_without_weights(void **state) {
    (void)state;
    struct arena *arena = arena_create();
    const struct model *all = fixture_model(arena, "internvl-6b-20b");
    struct batch_shape shape = fixture_group(all);
    struct error err = { 0 };
    const char *const frozen[] = { "vision", "language" };
    const struct model *m = model_with_frozen(arena, all, frozen, 2, &err);
    int64_t vision = fixture_layer(m, LAYER_VISION_BLOCK);
    int64_t language = fixture_layer(m, LAYER_LANGUAGE_BLOCK);
    /* nothing trainable below or in it: no backward, nothing kept, not even its input */
    assert_true(layer_saved_bytes(m, vision, &shape, &one_rank, RECOMPUTE_NONE) == 0);
    assert_true(layer_saved_bytes(m, vision, &shape, &one_rank, RECOMPUTE_FULL) == 0);
    /* input gradient only: inputs of the four matmuls go (the attention output stays, attention
     * reads it): 2h + 2h + 2f bytes per token */
    double got = layer_saved_bytes(all, language, &shape, &one_rank, RECOMPUTE_NONE) -
                 layer_saved_bytes(m, language, &shape, &one_rank, RECOMPUTE_NONE);
    assert_true(got == 4096.0 * (4.0 * 6144 + 2.0 * 16384));
    arena_destroy(arena);
}

static const struct {
    const char *model;
    enum layer_kind kind;
    double want_bytes;
} other_layers[] = {
    { "internvl-6b-20b", LAYER_PATCH_EMBEDDING, 2.0 * 9 * 1024 * 588 },
    /* norm input and output, up output, activation; mean and deviation */
    { "internvl-6b-20b", LAYER_CONNECTOR, 2304 * (2.0 * (2 * 12800 + 2 * 6144) + 8) },
    { "internvl-6b-20b", LAYER_TOKEN_EMBEDDING, 8.0 * 4096 },
    /* norm input and output, fp32 softmax */
    { "internvl-6b-20b", LAYER_HEAD, 4096 * (4.0 * 6144 + 4 + 4.0 * 92553) },
    { "uneven-pp-1", LAYER_CONNECTOR, 2.0 * 9 * 256 * 1280 },
    /* unfolded patches and the input of CLIP's first norm */
    { "llava-1.6-7b", LAYER_PATCH_EMBEDDING, 2.0 * 9 * 576 * (588 + 1024) },
};

static void test_saved_of_other_layers(void **state) {
    (void)state;
    struct arena *arena = arena_create();
    for (size_t i = 0; i < sizeof other_layers / sizeof other_layers[0]; i++) {
        const struct model *m = fixture_model(arena, other_layers[i].model);
        struct batch_shape shape = fixture_group(m);
        int64_t layer = fixture_layer(m, other_layers[i].kind);
        double got = layer_saved_bytes(m, layer, &shape, &one_rank, RECOMPUTE_NONE);
        if (got != other_layers[i].want_bytes)
            fail_msg("%s: got %.0f, want %.0f", layer_kind_name(other_layers[i].kind), got,
                     other_layers[i].want_bytes);
        /* these do not recompute */
        assert_true(layer_saved_bytes(m, layer, &shape, &one_rank, RECOMPUTE_FULL) == got);
        assert_false(layer_can_recompute(m, layer));
    }
    arena_destroy(arena);
}

static void test_tensors_sum_up(void **state) {
    (void)state;
    struct arena *arena = arena_create();
    const struct model *m = fixture_model(arena, "internvl-6b-20b");
    struct batch_shape shape = fixture_group(m);
    struct tensor_split split = { .tp = 2, .sequence_parallel = true, .cp = 1 };
    struct saved_tensor tensors[LAYER_SAVED_TENSOR_LIMIT];
    int64_t block = fixture_layer(m, LAYER_VISION_BLOCK);
    int64_t count = layer_saved_tensors(m, block, &shape, &split, tensors);
    assert_int_equal(count, 14);
    double sum = 0;
    for (int64_t i = 0; i < count; i++) {
        assert_non_null(tensors[i].name);
        assert_true(tensors[i].bytes > 0);
        for (int64_t j = 0; j < i; j++)
            assert_string_not_equal(tensors[i].name, tensors[j].name);
        sum += tensors[i].bytes;
    }
    assert_true(sum == layer_saved_bytes(m, block, &shape, &split, RECOMPUTE_NONE));
    arena_destroy(arena);
}

/* ---- workspaces ---- */

static void test_workspace(void **state) {
    (void)state;
    struct arena *arena = arena_create();
    const struct model *m = fixture_model(arena, "internvl-6b-20b");
    struct batch_shape shape = fixture_group(m);
    struct tensor_split split = { .tp = 2, .sequence_parallel = true, .cp = 1 };
    int64_t head = fixture_layer(m, LAYER_HEAD);
    /* 10 bytes per logit with the saved softmax, and the gathered input */
    double logits = 4096.0 * 46277, gathered = 2.0 * 4096 * 6144;
    assert_true(layer_workspace_bytes(m, head, &shape, &split) == 6 * logits + gathered);
    double saved = layer_saved_bytes(m, head, &shape, &split, RECOMPUTE_NONE);
    assert_true(saved - 2048 * (4.0 * 6144 + 4) == 4 * logits);
    /* gradients of gate and up, gathered input of their matmul, its gradient */
    assert_true(layer_workspace_bytes(m, fixture_layer(m, LAYER_LANGUAGE_BLOCK), &shape, &split) ==
                2.0 * 4096 * (2 * 8192 + 2 * 6144));
    /* ViT: gathered input, its gradient, gradient of the up output: 3200 + 3200 + 6400 */
    assert_true(layer_workspace_bytes(m, fixture_layer(m, LAYER_VISION_BLOCK), &shape, &split) ==
                2.0 * 9225 * (3200 + 3200 + 6400));
    /* the connector gathers the encoder's output; patches and their embedding; the dense gradient
     * of the table and the gradient of all tokens */
    assert_true(layer_workspace_bytes(m, fixture_layer(m, LAYER_CONNECTOR), &shape, &split) ==
                2.0 * 9225 * 3200);
    assert_true(layer_workspace_bytes(m, fixture_layer(m, LAYER_PATCH_EMBEDDING), &shape, &split) ==
                2.0 * 4608 * (588 + 3200));
    assert_true(layer_workspace_bytes(m, fixture_layer(m, LAYER_TOKEN_EMBEDDING), &shape, &split) ==
                2.0 * 6144 * (46277 + 4096));
    /* no images, no buffers */
    struct batch_shape text = model_batch_shape(m, 1, 0, 4096, 4096.0 * 4096.0);
    for (int64_t l = 0; l < m->layer_count; l++) {
        bool language = m->layers[l].module_index == MODULE_LANGUAGE;
        bool some = layer_workspace_bytes(m, l, &text, &split) > 0;
        if (some != language) fail_msg("layer %lld: workspace", (long long)l);
    }
    arena_destroy(arena);
}

/* A stack that runs no backward needs less room than one that does. */
static void test_workspace_of_frozen(void **state) {
    (void)state;
    struct arena *arena = arena_create();
    const struct model *all = fixture_model(arena, "internvl-6b-20b");
    const char *const vision[] = { "vision" };
    struct error err = { 0 };
    const struct model *m = model_with_frozen(arena, all, vision, 1, &err);
    struct batch_shape shape = fixture_group(m);
    struct tensor_split split = { .tp = 2, .sequence_parallel = true, .cp = 1 };
    int64_t block = fixture_layer(m, LAYER_VISION_BLOCK);
    /* forward: up output and activation output */
    assert_true(layer_workspace_bytes(m, block, &shape, &split) == 2.0 * 9225 * (6400 + 6400));
    arena_destroy(arena);
}

/* 175B on 8 ranks, 2048 tokens: a score gradient (two with dropout) and columns of q, k, v and the
 * output; without backward raw scores, softmax and the mask. */
static void test_workspace_of_scores(void **state) {
    (void)state;
    struct arena *arena = arena_create();
    const double scores = 12 * 2048.0 * 2048.0, columns = 2.0 * 2048 * 4 * 12 * 128;
    const char *const language[] = { "language" };
    for (int dropout = 0; dropout < 2; dropout++) {
        const struct model *m =
            dropout ? with_dropout(arena, "gpt-175b") : fixture_model(arena, "gpt-175b");
        struct batch_shape shape = model_batch_shape(m, 1, 0, 2048, 2048.0 * 2048.0);
        struct tensor_split split = {
            .tp = 8, .sequence_parallel = true, .cp = 1, .attention = ATTENTION_NAIVE
        };
        int64_t block = fixture_layer(m, LAYER_LANGUAGE_BLOCK);
        assert_true(layer_workspace_bytes(m, block, &shape, &split) ==
                    (dropout ? 4 : 2) * scores + columns);
        struct error err = { 0 };
        const struct model *frozen = model_with_frozen(arena, m, language, 1, &err);
        assert_true(layer_workspace_bytes(frozen, block, &shape, &split) ==
                    (dropout ? 5 : 4) * scores + columns);
    }
    arena_destroy(arena);
}

/* 96 heads of 128 on 8 TP ranks are 1536 columns each of q, k, v and output: keys and values of all
 * four ranks and their gradients (4 x 3072 x 2) are more than the MLP's buffers, two blocks with
 * gradients (4 x 3072) and copies for the all-to-all (3 x 1536) are not. */
static void test_exchange_workspace(void **state) {
    (void)state;
    struct arena *arena = arena_create();
    const struct model *m = fixture_model(arena, "gpt-175b");
    int64_t block = fixture_layer(m, LAYER_LANGUAGE_BLOCK);
    struct batch_shape whole = model_batch_shape(m, 1, 0, 8192, 8192.0 * 8192.0),
                       quarter = model_batch_shape(m, 1, 0, 2048, 8192.0 * 2048.0);
    struct tensor_split alone = { .tp = 8, .cp = 1 };
    const double mlp = layer_workspace_bytes(m, block, &quarter, &alone);
    static const struct {
        enum context_kind context;
        double columns;
    } cases[] = {
        { CONTEXT_ALL_GATHER, 4 * 1536 + 4 * 3072 * 2 },
        { CONTEXT_RING, 4 * 1536 + 4 * 3072 },
        { CONTEXT_ALL_TO_ALL, 4 * 1536 + 3 * 1536 },
        /* four blocks and the joined one, a sum in fp32, three blocks of gradients in fp32 */
        { CONTEXT_GATHERED_RING, 4 * 1536 + 5 * 3072 + 2 * 1536 + 3 * 2 * 3072 },
    };
    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
        struct tensor_split split = { .tp = 8, .cp = 4, .context = cases[i].context };
        double got = layer_workspace_bytes(m, block, &whole, &split);
        double want = fmax(mlp, 2 * 2048 * cases[i].columns);
        if (got != want)
            fail_msg("%s: got %.0f, want %.0f", context_kind_name(cases[i].context), got, want);
    }
    /* what an exchange sends is gone when the ring around it begins, which holds more */
    struct tensor_split ring = { .tp = 8, .cp = 4, .context = CONTEXT_RING },
                        both = { .tp = 8, .cp = 4, .context_heads = 2, .context = CONTEXT_RING };
    assert_true(layer_workspace_bytes(m, block, &whole, &both) ==
                layer_workspace_bytes(m, block, &whole, &ring));
    struct tensor_split gathered = { .tp = 8, .cp = 4, .context = CONTEXT_ALL_GATHER };
    assert_true(layer_workspace_bytes(m, block, &whole, &gathered) > mlp);
    arena_destroy(arena);
}

/* Transformer Engine keeps what it cast: of 34 s b h the inputs of qkv, up (h each) and down (4 h)
 * lose a byte, and the projection's input gets a copy of one beside the attention output. */
static void test_fp8_inputs(void **state) {
    (void)state;
    struct arena *arena = arena_create();
    const struct model *bf16 = fixture_model(arena, "gpt-175b");
    const struct model *fp8 = model_with_precision(arena, bf16, PRECISION_FP8);
    int64_t block = fixture_layer(bf16, LAYER_LANGUAGE_BLOCK);
    struct batch_shape shape = model_batch_shape(bf16, 1, 0, 2048, 2048.0 * 2048.0);
    const double sbh = 2048.0 * 12288;
    for (int naive = 0; naive < 2; naive++) {
        struct tensor_split split = { .tp = 1, .cp = 1, .attention = (enum attention_kind)naive };
        double wide = layer_saved_bytes(bf16, block, &shape, &split, RECOMPUTE_NONE),
               narrow = layer_saved_bytes(fp8, block, &shape, &split, RECOMPUTE_NONE);
        /* unfused attention does not read its output: that is cast instead of copied */
        assert_true(wide - narrow == (naive ? 1 + 1 + 4 + 1 : 1 + 1 + 4 - 1) * sbh);
        assert_true(layer_saved_bytes(fp8, block, &shape, &split, RECOMPUTE_FULL) == 2 * sbh);
    }
    /* fp4: nine bytes for 16 values */
    const struct model *fp4 = model_with_precision(arena, bf16, PRECISION_FP4);
    const struct tensor_split split = { .tp = 1, .cp = 1 };
    assert_true(layer_saved_bytes(bf16, block, &shape, &split, RECOMPUTE_NONE) -
                    layer_saved_bytes(fp4, block, &shape, &split, RECOMPUTE_NONE) ==
                (6 * (2 - 0.5625) - 0.5625) * sbh);
    arena_destroy(arena);
}

/* ---- cuts ---- */

static void test_cuts(void **state) {
    (void)state;
    struct arena *arena = arena_create();
    const struct model *m = fixture_model(arena, "internvl-6b-20b");
    struct batch_shape shape = fixture_group(m);
    double MiB[LAYER_HEAD + 1];
    for (int kind = 0; kind <= LAYER_HEAD; kind++)
        MiB[kind] =
            layer_output_bytes(m, fixture_layer(m, (enum layer_kind)kind), &shape) / BYTES_PER_MiB;
    const double vision = MiB[LAYER_VISION_BLOCK], boundary = MiB[LAYER_CONNECTOR];
    const double language = MiB[LAYER_LANGUAGE_BLOCK];
    /* OmniBal Table 4 prints +8.2, +16.6 and -21.0 MB against three language cuts; -12.7 belongs to
     * the partition of its Table 8. */
    const struct {
        const char *what;
        double got_MiB, want_MiB;
    } cases[] = {
        { "ViT cut", vision, 56.30 },
        { "patch embedding", MiB[LAYER_PATCH_EMBEDDING], 56.30 },
        { "after the connector", boundary, 27.00 },
        { "language cut", language, 48.00 },
        { "token embedding", MiB[LAYER_TOKEN_EMBEDDING], 48.00 },
        { "after the head", MiB[LAYER_HEAD], 0 },
        { "one ViT cut", vision + 2 * language - 3 * language, 8.30 },
        { "two ViT cuts", 2 * vision + language - 3 * language, 16.61 },
        { "boundary cut", boundary + 2 * language - 3 * language, -21.00 },
        { "boundary and one ViT cut", boundary + vision + language - 3 * language, -12.70 },
    };
    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++)
        if (fabs(cases[i].got_MiB - cases[i].want_MiB) > 0.0051)
            fail_msg("%s: got %.4f MiB, want %.2f", cases[i].what, cases[i].got_MiB,
                     cases[i].want_MiB);
    arena_destroy(arena);
}

/* A softmax in fp32 that is cast for the product keeps both: 6 bytes of bf16 attention for 2. */
static void test_scores_in_fp32(void **state) {
    (void)state;
    struct arena *arena = arena_create();
    const struct model *m = fixture_model(arena, "llama3-70b");
    const int64_t block = fixture_layer(m, LAYER_LANGUAGE_BLOCK);
    const struct batch_shape shape = model_batch_shape(m, 1, 0, 4096, 4096.0 * 4096.0);
    struct tensor_split split = {
        .tp = 8, .sequence_parallel = true, .cp = 1, .attention = ATTENTION_NAIVE
    };
    const double plain = layer_saved_bytes(m, block, &shape, &split, RECOMPUTE_NONE);
    const double dropped = layer_saved_bytes(m, block, &shape, &split, RECOMPUTE_SELECTIVE);
    split.block.keeps = KEEPS_FP32_SCORES;
    assert_true(layer_saved_bytes(m, block, &shape, &split, RECOMPUTE_NONE) - plain ==
                4 * 4096.0 * 4096 * 64 / 8);
    assert_true(layer_saved_bytes(m, block, &shape, &split, RECOMPUTE_SELECTIVE) == dropped);
    arena_destroy(arena);
}

/* What each word of a stack's `keeps` adds to a gated block under TP 8 with SP, by hand: two whole
 * inputs for two shards, one more gate output, keys and values twice, the attention's output
 * twice; of each norm's shard an fp32 copy in the input's place and what its weight multiplies;
 * keys and values of 64 heads for 8. */
static void test_unfused_tensors(void **state) {
    (void)state;
    struct arena *arena = arena_create();
    const struct model *m = fixture_model(arena, "llama3-70b");
    const int64_t block = fixture_layer(m, LAYER_LANGUAGE_BLOCK);
    const struct batch_shape shape = model_batch_shape(m, 1, 0, 4096, 4096.0 * 4096.0);
    const double t = 4096, tp = 8;
    static const struct {
        unsigned keeps;
        double columns; /* of bf16 beside the fused block's, on one of 8 ranks */
    } cases[] = {
        { KEEPS_GATHERED_INPUTS, 2 * (8192 - 8192 / 8.0) },
        { KEEPS_GATE_OUTPUT, 28672 / 8.0 },
        { KEEPS_KEY_VALUE_COPY, 2 * 8 * 128 / 8.0 },
        { KEEPS_ATTENTION_COPY, 64 * 128 / 8.0 },
        { KEEPS_GATE_OUTPUT | KEEPS_ATTENTION_COPY, 28672 / 8.0 + 64 * 128 / 8.0 },
        { KEEPS_FP32_SCORES, 0 }, /* fused attention has none */
        { KEEPS_FP32_NORMS, 2 * (1 + 1) * 8192 / 8.0 },
        { KEEPS_FP32_NORMS | KEEPS_FP32_NORM_PRODUCTS, 2 * (1 + 2) * 8192 / 8.0 },
        { KEEPS_REPEATED_KEYS, 2 * (64 - 8) * 128 / 8.0 },
    };
    struct tensor_split split = { .tp = (int64_t)tp, .sequence_parallel = true, .cp = 1 };
    const double fused = layer_saved_bytes(m, block, &shape, &split, RECOMPUTE_NONE);
    const double input = layer_saved_bytes(m, block, &shape, &split, RECOMPUTE_FULL);
    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
        split.block.keeps = cases[i].keeps;
        const double got = layer_saved_bytes(m, block, &shape, &split, RECOMPUTE_NONE) - fused;
        if (got != 2 * t * cases[i].columns)
            fail_msg("case %zu: got %.0f bytes, want %.0f", i, got, 2 * t * cases[i].columns);
        assert_true(layer_saved_bytes(m, block, &shape, &split, RECOMPUTE_FULL) == input);
    }
    arena_destroy(arena);
}

/* Without sequence parallelism copies of their input are kept by k, v and up besides q and gate, and
 * by nothing that is fused, that one rank holds whole, or whose weights are frozen. */
static void test_copied_inputs(void **state) {
    (void)state;
    struct arena *arena = arena_create();
    static const struct {
        const char *model;
        enum layer_kind kind;
        int64_t tp;
        bool sequence_parallel, frozen;
        double inputs;
    } cases[] = {
        { "llama3-70b", LAYER_LANGUAGE_BLOCK, 2, false, false, 3 },
        { "llama3-70b", LAYER_LANGUAGE_BLOCK, 2, true, false, 0 },
        { "llama3-70b", LAYER_LANGUAGE_BLOCK, 1, false, false, 0 },
        { "llama3-70b", LAYER_LANGUAGE_BLOCK, 2, false, true, 0 },
        { "gpt-175b", LAYER_LANGUAGE_BLOCK, 2, false, false, 2 }, /* nothing is gated */
    };
    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
        struct model m = *fixture_model(arena, cases[i].model);
        struct module *module = &m.modules[MODULE_LANGUAGE];
        module->frozen = cases[i].frozen;
        m.input_gradients = true; /* of what is frozen */
        const int64_t block = fixture_layer(&m, cases[i].kind);
        const struct batch_shape shape = model_batch_shape(&m, 1, 0, 4096, 4096.0 * 4096.0);
        struct tensor_split split = { .tp = cases[i].tp,
                                      .sequence_parallel = cases[i].sequence_parallel,
                                      .cp = 1 };
        const double without = layer_saved_bytes(&m, block, &shape, &split, RECOMPUTE_NONE);
        split.block.keeps = KEEPS_COPIED_INPUTS;
        const double got = layer_saved_bytes(&m, block, &shape, &split, RECOMPUTE_NONE) - without,
                     want = cases[i].inputs * 2 * 4096 * (double)module->hidden;
        if (got != want) fail_msg("case %zu: got %.0f bytes, want %.0f", i, got, want);
    }
    arena_destroy(arena);
}

/* Norms of queries and keys (8,192 and 1,024 columns) are made of operators too; a norm whose weight
 * is frozen keeps no product; in fp32 the input is its own copy. */
static void test_norms_of_operators(void **state) {
    (void)state;
    static const struct {
        bool qk_norm, frozen;
        enum precision precision;
        double bytes; /* a token beside the fused block's */
    } cases[] = {
        { false, false, PRECISION_BF16, 2 * 8192 * (2 + 2) },
        { true, false, PRECISION_BF16, (2 * 8192 + 8192 + 1024) * (2 + 2) },
        { false, true, PRECISION_BF16, 2 * 8192 * 2 },
        { false, false, PRECISION_FP32, 2 * 8192 * 4 },
    };
    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
        struct arena *arena = arena_create();
        struct model m = *fixture_model(arena, "llama3-70b");
        struct module *language = &m.modules[MODULE_LANGUAGE];
        language->qk_norm = cases[i].qk_norm;
        language->frozen = cases[i].frozen;
        language->precision = cases[i].precision;
        m.input_gradients = true; /* of what is frozen */
        const int64_t block = fixture_layer(&m, LAYER_LANGUAGE_BLOCK);
        const struct batch_shape shape = model_batch_shape(&m, 1, 0, 4096, 4096.0 * 4096.0);
        struct tensor_split split = { .tp = 1, .cp = 1 };
        const double fused = layer_saved_bytes(&m, block, &shape, &split, RECOMPUTE_NONE);
        split.block.keeps = KEEPS_FP32_NORMS;
        const double got = layer_saved_bytes(&m, block, &shape, &split, RECOMPUTE_NONE) - fused;
        if (got != 4096 * cases[i].bytes)
            fail_msg("case %zu: got %.0f bytes, want %.0f", i, got, 4096 * cases[i].bytes);
        arena_destroy(arena);
    }
}

/* Of a block of gpt-175b with this activation at one sample of 2,048 tokens. */
static double saved_with(enum ffn_kind ffn, unsigned keeps, enum recompute_kind recompute) {
    struct arena *arena = arena_create();
    struct model m = *fixture_model(arena, "gpt-175b");
    m.modules[MODULE_LANGUAGE].ffn = ffn;
    const struct batch_shape shape = model_batch_shape(&m, 1, 0, 2048, 2048.0 * 2048.0);
    const struct tensor_split split = { .tp = 1, .cp = 1, .block.keeps = keeps };
    const double bytes =
        layer_saved_bytes(&m, fixture_layer(&m, LAYER_LANGUAGE_BLOCK), &shape, &split, recompute);
    arena_destroy(arena);
    return bytes;
}

static double saved_by_gpt(unsigned keeps, enum recompute_kind recompute) {
    return saved_with(FFN_GELU, keeps, recompute);
}

/* Under autocast both norms of a block read fp32, and so does a recomputed block. */
static void test_fp32_residual(void **state) {
    (void)state;
    const double values = 2048.0 * 12288;
    assert_true(saved_by_gpt(KEEPS_FP32_RESIDUAL, RECOMPUTE_NONE) -
                    saved_by_gpt(0, RECOMPUTE_NONE) ==
                4 * values);
    assert_true(saved_by_gpt(KEEPS_FP32_RESIDUAL, RECOMPUTE_FULL) -
                    saved_by_gpt(0, RECOMPUTE_FULL) ==
                2 * values);
}

/* GPT-2 of Transformers on one H100 under autocast: 14 bytes a value (calibrate/measured). */
static void test_written_activation(void **state) {
    (void)state;
    static const struct {
        enum ffn_kind ffn;
        unsigned keeps;
        double bytes; /* of a value of the feed-forward layer */
    } cases[] = {
        { FFN_GELU, KEEPS_WRITTEN_ACTIVATION, 0 }, /* the library's one kernel */
        { FFN_GELU_NEW, 0, 0 },
        { FFN_GELU_NEW, KEEPS_WRITTEN_ACTIVATION, 6 },
        { FFN_GELU_NEW, KEEPS_WRITTEN_ACTIVATION | KEEPS_FP32_RESIDUAL, 14 },
        { FFN_QUICK_GELU, KEEPS_WRITTEN_ACTIVATION | KEEPS_FP32_RESIDUAL, 2 },
    };
    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
        const unsigned without = cases[i].keeps & ~(unsigned)KEEPS_WRITTEN_ACTIVATION;
        assert_true(saved_with(cases[i].ffn, cases[i].keeps, RECOMPUTE_NONE) -
                        saved_with(cases[i].ffn, without, RECOMPUTE_NONE) ==
                    cases[i].bytes * 2048 * 4 * 12288);
        assert_true(saved_with(cases[i].ffn, cases[i].keeps, RECOMPUTE_FULL) ==
                    saved_with(cases[i].ffn, without, RECOMPUTE_FULL));
    }
}

/* A layer norm is one kernel in eager PyTorch too: nothing comes on top. */
static void test_layer_norm_is_fused(void **state) {
    (void)state;
    assert_true(saved_by_gpt(KEEPS_FP32_NORMS | KEEPS_FP32_NORM_PRODUCTS, RECOMPUTE_NONE) ==
                saved_by_gpt(0, RECOMPUTE_NONE));
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_34_sbh),
        cmocka_unit_test(test_korthikanti),
        cmocka_unit_test(test_scores_without_dropout),
        cmocka_unit_test(test_embedding_dropout),
        cmocka_unit_test(test_naive_without_weights),
        cmocka_unit_test(test_grouped_queries_and_gate),
        cmocka_unit_test(test_internvit_measurement),
        cmocka_unit_test(test_saved_without_weights),
        cmocka_unit_test(test_saved_of_other_layers),
        cmocka_unit_test(test_tensors_sum_up),
        cmocka_unit_test(test_workspace),
        cmocka_unit_test(test_workspace_of_frozen),
        cmocka_unit_test(test_workspace_of_scores),
        cmocka_unit_test(test_exchange_workspace),
        cmocka_unit_test(test_fp8_inputs),
        cmocka_unit_test(test_scores_in_fp32),
        cmocka_unit_test(test_unfused_tensors),
        cmocka_unit_test(test_copied_inputs),
        cmocka_unit_test(test_layer_norm_is_fused),
        cmocka_unit_test(test_norms_of_operators),
        cmocka_unit_test(test_fp32_residual),
        cmocka_unit_test(test_written_activation),
        cmocka_unit_test(test_cuts),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
