/* print.h - results as text for people and as JSON objects for programs. */
#ifndef BALLAST_SIM_CLI_PRINT_H
#define BALLAST_SIM_CLI_PRINT_H

#include <cjson/cJSON.h>
#include "sim/study/execution.h"

void print_answer(const struct execution *execution);
/* Its first lines: which job, and its step time with band. */
void print_job(const struct execution *execution);
/* Its last ones. */
void print_assumed(const struct execution *execution);
/* What print_assumed() lists but for the data. */
cJSON *json_assumptions(const struct execution *execution);
cJSON *json_answer(const struct execution *execution, struct arena *arena);

#endif
