/* sweep_decision.c - selections from the rows, and the comparison of the replayed ones. */
#include "sim/study/sweep/sweep_decision.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

static double cost_of(const struct sweep_row_record *row) {
    return isnan(row->money_usd) ? row->gpu_days : row->money_usd;
}

static int compare_days(const void *a, const void *b, void *context) {
    const struct sweep_row_record *rows = context, *l = &rows[*(const int64_t *)a],
                                  *r = &rows[*(const int64_t *)b];
    if (l->total_days != r->total_days) return l->total_days < r->total_days ? -1 : 1;
    if (cost_of(l) != cost_of(r)) return cost_of(l) < cost_of(r) ? -1 : 1;
    return (l->row_index > r->row_index) - (l->row_index < r->row_index);
}

struct counted {
    const struct sweep_row_record *rows;
    const char **kinds; /* by row; of GPUs */
};

static bool same_gpus(const struct counted *c, int64_t a, int64_t b) {
    return c->rows[a].gpu_count == c->rows[b].gpu_count && strcmp(c->kinds[a], c->kinds[b]) == 0;
}

static int compare_gpus(const void *a, const void *b, void *context) {
    const struct counted *c = context;
    const int64_t l = *(const int64_t *)a, r = *(const int64_t *)b;
    if (c->rows[l].gpu_count != c->rows[r].gpu_count)
        return c->rows[l].gpu_count < c->rows[r].gpu_count ? -1 : 1;
    const int kind = strcmp(c->kinds[l], c->kinds[r]);
    return kind != 0 ? kind : compare_days(a, b, (void *)c->rows);
}

static void find_front(struct sweep *sweep, struct sweep_decision *d) {
    for (int64_t i = 0; i < sweep->row_count; i++)
        if (sweep->rows[i].on_front == 1 && sweep->alike[i] == i) d->front[d->front_count++] = i;
    qsort_r(d->front, (size_t)d->front_count, sizeof *d->front, compare_days, sweep->rows);
}

static void find_by_gpu_count(struct sweep *sweep, struct sweep_decision *d) {
    int64_t *order = arena_array(sweep->arena, int64_t, sweep->row_count + 1), count = 0;
    struct counted counted = { sweep->rows,
                               arena_array(sweep->arena, const char *, sweep->row_count + 1) };
    for (int64_t i = 0; i < sweep->row_count; i++)
        if (sweep_row_counts(sweep, i)) {
            counted.kinds[i] = sweep_gpu_kind(sweep, i);
            order[count++] = i;
        }
    qsort_r(order, (size_t)count, sizeof *order, compare_gpus, &counted);
    for (int64_t i = 0; i < count; i++)
        if (i == 0 || !same_gpus(&counted, order[i], order[i - 1]))
            d->by_gpu_count[d->gpu_count_count++] = order[i];
}

static void find_least(const struct sweep *sweep, struct sweep_decision *d) {
    d->fastest = d->cheapest = -1;
    for (int64_t i = 0; i < d->gpu_count_count; i++) {
        const int64_t at = d->by_gpu_count[i];
        const struct sweep_row_record *row = &sweep->rows[at];
        if (d->fastest < 0 || row->total_days < sweep->rows[d->fastest].total_days) d->fastest = at;
        if (!isnan(row->money_usd) &&
            (d->cheapest < 0 || row->money_usd < sweep->rows[d->cheapest].money_usd))
            d->cheapest = at;
    }
}

static void find_causes(const struct sweep *sweep, struct sweep_decision *d) {
    if (sweep->top_count < 2) return;
    const struct run_record *winner = &sweep->top[0].record;
    double ms_per_gpu_day = winner->step_time_mean_ms / winner->gpu_days;
    for (int part = 0; part < COMPARISON_PARTS; part++) {
        d->winner_ms[part] = d->against_best[0].parts_gpu_days[part] * ms_per_gpu_day;
        d->runner_up_ms[part] = d->against_best[1].parts_gpu_days[part] * ms_per_gpu_day;
    }
}

static int64_t find_roomy(const struct sweep *sweep, int64_t answer, enum sweep_question question) {
    if (answer < 0 || sweep_row_is_roomy(sweep, &sweep->rows[answer])) return -1;
    return sweep_roomy_answer(sweep, question);
}

void sweep_decide(struct sweep *sweep, struct sweep_decision *decision) {
    *decision = (struct sweep_decision){
        .front = arena_array(sweep->arena, int64_t, sweep->row_count + 1),
        .by_gpu_count = arena_array(sweep->arena, int64_t, sweep->row_count + 1),
        .against_best = arena_array(sweep->arena, struct comparison_row, sweep->top_count + 1),
        .cheapest_in_time = sweep_answer(sweep, SWEEP_CHEAPEST_IN_TIME),
        .fastest_in_budget = sweep_answer(sweep, SWEEP_FASTEST_IN_BUDGET),
    };
    decision->roomy_in_time = find_roomy(sweep, decision->cheapest_in_time, SWEEP_CHEAPEST_IN_TIME);
    decision->roomy_in_budget =
        find_roomy(sweep, decision->fastest_in_budget, SWEEP_FASTEST_IN_BUDGET);
    find_front(sweep, decision);
    find_by_gpu_count(sweep, decision);
    find_least(sweep, decision);
    static const enum comparison_quantity quantities[] = {
        [SWEEP_TOTAL_DAYS] = COMPARISON_TOTAL_DAYS,
        [SWEEP_GPU_DAYS] = COMPARISON_GPU_DAYS,
        [SWEEP_MONEY] = COMPARISON_MONEY,
    };
    if (sweep->top_count > 0)
        comparison_make(sweep->top, sweep->top_count, quantities[sweep->file->objective],
                        decision->against_best);
    find_causes(sweep, decision);
}
