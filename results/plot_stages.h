/* plot_stages.h - what each pipeline stage works and holds, run beside run: before and after.
 *
 *     plot_stages("balance.png", "OmniBal, step by step", runs, run_count, err);
 *
 * Format and rules as in plot.h.
 */
#ifndef BALLAST_RESULTS_PLOT_STAGES_H
#define BALLAST_RESULTS_PLOT_STAGES_H

#include <stdbool.h>
#include <stdint.h>
#include "sim/base/error.h"

struct plot_stage {
    double forward_s, recompute_s, backward_s; /* of a mean step; they do not overlap */
    double memory_GiB;                         /* peak of one GPU */
};

struct plot_stage_run {
    const char *name;
    const struct plot_stage *stages;
    int64_t stage_count;
    double step_s, capacity_GiB;
};
bool plot_stages(const char *path, const char *title, const struct plot_stage_run *runs,
                 int64_t run_count, struct error *err);

#endif
