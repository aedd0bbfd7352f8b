/* nccl_json.h - what nccl-tests write with -J FILE, as rows of nccl.csv.
 *
 * The keys of src/util.cu of github NVIDIA/nccl-tests: args, nccl_version, config (nthreads, ngpus,
 * devices with group, hostname and device_info) and results (size, and out_of_place and in_place
 * with time, alg_bw, bus_bw and nwrong). `devices` holds the first GPU of each process, so that the
 * ranks are processes x nthreads x ngpus.
 *
 *     if (nccl_json_begins(text, size)) ok = nccl_json_read(arena, path, text, size, &options, ...);
 */
#ifndef BALLAST_CALIBRATE_FIT_NCCL_JSON_H
#define BALLAST_CALIBRATE_FIT_NCCL_JSON_H

#include "calibrate/fit/nccl_log.h"

/* A text that begins with a brace is JSON. */
bool nccl_json_begins(const char *text, size_t size);
/* Rows are appended, as by nccl_log_read(), and mistakes are told with line and column. */
bool nccl_json_read(struct arena *arena, const char *path, const char *text, size_t size,
                    const struct nccl_log_options *options, struct nccl_log_rows *out,
                    struct error *err);

#endif
