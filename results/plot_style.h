/* plot_style.h - what all pictures share. Inside results only. */
#ifndef BALLAST_RESULTS_PLOT_STYLE_H
#define BALLAST_RESULTS_PLOT_STYLE_H

#include "results/gnuplot.h"

/* Okabe and Ito's (2008), chosen for colour-blind eyes. */
enum { PLOT_COLOR_COUNT = 8 };
extern const char *const plot_colors[PLOT_COLOR_COUNT];

/* "set <what> '<text>'": title, xlabel and the like. */
void plot_set_text(struct gnuplot *g, const char *what, const char *text);
void plot_set_style(struct gnuplot *g);

#endif
