/* stack_file.h - files of scenarios/stacks, as they stand there, each read once.
 *
 *     struct stack_files files = { .arena = arena, .directory = "scenarios" };
 *     const struct stack *stack = stack_files_read(&files, "hf-ddp-2025", err);
 *     stack_files_close(&files);
 *
 * Without what the folder gives it: its relative's factors and what is usual on a GPU (stack.h).
 */
#ifndef BALLAST_COSTMODEL_STACK_FILE_H
#define BALLAST_COSTMODEL_STACK_FILE_H

#include "costmodel/stack.h"

/* What was read so far. Its documents live until stack_files_close(), its stacks as the arena. */
struct stack_files {
    struct arena *arena;
    const char *directory; /* of which stacks is a folder */
    struct stack_file *first;
};

/* The file of this name or path, with what its "base" states and it does not: figures and causes with
 * their sources, never what names a stack or was measured of it (words, runs, factors, bands). A
 * stack without factors and a relative borrows of the base if that was calibrated, else of the
 * base's relative. `bases`: names or paths of all bases below. NULL: err. */
const struct stack *stack_files_read(struct stack_files *files, const char *name,
                                     struct error *err);
void stack_files_close(struct stack_files *files);
/* Every figure that the file itself states has its source in this object. */
bool stack_check_sources(const struct json *json, const cJSON *sources, struct error *err);
bool stack_read(const struct json *json, struct arena *arena, struct stack *out, struct error *err);

#endif
