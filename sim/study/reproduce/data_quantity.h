/* data_quantity.h - what a run's data set and its micro-batches are like, before any plan.
 *
 *     data_work_spread(execution)        // dearest over cheapest of 100 micro-batches, the median
 *     data_text_per_image(execution)     // text tokens of the data set for each image tile
 */
#ifndef BALLAST_SIM_STUDY_DATA_QUANTITY_H
#define BALLAST_SIM_STUDY_DATA_QUANTITY_H

#include "sim/study/execution.h"

/* FLOP of training the whole model on a micro-batch. One draw of 100 says little, so the median
 * over all groups of 100 that the run has, in their order (DIP, section 2.2 and Figure 4d). NaN:
 * fewer than 100. */
double data_work_spread(const struct execution *execution);
/* NaN: no images. */
double data_text_per_image(const struct execution *execution);

#endif
