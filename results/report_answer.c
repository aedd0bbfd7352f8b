/* report_answer.c - which run is the best, its figures, and why the next one is not. */
#include "results/report_part.h"

#include <math.h>
#include <string.h>
#include "results/html.h"
#include "results/run_file.h"
#include "results/run_pair.h"
#include "results/sweep_view.h"
#include "sim/base/amount.h"
#include "sim/base/units.h"

static void figure(const struct report *r, const char *value, const char *label) {
    if (value[0] == '\0') return;
    fputs("<div><b>", r->out);
    html_text(r->out, value);
    fputs("</b><span>", r->out);
    html_text(r->out, label);
    fputs("</span></div>\n", r->out);
}

void report_figures(const struct report *r, const struct run_record *run) {
    fputs("<div class=\"figures\">\n", r->out);
    figure(
        r,
        arena_format(r->arena, "%s %s", report_step_text(r, run->step_time_mean_ms),
                     report_band(r, report_band_of(run))),
        arena_format(r->arena, "a step, mean; p95 %s", report_step_text(r, run->step_time_p95_ms)));
    const struct amount_unit time = amount_of_days(run->total_days),
                             work = amount_of_gpu_days(run->gpu_days);
    figure(r,
           arena_format(r->arena, "%s %s", report_number(r, run->total_days * time.per_day, 2),
                        time.name),
           arena_format(r->arena, "the whole training on %lld GPUs", (long long)run->gpu_count));
    figure(r, report_number(r, run->gpu_days * work.per_day, 2), work.name);
    if (isfinite(run->money_usd))
        figure(r, arena_format(r->arena, "%s USD", report_number(r, run->money_usd, 2)),
               "at the scenario's price");
    const char *peak = report_odd_peak(run);
    figure(r, report_percent(r, run->mfu_fraction),
           arena_format(r->arena, "MFU%s%s; HFU %s", peak != NULL ? " of the peak in " : "",
                        peak != NULL ? peak : "", report_percent(r, run->hfu_fraction)));
    figure(r,
           arena_format(r->arena, "%.1f of %.0f GiB",
                        (double)run->memory_peak_bytes / BYTES_PER_GiB,
                        (double)run->memory_capacity_bytes / BYTES_PER_GiB),
           arena_format(r->arena, "memory of the fullest GPU, on stage %lld%s",
                        (long long)run->verdict_stage_index + 1,
                        run->memory_training_bytes > run->memory_peak_bytes
                            ? arena_format(r->arena, "; all epochs about %.1f",
                                           (double)run->memory_training_bytes / BYTES_PER_GiB)
                            : ""));
    fputs("</div>\n", r->out);
}

static int largest_part(const struct run_record *run) {
    int most = 0;
    for (int p = 1; p < PLOT_PARTS; p++)
        if (plot_part_ms(run, p) > plot_part_ms(run, most)) most = p;
    return most;
}

/* After those of a step: what GPUs that fail take on top of all steps. */
enum { PART_FAILURES = PLOT_PARTS, CAUSES };

static const char *cause_name(int part) {
    return part == PART_FAILURES ? "checkpoints and failures" : plot_parts[part].name;
}

/* What a part of the step costs over the whole training: comparable whatever a step holds. */
static double part_gpu_days(const struct run_record *run, int part) {
    const double goodput = isnan(run->goodput_fraction) ? 1 : run->goodput_fraction;
    if (part == PART_FAILURES) return run->gpu_days * (1 - goodput);
    const double ms = plot_part_ms(run, part);
    return isfinite(ms) ? ms / run->step_time_mean_ms * run->gpu_days * goodput : 0;
}

static bool matters(const struct run_record *best, const struct run_record *second, int part) {
    return fabs(part_gpu_days(second, part) - part_gpu_days(best, part)) > 0.002 * second->gpu_days;
}

/* What is less than a thousandth of the whole is nothing. */
static const char *share_text(const struct report *r, double value, double total) {
    return fabs(value) < 0.001 * total ? "0" : report_number(r, value, 2);
}

static void write_causes(const struct report *r, const struct run_record *best,
                         const struct run_record *second) {
    bool any = false;
    for (int p = 0; p < CAUSES; p++)
        any = any || matters(best, second, p);
    if (!any) return;
    const struct amount_unit unit = amount_of_gpu_days(second->gpu_days);
    const double total = second->gpu_days * unit.per_day;
    fprintf(r->out,
            "<div class=\"scroll\"><table id=\"causes\"><thead><tr><th>%s for</th>"
            "<th class=\"n\">best</th><th class=\"n\">next</th><th class=\"n\">difference</th></tr>"
            "</thead><tbody>\n",
            unit.name);
    for (int p = 0; p < CAUSES; p++) {
        const double a = part_gpu_days(best, p) * unit.per_day,
                     b = part_gpu_days(second, p) * unit.per_day;
        if (!matters(best, second, p)) continue;
        fputs("<tr>", r->out);
        html_cell(r->out, cause_name(p));
        html_number_cell(r->out, a, share_text(r, a, total));
        html_number_cell(r->out, b, share_text(r, b, total));
        html_number_cell(
            r->out, b - a,
            arena_format(r->arena, "%s%s", b > a ? "+" : "", report_number(r, b - a, 2)));
        fputs("</tr>\n", r->out);
    }
    fputs("</tbody></table></div>\n", r->out);
}

/* Runs that train fewer samples may cost less than the best. */
static void write_left_out(const struct report *r) {
    int64_t others = 0;
    for (int64_t i = 0; i < r->run_count; i++)
        others += i != r->best && report_is_candidate(r->runs[i]) &&
                  record_leaves_out(r->runs[i]->left_out_fraction);
    if (record_leaves_out(r->runs[r->best]->left_out_fraction))
        fprintf(
            r->out,
            "<p><b>It leaves out %.1f %% of the samples.</b> Time and money are of the others, and "
            "compare only with runs that leave out as many.</p>\n",
            r->runs[r->best]->left_out_fraction * 100);
    else if (others > 0)
        fprintf(
            r->out,
            "<p>%lld of the other runs leave samples out. Time and money of such a run are of the "
            "samples that it trains: it does not compare, and stands after the others.</p>\n",
            (long long)others);
}

/* A packed micro-batch holds many samples. */
static void write_step_samples(const struct report *r) {
    const struct run_record *best = r->runs[r->best];
    const double held = (double)best->sample_count / (double)best->iteration_count,
                 asked = (double)best->asked_samples_per_step;
    if (best->iteration_count > 0 && asked > 0 && fabs(held / asked - 1) > 0.05)
        fprintf(r->out, "<p>A step of it holds %.0f samples, the scenario asks for %.0f.</p>\n",
                held, asked);
}

/* "costs 3.0 % more", "takes 3.0 % less GPU time". */
static const char *more_text(const struct report *r, double more) {
    return arena_format(r->arena, "%s %s %s%s", r->wish.measure == REPORT_COST ? "costs" : "takes",
                        report_percent(r, fabs(more)), more < 0 ? "less" : "more",
                        r->wish.measure == REPORT_DAYS       ? " time"
                        : r->wish.measure == REPORT_GPU_DAYS ? " GPU time"
                                                             : "");
}

/* Whether the two predictions may err by so much, as `ballast compare` has it. */
static const char *sureness_text(const struct report *r, double more) {
    const struct run_record *best = r->runs[r->best], *second = r->runs[r->second];
    const struct run_pair_error error =
        run_pair_error(best, report_value_of(r, best), second, report_value_of(r, second));
    const char *limit =
        error.shared
            ? arena_format(r->arena,
                           "the %.0f %% that predictions for one GPU and software stack err "
                           "against each other",
                           expm1(error.predictions_log) * 100)
            : "two such predictions err against each other by their error bands";
    if (!(fabs(log1p(more)) > error.predictions_log))
        return arena_format(
            r->arena, "That is no more than %s%s", limit,
            !error.shared && run_pair_same_stack(best, second)
                ? "; two runs on one GPU and software stack share most of such an error, so that "
                  "their order may hold all the same"
                : "");
    const char *waits = "";
    if (!run_pair_waits_told(best, second))
        waits = ", but a run that an older version stored does not tell what it waits for the "
                "host's launches: the order is not sure";
    else if (!run_pair_is_sure(&error, more) && error.pcie_log > error.waits_log)
        waits = ", but not by as much as a server with faster or slower PCIe may bring the two "
                "nearer: the order is not sure";
    else if (!run_pair_is_sure(&error, more))
        waits = ", but not by as much as the two differ in their waits for the host's launches, "
                "which no measured run tells: the order is not sure";
    else if (error.waits_log > 0.002)
        waits = ", and what they differ in their waits for the host's launches besides";
    return arena_format(r->arena, "That is more than %s%s", limit, waits);
}

static void write_against_second(const struct report *r) {
    const struct run_record *best = r->runs[r->best], *second = r->runs[r->second];
    const double less = fabs(second->left_out_fraction - best->left_out_fraction);
    fputs("<p>Next best: ", r->out);
    html_text(r->out, r->names[r->second]);
    if (record_leaves_out(less)) {
        fprintf(r->out, ", which leaves out %.1f %% of the samples: the two do not compare.</p>\n",
                second->left_out_fraction * 100);
        return;
    }
    const bool same_model = run_same_file(best, second, RUN_FILE_MODEL);
    if (!same_model || !run_same_file(best, second, RUN_FILE_DATA)) {
        fprintf(r->out, ", which trains %s: the two do not compare.</p>\n",
                same_model ? "on other data" : "another model");
        return;
    }
    const double more = report_value_of(r, second) / report_value_of(r, best) - 1;
    const char *breach = report_breach(r, second);
    if (breach[0] != '\0' && report_breach(r, best)[0] == '\0')
        fprintf(r->out, ", which is <b>%s</b> and %s.</p>\n", breach, more_text(r, more));
    else
        fprintf(r->out,
                ", which %s. %s. <code>ballast compare</code> says how sure the order is, with the "
                "chance of the draw.</p>\n",
                more_text(r, more), sureness_text(r, more));
    write_causes(r, best, second);
}

struct cheapest_point {
    int64_t row;
    double cost;
};

static bool keep_point(void *context, sqlite3_stmt *row, struct error *err) {
    (void)err;
    struct cheapest_point *p = context;
    *p = (struct cheapest_point){ sqlite3_column_int64(row, 0), sqlite3_column_double(row, 1) };
    return true;
}

#define CHEAPER_POINTS                                                                             \
    " AND verdict <> 'out of memory' AND status = 'raced' AND total_days <= coalesce((SELECT"      \
    " deadline_days FROM sweep WHERE id = ?1), 9e99)" SWEEP_VIEW_NO_TWINS " ORDER BY 2 LIMIT 1"

/* A sweep replays what its own objective ranks first, within deadline and budget; the table of runs
 * may lack what is cheapest. */
static bool write_cheaper_point(const struct report *r, const struct run_record *best) {
    struct cheapest_point point = { .row = -1 };
    const bool priced = !r->unpriced;
    int64_t sweep_id;
    const char *name;
    if (!sweep_view_find(r->store, NULL, &sweep_id, &name, r->arena, r->err)) return false;
    if (sweep_id < 0) return true;
    if (!store_query(r->store,
                     priced
                         ? "SELECT row_index, money_usd FROM sweep_result WHERE sweep_id = ?1 AND"
                           " money_usd IS NOT NULL" CHEAPER_POINTS
                         : "SELECT row_index, gpu_days FROM sweep_result WHERE sweep_id = ?1 AND"
                           " gpu_days IS NOT NULL" CHEAPER_POINTS,
                     sweep_id, keep_point, &point, r->err))
        return false;
    if (point.row < 0 || point.cost > 0.98 * report_cost_of(r, best)) return true;
    fputs("<p><b>The sweep holds cheaper configurations</b> that it did not replay: by its "
          "objective, deadline and budget others came first. ",
          r->out);
    html_text(r->out,
              arena_format(r->arena, "Row %lld costs %s %s after its race over a step or two. ",
                           (long long)point.row, report_number(r, point.cost, 1),
                           priced ? "USD" : "GPU-days"));
    fprintf(r->out,
            "Sweep again for least %s, without limits, to have them replayed in full.</p>\n",
            priced ? "money" : "GPU-days");
    return true;
}

static void write_passed_over(const struct report *r) {
    if (r->passed_over > 0)
        fprintf(
            r->out,
            "<p>%lld of the runs suppose something (section what_if of their scenarios): they are "
            "no choice, and compete with none of these.</p>\n",
            (long long)r->passed_over);
}

/* Prices that a scenario sets itself are no predictions, and runs beside each other may differ by
 * them alone. */
static void write_ruled(const struct report *r) {
    const char *names = "";
    int64_t count = 0;
    for (int64_t i = 0; i < r->run_count; i++) {
        if (!record_has_rules(r->runs[i]->resolved_scenario)) continue;
        names = arena_format(r->arena, "%s%s%s", names, count++ > 0 ? ", " : "", r->names[i]);
    }
    if (count == 0) return;
    fputs("<p>Prices are set by rules of their own in: ", r->out);
    html_text(r->out, names);
    fputs(".</p>\n", r->out);
}

bool report_answer(const struct report *r) {
    FILE *out = r->out;
    fputs("<section class=\"answer\" id=\"answer\">\n", out);
    if (r->job_count > 1) {
        if (!report_jobs_write(r)) return false;
        write_passed_over(r);
        fputs("</section>\n", out);
        return true;
    }
    if (r->best < 0) {
        fputs(
            "<p class=\"first\"><b>No run fits.</b> Each of them failed or runs out of memory: the "
            "table says where.</p></section>\n",
            out);
        return true;
    }
    const struct run_record *best = r->runs[r->best];
    struct run_setup setup;
    if (!report_setup_of(r, best->id, &setup)) return false;
    const bool keeps = report_wish_limits(r) && report_breach(r, best)[0] == '\0';
    int64_t rivals = 0, keeping = 0; /* of its job, itself among them */
    for (int64_t i = 0; i < r->run_count; i++) {
        if (r->job_of[i] != r->job_of[r->best] || (r->passed_over > 0 && r->supposes[i])) continue;
        rivals++;
        keeping += report_breach(r, r->runs[i])[0] == '\0';
    }
    fputs("<p class=\"first\"><b>", out);
    html_text(out, r->names[r->best]);
    fputs("</b> ", out);
    report_verdict_tag(out, best);
    if (rivals > 1 && keeps && keeping == 1)
        fprintf(out, " is the only one of %lld runs that keeps %s.", (long long)rivals,
                report_wish_words(r));
    else if (rivals > 1)
        fprintf(out, " %s least%s of %lld runs%s%s%s.",
                r->wish.measure == REPORT_COST ? "costs" : "takes",
                r->wish.measure == REPORT_DAYS       ? " time"
                : r->wish.measure == REPORT_GPU_DAYS ? " GPU time"
                                                     : "",
                (long long)(keeps ? keeping : rivals), keeps ? " that keep " : "",
                keeps ? report_wish_words(r) : "",
                r->wish.measure != REPORT_COST || !r->unpriced ? "" : " (in GPU-days)");
    fputs("</p>\n", out);
    if (!report_wish_write(r)) return false;
    fputs("<p>", out);
    html_text(out, arena_format(r->arena, "%s on %s; %lld x %s: %s. Policies: %s.", setup.model,
                                setup.dataset, (long long)best->gpu_count, setup.hardware,
                                setup.layout, setup.policies));
    fputs("</p>\n", out);
    report_figures(r, best);
    const int most = largest_part(best);
    fprintf(out, "<p>Most of a step goes into %s (%s). ", plot_parts[most].name,
            report_percent(r, plot_part_ms(best, most) / best->step_time_mean_ms));
    fprintf(out, "The band holds 80 %% of the measured runs that nothing was fitted on%s.</p>\n",
            best->inside_range == 0
                ? "; some operators are priced <b>outside the measured range</b>, see below"
                : "");
    write_left_out(r);
    write_step_samples(r);
    if (!report_jobs_price(r)) return false;
    if (r->second >= 0) write_against_second(r);
    write_ruled(r);
    write_passed_over(r);
    if (!write_cheaper_point(r, best)) return false;
    fputs("</section>\n", out);
    return true;
}
