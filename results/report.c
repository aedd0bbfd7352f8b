/* report.c - the page: the answer, all runs, the best ones in detail, what is assumed, how to get
 * each number again.
 *
 * "Best" is the least money (GPU-days where a run has no price) among finished runs that fit in
 * memory, or the least of what their sweep was to have least of; what keeps its deadline and budget
 * first.
 */
#include "results/report_part.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>
#include "report_css.h"
#include "report_js.h"
#include "results/html.h"
#include "sim/base/units.h"
#include "sim/scenario/scenario.h"
#include "sim/scenario/scenario_fields.h"

struct ranked {
    const struct run_record *run;
    int64_t job;
};

/* Job by job the best first, then what is no candidate, as stored. */
static int by_rank(const void *a, const void *b, void *report) {
    const struct report *r = report;
    const struct ranked *first = a, *other = b;
    const struct run_record *left = first->run, *right = other->run;
    if (r->job_count > 1 && first->job != other->job) return first->job < other->job ? -1 : 1;
    const bool comparable = report_is_candidate(left) || report_is_candidate(right);
    if (comparable && report_is_better(r, left, right)) return -1;
    if (comparable && report_is_better(r, right, left)) return 1;
    return (left->id > right->id) - (left->id < right->id);
}

/* Whether the run's section what_if holds anything but defaults. Keys that only one of them has are
 * of another version. */
static bool supposes(const struct run_record *run, const cJSON *defaults) {
    if (run->resolved_scenario == NULL) return false;
    cJSON *scenario = cJSON_Parse(run->resolved_scenario);
    const cJSON *section = cJSON_GetObjectItemCaseSensitive(scenario, "what_if"), *value;
    bool other = false;
    cJSON_ArrayForEach(value, section) {
        const cJSON *usual = cJSON_GetObjectItemCaseSensitive(defaults, value->string);
        other = other || (usual != NULL && !cJSON_Compare(value, usual, true));
    }
    cJSON_Delete(scenario);
    return other;
}

static void find_supposing(struct report *r) {
    struct scenario_what_if nothing;
    const bool read =
        field_table_read(&scenario_what_if_table, NULL, NULL, &nothing, r->arena, NULL);
    ballast_check(read);
    cJSON *defaults = field_table_write(&scenario_what_if_table, &nothing);
    bool *list = arena_array(r->arena, bool, r->run_count + 1);
    int64_t plain = 0, others = 0;
    for (int64_t i = 0; i < r->run_count; i++) {
        list[i] = supposes(r->runs[i], defaults);
        if (!report_is_candidate(r->runs[i])) continue;
        plain += !list[i];
        others += list[i];
    }
    cJSON_Delete(defaults);
    r->supposes = list;
    r->passed_over = plain > 0 ? others : 0;
}

/* A network twice as fast is no choice: what supposes something competes with nothing that does
 * not. */
bool report_competes(const struct report *r, int64_t index) {
    return report_is_candidate(r->runs[index]) && !(r->passed_over > 0 && r->supposes[index]);
}

/* They are in order already. */
static void rank_runs(struct report *r) {
    r->best = r->second = -1;
    find_supposing(r);
    for (int64_t i = 0; i < r->run_count; i++) {
        if (!report_competes(r, i)) continue;
        struct report_job *job = &r->jobs[r->job_of[i]];
        if (job->best < 0)
            job->best = i;
        else if (r->second < 0 && r->job_count == 1)
            r->second = i;
    }
    if (r->job_count == 1) r->best = r->jobs[0].best;
}

/* ---- all runs ---- */

static const struct {
    const char *key, *label;
    bool number;
} columns[] = {
    { "name", "run", false },
    { "id", "no.", true },
    { "fit", "fit", false },
    { "gpu_days", NULL, true }, /* in the unit of the page */
    { "usd", "USD", true },
    { "days", NULL, true },
    { "step_ms", "step, ms", true },
    { "band", "band", true },
    { "spread", "p95 / p50", true },
    { "mfu", "MFU", true },
    { "memory", "memory, GiB", true },
    { "gpus", "GPUs", true },
    { "layout", "layout", false },
    { "policies", "policies", false },
};

static bool write_run_row(const struct report *r, int64_t index) {
    FILE *out = r->out;
    const struct run_record *run = r->runs[index];
    struct run_setup setup;
    if (!report_setup_of(r, run->id, &setup)) return false;
    fputs(index == r->best ? "<tr class=\"best\">" : "<tr>", out);
    fprintf(out, "<td class=\"%s\" title=\"run %lld\">",
            strlen(r->names[index]) > LONG_NAME ? "name long" : "name", (long long)run->id);
    html_text(out, r->names[index]);
    fputs("</td>", out);
    html_number_cell(out, (double)run->id, arena_format(r->arena, "%lld", (long long)run->id));
    fputs("<td>", out);
    report_verdict_tag(out, run);
    if (r->supposes[index]) fputs(" <span class=\"tag tight\">what if</span>", out);
    if (report_no_choice(r, run) != NULL) {
        fputs(" <span class=\"tag out\" title=\"", out);
        html_text(out, report_no_choice(r, run));
        fputs("\">not chosen by the sweep</span>", out);
    }
    if (report_breach(r, run)[0] != '\0')
        fprintf(out, " <span class=\"tag out\">%s</span>", report_breach(r, run));
    fputs("</td>", out);
    html_number_cell(out, run->gpu_days, report_number(r, run->gpu_days * r->work.per_day, 2));
    html_number_cell(out, run->money_usd, report_number(r, run->money_usd, 2));
    html_number_cell(out, run->total_days, report_number(r, run->total_days * r->time.per_day, 2));
    html_number_cell(out, run->step_time_mean_ms, report_number(r, run->step_time_mean_ms, 1));
    html_number_cell(out, run->band_fraction, report_band(r, report_band_of(run)));
    const double spread = run->step_time_p95_ms / run->step_time_p50_ms;
    html_number_cell(out, spread, arena_format(r->arena, "%.3f", spread));
    const char *peak = report_odd_peak(run);
    html_number_cell(out, run->mfu_fraction,
                     arena_format(r->arena, peak != NULL ? "%s (%s)" : "%s",
                                  report_percent(r, run->mfu_fraction), peak));
    const double peak_GiB = (double)run->memory_peak_bytes / BYTES_PER_GiB;
    html_number_cell(out, run->memory_peak_bytes < 0 ? NAN : peak_GiB,
                     report_number(r, peak_GiB, 1));
    html_number_cell(out, (double)run->gpu_count,
                     arena_format(r->arena, "%lld", (long long)run->gpu_count));
    fputs("<td class=\"fold\">", out);
    html_text(out, setup.layout);
    fputs("</td><td class=\"fold\">", out);
    html_text(out, setup.policies);
    fputs("</td></tr>\n", out);
    return true;
}

static bool write_runs(const struct report *r) {
    FILE *out = r->out;
    fputs("<h2 id=\"all\">All runs</h2>\n<p><label>Filter: <input id=\"filter\" type=\"search\" "
          "placeholder=\"words that a row must hold: fits pp 4\"></label> "
          "<span id=\"shown\" class=\"soft\"></span></p>\n<div class=\"scroll\"><table id=\"runs\">"
          "<thead><tr>",
          out);
    for (size_t c = 0; c < sizeof columns / sizeof columns[0]; c++) {
        const char *label = columns[c].label != NULL              ? columns[c].label
                            : strcmp(columns[c].key, "days") == 0 ? r->time.name
                                                                  : r->work.name;
        fprintf(out, "<th data-key=\"%s\"%s><button>%s</button></th>", columns[c].key,
                columns[c].number ? " class=\"n\"" : "", label);
    }
    fputs("</tr></thead><tbody>\n", out);
    for (int64_t i = 0; i < r->run_count; i++)
        if (!write_run_row(r, i)) return false;
    fprintf(out,
            "</tbody></table></div>\n<p class=\"soft\">Click a column to sort by it.%s Policies: "
            "batching, partition, recompute, schedule.",
            r->job_count > 1 ? " Runs of one job stand together, its best first." : "");
    if (r->shared[0] != '\0') {
        fputs(" All runs: ", out);
        html_text(out, r->shared);
        fputs(".", out);
    }
    fputs("</p>\n", out);
    return true;
}
/* ---- the page ---- */

enum { BREAKDOWN_RUNS = 8 };

/* Of what is done: the best of each job, then the others as in the table. */
static int64_t *order_of_pictures(const struct report *r, int64_t *count) {
    int64_t *order = arena_array(r->arena, int64_t, r->run_count + 1);
    *count = 0;
    for (int best = 1; best >= 0; best--)
        for (int64_t i = 0; i < r->run_count; i++) {
            const bool is_best = r->jobs[r->job_of[i]].best == i;
            if (report_is_done(r->runs[i]) && is_best == (best == 1)) order[(*count)++] = i;
        }
    return order;
}

static bool draw_breakdown(const struct report *r, const char *path, const void *what,
                           struct error *err) {
    (void)what;
    const struct run_record *shown[BREAKDOWN_RUNS];
    struct run_record named[BREAKDOWN_RUNS];
    int64_t count;
    const int64_t *order = order_of_pictures(r, &count);
    if (count > BREAKDOWN_RUNS) count = BREAKDOWN_RUNS;
    for (int64_t i = 0; i < count; i++)
        shown[i] = r->runs[order[i]];
    /* The names of a sweep's runs are sentences; the table has them beside the numbers (no.). */
    for (int64_t i = 0; i < count; i++) {
        named[i] = *shown[i];
        if (strlen(named[i].scenario_name) > LONG_NAME)
            named[i].scenario_name = arena_format(r->arena, "run %lld", (long long)named[i].id);
        shown[i] = &named[i];
    }
    return plot_runs_breakdown(path, "Where the time of a mean step goes", shown, count, err);
}

static bool write_details(struct report *r) {
    int64_t count;
    const int64_t *order = order_of_pictures(r, &count);
    for (int64_t i = 0; i < count && i < r->options->detail_limit; i++)
        if (!report_run(r, order[i])) return false;
    return true;
}

static bool write_page(struct report *r) {
    FILE *out = r->out;
    fputs("<!DOCTYPE html>\n<html lang=\"en\"><head><meta charset=\"utf-8\">\n<meta "
          "name=\"viewport\" "
          "content=\"width=device-width, initial-scale=1\">\n<meta name=\"color-scheme\" "
          "content=\"light dark\">\n<title>Ballast: ",
          out);
    const char *title = r->run_count == 1 ? r->runs[0]->scenario_name
                        : r->options->database != NULL
                            ? r->options->database
                            : arena_format(r->arena, "%lld runs", (long long)r->run_count);
    html_text(out, title);
    fprintf(out, "</title>\n<style>\n%s</style></head><body>\n<h1>", report_css);
    html_text(out, r->run_count == 1 || r->options->database == NULL
                       ? title
                       : arena_format(r->arena, "%lld runs of %s", (long long)r->run_count, title));
    fputs("</h1>\n", out);
    if (!report_answer(r) || !write_runs(r)) return false;
    if (!report_picture(
            r, "breakdown", draw_breakdown, NULL, "where the time of a mean step goes",
            arena_format(r->arena,
                         "Blue is work, orange is communication, grey is waiting, green waiting "
                         "for the host: dark for samples, light for launches. %s first.",
                         r->job_count > 1 ? "The best run of each job stands"
                                          : "The best run stands")))
        return false;
    if (!report_sweep(r) || !write_details(r)) return false;
    fprintf(out,
            "<p class=\"soft\">Simulated, not measured. Bands are the error of the operator prices "
            "against held-back measurements.</p>\n<script>\n%s</script>\n</body></html>\n",
            report_js);
    return true;
}

static bool load_runs(struct report *r, const int64_t *run_ids) {
    const struct run_record **runs = arena_array(r->arena, const struct run_record *, r->run_count);
    struct ranked *ranked = arena_array(r->arena, struct ranked, r->run_count + 1);
    int64_t *job_of = arena_array(r->arena, int64_t, r->run_count + 1);
    for (int64_t i = 0; i < r->run_count; i++) {
        int64_t count;
        runs[i] = store_load(r->store, RECORD_RUN, run_ids[i], r->arena, &count, r->err);
        if (runs[i] == NULL) return false;
        if (count != 1) return error_set(r->err, "run %lld is not stored", (long long)run_ids[i]);
    }
    r->runs = runs;
    for (int64_t i = 0; i < r->run_count; i++)
        r->unpriced =
            r->unpriced || (report_is_candidate(r->runs[i]) && !isfinite(r->runs[i]->money_usd));
    if (!report_wish_read(r) || !report_jobs_read(r, job_of)) return false;
    for (int64_t i = 0; i < r->run_count; i++)
        ranked[i] = (struct ranked){ runs[i], job_of[i] };
    qsort_r(ranked, (size_t)r->run_count, sizeof *ranked, by_rank, r);
    for (int64_t i = 0; i < r->run_count; i++) {
        runs[i] = ranked[i].run;
        job_of[i] = ranked[i].job;
    }
    r->job_of = job_of;
    double longest = 0, most = 0;
    for (int64_t i = 0; i < r->run_count; i++) {
        longest = fmax(longest, runs[i]->total_days);
        most = fmax(most, runs[i]->gpu_days);
    }
    r->time = amount_of_days(longest);
    r->work = amount_of_gpu_days(most);
    r->names = report_names(r, &r->shared);
    return true;
}

bool report_write(FILE *out, struct store *store, const int64_t *run_ids, int64_t run_count,
                  const struct report_options *options, struct error *err) {
    struct report r = { .out = out,
                        .store = store,
                        .arena = arena_create(),
                        .options = options,
                        .run_count = run_count,
                        .folder = "/tmp/ballast-report-XXXXXX",
                        .err = err };
    bool ok = load_runs(&r, run_ids);
    if (ok && mkdtemp(r.folder) == NULL)
        ok = error_system(err, "cannot make a folder for pictures");
    if (ok) {
        rank_runs(&r);
        ok = write_page(&r);
        rmdir(r.folder);
    }
    if (ok && (fflush(out) != 0 || ferror(out))) ok = error_system(err, "cannot write the page");
    arena_destroy(r.arena);
    return ok;
}
