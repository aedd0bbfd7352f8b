/* plot_validation.c - one block of data a source and role, and one of the sources that the key has
 * no room for. */
#include "results/plot_validation.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>
#include "results/gnuplot.h"
#include "results/plot_style.h"

enum { NAMED_SOURCES = 18 }; /* what one column of the key holds */

static int64_t place_of(const char *const *sources, int64_t count, const char *source) {
    int64_t place = 0;
    while (place < count && strcmp(sources[place], source) != 0)
        place++;
    return place;
}

/* All, in order of appearance. */
static int64_t list_sources(const struct plot_validation_point *points, int64_t count,
                            const char **sources) {
    int64_t found = 0;
    for (int64_t i = 0; i < count; i++)
        if (place_of(sources, found, points[i].source) == found)
            sources[found++] = points[i].source;
    return found;
}

static void write_point(FILE *script, const struct plot_validation_point *p) {
    fprintf(script, "%.6g %.6g\n", p->measured_s, p->predicted_s / p->measured_s);
}

/* One block of data a source and role; an empty one gets a point that cannot be drawn. */
static void write_block(FILE *script, const struct plot_validation_point *points, int64_t count,
                        const char *source, bool fitted, int64_t index) {
    fprintf(script, "$points%d << EOD\n", (int)index);
    fputs("NaN NaN\n", script);
    for (int64_t i = 0; i < count; i++)
        if (strcmp(points[i].source, source) == 0 && points[i].fitted == fitted)
            write_point(script, &points[i]);
    fputs("EOD\n", script);
}

/* The points of the sources beyond those named. */
static void write_others(FILE *script, const struct plot_validation_point *points, int64_t count,
                         const char *const *named) {
    fputs("$others << EOD\n", script);
    for (int64_t i = 0; i < count; i++)
        if (place_of(named, NAMED_SOURCES, points[i].source) == NAMED_SOURCES)
            write_point(script, &points[i]);
    fputs("EOD\n", script);
}

/* Of its beginning that the key shows: up to a bracket or semicolon, whole words. */
static int source_name_length(const char *source) {
    enum { MOST = 38 };
    size_t length = strcspn(source, "(;");
    if (length > MOST) {
        length = MOST;
        while (length > 0 && source[length] != ' ')
            length--;
        if (length == 0) length = MOST; /* one long word */
    }
    while (length > 1 && strchr(" ,", source[length - 1]) != NULL)
        length--;
    return (int)length;
}

bool plot_validation(const char *path, const struct plot_validation_point *points, int64_t count,
                     struct error *err) {
    static const char *const colors[] = { "#0072b2", "#d55e00", "#009e73", "#cc79a7",
                                          "#e69f00", "#56b4e9", "#000000", "#999999" };
    static const int marks[][2] = { { 7, 6 }, { 5, 4 }, { 9, 8 }, { 13, 12 }, { 11, 10 } };
    if (count == 0) return error_set(err, "there are no simulated rows to draw");
    struct gnuplot g;
    if (!gnuplot_begin(&g, path, 1200, 600, err)) return false;
    const char **sources = memory_alloc(sizeof *sources * (size_t)count);
    const int64_t all = list_sources(points, count, sources),
                  source_count = all < NAMED_SOURCES ? all : NAMED_SOURCES;
    plot_set_style(&g);
    if (all > source_count) write_others(g.script, points, count, sources);
    for (int64_t i = 0; i < source_count; i++) {
        write_block(g.script, points, count, sources[i], false, 2 * i);
        write_block(g.script, points, count, sources[i], true, 2 * i + 1);
    }
    fputs("set title 'Step time, predicted over measured; hollow: a factor was fitted on the run'\n"
          "set logscale x\nset xlabel 'measured step time (s)'\n"
          "set ylabel 'predicted / measured'\n"
          "set key outside right top Left reverse width -2\nset grid\n"
          "plot 1 with lines linewidth 1.5 linecolor rgb '#555555' title 'equal', "
          "1.1 with lines dashtype 2 linecolor rgb '#999999' title '10 % either side', "
          "0.9 with lines dashtype 2 linecolor rgb '#999999' notitle",
          g.script);
    if (all > source_count)
        fprintf(g.script,
                ", $others using 1:2 with points pointtype 1 pointsize 1 linecolor rgb '#bbbbbb' "
                "title '%ld more sources'",
                (long)(all - source_count));
    for (int64_t i = 0; i < source_count; i++) {
        enum { MARKS = sizeof marks / sizeof marks[0], COLORS = sizeof colors / sizeof colors[0] };
        const int *mark = marks[(i + i / COLORS) % MARKS]; /* no colour twice on one mark */
        const char *color = colors[i % COLORS];
        fprintf(g.script,
                ", $points%d using 1:2 with points pointtype %d pointsize 1.2 linecolor rgb '%s' "
                "title ",
                (int)(2 * i), mark[0], color);
        /* What a source says of itself in brackets and behind a semicolon is for the table. */
        char name[48];
        snprintf(name, sizeof name, "%.*s", source_name_length(sources[i]), sources[i]);
        gnuplot_text(&g, name);
        fprintf(g.script,
                ", $points%d using 1:2 with points pointtype %d pointsize 1.6 linecolor rgb '%s' "
                "notitle",
                (int)(2 * i + 1), mark[1], color);
    }
    fputc('\n', g.script);
    free(sources);
    return gnuplot_end(&g, err);
}
