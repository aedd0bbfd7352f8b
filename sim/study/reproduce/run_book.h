/* run_book.h - the distinct runs behind a set of tables, each simulated once, several at a time.
 *
 *     struct run_book *book = run_book_create(arena, &options);
 *     int64_t run = run_book_add(book, &row->run);
 *     int64_t slot = run_book_ask(book, run, quantity, index);
 *     run_book_simulate(book, ..., err);
 *     value = run_book_value(book, run, slot);
 *
 * Answers do not depend on the number of threads: a run writes its own entry, and runs are stored
 * in the order in which they were added. An execution is given back as soon as it has answered.
 */
#ifndef BALLAST_SIM_STUDY_RUN_BOOK_H
#define BALLAST_SIM_STUDY_RUN_BOOK_H

#include "sim/base/band.h"
#include "sim/study/reproduce/paper_table.h"

struct run_book;

/* Borrows both. */
struct run_book *run_book_create(struct arena *arena, const struct scenario_options *options);
void run_book_destroy(struct run_book *book);

/* The run with this file and these overrides; made when it is new. Texts are borrowed. */
int64_t run_book_add(struct run_book *book, const struct paper_run *run);
/* Where the answer will be; made when it is new. */
int64_t run_book_ask(struct run_book *book, int64_t run, const struct quantity *quantity,
                     int64_t index);
int64_t run_book_count(const struct run_book *book);

struct run_book_options {
    struct store *store; /* may be NULL; otherwise runs that replay are kept */
    const struct provenance *provenance;
    int threads;     /* 0: one per core */
    bool keep_going; /* a run that fails has no answers, and is no failure of the whole */
    /* Called from the calling thread now and then; may be NULL. */
    void (*progress)(void *context, int64_t done, int64_t total);
    void *progress_context;
};
/* False: the first run that failed, in their order, says why. */
bool run_book_simulate(struct run_book *book, const struct run_book_options *options,
                       struct error *err);

/* After the simulation. NaN: the run failed, with keep_going. */
double run_book_value(const struct run_book *book, int64_t run, int64_t slot);
struct band run_book_band(const struct run_book *book, int64_t run); /* NaN: not replayed */
int64_t run_book_run_id(const struct run_book *book, int64_t run);   /* -1: not stored */
/* The stage whose memory does not suffice, from 0; -1: it fits, or memory was not asked for. */
int64_t run_book_overflowing_stage(const struct run_book *book, int64_t run);
const char *run_book_data_status(const struct run_book *book, int64_t run);
const char *const *run_book_assumptions(const struct run_book *book, int64_t run);

#endif
