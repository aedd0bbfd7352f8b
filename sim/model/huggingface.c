/* huggingface.c - which parts a config.json has, and the model file made of them.
 *
 * Connectors as in the modelling files of huggingface/transformers, OpenGVLab/InternVL and
 * haotian-liu/LLaVA:
 *
 *     internvl_chat, internvl   pixel shuffle, LayerNorm, Linear, GELU, Linear (inner: language)
 *     llava, llava_next, ...    Linear, GELU, Linear (inner: language); one Linear if "linear"
 *     gemma3                    norm of each patch (the encoder's), mean, RMS norm, one Linear
 *                               without bias
 *     qwen2_vl, qwen2_5_vl      norm of each patch, merge, Linear, GELU, Linear (inner: merged)
 */
#include "sim/model/huggingface.h"

#include <math.h>
#include <string.h>
#include "sim/model/huggingface_config.h"

/* What a model type is made of. */
struct parts {
    const cJSON *text, *vision;
    const char *text_type, *vision_type; /* NULL: as the part says */
    int64_t feature_layer;
};

struct joint {
    const char *model_type;
    bool (*connector)(struct huggingface_config *c, const struct huggingface_tower *tower,
                      int64_t text_hidden, cJSON *connector);
    const char *source;
};

static cJSON *root_of(const struct huggingface_config *c) {
    return json_root(c->json);
}

/* ---- connectors ---- */

static bool intern_connector(struct huggingface_config *c, const struct huggingface_tower *tower,
                             int64_t text_hidden, cJSON *connector) {
    (void)tower, (void)text_hidden;
    const cJSON *ratio = huggingface_key(root_of(c), "downsample_ratio");
    double merge = ratio == NULL ? 2 : cJSON_IsNumber(ratio) ? 1 / ratio->valuedouble : 0;
    if (!(merge >= 1 && merge <= 64) || fabs(merge - round(merge)) > 1e-9)
        return json_error(c->json, ratio, c->err, "0.5 joins 2 x 2 patches",
                          "must be one over a whole number");
    cJSON_AddNumberToObject(connector, "merge", round(merge));
    cJSON_AddStringToObject(connector, "inner", "language");
    cJSON_AddBoolToObject(connector, "norm", true);
    return true;
}

/* haotian-liu/LLaVA says "mlp2x_gelu" or "linear"; transformers has the first only. */
static bool llava_connector(struct huggingface_config *c, const struct huggingface_tower *tower,
                            int64_t text_hidden, cJSON *connector) {
    (void)tower;
    const cJSON *root = root_of(c);
    const char *type = huggingface_text(root, "mm_projector_type", "mlp2x_gelu");
    bool linear = strcmp(type, "linear") == 0, bias;
    if (!linear && strcmp(type, "mlp2x_gelu") != 0)
        return json_error(c->json, huggingface_key(root, "mm_projector_type"), c->err,
                          "mlp2x_gelu and linear are", "projector \"%s\" is not modelled", type);
    if (!huggingface_flag(c, root, "multimodal_projector_bias", true, &bias)) return false;
    cJSON_AddNumberToObject(connector, "merge", 1);
    cJSON_AddStringToObject(connector, "inner", linear ? "none" : "language");
    cJSON_AddBoolToObject(connector, "norm", false);
    cJSON_AddBoolToObject(connector, "linear_bias", bias);
    const char *model_type = huggingface_text(root, "model_type", "");
    const char *patches = huggingface_text(root, "mm_patch_merge_type", "");
    if (strcmp(model_type, "llava_next") == 0 || strcmp(model_type, "llava_onevision") == 0 ||
        strstr(patches, "unpad") != NULL)
        huggingface_leave_out(c, "token that ends a row of an image", text_hidden);
    if (strcmp(huggingface_text(root, "vision_feature_select_strategy", "default"), "full") == 0)
        huggingface_note(c, "the connector drops class tokens; this model keeps them");
    return true;
}

/* The merger ends at a width of the encoder's own config, which the language model must take. */
static bool note_other_width(struct huggingface_config *c, const char *key, int64_t text_hidden) {
    const cJSON *vision = huggingface_key(root_of(c), "vision_config");
    int64_t width;
    if (!huggingface_count_or(c, vision, key, text_hidden, &width)) return false;
    if (width != text_hidden)
        huggingface_note(c, arena_format(c->arena,
                                         "vision_config says %s %lld, and the language model is "
                                         "%lld wide: the connector is made to end at that",
                                         key, (long long)width, (long long)text_hidden));
    return true;
}

/* Blocks of the encoder whose outputs DeepStack merges; three where the config does not say. */
static bool read_deepstack(struct huggingface_config *c, const struct huggingface_tower *tower,
                           int64_t *count) {
    static const char key[] = "deepstack_visual_indexes";
    const cJSON *blocks = huggingface_key(huggingface_key(root_of(c), "vision_config"), key),
                *block;
    *count = 3;
    if (blocks == NULL) {
        huggingface_note(c,
                         "vision_config says no deepstack_visual_indexes: three, as the class has");
        return true;
    }
    *count = cJSON_GetArraySize(blocks);
    bool right = cJSON_IsArray(blocks) && *count <= tower->layer_count;
    cJSON_ArrayForEach(block, blocks) {
        right = right && cJSON_IsNumber(block) && block->valuedouble >= 0 &&
                block->valuedouble < (double)tower->layer_count &&
                block->valuedouble == floor(block->valuedouble);
    }
    return right ||
           json_error(c->json, blocks, c->err, NULL, "must be a list of block numbers, 0 to %lld",
                      (long long)(tower->layer_count - 1));
}

/* Each of those blocks has a merger of its own, whose norm stands behind the merge and whose output
 * is added to a block of the language model. */
static bool leave_out_deepstack(struct huggingface_config *c, const struct huggingface_tower *tower,
                                int64_t text_hidden) {
    int64_t count;
    if (!read_deepstack(c, tower, &count)) return false;
    const double width = (double)tower->merge * (double)tower->merge * (double)tower->hidden,
                 out = (double)text_hidden,
                 parameters = (double)count * (3 * width + width * width + width * out + out);
    if (!(parameters < 1e15))
        return json_error(c->json, huggingface_key(root_of(c), "vision_config"), c->err, NULL,
                          "DeepStack's mergers of these sizes have %.2g parameters", parameters);
    if (count > 0)
        huggingface_leave_out(c, "DeepStack's mergers of inner blocks of the vision encoder",
                              (int64_t)parameters);
    return true;
}

static bool qwen_connector(struct huggingface_config *c, const struct huggingface_tower *tower,
                           int64_t text_hidden, cJSON *connector) {
    const char *model_type = huggingface_text(root_of(c), "model_type", "");
    const bool rms = strcmp(model_type, "qwen2_5_vl") == 0,
               merges_depths = strcmp(model_type, "qwen3_vl") == 0;
    if (!note_other_width(c, rms || merges_depths ? "out_hidden_size" : "hidden_size", text_hidden))
        return false;
    if (merges_depths && !leave_out_deepstack(c, tower, text_hidden)) return false;
    cJSON_AddNumberToObject(connector, "merge", (double)tower->merge);
    cJSON_AddStringToObject(connector, "inner", "vision");
    cJSON_AddBoolToObject(connector, "norm", true);
    cJSON_AddBoolToObject(connector, "norm_before_merge", true);
    if (rms) cJSON_AddStringToObject(connector, "norm_kind", "rms");
    return true;
}

static bool square_root(int64_t count, int64_t *root) {
    *root = (int64_t)llround(sqrt((double)count));
    return *root * *root == count;
}

/* Means of as many patches as make an image mm_tokens_per_image tokens. */
static bool gemma_connector(struct huggingface_config *c, const struct huggingface_tower *tower,
                            int64_t text_hidden, cJSON *connector) {
    (void)text_hidden;
    const cJSON *node = huggingface_key(root_of(c), "mm_tokens_per_image");
    const double image = cJSON_GetObjectItem(tower->module, "image_size")->valuedouble,
                 patch = cJSON_GetObjectItem(tower->module, "patch_size")->valuedouble;
    const int64_t patches = (int64_t)(image / patch);
    int64_t tokens, side;
    if (!huggingface_count(c, root_of(c), "mm_tokens_per_image", 256, &tokens)) return false;
    huggingface_note_defaults(c, "gemma3");
    if (!square_root(tokens, &side) || side > patches || patches % side != 0)
        return json_error(c->json, node, c->err, "256 of 64 x 64 patches are means of 4 x 4",
                          "%lld tokens an image are no square that divides its %lld x %lld patches",
                          (long long)tokens, (long long)patches, (long long)patches);
    cJSON_AddNumberToObject(connector, "merge", (double)(patches / side));
    cJSON_AddBoolToObject(connector, "pool", true);
    cJSON_AddStringToObject(connector, "input_norm", "layer");
    cJSON_AddStringToObject(connector, "inner", "none");
    cJSON_AddBoolToObject(connector, "norm", true);
    cJSON_AddStringToObject(connector, "norm_kind", "rms");
    cJSON_AddBoolToObject(connector, "linear_bias", false);
    huggingface_note(c,
                     arena_format(c->arena,
                                  "the %lld tokens of an image see all of it, not only what comes "
                                  "before: the half of their scores that this adds is not priced",
                                  (long long)tokens));
    return true;
}

static const struct joint joints[] = {
    { "gemma3", gemma_connector, "Gemma3MultiModalProjector in huggingface/transformers" },
    { "internvl", intern_connector,
      "InternVLForConditionalGeneration in huggingface/transformers" },
    { "internvl_chat", intern_connector, "modeling_internvl_chat.py in OpenGVLab/InternVL" },
    { "llava", llava_connector, "LlavaMultiModalProjector in huggingface/transformers" },
    { "llava_llama", llava_connector, "multimodal_projector in haotian-liu/LLaVA" },
    { "llava_mistral", llava_connector, "multimodal_projector in haotian-liu/LLaVA" },
    { "llava_next", llava_connector, "LlavaNextMultiModalProjector in huggingface/transformers" },
    { "llava_onevision", llava_connector,
      "LlavaOnevisionMultiModalProjector in huggingface/transformers" },
    { "qwen2_5_vl", qwen_connector, "Qwen2_5_VLPatchMerger in huggingface/transformers" },
    { "qwen2_vl", qwen_connector, "PatchMerger of Qwen2-VL in huggingface/transformers" },
    { "qwen3_vl", qwen_connector, "Qwen3VLVisionPatchMerger in huggingface/transformers" },
};
enum { JOINT_COUNT = sizeof joints / sizeof joints[0] };

static const struct joint *find_joint(const char *model_type) {
    for (size_t i = 0; i < JOINT_COUNT; i++)
        if (strcmp(joints[i].model_type, model_type) == 0) return &joints[i];
    return NULL;
}

const char *const *huggingface_model_types(void) {
    static const char *const names[] = {
        "llama",
        "mistral",
        "qwen2",
        "qwen3",
        "internlm2",
        "phi3",
        "gemma",
        "gemma2",
        "gemma3_text",
        "gemma3",
        "internvl_chat",
        "internvl",
        "llava",
        "llava_next",
        "llava_onevision",
        "qwen2_vl",
        "qwen2_5_vl",
        "qwen3_vl",
        "clip",
        "siglip",
        "clip_vision_model",
        "siglip_vision_model",
        "intern_vit_6b",
        NULL,
    };
    return names;
}

/* ---- parts ---- */

static bool starts(const char *text, const char *beginning) {
    return strncmp(text, beginning, strlen(beginning)) == 0;
}

/* One layer of the encoder's outputs is read; several beside each other are another connector. */
static bool read_feature_layer(struct huggingface_config *c, const char *key, int64_t fallback,
                               int64_t *out) {
    const cJSON *node = huggingface_key(root_of(c), key);
    *out = fallback;
    if (node == NULL) return true;
    if (!cJSON_IsNumber(node) || fabs(node->valuedouble) > 1e4)
        return json_error(c->json, node, c->err, NULL,
                          "only one layer of the vision encoder can be read: a whole number");
    *out = (int64_t)node->valuedouble;
    return true;
}

static bool read_parts(struct huggingface_config *c, const char *model_type, struct parts *p) {
    const cJSON *root = root_of(c);
    p->vision = huggingface_key(root, "vision_config");
    p->text =
        huggingface_key(root, starts(model_type, "internvl_chat") ? "llm_config" : "text_config");
    if (starts(model_type, "llava_llama") || starts(model_type, "llava_mistral")) {
        p->text = root;
        p->text_type = model_type + strlen("llava_");
        return read_feature_layer(c, "mm_vision_select_layer", -2, &p->feature_layer);
    }
    if (starts(model_type, "qwen")) {
        /* up to Qwen2.5-VL it may stand in the config itself */
        if (p->text == NULL && starts(model_type, "qwen2")) p->text = root;
        p->text_type = arena_format(c->arena, "%s_text", model_type);
        p->vision_type = model_type;
        return true;
    }
    if (strcmp(model_type, "gemma3") == 0) {
        p->text_type = huggingface_text(p->text, "model_type", "gemma3_text");
        p->vision_type = huggingface_text(p->vision, "model_type", "siglip_vision_model");
        c->reads_final_norm = true;
    }
    if (starts(model_type, "internvl_chat")) {
        p->vision_type = "intern_vit_6b";
        return read_feature_layer(c, "select_layer", -1, &p->feature_layer);
    }
    int64_t usual =
        starts(model_type, "llava") && strcmp(model_type, "llava_onevision") != 0 ? -2 : -1;
    return read_feature_layer(c, "vision_feature_layer", usual, &p->feature_layer);
}

/* InternVL resizes the position table of its encoder to this size before it trains. */
static bool force_image_size(struct huggingface_config *c, cJSON *module) {
    int64_t size, patch_size = (int64_t)cJSON_GetObjectItem(module, "patch_size")->valuedouble;
    if (!huggingface_count_or(c, root_of(c), "force_image_size", 0, &size)) return false;
    if (size >= patch_size)
        cJSON_GetObjectItem(module, "image_size")->valuedouble =
            (double)(size / patch_size * patch_size);
    return true;
}

static bool read_joint(struct huggingface_config *c, const struct joint *joint, cJSON *file) {
    const cJSON *root = root_of(c);
    struct parts p = { 0 };
    if (!read_parts(c, joint->model_type, &p)) return false;
    if (!cJSON_IsObject(p.text))
        return json_error(c->json, p.text, c->err, NULL, "the language model's config is missing");
    /* Experts and the like first: that is what decides. */
    if (!huggingface_check_text(c, p.text)) return false;
    struct huggingface_tower tower;
    const char *named = huggingface_text(root, "mm_vision_tower", NULL);
    bool ok = cJSON_IsObject(p.vision)
                  ? huggingface_vision_module(c, p.vision, p.vision_type, p.feature_layer, &tower)
              : named != NULL ? huggingface_named_tower(c, named, p.feature_layer, &tower)
                              : json_error(c->json, p.vision, c->err, NULL,
                                           "the vision encoder's config is missing");
    if (!ok) return false;
    cJSON_AddItemToObject(file, "vision", tower.module);
    if (!force_image_size(c, tower.module)) return false;
    const cJSON *tied = huggingface_key(root, "tie_word_embeddings");
    int64_t hidden;
    cJSON *text = huggingface_text_module(c, p.text, p.text_type,
                                          tied == NULL ? -1 : cJSON_IsTrue(tied), &hidden);
    if (text == NULL) return false;
    cJSON *connector = cJSON_AddObjectToObject(file, "connector");
    cJSON_AddItemToObject(file, "language", text);
    if (!joint->connector(c, &tower, hidden, connector)) return false;
    cJSON_AddStringToObject(connector, "source", joint->source);
    return true;
}

static const char *listed(struct arena *arena, const char *const *names) {
    const char *list = "";
    for (; *names != NULL; names++)
        list = arena_format(arena, "%s%s%s", list, list[0] != '\0' ? ", " : "", *names);
    return list;
}

static bool refuse_type(struct huggingface_config *c, const char *model_type) {
    const cJSON *root = root_of(c), *text = huggingface_key(root, "text_config");
    if (!cJSON_IsObject(text)) text = root;
    if (!huggingface_check_text(c, text)) return false;
    const char *bound = huggingface_lower_bound(c->arena, text),
               *known = listed(c->arena, huggingface_model_types());
    return json_error(c->json, huggingface_key(root, "model_type"), c->err,
                      arena_format(c->arena, "%s%sthese types can be imported: %s", bound,
                                   bound[0] != '\0' ? "; " : "", known),
                      "models of type \"%s\" are not modelled", model_type);
}

static bool read_single(struct huggingface_config *c, const char *model_type, cJSON *file) {
    const cJSON *root = root_of(c), *vision = root;
    int64_t hidden;
    if (huggingface_knows_text(model_type)) {
        cJSON *module = huggingface_text_module(c, root, model_type, -1, &hidden);
        return module != NULL && cJSON_AddItemToObject(file, "language", module);
    }
    const char *vision_type = model_type;
    if (strcmp(model_type, "clip") == 0 || strcmp(model_type, "siglip") == 0) {
        vision = huggingface_key(root, "vision_config");
        vision_type = arena_format(c->arena, "%s_vision_model", model_type);
        huggingface_note(c, "the vision encoder only: the text encoder and both projections are "
                            "left out and not counted");
        if (!cJSON_IsObject(vision))
            return json_error(c->json, vision, c->err, NULL,
                              "the vision encoder's config is missing");
    }
    if (!huggingface_knows_vision(vision_type)) return refuse_type(c, model_type);
    struct huggingface_tower tower;
    if (!huggingface_vision_module(c, vision, vision_type, 0, &tower)) return false;
    cJSON_AddItemToObject(file, "vision", tower.module);
    return true;
}

static bool read_diffusion(struct huggingface_config *c, cJSON *file) {
    cJSON *module = huggingface_diffusion_module(c);
    return module != NULL && cJSON_AddItemToObject(file, "diffusion_decoder", module);
}

/* ---- the file ---- */

static const char *base_name(struct arena *arena, const char *path) {
    size_t length = strlen(path);
    while (length > 0 && path[length - 1] == '/')
        length--;
    size_t begin = length;
    while (begin > 0 && path[begin - 1] != '/')
        begin--;
    return arena_format(arena, "%.*s", (int)(length - begin), path + begin);
}

static const char *without_ending(struct arena *arena, const char *file) {
    size_t length = strlen(file);
    bool json = length > 5 && strcmp(file + length - 5, ".json") == 0;
    return arena_format(arena, "%.*s", (int)(json ? length - 5 : length), file);
}

/* "Qwen/Qwen2-7B" -> qwen2-7b; else the folder that holds config.json, else the type. */
static const char *default_name(struct huggingface_config *c, const char *model_type) {
    const char *name = base_name(c->arena, huggingface_text(root_of(c), "_name_or_path", ""));
    if (name[0] == '\0') {
        const char *path = json_name(c->json), *file = strrchr(path, '/');
        if (file != NULL && strcmp(file, "/config.json") == 0)
            name = base_name(c->arena, arena_format(c->arena, "%.*s", (int)(file - path), path));
        else if (strcmp(path, "config.json") != 0)
            name = without_ending(c->arena, base_name(c->arena, path));
    }
    if (name[0] == '\0' || name[0] == '.') name = model_type;
    char *lower = arena_text(c->arena, name);
    for (char *at = lower; *at != '\0'; at++)
        if (*at >= 'A' && *at <= 'Z') *at = (char)(*at - 'A' + 'a');
    return lower;
}

static void add_notes(cJSON *file, struct huggingface_config *c) {
    const char *text = "";
    for (int64_t i = 0; i < c->out->note_count; i++)
        text =
            arena_format(c->arena, "%s%s%s", text, text[0] != '\0' ? "; " : "", c->out->notes[i]);
    for (int64_t i = 0; i < c->out->left_out_count; i++)
        text = arena_format(c->arena, "%s%sleft out: %s (%lld parameters)", text,
                            text[0] != '\0' ? "; " : "", c->out->left_out[i].what,
                            (long long)c->out->left_out[i].parameters);
    if (text[0] != '\0') cJSON_AddStringToObject(file, "notes", text);
}

/* The file is read back as any model file is: what the tables refuse is refused here. */
static bool check_file(struct huggingface_config *c) {
    char *text = cJSON_PrintUnformatted(c->out->file);
    const char *label = arena_format(c->arena, "model made from %s", json_name(c->json));
    struct json *json = json_parse(label, text, strlen(text), c->err);
    cJSON_free(text);
    if (json == NULL) return false;
    c->out->model = model_from_json(c->arena, ".", json, json_root(json), c->err);
    json_destroy(json);
    return c->out->model != NULL;
}

static void note_quantization(struct huggingface_config *c) {
    if (huggingface_key(root_of(c), "quantization_config") != NULL)
        huggingface_note(c, "the checkpoint is quantized; the model describes training in the "
                            "scenario's precision");
}

/* Keys that are read as texts, wherever they stand: another type there would be taken for
 * absent. */
static const char *const text_keys[] = { "_class_name",
                                         "_name_or_path",
                                         "hidden_act",
                                         "hidden_activation",
                                         "mm_patch_merge_type",
                                         "mm_projector_type",
                                         "mm_vision_tower",
                                         "model_type",
                                         "norm_type",
                                         "projector_hidden_act",
                                         "vision_feature_select_strategy",
                                         NULL };

static bool check_texts(struct huggingface_config *c, const cJSON *object) {
    for (const cJSON *child = object->child; child != NULL; child = child->next) {
        if (cJSON_IsObject(child) && !check_texts(c, child)) return false;
        if (child->string == NULL || cJSON_IsString(child) || cJSON_IsNull(child)) continue;
        for (const char *const *key = text_keys; *key != NULL; key++)
            if (strcmp(child->string, *key) == 0)
                return json_error(c->json, child, c->err, NULL, "must be a text");
    }
    return true;
}

bool huggingface_import(struct arena *arena, const struct json *config, const char *name,
                        struct huggingface_model *out, struct error *err) {
    *out = (struct huggingface_model){ 0 };
    struct huggingface_config c = { arena, config, out, NULL, err, false };
    const cJSON *root = json_root(config);
    if (!cJSON_IsObject(root))
        return json_error(config, NULL, err, NULL, "a config.json is an object { ... }");
    if (!check_texts(&c, root)) return false;
    const char *class_name = huggingface_text(root, "_class_name", ""); /* Diffusers' */
    const bool diffusion = huggingface_knows_diffusion(class_name);
    const char *model_type = diffusion ? class_name : huggingface_text(root, "model_type", NULL);
    if (model_type == NULL && class_name[0] != '\0')
        return json_error(config, huggingface_key(root, "_class_name"), err,
                          arena_format(arena,
                                       "these classes can be imported: %s; a model file of your "
                                       "own may state others (docs/DATA.md, text_attention)",
                                       listed(arena, huggingface_class_names())),
                          "models of class \"%.60s\" are not modelled", class_name);
    if (model_type == NULL)
        return json_error(config, huggingface_key(root, "model_type"), err,
                          "this reads the config.json beside a checkpoint of Hugging Face, or of a "
                          "Diffusers transformer, which says \"_class_name\"",
                          "\"model_type\" is missing");
    out->file = cJSON_CreateObject();
    const char *path = huggingface_text(root, "_name_or_path", "");
    cJSON_AddStringToObject(out->file, "name", name != NULL ? name : default_name(&c, model_type));
    cJSON_AddStringToObject(
        out->file, "description",
        arena_format(arena, "imported from a config.json of type %s", model_type));
    const struct joint *joint = find_joint(model_type);
    note_quantization(&c);
    bool ok = diffusion       ? read_diffusion(&c, out->file)
              : joint != NULL ? read_joint(&c, joint, out->file)
                              : read_single(&c, model_type, out->file);
    if (ok) {
        cJSON_AddStringToObject(
            out->file, "source",
            path[0] != '\0' ? arena_format(arena, "config.json of %s (Hugging Face)", path)
                            : arena_format(arena, "%s", base_name(arena, json_name(config))));
        add_notes(out->file, &c);
        ok = check_file(&c);
    }
    if (!ok) {
        cJSON_Delete(out->file);
        out->file = NULL;
    }
    return ok;
}
