/* test_measured_run.c - cells that name what runs beside compute, and lengths in thousands. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>
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
    } cases[] = { { "4096", 4096 },     { "4k", 4096 },       { "128K", 131072 },
                  { "1024k", 1048576 }, { "k", -1 },          { "4kb", -1 },
                  { "4.5k", -1 },       { "-4k", -1 },        { "0k", -1 },
                  { "999999k", -1 },    { "8 k", 8192 },      { "8 K tokens", 8192 },
                  { "8 kb", -1 },       { "2048 max", 2048 }, { "2048 (padded)", 2048 },
                  { "1 M", -1 },        { "4096 x 2", -1 },   { "2048 tokens max", 2048 } };
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

/* A unit or a factor behind a count is not dropped. */
static void test_remarks(void **state) {
    (void)state;
    static const struct {
        const char *column, *cell;
        bool read;
    } cases[] = {
        { "gpu_count", "8 GPUs", true },
        { "gpu_count", "16 gpus (2 x 8)", true },
        { "gpu_count", "8 H100 GPUs", true },
        { "gpu_count", "8 A100-80GB", true },
        { "gpu_count", "8 L40S", true },
        { "gpu_count", "8 (one node)", false },
        { "gpu_count", "8 (1 node)", true },
        { "gpu_count", "16 (2 nodes x 8 GPUs)", true },
        { "gpu_count", "16 (8 GPUs per node)", true },
        { "gpu_count", "2 DGX-H100", false },
        { "gpu_count", "2 p5.48xlarge", false },
        { "gpu_count", "2 nodes*8", false },
        { "gpu_count", "8 (\xc3\x97 2)", false },
        { "gpu_count", "4 (servers)", false },
        { "gpu_count", "8 (per-node)", false },
        { "micro_batch", "2 (per GPU)", true },
        { "micro_batch", "2 per device", true },
        { "micro_batch",
          "1 (\xc3\x97"
          "4)",
          false },
        { "global_batch", "8 dp8", false },
        { "gpu_count", "8 (nodes) x 8 GPUs", false },
        { "gpu_count", "8 (nodes)", false },
        { "gpu_count", "8 x8", false },
        { "seq_len", "4096 (tokens) x 2", false },
        { "seq_len", "8 (k)", false },
        { "global_batch", "16 (per GPU)", false },
        { "grad_accum", "1 (x 4 accumulation)", false },
        { "gpu_count", "2 nodes x 8 GPUs", false },
        { "gpu_count", "1 node", false },
        { "gpu_count", "2 x 8", false },
        { "global_batch", "16 per GPU", false },
        { "global_batch", "128 sequences", true },
        { "global_batch", "1 M", false },
        { "micro_batch", "2 x 4", false },
        { "vocab", "128 k", false },
        { "layers", "32 + 1", false },
        { "layers", "32 layers", true },
        { "iter_time_s", "1e-300", false },
        { "iter_time_s", "1e300", false },
        { "iter_time_s", "0.002", true },
        { "peak_mem_GiB", "1e12", false },
    };
    struct arena *arena = arena_create();
    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
        const char *column = cases[i].column, *cell = cases[i].cell;
        const bool timed = strcmp(column, "iter_time_s") == 0;
        const bool counted = strcmp(column, "gpu_count") == 0;
        struct measured_runs runs;
        runs_of_text(arena,
                     arena_format(arena, "row_id,hardware,%s%s%s\nr,h100,%s%s%s\n", column,
                                  timed ? "" : ",iter_time_s", counted ? "" : ",gpu_count", cell,
                                  timed ? "" : ",1", counted ? "" : ",8"),
                     &runs);
        if ((runs.rows[0].mistake == NULL) != cases[i].read)
            fail_msg("%s %s: %s", column, cell, runs.rows[0].mistake);
    }
    arena_destroy(arena);
}

int main(void) {
    const struct CMUnitTest tests[] = { cmocka_unit_test(test_overlap),
                                        cmocka_unit_test(test_lengths),
                                        cmocka_unit_test(test_remarks) };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
