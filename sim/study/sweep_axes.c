/* sweep_axes.c - as many scenarios as there are values, each one of the sweep's own: an error here is one that
 * the sweep would meet. */
#include "sim/study/sweep_axes.h"

#include <string.h>

/* Of a long range the first and the last: what lies between differs in size alone. */
enum { VALUES_READ = 128 };

/* The value itself; the axis where a range makes it. */
static const cJSON *place_of(const struct sweep_file *file, int64_t axis, int64_t value) {
    const cJSON *vary = cJSON_GetObjectItemCaseSensitive(json_root(file->json), "vary");
    const cJSON *node = cJSON_GetArrayItem(vary, (int)axis);
    return cJSON_IsArray(node) ? cJSON_GetArrayItem(node, (int)value) : node;
}

/* "/layout/tp: must be ...", a hint on a line of its own: said at the value. An error inside another file has
 * its place. */
static bool locate(const struct sweep_file *file, int64_t axis, int64_t value, int64_t index,
                   const struct error *inner, struct error *err) {
    if (inner->located || inner->internal) {
        *err = *inner;
    } else {
        char text[1024], hint[1024] = "";
        snprintf(text, sizeof text, "%.*s", (int)strcspn(inner->text, "\n"), inner->text);
        const char *more = strstr(inner->text, "\n  hint: ");
        if (more != NULL) {
            more += strlen("\n  hint: ");
            snprintf(hint, sizeof hint, "%.*s", (int)strcspn(more, "\n"), more);
        }
        const char *said = strncmp(text, "error: ", 7) == 0 ? text + 7 : text;
        json_error(file->json, place_of(file, axis, value), err, hint[0] != '\0' ? hint : NULL,
                   "%s", said);
    }
    cJSON *object = sweep_file_assignments(file, index);
    char *assignments = cJSON_PrintUnformatted(object);
    error_context(err, "in configuration %ld of sweep \"%s\": %s", (long)index, file->name,
                  assignments);
    cJSON_free(assignments);
    cJSON_Delete(object);
    return false;
}

static bool read_value(const struct sweep_file *file, const struct scenario_options *options,
                       int64_t axis, int64_t value, struct error *err) {
    int64_t index = value;
    for (int64_t a = axis + 1; a < file->axis_count; a++)
        index *= file->axes[a].value_count;
    struct error inner = { 0 };
    struct json *json = sweep_file_scenario(file, index, &inner);
    struct scenario *s = json != NULL ? scenario_load_json(options, json, &inner) : NULL;
    const bool ok = s != NULL || inner.rule != NULL;
    scenario_destroy(s);
    return ok || locate(file, axis, value, index, &inner, err);
}

bool sweep_axes_check(const struct sweep_file *file, const struct scenario_options *options,
                      struct error *err) {
    for (int64_t a = 0; a < file->axis_count; a++) {
        const int64_t count = file->axes[a].value_count;
        for (int64_t v = 0; v < count; v++) {
            if (v == VALUES_READ && v < count - 1) v = count - 1;
            if (!read_value(file, options, a, v, err)) return false;
        }
    }
    return true;
}
