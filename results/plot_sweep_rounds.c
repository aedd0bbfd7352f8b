/* plot_sweep_rounds.c - how a sweep advanced: the least cost so far above, what became of the
 * configurations below, over the same count. */
#include "results/plot_style.h"

#include <math.h>

static void write_best(struct gnuplot *g, const struct sweep_round_record *last) {
    const bool money = !isnan(last->best_money_usd);
    const double least = money ? last->best_money_usd : last->best_gpu_days;
    fprintf(g->script,
            "set lmargin at screen 0.09\nset rmargin at screen 0.78\nset tmargin at screen 0.88\n"
            "set bmargin at screen 0.56\nset format x ''\nset ylabel '%s'\nset yrange [*:*]\n"
            "set offsets 0, 0, graph 0.1, graph 0.1\nunset key\n"
            "set label 1 \"least so far: %.4g\\n(of races, before replays)\" "
            "at graph 1.02, first %.9g tc rgb '#003C67'\n"
            "plot $rounds using 1:%d with steps lw 2.5 lc rgb '#003C67'\n"
            "unset label 1\nset offsets 0, 0, 0, 0\n",
            money ? "money (USD)" : "GPU-days", least, least, money ? 5 : 6);
}

/* Each part's name stands beside its band at the right end; thin bands share one line of text. */
static void write_counts(struct gnuplot *g, const struct sweep_round_record *last) {
    const double raced = (double)last->raced_count, pruned = (double)last->pruned_count,
                 rejected = (double)last->rejected_count;
    const double top = raced + pruned + rejected, apart = top * 0.12;
    const double at_raced = fmax(raced / 2, apart / 2);
    const double at_pruned = fmax(raced + pruned / 2, at_raced + apart);
    const double at_rejected = fmax(raced + pruned + rejected / 2, at_pruned + apart);
    fprintf(g->script,
            "set tmargin at screen 0.50\nset bmargin at screen 0.12\nset format x '%%.0f'\n"
            "set xlabel 'configurations looked at'\nset ylabel 'configurations'\n"
            "set yrange [0:%.9g]\n"
            "set label 2 'raced %.0f' at graph 1.02, first %.9g tc rgb '#0072B2'\n"
            "set label 3 'pruned %.0f' at graph 1.02, first %.9g tc rgb '#B35900'\n"
            "set label 4 'rejected %.0f' at graph 1.02, first %.9g tc rgb '#4D4D4D'\n"
            "plot $rounds using 1:4 with filledcurves y1=0 fs solid 1.0 lc rgb '#D0D0D0',"
            " $rounds using 1:3 with filledcurves y1=0 fs solid 1.0 lc rgb '#E69F00',"
            " $rounds using 1:2 with filledcurves y1=0 fs solid 1.0 lc rgb '#0072B2'\n"
            "unset multiplot\n",
            fmax(top, at_rejected + apart / 2), raced, at_raced, pruned, at_pruned, rejected,
            at_rejected);
}

bool plot_sweep_rounds(const char *path, const char *sweep, const struct sweep_round_record *rounds,
                       int64_t count, struct error *err) {
    if (count == 0) return plot_nothing(err, "rounds of a sweep");
    struct gnuplot g;
    if (!gnuplot_begin(&g, path, 1400, 800, err)) return false;
    fputs("$rounds << END\n0 0 0 0 nan nan\n", g.script);
    for (int64_t i = 0; i < count; i++) {
        const struct sweep_round_record *r = &rounds[i];
        fprintf(g.script, "%ld %ld %ld %ld %.9g %.9g\n", (long)r->configuration_count,
                (long)r->raced_count, (long)(r->raced_count + r->pruned_count),
                (long)(r->raced_count + r->pruned_count + r->rejected_count), r->best_money_usd,
                r->best_gpu_days);
    }
    fputs("END\n", g.script);
    plot_set_style(&g);
    const struct sweep_round_record *last = &rounds[count - 1];
    fputs("set multiplot title ", g.script);
    char text[512];
    snprintf(text, sizeof text, "%s: %ld configurations in %ld round%s", sweep,
             (long)last->configuration_count, (long)count, count == 1 ? "" : "s");
    gnuplot_text(&g, text);
    fprintf(g.script, "\nset xrange [0:%ld]\n", (long)last->configuration_count);
    if (!isnan(last->best_gpu_days)) write_best(&g, last);
    write_counts(&g, last);
    return gnuplot_end(&g, err);
}
