/* test_measured_release.c - versions of frameworks and their years. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>
#include <cmocka.h>
#include "sim/study/measured/measured_row.h"

static void test_years(void **state) {
    (void)state;
    static const struct {
        const char *text;
        int64_t year;
    } cases[] = {
        { "transformers 4.36 FSDP", 2023 },
        { "transformers==4.49.0", 2025 },
        { "transformers 5.0", 2026 },
        { "PyTorch 1.13 FSDP", 2022 },
        { "torch 2.1.2+cu121", 2023 },
        { "PyTorch v2.6.0rc1", 2025 },
        { "DeepSpeed 0.12 ZeRO-3", 2023 },
        { "Megatron-LM v2.6", 2021 },
        { "Megatron-LM v3.0", 2022 },
        { "torchtitan v0.1", 2025 },
        { "TRL 1.13", 2026 },
        { "torchtitan 9.9", 0 },
        { "torch", 0 },
        { "PyTorch FSDP, 2.7B", 0 },
        { "pytorch 2.7B model", 0 },
        { "LLaMA 2.1", 0 },
        { "Megatron-LM 23.06", 0 },
        { "", 0 },
    };
    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++)
        if (measured_release_year(cases[i].text) != cases[i].year)
            fail_msg("\"%s\": %ld", cases[i].text, (long)measured_release_year(cases[i].text));
}

static void test_years_beside(void **state) {
    (void)state;
    assert_int_equal(measured_release_year_under("HF Trainer", "with transformers 4.31"), 2023);
    assert_int_equal(measured_release_year_under("PyTorch FSDP", "torch 2.1.2"), 2023);
    assert_int_equal(measured_release_year_under("Megatron-LM", "Megatron-LM v2.5"), 2021);
    assert_int_equal(measured_release_year_under("Megatron-LM", "torch 2.1.2"), 0);
    assert_int_equal(measured_release_year_under("nanotron", "transformers 4.31"), 0);
}

static void test_says_releases(void **state) {
    (void)state;
    static const struct {
        const char *text, *releases;
        bool says;
    } cases[] = {
        { "TRL 1.13", "trl 1.13-", true },
        { "by trl==1.13.0 on two GPUs", "trl 1.13-", true },
        { "TRL v1.20", "trl 1.13-", true },
        { "TRL 2.0", "trl 1.13-", true },
        { "TRL 1.12", "trl 1.13-", false },
        { "TRL 1.7", "trl 1.13-", false },
        { "TRL 1.12.1", "trl 1.8-1.12", true },
        { "TRL 1.8", "trl 1.8-1.12", true },
        { "TRL 1.13", "trl 1.8-1.12", false },
        { "TRL 0.9", "trl 1.8-1.12", false },
        { "PyTorch 2.5.1", "torch 2.5-2.5", false },
        { "PyTorch 2.5.1", "pytorch 2.5-2.5", true },
        { "TRL", "trl 1.13-", false },
        { "control 1.13", "trl 1.13-", false },
        { "TRL 1.13", "trl", false },
        { "TRL 1.13", "trl x-", false },
    };
    struct arena *arena = arena_create();
    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++)
        if (measured_release_says(arena, cases[i].text, cases[i].releases) != cases[i].says)
            fail_msg("\"%s\", \"%s\"", cases[i].text, cases[i].releases);
    arena_destroy(arena);
}

static void test_dated(void **state) {
    (void)state;
    static const struct {
        const char *text, *months;
        bool says;
    } cases[] = {
        { "log of 2025-10-15", "2025-08:", true },
        { "log of 2025-10", "2025-08:2025-12", true },
        { "log of 2025-07-31, read on 2026-01-02", "2025-08:", false },
        { "January 2026", "2025-08:", true },
        { "September 2025.", "2025-08:2025-12", true },
        { "January 2026", "2025-08:2025-12", false },
        { "torchtitan 2025", "2025-08:", false },
        { "12025-10", "2025-08:", false },
        { "2025-100", "2025-08:", false },
        { "2025-13-01", "2025-08:", false },
        { "", "2025-08:", false },
    };
    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++)
        if (measured_text_is_dated(cases[i].text, cases[i].months) != cases[i].says)
            fail_msg("\"%s\", \"%s\"", cases[i].text, cases[i].months);
}

int main(void) {
    const struct CMUnitTest tests[] = { cmocka_unit_test(test_years),
                                        cmocka_unit_test(test_years_beside),
                                        cmocka_unit_test(test_says_releases),
                                        cmocka_unit_test(test_dated) };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
