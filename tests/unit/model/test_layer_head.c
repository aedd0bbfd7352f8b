/* test_layer_head.c - what a head emits: odd vocabularies, and losses that run in chunks. */
#include "tests/unit/model/operators_fixture.h"

#include <math.h>

/* 92,553 columns are odd; 46,277 a rank too. Only a stack that does not pad them has them so, and
 * only in the head. */
static void test_odd_logits(void **state) {
    (void)state;
    struct arena *arena = arena_create();
    static const struct {
        const char *model;
        int64_t tp;
        bool odd_vocabulary, want;
    } cases[] = {
        { "internvl-6b-20b", 1, true, true },
        { "internvl-6b-20b", 2, true, true },
        { "internvl-6b-20b", 2, false, false },
        { "llama3-8b", 2, true, false }, /* 128,256 */
    };
    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
        const struct model *m = fixture_model(arena, cases[i].model);
        struct batch_shape shape = model_batch_shape(m, 1, 0, 2048, 2048.0 * 2048.0);
        struct tensor_split split = split_of(cases[i].tp, false);
        split.block.odd_vocabulary = cases[i].odd_vocabulary;
        static const enum layer_kind kinds[] = { LAYER_HEAD, LAYER_LANGUAGE_BLOCK };
        for (size_t k = 0; k < sizeof kinds / sizeof kinds[0]; k++) {
            int64_t matmuls = 0, odd = 0;
            for (int set = PASS_SET_FORWARD; set <= PASS_SET_BACKWARD; set++) {
                struct operator_list list =
                    operators_of(m, kinds[k], &shape, split, (enum pass_set)set, both);
                for (int64_t j = 0; j < list.count; j++) {
                    matmuls += list.operators[j].kind == OPERATOR_MATMUL;
                    odd += list.operators[j].odd_rows;
                }
                operator_list_free(&list);
            }
            assert_true(matmuls >= 3);
            assert_int_equal(odd, cases[i].want && kinds[k] == LAYER_HEAD ? matmuls : 0);
        }
    }
    arena_destroy(arena);
}

/* Liger's rows: llama3-8b's head reads 4,096 values a token for 128,256 logits, 32 times as many, so
 * 8,192 tokens go by 256 and 5,000 by 256 too (the power of two from 157 on), with 136 left. */
static void test_chunked_head(void **state) {
    (void)state;
    struct arena *arena = arena_create();
    static const struct {
        enum stack_chunked_head how;
        int64_t tokens, tp;
        const char *forward, *backward;
        int64_t rows, calls, left;
    } cases[] = {
        { CHUNKED_HEAD_NO, 8192, 1, "final norm f, logits f, loss f",
          "loss b, logits i, logits w, final norm b", 8192, 1, 0 },
        { CHUNKED_HEAD_ADDED, 8192, 1, "final norm f, logits f, loss f",
          "loss b, logits i, logits w, final norm b", 256, 32, 0 },
        { CHUNKED_HEAD_COPIED, 8192, 1, "final norm f, logits f, loss f",
          "loss b, logits i, logits w, weight gradient copy w, weight gradient sum w, final norm b",
          256, 32, 0 },
        { CHUNKED_HEAD_ADDED, 5000, 1, "final norm f, logits f, logits f, loss f",
          "loss b, logits i, logits w, logits i, logits w, final norm b", 256, 19, 136 },
        { CHUNKED_HEAD_COPIED, 1, 1, "final norm f, logits f, loss f",
          "loss b, logits i, logits w, weight gradient copy w, weight gradient sum w, final norm b",
          1, 1, 0 },
        /* of a rank's half of the vocabulary, 16 times its input */
        { CHUNKED_HEAD_ADDED, 8192, 2,
          "final norm f, logits f, loss maximum all-reduce f, loss f, loss target all-reduce f, "
          "loss sum all-reduce f",
          "loss b, logits i, logits w, head all-reduce b, final norm b", 512, 16, 0 },
    };
    const struct model *m = fixture_model(arena, "llama3-8b");
    char text[1024];
    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
        const double tokens = (double)cases[i].tokens;
        struct batch_shape shape = model_batch_shape(m, 1, 0, cases[i].tokens, tokens * tokens);
        struct tensor_split split = split_of(cases[i].tp, false);
        split.block.chunked_head = cases[i].how;
        double flop = 0;
        for (int set = PASS_SET_FORWARD; set <= PASS_SET_BACKWARD; set++) {
            struct operator_list list =
                operators_of(m, LAYER_HEAD, &shape, split, (enum pass_set)set, both);
            sequence_of(&list, text, sizeof text);
            assert_string_equal(text,
                                set == PASS_SET_FORWARD ? cases[i].forward : cases[i].backward);
            int64_t seen = 0;
            for (int64_t j = 0; j < list.count; j++) {
                const struct operator_work *work = &list.operators[j];
                if (work->kind != OPERATOR_MATMUL) continue;
                flop += work->flop * (double)operator_calls(work);
                const int64_t rows = work->pass == PASS_WEIGHT_GRADIENT ? work->k : work->m;
                const bool last = cases[i].left > 0 && seen >= (set == PASS_SET_FORWARD ? 1 : 2);
                assert_int_equal(rows, last ? cases[i].left : cases[i].rows);
                assert_int_equal(operator_calls(work), last ? 1 : cases[i].calls);
                seen++;
            }
            operator_list_free(&list);
        }
        const double whole = 6 * tokens * 4096 * 128256 / (double)cases[i].tp;
        assert_true(fabs(flop / whole - 1) < 1e-12);
    }
    /* addmm reads what it adds to; a copy in fp32 and the sum move 14 bytes a weight. */
    struct batch_shape shape = model_batch_shape(m, 1, 0, 8192, 8192.0 * 8192);
    struct tensor_split split = split_of(1, false);
    double bytes[3], weights = 4096.0 * 128256;
    for (int how = CHUNKED_HEAD_ADDED; how <= CHUNKED_HEAD_COPIED; how++) {
        split.block.chunked_head = (enum stack_chunked_head)how;
        struct operator_list list =
            operators_of(m, LAYER_HEAD, &shape, split, PASS_SET_BACKWARD, both);
        bytes[how] = 0;
        for (int64_t j = 0; j < list.count; j++)
            if (list.operators[j].pass == PASS_WEIGHT_GRADIENT)
                bytes[how] += list.operators[j].memory_bytes;
        operator_list_free(&list);
    }
    assert_true(fabs(bytes[CHUNKED_HEAD_COPIED] - bytes[CHUNKED_HEAD_ADDED] - 12 * weights) < 1);
    /* and stand beside each other: 2 and 4 bytes a weight */
    const int64_t head = fixture_layer(m, LAYER_HEAD);
    split.block.chunked_head = CHUNKED_HEAD_COPIED;
    const double copied = layer_workspace_bytes(m, head, &shape, &split);
    split.block.chunked_head = CHUNKED_HEAD_ADDED;
    assert_true(copied - layer_workspace_bytes(m, head, &shape, &split) == 6 * weights);
    arena_destroy(arena);
}

/* TRL's chunked loss: 1,000 tokens go by 256, with 232 left; the backward makes logits and loss
 * again, and autograd sums the gradients. */
static void test_remade_head(void **state) {
    (void)state;
    struct arena *arena = arena_create();
    const struct model *m = fixture_model(arena, "llama3-8b");
    struct batch_shape shape = model_batch_shape(m, 1, 0, 1000, 1000.0 * 1000);
    struct tensor_split split = split_of(1, false);
    split.block.chunked_head = CHUNKED_HEAD_REMADE;
    split.block.chunk = (struct stack_chunk){ .tokens = 256, .cast_bytes = 6, .sum_bytes = 12 };
    const double weights = 4096.0 * 128256;
    char text[1024];
    for (int fp32 = 0; fp32 < 2; fp32++) {
        split.block.chunk.fp32 = fp32;
        double flop = 0, cast = 0, sum = 0, loss = 0;
        for (int set = PASS_SET_FORWARD; set <= PASS_SET_BACKWARD; set++) {
            struct operator_list list =
                operators_of(m, LAYER_HEAD, &shape, split, (enum pass_set)set, both);
            sequence_of(&list, text, sizeof text);
            assert_string_equal(
                text, set == PASS_SET_FORWARD
                          ? "final norm f, weight cast f, logits f, weight cast f, logits f, loss f"
                          : "loss f, loss b, weight cast f, logits f, logits i, logits w, "
                            "weight gradient sum w, weight cast f, logits f, logits i, logits w, "
                            "weight gradient sum w, final norm b");
            for (int64_t j = 0; j < list.count; j++) {
                const struct operator_work *work = &list.operators[j];
                const double calls = (double)operator_calls(work);
                if (work->kind == OPERATOR_MATMUL) {
                    flop += work->flop * calls;
                    assert_int_equal(work->precision, fp32 ? PRECISION_FP32 : PRECISION_BF16);
                }
                if (strcmp(work->name, "weight cast") == 0) cast += work->memory_bytes * calls;
                if (strcmp(work->name, "weight gradient sum") == 0)
                    sum += work->memory_bytes * calls;
                if (work->kind == OPERATOR_LOSS) loss += work->memory_bytes;
            }
            operator_list_free(&list);
        }
        assert_true(fabs(flop / (8 * 1000 * weights) - 1) < 1e-12);
        assert_true(cast == 2 * 4 * 6 * weights && sum == 4 * 12 * weights);
        assert_true(loss == (26 + 26 + 14) * 1000.0 * 128256);
    }
    /* Beside the weight: a chunk's gradient in 2 bytes, or in 4 beside an fp32 copy. */
    const int64_t head = fixture_layer(m, LAYER_HEAD);
    split.block.chunk.fp32 = false;
    const double bf16 = layer_workspace_bytes(m, head, &shape, &split);
    split.block.chunk.fp32 = true;
    assert_true(layer_workspace_bytes(m, head, &shape, &split) - bf16 == 6 * weights);
    split.block.chunked_head = CHUNKED_HEAD_ADDED;
    assert_true(bf16 - layer_workspace_bytes(m, head, &shape, &split) == 2 * weights);
    struct operator_list plain =
        operators_of(m, LAYER_HEAD, &shape, split, PASS_SET_BACKWARD, both);
    sequence_of(&plain, text, sizeof text);
    assert_string_equal(text, "loss b, logits i, logits w, logits i, logits w, final norm b");
    operator_list_free(&plain);
    arena_destroy(arena);
}

static void remade_sequence(const struct model *m, const struct tensor_split *split,
                            struct gradient_need need, char *text, size_t size) {
    struct batch_shape shape = model_batch_shape(m, 1, 0, 256, 256.0 * 256);
    struct operator_list list =
        operators_of(m, LAYER_HEAD, &shape, *split, PASS_SET_BACKWARD, need);
    sequence_of(&list, text, size);
    operator_list_free(&list);
}

/* A frozen head sums no gradient, and autocast leaves what is in 16 bits; fp32 casts nothing. */
static void test_remade_casts(void **state) {
    (void)state;
    struct arena *arena = arena_create();
    struct model *m = (struct model *)fixture_model(arena, "llama3-8b");
    struct batch_shape shape = model_batch_shape(m, 1, 0, 1000, 1000.0 * 1000);
    struct tensor_split split = split_of(1, false);
    split.block.chunked_head = CHUNKED_HEAD_REMADE;
    split.block.chunk = (struct stack_chunk){ .cast_bytes = 6, .sum_bytes = 18, .autocasts = true };
    static const struct gradient_need input = { .input = true };
    char text[1024];
    remade_sequence(m, &split, both, text, sizeof text);
    assert_non_null(
        strstr(text, "weight cast f, logits f, logits i, logits w, weight gradient sum w"));
    remade_sequence(m, &split, input, text, sizeof text);
    assert_non_null(strstr(text, "logits f, logits i"));
    assert_null(strstr(text, "weight"));
    split.block.chunk.autocasts = false;
    remade_sequence(m, &split, input, text, sizeof text);
    assert_non_null(strstr(text, "weight cast f, logits f, logits i"));
    /* By Liger's rule where the stack states no tokens. */
    const int64_t head = fixture_layer(m, LAYER_HEAD);
    const struct head_rows rows = layer_head_rows(m, head, &shape, &split);
    assert_int_equal(rows.all, 1000);
    assert_int_equal(rows.chunk, 32);
    split.block.chunk.fp32 = true;
    m->modules[MODULE_LANGUAGE].precision = PRECISION_FP32;
    remade_sequence(m, &split, both, text, sizeof text);
    assert_null(strstr(text, "weight cast"));
    assert_non_null(strstr(text, "weight gradient sum"));
    const double single = layer_workspace_bytes(m, head, &shape, &split);
    split.block.chunk.fp32 = false;
    assert_true(layer_workspace_bytes(m, head, &shape, &split) == single);
    arena_destroy(arena);
}

/* Liger's chunks under autocast: a frozen head in fp32 is cast for the logits and again for the
 * gradient of what they read. */
static void test_cast_chunks(void **state) {
    (void)state;
    struct arena *arena = arena_create();
    struct model *m = (struct model *)fixture_model(arena, "llama3-8b");
    struct tensor_split split = split_of(1, false);
    static const struct gradient_need input = { .input = true };
    char text[1024];
    for (int how = CHUNKED_HEAD_ADDED; how <= CHUNKED_HEAD_COPIED; how++) {
        split.block.chunked_head = (enum stack_chunked_head)how;
        m->modules[MODULE_LANGUAGE].fp32_base = true;
        remade_sequence(m, &split, input, text, sizeof text);
        assert_string_equal(text, "loss b, weight cast i, logits i, final norm b");
        m->modules[MODULE_LANGUAGE].fp32_base = false;
        remade_sequence(m, &split, input, text, sizeof text);
        assert_string_equal(text, "loss b, logits i, final norm b");
    }
    arena_destroy(arena);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_odd_logits),  cmocka_unit_test(test_chunked_head),
        cmocka_unit_test(test_remade_head), cmocka_unit_test(test_remade_casts),
        cmocka_unit_test(test_cast_chunks),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
