/* sweep_view.c - queries over the view sweep_result. A field's value is its text; an object (a policy
 * with parameters) goes by its name and these. */
#include "results/sweep_view.h"

#include <cjson/cJSON.h>
#include <math.h>
#include <string.h>
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

struct point_list {
    struct arena *arena;
    struct plot_choice *points;
    int64_t count, capacity;
};

static double real(sqlite3_stmt *row, int column) {
    return sqlite3_column_type(row, column) == SQLITE_NULL ? NAN
                                                           : sqlite3_column_double(row, column);
}

static double assigned(const cJSON *values, const char *path) {
    const cJSON *value = cJSON_GetObjectItemCaseSensitive(values, path);
    return cJSON_IsNumber(value) ? value->valuedouble : NAN;
}

/* "TP 2 PP 4 DP 8 h100-80g-sxm", of what the sweep varies; "row 17" if it varies none of them. */
static const char *layout_name(struct arena *arena, sqlite3_stmt *row, const cJSON *values) {
    static const struct {
        const char *path, *word;
    } parts[] = {
        { "layout.tp", "TP" }, { "layout.pp", "PP" }, { "layout.cp", "CP" }, { "layout.dp", "DP" }
    };
    const char *name = "";
    double ranks = 1;
    for (size_t i = 0; i < sizeof parts / sizeof parts[0]; i++) {
        double value = assigned(values, parts[i].path);
        if (isfinite(value)) ranks *= value;
        if (i == 3 && isnan(value) && isfinite(assigned(values, "layout.tp")) &&
            isfinite(assigned(values, "layout.pp")))
            value = floor((double)sqlite3_column_int64(row, 1) / ranks);
        if (isfinite(value))
            name = arena_format(arena, "%s%s%s %.0f", name, name[0] != '\0' ? " " : "",
                                parts[i].word, value);
    }
    const double zero = assigned(values, "layout.zero_stage");
    if (isfinite(zero)) name = arena_format(arena, "%s ZeRO-%.0f", name, zero);
    const cJSON *hardware = cJSON_GetObjectItemCaseSensitive(values, "cluster.hardware");
    if (cJSON_IsString(hardware)) name = arena_format(arena, "%s %s", name, hardware->valuestring);
    while (*name == ' ')
        name++;
    return name[0] != '\0' ? name : arena_format(arena, "row %lld", sqlite3_column_int64(row, 0));
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
    list->points[list->count++] = (struct plot_choice){
        .name = layout_name(list->arena, row, values),
        .job = job_name(list->arena, values),
        .gpu_count = sqlite3_column_int64(row, 1),
        .days = real(row, 2),
        .gpu_days = real(row, 3),
        .money_usd = real(row, 4),
        .band_fraction = real(row, 5),
        .done = true,
        .out_of_memory = strcmp((const char *)sqlite3_column_text(row, 6), "out of memory") == 0,
    };
    cJSON_Delete(values);
    return true;
}

struct plot_choice *sweep_view_points(struct store *store, int64_t sweep_id, struct arena *arena,
                                      int64_t *count, struct error *err) {
    struct point_list list = { .arena = arena };
    bool ok = store_query(store,
                          "SELECT row_index, gpu_count, total_days, gpu_days, money_usd,"
                          " band_fraction, verdict, assignments FROM sweep_result"
                          " WHERE sweep_id = ?1 AND verdict IS NOT NULL" SWEEP_VIEW_NO_TWINS,
                          sweep_id, add_point, &list, err);
    *count = list.count;
    if (ok && list.count == 0) ok = error_set(err, "the sweep has no priced configurations yet");
    return ok ? list.points : NULL;
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

/* Of large sweeps some 4000 rows, scattered by a hash of their index (Knuth's multiplicative one): they
 * hold all pairs of values of two fields that a heat map can show, or nearly. */
#define SOME_ROWS                                                                                  \
    " AND (row_index * 2654435761 & 4294967295)"                                                   \
    " * max(1, (SELECT count(*) FROM sweep_row WHERE sweep_id = ?1) / 4000) < 4294967296"

/* The field with most values; beside `other`, the one with most pairs of values, so that two fields
 * that are set together do not make a diagonal. NULL: there is none. */
static bool choose_field(struct store *store, int64_t sweep_id, const char *other,
                         struct arena *arena, const char **field, struct error *err) {
    struct first_text first = { .arena = arena };
    char *sql =
        sqlite3_mprintf("SELECT key FROM sweep_result, json_each(assignments) WHERE sweep_id = ?1"
                        SOME_ROWS " AND key <> %Q GROUP BY key HAVING count(DISTINCT value) > 1"
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
        " replace(replace(replace(trim(json_remove(json_extract(assignments, '$.\"%q\"'), '$.name'),"
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
        " FROM sweep_result WHERE sweep_id = ?1" SWEEP_VIEW_NO_TWINS
        " GROUP BY x, y ORDER BY x, y",
        x_value, y_value, priced ? "money_usd" : "gpu_days");
    struct cell_list list = { arena, map, priced ? 1 : work.per_day, false };
    bool ok = store_query(store, sql, sweep_id, add_cell, &list, err);
    sqlite3_free(x_value);
    sqlite3_free(y_value);
    sqlite3_free(sql);
    if (ok && map->x_count == 0) return error_set(err, "the sweep does not vary %s and %s", x, y);
    return ok;
}
