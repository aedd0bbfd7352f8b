/* sweep_print.c - the best layouts, the front, the causes, time and money by number of GPUs. */
#include "sim/cli/sweep_print.h"

#include <math.h>
#include <string.h>
#include "sim/base/amount.h"
#include "sim/base/band.h"

enum { SHOWN_WITHOUT_REPLAY = 10, FRONT_SHOWN = 20, NOTABLE_STEP_PERCENT = 5 };

/* By enum sweep_objective. */
static const char *const objectives[] = { "days", "GPU-days", "money" };

/* Calls `show` for each other configuration that comes to the same layout. */
static void for_each_alike(struct sweep *sweep, int64_t row,
                           void (*show)(void *context, const char *label), void *context) {
    for (int64_t i = 0; i < sweep->row_count; i++)
        if (i != row && sweep->alike[i] == row) show(context, sweep_label(sweep, i));
}

static void add_label(void *list, const char *label) {
    cJSON_AddItemToArray(list, cJSON_CreateString(label));
}

static struct band band_of(const struct sweep_row_record *row) {
    return band_of_stored(row->band_below_fraction, row->band_fraction);
}

static cJSON *row_json(struct sweep *sweep, int64_t index) {
    const struct sweep_row_record *r = &sweep->rows[index];
    cJSON *o = cJSON_CreateObject();
    cJSON_AddNumberToObject(o, "row_index", (double)r->row_index);
    cJSON_AddStringToObject(o, "label", sweep_label(sweep, index));
    cJSON_AddItemToObject(o, "assignments", cJSON_Parse(sweep_assignments(sweep, index)));
    cJSON_AddStringToObject(o, "status", r->status);
    cJSON_AddNumberToObject(o, "replayed_iterations", (double)r->replayed_iterations);
    cJSON_AddNumberToObject(o, "gpu_count", (double)r->gpu_count);
    cli_add_number(o, "step_time_mean_ms", r->step_time_mean_ms);
    cli_add_number(o, "step_time_p50_ms", r->step_time_p50_ms);
    cli_add_number(o, "step_time_p95_ms", r->step_time_p95_ms);
    cli_add_number(o, "total_days", r->total_days);
    cli_add_number(o, "gpu_days", r->gpu_days);
    cli_add_number(o, "money_usd", r->money_usd);
    cli_add_number(o, "on_demand_usd", r->on_demand_usd);
    cli_add_number(o, "mfu_fraction", r->mfu_fraction);
    const struct band band = band_of(r);
    cli_add_number(o, "band_fraction", band.above);
    cli_add_number(o, "band_below_fraction", band.below);
    cJSON_AddStringToObject(o, "verdict", r->verdict);
    cJSON_AddNumberToObject(o, "memory_peak_bytes", (double)r->memory_peak_bytes);
    cJSON_AddNumberToObject(o, "memory_headroom_fraction",
                            1 - (double)sweep_row_memory_bytes(r) /
                                    (double)r->memory_capacity_bytes);
    cli_add_number(o, "memory_training_bytes",
               r->memory_training_bytes >= 0 ? (double)r->memory_training_bytes : NAN);
    cli_add_number(o, "memory_bound_bytes",
               r->memory_bound_bytes >= 0 ? (double)r->memory_bound_bytes : NAN);
    if (sweep_row_memory_unknown(r))
        cJSON_AddNullToObject(o, "may_run_out");
    else
        cJSON_AddBoolToObject(o, "may_run_out", sweep_row_may_run_out(r));
    cli_add_number(o, "samples_left_out_fraction", r->left_out_fraction);
    cli_add_number(o, "samples_dropped_fraction", r->dropped_fraction);
    cli_add_number(o, "samples_per_step", r->samples_per_step);
    cli_add_number(o, "asked_samples_per_step",
               r->asked_samples_per_step > 0 ? (double)r->asked_samples_per_step : NAN);
    if (r->reason != NULL) cJSON_AddStringToObject(o, "needs_code", r->reason);
    cJSON_AddBoolToObject(o, "on_front", r->on_front == 1);
    for_each_alike(sweep, index, add_label, cJSON_AddArrayToObject(o, "alike"));
    if (r->run_id >= 0) cJSON_AddNumberToObject(o, "run_id", (double)r->run_id);
    return o;
}

double sweep_rate(const struct sweep *sweep) {
    return sweep->race_s > 0 ? (double)sweep->evaluated / sweep->race_s : 0;
}

/* The replayed ones, or the first of those raced. */
static int64_t shown_count(const struct sweep *sweep) {
    int64_t shown = sweep->top_count > 0 ? sweep->top_count : SHOWN_WITHOUT_REPLAY;
    return shown < sweep->best_count ? shown : sweep->best_count;
}

/* "tensor communication" as a key: "tensor_communication". */
static const char *as_key(const char *name, char *text, size_t size) {
    snprintf(text, size, "%s", name);
    for (char *c = text; *c != '\0'; c++)
        if (*c == ' ') *c = '_';
    return text;
}

static void add_comparison(cJSON *best, const struct sweep_decision *d, int64_t i) {
    const struct comparison_row *c = &d->against_best[i];
    cJSON *o = cJSON_AddObjectToObject(best, "against_best");
    cJSON_AddNumberToObject(o, "delta_fraction", c->delta_fraction);
    cli_add_number(o, "delta_low_fraction", c->delta_low_fraction);
    cli_add_number(o, "delta_high_fraction", c->delta_high_fraction);
    cJSON_AddNumberToObject(o, "confidence_fraction", c->confidence_fraction);
    cli_add_number(o, "order_fraction", c->order_fraction);
    cJSON_AddStringToObject(o, "verdict", comparison_verdict_name(c->verdict));
    cJSON_AddBoolToObject(o, "paired", c->paired);
}

static void add_causes(cJSON *o, const struct sweep_decision *d) {
    cJSON *causes = cJSON_AddObjectToObject(o, "runner_up_causes_ms");
    for (int part = 0; part < COMPARISON_PARTS; part++) {
        char key[64];
        cJSON_AddNumberToObject(causes, as_key(comparison_part_names[part], key, sizeof key),
                                d->runner_up_ms[part] - d->winner_ms[part]);
    }
}

static void add_rows(cJSON *o, const char *key, struct sweep *sweep, const int64_t *rows,
                     int64_t count) {
    cJSON *list = cJSON_AddArrayToObject(o, key);
    for (int64_t i = 0; i < count; i++)
        cJSON_AddItemToArray(list, row_json(sweep, rows[i]));
}

/* Of the race; those that a replay found are replays_out_of_memory. */
static int64_t count_out_of_memory(const struct sweep *sweep) {
    int64_t count = 0;
    for (int64_t i = 0; i < sweep->row_count; i++) {
        const struct sweep_row_record *row = &sweep->rows[i];
        count += !sweep_row_is_replayed(row) && row->verdict != NULL &&
                 strcmp(row->verdict, "out of memory") == 0;
    }
    return count;
}

cJSON *json_sweep(struct sweep *sweep) {
    struct sweep_decision d;
    sweep_decide(sweep, &d);
    cJSON *o = cJSON_CreateObject();
    cJSON_AddStringToObject(o, "name", sweep->file->name);
    cJSON_AddNumberToObject(o, "configurations", (double)sweep->configurations);
    cJSON_AddNumberToObject(o, "valid", (double)sweep->valid);
    cJSON_AddNumberToObject(o, "duplicates", (double)sweep->duplicates);
    cJSON *rejected = cJSON_AddObjectToObject(o, "rejected");
    for (int64_t i = 0; i < sweep->rejection_count; i++)
        cJSON_AddNumberToObject(rejected, sweep->rejections[i].rule,
                                (double)sweep->rejections[i].row_count);
    cJSON_AddNumberToObject(o, "pruned", (double)sweep->pruned);
    cJSON_AddNumberToObject(o, "out_of_memory", (double)count_out_of_memory(sweep));
    cJSON_AddNumberToObject(o, "evaluated", (double)sweep->evaluated);
    cJSON_AddNumberToObject(o, "resumed", (double)sweep->resumed);
    cJSON_AddNumberToObject(o, "evaluated_per_second", sweep_rate(sweep));
    cJSON_AddNumberToObject(o, "leaving_out_samples", (double)sweep->leaving_out);
    cJSON_AddNumberToObject(o, "needing_code", (double)sweep->needing_code);
    cJSON_AddNumberToObject(o, "rescaled", (double)sweep->rescaled_count);
    cJSON_AddNumberToObject(o, "memory_band_fraction", sweep->memory_band_fraction);
    cJSON_AddNumberToObject(o, "top_wanted", (double)sweep->top_wanted);
    cJSON_AddNumberToObject(o, "replays_out_of_memory", (double)sweep->replays_out_of_memory);
    cJSON *best = cJSON_AddArrayToObject(o, "best");
    for (int64_t i = 0; i < shown_count(sweep); i++) {
        cJSON *row = row_json(sweep, sweep->best[i]);
        if (i < sweep->top_count) add_comparison(row, &d, i);
        cJSON_AddItemToArray(best, row);
    }
    if (sweep->top_count > 1) add_causes(o, &d);
    add_rows(o, "front", sweep, d.front, d.front_count);
    add_rows(o, "by_gpu_count", sweep, d.by_gpu_count, d.gpu_count_count);
    add_rows(o, "fastest", sweep, &d.fastest, d.fastest >= 0);
    add_rows(o, "cheapest", sweep, &d.cheapest, d.cheapest >= 0);
    add_rows(o, "cheapest_in_time", sweep, &d.cheapest_in_time, d.cheapest_in_time >= 0);
    add_rows(o, "fastest_in_budget", sweep, &d.fastest_in_budget, d.fastest_in_budget >= 0);
    add_rows(o, "roomy_in_time", sweep, &d.roomy_in_time, d.roomy_in_time >= 0);
    add_rows(o, "roomy_in_budget", sweep, &d.roomy_in_budget, d.roomy_in_budget >= 0);
    cJSON *warnings = cJSON_AddArrayToObject(o, "warnings");
    for (int64_t i = 0; sweep->warnings[i] != NULL; i++)
        cJSON_AddItemToArray(warnings, cJSON_CreateString(sweep->warnings[i]));
    cJSON *assumed = cJSON_AddArrayToObject(o, "assumptions");
    for (int64_t i = 0; sweep->assumed[i] != NULL; i++)
        cJSON_AddItemToArray(assumed, cJSON_CreateString(sweep->assumed[i]));
    return o;
}

/* ---- text ---- */

static void print_counts(const struct sweep *sweep) {
    char all[32], valid[32], raced[32], pruned[32], resumed[32], row[32];
    printf("%s: %s configuration%s, %s valid", sweep->file->name,
           cli_thousands(sweep->configurations, all), sweep->configurations == 1 ? "" : "s",
           cli_thousands(sweep->valid, valid));
    if (sweep->duplicates > 0)
        printf(" (and %s equal to one of them)", cli_thousands(sweep->duplicates, row));
    /* What the database knows of was raced or pruned by an earlier call: the two make up the
     * valid. */
    printf("\n  raced %s, pruned %s", cli_thousands(sweep->valid - sweep->pruned, raced),
           cli_thousands(sweep->pruned, pruned));
    if (sweep->resumed > 0)
        printf(" (%s of them known from the database)", cli_thousands(sweep->resumed, resumed));
    const int64_t oom = count_out_of_memory(sweep);
    if (oom > 0) printf("; %s out of memory and left out", cli_thousands(oom, row));
    putchar('\n');
    for (int64_t i = 0; i < sweep->rejection_count; i++)
        printf("  rejected %s by %s: %.*s\n", cli_thousands(sweep->rejections[i].row_count, row),
               sweep->rejections[i].rule, (int)strcspn(sweep->rejections[i].message, "\n"),
               sweep->rejections[i].message);
}

/* What a table of layouts shows. */
struct columns {
    bool money, on_demand;
    int band_width;
    struct amount_unit time, work; /* of all its rows */
};

static struct columns columns_of(const struct sweep *sweep, const int64_t *rows, int64_t count) {
    struct columns columns = { .band_width = 3 };
    double days = 0, gpu_days = 0;
    for (int64_t i = 0; i < count; i++) {
        days = fmax(days, sweep->rows[rows[i]].total_days);
        gpu_days = fmax(gpu_days, sweep->rows[rows[i]].gpu_days);
        columns.money = columns.money || !isnan(sweep->rows[rows[i]].money_usd);
        columns.on_demand = columns.on_demand || !isnan(sweep->rows[rows[i]].on_demand_usd);
        const int width = (int)strlen(band_text(band_of(&sweep->rows[rows[i]]), "", 0).text);
        if (width > columns.band_width) columns.band_width = width;
    }
    columns.time = amount_of_days(days);
    columns.work = amount_of_gpu_days(gpu_days);
    return columns;
}

static void print_header(struct columns columns, const char *first) {
    printf("%5s %9s %10s%s%s    step s p95/p50     MFU %*s  memory free  steps\n", first,
           columns.time.name, columns.work.name, columns.money ? "         USD" : "",
           columns.on_demand ? "   on demand" : "", columns.band_width + 2, "band");
}

static int money_decimals(double usd) {
    return cli_decimals(usd, amount_money_decimals(usd));
}

/* A race of fewer steps than it was given has seen all that a pass holds. */
static void print_race_mark(const struct sweep *sweep, const struct sweep_row_record *row) {
    if (sweep_row_is_replayed(row)) return;
    const bool all = row->replayed_iterations < sweep->file->race_iterations;
    printf("   (%s%ld step%s%s)", all ? "raced on all " : "", (long)row->replayed_iterations,
           row->replayed_iterations == 1 ? "" : "s", all ? " of a pass" : ", not replayed");
}

static bool is_tight(const struct sweep_row_record *row) {
    return row->verdict != NULL && strcmp(row->verdict, "tight") == 0;
}

/* What speaks against choosing it. */
static void print_marks(const struct sweep *sweep, const struct sweep_row_record *row) {
    if (is_tight(row)) fputs("   [tight]", stdout);
    if (sweep_row_may_run_out(row)) fputs("   [may run out of memory in a heavier step]", stdout);
    if (sweep_row_memory_unknown(row)) fputs("   [memory of heavier steps not known]", stdout);
    if (sweep_row_needs_code(row) && !sweep->all_need_code) fputs("   [needs code]", stdout);
}

/* A packed micro-batch holds many samples, so that a step may hold others than were asked for. */
static void print_step_mark(const struct sweep_row_record *row) {
    const double asked = (double)row->asked_samples_per_step;
    if (asked > 0 && fabs(row->samples_per_step / asked - 1) > NOTABLE_STEP_PERCENT * 0.01)
        printf("   [%.0f samples a step, %.0f asked for]", row->samples_per_step, asked);
}

static void print_limit_marks(const struct sweep *sweep, const struct sweep_row_record *row) {
    if (row->total_days > sweep->file->deadline_days) fputs("   [late]", stdout);
    if (row->money_usd > sweep->file->budget_usd) fputs("   [over budget]", stdout);
}

static void print_left_out_mark(const struct sweep_row_record *row) {
    if (record_leaves_out(row->left_out_fraction))
        printf("   [leaves out %.1f %% of the samples]", row->left_out_fraction * 100);
}

static void print_row(struct sweep *sweep, int64_t index, struct columns columns) {
    const struct sweep_row_record *r = &sweep->rows[index];
    const double length = r->total_days * columns.time.per_day,
                 used = r->gpu_days * columns.work.per_day;
    printf(" %9.*f %10.*f", cli_decimals(length, 2), length, cli_decimals(used, 1), used);
    if (columns.money) printf(" %11.*f", money_decimals(r->money_usd), r->money_usd);
    if (columns.on_demand) printf(" %11.*f", money_decimals(r->on_demand_usd), r->on_demand_usd);
    printf(" %9.3f", r->step_time_mean_ms / 1e3);
    if (isnan(r->step_time_p95_ms))
        printf("       -");
    else
        printf(" %7.3f", r->step_time_p95_ms / r->step_time_p50_ms);
    printf(" %5.1f %% %*s %% %10.1f %% %6ld%s %s", r->mfu_fraction * 100, columns.band_width,
           band_text(band_of(r), "", 0).text,
           100 - 100 * (double)sweep_row_memory_bytes(r) / (double)r->memory_capacity_bytes,
           (long)r->replayed_iterations, r->on_front == 1 ? " *" : "  ", sweep_label(sweep, index));
    print_limit_marks(sweep, r);
    print_marks(sweep, r);
    print_step_mark(r);
    print_left_out_mark(r);
    if (sweep->top_count > 0) print_race_mark(sweep, r); /* beside replayed ones */
    putchar('\n');
}

struct alike {
    int64_t count;
    const char *first;
};

static void note_alike(void *context, const char *label) {
    struct alike *a = context;
    if (a->count++ == 0) a->first = label;
}

/* Which of those shown stand for others, and the first of these. */
static void print_alike(struct sweep *sweep, int64_t shown) {
    for (int64_t i = 0; i < shown; i++) {
        struct alike a = { 0 };
        for_each_alike(sweep, sweep->best[i], note_alike, &a);
        if (a.count == 1) printf("  %ld is the same layout as: %s\n", (long)i + 1, a.first);
        if (a.count > 1)
            printf("  %ld is the same layout as %ld others, as: %s\n", (long)i + 1, (long)a.count,
                   a.first);
    }
}

/* A packed micro-batch holds many samples: layouts that are asked for equal batches may take
 * unequal ones, and all of them other ones than asked. */
static void print_batch_sizes(const struct sweep *sweep, int64_t shown) {
    double least = INFINITY, most = 0;
    bool as_asked = true;
    for (int64_t i = 0; i < shown; i++) {
        const struct sweep_row_record *row = &sweep->rows[sweep->best[i]];
        const double asked = (double)row->asked_samples_per_step;
        least = fmin(least, row->samples_per_step);
        most = fmax(most, row->samples_per_step);
        as_asked = as_asked && !(asked > 0 && fabs(row->samples_per_step / asked - 1) >
                                                  NOTABLE_STEP_PERCENT * 0.01);
    }
    const bool alike = most <= 1.1 * least;
    if (alike && as_asked) return;
    fputs("  a step holds", stdout);
    if (alike) printf(" some %.0f samples", sweep->rows[sweep->best[0]].samples_per_step);
    for (int64_t i = 0; i < shown && !alike; i++)
        printf("%s %.0f samples in %ld", i > 0 ? "," : "",
               sweep->rows[sweep->best[i]].samples_per_step, (long)i + 1);
    puts(": days and money are of the same samples in all, which steps of another size may train "
         "otherwise\n  (packed groups hold many samples; \"global_batch\": {\"micro_batches\": N} "
         "sets "
         "their number)");
}

static void print_rescaled(const struct sweep *sweep) {
    char count[32];
    const bool limited = !isnan(sweep->file->deadline_days) || !isnan(sweep->file->budget_usd);
    if (sweep->rescaled_count > 0)
        printf(
            "  %s differ%s from another in micro_batch alone, which packed groups have no use for: "
            "the one stands whose step\n  holds most nearly the samples that are asked for%s\n",
            cli_thousands(sweep->rescaled_count, count), sweep->rescaled_count == 1 ? "s" : "",
            limited ? ", of those that keep the limits" : "");
}

/* What the sampler drops of a pass is made up for, so that all rows train as many samples. */
static void print_dropped(const struct sweep *sweep, int64_t shown) {
    bool any = false;
    for (int64_t i = 0; i < shown; i++) {
        const double dropped = sweep->rows[sweep->best[i]].dropped_fraction;
        if (!record_leaves_out(dropped)) continue;
        printf("%s %.1f %% in %ld", any ? "," : "  the sampler drops of each pass over the data",
               dropped * 100, (long)i + 1);
        any = true;
    }
    if (any) puts(": days and money hold the steps that make up for it");
}

static int64_t count_replays(const struct sweep *sweep) {
    int64_t count = 0;
    for (int64_t i = 0; i < sweep->row_count; i++)
        count += sweep_row_is_replayed(&sweep->rows[i]);
    return count;
}

/* Replays end after so many tries: what was raced and not tried may belong among the best. */
static void print_not_tried(struct sweep *sweep) {
    const int64_t missing = sweep->top_wanted - sweep->top_count,
                  raced = sweep->best_count - sweep->top_count;
    if (missing <= 0 || raced <= 0 || sweep->top_count == 0) return;
    printf(
        "  only %ld of %ld asked for were found in %ld replays; %ld layouts that were raced were "
        "not tried, the first: %s\n  (more \"race_iterations\" of the sweep foresee more of what "
        "a replay finds)\n",
        (long)sweep->top_count, (long)sweep->top_wanted, (long)count_replays(sweep), (long)raced,
        sweep_label(sweep, sweep->best[sweep->top_count]));
}

static void print_best(struct sweep *sweep, int64_t shown) {
    printf("\nLeast %s first (* on the Pareto front of time, %s and memory)\n",
           objectives[sweep->file->objective],
           isnan(sweep->rows[sweep->best[0]].money_usd) ? "GPU-days" : "money");
    struct columns columns = columns_of(sweep, sweep->best, shown);
    print_header(columns, "");
    for (int64_t i = 0; i < shown; i++) {
        printf("%5ld", (long)i + 1);
        print_row(sweep, sweep->best[i], columns);
    }
    if (!columns.money)
        puts("  for money give a price: --set cluster.price_usd_per_gpu_hour=USD, or in "
             "\"cluster\"");
    print_alike(sweep, shown);
    print_batch_sizes(sweep, shown);
    print_dropped(sweep, shown);
    print_not_tried(sweep);
}

static void print_leaving_out(const struct sweep *sweep) {
    char count[32];
    if (sweep->all_leave_out && sweep->leaving_out > 0)
        printf("warning: every layout that fits leaves out more than %.0f %% of the samples: times "
               "and money are of the others, and compare only where equal shares are left out\n",
               RECORD_LEFT_OUT_TOLERATED * 100);
    else if (sweep->leaving_out > 0)
        printf(
            "  %s leave out more than %.0f %% of the samples: ranked after all others, not on the "
            "front (`ballast run`\n  of one says what they hold and its policy does not take)\n",
            cli_thousands(sweep->leaving_out, count), RECORD_LEFT_OUT_TOLERATED * 100);
}

/* What plan --emit refuses is never the answer while there is another; what it would bring is said.
 * How many they are hangs on what was pruned, that one of them is the best of all does not. */
static void print_needing_code(struct sweep *sweep) {
    if (sweep->best_count == 0 || sweep->needing_code == 0) return;
    int64_t found = -1;
    for (int64_t i = 0; i < sweep->best_count && found < 0; i++)
        if (sweep_row_needs_code(&sweep->rows[sweep->best[i]])) found = sweep->best[i];
    if (found < 0) return;
    const struct sweep_row_record *row = &sweep->rows[found];
    const double value = sweep_objective_value(sweep, row);
    if (sweep->all_need_code)
        printf("warning: no layout that fits can be had by options of its backend alone "
               "(ballast plan --emit); of the first:\n  %s\n",
               row->reason);
    else if (value < sweep_objective_value(sweep, &sweep->rows[sweep->best[0]]))
        printf("  [needs code]: no option of the backend says the plan (ballast plan --emit): "
               "ranked after all others, not on the front;\n    the best: %s, %.*f %s\n    %s\n",
               sweep_label(sweep, found), cli_decimals(value, 1), value,
               sweep->file->objective == SWEEP_MONEY ? "USD" : objectives[sweep->file->objective],
               row->reason);
}

static void print_out_of_memory(const struct sweep *sweep) {
    const int64_t count = sweep->replays_out_of_memory;
    if (count == 0) return;
    printf("\n%ld replayed layout%s ran out of memory and %s left out: some step of the training "
           "needs more than the race's\n",
           (long)count, count == 1 ? "" : "s", count == 1 ? "is" : "are");
}

/* "99.998 %": as many digits as tell it from certainty. */
static void print_confidence(double fraction) {
    if (fraction > 0.99999)
        printf("> 99.999 %%");
    else
        printf("%.*f %%", fraction > 0.999 ? 3 : 1, fraction * 100);
}

static void print_order(const struct sweep *sweep, const struct sweep_decision *d) {
    if (sweep->top_count < 2) return;
    printf("\nHow sure the order is, in %s against the first\n",
           objectives[sweep->file->objective]);
    for (int64_t i = 1; i < sweep->top_count; i++) {
        const struct comparison_row *c = &d->against_best[i];
        printf("%5ld  %+.2f %%", (long)i + 1, c->delta_fraction * 100);
        if (!isnan(c->delta_low_fraction))
            printf(" (%+.2f to %+.2f)", c->delta_low_fraction * 100, c->delta_high_fraction * 100);
        printf("  %s", comparison_verdict_name(c->verdict));
        if (comparison_is_ordered(c->verdict) && !isnan(c->order_fraction))
            printf(" at %.0f %%", c->order_fraction * 100);
        printf(", ");
        print_confidence(c->confidence_fraction);
        printf(" beyond chance%s\n", c->paired ? ", same steps" : "");
    }
    printf("  likely: beyond the chance of the draw; sure: also by more than %.0f %%, as far as "
           "predictions for one GPU and stack err against each other;\n  at: how often so "
           "large a difference has the right sign for all that predictions err\n",
           expm1(d->against_best[0].may_err_log) * 100);
    bool launches = false, pcie = false;
    for (int64_t i = 1; i < sweep->top_count; i++) {
        launches = launches || d->against_best[i].launches_log > 0.01;
        pcie = pcie || d->against_best[i].pcie_log > 0.01;
    }
    if (launches)
        puts("  sure, where layouts wait for launches for different times: by so much more, since "
             "how long a host takes is a stack's figure");
    if (pcie)
        puts("  sure, where layouts communicate over PCIe for different times: by so much more "
             "as another server's speed may bring them nearer");
    if (comparison_more_steps_may_tell(d->against_best, sweep->top_count))
        puts("  more steps may settle what is open: a part of the epoch was replayed "
             "(simulate.iterations)");
}

/* Beside the work, what the objective hangs on. */
static void print_rates(const struct sweep *sweep) {
    const struct run_record *a = &sweep->top[0].record, *b = &sweep->top[1].record;
    const int objective = sweep->file->objective;
    if (objective == SWEEP_MONEY && comparison_prices_differ(sweep->top, 2))
        printf("  %-24s %10.2f %10.2f %+10.2f\n", "USD of a GPU-hour",
               a->money_usd / a->gpu_days / 24, b->money_usd / b->gpu_days / 24,
               (b->money_usd / b->gpu_days - a->money_usd / a->gpu_days) / 24);
    const double gpus[2] = { a->gpu_days / a->total_days, b->gpu_days / b->total_days };
    if (objective == SWEEP_TOTAL_DAYS && fabs(gpus[1] - gpus[0]) > 0.5)
        printf("  %-24s %10.0f %10.0f %+10.0f\n", "GPUs", gpus[0], gpus[1], gpus[1] - gpus[0]);
}

static void print_causes(const struct sweep *sweep, const struct sweep_decision *d) {
    if (sweep->top_count < 2) return;
    puts("\nWhy 1 before 2: ms of a step, for the same samples on as many GPUs\n"
         "                                   1          2      delta");
    double sums[2] = { 0 };
    for (int part = 0; part < COMPARISON_PARTS; part++) {
        double a = d->winner_ms[part], b = d->runner_up_ms[part];
        sums[0] += a;
        sums[1] += b;
        if (a != 0 || b != 0)
            printf("  %-24s %10.1f %10.1f %+10.1f\n", comparison_part_names[part], a, b, b - a);
    }
    printf("  %-24s %10.1f %10.1f %+10.1f\n", "all", sums[0], sums[1], sums[1] - sums[0]);
    print_rates(sweep);
}

static bool keeps_limits(const struct sweep *sweep, const struct sweep_row_record *row) {
    return !(row->total_days > sweep->file->deadline_days) &&
           !(row->money_usd > sweep->file->budget_usd);
}

static void print_front(struct sweep *sweep, const struct sweep_decision *d) {
    if (d->front_count < 2) return;
    bool limited = false;
    for (int64_t i = 0; i < d->front_count; i++)
        limited = limited || !keeps_limits(sweep, &sweep->rows[d->front[i]]);
    printf("\nPareto front, fastest first%s\n",
           limited ? ", whatever the limits ([late], [over budget])" : "");
    struct columns columns = columns_of(sweep, d->front, d->front_count);
    print_header(columns, "");
    int64_t shown = 0;
    for (int64_t i = 0; i < d->front_count && shown < FRONT_SHOWN; i++) {
        printf("%5s", "");
        print_row(sweep, d->front[i], columns);
        shown++;
    }
    if (shown < d->front_count) puts("      ... all are in the view sweep_result, and in --json");
}

static void print_by_gpu_count(struct sweep *sweep, const struct sweep_decision *d) {
    if (d->gpu_count_count < 2) return;
    bool kinds = false;
    for (int64_t i = 0; i < d->gpu_count_count; i++)
        kinds = kinds || sweep_gpu_kind(sweep, d->by_gpu_count[i])[0] != '\0';
    printf("\nThe fastest layout at each number of GPUs%s\n", kinds ? " of each kind" : "");
    struct columns columns = columns_of(sweep, d->by_gpu_count, d->gpu_count_count);
    print_header(columns, "GPUs");
    for (int64_t i = 0; i < d->gpu_count_count; i++) {
        printf("%5ld", (long)sweep->rows[d->by_gpu_count[i]].gpu_count);
        print_row(sweep, d->by_gpu_count[i], columns);
    }
}

/* A limit that lies inside the band is kept or missed by the error of the prediction. */
static void print_coin_toss(const struct sweep_row_record *row, double value, double limit) {
    if (value * (1 + row->band_fraction) <= limit) return;
    printf("  it keeps that limit by %.1f %%, and the band is %s %%: it may well miss it\n",
           (1 - value / limit) * 100, band_text(band_of(row), "+- ", 0).text);
}

static void print_limit(struct sweep *sweep, int64_t index) {
    const struct sweep_row_record *r = &sweep->rows[index];
    const struct amount_unit time = amount_of_days(r->total_days),
                             work = amount_of_gpu_days(r->gpu_days);
    const double length = r->total_days * time.per_day, used = r->gpu_days * work.per_day;
    printf("%.*f %s, %.*f %s", cli_decimals(length, 2), length, time.name, cli_decimals(used, 1),
           used, work.name);
    if (!isnan(r->money_usd)) printf(", %.*f USD", money_decimals(r->money_usd), r->money_usd);
    printf(", %ld GPU%s: %s", (long)r->gpu_count, r->gpu_count == 1 ? "" : "s",
           sweep_label(sweep, index));
    print_marks(sweep, r);
    print_step_mark(r);
    print_left_out_mark(r);
    print_race_mark(sweep, r);
    putchar('\n');
}

/* `roomy`: that answers the same with more room; negative: it has the room, or none does. */
static void print_room(struct sweep *sweep, int64_t answer, int64_t roomy) {
    const struct sweep_row_record *row = &sweep->rows[answer];
    const bool has_room = sweep_row_is_roomy(sweep, row);
    printf("  %.1f %% of the memory is free, and its band is +- %.0f %%%s\n",
           100 - 100 * (double)sweep_row_memory_bytes(row) / (double)row->memory_capacity_bytes,
           sweep->memory_band_fraction * 100, has_room ? "" : ": it may not fit");
    if (has_room) return;
    if (roomy < 0) {
        puts("  none that keeps that limit fits at the top of the band");
        return;
    }
    fputs("  the best that fits at the top of the band: ", stdout);
    print_limit(sweep, roomy);
}

static void print_limits(struct sweep *sweep, const struct sweep_decision *d) {
    const struct sweep_file *f = sweep->file;
    if (d->cheapest_in_time >= 0) {
        printf("\nCheapest within %.10g day%s: ", f->deadline_days,
               f->deadline_days == 1 ? "" : "s");
        print_limit(sweep, d->cheapest_in_time);
        const struct sweep_row_record *row = &sweep->rows[d->cheapest_in_time];
        print_coin_toss(row, row->total_days, f->deadline_days);
        print_room(sweep, d->cheapest_in_time, d->roomy_in_time);
    }
    if (d->fastest_in_budget >= 0) {
        printf("\nFastest within %.10g USD: ", f->budget_usd);
        print_limit(sweep, d->fastest_in_budget);
        const struct sweep_row_record *row = &sweep->rows[d->fastest_in_budget];
        print_coin_toss(row, row->money_usd, f->budget_usd);
        print_room(sweep, d->fastest_in_budget, d->roomy_in_budget);
    }
}

/* Why none is left of those that fit: by how much the nearest misses. */
static void print_unkept(struct sweep *sweep, const struct sweep_decision *d) {
    const struct sweep_file *f = sweep->file;
    const bool late =
        !isnan(f->deadline_days) && !(sweep->rows[d->fastest].total_days <= f->deadline_days);
    const bool dear = !isnan(f->budget_usd) &&
                      (d->cheapest < 0 || !(sweep->rows[d->cheapest].money_usd <= f->budget_usd));
    if (late) {
        printf("\nNo layout keeps the deadline of %.10g days. The fastest: ", f->deadline_days);
        print_limit(sweep, d->fastest);
    }
    if (dear && d->cheapest >= 0) {
        printf("\nNo layout keeps the budget of %.10g USD. The cheapest: ", f->budget_usd);
        print_limit(sweep, d->cheapest);
    }
    if (dear && d->cheapest < 0) puts("\nNo layout that fits has a price to judge the budget by.");
    if (!late && !dear)
        printf("\nNo layout keeps both the deadline of %.10g days and the budget of %.10g USD.\n",
               f->deadline_days, f->budget_usd);
}

void print_sweep(struct sweep *sweep) {
    struct sweep_decision d;
    sweep_decide(sweep, &d);
    print_counts(sweep);
    print_leaving_out(sweep);
    print_needing_code(sweep);
    print_rescaled(sweep);
    if (sweep->best_count == 0) {
        if (d.gpu_count_count > 0)
            print_unkept(sweep, &d);
        else
            puts(sweep->valid == 0 ? "\nNo configuration is valid: nothing was simulated."
                                   : "\nNo layout fits into memory.");
    } else {
        print_best(sweep, shown_count(sweep));
        print_order(sweep, &d);
        print_causes(sweep, &d);
        print_front(sweep, &d);
    }
    print_out_of_memory(sweep);
    print_by_gpu_count(sweep, &d);
    print_limits(sweep, &d);
    if (sweep->warnings[0] != NULL) putchar('\n');
    for (int64_t i = 0; sweep->warnings[i] != NULL; i++)
        printf("warning: %s\n", sweep->warnings[i]);
    if (sweep->assumed[0] != NULL) puts("\nAssumed, of the first:");
    for (int64_t i = 0; sweep->assumed[i] != NULL; i++)
        printf("  - %s\n", sweep->assumed[i]);
}
