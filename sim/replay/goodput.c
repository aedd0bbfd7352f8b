/* goodput.c - Daly's two equations.
 *
 * Failures are exponential, also while a checkpoint is written or the job restarts; a failure
 * during a restart begins it anew. For useful time tau between checkpoints of length delta, a
 * restart of length R and a mean time M between failures, a segment takes on average
 *     M exp(R / M) (exp((tau + delta) / M) - 1).
 * A training no longer than tau is one segment without a checkpoint.
 *
 * The variance is not in the paper. A stretch of length L that begins anew after each failure takes
 *     mean M (exp(L / M) - 1), variance M^2 (exp(2 L / M) - 2 (L / M) exp(L / M) - 1),
 * and so does a restart with L = R. A segment is L and, for each of its k failures, the time until
 * the failure and the restart; k is geometric with mean exp(L / M) - 1 and independent of the
 * restarts:
 *     variance(segment) = variance(L) + E(k) variance(R) + variance(k) mean(R)^2
 *                         + 2 mean(R) covariance(k, time of the stretch),
 * where the stretch's time is L + the sum of k times to failure, each of mean a = M - L / E(k), so
 * that the covariance is a variance(k), and variance(k) = E(k) (1 + E(k)).
 */
#include "sim/replay/goodput.h"

#include <math.h>
#include <stdbool.h>

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

/* Of useful time between checkpoints, and what is written after it. */
struct segment {
    double useful_s, checkpoint_s;
};

static struct segment segment_of(const struct goodput_loss *loss, double useful_s) {
    const struct segment whole = { useful_s, 0 };
    const bool chosen = isnan(loss->interval_s);
    const double interval_s =
        chosen ? goodput_best_interval_s(loss->mtbf_s, loss->checkpoint_s) : loss->interval_s;
    if (interval_s >= useful_s) return whole;
    /* The best interval is that of a training without end; a short one may do better without
     * any. */
    if (chosen &&
        goodput_fraction(loss->mtbf_s, useful_s, 0, loss->restart_s) >
            goodput_fraction(loss->mtbf_s, interval_s, loss->checkpoint_s, loss->restart_s))
        return whole;
    return (struct segment){ interval_s, loss->checkpoint_s };
}

struct goodput goodput_of_training(const struct goodput_loss *loss, double useful_s) {
    const struct segment segment = segment_of(loss, useful_s);
    return (struct goodput){
        .fraction = goodput_fraction(loss->mtbf_s, segment.useful_s, segment.checkpoint_s,
                                     loss->restart_s),
        .interval_s = segment.useful_s < useful_s ? segment.useful_s : INFINITY,
    };
}

static double mean_until_done_s(double mtbf_s, double length_s) {
    return mtbf_s * expm1(length_s / mtbf_s);
}

/* exp(2 x) - 2 x exp(x) - 1, of which small x would leave only rounding: x^3 / 3 and on. */
static double variance_until_done(double mtbf_s, double length_s) {
    const double x = length_s / mtbf_s;
    const double unit = x < 1e-2 ? x * x * x * (1.0 / 3 + x * (1.0 / 3 + x * 11.0 / 60))
                                 : exp(2 * x) - 2 * x * exp(x) - 1;
    return mtbf_s * mtbf_s * unit;
}

double goodput_deviation_s(const struct goodput_loss *loss, double useful_s) {
    const struct segment segment = segment_of(loss, useful_s);
    const double mtbf_s = loss->mtbf_s, length_s = segment.useful_s + segment.checkpoint_s;
    const double failures = expm1(length_s / mtbf_s), failure_variance = failures * (1 + failures);
    const double until_failure_s = failures > 0 ? mtbf_s - length_s / failures : 0;
    const double restart_s = mean_until_done_s(mtbf_s, loss->restart_s);
    const double variance = variance_until_done(mtbf_s, length_s) +
                            failures * variance_until_done(mtbf_s, loss->restart_s) +
                            failure_variance * restart_s * (restart_s + 2 * until_failure_s);
    return sqrt(useful_s / segment.useful_s * variance);
}
