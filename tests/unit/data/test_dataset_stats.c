/* test_dataset_stats.c - tests. */
#include <math.h>
#include "tests/unit/data/fixture.h"
#include "sim/data/dataset_stats.h"

static struct dataset_stats *stats_of(const char *text, const struct dataset_options *options,
                                      struct dataset **dataset) {
    const char *path = scratch_path("s.csv");
    write_text(path, text);
    *dataset = load_or_fail(path, options);
    return dataset_stats_create(*dataset);
}

static void small_table(void **state) {
    (void)state;
    struct dataset *d;
    /* Two parts; a text-only sample with a dummy tile, which is no vision in the language model. */
    struct dataset_stats *s = stats_of("part,vision_tiles,text_tokens,image_flags\n"
                                       "a,1,44,1\na,3,32,3\nb,5,20,5\nb,1,164,0\n",
                                       NULL, &d);
    assert_int_equal(s->whole.sample_count, 4);
    assert_int_equal(s->whole.vision_tiles.sum, 10);
    assert_int_equal(s->whole.vision_tiles.max, 5);
    assert_true(s->whole.vision_tiles.mean == 2.5);
    assert_true(fabs(s->whole.vision_tiles.std - sqrt(11.0 / 3)) < 1e-12);
    /* tokens 300, 800, 1300, 164 */
    assert_int_equal(s->whole.language_tokens.sum, 2564);
    assert_true(s->whole.language_tokens.p50 == 550);
    assert_true(fabs(s->whole.language_tokens.p90 - 1150) < 1e-9);
    assert_true(fabs(s->whole.text_tokens_per_tile - 260.0 / 9) < 1e-12);
    assert_int_equal(s->whole.tile_histogram.bin_count, 6);
    assert_int_equal(s->whole.tile_histogram.counts[1], 2);
    assert_int_equal(s->whole.token_histogram.bin_count, 1300 / 64 + 1);
    assert_int_equal(s->whole.token_histogram.counts[300 / 64], 1);

    assert_int_equal(s->part_count, 2);
    assert_string_equal(s->parts[1].name, "b");
    assert_int_equal(s->parts[1].sample_count, 2);
    assert_int_equal(s->parts[1].language_tokens.max, 1300);
    assert_true(s->parts[1].language_tokens.mean == 732);
    assert_true(s->parts[1].text_tokens_per_tile == 184.0 / 5);
    dataset_stats_destroy(s);
    dataset_destroy(d);
}

static void patches(void **state) {
    (void)state;
    struct dataset *d;
    struct tiling t = tiling_default();
    t.kind = TILING_NATIVE;
    struct dataset_options options = { .tiling = &t };
    struct dataset_stats *s =
        stats_of("text_tokens,width,height\n40,448,448\n10,640,480\n7,0,0\n", &options, &d);
    assert_int_equal(s->whole.vision_patches.sum, 1024 + 1564);
    assert_int_equal(s->whole.vision_patches.max, 1564);
    assert_int_equal(s->whole.language_tokens.sum, 57 + 256 + 391);
    assert_true(s->whole.text_tokens_per_tile == 57.0 / 2);
    dataset_stats_destroy(s);
    dataset_destroy(d);
}

/* One sample has no spread; values beyond the counting table are sorted by comparison. */
static void edges(void **state) {
    (void)state;
    struct dataset *d;
    struct dataset_stats *s = stats_of("language_tokens\n77\n", NULL, &d);
    assert_true(s->whole.language_tokens.std == 0);
    assert_true(s->whole.language_tokens.p99 == 77);
    assert_true(s->whole.text_tokens_per_tile == 0);
    dataset_stats_destroy(s);
    dataset_destroy(d);
    s = stats_of("language_tokens\n90000000\n5\n70000000\n6\n80000000\n", NULL, &d);
    assert_true(s->whole.language_tokens.p50 == 70000000);
    assert_int_equal(s->whole.language_tokens.max, 90000000);
    dataset_stats_destroy(s);
    dataset_destroy(d);
}

static void omnibal_real(void **state) {
    (void)state;
    static const struct {
        const char *name;
        int64_t count, tile_sum, token_sum, token_max;
        double token_mean, token_std;
    } want[] = {
        { "ai2d_train_12k", 12413, 30870, 8576820, 1501, 690.95, 396.5 },
        { "docvqa_train_10k", 10211, 47170, 14959209, 2538, 1465.01, 291.0 },
        { "chartqa_train_18k", 18317, 87063, 23910620, 1832, 1305.38, 207.2 },
        { "synthdog_en", 29765, 114273, 32838728, 1719, 1103.27, 248.4 },
    };
    struct dataset *d = load_or_fail("omnibal-real", NULL);
    struct dataset_stats *s = dataset_stats_create(d);
    assert_int_equal(s->whole.sample_count, 70706);
    assert_int_equal(s->whole.vision_tiles.sum, 279376);
    assert_int_equal(s->whole.language_tokens.sum, 80285377);
    assert_true(s->whole.language_tokens.p50 == 1323);
    assert_true(s->whole.language_tokens.p90 == 1470);
    assert_true(fabs(s->whole.language_tokens.p99 - 1896) < 1);
    assert_int_equal(s->part_count, 4);
    for (int i = 0; i < 4; i++) {
        const struct dataset_part_stats *p = &s->parts[i];
        if (strcmp(p->name, want[i].name) != 0 || strcmp(p->status, "real") != 0 ||
            p->sample_count != want[i].count || p->vision_tiles.sum != want[i].tile_sum ||
            p->vision_tiles.max != 5 || p->language_tokens.sum != want[i].token_sum ||
            p->language_tokens.max != want[i].token_max ||
            fabs(p->language_tokens.mean - want[i].token_mean) > 0.006 ||
            fabs(p->language_tokens.std - want[i].token_std) > 0.06)
            fail_msg("part %d %s: %lld samples, %lld tiles, %lld tokens, max %lld, std %g", i,
                     p->name, (long long)p->sample_count, (long long)p->vision_tiles.sum,
                     (long long)p->language_tokens.sum, (long long)p->language_tokens.max,
                     p->language_tokens.std);
    }
    dataset_stats_destroy(s);
    dataset_destroy(d);
}

static void internvl_mixture(void **state) {
    (void)state;
    struct dataset *d = load_or_fail("internvl-1.2m", NULL);
    struct dataset_stats *s = dataset_stats_create(d);
    assert_int_equal(s->whole.sample_count, 1267819);
    assert_int_equal(s->whole.vision_tiles.sum, 2715135);
    assert_true(fabs(s->whole.vision_tiles.mean - 2.142) < 5e-4);
    assert_true(fabs(s->whole.language_tokens.mean - 794.8) < 0.05);
    assert_true(fabs(s->whole.language_tokens.std - 420.6) < 0.05);
    assert_true(s->whole.language_tokens.p50 == 708);
    assert_int_equal(s->whole.language_tokens.max, 2538);
    assert_string_equal(s->whole.status, "reconstructed");
    assert_int_equal(s->part_count, 28);
    int64_t real = 0;
    for (int64_t i = 0; i < s->part_count; i++)
        if (strcmp(s->parts[i].status, "real") == 0) real += s->parts[i].sample_count;
    assert_int_equal(real, 70706);
    assert_string_equal(s->parts[23].name, "sharegpt4v_mix665k/sharegpt_text");
    assert_int_equal(d->parts[23].dummy_tiles, 40688);
    assert_true(s->parts[23].language_tokens.max == 2073);
    dataset_stats_destroy(s);
    dataset_destroy(d);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(small_table),  cmocka_unit_test(patches),          cmocka_unit_test(edges),
        cmocka_unit_test(omnibal_real), cmocka_unit_test(internvl_mixture),
    };
    return cmocka_run_group_tests(tests, NULL, remove_scratch);
}
