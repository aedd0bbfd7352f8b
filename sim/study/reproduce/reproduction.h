/* reproduction.h - a paper's table beside the simulation.
 *
 * A table is a data file, scenarios/papers/<paper>/<table>.table.json: rows, each with the scenario
 * file that gives it and the values that the paper prints. Nothing is tuned per row.
 *
 *     struct reproduction_options options = { .scenario = &scenario, .selectors = list, ... };
 *     struct reproduction *r = reproduction_run(&options, err);
 */
#ifndef BALLAST_SIM_STUDY_REPRODUCTION_H
#define BALLAST_SIM_STUDY_REPRODUCTION_H

#include "sim/base/band.h"
#include "sim/study/reproduce/paper_table.h"

/* What one input does to a row (sensitivity.h). */
struct sensitivity {
    const char *input, *change;
    double effect_fraction; /* of the change on the simulated value */
    double needed_factor;   /* of the input, alone, to match the paper; NaN: no size would */
};

struct reproduction_value {
    const char *id;            /* <paper>.<table>.<row>.<quantity>[.<reading>] */
    const char *table;         /* "omnibal.ablation" */
    const char *row, *reading; /* reading may be NULL */
    int64_t rank;              /* of the reading (paper_table.h) */
    bool main;             /* of the readings of this row's quantity, the one to look at first */
    int64_t reading_count; /* of them, this one included */
    const char *quantity, *unit;
    double paper;          /* NaN: the paper draws it without a number */
    double simulated;      /* NaN: this build or its budget does not give it; the note says why */
    bool measured;         /* simulated is a wall time of this machine */
    double relative_error; /* NaN when the paper's value is 0, and of what is measured */
    struct band band;      /* of the simulated value, where it has one */
    bool calibrated_on;
    struct paper_run run;
    const struct sensitivity *sensitivity; /* NULL until it is measured */
    int64_t sensitivity_count;
    const char *scenario_file; /* run.path as shown on every machine */
    const char *const *set;    /* what the row changes in it, as of --set; NULL at the end */
    const struct paper_input *const *inputs; /* stated, assumed or fitted; NULL at the end */
    const char *const *assumptions;          /* what was not stated, in words; NULL at the end */
    const char *note;
    const char *cause; /* why its figure is off, as the table's file says; or NULL */
};

/* A printed GPU-days or speed-up that its main reading does not come near enough to. */
struct reproduction_miss {
    const char *figure; /* "<row>.<quantity>" */
    const struct reproduction_value *main;
    const struct reproduction_value
        *met_by;       /* the nearest reading, if it is near enough; or NULL */
    const char *cause; /* what was found by trying; or NULL */
};

struct reproduction_summary {
    const char *table;
    const char *source, *note;               /* of the table file; note may be NULL */
    const char *rule;                        /* how main readings were chosen; or NULL */
    const struct paper_input *const *inputs; /* of the whole table; NULL at the end */
    int64_t rows, rows_without_relative_error, rows_calibrated_on;
    double mean_abs_relative_error; /* of predictions: rows calibrated on do not count */
    double worst_relative_error;    /* signed */
    /* Printed GPU-days and speed-ups, each counted once though several readings may stand beside
     * it; met: at least one reading is within REPRODUCTION_TIME_LIMIT or
     * REPRODUCTION_RATIO_LIMIT. */
    int64_t figures, figures_met, figures_met_by_main;
    const char **missed;              /* [figures - figures_met], as "<row>.<quantity>" */
    struct reproduction_miss *misses; /* [figures - figures_met_by_main] */
};

/* How near a time has to come, and a ratio of two, in which the scale of both cancels. */
#define REPRODUCTION_TIME_LIMIT  0.15
#define REPRODUCTION_RATIO_LIMIT 0.10

/* The numbers of a table's picture. */
struct reproduction_picture {
    const char *table;
    const struct paper_picture *picture;
    double *values; /* [run * picture->count + point], in the unit of the axis */
    double *right;  /* [point]; NULL: none */
};

struct reproduction {
    struct arena *arena;
    struct reproduction_value *values;
    int64_t value_count;
    struct reproduction_summary *summaries;
    int64_t summary_count;
    struct reproduction_picture *pictures; /* of the tables that have one, if asked for */
    int64_t picture_count;
};

struct reproduction_options {
    const struct scenario_options *scenario;
    const char *const *selectors; /* "omnibal", "omnibal.ablation"; none means every table */
    int64_t selector_count;
    bool pictures;       /* also what pictures show; may need runs that no row needs */
    struct store *store; /* may be NULL; otherwise runs and values are kept */
    const struct provenance *provenance;
    /* Runs done and to do; may be NULL. */
    void (*progress)(void *context, int64_t done, int64_t total);
    void *progress_context;
};

/* Each distinct run is simulated once; which reading of a figure is the main one follows from the
 * order in the paper's readings.json, never from how near it comes. NULL: failed. */
struct reproduction *reproduction_run(const struct reproduction_options *options,
                                      struct error *err);
void reproduction_destroy(struct reproduction *reproduction);

#endif
