/* sweep_best.c - the order of the rows, their names, and the replay of the best. */
#include "sim/study/execution_rows.h"
#include "sim/study/sweep/sweep_race.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>
#include "results/sweep_label.h"

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

static bool is_out_of_memory(const struct sweep_row_record *row) {
    return row->verdict != NULL && strcmp(row->verdict, "out of memory") == 0;
}

bool sweep_row_is_candidate(const struct sweep *sweep, const struct sweep_row_record *row) {
    if (row->verdict == NULL || is_out_of_memory(row)) return false;
    const struct sweep_file *f = sweep->file;
    return !isnan(sweep_objective_value(sweep, row)) && !(row->total_days > f->deadline_days) &&
           !(row->money_usd > f->budget_usd);
}

bool sweep_row_is_replayed(const struct sweep_row_record *row) {
    return strcmp(row->status, "replayed") == 0;
}

bool sweep_row_may_run_out(const struct sweep_row_record *row) {
    return row->verdict != NULL && !is_out_of_memory(row) &&
           row->memory_bound_bytes > row->memory_capacity_bytes;
}

bool sweep_row_memory_unknown(const struct sweep_row_record *row) {
    return row->verdict != NULL && !is_out_of_memory(row) && row->memory_bound_bytes < 0;
}

bool sweep_row_needs_code(const struct sweep_row_record *row) {
    return row->verdict != NULL && row->reason != NULL;
}

int64_t sweep_row_memory_bytes(const struct sweep_row_record *row) {
    return row->memory_training_bytes > row->memory_peak_bytes ? row->memory_training_bytes
                                                               : row->memory_peak_bytes;
}

bool sweep_row_is_roomy(const struct sweep *sweep, const struct sweep_row_record *row) {
    return (double)sweep_row_memory_bytes(row) * (1 + sweep->memory_band_fraction) <=
           (double)row->memory_capacity_bytes;
}

/* What was replayed in full stands before what was only raced, what trains all samples before what
 * leaves some out, and what the backend's options launch before what needs code. */
static int compare_rows(const void *a, const void *b, void *context) {
    const struct sweep *sweep = context;
    const struct sweep_row_record *left = &sweep->rows[*(const int64_t *)a],
                                  *right = &sweep->rows[*(const int64_t *)b];
    if (sweep_row_is_replayed(left) != sweep_row_is_replayed(right))
        return sweep_row_is_replayed(left) ? -1 : 1;
    const bool less = record_leaves_out(left->left_out_fraction);
    if (less != record_leaves_out(right->left_out_fraction)) return less ? 1 : -1;
    if (sweep_row_needs_code(left) != sweep_row_needs_code(right))
        return sweep_row_needs_code(left) ? 1 : -1;
    double l = sweep_objective_value(sweep, left), r = sweep_objective_value(sweep, right);
    if (isnan(l) != isnan(r)) return isnan(r) ? -1 : 1;
    if (l < r || l > r) return l < r ? -1 : 1;
    if (!isnan(left->total_days) && !isnan(right->total_days) &&
        left->total_days != right->total_days)
        return left->total_days < right->total_days ? -1 : 1;
    return (left->row_index > right->row_index) - (left->row_index < right->row_index);
}

/* For each row the first in order of those with its outcome: a replayed one if there is one. */
static void find_alike(struct sweep *sweep, const int64_t *order) {
    struct configuration_table outcomes = { 0 };
    for (int64_t i = 0; i < sweep->row_count; i++) {
        const char *outcome = sweep->rows[order[i]].outcome;
        sweep->alike[order[i]] = order[i];
        if (outcome == NULL) continue;
        const int64_t *first = configuration_table_find(&outcomes, outcome);
        if (first != NULL)
            sweep->alike[order[i]] = *first;
        else
            configuration_table_insert(&outcomes, outcome, order[i]);
    }
    configuration_table_free(&outcomes);
}

/* A replay that ran out of memory, or needed more, speaks for the layouts alike: they are the same
 * on every step, whatever their races saw of one. Times stay those of the steps that a row says it
 * rests on. */
static void share_verdicts(struct sweep *sweep) {
    for (int64_t i = 0; i < sweep->row_count; i++) {
        const struct sweep_row_record *replayed = &sweep->rows[sweep->alike[i]];
        if (sweep->alike[i] == i || !sweep_row_is_replayed(replayed)) continue;
        sweep->rows[i].verdict = replayed->verdict;
        sweep->rows[i].memory_peak_bytes = replayed->memory_peak_bytes;
        sweep->rows[i].memory_bound_bytes = replayed->memory_bound_bytes;
        sweep->rows[i].memory_training_bytes = replayed->memory_training_bytes;
    }
}

static void count_second_class(struct sweep *sweep) {
    sweep->all_leave_out = sweep->all_need_code = true;
    sweep->leaving_out = sweep->needing_code = 0;
    for (int64_t i = 0; i < sweep->row_count; i++) {
        const struct sweep_row_record *row = &sweep->rows[i];
        if (row->verdict == NULL || is_out_of_memory(row)) continue;
        const bool leaves_out = record_leaves_out(row->left_out_fraction);
        sweep->leaving_out += leaves_out;
        sweep->all_leave_out = sweep->all_leave_out && leaves_out;
    }
    for (int64_t i = 0; i < sweep->row_count; i++) {
        const struct sweep_row_record *row = &sweep->rows[i];
        if (row->verdict == NULL || is_out_of_memory(row) ||
            (record_leaves_out(row->left_out_fraction) && !sweep->all_leave_out))
            continue;
        sweep->needing_code += sweep_row_needs_code(row);
        sweep->all_need_code = sweep->all_need_code && sweep_row_needs_code(row);
    }
}

bool sweep_row_is_second_class(const struct sweep *sweep, const struct sweep_row_record *row) {
    return (!sweep->all_need_code && sweep_row_needs_code(row)) ||
           (!sweep->all_leave_out && record_leaves_out(row->left_out_fraction));
}

/* But for its siblings in the size of the step. */
static bool is_choice(const struct sweep *sweep, int64_t row) {
    const struct sweep_row_record *r = &sweep->rows[row];
    return r->verdict != NULL && !is_out_of_memory(r) && sweep->alike[row] == row &&
           !sweep_row_is_second_class(sweep, r);
}

bool sweep_row_counts(const struct sweep *sweep, int64_t row) {
    return is_choice(sweep, row) && !sweep->rescaled[row];
}

/* Layouts alike stand once. */
static void rank(struct sweep *sweep) {
    free(sweep->best);
    free(sweep->alike);
    sweep->best = memory_alloc(sizeof *sweep->best * (size_t)(sweep->row_count + 1));
    sweep->alike = memory_alloc(sizeof *sweep->alike * (size_t)(sweep->row_count + 1));
    int64_t *order = memory_alloc(sizeof *order * (size_t)(sweep->row_count + 1));
    for (int64_t i = 0; i < sweep->row_count; i++)
        order[i] = i;
    qsort_r(order, (size_t)sweep->row_count, sizeof *order, compare_rows, sweep);
    find_alike(sweep, order);
    share_verdicts(sweep);
    sweep->best_count = 0;
    count_second_class(sweep);
    sweep_find_rescaled(sweep);
    for (int64_t i = 0; i < sweep->row_count; i++)
        if (sweep_row_is_candidate(sweep, &sweep->rows[order[i]]) &&
            sweep->alike[order[i]] == order[i] && !sweep->rescaled[order[i]])
            sweep->best[sweep->best_count++] = order[i];
    free(order);
}

static bool same_value(const struct sweep_axis *axis, int64_t a, int64_t b, int64_t path) {
    return cJSON_Compare(axis->values[a * axis->path_count + path],
                         axis->values[b * axis->path_count + path], true);
}

/* Of values that are set together the first stands for all, and another beside it where it tells
 * apart what those before it do not. */
static bool stands_in_label(const struct sweep_axis *axis, int64_t path) {
    if (path == 0) return true;
    for (int64_t a = 0; a < axis->value_count; a++)
        for (int64_t b = 0; b < a; b++) {
            bool alike = true;
            for (int64_t before = 0; before < path && alike; before++)
                alike = same_value(axis, a, b, before);
            if (alike && !same_value(axis, a, b, path)) return true;
        }
    return false;
}

/* "tp 2, pp 4, batching isf" */
const char *sweep_label(struct sweep *sweep, int64_t row) {
    const char *label = "";
    cJSON *object = sweep_file_assignments(sweep->file, sweep->rows[row].row_index);
    for (int64_t a = 0; a < sweep->file->axis_count; a++) {
        const struct sweep_axis *axis = &sweep->file->axes[a];
        for (int64_t p = 0; p < axis->path_count; p++) {
            if (!stands_in_label(axis, p)) continue;
            const cJSON *value = cJSON_GetObjectItemCaseSensitive(object, axis->paths[p]);
            label = arena_format(sweep->arena, "%s%s%s %s", label, label[0] != '\0' ? ", " : "",
                                 sweep_label_key(sweep->arena, axis->paths[p]),
                                 sweep_label_value(sweep->arena, value, axis->values + p,
                                                   axis->value_count, axis->path_count));
        }
    }
    cJSON_Delete(object);
    return label;
}

const char *sweep_gpu_kind(struct sweep *sweep, int64_t row) {
    static const char *const paths[] = { "cluster.hardware", "cluster.name", "cluster" };
    const char *kind = "";
    cJSON *object = sweep_file_assignments(sweep->file, sweep->rows[row].row_index);
    for (size_t i = 0; i < sizeof paths / sizeof paths[0]; i++) {
        const cJSON *value = cJSON_GetObjectItemCaseSensitive(object, paths[i]);
        if (value == NULL) continue;
        char *text = cJSON_PrintUnformatted(value);
        kind = cJSON_IsString(value) ? arena_text(sweep->arena, value->valuestring)
                                     : arena_text(sweep->arena, text);
        cJSON_free(text);
        break;
    }
    cJSON_Delete(object);
    return kind;
}

/* The configuration as `ballast run` would give it, and its row of the sweep. */
static bool replay_row(struct sweep_run *run, int64_t row_index, struct arena *arena,
                       struct execution_rows *out, struct error *err) {
    struct sweep *sweep = run->sweep;
    struct sweep_row_record *row = &sweep->rows[row_index];
    struct json *json = sweep_file_scenario(sweep->file, row->row_index, err);
    if (json == NULL) return false;
    struct replay_options replay = { .threads = run->options->threads };
    struct execution *e = execution_run_json(&run->scenario_options, json, &replay, err);
    if (e == NULL) return false;
    e->scenario->name =
        arena_format(arena, "%s [%s]", sweep->file->name, sweep_label(sweep, row_index));
    sweep_row_answer(row, e->scenario, e->replay, e->job, "replayed");
    if (e->replay->iteration_count >= e->job->epoch_iterations)
        row->memory_bound_bytes = row->memory_peak_bytes;
    sweep_assignments(sweep, row_index);
    struct record_bytes bytes = { 0 };
    const bool ok = execution_rows_make(e, run->options->provenance, arena, out, err);
    if (ok) execution_rows_pack(&bytes, out);
    execution_destroy(e); /* and with it the texts that the rows borrow */
    if (ok) {
        const char *at = bytes.bytes;
        execution_rows_unpack(&at, at + bytes.size, arena, out);
    }
    record_bytes_free(&bytes);
    return ok;
}

/* What the comparison needs, in the sweep's own memory. */
static void keep(struct sweep *sweep, const struct execution_rows *rows,
                 struct comparison_run *out) {
    struct record_bytes bytes = { 0 };
    const int iterations = 0; /* the first table of a run */
    record_pack(&bytes, RECORD_RUN, &rows->run, 1);
    record_pack(&bytes, RECORD_ITERATION, rows->tables[iterations].records,
                rows->tables[iterations].count);
    const char *at = bytes.bytes, *end = at + bytes.size;
    int64_t one;
    const struct run_record *record = record_unpack(&at, end, RECORD_RUN, sweep->arena, &one);
    out->record = *record;
    out->record.id = rows->run.id;
    out->iterations =
        record_unpack(&at, end, RECORD_ITERATION, sweep->arena, &out->iteration_count);
    out->label = out->record.scenario_name;
    record_bytes_free(&bytes);
}

static bool take_replay(struct sweep_run *run, int64_t row_index, struct execution_rows *rows,
                        struct comparison_run *out, struct error *err) {
    struct sweep_row_record *row = &run->sweep->rows[row_index];
    if (run->options->store != NULL && !execution_rows_store(run->options->store, rows, row, err))
        return false;
    keep(run->sweep, rows, out);
    out->record.id = row->run_id;
    return true;
}

/* Replays rows[0..count), one for each member of the team. All get the rows, which decide what is
 * replayed next; member 0 gets the runs. */
static bool replay_together(struct sweep_run *run, const int64_t *rows, int64_t count,
                            struct comparison_run *runs, struct error *err) {
    struct sweep_team *team = run->options->team;
    const int64_t member = sweep_team_member(team);
    struct arena *arena = arena_create();
    struct execution_rows mine;
    const bool alone = sweep_team_count(team) == 1;
    bool ok = sweep_team_agree(
        team, member >= count || replay_row(run, rows[member], arena, &mine, err), err);
    if (ok && alone) ok = take_replay(run, rows[0], &mine, &runs[rows[0]], err);
    if (ok && !alone) {
        struct record_bytes bytes = { 0 };
        if (member < count) {
            record_pack(&bytes, RECORD_SWEEP_ROW, &run->sweep->rows[rows[member]], 1);
            execution_rows_pack(&bytes, &mine);
        }
        size_t total;
        char *all = sweep_team_gather(team, bytes.bytes, bytes.size, &total);
        const char *at = all, *end = all + total;
        for (int64_t i = 0; ok && i < count; i++) {
            int64_t one;
            struct execution_rows theirs;
            const struct sweep_row_record *row =
                record_unpack(&at, end, RECORD_SWEEP_ROW, run->sweep->arena, &one);
            execution_rows_unpack(&at, end, arena, &theirs);
            run->sweep->rows[rows[i]] = *row;
            if (member == 0) ok = take_replay(run, rows[i], &theirs, &runs[rows[i]], err);
        }
        free(all);
        record_bytes_free(&bytes);
        ok = sweep_team_agree(team, ok, err);
    }
    arena_destroy(arena);
    return ok;
}

static bool load_run(struct sweep_run *run, int64_t run_id, struct comparison_run *out,
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

/* Of those replayed, which are what was asked for; the others ran out of memory, or longer than the
 * race had promised, beyond the deadline or the budget. */
struct replayed {
    int64_t all, good;
};

static struct replayed count_replayed(const struct sweep *sweep) {
    struct replayed replayed = { 0 };
    for (int64_t i = 0; i < sweep->row_count; i++)
        replayed.all += sweep_row_is_replayed(&sweep->rows[i]);
    for (int64_t i = 0;
         i < sweep->best_count && sweep_row_is_replayed(&sweep->rows[sweep->best[i]]); i++)
        replayed.good++;
    return replayed;
}

/* The next rows to replay: so many that none would be left alone whatever becomes of the others. */
static int64_t choose_next(const struct sweep *sweep, int64_t wanted, int64_t *rows) {
    const struct replayed replayed = count_replayed(sweep);
    const int64_t missing = wanted - replayed.good,
                  tries = wanted * SWEEP_REPLAYS_PER_ROW - replayed.all;
    int64_t count = 0;
    for (int64_t i = replayed.good; i < sweep->best_count && count < missing && count < tries; i++)
        rows[count++] = sweep->best[i];
    return count;
}

static bool load_runs(struct sweep_run *run, struct comparison_run *runs, struct error *err) {
    const struct sweep *sweep = run->sweep;
    bool ok = true;
    for (int64_t i = 0; ok && run->options->store != NULL && i < sweep->row_count; i++)
        if (sweep_row_is_replayed(&sweep->rows[i]))
            ok = load_run(run, sweep->rows[i].run_id, &runs[i], err);
    return sweep_team_agree(run->options->team, ok, err);
}

/* Progress counts what this call replays: where some fail, more are to be done, never fewer are
 * done. */
static bool replay_all(struct sweep_run *run, const int64_t *rows, int64_t count,
                       struct comparison_run *runs, struct error *err) {
    const struct sweep_options *o = run->options;
    const int64_t members = sweep_team_count(o->team), before = run->replay_count;
    run->replay_count += count;
    bool ok = true;
    for (int64_t i = 0; ok && i < count; i += members) {
        const int64_t now = count - i < members ? count - i : members;
        ok = replay_together(run, rows + i, now, runs, err);
        if (ok && o->progress != NULL)
            o->progress(o->progress_context, SWEEP_REPLAY, before + i + now, run->replay_count);
    }
    return ok;
}

/* ---- deadline and budget ---- */

static double cost_of(const struct sweep_row_record *row) {
    return isnan(row->money_usd) ? row->gpu_days : row->money_usd;
}

bool sweep_row_keeps_limit(const struct sweep *sweep, const struct sweep_row_record *row,
                           enum sweep_question question) {
    return question == SWEEP_CHEAPEST_IN_TIME ? row->total_days <= sweep->file->deadline_days
                                              : row->money_usd <= sweep->file->budget_usd;
}

/* A race of few steps may lie this far above the replay (3.4 % was seen). */
#define RACE_SLACK 0.05

/* Raced, and beyond the limit by less than a race may err. */
static bool may_keep_limit(const struct sweep *sweep, const struct sweep_row_record *row,
                           enum sweep_question question) {
    struct sweep_row_record least = *row;
    least.total_days *= 1 - RACE_SLACK;
    least.money_usd *= 1 - RACE_SLACK;
    return !sweep_row_is_replayed(row) && !sweep_row_keeps_limit(sweep, row, question) &&
           sweep_row_keeps_limit(sweep, &least, question);
}

enum answer_among { AMONG_ALL, AMONG_REPLAYED, AMONG_ROOMY, AMONG_NEAR };

static double value_of(const struct sweep_row_record *row, enum sweep_question question) {
    return question == SWEEP_CHEAPEST_IN_TIME ? cost_of(row) : row->total_days;
}

static int64_t least_that_keeps(const struct sweep *sweep, enum sweep_question question,
                                enum answer_among among) {
    int64_t best = -1;
    double least = INFINITY;
    for (int64_t i = 0; i < sweep->row_count; i++) {
        const struct sweep_row_record *row = &sweep->rows[i];
        if (!is_choice(sweep, i) || sweep->rescaled_for[question][i] ||
            !(among == AMONG_NEAR ? may_keep_limit(sweep, row, question)
                                  : sweep_row_keeps_limit(sweep, row, question)) ||
            (among == AMONG_REPLAYED && !sweep_row_is_replayed(row)) ||
            (among == AMONG_ROOMY && !sweep_row_is_roomy(sweep, row)))
            continue;
        const double value = value_of(row, question);
        if (best >= 0 && value >= least) continue;
        best = i;
        least = value;
    }
    return best;
}

int64_t sweep_answer(const struct sweep *sweep, enum sweep_question question) {
    const int64_t replayed =
        sweep->answers_replayed ? least_that_keeps(sweep, question, AMONG_REPLAYED) : -1;
    return replayed >= 0 ? replayed : least_that_keeps(sweep, question, AMONG_ALL);
}

int64_t sweep_roomy_answer(const struct sweep *sweep, enum sweep_question question) {
    return least_that_keeps(sweep, question, AMONG_ROOMY);
}

static int64_t count_keeping(const struct sweep *sweep, enum sweep_question question) {
    int64_t count = 0;
    for (int64_t i = 0; i < sweep->row_count; i++)
        count += sweep_row_is_replayed(&sweep->rows[i]) &&
                 sweep_row_keeps_limit(sweep, &sweep->rows[i], question);
    return count;
}

/* Of the rows that may keep the limit after all, the best, if it would be the answer then; -1. */
static int64_t near_answer(const struct sweep *sweep, enum sweep_question question) {
    const int64_t near = least_that_keeps(sweep, question, AMONG_NEAR),
                  answer = least_that_keeps(sweep, question, AMONG_REPLAYED);
    if (near < 0 || answer < 0) return near;
    const double promised = value_of(&sweep->rows[near], question) * (1 - RACE_SLACK);
    return promised < value_of(&sweep->rows[answer], question) ? near : -1;
}

static int64_t count_missing(const struct sweep *sweep, enum sweep_question question) {
    int64_t count = 0;
    for (int64_t i = 0; i < sweep->row_count; i++)
        count += sweep_row_is_replayed(&sweep->rows[i]) &&
                 !sweep_row_keeps_limit(sweep, &sweep->rows[i], question);
    return count;
}

/* Whatever is replayed next hangs only on what was, so that an interrupted call goes on alike.
 * Races may promise too much again and again: so many replays that keep the limit are enough. */
static bool replay_answers(struct sweep_run *run, int64_t wanted, struct comparison_run *runs,
                           struct error *err) {
    struct sweep *sweep = run->sweep;
    const int64_t enough = 2 * SWEEP_REPLAYS_PER_ROW * wanted;
    bool ok = true;
    for (int question = 0; question < SWEEP_QUESTION_COUNT; question++) {
        int64_t row;
        while (ok && (row = least_that_keeps(sweep, question, AMONG_ALL)) >= 0 &&
               !sweep_row_is_replayed(&sweep->rows[row]) &&
               count_keeping(sweep, question) < enough) {
            ok = replay_all(run, &row, 1, runs, err);
            rank(sweep);
        }
        while (ok && (row = near_answer(sweep, question)) >= 0 &&
               count_missing(sweep, question) < enough) {
            ok = replay_all(run, &row, 1, runs, err);
            rank(sweep);
        }
    }
    sweep->answers_replayed = true;
    return ok;
}

static void keep_top(struct sweep *sweep, const struct comparison_run *runs, int64_t wanted) {
    sweep->top = arena_array(sweep->arena, struct comparison_run, sweep->best_count + 1);
    const int64_t good =
        count_replayed(sweep).good; /* a database may hold more than are asked for */
    sweep->top_count = good < wanted ? good : wanted;
    sweep->top_wanted = wanted;
    for (int64_t i = 0; i < sweep->top_count; i++)
        sweep->top[i] = runs[sweep->best[i]];
    for (int64_t i = 0; i < sweep->row_count; i++)
        sweep->replays_out_of_memory +=
            sweep_row_is_replayed(&sweep->rows[i]) && is_out_of_memory(&sweep->rows[i]);
}

bool sweep_replay_best(struct sweep_run *run, struct error *err) {
    struct sweep *sweep = run->sweep;
    const struct sweep_options *o = run->options;
    int64_t wanted = o->top >= 0 ? o->top : sweep->file->top, count;
    if (o->shard_count > 1) wanted = 0;
    struct comparison_run *runs = memory_alloc(sizeof *runs * (size_t)(sweep->row_count + 1));
    int64_t *rows = memory_alloc(sizeof *rows * (size_t)(sweep->row_count + 1));
    bool ok = load_runs(run, runs, err);
    rank(sweep);
    while (ok && (count = choose_next(sweep, wanted, rows)) > 0) {
        ok = replay_all(run, rows, count, runs, err);
        rank(sweep);
    }
    if (ok && wanted > 0) ok = replay_answers(run, wanted, runs, err);
    if (ok && sweep_team_member(o->team) == 0) keep_top(sweep, runs, wanted);
    free(rows);
    free(runs);
    return ok;
}
