/* validation.c - simulates the scenario of each row. */
#include "sim/study/measured/validation.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>
#include "sim/base/units.h"
#include "sim/study/measured/hold_out.h"

/* The published times of one run differ by this, as they are rounded. */
#define ROUNDED 5e-4

static bool same_where_said(double a, double b) {
    return a == b || a == 0 || b == 0;
}

static bool is_run(const struct stack_run *a, const struct stack_run *b) {
    return a->gpus == b->gpus && fabs(a->step_s / b->step_s - 1) < ROUNDED &&
           same_where_said(a->layers, b->layers) && same_where_said(a->hidden, b->hidden);
}

static bool is_named(const char *const *ids, const char *row_id) {
    for (; *ids != NULL; ids++)
        if (strcmp(*ids, row_id) == 0) return true;
    return false;
}

/* The row that some factor of the stack, a cause in its file or a constant was fitted on and that is
 * this run, be it by another id (not where the stack has the factors of another); NULL: none. */
static const char *calibration_row(const struct stack *stack, const char *gpu,
                                   const struct measured_run *run) {
    if (is_named(cost_model_calibration_rows, run->row_id) ||
        is_named((const char *const *)stack->time_rows, run->row_id))
        return run->row_id;
    const struct stack_run own = measured_stack_run(run);
    for (int64_t i = 0; i < stack->factor_count; i++) {
        const struct stack_factor *f = &stack->factors[i];
        const bool theirs = !stack->borrows && f->runs != NULL && stack_gpu_is(gpu, f->gpu) &&
                            stack_same_speed(f->precision, measured_precision(run));
        for (int64_t k = 0; f->calibrated_on[k] != NULL; k++)
            if (strcmp(f->calibrated_on[k], run->row_id) == 0 ||
                (theirs && is_run(&own, &f->runs[k])))
                return f->calibrated_on[k];
    }
    return NULL;
}

static const char *const reading_names[READING_COUNT] = {
    [READING_NONE] = "",
    [READING_ALLOCATED] = "allocated",
    [READING_RESERVED] = "reserved",
    [READING_DEVICE] = "device",
    [READING_FULL_CARD] = "full card",
    [READING_BEYOND_CARD] = "beyond the card",
};

const char *memory_reading_name(enum memory_reading reading) {
    return reading_names[reading];
}

/* Of an empty cell allocated, of one with no such word none. */
static enum memory_reading reading_named(const char *kind) {
    if (kind[0] == '\0') return READING_ALLOCATED;
    for (int i = READING_ALLOCATED; i <= READING_DEVICE; i++)
        if (strcmp(reading_names[i], kind) == 0) return (enum memory_reading)i;
    return READING_NONE;
}

static enum memory_reading reading_of(const struct measured_run *r, double card_GiB) {
    const enum memory_reading kind = reading_named(r->peak_mem_kind);
    if (isnan(r->peak_mem_GiB) || kind == READING_NONE) return READING_NONE;
    if (r->peak_mem_GiB > card_GiB) return READING_BEYOND_CARD;
    return kind != READING_ALLOCATED && r->peak_mem_GiB >= READING_FULL_FRACTION * card_GiB
               ? READING_FULL_CARD
               : kind;
}

static void add_note(struct validation_row *row, const char *note) {
    int64_t count = 0;
    while (row->notes[count] != NULL)
        count++;
    if (count < MEASURED_NOTE_LIMIT) row->notes[count] = note;
}

static void predict_memory(const struct execution *e, struct arena *arena,
                           struct validation_row *row) {
    const struct measured_run *r = row->measured;
    const struct replay *p = e->replay;
    const double card = cost_model_gpu(e->scenario->cost_model)->hbm_bytes;
    row->fits_predicted = p->verdict != VERDICT_OUT_OF_MEMORY;
    row->memory_close = p->memory_close;
    row->reading = reading_of(r, card / BYTES_PER_GiB);
    if (row->reading == READING_BEYOND_CARD)
        add_note(row, arena_format(arena,
                                   "peak_mem_GiB: %g is more than the %g GiB of the card: not "
                                   "scored",
                                   r->peak_mem_GiB, card / BYTES_PER_GiB));
    const struct stage_memory *peak = &p->stages[p->verdict_stage].peak;
    const enum memory_reading kind = reading_named(r->peak_mem_kind);
    const double bytes = kind == READING_DEVICE     ? stage_memory_device(peak)
                         : kind == READING_RESERVED ? stage_memory_reserved(peak)
                                                    : stage_memory_allocated(peak);
    row->predicted_peak_GiB = bytes / BYTES_PER_GiB;
    row->memory_relative_error =
        row->reading == READING_NONE ? NAN : row->predicted_peak_GiB / r->peak_mem_GiB - 1;
}

static void find_calibration(const struct measured_scenario *scenario,
                             const struct step_bands *bands, struct arena *arena,
                             struct validation_row *row) {
    const char *id = calibration_row(scenario->stack, scenario->gpu, row->measured);
    row->calibrated_on = id != NULL;
    if (row->finds_encoder_factor && !scenario->stack->held_back && bands != NULL &&
        step_band_lists(bands->calibrated_on, row->measured->row_id)) {
        row->calibrated_on = true;
        add_note(row, "one of the runs that encoder_factor of scenarios/bands.json was found "
                      "from: no prediction");
    }
    if (id != NULL && strcmp(id, row->measured->row_id) != 0)
        add_note(row, arena_format(arena,
                                   "the run that its stack was fitted on as row \"%.60s\", by the "
                                   "time of its step: no prediction",
                                   id));
}

/* Which of the fixed reasons an error is: a value that no field takes, or the rule it breaks. */
static enum validation_skip skip_of(const struct error *err) {
    static const struct {
        const char *rule;
        enum validation_skip skip;
    } reasons[] = {
        { "precision", SKIP_PRECISION },
        { "fp8-recipe", SKIP_PRECISION },
        { "attention-kernel", SKIP_ATTENTION },
    };
    if (err->rule == NULL) return SKIP_VALUE;
    for (size_t i = 0; i < sizeof reasons / sizeof reasons[0]; i++)
        if (strcmp(err->rule, reasons[i].rule) == 0) return reasons[i].skip;
    return SKIP_LAYOUT;
}

static bool predict(const struct scenario_options *options, struct measured_scenario *scenario,
                    struct arena *arena, struct validation_row *row, struct error *failure) {
    const struct measured_run *r = row->measured;
    struct error err = { 0 };
    struct execution *e = measured_scenario_run(options, scenario, &err);
    if (e == NULL && err.internal) { /* the machine's fault says nothing of the row */
        *failure = err;
        return false;
    }
    if (e == NULL) {
        row->skip = skip_of(&err);
        row->skip_detail = measured_run_complaint(arena, r, err.text);
        return true;
    }
    const struct replay *p = e->replay;
    row->predicted_s = p->step_time_mean_s;
    row->relative_error = row->predicted_s / r->iter_time_s - 1;
    const struct cost_model *model = e->scenario->cost_model;
    const double lost = row->lost_fraction = 1 - p->hfu_fraction;
    struct band band = p->band;
    row->multimodal = !model_is_text_decoder(e->scenario->model);
    const struct stack_use use = cost_model_stack(model);
    row->writes_text = model_writes_text(e->scenario->model);
    row->finds_encoder_factor =
        !row->writes_text && use.stack != NULL && !stack_states_encoders(&use);
    const struct step_doubt doubt = replay_doubt(p);
    const struct band like = cost_model_step_band(model, KIN_LIKE_MEASURED, doubt);
    if (band.below == like.below && band.above == like.above)
        band = cost_model_step_band_of_source(model, r->source, doubt);
    if (!scenario->exact_stack) /* what stands for it was calibrated, not it */
        band = band_wider(band, cost_model_step_band(model, KIN_OFF_STACK, doubt));
    const struct step_bands *bands = cost_model_bands(model);
    if (!scenario->exact_stack && row->multimodal)
        band = band_wider(band, cost_model_multimodal_band(model, true));
    const struct band unknown = cost_model_unknown_stack_band(model, lost);
    if (!scenario->known_stack) band = band_wider(band, unknown);
    if (scenario->half_known) band = band_wider(band, band_between(band, unknown));
    row->band = band;
    row->band_low_s = row->predicted_s * (1 - band.below);
    row->band_high_s = row->predicted_s * (1 + band.above);
    row->outside_fraction = p->outside_fraction;
    row->inside_range = p->inside_range;
    find_calibration(scenario, bands, arena, row);
    row->memory_used = is_named((const char *const *)scenario->stack->memory_rows, r->row_id);
    predict_memory(e, arena, row);
    execution_destroy(e);
    return true;
}

/* ---- running ---- */

static bool check_shared_row(const struct measured_runs *a, const struct measured_runs *b,
                             struct error *err) {
    for (int64_t i = 0; i < a->count; i++)
        for (int64_t k = 0; k < b->count; k++)
            if (strcmp(a->rows[i].row_id, b->rows[k].row_id) == 0) {
                error_at(err, a->path, a->rows[i].line, 0,
                         "row_id: \"%.60s\" is line %ld's of %s already", a->rows[i].row_id,
                         (long)b->rows[k].line, b->path);
                return error_hint(err,
                                  "a row that stands twice would count twice: rename it, or leave "
                                  "one of the files out");
            }
    return true;
}

/* The rows of all files, one after another. */
static bool read_files(struct validation *v, const char *const *paths, int64_t path_count,
                       struct error *err) {
    struct measured_runs *files = arena_array(v->arena, struct measured_runs, path_count);
    int64_t rows = 0, notes = 0;
    for (int64_t f = 0; f < path_count; f++) {
        if (!measured_runs_read(v->arena, paths[f], &files[f], err)) return false;
        for (int64_t g = 0; g < f; g++)
            if (!check_shared_row(&files[f], &files[g], err)) return false;
        rows += files[f].count;
        for (const char **note = files[f].notes; *note != NULL; note++)
            notes++;
    }
    v->runs.path = paths[0];
    v->runs.rows = arena_array(v->arena, struct measured_run, rows + 1);
    v->runs.notes = arena_array(v->arena, const char *, notes + 1);
    v->files = arena_array(v->arena, const char *, rows + 1);
    notes = 0;
    for (int64_t f = 0; f < path_count; f++) {
        for (int64_t i = 0; i < files[f].count; i++) {
            v->files[v->runs.count] = files[f].path;
            v->runs.rows[v->runs.count++] = files[f].rows[i];
        }
        for (const char **note = files[f].notes; *note != NULL; note++)
            v->runs.notes[notes++] = *note;
    }
    return true;
}

static const struct validation_row no_row = { .predicted_s = NAN,
                                              .relative_error = NAN,
                                              .lost_fraction = NAN,
                                              .outside_fraction = NAN,
                                              .band = { NAN, NAN },
                                              .band_low_s = NAN,
                                              .band_high_s = NAN,
                                              .predicted_peak_GiB = NAN,
                                              .memory_relative_error = NAN };

static void count_verdict(struct validation *v, const struct validation_row *row) {
    const bool fitted = strcmp(row->measured->outcome, "oom") != 0;
    v->confusion[fitted][row->fits_predicted]++;
    v->close[fitted][row->fits_predicted] += row->memory_close;
}

/* False: the machine failed, not the row. */
static bool run_row(const struct scenario_options *options, struct measured_context *context,
                    struct hold_out *hold_out, struct validation *v, int64_t i, struct error *err) {
    struct validation_row *row = &v->rows[i];
    *row = no_row;
    row->measured = &v->runs.rows[i];
    struct measured_scenario scenario;
    const struct measured_run run = hold_out_run(hold_out, v, context, row->measured);
    if (hold_out->what != HOLD_OUT_NOTHING) context->stacks = hold_out->stacks;
    measured_scenario_make(context, &run, &scenario);
    row->skip = scenario.skip;
    row->skip_detail = scenario.skip_detail;
    row->stack = scenario.stack;
    row->exact_stack = scenario.exact_stack;
    row->known_stack = scenario.known_stack;
    row->chosen_to_fit = scenario.chosen_to_fit;
    row->hardware = scenario.gpu;
    const char *modality = row->measured->modality;
    row->multimodal = modality[0] != '\0' && strcmp(modality, "text") != 0;
    row->notes = arena_array(v->arena, const char *, MEASURED_NOTE_LIMIT + 1);
    memcpy(row->notes, scenario.notes, sizeof scenario.notes);
    struct scenario_options own = *options;
    own.cache = context->cache;
    if (hold_out->what != HOLD_OUT_NOTHING)
        own.stack = scenario.stack = hold_out_stack(hold_out, v, &scenario, row->measured);
    const bool ran = row->skip != SKIP_NOTHING || predict(&own, &scenario, v->arena, row, err);
    if (row->skip == SKIP_NOTHING)
        row->calibrated_stack =
            row->exact_stack &&
            stack_on(scenario.stack, scenario.gpu, measured_precision(row->measured)).calibrated;
    cJSON_Delete(scenario.document);
    if (ran && row->skip == SKIP_NOTHING && !row->chosen_to_fit) count_verdict(v, row);
    return ran;
}

static struct validation *run_rows(const struct scenario_options *options, const char *const *paths,
                                   int64_t path_count, enum validation_hold_out what,
                                   void (*progress)(void *context, int64_t done, int64_t total),
                                   void *progress_context, struct error *err) {
    struct arena *arena = arena_create();
    struct validation *v = arena_new(arena, struct validation);
    v->arena = arena;
    struct measured_context context;
    if (!read_files(v, paths, path_count, err) ||
        !measured_context_make(&context, arena, options->directory, err)) {
        validation_destroy(v);
        return NULL;
    }
    context.runs = &v->runs;
    if (what != HOLD_OUT_NOTHING) context.unknown_stack_factor = 1;
    struct hold_out hold_out = { .what = what, .all = context.stacks };
    context.cache = scenario_cache_create();
    v->rows = arena_array(arena, struct validation_row, v->runs.count + 1);
    bool ran = true;
    for (int64_t i = 0; ran && i < v->runs.count; i++) {
        ran = run_row(options, &context, &hold_out, v, i, err);
        if (progress != NULL) progress(progress_context, i + 1, v->runs.count);
    }
    scenario_cache_destroy(context.cache);
    if (!ran) {
        validation_destroy(v);
        return NULL;
    }
    validation_find_cases(v);
    validation_summarise(v);
    return v;
}

struct validation *validation_run(const struct scenario_options *options, const char *const *paths,
                                  int64_t path_count,
                                  void (*progress)(void *context, int64_t done, int64_t total),
                                  void *progress_context, struct error *err) {
    return run_rows(options, paths, path_count, HOLD_OUT_NOTHING, progress, progress_context, err);
}

struct validation *validation_run_held_out(const struct scenario_options *options,
                                           const char *const *paths, int64_t path_count,
                                           enum validation_hold_out what, struct error *err) {
    return run_rows(options, paths, path_count, what, NULL, NULL, err);
}

void validation_destroy(struct validation *v) {
    if (v != NULL) arena_destroy(v->arena);
}
