/* cmd_bench.c - the project's speed figures. */
#include <sys/resource.h>
#include <sys/wait.h>
#include <unistd.h>
#include "sim/cli/cli.h"
#include "sim/study/bench/benchmark.h"

struct bench_options {
    int64_t repeats;
};

static const struct option options_table[] = {
    { "repeats", OPTION_COUNT, offsetof(struct bench_options, repeats), "N",
      "repeats of each figure (default and least 5)", NULL, 5, 64 },
};

static void defaults(void *options) {
    ((struct bench_options *)options)->repeats = 5;
}

static bool isolate(void (*work)(void *shared), void *shared, size_t size, double *peak_MB,
                    struct error *err) {
    int ends[2];
    if (pipe(ends) != 0) return error_system(err, "cannot make a pipe");
    pid_t child = fork();
    if (child < 0) return error_system(err, "cannot start a process");
    if (child == 0) {
        close(ends[0]);
        work(shared);
        ssize_t sent = write(ends[1], shared, size);
        _exit(sent == (ssize_t)size ? 0 : 1);
    }
    close(ends[1]);
    size_t got = 0;
    for (ssize_t n = 1; n > 0 && got<size; got += n> 0 ? (size_t)n : 0)
        n = read(ends[0], (char *)shared + got, size - got);
    close(ends[0]);
    struct rusage usage;
    int status;
    if (wait4(child, &status, 0, &usage) != child || got != size)
        return error_set(err, "a measured process stopped early");
    *peak_MB = (double)usage.ru_maxrss * 1024 / 1e6;
    return true;
}

static int run(struct cli *cli, void *options) {
    const struct bench_options *o = options;
    struct error err = { 0 };
    struct benchmark results[BENCHMARK_LIMIT];
    int64_t count =
        benchmark_run(&cli->scenario_options, o->repeats, isolate, cli->arena, results, &err);
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
    printf("medians of %ld repeats, on one core unless it says otherwise\n", (long)o->repeats);
    for (int64_t i = 0; i < count; i++)
        printf("  %-28s %12.5g   (%.5g to %.5g)\n      %s\n", results[i].key, results[i].median,
               results[i].least, results[i].most, results[i].what);
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
