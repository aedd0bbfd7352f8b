/* test_measured_run.c - cells that name what runs beside compute, and lengths in thousands. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>
#include "tests/unit/study/measured/measured_fixture.h"

static void test_overlap(void **state) {
    (void)state;
    static const struct {
        const char *cell;
        bool known, gradients, parameters, tensor; /* where the stack says gradients alone */
    } cases[] = {
        { "", true, true, false, false },
        { "none", true, false, false, false },
        { "parameters", true, false, true, false },
        { "gradients;parameters;tensor", true, true, true, true },
        { "gradients;optimizer", false, false, false, false },
        { "none;gradients", false, false, false, false },
        { "gradients;none", false, false, false, false },
        { "gradient_steps", false, false, false, false }, /* no word that another begins */
    };
    enum { COUNT = sizeof cases / sizeof cases[0] };
    struct arena *arena = arena_create();
    struct measured_runs runs;
    const char *text = "row_id,hardware,gpu_count,iter_time_s,overlap\n";
    for (int i = 0; i < COUNT; i++)
        text = arena_format(arena, "%srow%d,h100,8,1,%s\n", text, i, cases[i].cell);
    runs_of_text(arena, text, &runs);
    for (int i = 0; i < COUNT; i++) {
        const struct measured_run *run = &runs.rows[i];
        if ((run->mistake == NULL) != cases[i].known)
            fail_msg("%s: %s", cases[i].cell, run->mistake);
        if (!cases[i].known) continue;
        if (measured_run_overlaps(run, "gradients", true) != cases[i].gradients ||
            measured_run_overlaps(run, "parameters", false) != cases[i].parameters ||
            measured_run_overlaps(run, "tensor", false) != cases[i].tensor)
            fail_msg("\"%s\" is read as another word", cases[i].cell);
    }
    arena_destroy(arena);
}

/* "128k" tokens, and no other thousands. */
static void test_lengths(void **state) {
    (void)state;
    static const struct {
        const char *cell;
        int64_t tokens; /* -1: a mistake */
    } cases[] = { { "4096", 4096 }, { "4k", 4096 },   { "128K", 131072 }, { "1024k", 1048576 },
                  { "k", -1 },      { "4kb", -1 },    { "4.5k", -1 },     { "-4k", -1 },
                  { "0k", -1 },     { "999999k", -1 } };
    enum { COUNT = sizeof cases / sizeof cases[0] };
    struct arena *arena = arena_create();
    struct measured_runs runs;
    const char *text = "row_id,hardware,gpu_count,iter_time_s,seq_len\n";
    for (int i = 0; i < COUNT; i++)
        text = arena_format(arena, "%srow%d,h100,8,1,%s\n", text, i, cases[i].cell);
    runs_of_text(arena, text, &runs);
    for (int i = 0; i < COUNT; i++) {
        const struct measured_run *run = &runs.rows[i];
        if ((run->mistake == NULL) != (cases[i].tokens > 0) ||
            (run->mistake == NULL && run->seq_len != cases[i].tokens))
            fail_msg("%s: %ld", cases[i].cell, (long)run->seq_len);
    }
    arena_destroy(arena);
}

int main(void) {
    const struct CMUnitTest tests[] = { cmocka_unit_test(test_overlap),
                                        cmocka_unit_test(test_lengths) };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
