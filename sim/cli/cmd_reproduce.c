/* cmd_reproduce.c - tables of the papers beside the simulation. */
#include <math.h>
#include <string.h>
#include "sim/cli/cli.h"
#include "sim/study/reproduction.h"

struct reproduce_options {
    const char *db;
};

static const struct option options_table[] = {
    { "db", OPTION_TEXT, offsetof(struct reproduce_options, db), "FILE",
      "store runs and rows in this database", NULL, 0, 0 },
};

static void add_error(cJSON *o, const char *key, double value) {
    if (isnan(value))
        cJSON_AddNullToObject(o, key);
    else
        cJSON_AddNumberToObject(o, key, value);
}

static cJSON *to_json(const struct reproduction *r) {
    cJSON *o = cJSON_CreateObject(), *rows = cJSON_AddArrayToObject(o, "rows");
    for (int64_t i = 0; i < r->value_count; i++) {
        const struct reproduction_value *v = &r->values[i];
        cJSON *row = cJSON_CreateObject();
        cJSON_AddStringToObject(row, "id", v->id);
        cJSON_AddStringToObject(row, "table", v->table);
        cJSON_AddStringToObject(row, "quantity", v->quantity);
        cJSON_AddStringToObject(row, "unit", v->unit);
        cJSON_AddNumberToObject(row, "paper", v->paper);
        cJSON_AddNumberToObject(row, "simulated", v->simulated);
        add_error(row, "relative_error", v->relative_error);
        add_error(row, "band_fraction", v->band_fraction);
        cJSON_AddBoolToObject(row, "calibrated_on", v->calibrated_on);
        cJSON *assumptions = cJSON_AddArrayToObject(row, "assumptions");
        for (int64_t k = 0; v->assumptions[k] != NULL; k++)
            cJSON_AddItemToArray(assumptions, cJSON_CreateString(v->assumptions[k]));
        cJSON_AddStringToObject(row, "note", v->note != NULL ? v->note : "");
        cJSON_AddStringToObject(row, "scenario_file", v->scenario_file);
        cJSON_AddItemToArray(rows, row);
    }
    cJSON *summary = cJSON_AddObjectToObject(o, "summary");
    for (int64_t i = 0; i < r->summary_count; i++) {
        const struct reproduction_summary *s = &r->summaries[i];
        cJSON *table = cJSON_AddObjectToObject(summary, s->table);
        cJSON_AddNumberToObject(table, "rows", (double)s->rows);
        cJSON_AddNumberToObject(table, "rows_without_relative_error",
                                (double)s->rows_without_relative_error);
        cJSON_AddNumberToObject(table, "mean_abs_relative_error", s->mean_abs_relative_error);
        cJSON_AddNumberToObject(table, "worst_relative_error", s->worst_relative_error);
    }
    return o;
}

static void print(const struct reproduction *r) {
    const char *table = "";
    for (int64_t i = 0; i < r->value_count; i++) {
        const struct reproduction_value *v = &r->values[i];
        if (strcmp(table, v->table) != 0) {
            table = v->table;
            printf("%s%s\n  %-58s %-8s %10s %10s %9s  %s\n", i > 0 ? "\n" : "", table, "row",
                   "unit", "paper", "simulated", "error", "scenario");
        }
        char error[32] = "-";
        if (!isnan(v->relative_error))
            snprintf(error, sizeof error, "%+.1f %%", v->relative_error * 100);
        printf("  %-58s %-8s %10.5g %10.5g %9s  %s%s\n", v->id + strlen(table) + 1, v->unit,
               v->paper, v->simulated, error, v->scenario_file,
               v->calibrated_on ? " [calibrated on this row]" : "");
        if (v->note != NULL) printf("      %s\n", v->note);
    }
    putchar('\n');
    for (int64_t i = 0; i < r->summary_count; i++) {
        const struct reproduction_summary *s = &r->summaries[i];
        printf("%s: %ld rows, mean absolute error %.1f %%, worst %+.1f %% (%ld rows have no "
               "relative error)\n",
               s->table, (long)s->rows, s->mean_abs_relative_error * 100,
               s->worst_relative_error * 100, (long)s->rows_without_relative_error);
    }
    puts("Nothing is fitted to these rows unless marked; every row names the scenario that gives "
         "it.");
}

static int run(struct cli *cli, void *options) {
    const struct reproduce_options *o = options;
    struct error err = { 0 };
    struct store *store = NULL;
    if (o->db != NULL && (store = store_open(o->db, DB_WRITE, &err)) == NULL)
        return cli_error(&err);
    struct progress progress = cli_progress(cli, "replaying", "steps");
    struct reproduction *r =
        reproduction_run(&cli->scenario_options, cli->arguments.positional, cli->arguments.count,
                         store, &cli->provenance, cli_progress_update, &progress, &err);
    cli_progress_end(&progress);
    store_close(store);
    if (r == NULL) return cli_error(&err);
    if (cli->common.json)
        cli_print_json(to_json(r));
    else
        print(r);
    reproduction_destroy(r);
    return EXIT_DONE;
}

const struct command command_reproduce = {
    .name = "reproduce",
    .usage = "[PAPER[.TABLE]...] [--db FILE]",
    .help = "tables of the papers beside the simulation, with signed errors",
    COMMAND_OPTIONS(options_table, struct reproduce_options),
    .min_arguments = 0,
    .max_arguments = -1,
    .run = run,
};
