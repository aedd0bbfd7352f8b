/* test_measured_cards.c - names of hardware that count GPUs, and those that have other numbers. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>
#include <cmocka.h>
#include "sim/study/measured/measured_row.h"

static void test_counts(void **state) {
    (void)state;
    static const struct {
        const char *name;
        int64_t count, per_node;
    } cases[] = {
        { "8x H100", 8, 0 },
        { "8xH100", 8, 0 },
        { "8 x NVIDIA A100-SXM4-80GB", 8, 0 },
        { "8*A100", 8, 0 },
        { "8 H100", 8, 0 },
        { "A100-SXM4-80GB x8", 8, 0 },
        { "H100 x 16", 16, 0 },
        { "4 nodes x 8 H100", 32, 8 },
        { "4 nodes of 8x H100", 32, 8 },
        { "2x8 H100", 16, 8 },
        { "H100", 0, 0 },
        { "NVIDIA H100 80GB HBM3", 0, 0 },
        { "80GB H100", 0, 0 },
        { "80 GB A100", 0, 0 },
        { "4 nodes", 0, 0 },
        { "h100-80g-sxm", 0, 0 },
        { "GB200 NVL72", 0, 0 },
        { "0x H100", 0, 0 },
        { "99999999999x H100", 0, 0 },
        { "", 0, 0 },
    };
    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
        const struct measured_cards got = measured_cards_of(cases[i].name);
        if (got.count != cases[i].count || got.per_node != cases[i].per_node)
            fail_msg("\"%s\": %ld, %ld a node", cases[i].name, (long)got.count, (long)got.per_node);
    }
}

int main(void) {
    const struct CMUnitTest tests[] = { cmocka_unit_test(test_counts) };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
