/* store.h - keeps results in SQLite and gives them back. The tables are those of schema.sql.
 *
 * A run and all its rows are one transaction, from store_begin_run() to store_finish_run(): a
 * reader, and a process started after a crash, sees all of it or nothing. One process writes a
 * database at a time; another that tries waits ten seconds and then gets an error. Simulate first
 * and store then, so that the database is not held for long. A store belongs to one thread.
 *
 *     struct store *s = store_open("results.db", DB_WRITE, err);
 *     store_begin_run(s, &run, err);                 // run.id is set
 *     store_add_iterations(s, iterations, count, err);
 *     run.status = "done"; run.step_time_mean_ms = ...
 *     store_finish_run(s, &run, err);                // writes run again, with the answer
 *     store_close(s);
 *
 * Ownership: the store copies all that it is given; what it loads lives in the caller's arena.
 */
#ifndef BALLAST_RESULTS_STORE_H
#define BALLAST_RESULTS_STORE_H

#include <stdio.h>
#include "results/db.h"
#include "results/record.h"
#include "sim/base/arena.h"
#include "sim/base/error.h"

#define STORE_SCHEMA_VERSION 17

struct store;

/* DB_WRITE makes a missing or empty file, and brings one of an older version up to date; DB_READ
 * does so in a private copy, and leaves the file as it is. NULL: failed. */
struct store *store_open(const char *path, enum db_mode mode, struct error *err);
/* Forgets a run that is not finished; a file that this store made, and in which nothing was stored,
 * goes. */
void store_close(struct store *store);
/* The same for a process that ends next, from a thread of its own: see db_stop(). */
void store_stop(struct store *store);
struct db *store_db(struct store *store);
int64_t store_sweep_id(const struct store *store); /* of the sweep begun last; 0: none */

/* ---- writing ---- */

bool store_begin_run(struct store *store, struct run_record *run, struct error *err);
bool store_finish_run(struct store *store, const struct run_record *run, struct error *err);
void store_abandon_run(struct store *store); /* does nothing if no run is begun */

/* Appends rows. Those of a run belong to the run begun last, and need one. Those of a sweep belong
 * to the sweep begun last; given between begin and finish they appear together with that run. */
bool store_add(struct store *store, enum record_table_id table, const void *records, int64_t count,
               struct error *err);

/* Takes up the sweep with this name and definition, or makes it; its objective and limits become
 * those given. *sweep_id is for store_load(). A sweep of that name with another definition or from
 * another version of Ballast is an error. Between store_begin() and store_end() it is a part of
 * their transaction. */
bool store_begin_sweep(struct store *store, const struct sweep_record *sweep, int64_t *sweep_id,
                       struct error *err);
/* Several store_add() as one transaction; after a false of one of them, or of store_end(), nothing
 * of it was stored, nor where the store is closed before its end. */
bool store_begin(struct store *store, struct error *err);
bool store_end(struct store *store, struct error *err);

static inline bool store_add_iterations(struct store *store, const struct iteration_record *records,
                                        int64_t count, struct error *err) {
    return store_add(store, RECORD_ITERATION, records, count, err);
}

static inline bool store_add_stages(struct store *store, const struct stage_record *records,
                                    int64_t count, struct error *err) {
    return store_add(store, RECORD_STAGE, records, count, err);
}

static inline bool store_add_memory(struct store *store, const struct memory_record *records,
                                    int64_t count, struct error *err) {
    return store_add(store, RECORD_MEMORY, records, count, err);
}

static inline bool store_add_prices(struct store *store, const struct price_record *records,
                                    int64_t count, struct error *err) {
    return store_add(store, RECORD_PRICE, records, count, err);
}

static inline bool store_add_spans(struct store *store, const struct span_record *records,
                                   int64_t count, struct error *err) {
    return store_add(store, RECORD_SPAN, records, count, err);
}

static inline bool store_add_memory_points(struct store *store,
                                           const struct memory_point_record *records, int64_t count,
                                           struct error *err) {
    return store_add(store, RECORD_MEMORY_POINT, records, count, err);
}

static inline bool store_add_search_progress(struct store *store,
                                             const struct search_progress_record *records,
                                             int64_t count, struct error *err) {
    return store_add(store, RECORD_SEARCH_PROGRESS, records, count, err);
}

/* Takes the place of rows with the same configuration. */
static inline bool store_add_sweep_rows(struct store *store, const struct sweep_row_record *records,
                                        int64_t count, struct error *err) {
    return store_add(store, RECORD_SWEEP_ROW, records, count, err);
}

static inline bool store_add_sweep_rejections(struct store *store,
                                              const struct sweep_rejection_record *records,
                                              int64_t count, struct error *err) {
    return store_add(store, RECORD_SWEEP_REJECTION, records, count, err);
}

static inline bool store_add_sweep_inputs(struct store *store,
                                          const struct sweep_input_record *records, int64_t count,
                                          struct error *err) {
    return store_add(store, RECORD_SWEEP_INPUT, records, count, err);
}

static inline bool store_add_sweep_rounds(struct store *store,
                                          const struct sweep_round_record *records, int64_t count,
                                          struct error *err) {
    return store_add(store, RECORD_SWEEP_ROUND, records, count, err);
}

static inline bool store_add_reproductions(struct store *store,
                                           const struct reproduction_record *records, int64_t count,
                                           struct error *err) {
    return store_add(store, RECORD_REPRODUCTION, records, count, err);
}

static inline bool store_add_validations(struct store *store,
                                         const struct validation_record *records, int64_t count,
                                         struct error *err) {
    return store_add(store, RECORD_VALIDATION, records, count, err);
}

/* ---- reading ---- */

/* `name` is an id, or the name of a scenario that was stored once: of several runs of one name the
 * error lists the numbers. */
bool store_find_run(struct store *store, const char *name, int64_t *run_id, struct error *err);
/* All rows of one owner in order, as an array of the table's struct; NULL: failed. The owner is the
 * run or sweep that they belong to; for tables with an id of their own it is that id, or -1 for
 * all. struct stage_record *stages = store_load(store, RECORD_STAGE, run_id, arena, &count, err);
 */
void *store_load(struct store *store, enum record_table_id table, int64_t owner,
                 struct arena *arena, int64_t *count, struct error *err);

/* Calls `row` for each row of a query; ?1 in the SQL, if there, is `id`. A row that returns false
 * (having set err) ends the query. */
typedef bool (*store_row)(void *context, sqlite3_stmt *row, struct error *err);
bool store_query(struct store *store, const char *sql, int64_t id, store_row row, void *context,
                 struct error *err);

/* ---- out of the house ---- */

enum store_format { STORE_CSV, STORE_JSON, STORE_MARKDOWN, STORE_FORMAT_COUNT };
const char *store_format_name(enum store_format format); /* "csv", "json", "markdown" */

/* Writes a table or view of schema.sql, of one run or (run_id -1) whole. CSV and JSON keep every
 * digit; Markdown is for people and shows six. */
bool store_export(struct store *store, const char *table, int64_t run_id, enum store_format format,
                  FILE *out, struct error *err);

/* SHA-256 of all that must be equal when the same things are run again: every row of every table
 * except ids and the columns of volatile.txt. It does not depend on the order in which runs,
 * sweeps, reproductions and validations were stored. */
bool store_digest(struct store *store, char text[65], struct error *err);

#endif
