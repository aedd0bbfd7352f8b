/* plot_breakdown.c - where the time of a mean step goes, a stacked bar a run. */
#include "results/plot.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>
#include "results/plot_style.h"
#include "sim/base/arena.h"
#include "sim/base/units.h"

/* Blue is work, orange is communication, grey is waiting, green waiting for the host (samples,
 * launches); where greys stand together they also differ in pattern. Names as `ballast run` prints
 * them. */
static const struct part_color {
    const char *part;
    const char *color;
    const char *number_color;
    const char *fill;
} part_colors[] = {
    { "compute", "#0072B2", "#FFFFFF", "solid 1.0" },
    { "padding", "#8CCBF0", "#000000", "solid 1.0" },
    { "recompute", "#3A93C9", "#FFFFFF", "solid 1.0" },
    { "launch waits", "#7CCDB5", "#000000", "solid 1.0" },
    { "optimizer and parameter gather", "#0B3C5D", "#FFFFFF", "solid 1.0" },
    { "tensor-parallel communication", "#D55E00", "#FFFFFF", "solid 1.0" },
    { "context-parallel communication", "#E69F00", "#000000", "solid 1.0" },
    { "host copies", "#A34700", "#FFFFFF", "solid 1.0" },
    { "pipeline sends", "#F2C14E", "#000000", "solid 1.0" },
    { "data-parallel communication", "#F9E29C", "#000000", "solid 1.0" },
    { "pipeline bubble", "#4D4D4D", "#FFFFFF", "solid 1.0" },
    { "imbalance between stages", "#8A8A8A", "#000000", "solid 1.0" },
    { "imbalance over time", "#6E6E6E", "#000000", "pattern 4" },
    { "imbalance between ranks", "#C9C9C9", "#000000", "solid 1.0" },
    { "data loading", "#009E73", "#FFFFFF", "solid 1.0" },
    { "unexplained", "#CC79A7", "#000000", "solid 1.0" },
};
enum { PART_COLOR_COUNT = sizeof part_colors / sizeof part_colors[0] };

static const struct part_color *part_color_of(const char *part) {
    int p = 0;
    while (p < PART_COLOR_COUNT - 1 && strcmp(part_colors[p].part, part) != 0)
        p++;
    return &part_colors[p];
}

static double shown_ms(const struct plot_breakdown *b, int64_t run, int64_t part) {
    double ms = b->part_ms[run * b->part_count + part];
    return isfinite(ms) && ms > 0 ? ms : 0;
}

static double run_sum_ms(const struct plot_breakdown *b, int64_t run) {
    double sum_ms = 0;
    for (int64_t part = 0; part < b->part_count; part++)
        sum_ms += shown_ms(b, run, part);
    return sum_ms;
}

/* The boxes of one part over all runs; returns whether it has any. base_ms grows by them. */
static bool write_part(struct gnuplot *g, const struct plot_breakdown *b, int64_t part,
                       double *base_ms, const double *run_ms, double top_ms, double scale) {
    bool any = false;
    fprintf(g->script, "$part%d << END\n", (int)part);
    for (int64_t run = 0; run < b->run_count; run++) {
        double ms = shown_ms(b, run, part);
        if (ms == 0) continue;
        any = true;
        fprintf(g->script, "%d %.9g %.9g %.9g %.9g %.9g\n", (int)run, base_ms[run] / scale,
                (double)run - 0.32, (double)run + 0.32, base_ms[run] / scale,
                (base_ms[run] + ms) / scale);
        base_ms[run] += ms;
    }
    fputs("END\n", g->script);
    for (int64_t run = 0; run < b->run_count; run++) {
        double ms = shown_ms(b, run, part);
        if (ms < 0.035 * top_ms) continue; /* no room for its number */
        const struct part_color *color = part_color_of(b->parts[part]);
        const char *boxed = strncmp(color->fill, "pattern", 7) == 0 ? " boxed" : "";
        char number[PLOT_NUMBER_SIZE];
        fprintf(g->script, "set label '%s (%.0f %%)' at %d,%.9g center front tc rgb '%s'%s\n",
                plot_number(number, ms / scale), 100 * ms / run_ms[run], (int)run,
                (base_ms[run] - ms / 2) / scale, color->number_color, boxed);
    }
    return any;
}

bool plot_breakdown(const char *path, const char *title, const struct plot_breakdown *b,
                    struct error *err) {
    double top_ms = 0;
    for (int64_t run = 0; run < b->run_count; run++)
        top_ms = fmax(top_ms, run_sum_ms(b, run));
    if (top_ms == 0) return plot_nothing(err, "breakdown of its time");
    const char *unit;
    double scale = plot_time_scale((int64_t)(top_ms * NS_PER_MS), &unit) / NS_PER_MS;
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
            longest_name > (b->run_count == 1 ? 32 : 18) ? "rotate by -20"
                                                         : ""); /* what fits under a bar */
    for (int64_t run = 0; run < b->run_count; run++) {
        gnuplot_tic_text(&g, b->runs[run]);
        fprintf(g.script, " %d%s", (int)run, run + 1 < b->run_count ? ", " : ")\n");
    }
    for (int64_t run = 0; run < b->run_count; run++) {
        double top = base_ms[run] / scale;
        char number[PLOT_NUMBER_SIZE];
        fprintf(g.script, "set label '%s %s' at %d,%.9g center front offset 0,0.7\n",
                plot_number(number, top), unit, (int)run, top);
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

/* ---- stored runs ---- */

const struct plot_part plot_parts[PLOT_PARTS] = {
    { "compute", offsetof(struct run_record, compute_ms) },
    { "padding", offsetof(struct run_record, padding_ms) },
    { "recompute", offsetof(struct run_record, recompute_ms) },
    { "launch waits", offsetof(struct run_record, launch_wait_ms) },
    { "optimizer and parameter gather", offsetof(struct run_record, update_ms) },
    { "tensor-parallel communication", offsetof(struct run_record, exposed_tensor_ms) },
    { "context-parallel communication", offsetof(struct run_record, exposed_context_ms) },
    { "host copies", offsetof(struct run_record, host_copy_ms) },
    { "pipeline sends", offsetof(struct run_record, exposed_pipeline_ms) },
    { "data-parallel communication", offsetof(struct run_record, exposed_data_ms) },
    { "pipeline bubble", offsetof(struct run_record, bubble_ms) },
    { "imbalance between stages", offsetof(struct run_record, stage_imbalance_ms) },
    { "imbalance over time", offsetof(struct run_record, time_imbalance_ms) },
    { "imbalance between ranks", offsetof(struct run_record, rank_imbalance_ms) },
    { "data loading", offsetof(struct run_record, loading_ms) },
};

double plot_part_ms(const struct run_record *run, int part) {
    return *(const double *)((const char *)run + plot_parts[part].offset);
}

bool plot_runs_breakdown(const char *path, const char *title, const struct run_record *const *runs,
                         int64_t count, struct error *err) {
    struct arena *arena = arena_create();
    const char *part_names[PLOT_PARTS];
    const char **run_names = arena_array(arena, const char *, count);
    double *ms = arena_array(arena, double, count *PLOT_PARTS);
    bool *out_of_memory = arena_array(arena, bool, count);
    for (int64_t r = 0; r < count; r++) {
        const char *verdict = runs[r]->verdict;
        run_names[r] = runs[r]->scenario_name;
        out_of_memory[r] = verdict != NULL && strcmp(verdict, "out of memory") == 0;
        for (int p = 0; p < PLOT_PARTS; p++) {
            part_names[p] = plot_parts[p].name;
            ms[r * PLOT_PARTS + p] = plot_part_ms(runs[r], p);
        }
    }
    const struct plot_breakdown breakdown = { run_names,  count, part_names,
                                              PLOT_PARTS, ms,    out_of_memory };
    bool ok = plot_breakdown(path, title, &breakdown, err);
    arena_destroy(arena);
    return ok;
}
