/* model_load.c - reads model files: scenarios/models/<name>.json, which name modules and a
 * connector, and scenarios/models/modules/<name>.json, one transformer stack each.
 *
 * A module stands in a model file in one of three ways:
 *
 *     "vision": "internvit-6b-448px"                                     a module file
 *     "vision": { "module": "clip-vit-l-14-336", "layer_count": 23 }     one with changes
 *     "vision": { "name": "my ViT", "role": "vision", ... }              inline
 *
 * A whole model may stand in another document, as an object with the keys of a model file.
 *
 * The connector's widths follow from its neighbours: in = merge^2 x vision hidden (pooled: vision
 * hidden), out = language hidden. A diffusion decoder takes the width of its text from the language
 * model in front of it; without one its file states it ("text_hidden"), or it attends to no text.
 */
#include "sim/model/model_fields.h"

#include <stdlib.h>
#include <string.h>
#include <unistd.h>

/* ---- files ---- */

static bool is_path(const char *name) {
    size_t length = strlen(name);
    return strchr(name, '/') != NULL || (length > 5 && strcmp(name + length - 5, ".json") == 0);
}

/* ---- one module ---- */

struct loader {
    struct arena *arena;
    const char *search_directory;
    const struct json *model_file;
    struct error *err;
    struct model *model;
};

static void note_file(const struct loader *loader, const char *path) {
    enum { MOST_FILES = 1 + MODULE_ROLE_COUNT };
    struct model *m = loader->model;
    if (m->files == NULL) m->files = arena_array(loader->arena, const char *, MOST_FILES);
    for (int64_t i = 0; i < m->file_count; i++)
        if (strcmp(m->files[i], path) == 0) return;
    ballast_check(m->file_count < MOST_FILES);
    m->files[m->file_count++] = arena_text(loader->arena, path);
}

/* Where a module's figures stand: a file of its own, changed by keys of the model file, or both. */
struct module_place {
    const struct json *file;
    const cJSON *object;
    const struct json *changes_file;
    const cJSON *changes; /* NULL: none */
};

static bool mistake(const struct module_place *place, const char *key, struct error *err,
                    const char *hint, const char *text) {
    const cJSON *node = cJSON_GetObjectItemCaseSensitive(place->changes, key);
    if (node != NULL) return json_error(place->changes_file, node, err, hint, "%s", text);
    node = cJSON_GetObjectItemCaseSensitive(place->object, key);
    return json_error(place->file, node != NULL ? node : place->object, err, hint, "%s", text);
}

static bool changes(const struct module_place *place, const char *key) {
    return cJSON_GetObjectItemCaseSensitive(place->changes, key) != NULL;
}

static const char *module_field_name(const void *names, size_t index) {
    return ((const struct field_table *)names)->fields[index].name;
}

static bool check_sources(const struct json *file, const cJSON *sources, struct error *err) {
    if (sources == NULL || cJSON_IsNull(sources)) return true;
    if (!cJSON_IsObject(sources))
        return json_error(file, sources, err, NULL, "must be an object { key: source }");
    for (const cJSON *node = sources->child; node != NULL; node = node->next) {
        if (!cJSON_IsString(node))
            return json_error(file, node, err, NULL, "a source must be a text in quotes");
        if (field_table_find(&module_table, node->string) != NULL) continue;
        char hint[128] = "each key of \"sources\" is a key of the module";
        const char *near =
            nearest_name(node->string, module_table.count, module_field_name, &module_table);
        if (near != NULL) snprintf(hint, sizeof hint, "did you mean \"%s\"?", near);
        return json_error(file, node, err, hint, "\"%s\" is no figure of a module", node->string);
    }
    return true;
}

static bool check_names(const struct json *file, const cJSON *names, struct error *err) {
    const cJSON *node;
    if (names == NULL || cJSON_IsNull(names)) return true;
    if (!cJSON_IsArray(names))
        return json_error(file, names, err, NULL, "must be a list of names in quotes");
    cJSON_ArrayForEach(node, names) {
        if (!cJSON_IsString(node) || node->valuestring[0] == '\0')
            return json_error(file, node, err, NULL, "a name must be a text in quotes");
    }
    return true;
}

/* Derives what the file left out. -1 stands for null. */
static bool resolve_heads(struct module_row *row, const struct module_place *place,
                          struct error *err) {
    struct module *m = &row->module;
    m->qkv_bias = row->qkv_bias != QKV_BIAS_NONE;
    m->key_bias = row->qkv_bias == QKV_BIAS_ALL;
    m->qk_norm = row->qk_norm != QK_NORM_NONE;
    m->qk_norm_per_head = row->qk_norm == QK_NORM_HEAD;
    m->qk_norm_kind = row->qk_norm_kind > 0 ? (enum norm_kind)(row->qk_norm_kind - 1) : m->norm;
    char text[160];
    if (row->qk_norm_kind > 0 && !m->qk_norm)
        return mistake(place, "qk_norm_kind", err, NULL, "needs \"qk_norm\"");
    if (m->kv_heads < 0) m->kv_heads = m->heads;
    if (m->heads % m->kv_heads != 0) {
        snprintf(text, sizeof text, "must divide the %lld query heads, got %lld",
                 (long long)m->heads, (long long)m->kv_heads);
        return mistake(place, "kv_heads", err,
                       "each key and value head serves the same number of query heads", text);
    }
    if (m->head_dim < 0) {
        if (m->hidden % m->heads != 0) {
            snprintf(text, sizeof text,
                     "must divide hidden (%lld) unless head_dim is given, got %lld",
                     (long long)m->hidden, (long long)m->heads);
            return mistake(place, "heads", err, NULL, text);
        }
        m->head_dim = m->hidden / m->heads;
    }
    return true;
}

static bool check_window(const struct module *m, const struct module_place *place,
                         struct error *err) {
    if (m->attention_window > 0 && m->role == MODULE_DIFFUSION_DECODER)
        return mistake(place, "attention_window", err, NULL,
                       "belongs to a language model or a vision encoder");
    if (m->attention_window == 0 && m->full_attention_blocks > 0)
        return mistake(place, "full_attention_blocks", err, "without a window all blocks are full",
                       "needs \"attention_window\"");
    if (m->full_attention_blocks <= m->layer_count) return true;
    char text[160];
    snprintf(text, sizeof text, "must be at most the %lld blocks, got %lld",
             (long long)m->layer_count, (long long)m->full_attention_blocks);
    return mistake(place, "full_attention_blocks", err, NULL, text);
}

/* Keys of images as an encoder takes them. */
static bool refuse_image_keys(const struct module *m, const struct module_place *place,
                              struct error *err) {
    const char *key = m->register_tokens > 0 ? "register_tokens"
                      : m->min_pixels > 0    ? "min_pixels"
                      : m->max_pixels > 0    ? "max_pixels"
                                             : NULL;
    return key == NULL || mistake(place, key, err, NULL, "belongs to a vision encoder");
}

static bool resolve_language(struct module *m, const struct module_place *place,
                             struct error *err) {
    if (m->patch_size > 0)
        return mistake(place, "patch_size", err, NULL, "belongs to a vision encoder");
    if (m->image_size > 0)
        return mistake(place, "image_size", err, NULL, "belongs to a vision encoder");
    if (m->class_token)
        return mistake(place, "class_token", err, NULL, "belongs to a vision encoder");
    if (!refuse_image_keys(m, place, err)) return false;
    if (m->flash_attention)
        return mistake(place, "flash_attention", err, NULL, "belongs to a vision encoder");
    if (m->branch_norm && m->parallel_residual != PARALLEL_RESIDUAL_NO)
        return mistake(place,
                       changes(place, "parallel_residual") ? "parallel_residual" : "branch_norm",
                       err, NULL,
                       "norms behind the branches of a block whose branches are added together are "
                       "not modelled");
    if (m->headless && m->logit_cap)
        return mistake(place, "logit_cap", err, NULL, "needs a head, and \"headless\" is true");
    if (m->headless && m->tied_embeddings)
        return mistake(place, "tied_embeddings", err, NULL,
                       "needs a head, and \"headless\" is true");
    if (m->headless && m->head_share != 1)
        return mistake(place, "head_share", err, NULL, "needs a head, and \"headless\" is true");
    if (m->vocabulary < 0)
        return mistake(place, "vocabulary", err, "rows of the token embedding",
                       "a language model needs \"vocabulary\"");
    m->patch_size = m->image_size = 0;
    if (m->position == POSITION_LEARNED && m->position_count < 0)
        return mistake(place, "position", err, "the longest sequence it was made for",
                       "learned positions of a language model need \"position_count\"");
    return true;
}

static bool resolve_vision(struct module *m, const struct module_place *place, struct error *err) {
    if (m->vocabulary > 0)
        return mistake(place, "vocabulary", err, NULL, "belongs to a language model");
    if (m->tied_embeddings)
        return mistake(place, "tied_embeddings", err, NULL, "belongs to a language model");
    if (m->bidirectional)
        return mistake(place, "bidirectional", err, NULL, "belongs to a language model");
    if (m->logit_cap) return mistake(place, "logit_cap", err, NULL, "belongs to a language model");
    if (m->headless) return mistake(place, "headless", err, NULL, "belongs to a language model");
    if (m->head_share != 1)
        return mistake(place, "head_share", err, NULL, "belongs to a language model");
    if (m->parallel_residual != PARALLEL_RESIDUAL_NO)
        return mistake(place, "parallel_residual", err, NULL, "belongs to a language model");
    m->vocabulary = 0;
    if (m->patch_size < 0)
        return mistake(place, "patch_size", err, "14 for most vision transformers",
                       "a vision encoder needs \"patch_size\"");
    if (m->image_size < 0)
        return mistake(place, "image_size", err, "edge of a tile in pixels",
                       "a vision encoder needs \"image_size\"");
    if (m->image_size % m->patch_size != 0) {
        char text[160];
        snprintf(text, sizeof text, "must be a multiple of patch_size (%lld), got %lld",
                 (long long)m->patch_size, (long long)m->image_size);
        return mistake(place, "image_size", err, NULL, text);
    }
    return true;
}

/* Of its blocks, which hold weights of their own for the text. */
static bool resolve_streams(struct module *m, const struct module_place *place, struct error *err) {
    const bool joint = m->text_attention == TEXT_ATTENTION_JOINT;
    char text[160];
    if (!joint && m->double_stream_blocks >= 0)
        return mistake(place,
                       changes(place, "text_attention") && !changes(place, "double_stream_blocks")
                           ? "text_attention"
                           : "double_stream_blocks",
                       err, NULL, "\"double_stream_blocks\" needs \"text_attention\" \"joint\"");
    if (m->double_stream_blocks > m->layer_count) {
        snprintf(text, sizeof text, "must be at most the %lld blocks, got %lld",
                 (long long)m->layer_count, (long long)m->double_stream_blocks);
        return mistake(place, "double_stream_blocks", err, NULL, text);
    }
    if (joint && m->modulation == MODULATION_SHARED)
        return mistake(place, "modulation", err,
                       "\"modulation\" is \"shared\" unless it is stated: state \"block\"",
                       "joint blocks with one modulation layer for all are not modelled");
    if (m->double_stream_blocks < 0) m->double_stream_blocks = joint ? m->layer_count : 0;
    return true;
}

static bool resolve_decoder(struct module *m, const struct module_place *place, struct error *err) {
    if (m->logit_cap) return mistake(place, "logit_cap", err, NULL, "belongs to a language model");
    if (m->headless) return mistake(place, "headless", err, NULL, "belongs to a language model");
    if (m->head_share != 1)
        return mistake(place, "head_share", err, NULL, "belongs to a language model");
    if (m->branch_norm)
        return mistake(place, "branch_norm", err, NULL,
                       "belongs to a language model or a vision encoder");
    if (m->parallel_residual != PARALLEL_RESIDUAL_NO)
        return mistake(place, "parallel_residual", err, NULL, "belongs to a language model");
    if (m->flash_attention)
        return mistake(place, "flash_attention", err, NULL, "belongs to a vision encoder");
    static const struct {
        const char *key, *hint;
        size_t offset;
    } needed[] = {
        { "patch_size", "2 for most video decoders", offsetof(struct module, patch_size) },
        { "image_size", "width of a frame in pixels", offsetof(struct module, image_size) },
        { "latent_pixels", "8 for most autoencoders", offsetof(struct module, latent_pixels) },
        { "latent_frames", "4 or 8 for most video autoencoders; 1 for images",
          offsetof(struct module, latent_frames) },
        { "frames_per_second", "16 in Movie Gen", offsetof(struct module, frames_per_second) },
    };
    char text[160];
    for (size_t i = 0; i < sizeof needed / sizeof needed[0]; i++) {
        const int64_t *value = (const void *)((const char *)m + needed[i].offset);
        if (*value >= 0) continue;
        snprintf(text, sizeof text, "a diffusion decoder needs \"%s\"", needed[i].key);
        return mistake(place, needed[i].key, err, needed[i].hint, text);
    }
    if (m->vocabulary > 0)
        return mistake(place, "vocabulary", err, NULL, "belongs to a language model");
    if (m->class_token)
        return mistake(place, "class_token", err, NULL, "belongs to a vision encoder");
    if (!refuse_image_keys(m, place, err)) return false;
    if (m->layer_scale)
        return mistake(place, "layer_scale", err, "its gates follow the timestep",
                       "a diffusion decoder has no learned scale of its branches");
    if (m->position == POSITION_LEARNED && m->position_count < 0)
        return mistake(place, "position", err,
                       "tokens of the longest sample, or rows of the tables of height, width and "
                       "time together",
                       "learned positions of a diffusion decoder need \"position_count\"");
    m->vocabulary = 0;
    if (!resolve_streams(m, place, err)) return false;
    if (m->image_height < 0) m->image_height = m->image_size;
    if (changes(place, "image_size") && !changes(place, "image_height") &&
        m->image_height != m->image_size)
        return mistake(place, "image_size", err,
                       "frames of the module are not square, and it keeps their height",
                       "needs \"image_height\" beside it");
    if (m->bidirectional)
        return mistake(place, "bidirectional", err, "its blocks attend without a mask anyway",
                       "belongs to a language model");
    const int64_t step = m->latent_pixels * m->patch_size;
    const int64_t wrong = m->image_size % step != 0 ? m->image_size : m->image_height;
    if (wrong % step == 0) return true;
    snprintf(text, sizeof text, "must be a multiple of latent_pixels x patch_size (%lld), got %lld",
             (long long)step, (long long)wrong);
    return mistake(place, m->image_size % step != 0 ? "image_size" : "image_height", err, NULL,
                   text);
}

/* Keys that only a diffusion decoder has. */
static bool refuse_latent_keys(struct module *m, const struct module_place *place,
                               struct error *err) {
    const char *key = m->latent_pixels > 0           ? "latent_pixels"
                      : m->latent_frames > 0         ? "latent_frames"
                      : m->frames_per_second > 0     ? "frames_per_second"
                      : m->text_hidden > 0           ? "text_hidden"
                      : m->modulation != 0           ? "modulation"
                      : m->text_projection != 0      ? "text_projection"
                      : m->image_height > 0          ? "image_height"
                      : m->text_attention != 0       ? "text_attention"
                      : m->double_stream_blocks >= 0 ? "double_stream_blocks"
                      : m->text_refiner_blocks > 0   ? "text_refiner_blocks"
                      : m->pooled_text_hidden > 0    ? "pooled_text_hidden"
                      : m->guidance                  ? "guidance"
                                                     : NULL;
    if (key != NULL) return mistake(place, key, err, NULL, "belongs to a diffusion decoder");
    m->latent_pixels = m->latent_frames = m->frames_per_second = m->text_hidden = 0;
    m->image_height = m->image_size;
    return true;
}

static int64_t tile_tokens(const struct module *vision) {
    int64_t side = vision->image_size / vision->patch_size;
    return side * side + module_extra_tokens(vision);
}

static bool resolve_module(const struct loader *loader, struct module_row *row,
                           enum module_role role, const struct module_place *place) {
    struct module *m = &row->module;
    if (m->role != role) {
        char text[160];
        snprintf(text, sizeof text, "'%s' is a %s module and cannot stand as \"%s\"", m->name,
                 module_role_name(m->role), module_role_name(role));
        return mistake(place, "role", loader->err, NULL, text);
    }
    if (!check_sources(place->file, row->sources, loader->err) ||
        !check_names(place->file, row->names, loader->err))
        return false;
    if (!resolve_heads(row, place, loader->err) || !check_window(&row->module, place, loader->err))
        return false;
    bool ok = role == MODULE_DIFFUSION_DECODER             ? resolve_decoder(m, place, loader->err)
              : !refuse_latent_keys(m, place, loader->err) ? false
              : role == MODULE_VISION                      ? resolve_vision(m, place, loader->err)
                                      : resolve_language(m, place, loader->err);
    if (!ok) return false;
    if (m->position != POSITION_LEARNED) {
        if (m->position_count > 0)
            return mistake(place, "position_count", loader->err, NULL,
                           "only learned positions have a table");
        m->position_count = 0;
    } else if (m->position_count < 0) {
        m->position_count = tile_tokens(m);
    }
    return true;
}

/* Reads into `row` only the keys that stand in `changes`, so that the rest keeps its values. */
static bool read_changes(const struct loader *loader, const cJSON *changes,
                         struct module_row *row) {
    struct field *fields = arena_array(loader->arena, struct field, module_table.count);
    size_t count = 0;
    for (const cJSON *node = changes->child; node != NULL; node = node->next) {
        const struct field *field = field_table_find(&module_table, node->string);
        /* The whole table knows how to complain about a key that is not in it. */
        if (field == NULL)
            return field_table_read(&module_table, loader->model_file, changes, row, loader->arena,
                                    loader->err);
        fields[count++] = *field;
    }
    const struct field_table changed = { "module", module_table.help, fields, count, NULL };
    return field_table_read(&changed, loader->model_file, changes, row, loader->arena, loader->err);
}

static bool missing_module(const struct loader *loader, const cJSON *node, const char *name,
                           const char *path) {
    if (is_path(name))
        return json_error(loader->model_file, node, loader->err, NULL, "no module file %s", path);
    const char *directory =
        arena_format(loader->arena, "%s/models/modules", loader->search_directory);
    const char *near = nearest_file(loader->arena, directory, name);
    const char *hint = near != NULL
                           ? arena_format(loader->arena, "did you mean \"%s\"?", near)
                           : arena_format(loader->arena, "modules are the files of %s", directory);
    return json_error(loader->model_file, node, loader->err, hint, "no module is called \"%s\"",
                      name);
}

static const char *module_path(const struct loader *loader, const char *name) {
    if (!is_path(name))
        return arena_format(loader->arena, "%s/models/modules/%s.json", loader->search_directory,
                            name);
    const char *model_path = json_name(loader->model_file);
    const char *slash = strrchr(model_path, '/');
    if (name[0] == '/' || slash == NULL) return name;
    return arena_format(loader->arena, "%.*s/%s", (int)(slash - model_path), model_path, name);
}

/* `named` is the value that holds the module's name; `changes` may be NULL. */
static bool read_module_file(const struct loader *loader, const cJSON *named, const cJSON *changes,
                             enum module_role role, struct module_row *row) {
    const char *name = named->valuestring;
    const char *path = module_path(loader, name);
    if (access(path, F_OK) != 0) return missing_module(loader, named, name, path);
    struct json *file = json_load(path, loader->err);
    if (file == NULL) return false;
    note_file(loader, path);
    const struct module_place place = { file, json_root(file), loader->model_file, changes };
    bool ok = field_table_read(&module_table, file, place.object, row, loader->arena, loader->err);
    if (ok && row->base != NULL)
        ok = json_error(file, cJSON_GetObjectItemCaseSensitive(place.object, "module"), loader->err,
                        NULL, "a module file cannot start from another one");
    /* Before the changes, which may bring "sources" of their own. */
    ok = ok && check_sources(file, row->sources, loader->err) &&
         check_names(file, row->names, loader->err);
    row->sources = row->names = NULL;
    if (ok && changes != NULL)
        ok = read_changes(loader, changes, row) &&
             check_sources(loader->model_file, row->sources, loader->err) &&
             check_names(loader->model_file, row->names, loader->err);
    row->sources = row->names = NULL;
    ok = ok && resolve_module(loader, row, role, &place);
    json_destroy(file);
    return ok;
}

static bool read_module(const struct loader *loader, const cJSON *node, enum module_role role,
                        struct module *out) {
    struct module_row row = { 0 };
    bool ok;
    const cJSON *base = cJSON_GetObjectItemCaseSensitive(node, "module");
    if (cJSON_IsString(node)) {
        ok = read_module_file(loader, node, NULL, role, &row);
    } else if (cJSON_IsString(base)) {
        ok = read_module_file(loader, base, node, role, &row);
    } else if (cJSON_IsObject(node)) {
        const struct module_place place = { loader->model_file, node, NULL, NULL };
        ok = field_table_read(&module_table, loader->model_file, node, &row, loader->arena,
                              loader->err) &&
             resolve_module(loader, &row, role, &place);
    } else {
        ok = json_error(loader->model_file, node, loader->err, NULL,
                        "must be the name of a module or an object { ... }");
    }
    if (!ok)
        return error_context(loader->err, "while loading the %s module", module_role_name(role));
    *out = row.module;
    return true;
}

/* ---- connector and layers ---- */

static bool read_connector(const struct loader *loader, const cJSON *node, struct model *model) {
    struct connector_row row;
    if (!field_table_read(&connector_table, loader->model_file, node, &row, loader->arena,
                          loader->err))
        return false;
    struct module *vision = &model->modules[MODULE_VISION];
    int64_t side = vision->image_size / vision->patch_size;
    if (side % row.merge != 0) {
        const cJSON *merge = cJSON_GetObjectItemCaseSensitive(node, "merge");
        return json_error(loader->model_file, merge != NULL ? merge : node, loader->err,
                          "image_size / patch_size of the vision encoder",
                          "merge %lld must divide the %lld patches of a tile's side",
                          (long long)row.merge, (long long)side);
    }
    const int64_t in = (row.pool ? 1 : row.merge * row.merge) * vision->hidden;
    const int64_t out = model->modules[MODULE_LANGUAGE].hidden;
    vision->merge = row.merge;
    model->tile_language_tokens = (side / row.merge) * (side / row.merge);
    model->modules[MODULE_CONNECTOR] = (struct module){
        .role = MODULE_CONNECTOR,
        .name =
            arena_format(loader->arena, "connector %lld -> %lld", (long long)in, (long long)out),
        .precision = (enum precision)row.precision,
        .layer_count = 1,
        .hidden = out,
        .ffn = FFN_GELU,
        .norm = (enum norm_kind)row.norm_kind,
        .linear_bias = row.linear_bias,
        .merge = row.merge,
        .connector_in = in,
        .connector_inner = row.inner == INNER_NONE     ? 0
                           : row.inner == INNER_VISION ? in
                                                       : out,
        .connector_out = out,
        .connector_norm = row.norm,
        .connector_norm_before_merge = row.norm && row.norm_before_merge,
        .connector_pool = row.pool,
        .connector_input_norm = row.input_norm > 0,
        .connector_input_norm_kind =
            row.input_norm > 0 ? (enum norm_kind)(row.input_norm - 1) : NORM_LAYER,
        .source = row.source,
        .notes = row.notes,
    };
    return true;
}

/* `first`: the number of the first of these blocks in its module. */
static void add_blocks(struct model *model, enum layer_kind kind, enum module_role role,
                       int64_t first, int64_t count) {
    for (int64_t i = 0; i < count; i++)
        model->layers[model->layer_count++] =
            (struct layer){ kind, (int32_t)role, (int32_t)(first + i) };
}

static void add_layers(struct model *model, enum layer_kind kind, enum module_role role,
                       int64_t count) {
    add_blocks(model, kind, role, 0, count);
}

static void build_layers(struct arena *arena, struct model *model) {
    const struct module *m = model->modules;
    const int64_t decoder_blocks = m[MODULE_DIFFUSION_DECODER].layer_count;
    model->layers = arena_array(arena, struct layer,
                                m[MODULE_VISION].layer_count + m[MODULE_LANGUAGE].layer_count +
                                    decoder_blocks + 6);
    if (m[MODULE_VISION].layer_count > 0) {
        add_layers(model, LAYER_PATCH_EMBEDDING, MODULE_VISION, 1);
        add_layers(model, LAYER_VISION_BLOCK, MODULE_VISION, m[MODULE_VISION].layer_count);
    }
    add_layers(model, LAYER_CONNECTOR, MODULE_CONNECTOR, m[MODULE_CONNECTOR].layer_count);
    if (m[MODULE_LANGUAGE].layer_count > 0) {
        add_layers(model, LAYER_TOKEN_EMBEDDING, MODULE_LANGUAGE, 1);
        add_layers(model, LAYER_LANGUAGE_BLOCK, MODULE_LANGUAGE, m[MODULE_LANGUAGE].layer_count);
        if (decoder_blocks == 0 && !m[MODULE_LANGUAGE].headless)
            add_layers(model, LAYER_HEAD, MODULE_LANGUAGE, 1);
    }
    if (decoder_blocks > 0) {
        if (m[MODULE_DIFFUSION_DECODER].text_hidden > 0)
            add_layers(model, LAYER_TEXT_PROJECTION, MODULE_DIFFUSION_DECODER, 1);
        add_layers(model, LAYER_LATENT_EMBEDDING, MODULE_DIFFUSION_DECODER, 1);
        const int64_t joint = m[MODULE_DIFFUSION_DECODER].double_stream_blocks;
        if (m[MODULE_DIFFUSION_DECODER].text_attention == TEXT_ATTENTION_CROSS) {
            add_layers(model, LAYER_DIFFUSION_BLOCK, MODULE_DIFFUSION_DECODER, decoder_blocks);
        } else {
            add_blocks(model, LAYER_JOINT_BLOCK, MODULE_DIFFUSION_DECODER, 0, joint);
            add_blocks(model, LAYER_SINGLE_BLOCK, MODULE_DIFFUSION_DECODER, joint,
                       decoder_blocks - joint);
        }
        add_layers(model, LAYER_DIFFUSION_HEAD, MODULE_DIFFUSION_DECODER, 1);
    }
}

/* Of a decoder without text. */
static bool check_text_keys(const struct loader *loader, const cJSON *node,
                            const struct module *m) {
    const char *key = m->text_attention == TEXT_ATTENTION_JOINT ? "text_attention"
                      : m->text_refiner_blocks > 0              ? "text_refiner_blocks"
                                                                : NULL;
    if (key == NULL) return true;
    const cJSON *given = cJSON_GetObjectItemCaseSensitive(node, key);
    return json_error(loader->model_file, given != NULL ? given : node, loader->err,
                      "give \"text_hidden\", or a language model that encodes the text",
                      "\"%s\" of %s has no text", key, m->name);
}

static bool read_decoder(const struct loader *loader, const cJSON *node, struct model *model) {
    const struct module *language = &model->modules[MODULE_LANGUAGE];
    struct module *m = &model->modules[MODULE_DIFFUSION_DECODER];
    if (!read_module(loader, node, MODULE_DIFFUSION_DECODER, m)) return false;
    m->text_encoded = language->layer_count == 0;
    if (m->text_encoded) {
        m->text_hidden = m->text_hidden > 0 ? m->text_hidden : 0;
        if (m->text_hidden == 0 && !check_text_keys(loader, node, m)) return false;
        if (m->text_hidden > 0 || m->text_projection == TEXT_PROJECTION_NORM) return true;
        const cJSON *projection = cJSON_GetObjectItemCaseSensitive(node, "text_projection");
        return json_error(loader->model_file, projection != NULL ? projection : node, loader->err,
                          "give \"text_hidden\", or a language model that encodes the text",
                          "\"text_projection\" of %s has no text to project", m->name);
    }
    if (m->text_hidden > 0) {
        const cJSON *width = cJSON_GetObjectItemCaseSensitive(node, "text_hidden");
        return json_error(loader->model_file, width != NULL ? width : node, loader->err,
                          "leave out \"text_hidden\", or the language model",
                          "the language model \"%s\" encodes the text: its width is known",
                          language->name);
    }
    m->text_hidden = language->hidden;
    m->text_norm = language->norm;
    return true;
}

static const cJSON *given(const cJSON *node) {
    return cJSON_IsNull(node) ? NULL : node;
}

/* `node` is the object that defines the model, the root of a model file. */
static bool read_model(const struct loader *loader, const cJSON *node, struct model *model) {
    const struct json *file = loader->model_file;
    const cJSON *place = node == json_root(file) ? NULL : node; /* NULL: the whole document */
    struct model_row row;
    if (!field_table_read(&model_table, file, node, &row, loader->arena, loader->err)) return false;
    model->name = row.name;
    model->description = row.description;
    model->source = row.source;
    model->notes = row.notes;
    model->max_tiles = row.max_tiles > 0 ? row.max_tiles : 0;
    const cJSON *vision = given(row.vision), *language = given(row.language);
    const cJSON *connector = given(row.connector), *decoder = given(row.diffusion_decoder);
    if (decoder != NULL && language == NULL && vision != NULL)
        return json_error(file, decoder, loader->err, NULL,
                          "a diffusion decoder behind an encoder needs a language model between");
    if (vision == NULL && language == NULL && decoder == NULL)
        return json_error(file, place, loader->err, "add \"vision\", \"language\" or both",
                          "model \"%s\" has no module", row.name);
    bool both = vision != NULL && language != NULL;
    if (both && connector == NULL)
        return json_error(file, place, loader->err,
                          "for example \"connector\": { \"merge\": 2, \"source\": \"...\" }",
                          "\"connector\" is missing: vision encoder and language model need one");
    if (!both && connector != NULL)
        return json_error(file, connector, loader->err, NULL,
                          "a connector needs a vision encoder and a language model");
    if (vision != NULL) {
        struct module *m = &model->modules[MODULE_VISION];
        if (!read_module(loader, vision, MODULE_VISION, m)) return false;
        model->tile_vision_tokens = tile_tokens(m);
    }
    if (language != NULL &&
        !read_module(loader, language, MODULE_LANGUAGE, &model->modules[MODULE_LANGUAGE]))
        return false;
    if (both && !read_connector(loader, connector, model)) return false;
    if (decoder != NULL && !read_decoder(loader, decoder, model)) return false;
    build_layers(loader->arena, model);
    return true;
}

/* A module alone is no model: whoever names one may want a model of it. */
static void hint_of_models(struct arena *arena, const char *directory, const char *name,
                           struct error *err) {
    if (access(arena_format(arena, "%s/modules/%s.json", directory, name), F_OK) == 0)
        error_hint(
            err,
            "'%s' is a module; a model of it alone: \"model\": {\"definition\": {\"name\": \"%s\", "
            "\"source\": \"...\", \"language\": \"%s\"}}, or \"vision\" for an encoder",
            name, name, name);
    else
        hint_of_files(err, directory, name);
}

const struct model *model_load(struct arena *arena, const char *search_directory, const char *name,
                               struct error *err) {
    const char *path = name;
    if (!is_path(name)) {
        const char *directory = arena_format(arena, "%s/models", search_directory);
        path = arena_format(arena, "%s/%s.json", directory, name);
        if (access(path, F_OK) != 0) {
            error_set(err, "no model is called '%s' in %s", name, directory);
            hint_of_models(arena, directory, name, err);
            return NULL;
        }
    }
    struct json *file = json_load(path, err);
    if (file == NULL) return NULL;
    struct model *model = arena_new(arena, struct model);
    const struct loader loader = { arena, search_directory, file, err, model };
    note_file(&loader, path);
    bool ok = read_model(&loader, json_root(file), model);
    json_destroy(file);
    if (!ok) {
        error_context(err, "while loading model '%s'", name);
        return NULL;
    }
    return model;
}

const struct model *model_from_json(struct arena *arena, const char *search_directory,
                                    const struct json *json, const cJSON *node, struct error *err) {
    if (!cJSON_IsObject(node)) {
        json_error(json, node, err, "the keys of a model file: \"name\", \"language\", \"source\"",
                   "a model must be defined by an object { ... }");
        return NULL;
    }
    struct model *model = arena_new(arena, struct model);
    const struct loader loader = { arena, search_directory, json, err, model };
    return read_model(&loader, node, model) ? model : NULL;
}
