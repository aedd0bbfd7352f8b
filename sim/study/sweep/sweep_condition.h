/* sweep_condition.h - what a sweep asks of a configuration beyond the rules: "where".
 *
 *     layout.tp * layout.pp <= 64 and cluster.gpu_count in [256, 512]
 *
 * Operands are numbers, "texts", true, false, null and fields of the resolved scenario by dotted
 * path, or of the scenario as written where that says more; operators, loosest first: or, and, not,
 * == != < <= > >= in, + -, * / %, unary -. A list in brackets stands after `in`, or a field that is
 * one. A comparison of a text with a number is false, of a missing field too: sweep_where.h refuses
 * what can only be so.
 */
#ifndef BALLAST_SIM_STUDY_SWEEP_CONDITION_H
#define BALLAST_SIM_STUDY_SWEEP_CONDITION_H

#include <cjson/cJSON.h>
#include "sim/base/arena.h"
#include "sim/base/error.h"

struct condition;

/* NULL and an error that quotes where the text stops making sense, divides by a written zero or is
 * longer than 1000 operators. Lives in `arena`. */
const struct condition *condition_parse(struct arena *arena, const char *text, struct error *err);
const char *condition_text(const struct condition *condition);

struct condition_scenario {
    const cJSON *resolved; /* scenario_resolved() */
    const cJSON *written;  /* the configuration's document; NULL: none */
};
bool condition_holds(const struct condition *condition, const struct condition_scenario *scenario);
/* Whether a quotient of it has no value there: it compares as a missing field does. */
bool condition_divides_by_zero(const struct condition *condition,
                               const struct condition_scenario *scenario);

/* Below `at` by dotted path; NULL: not there. A batch without a unit counts samples. */
const cJSON *condition_field(const cJSON *at, const char *path);

/* How a condition takes a field. */
enum condition_use_kind {
    CONDITION_IS_ANY,    /* alone, or beside null, true, false or another field */
    CONDITION_IS_TEXT,   /* equal to a text or not */
    CONDITION_IS_NUMBER, /* ordered, calculated with, or equal to a number */
    CONDITION_IS_LIST,   /* after `in` */
};
struct condition_use {
    const char *path; /* NULL: `text` itself stands where only a number makes sense */
    enum condition_use_kind kind;
    const char *text; /* that the field is compared with, or sought in it; NULL: none */
};
typedef void condition_visit(void *context, const struct condition_use *use);
/* All uses, from left to right. */
void condition_for_each_field(const struct condition *condition, condition_visit *visit,
                              void *context);

#endif
