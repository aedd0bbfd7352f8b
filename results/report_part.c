/* report_part.c - numbers, verdicts, what a run was, and pictures, for all parts of the page. */
#include "results/report_part.h"

#include <math.h>
#include <string.h>
#include <unistd.h>
#include "results/html.h"

const char *report_number(const struct report *r, double value, int digits) {
    if (!isfinite(value)) return "";
    char plain[64];
    snprintf(plain, sizeof plain, "%.*f", fabs(value) >= 1000 ? 0 : digits, value);
    if (fabs(value) > 0 && fabs(value) < 0.1) snprintf(plain, sizeof plain, "%.2g", value);
    /* 1,267,712 */
    char text[96];
    size_t at = 0, whole = strcspn(plain, ".e");
    for (size_t i = 0; plain[i] != '\0'; i++) {
        if (i > 0 && i < whole && plain[i - 1] != '-' && (whole - i) % 3 == 0) text[at++] = ',';
        text[at++] = plain[i];
    }
    text[at] = '\0';
    return arena_text(r->arena, text);
}

const char *report_step_text(const struct report *r, double ms) {
    return ms >= 1e4 ? arena_format(r->arena, "%s s", report_number(r, ms / 1e3, 2))
                     : arena_format(r->arena, "%s ms", report_number(r, ms, 1));
}

const char *report_percent(const struct report *r, double fraction) {
    return isfinite(fraction) ? arena_format(r->arena, "%.1f %%", fraction * 100) : "";
}

const char *report_band(const struct report *r, struct band band) {
    if (!band_is_known(band)) return "";
    return arena_format(r->arena, "%s\xc2\xa0%%", band_text(band, "\xc2\xb1\xc2\xa0", 0).text);
}

struct band report_band_of(const struct run_record *run) {
    return band_of_stored(run->band_below_fraction, run->band_fraction);
}

const char *report_odd_peak(const struct run_record *run) {
    const char *precision = record_mfu_precision(run->resolved_scenario);
    return precision != NULL && strstr(precision, "16") == NULL ? precision : NULL;
}

bool report_is_done(const struct run_record *run) {
    return run->status != NULL && strcmp(run->status, "done") == 0;
}

bool report_is_out_of_memory(const struct run_record *run) {
    return run->verdict != NULL && strcmp(run->verdict, "out of memory") == 0;
}

double report_cost_of(const struct report *r, const struct run_record *run) {
    return r->unpriced ? run->gpu_days : run->money_usd;
}

bool report_is_candidate(const struct run_record *run) {
    return report_is_done(run) && !report_is_out_of_memory(run) && isfinite(run->gpu_days);
}

bool report_is_better(const struct report *r, const struct run_record *run,
                      const struct run_record *other) {
    const bool candidate = report_is_candidate(run);
    if (candidate != report_is_candidate(other)) return candidate;
    const bool leaves_out = record_leaves_out(run->left_out_fraction);
    if (leaves_out != record_leaves_out(other->left_out_fraction)) return !leaves_out;
    const bool no_choice = report_no_choice(r, run) != NULL;
    if (no_choice != (report_no_choice(r, other) != NULL)) return !no_choice;
    const bool breaks = report_breach(r, run)[0] != '\0';
    if (breaks != (report_breach(r, other)[0] != '\0')) return !breaks;
    return report_value_of(r, run) < report_value_of(r, other);
}

void report_verdict_tag(FILE *out, const struct run_record *run) {
    const char *verdict = run->verdict != NULL ? run->verdict : run->status;
    const char *class = report_is_out_of_memory(run)              ? "out"
                        : verdict != NULL && !report_is_done(run) ? "out"
                        : strcmp(verdict, "tight") == 0           ? "tight"
                                                                  : "fits";
    fprintf(out, "<span class=\"tag %s\">", class);
    html_text(out, verdict);
    fputs("</span>", out);
    if (record_leaves_out(run->left_out_fraction))
        fprintf(out, " <span class=\"tag tight\">%.1f %% of the samples left out</span>",
                run->left_out_fraction * 100);
}
/* ---- what a run was ---- */

struct setup_reader {
    struct arena *arena;
    struct run_setup *setup;
};

const char *report_column(sqlite3_stmt *row, int index) {
    const unsigned char *text = sqlite3_column_text(row, index);
    return text != NULL ? (const char *)text : "?";
}

static bool read_setup(void *context, sqlite3_stmt *row, struct error *err) {
    (void)err;
    struct setup_reader *r = context;
    const char *vpp = report_column(row, 5), *cp = report_column(row, 6);
    r->setup->model = arena_text(r->arena, report_column(row, 0));
    r->setup->dataset = arena_text(r->arena, report_column(row, 1));
    r->setup->hardware = arena_text(r->arena, report_column(row, 2));
    r->setup->layout = arena_format(
        r->arena, "TP %s, PP %s%s%s, DP %s%s%s, ZeRO-%s", report_column(row, 3),
        report_column(row, 4), strcmp(vpp, "1") == 0 ? "" : " x ", strcmp(vpp, "1") == 0 ? "" : vpp,
        report_column(row, 7), strcmp(cp, "1") == 0 ? "" : ", CP ", strcmp(cp, "1") == 0 ? "" : cp,
        report_column(row, 8));
    r->setup->policies =
        arena_format(r->arena, "%s, %s, %s, %s", report_column(row, 9), report_column(row, 10),
                     report_column(row, 11), report_column(row, 12));
    return true;
}

bool report_setup_of(const struct report *r, int64_t run_id, struct run_setup *setup) {
    *setup = (struct run_setup){ "", "", "", "", "" };
    struct setup_reader reader = { r->arena, setup };
    return store_query(r->store,
                       "SELECT model, dataset, hardware, tp, pp, vpp, cp, dp, zero_stage, batching,"
                       " partition, recompute, schedule FROM run_setup WHERE run_id = ?1",
                       run_id, read_setup, &reader, r->err);
}

/* ---- pictures ---- */

bool report_picture(struct report *r, const char *name, report_draw draw, const void *what,
                    const char *description, const char *caption) {
    if (r->no_pictures) return true;
    const char *path = arena_format(r->arena, "%s/%s.svg", r->folder, name);
    struct error reason = { 0 };
    if (!draw(r, path, what, &reason)) {
        /* Without gnuplot the page is poorer, not wrong. */
        r->no_pictures = strstr(reason.text, "cannot start gnuplot") != NULL;
        fputs("<p class=\"soft\">No picture: ", r->out);
        html_text(r->out, reason.text);
        fputs(".</p>\n", r->out);
        return true;
    }
    const bool high = strcmp(name, "heatmap") == 0 || strcmp(name, "breakdown") == 0;
    fputs(!high ? "<figure>" : "<figure class=\"high\">", r->out);
    bool ok = html_image(r->out, path, "image/svg+xml", description, r->err);
    fputs("<figcaption>", r->out);
    html_text(r->out, caption);
    fputs("</figcaption></figure>\n", r->out);
    unlink(path);
    return ok;
}
