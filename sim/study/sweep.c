/* sweep.c - rounds, the database, and the replay of the best. */
#include "sim/study/sweep.h"

#include <math.h>
#include <pthread.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include "sim/base/thread_pool.h"
#include "sim/study/sweep_lock.h"
#include "sim/study/sweep_row.h"

/* Large enough to keep threads busy, small enough that its scenarios fit into caches. */
enum { ROUND = 512 };
#define COMMIT_INTERVAL_S 0.25

static double wall_s(void) {
    struct timespec now;
    clock_gettime(CLOCK_MONOTONIC, &now);
    return (double)now.tv_sec + (double)now.tv_nsec * 1e-9;
}

/* Configurations seen, by hash; value: index in rows, or NO_ROW while it has none. */
struct hash_table {
    char (*keys)[CONFIGURATION_DIGITS + 1];
    int64_t *values, count, capacity;
};
enum { NO_ROW = -1, NOT_SEEN = -2 };

struct run {
    const struct sweep_options *options;
    struct sweep *sweep;
    struct scenario_options scenario_options; /* with the cache, without --set */
    struct thread_pool *pool;
    struct sweep_lock *lock_file;
    bool prune;
    struct sweep_share *share;
    struct hash_table known; /* of the database at the beginning */
    struct hash_table seen;  /* by this run */
    struct incumbents incumbents;
    struct sweep_item items[ROUND];
    int64_t round_begin, row_capacity, input_count;
    struct sweep_input_record *inputs;
    /* rows finished and not stored yet */
    pthread_mutex_t lock;
    int64_t pending[ROUND], pending_count;
    double committed_s;
    bool store_failed;
    struct error store_err;
};

/* ---- hash table ---- */

static int64_t *find(struct hash_table *table, const char *key) {
    if (table->capacity == 0) return NULL;
    uint64_t at =
        strtoull((char[17]){ key[0], key[1], key[2], key[3], key[4], key[5], key[6], key[7], key[8],
                             key[9], key[10], key[11], key[12], key[13], key[14], '\0' },
                 NULL, 16);
    for (;; at++) {
        uint64_t i = at % (uint64_t)table->capacity;
        if (table->keys[i][0] == '\0') return NULL;
        if (strcmp(table->keys[i], key) == 0) return &table->values[i];
    }
}

static void insert(struct hash_table *table, const char *key, int64_t value);

static void grow_table(struct hash_table *table) {
    struct hash_table larger = { .capacity = table->capacity > 0 ? 2 * table->capacity : 1024 };
    larger.keys = calloc((size_t)larger.capacity, sizeof *larger.keys);
    larger.values = memory_alloc(sizeof *larger.values * (size_t)larger.capacity);
    ballast_check(larger.keys != NULL);
    for (int64_t i = 0; i < table->capacity; i++)
        if (table->keys[i][0] != '\0') insert(&larger, table->keys[i], table->values[i]);
    free(table->keys);
    free(table->values);
    *table = larger;
}

static void insert(struct hash_table *table, const char *key, int64_t value) {
    if (2 * table->count >= table->capacity) grow_table(table);
    uint64_t at =
        strtoull((char[17]){ key[0], key[1], key[2], key[3], key[4], key[5], key[6], key[7], key[8],
                             key[9], key[10], key[11], key[12], key[13], key[14], '\0' },
                 NULL, 16);
    while (table->keys[at % (uint64_t)table->capacity][0] != '\0')
        at++;
    strcpy(table->keys[at % (uint64_t)table->capacity], key);
    table->values[at % (uint64_t)table->capacity] = value;
    table->count++;
}

/* ---- rows and rejections ---- */

static struct sweep_row_record *add_row(struct run *run, const struct sweep_row_record *row) {
    struct sweep *sweep = run->sweep;
    if (sweep->row_count == run->row_capacity) {
        run->row_capacity = run->row_capacity > 0 ? 2 * run->row_capacity : 1024;
        sweep->rows = memory_realloc(sweep->rows, sizeof *sweep->rows * (size_t)run->row_capacity);
    }
    sweep->rows[sweep->row_count] = *row;
    return &sweep->rows[sweep->row_count++];
}

static void count_rejection(struct run *run, const struct sweep_item *item) {
    struct sweep *sweep = run->sweep;
    const char *rule = item->condition != NULL ? arena_format(sweep->arena, "where: %s",
                                                              condition_text(item->condition))
                                               : item->rule;
    int64_t i = 0;
    while (i < sweep->rejection_count && strcmp(sweep->rejections[i].rule, rule) != 0)
        i++;
    if (i == sweep->rejection_count) {
        enum { MOST_RULES = 256 };
        ballast_check(i < MOST_RULES);
        if (sweep->rejections == NULL)
            sweep->rejections =
                arena_array(sweep->arena, struct sweep_rejection_record, MOST_RULES);
        sweep->rejections[sweep->rejection_count++] =
            (struct sweep_rejection_record){ .rule = arena_text(sweep->arena, rule),
                                             .row_index = item->index,
                                             .message = arena_text(sweep->arena, item->message) };
    }
    sweep->rejections[i].row_count++;
}

const char *sweep_assignments(struct sweep *sweep, int64_t row) {
    struct sweep_row_record *r = &sweep->rows[row];
    if (r->assignments != NULL) return r->assignments;
    cJSON *object = sweep_file_assignments(sweep->file, r->row_index);
    char *text = cJSON_PrintUnformatted(object);
    r->assignments = arena_text(sweep->arena, text);
    cJSON_free(text);
    cJSON_Delete(object);
    return r->assignments;
}

/* ---- storing ---- */

static bool commit_pending(struct run *run, struct error *err) {
    struct store *store = run->options->store;
    if (store == NULL || run->pending_count == 0) {
        run->pending_count = 0;
        return true;
    }
    bool ok = store_begin(store, err);
    for (int64_t i = 0; ok && i < run->pending_count; i++) {
        struct sweep_row_record row = run->items[run->pending[i]].row;
        cJSON *object = sweep_file_assignments(run->sweep->file, row.row_index);
        char *text = cJSON_PrintUnformatted(object);
        row.assignments = text;
        ok = store_add_sweep_rows(store, &row, 1, err);
        cJSON_free(text);
        cJSON_Delete(object);
    }
    ok = ok && store_end(store, err);
    run->pending_count = 0;
    run->committed_s = wall_s();
    return ok;
}

/* ---- a round ---- */

static void resolve_one(void *context, int64_t i, int thread_index) {
    (void)thread_index;
    struct run *run = context;
    sweep_item_resolve(&run->items[i], run->sweep->file, &run->scenario_options,
                       run->round_begin + i);
}

static void evaluate_one(void *context, int64_t i, int thread_index) {
    (void)thread_index;
    struct run *run = context;
    struct sweep_item *item = &run->items[i];
    if (item->state != ITEM_NEW) return;
    sweep_item_evaluate(item, run->prune ? &run->incumbents : NULL);
    if (item->state != ITEM_DONE || run->options->store == NULL) return;
    pthread_mutex_lock(&run->lock);
    run->pending[run->pending_count++] = i;
    if (!run->store_failed && wall_s() - run->committed_s > COMMIT_INTERVAL_S)
        run->store_failed = !commit_pending(run, &run->store_err);
    pthread_mutex_unlock(&run->lock);
}

static int64_t shard_of(const struct run *run, const struct sweep_item *item) {
    if (item->configuration[0] == '\0') return item->index % run->options->shard_count;
    char digits[9] = { 0 };
    memcpy(digits, item->configuration, 8);
    return (int64_t)(strtoull(digits, NULL, 16) % (uint64_t)run->options->shard_count);
}

/* Which of the round's items are to be evaluated. */
static void sort_out(struct run *run, int64_t count) {
    for (int64_t i = 0; i < count; i++) {
        struct sweep_item *item = &run->items[i];
        if (item->state == ITEM_FAILED) continue;
        if (shard_of(run, item) != run->options->shard_index) {
            item->state = ITEM_ELSEWHERE;
            continue;
        }
        if (item->state == ITEM_REJECTED) continue;
        if (find(&run->seen, item->configuration) != NULL) {
            item->state = ITEM_DUPLICATE;
            continue;
        }
        insert(&run->seen, item->configuration, NO_ROW);
        if (find(&run->known, item->configuration) != NULL) item->state = ITEM_KNOWN;
    }
}

static bool is_live(const struct sweep_item *item) {
    return item->state == ITEM_NEW || item->state == ITEM_KNOWN;
}

static void share_out(struct run *run, int64_t count) {
    struct sweep_item *items = run->items;
    for (int64_t i = 0; i < count; i++)
        if (is_live(&items[i])) items[i].data = sweep_share_data(run->share, items[i].scenario);
    sweep_share_fill(run->share, SHARE_DATA, run->pool);
    for (int64_t i = 0; i < count; i++)
        if (items[i].state == ITEM_NEW)
            items[i].batches = sweep_share_batches(run->share, items[i].scenario, items[i].data);
    sweep_share_fill(run->share, SHARE_BATCHES, run->pool);
    for (int64_t i = 0; i < count; i++)
        if (items[i].state == ITEM_NEW)
            items[i].prices = sweep_share_prices(run->share, items[i].scenario, items[i].batches);
    sweep_share_fill(run->share, SHARE_PRICES, run->pool);
}

/* What the answers rest on must be what it was when the sweep was begun. */
static bool check_input(struct run *run, const char *kind, const char *name,
                        const char *fingerprint, struct error *err) {
    for (int64_t i = 0; i < run->input_count; i++) {
        const struct sweep_input_record *input = &run->inputs[i];
        if (strcmp(input->kind, kind) != 0 || strcmp(input->name, name) != 0) continue;
        if (strcmp(input->fingerprint, fingerprint) == 0) return true;
        error_set(err, "%s \"%s\" has changed since sweep \"%s\" was begun", kind, name,
                  run->sweep->file->name);
        return error_hint(err, "give the sweep another \"name\", or use another database");
    }
    struct arena *arena = run->sweep->arena;
    struct sweep_input_record *grown =
        arena_array(arena, struct sweep_input_record, run->input_count + 1);
    if (run->input_count > 0) memcpy(grown, run->inputs, sizeof *grown * (size_t)run->input_count);
    grown[run->input_count] =
        (struct sweep_input_record){ arena_text(arena, kind), arena_text(arena, name),
                                     arena_text(arena, fingerprint) };
    run->inputs = grown;
    return run->options->store == NULL ||
           store_add_sweep_inputs(run->options->store, &run->inputs[run->input_count++], 1, err);
}

static uint64_t mix(uint64_t hash, const void *bytes, size_t size) {
    const unsigned char *byte = bytes;
    for (size_t i = 0; i < size; i++)
        hash = (hash ^ byte[i]) * 0x100000001b3u; /* FNV-1a */
    return hash;
}

static const char *data_fingerprint(struct arena *arena, const struct dataset *d) {
    uint64_t hash = 0xcbf29ce484222325u;
    for (int64_t i = 0; i < d->sample_count; i++) {
        int64_t figures[] = { d->samples[i].language_tokens, d->samples[i].vision_tiles,
                              d->vision_patches != NULL ? d->vision_patches[i] : 0,
                              d->clip_ms != NULL ? d->clip_ms[i] : 0 };
        hash = mix(hash, figures, sizeof figures);
    }
    return arena_format(arena, "%ld samples %016llx", (long)d->sample_count,
                        (unsigned long long)hash);
}

static const char *model_fingerprint(struct arena *arena, const struct model *m) {
    struct batch_shape probe = { .samples = 1,
                                 .vision_tiles = 1,
                                 .vision_tokens = 1024,
                                 .vision_square_sum = 1e6,
                                 .connector_tokens = 256,
                                 .language_tokens = 4096,
                                 .language_square_sum = 1e7,
                                 .useful_language_tokens = 4096,
                                 .video_clips = 1,
                                 .video_tokens = 2048,
                                 .video_square_sum = 4e6,
                                 .cross_square_sum = 1e6 };
    double flop = 0;
    for (int64_t i = 0; i < m->layer_count; i++)
        flop += model_layer_flop(m, i, &probe);
    return arena_format(arena, "%ld layers, %ld parameters, %.10g FLOP", (long)m->layer_count,
                        (long)model_parameters(m), flop);
}

static bool check_inputs(struct run *run, int64_t count, struct error *err) {
    const void *last_model = NULL, *last_cost = NULL;
    struct arena *scratch = arena_create();
    bool ok = true;
    for (int64_t i = 0; ok && i < count; i++) {
        const struct sweep_item *item = &run->items[i];
        if (!is_live(item)) continue;
        const struct scenario *s = item->scenario;
        if (!item->data->checked && item->data->job != NULL)
            ok = check_input(run, "data set",
                             arena_format(scratch, "%s %s", s->dataset_fields.name,
                                          item->data->key + strcspn(item->data->key, " ") + 1),
                             data_fingerprint(scratch, item->data->job->dataset), err);
        item->data->checked = ok;
        if (ok && s->model->layers != last_model)
            ok = check_input(run, "model", s->model->name, model_fingerprint(scratch, s->model),
                             err);
        if (ok && s->cost_model != last_cost)
            ok = check_input(run, "hardware", s->cluster_fields.hardware,
                             cost_model_profile_id(s->cost_model), err);
        last_model = s->model->layers;
        last_cost = s->cost_model;
    }
    arena_destroy(scratch);
    return ok;
}

static bool failed(const struct sweep *sweep, const struct sweep_item *item, struct error *err) {
    cJSON *object = sweep_file_assignments(sweep->file, item->index);
    char *text = cJSON_PrintUnformatted(object);
    error_set(err, "%s", item->message);
    error_context(err, "in configuration %ld of sweep \"%s\": %s", (long)item->index,
                  sweep->file->name, text);
    cJSON_free(text);
    cJSON_Delete(object);
    return false;
}

/* Takes the round's answers over, in order. */
static bool take_over(struct run *run, int64_t count, struct error *err) {
    struct sweep *sweep = run->sweep;
    for (int64_t i = 0; i < count; i++) {
        struct sweep_item *item = &run->items[i];
        if (item->state == ITEM_FAILED) return failed(sweep, item, err);
        if (item->state == ITEM_REJECTED) count_rejection(run, item);
        if (item->state == ITEM_DUPLICATE) sweep->duplicates++;
        if (item->state != ITEM_DONE && item->state != ITEM_KNOWN) continue;
        const struct sweep_row_record *row = &item->row;
        if (item->state == ITEM_KNOWN) {
            row = &sweep->rows[*find(&run->known, item->configuration)];
            sweep->resumed++;
        } else {
            struct sweep_row_record *kept = add_row(run, row);
            kept->configuration = arena_text(sweep->arena, item->configuration);
            row = kept;
            sweep->evaluated += strcmp(row->status, "pruned") != 0;
        }
        sweep->valid++;
        sweep->pruned += strcmp(row->status, "pruned") == 0;
    }
    return true;
}

/* Incumbents are of completed rounds: also on resuming, where some of a round's rows are known. */
static void add_incumbents(struct run *run, int64_t first_row, int64_t count) {
    struct sweep *sweep = run->sweep;
    for (int64_t i = 0; i < count; i++) {
        const struct sweep_item *item = &run->items[i];
        const struct sweep_row_record *row = NULL;
        if (item->state == ITEM_KNOWN)
            row = &sweep->rows[*find(&run->known, item->configuration)];
        else if (item->state == ITEM_DONE)
            row = &sweep->rows[first_row++];
        if (row == NULL || row->verdict == NULL || strcmp(row->status, "pruned") == 0) continue;
        /* A replay has replaced the race's figures: only equal figures prune equally. */
        if (strcmp(row->status, "replayed") == 0 || strcmp(row->verdict, "out of memory") == 0)
            continue;
        incumbents_add(&run->incumbents, row);
    }
}

static bool run_round(struct run *run, int64_t count, struct error *err) {
    thread_pool_run(run->pool, count, resolve_one, run);
    sort_out(run, count);
    share_out(run, count);
    if (!check_inputs(run, count, err)) return false;
    run->committed_s = wall_s();
    thread_pool_run(run->pool, count, evaluate_one, run);
    if (run->store_failed) {
        *err = run->store_err;
        return false;
    }
    int64_t first_row = run->sweep->row_count;
    if (!commit_pending(run, err) || !take_over(run, count, err)) return false;
    add_incumbents(run, first_row, count);
    sweep_share_end_round(run->share);
    return true;
}

static void clear_round(struct run *run, int64_t count) {
    for (int64_t i = 0; i < count; i++)
        sweep_item_clear(&run->items[i]);
}

static bool race(struct run *run, struct error *err) {
    int64_t total = run->sweep->configurations;
    const struct sweep_options *o = run->options;
    double start = wall_s();
    bool ok = true;
    for (run->round_begin = 0; ok && run->round_begin < total; run->round_begin += ROUND) {
        int64_t count = total - run->round_begin < ROUND ? total - run->round_begin : ROUND;
        ok = run_round(run, count, err);
        clear_round(run, count);
        if (o->progress != NULL)
            o->progress(o->progress_context, SWEEP_RACE, run->round_begin + count, total);
    }
    run->sweep->race_s = wall_s() - start;
    return ok;
}

/* ---- the best ---- */

double sweep_objective_value(const struct sweep *sweep, const struct sweep_row_record *row) {
    switch (sweep->file->objective) {
    case SWEEP_TOTAL_DAYS:
        return row->total_days;
    case SWEEP_MONEY:
        return row->money_usd;
    default:
        return row->gpu_days;
    }
}

static bool is_candidate(const struct sweep *sweep, const struct sweep_row_record *row) {
    if (row->verdict == NULL || strcmp(row->verdict, "out of memory") == 0) return false;
    const struct sweep_file *f = sweep->file;
    return !isnan(sweep_objective_value(sweep, row)) && !(row->total_days > f->deadline_days) &&
           !(row->money_usd > f->budget_usd);
}

static bool is_replayed(const struct sweep_row_record *row) {
    return strcmp(row->status, "replayed") == 0;
}

/* What was replayed in full stands before what was only raced. */
static int compare_rows(const void *a, const void *b, void *context) {
    const struct sweep *sweep = context;
    const struct sweep_row_record *left = &sweep->rows[*(const int64_t *)a],
                                  *right = &sweep->rows[*(const int64_t *)b];
    if (is_replayed(left) != is_replayed(right)) return is_replayed(left) ? -1 : 1;
    double l = sweep_objective_value(sweep, left), r = sweep_objective_value(sweep, right);
    if (l != r) return l < r ? -1 : 1;
    if (left->total_days != right->total_days) return left->total_days < right->total_days ? -1 : 1;
    return (left->row_index > right->row_index) - (left->row_index < right->row_index);
}

static void rank(struct sweep *sweep) {
    free(sweep->best);
    sweep->best = memory_alloc(sizeof *sweep->best * (size_t)(sweep->row_count + 1));
    sweep->best_count = 0;
    for (int64_t i = 0; i < sweep->row_count; i++)
        if (is_candidate(sweep, &sweep->rows[i])) sweep->best[sweep->best_count++] = i;
    qsort_r(sweep->best, (size_t)sweep->best_count, sizeof *sweep->best, compare_rows, sweep);
}

/* "micro_batch" of "training.micro_batch.samples", "tp" of "layout.tp". */
static const char *short_path(struct arena *arena, const char *path) {
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

/* "tp 2, pp 4, batching isf": of values that are set together the first stands for all. */
const char *sweep_label(struct sweep *sweep, int64_t row) {
    const char *label = "";
    cJSON *object = sweep_file_assignments(sweep->file, sweep->rows[row].row_index);
    for (int64_t a = 0; a < sweep->file->axis_count; a++) {
        const char *path = sweep->file->axes[a].paths[0];
        const cJSON *value = cJSON_GetObjectItemCaseSensitive(object, path);
        label = arena_format(sweep->arena, "%s%s%s %s", label, a > 0 ? ", " : "",
                             short_path(sweep->arena, path), short_value(sweep->arena, value));
    }
    cJSON_Delete(object);
    return label;
}

static bool replay_row(struct run *run, int64_t row_index, struct comparison_run *out,
                       struct error *err) {
    struct sweep *sweep = run->sweep;
    struct sweep_row_record *row = &sweep->rows[row_index];
    struct json *json = sweep_file_scenario(sweep->file, row->row_index, err);
    if (json == NULL) return false;
    struct replay_options replay = { .threads = run->options->threads };
    struct execution *e = execution_run_json(&run->scenario_options, json, &replay, err);
    if (e == NULL) return false;
    e->scenario->name =
        arena_format(sweep->arena, "%s [%s]", sweep->file->name, sweep_label(sweep, row_index));
    sweep_row_answer(row, e->scenario, e->replay, "replayed");
    sweep_assignments(sweep, row_index);
    bool ok = run->options->store == NULL ||
              execution_store_row(run->options->store, e, run->options->provenance, row, err);
    execution_record(e, run->options->provenance, sweep->arena, &out->record);
    out->record.id = row->run_id;
    out->iterations = execution_iterations(e, sweep->arena);
    out->iteration_count = e->replay->iteration_count;
    out->label = e->scenario->name;
    execution_destroy(e);
    return ok;
}

static bool load_run(struct run *run, int64_t run_id, struct comparison_run *out,
                     struct error *err) {
    int64_t count;
    struct run_record *record =
        store_load(run->options->store, RECORD_RUN, run_id, run->sweep->arena, &count, err);
    if (record == NULL || count == 0) return false;
    out->record = *record;
    out->label = record->scenario_name;
    out->iterations = store_load(run->options->store, RECORD_ITERATION, run_id, run->sweep->arena,
                                 &out->iteration_count, err);
    return out->iterations != NULL;
}

/* The best of those only raced, in order, until `wanted` are replayed: a call that was interrupted
 * chooses the same as one that was not, because its replays were the first of that order. */
static bool replay_best(struct run *run, struct error *err) {
    struct sweep *sweep = run->sweep;
    const struct sweep_options *o = run->options;
    int64_t wanted = o->top >= 0 ? o->top : sweep->file->top, done = 0;
    if (o->shard_count > 1) wanted = 0;
    struct comparison_run *runs = memory_alloc(sizeof *runs * (size_t)(sweep->row_count + 1));
    bool ok = true;
    for (int64_t i = 0; ok && i < sweep->row_count; i++) {
        if (!is_replayed(&sweep->rows[i])) continue;
        ok = load_run(run, sweep->rows[i].run_id, &runs[i], err);
        done++;
    }
    rank(sweep);
    for (int64_t i = 0; ok && i < sweep->best_count && done < wanted; i++) {
        if (is_replayed(&sweep->rows[sweep->best[i]])) continue;
        ok = replay_row(run, sweep->best[i], &runs[sweep->best[i]], err);
        if (o->progress != NULL) o->progress(o->progress_context, SWEEP_REPLAY, done + 1, wanted);
        done++;
    }
    if (ok) {
        rank(sweep);
        sweep->top = arena_array(sweep->arena, struct comparison_run, sweep->best_count + 1);
        while (sweep->top_count < sweep->best_count &&
               is_replayed(&sweep->rows[sweep->best[sweep->top_count]])) {
            sweep->top[sweep->top_count] = runs[sweep->best[sweep->top_count]];
            sweep->top_count++;
        }
    }
    free(runs);
    return ok;
}

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

/* Sorted by time, a point can only be dominated by one before it, and then by one on the front. */
static void find_front(struct sweep *sweep) {
    int64_t *order = memory_alloc(sizeof *order * (size_t)(sweep->row_count + 1)), count = 0;
    int64_t *front = memory_alloc(sizeof *front * (size_t)(sweep->row_count + 1)), front_count = 0;
    for (int64_t i = 0; i < sweep->row_count; i++) {
        struct sweep_row_record *row = &sweep->rows[i];
        row->on_front = 0;
        if (row->verdict != NULL && strcmp(row->verdict, "out of memory") != 0) order[count++] = i;
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

/* What only the whole sweep knows, in one transaction. */
static bool finish(struct run *run, struct error *err) {
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
                                         "UPDATE sweep_row SET on_front = ?1 WHERE sweep_id = ?2"
                                         " AND configuration = ?3 AND on_front IS NOT ?1",
                                         err)
                            : NULL;
    ok = mark != NULL;
    for (int64_t i = 0; ok && i < sweep->row_count; i++) {
        sqlite3_bind_int64(mark, 1, sweep->rows[i].on_front);
        sqlite3_bind_int64(mark, 2, store_sweep_id(store));
        sqlite3_bind_text(mark, 3, sweep->rows[i].configuration, -1, SQLITE_STATIC);
        ok = db_step(store_db(store), mark, err) == DB_DONE;
        sqlite3_reset(mark);
    }
    sqlite3_finalize(mark);
    return ok && store_end(store, err);
}

/* ---- beginning and end ---- */

/* The caller frees it. */
static char *definition_text(const struct sweep *sweep, bool prune) {
    cJSON *definition = cJSON_Parse(sweep->file->definition);
    cJSON_AddBoolToObject(definition, "prune", prune);
    char *text = cJSON_PrintUnformatted(definition);
    cJSON_Delete(definition);
    return text;
}

/* A sweep that was begun without pruning, as shards are, goes on without. */
static bool was_begun_without_pruning(struct run *run, bool *answer, struct error *err) {
    struct db *db = store_db(run->options->store);
    sqlite3_stmt *query =
        db_prepare(db, "SELECT 1 FROM sweep WHERE name = ?1 AND definition = ?2", err);
    if (query == NULL) return false;
    char *text = definition_text(run->sweep, false);
    sqlite3_bind_text(query, 1, run->sweep->file->name, -1, SQLITE_STATIC);
    sqlite3_bind_text(query, 2, text, -1, SQLITE_STATIC);
    enum db_step step = db_step(db, query, err);
    *answer = step == DB_ROW;
    sqlite3_finalize(query);
    cJSON_free(text);
    return step != DB_ERROR;
}

static bool open_sweep(struct run *run, struct error *err) {
    struct sweep *sweep = run->sweep;
    struct store *store = run->options->store;
    if (store == NULL) return true;
    run->lock_file = sweep_lock_take(store_db(store)->path, err);
    if (run->lock_file == NULL) return false;
    bool unpruned;
    if (!was_begun_without_pruning(run, &unpruned, err)) return false;
    run->prune = run->prune && !unpruned;
    char *text = definition_text(sweep, run->prune);
    struct sweep_record record = { .name = sweep->file->name,
                                   .tool_version = execution_version(),
                                   .source_commit = execution_commit(),
                                   .command_line = run->options->provenance->command_line,
                                   .definition = text,
                                   .row_count = sweep->configurations };
    int64_t sweep_id, count = 0;
    bool ok = store_begin_sweep(store, &record, &sweep_id, err);
    cJSON_free(text);
    struct sweep_row_record *rows =
        ok ? store_load(store, RECORD_SWEEP_ROW, sweep_id, sweep->arena, &count, err) : NULL;
    if (rows == NULL) return false;
    for (int64_t i = 0; i < count; i++) {
        insert(&run->known, rows[i].configuration, sweep->row_count);
        add_row(run, &rows[i]);
    }
    run->inputs =
        store_load(store, RECORD_SWEEP_INPUT, sweep_id, sweep->arena, &run->input_count, err);
    return run->inputs != NULL;
}

static void run_destroy(struct run *run) {
    sweep_share_destroy(run->share);
    thread_pool_destroy(run->pool);
    sweep_lock_release(run->lock_file);
    pthread_mutex_destroy(&run->lock);
    free(run->known.keys);
    free(run->known.values);
    free(run->seen.keys);
    free(run->seen.values);
    free(run->incumbents.items);
    free(run);
}

struct sweep *sweep_run(const struct sweep_options *options, const char *path, struct error *err) {
    struct sweep_file *file = sweep_file_load(options->scenario_options, path, err);
    if (file == NULL) return NULL;
    struct arena *arena = arena_create();
    struct sweep *sweep = arena_new(arena, struct sweep);
    sweep->arena = arena;
    sweep->file = file;
    sweep->cache = scenario_cache_create();
    sweep->configurations = file->configuration_count;
    if (!isnan(options->deadline_days)) file->deadline_days = options->deadline_days;
    if (!isnan(options->budget_usd)) file->budget_usd = options->budget_usd;
    struct run *run = memory_alloc(sizeof *run);
    memset(run, 0, sizeof *run);
    run->options = options;
    run->sweep = sweep;
    run->prune = options->prune;
    run->scenario_options = *options->scenario_options;
    run->scenario_options.overrides = NULL; /* applied to the base already */
    run->scenario_options.cache = sweep->cache;
    run->pool = thread_pool_create(options->threads);
    run->share = sweep_share_create(file->race_iterations);
    pthread_mutex_init(&run->lock, NULL);
    bool ok = open_sweep(run, err) && race(run, err);
    if (ok) qsort(sweep->rows, (size_t)sweep->row_count, sizeof *sweep->rows, compare_by_index);
    ok = ok && replay_best(run, err) && finish(run, err);
    run_destroy(run);
    if (ok) return sweep;
    sweep_destroy(sweep);
    return NULL;
}

void sweep_destroy(struct sweep *sweep) {
    if (sweep == NULL) return;
    free(sweep->rows);
    free(sweep->best);
    sweep_file_destroy(sweep->file);
    scenario_cache_destroy(sweep->cache);
    arena_destroy(sweep->arena);
}
