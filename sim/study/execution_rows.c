/* execution_rows.c - stages, prices, the timeline of the first iteration and its search as
 * records. */
#include "sim/study/execution_rows.h"

#include <math.h>
#include "sim/study/run_inputs.h"
#include "sim/study/search_progress.h"

enum { STORED_RANKS = 4 };

static void set_table(struct execution_rows *rows, enum record_table_id table, const void *records,
                      int64_t count) {
    rows->tables[table - RECORD_ITERATION].records = records;
    rows->tables[table - RECORD_ITERATION].count = count;
}

static struct stage_record stage_row(const struct execution *e, int64_t stage,
                                     struct arena *arena) {
    const struct replay *r = e->replay;
    const struct stage_outcome *o = &r->stages[stage];
    const struct job_plan *plan = &e->job->plan;
    struct stage_record row = {
        .stage_index = stage,
        .layers = execution_stage_layers(e, stage, arena),
        .busy_ms = o->busy_s * 1e3,
        .idle_ms = (r->step_time_mean_s - o->busy_s) * 1e3,
        .forward_ms = o->forward_s * 1e3,
        .backward_ms = (o->backward_s - o->recompute_s) * 1e3,
        .recompute_ms = o->recompute_s * 1e3,
        .in_flight_count = o->in_flight,
    };
    for (int64_t part = stage; part < plan->part_count; part += r->stage_count)
        for (int64_t k = plan->first_layer[part]; k < plan->first_layer[part + 1]; k++) {
            row.parameter_count += model_layer_parameters(e->scenario->model, k);
            row.layer_count++;
        }
    return row;
}

static void make_stages(const struct execution *e, struct arena *arena,
                        struct execution_rows *rows) {
    const int64_t count = e->replay->stage_count;
    struct stage_record *stages = arena_array(arena, struct stage_record, count);
    struct memory_record *memory =
        arena_array(arena, struct memory_record, count * MEMORY_CLASS_COUNT);
    for (int64_t stage = 0; stage < count; stage++) {
        stages[stage] = stage_row(e, stage, arena);
        for (int class = 0; class < MEMORY_CLASS_COUNT; class ++)
            memory[stage * MEMORY_CLASS_COUNT + class] = (struct memory_record){
                .stage_index = stage,
                .class = memory_class_name((enum memory_class) class),
                .bytes = llround(e->replay->stages[stage].peak.bytes[class]),
            };
    }
    set_table(rows, RECORD_STAGE, stages, count);
    set_table(rows, RECORD_MEMORY, memory, count * MEMORY_CLASS_COUNT);
}

/* The first iteration is kept as a timeline; a plot of another is simulated again. */
static bool make_timeline(const struct execution *e, struct arena *arena,
                          struct execution_rows *rows, struct error *err) {
    struct timeline timeline;
    if (!execution_timeline(e, 0, STORED_RANKS, e->replay->fidelity, arena, &timeline, err))
        return false;
    set_table(rows, RECORD_SPAN, timeline.spans, timeline.span_count);
    set_table(rows, RECORD_MEMORY_POINT, timeline.memory, timeline.memory_count);
    return true;
}

/* And how its order was searched, where it was. */
static bool make_search(const struct execution *e, struct arena *arena, struct execution_rows *rows,
                        struct error *err) {
    struct search_progress_options options = { .iteration = 0 };
    struct search_progress progress;
    if (!search_progress_exists(e->job)) return true;
    if (!search_progress_run(e->job, &options, arena, &progress, err)) return false;
    set_table(rows, RECORD_SEARCH_PROGRESS, progress.points, progress.count);
    return true;
}

bool execution_rows_make(const struct execution *e, const struct provenance *provenance,
                         struct arena *arena, struct execution_rows *rows, struct error *err) {
    *rows = (struct execution_rows){ .run = { 0 } };
    execution_record(e, provenance, arena, &rows->run);
    rows->run.inputs = run_inputs_text(e, provenance, arena);
    int64_t price_count;
    const struct price_record *prices = execution_prices(e, arena, &price_count);
    set_table(rows, RECORD_PRICE, prices, price_count);
    set_table(rows, RECORD_ITERATION, execution_iterations(e, arena), e->replay->iteration_count);
    make_stages(e, arena, rows);
    return make_timeline(e, arena, rows, err) && make_search(e, arena, rows, err);
}

void execution_rows_pack(struct record_bytes *bytes, const struct execution_rows *rows) {
    record_pack(bytes, RECORD_RUN, &rows->run, 1);
    for (int t = 0; t < EXECUTION_TABLES; t++)
        record_pack(bytes, (enum record_table_id)(RECORD_ITERATION + t), rows->tables[t].records,
                    rows->tables[t].count);
}

void execution_rows_unpack(const char **at, const char *end, struct arena *arena,
                           struct execution_rows *rows) {
    int64_t one;
    const struct run_record *run = record_unpack(at, end, RECORD_RUN, arena, &one);
    rows->run = *run;
    for (int t = 0; t < EXECUTION_TABLES; t++)
        rows->tables[t].records = record_unpack(
            at, end, (enum record_table_id)(RECORD_ITERATION + t), arena, &rows->tables[t].count);
}

bool execution_rows_store(struct store *store, struct execution_rows *rows,
                          struct sweep_row_record *row, struct error *err) {
    bool ok = store_begin_run(store, &rows->run, err);
    if (ok && row != NULL) {
        row->run_id = rows->run.id;
        ok = store_add_sweep_rows(store, row, 1, err);
    }
    for (int t = 0; ok && t < EXECUTION_TABLES; t++)
        ok = store_add(store, (enum record_table_id)(RECORD_ITERATION + t), rows->tables[t].records,
                       rows->tables[t].count, err);
    ok = ok && store_finish_run(store, &rows->run, err);
    if (!ok) store_abandon_run(store);
    return ok;
}

bool execution_store(struct store *store, const struct execution *e,
                     const struct provenance *provenance, int64_t *run_id, struct error *err) {
    struct arena *arena = arena_create();
    struct execution_rows rows;
    const bool ok = execution_rows_make(e, provenance, arena, &rows, err) &&
                    execution_rows_store(store, &rows, NULL, err);
    if (ok && run_id != NULL) *run_id = rows.run.id;
    arena_destroy(arena);
    return ok;
}
