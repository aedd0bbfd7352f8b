/* stack_check.h - whether the words of a stack file mean something. */
#ifndef BALLAST_COSTMODEL_STACK_CHECK_H
#define BALLAST_COSTMODEL_STACK_CHECK_H

#include "costmodel/stack.h"
#include "sim/base/json.h"

/* Backend and recomputation are known ones, and buckets stand where they have an effect; else an
 * error at the key. */
bool stack_words_are_known(const struct json *json, const struct stack *stack, struct error *err);
/* Releases and dates of `told_by` can be told; `list` is read already and holds texts alone. */
bool stack_told_by_is_sound(const struct json *json, const cJSON *list, struct arena *arena,
                            struct error *err);

#endif
