/* test_batch_shape.c - samples of native resolution as the layers of an encoder see them. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>
#include "sim/step/batch_shape.h"

#define SCENARIOS BALLAST_SOURCE_DIR "/scenarios"

/* Sample 0: one image of 1120 x 1120 pixels; 1: four of 560 x 560; 2: text. Patches of 14. */
static void native_images_are_sequences_of_their_own(void **state) {
    (void)state;
    struct arena *arena = arena_create();
    struct error err = { 0 };
    const struct model *model = model_load(arena, SCENARIOS, "qwen2-vl-7b", &err);
    if (model == NULL) fail_msg("%s", err.text);
    struct sample samples[] = { { 1700, 1, 0 }, { 1700, 4, 0 }, { 50, 0, 0 } };
    uint32_t patches[] = { 6400, 6400, 0 };
    uint64_t squares[] = { 6400 * 6400, 4 * 1600 * 1600, 0 };
    const struct dataset dataset = {
        .samples = samples, .sample_count = 3, .vision_patches = patches, .vision_squares = squares
    };
    static const struct {
        const char *name;
        uint32_t items[3];
        int64_t count, tokens, connector;
        double squares;
    } cases[] = {
        { "one image", { 0 }, 1, 6400, 1600, 6400.0 * 6400 },
        { "four images: a quarter", { 1 }, 1, 6400, 1600, 6400.0 * 6400 / 4 },
        { "text", { 2 }, 1, 0, 0, 0 },
        { "all", { 2, 1, 0 }, 3, 12800, 3200, 6400.0 * 6400 * 1.25 },
    };
    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
        struct batch_shape shape =
            batch_shape_of_group(model, &dataset, cases[i].items, cases[i].count, true);
        if (shape.vision_tokens != cases[i].tokens ||
            shape.connector_tokens != cases[i].connector ||
            shape.vision_square_sum != cases[i].squares)
            fail_msg("%s: %ld tokens, %ld of the connector, %.0f squares", cases[i].name,
                     (long)shape.vision_tokens, (long)shape.connector_tokens,
                     shape.vision_square_sum);
    }
    arena_destroy(arena);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(native_images_are_sequences_of_their_own),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
