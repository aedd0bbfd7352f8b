/* nccl_run.h - one run of nccl-tests while its table or JSON is read, and the rows that come of it.
 *
 *     nccl_run_read_program(&run, "./build/all_reduce_perf");
 *     why = nccl_run_add_rank(&run, arena, &options, "node-1", 6, "NVIDIA H100 80GB HBM3");
 *     why = nccl_run_find_op(&run, &options, path, &hint);
 *     why = nccl_run_doubt(&run, arena, &row);
 *     nccl_run_append(&run, arena, &options, path, &row, rows);
 *
 * A `why` is the sentence that says what is wrong, NULL where nothing is: each reader knows the
 * place.
 */
#ifndef BALLAST_CALIBRATE_FIT_NCCL_RUN_H
#define BALLAST_CALIBRATE_FIT_NCCL_RUN_H

#include "calibrate/fit/nccl_log.h"

enum { NCCL_RUN_NODES = 4096, NCCL_RUN_PLACES = 128 };

struct nccl_run {
    const char *op, *gpu, *version; /* NULL: not known yet */
    const char *other_op;           /* "scatter": a program whose collective has no price */
    int64_t rank_count;
    int64_t node_count;
    const char *nodes[NCCL_RUN_NODES];
    int64_t place_count; /* of the host of the last rank */
    const char *places[NCCL_RUN_PLACES];
};

/* Takes the collective from the name of its program in a text, if one stands there. */
void nccl_run_read_program(struct nccl_run *run, const char *text);
/* 22807 is "2.28.7", 2804 "2.8.4". NULL: no version. */
const char *nccl_run_version(struct arena *arena, long code);
/* One more GPU, on the host of that name, where it is device `place` ("0 [0x18]"; "": not said): two of
 * one place are of two hosts ("localhost"). */
const char *nccl_run_add_rank(struct nccl_run *run, struct arena *arena,
                              const struct nccl_log_options *options, const char *host,
                              size_t host_length, const char *place, const char *device_name);
/* The option, the program's name and the file's, in this order. */
const char *nccl_run_find_op(struct nccl_run *run, const struct nccl_log_options *options,
                             const char *path, struct arena *arena, const char **hint);

struct nccl_run_result {
    double bytes, time_us, algbw_GB_per_s, busbw_GB_per_s;
    bool in_place;
};
/* What a result says against itself or against the ranks above it: algbw is bytes over time, busbw
 * that times a factor of the collective and the ranks (nccl-tests, doc/PERFORMANCE.md). */
const char *nccl_run_doubt(const struct nccl_run *run, struct arena *arena,
                           const struct nccl_run_result *result);
/* Not of buffers too small to divide among the ranks, which have 0 bytes. False: no row. */
bool nccl_run_append(const struct nccl_run *run, struct arena *arena,
                     const struct nccl_log_options *options, const char *path,
                     const struct nccl_run_result *result, struct nccl_log_rows *out);

#endif
