/* cmd_report.c - stored or simulated runs as one HTML page. */
#include <limits.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>
#include "results/report.h"
#include "sim/base/output_draft.h"
#include "sim/cli/cli.h"

struct report_cli_options {
    const char *output, *db;
    int64_t details;
};

#define AT(member) offsetof(struct report_cli_options, member)
static const struct option options_table[] = {
    { "output", OPTION_OUTPUT, AT(output), "FILE", "the page, .html (also -o)", NULL, 0, 0 },
    { "db", OPTION_TEXT, AT(db), "FILE", "the arguments are runs of this database", NULL, 0, 0 },
    { "details", OPTION_COUNT, AT(details), "N",
      "so many of the best runs with pictures and stages (default 3)", NULL, 0, 100 },
};

static void defaults(void *options) {
    *(struct report_cli_options *)options = (struct report_cli_options){ .details = 3 };
}

struct run_list {
    struct arena *arena;
    int64_t *ids, count, capacity;
};

static void add_run(struct run_list *list, int64_t id) {
    if (list->count == list->capacity) {
        list->capacity = list->capacity > 0 ? 2 * list->capacity : 64;
        int64_t *larger = arena_array(list->arena, int64_t, list->capacity);
        if (list->count > 0) memcpy(larger, list->ids, sizeof *larger * (size_t)list->count);
        list->ids = larger;
    }
    list->ids[list->count++] = id;
}

static bool add_row(void *context, sqlite3_stmt *row, struct error *err) {
    (void)err;
    add_run(context, sqlite3_column_int64(row, 0));
    return true;
}

/* Every database begins with these words (SQLite, file format, 1.3.1). */
static bool is_database(const char *path) {
    char head[16] = "";
    FILE *in = fopen(path, "rb");
    if (in == NULL) return false;
    bool yes = fread(head, 1, sizeof head, in) == sizeof head &&
               memcmp(head, "SQLite format 3", sizeof head) == 0;
    fclose(in);
    return yes;
}

/* By its name, whatever it holds. */
static bool looks_like_database(const char *path) {
    const char *dot = strrchr(path, '.');
    return dot != NULL && (strcmp(dot, ".db") == 0 || strcmp(dot, ".sqlite") == 0);
}

/* What a browser opens as a page. */
static bool is_page_name(const char *path) {
    const char *dot = strrchr(path, '.');
    return dot != NULL && (strcmp(dot, ".html") == 0 || strcmp(dot, ".htm") == 0);
}

static bool find_runs(struct cli *cli, struct store *store, bool all, struct run_list *list,
                      struct error *err) {
    if (all) {
        if (!store_query(store, "SELECT id FROM run ORDER BY id", 0, add_row, list, err))
            return false;
        return list->count > 0 || error_set(err, "%s holds no runs", cli->arguments.positional[0]);
    }
    for (int64_t i = 0; i < cli->arguments.count; i++) {
        int64_t id;
        if (!store_find_run(store, cli->arguments.positional[i], &id, err)) return false;
        add_run(list, id);
    }
    return true;
}

/* Simulates the scenarios into a database that lives as long as the page is made. */
static bool simulate(struct cli *cli, const char *db, struct error *err) {
    struct store *store = store_open(db, DB_WRITE, err);
    bool ok = store != NULL;
    for (int64_t i = 0; ok && i < cli->arguments.count; i++) {
        struct progress progress = cli_progress(cli, "simulating", "steps");
        const struct replay_options options = { .fidelity = FIDELITY_STAGE,
                                                .progress = cli_progress_update,
                                                .progress_context = &progress };
        struct execution *e =
            execution_run(&cli->scenario_options, cli->arguments.positional[i], &options, err);
        cli_progress_end(&progress);
        int64_t id;
        ok = e != NULL && execution_store(store, e, &cli->provenance, &id, err);
        execution_destroy(e);
    }
    store_close(store);
    return ok;
}

/* ---- the database of runs that are simulated for a page ---- */

/* What a handler may touch: the file and what SQLite keeps beside it. */
enum { MADE_FILES = 4 };
static char made[MADE_FILES][PATH_MAX];

static void remove_made(void) {
    for (int i = 0; i < MADE_FILES; i++)
        unlink(made[i]);
}

static void stop(int number) {
    remove_made();
    signal(number, SIG_DFL);
    raise(number);
}

/* In TMPDIR, else in /tmp. A program that is stopped leaves nothing there. */
static bool make_database(struct error *err) {
    const char *folder = getenv("TMPDIR");
    if (folder == NULL || folder[0] == '\0') folder = "/tmp";
    if (strlen(folder) > PATH_MAX / 2)
        return error_set(err, "the folder that TMPDIR names is too long a name");
    snprintf(made[0], sizeof made[0], "%s/ballast-report-XXXXXX", folder);
    static const int signals[] = { SIGINT, SIGTERM, SIGHUP };
    for (size_t i = 0; i < sizeof signals / sizeof signals[0]; i++) {
        struct sigaction old;
        sigaction(signals[i], NULL, &old);
        if (old.sa_handler != SIG_IGN) signal(signals[i], stop); /* as under nohup */
    }
    const int descriptor = mkstemp(made[0]);
    if (descriptor < 0) return error_system(err, "cannot make a temporary database in %s", folder);
    close(descriptor);
    static const char *const beside[MADE_FILES] = { "", "-wal", "-shm", "-journal" };
    char database[sizeof made[0]];
    memcpy(database, made[0], sizeof database);
    for (int i = 1; i < MADE_FILES; i++)
        snprintf(made[i], sizeof made[i], "%.*s%s", PATH_MAX - 10, database, beside[i]);
    return true;
}

static bool write_page(struct cli *cli, const struct report_cli_options *o, const char *db,
                       const char *shown_db, bool all, int64_t *count, struct error *err) {
    struct store *store = store_open(db, DB_READ, err);
    if (store == NULL) return false;
    struct run_list list = { .arena = cli->arena };
    bool ok = find_runs(cli, store, all, &list, err);
    struct output_draft draft;
    FILE *out = ok ? output_draft_stream(&draft, o->output, err) : NULL;
    ok = out != NULL;
    if (ok) {
        const struct report_options options = { .database = shown_db,
                                                .scenarios = cli->scenario_options.directory,
                                                .detail_limit = o->details };
        ok = report_write(out, store, list.ids, list.count, &options, err);
        ok = output_draft_end(&draft, ok, err);
    }
    store_close(store);
    *count = list.count;
    return ok;
}

static int run(struct cli *cli, void *options) {
    const struct report_cli_options *o = options;
    struct error err = { 0 };
    const char *first = cli->arguments.positional[0];
    const bool given = o->db != NULL, all = !given && is_database(first);
    if (o->output == NULL) {
        error_set(&err, "name the page with --output FILE.html");
        return cli_error(&err);
    }
    if (!is_page_name(o->output)) {
        error_set(&err, "%s: the page is HTML, and its name ends in .html", o->output);
        return cli_error(&err);
    }
    if (!given && !all && looks_like_database(first)) {
        if (access(first, F_OK) != 0)
            error_set(&err, "there is no database '%s'", first);
        else if (access(first, R_OK) != 0)
            error_system(&err, "cannot read %s", first);
        else
            error_set(&err, "%s is not a database of results", first);
        return cli_error(&err);
    }
    if (all && cli->arguments.count > 1) {
        error_set(&err, "name one database, or runs of it with --db %s", first);
        return cli_error(&err);
    }
    if ((given || all) && !cli_refuse_overrides(cli, "a stored run", &err)) return cli_error(&err);
    bool ok = error_check_output_file(&err, o->output);
    const bool simulated = ok && !given && !all;
    if (simulated) {
        ok = make_database(&err) && simulate(cli, made[0], &err);
    }
    int64_t count = 0;
    const char *db = given ? o->db : all ? first : made[0];
    ok = ok && write_page(cli, o, db, simulated ? NULL : db, all || simulated, &count, &err);
    if (simulated) remove_made();
    if (!ok) return cli_error(&err);
    if (cli->common.json) {
        cli_print_output(cli, o->output, "runs", count);
    } else {
        fprintf(stderr, "%lld run%s in %s\n", (long long)count, count == 1 ? "" : "s", o->output);
    }
    return EXIT_DONE;
}

const struct command command_report = {
    .name = "report",
    .usage = "DATABASE | SCENARIO... | RUN... --db FILE -o page.html",
    .help = "write one self-contained HTML page about runs: the answer first",
    .more = "The page opens from disk and fetches nothing: table to sort and filter, pictures, "
            "assumptions,\nerror bands, and how to get each number again.\n",
    COMMAND_OPTIONS(options_table, struct report_cli_options),
    .min_arguments = 1,
    .max_arguments = -1,
    .defaults = defaults,
    .takes_scenario = true,
    .without_scenarios = true,
    .run = run,
};
