/* test_measured_training.c - kernels in a fixed order where a row's notes say so, and its optimizer in
 * the words of frameworks. */
#include <string.h>
#include "tests/unit/study/measured/measured_fixture.h"

static const char header[] = "row_id,source,model,layers,hidden,ffn,position,heads,vocab,seq_len,"
                             "hardware,gpu_count,micro_batch,global_batch,iter_time_s,notes,"
                             "stack,optimizer\n";

static void test_deterministic(void **state) {
    (void)state;
    static const struct {
        const char *notes, *deterministic; /* NULL: none */
    } cases[] = {
        { "mock data", NULL },
        { "deterministic kernels", "kernels" },
        { "no deterministic kernels", NULL },
        { "--deterministic-mode", "filled" },
        { "torch.use_deterministic_algorithms(True)", "filled" },
    };
    struct measured_context context = shipped_context();
    struct arena *arena = context.arena;
    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
        const char *row = arena_format(
            arena, "a,s,m,2,1024,gelu,,8,32000,1024,h100-80g-sxm,1,1,1,1,%s,,\n", cases[i].notes);
        const struct measured_scenario m = scenario_of_row(&context, header, row);
        const cJSON *training = cJSON_GetObjectItemCaseSensitive(m.document, "training");
        const char *got =
            cJSON_GetStringValue(cJSON_GetObjectItemCaseSensitive(training, "deterministic"));
        const char *want = cases[i].deterministic;
        if ((got == NULL) != (want == NULL) || (got != NULL && strcmp(got, want) != 0))
            fail_msg("%s: got %s", row, got == NULL ? "none" : got);
        cJSON_Delete(m.document);
    }
    arena_destroy(arena);
}

/* The words of frameworks, over the stack's own; what nobody simulates is as usual. */
static void test_optimizer(void **state) {
    (void)state;
    static const struct {
        const char *stack, *cell, *optimizer; /* NULL: the stack's own */
    } cases[] = {
        { "torchtitan-2026", "", NULL },
        { "torchtitan-2026", "Muon + AdamW", "muon" },
        { "torchtitan-2026", "muonclip", "muon" },
        { "torchtitan-2026", "adamw_torch_fused", NULL },
        { "torchtitan-2026", "SGD-momentum", "sgd-momentum" },
        { "torchtitan-2026", "lion", NULL },
        { "torchtitan-2026", "paged_adamw_8bit", NULL },
        { "nanochat", "muon", NULL },
        { "nanochat", "adamw_torch_fused", "adamw" },
    };
    struct measured_context context = shipped_context();
    struct arena *arena = context.arena;
    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
        const char *row =
            arena_format(arena, "a,s,m,2,1024,swiglu,,8,32000,1024,h100-80g-sxm,1,1,1,1,,%s,%s\n",
                         cases[i].stack, cases[i].cell);
        const struct measured_scenario m = scenario_of_row(&context, header, row);
        const cJSON *training = cJSON_GetObjectItemCaseSensitive(m.document, "training");
        const char *got =
            cJSON_GetStringValue(cJSON_GetObjectItemCaseSensitive(training, "optimizer"));
        const char *want = cases[i].optimizer;
        if ((got == NULL) != (want == NULL) || (got != NULL && strcmp(got, want) != 0))
            fail_msg("%s: got %s", row, got == NULL ? "the stack's" : got);
        cJSON_Delete(m.document);
    }
    arena_destroy(arena);
}

int main(void) {
    const struct CMUnitTest tests[] = { cmocka_unit_test(test_deterministic),
                                        cmocka_unit_test(test_optimizer) };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
