/* test_random.c - the streams equal NumPy's and PyTorch's, number for number.
 *
 * Expected values: numpy.random.RandomState(seed) and torch.randperm with torch.manual_seed(seed).
 * The 10000th output of MT19937 for seed 5489 is fixed by the C++ standard ([rand.predef]).
 */
#include <stdarg.h>
#include <setjmp.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>

#include <stdbool.h>
#include <string.h>
#include "sim/base/random.h"

static void test_ten_thousandth_output(void **state) {
    (void)state;
    struct random_mt mt;
    random_mt_seed(&mt, 5489);
    uint32_t value = 0;
    for (int i = 0; i < 10000; i++)
        value = random_mt_next(&mt);
    assert_int_equal(value, 4123659995u);
}

static void test_uniform(void **state) {
    (void)state;
    /* RandomState(0).random_sample(3) */
    static const double want[] = { 0.5488135039273248, 0.7151893663724195, 0.6027633760716439 };
    struct random_mt mt;
    random_mt_seed(&mt, 0);
    for (int i = 0; i < 3; i++) {
        double got = random_mt_uniform(&mt);
        if (got != want[i]) fail_msg("number %d: got %.17g, want %.17g", i, got, want[i]);
    }
}

static void test_numpy_shuffle(void **state) {
    (void)state;
    static const uint32_t want[20] = { 10, 8, 4,  6, 16, 14, 11, 15, 7, 19,
                                       2,  3, 13, 0, 18, 9,  5,  12, 1, 17 };
    uint32_t items[20];
    for (uint32_t i = 0; i < 20; i++)
        items[i] = i;
    struct random_mt mt;
    random_mt_seed(&mt, 1024);
    random_numpy_shuffle(&mt, items, 20);
    assert_memory_equal(items, want, sizeof want);
}

static void test_torch_permutation(void **state) {
    (void)state;
    static const struct {
        uint32_t seed;
        uint32_t want[10];
    } cases[] = {
        { 0, { 4, 1, 7, 5, 3, 9, 0, 8, 6, 2 } },
        { 42, { 2, 6, 1, 8, 4, 5, 0, 9, 3, 7 } },
    };
    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
        struct random_mt mt;
        uint32_t items[10];
        random_mt_seed(&mt, cases[i].seed);
        random_torch_permutation(&mt, items, 10);
        if (memcmp(items, cases[i].want, sizeof items) != 0)
            fail_msg("seed %u: another permutation, beginning %u %u %u", cases[i].seed, items[0],
                     items[1], items[2]);
    }
}

static void test_every_size_gives_a_permutation(void **state) {
    (void)state;
    enum { LARGEST = 1500 }; /* more than two blocks of the generator */
    static uint32_t items[LARGEST];
    struct random_mt mt;
    random_mt_seed(&mt, 7);
    for (uint32_t count = 0; count <= LARGEST; count += count < 20 ? 1 : 61)
        for (int kind = 0; kind < 2; kind++) {
            for (uint32_t i = 0; i < count; i++)
                items[i] = i;
            if (kind == 0)
                random_numpy_shuffle(&mt, items, count);
            else
                random_torch_permutation(&mt, items, count);
            bool seen[LARGEST] = { false };
            for (uint32_t i = 0; i < count; i++) {
                if (items[i] >= count || seen[items[i]])
                    fail_msg("kind %d, %u items: %u is doubled or too large", kind, count,
                             items[i]);
                seen[items[i]] = true;
            }
        }
}

static void test_stream_seeds(void **state) {
    (void)state;
    /* The first outputs of splitmix64 from 0 are 0xe220a8397b1dcdaf, 0x6e789e6aa1b965f4. */
    assert_int_equal(random_stream_seed(0, 0), 0x7b1dcdafu);
    assert_int_equal(random_stream_seed(0, 1), 0xa1b965f4u);
    assert_int_not_equal(random_stream_seed(1, 0), random_stream_seed(0, 0));
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_ten_thousandth_output),
        cmocka_unit_test(test_uniform),
        cmocka_unit_test(test_numpy_shuffle),
        cmocka_unit_test(test_torch_permutation),
        cmocka_unit_test(test_every_size_gives_a_permutation),
        cmocka_unit_test(test_stream_seeds),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
