/* monolithic_glpk.c - the monolithic program as a mixed-integer one, by GLPK's branch and bound.
 *
 * min T; s_b - s_a >= lag of each dependency; for a choice (a, b) with y = 1 where a runs first
 *     s_b >= s_a + occupied_a - M (1 - y),   s_a >= s_b + occupied_b - M' y
 * with M the least that heads and tails within the horizon allow; T >= s_a + tail_a. Times are in
 * milliseconds, memory in shares of the room.
 */
#include "sim/policy/joint/monolithic_program.h"

#include <glpk.h>
#include <math.h>
#include <stdlib.h>
#include "sim/base/error.h"

struct row {
    int *columns;
    double *values;
    int length;
};

struct builder {
    const struct monolithic_program *p;
    glp_prob *problem;
    struct row row;
};

static double ms(int64_t ns) {
    return (double)ns * 1e-6;
}

static int start_column(int32_t pass) {
    return pass + 1;
}

static int choice_column(const struct monolithic_program *p, int32_t choice) {
    return p->pass_count + 1 + choice;
}

static int end_column(const struct monolithic_program *p) {
    return p->pass_count + p->choice_count + 1;
}

static void put(struct builder *b, int column, double value) {
    b->row.columns[++b->row.length] = column;
    b->row.values[b->row.length] = value;
}

/* sum of what was put >= least, or <= most. */
static void close_row(struct builder *b, int type, double bound) {
    int row = glp_add_rows(b->problem, 1);
    glp_set_row_bnds(b->problem, row, type, bound, bound);
    glp_set_mat_row(b->problem, row, b->row.length, b->row.columns, b->row.values);
    b->row.length = 0;
}

static void add_columns(struct builder *b) {
    const struct monolithic_program *p = b->p;
    glp_add_cols(b->problem, end_column(p));
    for (int32_t t = 0; t < p->pass_count; t++) {
        double low = ms(p->head_ns[t]), high = ms(p->horizon_ns - p->tail_ns[t]);
        glp_set_col_bnds(b->problem, start_column(t), high > low ? GLP_DB : GLP_FX, low, high);
    }
    for (int32_t c = 0; c < p->choice_count; c++)
        glp_set_col_kind(b->problem, choice_column(p, c), GLP_BV);
    glp_set_col_bnds(b->problem, end_column(p), GLP_DB, ms(p->bound_ns), ms(p->horizon_ns) + 1e-6);
    glp_set_obj_coef(b->problem, end_column(p), 1);
}

static void add_times(struct builder *b) {
    const struct monolithic_program *p = b->p;
    for (int32_t k = 0; k < p->edge_count; k++) {
        put(b, start_column(p->edges[k].after), 1);
        put(b, start_column(p->edges[k].before), -1);
        close_row(b, GLP_LO, ms(p->edges[k].lag_ns));
    }
    for (int32_t t = 0; t < p->pass_count; t++) {
        put(b, end_column(p), 1);
        put(b, start_column(t), -1);
        close_row(b, GLP_LO, ms(p->tail_ns[t]));
    }
}

/* Runs `first` before `second` where y has the value `when`. */
static void add_side(struct builder *b, int32_t choice, int32_t first, int32_t second, bool when) {
    const struct monolithic_program *p = b->p;
    double occupied = ms(p->occupied_ns[first]);
    double most = ms(p->horizon_ns - p->tail_ns[first]) + occupied - ms(p->head_ns[second]);
    if (most <= 0) return; /* it holds anyway */
    put(b, start_column(second), 1);
    put(b, start_column(first), -1);
    put(b, choice_column(p, choice), when ? -most : most);
    close_row(b, GLP_LO, when ? occupied - most : occupied);
}

/* before(x, y) of two passes of a rank as coefficient x column + constant. */
static void put_before(struct builder *b, int32_t x, int32_t y, double weight, double *constant) {
    const struct monolithic_program *p = b->p;
    int64_t n = p->pass_count;
    if (p->reaches[x * n + y]) {
        *constant += weight;
    } else if (!p->reaches[y * n + x]) {
        bool turned = x > y; /* choices have the smaller number first */
        put(b, choice_column(p, p->choice_of[turned ? y * n + x : x * n + y]),
            turned ? -weight : weight);
        if (turned) *constant += weight;
    }
}

/* At the start of a forward, what began before and did not end, and itself. */
static void add_memory(struct builder *b, int32_t segment, int32_t rank) {
    const struct segment_graph *g = b->p->graph;
    int32_t own = monolithic_pass(g, segment, false, rank);
    double room = fmax(b->p->room_bytes[rank], 1);
    double constant = segment_graph_pass(g, segment, rank)->bytes / room;
    for (int32_t i = 0; i < g->segment_count; i++) {
        double held = segment_graph_pass(g, i, rank)->bytes / room;
        if (i == segment || held == 0) continue;
        put_before(b, monolithic_pass(g, i, false, rank), own, held, &constant);
        put_before(b, monolithic_pass(g, i, true, rank), own, -held, &constant);
    }
    close_row(b, GLP_UP, b->p->room_bytes[rank] / room - constant);
}

struct search {
    int64_t nodes, limit;
};

static void on_event(glp_tree *tree, void *info) {
    struct search *s = info;
    int active, current, total;
    glp_ios_tree_size(tree, &active, &current, &total);
    s->nodes = total;
    if (total >= s->limit) glp_ios_terminate(tree);
}

static void solve(glp_prob *problem, const struct monolithic_budget *budget,
                  struct monolithic_result *result) {
    struct search search = { .limit = budget->effort };
    glp_smcp simplex;
    glp_init_smcp(&simplex);
    simplex.msg_lev = GLP_MSG_OFF;
    simplex.tm_lim = (int)(budget->seconds * 1000);
    if (glp_simplex(problem, &simplex) != 0 || glp_get_status(problem) != GLP_OPT) return;
    double relaxed_ms = glp_get_obj_val(problem);
    glp_iocp options;
    glp_init_iocp(&options);
    options.msg_lev = GLP_MSG_OFF;
    options.tm_lim = (int)(budget->seconds * 1000);
    options.br_tech = GLP_BR_DTH;
    options.cb_func = on_event;
    options.cb_info = &search;
    int code = glp_intopt(problem, &options), status = glp_mip_status(problem);
    result->effort = search.nodes;
    int64_t bound_ns = (int64_t)(relaxed_ms * 1e6);
    if (bound_ns > result->bound_ns) result->bound_ns = bound_ns;
    if (status == GLP_OPT || status == GLP_FEAS) {
        int64_t best_ns = llround(glp_mip_obj_val(problem) * 1e6);
        if (best_ns < result->best_ns) result->best_ns = best_ns;
    }
    /* Nothing within the horizon but the schedule that is known is an answer, too. */
    result->solved = code == 0 && (status == GLP_OPT || status == GLP_NOFEAS);
    if (result->solved) result->bound_ns = result->best_ns;
}

void monolithic_glpk(const struct monolithic_program *p, const struct monolithic_budget *budget,
                     struct monolithic_result *result) {
    size_t columns = (size_t)end_column(p) + 2;
    struct builder b = { .p = p, .problem = glp_create_prob() };
    b.row.columns = memory_alloc(sizeof *b.row.columns * columns);
    b.row.values = memory_alloc(sizeof *b.row.values * columns);
    glp_term_out(GLP_OFF);
    add_columns(&b);
    add_times(&b);
    for (int32_t c = 0; c < p->choice_count; c++) {
        add_side(&b, c, p->choices[c].first, p->choices[c].second, true);
        add_side(&b, c, p->choices[c].second, p->choices[c].first, false);
    }
    for (int32_t r = 0; r < p->graph->rank_count; r++)
        for (int32_t i = 0; p->tight[r] && i < p->graph->segment_count; i++)
            add_memory(&b, i, r);
    solve(b.problem, budget, result);
    glp_delete_prob(b.problem);
    free(b.row.columns);
    free(b.row.values);
}
