/* plot_heatmap.c - the best value over two fields of a sweep. Dark is dear; lightness falls evenly, so
 * that the order survives a grey print, and each cell says its value.
 */
#include <math.h>
#include <string.h>
#include "results/plot_style.h"

static const struct plot_cell *cell_at(const struct plot_heatmap *map, int64_t x, int64_t y) {
    return &map->cells[y * PLOT_HEATMAP_LIMIT + x];
}

static void write_axis(struct gnuplot *g, const char *axis, const char *const *names, int64_t count,
                       const char *turn) {
    fprintf(g->script, "set %stics %s (", axis, turn);
    for (int64_t i = 0; i < count; i++) {
        gnuplot_tic_text(g, names[i]);
        fprintf(g->script, " %d%s", (int)i, i + 1 < count ? ", " : ")\n");
    }
}

bool plot_heatmap(const char *path, const struct plot_heatmap *map, struct error *err) {
    double least = INFINITY, most = -INFINITY;
    size_t longest = 0;
    for (int64_t x = 0; x < map->x_count; x++) {
        if (strlen(map->x_names[x]) > longest) longest = strlen(map->x_names[x]);
        for (int64_t y = 0; y < map->y_count; y++) {
            const double value = cell_at(map, x, y)->value;
            if (cell_at(map, x, y)->points == 0 || !isfinite(value)) continue;
            least = fmin(least, value);
            most = fmax(most, value);
        }
    }
    if (!isfinite(least))
        return error_set(err, "there is nothing to draw: no configuration fits in memory");
    struct gnuplot g;
    const double width = 420 + 110 * (double)map->x_count, height = 260 + 60 * (double)map->y_count;
    if (!gnuplot_begin(&g, path, fmin(fmax(width, 900), 2400), fmin(height, 1800), err))
        return false;
    fputs("$cells << END\n", g.script);
    for (int64_t y = 0; y < map->y_count; y++)
        for (int64_t x = 0; x < map->x_count; x++) {
            const struct plot_cell *cell = cell_at(map, x, y);
            if (cell->points > 0 && isfinite(cell->value))
                fprintf(g.script, "%d %d %.9g\n", (int)x, (int)y, cell->value);
        }
    fputs("END\n$none << END\n", g.script);
    for (int64_t y = 0; y < map->y_count; y++)
        for (int64_t x = 0; x < map->x_count; x++) {
            const struct plot_cell *cell = cell_at(map, x, y);
            if (cell->points > 0 && !isfinite(cell->value))
                fprintf(g.script, "%d %d\n", (int)x, (int)y);
        }
    fputs("END\n", g.script);
    plot_set_style(&g);
    plot_set_text(&g, "title", map->title);
    plot_set_text(&g, "xlabel", map->x_label);
    plot_set_text(&g, "ylabel", map->y_label);
    write_axis(&g, "x", map->x_names, map->x_count, longest > 12 ? "rotate by -20" : "");
    write_axis(&g, "y", map->y_names, map->y_count, "");
    fprintf(g.script,
            "set xrange [-0.5:%g]\nset yrange [-0.5:%g]\nunset grid\n"
            "set palette defined (0 '#FDE725', 0.25 '#5EC962', 0.5 '#21918C', 0.75 '#3B528B', 1 "
            "'#440154')\nset cbrange [%.9g:%.9g]\nset cblabel 'least cost (%s)'\n"
            "set key outside bottom center horizontal\n",
            (double)map->x_count - 0.5, (double)map->y_count - 0.5, least,
            most > least ? most : least + fmax(fabs(least), 1) * 0.01, map->unit);
    for (int64_t y = 0; y < map->y_count; y++)
        for (int64_t x = 0; x < map->x_count; x++) {
            const struct plot_cell *cell = cell_at(map, x, y);
            if (cell->points == 0 || !isfinite(cell->value)) continue;
            const bool dark = most > least && (cell->value - least) / (most - least) > 0.45;
            fprintf(g.script, "set label '%.4g%s' at %d,%d center front tc rgb '%s'\n", cell->value,
                    cell->value == least ? " (best)" : "", (int)x, (int)y,
                    dark ? "#FFFFFF" : "#000000");
        }
    fputs("plot $cells using 1:2:($1-0.48):($1+0.48):($2-0.46):($2+0.46):3 with boxxyerror lc "
          "palette "
          "fs solid 1.0 noborder notitle,"
          " $none using 1:2 with points pt 2 ps 2 lw 2 lc rgb '#8A8A8A' title 'nothing fits in "
          "memory'\n",
          g.script);
    return gnuplot_end(&g, err);
}
