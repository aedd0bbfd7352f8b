/* gnuplot.h - a gnuplot script under construction, and gnuplot run on it.
 *
 * The script goes to gnuplot's standard input and the picture comes from its standard output, so
 * that no name or title passes through a shell or needs more than gnuplot's own quotes.
 *
 *     struct gnuplot g;
 *     if (!gnuplot_begin(&g, "steps.png", 1200, 700, err)) return false;
 *     fprintf(g.script, "set title "); gnuplot_text(&g, title); ...
 *     return gnuplot_end(&g, err);
 */
#ifndef BALLAST_RESULTS_GNUPLOT_H
#define BALLAST_RESULTS_GNUPLOT_H

#include <stdbool.h>
#include <stdio.h>
#include "sim/base/error.h"

struct gnuplot {
    FILE *script;
    const char *path;      /* borrowed */
    double font_per_pixel; /* the unit in which the terminal counts font sizes */
};
enum { GNUPLOT_FONT_PIXELS = 17 }; /* of text without a font of its own */

/* Whether a picture can be put there, to be asked before the work that it shows. */
bool gnuplot_check(const char *path, struct error *err);
/* Opens the script and chooses the terminal by the extension of path. The size is in pixels of a
 * screen with 96 a inch. */
bool gnuplot_begin(struct gnuplot *gnuplot, const char *path, double width, double height,
                   struct error *err);
/* Draws and closes. The file at path is replaced only by a complete picture; what is no file
 * (a device, a pipe) is not replaced. */
bool gnuplot_end(struct gnuplot *gnuplot, struct error *err);
/* Writes a quoted string in which nothing has a special meaning. */
void gnuplot_text(struct gnuplot *gnuplot, const char *text);
/* The same for the name of a tic, which gnuplot would read as a printf format. */
void gnuplot_tic_text(struct gnuplot *gnuplot, const char *text);

#endif
