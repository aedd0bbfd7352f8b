/* hold_out.h - a row as others would predict it, who do not know its source's runs. Private to
 * validation.c. */
#ifndef BALLAST_SIM_STUDY_MEASURED_HOLD_OUT_H
#define BALLAST_SIM_STUDY_MEASURED_HOLD_OUT_H

#include "sim/study/measured/validation.h"

/* What is held out of one source's rows: its stacks without the factors, its runs without the
 * name. */
struct hold_out {
    enum validation_hold_out what;
    const char *source; /* whose stacks those are; NULL: none yet */
    struct stack_list all, stacks;
};

/* The run as it is to be simulated; makes `stacks` those of its source, in the arena of `v`. */
struct measured_run hold_out_run(struct hold_out *h, const struct validation *v,
                                 const struct measured_context *context,
                                 const struct measured_run *run);
/* Its stack: one of `stacks`, or the user's file without the factors. */
const struct stack *hold_out_stack(const struct hold_out *h, const struct validation *v,
                                   const struct measured_scenario *scenario,
                                   const struct measured_run *run);

#endif
