/* test_tiling.c - tests. */
#include "tests/unit/data/fixture.h"

static void internvl_known_sizes(void **state) {
    (void)state;
    static const struct {
        const char *name;
        int64_t width, height, max_tiles;
        bool thumbnail;
        int64_t want;
    } cases[] = {
        { "photograph, 4", 640, 480, 4, true, 1 },
        { "photograph, 6", 640, 480, 6, true, 7 },
        { "photograph, 12", 640, 480, 12, true, 13 },
        { "photograph, 12, no thumbnail", 640, 480, 12, false, 12 },
        { "one tile has no thumbnail", 448, 448, 1, true, 1 },
        { "wide", 1344, 448, 4, true, 4 },
        { "tall", 448, 1792, 4, true, 5 },
        { "panorama beyond the widest grid", 9000, 100, 4, true, 5 },
        /* Squares tie between 1x1, 2x2 and 3x3; a later grid needs half its pixels. */
        { "two tall tiles", 448, 896, 4, true, 3 },
        { "square of 633: below half of 2x2", 633, 633, 4, true, 1 },
        { "square of 634: above half of 2x2", 634, 634, 4, true, 5 },
        { "square of 950: below half of 3x3", 950, 950, 12, true, 5 },
        { "square of 951: above half of 3x3", 951, 951, 12, true, 10 },
    };
    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
        struct tiling t = tiling_default();
        t.kind = TILING_INTERNVL;
        t.max_tiles = cases[i].max_tiles;
        t.thumbnail = cases[i].thumbnail;
        int64_t got = tiling_internvl_tiles(&t, cases[i].width, cases[i].height);
        if (got != cases[i].want)
            fail_msg("%s: got %lld, want %lld", cases[i].name, (long long)got,
                     (long long)cases[i].want);
    }
}

static void internvl_real_images(void **state) {
    (void)state;
    FILE *file = fopen(FIXTURES "image_sizes.csv", "r");
    assert_non_null(file);
    char line[128], source[16];
    int rows = 0;
    assert_non_null(fgets(line, sizeof line, file));
    while (fgets(line, sizeof line, file) != NULL) {
        long long width, height, want[2];
        assert_int_equal(sscanf(line, "%15[^,],%lld,%lld,%lld,%lld", source, &width, &height,
                                &want[0], &want[1]),
                         5);
        for (int i = 0; i < 2; i++) {
            struct tiling t = tiling_default();
            t.max_tiles = i == 0 ? 4 : 12;
            int64_t got = tiling_internvl_tiles(&t, width, height);
            if (got != want[i])
                fail_msg("%s %lldx%lld, at most %lld: got %lld, want %lld", source, width, height,
                         (long long)t.max_tiles, (long long)got, want[i]);
        }
        rows++;
    }
    fclose(file);
    assert_int_equal(rows, 585);
}

static void native_known_sizes(void **state) {
    (void)state;
    static const struct {
        const char *name;
        int64_t width, height, min_pixels, max_pixels, want;
    } cases[] = {
        { "photograph: 644 x 476", 640, 480, 0, 0, 1564 },
        { "exact multiple", 448, 448, 0, 0, 1024 },
        { "1.5 and 2.5 units both round to 2", 42, 70, 0, 0, 16 },
        { "tiny grows to 56 x 56", 1, 1, 0, 0, 16 },
        { "thin keeps one unit", 3000, 20, 0, 0, 428 },
        { "thin, the other way", 20, 3000, 0, 0, 428 },
        { "exactly 200 to 1 is taken", 13, 2600, 0, 0, 372 },
        { "more than 200 to 1 is refused", 13, 2601, 0, 0, 0 },
        { "full HD: 1932 x 1092", 1920, 1080, 0, 0, 10764 },
        { "shrinks to 4004 x 3192", 10000, 8000, 0, 0, 65208 },
        { "full HD in 1280 units: 1316 x 728", 1920, 1080, 256 * 784, 1280 * 784, 4888 },
        { "grows to 256 units: 504 x 420", 100, 80, 256 * 784, 1280 * 784, 1080 },
    };
    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
        struct tiling t = tiling_default();
        if (cases[i].min_pixels > 0) t.min_pixels = cases[i].min_pixels;
        if (cases[i].max_pixels > 0) t.max_pixels = cases[i].max_pixels;
        int64_t got = tiling_native_patches(&t, cases[i].width, cases[i].height);
        if (got != cases[i].want)
            fail_msg("%s: got %lld, want %lld", cases[i].name, (long long)got,
                     (long long)cases[i].want);
    }
}

static void native_stays_within_bounds(void **state) {
    (void)state;
    struct tiling t = tiling_default();
    t.max_pixels = 1280 * 784;
    t.min_pixels = 256 * 784;
    for (int64_t width = 28; width < 4000; width += 37)
        for (int64_t height = width / 3 + 28; height < 4000; height += 211) {
            int64_t pixels = tiling_native_patches(&t, width, height) * 14 * 14;
            if (pixels < t.min_pixels || pixels > t.max_pixels || pixels % 784 != 0)
                fail_msg("%lldx%lld: %lld pixels", (long long)width, (long long)height,
                         (long long)pixels);
        }
}

/* Worked by hand from select_best_resolution at 336 pixels. */
static void anyres_known_sizes(void **state) {
    (void)state;
    static const struct {
        const char *name;
        int64_t width, height, want;
    } cases[] = {
        { "photograph: 2 x 2 keeps all of it", 640, 480, 5 },
        { "small: all canvases keep all of it, 1 x 2 is first", 100, 100, 3 },
        { "wide and low: 3 x 1", 1000, 300, 4 },
        { "tall: 1 x 3", 300, 1000, 4 },
        { "twice as wide: 2 x 1 keeps it exactly", 672, 336, 3 },
        { "large square", 3000, 3000, 5 },
    };
    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
        struct tiling t = tiling_default();
        t.kind = TILING_ANYRES;
        t.tile_pixels = 336;
        int64_t got = tiling_anyres_tiles(&t, cases[i].width, cases[i].height);
        if (got != cases[i].want)
            fail_msg("%s: got %lld, want %lld", cases[i].name, (long long)got,
                     (long long)cases[i].want);
    }
}

/* Worked by hand from unpad_image() and its newline tokens, 24 x 24 tokens a tile. */
static void anyres_unpadded_known_sizes(void **state) {
    (void)state;
    static const struct {
        const char *name;
        int64_t width, height, want;
    } cases[] = {
        { "2 x 2, six rows cut above and below", 640, 480, 48 * 36 + 36 + 576 },
        { "2 x 2, six columns cut left and right", 480, 640, 36 * 48 + 48 + 576 },
        { "1 x 2 of a square", 100, 100, 24 * 24 + 24 + 576 },
        { "3 x 1, one of three rows above", 1000, 300, 72 * 22 + 22 + 576 },
        { "2 x 1, nothing to cut", 672, 336, 48 * 24 + 24 + 576 },
    };
    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
        struct tiling t = tiling_default();
        t.kind = TILING_ANYRES_UNPADDED;
        t.tile_pixels = 336;
        t.tile_language_tokens = 576;
        int64_t got = tiling_anyres_unpadded_tokens(&t, cases[i].width, cases[i].height);
        if (got != cases[i].want)
            fail_msg("%s: got %lld, want %lld", cases[i].name, (long long)got,
                     (long long)cases[i].want);
    }
}

static void unusable_bounds(void **state) {
    (void)state;
    struct tiling t = tiling_default();
    struct error err = { 0 };
    assert_true(tiling_check(&t, &err));
    t.kind = TILING_INTERNVL;
    t.max_tiles = 101;
    assert_false(tiling_check(&t, &err));
    assert_string_equal(err.text, "tiling: 1 to 101 tiles: must be 1 <= min <= max <= 100");
    t.kind = TILING_NATIVE;
    t.min_pixels = 9000;
    t.max_pixels = 8000;
    assert_false(tiling_check(&t, &err));
    assert_string_equal(err.text, "tiling: 9000 to 8000 pixels: must be 1 <= min <= max");
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(internvl_known_sizes), cmocka_unit_test(internvl_real_images),
        cmocka_unit_test(native_known_sizes),   cmocka_unit_test(native_stays_within_bounds),
        cmocka_unit_test(anyres_known_sizes),
        cmocka_unit_test(anyres_unpadded_known_sizes),
          cmocka_unit_test(unusable_bounds),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
