/* cmd_version.c - version, commit, libraries. */
#include <gsl/gsl_version.h>
#include <sqlite3.h>
#include <zlib.h>
#include "sim/cli/cli.h"

static int run(struct cli *cli, void *options) {
    (void)options;
    if (cli->common.json) {
        cJSON *o = cJSON_CreateObject();
        cJSON_AddStringToObject(o, "version", execution_version());
        cJSON_AddStringToObject(o, "commit", execution_commit());
        cJSON_AddStringToObject(o, "gsl", gsl_version);
        cJSON_AddStringToObject(o, "sqlite", sqlite3_libversion());
        cJSON_AddStringToObject(o, "cjson", cJSON_Version());
        cJSON_AddStringToObject(o, "zlib", zlibVersion());
        cJSON_AddStringToObject(o, "scenarios", cli->scenario_options.directory);
        cli_print_json(o);
        return EXIT_DONE;
    }
    printf("ballast %s (%s)\nGSL %s, SQLite %s, cJSON %s, zlib %s\nscenarios: %s\n",
           execution_version(), execution_commit(), gsl_version, sqlite3_libversion(),
           cJSON_Version(), zlibVersion(), cli->scenario_options.directory);
    return EXIT_DONE;
}

const struct command command_version = {
    .name = "version",
    .usage = "",
    .help = "print version, commit and libraries",
    .without_scenarios = true,
    .run = run,
};
