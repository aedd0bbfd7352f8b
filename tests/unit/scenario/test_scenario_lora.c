/* test_scenario_lora.c - section `lora`: what it makes of the language model, and its mistakes. */
#include "tests/unit/scenario/scenario_fixture.h"

#define MODEL_WITH(lora) "\"model\": { \"name\": \"internvl-6b-20b\", \"lora\": " lora " }"

enum {
    ALL_LINEAR = 1u << ADAPTER_Q | 1u << ADAPTER_K | 1u << ADAPTER_V | 1u << ADAPTER_PROJ |
                 1u << ADAPTER_GATE | 1u << ADAPTER_UP | 1u << ADAPTER_DOWN
};

static void test_values(void **state) {
    (void)state;
    static const struct {
        const char *model;
        int64_t rank;
        unsigned targets;
    } cases[] = {
        { MODEL_WITH("{}"), 8, 1u << ADAPTER_QKV },
        { MODEL_WITH("{ \"rank\": 32, \"targets\": [\"q_proj\", \"o_proj\", \"down_proj\"] }"), 32,
          1u << ADAPTER_Q | 1u << ADAPTER_PROJ | 1u << ADAPTER_DOWN },
        { MODEL_WITH("{ \"targets\": [\"linear_proj\", \"linear_fc1\", \"linear_fc2\"] }"), 8,
          1u << ADAPTER_PROJ | 1u << ADAPTER_GATE_UP | 1u << ADAPTER_DOWN },
        { MODEL_WITH("{ \"rank\": 16, \"targets\": \"all-linear\" }"), 16, ALL_LINEAR },
        { MODEL_WITH("{ \"targets\": [\"all-linear\"] }"), 8, ALL_LINEAR },
        { "\"model\": { \"name\": \"gpt-22b\", \"lora\": { \"targets\": \"all-linear\" } }", 8,
          ALL_LINEAR & ~(1u << ADAPTER_GATE) },
    };
    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
        struct scenario *s = load_valid(MODEL, cases[i].model, NULL);
        const struct module *m = &s->model->modules[MODULE_LANGUAGE];
        if (!m->frozen || m->adapter_rank != cases[i].rank ||
            m->adapter_targets[ADAPTER_MAIN] != cases[i].targets)
            fail_msg("case %zu: rank %lld, targets %x", i, (long long)m->adapter_rank,
                     m->adapter_targets[ADAPTER_MAIN]);
        bool said = false;
        for (int64_t k = 0; s->assumptions[k] != NULL; k++)
            said = said || strncmp(s->assumptions[k], "lora: ", 6) == 0;
        assert_true(said);
        /* the encoder is trained, as without the section */
        const struct module *vision = &s->model->modules[MODULE_VISION];
        assert_true(vision->layer_count == 0 || !vision->frozen);
        scenario_destroy(s);
    }
    struct scenario *s = load_valid(MODEL, NULL, NULL);
    assert_int_equal(s->model->modules[MODULE_LANGUAGE].adapter_rank, 0);
    scenario_destroy(s);
}

/* Diffusers names a joint block's video, its text and single blocks apart; the default of its
 * script for Flux (train_dreambooth_lora_flux.py) at rank 16 is 44.8 M. */
static void test_streams(void **state) {
    (void)state;
    enum { DEFAULT = 1u << ADAPTER_Q | 1u << ADAPTER_K | 1u << ADAPTER_V };
    static const struct {
        const char *targets;
        unsigned want[ADAPTER_STREAM_COUNT];
        int64_t parameters;
    } cases[] = {
        { "[\"to_q\"]", { 1u << ADAPTER_Q, 0, 1u << ADAPTER_Q }, 57 * 4 * 2 * 3072 },
        { "[\"attn.add_k_proj\", \"to_add_out\"]",
          { 0, 1u << ADAPTER_K | 1u << ADAPTER_PROJ, 0 },
          19 * 2 * 4 * 2 * 3072 },
        { "[\"proj_out\"]", { 0, 0, 1u << ADAPTER_DOWN }, 38 * 4 * (15360 + 3072) },
        { "[\"ff.net.2\"]", { 1u << ADAPTER_DOWN, 0, 0 }, 19 * 4 * (12288 + 3072) },
        { "[\"linear_proj\"]",
          { 1u << ADAPTER_PROJ, 1u << ADAPTER_PROJ, 1u << ADAPTER_PROJ },
          19 * 2 * 4 * 2 * 3072 },
        { "[\"attn.to_k\", \"attn.to_q\", \"attn.to_v\", \"attn.to_out.0\", \"attn.add_k_proj\", "
          "\"attn.add_q_proj\", \"attn.add_v_proj\", \"attn.to_add_out\", \"ff.net.0.proj\", "
          "\"ff.net.2\", \"ff_context.net.0.proj\", \"ff_context.net.2\"]",
          { DEFAULT | 1u << ADAPTER_PROJ | 1u << ADAPTER_UP | 1u << ADAPTER_DOWN,
            DEFAULT | 1u << ADAPTER_PROJ | 1u << ADAPTER_UP | 1u << ADAPTER_DOWN, DEFAULT },
          44826624 / 4 },
    };
    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
        char model[600];
        snprintf(
            model, sizeof model,
            "\"model\": { \"name\": \"flux.1-dev\", \"lora\": { \"rank\": 4, \"targets\": %s } }",
            cases[i].targets);
        struct scenario *s = load_valid(MODEL, model, NULL);
        const struct module *m = &s->model->modules[MODULE_DIFFUSION_DECODER];
        int64_t parameters = 0;
        for (int64_t k = 0; k < s->model->layer_count; k++)
            parameters += layer_rank_adapter_parameters(s->model, k, 1);
        for (int k = 0; k < ADAPTER_STREAM_COUNT; k++)
            if (m->adapter_targets[k] != cases[i].want[k])
                fail_msg("%s: stream %d: %x", cases[i].targets, k, m->adapter_targets[k]);
        if (parameters != cases[i].parameters)
            fail_msg("%s: %lld parameters", cases[i].targets, (long long)parameters);
        scenario_destroy(s);
    }
}

static void test_mistakes(void **state) {
    (void)state;
    static const char hint[] =
        "for example [\"q_proj\", \"v_proj\"], [\"linear_qkv\"] or \"all-linear\"";
    static const struct {
        const char *name, *model, *want, *hint;
    } cases[] = {
        { "no layer of that name", MODEL_WITH("{ \"targets\": [\"qkv\"] }"),
          "2:61: error: /model/lora/targets/0: unknown linear layer \"qkv\"", hint },
        { "a number", MODEL_WITH("{ \"targets\": [3] }"),
          "2:61: error: /model/lora/targets/0: must be the name of a linear layer", hint },
        { "an empty list", MODEL_WITH("{ \"targets\": [] }"),
          "2:49: error: /model/lora/targets: must be a list of linear layers", hint },
        { "all and one of them", MODEL_WITH("{ \"targets\": [\"q_proj\", \"all-linear\"] }"),
          "2:71: error: /model/lora/targets/1: \"all-linear\" stands alone: it is every linear "
          "layer "
          "of the blocks",
          NULL },
        { "twice", MODEL_WITH("{ \"targets\": [\"o_proj\", \"linear_proj\"] }"),
          "2:71: error: /model/lora/targets/1: \"linear_proj\" is named twice", NULL },
        { "a matrix and its part", MODEL_WITH("{ \"targets\": [\"linear_qkv\", \"q_proj\"] }"),
          "2:75: error: /model/lora/targets/1: linear_qkv is q_proj, k_proj and v_proj: with "
          "\"q_proj\" "
          "these weights would have two adapters",
          "name the matrix or its parts" },
        { "no gate",
          "\"model\": { \"name\": \"gpt-22b\", \"lora\": { \"targets\": [\"gate_proj\"] } }",
          "2:53: error: /model/lora/targets/0: the blocks of GPT 22B have no gate", NULL },
        { "rank 0", MODEL_WITH("{ \"rank\": 0 }"),
          "2:57: error: /model/lora/rank: must be 1 to 65536, got 0",
          "columns between the two matrices" },
        { "unknown key", MODEL_WITH("{ \"alpha\": 16 }"),
          "2:49: error: /model/lora/alpha: unknown key \"alpha\" in \"lora\"",
          "one of: rank, weights, adapter_weights, dropout, targets" },
        { "dropout above one", MODEL_WITH("{ \"dropout\": 1.5 }"),
          "2:60: error: /model/lora/dropout: must be 0 to 1, got 1.5",
          "probability with which an adapter's input is dropped out" },
        { "weights of 8 bits", MODEL_WITH("{ \"weights\": \"fp8\" }"),
          "2:60: error: /model/lora/weights: unknown weights \"fp8\"",
          "did you mean \"fp32\"? one of: bf16, fp32" },
    };
    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
        write_lines(MODEL, cases[i].model);
        struct error err = { 0 };
        if (load(NULL, &err) != NULL) fail_msg("%s was read", cases[i].name);
        char want[256];
        snprintf(want, sizeof want, "s.json:%s", cases[i].want);
        check_message(cases[i].name, &err, want, cases[i].hint);
    }
}

/* Frozen weights in fp32 go with what holds them whole in one stage. */
static void test_fp32_base(void **state) {
    (void)state;
    static const struct {
        const char *layout, *want, *hint;
    } cases[] = {
        { "\"layout\": { \"tp\": 1, \"pp\": 1 }", NULL, NULL },
        { "\"layout\": { \"tp\": 1, \"pp\": 1, \"backend\": \"deepspeed\", \"zero_stage\": 2 }",
          NULL, NULL },
        { "\"layout\": { \"tp\": 1, \"pp\": 1, \"backend\": \"fsdp\", \"zero_stage\": 3 }",
          "frozen weights in fp32 under autocast (model.lora.weights) do not go with zero_stage 3",
          "set layout.zero_stage to 0 or 1, or leave model.lora.weights out: what is sharded is "
          "cast as it is gathered" },
        { "\"layout\": { \"tp\": 1, \"pp\": 2 }",
          "frozen weights in fp32 under autocast (model.lora.weights) do not go with pp 2",
          "set layout.pp to 1, or leave model.lora.weights out" },
    };
    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
        static const char *const overrides[] = { "model.lora={\"weights\":\"fp32\"}",
                                                 "training.global_batch={\"samples\":128}", NULL };
        write_lines(LAYOUT, cases[i].layout);
        struct error err = { 0 };
        struct scenario *s = load(overrides, &err);
        if ((s != NULL) != (cases[i].want == NULL)) fail_msg("case %zu: %s", i, err.text);
        if (cases[i].want != NULL &&
            (strstr(err.text, cases[i].want) == NULL || strstr(err.text, cases[i].hint) == NULL))
            fail_msg("case %zu: %s", i, err.text);
        if (s != NULL) {
            assert_true(model_has_fp32_base(s->model));
            scenario_destroy(s);
        }
    }
}

/* What FSDP gathers is in 16 bits, whatever the shards are in. */
static void test_sharded_adapters_cast_nothing(void **state) {
    (void)state;
    static const struct {
        const char *stage;
        bool casts;
    } cases[] = {
        { "layout.zero_stage=0", true },
        { "layout.zero_stage=1", true },
        { "layout.zero_stage=2", false },
        { "layout.zero_stage=3", false },
    };
    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
        const char *const overrides[] = { "layout.backend=fsdp", "layout.stack=hf-bf16-2026",
                                          "layout.pp=1", cases[i].stage, NULL };
        struct scenario *s = load_valid(
            MODEL, "\"model\": { \"name\": \"llama3-8b\", \"lora\": { \"rank\": 16 } }", overrides);
        assert_int_equal(scenario_split(s).block.casts_adapter_inputs, cases[i].casts);
        scenario_destroy(s);
    }
}

int main(void) {
    const struct CMUnitTest tests[] = { cmocka_unit_test(test_values),
                                        cmocka_unit_test(test_fp32_base),
                                        cmocka_unit_test(test_streams),
                                        cmocka_unit_test(test_mistakes),
                                        cmocka_unit_test(test_sharded_adapters_cast_nothing) };
    return cmocka_run_group_tests(tests, enter_folder, leave_folder);
}
