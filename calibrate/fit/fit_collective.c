/* fit_collective.c - tables of time by size, and the rules that fill the gaps between them. */
#include "calibrate/fit/fit_collective.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>
#include "costmodel/efficiency.h"

static const char *const op_names[OPERATOR_KIND_COUNT] = {
    [OPERATOR_ALL_REDUCE] = "all_reduce",
    [OPERATOR_ALL_GATHER] = "all_gather",
    [OPERATOR_REDUCE_SCATTER] = "reduce_scatter",
    [OPERATOR_ALL_TO_ALL] = "alltoall",
    [OPERATOR_SEND] = "sendrecv",
};

/* "2.27.3" as a number that orders versions; 0 where a source does not say. */
static double version_number(const char *text) {
    double number = 0;
    char *at = (char *)text;
    for (int part = 0; part < 3; part++) {
        number = number * 1000 + (double)strtol(at, &at, 10);
        if (*at == '.') at++;
    }
    return number;
}

static bool is_row(const struct nccl_row *row, const char *gpu, enum operator_kind op,
                   int64_t rank_count) {
    return row->n_nodes == 1 && row->n_gpus == rank_count && !row->in_place && row->bytes > 0 &&
           row->time_us > 0 && strcmp(row->gpu, gpu) == 0 && strcmp(row->op, op_names[op]) == 0 &&
           !strstr(row->interconnect, "NCCL_");
}

/* A later, larger size is never faster; tables are read as strictly ascending. */
static void keep_ascending(struct collective_fit *fit) {
    for (int64_t i = 1; i < fit->count; i++)
        fit->time_us[i] = fmax(fit->time_us[i], fit->time_us[i - 1] + 0.02);
}

static void set_plateau(struct collective_fit *fit) {
    const int64_t last = fit->count - 1;
    const double wire = collective_wire_factor(fit->op, (double)fit->rank_count);
    const double added_bytes = last ? fit->bytes[last] - fit->bytes[last - 1] : fit->bytes[0];
    const double added_us = last ? fit->time_us[last] - fit->time_us[last - 1] : fit->time_us[0];
    fit->plateau_GB_per_s = wire * added_bytes / (added_us * 1e3);
}

/* What log-log interpolation misses: every inner size from its two neighbours. */
static struct error_summary neighbour_errors(const struct collective_fit *fit) {
    double error[COLLECTIVE_FIT_SIZES];
    int64_t count = 0;
    for (int64_t i = 1; i + 1 < fit->count; i++) {
        const double share =
            log(fit->bytes[i] / fit->bytes[i - 1]) / log(fit->bytes[i + 1] / fit->bytes[i - 1]);
        const double guess =
            log(fit->time_us[i - 1]) + share * log(fit->time_us[i + 1] / fit->time_us[i - 1]);
        error[count++] = guess - log(fit->time_us[i]);
    }
    return error_summary_of(error, count);
}

static void insert(struct collective_fit *fit, double bytes, double log_us, double *weight) {
    int64_t at = 0;
    while (at < fit->count && fit->bytes[at] < bytes)
        at++;
    if (at == fit->count || fit->bytes[at] > bytes) {
        if (fit->count == COLLECTIVE_FIT_SIZES) return;
        const size_t moved = (size_t)(fit->count - at) * sizeof fit->bytes[0];
        memmove(&fit->bytes[at + 1], &fit->bytes[at], moved);
        memmove(&fit->time_us[at + 1], &fit->time_us[at], moved);
        memmove(&weight[at + 1], &weight[at], moved);
        fit->bytes[at] = bytes;
        fit->time_us[at] = 0;
        weight[at] = 0;
        fit->count++;
    }
    /* Runs of one size are averaged in the logarithm. */
    weight[at] += 1;
    fit->time_us[at] += (log_us - fit->time_us[at]) / weight[at];
}

bool fit_collective(const struct nccl_row *rows, int64_t count, const char *gpu,
                    enum operator_kind op, int64_t rank_count, struct collective_fit *out) {
    double weight[COLLECTIVE_FIT_SIZES] = { 0 };
    double newest = -1;
    *out = (struct collective_fit){ .op = op, .rank_count = rank_count };
    for (int64_t i = 0; i < count; i++)
        if (is_row(&rows[i], gpu, op, rank_count) && strncmp(rows[i].source, "S1:", 3) == 0)
            newest = fmax(newest, version_number(rows[i].nccl_version));
    for (int64_t i = 0; i < count; i++) {
        if (!is_row(&rows[i], gpu, op, rank_count)) continue;
        if (newest >= 0 && (strncmp(rows[i].source, "S1:", 3) != 0 ||
                            version_number(rows[i].nccl_version) != newest))
            continue;
        insert(out, rows[i].bytes, log(rows[i].time_us), weight);
    }
    if (out->count < 2) return false;
    for (int64_t i = 0; i < out->count; i++)
        out->time_us[i] = exp(out->time_us[i]);
    keep_ascending(out);
    set_plateau(out);
    out->held_out = neighbour_errors(out);
    return true;
}

/* Log-log, constant ratio beyond the ends. */
static double time_at(const struct collective_fit *fit, double bytes) {
    int64_t i = 1;
    if (bytes <= fit->bytes[0]) return fit->time_us[0];
    if (bytes >= fit->bytes[fit->count - 1])
        return fit->time_us[fit->count - 1] * bytes / fit->bytes[fit->count - 1];
    while (fit->bytes[i] < bytes)
        i++;
    const double share = log(bytes / fit->bytes[i - 1]) / log(fit->bytes[i] / fit->bytes[i - 1]);
    return fit->time_us[i - 1] * pow(fit->time_us[i] / fit->time_us[i - 1], share);
}

struct collective_fit collective_by_relative(const struct collective_fit *from,
                                             const struct collective_fit *relative_from,
                                             const struct collective_fit *relative_to) {
    struct collective_fit fit = *from;
    fit.rank_count = relative_to->rank_count;
    for (int64_t i = 0; i < fit.count; i++)
        fit.time_us[i] *= time_at(relative_to, fit.bytes[i]) / time_at(relative_from, fit.bytes[i]);
    keep_ascending(&fit);
    set_plateau(&fit);
    return fit;
}

struct collective_fit collective_by_ring(const struct collective_fit *from, int64_t rank_count) {
    struct collective_fit fit = *from;
    const double latency_us = from->time_us[0];
    const double steps = (double)(rank_count - 1) / (double)(from->rank_count - 1);
    const double wire = collective_wire_factor(from->op, (double)rank_count) /
                        collective_wire_factor(from->op, (double)from->rank_count);
    /* Half of the smallest time is the start of the kernel, which does not grow with the steps. */
    const double new_latency_us = latency_us * (0.5 + 0.5 * steps);
    fit.rank_count = rank_count;
    for (int64_t i = 0; i < fit.count; i++)
        fit.time_us[i] = new_latency_us + (from->time_us[i] - latency_us) * wire;
    keep_ascending(&fit);
    set_plateau(&fit);
    return fit;
}

struct collective_fit collective_by_link(const struct collective_fit *from, double link_ratio,
                                         double cap_GB_per_s) {
    struct collective_fit fit = *from;
    const double latency_us = from->time_us[0];
    const double wire = collective_wire_factor(fit.op, (double)fit.rank_count);
    for (int64_t i = 0; i < fit.count; i++) {
        fit.time_us[i] = latency_us + (from->time_us[i] - latency_us) / link_ratio;
        if (cap_GB_per_s > 0)
            fit.time_us[i] =
                fmax(fit.time_us[i], latency_us + fit.bytes[i] * wire / (cap_GB_per_s * 1e3));
    }
    keep_ascending(&fit);
    set_plateau(&fit);
    return fit;
}
