/* sweep.c - the database, the order of the phases, the front. */
#include "sim/study/sweep/sweep.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>
#include "sim/study/sweep/sweep_axes.h"
#include "sim/study/sweep/sweep_lock.h"
#include "sim/study/sweep/sweep_race.h"
#include "sim/study/sweep/sweep_where.h"

/* ---- the front ---- */

static double cost_of(const struct sweep_row_record *row) {
    return isnan(row->money_usd) ? row->gpu_days : row->money_usd;
}

static int compare_for_front(const void *a, const void *b, void *context) {
    const struct sweep_row_record *rows = context, *l = &rows[*(const int64_t *)a],
                                  *r = &rows[*(const int64_t *)b];
    if (l->total_days != r->total_days) return l->total_days < r->total_days ? -1 : 1;
    if (cost_of(l) != cost_of(r)) return cost_of(l) < cost_of(r) ? -1 : 1;
    return (l->memory_peak_bytes > r->memory_peak_bytes) -
           (l->memory_peak_bytes < r->memory_peak_bytes);
}

static bool dominates(const struct sweep_row_record *a, const struct sweep_row_record *b) {
    return a->total_days <= b->total_days && cost_of(a) <= cost_of(b) &&
           a->memory_peak_bytes <= b->memory_peak_bytes &&
           (a->total_days < b->total_days || cost_of(a) < cost_of(b) ||
            a->memory_peak_bytes < b->memory_peak_bytes);
}

/* Sorted by time, a point can only be dominated by one before it, and then by one on the front. Of
 * layouts alike the first stands for all, because the race's figures of its twins must not beat its
 * replay. */
static void find_front(struct sweep *sweep) {
    int64_t *order = memory_alloc(sizeof *order * (size_t)(sweep->row_count + 1)), count = 0;
    int64_t *front = memory_alloc(sizeof *front * (size_t)(sweep->row_count + 1)), front_count = 0;
    for (int64_t i = 0; i < sweep->row_count; i++) {
        struct sweep_row_record *row = &sweep->rows[i];
        row->on_front = 0;
        if (sweep_row_counts(sweep, i)) order[count++] = i;
    }
    qsort_r(order, (size_t)count, sizeof *order, compare_for_front, sweep->rows);
    for (int64_t i = 0; i < count; i++) {
        struct sweep_row_record *row = &sweep->rows[order[i]];
        bool beaten = false;
        for (int64_t j = 0; j < front_count && !beaten; j++)
            beaten = dominates(&sweep->rows[front[j]], row);
        if (beaten) continue;
        row->on_front = 1;
        front[front_count++] = order[i];
    }
    for (int64_t i = 0; i < sweep->row_count; i++)
        sweep->rows[i].on_front = sweep->rows[sweep->alike[i]].on_front;
    free(order);
    free(front);
}

static int compare_rejections(const void *a, const void *b) {
    return strcmp(((const struct sweep_rejection_record *)a)->rule,
                  ((const struct sweep_rejection_record *)b)->rule);
}

static int compare_by_index(const void *a, const void *b) {
    const struct sweep_row_record *l = a, *r = b;
    return (l->row_index > r->row_index) - (l->row_index < r->row_index);
}

static void bind_bytes(sqlite3_stmt *statement, int place, int64_t bytes) {
    if (bytes < 0)
        sqlite3_bind_null(statement, place);
    else
        sqlite3_bind_int64(statement, place, bytes);
}

/* What only the whole sweep knows, in one transaction. */
static bool finish(struct sweep_run *run, struct error *err) {
    struct sweep *sweep = run->sweep;
    find_front(sweep);
    if (sweep->rejection_count > 0)
        qsort(sweep->rejections, (size_t)sweep->rejection_count, sizeof *sweep->rejections,
              compare_rejections);
    struct store *store = run->options->store;
    if (store == NULL) return true;
    if (!store_begin(store, err)) return false;
    bool ok = store_add_sweep_rejections(store, sweep->rejections, sweep->rejection_count, err);
    sqlite3_stmt *mark = ok ? db_prepare(store_db(store),
                                         "UPDATE sweep_row SET on_front = ?1, verdict = ?4,"
                                         " memory_peak_bytes = ?5, memory_bound_bytes = ?6,"
                                         " reason = ?7, memory_training_bytes = ?8"
                                         " WHERE sweep_id = ?2 AND configuration = ?3"
                                         " AND (on_front IS NOT ?1 OR verdict IS NOT ?4"
                                         " OR memory_peak_bytes IS NOT ?5"
                                         " OR memory_bound_bytes IS NOT ?6"
                                         " OR reason IS NOT ?7 OR memory_training_bytes IS NOT ?8)",
                                         err)
                            : NULL;
    ok = mark != NULL;
    for (int64_t i = 0; ok && i < sweep->row_count; i++) {
        sqlite3_bind_int64(mark, 1, sweep->rows[i].on_front);
        sqlite3_bind_int64(mark, 2, store_sweep_id(store));
        sqlite3_bind_text(mark, 3, sweep->rows[i].configuration, -1, SQLITE_STATIC);
        sqlite3_bind_text(mark, 4, sweep->rows[i].verdict, -1, SQLITE_STATIC); /* NULL: pruned */
        bind_bytes(mark, 5, sweep->rows[i].memory_peak_bytes);
        bind_bytes(mark, 6, sweep->rows[i].memory_bound_bytes);
        bind_bytes(mark, 8, sweep->rows[i].memory_training_bytes);
        const char *reason = sweep->rescaled[i] && sweep->rows[i].reason == NULL
                                 ? SWEEP_RESCALED
                                 : sweep->rows[i].reason;
        sqlite3_bind_text(mark, 7, reason, -1, SQLITE_STATIC);
        ok = db_step(store_db(store), mark, err) == DB_DONE;
        sqlite3_reset(mark);
    }
    sqlite3_finalize(mark);
    return ok && store_end(store, err);
}

/* ---- beginning and end ---- */

/* The caller frees it. */
static char *definition_text(const struct sweep *sweep, enum sweep_pruning pruning) {
    cJSON *definition = cJSON_Parse(sweep->file->definition);
    if (pruning == SWEEP_PRUNES_IN_SHARDS)
        cJSON_AddStringToObject(definition, "prune", "in shards");
    else
        cJSON_AddBoolToObject(definition, "prune", pruning == SWEEP_PRUNES);
    char *text = cJSON_PrintUnformatted(definition);
    cJSON_Delete(definition);
    return text;
}

static bool was_begun_so(struct sweep_run *run, enum sweep_pruning pruning, bool *answer,
                         struct error *err) {
    struct db *db = store_db(run->options->store);
    sqlite3_stmt *query =
        db_prepare(db, "SELECT 1 FROM sweep WHERE name = ?1 AND definition = ?2", err);
    if (query == NULL) return false;
    char *text = definition_text(run->sweep, pruning);
    sqlite3_bind_text(query, 1, run->sweep->file->name, -1, SQLITE_STATIC);
    sqlite3_bind_text(query, 2, text, -1, SQLITE_STATIC);
    enum db_step step = db_step(db, query, err);
    *answer = step == DB_ROW;
    sqlite3_finalize(query);
    cJSON_free(text);
    return step != DB_ERROR;
}

/* Where this call may prune, a sweep that was begun without, or in shards, goes on like that. */
static bool choose_pruning(struct sweep_run *run, struct error *err) {
    const enum sweep_pruning wanted = run->pruning;
    bool begun_so = false;
    for (int other = 0; other < SWEEP_PRUNING_COUNT && wanted != SWEEP_PRUNES_NOT; other++) {
        if (other == SWEEP_PRUNES && wanted == SWEEP_PRUNES_IN_SHARDS) continue;
        if (!was_begun_so(run, (enum sweep_pruning)other, &begun_so, err)) return false;
        if (!begun_so) continue;
        run->pruning = (enum sweep_pruning)other;
        break;
    }
    return true;
}

static bool open_sweep(struct sweep_run *run, struct error *err) {
    struct sweep *sweep = run->sweep;
    struct store *store = run->options->store;
    if (store == NULL) return true;
    run->lock_file = sweep_lock_take(store_db(store)->path, err);
    if (run->lock_file == NULL) return false;
    if (run->options->lock_held != NULL) atomic_store(run->options->lock_held, true);
    if (!choose_pruning(run, err)) return false;
    char *text = definition_text(sweep, run->pruning);
    struct sweep_record record = { .name = sweep->file->name,
                                   .tool_version = execution_version(),
                                   .source_commit = execution_commit(),
                                   .command_line = run->options->provenance->command_line,
                                   .definition = text,
                                   .row_count = sweep->configurations,
                                   .objective = sweep_file_objective(sweep->file),
                                   .deadline_days = sweep->file->deadline_days,
                                   .budget_usd = sweep->file->budget_usd };
    int64_t sweep_id, count = 0;
    bool ok = store_begin_sweep(store, &record, &sweep_id, err);
    cJSON_free(text);
    struct sweep_row_record *rows =
        ok ? store_load(store, RECORD_SWEEP_ROW, sweep_id, sweep->arena, &count, err) : NULL;
    if (rows == NULL) return false;
    for (int64_t i = 0; i < count; i++) {
        if (rows[i].reason != NULL &&
            strncmp(rows[i].reason, SWEEP_RESCALED, SWEEP_RESCALED_BEGIN) == 0)
            rows[i].reason = NULL; /* found anew */
        configuration_table_insert(&run->known, rows[i].configuration, sweep->row_count);
        sweep_run_add_row(run, &rows[i]);
    }
    run->inputs =
        store_load(store, RECORD_SWEEP_INPUT, sweep_id, sweep->arena, &run->input_count, err);
    return run->inputs != NULL && store_load(store, RECORD_SWEEP_ROUND, sweep_id, sweep->arena,
                                             &run->stored_rounds, err) != NULL;
}

static void run_destroy(struct sweep_run *run) {
    sweep_share_destroy(run->share);
    thread_pool_destroy(run->pool);
    if (run->options->lock_held != NULL) atomic_store(run->options->lock_held, false);
    sweep_lock_release(run->lock_file);
    pthread_mutex_destroy(&run->lock);
    configuration_table_free(&run->known);
    configuration_table_free(&run->seen);
    free(run->incumbents.items);
    arena_destroy(run->received);
    free(run);
}

/* What `run` prints of the best layout, and what concerns them all. */
static void collect_warnings(struct sweep *sweep, const struct scenario *s) {
    int64_t count = 1, at = 0;
    for (int64_t i = 0; s != NULL && s->warnings[i] != NULL; i++)
        count++;
    const char **texts = arena_array(sweep->arena, const char *, count + 1);
    const char *price = sweep_axes_price_warning(sweep->file);
    if (price != NULL) texts[at++] = price;
    for (int64_t i = 0; s != NULL && s->warnings[i] != NULL; i++)
        texts[at++] = arena_text(sweep->arena, s->warnings[i]);
    sweep->warnings = texts;
}

/* What the best layout takes for granted, as `run` prints it. */
static const char **assumed_by_best(struct sweep_run *run) {
    struct sweep *sweep = run->sweep;
    struct error ignored = { 0 };
    const char **none = arena_array(sweep->arena, const char *, 1);
    collect_warnings(sweep, NULL);
    if (sweep->row_count == 0) return none;
    /* Where no layout keeps all limits, those that keep one still need the band of memory. */
    const int64_t chosen = sweep->best_count > 0 ? sweep->best[0] : 0;
    struct json *json = sweep_file_scenario(sweep->file, sweep->rows[chosen].row_index, &ignored);
    struct scenario *s =
        json != NULL ? scenario_load_json(&run->scenario_options, json, &ignored) : NULL;
    struct shared *shared = s != NULL ? sweep_share_data(run->share, s) : NULL;
    sweep_share_fill(run->share, SHARE_DATA, run->pool);
    if (s != NULL) sweep->memory_band_fraction = cost_model_memory_band(s->cost_model);
    collect_warnings(sweep, sweep->best_count > 0 ? s : NULL);
    struct shared *batches = s != NULL ? sweep_share_batches(run->share, s, shared) : NULL;
    sweep_share_fill(run->share, SHARE_BATCHES, run->pool);
    const struct job *data = batches != NULL ? batches->job : NULL;
    int64_t count = data != NULL ? data->data_note_count : 0, at = 0;
    for (int64_t i = 0; s != NULL && s->assumptions[i] != NULL; i++)
        count++;
    const char **texts = arena_array(sweep->arena, const char *, count + 1);
    for (int64_t i = 0; data != NULL && i < data->data_note_count; i++)
        texts[at++] = arena_text(sweep->arena, data->data_notes[i]);
    for (int64_t i = 0; s != NULL && s->assumptions[i] != NULL; i++)
        texts[at++] = arena_text(sweep->arena, s->assumptions[i]);
    scenario_destroy(s);
    return sweep->best_count > 0 ? texts : none;
}

static bool run_phases(struct sweep_run *run, struct error *err) {
    struct sweep_team *team = run->options->team;
    struct sweep *sweep = run->sweep;
    const bool ready =
        sweep_axes_check(sweep->file, &run->scenario_options, err) && open_sweep(run, err);
    if (!sweep_team_agree(team, ready, err)) return false;
    sweep_exchange_known(run);
    if (!sweep_race(run, err)) return false;
    if (sweep->row_count > 0)
        qsort(sweep->rows, (size_t)sweep->row_count, sizeof *sweep->rows, compare_by_index);
    if (!sweep_replay_best(run, err)) return false;
    if (sweep_team_member(team) == 0) sweep->assumed = assumed_by_best(run);
    return sweep_team_agree(team, sweep_team_member(team) > 0 || finish(run, err), err);
}

struct sweep *sweep_run(const struct sweep_options *options, const char *path, struct error *err) {
    struct sweep_file *file = sweep_file_load(options->scenario_options, path, err);
    const bool known = file != NULL && sweep_where_check(file, options->scenario_options, err);
    if (!sweep_team_agree(options->team, known, err)) {
        sweep_file_destroy(file);
        return NULL;
    }
    struct arena *arena = arena_create();
    struct sweep *sweep = arena_new(arena, struct sweep);
    sweep->arena = arena;
    sweep->file = file;
    sweep->cache = scenario_cache_create();
    sweep->configurations = file->configuration_count;
    if (!isnan(options->deadline_days)) file->deadline_days = options->deadline_days;
    if (!isnan(options->budget_usd)) file->budget_usd = options->budget_usd;
    struct sweep_run *run = memory_alloc(sizeof *run);
    memset(run, 0, sizeof *run);
    run->options = options;
    run->sweep = sweep;
    run->pruning = !options->prune            ? SWEEP_PRUNES_NOT
                   : options->shard_count > 1 ? SWEEP_PRUNES_IN_SHARDS
                                              : SWEEP_PRUNES;
    run->scenario_options = *options->scenario_options;
    run->scenario_options.overrides = NULL; /* applied to the base already */
    run->scenario_options.removals = NULL;
    run->scenario_options.cache = sweep->cache;
    run->pool = thread_pool_create(options->threads);
    run->share = sweep_share_create(file->race_iterations);
    pthread_mutex_init(&run->lock, NULL);
    run->received = arena_create();
    const bool ok = run_phases(run, err);
    run_destroy(run);
    if (ok) return sweep;
    sweep_destroy(sweep);
    return NULL;
}

void sweep_destroy(struct sweep *sweep) {
    if (sweep == NULL) return;
    free(sweep->rows);
    free(sweep->best);
    free(sweep->alike);
    free(sweep->rescaled);
    for (int question = 0; question < SWEEP_QUESTION_COUNT; question++)
        free(sweep->rescaled_for[question]);
    sweep_file_destroy(sweep->file);
    scenario_cache_destroy(sweep->cache);
    arena_destroy(sweep->arena);
}
