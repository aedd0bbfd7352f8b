/* memory_exact.c - the per-rank memory program as GLPK solves it (DIP, section 5.3).
 *
 * Binary o[i][j]: pair i takes candidate j. Least total time; one candidate a pair; at every event
 * the bytes of the pairs alive stay within the capacity, and where host memory has one, so do
 * theirs there. Bytes are scaled by the capacity's size, so that the solver's tolerances mean the
 * same for any GPU.
 */
#include "sim/policy/joint/memory_program.h"

#include <glpk.h>
#include <math.h>
#include <stdlib.h>
#include "sim/base/arena.h"

struct warm_start {
    const struct memory_program *program;
    const int32_t *chosen, *first_column;
    bool given;
};

/* Offers the choice we have as the first incumbent. */
static void on_event(glp_tree *tree, void *info) {
    struct warm_start *start = info;
    if (glp_ios_reason(tree) != GLP_IHEUR || start->given) return;
    start->given = true;
    int columns = glp_get_num_cols(glp_ios_get_prob(tree));
    double *x = memory_alloc(sizeof *x * (size_t)(columns + 1));
    for (int c = 0; c <= columns; c++)
        x[c] = 0;
    for (int32_t i = 0; i < start->program->pair_count; i++)
        x[start->first_column[i] + start->chosen[i]] = 1;
    glp_ios_heur_sol(tree, x);
    free(x);
}

static glp_prob *build(const struct memory_program *p, int32_t *first_column, double scale) {
    glp_prob *problem = glp_create_prob();
    glp_set_obj_dir(problem, GLP_MIN);
    int32_t columns = 0, most = 1;
    for (int32_t i = 0; i < p->pair_count; i++) {
        first_column[i] = columns + 1;
        columns += p->candidate_counts[i];
        if (p->candidate_counts[i] > most) most = p->candidate_counts[i];
    }
    glp_add_cols(problem, columns);
    const bool host = p->host_capacity_bytes != NULL;
    const int32_t host_row = p->pair_count + p->event_count;
    glp_add_rows(problem, host_row + (host ? p->event_count : 0));
    for (int32_t i = 0; i < p->pair_count; i++)
        glp_set_row_bnds(problem, i + 1, GLP_FX, 1, 1);
    for (int32_t k = 0; k < p->event_count; k++)
        glp_set_row_bnds(problem, p->pair_count + k + 1, GLP_UP, 0, p->capacity_bytes[k] / scale);
    for (int32_t k = 0; host && k < p->event_count; k++)
        glp_set_row_bnds(problem, host_row + k + 1, GLP_UP, 0, p->host_capacity_bytes[k] / scale);
    int *rows = memory_alloc(sizeof *rows * (size_t)(2 * p->event_count + 2));
    double *values = memory_alloc(sizeof *values * (size_t)(2 * p->event_count + 2));
    for (int32_t i = 0; i < p->pair_count; i++)
        for (int32_t j = 0; j < p->candidate_counts[i]; j++) {
            int column = first_column[i] + j, length = 0;
            glp_set_col_kind(problem, column, GLP_BV);
            glp_set_obj_coef(problem, column, p->candidates[i][j].seconds);
            rows[++length] = i + 1;
            values[length] = 1;
            for (int32_t k = p->first[i]; k <= p->last[i]; k++) {
                rows[++length] = p->pair_count + k + 1;
                values[length] = p->candidates[i][j].bytes / scale;
            }
            for (int32_t k = p->first[i]; host && k <= p->last[i]; k++) {
                rows[++length] = host_row + k + 1;
                values[length] = p->candidates[i][j].host_bytes / scale;
            }
            glp_set_mat_col(problem, column, length, rows, values);
        }
    free(rows);
    free(values);
    return problem;
}

static bool branch_and_bound(glp_prob *problem, double gap_fraction, double limit_seconds,
                             struct warm_start *start) {
    glp_smcp simplex;
    glp_init_smcp(&simplex);
    simplex.msg_lev = GLP_MSG_OFF;
    simplex.tm_lim = (int)(limit_seconds * 1000);
    if (glp_simplex(problem, &simplex) != 0 || glp_get_status(problem) != GLP_OPT) return false;
    glp_iocp options;
    glp_init_iocp(&options);
    options.msg_lev = GLP_MSG_OFF;
    options.mip_gap = gap_fraction;
    options.tm_lim = (int)(limit_seconds * 1000);
    options.cb_func = start != NULL ? on_event : NULL;
    options.cb_info = start;
    int code = glp_intopt(problem, &options);
    int status = glp_mip_status(problem);
    return (code == 0 || code == GLP_EMIPGAP || code == GLP_ETMLIM) &&
           (status == GLP_OPT || status == GLP_FEAS);
}

bool memory_program_exact(const struct memory_program *p, double gap_fraction, bool warm,
                          double limit_seconds, int32_t *chosen,
                          struct memory_program_result *result) {
    int32_t *first_column = memory_alloc(sizeof *first_column * (size_t)(p->pair_count + 1));
    double scale = 1;
    for (int32_t k = 0; k < p->event_count; k++)
        scale = fmax(scale, fabs(p->capacity_bytes[k]));
    glp_term_out(GLP_OFF);
    glp_prob *problem = build(p, first_column, scale);
    struct warm_start start = { p, chosen, first_column, false };
    bool ok = branch_and_bound(problem, gap_fraction, limit_seconds, warm ? &start : NULL);
    *result = (struct memory_program_result){ .feasible = ok };
    if (ok) {
        result->bound_seconds = glp_get_obj_val(problem); /* of the relaxation */
        for (int32_t i = 0; i < p->pair_count; i++)
            for (int32_t j = 0; j < p->candidate_counts[i]; j++)
                if (glp_mip_col_val(problem, first_column[i] + j) > 0.5) chosen[i] = j;
        for (int32_t i = 0; i < p->pair_count; i++)
            result->seconds += p->candidates[i][chosen[i]].seconds;
        if (result->seconds > 0)
            result->gap_fraction = fmax(0, 1 - result->bound_seconds / result->seconds);
    }
    glp_delete_prob(problem);
    free(first_column);
    return ok;
}
