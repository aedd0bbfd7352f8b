/* test_pipeline_oracle.c - pipelines whose length is known: closed forms, a recurrence worked
 * without the engine, and a published example.
 *
 * Each test lays the order of a schedule on streams, one per stage, with the dependencies of a
 * pipeline and free communication.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <cmocka.h>

#include "sim/base/random.h"
#include "sim/engine/engine.h"
#include "sim/policy/schedule/schedule.h"

enum { MAX_STAGES = 16, MAX_MICRO_BATCHES = 64 };

struct pipeline {
    const char *policy;
    int64_t stage_count, micro_batch_count;
    int64_t forward_ns[MAX_STAGES], backward_ns[MAX_STAGES];
};

static void build(struct task_graph *graph, const struct pipeline *p) {
    int32_t task[2][MAX_STAGES][MAX_MICRO_BATCHES]; /* forward, backward */
    struct schedule_entry entries[2 * MAX_MICRO_BATCHES];
    const struct schedule_policy *policy = schedule_policy_find(p->policy);
    assert_non_null(policy);
    task_graph_clear(graph);
    for (int64_t s = 0; s < p->stage_count; s++) {
        int32_t stream = task_graph_add_resource(graph, RESOURCE_STREAM, "stage");
        struct schedule_place place = { s, p->stage_count, 1, p->micro_batch_count, false };
        policy->order(&place, entries);
        for (int64_t k = 0; k < 2 * p->micro_batch_count; k++) {
            bool backward = entries[k].backward;
            int64_t duration_ns = backward ? p->backward_ns[s] : p->forward_ns[s];
            task[backward][s][entries[k].micro_batch] =
                task_graph_add_task(graph, stream, duration_ns, 0);
        }
    }
    int64_t last = p->stage_count - 1;
    for (int64_t i = 0; i < p->micro_batch_count; i++) {
        task_graph_add_dependency(graph, task[0][last][i], task[1][last][i], 0);
        for (int64_t s = 0; s < last; s++) {
            task_graph_add_dependency(graph, task[0][s][i], task[0][s + 1][i], 0);
            task_graph_add_dependency(graph, task[1][s + 1][i], task[1][s][i], 0);
        }
    }
}

static int64_t makespan_ns(const struct pipeline *p) {
    struct task_graph *graph = task_graph_create();
    struct engine *engine = engine_create();
    struct error err;
    build(graph, p);
    if (!engine_run(engine, graph, &err)) fail_msg("%s: %s", p->policy, err.text);
    int64_t result_ns = engine->makespan_ns;
    if (!engine_run_events(engine, graph, &err)) fail_msg("%s: %s", p->policy, err.text);
    assert_int_equal(engine->makespan_ns, result_ns);
    engine_destroy(engine);
    task_graph_destroy(graph);
    return result_ns;
}

/* --- equal stages ----------------------------------------------------------------------------- */

/* Both schedules take (m + P - 1)(f + b): a bubble of P - 1 slots (Narayanan et al., "Efficient
 * Large-Scale Language Model Training on GPU Clusters Using Megatron-LM", section 2.2.1). */
static void test_equal_stages(void **state) {
    (void)state;
    static const int64_t stage_counts[] = { 1, 2, 3, 4, 8, 16 };
    static const int64_t micro_batch_counts[] = { 1, 2, 3, 7, 8, 16, 33, 64 };
    static const int64_t times_ns[][2] = { { 1, 1 }, { 1000, 2000 }, { 7, 3 }, { 0, 5 } };
    size_t policy_count;
    const struct schedule_policy *const *policies = schedule_policies(&policy_count);
    for (size_t i = 0; i < policy_count; i++)
        for (size_t a = 0; a < sizeof(stage_counts) / sizeof(stage_counts[0]); a++)
            for (size_t b = 0; b < sizeof(micro_batch_counts) / sizeof(micro_batch_counts[0]); b++)
                for (size_t c = 0; c < sizeof(times_ns) / sizeof(times_ns[0]); c++) {
                    struct pipeline p = { .policy = policies[i]->name,
                                          .stage_count = stage_counts[a],
                                          .micro_batch_count = micro_batch_counts[b] };
                    for (int64_t s = 0; s < p.stage_count; s++) {
                        p.forward_ns[s] = times_ns[c][0];
                        p.backward_ns[s] = times_ns[c][1];
                    }
                    int64_t want_ns = (p.micro_batch_count + p.stage_count - 1) *
                                      (times_ns[c][0] + times_ns[c][1]);
                    int64_t got_ns = makespan_ns(&p);
                    if (got_ns != want_ns)
                        fail_msg("%s, P %lld, m %lld, f %lld, b %lld: got %lld ns, want %lld ns",
                                 p.policy, (long long)p.stage_count, (long long)p.micro_batch_count,
                                 (long long)times_ns[c][0], (long long)times_ns[c][1],
                                 (long long)got_ns, (long long)want_ns);
                }
}

/* Interleaving cuts the bubble to (P - 1) / (v m) of the work: with parts of f and b each, the
 * makespan is (m v + P - 1)(f + b) (section 2.2.2). */
static void test_equal_parts_interleaved(void **state) {
    (void)state;
    enum { F = 1000, B = 2000 };
    for (int64_t stages = 2; stages <= 8; stages *= 2)
        for (int64_t chunks = 1; chunks <= 4; chunks++)
            for (int64_t m = stages; m <= 32; m += stages) {
                struct task_graph *graph = task_graph_create();
                struct engine *engine = engine_create();
                int64_t parts = stages * chunks;
                int32_t(*task)[2] = calloc((size_t)(parts * m), sizeof *task);
                struct schedule_entry *entries = calloc((size_t)(2 * m * chunks), sizeof *entries);
                for (int64_t s = 0; s < stages; s++) {
                    int32_t stream = task_graph_add_resource(graph, RESOURCE_STREAM, "stage");
                    struct schedule_place place = { s, stages, chunks, m, false };
                    schedule_interleaved.order(&place, entries);
                    for (int64_t k = 0; k < schedule_entry_count(&place); k++) {
                        struct schedule_entry e = entries[k];
                        task[(e.chunk * stages + s) * m + e.micro_batch][e.backward] =
                            task_graph_add_task(graph, stream, e.backward ? B : F, 0);
                    }
                }
                for (int64_t cell = 0; cell < parts * m; cell++) {
                    if (cell >= m)
                        task_graph_add_dependency(graph, task[cell - m][0], task[cell][0], 0);
                    int32_t before = cell + m < parts * m ? task[cell + m][1] : task[cell][0];
                    task_graph_add_dependency(graph, before, task[cell][1], 0);
                }
                struct error err = { 0 };
                if (!engine_run(engine, graph, &err)) fail_msg("%s", err.text);
                int64_t want = (m * chunks + stages - 1) * (F + B);
                if (engine->makespan_ns != want)
                    fail_msg("P %d, v %d, m %d: got %lld ns, want %lld", (int)stages, (int)chunks,
                             (int)m, (long long)engine->makespan_ns, (long long)want);
                free(task);
                free(entries);
                engine_destroy(engine);
                task_graph_destroy(graph);
            }
}

/* --- unequal stages under GPipe --------------------------------------------------------------- */

static int64_t later(int64_t a, int64_t b) {
    return a > b ? a : b;
}

/* end(s, i) = max(end(s - 1, i), end(s, i - 1)) + f(s), and the same backwards from the last stage,
 * the last micro-batch first. */
static int64_t gpipe_recurrence_ns(const struct pipeline *p) {
    int64_t end_ns[MAX_STAGES] = { 0 }; /* of the latest pass of each stage */
    for (int64_t i = 0; i < p->micro_batch_count; i++)
        for (int64_t s = 0; s < p->stage_count; s++)
            end_ns[s] = later(s > 0 ? end_ns[s - 1] : 0, end_ns[s]) + p->forward_ns[s];
    for (int64_t i = p->micro_batch_count - 1; i >= 0; i--)
        for (int64_t s = p->stage_count - 1; s >= 0; s--)
            end_ns[s] =
                later(s + 1 < p->stage_count ? end_ns[s + 1] : 0, end_ns[s]) + p->backward_ns[s];
    return end_ns[0];
}

static void test_unequal_stages_gpipe(void **state) {
    (void)state;
    for (uint32_t seed = 0; seed < 200; seed++) {
        struct random_mt mt;
        random_mt_seed(&mt, seed);
        struct pipeline p = { .policy = "gpipe",
                              .stage_count = 1 + random_mt_next(&mt) % MAX_STAGES,
                              .micro_batch_count = 1 + random_mt_next(&mt) % 30 };
        for (int64_t s = 0; s < p.stage_count; s++) {
            p.forward_ns[s] = random_mt_next(&mt) % 1000;
            p.backward_ns[s] = random_mt_next(&mt) % 2000;
        }
        int64_t got_ns = makespan_ns(&p), want_ns = gpipe_recurrence_ns(&p);
        if (got_ns != want_ns)
            fail_msg("seed %u, P %lld, m %lld: got %lld ns, want %lld ns", seed,
                     (long long)p.stage_count, (long long)p.micro_batch_count, (long long)got_ns,
                     (long long)want_ns);
    }
}

/* --- a published example ---------------------------------------------------------------------- */

/* DIP ("Efficient Large Multimodal Model Training with Dynamic Interleaved Pipeline"), section 2.2:
 * 16 stages of 1104 ms together, 64 micro-batches, 1F1B. Forward takes a third of a stage. The
 * place of the long stages alone moves the bubble from 22.57 % to 22.99 %. */
static const struct {
    const char *name;
    double stage_ms[MAX_STAGES];
    double want_bubble_percent;
} published[] = {
    { "long language stages before the short ones",
      { 67.5, 67.5, 67.5, 67.5, 67.5, 67.5, 69.0, 73.5, 73.5, 73.5, 73.5, 73.5, 73.5, 63.0, 63.0,
        63.0 },
      22.57 },
    { "long language stages last",
      { 67.5, 67.5, 67.5, 67.5, 67.5, 67.5, 69.0, 63.0, 63.0, 63.0, 73.5, 73.5, 73.5, 73.5, 73.5,
        73.5 },
      22.99 },
};

static void test_published_bubbles(void **state) {
    (void)state;
    for (size_t k = 0; k < sizeof(published) / sizeof(published[0]); k++) {
        struct pipeline p = { .policy = "1f1b", .stage_count = 16, .micro_batch_count = 64 };
        int64_t stages_ns = 0;
        for (int64_t s = 0; s < p.stage_count; s++) {
            int64_t stage_ns = (int64_t)(published[k].stage_ms[s] * 1e6);
            p.forward_ns[s] = stage_ns / 3;
            p.backward_ns[s] = stage_ns - stage_ns / 3;
            stages_ns += stage_ns;
        }
        assert_int_equal(stages_ns, 1104000000);
        double work_ns = (double)(p.micro_batch_count * stages_ns);
        double device_ns = (double)(p.stage_count * makespan_ns(&p));
        double bubble_percent = 100.0 * (1.0 - work_ns / device_ns);
        double error = bubble_percent - published[k].want_bubble_percent;
        if (error < -0.01 || error > 0.01)
            fail_msg("%s: got %.4f %%, want %.2f %%", published[k].name, bubble_percent,
                     published[k].want_bubble_percent);
    }
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_equal_stages),
        cmocka_unit_test(test_equal_parts_interleaved),
        cmocka_unit_test(test_unequal_stages_gpipe),
        cmocka_unit_test(test_published_bubbles),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
