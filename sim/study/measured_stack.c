/* measured_stack.c - stacks that a row names and scenarios/stacks does not hold: a file of the
 * user's, none at all, and what a name that it lacks may be a slip of.
 */
#include <ctype.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>
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

static const char *name_at(const void *names, size_t index) {
    return ((const char *const *)names)[index];
}

/* Another release or year is no slip. */
static bool differs_in_letters(const char *a, const char *b) {
    for (;; a++, b++) {
        a += strspn(a, "0123456789.");
        b += strspn(b, "0123456789.");
        if (*a != *b) return true;
        if (*a == '\0') return false;
    }
}

/* A slip leaves the first letters and most of the others. */
static bool is_slip(const char *wanted, const char *name) {
    enum { ALIKE = 3, LONGER = 2 };
    const int64_t longer = (int64_t)strlen(wanted) - (int64_t)strlen(name);
    return strncasecmp(wanted, name, ALIKE) == 0 && llabs(longer) <= LONGER &&
           differs_in_letters(wanted, name);
}

static char *dashed(struct arena *arena, const char *name) {
    char *text = arena_text(arena, name);
    for (char *c = text; *c != '\0'; c++)
        *c = *c == '_' || *c == ' ' ? '-' : (char)tolower((unsigned char)*c);
    return text;
}

const char *measured_stack_meant(struct arena *arena, const struct stack_list *list,
                                 const char *name) {
    char *wanted = dashed(arena, name);
    char *year = strrchr(wanted, '-');
    if (year != NULL && stack_name_year(year) > 0) *year = '\0';
    size_t count = 0, limit = 0;
    for (int64_t i = 0; i < list->count; i++)
        for (const char **word = list->stacks[i]->words; *word != NULL; word++)
            limit++;
    const char **names = arena_array(arena, const char *, (int64_t)limit + list->count + 1);
    for (int64_t i = 0; i < list->count; i++) {
        names[count++] = list->stacks[i]->name;
        for (const char **word = list->stacks[i]->words; *word != NULL; word++)
            names[count++] = *word;
    }
    const char *near = nearest_name(wanted, count, name_at, names);
    if (near == NULL || strstr(wanted, dashed(arena, near)) != NULL) return NULL;
    return is_slip(wanted, near) ? near : NULL;
}

const struct stack *measured_no_stack(void) {
    static const char *nothing[] = { NULL };
    static const struct stack none = { .name = "none",
                                       .description = "",
                                       .words = nothing,
                                       .runs = nothing,
                                       .backend = "",
                                       .time_rows = nothing,
                                       .memory_rows = nothing,
                                       .multimodal_band = NAN };
    return &none;
}
