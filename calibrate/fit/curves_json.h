/* curves_json.h - numbers, lists and tables of a curves file, as the fit writes them.
 *
 *     const cJSON *const nodes[] = { f.bytes, f.time_us };
 *     cJSON *table = curves_write(&efficiency_collective_table, &f, nodes, 2);
 */
#ifndef BALLAST_CALIBRATE_FIT_CURVES_JSON_H
#define BALLAST_CALIBRATE_FIT_CURVES_JSON_H

#include <stdint.h>
#include "sim/base/field.h"
#include "sim/base/json.h"

/* Four digits: the measurements have no more, and the file stays readable. */
double curves_rounded(double value);

/* The caller owns what these return. */
cJSON *curves_numbers(const double *values, int64_t count);
cJSON *curves_integers(const int64_t *values, int64_t count);
/* 1000 (log_ratio + shift), row by row. */
cJSON *curves_milli_rows(const double *log_ratio, int64_t row_count, int64_t row_size,
                         double shift);

/* Takes over the nodes that `values` points to: the table's writer copies them. */
cJSON *curves_write(const struct field_table *table, const void *values, const cJSON *const *nodes,
                    size_t node_count);
/* A key whose 0 says that nothing was seen is left out. */
void curves_drop_zero(cJSON *object, const char *key);
/* Those of a matmul whose rows show no waves of tiles, or no quantisation. */
void curves_drop_unseen(cJSON *matmul);

#endif
