/* sweep_label.h - a value of a sweep's axis in words: "tp 2", "micro_batch 4", "batching isf qt
 * 17000".
 *
 * A value with a name goes by it, and by those of its parameters in which it differs from others of
 * that name on the axis. Texts live in the arena.
 */
#ifndef BALLAST_RESULTS_SWEEP_LABEL_H
#define BALLAST_RESULTS_SWEEP_LABEL_H

#include <cjson/cJSON.h>
#include <stdint.h>
#include "sim/base/arena.h"

/* The key of a path: "tp" of "layout.tp", "micro_batch" of "training.micro_batch.samples". */
const char *sweep_label_key(struct arena *arena, const char *path);
/* `values` of the axis stand `stride` apart, `value` is one of them. */
const char *sweep_label_value(struct arena *arena, const cJSON *value, const cJSON *const *values,
                              int64_t value_count, int64_t stride);

#endif
