/* report_part.h - the parts of the page, and what they share. Private to the report.
 *
 * report.c puts the page together and lists all runs; report_names.c names them; report_answer.c
 * opens it; report_jobs.c where they are several jobs; report_wish.c knows deadline and budget;
 * report_sweep.c tells of the newest sweep; report_run.c of one run. Each writes to report->out and
 * returns false with report->err.
 */
#ifndef BALLAST_RESULTS_REPORT_PART_H
#define BALLAST_RESULTS_REPORT_PART_H

#include "results/plot.h"
#include "results/report.h"
#include "sim/base/amount.h"
#include "sim/base/band.h"

/* What ranks the runs: money (GPU-days without a price) unless the sweep that they are of says
 * otherwise. */
enum report_measure { REPORT_COST, REPORT_GPU_DAYS, REPORT_DAYS };

/* What the newest sweep was asked for. */
struct report_wish {
    int64_t sweep_id; /* -1: there is none */
    struct plot_limits limits;
    enum report_measure measure;
    const int64_t *run_ids; /* the runs of the page that are of it */
    int64_t run_count;
    const char **reasons; /* by index of those: why the sweep does not choose it; NULL: it may */
};

/* What all runs of one model on one data set are for. */
struct report_job {
    const char *model, *dataset;
    int64_t run_count;
    int64_t best; /* index in runs; -1: none */
};

struct report {
    FILE *out;
    struct store *store;
    struct arena *arena;
    const struct report_options *options;
    const struct run_record *const *runs;
    int64_t run_count;
    int64_t best, second; /* index in runs; -1: none, or there are several jobs */
    struct report_job *jobs;
    const int64_t *job_of; /* by index in runs: in jobs; runs of one job stand together */
    int64_t job_count;     /* with candidates to be the best; jobs beyond have none */
    /* By index: its section what_if is not the defaults. Such a run is the best only among its
     * like. */
    const bool *supposes;
    bool unpriced;                 /* a candidate has no price, so that costs are GPU-days */
    int64_t passed_over;           /* candidates that suppose something, where others do not */
    char folder[64];               /* of pictures, while the page is made */
    bool no_pictures;              /* gnuplot is missing: said once */
    struct amount_unit time, work; /* of the tables: of days and of GPU-days */
    const char *const *names;      /* by index in runs: what tells a run from the others */
    const char *shared;            /* what the names leave out, common to all; "": nothing */
    struct report_wish wish;
    struct error *err;
};

enum { LONG_NAME = 40 };

struct run_setup {
    const char *model, *dataset, *hardware, *layout, *policies;
};

/* Numbers as people read them, in the report's arena; "" for what is not finite. */
const char *report_number(const struct report *r, double value, int digits);
const char *report_step_text(const struct report *r, double ms);
const char *report_percent(const struct report *r, double fraction);
const char *report_band(const struct report *r, struct band band);
struct band report_band_of(const struct run_record *run);
/* The precision whose peak the run's MFU is of; NULL in 16 bits, which people mean by it. */
const char *report_odd_peak(const struct run_record *run);

bool report_is_done(const struct run_record *run);
bool report_is_out_of_memory(const struct run_record *run);
double report_cost_of(const struct report *r, const struct run_record *run); /* money or GPU-days */
bool report_is_candidate(const struct run_record *run);                      /* to be the best */
/* Whether it may be the best: a candidate, and none that supposes something beside others that do
 * not. */
bool report_competes(const struct report *r, int64_t index);
/* Whether `run` stands before `other`: candidates do, then what trains all samples, then what keeps
 * deadline and budget, then what has less of what the page ranks by. What its sweep does not choose
 * (sweep_row.reason) stands behind what trains all. */
bool report_is_better(const struct report *r, const struct run_record *run,
                      const struct run_record *other);
double report_value_of(const struct report *r, const struct run_record *run); /* that it ranks by */
/* "late", "over budget", both; "": it keeps what its sweep was asked for, or was asked for
 * nothing. */
const char *report_breach(const struct report *r, const struct run_record *run);
const char *report_breach_of(const struct report *r, double days, double money_usd);
/* Why its sweep does not choose it; NULL: it may. */
const char *report_no_choice(const struct report *r, const struct run_record *run);
bool report_wish_read(struct report *r);
bool report_wish_limits(const struct report *r);       /* a deadline or a budget was given */
const char *report_wish_words(const struct report *r); /* "the deadline", "deadline and budget" */
bool report_wish_write(const struct report *r);        /* both, and what keeps them */
void report_verdict_tag(FILE *out, const struct run_record *run);
const char *report_column(sqlite3_stmt *row, int index); /* its text, "?" for none */
bool report_setup_of(const struct report *r, int64_t run_id, struct run_setup *setup);

/* Names of the runs, by index. Those of a sweep, "sweep [tp 2, pp 4, recompute none]", lose the
 * name of the sweep and what is the same in all of them, which `shared` gets. */
const char *const *report_names(const struct report *r, const char **shared);

/* Sets jobs and job_count, and job_of by index in runs. */
bool report_jobs_read(struct report *r, int64_t *job_of);
bool report_jobs_write(const struct report *r); /* of several: what differs, the best run of each */
bool report_jobs_price(const struct report *r); /* of one: another GPU at the price of the best's */

/* What gnuplot draws into `path`; false with an error. */
typedef bool (*report_draw)(const struct report *r, const char *path, const void *what,
                            struct error *err);

bool report_picture(struct report *r, const char *name, report_draw draw, const void *what,
                    const char *description, const char *caption);

/* ---- the parts ---- */

bool report_answer(const struct report *r);
void report_figures(const struct report *r, const struct run_record *run);
/* All configurations of the newest sweep; nothing where the database holds none. */
bool report_sweep(struct report *r);
bool report_run(struct report *r, int64_t index);

#endif
