/* test_surface.c - robust kriging: a known surface is found between its points, whatever outliers
 * say. */
#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>
#include "calibrate/fit/surface.h"

enum { SIDE = 24, POINT_COUNT = SIDE * SIDE };

static double truth(double x, double y) {
    return 0.2 * sin(x / 2) + 0.1 * y / SIDE;
}

/* One point in nine is half again as slow as it should be; the others are off by up to 1 %. */
static double measured(int i, double x, double y) {
    return truth(x, y) + 0.01 * sin(7.0 * i) + (i % 9 == 4 ? 0.4 : 0);
}

static const struct surface_kernel kernel = { 2, 1, { { 1, { 8, 8 } } } };

static struct surface make(struct arena *arena, double (*at)[SURFACE_FEATURE_MAX], double *value) {
    for (int i = 0; i < POINT_COUNT; i++) {
        at[i][0] = i % SIDE;
        at[i][1] = (double)(i / SIDE);
        value[i] = measured(i, at[i][0], at[i][1]);
    }
    return surface_create(arena, &kernel, POINT_COUNT, (const double(*)[SURFACE_FEATURE_MAX])at,
                          value);
}

static void test_outliers_do_not_pull(void **state) {
    (void)state;
    struct arena *arena = arena_create();
    double(*at)[SURFACE_FEATURE_MAX] = arena_alloc(arena, POINT_COUNT * sizeof *at);
    const struct surface surface = make(arena, at, arena_array(arena, double, POINT_COUNT));
    double worst = 0;
    for (double x = 2.5; x < SIDE - 2; x++)
        for (double y = 2.5; y < SIDE - 2; y++) {
            const double where[SURFACE_FEATURE_MAX] = { x, y };
            worst = fmax(worst, fabs(surface_at(&surface, where) - truth(x, y)));
        }
    if (!(worst < 0.06)) fail_msg("an outlier of 0.4 pulls the surface by %g", worst);
    for (int i = 0; i < POINT_COUNT; i++)
        if (!(surface.variance[i] > 0) || !isfinite(surface.held_back_value[i]))
            fail_msg("point %d: variance %g, held back %g", i, surface.variance[i],
                     surface.held_back_value[i]);
    arena_destroy(arena);
}

/* A point's own value must not be part of its held-back prediction. */
static void test_held_back_is_blind(void **state) {
    (void)state;
    struct arena *arena = arena_create();
    double(*at)[SURFACE_FEATURE_MAX] = arena_alloc(arena, POINT_COUNT * sizeof *at);
    const struct surface surface = make(arena, at, arena_array(arena, double, POINT_COUNT));
    for (int i = 4; i < POINT_COUNT; i += 9) {
        const double off = surface.held_back_value[i] - truth(at[i][0], at[i][1]);
        if (!(fabs(off) < 0.15)) fail_msg("outlier %d is predicted %g off the truth", i, off);
    }
    arena_destroy(arena);
}

static void test_far_away(void **state) {
    (void)state;
    struct arena *arena = arena_create();
    double(*at)[SURFACE_FEATURE_MAX] = arena_alloc(arena, POINT_COUNT * sizeof *at);
    const struct surface surface = make(arena, at, arena_array(arena, double, POINT_COUNT));
    const double far[SURFACE_FEATURE_MAX] = { 1e4, 1e4 };
    assert_true(fabs(surface_at(&surface, far)) < 1e-6);
    arena_destroy(arena);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_outliers_do_not_pull),
        cmocka_unit_test(test_held_back_is_blind),
        cmocka_unit_test(test_far_away),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
