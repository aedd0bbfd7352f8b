/* distribution.h - named distributions of whole numbers, for data sets that are drawn.
 *
 *     const struct distribution *d = distribution_read(arena, json, node, err);
 *     value = distribution_quantile(d, u, v);      // u, v uniform in (0, 1)
 *
 * In JSON: a bare number (always this), or an object like
 *     { "distribution": "lognormal", "mean": 120, "std": 90, "min": 8, "max": 2048 }
 *     { "distribution": "histogram", "values": [1, 3, 5], "weights": [4, 2, 1] }
 *     { "distribution": "mixture", "components": [ { "weight": 3, ... }, { "weight": 1, ... } ] }
 * Values are rounded to whole numbers and clamped to min and max (not redrawn).
 */
#ifndef BALLAST_SIM_DATA_DISTRIBUTION_H
#define BALLAST_SIM_DATA_DISTRIBUTION_H

#include "sim/base/arena.h"
#include "sim/base/error.h"
#include "sim/base/field.h"
#include "sim/base/json.h"

struct distribution; /* in the arena */

const struct distribution *distribution_read(struct arena *arena, const struct json *json,
                                             const cJSON *node, struct error *err);
/* The value below which a share u of the distribution lies; v chooses the component of a mixture.
 * With u and v uniform in (0, 1) this draws from the distribution. It rises with u. */
int64_t distribution_quantile(const struct distribution *distribution, double u, double v);

extern const struct field_table distribution_fields;

#endif
