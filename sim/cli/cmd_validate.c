/* cmd_validate.c - measured runs beside their simulation: row by row, then by source. */
#include <glob.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>
#include "results/plot_validation.h"
#include "sim/cli/cli.h"
#include "sim/cli/stop_watch.h"
#include "sim/cli/validation_page.h"
#include "sim/study/measured/validation.h"

struct validate_options {
    const char *db, *plot, *scenario;
    bool markdown;
};

#define AT(member) offsetof(struct validate_options, member)
static const struct option options_table[] = {
    { "db", OPTION_TEXT, AT(db), "FILE", "store the rows in the table validation", NULL, 0, 0 },
    { "markdown", OPTION_FLAG, AT(markdown), NULL, "print the page docs/VALIDATION.md", NULL, 0,
      0 },
    { "plot", OPTION_PICTURE, AT(plot), "FILE", "predicted over measured: .png, .svg or .pdf", NULL,
      0, 0 },
    { "scenario", OPTION_TEXT, AT(scenario), "ROW_ID",
      "print the scenario that simulates this row, for run and explain", NULL, 0, 0 },
};

/* ---- JSON ---- */

static void add_statistics(cJSON *o, const struct error_statistics *s) {
    cli_add_number(o, "mean_abs_relative_error", s->mean_abs);
    cli_add_number(o, "median_abs_relative_error", s->median_abs);
    cli_add_number(o, "p90_abs_relative_error", s->p90_abs);
    cli_add_number(o, "worst_relative_error", s->worst);
    cli_add_number(o, "mean_signed_relative_error", s->mean_signed);
}

static void add_memory(cJSON *o, const char *key, const struct error_statistics *s) {
    cJSON *memory = cJSON_AddObjectToObject(o, key);
    cJSON_AddNumberToObject(memory, "rows", (double)s->count);
    add_statistics(memory, s);
}

static void add_summary(cJSON *o, const struct validation_group *g) {
    cJSON_AddNumberToObject(o, "rows", (double)g->rows);
    cJSON_AddNumberToObject(o, "evaluated", (double)g->simulated);
    cJSON_AddNumberToObject(o, "skipped", (double)(g->rows - g->simulated));
    cJSON_AddNumberToObject(o, "calibrated", (double)g->calibrated);
    cJSON_AddNumberToObject(o, "predicted", (double)g->time.count);
    add_statistics(o, &g->time);
    cli_add_number(o, "band_coverage", g->band_coverage);
    cli_add_number(o, "band_median_half_width", g->median_half_width);
    cJSON *cases = cJSON_AddObjectToObject(o, "by_case");
    cJSON_AddNumberToObject(cases, "cases", (double)g->time_by_case.count);
    add_statistics(cases, &g->time_by_case);
    add_memory(o, "memory", &g->memory);
    add_memory(o, "memory_allocated", &g->memory_of[READING_ALLOCATED]);
    add_memory(o, "memory_reserved", &g->memory_of[READING_RESERVED]);
    add_memory(o, "memory_device", &g->memory_of[READING_DEVICE]);
    cJSON_AddNumberToObject(o, "memory_full_cards", (double)g->full_cards);
}

static void add_text(cJSON *o, const char *key, const char *text) {
    if (text != NULL)
        cJSON_AddStringToObject(o, key, text);
    else
        cJSON_AddNullToObject(o, key);
}

static cJSON *row_json(const struct validation_row *r) {
    cJSON *row = cJSON_CreateObject();
    const bool skipped = r->skip != SKIP_NOTHING;
    cJSON_AddStringToObject(row, "row_id", r->measured->row_id);
    cli_add_number(row, "measured_iter_time_s", r->measured->iter_time_s);
    cli_add_number(row, "predicted_iter_time_s", r->predicted_s);
    cli_add_number(row, "relative_error", r->relative_error);
    cli_add_number(row, "band_low_s", r->band_low_s);
    cli_add_number(row, "band_high_s", r->band_high_s);
    if (validation_has_band(r))
        cJSON_AddBoolToObject(row, "in_band", validation_in_band(r));
    else
        cJSON_AddNullToObject(row, "in_band");
    cJSON_AddBoolToObject(row, "inside_range", r->inside_range);
    cli_add_number(row, "outside_fraction", r->outside_fraction);
    cJSON_AddBoolToObject(row, "calibrated_on", r->calibrated_on);
    cJSON_AddBoolToObject(row, "doubtful", validation_time_doubtful(r));
    cli_add_number(row, "measured_peak_mem_GiB", r->measured->peak_mem_GiB);
    cli_add_number(row, "predicted_peak_mem_GiB", r->predicted_peak_GiB);
    cli_add_number(row, "memory_relative_error", r->memory_relative_error);
    add_text(row, "memory_reading",
             r->reading != READING_NONE ? memory_reading_name(r->reading) : NULL);
    cJSON_AddBoolToObject(row, "memory_scored", validation_memory_counts(r));
    cJSON_AddBoolToObject(row, "memory_doubtful", validation_memory_doubtful(r));
    /* Empty, and what is no word of the format, is taken as ok. */
    cJSON_AddStringToObject(row, "outcome",
                            strcmp(r->measured->outcome, "oom") == 0 ? "oom" : "ok");
    if (skipped)
        cJSON_AddNullToObject(row, "fits_predicted");
    else
        cJSON_AddBoolToObject(row, "fits_predicted", r->fits_predicted);
    cJSON_AddBoolToObject(row, "memory_close", r->memory_close);
    add_text(row, "skipped_reason", skipped ? validation_skip_name(r->skip) : NULL);
    add_text(row, "skipped_detail", skipped ? r->skip_detail : NULL);
    add_text(row, "stack", r->stack != NULL ? r->stack->name : NULL);
    cJSON *notes = cJSON_AddArrayToObject(row, "notes");
    for (const char **note = r->notes; *note != NULL; note++)
        cJSON_AddItemToArray(notes, cJSON_CreateString(*note));
    return row;
}

/* Of the four counts, those where the band of memory reaches the capacity. */
static void add_close(cJSON *o, const struct validation *v) {
    cJSON_AddNumberToObject(o, "measured_fits_predicted_fits_close", (double)v->close[1][1]);
    cJSON_AddNumberToObject(o, "measured_fits_predicted_out_of_memory_close",
                            (double)v->close[1][0]);
    cJSON_AddNumberToObject(o, "measured_out_of_memory_predicted_fits_close",
                            (double)v->close[0][1]);
    cJSON_AddNumberToObject(o, "measured_out_of_memory_predicted_out_of_memory_close",
                            (double)v->close[0][0]);
}

static const char *none_text(const struct validation *v) {
    return arena_format(v->arena, "none of %lld row%s could be simulated: each says why",
                        (long long)v->all.rows, v->all.rows == 1 ? "" : "s");
}

static cJSON *to_json(const struct validation *v) {
    cJSON *o = cJSON_CreateObject(), *rows = cJSON_AddArrayToObject(o, "rows");
    for (int64_t i = 0; i < v->runs.count; i++)
        cJSON_AddItemToArray(rows, row_json(&v->rows[i]));
    cJSON *warnings = cJSON_AddArrayToObject(o, "warnings");
    for (const char **warning = validation_doubts(v); *warning != NULL; warning++)
        cJSON_AddItemToArray(warnings, cJSON_CreateString(*warning));
    if (v->all.simulated == 0) cJSON_AddItemToArray(warnings, cJSON_CreateString(none_text(v)));
    cJSON *ignored = cJSON_AddArrayToObject(o, "ignored_columns");
    for (int64_t i = 0; v->runs.notes[i] != NULL; i++)
        cJSON_AddItemToArray(ignored, cJSON_CreateString(v->runs.notes[i]));
    cJSON *groups = cJSON_AddArrayToObject(o, "groups");
    for (int64_t i = 0; i < v->group_count; i++) {
        cJSON *group = cJSON_CreateObject();
        cJSON_AddStringToObject(group, "source", v->groups[i].source);
        add_summary(group, &v->groups[i]);
        cJSON_AddItemToArray(groups, group);
    }
    cJSON *summary = cJSON_AddObjectToObject(o, "summary");
    add_summary(summary, &v->all);
    add_summary(cJSON_AddObjectToObject(o, "text"), &v->text);
    add_summary(cJSON_AddObjectToObject(o, "multimodal"), &v->multimodal);
    cJSON *pairs = cJSON_AddObjectToObject(summary, "pairs");
    cJSON_AddNumberToObject(pairs, "pairs", (double)v->pairs.pairs);
    cJSON_AddNumberToObject(pairs, "sources", (double)v->pairs.sources);
    cli_add_number(pairs, "log_error_rms", v->pairs.rms);
    cli_add_number(pairs, "log_error_median", v->pairs.median);
    cli_add_number(pairs, "log_error_p80", v->pairs.p80);
    cJSON *confusion = cJSON_AddObjectToObject(summary, "fits");
    add_close(confusion, v);
    cJSON_AddNumberToObject(confusion, "measured_fits_predicted_fits", (double)v->confusion[1][1]);
    cJSON_AddNumberToObject(confusion, "measured_fits_predicted_out_of_memory",
                            (double)v->confusion[1][0]);
    cJSON_AddNumberToObject(confusion, "measured_out_of_memory_predicted_fits",
                            (double)v->confusion[0][1]);
    cJSON_AddNumberToObject(confusion, "measured_out_of_memory_predicted_out_of_memory",
                            (double)v->confusion[0][0]);
    return o;
}

/* ---- text ---- */

static struct cli_cell percent(double fraction, int width, bool sign) {
    return cli_cell(fraction * 100, width, 1, sign);
}

static void print_group(const struct validation_group *g, const char *name) {
    printf("  %-40.40s %4ld of %4ld", name, (long)g->simulated, (long)g->rows);
    const struct error_statistics *s = &g->time;
    if (s->count > 0)
        printf("  mean %s %%, by case %s %%, median %s %%, p90 %s %%, worst %s %%, signed %s %%, "
               "in band %3.0f %%",
               percent(s->mean_abs, 5, false).text,
               percent(g->time_by_case.mean_abs, 5, false).text,
               percent(s->median_abs, 5, false).text, percent(s->p90_abs, 5, false).text,
               percent(s->worst, 6, true).text, percent(s->mean_signed, 6, true).text,
               g->band_coverage * 100);
    if (g->memory.count > 0) printf(", memory %s %%", percent(g->memory.mean_abs, 0, false).text);
    if (g->memory_of[READING_DEVICE].count > 0)
        printf(", memory of the card %s %%",
               percent(g->memory_of[READING_DEVICE].mean_abs, 0, false).text);
    putchar('\n');
}

static void print_skipped(const struct validation_row *r, const char *file) {
    printf("  %-46.46s skipped: %s\n", r->measured->row_id, validation_skip_name(r->skip));
    if (r->skip_detail != NULL)
        printf("      %s%s%s\n", file != NULL ? file : "", file != NULL ? " " : "", r->skip_detail);
}

static void print_row(const struct validation_row *r) {
    printf("%c %-46.46s", r->calibrated_on ? '*' : ' ', r->measured->row_id);
    if (isnan(r->measured->iter_time_s))
        printf(" %12s %12.4g %9s", "", r->predicted_s, "");
    else
        printf(" %12.4g %12.4g %s %%", r->measured->iter_time_s, r->predicted_s,
               percent(r->relative_error, 7, true).text);
    const bool even = r->band.below == r->band.above;
    printf(" %7s %%%c%s", band_text(r->band, "+-", even ? 1 : 0).text, r->inside_range ? ' ' : '!',
           validation_has_band(r) && !validation_in_band(r) ? " out" : "    ");
    if (!isnan(r->measured->peak_mem_GiB))
        printf(" %s %s", cli_cell(r->measured->peak_mem_GiB, 10, 1, false).text,
               cli_cell(r->predicted_peak_GiB, 10, 1, false).text);
    if (r->reading == READING_FULL_CARD) fputs("   [the card was full]", stdout);
    if (r->reading == READING_BEYOND_CARD) fputs("   [more than the card has]", stdout);
    if (!r->exact_stack) printf("   [stack %s]", r->stack->name);
    if (r->fits_predicted)
        puts(r->memory_close ? "   [close to full]" : "");
    else
        puts(r->memory_close ? "   [predicted out of memory, but close]"
                             : "   [predicted out of memory]");
}

struct shared_note {
    const char *text;
    int64_t rows;
};

static int by_text(const void *a, const void *b) {
    return strcmp(((const struct shared_note *)a)->text, ((const struct shared_note *)b)->text);
}

/* What stands for what in the rows that were simulated: each once, those of a column together. */
static void print_notes(const struct validation *v) {
    struct shared_note *notes =
        arena_array(v->arena, struct shared_note, v->runs.count * MEASURED_NOTE_LIMIT + 1);
    int64_t count = 0;
    for (int64_t i = 0; i < v->runs.count; i++) {
        for (const char **note = v->rows[i].notes; *note != NULL; note++) {
            if (v->rows[i].skip != SKIP_NOTHING) break;
            int64_t at = 0;
            while (at < count && strcmp(notes[at].text, *note) != 0)
                at++;
            if (at == count) notes[count++].text = *note;
            notes[at].rows++;
        }
    }
    qsort(notes, (size_t)count, sizeof *notes, by_text);
    if (count > 0) puts("\nFilled in where a row does not say, or says what is not known");
    for (int64_t i = 0; i < count; i++)
        printf("  %4ld row%c  %s\n", (long)notes[i].rows, notes[i].rows == 1 ? ' ' : 's',
               notes[i].text);
}

static void print(const struct validation *v) {
    printf("  %-46s %12s %12s %9s %10s     %10s %10s\n", "row", "measured s", "predicted s",
           "error", "80 % band", "memory GiB", "predicted");
    const bool one_file = strcmp(v->files[0], v->files[v->runs.count - 1]) == 0;
    for (int64_t i = 0; i < v->runs.count; i++) {
        if (v->rows[i].skip == SKIP_NOTHING)
            print_row(&v->rows[i]);
        else
            print_skipped(&v->rows[i], one_file ? NULL : v->files[i]);
    }
    print_notes(v);
    puts("\nBy source (step time, rows that nothing was fitted on)");
    for (int64_t i = 0; i < v->group_count; i++)
        print_group(&v->groups[i], v->groups[i].source);
    if (v->text.rows > 0 && v->multimodal.rows > 0) {
        print_group(&v->text, "text models");
        print_group(&v->multimodal, "images, video, encoders alone");
    }
    print_group(&v->all, "all rows");
    printf("Fits: %ld of %ld that ran are predicted to fit (%ld close to full), %ld out of memory "
           "(%ld close); of %ld that did not run %ld are predicted out of memory (%ld close).\n",
           (long)v->confusion[1][1], (long)(v->confusion[1][1] + v->confusion[1][0]),
           (long)v->close[1][1], (long)v->confusion[1][0], (long)v->close[1][0],
           (long)(v->confusion[0][1] + v->confusion[0][0]), (long)v->confusion[0][0],
           (long)v->close[0][0]);
    if (v->all.time.count == 0)
        puts(v->all.simulated > 0 ? "No row has a step time to compare that nothing was fitted on."
                                  : "No row could be simulated: each says why.");
    else
        printf(
            "%.0f %% of these rows lie in their bands, which are made of the shipped rows to "
            "hold 80 %% of them; half of the bands are narrower than %s %%. "
            "out: the measured time lies outside predicted x (1 +- band). *: something was fitted "
            "on the row (%ld). !: more than %.0f %% of it is priced outside the measured "
            "range.\n",
            v->all.band_coverage * 100, percent(v->all.median_half_width, 0, false).text,
            (long)v->all.calibrated, OUTSIDE_RANGE_FRACTION * 100);
    for (const char **warning = validation_doubts(v); *warning != NULL; warning++)
        printf("warning: %s\n", *warning);
}

/* ---- the command ---- */

static bool store_rows(const struct validation *v, struct store *store, struct error *err) {
    int64_t count;
    struct validation_record *records = validation_records(v, &count);
    return store_add_validations(store, records, count, err);
}

static bool draw(const struct validation *v, const char *path, struct error *err) {
    struct plot_validation_point *points =
        arena_array(v->arena, struct plot_validation_point, v->runs.count + 1);
    int64_t count = 0;
    for (int64_t i = 0; i < v->runs.count; i++) {
        const struct validation_row *r = &v->rows[i];
        if (isnan(r->relative_error)) continue;
        points[count++] =
            (struct plot_validation_point){ r->measured->source, r->measured->iter_time_s,
                                            r->predicted_s, r->calibrated_on };
    }
    return plot_validation(path, points, count, err);
}

static int print_scenario(struct cli *cli, const char *const *paths, int64_t path_count,
                          const char *row_id) {
    struct error err = { 0 };
    struct measured_context context;
    if (!measured_context_make(&context, cli->arena, cli->scenario_options.directory, &err))
        return cli_error(&err);
    for (int64_t f = 0; f < path_count; f++) {
        struct measured_runs runs;
        if (!measured_runs_read(cli->arena, paths[f], &runs, &err)) return cli_error(&err);
        context.runs = &runs;
        for (int64_t i = 0; i < runs.count; i++) {
            if (strcmp(runs.rows[i].row_id, row_id) != 0) continue;
            struct measured_scenario scenario;
            measured_scenario_make(&context, &runs.rows[i], &scenario);
            if (scenario.skip != SKIP_NOTHING) {
                error_set(&err, "row \"%s\" is skipped: %s", row_id,
                          validation_skip_name(scenario.skip));
                if (scenario.skip_detail != NULL) error_hint(&err, "%s", scenario.skip_detail);
                return cli_error(&err);
            }
            for (const char **note = scenario.notes; *note != NULL; note++)
                fprintf(stderr, "note: %s\n", *note);
            if (!scenario.exact_stack && scenario.stack != NULL)
                fprintf(stderr,
                        "note: %s stands in for the run's own stack: validate's band is wider than "
                        "run's\n",
                        scenario.stack->name);
            cli_print_json(scenario.document);
            return EXIT_DONE;
        }
    }
    error_set(&err, "there is no row \"%s\"", row_id);
    return cli_error(&err);
}

/* Before a database is opened, which may be of an older version and is brought up to date then. */
static bool can_read(struct cli *cli, const char *const *paths, int64_t path_count,
                     struct error *err) {
    for (int64_t f = 0; f < path_count; f++) {
        struct measured_runs runs;
        if (!measured_runs_read(cli->arena, paths[f], &runs, err)) return false;
    }
    return true;
}

/* The page of the shipped rows shows the unseen ones too. */
static bool print_page(struct cli *cli, const struct validation *v, bool shipped,
                       struct error *err) {
    const char *const *paths;
    int64_t path_count;
    struct validation *unseen = NULL;
    if (shipped) {
        if (!validation_shipped_rows(cli, ROWS_UNSEEN, &paths, &path_count, err)) return false;
        struct progress progress = cli_progress(cli, "simulating unseen", "rows");
        unseen = validation_run(&cli->scenario_options, paths, path_count, cli_progress_update,
                                &progress, err);
        cli_progress_end(&progress);
        if (unseen == NULL) return false;
    }
    validation_page(cli, v, unseen);
    if (unseen != NULL) validation_destroy(unseen);
    return true;
}

static int run(struct cli *cli, void *options) {
    const struct validate_options *o = options;
    struct error err = { 0 };
    int64_t path_count = cli->arguments.count;
    const char *const *paths = cli->arguments.positional;
    const bool shipped = path_count == 0;
    if (o->markdown && cli->common.json) {
        error_set(&err, "--markdown and --json are two forms of the answer: name one");
        return cli_error(&err);
    }
    if (shipped && !validation_shipped_rows(cli, ROWS_DEVELOPMENT, &paths, &path_count, &err))
        return cli_error(&err);
    if (o->scenario != NULL) return print_scenario(cli, paths, path_count, o->scenario);
    /* A database that cannot be written must not cost the simulations. */
    struct stop_watch watch = { 0 };
    if (o->db != NULL &&
        !(can_read(cli, paths, path_count, &err) && stop_watch_open(&watch, o->db, &err)))
        return cli_error(&err);
    struct progress progress = cli_progress(cli, "simulating", "rows");
    struct validation *v = validation_run(&cli->scenario_options, paths, path_count,
                                          cli_progress_update, &progress, &err);
    cli_progress_end(&progress);
    bool ok = v != NULL && (o->db == NULL || store_rows(v, watch.store, &err));
    stop_watch_end(&watch);
    if (v == NULL) return cli_error(&err);
    for (int64_t i = 0; v->runs.notes[i] != NULL; i++)
        fprintf(stderr, "%s\n", v->runs.notes[i]);
    ok = ok && (o->plot == NULL || draw(v, o->plot, &err));
    if (ok && cli->common.json)
        cli_print_json(to_json(v));
    else if (ok && o->markdown)
        ok = print_page(cli, v, shipped, &err);
    else if (ok)
        print(v);
    const bool none = ok && v->all.simulated == 0;
    if (none) fprintf(stderr, "error: %s\n", none_text(v));
    validation_destroy(v);
    if (!ok) return cli_error(&err);
    return none ? EXIT_FAILED : EXIT_DONE;
}

const struct command command_validate = {
    .name = "validate",
    .usage = "[ROWS.csv...]",
    .help = "simulate measured runs: measured, predicted, signed error, band, by source",
    .more = "Exit 1: no row could be simulated.\n"
            "Without files: the shipped development rows. docs/VALIDATION.md explains the format;\n"
            "`ballast validate --markdown --plot docs/images/validation.png` writes it anew.\n",
    COMMAND_OPTIONS(options_table, struct validate_options),
    .min_arguments = 0,
    .max_arguments = -1,
    .run = run,
};
