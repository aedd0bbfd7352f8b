/* cmd_validate.c - measured runs beside their simulation: row by row, then by source. */
#include <math.h>
#include "sim/cli/cli.h"
#include "sim/study/validation.h"

static void add_number(cJSON *o, const char *key, double value) {
    if (isnan(value))
        cJSON_AddNullToObject(o, key);
    else
        cJSON_AddNumberToObject(o, key, value);
}

static void add_summary(cJSON *o, const struct validation_group *g) {
    cJSON_AddNumberToObject(o, "rows", (double)g->rows);
    cJSON_AddNumberToObject(o, "evaluated", (double)g->evaluated);
    cJSON_AddNumberToObject(o, "skipped", (double)(g->rows - g->evaluated));
    bool any = g->evaluated > 0;
    add_number(o, "mean_abs_relative_error", any ? g->mean_abs_relative_error : NAN);
    add_number(o, "median_abs_relative_error", any ? g->median_abs_relative_error : NAN);
    add_number(o, "p90_abs_relative_error", any ? g->p90_abs_relative_error : NAN);
    add_number(o, "worst_relative_error", any ? g->worst_relative_error : NAN);
    add_number(o, "mean_signed_relative_error", any ? g->mean_signed_relative_error : NAN);
    add_number(o, "band_coverage", any ? g->band_coverage : NAN);
    add_number(o, "mean_abs_memory_relative_error",
               g->memory_rows > 0 ? g->mean_abs_memory_error : NAN);
}

static cJSON *to_json(const struct validation *v) {
    cJSON *o = cJSON_CreateObject(), *rows = cJSON_AddArrayToObject(o, "rows");
    for (int64_t i = 0; i < v->runs.count; i++) {
        const struct validation_row *r = &v->rows[i];
        cJSON *row = cJSON_CreateObject();
        cJSON_AddStringToObject(row, "row_id", r->measured->row_id);
        add_number(row, "measured_iter_time_s", r->measured->iter_time_s);
        add_number(row, "predicted_iter_time_s", r->predicted_s);
        add_number(row, "relative_error", r->relative_error);
        add_number(row, "band_low_s", r->band_low_s);
        add_number(row, "band_high_s", r->band_high_s);
        cJSON_AddBoolToObject(row, "inside_range", r->inside_range);
        cJSON_AddBoolToObject(row, "calibrated_on", r->calibrated_on);
        add_number(row, "measured_peak_mem_GiB", r->measured->peak_mem_GiB);
        add_number(row, "predicted_peak_mem_GiB", r->predicted_peak_GiB);
        add_number(row, "memory_relative_error", r->memory_relative_error);
        cJSON_AddStringToObject(row, "outcome", r->measured->outcome);
        if (r->skip == SKIP_NOTHING)
            cJSON_AddBoolToObject(row, "fits_predicted", r->fits_predicted);
        else
            cJSON_AddNullToObject(row, "fits_predicted");
        if (r->skip != SKIP_NOTHING)
            cJSON_AddStringToObject(row, "skipped_reason", validation_skip_name(r->skip));
        else
            cJSON_AddNullToObject(row, "skipped_reason");
        cJSON_AddItemToArray(rows, row);
    }
    cJSON *groups = cJSON_AddArrayToObject(o, "groups");
    for (int64_t i = 0; i < v->group_count; i++) {
        cJSON *group = cJSON_CreateObject();
        cJSON_AddStringToObject(group, "source", v->groups[i].source);
        add_summary(group, &v->groups[i]);
        cJSON_AddItemToArray(groups, group);
    }
    cJSON *summary = cJSON_AddObjectToObject(o, "summary");
    add_summary(summary, &v->all);
    cJSON *confusion = cJSON_AddObjectToObject(summary, "fits");
    cJSON_AddNumberToObject(confusion, "measured_fits_predicted_fits", (double)v->confusion[1][1]);
    cJSON_AddNumberToObject(confusion, "measured_fits_predicted_out_of_memory",
                            (double)v->confusion[1][0]);
    cJSON_AddNumberToObject(confusion, "measured_out_of_memory_predicted_fits",
                            (double)v->confusion[0][1]);
    cJSON_AddNumberToObject(confusion, "measured_out_of_memory_predicted_out_of_memory",
                            (double)v->confusion[0][0]);
    return o;
}

static void print_group(const struct validation_group *g, const char *name) {
    printf("  %-52.52s %4ld of %4ld", name, (long)g->evaluated, (long)g->rows);
    if (g->evaluated > 0)
        printf(
            "  mean %5.1f %%, median %5.1f %%, worst %+6.1f %%, signed %+6.1f %%, in band %3.0f %%",
            g->mean_abs_relative_error * 100, g->median_abs_relative_error * 100,
            g->worst_relative_error * 100, g->mean_signed_relative_error * 100,
            g->band_coverage * 100);
    if (g->memory_rows > 0) printf(", memory %.1f %%", g->mean_abs_memory_error * 100);
    putchar('\n');
}

static void print(const struct validation *v) {
    for (int64_t i = 0; v->runs.notes[i] != NULL; i++)
        fprintf(stderr, "note: %s\n", v->runs.notes[i]);
    printf("  %-46s %12s %12s %9s %10s %10s\n", "row", "measured s", "predicted s", "error",
           "memory GiB", "predicted");
    for (int64_t i = 0; i < v->runs.count; i++) {
        const struct validation_row *r = &v->rows[i];
        if (r->skip != SKIP_NOTHING) {
            printf("  %-46.46s skipped: %s\n", r->measured->row_id, validation_skip_name(r->skip));
            if (r->skip_detail != NULL) printf("      %s\n", r->skip_detail);
            continue;
        }
        printf("  %-46.46s %12.4g %12.4g %+7.1f %%", r->measured->row_id, r->measured->iter_time_s,
               r->predicted_s, r->relative_error * 100);
        if (!isnan(r->measured->peak_mem_GiB))
            printf(" %10.1f %10.1f", r->measured->peak_mem_GiB, r->predicted_peak_GiB);
        puts(r->fits_predicted ? "" : "   [predicted out of memory]");
    }
    puts("\nBy source (step time)");
    for (int64_t i = 0; i < v->group_count; i++)
        print_group(&v->groups[i], v->groups[i].source);
    print_group(&v->all, "all rows");
    int64_t fitted = 0;
    for (int64_t i = 0; i < v->runs.count; i++)
        fitted += v->rows[i].calibrated_on;
    printf("Bands hold the errors of operator prices; something was fitted on %ld of these rows.\n",
           (long)fitted);
}

static int run(struct cli *cli, void *options) {
    (void)options;
    struct error err = { 0 };
    struct progress progress = cli_progress(cli, "simulating", "rows");
    struct validation *v = validation_run(&cli->scenario_options, cli->arguments.positional[0],
                                          cli_progress_update, &progress, &err);
    cli_progress_end(&progress);
    if (v == NULL) return cli_error(&err);
    if (cli->common.json)
        cli_print_json(to_json(v));
    else
        print(v);
    validation_destroy(v);
    return EXIT_DONE;
}

const struct command command_validate = {
    .name = "validate",
    .usage = "ROWS.csv",
    .help = "simulate measured runs: measured, predicted, signed error, by source",
    .min_arguments = 1,
    .max_arguments = 1,
    .run = run,
};
