/* test_launch_flags.c - plans as options of the frameworks, and what no option can say. */
#include "sim/study/launch_flags.h"
#include "tests/unit/replay/replay_fixture.h"

static int begin(void **state) {
    (void)state;
    fixture_begin();
    fixture_samples("samples.csv", 160, 22);
    return 0;
}

static int end(void **state) {
    (void)state;
    fixture_end();
    return 0;
}

/* Flags that concern cuts and recomputation, and the refusals, joined. */
static const char *plan_text(struct arena *arena, const struct launch_flags *f) {
    const char *text = "";
    for (int64_t i = 0; i < f->flag_count; i++)
        if (strstr(f->flags[i], "--decoder") != NULL || strstr(f->flags[i], "recompute") != NULL ||
            strstr(f->flags[i], "layout") != NULL || strstr(f->flags[i], "virtual") != NULL ||
            strstr(f->flags[i], "--c") != NULL || strstr(f->flags[i], "--ds-") != NULL)
            text = arena_format(arena, "%s%s;", text, f->flags[i]);
    if (f->pipeline_module != NULL) text = arena_format(arena, "%s%s;", text, f->pipeline_module);
    for (int64_t i = 0; i < f->refusal_count; i++)
        text = arena_format(arena, "%s! %.24s;", text, f->refusals[i]);
    return text;
}

#define MANUAL(...) "policy.partition={\"name\":\"manual\",\"blocks\":[" __VA_ARGS__ "]}"
#define STAGES(...) "policy.recompute={\"name\":\"stages\",\"blocks\":[" __VA_ARGS__ "]}"

static void test_flags(void **state) {
    (void)state;
    static const struct {
        enum launch_framework framework;
        const char *set[6];
        const char *want;
    } cases[] = {
        /* 8B: 45 vision and 32 language blocks */
        { LAUNCH_MEGATRON, { MANUAL("61,16"), "policy.recompute=none" }, "" },
        { LAUNCH_MEGATRON,
          { MANUAL("55,22"), "policy.recompute=none" },
          "--decoder-first-pipeline-num-layers 10;" },
        { LAUNCH_MEGATRON,
          { MANUAL("44,33"), "policy.recompute=none" },
          "! stage 2 holds vision blo;" },
        { LAUNCH_MEGATRON,
          { "layout.pp=4", MANUAL("51,9,9,8"), "policy.recompute=selective" },
          "--decoder-first-pipeline-num-layers 6;--decoder-last-pipeline-num-layers 8;"
          "--recompute-granularity selective;" },
        { LAUNCH_MEGATRON,
          { "layout.pp=4", MANUAL("53,8,7,9"), "policy.recompute=none" },
          "--pipeline-model-parallel-layout 'Et*8|t*8|t*7|t*9L';" },
        { LAUNCH_MEGATRON,
          { "layout.pp=4", MANUAL("45,11,11,10"), "policy.recompute=none" },
          "--decoder-first-pipeline-num-layers 0;--decoder-last-pipeline-num-layers 10;" },
        { LAUNCH_MEGATRON,
          { "model=llama3-8b", "layout.pp=4", MANUAL("0,16,16,0"), "policy.recompute=none" },
          "--pipeline-model-parallel-layout 'E|t*16|t*16|L';" },
        { LAUNCH_MEGATRON,
          { "model=llama3-8b", "layout.pp=4", STAGES("2,2,2,2") },
          "--recompute-granularity full;--recompute-method block;--recompute-num-layers 2;" },
        { LAUNCH_MEGATRON,
          { "model=llama3-8b", "layout.pp=4", STAGES("2,2,2,1") },
          "! recomputing decoder bloc;" },
        { LAUNCH_MEGATRON,
          { "model=llama3-8b", "layout.vpp=2", "policy.recompute=full" },
          "--num-virtual-stages-per-pipeline-rank 2;--recompute-granularity full;"
          "--recompute-method uniform;--recompute-num-layers 1;" },
        { LAUNCH_MEGATRON,
          { "model=llama3-8b", "policy.schedule=gpipe", "policy.recompute=none" },
          "! schedule \"gpipe\": Megatr;" },
        { LAUNCH_MEGATRON,
          { "model=llama3-8b", "layout.cp=2", "policy.recompute=none" },
          "--context-parallel-size 2;" },
        { LAUNCH_MEGATRON,
          { "model=llama3-8b", "layout.cp=2", "layout.cp_kind=all-to-all",
            "policy.recompute=none" },
          "--context-parallel-size 2;--cp-comm-type a2a;" },
        { LAUNCH_MEGATRON,
          { "model=llama3-8b", "layout.cp=2", "layout.cp_kind=all-gather",
            "policy.recompute=none" },
          "--context-parallel-size 2;--cp-comm-type all_gather;" },
        { LAUNCH_DEEPSPEED,
          { "model=llama3-8b", "layout.cp=2", "layout.cp_kind=all-to-all", "layout.tp=1",
            "layout.pp=1" },
          "--ds-sequence-parallel-size 2;" },
        { LAUNCH_DEEPSPEED,
          { "model=llama3-8b", "layout.cp=2", "layout.cp_kind=all-to-all", "layout.tp=1",
            "layout.pp=2" },
          "num_stages=2, partition_method=\"parameters\", activation_checkpoint_interval=1;"
          "! context parallel degree ;" },
        { LAUNCH_DEEPSPEED,
          { "policy.partition={\"name\":\"parameter\",\"method\":\"min-max\"}" },
          "num_stages=2, partition_method=\"parameters\", activation_checkpoint_interval=1;" },
        { LAUNCH_DEEPSPEED,
          { "model=llama3-8b", "layout.pp=4", "layout.tp=1", "policy.recompute=none" },
          "num_stages=4, partition_method=\"type:.*Block\", activation_checkpoint_interval=0;" },
        { LAUNCH_DEEPSPEED, { MANUAL("50,27") }, "! blocks per stage [50, 27;" },
        { LAUNCH_DEEPSPEED,
          { "model=llama3-8b", "layout.vpp=2" },
          "! layout.vpp 2: DeepSpeed';" },
        { LAUNCH_DEEPSPEED,
          { "layout.pp=1", STAGES("3") },
          "! 3 of 77 blocks recompute;" },
    };
    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
        struct arena *arena = arena_create();
        struct scenario *s = fixture_scenario("samples.csv", cases[i].set);
        struct job *job = fixture_job(s);
        struct launch_flags f;
        launch_flags_make(cases[i].framework, job, arena, &f);
        const char *got = plan_text(arena, &f);
        if (strcmp(got, cases[i].want) != 0)
            fail_msg("case %zu:\n got  %s\n want %s", i, got, cases[i].want);
        job_destroy(job);
        scenario_destroy(s);
        arena_destroy(arena);
    }
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_flags),
    };
    return cmocka_run_group_tests(tests, begin, end);
}
