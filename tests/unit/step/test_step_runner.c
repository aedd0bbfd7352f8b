/* test_step_runner.c - the pipeline of one rank: stage against operator fidelity, and both against
 * a pipeline worked out without the engine. */
#include "tests/unit/step/step_fixture.h"

#include <math.h>

enum { MAX_STAGES = 8, MAX_MICRO_BATCHES = 24 };

static const char *const schedules[] = { "1f1b", "gpipe" };
static const char *const models[] = {
    "model=internvl-6b-8b",
    "model={\"name\":\"internvl-6b-8b\",\"frozen\":[\"vision\"]}",
    "model={\"name\":\"llava-1.6-7b\",\"frozen\":[\"language\"]}",
    "model=llama3-8b",
};
enum { MODEL_COUNT = sizeof models / sizeof models[0] };

/* A random layout whose stages stand as `place` says. */
enum place {
    PLACE_ALONE,         /* pp 1 */
    PLACE_ONE_NODE,      /* all stages on one node */
    PLACE_NODE_EACH,     /* a node for each stage */
    PLACE_TWO_EACH_NODE, /* two stages share a node's NICs */
};

struct setup {
    char texts[13][96];
    const char *overrides[14];
    int count;
    int64_t pp;
    const char *schedule;
};

static void add(struct setup *s, const char *path, int64_t value) {
    snprintf(s->texts[s->count], sizeof s->texts[0], "%s=%ld", path, (long)value);
    s->overrides[s->count] = s->texts[s->count];
    s->count++;
}

static void add_text(struct setup *s, const char *text) {
    snprintf(s->texts[s->count], sizeof s->texts[0], "%s", text);
    s->overrides[s->count] = s->texts[s->count];
    s->count++;
}

static void random_setup(struct setup *s, struct random_mt *mt, enum place place, bool blocking) {
    *s = (struct setup){ 0 };
    int64_t tp = 1 << random_below(mt, 3);
    s->pp = place == PLACE_ALONE           ? 1
            : place == PLACE_ONE_NODE      ? (tp == 4 ? 2 : 4)
            : place == PLACE_TWO_EACH_NODE ? 4 + 2 * random_below(mt, 3)
                                           : 2 + random_below(mt, 4);
    int64_t node = place == PLACE_NODE_EACH ? tp : place == PLACE_TWO_EACH_NODE ? 2 * tp : 8;
    add_text(s, models[random_below(mt, MODEL_COUNT)]);
    add_text(s, blocking ? "layout.backend=megatron-deepspeed" : "layout.backend=megatron-lm");
    if (!blocking) add_text(s, "layout.stack=none"); /* its usual stack waits for sends */
    add(s, "layout.tp", tp);
    add(s, "layout.pp", s->pp);
    int64_t cp = place == PLACE_ALONE ? 1 + random_below(mt, 2) : 1;
    add(s, "layout.cp", cp);
    if (random_below(mt, 3) == 0) add_text(s, "training.attention=naive");
    if (random_below(mt, 3) == 0) add_text(s, "training.offload_blocks=7");
    if (random_below(mt, 3) == 0) add_text(s, "layout.tp_overlap=true");
    if (random_below(mt, 3) == 0)
        add_text(s, "rules=[{\"module\":\"language\",\"layers\":[3,9],\"factor\":1.5}]");
    add(s, "cluster.gpu_count", tp * s->pp * cp);
    add(s, "cluster.gpus_per_node", node);
    /* From slow enough that sends pile up to fast enough that they hardly show. */
    add(s, "cluster.nic_Gbit_per_s_per_gpu", 1 + random_below(mt, 3) * 100);
    s->schedule = schedules[random_below(mt, 2)];
}

static const char *setup_text(const struct setup *s) {
    static char text[512];
    text[0] = '\0';
    for (int i = 0; i < s->count; i++) {
        size_t used = strlen(text);
        snprintf(text + used, sizeof text - used, " %s", s->overrides[i]);
    }
    size_t used = strlen(text);
    snprintf(text + used, sizeof text - used, " %s", s->schedule);
    return text;
}

struct rank_case {
    struct step_fixture f;
    struct batch_shape shapes[MAX_MICRO_BATCHES];
    int64_t micro_batches;
    struct step_runner *runner;
};

static void open_case(struct rank_case *c, const struct setup *s, struct random_mt *mt) {
    fixture_open(&c->f, s->overrides);
    fixture_plan(&c->f, mt, s->schedule);
    c->micro_batches = 1 + random_below(mt, 10);
    for (int64_t i = 0; i < c->micro_batches; i++)
        c->shapes[i] = random_shape(mt, c->f.scenario->model);
    price_table_prepare(c->f.prices, c->shapes, c->micro_batches);
    c->runner = step_runner_create(c->f.step);
}

static void close_case(struct rank_case *c) {
    step_runner_destroy(c->runner);
    fixture_close(&c->f);
}

static int64_t run_ns(struct rank_case *c, enum fidelity fidelity, struct rank_outcome *outcome) {
    struct error err;
    if (!step_run_rank(c->runner, fidelity, c->shapes, c->micro_batches, outcome, &err))
        fail_msg("%s", err.text);
    return outcome->makespan_ns;
}

/* ---- fidelities ---- */

static const struct {
    const char *name;
    enum place place;
    bool blocking;
    int rounds;
} equal_places[] = {
    { "one stage", PLACE_ALONE, false, 10 },
    { "one node", PLACE_ONE_NODE, false, 15 },
    { "one node, blocking sends", PLACE_ONE_NODE, true, 15 },
    { "a node each, blocking sends", PLACE_NODE_EACH, true, 15 },
};

static void test_fidelities_agree_where_nothing_is_shared(void **state) {
    (void)state;
    struct random_mt mt;
    random_mt_seed(&mt, 11);
    for (size_t k = 0; k < sizeof equal_places / sizeof equal_places[0]; k++)
        for (int round = 0; round < equal_places[k].rounds; round++) {
            struct setup setup;
            random_setup(&setup, &mt, equal_places[k].place, equal_places[k].blocking);
            struct rank_case c;
            open_case(&c, &setup, &mt);
            struct rank_outcome outcome;
            int64_t finish_ns[MAX_STAGES];
            int64_t stage_ns = run_ns(&c, FIDELITY_STAGE, &outcome);
            memcpy(finish_ns, outcome.finish_ns, sizeof *finish_ns * (size_t)setup.pp);
            int64_t operator_ns = run_ns(&c, FIDELITY_OPERATOR, &outcome);
            if (stage_ns != operator_ns)
                fail_msg("%s, round %d:%s: stage %ld ns, operator %ld ns", equal_places[k].name,
                         round, setup_text(&setup), (long)stage_ns, (long)operator_ns);
            assert_memory_equal(finish_ns, outcome.finish_ns, sizeof *finish_ns * (size_t)setup.pp);
            close_case(&c);
        }
}

/* Two stages on nodes of their own: one sends forward, the other backward, and nobody shares. */
static void test_a_queue_of_sends_is_not_sharing(void **state) {
    (void)state;
    struct random_mt mt;
    random_mt_seed(&mt, 12);
    for (int round = 0; round < 20; round++) {
        struct setup setup;
        do
            random_setup(&setup, &mt, PLACE_NODE_EACH, false);
        while (setup.pp != 2);
        struct rank_case c;
        open_case(&c, &setup, &mt);
        struct rank_outcome outcome;
        int64_t stage_ns = run_ns(&c, FIDELITY_STAGE, &outcome);
        int64_t operator_ns = run_ns(&c, FIDELITY_OPERATOR, &outcome);
        if (stage_ns != operator_ns)
            fail_msg("round %d:%s: stage %ld ns, operator %ld ns", round, setup_text(&setup),
                     (long)stage_ns, (long)operator_ns);
        close_case(&c);
    }
}

/* Where sends share NICs operator fidelity is never shorter, and somewhere it is longer. */
static void test_shared_nics_only_delay(void **state) {
    (void)state;
    struct random_mt mt;
    random_mt_seed(&mt, 13);
    double sum = 0, most = 0;
    int rounds = 0, longer = 0;
    for (int k = 0; k < 2; k++)
        for (int round = 0; round < 20; round++) {
            struct setup setup;
            random_setup(&setup, &mt, k == 0 ? PLACE_TWO_EACH_NODE : PLACE_NODE_EACH, false);
            struct rank_case c;
            open_case(&c, &setup, &mt);
            struct rank_outcome outcome;
            int64_t stage_ns = run_ns(&c, FIDELITY_STAGE, &outcome);
            int64_t operator_ns = run_ns(&c, FIDELITY_OPERATOR, &outcome);
            if (operator_ns < stage_ns)
                fail_msg("round %d:%s: stage %ld ns, operator %ld ns", round, setup_text(&setup),
                         (long)stage_ns, (long)operator_ns);
            double difference = (double)operator_ns / (double)stage_ns - 1;
            sum += difference;
            most = difference > most ? difference : most;
            longer += operator_ns > stage_ns;
            rounds++;
            close_case(&c);
        }
    print_message("operator over stage fidelity with shared NICs: %d of %d longer, mean +%.3f %%, "
                  "at most +%.3f %%\n",
                  longer, rounds, 100 * sum / rounds, 100 * most);
    assert_true(longer > 0);
}

/* ---- stage fidelity without the engine ---- */

struct pipeline {
    const struct step_model *model;
    const struct stage_cost *costs; /* stage x micro_batches */
    int64_t stages, micro_batches;
    bool blocking;
    /* ends by [stage][micro_batch]; -1: not yet */
    int64_t forward[MAX_STAGES][MAX_MICRO_BATCHES], backward[MAX_STAGES][MAX_MICRO_BATCHES];
    int64_t sent[MAX_STAGES][MAX_MICRO_BATCHES], returned[MAX_STAGES][MAX_MICRO_BATCHES];
};

static int64_t later(int64_t a, int64_t b) {
    return a > b ? a : b;
}

/* Takes the stages in turn and does on each what can be done, until nothing is left. */
static int64_t pipeline_ns(struct pipeline *p) {
    struct schedule_entry order[MAX_STAGES][2 * MAX_MICRO_BATCHES];
    int64_t next[MAX_STAGES] = { 0 }, free_ns[MAX_STAGES] = { 0 };
    int64_t link_free[2][MAX_STAGES] = { 0 }, end_ns = 0;
    memset(p->forward, -1, sizeof p->forward);
    memset(p->backward, -1, sizeof p->backward);
    memset(p->sent, -1, sizeof p->sent);
    memset(p->returned, -1, sizeof p->returned);
    for (int64_t s = 0; s < p->stages; s++) {
        struct schedule_place place = { s, p->stages, 1, p->micro_batches, false };
        p->model->plan->schedule->order(&place, order[s]);
    }
    for (int64_t left = 2 * p->stages * p->micro_batches; left > 0;) {
        int64_t before = left;
        for (int64_t s = 0; s < p->stages; s++) {
            while (next[s] < 2 * p->micro_batches) {
                int64_t i = order[s][next[s]].micro_batch;
                bool back = order[s][next[s]].backward;
                const struct stage_cost *cost = &p->costs[s * p->micro_batches + i];
                int64_t ready = back
                                    ? (s + 1 < p->stages ? p->returned[s + 1][i] : p->forward[s][i])
                                    : (s > 0 ? p->sent[s - 1][i] : 0);
                if (ready < 0) break;
                int64_t end =
                    later(ready, free_ns[s]) + (back ? cost->backward_ns : cost->forward_ns);
                free_ns[s] = end;
                (back ? p->backward : p->forward)[s][i] = end;
                if (back ? s > 0 : s + 1 < p->stages) {
                    int64_t send = back ? cost->send_backward_ns : cost->send_forward_ns;
                    int64_t arrived;
                    if (p->blocking)
                        arrived = free_ns[s] = end + send;
                    else
                        arrived = link_free[back][s] = later(end, link_free[back][s]) + send;
                    (back ? p->returned : p->sent)[s][i] = arrived;
                    end = arrived;
                }
                end_ns = later(end_ns, end);
                next[s]++;
                left--;
            }
        }
        assert_true(left < before);
    }
    return end_ns;
}

static void fill_costs(const struct rank_case *c, struct stage_cost *costs) {
    for (int64_t i = 0; i < c->micro_batches; i++) {
        struct layer_time times[LAYER_KIND_COUNT];
        step_layer_times(c->f.step, &c->shapes[i], times);
        for (int64_t s = 0; s < c->f.step->stage_count; s++)
            step_stage_cost(c->f.step, s, &c->shapes[i], times, NULL,
                            &costs[s * c->micro_batches + i]);
    }
}

static void test_stage_fidelity_without_the_engine(void **state) {
    (void)state;
    struct random_mt mt;
    random_mt_seed(&mt, 14);
    for (int round = 0; round < 60; round++) {
        struct setup setup;
        enum place place = (enum place)random_below(&mt, 4);
        bool blocking = random_below(&mt, 2) == 0;
        random_setup(&setup, &mt, place, blocking);
        struct rank_case c;
        open_case(&c, &setup, &mt);
        struct stage_cost costs[MAX_STAGES * MAX_MICRO_BATCHES];
        fill_costs(&c, costs);
        struct pipeline p = { .model = c.f.step,
                              .costs = costs,
                              .stages = setup.pp,
                              .micro_batches = c.micro_batches,
                              .blocking = blocking };
        struct rank_outcome outcome;
        int64_t got_ns = run_ns(&c, FIDELITY_STAGE, &outcome), want_ns = pipeline_ns(&p);
        if (got_ns != want_ns)
            fail_msg("round %d:%s: got %ld ns, want %ld ns", round, setup_text(&setup),
                     (long)got_ns, (long)want_ns);
        for (int64_t s = 0; s < setup.pp; s++) {
            int64_t finish = 0, busy = 0;
            for (int64_t i = 0; i < c.micro_batches; i++) {
                const struct stage_cost *cost = &costs[s * c.micro_batches + i];
                finish = later(finish, s > 0 ? p.returned[s][i] : p.backward[s][i]);
                busy += cost->forward_ns + cost->backward_ns;
                if (blocking) busy += cost->send_forward_ns + cost->send_backward_ns;
            }
            assert_int_equal(outcome.finish_ns[s], finish);
            assert_int_equal(outcome.busy_ns[s], busy);
            assert_true(busy <= outcome.makespan_ns);
        }
        close_case(&c);
    }
}

/* ---- reuse of the graph ---- */

static void test_new_durations_equal_a_new_graph(void **state) {
    (void)state;
    struct random_mt mt;
    random_mt_seed(&mt, 15);
    for (int round = 0; round < 15; round++) {
        struct setup setup;
        random_setup(&setup, &mt, (enum place)random_below(&mt, 4), random_below(&mt, 2) == 0);
        struct rank_case c;
        open_case(&c, &setup, &mt);
        int64_t most = c.micro_batches;
        /* One runner for all: same counts, other counts, other fidelity, constant costs between. */
        for (int again = 0; again < 6; again++) {
            c.micro_batches = again % 3 == 2 ? 1 + random_below(&mt, most) : most;
            for (int64_t i = 0; i < c.micro_batches; i++)
                c.shapes[i] = random_shape(&mt, c.f.scenario->model);
            price_table_prepare(c.f.prices, c.shapes, c.micro_batches);
            struct rank_outcome kept, fresh;
            if (again == 3) run_ns(&c, FIDELITY_OPERATOR, &kept);
            if (again == 4) {
                struct stage_cost constant[MAX_STAGES] = { { .forward_ns = 5, .backward_ns = 7 } };
                int64_t makespan_ns;
                assert_true(
                    step_run_constant(c.runner, constant, c.micro_batches, &makespan_ns, NULL));
            }
            int64_t kept_ns = run_ns(&c, FIDELITY_STAGE, &kept);
            struct step_runner *old = c.runner;
            c.runner = step_runner_create(c.f.step);
            int64_t fresh_ns = run_ns(&c, FIDELITY_STAGE, &fresh);
            if (kept_ns != fresh_ns)
                fail_msg("round %d, run %d:%s: reused %ld ns, fresh %ld ns", round, again,
                         setup_text(&setup), (long)kept_ns, (long)fresh_ns);
            size_t stages = (size_t)setup.pp;
            assert_memory_equal(kept.finish_ns, fresh.finish_ns, sizeof(int64_t) * stages);
            assert_memory_equal(kept.busy_ns, fresh.busy_ns, sizeof(int64_t) * stages);
            assert_memory_equal(kept.memory, fresh.memory, sizeof *kept.memory * stages);
            assert_memory_equal(kept.class_ns, fresh.class_ns, sizeof kept.class_ns);
            assert_true(kept.model_flop == fresh.model_flop);
            step_runner_destroy(c.runner);
            c.runner = old;
        }
        close_case(&c);
    }
}

/* ---- memory ---- */

struct span_list {
    struct step_span spans[4 * MAX_STAGES * MAX_MICRO_BATCHES];
    int64_t count;
};

static void keep_span(void *context, const struct step_span *span) {
    struct span_list *list = context;
    list->spans[list->count++] = *span;
}

static void test_memory_event_by_event(void **state) {
    (void)state;
    struct random_mt mt;
    random_mt_seed(&mt, 16);
    for (int round = 0; round < 40; round++) {
        struct setup setup;
        random_setup(&setup, &mt, (enum place)random_below(&mt, 4), random_below(&mt, 2) == 0);
        struct rank_case c;
        open_case(&c, &setup, &mt);
        struct stage_cost costs[MAX_STAGES * MAX_MICRO_BATCHES];
        fill_costs(&c, costs);
        struct rank_outcome outcome;
        run_ns(&c, FIDELITY_STAGE, &outcome);
        struct span_list list = { .count = 0 };
        step_runner_spans(c.runner, keep_span, &list);
        for (int64_t s = 0; s < setup.pp; s++) {
            /* While a pass runs: what it keeps or gives up, its workspace, and every micro-batch
             * whose forward has ended and whose backward has not begun. */
            double peak = 0;
            for (int64_t n = 0; n < list.count; n++) {
                const struct step_span *now = &list.spans[n];
                if (now->stage != s || now->kind > SPAN_BACKWARD) continue;
                const struct stage_cost *own = &costs[s * c.micro_batches + now->micro_batch];
                double bytes = own->activation_bytes + own->workspace_bytes;
                for (int64_t i = 0; i < c.micro_batches; i++) {
                    if (i == now->micro_batch) continue;
                    bool began = false, ended = false;
                    for (int64_t o = 0; o < list.count; o++) {
                        const struct step_span *other = &list.spans[o];
                        if (other->stage != s || other->micro_batch != i) continue;
                        /* Zero-length passes: the order of the spans is that of the stage. */
                        if (other->kind == SPAN_FORWARD && o < n) began = true;
                        if (other->kind == SPAN_BACKWARD && o < n) ended = true;
                    }
                    if (began && !ended) bytes += costs[s * c.micro_batches + i].activation_bytes;
                }
                if (bytes > peak) peak = bytes;
            }
            const struct stage_memory *m = &outcome.memory[s];
            double got = m->bytes[MEMORY_ACTIVATIONS] + m->bytes[MEMORY_WORKSPACE];
            if (fabs(got - peak) > 1e-9 * peak)
                fail_msg("round %d, stage %ld:%s: got %.0f bytes, want %.0f", round, (long)s,
                         setup_text(&setup), got, peak);
            for (int class = 0; class < MEMORY_ACTIVATIONS; class ++)
                assert_true(m->bytes[class] == c.f.step->static_memory[s].bytes[class]);
        }
        close_case(&c);
    }
}

struct memory_curve {
    double most[MAX_STAGES], last[MAX_STAGES];
    int64_t last_ns[MAX_STAGES];
};

static void keep_memory(void *context, int64_t stage, int64_t time_ns, double bytes) {
    struct memory_curve *curve = context;
    assert_true(bytes >= 0);
    assert_true(time_ns >= curve->last_ns[stage]);
    curve->last_ns[stage] = time_ns;
    curve->last[stage] = bytes;
    if (bytes > curve->most[stage]) curve->most[stage] = bytes;
}

static void test_the_memory_curve_reaches_the_peak(void **state) {
    (void)state;
    struct random_mt mt;
    random_mt_seed(&mt, 17);
    for (int round = 0; round < 15; round++) {
        struct setup setup;
        random_setup(&setup, &mt, (enum place)random_below(&mt, 4), random_below(&mt, 2) == 0);
        struct rank_case c;
        open_case(&c, &setup, &mt);
        struct rank_outcome outcome;
        run_ns(&c, round % 2 == 0 ? FIDELITY_STAGE : FIDELITY_OPERATOR, &outcome);
        struct memory_curve curve = { { 0 }, { 0 }, { 0 } };
        step_runner_memory(c.runner, keep_memory, &curve);
        for (int64_t s = 0; s < setup.pp; s++) {
            const double *bytes = outcome.memory[s].bytes;
            double peak = bytes[MEMORY_ACTIVATIONS] + bytes[MEMORY_WORKSPACE];
            assert_true(fabs(curve.most[s] - peak) <= 1e-9 * peak);
            assert_true(fabs(curve.last[s]) <= 1e-6 * peak); /* all is given back */
        }
        close_case(&c);
    }
}

/* ---- spans and the critical path ---- */

static void test_spans_do_not_overlap_on_a_stage(void **state) {
    (void)state;
    struct random_mt mt;
    random_mt_seed(&mt, 18);
    for (int round = 0; round < 20; round++) {
        struct setup setup;
        random_setup(&setup, &mt, (enum place)random_below(&mt, 4), random_below(&mt, 2) == 0);
        struct rank_case c;
        open_case(&c, &setup, &mt);
        struct rank_outcome outcome;
        run_ns(&c, round % 2 == 0 ? FIDELITY_STAGE : FIDELITY_OPERATOR, &outcome);
        struct span_list list = { .count = 0 };
        step_runner_spans(c.runner, keep_span, &list);
        int64_t sends = 2 * (setup.pp - 1), passes = 2 * setup.pp;
        assert_int_equal(list.count, (sends + passes) * c.micro_batches);
        int64_t end_ns[MAX_STAGES] = { 0 }, busy_ns[MAX_STAGES] = { 0 };
        for (int64_t n = 0; n < list.count; n++) {
            const struct step_span *span = &list.spans[n];
            assert_true(span->finish_ns >= span->start_ns);
            assert_true(span->finish_ns <= outcome.makespan_ns);
            assert_true(span->recompute_ns <= span->finish_ns - span->start_ns);
            if (span->kind > SPAN_BACKWARD) continue;
            assert_true(span->start_ns >= end_ns[span->stage]);
            end_ns[span->stage] = span->finish_ns;
            busy_ns[span->stage] += span->finish_ns - span->start_ns;
        }
        for (int64_t s = 0; s < setup.pp; s++)
            assert_int_equal(busy_ns[s], outcome.forward_ns[s] + outcome.backward_ns[s]);
        close_case(&c);
    }
}

static void test_critical_path_adds_up(void **state) {
    (void)state;
    struct random_mt mt;
    random_mt_seed(&mt, 19);
    for (int round = 0; round < 30; round++) {
        struct setup setup;
        random_setup(&setup, &mt, (enum place)random_below(&mt, 4), random_below(&mt, 2) == 0);
        struct rank_case c;
        open_case(&c, &setup, &mt);
        struct rank_outcome outcome;
        run_ns(&c, FIDELITY_STAGE, &outcome);
        struct span_list list = { .count = 0 };
        step_runner_critical_path(c.runner, keep_span, &list);
        assert_true(list.count > 0);
        int64_t until_ns = outcome.makespan_ns;
        for (int64_t n = 0; n < list.count; n++) {
            if (list.spans[n].finish_ns != until_ns)
                fail_msg("round %d:%s: span %ld ends at %ld ns, the next starts at %ld", round,
                         setup_text(&setup), (long)n, (long)list.spans[n].finish_ns,
                         (long)until_ns);
            until_ns = list.spans[n].start_ns;
        }
        assert_int_equal(until_ns, 0);
        close_case(&c);
    }
}

/* ---- orders of a planner ---- */

/* Micro-batches in the reverse order of the schedule, on all stages. */
static bool reverse_order(const struct planner_oracle *oracle, const void *parameters,
                          const struct job_plan *plan, struct iteration_plan *iteration,
                          struct error *err) {
    (void)oracle, (void)parameters, (void)err;
    int64_t count = iteration->micro_batch_count;
    for (int64_t i = 0; i < plan->stage_count * 2 * count; i++)
        iteration->entries[i].micro_batch =
            (int32_t)(count - 1 - iteration->entries[i].micro_batch);
    return true;
}

static bool same_twice(const struct planner_oracle *oracle, const void *parameters,
                       const struct job_plan *plan, struct iteration_plan *iteration,
                       struct error *err) {
    (void)oracle, (void)parameters, (void)plan, (void)err;
    iteration->entries[1] = iteration->entries[0];
    return true;
}

static bool beyond_the_last(const struct planner_oracle *oracle, const void *parameters,
                            const struct job_plan *plan, struct iteration_plan *iteration,
                            struct error *err) {
    (void)oracle, (void)parameters, (void)err;
    iteration->entries[(plan->stage_count - 1) * 2 * iteration->micro_batch_count].micro_batch =
        (int32_t)iteration->micro_batch_count;
    return true;
}

/* The last stage cannot begin with a backward. */
static bool deadlock(const struct planner_oracle *oracle, const void *parameters,
                     const struct job_plan *plan, struct iteration_plan *iteration,
                     struct error *err) {
    (void)oracle, (void)parameters, (void)err;
    struct schedule_entry *last =
        &iteration->entries[(plan->stage_count - 1) * 2 * iteration->micro_batch_count];
    struct schedule_entry first = last[0];
    last[0] = last[1];
    last[1] = first;
    return true;
}

static void test_a_planner_orders_iterations(void **state) {
    (void)state;
    struct random_mt mt;
    random_mt_seed(&mt, 20);
    for (int round = 0; round < 10; round++) {
        struct setup setup;
        random_setup(&setup, &mt, PLACE_NODE_EACH, true);
        struct rank_case c;
        open_case(&c, &setup, &mt);
        static const struct planner reverse = { .name = "reverse",
                                                .plan_iteration = reverse_order };
        struct rank_outcome planned, mirrored;
        c.f.step->iteration_planner = &reverse;
        int64_t planned_ns = run_ns(&c, FIDELITY_STAGE, &planned);
        assert_int_equal(run_ns(&c, FIDELITY_OPERATOR, &planned), planned_ns);
        /* The same as the static order over micro-batches that come the other way round. */
        c.f.step->iteration_planner = NULL;
        for (int64_t i = 0; i < c.micro_batches / 2; i++) {
            struct batch_shape shape = c.shapes[i];
            c.shapes[i] = c.shapes[c.micro_batches - 1 - i];
            c.shapes[c.micro_batches - 1 - i] = shape;
        }
        assert_int_equal(run_ns(&c, FIDELITY_STAGE, &mirrored), planned_ns);
        close_case(&c);
    }
}

static const struct {
    const char *name, *want;
    struct planner planner;
} wrong_orders[] = {
    { "a pass twice",
      "policy \"wrong\" orders stage 1 wrongly: micro-batch 0, twice",
      { .name = "wrong", .plan_iteration = same_twice } },
    { "no such micro-batch",
      "policy \"wrong\" orders stage 2 wrongly: micro-batch 3, which does not exist",
      { .name = "wrong", .plan_iteration = beyond_the_last } },
    { "a deadlock", "", { .name = "wrong", .plan_iteration = deadlock } },
};

static void test_wrong_orders_are_errors(void **state) {
    (void)state;
    static const char *const setup[] = { "layout.pp=2", NULL };
    struct random_mt mt;
    random_mt_seed(&mt, 21);
    for (size_t k = 0; k < sizeof wrong_orders / sizeof wrong_orders[0]; k++) {
        struct step_fixture f;
        fixture_open(&f, setup);
        fixture_plan(&f, &mt, "1f1b");
        struct batch_shape shapes[3];
        for (int i = 0; i < 3; i++)
            shapes[i] = random_shape(&mt, f.scenario->model);
        price_table_prepare(f.prices, shapes, 3);
        f.step->iteration_planner = &wrong_orders[k].planner;
        struct step_runner *runner = step_runner_create(f.step);
        struct rank_outcome outcome;
        struct error err = { 0 };
        if (step_run_rank(runner, FIDELITY_STAGE, shapes, 3, &outcome, &err))
            fail_msg("%s: no error", wrong_orders[k].name);
        if (err.text[0] == '\0' ||
            strncmp(err.text, wrong_orders[k].want, strlen(wrong_orders[k].want)) != 0)
            fail_msg("%s:\n got  %s\n want %s", wrong_orders[k].name, err.text,
                     wrong_orders[k].want);
        step_runner_destroy(runner);
        fixture_close(&f);
    }
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_fidelities_agree_where_nothing_is_shared),
        cmocka_unit_test(test_a_queue_of_sends_is_not_sharing),
        cmocka_unit_test(test_shared_nics_only_delay),
        cmocka_unit_test(test_stage_fidelity_without_the_engine),
        cmocka_unit_test(test_new_durations_equal_a_new_graph),
        cmocka_unit_test(test_memory_event_by_event),
        cmocka_unit_test(test_the_memory_curve_reaches_the_peak),
        cmocka_unit_test(test_spans_do_not_overlap_on_a_stage),
        cmocka_unit_test(test_critical_path_adds_up),
        cmocka_unit_test(test_a_planner_orders_iterations),
        cmocka_unit_test(test_wrong_orders_are_errors),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
