/* validation.c - simulates the scenario of each row and sums the errors up. */
#include "sim/study/validation.h"

#include <gsl/gsl_sort.h>
#include <gsl/gsl_statistics_double.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>
#include "sim/base/units.h"

/* Some factor of its stack was fitted on the row. */
static bool calibrated_on(const struct stack *stack, const char *row_id) {
    for (const char *const *id = cost_model_calibration_rows; *id != NULL; id++)
        if (strcmp(*id, row_id) == 0) return true;
    for (int64_t i = 0; i < stack->factor_count; i++)
        for (const char **id = stack->factors[i].calibrated_on; *id != NULL; id++)
            if (strcmp(*id, row_id) == 0) return true;
    return false;
}

static void predict(const struct scenario_options *options, struct measured_scenario *scenario,
                    struct arena *arena, struct validation_row *row) {
    const struct measured_run *r = row->measured;
    struct error err = { 0 };
    struct execution *e = measured_scenario_run(options, scenario, &err);
    if (e == NULL) {
        row->skip = strstr(err.text, "cannot compute in") != NULL ? SKIP_PRECISION : SKIP_LAYOUT;
        row->skip_detail = arena_text(arena, err.text);
        return;
    }
    const struct replay *p = e->replay;
    row->predicted_s = p->step_time_mean_s;
    row->relative_error = row->predicted_s / r->iter_time_s - 1;
    row->band_low_s = row->predicted_s * (1 - p->band_fraction);
    row->band_high_s = row->predicted_s * (1 + p->band_fraction);
    row->inside_range = p->inside_range;
    row->calibrated_on = calibrated_on(scenario->stack, r->row_id);
    row->fits_predicted = p->verdict != VERDICT_OUT_OF_MEMORY;
    const struct stage_memory *peak = &p->stages[p->verdict_stage].peak;
    double bytes = strcmp(r->peak_mem_kind, "device") == 0     ? stage_memory_device(peak)
                   : strcmp(r->peak_mem_kind, "reserved") == 0 ? stage_memory_reserved(peak)
                                                               : stage_memory_allocated(peak);
    row->predicted_peak_GiB = bytes / BYTES_PER_GiB;
    row->memory_relative_error = row->predicted_peak_GiB / r->peak_mem_GiB - 1;
    execution_destroy(e);
}

/* ---- summaries ---- */

static void summarise(const struct validation *v, const char *source, struct validation_group *g) {
    *g = (struct validation_group){ .source = source };
    double *errors = memory_alloc(sizeof *errors * (size_t)(v->runs.count + 1));
    double covered = 0;
    for (int64_t i = 0; i < v->runs.count; i++) {
        const struct validation_row *row = &v->rows[i];
        if (source != NULL && strcmp(row->measured->source, source) != 0) continue;
        g->rows++;
        if (!isnan(row->memory_relative_error)) {
            g->memory_rows++;
            g->mean_abs_memory_error += fabs(row->memory_relative_error);
        }
        if (isnan(row->relative_error)) continue;
        errors[g->evaluated++] = fabs(row->relative_error);
        g->mean_abs_relative_error += fabs(row->relative_error);
        g->mean_signed_relative_error += row->relative_error;
        if (fabs(row->relative_error) > fabs(g->worst_relative_error))
            g->worst_relative_error = row->relative_error;
        double measured = row->measured->iter_time_s;
        covered += measured >= row->band_low_s && measured <= row->band_high_s;
    }
    if (g->memory_rows > 0) g->mean_abs_memory_error /= (double)g->memory_rows;
    if (g->evaluated > 0) {
        double n = (double)g->evaluated;
        g->mean_abs_relative_error /= n;
        g->mean_signed_relative_error /= n;
        g->band_coverage = covered / n;
        gsl_sort(errors, 1, (size_t)g->evaluated);
        g->median_abs_relative_error =
            gsl_stats_median_from_sorted_data(errors, 1, (size_t)g->evaluated);
        g->p90_abs_relative_error =
            gsl_stats_quantile_from_sorted_data(errors, 1, (size_t)g->evaluated, 0.9);
    }
    free(errors);
}

struct validation *validation_run(const struct scenario_options *options, const char *path,
                                  void (*progress)(void *context, int64_t done, int64_t total),
                                  void *progress_context, struct error *err) {
    struct arena *arena = arena_create();
    struct validation *v = arena_new(arena, struct validation);
    v->arena = arena;
    struct measured_context context;
    if (!measured_runs_read(arena, path, &v->runs, err) ||
        !measured_context_make(&context, arena, options->directory, err)) {
        validation_destroy(v);
        return NULL;
    }
    context.runs = &v->runs;
    v->rows = arena_array(arena, struct validation_row, v->runs.count);
    for (int64_t i = 0; i < v->runs.count; i++) {
        struct validation_row *row = &v->rows[i];
        *row = (struct validation_row){ .measured = &v->runs.rows[i],
                                        .predicted_s = NAN,
                                        .relative_error = NAN,
                                        .band_low_s = NAN,
                                        .band_high_s = NAN,
                                        .predicted_peak_GiB = NAN,
                                        .memory_relative_error = NAN };
        struct measured_scenario scenario;
        measured_scenario_make(&context, row->measured, &scenario);
        row->skip = scenario.skip;
        row->stack = scenario.stack;
        row->notes = arena_array(arena, const char *, MEASURED_NOTE_LIMIT + 1);
        memcpy(row->notes, scenario.notes, sizeof scenario.notes);
        if (row->skip == SKIP_NOTHING) predict(options, &scenario, arena, row);
        cJSON_Delete(scenario.document);
        if (row->skip == SKIP_NOTHING)
            v->confusion[strcmp(row->measured->outcome, "oom") != 0][row->fits_predicted]++;
        if (progress != NULL) progress(progress_context, i + 1, v->runs.count);
    }
    v->groups = arena_array(arena, struct validation_group, v->runs.count + 1);
    for (int64_t i = 0; i < v->runs.count; i++) {
        const char *source = v->rows[i].measured->source;
        bool known = false;
        for (int64_t k = 0; k < v->group_count && !known; k++)
            known = strcmp(v->groups[k].source, source) == 0;
        if (!known) summarise(v, source, &v->groups[v->group_count++]);
    }
    summarise(v, NULL, &v->all);
    return v;
}

void validation_destroy(struct validation *v) {
    if (v != NULL) arena_destroy(v->arena);
}
