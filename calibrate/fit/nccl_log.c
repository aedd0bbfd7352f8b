/* nccl_log.c - one pass over the lines; every kind of line has its reader below.
 *
 * A result line has size, count, type, then redop and root in most releases, and then as many cells
 * as the header names from `time` on: time, algbw, busbw and error or #wrong, out of place and in
 * place. Some releases leave redop empty, so cells are counted from the right. Format: README and
 * doc/PERFORMANCE.md of github NVIDIA/nccl-tests, whose size column and bus bandwidth are kept.
 */
#include "calibrate/fit/nccl_log.h"

#include <ctype.h>
#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include "calibrate/fit/gpu_name.h"
#include "sim/base/file_read.h"
#include "sim/base/json.h"

enum { CELL_MAX = 24, NODE_MAX = 4096 };

const char *const nccl_log_ops[] = { "all_reduce", "all_gather", "reduce_scatter",
                                     "alltoall",   "sendrecv",   "broadcast",
                                     NULL };

struct log_reader {
    struct arena *arena;
    const char *path;
    const struct nccl_log_options *options;
    struct nccl_log_rows *out;
    struct error *err;
    long line;
    /* of the run that the present line belongs to */
    const char *op, *gpu, *version;
    const char *other_op; /* "scatter": a program whose collective has no price */
    long group; /* of the run's first rank; ranks of others have communicators of their own */
    int64_t rank_count;
    int64_t node_count;
    const char *nodes[NODE_MAX];
    int table_cell_count; /* from the first `time` on; 0: no table yet */
    bool has_wrong;       /* the cell after busbw counts wrong values */
    bool any_table, any_row;
};

static void forget_run(struct log_reader *r) {
    r->gpu = NULL;
    r->rank_count = r->node_count = 0;
    r->table_cell_count = 0;
}

static bool complain(struct log_reader *r, const char *what) {
    return error_at(r->err, r->path, r->line, 0, "%s", what);
}

/* Cuts at white space, in place. */
static int cut_cells(char *line, char **cells) {
    int count = 0;
    char *save = NULL;
    for (char *at = strtok_r(line, " \t", &save); at && count < CELL_MAX;
         at = strtok_r(NULL, " \t", &save))
        cells[count++] = at;
    return count;
}

/* ---- lines above a table ---- */

static void read_op(struct log_reader *r, const char *text) {
    const char *found = NULL;
    for (int i = 0; nccl_log_ops[i]; i++) {
        char program[32];
        snprintf(program, sizeof program, "%s_perf", nccl_log_ops[i]);
        if (strstr(text, program)) found = nccl_log_ops[i];
    }
    if (found) {
        r->op = found;
        r->other_op = NULL;
        return;
    }
    static const char *const others[] = { "reduce", "gather", "scatter", "hypercube" };
    const char *end = strstr(text, "_perf"), *start = end;
    while (start && start > text && (isalpha((unsigned char)start[-1]) || start[-1] == '_'))
        start--;
    for (size_t i = 0; start && i < sizeof others / sizeof others[0]; i++)
        if (strlen(others[i]) == (size_t)(end - start) &&
            strncmp(others[i], start, strlen(others[i])) == 0) {
            r->other_op = others[i];
            r->op = NULL;
        }
}

/* "NCCL version 2.18.5+cuda12.2" or "nccl-library=22807". */
static void read_version(struct log_reader *r, const char *text) {
    const char *at = strstr(text, "NCCL version ");
    if (at) {
        at += strlen("NCCL version ");
        const size_t length = strspn(at, "0123456789.");
        if (length > 0) r->version = arena_format(r->arena, "%.*s", (int)length, at);
        return;
    }
    at = strstr(text, "nccl-library=");
    const long code = at ? strtol(at + strlen("nccl-library="), NULL, 10) : 0;
    if (code >= 10000)
        r->version =
            arena_format(r->arena, "%ld.%ld.%ld", code / 10000, code / 100 % 100, code % 100);
    else if (code > 0) /* before 2.9 */
        r->version =
            arena_format(r->arena, "%ld.%ld.%ld", code / 1000, code / 100 % 10, code % 100);
}

static void add_node(struct log_reader *r, const char *name, size_t length) {
    for (int64_t i = 0; i < r->node_count; i++)
        if (strlen(r->nodes[i]) == length && strncmp(r->nodes[i], name, length) == 0) return;
    if (r->node_count < NODE_MAX)
        r->nodes[r->node_count++] = arena_format(r->arena, "%.*s", (int)length, name);
}

/* "#  Rank  0 Group  0 Pid  1234 on  node-1 device  0 [0000:07:00] NVIDIA H100 80GB HBM3"; false
 * where this is not such a line. */
static bool is_rank_line(const char *text) {
    const char *rank = strstr(text, "Rank");
    return *text == '#' && rank && strstr(rank, " on ") && strstr(rank, "device");
}

static bool read_rank(struct log_reader *r, const char *text) {
    const char *host = strstr(text, " on ") + strlen(" on "), *bracket = strchr(text, ']');
    const char *group_text = strstr(text, "Group");
    const long group = group_text ? strtol(group_text + strlen("Group"), NULL, 10) : 0;
    if (r->rank_count == 0) r->group = group;
    if (group != r->group) return true;
    host += strspn(host, " ");
    add_node(r, host, strcspn(host, " "));
    r->rank_count++;
    if (!bracket) return complain(r, "the GPU's name is missing: the line ends early");
    const char *device = bracket + 1 + strspn(bracket + 1, " ");
    size_t length = strlen(device);
    while (length > 0 && isspace((unsigned char)device[length - 1]))
        length--;
    if (length == 0) return complain(r, "the GPU's name is missing: the line ends early");
    const char *name = arena_format(r->arena, "%.*s", (int)length, device);
    const struct gpu_name *known = gpu_name_find(name);
    const char *gpu = known ? known->measured : gpu_name_short(name);
    if (r->gpu && !r->options->gpu && strcmp(r->gpu, gpu) != 0)
        return error_at(r->err, r->path, r->line, 0,
                        "GPUs of several kinds ran together (%s and %s): such a run says nothing "
                        "about either",
                        r->gpu, gpu);
    r->gpu = gpu;
    return true;
}

/* "#  size  count  type  redop  root  time  algbw  busbw  #wrong  time ..."; false where this is
 * not the table's header. */
static bool is_table_header(const char *text) {
    return *text == '#' && strstr(text, "size") && strstr(text, "count") && strstr(text, "time") &&
           strstr(text, "busbw");
}

static bool read_table_header(struct log_reader *r, char *text) {
    char *cells[CELL_MAX];
    const int count = cut_cells(text, cells);
    int first = 0;
    while (first < count && strcmp(cells[first], "time") != 0)
        first++;
    r->table_cell_count = count - first;
    if (r->table_cell_count != 8)
        return complain(r, "the table's header is not one of nccl-tests: after the first \"time\" "
                           "come seven more columns");
    r->has_wrong = strcmp(cells[first + 3], "#wrong") == 0;
    r->any_table = true;
    return true;
}

/* ---- result lines ---- */

/* The program's name stands above the table, the file's name is the second best. */
static bool find_op(struct log_reader *r) {
    if (r->options->op) r->op = r->options->op;
    if (r->op) return true;
    const char *slash = strrchr(r->path, '/');
    const char *name = slash ? slash + 1 : r->path;
    for (int i = 0; nccl_log_ops[i] && !r->op; i++)
        if (strstr(name, nccl_log_ops[i])) r->op = nccl_log_ops[i];
    if (r->op) return true;
    if (r->other_op) {
        error_at(r->err, r->path, r->line, 0, "a log of %s_perf: %s has no price", r->other_op,
                 r->other_op);
        return error_hint(r->err, "all_reduce, all_gather, reduce_scatter, alltoall, sendrecv and "
                                  "broadcast are read");
    }
    complain(r, "neither the log nor its file's name says which collective this is");
    return error_hint(r->err, "name it with --op, for example --op all_reduce");
}

static bool check_run(struct log_reader *r) {
    if (!find_op(r)) return false;
    if (r->options->gpu) r->gpu = r->options->gpu;
    if (r->rank_count == 0)
        return complain(r, "no \"Rank ... on ... device\" line stands above the table, so the "
                           "number of GPUs is not known");
    return true;
}

static void append(struct log_reader *r, double bytes, const double *values, bool in_place) {
    struct nccl_log_rows *out = r->out;
    if (out->count == out->capacity) {
        const int64_t capacity = out->capacity ? 2 * out->capacity : 256;
        struct nccl_log_row *rows = arena_array(r->arena, struct nccl_log_row, capacity);
        if (out->count) memcpy(rows, out->rows, (size_t)out->count * sizeof *rows);
        out->rows = rows;
        out->capacity = capacity;
    }
    const char *slash = strrchr(r->path, '/');
    out->rows[out->count++] = (struct nccl_log_row){
        .row = { .gpu = r->gpu,
                 .interconnect = r->options->interconnect ? r->options->interconnect : "",
                 .op = r->op,
                 .nccl_version = r->version ? r->version : "",
                 .source = arena_format(r->arena, "nccl-tests:%s", slash ? slash + 1 : r->path),
                 .n_gpus = r->rank_count,
                 .n_nodes = r->node_count,
                 .in_place = in_place,
                 .bytes = bytes,
                 .time_us = values[0] },
        .algbw_GB_per_s = values[1],
        .busbw_GB_per_s = values[2],
    };
    r->any_row = true;
}

static bool read_number(struct log_reader *r, const char *cell, double *out) {
    char *end;
    *out = strtod(cell, &end);
    return (*cell && !*end && *out >= 0) ||
           error_at(r->err, r->path, r->line, 0, "\"%s\" is not a number from 0", cell);
}

/* Four cells: time, algbw, busbw, error or #wrong. N/A: this release does not run it. */
static bool read_half(struct log_reader *r, double bytes, char *const *cells, bool in_place) {
    double values[3], wrong = 0;
    if (strcmp(cells[0], "N/A") == 0) return true;
    for (int i = 0; i < 3; i++)
        if (!read_number(r, cells[i], &values[i])) return false;
    if (r->has_wrong && strcmp(cells[3], "N/A") != 0 && !read_number(r, cells[3], &wrong))
        return false;
    if (wrong > 0)
        return error_at(r->err, r->path, r->line, 0,
                        "the run found %.0f wrong values: its times are not to be trusted", wrong);
    /* Buffers too small to divide among the ranks are printed as 0 bytes. */
    if (bytes > 0 && values[0] > 0) append(r, bytes, values, in_place);
    return true;
}

static bool read_result(struct log_reader *r, char *text) {
    char *cells[CELL_MAX];
    const int count = cut_cells(text, cells);
    double bytes;
    if (!read_number(r, cells[0], &bytes)) return false;
    /* size, count and type stand before; redop and root in most releases */
    if (count < 3 + r->table_cell_count || count > 5 + r->table_cell_count)
        return error_at(r->err, r->path, r->line, 0,
                        "must have %d to %d cells as the table's header says, got %d%s",
                        3 + r->table_cell_count, 5 + r->table_cell_count, count,
                        count < 3 + r->table_cell_count ? ": the line ends early" : "");
    if (!check_run(r)) return false;
    char *const *half = cells + count - r->table_cell_count;
    return read_half(r, bytes, half, false) && read_half(r, bytes, half + 4, true);
}

/* ---- the whole ---- */

/* Past what launchers write before a line, and white space: "[1,0]<stdout>:" of Open MPI, "0: " of
 * srun -l, "[0] " of Hydra, "2026-01-31T12:00:00.5Z " of kubectl logs --timestamps. */
static char *without_tag(char *text) {
    char *tag = *text == '[' ? strstr(text, ">:") : NULL;
    if (tag && strstr(text, "]<std") && strstr(text, "]<std") < tag) text = tag + 2;
    const size_t bracket = *text == '[', digits = strspn(text + bracket, "0123456789");
    const char *end = text + bracket + digits;
    if (digits > 0 && *end == (bracket ? ']' : ':') && isspace((unsigned char)end[1]))
        text += bracket + digits + 1;
    const size_t stamp = strspn(text, "0123456789-T:.Z+");
    if (stamp >= 19 && text[10] == 'T' && isspace((unsigned char)text[stamp])) text += stamp;
    return text + strspn(text, " \t");
}

/* Why a file without results has none, as far as its beginning tells. */
static bool no_results(struct log_reader *r, const char *text, size_t size, bool has_nul) {
    const char *first = text + strspn(text, " \t\r\n");
    if (size == 0) return error_set(r->err, "%s: the file is empty", r->path);
    if (has_nul) {
        error_set(r->err, "%s: no results of nccl-tests in this file: it is not UTF-8 text",
                  r->path);
        return error_hint(r->err, "PowerShell's > writes UTF-16: save the log as UTF-8");
    }
    error_set(r->err, "%s: no results of nccl-tests in this file%s", r->path,
              r->any_table ? ": its table has no line" : "");
    if (*first == '{' || *first == '[')
        return error_hint(r->err, "give the table that nccl-tests print, not their JSON");
    return error_hint(r->err,
                      "what is read is what all_reduce_perf and its like print, from the line "
                      "\"# Using devices\" on");
}

/* Other output between the lines (NCCL_DEBUG) does not begin with a whole number. */
static bool is_result(const char *text) {
    const size_t digits = strspn(text, "0123456789");
    return digits > 0 && (text[digits] == '\0' || isspace((unsigned char)text[digits]));
}

static bool read_line(struct log_reader *r, char *text) {
    text = without_tag(text);
    read_op(r, text);
    read_version(r, text);
    if (strncmp(text, "# nThread", 9) == 0 || strstr(text, "# Using devices")) {
        /* Ranks that follow are of a new run; the collective may have been named just before. */
        forget_run(r);
        return true;
    }
    if (strncmp(text, "# Out of bounds", 15) == 0 || strncmp(text, "# Avg bus", 9) == 0) {
        r->table_cell_count = 0;
        return true;
    }
    if (is_rank_line(text)) return read_rank(r, text);
    if (is_table_header(text)) return read_table_header(r, text);
    return !(r->table_cell_count && is_result(text)) || read_result(r, text);
}

bool nccl_log_read(struct arena *arena, const char *path, const struct nccl_log_options *options,
                   struct nccl_log_rows *out, struct error *err) {
    struct log_reader r = {
        .arena = arena, .path = path, .options = options, .out = out, .err = err
    };
    char *text;
    size_t size;
    if (!file_read(path, &text, &size, err)) return false;
    text = memory_realloc(text, size + 1);
    text[size] = '\0';
    const bool has_nul = memchr(text, '\0', size) != NULL;
    bool ok = true;
    for (char *at = text, *next; ok && at; at = next) {
        next = strchr(at, '\n');
        if (next) *next++ = '\0';
        at[strcspn(at, "\r")] = '\0';
        r.line++;
        ok = read_line(&r, at);
    }
    if (ok && !r.any_row) ok = no_results(&r, text, size, has_nul);
    free(text);
    return ok;
}

static void write_text(FILE *out, const char *text, char end) {
    const bool quoted = strpbrk(text, ",\"") != NULL;
    if (quoted) fputc('"', out);
    for (; *text; text++) {
        if (*text == '"') fputc('"', out);
        fputc(*text, out);
    }
    if (quoted) fputc('"', out);
    fputc(end, out);
}

bool nccl_log_write(const struct nccl_log_rows *rows, FILE *out) {
    fputs("gpu,n_gpus,n_nodes,interconnect,op,bytes,time_us,algbw_gbps,busbw_gbps,in_place,"
          "nccl_version,source\n",
          out);
    for (int64_t i = 0; i < rows->count; i++) {
        const struct nccl_log_row *r = &rows->rows[i];
        write_text(out, r->row.gpu, ',');
        fprintf(out, "%lld,%lld,", (long long)r->row.n_gpus, (long long)r->row.n_nodes);
        write_text(out, r->row.interconnect, ',');
        fprintf(out, "%s,%.0f,%.10g,%.10g,%.10g,%d,%s,", r->row.op, r->row.bytes, r->row.time_us,
                r->algbw_GB_per_s, r->busbw_GB_per_s, r->row.in_place, r->row.nccl_version);
        write_text(out, r->row.source, '\n');
    }
    return fflush(out) == 0 && !ferror(out);
}
