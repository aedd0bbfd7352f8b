/* csv.h - a small CSV file with a header row, held whole, columns found by name.
 *
 * RFC 4180: cells may be quoted, quotes inside are doubled, quoted cells may hold commas and line
 * breaks. Large data sets have a streaming reader of their own (sim/data).
 *
 *     const struct csv *csv = csv_load(arena, "runs.csv", err);
 *     int64_t column = csv_column(csv, "seq_len");          // -1: not there
 *     const char *text = csv_cell(csv, row, column);        // "" when empty or not there
 */
#ifndef BALLAST_SIM_BASE_CSV_H
#define BALLAST_SIM_BASE_CSV_H

#include <stdint.h>
#include "sim/base/arena.h"
#include "sim/base/error.h"

struct csv {
    const char *path;
    const char **header;
    int64_t column_count, row_count;
    const char **cells; /* row_count x column_count */
    long *lines;        /* of each row in the file, from 1 */
};

/* Everything lives in the arena. A ragged row, an open quote or a repeated column is an error. */
const struct csv *csv_load(struct arena *arena, const char *path, struct error *err);
/* "semicolons", "tabs" or "bars": what the cells of this first line seem to be divided by instead
 * of commas; NULL: no sign of it. The line ends at a line break or 0. */
const char *csv_other_separator(const char *line);
/* Whether lines end with a carriage return alone, as on an old Macintosh: the first line, up to a
 * line feed or 0, holds several. */
bool csv_lone_returns(const char *line);
#define CSV_LONE_RETURNS      "its lines end with a carriage return alone"
#define CSV_LONE_RETURNS_HINT "save it with line feeds"
int64_t csv_column(const struct csv *csv, const char *name);
const char *csv_cell(const struct csv *csv, int64_t row, int64_t column);
/* Reports a mistake in a cell: file, line, column name. Always false. */
bool csv_error(const struct csv *csv, int64_t row, int64_t column, struct error *err,
               const char *format, ...) __attribute__((format(printf, 5, 6)));
/* An empty cell leaves *value as it is. */
bool csv_number(const struct csv *csv, int64_t row, int64_t column, double *value,
                struct error *err);
bool csv_count(const struct csv *csv, int64_t row, int64_t column, int64_t *value,
               struct error *err);

#endif
