/* memory_bound.h - whether some step of the epoch may need more memory than those that a race looks
 * at.
 *
 * Never less than the peak of any step: activations are sums over tokens, so that the micro-batches
 * in flight on a stage, which follow one another, hold no more than as many of the largest mean of
 * such a run (struct job_window). It is loose by what text and images are not largest at the same
 * place.
 */
#ifndef BALLAST_SIM_REPLAY_MEMORY_BOUND_H
#define BALLAST_SIM_REPLAY_MEMORY_BOUND_H

#include "sim/replay/replay.h"

/* Bytes of the fullest GPU's device memory over all whole iterations of a pass, given a replay of
 * some or all of them. NaN: not known, where a policy plans each iteration or splits
 * micro-batches. */
double memory_bound(const struct job *job, const struct replay *replay);

/* The same where every micro-batch of every step is this one, which the job's prices know. */
double memory_bound_of_shape(const struct job *job, const struct batch_shape *largest);

#endif
