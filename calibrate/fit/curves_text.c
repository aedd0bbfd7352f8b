/* curves_text.c - a curves file as text: short lines where two profiles shall be compared. */
#include <stdlib.h>
#include <string.h>
#include "calibrate/fit/calibrate.h"
#include "costmodel/efficiency.h"
#include "sim/base/json.h"

struct text {
    char *bytes;
    size_t size, capacity;
};

static void text_add(struct text *text, const char *more, size_t indent) {
    const size_t size = strlen(more);
    if (text->size + size + indent + 1 > text->capacity) {
        text->capacity = 2 * (text->capacity + size + indent + 1);
        text->bytes = memory_realloc(text->bytes, text->capacity);
    }
    memset(text->bytes + text->size, ' ', indent);
    memcpy(text->bytes + text->size + indent, more, size + 1);
    text->size += indent + size;
}

/* Objects and lists of lists or objects get a line for each member; everything else stands on one.
 */
static void write_value(struct text *text, const cJSON *value, size_t indent) {
    const bool list_of_parts = cJSON_IsArray(value) && value->child &&
                               (cJSON_IsObject(value->child) || cJSON_IsArray(value->child));
    if (!cJSON_IsObject(value) && !list_of_parts) {
        char *plain = cJSON_PrintUnformatted(value);
        text_add(text, plain, 0);
        cJSON_free(plain);
        return;
    }
    text_add(text, cJSON_IsObject(value) ? "{\n" : "[\n", 0);
    for (const cJSON *item = value->child; item; item = item->next) {
        text_add(text, "", indent + 2);
        if (cJSON_IsObject(value)) {
            text_add(text, "\"", 0);
            text_add(text, item->string, 0);
            text_add(text, "\": ", 0);
        }
        write_value(text, item, indent + 2);
        text_add(text, item->next ? ",\n" : "\n", 0);
    }
    text_add(text, cJSON_IsObject(value) ? "}" : "]", indent);
}

char *calibrate_curves_text(const cJSON *curves) {
    struct text text = { .capacity = 1 << 16 };
    text.bytes = memory_alloc(text.capacity);
    write_value(&text, curves, 0);
    text_add(&text, "\n", 0);
    return text.bytes;
}

struct json *calibrate_curves_json(const cJSON *curves, const char *name, struct error *err) {
    char *text = calibrate_curves_text(curves);
    struct json *json = json_parse(name, text, strlen(text), err);
    free(text);
    return json;
}

bool calibrate_curves_check(struct arena *arena, const cJSON *curves, struct error *err) {
    struct efficiency read;
    struct json *json = calibrate_curves_json(curves, "the fitted curves", err);
    const bool ok = json && efficiency_read(json, arena, &read, err);
    json_destroy(json);
    return ok || error_hint(
                     err, "the rows that it was fitted on cannot all be right: see them beside the "
                          "shipped profile with `ballast calibrate check`");
}
