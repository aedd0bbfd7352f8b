/* execution_rows.h - all that a run leaves in the database, before it is there: another process can
 * make the rows and send them to the one that stores.
 *
 *     struct execution_rows rows;
 *     if (!execution_rows_make(execution, provenance, arena, &rows, err)) return false;
 *     execution_rows_pack(&bytes, &rows);                     // ... to the other process ...
 *     execution_rows_unpack(&at, end, arena, &rows);
 *     execution_rows_store(store, &rows, NULL, err);          // rows.run.id is set
 */
#ifndef BALLAST_SIM_STUDY_EXECUTION_ROWS_H
#define BALLAST_SIM_STUDY_EXECUTION_ROWS_H

#include "results/record_pack.h"
#include "sim/study/execution.h"

/* Tables whose rows belong to a run: RECORD_ITERATION to RECORD_SEARCH_PROGRESS. */
enum { EXECUTION_TABLES = RECORD_SEARCH_PROGRESS - RECORD_ITERATION + 1 };

struct execution_rows {
    struct run_record run;
    struct {
        const void *records;
        int64_t count;
    } tables[EXECUTION_TABLES]; /* by table - RECORD_ITERATION */
};

/* Records live in the arena; texts may be the execution's, and last as long as it. */
bool execution_rows_make(const struct execution *execution, const struct provenance *provenance,
                         struct arena *arena, struct execution_rows *rows, struct error *err);
void execution_rows_pack(struct record_bytes *bytes, const struct execution_rows *rows);
void execution_rows_unpack(const char **at, const char *end, struct arena *arena,
                           struct execution_rows *rows);
/* With the row of a sweep, whose run_id is set (NULL: without): both are stored or neither. */
bool execution_rows_store(struct store *store, struct execution_rows *rows,
                          struct sweep_row_record *row, struct error *err);

#endif
