/* test_model.c - parameters, FLOPs and gradients of the shipped models against published figures.
 */
#include "tests/unit/model/model_fixture.h"

#include <math.h>

/* ---- parameters ---- */

/* Published or derived figures, as printed, for the vision encoder or language model alone. Where a
 * figure cannot be met, `ours` holds what is counted here and `why` the reason. */
struct figure {
    const char *printed, *ours;
    int digits;
    double unit;
};
#define MILLION(text, digits)                                                                      \
    { text, NULL, digits, 1e6 }
#define BILLION(text, digits)                                                                      \
    { text, NULL, digits, 1e9 }
#define MILLION_BUT(text, digits, ours)                                                            \
    { text, ours, digits, 1e6 }
#define BILLION_BUT(text, digits, ours)                                                            \
    { text, ours, digits, 1e9 }
#define NO_FIGURE                                                                                  \
    { NULL, NULL, 0, 1 }

static const struct {
    const char *role, *module;
    int64_t layer_count;
    struct figure layer, stack, total;
    const char *why;
} parameter_cases[] = {
    { "vision", "internvit-6b-448px", 45, MILLION_BUT("122.906", 3, "122.918"), BILLION("5.531", 3),
      BILLION("5.54", 2), "122.906 leaves out qk norm and layer scale (4h)" },
    { "vision", "eva-clip-1b", 40, MILLION_BUT("25.250", 3, "25.249"), BILLION("1.010", 3),
      BILLION("1.01", 2), "25.250 counts a bias of the key, which EVA does not have" },
    { "vision", "eva-clip-4b", 64, MILLION_BUT("67.927", 3, "67.925"), BILLION("4.347", 3),
      BILLION("4.35", 2), "67.927 counts a bias of the key, which EVA does not have" },
    { "vision", "eva-clip-8b", 32, MILLION("234.918", 3), BILLION("7.517", 3), BILLION("7.5", 1),
      NULL },
    { "vision", "eva-clip-18b", 48, MILLION("367.048", 3), BILLION("17.618", 3),
      BILLION_BUT("17.5", 1, "17.6"), "the README's 17.5B is less than its 48 layers alone" },
    { "vision", "clip-vit-l-14-336", 24, MILLION("12.596", 3), BILLION("0.302", 3),
      BILLION("0.304", 3), NULL },
    { "language", "internlm2-20b", 48, MILLION("390.083", 3), BILLION("18.724", 3),
      BILLION("19.86", 2), NULL },
    { "language", "yi-34b", 60, MILLION("557.857", 3), BILLION("33.471", 3), BILLION("34.39", 2),
      NULL },
    { "language", "llama3-8b", 32, MILLION("218.112", 3), BILLION("6.980", 3), BILLION("8.03", 2),
      NULL },
    { "language", "llama3-70b", 80, MILLION("855.654", 3), BILLION("68.452", 3),
      BILLION("70.55", 2), NULL },
    { "language", "qwen1.5-110b", 80, MILLION("1358.981", 3), BILLION("108.718", 3),
      BILLION("111.21", 2), NULL },
    { "language", "vicuna-7b", 32, MILLION("202.383", 3), BILLION("6.476", 3), BILLION("6.74", 2),
      NULL },
    { "language", "vicuna-13b", 40, MILLION("317.204", 3), BILLION("12.688", 3),
      BILLION("13.02", 2), NULL },
    { "vision", "dip-vit-5b", 63, MILLION("67.902", 3), BILLION("4.278", 3), BILLION("4.28", 2),
      NULL },
    { "vision", "dip-vit-22b", 48, MILLION_BUT("453.009", 3, "453.010"), BILLION("21.744", 3),
      BILLION_BUT("21.7", 1, "21.7"), "453.009 leaves out the norms of query and key heads" },
    { "language", "qwen2-32b", 64, MILLION("487.605", 3), BILLION("31.207", 3), BILLION("32.76", 2),
      NULL },
    { "language", "qwen2-72b", 80, MILLION("877.685", 3), BILLION("70.215", 3), BILLION("72.71", 2),
      NULL },
    { "language", "gpt-175b", 96, MILLION("1812.099", 3), BILLION("173.962", 3),
      BILLION("174.6", 1), NULL },
    { "language", "lm-7b", 32, MILLION("202.383", 3), BILLION("6.476", 3), BILLION("6.74", 2),
      NULL },
    { "vision", "vit-2b", 48, NO_FIGURE, NO_FIGURE, BILLION("1.84", 2), NULL },
    { "vision", "vit-2b-wide", 24, NO_FIGURE, NO_FIGURE, BILLION("1.89", 2), NULL },
    { "language", "lm-5b", 24, NO_FIGURE, BILLION("4.86", 2), BILLION("5.12", 2), NULL },
    { "vision", "qwen2-vl-vit", 32, MILLION("19.677", 3), BILLION("0.630", 3), NO_FIGURE, NULL },
    { "vision", "clip-vit-b-32-224", 12, NO_FIGURE, NO_FIGURE, MILLION("87.5", 1), NULL },
    { "vision", "clip-vit-b-16-224", 12, NO_FIGURE, NO_FIGURE, MILLION("85.80", 2), NULL },
    { "vision", "clip-vit-l-14-224", 24, MILLION("12.596", 3), NO_FIGURE, MILLION("303.18", 2),
      NULL },
    { "vision", "openclip-vit-h-14-224", 32, NO_FIGURE, NO_FIGURE,
      MILLION_BUT("632.08", 2, "630.76"), "632.08 counts the projection to the text's space" },
    { "vision", "siglip-so400m-14-224", 27, NO_FIGURE, NO_FIGURE,
      MILLION_BUT("427.68", 2, "412.44"), "427.68 counts the pooling head and the last norm" },
    { "vision", "siglip-b-16-224", 12, NO_FIGURE, NO_FIGURE, MILLION_BUT("92.88", 2, "85.80"),
      "92.88 counts the pooling head and the last norm" },
    { "vision", "internvit-300m-448px", 24, NO_FIGURE, NO_FIGURE, MILLION("304.01", 2), NULL },
    { "vision", "dinov2-vit-l-14-518", 24, NO_FIGURE, NO_FIGURE, MILLION("304.37", 2), NULL },
    { "vision", "dinov2-vit-g-14-518", 40, NO_FIGURE, NO_FIGURE, MILLION("1136.48", 2), NULL },
    { "vision", "qwen2.5-vl-vit", 32, NO_FIGURE, NO_FIGURE, MILLION_BUT("676.55", 2, "631.98"),
      "676.55 counts the merger, a connector here" },
    { "vision", "qwen3-vl-vit-4b", 24, NO_FIGURE, NO_FIGURE, MILLION_BUT("415.35", 2, "303.88"),
      "415.35 counts four mergers and a table of positions" },
    { "vision", "pixtral-vit", 24, NO_FIGURE, NO_FIGURE, MILLION_BUT("400", 0, "403"),
      "the model card rounds" },
    { "vision", "uneven-pp-vit-1", 28, MILLION("19.68", 2), BILLION("0.551", 3), BILLION("0.55", 2),
      NULL },
    { "vision", "uneven-pp-vit-2", 28, MILLION("201.38", 2), BILLION("5.639", 3),
      BILLION("5.64", 2), NULL },
    { "vision", "uneven-pp-vit-3", 28, MILLION("768.10", 2), BILLION("21.507", 3),
      BILLION("21.5", 1), NULL },
    { "language", "gpt-22b", 48, NO_FIGURE, NO_FIGURE, BILLION("22", 0), NULL },
    { "language", "gpt-530b", 105, NO_FIGURE, NO_FIGURE, BILLION("530", 0), NULL },
    { "language", "gpt-1t", 128, NO_FIGURE, NO_FIGURE, BILLION("1008", 0), NULL },
    { "language", "mpt-7b", 32, MILLION("201.335", 3), BILLION("6.443", 3), BILLION("6.65", 2),
      NULL },
    { "language", "mpt-30b", 48, MILLION("616.577", 3), BILLION("29.596", 3),
      BILLION_BUT("29.95", 2, "29.96"), "29.957, which the model card cuts off" },
    { "language", "llama2-70b", 80, MILLION("855.654", 3), BILLION("68.452", 3),
      BILLION("68.98", 2), NULL },
    { "language", "llama3.1-405b", 126, MILLION("3187.704", 3), BILLION("401.651", 3),
      BILLION("405.85", 2), NULL },
    { "language", "nemotron-4-15b", 32, NO_FIGURE, BILLION("12.5", 1), BILLION("15.6", 1), NULL },
    { "language", "nemotron-4-340b", 96, NO_FIGURE, BILLION("331.6", 1), BILLION("341.0", 1),
      NULL },
    { "language", "qwen2-7b", 28, MILLION("233.058", 3), BILLION("6.526", 3), BILLION("7.62", 2),
      NULL },
};

static void expect_figure(const char *module, const char *what, const struct figure *figure,
                          int64_t count) {
    if (figure->printed == NULL) return;
    char text[64];
    snprintf(text, sizeof text, "%.*f", figure->digits, (double)count / figure->unit);
    const char *want = figure->ours != NULL ? figure->ours : figure->printed;
    if (strcmp(text, want) != 0)
        fail_msg("%s: %s is %s, want %s (%lld)", module, what, text, want, (long long)count);
}

static void test_parameters(void **state) {
    (void)state;
    struct arena *arena = arena_create();
    for (size_t i = 0; i < sizeof parameter_cases / sizeof parameter_cases[0]; i++) {
        const char *module = parameter_cases[i].module;
        bool vision = strcmp(parameter_cases[i].role, "vision") == 0;
        const struct model *m = fixture_module(arena, parameter_cases[i].role, module);
        enum module_role role = vision ? MODULE_VISION : MODULE_LANGUAGE;
        int64_t block = fixture_layer(m, vision ? LAYER_VISION_BLOCK : LAYER_LANGUAGE_BLOCK);
        int64_t count = model_layer_parameters(m, block);
        if (m->modules[role].layer_count != parameter_cases[i].layer_count)
            fail_msg("%s: %lld layers", module, (long long)m->modules[role].layer_count);
        expect_figure(module, "a layer", &parameter_cases[i].layer, count);
        expect_figure(module, "the stack", &parameter_cases[i].stack,
                      count * parameter_cases[i].layer_count);
        expect_figure(module, "the total", &parameter_cases[i].total, model_parameters(m));
        assert_int_equal(module_parameters(m, role), model_parameters(m));
    }
    arena_destroy(arena);
}

static const struct {
    const char *name, *layer;
    int64_t want;
} exact_cases[] = {
    /* LayerNorm(12800), Linear 12800 -> 6144, GELU, Linear 6144 -> 6144 */
    { "internvl-6b-20b", "connector", 2 * 12800 + 12801 * 6144 + 6145 * 6144 },
    { "internvl-6b-20b", "patch embedding", (3 * 14 * 14 + 1) * 3200 + 3200 + 1025 * 3200 },
    { "internvl-6b-20b", "token embedding", 92553LL * 6144 },
    { "internvl-6b-20b", "head", 6144 + 92553LL * 6144 },
    { "llava-1.6-7b", "patch embedding", 3 * 14 * 14 * 1024 + 1024 + 577 * 1024 + 2 * 1024 },
    { "llava-1.6-7b", "connector", 1025 * 4096 + 4097 * 4096 },
    { "uneven-pp-2", "connector", 4096 * 3584 },
    { "qwen2-vl-7b", "patch embedding", 2 * 3 * 14 * 14 * 1280 },
    { "qwen2-vl-7b", "connector", 2 * 1280 + 5121 * 5120 + 5121 * 3584 },
    { "vlm-s", "connector", 2 * 1792 + 28673LL * 4096 },
    { "gpt-175b", "token embedding", 51200LL * 12288 + 2048 * 12288 },
    { "gpt-175b", "head", 2 * 12288 },
};

static int64_t layer_by_name(const struct model *m, const char *name) {
    for (int64_t i = 0; i < m->layer_count; i++)
        if (strcmp(layer_kind_name(m->layers[i].kind), name) == 0) return i;
    fail_msg("%s has no %s", m->name, name);
    return -1;
}

static void test_exact_parameters(void **state) {
    (void)state;
    struct arena *arena = arena_create();
    for (size_t i = 0; i < sizeof exact_cases / sizeof exact_cases[0]; i++) {
        const struct model *m = fixture_model(arena, exact_cases[i].name);
        int64_t got = model_layer_parameters(m, layer_by_name(m, exact_cases[i].layer));
        if (got != exact_cases[i].want)
            fail_msg("%s %s: got %lld, want %lld", exact_cases[i].name, exact_cases[i].layer,
                     (long long)got, (long long)exact_cases[i].want);
    }
    /* Qwen2-VL's model card: the tower with its merger has 675 M parameters. */
    const struct model *qwen = fixture_model(arena, "qwen2-vl-7b");
    assert_int_equal(module_parameters(qwen, MODULE_VISION) +
                         module_parameters(qwen, MODULE_CONNECTOR),
                     675759104);
    /* Checkpoints of Hugging Face, without the block and the norm that LLaVA-1.5 (7,062,902,784)
     * does not read. */
    static const struct {
        const char *name;
        int64_t want;
    } checkpoints[] = { { "qwen2.5-vl-7b", 8292166656 },
                        { "internvl3-8b", 7944373760 },
                        { "llava-1.5-7b", 7062902784 - 12596224 - 2048 } };
    for (size_t i = 0; i < sizeof checkpoints / sizeof checkpoints[0]; i++)
        assert_int_equal(model_parameters(fixture_model(arena, checkpoints[i].name)),
                         checkpoints[i].want);
    /* DIP calls them 12B, 37B and 94B. */
    static const struct {
        const char *name;
        double want_B;
    } sums[] = { { "vlm-s", 12.3 }, { "vlm-m", 37.0 }, { "vlm-l", 94.4 }, { "vlm-37b", 37.1 } };
    for (size_t i = 0; i < sizeof sums / sizeof sums[0]; i++) {
        const struct model *m = fixture_model(arena, sums[i].name);
        double got_B =
            (double)(module_parameters(m, MODULE_VISION) + module_parameters(m, MODULE_LANGUAGE)) /
            1e9;
        if (fabs(got_B - sums[i].want_B) > 0.06)
            fail_msg("%s: got %.2fB, want %.1fB", sums[i].name, got_B, sums[i].want_B);
    }
    arena_destroy(arena);
}

/* ---- parameters of a rank ---- */

static void test_rank_parameters(void **state) {
    (void)state;
    struct arena *arena = arena_create();
    const struct model *m = fixture_model(arena, "internvl-6b-70b");
    int64_t block = fixture_layer(m, LAYER_LANGUAGE_BLOCK);
    const int64_t norms = 2 * 8192, whole = model_layer_parameters(m, block);
    for (int64_t tp = 1; tp <= 8; tp *= 2)
        assert_int_equal(layer_rank_parameters(m, block, tp), (whole - norms) / tp + norms);
    /* beyond 8 ranks the 8 key and value heads are replicated: one head of each on every rank */
    assert_int_equal(layer_rank_parameters(m, block, 16),
                     8192 * (2 * 4 * 128 + 2 * 128) + 3 * 8192 * 28672 / 16 + norms);
    /* small modules are whole on every rank */
    int64_t connector = fixture_layer(m, LAYER_CONNECTOR);
    assert_int_equal(layer_rank_parameters(m, connector, 8), model_layer_parameters(m, connector));
    /* vocabulary rounds up */
    const struct model *iv = fixture_model(arena, "internvl-6b-20b");
    assert_int_equal(layer_rank_parameters(iv, fixture_layer(iv, LAYER_TOKEN_EMBEDDING), 2),
                     46277LL * 6144);
    /* 25 heads on 8 ranks are 4 each, as if padded to 32 */
    int64_t vision = fixture_layer(iv, LAYER_VISION_BLOCK);
    assert_int_equal(layer_rank_parameters(iv, vision, 8),
                     3200 * (4 * 512 + 2 * 1600) /* matmuls */ + 1600 + 2 * 3200 /* biases */ +
                         4 * 3200 /* norms and layer scale */ + 2 * 512 /* qk norm */);
    /* a tied head counts once in the model, but its rank holds the table */
    const struct model *gpt = fixture_model(arena, "gpt-175b");
    assert_int_equal(layer_rank_parameters(gpt, fixture_layer(gpt, LAYER_HEAD), 8),
                     2 * 12288 + 51200LL / 8 * 12288);
    assert_int_equal(layer_rank_tied_parameters(gpt, fixture_layer(gpt, LAYER_HEAD), 8),
                     51200LL / 8 * 12288);
    assert_int_equal(layer_rank_tied_parameters(gpt, fixture_layer(gpt, LAYER_TOKEN_EMBEDDING), 8),
                     0);
    assert_int_equal(layer_rank_tied_parameters(iv, fixture_layer(iv, LAYER_HEAD), 2), 0);
    arena_destroy(arena);
}

/* ---- structure ---- */

static const struct {
    const char *name;
    int64_t blocks, layers, tile_vision_tokens, tile_language_tokens;
} structure_cases[] = {
    /* OmniBal Table 8 prints stages that sum to these, but for eva-4b-20b, where they sum to 102 */
    { "internvl-6b-8b", 77, 81, 1025, 256 },
    { "internvl-6b-20b", 93, 97, 1025, 256 },
    { "internvl-6b-34b", 105, 109, 1025, 256 },
    { "internvl-6b-70b", 125, 129, 1025, 256 },
    { "internvl-6b-110b", 125, 129, 1025, 256 },
    { "eva-1b-20b", 88, 92, 1025, 256 },
    { "eva-4b-20b", 112, 116, 1025, 256 },
    { "eva-8b-20b", 80, 84, 1025, 256 },
    { "eva-18b-20b", 96, 100, 1025, 256 },
    { "llava-1.6-7b", 55, 59, 577, 576 },
    { "llava-1.6-13b", 63, 67, 577, 576 },
    { "llava-1.6-34b", 83, 87, 577, 576 },
    { "vlm-s", 95, 99, 2704, 169 },
    { "vlm-m", 127, 131, 2704, 169 },
    { "vlm-l", 128, 132, 2704, 169 },
    { "vlm-xl", 144, 148, 2704, 169 },
    { "vlm-37b", 128, 132, 2704, 169 },
    { "lm-7b", 32, 34, 0, 0 },
    { "vit-2b-lm-5b", 72, 76, 2704, 169 },
    { "vit-2b-wide-lm-5b", 48, 52, 2704, 169 },
    { "qwen2-vl-7b", 60, 64, 1024, 256 },
    { "uneven-pp-1", 56, 60, 256, 256 },
    { "uneven-pp-2", 56, 60, 256, 256 },
    { "uneven-pp-3", 56, 60, 256, 256 },
    { "gpt-175b", 96, 98, 0, 0 },
    { "mpt-30b", 48, 50, 0, 0 },
    { "t2v-s", 60, 64, 0, 0 },
    { "t2v-l", 112, 116, 0, 0 },
    { "t2v-xl", 128, 132, 0, 0 },
    { "nemotron-4-340b", 96, 98, 0, 0 },
};

static void test_structure(void **state) {
    (void)state;
    struct arena *arena = arena_create();
    for (size_t i = 0; i < sizeof structure_cases / sizeof structure_cases[0]; i++) {
        const char *name = structure_cases[i].name;
        const struct model *m = fixture_model(arena, name);
        int64_t blocks = 0;
        for (int64_t l = 0; l < m->layer_count; l++) {
            blocks += layer_can_recompute(m, l);
            if (l > 0 && m->layers[l].kind < m->layers[l - 1].kind)
                fail_msg("%s: layer %lld out of order", name, (long long)l);
        }
        if (blocks != structure_cases[i].blocks)
            fail_msg("%s: %lld blocks", name, (long long)blocks);
        if (m->layer_count != structure_cases[i].layers)
            fail_msg("%s: %lld layers", name, (long long)m->layer_count);
        if (m->tile_vision_tokens != structure_cases[i].tile_vision_tokens ||
            m->tile_language_tokens != structure_cases[i].tile_language_tokens)
            fail_msg("%s: tile of %lld and %lld tokens", name, (long long)m->tile_vision_tokens,
                     (long long)m->tile_language_tokens);
    }
    arena_destroy(arena);
}

static void test_batch_shape(void **state) {
    (void)state;
    struct arena *arena = arena_create();
    struct batch_shape s =
        model_batch_shape(fixture_model(arena, "internvl-6b-20b"), 4, 9, 4000, 5e6);
    assert_int_equal(s.samples, 4);
    assert_int_equal(s.vision_tiles, 9);
    assert_int_equal(s.vision_tokens, 9225);
    assert_true(s.vision_square_sum == 9.0 * 1025 * 1025);
    assert_int_equal(s.connector_tokens, 2304);
    assert_int_equal(s.language_tokens, 4000);
    assert_true(s.language_square_sum == 5e6);
    assert_int_equal(s.useful_language_tokens, 4000);
    arena_destroy(arena);
}

/* ---- FLOPs ---- */

static const struct {
    const char *what, *model, *layer;
    int64_t tiles, tokens;
    double want_TFLOP;
    int digits;
} flop_cases[] = {
    { "ISF group, ViT layer", "internvl-6b-20b", "vision block", 9, 4096, 2.39, 2 },
    { "ISF group, LLM layer", "internvl-6b-20b", "language block", 9, 4096, 3.40, 2 },
    { "ISF group, head", "internvl-6b-20b", "head", 9, 4096, 4.66, 2 },
    /* DIP section 2.2: 8 images, one sequence of 8192 */
    { "DIP ViT layer", "vlm-37b", "vision block", 8, 8192, 3.36, 2 },
    { "DIP LM layer", "vlm-37b", "language block", 8, 8192, 8.68, 2 },
};

static void test_flop(void **state) {
    (void)state;
    struct arena *arena = arena_create();
    for (size_t i = 0; i < sizeof flop_cases / sizeof flop_cases[0]; i++) {
        const struct model *m = fixture_model(arena, flop_cases[i].model);
        double tokens = (double)flop_cases[i].tokens;
        struct batch_shape s =
            model_batch_shape(m, 1, flop_cases[i].tiles, flop_cases[i].tokens, tokens * tokens);
        double got = model_layer_flop(m, layer_by_name(m, flop_cases[i].layer), &s) / 1e12;
        if (fabs(got - flop_cases[i].want_TFLOP) > 0.5 * pow(10, -flop_cases[i].digits))
            fail_msg("%s: got %.4f TFLOP, want %.2f", flop_cases[i].what, got,
                     flop_cases[i].want_TFLOP);
    }
    arena_destroy(arena);
}

/* The uneven pipeline guide prints three times the forward FLOPs of encoder and adaptor. */
static void test_flop_uneven_pp(void **state) {
    (void)state;
    static const struct {
        const char *name;
        double vision_TFLOP, connector_TFLOP;
    } cases[] = {
        { "uneven-pp-1", 0.87491346432, 0.00704643072 },
        { "uneven-pp-2", 8.75254775808, 0.022548578304 },
        { "uneven-pp-3", 33.213530112, 0.044040192 },
    };
    struct arena *arena = arena_create();
    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
        const struct model *m = fixture_model(arena, cases[i].name);
        struct batch_shape s = model_batch_shape(m, 1, 1, 1024, 1024.0 * 1024.0);
        double vision = 0, connector = 0;
        for (int64_t l = 0; l < m->layer_count; l++) {
            double flop = 3e-12 * model_layer_flop(m, l, &s);
            if (m->layers[l].module_index == MODULE_VISION) vision += flop;
            if (m->layers[l].module_index == MODULE_CONNECTOR) connector += flop;
        }
        if (fabs(vision - cases[i].vision_TFLOP) > 1e-10)
            fail_msg("%s: vision %.12f, want %.12f", cases[i].name, vision, cases[i].vision_TFLOP);
        if (fabs(connector - cases[i].connector_TFLOP) > 1e-12)
            fail_msg("%s: connector %.12f, want %.12f", cases[i].name, connector,
                     cases[i].connector_TFLOP);
    }
    arena_destroy(arena);
}

/* ---- gradients ---- */

static const struct {
    const char *frozen[4];
    /* by layer kind: i input gradient, w weight gradient, b both, - none */
    char want[LAYER_KIND_COUNT + 1];
    bool input_gradients;
} gradient_cases[] = {
    { { NULL }, "wbbbbb", false },
    { { "vision", NULL }, "--wbbb", false },
    { { "connector", NULL }, "wbibbb", false },
    { { "language", NULL }, "wbbiii", false },
    { { "vision", "language", NULL }, "--wiii", false },
    { { "vision", "connector", NULL }, "---wbb", false },
    { { "connector", "language", NULL }, "wbiiii", false },
    { { "vision", "connector", "language", NULL }, "------", false },
    { { NULL }, "wbbbbb", true },
    { { "vision", "language", NULL }, "-ibiii", true },
    { { "vision", "connector", NULL }, "-iibbb", true },
};

static void test_gradients(void **state) {
    (void)state;
    static const double passes[] = { ['-'] = 1, ['i'] = 2, ['w'] = 2, ['b'] = 3 };
    struct arena *arena = arena_create();
    const struct model *all = fixture_model(arena, "internvl-6b-20b");
    for (size_t i = 0; i < sizeof gradient_cases / sizeof gradient_cases[0]; i++) {
        int64_t frozen = 0;
        while (gradient_cases[i].frozen[frozen] != NULL)
            frozen++;
        struct error err = { 0 };
        const struct model *named =
            model_with_frozen(arena, all, gradient_cases[i].frozen, frozen, &err);
        assert_non_null(named);
        struct model changed = *named, *m = &changed;
        m->input_gradients = gradient_cases[i].input_gradients;
        struct batch_shape s = model_batch_shape(m, 1, 9, 4096, 0);
        s.vision_square_sum = 0;
        for (int64_t l = 0; l < m->layer_count; l++) {
            struct gradient_need need = model_gradient_need(m, l);
            char want = gradient_cases[i].want[m->layers[l].kind];
            char got = need.input ? (need.weight ? 'b' : 'i') : (need.weight ? 'w' : '-');
            if (got != want)
                fail_msg("case %zu, %s %d: %c, want %c", i, layer_kind_name(m->layers[l].kind),
                         m->layers[l].index_in_module, got, want);
            double forward = model_layer_flop(m, l, &s);
            double training = model_layer_training_flop(m, l, &s);
            if (fabs(training - passes[(int)want] * forward) > 1e-9 * training)
                fail_msg("case %zu, %s: training %g, forward %g", i,
                         layer_kind_name(m->layers[l].kind), training, forward);
        }
    }
    assert_false(all->modules[MODULE_VISION].frozen);
    /* attention runs backward twice, whichever gradient asks for it */
    const char *const language[] = { "language" };
    struct error err = { 0 };
    const struct model *m = model_with_frozen(arena, all, language, 1, &err);
    struct batch_shape s = { .language_tokens = 1, .language_square_sum = 1e9 };
    int64_t block = fixture_layer(m, LAYER_LANGUAGE_BLOCK);
    double attention = 2.0 * 1e9 * 6144;
    double matmul = model_layer_flop(m, block, &s) - attention;
    assert_true(fabs(model_layer_training_flop(m, block, &s) - 2 * matmul - 3 * attention) < 1e3);
    arena_destroy(arena);
}

static void test_frozen_errors(void **state) {
    (void)state;
    static const struct {
        const char *model, *role, *want;
    } cases[] = {
        { "internvl-6b-20b", "visoin",
          "no module is called \"visoin\"\n"
          "  hint: did you mean \"vision\"? one of: vision, connector, language, "
          "diffusion_decoder" },
        { "llama3-8b", "vision", "model 'llama3-8b' has no vision module that could be frozen" },
    };
    struct arena *arena = arena_create();
    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
        struct error err = { 0 };
        const struct model *m = fixture_model(arena, cases[i].model);
        assert_null(model_with_frozen(arena, m, &cases[i].role, 1, &err));
        assert_string_equal(err.text, cases[i].want);
    }
    arena_destroy(arena);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_parameters),      cmocka_unit_test(test_exact_parameters),
        cmocka_unit_test(test_rank_parameters), cmocka_unit_test(test_structure),
        cmocka_unit_test(test_batch_shape),     cmocka_unit_test(test_flop),
        cmocka_unit_test(test_flop_uneven_pp),  cmocka_unit_test(test_gradients),
        cmocka_unit_test(test_frozen_errors),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
