/* sweep_where.h - whether the conditions of a sweep speak of fields and names that there are. A
 * field that no scenario has is missing in all, and a name that no policy has equals none: such a
 * condition would reject everything, or nothing, without a word.
 *
 * Known are the fields of the tables, the parameters of the policies (of plug-ins too, where the
 * sweep names them), and whatever the sweep's scenario or one of its axes gives.
 */
#ifndef BALLAST_SIM_STUDY_SWEEP_WHERE_H
#define BALLAST_SIM_STUDY_SWEEP_WHERE_H

#include "sim/study/sweep/sweep_file.h"

/* False: the error names the place of the condition, what is unknown in it, and the nearest that is
 * known. Nothing is loaded or priced. */
bool sweep_where_check(const struct sweep_file *file, const struct scenario_options *options,
                       struct error *err);

#endif
