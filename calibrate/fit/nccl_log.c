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
#include "calibrate/fit/nccl_json.h"
#include "calibrate/fit/nccl_run.h"
#include "sim/base/file_read.h"

enum { CELL_MAX = 24 };

struct log_reader {
    struct arena *arena;
    const char *path;
    const struct nccl_log_options *options;
    struct nccl_log_rows *out;
    struct error *err;
    long line;
    struct nccl_run run; /* that the present line belongs to */
    long group; /* of the run's first rank; ranks of others have communicators of their own */
    /* GPUs of a process by the header's nThread and nGpus (0: not said), and by the rank lines */
    long process_gpus, rank_line_count, process_count;
    const char *process;  /* of the last rank line, to its host's end; NULL: it names none */
    int table_cell_count; /* from the first `time` on; 0: no table yet */
    bool has_wrong;       /* the cell after busbw counts wrong values */
    bool any_table, any_row;
    double most_bytes, step; /* sizes by the header; 0: not said */
    double largest;          /* that was read */
    bool by_factor;
};

/* A run that its last line does not end, and whose next size was still to come. */
static void note_cut(struct log_reader *r) {
    const double next = r->by_factor ? r->largest * r->step : r->largest + r->step;
    const double slack = 0.99; /* sizes are made to divide among the ranks */
    if (r->table_cell_count > 0 && r->most_bytes > 0 && r->step > 0 && r->largest > 0 &&
        next <= slack * r->most_bytes)
        r->out->cut = arena_format(r->arena, "%s ends at %.0f bytes of maxBytes %.0f", r->path,
                                   r->largest, r->most_bytes);
    r->largest = 0;
}

static void forget_run(struct log_reader *r) {
    note_cut(r);
    r->run.gpu = NULL;
    if (r->run.rank_count > 0) r->process_gpus = 0;
    r->run.rank_count = r->run.node_count = r->run.place_count = 0;
    r->rank_line_count = r->process_count = 0;
    r->process = NULL;
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

/* "NCCL version 2.18.5+cuda12.2" or "nccl-library=22807". */
static void read_version(struct log_reader *r, const char *text) {
    const char *at = strstr(text, "NCCL version ");
    if (at) {
        at += strlen("NCCL version ");
        const size_t length = strspn(at, "0123456789.");
        if (length > 0) r->run.version = arena_format(r->arena, "%.*s", (int)length, at);
        return;
    }
    at = strstr(text, "nccl-library=");
    const long code = at ? strtol(at + strlen("nccl-library="), NULL, 10) : 0;
    if (code > 0) r->run.version = nccl_run_version(r->arena, code);
}

/* "# nThread 1 nGpus 8 minBytes 8 ..." */
static void read_sizes(struct log_reader *r, const char *text) {
    long threads, gpus;
    const bool said = sscanf(text, "# nThread %ld nGpus %ld", &threads, &gpus) == 2;
    const char *most = strstr(text, "maxBytes "), *step = strstr(text, "step: ");
    r->most_bytes = most != NULL ? strtod(most + strlen("maxBytes "), NULL) : 0;
    char *unit = NULL;
    r->step = step != NULL ? strtod(step + strlen("step: "), &unit) : 0;
    r->by_factor = unit != NULL && strncmp(unit, "(factor)", 8) == 0;
    r->process_gpus = said && threads > 0 && threads < 1000 && gpus < 1000 ? threads * gpus : 0;
}

/* The ranks of a process stand one after another. */
static void count_process(struct log_reader *r, const char *text, const char *host_end) {
    const char *pid = strstr(text, "Pid");
    r->rank_line_count++;
    if (pid == NULL || pid > host_end) {
        r->process_gpus = 0;
        return;
    }
    const char *process = arena_format(r->arena, "%.*s", (int)(host_end - pid), pid);
    r->process_count += r->process == NULL || strcmp(process, r->process) != 0;
    r->process = process;
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
    if (r->run.rank_count == 0) r->group = group;
    host += strspn(host, " ");
    count_process(r, text, host + strcspn(host, " "));
    if (group != r->group) return true;
    const char *device = bracket ? bracket + 1 + strspn(bracket + 1, " ") : "";
    const char *number = strstr(text, "device");
    const char *place = bracket != NULL && number < bracket
                            ? arena_format(r->arena, "%.*s", (int)(bracket - number), number)
                            : "";
    const char *why =
        nccl_run_add_rank(&r->run, r->arena, r->options, host, strcspn(host, " "), place, device);
    return why == NULL || complain(r, why);
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

static bool check_run(struct log_reader *r) {
    const char *hint = NULL, *why = nccl_run_find_op(&r->run, r->options, r->path, r->arena, &hint);
    if (why != NULL) {
        complain(r, why);
        return error_hint(r->err, "%s", hint);
    }
    if (r->run.rank_count == 0) {
        complain(r, "no \"Rank ... on ... device\" line stands above the table, so the number of "
                    "GPUs is not known");
        return error_hint(r->err, "nccl-tests print them below \"# Using devices\": keep the whole "
                                  "log, or write the table with n_gpus and n_nodes yourself "
                                  "(calibrate/measured/README.md)");
    }
    /* One GPU each: containers may give all processes of a host one number. */
    const long said = r->process_count * r->process_gpus;
    if (r->process_gpus > 0 && r->rank_line_count != said &&
        (r->process_gpus > 1 || r->rank_line_count < said))
        return error_at(
            r->err, r->path, r->line, 0,
            "the ranks above the table are %ld GPUs of %ld process%s, its \"# nThread\" "
            "line says %ld for each",
            r->rank_line_count, r->process_count, r->process_count == 1 ? "" : "es",
            r->process_gpus);
    return true;
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
    const struct nccl_run_result result = { bytes, values[0], values[1], values[2], in_place };
    const char *doubt = nccl_run_doubt(&r->run, r->arena, &result);
    if (doubt != NULL) return complain(r, doubt);
    if (nccl_run_append(&r->run, r->arena, r->options, r->path, &result, r->out)) r->any_row = true;
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
    if (bytes > r->largest) r->largest = bytes;
    char *const *half = cells + count - r->table_cell_count;
    return read_half(r, bytes, half, false) && read_half(r, bytes, half + 4, true);
}

/* ---- the whole ---- */

/* "node1: " and "worker-0 | " of launchers that name the host; not "Rank: " of nccl-tests' own lines,
 * which begin with '#'. */
static char *without_host(char *text) {
    const size_t name = strcspn(text, ": |\t#");
    const char *rest = text + name;
    if (name == 0 || !isalpha((unsigned char)*text)) return text;
    if (rest[0] == ':' && rest[1] == ' ') return text + name + 2;
    if (strncmp(rest, " | ", 3) == 0) return text + name + 3;
    return text;
}

/* Past what launchers write before a line, and white space: "[1,0]<stdout>:" of Open MPI, "0: " of
 * srun -l, "[0] " of Hydra, "[pod/launcher-0/mpi] " of kubectl logs --prefix,
 * "2026-01-31T12:00:00.5Z " of its --timestamps. */
static char *without_tag(char *text) {
    char *tag = *text == '[' ? strstr(text, ">:") : NULL;
    if (tag && strstr(text, "]<std") && strstr(text, "]<std") < tag) text = tag + 2;
    const size_t digits = strspn(text, "0123456789"), word = strcspn(text, "] \t");
    if (digits > 0 && text[digits] == ':' && isspace((unsigned char)text[digits + 1]))
        text += digits + 1;
    else if (*text == '[' && text[word] == ']' && isspace((unsigned char)text[word + 1]))
        text += word + 2;
    const size_t stamp = strspn(text, "0123456789-T:.Z+");
    if (stamp >= 19 && text[10] == 'T' && isspace((unsigned char)text[stamp])) text += stamp;
    char *inner = without_host(text + strspn(text, " \t"));
    inner += strspn(inner, " \t");
    const bool result = *inner == '#' || isdigit((unsigned char)*inner);
    return result ? inner : text + strspn(text, " \t");
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
    if (*first == '{' || (*first == '[' && strstr(text, "# ") == NULL))
        return error_hint(r->err, "of JSON what nccl-tests write with -J FILE is read");
    return error_hint(r->err,
                      "what is read is what all_reduce_perf and its like print, from the line "
                      "\"# Using devices\" on");
}

/* Other output between the lines (NCCL_DEBUG) does not begin with a whole number. */
static bool is_result(const char *text) {
    const size_t digits = strspn(text, "0123456789");
    return digits > 0 && (text[digits] == '\0' || isspace((unsigned char)text[digits]));
}

/* As many cells as a result has, most of its last eight being numbers, and no size before them: a
 * line that was edited or mixed with another. */
static bool is_spoilt_result(struct log_reader *r, const char *text) {
    char *cells[CELL_MAX];
    const int count = cut_cells(arena_text(r->arena, text), cells);
    if (*text == '#' || count < r->table_cell_count || count > 5 + r->table_cell_count)
        return false;
    int numbers = 0;
    for (int i = count - r->table_cell_count; i < count; i++)
        numbers +=
            cells[i][strspn(cells[i], "0123456789.")] == '\0' || strcmp(cells[i], "N/A") == 0;
    return numbers >= r->table_cell_count - 2;
}

static bool read_line(struct log_reader *r, char *text) {
    text = without_tag(text);
    nccl_run_read_program(&r->run, text);
    read_version(r, text);
    if (strncmp(text, "# nThread", 9) == 0 || strstr(text, "# Using devices")) {
        /* Ranks that follow are of a new run; the collective may have been named just before. */
        forget_run(r);
        if (text[2] == 'n') read_sizes(r, text);
        return true;
    }
    if (strncmp(text, "# Out of bounds", 15) == 0 || strncmp(text, "# Avg bus", 9) == 0) {
        r->table_cell_count = 0;
        r->largest = 0;
        return true;
    }
    if (is_rank_line(text)) return read_rank(r, text);
    if (is_table_header(text)) return read_table_header(r, text);
    if (!r->table_cell_count) return true;
    if (is_result(text)) return read_result(r, text);
    return !is_spoilt_result(r, text) ||
           complain(r, "looks like a result and does not begin with a whole number of bytes");
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
    const bool has_nul = memchr(text, '\0', size) != NULL, is_json = nccl_json_begins(text, size);
    bool ok = !is_json || nccl_json_read(arena, path, text, size, options, out, err);
    for (char *at = is_json ? NULL : text, *next; ok && at; at = next) {
        next = strchr(at, '\n');
        if (next) *next++ = '\0';
        at[strcspn(at, "\r")] = '\0';
        r.line++;
        ok = read_line(&r, at);
    }
    if (ok) note_cut(&r);
    if (ok && !is_json && !r.any_row) ok = no_results(&r, text, size, has_nul);
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
