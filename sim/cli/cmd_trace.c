/* cmd_trace.c - one iteration as a Chrome trace that Perfetto opens. */
#include <errno.h>
#include <stdio.h>
#include <string.h>
#include "results/trace.h"
#include "sim/cli/cli.h"

struct trace_options {
    const char *output;
    int64_t iteration, ranks;
    int fidelity;
};

static const char *const fidelity_names[] = { "stage", "operator", NULL };
#define AT(member) offsetof(struct trace_options, member)
static const struct option options_table[] = {
    { "output", OPTION_TEXT, AT(output), "FILE", "the trace (also -o); default stdout", NULL, 0,
      0 },
    { "iteration", OPTION_COUNT, AT(iteration), "N", "which step (default 0)", NULL, 0, 1e9 },
    { "ranks", OPTION_COUNT, AT(ranks), "N", "how many data-parallel ranks (default 4)", NULL, 1,
      1e6 },
    { "fidelity", OPTION_CHOICE, AT(fidelity), "stage|operator", "default stage", fidelity_names, 0,
      0 },
};

static void defaults(void *options) {
    *(struct trace_options *)options = (struct trace_options){ .ranks = 4 };
}

static int run(struct cli *cli, void *options) {
    const struct trace_options *o = options;
    struct error err = { 0 };
    struct execution *e =
        execution_prepare(&cli->scenario_options, cli->arguments.positional[0], &err);
    struct timeline timeline;
    bool ok = e != NULL && execution_timeline(e, o->iteration, o->ranks, (enum fidelity)o->fidelity,
                                              cli->arena, &timeline, &err);
    if (ok) {
        FILE *out = o->output != NULL ? fopen(o->output, "w") : stdout;
        const char *title =
            arena_format(cli->arena, "%s, iteration %ld", e->scenario->name, (long)o->iteration);
        ok = out != NULL ? trace_write(out, title, timeline.spans, timeline.span_count,
                                       timeline.memory, timeline.memory_count, &err)
                         : error_system(&err, "cannot write %s", o->output);
        if (out != NULL && o->output != NULL) {
            if (fclose(out) != 0 && ok) ok = error_system(&err, "cannot write %s", o->output);
            if (!ok) cli_remove_unfinished(o->output);
        }
    }
    if (ok && o->output != NULL)
        fprintf(stderr, "%ld spans written to %s\n", (long)timeline.span_count, o->output);
    execution_destroy(e);
    return ok ? EXIT_DONE : cli_error(&err);
}

const struct command command_trace = {
    .name = "trace",
    .usage = "SCENARIO [-o FILE] [--iteration N] [--ranks N]",
    .help = "write the timeline of a step as Chrome trace JSON (Perfetto opens it)",
    COMMAND_OPTIONS(options_table, struct trace_options),
    .min_arguments = 1,
    .max_arguments = 1,
    .takes_scenario = true,
    .defaults = defaults,
    .run = run,
};
