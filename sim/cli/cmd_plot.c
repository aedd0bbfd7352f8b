/* cmd_plot.c - pictures of runs: simulated now, or read from a database. */
#include <math.h>
#include <string.h>
#include "results/plot.h"
#include "results/plot_stages.h"
#include "results/sweep_view.h"
#include "sim/base/field.h"
#include "sim/base/units.h"
#include "sim/cli/cli.h"
#include "sim/study/search_progress.h"
#include "sim/study/measured/validation.h"

struct plot_options {
    const char *output, *db, *sweep, *x, *y;
    int64_t iteration, rank, rollouts;
    int color;
    double until_s; /* below 0: not given */
};

static void defaults(void *options) {
    *(struct plot_options *)options = (struct plot_options){ .until_s = -1 };
}

static const char *const color_names[] = { "auto", "pass", "module", NULL };

#define AT(member) offsetof(struct plot_options, member)
static const struct option options_table[] = {
    { "output", OPTION_PICTURE, AT(output), "FILE", "the picture: .png, .svg or .pdf (also -o)",
      NULL, 0, 0 },
    { "db", OPTION_TEXT, AT(db), "FILE",
      "the arguments are runs of this database; none: all of them", NULL, 0, 0 },
    { "sweep", OPTION_TEXT, AT(sweep), "NAME",
      "heatmap, pareto, sweep-progress: which sweep of the database (default: the newest)", NULL, 0,
      0 },
    { "x", OPTION_TEXT, AT(x), "FIELD", "heatmap: field of the columns, e.g. layout.tp", NULL, 0,
      0 },
    { "y", OPTION_TEXT, AT(y), "FIELD", "heatmap: field of the rows", NULL, 0, 0 },
    { "iteration", OPTION_COUNT, AT(iteration), "N",
      "timeline, memory, search-progress: which step (default 0)", NULL, 0, 1e9 },
    { "rollouts", OPTION_COUNT, AT(rollouts), "N",
      "search-progress: schedules that each method tries (default: as many as the policy)", NULL, 1,
      1e9 },
    { "until", OPTION_NUMBER, AT(until_s), "SECONDS",
      "timeline: only the beginning of the step (default: 10 of many micro-batches); 0: all of it",
      NULL, 0, 1e9 },
    { "color", OPTION_CHOICE, AT(color), "WHAT",
      "timeline: colours by module and direction, or by pass alone: auto, pass or module",
      color_names, 0, 0 },
    { "rank", OPTION_COUNT, AT(rank), "N", "timeline, memory: which data-parallel rank (default 0)",
      NULL, 0, 1e6 },
};

enum plot_kind {
    PLOT_BREAKDOWN,
    PLOT_HEATMAP,
    PLOT_MEMORY,
    PLOT_PARETO,
    PLOT_RESIDUALS,
    PLOT_SCALING,
    PLOT_SEARCH_PROGRESS,
    PLOT_STAGES,
    PLOT_STEPS,
    PLOT_SWEEP_PROGRESS,
    PLOT_TIMELINE
};
static const char *const kind_names[] = { "breakdown",       "heatmap",   "memory",
                                          "pareto",          "residuals", "scaling",
                                          "search-progress", "stages",    "steps",
                                          "sweep-progress",  "timeline",  NULL };

/* Whether the picture sets several runs beside each other. */
static bool takes_many(enum plot_kind kind) {
    return kind == PLOT_BREAKDOWN || kind == PLOT_PARETO || kind == PLOT_SCALING ||
           kind == PLOT_STAGES;
}

/* What a picture needs of one run, wherever it comes from. */
struct plot_run {
    struct run_record record;
    struct iteration_record *iterations;
    int64_t iteration_count;
    struct timeline timeline;
    struct plot_stage *stages;
    int64_t stage_count;
    struct search_progress_record *search;
    int64_t search_count;
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
        run->stages[i] = (struct plot_stage){ .forward_s = stages[i].forward_ms * 1e-3,
                                              .recompute_s = stages[i].recompute_ms * 1e-3,
                                              .backward_s = stages[i].backward_ms * 1e-3 };
    for (int64_t i = 0; i < memory_count; i++)
        if (memory[i].stage_index >= 0 && memory[i].stage_index < run->stage_count)
            run->stages[memory[i].stage_index].memory_GiB +=
                (double)memory[i].bytes / BYTES_PER_GiB;
    return true;
}

static void simulated_stages(struct cli *cli, const struct replay *replay, struct plot_run *run) {
    run->stage_count = replay->stage_count;
    run->stages = arena_array(cli->arena, struct plot_stage, run->stage_count);
    for (int64_t i = 0; i < run->stage_count; i++) {
        const struct stage_outcome *s = &replay->stages[i];
        run->stages[i] =
            (struct plot_stage){ .forward_s = s->forward_s,
                                 .recompute_s = s->recompute_s,
                                 .backward_s = s->backward_s - s->recompute_s,
                                 .memory_GiB = stage_memory_device(&s->peak) / BYTES_PER_GiB };
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
        run->search =
            store_load(store, RECORD_SEARCH_PROGRESS, id, cli->arena, &run->search_count, err);
        ok = run->search != NULL && run->iterations != NULL && run->timeline.spans != NULL &&
             run->timeline.memory != NULL && load_stages(cli, store, id, run, err);
    }
    store_close(store);
    return ok;
}

static bool simulate(struct cli *cli, const struct plot_options *o, enum plot_kind kind,
                     const char *path, struct plot_run *run, struct error *err) {
    bool whole = kind == PLOT_STEPS || takes_many(kind);
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
    } else if (kind == PLOT_SEARCH_PROGRESS) {
        struct search_progress_options options = { .iteration = o->iteration,
                                                   .rollouts = o->rollouts };
        struct search_progress searched;
        run->record = run_record_empty();
        ok = search_progress_run(e->job, &options, cli->arena, &searched, err);
        run->search = searched.points;
        run->search_count = searched.count;
    } else {
        run->record = run_record_empty();
        ok = cli_check_step(e, o->iteration, o->rank, err) &&
             execution_timeline(e, o->iteration, o->rank + 1, FIDELITY_STAGE, cli->arena,
                                &run->timeline, err);
    }
    /* The name must outlive the execution. */
    run->record.scenario_name = cli_run_name(cli, e->scenario->name);
    execution_destroy(e);
    return ok;
}

static bool draw_breakdown(const char *path, const struct plot_run *runs, int64_t count,
                           struct arena *arena, struct error *err) {
    const struct run_record **records = arena_array(arena, const struct run_record *, count);
    for (int64_t r = 0; r < count; r++)
        records[r] = &runs[r].record;
    return plot_runs_breakdown(path, "Where the time of a mean step goes", records, count, err);
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

static bool draw_points(const struct plot_options *o, enum plot_kind kind, const char *title,
                        const struct plot_choice *points, int64_t count,
                        const struct plot_limits *limits, struct arena *arena, struct error *err) {
    if (kind == PLOT_PARETO)
        return plot_pareto(o->output, arena_format(arena, "%s: time against cost", title), points,
                           count, limits, err);
    return plot_scaling(o->output, arena_format(arena, "%s: what more GPUs bring", title), points,
                        count, err);
}

static bool draw_many(const struct plot_options *o, enum plot_kind kind, const char *title,
                      const struct plot_run *runs, int64_t count, struct arena *arena,
                      struct error *err) {
    struct plot_choice *points = arena_array(arena, struct plot_choice, count);
    for (int64_t r = 0; r < count; r++)
        points[r] = plot_choice_of(&runs[r].record, arena);
    return draw_points(o, kind, title, points, count, NULL, arena, err);
}

struct run_ids {
    struct arena *arena;
    int64_t *ids, count, capacity;
};

static bool add_id(void *context, sqlite3_stmt *row, struct error *err) {
    (void)err;
    struct run_ids *list = context;
    if (list->count == list->capacity) {
        list->capacity = list->capacity > 0 ? 2 * list->capacity : 64;
        int64_t *larger = arena_array(list->arena, int64_t, list->capacity);
        if (list->count > 0) memcpy(larger, list->ids, sizeof *larger * (size_t)list->count);
        list->ids = larger;
    }
    list->ids[list->count++] = sqlite3_column_int64(row, 0);
    return true;
}

/* Every run of the database, its answer alone. */
static struct plot_run *load_all(struct cli *cli, const char *db, int64_t *count,
                                 struct error *err) {
    struct store *store = store_open(db, DB_READ, err);
    if (store == NULL) return NULL;
    struct run_ids list = { .arena = cli->arena };
    struct plot_run *runs = NULL;
    if (store_query(store, "SELECT id FROM run ORDER BY id", 0, add_id, &list, err)) {
        runs = arena_array(cli->arena, struct plot_run, list.count + 1);
        for (int64_t i = 0; i < list.count && runs != NULL; i++) {
            int64_t loaded;
            const struct run_record *record =
                store_load(store, RECORD_RUN, list.ids[i], cli->arena, &loaded, err);
            if (record != NULL) runs[i].record = *record;
            if (record == NULL || !load_stages(cli, store, list.ids[i], &runs[i], err)) runs = NULL;
        }
    }
    store_close(store);
    *count = list.count;
    if (runs != NULL && list.count == 0) {
        error_set(err, "%s holds no runs", db);
        return NULL;
    }
    return runs;
}

/* The rows of a file of measured runs that can be simulated, as they would be stored. */
static bool draw_residuals(struct cli *cli, const struct plot_options *o, struct error *err) {
    const char *path = cli->arguments.positional[1];
    if (o->db != NULL || cli->arguments.count != 2) {
        error_set(err, "residuals are those of one file of measured runs");
        return error_hint(err,
                          "ballast plot residuals ROWS.csv -o FILE, with rows as for validate");
    }
    struct progress progress = cli_progress(cli, "simulating", "rows");
    struct validation *v =
        validation_run(&cli->scenario_options, &path, 1, cli_progress_update, &progress, err);
    cli_progress_end(&progress);
    if (v == NULL) return false;
    struct validation_record *rows =
        arena_array(cli->arena, struct validation_record, v->runs.count + 1);
    int64_t count = 0;
    for (int64_t i = 0; i < v->runs.count; i++) {
        const struct validation_row *row = &v->rows[i];
        if (row->skip != SKIP_NOTHING) continue;
        rows[count++] = (struct validation_record){
            .row_name = row->measured->row_id,
            .source = row->measured->source,
            .hardware = row->measured->hardware,
            .quantity = "step_time_ms",
            .measured_value = row->measured->iter_time_s * 1e3,
            .predicted_value = row->predicted_s * 1e3,
            .band_fraction = row->band.above,
            .band_below_fraction = row->band.below,
            .role = row->calibrated_on ? "fitted" : "prediction",
        };
    }
    const char *title =
        arena_format(cli->arena, "%s: %ld of %ld measured runs, predicted step time", path,
                     (long)count, (long)v->runs.count);
    bool ok = plot_residuals(o->output, title, rows, count, err);
    validation_destroy(v);
    return ok;
}

static bool draw_heatmap(struct cli *cli, const struct plot_options *o, struct error *err) {
    if (o->db == NULL || cli->arguments.count > 1) {
        error_set(err,
                  "a heat map is that of a stored sweep: plot heatmap --db FILE [--sweep NAME]");
        return false;
    }
    struct store *store = store_open(o->db, DB_READ, err);
    if (store == NULL) return false;
    int64_t id;
    const char *name;
    struct plot_heatmap map;
    bool ok = sweep_view_find(store, o->sweep, &id, &name, cli->arena, err);
    if (ok && id < 0) ok = error_set(err, "%s holds no sweep", o->db);
    ok = ok && sweep_view_heatmap(store, id, name, o->x, o->y, cli->arena, &map, err) &&
         plot_heatmap(o->output, &map, err);
    store_close(store);
    return ok;
}

static bool draw_sweep_progress(struct cli *cli, const struct plot_options *o, struct error *err) {
    if (o->db == NULL || cli->arguments.count > 1)
        return error_set(err, "the progress is that of a stored sweep: plot sweep-progress --db "
                              "FILE [--sweep NAME]");
    struct store *store = store_open(o->db, DB_READ, err);
    if (store == NULL) return false;
    int64_t id, count;
    const char *name;
    bool ok = sweep_view_find(store, o->sweep, &id, &name, cli->arena, err);
    if (ok && id < 0) ok = error_set(err, "%s holds no sweep", o->db);
    const struct sweep_round_record *rounds =
        ok ? store_load(store, RECORD_SWEEP_ROUND, id, cli->arena, &count, err) : NULL;
    ok = rounds != NULL && plot_sweep_rounds(o->output, name, rounds, count, err);
    store_close(store);
    return ok;
}

/* The points of the database's sweep, if it has one and the picture shows such; else nothing is
 * drawn. */
static bool draw_sweep(struct cli *cli, const struct plot_options *o, enum plot_kind kind,
                       bool *drawn, struct error *err) {
    *drawn = false;
    if (kind != PLOT_PARETO && kind != PLOT_SCALING) return true;
    struct store *store = store_open(o->db, DB_READ, err);
    if (store == NULL) return false;
    int64_t id, count;
    const char *name;
    bool ok = sweep_view_find(store, o->sweep, &id, &name, cli->arena, err);
    if (ok && id >= 0) {
        struct plot_limits limits;
        const struct plot_choice *points = sweep_view_points(store, id, cli->arena, &count, err);
        ok = points != NULL && sweep_view_limits(store, id, cli->arena, &limits, err) &&
             draw_points(o, kind, name, points, count, &limits, cli->arena, err);
        *drawn = ok;
    }
    store_close(store);
    return ok;
}

static bool find_kind(const char *name, enum plot_kind *kind, struct error *err) {
    for (int k = 0; kind_names[k] != NULL; k++)
        if (strcmp(kind_names[k], name) == 0) {
            *kind = (enum plot_kind)k;
            return true;
        }
    error_set(err, "unknown picture \"%s\"", name);
    const char *near = nearest_in_list(name, kind_names);
    return near != NULL
               ? error_hint(err, "did you mean \"%s\"?", near)
               : error_hint(err, "one of: breakdown, heatmap, memory, pareto, residuals, scaling, "
                                 "search-progress, stages, steps, sweep-progress, timeline");
}

static bool draw_one(const struct plot_options *o, enum plot_kind kind, const struct plot_run *r,
                     struct error *err) {
    const char *title = r->record.scenario_name;
    const struct timeline *t = &r->timeline;
    if (kind == PLOT_MEMORY)
        return plot_memory(o->output, title, t->memory, t->memory_count, o->rank, t->capacity_bytes,
                           err);
    if (kind == PLOT_STEPS)
        return plot_steps(o->output, title, r->iterations, r->iteration_count, err);
    if (kind == PLOT_SEARCH_PROGRESS)
        return plot_search(o->output, title, r->search, r->search_count, err);
    const int64_t until_ns = o->until_s < 0
                                 ? plot_timeline_default_until_ns(t->spans, t->span_count, o->rank)
                                 : ns_from_seconds(o->until_s);
    return plot_timeline(o->output, title, t->spans, t->span_count, o->rank, until_ns,
                         (enum plot_color)o->color, err);
}

static int draw(struct cli *cli, const struct plot_options *o) {
    struct error err = { 0 };
    enum plot_kind kind = PLOT_BREAKDOWN;
    if (!find_kind(cli->arguments.positional[0], &kind, &err)) return cli_error(&err);
    int64_t count = cli->arguments.count - 1;
    if (o->output == NULL) {
        error_set(&err, "name the picture with --output FILE.png");
        return cli_error(&err);
    }
    if (o->db != NULL && !cli_refuse_overrides(cli, "a stored run", &err)) return cli_error(&err);
    if (kind == PLOT_HEATMAP) return draw_heatmap(cli, o, &err) ? EXIT_DONE : cli_error(&err);
    if (kind == PLOT_SWEEP_PROGRESS)
        return draw_sweep_progress(cli, o, &err) ? EXIT_DONE : cli_error(&err);
    if (kind == PLOT_RESIDUALS) return draw_residuals(cli, o, &err) ? EXIT_DONE : cli_error(&err);
    const bool all = count == 0 && takes_many(kind) && o->db != NULL;
    if (count == 0 && !all) {
        error_set(&err, "not enough arguments for \"plot\"; usage: ballast plot %s",
                  takes_many(kind) ? "KIND SCENARIO..., or KIND --db FILE" : "KIND SCENARIO");
        return cli_error(&err);
    }
    if (count > 1 && !takes_many(kind)) {
        error_set(&err,
                  "only breakdown, pareto, scaling and stages show several runs side by side");
        return cli_error(&err);
    }
    struct plot_run *runs = NULL;
    if (!all) {
        runs = arena_array(cli->arena, struct plot_run, count);
    } else {
        /* All of a sweep is its points; only some of them became runs. */
        bool drawn;
        if (!draw_sweep(cli, o, kind, &drawn, &err)) return cli_error(&err);
        if (drawn) return EXIT_DONE;
        runs = load_all(cli, o->db, &count, &err);
    }
    bool ok = runs != NULL;
    for (int64_t i = 0; ok && !all && i < count; i++) {
        const char *name = cli->arguments.positional[i + 1];
        ok = o->db != NULL ? load_stored(cli, o->db, name, &runs[i], &err)
                           : simulate(cli, o, kind, name, &runs[i], &err);
    }
    if (ok && kind == PLOT_BREAKDOWN)
        ok = draw_breakdown(o->output, runs, count, cli->arena, &err);
    else if (ok && kind == PLOT_STAGES)
        ok = draw_stages(o->output, runs, count, cli->arena, &err);
    else if (ok && takes_many(kind))
        ok = draw_many(o, kind,
                       all          ? o->db
                       : count == 1 ? runs[0].record.scenario_name
                                    : "Runs",
                       runs, count, cli->arena, &err);
    else if (ok)
        ok = draw_one(o, kind, &runs[0], &err);
    return ok ? EXIT_DONE : cli_error(&err);
}

static int run(struct cli *cli, void *options) {
    const struct plot_options *o = options;
    const int code = draw(cli, o);
    if (code == EXIT_DONE) cli_print_output(cli, o->output, NULL, 0);
    return code;
}

const struct command command_plot = {
    .name = "plot",
    .usage =
        "timeline|memory|stages|steps|search-progress|breakdown|pareto|scaling|heatmap|residuals|"
        "sweep-progress [SCENARIO...] -o FILE [--db FILE]",
    .help = "draw a run with gnuplot: PNG, SVG or PDF",
    COMMAND_OPTIONS(options_table, struct plot_options),
    .more = "breakdown, pareto, scaling and stages set several runs beside each other: those "
            "named, or with --db alone all\nof the database. residuals ROWS.csv shows what "
            "validate prints; heatmap, and pareto and scaling of a database\nwith a sweep, show "
            "all configurations of it; sweep-progress, how it advanced.\n",
    .min_arguments = 1,
    .max_arguments = -1,
    .defaults = defaults,
    .words = kind_names,
    .takes_scenario = true,
    .without_scenarios = true,
    .run = run,
};
