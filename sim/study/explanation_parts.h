/* explanation_parts.h - operators outside of layers as rows, and a mean step part by part. Private
 * to sim/study. */
#ifndef BALLAST_SIM_STUDY_EXPLANATION_PARTS_H
#define BALLAST_SIM_STUDY_EXPLANATION_PARTS_H

#include "sim/study/explanation.h"

/* Appends what a step runs outside of its layers and what blocks wait for the host. Stages that do
 * the same share a row. */
void explanation_outer_prices(const struct execution *execution, struct arena *arena,
                              struct explanation *out);
/* Fills parts from layers and prices. */
void explanation_parts(const struct execution *execution, struct explanation *out);

#endif
