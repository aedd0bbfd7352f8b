/* sweep_view.c - queries over the view sweep_result. A field's value is its text; an object (a
 * policy with parameters) goes by its name and these. */
#include "results/sweep_view.h"

#include <cjson/cJSON.h>
#include <math.h>
#include <string.h>
#include "results/sweep_label.h"
#include "sim/base/amount.h"

/* ---- the sweep ---- */

struct found_sweep {
    struct arena *arena;
    const char *wanted, *name;
    int64_t id;
};

static bool keep_sweep(void *context, sqlite3_stmt *row, struct error *err) {
    (void)err;
    struct found_sweep *f = context;
    const char *name = (const char *)sqlite3_column_text(row, 1);
    if (f->wanted != NULL && strcmp(f->wanted, name) != 0) return true;
    f->id = sqlite3_column_int64(row, 0);
    f->name = arena_text(f->arena, name);
    return true;
}

bool sweep_view_find(struct store *store, const char *name, int64_t *sweep_id, const char **found,
                     struct arena *arena, struct error *err) {
    struct found_sweep f = { arena, name, NULL, -1 };
    if (!store_query(store, "SELECT id, name FROM sweep ORDER BY id", 0, keep_sweep, &f, err))
        return false;
    *sweep_id = f.id;
    *found = f.name;
    return f.id >= 0 || name == NULL ||
           error_set(err, "the database holds no sweep called '%s'", name);
}

/* ---- points ---- */

/* The axes of a sweep's definition: "a.b, c.d" sets two fields together, and the first of them
 * names a configuration. */
struct axis {
    const char *path;
    const cJSON **values;
    int64_t value_count;
};

struct point_list {
    struct arena *arena;
    const struct axis *axes;
    int64_t axis_count;
    struct plot_choice *points;
    int64_t count, capacity;
};

static double real(sqlite3_stmt *row, int column) {
    return sqlite3_column_type(row, column) == SQLITE_NULL ? NAN
                                                           : sqlite3_column_double(row, column);
}

static void read_axes(struct point_list *list, const cJSON *definition) {
    const cJSON *vary = cJSON_GetObjectItemCaseSensitive(definition, "vary"), *node, *value;
    struct axis *axes = arena_array(list->arena, struct axis, cJSON_GetArraySize(vary) + 1);
    cJSON_ArrayForEach(node, vary) {
        struct axis *axis = &axes[list->axis_count++];
        axis->path =
            arena_format(list->arena, "%.*s", (int)strcspn(node->string, ", "), node->string);
        axis->values = arena_array(list->arena, const cJSON *, cJSON_GetArraySize(node) + 1);
        const bool together = strchr(node->string, ',') != NULL;
        const cJSON *listed = cJSON_IsArray(node) ? node : NULL;
        /* Ranges hold numbers, which need no word more. */
        cJSON_ArrayForEach(value, listed) axis->values[axis->value_count++] =
            together ? cJSON_GetArrayItem(value, 0) : value;
    }
    list->axes = axes;
}

static double assigned(const cJSON *values, const char *path) {
    const cJSON *value = cJSON_GetObjectItemCaseSensitive(values, path);
    return cJSON_IsNumber(value) ? value->valuedouble : NAN;
}

static const struct {
    const char *path, *word;
} degrees[] = { { "layout.tp", "TP " }, { "layout.pp", "PP " }, { "layout.vpp", "VPP " },
                { "layout.cp", "CP " }, { "layout.dp", "DP " }, { "layout.zero_stage", "ZeRO-" } };
enum { DP = 4, DEGREES = sizeof degrees / sizeof degrees[0] };

/* "TP 2 PP 4 DP 8 ZeRO-1", of what the sweep varies. */
static const char *layout_name(struct arena *arena, int64_t gpu_count, const cJSON *values) {
    const char *name = "";
    double ranks = 1;
    for (int i = 0; i < DEGREES; i++) {
        double value = assigned(values, degrees[i].path);
        if (isfinite(value) && i < DP && strcmp(degrees[i].path, "layout.vpp") != 0) ranks *= value;
        if (i == DP && isnan(value) && isfinite(assigned(values, "layout.tp")) &&
            isfinite(assigned(values, "layout.pp")))
            value = floor((double)gpu_count / ranks);
        if (isfinite(value))
            name = arena_format(arena, "%s%s%s%.0f", name, name[0] != '\0' ? " " : "",
                                degrees[i].word, value);
    }
    return name;
}

static bool is_degree(const char *path) {
    for (int i = 0; i < DEGREES; i++)
        if (strcmp(path, degrees[i].path) == 0) return true;
    return false;
}

/* The layout, the hardware, and every other axis: "TP 2 PP 4 DP 8", "h100-80g-sxm", "batching isf".
 * The number of GPUs stands beside the name wherever it is shown. */
static void name_point(struct point_list *list, struct plot_choice *point, const cJSON *values) {
    const char **parts = arena_array(list->arena, const char *, list->axis_count + 2);
    const cJSON *hardware = cJSON_GetObjectItemCaseSensitive(values, "cluster.hardware");
    parts[0] = layout_name(list->arena, point->gpu_count, values);
    parts[1] = cJSON_IsString(hardware) ? arena_text(list->arena, hardware->valuestring) : "";
    point->part_count = 2;
    for (int64_t a = 0; a < list->axis_count; a++) {
        const struct axis *axis = &list->axes[a];
        const cJSON *value = cJSON_GetObjectItemCaseSensitive(values, axis->path);
        if (value == NULL || is_degree(axis->path) || strcmp(axis->path, "cluster.hardware") == 0 ||
            strcmp(axis->path, "cluster.gpu_count") == 0)
            continue;
        parts[point->part_count++] =
            arena_format(list->arena, "%s %s", sweep_label_key(list->arena, axis->path),
                         sweep_label_value(list->arena, value, axis->values, axis->value_count, 1));
    }
    point->parts = parts;
    point->name = "";
    for (int64_t p = 0; p < point->part_count; p++)
        if (parts[p][0] != '\0')
            point->name = arena_format(list->arena, "%s%s%s", point->name,
                                       point->name[0] != '\0' ? ", " : "", parts[p]);
    if (point->name[0] == '\0')
        point->name = arena_format(list->arena, "row %lld", (long long)point->row_index);
}

/* What is trained on what and how long, as far as the sweep varies it. */
static const char *job_name(struct arena *arena, const cJSON *values) {
    static const char *const begins[] = { "model", "dataset", "training.epochs" };
    const char *name = "";
    const cJSON *value;
    cJSON_ArrayForEach(value, values) {
        bool of_job = false;
        for (size_t i = 0; i < sizeof begins / sizeof begins[0]; i++)
            of_job = of_job || strncmp(value->string, begins[i], strlen(begins[i])) == 0;
        if (!of_job) continue;
        const cJSON *inner = cJSON_GetObjectItemCaseSensitive(value, "name");
        char *text = cJSON_IsString(value) ? NULL : cJSON_PrintUnformatted(value);
        name = arena_format(arena, "%s%s%s", name, name[0] != '\0' ? ", " : "",
                            cJSON_IsString(inner)   ? inner->valuestring
                            : cJSON_IsString(value) ? value->valuestring
                                                    : text);
        cJSON_free(text);
    }
    return name;
}

static const char *kind_name(struct arena *arena, const cJSON *values) {
    static const char *const paths[] = { "cluster.hardware", "cluster.name", "cluster" };
    for (size_t i = 0; i < sizeof paths / sizeof paths[0]; i++) {
        const cJSON *value = cJSON_GetObjectItemCaseSensitive(values, paths[i]);
        const cJSON *inner = cJSON_GetObjectItemCaseSensitive(value, "hardware");
        if (cJSON_IsString(inner)) value = inner;
        if (cJSON_IsString(value)) return arena_text(arena, value->valuestring);
    }
    return NULL;
}

static bool add_point(void *context, sqlite3_stmt *row, struct error *err) {
    (void)err;
    struct point_list *list = context;
    if (list->count == list->capacity) {
        list->capacity = list->capacity > 0 ? 2 * list->capacity : 1024;
        struct plot_choice *larger = arena_array(list->arena, struct plot_choice, list->capacity);
        if (list->count > 0) memcpy(larger, list->points, sizeof *larger * (size_t)list->count);
        list->points = larger;
    }
    cJSON *values = cJSON_Parse((const char *)sqlite3_column_text(row, 7));
    const char *verdict = (const char *)sqlite3_column_text(row, 6);
    struct plot_choice *point = &list->points[list->count++];
    *point = (struct plot_choice){
        .job = job_name(list->arena, values),
        .kind = kind_name(list->arena, values),
        .row_index = sqlite3_column_int64(row, 0),
        .gpu_count = sqlite3_column_int64(row, 1),
        .days = real(row, 2),
        .gpu_days = real(row, 3),
        .money_usd = real(row, 4),
        .band = band_of_stored(real(row, 12), real(row, 5)),
        .done = true,
        .out_of_memory = strcmp(verdict, "out of memory") == 0,
        .tight = strcmp(verdict, "tight") == 0,
        .raced = sqlite3_column_int64(row, 8) != 0,
        .steps = sqlite3_column_int64(row, 9),
        .mfu_fraction = real(row, 10),
        .may_run_out = sqlite3_column_int64(row, 11) != 0,
        .memory_unknown = sqlite3_column_type(row, 11) == SQLITE_NULL,
    };
    name_point(list, point, values);
    cJSON_Delete(values);
    return true;
}

struct plot_choice *sweep_view_points(struct store *store, int64_t sweep_id, struct arena *arena,
                                      int64_t *count, struct error *err) {
    struct point_list list = { .arena = arena };
    const struct sweep_record *sweep = store_load(store, RECORD_SWEEP, sweep_id, arena, count, err);
    if (sweep == NULL) return NULL;
    cJSON *definition = cJSON_Parse(sweep->definition);
    read_axes(&list, definition);
    bool ok = store_query(
        store,
        "SELECT row_index, gpu_count, total_days, gpu_days, money_usd,"
        " band_fraction, verdict, assignments, status = 'raced',"
        " replayed_iterations, mfu_fraction, may_run_out, band_below_fraction FROM sweep_result"
        " WHERE sweep_id = ?1 AND verdict IS NOT NULL" SWEEP_VIEW_NO_TWINS,
        sweep_id, add_point, &list, err);
    cJSON_Delete(definition);
    *count = list.count;
    if (ok && list.count == 0) ok = error_set(err, "the sweep has no priced configurations yet");
    return ok ? list.points : NULL;
}

bool sweep_view_limits(struct store *store, int64_t sweep_id, struct arena *arena,
                       struct plot_limits *limits, struct error *err) {
    int64_t count;
    const struct sweep_record *sweep =
        store_load(store, RECORD_SWEEP, sweep_id, arena, &count, err);
    if (sweep == NULL) return false;
    *limits = (struct plot_limits){ sweep->deadline_days, sweep->budget_usd };
    return true;
}

/* ---- heat map ---- */

struct first_text {
    struct arena *arena;
    const char *text;
};

static bool keep_first(void *context, sqlite3_stmt *row, struct error *err) {
    (void)err;
    struct first_text *f = context;
    if (f->text == NULL) f->text = arena_text(f->arena, (const char *)sqlite3_column_text(row, 0));
    return true;
}

/* Of large sweeps some 4000 rows, scattered by a hash of their index (Knuth's multiplicative one):
 * they hold all pairs of values of two fields that a heat map can show, or nearly. */
#define SOME_ROWS                                                                                  \
    " AND (row_index * 2654435761 & 4294967295)"                                                   \
    " * max(1, (SELECT count(*) FROM sweep_row WHERE sweep_id = ?1) / 4000) < 4294967296"

/* The field with most values; beside `other`, the one with most pairs of values, so that two fields
 * that are set together do not make a diagonal. NULL: there is none. */
static bool choose_field(struct store *store, int64_t sweep_id, const char *other,
                         struct arena *arena, const char **field, struct error *err) {
    struct first_text first = { .arena = arena };
    char *sql = sqlite3_mprintf(
        "SELECT key FROM sweep_result, json_each(assignments) WHERE sweep_id = ?1" SOME_ROWS
        " AND key <> %Q GROUP BY key HAVING count(DISTINCT value) > 1"
        " ORDER BY count(DISTINCT value || coalesce(json_extract(assignments,"
        " '$.\"%q\"'), '')) DESC, key LIMIT 1",
        other != NULL ? other : "", other != NULL ? other : "");
    bool ok = store_query(store, sql, sweep_id, keep_first, &first, err);
    sqlite3_free(sql);
    *field = first.text;
    return ok && (first.text != NULL ||
                  error_set(err, "a heat map needs a sweep that varies two fields at least"));
}

static bool choose_fields(struct store *store, int64_t sweep_id, struct arena *arena,
                          const char **x, const char **y, struct error *err) {
    if (*x == NULL && !choose_field(store, sweep_id, *y, arena, x, err)) return false;
    return *y != NULL || choose_field(store, sweep_id, *x, arena, y, err);
}

struct cell_list {
    struct arena *arena;
    struct plot_heatmap *map;
    double per_unit; /* of the picture's values, of a stored one */
    bool missing;    /* a point lacks one of the fields */
};

static int64_t index_of(struct cell_list *list, const char **names, int64_t *count,
                        const char *name) {
    for (int64_t i = 0; i < *count; i++)
        if (strcmp(names[i], name) == 0) return i;
    if (*count == PLOT_HEATMAP_LIMIT) return -1;
    names[*count] = arena_text(list->arena, name);
    return (*count)++;
}

static bool add_cell(void *context, sqlite3_stmt *row, struct error *err) {
    struct cell_list *list = context;
    struct plot_heatmap *map = list->map;
    const char *x = (const char *)sqlite3_column_text(row, 0);
    const char *y = (const char *)sqlite3_column_text(row, 1);
    if (x == NULL || y == NULL) {
        list->missing = true;
        return true;
    }
    const int64_t column = index_of(list, map->x_names, &map->x_count, x);
    const int64_t line = index_of(list, map->y_names, &map->y_count, y);
    if (column < 0 || line < 0)
        return error_set(err, "a heat map has at most %d values on an axis", PLOT_HEATMAP_LIMIT);
    map->cells[line * PLOT_HEATMAP_LIMIT + column] =
        (struct plot_cell){ .value = real(row, 2) * list->per_unit,
                            .points = sqlite3_column_int64(row, 3),
                            .pruned = sqlite3_column_int64(row, 4),
                            .replayed = sqlite3_column_int64(row, 5) != 0,
                            .steps = sqlite3_column_int64(row, 6) };
    return true;
}

/* SQL that gives the value of a field: texts and numbers as they are, objects by their name and
 * parameters: "isf qv 9, qt 4096". */
static char *value_of(const char *field) {
    return sqlite3_mprintf(
        "CASE json_type(assignments, '$.\"%q\"') WHEN 'true' THEN 'true' WHEN 'false' THEN 'false'"
        " WHEN 'object' THEN"
        " trim(coalesce(json_extract(assignments, '$.\"%q\".name'), '') || ' ' ||"
        " replace(replace(replace(trim(json_remove(json_extract(assignments, '$.\"%q\"'), "
        "'$.name'),"
        " '{}'), '\"', ''), ':', ' '), ',', ', ')) ELSE"
        " json_extract(assignments, '$.\"%q\"') END",
        field, field, field, field);
}

/* One map holds one thing: money only if all have a price. */
struct costs {
    bool priced;
    double most_gpu_days;
};

static bool note_costs(void *context, sqlite3_stmt *row, struct error *err) {
    (void)err;
    *(struct costs *)context = (struct costs){ sqlite3_column_int64(row, 0) == 0, real(row, 1) };
    return true;
}

bool sweep_view_heatmap(struct store *store, int64_t sweep_id, const char *sweep, const char *x,
                        const char *y, struct arena *arena, struct plot_heatmap *map,
                        struct error *err) {
    if (!choose_fields(store, sweep_id, arena, &x, &y, err)) return false;
    if (strcmp(x, y) == 0) {
        error_set(err, "columns and rows of the heat map are both %s", x);
        return error_hint(err, "name another field with --x or --y");
    }
    struct costs costs;
    if (!store_query(store,
                     "SELECT coalesce(sum(money_usd IS NULL), 0), max(gpu_days) FROM sweep_result"
                     " WHERE sweep_id = ?1 AND verdict IS NOT NULL",
                     sweep_id, note_costs, &costs, err))
        return false;
    const bool priced = costs.priced;
    const struct amount_unit work = amount_of_gpu_days(costs.most_gpu_days);
    const char *unit = priced ? "USD" : work.name;
    *map = (struct plot_heatmap){
        .title = arena_format(arena, "%s: least %s of all configurations that fit", sweep,
                              priced ? "money" : unit),
        .unit = unit,
        .x_label = x,
        .y_label = y,
        .x_names = arena_array(arena, const char *, PLOT_HEATMAP_LIMIT),
        .y_names = arena_array(arena, const char *, PLOT_HEATMAP_LIMIT),
        .cells = arena_array(arena, struct plot_cell, PLOT_HEATMAP_LIMIT * PLOT_HEATMAP_LIMIT),
    };
    char *x_value = value_of(x), *y_value = value_of(y);
    /* SQLite takes columns beside min() from the row that holds it. */
    char *sql = sqlite3_mprintf(
        "SELECT %s AS x, %s AS y,"
        " min(CASE WHEN verdict <> 'out of memory' THEN %s END), sum(verdict IS NOT NULL),"
        " sum(status = 'pruned'), status = 'replayed', replayed_iterations"
        " FROM sweep_result WHERE sweep_id = ?1" SWEEP_VIEW_NO_TWINS " GROUP BY x, y ORDER BY x, y",
        x_value, y_value, priced ? "money_usd" : "gpu_days");
    struct cell_list list = { arena, map, priced ? 1 : work.per_day, false };
    bool ok = store_query(store, sql, sweep_id, add_cell, &list, err);
    sqlite3_free(x_value);
    sqlite3_free(y_value);
    sqlite3_free(sql);
    if (ok && map->x_count == 0) return error_set(err, "the sweep does not vary %s and %s", x, y);
    return ok;
}
