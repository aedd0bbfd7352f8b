/* fit_collective.h - from nccl-tests results to the one-node tables of costmodel/efficiency.h. */
#ifndef BALLAST_CALIBRATE_FIT_FIT_COLLECTIVE_H
#define BALLAST_CALIBRATE_FIT_FIT_COLLECTIVE_H

#include "calibrate/fit/measurements.h"
#include "calibrate/fit/robust_fit.h"
#include "costmodel/operator_work.h"
#include "sim/base/arena.h"

enum { COLLECTIVE_FIT_SIZES = 48 };

struct collective_fit {
    enum operator_kind op;
    int64_t rank_count, count;
    double bytes[COLLECTIVE_FIT_SIZES], time_us[COLLECTIVE_FIT_SIZES];
    double plateau_GB_per_s;       /* bus bandwidth of what is added beyond the last size */
    struct error_summary held_out; /* each inner size predicted from its neighbours */
    const char *rule;              /* NULL: measured; else how it was derived */
};

/* Out-of-place rows of one node, from the newest NCCL that has this collective, else from the other
 * sources; these also where they hold larger buffers. false (no error): there are none. */
bool fit_collective(const struct nccl_row *rows, int64_t count, const char *gpu,
                    enum operator_kind op, int64_t rank_count, struct collective_fit *out);

/* A row that it may be fitted on. */
bool fit_collective_takes(const struct nccl_row *row, const char *gpu, enum operator_kind op,
                          int64_t rank_count);

/* The collective that a row's `op` names; false: none that is fitted. */
bool fit_collective_op(const char *name, enum operator_kind *out);

/* Another rank count than the measured one: as `relative_to` stands to `relative_from` on a similar
 * GPU, size by size. */
struct collective_fit collective_by_relative(const struct collective_fit *from,
                                             const struct collective_fit *relative_from,
                                             const struct collective_fit *relative_to);
/* ... or by the ring law: latency grows with the steps, the rest with the bytes on the wire. */
struct collective_fit collective_by_ring(const struct collective_fit *from, int64_t rank_count);
/* The same collective over links that are `link_ratio` as fast together and a bus bandwidth of at
 * most `cap` (0: none). Below 1 there are fewer links: NCCL gives each its channels, which then
 * carry what they carry of a buffer that is larger by as much. Above 1 each is faster. The smallest
 * time stays. */
struct collective_fit collective_by_link(const struct collective_fit *from, double link_ratio,
                                         double cap_GB_per_s);

/* By a latency and a bus bandwidth where `from` is slower or only derived, but no faster than its
 * smallest. */
struct collective_fit collective_by_line(const struct collective_fit *from, double latency_us,
                                         double bus_GB_per_s);

/* Where to look for a collective that was not measured. */
struct collective_source {
    const struct nccl_row *rows;
    int64_t count;
    const char *gpu, *relative; /* the relative's tables hold the shape of what is missing */
};

/* Measured, or derived; out->rule says how. all-gather and reduce-scatter move the same bytes over
 * the same ring: each stands in for the other among as many GPUs, times the ratio of the two where
 * both were measured, and both for an all-reduce and an all-to-all. The relative's ratio between
 * rank counts comes next, and first where it is the same die on the same links; then the ring law;
 * last the relative's own table, scaled to this GPU's links. false (no error): measured on neither
 * GPU. */
bool fit_collective_or_derive(struct arena *arena, const struct collective_source *source,
                              enum operator_kind op, int64_t rank_count,
                              struct collective_fit *out);

#endif
