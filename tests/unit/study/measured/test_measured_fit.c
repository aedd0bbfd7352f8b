/* test_measured_fit.c - what a measured row keeps in host memory: as many blocks as it says, or
 * the fewest by which it fits where its stack's recipes offload what does not; and what it runs
 * again or shards where nothing says so and it would not fit. */
#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>
#include <cmocka.h>
#include "sim/study/execution.h"
#include "tests/unit/study/measured/measured_fixture.h"

static const char header[] =
    "row_id,source,model,layers,hidden,ffn_hidden,heads,kv_heads,vocab,seq_len,hardware,gpu_count,"
    "pp,zero_stage,micro_batch,global_batch,precision,recompute,stack,offload_blocks,iter_time_s\n";

#define LLAMA_70B "a,s,LLaMA,80,8192,28672,64,8,128256,8192,"

static bool fits(const struct measured_scenario *m, int64_t blocks) {
    cJSON *training = cJSON_GetObjectItemCaseSensitive(m->document, "training");
    cJSON_DeleteItemFromObjectCaseSensitive(training, "offload_blocks");
    cJSON_AddNumberToObject(training, "offload_blocks", (double)blocks);
    const struct scenario_options options = { .directory = BALLAST_SOURCE_DIR "/scenarios" };
    struct error err = { 0 };
    struct execution *e = measured_scenario_run(&options, m, &err);
    if (e == NULL) fail_msg("%s", err.text);
    const bool fits = e->replay->verdict != VERDICT_OUT_OF_MEMORY;
    execution_destroy(e);
    return fits;
}

static void test_blocks(void **state) {
    (void)state;
    enum { FEWEST = -1 };
    static const struct {
        const char *row;
        int64_t blocks;
    } cases[] = {
        { LLAMA_70B "gb200,64,1,3,2,256,fp8,,megatron-bridge-2026,,1\n", FEWEST },
        { LLAMA_70B "gb300,64,1,3,2,256,fp8,,megatron-bridge-2026,,1\n", FEWEST },
        { LLAMA_70B "gb200,64,1,3,2,256,fp8,,megatron-bridge-2026,7,1\n", 7 },
        { LLAMA_70B "gb200,64,1,3,2,256,fp8,,megatron-bridge-2026,0,1\n", 0 },
        { LLAMA_70B "gb200,64,1,3,2,256,fp8,full,megatron-bridge-2026,,1\n", 0 },
        { LLAMA_70B "gb200,64,4,1,2,256,fp8,,megatron-bridge-2026,,1\n", 0 },
        { LLAMA_70B "gb200,64,1,3,2,256,fp8,,megatron-core,,1\n", 0 },
        /* neither this one, which has room for all, nor this, for which no offloading is enough */
        { "a,s,LLaMA,32,4096,14336,32,8,128256,8192,gb200,8,1,3,1,8,fp8,,megatron-bridge-2026,,1\n",
          0 },
        { LLAMA_70B "gb200,4,1,3,2,8,fp8,,megatron-bridge-2026,,1\n", 0 },
    };
    struct measured_context context = shipped_context();
    struct arena *arena = context.arena;
    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
        const struct measured_scenario m = scenario_of_row(&context, header, cases[i].row);
        const cJSON *item = cJSON_GetObjectItemCaseSensitive(
            cJSON_GetObjectItemCaseSensitive(m.document, "training"), "offload_blocks");
        const int64_t got = cJSON_IsNumber(item) ? (int64_t)item->valuedouble : 0;
        bool noted = false;
        for (const char *const *note = m.notes; *note != NULL; note++)
            noted = noted || strncmp(*note, "offload_blocks: ", 16) == 0;
        assert_true(m.chosen_to_fit || !noted);
        if (noted != (cases[i].blocks == FEWEST)) fail_msg("%s: %s", cases[i].row, m.notes[0]);
        if (cases[i].blocks != FEWEST && got != cases[i].blocks)
            fail_msg("%s: got %ld", cases[i].row, (long)got);
        if (cases[i].blocks == FEWEST)
            assert_true(got > 1 && got < 79 && fits(&m, got) && !fits(&m, got - 1));
        cJSON_Delete(m.document);
    }
    arena_destroy(arena);
}

/* The least recomputation that fits; more only if the run is known to have fitted, nothing says what
 * it did, and memory is not close. */
static void test_recompute(void **state) {
    (void)state;
    static const char words_header[] =
        "row_id,source,model,layers,hidden,ffn_hidden,heads,vocab,seq_len,hardware,gpu_count,tp,"
        "micro_batch,global_batch,precision,recompute,attention,stack,outcome,iter_time_s,notes\n";
#define GPT "a,s,GPT,24,4096,16384,32,50304,"
    static const struct {
        const char *row, *want;
        bool noted;
    } cases[] = {
        { GPT "2048,a100-80g-sxm,8,8,1,8,bf16,,flash,megatron-core,ok,1,\n", "none", false },
        { GPT "2048,a100-80g-sxm,8,8,32,32,bf16,,naive,megatron-core,ok,1,\n", "selective", true },
        { GPT "2048,a100-80g-sxm,8,8,128,128,bf16,,flash,megatron-core,ok,1,\n", "full", true },
        { GPT "2048,a100-80g-sxm,8,8,128,128,bf16,none,flash,megatron-core,ok,1,\n", "none",
          false },
        { GPT "2048,a100-80g-sxm,8,8,128,128,bf16,,flash,megatron-core,oom,,\n", "none", false },
        { GPT "2048,a100-80g-sxm,8,8,128,128,bf16,,flash,megatron-core,ok,1,no recomputation\n",
          "none", false },
        { GPT "2048,a100-80g-sxm,8,8,1,8,bf16,,flash,megatron-core,ok,1,full AC\n", "full", false },
        /* by recipes that offload rather than recompute */
        { "a,s,GPT,24,8192,32768,64,50304,4096,h100-80g-sxm,16,2,8,64,bf16,,flash,nemo-2025,ok,1,"
          "\n",
          "none", false },
        /* nothing makes it fit */
        { GPT "2048,a100-80g-sxm,8,1,2048,16384,bf16,,flash,megatron-core,ok,1,\n", "none", false },
    };
    struct measured_context context = shipped_context();
    struct arena *arena = context.arena;
    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
        const struct measured_scenario m = scenario_of_row(&context, words_header, cases[i].row);
        const cJSON *policy = cJSON_GetObjectItemCaseSensitive(m.document, "policy");
        const char *got =
            cJSON_GetStringValue(cJSON_GetObjectItemCaseSensitive(policy, "recompute"));
        bool noted = false;
        for (const char *const *note = m.notes; *note != NULL; note++)
            noted = noted || strstr(*note, "because it would not fit") != NULL;
        if (strcmp(got, cases[i].want) != 0) fail_msg("%s: got %s", cases[i].row, got);
        assert_int_equal(noted, cases[i].noted);
        cJSON_Delete(m.document);
    }
    arena_destroy(arena);
}

/* The lowest stage of ZeRO that fits; a higher one than usual only if the run is known to have
 * fitted and nothing says how it was sharded. */
static void test_sharding(void **state) {
    (void)state;
    static const char sharding_header[] =
        "row_id,source,model,layers,hidden,ffn_hidden,heads,vocab,seq_len,hardware,gpu_count,tp,"
        "micro_batch,global_batch,precision,recompute,zero_stage,stack,outcome,iter_time_s,notes\n";
#define LLAMA_7B  "a,s,LLaMA,32,4096,11008,32,32000,2048,"
#define LLAMA_13B "a,s,LLaMA,40,5120,13824,40,32000,2048,"
#define LLAMA_1B  "a,s,LLaMA,16,2048,5504,16,32000,2048,"
    static const struct {
        const char *row, *stack;
        int64_t stage;
        bool noted;
    } cases[] = {
        { LLAMA_1B "a100-80g-sxm,8,,1,8,bf16,,,transformers 2022,ok,1,\n", "hf-ddp", 0, false },
        { LLAMA_7B "a100-80g-sxm,8,,1,8,bf16,,,transformers 2022,ok,1,\n", "hf-deepspeed-2022", 1,
          true },
        { LLAMA_7B "a100-40g-sxm,8,,1,8,bf16,,,transformers 2022,ok,1,\n", "hf-deepspeed-2022", 2,
          true },
        { LLAMA_13B "a100-40g-sxm,8,,1,8,bf16,,,transformers 2022,ok,1,\n", "hf-deepspeed-2022", 3,
          true },
        { LLAMA_7B "a100-80g-sxm,8,,1,8,bf16,,,transformers 2022,oom,,\n", "hf-ddp", 0, false },
        { LLAMA_7B "a100-80g-sxm,8,,1,8,bf16,,,transformers 2022,ok,1,DDP\n", "hf-ddp", 0, false },
        { LLAMA_7B "a100-80g-sxm,8,,1,8,bf16,,0,transformers 2022,ok,1,\n", "hf-ddp", 0, false },
        { LLAMA_7B "a100-80g-sxm,8,,1,8,bf16,,,hf-ddp,ok,1,\n", "hf-ddp", 0, false },
        { LLAMA_7B "a100-80g-sxm,1,,1,1,bf16,,,transformers 2022,ok,1,\n", "hf-ddp", 0, false },
        { LLAMA_7B "a100-80g-sxm,8,,1,8,bf16,,,nanogpt,ok,1,\n", "nanogpt", 0, false },
        /* Megatron shards states alone, NVIDIA's recipes all where nothing else divides. */
        { LLAMA_7B "a100-40g-sxm,8,,1,8,bf16,full,,megatron-core,ok,1,\n", "megatron-core", 1,
          false },
        { LLAMA_7B "a100-40g-sxm,8,2,64,256,bf16,none,,megatron-core,ok,1,\n", "megatron-core", 1,
          false },
        { LLAMA_13B "a100-40g-sxm,8,,1,8,bf16,full,,nemo-2025,ok,1,\n", "nemo-2025", 3, true },
        { LLAMA_13B "a100-40g-sxm,8,2,1,8,bf16,full,,nemo-2025,ok,1,\n", "nemo-2025", 1, false },
        { LLAMA_13B "a100-40g-sxm,8,,1,8,bf16,full,,nemo-2025,ok,1,distributed optimizer\n",
          "nemo-2025", 1, false },
    };
    struct measured_context context = shipped_context();
    struct arena *arena = context.arena;
    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
        const struct measured_scenario m = scenario_of_row(&context, sharding_header, cases[i].row);
        const cJSON *layout = cJSON_GetObjectItemCaseSensitive(m.document, "layout");
        const double stage =
            cJSON_GetNumberValue(cJSON_GetObjectItemCaseSensitive(layout, "zero_stage"));
        bool noted = false;
        for (const char *const *note = m.notes; *note != NULL; note++)
            noted = noted || (strncmp(*note, "zero_stage: ", 12) == 0 &&
                              strstr(*note, "because it would not fit") != NULL);
        if (strcmp(m.stack->name, cases[i].stack) != 0 || stage != (double)cases[i].stage)
            fail_msg("%s: got ZeRO-%g by %s", cases[i].row, stage, m.stack->name);
        if (noted != cases[i].noted) fail_msg("%s: noted %d", cases[i].row, noted);
        assert_true(m.chosen_to_fit || !noted);
        cJSON_Delete(m.document);
    }
    arena_destroy(arena);
}

/* Where nothing is said of it and there are no stages, as many samples as fit, and no more. */
static void test_micro_batch(void **state) {
    (void)state;
    static const char batch_header[] =
        "row_id,source,model,layers,hidden,ffn_hidden,heads,kv_heads,vocab,seq_len,hardware,gpu_"
        "count,"
        "pp,zero_stage,micro_batch,grad_accum,global_batch,recompute,stack,outcome,iter_time_s\n";
#define LLAMA_8B "a,s,LLaMA,32,4096,14336,32,8,128256,4096,h100,8,"
    enum { MOST = -1 };
    static const struct {
        const char *row;
        int64_t want;
    } cases[] = {
        { LLAMA_8B "1,3,,,1024,none,torchtitan,,1\n", MOST },
        { LLAMA_8B "1,3,,,1024,full,torchtitan,,1\n", MOST },
        { LLAMA_8B "1,3,2,,1024,none,torchtitan,,1\n", 2 },
        { LLAMA_8B "1,3,,128,1024,none,torchtitan,,1\n", 1 },
        { LLAMA_8B "1,3,,,8,none,torchtitan,,1\n", 1 },
        { LLAMA_8B "1,3,,,24,none,torchtitan,,1\n", 3 },
        { LLAMA_8B "2,1,,,1024,full,megatron-core,,1\n", 1 },
        { LLAMA_8B "1,3,,,1024,none,torchtitan,oom,\n", 1 },
    };
#undef LLAMA_8B
    struct measured_context context = shipped_context();
    struct arena *arena = context.arena;
    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
        struct measured_scenario m = scenario_of_row(&context, batch_header, cases[i].row);
        cJSON *micro = cJSON_GetObjectItemCaseSensitive(
                  cJSON_GetObjectItemCaseSensitive(m.document, "training"), "micro_batch"),
              *samples = cJSON_GetObjectItemCaseSensitive(micro, "samples");
        const int64_t got = (int64_t)samples->valuedouble;
        if (cases[i].want != MOST && got != cases[i].want)
            fail_msg("%s: got %ld", cases[i].row, (long)got);
        if (cases[i].want == MOST) {
            assert_true(m.chosen_to_fit && got > 1 && got < 128 && fits(&m, 0));
            cJSON_SetNumberValue(samples, (double)(2 * got));
            assert_false(fits(&m, 0));
        }
        cJSON_Delete(m.document);
    }
    arena_destroy(arena);
}

int main(void) {
    const struct CMUnitTest tests[] = { cmocka_unit_test(test_micro_batch),
                                        cmocka_unit_test(test_blocks),
                                        cmocka_unit_test(test_recompute),
                                        cmocka_unit_test(test_sharding) };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
