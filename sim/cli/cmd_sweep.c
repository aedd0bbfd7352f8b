/* cmd_sweep.c - many scenarios, resumable; the best layouts and what they cost. */
#include <math.h>
#include <stdlib.h>
#include <string.h>
#include "sim/cli/stop_watch.h"
#include "sim/cli/sweep_print.h"
#include "sim/study/sweep/sweep_lock.h"
#include "sim/study/sweep/sweep_team.h"

struct sweep_cli_options {
    const char *db, *shard;
    int64_t jobs, top;
    double deadline_days, budget_usd;
    bool no_prune;
};

#define AT(member) offsetof(struct sweep_cli_options, member)
static const struct option options_table[] = {
    { "db", OPTION_TEXT, AT(db), "FILE",
      "keep the rows in this SQLite database; the same command resumes from it", NULL, 0, 0 },
    { "jobs", OPTION_COUNT, AT(jobs), "N",
      "threads; default one per core; results do not depend on it", NULL, 1, 1024 },
    { "top", OPTION_COUNT, AT(top), "N",
      "replay the best N in full (default: as the sweep says; its default is 10)", NULL, 0,
      SWEEP_TOP_LIMIT },
    { "deadline", OPTION_NUMBER, AT(deadline_days), "DAYS",
      "rank only layouts that finish in so many days (default: as the sweep says)", NULL, 1e-6,
      1e6 },
    { "budget", OPTION_NUMBER, AT(budget_usd), "USD",
      "rank only layouts that cost no more (default: as the sweep says)", NULL, 1e-6, 1e12 },
    { "no-prune", OPTION_FLAG, AT(no_prune), NULL, "price everything that is valid", NULL, 0, 0 },
    { "shard", OPTION_TEXT, AT(shard), "I/N",
      "only part I of N (from 1), without replays; `ballast merge` joins the parts", NULL, 0, 0 },
};

static void defaults(void *options) {
    struct sweep_cli_options *o = options;
    o->top = -1;
    o->deadline_days = o->budget_usd = NAN;
}

static bool read_shard(const struct sweep_cli_options *o, struct sweep_options *out,
                       struct error *err) {
    out->shard_count = 1;
    if (o->shard == NULL) return true;
    char *slash, *end = "";
    long index = strtol(o->shard, &slash, 10);
    long count = *slash == '/' ? strtol(slash + 1, &end, 10) : 0;
    if (slash == o->shard || *slash != '/' || end == slash + 1 || *end != '\0' || count < 1 ||
        count > 100000 || index < 1 || index > count)
        return error_set(
            err,
            "--shard %s: expected I/N with I from 1 to N, and N up to 100,000, for example 3/8",
            o->shard);
    if (o->db == NULL)
        return error_set(err, "--shard %s without --db: a part is worth nothing unless it is kept",
                         o->shard) ||
               error_hint(err, "add --db FILE; `ballast merge` joins the parts");
    out->shard_index = index - 1;
    out->shard_count = count;
    return true;
}

/* ---- progress ---- */

struct sweep_progress {
    struct cli *cli;
    struct progress bar;
    enum sweep_phase phase;
};

static void show_progress(void *context, enum sweep_phase phase, int64_t done, int64_t total) {
    struct sweep_progress *p = context;
    if (phase != p->phase) {
        cli_progress_end(&p->bar);
        p->bar = cli_progress(p->cli, "replaying the best", "layouts");
        p->phase = phase;
    }
    cli_progress_update(&p->bar, done, total);
}

/* ---- stopped by hand ---- */

/* Rows are stored as they come, so that there is little to do but to say so. */
static void watch_for_stop(struct stop_watch *watch, struct arena *arena, const char *db) {
    if (db == NULL) {
        watch->nothing_kept =
            "\nstopped: nothing is kept; with --db FILE the same command would go on\n";
        return;
    }
    watch->nothing_kept = "\nstopped before anything was stored\n";
    watch->kept = arena_format(
        arena, "\nstopped: what was priced is in %s; the same command goes on from there\n", db);
    watch->lock_file = sweep_lock_file(arena, db);
}

static void print_answer(struct cli *cli, struct sweep *sweep, const char *shard) {
    if (cli->common.json) {
        cJSON *object = json_sweep(sweep);
        if (shard != NULL) cJSON_AddStringToObject(object, "shard", shard);
        cli_print_json(object);
        return;
    }
    print_sweep(sweep);
    if (shard != NULL)
        printf("\nPart %s alone, raced and not replayed: what is best here may not be of the whole "
               "(`ballast merge`).\n",
               shard);
    if (!cli->common.quiet)
        fprintf(stderr, "%.0f configurations raced per second\n", sweep_rate(sweep));
}

/* Of several processes only member 0 has the database, and speaks. */
static int run_as_member(struct cli *cli, const struct sweep_cli_options *o,
                         struct sweep_team *team, struct stop_watch *watch) {
    struct error err = { 0 };
    const bool speaks = sweep_team_member(team) == 0;
    struct sweep_progress progress = { .cli = cli,
                                       .bar = cli_progress(cli, "racing", "configurations") };
    struct sweep_options sweep_options = { .scenario_options = &cli->scenario_options,
                                           .provenance = &cli->provenance,
                                           .threads = (int)o->jobs,
                                           .prune = !o->no_prune,
                                           .top = o->top,
                                           .deadline_days = o->deadline_days,
                                           .budget_usd = o->budget_usd,
                                           .progress = speaks ? show_progress : NULL,
                                           .progress_context = &progress,
                                           .lock_held = &watch->lock_held,
                                           .team = team };
    bool ok = read_shard(o, &sweep_options, &err);
    if (speaks)
        watch_for_stop(watch, cli->arena, o->db);
    else
        stop_watch_end(watch);
    if (ok && speaks) ok = stop_watch_open(watch, o->db, &err);
    sweep_options.store = watch->store;
    ok = sweep_team_agree(team, ok, &err);
    struct sweep *sweep = ok ? sweep_run(&sweep_options, cli->arguments.positional[0], &err) : NULL;
    if (speaks) cli_progress_end(&progress.bar);
    if (speaks && sweep != NULL) print_answer(cli, sweep, o->shard);
    ok = sweep != NULL;
    sweep_destroy(sweep);
    stop_watch_end(watch);
    return ok ? EXIT_DONE : speaks ? cli_error(&err) : EXIT_DONE;
}

static int run(struct cli *cli, void *options) {
    struct stop_watch watch = { 0 };
    stop_watch_hold(&watch); /* MPI has threads */
    struct sweep_team *team = sweep_team_join();
    const int code = run_as_member(cli, options, team, &watch);
    sweep_team_leave(team);
    return code;
}

static void print_more(FILE *out) {
    fputs("\nKeys of a sweep file:\n", out);
    field_table_help(&sweep_file_table, out);
}

const struct command command_sweep = {
    .name = "sweep",
    .usage = "SWEEP.json [--db FILE] [--jobs N] [--top N] [--deadline DAYS] [--budget USD] "
             "[--no-prune] [--shard I/N]",
    .help = "price many layouts, replay the best, say what each costs; resumable",
    .more = "That no configuration is valid, none fits or none keeps deadline and budget is an "
            "answer: exit 0, and "
            "`best` of\n--json is empty.\n",
    .print_more = print_more,
    COMMAND_OPTIONS(options_table, struct sweep_cli_options),
    .min_arguments = 1,
    .max_arguments = 1,
    .takes_scenario = true,
    .defaults = defaults,
    .run = run,
};
