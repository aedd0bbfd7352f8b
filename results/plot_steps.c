/* plot_steps.c - step times in order and as a histogram. */
#include "results/plot.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>
#include "results/plot_style.h"
#include "sim/base/arena.h"
#include "sim/base/units.h"

/* The mean of the steps around each, over a window of a twentieth of them; at the ends of what
 * there is. */
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
    const int decimals =
        high > 0 ? (int)fmax(0, 3 - floor(log10(high))) : 0; /* four digits of each */
    for (int p = 0; p < 3; p++) {
        double value = plot_quantile(sorted, count, fractions[p]);
        fprintf(g->script,
                "set arrow from graph 0, first %.9g to graph 1, first %.9g nohead front"
                " lc rgb '#D55E00' lw 1.5 dt %d\n",
                value, value, p + 1);
        double place = fmax(value, last + gap); /* names do not overlap */
        if (named)
            fprintf(g->script, "set label 'p%.0f  %.*f' at graph 1.02, first %.9g left\n",
                    fractions[p] * 100, decimals, value, place);
        last = place;
    }
}

static void write_steps_panels(struct gnuplot *g, const double *sorted, int64_t count,
                               const char *unit) {
    double low = sorted[0], high = sorted[count - 1];
    double margin = fmax((high - low) * 0.06, high * 0.005);
    struct plot_histogram_bins h = plot_histogram(sorted, count, false);
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
        count > 300 ? 0.3 : count > 60 ? 0.6 : 1.0, count > 300 ? "#6FB6E4" : "#0072B2",
        (int)(2 * (count / 40 > 2 ? count / 40 : 2) + 1));
    fprintf(g->script,
            "unset arrow\nset lmargin at screen 0.67\nset rmargin at screen 0.88\nunset ylabel\n"
            "set format y ''\nset xlabel 'iterations per bin'\nset xrange [0:*]\nset xtics %g\n",
            fmax(1, plot_tic_step((double)highest, 4)));
    write_percentiles(g, sorted, count, true);
    fputs("plot $bins with boxxyerror fc rgb '#0072B2' fs solid 1.0 border rgb '#ffffff' lw 0.5\n"
          "unset multiplot\n",
          g->script);
}

bool plot_steps(const char *path, const char *scenario, const struct iteration_record *iterations,
                int64_t count, struct error *err) {
    if (count == 0) return plot_nothing(err, "iterations");
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
    double scale = plot_time_scale(longest_ns, &unit);
    for (int64_t i = 0; i < count; i++)
        sorted[i] = (double)iterations[i].step_time_ns / scale;
    qsort(sorted, (size_t)count, sizeof *sorted, plot_compare_doubles);

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
