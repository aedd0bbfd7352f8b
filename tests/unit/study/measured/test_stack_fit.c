/* test_stack_fit.c - a fit finds a slowdown that the rows were given, and says what it leaves out. */
#include <math.h>
#include <string.h>
#include "sim/study/measured/stack_fit.h"
#include "sim/study/measured/validation.h"
#include "tests/unit/study/measured/measured_fixture.h"

static const struct scenario_options options = { .directory = BALLAST_SOURCE_DIR "/scenarios" };
static const char header[] =
    "row_id,source,layers,hidden,ffn_hidden,ffn,heads,vocab,seq_len,hardware,gpu_count,tp,"
    "zero_stage,micro_batch,global_batch,precision,stack,iter_time_s\n";
/* Runs of one GPU, so that a step is kernels alone; pytorch-fsdp2 on V100 has no factor yet. */
static const char *const shapes[] = { "24,2048,8192,gelu,16,50304,2048,v100-32g-sxm,1,1,0,1,8",
                                      "16,3072,8192,swiglu,24,32000,2048,v100-32g-sxm,1,1,0,1,8" };

static void write_file(const char *path, const char *text) {
    FILE *file = fopen(path, "w");
    assert_non_null(file);
    fputs(text, file);
    assert_int_equal(fclose(file), 0);
}

static const char *rows_of(struct arena *arena, const double *seconds) {
    const char *text = header;
    for (int i = 0; i < 2; i++)
        text = arena_format(arena, "%srow-%d,us,%s,fp16,pytorch-fsdp2,%.9g\n", text, i, shapes[i],
                            seconds[i]);
    return text;
}

static void predict(const char *path, double *seconds) {
    struct error err = { 0 };
    struct validation *v = validation_run(&options, &path, 1, NULL, NULL, &err);
    if (v == NULL) fail_msg("%s", err.text);
    for (int i = 0; i < 2; i++) {
        if (v->rows[i].skip != SKIP_NOTHING) fail_msg("row %d: %s", i, v->rows[i].skip_detail);
        seconds[i] = v->rows[i].predicted_s;
    }
    validation_destroy(v);
}

static void test_finds_a_slowdown(void **state) {
    (void)state;
    char path[64];
    snprintf(path, sizeof path, "test_stack_fit_%ld.csv", (long)getpid());
    struct arena *arena = arena_create();
    double seconds[2] = { 1, 1 };
    write_file(path, rows_of(arena, seconds));
    predict(path, seconds);
    for (int i = 0; i < 2; i++)
        seconds[i] *= 1.25;
    write_file(path, rows_of(arena, seconds));
    struct error err = { 0 };
    const struct stack_fit *fit = stack_fit_run(arena, &options, path, NULL, NULL, NULL, &err);
    remove(path);
    if (fit == NULL) fail_msg("%s", err.text);
    assert_int_equal(fit->group_count, 1);
    assert_int_equal(fit->skip_count, 0);
    const struct stack_fit_group *g = &fit->groups[0];
    assert_string_equal(g->stack->name, "pytorch-fsdp2");
    assert_string_equal(g->factor.gpu, "v100");
    assert_int_equal(g->factor.precision, PRECISION_BF16); /* all of 16 bits are one */
    assert_int_equal(g->row_count, 2);
    assert_string_equal(g->factor.calibrated_on[1], "row-1");
    assert_false(g->was_calibrated);
    const double slower = g->factor.kernel_time_factor / g->before_kernel;
    if (fabs(slower / 1.25 - 1) > 0.01 || g->factor.fit_error > 0.01)
        fail_msg("%g times slower, rows %g off", slower, g->factor.fit_error);
    arena_destroy(arena);
}

/* What cannot be fitted is named; nothing left to fit, an id that is not there and a time that no
 * factor explains are errors. */
static void test_left_out(void **state) {
    (void)state;
    static const char *const missing[] = { "nobody", NULL }, *const second[] = { "row-1", NULL };
    static const struct {
        double seconds[2];
        const char *const *row_ids;
        const char *want; /* of the error; NULL: one row is left out */
    } cases[] = {
        { { 0.5, NAN }, NULL, NULL },
        { { 0.5, NAN }, second, "can be fitted" },
        { { 0.5, 0.5 }, missing, "has no row \"nobody\"" },
        { { 1e6, 1e6 }, NULL, "would need kernels of" },
    };
    char path[64];
    snprintf(path, sizeof path, "test_stack_fit_%ld.csv", (long)getpid());
    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
        struct arena *arena = arena_create();
        const char *text = header;
        for (int k = 0; k < 2; k++)
            text = arena_format(
                arena, "%srow-%d,us,%s,fp16,pytorch-fsdp2,%s\n", text, k, shapes[k],
                isnan(cases[i].seconds[k]) ? "" : arena_format(arena, "%g", cases[i].seconds[k]));
        write_file(path, text);
        struct error err = { 0 };
        const struct stack_fit *fit =
            stack_fit_run(arena, &options, path, cases[i].row_ids, NULL, NULL, &err);
        remove(path);
        if ((fit == NULL) != (cases[i].want != NULL)) fail_msg("case %zu: %s", i, err.text);
        if (fit == NULL && strstr(err.text, cases[i].want) == NULL)
            fail_msg("case %zu: %s", i, err.text);
        if (fit != NULL) {
            assert_int_equal(fit->skip_count, 1);
            assert_string_equal(fit->skips[0].row_id, "row-1");
            assert_non_null(strstr(fit->skips[0].reason, "no step time"));
        }
        arena_destroy(arena);
    }
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_finds_a_slowdown),
        cmocka_unit_test(test_left_out),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
