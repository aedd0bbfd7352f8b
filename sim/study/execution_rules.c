/* execution_rules.c - what the user's own figures price of a job. */
#include <string.h>
#include "sim/step/outer_operators.h"
#include "sim/study/execution.h"

/* Time of operators, and of those that one rule prices. */
struct rule_use {
    double all_s, ruled_s;
    bool beyond; /* some run at the hardware's rate or above it */
};

static void add(struct rule_use *use, const char *text, const char *source, double seconds,
                double efficiency) {
    use->all_s += seconds;
    if (strcmp(source, text) != 0) return;
    use->ruled_s += seconds;
    use->beyond = use->beyond || efficiency >= 1;
}

static struct rule_use use_of(const char *text, const struct price_record *prices, int64_t count,
                              const struct outer_list *outer, double stages) {
    struct rule_use use = { 0 };
    for (int64_t i = 0; i < count; i++)
        add(&use, text, prices[i].source,
            prices[i].price_s * prices[i].calls_per_step * prices[i].rank_fraction,
            prices[i].efficiency_fraction);
    for (int64_t i = 0; i < outer->count; i++)
        add(&use, text, outer->operators[i].price.source,
            outer->operators[i].price.seconds * outer->operators[i].calls / stages,
            outer->operators[i].price.efficiency);
    return use;
}

const char **execution_rule_notes(const struct execution *e, struct arena *arena) {
    const struct rule_list *rules = cost_model_rules(e->scenario->cost_model);
    const char **notes = arena_array(arena, const char *, rules->count + 1);
    if (rules->count == 0) return notes;
    int64_t count, noted = 0;
    struct price_record *prices = execution_prices(e, arena, &count);
    struct outer_list outer = { 0 };
    step_outer_operators(e->job->step, &e->job->typical, arena, &outer);
    for (int64_t i = 0; i < rules->count; i++) {
        const char *text = rules->rules[i].text;
        const bool own = i < e->scenario->own_rules.count; /* the scenario's come first */
        const struct rule_use use =
            use_of(text, prices, count, &outer, (double)e->job->plan.stage_count);
        if (use.ruled_s > 0)
            notes[noted++] =
                arena_format(arena, "%s: it prices %.3g %% of the operators' time%s", text,
                             100 * use.ruled_s / use.all_s,
                             use.beyond ? ", some at the hardware's peak rate or beyond it" : "");
        else if (own)
            notes[noted++] = arena_format(arena,
                                          "%s: it changes no price of this job (none has its "
                                          "layers and sizes, or another bound holds)",
                                          text);
    }
    outer_list_free(&outer);
    return notes;
}
