/* sweep_row.c - reading, hashing, bounding and racing of one configuration. */
#include "sim/study/sweep/sweep_row.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>
#include "results/sha256.h"
#include "sim/base/units.h"
#include "sim/replay/memory_bound.h"
#include "sim/study/launch_flags.h"

/* ---- reading ---- */

static void hash_text(const char *first, const char *second, char text[CONFIGURATION_DIGITS + 1]) {
    struct sha256 hash;
    uint8_t result[SHA256_BYTES];
    sha256_begin(&hash);
    sha256_add(&hash, first, strlen(first));
    sha256_add(&hash, second, strlen(second));
    sha256_end(&hash, result);
    for (int i = 0; i < CONFIGURATION_DIGITS / 2; i++)
        snprintf(text + 2 * i, 3, "%02x", result[i]);
}

/* All that the answer depends on, without labels: the circumstances, and then the choices. */
static void hash_scenario(cJSON *resolved, struct sweep_item *item) {
    cJSON_DeleteItemFromObjectCaseSensitive(resolved, "name");
    cJSON_DeleteItemFromObjectCaseSensitive(resolved, "description");
    cJSON *choices = cJSON_CreateArray();
    cJSON *training = cJSON_GetObjectItemCaseSensitive(resolved, "training");
    cJSON_AddItemToArray(choices, cJSON_DetachItemFromObjectCaseSensitive(resolved, "layout"));
    cJSON_AddItemToArray(choices, cJSON_DetachItemFromObjectCaseSensitive(resolved, "policy"));
    static const char *const chosen_fields[] = { "micro_batch",   "global_batch", "gradient_sync",
                                                 "adamw_kernels", "reduce_dtype", "fp8_recipe",
                                                 "offload_blocks" };
    for (size_t i = 0; i < sizeof chosen_fields / sizeof chosen_fields[0]; i++)
        cJSON_AddItemToArray(choices,
                             cJSON_DetachItemFromObjectCaseSensitive(training, chosen_fields[i]));
    char *around = cJSON_PrintUnformatted(resolved), *chosen = cJSON_PrintUnformatted(choices);
    hash_text(around, "", item->circumstances);
    hash_text(item->circumstances, chosen, item->configuration);
    cJSON_free(around);
    cJSON_free(chosen);
    cJSON_Delete(choices);
}

static void reject(struct sweep_item *item, const char *rule, const char *message) {
    item->state = ITEM_REJECTED;
    item->rule = rule;
    item->message = strdup(message);
}

/* A broken rule is a rejection; anything else is a mistake in the sweep. */
static void judge_error(struct sweep_item *item, const struct error *err) {
    if (err->rule != NULL && !err->internal) {
        reject(item, err->rule, err->text);
        return;
    }
    item->state = ITEM_FAILED;
    item->message = strdup(err->text);
}

void sweep_item_resolve(struct sweep_item *item, const struct sweep_file *file,
                        const struct scenario_options *options, int64_t index) {
    *item = (struct sweep_item){ .index = index, .state = ITEM_NEW };
    struct error err = { 0 };
    struct json *json = sweep_file_scenario(file, index, &err);
    item->scenario = json != NULL ? scenario_load_json(options, json, &err) : NULL;
    if (item->scenario == NULL) {
        judge_error(item, &err);
        return;
    }
    cJSON *resolved = scenario_resolved(item->scenario);
    const struct condition_scenario asked = { resolved, json_root(item->scenario->json) };
    for (int64_t i = 0; i < file->condition_count && item->state == ITEM_NEW; i++) {
        if (condition_holds(file->conditions[i], &asked)) continue;
        reject(item, "where",
               condition_divides_by_zero(file->conditions[i], &asked)
                   ? "the condition divides by zero, and so does not hold"
                   : "the condition does not hold");
        item->condition = file->conditions[i];
    }
    if (item->state == ITEM_NEW && item->scenario->limit != NULL)
        reject(item, item->scenario->limit_rule, item->scenario->limit);
    if (item->state == ITEM_NEW) hash_scenario(resolved, item);
    const struct batching_policy *batching = item->scenario->batching.row;
    item->rescales =
        file->varies_micro_batch && batching->packs && job_asks_for_samples(item->scenario);
    cJSON_Delete(resolved);
}

void sweep_item_clear(struct sweep_item *item) {
    scenario_destroy(item->scenario);
    free((char *)item->message);
    item->scenario = NULL;
    item->message = NULL;
}

/* ---- rows ---- */

struct sweep_row_record sweep_row_empty(void) {
    struct sweep_row_record row = { 0 };
    const struct record_table *table = &record_tables[RECORD_SWEEP_ROW];
    for (int c = 0; c < table->column_count; c++) {
        void *place = (char *)&row + table->columns[c].offset;
        if (table->columns[c].type == RECORD_COUNT) *(int64_t *)place = -1;
        if (table->columns[c].type == RECORD_REAL) *(double *)place = NAN;
    }
    return row;
}

void sweep_row_answer(struct sweep_row_record *row, const struct scenario *s,
                      const struct replay *r, const struct job *job, const char *status) {
    row->status = status;
    row->left_out_fraction = job_left_out_fraction(job);
    row->dropped_fraction = job_dropped_fraction(job);
    row->samples_per_step = job->samples_per_step;
    row->asked_samples_per_step =
        job->asked_samples_per_step > 0 ? job->asked_samples_per_step : -1;
    row->replayed_iterations = r->iteration_count;
    row->step_time_mean_ms = r->step_time_mean_s * 1e3;
    if (r->iteration_count > 1) {
        row->step_time_p50_ms = r->step_time_p50_s * 1e3;
        row->step_time_p95_ms = r->step_time_p95_s * 1e3;
    }
    row->total_days = r->total_days;
    row->gpu_days = r->gpu_days;
    row->money_usd = r->money_usd;
    row->on_demand_usd = r->gpu_days * 24 * s->cluster_fields.on_demand_usd_per_gpu_hour;
    row->mfu_fraction = r->mfu_fraction;
    row->band_fraction = r->band.above;
    row->band_below_fraction = r->band.below;
    row->verdict = verdict_name(r->verdict);
    row->memory_peak_bytes = llround(stage_memory_device(&r->stages[r->verdict_stage].peak));
    if (!isnan(r->training.likely_bytes))
        row->memory_training_bytes = llround(r->training.likely_bytes);
}

/* Different fields may come to the same layout: ZeRO-1 of one rank, a partition policy without a
 * pipeline, sequence parallelism without TP. Such rows agree to the last bit in time, cost and
 * memory, and then need one replay. Batching must be the same by name, parameters and the sizes
 * that it is asked for (a policy that packs is asked for none), because later steps may differ
 * where the first are equal; a planner of iterations stands for itself for the same reason. */
static void find_outcome(struct sweep_item *item, const struct job *job) {
    const struct scenario *s = item->scenario;
    const struct sweep_row_record *r = &item->row;
    if (job->step->iteration_planner != NULL) {
        strcpy(item->outcome, item->configuration);
        return;
    }
    cJSON *parameters = s->batching.table != NULL
                            ? field_table_write(s->batching.table, s->batching.parameters)
                            : cJSON_CreateNull();
    char *batching = cJSON_PrintUnformatted(parameters), figures[512];
    snprintf(figures, sizeof figures,
             "%s dp %ld of %ld, %ld x %ld; %.17g ms %.17g days %.17g GPU-days %.17g %.17g USD"
             " %.17g MFU %ld bytes %s",
             s->batching.name, (long)s->layout.dp, (long)r->gpu_count,
             (long)s->micro_batches_per_rank, (long)job_samples_asked(s), r->step_time_mean_ms,
             r->total_days, r->gpu_days, r->money_usd, r->on_demand_usd, r->mfu_fraction,
             (long)r->memory_peak_bytes, item->circumstances);
    hash_text(figures, batching, item->outcome);
    cJSON_free(batching);
    cJSON_Delete(parameters);
}

/* ---- pruning ---- */

static uint64_t begin_of_hash(const char *text) {
    uint64_t begin = 0;
    for (int i = 0; text != NULL && i < 8 && text[i] != '\0'; i++)
        begin = begin << 8 | (unsigned char)text[i];
    return begin;
}

void incumbents_add(struct incumbents *incumbents, const struct sweep_row_record *row) {
    if (incumbents->count == incumbents->capacity) {
        incumbents->capacity = incumbents->capacity > 0 ? 2 * incumbents->capacity : 256;
        incumbents->items = memory_realloc(incumbents->items, sizeof *incumbents->items *
                                                                  (size_t)incumbents->capacity);
    }
    struct incumbent one = { row->total_days, row->gpu_days, row->money_usd, row->memory_peak_bytes,
                             begin_of_hash(row->outcome) };
    /* By GPU-days, so that the search for dominating ones can stop, and those alike are
     * neighbours. */
    for (int64_t i = incumbents->count - 1; i >= 0 && incumbents->items[i].gpu_days >= one.gpu_days;
         i--)
        if (incumbents->items[i].gpu_days == one.gpu_days &&
            incumbents->items[i].outcome == one.outcome)
            return;
    int64_t at = incumbents->count++;
    for (; at > 0 && incumbents->items[at - 1].gpu_days > one.gpu_days; at--)
        incumbents->items[at] = incumbents->items[at - 1];
    incumbents->items[at] = one;
    enum { KEPT = 1024 }; /* a part of them bounds soundly too */
    if (incumbents->count > KEPT) incumbents->count = KEPT;
}

bool incumbents_dominate(const struct incumbents *incumbents, const struct incumbent *bound,
                         int64_t enough) {
    int64_t found = 0;
    for (int64_t i = 0; i < incumbents->count && found < enough; i++) {
        const struct incumbent *one = &incumbents->items[i];
        if (one->gpu_days > bound->gpu_days) break;
        bool cheaper =
            isnan(bound->money_usd) ? isnan(one->money_usd) : one->money_usd <= bound->money_usd;
        found += cheaper && one->total_days <= bound->total_days &&
                 one->memory_bytes <= bound->memory_bytes;
    }
    return found >= enough;
}

/* What the fullest stage holds before any micro-batch. */
static double static_bytes(const struct step_model *step) {
    double most = 0;
    for (int64_t stage = 0; stage < step->stage_count; stage++) {
        struct stage_memory memory = step->static_memory[stage];
        step_pass_memory(step, stage, &memory);
        most = fmax(most, stage_memory_device(&memory));
    }
    return most;
}

/* The reason to leave the configuration out, or NULL. */
static const char *pruned(const struct sweep_item *item, const struct job *job,
                          const struct incumbents *incumbents) {
    const struct scenario *s = item->scenario;
    double bytes = static_bytes(job->step);
    if (bytes > cost_model_gpu(s->cost_model)->hbm_bytes)
        return "parameters, gradients and optimizer state alone exceed the memory";
    /* A planner of iterations may change the work itself. Of layouts that differ in the size of
     * their steps alone one is kept, which need not be the best. */
    if (job->step->iteration_planner != NULL || item->rescales) return NULL;
    double step_s = seconds_from_ns(item->prices->work_ns / s->layout.pp);
    struct incumbent bound = { .memory_bytes = (int64_t)bytes };
    bound.total_days =
        step_s * job->epoch_steps * (double)s->training_fields.epochs / SECONDS_PER_DAY;
    bound.gpu_days = bound.total_days * (double)layout_rank_count(&s->layout);
    bound.money_usd = bound.gpu_days * 24 * s->cluster_fields.price_usd_per_gpu_hour;
    return incumbents_dominate(incumbents, &bound, SWEEP_TOP_LIMIT)
               ? "others are better than its lower bound in time, cost and memory"
               : NULL;
}

/* What no option of the backend's says of its plan, kept with the item. */
static void find_code_needed(struct sweep_item *item, const struct job *job) {
    struct arena *arena = arena_create();
    const char *needed = launch_needs_code(job, arena);
    if (needed != NULL) item->row.reason = item->message = strdup(needed);
    arena_destroy(arena);
}

void sweep_item_evaluate(struct sweep_item *item, const struct incumbents *incumbents) {
    const struct scenario *s = item->scenario;
    struct error err = { 0 };
    if (item->batches->err.text[0] != '\0') {
        judge_error(item, &item->batches->err);
        return;
    }
    struct job *job = job_plan(s, item->batches->job, item->prices->prices, &err);
    if (job == NULL) {
        judge_error(item, &err);
        return;
    }
    struct sweep_row_record *row = &item->row;
    *row = sweep_row_empty();
    row->configuration = item->configuration;
    row->row_index = item->index;
    row->gpu_count = layout_rank_count(&s->layout);
    row->memory_capacity_bytes = llround(cost_model_gpu(s->cost_model)->hbm_bytes);
    item->state = ITEM_DONE;
    row->reason = incumbents != NULL ? pruned(item, job, incumbents) : NULL;
    if (row->reason != NULL) {
        row->status = "pruned";
        job_destroy(job);
        return;
    }
    struct replay_options options = { .threads = 1, .answer_only = true };
    struct replay *replay = replay_run(job, &options, &err);
    if (replay != NULL) {
        sweep_row_answer(row, s, replay, job, "raced");
        const double bound = memory_bound(job, replay);
        if (!isnan(bound)) row->memory_bound_bytes = llround(bound);
        find_code_needed(item, job);
        find_outcome(item, job);
        row->outcome = item->outcome;
    } else {
        judge_error(item, &err);
    }
    replay_destroy(replay);
    job_destroy(job);
}
