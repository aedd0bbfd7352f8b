/* test_sweep_condition.c - what conditions mean, and the sentence for each that means nothing. */
#include <stdarg.h>
#include <setjmp.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>

#include <stdio.h>
#include <string.h>
#include "sim/study/sweep/sweep_condition.h"

static const char scenario_text[] =
    "{\"layout\": {\"tp\": 4, \"pp\": 8, \"sp\": true, \"dp\": null},"
    " \"cluster\": {\"hardware\": \"h100\", \"gpu_count\": 256},"
    " \"policy\": {\"batching\": {\"name\": \"isf\", \"qv\": 9}},"
    " \"training\": {\"micro_batch\": {\"samples\": 2}, \"global_batch\": {\"micro_batches\": 8}},"
    " \"model\": {\"frozen\": [\"vision\", \"connector\"]}}";
static const char written_text[] =
    "{\"layout\": {\"tp\": 3}, \"training\": {\"global_batch\": 64}}";

static void test_conditions(void **state) {
    (void)state;
    static const struct {
        const char *text;
        bool want;
    } cases[] = {
        { "layout.tp == 4", true },
        { "layout.tp != 4", false },
        { "layout.tp * layout.pp <= 32", true },
        { "layout.tp * layout.pp < 32", false },
        { "layout.tp + layout.pp * 2 == 20", true },
        { "(layout.tp + layout.pp) * 2 == 24", true },
        { "cluster.gpu_count / layout.tp / layout.pp == 8", true },
        { "cluster.gpu_count % 3 == 1", true },
        { "10 - 4 - 3 == 3", true },
        { "-layout.tp < 0", true },
        { "1 == 1 or 1 == 2 and 1 == 2", true },
        { "not layout.tp == 4", false },
        { "not not layout.sp", true },
        { "layout.sp and layout.tp > 1", true },
        { "layout.sp == true", true },
        { "layout.dp == null", true },
        { "layout.no_such_field == null", true },
        { "layout.no_such_field < 3", false },
        { "cluster.hardware == \"h100\"", true },
        { "cluster.hardware == 100", false },
        { "cluster.hardware < 100", false },
        { "cluster.hardware in [\"a100\", \"h100\"]", true },
        { "layout.tp in [1, 2]", false },
        { "layout.tp in []", false },
        { "policy.batching == \"isf\"", true },
        { "policy.batching.qv == 9", true },
        { "training.micro_batch == 2", true },
        { "layout.tp / (layout.pp - 8) == 1", false },
        { "layout.tp % (layout.pp - 8) == 0", false },
        { "1e3 == 1000", true },
        { "layout.tp==4&&layout.pp==8||1==2", true },
        { "\"vision\" in model.frozen", true },
        { "\"language\" in model.frozen", false },
        { "layout.tp in layout.tp", true },
        { "training.global_batch == 8", true },
        { "training.global_batch.samples == 64", true }, /* as written: resolved in micro-batches */
        { "training.global_batch.micro_batches == 8", true },
    };
    struct arena *arena = arena_create();
    cJSON *scenario = cJSON_Parse(scenario_text), *written = cJSON_Parse(written_text);
    const struct condition_scenario asked = { scenario, written };
    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
        struct error err = { 0 };
        const struct condition *c = condition_parse(arena, cases[i].text, &err);
        if (c == NULL) fail_msg("%s: %s", cases[i].text, err.text);
        if (condition_holds(c, &asked) != cases[i].want) fail_msg("%s", cases[i].text);
        assert_string_equal(condition_text(c), cases[i].text);
    }
    cJSON_Delete(scenario);
    cJSON_Delete(written);
    arena_destroy(arena);
}

static void test_a_division_by_zero_is_told(void **state) {
    (void)state;
    struct arena *arena = arena_create();
    cJSON *scenario = cJSON_Parse(scenario_text);
    const struct condition_scenario asked = { scenario, NULL };
    const struct condition *by_zero = condition_parse(arena, "1 / (layout.pp - 8) > 0", NULL),
                           *finite = condition_parse(arena, "1 / layout.pp > 1", NULL);
    assert_true(condition_divides_by_zero(by_zero, &asked));
    assert_false(condition_divides_by_zero(finite, &asked));
    cJSON_Delete(scenario);
    arena_destroy(arena);
}

/* A chain of operators is evaluated by as many calls. */
static void test_a_long_chain_is_refused(void **state) {
    (void)state;
    struct arena *arena = arena_create();
    struct error err = { 0 };
    static const char link[] = "1 + ";
    enum { LINKS = 200000 };
    char *text = arena_alloc(arena, LINKS * (sizeof link - 1) + 2);
    for (int i = 0; i < LINKS; i++)
        memcpy(text + i * (sizeof link - 1), link, sizeof link);
    strcat(text + LINKS * (sizeof link - 1) - 1, "1");
    assert_null(condition_parse(arena, text, &err));
    assert_non_null(strstr(err.text, "+ ...\": more than 1000 operators at \""));
    arena_destroy(arena);
}

static void note_use(void *context, const struct condition_use *use) {
    static const char *const kinds[] = { "any", "text", "number", "list" };
    char *text = context;
    size_t used = strlen(text);
    snprintf(text + used, 256 - used, "%s:%s:%s ", use->path != NULL ? use->path : "",
             kinds[use->kind], use->text != NULL ? use->text : "");
}

static void test_uses(void **state) {
    (void)state;
    static const struct {
        const char *text, *want;
    } cases[] = {
        { "a.b", "a.b:any: " },
        { "not a.b or c.d == null", "a.b:any: c.d:any: " },
        { "a.b == \"x\" and \"y\" != c.d", "a.b:text:x c.d:text:y " },
        { "a.b * c.d <= 4", "a.b:number: c.d:number: " },
        { "a.b == 4 and c.d == true", "a.b:number: c.d:any: " },
        { "a.b in [\"x\", 1, c.d]", "a.b:text:x a.b:number: a.b:any: c.d:any: " },
        { "a.b in [] and \"x\" in c.d", "a.b:any: c.d:list:x " },
        { "a.b <= \"4\"", "a.b:number: :number:4 " },
        { "(a.b == \"x\") == (c.d / 2 == 1)", "a.b:text:x c.d:number: " },
    };
    struct arena *arena = arena_create();
    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
        char got[256] = "";
        const struct condition *c = condition_parse(arena, cases[i].text, NULL);
        assert_non_null(c);
        condition_for_each_field(c, note_use, got);
        if (strcmp(got, cases[i].want) != 0) fail_msg("%s: got %s", cases[i].text, got);
    }
    arena_destroy(arena);
}

static void test_mistakes(void **state) {
    (void)state;
    static const struct {
        const char *text, *want;
    } cases[] = {
        { "", "condition \"\": expected a number, a \"text\" or a field at its end" },
        { "layout.tp ==", "expected a number, a \"text\" or a field at its end" },
        { "layout.tp 4", "expected an operator at \"4\"" },
        { "(layout.tp == 4", "expected ) at its end" },
        { "layout.tp in [1 2]", "expected , or ] at \"2]\"" },
        { "cluster.hardware == \"h100", "a text without its closing quote at \"" },
        { "layout.tp == 4 $", "expected an operator at \"$\"" },
        { "((((((((((((((((((((((((((((((((((((((((((((((((((((((((((((((((((((((((((",
          "nested too" },
        { "layout.tp / 0 == 1", "a division by zero at \" 0 == 1\"" },
        { "layout.tp % 0.0 == 0", "a division by zero" },
        { "layout.tp < 1e400", "a number that is too large at \"1e400\"" },
        { "layout.tp < 0x10", "a number that is not decimal" },
    };
    struct arena *arena = arena_create();
    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
        struct error err = { 0 };
        if (condition_parse(arena, cases[i].text, &err) != NULL) fail_msg("%s", cases[i].text);
        if (strstr(err.text, cases[i].want) == NULL)
            fail_msg("%s: got %s", cases[i].text, err.text);
    }
    arena_destroy(arena);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_conditions),
        cmocka_unit_test(test_uses),
        cmocka_unit_test(test_mistakes),
        cmocka_unit_test(test_a_division_by_zero_is_told),
        cmocka_unit_test(test_a_long_chain_is_refused),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
