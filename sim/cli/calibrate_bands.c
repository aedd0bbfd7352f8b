/* calibrate_bands.c - makes bands.json of measured runs and says what they came to. */
#include "sim/cli/calibrate_bands.h"

#include <math.h>
#include <string.h>
#include <unistd.h>
#include "costmodel/step_band.h"
#include "sim/cli/calibrate_steps.h"
#include "sim/cli/validation_page.h"
#include "sim/study/measured/validation.h"

/* What no prediction could be read with afterwards is refused before it is written. */
static bool check_bands(struct arena *arena, const cJSON *bands, struct error *err) {
    char *text = cJSON_PrintUnformatted(bands);
    struct json *json = json_parse("bands", text, strlen(text), err);
    struct error cause = { 0 };
    struct step_bands read;
    const bool ok = json != NULL && step_bands_read(arena, json, &read, &cause);
    if (json != NULL && !ok) {
        const char *why = strstr(cause.text, "error: /");
        why = why != NULL ? why + strlen("error: /")
                          : cause.text; /* "relative_inside: must be ..." */
        error_set(err, "these rows make no bands: %.*s", (int)strcspn(why, "\n"), why);
        error_hint(err,
                   "iter_time_s is seconds of an optimizer step; `ballast validate` shows each "
                   "row beside its prediction");
    }
    json_destroy(json);
    cJSON_free(text);
    return ok;
}

/* `before`: the file whose widths stay where rows are few; NULL: none. */
static void print_bands(const struct bands_report *report, int64_t rows_with_step, int64_t all_rows,
                        const char *before, const char *output) {
    static const char *const classes[BAND_CLASS_COUNT] = {
        [BAND_CALIBRATED] = "calibrated on the GPU",
        [BAND_RELATIVE] = "without its source's factors",
        [BAND_UNKNOWN] = "unknown by name",
        [BAND_MULTIMODAL] = "text behind encoders of images",
        [BAND_ENCODERS] = "encoders alone, diffusion",
    };
    printf(
        "%lld of %lld rows have a step time and could be simulated (ballast validate says of each "
        "why not).\n",
        (long long)rows_with_step, (long long)all_rows);
    puts("Rows that nothing was fitted on, in percent. The band of each comes from other sources' "
         "rows alone, and so\ndoes what prices it, but for the factor of a calibrated stack.\n");
    printf("  %-30s %5s %8s %8s %8s %16s\n", "stack", "rows", "mean", "signed", "in band",
           "half are within");
    for (int c = 0; c < BAND_CLASS_COUNT; c++)
        if (report->of[c].rows == 0)
            printf("  %-30s %5d %8s %8s %8s %16s\n", classes[c], 0, "-", "-", "-", "-");
        else if (isnan(report->of[c].median_half_width))
            printf("  %-30s %5ld %s %s %8s %16s\n", classes[c], (long)report->of[c].rows,
                   cli_cell(100 * report->of[c].mean_abs, 8, 1, false).text,
                   cli_cell(100 * report->of[c].mean_signed, 8, 1, true).text, "-", "-");
        else
            printf("  %-30s %5ld %s %s %8.0f %s\n", classes[c], (long)report->of[c].rows,
                   cli_cell(100 * report->of[c].mean_abs, 8, 1, false).text,
                   cli_cell(100 * report->of[c].mean_signed, 8, 1, true).text,
                   100 * report->of[c].coverage,
                   cli_cell(100 * report->of[c].median_half_width, 16, 1, false).text);
    const char *gap = "\n";
    for (int c = 0; c < BAND_CLASS_COUNT; c++) {
        if (report->of[c].rows >= BAND_ROWS_LEAST) continue;
        printf("%s%s: of fewer than %d rows, so ", gap, classes[c], BAND_ROWS_LEAST);
        if (before != NULL)
            printf("widths and factors stay as in %s\n", before);
        else
            printf("widths and factors are theirs and no more\n");
        gap = "";
    }
    if (output != NULL)
        printf("\nwritten: %s\n", output);
    else
        puts("\nnothing was written: name the bands file with -o FILE");
}

/* The bands that the rows are read beside; *out stays NULL where the folder has none. */
static bool load_bands_before(struct cli *cli, struct json **out, struct error *err) {
    const char *path = arena_format(cli->arena, "%s/bands.json", cli->scenario_options.directory);
    if (access(path, F_OK) != 0) return true;
    *out = json_load(path, err);
    return *out != NULL;
}

struct made_bands {
    cJSON *bands;
    struct bands_report report;
    int64_t rows_with_step, rows;
};

/* `before`: what rows that are too few leave as it was; NULL: nothing. */
static bool make_bands(struct cli *cli, const char *const *paths, int64_t path_count,
                       const struct json *before, struct made_bands *made, struct error *err) {
    const struct scenario_options *options = &cli->scenario_options;
    struct progress progress = cli_progress(cli, "simulating", "rows");
    struct validation *v =
        validation_run(options, paths, path_count, cli_progress_update, &progress, err);
    cli_progress_end(&progress);
    struct validation *no_factors = NULL, *no_name = NULL;
    if (v != NULL)
        no_factors = validation_run_held_out(options, paths, path_count, HOLD_OUT_SOURCE, err);
    if (no_factors != NULL)
        no_name = validation_run_held_out(options, paths, path_count, HOLD_OUT_NAME, err);
    bool ok = no_name != NULL;
    if (ok && !validation_holds_back(v))
        ok =
            error_set(err, "no row was simulated that nothing was fitted on: there is no residual");
    if (ok) {
        made->bands = validation_bands(v, no_factors, no_name, &made->report);
        made->rows_with_step = v->all.time.count + v->all.calibrated;
        made->rows = v->all.rows;
        ok = check_bands(cli->arena, made->bands, err);
        if (ok && before != NULL)
            validation_bands_keep(made->bands, json_root(before), v, &made->report);
    }
    validation_destroy(v);
    validation_destroy(no_factors);
    validation_destroy(no_name);
    return ok;
}

/* Rows are priced with what the folder's file says of stacks without factors and of encoders: a
 * file of these rows alone is one that it would be made of again. */
enum { BAND_PASSES = 8 };

static bool holds(const char *path, const cJSON *bands) {
    struct error ignored = { 0 };
    struct json *read = json_load(path, &ignored);
    const bool same = read != NULL && cJSON_Compare(json_root(read), bands, true);
    json_destroy(read);
    return same;
}

static bool settle_bands(struct cli *cli, const char *const *paths, int64_t path_count,
                         const char *path, struct made_bands *made, struct error *err) {
    for (int pass = 0; pass < BAND_PASSES; pass++) {
        cJSON *written = made->bands;
        made->bands = NULL;
        bool ok = make_bands(cli, paths, path_count, NULL, made, err);
        const bool settled = ok && cJSON_Compare(written, made->bands, true);
        cJSON_Delete(written);
        if (settled) return true;
        if (!ok || !calibrate_write_document(made->bands, path, err)) return false;
    }
    return error_set(err, "%s changes whenever it is made: %d times so far", path, BAND_PASSES);
}

int calibrate_bands(struct cli *cli, const char *const *paths, int64_t path_count,
                    const char *output, cJSON **json) {
    struct error err = { 0 };
    const bool own_rows =
        path_count > 0; /* else the file is made anew, of the shipped rows alone */
    if (output != NULL && !error_check_output(&err, output)) return cli_error(&err);
    if (output != NULL &&
        !error_check_output_apart(&err, output, "rows are read", paths, path_count))
        return cli_error(&err);
    if (path_count == 0 &&
        !validation_shipped_rows(cli, ROWS_DEVELOPMENT, &paths, &path_count, &err))
        return cli_error(&err);
    struct json *before = NULL;
    if (own_rows && !load_bands_before(cli, &before, &err)) return cli_error(&err);
    const char *read = arena_format(cli->arena, "%s/bands.json", cli->scenario_options.directory);
    struct made_bands made = { 0 };
    bool ok = make_bands(cli, paths, path_count, before, &made, &err);
    const bool settles = ok && !own_rows && output != NULL && cli_same_file(output, read) &&
                         !holds(output, made.bands);
    ok = ok && (output == NULL || calibrate_write_document(made.bands, output, &err));
    if (ok && settles) ok = settle_bands(cli, paths, path_count, output, &made, &err);
    if (ok && !cli->common.json)
        print_bands(&made.report, made.rows_with_step, made.rows,
                    before != NULL ? json_name(before) : NULL, output);
    if (ok && cli->common.json)
        cli_give_json(made.bands, json);
    else
        cJSON_Delete(made.bands);
    json_destroy(before);
    return ok ? EXIT_DONE : cli_error(&err);
}
