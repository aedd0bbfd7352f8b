/* plot_memory.c - memory of each stage over a step. */
#include "results/plot.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>
#include "results/plot_style.h"
#include "sim/base/arena.h"
#include "sim/base/units.h"

/* The stage's peak in GiB, which the legend names. */
static double write_stage_memory(FILE *out, const struct memory_point_record *points, int64_t count,
                                 int64_t dp_rank, int64_t stage, double scale, int64_t end_ns) {
    double last_GiB = NAN, peak_GiB = 0;
    fprintf(out, "$stage%d << END\n", (int)stage);
    for (int64_t i = 0; i < count; i++) {
        if (points[i].dp_rank != dp_rank || points[i].stage_index != stage) continue;
        last_GiB = (double)points[i].memory_bytes / BYTES_PER_GiB;
        peak_GiB = fmax(peak_GiB, last_GiB);
        fprintf(out, "%.9g %.9g\n", (double)points[i].time_ns / scale, last_GiB);
    }
    if (!isnan(last_GiB)) fprintf(out, "%.9g %.9g\n", (double)end_ns / scale, last_GiB);
    fputs("END\n", out);
    return peak_GiB;
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
    if (stage_count == 0) return plot_nothing(err, "memory timeline of that rank");
    struct gnuplot g;
    if (!gnuplot_begin(&g, path, 1400, 750, err)) return false;

    const char *unit;
    double scale = plot_time_scale(end_ns, &unit);
    double *peaks_GiB = memory_alloc((size_t)stage_count * sizeof *peaks_GiB);
    for (int64_t stage = 0; stage < stage_count; stage++)
        peaks_GiB[stage] =
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
            "set key outside right top Left reverse title 'peak of each stage' left\n"
            "set object rectangle from graph 0, first %.9g to graph 1, first %.9g behind"
            " fc rgb '#f6dccd' fs solid noborder\n",
            (double)end_ns / scale, top_GiB, capacity_GiB, top_GiB);
    fprintf(g.script, "plot %.9g with lines lc rgb '#000000' lw 3 dt 2 title 'capacity, %.3g GiB'",
            capacity_GiB, capacity_GiB);
    /* Where stages need the same, the line below shows through the gaps of the one above. */
    static const char *const dashes[] = { "solid", "(12,6)", "(6,9)", "(2,5)" };
    enum { DASH_COUNT = sizeof dashes / sizeof dashes[0] };
    for (int64_t stage = 0; stage < stage_count; stage++)
        fprintf(g.script,
                ", $stage%d with steps lc rgb '%s' lw 2.5 dt %s title 'stage %d, %.1f GiB'",
                (int)stage, plot_colors[stage % PLOT_COLOR_COUNT], dashes[stage % DASH_COUNT],
                (int)stage + 1, peaks_GiB[stage]);
    fputc('\n', g.script);
    free(peaks_GiB);
    return gnuplot_end(&g, err);
}
