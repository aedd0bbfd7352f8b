/* plot_convergence.c - how a packing policy settles with the number of its passes. */
#include "results/gnuplot.h"
#include "results/plot.h"

bool plot_convergence(const char *path, const char *title, const struct plot_pass *passes,
                      int64_t count, struct error *err) {
    if (count == 0) return error_set(err, "there is nothing to draw: no passes");
    struct gnuplot g;
    if (!gnuplot_begin(&g, path, 1200, 700, err)) return false;
    fputs("$passes << END\n", g.script);
    for (int64_t i = 0; i < count; i++)
        fprintf(g.script, "%ld %.9g %.9g %.9g\n", (long)passes[i].pass_count,
                passes[i].dist_ratio_vision, passes[i].dist_ratio_language,
                passes[i].average_batch_size);
    fputs("END\nset border 11 lw 1\nset tics nomirror out\n"
          "set grid lc rgb '#d8d8d8' lw 1 lt 1\nset title ",
          g.script);
    gnuplot_text(&g, title);
    fprintf(g.script,
            "\nset xlabel 'sampling passes'\nset ylabel 'dist ratio'\nset format y '%%.2f'\nset "
            "format y2 '%%.2f'\nset yrange [0:*]\n"
            "set y2label 'samples in a group, mean'\nset y2tics\nset xrange [%g:%g]\n"
            "set xtics %d\nset key above horizontal Left reverse width 2\n"
            "plot $passes using 1:2 with linespoints pt 7 lw 2.5 lc rgb '#0072B2' "
            "title 'vision', $passes using 1:3 with linespoints pt 5 lw 2.5 lc rgb '#D55E00' "
            "title 'language', $passes using 1:4 axes x1y2 with linespoints pt 9 lw 1.5 dt 2 "
            "lc rgb '#4D4D4D' title 'samples in a group (right axis)'\n",
            (double)passes[0].pass_count - 0.5, (double)passes[count - 1].pass_count + 0.5,
            passes[count - 1].pass_count > 20 ? 5 : 1);
    return gnuplot_end(&g, err);
}
