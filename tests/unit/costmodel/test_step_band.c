/* test_step_band.c - which width a stack takes. */
#include <stdarg.h>
#include <setjmp.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>

#include <string.h>
#include "costmodel/step_band.h"

static const char text[] =
    "{ \"description\": \"\", \"calibrated_inside\": 0.07, \"calibrated_outside\": 0.08,"
    "  \"relative_inside\": 0.13, \"relative_outside\": 0.14, \"unknown\": 0.16,"
    "  \"stacks\": [ { \"stack\": \"seen\", \"gpu\": \"h100\", \"inside\": 0.05, \"outside\": 0.06,"
    "                  \"rows\": 9 } ] }";

static void test_width(void **state) {
    (void)state;
    static const struct {
        const char *stack, *gpu;
        bool calibrated, inside;
        double want;
    } cases[] = {
        { "seen", "h100-80g-sxm", true, true, 0.05 },
        { "seen", "h100-80g-sxm", true, false, 0.06 },
        { "seen", "h200-sxm", true, true, 0.13 },   /* no row of it was held back there */
        { "fitted", "h100-80g-sxm", true, true, 0.13 }, /* all its rows were fitted on */
        { "seen", "h100-80g-sxm", false, true, 0.13 },
        { NULL, "h100-80g-sxm", true, false, 0.14 },
    };
    struct error err = { 0 };
    struct arena *arena = arena_create();
    struct json *json = json_parse("bands.json", text, strlen(text), &err);
    struct step_bands bands;
    if (json == NULL || !step_bands_read(arena, json, &bands, &err)) fail_msg("%s", err.text);
    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++)
        assert_true(step_band_fraction(&bands, cases[i].stack, cases[i].gpu, cases[i].calibrated,
                                       cases[i].inside) == cases[i].want);
    json_destroy(json);
    arena_destroy(arena);
}

int main(void) {
    const struct CMUnitTest tests[] = { cmocka_unit_test(test_width) };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
