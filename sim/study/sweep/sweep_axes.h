/* sweep_axes.h - whether each value that an axis of a sweep gives can be read, before anything is
 * priced: the last value of the first axis would otherwise be looked at when most of the sweep is
 * done.
 */
#ifndef BALLAST_SIM_STUDY_SWEEP_AXES_H
#define BALLAST_SIM_STUDY_SWEEP_AXES_H

#include "sim/study/sweep/sweep_file.h"

/* Reads the configuration of each value with the first values of the other axes. What breaks a rule
 * is not complained of: that rejects configurations. False: the error stands at the value, or in
 * the scenario where no axis gives what it is about. So is money asked about where no price is. */
bool sweep_axes_check(const struct sweep_file *file, const struct scenario_options *options,
                      struct error *err);

/* Where one price of the scenario is taken for GPUs that it does not stand beside; NULL otherwise.
 * The file's text. */
const char *sweep_axes_price_warning(const struct sweep_file *file);

#endif
