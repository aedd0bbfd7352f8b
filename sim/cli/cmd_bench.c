/* cmd_bench.c - the project's speed figures. */
#include "sim/cli/cli.h"
#include "sim/study/benchmark.h"

struct bench_options {
    int64_t repeats;
};

static const struct option options_table[] = {
    { "repeats", OPTION_COUNT, offsetof(struct bench_options, repeats), "N", "repeats of each figure (default and least 5)", NULL, 5, 64 },
};

static void defaults(void *options) {
    ((struct bench_options *)options)->repeats = 5;
}

static int run(struct cli *cli, void *options) {
    const struct bench_options *o = options;
    struct error err = { 0 };
    struct benchmark results[BENCHMARK_LIMIT];
    int64_t count = benchmark_run(&cli->scenario_options, o->repeats, cli->arena, results, &err);
    if (count < 0) return cli_error(&err);
    if (cli->common.json) {
        cJSON *object = cJSON_CreateObject();
        for (int64_t i = 0; i < count; i++)
            cJSON_AddNumberToObject(object, results[i].key, results[i].median);
        cJSON *details = cJSON_AddArrayToObject(object, "details");
        for (int64_t i = 0; i < count; i++) {
            cJSON *row = cJSON_CreateObject();
            cJSON_AddStringToObject(row, "key", results[i].key);
            cJSON_AddStringToObject(row, "what", results[i].what);
            cJSON_AddNumberToObject(row, "median", results[i].median);
            cJSON_AddNumberToObject(row, "least", results[i].least);
            cJSON_AddNumberToObject(row, "most", results[i].most);
            cJSON_AddItemToArray(details, row);
        }
        cli_print_json(object);
        return EXIT_DONE;
    }
    printf("medians of %ld repeats on one core\n", (long)o->repeats);
    for (int64_t i = 0; i < count; i++)
        printf("  %-28s %12.5g   (%.5g to %.5g)\n      %s\n", results[i].key, results[i].median, results[i].least,
               results[i].most, results[i].what);
    return EXIT_DONE;
}

const struct command command_bench = {
    .name = "bench",
    .usage = "[--repeats N]",
    .help = "measure the project's own speed",
    COMMAND_OPTIONS(options_table, struct bench_options),
    .min_arguments = 0,
    .max_arguments = 0,
    .defaults = defaults,
    .run = run,
};
