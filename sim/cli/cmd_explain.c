/* cmd_explain.c - the price of each operator term by term, the critical path, the next speed-up. */
#include <math.h>
#include <string.h>
#include "sim/base/units.h"
#include "sim/cli/cli.h"
#include "sim/cli/print.h"
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

static void print_layers(const struct explanation *x) {
    printf("Mean micro-batch: %.2f image tiles, %.1f language tokens, %.2f samples",
           x->tiles_per_micro_batch, x->language_tokens_per_micro_batch,
           x->samples_per_micro_batch);
    if (x->typical.video_tokens > 0) printf(", %ld video tokens", (long)x->typical.video_tokens);
    puts("\n");
    puts("Layers, ms of a mean step on one rank of a stage that holds them (communication inside "
         "included)");
    printf("  %-16s %6s %6s %10s %10s %10s %8s\n", "layer", "layers", "stages", "forward",
           "backward", "recompute", "of step");
    for (int64_t i = 0; i < x->layer_kind_count; i++) {
        const struct layer_share *l = &x->layers[i];
        printf("  %-16s %6ld %6ld %10.1f %10.1f %10.1f %6.1f %%\n", l->layer_kind,
               (long)l->layer_count, (long)l->stage_count, l->forward_s * 1e3, l->backward_s * 1e3,
               l->recompute_s * 1e3, l->step_fraction * 100);
    }
}

/* The number of a source's footnote, from 1; *count grows by a new one. */
static int64_t footnote_of(const char *source, const char **notes, int64_t *count) {
    int64_t i = 0;
    while (i < *count && strcmp(notes[i], source) != 0)
        i++;
    if (i == *count) notes[(*count)++] = source;
    return i + 1;
}

static int widest(int width, const char *text) {
    return (int)strlen(text) > width ? (int)strlen(text) : width;
}

/* Longer shapes stand on a line of their own, so that the table stays narrow. */
enum { SHAPE_WIDTH = 22 };

/* "87%", and "-" for what is not known. */
static struct cli_cell percent_cell(double fraction) {
    struct cli_cell cell = { "-" };
    if (!isnan(fraction)) snprintf(cell.text, sizeof cell.text, "%.0f%%", fraction * 100);
    return cell;
}

static void print_prices(const struct explanation *x, struct arena *arena) {
    printf(
        "\nOperators of one rank that holds the layer, most expensive first, at a micro-batch of "
        "%ld tiles and %ld language tokens",
        (long)x->typical.vision_tiles, (long)x->typical.language_tokens);
    if (x->typical.video_tokens > 0) printf(" (%ld of video)", (long)x->typical.video_tokens);
    puts("");
    const char **notes = arena_array(arena, const char *, x->price_count + 1);
    int64_t note_count = 0;
    int layer = 5, operator= 8, pass = 4;
    for (int64_t i = 0; i < x->price_count; i++) {
        layer = widest(layer, x->prices[i].layer_kind);
        operator= widest(operator, x->prices[i].operator);
        pass = widest(pass, x->prices[i].pass);
    }
    printf("  %-*s %-*s %-*s %8s %5s %9s %-7s %5s %4s %4s  %s\n", layer, "layer", operator,
           "operator", pass, "pass", "ms/step", "calls", "us each", "bound", "eff.", "band", "src",
           "shape");
    bool outside = false;
    for (int64_t i = 0; i < x->price_count; i++) {
        const struct price_record *p = &x->prices[i];
        char source[32];
        snprintf(source, sizeof source, "%s[%ld]", p->inside_range ? "" : "!",
                 (long)footnote_of(p->source, notes, &note_count));
        outside = outside || !p->inside_range;
        printf("  %-*s %-*s %-*s %8.2f %5.0f %9.1f %-7s %5s %4s %4s  %s%s%s%s\n", layer,
               p->layer_kind, operator, p->operator, pass, p->pass,
               p->price_s * p->calls_per_step * 1e3, p->calls_per_step, p->price_s * 1e6, p->bound,
               percent_cell(p->efficiency_fraction).text, percent_cell(p->band_fraction).text,
               source, strlen(p->shape) > SHAPE_WIDTH ? "\n      " : "", p->shape,
               p->network_bytes > 0 ? " " : "", p->network_bytes > 0 ? p->kind : "");
    }
    if (x->price_count == 0) {
        puts("  none: the model has no such layer, or it is not run");
        return;
    }
    puts("Sources of the prices");
    for (int64_t i = 0; i < note_count; i++)
        printf("  [%ld] %s\n", (long)i + 1, notes[i]);
    if (outside) puts("  ! outside the measured range");
}

/* Without a minus before what rounds to nothing. */
static double shown_ms(double seconds) {
    return fabs(seconds) < 0.5e-4 ? 0 : seconds * 1e3;
}

/* The counted column adds up to the step, and to run's classes group by group. */
static void print_parts(const struct explanation *x) {
    puts("\nA mean step, ms, means over all GPUs: what the operators above take, less what runs "
         "beside others (below 0: what is\nwaited for), and what other micro-batches than the "
         "typical one differ");
    printf("  %-34s %11s %11s %11s %11s\n", "part", "operators", "beside", "others", "of step");
    double sum_s = 0;
    for (int64_t i = 0; i < x->part_count; i++) {
        const struct step_part *p = &x->parts[i];
        if (p->group == STEP_IDLE)
            printf("  %-34s %11s %11s %11s %11.1f\n", p->name, "", "", "", p->counted_s * 1e3);
        else
            printf("  %-34s %11.1f %11.1f %11.1f %11.1f\n", p->name, shown_ms(p->operators_s),
                   shown_ms(p->beside_s), shown_ms(p->others_s), shown_ms(p->counted_s));
        sum_s += p->counted_s;
    }
    printf("  %-34s %11s %11s %11s %11.1f\n", "step time", "", "", "", sum_s * 1e3);
}

static void print_path(const struct explanation *x) {
    printf("\nCritical path of iteration %ld, data-parallel rank %ld: %.1f ms\n",
           (long)x->iteration, (long)x->rank, (double)x->makespan_ns / NS_PER_MS);
    for (int64_t i = 0; i < x->path_count; i++)
        printf("  stage %ld %-10s %6ld %-6s %12.1f ms %6.1f %%\n", (long)x->path[i].stage + 1,
               x->path[i].kind, (long)x->path[i].task_count,
               x->path[i].task_count == 1 ? "pass" : "passes", (double)x->path[i].ns / NS_PER_MS,
               100.0 * (double)x->path[i].ns / (double)x->makespan_ns);
}

enum { CHAIN_SHOWN = 24 };

static void print_stretch(const struct path_stretch *s) {
    double begin = (double)s->start_ns / NS_PER_MS, end = (double)s->finish_ns / NS_PER_MS;
    if (s->send) {
        printf("  %12.1f ms  send from stage %ld, micro-batch %ld, %.2f ms\n", begin,
               (long)s->stage + 1, (long)s->first_micro_batch, end - begin);
        return;
    }
    printf("  %12.1f ms  stage %ld, %ld pass%s, micro-batch %ld", begin, (long)s->stage + 1,
           (long)s->pass_count, s->pass_count == 1 ? "" : "es", (long)s->first_micro_batch);
    if (s->last_micro_batch != s->first_micro_batch) printf(" to %ld", (long)s->last_micro_batch);
    printf(", %.1f ms\n", end - begin);
}

static void print_chain(const struct explanation *x) {
    puts("\nIts chain: each begins when the one before it ends");
    for (int64_t i = 0; i < x->chain_count; i++) {
        if (x->chain_count > CHAIN_SHOWN && i == CHAIN_SHOWN / 2) {
            int64_t left_out = x->chain_count - CHAIN_SHOWN;
            printf("  %12s     %ld more (--json has all)\n", "...", (long)left_out);
            i += left_out - 1;
            continue;
        }
        print_stretch(&x->chain[i]);
    }
    if (x->gain_count == 0) return;
    puts("\nIf the kernels of one stage took 10 % less, not its waits for launches, this pipeline "
         "would take less by");
    for (int64_t i = 0; i < x->gain_count; i++)
        printf("  stage %-3ld %10.1f ms %6.2f %%\n", (long)x->gains[i].stage + 1,
               (double)x->gains[i].gain_ns / NS_PER_MS,
               100.0 * (double)x->gains[i].gain_ns / (double)x->makespan_ns);
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
    cJSON_AddNumberToObject(o, "tiles_per_micro_batch", x->tiles_per_micro_batch);
    cJSON_AddNumberToObject(o, "language_tokens_per_micro_batch",
                            x->language_tokens_per_micro_batch);
    cJSON_AddNumberToObject(o, "samples_per_micro_batch", x->samples_per_micro_batch);
    cJSON *layers = cJSON_AddArrayToObject(o, "layers");
    for (int64_t i = 0; i < x->layer_kind_count; i++) {
        const struct layer_share *l = &x->layers[i];
        cJSON *row = cJSON_CreateObject();
        cJSON_AddStringToObject(row, "layer_kind", l->layer_kind);
        cJSON_AddNumberToObject(row, "layer_count", (double)l->layer_count);
        cJSON_AddNumberToObject(row, "stage_count", (double)l->stage_count);
        cJSON_AddNumberToObject(row, "forward_ms", l->forward_s * 1e3);
        cJSON_AddNumberToObject(row, "backward_ms", l->backward_s * 1e3);
        cJSON_AddNumberToObject(row, "recompute_ms", l->recompute_s * 1e3);
        cJSON_AddNumberToObject(row, "step_fraction", l->step_fraction);
        cJSON_AddItemToArray(layers, row);
    }
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
        cJSON_AddNumberToObject(row, "step_ms", p->price_s * p->calls_per_step * 1e3);
        cJSON_AddNumberToObject(row, "flop", p->flop);
        cJSON_AddNumberToObject(row, "memory_bytes", p->memory_bytes);
        cJSON_AddNumberToObject(row, "network_bytes", p->network_bytes);
        cJSON_AddNumberToObject(row, "price_us", p->price_s * 1e6);
        cJSON_AddNumberToObject(row, "launch_us", p->launch_s * 1e6);
        cli_add_number(row, "efficiency_fraction", p->efficiency_fraction);
        cJSON_AddStringToObject(row, "bound", p->bound);
        cJSON_AddStringToObject(row, "source", p->source);
        cJSON_AddBoolToObject(row, "inside_range", p->inside_range);
        cli_add_number(row, "band_fraction", p->band_fraction);
        cJSON_AddItemToArray(prices, row);
    }
    static const char *const groups[STEP_GROUP_COUNT] = {
        [STEP_LAYERS] = "layers", [STEP_SENDS] = "sends", [STEP_REDUCTION] = "reduction",
        [STEP_UPDATE] = "update", [STEP_IDLE] = "idle",
    };
    cJSON *parts = cJSON_AddArrayToObject(o, "parts");
    for (int64_t i = 0; i < x->part_count; i++) {
        const struct step_part *p = &x->parts[i];
        cJSON *row = cJSON_CreateObject();
        cJSON_AddStringToObject(row, "name", p->name);
        cJSON_AddStringToObject(row, "group", groups[p->group]);
        cJSON_AddNumberToObject(row, "operators_ms", p->operators_s * 1e3);
        cJSON_AddNumberToObject(row, "beside_ms", p->beside_s * 1e3);
        cJSON_AddNumberToObject(row, "other_micro_batches_ms", p->others_s * 1e3);
        cJSON_AddNumberToObject(row, "counted_ms", p->counted_s * 1e3);
        cJSON_AddItemToArray(parts, row);
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
    cJSON *chain = cJSON_AddArrayToObject(o, "critical_chain");
    for (int64_t i = 0; i < x->chain_count; i++) {
        const struct path_stretch *s = &x->chain[i];
        cJSON *row = cJSON_CreateObject();
        cJSON_AddNumberToObject(row, "stage_index", (double)s->stage);
        cJSON_AddStringToObject(row, "kind", s->send ? "send" : "passes");
        cJSON_AddNumberToObject(row, "pass_count", (double)s->pass_count);
        cJSON_AddNumberToObject(row, "first_micro_batch", (double)s->first_micro_batch);
        cJSON_AddNumberToObject(row, "last_micro_batch", (double)s->last_micro_batch);
        cJSON_AddNumberToObject(row, "start_ms", (double)s->start_ns / NS_PER_MS);
        cJSON_AddNumberToObject(row, "finish_ms", (double)s->finish_ns / NS_PER_MS);
        cJSON_AddItemToArray(chain, row);
    }
    cJSON *gains = cJSON_AddArrayToObject(o, "gain_of_a_stage_10_percent_faster");
    for (int64_t i = 0; i < x->gain_count; i++) {
        cJSON *row = cJSON_CreateObject();
        cJSON_AddNumberToObject(row, "stage_index", (double)x->gains[i].stage);
        cJSON_AddNumberToObject(row, "gain_ms", (double)x->gains[i].gain_ns / NS_PER_MS);
        cJSON_AddItemToArray(gains, row);
    }
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

/* How far the step time may be off, and by what it stands, as `run` says it. */
static void add_judgement(cJSON *object, const struct execution *e) {
    cJSON_AddStringToObject(object, "scenario", e->scenario->name);
    cJSON_AddNumberToObject(object, "step_time_mean_ms", e->replay->step_time_mean_s * 1e3);
    cJSON_AddNumberToObject(object, "band_fraction", e->replay->band.above);
    cJSON_AddNumberToObject(object, "band_below_fraction", e->replay->band.below);
    cJSON_AddNumberToObject(object, "outside_fraction", e->replay->outside_fraction);
    cJSON *notes = cJSON_AddArrayToObject(object, "data_notes");
    for (int64_t i = 0; i < e->job->data_note_count; i++)
        cJSON_AddItemToArray(notes, cJSON_CreateString(e->job->data_notes[i]));
    cJSON_AddItemToObject(object, "assumptions", json_assumptions(e));
    cJSON *warnings = cJSON_AddArrayToObject(object, "warnings");
    for (int64_t i = 0; e->scenario->warnings[i] != NULL; i++)
        cJSON_AddItemToArray(warnings, cJSON_CreateString(e->scenario->warnings[i]));
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
        cJSON *object = to_json(&x);
        add_judgement(object, e);
        cli_print_json(object);
    } else {
        print_job(e);
        for (int64_t i = 0; e->scenario->warnings[i] != NULL; i++)
            printf("  warning     %s\n", e->scenario->warnings[i]);
        puts("");
        print_layers(&x);
        print_prices(&x, cli->arena);
        print_parts(&x);
        print_path(&x);
        print_chain(&x);
        print_next(&x);
        puts("");
        print_assumed(e);
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
    .takes_scenario = true,
    .run = run,
};
