/* monolithic.c - the program that the solvers are given. */
#include "sim/policy/joint/monolithic_program.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>
#include "sim/base/error.h"
#include "sim/base/wall_clock.h"

static const char *const names[MONOLITHIC_COUNT] = { [MONOLITHIC_GLPK] = "GLPK",
                                                     [MONOLITHIC_Z3] = "Z3" };

const char *monolithic_name(enum monolithic_solver solver) {
    return names[solver];
}

bool monolithic_built(enum monolithic_solver solver) {
#ifdef BALLAST_WITH_Z3
    (void)solver;
    return true;
#else
    return solver != MONOLITHIC_Z3;
#endif
}

static void add_edge(struct monolithic_program *p, int32_t before, int32_t after, int64_t lag_ns) {
    p->edges[p->edge_count++] = (struct monolithic_edge){ before, after, lag_ns };
}

static void add_edges(struct monolithic_program *p) {
    const struct segment_graph *g = p->graph;
    int64_t last = g->rank_count - 1;
    for (int64_t i = 0; i < g->segment_count; i++) {
        const struct segment_pass *pass = segment_graph_pass(g, i, 0);
        for (int64_t r = 0; r < last; r++) {
            add_edge(p, monolithic_pass(g, i, false, r), monolithic_pass(g, i, false, r + 1),
                     pass[r].forward_ns + pass[r].send_forward_ns);
            add_edge(p, monolithic_pass(g, i, true, r + 1), monolithic_pass(g, i, true, r),
                     pass[r + 1].backward_ns + pass[r + 1].send_backward_ns);
        }
        int32_t from = g->successor_first[i], to = g->successor_first[i + 1];
        if (from == to)
            add_edge(p, monolithic_pass(g, i, false, last), monolithic_pass(g, i, true, last),
                     pass[last].forward_ns);
        for (int32_t k = from; k < to; k++) {
            const struct segment_pass *next = segment_graph_pass(g, g->successors[k], 0);
            add_edge(p, monolithic_pass(g, i, false, last),
                     monolithic_pass(g, g->successors[k], false, 0),
                     pass[last].forward_ns + pass[last].send_forward_ns);
            add_edge(p, monolithic_pass(g, g->successors[k], true, 0),
                     monolithic_pass(g, i, true, last), next->backward_ns + next->send_backward_ns);
        }
    }
}

/* Longest ways and who comes before whom, by relaxing until nothing changes: few levels. */
static void close_order(struct monolithic_program *p) {
    int32_t n = p->pass_count;
    for (int32_t t = 0; t < n; t++)
        p->tail_ns[t] = p->occupied_ns[t];
    for (bool changed = true; changed;) {
        changed = false;
        for (int32_t k = 0; k < p->edge_count; k++) {
            const struct monolithic_edge *e = &p->edges[k];
            if (p->head_ns[e->before] + e->lag_ns > p->head_ns[e->after]) {
                p->head_ns[e->after] = p->head_ns[e->before] + e->lag_ns;
                changed = true;
            }
            if (p->tail_ns[e->after] + e->lag_ns > p->tail_ns[e->before]) {
                p->tail_ns[e->before] = p->tail_ns[e->after] + e->lag_ns;
                changed = true;
            }
            bool *before = p->reaches + (int64_t)e->before * n;
            const bool *after = p->reaches + (int64_t)e->after * n;
            changed = changed || !before[e->after];
            before[e->after] = true;
            for (int32_t t = 0; t < n; t++)
                if (after[t] && !before[t]) before[t] = changed = true;
        }
    }
}

static void list_choices(struct monolithic_program *p) {
    int32_t n = p->pass_count, ranks = p->graph->rank_count;
    for (int32_t a = 0; a < n; a++)
        for (int32_t b = a + ranks; b < n; b += ranks) {
            int64_t ab = (int64_t)a * n + b, ba = (int64_t)b * n + a;
            p->choice_of[ab] = p->choice_of[ba] = -1;
            if (p->reaches[ab] || p->reaches[ba]) continue;
            p->choice_of[ab] = p->choice_count;
            p->choices[p->choice_count++] = (struct monolithic_choice){ a, b };
        }
}

static void measure_memory(struct monolithic_program *p) {
    const struct segment_graph *g = p->graph;
    for (int32_t r = 0; r < g->rank_count; r++) {
        double sum = 0, workspace = 0;
        for (int32_t i = 0; i < g->segment_count; i++) {
            sum += segment_graph_pass(g, i, r)->bytes;
            workspace = fmax(workspace, segment_graph_pass(g, i, r)->workspace_bytes);
        }
        p->room_bytes[r] = g->capacity_bytes[r] - workspace;
        p->tight[r] = sum > p->room_bytes[r];
    }
}

static void *zeroed(size_t bytes) {
    void *block = memory_alloc(bytes + 1);
    memset(block, 0, bytes + 1);
    return block;
}

static void make_program(struct monolithic_program *p, const struct segment_graph *g,
                         int64_t horizon_ns) {
    *p = (struct monolithic_program){ .graph = g,
                                      .pass_count = 2 * g->segment_count * g->rank_count,
                                      .horizon_ns = horizon_ns,
                                      .bound_ns = segment_graph_bound_ns(g) };
    size_t n = (size_t)p->pass_count;
    p->edges = zeroed(sizeof *p->edges * (2 * n + 2 * (size_t)g->edge_count));
    p->choices = zeroed(sizeof *p->choices * n * n / (size_t)g->rank_count);
    p->choice_of = zeroed(sizeof *p->choice_of * n * n);
    p->reaches = zeroed(n * n);
    p->occupied_ns = zeroed(sizeof *p->occupied_ns * n);
    p->head_ns = zeroed(sizeof *p->head_ns * n);
    p->tail_ns = zeroed(sizeof *p->tail_ns * n);
    p->tight = zeroed((size_t)g->rank_count);
    p->room_bytes = zeroed(sizeof *p->room_bytes * (size_t)g->rank_count);
    for (int64_t i = 0; i < g->segment_count; i++)
        for (int64_t r = 0; r < g->rank_count; r++) {
            const struct segment_pass *pass = segment_graph_pass(g, i, r);
            int64_t blocks = g->send_blocks_compute;
            p->occupied_ns[monolithic_pass(g, i, false, r)] =
                pass->forward_ns + blocks * pass->send_forward_ns;
            p->occupied_ns[monolithic_pass(g, i, true, r)] =
                pass->backward_ns + blocks * pass->send_backward_ns;
        }
    add_edges(p);
    close_order(p);
    list_choices(p);
    measure_memory(p);
}

static void free_program(struct monolithic_program *p) {
    free(p->edges);
    free(p->choices);
    free(p->choice_of);
    free(p->reaches);
    free(p->occupied_ns);
    free(p->head_ns);
    free(p->tail_ns);
    free(p->tight);
    free(p->room_bytes);
}

int64_t monolithic_choice_count(const struct segment_graph *g) {
    struct monolithic_program p;
    make_program(&p, g, 0);
    int64_t count = p.choice_count;
    free_program(&p);
    return count;
}

void monolithic_solve(const struct segment_graph *g, enum monolithic_solver solver,
                      int64_t horizon_ns, const struct monolithic_budget *budget,
                      struct monolithic_result *result) {
    double start = wall_clock_s();
    struct monolithic_program p;
    make_program(&p, g, horizon_ns);
    *result = (struct monolithic_result){ .ran = true,
                                          .best_ns = horizon_ns,
                                          .bound_ns = p.bound_ns,
                                          .passes = p.pass_count,
                                          .choices = p.choice_count };
    if (solver == MONOLITHIC_GLPK)
        monolithic_glpk(&p, budget, result);
    else
        monolithic_z3(&p, budget, result);
    free_program(&p);
    result->wall_s = wall_clock_s() - start;
}
