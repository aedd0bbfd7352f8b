/* validation_records.c - rows of the results database. */
#include <math.h>
#include "sim/study/measured/validation.h"

/* With semicolons between. */
static const char *all_notes(struct arena *arena, const char **notes) {
    const char *text = "";
    for (; *notes != NULL; notes++)
        text = arena_format(arena, "%s%s%s", text, text[0] != '\0' ? "; " : "", *notes);
    return text;
}

struct validation_record *validation_records(const struct validation *v, int64_t *count) {
    struct validation_record *records =
        arena_array(v->arena, struct validation_record, 2 * v->runs.count + 1);
    *count = 0;
    for (int64_t i = 0; i < v->runs.count; i++) {
        const struct validation_row *row = &v->rows[i];
        const struct measured_run *m = row->measured;
        struct validation_record record = {
            .tool_version = execution_version(),
            .source_commit = execution_commit(),
            .rows_file = v->files[i],
            .row_name = m->row_id,
            .source = m->source,
            .hardware = row->hardware != NULL ? row->hardware : m->hardware,
            .stack = row->stack != NULL ? row->stack->name : m->stack,
            .role = row->calibrated_on ? "fitted" : "prediction",
            .note = row->skip != SKIP_NOTHING ? validation_skip_name(row->skip)
                                              : all_notes(v->arena, row->notes),
            .run_id = -1,
        };
        if (!isnan(m->iter_time_s)) {
            record.quantity = "step_time_ms";
            record.unit = "ms";
            record.measured_value = m->iter_time_s * 1e3;
            record.predicted_value = row->predicted_s * 1e3;
            record.band_fraction = row->band.above;
            record.band_below_fraction = row->band.below;
            records[(*count)++] = record;
        }
        if (isnan(m->peak_mem_GiB)) continue;
        record.quantity = "peak_memory_GiB";
        record.unit = "GiB";
        record.measured_value = m->peak_mem_GiB;
        record.predicted_value = row->predicted_peak_GiB;
        record.band_fraction = record.band_below_fraction = NAN;
        if (row->skip == SKIP_NOTHING) {
            record.role = row->memory_used ? "fitted" : "prediction";
            if (row->reading >= READING_FULL_CARD) record.note = memory_reading_name(row->reading);
        }
        records[(*count)++] = record;
    }
    return records;
}
