/* report_jobs.c - runs of another model or on other data are another job: what one costs says
 * nothing of another. Each job has a best run of its own; a page of several has none.
 *
 * A job is known by the names of model and data set, as `ballast compare` knows it.
 */
#include <math.h>
#include <string.h>
#include "results/html.h"
#include "results/report_part.h"

enum { LISTED = 12 };

static int64_t find_job(const struct report_job *jobs, int64_t count, const struct run_setup *s) {
    int64_t j = 0;
    while (j < count &&
           (strcmp(jobs[j].model, s->model) != 0 || strcmp(jobs[j].dataset, s->dataset) != 0))
        j++;
    return j;
}

bool report_jobs_read(struct report *r, int64_t *job_of) {
    struct run_setup *setups = arena_array(r->arena, struct run_setup, r->run_count + 1);
    struct report_job *jobs = arena_array(r->arena, struct report_job, r->run_count + 1);
    int64_t count = 0;
    for (int64_t i = 0; i < r->run_count; i++)
        if (!report_setup_of(r, r->runs[i]->id, &setups[i])) return false;
    /* What failed or does not fit is ranked with nothing: it makes no job of its own. */
    for (int ranked = 1; ranked >= 0; ranked--) {
        for (int64_t i = 0; i < r->run_count; i++) {
            if (report_is_candidate(r->runs[i]) != (ranked == 1)) continue;
            job_of[i] = find_job(jobs, count, &setups[i]);
            if (job_of[i] == count)
                jobs[count++] = (struct report_job){ setups[i].model, setups[i].dataset, 0, -1 };
            jobs[job_of[i]].run_count++;
        }
        if (ranked == 1) r->job_count = count;
    }
    r->jobs = jobs;
    return true;
}

/* ---- telling ---- */

struct values {
    const char *texts[LISTED];
    int count;
    bool more; /* than are kept */
};

static void add_value(struct values *values, const char *text) {
    for (int i = 0; i < values->count; i++)
        if (strcmp(values->texts[i], text) == 0) return;
    if (values->count < LISTED)
        values->texts[values->count++] = text;
    else
        values->more = true;
}

/* Nothing where all have the same. */
static void write_difference(const struct report *r, const char *what,
                             const struct values *values) {
    if (values->count < 2) return;
    fprintf(r->out, "<li>%s: ", what);
    for (int i = 0; i < values->count; i++) {
        if (i > 0) fputs(", ", r->out);
        html_text(r->out, values->texts[i]);
    }
    fputs(values->more ? " and others</li>\n" : "</li>\n", r->out);
}

static bool write_differences(const struct report *r) {
    struct values models = { 0 }, datasets = { 0 }, hardware = { 0 }, gpu_counts = { 0 };
    for (int64_t i = 0; i < r->run_count; i++) {
        struct run_setup setup;
        if (!report_is_candidate(r->runs[i])) continue;
        if (!report_setup_of(r, r->runs[i]->id, &setup)) return false;
        add_value(&models, setup.model);
        add_value(&datasets, setup.dataset);
        add_value(&hardware, setup.hardware);
        add_value(&gpu_counts, arena_format(r->arena, "%lld", (long long)r->runs[i]->gpu_count));
    }
    const bool both = models.count > 1 && datasets.count > 1;
    fprintf(r->out,
            "<p class=\"first\"><b>These are %lld different jobs</b>: they train %s%s%s, so that "
            "what one costs says nothing of another.</p>\n<p>What differs:</p>\n<ul>\n",
            (long long)r->job_count, models.count > 1 ? "different models" : "",
            both               ? " and "
            : models.count > 1 ? ""
                               : "one model ",
            datasets.count > 1 ? "on different data sets" : "");
    write_difference(r, "model", &models);
    write_difference(r, "data set", &datasets);
    write_difference(r, "GPU", &hardware);
    write_difference(r, "number of GPUs", &gpu_counts);
    fputs("</ul>\n", r->out);
    return true;
}

static void write_job(const struct report *r, const struct report_job *job) {
    FILE *out = r->out;
    fputs("<tr>", out);
    html_cell(out, job->model);
    html_cell(out, job->dataset);
    html_number_cell(out, (double)job->run_count,
                     arena_format(r->arena, "%lld", (long long)job->run_count));
    if (job->best < 0) {
        fputs("<td>all suppose something</td>", out);
        for (int i = 0; i < 3; i++)
            html_number_cell(out, NAN, "");
        fputs("</tr>\n", out);
        return;
    }
    const struct run_record *best = r->runs[job->best];
    fputs("<td class=\"name\">", out);
    html_text(out, r->names[job->best]);
    fputs(" ", out);
    report_verdict_tag(out, best);
    fputs("</td>", out);
    html_number_cell(out, best->gpu_days, report_number(r, best->gpu_days * r->work.per_day, 2));
    html_number_cell(out, best->money_usd, report_number(r, best->money_usd, 2));
    html_number_cell(out, best->total_days,
                     report_number(r, best->total_days * r->time.per_day, 2));
    fputs("</tr>\n", out);
}

bool report_jobs_write(const struct report *r) {
    if (!write_differences(r)) return false;
    fprintf(r->out,
            "<div class=\"scroll\"><table id=\"jobs\"><thead><tr><th>model</th><th>data set</th>"
            "<th class=\"n\">runs</th><th>its best run</th><th class=\"n\">%s</th>"
            "<th class=\"n\">USD</th><th class=\"n\">%s</th></tr></thead><tbody>\n",
            r->work.name, r->time.name);
    for (int64_t j = 0; j < r->job_count; j++)
        write_job(r, &r->jobs[j]);
    fputs("</tbody></table></div>\n", r->out);
    return true;
}

/* ---- one job on several kinds of GPU ---- */

static double price_of(const struct run_record *run) {
    return run->money_usd / run->gpu_days / 24;
}

/* Of the runs that compete with the best, those on another GPU that costs the same, or has no price
 * either: then money, or GPU-days, rank by time alone. */
bool report_jobs_price(const struct report *r) {
    const struct run_record *best = r->runs[r->best];
    struct run_setup own, setup;
    struct values others = { 0 };
    if (r->wish.measure != REPORT_COST) return true;
    if (!report_setup_of(r, best->id, &own)) return false;
    const double price = price_of(best);
    for (int64_t i = 0; i < r->run_count; i++) {
        if (!report_competes(r, i)) continue;
        if (!report_setup_of(r, r->runs[i]->id, &setup)) return false;
        const double its = price_of(r->runs[i]);
        const bool same = isfinite(price) ? fabs(its - price) <= 1e-9 * price : !isfinite(its);
        if (same && strcmp(setup.hardware, own.hardware) != 0) add_value(&others, setup.hardware);
    }
    if (others.count == 0) return true;
    fputs("<p id=\"one-price\">", r->out);
    for (int i = 0; i < others.count; i++) {
        fputs(i == 0 ? "" : i + 1 == others.count ? " and " : ", ", r->out);
        html_text(r->out, others.texts[i]);
    }
    if (isfinite(price))
        fprintf(r->out, " cost%s the same here, %s USD a GPU-hour, though the GPU is another: ",
                others.count == 1 ? "s" : "", report_number(r, price, 2));
    else
        fprintf(r->out, " ha%s no price either, though the GPU is another: ",
                others.count == 1 ? "s" : "ve");
    fputs("give each its own (<code>cluster.price_usd_per_gpu_hour</code>) to have the order by "
          "money.</p>\n",
          r->out);
    return true;
}
