/* test_execution.c - the rows that a run leaves in the database, and its timeline. */
#include "tests/unit/replay/replay_fixture.h"

#include <math.h>
#include "results/plot.h"
#include "sim/study/comparison.h"
#include "sim/study/execution.h"

static const struct provenance provenance = { .command_line = "ballast run scenario.json" };

static int begin(void **state) {
    fixture_begin(state);
    fixture_samples("samples.csv", 160, 21);
    return 0;
}

static struct execution *execute(const char *const *overrides, enum fidelity fidelity,
                                 int threads) {
    struct scenario_options options = { .directory = SCENARIOS, .overrides = overrides };
    struct replay_options replay = { .fidelity = fidelity, .threads = threads };
    struct error err = { 0 };
    struct execution *e = execution_run(
        &options, fixture_scenario_file("scenario.json", "samples.csv"), &replay, &err);
    if (e == NULL) fail_msg("%s", err.text);
    return e;
}

static struct store *open_store(const char *name) {
    struct error err = { 0 };
    struct store *store = store_open(fixture_path(name), DB_WRITE, &err);
    if (store == NULL) fail_msg("%s", err.text);
    return store;
}

static int64_t keep(struct store *store, const struct execution *e) {
    struct error err = { 0 };
    int64_t run_id = -1;
    if (!execution_store(store, e, &provenance, &run_id, &err)) fail_msg("%s", err.text);
    return run_id;
}

/* ---- columns ---- */

struct columns {
    const char *allowed; /* names that may be NULL, each between two spaces */
    int row_count;
};

static bool check_columns(void *context, sqlite3_stmt *row, struct error *err) {
    struct columns *c = context;
    (void)err;
    c->row_count++;
    for (int i = 0; i < sqlite3_column_count(row); i++) {
        char name[128];
        snprintf(name, sizeof name, " %s ", sqlite3_column_name(row, i));
        if (sqlite3_column_type(row, i) == SQLITE_NULL && strstr(c->allowed, name) == NULL)
            fail_msg("column%sis not filled", name);
    }
    return true;
}

static const struct {
    const char *sql, *allowed;
} tables[] = {
    { "SELECT * FROM run WHERE id = ?1", " failure planner_mean_ms planner_exposed_ms "
                                         "asked_samples_per_step " },
    { "SELECT * FROM iteration WHERE run_id = ?1", " planner_ns " },
    { "SELECT * FROM stage WHERE run_id = ?1", "" },
    { "SELECT * FROM memory WHERE run_id = ?1", "" },
    { "SELECT * FROM operator_price WHERE run_id = ?1", "" },
    { "SELECT * FROM span WHERE run_id = ?1", " chunk_index micro_batch flow module sub_batch " },
    { "SELECT * FROM memory_point WHERE run_id = ?1", "" },
};

static void test_all_columns_are_filled(void **state) {
    (void)state;
    static const char *const none[] = { NULL };
    struct execution *e = execute(none, FIDELITY_STAGE, 1);
    struct store *store = open_store("columns.db");
    int64_t run_id = keep(store, e);
    for (size_t k = 0; k < sizeof tables / sizeof tables[0]; k++) {
        struct columns columns = { .allowed = tables[k].allowed };
        struct error err = { 0 };
        if (!store_query(store, tables[k].sql, run_id, check_columns, &columns, &err))
            fail_msg("%s: %s", tables[k].sql, err.text);
        if (columns.row_count == 0) fail_msg("%s: no row", tables[k].sql);
    }
    store_close(store);
    execution_destroy(e);
}

/* What pictures, reports and comparisons divide a step into is the whole step, whatever slows
 * it. */
static void test_the_parts_are_the_whole(void **state) {
    (void)state;
    static const char *const set[] = { "what_if.data_loading_ms_per_sample=1000",
                                       "what_if.data_loading_overlaps=false",
                                       "what_if.gpu_mtbf_hours=100", NULL };
    struct execution *e = execute(set, FIDELITY_STAGE, 1);
    struct comparison_run run = { .label = "run" };
    struct arena *arena = arena_create();
    execution_record(e, &provenance, arena, &run.record);
    assert_true(run.record.loading_ms > 0);
    double drawn_ms = 0, compared = 0;
    for (int part = 0; part < PLOT_PARTS; part++)
        drawn_ms += plot_part_ms(&run.record, part);
    if (fabs(drawn_ms / run.record.step_time_mean_ms - 1) > 1e-9)
        fail_msg("%g ms are drawn of a step of %g ms", drawn_ms, run.record.step_time_mean_ms);
    struct comparison_row row;
    comparison_make(&run, 1, COMPARISON_GPU_DAYS, &row);
    for (int part = 0; part < COMPARISON_PARTS; part++)
        compared += row.parts_gpu_days[part];
    if (fabs(compared / run.record.gpu_days - 1) > 1e-9)
        fail_msg("%g of %g GPU-days are compared", compared, run.record.gpu_days);
    arena_destroy(arena);
    execution_destroy(e);
}

static bool read_number(void *context, sqlite3_stmt *row, struct error *err) {
    (void)err;
    *(double *)context = sqlite3_column_double(row, 0);
    return true;
}

/* A policy that plans each iteration says what that takes, and how the first one's order was
 * searched. */
/* Traffic inside a node without NVLink, whose speed no rule states, is told: what groups send that
 * share no node is not of it, and a factor is not a speed. */
static void test_what_goes_over_pcie(void **state) {
    (void)state;
#define SPEED(kind, what) "{\"operator\":\"" kind "\"," what "}"
    static const struct {
        const char *set[5];
        bool tensor, data, send, update;
    } cases[] = {
        { { "cluster.hardware=a100-80g-sxm" }, false, false, false, false },
        { { "layout.zero_stage=1" }, true, true, true, true },
        { { "layout.zero_stage=0" }, true, true, true, false },
        { { "layout.zero_stage=1", "cluster.gpus_per_node=4" }, true, true, false, true },
        { { "layout.zero_stage=1", "cluster.gpus_per_node=4", "layout.tp=4", "layout.pp=1" },
          true,
          false,
          false,
          false },
        { { "layout.zero_stage=1", "rules=[" SPEED("all-reduce", "\"bandwidth_GB_per_s\":20") "]" },
          true,
          true,
          true,
          true },
        { { "layout.zero_stage=0",
            "rules=[" SPEED("all-reduce", "\"bandwidth_GB_per_s\":20") "," SPEED(
                "all-gather", "\"bandwidth_GB_per_s\":20") "," SPEED("reduce-scatter",
                                                                     "\"factor\":2") "]" },
          true,
          true,
          true,
          false },
        { { "rules=[" SPEED("all-reduce", "\"bandwidth_GB_per_s\":20") "," SPEED(
              "all-gather",
              "\"bandwidth_GB_per_s\":20") "," SPEED("reduce-scatter",
                                                     "\"bandwidth_GB_per_s\":20") "]" },
          false,
          false,
          false,
          false },
    };
#undef SPEED
    struct arena *arena = arena_create();
    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
        const char *set[7] = { "cluster.hardware=l40s-48g-pcie" };
        for (int k = 0; cases[i].set[k] != NULL; k++)
            set[k + 1] = cases[i].set[k];
        struct execution *e = execute(set, FIDELITY_STAGE, 1);
        struct run_record run;
        execution_record(e, &provenance, arena, &run);
        assert_true(run.exposed_tensor_ms > 0 && run.exposed_data_ms > 0 && run.update_ms > 0);
        const double sent = (cases[i].tensor ? run.exposed_tensor_ms : 0) +
                            (cases[i].data ? run.exposed_data_ms : 0) +
                            (cases[i].send ? run.exposed_pipeline_ms : 0) +
                            (cases[i].update ? run.update_ms : 0);
        const double waits =
            run.bubble_ms + run.stage_imbalance_ms + run.time_imbalance_ms + run.rank_imbalance_ms;
        assert_true(waits > 0 || run.pcie_ms == 0);
        const double want = sent / (1 - waits / run.step_time_mean_ms);
        if (fabs(run.pcie_ms - want) > 1e-9 * (1 + want))
            fail_msg("case %zu: %g ms, not %g", i, run.pcie_ms, want);
        execution_destroy(e);
    }
    arena_destroy(arena);
}

static void test_planned_iterations_are_stored(void **state) {
    (void)state;
    static const char *const set[] = { "policy={\"joint\":{\"name\":\"dip\",\"rollouts\":60}}",
                                       NULL };
    static const char *const queries[] = {
        "SELECT planner_mean_ms, planner_exposed_ms FROM run WHERE id = ?1",
        "SELECT planner_ns FROM iteration WHERE run_id = ?1",
        "SELECT * FROM search_progress WHERE run_id = ?1",
    };
    struct execution *e = execute(set, FIDELITY_STAGE, 1);
    struct store *store = open_store("planned.db");
    int64_t run_id = keep(store, e);
    struct error err = { 0 };
    for (size_t k = 0; k < sizeof queries / sizeof queries[0]; k++) {
        struct columns columns = { .allowed = "" };
        if (!store_query(store, queries[k], run_id, check_columns, &columns, &err))
            fail_msg("%s: %s", queries[k], err.text);
        if (columns.row_count == 0) fail_msg("%s: no row", queries[k]);
    }
    /* Each method's best never rises and stays above the bound; all begin with the same order. */
    static const struct {
        const char *sql;
        double want;
    } cases[] = {
        { "SELECT count(DISTINCT method) FROM search_progress WHERE run_id = ?1", 3 },
        { "SELECT count(*) FROM search_progress a JOIN search_progress b USING (run_id, method)"
          " WHERE run_id = ?1 AND a.point_index < b.point_index AND (a.makespan_ns < b.makespan_ns"
          " OR a.schedule_count > b.schedule_count)",
          0 },
        { "SELECT count(*) FROM search_progress WHERE run_id = ?1 AND makespan_ns < bound_ns", 0 },
        { "SELECT count(DISTINCT makespan_ns) FROM search_progress WHERE run_id = ?1"
          " AND point_index = 0 AND schedule_count = 1",
          1 },
    };
    for (size_t k = 0; k < sizeof cases / sizeof cases[0]; k++) {
        double got = -1;
        if (!store_query(store, cases[k].sql, run_id, read_number, &got, &err))
            fail_msg("%s: %s", cases[k].sql, err.text);
        if (got != cases[k].want) fail_msg("%s: got %g", cases[k].sql, got);
    }
    store_close(store);
    execution_destroy(e);
}

static double number(struct store *store, const char *sql, int64_t run_id) {
    double value = NAN;
    struct error err = { 0 };
    if (!store_query(store, sql, run_id, read_number, &value, &err)) fail_msg("%s", err.text);
    return value;
}

static const char *const breakdown_setups[][4] = {
    { NULL },
    { "layout.backend=megatron-lm", "policy.schedule=gpipe", NULL },
    { "layout.pp=1", "layout.tp=1", NULL },
    { "training.micro_batch={\"samples\":4}", "training.global_batch={\"samples\":32}", NULL },
};

static void test_the_breakdown_explains_everything(void **state) {
    (void)state;
    for (size_t k = 0; k < sizeof breakdown_setups / sizeof breakdown_setups[0]; k++)
        for (int fidelity = 0; fidelity < 2; fidelity++) {
            struct execution *e = execute(breakdown_setups[k], (enum fidelity)fidelity, 1);
            struct store *store = open_store("breakdown.db");
            int64_t run_id = keep(store, e);
            double unexplained = number(store,
                                        "SELECT step_fraction FROM breakdown WHERE run_id = ?1 AND "
                                        "part = 'unexplained'",
                                        run_id);
            if (!(fabs(unexplained) < 1e-9))
                fail_msg("setup %zu, fidelity %d: unexplained %g", k, fidelity, unexplained);
            assert_true(
                fabs(number(store, "SELECT sum(step_fraction) FROM breakdown WHERE run_id = ?1",
                            run_id) -
                     1) < 1e-9);
            /* Views over other tables agree with the answer. */
            assert_true(
                number(store, "SELECT max(peak_bytes) FROM stage_memory WHERE run_id = ?1",
                       run_id) -
                    number(store, "SELECT memory_peak_bytes FROM run WHERE id = ?1", run_id) <
                MEMORY_CLASS_COUNT);
            assert_true(
                fabs(number(store,
                            "SELECT avg(step_time_ns) / 1e6 FROM iteration WHERE run_id = "
                            "?1",
                            run_id) /
                         number(store, "SELECT step_time_mean_ms FROM run WHERE id = ?1", run_id) -
                     1) < 1e-12);
            assert_true(number(store,
                               "SELECT max(abs(busy_ms + idle_ms - step_time_mean_ms)) FROM stage "
                               "JOIN run ON run.id = run_id WHERE run_id = ?1",
                               run_id) < 1e-6);
            store_close(store);
            execution_destroy(e);
        }
}

/* ---- repeatability ---- */

static void test_threads_do_not_change_the_digest(void **state) {
    (void)state;
    static const char *const none[] = { NULL };
    static const int thread_counts[] = { 1, 2, 3, 8 };
    char first[65] = "", digest[65];
    for (size_t k = 0; k < sizeof thread_counts / sizeof thread_counts[0]; k++) {
        char name[32];
        snprintf(name, sizeof name, "threads-%d.db", thread_counts[k]);
        struct execution *e = execute(none, FIDELITY_STAGE, thread_counts[k]);
        struct store *store = open_store(name);
        keep(store, e);
        struct error err = { 0 };
        assert_true(store_digest(store, digest, &err));
        if (k == 0) memcpy(first, digest, sizeof first);
        if (strcmp(first, digest) != 0) fail_msg("%d threads: another digest", thread_counts[k]);
        store_close(store);
        execution_destroy(e);
    }
    /* It is a digest of something: another seed gives another one. */
    static const char *const other[] = { "simulate.seed=5", NULL };
    struct execution *e = execute(other, FIDELITY_STAGE, 1);
    struct store *store = open_store("seed.db");
    keep(store, e);
    assert_true(store_digest(store, digest, NULL));
    assert_string_not_equal(first, digest);
    store_close(store);
    execution_destroy(e);
}

/* ---- timeline ---- */

static void test_timeline_holds_the_work_of_the_step(void **state) {
    (void)state;
    static const char *const none[] = { NULL };
    struct execution *e = execute(none, FIDELITY_STAGE, 1);
    struct arena *arena = arena_create();
    for (int fidelity = 0; fidelity < 2; fidelity++) {
        struct timeline t;
        struct error err = { 0 };
        int64_t end_ns = 0;
        assert_true(execution_timeline(e, 2, 100, (enum fidelity)fidelity, arena, &t, &err));
        struct step_runner *runner = step_runner_create(e->job->step);
        int64_t count = e->scenario->micro_batches_per_rank;
        for (int64_t rank = 0; rank < 2; rank++) {
            struct rank_outcome outcome;
            assert_true(step_run_rank(runner, FIDELITY_STAGE,
                                      e->job->shapes + rank * e->job->batches.per_rank + 2 * count,
                                      count, &outcome, &err));
            for (int64_t stage = 0; stage < 2; stage++) {
                int64_t work_ns = 0, recompute_ns = 0, tail_ns = 0, most = 0;
                for (int64_t i = 0; i < t.span_count; i++) {
                    const struct span_record *span = &t.spans[i];
                    assert_int_equal(span->span_index, i);
                    if (span->dp_rank != rank || span->stage_index != stage) continue;
                    int64_t ns = span->finish_ns - span->start_ns;
                    if (span->finish_ns > end_ns) end_ns = span->finish_ns;
                    if (strcmp(span->stream, "data") == 0 || strcmp(span->kind, "update") == 0)
                        tail_ns += ns;
                    else if (strcmp(span->kind, "send") != 0)
                        work_ns += ns;
                    if (strcmp(span->kind, "recompute") == 0) recompute_ns += ns;
                }
                assert_int_equal(work_ns, outcome.forward_ns[stage] + outcome.backward_ns[stage]);
                assert_int_equal(recompute_ns, outcome.recompute_ns[stage]);
                assert_true(tail_ns > 0);
                for (int64_t i = 0; i < t.memory_count; i++)
                    if (t.memory[i].dp_rank == rank && t.memory[i].stage_index == stage &&
                        t.memory[i].memory_bytes > most)
                        most = t.memory[i].memory_bytes;
                double peak = stage_memory_device(&outcome.memory[stage]);
                assert_true(fabs((double)most - peak) <= 1);
            }
        }
        step_runner_destroy(runner);
        /* Reduction and update close the step that the replay counts. */
        if (fidelity == FIDELITY_STAGE)
            assert_int_equal(end_ns, e->replay->iterations[2].step_time_ns);
        assert_int_equal(t.capacity_bytes, (int64_t)80 << 30);
    }
    struct timeline t;
    struct error err = { 0 };
    assert_int_equal(e->job->epoch_iterations, 10);
    assert_false(execution_timeline(e, 10, 1, FIDELITY_STAGE, arena, &t, &err));
    assert_string_equal(err.text, "iteration 10 does not exist: the epoch has iterations 0 to 9");
    assert_false(execution_timeline(e, -1, 1, FIDELITY_STAGE, arena, &t, &err));
    arena_destroy(arena);
    execution_destroy(e);
}

/* ---- prices ---- */

/* Where every micro-batch is the typical one and nothing is hidden (TP 1), prices x calls of the
 * ranks that hold the layers are the work of a step. */
static const char *const price_setups[][5] = {
    { "layout.tp=1", "layout.pp=4", "layout.backend=megatron-lm", NULL },
    { "layout.tp=1", "layout.pp=4", "layout.backend=megatron-lm",
      "model={\"name\":\"internvl-6b-8b\",\"frozen\":[\"vision\"]}", NULL },
    { "layout.tp=1", "layout.pp=4", "layout.backend=megatron-lm",
      "model={\"name\":\"internvl-6b-8b\",\"frozen\":[\"language\"]}", NULL },
};

static void test_prices_times_calls_are_the_work(void **state) {
    (void)state;
    char text[2048] = "vision_tiles,text_tokens\n";
    for (int i = 0; i < 64; i++)
        strcat(text, "3,700\n");
    fixture_write("equal.csv", text);
    for (size_t k = 0; k < sizeof price_setups / sizeof price_setups[0]; k++) {
        struct scenario_options options = { .directory = SCENARIOS, .overrides = price_setups[k] };
        struct replay_options replay = { .threads = 1 };
        struct error err = { 0 };
        struct execution *e = execution_run(
            &options, fixture_scenario_file("equal.json", "equal.csv"), &replay, &err);
        if (e == NULL) fail_msg("%s", err.text);
        struct arena *arena = arena_create();
        int64_t count;
        const struct price_record *prices = execution_prices(e, arena, &count);
        double priced_s = 0, busy_s = 0;
        for (int64_t i = 0; i < count; i++)
            priced_s += prices[i].price_s * prices[i].calls_per_step * prices[i].rank_fraction;
        for (int64_t stage = 0; stage < 4; stage++)
            busy_s += e->replay->stages[stage].busy_s / 4;
        /* Each operator is rounded to a nanosecond. */
        if (fabs(priced_s / busy_s - 1) > 1e-4)
            fail_msg("setup %zu: prices sum to %.6g s, stages work %.6g s", k, priced_s, busy_s);
        arena_destroy(arena);
        execution_destroy(e);
    }
}

static double calls_of(const struct price_record *prices, int64_t count, const char *operator,
                       const char * pass, int *rows) {
    double calls = 0;
    *rows = 0;
    for (int64_t i = 0; i < count; i++) {
        if (strcmp(prices[i].layer_kind, "head") != 0 ||
            strcmp(prices[i].operator, operator) != 0 || strcmp(prices[i].pass, pass) != 0)
            continue;
        calls += prices[i].calls_per_step;
        ++*rows;
    }
    return calls;
}

/* What a checkpointed chunk's backward makes again counts with its forward. */
static void test_what_the_backward_makes_again_counts_with_its_forward(void **state) {
    (void)state;
    static const char *const overrides[] = { "layout.tp=1", "layout.zero_stage=3",
                                             "layout.backend=fsdp",
                                             "layout.stack=hf-fsdp-chunked-loss-2026", NULL };
    struct execution *e = execute(overrides, FIDELITY_STAGE, 1);
    struct arena *arena = arena_create();
    int64_t count;
    int once, again, loss_rows;
    const struct price_record *prices = execution_prices(e, arena, &count);
    const double gradients = calls_of(prices, count, "logits", "weight gradient", &once);
    const double forward = calls_of(prices, count, "logits", "forward", &again);
    const double losses = calls_of(prices, count, "loss", "forward", &loss_rows);
    const double loss_backward = calls_of(prices, count, "loss", "backward", &once);
    assert_true(gradients > 1 && forward == 2 * gradients && again <= 2); /* whole chunks, a last */
    assert_true(losses == 2 * loss_backward && loss_rows == 1);
    arena_destroy(arena);
    execution_destroy(e);
}

static void test_stage_layers_in_words(void **state) {
    (void)state;
    static const char *const overrides[] = { "policy.partition=encoder-first", NULL };
    struct execution *e = execute(overrides, FIDELITY_STAGE, 1);
    struct arena *arena = arena_create();
    assert_string_equal(execution_stage_layers(e, 0, arena),
                        "patch embedding, vision 0-44, connector, token embedding, language 0-15");
    assert_string_equal(execution_stage_layers(e, 1, arena), "language 16-31, head");
    arena_destroy(arena);
    execution_destroy(e);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_all_columns_are_filled),
        cmocka_unit_test(test_the_parts_are_the_whole),
        cmocka_unit_test(test_what_goes_over_pcie),
        cmocka_unit_test(test_planned_iterations_are_stored),
        cmocka_unit_test(test_the_breakdown_explains_everything),
        cmocka_unit_test(test_threads_do_not_change_the_digest),
        cmocka_unit_test(test_timeline_holds_the_work_of_the_step),
        cmocka_unit_test(test_prices_times_calls_are_the_work),
        cmocka_unit_test(test_what_the_backward_makes_again_counts_with_its_forward),
        cmocka_unit_test(test_stage_layers_in_words),
    };
    return cmocka_run_group_tests(tests, begin, fixture_end);
}
