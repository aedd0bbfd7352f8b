/* reproduction.c - reads tables, runs each scenario once, picks the quantities.
 *
 * A quantity is one row of the table below: how to read it from an execution. */
#include "sim/study/reproduction.h"

#include <dirent.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>
#include "sim/base/field.h"
#include "sim/base/units.h"

/* ---- quantities ---- */

static double gpu_days(const struct execution *e) {
    return e->replay->gpu_days;
}

static double average_batch_size(const struct execution *e) {
    return e->job->balance.average_batch_size;
}

/* The papers count patches, not class tokens: 1K for a tile of 448 pixels. */
static double max_vision_tokens(const struct execution *e) {
    const struct module *vision = &e->scenario->model->modules[MODULE_VISION];
    int64_t patches = e->scenario->model->tile_vision_tokens - vision->class_token;
    return (double)(e->job->balance.max_vision_tiles * patches);
}

static double max_language_tokens(const struct execution *e) {
    return (double)e->job->balance.max_language_tokens;
}

static double pad_ratio(const struct execution *e) {
    return e->job->balance.pad_ratio;
}

static double dist_ratio_vision(const struct execution *e) {
    return e->job->balance.dist_ratio_vision;
}

static double dist_ratio_language(const struct execution *e) {
    return e->job->balance.dist_ratio_language;
}

/* The papers tick a method as balanced when neither padding nor either dist ratio is large; all
 * their ticks agree with one fifth as the limit. */
static double balanced(const struct execution *e) {
    const struct batch_balance *b = &e->job->balance;
    return b->pad_ratio <= 0.2 && b->dist_ratio_vision <= 0.2 && b->dist_ratio_language <= 0.2;
}

static const struct quantity {
    const char *name, *unit;
    double (*of)(const struct execution *execution);
    bool timed; /* carries the cost model's band */
} quantities[] = {
    { "average_batch_size", "samples", average_batch_size, false },
    { "balanced", "ratio", balanced, false },
    { "dist_ratio_language", "ratio", dist_ratio_language, false },
    { "dist_ratio_vision", "ratio", dist_ratio_vision, false },
    { "gpu_days", "gpu-day", gpu_days, true },
    { "max_language_tokens", "tokens", max_language_tokens, false },
    { "max_vision_tokens", "tokens", max_vision_tokens, false },
    { "pad_ratio", "ratio", pad_ratio, false },
};
enum { QUANTITY_COUNT = sizeof quantities / sizeof quantities[0] };

static const char *quantity_name(const void *names, size_t index) {
    (void)names;
    return quantities[index].name;
}

/* ---- table files ---- */

struct table_fields {
    const char *paper, *table, *source, *note;
    const cJSON *assumptions, *rows;
};

struct row_fields {
    const char *row, *scenario, *reading, *note;
    const cJSON *values;
};

struct value_fields {
    const char *quantity, *note;
    double paper;
    bool calibrated_on;
};

#define AT(type, member) offsetof(struct type, member)
static const struct field table_rows[] = {
    { "paper", FIELD_TEXT, AT(table_fields, paper), 0, 0, NULL, "", "short name of the paper",
      NULL },
    { "table", FIELD_TEXT, AT(table_fields, table), 0, 0, NULL, "", "short name of the table",
      NULL },
    { "source", FIELD_TEXT, AT(table_fields, source), 0, 0, NULL, "", "where the paper prints it",
      NULL },
    { "note", FIELD_TEXT, AT(table_fields, note), 0, 0, "null", "", "what a reader must know",
      NULL },
    { "assumptions", FIELD_NODE, AT(table_fields, assumptions), 0, 0, "null", "",
      "list of unstated inputs", NULL },
    { "rows", FIELD_NODE, AT(table_fields, rows), 0, 0, NULL, "", "list of rows", NULL },
};
static const struct field_table table_table =
    FIELD_TABLE("table", "a table of a paper", table_rows);
static const struct field row_rows[] = {
    { "row", FIELD_TEXT, AT(row_fields, row), 0, 0, NULL, "", "short name of the row", NULL },
    { "scenario", FIELD_TEXT, AT(row_fields, scenario), 0, 0, NULL, "",
      "scenario file beside the table", NULL },
    { "reading", FIELD_TEXT, AT(row_fields, reading), 0, 0, "null", "",
      "which reading of an unclear text", NULL },
    { "note", FIELD_TEXT, AT(row_fields, note), 0, 0, "null", "", "what a reader must know", NULL },
    { "values", FIELD_NODE, AT(row_fields, values), 0, 0, NULL, "", "list of printed values",
      NULL },
};
static const struct field_table row_table = FIELD_TABLE("row", "a row of a table", row_rows);
static const struct field value_rows[] = {
    { "quantity", FIELD_TEXT, AT(value_fields, quantity), 0, 0, NULL, "", "what the number is",
      NULL },
    { "paper", FIELD_DOUBLE, AT(value_fields, paper), 0, 0, NULL, "", "the printed number", NULL },
    { "calibrated_on", FIELD_BOOL, AT(value_fields, calibrated_on), 0, 0, "false", "",
      "a constant was fitted to it", NULL },
    { "note", FIELD_TEXT, AT(value_fields, note), 0, 0, "null", "", "what a reader must know",
      NULL },
};
static const struct field_table value_table = FIELD_TABLE("value", "a printed value", value_rows);

/* ---- running ---- */

struct cached {
    const char *path;
    struct execution *execution;
    int64_t run_id;
};

struct context {
    const struct scenario_options *options;
    struct arena *arena;
    struct store *store;
    const struct provenance *provenance;
    struct error *err;
    struct reproduction *out;
    int64_t value_capacity;
    struct cached *cache;
    int64_t cache_count, cache_capacity;
    void (*progress)(void *context, int64_t done, int64_t total);
    void *progress_context;
};

static const struct cached *execute(struct context *c, const char *path) {
    for (int64_t i = 0; i < c->cache_count; i++)
        if (strcmp(c->cache[i].path, path) == 0) return &c->cache[i];
    if (c->cache_count == c->cache_capacity) {
        c->cache_capacity = c->cache_capacity > 0 ? 2 * c->cache_capacity : 16;
        c->cache = memory_realloc(c->cache, sizeof *c->cache * (size_t)c->cache_capacity);
    }
    struct replay_options replay = { .progress = c->progress,
                                     .progress_context = c->progress_context };
    struct cached *entry = &c->cache[c->cache_count];
    *entry = (struct cached){ .path = path, .run_id = -1 };
    entry->execution = execution_run(c->options, path, &replay, c->err);
    if (entry->execution == NULL) return NULL;
    c->cache_count++;
    if (c->store != NULL &&
        !execution_store(c->store, entry->execution, c->provenance, &entry->run_id, c->err))
        return NULL;
    return entry;
}

static struct reproduction_value *next_value(struct context *c) {
    struct reproduction *r = c->out;
    if (r->value_count == c->value_capacity) {
        c->value_capacity = c->value_capacity > 0 ? 2 * c->value_capacity : 64;
        struct reproduction_value *grown =
            arena_array(c->arena, struct reproduction_value, c->value_capacity);
        if (r->value_count > 0) memcpy(grown, r->values, sizeof *grown * (size_t)r->value_count);
        r->values = grown;
    }
    return &r->values[r->value_count++];
}

static const char *const *list_assumptions(struct context *c, const cJSON *own,
                                           const struct scenario *s) {
    int64_t count = 0, at = 0;
    while (s->assumptions[count] != NULL)
        count++;
    const char **list = arena_array(c->arena, const char *,
                                    count + (own != NULL ? cJSON_GetArraySize(own) : 0) + 1);
    const cJSON *item;
    cJSON_ArrayForEach(item, own) if (cJSON_IsString(item)) list[at++] =
        arena_text(c->arena, item->valuestring);
    for (int64_t i = 0; i < count; i++)
        list[at++] = arena_text(c->arena, s->assumptions[i]);
    return list;
}

static const char *const *list_texts(struct context *c, const cJSON *list) {
    const char **texts =
        arena_array(c->arena, const char *, (list != NULL ? cJSON_GetArraySize(list) : 0) + 1);
    int64_t at = 0;
    const cJSON *item;
    cJSON_ArrayForEach(item, list) if (cJSON_IsString(item)) texts[at++] =
        arena_text(c->arena, item->valuestring);
    return texts;
}

static bool store_value(struct context *c, const struct reproduction_value *v,
                        const struct table_fields *t, const char *row, const struct cached *run) {
    struct reproduction_record record = {
        .tool_version = execution_version(),
        .source_commit = execution_commit(),
        .paper = t->paper,
        .table_name = t->table,
        .row_name = row,
        .quantity = v->quantity,
        .unit = v->unit,
        .paper_value = v->paper,
        .simulated_value = v->simulated,
        .role = v->calibrated_on ? "fitted" : "prediction",
        .provenance = run->execution->job->dataset->status,
        .scenario_file = v->scenario_file,
        .note = v->note,
        .run_id = run->run_id,
    };
    return store_add_reproductions(c->store, &record, 1, c->err);
}

/* "scenarios/papers/...": the same on every machine. */
static const char *shown_path(struct context *c, const char *path) {
    size_t length = strlen(c->options->directory);
    return strncmp(path, c->options->directory, length) == 0
               ? arena_format(c->arena, "scenarios%s", path + length)
               : path;
}

static bool unknown_quantity(struct context *c, const struct json *json, const cJSON *value,
                             const char *name) {
    const char *near = nearest_name(name, QUANTITY_COUNT, quantity_name, NULL);
    const char *hint = near != NULL ? arena_format(c->arena, "did you mean \"%s\"?", near) : NULL;
    return json_error(json, cJSON_GetObjectItemCaseSensitive(value, "quantity"), c->err, hint,
                      "unknown quantity \"%s\"", name);
}

static bool run_value(struct context *c, const struct json *json, const cJSON *node,
                      const struct table_fields *t, const struct row_fields *row,
                      const struct cached *run, const char *const *assumptions) {
    struct value_fields fields;
    if (!field_table_read(&value_table, json, node, &fields, c->arena, c->err)) return false;
    const struct quantity *q = NULL;
    for (size_t i = 0; i < QUANTITY_COUNT && q == NULL; i++)
        if (strcmp(quantities[i].name, fields.quantity) == 0) q = &quantities[i];
    if (q == NULL) return unknown_quantity(c, json, node, fields.quantity);
    struct reproduction_value *v = next_value(c);
    *v = (struct reproduction_value){
        .table = arena_format(c->arena, "%s.%s", t->paper, t->table),
        .row = row->row,
        .quantity = q->name,
        .unit = q->unit,
        .paper = fields.paper,
        .simulated = q->of(run->execution),
        .band_fraction = q->timed ? run->execution->replay->band_fraction : NAN,
        .calibrated_on = fields.calibrated_on,
        .scenario_file = shown_path(c, run->path),
        .assumptions = assumptions,
        .note = fields.note != NULL ? fields.note : row->note,
    };
    v->id = row->reading != NULL
                ? arena_format(c->arena, "%s.%s.%s.%s", v->table, row->row, q->name, row->reading)
                : arena_format(c->arena, "%s.%s.%s", v->table, row->row, q->name);
    v->relative_error = v->paper != 0 ? (v->simulated - v->paper) / v->paper : NAN;
    const char *stored_row =
        row->reading != NULL ? arena_format(c->arena, "%s (%s)", row->row, row->reading) : row->row;
    return c->store == NULL || store_value(c, v, t, stored_row, run);
}

static bool run_table(struct context *c, const char *directory, const char *file_name) {
    const char *path = arena_format(c->arena, "%s/%s", directory, file_name);
    struct json *json = json_load(path, c->err);
    if (json == NULL) return false;
    struct table_fields t;
    bool ok = field_table_read(&table_table, json, json_root(json), &t, c->arena, c->err);
    const cJSON *node;
    if (ok) {
        struct reproduction_summary *summary = &c->out->summaries[c->out->summary_count++];
        *summary = (struct reproduction_summary){ .table = arena_format(c->arena, "%s.%s", t.paper,
                                                                        t.table),
                                                  .source = t.source,
                                                  .note = t.note };
        summary->assumptions = list_texts(c, t.assumptions);
    }
    if (ok && !cJSON_IsArray(t.rows))
        ok = json_error(json, t.rows, c->err, NULL, "rows must be a list");
    const cJSON *rows = ok ? t.rows : NULL;
    cJSON_ArrayForEach(node, rows) {
        struct row_fields row;
        ok = field_table_read(&row_table, json, node, &row, c->arena, c->err);
        if (ok && !cJSON_IsArray(row.values))
            ok = json_error(json, row.values, c->err, NULL, "values must be a list");
        const struct cached *run =
            ok ? execute(c, arena_format(c->arena, "%s/%s", directory, row.scenario)) : NULL;
        ok = run != NULL;
        const char *const *assumptions =
            ok ? list_assumptions(c, t.assumptions, run->execution->scenario) : NULL;
        const cJSON *value;
        const cJSON *values = ok ? row.values : NULL;
        cJSON_ArrayForEach(value, values) {
            ok = run_value(c, json, value, &t, &row, run, assumptions);
            if (!ok) break;
        }
        if (!ok) break;
    }
    json_destroy(json);
    return ok;
}

/* ---- which tables ---- */

static int by_name(const void *a, const void *b) {
    return strcmp(*(const char *const *)a, *(const char *const *)b);
}

/* Names in a folder that end in `suffix`, without it, sorted. */
static const char **list_folder(struct arena *arena, const char *path, const char *suffix,
                                int64_t *count) {
    *count = 0;
    const char **names = NULL;
    int64_t capacity = 0;
    DIR *folder = opendir(path);
    struct dirent *entry;
    while (folder != NULL && (entry = readdir(folder)) != NULL) {
        size_t length = strlen(entry->d_name), tail = strlen(suffix);
        if (entry->d_name[0] == '.' || length < tail ||
            strcmp(entry->d_name + length - tail, suffix) != 0)
            continue;
        if (*count == capacity) {
            capacity = capacity > 0 ? 2 * capacity : 16;
            const char **grown = arena_array(arena, const char *, capacity);
            if (*count > 0) memcpy(grown, names, sizeof *grown * (size_t)*count);
            names = grown;
        }
        char *name = arena_text(arena, entry->d_name);
        name[length - tail] = '\0';
        names[(*count)++] = name;
    }
    if (folder != NULL) closedir(folder);
    if (*count > 0) qsort(names, (size_t)*count, sizeof *names, by_name);
    return names;
}

/* A table file is <paper>/<table>.table.json; scenario files lie beside it. */
#define TABLE_SUFFIX ".table.json"

static bool wanted(const char *id, const char *paper, const char *const *selectors, int64_t count,
                   bool *used) {
    bool found = count == 0;
    for (int64_t i = 0; i < count; i++) {
        if (strcmp(selectors[i], id) != 0 && strcmp(selectors[i], paper) != 0) continue;
        used[i] = true;
        found = true;
    }
    return found;
}

static bool run_selected(struct context *c, const char *const *selectors, int64_t selector_count) {
    const char *papers_path = arena_format(c->arena, "%s/papers", c->options->directory);
    int64_t paper_count, known_count = 0;
    const char **papers = list_folder(c->arena, papers_path, "", &paper_count);
    bool *used = arena_array(c->arena, bool, selector_count + 1);
    const char **known = arena_array(c->arena, const char *, 256);
    struct {
        const char *directory, *file;
    } chosen[256];
    int64_t chosen_count = 0;
    for (int64_t p = 0; p < paper_count; p++) {
        const char *directory = arena_format(c->arena, "%s/%s", papers_path, papers[p]);
        int64_t table_count;
        const char **tables = list_folder(c->arena, directory, TABLE_SUFFIX, &table_count);
        for (int64_t t = 0; t < table_count && known_count < 255; t++) {
            const char *id = arena_format(c->arena, "%s.%s", papers[p], tables[t]);
            known[known_count++] = id;
            if (!wanted(id, papers[p], selectors, selector_count, used)) continue;
            chosen[chosen_count].directory = directory;
            chosen[chosen_count++].file = arena_format(c->arena, "%s" TABLE_SUFFIX, tables[t]);
        }
    }
    for (int64_t i = 0; i < selector_count; i++) {
        if (used[i]) continue;
        const char *near = nearest_in_list(selectors[i], known);
        error_set(c->err, "unknown table \"%s\"", selectors[i]);
        if (near != NULL) return error_hint(c->err, "did you mean \"%s\"?", near);
        const char *list = "";
        for (int64_t k = 0; k < known_count; k++)
            list = arena_format(c->arena, "%s%s%s", list, k > 0 ? ", " : "", known[k]);
        return error_hint(c->err, "the tables are: %s", list);
    }
    c->out->summaries = arena_array(c->arena, struct reproduction_summary, chosen_count + 1);
    for (int64_t i = 0; i < chosen_count; i++)
        if (!run_table(c, chosen[i].directory, chosen[i].file))
            return error_context(c->err, "while reproducing %s/%s", chosen[i].directory,
                                 chosen[i].file);
    return true;
}

static void summarise(struct reproduction *r) {
    int64_t *counted = arena_array(r->arena, int64_t, r->summary_count + 1);
    for (int64_t i = 0; i < r->value_count; i++) {
        const struct reproduction_value *v = &r->values[i];
        struct reproduction_summary *s = NULL;
        for (int64_t k = 0; k < r->summary_count && s == NULL; k++)
            if (strcmp(r->summaries[k].table, v->table) == 0) s = &r->summaries[k];
        ballast_check(s != NULL);
        s->rows++;
        s->rows_calibrated_on += v->calibrated_on;
        s->rows_without_relative_error += isnan(v->relative_error);
        if (v->calibrated_on || isnan(v->relative_error)) continue;
        counted[s - r->summaries]++;
        s->mean_abs_relative_error += fabs(v->relative_error);
        if (fabs(v->relative_error) > fabs(s->worst_relative_error))
            s->worst_relative_error = v->relative_error;
    }
    for (int64_t k = 0; k < r->summary_count; k++) {
        if (counted[k] > 0) r->summaries[k].mean_abs_relative_error /= (double)counted[k];
    }
}

struct reproduction *reproduction_run(const struct scenario_options *options,
                                      const char *const *selectors, int64_t selector_count,
                                      struct store *store, const struct provenance *provenance,
                                      void (*progress)(void *context, int64_t done, int64_t total),
                                      void *progress_context, struct error *err) {
    struct arena *arena = arena_create();
    struct reproduction *r = arena_new(arena, struct reproduction);
    r->arena = arena;
    struct context c = { .options = options,
                         .arena = arena,
                         .store = store,
                         .provenance = provenance,
                         .err = err,
                         .out = r,
                         .progress = progress,
                         .progress_context = progress_context };
    bool ok = run_selected(&c, selectors, selector_count);
    for (int64_t i = 0; i < c.cache_count; i++)
        execution_destroy(c.cache[i].execution);
    free(c.cache);
    if (!ok) {
        reproduction_destroy(r);
        return NULL;
    }
    summarise(r);
    return r;
}

void reproduction_destroy(struct reproduction *r) {
    if (r != NULL) arena_destroy(r->arena);
}
