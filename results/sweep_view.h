/* sweep_view.h - a stored sweep as pictures read it: its points, and the best value over two
 * fields.
 */
#ifndef BALLAST_RESULTS_SWEEP_VIEW_H
#define BALLAST_RESULTS_SWEEP_VIEW_H

#include "results/plot.h"
#include "results/store.h"

/* The newest sweep of the database, or the one called so (`name` NULL: the newest). -1 in
 * *sweep_id: the database holds none. */
bool sweep_view_find(struct store *store, const char *name, int64_t *sweep_id, const char **found,
                     struct arena *arena, struct error *err);

/* SQL after "WHERE sweep_id = ?1" of a query over sweep_result: without the raced twins of a
 * replayed layout, which stand for the same with a shorter look, and without what leaves out more
 * than RECORD_LEFT_OUT_TOLERATED of the samples or has another reason not to be chosen
 * (sweep_row.reason), unless all have that fit. */
#define SWEEP_VIEW_NO_TWINS                                                                        \
    " AND NOT (status = 'raced' AND row_index IN (SELECT row_index FROM sweep_row WHERE sweep_id " \
    "= ?1"                                                                                         \
    " AND outcome IN (SELECT outcome FROM sweep_row WHERE sweep_id = ?1 AND status = "             \
    "'replayed')))"                                                                                \
    " AND (coalesce(left_out_fraction, 0) <= 0.01 OR NOT EXISTS (SELECT 1 FROM sweep_row WHERE "   \
    "sweep_id = ?1 AND verdict <> 'out of memory' AND coalesce(left_out_fraction, 0) <= 0.01))"    \
    " AND (verdict IS NULL OR failure IS NULL OR NOT EXISTS (SELECT 1 FROM sweep_row WHERE "       \
    "sweep_id = ?1 AND verdict <> 'out of memory' AND reason IS NULL))"

/* Its priced points, named by all that the sweep varies but the number of GPUs; "row 17" if
 * nothing. */
struct plot_choice *sweep_view_points(struct store *store, int64_t sweep_id, struct arena *arena,
                                      int64_t *count, struct error *err);

/* Its deadline and budget. */
bool sweep_view_limits(struct store *store, int64_t sweep_id, struct arena *arena,
                       struct plot_limits *limits, struct error *err);

/* The least cost over all points that share the values of two fields; NULL fields: the two with
 * most values. `sweep` is the title's name. */
bool sweep_view_heatmap(struct store *store, int64_t sweep_id, const char *sweep, const char *x,
                        const char *y, struct arena *arena, struct plot_heatmap *map,
                        struct error *err);

#endif
