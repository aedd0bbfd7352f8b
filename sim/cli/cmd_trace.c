/* cmd_trace.c - one iteration as a Chrome trace that Perfetto opens. */
#include <errno.h>
#include <stdio.h>
#include <string.h>
#include "results/trace.h"
#include "sim/base/output_draft.h"
#include "sim/cli/cli.h"

struct trace_options {
    const char *output;
    int64_t iteration, iterations, ranks;
    int fidelity;
};

static const char *const fidelity_names[] = { "stage", "operator", NULL };
#define AT(member) offsetof(struct trace_options, member)
static const struct option options_table[] = {
    { "output", OPTION_OUTPUT, AT(output), "FILE", "the trace (also -o); default stdout", NULL, 0,
      0 },
    { "iteration", OPTION_COUNT, AT(iteration), "N", "the first step (default 0)", NULL, 0, 1e9 },
    { "iterations", OPTION_COUNT, AT(iterations), "N", "how many steps from there on (default 1)",
      NULL, 1, 1e6 },
    { "ranks", OPTION_COUNT, AT(ranks), "N",
      "how many data-parallel ranks (default 4, or all where there are fewer)", NULL, 1, 1e6 },
    { "fidelity", OPTION_CHOICE, AT(fidelity), "stage|operator", "default stage", fidelity_names, 0,
      0 },
};

static void defaults(void *options) {
    *(struct trace_options *)options = (struct trace_options){ .iterations = 1 };
}

/* A trace that no viewer opens helps nobody. */
enum { SPAN_LIMIT = 4000000 };

/* Without --ranks. */
enum { RANKS_SHOWN = 4 };

/* Steps and ranks that the scenario has; *ranks is how many are written. */
static bool check_range(const struct trace_options *o, const struct execution *e, int64_t *ranks,
                        struct error *err) {
    const int64_t most = e->job->batches.rank_count, epoch = e->job->epoch_iterations;
    *ranks = o->ranks > 0 ? o->ranks : most < RANKS_SHOWN ? most : RANKS_SHOWN;
    if (*ranks > most)
        return error_set(err, "--ranks %ld: the layout has 1 to %ld data-parallel ranks",
                         (long)*ranks, (long)most);
    if (!cli_check_step(e, o->iteration, 0, err)) return false;
    if (o->iterations > epoch - o->iteration)
        return error_set(err,
                         "--iterations %ld: from iteration %ld on, the epoch has 1 to %ld of them",
                         (long)o->iterations, (long)o->iteration, (long)(epoch - o->iteration));
    return true;
}

/* Appends the steps one after the other, each from where the one before it ended. */
static bool steps(const struct trace_options *o, const struct execution *e, struct arena *arena,
                  struct timeline *all, struct error *err) {
    int64_t offset_ns = 0, flows = 0, ranks;
    if (!check_range(o, e, &ranks, err)) return false;
    *all = (struct timeline){ 0 };
    for (int64_t k = 0; k < o->iterations; k++) {
        struct timeline one;
        if (!execution_timeline(e, o->iteration + k, ranks, (enum fidelity)o->fidelity, arena,
                                &one, err))
            return false;
        if (k == 0 && one.span_count > SPAN_LIMIT / o->iterations) {
            error_set(err, "the trace would have %ld spans, and at most %d can be opened",
                      (long)(one.span_count * o->iterations), SPAN_LIMIT);
            return error_hint(err, "ask for fewer --iterations or --ranks");
        }
        if (k == 0) {
            all->spans = arena_array(arena, struct span_record, one.span_count * o->iterations);
            all->memory =
                arena_array(arena, struct memory_point_record, one.memory_count * o->iterations);
        }
        int64_t end_ns = 0, most_flow = -1;
        for (int64_t i = 0; i < one.span_count; i++) {
            struct span_record span = one.spans[i];
            if (span.finish_ns > end_ns) end_ns = span.finish_ns;
            if (span.flow > most_flow) most_flow = span.flow;
            span.span_index = all->span_count;
            span.start_ns += offset_ns;
            span.finish_ns += offset_ns;
            if (span.flow >= 0) span.flow += flows;
            all->spans[all->span_count++] = span;
        }
        for (int64_t i = 0; i < one.memory_count; i++) {
            struct memory_point_record point = one.memory[i];
            point.time_ns += offset_ns;
            all->memory[all->memory_count++] = point;
        }
        offset_ns += end_ns;
        flows += most_flow + 1;
    }
    return true;
}

static int run(struct cli *cli, void *options) {
    const struct trace_options *o = options;
    struct error err = { 0 };
    struct execution *e =
        execution_prepare(&cli->scenario_options, cli->arguments.positional[0], &err);
    struct timeline timeline;
    bool ok = e != NULL && steps(o, e, cli->arena, &timeline, &err);
    if (ok) {
        struct output_draft draft;
        FILE *out =
            o->output != NULL ? output_draft_stream(&draft, o->output, &err) : stdout;
        const char *title =
            o->iterations == 1
                ? arena_format(cli->arena, "%s, iteration %ld", e->scenario->name,
                               (long)o->iteration)
                : arena_format(cli->arena, "%s, iterations %ld to %ld", e->scenario->name,
                               (long)o->iteration, (long)(o->iteration + o->iterations - 1));
        ok = out != NULL && trace_write(out, title, timeline.spans, timeline.span_count,
                                        timeline.memory, timeline.memory_count, &err);
        if (out != NULL && o->output != NULL) ok = output_draft_end(&draft, ok, &err);
    }
    if (ok && o->output != NULL) {
        fprintf(stderr, "%ld spans written to %s\n", (long)timeline.span_count, o->output);
        cli_print_output(cli, o->output, "spans", timeline.span_count);
    }
    execution_destroy(e);
    return ok ? EXIT_DONE : cli_error(&err);
}

const struct command command_trace = {
    .name = "trace",
    .usage = "SCENARIO [-o FILE] [--iteration N] [--iterations N] [--ranks N]",
    .help = "write the timeline of a step as Chrome trace JSON (Perfetto opens it)",
    COMMAND_OPTIONS(options_table, struct trace_options),
    .min_arguments = 1,
    .max_arguments = 1,
    .takes_scenario = true,
    .defaults = defaults,
    .run = run,
};
