/* cmd_sweep.c - many scenarios, resumable; the best layouts and what they cost. */
#include <math.h>
#include <stdlib.h>
#include <string.h>
#include "sim/base/units.h"
#include "sim/cli/cli.h"
#include "sim/study/sweep.h"

struct sweep_cli_options {
    const char *db, *shard;
    int64_t jobs, top;
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
    { "no-prune", OPTION_FLAG, AT(no_prune), NULL, "price everything that is valid", NULL, 0, 0 },
    { "shard", OPTION_TEXT, AT(shard), "I/N",
      "only part I of N (from 1), without pruning and replays; `ballast merge` joins the parts",
      NULL, 0, 0 },
};

static void defaults(void *options) {
    ((struct sweep_cli_options *)options)->top = -1;
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
        return error_set(err, "--shard %s: expected I/N with I from 1 to N, for example 3/8",
                         o->shard);
    out->shard_index = index - 1;
    out->shard_count = count;
    out->prune = false;
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

/* ---- JSON ---- */

static void add_number(cJSON *object, const char *key, double value) {
    if (isnan(value))
        cJSON_AddNullToObject(object, key);
    else
        cJSON_AddNumberToObject(object, key, value);
}

static cJSON *row_json(struct sweep *sweep, int64_t index) {
    const struct sweep_row_record *r = &sweep->rows[index];
    cJSON *o = cJSON_CreateObject();
    cJSON_AddNumberToObject(o, "row_index", (double)r->row_index);
    cJSON_AddStringToObject(o, "label", sweep_label(sweep, index));
    cJSON_AddItemToObject(o, "assignments", cJSON_Parse(sweep_assignments(sweep, index)));
    cJSON_AddStringToObject(o, "status", r->status);
    cJSON_AddNumberToObject(o, "replayed_iterations", (double)r->replayed_iterations);
    cJSON_AddNumberToObject(o, "gpu_count", (double)r->gpu_count);
    add_number(o, "step_time_mean_ms", r->step_time_mean_ms);
    add_number(o, "step_time_p50_ms", r->step_time_p50_ms);
    add_number(o, "step_time_p95_ms", r->step_time_p95_ms);
    add_number(o, "total_days", r->total_days);
    add_number(o, "gpu_days", r->gpu_days);
    add_number(o, "money_usd", r->money_usd);
    add_number(o, "on_demand_usd", r->on_demand_usd);
    add_number(o, "mfu_fraction", r->mfu_fraction);
    add_number(o, "band_fraction", r->band_fraction);
    cJSON_AddStringToObject(o, "verdict", r->verdict);
    cJSON_AddNumberToObject(o, "memory_peak_bytes", (double)r->memory_peak_bytes);
    cJSON_AddNumberToObject(o, "memory_headroom_fraction",
                            1 - (double)r->memory_peak_bytes / (double)r->memory_capacity_bytes);
    cJSON_AddBoolToObject(o, "on_front", r->on_front == 1);
    if (r->run_id >= 0) cJSON_AddNumberToObject(o, "run_id", (double)r->run_id);
    return o;
}

static double rate_of(const struct sweep *sweep) {
    return sweep->race_s > 0 ? (double)sweep->evaluated / sweep->race_s : 0;
}

static cJSON *to_json(struct sweep *sweep, int64_t shown) {
    cJSON *o = cJSON_CreateObject();
    cJSON_AddStringToObject(o, "name", sweep->file->name);
    cJSON_AddNumberToObject(o, "configurations", (double)sweep->configurations);
    cJSON_AddNumberToObject(o, "valid", (double)sweep->valid);
    cJSON_AddNumberToObject(o, "duplicates", (double)sweep->duplicates);
    cJSON *rejected = cJSON_AddObjectToObject(o, "rejected");
    for (int64_t i = 0; i < sweep->rejection_count; i++)
        cJSON_AddNumberToObject(rejected, sweep->rejections[i].rule,
                                (double)sweep->rejections[i].row_count);
    cJSON_AddNumberToObject(o, "pruned", (double)sweep->pruned);
    cJSON_AddNumberToObject(o, "evaluated", (double)sweep->evaluated);
    cJSON_AddNumberToObject(o, "resumed", (double)sweep->resumed);
    cJSON_AddNumberToObject(o, "evaluated_per_second", rate_of(sweep));
    cJSON *best = cJSON_AddArrayToObject(o, "best");
    for (int64_t i = 0; i < shown; i++)
        cJSON_AddItemToArray(best, row_json(sweep, sweep->best[i]));
    return o;
}

/* ---- text ---- */

static void print_counts(const struct sweep *sweep) {
    char all[32], valid[32], evaluated[32], pruned[32], resumed[32], row[32];
    printf("%s: %s configurations, %s valid", sweep->file->name,
           cli_thousands(sweep->configurations, all), cli_thousands(sweep->valid, valid));
    if (sweep->duplicates > 0)
        printf(" (and %s equal to one of them)", cli_thousands(sweep->duplicates, row));
    printf("\n  raced %s, pruned %s", cli_thousands(sweep->evaluated, evaluated),
           cli_thousands(sweep->pruned, pruned));
    if (sweep->resumed > 0)
        printf(", known from the database %s", cli_thousands(sweep->resumed, resumed));
    putchar('\n');
    for (int64_t i = 0; i < sweep->rejection_count; i++)
        printf("  rejected %s by %s: %.*s\n", cli_thousands(sweep->rejections[i].row_count, row),
               sweep->rejections[i].rule, (int)strcspn(sweep->rejections[i].message, "\n"),
               sweep->rejections[i].message);
}

static bool has_money(const struct sweep *sweep, int64_t shown, bool on_demand) {
    for (int64_t i = 0; i < shown; i++) {
        const struct sweep_row_record *r = &sweep->rows[sweep->best[i]];
        if (!isnan(on_demand ? r->on_demand_usd : r->money_usd)) return true;
    }
    return false;
}

static void print_row(struct sweep *sweep, int64_t index, bool money, bool on_demand) {
    const struct sweep_row_record *r = &sweep->rows[index];
    printf("%9.*f %10.*f", cli_decimals(r->total_days, 2), r->total_days,
           cli_decimals(r->gpu_days, 1), r->gpu_days);
    if (money) printf(" %11.*f", cli_decimals(r->money_usd, 0), r->money_usd);
    if (on_demand) printf(" %11.*f", cli_decimals(r->on_demand_usd, 0), r->on_demand_usd);
    printf(" %9.3f", r->step_time_mean_ms / 1e3);
    if (isnan(r->step_time_p95_ms))
        printf("       -");
    else
        printf(" %7.3f", r->step_time_p95_ms / r->step_time_p50_ms);
    printf(" %5.1f %% %4.0f %% %6.1f %% %6ld%s  %s\n", r->mfu_fraction * 100,
           r->band_fraction * 100,
           100 - 100 * (double)r->memory_peak_bytes / (double)r->memory_capacity_bytes,
           (long)r->replayed_iterations, r->on_front == 1 ? " *" : "  ", sweep_label(sweep, index));
}

static void print_best(struct sweep *sweep, int64_t shown) {
    static const char *const objectives[] = { "days", "GPU-days", "money" };
    bool money = has_money(sweep, shown, false), on_demand = has_money(sweep, shown, true);
    if (shown == 0) {
        puts("\nNo layout fits into memory and keeps the deadline and the budget.");
        return;
    }
    printf("\nLeast %s first (* on the Pareto front of time, money and memory)\n",
           objectives[sweep->file->objective]);
    printf("         days   GPU-days%s%s    step s p95/p50     MFU   band  memory  steps\n",
           money ? "         USD" : "", on_demand ? "   on demand" : "");
    printf("%*s                                              +-     free\n",
           (money ? 12 : 0) + (on_demand ? 12 : 0), "");
    for (int64_t i = 0; i < shown; i++) {
        printf("%3ld ", (long)i + 1);
        print_row(sweep, sweep->best[i], money, on_demand);
    }
}

static int run(struct cli *cli, void *options) {
    const struct sweep_cli_options *o = options;
    struct error err = { 0 };
    struct sweep_progress progress = { .cli = cli,
                                       .bar = cli_progress(cli, "racing", "configurations") };
    struct sweep_options sweep_options = { .scenario_options = &cli->scenario_options,
                                           .provenance = &cli->provenance,
                                           .threads = (int)o->jobs,
                                           .prune = !o->no_prune,
                                           .top = o->top,
                                           .progress = show_progress,
                                           .progress_context = &progress };
    if (!read_shard(o, &sweep_options, &err)) return cli_error(&err);
    if (o->db != NULL && (sweep_options.store = store_open(o->db, DB_WRITE, &err)) == NULL)
        return cli_error(&err);
    struct sweep *sweep = sweep_run(&sweep_options, cli->arguments.positional[0], &err);
    cli_progress_end(&progress.bar);
    if (sweep != NULL) {
        int64_t shown = sweep->top_count > 0 ? sweep->top_count : 10;
        if (shown > sweep->best_count) shown = sweep->best_count;
        if (cli->common.json) {
            cli_print_json(to_json(sweep, shown));
        } else {
            print_counts(sweep);
            print_best(sweep, shown);
            if (!cli->common.quiet)
                fprintf(stderr, "%.0f configurations raced per second\n", rate_of(sweep));
        }
    }
    bool ok = sweep != NULL;
    sweep_destroy(sweep);
    store_close(sweep_options.store);
    return ok ? EXIT_DONE : cli_error(&err);
}

static void print_more(FILE *out) {
    fputs("\nKeys of a sweep file:\n", out);
    field_table_help(&sweep_file_table, out);
}

const struct command command_sweep = {
    .name = "sweep",
    .usage = "SWEEP.json [--db FILE] [--jobs N] [--top N] [--no-prune] [--shard I/N]",
    .help = "price many layouts, replay the best, say what each costs; resumable",
    .print_more = print_more,
    COMMAND_OPTIONS(options_table, struct sweep_cli_options),
    .min_arguments = 1,
    .max_arguments = 1,
    .takes_scenario = true,
    .defaults = defaults,
    .run = run,
};
