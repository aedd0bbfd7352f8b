/* report_sweep.c - all configurations of the newest sweep: counts, pictures, the cheapest. */
#include "results/report_part.h"

#include <math.h>
#include <string.h>
#include "results/html.h"
#include "results/sweep_view.h"

struct sweep {
    int64_t id;
    const char *name;
};

static bool draw_heatmap(const struct report *r, const char *path, const void *what,
                         struct error *err) {
    const struct sweep *sweep = what;
    struct plot_heatmap map;
    return sweep_view_heatmap(r->store, sweep->id, sweep->name, NULL, NULL, r->arena, &map, err) &&
           plot_heatmap(path, &map, err);
}

static bool draw_pareto(const struct report *r, const char *path, const void *what,
                        struct error *err) {
    const struct sweep *sweep = what;
    int64_t count;
    struct plot_limits limits;
    const struct plot_choice *points =
        sweep_view_points(r->store, sweep->id, r->arena, &count, err);
    return points != NULL && sweep_view_limits(r->store, sweep->id, r->arena, &limits, err) &&
           plot_pareto(path, arena_format(r->arena, "%s: time against cost", sweep->name), points,
                       count, &limits, err);
}

static bool write_count(void *context, sqlite3_stmt *row, struct error *err) {
    (void)err;
    const struct report *r = context;
    fputs("<li>", r->out);
    html_text(r->out,
              arena_format(r->arena, "%s %s", report_number(r, sqlite3_column_double(row, 1), 0),
                           report_column(row, 0)));
    fputs("</li>\n", r->out);
    return true;
}

static bool write_point(void *context, sqlite3_stmt *row, struct error *err) {
    (void)err;
    const struct report *r = context;
    fputs("<tr>", r->out);
    for (int c = 0; c < 5; c++) {
        const bool known = sqlite3_column_type(row, c) != SQLITE_NULL;
        const double value = known ? sqlite3_column_double(row, c) : NAN;
        html_number_cell(r->out, value,
                         c == 4 ? report_percent(r, value)
                                : report_number(r,
                                                value * (c == 1   ? r->time.per_day
                                                         : c == 2 ? r->work.per_day
                                                                  : 1),
                                                c == 0 ? 0 : 2));
    }
    html_cell(r->out, report_column(row, 5));
    html_cell(r->out, report_column(row, 6));
    fputs("<td class=\"wide\">", r->out);
    html_text(r->out, report_column(row, 7));
    fputs("</td></tr>\n", r->out);
    return true;
}

bool report_sweep(struct report *r) {
    struct sweep sweep;
    if (!sweep_view_find(r->store, NULL, &sweep.id, &sweep.name, r->arena, r->err)) return false;
    if (sweep.id < 0) return true;
    fputs("<h2 id=\"sweep\">Sweep: ", r->out);
    html_text(r->out, sweep.name);
    fputs("</h2>\n<p>The runs above are its best configurations, replayed in full. Of all "
          "configurations:</p>\n<ul>\n",
          r->out);
    bool ok = store_query(r->store,
                          "SELECT status, count(*) FROM sweep_result WHERE sweep_id = ?1"
                          " GROUP BY status ORDER BY 2 DESC",
                          sweep.id, write_count, r, r->err) &&
              store_query(r->store,
                          "SELECT 'rejected: ' || rule || ', for example ' || message, row_count"
                          " FROM sweep_rejection WHERE sweep_id = ?1 ORDER BY 2 DESC",
                          sweep.id, write_count, r, r->err);
    fputs("</ul>\n", r->out);
    ok = ok &&
         report_picture(
             r, "heatmap", draw_heatmap, &sweep, "least cost over two fields of the sweep",
             "The least cost of all configurations that share the values of two fields: where "
             "the good region lies, and how much a wrong choice costs. Framed cells were replayed; "
             "\xe2\x89\x88 marks those that were raced on a step or two.") &&
         report_picture(
             r, "pareto", draw_pareto, &sweep, "time against cost of all configurations",
             "Every configuration; nothing is both faster and cheaper than the large dots.");
    if (!ok) return false;
    fprintf(
        r->out,
        "<details><summary>The 50 cheapest configurations</summary><div class=\"scroll\"><table>"
        "<thead><tr><th class=\"n\">row</th><th class=\"n\">%s</th><th class=\"n\">%s</th>"
        "<th class=\"n\">USD</th><th class=\"n\">MFU</th><th>fit</th><th>status</th>"
        "<th>configuration</th></tr></thead><tbody>\n",
        r->time.name, r->work.name);
    ok = store_query(
        r->store,
        "SELECT row_index, total_days, gpu_days, money_usd, mfu_fraction,"
        " verdict || iif(may_run_out, ', a heavier step may not', ''), status,"
        " assignments FROM sweep_result WHERE sweep_id = ?1 AND verdict <> 'out of"
        " memory'" SWEEP_VIEW_NO_TWINS
        " ORDER BY coalesce(money_usd, gpu_days), row_index LIMIT 50",
        sweep.id, write_point, r, r->err);
    fputs("</tbody></table></div></details>\n", r->out);
    return ok;
}
