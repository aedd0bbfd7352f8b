/* search_quantity.c - search_progress.c and solver_study.c asked once a run. */
#include "sim/study/reproduce/search_quantity.h"

#include <math.h>
#include "sim/study/search_progress.h"
#include "sim/study/reproduce/solver_study.h"

/* ---- Figure 11 ---- */

static const struct search_progress *progress(struct quantity_source *s) {
    if (s->search != NULL) return s->search;
    struct search_progress_options options = { .iteration = 0 };
    struct error err = { 0 };
    struct search_progress *p = arena_new(s->arena, struct search_progress);
    if (!search_progress_run(s->execution->job, &options, s->arena, p, &err)) return NULL;
    return s->search = p;
}

double search_excess(struct quantity_source *s, enum search_method method) {
    const struct search_progress *p = progress(s);
    if (p == NULL) return NAN;
    int64_t best_ns = SEGMENT_DEAD_END, own_ns = p->methods[method].result.best_ns;
    for (int m = 0; m < SEARCH_METHOD_COUNT; m++)
        if (p->methods[m].result.best_ns < best_ns) best_ns = p->methods[m].result.best_ns;
    return own_ns == SEGMENT_DEAD_END ? NAN : (double)own_ns / (double)best_ns - 1;
}

double search_near_schedules(struct quantity_source *s, enum search_method method) {
    const struct search_progress *p = progress(s);
    return p != NULL ? (double)p->methods[method].near_schedules : NAN;
}

double search_near_s(struct quantity_source *s, enum search_method method) {
    const struct search_progress *p = progress(s);
    return p != NULL ? p->methods[method].near_s : NAN;
}

double search_gap(struct quantity_source *s) {
    const struct search_progress *p = progress(s);
    return p != NULL ? (double)p->methods[SEARCH_TREE].result.best_ns / (double)p->bound_ns - 1
                     : NAN;
}

/* ---- Figure 12 ---- */

/* By solver; the last is the search alone. */
static const struct solver_study *study(struct quantity_source *s, enum monolithic_solver solver) {
    if (s->solver[solver] != NULL) return s->solver[solver];
    struct error err = { 0 };
    struct solver_study *result = arena_new(s->arena, struct solver_study);
    if (!solver_study_run(s->execution->job, solver, result, &err)) return NULL;
    if (solver != MONOLITHIC_COUNT && !result->solvers[solver].ran) return NULL;
    return s->solver[solver] = result;
}

double search_wall_s(struct quantity_source *s) {
    const struct solver_study *r = study(s, MONOLITHIC_COUNT);
    return r != NULL ? r->search_s : NAN;
}

double solver_wall_s(struct quantity_source *s, enum monolithic_solver solver) {
    const struct solver_study *r = monolithic_built(solver) ? study(s, solver) : NULL;
    return r != NULL ? r->solvers[solver].wall_s : NAN;
}

double solver_killed(struct quantity_source *s, enum monolithic_solver solver) {
    const struct solver_study *r = monolithic_built(solver) ? study(s, solver) : NULL;
    return r != NULL ? r->solvers[solver].killed : NAN;
}

double solver_solved(struct quantity_source *s, enum monolithic_solver solver) {
    const struct solver_study *r = monolithic_built(solver) ? study(s, solver) : NULL;
    return r != NULL ? r->solvers[solver].solved : NAN;
}

double solver_ratio(struct quantity_source *s, enum monolithic_solver solver) {
    const struct solver_study *r = monolithic_built(solver) ? study(s, solver) : NULL;
    if (r == NULL || !r->solvers[solver].solved) return NAN;
    return (double)r->makespan_ns / (double)r->solvers[solver].best_ns;
}
