/* answer_json.c - the answer of a run as one JSON object, for programs. */
#include <math.h>
#include <string.h>
#include "sim/cli/print.h"
#include "sim/policy/partition/partition.h"
#include "sim/study/launch_flags.h"

/* ---- JSON ---- */

static void add_memory(cJSON *stage, const struct stage_memory *m) {
    cJSON *memory = cJSON_AddObjectToObject(stage, "memory_bytes");
    for (int class = 0; class < MEMORY_CLASS_COUNT; class ++)
        cJSON_AddNumberToObject(memory, memory_class_name((enum memory_class) class),
                                round(m->bytes[class]));
    cJSON_AddNumberToObject(stage, "memory_allocated_bytes", round(stage_memory_allocated(m)));
    cJSON_AddNumberToObject(stage, "memory_reserved_bytes", round(stage_memory_reserved(m)));
    cJSON_AddNumberToObject(stage, "memory_device_bytes", round(stage_memory_device(m)));
}

/* The columns of the table `run`, by their names. */
static cJSON *json_record(const struct run_record *run) {
    const struct record_table *table = &record_tables[RECORD_RUN];
    cJSON *o = cJSON_CreateObject();
    for (int i = 0; i < table->column_count; i++) {
        const struct record_column *c = &table->columns[i];
        const char *place = (const char *)run + c->offset;
        if (strcmp(c->name, "resolved_scenario") == 0) {
            cJSON_AddItemToObject(o, c->name, cJSON_Parse(*(const char *const *)place));
            continue;
        }
        if (strcmp(c->name, "id") == 0 || strcmp(c->name, "created_utc") == 0 ||
            strcmp(c->name, "host") == 0)
            continue;
        switch (c->type) {
        case RECORD_INTEGER:
            cJSON_AddNumberToObject(o, c->name, (double)*(const int64_t *)place);
            break;
        case RECORD_COUNT:
            if (*(const int64_t *)place < 0)
                cJSON_AddNullToObject(o, c->name);
            else
                cJSON_AddNumberToObject(o, c->name, (double)*(const int64_t *)place);
            break;
        case RECORD_BOOL:
            cJSON_AddBoolToObject(o, c->name, *(const bool *)place);
            break;
        case RECORD_REAL:
            if (isnan(*(const double *)place))
                cJSON_AddNullToObject(o, c->name);
            else
                cJSON_AddNumberToObject(o, c->name, *(const double *)place);
            break;
        case RECORD_TEXT:
            if (*(const char *const *)place == NULL)
                cJSON_AddNullToObject(o, c->name);
            else
                cJSON_AddStringToObject(o, c->name, *(const char *const *)place);
            break;
        }
    }
    return o;
}

/* The causes that the stack states, and its factors on time; null without a stack. */
static void add_stack(cJSON *o, const struct scenario *s) {
    if (s->stack == NULL) {
        cJSON_AddNullToObject(o, "stack");
        return;
    }
    const struct stack_use use = cost_model_stack(s->cost_model);
    cJSON *stack = cJSON_AddObjectToObject(o, "stack");
    cJSON_AddStringToObject(stack, "name", s->stack->name);
    cJSON_AddNumberToObject(stack, "kernel_time_factor", use.kernel_time_factor);
    cJSON_AddNumberToObject(stack, "attention_time_factor", use.attention_time_factor);
    cJSON_AddBoolToObject(stack, "calibrated", use.calibrated);
    cJSON *causes = cJSON_AddArrayToObject(stack, "causes");
    for (int64_t i = 0; i < s->stack->cause_count; i++) {
        const struct stack_cause *cause = &s->stack->causes[i];
        cJSON *row = cJSON_CreateObject();
        cJSON_AddStringToObject(row, "name", cause->name);
        cJSON_AddRawToObject(row, "value", cause->value);
        cJSON_AddStringToObject(row, "source", cause->source);
        cJSON_AddItemToArray(causes, row);
    }
}

cJSON *json_assumptions(const struct execution *e) {
    cJSON *list = cJSON_CreateArray();
    struct arena *arena = arena_create();
    for (const char **note = execution_rule_notes(e, arena); *note != NULL; note++)
        cJSON_AddItemToArray(list, cJSON_CreateString(*note));
    arena_destroy(arena);
    for (int64_t i = 0; e->scenario->assumptions[i] != NULL; i++)
        cJSON_AddItemToArray(list, cJSON_CreateString(e->scenario->assumptions[i]));
    return list;
}

cJSON *json_answer(const struct execution *e, struct arena *arena) {
    const struct replay *r = e->replay;
    struct run_record run;
    struct provenance none = { .command_line = "" };
    execution_record(e, &none, arena, &run);
    cJSON *o = json_record(&run);
    cJSON_DeleteItemFromObjectCaseSensitive(o, "command_line");
    cJSON_DeleteItemFromObjectCaseSensitive(o, "inputs"); /* of stored runs */
    cJSON_AddNumberToObject(o, "outside_fraction", r->outside_fraction);
    cJSON_AddStringToObject(o, "mfu_precision", precision_name(r->mfu_precision));
    if (isnan(r->memory_band_fraction))
        cJSON_AddNullToObject(o, "memory_band_fraction");
    else
        cJSON_AddNumberToObject(o, "memory_band_fraction", r->memory_band_fraction);
    cJSON_AddBoolToObject(o, "memory_close", r->memory_close);
    cJSON *breakdown = cJSON_AddObjectToObject(o, "breakdown_ms");
    for (int class = 0; class < REPLAY_CLASS_COUNT; class ++)
        cJSON_AddNumberToObject(breakdown, replay_class_name((enum replay_class) class),
                                r->classes_s[class] * 1e3);
    cJSON_AddNumberToObject(o, "loading_slowest_rank_ms", r->loading_mean_s * 1e3);
    cJSON_AddNumberToObject(o, "late_loading_steps", (double)r->late_loading_count);
    const char *needed = launch_needs_code(e->job, arena);
    if (needed != NULL)
        cJSON_AddStringToObject(o, "needs_code", needed);
    else
        cJSON_AddNullToObject(o, "needs_code");
    cJSON_AddNumberToObject(o, "planner_ranks_left_fraction", r->left_ranks_fraction);
    int64_t blocks[r->part_count];
    partition_blocks(e->scenario->model, &e->job->plan, blocks);
    cJSON *stages = cJSON_AddArrayToObject(o, "stages");
    for (int64_t i = 0; i < r->stage_count; i++) {
        const struct stage_outcome *out = &r->stages[i];
        cJSON *stage = cJSON_CreateObject();
        cJSON_AddNumberToObject(stage, "stage_index", (double)i);
        cJSON_AddStringToObject(stage, "layers", execution_stage_layers(e, i, arena));
        int64_t held = 0;
        for (int64_t part = i; part < r->part_count; part += r->stage_count)
            held += blocks[part];
        cJSON_AddNumberToObject(stage, "blocks", (double)held);
        cJSON_AddNumberToObject(stage, "busy_ms", out->busy_s * 1e3);
        cJSON_AddNumberToObject(stage, "forward_ms", out->forward_s * 1e3);
        cJSON_AddNumberToObject(stage, "backward_ms", (out->backward_s - out->recompute_s) * 1e3);
        cJSON_AddNumberToObject(stage, "recompute_ms", out->recompute_s * 1e3);
        cJSON_AddNumberToObject(stage, "in_flight_count", (double)out->in_flight);
        add_memory(stage, &out->peak);
        cJSON_AddNumberToObject(stage, "memory_least_device_bytes",
                                round(stage_memory_device(&out->least)));
        cJSON_AddItemToArray(stages, stage);
    }
    const struct batch_balance *b = &e->job->balance;
    const double seconds = e->replay->step_time_mean_s * (double)e->replay->iteration_count;
    cJSON_AddNumberToObject(o, "samples_per_s", (double)e->replay->samples / seconds);
    cJSON_AddNumberToObject(o, "language_tokens_per_s",
                            (double)e->replay->useful_language_tokens / seconds);
    cJSON *batches = cJSON_AddObjectToObject(o, "batches");
    cJSON_AddNumberToObject(batches, "average_batch_size", b->average_batch_size);
    cJSON_AddNumberToObject(batches, "pad_ratio", b->pad_ratio);
    cJSON_AddNumberToObject(batches, "dist_ratio_vision", b->dist_ratio_vision);
    cJSON_AddNumberToObject(batches, "dist_ratio_language", b->dist_ratio_language);
    cJSON_AddNumberToObject(batches, "epoch_steps", e->job->epoch_steps);
    cJSON_AddNumberToObject(batches, "pass_steps", e->job->pass_steps);
    cJSON_AddNumberToObject(batches, "samples_per_step", e->job->samples_per_step);
    cJSON_AddNumberToObject(batches, "samples_left_out", (double)e->job->samples_left_out);
    cJSON_AddNumberToObject(batches, "samples_left_out_fraction", job_left_out_fraction(e->job));
    cJSON_AddNumberToObject(batches, "samples_dropped_fraction", job_dropped_fraction(e->job));
    cJSON_AddStringToObject(o, "dataset_status", e->job->dataset->status);
    cJSON *notes = cJSON_AddArrayToObject(o, "data_notes");
    for (int64_t i = 0; i < e->job->data_note_count; i++)
        cJSON_AddItemToArray(notes, cJSON_CreateString(e->job->data_notes[i]));
    add_stack(o, e->scenario);
    cJSON *warnings = cJSON_AddArrayToObject(o, "warnings");
    for (int64_t i = 0; e->scenario->warnings[i] != NULL; i++)
        cJSON_AddItemToArray(warnings, cJSON_CreateString(e->scenario->warnings[i]));
    cJSON_AddItemToObject(o, "assumptions", json_assumptions(e));
    return o;
}
