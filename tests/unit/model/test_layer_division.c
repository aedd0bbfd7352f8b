/* test_layer_division.c - what a stack runs in one kernel: unfused attention's softmax, dropout
 * with the residual's sum. */
#include "tests/unit/model/operators_fixture.h"

/* One kernel for multiples of four (2 bytes a score read and written; backward 3); casts, softmax
 * and mask in fp32 for other equal lengths: 12, 8 and 8 bytes, backward 12, 12 and 8. An encoder's
 * scores have no mask. Samples of several lengths are left to the kernel. */
static const struct {
    int64_t multiple, samples[2]; /* lengths */
    double forward, backward;
} text_cases[] = {
    { 4, { 1601, 1601 }, 28, 32 }, { 4, { 1600, 1600 }, 4, 6 }, { 1, { 1601, 1601 }, 4, 6 },
    { 0, { 1601, 1601 }, 4, 6 },   { 4, { 1600, 1601 }, 4, 6 },
};

static void expect_softmax(const struct model *m, enum layer_kind kind,
                           const struct batch_shape *shape, struct tensor_split split,
                           double forward, double backward, double scores) {
    struct operator_list list = operators_of(m, kind, shape, split, PASS_SET_FORWARD, both);
    expect_bytes("forward", find_operator(&list, "attention softmax", PASS_FORWARD)->memory_bytes,
                 forward * scores);
    operator_list_free(&list);
    list = operators_of(m, kind, shape, split, PASS_SET_BACKWARD, both);
    expect_bytes("backward", find_operator(&list, "attention softmax", PASS_BACKWARD)->memory_bytes,
                 backward * scores);
    operator_list_free(&list);
}

static void test_text_softmax(void **state) {
    (void)state;
    struct arena *arena = arena_create();
    const struct model *m = fixture_model(arena, "llama3-8b");
    for (size_t i = 0; i < sizeof text_cases / sizeof text_cases[0]; i++) {
        const double a = (double)text_cases[i].samples[0], b = (double)text_cases[i].samples[1];
        const double squares = a * a + b * b;
        struct batch_shape shape = model_batch_shape(m, 2, 0, (int64_t)(a + b), squares);
        struct tensor_split split = split_of(4, true);
        split.attention = ATTENTION_NAIVE;
        split.block.softmax_multiple = text_cases[i].multiple;
        expect_softmax(m, LAYER_LANGUAGE_BLOCK, &shape, split, text_cases[i].forward,
                       text_cases[i].backward, 8 * squares);
    }
    arena_destroy(arena);
}

/* Four bytes a score in fp32 besides, and with dropout no copy in bf16. */
static void test_saved_softmax(void **state) {
    (void)state;
    struct arena *arena = arena_create();
    const struct model *m = fixture_model(arena, "llama3-8b");
    struct batch_shape shape = model_batch_shape(m, 2, 0, 2 * 1601, 2 * 1601.0 * 1601);
    for (int dropout = 0; dropout < 2; dropout++) {
        struct tensor_split split = split_of(1, false);
        split.attention = ATTENTION_NAIVE;
        split.attention_dropout = dropout ? DROPOUT_ON : DROPOUT_OFF;
        const int64_t block = fixture_layer(m, LAYER_LANGUAGE_BLOCK);
        const double one = layer_saved_bytes(m, block, &shape, &split, RECOMPUTE_NONE);
        split.block.softmax_multiple = 4;
        expect_bytes("saved", layer_saved_bytes(m, block, &shape, &split, RECOMPUTE_NONE) - one,
                     (dropout ? 2.0 : 4.0) * 32 * 2 * 1601 * 1601);
    }
    arena_destroy(arena);
}

/* CLIP's 577 tokens a tile, 16 heads. */
static void test_encoder_softmax(void **state) {
    (void)state;
    struct arena *arena = arena_create();
    const struct model *m = fixture_model(arena, "llava-1.6-7b");
    struct batch_shape shape = model_batch_shape(m, 1, 3, 4096, 4096.0 * 4096);
    struct tensor_split split = split_of(1, false);
    split.block.unfused_encoder = true;
    split.block.softmax_multiple = 4;
    expect_softmax(m, LAYER_VISION_BLOCK, &shape, split, 20, 24, 16 * 3 * 577.0 * 577);
    arena_destroy(arena);
}

/* The six matmuls over the scores of CLIP's 577 tokens, unless they are padded; not those of a
 * model of text, which has a mask and samples of any length. */
static void test_odd_scores(void **state) {
    (void)state;
    struct arena *arena = arena_create();
    const struct model *m = fixture_model(arena, "llava-1.6-7b");
    const struct {
        enum layer_kind kind;
        int64_t text;
        bool unfused, pads;
        int want; /* in both passes */
    } cases[] = {
        { LAYER_VISION_BLOCK, 4096, true, false, 6 },
        { LAYER_VISION_BLOCK, 4096, true, true, 0 },
        { LAYER_VISION_BLOCK, 4096, false, false, 0 },
        { LAYER_LANGUAGE_BLOCK, 4097, true, false, 0 },
    };
    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
        const double length = (double)cases[i].text;
        struct batch_shape shape = model_batch_shape(m, 1, 3, cases[i].text, length * length);
        struct tensor_split split = split_of(1, false);
        split.attention = cases[i].kind == LAYER_LANGUAGE_BLOCK ? ATTENTION_NAIVE : ATTENTION_FLASH;
        split.block.unfused_encoder = cases[i].unfused;
        split.block.compiled = cases[i].pads;
        int odd = 0;
        for (int set = PASS_SET_FORWARD; set <= PASS_SET_BACKWARD; set++) {
            struct operator_list list =
                operators_of(m, cases[i].kind, &shape, split, (enum pass_set)set, both);
            for (int64_t j = 0; j < list.count; j++)
                odd += list.operators[j].odd_batch;
            operator_list_free(&list);
        }
        if (odd != cases[i].want) fail_msg("case %zu: %d, not %d", i, odd, cases[i].want);
    }
    arena_destroy(arena);
}

/* No causal mask: twice the FLOP of fused attention, and a softmax without a mask. */
static void test_bidirectional(void **state) {
    (void)state;
    struct arena *arena = arena_create();
    char path[256];
    struct error err = { 0 };
    const struct model *m = fixture_text(
        arena,
        "{\"name\": \"bert\", \"language\": {\"name\": \"bert\", \"role\": \"language\", "
        "\"layer_count\": 2, \"hidden\": 1024, \"ffn_hidden\": 4096, \"heads\": 16, \"ffn\": "
        "\"gelu\", \"norm\": \"layer\", \"position\": \"none\", \"vocabulary\": 1000, "
        "\"bidirectional\": true, \"source\": \"test\"}, \"source\": \"test\"}",
        path, sizeof path, &err);
    if (m == NULL) fail_msg("%s", err.text);
    struct batch_shape shape = model_batch_shape(m, 4, 0, 4 * 512, 4 * 512.0 * 512);
    struct tensor_split split = split_of(1, false);
    struct operator_list list =
        operators_of(m, LAYER_LANGUAGE_BLOCK, &shape, split, PASS_SET_FORWARD, both);
    const double flop = find_operator(&list, "attention", PASS_FORWARD)->flop;
    assert_true(flop == 4 * 4 * 512.0 * 512 * 1024);
    operator_list_free(&list);
    split.attention = ATTENTION_NAIVE;
    split.block.softmax_multiple = 3;
    expect_softmax(m, LAYER_LANGUAGE_BLOCK, &shape, split, 20, 24, 16 * 4 * 512.0 * 512);
    arena_destroy(arena);
}

/* The backward makes the activation from what the up matmul wrote, once more as the forward did, and
 * its output is not kept. */
static void test_remakes_activation(void **state) {
    (void)state;
    struct arena *arena = arena_create();
    const struct model *m = fixture_model(arena, "llama3-8b");
    const struct batch_shape shape = model_batch_shape(m, 1, 0, 4096, 4096.0 * 4096);
    double saved[2], again[2][2];
    for (int remakes = 0; remakes < 2; remakes++) {
        struct tensor_split split = split_of(1, false);
        split.block.remakes_activation = remakes;
        saved[remakes] = layer_saved_bytes(m, fixture_layer(m, LAYER_LANGUAGE_BLOCK), &shape,
                                           &split, RECOMPUTE_NONE);
        for (int backward = 0; backward < 2; backward++) {
            struct operator_list list =
                operators_of(m, LAYER_LANGUAGE_BLOCK, &shape, split,
                             backward ? PASS_SET_BACKWARD : PASS_SET_FORWARD, both);
            const enum operator_pass pass = backward ? PASS_BACKWARD : PASS_FORWARD;
            const struct operator_work *work = find_operator(&list, "activation again", pass);
            again[remakes][backward] = work == NULL ? 0 : work->memory_bytes;
            operator_list_free(&list);
        }
    }
    expect_bytes("kept", saved[0] - saved[1], 2.0 * 4096 * 14336);
    expect_bytes("forward", again[0][0] + again[1][0] + again[0][1], 0);
    expect_bytes("backward", again[1][1], 2.0 * 4096 * 3 * 14336);
    arena_destroy(arena);
}

/* Apart, dropout writes what the sum reads: two tensors more, forward alone, and none without
 * it. */
static void test_dropout_apart(void **state) {
    (void)state;
    struct arena *arena = arena_create();
    const struct model *m = fixture_model(arena, "llama3-8b");
    struct batch_shape shape = model_batch_shape(m, 1, 0, 4096, 4096.0 * 4096);
    for (int dropout = 0; dropout < 2; dropout++) {
        double bytes[2][2];
        for (int apart = 0; apart < 2; apart++) {
            struct tensor_split split = split_of(1, false);
            split.hidden_dropout = dropout ? DROPOUT_ON : DROPOUT_OFF;
            split.block.dropout_apart = apart;
            for (int backward = 0; backward < 2; backward++) {
                struct operator_list list =
                    operators_of(m, LAYER_LANGUAGE_BLOCK, &shape, split,
                                 backward ? PASS_SET_BACKWARD : PASS_SET_FORWARD, both);
                const struct operator_work *sum =
                    find_operator(&list, "mlp residual", backward ? PASS_BACKWARD : PASS_FORWARD);
                bytes[apart][backward] = sum == NULL ? 0 : sum->memory_bytes;
                operator_list_free(&list);
            }
        }
        expect_bytes("forward", bytes[1][0] - bytes[0][0], dropout ? 2 * 2.0 * 4096 * 4096 : 0);
        expect_bytes("backward", bytes[1][1] - bytes[0][1], 0);
    }
    arena_destroy(arena);
}

/* Apart, shift and scale are two kernels behind the norm and the gate is one before the sum; of the
 * branches that are modulated, not of cross attention, and of no other model. */
static void test_modulation_apart(void **state) {
    (void)state;
    static const struct {
        const char *name;
        bool backward;
        double fused, apart; /* tensors of the width */
    } cases[] = {
        { "attention modulation", false, 0, 4 }, { "mlp modulation", false, 0, 4 },
        { "attention residual", false, 3, 5 },   { "cross residual", false, 3, 3 },
        { "attention modulation", true, 0, 7 },  { "attention residual", true, 3, 6 },
        { "mlp residual", true, 3, 6 },
    };
    struct arena *arena = arena_create();
    const struct model *m = fixture_model(arena, "t2v-s");
    struct batch_shape shape = { .samples = 1,
                                 .video_clips = 1,
                                 .video_tokens = 2304,
                                 .video_square_sum = 2304.0 * 2304,
                                 .language_tokens = 64,
                                 .cross_square_sum = 2304.0 * 64 };
    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++)
        for (int apart = 0; apart < 2; apart++) {
            struct tensor_split split = split_of(1, false);
            split.block.modulation_apart = apart;
            struct operator_list list =
                operators_of(m, LAYER_DIFFUSION_BLOCK, &shape, split,
                             cases[i].backward ? PASS_SET_BACKWARD : PASS_SET_FORWARD, both);
            const struct operator_work *work = find_operator(
                &list, cases[i].name, cases[i].backward ? PASS_BACKWARD : PASS_FORWARD);
            expect_bytes(cases[i].name, work == NULL ? 0 : work->memory_bytes,
                         (apart ? cases[i].apart : cases[i].fused) * 2 * 2304 * 3584);
            operator_list_free(&list);
        }
    arena_destroy(arena);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_text_softmax),       cmocka_unit_test(test_saved_softmax),
        cmocka_unit_test(test_encoder_softmax),    cmocka_unit_test(test_odd_scores),
        cmocka_unit_test(test_bidirectional),      cmocka_unit_test(test_dropout_apart),
        cmocka_unit_test(test_remakes_activation), cmocka_unit_test(test_modulation_apart),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
