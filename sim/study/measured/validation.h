/* validation.h - measured training runs beside their simulation.
 *
 * A row that cannot be simulated is skipped with a reason from a fixed list, never guessed. What a
 * source leaves out is filled in by measured_scenario.h.
 *
 *     struct validation *v = validation_run(&options, paths, path_count, NULL, NULL, err);
 *     v->rows[i].relative_error, v->groups[0].time.mean_abs
 */
#ifndef BALLAST_SIM_STUDY_VALIDATION_H
#define BALLAST_SIM_STUDY_VALIDATION_H

#include "sim/base/band.h"
#include "sim/study/execution.h"
#include "sim/study/measured/measured_scenario.h"

#include <math.h>

/* What a reading of memory tells. A caching allocator that has filled the card, as nvidia-smi shows
 * it, tells only that the run fitted: such a reading is scored by nobody, and so is one beyond the
 * card. */
enum memory_reading {
    READING_NONE,
    READING_ALLOCATED,   /* what the framework's allocator handed out */
    READING_RESERVED,    /* and what it kept */
    READING_DEVICE,      /* all of the card, context and communicators included */
    READING_FULL_CARD,   /* reserved or device at READING_FULL_FRACTION of the card or more */
    READING_BEYOND_CARD, /* more than the card has: of another card, or in another unit */
    READING_COUNT
};
#define READING_FULL_FRACTION 0.97
const char *memory_reading_name(enum memory_reading reading); /* "full card" */

struct validation_row {
    const struct measured_run *measured;
    int64_t case_row; /* the first row of its case */
    enum validation_skip skip;
    const char *skip_detail;                                     /* what exactly; may be NULL */
    double predicted_s, relative_error, band_low_s, band_high_s; /* NaN when skipped */
    struct band band;                                            /* from the one to the other */
    double lost_fraction;                                        /* 1 - HFU; NaN when skipped */
    double outside_fraction; /* of its time, priced outside the measured range; NaN when skipped */
    const char *hardware;    /* the profile */
    bool inside_range, calibrated_on, fits_predicted;
    bool
        chosen_to_fit; /* see struct measured_scenario: in no table of fits, its memory not scored */
    bool memory_close; /* the band of memory reaches the capacity, whichever way it fell */
    enum memory_reading reading;
    bool memory_used;                   /* a cause of its stack was read from this row's memory */
    bool exact_stack, calibrated_stack; /* the source's own; calibrated on this GPU and precision */
    bool known_stack;                   /* by name, itself or a relative */
    bool multimodal;                    /* no text decoder; of a skipped row, by its modality */
    bool writes_text;                   /* its model; not known of a skipped row */
    bool finds_encoder_factor;          /* of those that what encoders take more is found from */
    const struct stack *stack;          /* NULL when skipped before it was chosen */
    const char **notes;                 /* what was filled in; NULL at the end */
    double predicted_peak_GiB,
        memory_relative_error; /* of the kind that was measured; NaN without */
};

/* Whether the measured step lies in the band of the predicted one; of a row with a measured time that
 * was simulated. */
static inline bool validation_has_band(const struct validation_row *row) {
    return !isnan(row->measured->iter_time_s) && !isnan(row->band_low_s);
}
static inline bool validation_in_band(const struct validation_row *row) {
    const double measured_s = row->measured->iter_time_s;
    return measured_s >= row->band_low_s && measured_s <= row->band_high_s;
}

/* Signed errors of rows, or of cases: the rows of one shape, layout and batch, whose mean counts
 * once (a source repeats a case at several versions of its software). */
struct error_statistics {
    int64_t count;
    double mean_abs, median_abs, p90_abs, worst, mean_signed;
};

/* Rows that a factor was fitted on are simulated and shown, but count in no statistic. */
struct validation_group {
    const char *source; /* NULL: all rows */
    int64_t rows, simulated, calibrated;
    struct error_statistics time, time_by_case;
    /* rows whose memory no cause was read from */
    struct error_statistics memory;                   /* allocated and reserved together */
    struct error_statistics memory_of[READING_COUNT]; /* each kind of reading by itself */
    int64_t full_cards;
    double band_coverage, median_half_width;
};

/* How far apart the errors of two cases of one source, stack and GPU lie: |difference| of their
 * mean ln(measured / predicted), of text models that nothing was fitted on. */
struct pair_statistics {
    int64_t pairs, sources; /* groups that have pairs */
    double rms, median, p80;
};

struct validation {
    struct pair_statistics pairs;
    struct arena *arena;
    struct measured_runs runs; /* of all files */
    const char **files;        /* by row */
    struct validation_row *rows;
    struct validation_group *groups; /* by source, in order of appearance */
    int64_t group_count;
    struct validation_group all, text, multimodal; /* by kind of model */
    /* fits against out of memory: [measured fits][predicted fits], and how many of these are
     * close */
    int64_t confusion[2][2], close[2][2];
};

/* The row's memory is a prediction, and its reading tells what the run needed. */
bool validation_memory_counts(const struct validation_row *row);

/* The row's step time, or its memory, is more than VALIDATION_DOUBTFUL_TIMES off, or in that time
 * its FLOP are beyond the peak: no layout is known to be mispriced so far, so the row's unit or
 * batch may be wrong. A full card tells how much it has, not what the run needed. */
enum { VALIDATION_DOUBTFUL_TIMES = 3 };
bool validation_time_doubtful(const struct validation_row *row);
bool validation_memory_doubtful(const struct validation_row *row);
/* How many rows are, the first of them, and what the column holds: a sentence for each of the
 * three; NULL at the end. */
const char **validation_doubts(const struct validation *validation);

struct validation *validation_run(const struct scenario_options *options, const char *const *paths,
                                  int64_t path_count,
                                  void (*progress)(void *context, int64_t done, int64_t total),
                                  void *progress_context, struct error *err);
void validation_destroy(struct validation *validation);
/* Step times and peak memory as rows of the results database, in the validation's arena. */
struct validation_record *validation_records(const struct validation *validation, int64_t *count);

/* Fills case_row of all rows (validation_cases.c), then groups, text, multimodal, all and pairs
 * (validation_summary.c). */
void validation_find_cases(struct validation *v);
void validation_summarise(struct validation *v);

/* The same rows, predicted by what others tell: without the factors that rows of the same source
 * went into (the stack's stated causes stay), or as runs of a stack whose name nobody knows
 * besides. */
enum validation_hold_out { HOLD_OUT_NOTHING, HOLD_OUT_SOURCE, HOLD_OUT_NAME };
struct validation *validation_run_held_out(const struct scenario_options *options,
                                           const char *const *paths, int64_t path_count,
                                           enum validation_hold_out what, struct error *err);

/* The widths of scenarios/bands.json. What a row is judged by comes from other sources alone:
 * the width always, the factor in the classes that have none of their own. */
enum band_class {
    BAND_CALIBRATED,
    BAND_RELATIVE,
    BAND_UNKNOWN,
    BAND_MULTIMODAL, /* writes text behind encoders */
    BAND_ENCODERS,   /* writes none: encoders alone, pairs of them, diffusion */
    BAND_CLASS_COUNT
};
struct bands_report {
    struct {
        int64_t rows;
        double coverage, median_half_width; /* NaN without rows */
        double mean_abs, mean_signed;       /* errors */
    } of[BAND_CLASS_COUNT];
};
/* Some row has an error that no factor of its own was fitted to. */
bool validation_holds_back(const struct validation *validation);
cJSON *validation_bands(const struct validation *validation, const struct validation *no_factors,
                        const struct validation *no_name, struct bands_report *report);
/* Fewer rows than this say nothing of other runs: their class, memory, pairs and the factor of
 * encoders keep what `before` (bands.json as it is) has of them, and rows that shipped factors were
 * fitted on stay known as such. */
enum { BAND_ROWS_LEAST = 8 };
void validation_bands_keep(cJSON *bands, const cJSON *before, const struct validation *validation,
                           const struct bands_report *report);

#endif
