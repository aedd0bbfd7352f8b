/* measured_run.c - one table row per column of the format. */
#include "sim/study/measured_run.h"

#include <math.h>
#include <stddef.h>
#include <stdlib.h>
#include <string.h>

enum column_type { COLUMN_TEXT, COLUMN_COUNT, COLUMN_NUMBER };

#define AT(member) offsetof(struct measured_run, member)
static const struct column {
    const char *name;
    enum column_type type;
    size_t offset;
} columns[] = {
    { "row_id", COLUMN_TEXT, AT(row_id) },
    { "source", COLUMN_TEXT, AT(source) },
    { "model", COLUMN_TEXT, AT(model) },
    { "modality", COLUMN_TEXT, AT(modality) },
    { "layers", COLUMN_COUNT, AT(layers) },
    { "hidden", COLUMN_COUNT, AT(hidden) },
    { "ffn_hidden", COLUMN_COUNT, AT(ffn_hidden) },
    { "ffn", COLUMN_TEXT, AT(ffn) },
    { "heads", COLUMN_COUNT, AT(heads) },
    { "kv_heads", COLUMN_COUNT, AT(kv_heads) },
    { "head_dim", COLUMN_COUNT, AT(head_dim) },
    { "vocab", COLUMN_COUNT, AT(vocab) },
    { "moe", COLUMN_TEXT, AT(moe) },
    { "seq_len", COLUMN_COUNT, AT(seq_len) },
    { "seq_len", COLUMN_TEXT, AT(seq_len_text) }, /* "2048 max": the longest sample */
    { "hardware", COLUMN_TEXT, AT(hardware) },
    { "gpus_per_node", COLUMN_COUNT, AT(gpus_per_node) },
    { "gpu_count", COLUMN_COUNT, AT(gpu_count) },
    { "nic_Gbit_per_s_per_gpu", COLUMN_NUMBER, AT(nic_Gbit_per_s_per_gpu) },
    { "tp", COLUMN_COUNT, AT(tp) },
    { "sp", COLUMN_COUNT, AT(sp) },
    { "cp", COLUMN_COUNT, AT(cp) },
    { "pp", COLUMN_COUNT, AT(pp) },
    { "vpp", COLUMN_COUNT, AT(vpp) },
    { "schedule", COLUMN_TEXT, AT(schedule) },
    { "ep", COLUMN_COUNT, AT(ep) },
    { "dp", COLUMN_COUNT, AT(dp) },
    { "zero_stage", COLUMN_COUNT, AT(zero_stage) },
    { "zero_group", COLUMN_COUNT, AT(zero_group) },
    { "micro_batch", COLUMN_COUNT, AT(micro_batch) },
    { "grad_accum", COLUMN_COUNT, AT(grad_accum) },
    { "global_batch", COLUMN_COUNT, AT(global_batch) },
    { "precision", COLUMN_TEXT, AT(precision) },
    { "recompute", COLUMN_TEXT, AT(recompute) },
    { "attention", COLUMN_TEXT, AT(attention) },
    { "vision_model", COLUMN_TEXT, AT(vision_model) },
    { "images_per_sample", COLUMN_COUNT, AT(images_per_sample) },
    { "image_wh", COLUMN_TEXT, AT(image_wh) },
    { "frozen", COLUMN_TEXT, AT(frozen) },
    { "stack", COLUMN_TEXT, AT(stack) },
    { "outcome", COLUMN_TEXT, AT(outcome) },
    { "iter_time_s", COLUMN_NUMBER, AT(iter_time_s) },
    { "iter_time_derived", COLUMN_COUNT, AT(iter_time_derived) },
    { "peak_mem_GiB", COLUMN_NUMBER, AT(peak_mem_GiB) },
    { "peak_mem_kind", COLUMN_TEXT, AT(peak_mem_kind) },
    { "notes", COLUMN_TEXT, AT(notes) },
};
enum { COLUMN_COUNT_ALL = sizeof columns / sizeof columns[0] };

/* "2048 max" is a length with a remark: the number is what the run was padded or cut to. */
static bool read_count(const struct csv *csv, int64_t row, int64_t column, int64_t *value,
                       struct error *err) {
    const char *text = csv_cell(csv, row, column);
    char *end;
    double number = strtod(text, &end);
    if (end != text && *end == ' ' && number >= 0 && number < 9e15) {
        *value = (int64_t)number;
        return true;
    }
    return csv_count(csv, row, column, value, err);
}

static bool read_row(const struct csv *csv, int64_t row, const int64_t *places,
                     struct measured_run *run, struct error *err) {
    for (int i = 0; i < COLUMN_COUNT_ALL; i++) {
        void *at = (char *)run + columns[i].offset;
        switch (columns[i].type) {
        case COLUMN_TEXT:
            *(const char **)at = csv_cell(csv, row, places[i]);
            break;
        case COLUMN_COUNT:
            *(int64_t *)at = -1;
            if (!read_count(csv, row, places[i], at, err)) return false;
            break;
        case COLUMN_NUMBER:
            *(double *)at = NAN;
            if (!csv_number(csv, row, places[i], at, err)) return false;
            break;
        }
    }
    return true;
}

static bool known_column(const char *name) {
    for (int i = 0; i < COLUMN_COUNT_ALL; i++)
        if (strcmp(columns[i].name, name) == 0) return true;
    return false;
}

bool measured_runs_read(struct arena *arena, const char *path, struct measured_runs *runs,
                        struct error *err) {
    const struct csv *csv = csv_load(arena, path, err);
    if (csv == NULL) return false;
    *runs = (struct measured_runs){ .path = csv->path, .count = csv->row_count };
    int64_t places[COLUMN_COUNT_ALL];
    for (int i = 0; i < COLUMN_COUNT_ALL; i++)
        places[i] = csv_column(csv, columns[i].name);
    static const char *const needed[] = { "row_id", "hardware", "gpu_count", "iter_time_s" };
    for (size_t i = 0; i < sizeof needed / sizeof needed[0]; i++)
        if (csv_column(csv, needed[i]) < 0)
            return error_at(err, csv->path, 1, 0,
                            "the column \"%s\" is missing: this is not a file of measured runs",
                            needed[i]);
    runs->notes = arena_array(arena, const char *, csv->column_count + 1);
    int64_t note_count = 0;
    for (int64_t i = 0; i < csv->column_count; i++)
        if (!known_column(csv->header[i]))
            runs->notes[note_count++] =
                arena_format(arena, "column \"%s\" is not known and was ignored", csv->header[i]);
    runs->rows = arena_array(arena, struct measured_run, csv->row_count);
    for (int64_t row = 0; row < csv->row_count; row++)
        if (!read_row(csv, row, places, &runs->rows[row], err)) return false;
    return true;
}
