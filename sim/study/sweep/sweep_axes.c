/* sweep_axes.c - as many scenarios as there are values, each one of the sweep's own: an error here
 * is one that the sweep would meet. */
#include "sim/study/sweep/sweep_axes.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

/* Of a long range the first and the last: what lies between differs in size alone. */
enum { VALUES_READ = 128 };

/* The value itself; the axis where a range makes it. */
static const cJSON *place_of(const struct sweep_file *file, int64_t axis, int64_t value) {
    const cJSON *vary = cJSON_GetObjectItemCaseSensitive(json_root(file->json), "vary");
    const cJSON *node = cJSON_GetArrayItem(vary, (int)axis);
    return cJSON_IsArray(node) ? cJSON_GetArrayItem(node, (int)value) : node;
}

/* The node that a path of an error ("/layout/tp") leads to, or as far as there is one; *rest is
 * what of the path is left. */
static const cJSON *follow(const cJSON *at, const char *path, const char **rest) {
    while (*path == '/') {
        char key[128];
        const size_t length = strcspn(path + 1, "/");
        if (length == 0 || length >= sizeof key) break;
        memcpy(key, path + 1, length);
        key[length] = '\0';
        const cJSON *child = cJSON_IsArray(at) ? cJSON_GetArrayItem(at, atoi(key))
                                               : cJSON_GetObjectItemCaseSensitive(at, key);
        if (child == NULL) break;
        at = child;
        path += 1 + length;
    }
    *rest = path;
    return at;
}

enum { NO_AXIS = -1 };

/* The axis that gives what stands at the path of an error; *whole: the path is the axis' own. */
static int64_t axis_of(const struct sweep_file *file, const char *path, bool *whole) {
    for (int64_t a = 0; a < file->axis_count; a++)
        for (int64_t p = 0; p < file->axes[a].path_count; p++) {
            const char *at = path, *part = file->axes[a].paths[p];
            for (; *part != '\0' && *at != '\0'; part++)
                if (*++at != *part && !(*part == '.' && *at == '/')) break;
            *whole = at[0] == '\0' || at[1] == '\0';
            if (*part == '\0' && (*whole || at[1] == '/')) return a;
        }
    return NO_AXIS;
}

/* Where the sweep gives what an error is about: the key of an axis that nothing knows, otherwise
 * the value of the axis whose path it is; without one, that of the axis that is being read. */
static const cJSON *blame(const struct sweep_file *file, const char *path, const char *said,
                          int64_t axis, int64_t value, int64_t index) {
    bool whole = false;
    const int64_t own = axis_of(file, path, &whole);
    if (own == NO_AXIS) return place_of(file, axis, value);
    const bool is_key = whole && (strncmp(said, "unknown key", strlen("unknown key")) == 0 ||
                                  strncmp(said, "unknown unit", strlen("unknown unit")) == 0);
    if (!is_key) return place_of(file, own, sweep_file_value_index(file, own, index));
    const cJSON *vary = cJSON_GetObjectItemCaseSensitive(json_root(file->json), "vary");
    return cJSON_GetArrayItem(vary, (int)own);
}

/* "/layout/tp: must be ...": the path of it, "" where it begins otherwise; *said is what comes
 * after. */
static void split_path(const char *text, char *path, size_t size, const char **said) {
    const size_t length = text[0] == '/' ? strcspn(text, ": \n") : 0;
    const bool found = length > 0 && length < size && strncmp(text + length, ": ", 2) == 0;
    snprintf(path, size, "%.*s", found ? (int)length : 0, text);
    *said = found ? text + length + 2 : text;
}

/* What no axis gives stands in the scenario: in its own file, in this one, or in --set. */
static bool locate_in_base(const struct sweep_file *file, const char *path, const char *hint,
                           const char *said, struct error *err) {
    const cJSON *inside = cJSON_GetObjectItemCaseSensitive(json_root(file->json), "scenario");
    const char *rest;
    const struct json *json = file->base;
    const cJSON *node = follow(json_root(file->base), strcmp(path, "/") == 0 ? "" : path, &rest);
    if (cJSON_IsObject(inside) && !json_is_overridden(file->base, node)) {
        json = file->json;
        node = follow(inside, strcmp(path, "/") == 0 ? "" : path, &rest);
    }
    return json_error(json, node, err, hint, "%s%s%s", rest, rest[0] != '\0' ? ": " : "", said);
}

/* "/layout/tp: must be ...", a hint on a line of its own: said where the value is given. An error
 * inside another file has its place. */
static bool locate(const struct sweep_file *file, int64_t axis, int64_t value, int64_t index,
                   const struct error *inner, struct error *err) {
    bool in_base = false;
    if (inner->located || inner->internal) {
        *err = *inner;
    } else {
        char text[1024], hint[1024] = "", path[256];
        snprintf(text, sizeof text, "%.*s", (int)strcspn(inner->text, "\n"), inner->text);
        const char *more = strstr(inner->text, "\n  hint: ");
        if (more != NULL) {
            more += strlen("\n  hint: ");
            snprintf(hint, sizeof hint, "%.*s", (int)strcspn(more, "\n"), more);
        }
        const char *said = strncmp(text, "error: ", 7) == 0 ? text + 7 : text, *rest;
        split_path(said, path, sizeof path, &rest);
        bool whole;
        in_base = index == 0 && path[0] != '\0' && axis_of(file, path, &whole) == NO_AXIS;
        if (in_base)
            locate_in_base(file, path, hint[0] != '\0' ? hint : NULL, rest, err);
        else
            json_error(file->json, blame(file, path, rest, axis, value, index), err,
                       hint[0] != '\0' ? hint : NULL, "%s", said);
    }
    if (in_base) return error_context(err, "in the scenario of sweep \"%s\"", file->name);
    cJSON *object = sweep_file_assignments(file, index);
    char *assignments = cJSON_PrintUnformatted(object);
    error_context(err, "in configuration %ld of sweep \"%s\": %s", (long)index, file->name,
                  assignments);
    cJSON_free(assignments);
    cJSON_Delete(object);
    return false;
}

/* What the readable values say of prices. */
struct prices {
    bool any_read, any, on_demand;
};

static bool read_value(const struct sweep_file *file, const struct scenario_options *options,
                       int64_t axis, int64_t value, struct prices *prices, struct error *err) {
    int64_t index = value;
    for (int64_t a = axis + 1; a < file->axis_count; a++)
        index *= file->axes[a].value_count;
    struct error inner = { 0 };
    struct json *json = sweep_file_scenario(file, index, &inner);
    struct scenario *s = json != NULL ? scenario_load_json(options, json, &inner) : NULL;
    const bool ok = s != NULL || inner.rule != NULL;
    if (s != NULL) {
        prices->any_read = true;
        prices->any = prices->any || !isnan(s->cluster_fields.price_usd_per_gpu_hour);
        prices->on_demand =
            prices->on_demand || !isnan(s->cluster_fields.on_demand_usd_per_gpu_hour);
    }
    scenario_destroy(s);
    return ok || locate(file, axis, value, index, &inner, err);
}

/* Money asked about where nothing has a price: every layout would keep a budget, none could be
 * ranked. */
static bool check_prices(const struct sweep_file *file, const struct prices *prices,
                         struct error *err) {
    const bool ranks = file->objective == SWEEP_MONEY, limits = !isnan(file->budget_usd);
    if (!prices->any_read || prices->any || !(ranks || limits)) return true;
    const char *hint = prices->on_demand
                           ? "the on-demand price is shown beside it and ranks nothing; give "
                             "\"cluster\" a \"price_usd_per_gpu_hour\""
                           : "give \"cluster\" a \"price_usd_per_gpu_hour\"";
    const cJSON *root = json_root(file->json);
    const cJSON *node = cJSON_GetObjectItemCaseSensitive(root, ranks ? "objective" : "budget_usd");
    if (node != NULL)
        return json_error(file->json, node, err, hint,
                          "needs cluster.price_usd_per_gpu_hour, which no configuration has");
    error_set(err, "a budget needs cluster.price_usd_per_gpu_hour, which no configuration has");
    return error_hint(err, "%s", hint);
}

bool sweep_axes_check(const struct sweep_file *file, const struct scenario_options *options,
                      struct error *err) {
    struct prices prices = { 0 };
    for (int64_t a = 0; a < file->axis_count; a++) {
        const int64_t count = file->axes[a].value_count;
        for (int64_t v = 0; v < count; v++) {
            if (v == VALUES_READ && v < count - 1) v = count - 1;
            if (!read_value(file, options, a, v, &prices, err)) return false;
        }
    }
    return check_prices(file, &prices, err);
}

/* The values that an axis gives this path; 0: no axis does. */
static int64_t values_of(const struct sweep_file *file, const char *path) {
    for (int64_t a = 0; a < file->axis_count; a++)
        for (int64_t p = 0; p < file->axes[a].path_count; p++)
            if (strcmp(file->axes[a].paths[p], path) == 0) return file->axes[a].value_count;
    return 0;
}

const char *sweep_axes_price_warning(const struct sweep_file *file) {
    const cJSON *cluster = cJSON_GetObjectItemCaseSensitive(json_root(file->base), "cluster");
    const cJSON *price = cJSON_GetObjectItemCaseSensitive(cluster, "price_usd_per_gpu_hour");
    if (!cJSON_IsNumber(price) || values_of(file, "cluster.price_usd_per_gpu_hour") > 0)
        return NULL;
    const cJSON *hardware = cJSON_GetObjectItemCaseSensitive(cluster, "hardware");
    const char *before = json_text_before(file->base, hardware);
    const bool same =
        before != NULL && cJSON_IsString(hardware) && strcmp(before, hardware->valuestring) == 0;
    const bool swapped =
        json_is_overridden(file->base, hardware) && !same && !json_is_overridden(file->base, price);
    const bool varied =
        values_of(file, "cluster.hardware") > 1 || values_of(file, "cluster.name") > 1;
    if (!varied && !swapped) return NULL;
    return arena_format(file->arena,
                        "one price, %.10g USD a GPU-hour, for every GPU: vary \"cluster.hardware, "
                        "cluster.price_usd_per_gpu_hour\" together",
                        price->valuedouble);
}
