/* test_greedy_pack.c - packing by tokens and grouping by clips: groups by hand, and what must hold
 * for any data: no sample is lost or given twice, every group is within its bounds. */
#include "tests/unit/policy/test_batch_tools.h"

enum { SAMPLE_LIMIT = 3000 };

struct clips {
    struct dataset dataset;
    struct sample samples[SAMPLE_LIMIT];
    uint32_t clip_ms[SAMPLE_LIMIT];
    struct image_size sizes[SAMPLE_LIMIT];
    struct dataset_part part;
};

static void random_data(struct clips *data, uint32_t seed, int64_t count) {
    struct random_mt mt;
    random_mt_seed(&mt, seed);
    for (int64_t i = 0; i < count; i++) {
        data->samples[i] = (struct sample){ 1 + random_mt_next(&mt) % 9000,
                                            (uint16_t)(random_mt_next(&mt) % 60), 0 };
        data->clip_ms[i] = 200 + random_mt_next(&mt) % 17000;
        data->sizes[i] = (struct image_size){ 16 * (1 + (uint32_t)i % 7), 16 * (1 + seed % 3) };
    }
    data->part = (struct dataset_part){ "x", "synthetic", count, 0 };
    data->dataset = (struct dataset){ .name = "x",
                                      .samples = data->samples,
                                      .sample_count = count,
                                      .clip_ms = data->clip_ms,
                                      .frame_sizes = data->sizes,
                                      .parts = &data->part,
                                      .part_count = 1 };
}

static struct batch_plan make(const char *policy, const char *parameters, struct dataset *dataset,
                              int64_t dp) {
    struct batch_request request = { .dataset = dataset, .dp = dp, .micro_batch = 1, .seed = 7 };
    struct batch_plan plan;
    plan_make(policy, parameters, &request, &plan);
    return plan;
}

static void expect_groups(const struct batch_plan *plan, const char *want) {
    char text[512] = "";
    FILE *out = fmemopen(text, sizeof text, "w");
    assert_true(batch_plan_write_groups(plan, out));
    fclose(out);
    assert_string_equal(text, want);
}

static void groups_by_hand(void **state) {
    (void)state;
    static const struct {
        const char *policy, *parameters, *want;
        int64_t oversize;
    } cases[] = {
        /* 4000 + 3000; 2000 does not fit behind them; 9000 is too long */
        { "pack", "{\"order\":\"file\"}", "0,1;2,4,5", 1 },
        /* the first of two open sequences takes what the second sample left over */
        { "pack", "{\"order\":\"file\",\"open\":2}", "0,1,4;2,5", 1 },
        { "pack", "{\"order\":\"file\",\"tokens\":3500}", "1;2,4;5", 2 },
        /* images 5, 3, 2, 1, 0, 4 */
        { "pack", "{\"order\":\"file\",\"images\":5}", "0;1,2,4;5", 1 },
        /* clips of 5, 6, 5, 9, 16 and 17 s */
        { "clip-group", "{\"order\":\"file\"}", "0,1,2;3;4", 1 },
        { "clip-group", "{\"order\":\"file\",\"clips\":2}", "0,1;2,3;4", 1 },
        { "clip-group", "{\"order\":\"file\",\"seconds\":17}", "0,1,2;3;4;5", 0 },
        { "clip-group", "{\"order\":\"file\",\"clips\":1,\"open\":3}", "0;1;2;3;4", 1 },
        /* frames wide, high, wide, high, wide, wide: each size has a group of its own open */
        { "clip-group", "{\"order\":\"file\",\"buckets\":\"size\"}", "0,2;1,3;4", 1 },
        { "clip-group", "{\"order\":\"file\",\"buckets\":\"size\",\"clips\":1,\"open\":2}",
          "0;1;2;3;4", 1 },
        { "clip-group", "{\"order\":\"file\",\"buckets\":\"size-and-length\"}", "0,2;1;3;4", 1 },
    };
    struct sample samples[] = { { 4000, 5, 0 }, { 3000, 3, 0 }, { 2000, 2, 0 },
                                { 9000, 1, 0 }, { 1000, 0, 0 }, { 3400, 4, 0 } };
    uint32_t clip_ms[] = { 5000, 6000, 5000, 9000, 16000, 17000 };
    struct image_size sizes[] = { { 1280, 720 }, { 720, 1280 }, { 1280, 720 },
                                  { 720, 1280 }, { 1280, 720 }, { 1280, 720 } };
    struct dataset_part part = { "x", "synthetic", 6, 0 };
    struct dataset dataset = { .name = "x",
                               .samples = samples,
                               .sample_count = 6,
                               .clip_ms = clip_ms,
                               .frame_sizes = sizes,
                               .parts = &part,
                               .part_count = 1 };
    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
        struct batch_plan plan = make(cases[i].policy, cases[i].parameters, &dataset, 1);
        expect_groups(&plan, cases[i].want);
        assert_int_equal(plan.oversize_skipped, cases[i].oversize);
        assert_int_equal(plan.samples_packed + plan.oversize_skipped, 6);
        batch_plan_free(&plan);
    }
}

struct bounds {
    int64_t tokens, images, clips, clip_ms;
};

static void check_plan(const struct batch_plan *plan, const struct dataset *d,
                       const struct bounds *most) {
    static int8_t seen[SAMPLE_LIMIT];
    memset(seen, 0, sizeof seen);
    for (int64_t g = 0; g < plan->group_count; g++) {
        struct bounds sum = { 0 };
        assert_true(plan->starts[g] < plan->starts[g + 1]);
        for (uint32_t i = plan->starts[g]; i < plan->starts[g + 1]; i++) {
            uint32_t index = plan->samples[i];
            assert_int_equal(seen[index]++, 0);
            sum.tokens += d->samples[index].language_tokens;
            sum.images += d->samples[index].vision_tiles;
            sum.clips++;
            sum.clip_ms += d->clip_ms[index];
        }
        assert_true(sum.tokens <= most->tokens && sum.images <= most->images);
        assert_true(sum.clips <= most->clips && sum.clip_ms <= most->clip_ms);
    }
    int64_t missing = 0;
    for (int64_t i = 0; i < d->sample_count; i++) {
        missing += seen[i] == 0;
        bool oversize = d->samples[i].language_tokens > most->tokens ||
                        d->samples[i].vision_tiles > most->images || d->clip_ms[i] > most->clip_ms;
        assert_int_equal(seen[i] == 0, oversize);
    }
    assert_int_equal(missing, plan->oversize_skipped);
    assert_int_equal(plan->samples_in, plan->samples_packed + plan->oversize_skipped);
    /* Rounds of all ranks, each group once; the tail is accounted for. */
    int64_t dealt = 0;
    for (int64_t i = 0; i < plan->rank_count * plan->per_rank; i++) {
        uint32_t group = plan->order[i];
        assert_int_equal(group % plan->rank_count, i / plan->per_rank);
        assert_int_equal(group / plan->rank_count, i % plan->per_rank);
        dealt += plan->starts[group + 1] - plan->starts[group];
    }
    assert_int_equal(dealt + plan->dropped_by_sampler, plan->samples_packed);
    assert_true(plan->group_count - plan->rank_count * plan->per_rank < plan->rank_count);
}

static void nothing_is_lost(void **state) {
    (void)state;
    static const struct {
        const char *policy, *parameters;
        struct bounds most;
    } cases[] = {
        { "pack", "{}", { 8192, INT64_MAX, INT64_MAX, INT64_MAX } },
        { "pack", "{\"images\":48,\"open\":8}", { 8192, 48, INT64_MAX, INT64_MAX } },
        { "pack",
          "{\"tokens\":4096,\"order\":\"file\"}",
          { 4096, INT64_MAX, INT64_MAX, INT64_MAX } },
        { "clip-group", "{}", { INT64_MAX, INT64_MAX, 8, 16000 } },
        { "clip-group",
          "{\"clips\":3,\"seconds\":30,\"open\":16}",
          { INT64_MAX, INT64_MAX, 3, 30000 } },
        { "clip-group", "{\"buckets\":\"size\",\"open\":2}", { INT64_MAX, INT64_MAX, 8, 16000 } },
    };
    static struct clips data;
    for (uint32_t seed = 1; seed <= 12; seed++)
        for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
            random_data(&data, seed, seed == 1 ? 40 : SAMPLE_LIMIT);
            struct batch_plan plan =
                make(cases[i].policy, cases[i].parameters, &data.dataset, 1 + seed % 4);
            check_plan(&plan, &data.dataset, &cases[i].most);
            if (strstr(cases[i].parameters, "buckets") != NULL)
                for (int64_t g = 0; g < plan.group_count; g++)
                    for (uint32_t k = plan.starts[g] + 1; k < plan.starts[g + 1]; k++)
                        assert_int_equal(data.sizes[plan.samples[k]].width,
                                         data.sizes[plan.samples[k - 1]].width);
            batch_plan_free(&plan);
        }
}

/* More open groups never need more groups for long; here they save a tenth at least. */
static void open_groups_waste_less(void **state) {
    (void)state;
    static struct clips data;
    random_data(&data, 3, SAMPLE_LIMIT);
    struct batch_plan one = make("clip-group", "{}", &data.dataset, 1);
    struct batch_plan many = make("clip-group", "{\"open\":32}", &data.dataset, 1);
    assert_true(many.group_count * 10 < one.group_count * 9);
    batch_plan_free(&one);
    batch_plan_free(&many);
}

/* Four sequences of 5, 1, 4 and 2 images, two ranks: the two rounds of a step get 5 with 4 and 2
 * with 1. */
static void sorted_windows(void **state) {
    (void)state;
    static const struct {
        const char *parameters;
        uint32_t want[4]; /* groups: both rounds of rank 0, then of rank 1 */
    } cases[] = {
        { "{\"order\":\"file\"}", { 0, 2, 1, 3 } },
        { "{\"order\":\"file\",\"sort_window\":4}", { 0, 3, 2, 1 } },
        { "{\"order\":\"file\",\"sort_window\":2}", { 0, 2, 1, 3 } },
        { "{\"order\":\"file\",\"sort_window\":3}", { 0, 1, 2, 3 } },
    };
    struct sample samples[] = { { 8000, 5, 0 }, { 8000, 1, 0 }, { 8000, 4, 0 }, { 8000, 2, 0 } };
    struct dataset_part part = { "x", "synthetic", 4, 0 };
    struct dataset dataset = {
        .name = "x", .samples = samples, .sample_count = 4, .parts = &part, .part_count = 1
    };
    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
        struct batch_plan plan = make("pack", cases[i].parameters, &dataset, 2);
        assert_memory_equal(plan.order, cases[i].want, sizeof cases[i].want);
        batch_plan_free(&plan);
    }
}

static void padding_is_counted(void **state) {
    (void)state;
    struct sample samples[] = { { 4096, 1, 0 }, { 6144, 1, 0 } };
    struct dataset_part part = { "x", "synthetic", 2, 0 };
    struct dataset dataset = {
        .name = "x", .samples = samples, .sample_count = 2, .parts = &part, .part_count = 1
    };
    struct batch_balance balance;
    struct batch_plan plan = make("pack", "{\"order\":\"file\"}", &dataset, 2);
    assert_int_equal(plan.sequence_tokens, 8192);
    assert_true(plan.joint_attention);
    batch_plan_balance(&plan, &dataset, &balance);
    assert_true(balance.pad_ratio == 6144.0 / 16384);
    assert_true(balance.dist_ratio_language == 0);
    assert_int_equal(balance.max_language_tokens, 8192);
    batch_plan_free(&plan);
    plan = make("pack", "{\"order\":\"file\",\"pad\":false,\"attention\":\"sample\"}", &dataset, 2);
    batch_plan_balance(&plan, &dataset, &balance);
    assert_false(plan.joint_attention);
    assert_true(balance.pad_ratio == 0);
    assert_true(balance.dist_ratio_language == 2048.0 / 12288);
    batch_plan_free(&plan);
}

static void no_clips(void **state) {
    (void)state;
    struct sample samples[] = { { 100, 0, 0 } };
    struct dataset_part part = { "x", "synthetic", 1, 0 };
    struct dataset dataset = {
        .name = "x", .samples = samples, .sample_count = 1, .parts = &part, .part_count = 1
    };
    struct batch_request request = { .dataset = &dataset, .dp = 1, .micro_batch = 1 };
    struct error err = { 0 };
    struct batch_plan plan;
    assert_false(plan_try("clip-group", "{}", &request, &plan, &err));
    assert_string_equal(err.text, "clip-group: data set 'x' has no video clips\n"
                                  "  hint: give each sample's clip_ms, or use the policy pack");
    samples[0].language_tokens = 9000;
    err = (struct error){ 0 };
    assert_false(plan_try("pack", "{}", &request, &plan, &err));
    assert_string_equal(err.text, "pack: only 0 micro-batches for 1 data-parallel rank\n"
                                  "  hint: 1 sample is beyond a limit of the policy");
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(groups_by_hand),         cmocka_unit_test(nothing_is_lost),
        cmocka_unit_test(open_groups_waste_less), cmocka_unit_test(sorted_windows),
        cmocka_unit_test(padding_is_counted),     cmocka_unit_test(no_clips),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
