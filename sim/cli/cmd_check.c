/* cmd_check.c - validate a scenario and print it with every default filled in. */
#include "sim/cli/cli.h"

struct check_options {
    bool reference;
};

static const struct option options_table[] = {
    { "reference", OPTION_FLAG, offsetof(struct check_options, reference), NULL,
      "print docs/SCENARIOS.md, the reference of all fields and policies", NULL, 0, 0 },
};

static cJSON *assumptions_json(const struct scenario *s) {
    cJSON *list = cJSON_CreateArray();
    for (int64_t i = 0; s->assumptions[i] != NULL; i++)
        cJSON_AddItemToArray(list, cJSON_CreateString(s->assumptions[i]));
    return list;
}

static int run(struct cli *cli, void *options) {
    const struct check_options *o = options;
    struct error err = { 0 };
    if (o->reference) {
        if (!cli_refuse_overrides(cli, "--reference", &err)) return cli_error(&err);
        scenario_write_reference(stdout);
        return EXIT_DONE;
    }
    if (cli->arguments.count == 0) {
        error_set(&err, "name a scenario file, or use --reference");
        return cli_error(&err);
    }
    struct scenario *s = scenario_load(&cli->scenario_options, cli->arguments.positional[0], &err);
    if (s == NULL) return cli_error(&err);
    cJSON *resolved = scenario_resolved(s);
    if (cli->common.json) {
        cJSON *object = cJSON_CreateObject();
        cJSON_AddBoolToObject(object, "valid", true);
        cJSON_AddItemToObject(object, "resolved_scenario", resolved);
        cJSON_AddItemToObject(object, "assumptions", assumptions_json(s));
        cJSON_AddStringToObject(object, "profile_id", cost_model_profile_id(s->cost_model));
        cJSON_AddNumberToObject(object, "parameters", (double)model_parameters(s->model));
        cJSON_AddNumberToObject(object, "micro_batches_per_rank",
                                (double)s->micro_batches_per_rank);
        cli_print_json(object);
    } else {
        char *text = cJSON_Print(resolved);
        printf("%s is valid. With every default filled in:\n%s\n\n", s->path, text);
        cJSON_free(text);
        cJSON_Delete(resolved);
        printf(
            "model %s: %.2f B parameters on %ld GPUs (%s), %ld micro-batches per rank and step\n",
            s->model->name, (double)model_parameters(s->model) / 1e9,
            (long)layout_rank_count(&s->layout), cost_model_profile_id(s->cost_model),
            (long)s->micro_batches_per_rank);
        puts("assumed:");
        for (int64_t i = 0; s->assumptions[i] != NULL; i++)
            printf("  - %s\n", s->assumptions[i]);
    }
    scenario_destroy(s);
    return EXIT_DONE;
}

const struct command command_check = {
    .name = "check",
    .usage = "SCENARIO",
    .help = "validate a scenario; print it resolved, and what it assumes",
    .print_more = scenario_write_help,
    COMMAND_OPTIONS(options_table, struct check_options),
    .min_arguments = 0,
    .max_arguments = 1,
    .takes_scenario = true,
    .run = run,
};
