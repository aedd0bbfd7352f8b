/* calibrate_steps.c - fits all stacks, says what moved, writes their files. */
#include "sim/cli/calibrate_steps.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>
#include "calibrate/fit/calibrate.h"
#include "sim/cli/validation_page.h"
#include "sim/study/stack_fit.h"
#include "sim/study/validation.h"

static const char *const *split_ids(struct arena *arena, const char *text) {
    if (text == NULL) return NULL;
    const char **ids = arena_array(arena, const char *, (int64_t)strlen(text) + 2);
    int64_t count = 0;
    for (char *id = strtok(arena_text(arena, text), ","); id != NULL; id = strtok(NULL, ","))
        ids[count++] = id;
    return ids;
}

static double rounded(double value) {
    return round(value * 1e4) / 1e4;
}

static cJSON *factor_json(const struct stack_factor *f, bool attention) {
    cJSON *o = cJSON_CreateObject();
    cJSON_AddStringToObject(o, "gpu", f->gpu);
    cJSON_AddStringToObject(o, "precision", precision_name(f->precision));
    cJSON_AddNumberToObject(o, "kernel_time_factor", rounded(f->kernel_time_factor));
    if (attention)
        cJSON_AddNumberToObject(o, "attention_time_factor", rounded(f->attention_time_factor));
    cJSON_AddNumberToObject(o, "fit_error", rounded(f->fit_error));
    cJSON *rows = cJSON_AddArrayToObject(o, "calibrated_on");
    for (const char **id = f->calibrated_on; *id != NULL; id++)
        cJSON_AddItemToArray(rows, cJSON_CreateString(*id));
    return o;
}

static bool write_document(const cJSON *document, const char *path, struct error *err) {
    char *text = calibrate_curves_text(document);
    FILE *file = fopen(path, "w");
    bool ok = file != NULL && fputs(text, file) >= 0;
    ok = (file == NULL || fclose(file) == 0) && ok;
    free(text);
    return ok || error_output(err, path);
}

/* The file as it is, with the factors of this fit. */
static bool write_stack(struct cli *cli, const struct stack_fit *fit, const struct stack *stack,
                        const char *directory, struct error *err) {
    const char *from =
        arena_format(cli->arena, "%s/stacks/%s.json", cli->scenario_options.directory, stack->name);
    const char *to =
        directory == NULL ? from : arena_format(cli->arena, "%s/%s.json", directory, stack->name);
    struct json *json = json_load(from, err);
    if (json == NULL) return false;
    cJSON *factors = cJSON_CreateArray();
    for (int64_t i = 0; i < fit->group_count; i++)
        if (fit->groups[i].stack == stack)
            cJSON_AddItemToArray(factors,
                                 factor_json(&fit->groups[i].factor, stack->attention_fitted));
    cJSON *root = cJSON_Duplicate(json_root(json), true);
    json_destroy(json);
    if (!cJSON_ReplaceItemInObjectCaseSensitive(root, "factors", factors)) {
        cJSON_Delete(factors);
        cJSON_Delete(root);
        return error_set(err, "%s has no \"factors\" to write", from);
    }
    const bool ok = write_document(root, to, err);
    cJSON_Delete(root);
    return ok;
}

static void print_table(const struct stack_fit *fit) {
    printf("  %-26s %-7s %-5s %5s %16s %16s %9s\n", "stack", "GPU", "", "rows", "kernels",
           "attention", "error");
    for (int64_t i = 0; i < fit->group_count; i++) {
        const struct stack_fit_group *g = &fit->groups[i];
        printf("  %-26s %-7s %-5s %5lld %7.3f -> %5.3f", g->stack->name, g->factor.gpu,
               precision_name(g->factor.precision), (long long)g->row_count, g->before_kernel,
               g->factor.kernel_time_factor);
        if (g->stack->attention_fitted)
            printf(" %7.3f -> %5.3f", g->before_attention, g->factor.attention_time_factor);
        else
            printf(" %16s", "");
        printf(" %7.1f %%\n", 100 * g->factor.fit_error);
    }
    for (int64_t i = 0; i < fit->skip_count; i++)
        printf("  %s left out: %s\n", fit->skips[i].row_id, fit->skips[i].reason);
}

static void print_json(const struct stack_fit *fit) {
    cJSON *o = cJSON_CreateObject(), *groups = cJSON_AddArrayToObject(o, "factors");
    for (int64_t i = 0; i < fit->group_count; i++) {
        const struct stack_fit_group *g = &fit->groups[i];
        cJSON *row = factor_json(&g->factor, true);
        cJSON_AddStringToObject(row, "stack", g->stack->name);
        cJSON_AddNumberToObject(row, "kernel_time_factor_before", g->before_kernel);
        cJSON_AddNumberToObject(row, "attention_time_factor_before", g->before_attention);
        cJSON_AddItemToArray(groups, row);
    }
    cJSON *skips = cJSON_AddArrayToObject(o, "skipped");
    for (int64_t i = 0; i < fit->skip_count; i++) {
        cJSON *row = cJSON_CreateObject();
        cJSON_AddStringToObject(row, "row_id", fit->skips[i].row_id);
        cJSON_AddStringToObject(row, "reason", fit->skips[i].reason);
        cJSON_AddItemToArray(skips, row);
    }
    cli_print_json(o);
}

int calibrate_steps(struct cli *cli, const char *path, const char *row_ids, const char *directory) {
    struct error err = { 0 };
    struct progress progress = cli_progress(cli, "fitting", "stacks");
    struct stack_fit *fit =
        stack_fit_run(cli->arena, &cli->scenario_options, path, split_ids(cli->arena, row_ids),
                      cli_progress_update, &progress, &err);
    cli_progress_end(&progress);
    if (fit == NULL) return cli_error(&err);
    for (int64_t i = 0; i < fit->stacks.count; i++)
        if (!write_stack(cli, fit, fit->stacks.stacks[i], directory, &err)) return cli_error(&err);
    if (cli->common.json)
        print_json(fit);
    else
        print_table(fit);
    return EXIT_DONE;
}

static void print_bands(const struct bands_report *report) {
    static const char *const classes[BAND_CLASS_COUNT] = {
        [BAND_CALIBRATED] = "calibrated on the GPU",
        [BAND_RELATIVE] = "without its source's factors",
        [BAND_UNKNOWN] = "unknown by name",
    };
    puts("Rows that nothing was fitted on, in percent. The band of each comes from other sources' rows "
         "alone, and so\ndoes what prices it, but for the factor of a calibrated stack.\n");
    printf("  %-30s %5s %8s %8s %8s %16s\n", "stack", "rows", "mean", "signed", "in band",
           "half are within");
    for (int c = 0; c < BAND_CLASS_COUNT; c++)
        printf("  %-30s %5ld %8.1f %+8.1f %8.0f %16.1f\n", classes[c], (long)report->of[c].rows,
               100 * report->of[c].mean_abs, 100 * report->of[c].mean_signed,
               100 * report->of[c].coverage, 100 * report->of[c].median_half_width);
}

int calibrate_bands(struct cli *cli, const char *const *paths, int64_t path_count,
                    const char *output) {
    struct error err = { 0 };
    if (path_count == 0 &&
        !validation_shipped_rows(cli, ROWS_DEVELOPMENT, &paths, &path_count, &err))
        return cli_error(&err);
    struct progress progress = cli_progress(cli, "simulating", "rows");
    struct validation *v = validation_run(&cli->scenario_options, paths, path_count,
                                          cli_progress_update, &progress, &err);
    cli_progress_end(&progress);
    struct validation *no_factors = NULL, *no_name = NULL;
    if (v != NULL)
        no_factors = validation_run_held_out(&cli->scenario_options, paths, path_count,
                                             HOLD_OUT_SOURCE, &err);
    if (no_factors != NULL)
        no_name = validation_run_held_out(&cli->scenario_options, paths, path_count, HOLD_OUT_NAME,
                                          &err);
    struct bands_report report = { 0 };
    bool ok = no_name != NULL;
    if (ok && v->all.time.count == 0)
        ok = error_set(&err,
                       "no row was simulated that nothing was fitted on: there is no residual");
    if (ok) {
        cJSON *bands = validation_bands(v, no_factors, no_name, &report);
        ok = write_document(bands,
                            output != NULL ? output
                                           : arena_format(cli->arena, "%s/bands.json",
                                                          cli->scenario_options.directory),
                            &err);
        if (ok && cli->common.json)
            cli_print_json(bands);
        else {
            cJSON_Delete(bands);
            if (ok) print_bands(&report);
        }
    }
    validation_destroy(v);
    validation_destroy(no_factors);
    validation_destroy(no_name);
    return ok ? EXIT_DONE : cli_error(&err);
}
