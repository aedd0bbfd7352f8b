/* test_layer_adapters.c - parameters, operators, gradients and memory of low-rank adapters against
 * closed forms. */
#include "sim/model/layer_adapters.h"
#include "tests/unit/model/model_fixture.h"

enum { HIDDEN = 4096, FFN = 14336, QUERY = 4096, KEY = 1024, BLOCKS = 32, TOKENS = 1000 };

static const struct model *adapted(struct arena *arena, int64_t rank, unsigned targets) {
    struct model *model = arena_new(arena, struct model);
    *model = *fixture_model(arena, "llama3-8b");
    model->modules[MODULE_LANGUAGE].frozen = true;
    model->modules[MODULE_LANGUAGE].adapter_rank = rank;
    model->modules[MODULE_LANGUAGE].adapter_targets[ADAPTER_MAIN] = targets;
    return model;
}

#define BIT(target) (1u << (target))
#define EACH                                                                                       \
    (BIT(ADAPTER_Q) | BIT(ADAPTER_K) | BIT(ADAPTER_V) | BIT(ADAPTER_PROJ) | BIT(ADAPTER_GATE) |    \
     BIT(ADAPTER_UP) | BIT(ADAPTER_DOWN))

/* r (in + out) of each layer. PEFT prints 41,943,040 for Llama 3 8B, rank 16, all seven, 3,407,872
 * for rank 8 beside q and v. */
static void test_parameters(void **state) {
    (void)state;
    static const struct {
        int64_t rank;
        unsigned targets;
        int64_t want; /* of the model */
    } cases[] = {
        { 16, EACH, 41943040 },
        { 8, BIT(ADAPTER_Q) | BIT(ADAPTER_V), 3407872 },
        { 8, BIT(ADAPTER_QKV), (int64_t)BLOCKS * 8 * (HIDDEN + QUERY + 2 * KEY) },
        { 4, BIT(ADAPTER_GATE_UP), (int64_t)BLOCKS * 4 * (HIDDEN + 2 * FFN) },
        { 0, EACH, 0 },
    };
    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
        struct arena *arena = arena_create();
        const struct model *m = adapted(arena, cases[i].rank, cases[i].targets);
        int64_t count = 0;
        for (int64_t k = 0; k < m->layer_count; k++)
            count += model_layer_trained_parameters(m, k);
        if (count != cases[i].want) fail_msg("case %zu: %lld", i, (long long)count);
        arena_destroy(arena);
    }
}

/* On 4 ranks: A's columns and B's output beside a column-parallel layer, A's input and B's output
 * beside a row-parallel one. */
static void test_rank_parameters(void **state) {
    (void)state;
    struct arena *arena = arena_create();
    const struct model *m = adapted(arena, 16, BIT(ADAPTER_Q) | BIT(ADAPTER_DOWN));
    const int64_t block = fixture_layer(m, LAYER_LANGUAGE_BLOCK);
    assert_int_equal(layer_rank_adapter_parameters(m, block, 4),
                     16 / 4 * HIDDEN + 16 * QUERY / 4 + 16 * (FFN / 4 + HIDDEN / 4));
    assert_int_equal(layer_rank_adapter_parameters(m, fixture_layer(m, LAYER_HEAD), 4), 0);
    arena_destroy(arena);
}

/* Frozen layers below adapters run forward alone, those above pass the gradient on. */
static void test_gradients(void **state) {
    (void)state;
    struct arena *arena = arena_create();
    const struct model *m = adapted(arena, 8, BIT(ADAPTER_QKV));
    const struct gradient_need embedding = model_gradient_need(m, 0),
                               block = model_gradient_need(m, 1),
                               head = model_gradient_need(m, m->layer_count - 1);
    assert_true(!embedding.input && !embedding.weight);
    assert_true(block.input && !block.weight && head.input && !head.weight);
    arena_destroy(arena);
}

static double matmul_flop(const struct operator_list *list, const char *name) {
    double flop = 0;
    for (int64_t i = 0; i < list->count; i++)
        if (list->operators[i].kind == OPERATOR_MATMUL &&
            (name == NULL || strcmp(list->operators[i].name, name) == 0))
            flop += 2.0 * (double)list->operators[i].m * (double)list->operators[i].n *
                    (double)list->operators[i].k;
    return flop;
}

static struct operator_list operators_split(const struct model *m, const struct tensor_split *split,
                                            enum pass_set set) {
    const struct batch_shape shape = { .samples = 1,
                                       .language_tokens = TOKENS,
                                       .language_square_sum = (double)TOKENS * TOKENS,
                                       .useful_language_tokens = TOKENS };
    const int64_t block = fixture_layer(m, LAYER_LANGUAGE_BLOCK);
    struct operator_list list = { 0 };
    layer_operators(m, block, &shape, split, set, model_gradient_need(m, block), &list);
    return list;
}

static struct operator_list operators_of(const struct model *m, int64_t tp, bool sp,
                                         enum pass_set set) {
    const struct tensor_split split = { .tp = tp, .sequence_parallel = sp, .cp = 1 };
    return operators_split(m, &split, set);
}

/* Frozen weights in fp32: each forward product casts its matrix, 6 bytes a value, A's and B's too;
 * the backward reads the copies. */
static void test_fp32_base(void **state) {
    (void)state;
    struct arena *arena = arena_create();
    struct model *m = arena_new(arena, struct model);
    *m = *adapted(arena, 16, BIT(ADAPTER_Q));
    m->modules[MODULE_LANGUAGE].fp32_base = true;
    const struct pass {
        enum pass_set set;
        double values;
    } passes[] = { { PASS_SET_FORWARD,
                     (double)HIDDEN * (QUERY + 2 * KEY + QUERY + 3 * FFN) + 16 * (HIDDEN + QUERY) },
                   { PASS_SET_BACKWARD, 0 } };
    for (size_t i = 0; i < 2; i++) {
        struct operator_list list = operators_of(m, 1, false, passes[i].set);
        double bytes = 0;
        for (int64_t k = 0; k < list.count; k++)
            if (strcmp(list.operators[k].name, "weight cast") == 0)
                bytes += list.operators[k].memory_bytes;
        assert_true(bytes == 6 * passes[i].values);
        operator_list_free(&list);
    }
    arena_destroy(arena);
}

static int64_t count_of(const struct operator_list *list, const char *name) {
    int64_t count = 0;
    for (int64_t i = 0; i < list->count; i++)
        count += strcmp(list->operators[i].name, name) == 0;
    return count;
}

/* That follow a collective of their layer. */
static int64_t count_beside(const struct operator_list *list, const char *name) {
    int64_t count = 0;
    for (int64_t i = 0; i < list->count; i++)
        count += list->operators[i].ranks_are_there &&
                 (name == NULL || strcmp(list->operators[i].name, name) == 0);
    return count;
}

static int64_t moved(const struct operator_list *list, const char *name) {
    double bytes = 0;
    for (int64_t i = 0; i < list->count; i++)
        if (strcmp(list->operators[i].name, name) == 0) bytes += list->operators[i].memory_bytes;
    return (int64_t)bytes;
}

/* Forward 2 t r (in + out), backward twice that; the layer's own backward is the input gradient
 * alone, as much as its forward. */
static void test_work(void **state) {
    (void)state;
    struct arena *arena = arena_create();
    const struct model *plain = adapted(arena, 0, 0), *m = adapted(arena, 16, EACH);
    const double adapters =
        2.0 * TOKENS * 16 *
        (5 * HIDDEN + QUERY + 2 * KEY + QUERY + HIDDEN + 2 * FFN + FFN + HIDDEN);
    struct operator_list forward = operators_of(m, 1, false, PASS_SET_FORWARD),
                         backward = operators_of(m, 1, false, PASS_SET_BACKWARD),
                         alone = operators_of(plain, 1, false, PASS_SET_FORWARD);
    const double layer = matmul_flop(&alone, NULL);
    assert_true(matmul_flop(&forward, NULL) == layer + adapters);
    assert_true(matmul_flop(&backward, NULL) == layer + 2 * adapters);
    assert_true(matmul_flop(&forward, "down adapter A") == 2.0 * TOKENS * 16 * FFN);
    operator_list_free(&forward);
    operator_list_free(&backward);
    operator_list_free(&alone);
    arena_destroy(arena);
}

/* The r columns travel once a target and pass; beside the two row-parallel layers the output too,
 * each way with sequence parallelism; without it the five other inputs' gradients. */
static void test_collectives(void **state) {
    (void)state;
    static const struct {
        bool sp;
        enum pass_set set;
        int64_t columns, outputs, inputs;
    } cases[] = {
        { true, PASS_SET_FORWARD, 7, 2, 0 },
        { true, PASS_SET_BACKWARD, 7, 2, 0 },
        { false, PASS_SET_FORWARD, 7, 2, 0 },
        { false, PASS_SET_BACKWARD, 7, 0, 5 },
    };
    struct arena *arena = arena_create();
    const struct model *m = adapted(arena, 16, EACH);
    for (size_t c = 0; c < sizeof cases / sizeof cases[0]; c++) {
        struct operator_list list = operators_of(m, 4, cases[c].sp, cases[c].set);
        const int64_t columns = count_of(&list, "adapter all-reduce") +
                                count_of(&list, "adapter all-gather"),
                      outputs = count_of(&list, "adapter output all-gather"),
                      inputs = count_of(&list, "adapter input all-reduce");
        if (columns != cases[c].columns || outputs != cases[c].outputs || inputs != cases[c].inputs)
            fail_msg("case %zu: %lld, %lld, %lld", c, (long long)columns, (long long)outputs,
                     (long long)inputs);
        operator_list_free(&list);
    }
    arena_destroy(arena);
}

/* Exchanged among the ranks: as often as gathered, a rank's share of the bytes, with its copies. What
 * travels for adapters stands beside the layer's own collectives. */
static void test_exchanged(void **state) {
    (void)state;
    struct arena *arena = arena_create();
    const struct model *m = adapted(arena, 16, EACH);
    static const enum pass_set sets[] = { PASS_SET_FORWARD, PASS_SET_BACKWARD };
    for (int c = 0; c < 4; c++) {
        const struct tensor_split split = {
            .tp = 4, .sequence_parallel = true, .cp = 1, .block.exchanges_adapters = c < 2
        };
        struct operator_list list = operators_split(m, &split, sets[c % 2]);
        const char *const name = c < 2 ? "adapter output all-to-all" : "adapter output all-gather";
        double bytes = 0;
        for (int64_t i = 0; i < list.count; i++)
            if (strcmp(list.operators[i].name, name) == 0) bytes = list.operators[i].network_bytes;
        assert_int_equal(count_of(&list, name), 2);
        assert_int_equal(count_of(&list, "adapter output copies"), c < 2 ? 2 : 0);
        assert_int_equal(count_beside(&list, NULL), 9);
        assert_true(bytes == 2.0 * TOKENS * HIDDEN / (c < 2 ? 4 : 1));
        operator_list_free(&list);
    }
    arena_destroy(arena);
}

/* Without sequence parallelism each rank has all rows, and nothing is exchanged. A row-parallel
 * layer's collective is in the forward, a column-parallel one's in the backward: there alone the
 * ranks have just met. */
static void test_beside_without_sequence_parallelism(void **state) {
    (void)state;
    struct arena *arena = arena_create();
    const struct model *m = adapted(arena, 16, EACH);
    for (int backward = 0; backward < 2; backward++) {
        const struct tensor_split split = { .tp = 4, .cp = 1, .block.exchanges_adapters = true };
        struct operator_list list =
            operators_split(m, &split, backward ? PASS_SET_BACKWARD : PASS_SET_FORWARD);
        assert_int_equal(count_of(&list, "adapter output all-to-all"), 0);
        /* of seven layers, attention's and the MLP's last are row-parallel */
        assert_int_equal(count_beside(&list, "adapter all-reduce") +
                             count_beside(&list, "adapter all-gather"),
                         backward ? 5 : 2);
        assert_int_equal(count_beside(&list, "adapter output all-gather"), backward ? 0 : 2);
        assert_int_equal(count_beside(&list, "adapter input all-reduce"), backward ? 5 : 0);
        operator_list_free(&list);
    }
    arena_destroy(arena);
}

/* DTensor's: whatever the sequence does, only the r columns travel, and a row-parallel layer's B
 * reads its share of them for every row of its output. */
static void test_reduced_with_layer(void **state) {
    (void)state;
    struct arena *arena = arena_create();
    const struct model *m = adapted(arena, 16, EACH);
    static const enum pass_set sets[] = { PASS_SET_FORWARD, PASS_SET_BACKWARD };
    for (int c = 0; c < 4; c++) {
        const struct tensor_split split = {
            .tp = 4, .sequence_parallel = c < 2, .cp = 1, .block.tensor_traffic = TENSOR_COPIED
        };
        struct operator_list list = operators_split(m, &split, sets[c % 2]);
        int64_t columns = 0, others = 0;
        for (int64_t i = 0; i < list.count; i++) {
            const char *name = list.operators[i].name;
            if (strncmp(name, "adapter", 7) != 0) continue;
            if (strcmp(name, "adapter all-reduce") == 0 || strcmp(name, "adapter all-gather") == 0)
                columns++;
            else
                others++;
        }
        if (columns != 7 || others != 0)
            fail_msg("case %d: %lld, %lld", c, (long long)columns, (long long)others);
        const int64_t passes = 1 + c % 2;
        assert_true(matmul_flop(&list, "down adapter B") ==
                    (double)passes * 2.0 * TOKENS * 16 / 4 * HIDDEN);
        operator_list_free(&list);
    }
    arena_destroy(arena);
}

/* Ahead of A, and behind its gradient, a value of the input moves: dropped out in 16 bits 2 read, 2
 * written and a byte of mask; to fp32 and back 6 each, and 9 to drop it out between; a compiler's
 * one kernel 4. A TP rank's share of a row-parallel layer's. */
static void test_inputs(void **state) {
    (void)state;
    struct arena *arena = arena_create();
    static const struct {
        bool dropout, casts, compiled;
        enum adapter_weights weights;
        int64_t tp, bytes;
    } cases[] = {
        { false, false, false, ADAPTER_WEIGHTS_USUAL, 1, 0 },
        { true, false, false, ADAPTER_WEIGHTS_USUAL, 1, 5 },
        { false, true, false, ADAPTER_WEIGHTS_USUAL, 1, 12 },
        { true, true, false, ADAPTER_WEIGHTS_USUAL, 1, 21 },
        { true, true, false, ADAPTER_WEIGHTS_BF16, 1, 5 },
        { true, false, false, ADAPTER_WEIGHTS_FP32, 1, 21 },
        { true, true, true, ADAPTER_WEIGHTS_USUAL, 1, 4 },
        { false, true, true, ADAPTER_WEIGHTS_USUAL, 1, 0 },
        { true, true, false, ADAPTER_WEIGHTS_USUAL, 4, 21 },
    };
    for (size_t c = 0; c < 2 * sizeof cases / sizeof cases[0]; c++) {
        struct model *m = arena_new(arena, struct model);
        *m = *adapted(arena, 16, BIT(ADAPTER_Q) | BIT(ADAPTER_DOWN));
        m->modules[MODULE_LANGUAGE].adapter_dropout = cases[c / 2].dropout;
        m->modules[MODULE_LANGUAGE].adapter_weights = cases[c / 2].weights;
        const int64_t tp = cases[c / 2].tp;
        const struct tensor_split split = { .tp = tp,
                                            .cp = 1,
                                            .block.compiled = cases[c / 2].compiled,
                                            .block.casts_adapter_inputs = cases[c / 2].casts };
        struct operator_list list =
            operators_split(m, &split, c % 2 ? PASS_SET_BACKWARD : PASS_SET_FORWARD);
        const int64_t got = moved(&list, "adapter input"),
                      want = cases[c / 2].bytes * TOKENS * (HIDDEN + FFN / tp);
        if (got != want) fail_msg("case %zu: %lld, not %lld", c, (long long)got, (long long)want);
        /* counted as they run: no stack's elementwise_traffic is of them */
        for (int64_t i = 0; i < list.count; i++)
            if (strstr(list.operators[i].name, "adapter") != NULL &&
                list.operators[i].kind == OPERATOR_ELEMENTWISE)
                assert_int_equal(list.operators[i].form, FORM_STATED);
        operator_list_free(&list);
    }
    arena_destroy(arena);
}

/* A compiler leaves a tensor of each sum, and of each factor in the backward. */
static void test_fused(void **state) {
    (void)state;
    struct arena *arena = arena_create();
    const struct model *m = adapted(arena, 16, BIT(ADAPTER_DOWN));
    static const struct {
        bool compiled;
        enum pass_set set;
        int64_t factor, sum; /* tensors */
    } cases[] = {
        { false, PASS_SET_FORWARD, 2, 3 },
        { false, PASS_SET_BACKWARD, 2, 3 },
        { true, PASS_SET_FORWARD, 0, 1 },
        { true, PASS_SET_BACKWARD, 1, 1 },
    };
    for (size_t c = 0; c < sizeof cases / sizeof cases[0]; c++) {
        const struct tensor_split split = { .tp = 1, .cp = 1, .block.compiled = cases[c].compiled };
        struct operator_list list = operators_split(m, &split, cases[c].set);
        const int64_t sum_width = cases[c].set == PASS_SET_FORWARD ? HIDDEN : FFN;
        assert_int_equal(moved(&list, "down adapter factor"),
                         2LL * TOKENS * cases[c].factor * HIDDEN);
        assert_int_equal(moved(&list, "down adapter sum"), 2 * TOKENS * cases[c].sum * sum_width);
        operator_list_free(&list);
    }
    arena_destroy(arena);
}

static double saved_by(const struct model *m, const struct tensor_split *split) {
    const struct batch_shape shape = { .samples = 1,
                                       .language_tokens = TOKENS,
                                       .language_square_sum = (double)TOKENS * TOKENS,
                                       .useful_language_tokens = TOKENS };
    return layer_saved_bytes(m, fixture_layer(m, LAYER_LANGUAGE_BLOCK), &shape, split,
                             RECOMPUTE_NONE);
}

static double saved(const struct model *m, int64_t tp) {
    const struct tensor_split split = { .tp = tp, .sequence_parallel = tp > 1, .cp = 1 };
    return saved_by(m, &split);
}

/* In bf16: A's input where the frozen layer keeps none (a flash attention keeps its output
 * itself), once for all that read it, and r columns a target. */
static void test_memory(void **state) {
    (void)state;
    struct arena *arena = arena_create();
    const double least = saved(adapted(arena, 16, BIT(ADAPTER_PROJ)), 1);
    static const struct {
        unsigned targets;
        int64_t columns; /* over those of the projection alone */
    } cases[] = {
        { BIT(ADAPTER_PROJ) | BIT(ADAPTER_Q), HIDDEN + 16 },
        { BIT(ADAPTER_PROJ) | BIT(ADAPTER_Q) | BIT(ADAPTER_V), HIDDEN + 2 * 16 },
        { BIT(ADAPTER_PROJ) | BIT(ADAPTER_DOWN), FFN + 16 },
        { EACH, 2 * HIDDEN + FFN + 6 * 16 },
    };
    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
        const double more = saved(adapted(arena, 16, cases[i].targets), 1) - least;
        if (more != 2.0 * TOKENS * (double)cases[i].columns) fail_msg("case %zu: %g", i, more);
    }
    /* under sequence parallelism the gathered input, and the down layer's own share */
    const double shared = saved(adapted(arena, 16, BIT(ADAPTER_PROJ)), 4),
                 gathered = saved(adapted(arena, 16, BIT(ADAPTER_PROJ) | BIT(ADAPTER_Q)), 4);
    assert_true(gathered - shared == 2.0 * TOKENS * (HIDDEN + 16));
    /* dropped out: an input of each adapter's own, and its mask */
    struct model *dropped = arena_new(arena, struct model);
    *dropped = *adapted(arena, 16, BIT(ADAPTER_Q) | BIT(ADAPTER_V));
    const double one = saved(dropped, 1);
    dropped->modules[MODULE_LANGUAGE].adapter_dropout = true;
    assert_true(saved(dropped, 1) - one == TOKENS * (double)HIDDEN * (2 + 2 * 1));
    /* a compiler's dropout is drawn anew from what both read */
    assert_true(saved_by(dropped, &(struct tensor_split){
                                      .tp = 1, .cp = 1, .block.compiled = true }) == one);
    /* cast: an input of each adapter's own, without a mask */
    dropped->modules[MODULE_LANGUAGE].adapter_dropout = false;
    dropped->modules[MODULE_LANGUAGE].adapter_weights = ADAPTER_WEIGHTS_FP32;
    assert_true(saved(dropped, 1) - one == TOKENS * (double)HIDDEN * 2);
    arena_destroy(arena);
}

/* ---- a diffusion decoder ---- */

/* Wan's LoRA: q, k, v, o of both attentions and the two layers of the feed-forward network. */
#define EACH_OF_WAN                                                                                \
    (BIT(ADAPTER_Q) | BIT(ADAPTER_K) | BIT(ADAPTER_V) | BIT(ADAPTER_PROJ) | BIT(ADAPTER_UP) |      \
     BIT(ADAPTER_DOWN))

static const struct model *adapted_decoder(struct arena *arena, int64_t rank, unsigned targets) {
    struct model *model = arena_new(arena, struct model);
    *model = *fixture_model(arena, "wan2.1-t2v-14b");
    struct module *decoder = &model->modules[MODULE_DIFFUSION_DECODER];
    decoder->frozen = true;
    decoder->adapter_rank = rank;
    decoder->adapter_targets[ADAPTER_MAIN] = targets;
    return model;
}

/* A clip of Wan's at 480P. */
static const struct batch_shape clip = { .samples = 1,
                                         .video_clips = 1,
                                         .video_tokens = 32760,
                                         .video_square_sum = 32760.0 * 32760,
                                         .cross_square_sum = 32760.0 * 512,
                                         .language_tokens = 512,
                                         .language_square_sum = 512.0 * 512,
                                         .useful_language_tokens = 512 };

static struct operator_list decoder_operators(const struct model *m, enum pass_set set) {
    const struct tensor_split split = { .tp = 1, .cp = 1 };
    const int64_t block = fixture_layer(m, LAYER_DIFFUSION_BLOCK);
    struct operator_list list = { 0 };
    layer_operators(m, block, &clip, &split, set, model_gradient_need(m, block), &list);
    return list;
}

/* Keys and values of the cross attention read the text; its gradient, which nothing in front reads, is
 * not made, neither by them nor by the layer. Megatron's one matrix of the self attention is two in
 * the cross attention. */
static void test_decoder(void **state) {
    (void)state;
    struct arena *arena = arena_create();
    enum { H = 5120, F = 13824, R = 32, VIDEO = 32760, TEXT = 512 };
    const struct model *m = adapted_decoder(arena, R, EACH_OF_WAN);
    int64_t count = 0;
    for (int64_t i = 0; i < m->layer_count; i++)
        count += model_layer_trained_parameters(m, i);
    assert_int_equal(count, 40LL * R * (8 * 2 * H + 2 * (H + F)));
    const struct model *joint = adapted_decoder(arena, R, BIT(ADAPTER_QKV));
    assert_int_equal(model_layer_trained_parameters(joint, 2),
                     R * (H + 3 * H) + R * (H + H) + R * (H + 2 * H));
    struct operator_list forward = decoder_operators(m, PASS_SET_FORWARD),
                         backward = decoder_operators(m, PASS_SET_BACKWARD);
    assert_true(matmul_flop(&forward, "cross k adapter A") == 2.0 * TEXT * R * H);
    assert_true(matmul_flop(&forward, "cross q adapter A") == 2.0 * VIDEO * R * H);
    assert_true(matmul_flop(&backward, "cross q adapter A") == 2 * 2.0 * VIDEO * R * H);
    assert_true(matmul_flop(&backward, "cross v adapter A") == 2.0 * TEXT * R * H);
    assert_true(matmul_flop(&backward, "cross v adapter B") == 2 * 2.0 * TEXT * R * H);
    assert_true(matmul_flop(&backward, "cross key-value") == 0);
    assert_true(matmul_flop(&backward, "cross query") == 2.0 * VIDEO * H * H);
    operator_list_free(&forward);
    operator_list_free(&backward);
    arena_destroy(arena);
}

/* Adapters of keys and values keep r columns a token of the text, all others of the video. */
static void test_decoder_memory(void **state) {
    (void)state;
    struct arena *arena = arena_create();
    const struct tensor_split split = { .tp = 1, .cp = 1 };
    double bytes[2];
    for (int with = 0; with < 2; with++) {
        const struct model *m =
            adapted_decoder(arena, 32, BIT(ADAPTER_PROJ) | (with == 1 ? BIT(ADAPTER_V) : 0));
        bytes[with] = layer_saved_bytes(m, fixture_layer(m, LAYER_DIFFUSION_BLOCK), &clip, &split,
                                        RECOMPUTE_NONE);
    }
    /* the self attention's input besides */
    assert_true(bytes[1] - bytes[0] == 2.0 * (32760 * (5120 + 32) + 512 * 32));
    arena_destroy(arena);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_parameters),
        cmocka_unit_test(test_rank_parameters),
        cmocka_unit_test(test_gradients),
        cmocka_unit_test(test_fp32_base),
        cmocka_unit_test(test_work),
        cmocka_unit_test(test_collectives),
        cmocka_unit_test(test_exchanged),
        cmocka_unit_test(test_beside_without_sequence_parallelism),
        cmocka_unit_test(test_reduced_with_layer),
        cmocka_unit_test(test_inputs),
        cmocka_unit_test(test_fused),
        cmocka_unit_test(test_memory),
        cmocka_unit_test(test_decoder),
        cmocka_unit_test(test_decoder_memory),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
