/* measured_run.c - one table row per column of the format. */
#include "sim/study/measured_run.h"

#include <math.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum column_type { COLUMN_TEXT, COLUMN_COUNT, COLUMN_NUMBER };

#define AT(member) offsetof(struct measured_run, member)
static const struct column {
    const char *name;
    enum column_type type;
    size_t offset;
    double least, most; /* of a count, a whole number; a number must be above 0 */
} columns[] = {
    { "row_id", COLUMN_TEXT, AT(row_id), 0, 0 },
    { "source", COLUMN_TEXT, AT(source), 0, 0 },
    { "model", COLUMN_TEXT, AT(model), 0, 0 },
    { "modality", COLUMN_TEXT, AT(modality), 0, 0 },
    { "layers", COLUMN_COUNT, AT(layers), 1, 1e4 },
    { "hidden", COLUMN_COUNT, AT(hidden), 1, 1e7 },
    { "ffn_hidden", COLUMN_COUNT, AT(ffn_hidden), 1, 1e7 },
    { "ffn", COLUMN_TEXT, AT(ffn), 0, 0 },
    { "norm", COLUMN_TEXT, AT(norm), 0, 0 },
    { "qk_norm", COLUMN_TEXT, AT(qk_norm), 0, 0 },
    { "heads", COLUMN_COUNT, AT(heads), 1, 1e7 },
    { "kv_heads", COLUMN_COUNT, AT(kv_heads), 1, 1e7 },
    { "head_dim", COLUMN_COUNT, AT(head_dim), 1, 1e7 },
    { "vocab", COLUMN_COUNT, AT(vocab), 1, 1e7 },
    { "moe", COLUMN_TEXT, AT(moe), 0, 0 },
    { "seq_len", COLUMN_COUNT, AT(seq_len), 1, 1e9 },
    { "seq_len", COLUMN_TEXT, AT(seq_len_text), 0, 0 }, /* "2048 max": the longest sample */
    { "hardware", COLUMN_TEXT, AT(hardware), 0, 0 },
    { "gpus_per_node", COLUMN_COUNT, AT(gpus_per_node), 1, 1e7 },
    { "gpu_count", COLUMN_COUNT, AT(gpu_count), 1, 1e7 },
    { "nic_Gbit_per_s_per_gpu", COLUMN_NUMBER, AT(nic_Gbit_per_s_per_gpu), 0, 0 },
    { "nics_per_node", COLUMN_COUNT, AT(nics_per_node), 1, 1024 },
    { "tp", COLUMN_COUNT, AT(tp), 1, 1e6 },
    { "sp", COLUMN_COUNT, AT(sp), 0, 1 },
    { "cp", COLUMN_COUNT, AT(cp), 1, 1e6 },
    { "pp", COLUMN_COUNT, AT(pp), 1, 1e4 },
    { "vpp", COLUMN_COUNT, AT(vpp), 1, 1000 },
    { "schedule", COLUMN_TEXT, AT(schedule), 0, 0 },
    { "ep", COLUMN_COUNT, AT(ep), 0, 1e6 },
    { "dp", COLUMN_COUNT, AT(dp), 1, 1e7 },
    { "zero_stage", COLUMN_COUNT, AT(zero_stage), 0, 3 },
    { "zero_group", COLUMN_COUNT, AT(zero_group), 0, 1e7 },
    { "micro_batch", COLUMN_COUNT, AT(micro_batch), 1, 1e5 },
    { "grad_accum", COLUMN_COUNT, AT(grad_accum), 1, 1e6 },
    { "global_batch", COLUMN_COUNT, AT(global_batch), 1, 1e9 },
    { "precision", COLUMN_TEXT, AT(precision), 0, 0 },
    { "recompute", COLUMN_TEXT, AT(recompute), 0, 0 },
    { "attention", COLUMN_TEXT, AT(attention), 0, 0 },
    { "dropout", COLUMN_COUNT, AT(dropout), 0, 1 },
    { "deterministic", COLUMN_TEXT, AT(deterministic), 0, 0 },
    { "overlap", COLUMN_TEXT, AT(overlap), 0, 0 },
    { "vision_model", COLUMN_TEXT, AT(vision_model), 0, 0 },
    { "images_per_sample", COLUMN_COUNT, AT(images_per_sample), 0, 1e6 },
    { "image_wh", COLUMN_TEXT, AT(image_wh), 0, 0 },
    { "frozen", COLUMN_TEXT, AT(frozen), 0, 0 },
    { "stack", COLUMN_TEXT, AT(stack), 0, 0 },
    { "outcome", COLUMN_TEXT, AT(outcome), 0, 0 },
    { "iter_time_s", COLUMN_NUMBER, AT(iter_time_s), 0, 0 },
    { "iter_time_derived", COLUMN_COUNT, AT(iter_time_derived), 0, 1 },
    { "peak_mem_GiB", COLUMN_NUMBER, AT(peak_mem_GiB), 0, 0 },
    { "peak_mem_kind", COLUMN_TEXT, AT(peak_mem_kind), 0, 0 },
    { "notes", COLUMN_TEXT, AT(notes), 0, 0 },
};
enum { COLUMN_COUNT_ALL = sizeof columns / sizeof columns[0] };

/* "2048 max" is a length with a remark: the number is what the run was padded or cut to. */
static bool read_count(const struct csv *csv, int64_t row, int64_t column, int64_t *value) {
    const char *text = csv_cell(csv, row, column);
    double number = strtod(text, NULL);
    const bool digits = text[strspn(text, "0123456789")] == ' ';
    if (digits && number < 9e15) {
        *value = (int64_t)number;
        return true;
    }
    struct error said_by_the_row = { 0 };
    return csv_count(csv, row, column, value, &said_by_the_row);
}

static const char *mistake_at(struct arena *arena, const struct csv *csv, int64_t row,
                              int64_t column, const char *expected) {
    return arena_format(arena, "line %ld, %s: expected %s, got %.40s", csv->lines[row],
                        csv->header[column], expected, csv_cell(csv, row, column));
}

/* Words, signs and sizes that no run has are one kind of mistake, told in one way. The limits also
 * keep products of counts (tp pp cp; grad_accum micro_batch dp) below 2^63. */
static const char *count_mistake(struct arena *arena, const struct csv *csv, int64_t row,
                                 int64_t place, const struct column *column) {
    return mistake_at(
        arena, csv, row, place,
        arena_format(arena, "a whole number from %.0f to %.0f", column->least, column->most));
}

static const char *number_mistake(struct arena *arena, const struct csv *csv, int64_t row,
                                  int64_t place) {
    return mistake_at(arena, csv, row, place, "a number above 0");
}

/* An empty cell is in every range. */
static bool in_range(const struct column *column, int64_t value) {
    return value < 0 || ((double)value >= column->least && (double)value <= column->most);
}

enum { MOST_PIXELS = 100000 }; /* a side: tiles of an image stay countable */

static bool is_pixels(const char *text) {
    long width, height;
    int end = -1;
    return sscanf(text, "%ldx%ld%n", &width, &height, &end) == 2 && end > 0 && text[end] == '\0' &&
           width > 0 && height > 0 && width <= MOST_PIXELS && height <= MOST_PIXELS;
}

static const char *const roles[] = { "vision", "connector", "language", "none", NULL },
                         *const traffic[] = { "gradients", "parameters", "tensor", "none", NULL };

/* "vision;language": each part is one of the words, or a longer name of it. */
static bool are_words(const char *text, const char *const *words) {
    for (const char *part = text; *part != '\0';) {
        const size_t length = strcspn(part, ";");
        bool known = false;
        for (size_t i = 0; words[i] != NULL && !known; i++) {
            const char *at = strstr(part, words[i]);
            known = at != NULL && (size_t)(at - part) + strlen(words[i]) <= length;
        }
        if (!known) return false;
        part += length + (part[length] == ';');
    }
    return true;
}

static const char *text_mistake(struct arena *arena, const struct csv *csv, int64_t row,
                                int64_t place, const struct measured_run *run,
                                const struct column *column) {
    if (column->offset == AT(image_wh) && run->image_wh[0] != '\0' && !is_pixels(run->image_wh))
        return mistake_at(arena, csv, row, place, "pixels as 336x336");
    if (column->offset == AT(frozen) && !are_words(run->frozen, roles))
        return mistake_at(arena, csv, row, place,
                          "vision, connector or language, with semicolons between");
    if (column->offset == AT(overlap) && !are_words(run->overlap, traffic))
        return mistake_at(arena, csv, row, place,
                          "gradients, parameters or tensor, with semicolons between, or none");
    return NULL;
}

/* Of a run that did not get to a step, 0 says that nothing was measured. */
static void forget_zeros(struct measured_run *run) {
    if (strcmp(run->outcome, "oom") != 0) return;
    if (run->iter_time_s == 0) run->iter_time_s = NAN;
    if (run->peak_mem_GiB == 0) run->peak_mem_GiB = NAN;
}

static void read_row(struct arena *arena, const struct csv *csv, int64_t row, const int64_t *places,
                     struct measured_run *run) {
    struct error said_by_the_row = { 0 };
    run->line = csv->lines[row];
    for (int i = 0; i < COLUMN_COUNT_ALL; i++) {
        void *at = (char *)run + columns[i].offset;
        const char *mistake = NULL;
        switch (columns[i].type) {
        case COLUMN_TEXT:
            *(const char **)at = csv_cell(csv, row, places[i]);
            break;
        case COLUMN_COUNT:
            *(int64_t *)at = -1;
            if (!read_count(csv, row, places[i], at) || !in_range(&columns[i], *(int64_t *)at))
                mistake = count_mistake(arena, csv, row, places[i], &columns[i]);
            break;
        case COLUMN_NUMBER:
            *(double *)at = NAN;
            if (!csv_number(csv, row, places[i], at, &said_by_the_row))
                mistake = number_mistake(arena, csv, row, places[i]);
            break;
        }
        if (run->mistake == NULL) run->mistake = mistake;
    }
    forget_zeros(run);
    for (int i = 0; i < COLUMN_COUNT_ALL && run->mistake == NULL; i++) {
        const void *at = (const char *)run + columns[i].offset;
        if (columns[i].type == COLUMN_TEXT)
            run->mistake = text_mistake(arena, csv, row, places[i], run, &columns[i]);
        else if (columns[i].type == COLUMN_NUMBER && *(const double *)at <= 0)
            run->mistake = number_mistake(arena, csv, row, places[i]);
    }
}

static bool known_column(const char *name) {
    for (int i = 0; i < COLUMN_COUNT_ALL; i++)
        if (strcmp(columns[i].name, name) == 0) return true;
    return false;
}

/* The column whose value stands at the scenario's place; NULL: none does. */
static const char *column_of(struct arena *arena, const char *pointer, size_t length) {
    static const char *const others[][2] = { { "layer_count", "layers" },
                                             { "vocabulary", "vocab" } };
    static const char samples[] = "/samples"; /* below its batch */
    const size_t tail = sizeof samples - 1;
    if (length > tail && strncmp(pointer + length - tail, samples, tail) == 0) length -= tail;
    size_t start = length;
    while (start > 0 && pointer[start - 1] != '/')
        start--;
    const char *name = arena_format(arena, "%.*s", (int)(length - start), pointer + start);
    for (size_t i = 0; i < sizeof others / sizeof others[0]; i++)
        if (strcmp(name, others[i][0]) == 0) return others[i][1];
    return known_column(name) ? name : NULL;
}

const char *measured_run_complaint(struct arena *arena, const struct measured_run *run,
                                   const char *error_text) {
    static const char mark[] = "error: ", hint_mark[] = "\n  hint: ";
    const char *start = strstr(error_text, mark), *hint = strstr(error_text, hint_mark);
    const char *why = start != NULL ? start + sizeof mark - 1 : error_text;
    const size_t length = why[0] == '/' ? strcspn(why, ":") : 0;
    const char *column = column_of(arena, why, length);
    if (column != NULL) why += length + (why[length] == ':') + (why[length + 1] == ' ');
    hint = hint != NULL ? hint + sizeof hint_mark - 1 : "";
    return arena_format(arena, "line %ld%s%s: %.*s%s%.*s", (long)run->line,
                        column != NULL ? ", " : "", column != NULL ? column : "",
                        (int)strcspn(why, "\n"), why, hint[0] != '\0' ? "; " : "",
                        (int)strcspn(hint, "\n"), hint);
}

bool measured_run_overlaps(const struct measured_run *run, const char *kind, bool otherwise) {
    return run->overlap[0] != '\0' ? strstr(run->overlap, kind) != NULL : otherwise;
}

/* A row that stands twice would count twice. */
static bool check_row_ids(const struct csv *csv, const struct measured_runs *runs,
                          struct error *err) {
    for (int64_t i = 0; i < runs->count; i++)
        for (int64_t k = 0; k < i; k++)
            if (strcmp(runs->rows[i].row_id, runs->rows[k].row_id) == 0)
                return error_at(err, csv->path, csv->lines[i], 0,
                                "row_id: \"%.60s\" is line %ld's already", runs->rows[i].row_id,
                                csv->lines[k]);
    return true;
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
    if (csv->row_count == 0)
        return error_at(err, csv->path, 1, 0, "there is a header and no row below it");
    runs->notes = arena_array(arena, const char *, csv->column_count + 1);
    int64_t note_count = 0;
    for (int64_t i = 0; i < csv->column_count; i++)
        if (!known_column(csv->header[i]))
            runs->notes[note_count++] =
                arena_format(arena, "column \"%s\" is not known and was ignored", csv->header[i]);
    runs->rows = arena_array(arena, struct measured_run, csv->row_count);
    for (int64_t row = 0; row < csv->row_count; row++)
        read_row(arena, csv, row, places, &runs->rows[row]);
    return check_row_ids(csv, runs, err);
}
