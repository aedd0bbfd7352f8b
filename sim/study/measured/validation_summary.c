/* validation_summary.c - errors of rows summed up: by source, kind of model, case and in pairs. */
#include <gsl/gsl_sort.h>
#include <gsl/gsl_statistics_double.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>
#include "sim/study/measured/validation.h"

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
        covered += validation_in_band(row);
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

void validation_summarise(struct validation *v) {
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
    compare_pairs(v);
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

static bool is_far_off(const struct validation_row *row) {
    return row->skip == SKIP_NOTHING && is_doubtful(row->measured->iter_time_s, row->predicted_s);
}

static bool is_beyond_peak(const struct validation_row *row) {
    return row->skip == SKIP_NOTHING &&
           (1 - row->lost_fraction) * row->predicted_s > row->measured->iter_time_s;
}

bool validation_time_doubtful(const struct validation_row *row) {
    return is_far_off(row) || is_beyond_peak(row);
}

bool validation_memory_doubtful(const struct validation_row *row) {
    return row->skip == SKIP_NOTHING && row->reading != READING_FULL_CARD &&
           is_doubtful(row->measured->peak_mem_GiB, row->predicted_peak_GiB);
}

/* NULL: about no row. */
static const char *doubts_about(const struct validation *v,
                                bool (*doubtful)(const struct validation_row *row),
                                const char *what, const char *fault, const char *column) {
    int64_t count = 0, first = 0;
    for (int64_t i = v->runs.count - 1; i >= 0; i--) {
        if (!doubtful(&v->rows[i])) continue;
        count++;
        first = i;
    }
    if (count == 0) return NULL;
    return arena_format(v->arena, "%s%ld row%s %s (first %s): %s", what, (long)count,
                        count == 1        ? " is"
                        : what[0] != '\0' ? "s is"
                                          : "s are",
                        fault, v->rows[first].measured->row_id, column);
}

const char **validation_doubts(const struct validation *v) {
    const char **doubts = arena_array(v->arena, const char *, 4);
    int64_t count = 0;
    const char *far = arena_format(v->arena, "more than %d times off", VALIDATION_DOUBTFUL_TIMES);
    const char *times =
        doubts_about(v, is_far_off, "", far,
                     "iter_time_s is in seconds, of one optimizer step of the whole global_batch; "
                     "where it is, look for a slower network than priced (NCCL over TCP), a wait "
                     "for data, or kernels that no stack has");
    const char *memories = doubts_about(v, validation_memory_doubtful, "the memory of ", far,
                                        "peak_mem_GiB is in GiB, of the fullest GPU");
    const char *beyond =
        doubts_about(v, is_beyond_peak, "", "faster than the GPU's peak allows",
                     "the hardware, the batch, the length of samples or what is recomputed may be "
                     "another's");
    if (times != NULL) doubts[count++] = times;
    if (beyond != NULL) doubts[count++] = beyond;
    if (memories != NULL) doubts[count++] = memories;
    doubts[count] = NULL;
    return doubts;
}
