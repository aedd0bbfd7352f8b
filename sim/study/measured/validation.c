/* validation.c - simulates the scenario of each row and sums the errors up. */
#include "sim/study/measured/validation.h"

#include <gsl/gsl_sort.h>
#include <gsl/gsl_statistics_double.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>
#include "sim/base/units.h"

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

static void predict(const struct scenario_options *options, struct measured_scenario *scenario,
                    struct arena *arena, struct validation_row *row) {
    const struct measured_run *r = row->measured;
    struct error err = { 0 };
    struct execution *e = measured_scenario_run(options, scenario, &err);
    if (e == NULL) {
        row->skip =
            strstr(err.text, "cannot compute in") != NULL ||
                    strstr(err.text, "/training/precision: ") != NULL
                ? SKIP_PRECISION
            : strstr(err.text, "/training/attention: ") != NULL ? SKIP_ATTENTION
            : strstr(err.text, ": must be ") != NULL || strstr(err.text, ": unknown ") != NULL
                ? SKIP_VALUE
                : SKIP_LAYOUT;
        row->skip_detail = measured_run_complaint(arena, r, err.text);
        return;
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
}

/* ---- summaries ---- */

static struct error_statistics statistics_of(double *errors, int64_t count) {
    struct error_statistics s = { .count = count,
                                  .mean_abs = NAN,
                                  .median_abs = NAN,
                                  .p90_abs = NAN,
                                  .worst = NAN,
                                  .mean_signed = NAN };
    if (count == 0) return s;
    s.mean_signed = gsl_stats_mean(errors, 1, (size_t)count);
    s.worst = 0;
    for (int64_t i = 0; i < count; i++) {
        if (fabs(errors[i]) > fabs(s.worst)) s.worst = errors[i];
        errors[i] = fabs(errors[i]);
    }
    s.mean_abs = gsl_stats_mean(errors, 1, (size_t)count);
    gsl_sort(errors, 1, (size_t)count);
    s.median_abs = gsl_stats_median_from_sorted_data(errors, 1, (size_t)count);
    s.p90_abs = gsl_stats_quantile_from_sorted_data(errors, 1, (size_t)count, 0.9);
    return s;
}

/* Rows of one source (NULL: of all), of every kind of model or of one. */
struct selection {
    const char *source;
    enum { ANY_MODEL, TEXT_DECODERS, OTHER_MODELS } models;
};

static bool selects(const struct selection *of, const struct validation_row *row) {
    return (of->source == NULL || strcmp(row->measured->source, of->source) == 0) &&
           (of->models == ANY_MODEL || row->multimodal == (of->models == OTHER_MODELS));
}

static bool counts(const struct validation_row *row, const struct selection *of) {
    return !isnan(row->relative_error) && !row->calibrated_on && selects(of, row);
}

static const struct selection all_rows = { 0 };

/* Signed means of the cases among the rows that count, in the order of their first rows. */
static int64_t case_errors(const struct validation *v, const struct selection *of, double *errors) {
    const int64_t rows = v->runs.count;
    struct {
        double sum;
        int64_t members;
    } *cases = memory_alloc(sizeof *cases * (size_t)(rows + 1));
    memset(cases, 0, sizeof *cases * (size_t)(rows + 1));
    for (int64_t i = 0; i < rows; i++) {
        if (!counts(&v->rows[i], of)) continue;
        cases[v->rows[i].case_row].sum += v->rows[i].relative_error;
        cases[v->rows[i].case_row].members++;
    }
    int64_t count = 0;
    for (int64_t i = 0; i < rows; i++) {
        if (!counts(&v->rows[i], of) || cases[v->rows[i].case_row].members == 0) continue;
        errors[count++] =
            cases[v->rows[i].case_row].sum / (double)cases[v->rows[i].case_row].members;
        cases[v->rows[i].case_row].members = 0;
    }
    free(cases);
    return count;
}

bool validation_memory_counts(const struct validation_row *row) {
    return row->skip == SKIP_NOTHING && !isnan(row->memory_relative_error) && !row->memory_used &&
           !row->chosen_to_fit && row->reading < READING_FULL_CARD;
}

/* Of the rows whose reading is one of the set, a bit each. */
static int64_t memory_errors(const struct validation *v, const struct selection *of,
                             unsigned readings, double *errors) {
    int64_t count = 0;
    for (int64_t i = 0; i < v->runs.count; i++) {
        const struct validation_row *row = &v->rows[i];
        if (!selects(of, row)) continue;
        if (validation_memory_counts(row) && (readings >> row->reading & 1) != 0)
            errors[count++] = row->memory_relative_error;
    }
    return count;
}

/* Mean ln(measured / predicted) of a case, at its first row that counts. */
struct case_error {
    const struct validation_row *row;
    double log_error;
    int64_t members;
};

static int64_t case_log_errors(const struct validation *v, struct case_error *cases) {
    const int64_t rows = v->runs.count;
    int64_t *place = memory_alloc(sizeof *place * (size_t)(rows + 1)), count = 0; /* from 1 */
    memset(place, 0, sizeof *place * (size_t)(rows + 1));
    for (int64_t i = 0; i < rows; i++) {
        const struct validation_row *row = &v->rows[i];
        if (!counts(row, &all_rows)) continue;
        if (place[row->case_row] == 0) {
            cases[count++] = (struct case_error){ .row = row };
            place[row->case_row] = count;
        }
        cases[place[row->case_row] - 1].log_error -= log1p(row->relative_error);
        cases[place[row->case_row] - 1].members++;
    }
    free(place);
    int64_t kept = 0;
    for (int64_t i = 0; i < count; i++) {
        cases[i].log_error /= (double)cases[i].members;
        if (!cases[i].row->multimodal) cases[kept++] = cases[i];
    }
    return kept;
}

static bool same_setting(const struct validation_row *a, const struct validation_row *b) {
    return strcmp(a->measured->source, b->measured->source) == 0 &&
           strcmp(a->stack->name, b->stack->name) == 0 && strcmp(a->hardware, b->hardware) == 0;
}

static int compare_settings(const void *left, const void *right) {
    const struct validation_row *a = ((const struct case_error *)left)->row,
                                *b = ((const struct case_error *)right)->row;
    int order = strcmp(a->measured->source, b->measured->source);
    if (order == 0) order = strcmp(a->hardware, b->hardware);
    if (order == 0) order = strcmp(a->stack->name, b->stack->name);
    return order != 0 ? order : (a > b) - (a < b);
}

/* Of a setting with more cases each is paired with the next ones alone. */
enum { PAIRS_OF_A_CASE = 1000 };

static void compare_pairs(struct validation *v) {
    const int64_t rows = v->runs.count;
    struct case_error *cases = memory_alloc(sizeof *cases * (size_t)(rows + 1));
    const int64_t count = case_log_errors(v, cases);
    qsort(cases, (size_t)count, sizeof *cases, compare_settings);
    const int64_t others = count < PAIRS_OF_A_CASE ? count : PAIRS_OF_A_CASE;
    double *apart = memory_alloc(sizeof *apart * (size_t)(count * others + 1));
    struct pair_statistics *p = &v->pairs;
    *p = (struct pair_statistics){ .rms = NAN, .median = NAN, .p80 = NAN };
    double squares = 0;
    for (int64_t i = 0; i < count; i++) {
        const bool begins = i == 0 || !same_setting(cases[i - 1].row, cases[i].row);
        for (int64_t k = i + 1; k < count && k - i <= others; k++) {
            if (!same_setting(cases[i].row, cases[k].row)) break;
            p->sources += begins && k == i + 1;
            apart[p->pairs] = fabs(cases[i].log_error - cases[k].log_error);
            squares += apart[p->pairs] * apart[p->pairs];
            p->pairs++;
        }
    }
    if (p->pairs > 0) {
        gsl_sort(apart, 1, (size_t)p->pairs);
        p->rms = sqrt(squares / (double)p->pairs);
        p->median = gsl_stats_median_from_sorted_data(apart, 1, (size_t)p->pairs);
        p->p80 = gsl_stats_quantile_from_sorted_data(apart, 1, (size_t)p->pairs, 0.8);
    }
    free(cases);
    free(apart);
}

static void summarise(const struct validation *v, const struct selection *of,
                      struct validation_group *g) {
    *g = (struct validation_group){ .source = of->source };
    const size_t size = sizeof(double) * (size_t)(v->runs.count + 1);
    double *time = memory_alloc(size), *memory = memory_alloc(size), *cases = memory_alloc(size),
           *widths = memory_alloc(size), covered = 0;
    int64_t time_count = 0;
    for (int64_t i = 0; i < v->runs.count; i++) {
        const struct validation_row *row = &v->rows[i];
        if (!selects(of, row)) continue;
        g->rows++;
        if (row->skip != SKIP_NOTHING) continue;
        g->simulated++;
        g->calibrated += row->calibrated_on;
        g->full_cards += row->reading == READING_FULL_CARD;
        if (!counts(row, of)) continue;
        const double measured = row->measured->iter_time_s;
        covered += measured >= row->band_low_s && measured <= row->band_high_s;
        widths[time_count] = band_half_width(row->band);
        time[time_count++] = row->relative_error;
    }
    g->time = statistics_of(time, time_count);
    const unsigned allocator = 1u << READING_ALLOCATED | 1u << READING_RESERVED;
    g->memory = statistics_of(memory, memory_errors(v, of, allocator, memory));
    for (int kind = READING_ALLOCATED; kind < READING_COUNT; kind++)
        g->memory_of[kind] = statistics_of(memory, memory_errors(v, of, 1u << kind, memory));
    g->time_by_case = statistics_of(cases, case_errors(v, of, cases));
    g->band_coverage = time_count > 0 ? covered / (double)time_count : NAN;
    g->median_half_width = NAN;
    if (time_count > 0) {
        gsl_sort(widths, 1, (size_t)time_count);
        g->median_half_width = gsl_stats_median_from_sorted_data(widths, 1, (size_t)time_count);
    }
    free(time);
    free(memory);
    free(cases);
    free(widths);
}

static void summarise_all(struct validation *v) {
    v->groups = arena_array(v->arena, struct validation_group, v->runs.count + 1);
    for (int64_t i = 0; i < v->runs.count; i++) {
        const char *source = v->rows[i].measured->source;
        bool known = false;
        for (int64_t k = 0; k < v->group_count && !known; k++)
            known = strcmp(v->groups[k].source, source) == 0;
        const struct selection of = { source, ANY_MODEL };
        if (!known) summarise(v, &of, &v->groups[v->group_count++]);
    }
    summarise(v, &all_rows, &v->all);
    summarise(v, &(struct selection){ NULL, TEXT_DECODERS }, &v->text);
    summarise(v, &(struct selection){ NULL, OTHER_MODELS }, &v->multimodal);
}

/* ---- running ---- */

static bool check_shared_row(const struct measured_runs *a, const struct measured_runs *b,
                             struct error *err) {
    for (int64_t i = 0; i < a->count; i++)
        for (int64_t k = 0; k < b->count; k++)
            if (strcmp(a->rows[i].row_id, b->rows[k].row_id) == 0)
                return error_set(err, "row \"%.60s\" stands in %s and in %s", a->rows[i].row_id,
                                 b->path, a->path);
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
                                              .band = { NAN, NAN },
                                              .band_low_s = NAN,
                                              .band_high_s = NAN,
                                              .predicted_peak_GiB = NAN,
                                              .memory_relative_error = NAN };

static bool measured_by(const struct measured_runs *runs, const char *row_id, const char *source) {
    for (int64_t i = 0; i < runs->count; i++)
        if (strcmp(runs->rows[i].row_id, row_id) == 0 && strcmp(runs->rows[i].source, source) == 0)
            return true;
    return false;
}

/* The stack, without the factors that rows of the source went into. */
static struct stack *without_own_factors(struct arena *arena, const struct stack *stack,
                                         const struct measured_runs *runs, const char *source) {
    struct stack *copy = arena_new(arena, struct stack);
    *copy = *stack;
    copy->factors = arena_array(arena, struct stack_factor, stack->factor_count + 1);
    copy->factor_count = 0;
    for (int64_t k = 0; k < stack->factor_count; k++) {
        bool own = false;
        for (const char **id = stack->factors[k].calibrated_on; *id != NULL; id++)
            own = own || measured_by(runs, *id, source);
        if (!own) copy->factors[copy->factor_count++] = stack->factors[k];
    }
    copy->uncalibrated = false; /* what the others' share more is found from these */
    copy->held_back = true;
    return copy;
}

static struct stack_list without_source(struct arena *arena, const struct stack_list *all,
                                        const struct measured_runs *runs, const char *source) {
    struct stack_list list = { arena_array(arena, const struct stack *, all->count), all->count };
    for (int64_t i = 0; i < all->count; i++) {
        struct stack *copy = without_own_factors(arena, all->stacks[i], runs, source);
        copy->known = list.stacks;
        list.stacks[i] = copy;
    }
    return list;
}

/* The run as a source describes it whose stack nobody knows: the year of its software is left, and
 * the GPU that the stack would say. */
static struct measured_run without_stack(const struct measured_context *context,
                                         const struct measured_run *run,
                                         const struct stack_list *stacks) {
    struct measured_run anonymous = *run;
    const char *ignored;
    bool exact;
    const struct stack *stack = measured_is_file(run->stack)
                                    ? measured_own_stack(context, run->stack, &ignored)
                                    : stack_find(stacks, run->stack, false, &exact);
    anonymous.source = "";
    anonymous.stack =
        stack == NULL ? "" : arena_format(context->arena, "unknown-%ld", (long)stack->year);
    if (run->hardware[0] == '\0' && stack != NULL && stack->hardware != NULL)
        anonymous.hardware = stack->hardware;
    return anonymous;
}

/* What is held out of one source's rows: its stacks without the factors, its runs without the
 * name. */
struct hold_out {
    enum validation_hold_out what;
    const char *source; /* whose stacks those are; NULL: none yet */
    struct stack_list all, stacks;
};

static struct measured_run held_out(struct hold_out *h, const struct validation *v,
                                    const struct measured_context *context,
                                    const struct measured_run *run) {
    if (h->what == HOLD_OUT_NOTHING) return *run;
    if (h->source == NULL || strcmp(h->source, run->source) != 0)
        h->stacks = without_source(v->arena, &h->all, &v->runs, run->source);
    h->source = run->source;
    return h->what == HOLD_OUT_NAME ? without_stack(context, run, &h->all) : *run;
}

/* Those of the list are held out already. */
static const struct stack *held_out_stack(const struct hold_out *h, const struct validation *v,
                                          const struct measured_scenario *scenario,
                                          const struct measured_run *run) {
    if (scenario->skip != SKIP_NOTHING || !measured_is_file(scenario->layout_stack))
        return scenario->stack;
    struct stack *own = without_own_factors(v->arena, scenario->stack, &v->runs, run->source);
    own->known = h->stacks.stacks;
    own->known_count = h->stacks.count;
    return own;
}

static void count_verdict(struct validation *v, const struct validation_row *row) {
    const bool fitted = strcmp(row->measured->outcome, "oom") != 0;
    v->confusion[fitted][row->fits_predicted]++;
    v->close[fitted][row->fits_predicted] += row->memory_close;
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
    struct scenario_cache *cache = context.cache = scenario_cache_create();
    v->rows = arena_array(arena, struct validation_row, v->runs.count + 1);
    for (int64_t i = 0; i < v->runs.count; i++) {
        struct validation_row *row = &v->rows[i];
        *row = no_row;
        row->measured = &v->runs.rows[i];
        struct measured_scenario scenario;
        const struct measured_run run = held_out(&hold_out, v, &context, row->measured);
        if (what != HOLD_OUT_NOTHING) context.stacks = hold_out.stacks;
        measured_scenario_make(&context, &run, &scenario);
        row->skip = scenario.skip;
        row->skip_detail = scenario.skip_detail;
        row->stack = scenario.stack;
        row->exact_stack = scenario.exact_stack;
        row->known_stack = scenario.known_stack;
        row->chosen_to_fit = scenario.chosen_to_fit;
        row->hardware = scenario.gpu;
        const char *modality = row->measured->modality;
        row->multimodal = modality[0] != '\0' && strcmp(modality, "text") != 0;
        row->notes = arena_array(arena, const char *, MEASURED_NOTE_LIMIT + 1);
        memcpy(row->notes, scenario.notes, sizeof scenario.notes);
        struct scenario_options own = *options;
        own.cache = cache;
        if (what != HOLD_OUT_NOTHING)
            own.stack = scenario.stack = held_out_stack(&hold_out, v, &scenario, row->measured);
        if (row->skip == SKIP_NOTHING) predict(&own, &scenario, arena, row);
        if (row->skip == SKIP_NOTHING)
            row->calibrated_stack = row->exact_stack && stack_on(scenario.stack, scenario.gpu,
                                                                 measured_precision(row->measured))
                                                            .calibrated;
        cJSON_Delete(scenario.document);
        if (row->skip == SKIP_NOTHING && !row->chosen_to_fit) count_verdict(v, row);
        if (progress != NULL) progress(progress_context, i + 1, v->runs.count);
    }
    scenario_cache_destroy(cache);
    validation_find_cases(v);
    summarise_all(v);
    compare_pairs(v);
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

bool validation_holds_back(const struct validation *v) {
    for (int64_t i = 0; i < v->runs.count; i++)
        if (!isnan(v->rows[i].relative_error) &&
            (!v->rows[i].calibrated_on || v->rows[i].finds_encoder_factor))
            return true;
    return false;
}

/* ---- what can hardly be ---- */

static bool is_doubtful(double measured, double predicted) {
    return measured * VALIDATION_DOUBTFUL_TIMES < predicted ||
           predicted * VALIDATION_DOUBTFUL_TIMES < measured; /* never of NaN */
}

bool validation_time_doubtful(const struct validation_row *row) {
    return row->skip == SKIP_NOTHING && is_doubtful(row->measured->iter_time_s, row->predicted_s);
}

bool validation_memory_doubtful(const struct validation_row *row) {
    return row->skip == SKIP_NOTHING && row->reading != READING_FULL_CARD &&
           is_doubtful(row->measured->peak_mem_GiB, row->predicted_peak_GiB);
}

/* NULL: about no row. */
static const char *doubts_about(const struct validation *v,
                                bool (*doubtful)(const struct validation_row *row),
                                const char *what, const char *column) {
    int64_t count = 0, first = 0;
    for (int64_t i = v->runs.count - 1; i >= 0; i--) {
        if (!doubtful(&v->rows[i])) continue;
        count++;
        first = i;
    }
    if (count == 0) return NULL;
    return arena_format(v->arena, "%s%ld row%s more than %d times off (first %s): %s", what,
                        (long)count,
                        count == 1        ? " is"
                        : what[0] != '\0' ? "s is"
                                          : "s are",
                        VALIDATION_DOUBTFUL_TIMES, v->rows[first].measured->row_id, column);
}

const char **validation_doubts(const struct validation *v) {
    const char **doubts = arena_array(v->arena, const char *, 3);
    int64_t count = 0;
    const char *times =
        doubts_about(v, validation_time_doubtful, "",
                     "iter_time_s is in seconds, of one optimizer step of the whole global_batch");
    const char *memories = doubts_about(v, validation_memory_doubtful, "the memory of ",
                                        "peak_mem_GiB is in GiB, of the fullest GPU");
    if (times != NULL) doubts[count++] = times;
    if (memories != NULL) doubts[count++] = memories;
    doubts[count] = NULL;
    return doubts;
}

/* ---- as records ---- */

struct validation_record *validation_records(const struct validation *v, int64_t *count) {
    struct validation_record *records =
        arena_array(v->arena, struct validation_record, 2 * v->runs.count + 1);
    *count = 0;
    for (int64_t i = 0; i < v->runs.count; i++) {
        const struct validation_row *row = &v->rows[i];
        const struct measured_run *m = row->measured;
        struct validation_record record = {
            .tool_version = execution_version(),
            .source_commit = execution_commit(),
            .rows_file = v->files[i],
            .row_name = m->row_id,
            .source = m->source,
            .hardware = row->hardware != NULL ? row->hardware : m->hardware,
            .stack = row->stack != NULL ? row->stack->name : m->stack,
            .role = row->calibrated_on ? "fitted" : "prediction",
            .note = row->skip != SKIP_NOTHING ? validation_skip_name(row->skip) : row->notes[0],
            .run_id = -1,
        };
        if (!isnan(m->iter_time_s)) {
            record.quantity = "step_time_ms";
            record.unit = "ms";
            record.measured_value = m->iter_time_s * 1e3;
            record.predicted_value = row->predicted_s * 1e3;
            record.band_fraction = row->band.above;
            record.band_below_fraction = row->band.below;
            records[(*count)++] = record;
        }
        if (isnan(m->peak_mem_GiB)) continue;
        record.quantity = "peak_memory_GiB";
        record.unit = "GiB";
        record.measured_value = m->peak_mem_GiB;
        record.predicted_value = row->predicted_peak_GiB;
        record.band_fraction = record.band_below_fraction = NAN;
        if (row->skip == SKIP_NOTHING) {
            record.role = row->memory_used ? "fitted" : "prediction";
            if (row->reading >= READING_FULL_CARD) record.note = memory_reading_name(row->reading);
        }
        records[(*count)++] = record;
    }
    return records;
}
