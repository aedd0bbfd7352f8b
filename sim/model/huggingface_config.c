/* huggingface_config.c - keys of a config.json with the defaults of their class. */
#include "sim/model/huggingface_config.h"

#include <math.h>
#include <string.h>

enum { COUNT_LIMIT = 100000000 };

const cJSON *huggingface_key(const cJSON *object, const char *key) {
    const cJSON *node = cJSON_GetObjectItemCaseSensitive(object, key);
    return cJSON_IsNull(node) ? NULL : node;
}

/* Sizes may be given as height and width. */
static bool is_size(const cJSON *node) {
    const size_t length = strlen(node->string);
    return length > 5 && strcmp(node->string + length - 5, "_size") == 0;
}

static bool read_count(struct huggingface_config *c, const cJSON *node, int64_t *out) {
    const cJSON *value =
        cJSON_IsArray(node) && node->child != NULL && is_size(node) ? node->child : node;
    for (const cJSON *other = value->next; value != node && other != NULL; other = other->next)
        if (!cJSON_IsNumber(other) || other->valuedouble != value->valuedouble)
            return json_error(c->json, node, c->err, NULL, "only square sizes are modelled");
    if (!cJSON_IsNumber(value) || value->valuedouble != floor(value->valuedouble) ||
        value->valuedouble < 1 || value->valuedouble > COUNT_LIMIT)
        return json_error(c->json, node, c->err, NULL, "must be a whole number of 1 to %d",
                          COUNT_LIMIT);
    *out = (int64_t)value->valuedouble;
    return true;
}

bool huggingface_count_or(struct huggingface_config *c, const cJSON *object, const char *key,
                          int64_t derived, int64_t *out) {
    const cJSON *node = huggingface_key(object, key);
    *out = derived;
    return node == NULL || read_count(c, node, out);
}

bool huggingface_count(struct huggingface_config *c, const cJSON *object, const char *key,
                       int64_t fallback, int64_t *out) {
    if (huggingface_key(object, key) == NULL) {
        if (fallback == 0)
            return json_error(c->json, object, c->err, NULL, "\"%s\" is missing", key);
        c->assumed = arena_format(c->arena, "%s%s%s %lld", c->assumed != NULL ? c->assumed : "",
                                  c->assumed != NULL ? ", " : "", key, (long long)fallback);
    }
    return huggingface_count_or(c, object, key, fallback, out);
}

bool huggingface_check_heads(struct huggingface_config *c, const cJSON *object,
                             const char *heads_key, int64_t heads, const char *width_key,
                             int64_t width) {
    if (width % heads == 0) return true;
    const cJSON *node = huggingface_key(object, heads_key);
    return json_error(c->json, node != NULL ? node : object, c->err, NULL,
                      "%s %lld does not divide %s %lld", heads_key, (long long)heads, width_key,
                      (long long)width);
}

bool huggingface_flag(struct huggingface_config *c, const cJSON *object, const char *key,
                      bool fallback, bool *out) {
    const cJSON *node = huggingface_key(object, key);
    if (node != NULL && !cJSON_IsBool(node))
        return json_error(c->json, node, c->err, NULL, "must be true or false");
    *out = node == NULL ? fallback : cJSON_IsTrue(node);
    return true;
}

const char *huggingface_text(const cJSON *object, const char *key, const char *fallback) {
    const cJSON *node = huggingface_key(object, key);
    return cJSON_IsString(node) ? node->valuestring : fallback;
}

bool huggingface_refuse(struct huggingface_config *c, const char *key, const char *why,
                        const char *hint) {
    const cJSON *root = json_root(c->json), *node = cJSON_GetObjectItemCaseSensitive(root, key);
    return json_error(c->json, node != NULL ? node : root, c->err, hint, "%s", why);
}

const char *huggingface_module_name(const cJSON *object, const char *model_type) {
    const char *name = huggingface_text(object, "_name_or_path", "");
    return name[0] != '\0' ? name : model_type;
}

void huggingface_note(struct huggingface_config *c, const char *note) {
    ballast_check(c->out->note_count < HUGGINGFACE_LIST_LIMIT);
    c->out->notes[c->out->note_count++] = note;
}

void huggingface_note_defaults(struct huggingface_config *c, const char *model_type) {
    if (c->assumed != NULL)
        huggingface_note(c, arena_format(c->arena, "not in the file, defaults of \"%s\": %s",
                                         model_type, c->assumed));
    c->assumed = NULL;
}

void huggingface_leave_out(struct huggingface_config *c, const char *what, int64_t parameters) {
    if (parameters == 0) return;
    ballast_check(c->out->left_out_count < HUGGINGFACE_LIST_LIMIT);
    c->out->left_out[c->out->left_out_count++] = (struct huggingface_left_out){ what, parameters };
}
