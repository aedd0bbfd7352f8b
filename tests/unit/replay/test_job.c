/* test_job.c - preparing a scenario: micro-batches in order, the planners' oracle, and data that
 * does not suffice. */
#include "tests/unit/replay/replay_fixture.h"

#include <math.h>

static int begin(void **state) {
    fixture_begin(state);
    fixture_samples("samples.csv", 100, 3);
    return 0;
}

static void test_shapes_follow_the_order_of_consumption(void **state) {
    (void)state;
    static const char *const overrides[] = {
        "policy.batching={\"name\":\"isf\",\"qv\":9,\"qt\":4096}",
        "training.global_batch={\"micro_batches\":4}", NULL
    };
    struct scenario *s = fixture_scenario("samples.csv", overrides);
    struct job *job = fixture_job(s);
    const struct batch_plan *b = &job->batches;
    assert_int_equal(b->rank_count, 2);
    for (int64_t i = 0; i < b->rank_count * b->per_rank; i++) {
        uint32_t group = b->order[i];
        int64_t samples = 0, tokens = 0, tiles = 0;
        for (uint32_t k = b->starts[group]; k < b->starts[group + 1]; k++) {
            const struct sample *sample = &job->dataset->samples[b->samples[k]];
            samples++;
            tokens += sample->language_tokens;
            tiles += sample->vision_tiles;
        }
        assert_int_equal(job->shapes[i].samples, samples);
        assert_int_equal(job->shapes[i].language_tokens, tokens);
        assert_int_equal(job->shapes[i].vision_tiles, tiles);
    }
    job_destroy(job);
    scenario_destroy(s);
}

/* What the fullest rank of an iteration holds: text and images, 1 each for a mean rank. */
static double fill_of(const struct job *job, int64_t iteration) {
    const int64_t count = job->scenario->micro_batches_per_rank;
    double most = 0;
    for (int64_t rank = 0; rank < job->batches.rank_count; rank++) {
        double sum = 0;
        for (int64_t m = 0; m < count; m++) {
            const struct batch_shape *s =
                &job->shapes[rank * job->batches.per_rank + iteration * count + m];
            sum += (double)s->language_tokens / (double)job->typical.language_tokens +
                   (double)s->vision_tokens / (double)job->typical.vision_tokens;
        }
        most = fmax(most, sum);
    }
    return most;
}

/* Batches of like length: the first iteration is one of short samples, and one alone stands for the
 * mean of all; the whole statistics stay. Of all iterations none is left out. */
static void test_few_iterations_stand_for_all(void **state) {
    (void)state;
    static const char *const overrides[] = { "policy.batching=length-group",
                                             "training.global_batch={\"micro_batches\":4}",
                                             "simulate.iterations=\"epoch\"", NULL };
    struct scenario *s = fixture_scenario("samples.csv", overrides);
    struct error err = { 0 };
    struct job *data = job_load(s, &err), *all = job_batch(s, data, 0, &err);
    const int64_t count = all->epoch_iterations;
    assert_true(count > 6);
    double mean = 0;
    int64_t nearest = 0;
    for (int64_t i = 0; i < count; i++)
        mean += fill_of(all, i) / (double)count;
    for (int64_t i = 0; i < count; i++)
        if (fabs(fill_of(all, i) - mean) < fabs(fill_of(all, nearest) - mean)) nearest = i;
    struct job *one = job_batch(s, data, 1, &err), *half = job_batch(s, data, count / 2, &err),
               *more = job_batch(s, data, count + 5, &err);
    assert_int_equal(one->iteration_count, 1);
    assert_true(fill_of(one, 0) == fill_of(all, nearest));
    assert_true(fabs(fill_of(all, 0) - mean) > 5 * fabs(fill_of(one, 0) - mean));
    assert_true(one->epoch_steps == all->epoch_steps);
    assert_int_equal(one->typical.language_tokens, all->typical.language_tokens);
    assert_int_equal(half->iteration_count, count / 2);
    double of_half = 0;
    for (int64_t i = 0; i < count / 2; i++)
        of_half += fill_of(half, i) / (double)(count / 2);
    assert_true(fabs(of_half / mean - 1) < 0.1);
    assert_int_equal(more->iteration_count, count);
    for (int64_t i = 0; i < count; i++)
        assert_true(fill_of(more, i) == fill_of(all, i));
    job_destroy(one);
    job_destroy(half);
    job_destroy(more);
    job_destroy(all);
    job_destroy(data);
    scenario_destroy(s);
}

static void test_errors(void **state) {
    (void)state;
    fixture_write("broken.csv", "vision_tiles\n1\n");
    fixture_write("native.csv", "vision_patches,language_tokens\n1024,300\n");
    fixture_write("short.csv", "vision_tiles,language_tokens\n2,511\n");
    const struct {
        const char *name, *samples, *override, *want;
    } errors[] = {
        { "too few samples for a step", "samples.csv",
          "training.global_batch={\"micro_batches\":102}",
          "data set \"samples\" gives each data-parallel rank 50 micro-batches, one step needs 51: "
          "use a smaller training.global_batch" },
        { "a data set without tokens", "broken.csv", "simulate.seed=1",
          "while loading the data set of scenario \"scenario\"" },
        { "native resolution on fixed tiles", "native.csv", "simulate.seed=1",
          "data set \"native\" has images of native resolution, the encoder of model "
          "\"internvl-6b-8b\" takes tiles of 448 pixels only" },
        { "fewer tokens than the model makes of the tiles", "short.csv", "simulate.seed=1",
          "short.csv:2:1: error: the model makes 512 language tokens of the images, the whole "
          "sample has 511" },
        { "a policy that cannot plan", "samples.csv",
          "policy.batching={\"name\":\"isf\",\"qv\":9,\"qt\":10}",
          "while batching with policy \"isf\"" },
    };
    for (size_t k = 0; k < sizeof errors / sizeof errors[0]; k++) {
        const char *const overrides[] = { errors[k].override, NULL };
        struct scenario *s = fixture_scenario(errors[k].samples, overrides);
        struct error err = { 0 };
        struct job *job = job_create(s, &err);
        if (job != NULL) fail_msg("%s: no error", errors[k].name);
        if (strstr(err.text, errors[k].want) == NULL)
            fail_msg("%s:\n got  %s\n want %s", errors[k].name, err.text, errors[k].want);
        scenario_destroy(s);
    }
    /* 100 micro-batches a step just suffice. */
    static const char *const enough[] = { "training.global_batch={\"micro_batches\":100}", NULL };
    struct scenario *s = fixture_scenario("samples.csv", enough);
    struct job *job = fixture_job(s);
    assert_int_equal(job->epoch_iterations, 1);
    assert_true(job->epoch_steps == 1);
    job_destroy(job);
    scenario_destroy(s);
}

/* Prices at the far end of what files and rules may say: an error before a clock runs over. */
static void test_steps_beyond_any(void **state) {
    (void)state;
    static const struct {
        const char *set[5];
        const char *text; /* NULL: long, but a step */
    } cases[] = {
        { { "rules=[{\"operator\":\"any\",\"time_us\":1e9}]" }, "block takes" },
        { { "rules=[{\"operator\":\"any\",\"efficiency\":1e-6}]", "what_if.slow_gpu_factor=1000" },
          "head takes" },
        { { "cluster.gpus_per_node=1", "cluster.nic_Gbit_per_s_per_gpu=0.01",
            "what_if.nic_factor=0.001", "cluster.nic_efficiency_fraction=0.01" },
          "one vision block takes" },
        { { "rules=[{\"operator\":\"any\",\"efficiency\":1e-6}]", "what_if.straggler_factor=1000",
            "what_if.straggler_fraction=1" },
          "one head takes" },
        { { "rules=[{\"operator\":\"send\",\"time_us\":1e9}]", "what_if.slow_link_factor=1000",
            "training.global_batch={\"micro_batches\":64}" },
          "pipeline sends of one stage" },
        { { "what_if.data_loading_ms_per_sample=1e6", "training.global_batch={\"samples\":100}",
            "what_if.data_loading_ms_per_megapixel=1e6" },
          NULL },
        { { "rules=[{\"operator\":\"any\",\"efficiency\":1e-3}]" }, NULL },
    };
    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
        struct scenario *s = fixture_scenario("samples.csv", cases[i].set);
        struct error err = { 0 };
        struct job *job = job_create(s, &err);
        if ((job == NULL) != (cases[i].text != NULL)) fail_msg("case %zu: %s", i, err.text);
        if (job == NULL &&
            (strstr(err.text, cases[i].text) == NULL || strcmp(err.rule, "step-length") != 0))
            fail_msg("case %zu: %s", i, err.text);
        if (job != NULL) job_destroy(job);
        scenario_destroy(s);
    }
}

/* Text tokens and tiles become the model's tokens; other figures are noted. */
static void test_tokens_of_tiles(void **state) {
    (void)state;
    static const struct {
        const char *name, *samples, *override, *tiling;
        int64_t connector, language, notes;
    } cases[] = {
        { "the model's", "few.csv", "simulate.seed=1", "as-file", 512, 612, 0 },
        { "the scenario's", "few.csv", "dataset.tile_language_tokens=400", "as-file", 512, 900, 1 },
        { "the data set's", "few.json", "simulate.seed=1", "as-file", 512, 700, 1 },
        { "the scenario's before the data set's", "few.json", "dataset.tile_language_tokens=256",
          "as-file", 512, 612, 0 },
        { "a model without encoder", "few.csv", "model=llama3-8b", "as-file", 0, 612, 1 },
        /* 500 x 500 fills more than half of 2 x 2 tiles of 336 pixels, not of 448. */
        { "tiles of 448", "sizes.csv", "simulate.seed=1", "internvl", 256, 356, 0 },
        { "tiles of 336", "sizes.csv", "model=llava-1.6-7b", "internvl", 5 * 576, 5 * 576 + 100,
          0 },
    };
    fixture_write("few.csv", "vision_tiles,text_tokens\n2,100\n2,100\n");
    fixture_write("sizes.csv", "width,height,text_tokens\n500,500,100\n500,500,100\n");
    fixture_write("few.json", "{ \"name\": \"few\", \"file\": \"few.csv\", "
                              "\"tile_language_tokens\": 300 }");
    for (size_t k = 0; k < sizeof cases / sizeof cases[0]; k++) {
        char tiling[64];
        snprintf(tiling, sizeof tiling, "dataset.tiling=%s", cases[k].tiling);
        const char *const overrides[] = { "training.global_batch={\"micro_batches\":2}",
                                          cases[k].override, tiling, NULL };
        struct scenario *s = fixture_scenario(cases[k].samples, overrides);
        struct job *job = fixture_job(s);
        if (job->shapes[0].connector_tokens != cases[k].connector ||
            job->shapes[0].language_tokens != cases[k].language ||
            job->data_note_count != cases[k].notes)
            fail_msg("%s: %ld of %ld tokens, %ld notes", cases[k].name,
                     (long)job->shapes[0].connector_tokens, (long)job->shapes[0].language_tokens,
                     (long)job->data_note_count);
        job_destroy(job);
        scenario_destroy(s);
    }
}

static void test_the_notes_of_the_data_set_arrive(void **state) {
    (void)state;
    fixture_write("noted.csv", "vision_tiles,text_tokens,colour\n1,100,red\n1,100,blue\n");
    static const char *const overrides[] = { "training.global_batch={\"micro_batches\":2}", NULL };
    struct scenario *s = fixture_scenario("noted.csv", overrides);
    struct job *job = fixture_job(s);
    assert_int_equal(job->data_note_count, 1);
    assert_non_null(strstr(job->data_notes[0], "column \"colour\" is ignored"));
    assert_string_equal(job->dataset->status, "unstated");
    job_destroy(job);
    scenario_destroy(s);
}

/* A packing policy makes a group of each micro-batch, and leaves out what fits into none. */
static void test_samples_of_a_step(void **state) {
    (void)state;
    static const struct {
        const char *name, *batch, *policy;
        int64_t asked, left_out;
        double per_step;
    } cases[] = {
        { "padded", "{\"samples\":4}", "random", 4, 0, 4 },
        { "micro-batches, no number of samples", "{\"micro_batches\":4}", "random", 0, 0, 4 },
        { "packed two by two", "{\"samples\":4}", "{\"name\":\"isf\",\"qv\":2,\"qt\":4096}", 4, 1,
          8 },
        { "nothing else fits", "{\"samples\":4}", "{\"name\":\"isf\",\"qv\":1,\"qt\":4096}", 4, 1,
          4 },
    };
    FILE *file = fopen(fixture_path("pairs.csv"), "w");
    assert_non_null(file);
    fputs("vision_tiles,text_tokens\n5,10\n", file);
    for (int i = 0; i < 16; i++)
        fputs("1,10\n", file);
    assert_int_equal(fclose(file), 0);
    for (size_t k = 0; k < sizeof cases / sizeof cases[0]; k++) {
        char batch[128], policy[128];
        snprintf(batch, sizeof batch, "training.global_batch=%s", cases[k].batch);
        snprintf(policy, sizeof policy, "policy.batching=%s", cases[k].policy);
        const char *const overrides[] = { batch, policy, NULL };
        struct scenario *s = fixture_scenario("pairs.csv", overrides);
        struct job *job = fixture_job(s);
        if (job->asked_samples_per_step != cases[k].asked ||
            job->samples_per_step != cases[k].per_step ||
            job->samples_left_out != cases[k].left_out)
            fail_msg("%s: %g samples of %ld, %ld left out", cases[k].name, job->samples_per_step,
                     (long)job->asked_samples_per_step, (long)job->samples_left_out);
        job_destroy(job);
        scenario_destroy(s);
    }
}

/* Seventeen samples on four ranks: one is over. More steps make up for what is dropped. */
static void test_an_epoch_holds_what_the_sampler_drops(void **state) {
    (void)state;
    static const struct {
        const char *policy;
        double dropped, steps;
    } cases[] = {
        { "{\"name\":\"isf\",\"qv\":1,\"qt\":4096}", 1.0 / 17, 4 },
        { "random", 1.0 / 17, 4 },
    };
    FILE *file = fopen(fixture_path("seventeen.csv"), "w");
    assert_non_null(file);
    fputs("vision_tiles,text_tokens\n", file);
    for (int i = 0; i < 17; i++)
        fputs("1,10\n", file);
    assert_int_equal(fclose(file), 0);
    for (size_t k = 0; k < sizeof cases / sizeof cases[0]; k++) {
        char policy[128];
        snprintf(policy, sizeof policy, "policy.batching=%s", cases[k].policy);
        const char *const overrides[] = { policy,
                                          "cluster.gpu_count=4",
                                          "layout.tp=1",
                                          "layout.pp=1",
                                          "training.global_batch={\"samples\":4}",
                                          NULL };
        struct scenario *s = fixture_scenario("seventeen.csv", overrides);
        struct job *job = fixture_job(s);
        if (fabs(job_dropped_fraction(job) - cases[k].dropped) > 1e-12 ||
            job->pass_steps != cases[k].steps ||
            fabs(job->epoch_steps * (1 - cases[k].dropped) - cases[k].steps) > 1e-12)
            fail_msg("%s: %g dropped, %g steps a pass, %g an epoch", cases[k].policy,
                     job_dropped_fraction(job), job->pass_steps, job->epoch_steps);
        job_destroy(job);
        scenario_destroy(s);
    }
}

static void test_oracle(void **state) {
    (void)state;
    static const char *const none[] = { NULL };
    struct scenario *s = fixture_scenario("samples.csv", none);
    struct job *job = fixture_job(s);
    struct planner_oracle oracle = job_oracle(job);
    const struct batch_shape *typical = &oracle.typical;
    assert_memory_equal(typical, &job->typical, sizeof *typical);
    /* Layers of the oracle add up to the stages of the step model. */
    struct layer_time times[LAYER_KIND_COUNT];
    step_layer_times(job->step, typical, times);
    for (int64_t stage = 0; stage < 2; stage++) {
        struct stage_cost cost;
        step_stage_cost(job->step, stage, typical, times, NULL, &cost);
        double forward_s = 0;
        for (int64_t i = job->plan.first_layer[stage]; i < job->plan.first_layer[stage + 1]; i++)
            forward_s += oracle.layer_seconds(oracle.context, i, typical, PASS_SET_FORWARD);
        assert_true(fabs(forward_s * 1e9 - (double)cost.forward_ns) < 1);
        /* Two stages: two micro-batches in flight on the first, one on the second. */
        struct stage_memory memory = job->step->static_memory[stage];
        memory.bytes[MEMORY_ACTIVATIONS] = (double)(2 - stage) * cost.activation_bytes;
        memory.bytes[MEMORY_WORKSPACE] = cost.workspace_bytes;
        step_settle_memory(job->step, stage, &memory);
        assert_true(oracle.stage_bytes(oracle.context, &job->plan, stage, typical) ==
                    stage_memory_device(&memory));
    }
    double seconds = 0;
    assert_true(oracle.simulate(oracle.context, &job->plan, &seconds, NULL));
    struct step_runner *runner = step_runner_create(job->step);
    struct batch_shape shapes[8];
    for (int i = 0; i < 8; i++)
        shapes[i] = *typical;
    struct rank_outcome outcome;
    assert_true(step_run_rank(runner, FIDELITY_STAGE, shapes, 8, &outcome, NULL));
    assert_true(fabs(seconds * 1e9 - (double)outcome.makespan_ns) < 1);
    step_runner_destroy(runner);
    job_destroy(job);
    scenario_destroy(s);
}

/* What was asked before does not matter: other shapes, passes and blocks that a rule names. */
static void test_oracle_layer_seconds(void **state) {
    (void)state;
    static const char *const overrides[] = {
        "rules=[{\"module\":\"language\",\"layers\":1,\"factor\":3}]", NULL
    };
    struct scenario *s = fixture_scenario("samples.csv", overrides);
    struct job *job = fixture_job(s);
    struct planner_oracle oracle = job_oracle(job);
    struct batch_shape twice = job->typical;
    twice.language_tokens *= 2;
    twice.language_square_sum *= 4;
    const struct batch_shape *const shapes[] = { &job->typical, &twice };
    price_table_prepare(job->prices, &twice, 1);
    int64_t other = 0; /* than the answer before */
    double before_s = -1;
    for (int64_t i = 0; i < s->model->layer_count; i++)
        for (int k = 0; k < 4; k++) {
            const struct batch_shape *shape = shapes[k % 2];
            const enum pass_set set = k < 2 ? PASS_SET_FORWARD : PASS_SET_BACKWARD;
            struct layer_time want;
            price_table_layer(price_table_of_layer(job->prices, i), s->model->layers[i].kind, shape,
                              &want);
            const int64_t want_ns = k < 2 ? want.forward_ns : want.backward_ns;
            const double got_s = oracle.layer_seconds(oracle.context, i, shape, set);
            if (llround(got_s * 1e9) != want_ns)
                fail_msg("layer %ld, case %d: %g s of %ld ns", (long)i, k, got_s, (long)want_ns);
            other += got_s != before_s;
            before_s = got_s;
        }
    assert_true(other > 2 * s->model->layer_count);
    assert_true(price_table_variant_count(job->prices) == 1);
    job_destroy(job);
    scenario_destroy(s);
}

/* An iteration of the job's own micro-batches, in the static order and in one that is given. */
static void test_oracle_simulates_iterations(void **state) {
    (void)state;
    static const char *const none[] = { NULL };
    struct scenario *s = fixture_scenario("samples.csv", none);
    struct job *job = fixture_job(s);
    struct planner_oracle oracle = job_oracle(job);
    struct step_runner *runner = step_runner_create(job->step);
    struct rank_outcome want;
    assert_true(step_run_rank(runner, FIDELITY_STAGE, job->shapes, 8, &want, NULL));
    double busy_s[2], bytes[2];
    struct planner_outcome got = { .busy_seconds = busy_s, .bytes = bytes };
    struct iteration_plan iteration = { .micro_batch_count = 8, .shapes = job->shapes };
    struct error err = { 0 };
    assert_true(oracle.simulate_iteration(oracle.context, &job->plan, &iteration, &got, &err));
    assert_true(got.seconds == (double)want.makespan_ns / 1e9);
    for (int stage = 0; stage < 2; stage++) {
        assert_true(busy_s[stage] == (double)want.busy_ns[stage] / 1e9);
        assert_true(bytes[stage] == stage_memory_device(&want.memory[stage]));
    }
    /* All forwards first: as the schedule gpipe, and with all eight micro-batches in flight. */
    struct schedule_entry entries[2 * 16];
    struct job_plan gpipe = job->plan;
    gpipe.schedule = &schedule_gpipe;
    for (int64_t stage = 0; stage < 2; stage++) {
        struct schedule_place place = { stage, 2, 1, 8, false };
        schedule_gpipe.order(&place, entries + stage * 16);
    }
    struct planner_outcome ordered = { 0 }, static_order = { 0 };
    assert_true(oracle.simulate_iteration(oracle.context, &gpipe, &iteration, &static_order, &err));
    iteration.entries = entries;
    assert_true(oracle.simulate_iteration(oracle.context, &job->plan, &iteration, &ordered, &err));
    assert_true(ordered.seconds == static_order.seconds);
    entries[1] = entries[0];
    assert_false(oracle.simulate_iteration(oracle.context, &job->plan, &iteration, &ordered, &err));
    assert_string_equal(err.text, "policy \"given\" orders stage 1 wrongly: micro-batch 0, twice");
    step_runner_destroy(runner);
    job_destroy(job);
    scenario_destroy(s);
}

/* The oracle's bytes and sends of layers add up to those of the step model's stages. */
static void test_oracle_of_layers(void **state) {
    (void)state;
    static const char *const overrides[] = { "policy.recompute=none", NULL };
    struct scenario *s = fixture_scenario("samples.csv", overrides);
    struct job *job = fixture_job(s);
    struct planner_oracle o = job_oracle(job);
    struct layer_time times[LAYER_KIND_COUNT];
    step_layer_times(job->step, &o.largest, times);
    for (int64_t stage = 0; stage < 2; stage++) {
        struct stage_cost cost;
        step_stage_cost(job->step, stage, &o.largest, times, NULL, &cost);
        double saved = 0, workspace = 0;
        int64_t end = job->plan.first_layer[stage + 1];
        for (int64_t i = job->plan.first_layer[stage]; i < end; i++) {
            saved += o.layer_saved_bytes(o.context, i, &o.largest, false);
            workspace = fmax(workspace, o.layer_workspace_bytes(o.context, i, &o.largest));
        }
        assert_true(fabs(saved - cost.activation_bytes) < 1);
        assert_true(workspace == cost.workspace_bytes);
        if (stage > 0) continue;
        double send_s = o.send_seconds(o.context, stage, end - 1, &o.largest);
        assert_true(fabs(send_s * 1e9 - (double)cost.send_forward_ns) < 0.5);
    }
    for (int64_t i = 0; i < job->batches.rank_count * job->batches.per_rank; i++) {
        assert_true(job->shapes[i].language_tokens <= o.largest.language_tokens);
        assert_true(job->shapes[i].vision_tokens <= o.largest.vision_tokens);
        assert_true(job->shapes[i].language_square_sum <= o.largest.language_square_sum);
    }
    assert_true(o.send_blocks_compute); /* megatron-deepspeed */
    job_destroy(job);
    scenario_destroy(s);
}

/* A sweep over sizes of frames: the data set is one, its tokens are not. */
static void test_sizes_of_frames_are_not_shared(void **state) {
    (void)state;
    static const char *const sizes[] = { "null", "832x480", "1280x720", "720x1280" };
    enum { COUNT = sizeof sizes / sizeof sizes[0] };
    struct arena *arena = arena_create();
    const char *keys[COUNT];
    for (int i = 0; i < COUNT; i++) {
        const char *overrides[] = { arena_format(arena, "model.frame_size=%s", sizes[i]), NULL };
        struct scenario_options options = { .directory = SCENARIOS,
                                            .overrides = overrides,
                                            .cache = shared_cache() };
        struct error err = { 0 };
        struct scenario *s = scenario_load(&options, SCENARIOS "/examples/wan-14b.json", &err);
        if (s == NULL) fail_msg("%s", err.text);
        keys[i] = job_batch_key(arena, s);
        scenario_destroy(s);
    }
    for (int i = 0; i < COUNT; i++)
        for (int k = 0; k < i; k++)
            assert_int_equal(strcmp(keys[i], keys[k]) == 0, i == 1); /* 832x480 is the model's */
    arena_destroy(arena);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_shapes_follow_the_order_of_consumption),
        cmocka_unit_test(test_few_iterations_stand_for_all),
        cmocka_unit_test(test_errors),
        cmocka_unit_test(test_steps_beyond_any),
        cmocka_unit_test(test_tokens_of_tiles),
        cmocka_unit_test(test_the_notes_of_the_data_set_arrive),
        cmocka_unit_test(test_samples_of_a_step),
        cmocka_unit_test(test_an_epoch_holds_what_the_sampler_drops),
        cmocka_unit_test(test_oracle),
        cmocka_unit_test(test_oracle_layer_seconds),
        cmocka_unit_test(test_oracle_simulates_iterations),
        cmocka_unit_test(test_oracle_of_layers),
        cmocka_unit_test(test_sizes_of_frames_are_not_shared),
    };
    return cmocka_run_group_tests(tests, begin, fixture_end);
}
