/* report_wish.c - what the newest sweep was asked for, and which runs grant it. Runs that are not
 * of that sweep were asked for nothing: they break no limit. The objective ranks the page only
 * where all of its runs are of the sweep; otherwise cost does.
 */
#include <math.h>
#include <string.h>
#include "results/html.h"
#include "results/report_part.h"
#include "results/sweep_view.h"

/* ---- reading ---- */

struct member_reader {
    struct report *report;
    bool *member; /* by index in runs */
    const char **reasons;
};

static bool note_member(void *context, sqlite3_stmt *row, struct error *err) {
    (void)err;
    struct member_reader *reader = context;
    const struct report *r = reader->report;
    for (int64_t i = 0; i < r->run_count; i++)
        if (r->runs[i]->id == sqlite3_column_int64(row, 0)) {
            const char *reason = (const char *)sqlite3_column_text(row, 1);
            reader->member[i] = true;
            reader->reasons[i] = reason != NULL ? arena_text(r->arena, reason) : NULL;
        }
    return true;
}

bool report_wish_read(struct report *r) {
    struct report_wish *wish = &r->wish;
    *wish = (struct report_wish){ .limits = { NAN, NAN }, .measure = REPORT_COST };
    struct member_reader reader = { r, arena_array(r->arena, bool, r->run_count + 1),
                                    arena_array(r->arena, const char *, r->run_count + 1) };
    const char *name;
    if (!sweep_view_find(r->store, NULL, &wish->sweep_id, &name, r->arena, r->err)) return false;
    if (wish->sweep_id < 0) return true;
    int64_t count;
    const struct sweep_record *sweep =
        store_load(r->store, RECORD_SWEEP, wish->sweep_id, r->arena, &count, r->err);
    if (sweep == NULL ||
        !store_query(r->store,
                     "SELECT run_id, reason FROM sweep_row WHERE sweep_id = ?1 AND run_id"
                     " IS NOT NULL",
                     wish->sweep_id, note_member, &reader, r->err))
        return false;
    int64_t *ids = arena_array(r->arena, int64_t, r->run_count + 1);
    wish->reasons = arena_array(r->arena, const char *, r->run_count + 1);
    for (int64_t i = 0; i < r->run_count; i++)
        if (reader.member[i]) {
            wish->reasons[wish->run_count] = reader.reasons[i];
            ids[wish->run_count++] = r->runs[i]->id;
        }
    wish->run_ids = ids;
    wish->limits = (struct plot_limits){ sweep->deadline_days, sweep->budget_usd };
    if (wish->run_count == r->run_count && sweep->objective != NULL)
        wish->measure = strcmp(sweep->objective, "total_days") == 0 ? REPORT_DAYS
                        : strcmp(sweep->objective, "gpu_days") == 0 ? REPORT_GPU_DAYS
                                                                    : REPORT_COST;
    return true;
}

/* ---- judging ---- */

static bool was_asked(const struct report *r, const struct run_record *run) {
    for (int64_t i = 0; i < r->wish.run_count; i++)
        if (r->wish.run_ids[i] == run->id) return true;
    return false;
}

const char *report_no_choice(const struct report *r, const struct run_record *run) {
    for (int64_t i = 0; i < r->wish.run_count; i++)
        if (r->wish.run_ids[i] == run->id) return r->wish.reasons[i];
    return NULL;
}

bool report_wish_limits(const struct report *r) {
    return isfinite(r->wish.limits.deadline_days) || isfinite(r->wish.limits.budget_usd);
}

const char *report_wish_words(const struct report *r) {
    const bool deadline = isfinite(r->wish.limits.deadline_days);
    return deadline && isfinite(r->wish.limits.budget_usd) ? "deadline and budget"
           : deadline                                      ? "the deadline"
                                                           : "the budget";
}

const char *report_breach(const struct report *r, const struct run_record *run) {
    return was_asked(r, run) ? report_breach_of(r, run->total_days, run->money_usd) : "";
}

const char *report_breach_of(const struct report *r, double days, double money_usd) {
    const bool late = days > r->wish.limits.deadline_days;
    const bool dear = money_usd > r->wish.limits.budget_usd;
    return late && dear ? "late, over budget" : late ? "late" : dear ? "over budget" : "";
}

double report_value_of(const struct report *r, const struct run_record *run) {
    return r->wish.measure == REPORT_DAYS       ? run->total_days
           : r->wish.measure == REPORT_GPU_DAYS ? run->gpu_days
                                                : report_cost_of(r, run);
}

/* ---- telling ---- */

static const char *days_text(const struct report *r, double days) {
    const struct amount_unit time = amount_of_days(days);
    return arena_format(r->arena, "%s %s", report_number(r, days * time.per_day, 2), time.name);
}

static const char *limits_text(const struct report *r) {
    const struct plot_limits *l = &r->wish.limits;
    const char *time = isfinite(l->deadline_days)
                           ? arena_format(r->arena, "within %s", days_text(r, l->deadline_days))
                           : "";
    const char *money =
        isfinite(l->budget_usd)
            ? arena_format(r->arena, "for %s USD at most",
                           report_number(r, l->budget_usd, amount_money_decimals(l->budget_usd)))
            : "";
    return arena_format(r->arena, "%s%s%s", time, time[0] != '\0' && money[0] != '\0' ? ", " : "",
                        money);
}

struct tally {
    int64_t fit, keep;
};

static bool note_tally(void *context, sqlite3_stmt *row, struct error *err) {
    (void)err;
    *(struct tally *)context =
        (struct tally){ sqlite3_column_int64(row, 0), sqlite3_column_int64(row, 1) };
    return true;
}

bool report_wish_write(const struct report *r) {
    if (!report_wish_limits(r)) return true;
    struct tally all = { 0, 0 };
    if (!store_query(
            r->store,
            "SELECT count(*), sum(total_days <= coalesce((SELECT deadline_days FROM sweep WHERE id"
            " = ?1), 9e99) AND coalesce(money_usd, 0) <= coalesce((SELECT budget_usd FROM sweep"
            " WHERE id = ?1), 9e99)) FROM sweep_result WHERE sweep_id = ?1"
            " AND verdict <> 'out of memory'" SWEEP_VIEW_NO_TWINS,
            r->wish.sweep_id, note_tally, &all, r->err))
        return false;
    int64_t candidates = 0, keeping = 0;
    for (int64_t i = 0; i < r->run_count; i++) {
        if (!report_is_candidate(r->runs[i]) || !was_asked(r, r->runs[i])) continue;
        candidates++;
        keeping += report_breach(r, r->runs[i])[0] == '\0';
    }
    fputs("<p id=\"limits\"><b>Asked for: ", r->out);
    html_text(r->out, limits_text(r));
    fprintf(
        r->out,
        ".</b> %lld of the %lld runs of the sweep keep that, and %s of the %s configurations that "
        "fit.",
        (long long)keeping, (long long)candidates, report_number(r, (double)all.keep, 0),
        report_number(r, (double)all.fit, 0));
    const struct run_record *best = r->runs[r->best];
    const char *breach = report_breach(r, best);
    if (breach[0] != '\0') {
        fprintf(r->out, " <b>The one above is %s</b>: no run does better.", breach);
    } else if (was_asked(r, best) && best->band_fraction > 0) {
        const double most = 1 + best->band_fraction;
        const char *perhaps = report_breach_of(r, best->total_days * most, best->money_usd * most);
        if (perhaps[0] != '\0')
            fprintf(r->out,
                    " The one above keeps it, but at the upper end of its error band it is %s.",
                    perhaps);
        else
            fputs(" The one above keeps it with its whole error band.", r->out);
    }
    fputs("</p>\n", r->out);
    return true;
}
