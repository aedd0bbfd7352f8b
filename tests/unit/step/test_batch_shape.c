/* test_batch_shape.c - samples, tiles, clips and images of native resolution as the layers see
 * them. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>
#include <math.h>
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

/* 5000 of 8192 tokens, in samples of 3000 and 2000. */
static void a_sequence_is_padded_and_masked(void **state) {
    (void)state;
    static const struct {
        int64_t sequence_tokens;
        bool joint;
        int64_t tokens;
        double squares;
    } cases[] = {
        { 0, false, 5000, 13e6 },
        { 0, true, 5000, 25e6 },
        { 8192, false, 8192, 13e6 + 3192.0 * 3192 },
        { 8192, true, 8192, 8192.0 * 8192 },
        { 4096, false, 5000, 13e6 }, /* a longer one stays as it is */
    };
    const struct model *model = &(struct model){ .modules[MODULE_LANGUAGE] = { .layer_count = 1 } };
    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
        struct batch_shape shape = { .language_tokens = 5000,
                                     .useful_language_tokens = 5000,
                                     .language_square_sum = 13e6 };
        batch_shape_as_sequence(&shape, model, cases[i].sequence_tokens, cases[i].joint);
        assert_int_equal(shape.language_tokens, cases[i].tokens);
        assert_int_equal(shape.useful_language_tokens, 5000);
        assert_true(shape.language_square_sum == cases[i].squares);
    }
}

/* Three of four blocks see 1000 tokens back: each token of a longer sequence 1000 others, but the
 * first thousand fewer. Six of seven blocks of the encoder attend within windows of 64 patches. */
static void windows_count_as_the_mean_block(void **state) {
    (void)state;
    const struct model model = {
        .modules[MODULE_LANGUAGE] = { .layer_count = 4,
                                      .attention_window = 1000,
                                      .full_attention_blocks = 1 },
        .modules[MODULE_VISION] = { .layer_count = 7,
                                    .attention_window = 64,
                                    .full_attention_blocks = 1,
                                    .merge = 2 },
    };
    struct sample samples[] = { { 3000, 1, 0 }, { 800, 1, 0 } };
    uint32_t patches[] = { 6400, 64 };
    uint64_t squares[] = { 6400 * 6400, 64 * 64 };
    const struct dataset dataset = {
        .samples = samples, .sample_count = 2, .vision_patches = patches, .vision_squares = squares
    };
    const uint32_t items[] = { 0, 1 };
    /* 2 x (1000 x 3000 - 1000 x 1000 / 2) */
    const double of_3000 = (3000.0 * 3000 + 3 * 5e6) / 4;
    struct batch_shape shape = batch_shape_of_group(&model, &dataset, items, 2, true);
    assert_true(shape.language_square_sum == of_3000 + 800.0 * 800);
    assert_true(fabs(shape.vision_square_sum - ((6400.0 * 6400 + 6 * 64 * 6400.0) / 7 + 64 * 64)) <
                1e-3);
    shape = batch_shape_of_group(&model, &dataset, items, 2, false); /* padded to 3000 */
    assert_true(shape.language_square_sum == 2 * of_3000);
    batch_shape_as_sequence(&shape, &model, 0, true);
    assert_true(shape.language_square_sum == (6000.0 * 6000 + 3 * 11e6) / 4);
    /* Continuous where the window begins, and without one as it was. */
    assert_true(module_sequence_square(&model.modules[MODULE_LANGUAGE], 1000) == 1e6);
    const struct module plain = { .layer_count = 4 };
    assert_true(module_sequence_square(&plain, 3000) == 9e6);
    assert_true(module_image_squares(&plain, 6400, 5e7) == 5e7);
}

/* Pieces of a micro-batch of clips: every clip and token once, and nearly equal. */
static void test_pieces_of_clips_add_up(void **state) {
    (void)state;
    struct batch_shape whole = { .samples = 7,
                                 .language_tokens = 1234,
                                 .language_square_sum = 9e5,
                                 .useful_language_tokens = 1200,
                                 .video_clips = 7,
                                 .video_tokens = 71003,
                                 .video_square_sum = 8.5e8,
                                 .cross_square_sum = 1.3e7 };
    for (int64_t pieces = 1; pieces <= 7; pieces++) {
        struct batch_shape sum = { 0 };
        for (int64_t i = 0; i < pieces; i++) {
            struct batch_shape p = batch_shape_piece(&whole, true, pieces, i);
            assert_true(p.video_clips >= 7 / pieces && p.video_clips <= (7 + pieces - 1) / pieces);
            sum.samples += p.samples;
            sum.language_tokens += p.language_tokens;
            sum.language_square_sum += p.language_square_sum;
            sum.useful_language_tokens += p.useful_language_tokens;
            sum.video_clips += p.video_clips;
            sum.video_tokens += p.video_tokens;
            sum.video_square_sum += p.video_square_sum;
            sum.cross_square_sum += p.cross_square_sum;
        }
        assert_int_equal(sum.samples, whole.samples);
        assert_int_equal(sum.language_tokens, whole.language_tokens);
        assert_int_equal(sum.useful_language_tokens, whole.useful_language_tokens);
        assert_int_equal(sum.video_clips, whole.video_clips);
        assert_int_equal(sum.video_tokens, whole.video_tokens);
        assert_true(fabs(sum.language_square_sum - 9e5) < 1e-3);
        assert_true(fabs(sum.video_square_sum - 8.5e8) < 1);
        assert_true(fabs(sum.cross_square_sum - 1.3e7) < 1e-2);
    }
}

/* Of four groups of six shapes: each size of each window of consecutive ones is within the mean. */
static void test_largest_window(void **state) {
    (void)state;
    enum { GROUPS = 4, EACH = 6 };
    struct batch_shape shapes[GROUPS * EACH];
    for (int64_t i = 0; i < GROUPS * EACH; i++)
        shapes[i] = (struct batch_shape){ .samples = 1,
                                          .language_tokens = 100 + i * 37 % 23 * 50,
                                          .vision_tokens = i * 41 % 17 * 1025,
                                          .language_square_sum = (double)(i * 13 % 19) * 1e4 };
    for (int64_t length = 1; length <= EACH; length++) {
        struct batch_shape got = batch_shape_largest_window(shapes, GROUPS, EACH, length);
        int64_t tokens = 0, vision = 0;
        double squares = 0;
        for (int64_t g = 0; g < GROUPS; g++)
            for (int64_t first = 0; first + length <= EACH; first++) {
                int64_t own_tokens = 0, own_vision = 0;
                double own_squares = 0;
                for (int64_t i = first; i < first + length; i++) {
                    own_tokens += shapes[g * EACH + i].language_tokens;
                    own_vision += shapes[g * EACH + i].vision_tokens;
                    own_squares += shapes[g * EACH + i].language_square_sum;
                }
                if (own_tokens > tokens) tokens = own_tokens;
                if (own_vision > vision) vision = own_vision;
                if (own_squares > squares) squares = own_squares;
            }
        assert_int_equal(got.samples, 1);
        assert_int_equal(got.language_tokens, (tokens + length - 1) / length);
        assert_int_equal(got.vision_tokens, (vision + length - 1) / length);
        assert_true(got.language_square_sum == squares / (double)length);
        assert_int_equal(got.video_tokens, 0);
    }
}

static void test_shape_of_a_group(void **state) {
    (void)state;
    struct arena *arena = arena_create();
    struct error err = { 0 };
    const struct model *model = model_load(arena, SCENARIOS, "internvl-6b-8b", &err);
    assert_non_null(model);
    struct sample samples[] = { { 100, 2, 0 }, { 300, 0, 0 }, { 200, 1, 0 } };
    struct dataset dataset = { .samples = samples, .sample_count = 3 };
    static const uint32_t all[] = { 0, 1, 2 };
    struct batch_shape packed = batch_shape_of_group(model, &dataset, all, 3, true);
    assert_int_equal(packed.samples, 3);
    assert_int_equal(packed.vision_tiles, 3);
    assert_int_equal(packed.vision_tokens, 3 * 1025);
    assert_true(packed.vision_square_sum == 3 * 1025.0 * 1025.0);
    assert_int_equal(packed.connector_tokens, 3 * 256);
    assert_int_equal(packed.language_tokens, 600);
    assert_int_equal(packed.useful_language_tokens, 600);
    assert_true(packed.language_square_sum == 1e4 + 9e4 + 4e4);
    struct batch_shape padded = batch_shape_of_group(model, &dataset, all, 3, false);
    assert_int_equal(padded.language_tokens, 900);
    assert_int_equal(padded.useful_language_tokens, 600);
    assert_true(padded.language_square_sum == 3 * 9e4);
    struct batch_shape mean = batch_shape_mean((struct batch_shape[]){ packed, padded }, 2);
    assert_int_equal(mean.language_tokens, 750);
    assert_true(mean.language_square_sum == (14e4 + 27e4) / 2);
    arena_destroy(arena);
}

static void test_shape_of_clips(void **state) {
    (void)state;
    struct arena *arena = arena_create();
    struct error err = { 0 };
    const struct model *model = model_load(arena, SCENARIOS, "t2v-s", &err);
    assert_non_null(model);
    struct sample samples[] = { { 100, 0, 0 }, { 300, 0, 0 }, { 200, 0, 0 } };
    uint32_t clip_ms[] = { 16000, 8000, 0 };
    struct dataset dataset = { .samples = samples, .sample_count = 3, .clip_ms = clip_ms };
    static const uint32_t all[] = { 0, 1, 2 };
    const double a = 73728, b = 36864;
    struct batch_shape packed = batch_shape_of_group(model, &dataset, all, 3, true);
    assert_int_equal(packed.video_clips, 2);
    assert_int_equal(packed.video_tokens, 73728 + 36864);
    assert_true(packed.video_square_sum == a * a + b * b);
    assert_true(packed.cross_square_sum == 100 * a + 300 * b);
    assert_int_equal(packed.language_tokens, 600);
    /* Padded text: each clip attends to a padded row. */
    struct batch_shape padded = batch_shape_of_group(model, &dataset, all, 3, false);
    assert_true(padded.cross_square_sum == 300 * (a + b));
    struct batch_shape mean = batch_shape_mean((struct batch_shape[]){ packed, padded }, 2);
    assert_int_equal(mean.video_tokens, 73728 + 36864);
    assert_true(mean.cross_square_sum == (packed.cross_square_sum + padded.cross_square_sum) / 2);
    /* Joined, text and video attend to both; without a clip there is nothing to join. */
    model = model_load(arena, SCENARIOS, "flux.1-dev", &err);
    assert_non_null(model);
    uint32_t images[] = { 1, 1, 0 };
    dataset.clip_ms = images;
    packed = batch_shape_of_group(model, &dataset, all, 3, true);
    assert_int_equal(packed.video_tokens, 2 * 4096);
    assert_true(packed.video_square_sum + packed.cross_square_sum == 4196. * 4196 + 4396. * 4396);
    /* Frames of a size of their own are cut to whole patches of 16 pixels; 0 is the model's. */
    struct image_size sizes[] = { { 527, 256 }, { 0, 0 }, { 7, 4000 } };
    dataset.frame_sizes = sizes;
    images[2] = 1;
    assert_int_equal(batch_clip_tokens(model, &dataset, 0), 32 * 16);
    assert_int_equal(batch_clip_tokens(model, &dataset, 1), 64 * 64);
    assert_int_equal(batch_clip_tokens(model, &dataset, 2), 1 * 250);
    packed = batch_shape_of_group(model, &dataset, all, 3, true);
    assert_int_equal(packed.video_tokens, 512 + 4096 + 250);
    dataset.frame_sizes = NULL;
    dataset.clip_ms = clip_ms;
    /* Without a decoder the clips are nothing. */
    model = model_load(arena, SCENARIOS, "llama3-8b", &err);
    assert_int_equal(batch_shape_of_group(model, &dataset, all, 3, true).video_tokens, 0);
    arena_destroy(arena);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(native_images_are_sequences_of_their_own),
        cmocka_unit_test(test_pieces_of_clips_add_up),
        cmocka_unit_test(a_sequence_is_padded_and_masked),
        cmocka_unit_test(windows_count_as_the_mean_block),
        cmocka_unit_test(test_largest_window),
        cmocka_unit_test(test_shape_of_a_group),
        cmocka_unit_test(test_shape_of_clips),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
