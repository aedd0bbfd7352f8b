/* test_layer_block.c - blocks whose attention joins video and text: parameters of published
 * checkpoints, operators and their order, work and memory against closed forms. */
#include "tests/unit/model/operators_fixture.h"

#include <math.h>

enum { H = 3072, F = 4 * H, VIDEO = 4096, TEXT = 512 };

/* Two images with a text each. */
static struct batch_shape images(void) {
    const double v = VIDEO, t = TEXT;
    return (struct batch_shape){ .samples = 2,
                                 .language_tokens = 2 * TEXT,
                                 .useful_language_tokens = 2 * TEXT,
                                 .language_square_sum = 2 * t * t,
                                 .video_clips = 2,
                                 .video_tokens = 2 * VIDEO,
                                 .video_square_sum = 2 * v * v,
                                 .cross_square_sum = 2 * (2 * v * t + t * t) };
}

static void test_parameters(void **state) {
    (void)state;
    struct arena *arena = arena_create();
    const struct model *flux = fixture_model(arena, "flux.1-dev");
    assert_int_equal(model_parameters(flux), 11901408320);
    assert_int_equal(model_parameters(fixture_model(arena, "hunyuanvideo")), 12821012544);
    const int64_t h = H, f = F;
    const int64_t joint = fixture_layer(flux, LAYER_JOINT_BLOCK),
                  single = fixture_layer(flux, LAYER_SINGLE_BLOCK);
    const int64_t block = 4 * h * h + 2 * h * f + 3 * h + h + f + h + 2 * 128;
    assert_int_equal(model_layer_parameters(flux, joint), 2 * (block + 6 * h * (h + 1)));
    assert_int_equal(model_layer_parameters(flux, single), block - h + 3 * h * (h + 1));
    /* Matrices and the modulation's columns are halved, norms and biases of rows are not. */
    assert_int_equal(layer_rank_parameters(flux, joint, 2),
                     2 * ((4 * h * h + 2 * h * f + 3 * h + f + 6 * h * (h + 1)) / 2 + 2 * h + 256));
    assert_int_equal(layer_rank_parameters(flux, single, 2),
                     (4 * h * h + 2 * h * f + 3 * h + f + 3 * h * (h + 1)) / 2 + h + 256);
    int64_t joint_count = 0, single_count = 0;
    for (int64_t i = 0; i < flux->layer_count; i++) {
        joint_count += flux->layers[i].kind == LAYER_JOINT_BLOCK;
        single_count += flux->layers[i].kind == LAYER_SINGLE_BLOCK;
    }
    assert_true(joint_count == 19 && single_count == 38);
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
    { "joint", LAYER_JOINT_BLOCK, 1, false, PASS_SET_FORWARD,
      "modulation f, text modulation f, attention norm f, qkv f, qk norm f, text attention norm f, "
      "text qkv f, text qk norm f, rotary f, joined streams f, attention f, proj f, "
      "attention residual f, text proj f, text attention residual f, mlp norm f, up f, "
      "activation f, down f, mlp residual f, text mlp norm f, text up f, text activation f, "
      "text down f, text mlp residual f" },
    { "joint, backward", LAYER_JOINT_BLOCK, 1, false, PASS_SET_BACKWARD,
      "text mlp residual b, text down i, text down w, text activation b, text up i, text up w, "
      "text mlp norm b, text mlp residual gradient b, mlp residual b, down i, down w, "
      "activation b, up i, up w, mlp norm b, mlp residual gradient b, text attention residual b, "
      "text proj i, text proj w, attention residual b, proj i, proj w, attention b, "
      "joined streams b, rotary b, text qk norm b, text qkv i, text qkv w, text attention norm b, "
      "text attention residual gradient b, qk norm b, qkv i, qkv w, attention norm b, "
      "attention residual gradient b, text modulation i, text modulation w, modulation i, "
      "modulation w" },
    { "single", LAYER_SINGLE_BLOCK, 1, false, PASS_SET_FORWARD,
      "modulation f, attention norm f, qkv and up f, qk norm f, rotary f, attention f, "
      "activation f, joined branches f, proj and down f, attention residual f" },
    { "single, SP", LAYER_SINGLE_BLOCK, 4, true, PASS_SET_FORWARD,
      "modulation f, modulation all-gather f, attention norm f, attention all-gather f, "
      "qkv and up f, qk norm f, rotary f, attention f, activation f, joined branches f, "
      "proj and down f, attention reduce-scatter f, attention residual f" },
    { "single, backward", LAYER_SINGLE_BLOCK, 1, false, PASS_SET_BACKWARD,
      "attention residual b, proj and down i, proj and down w, joined branches b, activation b, "
      "attention b, rotary b, qk norm b, qkv and up i, qkv and up w, attention norm b, "
      "attention residual gradient b, modulation i, modulation w" },
};

static void test_sequences(void **state) {
    (void)state;
    struct arena *arena = arena_create();
    const struct model *m = fixture_model(arena, "flux.1-dev");
    const struct batch_shape shape = images();
    for (size_t i = 0; i < sizeof sequence_cases / sizeof sequence_cases[0]; i++) {
        struct operator_list list = operators_of(
            m, sequence_cases[i].kind, &shape, split_of(sequence_cases[i].tp, sequence_cases[i].sp),
            sequence_cases[i].set, both);
        char text[4096];
        sequence_of(&list, text, sizeof text);
        if (strcmp(text, sequence_cases[i].want) != 0)
            fail_msg("%s:\n got %s\nwant %s", sequence_cases[i].what, text, sequence_cases[i].want);
        operator_list_free(&list);
    }
    arena_destroy(arena);
}

/* Under sequence parallelism each stream is gathered by itself, as large as it is. */
static void test_streams_are_gathered_apart(void **state) {
    (void)state;
    struct arena *arena = arena_create();
    const struct model *m = fixture_model(arena, "flux.1-dev");
    const struct batch_shape shape = images();
    struct operator_list list =
        operators_of(m, LAYER_JOINT_BLOCK, &shape, split_of(4, true), PASS_SET_FORWARD, both);
    expect_bytes("video", find_operator(&list, "mlp all-gather", PASS_FORWARD)->network_bytes,
                 2.0 * 2 * VIDEO * H);
    expect_bytes("text", find_operator(&list, "text mlp all-gather", PASS_FORWARD)->network_bytes,
                 2.0 * 2 * TEXT * H);
    expect_bytes("norm of a shard",
                 find_operator(&list, "text mlp norm", PASS_FORWARD)->memory_bytes,
                 2.0 * 2 * 2 * TEXT / 4 * H);
    operator_list_free(&list);
    arena_destroy(arena);
}

/* ---- work ---- */

static void expect_flop(const char *what, double got, double want) {
    if (fabs(got - want) > 1e-9 * want) fail_msg("%s: got %.17g, want %.17g", what, got, want);
}

static void test_work(void **state) {
    (void)state;
    struct arena *arena = arena_create();
    const struct model *m = fixture_model(arena, "flux.1-dev");
    const struct batch_shape shape = images();
    const double h = H, f = F, both_streams = VIDEO + TEXT, block = 4 * h * h + 2 * h * f;
    const double want = 2 * 2 * both_streams * block + 4 * 2 * both_streams * both_streams * h;
    const enum layer_kind kinds[] = { LAYER_JOINT_BLOCK, LAYER_SINGLE_BLOCK };
    for (int k = 0; k < 2; k++) {
        const int64_t layer = fixture_layer(m, kinds[k]);
        expect_flop("model", model_layer_flop(m, layer, &shape), want);
        expect_bytes("sent", layer_output_bytes(m, layer, &shape), 2 * 2 * both_streams * h);
        /* All of it by one rank, and a quarter of video, text and pairs by each of four, whatever
         * they exchange: queries, keys and values of all tokens, or keys and values. */
        for (int way = 0; way < 4; way++) {
            static const enum context_kind kinds_of_cp[] = { CONTEXT_ALL_TO_ALL, CONTEXT_ALL_TO_ALL,
                                                             CONTEXT_RING, CONTEXT_ALL_GATHER };
            struct tensor_split split = split_of(1, false);
            split.cp = way == 0 ? 1 : 4;
            split.context = kinds_of_cp[way];
            const double cp = (double)split.cp, own = 2 * both_streams / cp;
            struct operator_list list =
                operators_of(m, kinds[k], &shape, split, PASS_SET_FORWARD, both);
            double matmuls = 0, attention = 0, exchanged = 0;
            for (int64_t i = 0; i < list.count; i++) {
                const struct operator_work *work = &list.operators[i];
                if (work->kind == OPERATOR_MATMUL && work->m > 1) matmuls += work->flop;
                if (work->kind == OPERATOR_ATTENTION) attention += work->flop;
                if (work->communicator == COMMUNICATOR_CONTEXT) exchanged += work->network_bytes;
            }
            const double columns[] = { 0, 4 * h, 3 * 2 * h, 4 * 2 * h };
            expect_flop("matmuls", matmuls, 2 * own * block);
            expect_flop("attention", attention, 4 * 2 * both_streams * both_streams * h / cp);
            expect_bytes("exchanged", exchanged, 2 * own * columns[way]);
            operator_list_free(&list);
        }
    }
    arena_destroy(arena);
}

/* A batch without text is one stream; without a clip there is nothing to run. */
static void test_without_text(void **state) {
    (void)state;
    struct arena *arena = arena_create();
    const struct model *m = fixture_model(arena, "flux.1-dev");
    struct batch_shape shape = images();
    shape.language_tokens = 0;
    shape.cross_square_sum = 0;
    struct operator_list list =
        operators_of(m, LAYER_JOINT_BLOCK, &shape, split_of(1, false), PASS_SET_FORWARD, both);
    for (int64_t i = 0; i < list.count; i++)
        if (strncmp(list.operators[i].name, "text", 4) == 0 ||
            strcmp(list.operators[i].name, "joined streams") == 0)
            fail_msg("%s", list.operators[i].name);
    assert_int_equal(find_operator(&list, "qkv", PASS_FORWARD)->m, 2 * VIDEO);
    operator_list_free(&list);
    struct batch_shape words = images();
    words.video_tokens = 0;
    words.video_square_sum = words.cross_square_sum = 0;
    list = operators_of(m, LAYER_SINGLE_BLOCK, &words, split_of(1, false), PASS_SET_FORWARD, both);
    assert_int_equal(list.count, 0);
    operator_list_free(&list);
    arena_destroy(arena);
}

/* ---- memory ---- */

static void test_memory(void **state) {
    (void)state;
    struct arena *arena = arena_create();
    const struct model *m = fixture_model(arena, "flux.1-dev");
    const struct batch_shape shape = images();
    const struct tensor_split split = split_of(1, false);
    const int64_t joint = fixture_layer(m, LAYER_JOINT_BLOCK),
                  single = fixture_layer(m, LAYER_SINGLE_BLOCK);
    const double tokens = 2 * (VIDEO + TEXT), h = H, f = F;
    /* inputs of two norms and of qkv and up, both branches, queries and keys before their norm, q,
     * k, v, attention's result; up, activation */
    const double columns = 6 * h + 2 * h + 3 * h + h + 2 * f, statistics = 2 * 8;
    expect_bytes("joint", layer_saved_bytes(m, joint, &shape, &split, RECOMPUTE_NONE),
                 tokens * (2 * columns + statistics + 4 * 24));
    /* inputs of one norm and of both matmuls, one branch */
    const double beside = h + h + (h + f) + h + 2 * h + 3 * h + h + f;
    expect_bytes("single", layer_saved_bytes(m, single, &shape, &split, RECOMPUTE_NONE),
                 tokens * (2 * beside + 8 + 4 * 24));
    /* Unfused attention keeps its scores, and its result beside the activation alone. */
    struct tensor_split unfused = split;
    unfused.attention = ATTENTION_NAIVE;
    const double scores = 24.0 * 2 * (VIDEO + TEXT) * (VIDEO + TEXT);
    expect_bytes("unfused", layer_saved_bytes(m, single, &shape, &unfused, RECOMPUTE_NONE),
                 tokens * (2 * (beside - h) + 8) + 2 * scores);
    expect_bytes("joint input", layer_saved_bytes(m, joint, &shape, &split, RECOMPUTE_FULL),
                 2 * tokens * h);
    expect_bytes("single input", layer_saved_bytes(m, single, &shape, &split, RECOMPUTE_FULL),
                 2 * tokens * h);
    arena_destroy(arena);
}

/* ---- adapters ---- */

/* A single block has no projection of its own. */
static void test_adapters(void **state) {
    (void)state;
    struct arena *arena = arena_create();
    struct model m = *fixture_model(arena, "flux.1-dev");
    struct module *decoder = &m.modules[MODULE_DIFFUSION_DECODER];
    decoder->frozen = true;
    decoder->adapter_rank = 16;
    const unsigned attention =
        1u << ADAPTER_Q | 1u << ADAPTER_K | 1u << ADAPTER_V | 1u << ADAPTER_PROJ;
    decoder->adapter_targets[ADAPTER_MAIN] = decoder->adapter_targets[ADAPTER_TEXT] = attention;
    decoder->adapter_targets[ADAPTER_SINGLE] = attention;
    const int64_t joint = fixture_layer(&m, LAYER_JOINT_BLOCK),
                  single = fixture_layer(&m, LAYER_SINGLE_BLOCK);
    const int64_t one = 16 * (H + H);
    assert_int_equal(model_layer_trained_parameters(&m, joint), 2 * 4 * one);
    assert_int_equal(model_layer_trained_parameters(&m, single), 3 * one);
    decoder->adapter_targets[ADAPTER_MAIN] = decoder->adapter_targets[ADAPTER_SINGLE] =
        1u << ADAPTER_DOWN;
    decoder->adapter_targets[ADAPTER_TEXT] = 0;
    assert_int_equal(model_layer_trained_parameters(&m, joint), 16 * (F + H));
    assert_int_equal(model_layer_trained_parameters(&m, single), 16 * (F + H + H));
    const struct batch_shape shape = images();
    struct operator_list list = operators_of(&m, LAYER_SINGLE_BLOCK, &shape, split_of(1, false),
                                             PASS_SET_BACKWARD, model_gradient_need(&m, single));
    assert_int_equal(find_operator(&list, "down adapter A", PASS_WEIGHT_GRADIENT)->n, F + H);
    assert_null(find_operator(&list, "qkv and up", PASS_WEIGHT_GRADIENT));
    operator_list_free(&list);
    /* What A beside up reads is kept once, whether others read it or not. */
    const struct tensor_split split = split_of(1, false);
    decoder->adapter_targets[ADAPTER_SINGLE] = 1u << ADAPTER_Q;
    const double beside_q = layer_saved_bytes(&m, single, &shape, &split, RECOMPUTE_NONE);
    decoder->adapter_targets[ADAPTER_SINGLE] = 1u << ADAPTER_UP;
    const double beside_up = layer_saved_bytes(&m, single, &shape, &split, RECOMPUTE_NONE);
    decoder->adapter_targets[ADAPTER_SINGLE] = 1u << ADAPTER_Q | 1u << ADAPTER_UP;
    const double beside_both = layer_saved_bytes(&m, single, &shape, &split, RECOMPUTE_NONE);
    const double rank_columns = 2.0 * 2 * (VIDEO + TEXT) * 16;
    expect_bytes("beside up", beside_up, beside_q);
    expect_bytes("beside both", beside_both, beside_q + rank_columns);
    arena_destroy(arena);
}

/* ---- the text's refiner ---- */

/* Each rank has it whole, as the projection beside it: 309.2 M parameters. */
static void test_refiner(void **state) {
    (void)state;
    struct arena *arena = arena_create();
    const struct model *m = fixture_model(arena, "hunyuanvideo");
    const int64_t h = H, f = F, layer = fixture_layer(m, LAYER_TEXT_PROJECTION);
    const int64_t block = 4 * h * h + 2 * h * f + 3 * h + h + f + h + 2 * 2 * h + 2 * h * (h + 1);
    const int64_t embeddings = 257 * h + 4097 * h + 2 * (h + 1) * h;
    const int64_t want = 4097 * h + embeddings + 2 * block;
    assert_int_equal(layer_rank_parameters(m, layer, 1), want);
    assert_int_equal(layer_rank_parameters(m, layer, 8), want);
    const struct batch_shape shape = images();
    const struct tensor_split one = split_of(1, false), eight = split_of(8, false);
    assert_true(layer_saved_bytes(m, layer, &shape, &one, RECOMPUTE_NONE) ==
                layer_saved_bytes(m, layer, &shape, &eight, RECOMPUTE_NONE));
    struct operator_list list =
        operators_of(m, LAYER_TEXT_PROJECTION, &shape, eight, PASS_SET_FORWARD, both);
    double flop = 0;
    for (int64_t i = 0; i < list.count; i++)
        flop += list.operators[i].kind == OPERATOR_MATMUL ? list.operators[i].flop : 0;
    expect_flop("refiner", flop, model_layer_flop(m, layer, &shape));
    operator_list_free(&list);
    arena_destroy(arena);
}

/* ---- names, numbers and bounds ---- */

/* Joint blocks come first; a rule counts all of them through. */
static void test_numbers(void **state) {
    (void)state;
    struct arena *arena = arena_create();
    const struct model *m = fixture_model(arena, "flux.1-dev");
    int64_t next = 0;
    for (int64_t i = 0; i < m->layer_count; i++)
        if (layer_kind_is_block(m->layers[i].kind))
            assert_int_equal(m->layers[i].index_in_module, next++);
    assert_int_equal(next, 57);
    arena_destroy(arena);
}

/* Whatever a stack adds: each of the video's kernels has a twin of the text's, but for what both
 * share, and no list is longer than who prices it has room for. */
static void test_twins(void **state) {
    (void)state;
    static const char *const shared[] = { "rotary", "joined streams", "attention", "key-value ring",
                                          "attention merge" };
    struct arena *arena = arena_create();
    struct model m =
        *model_with_precision(arena, fixture_model(arena, "flux.1-dev"), PRECISION_FP8);
    const struct batch_shape shape = images();
    struct module *decoder = &m.modules[MODULE_DIFFUSION_DECODER];
    decoder->adapter_rank = 16;
    for (int stream = 0; stream < ADAPTER_STREAM_COUNT; stream++)
        decoder->adapter_targets[stream] = (1u << ADAPTER_TARGET_COUNT) - 1;
    struct tensor_split split = { .tp = 2,
                                  .sequence_parallel = true,
                                  .cp = 2,
                                  .context = CONTEXT_RING,
                                  .block.tensor_traffic = TENSOR_EACH,
                                  .block.casts = CASTS_DYNAMIC,
                                  .fp8_recipe = FP8_RECIPE_ROWWISE,
                                  .block.linear_gradients = LINEAR_GRADIENTS_APART,
                                  .block.modulation_apart = true };
    for (int set = 0; set < 2; set++) {
        struct operator_list list =
            operators_of(&m, LAYER_JOINT_BLOCK, &shape, split, (enum pass_set)set, both);
        int64_t own = 0, of_text = 0;
        for (int64_t i = 0; i < list.count; i++) {
            const char *name = list.operators[i].name;
            bool is_shared = operator_is_core_attention(&list.operators[i]);
            for (size_t k = 0; k < sizeof shared / sizeof shared[0]; k++)
                is_shared = is_shared || strncmp(name, shared[k], strlen(shared[k]) + 1) == 0;
            if (strcmp(name, "attention of other ranks' keys") == 0 || is_shared) continue;
            own += strncmp(name, "text ", 5) != 0;
            of_text += strncmp(name, "text ", 5) == 0;
        }
        if (own != of_text || own < 30)
            fail_msg("%lld and %lld", (long long)own, (long long)of_text);
        if (list.count >= 250) fail_msg("%lld operators", (long long)list.count);
        operator_list_free(&list);
    }
    arena_destroy(arena);
}

/* ---- what a stack keeps or runs again ---- */

/* Backward reads the branch for the gradient of its gate, so that what makes it runs again; a
 * frozen gate has none. */
static void test_needed(void **state) {
    (void)state;
    struct arena *arena = arena_create();
    struct model m = *fixture_model(arena, "flux.1-dev");
    const struct batch_shape shape = images();
    struct tensor_split split = split_of(1, false);
    split.block.recompute_style = RECOMPUTE_NEEDED;
    const int64_t single = fixture_layer(&m, LAYER_SINGLE_BLOCK);
    for (int frozen = 0; frozen < 2; frozen++) {
        const struct gradient_need need = { .input = true, .weight = frozen == 0 };
        struct operator_list again = { 0 };
        layer_recompute_operators(&m, single, &shape, &split, RECOMPUTE_FULL, need, &again);
        assert_true((find_operator(&again, "proj and down", PASS_FORWARD) != NULL) ==
                    (frozen == 0));
        assert_null(find_operator(&again, "attention residual", PASS_FORWARD));
        operator_list_free(&again);
    }
    arena_destroy(arena);
}

/* MaxText's style keeps what q, k and v come from, of a single block with up. */
static void test_projected(void **state) {
    (void)state;
    struct arena *arena = arena_create();
    const struct model *m = fixture_model(arena, "flux.1-dev");
    const struct batch_shape shape = images();
    struct tensor_split split = split_of(1, false);
    split.block.recompute_style = RECOMPUTE_PROJECTED;
    const int64_t single = fixture_layer(m, LAYER_SINGLE_BLOCK);
    struct operator_list again = { 0 };
    layer_recompute_operators(m, single, &shape, &split, RECOMPUTE_FULL, both, &again);
    assert_null(find_operator(&again, "qkv and up", PASS_FORWARD));
    operator_list_free(&again);
    expect_bytes("kept", layer_saved_bytes(m, single, &shape, &split, RECOMPUTE_FULL),
                 2.0 * 2 * (VIDEO + TEXT) * (H + 3 * H + F));
    arena_destroy(arena);
}

/* Products of their own copy what they read and reduce its gradient each: q, k, v and up of a single
 * block (apart, up reduces by itself what one norm gave both), q, k, v, then up of either stream. */
static void test_copied_inputs(void **state) {
    (void)state;
    struct arena *arena = arena_create();
    const struct model *m = fixture_model(arena, "flux.1-dev");
    const struct batch_shape shape = images();
    static const struct {
        enum layer_kind kind;
        bool apart;
        double copies, text_copies; /* of `tokens` and of the text's */
        int64_t reductions, kept;
    } cases[] = {
        { LAYER_SINGLE_BLOCK, false, 4, 0, 4, 3 },
        { LAYER_SINGLE_BLOCK, true, 4, 0, 4, 3 },
        { LAYER_JOINT_BLOCK, false, 4, 4, 8, 2 },
    };
    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
        struct tensor_split split = split_of(2, false);
        split.block.branches_apart = cases[i].apart;
        const int64_t layer = fixture_layer(m, cases[i].kind);
        const double kept = layer_saved_bytes(m, layer, &shape, &split, RECOMPUTE_NONE);
        split.block.keeps = KEEPS_COPIED_INPUTS;
        struct operator_list forward = operators_of(m, cases[i].kind, &shape, split,
                                                    PASS_SET_FORWARD, both),
                             backward = operators_of(m, cases[i].kind, &shape, split,
                                                     PASS_SET_BACKWARD, both);
        double copied = 0, text_copied = 0;
        int64_t reductions = 0;
        for (int64_t k = 0; k < forward.count; k++) {
            const struct operator_work *work = &forward.operators[k];
            if (strcmp(work->name, "input copies") == 0) copied += work->memory_bytes;
            if (strcmp(work->name, "text input copies") == 0) text_copied += work->memory_bytes;
        }
        for (int64_t k = 0; k < backward.count; k++)
            reductions += strstr(backward.operators[k].name, "attention all-reduce") != NULL ||
                          strstr(backward.operators[k].name, "mlp all-reduce") != NULL;
        /* a norm reads and writes as much as one copy */
        const struct operator_work *text_norm =
            find_operator(&forward, "text attention norm", PASS_FORWARD);
        const double own = find_operator(&forward, "attention norm", PASS_FORWARD)->memory_bytes,
                     text = text_norm != NULL ? text_norm->memory_bytes : 0;
        assert_true(fabs(copied - cases[i].copies * own) < 1);
        assert_true(fabs(text_copied - cases[i].text_copies * text) < 1);
        assert_int_equal(reductions, cases[i].reductions);
        const double more = layer_saved_bytes(m, layer, &shape, &split, RECOMPUTE_NONE) - kept;
        assert_true(fabs(more - (double)cases[i].kept * (own + text) / 2) < 1);
        operator_list_free(&forward);
        operator_list_free(&backward);
    }
    arena_destroy(arena);
}

/* Megatron-core's single block: four matmuls for two, two sums over ranks each way, and what adds
 * the branches; the same FLOP. */
static void test_branches_apart(void **state) {
    (void)state;
    struct arena *arena = arena_create();
    const struct model *m = fixture_model(arena, "flux.1-dev");
    const struct batch_shape shape = images();
    for (int set = 0; set < 2; set++) {
        double flop[2] = { 0, 0 };
        int64_t sums[2] = { 0, 0 };
        for (int apart = 0; apart < 2; apart++) {
            struct tensor_split split = split_of(4, false);
            split.block.branches_apart = apart == 1;
            struct operator_list list =
                operators_of(m, LAYER_SINGLE_BLOCK, &shape, split, (enum pass_set)set, both);
            for (int64_t i = 0; i < list.count; i++) {
                const struct operator_work *work = &list.operators[i];
                if (work->kind == OPERATOR_MATMUL) flop[apart] += work->flop;
                sums[apart] += work->kind == OPERATOR_ALL_REDUCE && work->network_bytes > 1e6;
            }
            assert_true((find_operator(&list, "branch sum", PASS_FORWARD) != NULL) ==
                        (apart == 1 && set == 0));
            operator_list_free(&list);
        }
        expect_flop("apart", flop[1], flop[0]);
        assert_true(sums[0] == 1 && sums[1] == 2);
    }
    arena_destroy(arena);
}

/* Automatic differentiation adds the gradients of q, k, v and up, and sums both biases. */
static void test_linear_gradients(void **state) {
    (void)state;
    struct arena *arena = arena_create();
    const struct model *m = fixture_model(arena, "flux.1-dev");
    const struct batch_shape shape = images();
    struct tensor_split split = split_of(1, false);
    split.block.linear_gradients = LINEAR_GRADIENTS_APART;
    struct operator_list list =
        operators_of(m, LAYER_SINGLE_BLOCK, &shape, split, PASS_SET_BACKWARD, both);
    expect_bytes("gradients", find_operator(&list, "linear gradients", PASS_BACKWARD)->memory_bytes,
                 2.0 * 2 * (VIDEO + TEXT) * (3 * H + F + 3 * 3 * H));
    operator_list_free(&list);
    arena_destroy(arena);
}

/* torchtitan's selective policy knows ordinary blocks alone: nothing is dropped, nothing runs
 * again. */
static void test_selective_operators(void **state) {
    (void)state;
    struct arena *arena = arena_create();
    const struct model *m = fixture_model(arena, "flux.1-dev");
    const struct batch_shape shape = images();
    struct tensor_split split = split_of(1, false);
    split.block.recompute_style = RECOMPUTE_OPERATORS;
    const enum layer_kind kinds[] = { LAYER_JOINT_BLOCK, LAYER_SINGLE_BLOCK };
    for (int k = 0; k < 2; k++) {
        const int64_t layer = fixture_layer(m, kinds[k]);
        struct operator_list list = { 0 };
        layer_recompute_operators(m, layer, &shape, &split, RECOMPUTE_SELECTIVE, both, &list);
        assert_int_equal(list.count, 0);
        operator_list_free(&list);
        const double kept = layer_saved_bytes(m, layer, &shape, &split, RECOMPUTE_NONE);
        assert_true(kept > 0 &&
                    layer_saved_bytes(m, layer, &shape, &split, RECOMPUTE_SELECTIVE) == kept);
    }
    arena_destroy(arena);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_parameters),
        cmocka_unit_test(test_sequences),
        cmocka_unit_test(test_streams_are_gathered_apart),
        cmocka_unit_test(test_work),
        cmocka_unit_test(test_without_text),
        cmocka_unit_test(test_memory),
        cmocka_unit_test(test_adapters),
        cmocka_unit_test(test_refiner),
        cmocka_unit_test(test_numbers),
        cmocka_unit_test(test_twins),
        cmocka_unit_test(test_needed),
        cmocka_unit_test(test_projected),
        cmocka_unit_test(test_branches_apart),
        cmocka_unit_test(test_copied_inputs),
        cmocka_unit_test(test_linear_gradients),
        cmocka_unit_test(test_selective_operators),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
