/* stack_pool.c - partial pooling of the factors that a fit found. */
#include "sim/study/measured/stack_pool.h"

#include <math.h>

struct pool {
    const struct stack_fit_group *groups;
    int64_t count;
};

/* Share of its distance that a factor of so many rows keeps where factors spread by `width`. */
static double own_weight(const struct stack_fit_group *group, double width) {
    const double ratio = STACK_POOL_ROW_WIDTH / width, n = (double)group->row_count;
    return n / (n + ratio * ratio);
}

static double drawn_to_stack(const struct pool *pool, const double *fitted, int64_t group) {
    double sum = 0, weights = 0;
    for (int64_t g = 0; g < pool->count; g++) {
        if (pool->groups[g].stack != pool->groups[group].stack) continue;
        const double weight = own_weight(&pool->groups[g], STACK_POOL_FACTOR_WIDTH);
        sum += weight * fitted[g];
        weights += weight;
    }
    const double own = own_weight(&pool->groups[group], STACK_POOL_FACTOR_WIDTH);
    return own * fitted[group] + (1 - own) * sum / weights;
}

/* The stack with what its factors were drawn to. */
static void drawn_stack(struct arena *arena, const struct pool *pool, const double *drawn,
                        const struct stack *stack, struct stack *out) {
    *out = *stack;
    out->borrows = false;
    out->factors = arena_array(arena, struct stack_factor, pool->count);
    out->factor_count = 0;
    for (int64_t g = 0; g < pool->count; g++) {
        if (pool->groups[g].stack != stack) continue;
        struct stack_factor *factor = &out->factors[out->factor_count++];
        *factor = pool->groups[g].factor;
        factor->kernel_time_factor = exp(drawn[g]);
    }
}

static bool seen_before(const struct pool *pool, int64_t group) {
    for (int64_t before = 0; before < group; before++)
        if (pool->groups[before].stack == pool->groups[group].stack) return true;
    return false;
}

static double drawn_to_others(struct arena *arena, const struct pool *pool, const double *drawn,
                              int64_t group) {
    const struct stack_fit_group *own = &pool->groups[group];
    if (own->stack->one_place) return drawn[group];
    struct stack *others = arena_array(arena, struct stack, pool->count);
    const struct stack **list = arena_array(arena, const struct stack *, pool->count);
    int64_t count = 0;
    for (int64_t g = 0; g < pool->count; g++) {
        if (pool->groups[g].stack == own->stack || seen_before(pool, g)) continue;
        drawn_stack(arena, pool, drawn, pool->groups[g].stack, &others[count]);
        list[count] = &others[count];
        count++;
    }
    if (count == 0) return drawn[group];
    const double usual =
        stack_usual_log_factor(list, count, own->factor.gpu, own->factor.precision);
    const double weight = own_weight(own, STACK_POOL_STACK_WIDTH);
    return weight * drawn[group] + (1 - weight) * usual;
}

double *stack_pool(struct arena *arena, const struct stack_fit_group *groups, int64_t count,
                   const double *fitted) {
    const struct pool pool = { groups, count };
    double *drawn = arena_array(arena, double, count + 1),
           *pooled = arena_array(arena, double, count + 1);
    for (int64_t g = 0; g < count; g++)
        drawn[g] = drawn_to_stack(&pool, fitted, g);
    for (int64_t g = 0; g < count; g++)
        pooled[g] = drawn_to_others(arena, &pool, drawn, g);
    return pooled;
}
