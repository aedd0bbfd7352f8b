/* cmd_plot.c - pictures of runs: simulated now, or read from a database. */
#include <math.h>
#include <string.h>
#include "results/plot.h"
#include "results/plot_stages.h"
#include "sim/base/field.h"
#include "sim/base/units.h"
#include "sim/cli/cli.h"

struct plot_options {
    const char *output, *db;
    int64_t iteration, rank;
    double until_s; /* below 0: not given */
};

static void defaults(void *options) {
    *(struct plot_options *)options = (struct plot_options){ .until_s = -1 };
}

#define AT(member) offsetof(struct plot_options, member)
static const struct option options_table[] = {
    { "output", OPTION_TEXT, AT(output), "FILE", "the picture: .png, .svg or .pdf (also -o)", NULL,
      0, 0 },
    { "db", OPTION_TEXT, AT(db), "FILE", "the arguments are runs of this database", NULL, 0, 0 },
    { "iteration", OPTION_COUNT, AT(iteration), "N", "timeline, memory: which step (default 0)",
      NULL, 0, 1e9 },
    { "until", OPTION_NUMBER, AT(until_s), "SECONDS",
      "timeline: only the beginning of the step (default: 10 of many micro-batches); 0: all of it",
      NULL, 0, 1e9 },
    { "rank", OPTION_COUNT, AT(rank), "N", "timeline, memory: which data-parallel rank (default 0)",
      NULL, 0, 1e6 },
};

enum plot_kind { PLOT_BREAKDOWN, PLOT_MEMORY, PLOT_STAGES, PLOT_STEPS, PLOT_TIMELINE };
static const char *const kind_names[] = { "breakdown", "memory", "stages",
                                          "steps",     "timeline", NULL };

/* What a picture needs of one run, wherever it comes from. */
struct plot_run {
    struct run_record record;
    struct iteration_record *iterations;
    int64_t iteration_count;
    struct timeline timeline;
    struct plot_stage *stages;
    int64_t stage_count;
};

/* Sums the memory classes of each stage. */
static bool load_stages(struct cli *cli, struct store *store, int64_t run_id, struct plot_run *run,
                        struct error *err) {
    int64_t memory_count;
    struct stage_record *stages =
        store_load(store, RECORD_STAGE, run_id, cli->arena, &run->stage_count, err);
    struct memory_record *memory =
        stages != NULL ? store_load(store, RECORD_MEMORY, run_id, cli->arena, &memory_count, err)
                       : NULL;
    if (memory == NULL) return false;
    run->stages = arena_array(cli->arena, struct plot_stage, run->stage_count);
    for (int64_t i = 0; i < run->stage_count; i++)
        run->stages[i] =
            (struct plot_stage){ .forward_s = stages[i].forward_ms * 1e-3,
                                 .recompute_s = stages[i].recompute_ms * 1e-3,
                                 .backward_s =
                                     (stages[i].backward_ms - stages[i].recompute_ms) * 1e-3 };
    for (int64_t i = 0; i < memory_count; i++)
        if (memory[i].stage_index >= 0 && memory[i].stage_index < run->stage_count)
            run->stages[memory[i].stage_index].memory_GiB += (double)memory[i].bytes / BYTES_PER_GiB;
    return true;
}

static void simulated_stages(struct cli *cli, const struct replay *replay, struct plot_run *run) {
    run->stage_count = replay->stage_count;
    run->stages = arena_array(cli->arena, struct plot_stage, run->stage_count);
    for (int64_t i = 0; i < run->stage_count; i++) {
        const struct stage_outcome *s = &replay->stages[i];
        run->stages[i] = (struct plot_stage){ .forward_s = s->forward_s,
                                              .recompute_s = s->recompute_s,
                                              .backward_s = s->backward_s - s->recompute_s,
                                              .memory_GiB = stage_memory_device(&s->peak) /
                                                            BYTES_PER_GiB };
    }
}

static bool load_stored(struct cli *cli, const char *db, const char *name, struct plot_run *run,
                        struct error *err) {
    struct store *store = store_open(db, DB_READ, err);
    if (store == NULL) return false;
    int64_t id, count;
    bool ok = store_find_run(store, name, &id, err);
    struct run_record *record =
        ok ? store_load(store, RECORD_RUN, id, cli->arena, &count, err) : NULL;
    ok = record != NULL;
    if (ok) {
        run->record = *record;
        run->iterations =
            store_load(store, RECORD_ITERATION, id, cli->arena, &run->iteration_count, err);
        run->timeline.spans =
            store_load(store, RECORD_SPAN, id, cli->arena, &run->timeline.span_count, err);
        run->timeline.memory = store_load(store, RECORD_MEMORY_POINT, id, cli->arena,
                                          &run->timeline.memory_count, err);
        run->timeline.capacity_bytes = run->record.memory_capacity_bytes;
        ok = run->iterations != NULL && run->timeline.spans != NULL &&
             run->timeline.memory != NULL && load_stages(cli, store, id, run, err);
    }
    store_close(store);
    return ok;
}

static bool simulate(struct cli *cli, const struct plot_options *o, enum plot_kind kind,
                     const char *path, struct plot_run *run, struct error *err) {
    bool whole = kind == PLOT_STEPS || kind == PLOT_BREAKDOWN || kind == PLOT_STAGES;
    struct progress progress = cli_progress(cli, "replaying", "steps");
    struct replay_options replay = { .progress = cli_progress_update,
                                     .progress_context = &progress };
    struct execution *e = whole ? execution_run(&cli->scenario_options, path, &replay, err)
                                : execution_prepare(&cli->scenario_options, path, err);
    cli_progress_end(&progress);
    if (e == NULL) return false;
    bool ok = true;
    if (whole) {
        execution_record(e, &cli->provenance, cli->arena, &run->record);
        simulated_stages(cli, e->replay, run);
        run->iteration_count = e->replay->iteration_count;
        run->iterations = arena_array(cli->arena, struct iteration_record, run->iteration_count);
        for (int64_t i = 0; i < run->iteration_count; i++)
            run->iterations[i] =
                (struct iteration_record){ .iteration_index = i,
                                           .step_time_ns = e->replay->iterations[i].step_time_ns };
    } else {
        run->record = run_record_empty();
        ok = execution_timeline(e, o->iteration, o->rank + 1, FIDELITY_STAGE, cli->arena,
                                &run->timeline, err);
        if (ok && o->rank >= e->scenario->layout.dp)
            ok = error_set(err, "--rank: the scenario has data-parallel ranks 0 to %ld",
                           (long)e->scenario->layout.dp - 1);
    }
    /* The name must outlive the execution. */
    run->record.scenario_name = cli_run_name(cli, e->scenario->name);
    execution_destroy(e);
    return ok;
}

static bool draw_breakdown(const char *path, const struct plot_run *runs, int64_t count,
                           struct arena *arena, struct error *err) {
    static const struct {
        const char *name;
        size_t offset;
    } parts[] = {
        { "compute", offsetof(struct run_record, compute_ms) },
        { "padding", offsetof(struct run_record, padding_ms) },
        { "recompute", offsetof(struct run_record, recompute_ms) },
        { "optimizer and parameter gather", offsetof(struct run_record, update_ms) },
        { "tensor-parallel communication", offsetof(struct run_record, exposed_tensor_ms) },
        { "context-parallel communication", offsetof(struct run_record, exposed_context_ms) },
        { "pipeline sends", offsetof(struct run_record, exposed_pipeline_ms) },
        { "gradient reduction", offsetof(struct run_record, exposed_data_ms) },
        { "pipeline bubble", offsetof(struct run_record, bubble_ms) },
        { "imbalance between stages", offsetof(struct run_record, stage_imbalance_ms) },
        { "imbalance over time", offsetof(struct run_record, time_imbalance_ms) },
        { "imbalance between ranks", offsetof(struct run_record, rank_imbalance_ms) },
    };
    enum { PARTS = sizeof parts / sizeof parts[0] };
    const char *part_names[PARTS];
    const char **run_names = arena_array(arena, const char *, count);
    double *ms = arena_array(arena, double, count *PARTS);
    bool *out_of_memory = arena_array(arena, bool, count);
    for (int64_t r = 0; r < count; r++) {
        const char *verdict = runs[r].record.verdict;
        run_names[r] = runs[r].record.scenario_name;
        out_of_memory[r] = verdict != NULL && strcmp(verdict, "out of memory") == 0;
        for (int p = 0; p < PARTS; p++) {
            part_names[p] = parts[p].name;
            ms[r * PARTS + p] = *(const double *)((const char *)&runs[r].record + parts[p].offset);
        }
    }
    struct plot_breakdown breakdown = { run_names, count, part_names, PARTS, ms, out_of_memory };
    return plot_breakdown(path, "Where the time of a mean step goes", &breakdown, err);
}

static bool draw_stages(const char *path, const struct plot_run *runs, int64_t count,
                        struct arena *arena, struct error *err) {
    struct plot_stage_run *drawn = arena_array(arena, struct plot_stage_run, count);
    for (int64_t r = 0; r < count; r++)
        drawn[r] = (struct plot_stage_run){
            .name = runs[r].record.scenario_name,
            .stages = runs[r].stages,
            .stage_count = runs[r].stage_count,
            .step_s = runs[r].record.step_time_mean_ms * 1e-3,
            .capacity_GiB = (double)runs[r].record.memory_capacity_bytes / BYTES_PER_GiB,
        };
    return plot_stages(path, "Time and memory of each pipeline stage", drawn, count, err);
}

static int run(struct cli *cli, void *options) {
    const struct plot_options *o = options;
    struct error err = { 0 };
    const char *kind_name = cli->arguments.positional[0];
    int kind = 0;
    while (kind_names[kind] != NULL && strcmp(kind_names[kind], kind_name) != 0)
        kind++;
    int64_t count = cli->arguments.count - 1;
    if (kind_names[kind] == NULL) {
        error_set(&err, "unknown picture \"%s\"", kind_name);
        const char *near = nearest_in_list(kind_name, kind_names);
        if (near != NULL)
            error_hint(&err, "did you mean \"%s\"?", near);
        else
            error_hint(&err, "one of: breakdown, memory, stages, steps, timeline");
        return cli_error(&err);
    }
    if (o->output == NULL) {
        error_set(&err, "name the picture with --output FILE.png");
        return cli_error(&err);
    }
    if (count > 1 && kind != PLOT_BREAKDOWN && kind != PLOT_STAGES) {
        error_set(&err, "only breakdown and stages show several runs side by side");
        return cli_error(&err);
    }
    if (o->db != NULL && !cli_refuse_overrides(cli, "a stored run", &err)) return cli_error(&err);
    struct plot_run *runs = arena_array(cli->arena, struct plot_run, count);
    bool ok = true;
    for (int64_t i = 0; ok && i < count; i++) {
        const char *name = cli->arguments.positional[i + 1];
        ok = o->db != NULL ? load_stored(cli, o->db, name, &runs[i], &err)
                           : simulate(cli, o, (enum plot_kind)kind, name, &runs[i], &err);
    }
    if (ok) {
        const struct plot_run *r = &runs[0];
        const char *title = r->record.scenario_name;
        switch ((enum plot_kind)kind) {
        case PLOT_BREAKDOWN:
            ok = draw_breakdown(o->output, runs, count, cli->arena, &err);
            break;
        case PLOT_MEMORY:
            ok = plot_memory(o->output, title, r->timeline.memory, r->timeline.memory_count,
                             o->rank, r->timeline.capacity_bytes, &err);
            break;
        case PLOT_STAGES:
            ok = draw_stages(o->output, runs, count, cli->arena, &err);
            break;
        case PLOT_STEPS:
            ok = plot_steps(o->output, title, r->iterations, r->iteration_count, &err);
            break;
        case PLOT_TIMELINE:
            ok = plot_timeline(o->output, title, r->timeline.spans, r->timeline.span_count, o->rank,
                               o->until_s < 0
                                   ? plot_timeline_default_until_ns(r->timeline.spans,
                                                                    r->timeline.span_count, o->rank)
                                   : ns_from_seconds(o->until_s),
                               &err);
            break;
        }
    }
    return ok ? EXIT_DONE : cli_error(&err);
}

const struct command command_plot = {
    .name = "plot",
    .usage = "timeline|memory|stages|steps|breakdown SCENARIO... -o FILE [--db FILE]",
    .help = "draw a run with gnuplot: PNG, SVG or PDF",
    COMMAND_OPTIONS(options_table, struct plot_options),
    .min_arguments = 2,
    .max_arguments = -1,
    .defaults = defaults,
    .words = kind_names,
    .takes_scenario = true,
    .without_scenarios = true,
    .run = run,
};
