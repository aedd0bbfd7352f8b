/* figure_sources.c - all figures without a source are told at once: a new file has many. */
#include "costmodel/figure_sources.h"

#include <stdio.h>
#include <string.h>

static bool lacks_source(const cJSON *item, const cJSON *sources) {
    const cJSON *source = cJSON_GetObjectItemCaseSensitive(sources, item->string);
    return !cJSON_IsString(source) || source->valuestring[0] == '\0';
}

bool figure_sources_check(const struct json *json, const cJSON *sources,
                          bool (*is_figure)(const cJSON *item), struct error *err) {
    const cJSON *item, *first = NULL;
    char others[512] = "";
    size_t used = 0;
    if (!cJSON_IsObject(sources))
        return json_error(json, sources, err, NULL, "must be an object: figure, then its source");
    cJSON_ArrayForEach(item, json_root(json)) {
        if (!is_figure(item) || !lacks_source(item, sources)) continue;
        if (first == NULL) {
            first = item;
            continue;
        }
        const char *comma = used > 0 ? ", " : "add it to \"sources\", and those of ";
        if (used + strlen(comma) + strlen(item->string) + sizeof " and others" > sizeof others) {
            strcpy(others + used, " and others");
            break;
        }
        used += (size_t)snprintf(others + used, sizeof others - used, "%s%s", comma, item->string);
    }
    return first == NULL ||
           json_error(json, first, err, others[0] != '\0' ? others : "add it to \"sources\"",
                      "has no source; every figure needs one");
}
