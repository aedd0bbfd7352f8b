/* bmp.h - OmniBal's balanced model partitioning (section 4.2): candidates near a greedy anchor.
 *
 *     bmp_anchor(seconds, block_count, stage_count, anchor);
 *     int64_t found = bmp_candidates(scratch, &problem, top, candidates);   // best objective first
 *
 * The candidates are exactly the best of all cuts within the radius: the objective is a sum over
 * stages, so the best ones are shortest paths through the (2 radius + 1) places of each cut, found
 * without listing the (2 radius + 1)^(stages - 1) of them.
 */
#ifndef BALLAST_SIM_POLICY_BMP_H
#define BALLAST_SIM_POLICY_BMP_H

#include <stdint.h>
#include "sim/base/arena.h"

enum bmp_units { BMP_RELATIVE, BMP_PRINTED };

struct bmp_problem {
    const double *seconds;   /* of each block */
    const double *cut_bytes; /* sent by a cut in front of each block; [0] unused */
    int64_t block_count, stage_count;
    const int64_t *anchor; /* blocks of each stage */
    int64_t radius;
    double weight; /* of communication */
    enum bmp_units units;
};

struct bmp_candidate {
    int64_t *blocks; /* of each stage */
    double objective;
    double variance; /* sum over stages of (seconds - mean)^2, s^2: OmniBal eq. (4) */
    double bytes;    /* sent over all cuts, forward */
};

/* Walks the blocks and closes a stage when one more block would leave it further from an even share
 * of what is left. */
void bmp_anchor(const double *seconds, int64_t block_count, int64_t stage_count, int64_t *blocks);
/* Variance, bytes and objective of blocks. */
void bmp_measure(const struct bmp_problem *problem, const int64_t *blocks,
                 struct bmp_candidate *out);
/* Fills `top` candidates or as many as there are, best first; of equal ones, that with earlier
 * cuts. Their blocks are in the arena. */
int64_t bmp_candidates(struct arena *arena, const struct bmp_problem *problem, int64_t top,
                       struct bmp_candidate *candidates);

#endif
