/* robust_fit.c - iteratively reweighted non-linear least squares, quantiles.
 *
 * Cauchy weights w = 1 / (1 + (r / (2.385 s))^2), s = 1.4826 median |r|: 95 % efficient on normal
 * residuals, and a shape that a library handles badly has little pull.
 */
#include "calibrate/fit/robust_fit.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>
#include <gsl/gsl_blas.h>
#include <gsl/gsl_errno.h>
#include <gsl/gsl_multifit_nlinear.h>
#include <gsl/gsl_statistics_double.h>

enum { REWEIGHT_COUNT = 6, ITERATION_MAX = 60 };

static int fill_residuals(const gsl_vector *x, void *context, gsl_vector *f) {
    const struct robust_fit *fit = context;
    double parameters[FIT_PARAMETER_MAX];
    for (int64_t i = 0; i < fit->parameter_count; i++)
        parameters[i] = gsl_vector_get(x, (size_t)i);
    for (int64_t i = 0; i < fit->point_count; i++)
        gsl_vector_set(f, (size_t)i, fit->residual(fit->context, parameters, i));
    const double pull = fit->pull * sqrt((double)fit->point_count);
    for (int64_t i = 0; i < fit->parameter_count; i++)
        gsl_vector_set(f, (size_t)(fit->point_count + i), pull * (parameters[i] - fit->start[i]));
    return GSL_SUCCESS;
}

static void set_weights(struct robust_fit *fit, const gsl_vector *f, double *scratch,
                        gsl_vector *w) {
    for (int64_t i = 0; i < fit->point_count; i++)
        scratch[i] = fabs(gsl_vector_get(f, (size_t)i));
    fit->scale = fmax(1.4826 * fit_quantile(scratch, fit->point_count, 0.5), 1e-9);
    for (int64_t i = 0; i < fit->point_count; i++) {
        const double r = gsl_vector_get(f, (size_t)i) / (2.385 * fit->scale);
        gsl_vector_set(w, (size_t)i, 1 / (1 + r * r));
    }
}

bool robust_fit_run(struct robust_fit *fit, double *parameters, struct error *err) {
    const size_t p = (size_t)fit->parameter_count;
    if (fit->point_count <= fit->parameter_count)
        return error_set(err, "%lld measurements are too few to fit %zu coefficients",
                         (long long)fit->point_count, p);
    const size_t n = (size_t)fit->point_count + p; /* the pull adds a residual for each */
    memcpy(fit->start, parameters, p * sizeof *parameters);
    gsl_multifit_nlinear_parameters options = gsl_multifit_nlinear_default_parameters();
    gsl_multifit_nlinear_fdf system = { .f = fill_residuals, .n = n, .p = p, .params = fit };
    gsl_multifit_nlinear_workspace *work =
        gsl_multifit_nlinear_alloc(gsl_multifit_nlinear_trust, &options, n, p);
    gsl_vector *weights = gsl_vector_alloc(n);
    gsl_matrix *covariance = gsl_matrix_alloc(p, p);
    gsl_vector_view x = gsl_vector_view_array(parameters, p);
    double *scratch = memory_alloc(n * sizeof *scratch);
    int info, status = GSL_SUCCESS;
    /* GSL stops the program by default; here a failure is returned. */
    gsl_error_handler_t *handler = gsl_set_error_handler_off();
    gsl_vector_set_all(weights, 1);
    for (int round = 0; round < REWEIGHT_COUNT && status == GSL_SUCCESS; round++) {
        status = gsl_multifit_nlinear_winit(&x.vector, weights, &system, work);
        if (status == GSL_SUCCESS)
            status =
                gsl_multifit_nlinear_driver(ITERATION_MAX, 1e-8, 1e-8, 0, NULL, NULL, &info, work);
        /* No further progress on a function with a kink (max) is an end, not a failure. */
        if (status == GSL_ENOPROG || status == GSL_EMAXITER) status = GSL_SUCCESS;
        gsl_vector_memcpy(&x.vector, gsl_multifit_nlinear_position(work));
        gsl_vector *f = gsl_multifit_nlinear_residual(work);
        fill_residuals(&x.vector, fit, f);
        set_weights(fit, f, scratch, weights);
    }
    gsl_multifit_nlinear_covar(gsl_multifit_nlinear_jac(work), 1e-12, covariance);
    for (size_t i = 0; i < p; i++)
        for (size_t j = 0; j < p; j++)
            fit->covariance[i][j] = gsl_matrix_get(covariance, i, j) * fit->scale * fit->scale;
    gsl_set_error_handler(handler);
    free(scratch);
    gsl_matrix_free(covariance);
    gsl_vector_free(weights);
    gsl_multifit_nlinear_free(work);
    return status == GSL_SUCCESS || error_set(err, "the fit stopped: %s", gsl_strerror(status));
}

static int compare_doubles(const void *a, const void *b) {
    const double x = *(const double *)a, y = *(const double *)b;
    return (x > y) - (x < y);
}

double fit_quantile(double *values, int64_t count, double fraction) {
    qsort(values, (size_t)count, sizeof *values, compare_doubles);
    return count ? gsl_stats_quantile_from_sorted_data(values, 1, (size_t)count, fraction) : 0;
}

struct error_summary error_summary_of(double *log_errors, int64_t count) {
    struct error_summary s = { .count = count };
    s.bias = expm1(fit_quantile(log_errors, count, 0.5));
    for (int64_t i = 0; i < count; i++)
        log_errors[i] = fabs(expm1(log_errors[i]));
    s.median = fit_quantile(log_errors, count, 0.5);
    s.p80 = fit_quantile(log_errors, count, 0.8);
    s.p90 = fit_quantile(log_errors, count, 0.9);
    return s;
}
