/* cmd_export.c - any stored table or view as CSV, JSON or Markdown; the digest of a database. */
#include <stdlib.h>
#include <string.h>
#include "sim/cli/cli.h"

struct export_options {
    const char *db, *run;
    int format;
    bool digest;
};

static const char *const format_names[] = { "csv", "json", "markdown", NULL };
#define AT(member) offsetof(struct export_options, member)
static const struct option options_table[] = {
    { "db", OPTION_TEXT, AT(db), "FILE", "the database", NULL, 0, 0 },
    { "run", OPTION_TEXT, AT(run), "RUN", "only this run: its number or its scenario's name", NULL,
      0, 0 },
    { "format", OPTION_CHOICE, AT(format), "csv|json|markdown", "default csv", format_names, 0, 0 },
    { "digest", OPTION_FLAG, AT(digest), NULL,
      "print the hash of all that must not differ between equal runs", NULL, 0, 0 },
};

static int run(struct cli *cli, void *options) {
    const struct export_options *o = options;
    struct error err = { 0 };
    if (o->db == NULL || (!o->digest && cli->arguments.count == 0)) {
        error_set(&err, o->db == NULL ? "name the database with --db FILE"
                                      : "name a table or view, for example run_summary");
        return cli_error(&err);
    }
    if (o->digest && (cli->arguments.count > 0 || o->run != NULL)) {
        error_set(&err, "--digest is that of the whole database: it takes no table and no --run");
        return cli_error(&err);
    }
    struct store *store = store_open(o->db, DB_READ, &err);
    if (store == NULL) return cli_error(&err);
    int64_t run_id = -1;
    bool ok = o->run == NULL || store_find_run(store, o->run, &run_id, &err);
    if (ok && o->digest) {
        char digest[65];
        ok = store_digest(store, digest, &err);
        if (ok && cli->common.json) {
            cJSON *object = cJSON_CreateObject();
            cJSON_AddStringToObject(object, "digest", digest);
            cli_print_json(object);
        } else if (ok) {
            puts(digest);
        }
    } else if (ok) {
        enum store_format format = cli->common.json ? STORE_JSON : (enum store_format)o->format;
        ok = store_export(store, cli->arguments.positional[0], run_id, format, stdout, &err);
    }
    store_close(store);
    return ok ? EXIT_DONE : cli_error(&err);
}

const struct command command_export = {
    .name = "export",
    .usage = "TABLE --db FILE [--run RUN] [--format csv|json|markdown] | --digest --db FILE",
    .help = "write a stored table or view; print a database's digest",
    COMMAND_OPTIONS(options_table, struct export_options),
    .min_arguments = 0,
    .max_arguments = 1,
    .without_scenarios = true,
    .run = run,
};
