/* test_sweep.c - a sweep's rows are what `run` gives, whatever the threads, interruptions, shards
 * and pruning. */
#include <stdarg.h>
#include <setjmp.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>
#include "sim/study/sweep_decision.h"
#include "sim/study/sweep_lock.h"

#define SCENARIOS BALLAST_SOURCE_DIR "/scenarios"
#define SMALL     BALLAST_SOURCE_DIR "/tests/data/sweep/small-sweep.json"
#define MIXED     BALLAST_SOURCE_DIR "/tests/data/sweep/mixed-sweep.json"

static const struct scenario_options scenario_options = { .directory = SCENARIOS };
static const struct provenance provenance = { .command_line = "test" };

static struct sweep_options options_with(struct store *store, int threads) {
    return (struct sweep_options){ .scenario_options = &scenario_options,
                                   .provenance = &provenance,
                                   .store = store,
                                   .threads = threads,
                                   .prune = true,
                                   .top = -1,
                                   .deadline_days = NAN,
                                   .budget_usd = NAN,
                                   .shard_count = 1 };
}

static struct sweep *must_run(const struct sweep_options *options, const char *path) {
    struct error err = { 0 };
    struct sweep *sweep = sweep_run(options, path, &err);
    if (sweep == NULL) fail_msg("%s", err.text);
    return sweep;
}

static char folder[64];

static int make_folder(void **state) {
    (void)state;
    snprintf(folder, sizeof folder, "/tmp/ballast-sweep-XXXXXX");
    return mkdtemp(folder) == NULL;
}

static int remove_folder(void **state) {
    (void)state;
    char command[128];
    snprintf(command, sizeof command, "rm -r %s", folder);
    return system(command);
}

static struct store *open_store(const char *name) {
    char path[128];
    snprintf(path, sizeof path, "%s/%s.db", folder, name);
    struct error err = { 0 };
    struct store *store = store_open(path, DB_WRITE, &err);
    if (store == NULL) fail_msg("%s", err.text);
    return store;
}

static void digest_of(struct store *store, char text[65]) {
    struct error err = { 0 };
    if (!store_digest(store, text, &err)) fail_msg("%s", err.text);
}

/* ---- equal to run ---- */

static void check_row(struct sweep *sweep, int64_t index) {
    const struct sweep_row_record *row = &sweep->rows[index];
    struct error err = { 0 };
    struct json *json = sweep_file_scenario(sweep->file, row->row_index, &err);
    assert_true(json_override(json, "simulate.iterations=1", &err));
    struct replay_options replay = { .threads = 1 };
    struct execution *e = execution_run_json(&scenario_options, json, &replay, &err);
    if (e == NULL) fail_msg("%s: %s", sweep_assignments(sweep, index), err.text);
    struct arena *arena = arena_create();
    struct run_record run;
    execution_record(e, &provenance, arena, &run);
    if (run.step_time_mean_ms != row->step_time_mean_ms)
        fail_msg("%s: step %.9f ms, run gives %.9f", sweep_assignments(sweep, index),
                 row->step_time_mean_ms, run.step_time_mean_ms);
    assert_true(run.total_days == row->total_days && run.gpu_days == row->gpu_days);
    assert_true(run.money_usd == row->money_usd && run.mfu_fraction == row->mfu_fraction);
    assert_true(run.band_fraction == row->band_fraction);
    assert_string_equal(run.verdict, row->verdict);
    assert_int_equal(run.memory_peak_bytes, row->memory_peak_bytes);
    assert_int_equal(run.memory_capacity_bytes, row->memory_capacity_bytes);
    assert_int_equal(run.gpu_count, row->gpu_count);
    assert_int_equal(row->replayed_iterations, 1);
    arena_destroy(arena);
    execution_destroy(e);
}

/* Every seventh of all the mixes of layout, schedule, backend, recomputation and batching. */
static void test_every_row_is_what_run_gives(void **state) {
    (void)state;
    struct sweep_options options = options_with(NULL, 2);
    options.prune = false;
    options.top = 0;
    struct sweep *sweep = must_run(&options, SMALL);
    assert_int_equal(sweep->valid, sweep->row_count);
    assert_int_equal(sweep->evaluated, sweep->row_count);
    assert_true(sweep->row_count > 1000);
    for (int64_t i = 0; i < sweep->row_count; i += 7)
        check_row(sweep, i);
    sweep_destroy(sweep);
}

/* Two values of every field that changes prices, work or memory, among neighbours that share. */
static void test_every_mix_of_fields_is_what_run_gives(void **state) {
    (void)state;
    struct sweep_options options = options_with(NULL, 2);
    options.prune = false;
    options.top = 0;
    struct sweep *sweep = must_run(&options, MIXED);
    assert_int_equal(sweep->row_count, sweep->configurations);
    for (int64_t i = 0; i < sweep->row_count; i += 31)
        check_row(sweep, i);
    sweep_destroy(sweep);
}

/* ---- counts ---- */

static void test_everything_is_counted_once(void **state) {
    (void)state;
    struct sweep_options options = options_with(NULL, 1);
    options.top = 0;
    struct sweep *sweep = must_run(&options, SMALL);
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
    struct sweep *pruned = must_run(&options, SMALL);
    options.prune = false;
    struct sweep *all = must_run(&options, SMALL);
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
    options.deadline_days = 0.0002;
    options.budget_usd = 0.18;
    struct sweep *sweep = must_run(&options, SMALL);
    struct sweep_decision d;
    sweep_decide(sweep, &d);
    assert_int_equal(sweep->top_count, 3);
    for (int64_t i = 0; i < sweep->best_count; i++) {
        const struct sweep_row_record *row = &sweep->rows[sweep->best[i]];
        assert_true(row->total_days <= 0.0002 && row->money_usd <= 0.18);
        assert_true(i == 0 || i == sweep->top_count ||
                    row->gpu_days >= sweep->rows[sweep->best[i - 1]].gpu_days);
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
    /* On the front nobody is beaten; off it, somebody beats. */
    for (int64_t i = 0; i < sweep->row_count; i++) {
        const struct sweep_row_record *a = &sweep->rows[i];
        if (a->verdict == NULL || strcmp(a->verdict, "out of memory") == 0) continue;
        bool beaten = false;
        for (int64_t j = 0; j < sweep->row_count; j++) {
            const struct sweep_row_record *b = &sweep->rows[j];
            if (b->verdict == NULL || strcmp(b->verdict, "out of memory") == 0) continue;
            beaten = beaten || (b->total_days <= a->total_days && b->money_usd <= a->money_usd &&
                                b->memory_peak_bytes <= a->memory_peak_bytes &&
                                (b->total_days < a->total_days || b->money_usd < a->money_usd ||
                                 b->memory_peak_bytes < a->memory_peak_bytes));
        }
        assert_int_equal(a->on_front, !beaten);
    }
    assert_int_equal(d.gpu_count_count, 1);
    for (int64_t i = 0; i < sweep->row_count; i++) {
        const struct sweep_row_record *row = &sweep->rows[i];
        if (row->verdict == NULL || strcmp(row->verdict, "out of memory") == 0) continue;
        assert_true(row->total_days >= sweep->rows[d.by_gpu_count[0]].total_days);
        if (row->total_days <= 0.0002)
            assert_true(row->money_usd >= sweep->rows[d.cheapest_in_time].money_usd);
        if (row->money_usd <= 0.18)
            assert_true(row->total_days >= sweep->rows[d.fastest_in_budget].total_days);
    }
    sweep_destroy(sweep);
}

/* ---- the database ---- */

static void test_threads_and_resuming_change_nothing(void **state) {
    (void)state;
    char first[65], again[65], threads[65], resumed[65];
    struct store *store = open_store("one");
    struct sweep_options options = options_with(store, 1);
    struct sweep *sweep = must_run(&options, SMALL);
    assert_int_equal(sweep->top_count, 3);
    assert_int_equal(sweep->resumed, 0);
    sweep_destroy(sweep);
    digest_of(store, first);
    /* Once more: all is known, nothing changes. */
    sweep = must_run(&options, SMALL);
    assert_int_equal(sweep->evaluated, 0);
    assert_int_equal(sweep->resumed, sweep->valid);
    assert_int_equal(sweep->top_count, 3);
    sweep_destroy(sweep);
    digest_of(store, again);
    assert_string_equal(first, again);
    /* As if it had been killed: some rows, a replay and the end are missing. */
    struct error err = { 0 };
    assert_true(db_execute(store_db(store),
                           "DELETE FROM run WHERE id = 3;"
                           "UPDATE sweep_row SET status = 'raced', run_id = NULL WHERE"
                           " status = 'replayed' AND run_id IS NULL;"
                           "DELETE FROM sweep_row WHERE row_index % 3 = 1 AND run_id IS NULL;"
                           "DELETE FROM sweep_row WHERE row_index > 6000 AND run_id IS NULL;"
                           "DELETE FROM sweep_rejection; UPDATE sweep_row SET on_front = NULL",
                           &err));
    sweep = must_run(&options, SMALL);
    assert_true(sweep->evaluated > 100 && sweep->resumed > 100);
    sweep_destroy(sweep);
    store_close(store);
    store = open_store("two");
    options = options_with(store, 3);
    sweep_destroy(must_run(&options, SMALL));
    digest_of(store, threads);
    assert_string_equal(first, threads);
    /* Rows only, which are what a killed sweep leaves. */
    assert_true(db_execute(store_db(store),
                           "DELETE FROM run; DELETE FROM sweep_row WHERE status = 'replayed';"
                           "DELETE FROM sweep_row WHERE row_index % 5 = 2 OR row_index > 5000;"
                           "DELETE FROM sweep_rejection; UPDATE sweep_row SET on_front = NULL",
                           &err));
    sweep_destroy(must_run(&options, SMALL));
    digest_of(store, resumed);
    assert_string_equal(first, resumed);
    store_close(store);
}

static void test_shards_join_to_the_whole(void **state) {
    (void)state;
    char whole[65], joined[65];
    struct store *store = open_store("whole");
    struct sweep_options options = options_with(store, 2);
    options.prune = false;
    sweep_destroy(must_run(&options, SMALL));
    digest_of(store, whole);
    store_close(store);
    struct store *into = open_store("joined");
    int64_t rows = 0;
    struct error err = { 0 };
    for (int i = 0; i < 3; i++) {
        char name[16];
        snprintf(name, sizeof name, "part%d", i);
        store = open_store(name);
        options = options_with(store, 1);
        options.prune = false;
        options.shard_index = i;
        options.shard_count = 3;
        struct sweep *part = must_run(&options, SMALL);
        assert_int_equal(part->top_count, 0);
        assert_true(part->valid > 300 && part->valid < 600);
        sweep_destroy(part);
        for (int twice = 0; twice < 2; twice++) /* the second time changes nothing */
            if (!sweep_merge(into, store, &rows, &err)) fail_msg("%s", err.text);
        store_close(store);
    }
    options = options_with(into, 2); /* with pruning: it goes on as it was begun */
    struct sweep *sweep = must_run(&options, SMALL);
    assert_int_equal(sweep->evaluated, 0);
    assert_int_equal(rows, sweep->valid);
    sweep_destroy(sweep);
    digest_of(into, joined);
    assert_string_equal(whole, joined);
    store_close(into);
}

/* Shards that prune leave out what could not matter to the whole: the answer is the same. */
static void test_pruning_shards_join_to_the_same_answer(void **state) {
    (void)state;
    struct sweep_options options = options_with(NULL, 2);
    options.top = 0;
    struct sweep *whole = must_run(&options, SMALL);
    struct store *into = open_store("pruned");
    struct error err = { 0 };
    int64_t rows = 0, pruned = 0;
    for (int i = 0; i < 2; i++) {
        char name[32];
        snprintf(name, sizeof name, "pruned-part%d", i);
        struct store *store = open_store(name);
        options = options_with(store, 2);
        options.shard_index = i;
        options.shard_count = 2;
        struct sweep *part = must_run(&options, SMALL);
        pruned += part->pruned;
        sweep_destroy(part);
        if (!sweep_merge(into, store, &rows, &err)) fail_msg("%s", err.text);
        store_close(store);
    }
    options = options_with(into, 2);
    options.top = 0;
    struct sweep *joined = must_run(&options, SMALL);
    assert_int_equal(joined->evaluated, 0);
    assert_int_equal(rows, joined->valid);
    assert_true(pruned > 0 && pruned < whole->pruned);
    for (int64_t i = 0; i < SWEEP_TOP_LIMIT && i < whole->best_count; i++)
        assert_int_equal(joined->rows[joined->best[i]].row_index,
                         whole->rows[whole->best[i]].row_index);
    const int64_t whole_configurations = whole->configurations;
    sweep_destroy(joined);
    sweep_destroy(whole);
    /* Rounds are of the whole, as if it had not been in parts. */
    int64_t configurations;
    assert_true(db_integer(store_db(into), "SELECT max(configuration_count) FROM sweep_round",
                           &configurations, &err));
    assert_int_equal(configurations, whole_configurations);
    store_close(into);
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
    struct sweep *sweep = must_run(&options, SMALL);
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

static void test_a_changed_input_is_noticed(void **state) {
    (void)state;
    struct store *store = open_store("input");
    struct sweep_options options = options_with(store, 1);
    options.top = 0;
    sweep_destroy(must_run(&options, SMALL));
    static const char *const kinds[] = { "data set", "model", "hardware" };
    for (size_t i = 0; i < 3; i++) {
        struct error err = { 0 };
        char sql[256], want[128];
        snprintf(sql, sizeof sql,
                 "UPDATE sweep_input SET fingerprint = 'x' || fingerprint WHERE kind = '%s'",
                 kinds[i]);
        snprintf(want, sizeof want, "has changed since sweep \"small\" was begun");
        assert_true(db_execute(store_db(store), sql, &err));
        assert_null(sweep_run(&options, SMALL, &err));
        if (strstr(err.text, want) == NULL || strncmp(err.text, kinds[i], strlen(kinds[i])) != 0)
            fail_msg("%s: got %s", kinds[i], err.text);
        snprintf(sql, sizeof sql,
                 "UPDATE sweep_input SET fingerprint = substr(fingerprint, 2) WHERE kind = '%s'",
                 kinds[i]);
        assert_true(db_execute(store_db(store), sql, &err));
    }
    store_close(store);
}

/* What was stored before the disk was full stays, and the sweep goes on from it. */
static void test_a_full_disk_loses_nothing(void **state) {
    (void)state;
    char want[65], got[65];
    struct store *store = open_store("roomy");
    struct sweep_options options = options_with(store, 2);
    options.top = 0;
    sweep_destroy(must_run(&options, SMALL));
    digest_of(store, want);
    store_close(store);
    store = open_store("full");
    options.store = store;
    struct error err = { 0 };
    int64_t rows;
    assert_true(db_execute(store_db(store), "PRAGMA max_page_count = 120", &err));
    assert_null(sweep_run(&options, SMALL, &err));
    assert_true(err.internal);
    if (strstr(err.text, "the disk is full") == NULL) fail_msg("got %s", err.text);
    assert_true(db_execute(store_db(store), "PRAGMA max_page_count = 100000", &err));
    assert_true(db_integer(store_db(store), "SELECT count(*) FROM sweep_row", &rows, &err));
    assert_true(rows > 100);
    struct sweep *sweep = must_run(&options, SMALL);
    assert_int_equal(sweep->resumed, rows);
    sweep_destroy(sweep);
    digest_of(store, got);
    assert_string_equal(want, got);
    store_close(store);
}

static void test_two_writers(void **state) {
    (void)state;
    char path[128];
    snprintf(path, sizeof path, "%s/two-writers.db", folder);
    struct error err = { 0 };
    struct sweep_lock *first = sweep_lock_take(path, &err);
    assert_non_null(first);
    struct store *store = open_store("two-writers");
    struct sweep_options options = options_with(store, 1);
    assert_null(sweep_run(&options, SMALL, &err));
    assert_true(err.internal);
    if (strstr(err.text, "another sweep is writing database") == NULL) fail_msg("%s", err.text);
    sweep_lock_release(first);
    options.top = 0;
    sweep_destroy(must_run(&options, SMALL));
    store_close(store);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_every_row_is_what_run_gives),
        cmocka_unit_test(test_every_mix_of_fields_is_what_run_gives),
        cmocka_unit_test(test_everything_is_counted_once),
        cmocka_unit_test(test_pruning_loses_nothing),
        cmocka_unit_test(test_the_decision),
        cmocka_unit_test(test_threads_and_resuming_change_nothing),
        cmocka_unit_test(test_shards_join_to_the_whole),
        cmocka_unit_test(test_pruning_shards_join_to_the_same_answer),
        cmocka_unit_test(test_layouts_alike_take_one_replay),
        cmocka_unit_test(test_a_changed_input_is_noticed),
        cmocka_unit_test(test_a_full_disk_loses_nothing),
        cmocka_unit_test(test_two_writers),
    };
    return cmocka_run_group_tests(tests, make_folder, remove_folder);
}
