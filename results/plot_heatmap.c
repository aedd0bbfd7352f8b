/* plot_heatmap.c - the best value over two fields of a sweep. Dark is dear; lightness falls evenly,
 * so that the order survives a grey print, and each cell says its value. What rests on a race alone
 * is marked with a sign, what was replayed with a frame. Values that spread over more than SPREAD
 * get a logarithmic scale: one dear corner does not make all others alike.
 */
#include <math.h>
#include <string.h>
#include "results/plot_style.h"

#define SPREAD 5

enum { TOP_PIXELS = 84, RIGHT_PIXELS = 150, BAR_PIXELS = 26, SIGN_PIXELS = 27, LONGEST_NAME = 60 };

/* Widths of characters of the usual size, about: names of tics are turned or given room by them. */
#define NAME_PIXELS 9.5
/* What a turned name takes of its length beside and below its tic. */
#define TURN_DEGREES 20
#define TURN_SIDE 0.94
#define TURN_DOWN 0.35

struct drawing {
    struct gnuplot g;
    const struct plot_heatmap *map;
    double least, most;
    double width, height;                /* of the picture, in pixels as those below */
    double left, right, foot;            /* beside and below the cells */
    double names;                        /* the part of the foot that holds those of the columns */
    double cell_width, cell_height;      /* about, in pixels */
    bool turned;                         /* names of the columns */
    int64_t raced_steps, replayed_steps; /* 0: no such cell; -1: they differ */
    int64_t unfit, pruned, invalid;      /* cells without a value, by reason */
};

static const struct plot_cell *cell_at(const struct plot_heatmap *map, int64_t x, int64_t y) {
    return &map->cells[y * PLOT_HEATMAP_LIMIT + x];
}

static bool has_value(const struct plot_cell *cell) {
    return cell->points > 0 && isfinite(cell->value);
}

static void note_steps(int64_t *known, int64_t steps) {
    *known = *known == 0 || *known == steps ? steps : -1;
}

static size_t longest_of(const char *const *names, int64_t count) {
    size_t longest = 0;
    for (int64_t i = 0; i < count; i++)
        if (strlen(names[i]) > longest) longest = strlen(names[i]);
    return longest < LONGEST_NAME ? longest : LONGEST_NAME;
}

static struct drawing survey(const struct plot_heatmap *map) {
    struct drawing d = { .map = map, .least = INFINITY, .most = -INFINITY };
    for (int64_t x = 0; x < map->x_count; x++)
        for (int64_t y = 0; y < map->y_count; y++) {
            const struct plot_cell *cell = cell_at(map, x, y);
            d.unfit += cell->points > 0 && !has_value(cell);
            d.pruned += cell->points == 0 && cell->pruned > 0;
            d.invalid += cell->points == 0 && cell->pruned == 0;
            if (!has_value(cell)) continue;
            d.least = fmin(d.least, cell->value);
            d.most = fmax(d.most, cell->value);
            note_steps(cell->replayed ? &d.replayed_steps : &d.raced_steps, cell->steps);
        }
    d.left = NAME_PIXELS * (double)longest_of(map->y_names, map->y_count) + 80;
    d.right = RIGHT_PIXELS;
    const double column_name = NAME_PIXELS * (double)longest_of(map->x_names, map->x_count);
    for (int pass = 0; pass < 2; pass++) {
        d.width = fmin(fmax(d.left + d.right + 130 * (double)map->x_count, 900), 2400);
        d.cell_width = (d.width - d.left - d.right) / (double)map->x_count;
        d.turned = d.turned || column_name > d.cell_width;
        /* The last name goes on below the bar of colours. */
        if (d.turned)
            d.right = fmax(RIGHT_PIXELS, TURN_SIDE * column_name - d.cell_width / 2 + 16);
    }
    d.names = d.turned ? 44 + TURN_DOWN * column_name : 54;
    /* The key may need a line for each of its signs. */
    const int signs = (d.raced_steps != 0) + (d.replayed_steps != 0) + (d.unfit > 0) +
                      (d.pruned > 0) + (d.invalid > 0);
    d.foot = d.names + 50 + SIGN_PIXELS * signs;
    d.height = fmin(TOP_PIXELS + d.foot + 64 * (double)map->y_count, 1800);
    d.cell_height = (d.height - d.foot - TOP_PIXELS) / (double)map->y_count;
    return d;
}

/* Where a value stands on the scale of colours. */
static bool is_logarithmic(const struct drawing *d) {
    return d->least > 0 && d->most > SPREAD * d->least;
}

static double level(const struct drawing *d, double value) {
    return is_logarithmic(d) ? log10(value) : value;
}

/* ---- parts ---- */

static void write_axis(struct gnuplot *g, const char *axis, const char *const *names, int64_t count,
                       const char *turn) {
    fprintf(g->script, "set %stics %s (", axis, turn);
    for (int64_t i = 0; i < count; i++) {
        char name[LONGEST_NAME + 1];
        gnuplot_tic_text(g, plot_cut(name, sizeof name, names[i], LONGEST_NAME));
        fprintf(g->script, " %d%s", (int)i, i + 1 < count ? ", " : ")\n");
    }
}

static void write_bar_tic(struct drawing *d, double value, const char **comma) {
    char text[PLOT_NUMBER_SIZE];
    fprintf(d->g.script, "%s'%s' %.9g", *comma, plot_number(text, value), level(d, value));
    *comma = ", ";
}

static void write_bar_tics(struct drawing *d) {
    const char *comma = "";
    fputs("set cbtics (", d->g.script);
    if (is_logarithmic(d)) {
        static const int digits[] = { 1, 2, 5 };
        for (double decade = pow(10, floor(log10(d->least))); decade <= d->most; decade *= 10)
            for (int k = 0; k < 3; k++)
                if (decade * digits[k] >= d->least && decade * digits[k] <= d->most)
                    write_bar_tic(d, decade * digits[k], &comma);
    } else {
        const double range = d->most > d->least ? d->most - d->least : 1;
        const double step = plot_tic_step(range, 5);
        for (double tic = ceil(d->least / step) * step; tic <= d->most; tic += step)
            write_bar_tic(d, tic, &comma);
    }
    if (*comma == '\0') write_bar_tic(d, d->least, &comma);
    fputs(")\n", d->g.script);
}

/* The bar has a margin of its own and its unit above it, clear of the numbers beside it. */
static void write_bar(struct drawing *d) {
    const double right = 1 - d->right / d->width, bar = right + 22 / d->width;
    const double bottom = d->foot / d->height, top = 1 - TOP_PIXELS / d->height;
    const double low = level(d, d->least), high = level(d, d->most);
    fprintf(d->g.script,
            "set lmargin at screen %.5f\nset rmargin at screen %.5f\nset bmargin at screen %.5f\n"
            "set tmargin at screen %.5f\n"
            "set palette defined (0 '#FDE725', 0.25 '#5EC962', 0.5 '#21918C', 0.75 '#3B528B', 1 "
            "'#440154')\nset cbrange [%.9g:%.9g]\n"
            "set colorbox vertical user origin screen %.5f, screen %.5f size screen %.5f, screen "
            "%.5f\n",
            d->left / d->width, right, bottom, top, low,
            high > low ? high : low + fmax(fabs(low), 1) * 0.01, bar, bottom, BAR_PIXELS / d->width,
            top - bottom);
    write_bar_tics(d);
    fputs("set label ", d->g.script);
    gnuplot_text(&d->g, d->map->unit);
    fprintf(d->g.script, " at screen %.5f, screen %.5f left\n", bar, top + 22 / d->height);
}

/* The title over the whole width, and the names of columns and rows where theirs end: how far
 * gnuplot itself would put them differs between the kinds of pictures. */
static void write_titles(struct drawing *d) {
    enum { LONGEST = 250 };
    char title[LONGEST];
    const double room = d->width / NAME_PIXELS;
    fputs("set label ", d->g.script);
    gnuplot_text(&d->g, plot_cut(title, sizeof title, d->map->title,
                                 room < LONGEST ? (size_t)room : LONGEST));
    fprintf(d->g.script, " at screen 0.5, screen %.5f center\n", 1 - 28 / d->height);
    fputs("set label ", d->g.script);
    gnuplot_text(&d->g, d->map->x_label);
    fprintf(d->g.script, " at graph 0.5, screen %.5f center\nset label ",
            (d->foot - d->names - 12) / d->height);
    gnuplot_text(&d->g, d->map->y_label);
    fprintf(d->g.script, " at screen %.5f, graph 0.5 center rotate by 90\n", 18 / d->width);
}

/* "≈ 482" and below it by how much that is more than the best. */
static void write_cell(struct drawing *d, int64_t x, int64_t y) {
    const struct plot_cell *cell = cell_at(d->map, x, y);
    if (!has_value(cell)) return;
    const double low = level(d, d->least), high = level(d, d->most);
    const bool dark = high > low && (level(d, cell->value) - low) / (high - low) > 0.45;
    char number[PLOT_NUMBER_SIZE], more[PLOT_NUMBER_SIZE + 8] = "";
    plot_number(number, cell->value);
    if (!(cell->value > d->least))
        snprintf(more, sizeof more, "best");
    else if (d->least > 0)
        snprintf(more, sizeof more, cell->value < 10 * d->least ? "+%.*f %%" : "x %.*f",
                 cell->value < 1.1 * d->least || cell->value >= 10 * d->least ? 1 : 0,
                 cell->value < 10 * d->least ? (cell->value / d->least - 1) * 100
                                             : cell->value / d->least);
    const bool two_lines = d->cell_height >= 44;
    const double size = fmin(GNUPLOT_FONT_PIXELS, d->cell_width / 6.2) * d->g.font_per_pixel;
    fprintf(d->g.script,
            "set label \"%s%s%s%s\" at %d,%d center front tc rgb '%s' font ',%.3g'%s\n",
            cell->replayed ? "" : "\xe2\x89\x88 ", number, two_lines ? "\\n" : "",
            two_lines ? more : "", (int)x, (int)y, dark ? "#FFFFFF" : "#000000", size,
            two_lines ? " offset 0,0.45" : "");
    if (cell->replayed)
        fprintf(d->g.script,
                "set object rectangle from %.3f,%.3f to %.3f,%.3f front fs empty border lc rgb "
                "'#000000' lw 3.5\n",
                (double)x - 0.48, (double)y - 0.46, (double)x + 0.48, (double)y + 0.46);
}

static void write_values(struct drawing *d) {
    fputs("$cells << END\n", d->g.script);
    for (int64_t y = 0; y < d->map->y_count; y++)
        for (int64_t x = 0; x < d->map->x_count; x++) {
            const struct plot_cell *cell = cell_at(d->map, x, y);
            if (has_value(cell))
                fprintf(d->g.script, "%d %d %.9g\n", (int)x, (int)y, level(d, cell->value));
        }
    fputs("END\n", d->g.script);
}

enum empty_cell { CELL_UNFIT, CELL_PRUNED, CELL_INVALID, EMPTY_CELLS };
static const char *const empty_blocks[EMPTY_CELLS] = { "unfit", "pruned", "invalid" };

static void write_empty_cells(struct drawing *d, enum empty_cell kind) {
    fprintf(d->g.script, "$%s << END\n", empty_blocks[kind]);
    for (int64_t y = 0; y < d->map->y_count; y++)
        for (int64_t x = 0; x < d->map->x_count; x++) {
            const struct plot_cell *cell = cell_at(d->map, x, y);
            const enum empty_cell this = cell->points > 0   ? CELL_UNFIT
                                         : cell->pruned > 0 ? CELL_PRUNED
                                                            : CELL_INVALID;
            if (!has_value(cell) && this == kind) fprintf(d->g.script, "%d %d\n", (int)x, (int)y);
        }
    fputs("END\n", d->g.script);
}

/* ", NaN with points pt SIGN title 'TEXT: 4 steps'" */
static void write_key(struct drawing *d, const char *sign, const char *text, int64_t steps) {
    if (steps == 0) return;
    fprintf(d->g.script, ", NaN with points pt %s ps 1.6 lw 3 lc rgb '#000000' title '%s", sign,
            text);
    if (steps > 0) fprintf(d->g.script, ", %lld step%s", (long long)steps, steps == 1 ? "" : "s");
    fputc('\'', d->g.script);
}

static void write_plot(struct drawing *d) {
    static const struct {
        const char *sign, *text;
    } empty[EMPTY_CELLS] = { [CELL_UNFIT] = { "2", "nothing fits in memory" },
                             [CELL_PRUNED] = { "\"o\"", "a bound left all out" },
                             [CELL_INVALID] = { "\"\xe2\x80\x93\"", "no valid configuration" } };
    const int64_t counts[EMPTY_CELLS] = { d->unfit, d->pruned, d->invalid };
    fputs("plot $cells using 1:2:($1-0.48):($1+0.48):($2-0.46):($2+0.46):3 with boxxyerror lc "
          "palette fs solid 1.0 noborder notitle",
          d->g.script);
    write_key(d, "4", "replayed in full", d->replayed_steps);
    write_key(d, "\"\xe2\x89\x88\"", "only raced", d->raced_steps);
    for (int k = 0; k < EMPTY_CELLS; k++)
        if (counts[k] > 0)
            fprintf(d->g.script,
                    ", $%s using 1:2 with points pt %s ps 1.6 lw 2 lc rgb '#6A6A6A' title '%s'",
                    empty_blocks[k], empty[k].sign, empty[k].text);
    fputc('\n', d->g.script);
}

bool plot_heatmap(const char *path, const struct plot_heatmap *map, struct error *err) {
    struct drawing d = survey(map);
    if (!isfinite(d.least))
        return error_set(err, "there is nothing to draw: no configuration fits in memory");
    if (!gnuplot_begin(&d.g, path, d.width, d.height, err)) return false;
    write_values(&d);
    for (int k = 0; k < EMPTY_CELLS; k++)
        write_empty_cells(&d, (enum empty_cell)k);
    plot_set_style(&d.g);
    write_titles(&d);
    char turn[24];
    snprintf(turn, sizeof turn, "rotate by -%d", TURN_DEGREES);
    write_axis(&d.g, "x", map->x_names, map->x_count, d.turned ? turn : "");
    write_axis(&d.g, "y", map->y_names, map->y_count, "");
    write_bar(&d);
    fprintf(d.g.script,
            "set xrange [-0.5:%g]\nset yrange [-0.5:%g]\nunset grid\n"
            "set key at screen 0.5, screen %.5f top center horizontal Left reverse\n",
            (double)map->x_count - 0.5, (double)map->y_count - 0.5,
            (d.foot - d.names - 34) / d.height);
    for (int64_t y = 0; y < map->y_count; y++)
        for (int64_t x = 0; x < map->x_count; x++)
            write_cell(&d, x, y);
    write_plot(&d);
    return gnuplot_end(&d.g, err);
}
