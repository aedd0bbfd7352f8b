/* plot_timeline.c - the pipeline of a step: a row per stage, a bar per pass. */
#include "results/plot.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>
#include "results/plot_style.h"
#include "sim/base/arena.h"
#include "sim/base/units.h"

struct bar_kind {
    const char *kind, *module; /* module NULL: of any */
    const char *color;
    const char *number_color; /* of the micro-batch number in the bar */
};

static const struct bar_kind pass_kinds[] = {
    { "forward", NULL, "#8CCBF0", "#000000" },   { "backward", NULL, "#0072B2", "#FFFFFF" },
    { "recompute", NULL, "#E69F00", "#000000" }, { "send", NULL, "#009E73", "#FFFFFF" },
    { "gather", NULL, "#F0E442", "#000000" },    { "reduce", NULL, "#CC79A7", "#000000" },
    { "update", NULL, "#D55E00", "#FFFFFF" },    { "other", NULL, "#7F7F7F", "#FFFFFF" },
};

/* A hue each module, lighter forward and darker backward; recomputation, the forward once more,
 * between. */
static const struct bar_kind module_kinds[] = {
    { "forward", "vision", "#F9D48F", "#000000" },
    { "recompute", "vision", "#E69F00", "#000000" },
    { "backward", "vision", "#B45309", "#FFFFFF" },
    { "forward", "language", "#A9DAF5", "#000000" },
    { "recompute", "language", "#56B4E9", "#000000" },
    { "backward", "language", "#00568C", "#FFFFFF" },
    { "forward", "diffusion_decoder", "#A6E3CC", "#000000" },
    { "recompute", "diffusion_decoder", "#2FB58A", "#000000" },
    { "backward", "diffusion_decoder", "#006B4E", "#FFFFFF" },
    { "forward", "several", "#EBC9DD", "#000000" },
    { "recompute", "several", "#CC79A7", "#000000" },
    { "backward", "several", "#7D3C63", "#FFFFFF" },
    { "send", NULL, "#000000", "#FFFFFF" },
    { "gather", NULL, "#F0E442", "#000000" },
    { "reduce", NULL, "#D55E00", "#000000" },
    { "update", NULL, "#5C5C5C", "#FFFFFF" },
    { "other", NULL, "#9C9C9C", "#FFFFFF" },
};

struct palette {
    const struct bar_kind *kinds;
    int count; /* the last is what is in no other */
};
static const struct palette pass_palette = { pass_kinds, sizeof pass_kinds / sizeof pass_kinds[0] };
static const struct palette module_palette = { module_kinds,
                                               sizeof module_kinds / sizeof module_kinds[0] };
enum { BAR_KIND_LIMIT = sizeof module_kinds / sizeof module_kinds[0], TIMELINE_WIDTH = 1600 };

static bool of_several(const struct span_record *span) {
    return span->module != NULL && strchr(span->module, '+') != NULL;
}

static int bar_kind_of(const struct palette *palette, const struct span_record *span) {
    const char *module = of_several(span) ? "several" : span->module;
    int k = 0;
    for (; k < palette->count - 1; k++) {
        const struct bar_kind *kind = &palette->kinds[k];
        if (strcmp(kind->kind, span->kind) != 0) continue;
        if (kind->module == NULL || (module != NULL && strcmp(kind->module, module) == 0)) break;
    }
    return k;
}

/* Modules are told apart where some stage has passes of two, and none of several at once. */
static const struct palette *choose_palette(const struct span_record *spans, int64_t count,
                                            enum plot_color color) {
    if (color != PLOT_COLOR_AUTO)
        return color == PLOT_COLOR_MODULE ? &module_palette : &pass_palette;
    const char *first = NULL;
    bool two = false;
    for (int64_t i = 0; i < count; i++) {
        if (of_several(&spans[i])) return &pass_palette;
        if (spans[i].module == NULL || spans[i].stage_index != 0) continue;
        if (first == NULL) first = spans[i].module;
        two = two || strcmp(first, spans[i].module) != 0;
    }
    return two ? &module_palette : &pass_palette;
}

static void write_title_of_kind(struct gnuplot *g, const struct bar_kind *kind) {
    char text[64];
    snprintf(text, sizeof text, "%s%s%s", kind->module != NULL ? kind->module : "",
             kind->module != NULL ? " " : "", kind->kind);
    for (char *c = text; *c != '\0'; c++)
        if (*c == '_') *c = ' ';
    gnuplot_text(g, text);
}

static bool is_compute(const struct span_record *span) {
    return strcmp(span->stream, "compute") == 0;
}

/* White edges part the passes; a pass that they would cover has none. */
enum { SEND_LEAST_PIXELS = 2, EDGED_LEAST_PIXELS = 4 };
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
static void write_number(struct gnuplot *g, const struct span_record *span,
                         const struct bar_kind *kind, double scale, int64_t makespan_ns) {
    double pixels =
        (double)(span->finish_ns - span->start_ns) / (double)makespan_ns * TIMELINE_PIXELS;
    double needed = span->micro_batch < 10 ? 12 : span->micro_batch < 100 ? 22 : 32;
    if (!is_compute(span) || span->micro_batch < 0 || pixels < needed) return;
    fprintf(g->script, "set label '%d' at %.9g,%.4g center front tc rgb '%s'\n",
            (int)span->micro_batch, (double)(span->start_ns + span->finish_ns) / 2 / scale,
            (double)span->stage_index + 0.91, kind->number_color);
}

static bool is_thin(const struct span_record *span, int64_t makespan_ns) {
    return is_compute(span) &&
           (double)(span->finish_ns - span->start_ns) / (double)makespan_ns * TIMELINE_PIXELS <
               EDGED_LEAST_PIXELS;
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
                   int64_t count, int64_t dp_rank, int64_t until_ns, enum plot_color color,
                   struct error *err) {
    const struct palette *palette = choose_palette(spans, count, color);
    if (until_ns <= 0) until_ns = INT64_MAX;
    struct timeline_extent extent = timeline_extent(spans, count, dp_rank, until_ns);
    bool cut = extent.makespan_ns == until_ns;
    if (extent.span_count == 0) return plot_nothing(err, "timeline of that rank");
    double row_pixels = extent.stage_count <= 8 ? 72 : extent.stage_count <= 16 ? 48 : 32;
    double height = 200 + row_pixels * (double)extent.stage_count;
    struct gnuplot g;
    if (!gnuplot_begin(&g, path, TIMELINE_WIDTH, height, err)) return false;

    bool seen[BAR_KIND_LIMIT][2] = { { false } }; /* with and without edges */
    const char *unit;
    double scale = plot_time_scale(extent.makespan_ns, &unit);
    for (int block = 0; block < 2 * palette->count; block++) {
        const int k = block / 2, thin = block % 2;
        fprintf(g.script, "$bars%d_%d << END\n", k, thin);
        for (int64_t i = 0; i < count; i++) {
            if (spans[i].dp_rank != dp_rank || bar_kind_of(palette, &spans[i]) != k) continue;
            if (spans[i].start_ns >= until_ns || spans[i].finish_ns == spans[i].start_ns) continue;
            if (is_thin(&spans[i], extent.makespan_ns) != (thin == 1)) continue;
            write_bar(g.script, &spans[i], scale, extent.makespan_ns);
            seen[k][thin] = true;
        }
        fputs("END\n", g.script);
    }
    plot_set_style(&g);
    char text[512];
    snprintf(text, sizeof text, "%s: %spipeline of iteration %d on DP rank %d", scenario,
             cut ? "beginning of the " : "", (int)extent.iteration_index, (int)dp_rank);
    plot_set_text(&g, "title", text);
    snprintf(text, sizeof text, "time from the start of the iteration (%s); white is waiting",
             unit);
    plot_set_text(&g, "xlabel", text);
    fprintf(g.script,
            "set ylabel 'pipeline stage'\nset xrange [0:%.9g]\nset yrange [%g:0.5]\n"
            "set ytics 1\nset grid x noy\nset border 1\nset bmargin 5.5\n"
            "set key at screen 0.5, screen %g center horizontal Left reverse\n",
            (double)extent.makespan_ns / scale, (double)extent.stage_count + 0.5, 20 / height);
    for (int64_t i = 0; i < count; i++)
        if (spans[i].dp_rank == dp_rank && spans[i].finish_ns <= until_ns)
            write_number(&g, &spans[i], &palette->kinds[bar_kind_of(palette, &spans[i])], scale,
                         extent.makespan_ns);
    const char *separator = "plot ";
    for (int block = 0; block < 2 * palette->count; block++) {
        const int k = block / 2, thin = block % 2;
        if (!seen[k][thin]) continue;
        fprintf(g.script,
                "%s$bars%d_%d with boxxyerror fc rgb '%s' fs solid 1.0 border rgb '%s' lw %g ",
                separator, k, thin, palette->kinds[k].color,
                thin ? palette->kinds[k].color : "#ffffff", thin ? 0.3 : 0.5);
        fputs(thin && seen[k][0] ? "notitle" : "title ", g.script);
        if (!thin || !seen[k][0]) write_title_of_kind(&g, &palette->kinds[k]);
        separator = ", ";
    }
    fputc('\n', g.script);
    return gnuplot_end(&g, err);
}
