/* nccl_run.c - what the names of programs, hosts and GPUs of a run stand for. */
#include "calibrate/fit/nccl_run.h"

#include <ctype.h>
#include <math.h>
#include <string.h>
#include "calibrate/fit/gpu_name.h"

const char *const nccl_log_ops[] = { "all_reduce", "all_gather", "reduce_scatter",
                                     "alltoall",   "sendrecv",   "broadcast",
                                     NULL };

void nccl_run_read_program(struct nccl_run *run, const char *text) {
    const char *found = NULL;
    for (int i = 0; nccl_log_ops[i]; i++) {
        char program[32];
        snprintf(program, sizeof program, "%s_perf", nccl_log_ops[i]);
        if (strstr(text, program)) found = nccl_log_ops[i];
    }
    if (found) {
        run->op = found;
        run->other_op = NULL;
        return;
    }
    static const char *const others[] = { "reduce", "gather", "scatter", "hypercube" };
    const char *end = strstr(text, "_perf"), *start = end;
    while (start && start > text && (isalpha((unsigned char)start[-1]) || start[-1] == '_'))
        start--;
    for (size_t i = 0; start && i < sizeof others / sizeof others[0]; i++)
        if (strlen(others[i]) == (size_t)(end - start) &&
            strncmp(others[i], start, strlen(others[i])) == 0) {
            run->other_op = others[i];
            run->op = NULL;
        }
}

const char *nccl_run_version(struct arena *arena, long code) {
    if (code >= 10000)
        return arena_format(arena, "%ld.%ld.%ld", code / 10000, code / 100 % 100, code % 100);
    if (code > 0) /* before 2.9 */
        return arena_format(arena, "%ld.%ld.%ld", code / 1000, code / 100 % 10, code % 100);
    return NULL;
}

static void add_node(struct nccl_run *run, const char *name) {
    run->place_count = 0;
    if (run->node_count < NCCL_RUN_NODES) run->nodes[run->node_count++] = name;
}

static bool has_node(const struct nccl_run *run, const char *name) {
    for (int64_t i = 0; i < run->node_count; i++)
        if (strcmp(run->nodes[i], name) == 0) return true;
    return false;
}

/* Ranks of a host stand together. A process for each of its GPUs may see it as device 0, at a bus
 * address of its own. */
static bool is_taken(struct nccl_run *run, const char *place) {
    for (int64_t i = 0; i < run->place_count; i++)
        if (strcmp(run->places[i], place) == 0) return true;
    if (run->place_count < NCCL_RUN_PLACES) run->places[run->place_count++] = place;
    return false;
}

static void place_rank(struct nccl_run *run, const char *host, const char *place) {
    if (!has_node(run, host)) add_node(run, host);
    const bool of_last = strcmp(run->nodes[run->node_count - 1], host) == 0;
    if (!of_last || place[0] == '\0' || !is_taken(run, place)) return;
    add_node(run, host);
    is_taken(run, place);
}

const char *nccl_run_add_rank(struct nccl_run *run, struct arena *arena,
                              const struct nccl_log_options *options, const char *host,
                              size_t host_length, const char *place, const char *device_name) {
    size_t length = strlen(device_name);
    while (length > 0 && isspace((unsigned char)device_name[length - 1]))
        length--;
    if (length == 0) return "the GPU's name is missing: the line ends early";
    const char *name = arena_format(arena, "%.*s", (int)length, device_name);
    const struct gpu_name *known = gpu_name_find(name);
    const char *gpu = known ? known->measured : gpu_name_short(name);
    if (run->gpu && !options->gpu && strcmp(run->gpu, gpu) != 0)
        return arena_format(arena,
                            "GPUs of several kinds ran together (%s and %s): such a run says "
                            "nothing about either",
                            run->gpu, gpu);
    place_rank(run, arena_format(arena, "%.*s", (int)host_length, host), place);
    run->rank_count++;
    run->gpu = gpu;
    return NULL;
}

const char *nccl_run_find_op(struct nccl_run *run, const struct nccl_log_options *options,
                             const char *path, struct arena *arena, const char **hint) {
    if (options->op) run->op = options->op;
    if (run->op) return NULL;
    const char *slash = strrchr(path, '/');
    const char *name = slash ? slash + 1 : path;
    for (int i = 0; nccl_log_ops[i] && !run->op; i++)
        if (strstr(name, nccl_log_ops[i])) run->op = nccl_log_ops[i];
    if (run->op) return NULL;
    if (run->other_op) {
        *hint = "all_reduce, all_gather, reduce_scatter, alltoall, sendrecv and broadcast are read";
        return arena_format(arena, "a log of %s_perf: %s has no price", run->other_op,
                            run->other_op);
    }
    *hint = "name it with --op, for example --op all_reduce";
    return "neither the log nor its file's name says which collective this is";
}

/* Bytes that each rank's links carry over the bytes of the size column. */
static double bus_factor(const char *op, double n) {
    if (strcmp(op, "all_reduce") == 0) return 2 * (n - 1) / n;
    if (strcmp(op, "sendrecv") == 0 || strcmp(op, "broadcast") == 0) return 1;
    return (n - 1) / n;
}

const char *nccl_run_doubt(const struct nccl_run *run, struct arena *arena,
                           const struct nccl_run_result *result) {
    /* rates are printed with two decimals, times with three digits or more */
    const double slack = 0.02, rounding = 0.011, n = (double)run->rank_count;
    if (result->bytes > 0 && !(result->time_us > 0))
        return arena_format(arena, "%.0f bytes in no time", result->bytes);
    if (!(result->bytes > 0)) return NULL;
    const double rate = result->bytes / result->time_us * 1e-3;
    if (fabs(rate - result->algbw_GB_per_s) > slack * rate + rounding)
        return arena_format(arena,
                            "%.0f bytes in %.10g us are %.4g GB/s, and its algbw is %.10g: one of "
                            "them is not what nccl-tests printed",
                            result->bytes, result->time_us, rate, result->algbw_GB_per_s);
    const double bus = result->algbw_GB_per_s * bus_factor(run->op, n);
    if (n > 1 && fabs(bus - result->busbw_GB_per_s) > slack * bus + 2 * rounding)
        return arena_format(arena,
                            "its busbw is %.10g GB/s where %s among %.0f ranks makes %.4g of an "
                            "algbw of %.10g: ranks are missing above the table, or it is another "
                            "collective",
                            result->busbw_GB_per_s, run->op, n, bus, result->algbw_GB_per_s);
    return NULL;
}

bool nccl_run_append(const struct nccl_run *run, struct arena *arena,
                     const struct nccl_log_options *options, const char *path,
                     const struct nccl_run_result *result, struct nccl_log_rows *out) {
    if (!(result->bytes > 0) || !(result->time_us > 0)) return false;
    if (out->count == out->capacity) {
        const int64_t capacity = out->capacity ? 2 * out->capacity : 256;
        struct nccl_log_row *rows = arena_array(arena, struct nccl_log_row, capacity);
        if (out->count) memcpy(rows, out->rows, (size_t)out->count * sizeof *rows);
        out->rows = rows;
        out->capacity = capacity;
    }
    const char *slash = strrchr(path, '/');
    out->rows[out->count++] = (struct nccl_log_row){
        .log_gpu = run->gpu,
        .row = { .gpu = options->gpu ? options->gpu : run->gpu,
                 .interconnect = options->interconnect ? options->interconnect : "",
                 .op = run->op,
                 .nccl_version = run->version ? run->version : "",
                 .source = arena_format(arena, "nccl-tests:%s", slash ? slash + 1 : path),
                 .n_gpus = run->rank_count,
                 .n_nodes = run->node_count,
                 .in_place = result->in_place,
                 .bytes = result->bytes,
                 .time_us = result->time_us },
        .algbw_GB_per_s = result->algbw_GB_per_s,
        .busbw_GB_per_s = result->busbw_GB_per_s,
    };
    return true;
}
