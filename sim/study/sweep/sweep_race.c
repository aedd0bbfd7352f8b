/* sweep_race.c - rounds: read, reject, share, race, store. */
#include "sim/study/sweep/sweep_race.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>
#include "sim/base/wall_clock.h"

#define COMMIT_INTERVAL_S 0.25

/* ---- rows and rejections ---- */

struct sweep_row_record *sweep_run_add_row(struct sweep_run *run,
                                           const struct sweep_row_record *row) {
    struct sweep *sweep = run->sweep;
    if (sweep->row_count == run->row_capacity) {
        run->row_capacity = run->row_capacity > 0 ? 2 * run->row_capacity : 1024;
        sweep->rows = memory_realloc(sweep->rows, sizeof *sweep->rows * (size_t)run->row_capacity);
    }
    sweep->rows[sweep->row_count] = *row;
    return &sweep->rows[sweep->row_count++];
}

/* A planner's reasons differ from policy to policy; what stands behind their colon, in every row. */
static bool is_same_reason(const struct sweep_rejection_record *record, const char *rule,
                           const char *message) {
    if (strcmp(record->rule, rule) != 0) return false;
    const size_t length = strcspn(message, ":\n");
    return strcmp(rule, "plan") != 0 || (strncmp(record->message, message, length) == 0 &&
                                         strcspn(record->message, ":\n") == length);
}

static void count_rejection(struct sweep_run *run, const struct sweep_item *item) {
    struct sweep *sweep = run->sweep;
    const char *rule = item->condition != NULL ? arena_format(sweep->arena, "where: %s",
                                                              condition_text(item->condition))
                                               : item->rule;
    int64_t i = 0;
    while (i < sweep->rejection_count &&
           !is_same_reason(&sweep->rejections[i], rule, item->message))
        i++;
    if (i == sweep->rejection_count) {
        if (i == run->rejection_capacity) {
            run->rejection_capacity = i > 0 ? 2 * i : 64;
            struct sweep_rejection_record *more =
                arena_array(sweep->arena, struct sweep_rejection_record, run->rejection_capacity);
            if (i > 0) memcpy(more, sweep->rejections, sizeof *more * (size_t)i);
            sweep->rejections = more;
        }
        sweep->rejections[sweep->rejection_count++] =
            (struct sweep_rejection_record){ .rule = arena_text(sweep->arena, rule),
                                             .row_index = item->index,
                                             .message = arena_text(sweep->arena, item->message) };
    }
    sweep->rejections[i].row_count++;
}

/* ---- storing ---- */

static bool commit_pending(struct sweep_run *run, struct error *err) {
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
    run->committed_s = wall_clock_s();
    return ok;
}

/* ---- a round ---- */

static void resolve_one(void *context, int64_t i, int thread_index) {
    (void)thread_index;
    struct sweep_run *run = context;
    i += run->mine_begin;
    sweep_item_resolve(&run->items[i], run->sweep->file, &run->scenario_options,
                       run->round_begin + i);
}

static void evaluate_one(void *context, int64_t i, int thread_index) {
    (void)thread_index;
    struct sweep_run *run = context;
    i += run->mine_begin;
    struct sweep_item *item = &run->items[i];
    if (item->state != ITEM_NEW) return;
    sweep_item_evaluate(item, run->pruning != SWEEP_PRUNES_NOT ? &run->incumbents : NULL);
    if (item->state != ITEM_DONE || run->options->store == NULL) return;
    pthread_mutex_lock(&run->lock);
    run->pending[run->pending_count++] = i;
    if (!run->store_failed && wall_clock_s() - run->committed_s > COMMIT_INTERVAL_S)
        run->store_failed = !commit_pending(run, &run->store_err);
    pthread_mutex_unlock(&run->lock);
}

static int64_t shard_of(const struct sweep_run *run, const struct sweep_item *item) {
    if (item->configuration[0] == '\0') return item->index % run->options->shard_count;
    char digits[9] = { 0 };
    memcpy(digits, item->configuration, 8);
    return (int64_t)(strtoull(digits, NULL, 16) % (uint64_t)run->options->shard_count);
}

/* Which of the round's items are to be evaluated. */
static void sort_out(struct sweep_run *run, int64_t count) {
    for (int64_t i = 0; i < count; i++) {
        struct sweep_item *item = &run->items[i];
        if (item->state == ITEM_FAILED) continue;
        if (shard_of(run, item) != run->options->shard_index) {
            item->state = ITEM_ELSEWHERE;
            continue;
        }
        if (item->state == ITEM_REJECTED) continue;
        if (configuration_table_find(&run->seen, item->configuration) != NULL) {
            item->state = ITEM_DUPLICATE;
            continue;
        }
        configuration_table_insert(&run->seen, item->configuration, SWEEP_NO_ROW);
        if (configuration_table_find(&run->known, item->configuration) != NULL)
            item->state = ITEM_KNOWN;
    }
}

static void share_out(struct sweep_run *run) {
    struct sweep_item *items = run->items;
    const int64_t begin = run->mine_begin, end = run->mine_end;
    for (int64_t i = begin; i < end; i++)
        if (sweep_item_is_live(&items[i]))
            items[i].data = sweep_share_data(run->share, items[i].scenario);
    sweep_share_fill(run->share, SHARE_DATA, run->pool);
    for (int64_t i = begin; i < end; i++)
        if (items[i].state == ITEM_NEW)
            items[i].batches = sweep_share_batches(run->share, items[i].scenario, items[i].data);
    sweep_share_fill(run->share, SHARE_BATCHES, run->pool);
    for (int64_t i = begin; i < end; i++)
        if (items[i].state == ITEM_NEW)
            items[i].prices = sweep_share_prices(run->share, items[i].scenario, items[i].batches);
    sweep_share_fill(run->share, SHARE_PRICES, run->pool);
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
static bool take_over(struct sweep_run *run, int64_t count, struct error *err) {
    struct sweep *sweep = run->sweep;
    for (int64_t i = 0; i < count; i++) {
        struct sweep_item *item = &run->items[i];
        if (item->state == ITEM_FAILED) return failed(sweep, item, err);
        if (item->state == ITEM_REJECTED) count_rejection(run, item);
        if (item->state == ITEM_DUPLICATE) sweep->duplicates++;
        if (item->state != ITEM_DONE && item->state != ITEM_KNOWN) continue;
        const struct sweep_row_record *row = &item->row;
        int64_t *place = configuration_table_find(&run->seen, item->configuration);
        if (item->state == ITEM_KNOWN) {
            *place = *configuration_table_find(&run->known, item->configuration);
            row = &sweep->rows[*place];
            sweep->resumed++;
        } else {
            *place = sweep->row_count;
            struct sweep_row_record *kept = sweep_run_add_row(run, row);
            kept->configuration = arena_text(sweep->arena, item->configuration);
            if (row->outcome != NULL) kept->outcome = arena_text(sweep->arena, row->outcome);
            if (row->reason != NULL) kept->reason = arena_text(sweep->arena, row->reason);
            row = kept;
            sweep->evaluated += strcmp(row->status, "pruned") != 0;
        }
        sweep->valid++;
        sweep->pruned += strcmp(row->status, "pruned") == 0;
    }
    return true;
}

/* Incumbents are of completed rounds: also on resuming, where some of a round's rows are known. */
static void add_incumbents(struct sweep_run *run, int64_t count) {
    struct sweep *sweep = run->sweep;
    for (int64_t i = 0; i < count; i++) {
        const struct sweep_item *item = &run->items[i];
        if (item->state != ITEM_KNOWN && item->state != ITEM_DONE) continue;
        const struct sweep_row_record *row =
            &sweep->rows[*configuration_table_find(&run->seen, item->configuration)];
        if (row->verdict == NULL || strcmp(row->status, "pruned") == 0) continue;
        /* A replay has replaced the race's figures: only equal figures prune equally. */
        if (strcmp(row->status, "replayed") == 0 || strcmp(row->verdict, "out of memory") == 0)
            continue;
        /* What trains less, cannot be launched or may give way to another size of step beats
         * nobody. */
        if (!record_leaves_out(row->left_out_fraction) && row->reason == NULL && !item->rescales)
            incumbents_add(&run->incumbents, row);
    }
}

/* ---- progress ---- */

static void forget_best(struct sweep_round_record *progress) {
    progress->best_total_days = progress->best_gpu_days = progress->best_money_usd = NAN;
}

/* fmin() takes the number where the other is NaN. What needs code counts until something does not,
 * as where the rows are ordered. */
static void note_best(struct sweep_run *run, const struct sweep_row_record *row) {
    struct sweep_round_record *progress = &run->progress;
    if (row->verdict == NULL || strcmp(row->verdict, "out of memory") == 0 ||
        record_leaves_out(row->left_out_fraction))
        return;
    const bool launches = !sweep_row_needs_code(row);
    if (!launches && run->launches) return;
    if (launches && !run->launches) forget_best(progress);
    run->launches = launches;
    progress->best_total_days = fmin(progress->best_total_days, row->total_days);
    progress->best_gpu_days = fmin(progress->best_gpu_days, row->gpu_days);
    progress->best_money_usd = fmin(progress->best_money_usd, row->money_usd);
}

static bool note_round(struct sweep_run *run, int64_t count, struct error *err) {
    struct sweep *sweep = run->sweep;
    struct sweep_round_record *progress = &run->progress;
    for (int64_t i = 0; i < count; i++) {
        const struct sweep_item *item = &run->items[i];
        if (item->state != ITEM_ELSEWHERE) progress->configuration_count++;
        if (item->state == ITEM_REJECTED) progress->rejected_count++;
        if (item->state != ITEM_DONE && item->state != ITEM_KNOWN) continue;
        const int64_t index = *configuration_table_find(&run->seen, item->configuration);
        const struct sweep_row_record *row = &sweep->rows[index];
        const bool pruned = strcmp(row->status, "pruned") == 0;
        progress->pruned_count += pruned;
        progress->raced_count += !pruned;
        note_best(run, row);
    }
    bool ok = true;
    if (run->options->store != NULL && progress->round_index >= run->stored_rounds)
        ok = store_add_sweep_rounds(run->options->store, progress, 1, err);
    progress->round_index++;
    return ok;
}

/* This member's part: prepared and raced. */
static bool race_mine(struct sweep_run *run, struct error *err) {
    share_out(run);
    if (!sweep_inputs_check(run, err)) return false;
    run->committed_s = wall_clock_s();
    thread_pool_run(run->pool, run->mine_end - run->mine_begin, evaluate_one, run);
    if (run->store_failed) *err = run->store_err;
    return !run->store_failed && commit_pending(run, err);
}

/* The others' answers are stored with the end of the round. */
static bool store_theirs(struct sweep_run *run, int64_t count, struct error *err) {
    if (run->options->store == NULL) return true;
    for (int64_t i = 0; i < count; i++)
        if ((i < run->mine_begin || i >= run->mine_end) && run->items[i].state == ITEM_DONE)
            run->pending[run->pending_count++] = i;
    return commit_pending(run, err);
}

static bool run_round(struct sweep_run *run, int64_t count, struct error *err) {
    struct sweep_team *team = run->options->team;
    const int64_t member = sweep_team_member(team), members = sweep_team_count(team);
    run->mine_begin = count * member / members;
    run->mine_end = count * (member + 1) / members;
    thread_pool_run(run->pool, run->mine_end - run->mine_begin, resolve_one, run);
    if (!sweep_exchange_items(run, count, err)) return false;
    sort_out(run, count);
    if (!sweep_team_agree(team, race_mine(run, err), err) || !sweep_exchange_items(run, count, err))
        return false;
    bool ok = store_theirs(run, count, err) && take_over(run, count, err);
    if (ok) add_incumbents(run, count);
    sweep_share_end_round(run->share);
    return sweep_team_agree(team, ok && note_round(run, count, err), err);
}

static void clear_round(struct sweep_run *run, int64_t count) {
    for (int64_t i = 0; i < count; i++)
        sweep_item_clear(&run->items[i]);
}

bool sweep_race(struct sweep_run *run, struct error *err) {
    int64_t total = run->sweep->configurations;
    const struct sweep_options *o = run->options;
    double start = wall_clock_s();
    bool ok = true;
    forget_best(&run->progress);
    run->launches = false;
    for (run->round_begin = 0; ok && run->round_begin < total; run->round_begin += SWEEP_ROUND) {
        int64_t count =
            total - run->round_begin < SWEEP_ROUND ? total - run->round_begin : SWEEP_ROUND;
        ok = run_round(run, count, err);
        clear_round(run, count);
        if (o->progress != NULL)
            o->progress(o->progress_context, SWEEP_RACE, run->round_begin + count, total);
    }
    run->sweep->race_s = wall_clock_s() - start;
    return ok;
}
