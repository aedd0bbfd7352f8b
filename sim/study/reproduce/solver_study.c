/* solver_study.c - the policy's own search, then a solver that starts from micro-batches in
 * turn. */
#include "sim/study/reproduce/solver_study.h"

#include "sim/base/wall_clock.h"
#include "sim/study/planner_study.h"

/* GLPK's nodes and Z3's resource units that take some 4 s at 3 micro-batches of VLM-S (264 choices)
 * on one core. Wall time guards against a slow machine there; programs of more than 400 choices are
 * solved by neither in minutes, so they get seconds, and nothing is proven whatever the machine. */
static const int64_t effort[MONOLITHIC_COUNT] = { [MONOLITHIC_GLPK] = 8000,
                                                  [MONOLITHIC_Z3] = 8000000 };
enum { SMALL_CHOICES = 400, SMALL_S = 60, LARGE_S = 5 };

struct visit {
    struct segment_search_options options;
    enum monolithic_solver solver;
    struct solver_study *study;
};

static int64_t in_turn(const struct segment_graph *g) {
    int32_t *order = arena_array(g->arena, int32_t, g->class_count);
    for (int32_t i = 0; i < g->class_count; i++)
        order[i] = i;
    struct interleaver *x = interleaver_create(g);
    int64_t ns = interleaver_run(x, order, TURN_ALTERNATE, NULL);
    interleaver_destroy(x);
    return ns;
}

static void look(void *context, const struct planner_study *planner) {
    struct visit *v = context;
    struct segment_graph *g = planner->segments->graph;
    struct segment_schedule schedule;
    schedule.tasks = arena_array(g->arena, struct segment_task, segment_schedule_size(g));
    double start = wall_clock_s();
    v->study->makespan_ns = dip_order(g, planner->segments->chunk_of, &v->options, &schedule);
    v->study->search_s = wall_clock_s() - start;
    v->study->bound_ns = segment_graph_bound_ns(g);
    if (v->solver == MONOLITHIC_COUNT || !monolithic_built(v->solver)) return;
    int64_t horizon_ns = in_turn(g);
    if (horizon_ns == SEGMENT_DEAD_END) horizon_ns = v->study->makespan_ns;
    bool small = monolithic_choice_count(g) <= SMALL_CHOICES;
    struct monolithic_budget budget = { effort[v->solver], small ? SMALL_S : LARGE_S };
    monolithic_solve(g, v->solver, horizon_ns, &budget, &v->study->solvers[v->solver]);
}

bool solver_study_run(const struct job *job, enum monolithic_solver solver,
                      struct solver_study *study, struct error *err) {
    *study = (struct solver_study){ 0 };
    struct visit visit = { .solver = solver, .study = study };
    if (!dip_search_options(job->step->iteration_planner, job->step->iteration_parameters,
                            &visit.options))
        return error_set(err, "the scenario's policy does not search an order for each iteration");
    return planner_study_run(job, 0, look, &visit, err);
}
