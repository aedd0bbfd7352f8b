/* paper_table.h - a table of a paper as a data file: what it prints, and which scenario gives it.
 *
 *     scenarios/papers/<paper>/<table>.table.json
 *     scenarios/papers/<paper>/inputs.json          inputs that tables name, with their status
 *     scenarios/papers/<paper>/readings.json        the main reading of each unclear text
 *
 *     struct paper_table *t = paper_table_read(arena, directory, "ablation.table.json", err);
 *     t->rows[0].run.path, t->rows[0].values[0].paper
 *
 * A row runs a scenario file with overrides ("set", as of --set), so that one file serves rows that
 * differ in few values. `against` is the run that a quantity of comparison (speedup) stands beside.
 * readings.json ranks readings once for all tables of a paper, so that no row can choose its own.
 * Everything lives in the arena.
 */
#ifndef BALLAST_SIM_STUDY_PAPER_TABLE_H
#define BALLAST_SIM_STUDY_PAPER_TABLE_H

#include "sim/base/arena.h"
#include "sim/base/error.h"
#include "sim/study/reproduce/quantity.h"

/* An input of the simulation: what it was set to, and by whom. */
enum input_status { INPUT_STATED, INPUT_ASSUMED, INPUT_FITTED };
const char *input_status_name(enum input_status status);

struct paper_input {
    const char *name, *value; /* name is NULL for an assumption in words */
    enum input_status status;
    const char *source; /* where it is stated, or why it is assumed */
};

/* A scenario file with overrides. */
struct paper_run {
    const char *path;       /* NULL: none */
    const char *const *set; /* "path=value", NULL at the end */
};

struct paper_value {
    const struct quantity *quantity;
    int64_t index;    /* of a quantity of one stage, from 0; otherwise 0 */
    const char *name; /* as written: "remaining_memory_stage2" */
    double paper; /* NaN: not printed */
    bool calibrated_on;
    const char *note; /* or NULL */
};

struct paper_row {
    const char *row, *reading, *note; /* reading and note may be NULL */
    int64_t
        rank; /* of its reading: of rows that print one figure, the first of the least is the main one */
    struct paper_run run, against;
    const struct paper_input *const *inputs; /* of this row alone; NULL at the end */
    struct paper_value *values;
    int64_t value_count;
};

/* What a table's picture shows: a bar each run, beside it what is printed; or a line each run over
 * its iterations. */
enum paper_picture_kind { PICTURE_BARS, PICTURE_LINES };
struct paper_picture_run {
    const char *label;
    struct paper_run run;
    double printed; /* NaN: not printed */
};
struct paper_picture {
    enum paper_picture_kind kind;
    const char *title, *axis;
    const struct quantity *quantity;
    double scale;  /* of the quantity, to the unit of the axis */
    int64_t count; /* lines: points of each, the quantity of index 0, 1, ... */
    const struct quantity *right; /* lines: of the first run, on the right axis; or NULL */
    const char *right_axis;
    struct paper_picture_run *runs;
    int64_t run_count;
};

/* Why the main reading of a figure misses it, as found by trying. */
struct paper_cause {
    const char *figure; /* "<row>.<quantity>" */
    const char *text;
};

struct paper_table {
    const char *paper, *table, *id;          /* id: "omnibal.ablation" */
    const char *source, *note;               /* note may be NULL */
    const char *rule; /* how the paper's main readings were chosen; or NULL */
    const struct paper_cause *causes;
    int64_t cause_count;
    const struct paper_input *const *inputs; /* of all rows; NULL at the end */
    struct paper_row *rows;
    int64_t row_count;
    struct paper_picture *picture; /* NULL: it has none */
};

/* NULL: the file, or inputs.json or readings.json beside it, is broken; the message names file,
 * line and key. */
struct paper_table *paper_table_read(struct arena *arena, const char *directory,
                                     const char *file_name, struct error *err);

#endif
