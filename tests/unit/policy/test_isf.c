/* test_isf.c - the packing policy against groups of a separate implementation (tests/data/isf), the
 * published program's statistics, and its own promises on awkward data. */
#include "tests/unit/policy/test_batch_tools.h"
#include "sim/base/file_read.h"
#include "sim/policy/batching/entry_shuffle.h"

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

static struct batch_request request_for(const struct dataset *dataset, int64_t dp, uint32_t seed) {
    return (struct batch_request){ .dataset = dataset, .dp = dp, .micro_batch = 1, .seed = seed };
}

/* ---- golden groups ---- */

enum { GOLDEN_COLUMNS = 15 };

static void expect_count(const char *row, const char *what, int64_t got, const char *want) {
    if (got != atoll(want)) fail_msg("%s: %s is %lld, want %s", row, what, (long long)got, want);
}

static void check_golden_row(const char *row, char *columns[GOLDEN_COLUMNS]) {
    char json[512], hex[65];
    snprintf(json, sizeof json,
             "{\"qv\": %s, \"qt\": %s, \"vision_threshold\": %s, \"llm_threshold\": %s, "
             "\"iterations\": %s, \"threshold_rule\": \"%s\", \"leftovers\": \"%s\"}",
             columns[0], columns[1], columns[2], columns[3], columns[4], columns[6], columns[7]);
    struct batch_request request =
        request_for(four_parts, 8, (uint32_t)strtoul(columns[5], NULL, 10));
    struct batch_plan plan;
    plan_make("isf", json, &request, &plan);
    plan_check(row, &plan);
    expect_count(row, "samples_packed", plan.samples_packed, columns[8]);
    expect_count(row, "oversize_skipped", plan.oversize_skipped, columns[9]);
    expect_count(row, "lost_with_last_group", plan.lost_with_last_group, columns[10]);
    expect_count(row, "leftover_dropped", plan.leftover_dropped, columns[11]);
    expect_count(row, "groups", plan.group_count, columns[12]);
    expect_count(row, "full_groups", plan.full_group_count, columns[13]);
    plan_sha256(&plan, hex);
    if (strcmp(hex, columns[14]) != 0) fail_msg("%s: groups differ, sha256 %s", row, hex);
    batch_plan_free(&plan);
}

static void golden_groups(void **state) {
    (void)state;
    char *text;
    size_t size;
    struct error err = { 0 };
    if (!file_read(BALLAST_SOURCE_DIR "/tests/data/isf/groups.csv", &text, &size, &err))
        fail_msg("%s", err.text);
    text = memory_realloc(text, size + 1);
    text[size] = '\0';
    char *rest = text, *line = strsep(&rest, "\n");
    int rows = 0;
    while ((line = strsep(&rest, "\n")) != NULL && line[0] != '\0') {
        char row[512], *columns[GOLDEN_COLUMNS], *cell = line;
        snprintf(row, sizeof row, "groups.csv row %.100s", line);
        for (int c = 0; c < GOLDEN_COLUMNS; c++) {
            columns[c] = strsep(&cell, ",");
            if (columns[c] == NULL) fail_msg("%s: too few columns", row);
        }
        check_golden_row(row, columns);
        rows++;
    }
    assert_int_equal(rows, 26);
    free(text);
}

/* ---- statistics of the published program on the same data (ModelTC/OmniBal, seed 1024) ---- */

static const struct {
    const char *name, *json;
    int64_t groups, full_groups;
    double average_batch_size, mean_tiles;
    int64_t min_tiles, max_tiles;
    double mean_tokens;
    int64_t min_tokens, max_tokens;
    double block[3][2], shuffle[3][2]; /* dist ratio of vision, language at dp 4, 8, 16 */
} published[] = {
    { "1 iteration",
      "\"iterations\": 1",
      42680,
      4308,
      1.656654,
      6.545829,
      5,
      9,
      1881.1007,
      1313,
      3708,
      { { 0.188413, 0.210858 }, { 0.233244, 0.264929 }, { 0.257668, 0.300140 } },
      { { 0.189676, 0.212081 }, { 0.232980, 0.264667 }, { 0.257282, 0.300117 } } },
    { "2 iterations",
      "\"iterations\": 2",
      42315,
      6570,
      1.670944,
      6.602292,
      5,
      9,
      1897.3266,
      1313,
      3684,
      { { 0.201567, 0.222760 }, { 0.256000, 0.281609 }, { 0.266392, 0.310184 } },
      { { 0.196431, 0.218630 }, { 0.242757, 0.273239 }, { 0.261034, 0.305578 } } },
    { "3 iterations",
      "\"iterations\": 3",
      42250,
      7813,
      1.673515,
      6.612450,
      5,
      9,
      1900.2456,
      1313,
      3684,
      { { 0.217199, 0.236501 }, { 0.265275, 0.290962 }, { 0.265249, 0.314508 } },
      { { 0.200627, 0.224145 }, { 0.246445, 0.279410 }, { 0.261633, 0.311429 } } },
    { "5 iterations",
      "\"iterations\": 5",
      42431,
      8874,
      1.666376,
      6.584243,
      5,
      9,
      1892.1396,
      1313,
      3771,
      { { 0.236153, 0.253583 }, { 0.268404, 0.297849 }, { 0.268402, 0.321650 } },
      { { 0.204967, 0.229886 }, { 0.252934, 0.286994 }, { 0.266456, 0.317795 } } },
    { "10 iterations",
      "\"iterations\": 10",
      42838,
      9770,
      1.650544,
      6.521686,
      5,
      9,
      1874.1626,
      1313,
      3771,
      { { 0.257396, 0.273767 }, { 0.275360, 0.307855 }, { 0.275360, 0.330378 } },
      { { 0.207225, 0.233672 }, { 0.260570, 0.295617 }, { 0.273983, 0.326921 } } },
    { "20 iterations",
      "\"iterations\": 20",
      43334,
      10431,
      1.631652,
      6.447039,
      5,
      9,
      1852.7110,
      1313,
      3943,
      { { 0.274776, 0.290197 }, { 0.283640, 0.317681 }, { 0.283640, 0.339528 } },
      { { 0.209866, 0.237485 }, { 0.269866, 0.305564 }, { 0.282778, 0.336882 } } },
    { "50 iterations",
      "\"iterations\": 50",
      43942,
      11148,
      1.609076,
      6.357835,
      5,
      9,
      1827.0761,
      1313,
      3771,
      { { 0.293567, 0.308550 }, { 0.293553, 0.329201 }, { 0.293553, 0.349789 } },
      { { 0.210928, 0.240846 }, { 0.276909, 0.314250 }, { 0.292512, 0.347517 } } },
};

static void check_dist(const char *row, const char *json, const char *sampler,
                       const double want[3][2]) {
    for (int i = 0; i < 3; i++) {
        char name[64], parameters[128];
        snprintf(name, sizeof name, "%s, %s, dp %d", row, sampler, 4 << i);
        snprintf(parameters, sizeof parameters, "{%s, \"sampler\": \"%s\"}", json, sampler);
        struct batch_request request = request_for(four_parts, 4 << i, 1024);
        struct batch_plan plan;
        struct batch_balance balance;
        plan_make("isf", parameters, &request, &plan);
        plan_check(name, &plan);
        batch_plan_balance(&plan, four_parts, &balance);
        expect_printed(name, "dist vision", balance.dist_ratio_vision, want[i][0], 6);
        expect_printed(name, "dist language", balance.dist_ratio_language, want[i][1], 6);
        expect_printed(name, "pad ratio", balance.pad_ratio, 0, 6);
        batch_plan_free(&plan);
    }
}

static void published_statistics(void **state) {
    (void)state;
    for (size_t i = 0; i < sizeof published / sizeof published[0]; i++) {
        const char *row = published[i].name;
        char json[64];
        snprintf(json, sizeof json, "{%s}", published[i].json);
        struct batch_request request = request_for(four_parts, 8, 1024);
        struct batch_plan plan;
        struct batch_balance balance;
        plan_make("isf", json, &request, &plan);
        batch_plan_balance(&plan, four_parts, &balance);
        if (plan.group_count != published[i].groups ||
            plan.full_group_count != published[i].full_groups)
            fail_msg("%s: %lld groups, %lld full", row, (long long)plan.group_count,
                     (long long)plan.full_group_count);
        expect_printed(row, "samples per group", balance.average_batch_size,
                       published[i].average_batch_size, 6);
        expect_printed(row, "mean tiles", balance.mean_vision_tiles, published[i].mean_tiles, 6);
        expect_printed(row, "mean tokens", balance.mean_language_tokens, published[i].mean_tokens,
                       4);
        expect_printed(row, "least tiles", (double)balance.min_vision_tiles,
                       (double)published[i].min_tiles, 0);
        expect_printed(row, "most tiles", (double)balance.max_vision_tiles,
                       (double)published[i].max_tiles, 0);
        expect_printed(row, "least tokens", (double)balance.min_language_tokens,
                       (double)published[i].min_tokens, 0);
        expect_printed(row, "most tokens", (double)balance.max_language_tokens,
                       (double)published[i].max_tokens, 0);
        batch_plan_free(&plan);
        check_dist(row, published[i].json, "block", published[i].block);
        check_dist(row, published[i].json, "shuffle", published[i].shuffle);
    }
}

/* Steps of the published search for qv and qt: dp 8, 10 iterations. */
static void published_search(void **state) {
    (void)state;
    static const struct {
        const char *json;
        double average_batch_size, dist_vision, dist_language;
    } steps[] = {
        { "{\"qv\": 12, \"qt\": 4096}", 2.585134, 0.148718, 0.186096 },
        { "{\"qv\": 13, \"qt\": 4416}", 3.282392, 0.002311, 0.080595 },
        { "{\"qv\": 18, \"qt\": 6016}", 4.542336, 0.002846, 0.070330 },
    };
    for (size_t i = 0; i < sizeof steps / sizeof steps[0]; i++) {
        struct batch_request request = request_for(four_parts, 8, 1024);
        struct batch_plan plan;
        struct batch_balance balance;
        plan_make("isf", steps[i].json, &request, &plan);
        batch_plan_balance(&plan, four_parts, &balance);
        expect_printed(steps[i].json, "samples per group", balance.average_batch_size,
                       steps[i].average_batch_size, 6);
        expect_printed(steps[i].json, "dist vision", balance.dist_ratio_vision,
                       steps[i].dist_vision, 6);
        expect_printed(steps[i].json, "dist language", balance.dist_ratio_language,
                       steps[i].dist_language, 6);
        batch_plan_free(&plan);
    }
}

/* ---- parameters ---- */

static void groups_of(const char *json, uint32_t seed, char hex[65]) {
    struct batch_request request = request_for(four_parts, 4, seed);
    struct batch_plan plan;
    plan_make("isf", json, &request, &plan);
    plan_check(json, &plan);
    plan_sha256(&plan, hex);
    batch_plan_free(&plan);
}

static void equal_and_different_settings(void **state) {
    (void)state;
    static const struct {
        const char *name, *left, *right;
        uint32_t left_seed, right_seed;
        bool equal;
    } cases[] = {
        { "defaults written out", "{}",
          "{\"qv\": 9, \"qt\": 4096, \"vision_threshold\": 9, \"llm_threshold\": 3968, "
          "\"threshold_rule\": \"code\", \"leftovers\": \"keep\", \"iterations\": 10, "
          "\"rng\": \"numpy\"}",
          1024, 1024, true },
        { "sampler leaves the groups alone", "{}",
          "{\"sampler\": \"shuffle\", \"sampler_seed\": 5}", 1024, 1024, true },
        { "qv is the highest sum, so == and >= agree", "{\"leftovers\": \"keep\"}",
          "{\"leftovers\": \"keep\", \"threshold_rule\": \"paper\"}", 1024, 1024, true },
        { "below qv, == and >= differ", "{\"vision_threshold\": 8, \"leftovers\": \"keep\"}",
          "{\"vision_threshold\": 8, \"leftovers\": \"keep\", \"threshold_rule\": \"paper\"}", 1024,
          1024, false },
        { "seed", "{}", "{}", 1024, 1025, false },
        { "generator", "{}", "{\"rng\": \"gsl\"}", 1024, 1024, false },
        { "gsl repeats", "{\"rng\": \"gsl\"}", "{\"rng\": \"gsl\"}", 3, 3, true },
    };
    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
        char left[65], right[65];
        groups_of(cases[i].left, cases[i].left_seed, left);
        groups_of(cases[i].right, cases[i].right_seed, right);
        if ((strcmp(left, right) == 0) != cases[i].equal)
            fail_msg("%s: the groups are %s", cases[i].name,
                     cases[i].equal ? "different" : "equal");
    }
}

/* ---- small data ---- */

static void small_data(void **state) {
    (void)state;
    static const struct {
        const char *name, *json;
        uint32_t pairs[4][2];
        int64_t count, dp;
        int64_t groups, packed, skipped, lost, dropped;
    } cases[] = {
        { "one sample", "{}", { { 3, 800 } }, 1, 1, 1, 1, 0, 0, 0 },
        { "sample as large as the limits", "{}", { { 9, 4096 } }, 1, 1, 1, 1, 0, 0, 0 },
        { "one sample, paper rule, never full: kept unless asked",
          "{\"threshold_rule\": \"paper\"}",
          { { 3, 800 } },
          1,
          1,
          1,
          1,
          0,
          0,
          0 },
        { "qv 0 takes text only",
          "{\"qv\": 0}",
          { { 0, 3000 }, { 0, 3000 }, { 1, 10 }, { 0, 3000 } },
          4,
          1,
          3,
          3,
          1,
          0,
          0 },
        { "two fill one group", "{\"qv\": 2}", { { 1, 9 }, { 1, 9 } }, 2, 1, 1, 2, 0, 0, 0 },
        { "tokens close a group",
          "{\"qt\": 100}",
          { { 1, 60 }, { 1, 60 }, { 1, 60 }, { 1, 60 } },
          4,
          2,
          4,
          4,
          0,
          0,
          0 },
        { "thresholds of 0 take every group",
          "{\"qv\": 1, \"llm_threshold\": 0}",
          { { 1, 5 }, { 1, 5 }, { 1, 5 } },
          3,
          3,
          3,
          3,
          0,
          0,
          0 },
        { "unfinished groups dropped",
          "{\"qv\": 2, \"leftovers\": \"drop\", \"iterations\": 3}",
          { { 1, 9 }, { 1, 9 }, { 1, 9 } },
          3,
          1,
          1,
          2,
          0,
          0,
          1 },
    };
    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
        struct small_dataset small;
        small_dataset_make(&small, cases[i].pairs, cases[i].count);
        struct batch_request request = request_for(&small.dataset, cases[i].dp, 1024);
        struct batch_plan plan;
        plan_make("isf", cases[i].json, &request, &plan);
        plan_check(cases[i].name, &plan);
        if (plan.group_count != cases[i].groups || plan.samples_packed != cases[i].packed ||
            plan.oversize_skipped != cases[i].skipped ||
            plan.lost_with_last_group != cases[i].lost || plan.leftover_dropped != cases[i].dropped)
            fail_msg("%s: %lld groups, %lld packed, %lld skipped, %lld lost, %lld dropped",
                     cases[i].name, (long long)plan.group_count, (long long)plan.samples_packed,
                     (long long)plan.oversize_skipped, (long long)plan.lost_with_last_group,
                     (long long)plan.leftover_dropped);
        batch_plan_free(&plan);
    }
}

/* Whichever of two samples comes last decides: the oversized one costs the code its open group. */
static void trailing_oversized_sample(void **state) {
    (void)state;
    static const uint32_t pairs[][2] = { { 1, 100 }, { 1, 100 }, { 1, 5000 } };
    struct small_dataset small;
    small_dataset_make(&small, pairs, 3);
    int lost = 0, kept = 0;
    for (uint32_t seed = 0; seed < 20; seed++) {
        struct batch_request request = request_for(&small.dataset, 1, seed);
        struct batch_plan plan;
        struct error err = { 0 };
        bool ok = plan_try("isf", "{\"iterations\": 1}", &request, &plan, &err);
        if (ok) {
            assert_int_equal(plan.samples_packed, 2);
            assert_int_equal(plan.lost_with_last_group, 0);
            kept++;
        } else {
            assert_non_null(strstr(err.text, "lost"));
            lost++;
        }
        batch_plan_free(&plan);
        plan_make("isf", "{\"threshold_rule\": \"paper\", \"leftovers\": \"keep\"}", &request,
                  &plan);
        assert_int_equal(plan.samples_packed, 2);
        batch_plan_free(&plan);
    }
    assert_true(lost > 0 && kept > 0);
}

static void native_resolution_counts_patches(void **state) {
    (void)state;
    static const uint32_t pairs[][2] = { { 1, 100 }, { 1, 100 }, { 1, 100 } };
    uint32_t patches[] = { 600, 600, 900 };
    struct small_dataset small;
    small_dataset_make(&small, pairs, 3);
    small.dataset.vision_patches = patches;
    struct batch_request request = request_for(&small.dataset, 1, 1024);
    struct batch_plan plan;
    struct batch_balance balance;
    plan_make("isf", "{\"qv\": 1200, \"qt\": 4096}", &request, &plan);
    batch_plan_balance(&plan, &small.dataset, &balance);
    assert_true(plan.group_count == 2 || plan.group_count == 3);
    assert_true(balance.max_vision_tiles == 1200 || balance.max_vision_tiles == 900);
    batch_plan_free(&plan);
    /* 9, the default, is 9 x 1,024 patches: one group. */
    plan_make("isf", "{\"qv\": 9}", &request, &plan);
    assert_int_equal(plan.qv, 9216);
    assert_int_equal(plan.group_count, 1);
    batch_plan_free(&plan);
}

/* A sum of patches near qv finishes a group; tiles have to meet it. */
static void native_resolution_finishes_near_qv(void **state) {
    (void)state;
    static const uint32_t pairs[][2] = { { 970, 100 } };
    uint32_t patches[] = { 970 };
    struct small_dataset small;
    small_dataset_make(&small, pairs, 1);
    struct batch_request request = request_for(&small.dataset, 1, 1024);
    struct batch_plan plan;
    struct error err = { 0 };
    const char *json = "{\"qv\": 1000, \"qt\": 4096, \"leftovers\": \"drop\"}";
    assert_false(plan_try("isf", json, &request, &plan, &err));
    small.dataset.vision_patches = patches;
    plan_make("isf", json, &request, &plan); /* 970 >= 1000 - 31 */
    assert_int_equal(plan.group_count, 1);
    batch_plan_free(&plan);
    patches[0] = 968;
    assert_false(plan_try("isf", json, &request, &plan, &err));
}

static void impossible_requests(void **state) {
    (void)state;
    static const struct {
        const char *name, *json, *message, *hint;
        uint32_t pairs[2][2];
        int64_t count, dp, micro_batch;
    } cases[] = {
        { "empty", "{}", "has no samples", NULL, { { 0, 0 } }, 0, 1, 1 },
        { "too few samples", "{}", "too few", "fewer ranks", { { 1, 9 }, { 1, 9 } }, 2, 3, 1 },
        { "too few groups",
          "{}",
          "only 1 micro-batch for 2",
          "fewer ranks",
          { { 1, 9 }, { 1, 9 } },
          2,
          2,
          1 },
        { "all oversized",
          "{}",
          "each of the 2 samples alone exceeds qv = 9",
          "raise qv and qt",
          { { 10, 9 }, { 1, 5000 } },
          2,
          1,
          1 },
        { "qv 0 and images",
          "{\"qv\": 0}",
          "exceeds qv = 0",
          "raise qv",
          { { 1, 9 }, { 3, 9 } },
          2,
          1,
          1 },
        { "micro-batch of groups",
          "{}",
          "cannot have 2 samples",
          "micro-batch to 1",
          { { 1, 9 }, { 1, 9 } },
          2,
          1,
          2 },
        { "nothing full",
          "{\"leftovers\": \"drop\"}",
          "no group reached 9 tiles or 3968 tokens",
          "\"keep\"",
          { { 1, 9 }, { 1, 9 } },
          2,
          1,
          1 },
        { "no ranks", "{}", "data-parallel ranks must be", NULL, { { 1, 9 }, { 1, 9 } }, 2, 0, 1 },
        { "no samples in a micro-batch",
          "{}",
          "micro-batch must have",
          NULL,
          { { 1, 9 }, { 1, 9 } },
          2,
          1,
          0 },
    };
    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
        struct small_dataset small;
        small_dataset_make(&small, cases[i].pairs, cases[i].count);
        struct batch_request request = { .dataset = &small.dataset,
                                         .dp = cases[i].dp,
                                         .micro_batch = cases[i].micro_batch,
                                         .seed = 1024 };
        struct batch_plan plan;
        struct error err = { 0 };
        if (plan_try("isf", cases[i].json, &request, &plan, &err))
            fail_msg("%s: accepted", cases[i].name);
        if (strstr(err.text, cases[i].message) == NULL ||
            (cases[i].hint != NULL && strstr(err.text, cases[i].hint) == NULL))
            fail_msg("%s: says \"%s\"", cases[i].name, err.text);
        if (plan.samples != NULL || plan.starts != NULL || plan.order != NULL)
            fail_msg("%s: the plan is not empty", cases[i].name);
    }
}

/* ---- promises on any data ---- */

static void check_groups_within(const char *name, const struct dataset *dataset,
                                const struct batch_plan *plan, int64_t qv, int64_t qt) {
    char *seen = calloc((size_t)dataset->sample_count, 1);
    for (int64_t g = 0; g < plan->group_count; g++) {
        int64_t tiles = 0, tokens = 0;
        for (uint32_t i = plan->starts[g]; i < plan->starts[g + 1]; i++) {
            uint32_t index = plan->samples[i];
            if (seen[index]++ != 0) fail_msg("%s: sample %u is packed twice", name, index);
            tiles += dataset->samples[index].vision_tiles;
            tokens += dataset->samples[index].language_tokens;
        }
        if (tiles > qv || tokens > qt) fail_msg("%s: group %lld is too large", name, (long long)g);
    }
    assert_int_equal(plan->starts[plan->group_count], plan->samples_packed);
    free(seen);
}

static void groups_keep_the_limits(void **state) {
    (void)state;
    static const char *const rules[] = { "code", "paper" }, *const rngs[] = { "numpy", "gsl" };
    struct random_mt mt;
    random_mt_seed(&mt, 7);
    int planned = 0;
    for (int trial = 0; trial < 60; trial++) {
        struct sample samples[400];
        struct dataset dataset = { .name = "drawn", .samples = samples };
        dataset.sample_count = 1 + random_mt_next(&mt) % 400;
        for (int64_t i = 0; i < dataset.sample_count; i++)
            samples[i] = (struct sample){ .vision_tiles = (uint16_t)(random_mt_next(&mt) % 14),
                                          .language_tokens = random_mt_next(&mt) % 3000 };
        int64_t qv = 13 + random_mt_next(&mt) % 10, qt = 2000 + random_mt_next(&mt) % 4000;
        char json[256], name[32];
        snprintf(name, sizeof name, "trial %d", trial);
        snprintf(json, sizeof json,
                 "{\"qv\": %lld, \"qt\": %lld, \"iterations\": %d, \"threshold_rule\": \"%s\", "
                 "\"leftovers\": \"keep\", \"rng\": \"%s\"}",
                 (long long)qv, (long long)qt, 1 + trial % 12, rules[trial % 2],
                 rngs[trial / 2 % 2]);
        struct batch_request request = request_for(&dataset, 1, (uint32_t)trial);
        struct batch_plan plan;
        struct error err = { 0 };
        if (!plan_try("isf", json, &request, &plan, &err)) continue; /* a lone oversized sample */
        planned++;
        plan_check(name, &plan);
        check_groups_within(name, &dataset, &plan, qv, qt);
        batch_plan_free(&plan);
    }
    assert_true(planned > 50);
}

static void shuffle_equals_the_plain_one(void **state) {
    (void)state;
    static const uint32_t counts[] = { 0,    1,    2,    3,    4,    5,    7,    8,   9,
                                       63,   64,   65,   311,  312,  623,  624,  625, 1023,
                                       1024, 1025, 1248, 2047, 2048, 2049, 70706 };
    for (size_t c = 0; c < sizeof counts / sizeof counts[0]; c++) {
        uint32_t count = counts[c];
        uint32_t *plain = malloc(sizeof *plain * (count + 1));
        uint64_t *fast = malloc(sizeof *fast * (count + 1));
        for (uint32_t i = 0; i < count; i++)
            plain[i] = (uint32_t)(fast[i] = i);
        struct random_mt plain_mt, fast_mt;
        random_mt_seed(&plain_mt, 1024 + count);
        random_mt_seed(&fast_mt, 1024 + count);
        random_numpy_shuffle(&plain_mt, plain, count);
        entry_shuffle(&fast_mt, fast, count);
        for (uint32_t i = 0; i < count; i++)
            if (fast[i] != plain[i])
                fail_msg("%u items: place %u has %llu, want %u", count, i,
                         (unsigned long long)fast[i], plain[i]);
        if (random_mt_next(&plain_mt) != random_mt_next(&fast_mt))
            fail_msg("%u items: the generators are not at the same place", count);
        free(fast);
        free(plain);
    }
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(golden_groups),
        cmocka_unit_test(published_statistics),
        cmocka_unit_test(published_search),
        cmocka_unit_test(equal_and_different_settings),
        cmocka_unit_test(small_data),
        cmocka_unit_test(trailing_oversized_sample),
        cmocka_unit_test(native_resolution_counts_patches),
        cmocka_unit_test(native_resolution_finishes_near_qv),
        cmocka_unit_test(impossible_requests),
        cmocka_unit_test(groups_keep_the_limits),
        cmocka_unit_test(shuffle_equals_the_plain_one),
    };
    return cmocka_run_group_tests(tests, load_four_parts, free_four_parts);
}
