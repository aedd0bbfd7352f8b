/* plot_search.c - the best schedule of each search method over the schedules tried and over wall
 * time.
 */
#include "results/plot.h"

#include <math.h>
#include <string.h>
#include "results/plot_style.h"
#include "sim/base/units.h"

enum { METHOD_LIMIT = 6 };

struct methods {
    const char *names[METHOD_LIMIT];
    int64_t first[METHOD_LIMIT], end[METHOD_LIMIT], count;
};

/* Points of one method stand together. */
static struct methods list_methods(const struct search_progress_record *points, int64_t count) {
    struct methods m = { .count = 0 };
    for (int64_t i = 0; i < count; i++) {
        if (m.count == 0 || strcmp(m.names[m.count - 1], points[i].method) != 0) {
            if (m.count == METHOD_LIMIT) break;
            m.names[m.count] = points[i].method;
            m.first[m.count++] = i;
        }
        m.end[m.count - 1] = i + 1;
    }
    return m;
}

static void write_points(FILE *out, const struct search_progress_record *points,
                         const struct methods *m, double scale) {
    for (int64_t k = 0; k < m->count; k++) {
        fprintf(out, "$method%d << END\n", (int)k);
        for (int64_t i = m->first[k]; i < m->end[k]; i++)
            fprintf(out, "%.9g %.9g %.9g\n", (double)points[i].schedule_count,
                    points[i].wall_ns > 0 ? (double)points[i].wall_ns / NS_PER_MS : 1e-3,
                    (double)points[i].makespan_ns / scale);
        fputs("END\n", out);
    }
}

/* Colour and dash go with the method, wherever its points come from. */
static int style_of(const char *method, int64_t place) {
    static const char *const known[] = { "mcts", "depth-first", "random" };
    for (int k = 0; k < 3; k++)
        if (strcmp(method, known[k]) == 0) return k;
    return 3 + (int)place % 3;
}

static void plot_panel(struct gnuplot *g, const struct methods *m, int column, double bound) {
    static const int dashes[METHOD_LIMIT] = { 1, 2, 4, 5, 3, 1 };
    fprintf(g->script,
            "unset label\nset label 'lower bound' at graph 0.02, first %.9g left offset 0,-0.7 "
            "tc rgb '#4D4D4D'\nplot ",
            bound);
    for (int64_t k = 0; k < m->count; k++) {
        int style = style_of(m->names[k], k);
        fprintf(g->script, "$method%d using %d:3 with steps lw 2.5 dt %d lc rgb '%s' title ",
                (int)k, column, dashes[style], plot_colors[style]);
        gnuplot_text(g, m->names[k]);
        fputs(", ", g->script);
    }
    fprintf(g->script, "%.9g with lines lw 1.5 dt 3 lc rgb '#4D4D4D' notitle\n", bound);
}

/* One a decade: four of them with three each would run into one another. */
static void write_wall_tics(struct gnuplot *g, double low, double high) {
    const char *comma = "";
    fputs("set xtics (", g->script);
    for (double decade = pow(10, ceil(log10(low) - 1e-9)); decade <= high; decade *= 10) {
        char text[PLOT_NUMBER_SIZE];
        const int decimals = decade < 0.5 ? (int)lround(-log10(decade)) : 0;
        fprintf(g->script, "%s'%s' %.9g", comma, plot_fixed(text, decade, decimals), decade);
        comma = ", ";
    }
    fputs(")\n", g->script);
}

bool plot_search(const char *path, const char *scenario,
                 const struct search_progress_record *points, int64_t count, struct error *err) {
    if (count == 0) return plot_nothing(err, "schedule search");
    struct gnuplot g;
    if (!gnuplot_begin(&g, path, 1400, 700, err)) return false;
    struct methods m = list_methods(points, count);
    int64_t longest_ns = 0, most_schedules = 1;
    double longest_ms = 1e-3;
    for (int64_t i = 0; i < count; i++) {
        if (points[i].makespan_ns > longest_ns) longest_ns = points[i].makespan_ns;
        if (points[i].schedule_count > most_schedules) most_schedules = points[i].schedule_count;
        longest_ms = fmax(longest_ms, (double)points[i].wall_ns / NS_PER_MS);
    }
    const char *unit;
    double scale = plot_time_scale(longest_ns, &unit), bound = (double)points[0].bound_ns / scale;
    double high = (double)longest_ns / scale, margin = (high - bound) * 0.06 + high * 1e-3;
    write_points(g.script, points, &m, scale);
    plot_set_style(&g);
    char text[512];
    fputs("set multiplot layout 1,2 title ", g.script);
    snprintf(text, sizeof text, "%s: best schedule found, iteration %d", scenario,
             (int)points[0].iteration_index);
    gnuplot_text(&g, text);
    fprintf(g.script,
            "\nset yrange [%.9g:%.9g]\nset logscale x\n"
            "set ylabel 'iteration (%s), before the memory step'\nset xlabel 'schedules tried'\n"
            "set xrange [1:%.9g]\nset key at graph 0.5,1.05 center horizontal samplen 3\nset "
            "tmargin 5\n",
            bound - margin, high + margin, unit, (double)most_schedules);
    plot_set_number_tics(&g, 'y', bound - margin, high + margin);
    plot_set_decade_tics(&g, 'x', 1, (double)most_schedules);
    plot_panel(&g, &m, 1, bound);
    fprintf(g.script, "set xlabel 'wall time of the search (ms), this machine'\nset ylabel ' '\n"
                      "set xrange [%.9g:%.9g]\n",
            longest_ms * 1e-4, longest_ms);
    write_wall_tics(&g, longest_ms * 1e-4, longest_ms);
    plot_panel(&g, &m, 2, bound);
    fputs("unset multiplot\n", g.script);
    return gnuplot_end(&g, err);
}
