/* sweep_file.c - reading the description, and the configuration of an index in mixed radix. */
#include "sim/study/sweep/sweep_file.h"

#include <math.h>
#include <string.h>
#include <unistd.h>

#define CONFIGURATION_LIMIT 1e8

struct sweep_fields {
    const char *name, *description;
    const cJSON *scenario, *vary, *where;
    int objective;
    int64_t top, race_iterations;
    double deadline_days, budget_usd;
};

#define AT(member) offsetof(struct sweep_fields, member)
static const char *const objective_names[] = { "total_days", "gpu_days", "money_usd", NULL };
static const struct field fields[] = {
    { "name", FIELD_TEXT, AT(name), 0, 0, "null", "",
      "label in results; the file name when left out", NULL },
    { "description", FIELD_TEXT, AT(description), 0, 0, "null", "", "free text", NULL },
    { "scenario", FIELD_NODE, AT(scenario), 0, 0, NULL, "",
      "the scenario that is varied: a path relative to this file, a name in scenarios/examples, or "
      "the scenario itself",
      NULL },
    { "vary", FIELD_NODE, AT(vary), 0, 0, NULL, "",
      "path to values: a list, {\"range\": [from, to, step]} or {\"powers_of_two\": [from, to]}; "
      "\"a.b, c.d\" with a list of lists sets several together",
      NULL },
    { "where", FIELD_NODE, AT(where), 0, 0, "null", "",
      "conditions on the resolved scenario, for example \"layout.tp * layout.pp <= 32\"", NULL },
    { "objective", FIELD_CHOICE, AT(objective), 0, 0, "\"gpu_days\"", "",
      "what the best layouts have least of", objective_names },
    { "top", FIELD_COUNT, AT(top), 0, SWEEP_TOP_LIMIT, "10", "layouts",
      "the best that are replayed in full", NULL },
    { "race_iterations", FIELD_COUNT, AT(race_iterations), 1, 1e6, "1", "steps",
      "that every configuration is priced on: those of the epoch that hold most nearly what all "
      "hold",
      NULL },
    { "deadline_days", FIELD_DOUBLE, AT(deadline_days), 1e-6, 1e6, "null", "days",
      "only layouts that finish in time are ranked", NULL },
    { "budget_usd", FIELD_DOUBLE, AT(budget_usd), 1e-6, 1e12, "null", "USD",
      "only layouts that cost no more are ranked", NULL },
};
const struct field_table sweep_file_table = FIELD_TABLE("sweep", "a JSON object", fields);
#undef AT

struct sweep_reader {
    struct sweep_file *file;
    const struct scenario_options *options;
    struct error *err;
};

/* ---- axes ---- */

static bool read_number_pair(struct sweep_reader *r, const cJSON *node, double *from, double *to,
                             double *step) {
    int count = cJSON_GetArraySize(node);
    const cJSON *item;
    bool numbers = cJSON_IsArray(node) && count >= 2 && count <= (step != NULL ? 3 : 2);
    cJSON_ArrayForEach(item, node) numbers = numbers && cJSON_IsNumber(item);
    if (!numbers)
        return json_error(r->file->json, node, r->err, NULL, "must be [from, to%s]",
                          step != NULL ? ", step" : "");
    *from = cJSON_GetArrayItem(node, 0)->valuedouble;
    *to = cJSON_GetArrayItem(node, 1)->valuedouble;
    if (step != NULL && count == 3) *step = cJSON_GetArrayItem(node, 2)->valuedouble;
    if (step != NULL && !(*step > 0))
        return json_error(r->file->json, count == 3 ? cJSON_GetArrayItem(node, 2) : node, r->err,
                          "[from, to, step] counts from `from` up to `to`",
                          "the step must be above 0, got %.10g", *step);
    if (*from > *to)
        return json_error(r->file->json, node, r->err, NULL,
                          "must rise: from %.10g to %.10g gives nothing", *from, *to);
    return true;
}

/* The values that {"range": ...} or {"powers_of_two": ...} stands for, as a list kept with the
 * file; NULL: an error. */
static const cJSON *generated(struct sweep_reader *r, const cJSON *node) {
    const cJSON *child = node->child;
    const char *key = child != NULL ? child->string : "";
    double from = 0, to = 0, step = 1;
    bool range = strcmp(key, "range") == 0, powers = strcmp(key, "powers_of_two") == 0;
    if (cJSON_GetArraySize(node) != 1 || !(range || powers)) {
        json_error(r->file->json, node, r->err,
                   "a list, {\"range\": [from, to, step]} or {\"powers_of_two\": [from, to]}",
                   "these are no values");
        return NULL;
    }
    if (!read_number_pair(r, child, &from, &to, range ? &step : NULL)) return NULL;
    if (powers && !(from >= 1 && exp2(floor(log2(from))) == from)) {
        json_error(r->file->json, child, r->err, NULL, "%.10g is no power of two", from);
        return NULL;
    }
    double count = range ? floor((to - from) / step + 1e-9) + 1 : floor(log2(to / from)) + 1;
    if (count > 1e6) {
        json_error(r->file->json, child, r->err, NULL, "%.0f values are too many", count);
        return NULL;
    }
    cJSON *list = cJSON_CreateArray();
    for (int64_t i = 0; i < (int64_t)count; i++)
        cJSON_AddItemToArray(
            list, cJSON_CreateNumber(range ? from + (double)i * step : from * exp2((double)i)));
    /* Beside what was read, so that it is freed with it. */
    cJSON *root = json_root(r->file->json);
    cJSON_AddItemToObject(root, "generated", list);
    return list;
}

/* "a.b, c.d" */
static void split_paths(struct arena *arena, const char *text, struct sweep_axis *axis) {
    axis->path_count = 1;
    for (const char *c = text; *c != '\0'; c++)
        axis->path_count += *c == ',';
    axis->paths = arena_array(arena, const char *, axis->path_count);
    for (int64_t i = 0; i < axis->path_count; i++) {
        while (*text == ' ')
            text++;
        size_t length = strcspn(text, ",");
        axis->paths[i] = arena_format(arena, "%.*s", (int)length, text);
        char *end = (char *)axis->paths[i] + strlen(axis->paths[i]);
        while (end > axis->paths[i] && end[-1] == ' ')
            *--end = '\0';
        text += length + (text[length] == ',');
    }
}

static bool is_label(const char *path) {
    return strcmp(path, "name") == 0 || strcmp(path, "description") == 0;
}

static bool known_section(const char *path) {
    size_t length = strcspn(path, "."), count;
    if (is_label(path)) return false;
    const struct field_table *const *sections = scenario_sections(&count);
    for (size_t i = 0; i < count; i++)
        if (strlen(sections[i]->name) == length && strncmp(sections[i]->name, path, length) == 0)
            return true;
    return false;
}

/* Whether setting `above` sets `path` too. */
static bool is_at_or_below(const char *path, const char *above) {
    const size_t length = strlen(above);
    return strncmp(path, above, length) == 0 && (path[length] == '\0' || path[length] == '.');
}

static bool read_axis(struct sweep_reader *r, const cJSON *node, struct sweep_axis *axis) {
    struct sweep_file *file = r->file;
    split_paths(file->arena, node->string, axis);
    for (int64_t i = 0; i < axis->path_count; i++) {
        if (!known_section(axis->paths[i]))
            return json_error(file->json, node, r->err, "for example \"layout.tp\"",
                              is_label(axis->paths[i]) ? "\"%s\" is a label, and changes nothing"
                                                       : "\"%s\" is no field of a scenario",
                              axis->paths[i]);
        for (const struct sweep_axis *other = file->axes; other <= axis; other++)
            for (int64_t j = 0; j < (other < axis ? other->path_count : i); j++)
                if (strcmp(other->paths[j], axis->paths[i]) == 0)
                    return json_error(file->json, node, r->err, NULL, "\"%s\" is varied twice",
                                      axis->paths[i]);
                else if (is_at_or_below(other->paths[j], axis->paths[i]))
                    return json_error(file->json, node, r->err, NULL,
                                      "\"%s\" would replace \"%s\", which is varied too",
                                      axis->paths[i], other->paths[j]);
    }
    const cJSON *list = cJSON_IsObject(node) ? generated(r, node) : node;
    if (list == NULL) return false;
    if (!cJSON_IsArray(list))
        return json_error(
            file->json, node, r->err,
            "a list, {\"range\": [from, to, step]} or {\"powers_of_two\": [from, to]}",
            "must be values");
    axis->value_count = cJSON_GetArraySize(list);
    if (axis->value_count == 0)
        return json_error(file->json, node, r->err, NULL, "an empty list leaves nothing to do");
    axis->values = arena_array(file->arena, const cJSON *, axis->value_count * axis->path_count);
    int64_t v = 0;
    const cJSON *item;
    cJSON_ArrayForEach(item, list) {
        if (axis->path_count > 1 &&
            (!cJSON_IsArray(item) || cJSON_GetArraySize(item) != axis->path_count))
            return json_error(file->json, item, r->err, NULL, "must be a list of %ld values",
                              (long)axis->path_count);
        for (int64_t p = 0; p < axis->path_count; p++)
            axis->values[v * axis->path_count + p] =
                axis->path_count > 1 ? cJSON_GetArrayItem(item, (int)p) : item;
        v++;
    }
    return true;
}

static bool is_micro_batch(const struct sweep_axis *axis) {
    return axis->path_count == 1 && is_at_or_below(axis->paths[0], "training.micro_batch");
}

static bool read_axes(struct sweep_reader *r, const cJSON *vary) {
    struct sweep_file *file = r->file;
    if (!cJSON_IsObject(vary) || vary->child == NULL)
        return json_error(file->json, vary, r->err, "for example { \"layout.tp\": [1, 2, 4] }",
                          "must be an object of paths and values");
    file->axes = arena_array(file->arena, struct sweep_axis, cJSON_GetArraySize(vary));
    double count = 1;
    const cJSON *node;
    cJSON_ArrayForEach(node, vary) {
        struct sweep_axis *axis = &file->axes[file->axis_count];
        if (!read_axis(r, node, axis)) return false;
        file->varies_micro_batch = file->varies_micro_batch || is_micro_batch(axis);
        file->axis_count++;
        count *= (double)axis->value_count;
    }
    if (count > CONFIGURATION_LIMIT)
        return json_error(file->json, vary, r->err, "split the sweep",
                          "%.3g configurations are more than %.0g", count, CONFIGURATION_LIMIT);
    file->configuration_count = (int64_t)count;
    return true;
}

static bool read_conditions(struct sweep_reader *r, const cJSON *where) {
    struct sweep_file *file = r->file;
    if (where == NULL || cJSON_IsNull(where)) return true;
    if (!cJSON_IsArray(where))
        return json_error(file->json, where, r->err, NULL, "must be a list of conditions");
    file->conditions =
        arena_array(file->arena, const struct condition *, cJSON_GetArraySize(where) + 1);
    const cJSON *item;
    cJSON_ArrayForEach(item, where) {
        struct error inner = { 0 };
        const struct condition *condition =
            cJSON_IsString(item) ? condition_parse(file->arena, item->valuestring, &inner) : NULL;
        if (condition == NULL)
            return json_error(file->json, item, r->err, NULL, "%s",
                              inner.text[0] != '\0' ? inner.text : "must be a text");
        file->conditions[file->condition_count++] = condition;
    }
    return true;
}

/* ---- the scenario ---- */

static const char *beside(struct arena *arena, const char *file, const char *name) {
    const char *slash = strrchr(file, '/');
    return slash == NULL || name[0] == '/'
               ? arena_text(arena, name)
               : arena_format(arena, "%.*s/%s", (int)(slash - file), file, name);
}

static bool read_base(struct sweep_reader *r, const cJSON *node) {
    struct sweep_file *file = r->file;
    if (cJSON_IsObject(node)) {
        char *text = cJSON_PrintUnformatted(node);
        file->base = json_parse(json_name(file->json), text, strlen(text), r->err);
        cJSON_free(text);
    } else if (cJSON_IsString(node) && node->valuestring[0] != '\0') {
        const char *path = beside(file->arena, json_name(file->json), node->valuestring);
        if (access(path, F_OK) != 0)
            path = arena_format(file->arena, "%s/examples/%s.json", r->options->directory,
                                node->valuestring);
        if (access(path, F_OK) != 0)
            return json_error(file->json, node, r->err,
                              "a path relative to the sweep, or a name in scenarios/examples",
                              "there is no scenario \"%s\"", node->valuestring);
        file->base = json_load(path, r->err);
    } else {
        return json_error(file->json, node, r->err,
                          "a path relative to the sweep, a name in scenarios/examples, or { ... }",
                          "must be a path or a scenario");
    }
    if (file->base == NULL || !scenario_change(r->options, file->base, r->err)) return false;
    scenario_settle_paths(file->base);
    return true;
}

static bool check_paths(struct sweep_reader *r) {
    struct sweep_file *file = r->file;
    struct json *trial = json_copy(file->base);
    bool ok = true;
    const cJSON *vary = cJSON_GetObjectItemCaseSensitive(json_root(file->json), "vary");
    const cJSON *node = vary->child;
    for (int64_t a = 0; ok && a < file->axis_count; a++, node = node->next)
        for (int64_t p = 0; ok && p < file->axes[a].path_count; p++)
            if (!json_assign(trial, file->axes[a].paths[p], file->axes[a].values[p]))
                ok = json_error(file->json, node, r->err,
                                "what stands above it there is no object: vary that itself, or "
                                "write it as one",
                                "\"%s\" leads nowhere in the scenario", file->axes[a].paths[p]);
    json_destroy(trial);
    return ok;
}

/* A change of --set or --unset that every configuration would take back. */
static bool check_changes(struct sweep_reader *r, const char *option, const char *const *changes) {
    const struct sweep_file *file = r->file;
    for (; changes != NULL && *changes != NULL; changes++) {
        const char *path = arena_format(file->arena, "%.*s", (int)strcspn(*changes, "="), *changes);
        for (int64_t a = 0; a < file->axis_count; a++)
            for (int64_t p = 0; p < file->axes[a].path_count; p++)
                if (is_at_or_below(path, file->axes[a].paths[p])) {
                    error_set(r->err, "%s %s: the sweep varies \"%s\" itself", option, *changes,
                              file->axes[a].paths[p]);
                    return error_hint(r->err, "change \"vary\" in %s", json_name(file->json));
                }
    }
    return true;
}

/* Labels and what is only chosen from the rows are left out. */
static const char *definition_of(const struct sweep_file *file, const struct sweep_fields *f) {
    cJSON *object = cJSON_CreateObject();
    cJSON *scenario = cJSON_Duplicate(json_root(file->base), 1);
    cJSON_DeleteItemFromObjectCaseSensitive(scenario, "name");
    cJSON_DeleteItemFromObjectCaseSensitive(scenario, "description");
    cJSON_AddItemToObject(object, "scenario", scenario);
    cJSON_AddItemToObject(object, "vary", cJSON_Duplicate(f->vary, 1));
    cJSON *where = cJSON_AddArrayToObject(object, "where");
    for (int64_t i = 0; i < file->condition_count; i++)
        cJSON_AddItemToArray(where, cJSON_CreateString(condition_text(file->conditions[i])));
    cJSON_AddNumberToObject(object, "race_iterations", (double)f->race_iterations);
    char *text = cJSON_PrintUnformatted(object);
    const char *kept = arena_text(file->arena, text);
    cJSON_free(text);
    cJSON_Delete(object);
    return kept;
}

static const char *stem(struct arena *arena, const char *path) {
    const char *slash = strrchr(path, '/');
    char *text = arena_text(arena, slash != NULL ? slash + 1 : path);
    char *dot = strrchr(text, '.');
    if (dot != NULL && dot != text) *dot = '\0';
    for (char *c = text; *c != '\0'; c++)
        if ((unsigned char)*c < 32 || *c == 127) *c = '?'; /* a name stands in tables */
    return text;
}

static bool read_file(struct sweep_reader *r) {
    struct sweep_file *file = r->file;
    struct sweep_fields f;
    const cJSON *root = json_root(file->json);
    if (cJSON_HasObjectItem(root, "model") && !cJSON_HasObjectItem(root, "vary"))
        return json_error(file->json, root, r->err,
                          "`ballast run` runs it; a sweep is { \"scenario\": ..., \"vary\": ... }",
                          "this is a scenario, not a sweep");
    if (!field_table_read(&sweep_file_table, file->json, json_root(file->json), &f, file->arena,
                          r->err))
        return false;
    file->name = f.name != NULL ? f.name : stem(file->arena, json_name(file->json));
    file->description = f.description;
    file->objective = f.objective;
    file->top = f.top;
    file->race_iterations = f.race_iterations;
    file->deadline_days = f.deadline_days;
    file->budget_usd = f.budget_usd;
    if (!read_base(r, f.scenario) || !read_axes(r, f.vary) || !read_conditions(r, f.where) ||
        !check_paths(r) || !check_changes(r, "--set", r->options->overrides) ||
        !check_changes(r, "--unset", r->options->removals))
        return false;
    file->definition = definition_of(file, &f);
    return true;
}

struct sweep_file *sweep_file_load(const struct scenario_options *options, const char *path,
                                   struct error *err) {
    struct json *json = scenario_document(options->directory, "sweep", path, err);
    if (json == NULL) return NULL;
    struct arena *arena = arena_create();
    struct sweep_file *file = arena_new(arena, struct sweep_file);
    file->arena = arena;
    file->json = json;
    struct sweep_reader reader = { file, options, err };
    if (read_file(&reader)) return file;
    sweep_file_destroy(file);
    return NULL;
}

void sweep_file_destroy(struct sweep_file *file) {
    if (file == NULL) return;
    json_destroy(file->json);
    json_destroy(file->base);
    arena_destroy(file->arena);
}

const char *sweep_file_objective(const struct sweep_file *file) {
    return objective_names[file->objective];
}

/* ---- configurations ---- */

int64_t sweep_file_value_index(const struct sweep_file *file, int64_t axis, int64_t index) {
    for (int64_t a = file->axis_count - 1; a > axis; a--)
        index /= file->axes[a].value_count;
    return index % file->axes[axis].value_count;
}

int64_t sweep_file_without_micro_batch(const struct sweep_file *file, int64_t index) {
    int64_t stride = 1, first = index;
    for (int64_t a = file->axis_count - 1; a >= 0; a--) {
        if (is_micro_batch(&file->axes[a]))
            first -= stride * sweep_file_value_index(file, a, index);
        stride *= file->axes[a].value_count;
    }
    return first;
}

struct json *sweep_file_scenario(const struct sweep_file *file, int64_t index, struct error *err) {
    struct json *json = json_copy(file->base);
    for (int64_t a = 0; a < file->axis_count; a++) {
        const struct sweep_axis *axis = &file->axes[a];
        int64_t v = sweep_file_value_index(file, a, index);
        for (int64_t p = 0; p < axis->path_count; p++)
            if (!json_assign(json, axis->paths[p], axis->values[v * axis->path_count + p])) {
                json_destroy(json);
                error_set(err, "\"%s\" leads nowhere in configuration %ld", axis->paths[p],
                          (long)index);
                return NULL;
            }
    }
    return json;
}

cJSON *sweep_file_assignments(const struct sweep_file *file, int64_t index) {
    cJSON *object = cJSON_CreateObject();
    for (int64_t a = 0; a < file->axis_count; a++) {
        const struct sweep_axis *axis = &file->axes[a];
        int64_t v = sweep_file_value_index(file, a, index);
        for (int64_t p = 0; p < axis->path_count; p++)
            cJSON_AddItemToObject(object, axis->paths[p],
                                  cJSON_Duplicate(axis->values[v * axis->path_count + p], 1));
    }
    return object;
}
