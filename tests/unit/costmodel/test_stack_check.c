/* test_stack_check.c - words of a stack file that nothing knows are refused at their key. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>
#include <cmocka.h>
#include "tests/unit/costmodel/stack_fixture.h"

#define BEGIN "{\"name\":\"w\",\"description\":\"x\",\"base\":\"torchtitan-2026\","
#define TOLD  BEGIN "\"refines\":[\"torchtitan-2026\"],\"told_by\":"

static void test_words(void **state) {
    (void)state;
    static const struct {
        const char *text, *mistake; /* NULL: none */
    } cases[] = {
        { BEGIN "\"year\":2026}", NULL },
        { BEGIN "\"backend\":\"fdsp\"}", "/backend: got \"fdsp\"" },
        { BEGIN "\"recompute\":\"slective\"}", "/recompute: got \"slective\"" },
        { BEGIN "\"recompute\":\"full\",\"sources\":{\"recompute\":\"x\"}}", NULL },
        { BEGIN
          "\"reduce_bucket_parameters\":1000,\"sources\":{\"reduce_bucket_parameters\":\"x\"}}",
          "/reduce_bucket_parameters: has no effect where the backend is fsdp" },
        { TOLD "[\"dated:2025-08:\"]}", NULL },
        { TOLD "[\"mine & dated:2025-08:2026-01\"]}", NULL },
        { TOLD "[\"dated:soon\"]}", "/told_by/0: names no months: \"dated:soon\"" },
        { TOLD "[\"dated:2025-13:\"]}", "names no months" },
        { TOLD "[\"dated:2026-06:2026-01\"]}", "names no months" },
        { TOLD "[\"mine & dated:\"]}", "names no months" },
        { TOLD "[\"release:trl 1.8-1.12\",\"release:trl 1.13-\"]}", NULL },
        { TOLD "[\"release:\"]}", "names no releases" },
        { TOLD "[\"release:trl 1.8\"]}", "names no releases" },
    };
    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
        struct arena *arena = arena_create();
        struct error err = { 0 };
        const struct stack *stack = fixture_stack(arena, cases[i].text, &err);
        if ((stack != NULL) != (cases[i].mistake == NULL))
            fail_msg("%s: %s", cases[i].text, err.text);
        if (cases[i].mistake != NULL && strstr(err.text, cases[i].mistake) == NULL)
            fail_msg("%s: %s", cases[i].text, err.text);
        arena_destroy(arena);
    }
}

int main(void) {
    const struct CMUnitTest tests[] = { cmocka_unit_test(test_words) };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
