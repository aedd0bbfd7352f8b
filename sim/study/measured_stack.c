/* measured_stack.c - stacks that a row names and scenarios/stacks does not hold: a file of the
 * user's, and none at all.
 */
#include <string.h>
#include "sim/study/measured_row.h"

/* Each file is read once: rows of one stack share it, as those of a shipped one do. */
struct own_stack {
    const char *path;
    const struct stack *stack;
    const struct own_stack *next;
};

const struct stack *measured_own_stack(const struct measured_context *context, const char *path,
                                       const char **why_not) {
    struct arena *arena = context->arena;
    for (const struct own_stack *own = *context->own_stacks; own != NULL; own = own->next)
        if (strcmp(own->path, path) == 0) return own->stack;
    struct error err = { 0 };
    const struct stack *stack = stack_load(arena, context->directory, path, &err);
    if (stack == NULL) {
        *why_not = arena_format(arena, "%.*s", (int)strcspn(err.text, "\n"), err.text);
        return NULL;
    }
    struct own_stack *own = arena_new(arena, struct own_stack);
    *own = (struct own_stack){ path, stack, *context->own_stacks };
    *context->own_stacks = own;
    return stack;
}

const struct stack *measured_no_stack(void) {
    static const char *nothing[] = { NULL };
    static const struct stack none = { .name = "none",
                                       .description = "",
                                       .words = nothing,
                                       .runs = nothing,
                                       .backend = "",
                                       .memory_rows = nothing };
    return &none;
}
