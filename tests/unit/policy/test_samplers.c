/* test_samplers.c - the policies of fixed micro-batch size, and the orders that they are made of.
 */
#include "tests/unit/policy/test_batch_tools.h"
#include "sim/policy/batching/samplers.h"

static struct dataset *four_parts;

static int load_four_parts(void **state) {
    (void)state;
    four_parts = four_parts_load();
    return 0;
}

static int free_four_parts(void **state) {
    (void)state;
    dataset_destroy(four_parts);
    return 0;
}

/* ---- orders ---- */

static void sequences(void **state) {
    (void)state;
    static const struct {
        const char *name;
        enum sampler sampler;
        uint32_t seed, count;
        int64_t dp, micro_batch, rounds;
        uint32_t want[20];
    } cases[] = {
        /* PyTorch: randperm(10) with seed 0 and seed 42. */
        { "one rank, seed 0", SAMPLER_BLOCK, 0, 10, 1, 1, 10, { 4, 1, 7, 5, 3, 9, 0, 8, 6, 2 } },
        { "one rank, seed 42", SAMPLER_BLOCK, 42, 10, 1, 1, 10, { 2, 6, 1, 8, 4, 5, 0, 9, 3, 7 } },
        { "blocks walk alike", SAMPLER_BLOCK, 0, 20, 2, 5, 2, { 4,  1,  7,  5,  3,  9,  0,
                                                                8,  6,  2,  14, 11, 17, 15,
                                                                13, 19, 10, 18, 16, 12 } },
        { "tail unused",
          SAMPLER_BLOCK,
          42,
          22,
          2,
          5,
          2,
          { 2, 6, 1, 8, 4, 5, 0, 9, 3, 7, 12, 16, 11, 18, 14, 15, 10, 19, 13, 17 } },
        /* NumPy: RandomState(1024).shuffle of 20. */
        {
            "dealt in turn", SAMPLER_SHUFFLE, 1024, 20, 2, 2, 5, { 10, 8, 16, 14, 7, 19, 13,
                                                                   0,  5, 12, 4,  6, 11, 15,
                                                                   2,  3, 18, 9,  1, 17 } },
        { "dealt in turn, tail unused",
          SAMPLER_SHUFFLE,
          1024,
          20,
          3,
          2,
          3,
          { 10, 8, 11, 15, 13, 0, 4, 6, 7, 19, 18, 9, 16, 14, 2, 3, 5, 12 } },
    };
    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
        int64_t rounds;
        uint32_t *got = sampler_sequence(cases[i].sampler, cases[i].seed, cases[i].count,
                                         cases[i].dp, cases[i].micro_batch, &rounds);
        if (rounds != cases[i].rounds)
            fail_msg("%s: %lld rounds", cases[i].name, (long long)rounds);
        for (int64_t k = 0; k < rounds * cases[i].dp * cases[i].micro_batch; k++)
            if (got[k] != cases[i].want[k])
                fail_msg("%s: place %lld has %u, want %u", cases[i].name, (long long)k, got[k],
                         cases[i].want[k]);
        free(got);
    }
}

static void sorting_in_windows(void **state) {
    (void)state;
    static const struct {
        uint32_t count, window, key_bits;
    } cases[] = { { 0, 5, 8 },      { 1, 1, 32 },      { 7, 3, 2 },
                  { 100, 100, 3 },  { 100, 7, 4 },     { 1000, 1, 9 },
                  { 1000, 64, 12 }, { 1000, 999, 32 }, { 999, 999, 23 } };
    struct random_mt mt;
    random_mt_seed(&mt, 3);
    for (size_t c = 0; c < sizeof cases / sizeof cases[0]; c++) {
        uint32_t items[1000], before[1000], keys[1000], count = cases[c].count;
        random_torch_permutation(&mt, items, count);
        for (uint32_t i = 0; i < count; i++)
            keys[i] = random_mt_next(&mt) >> (32 - cases[c].key_bits);
        for (uint32_t i = 0; i < count; i++)
            before[items[i]] = i;
        sampler_sort_windows(items, count, cases[c].window, keys);
        for (uint32_t i = 0; i < count; i++) {
            uint32_t window = i / cases[c].window;
            if (before[items[i]] / cases[c].window != window)
                fail_msg("case %zu: item %u left its window", c, items[i]);
            if (i % cases[c].window == 0) continue;
            uint32_t last = items[i - 1];
            if (keys[last] > keys[items[i]] ||
                (keys[last] == keys[items[i]] && before[last] >= before[items[i]]))
                fail_msg("case %zu: place %u is out of order", c, i);
        }
    }
}

/* ---- plans against a separate implementation ----
 * SHA-256 of the micro-batches, rank by rank, on the four real parts (tests/data/isf/README.md says
 * in which order) at dp 8, 4 samples each. Variant code and block follow ModelTC/OmniBal's
 * sampler.py; all were computed by a plain Python program. */

static const struct {
    const char *policy, *json;
    int64_t epoch;
    const char *sha256;
} golden[] = {
    { "random", "{}", 0, "3960015de5cdeec33dc6e60b2d557835cc558c93428a50e471894d44792a61c9" },
    { "random", "{}", 3, "d8218a59bbcd9d3c5e2188cc1ed4167ed8c0ec01c6960e44cd9f7a36e08ff17c" },
    { "random", "{\"sampler_seed\": 3}", 0,
      "d8218a59bbcd9d3c5e2188cc1ed4167ed8c0ec01c6960e44cd9f7a36e08ff17c" },
    { "random", "{\"sampler\": \"shuffle\"}", 0,
      "b1bab109d5e4fb31405a604fc66ca617276e36a2528220c00b5010fb33b56d03" },
    { "length-group", "{\"variant\": \"code\"}", 0,
      "c44d79f4e0a280dc622bf0389d7c4dfe5bfed437a377e910f51bbe7b1f7619a8" },
    { "length-group", "{\"variant\": \"code\"}", 2, /* the published one repeats each epoch */
      "c44d79f4e0a280dc622bf0389d7c4dfe5bfed437a377e910f51bbe7b1f7619a8" },
    { "length-group", "{}", 0, "4361665479237ae0e90822d485698587815208843c26af7734bedbb1449ea5c1" },
    { "length-group", "{\"variant\": \"window\"}", 0,
      "be4c801abda9e490dd54ff835ee3ac78139a0a6f69ee6cc11694eff683761ced" },
    { "device-group", "{\"variant\": \"code\"}", 0,
      "c3909d4ff7b0f4beba917e52341547a9abf0ad6ccbd3b5d6321849b2f733e313" },
    { "device-group", "{}", 0, "24f9a10ad77a9ea48120b8346bf502995461bf3a7cc4fee68b6e18b09dbd5a3c" },
    { "device-group", "{}", 1, "64e91a48743315f3c74151fc3ada2db46e665ed39a657c608af5dae773b9c091" },
};

static struct batch_request request_for(const struct dataset *dataset, int64_t dp,
                                        int64_t micro_batch) {
    return (struct batch_request){
        .dataset = dataset, .dp = dp, .micro_batch = micro_batch, .seed = 1024
    };
}

static void golden_micro_batches(void **state) {
    (void)state;
    for (size_t i = 0; i < sizeof golden / sizeof golden[0]; i++) {
        struct batch_request request = request_for(four_parts, 8, 4);
        request.epoch = golden[i].epoch;
        struct batch_plan plan;
        char hex[65];
        plan_make(golden[i].policy, golden[i].json, &request, &plan);
        plan_check(golden[i].policy, &plan);
        plan_sha256(&plan, hex);
        if (strcmp(hex, golden[i].sha256) != 0)
            fail_msg("%s %s, epoch %lld: sha256 %s", golden[i].policy, golden[i].json,
                     (long long)golden[i].epoch, hex);
        batch_plan_free(&plan);
    }
}

/* A seed that is not given moves with the run's; the default of 1024 gives the published one. */
static void seeds_follow_the_run(void **state) {
    (void)state;
    static const struct {
        const char *name, *policy, *a, *b;
        uint32_t seed_a, seed_b;
        bool same;
    } cases[] = {
        { "default", "random", "{}", "{\"sampler_seed\": 0}", 1024, 1024, true },
        { "moved", "random", "{}", "{\"sampler_seed\": 3}", 1027, 1024, true },
        { "below the default", "random", "{}", "{\"sampler_seed\": 4294966272}", 0, 1024, true },
        { "another seed", "random", "{}", "{}", 1024, 7, false },
        { "given: the run's has no say", "random", "{\"sampler_seed\": 3}", "{\"sampler_seed\": 3}",
          1024, 7, true },
        { "default", "device-group", "{}", "{\"sampler_seed\": 0}", 1024, 1024, true },
        { "moved", "device-group", "{}", "{\"sampler_seed\": 1}", 1025, 1024, true },
        { "default", "length-group", "{}", "{\"sampler_seed\": 233}", 1024, 1024, true },
        { "moved", "length-group", "{}", "{\"sampler_seed\": 234}", 1025, 1024, true },
        { "default, code", "length-group", "{\"variant\": \"code\"}",
          "{\"variant\": \"code\", \"sampler_seed\": 233}", 1024, 1024, true },
        { "moved, code", "length-group", "{\"variant\": \"code\"}",
          "{\"variant\": \"code\", \"sampler_seed\": 240}", 1031, 1024, true },
    };
    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
        struct batch_request request = request_for(four_parts, 8, 4);
        struct batch_plan a, b;
        char hex_a[65], hex_b[65];
        request.seed = cases[i].seed_a;
        plan_make(cases[i].policy, cases[i].a, &request, &a);
        request.seed = cases[i].seed_b;
        plan_make(cases[i].policy, cases[i].b, &request, &b);
        plan_sha256(&a, hex_a);
        plan_sha256(&b, hex_b);
        if ((strcmp(hex_a, hex_b) == 0) != cases[i].same)
            fail_msg("%s, %s: micro-batches are %s", cases[i].policy, cases[i].name,
                     cases[i].same ? "different" : "the same");
        batch_plan_free(&a);
        batch_plan_free(&b);
    }
    /* isf: groups by the seed, their order by the sampler's. */
    struct batch_request request = request_for(four_parts, 8, 1);
    struct batch_plan a, b;
    request.seed = 1029;
    plan_make("isf", "{}", &request, &a);
    plan_make("isf", "{\"sampler_seed\": 5}", &request, &b);
    assert_memory_equal(a.order, b.order, sizeof *a.order * (size_t)(a.rank_count * a.per_rank));
    batch_plan_free(&b);
    plan_make("isf", "{\"sampler_seed\": 0}", &request, &b);
    assert_memory_not_equal(a.order, b.order,
                            sizeof *a.order * (size_t)(a.rank_count * a.per_rank));
    batch_plan_free(&a);
    batch_plan_free(&b);
}

/* What the published samplers give on this data, at dp 8 and 4 samples. */
static const struct {
    const char *policy, *json;
    double pad, pad_mean, dist_vision, dist_language, dist_unpadded;
    int64_t rounds, max_tiles, max_tokens;
} published[] = {
    { "random", "{}", 0.192385, 0.190958, 0.202403, 0.201925, 0.219753, 2209, 20, 10152 },
    { "random", "{\"sampler\": \"shuffle\"}", 0.223736, 0.220699, 0.171143, 0.165289, 0.175510,
      2209, 20, 10152 },
    { "length-group", "{\"variant\": \"code\"}", 0.242925, 0.236800, 0.061062, 0.143531, 0.042147,
      2210, 20, 10152 },
    { "device-group", "{\"variant\": \"code\"}", 0.055171, 0.056203, 0.008741, 0.065026, 0.042209,
      2210, 20, 10152 },
};

static void balance_of(const char *policy, const char *json, struct batch_balance *balance) {
    struct batch_request request = request_for(four_parts, 8, 4);
    struct batch_plan plan;
    plan_make(policy, json, &request, &plan);
    batch_plan_balance(&plan, four_parts, balance);
    batch_plan_free(&plan);
}

static void published_balance(void **state) {
    (void)state;
    for (size_t i = 0; i < sizeof published / sizeof published[0]; i++) {
        char row[128];
        snprintf(row, sizeof row, "%s %s", published[i].policy, published[i].json);
        struct batch_balance got;
        balance_of(published[i].policy, published[i].json, &got);
        expect_printed(row, "pad", got.pad_ratio, published[i].pad, 6);
        expect_printed(row, "mean pad", got.pad_ratio_mean, published[i].pad_mean, 6);
        expect_printed(row, "dist vision", got.dist_ratio_vision, published[i].dist_vision, 6);
        expect_printed(row, "dist language", got.dist_ratio_language, published[i].dist_language,
                       6);
        expect_printed(row, "unpadded", got.dist_ratio_language_unpadded,
                       published[i].dist_unpadded, 6);
        assert_int_equal(got.iterations, published[i].rounds);
        assert_int_equal(got.max_vision_tiles, published[i].max_tiles);
        assert_int_equal(got.max_language_tokens, published[i].max_tokens);
    }
}

/* What each variant is for, whatever the data: the claims of the help texts. */
static void variants_do_what_they_say(void **state) {
    (void)state;
    struct batch_balance random, length, window, device, length_code;
    balance_of("random", "{\"sampler\": \"shuffle\"}", &random);
    balance_of("length-group", "{}", &length);
    balance_of("length-group", "{\"variant\": \"window\"}", &window);
    balance_of("length-group", "{\"variant\": \"code\"}", &length_code);
    balance_of("device-group", "{}", &device);
    assert_true(length.pad_ratio < random.pad_ratio / 2);
    assert_true(length.dist_ratio_language < random.dist_ratio_language / 2);
    assert_true(window.pad_ratio < length.pad_ratio);
    assert_true(window.dist_ratio_language > random.dist_ratio_language);
    assert_true(length_code.pad_ratio > random.pad_ratio);
    assert_true(length_code.dist_ratio_language_unpadded < random.dist_ratio_language_unpadded / 2);
    assert_true(device.pad_ratio > 0.9 * random.pad_ratio);
    assert_true(device.dist_ratio_language < random.dist_ratio_language / 2);
}

/* ---- accounting on awkward sizes ---- */

static void check_samples(const char *name, const struct batch_plan *plan, int64_t count) {
    int64_t times_seen[64] = { 0 }, twice = 0, never = 0;
    for (uint32_t i = 0; i < plan->starts[plan->group_count]; i++)
        times_seen[plan->samples[i]]++;
    for (int64_t i = 0; i < count; i++) {
        if (times_seen[i] > 2) fail_msg("%s: sample %lld is used thrice", name, (long long)i);
        twice += times_seen[i] == 2;
        never += times_seen[i] == 0;
    }
    if (twice != plan->repeated_by_sampler || never != plan->dropped_by_sampler)
        fail_msg("%s: %lld used twice, %lld never", name, (long long)twice, (long long)never);
}

static void awkward_sizes(void **state) {
    (void)state;
    static const char *const variants[] = { "paper", "code", "window" };
    struct sample samples[64];
    for (uint32_t i = 0; i < 64; i++)
        samples[i] = (struct sample){ .vision_tiles = 1, .language_tokens = i * i * 37 % 2001 };
    for (int64_t count = 1; count <= 64; count++)
        for (int64_t dp = 1; dp <= 5; dp++)
            for (int64_t micro_batch = 1; micro_batch <= 3; micro_batch++)
                for (size_t v = 0; v < 6; v++) {
                    struct dataset dataset = { .name = "small",
                                               .samples = samples,
                                               .sample_count = count };
                    struct batch_request request = request_for(&dataset, dp, micro_batch);
                    const struct batching_policy *policy =
                        batching_policy_find(v < 3   ? "length-group"
                                             : v < 5 ? "device-group"
                                                     : "random");
                    char json[64], name[128];
                    snprintf(json, sizeof json, "{\"variant\": \"%s\"}", variants[v % 3]);
                    if (v == 5) strcpy(json, "{\"sampler\": \"shuffle\"}");
                    snprintf(name, sizeof name, "%s %s: %lld samples, dp %lld x %lld", policy->name,
                             json, (long long)count, (long long)dp, (long long)micro_batch);
                    struct batch_plan plan;
                    struct error err = { 0 };
                    bool ok = plan_try(policy->name, json, &request, &plan, &err);
                    if (ok != (count >= dp * micro_batch)) fail_msg("%s: %s", name, err.text);
                    if (!ok) continue;
                    plan_check(name, &plan);
                    check_samples(name, &plan, count);
                    for (int64_t g = 0; g < plan.group_count; g++)
                        if (plan.starts[g + 1] - plan.starts[g] != micro_batch)
                            fail_msg("%s: group %lld", name, (long long)g);
                    batch_plan_free(&plan);
                }
}

/* Eleven samples with images and five without, two ranks of two: two rounds of images and one of
 * text. Text lengths, not those with image tokens, are dealt: the longest and the shortest two of a
 * round end on the same total. */
static void modality_rounds(void **state) {
    (void)state;
    struct dataset_part parts[] = { { .name = "images", .sample_count = 11 },
                                    { .name = "text", .sample_count = 5, .dummy_tiles = 5 } };
    struct sample samples[16];
    for (uint32_t i = 0; i < 16; i++) {
        const uint32_t text = 10 + i * i;
        samples[i] = (struct sample){ .vision_tiles = 1,
                                      .language_tokens = i < 11 ? 576 + text : text,
                                      .part = i >= 11 };
    }
    struct dataset dataset = { .name = "small",
                               .samples = samples,
                               .sample_count = 16,
                               .parts = parts,
                               .part_count = 2,
                               .tile_language_tokens = 576 };
    struct batch_request request = request_for(&dataset, 2, 2);
    struct batch_plan plan;
    plan_make("length-group", "{\"variant\": \"modality\"}", &request, &plan);
    plan_check("modality", &plan);
    assert_int_equal(plan.per_rank, 3);
    assert_int_equal(plan.dropped_by_sampler, 4);
    int64_t text_rounds = 0;
    for (int64_t round = 0; round < 3; round++) {
        uint32_t lengths[4];
        bool text[4];
        for (int64_t i = 0; i < 4; i++) {
            const uint32_t group = plan.order[(i / 2) * plan.per_rank + round];
            const uint32_t sample = plan.samples[plan.starts[group] + i % 2];
            text[i] = sample >= 11;
            lengths[i] = 10 + sample * sample;
            assert_int_equal(text[i], text[0]);
        }
        text_rounds += text[0];
        /* longest first: 1 and the lesser rest to the first rank, 2 and 3 to the second */
        assert_true(lengths[0] > lengths[2] && lengths[2] > lengths[3] && lengths[3] > lengths[1]);
    }
    assert_int_equal(text_rounds, 1);
    batch_plan_free(&plan);

    struct batch_request wide = request_for(&dataset, 4, 4);
    struct error err = { 0 };
    assert_false(plan_try("length-group", "{\"variant\": \"modality\"}", &wide, &plan, &err));
    assert_non_null(strstr(err.text, "too few samples with images, and too few without"));
}

static void impossible_requests(void **state) {
    (void)state;
    static const char *const names[] = { "device-group", "length-group", "random" };
    static const uint32_t pairs[][2] = { { 1, 9 }, { 1, 9 }, { 1, 9 } };
    static const struct {
        int64_t count, dp, micro_batch;
        const char *message;
    } cases[] = {
        { 0, 1, 1, "has no samples" },
        { 3, 0, 1, "data-parallel ranks must be 1 to" },
        { 3, 1, -4, "must have 1 to" },
        { 3, 2, 2, "3 samples, too few for one micro-batch of 2 on each of 2" },
        { 3, INT32_MAX, INT32_MAX, "too few" },
        { INT64_C(1) << 40, 1, 1, "at most 2147483647" },
    };
    struct small_dataset small;
    for (size_t n = 0; n < sizeof names / sizeof names[0]; n++)
        for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
            small_dataset_make(&small, pairs, 3);
            small.dataset.sample_count = cases[i].count;
            struct batch_request request =
                request_for(&small.dataset, cases[i].dp, cases[i].micro_batch);
            struct batch_plan plan;
            struct error err = { 0 };
            if (plan_try(names[n], "{}", &request, &plan, &err))
                fail_msg("%s, case %zu: accepted", names[n], i);
            if (strstr(err.text, cases[i].message) == NULL || strstr(err.text, names[n]) == NULL)
                fail_msg("%s, case %zu: says \"%s\"", names[n], i, err.text);
            assert_null(plan.samples);
        }
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(sequences),
        cmocka_unit_test(sorting_in_windows),
        cmocka_unit_test(golden_micro_batches),
        cmocka_unit_test(seeds_follow_the_run),
        cmocka_unit_test(published_balance),
        cmocka_unit_test(variants_do_what_they_say),
        cmocka_unit_test(awkward_sizes),
        cmocka_unit_test(modality_rounds),
        cmocka_unit_test(impossible_requests),
    };
    return cmocka_run_group_tests(tests, load_four_parts, free_four_parts);
}
