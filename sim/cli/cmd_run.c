/* cmd_run.c - simulate one scenario, store it, print the answer. */
#include "sim/cli/cli.h"
#include "sim/cli/print.h"
#include "sim/cli/stop_watch.h"

struct run_options {
    const char *db;
    int fidelity;
    int64_t threads;
};

static const char *const fidelity_names[] = { "stage", "operator", NULL };
#define AT(member) offsetof(struct run_options, member)
static const struct option options_table[] = {
    { "db", OPTION_TEXT, AT(db), "FILE", "store the results in this SQLite database", NULL, 0, 0 },
    { "fidelity", OPTION_CHOICE, AT(fidelity), "stage|operator",
      "stage (default): pipeline over layer sums; operator: one engine for all", fidelity_names, 0,
      0 },
    { "threads", OPTION_COUNT, AT(threads), "N",
      "threads; default one per core; results do not depend on it", NULL, 1, 1024 },
};

static int run(struct cli *cli, void *options) {
    const struct run_options *o = options;
    struct error err = { 0 };
    /* A database that cannot be written must not cost a simulation. */
    struct stop_watch watch = { 0 };
    if (o->db != NULL && !stop_watch_open(&watch, o->db, &err)) return cli_error(&err);
    struct store *store = watch.store;
    struct progress progress = cli_progress(cli, "replaying", "steps");
    struct replay_options replay = { .fidelity = (enum fidelity)o->fidelity,
                                     .threads = (int)o->threads,
                                     .progress = cli_progress_update,
                                     .progress_context = &progress };
    struct execution *e =
        execution_run(&cli->scenario_options, cli->arguments.positional[0], &replay, &err);
    cli_progress_end(&progress);
    if (e != NULL) e->scenario->name = cli_run_name(cli, e->scenario->name);
    int64_t run_id = -1;
    bool ok =
        e != NULL && (store == NULL || execution_store(store, e, &cli->provenance, &run_id, &err));
    if (ok && cli->common.json) {
        cJSON *answer = json_answer(e, cli->arena);
        if (run_id >= 0) cJSON_AddNumberToObject(answer, "run_id", (double)run_id);
        cli_print_json(answer);
    } else if (ok) {
        print_answer(e);
        if (run_id >= 0) fprintf(stderr, "stored as run %ld in %s\n", (long)run_id, o->db);
    }
    execution_destroy(e);
    stop_watch_end(&watch);
    return ok ? EXIT_DONE : cli_error(&err);
}

const struct command command_run = {
    .name = "run",
    .usage = "SCENARIO [--db FILE] [--fidelity stage|operator]",
    .help = "simulate a training job: time, money, memory, where the time goes",
    COMMAND_OPTIONS(options_table, struct run_options),
    .min_arguments = 1,
    .max_arguments = 1,
    .takes_scenario = true,
    .run = run,
};
