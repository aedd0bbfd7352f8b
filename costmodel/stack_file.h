/* stack_file.h - one file of scenarios/stacks, as it stands there.
 *
 *     struct stack stack;
 *     if (!stack_read(json, arena, &stack, err)) return NULL;
 *
 * Without what the folder gives it: its relative's factors and what is usual on a GPU (stack.h).
 */
#ifndef BALLAST_COSTMODEL_STACK_FILE_H
#define BALLAST_COSTMODEL_STACK_FILE_H

#include "costmodel/stack.h"

bool stack_read(const struct json *json, struct arena *arena, struct stack *out, struct error *err);

#endif
