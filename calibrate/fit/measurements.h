/* measurements.h - microbenchmark results as CSV: the formats that calibrate/measured ships and
 * that `ballast calibrate bench` writes. Columns are found by their names, so more may stand beside
 * them.
 *
 *     struct gemm_rows rows;
 *     if (!gemm_rows_read(arena, "calibrate/measured/gemm.csv.gz", &rows, err)) return false;
 *
 * Texts and arrays live in the arena. A cell that a source leaves empty reads as 0 or "", and so
 * does a column that may be missing. Other spellings of a precision, a direction or a collective
 * ("bfloat16", "forward", "AllReduce") read as the format's.
 */
#ifndef BALLAST_CALIBRATE_FIT_MEASUREMENTS_H
#define BALLAST_CALIBRATE_FIT_MEASUREMENTS_H

#include <stdbool.h>
#include <stdint.h>
#include "sim/base/arena.h"
#include "sim/base/error.h"

/* Half as much again as a GPU's peak is no clock but a wrong unit. */
#define FASTEST_OF_PEAK 1.5

struct gemm_row {
    const char *gpu, *dtype, *framework, *source;
    int64_t m, n, k;
    double time_us;
    long line; /* of the file, from 1; so in the others */
};

struct gemm_rows {
    int64_t count;
    struct gemm_row *rows;
};

struct attention_row {
    const char *gpu, *dtype, *direction, *framework, *source;
    int64_t batch, seqlen, heads_q, heads_kv, head_dim_qk, head_dim_v;
    bool causal;
    double time_us;
    long line;
};

struct attention_rows {
    int64_t count;
    struct attention_row *rows;
};

struct nccl_row {
    const char *gpu, *interconnect, *op, *nccl_version, *source;
    int64_t n_gpus, n_nodes;
    bool in_place;
    double bytes, time_us;
    long line;
};

struct nccl_rows {
    int64_t count;
    struct nccl_row *rows;
};

struct membw_row {
    const char *gpu, *test, *framework, *source;
    double bytes, time_us, fraction_of_peak;
    long line;
};

struct membw_rows {
    int64_t count;
    struct membw_row *rows;
};

/* Which of the four a file is, by its header line. */
enum measurement_format {
    MEASUREMENT_GEMM,
    MEASUREMENT_ATTENTION,
    MEASUREMENT_NCCL,
    MEASUREMENT_MEMBW,
    MEASUREMENT_FORMAT_COUNT,
    /* Of the other tables that `ballast calibrate bench` writes (launches, copies to the host,
     * layers, power), whose rows no single price is of. */
    MEASUREMENT_UNPRICED = MEASUREMENT_FORMAT_COUNT
};
extern const char *const measurement_format_names[MEASUREMENT_FORMAT_COUNT];
bool measurement_format_read(const char *path, enum measurement_format *out, struct error *err);

bool gemm_rows_read(struct arena *arena, const char *path, struct gemm_rows *out,
                    struct error *err);
bool attention_rows_read(struct arena *arena, const char *path, struct attention_rows *out,
                         struct error *err);
bool nccl_rows_read(struct arena *arena, const char *path, struct nccl_rows *out,
                    struct error *err);
bool membw_rows_read(struct arena *arena, const char *path, struct membw_rows *out,
                     struct error *err);

#endif
