/* run_file.c - the same name, and for paths the same content. */
#include "results/run_file.h"

#include <cjson/cJSON.h>
#include <string.h>
#include "sim/base/file_place.h"

static const struct {
    const char *section, *key, *kind; /* of inputs */
} files[] = {
    [RUN_FILE_MODEL] = { "model", "name", "model" },
    [RUN_FILE_DATA] = { "dataset", "name", "data set" },
    [RUN_FILE_HARDWARE] = { "cluster", "hardware", NULL },
    [RUN_FILE_STACK] = { "layout", "stack", "stack" },
};

static const char *name_of(const cJSON *scenario, enum run_file which) {
    const char *name = cJSON_GetStringValue(cJSON_GetObjectItemCaseSensitive(
        cJSON_GetObjectItemCaseSensitive(scenario, files[which].section), files[which].key));
    return name != NULL ? name : "";
}

/* The next of a kind behind `at` (NULL: the first); NULL: none. */
static const cJSON *next_of_kind(const cJSON *list, const cJSON *at, const char *kind) {
    for (at = at == NULL ? (list != NULL ? list->child : NULL) : at->next; at != NULL;
         at = at->next) {
        const char *own = cJSON_GetStringValue(cJSON_GetObjectItemCaseSensitive(at, "kind"));
        if (own != NULL && strcmp(own, kind) == 0) return at;
    }
    return NULL;
}

static const char *content_of(const cJSON *input) {
    const char *hash = cJSON_GetStringValue(cJSON_GetObjectItemCaseSensitive(input, "sha256"));
    return hash != NULL ? hash
                        : cJSON_GetStringValue(cJSON_GetObjectItemCaseSensitive(input, "content"));
}

/* What either run does not tell is no difference. */
static bool differ_inside(const char *a, const char *b, const char *kind) {
    cJSON *left = a != NULL ? cJSON_Parse(a) : NULL, *right = b != NULL ? cJSON_Parse(b) : NULL;
    const cJSON *l = next_of_kind(left, NULL, kind), *r = next_of_kind(right, NULL, kind);
    bool differ = false;
    while (l != NULL && r != NULL && !differ) {
        const char *of_l = content_of(l), *of_r = content_of(r);
        differ = of_l != NULL && of_r != NULL && strcmp(of_l, of_r) != 0;
        l = next_of_kind(left, l, kind);
        r = next_of_kind(right, r, kind);
    }
    cJSON_Delete(left);
    cJSON_Delete(right);
    return differ;
}

static bool same_content(const struct run_record *a, const struct run_record *b,
                         enum run_file which) {
    if (which != RUN_FILE_HARDWARE) return !differ_inside(a->inputs, b->inputs, files[which].kind);
    return a->profile_id == NULL || b->profile_id == NULL ||
           strcmp(a->profile_id, b->profile_id) == 0;
}

bool run_same_file(const struct run_record *a, const struct run_record *b, enum run_file which) {
    cJSON *left = a->resolved_scenario != NULL ? cJSON_Parse(a->resolved_scenario) : NULL,
          *right = b->resolved_scenario != NULL ? cJSON_Parse(b->resolved_scenario) : NULL;
    const char *name = name_of(left, which);
    const bool same = left != NULL && right != NULL && strcmp(name, name_of(right, which)) == 0 &&
                      (!file_is_path(name) || same_content(a, b, which));
    cJSON_Delete(left);
    cJSON_Delete(right);
    return same;
}
