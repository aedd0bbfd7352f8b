/* test_layer_operators.c - what each kind of layer emits, and that no work is lost when it is
 * divided. */
#include "tests/unit/model/operators_fixture.h"

#include <math.h>

/* ---- sequences ---- */

static const struct {
    const char *what, *model;
    enum layer_kind kind;
    int64_t tp;
    bool sequence_parallel;
    enum pass_set set;
    struct gradient_need need;
    const char *want;
} sequence_cases[] = {
    { "language block, one rank",
      "llama3-8b",
      LAYER_LANGUAGE_BLOCK,
      1,
      true,
      PASS_SET_FORWARD,
      { true, true },
      "attention norm f, qkv f, rotary f, attention f, proj f, attention residual f, "
      "mlp norm f, up f, activation f, down f, mlp residual f" },
    { "language block, SP",
      "llama3-8b",
      LAYER_LANGUAGE_BLOCK,
      4,
      true,
      PASS_SET_FORWARD,
      { true, true },
      "attention norm f, attention all-gather f, qkv f, rotary f, attention f, proj f, "
      "attention reduce-scatter f, attention residual f, "
      "mlp norm f, mlp all-gather f, up f, activation f, down f, mlp reduce-scatter f, "
      "mlp residual f" },
    { "language block, TP without SP",
      "llama3-8b",
      LAYER_LANGUAGE_BLOCK,
      4,
      false,
      PASS_SET_FORWARD,
      { true, true },
      "attention norm f, qkv f, rotary f, attention f, proj f, attention all-reduce f, "
      "attention residual f, mlp norm f, up f, activation f, down f, mlp all-reduce f, "
      "mlp residual f" },
    { "language block, SP, backward",
      "llama3-8b",
      LAYER_LANGUAGE_BLOCK,
      4,
      true,
      PASS_SET_BACKWARD,
      { true, true },
      "mlp gradient all-gather b, down i, down w, activation b, mlp saved all-gather w, up i, "
      "mlp reduce-scatter i, up w, mlp norm b, mlp residual gradient b, "
      "attention gradient all-gather b, proj i, proj w, attention b, rotary b, "
      "attention saved all-gather w, qkv i, attention reduce-scatter i, qkv w, attention norm b, "
      "attention residual gradient b" },
    { "language block, TP without SP, backward",
      "llama3-8b",
      LAYER_LANGUAGE_BLOCK,
      4,
      false,
      PASS_SET_BACKWARD,
      { true, true },
      "down i, down w, activation b, up i, mlp all-reduce i, up w, mlp norm b, "
      "mlp residual gradient b, proj i, proj w, attention b, rotary b, qkv i, "
      "attention all-reduce i, qkv w, attention norm b, attention residual gradient b" },
    { "frozen language block, SP, backward",
      "llama3-8b",
      LAYER_LANGUAGE_BLOCK,
      4,
      true,
      PASS_SET_BACKWARD,
      { true, false },
      "mlp gradient all-gather b, down i, activation b, up i, mlp reduce-scatter i, mlp norm b, "
      "mlp residual gradient b, attention gradient all-gather b, proj i, attention b, rotary b, "
      "qkv i, attention reduce-scatter i, attention norm b, attention residual gradient b" },
    { "nothing to do",
      "llama3-8b",
      LAYER_LANGUAGE_BLOCK,
      4,
      true,
      PASS_SET_BACKWARD,
      { false, false },
      "" },
    { "InternViT block, SP",
      "internvl-6b-20b",
      LAYER_VISION_BLOCK,
      2,
      true,
      PASS_SET_FORWARD,
      { true, true },
      "attention norm f, attention all-gather f, qkv f, qk norm all-reduce f, qk norm f, "
      "attention f, proj f, attention reduce-scatter f, attention residual f, mlp norm f, "
      "mlp all-gather f, up f, activation f, down f, mlp reduce-scatter f, mlp residual f" },
    { "InternViT block, one rank, backward",
      "internvl-6b-20b",
      LAYER_VISION_BLOCK,
      1,
      true,
      PASS_SET_BACKWARD,
      { true, true },
      "mlp residual b, down i, down w, activation b, up i, up w, mlp norm b, "
      "mlp residual gradient b, attention residual b, proj i, proj w, attention b, qk norm b, "
      "qkv i, qkv w, attention norm b, attention residual gradient b" },
    { "patch embedding",
      "llava-1.6-7b",
      LAYER_PATCH_EMBEDDING,
      2,
      true,
      PASS_SET_FORWARD,
      { true, true },
      "patch unfold f, patch embedding f, patch position f, embedding norm f" },
    { "patch embedding, backward",
      "llava-1.6-7b",
      LAYER_PATCH_EMBEDDING,
      2,
      true,
      PASS_SET_BACKWARD,
      { false, true },
      "embedding norm b, patch position w, patch embedding w" },
    { "connector, SP",
      "internvl-6b-20b",
      LAYER_CONNECTOR,
      2,
      true,
      PASS_SET_FORWARD,
      { true, true },
      "connector all-gather f, pixel shuffle f, connector norm f, connector up f, "
      "connector activation f, connector down f" },
    { "connector, backward",
      "internvl-6b-20b",
      LAYER_CONNECTOR,
      2,
      true,
      PASS_SET_BACKWARD,
      { true, true },
      "connector down i, connector down w, connector activation b, connector up i, "
      "connector up w, connector norm b, pixel shuffle b, connector reduce-scatter i" },
    { "connector over a frozen encoder, backward",
      "internvl-6b-20b",
      LAYER_CONNECTOR,
      2,
      true,
      PASS_SET_BACKWARD,
      { false, true },
      "connector down i, connector down w, connector activation b, connector up i, "
      "connector up w, connector norm b" },
    { "single linear connector",
      "uneven-pp-1",
      LAYER_CONNECTOR,
      1,
      false,
      PASS_SET_FORWARD,
      { true, true },
      "connector linear f" },
    { "single linear connector over a frozen encoder",
      "uneven-pp-1",
      LAYER_CONNECTOR,
      1,
      false,
      PASS_SET_BACKWARD,
      { false, true },
      "connector linear w" },
    { "token embedding, SP",
      "internvl-6b-20b",
      LAYER_TOKEN_EMBEDDING,
      2,
      true,
      PASS_SET_FORWARD,
      { true, true },
      "vision rows all-gather f, token lookup f, vision rows f, token reduce-scatter f" },
    { "token embedding of a language model",
      "gpt-175b",
      LAYER_TOKEN_EMBEDDING,
      8,
      false,
      PASS_SET_FORWARD,
      { true, true },
      "token lookup f, token all-reduce f, token position f" },
    { "token embedding, SP, backward",
      "internvl-6b-20b",
      LAYER_TOKEN_EMBEDDING,
      2,
      true,
      PASS_SET_BACKWARD,
      { true, true },
      "token gradient all-gather b, token scatter w, token gradient sum w, vision rows i" },
    { "head, SP",
      "internvl-6b-20b",
      LAYER_HEAD,
      2,
      true,
      PASS_SET_FORWARD,
      { true, true },
      "final norm f, head all-gather f, logits f, loss maximum all-reduce f, loss f, "
      "loss target all-reduce f, loss sum all-reduce f" },
    { "head, SP, backward",
      "internvl-6b-20b",
      LAYER_HEAD,
      2,
      true,
      PASS_SET_BACKWARD,
      { true, true },
      "loss b, head saved all-gather w, logits i, head reduce-scatter i, logits w, final norm b" },
};

static void test_sequences(void **state) {
    (void)state;
    struct arena *arena = arena_create();
    char text[4096];
    for (size_t i = 0; i < sizeof sequence_cases / sizeof sequence_cases[0]; i++) {
        const struct model *m = fixture_model(arena, sequence_cases[i].model);
        struct batch_shape shape = fixture_group(m);
        struct operator_list list =
            operators_of(m, sequence_cases[i].kind, &shape,
                         split_of(sequence_cases[i].tp, sequence_cases[i].sequence_parallel),
                         sequence_cases[i].set, sequence_cases[i].need);
        sequence_of(&list, text, sizeof text);
        if (strcmp(text, sequence_cases[i].want) != 0)
            fail_msg("%s:\n got %s\nwant %s", sequence_cases[i].what, text, sequence_cases[i].want);
        operator_list_free(&list);
    }
    arena_destroy(arena);
}

/* Both branches read the block's input, and one collective sums both over TP ranks; each reduces the
 * gradient of its input. */
static void test_parallel_residual(void **state) {
    (void)state;
    struct arena *arena = arena_create();
    struct model m = *fixture_model(arena, "llama3-8b");
    const int64_t block = fixture_layer(&m, LAYER_LANGUAGE_BLOCK);
    static const struct {
        enum parallel_residual how;
        int64_t tp;
        bool sequence_parallel;
        enum pass_set set;
        const char *want;
    } cases[] = {
        { PARALLEL_RESIDUAL_TWO_NORMS, 2, false, PASS_SET_FORWARD,
          "attention norm f, qkv f, rotary f, attention f, proj f, attention residual f, "
          "mlp norm f, up f, activation f, down f, mlp all-reduce f, mlp residual f" },
        { PARALLEL_RESIDUAL_TWO_NORMS, 2, false, PASS_SET_BACKWARD,
          "down i, down w, activation b, up i, mlp all-reduce i, up w, mlp norm b, "
          "mlp residual gradient b, proj i, proj w, attention b, rotary b, qkv i, "
          "attention all-reduce i, qkv w, attention norm b, attention residual gradient b" },
        { PARALLEL_RESIDUAL_ONE_NORM, 1, false, PASS_SET_FORWARD,
          "attention norm f, qkv f, rotary f, attention f, proj f, attention residual f, up f, "
          "activation f, down f, mlp residual f" },
        { PARALLEL_RESIDUAL_ONE_NORM, 1, false, PASS_SET_BACKWARD,
          "down i, down w, activation b, up i, up w, mlp residual gradient b, proj i, proj w, "
          "attention b, rotary b, qkv i, qkv w, attention norm b, attention residual gradient b" },
        { PARALLEL_RESIDUAL_TWO_NORMS, 2, true, PASS_SET_FORWARD,
          "attention norm f, attention all-gather f, qkv f, rotary f, attention f, proj f, "
          "attention residual f, mlp norm f, mlp all-gather f, up f, activation f, down f, "
          "mlp reduce-scatter f, mlp residual f" },
        { PARALLEL_RESIDUAL_ONE_NORM, 2, true, PASS_SET_BACKWARD,
          "mlp gradient all-gather b, down i, down w, activation b, mlp saved all-gather w, up i, "
          "mlp reduce-scatter i, up w, mlp residual gradient b, proj i, proj w, attention b, "
          "rotary b, attention saved all-gather w, qkv i, attention reduce-scatter i, qkv w, "
          "attention norm b, attention residual gradient b" },
    };
    char text[1024];
    struct batch_shape shape = model_batch_shape(&m, 1, 0, 2048, 2048.0 * 2048);
    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
        m.modules[MODULE_LANGUAGE].parallel_residual = cases[i].how;
        struct operator_list list =
            operators_of(&m, LAYER_LANGUAGE_BLOCK, &shape,
                         split_of(cases[i].tp, cases[i].sequence_parallel), cases[i].set, both);
        sequence_of(&list, text, sizeof text);
        assert_string_equal(text, cases[i].want);
        /* what both ranks still have to sum is of all tokens */
        const struct operator_work *sum = find_operator(&list, "attention residual", PASS_FORWARD);
        if (sum != NULL) assert_true(sum->memory_bytes == 3.0 * 2048 * 4096 * 2);
        operator_list_free(&list);
    }
    /* One norm fewer, and its input and what it wrote are kept once: 4,096 columns in bf16 each, and
     * the fp32 statistic of an RMS norm. */
    const struct tensor_split split = split_of(1, false);
    int64_t parameters[PARALLEL_RESIDUAL_COUNT];
    double saved[PARALLEL_RESIDUAL_COUNT];
    for (int how = 0; how < PARALLEL_RESIDUAL_COUNT; how++) {
        m.modules[MODULE_LANGUAGE].parallel_residual = (enum parallel_residual)how;
        parameters[how] = model_layer_parameters(&m, block);
        saved[how] = layer_saved_bytes(&m, block, &shape, &split, RECOMPUTE_NONE);
    }
    const double tensor = 2048.0 * 4096 * 2;
    assert_int_equal(parameters[PARALLEL_RESIDUAL_TWO_NORMS], parameters[PARALLEL_RESIDUAL_NO]);
    assert_int_equal(parameters[PARALLEL_RESIDUAL_ONE_NORM],
                     parameters[PARALLEL_RESIDUAL_NO] - 4096);
    assert_true(saved[PARALLEL_RESIDUAL_NO] - saved[PARALLEL_RESIDUAL_TWO_NORMS] == tensor);
    assert_true(saved[PARALLEL_RESIDUAL_TWO_NORMS] - saved[PARALLEL_RESIDUAL_ONE_NORM] ==
                tensor + 2048.0 * 4);
    /* Frozen, with adapters beside all: what both read is kept once all the same. */
    struct module *language = &m.modules[MODULE_LANGUAGE];
    language->frozen = true;
    language->adapter_rank = 16;
    language->adapter_targets[ADAPTER_MAIN] = (1u << ADAPTER_TARGET_COUNT) - 1;
    for (int how = 0; how < PARALLEL_RESIDUAL_COUNT; how++) {
        language->parallel_residual = (enum parallel_residual)how;
        saved[how] = layer_saved_bytes(&m, block, &shape, &split, RECOMPUTE_NONE);
    }
    assert_true(saved[PARALLEL_RESIDUAL_TWO_NORMS] - saved[PARALLEL_RESIDUAL_ONE_NORM] ==
                tensor + 2048.0 * 4);
    arena_destroy(arena);
}

/* A stack prices norms, activations and rotary by what they compute. */
static void test_forms(void **state) {
    (void)state;
    static const struct {
        const char *model;
        enum layer_kind kind;
        const char *name;
        enum operator_form want;
    } cases[] = {
        { "llama3-8b", LAYER_LANGUAGE_BLOCK, "attention norm", FORM_RMS_NORM },
        { "llama3-8b", LAYER_LANGUAGE_BLOCK, "activation", FORM_SWIGLU },
        { "llama3-8b", LAYER_LANGUAGE_BLOCK, "rotary", FORM_ROTARY },
        { "llama3-8b", LAYER_LANGUAGE_BLOCK, "mlp residual", FORM_OTHER },
        { "llama3-8b", LAYER_HEAD, "final norm", FORM_RMS_NORM },
        { "llava-1.6-7b", LAYER_VISION_BLOCK, "mlp norm", FORM_LAYER_NORM },
        { "llava-1.6-7b", LAYER_VISION_BLOCK, "activation", FORM_QUICK_GELU },
        { "llava-1.6-7b", LAYER_CONNECTOR, "connector activation", FORM_GELU },
        { "mpt-7b", LAYER_LANGUAGE_BLOCK, "mlp norm", FORM_LAYER_NORM },
        { "mpt-7b", LAYER_LANGUAGE_BLOCK, "activation", FORM_GELU },
        { "nemotron-4-15b", LAYER_LANGUAGE_BLOCK, "activation", FORM_RELU2 },
    };
    struct arena *arena = arena_create();
    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
        const struct model *m = fixture_model(arena, cases[i].model);
        struct batch_shape shape = fixture_group(m);
        for (int set = PASS_SET_FORWARD; set <= PASS_SET_BACKWARD; set++) {
            struct operator_list list =
                operators_of(m, cases[i].kind, &shape, split_of(1, false), (enum pass_set)set,
                             (struct gradient_need){ true, true });
            const struct operator_work *work = find_operator(
                &list, cases[i].name, set == PASS_SET_FORWARD ? PASS_FORWARD : PASS_BACKWARD);
            if (set == PASS_SET_FORWARD) assert_non_null(work);
            if (work != NULL && work->form != cases[i].want)
                fail_msg("%s of %s: got %s, want %s", cases[i].name, cases[i].model,
                         operator_form_name(work->form), operator_form_name(cases[i].want));
            operator_list_free(&list);
        }
    }
    arena_destroy(arena);
}

/* Only the encoder's attention writes its scores; the language model's does where all does. */
static void test_unfused_encoder(void **state) {
    (void)state;
    struct arena *arena = arena_create();
    const struct model *m = fixture_model(arena, "llava-1.6-7b");
    struct batch_shape shape = fixture_group(m);
    struct tensor_split split = split_of(1, false);
    split.block.unfused_encoder = true;
    static const struct {
        enum layer_kind kind;
        bool unfused;
    } cases[] = { { LAYER_VISION_BLOCK, true }, { LAYER_LANGUAGE_BLOCK, false } };
    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
        struct operator_list list = operators_of(m, cases[i].kind, &shape, split, PASS_SET_FORWARD,
                                                 (struct gradient_need){ true, true });
        const struct operator_work *softmax =
            find_operator(&list, "attention softmax", PASS_FORWARD);
        assert_true((softmax != NULL) == cases[i].unfused);
        if (softmax != NULL) assert_int_equal(softmax->form, FORM_SOFTMAX);
        operator_list_free(&list);
    }
    split.attention = ATTENTION_NAIVE;
    struct operator_list list =
        operators_of(m, LAYER_LANGUAGE_BLOCK, &shape, split, PASS_SET_FORWARD,
                     (struct gradient_need){ true, true });
    assert_int_equal(find_operator(&list, "attention softmax", PASS_FORWARD)->form,
                     FORM_CAUSAL_SOFTMAX);
    operator_list_free(&list);
    arena_destroy(arena);
}

/* What autograd moves around the gradients of a block's linear layers, columns of an activation. */
static void test_linear_gradients(void **state) {
    (void)state;
    struct arena *arena = arena_create();
    const struct {
        const char *model; /* gpt-175b: biases and no gate; llama3-8b: a gate and no biases */
        enum stack_linear_gradients how;
        double attention, mlp; /* 0: no kernel */
    } cases[] = {
        { "llama3-8b", LINEAR_GRADIENTS_FUSED, 0, 0 },
        { "llama3-8b", LINEAR_GRADIENTS_SPLIT, 2 * (4096 + 2 * 1024), 0 },
        { "llama3-8b", LINEAR_GRADIENTS_APART, 2 * 3 * 4096, 3 * 4096 },
        { "gpt-175b", LINEAR_GRADIENTS_FUSED, 0, 0 },
        { "gpt-175b", LINEAR_GRADIENTS_SPLIT, 3 * 3 * 12288, 49152 },
        { "gpt-175b", LINEAR_GRADIENTS_APART, 3 * 12288 + 2 * 3 * 12288, 49152 },
    };
    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
        const struct model *m = fixture_model(arena, cases[i].model);
        struct batch_shape shape = fixture_group(m);
        struct tensor_split split = split_of(1, false);
        split.block.linear_gradients = cases[i].how;
        struct operator_list list =
            operators_of(m, LAYER_LANGUAGE_BLOCK, &shape, split, PASS_SET_BACKWARD,
                         (struct gradient_need){ true, true });
        double got[2] = { 0, 0 };
        int count = 0;
        for (int64_t k = 0; k < list.count; k++)
            if (strcmp(list.operators[k].name, "linear gradients") == 0) {
                assert_int_equal(list.operators[k].form, FORM_STATED);
                got[count++] = list.operators[k].memory_bytes / (2 * (double)shape.language_tokens);
            }
        /* the MLP's comes first in backward */
        const double mlp = cases[i].mlp > 0 ? got[0] : 0;
        const double attention = cases[i].mlp > 0 ? got[1] : got[0];
        if (count != (cases[i].attention > 0) + (cases[i].mlp > 0) ||
            !(fabs(mlp - cases[i].mlp) < 1e-6 && fabs(attention - cases[i].attention) < 1e-6))
            fail_msg("%s, %d: got %d kernels, %g and %g", cases[i].model, (int)cases[i].how, count,
                     attention, mlp);
        operator_list_free(&list);
    }
    arena_destroy(arena);
}

/* ---- conservation ---- */

static double flop_of(const struct operator_list *list, enum operator_kind kind) {
    double flop = 0;
    for (int64_t i = 0; i < list->count; i++)
        if (list->operators[i].kind == kind) flop += list->operators[i].flop;
    return flop;
}

static bool near(double a, double b) {
    return fabs(a - b) <= 1e-12 * (fabs(a) + fabs(b));
}

static const struct {
    const char *model;
    enum layer_kind kind;
    int64_t tp_limit; /* heads, width and rows divide evenly up to here */
} conservation_cases[] = {
    { "llama3-8b", LAYER_LANGUAGE_BLOCK, 8 },
    { "llama3-70b", LAYER_LANGUAGE_BLOCK, 8 },
    { "qwen1.5-110b", LAYER_LANGUAGE_BLOCK, 8 },
    { "internlm2-20b", LAYER_LANGUAGE_BLOCK, 8 },
    { "qwen2-7b", LAYER_LANGUAGE_BLOCK, 4 },
    { "gpt-175b", LAYER_LANGUAGE_BLOCK, 8 },
    { "internvl-6b-20b", LAYER_VISION_BLOCK, 1 },
    { "eva-1b-20b", LAYER_VISION_BLOCK, 8 },
    { "eva-4b-20b", LAYER_VISION_BLOCK, 8 },
    { "eva-8b-20b", LAYER_VISION_BLOCK, 8 },
    { "eva-18b-20b", LAYER_VISION_BLOCK, 8 },
    { "vlm-s", LAYER_VISION_BLOCK, 8 },
    { "vlm-l", LAYER_VISION_BLOCK, 8 },
    { "llava-1.6-13b", LAYER_LANGUAGE_BLOCK, 8 },
    { "uneven-pp-3", LAYER_VISION_BLOCK, 4 },
    { "internvl-6b-20b", LAYER_CONNECTOR, 8 },
    { "qwen2-vl-7b", LAYER_CONNECTOR, 8 },
    { "internvl-6b-70b", LAYER_HEAD, 8 },
    { "internvl-6b-20b", LAYER_PATCH_EMBEDDING, 8 },
    { "llama3-8b", LAYER_TOKEN_EMBEDDING, 8 },
};

static void test_conservation(void **state) {
    (void)state;
    struct arena *arena = arena_create();
    for (size_t i = 0; i < sizeof conservation_cases / sizeof conservation_cases[0]; i++) {
        const struct model *m = fixture_model(arena, conservation_cases[i].model);
        enum layer_kind kind = conservation_cases[i].kind;
        struct batch_shape shape = model_batch_shape(m, 3, 16, 4096, 3e6);
        double want = model_layer_flop(m, fixture_layer(m, kind), &shape);
        for (int64_t tp = 1; tp <= conservation_cases[i].tp_limit; tp *= 2) {
            struct operator_list forward =
                operators_of(m, kind, &shape, split_of(tp, true), PASS_SET_FORWARD, both);
            struct operator_list backward =
                operators_of(m, kind, &shape, split_of(tp, true), PASS_SET_BACKWARD, both);
            double matmul = flop_of(&forward, OPERATOR_MATMUL);
            double attention = flop_of(&forward, OPERATOR_ATTENTION);
            double got = (matmul + attention) * (double)tp;
            if (!near(got, want))
                fail_msg("%s %s tp %lld: got %.6g flop, want %.6g", m->name, layer_kind_name(kind),
                         (long long)tp, got, want);
            /* pixels have no gradient */
            double matmuls = kind == LAYER_PATCH_EMBEDDING ? 1 : 2;
            if (!near(flop_of(&backward, OPERATOR_MATMUL), matmuls * matmul) ||
                !near(flop_of(&backward, OPERATOR_ATTENTION), 2.5 * attention))
                fail_msg("%s %s tp %lld: backward %.6g + %.6g of %.6g + %.6g", m->name,
                         layer_kind_name(kind), (long long)tp, flop_of(&backward, OPERATOR_MATMUL),
                         flop_of(&backward, OPERATOR_ATTENTION), matmul, attention);
            operator_list_free(&forward);
            operator_list_free(&backward);
        }
    }
    arena_destroy(arena);
}

/* 25 heads on 2, 4, 8 ranks cost like 26, 28, 32. */
static void test_padded_heads(void **state) {
    (void)state;
    struct arena *arena = arena_create();
    const struct model *m = fixture_model(arena, "internvl-6b-20b");
    struct batch_shape shape = fixture_group(m);
    const double heads[] = { [1] = 25, [2] = 26, [4] = 28, [8] = 32 };
    for (int64_t tp = 1; tp <= 8; tp *= 2) {
        struct operator_list list =
            operators_of(m, LAYER_VISION_BLOCK, &shape, split_of(tp, true), PASS_SET_FORWARD, both);
        double want = heads[tp] * (8.0 * 9225 * 3200 * 128 + 4.0 * 9 * 1025 * 1025 * 128) +
                      4.0 * 9225 * 3200 * 12800;
        double got =
            (double)tp * (flop_of(&list, OPERATOR_MATMUL) + flop_of(&list, OPERATOR_ATTENTION));
        if (!near(got, want)) fail_msg("tp %lld: got %g, want %g", (long long)tp, got, want);
        operator_list_free(&list);
    }
    arena_destroy(arena);
}

static void test_frozen_has_no_weight_gradient(void **state) {
    (void)state;
    struct arena *arena = arena_create();
    const struct model *all = fixture_model(arena, "internvl-6b-20b");
    const char *const frozen[] = { "vision", "language" };
    struct error err = { 0 };
    const struct model *m = model_with_frozen(arena, all, frozen, 2, &err);
    struct batch_shape shape = fixture_group(m);
    struct tensor_split split = split_of(2, true);
    int64_t weight_operators = 0;
    for (int64_t l = 0; l < m->layer_count; l++) {
        struct operator_list list = { 0 };
        layer_operators(m, l, &shape, &split, PASS_SET_BACKWARD, model_gradient_need(m, l), &list);
        int64_t here = 0;
        for (int64_t i = 0; i < list.count; i++)
            here += list.operators[i].pass == PASS_WEIGHT_GRADIENT;
        if (m->layers[l].kind == LAYER_CONNECTOR)
            weight_operators = here;
        else if (here > 0)
            fail_msg("layer %lld, frozen: %lld weight gradients", (long long)l, (long long)here);
        if (m->layers[l].module_index == MODULE_VISION && list.count > 0)
            fail_msg("layer %lld: nothing below the connector runs backward", (long long)l);
        if (m->layers[l].module_index == MODULE_LANGUAGE && list.count == 0)
            fail_msg("layer %lld: passes the gradient to the connector", (long long)l);
        operator_list_free(&list);
    }
    assert_int_equal(weight_operators, 2);
    arena_destroy(arena);
}

/* ---- context parallelism, empty batches ---- */

static void test_context_parallel(void **state) {
    (void)state;
    struct arena *arena = arena_create();
    const struct model *m = fixture_model(arena, "internvl-6b-70b");
    struct batch_shape shape = model_batch_shape(m, 1, 8, 8192, 8192.0 * 8192.0);
    struct tensor_split split = { .tp = 2, .sequence_parallel = true, .cp = 4 };
    struct operator_list list =
        operators_of(m, LAYER_LANGUAGE_BLOCK, &shape, split, PASS_SET_FORWARD, both);
    assert_int_equal(find_operator(&list, "qkv", PASS_FORWARD)->m, 2048);
    assert_true(find_operator(&list, "attention", PASS_FORWARD)->square_sum == 8192.0 * 8192.0 / 4);
    const struct operator_work *w = find_operator(&list, "key-value all-gather", PASS_FORWARD);
    assert_int_equal(w->communicator, COMMUNICATOR_CONTEXT);
    expect_bytes("keys and values of all", w->network_bytes, 2.0 * 8192 * 2 * 4 * 128);
    operator_list_free(&list);
    list = operators_of(m, LAYER_LANGUAGE_BLOCK, &shape, split, PASS_SET_BACKWARD, both);
    assert_non_null(find_operator(&list, "key-value all-gather", PASS_BACKWARD));
    assert_non_null(find_operator(&list, "key-value reduce-scatter", PASS_BACKWARD));
    operator_list_free(&list);
    /* whole tiles go to the ranks of the encoder */
    list = operators_of(m, LAYER_VISION_BLOCK, &shape, split, PASS_SET_FORWARD, both);
    assert_null(find_operator(&list, "key-value all-gather", PASS_FORWARD));
    assert_int_equal(find_operator(&list, "qkv", PASS_FORWARD)->m, 2 * 1025);
    operator_list_free(&list);
    arena_destroy(arena);
}

static void test_no_images(void **state) {
    (void)state;
    struct arena *arena = arena_create();
    const struct model *m = fixture_model(arena, "vlm-s");
    struct batch_shape shape = model_batch_shape(m, 1, 0, 8192, 8192.0 * 8192.0);
    struct tensor_split split = split_of(4, true);
    for (int64_t l = 0; l < m->layer_count; l++) {
        struct operator_list list = { 0 };
        layer_operators(m, l, &shape, &split, PASS_SET_FORWARD, both, &list);
        layer_operators(m, l, &shape, &split, PASS_SET_BACKWARD, weight_only, &list);
        bool language = m->layers[l].module_index == MODULE_LANGUAGE;
        if ((list.count > 0) != language)
            fail_msg("layer %lld: %lld operators", (long long)l, (long long)list.count);
        if (find_operator(&list, "vision rows", PASS_FORWARD) != NULL)
            fail_msg("layer %lld merges rows that do not exist", (long long)l);
        operator_list_free(&list);
    }
    arena_destroy(arena);
}

/* ---- determinism ---- */

/* llama3-8b, 2048 tokens on one rank, in values of bf16: what each kernel of the forward makes. */
static void test_filled(void **state) {
    (void)state;
    struct arena *arena = arena_create();
    const struct model *m = fixture_model(arena, "llama3-8b");
    struct batch_shape shape = model_batch_shape(m, 1, 0, 2048, 2048.0 * 2048.0);
    struct tensor_split split = split_of(1, false);
    const double h = 4096, qkv = 6144, f = 14336;
    const double rotary = 2 * (4096.0 + 1024) / 3; /* moves queries and keys in and out */
    /* norms, attention, proj, down and residuals are h wide */
    const double forward = 7 * h + qkv + rotary + 2 * f + f;
    for (int kind = DETERMINISM_NONE; kind <= DETERMINISM_FILLED; kind++) {
        split.determinism = (enum determinism)kind;
        struct operator_list list =
            operators_of(m, LAYER_LANGUAGE_BLOCK, &shape, split, PASS_SET_FORWARD, both);
        const struct operator_work *fill = find_operator(&list, "fill", PASS_FORWARD);
        assert_true((fill != NULL) == (kind == DETERMINISM_FILLED));
        assert_true(find_operator(&list, "attention", PASS_FORWARD)->deterministic ==
                    (kind != DETERMINISM_NONE));
        if (fill != NULL && fabs(fill->memory_bytes / (2 * 2048 * forward) - 1) > 1e-12)
            fail_msg("%.1f values a token, want %.1f", fill->memory_bytes / (2 * 2048), forward);
        operator_list_free(&list);
        list = operators_of(m, LAYER_LANGUAGE_BLOCK, &shape, split, PASS_SET_BACKWARD, both);
        assert_true((find_operator(&list, "fill", PASS_BACKWARD) != NULL) ==
                    (kind == DETERMINISM_FILLED));
        operator_list_free(&list);
    }
    arena_destroy(arena);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_filled),
        cmocka_unit_test(test_sequences),
        cmocka_unit_test(test_parallel_residual),
        cmocka_unit_test(test_forms),
        cmocka_unit_test(test_unfused_encoder),
        cmocka_unit_test(test_linear_gradients),
        cmocka_unit_test(test_conservation),
        cmocka_unit_test(test_padded_heads),
        cmocka_unit_test(test_frozen_has_no_weight_gradient),
        cmocka_unit_test(test_context_parallel),
        cmocka_unit_test(test_no_images),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
