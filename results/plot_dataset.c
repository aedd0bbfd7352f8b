/* plot_dataset.c - how the samples of a data set are spread. */
#include "results/plot.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>
#include "results/plot_style.h"
#include "sim/base/arena.h"
#include "sim/base/units.h"

static void write_distribution(struct gnuplot *g, const char *block, const uint32_t *values,
                               int64_t count, const char *unit) {
    double *sorted = memory_alloc((size_t)count * sizeof *sorted);
    double sum = 0;
    for (int64_t i = 0; i < count; i++)
        sum += sorted[i] = (double)values[i];
    qsort(sorted, (size_t)count, sizeof *sorted, plot_compare_doubles);
    /* One far sample would squeeze all others to the left. */
    double last = plot_quantile(sorted, count, 0.995), most = sorted[count - 1];
    int64_t shown = count;
    while (shown > 0 && sorted[shown - 1] > last)
        shown--;
    struct plot_histogram_bins h = plot_histogram(sorted, shown, true);
    fprintf(g->script, "$%s << END\n", block);
    for (int64_t b = 0; b < h.bin_count; b++) {
        double left = h.low + (double)b * h.width;
        fprintf(g->script, "%.9g 0 %.9g %.9g 0 %.9g\n", left, left, left + h.width,
                100 * (double)h.counts[b] / (double)count);
    }
    /* Bars stand on whole numbers: from half below the least to half above the largest. */
    double high = h.low + (double)h.bin_count * h.width;
    fprintf(g->script, "END\nset xrange [%.9g:%.9g]\nset yrange [0:*]\nset xtics %.9g\n", h.low,
            high, fmax(1, plot_tic_step(high - h.low, 5)));
    char text[256], beyond[96] = "", mean[PLOT_NUMBER_SIZE], median[PLOT_NUMBER_SIZE],
                    p99[PLOT_NUMBER_SIZE], farthest[PLOT_NUMBER_SIZE];
    plot_fixed(farthest, most, 0);
    if (shown < count)
        snprintf(beyond, sizeof beyond, "; %.2g %% lie beyond, up to %s",
                 100 * (double)(count - shown) / (double)count, farthest);
    snprintf(text, sizeof text, "%s per sample%s", unit, beyond);
    plot_set_text(g, "xlabel", text);
    snprintf(text, sizeof text, h.width > 1 ? "samples (%% per bin of %.0f)" : "samples (%%)",
             h.width);
    plot_set_text(g, "ylabel", text);
    snprintf(text, sizeof text, "mean %s, median %s, p99 %s, max %s",
             plot_number(mean, sum / (double)count),
             plot_fixed(median, plot_quantile(sorted, count, 0.5), 0),
             plot_fixed(p99, plot_quantile(sorted, count, 0.99), 0), farthest);
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
    char number[PLOT_NUMBER_SIZE];
    snprintf(text, sizeof text, "%s: %s samples", dataset, plot_fixed(number, (double)count, 0));
    fputs("set multiplot layout 1,2 title ", g.script);
    gnuplot_text(&g, text);
    fputs("\nset grid y nox\nunset key\n", g.script);
    write_distribution(&g, "vision", vision_counts, count, vision_unit);
    write_distribution(&g, "language", language_tokens, count, "language tokens");
    fputs("unset multiplot\n", g.script);
    return gnuplot_end(&g, err);
}
