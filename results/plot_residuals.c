/* plot_residuals.c - predicted against measured, one point a stored value, by hardware. */
#include <math.h>
#include <stdlib.h>
#include <string.h>
#include "results/plot_style.h"
#include "sim/base/arena.h"
#include "sim/base/band.h"

/* Hardware in the order of its first value. */
static int64_t find_groups(const struct validation_record *rows, int64_t count,
                           const char **groups) {
    int64_t found = 0;
    for (int64_t i = 0; i < count; i++) {
        if (!isfinite(rows[i].predicted_value)) continue;
        int64_t k = 0;
        while (k < found && strcmp(groups[k], rows[i].hardware) != 0)
            k++;
        if (k == found) groups[found++] = rows[i].hardware;
    }
    return found;
}

bool plot_residuals(const char *path, const char *title, const struct validation_record *rows,
                    int64_t count, struct error *err) {
    struct arena *arena = arena_create();
    const char **groups = arena_array(arena, const char *, count + 1);
    const int64_t group_count = find_groups(rows, count, groups);
    struct gnuplot g;
    bool ok = group_count > 0;
    if (!ok) {
        error_set(err, "there is nothing to draw: none of the measured runs could be simulated");
        error_hint(err, "ballast validate says why");
    }
    if (!ok || !gnuplot_begin(&g, path, 1400, 750, err)) {
        arena_destroy(arena);
        return false;
    }
    for (int64_t k = 0; k < group_count; k++)
        for (int fitted = 0; fitted < 2; fitted++) {
            fprintf(g.script, "$r%d_%d << END\n", (int)k, fitted);
            for (int64_t i = 0; i < count; i++) {
                const struct validation_record *row = &rows[i];
                if (!isfinite(row->predicted_value) || strcmp(row->hardware, groups[k]) != 0 ||
                    (strcmp(row->role, "fitted") == 0) != (fitted == 1))
                    continue;
                const double error = row->predicted_value / row->measured_value - 1;
                struct band band = band_of_stored(row->band_below_fraction, row->band_fraction);
                if (!band_is_known(band)) band = band_even(0);
                const double ratio = row->predicted_value / row->measured_value;
                fprintf(g.script, "%d %.9g %.9g %.9g\n", (int)i, error * 100,
                        (error - band.below * ratio) * 100, (error + band.above * ratio) * 100);
            }
            fputs("END\n", g.script);
        }
    plot_set_style(&g);
    plot_set_text(&g, "title", title);
    fprintf(
        g.script,
        "set ylabel 'predicted against measured (%%)'\nset xlabel 'measured value, in the order of "
        "its file'\nset xrange [-1:%d]\nset key outside right top Left reverse\n"
        "set object rectangle from graph 0, first -10 to graph 1, first 10 behind fc rgb '#E8F1F8'"
        " fs solid noborder\n"
        "set arrow from graph 0, first 0 to graph 1, first 0 nohead back lc rgb '#000000' lw 1.5\n",
        (int)count);
    /* Rows are counted: no tick stands between two. */
    if (count <= 10) fputs("set xtics 1\n", g.script);
    static const int shapes[] = { 7, 5, 9, 13, 11, 3, 2, 1 };
    const char *separator = "plot NaN with lines lw 12 lc rgb '#C9DDEE' title 'within 10 %', ";
    for (int64_t k = 0; k < group_count; k++)
        for (int fitted = 0; fitted < 2; fitted++) {
            bool any = false;
            for (int64_t i = 0; i < count; i++)
                any = any || (isfinite(rows[i].predicted_value) &&
                              strcmp(rows[i].hardware, groups[k]) == 0 &&
                              (strcmp(rows[i].role, "fitted") == 0) == (fitted == 1));
            if (!any) continue;
            fprintf(g.script, "%s$r%d_%d with yerrorbars pt %d ps 1.1 lw 1.3 lc rgb '%s' title ",
                    separator, (int)k, fitted, fitted ? 6 : shapes[k % 8],
                    plot_colors[k % PLOT_COLOR_COUNT]);
            gnuplot_text(&g, arena_format(arena, "%s%s",
                                          groups[k][0] != '\0' ? groups[k] : "hardware not said",
                                          fitted ? " (fitted)" : ""));
            separator = ", ";
        }
    fputc('\n', g.script);
    arena_destroy(arena);
    return gnuplot_end(&g, err);
}
