/* robust_fit.h - non-linear least squares that outliers do not pull, and quantiles; both over GSL.
 * Shared by the fits of matmul and attention.
 *
 *     struct robust_fit fit = { .parameter_count = 2, .point_count = n, .residual = f, .context = c
 * }; if (!robust_fit_run(&fit, start, err)) return false;   // start[] now holds the coefficients
 */
#ifndef BALLAST_CALIBRATE_FIT_ROBUST_FIT_H
#define BALLAST_CALIBRATE_FIT_ROBUST_FIT_H

#include <stdint.h>
#include "sim/base/arena.h"
#include "sim/base/error.h"

enum { FIT_PARAMETER_MAX = 8 };

struct robust_fit {
    int64_t parameter_count, point_count;
    /* ln(predicted / measured) of one point. Parameters are the ln of positive coefficients. */
    double (*residual)(const void *context, const double *parameters, int64_t point_index);
    const void *context;
    /* Pull towards the start, so that a coefficient the data do not see stays put instead of
     * running away: an e-fold away from it costs as much as this residual on every point. 0: none
     */
    double pull;
    double start[FIT_PARAMETER_MAX];                         /* internal: where the fit began */
    double covariance[FIT_PARAMETER_MAX][FIT_PARAMETER_MAX]; /* out, of the ln coefficients */
    double scale; /* out: robust standard deviation of the residuals */
};

/* Levenberg-Marquardt with Cauchy weights, reweighted until they settle. */
bool robust_fit_run(struct robust_fit *fit, double *parameters, struct error *err);

/* Quantile of values, which are sorted in place. */
double fit_quantile(double *values, int64_t count, double fraction);

/* How good a set of predictions is; every field is a fraction. */
struct error_summary {
    int64_t count;
    double median, p80, p90; /* of |predicted / measured - 1| */
    double bias;             /* median of predicted / measured - 1 */
};

/* log_errors = ln(predicted / measured); sorted in place. */
struct error_summary error_summary_of(double *log_errors, int64_t count);

#endif
