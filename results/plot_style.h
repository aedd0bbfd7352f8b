/* plot_style.h - what the pictures share; between plot_*.c only.
 */
#ifndef BALLAST_RESULTS_PLOT_STYLE_H
#define BALLAST_RESULTS_PLOT_STYLE_H

#include "results/gnuplot.h"
#include "results/plot.h"

enum { PLOT_COLOR_COUNT = 8, PLOT_BINS = 60 };
extern const char *const plot_colors[PLOT_COLOR_COUNT];

/* set `what` 'text'; `text` has no special meaning to gnuplot. */
void plot_set_text(struct gnuplot *g, const char *what, const char *text);
void plot_set_style(struct gnuplot *g);
/* 10,482; 482; 48.2; 4.82; 0.482: three digits at least, never an exponent. */
enum { PLOT_NUMBER_SIZE = 48 };
const char *plot_number(char text[PLOT_NUMBER_SIZE], double value);
const char *plot_fixed(char text[PLOT_NUMBER_SIZE], double value, int decimals); /* 10,482.50 */
/* The text, or what `longest` bytes hold of it with "..." at the end; a character is never cut. */
const char *plot_cut(char *out, size_t size, const char *text, size_t longest);
/* Tics at 1, 2 and 5 of each decade: gnuplot names the decades only. */
void plot_set_decade_tics(struct gnuplot *g, char axis, double low, double high);
/* About six round tics, all with as many decimals and none with an exponent. */
void plot_set_number_tics(struct gnuplot *g, char axis, double low, double high);
/* Nanoseconds of one unit of the axis: seconds for long pictures, so that an axis never shows more
 * than five digits. */
double plot_time_scale(int64_t longest_ns, const char **unit);
/* "there is nothing to draw: the run has no `what`"; false. */
bool plot_nothing(struct error *err, const char *what);

struct plot_histogram_bins {
    double low, width; /* of the first bin; of each bin */
    int64_t counts[PLOT_BINS];
    int64_t bin_count;
};
/* Bins of whole numbers when the values are counts. */
struct plot_histogram_bins plot_histogram(const double *sorted, int64_t count, bool whole);
int plot_compare_doubles(const void *a, const void *b);
/* As `ballast run` counts percentiles: linear between the two values beside (n - 1) fraction. */
double plot_quantile(const double *sorted, int64_t count, double fraction);
/* A round distance between tics that gives about `wanted` of them. */
double plot_tic_step(double range, double wanted);

#endif
