/* stack_file.h - one file of scenarios/stacks, as it stands there.
 *
 *     struct stack stack;
 *     struct json *json = stack_open(arena, "scenarios", "hf-ddp-2025", err);
 *     if (json == NULL || !stack_read(json, arena, &stack, err)) return NULL;
 *
 * Without what the folder gives it: its relative's factors and what is usual on a GPU (stack.h).
 */
#ifndef BALLAST_COSTMODEL_STACK_FILE_H
#define BALLAST_COSTMODEL_STACK_FILE_H

#include "costmodel/stack.h"

/* The file of this name or path, with what its "base" states and it does not: figures and causes with
 * their sources, never what names a stack or was measured of it (words, runs, factors, bands). A
 * stack without a relative borrows of its base's or of the base. Caller destroys; NULL: err. */
struct json *stack_open(struct arena *arena, const char *search_directory, const char *name,
                        struct error *err);
bool stack_read(const struct json *json, struct arena *arena, struct stack *out, struct error *err);

#endif
