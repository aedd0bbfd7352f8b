/* cmd_compare.c - scenarios or stored runs beside each other. */
#include <math.h>
#include <string.h>
#include <unistd.h>
#include "sim/cli/cli.h"
#include "sim/study/comparison.h"

struct compare_options {
    const char *db;
};

static const struct option options_table[] = {
    { "db", OPTION_TEXT, offsetof(struct compare_options, db), "FILE",
      "arguments that are not files are runs of this database", NULL, 0, 0 },
};

static bool load(struct cli *cli, const struct compare_options *o, const char *name,
                 struct comparison_run *run, struct error *err) {
    if (o->db != NULL && access(name, R_OK) != 0) {
        struct store *store = store_open(o->db, DB_READ, err);
        if (store == NULL) return false;
        int64_t id, count;
        bool ok = store_find_run(store, name, &id, err);
        struct run_record *record =
            ok ? store_load(store, RECORD_RUN, id, cli->arena, &count, err) : NULL;
        if (record != NULL) {
            run->record = *record;
            run->iterations =
                store_load(store, RECORD_ITERATION, id, cli->arena, &run->iteration_count, err);
        }
        store_close(store);
        run->label = record != NULL ? record->scenario_name : name;
        return run->iterations != NULL;
    }
    struct progress progress = cli_progress(cli, "replaying", "steps");
    struct replay_options replay = { .progress = cli_progress_update,
                                     .progress_context = &progress };
    struct execution *e = execution_run(&cli->scenario_options, name, &replay, err);
    cli_progress_end(&progress);
    if (e == NULL) return false;
    execution_record(e, &cli->provenance, cli->arena, &run->record);
    run->label = run->record.scenario_name = arena_text(cli->arena, e->scenario->name);
    run->iteration_count = e->replay->iteration_count;
    struct iteration_record *iterations =
        arena_array(cli->arena, struct iteration_record, run->iteration_count);
    for (int64_t i = 0; i < run->iteration_count; i++) {
        const struct iteration_outcome *it = &e->replay->iterations[i];
        iterations[i] =
            (struct iteration_record){ .iteration_index = i,
                                       .step_time_ns = it->step_time_ns,
                                       .sample_count = it->samples,
                                       .useful_language_tokens = it->useful_language_tokens };
    }
    run->iterations = iterations;
    execution_destroy(e);
    return true;
}

static void print(const struct comparison_run *runs, const struct comparison_row *rows,
                  int64_t count) {
    puts("                                          GPU-days    days    step s     MFU   memory    "
         "      speed-up   against the first");
    /* The first run's size decides for the whole table, so that its columns compare. */
    int gpu_decimals = cli_decimals(runs[0].record.gpu_days, 2),
        day_decimals = cli_decimals(runs[0].record.total_days, 3);
    for (int64_t i = 0; i < count; i++) {
        const struct run_record *r = &runs[i].record;
        printf("%ld  %-38.38s %8.*f %7.*f %9.3f %6.1f %%  %-14s", (long)i + 1, runs[i].label,
               gpu_decimals, r->gpu_days, day_decimals, r->total_days, r->step_time_mean_ms / 1e3,
               r->mfu_fraction * 100, r->verdict);
        if (i > 0)
            printf("  %6.3f x   %+.1f %%, %s%s", rows[i].speedup, rows[i].delta_fraction * 100,
                   comparison_verdict_name(rows[i].verdict), rows[i].paired ? " (same steps)" : "");
        putchar('\n');
    }
    int part_decimals = gpu_decimals > 2 ? gpu_decimals + 1 : gpu_decimals;
    printf("\nCauses, in GPU-days\n  %-24s", "");
    for (int64_t i = 0; i < count; i++)
        printf("  %10s %ld%s", "run", (long)i + 1, i > 0 ? "     delta" : "");
    putchar('\n');
    for (int part = 0; part < COMPARISON_PARTS; part++) {
        printf("  %-24s", comparison_part_names[part]);
        for (int64_t i = 0; i < count; i++) {
            printf("  %12.*f", part_decimals, rows[i].parts_gpu_days[part]);
            if (i > 0) printf("  %+8.*f", part_decimals, rows[i].parts_delta_gpu_days[part]);
        }
        putchar('\n');
    }
    puts("\nsure: beyond the randomness of the data and the error band; likely: beyond the "
         "randomness; open: neither.");
}

static cJSON *to_json(const struct comparison_run *runs, const struct comparison_row *rows,
                      int64_t count) {
    cJSON *o = cJSON_CreateObject(), *list = cJSON_AddArrayToObject(o, "runs");
    for (int64_t i = 0; i < count; i++) {
        const struct run_record *r = &runs[i].record;
        cJSON *row = cJSON_CreateObject();
        cJSON_AddStringToObject(row, "name", runs[i].label);
        cJSON_AddNumberToObject(row, "gpu_days", r->gpu_days);
        cJSON_AddNumberToObject(row, "total_days", r->total_days);
        if (!isnan(r->money_usd)) cJSON_AddNumberToObject(row, "money_usd", r->money_usd);
        cJSON_AddNumberToObject(row, "step_time_mean_ms", r->step_time_mean_ms);
        cJSON_AddNumberToObject(row, "mfu_fraction", r->mfu_fraction);
        cJSON_AddStringToObject(row, "verdict", r->verdict);
        cJSON_AddNumberToObject(row, "band_fraction", r->band_fraction);
        cJSON_AddNumberToObject(row, "speedup", rows[i].speedup);
        cJSON_AddNumberToObject(row, "delta_fraction", rows[i].delta_fraction);
        cJSON_AddBoolToObject(row, "paired", rows[i].paired);
        cJSON_AddNumberToObject(row, "confidence_fraction", rows[i].confidence_fraction);
        cJSON_AddStringToObject(row, "ranking", comparison_verdict_name(rows[i].verdict));
        cJSON *parts = cJSON_AddObjectToObject(row, "parts_gpu_days");
        for (int part = 0; part < COMPARISON_PARTS; part++)
            cJSON_AddNumberToObject(parts, comparison_part_names[part],
                                    rows[i].parts_gpu_days[part]);
        cJSON_AddItemToArray(list, row);
    }
    return o;
}

static int run(struct cli *cli, void *options) {
    const struct compare_options *o = options;
    struct error err = { 0 };
    int64_t count = cli->arguments.count;
    struct comparison_run *runs = arena_array(cli->arena, struct comparison_run, count);
    for (int64_t i = 0; i < count; i++)
        if (!load(cli, o, cli->arguments.positional[i], &runs[i], &err)) return cli_error(&err);
    struct comparison_row *rows = arena_array(cli->arena, struct comparison_row, count);
    comparison_make(runs, count, rows);
    if (cli->common.json)
        cli_print_json(to_json(runs, rows, count));
    else
        print(runs, rows, count);
    return EXIT_DONE;
}

const struct command command_compare = {
    .name = "compare",
    .usage = "A B ... [--db FILE]",
    .help = "scenarios or stored runs beside each other: deltas, causes, how sure the order is",
    COMMAND_OPTIONS(options_table, struct compare_options),
    .min_arguments = 2,
    .max_arguments = -1,
    .run = run,
};
