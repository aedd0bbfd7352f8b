/* training_peak.h - the peak of device memory of a whole training, from the peaks of the steps
 * that were replayed.
 *
 * A training shuffles the samples anew in each epoch, so that its fullest step is fuller than that
 * of the one pass replayed here, whose samples meet by the luck of one seed.
 *
 *     struct training_peak peak = training_peak_of(peaks, count, draws);
 */
#ifndef BALLAST_SIM_REPLAY_TRAINING_PEAK_H
#define BALLAST_SIM_REPLAY_TRAINING_PEAK_H

#include "sim/replay/job.h"

/* Fewer peaks tell nothing of the fullest of many. */
enum { TRAINING_PEAK_COUNT_LEAST = 16 };

struct training_peak {
    double likely_bytes; /* exceeded by every other training; NaN: not known */
    double high_bytes;   /* by one in ten */
    double bound_bytes;  /* by none: neither figure is above it; INFINITY: not known */
};

/* Of `draws` steps of one rank, of which the peaks of `count` are known; sorts them. Neither figure
 * is below the largest of these. */
struct training_peak training_peak_of(double *peaks, int64_t count, double draws);

/* What no micro-batch of any shuffle exceeds, element by element: of as many samples as the
 * scenario asks for, those with most of each; of groups packed up to a limit, the limit. False
 * where there is neither. */
bool training_peak_largest_shape(const struct job *job, struct batch_shape *out);

#endif
