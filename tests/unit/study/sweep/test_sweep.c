/* test_sweep.c - a sweep's rows are what `run` gives, whatever is shared and pruned; the
 * decision. */
#include "tests/unit/study/sweep/sweep_fixture.h"

#include <string.h>
#include "sim/study/sweep/sweep_decision.h"

#define MIXED  BALLAST_SOURCE_DIR "/tests/data/sweep/mixed-sweep.json"
#define LIMITS BALLAST_SOURCE_DIR "/tests/data/sweep/limits-sweep.json"
#define PACKED BALLAST_SOURCE_DIR "/tests/data/sweep/packed-sweep.json"

/* ---- equal to run ---- */

/* One of the steps that `run` gives for the whole epoch. */
static void check_step(struct sweep *sweep, int64_t index) {
    struct error err = { 0 };
    struct json *json = sweep_file_scenario(sweep->file, sweep->rows[index].row_index, &err);
    assert_true(json_override(json, "simulate.iterations=\"epoch\"", &err));
    struct replay_options options = { .threads = 1 };
    struct execution *e = execution_run_json(&scenario_options, json, &options, &err);
    if (e == NULL) fail_msg("%s: %s", sweep_assignments(sweep, index), err.text);
    bool found = false;
    for (int64_t i = 0; i < e->replay->iteration_count && !found; i++)
        found = (double)e->replay->iterations[i].step_time_ns == /* to the last bit but one */
                round(sweep->rows[index].step_time_mean_ms * 1e6);
    if (!found)
        fail_msg("%s: no step takes %.9f ms", sweep_assignments(sweep, index),
                 sweep->rows[index].step_time_mean_ms);
    execution_destroy(e);
}

/* All figures, from a job that shares nothing. */
static void check_row(struct sweep *sweep, int64_t index) {
    const struct sweep_row_record *row = &sweep->rows[index];
    struct error err = { 0 };
    struct json *json = sweep_file_scenario(sweep->file, row->row_index, &err);
    struct scenario *scenario = scenario_load_json(&scenario_options, json, &err);
    struct job *data = scenario != NULL ? job_load(scenario, &err) : NULL;
    struct job *batched = data != NULL ? job_batch(scenario, data, 1, &err) : NULL;
    struct job *job = batched != NULL ? job_plan(scenario, batched, NULL, &err) : NULL;
    struct replay_options options = { .threads = 1 };
    struct replay *replay = job != NULL ? replay_run(job, &options, &err) : NULL;
    if (replay == NULL) fail_msg("%s: %s", sweep_assignments(sweep, index), err.text);
    if (replay->step_time_mean_s * 1e3 != row->step_time_mean_ms)
        fail_msg("%s: step %.9f ms, run gives %.9f", sweep_assignments(sweep, index),
                 row->step_time_mean_ms, replay->step_time_mean_s * 1e3);
    assert_true(replay->total_days == row->total_days && replay->gpu_days == row->gpu_days);
    assert_true(replay->money_usd == row->money_usd && replay->mfu_fraction == row->mfu_fraction);
    assert_true(replay->band.above == row->band_fraction &&
                replay->band.below == row->band_below_fraction);
    assert_string_equal(verdict_name(replay->verdict), row->verdict);
    assert_int_equal(llround(stage_memory_device(&replay->stages[replay->verdict_stage].peak)),
                     row->memory_peak_bytes);
    assert_int_equal(llround(cost_model_gpu(scenario->cost_model)->hbm_bytes),
                     row->memory_capacity_bytes);
    assert_int_equal(layout_rank_count(&scenario->layout), row->gpu_count);
    assert_int_equal(row->replayed_iterations, 1);
    replay_destroy(replay);
    job_destroy(job);
    job_destroy(batched);
    job_destroy(data);
    scenario_destroy(scenario);
    check_step(sweep, index);
}

/* Of rows that are compared with a run of their own; under a sanitizer each takes four times as
 * long. */
#ifdef __SANITIZE_ADDRESS__
enum { ROW_STRIDE = 197, MIX_STRIDE = 211, MIX_SHARDS = 8 };
#else
enum { ROW_STRIDE = 23, MIX_STRIDE = 97, MIX_SHARDS = 1 };
#endif

/* Some of all the mixes of layout, schedule, backend, recomputation and batching. */
static void test_every_row_is_what_run_gives(void **state) {
    (void)state;
    struct sweep_options options = options_with(NULL, 2);
    options.prune = false;
    options.top = 0;
    struct sweep *sweep = must_run(&options, SMALL);
    assert_int_equal(sweep->valid, sweep->row_count);
    assert_int_equal(sweep->evaluated, sweep->row_count);
    assert_true(sweep->row_count > 700);
    for (int64_t i = 0; i < sweep->row_count; i += ROW_STRIDE)
        check_row(sweep, i);
    sweep_destroy(sweep);
}

/* Two values of every field that changes prices, work or memory, among neighbours that share. */
static void test_every_mix_of_fields_is_what_run_gives(void **state) {
    (void)state;
    struct sweep_options options = options_with(NULL, 2);
    options.prune = false;
    options.top = 0;
    options.shard_count = MIX_SHARDS;
    struct sweep *sweep = must_run(&options, MIXED);
    if (MIX_SHARDS == 1)
        assert_int_equal(sweep->row_count, sweep->configurations);
    else
        assert_true(sweep->row_count >= sweep->configurations / (MIX_SHARDS + 1));
    for (int64_t i = 0; i < sweep->row_count; i += MIX_STRIDE)
        check_row(sweep, i);
    sweep_destroy(sweep);
}

/* ---- counts ---- */

static void test_everything_is_counted_once(void **state) {
    (void)state;
    struct sweep_options options = options_with(NULL, 1);
    options.top = 0;
    struct sweep *sweep = must_run(&options, TINY);
    int64_t rejected = 0, pruned = 0;
    for (int64_t i = 0; i < sweep->rejection_count; i++) {
        rejected += sweep->rejections[i].row_count;
        assert_true(strlen(sweep->rejections[i].message) > 10);
        if (i > 0)
            assert_true(strcmp(sweep->rejections[i - 1].rule, sweep->rejections[i].rule) < 0);
    }
    for (int64_t i = 0; i < sweep->row_count; i++)
        pruned += strcmp(sweep->rows[i].status, "pruned") == 0;
    assert_int_equal(sweep->configurations, rejected + sweep->valid + sweep->duplicates);
    assert_int_equal(sweep->valid, sweep->evaluated + sweep->pruned);
    assert_int_equal(sweep->pruned, pruned);
    sweep_destroy(sweep);
}

/* ---- pruning ---- */

/* What is pruned is out of memory, or neither on the front nor among the best. */
static void test_pruning_loses_nothing(void **state) {
    (void)state;
    struct sweep_options options = options_with(NULL, 2);
    options.top = 0;
    struct sweep *pruned = must_run(&options, TINY);
    options.prune = false;
    struct sweep *all = must_run(&options, TINY);
    assert_true(pruned->pruned > 0);
    assert_int_equal(pruned->row_count, all->row_count);
    for (int64_t i = 0; i < all->row_count; i++) {
        const struct sweep_row_record *a = &all->rows[i], *p = &pruned->rows[i];
        assert_string_equal(a->configuration, p->configuration);
        if (strcmp(p->status, "pruned") != 0) {
            assert_true(a->total_days == p->total_days);
            assert_int_equal(a->on_front, p->on_front);
            continue;
        }
        assert_int_equal(a->on_front, 0);
        if (strstr(p->reason, "memory") != NULL && strstr(p->reason, "alone") != NULL)
            assert_string_equal(a->verdict, "out of memory");
    }
    for (int64_t i = 0; i < SWEEP_TOP_LIMIT && i < pruned->best_count; i++)
        assert_int_equal(all->best[i], pruned->best[i]);
    sweep_destroy(all);
    sweep_destroy(pruned);
}

/* ---- the decision ---- */

static void test_the_decision(void **state) {
    (void)state;
    struct sweep_options options = options_with(NULL, 2);
    options.deadline_days = 0.0004;
    options.budget_usd = 0.36;
    struct sweep *sweep = must_run(&options, SMALL);
    struct sweep_decision d;
    sweep_decide(sweep, &d);
    assert_int_equal(sweep->top_count, 3);
    for (int64_t i = 0; i < sweep->best_count; i++) {
        const struct sweep_row_record *row = &sweep->rows[sweep->best[i]];
        assert_true(row->total_days <= 0.0004 && row->money_usd <= 0.36);
        if (i == 0 || i == sweep->top_count) continue;
        const struct sweep_row_record *before = &sweep->rows[sweep->best[i - 1]];
        assert_true(sweep_row_needs_code(row) >= sweep_row_needs_code(before));
        assert_true(row->gpu_days >= before->gpu_days ||
                    sweep_row_needs_code(row) > sweep_row_needs_code(before));
    }
    /* The causes are the whole difference; the winner's sum to its step. */
    double winner = 0, other = 0;
    for (int part = 0; part < COMPARISON_PARTS; part++) {
        winner += d.winner_ms[part];
        other += d.runner_up_ms[part];
    }
    const struct sweep_row_record *first = &sweep->rows[sweep->best[0]],
                                  *second = &sweep->rows[sweep->best[1]];
    assert_true(fabs(winner / first->step_time_mean_ms - 1) < 1e-9);
    assert_true(fabs(other / winner - second->gpu_days / first->gpu_days) < 1e-9);
    /* On the front nobody is beaten; off it, somebody beats. A layout by other fields counts with
     * the figures of the row that stands for it: its replay, not its race. */
    for (int64_t i = 0; i < sweep->row_count; i++) {
        const struct sweep_row_record *a = &sweep->rows[sweep->alike[i]];
        bool beaten = !sweep_row_counts(sweep, sweep->alike[i]);
        for (int64_t j = 0; j < sweep->row_count; j++) {
            const struct sweep_row_record *b = &sweep->rows[sweep->alike[j]];
            if (!sweep_row_counts(sweep, sweep->alike[j])) continue;
            beaten = beaten || (b->total_days <= a->total_days && b->money_usd <= a->money_usd &&
                                b->memory_peak_bytes <= a->memory_peak_bytes &&
                                (b->total_days < a->total_days || b->money_usd < a->money_usd ||
                                 b->memory_peak_bytes < a->memory_peak_bytes));
        }
        assert_int_equal(sweep->rows[i].on_front, !beaten);
    }
    assert_int_equal(d.gpu_count_count, 1);
    for (int64_t i = 0; i < sweep->row_count; i++) {
        const struct sweep_row_record *row = &sweep->rows[i];
        if (!sweep_row_counts(sweep, i)) continue;
        assert_true(row->total_days >= sweep->rows[d.by_gpu_count[0]].total_days);
        if (row->total_days <= 0.0004)
            assert_true(row->money_usd >= sweep->rows[d.cheapest_in_time].money_usd);
        if (row->money_usd <= 0.36)
            assert_true(row->total_days >= sweep->rows[d.fastest_in_budget].total_days);
    }
    sweep_destroy(sweep);
}

/* What answers a stated limit was replayed, whatever the objective asks; nothing that was only
 * raced claims to answer better; and without replays the races answer. */
static void test_limits_are_answered_by_replays(void **state) {
    (void)state;
    struct sweep_options options = options_with(NULL, 2);
    options.top = 1;
    options.deadline_days = 0.0006;
    options.budget_usd = 0.44;
    struct sweep *sweep = must_run(&options, LIMITS);
    struct sweep_decision d;
    sweep_decide(sweep, &d);
    const int64_t answers[] = { d.cheapest_in_time, d.fastest_in_budget };
    for (int q = 0; q < SWEEP_QUESTION_COUNT; q++) {
        assert_true(answers[q] >= 0);
        const struct sweep_row_record *answer = &sweep->rows[answers[q]];
        assert_true(sweep_row_is_replayed(answer));
        assert_true(answer->replayed_iterations > 1);
        assert_true(q == SWEEP_CHEAPEST_IN_TIME ? answer->total_days <= 0.0006
                                                : answer->money_usd <= 0.44);
        for (int64_t i = 0; i < sweep->row_count; i++) {
            const struct sweep_row_record *row = &sweep->rows[i];
            if (!sweep_row_counts(sweep, i)) continue;
            if (q == SWEEP_CHEAPEST_IN_TIME && row->total_days <= 0.0006)
                assert_true(row->money_usd >= answer->money_usd);
            if (q == SWEEP_FASTEST_IN_BUDGET && row->money_usd <= 0.44)
                assert_true(row->total_days >= answer->total_days);
        }
    }
    /* Fewest GPU-days: 16 H100. Within the deadline 32 A100 are cheaper; within the budget, between
     * what 32 and 64 H100 cost, 32 H100 are faster. */
    assert_int_equal(sweep->top_count, 1);
    assert_int_equal(sweep->rows[answers[0]].gpu_count, 32);
    assert_int_equal(sweep->rows[answers[1]].gpu_count, 32);
    sweep_destroy(sweep);
    options.top = 0;
    sweep = must_run(&options, LIMITS);
    sweep_decide(sweep, &d);
    assert_true(d.fastest_in_budget >= 0);
    assert_false(sweep_row_is_replayed(&sweep->rows[d.fastest_in_budget]));
    sweep_destroy(sweep);
}

/* ---- packed groups with steps of several sizes ---- */

static int64_t micro_batch(struct sweep *sweep, int64_t row) {
    cJSON *set = cJSON_Parse(sweep_assignments(sweep, row));
    const cJSON *value = cJSON_GetObjectItem(set, "training.micro_batch.samples");
    const int64_t answer = value->valueint;
    cJSON_Delete(set);
    return answer;
}

static double days_of(struct sweep *sweep, int64_t samples) {
    for (int64_t i = 0; i < sweep->row_count; i++)
        if (micro_batch(sweep, i) == samples) return sweep->rows[i].total_days;
    fail_msg("no row of micro_batch %ld", (long)samples);
    return NAN;
}

/* Steps that ask for 64 samples hold 62.5 with micro_batch 4, 125 with 2 and 250 with 1: larger
 * ones take less time. */
static void test_a_sibling_that_keeps_the_limit_stands(void **state) {
    (void)state;
    struct sweep_options options = options_with(NULL, 2);
    struct sweep *sweep = must_run(&options, PACKED);
    assert_int_equal(sweep->best_count, 1);
    assert_int_equal(micro_batch(sweep, sweep->best[0]), 4);
    const double days[] = { days_of(sweep, 4), days_of(sweep, 2), days_of(sweep, 1) };
    assert_true(days[0] > days[1] && days[1] > days[2]);
    sweep_destroy(sweep);
    const struct {
        double deadline_days, budget_usd;
        int64_t listed, in_time, in_budget; /* micro_batch; 0: none */
    } cases[] = {
        { days[0] * 1.01, NAN, 4, 4, 0 },
        { (days[0] + days[1]) / 2, NAN, 2, 2, 0 },
        { (days[1] + days[2]) / 2, NAN, 1, 1, 0 },
        { days[2] / 2, NAN, 0, 0, 0 },
        /* Each question by its own limit; the list by both. */
        { days[0] * 1.01, (days[0] + days[1]) / 2 * 8 * 24 * 2.5, 2, 4, 2 },
        { days[2] / 2, days[0] * 1.01 * 8 * 24 * 2.5, 0, 0, 4 },
    };
    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
        options.deadline_days = cases[i].deadline_days;
        options.budget_usd = cases[i].budget_usd;
        sweep = must_run(&options, PACKED);
        struct sweep_decision d;
        sweep_decide(sweep, &d);
        const int64_t got[] = {
            sweep->best_count > 0 ? sweep->best[0] : -1,
            d.cheapest_in_time,
            d.fastest_in_budget,
        };
        const int64_t want[] = { cases[i].listed, cases[i].in_time, cases[i].in_budget };
        for (int what = 0; what < 3; what++) {
            const int64_t samples = got[what] >= 0 ? micro_batch(sweep, got[what]) : 0;
            if (samples != want[what])
                fail_msg("case %zu, answer %d: got %ld, want %ld", i, what, (long)samples,
                         (long)want[what]);
        }
        assert_int_equal(sweep->rescaled_count, 3);
        assert_true(sweep->best_count <= 1);
        sweep_destroy(sweep);
    }
}

/* ---- the same layout by different fields ---- */

static struct execution *run_in_full(struct sweep *sweep, int64_t row) {
    struct error err = { 0 };
    struct json *json = sweep_file_scenario(sweep->file, sweep->rows[row].row_index, &err);
    struct replay_options replay = { .threads = 2 };
    struct execution *e = execution_run_json(&scenario_options, json, &replay, &err);
    if (e == NULL) fail_msg("%s", err.text);
    return e;
}

static void test_layouts_alike_take_one_replay(void **state) {
    (void)state;
    struct sweep_options options = options_with(NULL, 2);
    options.top = 12;
    struct sweep *sweep = must_run(&options, TINY);
    assert_int_equal(sweep->top_count, 12);
    for (int64_t i = 0; i < sweep->best_count; i++)
        assert_int_equal(sweep->alike[sweep->best[i]], sweep->best[i]);
    int64_t alike = 0, replays = 0;
    for (int64_t i = 0; i < sweep->row_count; i++) {
        const int64_t first = sweep->alike[i];
        alike += first != i;
        if (first == i || strcmp(sweep->rows[first].status, "replayed") != 0) continue;
        /* What the race could not tell apart, a whole replay cannot either. */
        assert_string_equal(sweep->rows[i].status, "raced");
        if (replays++ >= 4) continue;
        struct execution *e = run_in_full(sweep, i);
        assert_true(e->replay->step_time_mean_s * 1e3 == sweep->rows[first].step_time_mean_ms);
        assert_true(e->replay->step_time_p95_s * 1e3 == sweep->rows[first].step_time_p95_ms);
        assert_true(e->replay->money_usd == sweep->rows[first].money_usd);
        execution_destroy(e);
    }
    assert_true(alike > 100);
    assert_true(replays > 0);
    sweep_destroy(sweep);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_every_row_is_what_run_gives),
        cmocka_unit_test(test_every_mix_of_fields_is_what_run_gives),
        cmocka_unit_test(test_everything_is_counted_once),
        cmocka_unit_test(test_pruning_loses_nothing),
        cmocka_unit_test(test_the_decision),
        cmocka_unit_test(test_limits_are_answered_by_replays),
        cmocka_unit_test(test_a_sibling_that_keeps_the_limit_stands),
        cmocka_unit_test(test_layouts_alike_take_one_replay),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
