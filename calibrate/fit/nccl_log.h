/* nccl_log.h - what NVIDIA's nccl-tests print, as rows of nccl.csv.
 *
 * Reads the tables of all releases: with and without the columns `redop` and `root`, with `error`
 * or `#wrong`, and where in-place is N/A. The table's own header says where times stand. GPU,
 * ranks, nodes and NCCL version come from the lines above the table, the collective from the name
 * of the program (all_reduce_perf) in the log or else in the file's name. A log may hold several
 * runs, and lines may carry Open MPI's rank tags ("[1,0]<stdout>:"). What newer releases write with
 * -J FILE is read too (nccl_json.h).
 *
 *     struct nccl_log_rows rows = { 0 };
 *     if (!nccl_log_read(arena, "all_reduce.log", &options, &rows, err)) return false;
 *     nccl_log_write(&rows, stdout);                         // calibrate/measured's columns
 *
 * Rows are appended; texts and arrays live in the arena.
 */
#ifndef BALLAST_CALIBRATE_FIT_NCCL_LOG_H
#define BALLAST_CALIBRATE_FIT_NCCL_LOG_H

#include <stdio.h>
#include "calibrate/fit/measurements.h"

/* Names of the collectives it knows, NULL at the end. */
extern const char *const nccl_log_ops[];

struct nccl_log_options {
    const char *op;           /* "all_reduce": where neither log nor name say; NULL: not given */
    const char *gpu;          /* instead of the log's; NULL: the log's */
    const char *interconnect; /* NULL: "" */
};

struct nccl_log_row {
    const char *log_gpu; /* what the log says that row.gpu may replace; NULL: nothing */
    struct nccl_row row;
    double algbw_GB_per_s, busbw_GB_per_s; /* as printed */
};

struct nccl_log_rows {
    int64_t count, capacity;
    struct nccl_log_row *rows;
    const char *cut; /* which log ends before the sizes that it was to measure; NULL: none */
};

/* A log without a table, a line cut short, wrong results, GPUs of several kinds: one sentence with
 * file and line. */
bool nccl_log_read(struct arena *arena, const char *path, const struct nccl_log_options *options,
                   struct nccl_log_rows *out, struct error *err);
/* false: the stream failed. */
bool nccl_log_write(const struct nccl_log_rows *rows, FILE *out);

#endif
