/* test_dip_orders.c - on every shipped model, DIP's order is never slower than 1F1B, Megatron-LM's
 * interleaved order, encoders first or the greedy dual queue on the same segments, and no order is
 * faster than the lower bound. Orders that do not fit in memory or wait for ever do not count. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <dirent.h>
#include <stdio.h>
#include <stdlib.h>
#include <cmocka.h>

#include "sim/replay/replay.h"
#include "sim/study/planner_study.h"
#include "tests/unit/policy/segment_fixture.h"
#include "tests/unit/scenario/shared_cache.h"

enum { MICRO_BATCHES = 12 };

struct checked {
    const char *model;
    int images; /* graphs with more than one module */
    int graphs;
};

static void hold(const struct checked *c, const struct segment_graph *g, int64_t ours_ns,
                 const struct segment_schedule *s, const char *rule) {
    if (s->makespan_ns == SEGMENT_DEAD_END || schedule_fault(g, s, true) != NULL) return;
    assert_true(s->makespan_ns >= segment_graph_bound_ns(g));
    if (ours_ns > s->makespan_ns)
        fail_msg("%s on %d ranks: DIP %.6f s, %s %.6f s", c->model, (int)g->rank_count,
                 (double)ours_ns * 1e-9, rule, (double)s->makespan_ns * 1e-9);
}

static void compare(void *context, const struct planner_study *study) {
    struct checked *c = context;
    struct segment_graph *g = study->segments->graph;
    const int32_t *level = study->segments->chunk_of;
    struct segment_schedule s, ours;
    s.tasks = arena_array(g->arena, struct segment_task, segment_schedule_size(g));
    ours.tasks = arena_array(g->arena, struct segment_task, segment_schedule_size(g));
    int32_t *order = arena_array(g->arena, int32_t, g->class_count);
    struct segment_search_options options = segment_search_defaults();
    options.rollouts = 400;
    if (dip_order(g, level, &options, &ours) == SEGMENT_DEAD_END) {
        /* Too large for these GPUs whatever the order: the orders are compared as if it were
         * not. */
        for (int32_t r = 0; r < g->rank_count; r++)
            g->capacity_bytes[r] = INFINITY;
        dip_order(g, level, &options, &ours);
    }
    const char *fault = schedule_fault(g, &ours, true);
    if (fault != NULL) fail_msg("%s: %s", c->model, fault);
    for (int32_t i = 0; i < g->class_count; i++)
        order[i] = i;
    struct interleaver *x = interleaver_create(g);
    interleaver_run(x, order, TURN_ALTERNATE, &s);
    interleaver_destroy(x);
    hold(c, g, ours.makespan_ns, &s, "greedy dual queue");
    segment_order_whole(g, level, &s);
    hold(c, g, ours.makespan_ns, &s, "1F1B");
    for (int lead = 1; lead <= 2; lead++) {
        segment_order_fixed(g, level, lead, &s);
        hold(c, g, ours.makespan_ns, &s, "interleaved order");
    }
    segment_order_encoders_first(g, level, &s);
    hold(c, g, ours.makespan_ns, &s, "encoders first");
    c->graphs++;
    c->images += study->plan->module_count > 1;
}

/* The first of the data sets that the model can read. */
static struct job *load(const char *model, const char *layout, struct scenario **scenario) {
    static const char *const data[] = {
        "dataset=packed-8k", "dataset=internvl-1.2m", "dataset=mmtrail-2m"
    };
    char set_model[280], set_layout[64], set_batch[64];
    struct error err = { 0 };
    snprintf(set_model, sizeof set_model, "model=%s", model);
    snprintf(set_layout, sizeof set_layout, "layout=%s", layout);
    snprintf(set_batch, sizeof set_batch, "training.global_batch={\"micro_batches\":%d}",
             MICRO_BATCHES);
    for (int d = 0; d < 3; d++) {
        const char *set[] = { set_model, set_layout, set_batch, data[d], "cluster.gpu_count=32",
                              "simulate.iterations=1",
                              d == 2 ? "policy.batching=clip-group" : NULL, NULL };
        struct scenario_options options = { .directory = BALLAST_SOURCE_DIR "/scenarios",
                                            .overrides = set,
                                            .cache = shared_cache() };
        *scenario = scenario_load(
            &options, BALLAST_SOURCE_DIR "/scenarios/papers/dip/vlm-s.json", &err);
        struct job *job = *scenario != NULL ? job_create(*scenario, &err) : NULL;
        if (job != NULL) return job;
        scenario_destroy(*scenario);
    }
    fail_msg("%s: %s", model, err.text);
    return NULL;
}

static int is_model(const struct dirent *entry) {
    size_t length = strlen(entry->d_name);
    return length > 5 && strcmp(entry->d_name + length - 5, ".json") == 0;
}

static void test_never_worse_than_a_rule(void **state) {
    (void)state;
    static const char *const layouts[] = { "{\"tp\":4,\"pp\":8,\"dp\":1}",
                                           "{\"tp\":4,\"pp\":4,\"dp\":2}" };
    struct dirent **models;
    int count = scandir(BALLAST_SOURCE_DIR "/scenarios/models", &models, is_model, alphasort);
    assert_true(count > 20);
    struct checked c = { 0 };
    for (int i = 0; i < count; i++) {
        char name[256];
        snprintf(name, sizeof name, "%.*s", (int)strlen(models[i]->d_name) - 5, models[i]->d_name);
        c.model = name;
        for (int l = 0; l < 2; l++) {
            struct scenario *scenario;
            struct error err = { 0 };
            struct job *job = load(name, layouts[l], &scenario);
            if (!planner_study_run(job, 0, compare, &c, &err)) fail_msg("%s: %s", name, err.text);
            job_destroy(job);
            scenario_destroy(scenario);
        }
        free(models[i]);
    }
    free(models);
    print_message("%d iterations, %d of them with several modules\n", c.graphs, c.images);
    assert_true(c.graphs == 2 * count && c.images >= count / 2);
}

/* Seconds of the first iteration under DIP with this order. */
static double planned_s(const char *file, const char *batching, const char *order) {
    char path[256], policy[256];
    struct error err = { 0 };
    snprintf(path, sizeof path, BALLAST_SOURCE_DIR "/scenarios/papers/dip/%s.json", file);
    snprintf(policy, sizeof policy,
             "policy={\"batching\":\"%s\",\"joint\":{\"name\":\"dip\",\"rollouts\":100,"
             "\"order\":\"%s\"}}",
             batching, order);
    const char *set[] = { policy, "training.global_batch={\"micro_batches\":24}",
                          "simulate.iterations=1", NULL };
    struct scenario_options options = { .directory = BALLAST_SOURCE_DIR "/scenarios",
                                        .overrides = set,
                                        .cache = shared_cache() };
    struct scenario *s = scenario_load(&options, path, &err);
    struct job *job = s != NULL ? job_create(s, &err) : NULL;
    struct replay_options one = { .threads = 1 };
    struct replay *r = job != NULL ? replay_run(job, &one, &err) : NULL;
    if (r == NULL) fail_msg("%s: %s", file, err.text);
    double seconds = r->step_time_mean_s;
    replay_destroy(r);
    job_destroy(job);
    scenario_destroy(s);
    return seconds;
}

/* An order that is faster before the memory step may be slower after it; the planner looks at
 * both. */
static void test_never_worse_after_the_memory_step(void **state) {
    (void)state;
    static const char *const files[][2] = { { "vlm-s", "random" },   { "vlm-m", "random" },
                                            { "vlm-l", "random" },   { "t2v-s", "clip-group" },
                                            { "t2v-l", "clip-group" } };
    for (int i = 0; i < 5; i++) {
        double searched = planned_s(files[i][0], files[i][1], "search");
        double greedy = planned_s(files[i][0], files[i][1], "greedy");
        if (searched > greedy)
            fail_msg("%s: searched %.3f s, micro-batches in turn %.3f s", files[i][0], searched,
                     greedy);
    }
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_never_worse_than_a_rule),
        cmocka_unit_test(test_never_worse_after_the_memory_step),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
