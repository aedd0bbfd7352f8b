/* test_distribution.c - tests. */
#include <math.h>
#include "tests/unit/data/fixture.h"
#include "sim/data/distribution.h"

static const struct distribution *read_text(struct arena *arena, const char *text,
                                            struct error *err) {
    struct json *json = json_parse("d.json", text, strlen(text), err);
    assert_non_null(json);
    const struct distribution *d = distribution_read(arena, json, json_root(json), err);
    json_destroy(json);
    return d;
}

/* Mean and standard deviation over an even grid of u (and v): no random numbers needed. */
static void grid_moments(const struct distribution *d, double *mean, double *std) {
    enum { GRID = 4000, COMPONENT_GRID = 20 };
    double sum = 0, square_sum = 0;
    for (int i = 0; i < GRID; i++)
        for (int k = 0; k < COMPONENT_GRID; k++) {
            double x =
                (double)distribution_quantile(d, (i + 0.5) / GRID, (k + 0.5) / COMPONENT_GRID);
            sum += x;
            square_sum += x * x;
        }
    *mean = sum / (GRID * COMPONENT_GRID);
    *std = sqrt(square_sum / (GRID * COMPONENT_GRID) - *mean * *mean);
}

static void moments(void **state) {
    (void)state;
    /* Rounding to whole numbers adds about 1/12 to the variance; tolerances are relative. */
    static const struct {
        const char *text;
        double mean, std, mean_tolerance, std_tolerance;
    } cases[] = {
        { "256", 256, 0, 0, 0 },
        { "{\"distribution\":\"constant\",\"value\":7}", 7, 0, 0, 0 },
        { "{\"distribution\":\"uniform\",\"min\":1,\"max\":100}", 50.5, 28.866, 1e-3, 1e-3 },
        { "{\"distribution\":\"normal\",\"mean\":1000,\"std\":100}", 1000, 100, 1e-3, 3e-3 },
        { "{\"distribution\":\"normal\",\"mean\":40,\"std\":0}", 40, 0, 0, 0 },
        { "{\"distribution\":\"lognormal\",\"mean\":200,\"std\":150}", 200, 150, 2e-3, 1e-2 },
        { "{\"distribution\":\"exponential\",\"mean\":300}", 300, 300, 2e-3, 5e-3 },
        { "{\"distribution\":\"gamma\",\"mean\":6.4,\"std\":5.724}", 6.4, 5.73, 3e-3, 5e-3 },
        { "{\"distribution\":\"gamma\",\"mean\":900,\"std\":90}", 900, 90, 1e-3, 3e-3 },
        { "{\"distribution\":\"poisson\",\"mean\":11.63}", 11.63, 3.4103, 1e-3, 3e-3 },
        { "{\"distribution\":\"zipf\",\"exponent\":1,\"min\":1,\"max\":4}", 1.92, 1.0553, 1e-3,
          2e-3 },
        { "{\"distribution\":\"zipf\",\"exponent\":0,\"min\":5,\"max\":9}", 7, 1.4142, 1e-3, 1e-3 },
        { "{\"distribution\":\"histogram\",\"values\":[1,3,5],\"weights\":[2,1,1]}", 2.5, 1.6583,
          1e-3, 1e-3 },
        /* 3/4 of 10 and 1/4 of 30: mean 15, variance 75 */
        { "{\"distribution\":\"mixture\",\"components\":["
          "{\"weight\":3,\"distribution\":\"constant\",\"value\":10},"
          "{\"weight\":1,\"distribution\":\"constant\",\"value\":30}]}",
          15, 8.6603, 1e-9, 1e-4 },
        { "{\"distribution\":\"uniform\",\"min\":0,\"max\":1}", 0.5, 0.5, 1e-9, 1e-9 },
    };
    struct arena *arena = arena_create();
    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
        struct error err = { 0 };
        const struct distribution *d = read_text(arena, cases[i].text, &err);
        if (d == NULL) fail_msg("%s: %s", cases[i].text, err.text);
        double mean, std;
        grid_moments(d, &mean, &std);
        if (fabs(mean - cases[i].mean) > cases[i].mean_tolerance * cases[i].mean ||
            fabs(std - cases[i].std) > cases[i].std_tolerance * cases[i].std + 1e-6)
            fail_msg("%s: mean %.6g, std %.6g", cases[i].text, mean, std);
    }
    arena_destroy(arena);
}

static void quantiles(void **state) {
    (void)state;
    static const struct {
        const char *text;
        double u;
        int64_t want;
    } cases[] = {
        { "{\"distribution\":\"normal\",\"mean\":1000,\"std\":100}", 0.5, 1000 },
        { "{\"distribution\":\"normal\",\"mean\":1000,\"std\":100}", 0.975, 1196 },
        { "{\"distribution\":\"normal\",\"mean\":10,\"std\":100}", 0.1, 0 },
        { "{\"distribution\":\"normal\",\"mean\":10,\"std\":100,\"min\":5,\"max\":20}", 0.1, 5 },
        { "{\"distribution\":\"normal\",\"mean\":10,\"std\":100,\"min\":5,\"max\":20}", 0.9, 20 },
        { "{\"distribution\":\"uniform\",\"min\":1,\"max\":4}", 0.26, 2 },
        { "{\"distribution\":\"uniform\",\"min\":1,\"max\":4}", 0.9999999, 4 },
        { "{\"distribution\":\"exponential\",\"mean\":100}", 0.632121, 100 },
        { "{\"distribution\":\"histogram\",\"values\":[1,3,5],\"weights\":[2,1,1]}", 0.5, 1 },
        { "{\"distribution\":\"histogram\",\"values\":[1,3,5],\"weights\":[2,1,1]}", 0.51, 3 },
        { "{\"distribution\":\"histogram\",\"values\":[1,3,5],\"weights\":[0,1,0]}", 1e-9, 3 },
        { "{\"distribution\":\"histogram\",\"values\":[1,3,5],\"weights\":[2,1,1],\"max\":4}", 0.99,
          4 },
        { "{\"distribution\":\"poisson\",\"mean\":3}", 0.0497, 0 },
        { "{\"distribution\":\"poisson\",\"mean\":3}", 0.0499, 1 },
    };
    struct arena *arena = arena_create();
    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
        struct error err = { 0 };
        const struct distribution *d = read_text(arena, cases[i].text, &err);
        if (d == NULL) fail_msg("%s: %s", cases[i].text, err.text);
        int64_t got = distribution_quantile(d, cases[i].u, 0.5);
        if (got != cases[i].want)
            fail_msg("%s at %g: got %lld, want %lld", cases[i].text, cases[i].u, (long long)got,
                     (long long)cases[i].want);
    }
    arena_destroy(arena);
}

static void mistakes(void **state) {
    (void)state;
    static const struct {
        const char *text, *want; /* want begins the message */
    } cases[] = {
        { "{\"distribution\":\"gauss\",\"mean\":1}",
          "d.json:1:17: error: /distribution: unknown distribution \"gauss\"" },
        { "{\"distribution\":\"normal\",\"mean\":1}",
          "d.json:1:1: error: /: a normal distribution needs \"std\"" },
        { "{\"distribution\":\"poisson\",\"mean\":1,\"std\":2}",
          "d.json:1:42: error: /std: a poisson distribution takes no \"std\"" },
        { "{\"distribution\":\"lognormal\",\"mean\":0,\"std\":2}",
          "d.json:1:1: error: /: \"mean\" and \"std\" must be above 0" },
        { "{\"distribution\":\"uniform\",\"min\":9,\"max\":2}",
          "d.json:1:1: error: /: \"min\" is above \"max\"" },
        { "{\"distribution\":\"zipf\",\"exponent\":1,\"min\":0,\"max\":2}",
          "d.json:1:1: error: /: zipf needs a \"min\" of at least 1" },
        { "{\"distribution\":\"histogram\",\"values\":[1,2],\"weights\":[1]}",
          "d.json:1:44: error: /weights: \"weights\" must be a list of 2 numbers" },
        { "{\"distribution\":\"histogram\",\"values\":[2,1],\"weights\":[1,1]}",
          "d.json:1:41: error: /values/1: \"values\" must be whole numbers that rise" },
        { "{\"distribution\":\"histogram\",\"values\":[1,2],\"weights\":[0,0]}",
          "d.json:1:44: error: /weights: at least one weight must be above 0" },
        { "{\"distribution\":\"mixture\",\"components\":[{\"distribution\":\"mixture\","
          "\"components\":[5]}]}",
          "d.json:1:41: error: /components/0: a mixture inside a mixture" },
        { "{\"distribution\":\"poisson\",\"mean\":50000000}",
          "d.json:1:1: error: /: the distribution reaches beyond 4194304" },
        { "-5", "d.json:1:1: error: /: must be a whole number from 0 to 100000000, got -5" },
        { "\"normal\"", "d.json:1:1: error: /: \"distribution\" must be an object { ... }" },
    };
    struct arena *arena = arena_create();
    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
        struct error err = { 0 };
        if (read_text(arena, cases[i].text, &err) != NULL) fail_msg("%s: was read", cases[i].text);
        if (strncmp(err.text, cases[i].want, strlen(cases[i].want)) != 0)
            fail_msg("%s:\n got  %s\n want %s", cases[i].text, err.text, cases[i].want);
    }
    arena_destroy(arena);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(moments),
        cmocka_unit_test(quantiles),
        cmocka_unit_test(mistakes),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
