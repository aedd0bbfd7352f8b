/* report_run.c - one run: pictures, stages, operators, what is assumed, how to get it again. */
#include "results/report_part.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>
#include "results/html.h"
#include "sim/base/units.h"
#include "sim/replay/job.h"
#include "sim/scenario/scenario.h"

static bool draw_timeline(const struct report *r, const char *path, const void *what,
                          struct error *err) {
    const struct run_record *run = what;
    int64_t count;
    const struct span_record *spans =
        store_load(r->store, RECORD_SPAN, run->id, r->arena, &count, err);
    return spans != NULL &&
           plot_timeline(path, run->scenario_name, spans, count, 0,
                         plot_timeline_default_until_ns(spans, count, 0), PLOT_COLOR_AUTO, err);
}

static bool draw_memory(const struct report *r, const char *path, const void *what,
                        struct error *err) {
    const struct run_record *run = what;
    int64_t count;
    const struct memory_point_record *points =
        store_load(r->store, RECORD_MEMORY_POINT, run->id, r->arena, &count, err);
    return points != NULL &&
           plot_memory(path, run->scenario_name, points, count, 0, run->memory_capacity_bytes, err);
}

static bool draw_steps(const struct report *r, const char *path, const void *what,
                       struct error *err) {
    const struct run_record *run = what;
    int64_t count;
    const struct iteration_record *iterations =
        store_load(r->store, RECORD_ITERATION, run->id, r->arena, &count, err);
    return iterations != NULL && plot_steps(path, run->scenario_name, iterations, count, err);
}

struct searched {
    const char *scenario;
    const struct search_progress_record *points;
    int64_t count;
};

static bool draw_search(const struct report *r, const char *path, const void *what,
                        struct error *err) {
    (void)r;
    const struct searched *s = what;
    return plot_search(path, s->scenario, s->points, s->count, err);
}

/* Of a policy that plans each iteration: what that takes, and how its search got ahead. */
static bool write_planner(struct report *r, const struct run_record *run) {
    if (isnan(run->planner_mean_ms)) return true;
    fprintf(r->out, "<p>Each iteration is planned beside the one before it: %s s on one core",
            report_number(r, run->planner_mean_ms * 1e-3, 3));
    if (run->planner_exposed_ms > 0)
        fprintf(r->out, ", of which %s s of a mean step would be waited for and is in no time here",
                report_number(r, run->planner_exposed_ms * 1e-3, 3));
    else
        fputs(", all of it hidden", r->out);
    fputs(".</p>\n", r->out);
    struct searched s = { .scenario = run->scenario_name };
    s.points = store_load(r->store, RECORD_SEARCH_PROGRESS, run->id, r->arena, &s.count, r->err);
    if (s.points == NULL) return false;
    return s.count == 0 ||
           report_picture(r, arena_format(r->arena, "search-%lld", (long long)run->id), draw_search,
                          &s, "the best schedule found over schedules tried and over time",
                          "The schedule search on the first step, and two simpler methods with as "
                          "many schedules.");
}

static bool write_stages(const struct report *r, const struct run_record *run) {
    int64_t count;
    const struct stage_record *stages =
        store_load(r->store, RECORD_STAGE, run->id, r->arena, &count, r->err);
    if (stages == NULL) return false;
    fputs("<h3>Stages of the pipeline (mean step)</h3>\n<div class=\"scroll\"><table><thead><tr>"
          "<th class=\"n\">stage</th><th class=\"n\">busy, ms</th><th class=\"n\">forward</th>"
          "<th class=\"n\">backward</th><th class=\"n\">recompute</th><th class=\"n\">idle</th>"
          "<th class=\"n\">in flight</th><th class=\"n\">parameters, B</th><th>layers</th></tr>"
          "</thead><tbody>\n",
          r->out);
    for (int64_t i = 0; i < count; i++) {
        const struct stage_record *s = &stages[i];
        fputs("<tr>", r->out);
        html_number_cell(r->out, (double)s->stage_index,
                         arena_format(r->arena, "%lld", (long long)s->stage_index + 1));
        html_number_cell(r->out, s->busy_ms, report_number(r, s->busy_ms, 1));
        html_number_cell(r->out, s->forward_ms, report_number(r, s->forward_ms, 1));
        html_number_cell(r->out, s->backward_ms, report_number(r, s->backward_ms, 1));
        html_number_cell(r->out, s->recompute_ms, report_number(r, s->recompute_ms, 1));
        html_number_cell(r->out, s->idle_ms, report_number(r, s->idle_ms, 1));
        html_number_cell(r->out, s->in_flight_count < 0 ? NAN : (double)s->in_flight_count,
                         arena_format(r->arena, "%lld", (long long)s->in_flight_count));
        html_number_cell(r->out, (double)s->parameter_count,
                         report_number(r, (double)s->parameter_count / 1e9, 2));
        fputs("<td class=\"wide\">", r->out);
        html_text(r->out, s->layers);
        fputs("</td></tr>\n", r->out);
    }
    fputs("</tbody></table></div>\n", r->out);
    return true;
}

struct operator_rows {
    const struct report *r;
    int64_t count;
    double step_ms;
};

static bool write_operator(void *context, sqlite3_stmt *row, struct error *err) {
    (void)err;
    struct operator_rows *o = context;
    const struct report *r = o->r;
    const double ms = sqlite3_column_double(row, 4);
    fputs("<tr>", r->out);
    for (int c = 0; c < 4; c++)
        html_cell(r->out, report_column(row, c));
    html_number_cell(r->out, ms, report_number(r, ms, 1));
    html_number_cell(r->out, ms / o->step_ms, report_percent(r, ms / o->step_ms));
    html_cell(r->out, sqlite3_column_int(row, 5) != 0 ? "yes" : "no");
    fputs("</tr>\n", r->out);
    o->count++;
    return true;
}

static bool write_operators(const struct report *r, const struct run_record *run) {
    fputs("<h3>Dearest operators of a step</h3>\n<div class=\"scroll\"><table><thead><tr><th>layer"
          "</th><th>operator</th><th>pass</th><th>bound by</th><th class=\"n\">ms a step</th>"
          "<th class=\"n\">of the step</th><th>measured range</th></tr></thead><tbody>\n",
          r->out);
    struct operator_rows rows = { r, 0, run->step_time_mean_ms };
    bool ok = store_query(r->store,
                          "SELECT layer_kind, operator, pass, bound, step_ms, inside_range FROM"
                          " operator_share WHERE run_id = ?1 LIMIT 12",
                          run->id, write_operator, &rows, r->err);
    fputs("</tbody></table></div>\n", r->out);
    return ok;
}

static void write_data_notes(const struct report *r, const struct scenario *s) {
    struct error ignored = { 0 }; /* the data may have gone since */
    struct job *data = job_load(s, &ignored);
    for (int64_t i = 0; data != NULL && i < data->data_note_count; i++) {
        fputs("<li>", r->out);
        html_text(r->out, data->data_notes[i]);
        fputs("</li>\n", r->out);
    }
    job_destroy(data);
}

/* What the scenario and its data take for granted; read again, because it is not stored. */
static void write_assumptions(const struct report *r, const struct run_record *run) {
    fputs("<h3>Assumed</h3>\n", r->out);
    struct error reason = { 0 };
    /* Its own files are where they were, beside its file. */
    struct json *json =
        json_parse(run->scenario_file != NULL ? run->scenario_file : "stored scenario",
                   run->resolved_scenario, strlen(run->resolved_scenario), &reason);
    const struct scenario_options options = { .directory = r->options->scenarios };
    struct scenario *s = json != NULL ? scenario_load_json(&options, json, &reason) : NULL;
    if (s == NULL) {
        fputs("<p class=\"soft\">The assumptions cannot be read again here: ", r->out);
        html_text(r->out, reason.text);
        fputs(". <code>ballast check</code> prints them.</p>\n", r->out);
        return;
    }
    for (int64_t i = 0; s->warnings[i] != NULL; i++) {
        fputs("<p class=\"tight\">Warning: ", r->out);
        html_text(r->out, s->warnings[i]);
        fputs("</p>\n", r->out);
    }
    fputs("<ul>\n", r->out);
    write_data_notes(r, s);
    /* Stored, it is a choice of the scenario; the page names it whoever chose it. */
    bool stack_named = s->layout_fields.stack == NULL;
    for (int64_t i = 0; s->assumptions[i] != NULL; i++)
        stack_named = stack_named || strstr(s->assumptions[i], "software stack") != NULL;
    if (!stack_named) {
        fputs("<li>", r->out);
        html_text(r->out, arena_format(r->arena, "the software stack is %s (layout.stack)",
                                       s->layout_fields.stack));
        fputs("</li>\n", r->out);
    }
    for (int64_t i = 0; i < s->own_rules.count; i++) {
        fputs("<li>", r->out);
        html_text(r->out,
                  arena_format(r->arena, "prices are set by %s", s->own_rules.rules[i].text));
        fputs("</li>\n", r->out);
    }
    for (int64_t i = 0; s->assumptions[i] != NULL; i++) {
        fputs("<li>", r->out);
        html_text(r->out, s->assumptions[i]);
        fputs("</li>\n", r->out);
    }
    fputs("</ul>\n", r->out);
    scenario_destroy(s);
}

static void write_reproduction(const struct report *r, const struct run_record *run) {
    FILE *out = r->out;
    fputs("<h3>How to get these numbers again</h3>\n<p>", out);
    html_text(out,
              arena_format(r->arena, "Ballast %s (%s), seed %lld, prices of %s, %s fidelity%s.",
                           run->tool_version, run->source_commit, (long long)run->seed,
                           run->profile_id, run->fidelity,
                           run->repeatable ? "" : "; a time budget was in use: not repeatable"));
    fputs("</p>\n<pre>", out);
    html_text(out, run->command_line);
    /* runs that were simulated for the page have no database that stays */
    const char *database = r->options->database;
    fputs(database != NULL ? "\n# from the database:\n"
                           : "\n# or from a database:\nballast run SCENARIO --db results.db\n",
          out);
    static const char *const tables[] = { "run", "stage", "memory", "step", "operator_share" };
    for (size_t t = 0; t < sizeof tables / sizeof tables[0]; t++)
        html_text(out, arena_format(r->arena, "ballast export %s --db %s --run %lld\n", tables[t],
                                    database != NULL ? database : "results.db",
                                    database != NULL ? (long long)run->id : 1LL));
    fputs("</pre>\n<details><summary>The scenario with every default filled in (save it and run "
          "it)</summary><pre>",
          out);
    cJSON *scenario = cJSON_Parse(run->resolved_scenario);
    char *text = cJSON_Print(scenario);
    html_text(out, text != NULL ? text : run->resolved_scenario);
    cJSON_free(text);
    cJSON_Delete(scenario);
    fputs("</pre></details>\n", out);
}

bool report_run(struct report *r, int64_t index) {
    const struct run_record *run = r->runs[index];
    struct run_setup setup;
    if (!report_setup_of(r, run->id, &setup)) return false;
    fprintf(r->out, "<h2 id=\"run-%lld\">", (long long)run->id);
    html_text(r->out, r->names[index]);
    fputs(" ", r->out);
    report_verdict_tag(r->out, run);
    fputs("</h2>\n<p>", r->out);
    html_text(r->out, arena_format(r->arena, "%s on %s; %lld x %s: %s. Policies: %s.", setup.model,
                                   setup.dataset, (long long)run->gpu_count, setup.hardware,
                                   setup.layout, setup.policies));
    fprintf(r->out, " Replayed %s steps, %s samples.</p>\n",
            report_number(r, (double)run->iteration_count, 0),
            report_number(r, (double)run->sample_count, 0));
    if (index != r->best) report_figures(r, run);
    if (run->inside_range == 0)
        fputs("<p>Some operators have shapes that were not measured on this GPU. The table of "
              "operators "
              "says which.</p>\n",
              r->out);
    /* The whole name of a sweep's run is longer than a picture is wide. */
    struct run_record named = *run;
    named.scenario_name = r->names[index];
    run = &named;
    const char *id = arena_format(r->arena, "%lld", (long long)run->id);
    bool ok =
        report_picture(
            r, arena_format(r->arena, "timeline-%s", id), draw_timeline, run,
            "the pipeline of the first step on data-parallel rank 0",
            "The first step on data-parallel rank 0, its beginning if it has many micro-batches. "
            "White is waiting.") &&
        report_picture(r, arena_format(r->arena, "memory-%s", id), draw_memory, run,
                       "memory of a GPU of each stage over the first step",
                       "Memory of a GPU of each stage over the same step, with the capacity.") &&
        report_picture(r, arena_format(r->arena, "steps-%s", id), draw_steps, run,
                       "step times in order and their spread",
                       "Step times over the replayed data. Steps differ because their samples do.");
    if (!ok || !write_planner(r, run) || !write_stages(r, run) || !write_operators(r, run))
        return false;
    write_assumptions(r, run);
    write_reproduction(r, run);
    return true;
}
