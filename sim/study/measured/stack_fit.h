/* stack_fit.h - the factors that are left of a software stack, fitted on measured runs.
 *
 * One group per stack, GPU family and precision. Each has a factor on all kernel times and, where
 * the stack says so, one more on core attention. The kernel factors of one stack are then drawn
 * towards their mean, and to what is usual among the fit's other stacks, the more the fewer rows
 * they have. Rows that cannot be simulated, and rows without a step time, are left out and named;
 * so are all of them an error. A row whose stack is not known is fitted as its stand-in without
 * unknown_stack_factor: what that makes up for is what the fit finds.
 *
 *     struct stack_fit *fit = stack_fit_run(arena, &options, "calibrate/measured/steps.csv", NULL,
 *                                           NULL, NULL, err);
 *     fit->groups[0].stack->name, fit->groups[0].factor.kernel_time_factor
 *
 * Everything lives in the arena.
 */
#ifndef BALLAST_SIM_STUDY_STACK_FIT_H
#define BALLAST_SIM_STUDY_STACK_FIT_H

#include "sim/base/band.h"
#include "sim/study/measured/measured_scenario.h"

struct stack_fit_group {
    const struct stack *stack;
    struct stack_factor factor;             /* calibrated_on names its rows */
    double before_kernel, before_attention; /* what held until now, its own or not */
    int64_t row_count;
    double launch_fraction; /* of a step that launches cost its rows, mean, at a factor of 1 */
    /* The band that predictions of such runs carry, not known without bands.json; how
     * many held-back rows of this stack it comes from, 0: from those of all calibrated stacks. None
     * of the rows of this fit was held back. */
    struct band band, band_before;
    bool was_calibrated; /* on this GPU and precision */
    bool multimodal;     /* its first row is of images or video, or of an encoder alone */
    bool writes_text;    /* its first row's model */
    int64_t band_rows;
};

struct stack_fit_skip {
    const char *row_id, *reason;
};

struct stack_fit {
    struct stack_list stacks;
    struct stack_fit_group *groups; /* by stack, GPU, precision, in order of appearance */
    int64_t group_count;
    struct stack_fit_skip *skips;
    int64_t skip_count;
    const char *
        *warnings; /* sentences: stacks that stand in for others, factors out of the usual */
    int64_t warning_count;
};

/* row_ids: only these, NULL at the end; NULL: all. An id that the file does not have is an
 * error. */
struct stack_fit *stack_fit_run(struct arena *arena, const struct scenario_options *options,
                                const char *path, const char *const *row_ids,
                                void (*progress)(void *context, int64_t done, int64_t total),
                                void *progress_context, struct error *err);

#endif
