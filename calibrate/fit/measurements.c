/* measurements.c - a small CSV reader (RFC 4180 quotes, no line breaks inside cells) under tables
 * that say which column fills which member. */
#include "calibrate/fit/measurements.h"

#include <math.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>
#include "sim/base/csv.h"
#include "sim/base/field.h"
#include "sim/base/file_read.h"
#include "sim/base/json.h"
#include "sim/base/utf8.h"

enum { COLUMN_MAX = 32 };
#define NUMBER_MAX 1e15 /* bytes, microseconds, sizes; beyond it they are no whole numbers */
enum cell_type { CELL_TEXT, CELL_INTEGER, CELL_NUMBER, CELL_FLAG };

struct column {
    const char *name;
    enum cell_type type;
    size_t offset;
    bool required;
    const char *const (*spellings)[2]; /* of a text: how others write it, and the format's word */
};

static const char *const dtype_spellings[][2] = {
    { "bfloat16", "bf16" },
    { "torch.bfloat16", "bf16" },
    { "bf16", "bf16" },
    { "float16", "fp16" },
    { "torch.float16", "fp16" },
    { "half", "fp16" },
    { "fp16", "fp16" },
    { "float8", "fp8" },
    { "fp8_e4m3", "fp8" },
    { "e4m3", "fp8" },
    { "torch.float8_e4m3fn", "fp8" },
    { "fp8", "fp8" },
    { "float32", "fp32" },
    { "torch.float32", "fp32" },
    { "fp32", "fp32" },
    { NULL, NULL },
};
static const char *const direction_spellings[][2] = {
    { "forward", "fwd" }, { "fwd", "fwd" }, { "backward", "bwd" }, { "bwd", "bwd" }, { NULL, NULL },
};
static const char *const op_spellings[][2] = {
    { "all_reduce", "all_reduce" },
    { "allreduce", "all_reduce" },
    { "all-reduce", "all_reduce" },
    { "all_reduce_perf", "all_reduce" },
    { "all_gather", "all_gather" },
    { "allgather", "all_gather" },
    { "all-gather", "all_gather" },
    { "all_gather_perf", "all_gather" },
    { "reduce_scatter", "reduce_scatter" },
    { "reducescatter", "reduce_scatter" },
    { "reduce-scatter", "reduce_scatter" },
    { "reduce_scatter_perf", "reduce_scatter" },
    { "alltoall", "alltoall" },
    { "all_to_all", "alltoall" },
    { "all-to-all", "alltoall" },
    { "alltoall_perf", "alltoall" },
    { "sendrecv", "sendrecv" },
    { "send_recv", "sendrecv" },
    { "sendrecv_perf", "sendrecv" },
    { NULL, NULL },
};

struct reader {
    const char *path;
    const struct column *columns;
    size_t column_count;
    size_t row_size, line_at;
    int column_of[COLUMN_MAX]; /* cell i of a line fills this column; -1: none */
    int cell_count;
    long header_line;
};

/* The next line, cut off in place; NULL at the end. Empty ones are passed over, and counted. */
static char *next_line(char **at, long *line) {
    for (char *start = *at; *start; start = *at) {
        const size_t length = strcspn(start, "\n");
        *at = start + length + (start[length] == '\n');
        start[length] = '\0';
        if (length > 0 && start[length - 1] == '\r') start[length - 1] = '\0';
        ++*line;
        if (*start) return start;
    }
    return NULL;
}

/* The text of a table, without a byte order mark. The caller frees *text and reads from the result;
 * NULL: an error. */
static char *read_text(const char *path, char **text, size_t *size, struct error *err) {
    if (!file_read(path, text, size, err)) return NULL;
    *text = memory_realloc(*text, *size + 1);
    (*text)[*size] = '\0';
    const char *nul = memchr(*text, '\0', *size);
    if (nul) {
        long line = 1;
        for (const char *c = *text; c < nul; c++)
            line += *c == '\n';
        error_at(err, path, line, 0, "a NUL byte: this is not a text file");
        if (utf16_seems(*text, *size)) error_hint(err, UTF16_HINT);
        free(*text);
        return NULL;
    }
    const char *bad = utf8_invalid(*text, *size);
    if (bad) {
        long line = 1;
        for (const char *c = *text; c < bad; c++)
            line += *c == '\n';
        error_at(err, path, line, 0, "a byte 0x%02X that is no UTF-8", (unsigned char)*bad);
        error_hint(err, "save the file as UTF-8");
        free(*text);
        return NULL;
    }
    return strncmp(*text, "\xef\xbb\xbf", 3) == 0 ? *text + 3 : *text;
}

/* Cuts one cell out of the line, in place. Returns the start of the next, or NULL at the end. */
static char *cut_cell(char *at, char **cell) {
    if (*at != '"') {
        *cell = at;
        at += strcspn(at, ",");
        if (*at == '\0') return NULL;
        *at = '\0';
        return at + 1;
    }
    char *to = ++at;
    *cell = to;
    while (*at && !(at[0] == '"' && at[1] != '"')) {
        if (at[0] == '"') at++; /* a doubled quote stands for one */
        *to++ = *at++;
    }
    if (*at == '"') at++;
    const bool more = *at == ',';
    *to = '\0';
    return more ? at + 1 : NULL;
}

static bool missing_column(const struct reader *r, const char *name, const char *const *given,
                           struct error *err) {
    const char *near = nearest_in_list(name, given);
    error_at(err, r->path, r->header_line, 0, "no column '%s'", name);
    if (near && strncasecmp(near, name, 1) == 0)
        return error_hint(err,
                          "is '%s' meant? Names and units must be those of "
                          "calibrate/measured/README.md",
                          near);
    char all[256] = "";
    for (size_t c = 0; c < r->column_count; c++) {
        const size_t used = strlen(all);
        if (r->columns[c].required)
            snprintf(all + used, sizeof all - used, "%s%s", used > 0 ? ", " : "",
                     r->columns[c].name);
    }
    return error_hint(err, "there must be %s; calibrate/measured/README.md explains them", all);
}

static bool read_header(struct reader *r, char *line, struct error *err) {
    bool seen[COLUMN_MAX] = { false };
    const char *given[COLUMN_MAX + 1] = { NULL };
    const char *other = csv_other_separator(line);
    if (other != NULL) {
        error_at(err, r->path, r->header_line, 0, "its columns are divided by %s", other);
        return error_hint(err, "save it with commas, and with decimal points");
    }
    char *cell;
    for (char *at = line; at; r->cell_count++) {
        at = cut_cell(at, &cell);
        if (r->cell_count == COLUMN_MAX)
            return error_at(err, r->path, r->header_line, 0, "more than %d columns", COLUMN_MAX);
        given[r->cell_count] = cell;
        r->column_of[r->cell_count] = -1;
        for (size_t c = 0; c < r->column_count; c++) {
            if (strcmp(r->columns[c].name, cell) != 0) continue;
            if (seen[c])
                return error_at(err, r->path, r->header_line, 0, "column '%s' stands there twice",
                                cell);
            r->column_of[r->cell_count] = (int)c;
            seen[c] = true;
        }
    }
    for (size_t c = 0; c < r->column_count; c++)
        if (r->columns[c].required && !seen[c])
            return missing_column(r, r->columns[c].name, given, err);
    return true;
}

static const char *usual_word(const struct column *column, const char *cell) {
    for (int i = 0; column->spellings && column->spellings[i][0]; i++)
        if (strcasecmp(column->spellings[i][0], cell) == 0) return column->spellings[i][1];
    return cell;
}

/* "True" is 1 of a flag, as Python writes it. */
static const char *flag_number(const char *cell) {
    if (strcasecmp(cell, "true") == 0) return "1";
    return strcasecmp(cell, "false") == 0 ? "0" : cell;
}

static bool read_cell(const struct reader *r, const struct column *column, struct arena *arena,
                      const char *cell, long line, void *row, struct error *err) {
    char *out = (char *)row + column->offset;
    if (column->type == CELL_TEXT) {
        *(const char **)(void *)out = arena_text(arena, usual_word(column, cell));
        return true;
    }
    if (column->type == CELL_FLAG) cell = flag_number(cell);
    char *end;
    const double value = *cell ? strtod(cell, &end) : 0;
    if (column->type == CELL_FLAG && *cell && (*end || (value != 0 && value != 1)))
        return error_at(err, r->path, line, 0, "%s: must be 0 or 1, got '%.40s'", column->name,
                        cell);
    if (*cell && (*end || !(value >= 0) || !(value <= NUMBER_MAX)))
        return error_at(err, r->path, line, 0, "%s: '%.40s' is not a number from 0 to %g",
                        column->name, cell, NUMBER_MAX);
    if (column->type == CELL_INTEGER && value != floor(value))
        return error_at(err, r->path, line, 0, "%s: '%.40s' is not a whole number", column->name,
                        cell);
    if (column->type == CELL_INTEGER)
        *(int64_t *)(void *)out = (int64_t)value;
    else if (column->type == CELL_NUMBER)
        *(double *)(void *)out = value;
    else
        *(bool *)(void *)out = value != 0;
    return true;
}

/* Quotes inside a cell are doubled, so that those of a whole line are even. */
static bool quote_stays_open(const char *line) {
    bool open = false;
    for (const char *c = strchr(line, '"'); c; c = strchr(c + 1, '"'))
        open = !open;
    return open;
}

static bool read_line(const struct reader *r, struct arena *arena, char *text, long line, void *row,
                      struct error *err) {
    int i = 0;
    char *cell;
    const bool open = quote_stays_open(text);
    for (size_t c = 0; c < r->column_count; c++) /* of a column that is not there */
        if (r->columns[c].type == CELL_TEXT)
            *(const char **)(void *)((char *)row + r->columns[c].offset) = "";
    int given = 0; /* a comma at the end of a line adds nothing */
    for (char *at = text; at; i++) {
        at = cut_cell(at, &cell);
        if (i < r->cell_count || *cell) given = i + 1;
        if (i >= r->cell_count) continue;
        if (r->column_of[i] >= 0 &&
            !read_cell(r, &r->columns[r->column_of[i]], arena, cell, line, row, err))
            return false;
    }
    if (open) return error_at(err, r->path, line, 0, "a quote is opened and not closed");
    return given == r->cell_count ||
           error_at(err, r->path, line, 0, "must have %d cells, got %d", r->cell_count, given);
}

/* Rows as one array of row_size each. */
static bool read_rows(struct reader *r, struct arena *arena, void **rows, int64_t *count,
                      struct error *err) {
    char *text;
    size_t size;
    char *next = read_text(r->path, &text, &size, err);
    if (!next) return false;
    int64_t line_count = 0;
    for (size_t i = 0; i < size; i++)
        line_count += text[i] == '\n';
    char *out = arena_alloc(arena, (size_t)(line_count + 1) * r->row_size);
    *rows = out;
    *count = 0;
    long line = 0;
    char *at = next_line(&next, &line);
    r->header_line = line;
    bool ok = at ? read_header(r, at, err) : error_set(err, "%s is empty", r->path);
    while (ok && (at = next_line(&next, &line))) {
        char *row = out + (size_t)(*count)++ * r->row_size;
        *(long *)(void *)(row + r->line_at) = line;
        ok = read_line(r, arena, at, line, row, err);
    }
    free(text);
    return ok;
}

#define READER(table, type)                                                                        \
    {                                                                                              \
        .path = path, .columns = table, .column_count = sizeof table / sizeof table[0],            \
        .row_size = sizeof(struct type), .line_at = offsetof(struct type, line)                    \
    }

#define AT(member) offsetof(struct gemm_row, member)
static const struct column gemm_columns[] = {
    { "gpu", CELL_TEXT, AT(gpu), true, NULL },
    { "dtype", CELL_TEXT, AT(dtype), true, dtype_spellings },
    { "m", CELL_INTEGER, AT(m), true, NULL },
    { "n", CELL_INTEGER, AT(n), true, NULL },
    { "k", CELL_INTEGER, AT(k), true, NULL },
    { "time_us", CELL_NUMBER, AT(time_us), true, NULL },
    { "framework", CELL_TEXT, AT(framework), false, NULL },
    { "source", CELL_TEXT, AT(source), false, NULL },
};
#undef AT

bool gemm_rows_read(struct arena *arena, const char *path, struct gemm_rows *out,
                    struct error *err) {
    struct reader reader = READER(gemm_columns, gemm_row);
    return read_rows(&reader, arena, (void **)&out->rows, &out->count, err);
}

#define AT(member) offsetof(struct attention_row, member)
static const struct column attention_columns[] = {
    { "gpu", CELL_TEXT, AT(gpu), true, NULL },
    { "dtype", CELL_TEXT, AT(dtype), true, dtype_spellings },
    { "direction", CELL_TEXT, AT(direction), true, direction_spellings },
    { "batch", CELL_INTEGER, AT(batch), true, NULL },
    { "seqlen", CELL_INTEGER, AT(seqlen), true, NULL },
    { "heads_q", CELL_INTEGER, AT(heads_q), true, NULL },
    { "heads_kv", CELL_INTEGER, AT(heads_kv), true, NULL },
    { "head_dim_qk", CELL_INTEGER, AT(head_dim_qk), true, NULL },
    { "head_dim_v", CELL_INTEGER, AT(head_dim_v), true, NULL },
    { "causal", CELL_FLAG, AT(causal), true, NULL },
    { "time_us", CELL_NUMBER, AT(time_us), true, NULL },
    { "framework", CELL_TEXT, AT(framework), false, NULL },
    { "source", CELL_TEXT, AT(source), false, NULL },
};
#undef AT

bool attention_rows_read(struct arena *arena, const char *path, struct attention_rows *out,
                         struct error *err) {
    struct reader reader = READER(attention_columns, attention_row);
    return read_rows(&reader, arena, (void **)&out->rows, &out->count, err);
}

#define AT(member) offsetof(struct nccl_row, member)
static const struct column nccl_columns[] = {
    { "gpu", CELL_TEXT, AT(gpu), true, NULL },
    { "n_gpus", CELL_INTEGER, AT(n_gpus), true, NULL },
    { "n_nodes", CELL_INTEGER, AT(n_nodes), true, NULL },
    { "interconnect", CELL_TEXT, AT(interconnect), true, NULL },
    { "op", CELL_TEXT, AT(op), true, op_spellings },
    { "bytes", CELL_NUMBER, AT(bytes), true, NULL },
    { "time_us", CELL_NUMBER, AT(time_us), true, NULL },
    { "in_place", CELL_FLAG, AT(in_place), false, NULL },
    { "nccl_version", CELL_TEXT, AT(nccl_version), false, NULL },
    { "source", CELL_TEXT, AT(source), false, NULL },
};
#undef AT

bool nccl_rows_read(struct arena *arena, const char *path, struct nccl_rows *out,
                    struct error *err) {
    struct reader reader = READER(nccl_columns, nccl_row);
    return read_rows(&reader, arena, (void **)&out->rows, &out->count, err);
}

#define AT(member) offsetof(struct membw_row, member)
static const struct column membw_columns[] = {
    { "gpu", CELL_TEXT, AT(gpu), true, NULL },
    { "test", CELL_TEXT, AT(test), true, NULL },
    { "bytes", CELL_NUMBER, AT(bytes), true, NULL },
    { "time_us", CELL_NUMBER, AT(time_us), true, NULL },
    { "fraction_of_peak", CELL_NUMBER, AT(fraction_of_peak), true, NULL },
    { "framework", CELL_TEXT, AT(framework), false, NULL },
    { "source", CELL_TEXT, AT(source), false, NULL },
};
#undef AT

bool membw_rows_read(struct arena *arena, const char *path, struct membw_rows *out,
                     struct error *err) {
    struct reader reader = READER(membw_columns, membw_row);
    return read_rows(&reader, arena, (void **)&out->rows, &out->count, err);
}

const char *const measurement_format_names[MEASUREMENT_FORMAT_COUNT] = {
    [MEASUREMENT_GEMM] = "gemm",
    [MEASUREMENT_ATTENTION] = "attention",
    [MEASUREMENT_NCCL] = "nccl",
    [MEASUREMENT_MEMBW] = "membw",
};

/* By a column that only this format has; a user's own columns may bear the names of the last three.
 * -1: none of them. Cuts the header. */
static int format_of(char *header) {
    static const struct {
        const char *column;
        enum measurement_format format;
    } columns[] = {
        { "k", MEASUREMENT_GEMM },
        { "seqlen", MEASUREMENT_ATTENTION },
        { "n_gpus", MEASUREMENT_NCCL },
        { "test", MEASUREMENT_MEMBW },
        { "conditions", MEASUREMENT_UNPRICED },
        { "part", MEASUREMENT_UNPRICED },
        { "filler", MEASUREMENT_UNPRICED },
    };
    int format = -1;
    char *cell;
    for (char *at = header; at && (format < 0 || format == MEASUREMENT_UNPRICED);) {
        at = cut_cell(at, &cell);
        for (size_t c = 0; c < sizeof columns / sizeof columns[0]; c++)
            if (strcmp(cell, columns[c].column) == 0) format = (int)columns[c].format;
    }
    return format;
}

bool measurement_format_read(const char *path, enum measurement_format *out, struct error *err) {
    char *text;
    size_t size;
    long line = 0;
    char *next = read_text(path, &text, &size, err);
    if (!next) return false;
    char *header = next_line(&next, &line);
    const bool commas = header && strchr(header, ',');
    const bool others = header && strpbrk(header, ";\t");
    const int format = format_of(header);
    free(text);
    if (format >= 0) {
        *out = (enum measurement_format)format;
        return true;
    }
    if (!header) return error_set(err, "%s is empty", path);
    error_at(err, path, line, 0,
             "the header has none of the columns that tell what was measured: k (gemm), seqlen "
             "(attention), n_gpus (nccl) or test (membw)");
    if (others && !commas) return error_hint(err, "cells are divided by commas");
    return error_hint(err, "a table of training runs is for `ballast validate` and `ballast "
                           "calibrate fit --steps`");
}
