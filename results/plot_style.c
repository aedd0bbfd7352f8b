/* plot_style.c - colours, grid and texts of every picture. */
#include "results/plot_style.h"

const char *const plot_colors[PLOT_COLOR_COUNT] = { "#0072B2", "#E69F00", "#009E73", "#CC79A7",
                                                    "#56B4E9", "#D55E00", "#000000", "#B3A800" };

void plot_set_text(struct gnuplot *g, const char *what, const char *text) {
    fprintf(g->script, "set %s ", what);
    gnuplot_text(g, text);
    fputc('\n', g->script);
}

void plot_set_style(struct gnuplot *g) {
    fputs("set border 3 lw 1\nset tics nomirror out\nset grid lc rgb '#d8d8d8' lw 1 lt 1\n"
          "set style fill solid 1.0 noborder\n",
          g->script);
}
