/* output_source.h - a data set is never written over what it was read from. Inside sim/data
 * only. */
#ifndef BALLAST_SIM_DATA_OUTPUT_SOURCE_H
#define BALLAST_SIM_DATA_OUTPUT_SOURCE_H

#include "sim/data/dataset.h"

/* False: the data set was read from this very file, by this or another name. */
bool output_source_allowed(const struct dataset *dataset, const char *path, struct error *err);

#endif
