/* print.h - results as text for people and as JSON objects for programs. */
#ifndef BALLAST_SIM_CLI_PRINT_H
#define BALLAST_SIM_CLI_PRINT_H

#include <cjson/cJSON.h>
#include "sim/study/execution.h"

void print_answer(const struct execution *execution);
cJSON *json_answer(const struct execution *execution, struct arena *arena);

#endif
