/* sensitivity.h - which input would have to change, and by how much, for a row to match its paper.
 *
 * Each input is changed alone and the row simulated again over the first steps of the epoch, beside
 * the unchanged row over the same steps. Of an input that has a size, the power law through both
 * answers (time ~ input^elasticity) gives the factor that would close the gap; where even 16 times
 * more or less would not, no value of that input alone explains the row.
 *
 *     sensitivity_measure(&options, reproduction, err);
 *     reproduction->values[i].sensitivity[0].needed_factor
 */
#ifndef BALLAST_SIM_STUDY_SENSITIVITY_H
#define BALLAST_SIM_STUDY_SENSITIVITY_H

#include "sim/study/reproduce/reproduction.h"

/* Fills the main readings that carry a band and compare nothing (another reading is a changed input
 * itself); texts live in the reproduction's arena. */
bool sensitivity_measure(const struct reproduction_options *options,
                         struct reproduction *reproduction, struct error *err);

#endif
