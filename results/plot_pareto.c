/* plot_pareto.c - time against cost: what can be chosen. The points that nothing beats are numbered, and a
 * list beside the picture says what each of them is; few runs are numbered all.
 */
#include <math.h>
#include <stdlib.h>
#include <string.h>
#include "results/plot_style.h"
#include "sim/base/amount.h"

enum { LISTED = 14 };

/* No other point that fits is at least as good in both and better in one. */
static bool on_front(const struct plot_choice *points, int64_t count, int64_t index, bool priced) {
    const struct plot_choice *point = &points[index];
    if (!point->done || point->out_of_memory) return false;
    for (int64_t i = 0; i < count; i++) {
        const struct plot_choice *other = &points[i];
        if (i == index || !other->done || other->out_of_memory) continue;
        const double days = other->days - point->days;
        const double cost = plot_choice_cost(other, priced) - plot_choice_cost(point, priced);
        if (days <= 0 && cost <= 0 && (days < 0 || cost < 0)) return false;
    }
    return true;
}

struct numbered {
    const struct plot_choice *point;
    double cost;
    bool front;
};

static int by_days(const void *a, const void *b) {
    const struct numbered *x = a, *y = b;
    if (x->front != y->front) return x->front ? -1 : 1;
    if (x->point->days < y->point->days || x->point->days > y->point->days)
        return x->point->days < y->point->days ? -1 : 1;
    return (x->point > y->point) - (x->point < y->point);
}

/* The front, fastest first, then the others where all are listed. Points that no eye could tell apart,
 * such as one layout by different fields, count once. */
static int64_t collect(const struct plot_choice *points, int64_t count, bool priced, bool all,
                       struct numbered *choices, int64_t *front_count) {
    int64_t found = 0, kept = 0;
    for (int64_t i = 0; i < count; i++) {
        const bool front = on_front(points, count, i, priced);
        if (front || (all && points[i].done && !points[i].out_of_memory))
            choices[found++] =
                (struct numbered){ &points[i], plot_choice_cost(&points[i], priced), front };
    }
    qsort(choices, (size_t)found, sizeof *choices, by_days);
    *front_count = 0;
    for (int64_t i = 0; i < found; i++) {
        const struct numbered *last = kept > 0 ? &choices[kept - 1] : NULL;
        if (!all && last != NULL && choices[i].point->days < 1.002 * last->point->days &&
            choices[i].cost > 0.998 * last->cost)
            continue;
        choices[kept++] = choices[i];
        *front_count += choices[i].front;
    }
    return kept;
}

/* Long names are cut where the list ends. */
static void write_line(struct gnuplot *g, double y, const char *text, const char *color) {
    enum { LONGEST = 46 };
    char line[LONGEST + 4];
    snprintf(line, sizeof line, "%.*s%s", LONGEST, text, strlen(text) > LONGEST ? "..." : "");
    fputs("set label ", g->script);
    gnuplot_text(g, line);
    fprintf(g->script, " at screen 0.72, screen %.6g left tc rgb '%s'\n", y, color);
}

/* The number beside its point, and what it is in two lines of the list. */
static void write_choice(struct gnuplot *g, const struct numbered *c, int64_t number, bool below,
                         double per_day, bool priced, double y) {
    const struct amount_unit time = amount_of_days(c->point->days);
    const double length = c->point->days * time.per_day;
    char text[160];
    fprintf(g->script, "set label '%lld' at %.9g, %.9g center offset 0,%g front\n",
            (long long)number, c->point->days * per_day, c->cost, below ? -0.9 : 0.9);
    snprintf(text, sizeof text, "%lld  %.*f %s, %.*f %s, %lld GPUs", (long long)number,
             length < 10 ? 2 : 1, length, time.name,
             priced         ? amount_money_decimals(c->cost)
             : c->cost < 10 ? 2
                            : 1,
             c->cost, priced ? "USD" : "GPU-days", (long long)c->point->gpu_count);
    write_line(g, y, text, c->front ? "#000000" : "#555555");
    snprintf(text, sizeof text, "    %s", c->point->name);
    write_line(g, y - 0.027, text, "#555555");
}

/* At most LISTED of them, the first and the last among them. */
static void write_list(struct gnuplot *g, const struct numbered *choices, int64_t count,
                       int64_t front_count, double per_day, bool priced) {
    const int64_t listed = count < LISTED ? count : LISTED;
    double y = 0.93;
    write_line(g, y, front_count < count ? "Fastest first, then what is beaten" : "Fastest first",
               "#000000");
    double last_days = 0;
    bool below = false;
    for (int64_t k = 0; k < listed; k++, y -= 0.062) {
        const int64_t i = listed < 2 ? k : k * (count - 1) / (listed - 1);
        below = choices[i].front && choices[i].point->days < 1.12 * last_days && !below;
        last_days = choices[i].point->days;
        write_choice(g, &choices[i], k + 1, below, per_day, priced, y - 0.045);
    }
}

struct extent {
    double least, most;
};

static void include(struct extent *e, double value) {
    e->least = fmin(e->least, value);
    e->most = fmax(e->most, value);
}

/* A sweep spans decades, and what counts is at the lower left. */
static void write_axes(struct gnuplot *g, struct extent x, struct extent y) {
    if (x.least > 0 && y.least > 0 && (x.most > 8 * x.least || y.most > 8 * y.least)) {
        fprintf(g->script, "set logscale xy\nset xrange [%.9g:%.9g]\nset yrange [%.9g:%.9g]\n",
                x.least / 1.2, x.most * 1.2, y.least / 1.2, y.most * 1.2);
        plot_set_decade_tics(g, 'x', x.least / 1.2, x.most * 1.2);
        plot_set_decade_tics(g, 'y', y.least / 1.2, y.most * 1.2);
        return;
    }
    const double margin = fmax((x.most - x.least) * 0.08, x.most * 0.02);
    const double rise = fmax((y.most - y.least) * 0.08, y.most * 0.02);
    fprintf(g->script, "set xrange [%.9g:%.9g]\nset yrange [%.9g:%.9g]\n",
            fmax(0, x.least - margin), x.most + margin, fmax(0, y.least - rise), y.most + rise);
}

bool plot_pareto(const char *path, const char *title, const struct plot_choice *points,
                 int64_t count, struct error *err) {
    const bool priced = plot_choices_priced(points, count);
    struct extent days = { INFINITY, 0 }, cost = { INFINITY, 0 };
    int64_t done = 0, fitting = 0;
    for (int64_t i = 0; i < count; i++) {
        if (!points[i].done) continue;
        done++;
        fitting += !points[i].out_of_memory;
        include(&days, points[i].days);
        include(&cost, plot_choice_cost(&points[i], priced));
    }
    if (done == 0) return error_set(err, "there is nothing to draw: no run has finished");
    struct gnuplot g;
    if (!gnuplot_begin(&g, path, 1500, 800, err)) return false;
    struct arena *arena = arena_create();
    struct numbered *choices = arena_array(arena, struct numbered, count);
    int64_t front_count;
    const int64_t shown = collect(points, count, priced, fitting <= LISTED, choices, &front_count);
    const struct amount_unit time = amount_of_days(days.most);
    for (int out = 0; out < 2; out++) {
        fprintf(g.script, "$points%d << END\n", out);
        for (int64_t i = 0; i < count; i++)
            if (points[i].done && points[i].out_of_memory == (out == 1))
                fprintf(g.script, "%.9g %.9g\n", points[i].days * time.per_day,
                        plot_choice_cost(&points[i], priced));
        fputs("END\n", g.script);
    }
    fputs("$front << END\n", g.script);
    for (int64_t i = 0; i < front_count; i++)
        fprintf(g.script, "%.9g %.9g\n", choices[i].point->days * time.per_day, choices[i].cost);
    fputs("END\n", g.script);
    plot_set_style(&g);
    plot_set_text(&g, "title", title);
    char label[64];
    snprintf(label, sizeof label, "%s of the whole training", time.name);
    plot_set_text(&g, "xlabel", label);
    plot_set_text(&g, "ylabel", priced ? "money (USD)" : "GPU-days");
    write_axes(&g, (struct extent){ days.least * time.per_day, days.most * time.per_day }, cost);
    fputs("set bmargin 7\nset rmargin at screen 0.7\n"
          "set key outside bottom center horizontal Left reverse\n",
          g.script);
    write_list(&g, choices, shown, front_count, time.per_day, priced);
    const char *separator = "plot ";
    const double size = done > 200 ? 0.5 : 1;
    if (done > fitting) {
        fprintf(g.script,
                "%s$points1 with points pt 2 ps %g lw 1.2 lc rgb '#6A6A6A' title 'out of memory'",
                separator, fmax(size, 0.8));
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
