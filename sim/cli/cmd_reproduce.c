/* cmd_reproduce.c - tables of the papers beside the simulation. */
#include <errno.h>
#include <math.h>
#include <string.h>
#include <sys/stat.h>
#include "results/plot_chart.h"
#include "results/plot_scatter.h"
#include "sim/cli/cli.h"
#include "sim/cli/stop_watch.h"
#include "sim/study/reproduce/sensitivity.h"

struct reproduce_options {
    const char *db, *plot, *pictures;
    int format;
    bool markdown, sensitivity;
};

static const char *const format_names[] = { "png", "svg", "pdf", NULL };

static const struct option options_table[] = {
    { "db", OPTION_TEXT, offsetof(struct reproduce_options, db), "FILE",
      "store runs and rows in this database", NULL, 0, 0 },
    { "markdown", OPTION_FLAG, offsetof(struct reproduce_options, markdown), NULL,
      "print docs/REPRODUCTION.md", NULL, 0, 0 },
    { "sensitivity", OPTION_FLAG, offsetof(struct reproduce_options, sensitivity), NULL,
      "also: which input would have to change, by how much, for each time to match", NULL, 0, 0 },
    { "plot", OPTION_PICTURE, offsetof(struct reproduce_options, plot), "FILE",
      "draw simulated times against printed ones, with bands: .png, .svg or .pdf", NULL, 0, 0 },
    { "pictures", OPTION_TEXT, offsetof(struct reproduce_options, pictures), "DIR",
      "draw the figures among the tables into this folder, as PAPER.TABLE.png", NULL, 0, 0 },
    { "format", OPTION_CHOICE, offsetof(struct reproduce_options, format), "png|svg|pdf",
      "of --pictures; default png", format_names, 0, 0 },
};

static void add_inputs(cJSON *row, const struct paper_input *const *inputs) {
    cJSON *list = cJSON_AddArrayToObject(row, "inputs");
    for (int64_t k = 0; inputs[k] != NULL; k++) {
        cJSON *input = cJSON_CreateObject();
        cJSON_AddStringToObject(input, "input", inputs[k]->name != NULL ? inputs[k]->name : "");
        cJSON_AddStringToObject(input, "value", inputs[k]->value);
        cJSON_AddStringToObject(input, "status", input_status_name(inputs[k]->status));
        cJSON_AddStringToObject(input, "source",
                                inputs[k]->source != NULL ? inputs[k]->source : "");
        cJSON_AddItemToArray(list, input);
    }
}

static void add_sensitivity(cJSON *row, const struct reproduction_value *v) {
    if (v->sensitivity == NULL) return;
    cJSON *list = cJSON_AddArrayToObject(row, "sensitivity");
    for (int64_t k = 0; k < v->sensitivity_count; k++) {
        const struct sensitivity *s = &v->sensitivity[k];
        cJSON *input = cJSON_CreateObject();
        cJSON_AddStringToObject(input, "input", s->input);
        cJSON_AddStringToObject(input, "change", s->change);
        cJSON_AddNumberToObject(input, "effect_fraction", s->effect_fraction);
        cli_add_number(input, "needed_factor", s->needed_factor);
        cJSON_AddItemToArray(list, input);
    }
}

static cJSON *reading_to_json(const struct reproduction_value *v) {
    cJSON *reading = cJSON_CreateObject();
    cJSON_AddStringToObject(reading, "id", v->id);
    cJSON_AddStringToObject(reading, "reading", v->reading != NULL ? v->reading : "");
    cJSON_AddNumberToObject(reading, "simulated", v->simulated);
    cJSON_AddNumberToObject(reading, "relative_error", v->relative_error);
    return reading;
}

/* Figures that the main reading misses: what does meet them, and why it does not. */
static void add_misses(cJSON *table, const struct reproduction_summary *s) {
    cJSON *list = cJSON_AddArrayToObject(table, "main_misses");
    for (int64_t k = 0; k < s->figures - s->figures_met_by_main; k++) {
        const struct reproduction_miss *m = &s->misses[k];
        cJSON *miss = cJSON_CreateObject();
        cJSON_AddStringToObject(miss, "figure", m->figure);
        cJSON_AddNumberToObject(miss, "paper", m->main->paper);
        cJSON_AddItemToObject(miss, "main", reading_to_json(m->main));
        cJSON_AddItemToObject(miss, "met_by",
                              m->met_by != NULL ? reading_to_json(m->met_by) : cJSON_CreateNull());
        cJSON_AddStringToObject(miss, "cause", m->cause != NULL ? m->cause : "");
        cJSON_AddItemToArray(list, miss);
    }
}

static cJSON *to_json(const struct cli *cli, const struct reproduction *r) {
    cJSON *o = cJSON_CreateObject(), *rows = cJSON_AddArrayToObject(o, "rows");
    if (cli_has_overrides(cli)) cJSON_AddStringToObject(o, "overrides", cli_overrides(cli));
    for (int64_t i = 0; i < r->value_count; i++) {
        const struct reproduction_value *v = &r->values[i];
        cJSON *row = cJSON_CreateObject();
        cJSON_AddStringToObject(row, "id", v->id);
        cJSON_AddStringToObject(row, "table", v->table);
        cJSON_AddStringToObject(row, "row", v->row);
        if (v->reading != NULL) cJSON_AddStringToObject(row, "reading", v->reading);
        cJSON_AddBoolToObject(row, "main", v->main);
        cJSON_AddStringToObject(row, "quantity", v->quantity);
        cJSON_AddStringToObject(row, "unit", v->unit);
        cli_add_number(row, "paper", v->paper);
        cli_add_number(row, "simulated", v->simulated);
        if (v->measured) cJSON_AddBoolToObject(row, "measured", true);
        cli_add_number(row, "relative_error", v->relative_error);
        cli_add_number(row, "band_fraction", v->band.above);
        cli_add_number(row, "band_below_fraction", v->band.below);
        cJSON_AddBoolToObject(row, "calibrated_on", v->calibrated_on);
        add_inputs(row, v->inputs);
        cJSON *assumptions = cJSON_AddArrayToObject(row, "assumptions");
        for (int64_t k = 0; v->assumptions[k] != NULL; k++)
            cJSON_AddItemToArray(assumptions, cJSON_CreateString(v->assumptions[k]));
        cJSON_AddStringToObject(row, "note", v->note != NULL ? v->note : "");
        if (v->cause != NULL) cJSON_AddStringToObject(row, "cause", v->cause);
        cJSON_AddStringToObject(row, "scenario_file", v->scenario_file);
        cJSON *set = cJSON_AddArrayToObject(row, "set");
        for (int64_t k = 0; v->set[k] != NULL; k++)
            cJSON_AddItemToArray(set, cJSON_CreateString(v->set[k]));
        add_sensitivity(row, v);
        cJSON_AddItemToArray(rows, row);
    }
    cJSON *summary = cJSON_AddObjectToObject(o, "summary");
    for (int64_t i = 0; i < r->summary_count; i++) {
        const struct reproduction_summary *s = &r->summaries[i];
        cJSON *table = cJSON_AddObjectToObject(summary, s->table);
        cJSON_AddNumberToObject(table, "rows", (double)s->rows);
        cJSON_AddNumberToObject(table, "rows_without_relative_error",
                                (double)s->rows_without_relative_error);
        cJSON_AddNumberToObject(table, "rows_calibrated_on", (double)s->rows_calibrated_on);
        cJSON_AddNumberToObject(table, "mean_abs_relative_error", s->mean_abs_relative_error);
        cJSON_AddNumberToObject(table, "worst_relative_error", s->worst_relative_error);
        cJSON_AddNumberToObject(table, "figures", (double)s->figures);
        cJSON_AddNumberToObject(table, "figures_met", (double)s->figures_met);
        cJSON_AddNumberToObject(table, "figures_met_by_main", (double)s->figures_met_by_main);
        cJSON_AddStringToObject(table, "source", s->source);
        cJSON_AddStringToObject(table, "note", s->note != NULL ? s->note : "");
        if (s->rule != NULL) cJSON_AddStringToObject(table, "main_rule", s->rule);
        add_misses(table, s);
        cJSON *missed = cJSON_AddArrayToObject(table, "figures_missed");
        for (int64_t k = 0; k < s->figures - s->figures_met; k++)
            cJSON_AddItemToArray(missed, cJSON_CreateString(s->missed[k]));
    }
    return o;
}

/* How many printed times and speed-ups the main readings meet, and how many some reading. */
static void print_figures(const struct reproduction_summary *s) {
    printf("%ld of %ld printed GPU-days and speed-ups within %.0f and %.0f %% by the main reading, "
           "%ld by at least one",
           (long)s->figures_met_by_main, (long)s->figures, REPRODUCTION_TIME_LIMIT * 100,
           REPRODUCTION_RATIO_LIMIT * 100, (long)s->figures_met);
}

static const char *reading_name(const struct reproduction_value *v) {
    return v->reading != NULL ? v->reading : "as it stands";
}

/* "row.gpu_days: own-plan -18.5 %, met by other-reading +1.9 %. Why, as it was tried." */
static void print_miss(const struct reproduction_miss *m) {
    printf("%s: %s %+.1f %%, ", m->figure, reading_name(m->main), m->main->relative_error * 100);
    if (m->met_by != NULL)
        printf("met by %s %+.1f %%", reading_name(m->met_by), m->met_by->relative_error * 100);
    else
        fputs("met by no reading", stdout);
    if (m->cause != NULL) printf(". %s", m->cause);
}

static bool is_miss(const struct reproduction_summary *s, const struct reproduction_value *v) {
    for (int64_t k = 0; k < s->figures - s->figures_met_by_main; k++)
        if (s->misses[k].main == v) return true;
    return false;
}

/* Causes of the table's main readings that are no miss of a printed time or speed-up: numbers of
 * another kind, and ones that are off though near enough. */
static void print_other_causes(const struct reproduction *r, const struct reproduction_summary *s,
                               const char *indent) {
    for (int64_t i = 0; i < r->value_count; i++) {
        const struct reproduction_value *v = &r->values[i];
        if (strcmp(v->table, s->table) != 0 || !v->main || v->cause == NULL || is_miss(s, v))
            continue;
        printf("%s%s.%s: %s ", indent, v->row, v->quantity, reading_name(v));
        if (isnan(v->relative_error))
            printf("%s", "without an error");
        else
            printf("%+.1f %%", v->relative_error * 100);
        printf(". %s\n", v->cause);
    }
}

static void print_sensitivity(const struct reproduction_value *v) {
    for (int64_t k = 0; k < v->sensitivity_count; k++) {
        const struct sensitivity *s = &v->sensitivity[k];
        printf("      %-22s %-10s %+6.1f %%", s->input, s->change, s->effect_fraction * 100);
        if (!isnan(s->needed_factor)) printf("   x %.3g alone would match", s->needed_factor);
        putchar('\n');
    }
}

struct number_text {
    char text[24];
};

static struct number_text number_text(double value) {
    struct number_text n = { "-" };
    if (!isnan(value)) snprintf(n.text, sizeof n.text, "%.6g", value);
    return n;
}

/* Words in lines of at most 100 columns, the first after the label, all others as far in. */
static void print_words(const char *label, const char *const *texts, int64_t count) {
    enum { WIDTH = 100, INDENT = 10 };
    int column = printf("  %-*s", INDENT - 2, label);
    for (int64_t i = 0; i < count; i++) {
        const char *word = texts[i];
        while (*word != '\0') {
            int length = (int)strcspn(word, " ");
            if (column > INDENT && column + 1 + length > WIDTH)
                column = printf("\n%*s", INDENT, "") - 1;
            column += printf("%s%.*s", column > INDENT ? " " : "", length, word);
            word += length;
            word += strspn(word, " ");
        }
    }
    putchar('\n');
}

/* Names of the inputs of the table's rows that have this status, each once. */
static void print_inputs_of(const struct reproduction *r, const char *table,
                            enum input_status status) {
    struct arena *scratch = arena_create();
    int64_t count = 0, room = 1;
    for (int64_t i = 0; i < r->value_count; i++)
        for (int64_t k = 0; r->values[i].inputs[k] != NULL; k++)
            room++;
    const struct paper_input **found = arena_array(scratch, const struct paper_input *, room);
    const char **names = arena_array(scratch, const char *, room);
    for (int64_t i = 0; i < r->value_count; i++) {
        const struct reproduction_value *v = &r->values[i];
        for (int64_t k = 0; strcmp(v->table, table) == 0 && v->inputs[k] != NULL; k++) {
            const struct paper_input *input = v->inputs[k];
            bool known = input->name == NULL || input->status != status;
            for (int64_t f = 0; f < count; f++)
                known = known || strcmp(found[f]->name, input->name) == 0;
            if (!known) found[count++] = input;
        }
    }
    for (int64_t f = 0; f < count; f++)
        names[f] = arena_format(scratch, "%s%s", found[f]->name, f + 1 < count ? ", " : "");
    if (count > 0) print_words(input_status_name(status), names, count);
    arena_destroy(scratch);
}

/* What stands behind a table's rows: where it is printed, what was tried, who set each input. */
static void print_background(const struct reproduction *r, const char *table) {
    for (int64_t i = 0; i < r->summary_count; i++) {
        const struct reproduction_summary *s = &r->summaries[i];
        if (strcmp(s->table, table) != 0) continue;
        print_words("source", &s->source, 1);
        if (s->note != NULL) print_words("note", &s->note, 1);
    }
    print_inputs_of(r, table, INPUT_STATED);
    print_inputs_of(r, table, INPUT_ASSUMED);
    print_inputs_of(r, table, INPUT_FITTED);
}

/* Once for each paper that has one. */
static void print_rules(const struct reproduction *r) {
    const char *last = NULL;
    bool several = false;
    for (int64_t i = 0; i < r->value_count; i++)
        several |= r->values[i].reading_count > 1;
    if (several) puts("* the main reading of a number of which several stand here");
    for (int64_t i = 0; i < r->summary_count; i++) {
        const char *rule = r->summaries[i].rule;
        if (rule != NULL && (last == NULL || strcmp(rule, last) != 0))
            print_words("main", &rule, 1);
        if (rule != NULL) last = rule;
    }
}

static void print(const struct reproduction *r) {
    const char *table = "";
    for (int64_t i = 0; i < r->value_count; i++) {
        const struct reproduction_value *v = &r->values[i];
        if (strcmp(table, v->table) != 0) {
            if (i > 0) print_background(r, table);
            table = v->table;
            printf("%s%s\n  %-58s %-8s %10s %10s %9s  %s\n", i > 0 ? "\n" : "", table, "row",
                   "unit", "paper", "simulated", "error", "scenario");
        }
        char error[32] = "-";
        if (!isnan(v->relative_error))
            snprintf(error, sizeof error, "%+.1f %%", v->relative_error * 100);
        printf("%s %-58s %-8s %10s %10s %9s  %s", v->main && v->reading_count > 1 ? "*" : " ",
               v->id + strlen(table) + 1, v->unit, number_text(v->paper).text,
               number_text(v->simulated).text, error, v->scenario_file);
        for (int64_t k = 0; v->set[k] != NULL; k++)
            printf(" --set '%s'", v->set[k]);
        puts(v->calibrated_on ? " [calibrated on this row]"
             : v->measured    ? " [wall time of this machine]"
                              : "");
        if (v->note != NULL) printf("      %s\n", v->note);
        print_sensitivity(v);
    }
    if (r->value_count > 0) print_background(r, table);
    putchar('\n');
    for (int64_t i = 0; i < r->summary_count; i++) {
        const struct reproduction_summary *s = &r->summaries[i];
        printf("%s: %ld row%s, mean absolute error %.1f %%, worst %+.1f %% (%ld row%s no relative "
               "error)\n",
               s->table, (long)s->rows, s->rows == 1 ? "" : "s", s->mean_abs_relative_error * 100,
               s->worst_relative_error * 100, (long)s->rows_without_relative_error,
               s->rows_without_relative_error == 1 ? " has" : "s have");
        if (s->figures > 0) {
            fputs("  ", stdout);
            print_figures(s);
            putchar('\n');
        }
        for (int64_t k = 0; k < s->figures - s->figures_met_by_main; k++) {
            fputs("    not ", stdout);
            print_miss(&s->misses[k]);
            putchar('\n');
        }
        print_other_causes(r, s, "    off ");
    }
    print_rules(r);
    puts("Nothing is fitted to these rows unless marked; every row names the scenario that gives "
         "it.\nValues and sources of the inputs: --markdown or --json.");
}

static void print_inputs(const struct paper_input *const *inputs) {
    if (inputs[0] == NULL) return;
    puts("| input | value | | source |\n|---|---|---|---|");
    for (int64_t i = 0; inputs[i] != NULL; i++)
        printf("| %s | %s | %s | %s |\n", inputs[i]->name != NULL ? inputs[i]->name : "",
               inputs[i]->value, input_status_name(inputs[i]->status),
               inputs[i]->source != NULL ? inputs[i]->source : "");
}

/* What all tables have in common: how a main reading is chosen. */
static void print_main_rules(const struct reproduction *r) {
    const char *last = NULL;
    puts("Where several readings of an unclear text stand beside one number, the main one is in "
         "bold.");
    for (int64_t k = 0; k < r->summary_count; k++) {
        const struct reproduction_summary *s = &r->summaries[k];
        if (s->rule == NULL || (last != NULL && strcmp(s->rule, last) == 0)) continue;
        printf("\nMain readings of %.*s: %s\n", (int)strcspn(s->table, "."), s->table, s->rule);
        last = s->rule;
    }
}

static void print_markdown(const struct reproduction *r) {
    puts("# Tables of the papers beside the simulation\n\n"
         "Generated by `ballast reproduce --markdown`; do not edit. Error is (simulated - paper) / "
         "paper. No constant is\n"
         "fitted to a row unless it says so. Each row names the scenario that gives it. What a "
         "note says was\n"
         "tried was run apart, by the prices of its day, which the rows may have left by a per "
         "cent.");
    print_main_rules(r);
    for (int64_t k = 0; k < r->summary_count; k++) {
        const struct reproduction_summary *s = &r->summaries[k];
        printf("\n## %s\n\n%s.\n\n", s->table, s->source);
        if (s->note != NULL) printf("%s\n\n", s->note);
        print_inputs(s->inputs);
        puts("\n| row | unit | paper | simulated | error | band | scenario "
             "|\n|---|---|--:|--:|--:|--:|---|");
        for (int64_t i = 0; i < r->value_count; i++) {
            const struct reproduction_value *v = &r->values[i];
            if (strcmp(v->table, s->table) != 0) continue;
            const bool first = v->main && v->reading_count > 1;
            printf("| %s%s%s%s | %s | %s | %s | ", first ? "**" : "", v->id + strlen(v->table) + 1,
                   first ? "**" : "",
                   v->calibrated_on ? " (calibrated on)"
                   : v->measured    ? " (wall time of the simulating machine)"
                                    : "",
                   v->unit, number_text(v->paper).text, number_text(v->simulated).text);
            if (isnan(v->relative_error))
                fputs("- | ", stdout);
            else
                printf("%+.1f %% | ", v->relative_error * 100);
            if (!band_is_known(v->band))
                fputs("| ", stdout);
            else
                printf("%s %% | ", band_text(v->band, "+-", 0).text);
            printf("[%s](../%s)", strrchr(v->scenario_file, '/') + 1, v->scenario_file);
            for (int64_t n = 0; v->set[n] != NULL; n++)
                printf(" `%s`", v->set[n]);
            if (v->note != NULL) printf(" %s", v->note);
            puts(" |");
        }
        printf("\n%ld row%s, mean absolute error %.1f %%, worst %+.1f %%, %ld row%s without a "
               "relative error.\n",
               (long)s->rows, s->rows == 1 ? "" : "s", s->mean_abs_relative_error * 100,
               s->worst_relative_error * 100, (long)s->rows_without_relative_error,
               s->rows_without_relative_error == 1 ? "" : "s");
        if (s->figures > 0) {
            putchar('\n');
            print_figures(s);
            puts(".");
        }
        putchar('\n');
        for (int64_t m = 0; m < s->figures - s->figures_met_by_main; m++) {
            fputs("- ", stdout);
            print_miss(&s->misses[m]);
            putchar('\n');
        }
        print_other_causes(r, s, "- ");
    }
}

/* ---- the picture ---- */

/* The unit of most rows with a band: a picture has one scale. */
static const char *commonest_unit(const struct reproduction *r) {
    const char *best = NULL;
    int64_t most = 0;
    for (int64_t i = 0; i < r->value_count; i++) {
        int64_t count = 0;
        for (int64_t k = 0; k < r->value_count; k++)
            count += band_is_known(r->values[k].band) &&
                     strcmp(r->values[k].unit, r->values[i].unit) == 0;
        if (count > most) {
            most = count;
            best = r->values[i].unit;
        }
    }
    return best;
}

/* Readings beside a main one are one group; main ones have a group each, behind `first`. */
static int64_t group_of(const char **groups, int64_t *count, int64_t first, int64_t limit,
                        const struct reproduction_value *v) {
    if (!v->main) return 0;
    const char *name = v->reading != NULL ? v->reading : "one reading";
    for (int64_t i = first; i < *count; i++)
        if (strcmp(groups[i], name) == 0) return i;
    if (*count == limit) return limit - 1;
    groups[*count] = *count == limit - 1 ? "other main readings" : name;
    return (*count)++;
}

static bool draw(struct cli *cli, const struct reproduction *r, const char *path,
                 struct error *err) {
    enum { GROUP_LIMIT = 9 };
    const char *unit = commonest_unit(r);
    if (unit == NULL) return error_set(err, "there is nothing to draw: no row is a simulated time");
    struct plot_point *points = arena_array(cli->arena, struct plot_point, r->value_count);
    const char *groups[GROUP_LIMIT] = { "readings beside the main one" };
    int64_t count = 0, pale_count = 0;
    for (int64_t i = 0; i < r->value_count; i++) {
        const struct reproduction_value *v = &r->values[i];
        if (!v->main && band_is_known(v->band) && strcmp(v->unit, unit) == 0 && v->paper > 0)
            pale_count = 1;
    }
    int64_t group_count = pale_count;
    for (int64_t i = 0; i < r->value_count; i++) {
        const struct reproduction_value *v = &r->values[i];
        if (!band_is_known(v->band) || strcmp(v->unit, unit) != 0 || !(v->paper > 0)) continue;
        points[count++] = (struct plot_point){
            .x = v->paper,
            .y = v->simulated,
            .band = v->band,
            .group = group_of(groups, &group_count, pale_count, GROUP_LIMIT, v),
        };
    }
    struct plot_scatter scatter = {
        .title = "Papers' tables, printed and simulated, with the error band of the prices",
        .x_label = arena_format(cli->arena, "printed (%s)", unit),
        .y_label = arena_format(cli->arena, "simulated (%s)", unit),
        .points = points,
        .point_count = count,
        .groups = groups,
        .group_count = group_count,
        .corridor_fraction = 0.15,
        .pale_count = pale_count,
    };
    return plot_scatter(path, &scatter, err);
}

/* ---- the figures ---- */

static bool draw_bars(struct cli *cli, const struct reproduction_picture *p, const char *path,
                      struct error *err) {
    const struct paper_picture *picture = p->picture;
    struct plot_bar *bars = arena_array(cli->arena, struct plot_bar, picture->run_count + 1);
    for (int64_t i = 0; i < picture->run_count; i++)
        bars[i] = (struct plot_bar){ picture->runs[i].label, p->values[i * picture->count],
                                     picture->runs[i].printed };
    return plot_bars(path, picture->title, picture->axis, bars, picture->run_count, err);
}

static bool draw_lines(struct cli *cli, const struct reproduction_picture *p, const char *path,
                       struct error *err) {
    const struct paper_picture *picture = p->picture;
    struct plot_line *lines = arena_array(cli->arena, struct plot_line, picture->run_count + 1);
    for (int64_t i = 0; i < picture->run_count; i++)
        lines[i] = (struct plot_line){ picture->runs[i].label, p->values + i * picture->count };
    const struct plot_lines all = { .title = picture->title,
                                    .x_axis = "iteration",
                                    .axis = picture->axis,
                                    .lines = lines,
                                    .line_count = picture->run_count,
                                    .point_count = picture->count,
                                    .right = p->right,
                                    .right_axis = picture->right_axis };
    return plot_lines(path, &all, err);
}

static bool draw_pictures(struct cli *cli, const struct reproduction *r,
                          const struct reproduce_options *o, struct error *err) {
    if (r->picture_count == 0) {
        error_set(err, "none of these tables has a picture");
        return error_hint(err, "for example dip.figure13");
    }
    if (!cli_make_folder(o->pictures, NULL, err)) return false;
    const char *names = "";
    for (int64_t i = 0; i < r->picture_count; i++) {
        const struct reproduction_picture *p = &r->pictures[i];
        const char *name = arena_format(cli->arena, "%s.%s", p->table, format_names[o->format]),
                   *path = arena_format(cli->arena, "%s/%s", o->pictures, name);
        names = arena_format(cli->arena, "%s%s%s", names, i > 0 ? ", " : "", name);
        bool ok = p->picture->kind == PICTURE_BARS ? draw_bars(cli, p, path, err)
                                                   : draw_lines(cli, p, path, err);
        if (!ok) return false;
    }
    if (!cli->common.quiet)
        fprintf(stderr, "%ld picture%s in %s: %s\n", (long)r->picture_count,
                r->picture_count == 1 ? "" : "s", o->pictures, names);
    return true;
}

static int run(struct cli *cli, void *options) {
    const struct reproduce_options *o = options;
    struct error err = { 0 };
    struct stop_watch watch = { 0 };
    if (o->markdown && cli->common.json) {
        error_set(&err, "--markdown and --json are two forms of the answer: name one");
        return cli_error(&err);
    }
    if (o->pictures != NULL && !error_check_output_folder(&err, o->pictures))
        return cli_error(&err);
    if (o->db != NULL && !stop_watch_open(&watch, o->db, &err)) return cli_error(&err);
    if (cli_has_overrides(cli))
        fprintf(stderr, "note: every row is simulated with %s\n", cli_overrides(cli));
    struct progress progress = cli_progress(cli, "simulating", "runs");
    struct reproduction_options request = { .scenario = &cli->scenario_options,
                                            .selectors = cli->arguments.positional,
                                            .selector_count = cli->arguments.count,
                                            .pictures = o->pictures != NULL,
                                            .store = watch.store,
                                            .provenance = &cli->provenance,
                                            .progress = cli_progress_update,
                                            .progress_context = &progress };
    struct reproduction *r = reproduction_run(&request, &err);
    cli_progress_end(&progress);
    stop_watch_end(&watch);
    if (r == NULL) return cli_error(&err);
    if (o->sensitivity) {
        progress = cli_progress(cli, "sensitivity", "runs");
        bool ok = sensitivity_measure(&request, r, &err);
        cli_progress_end(&progress);
        if (!ok) {
            reproduction_destroy(r);
            return cli_error(&err);
        }
    }
    if (cli->common.json)
        cli_print_json(to_json(cli, r));
    else if (o->markdown)
        print_markdown(r);
    else
        print(r);
    const bool drawn = (o->plot == NULL || draw(cli, r, o->plot, &err)) &&
                       (o->pictures == NULL || draw_pictures(cli, r, o, &err));
    reproduction_destroy(r);
    return drawn ? EXIT_DONE : cli_error(&err);
}

const struct command command_reproduce = {
    .name = "reproduce",
    .usage = "[PAPER[.TABLE]...] [--db FILE] [--plot FILE] [--pictures DIR] [--sensitivity]",
    .help = "tables of the papers beside the simulation, with signed errors",
    COMMAND_OPTIONS(options_table, struct reproduce_options),
    .min_arguments = 0,
    .max_arguments = -1,
    .takes_scenario = true,
    .run = run,
};
