/* stack_fit.c - least squares on ln(predicted / measured), each prediction a simulated step.
 *
 * Levenberg-Marquardt of GSL over the logarithms of the factors, derivatives by differences. A
 * factor near 1 is likelier than one far away: one more residual per factor, ln(factor) over
 * PRIOR_WIDTH against MEASUREMENT_WIDTH of a row, which also makes two factors of one row defined.
 *
 * Then the factors are drawn together (stack_pool.h).
 */
#include "sim/study/measured/stack_fit.h"

#include <gsl/gsl_blas.h>
#include <gsl/gsl_multifit_nlinear.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>
#include "sim/study/measured/stack_pool.h"

/* Run-to-run spread of published step times is 1 to 5 %. */
#define MEASUREMENT_WIDTH 0.03
#define PRIOR_WIDTH       0.5
#define NOTABLE_LAUNCHES  0.05 /* of a step */
#define NOTABLE_MISFIT    0.25 /* of rows that one factor shall explain */
enum { PARAMETER_LIMIT = 2, ITERATION_LIMIT = 30 };

struct fit_row {
    const struct measured_run *run;
    struct measured_scenario scenario;
    int64_t group;
    double lost_before; /* 1 - HFU by what held until now */
};

struct problem {
    const struct scenario_options *options;
    const struct fit_row *rows;
    int64_t row_count, group;
    const struct stack *stack;
    struct stack_factor factor; /* GPU and precision of the group */
    int parameter_count;
    double lost_fraction;   /* 1 - HFU of the group's rows at the last factors, their mean */
    double launch_fraction; /* of a step that they wait for launches, at a factor of 1 */
    struct error *err;
};

/* Times stay numbers of nanoseconds, whatever a row says. */
static double factor_of(const gsl_vector *x, size_t i) {
    enum { FAR = 9 };
    return exp(fmin(fmax(gsl_vector_get(x, i), -FAR), FAR));
}

/* The stack with this one factor. */
static struct stack with_factor(const struct problem *problem, const gsl_vector *x,
                                struct stack_factor *factor) {
    static const char *none[] = { NULL };
    *factor = problem->factor;
    factor->kernel_time_factor = factor_of(x, 0);
    factor->attention_time_factor = problem->parameter_count > 1 ? factor_of(x, 1) : 1;
    factor->calibrated_on = none;
    struct stack stack = *problem->stack;
    stack.factors = factor;
    stack.factor_count = 1;
    stack.uncalibrated = false;
    return stack;
}

static int residuals(const gsl_vector *x, void *context, gsl_vector *out) {
    struct problem *problem = context;
    struct stack_factor factor;
    struct stack stack = with_factor(problem, x, &factor);
    struct scenario_options options = *problem->options;
    options.stack = &stack;
    double lost = 0, launches = 0;
    size_t n = 0;
    for (int64_t i = 0; i < problem->row_count; i++) {
        const struct fit_row *row = &problem->rows[i];
        if (row->group != problem->group) continue;
        struct execution *e = measured_scenario_run(&options, &row->scenario, problem->err);
        if (e == NULL) return GSL_EFAILED;
        lost += 1 - e->replay->hfu_fraction;
        launches += e->replay->launch_cost_s / e->replay->step_time_mean_s;
        gsl_vector_set(
            out, n++, log(e->replay->step_time_mean_s / row->run->iter_time_s) / MEASUREMENT_WIDTH);
        execution_destroy(e);
    }
    problem->lost_fraction = lost / (double)n;
    if (isnan(problem->launch_fraction)) problem->launch_fraction = launches / (double)n;
    for (int p = 0; p < problem->parameter_count; p++)
        gsl_vector_set(out, n++, gsl_vector_get(x, (size_t)p) / PRIOR_WIDTH);
    return GSL_SUCCESS;
}

/* Root mean square over the group's rows at these factors. */
static double error_of_rows(const gsl_vector *residual, int64_t row_count) {
    double squares = 0;
    for (int64_t i = 0; i < row_count; i++)
        squares += pow(gsl_vector_get(residual, (size_t)i) * MEASUREMENT_WIDTH, 2);
    return sqrt(squares / (double)row_count);
}

static bool fit_group(struct problem *problem, struct stack_fit_group *group) {
    problem->launch_fraction = NAN;
    const size_t p = (size_t)problem->parameter_count, n = (size_t)group->row_count + p;
    double start[PARAMETER_LIMIT] = { 0, 0 };
    gsl_vector_view x = gsl_vector_view_array(start, p);
    gsl_multifit_nlinear_parameters parameters = gsl_multifit_nlinear_default_parameters();
    parameters.h_df = 0.01; /* steps are whole nanoseconds: finer differences are noise */
    gsl_multifit_nlinear_fdf system = { .f = residuals, .n = n, .p = p, .params = problem };
    gsl_multifit_nlinear_workspace *w =
        gsl_multifit_nlinear_alloc(gsl_multifit_nlinear_trust, &parameters, n, p);
    gsl_error_handler_t *handler = gsl_set_error_handler_off();
    int info, status = gsl_multifit_nlinear_init(&x.vector, &system, w);
    if (status == GSL_SUCCESS)
        status = gsl_multifit_nlinear_driver(ITERATION_LIMIT, 1e-5, 1e-5, 0, NULL, NULL, &info, w);
    gsl_set_error_handler(handler);
    const bool ok = problem->err->text[0] == '\0';
    /* No progress at machine precision is an answer too. */
    if (ok && status != GSL_SUCCESS && status != GSL_ENOPROG && status != GSL_EMAXITER)
        error_set(problem->err, "the fit of stack \"%s\" failed: %s", problem->stack->name,
                  gsl_strerror(status));
    if (problem->err->text[0] == '\0') {
        const gsl_vector *best = gsl_multifit_nlinear_position(w);
        group->launch_fraction = problem->launch_fraction;
        group->factor.kernel_time_factor = exp(gsl_vector_get(best, 0));
        group->factor.attention_time_factor = p > 1 ? exp(gsl_vector_get(best, 1)) : 1;
        group->factor.fit_error = error_of_rows(gsl_multifit_nlinear_residual(w), group->row_count);
    }
    gsl_multifit_nlinear_free(w);
    return problem->err->text[0] == '\0';
}

/* Sets the group's factor, and says how far its rows are from it. */
static bool move_factor(const struct stack_fit *fit, double log_factor, struct problem *problem) {
    struct stack_fit_group *group = &fit->groups[problem->group];
    double factors[PARAMETER_LIMIT] = { log_factor, log(group->factor.attention_time_factor) };
    const size_t p = (size_t)problem->parameter_count;
    gsl_vector_view x = gsl_vector_view_array(factors, p);
    gsl_vector *residual = gsl_vector_alloc((size_t)group->row_count + p);
    const bool ok = residuals(&x.vector, problem, residual) == GSL_SUCCESS;
    group->factor.kernel_time_factor = exp(log_factor);
    if (ok) group->factor.fit_error = error_of_rows(residual, group->row_count);
    gsl_vector_free(residual);
    return ok;
}

/* A factor that is drawn nowhere keeps what was found of its rows. */
static bool draw_together(struct arena *arena, const struct stack_fit *fit, const double *fitted,
                          struct problem *problems) {
    const double *drawn = stack_pool(arena, fit->groups, fit->group_count, fitted);
    for (int64_t g = 0; g < fit->group_count; g++)
        if (drawn[g] != fitted[g] && !move_factor(fit, drawn[g], &problems[g])) return false;
    return true;
}

/* ---- groups ---- */

/* "h100-80g-sxm" belongs to h100. */
static const char *gpu_family(struct arena *arena, const char *hardware) {
    return arena_format(arena, "%.*s", (int)strcspn(hardware, "-"), hardware);
}

/* What held besides the factor until now and does not from now on: what stacks without one take
 * more, and of a stack that is to know encoders what those do. Other factors stand on top of it. */
static double usual_before(const struct stack *stack, const struct step_bands *bands,
                           bool writes_text, bool calibrated) {
    if (bands == NULL) return 1;
    if (writes_text || isnan(bands->encoder_factor))
        return stack->uncalibrated ? bands->uncalibrated_stack_factor : 1;
    return !calibrated && stack_knows_multimodal(stack, true, false) ? bands->encoder_factor : 1;
}

static int64_t group_of(struct stack_fit *fit, struct arena *arena, const struct fit_row *row,
                        const struct step_bands *bands) {
    const char *gpu = gpu_family(arena, row->scenario.gpu);
    const enum precision precision = measured_precision(row->run);
    for (int64_t i = 0; i < fit->group_count; i++) {
        const struct stack_fit_group *g = &fit->groups[i];
        if (g->stack == row->scenario.stack && strcmp(g->factor.gpu, gpu) == 0 &&
            g->factor.precision == precision)
            return i;
    }
    struct stack_fit_group *g = &fit->groups[fit->group_count];
    *g = (struct stack_fit_group){ .stack = row->scenario.stack,
                                   .factor = { .gpu = gpu, .precision = precision } };
    struct stack_use use = stack_on(g->stack, row->scenario.gpu, precision);
    g->writes_text = measured_writes_text(row->scenario.document);
    g->multimodal = !measured_is_text(row->scenario.document);
    g->before_kernel =
        use.kernel_time_factor * usual_before(g->stack, bands, g->writes_text, use.calibrated);
    g->before_attention = use.attention_time_factor;
    g->was_calibrated = use.calibrated;
    return fit->group_count++;
}

static bool wanted(const char *const *row_ids, const char *row_id) {
    if (row_ids == NULL) return true;
    for (; *row_ids != NULL; row_ids++)
        if (strcmp(*row_ids, row_id) == 0) return true;
    return false;
}

static bool check_ids(const struct measured_runs *runs, const char *const *row_ids,
                      struct error *err) {
    for (; row_ids != NULL && *row_ids != NULL; row_ids++) {
        bool found = false;
        for (int64_t i = 0; i < runs->count && !found; i++)
            found = strcmp(runs->rows[i].row_id, *row_ids) == 0;
        if (!found) return error_set(err, "%s has no row \"%s\"", runs->path, *row_ids);
    }
    return true;
}

static void skip(struct stack_fit *fit, const char *row_id, const char *reason) {
    fit->skips[fit->skip_count++] = (struct stack_fit_skip){ row_id, reason };
}

/* Why the row's scenario cannot run, as in fp4 on a GPU without; NULL: it can, and did as it is
 * priced until now. */
static const char *complaint_of(const struct scenario_options *options, struct arena *arena,
                                struct fit_row *row) {
    struct error err = { 0 };
    struct execution *e = measured_scenario_run(options, &row->scenario, &err);
    if (e == NULL) return measured_run_complaint(arena, row->run, err.text);
    row->lost_before = 1 - e->replay->hfu_fraction;
    execution_destroy(e);
    return NULL;
}

static bool is_of_folder(const struct stack_list *list, const struct stack *stack) {
    for (int64_t i = 0; i < list->count; i++)
        if (list->stacks[i] == stack) return true;
    return false;
}

static const char *skip_reason(const struct measured_context *context,
                               const struct measured_scenario *scenario) {
    struct arena *arena = context->arena;
    if (scenario->skip == SKIP_NOTHING && !is_of_folder(&context->stacks, scenario->stack))
        return arena_format(arena, "its stack is %s: factors are fitted for those of %s/stacks",
                            scenario->layout_stack, context->directory);
    if (scenario->skip == SKIP_NOTHING) return "no step time was measured";
    const char *name = validation_skip_name(scenario->skip);
    return scenario->skip_detail != NULL
               ? arena_format(arena, "%s (%s)", name, scenario->skip_detail)
               : name;
}

static void warn(struct stack_fit *fit, const char *sentence) {
    fit->warnings[fit->warning_count++] = sentence;
}

/* A name that is not the stack's, and not one of its words. */
static void warn_stand_in(struct stack_fit *fit, struct arena *arena, const struct fit_row *row) {
    const struct measured_scenario *scenario = &row->scenario;
    if (scenario->exact_stack) return;
    const char *named = row->run->stack;
    warn(fit, arena_format(arena, "row %s %s: its factor goes to %s, %s", row->run->row_id,
                           named[0] == '\0' ? "names no stack"
                                            : arena_format(arena,
                                                           "is of stack \"%s\", which is "
                                                           "not known",
                                                           named),
                           scenario->stack->name,
                           scenario->known_stack ? "the nearest of its family"
                                                 : "which stands in for it by layout alone"));
}

/* What a stack's file may hold (costmodel/stack_file.c). */
static bool check_factor(const struct stack_fit_group *g, const struct fit_row *rows,
                         int64_t row_count, int64_t group, struct error *err) {
    const double f = g->factor.kernel_time_factor;
    if (f >= STACK_FACTOR_LEAST && f <= STACK_FACTOR_MOST) return true;
    const struct fit_row *row = NULL;
    for (int64_t i = 0; i < row_count && row == NULL; i++)
        if (rows[i].group == group) row = &rows[i];
    char others[48] = "";
    if (g->row_count > 1)
        snprintf(others, sizeof others, " and %ld other%s", (long)g->row_count - 1,
                 g->row_count == 2 ? "" : "s");
    error_set(err,
              "%s on %s, %s: row %s%s would need kernels of %.3g times the usual "
              "time, outside %g to %g",
              g->stack->name, g->factor.gpu, precision_name(g->factor.precision),
              row != NULL ? row->run->row_id : "?", others, f, STACK_FACTOR_LEAST,
              STACK_FACTOR_MOST);
    return error_hint(err, "iter_time_s is seconds of an optimizer step; `ballast validate` shows "
                           "each row beside its prediction");
}

static bool is_first_of_stack(const struct stack_fit *fit, const struct stack_fit_group *group) {
    const struct stack_fit_group *g = fit->groups;
    while (g->stack != group->stack)
        g++;
    return g == group;
}

static void warn_of_group(struct stack_fit *fit, struct arena *arena,
                          const struct stack_fit_group *g) {
    const double f = g->factor.kernel_time_factor;
    const char *where = arena_format(arena, "%s on %s, %s", g->stack->name, g->factor.gpu,
                                     precision_name(g->factor.precision));
    if (f < STACK_USUAL_FACTOR_LEAST || f > STACK_USUAL_FACTOR_MOST)
        warn(fit,
             arena_format(arena,
                          "%s: a factor of %.3f is outside %.1f to %.1f, where most stacks lie; "
                          "look at the rows' layout, batch and step time",
                          where, f, STACK_USUAL_FACTOR_LEAST, STACK_USUAL_FACTOR_MOST));
    if (g->factor.fit_error > NOTABLE_MISFIT)
        warn(fit, arena_format(arena,
                               "%s: one factor leaves its rows %.0f %% off, and the band is no "
                               "narrower than that; look at their layout, batch and step time",
                               where, g->factor.fit_error * 100));
    if (g->launch_fraction > NOTABLE_LAUNCHES)
        warn(fit, arena_format(
                      arena,
                      "%s: launches that are waited for cost its rows %.0f %% of a "
                      "step, and a factor of the kernels takes up how far the host's time errs; "
                      "fit on rows with more tokens a micro-batch, or set host_forward_us and "
                      "host_backward_us in the stack's file first",
                      where, g->launch_fraction * 100));
    if (g->stack->borrows && is_first_of_stack(fit, g))
        warn(fit, arena_format(arena,
                               "%s had the factors of %s until now; with one of its own it takes "
                               "none of those, on other GPUs neither",
                               g->stack->name, g->stack->relative));
}

/* The least band of models like those of the fit, on a stack that is calibrated for them or not. */
static struct band of_images(const struct stack_fit_group *g, const struct step_bands *bands,
                             bool calibrated) {
    if (stack_knows_multimodal(g->stack, calibrated, g->writes_text))
        return band_even(g->stack->multimodal_band);
    const double encoder_factor =
        isnan(bands->encoder_factor) || g->stack->simulated ? 1 : bands->encoder_factor;
    return step_ratios_band(step_band_of_images(bands, g->writes_text, encoder_factor));
}

/* What cost_model_step_band() gives from now on, and gave before, to a model like those of the fit,
 * of which so much of a step is lost. */
static void find_band(struct stack_fit_group *g, const struct step_bands *bands,
                      double lost_fraction, double lost_before) {
    const struct step_band *own =
        bands == NULL ? NULL : step_band_of(bands, g->stack->name, g->factor.gpu);
    g->band_rows = own != NULL ? own->rows : 0;
    if (bands == NULL) {
        g->band = g->band_before = band_even(NAN);
        return;
    }
    g->band = band_even(fmax(
        step_band_fraction(bands, g->stack->name, g->factor.gpu, true, true, true, lost_fraction),
        stack_factor_doubt(&g->factor)));
    g->band_before = band_even(step_band_fraction(bands, g->stack->name, g->factor.gpu,
                                                  g->was_calibrated, false, true, lost_before));
    if (!g->multimodal) return;
    g->band = band_wider(g->band, of_images(g, bands, true));
    g->band_before = band_wider(g->band_before, of_images(g, bands, g->was_calibrated));
}

static bool nothing_fitted(const struct stack_fit *fit, const char *path, struct error *err) {
    error_set(err, "no row of %s can be fitted", path);
    if (fit->skip_count > 0)
        error_hint(err, "the first, %s: %s", fit->skips[0].row_id, fit->skips[0].reason);
    return false;
}

struct stack_fit *stack_fit_run(struct arena *arena, const struct scenario_options *options,
                                const char *path, const char *const *row_ids,
                                void (*progress)(void *context, int64_t done, int64_t total),
                                void *progress_context, struct error *err) {
    struct measured_runs runs;
    struct measured_context context;
    if (!measured_runs_read(arena, path, &runs, err) || !check_ids(&runs, row_ids, err) ||
        !measured_context_make(&context, arena, options->directory, err))
        return NULL;
    context.runs = &runs;
    context.unknown_stack_factor = 1;
    struct stack_fit *fit = arena_new(arena, struct stack_fit);
    fit->stacks = context.stacks;
    fit->groups = arena_array(arena, struct stack_fit_group, runs.count + 1);
    fit->skips = arena_array(arena, struct stack_fit_skip, runs.count + 1);
    fit->warnings = arena_array(arena, const char *, 4 * runs.count + 1); /* 1 a row, 3 a group */
    struct fit_row *rows = arena_array(arena, struct fit_row, runs.count + 1);
    int64_t count = 0;
    for (int64_t i = 0; i < runs.count; i++) {
        struct fit_row *row = &rows[count];
        *row = (struct fit_row){ .run = &runs.rows[i] };
        if (!wanted(row_ids, row->run->row_id)) continue;
        measured_scenario_make(&context, row->run, &row->scenario);
        if (row->scenario.skip != SKIP_NOTHING || !(row->run->iter_time_s > 0) ||
            !is_of_folder(&context.stacks, row->scenario.stack)) {
            skip(fit, row->run->row_id, skip_reason(&context, &row->scenario));
            cJSON_Delete(row->scenario.document);
            continue;
        }
        const char *complaint = complaint_of(options, arena, row);
        if (complaint != NULL) {
            skip(fit, row->run->row_id, complaint);
            cJSON_Delete(row->scenario.document);
            continue;
        }
        warn_stand_in(fit, arena, row);
        row->group = group_of(fit, arena, row, context.bands);
        fit->groups[row->group].row_count++;
        count++;
    }
    bool ok = fit->group_count > 0 || nothing_fitted(fit, path, err);
    double *fitted = arena_array(arena, double, fit->group_count + 1);
    struct problem *problems = arena_array(arena, struct problem, fit->group_count + 1);
    for (int64_t g = 0; ok && g < fit->group_count; g++) {
        struct stack_fit_group *group = &fit->groups[g];
        group->factor.calibrated_on = arena_array(arena, const char *, group->row_count + 1);
        struct stack_run *fitted_runs = arena_array(arena, struct stack_run, group->row_count + 1);
        for (int64_t i = 0, n = 0; i < count; i++) {
            if (rows[i].group != g) continue;
            fitted_runs[n] = measured_stack_run(rows[i].run);
            group->factor.calibrated_on[n++] = rows[i].run->row_id;
        }
        group->factor.runs = fitted_runs;
        problems[g] = (struct problem){ .options = options,
                                        .rows = rows,
                                        .row_count = count,
                                        .group = g,
                                        .stack = group->stack,
                                        .factor = group->factor,
                                        .parameter_count = group->stack->attention_fitted ? 2 : 1,
                                        .err = err };
        ok = fit_group(&problems[g], group) && check_factor(group, rows, count, g, err);
        if (ok) fitted[g] = log(group->factor.kernel_time_factor);
        if (progress != NULL) progress(progress_context, g + 1, fit->group_count);
    }
    ok = ok && draw_together(arena, fit, fitted, problems);
    for (int64_t g = 0; ok && g < fit->group_count; g++) {
        double lost_before = 0;
        for (int64_t i = 0; i < count; i++)
            if (rows[i].group == g)
                lost_before += rows[i].lost_before / (double)fit->groups[g].row_count;
        find_band(&fit->groups[g], context.bands, problems[g].lost_fraction, lost_before);
        warn_of_group(fit, arena, &fit->groups[g]);
    }
    for (int64_t i = 0; i < count; i++)
        cJSON_Delete(rows[i].scenario.document);
    return ok ? fit : NULL;
}
