/* sweep_condition.h - what a sweep asks of a configuration beyond the rules: "where".
 *
 *     layout.tp * layout.pp <= 64 and cluster.gpu_count in [256, 512]
 *
 * Operands are numbers, "texts", true, false, null and fields of the resolved scenario by dotted
 * path; operators, loosest first: or, and, not, == != < <= > >= in, + -, * / %, unary -. A list in
 * brackets stands after `in`. A comparison of a text with a number is false, of a missing field too.
 */
#ifndef BALLAST_SIM_STUDY_SWEEP_CONDITION_H
#define BALLAST_SIM_STUDY_SWEEP_CONDITION_H

#include <cjson/cJSON.h>
#include "sim/base/arena.h"
#include "sim/base/error.h"

struct condition;

/* NULL and an error that quotes where the text stops making sense. Lives in `arena`. */
const struct condition *condition_parse(struct arena *arena, const char *text, struct error *err);
const char *condition_text(const struct condition *condition);
bool condition_holds(const struct condition *condition, const cJSON *scenario);

#endif
