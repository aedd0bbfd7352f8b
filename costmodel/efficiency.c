/* efficiency.c - time of one kernel or one collective of one node from the measured curves.
 *
 * Matmul, m x n x k of F flop and B bytes on a GPU of peak P and HBM bandwidth W:
 *     t = ( launch + q + max( F / (e P) (1 + K0/k) w^x, B / (eb W) ) ) exp(r(m, n, k))
 *     e(t) = e max(floor, 1 - s ln(t / t_on))  for t > t_on: a long kernel sits at the power limit
 *   K0 is the depth that filling and draining the tile pipeline costs; w >= 1 is what whole tiles in
 *   whole waves take more than the multiplications, and x how much of it is seen; q = 3 m k / (c W) is
 *   a quantisation of the operand that is timed too: 2 bytes read and 1 written; r is the table of
 *   what the measurements add. Weight gradients divide e by their layout's factor.
 *   Valid for m, n, k inside the table; outside r keeps its edge value, which is an extrapolation.
 *   Inside a training step the chip has settled at its power limit: compute is at least
 *     F / (es P) (1 + Ks/k).
 * Attention forward, S = sum(length^2) / sum(length), the mean length a query sees:
 *     t = launch + max( F / (e P) (1 + S0/S) w exp(r(S, heads sum(length)/S, heads / key heads)),
 *                       B / W )
 *   w: whole tiles in whole waves over the queries there are, where the measurements show them.
 *   Backward: the same with e b / ((1 + Sb/S) (1 + R0/R)) in place of e, and without w and r; R is
 *   queries x heads, and R0 what one wave of tiles holds: a launch waits for its last tile. Few
 *   forward kernels have an R0 of their own in place of w; those of either pass fall with duration
 *   as matmuls do, from 1 ms on and to 0.7 at most, where the measurements show it. Head
 *   sizes between two curves mix their times in proportion; beyond the last the nearest is used.
 * A variant's curves have the same forms. Tables follow the measurements, which are not monotone: a
 * shape that fills its last wave can be faster than a smaller one.
 * Collective among n GPUs of one node: log-log interpolation of a measured table in the buffer
 * size; below it the first time, beyond it  t(last) + (bytes - last) wire(n) / plateau. Between two
 * tables, linear in log n. Above the largest, the ring law: latency grows with n - 1 and the rest
 * with wire(n) = 2 (n-1)/n for all-reduce, (n-1)/n for the other collectives, 1 for a message.
 */
#include "costmodel/efficiency.h"

#include <math.h>
#include <stdlib.h>
#include "sim/base/extremes.h"

#define ATTENTION_POWER_ONSET_S    1e-3
#define ATTENTION_POWER_FLOOR      0.7
#define SCALED_LINKS_BAND_FRACTION 0.25 /* as of shipped tables that are scaled (calibrate.c) */

/* ceil() of 0 to 2^51 without its call and without a branch: adding 2^52 rounds to a whole. */
static inline double whole_up(double x) {
    const double rounded = x + 0x1p52 - 0x1p52;
    return rounded + (rounded < x ? 1 : 0);
}

/* The last of the first `count` points that is not above x, x not below the first. Halved without a
 * branch, which would be mispredicted. */
static inline int64_t cell_of(const double *at, int64_t count, double x) {
    int64_t low = 0;
    while (count > 1) {
        const int64_t half = count / 2;
        low += at[low + half] <= x ? half : 0;
        count -= half;
    }
    return low;
}

/* The cell that holds x, and how far x stands in it (0..1, clamped). */
static int64_t axis_cell(const struct log_axis *axis, double x, double *fraction, bool *inside) {
    /* Decimal sizes survive log2 with an error of an ulp: a point of the axis is inside. */
    const double margin = 1e-9;
    const double *at = axis->log2_at;
    const int64_t last = axis->count - 1;
    *inside = *inside && x >= at[0] - margin && x <= at[last] + margin;
    *fraction = 0;
    if (last == 0 || x <= at[0]) return 0;
    if (x >= at[last]) {
        *fraction = 1;
        return last - 1;
    }
    const int64_t low = cell_of(at, last, x);
    *fraction = (x - at[low]) / (at[low + 1] - at[low]);
    return low;
}

double correction_ratio(const struct correction_table *table, const double *log2_sizes,
                        bool *inside_range) {
    if (table->axis_count == 0) {
        *inside_range = false;
        return 0;
    }
    /* An axis that the table lacks is one of a single point. */
    int64_t base = 0, stride[3] = { 0 };
    double fraction[3] = { 0 };
    for (int64_t a = table->axis_count - 1, s = 1; a >= 0; a--) {
        base += s * axis_cell(&table->axes[a], log2_sizes[a], &fraction[a], inside_range);
        stride[a] = table->axes[a].count > 1 ? s : 0;
        s *= table->axes[a].count;
    }
    double ratio = 0;
    for (int corner = 0; corner < 8; corner++) {
        const int u = corner & 1, v = (corner >> 1) & 1, w = corner >> 2;
        const double weight = (u ? fraction[0] : 1 - fraction[0]) *
                              (v ? fraction[1] : 1 - fraction[1]) *
                              (w ? fraction[2] : 1 - fraction[2]);
        const int64_t at = base + (u ? stride[0] : 0) + (v ? stride[1] : 0) + (w ? stride[2] : 0);
        ratio += weight * (double)table->log_ratio[at];
    }
    return ratio;
}

/* Efficiency left to a kernel of this length at the power limit. */
static double power_fraction(double slope, double onset_s, double floor, double kernel_s) {
    if (slope == 0 || kernel_s <= onset_s) return 1;
    const double left = 1 - slope * log(kernel_s / onset_s);
    return left > floor ? left : floor;
}

static double attention_at_power_s(double slope, double kernel_s) {
    return kernel_s /
           power_fraction(slope, ATTENTION_POWER_ONSET_S, ATTENTION_POWER_FLOOR, kernel_s);
}

/* Time of whole tiles in whole waves over that of m x n results, by the tile and the split of k
 * that take least: cuBLAS chooses among such kernels. Smaller tiles read more operands for each
 * multiplication, 1/rows + 1/columns, of which a quarter shows; a split adds its parts up. The
 * quarter, a split's cost and its least depth are judged, not published: none or twice of each
 * leaves A100's shapes, each predicted without itself, at 2.7 to 2.9 % where these have 2.8. */
static double wave_waste(double m, double n, double k, double slots) {
    enum { TILES = 6, SPLITS = 3 };
    static const double rows[TILES] = { 128, 256, 128, 64, 128, 64 },
                        columns[TILES] = { 256, 128, 128, 128, 64, 64 },
                        tile_cost[TILES] = { 1, 1, 1 + 1. / 12, 1.25, 1.25, 1 + 5. / 12 },
                        parts[SPLITS] = { 1, 2, 4 }, split_cost[SPLITS] = { 1, 1.1, 1.2 };
    const double split_depth_min = 512;
    double tile_count[TILES], wave_results[TILES], least[TILES], of_all = INFINITY;
    for (int t = 0; t < TILES; t++) {
        tile_count[t] = whole_up(m / rows[t]) * whole_up(n / columns[t]);
        wave_results[t] = rows[t] * columns[t] * slots * tile_cost[t];
        least[t] = INFINITY;
    }
    /* From ten waves on the wave that a split could save is less than its cost. */
    const bool many_waves = lesser_of(tile_count[0], tile_count[1]) >= 10 * slots;
    const int split_count = many_waves ? 1 : SPLITS;
    for (int s = 0; s < split_count && (s == 0 || k >= split_depth_min * parts[s]); s++) {
        for (int t = 0; t < TILES; t++) {
            const double waves = whole_up(tile_count[t] * parts[s] / slots);
            const double results = waves / parts[s] * wave_results[t] * split_cost[s];
            least[t] = results < least[t] ? results : least[t];
        }
    }
    for (int t = 0; t < TILES; t++)
        of_all = least[t] < of_all ? least[t] : of_all;
    return of_all / (m * n);
}

/* A value is read in bf16 and written in fp8. */
#define CAST_BYTES 3.0

double matmul_kernel_s(const struct matmul_curve *curve, double peak_flop_per_s,
                       double hbm_bytes_per_s, double flop, double memory_bytes, int64_t m,
                       int64_t n, int64_t k, struct kernel_terms *terms) {
    const double sizes[3] = { log2((double)m), log2((double)n), log2((double)k) };
    double compute_s =
        flop / (curve->efficiency * peak_flop_per_s) * (1 + curve->k_half / (double)k);
    if (curve->wave_exponent > 0 && curve->wave_slots > 0)
        compute_s *= pow(wave_waste((double)m, (double)n, (double)k, curve->wave_slots),
                         curve->wave_exponent);
    compute_s /=
        power_fraction(curve->power_slope, curve->power_onset_s, curve->power_floor, compute_s);
    const double memory_s = memory_bytes / (curve->memory_fraction * hbm_bytes_per_s);
    const double cast_s = curve->cast_fraction > 0 ? CAST_BYTES * (double)m * (double)k /
                                                         (curve->cast_fraction * hbm_bytes_per_s)
                                                   : 0;
    terms->inside_range = true;
    const double factor = exp(correction_ratio(&curve->correction, sizes, &terms->inside_range));
    terms->launch_s = (curve->launch_s + cast_s) * factor;
    terms->compute_s = compute_s * factor;
    terms->memory_s = memory_s * factor;
    return terms->launch_s + greater_of(terms->compute_s, terms->memory_s);
}

double matmul_settled_s(const struct matmul_curve *curve, enum precision precision,
                        double peak_flop_per_s, double flop, int64_t k) {
    const bool quantised = precision_is_quantised(precision);
    const double efficiency = precision == PRECISION_FP4 ? curve->fp4_settled_efficiency
                              : quantised                ? curve->fp8_settled_efficiency
                                                         : curve->settled_efficiency;
    const double k_half = quantised ? curve->fp8_settled_k_half : curve->settled_k_half;
    return flop / (efficiency * peak_flop_per_s) * (1 + k_half / (double)k);
}

/* Fused kernels are compiled for these head sizes; others take the next one's time (static_switch.h
 * of FlashAttention-2; its later versions and the third lack 160 and 224, the third 32). */
static int64_t kernel_head_dim(int64_t head_dim) {
    static const int64_t sizes[] = { 32, 64, 96, 128, 160, 192, 224, 256 };
    for (size_t i = 0; i < sizeof sizes / sizeof sizes[0]; i++)
        if (head_dim <= sizes[i]) return sizes[i];
    return head_dim;
}

/* The head size whose time this one takes: that of a curve whose kernel is the same, the nearest
 * one, else the kernel's own. */
static int64_t timed_head_dim(const struct attention_curves *all, int64_t head_dim, bool causal) {
    const struct attention_curve *c = all->curves;
    const int64_t kernel = kernel_head_dim(head_dim);
    int64_t timed = 0;
    for (int64_t i = all->first[causal]; i <= all->last[causal]; i++)
        if (kernel_head_dim(c[i].head_dim) == kernel &&
            (timed == 0 || llabs(c[i].head_dim - head_dim) < llabs(timed - head_dim)))
            timed = c[i].head_dim;
    return timed > 0 ? timed : kernel;
}

/* The two curves around a head size, and the share of the upper one. */
static double attention_bracket(const struct attention_curves *all, int64_t head_dim, bool causal,
                                const struct attention_curve **low,
                                const struct attention_curve **high) {
    const struct attention_curve *c = all->curves;
    int64_t i = all->first[causal];
    while (i < all->last[causal] && c[i + 1].head_dim <= head_dim)
        i++;
    *low = *high = &c[i];
    if (c[i].head_dim >= head_dim || i == all->last[causal]) return 0;
    *high = &c[i + 1];
    return (double)(head_dim - c[i].head_dim) / (double)(c[i + 1].head_dim - c[i].head_dim);
}

/* Time of whole tiles in whole waves over that of the queries there are. */
static double tile_waste(const struct attention_curve *curve, double length, double head_count) {
    const double margin = 1e-9; /* a mean length may miss a multiple by an ulp */
    if (curve->tile_rows == 0) return 1;
    const double tiles = ceil(length / curve->tile_rows - margin);
    const double waves = ceil(head_count * tiles / curve->tile_slots - margin);
    return waves * curve->tile_slots * curve->tile_rows / (head_count * length);
}

/* Longer than measured, a head has more tiles for the multiprocessors, as more heads of the longest
 * measured have. */
static double attention_ratio(const struct correction_table *table, const double *sizes,
                              bool *inside_range) {
    double reached[3] = { sizes[0], sizes[1], sizes[2] };
    const struct log_axis *lengths = &table->axes[0];
    const double beyond =
        table->axis_count > 0 ? sizes[0] - lengths->log2_at[lengths->count - 1] : 0;
    if (beyond > 0) reached[1] += beyond;
    return correction_ratio(table, reached, inside_range);
}

static double attention_compute_s(const struct attention_curve *curve, double ideal_s,
                                  double length, double head_count, const double *sizes,
                                  bool forward, bool *inside_range) {
    const double log_ratio = attention_ratio(&curve->correction, sizes, inside_range);
    const double form_s = ideal_s / curve->efficiency * (1 + curve->length_half / length);
    if (!forward) return form_s;
    const double launched_s = form_s * (1 + curve->rows_half / (head_count * length));
    return attention_at_power_s(curve->power_slope, launched_s) * exp(log_ratio) *
           tile_waste(curve, length, head_count);
}

enum { WIDE_HEAD_FROM = 128 };

double attention_kernel_s(const struct attention_curves *all, double peak_flop_per_s,
                          double hbm_bytes_per_s, const struct operator_work *work,
                          struct kernel_terms *terms, const struct attention_curve **nearest) {
    const struct attention_curve *low, *high;
    const bool forward = work->pass == PASS_FORWARD;
    const int64_t head_dim = timed_head_dim(all, work->head_dim, work->causal);
    const double share = attention_bracket(all, head_dim, work->causal, &low, &high);
    const double length = work->square_sum / work->token_sum;
    const double sample_count = work->token_sum / length;
    const double head_count = sample_count * (double)work->heads;
    const double sizes[3] = { log2(length), log2(head_count),
                              log2((double)work->heads / (double)work->kv_heads) };
    const double ideal_s = work->flop / peak_flop_per_s * (double)head_dim / (double)work->head_dim;
    *nearest = share < 0.5 ? low : high;
    terms->inside_range = work->head_dim >= all->curves[all->first[work->causal]].head_dim &&
                          work->head_dim <= all->curves[all->last[work->causal]].head_dim;
    terms->compute_s =
        attention_compute_s(low, ideal_s, length, head_count, sizes, forward, &terms->inside_range);
    if (share > 0) {
        const double upper_s = attention_compute_s(high, ideal_s, length, head_count, sizes,
                                                   forward, &terms->inside_range);
        terms->compute_s += share * (upper_s - terms->compute_s);
    }
    if (!forward) {
        const double wide = lesser_of(greater_of((double)head_dim / WIDE_HEAD_FROM - 1, 0), 1);
        terms->compute_s = attention_at_power_s(
            all->backward_power_slope, terms->compute_s * (1 + all->backward_length_half / length) *
                                           (1 + all->backward_rows_half / (head_count * length)) *
                                           (1 + wide * greater_of(all->backward_wide_time - 1, 0)) /
                                           all->backward_factor);
    }
    terms->memory_s = work->memory_bytes / hbm_bytes_per_s;
    terms->launch_s = low->launch_s + share * (high->launch_s - low->launch_s);
    return terms->launch_s + greater_of(terms->compute_s, terms->memory_s);
}

double collective_wire_factor(enum operator_kind op, double rank_count) {
    const double share = (rank_count - 1) / rank_count;
    switch (op) {
    case OPERATOR_ALL_REDUCE:
        return 2 * share;
    case OPERATOR_ALL_GATHER:
    case OPERATOR_REDUCE_SCATTER:
    case OPERATOR_ALL_TO_ALL:
        return share;
    case OPERATOR_SEND:
        return 1;
    default:
        ballast_bug("%s is not a collective", operator_kind_name(op));
    }
}

static double table_s(const struct collective_table *t, double bytes, bool *inside_range) {
    const double x = log2(bytes);
    const int64_t last = t->count - 1;
    if (x <= t->log2_bytes[0]) return t->latency_s; /* latency does not fall any more */
    if (x > t->log2_bytes[last]) {
        *inside_range = false;
        const double beyond_bytes = bytes - exp2(t->log2_bytes[last]);
        return exp(t->log_s[last]) +
               beyond_bytes *
                   collective_wire_factor((enum operator_kind)t->op, (double)t->rank_count) /
                   t->plateau_bytes_per_s;
    }
    const int64_t low = cell_of(t->log2_bytes, last, x);
    const double share = (x - t->log2_bytes[low]) / (t->log2_bytes[low + 1] - t->log2_bytes[low]);
    return exp(t->log_s[low] + share * (t->log_s[low + 1] - t->log_s[low]));
}

/* The tables at or around a rank count; *high is NULL where no larger one is. */
static const struct collective_table *collective_bracket(const struct collective_curves *curves,
                                                         enum operator_kind op, int64_t rank_count,
                                                         const struct collective_table **high) {
    int64_t i = curves->first[op];
    while (i < curves->last[op] && curves->tables[i + 1].rank_count <= rank_count)
        i++;
    *high = i < curves->last[op] ? &curves->tables[i + 1] : NULL;
    return &curves->tables[i];
}

double collective_inside_s(const struct collective_curves *curves, enum operator_kind op,
                           int64_t rank_count, double bytes, bool *inside_range,
                           const struct collective_table **nearest) {
    const struct collective_table *high;
    const struct collective_table *low = collective_bracket(curves, op, rank_count, &high);
    *nearest = low;
    const double low_s = table_s(low, bytes, inside_range);
    if (op == OPERATOR_SEND || low->rank_count == rank_count) return low_s;
    *inside_range = false;
    if (low->rank_count < rank_count && high) {
        const double high_s = table_s(high, bytes, inside_range);
        const double share = log((double)rank_count / (double)low->rank_count) /
                             log((double)high->rank_count / (double)low->rank_count);
        return exp(log(low_s) + share * (log(high_s) - log(low_s)));
    }
    const double wire_ratio = collective_wire_factor(op, (double)rank_count) /
                              collective_wire_factor(op, (double)low->rank_count);
    return collective_latency_s(curves, op, rank_count) + (low_s - low->latency_s) * wire_ratio;
}

/* Beyond the largest table latency grows as between the last two: a ring's by the rank, an
 * all-reduce's, for which NCCL has trees, by the doubling. */
static double latency_beyond_s(enum operator_kind op, const struct collective_table *before,
                               const struct collective_table *last, double rank_count) {
    const double from = (double)before->rank_count, to = (double)last->rank_count;
    const double steps = op == OPERATOR_ALL_REDUCE ? log(rank_count / to) / log(to / from)
                                                   : (rank_count - to) / (to - from);
    return last->latency_s + steps * greater_of(last->latency_s - before->latency_s, 0);
}

double collective_latency_s(const struct collective_curves *curves, enum operator_kind op,
                            int64_t rank_count) {
    const struct collective_table *high;
    const struct collective_table *low = collective_bracket(curves, op, rank_count, &high);
    if (op == OPERATOR_SEND || low->rank_count == rank_count) return low->latency_s;
    if (low->rank_count < rank_count && high) {
        const double share =
            (double)(rank_count - low->rank_count) / (double)(high->rank_count - low->rank_count);
        return low->latency_s + share * (high->latency_s - low->latency_s);
    }
    if (low->rank_count < rank_count && low > &curves->tables[curves->first[op]])
        return latency_beyond_s(op, low - 1, low, (double)rank_count);
    return low->latency_s * (double)(rank_count - 1) / (double)(low->rank_count - 1);
}

/* At the table's size i: of fewer links a larger buffer's, of faster ones less but for the latency.
 */
static double scaled_s(const struct collective_table *t, int64_t i, double link_ratio) {
    bool ignored = true;
    if (link_ratio < 1) return table_s(t, exp2(t->log2_bytes[i]) / link_ratio, &ignored);
    return t->latency_s + greater_of(exp(t->log_s[i]) - t->latency_s, 0) / link_ratio;
}

static void scale_links(struct collective_curves *curves, double link_ratio, struct arena *arena) {
    struct collective_table *tables = arena_array(arena, struct collective_table, curves->count);
    for (int64_t t = 0; t < curves->count; t++) {
        struct collective_table *table = &tables[t];
        *table = curves->tables[t];
        if (table->own_links) continue;
        for (int64_t i = 1; i < table->count; i++)
            table->log_s[i] = log(scaled_s(&curves->tables[t], i, link_ratio));
        table->plateau_bytes_per_s *= link_ratio;
        table->band_fraction = greater_of(table->band_fraction, SCALED_LINKS_BAND_FRACTION);
        table->source = arena_format(arena, "%s, scaled to this GPU's links", table->source);
    }
    curves->tables = tables;
}

void efficiency_of_relative(struct efficiency *efficiency, struct arena *arena) {
    struct matmul_curve *matmul = &efficiency->matmul;
    struct attention_curves *attention = &efficiency->attention;
    struct attention_curve *curves = arena_array(arena, struct attention_curve, attention->count);
    efficiency->derived = true;
    matmul->band_fraction = greater_of(matmul->band_fraction, RELATIVE_MATMUL_BAND);
    matmul->outside_band_fraction = greater_of(matmul->outside_band_fraction, RELATIVE_SMALL_BAND);
    for (int64_t i = 0; i < attention->count; i++) {
        curves[i] = attention->curves[i];
        curves[i].band_fraction = greater_of(curves[i].band_fraction, RELATIVE_FORWARD_BAND);
    }
    attention->curves = curves;
    attention->backward_band_fraction =
        greater_of(attention->backward_band_fraction, RELATIVE_BACKWARD_BAND);
}

void efficiency_scale_links(struct efficiency *efficiency, double link_ratio, struct arena *arena) {
    const int64_t count = efficiency->variant_count;
    struct framework_variant *variants = arena_array(arena, struct framework_variant, count);
    scale_links(&efficiency->collectives, link_ratio, arena);
    for (int64_t i = 0; i < count; i++) {
        variants[i] = efficiency->variants[i];
        scale_links(&variants[i].collectives, link_ratio, arena);
    }
    efficiency->variants = variants;
}
