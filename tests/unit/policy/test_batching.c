/* test_batching.c - the table of batching policies, the text of a plan and its balance. */
#include "tests/unit/policy/test_batch_tools.h"

/* ---- the table ---- */

static void table_is_sorted_and_described(void **state) {
    (void)state;
    size_t count;
    const struct batching_policy *const *policies = batching_policies(&count);
    assert_int_equal(count, 6);
    for (size_t i = 0; i < count; i++) {
        const struct batching_policy *p = policies[i];
        if (i > 0 && strcmp(policies[i - 1]->name, p->name) >= 0)
            fail_msg("%s is not in order", p->name);
        if (p->help == NULL || strlen(p->help) < 20 || p->plan == NULL)
            fail_msg("%s is not described", p->name);
        if (strcmp(p->parameters->name, p->name) != 0)
            fail_msg("%s: its parameters are called %s", p->name, p->parameters->name);
        assert_ptr_equal(batching_policy_find(p->name), p);
    }
    assert_null(batching_policy_find("isff"));
}

static void defaults_are_in_bounds(void **state) {
    (void)state;
    size_t count;
    const struct batching_policy *const *policies = batching_policies(&count);
    for (size_t i = 0; i < count; i++) {
        const struct field_table *table = policies[i]->parameters;
        struct arena *arena = arena_create();
        struct error err = { 0 };
        void *values = arena_alloc(arena, policies[i]->parameters_size);
        if (!field_table_read(table, NULL, NULL, values, arena, &err))
            fail_msg("%s: %s", policies[i]->name, err.text);
        for (size_t f = 0; f < table->count; f++) {
            if (table->fields[f].help == NULL || table->fields[f].unit == NULL)
                fail_msg("%s.%s is not described", policies[i]->name, table->fields[f].name);
            if (table->fields[f].offset >= policies[i]->parameters_size)
                fail_msg("%s.%s is outside of its struct", policies[i]->name,
                         table->fields[f].name);
        }
        arena_destroy(arena);
    }
}

/* ---- text ---- */

static void groups_as_text(void **state) {
    (void)state;
    uint32_t samples[] = { 10, 0, 4294967295u, 7, 99 };
    static const struct {
        const char *name, *want;
        uint32_t starts[4];
        int64_t group_count;
    } cases[] = {
        { "no group", "", { 0 }, 0 },
        { "one sample", "10", { 0, 1 }, 1 },
        { "one group", "10,0,4294967295", { 0, 3 }, 1 },
        { "groups", "10;0,4294967295;7,99", { 0, 1, 3, 5 }, 3 },
    };
    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
        struct batch_plan plan = { .samples = samples, .group_count = cases[i].group_count };
        uint32_t starts[4];
        memcpy(starts, cases[i].starts, sizeof starts);
        plan.starts = starts;
        size_t size;
        char *text = plan_text(&plan, &size);
        if (strcmp(text, cases[i].want) != 0)
            fail_msg("%s: got \"%s\", want \"%s\"", cases[i].name, text, cases[i].want);
        free(text);
    }
}

static void long_text_and_failing_stream(void **state) {
    (void)state;
    enum { COUNT = 50000 };
    static uint32_t samples[COUNT], starts[COUNT / 5 + 1];
    size_t room = COUNT * 12, length = 0;
    char *want = memory_alloc(room);
    for (uint32_t i = 0; i < COUNT; i++) {
        samples[i] = i * 85899u;
        length += (size_t)snprintf(want + length, room - length, "%s%u",
                                   i == 0       ? ""
                                   : i % 5 == 0 ? ";"
                                                : ",",
                                   samples[i]);
    }
    for (uint32_t g = 0; g <= COUNT / 5; g++)
        starts[g] = 5 * g;
    struct batch_plan plan = { .samples = samples, .starts = starts, .group_count = COUNT / 5 };
    size_t size;
    char *text = plan_text(&plan, &size);
    assert_string_equal(text, want);
    free(text);
    free(want);

    FILE *full = fopen("/dev/full", "w");
    if (full == NULL) return; /* not on this system */
    setvbuf(full, NULL, _IONBF, 0);
    assert_false(batch_plan_write_groups(&plan, full));
    fclose(full);
}

static void sha256_of_the_standard(void **state) {
    (void)state;
    static const struct {
        const char *data, *want;
    } cases[] = {
        { "", "e3b0c44298fc1c149afbf4c8996fb92427ae41e4649b934ca495991b7852b855" },
        { "abc", "ba7816bf8f01cfea414140de5dae2223b00361a396177a9cb410ff61f20015ad" },
        { "abcdbcdecdefdefgefghfghighijhijkijkljklmklmnlmnomnopnopq",
          "248d6a61d20638b8e5c026930c3e6039a33ce45964ff2167f6ecedd419db06c1" },
    };
    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
        char hex[65];
        sha256_hex(cases[i].data, strlen(cases[i].data), hex);
        if (strcmp(hex, cases[i].want) != 0) fail_msg("\"%s\": got %s", cases[i].data, hex);
    }
}

/* ---- balance, by hand ---- */

/* Four samples: tiles and tokens. */
static const uint32_t pairs[][2] = { { 1, 100 }, { 3, 300 }, { 2, 200 }, { 4, 400 } };

static void balance_by_hand(void **state) {
    (void)state;
    static const struct {
        const char *name;
        uint32_t starts[5], order[4];
        int64_t group_count, rank_count, per_rank;
        bool packed;
        struct batch_balance want;
    } cases[] = {
        /* {100, 300} padded by 200 of 600; {200, 400} by 200 of 800. Tiles 4 and 6. */
        { "two ranks, padded",
          { 0, 2, 4 },
          { 0, 1 },
          2,
          2,
          1,
          false,
          { .average_batch_size = 2,
            .pad_ratio = 400.0 / 1400,
            .pad_ratio_mean = 7.0 / 24,
            .dist_ratio_vision = 2.0 / 12,
            .dist_ratio_language = 100.0 / 800,
            .dist_ratio_language_unpadded = 200.0 / 1200,
            .min_vision_tiles = 4,
            .min_language_tokens = 600,
            .max_vision_tiles = 6,
            .max_language_tokens = 800,
            .mean_vision_tiles = 5,
            .mean_language_tokens = 700,
            .iterations = 1 } },
        { "two ranks, packed",
          { 0, 2, 4 },
          { 0, 1 },
          2,
          2,
          1,
          true,
          { .average_batch_size = 2,
            .dist_ratio_vision = 2.0 / 12,
            .dist_ratio_language = 200.0 / 1200,
            .dist_ratio_language_unpadded = 200.0 / 1200,
            .min_vision_tiles = 4,
            .min_language_tokens = 400,
            .max_vision_tiles = 6,
            .max_language_tokens = 600,
            .mean_vision_tiles = 5,
            .mean_language_tokens = 500,
            .iterations = 1 } },
        { "one rank waits for nobody",
          { 0, 2, 4 },
          { 1, 0 },
          2,
          1,
          2,
          false,
          { .average_batch_size = 2,
            .pad_ratio = 400.0 / 1400,
            .pad_ratio_mean = 7.0 / 24,
            .min_vision_tiles = 4,
            .min_language_tokens = 600,
            .max_vision_tiles = 6,
            .max_language_tokens = 800,
            .mean_vision_tiles = 5,
            .mean_language_tokens = 700,
            .iterations = 2 } },
        /* Rounds (100, 200) and (300, 400); ratios 1/4 and 1/8. */
        { "two rounds",
          { 0, 1, 2, 3, 4 },
          { 0, 1, 2, 3 },
          4,
          2,
          2,
          true,
          { .average_batch_size = 1,
            .dist_ratio_vision = 0.1875,
            .dist_ratio_language = 0.1875,
            .dist_ratio_language_unpadded = 0.1875,
            .min_vision_tiles = 1,
            .min_language_tokens = 100,
            .max_vision_tiles = 4,
            .max_language_tokens = 400,
            .mean_vision_tiles = 2.5,
            .mean_language_tokens = 250,
            .iterations = 2 } },
        { "empty plan", { 0 }, { 0 }, 0, 0, 0, false, { .iterations = 0 } },
    };
    struct small_dataset small;
    small_dataset_make(&small, pairs, 4);
    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
        uint32_t samples[] = { 0, 1, 2, 3 }, starts[5], order[4];
        memcpy(starts, cases[i].starts, sizeof starts);
        memcpy(order, cases[i].order, sizeof order);
        struct batch_plan plan = { .samples = samples,
                                   .starts = starts,
                                   .order = order,
                                   .group_count = cases[i].group_count,
                                   .packed = cases[i].packed,
                                   .rank_count = cases[i].rank_count,
                                   .per_rank = cases[i].per_rank };
        struct batch_balance got;
        batch_plan_balance(&plan, &small.dataset, &got);
        const struct batch_balance *want = &cases[i].want;
        const struct {
            const char *name;
            double got, want;
        } values[] = {
            { "average_batch_size", got.average_batch_size, want->average_batch_size },
            { "pad_ratio", got.pad_ratio, want->pad_ratio },
            { "pad_ratio_mean", got.pad_ratio_mean, want->pad_ratio_mean },
            { "dist_ratio_vision", got.dist_ratio_vision, want->dist_ratio_vision },
            { "dist_ratio_language", got.dist_ratio_language, want->dist_ratio_language },
            { "unpadded", got.dist_ratio_language_unpadded, want->dist_ratio_language_unpadded },
            { "min tiles", (double)got.min_vision_tiles, (double)want->min_vision_tiles },
            { "max tiles", (double)got.max_vision_tiles, (double)want->max_vision_tiles },
            { "min tokens", (double)got.min_language_tokens, (double)want->min_language_tokens },
            { "max tokens", (double)got.max_language_tokens, (double)want->max_language_tokens },
            { "mean tiles", got.mean_vision_tiles, want->mean_vision_tiles },
            { "mean tokens", got.mean_language_tokens, want->mean_language_tokens },
            { "iterations", (double)got.iterations, (double)want->iterations },
        };
        for (size_t v = 0; v < sizeof values / sizeof values[0]; v++)
            expect_printed(cases[i].name, values[v].name, values[v].got, values[v].want, 12);
    }
}

/* Text without images: nothing to divide by. */
static void no_tiles_at_all(void **state) {
    (void)state;
    static const uint32_t text_only[][2] = { { 0, 0 }, { 0, 0 } };
    struct small_dataset small;
    small_dataset_make(&small, text_only, 2);
    struct batch_request request = { .dataset = &small.dataset, .dp = 2, .micro_batch = 1 };
    struct batch_plan plan;
    struct batch_balance balance;
    plan_make("random", "{}", &request, &plan);
    batch_plan_balance(&plan, &small.dataset, &balance);
    assert_true(balance.dist_ratio_vision == 0 && balance.dist_ratio_language == 0);
    assert_true(balance.pad_ratio == 0 && balance.pad_ratio_mean == 0);
    batch_plan_free(&plan);
    batch_plan_free(&plan); /* harmless */
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(table_is_sorted_and_described),
        cmocka_unit_test(defaults_are_in_bounds),
        cmocka_unit_test(groups_as_text),
        cmocka_unit_test(long_text_and_failing_stream),
        cmocka_unit_test(sha256_of_the_standard),
        cmocka_unit_test(balance_by_hand),
        cmocka_unit_test(no_tiles_at_all),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
