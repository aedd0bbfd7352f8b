/* plot.c - what each picture shows. Colours are told apart by colour-blind eyes; neighbours also
 * differ in lightness, for a grey print. */
#include "results/plot.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>
#include "results/plot_style.h"
#include "sim/base/arena.h"
#include "sim/base/units.h"

/* ---- shared by all pictures ---- */

/* Seconds for long pictures, so that an axis never shows more than five digits. */
static double time_scale(int64_t longest_ns, const char **unit) {
    bool seconds = longest_ns >= 10 * (int64_t)NS_PER_S;
    *unit = seconds ? "s" : "ms";
    return seconds ? NS_PER_S : NS_PER_MS;
}

static bool nothing_to_draw(struct error *err, const char *what) {
    error_set(err, "there is nothing to draw: the run has no %s", what);
    return error_hint(err, "run the scenario again and let it store its timeline");
}

/* ---- timeline ---- */

static const struct bar_kind {
    const char *kind;
    const char *color;
    const char *number_color; /* of the micro-batch number in the bar */
} bar_kinds[] = {
    { "forward", "#8CCBF0", "#000000" },   { "backward", "#0072B2", "#FFFFFF" },
    { "recompute", "#E69F00", "#000000" }, { "send", "#009E73", "#FFFFFF" },
    { "gather", "#F0E442", "#000000" },    { "reduce", "#CC79A7", "#000000" },
    { "update", "#D55E00", "#FFFFFF" },    { "other", "#7F7F7F", "#FFFFFF" },
};
enum { BAR_KIND_COUNT = sizeof bar_kinds / sizeof bar_kinds[0], TIMELINE_WIDTH = 1600 };

static int bar_kind_of(const struct span_record *span) {
    int k = 0;
    while (k < BAR_KIND_COUNT - 1 && strcmp(bar_kinds[k].kind, span->kind) != 0)
        k++;
    return k;
}

static bool is_compute(const struct span_record *span) {
    return strcmp(span->stream, "compute") == 0;
}

enum { SEND_LEAST_PIXELS = 2 };
#define TIMELINE_PIXELS (0.9 * TIMELINE_WIDTH) /* between the axes */

/* Compute fills the row from -0.42 to 0.24 around its number, other streams a strip below. */
static void write_bar(FILE *out, const struct span_record *span, double scale,
                      int64_t makespan_ns) {
    bool compute = is_compute(span);
    double row = (double)(span->stage_index + 1); /* people count stages from 1 */
    /* A send is short beside a pass; it is drawn wide enough to be seen. */
    double least_ns = compute ? 0 : SEND_LEAST_PIXELS / TIMELINE_PIXELS * (double)makespan_ns;
    double finish_ns = fmax((double)span->finish_ns, (double)span->start_ns + least_ns);
    fprintf(out, "%.9g %.9g %.9g %.9g %.4g %.4g\n", (double)span->start_ns / scale, row,
            (double)span->start_ns / scale, finish_ns / scale, row + (compute ? -0.42 : 0.27),
            row + (compute ? 0.24 : 0.42));
}

/* The micro-batch's number where the bar is wide enough for it. */
static void write_number(struct gnuplot *g, const struct span_record *span, double scale,
                         int64_t makespan_ns) {
    double pixels =
        (double)(span->finish_ns - span->start_ns) / (double)makespan_ns * TIMELINE_PIXELS;
    double needed = span->micro_batch < 10 ? 12 : span->micro_batch < 100 ? 22 : 32;
    if (!is_compute(span) || span->micro_batch < 0 || pixels < needed) return;
    fprintf(g->script, "set label '%d' at %.9g,%.4g center front tc rgb '%s'\n",
            (int)span->micro_batch, (double)(span->start_ns + span->finish_ns) / 2 / scale,
            (double)span->stage_index + 0.91, bar_kinds[bar_kind_of(span)].number_color);
}

struct timeline_extent {
    int64_t span_count, stage_count, iteration_index, makespan_ns;
};

static struct timeline_extent timeline_extent(const struct span_record *spans, int64_t count,
                                              int64_t dp_rank, int64_t until_ns) {
    struct timeline_extent extent = { 0 };
    for (int64_t i = 0; i < count; i++) {
        const struct span_record *span = &spans[i];
        if (span->dp_rank != dp_rank || span->start_ns >= until_ns) continue;
        extent.span_count++;
        extent.iteration_index = span->iteration_index;
        if (span->stage_index >= extent.stage_count) extent.stage_count = span->stage_index + 1;
        int64_t finish_ns = span->finish_ns < until_ns ? span->finish_ns : until_ns;
        if (finish_ns > extent.makespan_ns) extent.makespan_ns = finish_ns;
    }
    return extent;
}

int64_t plot_timeline_default_until_ns(const struct span_record *spans, int64_t count,
                                       int64_t dp_rank) {
    enum { MANY_MICRO_BATCHES = 24, SHOWN_MICRO_BATCHES = 10 };
    int64_t last = -1, until_ns = 0;
    for (int64_t i = 0; i < count; i++) {
        if (spans[i].dp_rank != dp_rank) continue;
        if (spans[i].micro_batch > last) last = spans[i].micro_batch;
        if (spans[i].micro_batch < SHOWN_MICRO_BATCHES && spans[i].finish_ns > until_ns &&
            spans[i].micro_batch >= 0)
            until_ns = spans[i].finish_ns;
    }
    return last + 1 > MANY_MICRO_BATCHES ? until_ns : 0;
}

bool plot_timeline(const char *path, const char *scenario, const struct span_record *spans,
                   int64_t count, int64_t dp_rank, int64_t until_ns, struct error *err) {
    if (until_ns <= 0) until_ns = INT64_MAX;
    struct timeline_extent extent = timeline_extent(spans, count, dp_rank, until_ns);
    bool cut = extent.makespan_ns == until_ns;
    if (extent.span_count == 0) return nothing_to_draw(err, "timeline of that rank");
    double row_pixels = extent.stage_count <= 8 ? 72 : extent.stage_count <= 16 ? 48 : 32;
    double height = 200 + row_pixels * (double)extent.stage_count;
    struct gnuplot g;
    if (!gnuplot_begin(&g, path, TIMELINE_WIDTH, height, err)) return false;

    bool seen[BAR_KIND_COUNT] = { false };
    const char *unit;
    double scale = time_scale(extent.makespan_ns, &unit);
    for (int k = 0; k < BAR_KIND_COUNT; k++) {
        fprintf(g.script, "$bars%d << END\n", k);
        for (int64_t i = 0; i < count; i++) {
            if (spans[i].dp_rank != dp_rank || bar_kind_of(&spans[i]) != k) continue;
            if (spans[i].start_ns >= until_ns || spans[i].finish_ns == spans[i].start_ns) continue;
            write_bar(g.script, &spans[i], scale, extent.makespan_ns);
            seen[k] = true;
        }
        fputs("END\n", g.script);
    }
    plot_set_style(&g);
    char text[512];
    snprintf(text, sizeof text, "%s: %spipeline of iteration %d on DP rank %d", scenario,
             cut ? "beginning of the " : "", (int)extent.iteration_index, (int)dp_rank);
    plot_set_text(&g, "title", text);
    snprintf(text, sizeof text, "time from the start of the iteration (%s)", unit);
    plot_set_text(&g, "xlabel", text);
    fprintf(g.script,
            "set ylabel 'pipeline stage'\nset xrange [0:%.9g]\nset yrange [%g:0.5]\n"
            "set ytics 1\nset grid x noy\nset border 1\nset bmargin 5.5\n"
            "set key at screen 0.5, screen %g center horizontal Left reverse\n",
            (double)extent.makespan_ns / scale, (double)extent.stage_count + 0.5, 20 / height);
    for (int64_t i = 0; i < count; i++)
        if (spans[i].dp_rank == dp_rank && spans[i].finish_ns <= until_ns)
            write_number(&g, &spans[i], scale, extent.makespan_ns);
    const char *separator = "plot ";
    for (int k = 0; k < BAR_KIND_COUNT; k++) {
        if (!seen[k]) continue;
        fprintf(g.script,
                "%s$bars%d with boxxyerror fc rgb '%s' fs solid 1.0 border rgb '#ffffff' lw 0.5"
                " title '%s'",
                separator, k, bar_kinds[k].color, bar_kinds[k].kind);
        separator = ", ";
    }
    fputc('\n', g.script);
    return gnuplot_end(&g, err);
}

/* ---- memory ---- */

static void write_stage_memory(FILE *out, const struct memory_point_record *points, int64_t count,
                               int64_t dp_rank, int64_t stage, double scale, int64_t end_ns) {
    double last_GiB = NAN;
    fprintf(out, "$stage%d << END\n", (int)stage);
    for (int64_t i = 0; i < count; i++) {
        if (points[i].dp_rank != dp_rank || points[i].stage_index != stage) continue;
        last_GiB = (double)points[i].memory_bytes / BYTES_PER_GiB;
        fprintf(out, "%.9g %.9g\n", (double)points[i].time_ns / scale, last_GiB);
    }
    if (!isnan(last_GiB)) fprintf(out, "%.9g %.9g\n", (double)end_ns / scale, last_GiB);
    fputs("END\n", out);
}

bool plot_memory(const char *path, const char *scenario, const struct memory_point_record *points,
                 int64_t count, int64_t dp_rank, int64_t capacity_bytes, struct error *err) {
    int64_t stage_count = 0, end_ns = 1, peak_bytes = 0;
    for (int64_t i = 0; i < count; i++) {
        if (points[i].dp_rank != dp_rank) continue;
        if (points[i].stage_index >= stage_count) stage_count = points[i].stage_index + 1;
        if (points[i].time_ns > end_ns) end_ns = points[i].time_ns;
        if (points[i].memory_bytes > peak_bytes) peak_bytes = points[i].memory_bytes;
    }
    if (stage_count == 0) return nothing_to_draw(err, "memory timeline of that rank");
    struct gnuplot g;
    if (!gnuplot_begin(&g, path, 1400, 750, err)) return false;

    const char *unit;
    double scale = time_scale(end_ns, &unit);
    for (int64_t stage = 0; stage < stage_count; stage++)
        write_stage_memory(g.script, points, count, dp_rank, stage, scale, end_ns);
    plot_set_style(&g);
    char text[512];
    snprintf(text, sizeof text, "%s: memory of one GPU per stage, DP rank %d", scenario,
             (int)dp_rank);
    plot_set_text(&g, "title", text);
    snprintf(text, sizeof text, "time from the start of the iteration (%s)", unit);
    plot_set_text(&g, "xlabel", text);
    double capacity_GiB = (double)capacity_bytes / BYTES_PER_GiB;
    double top_GiB = fmax(capacity_GiB, (double)peak_bytes / BYTES_PER_GiB) * 1.08;
    fprintf(g.script,
            "set ylabel 'memory in use (GiB)'\nset xrange [0:%.9g]\nset yrange [0:%.9g]\n"
            "set key outside right top Left reverse\n"
            "set object rectangle from graph 0, first %.9g to graph 1, first %.9g behind"
            " fc rgb '#f6dccd' fs solid noborder\n",
            (double)end_ns / scale, top_GiB, capacity_GiB, top_GiB);
    fprintf(g.script, "plot %.9g with lines lc rgb '#000000' lw 3 dt 2 title 'capacity, %.3g GiB'",
            capacity_GiB, capacity_GiB);
    /* Where stages need the same, the line below shows through the gaps of the one above. */
    static const char *const dashes[] = { "solid", "(12,6)", "(6,9)", "(2,5)" };
    enum { DASH_COUNT = sizeof dashes / sizeof dashes[0] };
    for (int64_t stage = 0; stage < stage_count; stage++)
        fprintf(g.script, ", $stage%d with steps lc rgb '%s' lw 2.5 dt %s title 'stage %d'",
                (int)stage, plot_colors[stage % PLOT_COLOR_COUNT], dashes[stage % DASH_COUNT],
                (int)stage + 1);
    fputc('\n', g.script);
    return gnuplot_end(&g, err);
}

/* ---- histograms ---- */

enum { BIN_COUNT = 60 };

struct histogram {
    double low, width; /* of the first bin; of each bin */
    int64_t counts[BIN_COUNT];
    int64_t bin_count;
};

/* Bins of whole numbers when the values are counts. */
static struct histogram histogram_of(const double *sorted, int64_t count, bool whole) {
    struct histogram h = { .bin_count = BIN_COUNT };
    double low = sorted[0], high = sorted[count - 1];
    if (whole) {
        h.width = fmax(1, ceil((high - low + 1) / BIN_COUNT));
        h.low = low - 0.5;
        h.bin_count = (int64_t)((high - low) / h.width) + 1;
    } else {
        h.width = high > low ? (high - low) / BIN_COUNT : fmax(fabs(low), 1) * 0.01;
        h.low = low;
    }
    for (int64_t i = 0; i < count; i++) {
        int64_t bin = (int64_t)((sorted[i] - h.low) / h.width);
        h.counts[bin < h.bin_count ? bin : h.bin_count - 1]++;
    }
    return h;
}

static int compare_doubles(const void *a, const void *b) {
    double left = *(const double *)a, right = *(const double *)b;
    return (left > right) - (left < right);
}

/* The value that a share `fraction` of the sorted values does not exceed. */
static double quantile(const double *sorted, int64_t count, double fraction) {
    int64_t rank = (int64_t)ceil(fraction * (double)count) - 1;
    return sorted[rank < 0 ? 0 : rank];
}

/* A round distance between tics that gives about `wanted` of them. */
static double tic_step(double range, double wanted) {
    double power = pow(10, floor(log10(range / wanted)));
    double digit = range / wanted / power;
    return power * (digit < 1.5 ? 1 : digit < 3.5 ? 2 : digit < 7.5 ? 5 : 10);
}

/* ---- steps ---- */

/* The mean of the steps around each, over a window of a twentieth of them; at the ends of what there
 * is. */
static void write_running_mean(FILE *out, const struct iteration_record *iterations, int64_t count,
                               double scale) {
    int64_t half = count / 40 > 2 ? count / 40 : 2;
    double sum_ns = 0;
    int64_t low = 0, high = 0; /* iterations in the sum: [low, high) */
    fputs("$running << END\n", out);
    for (int64_t i = 0; i < count; i++) {
        for (; high < count && high <= i + half; high++)
            sum_ns += (double)iterations[high].step_time_ns;
        for (; low < i - half; low++)
            sum_ns -= (double)iterations[low].step_time_ns;
        fprintf(out, "%d %.9g\n", (int)i, sum_ns / (double)(high - low) / scale);
    }
    fputs("END\n", out);
}

static void write_series(FILE *out, const struct iteration_record *iterations, int64_t count,
                         double scale) {
    fputs("$series << END\n", out);
    for (int64_t i = 0; i < count; i++)
        fprintf(out, "%d %.9g\n", (int)i, (double)iterations[i].step_time_ns / scale);
    fputs("END\n", out);
    write_running_mean(out, iterations, count, scale);
}

/* Lines over the panel at the percentiles; their names stand at the right of the last panel. */
static void write_percentiles(struct gnuplot *g, const double *sorted, int64_t count, bool named) {
    static const double fractions[] = { 0.50, 0.95, 0.99 };
    double low = sorted[0], high = sorted[count - 1];
    double gap = fmax(high - low, high * 0.02) * 0.045, last = -INFINITY;
    for (int p = 0; p < 3; p++) {
        double value = quantile(sorted, count, fractions[p]);
        fprintf(g->script,
                "set arrow from graph 0, first %.9g to graph 1, first %.9g nohead front"
                " lc rgb '#D55E00' lw 1.5 dt %d\n",
                value, value, p + 1);
        double place = fmax(value, last + gap); /* names do not overlap */
        if (named)
            fprintf(g->script, "set label 'p%.0f  %.4g' at graph 1.02, first %.9g left\n",
                    fractions[p] * 100, value, place);
        last = place;
    }
}

static void write_steps_panels(struct gnuplot *g, const double *sorted, int64_t count,
                               const char *unit) {
    double low = sorted[0], high = sorted[count - 1];
    double margin = fmax((high - low) * 0.06, high * 0.005);
    struct histogram h = histogram_of(sorted, count, false);
    fputs("$bins << END\n", g->script);
    int64_t highest = 1;
    for (int64_t b = 0; b < h.bin_count; b++) {
        if (h.counts[b] > highest) highest = h.counts[b];
        double bottom = h.low + (double)b * h.width;
        fprintf(g->script, "0 %.9g 0 %d %.9g %.9g\n", bottom, (int)h.counts[b], bottom,
                bottom + h.width);
    }
    fprintf(g->script,
            "END\nset yrange [%.9g:%.9g]\nset lmargin at screen 0.085\nset rmargin at screen 0.64\n"
            "set tmargin at screen 0.88\nset bmargin at screen 0.13\nset xlabel 'iteration'\n"
            "set ylabel 'step time (%s)'\nset xrange [0:%d]\nunset key\n",
            low - margin, high + margin, unit, count > 1 ? (int)count - 1 : 1);
    write_percentiles(g, sorted, count, false);
    /* Many points are small and light, so that where they are dense can be seen. */
    fprintf(
        g->script,
        "set key at screen 0.36, screen 0.92 center horizontal Left reverse\n"
        "plot $series using 1:2 with points pt 7 ps %g lc rgb '%s' title 'step',"
        " $running using 1:2 with lines lc rgb '#003C67' lw 2.5 title 'running mean of %d steps'\n"
        "unset key\n",
        count > 300 ? 0.3 : 0.6, count > 300 ? "#6FB6E4" : "#0072B2",
        (int)(2 * (count / 40 > 2 ? count / 40 : 2) + 1));
    fprintf(g->script,
            "unset arrow\nset lmargin at screen 0.67\nset rmargin at screen 0.88\nunset ylabel\n"
            "set format y ''\nset xlabel 'iterations per bin'\nset xrange [0:*]\nset xtics %g\n",
            fmax(1, tic_step((double)highest, 4)));
    write_percentiles(g, sorted, count, true);
    fputs("plot $bins with boxxyerror fc rgb '#0072B2' fs solid 1.0 border rgb '#ffffff' lw 0.5\n"
          "unset multiplot\n",
          g->script);
}

bool plot_steps(const char *path, const char *scenario, const struct iteration_record *iterations,
                int64_t count, struct error *err) {
    if (count == 0) return nothing_to_draw(err, "iterations");
    struct gnuplot g;
    if (!gnuplot_begin(&g, path, 1400, 700, err)) return false;
    double *sorted = memory_alloc((size_t)count * sizeof *sorted);
    int64_t longest_ns = 0;
    double sum_ns = 0;
    for (int64_t i = 0; i < count; i++) {
        sum_ns += (double)iterations[i].step_time_ns;
        if (iterations[i].step_time_ns > longest_ns) longest_ns = iterations[i].step_time_ns;
    }
    const char *unit;
    double scale = time_scale(longest_ns, &unit);
    for (int64_t i = 0; i < count; i++)
        sorted[i] = (double)iterations[i].step_time_ns / scale;
    qsort(sorted, (size_t)count, sizeof *sorted, compare_doubles);

    write_series(g.script, iterations, count, scale);
    plot_set_style(&g);
    char text[512];
    fprintf(g.script, "set multiplot title ");
    snprintf(text, sizeof text, "%s: step time of %d iterations, mean %.4g %s", scenario,
             (int)count, sum_ns / (double)count / scale, unit);
    gnuplot_text(&g, text);
    fputc('\n', g.script);
    write_steps_panels(&g, sorted, count, unit);
    free(sorted);
    return gnuplot_end(&g, err);
}

/* ---- breakdown ---- */

/* Blue is work, orange is communication, grey is waiting; where greys stand together they also differ
 * in pattern. Names as `ballast run` prints them. */
static const struct part_color {
    const char *part;
    const char *color;
    const char *number_color;
    const char *fill;
} part_colors[] = {
    { "compute", "#0072B2", "#FFFFFF", "solid 1.0" },
    { "padding", "#8CCBF0", "#000000", "solid 1.0" },
    { "recompute", "#3A93C9", "#FFFFFF", "solid 1.0" },
    { "optimizer and parameter gather", "#0B3C5D", "#FFFFFF", "solid 1.0" },
    { "tensor-parallel communication", "#D55E00", "#FFFFFF", "solid 1.0" },
    { "context-parallel communication", "#E69F00", "#000000", "solid 1.0" },
    { "pipeline sends", "#F2C14E", "#000000", "solid 1.0" },
    { "gradient reduction", "#F9E29C", "#000000", "solid 1.0" },
    { "pipeline bubble", "#4D4D4D", "#FFFFFF", "solid 1.0" },
    { "imbalance between stages", "#8A8A8A", "#000000", "solid 1.0" },
    { "imbalance over time", "#6E6E6E", "#000000", "pattern 4" },
    { "imbalance between ranks", "#C9C9C9", "#000000", "solid 1.0" },
    { "unexplained", "#CC79A7", "#000000", "solid 1.0" },
};
enum { PART_COLOR_COUNT = sizeof part_colors / sizeof part_colors[0] };

static const struct part_color *part_color_of(const char *part) {
    int p = 0;
    while (p < PART_COLOR_COUNT - 1 && strcmp(part_colors[p].part, part) != 0)
        p++;
    return &part_colors[p];
}

static double part_ms(const struct plot_breakdown *b, int64_t run, int64_t part) {
    double ms = b->part_ms[run * b->part_count + part];
    return isfinite(ms) && ms > 0 ? ms : 0;
}

static double run_sum_ms(const struct plot_breakdown *b, int64_t run) {
    double sum_ms = 0;
    for (int64_t part = 0; part < b->part_count; part++)
        sum_ms += part_ms(b, run, part);
    return sum_ms;
}

/* The boxes of one part over all runs; returns whether it has any. base_ms grows by them. */
static bool write_part(struct gnuplot *g, const struct plot_breakdown *b, int64_t part,
                       double *base_ms, const double *run_ms, double top_ms, double scale) {
    bool any = false;
    fprintf(g->script, "$part%d << END\n", (int)part);
    for (int64_t run = 0; run < b->run_count; run++) {
        double ms = part_ms(b, run, part);
        if (ms == 0) continue;
        any = true;
        fprintf(g->script, "%d %.9g %.9g %.9g %.9g %.9g\n", (int)run, base_ms[run] / scale,
                (double)run - 0.32, (double)run + 0.32, base_ms[run] / scale,
                (base_ms[run] + ms) / scale);
        base_ms[run] += ms;
    }
    fputs("END\n", g->script);
    for (int64_t run = 0; run < b->run_count; run++) {
        double ms = part_ms(b, run, part);
        if (ms < 0.035 * top_ms) continue; /* no room for its number */
        const struct part_color *color = part_color_of(b->parts[part]);
        const char *boxed = strncmp(color->fill, "pattern", 7) == 0 ? " boxed" : "";
        fprintf(g->script, "set label '%.4g (%.0f%%)' at %d,%.9g center front tc rgb '%s'%s\n",
                ms / scale, 100 * ms / run_ms[run], (int)run, (base_ms[run] - ms / 2) / scale,
                color->number_color, boxed);
    }
    return any;
}

bool plot_breakdown(const char *path, const char *title, const struct plot_breakdown *b,
                    struct error *err) {
    double top_ms = 0;
    for (int64_t run = 0; run < b->run_count; run++)
        top_ms = fmax(top_ms, run_sum_ms(b, run));
    if (top_ms == 0) return nothing_to_draw(err, "breakdown of its time");
    const char *unit;
    double scale = time_scale((int64_t)(top_ms * NS_PER_MS), &unit) / NS_PER_MS;
    struct gnuplot g;
    if (!gnuplot_begin(&g, path, 620 + 170 * (double)b->run_count, 800, err)) return false;

    size_t longest_name = 0;
    for (int64_t run = 0; run < b->run_count; run++)
        if (strlen(b->runs[run]) > longest_name) longest_name = strlen(b->runs[run]);
    double *base_ms = memory_alloc((size_t)b->run_count * sizeof *base_ms);
    double *run_ms = memory_alloc((size_t)b->run_count * sizeof *run_ms);
    bool *any = memory_alloc((size_t)b->part_count * sizeof *any);
    for (int64_t run = 0; run < b->run_count; run++) {
        base_ms[run] = 0;
        run_ms[run] = run_sum_ms(b, run);
    }
    for (int64_t part = 0; part < b->part_count; part++)
        any[part] = write_part(&g, b, part, base_ms, run_ms, top_ms, scale);
    plot_set_style(&g);
    plot_set_text(&g, "title", title);
    fprintf(g.script,
            "set ylabel 'mean step (%s)'\nset xrange [-0.6:%g]\nset yrange [0:%.9g]\n"
            "set grid y nox\nset key outside right center Left reverse invert\nset xtics %s (",
            unit, (double)b->run_count - 0.4, top_ms / scale * 1.12,
            longest_name > 18 ? "rotate by -20" : ""); /* what fits under a bar */
    for (int64_t run = 0; run < b->run_count; run++) {
        gnuplot_tic_text(&g, b->runs[run]);
        fprintf(g.script, " %d%s", (int)run, run + 1 < b->run_count ? ", " : ")\n");
    }
    for (int64_t run = 0; run < b->run_count; run++) {
        double top = base_ms[run] / scale;
        fprintf(g.script, "set label '%.4g %s' at %d,%.9g center front offset 0,0.7\n", top, unit,
                (int)run, top);
        if (b->out_of_memory != NULL && b->out_of_memory[run])
            fprintf(g.script,
                    "set label 'out of memory' at %d,%.9g center front offset 0,1.8 tc rgb "
                    "'#B00000'\n",
                    (int)run, top);
    }
    const char *separator = "plot ";
    for (int64_t part = 0; part < b->part_count; part++) {
        if (!any[part]) continue;
        const struct part_color *color = part_color_of(b->parts[part]);
        fprintf(g.script,
                "%s$part%d with boxxyerror fc rgb '%s' fs %s border rgb '#ffffff' lw 1 title ",
                separator, (int)part, color->color, color->fill);
        gnuplot_text(&g, b->parts[part]);
        separator = ", ";
    }
    fputc('\n', g.script);
    free(base_ms);
    free(run_ms);
    free(any);
    return gnuplot_end(&g, err);
}

/* ---- dataset ---- */

static void write_distribution(struct gnuplot *g, const char *block, const uint32_t *values,
                               int64_t count, const char *unit) {
    double *sorted = memory_alloc((size_t)count * sizeof *sorted);
    double sum = 0;
    for (int64_t i = 0; i < count; i++)
        sum += sorted[i] = (double)values[i];
    qsort(sorted, (size_t)count, sizeof *sorted, compare_doubles);
    /* One far sample would squeeze all others to the left. */
    double last = quantile(sorted, count, 0.995), most = sorted[count - 1];
    int64_t shown = count;
    while (shown > 0 && sorted[shown - 1] > last)
        shown--;
    struct histogram h = histogram_of(sorted, shown, true);
    fprintf(g->script, "$%s << END\n", block);
    for (int64_t b = 0; b < h.bin_count; b++) {
        double left = h.low + (double)b * h.width;
        fprintf(g->script, "%.9g 0 %.9g %.9g 0 %.9g\n", left, left, left + h.width,
                100 * (double)h.counts[b] / (double)count);
    }
    /* Bars stand on whole numbers: from half below the least to half above the largest. */
    double high = h.low + (double)h.bin_count * h.width;
    fprintf(g->script, "END\nset xrange [%.9g:%.9g]\nset yrange [0:*]\nset xtics %.9g\n", h.low,
            high, fmax(1, tic_step(high - h.low, 8)));
    char text[256], beyond[64] = "";
    if (shown < count)
        snprintf(beyond, sizeof beyond, "; %.2g %% lie beyond, up to %.6g",
                 100 * (double)(count - shown) / (double)count, most);
    snprintf(text, sizeof text, "%s per sample%s", unit, beyond);
    plot_set_text(g, "xlabel", text);
    snprintf(text, sizeof text, h.width > 1 ? "samples (%% per bin of %.0f)" : "samples (%%)",
             h.width);
    plot_set_text(g, "ylabel", text);
    snprintf(text, sizeof text, "mean %.4g, median %.4g, p99 %.4g, max %.6g", sum / (double)count,
             quantile(sorted, count, 0.5), quantile(sorted, count, 0.99), most);
    plot_set_text(g, "title", text);
    fprintf(g->script,
            "plot $%s with boxxyerror fc rgb '#0072B2' fs solid 1.0 border rgb '#ffffff' lw 0.5\n",
            block);
    free(sorted);
}

bool plot_dataset(const char *path, const char *dataset, const uint32_t *vision_counts,
                  const char *vision_unit, const uint32_t *language_tokens, int64_t count,
                  struct error *err) {
    if (count == 0) return error_set(err, "data set '%s' has no samples to draw", dataset);
    struct gnuplot g;
    if (!gnuplot_begin(&g, path, 1500, 650, err)) return false;
    plot_set_style(&g);
    char text[512];
    snprintf(text, sizeof text, "%s: %d samples", dataset, (int)count);
    fputs("set multiplot layout 1,2 title ", g.script);
    gnuplot_text(&g, text);
    fputs("\nset grid y nox\nunset key\n", g.script);
    write_distribution(&g, "vision", vision_counts, count, vision_unit);
    write_distribution(&g, "language", language_tokens, count, "language tokens");
    fputs("unset multiplot\n", g.script);
    return gnuplot_end(&g, err);
}
