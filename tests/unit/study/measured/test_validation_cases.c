/* test_validation_cases.c - which rows are one case. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>
#include "sim/study/measured/validation.h"
#include "tests/unit/study/measured/measured_fixture.h"

/* Software and readings leave a row in its case; all that changes the work of a step does not. */
static void test_cells(void **state) {
    (void)state;
    static const struct {
        const char *column, *first, *second;
        bool one_case;
    } cases[] = {
        { "stack", "nemo-2024", "nemo-2025", true },
        { "attention", "naive", "flash", true },
        { "notes", "a line", "another", true },
        { "dp", "8", "", true },
        { "source", "this", "that", false },
        { "layers", "32", "31", false },
        { "ffn", "gelu", "swiglu", false },
        { "vocab", "32000", "50257", false },
        { "kv_heads", "8", "32", false },
        { "head_dim", "64", "128", false },
        { "sp", "0", "1", false },
        { "pp", "1", "2", false },
        { "schedule", "1f1b", "gpipe", false },
        { "gpus_per_node", "4", "8", false },
        { "nic_Gbit_per_s_per_gpu", "", "400", false },
        { "micro_batch", "1", "2", false },
        { "precision", "bf16", "fp8", false },
        { "recompute", "none", "full", false },
        { "lora_rank", "", "16", false },
        { "vision_model", "", "internvit-6b", false },
        { "images_per_sample", "1", "2", false },
        { "image_wh", "448x448", "896x896", false },
        { "frozen", "", "vision", false },
    };
    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
        struct arena *arena = arena_create();
        struct validation v = { 0 };
        const char *text =
            arena_format(arena,
                         "row_id,hardware,gpu_count,iter_time_s,%s\n"
                         "a,h100,8,1,%s\nb,h100,8,2,%s\nc,h100,16,1,%s\n",
                         cases[i].column, cases[i].first, cases[i].second, cases[i].first);
        runs_of_text(arena, text, &v.runs);
        v.rows = arena_array(arena, struct validation_row, v.runs.count);
        for (int64_t k = 0; k < v.runs.count; k++)
            v.rows[k].measured = &v.runs.rows[k];
        validation_find_cases(&v);
        assert_int_equal(v.rows[0].case_row, 0);
        assert_int_equal(v.rows[2].case_row, 2);
        if ((v.rows[1].case_row == 0) != cases[i].one_case)
            fail_msg("%s: %s and %s", cases[i].column, cases[i].first, cases[i].second);
        arena_destroy(arena);
    }
}

int main(void) {
    const struct CMUnitTest tests[] = { cmocka_unit_test(test_cells) };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
