/* plot_pareto.c - time against cost: what can be chosen. The points that nothing beats are
 * numbered, and a list beside the picture says what each of them is; few runs are numbered all. A
 * prediction that errs in time errs as much in cost, so that the band of a point is a stroke
 * through it, not a cross.
 */
#include <math.h>
#include <stdlib.h>
#include <string.h>
#include "results/plot_style.h"
#include "sim/base/amount.h"

enum {
    LISTED = 14,
    WIDTH = 1500,
    LINE_PIXELS = 21,
    LINE_LETTERS = 44,
    LINES_MOST = 5 * LISTED + 16
};

/* What can be chosen: it fits, and trains on all that others train on. */
static bool competes(const struct plot_choice *points, int64_t count, int64_t index) {
    const struct plot_choice *point = &points[index];
    return point->done && !point->out_of_memory && !plot_choice_is_partial(points, count, index);
}

/* No other point that competes is at least as good in both and better in one. */
static bool on_front(const struct plot_choice *points, int64_t count, int64_t index, bool priced) {
    const struct plot_choice *point = &points[index];
    if (!competes(points, count, index)) return false;
    for (int64_t i = 0; i < count; i++) {
        const struct plot_choice *other = &points[i];
        if (i == index || !competes(points, count, i)) continue;
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

/* The front, fastest first, then the others where all are listed. Points that no eye could tell
 * apart, such as one layout by different fields, count once. */
static int64_t collect(const struct plot_choice *points, int64_t count, bool priced, bool all,
                       struct numbered *choices, int64_t *front_count) {
    int64_t found = 0, kept = 0;
    for (int64_t i = 0; i < count; i++) {
        const bool front = on_front(points, count, i, priced);
        if (front || (all && competes(points, count, i)))
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

struct extent {
    double least, most;
};

static void include(struct extent *e, double value) {
    e->least = fmin(e->least, value);
    e->most = fmax(e->most, value);
}

/* What the axes count in, and how far they go. */
struct axes {
    struct extent days, cost; /* as drawn */
    double per_day, per_cost; /* drawn of a day, of a dollar or GPU-day */
    const char *day_name, *cost_name;
    bool priced, logarithmic;
};

/* ---- the list ---- */

struct line {
    const char *text;
    bool strong;
};

struct list {
    struct line lines[LINES_MOST];
    double at[LINES_MOST]; /* lines from the top */
    int64_t count;
    double gaps; /* between entries, in lines */
};

static void add_line(struct list *list, struct arena *arena, const char *text, bool strong) {
    ballast_check(list->count < LINES_MOST);
    char cut[LINE_LETTERS + 4];
    list->at[list->count] = (double)list->count + list->gaps;
    list->lines[list->count++] =
        (struct line){ arena_text(arena, plot_cut(cut, sizeof cut, text, LINE_LETTERS)), strong };
}

/* Breaks after commas. */
static void add_wrapped(struct list *list, struct arena *arena, const char *text, int lines_most) {
    for (int k = 1; text[0] != '\0'; k++) {
        size_t length = strlen(text);
        if (k < lines_most && length > LINE_LETTERS - 4) {
            size_t comma = 0;
            for (size_t i = 0; i < LINE_LETTERS - 4; i++)
                if (text[i] == ',') comma = i + 1;
            if (comma > 0) length = comma;
        }
        add_line(list, arena, arena_format(arena, "    %.*s", (int)length, text), false);
        text += length;
        while (*text == ' ')
            text++;
    }
}

static const char *time_text(struct arena *arena, const struct axes *a, double days) {
    char text[PLOT_NUMBER_SIZE];
    return arena_format(arena, "%s %s", plot_number(text, days * a->per_day), a->day_name);
}

static const char *cost_text(struct arena *arena, const struct axes *a, double cost) {
    char text[PLOT_NUMBER_SIZE];
    if (a->priced)
        return arena_format(arena, "%s USD", plot_fixed(text, cost, amount_money_decimals(cost)));
    return arena_format(arena, "%s %s", plot_number(text, cost * a->per_cost), a->cost_name);
}

/* Which limits the prediction breaks, or breaks where it errs to the upper end of its band. */
static const char *breach(struct arena *arena, const struct plot_choice *p,
                          const struct plot_limits *limits) {
    const double most = isfinite(p->band.above) ? 1 + p->band.above : 1;
    const char *time = p->days > limits->deadline_days          ? "late"
                       : p->days * most > limits->deadline_days ? "perhaps late"
                                                                : "";
    const char *money = p->money_usd > limits->budget_usd          ? "beyond the budget"
                        : p->money_usd * most > limits->budget_usd ? "perhaps beyond the budget"
                                                                   : "";
    return arena_format(arena, "%s%s%s", time, time[0] != '\0' && money[0] != '\0' ? ", " : "",
                        money);
}

/* At most LISTED of them, the first and the last among them. */
static int64_t listed_index(int64_t k, int64_t listed, int64_t count) {
    return listed < 2 ? k : k * (count - 1) / (listed - 1);
}

static struct list *make_list(struct arena *arena, const struct numbered *choices, int64_t count,
                              int64_t front_count, const struct plot_limits *limits,
                              const struct axes *axes) {
    struct list *list = arena_new(arena, struct list);
    const int64_t listed = count < LISTED ? count : LISTED;
    const struct plot_choice *points[LISTED];
    const char *texts[LISTED], *shared;
    for (int64_t k = 0; k < listed; k++)
        points[k] = choices[listed_index(k, listed, count)].point;
    plot_choice_differences(points, listed, arena, texts, &shared);
    add_line(list, arena,
             front_count < count ? "Fastest first, then what is beaten" : "Fastest first", true);
    for (int64_t k = 0; k < listed; k++) {
        const struct numbered *c = &choices[listed_index(k, listed, count)];
        list->gaps += 0.45;
        add_line(list, arena,
                 arena_format(arena, "%lld  %s%s, %s, %lld GPUs", (long long)(k + 1),
                              c->point->raced ? "\xe2\x89\x88 " : "",
                              time_text(arena, axes, c->point->days),
                              cost_text(arena, axes, c->cost), (long long)c->point->gpu_count),
                 c->front);
        add_wrapped(list, arena, texts[k], 3);
        add_wrapped(list, arena, breach(arena, c->point, limits), 1);
    }
    list->gaps += 0.6;
    if (shared[0] != '\0') {
        add_line(list, arena, listed > 1 ? "All of these" : "", false);
        add_wrapped(list, arena, shared, 7);
    }
    return list;
}

static double list_pixels(const struct list *list) {
    return ((double)list->count + list->gaps) * LINE_PIXELS;
}

static void write_list(struct gnuplot *g, const struct list *list, double height) {
    for (int64_t i = 0; i < list->count; i++) {
        fputs("set label ", g->script);
        gnuplot_text(g, list->lines[i].text);
        fprintf(g->script, " at screen 0.72, screen %.6g left tc rgb '%s'\n",
                1 - (40 + list->at[i] * LINE_PIXELS) / height,
                list->lines[i].strong ? "#000000" : "#555555");
    }
}

/* ---- the points ---- */

enum kind { RACED, REPLAYED, OUT_OF_MEMORY, PARTIAL, KINDS };

static enum kind kind_of(const struct plot_choice *points, int64_t count, int64_t index) {
    const struct plot_choice *p = &points[index];
    return p->out_of_memory                               ? OUT_OF_MEMORY
           : plot_choice_is_partial(points, count, index) ? PARTIAL
           : p->raced                                     ? RACED
                                                          : REPLAYED;
}

/* A sweep spans decades, and what counts is at the lower left. A limit that is near stands in the
 * picture. */
static struct axes make_axes(struct extent days, struct extent cost, double typical_days,
                             bool priced, const struct plot_limits *limits) {
    const struct amount_unit time = amount_of_days(typical_days),
                             work = amount_of_gpu_days(cost.most);
    struct axes a = { .per_day = time.per_day,
                      .per_cost = priced ? 1 : work.per_day,
                      .day_name = time.name,
                      .cost_name = priced ? "money (USD)" : work.name,
                      .priced = priced };
    if (limits->deadline_days > days.least / 3 && limits->deadline_days < days.most * 3)
        include(&days, limits->deadline_days);
    if (priced && limits->budget_usd > cost.least / 3 && limits->budget_usd < cost.most * 3)
        include(&cost, limits->budget_usd);
    a.days = (struct extent){ days.least * a.per_day, days.most * a.per_day };
    a.cost = (struct extent){ cost.least * a.per_cost, cost.most * a.per_cost };
    a.logarithmic = a.days.least > 0 && a.cost.least > 0 &&
                    (a.days.most > 8 * a.days.least || a.cost.most > 8 * a.cost.least);
    if (a.logarithmic) {
        a.days = (struct extent){ a.days.least / 1.2, a.days.most * 1.2 };
        a.cost = (struct extent){ a.cost.least / 1.2, a.cost.most * 1.2 };
        return a;
    }
    const double margin = fmax((a.days.most - a.days.least) * 0.08, a.days.most * 0.02);
    const double rise = fmax((a.cost.most - a.cost.least) * 0.08, a.cost.most * 0.02);
    a.days = (struct extent){ fmax(0, a.days.least - margin), a.days.most + margin };
    a.cost = (struct extent){ fmax(0, a.cost.least - rise), a.cost.most + rise };
    return a;
}

static void write_axes(struct gnuplot *g, const struct axes *a) {
    fprintf(g->script, "set xrange [%.9g:%.9g]\nset yrange [%.9g:%.9g]\n", a->days.least,
            a->days.most, a->cost.least, a->cost.most);
    if (a->logarithmic) {
        fputs("set logscale xy\n", g->script);
        plot_set_decade_tics(g, 'x', a->days.least, a->days.most);
        plot_set_decade_tics(g, 'y', a->cost.least, a->cost.most);
    } else {
        plot_set_number_tics(g, 'x', a->days.least, a->days.most);
        plot_set_number_tics(g, 'y', a->cost.least, a->cost.most);
    }
    fprintf(g->script, "set xlabel '%s of the whole training'\nset ylabel '%s'\n", a->day_name,
            a->cost_name);
}

/* A dashed line with its name, and grey beyond it. Outside the picture it is only named. */
static void write_limit(struct gnuplot *g, struct arena *arena, bool vertical, double at,
                        struct extent range, const char *name) {
    if (!isfinite(at)) return;
    const bool inside = at > range.least && at < range.most;
    if (inside) {
        fprintf(g->script,
                vertical
                    ? "set object rectangle from first %.9g, graph 0 to graph 1, graph 1 behind "
                      "fc rgb '#F1F1F1' fs solid noborder\n"
                      "set arrow from first %.9g, graph 0 to first %.9g, graph 1 nohead dt 2 "
                      "lw 2 lc rgb '#000000'\n"
                    : "set object rectangle from graph 0, first %.9g to graph 1, graph 1 behind "
                      "fc rgb '#F1F1F1' fs solid noborder\n"
                      "set arrow from graph 0, first %.9g to graph 1, first %.9g nohead dt 2 "
                      "lw 2 lc rgb '#000000'\n",
                at, at, at);
    }
    const char *where = inside ? "" : at >= range.most ? ", all keep it" : ", none keeps it";
    fputs("set label ", g->script);
    gnuplot_text(g, arena_format(arena, "%s%s", name, where));
    if (vertical && inside)
        fprintf(g->script, " at first %.9g, graph 0.985 right offset -0.6,0 front\n", at);
    else if (vertical)
        fputs(" at graph 0.985, graph 0.985 right front\n", g->script);
    else if (inside)
        fprintf(g->script, " at graph 0.985, first %.9g right offset 0,0.6 front\n", at);
    else
        fputs(" at graph 0.985, graph 0.945 right front\n", g->script);
}

static void write_points(struct gnuplot *g, const struct axes *a, const struct plot_choice *points,
                         int64_t count) {
    for (int kind = 0; kind < KINDS; kind++) {
        fprintf(g->script, "$points%d << END\n", kind);
        for (int64_t i = 0; i < count; i++)
            if (points[i].done && (int)kind_of(points, count, i) == kind)
                fprintf(g->script, "%.9g %.9g\n", points[i].days * a->per_day,
                        plot_choice_cost(&points[i], a->priced) * a->per_cost);
        fputs("END\n", g->script);
    }
}

/* One that reaches ten times down or up is no stroke. */
static bool has_ends(struct band band) {
    return band.above > 0 && band.above < 9 && band.below < 0.9;
}

/* Its line, its points by kind and their bands; the numbers beside the listed ones. */
static void write_front(struct gnuplot *g, const struct axes *a, const struct numbered *choices,
                        int64_t front_count) {
    fputs("$front << END\n", g->script);
    for (int64_t i = 0; i < front_count; i++)
        fprintf(g->script, "%.9g %.9g %d\n", choices[i].point->days * a->per_day,
                choices[i].cost * a->per_cost, choices[i].point->raced ? RACED : REPLAYED);
    fputs("END\n$bands << END\n", g->script);
    for (int64_t i = 0; i < front_count; i++) {
        const struct band band = choices[i].point->band;
        const double x = choices[i].point->days * a->per_day, y = choices[i].cost * a->per_cost;
        if (has_ends(band))
            fprintf(g->script, "%.9g %.9g\n%.9g %.9g\n\n", x * (1 - band.below),
                    y * (1 - band.below), x * (1 + band.above), y * (1 + band.above));
    }
    fputs("END\n", g->script);
}

static void write_numbers(struct gnuplot *g, const struct axes *a, const struct numbered *choices,
                          int64_t count) {
    const int64_t listed = count < LISTED ? count : LISTED;
    double last_days = 0;
    bool below = false;
    for (int64_t k = 0; k < listed; k++) {
        const struct numbered *c = &choices[listed_index(k, listed, count)];
        below = c->front && c->point->days < 1.12 * last_days && !below;
        last_days = c->point->days;
        fprintf(g->script, "set label '%lld' at %.9g, %.9g center offset -1.3,%g front\n",
                (long long)(k + 1), c->point->days * a->per_day, c->cost * a->per_cost,
                below ? -0.9 : 0.9);
    }
}

struct tally {
    int64_t done, fitting, of_kind[KINDS];
    int64_t steps[KINDS]; /* of all points of the kind; 0: unknown or different */
    bool bands;
};

static struct tally take_tally(const struct plot_choice *points, int64_t count) {
    struct tally t = { 0 };
    for (int64_t i = 0; i < count; i++) {
        if (!points[i].done) continue;
        const enum kind kind = kind_of(points, count, i);
        t.done++;
        t.fitting += kind == RACED || kind == REPLAYED;
        t.steps[kind] =
            t.of_kind[kind]++ == 0 || t.steps[kind] == points[i].steps ? points[i].steps : 0;
        t.bands = t.bands || points[i].band.above > 0;
    }
    return t;
}

static const char *kind_title(struct arena *arena, const char *name, int64_t steps) {
    if (steps <= 0) return name;
    return arena_format(arena, "%s, %lld step%s", name, (long long)steps, steps == 1 ? "" : "s");
}

static void write_plot(struct gnuplot *g, struct arena *arena, const struct tally *t) {
    const double size = t->done > 200 ? 0.5 : 1;
    const char *separator = "plot ";
    /* Below the points: a wide one covers those beside it. */
    if (t->fitting > 0 && t->bands) {
        fprintf(g->script,
                "%s$bands with lines lw 6 lc rgb '#F3B38A' title 'error band: time and cost err "
                "alike'",
                separator);
        separator = ", ";
    }
    if (t->of_kind[OUT_OF_MEMORY] > 0) {
        fprintf(g->script,
                "%s$points%d with points pt 2 ps %g lw 1.2 lc rgb '#8A8A8A' title 'out of memory'",
                separator, OUT_OF_MEMORY, fmax(size, 0.8));
        separator = ", ";
    }
    if (t->of_kind[PARTIAL] > 0) {
        fprintf(
            g->script,
            "%s$points%d with points pt 1 ps %g lw 2 lc rgb '#8A8A8A' title 'leaves out samples "
            "that others train on'",
            separator, PARTIAL, fmax(size, 1));
        separator = ", ";
    }
    if (t->of_kind[RACED] > 0) {
        fprintf(g->script, "%s$points%d with points pt 7 ps %g lc rgb '#56B4E9' title '%s'",
                separator, RACED, size, kind_title(arena, "\xe2\x89\x88 raced", t->steps[RACED]));
        separator = ", ";
    }
    if (t->of_kind[REPLAYED] > 0)
        fprintf(g->script, "%s$points%d with points pt 5 ps %g lc rgb '#003C67' title '%s'",
                separator, REPLAYED, fmax(size, 1),
                t->of_kind[RACED] > 0 ? kind_title(arena, "replayed in full", t->steps[REPLAYED])
                                      : "fits");
    if (t->fitting == 0) {
        fputc('\n', g->script);
        return;
    }
    fprintf(
        g->script,
        ", $front with lines lw 2 lc rgb '#D55E00' notitle,"
        " $front using 1:($3 == %d ? $2 : NaN) with points pt 7 ps 2 lc rgb '#FFFFFF' notitle,"
        " $front using 1:($3 == %d ? $2 : NaN) with points pt 6 ps 1.8 lw 2.5 lc rgb '#D55E00' "
        "notitle,"
        " $front using 1:($3 == %d ? $2 : NaN) with points pt 5 ps 1.7 lc rgb '#D55E00' notitle,"
        " NaN with linespoints pt %d ps 1.7 lw 2 lc rgb '#D55E00' title 'nothing is both faster "
        "and cheaper'\n",
        RACED, RACED, REPLAYED, t->of_kind[REPLAYED] > 0 ? 5 : 6);
}

bool plot_pareto(const char *path, const char *title, const struct plot_choice *points,
                 int64_t count, const struct plot_limits *limits, struct error *err) {
    static const struct plot_limits none = { NAN, NAN };
    if (limits == NULL) limits = &none;
    const bool priced = plot_choices_priced(points, count);
    struct extent days = { INFINITY, 0 }, cost = { INFINITY, 0 };
    for (int64_t i = 0; i < count; i++) {
        if (!points[i].done) continue;
        include(&days, points[i].days);
        include(&cost, plot_choice_cost(&points[i], priced));
    }
    const struct tally tally = take_tally(points, count);
    if (tally.done == 0) return error_set(err, "there is nothing to draw: no run has finished");
    struct arena *arena = arena_create();
    struct numbered *choices = arena_array(arena, struct numbered, count);
    int64_t front_count;
    const int64_t shown =
        collect(points, count, priced, tally.fitting <= LISTED, choices, &front_count);
    for (int64_t i = 0; i < front_count; i++) {
        const struct band band = choices[i].point->band;
        if (!has_ends(band)) continue;
        for (int end = 0; end < 2; end++) {
            const double part = end == 0 ? 1 - band.below : 1 + band.above;
            include(&days, choices[i].point->days * part);
            include(&cost, choices[i].cost * part);
        }
    }
    const double typical_days =
        front_count > 0 ? sqrt(choices[0].point->days * choices[front_count - 1].point->days)
                        : days.most;
    const struct axes axes = make_axes(days, cost, typical_days, priced, limits);
    const struct list *list = make_list(arena, choices, shown, front_count, limits, &axes);
    const double height = fmax(800, list_pixels(list) + 60);
    struct gnuplot g;
    const bool begun = gnuplot_begin(&g, path, WIDTH, height, err);
    if (begun) {
        write_points(&g, &axes, points, count);
        write_front(&g, &axes, choices, front_count);
        plot_set_style(&g);
        plot_set_text(&g, "title", title);
        write_axes(&g, &axes);
        write_limit(
            &g, arena, true, limits->deadline_days * axes.per_day, axes.days,
            arena_format(arena, "deadline %s", time_text(arena, &axes, limits->deadline_days)));
        if (priced)
            write_limit(
                &g, arena, false, limits->budget_usd, axes.cost,
                arena_format(arena, "budget %s", cost_text(arena, &axes, limits->budget_usd)));
        fputs("set bmargin 8\nset rmargin at screen 0.7\n"
              "set key outside bottom center horizontal Left reverse\n",
              g.script);
        write_numbers(&g, &axes, choices, shown);
        write_list(&g, list, height);
        write_plot(&g, arena, &tally);
    }
    arena_destroy(arena);
    return begun && gnuplot_end(&g, err);
}
