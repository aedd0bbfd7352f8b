/* cmd_check.c - validate a scenario and print it with every default filled in. All is done that
 * comes before the first step is simulated: the samples are read and batched, the plan is made. */
#include "sim/base/units.h"
#include "sim/cli/cli.h"
#include "sim/study/action_check.h"
#include "sim/study/execution.h"

struct check_options {
    bool reference;
    const char *schedule;
};

static const struct option options_table[] = {
    { "reference", OPTION_FLAG, offsetof(struct check_options, reference), NULL,
      "print docs/SCENARIOS.md, the reference of all fields and policies", NULL, 0, 0 },
    { "schedule", OPTION_TEXT, offsetof(struct check_options, schedule), "FILE",
      "check action lists (plan --emit actions) independently of the simulator", NULL, 0, 0 },
};

static cJSON *texts_json(const char *const *texts) {
    cJSON *list = cJSON_CreateArray();
    for (int64_t i = 0; texts[i] != NULL; i++)
        cJSON_AddItemToArray(list, cJSON_CreateString(texts[i]));
    return list;
}

static cJSON *notes_json(const struct job *job) {
    cJSON *list = cJSON_CreateArray();
    for (int64_t i = 0; i < job->data_note_count; i++)
        cJSON_AddItemToArray(list, cJSON_CreateString(job->data_notes[i]));
    return list;
}

static void print_schedule(const struct action_check *check, const char *path) {
    printf("%s: schedule of %s, %ld rank%s, %ld micro-batch%s, %ld passes, %ld message%s\n", path,
           check->scenario, (long)check->rank_count, check->rank_count == 1 ? "" : "s",
           (long)check->micro_batch_count, check->micro_batch_count == 1 ? "" : "es",
           (long)check->pass_count, (long)check->message_count,
           check->message_count == 1 ? "" : "s");
    printf("makespan %.3f s", seconds_from_ns(check->makespan_ns));
    if (check->executed_ns < INT64_MAX)
        printf(", executed %.3f s", seconds_from_ns(check->executed_ns));
    if (check->lower_bound_ns > 0)
        printf(", lower bound %.3f s (gap %.1f %%)", seconds_from_ns(check->lower_bound_ns),
               100.0 * (double)(check->makespan_ns - check->lower_bound_ns) /
                   (double)check->lower_bound_ns);
    puts("");
    for (int64_t rank = 0; rank < check->rank_count; rank++)
        printf("rank %ld: peak %.2f of %.2f GiB for activations\n", (long)rank,
               check->peak_bytes[rank] / BYTES_PER_GiB,
               check->capacity_bytes[rank] / BYTES_PER_GiB);
    for (int64_t i = 0; i < check->fault_count && i < ACTION_FAULT_LIMIT; i++)
        printf("wrong: %s\n", check->faults[i]);
    if (check->fault_count == 0)
        puts("valid: every pass once, one at a time on each rank, inputs before outputs, memory "
             "within capacity");
    else
        printf("%ld fault%s\n", (long)check->fault_count, check->fault_count == 1 ? "" : "s");
    if (check->follow_count > 0)
        printf("%ld more of the same micro-batches or ranks may follow from %s: mend and check "
               "again\n",
               (long)check->follow_count, check->fault_count == 1 ? "it" : "them");
}

static cJSON *schedule_json(const struct action_check *check) {
    cJSON *o = cJSON_CreateObject();
    cJSON_AddBoolToObject(o, "valid", check->fault_count == 0);
    cJSON_AddStringToObject(o, "scenario", check->scenario);
    cJSON_AddNumberToObject(o, "pass_count", (double)check->pass_count);
    cJSON_AddNumberToObject(o, "message_count", (double)check->message_count);
    cJSON_AddNumberToObject(o, "makespan_ms", (double)check->makespan_ns * 1e-6);
    if (check->executed_ns < INT64_MAX)
        cJSON_AddNumberToObject(o, "executed_ms", (double)check->executed_ns * 1e-6);
    if (check->lower_bound_ns > 0)
        cJSON_AddNumberToObject(o, "lower_bound_ms", (double)check->lower_bound_ns * 1e-6);
    cJSON *peaks = cJSON_AddArrayToObject(o, "peak_GiB");
    for (int64_t rank = 0; rank < check->rank_count; rank++)
        cJSON_AddItemToArray(peaks, cJSON_CreateNumber(check->peak_bytes[rank] / BYTES_PER_GiB));
    cJSON *faults = cJSON_AddArrayToObject(o, "faults");
    for (int64_t i = 0; i < check->fault_count && i < ACTION_FAULT_LIMIT; i++)
        cJSON_AddItemToArray(faults, cJSON_CreateString(check->faults[i]));
    cJSON_AddNumberToObject(o, "fault_count", (double)check->fault_count);
    cJSON_AddNumberToObject(o, "follow_count", (double)check->follow_count);
    return o;
}

/* A schedule with faults is an answer, but not what was asked for: exit 1. */
static int check_schedule(struct cli *cli, const char *path, struct error *err) {
    struct arena *arena = arena_create();
    const struct action_check *check = action_check_file(arena, path, err);
    int code = EXIT_DONE;
    if (check == NULL) {
        code = cli_error(err);
    } else {
        if (cli->common.json)
            cli_print_json(schedule_json(check));
        else
            print_schedule(check, path);
        if (check->fault_count > 0) code = EXIT_FAILED;
    }
    arena_destroy(arena);
    return code;
}

static int run(struct cli *cli, void *options) {
    const struct check_options *o = options;
    struct error err = { 0 };
    if (o->reference) {
        if (cli->arguments.count > 0 || o->schedule != NULL) {
            error_set(&err, "--reference takes no %s",
                      o->schedule != NULL ? "--schedule" : "scenario");
            return cli_error(&err);
        }
        if (!cli_refuse_overrides(cli, "--reference", &err)) return cli_error(&err);
        scenario_write_reference(stdout);
        return EXIT_DONE;
    }
    if (o->schedule != NULL) {
        if (cli->arguments.count > 0) {
            error_set(&err, "--schedule takes no scenario");
            return cli_error(&err);
        }
        return check_schedule(cli, o->schedule, &err);
    }
    if (cli->arguments.count == 0) {
        error_set(&err, "name a scenario file, or use --reference or --schedule");
        return cli_error(&err);
    }
    struct execution *e =
        execution_prepare(&cli->scenario_options, cli->arguments.positional[0], &err);
    if (e == NULL) return cli_error(&err);
    const struct scenario *s = e->scenario;
    const struct dataset *data = e->job->dataset;
    cJSON *resolved = scenario_resolved(s);
    if (cli->common.json) {
        cJSON *object = cJSON_CreateObject();
        cJSON_AddBoolToObject(object, "valid", true);
        cJSON_AddItemToObject(object, "resolved_scenario", resolved);
        cJSON_AddItemToObject(object, "warnings", texts_json(s->warnings));
        cJSON_AddItemToObject(object, "assumptions", texts_json(s->assumptions));
        cJSON_AddItemToObject(object, "data_notes", notes_json(e->job));
        cJSON_AddNumberToObject(object, "samples", (double)data->sample_count);
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
            "model %s: %.2f B parameters on %ld GPU%s (%s), %ld micro-batch%s per rank and step\n",
            s->model->name, (double)model_parameters(s->model) / 1e9,
            (long)layout_rank_count(&s->layout), layout_rank_count(&s->layout) == 1 ? "" : "s",
            cost_model_profile_id(s->cost_model), (long)s->micro_batches_per_rank,
            s->micro_batches_per_rank == 1 ? "" : "es");
        printf("data set %s: %ld sample%s (%s), %ld whole step%s in a pass\n", data->name,
               (long)data->sample_count, data->sample_count == 1 ? "" : "s", data->status,
               (long)e->job->epoch_iterations, e->job->epoch_iterations == 1 ? "" : "s");
        for (int64_t i = 0; s->warnings[i] != NULL; i++)
            printf("warning: %s\n", s->warnings[i]);
        puts("assumed:");
        for (int64_t i = 0; i < e->job->data_note_count; i++)
            printf("  - %s\n", e->job->data_notes[i]);
        for (int64_t i = 0; s->assumptions[i] != NULL; i++)
            printf("  - %s\n", s->assumptions[i]);
    }
    execution_destroy(e);
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
