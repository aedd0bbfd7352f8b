/* modality_partition.h - chunks and sub-microbatches of each module (DIP, section 4).
 *
 *     size = sub_batch_size(seconds, sizes, count, 0.95);      // B_i
 *     modality_segment_counts(seconds, modules, limits, counts);  // K_i
 *     modality_divide(first_layer, layers, parts, first_of_part); // P x K_i chunks
 */
#ifndef BALLAST_SIM_POLICY_JOINT_MODALITY_PARTITION_H
#define BALLAST_SIM_POLICY_JOINT_MODALITY_PARTITION_H

#include <stdint.h>

/* The smallest size whose throughput (size / seconds) is at least `share` of the best tested. Sizes
 * rise; returns one of them. */
int64_t sub_batch_size(const double *seconds, const int64_t *sizes, int64_t count, double share);

/* K_i = floor(T_i / T_least), at most limits[i]; a module of no time counts as the least. */
void modality_segment_counts(const double *seconds, int64_t modules, const int64_t *limits,
                             int64_t *counts);

/* Cuts layers [0, layers) into parts of consecutive ones so that the largest weight is least, and
 * the others as even as that allows; of equal cuts the one whose later parts are larger.
 * first_of_part: parts + 1 entries. Needs layers >= parts; no part is empty. */
void modality_divide(const double *weights, int64_t layers, int64_t parts, int64_t *first_of_part);

/* `count` things in `pieces` nearly equal pieces: the size of piece `index`. */
static inline int64_t even_piece(int64_t count, int64_t pieces, int64_t index) {
    return count * (index + 1) / pieces - count * index / pieces;
}

#endif
