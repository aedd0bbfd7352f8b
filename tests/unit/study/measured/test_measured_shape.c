/* test_measured_shape.c - each line of the public shapes is whole, and says what it was compared
 * with; what a family's models have besides. */
#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>
#include <cmocka.h>
#include "sim/base/csv.h"
#include "tests/unit/study/measured/measured_fixture.h"

#define ENCODERS         BALLAST_SOURCE_DIR "/scenarios/models/public_encoders.csv"
#define MODULES          BALLAST_SOURCE_DIR "/scenarios/models/modules"
#define SHAPES           BALLAST_SOURCE_DIR "/scenarios/models/public_shapes.csv"
#define DIFFUSION_SHAPES BALLAST_SOURCE_DIR "/scenarios/models/diffusion_shapes.csv"

static int64_t count_of(const struct csv *csv, int64_t row, const char *column) {
    struct error err = { 0 };
    int64_t value = 0;
    if (!csv_count(csv, row, csv_column(csv, column), &value, &err)) fail_msg("%s", err.text);
    return value;
}

/* Billions, of a name that says how many ("qwen2.5-coder-0.5b", "gpt2-124m", "bloom-7b1"); 0. */
static double size_in_name(const char *name) {
    for (const char *at = strrchr(name, '-'); at != NULL && at > name;
         at = memrchr(name, '-', (size_t)(at - name))) {
        char *end;
        const double size = strtod(at + 1, &end);
        if (end == at + 1 || (*end != 'b' && *end != 'm')) continue;
        if (*end == 'm') return size / 1000;
        return size + (end[1] >= '0' && end[1] <= '9' ? (end[1] - '0') / 10.0 : 0);
    }
    return 0;
}

static double billions(const struct csv *csv, int64_t row) {
    const double hidden = (double)count_of(csv, row, "hidden"),
                 head_dim = (double)count_of(csv, row, "head_dim"),
                 heads = (double)count_of(csv, row, "heads"),
                 kv = (double)count_of(csv, row, "kv_heads");
    const bool gated = strcmp(csv_cell(csv, row, csv_column(csv, "ffn")), "swiglu") == 0;
    const double block = hidden * head_dim * (2 * heads + 2 * kv) +
                         (gated ? 3 : 2) * hidden * (double)count_of(csv, row, "ffn_hidden");
    const double tables = count_of(csv, row, "tied") ? 1 : 2;
    return ((double)count_of(csv, row, "layers") * block +
            tables * hidden * (double)count_of(csv, row, "vocab")) /
           1e9;
}

static bool begins_with_one(const char *name, const char *const *beginnings) {
    for (; *beginnings != NULL; beginnings++)
        if (strncmp(name, *beginnings, strlen(*beginnings)) == 0) return true;
    return false;
}

static void test_lines(void **state) {
    (void)state;
    struct arena *arena = arena_create();
    struct error err = { 0 };
    const struct csv *csv = csv_load(arena, SHAPES, &err);
    if (csv == NULL) fail_msg("%s", err.text);
    int64_t sized = 0;
    static const char *const own_width[] = { "qwen3-", "mistral-nemo", "mistral-small-24b",
                                             "gemma-", "pixtral-12b",  NULL };
    /* Their tables, or their names, are not counted as others'; what sees counts its encoder too. */
    static const char *const understated[] = {
        "falcon3-1b",     "gemma-2b",  "gemma-2-2b", "minicpm-2b", "olmo-2-1b",
        "olmo-2-0425-1b", "granite-3", "internvl",   "qwen2-vl",   "qwen2.5-vl",
        "qwen3-vl",       "llava",     "paligemma",  "phi-3.5-v",  "idefics2",
        "mpt-1b",         "glm-4v",    "minicpm-v",  "pixtral",    NULL
    };
    assert_true(csv->row_count >= 300);
    for (int64_t row = 0; row < csv->row_count; row++) {
        const char *name = csv_cell(csv, row, csv_column(csv, "name"));
        for (int64_t column = 0; column < csv->column_count; column++)
            if (csv_cell(csv, row, column)[0] == '\0')
                fail_msg("%s: %s is empty", name, csv->header[column]);
        const int64_t heads = count_of(csv, row, "heads"), kv = count_of(csv, row, "kv_heads");
        const int64_t hidden = count_of(csv, row, "hidden");
        if (heads % kv != 0) fail_msg("%s: %ld heads of %ld", name, (long)heads, (long)kv);
        /* The heads of these are together wider or narrower than the model. */
        if (!begins_with_one(name, own_width) && heads * count_of(csv, row, "head_dim") != hidden)
            fail_msg("%s: heads are not %ld wide together", name, (long)hidden);
        if (strncmp(csv_cell(csv, row, csv_column(csv, "compared")), "20", 2) != 0)
            fail_msg("%s: not compared", name);
        const double size = size_in_name(name);
        sized += size > 0;
        if (size > 0 && !begins_with_one(name, understated) &&
            fabs(billions(csv, row) / size - 1) > 0.25)
            fail_msg("%s: %.2f B parameters", name, billions(csv, row));
    }
    assert_true(sized > 70);
    arena_destroy(arena);
}

static void test_encoder_lines(void **state) {
    (void)state;
    struct arena *arena = arena_create();
    struct error err = { 0 };
    const struct csv *csv = csv_load(arena, ENCODERS, &err);
    if (csv == NULL) fail_msg("%s", err.text);
    for (int64_t row = 0; row < csv->row_count; row++) {
        const char *name = csv_cell(csv, row, csv_column(csv, "name")),
                   *module = csv_cell(csv, row, csv_column(csv, "module"));
        const char *path = arena_format(arena, MODULES "/%s.json", module);
        if (access(path, R_OK) != 0) fail_msg("%s: no module %s", name, module);
        if (count_of(csv, row, "merge") < 1) fail_msg("%s: no merge", name);
        if (strncmp(csv_cell(csv, row, csv_column(csv, "compared")), "20", 2) != 0)
            fail_msg("%s: not compared", name);
    }
    arena_destroy(arena);
}

static void test_diffusion_lines(void **state) {
    (void)state;
    struct arena *arena = arena_create();
    struct error err = { 0 };
    const struct csv *csv = csv_load(arena, DIFFUSION_SHAPES, &err);
    if (csv == NULL) fail_msg("%s", err.text);
    for (int64_t row = 0; row < csv->row_count; row++) {
        const char *name = csv_cell(csv, row, csv_column(csv, "name"));
        for (int64_t column = 0; column < csv->column_count; column++)
            if (csv_cell(csv, row, column)[0] == '\0' &&
                column != csv_column(csv, "double_stream_blocks"))
                fail_msg("%s: %s is empty", name, csv->header[column]);
        if (count_of(csv, row, "heads") * count_of(csv, row, "head_dim") !=
            count_of(csv, row, "hidden"))
            fail_msg("%s: heads are not as wide as the model", name);
        if (strncmp(csv_cell(csv, row, csv_column(csv, "compared")), "20", 2) != 0)
            fail_msg("%s: not compared", name);
    }
    arena_destroy(arena);
}

static void test_families(void **state) {
    (void)state;
    static const char header[] =
        "row_id,source,model,layers,hidden,heads,seq_len,hardware,gpu_count,"
        "tp,pp,micro_batch,global_batch,stack,iter_time_s,qk_norm,notes\n";
    static const struct {
        const char *model, *cell, *qk_norm; /* NULL: none */
        bool branch_norm, logit_cap;
        const char *parallel_residual, *notes; /* NULL: no; none */
    } cases[] = {
        { "Qwen3 8B", "", "head", false, false, NULL, NULL },
        { "Qwen/Qwen3-0.6B", "", "head", false, false, NULL, NULL },
        { "Llama 3 8B", "", NULL, false, false, NULL, NULL },
        { "google/gemma-2-9b", "", NULL, true, true, NULL, NULL },
        { "gemma-2b", "", NULL, false, false, NULL, NULL },
        { "Qwen 3B", "", NULL, false, false, NULL, NULL },
        { "pilot-10m (Qwen3 layout)", "", "head", false, false, NULL, NULL },
        { "mymodel (Gemma 2 tokenizer)", "", NULL, false, false, NULL, NULL },
        { "nanochat d20", "", "head", false, false, NULL, NULL },
        { "GPT-20B", "", "head", false, false, NULL, "QK norm" },
        { "Qwen3 8B", "", "none", false, false, NULL, "without QK norm" },
        { "OLMo-2-7B", "", "all-heads", false, false, NULL, "QK norm" },
        { "Gemma-3-12B", "", "head", true, false, NULL, NULL },
        { "Gemma-4-12B", "", "head", true, true, NULL, NULL },
        { "Gemma-4-12B", "none", "none", true, true, NULL, NULL },
        { "Gemma-3-12B-like", "", NULL, false, false, NULL, NULL },
        { "GPT-NeoX-20B", "", NULL, false, false, "two-norms", NULL },
        { "pythia-1b", "", NULL, false, false, "two-norms", NULL },
        { "GPT-J-6B", "", NULL, false, false, "one-norm", NULL },
        { "microsoft/phi-2", "", NULL, false, false, "one-norm", NULL },
        { "Phi-4", "", NULL, false, false, NULL, NULL },
        { "GPT-20B", "", NULL, false, false, NULL, NULL },
        { "GPT-20B", "", NULL, false, false, "two-norms", "gpt_j_residual: true" },
        { "GPT-20B", "", NULL, false, false, NULL, "without parallel residual" },
        { "GPT-20B", "", NULL, false, false, NULL, "parallel residual and network not stated" },
        { "GPT-20B", "", NULL, false, false, NULL, "gpt_j_residual is false" },
        { "GPT-20B", "", NULL, false, false, "two-norms", "gpt-j-residual true" },
        { "pythia-1b", "", NULL, false, false, NULL, "without parallel residual" },
        { "GPT-NeoX 1.3B", "", NULL, false, false, NULL, "gpt_j_residual: false" },
        { "dolly-v2-12b", "", NULL, false, false, "two-norms", NULL },
        { "c4ai-command-r-v01", "", NULL, false, false, "one-norm", NULL },
        { "phi-14b", "", NULL, false, false, NULL, NULL },
        { "phi-1.5", "", NULL, false, false, "one-norm", NULL },
        { "gemma-2-9b", "", NULL, true, true, NULL, "parallel residual" },
    };
    struct measured_context context = shipped_context();
    struct arena *arena = context.arena;
    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
        const struct measured_scenario m = scenario_of_row(
            &context, header,
            arena_format(
                arena, "a,s,%s,2,1024,16,2048,h100-80g-sxm,1,1,1,1,1,hf-trainer-2026,1,%s,%s\n",
                cases[i].model, cases[i].cell, cases[i].notes != NULL ? cases[i].notes : ""));
        const cJSON *model = cJSON_GetObjectItemCaseSensitive(m.document, "model"),
                    *definition = cJSON_GetObjectItemCaseSensitive(model, "definition"),
                    *language = cJSON_GetObjectItemCaseSensitive(definition, "language"),
                    *norm = cJSON_GetObjectItemCaseSensitive(language, "qk_norm");
        const char *got = cJSON_IsString(norm) ? norm->valuestring : "none",
                   *want = cases[i].qk_norm != NULL ? cases[i].qk_norm : "none";
        const cJSON *beside = cJSON_GetObjectItemCaseSensitive(language, "parallel_residual");
        const char *parallel = cJSON_IsString(beside) ? beside->valuestring : "no";
        assert_string_equal(parallel,
                            cases[i].parallel_residual != NULL ? cases[i].parallel_residual : "no");
        if (strcmp(got, want) != 0 ||
            cJSON_IsTrue(cJSON_GetObjectItemCaseSensitive(language, "branch_norm")) !=
                cases[i].branch_norm ||
            cJSON_IsTrue(cJSON_GetObjectItemCaseSensitive(language, "logit_cap")) !=
                cases[i].logit_cap)
            fail_msg("case %zu, %s: %s", i, cases[i].model, got);
        cJSON_Delete(m.document);
    }
    arena_destroy(arena);
}

int main(void) {
    const struct CMUnitTest tests[] = { cmocka_unit_test(test_lines),
                                        cmocka_unit_test(test_encoder_lines),
                                        cmocka_unit_test(test_diffusion_lines),
                                        cmocka_unit_test(test_families) };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
