/* cmd_explain.c - the price of each operator term by term, the critical path, the next speed-up. */
#include <math.h>
#include "sim/base/units.h"
#include "sim/cli/cli.h"
#include "sim/study/explanation.h"

struct explain_options {
    int64_t iteration;
    const char *layer;
};

#define AT(member) offsetof(struct explain_options, member)
static const struct option options_table[] = {
    { "iteration", OPTION_COUNT, AT(iteration), "N",
      "iteration whose critical path is shown (default 0)", NULL, 0, 1e9 },
    { "layer", OPTION_TEXT, AT(layer), "KIND",
      "only operators of this layer kind, e.g. \"vision block\"", NULL, 0, 0 },
};

static void print_prices(const struct explanation *x) {
    printf("Operators of one layer on one rank, at the mean micro-batch: %ld tiles, %ld language "
           "tokens, %.2f samples\n",
           (long)x->typical.vision_tiles, (long)x->typical.language_tokens,
           x->samples_per_micro_batch);
    puts("  layer            operator              pass             shape                          "
         "            calls/step    us each  launch  bound    effic.   band  source");
    for (int64_t i = 0; i < x->price_count; i++) {
        const struct price_record *p = &x->prices[i];
        printf("  %-16s %-21s %-16s %-42s %10.0f %10.1f %7.1f  %-7s %6.1f %% %4.0f %%  %s%s\n",
               p->layer_kind, p->operator, p->pass, p->shape, p->calls_per_step, p->price_s * 1e6,
               p->launch_s * 1e6, p->bound, p->efficiency_fraction * 100, p->band_fraction * 100,
               p->source, p->inside_range ? "" : " [outside measured range]");
    }
}

static void print_path(const struct explanation *x) {
    printf("\nCritical path of iteration %ld, data-parallel rank %ld: %.1f ms\n",
           (long)x->iteration, (long)x->rank, (double)x->makespan_ns / NS_PER_MS);
    for (int64_t i = 0; i < x->path_count; i++)
        printf("  stage %ld %-10s %6ld passes %12.1f ms %6.1f %%\n", (long)x->path[i].stage + 1,
               x->path[i].kind, (long)x->path[i].task_count, (double)x->path[i].ns / NS_PER_MS,
               100.0 * (double)x->path[i].ns / (double)x->makespan_ns);
}

static void print_next(const struct explanation *x) {
    puts(
        "\nWhere the next speed-up is (shares are means over all GPUs: on the slowest stage a part "
        "counts for more)");
    for (int64_t i = 0; i < x->advice_count; i++)
        printf("  %5.1f %%  %-31s %s\n", x->advice[i].step_fraction * 100, x->advice[i].name,
               x->advice[i].text);
}

static cJSON *to_json(const struct explanation *x) {
    cJSON *o = cJSON_CreateObject();
    cJSON *prices = cJSON_AddArrayToObject(o, "operators");
    for (int64_t i = 0; i < x->price_count; i++) {
        const struct price_record *p = &x->prices[i];
        cJSON *row = cJSON_CreateObject();
        cJSON_AddStringToObject(row, "layer_kind", p->layer_kind);
        cJSON_AddStringToObject(row, "operator", p->operator);
        cJSON_AddStringToObject(row, "kind", p->kind);
        cJSON_AddStringToObject(row, "pass", p->pass);
        cJSON_AddStringToObject(row, "shape", p->shape);
        cJSON_AddNumberToObject(row, "calls_per_step", p->calls_per_step);
        cJSON_AddNumberToObject(row, "flop", p->flop);
        cJSON_AddNumberToObject(row, "memory_bytes", p->memory_bytes);
        cJSON_AddNumberToObject(row, "network_bytes", p->network_bytes);
        cJSON_AddNumberToObject(row, "price_us", p->price_s * 1e6);
        cJSON_AddNumberToObject(row, "launch_us", p->launch_s * 1e6);
        cJSON_AddNumberToObject(row, "efficiency_fraction", p->efficiency_fraction);
        cJSON_AddStringToObject(row, "bound", p->bound);
        cJSON_AddStringToObject(row, "source", p->source);
        cJSON_AddBoolToObject(row, "inside_range", p->inside_range);
        cJSON_AddNumberToObject(row, "band_fraction", p->band_fraction);
        cJSON_AddItemToArray(prices, row);
    }
    cJSON *path = cJSON_AddArrayToObject(o, "critical_path");
    for (int64_t i = 0; i < x->path_count; i++) {
        cJSON *row = cJSON_CreateObject();
        cJSON_AddNumberToObject(row, "stage_index", (double)x->path[i].stage);
        cJSON_AddStringToObject(row, "kind", x->path[i].kind);
        cJSON_AddNumberToObject(row, "task_count", (double)x->path[i].task_count);
        cJSON_AddNumberToObject(row, "time_ms", (double)x->path[i].ns / NS_PER_MS);
        cJSON_AddItemToArray(path, row);
    }
    cJSON_AddNumberToObject(o, "makespan_ms", (double)x->makespan_ns / NS_PER_MS);
    cJSON *advice = cJSON_AddArrayToObject(o, "next_speed_up");
    for (int64_t i = 0; i < x->advice_count; i++) {
        cJSON *row = cJSON_CreateObject();
        cJSON_AddStringToObject(row, "name", x->advice[i].name);
        cJSON_AddNumberToObject(row, "step_fraction", x->advice[i].step_fraction);
        cJSON_AddStringToObject(row, "text", x->advice[i].text);
        cJSON_AddItemToArray(advice, row);
    }
    return o;
}

static int run(struct cli *cli, void *options) {
    const struct explain_options *o = options;
    struct error err = { 0 };
    struct progress progress = cli_progress(cli, "replaying", "steps");
    struct replay_options replay = { .progress = cli_progress_update,
                                     .progress_context = &progress };
    struct execution *e =
        execution_run(&cli->scenario_options, cli->arguments.positional[0], &replay, &err);
    cli_progress_end(&progress);
    struct explanation x;
    if (e == NULL || !explanation_make(e, o->iteration, o->layer, cli->arena, &x, &err)) {
        execution_destroy(e);
        return cli_error(&err);
    }
    if (cli->common.json) {
        cli_print_json(to_json(&x));
    } else {
        print_prices(&x);
        print_path(&x);
        print_next(&x);
    }
    execution_destroy(e);
    return EXIT_DONE;
}

const struct command command_explain = {
    .name = "explain",
    .usage = "SCENARIO [--iteration N] [--layer KIND]",
    .help = "price of each operator term by term, critical path, where the next speed-up is",
    COMMAND_OPTIONS(options_table, struct explain_options),
    .min_arguments = 1,
    .max_arguments = 1,
    .run = run,
};
