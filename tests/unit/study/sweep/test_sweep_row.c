/* test_sweep_row.c - a sweep's database is the same whatever the threads, interruptions, shards and
 * full disks. */
#include "tests/unit/study/sweep/sweep_fixture.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>
#include "sim/study/sweep/sweep_lock.h"

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

static void test_threads_and_resuming_change_nothing(void **state) {
    (void)state;
    char first[65], again[65], threads[65], resumed[65];
    struct store *store = open_store("one");
    struct sweep_options options = options_with(store, 1);
    struct sweep *sweep = must_run(&options, TINY);
    assert_int_equal(sweep->top_count, 3);
    assert_int_equal(sweep->resumed, 0);
    sweep_destroy(sweep);
    digest_of(store, first);
    /* Once more: all is known, nothing changes. */
    sweep = must_run(&options, TINY);
    assert_int_equal(sweep->evaluated, 0);
    assert_int_equal(sweep->resumed, sweep->valid);
    assert_int_equal(sweep->top_count, 3);
    sweep_destroy(sweep);
    /* As many as are asked for, though more are known. */
    options.top = 1;
    sweep = must_run(&options, TINY);
    assert_int_equal(sweep->top_count, 1);
    sweep_destroy(sweep);
    options.top = -1;
    digest_of(store, again);
    assert_string_equal(first, again);
    /* As if it had been killed: some rows, a replay and the end are missing. */
    struct error err = { 0 };
    assert_true(db_execute(store_db(store),
                           "DELETE FROM run WHERE id = 3;"
                           "UPDATE sweep_row SET status = 'raced', run_id = NULL WHERE"
                           " status = 'replayed' AND run_id IS NULL;"
                           "DELETE FROM sweep_row WHERE row_index % 3 = 1 AND run_id IS NULL;"
                           "DELETE FROM sweep_row WHERE row_index > 2000 AND run_id IS NULL;"
                           "DELETE FROM sweep_rejection; UPDATE sweep_row SET on_front = NULL",
                           &err));
    sweep = must_run(&options, TINY);
    assert_true(sweep->evaluated > 100 && sweep->resumed > 100);
    sweep_destroy(sweep);
    store_close(store);
    store = open_store("two");
    options = options_with(store, 3);
    sweep_destroy(must_run(&options, TINY));
    digest_of(store, threads);
    assert_string_equal(first, threads);
    /* Rows only, which are what a killed sweep leaves. */
    assert_true(db_execute(store_db(store),
                           "DELETE FROM run; DELETE FROM sweep_row WHERE status = 'replayed';"
                           "DELETE FROM sweep_row WHERE row_index % 5 = 2 OR row_index > 1700;"
                           "DELETE FROM sweep_rejection; UPDATE sweep_row SET on_front = NULL",
                           &err));
    sweep_destroy(must_run(&options, TINY));
    digest_of(store, resumed);
    assert_string_equal(first, resumed);
    store_close(store);
}

static void must_merge(struct store *into, struct store *from, int64_t *rows) {
    struct error err = { 0 };
    if (!store_begin(into, &err) || !sweep_merge(into, from, rows, &err) || !store_end(into, &err))
        fail_msg("%s", err.text);
}

static void test_shards_join_to_the_whole(void **state) {
    (void)state;
    char whole[65], joined[65];
    struct store *store = open_store("whole");
    struct sweep_options options = options_with(store, 2);
    options.prune = false;
    sweep_destroy(must_run(&options, FEW));
    digest_of(store, whole);
    store_close(store);
    struct store *into = open_store("joined");
    int64_t rows = 0;
    for (int i = 0; i < 3; i++) {
        char name[16];
        snprintf(name, sizeof name, "part%d", i);
        store = open_store(name);
        options = options_with(store, 1);
        options.prune = false;
        options.shard_index = i;
        options.shard_count = 3;
        struct sweep *part = must_run(&options, FEW);
        assert_int_equal(part->top_count, 0);
        assert_true(part->valid > 30 && part->valid < 90);
        sweep_destroy(part);
        for (int twice = 0; twice < 2; twice++) /* the second time changes nothing */
            must_merge(into, store, &rows);
        store_close(store);
    }
    options = options_with(into, 2); /* with pruning: it goes on as it was begun */
    struct sweep *sweep = must_run(&options, FEW);
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
    struct sweep *whole = must_run(&options, TINY);
    struct store *into = open_store("pruned");
    int64_t rows = 0, pruned = 0;
    for (int i = 0; i < 2; i++) {
        char name[32];
        snprintf(name, sizeof name, "pruned-part%d", i);
        struct store *store = open_store(name);
        options = options_with(store, 2);
        options.shard_index = i;
        options.shard_count = 2;
        struct sweep *part = must_run(&options, TINY);
        pruned += part->pruned;
        sweep_destroy(part);
        must_merge(into, store, &rows);
        store_close(store);
    }
    options = options_with(into, 2);
    options.top = 0;
    struct sweep *joined = must_run(&options, TINY);
    assert_int_equal(joined->evaluated, 0);
    assert_int_equal(rows, joined->valid);
    assert_true(pruned > 0 && pruned <= whole->pruned);
    for (int64_t i = 0; i < SWEEP_TOP_LIMIT && i < whole->best_count; i++)
        assert_int_equal(joined->rows[joined->best[i]].row_index,
                         whole->rows[whole->best[i]].row_index);
    /* More was evaluated, and nothing else: what the whole evaluated is there with the same
     * figures. */
    for (int64_t i = 0; i < whole->row_count; i++) {
        const struct sweep_row_record *a = &whole->rows[i], *b = &joined->rows[i];
        assert_string_equal(a->configuration, b->configuration);
        assert_int_equal(a->on_front, b->on_front);
        if (strcmp(a->status, "pruned") == 0) continue;
        assert_string_equal(b->status, "raced");
        assert_true(a->total_days == b->total_days && a->memory_peak_bytes == b->memory_peak_bytes);
    }
    const int64_t whole_configurations = whole->configurations;
    sweep_destroy(joined);
    sweep_destroy(whole);
    /* Rounds are of the whole, as if it had not been in parts. */
    int64_t configurations;
    struct error err = { 0 };
    assert_true(db_integer(store_db(into), "SELECT max(configuration_count) FROM sweep_round",
                           &configurations, &err));
    assert_int_equal(configurations, whole_configurations);
    store_close(into);
}

/* What the backend's options do not launch is no least, once something else is. */
static void test_the_least_so_far_launches(void **state) {
    (void)state;
    struct store *store = open_store("least");
    struct sweep_options options = options_with(store, 2);
    options.top = 0;
    sweep_destroy(must_run(&options, "tests/data/sweep/small-sweep.json"));
    struct error err = { 0 };
    int64_t cheaper, least;
    assert_true(
        db_integer(store_db(store),
                   "SELECT count(*) FROM sweep_row WHERE verdict <> 'out of memory' AND "
                   "reason IS NOT NULL AND gpu_days < (SELECT best_gpu_days FROM sweep_round "
                   "ORDER BY round_index DESC LIMIT 1)",
                   &cheaper, &err));
    assert_true(cheaper > 0);
    assert_true(db_integer(store_db(store),
                           "SELECT (SELECT min(gpu_days) FROM sweep_row WHERE "
                           "verdict <> 'out of memory' AND (reason IS NULL OR reason "
                           "LIKE 'differs in training.micro_batch %')) = (SELECT best_gpu_days "
                           "FROM sweep_round ORDER BY round_index DESC LIMIT 1)",
                           &least, &err));
    assert_int_equal(least, 1);
    store_close(store);
}

static void test_a_changed_input_is_noticed(void **state) {
    (void)state;
    struct store *store = open_store("input");
    struct sweep_options options = options_with(store, 1);
    options.top = 0;
    sweep_destroy(must_run(&options, FEW));
    static const char *const kinds[] = { "data set", "model", "hardware" };
    for (size_t i = 0; i < 3; i++) {
        struct error err = { 0 };
        char sql[256], want[128];
        snprintf(sql, sizeof sql,
                 "UPDATE sweep_input SET fingerprint = 'x' || fingerprint WHERE kind = '%s'",
                 kinds[i]);
        snprintf(want, sizeof want, "has changed since sweep \"few\" was begun");
        assert_true(db_execute(store_db(store), sql, &err));
        assert_null(sweep_run(&options, FEW, &err));
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
    sweep_destroy(must_run(&options, TINY));
    digest_of(store, want);
    store_close(store);
    store = open_store("full");
    options.store = store;
    struct error err = { 0 };
    int64_t rows;
    assert_true(db_execute(store_db(store), "PRAGMA max_page_count = 120", &err));
    assert_null(sweep_run(&options, TINY, &err));
    assert_true(err.internal);
    if (strstr(err.text, "the disk is full") == NULL) fail_msg("got %s", err.text);
    assert_true(db_execute(store_db(store), "PRAGMA max_page_count = 100000", &err));
    assert_true(db_integer(store_db(store), "SELECT count(*) FROM sweep_row", &rows, &err));
    assert_true(rows > 100);
    struct sweep *sweep = must_run(&options, TINY);
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
    assert_null(sweep_run(&options, FEW, &err));
    assert_true(err.internal);
    if (strstr(err.text, "another sweep is writing database") == NULL) fail_msg("%s", err.text);
    sweep_lock_release(first);
    options.top = 0;
    sweep_destroy(must_run(&options, FEW));
    store_close(store);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_threads_and_resuming_change_nothing),
        cmocka_unit_test(test_shards_join_to_the_whole),
        cmocka_unit_test(test_pruning_shards_join_to_the_same_answer),
        cmocka_unit_test(test_the_least_so_far_launches),
        cmocka_unit_test(test_a_changed_input_is_noticed),
        cmocka_unit_test(test_a_full_disk_loses_nothing),
        cmocka_unit_test(test_two_writers),
    };
    return cmocka_run_group_tests(tests, make_folder, remove_folder);
}
