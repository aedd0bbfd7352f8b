/* sweep_label.c - short words for paths and values of a scenario. */
#include "results/sweep_label.h"

#include <stdbool.h>
#include <string.h>

const char *sweep_label_key(struct arena *arena, const char *path) {
    const char *dot = strrchr(path, '.'), *key = dot != NULL ? dot + 1 : path;
    if (dot == NULL || (strcmp(key, "samples") != 0 && strcmp(key, "micro_batches") != 0 &&
                        strcmp(key, "name") != 0))
        return key;
    const char *begin = dot;
    while (begin > path && begin[-1] != '.')
        begin--;
    return arena_format(arena, "%.*s", (int)(dot - begin), begin);
}

static const char *short_value(struct arena *arena, const cJSON *value) {
    if (cJSON_IsObject(value)) {
        const cJSON *name = cJSON_GetObjectItemCaseSensitive(value, "name");
        value = name != NULL ? name : value->child != NULL ? value->child : value;
    }
    if (cJSON_IsString(value)) return value->valuestring;
    char *text = cJSON_PrintUnformatted(value);
    const char *kept = arena_text(arena, text);
    cJSON_free(text);
    return kept;
}

const char *sweep_label_value(struct arena *arena, const cJSON *value, const cJSON *const *values,
                              int64_t value_count, int64_t stride) {
    const char *name = short_value(arena, value), *text = arena_text(arena, name);
    const cJSON *parameters = cJSON_IsObject(value) ? value : NULL, *parameter;
    cJSON_ArrayForEach(parameter, parameters) {
        bool differs = false;
        for (int64_t v = 0; v < value_count && !differs; v++) {
            const cJSON *other = values[v * stride];
            differs = strcmp(short_value(arena, other), name) == 0 &&
                      !cJSON_Compare(parameter,
                                     cJSON_GetObjectItemCaseSensitive(other, parameter->string), 1);
        }
        if (!differs || strcmp(parameter->string, "name") == 0) continue;
        char *printed = cJSON_PrintUnformatted(parameter);
        text = arena_format(arena, "%s %s %s", text, parameter->string, printed);
        cJSON_free(printed);
    }
    return text;
}
