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

bool fit_collective_op(const char *name, enum operator_kind *out) {
    for (int op = 0; op < OPERATOR_KIND_COUNT; op++)
        if (op_names[op] && strcmp(op_names[op], name) == 0) {
            *out = (enum operator_kind)op;
            return true;
        }
    return false;
}

bool fit_collective_takes(const struct nccl_row *row, const char *gpu, enum operator_kind op,
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

static bool is_newest(const struct nccl_row *row, double newest) {
    return newest < 0 ||
           (strncmp(row->source, "S1:", 3) == 0 && version_number(row->nccl_version) == newest);
}

bool fit_collective(const struct nccl_row *rows, int64_t count, const char *gpu,
                    enum operator_kind op, int64_t rank_count, struct collective_fit *out) {
    double weight[COLLECTIVE_FIT_SIZES] = { 0 };
    double newest = -1, newest_largest_bytes = 0;
    *out = (struct collective_fit){ .op = op, .rank_count = rank_count };
    for (int64_t i = 0; i < count; i++)
        if (fit_collective_takes(&rows[i], gpu, op, rank_count) &&
            strncmp(rows[i].source, "S1:", 3) == 0)
            newest = fmax(newest, version_number(rows[i].nccl_version));
    for (int64_t i = 0; i < count; i++)
        if (fit_collective_takes(&rows[i], gpu, op, rank_count) && is_newest(&rows[i], newest))
            newest_largest_bytes = fmax(newest_largest_bytes, rows[i].bytes);
    for (int64_t i = 0; i < count; i++) {
        if (!fit_collective_takes(&rows[i], gpu, op, rank_count)) continue;
        if (!is_newest(&rows[i], newest) &&
            !(strncmp(rows[i].source, "S1:", 3) != 0 && rows[i].bytes > newest_largest_bytes))
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

struct collective_fit collective_by_line(const struct collective_fit *from, double latency_us,
                                         double bus_GB_per_s) {
    struct collective_fit fit = *from;
    const double wire = collective_wire_factor(fit.op, (double)fit.rank_count);
    for (int64_t i = 0; i < fit.count; i++) {
        const double line_us = latency_us + fit.bytes[i] * wire / (bus_GB_per_s * 1e3);
        const double table_us = from->rule ? line_us : from->time_us[i];
        fit.time_us[i] = fmax(from->time_us[0], fmin(line_us, table_us));
    }
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
        fit.time_us[i] = i > 0 && link_ratio < 1
                             ? time_at(from, fit.bytes[i] / link_ratio)
                             : latency_us + (from->time_us[i] - latency_us) / link_ratio;
        if (cap_GB_per_s > 0)
            fit.time_us[i] =
                fmax(fit.time_us[i], latency_us + fit.bytes[i] * wire / (cap_GB_per_s * 1e3));
    }
    keep_ascending(&fit);
    set_plateau(&fit);
    return fit;
}

/* ---- what was not measured --------------------------------------------------------------------
 */

static const int64_t rank_counts[] = { 2, 4, 8 };
enum { RANK_COUNTS = sizeof rank_counts / sizeof rank_counts[0], SWITCH_RANKS = 8 };

/* H100 and H200 differ in their memory alone. */
static bool are_twins(const char *gpu, const char *other) {
    return strncmp(gpu, "H100", 4) == 0
               ? strncmp(other, "H200", 4) == 0
               : strncmp(gpu, "H200", 4) == 0 && strncmp(other, "H100", 4) == 0;
}

static bool measured(const struct collective_source *source, const char *gpu, enum operator_kind op,
                     int64_t rank_count, struct collective_fit *out) {
    return fit_collective(source->rows, source->count, gpu, op, rank_count, out);
}

static double doublings_apart(int64_t a, int64_t b) {
    return fabs(log2((double)a / (double)b));
}

/* The measured table of the nearest rank count, the larger one of two as near: two GPUs pass
 * nothing on, so that 4 and 8 are more alike (all-to-all of 4 on A100 from 8 misses by 3 %, from 2
 * by 11). */
static bool nearest_measured(const struct collective_source *source, enum operator_kind op,
                             int64_t rank_count, struct collective_fit *out) {
    bool found = false;
    for (int i = 0; i < RANK_COUNTS; i++) {
        struct collective_fit other;
        if ((!found || doublings_apart(rank_counts[i], rank_count) <=
                           doublings_apart(out->rank_count, rank_count)) &&
            measured(source, source->gpu, op, rank_counts[i], &other)) {
            *out = other;
            found = true;
        }
    }
    return found;
}

/* Another kind among as many GPUs, times the ratio of the two kinds where both were measured:
 * between two such rank counts its logarithm is linear in that of n, beyond them the nearest holds.
 * Without one, an all-reduce passes the buffer twice. */
static bool by_one_sibling(const struct collective_source *source, enum operator_kind op,
                           enum operator_kind sibling_op, int64_t rank_count,
                           struct collective_fit *out, bool *has_ratio) {
    struct collective_fit own[2], beside[2];
    bool known[2] = { false, false }; /* at smaller and at larger rank counts */
    if (!measured(source, source->gpu, sibling_op, rank_count, out)) return false;
    for (int i = 0; i < RANK_COUNTS; i++) {
        const int side = rank_counts[i] > rank_count;
        struct collective_fit a, b;
        if (rank_counts[i] == rank_count || (side == 1 && known[1]) ||
            !measured(source, source->gpu, op, rank_counts[i], &a) ||
            !measured(source, source->gpu, sibling_op, rank_counts[i], &b))
            continue;
        own[side] = a;
        beside[side] = b;
        known[side] = true;
    }
    double weight[2] = { known[0] ? 1 : 0, known[1] ? 1 : 0 };
    if (known[0] && known[1]) {
        weight[1] = doublings_apart(rank_count, own[0].rank_count) /
                    doublings_apart(own[1].rank_count, own[0].rank_count);
        weight[0] = 1 - weight[1];
    }
    *has_ratio = known[0] || known[1];
    out->op = op;
    for (int64_t i = 0; i < out->count; i++) {
        if (!*has_ratio && op == OPERATOR_ALL_REDUCE) out->time_us[i] *= 2;
        for (int side = 0; side < 2; side++)
            if (known[side])
                out->time_us[i] *=
                    pow(time_at(&own[side], out->bytes[i]) / time_at(&beside[side], out->bytes[i]),
                        weight[side]);
    }
    return true;
}

/* all-gather and reduce-scatter for each other, their mean for an all-reduce, which is both, and
 * for an all-to-all, which loads the links as they do. */
static bool by_sibling(struct arena *arena, const struct collective_source *source,
                       enum operator_kind op, int64_t rank_count, struct collective_fit *out) {
    const enum operator_kind kinds[2] = { OPERATOR_ALL_GATHER, OPERATOR_REDUCE_SCATTER };
    const char *names = NULL;
    bool has_ratio = false;
    if (op == OPERATOR_SEND) return false;
    for (int k = 0; k < 2; k++) {
        struct collective_fit fit;
        bool ratio;
        if (kinds[k] == op || !by_one_sibling(source, op, kinds[k], rank_count, &fit, &ratio) ||
            (names && has_ratio && !ratio))
            continue;
        const char *name = operator_kind_name(kinds[k]);
        if (!names || (ratio && !has_ratio)) {
            *out = fit;
            names = name;
            has_ratio = ratio;
            continue;
        }
        for (int64_t i = 0; i < out->count; i++)
            out->time_us[i] = sqrt(out->time_us[i] * time_at(&fit, out->bytes[i]));
        names = arena_format(arena, "%s and %s", names, name);
    }
    if (!names) return false;
    keep_ascending(out);
    set_plateau(out);
    out->rule =
        arena_format(arena, "%s among %lld GPUs of %s%s", names, (long long)rank_count, source->gpu,
                     has_ratio ? ", times the ratio of the two at the nearest rank counts" : "");
    return true;
}

static bool by_relative(struct arena *arena, const struct collective_source *source,
                        enum operator_kind op, int64_t rank_count, struct collective_fit *out) {
    struct collective_fit from, relative_from, relative_to;
    if (!nearest_measured(source, op, rank_count, &from)) return false;
    /* Eight Hopper GPUs reduce inside the switch, eight A100 do not; two and four never do. */
    const bool alike = op != OPERATOR_ALL_REDUCE || are_twins(source->gpu, source->relative) ||
                       (from.rank_count < SWITCH_RANKS && rank_count < SWITCH_RANKS);
    if (!alike || !measured(source, source->relative, op, from.rank_count, &relative_from) ||
        !measured(source, source->relative, op, rank_count, &relative_to))
        return false;
    *out = collective_by_relative(&from, &relative_from, &relative_to);
    out->rule = arena_format(arena, "%lld GPUs of %s times the ratio of %lld to %lld on %s",
                             (long long)from.rank_count, source->gpu, (long long)rank_count,
                             (long long)from.rank_count, source->relative);
    return true;
}

/* Another GPU's table times what this one takes more at the nearest rank count where both were
 * measured, the mean of the kinds that no switch adds up: links differ. As it is where there is
 * none. */
static bool by_other_gpu(struct arena *arena, const struct collective_source *source,
                         enum operator_kind op, int64_t rank_count, struct collective_fit *out) {
    static const enum operator_kind kinds[] = { OPERATOR_ALL_GATHER, OPERATOR_REDUCE_SCATTER,
                                                OPERATOR_ALL_TO_ALL };
    enum { KINDS = sizeof kinds / sizeof kinds[0] };
    struct collective_fit own[KINDS], other[KINDS];
    int64_t nearest = 0;
    int pair_count = 0;
    if (!measured(source, source->relative, op, rank_count, out)) return false;
    for (int i = 0; i < RANK_COUNTS; i++) {
        int found = 0;
        if (nearest != 0 &&
            doublings_apart(rank_counts[i], rank_count) > doublings_apart(nearest, rank_count))
            continue;
        for (int k = 0; k < KINDS; k++) {
            struct collective_fit mine, theirs;
            if (!measured(source, source->gpu, kinds[k], rank_counts[i], &mine) ||
                !measured(source, source->relative, kinds[k], rank_counts[i], &theirs))
                continue;
            own[found] = mine;
            other[found++] = theirs;
        }
        if (found == 0) continue;
        nearest = rank_counts[i];
        pair_count = found;
    }
    /* A send starts as fast and has its link alone: the ratio is that of the largest buffer. */
    const bool by_link = op == OPERATOR_SEND;
    const double latency_us = by_link ? out->time_us[0] : 0, largest = out->bytes[out->count - 1];
    for (int64_t i = 0; i < out->count; i++) {
        const double bytes = by_link ? largest : out->bytes[i];
        double log_ratio = 0;
        for (int p = 0; p < pair_count; p++)
            log_ratio += log(time_at(&own[p], bytes) / time_at(&other[p], bytes)) / pair_count;
        out->time_us[i] = latency_us + (out->time_us[i] - latency_us) * exp(log_ratio);
    }
    keep_ascending(out);
    set_plateau(out);
    out->rule = pair_count > 0 ? arena_format(arena, "%s times what %s takes more among %lld GPUs",
                                              source->relative, source->gpu, (long long)nearest)
                               : arena_format(arena, "measured on %s", source->relative);
    return true;
}

bool fit_collective_or_derive(struct arena *arena, const struct collective_source *source,
                              enum operator_kind op, int64_t rank_count,
                              struct collective_fit *out) {
    if (measured(source, source->gpu, op, rank_count, out)) return true;
    const bool twins = are_twins(source->gpu, source->relative);
    if (twins && by_relative(arena, source, op, rank_count, out)) return true;
    if (by_sibling(arena, source, op, rank_count, out)) return true;
    if (by_relative(arena, source, op, rank_count, out)) return true;
    struct collective_fit from;
    if (nearest_measured(source, op, rank_count, &from)) {
        *out = collective_by_ring(&from, rank_count);
        out->rule = arena_format(arena, "%lld GPUs of %s by the ring law",
                                 (long long)from.rank_count, source->gpu);
        return true;
    }
    return by_other_gpu(arena, source, op, rank_count, out);
}
