/* plot_memory.c - memory of each stage over a step: a strip a stage, one scale for all, so that the
 * fullest stands out and lines of many stages do not hide each other. What is beyond the GPU's
 * memory is red.
 */
#include "results/plot.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>
#include "results/plot_style.h"
#include "sim/base/units.h"

enum { MEMORY_WIDTH = 1400, STRIPS_AS_HIGH_AS_WIDE = 8 };

/* A strip reaches from stage - 0.42 up to stage + 0.46 downward: stages count from the top. */
#define STRIP_BASE   0.42
#define STRIP_HEIGHT 0.84

struct strips {
    int64_t dp_rank, stage_count, end_ns, peak_bytes;
    double scale; /* nanoseconds of a unit of the axis */
    double top_GiB, capacity_GiB;
};

static double height_of(const struct strips *s, int64_t stage, double GiB) {
    return (double)(stage + 1) + STRIP_BASE - STRIP_HEIGHT * GiB / s->top_GiB;
}

/* The steps as corners, so that they can be filled; returns the stage's peak in GiB. */
static double write_strip(FILE *out, const struct strips *s,
                          const struct memory_point_record *points, int64_t count, int64_t stage) {
    double last_GiB = NAN, peak_GiB = 0;
    fprintf(out, "$stage%d << END\n", (int)stage);
    for (int64_t i = 0; i < count; i++) {
        if (points[i].dp_rank != s->dp_rank || points[i].stage_index != stage) continue;
        const double time = (double)points[i].time_ns / s->scale;
        if (!isnan(last_GiB)) fprintf(out, "%.9g %.9g\n", time, height_of(s, stage, last_GiB));
        last_GiB = (double)points[i].memory_bytes / BYTES_PER_GiB;
        peak_GiB = fmax(peak_GiB, last_GiB);
        fprintf(out, "%.9g %.9g\n", time, height_of(s, stage, last_GiB));
    }
    if (!isnan(last_GiB))
        fprintf(out, "%.9g %.9g\n", (double)s->end_ns / s->scale, height_of(s, stage, last_GiB));
    fputs("END\n", out);
    return peak_GiB;
}

static struct strips survey(const struct memory_point_record *points, int64_t count,
                            int64_t dp_rank, int64_t capacity_bytes) {
    struct strips s = { .dp_rank = dp_rank, .end_ns = 1 };
    for (int64_t i = 0; i < count; i++) {
        if (points[i].dp_rank != dp_rank) continue;
        if (points[i].stage_index >= s.stage_count) s.stage_count = points[i].stage_index + 1;
        if (points[i].time_ns > s.end_ns) s.end_ns = points[i].time_ns;
        if (points[i].memory_bytes > s.peak_bytes) s.peak_bytes = points[i].memory_bytes;
    }
    s.capacity_GiB = (double)capacity_bytes / BYTES_PER_GiB;
    s.top_GiB = fmax(s.capacity_GiB, (double)s.peak_bytes / BYTES_PER_GiB) * 1.04;
    return s;
}

/* The peak stands at the right end of its strip, the fullest is named so. */
static void write_peak(struct gnuplot *g, const struct strips *s, int64_t stage, double peak_GiB) {
    const bool fullest = peak_GiB >= (double)s->peak_bytes / BYTES_PER_GiB * (1 - 1e-9);
    const bool over = peak_GiB > s->capacity_GiB;
    fprintf(g->script, "set label '%.1f GiB%s' at graph 1.01, first %d left tc rgb '%s'\n",
            peak_GiB,
            over      ? ", too much"
            : fullest ? ", fullest"
                      : "",
            (int)stage + 1,
            over      ? "#9D1C1C"
            : fullest ? "#000000"
                      : "#555555");
}

static void write_plot(struct gnuplot *g, const struct strips *s) {
    const char *separator = "plot ";
    for (int64_t stage = 0; stage < s->stage_count; stage++) {
        const double base = height_of(s, stage, 0), full = height_of(s, stage, s->capacity_GiB);
        fprintf(g->script, "%s$stage%d using 1:2:(%.9g) with filledcurves fc rgb '#9CCBEA' %s",
                separator, (int)stage, base, stage == 0 ? "title 'in use'" : "notitle");
        fprintf(g->script,
                ", $stage%d using 1:($2 < %.9g ? $2 : %.9g):(%.9g) with filledcurves fc rgb "
                "'#D55E00' notitle",
                (int)stage, full, full, full);
        fprintf(g->script, ", $stage%d with lines lw 1.2 lc rgb '#003C67' notitle", (int)stage);
        fprintf(g->script, ", %.9g with lines lw 1.8 dt 2 lc rgb '#000000' %s", full,
                stage == 0 ? "title capacity" : "notitle");
        separator = ", ";
    }
    fputc('\n', g->script);
}

bool plot_memory(const char *path, const char *scenario, const struct memory_point_record *points,
                 int64_t count, int64_t dp_rank, int64_t capacity_bytes, struct error *err) {
    struct strips s = survey(points, count, dp_rank, capacity_bytes);
    if (s.stage_count == 0) return plot_nothing(err, "memory timeline of that rank");
    const double strip_pixels = s.stage_count <= STRIPS_AS_HIGH_AS_WIDE ? 110
                                : s.stage_count <= 16                   ? 64
                                                                        : 40;
    const double height = 190 + strip_pixels * (double)s.stage_count;
    struct gnuplot g;
    if (!gnuplot_begin(&g, path, MEMORY_WIDTH, height, err)) return false;
    const char *unit;
    s.scale = plot_time_scale(s.end_ns, &unit);
    for (int64_t stage = 0; stage < s.stage_count; stage++)
        write_peak(&g, &s, stage, write_strip(g.script, &s, points, count, stage));
    plot_set_style(&g);
    char text[512];
    snprintf(text, sizeof text, "%s: memory of one GPU of each stage, DP rank %d", scenario,
             (int)dp_rank);
    plot_set_text(&g, "title", text);
    snprintf(text, sizeof text, "time from the start of the iteration (%s)", unit);
    plot_set_text(&g, "xlabel", text);
    fprintf(g.script,
            "capacity = 'capacity, %.3g GiB'\nset label 'peak' at graph 1.01, first 0.42 left\n"
            "set ylabel 'pipeline stage'\nset xrange [0:%.9g]\nset yrange [%g:0.5]\nset ytics 1\n"
            "set grid x noy\nset border 1\nset rmargin at screen 0.86\nset bmargin 5.5\n"
            "set key at screen 0.5, screen %g center horizontal Left reverse\n",
            s.capacity_GiB, (double)s.end_ns / s.scale, (double)s.stage_count + 0.5, 20 / height);
    write_plot(&g, &s);
    return gnuplot_end(&g, err);
}
