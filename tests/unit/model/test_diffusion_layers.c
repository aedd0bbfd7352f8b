/* test_diffusion_layers.c - the diffusion decoder: parameters, operators of each layer, work and
 * memory, against figures of DIP and Movie Gen and against closed forms. */
#include "tests/unit/model/model_fixture.h"

#include <math.h>

static const struct gradient_need both = { true, true };

/* Three clips, each with its own text. */
static struct batch_shape clips_shape(const struct model *m) {
    static const int64_t clips_ms[] = { 16000, 3000, 1500 }, texts[] = { 240, 45, 20 };
    struct batch_shape shape = { .samples = 3, .video_clips = 3 };
    for (int i = 0; i < 3; i++) {
        double video = (double)model_clip_tokens(m, clips_ms[i]), text = (double)texts[i];
        shape.video_tokens += (int64_t)video;
        shape.video_square_sum += video * video;
        shape.cross_square_sum += video * text;
        shape.language_tokens += texts[i];
        shape.language_square_sum += text * text;
    }
    shape.useful_language_tokens = shape.language_tokens;
    return shape;
}

static struct operator_list operators_of(const struct model *m, enum layer_kind kind,
                                         const struct batch_shape *shape, int64_t tp, bool sp,
                                         enum pass_set set) {
    struct tensor_split split = { .tp = tp, .sequence_parallel = sp, .cp = 1 };
    struct operator_list list = { 0 };
    layer_operators(m, fixture_layer(m, kind), shape, &split, set, both, &list);
    return list;
}

/* ---- tokens and parameters ---- */

static void test_clip_tokens(void **state) {
    (void)state;
    struct arena *arena = arena_create();
    const struct model *m = fixture_model(arena, "t2v-s");
    static const struct {
        int64_t clip_ms, frames, want;
    } cases[] = {
        { 16000, 32, 73728 }, /* the 73K of Movie Gen's abstract */
        { 8000, 16, 36864 },    { 0, 0, 0 }, { 1, 1, 2304 }, { 500, 1, 2304 }, /* 8 frames */
        { 563, 2, 4608 },                                                      /* 9 frames */
        { 562, 1, 2304 }, /* 8.99 frames are 8 */
        { 60000, 120, 276480 },
    };
    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
        int64_t got = model_clip_tokens(m, cases[i].clip_ms);
        if (got != cases[i].want || got != cases[i].frames * 48 * 48)
            fail_msg("%lld ms: got %lld tokens", (long long)cases[i].clip_ms, (long long)got);
    }
    assert_int_equal(model_clip_tokens(fixture_model(arena, "llama3-8b"), 16000), 0);
    /* Wan's frames are 52 x 30 patches; its first one is a latent frame of its own. */
    const struct model *wan = fixture_model(arena, "wan2.1-t2v-14b");
    assert_int_equal(model_clip_tokens(wan, 5063), 21 * 52 * 30);
    assert_int_equal(model_clip_tokens(wan, 1), 52 * 30);
    arena_destroy(arena);
}

/* The matrices of a block are what DIP's names rest on: 8 h^2 of two attentions and 2 h f. The
 * rest of a block is a norm and the table of six vectors. */
static const struct {
    const char *model;
    int64_t hidden, ffn, blocks, text_hidden;
    double matrices_M, stack_B;
} parameter_cases[] = {
    { "t2v-s", 3584, 10240, 28, 4096, 176.161, 4.933 },
    { "t2v-l", 6144, 24576, 48, 5120, 603.980, 28.991 },
    { "t2v-xl", 6144, 24576, 48, 8192, 603.980, 28.991 },
};

static void test_parameters(void **state) {
    (void)state;
    struct arena *arena = arena_create();
    for (size_t i = 0; i < sizeof parameter_cases / sizeof parameter_cases[0]; i++) {
        const struct model *m = fixture_model(arena, parameter_cases[i].model);
        const int64_t h = parameter_cases[i].hidden, blocks = parameter_cases[i].blocks;
        const int64_t t = parameter_cases[i].text_hidden;
        int64_t matrices =
            model_layer_parameters(m, fixture_layer(m, LAYER_DIFFUSION_BLOCK)) - 7 * h;
        assert_int_equal(matrices, 8 * h * h + 2 * h * parameter_cases[i].ffn);
        assert_int_equal(llround((double)matrices / 1e3),
                         llround(parameter_cases[i].matrices_M * 1e3));
        assert_int_equal(llround((double)(blocks * matrices) / 1e6),
                         llround(parameter_cases[i].stack_B * 1e3));
        assert_int_equal(model_layer_parameters(m, fixture_layer(m, LAYER_TEXT_PROJECTION)),
                         t + t * h + h);
        assert_int_equal(model_layer_parameters(m, fixture_layer(m, LAYER_LATENT_EMBEDDING)),
                         65 * h + 128 * h + 257 * h + (h + 1) * h + (h + 1) * 6 * h);
        assert_int_equal(model_layer_parameters(m, fixture_layer(m, LAYER_DIFFUSION_HEAD)),
                         2 * h + (h + 1) * 64);
        /* The encoder of the text has no head. */
        assert_int_equal(fixture_layer(m, LAYER_HEAD), -1);
    }
    /* Halves on two ranks, but for norms, tables and what is whole on each. */
    const struct model *m = fixture_model(arena, "t2v-s");
    int64_t block = fixture_layer(m, LAYER_DIFFUSION_BLOCK), h = 3584;
    assert_int_equal(layer_rank_parameters(m, block, 2), (8 * h * h + 2 * h * 10240) / 2 + 7 * h);
    int64_t embedding = fixture_layer(m, LAYER_LATENT_EMBEDDING);
    assert_int_equal(model_layer_parameters(m, embedding) - layer_rank_parameters(m, embedding, 4),
                     (h + 1) * 6 * h * 3 / 4);
    arena_destroy(arena);
}

/* ---- without a language model ---- */

#define ALONE                                                                                      \
    "{ \"name\": \"x\", \"source\": \"test\", \"diffusion_decoder\": { \"name\": \"d\", "          \
    "\"role\": \"diffusion_decoder\", \"ffn\": \"gelu\", \"norm\": \"layer\", "                    \
    "\"qkv_bias\": \"all\", \"linear_bias\": true, \"patch_size\": 2, \"image_size\": 16, "        \
    "\"latent_pixels\": 8, \"latent_frames\": 1, \"frames_per_second\": 1000, "                    \
    "\"source\": \"test\", "

/* Wan 2.1's 1.3B (wan/modules/model.py) and DiT-XL/2 (models.py of facebookresearch/DiT). */
#define WAN                                                                                        \
    ALONE "\"layer_count\": 30, \"hidden\": 1536, \"ffn_hidden\": 8960, \"heads\": 12, "           \
          "\"position\": \"rotary\", \"qk_norm\": \"all-heads\", \"channels\": 16, "               \
          "\"qk_norm_kind\": \"rms\", \"text_hidden\": 4096, \"text_projection\": \"mlp\" } }"
#define DIT                                                                                        \
    ALONE "\"layer_count\": 28, \"hidden\": 1152, \"ffn_hidden\": 4608, \"heads\": 16, "           \
          "\"position\": \"learned\", \"position_count\": 256, \"channels\": 4, "                  \
          "\"modulation\": \"block\" } }"

static const struct model *model_of(struct arena *arena, const char *text) {
    struct error err = { 0 };
    char path[256];
    const struct model *m = fixture_text(arena, text, path, sizeof path, &err);
    if (m == NULL) fail_msg("%s", err.text);
    return m;
}

/* The checkpoints' own numbers of parameters, but for what the decoder does not have: DiT's embedding
 * of 1,001 labels and the variances of its head. */
static void test_alone_parameters(void **state) {
    (void)state;
    struct arena *arena = arena_create();
    const struct model *wan = model_of(arena, WAN), *dit = model_of(arena, DIT);
    assert_int_equal(model_parameters(wan), 1418996800);
    assert_int_equal(model_parameters(fixture_model(arena, "wan2.1-t2v-1.3b")), 1418996800);
    assert_int_equal(model_parameters(fixture_model(arena, "wan2.1-t2v-14b")), 14288491584);
    const int64_t labels = 1001 * 1152, variances = 16 * (1152 + 1);
    assert_int_equal(model_parameters(dit), 675129632 - labels - variances);
    /* one layer of the timestep a block, divided by tp as its columns are */
    const int64_t block = fixture_layer(dit, LAYER_DIFFUSION_BLOCK), h = 1152;
    const int64_t halves = 12 * h * h + 7 * h; /* biases of q, k, v and up */
    assert_int_equal(model_layer_parameters(dit, block) - layer_rank_parameters(dit, block, 2),
                     (halves + 6 * h * (h + 1)) / 2);
    arena_destroy(arena);
}

static void expect_sequence(const struct model *m, enum layer_kind kind, enum pass_set set,
                            const char *want) {
    struct batch_shape shape = clips_shape(m);
    struct operator_list list = operators_of(m, kind, &shape, 1, false, set);
    const char *at = want;
    for (int64_t i = 0; i < list.count; i++) {
        const size_t length = strlen(list.operators[i].name);
        if (strncmp(at, list.operators[i].name, length) != 0)
            fail_msg("got %s, want %s", list.operators[i].name, at);
        at += length + (at[length] != '\0' ? 2 : 0);
    }
    assert_string_equal(at, "");
    operator_list_free(&list);
}

static void test_alone_sequences(void **state) {
    (void)state;
    struct arena *arena = arena_create();
    const struct model *wan = model_of(arena, WAN), *dit = model_of(arena, DIT);
    expect_sequence(wan, LAYER_DIFFUSION_BLOCK, PASS_SET_FORWARD,
                    "attention norm, qkv, qk norm, rotary, attention, proj, attention residual, "
                    "cross norm, cross query, cross key-value, cross query norm, cross key norm, "
                    "cross attention, cross proj, cross residual, "
                    "mlp norm, up, activation, down, mlp residual");
    expect_sequence(wan, LAYER_TEXT_PROJECTION, PASS_SET_FORWARD,
                    "text projection, text activation, text projection down");
    expect_sequence(wan, LAYER_TEXT_PROJECTION, PASS_SET_BACKWARD,
                    "text projection down, text projection down, text activation, text projection");
    expect_sequence(dit, LAYER_DIFFUSION_BLOCK, PASS_SET_FORWARD,
                    "modulation, attention norm, qkv, attention, proj, attention residual, "
                    "mlp norm, up, activation, down, mlp residual");
    expect_sequence(dit, LAYER_DIFFUSION_BLOCK, PASS_SET_BACKWARD,
                    "mlp residual, down, down, activation, up, up, mlp norm, "
                    "mlp residual gradient, "
                    "attention residual, proj, proj, attention, qkv, qkv, attention norm, "
                    "attention residual gradient, modulation, modulation");
    expect_sequence(dit, LAYER_LATENT_EMBEDDING, PASS_SET_FORWARD,
                    "timestep up, timestep down, noise and unfold, latent embedding, "
                    "latent position");
    assert_int_equal(fixture_layer(dit, LAYER_TEXT_PROJECTION), -1);
    assert_int_equal(fixture_layer(dit, LAYER_LATENT_EMBEDDING), 0);
    arena_destroy(arena);
}

/* Norms of queries and keys are of their own kind, beside the blocks' layer norms. */
static void test_kinds_of_norms(void **state) {
    (void)state;
    struct arena *arena = arena_create();
    const struct model *wan = model_of(arena, WAN);
    const struct batch_shape shape = clips_shape(wan);
    struct operator_list list =
        operators_of(wan, LAYER_DIFFUSION_BLOCK, &shape, 1, false, PASS_SET_FORWARD);
    int rms = 0, layer = 0;
    for (int64_t i = 0; i < list.count; i++) {
        const struct operator_work *work = &list.operators[i];
        if (work->kind != OPERATOR_NORM) continue;
        const bool of_heads = strstr(work->name, "qk norm") != NULL ||
                              strstr(work->name, "query norm") != NULL ||
                              strstr(work->name, "key norm") != NULL;
        assert_true(work->form == (of_heads ? FORM_RMS_NORM : FORM_LAYER_NORM));
        rms += of_heads;
        layer += !of_heads;
    }
    assert_true(rms == 3 && layer == 3);
    operator_list_free(&list);
    arena_destroy(arena);
}

/* A sample's text is nothing to a decoder without cross attention. */
static void test_alone_work(void **state) {
    (void)state;
    struct arena *arena = arena_create();
    const struct model *dit = model_of(arena, DIT);
    const struct batch_shape shape = clips_shape(dit);
    const double h = 1152, t = (double)shape.video_tokens;
    const int64_t block = fixture_layer(dit, LAYER_DIFFUSION_BLOCK);
    assert_true(model_layer_flop(dit, block, &shape) ==
                2 * t * 12 * h * h + 4 * shape.video_square_sum * h);
    assert_true(layer_output_bytes(dit, block, &shape) == 2 * t * h);
    const struct model *wan = model_of(arena, WAN);
    const struct batch_shape texts = clips_shape(wan);
    assert_true(model_layer_flop(wan, fixture_layer(wan, LAYER_TEXT_PROJECTION), &texts) ==
                2 * (double)texts.language_tokens * (4096 + 1536) * 1536);
    arena_destroy(arena);
}

/* ---- order of operators ---- */

static const struct {
    const char *what;
    enum layer_kind kind;
    int64_t tp;
    bool sp;
    enum pass_set set;
    const char *want;
} sequence_cases[] = {
    { "block, one rank", LAYER_DIFFUSION_BLOCK, 1, false, PASS_SET_FORWARD,
      "attention norm f, qkv f, attention f, proj f, attention residual f, "
      "cross norm f, cross query f, cross key-value f, cross attention f, cross proj f, "
      "cross residual f, mlp norm f, up f, activation f, down f, mlp residual f" },
    { "block, SP", LAYER_DIFFUSION_BLOCK, 4, true, PASS_SET_FORWARD,
      "attention norm f, attention all-gather f, qkv f, attention f, proj f, "
      "attention reduce-scatter f, attention residual f, "
      "cross norm f, cross all-gather f, cross query f, text all-gather f, cross key-value f, "
      "cross attention f, cross proj f, cross reduce-scatter f, cross residual f, "
      "mlp norm f, mlp all-gather f, up f, activation f, down f, mlp reduce-scatter f, "
      "mlp residual f" },
    { "block, TP alone, backward", LAYER_DIFFUSION_BLOCK, 4, false, PASS_SET_BACKWARD,
      "mlp residual b, down i, down w, activation b, up i, mlp all-reduce i, up w, mlp norm b, "
      "mlp residual gradient b, "
      "cross proj i, cross proj w, cross attention b, cross key-value i, text all-reduce i, "
      "cross key-value w, text gradient b, cross query i, cross all-reduce i, cross query w, "
      "cross norm b, cross residual gradient b, "
      "attention residual b, proj i, proj w, attention b, qkv i, attention all-reduce i, qkv w, "
      "attention norm b, attention residual gradient b" },
    { "text projection", LAYER_TEXT_PROJECTION, 4, true, PASS_SET_BACKWARD,
      "projected norm b, text projection i, text projection w, text norm b" },
    { "latent embedding", LAYER_LATENT_EMBEDDING, 4, true, PASS_SET_FORWARD,
      "timestep up f, timestep down f, modulation f, modulation all-gather f, noise and unfold f, "
      "latent embedding f, latent position f" },
    { "latent embedding, backward", LAYER_LATENT_EMBEDDING, 1, true, PASS_SET_BACKWARD,
      "latent position w, latent embedding w, modulation i, modulation w, timestep down i, "
      "timestep down w, timestep up w" },
    { "head", LAYER_DIFFUSION_HEAD, 4, true, PASS_SET_FORWARD,
      "final norm f, latent patches f, squared error f" },
    { "head, backward", LAYER_DIFFUSION_HEAD, 4, true, PASS_SET_BACKWARD,
      "squared error b, latent patches i, latent patches w, final norm b" },
};

static void test_sequences(void **state) {
    (void)state;
    static const char passes[] = { [PASS_FORWARD] = 'f',
                                   [PASS_INPUT_GRADIENT] = 'i',
                                   [PASS_WEIGHT_GRADIENT] = 'w',
                                   [PASS_BACKWARD] = 'b' };
    struct arena *arena = arena_create();
    const struct model *m = fixture_model(arena, "t2v-s");
    struct batch_shape shape = clips_shape(m);
    for (size_t i = 0; i < sizeof sequence_cases / sizeof sequence_cases[0]; i++) {
        struct operator_list list =
            operators_of(m, sequence_cases[i].kind, &shape, sequence_cases[i].tp,
                         sequence_cases[i].sp, sequence_cases[i].set);
        char text[4096] = "";
        for (int64_t k = 0; k < list.count; k++)
            snprintf(text + strlen(text), sizeof text - strlen(text), "%s%s %c", k > 0 ? ", " : "",
                     list.operators[k].name, passes[list.operators[k].pass]);
        if (strcmp(text, sequence_cases[i].want) != 0)
            fail_msg("%s:\n got %s\nwant %s", sequence_cases[i].what, text, sequence_cases[i].want);
        operator_list_free(&list);
    }
    arena_destroy(arena);
}

/* Operands of cross attention are cast like those of self attention: in fp8 what no norm writes;
 * the text states come from another stage. */
static void test_cross_casts(void **state) {
    (void)state;
    struct arena *arena = arena_create();
    const struct model *bf16 = fixture_model(arena, "t2v-s");
    struct batch_shape shape = clips_shape(bf16);
    const double h = 3584, video = (double)shape.video_tokens, text = (double)shape.language_tokens;
    const struct {
        enum precision precision;
        enum pass_set set;
        const char *name;
        enum operator_pass pass;
        double bytes; /* 0: not there */
    } cases[] = {
        { PRECISION_BF16, PASS_SET_FORWARD, "cross key-value cast", PASS_FORWARD, 0 },
        { PRECISION_FP8, PASS_SET_FORWARD, "cross query cast", PASS_FORWARD, 0 },
        { PRECISION_FP8, PASS_SET_FORWARD, "cross key-value cast", PASS_FORWARD, 4 * text * h },
        { PRECISION_FP8, PASS_SET_FORWARD, "cross proj cast", PASS_FORWARD, 4 * video * h },
        { PRECISION_FP8, PASS_SET_BACKWARD, "cross proj cast", PASS_BACKWARD, 4 * video * h },
        { PRECISION_FP8, PASS_SET_BACKWARD, "cross key-value cast", PASS_BACKWARD,
          4 * text * 2 * h },
        { PRECISION_FP8, PASS_SET_BACKWARD, "cross query cast", PASS_BACKWARD, 4 * video * h },
        { PRECISION_FP4, PASS_SET_FORWARD, "cross query cast", PASS_FORWARD, 7.125 * video * h },
    };
    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
        const struct model *m = model_with_precision(arena, bf16, cases[i].precision);
        struct operator_list list =
            operators_of(m, LAYER_DIFFUSION_BLOCK, &shape, 1, false, cases[i].set);
        double bytes = 0;
        for (int64_t k = 0; k < list.count; k++)
            if (strcmp(list.operators[k].name, cases[i].name) == 0 &&
                list.operators[k].pass == cases[i].pass)
                bytes += list.operators[k].memory_bytes;
        if (fabs(bytes - cases[i].bytes) > 1e-6 * cases[i].bytes)
            fail_msg("case %zu: %s moves %g bytes, want %g", i, cases[i].name, bytes,
                     cases[i].bytes);
        operator_list_free(&list);
    }
    arena_destroy(arena);
}

/* What the forward cast by rows alone is cast again for the weight gradient, by who casts: bytes a
 * value. */
static void test_cross_operands(void **state) {
    (void)state;
    struct arena *arena = arena_create();
    const struct model *m =
        model_with_precision(arena, fixture_model(arena, "t2v-s"), PRECISION_FP8);
    struct batch_shape shape = clips_shape(m);
    const double h = 3584, video = (double)shape.video_tokens, text = (double)shape.language_tokens;
    const struct {
        const char *name;
        double values, fused, norm, linear, dynamic;
    } cases[] = {
        { "cross query operand", video * h, 0, 2, 0, 3 },
        { "cross key-value operand", text * h, 0, 0, 0, 3 },
        { "cross proj operand", video * h, 0, 0, 0, 3 },
    };
    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
        const double want[] = { cases[i].fused, cases[i].norm, cases[i].linear, cases[i].dynamic };
        for (int casts = CASTS_FUSED; casts <= CASTS_DYNAMIC; casts++) {
            struct tensor_split split = { .tp = 1,
                                          .cp = 1,
                                          .block.casts = (enum stack_casts)casts };
            struct operator_list list = { 0 };
            layer_operators(m, fixture_layer(m, LAYER_DIFFUSION_BLOCK), &shape, &split,
                            PASS_SET_BACKWARD, both, &list);
            double bytes = 0;
            for (int64_t k = 0; k < list.count; k++)
                if (strcmp(list.operators[k].name, cases[i].name) == 0)
                    bytes += list.operators[k].memory_bytes;
            if (fabs(bytes - want[casts] * cases[i].values) > 1e-6 * bytes)
                fail_msg("%s, casts %d: %g bytes, want %g", cases[i].name, casts, bytes,
                         want[casts] * cases[i].values);
            operator_list_free(&list);
        }
    }
    arena_destroy(arena);
}

/* A clip without a word of text only attends to itself. */
static void test_no_text(void **state) {
    (void)state;
    struct arena *arena = arena_create();
    const struct model *m = fixture_model(arena, "t2v-s");
    struct batch_shape shape = clips_shape(m);
    shape.language_tokens = shape.useful_language_tokens = 0;
    shape.language_square_sum = shape.cross_square_sum = 0;
    for (int set = 0; set < 2; set++) {
        struct operator_list list =
            operators_of(m, LAYER_DIFFUSION_BLOCK, &shape, 4, true, (enum pass_set)set);
        assert_true(list.count > 10);
        for (int64_t i = 0; i < list.count; i++)
            assert_null(strstr(list.operators[i].name, "cross"));
        operator_list_free(&list);
    }
    arena_destroy(arena);
}

/* ---- work ---- */

static double flop_of(const struct operator_list *list, enum operator_kind kind) {
    double flop = 0;
    for (int64_t i = 0; i < list->count; i++)
        if (list->operators[i].kind == kind) flop += list->operators[i].flop;
    return flop;
}

static bool near(double a, double b) {
    return fabs(a - b) <= 1e-12 * (fabs(a) + fabs(b));
}

static void test_conservation(void **state) {
    (void)state;
    static const struct {
        const char *model;
        enum layer_kind kind;
        int64_t tp_limit;
    } cases[] = {
        { "t2v-s", LAYER_DIFFUSION_BLOCK, 4 },
        { "t2v-l", LAYER_DIFFUSION_BLOCK, 8 },
        { "t2v-l", LAYER_DIFFUSION_HEAD, 8 },
        { "t2v-s", LAYER_TEXT_PROJECTION, 1 },
    };
    struct arena *arena = arena_create();
    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
        const struct model *m = fixture_model(arena, cases[i].model);
        struct batch_shape shape = clips_shape(m);
        double want = model_layer_flop(m, fixture_layer(m, cases[i].kind), &shape);
        for (int64_t tp = 1; tp <= cases[i].tp_limit; tp *= 2) {
            struct operator_list forward =
                operators_of(m, cases[i].kind, &shape, tp, true, PASS_SET_FORWARD);
            struct operator_list backward =
                operators_of(m, cases[i].kind, &shape, tp, true, PASS_SET_BACKWARD);
            double matmul = flop_of(&forward, OPERATOR_MATMUL);
            double attention = flop_of(&forward, OPERATOR_ATTENTION);
            if (!near((matmul + attention) * (double)tp, want) ||
                !near(flop_of(&backward, OPERATOR_MATMUL), 2 * matmul) ||
                !near(flop_of(&backward, OPERATOR_ATTENTION), 2.5 * attention))
                fail_msg("%s %s tp %lld: %.6g of %.6g flop, backward %.6g", m->name,
                         layer_kind_name(cases[i].kind), (long long)tp,
                         (matmul + attention) * (double)tp, want,
                         flop_of(&backward, OPERATOR_MATMUL));
            operator_list_free(&forward);
            operator_list_free(&backward);
        }
    }
    /* 16 s of video and 240 tokens of text, by hand. */
    const struct model *m = fixture_model(arena, "t2v-s");
    const double h = 3584, f = 10240, t = 73728, x = 240;
    struct batch_shape one = { .samples = 1,
                               .video_clips = 1,
                               .video_tokens = 73728,
                               .video_square_sum = t * t,
                               .cross_square_sum = t * x,
                               .language_tokens = 240,
                               .language_square_sum = x * x,
                               .useful_language_tokens = 240 };
    double want = 2 * t * (6 * h * h + 2 * h * f) + 2 * x * 2 * h * h + 4 * (t * t + t * x) * h;
    assert_true(near(model_layer_flop(m, fixture_layer(m, LAYER_DIFFUSION_BLOCK), &one), want));
    arena_destroy(arena);
}

/* Keys and values of the text are read once, not for every video token. */
static void test_cross_attention_bytes(void **state) {
    (void)state;
    struct operator_work self =
        operator_attention("a", PASS_FORWARD, PRECISION_BF16, 1000, 1e6, 8, 8, 128, false);
    struct operator_work same =
        operator_cross_attention("a", PASS_FORWARD, PRECISION_BF16, 1000, 1000, 1e6, 8, 8, 128);
    assert_true(self.flop == same.flop && self.memory_bytes == same.memory_bytes);
    struct operator_work cross =
        operator_cross_attention("c", PASS_FORWARD, PRECISION_BF16, 1000, 10, 1e4, 8, 8, 128);
    assert_true(cross.flop == 4 * 1e4 * 1024);
    assert_true(cross.memory_bytes == 2.0 * 1024 * (2 * 1000 + 2 * 10) + 4.0 * 1000 * 8);
    struct operator_work back =
        operator_cross_attention("c", PASS_BACKWARD, PRECISION_BF16, 1000, 10, 1e4, 8, 8, 128);
    assert_true(back.flop == 2.5 * cross.flop);
    assert_true(back.memory_bytes == 2.0 * 1024 * (4 * 1000 + 4 * 10) + 4.0 * 1000 * 8);
}

/* ---- memory ---- */

/* One rank, bf16, t video and x text tokens of width h. Attention: input, input of qkv, q k v,
 * output, branch (7 t h); cross: input, input of the query, query, output (4 t h) and 2 x h; MLP:
 * input, input of up, branch (3 t h) and 2 t f; statistics of three RMS norms and two
 * log-sum-exps. */
static void test_saved_bytes(void **state) {
    (void)state;
    struct arena *arena = arena_create();
    const struct model *m = fixture_model(arena, "t2v-s");
    struct batch_shape shape = clips_shape(m);
    const double t = (double)shape.video_tokens, x = (double)shape.language_tokens;
    const double h = 3584, f = 10240;
    for (int64_t tp = 1; tp <= 4; tp *= 2) {
        struct tensor_split split = { .tp = tp, .sequence_parallel = true, .cp = 1 };
        int64_t block = fixture_layer(m, LAYER_DIFFUSION_BLOCK);
        double want = 2 * (14 * t * h + 2 * t * f + 2 * x * h) + 3 * 4 * t + 2 * 4 * t * 28;
        double got = layer_saved_bytes(m, block, &shape, &split, RECOMPUTE_NONE);
        if (!near(got * (double)tp, want))
            fail_msg("tp %lld: %.0f bytes, want %.0f", (long long)tp, got, want / (double)tp);
        assert_true(layer_saved_bytes(m, block, &shape, &split, RECOMPUTE_FULL) ==
                    2 * t * h / (double)tp);
    }
    /* The text travels beside the video. */
    int64_t block = fixture_layer(m, LAYER_DIFFUSION_BLOCK);
    assert_true(layer_output_bytes(m, block, &shape) == 2 * (t + x) * h);
    assert_true(layer_output_bytes(m, fixture_layer(m, LAYER_TEXT_PROJECTION), &shape) ==
                2 * x * h);
    assert_true(layer_output_bytes(m, fixture_layer(m, LAYER_DIFFUSION_HEAD), &shape) == 0);
    arena_destroy(arena);
}

/* ---- gradients ---- */

static void test_gradients(void **state) {
    (void)state;
    struct arena *arena = arena_create();
    const struct model *all = fixture_model(arena, "t2v-s");
    const char *const language[] = { "language" }, *const decoder[] = { "diffusion_decoder" };
    struct error err = { 0 };
    const struct model *m = model_with_frozen(arena, all, language, 1, &err);
    assert_non_null(m);
    struct gradient_need need = model_gradient_need(m, fixture_layer(m, LAYER_LANGUAGE_BLOCK));
    assert_true(!need.input && !need.weight);
    need = model_gradient_need(m, fixture_layer(m, LAYER_TEXT_PROJECTION));
    assert_true(!need.input && need.weight);
    need = model_gradient_need(m, fixture_layer(m, LAYER_DIFFUSION_BLOCK));
    assert_true(need.input && need.weight);
    /* A frozen decoder still hands gradients to the text's encoder, but not to the latents. */
    m = model_with_frozen(arena, all, decoder, 1, &err);
    assert_non_null(m);
    need = model_gradient_need(m, fixture_layer(m, LAYER_DIFFUSION_BLOCK));
    assert_true(need.input && !need.weight);
    struct batch_shape shape = clips_shape(m);
    struct tensor_split split = { .tp = 4, .sequence_parallel = true, .cp = 1 };
    struct operator_list list = { 0 };
    layer_operators(m, fixture_layer(m, LAYER_LATENT_EMBEDDING), &shape, &split, PASS_SET_BACKWARD,
                    need, &list);
    assert_int_equal(list.count, 0);
    operator_list_free(&list);
    arena_destroy(arena);
}

/* ---- loading ---- */

#define DECODER                                                                                    \
    "\"diffusion_decoder\": { \"name\": \"d\", \"role\": \"diffusion_decoder\", "                  \
    "\"layer_count\": 2, \"hidden\": 64, \"ffn_hidden\": 128, \"heads\": 4, \"ffn\": \"gelu\", "   \
    "\"norm\": \"rms\", \"position\": \"none\", \"source\": \"test\", "

static void test_load_errors(void **state) {
    (void)state;
    static const struct {
        const char *text, *want;
    } cases[] = {
        { "\"vision\": \"internvit-300m-448px\", " DECODER
          "\"patch_size\": 2, \"image_size\": 64, \"latent_pixels\": 8, \"latent_frames\": 8, "
          "\"frames_per_second\": 16 }",
          "a diffusion decoder behind an encoder needs a language model between" },
        { "\"language\": \"llama3-8b\", " DECODER
          "\"patch_size\": 2, \"image_size\": 64, \"latent_pixels\": 8, \"latent_frames\": 8, "
          "\"frames_per_second\": 16, \"text_hidden\": 4096 }",
          "the language model \"Llama3-8B\" encodes the text: its width is known" },
        { "\"language\": { \"module\": \"llama3-8b\", \"text_hidden\": 8 }",
          "/language/text_hidden: belongs to a diffusion decoder" },
        { "\"language\": \"llama3-8b\", " DECODER "\"patch_size\": 2 }",
          "a diffusion decoder needs \"image_size\"" },
        { "\"language\": \"llama3-8b\", " DECODER
          "\"patch_size\": 2, \"image_size\": 100, \"latent_pixels\": 8, \"latent_frames\": 8, "
          "\"frames_per_second\": 16 }",
          "/diffusion_decoder/image_size: must be a multiple of latent_pixels x patch_size (16), "
          "got 100" },
        { "\"language\": \"llama3-8b\", \"diffusion_decoder\": \"qwen2-7b\"",
          "'Qwen2-7B' is a language module and cannot stand as \"diffusion_decoder\"" },
        { "\"language\": { \"module\": \"llama3-8b\", \"latent_frames\": 8 }",
          "/language/latent_frames: belongs to a diffusion decoder" },
        { "\"language\": { \"module\": \"llama3-8b\", \"image_height\": 64 }",
          "/language/image_height: belongs to a diffusion decoder" },
        { "\"language\": { \"module\": \"llama3-8b\", \"text_projection\": \"mlp\" }",
          "/language/text_projection: belongs to a diffusion decoder" },
        { "\"language\": { \"module\": \"llama3-8b\", \"qk_norm_kind\": \"rms\" }",
          "/language/qk_norm_kind: needs \"qk_norm\"" },
        { "\"language\": \"llama3-8b\", " DECODER
          "\"patch_size\": 2, \"image_size\": 64, \"image_height\": 40, \"latent_pixels\": 8, "
          "\"latent_frames\": 8, \"frames_per_second\": 16 }",
          "/diffusion_decoder/image_height: must be a multiple of latent_pixels x patch_size (16), "
          "got 40" },
    };
    struct arena *arena = arena_create();
    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
        char text[1024], path[256];
        snprintf(text, sizeof text, "{ \"name\": \"x\", \"source\": \"test\", %s }", cases[i].text);
        struct error err = { 0 };
        assert_null(fixture_text(arena, text, path, sizeof path, &err));
        if (strstr(err.text, cases[i].want) == NULL)
            fail_msg("case %zu: got %s\nwant %s", i, err.text, cases[i].want);
    }
    arena_destroy(arena);
}

/* Of unfused attention: rows of the video's own scores are as long as the video, those of cross
 * attention as the text. */
static void test_odd_scores(void **state) {
    (void)state;
    struct arena *arena = arena_create();
    const struct model *m = fixture_model(arena, "t2v-s");
    const struct {
        int64_t video, text;
        int want; /* of forward's two matmuls, of either attention */
    } cases[] = { { 1025, 512, 2 }, { 1024, 77, 2 }, { 1025, 77, 4 }, { 1024, 512, 0 } };
    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
        const double video = (double)cases[i].video, text = (double)cases[i].text;
        const struct batch_shape shape = { .samples = 2,
                                           .video_clips = 2,
                                           .video_tokens = 2 * cases[i].video,
                                           .video_square_sum = 2 * video * video,
                                           .cross_square_sum = 2 * video * text,
                                           .language_tokens = 2 * cases[i].text };
        struct tensor_split split = { .tp = 1, .cp = 1, .attention = ATTENTION_NAIVE };
        struct operator_list list = { 0 };
        layer_operators(m, fixture_layer(m, LAYER_DIFFUSION_BLOCK), &shape, &split,
                        PASS_SET_FORWARD, both, &list);
        int odd = 0;
        for (int64_t k = 0; k < list.count; k++)
            odd += list.operators[k].odd_batch;
        if (odd != cases[i].want) fail_msg("case %zu: %d, not %d", i, odd, cases[i].want);
        operator_list_free(&list);
    }
    arena_destroy(arena);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_clip_tokens),     cmocka_unit_test(test_parameters),
        cmocka_unit_test(test_sequences),       cmocka_unit_test(test_cross_casts),
        cmocka_unit_test(test_cross_operands),  cmocka_unit_test(test_no_text),
        cmocka_unit_test(test_conservation),    cmocka_unit_test(test_cross_attention_bytes),
        cmocka_unit_test(test_saved_bytes),     cmocka_unit_test(test_gradients),
        cmocka_unit_test(test_load_errors),     cmocka_unit_test(test_alone_parameters),
        cmocka_unit_test(test_alone_sequences), cmocka_unit_test(test_kinds_of_norms),
        cmocka_unit_test(test_alone_work),      cmocka_unit_test(test_odd_scores),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
