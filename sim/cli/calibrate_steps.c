/* calibrate_steps.c - fits all stacks, says what moved, writes their files. */
#include "sim/cli/calibrate_steps.h"

#include <errno.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>
#include "calibrate/fit/calibrate.h"
#include "sim/base/output_draft.h"
#include "sim/study/measured/stack_fit.h"

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
    if (f->runs == NULL) return o;
    cJSON *runs = cJSON_AddArrayToObject(o, "calibrated_runs");
    for (int64_t i = 0; f->calibrated_on[i] != NULL; i++) {
        const struct stack_run *r = &f->runs[i];
        const double numbers[] = { r->gpus, r->step_s, r->layers, r->hidden };
        cJSON_AddItemToArray(runs, cJSON_CreateDoubleArray(numbers, 4));
    }
    return o;
}

bool calibrate_write_document(const cJSON *document, const char *path, struct error *err) {
    char *text = calibrate_curves_text(document);
    struct output_draft draft;
    FILE *file = output_draft_stream(&draft, path, err);
    const bool written = file != NULL && fputs(text, file) >= 0;
    if (file != NULL && !written) error_output(err, path);
    free(text);
    return file != NULL && output_draft_end(&draft, written, err);
}

/* ---- files ---- */

static bool make_folder(struct arena *arena, const char *path, bool *made, struct error *err) {
    char *part = arena_text(arena, path);
    for (char *at = part + 1;; at++) {
        const char end = *at;
        if (end != '/' && end != '\0') continue;
        *at = '\0';
        if (!cli_make_folder(part, made, err)) return false;
        if (end == '\0') return true;
        *at = end;
    }
}

/* Where the list has a factor for this GPU and precision; -1: nowhere. */
static int place_of(const cJSON *factors, const struct stack_factor *f) {
    int place = 0;
    const cJSON *item;
    cJSON_ArrayForEach(item, factors) {
        const char *gpu = cJSON_GetStringValue(cJSON_GetObjectItemCaseSensitive(item, "gpu"));
        const char *precision =
            cJSON_GetStringValue(cJSON_GetObjectItemCaseSensitive(item, "precision"));
        if (strcmp(gpu, f->gpu) == 0 && strcmp(precision, precision_name(f->precision)) == 0)
            return place;
        place++;
    }
    return -1;
}

static void put_factors(cJSON *factors, const struct stack_fit *fit, const struct stack *stack) {
    for (int64_t i = 0; i < fit->group_count; i++) {
        const struct stack_factor *f = &fit->groups[i].factor;
        if (fit->groups[i].stack != stack) continue;
        const int place = place_of(factors, f);
        cJSON *o = factor_json(f, stack->attention_fitted);
        if (place < 0)
            cJSON_AddItemToArray(factors, o);
        else
            cJSON_ReplaceItemInArray(factors, place, o);
    }
}

/* The file as it is, with the factors of this fit. */
static bool write_stack(struct cli *cli, const struct stack_fit *fit, const struct stack *stack,
                        bool whole, const char *to, struct error *err) {
    const char *from =
        arena_format(cli->arena, "%s/stacks/%s.json", cli->scenario_options.directory, stack->name);
    struct json *json = json_load(from, err);
    if (json == NULL) return false;
    cJSON *root = cJSON_Duplicate(json_root(json), true);
    json_destroy(json);
    const cJSON *old = cJSON_GetObjectItemCaseSensitive(root, "factors");
    cJSON *factors =
        whole || !cJSON_IsArray(old) ? cJSON_CreateArray() : cJSON_Duplicate(old, true);
    put_factors(factors, fit, stack);
    if (old != NULL)
        cJSON_ReplaceItemInObjectCaseSensitive(root, "factors", factors);
    else
        cJSON_AddItemToObject(root, "factors", factors);
    const bool ok = calibrate_write_document(root, to, err);
    cJSON_Delete(root);
    return ok;
}

static bool has_rows(const struct stack_fit *fit, const struct stack *stack) {
    for (int64_t i = 0; i < fit->group_count; i++)
        if (fit->groups[i].stack == stack) return true;
    return false;
}

/* The paths that were written, NULL at the end; NULL: error. */
static const char **write_stacks(struct cli *cli, const struct stack_fit *fit,
                                 const char *directory, bool whole, struct error *err) {
    const char **paths = arena_array(cli->arena, const char *, fit->stacks.count + 1);
    int64_t count = 0;
    for (int64_t i = 0; i < fit->stacks.count; i++) {
        const struct stack *stack = fit->stacks.stacks[i];
        if (!whole && !has_rows(fit, stack)) continue;
        const char *to = arena_format(cli->arena, "%s/%s.json", directory, stack->name);
        if (!write_stack(cli, fit, stack, whole, to, err)) return NULL;
        paths[count++] = to;
    }
    return paths;
}

/* ---- what it says ---- */

static void print_table(const struct stack_fit *fit) {
    printf("  %-26s %-7s %-5s %5s %16s %16s %9s\n", "stack", "GPU", "", "rows", "kernels",
           "attention", "error");
    for (int64_t i = 0; i < fit->group_count; i++) {
        const struct stack_fit_group *g = &fit->groups[i];
        printf("  %-26s %-7s %-5s %5lld %s -> %s", g->stack->name, g->factor.gpu,
               precision_name(g->factor.precision), (long long)g->row_count,
               cli_cell(g->before_kernel, 7, 3, false).text,
               cli_cell(g->factor.kernel_time_factor, 5, 3, false).text);
        if (g->stack->attention_fitted)
            printf(" %s -> %s", cli_cell(g->before_attention, 7, 3, false).text,
                   cli_cell(g->factor.attention_time_factor, 5, 3, false).text);
        else
            printf(" %16s", "");
        printf(" %s %%\n", cli_cell(100 * g->factor.fit_error, 7, 1, false).text);
    }
    for (int64_t i = 0; i < fit->skip_count; i++)
        printf("  %s left out: %s\n", fit->skips[i].row_id, fit->skips[i].reason);
}

/* The error in the table is that of the rows that the factor was fitted on. */
static void print_band_notes(const struct stack_fit *fit) {
    for (int64_t i = 0; i < fit->group_count; i++) {
        const struct stack_fit_group *g = &fit->groups[i];
        if (!band_is_known(g->band)) continue;
        printf("%s on %s, %s: predictions of such runs have a band of %s %% (%s %% before), "
               "which ",
               g->stack->name, g->factor.gpu, precision_name(g->factor.precision),
               band_text(g->band, "+-", 1).text, band_text(g->band_before, "+-", 1).text);
        if (g->band.above == g->factor.fit_error)
            printf("what one factor leaves its rows off gave");
        else if (g->band_rows > 0)
            printf("%lld row%s held back from the shipped factor%s gave", (long long)g->band_rows,
                   g->band_rows == 1 ? "" : "s", g->was_calibrated ? "" : "s of other precisions");
        else
            printf("rows of other calibrated stacks gave");
        printf("; %s was held back from this one\n", g->row_count == 1
                                                         ? "its only row went into the fit and none"
                                                         : "all rows went into the fit and none");
    }
    puts("to see how far it is off, fit without some rows (--rows) and hold those against it: "
         "docs/HOWTO-CALIBRATE.md");
}

static void print_files(const char *const *paths) {
    for (; *paths != NULL; paths++)
        printf("written: %s\n", *paths);
}

static void add_texts(cJSON *o, const char *key, const char *const *texts, int64_t count) {
    cJSON *list = cJSON_AddArrayToObject(o, key);
    for (int64_t i = 0; i < count; i++)
        cJSON_AddItemToArray(list, cJSON_CreateString(texts[i]));
}

static cJSON *fit_json(const struct stack_fit *fit, const char *const *paths) {
    cJSON *o = cJSON_CreateObject(), *groups = cJSON_AddArrayToObject(o, "factors");
    for (int64_t i = 0; i < fit->group_count; i++) {
        const struct stack_fit_group *g = &fit->groups[i];
        cJSON *row = factor_json(&g->factor, true);
        cJSON_AddStringToObject(row, "stack", g->stack->name);
        cJSON_AddNumberToObject(row, "kernel_time_factor_before", g->before_kernel);
        cJSON_AddNumberToObject(row, "attention_time_factor_before", g->before_attention);
        if (band_is_known(g->band)) {
            cJSON_AddNumberToObject(row, "band_fraction", g->band.above);
            cJSON_AddNumberToObject(row, "band_below_fraction", g->band.below);
        } else {
            cJSON_AddNullToObject(row, "band_fraction");
            cJSON_AddNullToObject(row, "band_below_fraction");
        }
        cJSON_AddNumberToObject(row, "band_rows", (double)g->band_rows);
        cJSON_AddItemToArray(groups, row);
    }
    cJSON *skips = cJSON_AddArrayToObject(o, "skipped");
    for (int64_t i = 0; i < fit->skip_count; i++) {
        cJSON *row = cJSON_CreateObject();
        cJSON_AddStringToObject(row, "row_id", fit->skips[i].row_id);
        cJSON_AddStringToObject(row, "reason", fit->skips[i].reason);
        cJSON_AddItemToArray(skips, row);
    }
    int64_t path_count = 0;
    while (paths[path_count] != NULL)
        path_count++;
    add_texts(o, "files", paths, path_count);
    add_texts(o, "warnings", fit->warnings, fit->warning_count);
    return o;
}

int calibrate_steps(struct cli *cli, const char *path, const char *row_ids, const char *directory,
                    bool whole, cJSON **json) {
    struct error err = { 0 };
    if (directory == NULL) {
        error_set(&err, "name the folder for the fitted stacks with -o DIR");
        error_hint(&err, "ballast calibrate fit --steps %s -o my/stacks", path);
        return cli_error(&err);
    }
    const char *read = arena_format(cli->arena, "%s/stacks", cli->scenario_options.directory);
    if (!whole && cli_same_file(directory, read)) {
        error_set(&err,
                  "%s holds the stacks that a fit begins with: the next one would begin with "
                  "this one's, and the shipped ones would be gone",
                  directory);
        error_hint(&err, "name a folder of your own, or --whole to make every factor of these rows "
                         "alone");
        return cli_error(&err);
    }
    /* Only the attempt tells whether the folder can be made, and fitting takes long. */
    bool made = false;
    if (!make_folder(cli->arena, directory, &made, &err)) return cli_error(&err);
    struct progress progress = cli_progress(cli, "fitting", "stacks");
    struct stack_fit *fit =
        stack_fit_run(cli->arena, &cli->scenario_options, path, split_ids(cli->arena, row_ids),
                      cli_progress_update, &progress, &err);
    cli_progress_end(&progress);
    const char **paths = fit != NULL ? write_stacks(cli, fit, directory, whole, &err) : NULL;
    if (paths == NULL) {
        if (made) rmdir(directory); /* unless something was written */
        return cli_error(&err);
    }
    if (cli->common.json) {
        cli_give_json(fit_json(fit, paths), json);
        return EXIT_DONE;
    }
    for (int64_t i = 0; i < fit->warning_count; i++)
        fprintf(stderr, "warning: %s\n", fit->warnings[i]);
    print_table(fit);
    print_files(paths);
    if (!whole) print_band_notes(fit);
    return EXIT_DONE;
}
