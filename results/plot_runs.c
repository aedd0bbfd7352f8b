/* plot_runs.c - many runs beside each other: what can be chosen (Pareto), and what more GPUs bring
 * (scaling).
 */
#include <math.h>
#include <stdlib.h>
#include <string.h>
#include "results/plot_style.h"
#include "sim/base/arena.h"

static bool is_done(const struct run_record *run) {
    /* One simulated for the picture has no status yet. */
    return (run->status == NULL || strcmp(run->status, "done") == 0) &&
           isfinite(run->step_time_mean_ms) && isfinite(run->total_days);
}

static bool runs_out(const struct run_record *run) {
    return run->verdict != NULL && strcmp(run->verdict, "out of memory") == 0;
}

/* ---- Pareto ---- */

/* Money where all runs have a price, GPU-days otherwise: one axis holds one thing. */
static bool all_priced(const struct run_record *const *runs, int64_t count) {
    for (int64_t i = 0; i < count; i++)
        if (is_done(runs[i]) && !isfinite(runs[i]->money_usd)) return false;
    return true;
}

static double cost_of(const struct run_record *run, bool priced) {
    return priced ? run->money_usd : run->gpu_days;
}

/* No other run that fits is at least as good in both and better in one. */
static bool on_front(const struct run_record *const *runs, int64_t count, int64_t index,
                     bool priced) {
    const struct run_record *run = runs[index];
    if (!is_done(run) || runs_out(run)) return false;
    for (int64_t i = 0; i < count; i++) {
        const struct run_record *other = runs[i];
        if (i == index || !is_done(other) || runs_out(other)) continue;
        const double days = other->total_days - run->total_days;
        const double cost = cost_of(other, priced) - cost_of(run, priced);
        if (days <= 0 && cost <= 0 && (days < 0 || cost < 0)) return false;
    }
    return true;
}

struct front_point {
    double days, cost;
    const char *name;
};

static int by_days(const void *a, const void *b) {
    const struct front_point *x = a, *y = b;
    return (x->days > y->days) - (x->days < y->days);
}

static int64_t collect_front(const struct run_record *const *runs, int64_t count, bool priced,
                             struct front_point *front) {
    int64_t found = 0;
    for (int64_t i = 0; i < count; i++)
        if (on_front(runs, count, i, priced))
            front[found++] = (struct front_point){ runs[i]->total_days, cost_of(runs[i], priced),
                                                   runs[i]->scenario_name };
    qsort(front, (size_t)found, sizeof *front, by_days);
    return found;
}

/* Tics at 1, 2 and 5 of each decade: gnuplot names the decades only. */
static void write_decade_tics(struct gnuplot *g, char axis, double low, double high) {
    static const int digits[] = { 1, 2, 5 };
    const char *comma = "";
    fprintf(g->script, "set %ctics (", axis);
    for (double decade = pow(10, floor(log10(low))); decade <= high; decade *= 10)
        for (int d = 0; d < 3; d++) {
            const double tic = decade * digits[d];
            if (tic < low || tic > high) continue;
            fprintf(g->script, "%s'%.6g' %.9g", comma, tic, tic);
            comma = ", ";
        }
    fputs(")\n", g->script);
}

enum { NAMED_POINTS = 12 };

struct extent {
    double low, high;
};

static double place_in(struct extent e, double value) {
    return (value - e.low) / (e.high - e.low);
}

/* Names beside the points of the front, at most NAMED_POINTS; one that would stand on another is left
 * out. Shares of the graph: a letter is 0.0075 wide, a line 0.04 high. */
static void write_names(struct gnuplot *g, const struct front_point *front, int64_t count, bool wide,
                        struct extent x, struct extent y) {
    struct {
        double left, right, middle;
    } taken[NAMED_POINTS];
    int64_t named = 0;
    for (int64_t i = 0; i < count && named < NAMED_POINTS; i++) {
        const double at = place_in(x, wide ? log(front[i].days) : front[i].days);
        const double height = place_in(y, wide ? log(front[i].cost) : front[i].cost);
        const double width = 0.0075 * (double)strlen(front[i].name);
        const bool leftward = at + 0.012 + width > 1;
        const double left = leftward ? at - 0.012 - width : at + 0.012;
        double middle = NAN;
        for (int side = 0; side < 2 && isnan(middle); side++) {
            const double wanted = height + (side == 0 ? 0.025 : -0.025);
            bool free = true;
            for (int64_t k = 0; k < named; k++)
                free = free && (left > taken[k].right || left + width < taken[k].left ||
                                fabs(wanted - taken[k].middle) > 0.04);
            if (free) middle = wanted;
        }
        if (isnan(middle)) continue;
        taken[named].left = left;
        taken[named].right = left + width;
        taken[named++].middle = middle;
        fputs("set label ", g->script);
        gnuplot_text(g, front[i].name);
        fprintf(g->script, " at graph %.6g, graph %.6g left front\n", left, middle);
    }
}

bool plot_pareto(const char *path, const char *title, const struct run_record *const *runs,
                 int64_t count, struct error *err) {
    int64_t done = 0, fitting = 0;
    double least = INFINITY, most = 0, cheapest = INFINITY, dearest = 0;
    for (int64_t i = 0; i < count; i++) {
        if (!is_done(runs[i])) continue;
        done++;
        fitting += !runs_out(runs[i]);
        least = fmin(least, runs[i]->total_days);
        most = fmax(most, runs[i]->total_days);
    }
    if (done == 0) return error_set(err, "there is nothing to draw: no run has finished");
    const bool priced = all_priced(runs, count);
    for (int64_t i = 0; i < count; i++)
        if (is_done(runs[i])) {
            cheapest = fmin(cheapest, cost_of(runs[i], priced));
            dearest = fmax(dearest, cost_of(runs[i], priced));
        }
    /* A sweep spans decades, and what counts is at the lower left. */
    const bool wide = least > 0 && cheapest > 0 && (most > 8 * least || dearest > 8 * cheapest);
    struct gnuplot g;
    if (!gnuplot_begin(&g, path, 1300, 800, err)) return false;
    struct arena *arena = arena_create();
    struct front_point *front = arena_array(arena, struct front_point, count);
    const int64_t on = collect_front(runs, count, priced, front);
    for (int out = 0; out < 2; out++) {
        fprintf(g.script, "$points%d << END\n", out);
        for (int64_t i = 0; i < count; i++)
            if (is_done(runs[i]) && runs_out(runs[i]) == (out == 1))
                fprintf(g.script, "%.9g %.9g\n", runs[i]->total_days, cost_of(runs[i], priced));
        fputs("END\n", g.script);
    }
    fputs("$front << END\n", g.script);
    for (int64_t i = 0; i < on; i++)
        fprintf(g.script, "%.9g %.9g\n", front[i].days, front[i].cost);
    fputs("END\n", g.script);
    plot_set_style(&g);
    plot_set_text(&g, "title", title);
    plot_set_text(&g, "xlabel", "days of the whole training");
    plot_set_text(&g, "ylabel", priced ? "money (USD)" : "GPU-days");
    const double margin = fmax((most - least) * 0.08, most * 0.02);
    const double rise = fmax((dearest - cheapest) * 0.08, dearest * 0.02);
    if (wide) {
        fprintf(g.script, "set logscale xy\nset xrange [%.9g:%.9g]\nset yrange [%.9g:%.9g]\n",
                least / 1.3, most * 1.5, cheapest / 1.3, dearest * 1.3);
        write_decade_tics(&g, 'x', least / 1.3, most * 1.5);
        write_decade_tics(&g, 'y', cheapest / 1.3, dearest * 1.3);
    } else
        fprintf(g.script, "set xrange [%.9g:%.9g]\nset yrange [%.9g:%.9g]\n",
                fmax(0, least - margin), most + 3 * margin, fmax(0, cheapest - rise),
                dearest + rise);
    fputs("set bmargin 7\nset key outside bottom center horizontal Left reverse\n", g.script);
    const struct extent x = wide ? (struct extent){ log(least / 1.3), log(most * 1.5) }
                                 : (struct extent){ fmax(0, least - margin), most + 3 * margin };
    const struct extent y = wide ? (struct extent){ log(cheapest / 1.3), log(dearest * 1.3) }
                                 : (struct extent){ fmax(0, cheapest - rise), dearest + rise };
    write_names(&g, front, on, wide, x, y);
    const char *separator = "plot ";
    const double size = done > 200 ? 0.5 : 1;
    if (done > fitting) {
        fprintf(g.script,
                "%s$points1 with points pt 2 ps %g lw 1.2 lc rgb '#8A8A8A' title 'out of "
                "memory'",
                separator, size);
        separator = ", ";
    }
    if (fitting > 0)
        fprintf(
            g.script,
            "%s$points0 with points pt 7 ps %g lc rgb '#56B4E9' title 'fits',"
            " $front with lines lw 2 lc rgb '#D55E00' notitle,"
            " $front with points pt 7 ps 1.6 lc rgb '#D55E00' title 'nothing is both faster and "
            "cheaper'",
            separator, size);
    fputc('\n', g.script);
    arena_destroy(arena);
    return gnuplot_end(&g, err);
}

/* ---- scaling ---- */

struct scale_point {
    double gpus, samples_per_s, cost, band;
};

static int by_gpus(const void *a, const void *b) {
    const struct scale_point *x = a, *y = b;
    if (x->gpus != y->gpus) return x->gpus < y->gpus ? -1 : 1;
    return (x->samples_per_s < y->samples_per_s) - (x->samples_per_s > y->samples_per_s);
}

/* The fastest fitting run of each GPU count. */
static int64_t collect_scaling(const struct run_record *const *runs, int64_t count, bool priced,
                               struct scale_point *points) {
    int64_t found = 0, kept = 0;
    for (int64_t i = 0; i < count; i++) {
        const struct run_record *run = runs[i];
        if (!is_done(run) || runs_out(run) || run->iteration_count <= 0) continue;
        const double per_step = (double)run->sample_count / (double)run->iteration_count;
        points[found++] =
            (struct scale_point){ (double)run->gpu_count, per_step / run->step_time_mean_ms * 1e3,
                                  cost_of(run, priced), run->band_fraction };
    }
    qsort(points, (size_t)found, sizeof *points, by_gpus);
    for (int64_t i = 0; i < found; i++)
        if (kept == 0 || points[kept - 1].gpus != points[i].gpus) points[kept++] = points[i];
    return kept;
}

bool plot_scaling(const char *path, const char *title, const struct run_record *const *runs,
                  int64_t count, struct error *err) {
    const bool priced = all_priced(runs, count);
    struct arena *arena = arena_create();
    struct scale_point *points = arena_array(arena, struct scale_point, count + 1);
    const int64_t kept = collect_scaling(runs, count, priced, points);
    struct gnuplot g;
    bool ok = kept >= 2;
    if (!ok) {
        error_set(err, "a scaling curve needs finished runs that fit on at least two GPU counts");
        error_hint(err, "run the scenario with several --set cluster.gpu_count=N");
    }
    if (!ok || !gnuplot_begin(&g, path, 1400, 700, err)) {
        arena_destroy(arena);
        return false;
    }
    fputs("$curve << END\n", g.script);
    for (int64_t i = 0; i < kept; i++) {
        const struct scale_point *p = &points[i];
        const double band = isfinite(p->band) ? p->band : 0;
        fprintf(g.script, "%.9g %.9g %.9g %.9g %.9g %.9g\n", p->gpus, p->samples_per_s, p->cost,
                p->samples_per_s / (1 + band), p->samples_per_s / fmax(1 - band, 0.01),
                p->samples_per_s / p->gpus / (points[0].samples_per_s / points[0].gpus) * 100);
    }
    fputs("END\n", g.script);
    plot_set_style(&g);
    fputs("set multiplot layout 1,2 title ", g.script);
    gnuplot_text(&g, title);
    fprintf(
        g.script,
        "\nset logscale x 2\nset logscale y 2\nset xlabel 'GPUs'\nset ylabel 'samples a second'\n"
        "set key left top Left reverse\nset xtics (");
    for (int64_t i = 0; i < kept; i++)
        fprintf(g.script, "%s\"%g\" %g", i > 0 ? ", " : "", points[i].gpus, points[i].gpus);
    fprintf(g.script,
            ")\nset xrange [%g:%g]\n"
            "plot [%g:%g] %.9g * x with lines lc rgb '#7F7F7F' dt 2 lw 2 title 'proportional to "
            "the first',"
            " $curve using 1:2:4:5 with yerrorbars pt 7 ps 1.2 lw 1.5 lc rgb '#0072B2' title 'with "
            "its error band', $curve using 1:2 with lines lw 2 lc rgb '#0072B2' notitle\n",
            points[0].gpus / 1.3, points[kept - 1].gpus * 1.3, points[0].gpus / 1.3,
            points[kept - 1].gpus * 1.3, points[0].samples_per_s / points[0].gpus);
    fprintf(g.script,
            "unset logscale y\nset ylabel '%s'\nset yrange [0:*]\nset y2label 'throughput of a GPU "
            "against the first (%%)'\nset y2range [0:110]\nset y2tics\nset border 11\n"
            "set key left bottom Left reverse\n"
            "plot $curve using 1:3 with linespoints pt 7 ps 1.2 lw 2 lc rgb '#D55E00' title '%s',"
            " $curve using 1:6 axes x1y2 with linespoints pt 5 ps 1.1 lw 2 dt 2 lc rgb '#0072B2'"
            " title 'throughput of a GPU'\nunset multiplot\n",
            priced ? "money of the whole training (USD)" : "GPU-days of the whole training",
            priced ? "money" : "GPU-days");
    arena_destroy(arena);
    return gnuplot_end(&g, err);
}
