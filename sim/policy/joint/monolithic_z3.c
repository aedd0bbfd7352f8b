/* monolithic_z3.c - the monolithic program for Z3: difference constraints, a boolean for each
 * choice, and pseudo-boolean sums for memory. The makespan is closed in by bisection, one check
 * each, under an assumption: Z3 counts neither time nor work in push(), which took many minutes
 * with 12 micro-batches.
 *
 * Times are ticks of 10 us, durations rounded up, so that numbers stay small; what Z3 proves is
 * proven of that rounding, and results are given to the tick.
 *
 * Z3 looks at its limits between steps of its own, none while the program is built, and ends the
 * process where memory is short. So it runs in a process of its own, which is killed where it comes
 * back too late; what it had proven by then is kept.
 */
#include "sim/policy/joint/monolithic_program.h"

#ifdef BALLAST_WITH_Z3
#include <math.h>
#include <stdlib.h>
#include <string.h>
#include <z3.h>
#include "sim/base/error.h"
#include "sim/base/guarded_process.h"
#include "sim/base/units.h"
#include "sim/base/wall_clock.h"

enum { TICK_NS = 10000 };

/* What Z3 gets above its own limit before it is killed: measured ends of a check lie up to 0.3 s
 * behind it, more where the machine is busy. */
static double grace_s(double seconds) {
    return 1 + 0.2 * seconds;
}

struct builder {
    const struct monolithic_program *p;
    Z3_context context;
    Z3_solver solver;
    Z3_sort integer, boolean;
    Z3_ast *starts, *choices;
    Z3_ast end; /* no pass ends later */
};

static int64_t ticks(int64_t ns) {
    return (ns + TICK_NS - 1) / TICK_NS;
}

static Z3_ast number(struct builder *b, int64_t value) {
    return Z3_mk_int64(b->context, value, b->integer);
}

/* later - earlier >= lag */
static Z3_ast at_least(struct builder *b, Z3_ast later, Z3_ast earlier, int64_t lag) {
    Z3_ast both[2] = { later, earlier };
    return Z3_mk_ge(b->context, Z3_mk_sub(b->context, 2, both), number(b, lag));
}

static void add(struct builder *b, Z3_ast formula) {
    Z3_solver_assert(b->context, b->solver, formula);
}

static void add_times(struct builder *b) {
    const struct monolithic_program *p = b->p;
    for (int32_t t = 0; t < p->pass_count; t++) {
        b->starts[t] = Z3_mk_const(b->context, Z3_mk_int_symbol(b->context, t), b->integer);
        add(b, Z3_mk_ge(b->context, b->starts[t], number(b, ticks(p->head_ns[t]))));
        add(b, at_least(b, b->end, b->starts[t], ticks(p->tail_ns[t])));
    }
    for (int32_t k = 0; k < p->edge_count; k++)
        add(b, at_least(b, b->starts[p->edges[k].after], b->starts[p->edges[k].before],
                        ticks(p->edges[k].lag_ns)));
}

static void add_choices(struct builder *b) {
    const struct monolithic_program *p = b->p;
    for (int32_t c = 0; c < p->choice_count; c++) {
        Z3_ast first = b->starts[p->choices[c].first], second = b->starts[p->choices[c].second];
        b->choices[c] = Z3_mk_const(
            b->context, Z3_mk_int_symbol(b->context, p->pass_count + c), b->boolean);
        add(b, Z3_mk_implies(b->context, b->choices[c],
                             at_least(b, second, first,
                                      ticks(p->occupied_ns[p->choices[c].first]))));
        add(b, Z3_mk_implies(b->context, Z3_mk_not(b->context, b->choices[c]),
                             at_least(b, first, second,
                                      ticks(p->occupied_ns[p->choices[c].second]))));
    }
}

struct sum {
    Z3_ast *terms;
    int *weights;
    unsigned count;
    int64_t constant;
};

/* weight x before(x, y); a negative weight counts the opposite. */
static void put_before(struct builder *b, struct sum *sum, int32_t x, int32_t y, int weight) {
    const struct monolithic_program *p = b->p;
    int64_t n = p->pass_count;
    if (p->reaches[x * n + y]) {
        sum->constant += weight;
        return;
    }
    if (p->reaches[y * n + x]) return;
    bool turned = x > y;
    Z3_ast before = b->choices[p->choice_of[turned ? y * n + x : x * n + y]];
    if (turned) before = Z3_mk_not(b->context, before);
    if (weight < 0) {
        before = Z3_mk_not(b->context, before);
        sum->constant += weight;
        weight = -weight;
    }
    sum->terms[sum->count] = before;
    sum->weights[sum->count++] = weight;
}

/* In MiB: what is held rounded up, what is there rounded down. */
static void add_memory(struct builder *b, int32_t segment, int32_t rank, struct sum *sum) {
    const struct segment_graph *g = b->p->graph;
    int32_t own = monolithic_pass(g, segment, false, rank);
    sum->count = 0;
    sum->constant = (int64_t)ceil(segment_graph_pass(g, segment, rank)->bytes / BYTES_PER_MiB);
    for (int32_t i = 0; i < g->segment_count; i++) {
        int MiB = (int)ceil(segment_graph_pass(g, i, rank)->bytes / BYTES_PER_MiB);
        if (i == segment || MiB == 0) continue;
        put_before(b, sum, monolithic_pass(g, i, false, rank), own, MiB);
        put_before(b, sum, monolithic_pass(g, i, true, rank), own, -MiB);
    }
    int64_t room = (int64_t)(b->p->room_bytes[rank] / BYTES_PER_MiB) - sum->constant;
    if (room < 0)
        add(b, Z3_mk_false(b->context));
    else if (sum->count > 0)
        add(b, Z3_mk_pble(b->context, sum->count, sum->terms, sum->weights, (int)room));
}

static void add_all_memory(struct builder *b) {
    const struct segment_graph *g = b->p->graph;
    struct sum sum = { .terms = memory_alloc(sizeof *sum.terms * 2 * (size_t)g->segment_count),
                       .weights =
                           memory_alloc(sizeof *sum.weights * 2 * (size_t)g->segment_count) };
    for (int32_t r = 0; r < g->rank_count; r++)
        for (int32_t i = 0; b->p->tight[r] && i < g->segment_count; i++)
            add_memory(b, i, r, &sum);
    free(sum.terms);
    free(sum.weights);
}

static void set_budget(struct builder *b, int64_t effort, double seconds) {
    Z3_params params = Z3_mk_params(b->context);
    Z3_params_inc_ref(b->context, params);
    unsigned most = 4000000000u;
    Z3_params_set_uint(b->context, params, Z3_mk_string_symbol(b->context, "rlimit"),
                       effort < most ? (unsigned)effort : most);
    Z3_params_set_uint(b->context, params, Z3_mk_string_symbol(b->context, "timeout"),
                       (unsigned)(seconds * 1000));
    Z3_solver_set_params(b->context, b->solver, params);
    Z3_params_dec_ref(b->context, params);
}

/* What Z3 counts as its work so far. */
static int64_t effort_of(struct builder *b) {
    Z3_stats stats = Z3_solver_get_statistics(b->context, b->solver);
    Z3_stats_inc_ref(b->context, stats);
    int64_t effort = 0;
    for (unsigned i = 0; i < Z3_stats_size(b->context, stats); i++)
        if (strcmp(Z3_stats_get_key(b->context, stats, i), "rlimit count") == 0)
            effort = Z3_stats_get_uint_value(b->context, stats, i);
    Z3_stats_dec_ref(b->context, stats);
    return effort;
}

/* The makespan of the model that was found. */
static int64_t makespan(struct builder *b) {
    Z3_model model = Z3_solver_get_model(b->context, b->solver);
    Z3_model_inc_ref(b->context, model);
    int64_t most = 0;
    for (int32_t t = 0; t < b->p->pass_count; t++) {
        Z3_ast value;
        int64_t start = 0;
        if (Z3_model_eval(b->context, model, b->starts[t], true, &value))
            Z3_get_numeral_int64(b->context, value, &start);
        start += ticks(b->p->tail_ns[t]);
        if (start > most) most = start;
    }
    Z3_model_dec_ref(b->context, model);
    return most;
}

/* Into `result`: what is proven once the makespan lies in [low, high], in ticks. */
static void conclude(struct monolithic_result *result, int64_t low, int64_t high) {
    result->solved = low >= high;
    if (high * TICK_NS < result->best_ns) result->best_ns = high * TICK_NS;
    if (low * TICK_NS > result->bound_ns) result->bound_ns = low * TICK_NS;
    if (result->solved) result->bound_ns = result->best_ns;
}

/* A schedule that ends by `tick`? */
static Z3_lbool check(struct builder *b, int64_t tick) {
    Z3_ast by_then = Z3_mk_fresh_const(b->context, "by", b->boolean);
    add(b, Z3_mk_implies(b->context, by_then, Z3_mk_le(b->context, b->end, number(b, tick))));
    return Z3_solver_check_assumptions(b->context, b->solver, 1, &by_then);
}

static void bisect(struct builder *b, const struct monolithic_budget *budget, double until_s,
                   struct monolithic_result *result, struct guarded_process *guard) {
    const struct monolithic_program *p = b->p;
    int64_t low = p->bound_ns / TICK_NS, high = ticks(p->horizon_ns);
    while (low < high) {
        double left_s = until_s - wall_clock_s();
        int64_t left = budget->effort - result->effort, middle = low + (high - low) / 2;
        if (left_s <= 0 || left <= 0) break;
        set_budget(b, left, left_s);
        Z3_lbool answer = check(b, middle);
        result->effort = effort_of(b);
        if (answer == Z3_L_TRUE) {
            int64_t found = makespan(b);
            high = found < middle ? found : middle;
        } else if (answer == Z3_L_FALSE) {
            low = middle + 1;
        }
        conclude(result, low, high);
        guarded_process_tell(guard, result);
        if (answer == Z3_L_UNDEF) break;
    }
    conclude(result, low, high);
    guarded_process_tell(guard, result);
}

struct task {
    const struct monolithic_program *p;
    const struct monolithic_budget *budget;
    double until_s;
    struct monolithic_result result;
};

static void solve(void *context, struct guarded_process *guard) {
    struct task *task = context;
    const struct monolithic_program *p = task->p;
    Z3_config config = Z3_mk_config();
    struct builder b = { .p = p, .context = Z3_mk_context(config) };
    Z3_del_config(config);
    b.integer = Z3_mk_int_sort(b.context);
    b.boolean = Z3_mk_bool_sort(b.context);
    b.end = Z3_mk_fresh_const(b.context, "end", b.integer);
    b.solver = Z3_mk_simple_solver(b.context);
    Z3_solver_inc_ref(b.context, b.solver);
    set_budget(&b, task->budget->effort, task->budget->seconds); /* building can work too */
    b.starts = memory_alloc(sizeof *b.starts * (size_t)p->pass_count);
    b.choices = memory_alloc(sizeof *b.choices * (size_t)(p->choice_count + 1));
    add_times(&b);
    add_choices(&b);
    add_all_memory(&b);
    bisect(&b, task->budget, task->until_s, &task->result, guard);
    free(b.starts);
    free(b.choices);
    Z3_solver_dec_ref(b.context, b.solver);
    Z3_del_context(b.context);
}

void monolithic_z3(const struct monolithic_program *p, const struct monolithic_budget *budget,
                   struct monolithic_result *result) {
    struct task task = { p, budget, wall_clock_s() + budget->seconds, *result };
    double limit_s = budget->seconds + grace_s(budget->seconds);
    enum guarded_end end = guarded_process_run(solve, &task, limit_s, result, sizeof *result);
    result->ran = end != GUARDED_NOT_STARTED;
    result->killed = end == GUARDED_KILLED || end == GUARDED_CRASHED;
}

#else

void monolithic_z3(const struct monolithic_program *p, const struct monolithic_budget *budget,
                   struct monolithic_result *result) {
    (void)p, (void)budget;
    result->ran = false; /* not built with Z3 */
}

#endif
