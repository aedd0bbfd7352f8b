/* efficiency.h - the measured curves of one GPU: what fraction of its peaks a shape reaches.
 *
 * Read from scenarios/hardware/curves/<gpu>.json, which `ballast calibrate fit` writes. The leaves
 * below are pure arithmetic on plain numbers; cost_model.h turns them into prices. Everything is
 * resolved to arrays and indices while reading, so that pricing neither compares text nor
 * allocates.
 *
 *     struct efficiency e;
 *     if (!efficiency_read(json, arena, &e, err)) return false;
 *     double s = matmul_kernel_s(&e.matmul, peak_flop_per_s, hbm_bytes_per_s, m, n, k, &terms);
 */
#ifndef BALLAST_COSTMODEL_EFFICIENCY_H
#define BALLAST_COSTMODEL_EFFICIENCY_H

#include <stdbool.h>
#include <stdint.h>
#include "costmodel/operator_work.h"
#include "sim/base/arena.h"
#include "sim/base/field.h"
#include "sim/base/json.h"

#define EFFICIENCY_AXIS_MAX 64 /* points on one axis of a table */

/* One axis of a table in the logarithm of a size. */
struct log_axis {
    int64_t count;
    double log2_at[EFFICIENCY_AXIS_MAX];
};

/* What a measurement adds to a closed form: time = form x exp(ratio), linear between the points of
 * the table in log2 of each size and constant outside. */
struct correction_table {
    int64_t axis_count; /* 0: no table, ratio 0 everywhere */
    struct log_axis axes[3];
    const float *log_ratio; /* the last axis runs fastest */
};

struct matmul_curve {
    double launch_s;        /* start and drain of a kernel */
    double efficiency;      /* of the peak, for a deep matmul */
    double k_half;          /* depth at which half of that is reached */
    double memory_fraction; /* of HBM bandwidth */
    double power_slope;     /* loss of efficiency for each e-fold of duration beyond the onset */
    double power_onset_s;
    double power_floor; /* efficiency never falls below this fraction of itself */
    /* How much of the time that whole waves of tiles take beyond the multiplications is seen: an
     * exponent of their ratio, 0: not seen; and the multiprocessors of the GPU that was
     * measured. */
    double wave_exponent, wave_slots;
    /* Of HBM bandwidth, at which a kernel before the matmul quantises its m x k operand; 0: it
     * comes quantised. */
    double cast_fraction;
    double settled_efficiency, settled_k_half; /* ceiling inside a training step */
    double weight_gradient_factor;             /* efficiency of the weight-gradient layout */
    double fp8_efficiency, fp4_efficiency;     /* of those peaks */
    /* Their ceilings inside a training step, and the depth of both. */
    double fp8_settled_efficiency, fp4_settled_efficiency, fp8_settled_k_half;
    /* Time of an fp8 matmul whose operands are scaled by rows, by blocks in software and by
     * Blackwell's blocks of 32, over that of one scale a tensor. */
    double rowwise_time, blockwise_time, mxfp8_time;
    enum precision precision; /* that was measured: bf16, which stands for fp16 too, or fp8 */
    double band_fraction, outside_band_fraction;
    struct correction_table correction; /* over m, n, k */
    const char *source, *settled_source;
};

struct attention_curve {
    int64_t head_dim;
    bool causal;
    double efficiency;  /* of the peak, for endless sequences, forward */
    double length_half; /* sequence length at which half of that is reached */
    double launch_s;
    double rows_half;   /* queries x heads of a forward launch that halve it; 0: in the table */
    double power_slope; /* of a forward kernel, as a matmul's, beyond 1 ms; 0: not seen */
    /* Forward launches go in waves of tile_slots tiles of tile_rows queries each; 0: not seen. */
    double tile_rows, tile_slots;
    double band_fraction;
    struct correction_table correction; /* over length, samples x heads, heads / kv_heads */
    const char *source;
};

struct attention_curves {
    double backward_factor;      /* backward over forward efficiency, endless sequences */
    double backward_length_half; /* ... and the length that halves it */
    /* Queries x heads of a launch that do: about one wave of tiles; 0: not seen. */
    double backward_rows_half;
    double backward_power_slope; /* as a forward kernel's */
    /* Heads of 256 over what their forward and the factor say; from 128 on, in proportion. */
    double backward_wide_time;
    double backward_band_fraction;
    int64_t count; /* sorted by causal, then head_dim */
    const struct attention_curve *curves;
    bool has[2];               /* [causal]: a variant may have one mask only */
    int64_t first[2], last[2]; /* [causal]: its curves */
};

/* Memory-bound kernels: fraction of HBM bandwidth. */
struct streaming_curve {
    double launch_s;       /* between kernels of one stream */
    double graph_launch_s; /* ... inside a CUDA graph, as microbenchmarks run */
    double norm_forward, norm_backward, elementwise, embedding, loss, optimizer;
    double band_fraction;
    const char *source;
};

#define COLLECTIVE_SIZE_MAX 48

/* Time of one collective among `rank_count` GPUs of one node, by buffer size. */
struct collective_table {
    int op; /* enum operator_kind */
    int64_t rank_count;
    int64_t count;
    double log2_bytes[COLLECTIVE_SIZE_MAX];
    double log_s[COLLECTIVE_SIZE_MAX];
    double latency_s;           /* of the smallest buffer */
    double plateau_bytes_per_s; /* bus bandwidth beyond the table */
    double band_fraction;
    bool own_links; /* measured over the links of whoever takes the file */
    const char *source;
};

struct collective_curves {
    int64_t count; /* sorted by op, then rank_count */
    const struct collective_table *tables;
    bool has[OPERATOR_KIND_COUNT]; /* a variant may have some kinds only */
    int64_t first[OPERATOR_KIND_COUNT], last[OPERATOR_KIND_COUNT];
};

/* The kernels of one framework, or the collectives of one version of NCCL, as its benchmark ran
 * them, beside the curves for training. */
struct framework_variant {
    const char *name; /* "sglang" */
    /* NULL: not measured. A pass that was not measured has the forward curve. */
    const struct matmul_curve *matmul[PRECISION_COUNT][PASS_COUNT];
    struct attention_curves attention;    /* count 0: not measured */
    struct collective_curves collectives; /* of a version of NCCL; count 0: not measured */
};

struct efficiency {
    const char *gpu, *note;
    /* the GPU whose curves stand where this one was not measured; "": its own rules */
    const char *relative;
    bool derived; /* no matmul was measured on it */
    struct matmul_curve matmul;
    struct attention_curves attention;
    struct streaming_curve streaming;
    struct collective_curves collectives;
    int64_t variant_count;
    const struct framework_variant *variants;
};

bool efficiency_read(const struct json *json, struct arena *arena, struct efficiency *out,
                     struct error *err);

/* The field tables of the file's parts: the reader above and the fit's writer share them. Values in
 * the raw structs below carry the file's units. */
extern const struct field_table efficiency_matmul_table, efficiency_attention_table,
    efficiency_attention_curve_table, efficiency_streaming_table, efficiency_collective_table,
    efficiency_variant_table, efficiency_variant_matmul_table;

struct matmul_fields {
    const char *source, *settled_source;
    double launch_us, efficiency, k_half, memory_fraction;
    double power_slope, power_onset_us, power_floor, wave_exponent, wave_slots, cast_fraction;
    double settled_efficiency, settled_k_half;
    double fp8_settled_efficiency, fp4_settled_efficiency, fp8_settled_k_half;
    double weight_gradient_factor, fp8_efficiency, fp4_efficiency;
    double rowwise_time, blockwise_time, mxfp8_time;
    double band_fraction, outside_band_fraction;
    const cJSON *m, *n, *k, *log_ratio_milli; /* all NULL: closed form alone */
    int precision, pass;                      /* of a variant's curve */
};

struct variant_fields {
    const char *name;
    const cJSON *matmul, *attention; /* lists of curves, as the training curves' */
    const cJSON *collectives;        /* list of tables, as those; of any kinds */
};

struct attention_fields {
    double backward_factor, backward_length_half, backward_rows_half, backward_power_slope;
    double backward_band_fraction, backward_wide_time;
    const char *backward_source;
    const cJSON *curves;
};

struct attention_curve_fields {
    const char *source;
    int64_t head_dim;
    bool causal;
    double efficiency, length_half, launch_us, rows_half, power_slope, tile_rows, tile_slots,
        band_fraction;
    const cJSON *length, *query_heads, *group, *log_ratio_milli;
};

struct streaming_fields {
    const char *source;
    double launch_us, graph_launch_us;
    double norm_forward, norm_backward, elementwise, embedding, loss, optimizer, band_fraction;
};

struct collective_fields {
    const char *source;
    int op; /* index in efficiency_collective_names */
    int64_t rank_count;
    double plateau_GB_per_s, band_fraction;
    bool own_links;
    const cJSON *bytes, *time_us;
};

/* Names of the passes of a matmul, NULL at the end. */
extern const char *const efficiency_pass_names[];
/* Names of the collective kinds from OPERATOR_ALL_REDUCE on, NULL at the end. */
extern const char *const efficiency_collective_names[];

struct kernel_terms {
    double launch_s, compute_s, memory_s;
    bool inside_range;
};

double correction_ratio(const struct correction_table *table, const double *log2_sizes,
                        bool *inside_range);

/* An isolated kernel, as microbenchmarks measure it: seconds, with its terms. */
double matmul_kernel_s(const struct matmul_curve *curve, double peak_flop_per_s,
                       double hbm_bytes_per_s, double flop, double memory_bytes, int64_t m,
                       int64_t n, int64_t k, struct kernel_terms *terms);
/* Compute time below which a matmul does not fall once the GPU has settled in a training step. */
double matmul_settled_s(const struct matmul_curve *curve, enum precision precision,
                        double peak_flop_per_s, double flop, int64_t k);
double attention_kernel_s(const struct attention_curves *curves, double peak_flop_per_s,
                          double hbm_bytes_per_s, const struct operator_work *work,
                          struct kernel_terms *terms, const struct attention_curve **nearest);

/* bus bytes over buffer bytes: what each GPU's link carries (nccl-tests PERFORMANCE.md). */
double collective_wire_factor(enum operator_kind op, double rank_count);
/* One node. */
double collective_inside_s(const struct collective_curves *curves, enum operator_kind op,
                           int64_t rank_count, double bytes, bool *inside_range,
                           const struct collective_table **nearest);
/* Tables of a GPU whose links are `link_ratio` as fast as those that were measured, those of single
 * versions of NCCL too, as collective_by_link() has it when a profile is fitted; bands are 25 % or
 * more. Tables of own_links stay. */
void efficiency_scale_links(struct efficiency *efficiency, double link_ratio, struct arena *arena);
/* Four of five kernels lie within these of what the curves of another generation make of them, as
 * fractions of the GPU's own peaks (docs/MODEL.md, section 2). */
#define RELATIVE_MATMUL_BAND   0.26
#define RELATIVE_SMALL_BAND    0.31 /* matmuls below 1e10 FLOP, beyond the table */
#define RELATIVE_FORWARD_BAND  0.23 /* attention */
#define RELATIVE_BACKWARD_BAND 0.33
/* Curves of a GPU with other peaks: bands of matmuls and attention are these or more. */
void efficiency_of_relative(struct efficiency *efficiency, struct arena *arena);
/* The smallest collective of this kind among so many ranks of one node. */
double collective_latency_s(const struct collective_curves *curves, enum operator_kind op,
                            int64_t rank_count);

#endif
