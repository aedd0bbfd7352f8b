/* fit_streaming.c - medians of measured fractions, by kind of kernel. */
#include "calibrate/fit/fit_streaming.h"

#include <math.h>
#include <string.h>

#define L2_BYTES 5e7 /* the largest L2 among the GPUs measured, H100's 50 MB */
/* A residual add re-reads what the run before wrote: 100 MB of it still ran at 0.97 of HBM on H100.
 */
#define RESIDUAL_BYTES (4 * L2_BYTES)

/* Kernels that a training framework launches, or that move data as they do. Read-only and
 * write-only streams say nothing about an operator that does both; kernels of inference engines of
 * 2024 and unfused norms are slower than what training uses now. */
enum stream_kind stream_kind_of(const struct membw_row *row) {
    const bool fused = strncmp(row->framework, "cudnn", 5) == 0 ||
                       strncmp(row->framework, "torch_compile", 13) == 0;
    if (strncmp(row->test, "BabelStream-", 12) == 0)
        return strstr(row->test, "dot") ? STREAM_NONE : STREAM_ELEMENTWISE;
    if (strncmp(row->test, "stream-scale", 12) == 0 || strncmp(row->test, "stream-triad", 12) == 0)
        return STREAM_ELEMENTWISE;
    if (row->bytes < L2_BYTES) return STREAM_NONE;
    if (strncmp(row->test, "residual add", 12) == 0)
        return row->bytes < RESIDUAL_BYTES ? STREAM_NONE : STREAM_ELEMENTWISE;
    if (strncmp(row->test, "rms_norm-fwd", 12) == 0 && fused) return STREAM_NORM_FORWARD;
    if (strncmp(row->test, "rms_norm-bwd", 12) == 0 && strncmp(row->framework, "cudnn", 5) == 0)
        return STREAM_NORM_BACKWARD;
    return STREAM_NONE;
}

static double median_of(const struct membw_row *rows, int64_t count, const char *gpu,
                        enum stream_kind kind, double *scratch) {
    int64_t n = 0;
    for (int64_t i = 0; i < count; i++)
        if (strcmp(rows[i].gpu, gpu) == 0 && rows[i].fraction_of_peak > 0 &&
            stream_kind_of(&rows[i]) == kind)
            scratch[n++] = fmin(rows[i].fraction_of_peak, 1);
    return fit_quantile(scratch, n, 0.5);
}

/* ln(measured / fitted) of the norms, or of the rest. */
static int64_t add_errors(const struct membw_row *rows, int64_t count, const char *gpu, bool norms,
                          const struct streaming_fit *fit, double *errors) {
    int64_t n = 0;
    for (int64_t i = 0; i < count; i++) {
        const enum stream_kind kind = stream_kind_of(&rows[i]);
        const bool norm = kind == STREAM_NORM_FORWARD || kind == STREAM_NORM_BACKWARD;
        if (kind == STREAM_NONE || norm != norms || strcmp(rows[i].gpu, gpu) != 0) continue;
        const double fraction = kind == STREAM_ELEMENTWISE    ? fit->elementwise
                                : kind == STREAM_NORM_FORWARD ? fit->norm_forward
                                                              : fit->norm_backward;
        if (rows[i].fraction_of_peak > 0) errors[n++] = log(rows[i].fraction_of_peak / fraction);
    }
    return n;
}

bool fit_streaming(const struct streaming_source *from, struct arena *arena,
                   struct streaming_fit *out, struct error *err) {
    double *scratch = arena_array(arena, double, from->count + from->norm_count + 1);
    out->elementwise = median_of(from->rows, from->count, from->gpu, STREAM_ELEMENTWISE, scratch);
    out->norm_forward =
        median_of(from->norm_rows, from->norm_count, from->norm_gpu, STREAM_NORM_FORWARD, scratch);
    out->norm_backward =
        median_of(from->norm_rows, from->norm_count, from->norm_gpu, STREAM_NORM_BACKWARD, scratch);
    if (!(out->elementwise > 0) || !(out->norm_forward > 0) || !(out->norm_backward > 0))
        return error_set(err, "no bandwidth measurements of '%s' (norms: '%s')", from->gpu,
                         from->norm_gpu);
    const int64_t n = add_errors(from->rows, from->count, from->gpu, false, out, scratch);
    const int64_t norms =
        add_errors(from->norm_rows, from->norm_count, from->norm_gpu, true, out, scratch + n);
    out->residual = error_summary_of(scratch, n + norms);
    add_errors(from->rows, from->count, from->gpu, false, out, scratch);
    out->stream_residual = error_summary_of(scratch, n);
    add_errors(from->norm_rows, from->norm_count, from->norm_gpu, true, out, scratch);
    out->norm_residual = error_summary_of(scratch, norms);
    return true;
}
