/* huggingface_text.c - language models: shapes and defaults of the transformers classes, what is
 * refused, and a lower bound on the parameters of what is.
 *
 * The defaults are those of LlamaConfig, Gemma2Config, Gemma3TextConfig, ... in
 * huggingface/transformers and of InternLM2Config in internlm/internlm2-7b. They matter for configs
 * inside others: transformers writes only what differs from the class (the "text_config" of
 * LLaVA-1.5 names no width at all).
 */
#include "sim/model/huggingface_config.h"

#include <math.h>
#include <string.h>

struct text_family {
    const char *model_type;
    int64_t layers, hidden, ffn_hidden, heads, kv_heads, head_dim, vocabulary; /* 0: derived */
    const char *qkv_bias, *qk_norm;
    const char *bias_key; /* switches the biases of attention, its output included; NULL: none */
    bool bias, tied;
    int64_t window;     /* tokens that attention sees back; 0: all */
    bool window_switch; /* only with "use_sliding_window" */
    int64_t
        full_every; /* of every so many layers the last has no window; 0: see windowed_layers() */
    bool branch_norm;
    double logit_cap, score_cap; /* final_logit_softcapping, attn_logit_softcapping; 0: none */
};

static const struct text_family families[] = {
    { "gemma", 28, 3072, 24576, 16, 16, 256, 256000, "none", "none", "attention_bias", false, true,
      0, false, 0, false, 0, 0 },
    { "gemma2", 26, 2304, 9216, 8, 4, 256, 256000, "none", "none", "attention_bias", false, true,
      4096, false, 2, true, 30, 50 },
    { "gemma3_text", 26, 2304, 9216, 8, 4, 256, 262208, "none", "head", "attention_bias", false,
      true, 4096, false, 6, true, 0, 0 },
    { "internlm2", 32, 4096, 11008, 32, 0, 0, 103168, "none", "none", "bias", true, false, 0, false,
      0, false, 0, 0 },
    { "llama", 32, 4096, 11008, 32, 0, 0, 32000, "none", "none", "attention_bias", false, false, 0,
      false, 0, false, 0, 0 },
    { "mistral", 32, 4096, 14336, 32, 8, 0, 32000, "none", "none", NULL, false, false, 4096, false,
      0, false, 0, 0 },
    { "phi3", 32, 3072, 8192, 32, 0, 0, 32064, "none", "none", NULL, false, false, 0, false, 0,
      false, 0, 0 },
    { "qwen2", 32, 4096, 22016, 32, 32, 0, 151936, "all", "none", NULL, false, false, 4096, true, 0,
      false, 0, 0 },
    { "qwen2_5_vl_text", 80, 8192, 29568, 64, 8, 0, 152064, "all", "none", NULL, false, false, 4096,
      true, 0, false, 0, 0 },
    { "qwen2_vl_text", 80, 8192, 29568, 64, 8, 0, 152064, "all", "none", NULL, false, false, 4096,
      true, 0, false, 0, 0 },
    { "qwen3", 32, 4096, 22016, 32, 32, 128, 151936, "none", "head", "attention_bias", false, false,
      4096, true, 0, false, 0, 0 },
    { "qwen3_vl_text", 32, 4096, 22016, 32, 32, 128, 151936, "none", "head", "attention_bias",
      false, false, 0, false, 0, false, 0, 0 },
};
enum { FAMILY_COUNT = sizeof families / sizeof families[0] };

const char *const *huggingface_text_types(void) {
    static const char *const names[] = { "gemma",   "gemma2", "gemma3_text", "internlm2", "llama",
                                         "mistral", "phi3",   "qwen2",       "qwen3",     NULL };
    return names;
}

static const struct text_family *find_family(const char *model_type) {
    for (size_t i = 0; model_type != NULL && i < FAMILY_COUNT; i++)
        if (strcmp(families[i].model_type, model_type) == 0) return &families[i];
    return NULL;
}

bool huggingface_knows_text(const char *model_type) {
    return find_family(model_type) != NULL;
}

/* ---- what is not modelled ---- */

static const char *const expert_keys[] = { "num_local_experts", "num_experts",
                                           "n_routed_experts",  "moe_num_experts",
                                           "num_moe_experts",   NULL };
static const struct {
    const char *key, *reason;
} foreign[] = {
    { "kv_lora_rank", "latent attention (MLA) is not modelled" },
    { "cross_attention_layers", "cross-attention layers are not modelled" },
    { "attn_type_list", "layers of linear attention are not modelled" },
    { "linear_num_value_heads", "layers of linear attention are not modelled" },
    { "ssm_cfg", "state-space layers are not modelled" },
    { "mamba_d_state", "state-space layers are not modelled" },
};

/* 0 where the key is missing or unreadable: this only serves a bound. */
static double number(const cJSON *object, const char *key) {
    const cJSON *node = huggingface_key(object, key);
    return cJSON_IsNumber(node) && node->valuedouble > 0 ? node->valuedouble : 0;
}

static const cJSON *experts_node(const cJSON *text) {
    for (int i = 0; expert_keys[i] != NULL; i++)
        if (number(text, expert_keys[i]) > 1) return huggingface_key(text, expert_keys[i]);
    return NULL;
}

/* Layers that have experts: all, less the first dense ones, or every n-th. */
static double expert_layers(const cJSON *text, double layers) {
    double step = number(text, "decoder_sparse_step");
    if (step > 1) layers = (double)(int64_t)(layers / step);
    double dense = number(text, "first_k_dense_replace") +
                   (double)cJSON_GetArraySize(huggingface_key(text, "mlp_only_layers"));
    double every = number(text, "interleave_moe_layer_step");
    if (every > 1) layers = (double)(int64_t)(layers / every);
    return layers > dense ? layers - dense : 0;
}

/* Embedding, attention and feed-forward matrices; no biases, norms, routers, shared experts. */
const char *huggingface_lower_bound(struct arena *arena, const cJSON *text) {
    const double hidden = number(text, "hidden_size"), heads = number(text, "num_attention_heads");
    const double layers = number(text, "num_hidden_layers"),
                 vocabulary = number(text, "vocab_size");
    if (hidden == 0 || layers == 0) return "";
    double head_dim = number(text, "head_dim");
    if (head_dim == 0 && heads > 0) head_dim = hidden / heads;
    double kv_heads = number(text, "num_key_value_heads");
    if (kv_heads == 0) kv_heads = 1;
    const bool tied = cJSON_IsTrue(huggingface_key(text, "tie_word_embeddings"));
    double common = vocabulary * hidden * (tied ? 1 : 2);
    if (huggingface_key(text, "kv_lora_rank") == NULL)
        common += layers * 2 * hidden * head_dim * (heads + kv_heads);
    double total = common, used = common;
    const cJSON *experts = experts_node(text);
    const double ffn_hidden = number(text, "intermediate_size");
    if (experts != NULL) {
        double width = number(text, "moe_intermediate_size");
        if (width == 0) width = ffn_hidden;
        const double with = expert_layers(text, layers), expert = 3 * hidden * width;
        total += with * experts->valuedouble * expert + (layers - with) * 2 * hidden * ffn_hidden;
        used += with * number(text, "num_experts_per_tok") * expert +
                (layers - with) * 2 * hidden * ffn_hidden;
        return arena_format(arena,
                            "at least %.1f B parameters, at least %.1f B of them used by a token: "
                            "%.0f GiB of bf16 weights, %.0f GiB to train with Adam (16 bytes each)",
                            total / 1e9, used / 1e9, total * 2 / 1073741824.0,
                            total * 16 / 1073741824.0);
    }
    total += layers * 2 * hidden * ffn_hidden;
    return arena_format(arena,
                        "the part that can be read has at least %.1f B parameters: %.0f GiB of "
                        "bf16 weights, %.0f GiB to train with Adam (16 bytes each)",
                        total / 1e9, total * 2 / 1073741824.0, total * 16 / 1073741824.0);
}

bool huggingface_check_text(struct huggingface_config *c, const cJSON *text) {
    const char *bound = huggingface_lower_bound(c->arena, text);
    const char *hint = bound[0] != '\0' ? bound : NULL;
    const cJSON *experts = experts_node(text);
    if (experts != NULL)
        return json_error(c->json, experts, c->err, hint,
                          "mixture-of-experts layers are not modelled (%.0f experts)",
                          experts->valuedouble);
    for (size_t i = 0; i < sizeof foreign / sizeof foreign[0]; i++) {
        const cJSON *node = huggingface_key(text, foreign[i].key);
        if (node != NULL) return json_error(c->json, node, c->err, hint, "%s", foreign[i].reason);
    }
    const cJSON *kinds = huggingface_key(text, "layer_types"), *kind;
    cJSON_ArrayForEach(kind, kinds) {
        if (!cJSON_IsString(kind) || strcmp(kind->valuestring, "full_attention") == 0 ||
            strcmp(kind->valuestring, "sliding_attention") == 0)
            continue;
        return json_error(c->json, kind, c->err, hint, "layers of \"%s\" are not modelled",
                          kind->valuestring);
    }
    if (cJSON_IsTrue(huggingface_key(text, "is_encoder_decoder")))
        return json_error(c->json, huggingface_key(text, "is_encoder_decoder"), c->err, hint,
                          "models of encoder and decoder are not modelled");
    return true;
}

/* ---- the module ---- */

static const char *gated_activation(struct huggingface_config *c, const cJSON *text) {
    const char *key =
        huggingface_key(text, "hidden_activation") != NULL ? "hidden_activation" : "hidden_act";
    const char *name = huggingface_text(text, key, "silu");
    if (strcmp(name, "silu") == 0 || strcmp(name, "swish") == 0) return "swiglu";
    if (strncmp(name, "gelu", 4) == 0) {
        huggingface_note(c,
                         "a GELU gates the feed-forward network: priced as swiglu, which has the "
                         "same matrices and traffic");
        return "swiglu";
    }
    json_error(c->json, huggingface_key(text, key), c->err, "silu and gelu are",
               "activation \"%s\" of a gated feed-forward network is not modelled", name);
    return NULL;
}

/* Layers with a window: by the list of layers where there is one, else by the classes with a switch
 * from "max_window_layers" on, else all have but the last of every few (Gemma 2 and 3). */
static int64_t windowed_layers(const cJSON *text, const struct text_family *f, int64_t layers) {
    const cJSON *kinds = huggingface_key(text, "layer_types"), *kind;
    int64_t count = 0;
    cJSON_ArrayForEach(kind, kinds) {
        count += cJSON_IsString(kind) && strcmp(kind->valuestring, "sliding_attention") == 0;
    }
    if (kinds != NULL) return count < layers ? count : layers;
    const double given = number(text, "sliding_window_pattern");
    const int64_t every = f->full_every > 0 && given >= 1 ? (int64_t)given : f->full_every;
    if (every > 0) return layers - layers / every;
    if (!f->window_switch) return layers;
    const double first = number(text, "max_window_layers");
    return first >= (double)layers ? 0 : layers - (int64_t)first;
}

/* A window that is null is none; one that is missing is that of the class. */
static void add_window(struct huggingface_config *c, const cJSON *text, const struct text_family *f,
                       int64_t layers, cJSON *module) {
    const bool given = cJSON_GetObjectItemCaseSensitive(text, "sliding_window") != NULL;
    const double window = given ? number(text, "sliding_window") : (double)f->window;
    const double longest = number(text, "max_position_embeddings");
    const cJSON *used = huggingface_key(text, "use_sliding_window");
    const int64_t windowed = windowed_layers(text, f, layers);
    if (!(window >= 1) || (used == NULL ? f->window_switch : !cJSON_IsTrue(used)) ||
        (longest > 0 && window >= longest) || windowed == 0)
        return;
    cJSON_AddNumberToObject(module, "attention_window", floor(window));
    cJSON_AddNumberToObject(module, "full_attention_blocks", (double)(layers - windowed));
    huggingface_note(c, arena_format(c->arena,
                                     "%lld of %lld language blocks see %.0f tokens back "
                                     "(sliding_window%s): a block is priced as their mean",
                                     (long long)windowed, (long long)layers, window,
                                     given ? "" : ", default of the class"));
}

/* cap x tanh(x / cap): of logits a pass over memory, of scores a function more inside the attention
 * kernel. A key that is null is none. */
static void add_caps(struct huggingface_config *c, const cJSON *text, const struct text_family *f,
                     cJSON *module) {
    const bool logits = cJSON_GetObjectItemCaseSensitive(text, "final_logit_softcapping") != NULL,
               scores = cJSON_GetObjectItemCaseSensitive(text, "attn_logit_softcapping") != NULL;
    const double logit_cap = logits ? number(text, "final_logit_softcapping") : f->logit_cap;
    const double score_cap = scores ? number(text, "attn_logit_softcapping") : f->score_cap;
    if (logit_cap > 0) cJSON_AddBoolToObject(module, "logit_cap", true);
    if (score_cap > 0)
        huggingface_note(
            c, arena_format(c->arena,
                            "attention scores are capped at %g inside the kernel: one tanh "
                            "a score, as many as the softmax has exponentials, is not "
                            "priced",
                            score_cap));
}

/* Biases that the model has no switch for. */
static void leave_out_biases(struct huggingface_config *c, bool attention, bool mlp, int64_t layers,
                             int64_t hidden, int64_t ffn_hidden) {
    if (attention && !mlp)
        huggingface_leave_out(c, "biases of the attention output", layers * hidden);
    if (mlp && !attention)
        huggingface_leave_out(c, "biases of the feed-forward network",
                              layers * (2 * ffn_hidden + hidden));
}

cJSON *huggingface_text_module(struct huggingface_config *c, const cJSON *text,
                               const char *model_type, int tied_here, int64_t *hidden_out) {
    if (model_type == NULL) model_type = huggingface_text(text, "model_type", "llama");
    if (!huggingface_check_text(c, text)) return NULL;
    const struct text_family *f = find_family(model_type);
    if (f == NULL) {
        const char *bound = huggingface_lower_bound(c->arena, text);
        const cJSON *node = huggingface_key(text, "model_type");
        json_error(c->json, node != NULL ? node : text, c->err, bound[0] != '\0' ? bound : NULL,
                   "language models of type \"%s\" are not modelled", model_type);
        return NULL;
    }
    int64_t layers, hidden, ffn_hidden, heads, kv_heads, head_dim, vocabulary;
    bool attention_bias = false, mlp_bias, tied;
    if (!huggingface_count(c, text, "num_hidden_layers", f->layers, &layers) ||
        !huggingface_count(c, text, "hidden_size", f->hidden, &hidden) ||
        !huggingface_count(c, text, "intermediate_size", f->ffn_hidden, &ffn_hidden) ||
        !huggingface_count(c, text, "num_attention_heads", f->heads, &heads) ||
        !huggingface_count(c, text, "vocab_size", f->vocabulary, &vocabulary) ||
        !huggingface_count_or(c, text, "num_key_value_heads", f->kv_heads > 0 ? f->kv_heads : heads,
                              &kv_heads) ||
        !huggingface_count_or(c, text, "head_dim", f->head_dim > 0 ? f->head_dim : hidden / heads,
                              &head_dim) ||
        !huggingface_flag(c, text, "mlp_bias", false, &mlp_bias) ||
        !huggingface_flag(c, text, "tie_word_embeddings", tied_here < 0 ? f->tied : tied_here > 0,
                          &tied) ||
        (f->bias_key != NULL && !huggingface_flag(c, text, f->bias_key, f->bias, &attention_bias)))
        return NULL;
    if (huggingface_key(text, "head_dim") == NULL && f->head_dim == 0 &&
        !huggingface_check_heads(c, text, "num_attention_heads", heads, "hidden_size", hidden))
        return NULL;
    if (heads % kv_heads != 0) {
        json_error(c->json,
                   huggingface_key(text, "num_key_value_heads") != NULL
                       ? huggingface_key(text, "num_key_value_heads")
                       : huggingface_key(text, "num_attention_heads"),
                   c->err, "each key and value head serves as many query heads",
                   "num_key_value_heads %lld does not divide num_attention_heads %lld",
                   (long long)kv_heads, (long long)heads);
        return NULL;
    }
    huggingface_note_defaults(c, model_type);
    const char *ffn = gated_activation(c, text);
    if (ffn == NULL) return NULL;
    leave_out_biases(c, attention_bias, mlp_bias, layers, hidden, ffn_hidden);

    cJSON *m = cJSON_CreateObject();
    cJSON_AddStringToObject(m, "name", huggingface_module_name(text, model_type));
    cJSON_AddStringToObject(m, "role", "language");
    cJSON_AddNumberToObject(m, "layer_count", (double)layers);
    cJSON_AddNumberToObject(m, "hidden", (double)hidden);
    cJSON_AddNumberToObject(m, "ffn_hidden", (double)ffn_hidden);
    cJSON_AddNumberToObject(m, "heads", (double)heads);
    cJSON_AddNumberToObject(m, "kv_heads", (double)kv_heads);
    add_window(c, text, f, layers, m);
    cJSON_AddNumberToObject(m, "head_dim", (double)head_dim);
    cJSON_AddStringToObject(m, "ffn", ffn);
    cJSON_AddStringToObject(m, "norm", "rms");
    cJSON_AddStringToObject(m, "qkv_bias", attention_bias ? "all" : f->qkv_bias);
    if (attention_bias && mlp_bias) cJSON_AddBoolToObject(m, "linear_bias", true);
    cJSON_AddStringToObject(m, "qk_norm", f->qk_norm);
    cJSON_AddStringToObject(m, "position", "rotary");
    cJSON_AddNumberToObject(m, "vocabulary", (double)vocabulary);
    cJSON_AddBoolToObject(m, "tied_embeddings", tied);
    if (f->branch_norm) cJSON_AddBoolToObject(m, "branch_norm", true);
    add_caps(c, text, f, m);
    cJSON_AddStringToObject(m, "source",
                            arena_format(c->arena, "config.json, model_type %s", model_type));
    *hidden_out = hidden;
    return m;
}
