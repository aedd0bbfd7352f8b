/* plot_scatter.c - points, their bands, the diagonal and a corridor around it. */
#include "results/plot_scatter.h"

#include <math.h>
#include "results/plot_style.h"

static bool drawn(const struct plot_point *p) {
    return p->x > 0 && p->y > 0;
}

static void write_points(struct gnuplot *g, const struct plot_scatter *s, int64_t group) {
    fprintf(g->script, "$group%ld << END\n", (long)group);
    for (int64_t i = 0; i < s->point_count; i++) {
        const struct plot_point *p = &s->points[i];
        if (p->group != group || !drawn(p)) continue;
        const struct band band = band_is_known(p->band) ? p->band : band_even(0);
        fprintf(g->script, "%.9g %.9g %.9g %.9g\n", p->x, p->y, p->y * (1 - band.below),
                p->y * (1 + band.above));
    }
    fputs("END\n", g->script);
}

bool plot_scatter(const char *path, const struct plot_scatter *s, struct error *err) {
    double low = INFINITY, high = 0;
    for (int64_t i = 0; i < s->point_count; i++) {
        const struct plot_point *p = &s->points[i];
        if (!drawn(p)) continue;
        low = fmin(low, fmin(p->x, p->y));
        high = fmax(high, fmax(p->x, p->y));
    }
    if (high <= 0) return error_set(err, "there is nothing to draw: no value is positive");
    low /= 1.25;
    high *= 1.25;
    struct gnuplot g;
    if (!gnuplot_begin(&g, path, 1000, 900, err)) return false;
    for (int64_t group = 0; group < s->group_count; group++)
        write_points(&g, s, group);
    plot_set_style(&g);
    plot_set_text(&g, "title", s->title);
    plot_set_text(&g, "xlabel", s->x_label);
    plot_set_text(&g, "ylabel", s->y_label);
    fprintf(g.script,
            "set logscale xy\nset xrange [%.9g:%.9g]\nset yrange [%.9g:%.9g]\n"
            "set size ratio -1\nset key left top Left reverse\n",
            low, high, low, high);
    /* Tics at 1, 2 and 5 of each power of ten. */
    fputs("set xtics (1,2,5,10,20,50,100,200,500,1000,2000,5000,10000)\n"
          "set ytics (1,2,5,10,20,50,100,200,500,1000,2000,5000,10000)\n",
          g.script);
    fputs("plot ", g.script);
    if (s->corridor_fraction > 0)
        fprintf(g.script,
                "'+' using 1:($1*%.9g):($1*%.9g) with filledcurves fc rgb '#e8eef4'"
                " title 'within %.0f %%', ",
                1 - s->corridor_fraction, 1 + s->corridor_fraction, s->corridor_fraction * 100);
    fputs("x with lines lc rgb '#7F7F7F' lw 1.5 dt 2 title 'agreement'", g.script);
    static const int symbols[] = { 7, 5, 9, 11, 13, 4, 6, 8 };
    for (int64_t group = 0; group < s->group_count; group++) {
        const int64_t look = group - s->pale_count;
        if (look < 0)
            fprintf(g.script,
                    ", $group%ld using 1:2 with points pt 7 ps 0.7 lc rgb '#B4B4B4' title ",
                    (long)group);
        else
            fprintf(
                g.script,
                ", $group%ld using 1:2:3:4 with yerrorbars pt %d ps 1.3 lc rgb '%s' lw 1.3 title ",
                (long)group, symbols[look % PLOT_COLOR_COUNT],
                plot_colors[look % PLOT_COLOR_COUNT]);
        gnuplot_text(&g, s->groups[group]);
    }
    fputc('\n', g.script);
    return gnuplot_end(&g, err);
}
