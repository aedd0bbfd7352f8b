/* test_uneven_guide.c - the figures that the guide to uneven pipelines prints, with their parts. */
#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>
#include "sim/policy/partition/uneven_guide.h"

/* Qwen2-7B behind encoders of 28 layers; one image of 224 pixels in patches of 14, 1024 tokens. */
static struct uneven_guide_model guide_model(int64_t hidden) {
    return (struct uneven_guide_model){ .vision_layers = 28,
                                        .vision_hidden = hidden,
                                        .vision_ffn = 4 * hidden,
                                        .patch = 14,
                                        .channels = 3,
                                        .adaptor_in = hidden,
                                        .adaptor_out = 3584,
                                        .language_layers = 28,
                                        .language_hidden = 3584,
                                        .language_ffn = 18944 };
}
static const struct uneven_guide_batch guide_batch = { 256, 256 * 256, 256, 1024, 1024 * 1024 };

static void test_cases(void **state) {
    (void)state;
    static const struct {
        int64_t hidden, first, last;
        double vision, adaptor, total, quotient;
    } cases[] = {
        { 1280, 13, 15, 0.87491346432e12, 0.00704643072e12, 34.344050098176e12, 14.36900 },
        { 4096, 10, 18, 8.75254775808e12, 0.022548578304e12, 42.23718653952e12, 17.67136 },
        { 8000, 0, 28, 33.213530112e12, 0.044040192e12, 66.719660507136e12, 27.91443 },
    };
    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
        struct uneven_guide_model model = guide_model(cases[i].hidden);
        struct uneven_guide_flop flop = uneven_guide_flop(&model, &guide_batch);
        assert_true(fabs(flop.vision - cases[i].vision) < 1e5);
        assert_true(fabs(flop.adaptor - cases[i].adaptor) < 1e5);
        assert_true(fabs(flop.language_layer - 1.195074650112e12) < 1e5);
        assert_true(fabs(flop.total - cases[i].total) < 1e5);
        assert_true(fabs(flop.total / 2 / flop.language_layer - cases[i].quotient) < 1e-5);
        int64_t first, middle, last;
        uneven_guide_split(&flop, 28, 2, &first, &middle, &last);
        if (first != cases[i].first || last != cases[i].last)
            fail_msg("width %ld: got %ld and %ld", (long)cases[i].hidden, (long)first, (long)last);
    }
}

/* 122.647 GB and 61.350 GB, to the byte. */
static void test_memory(void **state) {
    (void)state;
    struct uneven_guide_model model = guide_model(4096);
    struct uneven_guide_memory one = uneven_guide_memory(&model, 224, 1024, 1, 1, 10);
    assert_int_equal(one.vision_layer_parameters, 201379840);
    assert_true(one.vision_layer_static == 3222077440.0);
    assert_true(one.vision_layer_activations == 35651584);
    assert_true(one.patch_embedding == 38836224);
    assert_true(one.vision == 91255248896.0);
    assert_int_equal(one.language_layer_parameters, 187222016);
    assert_true(one.language_layer_static == 2995552256.0);
    assert_true(one.language_layer_activations == 143654912);
    assert_true(one.language == 31392071680.0);
    assert_true(one.total == 122647320576.0);
    struct uneven_guide_memory two = uneven_guide_memory(&model, 224, 1024, 1, 2, 10);
    assert_true(two.vision == 45652547584.0);
    assert_true(two.language == 15697756160.0);
    assert_true(two.total == 61350303744.0);
}

/* Whatever the encoder weighs: all layers, none negative, and the encoder's stage gets the
 * fewest. */
static void test_split_is_whole(void **state) {
    (void)state;
    for (int64_t stages = 2; stages <= 12; stages++)
        for (int64_t layers = stages; layers <= 40; layers++)
            for (int encoder = 0; encoder <= 60; encoder++) {
                struct uneven_guide_flop flop = { .vision = encoder, .language_layer = 1 };
                flop.total = (double)(encoder + layers);
                int64_t first, middle, last;
                uneven_guide_split(&flop, layers, stages, &first, &middle, &last);
                if (first < (encoder == 0) || last < 1 || (stages > 2 && middle < 1) ||
                    first + middle * (stages - 2) + last != layers)
                    fail_msg("%ld layers, encoder of %d, %ld stages: %ld %ld %ld", (long)layers,
                             encoder, (long)stages, (long)first, (long)middle, (long)last);
                if (encoder > layers) assert_int_equal(first, 0);
            }
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_cases),
        cmocka_unit_test(test_memory),
        cmocka_unit_test(test_split_is_whole),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
