/* test_stack_base.c - what a stack file takes of the file that it stands on, and what it must not. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>
#include <cmocka.h>
#include "costmodel/stack.h"

static void write_stack(struct arena *arena, const char *folder, const char *name,
                        const char *members) {
    FILE *file = fopen(arena_format(arena, "%s/stacks/%s.json", folder, name), "w");
    assert_non_null(file);
    fprintf(file, "{\"name\":\"%s\",\"description\":\"d\",%s}", name, members);
    assert_int_equal(fclose(file), 0);
}

/* A file takes what it does not state from its base, figures with their sources; what names a stack
 * or was measured of it stays behind. */
static void test_a_base(void **state) {
    (void)state;
    struct arena *arena = arena_create();
    struct error err = { 0 };
    char folder[] = "/tmp/ballast-test-XXXXXX";
    assert_non_null(mkdtemp(folder));
    const char *stacks = arena_format(arena, "%s/stacks", folder);
    assert_int_equal(mkdir(stacks, 0700), 0);
    static const char *const names[] = { "far", "low", "middle", "top", "bad", "stray", "round" };
    static const char factor[] = "\"factors\":[{\"gpu\":\"a100\",\"precision\":\"bf16\","
                                 "\"kernel_time_factor\":1.5,\"calibrated_on\":[\"r\"]}],";
    write_stack(arena, folder, "far", "\"year\":2023,\"backend\":\"fsdp\",\"sources\":{}");
    write_stack(arena, folder, "low",
                arena_format(arena,
                             "\"year\":2023,\"backend\":\"fsdp\",\"words\":[\"low\"],"
                             "\"loss_traffic\":2,\"norm_traffic\":3,\"multimodal_band\":0.5,"
                             "\"one_place\":true,\"relative\":\"far\",%s"
                             "\"sources\":{\"loss_traffic\":\"of low\","
                             "\"norm_traffic\":\"n\",\"multimodal_band\":\"m\"}",
                             factor));
    write_stack(arena, folder, "middle",
                "\"base\":\"low\",\"year\":2025,\"loss_traffic\":4,\"factors\":[],"
                "\"sources\":{\"loss_traffic\":\"of middle\"}");
    write_stack(arena, folder, "top", "\"base\":\"middle\"");
    const struct stack *top = stack_load(arena, folder, "top", &err);
    if (top == NULL) fail_msg("%s", err.text);
    assert_int_equal(top->year, 2025);
    assert_string_equal(top->backend, "fsdp");
    assert_true(top->loss_traffic == 4 && top->norm_traffic == 3);
    assert_true(top->words[0] == NULL && !top->one_place && !(top->multimodal_band > 0));
    /* Its kernels are those of the base that was calibrated, not of that one's relative. */
    assert_string_equal(top->relative, "low");
    assert_true(top->borrows && top->factors[0].kernel_time_factor == 1.5);
    assert_int_equal(top->cause_count, 2);
    assert_string_equal(top->causes[0].source, "of middle");
    const struct stack *low = stack_load(arena, folder, "low", &err);
    assert_true(!low->borrows && low->loss_traffic == 2 && !low->uncalibrated);
    /* What stands on a calibrated stack takes no more than it; a relative's does. */
    assert_false(stack_load(arena, folder, "middle", &err)->uncalibrated);
    assert_false(top->uncalibrated);
    write_stack(arena, folder, "stray", "\"base\":\"low\",\"relative\":\"far\"");
    assert_true(stack_load(arena, folder, "stray", &err)->uncalibrated);

    /* A path is meant from the file's own folder, here neither the stacks' nor the current one. */
    const char *aside = arena_format(arena, "%s/stray.json", folder);
    write_stack(arena, folder, "stray", "\"base\":\"stacks/low.json\"");
    assert_int_equal(rename(arena_format(arena, "%s/stray.json", stacks), aside), 0);
    const struct stack *stray = stack_load(arena, folder, aside, &err);
    if (stray == NULL) fail_msg("%s", err.text);
    assert_true(stray->loss_traffic == 2 && stray->factors[0].kernel_time_factor == 1.5);
    unlink(aside);

    static const struct {
        const char *name, *members, *want;
    } mistakes[] = {
        { "stray", "\"base\":\"midle\"", "stray.json:1:42: error: /base: no 'midle.json' in" },
        { "stray", "\"base\":\"\"", "/base: no '.json' in" },
        { "stray", "\"base\":\"not/there.json\"", "/base: no file 'not/there.json'" },
        { "stray", "\"base\":\"stray\"", "/base: stands below 8 others, which are the most" },
        { "stray", "\"base\":1,\"sources\":{}", "/base: must be a text" },
        { "stray", "\"base\":\"low\",\"loss_traffic\":1", "/loss_traffic: has no source" },
        { "stray", "\"base\":\"low\",\"sources\":1", "/sources: must be an object" },
        { "bad", "\"base\":\"low\",\"norm_traffic\":0,\"sources\":{\"norm_traffic\":\"n\"}",
          "bad.json:1:" },
    };
    for (size_t i = 0; i < sizeof mistakes / sizeof mistakes[0]; i++) {
        write_stack(arena, folder, mistakes[i].name, mistakes[i].members);
        err = (struct error){ 0 };
        assert_null(stack_load(arena, folder, mistakes[i].name, &err));
        if (strstr(err.text, mistakes[i].want) == NULL) fail_msg("case %zu: %s", i, err.text);
    }
    /* One of the file itself is not the base's. */
    write_stack(arena, folder, "stray", "\"base\":\"low\",\"loss_traffic\":0.5");
    err = (struct error){ 0 };
    assert_null(stack_load(arena, folder, "stray", &err));
    assert_null(strstr(err.text, "the base of stack"));
    /* A mistake in the base is shown there. */
    write_stack(arena, folder, "round", "\"base\":\"bad\"");
    err = (struct error){ 0 };
    assert_null(stack_load(arena, folder, "round", &err));
    assert_non_null(strstr(err.text, "stacks/bad.json:1:"));
    assert_non_null(strstr(err.text, "the base of stack 'round'"));
    for (size_t i = 0; i < sizeof names / sizeof names[0]; i++)
        unlink(arena_format(arena, "%s/%s.json", stacks, names[i]));
    rmdir(stacks);
    assert_int_equal(rmdir(folder), 0);
    arena_destroy(arena);
}

int main(void) {
    const struct CMUnitTest tests[] = { cmocka_unit_test(test_a_base) };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
