/* report.c - the page: the answer, all runs, the best ones in detail, what is assumed, how to get
 * each number again.
 *
 * "Best" is the least money (GPU-days where a run has no price) among finished runs that fit in
 * memory.
 */
#include "results/report.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>
#include "report_css.h"
#include "report_js.h"
#include "results/html.h"
#include "results/plot.h"
#include "results/sweep_view.h"
#include "sim/base/units.h"
#include "sim/scenario/scenario.h"

struct report {
    FILE *out;
    struct store *store;
    struct arena *arena;
    const struct report_options *options;
    const struct run_record *const *runs;
    int64_t run_count;
    int64_t best, second; /* index in runs; -1: none */
    char folder[64];      /* of pictures, while the page is made */
    bool no_pictures;     /* gnuplot is missing: said once */
    struct error *err;
};

enum { LONG_NAME = 40 };

/* ---- numbers as people read them ---- */

static const char *number(const struct report *r, double value, int digits) {
    if (!isfinite(value)) return "";
    char plain[64];
    snprintf(plain, sizeof plain, "%.*f", fabs(value) >= 1000 ? 0 : digits, value);
    if (fabs(value) > 0 && fabs(value) < 0.1) snprintf(plain, sizeof plain, "%.2g", value);
    /* 1,267,712 */
    char text[96];
    size_t at = 0, whole = strcspn(plain, ".e");
    for (size_t i = 0; plain[i] != '\0'; i++) {
        if (i > 0 && i < whole && plain[i - 1] != '-' && (whole - i) % 3 == 0) text[at++] = ',';
        text[at++] = plain[i];
    }
    text[at] = '\0';
    return arena_text(r->arena, text);
}

static const char *step_text(const struct report *r, double ms) {
    return ms >= 1e4 ? arena_format(r->arena, "%s s", number(r, ms / 1e3, 2))
                     : arena_format(r->arena, "%s ms", number(r, ms, 1));
}

static const char *percent(const struct report *r, double fraction) {
    return isfinite(fraction) ? arena_format(r->arena, "%.1f %%", fraction * 100) : "";
}

static bool is_done(const struct run_record *run) {
    return run->status != NULL && strcmp(run->status, "done") == 0;
}

static bool is_out_of_memory(const struct run_record *run) {
    return run->verdict != NULL && strcmp(run->verdict, "out of memory") == 0;
}

static double cost_of(const struct run_record *run) {
    return isfinite(run->money_usd) ? run->money_usd : run->gpu_days;
}

static bool is_candidate(const struct run_record *run) {
    return is_done(run) && !is_out_of_memory(run) && isfinite(cost_of(run));
}

static void rank_runs(struct report *r) {
    r->best = r->second = -1;
    for (int64_t i = 0; i < r->run_count; i++) {
        if (!is_candidate(r->runs[i])) continue;
        const double cost = cost_of(r->runs[i]);
        if (r->best < 0 || cost < cost_of(r->runs[r->best])) {
            r->second = r->best;
            r->best = i;
        } else if (r->second < 0 || cost < cost_of(r->runs[r->second])) {
            r->second = i;
        }
    }
}

static void verdict_tag(FILE *out, const struct run_record *run) {
    const char *verdict = run->verdict != NULL ? run->verdict : run->status;
    const char *class = is_out_of_memory(run)              ? "out"
                        : verdict != NULL && !is_done(run) ? "out"
                        : strcmp(verdict, "tight") == 0    ? "tight"
                                                           : "fits";
    fprintf(out, "<span class=\"tag %s\">", class);
    html_text(out, verdict);
    fputs("</span>", out);
}

/* ---- the answer ---- */

static void figure(const struct report *r, const char *value, const char *label) {
    if (value[0] == '\0') return;
    fputs("<div><b>", r->out);
    html_text(r->out, value);
    fputs("</b><span>", r->out);
    html_text(r->out, label);
    fputs("</span></div>\n", r->out);
}

static void write_figures(const struct report *r, const struct run_record *run) {
    fputs("<div class=\"figures\">\n", r->out);
    figure(r,
           arena_format(r->arena, "%s \xc2\xb1 %.0f %%", step_text(r, run->step_time_mean_ms),
                        run->band_fraction * 100),
           arena_format(r->arena, "a step, mean; p95 %s", step_text(r, run->step_time_p95_ms)));
    figure(r, arena_format(r->arena, "%s days", number(r, run->total_days, 2)),
           arena_format(r->arena, "the whole training on %lld GPUs", (long long)run->gpu_count));
    figure(r, number(r, run->gpu_days, 1), "GPU-days");
    if (isfinite(run->money_usd))
        figure(r, arena_format(r->arena, "%s USD", number(r, run->money_usd, 2)),
               "at the scenario's price");
    figure(r, percent(r, run->mfu_fraction),
           arena_format(r->arena, "MFU; HFU %s", percent(r, run->hfu_fraction)));
    figure(r,
           arena_format(r->arena, "%.1f of %.0f GiB",
                        (double)run->memory_peak_bytes / BYTES_PER_GiB,
                        (double)run->memory_capacity_bytes / BYTES_PER_GiB),
           arena_format(r->arena, "memory of the fullest GPU, on stage %lld",
                        (long long)run->verdict_stage_index + 1));
    fputs("</div>\n", r->out);
}

static int largest_part(const struct run_record *run) {
    int most = 0;
    for (int p = 1; p < PLOT_PARTS; p++)
        if (plot_part_ms(run, p) > plot_part_ms(run, most)) most = p;
    return most;
}

/* What a part of the step costs over the whole training: comparable whatever a step holds. */
static double part_gpu_days(const struct run_record *run, int part) {
    const double ms = plot_part_ms(run, part);
    return isfinite(ms) ? ms / run->step_time_mean_ms * run->gpu_days : 0;
}

static bool matters(const struct run_record *best, const struct run_record *second, int part) {
    return fabs(part_gpu_days(second, part) - part_gpu_days(best, part)) > 0.002 * second->gpu_days;
}

static void write_causes(const struct report *r, const struct run_record *best,
                         const struct run_record *second) {
    bool any = false;
    for (int p = 0; p < PLOT_PARTS; p++)
        any = any || matters(best, second, p);
    if (!any) return;
    fputs("<div class=\"scroll\"><table id=\"causes\"><thead><tr><th>GPU-days for</th>"
          "<th class=\"n\">best</th><th class=\"n\">next</th><th class=\"n\">difference</th></tr>"
          "</thead><tbody>\n",
          r->out);
    for (int p = 0; p < PLOT_PARTS; p++) {
        const double a = part_gpu_days(best, p), b = part_gpu_days(second, p);
        if (!matters(best, second, p)) continue;
        fputs("<tr>", r->out);
        html_cell(r->out, plot_parts[p].name);
        html_number_cell(r->out, a, number(r, a, 2));
        html_number_cell(r->out, b, number(r, b, 2));
        html_number_cell(r->out, b - a,
                         arena_format(r->arena, "%s%s", b > a ? "+" : "", number(r, b - a, 2)));
        fputs("</tr>\n", r->out);
    }
    fputs("</tbody></table></div>\n", r->out);
}

static void write_against_second(const struct report *r) {
    const struct run_record *best = r->runs[r->best], *second = r->runs[r->second];
    fputs("<p>Next best: ", r->out);
    html_text(r->out, second->scenario_name);
    const double more = cost_of(second) / cost_of(best) - 1;
    fprintf(r->out, ", which costs %s more. ", percent(r, more));
    fputs(more > best->band_fraction + second->band_fraction
              ? "That is more than both error bands together.</p>\n"
              : "That is inside the error bands; much of such an error is common to both runs, so "
                "the order may hold all the same: <code>ballast compare</code> says how sure it "
                "is.</p>\n",
          r->out);
    write_causes(r, best, second);
}

struct cheapest_point {
    int64_t row;
    double cost;
};

static bool keep_point(void *context, sqlite3_stmt *row, struct error *err) {
    (void)err;
    struct cheapest_point *p = context;
    *p = (struct cheapest_point){ sqlite3_column_int64(row, 0), sqlite3_column_double(row, 1) };
    return true;
}

/* A sweep replays what its own objective ranks first; the table of runs may lack what is cheapest. */
static bool write_cheaper_point(const struct report *r, const struct run_record *best) {
    struct cheapest_point point = { .row = -1 };
    const bool priced = isfinite(best->money_usd);
    if (!store_query(r->store,
                     priced ? "SELECT row_index, money_usd FROM sweep_result WHERE money_usd IS NOT"
                              " NULL AND verdict <> 'out of memory' ORDER BY 2 LIMIT 1"
                            : "SELECT row_index, gpu_days FROM sweep_result WHERE gpu_days IS NOT"
                              " NULL AND verdict <> 'out of memory' ORDER BY 2 LIMIT 1",
                     0, keep_point, &point, r->err))
        return false;
    if (point.row < 0 || point.cost > 0.98 * cost_of(best)) return true;
    fputs(
        "<p><b>The sweep holds cheaper configurations</b> that it did not replay, because it ranks "
        "by another objective: ",
        r->out);
    html_text(r->out,
              arena_format(r->arena, "row %lld costs %s %s after its race over the first steps. ",
                           (long long)point.row, number(r, point.cost, 1),
                           priced ? "USD" : "GPU-days"));
    fputs("Sweep again with that objective to have them replayed in full.</p>\n", r->out);
    return true;
}

static bool write_answer(const struct report *r) {
    FILE *out = r->out;
    fputs("<section class=\"answer\" id=\"answer\">\n", out);
    if (r->best < 0) {
        fputs(
            "<p class=\"first\"><b>No run fits.</b> Each of them failed or runs out of memory: the "
            "table says where.</p></section>\n",
            out);
        return true;
    }
    const struct run_record *best = r->runs[r->best];
    fputs("<p class=\"first\"><b>", out);
    html_text(out, best->scenario_name);
    fputs("</b> ", out);
    verdict_tag(out, best);
    if (r->run_count > 1)
        fprintf(out, " costs least of %lld runs%s.", (long long)r->run_count,
                isfinite(best->money_usd) ? "" : " (in GPU-days)");
    fputs("</p>\n", out);
    write_figures(r, best);
    const int most = largest_part(best);
    fprintf(out, "<p>Most of a step goes into %s (%s). ", plot_parts[most].name,
            percent(r, plot_part_ms(best, most) / best->step_time_mean_ms));
    fprintf(out,
            "The band holds 80 %% of the measured runs that nothing was fitted on%s.</p>\n",
            best->inside_range == 0
                ? "; some operators are priced <b>outside the measured range</b>, see below"
                : "");
    if (r->second >= 0) write_against_second(r);
    if (!write_cheaper_point(r, best)) return false;
    fputs("</section>\n", out);
    return true;
}

/* ---- all runs ---- */

struct run_setup {
    const char *model, *dataset, *hardware, *layout, *policies;
};

struct setup_reader {
    struct arena *arena;
    struct run_setup *setup;
};

static const char *column(sqlite3_stmt *row, int index) {
    const unsigned char *text = sqlite3_column_text(row, index);
    return text != NULL ? (const char *)text : "?";
}

static bool read_setup(void *context, sqlite3_stmt *row, struct error *err) {
    (void)err;
    struct setup_reader *r = context;
    const char *vpp = column(row, 5), *cp = column(row, 6);
    r->setup->model = arena_text(r->arena, column(row, 0));
    r->setup->dataset = arena_text(r->arena, column(row, 1));
    r->setup->hardware = arena_text(r->arena, column(row, 2));
    r->setup->layout = arena_format(
        r->arena, "TP %s, PP %s%s%s, DP %s%s%s, ZeRO-%s", column(row, 3), column(row, 4),
        strcmp(vpp, "1") == 0 ? "" : " x ", strcmp(vpp, "1") == 0 ? "" : vpp, column(row, 7),
        strcmp(cp, "1") == 0 ? "" : ", CP ", strcmp(cp, "1") == 0 ? "" : cp, column(row, 8));
    r->setup->policies = arena_format(r->arena, "%s, %s, %s, %s", column(row, 9), column(row, 10),
                                      column(row, 11), column(row, 12));
    return true;
}

static bool setup_of(const struct report *r, int64_t run_id, struct run_setup *setup) {
    *setup = (struct run_setup){ "", "", "", "", "" };
    struct setup_reader reader = { r->arena, setup };
    return store_query(r->store,
                       "SELECT model, dataset, hardware, tp, pp, vpp, cp, dp, zero_stage, batching,"
                       " partition, recompute, schedule FROM run_setup WHERE run_id = ?1",
                       run_id, read_setup, &reader, r->err);
}

static const struct {
    const char *key, *label;
    bool number;
} columns[] = {
    { "name", "run", false },
    { "fit", "fit", false },
    { "gpu_days", "GPU-days", true },
    { "usd", "USD", true },
    { "days", "days", true },
    { "step_ms", "step, ms", true },
    { "band", "band", true },
    { "spread", "p95 / p50", true },
    { "mfu", "MFU", true },
    { "memory", "memory, GiB", true },
    { "gpus", "GPUs", true },
    { "layout", "layout", false },
    { "policies", "policies", false },
};

static bool write_run_row(const struct report *r, int64_t index) {
    FILE *out = r->out;
    const struct run_record *run = r->runs[index];
    struct run_setup setup;
    if (!setup_of(r, run->id, &setup)) return false;
    fputs(index == r->best ? "<tr class=\"best\">" : "<tr>", out);
    fprintf(out, "<td class=\"%s\" title=\"run %lld\">",
            strlen(run->scenario_name) > LONG_NAME ? "name long" : "name", (long long)run->id);
    html_text(out, run->scenario_name);
    fputs("</td><td>", out);
    verdict_tag(out, run);
    fputs("</td>", out);
    html_number_cell(out, run->gpu_days, number(r, run->gpu_days, 2));
    html_number_cell(out, run->money_usd, number(r, run->money_usd, 2));
    html_number_cell(out, run->total_days, number(r, run->total_days, 3));
    html_number_cell(out, run->step_time_mean_ms, number(r, run->step_time_mean_ms, 1));
    html_number_cell(out, run->band_fraction,
                     arena_format(r->arena, "\xc2\xb1 %.0f %%", run->band_fraction * 100));
    const double spread = run->step_time_p95_ms / run->step_time_p50_ms;
    html_number_cell(out, spread, arena_format(r->arena, "%.3f", spread));
    html_number_cell(out, run->mfu_fraction, percent(r, run->mfu_fraction));
    const double peak_GiB = (double)run->memory_peak_bytes / BYTES_PER_GiB;
    html_number_cell(out, run->memory_peak_bytes < 0 ? NAN : peak_GiB, number(r, peak_GiB, 1));
    html_number_cell(out, (double)run->gpu_count,
                     arena_format(r->arena, "%lld", (long long)run->gpu_count));
    html_cell(out, setup.layout);
    html_cell(out, setup.policies);
    fputs("</tr>\n", out);
    return true;
}

static bool write_runs(const struct report *r) {
    FILE *out = r->out;
    fputs("<h2 id=\"all\">All runs</h2>\n<p><label>Filter: <input id=\"filter\" type=\"search\" "
          "placeholder=\"words that a row must hold: fits pp 4\"></label> "
          "<span id=\"shown\" class=\"soft\"></span></p>\n<div class=\"scroll\"><table id=\"runs\">"
          "<thead><tr>",
          out);
    for (size_t c = 0; c < sizeof columns / sizeof columns[0]; c++)
        fprintf(out, "<th data-key=\"%s\"%s><button>%s</button></th>", columns[c].key,
                columns[c].number ? " class=\"n\"" : "", columns[c].label);
    fputs("</tr></thead><tbody>\n", out);
    for (int64_t i = 0; i < r->run_count; i++)
        if (!write_run_row(r, i)) return false;
    fputs("</tbody></table></div>\n<p class=\"soft\">Click a column to sort by it. Policies: "
          "batching, partition, recompute, schedule.</p>\n",
          out);
    return true;
}

/* ---- pictures ---- */

/* What gnuplot draws into `path`; false with an error. */
typedef bool (*picture_draw)(const struct report *r, const char *path, const void *what,
                             struct error *err);

static bool picture(struct report *r, const char *name, picture_draw draw, const void *what,
                    const char *description, const char *caption) {
    if (r->no_pictures) return true;
    const char *path = arena_format(r->arena, "%s/%s.svg", r->folder, name);
    struct error reason = { 0 };
    if (!draw(r, path, what, &reason)) {
        /* Without gnuplot the page is poorer, not wrong. */
        r->no_pictures = strstr(reason.text, "cannot start gnuplot") != NULL;
        fputs("<p class=\"soft\">No picture: ", r->out);
        html_text(r->out, reason.text);
        fputs(".</p>\n", r->out);
        return true;
    }
    fputs(strstr(name, "timeline") == name ? "<figure>" : "<figure class=\"high\">", r->out);
    bool ok = html_image(r->out, path, "image/svg+xml", description, r->err);
    fputs("<figcaption>", r->out);
    html_text(r->out, caption);
    fputs("</figcaption></figure>\n", r->out);
    unlink(path);
    return ok;
}

enum { BREAKDOWN_RUNS = 8 };

static bool draw_breakdown(const struct report *r, const char *path, const void *what,
                           struct error *err) {
    (void)what;
    const struct run_record *shown[BREAKDOWN_RUNS];
    struct run_record named[BREAKDOWN_RUNS];
    int64_t count = 0;
    /* The best one first, the others as in the table. */
    if (r->best >= 0) shown[count++] = r->runs[r->best];
    for (int64_t i = 0; i < r->run_count && count < BREAKDOWN_RUNS; i++)
        if (i != r->best && is_done(r->runs[i])) shown[count++] = r->runs[i];
    /* The names of a sweep's runs are sentences; the table has them beside the numbers. */
    for (int64_t i = 0; i < count; i++) {
        named[i] = *shown[i];
        if (strlen(named[i].scenario_name) > LONG_NAME)
            named[i].scenario_name = arena_format(r->arena, "run %lld", (long long)named[i].id);
        shown[i] = &named[i];
    }
    return plot_runs_breakdown(path, "Where the time of a mean step goes", shown, count, err);
}

static bool draw_timeline(const struct report *r, const char *path, const void *what,
                          struct error *err) {
    const struct run_record *run = what;
    int64_t count;
    const struct span_record *spans =
        store_load(r->store, RECORD_SPAN, run->id, r->arena, &count, err);
    return spans != NULL && plot_timeline(path, run->scenario_name, spans, count, 0,
                                          plot_timeline_default_until_ns(spans, count, 0), err);
}

static bool draw_memory(const struct report *r, const char *path, const void *what,
                        struct error *err) {
    const struct run_record *run = what;
    int64_t count;
    const struct memory_point_record *points =
        store_load(r->store, RECORD_MEMORY_POINT, run->id, r->arena, &count, err);
    return points != NULL &&
           plot_memory(path, run->scenario_name, points, count, 0, run->memory_capacity_bytes, err);
}

static bool draw_steps(const struct report *r, const char *path, const void *what,
                       struct error *err) {
    const struct run_record *run = what;
    int64_t count;
    const struct iteration_record *iterations =
        store_load(r->store, RECORD_ITERATION, run->id, r->arena, &count, err);
    return iterations != NULL && plot_steps(path, run->scenario_name, iterations, count, err);
}

/* ---- a sweep ---- */

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
    struct run_record *points = sweep_view_points(r->store, sweep->id, r->arena, &count, err);
    if (points == NULL) return false;
    const struct run_record **list = arena_array(r->arena, const struct run_record *, count);
    for (int64_t i = 0; i < count; i++)
        list[i] = &points[i];
    return plot_pareto(path, arena_format(r->arena, "%s: time against cost", sweep->name), list,
                       count, err);
}

static bool write_count(void *context, sqlite3_stmt *row, struct error *err) {
    (void)err;
    const struct report *r = context;
    fputs("<li>", r->out);
    html_text(r->out, arena_format(r->arena, "%s %s", number(r, sqlite3_column_double(row, 1), 0),
                                   column(row, 0)));
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
                         c == 4 ? percent(r, value) : number(r, value, c == 0 ? 0 : 3));
    }
    html_cell(r->out, column(row, 5));
    html_cell(r->out, column(row, 6));
    fputs("<td class=\"wide\">", r->out);
    html_text(r->out, column(row, 7));
    fputs("</td></tr>\n", r->out);
    return true;
}

/* All configurations of the newest sweep; nothing where the database holds none. */
static bool write_sweep(struct report *r) {
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
         picture(r, "heatmap", draw_heatmap, &sweep, "least cost over two fields of the sweep",
                 "The least cost of all configurations that share the values of two fields: where "
                 "the good region lies, and how much a wrong choice costs.") &&
         picture(r, "pareto", draw_pareto, &sweep, "time against cost of all configurations",
                 "Every configuration; what stands on the line is beaten in nothing.");
    if (!ok) return false;
    fputs(
        "<details><summary>The 50 cheapest configurations</summary><div class=\"scroll\"><table>"
        "<thead><tr><th class=\"n\">row</th><th class=\"n\">days</th><th class=\"n\">GPU-days</th>"
        "<th class=\"n\">USD</th><th class=\"n\">MFU</th><th>fit</th><th>status</th>"
        "<th>configuration</th></tr></thead><tbody>\n",
        r->out);
    ok = store_query(
        r->store,
        "SELECT row_index, total_days, gpu_days, money_usd, mfu_fraction, verdict, status,"
        " assignments FROM sweep_result WHERE sweep_id = ?1 AND verdict <> 'out of"
        " memory' ORDER BY coalesce(money_usd, gpu_days), row_index LIMIT 50",
        sweep.id, write_point, r, r->err);
    fputs("</tbody></table></div></details>\n", r->out);
    return ok;
}

/* ---- one run ---- */

static bool write_stages(const struct report *r, const struct run_record *run) {
    int64_t count;
    const struct stage_record *stages =
        store_load(r->store, RECORD_STAGE, run->id, r->arena, &count, r->err);
    if (stages == NULL) return false;
    fputs("<h3>Stages of the pipeline (mean step)</h3>\n<div class=\"scroll\"><table><thead><tr>"
          "<th class=\"n\">stage</th><th class=\"n\">busy, ms</th><th class=\"n\">forward</th>"
          "<th class=\"n\">backward</th><th class=\"n\">recompute</th><th class=\"n\">idle</th>"
          "<th class=\"n\">in flight</th><th class=\"n\">parameters, B</th><th>layers</th></tr>"
          "</thead><tbody>\n",
          r->out);
    for (int64_t i = 0; i < count; i++) {
        const struct stage_record *s = &stages[i];
        fputs("<tr>", r->out);
        html_number_cell(r->out, (double)s->stage_index,
                         arena_format(r->arena, "%lld", (long long)s->stage_index + 1));
        html_number_cell(r->out, s->busy_ms, number(r, s->busy_ms, 1));
        html_number_cell(r->out, s->forward_ms, number(r, s->forward_ms, 1));
        html_number_cell(r->out, s->backward_ms, number(r, s->backward_ms, 1));
        html_number_cell(r->out, s->recompute_ms, number(r, s->recompute_ms, 1));
        html_number_cell(r->out, s->idle_ms, number(r, s->idle_ms, 1));
        html_number_cell(r->out, s->in_flight_count < 0 ? NAN : (double)s->in_flight_count,
                         arena_format(r->arena, "%lld", (long long)s->in_flight_count));
        html_number_cell(r->out, (double)s->parameter_count,
                         number(r, (double)s->parameter_count / 1e9, 2));
        fputs("<td class=\"wide\">", r->out);
        html_text(r->out, s->layers);
        fputs("</td></tr>\n", r->out);
    }
    fputs("</tbody></table></div>\n", r->out);
    return true;
}

struct operator_rows {
    const struct report *r;
    int64_t count;
    double step_ms;
};

static bool write_operator(void *context, sqlite3_stmt *row, struct error *err) {
    (void)err;
    struct operator_rows *o = context;
    const struct report *r = o->r;
    const double ms = sqlite3_column_double(row, 4);
    fputs("<tr>", r->out);
    for (int c = 0; c < 4; c++)
        html_cell(r->out, column(row, c));
    html_number_cell(r->out, ms, number(r, ms, 1));
    html_number_cell(r->out, ms / o->step_ms, percent(r, ms / o->step_ms));
    html_cell(r->out, sqlite3_column_int(row, 5) != 0 ? "yes" : "no");
    fputs("</tr>\n", r->out);
    o->count++;
    return true;
}

static bool write_operators(const struct report *r, const struct run_record *run) {
    fputs("<h3>Dearest operators of a step</h3>\n<div class=\"scroll\"><table><thead><tr><th>layer"
          "</th><th>operator</th><th>pass</th><th>bound by</th><th class=\"n\">ms a step</th>"
          "<th class=\"n\">of the step</th><th>measured range</th></tr></thead><tbody>\n",
          r->out);
    struct operator_rows rows = { r, 0, run->step_time_mean_ms };
    bool ok = store_query(r->store,
                          "SELECT layer_kind, operator, pass, bound, step_ms, inside_range FROM"
                          " operator_share WHERE run_id = ?1 LIMIT 12",
                          run->id, write_operator, &rows, r->err);
    fputs("</tbody></table></div>\n", r->out);
    return ok;
}

/* What the scenario takes for granted; read again, because it is not stored. */
static void write_assumptions(const struct report *r, const struct run_record *run) {
    fputs("<h3>Assumed</h3>\n", r->out);
    struct error reason = { 0 };
    struct json *json = json_parse("stored scenario", run->resolved_scenario,
                                   strlen(run->resolved_scenario), &reason);
    const struct scenario_options options = { .directory = r->options->scenarios };
    struct scenario *s = json != NULL ? scenario_load_json(&options, json, &reason) : NULL;
    if (s == NULL) {
        fputs("<p class=\"soft\">The assumptions cannot be read again here: ", r->out);
        html_text(r->out, reason.text);
        fputs(". <code>ballast check</code> prints them.</p>\n", r->out);
        return;
    }
    fputs("<ul>\n", r->out);
    for (int64_t i = 0; s->assumptions[i] != NULL; i++) {
        fputs("<li>", r->out);
        html_text(r->out, s->assumptions[i]);
        fputs("</li>\n", r->out);
    }
    fputs("</ul>\n", r->out);
    scenario_destroy(s);
}

static void write_reproduction(const struct report *r, const struct run_record *run) {
    FILE *out = r->out;
    fputs("<h3>How to get these numbers again</h3>\n<p>", out);
    html_text(out,
              arena_format(r->arena, "Ballast %s (%s), seed %lld, prices of %s, %s fidelity%s.",
                           run->tool_version, run->source_commit, (long long)run->seed,
                           run->profile_id, run->fidelity,
                           run->repeatable ? "" : "; a time budget was in use: not repeatable"));
    fputs("</p>\n<pre>", out);
    html_text(out, run->command_line);
    fputs("\n# from the database:\n", out);
    static const char *const tables[] = { "run", "stage", "memory", "step", "operator_share" };
    for (size_t t = 0; t < sizeof tables / sizeof tables[0]; t++)
        html_text(out, arena_format(r->arena, "ballast export %s --db %s --run %lld\n", tables[t],
                                    r->options->database, (long long)run->id));
    fputs("</pre>\n<details><summary>The scenario with every default filled in (save it and run "
          "it)</summary><pre>",
          out);
    cJSON *scenario = cJSON_Parse(run->resolved_scenario);
    char *text = cJSON_Print(scenario);
    html_text(out, text != NULL ? text : run->resolved_scenario);
    cJSON_free(text);
    cJSON_Delete(scenario);
    fputs("</pre></details>\n", out);
}

static bool write_detail(struct report *r, int64_t index) {
    const struct run_record *run = r->runs[index];
    struct run_setup setup;
    if (!setup_of(r, run->id, &setup)) return false;
    fprintf(r->out, "<h2 id=\"run-%lld\">", (long long)run->id);
    html_text(r->out, run->scenario_name);
    fputs(" ", r->out);
    verdict_tag(r->out, run);
    fputs("</h2>\n<p>", r->out);
    html_text(r->out, arena_format(r->arena, "%s on %s; %lld x %s: %s. Policies: %s.", setup.model,
                                   setup.dataset, (long long)run->gpu_count, setup.hardware,
                                   setup.layout, setup.policies));
    fprintf(r->out, " Replayed %s steps, %s samples.</p>\n",
            number(r, (double)run->iteration_count, 0), number(r, (double)run->sample_count, 0));
    if (index != r->best) write_figures(r, run);
    if (run->inside_range == 0)
        fputs("<p>Some operators have shapes that were not measured on this GPU; the band does not "
              "cover that. The table of operators says which.</p>\n",
              r->out);
    const char *id = arena_format(r->arena, "%lld", (long long)run->id);
    bool ok =
        picture(
            r, arena_format(r->arena, "timeline-%s", id), draw_timeline, run,
            "the pipeline of the first step on data-parallel rank 0",
            "The first step on data-parallel rank 0, its beginning if it has many micro-batches. "
            "White is waiting.") &&
        picture(r, arena_format(r->arena, "memory-%s", id), draw_memory, run,
                "memory of a GPU of each stage over the first step",
                "Memory of a GPU of each stage over the same step, with the capacity.") &&
        picture(r, arena_format(r->arena, "steps-%s", id), draw_steps, run,
                "step times in order and their spread",
                "Step times over the replayed data. Steps differ because their samples do.");
    if (!ok || !write_stages(r, run) || !write_operators(r, run)) return false;
    write_assumptions(r, run);
    write_reproduction(r, run);
    return true;
}

/* ---- the page ---- */

static bool write_details(struct report *r) {
    bool *taken = arena_array(r->arena, bool, r->run_count);
    for (int64_t k = 0; k < r->options->detail_limit; k++) {
        int64_t next = -1;
        for (int64_t i = 0; i < r->run_count; i++) {
            if (taken[i] || !is_done(r->runs[i])) continue;
            const bool better = next < 0 ||
                                (is_candidate(r->runs[i]) && !is_candidate(r->runs[next])) ||
                                (is_candidate(r->runs[i]) == is_candidate(r->runs[next]) &&
                                 cost_of(r->runs[i]) < cost_of(r->runs[next]));
            if (better) next = i;
        }
        if (next < 0) break;
        taken[next] = true;
        if (!write_detail(r, next)) return false;
    }
    return true;
}

static bool write_page(struct report *r) {
    FILE *out = r->out;
    fputs("<!DOCTYPE html>\n<html lang=\"en\"><head><meta charset=\"utf-8\">\n<meta "
          "name=\"viewport\" "
          "content=\"width=device-width, initial-scale=1\">\n<meta name=\"color-scheme\" "
          "content=\"light dark\">\n<title>Ballast: ",
          out);
    const char *title = r->run_count == 1 ? r->runs[0]->scenario_name : r->options->database;
    html_text(out, title);
    fprintf(out, "</title>\n<style>\n%s</style></head><body>\n<h1>", report_css);
    html_text(out, r->run_count == 1
                       ? title
                       : arena_format(r->arena, "%lld runs of %s", (long long)r->run_count, title));
    fputs("</h1>\n", out);
    if (!write_answer(r) || !write_runs(r)) return false;
    if (!picture(r, "breakdown", draw_breakdown, NULL, "where the time of a mean step goes",
                 "Blue is work, orange is communication, grey is waiting. The best run stands "
                 "first."))
        return false;
    if (!write_sweep(r) || !write_details(r)) return false;
    fprintf(out,
            "<p class=\"soft\">Simulated, not measured. Bands are the error of the operator prices "
            "against held-back measurements.</p>\n<script>\n%s</script>\n</body></html>\n",
            report_js);
    return true;
}

static bool load_runs(struct report *r, const int64_t *run_ids) {
    const struct run_record **runs = arena_array(r->arena, const struct run_record *, r->run_count);
    for (int64_t i = 0; i < r->run_count; i++) {
        int64_t count;
        runs[i] = store_load(r->store, RECORD_RUN, run_ids[i], r->arena, &count, r->err);
        if (runs[i] == NULL) return false;
        if (count != 1) return error_set(r->err, "run %lld is not stored", (long long)run_ids[i]);
    }
    r->runs = runs;
    return true;
}

bool report_write(FILE *out, struct store *store, const int64_t *run_ids, int64_t run_count,
                  const struct report_options *options, struct error *err) {
    struct report r = { .out = out,
                        .store = store,
                        .arena = arena_create(),
                        .options = options,
                        .run_count = run_count,
                        .folder = "/tmp/ballast-report-XXXXXX",
                        .err = err };
    bool ok = load_runs(&r, run_ids);
    if (ok && mkdtemp(r.folder) == NULL)
        ok = error_system(err, "cannot make a folder for pictures");
    if (ok) {
        rank_runs(&r);
        ok = write_page(&r);
        rmdir(r.folder);
    }
    if (ok && (fflush(out) != 0 || ferror(out))) ok = error_system(err, "cannot write the page");
    arena_destroy(r.arena);
    return ok;
}
