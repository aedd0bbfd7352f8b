/* fit_streaming.h - from bandwidth benchmarks to the fractions of costmodel/efficiency.h. */
#ifndef BALLAST_CALIBRATE_FIT_FIT_STREAMING_H
#define BALLAST_CALIBRATE_FIT_FIT_STREAMING_H

#include "calibrate/fit/measurements.h"
#include "calibrate/fit/robust_fit.h"

struct streaming_fit {
    double norm_forward, norm_backward, elementwise; /* fractions of HBM bandwidth */
    /* of single training kernels about them: all, and apart where their rows differ in origin */
    struct error_summary residual, stream_residual, norm_residual;
};

struct streaming_source {
    const struct membw_row *rows;
    int64_t count;
    const char *gpu;
    const struct membw_row *norm_rows; /* may be the same */
    int64_t norm_count;
    const char *norm_gpu;
};

/* What of a step a row says something about. */
enum stream_kind { STREAM_NONE, STREAM_ELEMENTWISE, STREAM_NORM_FORWARD, STREAM_NORM_BACKWARD };
enum stream_kind stream_kind_of(const struct membw_row *row);

/* Elementwise: median of copy, triad and residual-add kernels on `gpu`. Norms: median of fused
 * kernels on `norm_gpu`. Only buffers too large for L2 count. */
bool fit_streaming(const struct streaming_source *from, struct arena *arena,
                   struct streaming_fit *out, struct error *err);

#endif
