/* plot_chart.c - bars in pairs, simulated and printed, each with its number; lines with marks of
 * their own. */
#include "results/plot_chart.h"

#include <math.h>
#include <string.h>
#include "results/plot_style.h"

/* ---- bars ---- */

enum { BAR_SIMULATED, BAR_PRINTED };

/* Alone a bar stands on its number; of a pair the simulated one stands left of it. */
static double left_of(const struct plot_bar *bar, int which) {
    if (isnan(bar->printed)) return -0.2;
    return which == BAR_SIMULATED ? -0.4 : 0;
}

/* As many decimals for all: three digits of the highest bar, two of the lowest. */
static int decimals_of(const struct plot_bar *bars, int64_t count, double top) {
    double least = top;
    for (int64_t i = 0; i < count; i++) {
        if (bars[i].simulated > 0) least = fmin(least, bars[i].simulated);
        if (bars[i].printed > 0) least = fmin(least, bars[i].printed);
    }
    const double decimals = fmax(2 - floor(log10(top)), 1 - floor(log10(least)));
    return (int)fmin(fmax(decimals, 0), 6);
}

static void write_bars(struct gnuplot *g, const struct plot_bar *bars, int64_t count, int which,
                       int decimals) {
    fprintf(g->script, "$bars%d << END\n-9 0 -9 -9 0 0\n", which);
    for (int64_t i = 0; i < count; i++) {
        double value = which == BAR_SIMULATED ? bars[i].simulated : bars[i].printed;
        if (isnan(value)) continue;
        double left = (double)i + left_of(&bars[i], which);
        fprintf(g->script, "%d 0 %.9g %.9g 0 %.9g\n", (int)i, left, left + 0.4, value);
    }
    fputs("END\n", g->script);
    for (int64_t i = 0; i < count; i++) {
        double value = which == BAR_SIMULATED ? bars[i].simulated : bars[i].printed;
        if (isnan(value)) continue;
        char number[PLOT_NUMBER_SIZE];
        fprintf(g->script, "set label '%s' at %.9g,%.9g center offset 0,0.6 front\n",
                plot_fixed(number, value, decimals), (double)i + left_of(&bars[i], which) + 0.2,
                value);
    }
}

bool plot_bars(const char *path, const char *title, const char *axis, const struct plot_bar *bars,
               int64_t count, struct error *err) {
    double top = 0;
    size_t longest = 0; /* letters of a label */
    for (int64_t i = 0; i < count; i++)
        longest = strlen(bars[i].label) > longest ? strlen(bars[i].label) : longest;
    for (int64_t i = 0; i < count; i++)
        top = fmax(top, fmax(bars[i].simulated, isnan(bars[i].printed) ? 0 : bars[i].printed));
    if (count == 0 || top <= 0) return plot_nothing(err, "bars");
    struct gnuplot g;
    if (!gnuplot_begin(&g, path, fmax(900, 300 + 125 * (double)count), 650, err)) return false;
    const int decimals = decimals_of(bars, count, top);
    write_bars(&g, bars, count, BAR_SIMULATED, decimals);
    write_bars(&g, bars, count, BAR_PRINTED, decimals);
    plot_set_style(&g);
    plot_set_text(&g, "title", title);
    plot_set_text(&g, "ylabel", axis);
    plot_set_number_tics(&g, 'y', 0, top * 1.15);
    fprintf(g.script, "set xrange [-0.7:%.9g]\nset yrange [0:%.9g]\nset grid y nox\nset xtics (",
            (double)count - 0.3, top * 1.15);
    for (int64_t i = 0; i < count; i++) {
        fputs(i > 0 ? ", " : "", g.script);
        gnuplot_tic_text(&g, bars[i].label);
        fprintf(g.script, " %d", (int)i);
    }
    fprintf(g.script,
            ")%s\nset key outside top right horizontal Left reverse\n"
            "plot $bars0 with boxxyerror fc rgb '%s' fs solid 1.0 noborder title 'simulated', "
            "$bars1 with boxxyerror fc rgb '%s' fs pattern 4 border lc rgb '#000000' title "
            "'printed'\n",
            longest > 12 ? " rotate by -25" : "", plot_colors[0], plot_colors[1]);
    return gnuplot_end(&g, err);
}

/* ---- lines ---- */

bool plot_lines(const char *path, const struct plot_lines *l, struct error *err) {
    if (l->line_count == 0 || l->point_count == 0) return plot_nothing(err, "lines");
    struct gnuplot g;
    if (!gnuplot_begin(&g, path, 1300, 700, err)) return false;
    fputs("$points << END\n", g.script);
    for (int64_t i = 0; i < l->point_count; i++) {
        fprintf(g.script, "%d", (int)i + 1);
        for (int64_t k = 0; k < l->line_count; k++)
            fprintf(g.script, " %.9g", l->lines[k].values[i]);
        fprintf(g.script, " %.9g\n", l->right != NULL ? l->right[i] : 0);
    }
    fputs("END\n", g.script);
    plot_set_style(&g);
    plot_set_text(&g, "title", l->title);
    plot_set_text(&g, "xlabel", l->x_axis);
    plot_set_text(&g, "ylabel", l->axis);
    fprintf(g.script,
            "set xrange [0.5:%.9g]\nset yrange [0:*]\nset key outside right top Left reverse\n",
            (double)l->point_count + 0.5);
    if (l->right != NULL) {
        plot_set_text(&g, "y2label", l->right_axis);
        fputs("set y2range [0:*]\nset y2tics nomirror out\nset border 11 lw 1\n", g.script);
    }
    static const int marks[] = { 7, 5, 9, 13, 11, 6, 4, 8 };
    enum { MARK_COUNT = sizeof marks / sizeof marks[0] };
    for (int64_t k = 0; k < l->line_count; k++) {
        fprintf(g.script,
                "%s$points using 1:%d with linespoints lc rgb '%s' lw 2 pt %d ps 0.9 title ",
                k > 0 ? ", " : "plot ", (int)k + 2, plot_colors[k % PLOT_COLOR_COUNT],
                marks[k % MARK_COUNT]);
        gnuplot_text(&g, l->lines[k].label);
    }
    if (l->right != NULL) {
        fprintf(g.script,
                ", $points using 1:%d axes x1y2 with lines lc rgb '#7F7F7F' lw 2 dt 2 title ",
                (int)l->line_count + 2);
        gnuplot_text(&g, l->right_axis);
    }
    fputc('\n', g.script);
    return gnuplot_end(&g, err);
}
