/* hold_out.c - stacks without the factors of a source, and runs without the name of their stack. */
#include "sim/study/measured/hold_out.h"

#include <string.h>

static bool measured_by(const struct measured_runs *runs, const char *row_id, const char *source) {
    for (int64_t i = 0; i < runs->count; i++)
        if (strcmp(runs->rows[i].row_id, row_id) == 0 && strcmp(runs->rows[i].source, source) == 0)
            return true;
    return false;
}

/* The stack, without the factors that rows of the source went into. */
static struct stack *without_own_factors(struct arena *arena, const struct stack *stack,
                                         const struct measured_runs *runs, const char *source) {
    struct stack *copy = arena_new(arena, struct stack);
    *copy = *stack;
    copy->factors = arena_array(arena, struct stack_factor, stack->factor_count + 1);
    copy->factor_count = 0;
    for (int64_t k = 0; k < stack->factor_count; k++) {
        bool own = false;
        for (const char **id = stack->factors[k].calibrated_on; *id != NULL; id++)
            own = own || measured_by(runs, *id, source);
        if (!own) copy->factors[copy->factor_count++] = stack->factors[k];
    }
    copy->uncalibrated = false; /* what the others' share more is found from these */
    copy->held_back = true;
    return copy;
}

static struct stack_list without_source(struct arena *arena, const struct stack_list *all,
                                        const struct measured_runs *runs, const char *source) {
    struct stack_list list = { arena_array(arena, const struct stack *, all->count), all->count };
    for (int64_t i = 0; i < all->count; i++) {
        struct stack *copy = without_own_factors(arena, all->stacks[i], runs, source);
        copy->known = list.stacks;
        list.stacks[i] = copy;
    }
    return list;
}

/* The run as a source describes it whose stack nobody knows: the year of its software is left, and
 * the GPU that the stack would say. */
static struct measured_run without_stack(const struct measured_context *context,
                                         const struct measured_run *run,
                                         const struct stack_list *stacks) {
    struct measured_run anonymous = *run;
    const char *ignored;
    bool exact;
    const struct stack *stack = measured_is_file(run->stack)
                                    ? measured_own_stack(context, run->stack, &ignored)
                                    : stack_find(stacks, run->stack, false, &exact);
    anonymous.source = "";
    anonymous.stack =
        stack == NULL ? "" : arena_format(context->arena, "unknown-%ld", (long)stack->year);
    if (run->hardware[0] == '\0' && stack != NULL && stack->hardware != NULL)
        anonymous.hardware = stack->hardware;
    return anonymous;
}

struct measured_run hold_out_run(struct hold_out *h, const struct validation *v,
                                 const struct measured_context *context,
                                 const struct measured_run *run) {
    if (h->what == HOLD_OUT_NOTHING) return *run;
    if (h->source == NULL || strcmp(h->source, run->source) != 0)
        h->stacks = without_source(v->arena, &h->all, &v->runs, run->source);
    h->source = run->source;
    return h->what == HOLD_OUT_NAME ? without_stack(context, run, &h->all) : *run;
}

/* Those of the list are held out already. */
const struct stack *hold_out_stack(const struct hold_out *h, const struct validation *v,
                                   const struct measured_scenario *scenario,
                                   const struct measured_run *run) {
    if (scenario->skip != SKIP_NOTHING || !measured_is_file(scenario->layout_stack))
        return scenario->stack;
    struct stack *own = without_own_factors(v->arena, scenario->stack, &v->runs, run->source);
    own->known = h->stacks.stacks;
    own->known_count = h->stacks.count;
    return own;
}
