/* test_huggingface.c - imported configs against the parameter counts of the published
 * checkpoints. */
#include "sim/model/huggingface.h"

#include <setjmp.h>
#include <stdarg.h>
#include <string.h>

#include <cmocka.h>

static const struct {
    const char *file;
    int64_t model, checkpoint; /* parameters */
    const char *name;
} published[] = {
    { "llama-3-8b", 8030261248, 8030261248, "llama-3-8b" },
    { "llama-3.2-1b", 1235814400, 1235814400, "llama-3.2-1b" },
    { "llama-3.1-70b", 70553706496, 70553706496, "llama-3.1-70b" },
    { "mistral-7b", 7241732096, 7241732096, "mistral-7b" },
    { "mistral-nemo", 12247782400, 12247782400, "mistral-nemo" },
    { "qwen2-7b", 7615616512, 7615616512, "qwen2-7b" },
    { "qwen2.5-0.5b", 494032768, 494032768, "qwen2.5-0.5b" },
    { "qwen2.5-7b", 7615616512, 7615616512, "qwen2.5-7b" },
    { "qwen3-8b", 8190735360, 8190735360, "qwen3-8b" },
    { "internlm2-20b", 19861149696, 19861149696, "internlm2-20b" },
    { "yi-34b", 34388917248, 34388917248, "yi-34b" },
    { "gemma-2b", 2506172416, 2506172416, "gemma-2b" },
    { "gemma-7b", 8537680896, 8537680896, "gemma-7b" },
    { "gemma-2-2b", 2614341888, 2614341888, "gemma-2-2b" },
    { "gemma-2-9b", 9241705984, 9241705984, "gemma-2-9b" },
    { "gemma-2-27b", 27227128320, 27227128320, "gemma-2-27b" },
    { "gemma-3-1b", 999885952, 999885952, "gemma-3-1b" },
    { "gemma-3-4b", 4300079472, 4300079472, "gemma-3-4b" },
    { "gemma-3-12b", 12187325040, 12187325040, "gemma-3-12b" },
    { "gemma-3-27b", 27432406640, 27432406640, "gemma-3-27b" },
    { "internvl2-8b", 8075365376, 8075365376, "internvl2-8b" },
    { "internvl2.5-4b", 3712637952, 3712637952, "internvl2.5-4b" },
    { "internvl-chat-v1-5", 25514186112, 25514186112, "internvl-chat-v1-5" },
    /* one of 24 blocks and the norm behind it are not run */
    { "llava-1.5-7b", 7063427072 - 12596224 - 2048, 7063427072, "llava-1.5-7b" },
    { "llava-v1.6-mistral-7b", 7566747648 - 12596224 - 2048 - 4096, 7566747648,
      "llava-v1.6-mistral-7b" },
    { "qwen2-vl-2b", 2208985600, 2208985600, "qwen2-vl-2b" },
    { "qwen2-vl-7b", 8291375616, 8291375616, "qwen2-vl-7b" },
    { "qwen2.5-vl-3b", 3754622976, 3754622976, "qwen2.5-vl-3b" },
    { "qwen2.5-vl-7b", 8292166656, 8292166656, "qwen2.5-vl-7b" },
    { "qwen2.5-vl-7b-nested", 8292166656, 8292166656, "qwen2.5-vl-7b-nested" },
    { "qwen3-vl-4b", 4353623040, 4437815808, "qwen3-vl-4b" },
    { "qwen3-vl-8b", 8644091632, 8767123696, "qwen3-vl-8b" },
    { "siglip-so400m", 412984944, 428225600, "siglip-so400m" },
    { "clip-vit-large-336", 303505408, 303507456, "clip-vit-large-336" },
    { "intern-vit-300m", 304012288, 304012288, "intern-vit-300m" },
    { "wan2.1-t2v-1.3b", 1418996800, 1418996800, "wan2.1-t2v-1.3b" },
    { "wan2.1-t2v-14b", 14288491584, 14288491584, "wan2.1-t2v-14b" },
    { "wan2.2-ti2v-5b", 4999787712, 4999787712, "wan2.2-ti2v-5b" },
    { "flux.1-dev", 11901408320, 11901408320, "flux.1-dev" },
    { "hunyuanvideo", 12821012544, 12821012544, "hunyuanvideo" },
    { "qwen-image", 20430397504, 20430401088, "qwen-image" }, /* the norm of the text */
};

static int64_t left_out(const struct huggingface_model *m) {
    int64_t sum = 0;
    for (int64_t i = 0; i < m->left_out_count; i++)
        sum += m->left_out[i].parameters;
    return sum;
}

static void counts_are_those_published(void **state) {
    (void)state;
    for (size_t i = 0; i < sizeof published / sizeof published[0]; i++) {
        struct arena *arena = arena_create();
        struct error err = { 0 };
        const char *path = arena_format(arena, "%s/tests/data/huggingface/%s.json",
                                        BALLAST_SOURCE_DIR, published[i].file);
        struct json *config = json_load(path, &err);
        struct huggingface_model m;
        if (config == NULL || !huggingface_import(arena, config, NULL, &m, &err))
            fail_msg("%s: %s", published[i].file, err.text);
        int64_t count = model_parameters(m.model);
        if (count != published[i].model || count + left_out(&m) != published[i].checkpoint)
            fail_msg("%s: %lld parameters and %lld left out, want %lld of %lld", published[i].file,
                     (long long)count, (long long)left_out(&m), (long long)published[i].model,
                     (long long)published[i].checkpoint);
        assert_string_equal(m.model->name, published[i].name);
        for (int role = 0; role < MODULE_ROLE_COUNT; role++) {
            const char *module = m.model->modules[role].name;
            if (module != NULL && module[0] == '\0')
                fail_msg("%s: a module has no name", published[i].file);
        }
        cJSON_Delete(m.file);
        json_destroy(config);
        arena_destroy(arena);
    }
}

/* The parts of an import of `text`; the caller frees arena and file. */
static bool import(struct arena *arena, const char *text, struct huggingface_model *m,
                   struct error *err) {
    struct json *config = json_parse("config.json", text, strlen(text), err);
    assert_non_null(config);
    bool ok = huggingface_import(arena, config, NULL, m, err);
    json_destroy(config);
    return ok;
}

#define SMALL                                                                                      \
    "\"hidden_size\": 64, \"intermediate_size\": 128, \"num_attention_heads\": 4, "                \
    "\"num_hidden_layers\": 2, \"vocab_size\": 100"

#define WAN                                                                                        \
    "\"_class_name\": \"WanTransformer3DModel\", \"num_layers\": 2, \"ffn_dim\": 128, "            \
    "\"num_attention_heads\": 4, \"attention_head_dim\": 16"

static void biases_without_a_switch_are_left_out(void **state) {
    (void)state;
    static const struct {
        const char *keys;
        int64_t left_out;
    } cases[] = {
        { "", 0 },
        { ", \"attention_bias\": true", 2 * 64 },
        { ", \"mlp_bias\": true", 2 * (2 * 128 + 64) },
        { ", \"attention_bias\": true, \"mlp_bias\": true", 0 },
    };
    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
        struct arena *arena = arena_create();
        struct error err = { 0 };
        struct huggingface_model m;
        if (!import(
                arena,
                arena_format(arena, "{ \"model_type\": \"llama\", " SMALL "%s }", cases[i].keys),
                &m, &err))
            fail_msg("%s: %s", cases[i].keys, err.text);
        assert_int_equal(left_out(&m), cases[i].left_out);
        cJSON_Delete(m.file);
        arena_destroy(arena);
    }
}

static void norms_of_queries_and_keys(void **state) {
    (void)state;
    static const struct {
        const char *keys;
        bool want;
    } cases[] = { { "", true },
                  { ", \"qk_norm\": \"rms_norm_across_heads\", \"window_size\": [-1, -1]", true },
                  { ", \"qk_norm\": null", false },
                  { ", \"qk_norm\": false", false } };
    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
        struct arena *arena = arena_create();
        struct error err = { 0 };
        struct huggingface_model m;
        if (!import(arena, arena_format(arena, "{ " WAN "%s }", cases[i].keys), &m, &err))
            fail_msg("%s: %s", cases[i].keys, err.text);
        assert_true(m.model->modules[MODULE_DIFFUSION_DECODER].qk_norm == cases[i].want);
        cJSON_Delete(m.file);
        arena_destroy(arena);
    }
}

static void what_is_not_modelled_is_refused(void **state) {
    (void)state;
    static const struct {
        const char *text, *want;
    } cases[] = {
        { "[]", "is an object" },
        { "{}", "\"model_type\" is missing" },
        { "{ \"_class_name\": \"SD3Transformer2DModel\" }",
          "models of class \"SD3Transformer2DModel\" are not modelled" },
        { "{ \"_class_name\": \"FluxTransformer2DModel\", \"in_channels\": 66 }",
          "must hold 2 x 2 latents" },
        { "{ \"_class_name\": \"FluxTransformer2DModel\", \"in_channels\": 384, "
          "\"out_channels\": 64 }",
          "384 channels in and 64 out: latents of a condition are not modelled" },
        { "{ \"_class_name\": \"QwenImageTransformer2DModel\", \"patch_size\": 4 }",
          "only patches of 2 x 2 latents are modelled" },
        { "{ \"_class_name\": \"HunyuanVideoTransformer3DModel\", \"patch_size_t\": 2 }",
          "only patches of 2 x 2 latents are modelled" },
        { "{ \"_class_name\": \"HunyuanVideoTransformer3DModel\", "
          "\"image_condition_type\": \"token_replace\" }",
          "a model that is given an image is not modelled" },
        { "{ \"_class_name\": \"HunyuanVideoTransformer3DModel\", "
          "\"qk_norm\": \"layer_norm\" }",
          "this norm of queries and keys is not modelled" },
        { "{ \"_class_name\": \"FluxTransformer2DModel\", \"patch_size\": 2 }",
          "only patches of 2 x 2 latents are modelled" },
        { "{ \"_class_name\": \"HunyuanVideoTransformer3DModel\", \"qk_norm\": null }",
          "this norm of queries and keys is not modelled" },
        { "{ \"_class_name\": \"HunyuanVideoTransformer3DModel\", \"mlp_ratio\": -1 }",
          "must be a number above 0 and up to 64" },
        { "{ \"_class_name\": 3 }", "must be a text" },
        { "{ \"_class_name\": \"WanTransformer3DModel\" }", "\"num_layers\" is missing" },
        { "{ " WAN ", \"image_dim\": 1280 }", "attention to an image is not modelled" },
        { "{ " WAN ", \"in_channels\": 36 }", "latents of a condition beside those of the video" },
        { "{ " WAN ", \"in_channels\": 12, \"out_channels\": 12 }",
          "no autoencoder of so many channels is known" },
        { "{ " WAN ", \"patch_size\": [2, 2, 2] }", "only patches of [1, 2, 2] are modelled" },
        { "{ " WAN ", \"patch_size\": 2 }", "only patches of [1, 2, 2] are modelled" },
        { "{ " WAN ", \"freq_dim\": 128 }", "256 sines and cosines" },
        { "{ " WAN ", \"qk_norm\": \"layer_norm\" }",
          "this norm of queries and keys is not modelled" },
        { "{ " WAN ", \"window_size\": [128, 128] }", "attention within a window is not modelled" },
        { "{ " WAN ", \"window_size\": 3 }", "must be a list of two numbers" },
        { "{ " WAN ", \"text_dim\": [4096] }", "must be a whole number" },
        { "{ " WAN ", \"cross_attn_norm\": false }", "without its norm is not modelled" },
        { "{ \"_class_name\": \"WanModel\", \"model_type\": \"i2v\", \"dim\": 64, "
          "\"num_heads\": 4, \"num_layers\": 2, \"ffn_dim\": 128 }",
          "models of type \"i2v\" are not modelled" },
        { "{ \"_class_name\": \"WanModel\", \"dim\": 66, \"num_heads\": 4, \"num_layers\": 2, "
          "\"ffn_dim\": 128 }",
          "num_heads 4 does not divide dim 66" },
        { "{ \"model_type\": \"mamba2\" }", "models of type \"mamba2\" are not modelled" },
        { "{ \"model_type\": \"qwen3_moe\", " SMALL
          ", \"num_experts\": 128, \"num_experts_per_tok\": 8, \"moe_intermediate_size\": 32 }",
          "mixture-of-experts layers are not modelled (128 experts)" },
        { "{ \"model_type\": \"internvl_chat\", \"llm_config\": { \"model_type\": \"qwen3_moe\", "
          "\"num_experts\": 128 } }",
          "/llm_config/num_experts: mixture-of-experts" },
        { "{ \"model_type\": \"llama\", " SMALL ", \"kv_lora_rank\": 512 }", "latent attention" },
        { "{ \"model_type\": \"qwen3_next\", \"layer_types\": [\"linear_attention\"] }",
          "layers of \"linear_attention\" are not modelled" },
        { "{ \"model_type\": \"llama\", \"hidden_size\": 64.5 }", "/hidden_size: must be a whole" },
        { "{ \"model_type\": \"llama\", \"hidden_size\": 1e99 }", "/hidden_size: must be a whole" },
        { "{ \"model_type\": \"llama\", " SMALL ", \"hidden_act\": \"relu\" }",
          "activation \"relu\"" },
        { "{ \"model_type\": \"llama\", " SMALL ", \"num_key_value_heads\": 3 }",
          "/num_key_value_heads: num_key_value_heads 3 does not divide num_attention_heads 4" },
        { "{ \"model_type\": \"llava\" }", "the language model's config is missing" },
        { "{ \"model_type\": \"llava\", \"text_config\": {} }",
          "the vision encoder's config is missing" },
        { "{ \"model_type\": \"llava\", \"text_config\": {}, \"vision_feature_layer\": [-2, -5] }",
          "only one layer of the vision encoder" },
        { "{ \"model_type\": \"llava\", \"text_config\": {}, \"vision_feature_layer\": -99, "
          "\"vision_config\": { \"model_type\": \"clip_vision_model\" } }",
          "no output of layer -99" },
        { "{ \"model_type\": \"llava\", \"text_config\": {}, \"vision_config\": { "
          "\"model_type\": \"resnet\" } }",
          "vision encoders of type \"resnet\" are not modelled" },
        { "{ \"model_type\": \"qwen3_vl\", \"vision_config\": {} }",
          "the language model's config is missing" },
        { "{ \"model_type\": \"qwen3_vl\", \"text_config\": {}, \"vision_config\": { "
          "\"deepstack_visual_indexes\": 8 } }",
          "/vision_config/deepstack_visual_indexes: must be a list of block numbers, 0 to 26" },
        { "{ \"model_type\": \"qwen3_vl\", \"text_config\": {}, \"vision_config\": { "
          "\"deepstack_visual_indexes\": [8, 27] } }",
          "/vision_config/deepstack_visual_indexes: must be a list of block numbers, 0 to 26" },
        { "{ \"model_type\": \"qwen3_vl\", \"text_config\": {}, \"vision_config\": { "
          "\"spatial_merge_size\": 100000000 } }",
          "/vision_config: DeepStack's mergers of these sizes have" },
        { "{ \"model_type\": \"qwen3_vl\", \"text_config\": {}, \"vision_config\": { "
          "\"num_position_embeddings\": \"2304\" } }",
          "/vision_config/num_position_embeddings: must be a whole number" },
        { "{ \"model_type\": \"gemma3\", \"text_config\": {} }",
          "the vision encoder's config is missing" },
        { "{ \"model_type\": \"gemma3\", \"vision_config\": {} }",
          "the language model's config is missing" },
        { "{ \"model_type\": \"gemma3\", \"mm_tokens_per_image\": 200, \"text_config\": {}, "
          "\"vision_config\": { \"image_size\": 896, \"patch_size\": 14 } }",
          "/mm_tokens_per_image: 200 tokens an image are no square that divides its 64 x 64" },
        { "{ \"model_type\": \"gemma3\", \"mm_tokens_per_image\": 81, \"text_config\": {}, "
          "\"vision_config\": { \"image_size\": 896, \"patch_size\": 14 } }",
          "/mm_tokens_per_image: 81 tokens" },
        { "{ \"model_type\": \"gemma3\", \"text_config\": {}, "
          "\"vision_config\": { \"model_type\": \"resnet\" } }",
          "vision encoders of type \"resnet\" are not modelled" },
        { "{ \"model_type\": \"gemma3n_text\", " SMALL " }",
          "models of type \"gemma3n_text\" are not modelled" },
        { "{ \"model_type\": \"clip_vision_model\", \"patch_size\": [14, 16] }", "square sizes" },
        { "{ \"model_type\": \"llava_llama\", \"mm_vision_tower\": \"own/tower\" }",
          "\"own/tower\" is not in the file and not known" },
        { "{ \"model_type\": \"internvl_chat\", \"llm_config\": { \"model_type\": \"llama\", "
          "\"tie_word_embeddings\": 3 }, \"vision_config\": {} }",
          "/llm_config/tie_word_embeddings: must be true or false" },
    };
    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
        struct arena *arena = arena_create();
        struct error err = { 0 };
        struct huggingface_model m;
        if (import(arena, cases[i].text, &m, &err)) fail_msg("%s: imported", cases[i].text);
        if (strstr(err.text, cases[i].want) == NULL)
            fail_msg("%s: got \"%s\", want \"%s\"", cases[i].text, err.text, cases[i].want);
        assert_null(m.file);
        arena_destroy(arena);
    }
}

/* Written to the module and said where one is in effect, and only there. Models of two layers. */
static void windows_in_effect_are_modelled(void **state) {
    (void)state;
    static const struct {
        const char *type, *keys;
        bool noted;
        int full; /* blocks without a window */
    } cases[] = {
        { "mistral", ", \"sliding_window\": 4096", true, 0 },
        { "mistral", ", \"sliding_window\": 4096, \"max_position_embeddings\": 32768", true, 0 },
        { "mistral", ", \"sliding_window\": 4096, \"max_position_embeddings\": 4096", false, 0 },
        { "mistral", ", \"sliding_window\": null", false, 0 },
        { "mistral", "", true, 0 }, /* MistralConfig has 4096 */
        { "llama", "", false, 0 },
        { "qwen2", ", \"sliding_window\": 4096", false, 0 },
        { "qwen2", ", \"sliding_window\": 4096, \"use_sliding_window\": false", false, 0 },
        { "qwen2", ", \"sliding_window\": 4096, \"use_sliding_window\": true", true, 0 },
        { "qwen2", ", \"use_sliding_window\": true, \"max_window_layers\": 1", true, 1 },
        { "qwen2", ", \"use_sliding_window\": true, \"max_window_layers\": 2", false, 0 },
        { "qwen3",
          ", \"use_sliding_window\": true, \"layer_types\": [\"full_attention\", "
          "\"sliding_attention\"]",
          true, 1 },
        { "qwen3",
          ", \"use_sliding_window\": true, \"layer_types\": [\"full_attention\", "
          "\"full_attention\"]",
          false, 0 },
        { "gemma2", "", true, 1 }, /* every second block sees all, of Gemma 3 every sixth */
        { "gemma2", ", \"max_position_embeddings\": 4096", false, 0 },
        { "gemma3_text", "", true, 0 },
        { "gemma3_text", ", \"sliding_window_pattern\": 2", true, 1 },
        { "gemma3_text", ", \"sliding_window_pattern\": 1", false, 0 },
        { "gemma3_text", ", \"layer_types\": [\"sliding_attention\", \"full_attention\"]", true,
          1 },
    };
    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
        struct arena *arena = arena_create();
        struct error err = { 0 };
        struct huggingface_model m;
        if (!import(arena,
                    arena_format(arena,
                                 "{ \"model_type\": \"%s\", \"num_key_value_heads\": 4, " SMALL
                                 "%s }",
                                 cases[i].type, cases[i].keys),
                    &m, &err))
            fail_msg("%s%s: %s", cases[i].type, cases[i].keys, err.text);
        bool noted = false;
        for (int64_t n = 0; n < m.note_count; n++)
            noted |= strstr(m.notes[n], "4096 tokens back") != NULL &&
                     strstr(m.notes[n], "priced as their mean") != NULL;
        const cJSON *language = cJSON_GetObjectItem(m.file, "language");
        const cJSON *window = cJSON_GetObjectItem(language, "attention_window");
        assert_int_equal(window != NULL, cases[i].noted);
        if (window != NULL) {
            assert_true(window->valuedouble == 4096);
            assert_true(cJSON_GetObjectItem(language, "full_attention_blocks")->valuedouble ==
                        cases[i].full);
        }
        if (noted != cases[i].noted)
            fail_msg("%s%s: %s", cases[i].type, cases[i].keys, noted ? "noted" : "not noted");
        cJSON_Delete(m.file);
        arena_destroy(arena);
    }
}

/* A key that is null switches a cap off, one that is missing is the class's. */
static void caps_are_those_of_the_class(void **state) {
    (void)state;
    static const struct {
        const char *type, *keys;
        bool logits, scores;
    } cases[] = {
        { "gemma2", "", true, true },
        { "gemma2", ", \"final_logit_softcapping\": null, \"attn_logit_softcapping\": null", false,
          false },
        { "gemma3_text", "", false, false },
        { "gemma3_text", ", \"final_logit_softcapping\": 30.0", true, false },
        { "gemma", "", false, false },
    };
    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
        struct arena *arena = arena_create();
        struct error err = { 0 };
        struct huggingface_model m;
        const char *text = arena_format(
            arena, "{ \"model_type\": \"%s\", \"num_key_value_heads\": 4, " SMALL "%s }",
            cases[i].type, cases[i].keys);
        if (!import(arena, text, &m, &err)) fail_msg("%s: %s", text, err.text);
        bool noted = false;
        for (int64_t n = 0; n < m.note_count; n++)
            noted |= strstr(m.notes[n], "attention scores are capped") != NULL;
        assert_int_equal(m.model->modules[MODULE_LANGUAGE].logit_cap, cases[i].logits);
        assert_int_equal(noted, cases[i].scores);
        cJSON_Delete(m.file);
        arena_destroy(arena);
    }
}

/* The bound of a refused model must not be above what is published. */
static void bounds_are_below_the_published_counts(void **state) {
    (void)state;
    static const struct {
        const char *file, *bound;
    } cases[] = {
        { "mixtral-8x7b", "at least 46.7 B parameters, at least 12.9 B" }, /* 46.70 and 12.88 B */
        { "qwen3-30b-a3b", "at least 30.5 B parameters, at least 3.3 B" }, /* 30.53 and 3.35 B */
        { "deepseek-v3", "at least 656.6 B parameters, at least 23.1 B" }, /* 671 and 37 B */
    };
    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
        struct arena *arena = arena_create();
        struct error err = { 0 };
        struct json *config = json_load(arena_format(arena, "%s/tests/data/huggingface/%s.json",
                                                     BALLAST_SOURCE_DIR, cases[i].file),
                                        &err);
        struct huggingface_model m;
        assert_non_null(config);
        assert_false(huggingface_import(arena, config, NULL, &m, &err));
        if (strstr(err.text, cases[i].bound) == NULL)
            fail_msg("%s: got \"%s\", want \"%s\"", cases[i].file, err.text, cases[i].bound);
        json_destroy(config);
        arena_destroy(arena);
    }
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(counts_are_those_published),
        cmocka_unit_test(biases_without_a_switch_are_left_out),
        cmocka_unit_test(norms_of_queries_and_keys),
        cmocka_unit_test(what_is_not_modelled_is_refused),
        cmocka_unit_test(windows_in_effect_are_modelled),
        cmocka_unit_test(caps_are_those_of_the_class),
        cmocka_unit_test(bounds_are_below_the_published_counts),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
