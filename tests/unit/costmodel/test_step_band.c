/* test_step_band.c - which width a stack takes. */
#include <stdarg.h>
#include <setjmp.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>

#include <math.h>
#include <string.h>
#include "costmodel/step_band.h"

static const char text[] =
    "{ \"description\": \"\", \"calibrated_inside\": 0.07, \"calibrated_outside\": 0.08,"
    "  \"relative_inside\": 0.13, \"relative_outside\": 0.14, \"unknown\": 0.16,"
    "  \"multimodal_low\": 0.8, \"multimodal_median\": 1.2, \"multimodal_high\": 1.9,"
    "  \"lost_least\": 0.3,"
    "  \"stacks\": [ { \"stack\": \"seen\", \"gpu\": \"h100\", \"inside\": 0.05, \"outside\": 0.06,"
    "                  \"rows\": 9, \"sources\": [ \"there\" ] },"
    "                { \"stack\": \"wide\", \"gpu\": \"h100\", \"inside\": 0.2, \"outside\": 0.2,"
    "                  \"rows\": 9 } ],"
    "  \"calibrated_on\": [ \"row\" ] }";

static void test_width(void **state) {
    (void)state;
    const struct {
        const char *stack, *gpu;
        bool calibrated, home, inside;
        double lost, want;
    } cases[] = {
        { "seen", "h100-80g-sxm", true, true, true, 1, 0.05 },
        { "seen", "h100-80g-sxm", true, true, false, 1, 0.06 },
        { "seen", "h200-sxm", true, true, true, 1, 0.13 }, /* no row of it was held back there */
        { "seen", "h100-80g-sxm", true, false, true, 1,
          sqrt(0.05 * 0.13) }, /* runs from elsewhere */
        { "seen", "h100-80g-sxm", false, false, true, 1, 0.13 },
        { "wide", "h100-80g-sxm", true, false, true, 1, 0.2 },   /* never narrower than at home */
        { "fitted", "h100-80g-sxm", true, true, true, 1, 0.13 }, /* all its rows were fitted on */
        { "seen", "h100-80g-sxm", false, true, true, 1, 0.13 },
        { NULL, "h100-80g-sxm", true, true, false, 1, 0.14 },
        /* A share of what FLOP at peak rate do not take, which no measured run had less of. */
        { "seen", "h100-80g-sxm", true, true, true, 0.5, 0.05 * 0.5 },
        { "seen", "h100-80g-sxm", true, true, true, 0.1, 0.05 * 0.3 },
    };
    struct error err = { 0 };
    struct arena *arena = arena_create();
    struct json *json = json_parse("bands.json", text, strlen(text), &err);
    struct step_bands bands;
    if (json == NULL || !step_bands_read(arena, json, &bands, &err)) fail_msg("%s", err.text);
    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++)
        assert_true(step_band_fraction(&bands, cases[i].stack, cases[i].gpu, cases[i].calibrated,
                                       cases[i].home, cases[i].inside,
                                       cases[i].lost) == cases[i].want);
    const struct step_ratios *text_behind = &bands.images[true];
    assert_true(text_behind->low == 0.8 && text_behind->median == 1.2 && text_behind->high == 1.9);
    assert_true(isnan(bands.images[false].low) && isnan(bands.images[false].high));
    assert_true(step_band_of_unknown(&bands, 0.5) == 0.16 * 0.5);
    assert_true(step_band_of_unknown(&bands, 0) == 0.16 * 0.3);
    assert_true(step_band_lists(bands.stacks[0].sources, "there"));
    assert_false(step_band_lists(bands.stacks[1].sources, "there"));
    assert_true(step_band_lists(bands.calibrated_on, "row"));
    json_destroy(json);
    arena_destroy(arena);
}

static void test_mistakes(void **state) {
    (void)state;
    static const struct {
        const char *keys, *want;
    } cases[] = {
        { "\"multimodal\": 0.34", "/multimodal: bands of an earlier version" },
        { "\"encoder_low\": 0.8", "/encoder_low: \"encoder_low\" stands with _median and _high" },
        { "\"multimodal_low\": 1.2, \"multimodal_median\": 1.1, \"multimodal_high\": 1.9",
          "/multimodal_low: \"multimodal_low\" stands with _median and _high" },
    };
    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
        struct arena *arena = arena_create();
        struct error err = { 0 };
        const char *content = arena_format(
            arena,
            "{ \"description\": \"\", \"calibrated_inside\": 0.07, \"calibrated_outside\": 0.08, "
            "\"relative_inside\": 0.13, \"relative_outside\": 0.14, \"lost_least\": 0.3, %s }",
            cases[i].keys);
        struct json *json = json_parse("bands.json", content, strlen(content), &err);
        struct step_bands bands;
        assert_non_null(json);
        assert_false(step_bands_read(arena, json, &bands, &err));
        if (strstr(err.text, cases[i].want) == NULL) fail_msg("got %s", err.text);
        json_destroy(json);
        arena_destroy(arena);
    }
}

int main(void) {
    const struct CMUnitTest tests[] = { cmocka_unit_test(test_width),
                                        cmocka_unit_test(test_mistakes) };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
