/* plot_stages.c - two panels over the same stages: stacked times, and peak memory. A group of bars
 * is a run; what is left of a step above a bar is waiting. */
#include "results/plot_stages.h"

#include <math.h>
#include <string.h>
#include "results/plot_style.h"

enum { PART_FORWARD, PART_RECOMPUTE, PART_BACKWARD, PART_WAIT, PART_COUNT };
static const struct {
    const char *name, *color;
} parts[PART_COUNT] = {
    { "forward", "#8CCBF0" },
    { "recompute", "#E69F00" },
    { "backward", "#0072B2" },
    { "waiting, traffic, update", "#E4E4E4" },
};

static void write_box(struct gnuplot *g, double x, double low, double high) {
    fprintf(g->script, "%.9g %.9g %.9g %.9g %.9g %.9g\n", x, (low + high) / 2, x - 0.42, x + 0.42,
            low, high);
}

static void write_part(struct gnuplot *g, const struct plot_stage_run *runs, int64_t run_count,
                       int part) {
    fprintf(g->script, "$part%d << END\n", part);
    double x = 1;
    for (int64_t r = 0; r < run_count; r++, x++)
        for (int64_t i = 0; i < runs[r].stage_count; i++, x++) {
            const struct plot_stage *s = &runs[r].stages[i];
            double ends[PART_COUNT + 1] = { 0, s->forward_s, s->forward_s + s->recompute_s,
                                            s->forward_s + s->recompute_s + s->backward_s,
                                            runs[r].step_s };
            if (ends[part + 1] > ends[part]) write_box(g, x, ends[part], ends[part + 1]);
        }
    fputs("END\n", g->script);
}

static void write_memory(struct gnuplot *g, const struct plot_stage_run *runs, int64_t run_count) {
    fputs("$memory << END\n", g->script);
    double x = 1;
    for (int64_t r = 0; r < run_count; r++, x++)
        for (int64_t i = 0; i < runs[r].stage_count; i++, x++)
            write_box(g, x, 0, runs[r].stages[i].memory_GiB);
    fputs("END\n", g->script);
}

enum { NAME_LINES = 3, NAME_CHARACTER_PX = 9, MARGIN_PX = 140 };
typedef char name_line[128];

/* A long name in lines of at most `limit` characters, as far as NAME_LINES of them do: how many. */
static int wrap(const char *name, size_t limit, name_line lines[NAME_LINES]) {
    int line = 0;
    lines[0][0] = '\0';
    for (const char *word = name; *word != '\0';) {
        size_t length = strcspn(word, " "), used = strlen(lines[line]);
        if (used > 0 && used + 1 + length > limit && line < NAME_LINES - 1) {
            lines[++line][0] = '\0';
            used = 0;
        }
        snprintf(lines[line] + used, sizeof lines[line] - used, "%s%.*s", used > 0 ? " " : "",
                 (int)length, word);
        word += length + strspn(word + length, " ");
    }
    return line + 1;
}

/* Characters that fit over a group when a bar is so many pixels wide. */
static size_t name_width(const struct plot_stage_run *run, double bar_px) {
    return (size_t)(bar_px * (double)(run->stage_count + 1) / NAME_CHARACTER_PX);
}

static int most_name_lines(const struct plot_stage_run *runs, int64_t run_count, double bar_px) {
    int most = 1;
    for (int64_t r = 0; r < run_count; r++) {
        name_line lines[NAME_LINES];
        const int count = wrap(runs[r].name, name_width(&runs[r], bar_px), lines);
        if (count > most) most = count;
    }
    return most;
}

/* The last line lowest. */
static void write_name(struct gnuplot *g, const struct plot_stage_run *run, double x,
                       double bar_px) {
    name_line lines[NAME_LINES];
    const int count = wrap(run->name, name_width(run, bar_px), lines);
    for (int i = 0; i < count; i++) {
        fputs("set label ", g->script);
        gnuplot_text(g, lines[i]);
        fprintf(g->script, " at %.9g, graph %.9g center\n", x, 1.05 + 0.07 * (count - 1 - i));
    }
}

/* Stage numbers under the bars and the runs' names over their groups. */
static void write_labels(struct gnuplot *g, const struct plot_stage_run *runs, int64_t run_count,
                         double bar_px, bool named) {
    double x = 1;
    fputs("set xtics (", g->script);
    const char *comma = "";
    for (int64_t r = 0; r < run_count; r++, x++)
        for (int64_t i = 0; i < runs[r].stage_count; i++, x++) {
            fprintf(g->script, "%s'%ld' %.9g", comma, (long)i + 1, x);
            comma = ", ";
        }
    fputs(")\n", g->script);
    x = 1;
    for (int64_t r = 0; r < run_count && named; r++) {
        double width = (double)runs[r].stage_count;
        write_name(g, &runs[r], x + (width - 1) / 2, bar_px);
        x += width + 1;
    }
}

bool plot_stages(const char *path, const char *title, const struct plot_stage_run *runs,
                 int64_t run_count, struct error *err) {
    double longest_s = 0, capacity_GiB = 0, most_GiB = 0, width = 0;
    for (int64_t r = 0; r < run_count; r++) {
        longest_s = fmax(longest_s, runs[r].step_s);
        capacity_GiB = fmax(capacity_GiB, runs[r].capacity_GiB);
        width += (double)runs[r].stage_count + 1;
        for (int64_t i = 0; i < runs[r].stage_count; i++)
            most_GiB = fmax(most_GiB, runs[r].stages[i].memory_GiB);
    }
    if (longest_s <= 0) return error_set(err, "there is nothing to draw: no stage takes time");
    struct gnuplot g;
    const double total_px = fmin(fmax(700, 60 * width), 2000),
                 bar_px = (total_px - MARGIN_PX) / width;
    if (!gnuplot_begin(&g, path, total_px, 950, err)) return false;
    for (int part = 0; part < PART_COUNT; part++)
        write_part(&g, runs, run_count, part);
    write_memory(&g, runs, run_count);
    plot_set_style(&g);
    fputs("set multiplot layout 2,1 title ", g.script);
    gnuplot_text(&g, title);
    fprintf(g.script,
            "\nset grid noxtics\nset xrange [0:%.9g]\nset lmargin 9\nset tmargin %g\n"
            "set key outside bottom center horizontal Left reverse\nset ylabel 'a mean step (s)'\n"
            "set yrange [0:%.9g]\n",
            width, 2 + 1.4 * most_name_lines(runs, run_count, bar_px), 1.04 * longest_s);
    write_labels(&g, runs, run_count, bar_px, true);
    for (int part = 0; part < PART_COUNT; part++)
        fprintf(g.script, "%s$part%d with boxxyerror fc rgb '%s' title '%s'%s",
                part == 0 ? "plot " : "", part, parts[part].color, parts[part].name,
                part == PART_COUNT - 1 ? "\n" : ", ");
    fprintf(g.script,
            "unset label\nset tmargin 1\nset bmargin 6\nset ylabel 'peak memory of a GPU "
            "(GiB)'\nset yrange "
            "[0:%.9g]\nset xlabel 'pipeline stage'\n",
            1.08 * fmax(capacity_GiB, most_GiB));
    write_labels(&g, runs, run_count, bar_px, false);
    fprintf(g.script,
            "plot $memory with boxxyerror fc rgb '#009E73' title 'in use', %.9g with lines lc rgb "
            "'#000000' lw 2 dt 2 title 'capacity'\nunset multiplot\n",
            capacity_GiB);
    return gnuplot_end(&g, err);
}
