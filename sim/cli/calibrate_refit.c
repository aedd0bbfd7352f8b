/* calibrate_refit.c - each fit of the project over its own file, as one goes into the next: curves,
 * factors of stacks, bands. */
#include "sim/cli/calibrate_refit.h"

#include <unistd.h>
#include "calibrate/fit/calibrate.h"
#include "calibrate/fit/interconnect.h"
#include "sim/cli/calibrate_bands.h"
#include "sim/cli/calibrate_profile.h"
#include "sim/cli/calibrate_steps.h"
#include "sim/cli/validation_page.h"
#include "sim/study/measured/measured_run.h"

typedef int fit_one(struct cli *cli, const char *name, const char *measured, const char *output,
                    cJSON **json);

/* Each of the names over its file in this folder of scenarios/hardware. */
static int refit_all(struct cli *cli, const char *const *names, const char *folder, fit_one *fit,
                     cJSON *answers) {
    for (; *names != NULL; names++) {
        cJSON *answer = NULL;
        const int code = fit(cli, *names, NULL,
                             arena_format(cli->arena, "%s/hardware/%s/%s.json",
                                          cli->scenario_options.directory, folder, *names),
                             &answer);
        if (answer != NULL) cJSON_AddItemToArray(answers, answer);
        if (code != EXIT_DONE) return code;
    }
    return EXIT_DONE;
}

/* What cannot be read is told before anything is written. */
static bool check_rows(struct cli *cli, const char *steps, struct error *err) {
    const char *const *paths;
    int64_t count;
    struct measured_runs runs;
    if (!measured_runs_read(cli->arena, steps, &runs, err) ||
        !validation_shipped_rows(cli, ROWS_DEVELOPMENT, &paths, &count, err))
        return false;
    for (int64_t i = 0; i < count; i++)
        if (!measured_runs_read(cli->arena, paths[i], &runs, err)) return false;
    return true;
}

/* Answers go into `object` under these names. */
static int refit(struct cli *cli, bool profiles, const char *rows, cJSON *object) {
    const char *directory = cli->scenario_options.directory;
    int code = EXIT_DONE;
    if (profiles) {
        code = refit_all(cli, calibrate_gpu_names(), "curves", calibrate_profile,
                         cJSON_AddArrayToObject(object, "gpus"));
        if (code == EXIT_DONE)
            code = refit_all(cli, calibrate_fabric_names(), "fabrics", calibrate_fabric,
                             cJSON_AddArrayToObject(object, "fabrics"));
        if (code != EXIT_DONE) return code;
    }
    cJSON *steps = NULL, *bands = NULL;
    code = calibrate_steps(cli, rows, NULL, arena_format(cli->arena, "%s/stacks", directory), true,
                           &steps);
    if (steps != NULL) cJSON_AddItemToObject(object, "steps", steps);
    if (code != EXIT_DONE) return code;
    code =
        calibrate_bands(cli, NULL, 0, arena_format(cli->arena, "%s/bands.json", directory), &bands);
    if (bands != NULL) cJSON_AddItemToObject(object, "bands", bands);
    return code;
}

int calibrate_refit(struct cli *cli, bool profiles) {
    struct error err = { 0 };
    const char *measured =
        arena_format(cli->arena, "%s/../calibrate/measured", cli->scenario_options.directory);
    if (access(measured, F_OK) != 0) {
        error_set(&err, "%s is not there: refit reads the measurements beside a scenarios folder",
                  measured);
        error_hint(&err, "--scenarios names the scenarios folder of a copy of the repository");
        return cli_error(&err);
    }
    const char *rows = arena_format(cli->arena, "%s/steps.csv", measured);
    if (!check_rows(cli, rows, &err)) return cli_error(&err);
    cJSON *object = cJSON_CreateObject();
    const int code = refit(cli, profiles, rows, object);
    if (code == EXIT_DONE && cli->common.json)
        cli_print_json(object);
    else
        cJSON_Delete(object);
    return code;
}
