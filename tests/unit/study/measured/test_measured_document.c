/* test_measured_document.c - positions of a row's language model: its cell's, else its name's or
 * notes', else those usual with its activation. */
#include <string.h>
#include "tests/unit/study/measured/measured_fixture.h"

static const char header[] = "row_id,source,model,layers,hidden,ffn,position,heads,vocab,seq_len,"
                             "hardware,gpu_count,micro_batch,global_batch,iter_time_s,notes,"
                             "stack,optimizer\n";

static const char *position_of(const struct measured_scenario *m) {
    const cJSON *model = cJSON_GetObjectItemCaseSensitive(m->document, "model");
    const cJSON *definition = cJSON_GetObjectItemCaseSensitive(model, "definition");
    const cJSON *language = cJSON_GetObjectItemCaseSensitive(definition, "language");
    return cJSON_GetStringValue(cJSON_GetObjectItemCaseSensitive(language, "position"));
}

static void test_positions(void **state) {
    (void)state;
    static const struct {
        const char *model, *ffn, *cell, *notes, *position;
    } cases[] = {
        { "mine", "gelu", "", "", "learned" },
        { "mine", "swiglu", "", "", "rotary" },
        { "mine", "swiglu", "learned", "", "learned" },
        { "mine", "gelu", "RoPE", "", "rotary" },
        { "mine", "gelu", "none", "rotary", "none" },
        { "mine", "gelu", "odd", "", "learned" },
        { "mine with RoPE", "gelu", "", "", "rotary" },
        { "mine", "gelu", "", "rotary embeddings", "rotary" },
        { "mine", "gelu", "", "no rotary embeddings", "learned" },
        { "mine", "gelu", "", "the LLaMA rows beside it have RoPE", "learned" },
        { "mine", "gelu", "", "position embeddings learned; RoPE tried elsewhere", "learned" },
        { "mine", "gelu", "", "norm and rope unfused; learned positions", "learned" },
    };
    struct measured_context context = shipped_context();
    struct arena *arena = context.arena;
    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
        const char *row =
            arena_format(arena, "a,s,%s,2,1024,%s,%s,8,32000,1024,h100-80g-sxm,1,1,1,1,%s,,\n",
                         cases[i].model, cases[i].ffn, cases[i].cell, cases[i].notes);
        const struct measured_scenario m = scenario_of_row(&context, header, row);
        const char *got = position_of(&m);
        if (got == NULL || strcmp(got, cases[i].position) != 0)
            fail_msg("%s: got %s, want %s", row, got, cases[i].position);
        cJSON_Delete(m.document);
    }
    arena_destroy(arena);
}

int main(void) {
    const struct CMUnitTest tests[] = { cmocka_unit_test(test_positions) };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
