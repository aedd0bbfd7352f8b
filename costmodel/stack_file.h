/* stack_file.h - one file of scenarios/stacks, as it stands there.
 *
 *     struct stack stack;
 *     const char **bases;
 *     struct json *json = stack_open(arena, "scenarios", "hf-ddp-2025", &bases, err);
 *     if (json == NULL || !stack_read(json, arena, &stack, err)) return NULL;
 *
 * Without what the folder gives it: its relative's factors and what is usual on a GPU (stack.h).
 */
#ifndef BALLAST_COSTMODEL_STACK_FILE_H
#define BALLAST_COSTMODEL_STACK_FILE_H

#include "costmodel/stack.h"

/* The file of this name or path, with what its "base" states and it does not: figures and causes with
 * their sources, never what names a stack or was measured of it (words, runs, factors, bands). A
 * stack without factors and a relative borrows of the base if that was calibrated, else of the
 * base's relative. *bases: names or paths of all bases below, NULL at the end. Caller destroys;
 * NULL: err. */
struct json *stack_open(struct arena *arena, const char *search_directory, const char *name,
                        const char ***bases, struct error *err);
/* Every figure that the file itself states has its source in this object. */
bool stack_check_sources(const struct json *json, const cJSON *sources, struct error *err);
bool stack_read(const struct json *json, struct arena *arena, struct stack *out, struct error *err);

#endif
