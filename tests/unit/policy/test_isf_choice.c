/* test_isf_choice.c - limits of ISF from the data: the walk of the published program over the four
 * real data sets, the paper's rule, and data where neither finds any. */
#include <math.h>
#include "tests/unit/policy/test_batch_tools.h"
#include "sim/policy/batching/isf_choice.h"

static bool real_try(void *context, int64_t qv, int64_t qt, struct batch_balance *balance,
                     struct error *err) {
    (void)err;
    char json[64];
    struct batch_request request = { .dataset = context, .dp = 8, .micro_batch = 1, .seed = 1024 };
    struct batch_plan plan;
    snprintf(json, sizeof json, "{\"qv\": %ld, \"qt\": %ld}", (long)qv, (long)qt);
    plan_make("isf", json, &request, &plan);
    batch_plan_balance(&plan, context, balance);
    batch_plan_free(&plan);
    return true;
}

/* Rows of the published program's own search (dp 8, micro-batch 4, 10 iterations). */
static void published_walk(void **state) {
    (void)state;
    static const struct {
        int64_t step, qv, qt;
        double average, vision, language;
    } rows[] = {
        { 0, 12, 4096, 2.585134, 0.148718, 0.186096 },
        { 1, 13, 4416, 3.282392, 0.002311, 0.080595 },
        { 6, 18, 6016, 4.542336, 0.002846, 0.070330 },
    };
    struct dataset *dataset = four_parts_load();
    struct isf_choice choice;
    struct error err = { 0 };
    assert_true(isf_choose(ISF_CODE, dataset, 4, real_try, dataset, &choice, &err));
    assert_true(choice.tokens_per_tile == 320);
    assert_int_equal(choice.qv, 18);
    assert_int_equal(choice.qt, 6016);
    assert_int_equal(choice.step_count, 9); /* 20 tiles give 5.01 samples */
    for (size_t i = 0; i < sizeof rows / sizeof rows[0]; i++) {
        const struct isf_choice_step *s = &choice.steps[rows[i].step];
        if (s->qv != rows[i].qv || s->qt != rows[i].qt ||
            fabs(s->average_batch_size - rows[i].average) > 5e-7 ||
            fabs(s->dist_ratio_vision - rows[i].vision) > 5e-7 ||
            fabs(s->dist_ratio_language - rows[i].language) > 5e-7)
            fail_msg("step %ld: %ld and %ld give %.6f, %.6f, %.6f", (long)rows[i].step, (long)s->qv,
                     (long)s->qt, s->average_batch_size, s->dist_ratio_vision,
                     s->dist_ratio_language);
    }
    /* As a parameter of the policy. */
    struct batch_request request = { .dataset = dataset, .dp = 4, .micro_batch = 1, .seed = 1024 };
    struct batch_plan plan;
    plan_make("isf", "{\"choose\": \"code\"}", &request, &plan);
    assert_true(plan.limits_chosen);
    assert_int_equal(plan.qv, 18);
    assert_int_equal(plan.group_count, 15566);
    batch_plan_free(&plan);
    /* "auto" for either limit chooses both; a number for the other one is refused. */
    static const struct {
        const char *json, *says;
    } limits[] = {
        { "{\"qv\": \"auto\"}", NULL },
        { "{\"qt\": \"auto\"}", NULL },
        { "{\"qv\": \"auto\", \"qt\": \"auto\", \"choose\": \"code\"}", NULL },
        { "{\"qv\": \"auto\", \"qt\": 5000}", "but qt is 5000" },
        { "{\"qv\": 8, \"qt\": \"auto\"}", "but qv is 8" },
    };
    for (size_t i = 0; i < sizeof limits / sizeof limits[0]; i++) {
        bool made = plan_try("isf", limits[i].json, &request, &plan, &err);
        if (made != (limits[i].says == NULL)) fail_msg("%s: %s", limits[i].json, err.text);
        if (made) {
            assert_int_equal(plan.qv, 18);
            assert_int_equal(plan.qt, 6016);
            batch_plan_free(&plan);
        } else if (strstr(err.text, limits[i].says) == NULL || strstr(err.text, "hint") == NULL) {
            fail_msg("%s: %s", limits[i].json, err.text);
        }
    }
    plan_make("isf", "{\"choose\": \"paper\"}", &request, &plan);
    assert_int_equal(plan.qt, 2538); /* the longest sample */
    assert_int_equal(plan.qv, 8);    /* 2538 / (80285377 / 279376) = 8.8 */
    assert_int_equal(plan.oversize_skipped, 0);
    batch_plan_free(&plan);
    plan_make("isf", "{\"qv\": 9}", &request, &plan);
    assert_false(plan.limits_chosen);
    assert_int_equal(plan.qv, 9);
    batch_plan_free(&plan);
    dataset_destroy(dataset);
}

/* A packing of known size for every pair: qv / tiles_per_sample samples. */
static bool made_up_try(void *context, int64_t qv, int64_t qt, struct batch_balance *balance,
                        struct error *err) {
    (void)qt, (void)err;
    double tiles_per_sample = *(double *)context;
    *balance = (struct batch_balance){ .average_batch_size = (double)qv / tiles_per_sample,
                                       .dist_ratio_vision = qv % 3 == 0 ? 0.1 : 0.2 };
    return true;
}

static void walks_up_and_down(void **state) {
    (void)state;
    static const struct {
        const char *name;
        double tiles_per_sample;
        int64_t target, qv, steps;
    } cases[] = {
        /* 1000 tokens and one tile: ratio 1008, start at 4 */
        { "up, the least sum", 2, 4, 9, 8 }, /* 4 .. 11; 8, 9 and 10 are in range */
        { "down", 0.25, 4, 1, 4 },           /* 16, 12, 8, 4 samples */
        { "never in range", 1000, 4, 0, 0 },
    };
    struct sample samples[] = { { 1000, 1, 0 } };
    struct dataset dataset = { .samples = samples, .sample_count = 1, .name = "one" };
    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
        struct isf_choice choice;
        struct error err = { 0 };
        double tiles = cases[i].tiles_per_sample;
        bool found =
            isf_choose(ISF_CODE, &dataset, cases[i].target, made_up_try, &tiles, &choice, &err);
        if (cases[i].steps == 0) {
            assert_false(found);
            assert_non_null(strstr(err.text, "gives micro-batches of 4 to 5 samples"));
            continue;
        }
        if (!found) fail_msg("%s: %s", cases[i].name, err.text);
        if (choice.qv != cases[i].qv || choice.step_count != cases[i].steps)
            fail_msg("%s: qv %ld after %ld steps", cases[i].name, (long)choice.qv,
                     (long)choice.step_count);
    }
}

/* The published start would leave out what exceeds it. */
static void every_sample_fits_the_choice(void **state) {
    (void)state;
    static const struct {
        const char *name;
        struct sample samples[2];
        double tiles_per_sample;
        int64_t qv, qt, steps;
    } cases[] = {
        /* ratio 592: 6 tiles and 4096 tokens, 4 steps up to hold 10 tiles */
        { "many tiles", { { 6000, 10, 0 }, { 500, 1, 0 } }, 2, 10, 6464, 2 },
        /* ratio 1920: 2 and 4096; 2 steps up to hold 7000 tokens, in range at once */
        { "long", { { 7000, 3, 0 }, { 500, 1, 0 } }, 1, 4, 7936, 3 },
        /* the first pair that holds all is above the range: nothing smaller holds all */
        { "above", { { 7000, 3, 0 }, { 500, 1, 0 } }, 0.1, 4, 7936, 1 },
    };
    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
        struct dataset dataset = { .name = "two", .sample_count = 2 };
        struct sample samples[2] = { cases[i].samples[0], cases[i].samples[1] };
        dataset.samples = samples;
        struct isf_choice choice;
        struct error err = { 0 };
        double tiles = cases[i].tiles_per_sample;
        if (!isf_choose(ISF_CODE, &dataset, 4, made_up_try, &tiles, &choice, &err))
            fail_msg("%s: %s", cases[i].name, err.text);
        if (choice.qv != cases[i].qv || choice.qt != cases[i].qt ||
            choice.step_count != cases[i].steps)
            fail_msg("%s: qv %ld and qt %ld after %ld steps", cases[i].name, (long)choice.qv,
                     (long)choice.qt, (long)choice.step_count);
    }
}

/* Patches go in steps of a tile's 1,024: 1,500 patches and 700 tokens a sample are 768 tokens to
 * 1.46 tiles. */
static void patches_count_by_tiles(void **state) {
    (void)state;
    uint32_t patches[] = { 1500, 1500 };
    struct sample samples[] = { { 700, 1, 0 }, { 700, 1, 0 } };
    struct dataset dataset = { .name = "native",
                               .samples = samples,
                               .sample_count = 2,
                               .vision_patches = patches };
    struct isf_choice choice;
    struct error err = { 0 };
    double patches_per_sample = 1500;
    if (!isf_choose(ISF_CODE, &dataset, 4, made_up_try, &patches_per_sample, &choice, &err))
        fail_msg("%s", err.text);
    assert_true(choice.tokens_per_tile == 512); /* 16 floor((524 + 1) / 16) */
    assert_int_equal(choice.steps[0].qv, 8 * 1024);
    assert_int_equal(choice.steps[0].qt, 4096);
    assert_true(choice.qv % 1024 == 0);
    const double size = (double)choice.qv / patches_per_sample;
    assert_true(size >= 4 && size <= 5);
}

/* A sample with many tiles must fit; text alone has no tiles to limit. */
static void paper_rule_on_awkward_data(void **state) {
    (void)state;
    struct sample big[] = { { 4096, 1, 0 }, { 100, 12, 0 } };
    struct sample text[] = { { 700, 0, 0 }, { 300, 0, 0 } };
    const struct {
        struct sample *samples;
        int64_t qv, qt;
    } cases[] = { { big, 12, 4096 }, { text, 0, 700 } };
    for (size_t i = 0; i < 2; i++) {
        struct dataset dataset = { .samples = cases[i].samples, .sample_count = 2, .name = "two" };
        struct isf_choice choice;
        struct error err = { 0 };
        assert_true(isf_choose(ISF_PAPER, &dataset, 4, NULL, NULL, &choice, &err));
        assert_int_equal(choice.qv, cases[i].qv);
        assert_int_equal(choice.qt, cases[i].qt);
    }
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(published_walk),
        cmocka_unit_test(walks_up_and_down),
        cmocka_unit_test(every_sample_fits_the_choice),
        cmocka_unit_test(patches_count_by_tiles),
        cmocka_unit_test(paper_rule_on_awkward_data),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
