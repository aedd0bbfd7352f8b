/* plot_scaling.c - what more GPUs bring: how long the whole training takes, and what it costs. A
 * curve for each job, since time and cost of different models or data do not compare, and for each
 * kind of GPU, of which the fastest alone is not what would be bought more of. Doubling the GPUs
 * halves the time at the same cost where nothing is lost. Of more curves than the key has room for
 * the first by name are drawn, and the picture says so.
 */
#include <math.h>
#include <stdlib.h>
#include <string.h>
#include "results/plot_style.h"
#include "sim/base/amount.h"

enum { CURVES_MAX = 6, NAMED_POINTS = 10 };

static const char *kind_of(const struct plot_choice *point) {
    return point->kind != NULL ? point->kind : "";
}

/* Of one curve: the same job on the same kind of GPU. */
static int compare_curves(const struct plot_choice *x, const struct plot_choice *y) {
    const int job = strcmp(x->job, y->job);
    return job != 0 ? job : strcmp(kind_of(x), kind_of(y));
}

static int by_job_and_gpus(const void *a, const void *b) {
    const struct plot_choice *x = *(const struct plot_choice *const *)a,
                             *y = *(const struct plot_choice *const *)b;
    const int curve = compare_curves(x, y);
    if (curve != 0) return curve;
    if (x->gpu_count != y->gpu_count) return x->gpu_count < y->gpu_count ? -1 : 1;
    return (x->days > y->days) - (x->days < y->days);
}

/* The fastest fitting point that leaves nothing out, of each job, kind and number of GPUs, curve by
 * curve. */
static int64_t collect(const struct plot_choice *points, int64_t count,
                       const struct plot_choice **best) {
    int64_t found = 0, kept = 0;
    for (int64_t i = 0; i < count; i++)
        if (points[i].done && !points[i].out_of_memory && !plot_choice_is_partial(points, count, i))
            best[found++] = &points[i];
    qsort(best, (size_t)found, sizeof *best, by_job_and_gpus);
    for (int64_t i = 0; i < found; i++)
        if (kept == 0 || compare_curves(best[kept - 1], best[i]) != 0 ||
            best[kept - 1]->gpu_count != best[i]->gpu_count)
            best[kept++] = best[i];
    return kept;
}

struct curve {
    int64_t begin, end; /* in the collected points */
};

/* Those with two numbers of GPUs at least; of more than CURVES_MAX the first. */
static int64_t find_curves(const struct plot_choice *const *best, int64_t count,
                           struct curve curves[CURVES_MAX]) {
    int64_t found = 0;
    for (int64_t i = 0; i < count;) {
        int64_t end = i + 1;
        while (end < count && compare_curves(best[end], best[i]) == 0)
            end++;
        if (end - i >= 2 && found++ < CURVES_MAX) curves[found - 1] = (struct curve){ i, end };
        i = end;
    }
    return found;
}

/* Of a GPU, in percent of the first point's. */
static double throughput(const struct plot_choice *first, const struct plot_choice *p) {
    return first->days * (double)first->gpu_count / (p->days * (double)p->gpu_count) * 100;
}

struct extent {
    double least, most;
};

/* Of its days. A logarithmic axis has no room for nothing. */
static struct extent band_ends(const struct plot_choice *p) {
    const struct band band = band_is_known(p->band) ? p->band : band_even(0);
    return (struct extent){ p->days * fmax(1 - band.below, 0.01), p->days * (1 + band.above) };
}

/* Of each point: GPUs, time, cost, ends of the band, throughput of a GPU against the first. */
static void write_curve(struct gnuplot *g, int number, const struct plot_choice *const *best,
                        struct curve curve, double per_day, bool priced) {
    const struct plot_choice *first = best[curve.begin];
    fprintf(g->script, "$curve%d << END\n", number);
    for (int64_t i = curve.begin; i < curve.end; i++) {
        const struct plot_choice *p = best[i];
        const struct extent ends = band_ends(p);
        fprintf(g->script, "%lld %.9g %.9g %.9g %.9g %.9g\n", (long long)p->gpu_count,
                p->days * per_day, plot_choice_cost(p, priced), ends.least * per_day,
                ends.most * per_day, throughput(first, p));
    }
    fputs("END\n", g->script);
}

/* Which layout is the fastest there, where one curve leaves the room; what all have in common
 * stands below the title. */
static void write_names(struct gnuplot *g, struct arena *arena,
                        const struct plot_choice *const *best, struct curve curve, double per_day) {
    if (curve.end - curve.begin > NAMED_POINTS) return;
    const char *texts[NAMED_POINTS], *shared;
    enum { LONGEST = 38, LONGEST_SHARED = 150 };
    char name[LONGEST_SHARED];
    plot_choice_differences(best + curve.begin, curve.end - curve.begin, arena, texts, &shared);
    if (shared[0] != '\0') {
        fputs("set label ", g->script);
        gnuplot_text(g, plot_cut(name, sizeof name, shared, LONGEST_SHARED));
        fputs(" at screen 0.5, screen 0.935 center tc rgb '#555555'\n", g->script);
    }
    for (int64_t i = curve.begin; i < curve.end; i++) {
        const bool leftward = 2 * (i - curve.begin + 1) > curve.end - curve.begin;
        const char *text = arena_format(arena, "%s%s", best[i]->raced ? "\xe2\x89\x88 " : "",
                                        texts[i - curve.begin]);
        fputs("set label ", g->script);
        gnuplot_text(g, plot_cut(name, sizeof name, text, LONGEST));
        fprintf(g->script, " at %lld, %.9g %s offset %s front\n", (long long)best[i]->gpu_count,
                best[i]->days * per_day, leftward ? "right" : "left",
                leftward ? "-1,-0.7" : "1,0.6");
    }
}

/* What sets a curve apart from the others. */
static const char *curve_name(struct arena *arena, const struct plot_choice *const *best,
                              const struct curve *curves, int curve_count, int curve) {
    const struct plot_choice *own = best[curves[curve].begin];
    bool jobs = false, kinds = false;
    for (int c = 0; c < curve_count; c++) {
        jobs = jobs || strcmp(best[curves[c].begin]->job, own->job) != 0;
        kinds = kinds || strcmp(kind_of(best[curves[c].begin]), kind_of(own)) != 0;
    }
    if (!kinds) return own->job;
    return jobs ? arena_format(arena, "%s, %s", own->job, kind_of(own)) : kind_of(own);
}

static void write_left_out(struct gnuplot *g, struct arena *arena, int64_t found) {
    fputs("set label ", g->script);
    gnuplot_text(g, arena_format(arena,
                                 "%d of %ld curves, the first by model, data set and kind of GPU: "
                                 "name the runs to draw",
                                 CURVES_MAX, (long)found));
    fputs(" at screen 0.5, screen 0.935 center tc rgb '#555555'\n", g->script);
}

static void write_gpu_tics(struct gnuplot *g, const struct plot_choice *const *best,
                           int64_t count) {
    fputs("set logscale x 2\nset xlabel 'GPUs'\nset xtics (", g->script);
    int64_t least = INT64_MAX, most = 0;
    for (int64_t i = 0; i < count; i++) {
        const int64_t gpus = best[i]->gpu_count;
        bool new = true;
        for (int64_t k = 0; k < i; k++)
            new = new &&best[k]->gpu_count != gpus;
        least = gpus < least ? gpus : least;
        most = gpus > most ? gpus : most;
        if (new)
            fprintf(g->script, "%s'%lld' %lld", i > 0 ? ", " : "", (long long)gpus,
                    (long long)gpus);
    }
    fprintf(g->script, ")\nset xrange [%g:%g]\n", (double)least / 1.5, (double)most * 1.4);
}

static void draw_time(struct gnuplot *g, struct arena *arena, const struct plot_choice *const *best,
                      const struct curve *curves, int curve_count, const struct amount_unit *time) {
    const struct plot_choice *first = best[curves[0].begin];
    bool raced = false;
    for (int64_t i = curves[0].begin; i < curves[0].end; i++)
        raced = raced || best[i]->raced;
    fprintf(g->script, "set logscale y\nset ylabel '%s of the whole training'\n", time->name);
    for (int c = 0; c < curve_count; c++) {
        const char *color = plot_colors[c % PLOT_COLOR_COUNT];
        fprintf(g->script,
                "%s$curve%d using 1:2:4:5 with yerrorbars pt %d ps 1.2 lw 1.5 lc rgb '%s' title ",
                c == 0 ? "plot " : ", ", c, 4 + 2 * c + 1, color);
        gnuplot_text(
            g, curve_count > 1 ? curve_name(arena, best, curves, curve_count, c)
               : raced ? "fastest layout, with its error band (\xe2\x89\x88 raced on a step or two)"
                       : "fastest layout, with its error band");
        fprintf(g->script, ", $curve%d using 1:2 with lines lw 2 dt %d lc rgb '%s' notitle", c,
                c + 1, color);
    }
    if (curve_count == 1)
        fprintf(
            g->script,
            ", %.9g / x with lines lc rgb '#7F7F7F' dt 2 lw 2 title 'in proportion to the first'",
            first->days * time->per_day * (double)first->gpu_count);
    fputc('\n', g->script);
}

/* What is lost, in percent, and of one job what it costs; with several kinds of GPU the cost
 * alone. */
static void draw_cost(struct gnuplot *g, int curve_count, bool one_job, bool priced, double dearest,
                      double highest) {
    static const char losses[] = "throughput of a GPU against the first (%)";
    fputs("unset label\nunset logscale y\nset ytics autofreq\n", g->script);
    const char *cost =
        priced ? "money of the whole training (USD)" : "GPU-days of the whole training";
    if (one_job) {
        fprintf(g->script, "set yrange [0:%.9g]\n", dearest * 1.1);
        plot_set_number_tics(g, 'y', 0, dearest * 1.1);
    }
    if (curve_count > 1) {
        if (one_job)
            fprintf(g->script, "set ylabel '%s'\n", cost);
        else
            fprintf(g->script, "set ylabel '%s'\nset yrange [0:%.9g]\n", losses, highest * 1.1);
        for (int c = 0; c < curve_count; c++)
            fprintf(g->script,
                    "%s$curve%d using 1:%d with linespoints pt %d ps 1.2 lw 2 dt %d lc rgb '%s' "
                    "notitle",
                    c == 0 ? "plot " : ", ", c, one_job ? 3 : 6, 4 + 2 * c + 1, c + 1,
                    plot_colors[c % PLOT_COLOR_COUNT]);
        fputc('\n', g->script);
        return;
    }
    fprintf(g->script,
            "set ylabel '%s'\nset y2label '%s'\nset y2range [0:%.9g]\n"
            "set y2tics\nset border 11\n"
            "plot $curve0 using 1:3 with linespoints pt 7 ps 1.2 lw 2 lc rgb '#D55E00' title '%s',"
            " $curve0 using 1:6 axes x1y2 with linespoints pt 5 ps 1.1 lw 2 dt 2 lc rgb '#0072B2'"
            " title 'throughput of a GPU'\n",
            cost, losses, highest * 1.1, priced ? "money" : "GPU-days");
}

bool plot_scaling(const char *path, const char *title, const struct plot_choice *points,
                  int64_t count, struct error *err) {
    const bool priced = plot_choices_priced(points, count);
    struct arena *arena = arena_create();
    const struct plot_choice **best = arena_array(arena, const struct plot_choice *, count + 1);
    const int64_t kept = collect(points, count, best);
    struct curve curves[CURVES_MAX];
    const int64_t found = find_curves(best, kept, curves);
    const int curve_count = found < CURVES_MAX ? (int)found : CURVES_MAX;
    struct gnuplot g;
    bool ok = curve_count > 0;
    if (!ok) {
        error_set(err,
                  "a scaling curve needs finished runs of one model and data set that fit on at "
                  "least two GPU counts");
        error_hint(err, "run the scenario with several --set cluster.gpu_count=N");
    }
    if (!ok || !gnuplot_begin(&g, path, 1640, 700, err)) {
        arena_destroy(arena);
        return false;
    }
    double longest = 0, shortest = INFINITY, dearest = 0, highest = 100;
    struct extent bands = { INFINITY, 0 };
    for (int c = 0; c < curve_count; c++)
        for (int64_t i = curves[c].begin; i < curves[c].end; i++) {
            longest = fmax(longest, best[i]->days);
            shortest = fmin(shortest, best[i]->days);
            const struct extent ends = band_ends(best[i]);
            bands.least = fmin(bands.least, ends.least);
            bands.most = fmax(bands.most, ends.most);
            dearest = fmax(dearest, plot_choice_cost(best[i], priced));
            highest = fmax(highest, throughput(best[curves[c].begin], best[i]));
        }
    const struct amount_unit time = amount_of_days(sqrt(longest * shortest));
    for (int c = 0; c < curve_count; c++)
        write_curve(&g, c, best, curves[c], time.per_day, priced);
    plot_set_style(&g);
    fputs("set multiplot layout 1,2 title ", g.script);
    gnuplot_text(&g, title);
    fputc('\n', g.script);
    write_gpu_tics(&g, best, kept);
    if (found > curve_count) write_left_out(&g, arena, found);
    if (curve_count == 1) write_names(&g, arena, best, curves[0], time.per_day);
    /* Bands that end within ten times of the curves are seen whole. */
    const double low = fmin(shortest / 1.6, fmax(bands.least / 1.1, shortest / 10)) * time.per_day,
                 high = fmax(longest * 1.6, fmin(bands.most * 1.1, longest * 10)) * time.per_day;
    fprintf(g.script,
            "set bmargin 6\nset tmargin 4\nset key outside bottom center horizontal Left "
            "reverse\nset yrange "
            "[%.9g:%.9g]\n",
            low, high);
    plot_set_decade_tics(&g, 'y', low, high);
    draw_time(&g, arena, best, curves, curve_count, &time);
    bool one_job = true;
    for (int c = 1; c < curve_count; c++)
        one_job = one_job && strcmp(best[curves[c].begin]->job, best[curves[0].begin]->job) == 0;
    draw_cost(&g, curve_count, one_job, priced, dearest, highest);
    fputs("unset multiplot\n", g.script);
    arena_destroy(arena);
    return gnuplot_end(&g, err);
}
