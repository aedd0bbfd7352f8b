/* report_sweep.c - all configurations of the newest sweep: counts, pictures, the cheapest. */
#include "results/report_part.h"

#include <math.h>
#include <stdlib.h>
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

/* ---- the cheapest ---- */

enum { CHEAPEST = 50 };

struct listed {
    const struct report *report;
    bool priced;
};

/* What keeps deadline and budget first, then the cheapest. */
static int by_cost(const void *a, const void *b, void *context) {
    const struct plot_choice *left = *(const struct plot_choice *const *)a,
                             *right = *(const struct plot_choice *const *)b;
    const struct listed *l = context;
    const bool breaks = report_breach_of(l->report, left->days, left->money_usd)[0] != '\0';
    if (breaks != (report_breach_of(l->report, right->days, right->money_usd)[0] != '\0'))
        return breaks ? 1 : -1;
    const double less = plot_choice_cost(left, l->priced) - plot_choice_cost(right, l->priced);
    if (less < 0 || less > 0) return less < 0 ? -1 : 1;
    return (left->row_index > right->row_index) - (left->row_index < right->row_index);
}

static void write_point(const struct report *r, const struct plot_choice *p, const char *differs) {
    FILE *out = r->out;
    fputs("<tr>", out);
    html_number_cell(out, (double)p->row_index,
                     arena_format(r->arena, "%lld", (long long)p->row_index));
    html_number_cell(out, p->days, report_number(r, p->days * r->time.per_day, 2));
    html_number_cell(out, p->gpu_days, report_number(r, p->gpu_days * r->work.per_day, 2));
    html_number_cell(out, p->money_usd, report_number(r, p->money_usd, 2));
    html_number_cell(out, p->band.above, report_band(r, p->band));
    html_number_cell(out, p->mfu_fraction, report_percent(r, p->mfu_fraction));
    html_number_cell(out, (double)p->gpu_count,
                     arena_format(r->arena, "%lld", (long long)p->gpu_count));
    fprintf(out, "<td><span class=\"tag %s\">%s</span>", p->tight ? "tight" : "fits",
            p->tight ? "tight" : "fits");
    if (p->may_run_out) fputs(" <span class=\"tag tight\">a heavier step may not</span>", out);
    if (p->memory_unknown) fputs(" <span class=\"tag tight\">heavier steps not known</span>", out);
    const char *breach = report_breach_of(r, p->days, p->money_usd);
    if (breach[0] != '\0') fprintf(out, " <span class=\"tag out\">%s</span>", breach);
    fprintf(out, "</td><td>%s, %lld step%s</td><td class=\"wide\">",
            p->raced ? "\xe2\x89\x88 raced" : "replayed", (long long)p->steps,
            p->steps == 1 ? "" : "s");
    html_text(out, differs);
    fputs("</td></tr>\n", out);
}

/* The axes in which the rows differ tell them apart; what they share is said once. */
static bool write_cheapest(const struct report *r, int64_t sweep_id) {
    int64_t count, fitting = 0;
    const struct plot_choice *points =
        sweep_view_points(r->store, sweep_id, r->arena, &count, r->err);
    if (points == NULL) return false;
    const struct plot_choice **rows = arena_array(r->arena, const struct plot_choice *, count);
    for (int64_t i = 0; i < count; i++)
        if (!points[i].out_of_memory) rows[fitting++] = &points[i];
    if (fitting == 0) return true;
    struct listed listed = { r, plot_choices_priced(points, count) };
    qsort_r(rows, (size_t)fitting, sizeof(*rows), by_cost, &listed);
    const int64_t shown = fitting < CHEAPEST ? fitting : CHEAPEST;
    const char *texts[CHEAPEST], *shared;
    plot_choice_differences(rows, shown, r->arena, texts, &shared);
    fprintf(r->out, "<details open><summary>The %lld cheapest configurations%s%s%s</summary>\n",
            (long long)shown, report_wish_limits(r) ? ", those that keep " : "",
            report_wish_limits(r) ? report_wish_words(r) : "",
            report_wish_limits(r) ? " first" : "");
    if (shared[0] != '\0') {
        fputs("<p class=\"soft\">All of them: ", r->out);
        html_text(r->out, shared);
        fputs(".</p>\n", r->out);
    }
    fprintf(r->out,
            "<div class=\"scroll tall\"><table id=\"cheapest\"><thead><tr><th class=\"n\">row</th>"
            "<th class=\"n\">%s</th><th class=\"n\">%s</th><th class=\"n\">USD</th>"
            "<th class=\"n\">band</th><th class=\"n\">MFU</th><th class=\"n\">GPUs</th><th>fit</th>"
            "<th>rests on</th><th>what differs</th></tr></thead><tbody>\n",
            r->time.name, r->work.name);
    for (int64_t i = 0; i < shown; i++)
        write_point(r, rows[i], texts[i]);
    fputs("</tbody></table></div></details>\n", r->out);
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
         report_picture(r, "pareto", draw_pareto, &sweep, "time against cost of all configurations",
                        "Every configuration; nothing is both faster and cheaper than the large "
                        "marks. A stroke "
                        "through one is its error band.");
    return ok && write_cheapest(r, sweep.id);
}
