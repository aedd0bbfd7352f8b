/* goodput.c - Daly's two equations.
 *
 * Failures are exponential, also while a checkpoint is written or the job restarts; a failure during
 * a restart begins it anew. For useful time tau between checkpoints of length delta, a restart of
 * length R and a mean time M between failures, a segment takes on average
 *     M exp(R / M) (exp((tau + delta) / M) - 1).
 */
#include "sim/replay/goodput.h"

#include <math.h>

double goodput_fraction(double mtbf_s, double interval_s, double checkpoint_s, double restart_s) {
    double segment_s =
        mtbf_s * exp(restart_s / mtbf_s) * expm1((interval_s + checkpoint_s) / mtbf_s);
    return interval_s / segment_s;
}

double goodput_best_interval_s(double mtbf_s, double checkpoint_s) {
    if (checkpoint_s >= 2 * mtbf_s) return mtbf_s;
    double half = checkpoint_s / (2 * mtbf_s);
    double best = sqrt(2 * checkpoint_s * mtbf_s) * (1 + sqrt(half) / 3 + half / 9) - checkpoint_s;
    /* Checkpoints that cost nothing could be taken without end. */
    return fmax(best, 1);
}
