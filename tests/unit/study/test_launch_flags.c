/* test_launch_flags.c - plans as options of the frameworks, and what no option can say. */
#include "sim/study/launch_flags.h"
#include "sim/scenario/scenario_fields.h"
#include "tests/unit/replay/replay_fixture.h"

static int begin(void **state) {
    fixture_begin(state);
    fixture_samples("samples.csv", 160, 22);
    return 0;
}

/* Flags that concern cuts and recomputation, and the refusals, joined. */
static const char *plan_text(struct arena *arena, const struct launch_flags *f) {
    const char *text = "";
    for (int64_t i = 0; i < f->flag_count; i++)
        if (strstr(f->flags[i], "--decoder") != NULL || strstr(f->flags[i], "recompute") != NULL ||
            strstr(f->flags[i], "layout") != NULL || strstr(f->flags[i], "virtual") != NULL ||
            strstr(f->flags[i], "--co") != NULL || strstr(f->flags[i], "--cp-comm") != NULL ||
            strstr(f->flags[i], "--ds-") != NULL)
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
        enum framework framework;
        const char *set[8];
        const char *want;
    } cases[] = {
        /* 8B: 45 vision and 32 language blocks */
        { FRAMEWORK_MEGATRON, { MANUAL("61,16"), "policy.recompute=none" }, "" },
        { FRAMEWORK_MEGATRON,
          { MANUAL("55,22"), "policy.recompute=none" },
          "--decoder-first-pipeline-num-layers 10;" },
        { FRAMEWORK_MEGATRON,
          { MANUAL("44,33"), "policy.recompute=none" },
          "! stage 2 holds vision blo;" },
        { FRAMEWORK_MEGATRON,
          { "layout.pp=4", MANUAL("51,9,9,8"), "policy.recompute=selective" },
          "--decoder-first-pipeline-num-layers 6;--decoder-last-pipeline-num-layers 8;"
          "--recompute-granularity selective;" },
        { FRAMEWORK_MEGATRON,
          { "layout.pp=4", MANUAL("53,8,7,9"), "policy.recompute=none" },
          "--pipeline-model-parallel-layout 'Et*8|t*8|t*7|t*9L';" },
        { FRAMEWORK_MEGATRON,
          { "layout.pp=4", MANUAL("45,11,11,10"), "policy.recompute=none" },
          "--pipeline-model-parallel-layout 'E|t*11|t*11|t*10L';" },
        { FRAMEWORK_MEGATRON,
          { "model=llama3-8b", "layout.pp=4", MANUAL("0,16,16,0"), "policy.recompute=none" },
          "--pipeline-model-parallel-layout 'E|t*16|t*16|L';" },
        { FRAMEWORK_MEGATRON,
          { "model=llama3-8b", "layout.pp=4", STAGES("2,2,2,2") },
          "--recompute-granularity full;--recompute-method block;--recompute-num-layers 2;" },
        { FRAMEWORK_MEGATRON,
          { "model=llama3-8b", "layout.pp=4", STAGES("2,2,2,1") },
          "! recomputing decoder bloc;" },
        { FRAMEWORK_MEGATRON,
          { "model=llama3-8b", "layout.vpp=2", "policy.recompute=full" },
          "--num-virtual-stages-per-pipeline-rank 2;--recompute-granularity full;"
          "--recompute-method uniform;--recompute-num-layers 1;" },
        { FRAMEWORK_MEGATRON,
          { "model=llama3-8b", "policy.schedule=gpipe", "policy.recompute=none" },
          "! schedule \"gpipe\": Megatr;" },
        { FRAMEWORK_MEGATRON,
          { "model=llama3-8b", "layout.cp=2", "policy.recompute=none" },
          "--context-parallel-size 2;" },
        { FRAMEWORK_MEGATRON,
          { "model=llama3-8b", "layout.cp=2", "layout.cp_kind=all-to-all",
            "policy.recompute=none" },
          "--context-parallel-size 2;--cp-comm-type a2a;" },
        { FRAMEWORK_MEGATRON,
          { "model=llama3-8b", "layout.cp=4", "layout.cp_heads=2", "layout.tp=1", "layout.pp=1",
            "policy.recompute=none" },
          "--context-parallel-size 4;--cp-comm-type a2a+p2p --hierarchical-context-parallel-sizes "
          "2 2;" },
        { FRAMEWORK_MEGATRON,
          { "model=llama3-8b", "layout.cp=4", "layout.cp_heads=2", "layout.cp_kind=all-gather",
            "layout.tp=1", "layout.pp=1", "policy.recompute=none" },
          "--context-parallel-size 4;! layout.cp_heads beside c;" },
        { FRAMEWORK_MEGATRON,
          { "model=llama3-8b", "layout.cp=2", "layout.cp_kind=all-gather",
            "policy.recompute=none" },
          "--context-parallel-size 2;--cp-comm-type all_gather;" },
        { FRAMEWORK_MEGATRON,
          { "model=llama3-8b", "layout.cp=2", "layout.cp_kind=gathered-ring",
            "policy.recompute=none" },
          "--context-parallel-size 2;! layout.cp_kind gathered-;" },
        { FRAMEWORK_DEEPSPEED,
          { "model=llama3-8b", "layout.cp=2", "layout.cp_kind=all-to-all", "layout.tp=1",
            "layout.pp=1" },
          "--ds-sequence-parallel-size 2;" },
        { FRAMEWORK_DEEPSPEED,
          { "model=llama3-8b", "layout.cp=2", "layout.cp_kind=all-to-all", "layout.tp=1",
            "layout.pp=2" },
          "num_stages=2, partition_method=\"parameters\", activation_checkpoint_interval=1;"
          "! context parallel degree ;" },
        { FRAMEWORK_DEEPSPEED,
          { "policy.partition={\"name\":\"parameter\",\"method\":\"min-max\"}" },
          "num_stages=2, partition_method=\"parameters\", activation_checkpoint_interval=1;" },
        { FRAMEWORK_DEEPSPEED,
          { "model=llama3-8b", "layout.pp=4", "layout.tp=1", "policy.recompute=none" },
          "num_stages=4, partition_method=\"type:.*Block\", activation_checkpoint_interval=0;" },
        { FRAMEWORK_DEEPSPEED, { MANUAL("50,27") }, "! blocks per stage [50, 27;" },
        { FRAMEWORK_DEEPSPEED,
          { "model=llama3-8b", "layout.vpp=2" },
          "! layout.vpp 2: DeepSpeed';" },
        { FRAMEWORK_DEEPSPEED, { "layout.pp=1", STAGES("3") }, "! 3 of 77 blocks recompute;" },
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

/* All that is said: options, file, refusals and notes. */
static const char *whole_text(struct arena *arena, const struct launch_flags *f) {
    const char *text = "";
    for (int64_t i = 0; i < f->flag_count; i++)
        text = arena_format(arena, "%s%s\n", text, f->flags[i]);
    if (f->pipeline_module != NULL) text = arena_format(arena, "%s%s\n", text, f->pipeline_module);
    if (f->config != NULL) text = arena_format(arena, "%s%s\n", text, f->config);
    for (int64_t i = 0; i < f->refusal_count; i++)
        text = arena_format(arena, "%s! %s\n", text, f->refusals[i]);
    for (int64_t i = 0; i < f->note_count; i++)
        text = arena_format(arena, "%s# %s\n", text, f->notes[i]);
    return text;
}

enum { SET_LIMIT = 10 };

static const char *text_of(struct arena *arena, enum framework framework, const char *const *set,
                           bool *refused) {
    struct scenario *s = fixture_scenario("samples.csv", set);
    struct job *job = fixture_job(s);
    struct launch_flags f;
    launch_flags_make(framework, job, arena, &f);
    const char *text = whole_text(arena, &f);
    *refused = f.refusal_count > 0;
    job_destroy(job);
    scenario_destroy(s);
    return text;
}

/* Options that only hold together, as the frameworks' own checks demand. */
static void test_words(void **state) {
    (void)state;
    static const struct {
        enum framework framework;
        const char *set[SET_LIMIT];
        const char *with[3], *without[3];
    } cases[] = {
        { FRAMEWORK_MEGATRON,
          { "layout.zero_stage=0", "layout.overlap_gradient_reduce=true",
            "layout.overlap_parameter_gather=true" },
          { "--overlap-grad-reduce\n" },
          { "--overlap-param-gather", "--use-distributed-optimizer" } },
        { FRAMEWORK_MEGATRON,
          { "layout.overlap_gradient_reduce=false", "layout.overlap_parameter_gather=true" },
          { "--use-distributed-optimizer\n", "# layout.overlap_parameter_gather without" },
          { "--overlap-grad-reduce\n", "\n--overlap-param-gather" } },
        { FRAMEWORK_MEGATRON,
          { "layout.overlap_gradient_reduce=true", "layout.overlap_parameter_gather=true" },
          { "--overlap-grad-reduce\n--overlap-param-gather\n" },
          { NULL } },
        { FRAMEWORK_MEGATRON,
          { "layout.tp_overlap=true" },
          { "--sequence-parallel\n--tp-comm-overlap\n" },
          { NULL } },
        { FRAMEWORK_MEGATRON,
          { "layout.tp_overlap=true", "layout.tp=1" },
          { NULL },
          { "--tp-comm-overlap", "--sequence-parallel" } },
        { FRAMEWORK_MEGATRON,
          { "model=llama3-8b", "training.optimizer=sgd-momentum", "layout.zero_stage=0" },
          { "--optimizer sgd --sgd-momentum 0.9\n" },
          { "!" } },
        { FRAMEWORK_MEGATRON,
          { "training.optimizer=sgd-momentum" },
          { "! training.optimizer sgd-momentum with ZeRO-1" },
          { NULL } },
        { FRAMEWORK_MEGATRON,
          { "training.hidden_dropout=0.1", "training.deterministic=filled" },
          { "--hidden-dropout 0.1\n--attention-dropout 0\n", "--deterministic-mode\n",
            "NCCL_ALGO" },
          { NULL } },
        { FRAMEWORK_MEGATRON,
          { "training.attention=flash-2" },
          { "--attention-backend flash\n" },
          { "# training.attention" } },
        { FRAMEWORK_MEGATRON,
          { "training.attention=flash-2", "cluster.hardware=h100-80g-sxm" },
          { "--attention-backend flash\n", "flash_attn_3 is installed, so it must not be" },
          { NULL } },
        { FRAMEWORK_MEGATRON,
          { "training.attention=masked" },
          { "# training.attention masked: PyTorch's own kernel" },
          { "--attention-backend" } },
        { FRAMEWORK_MEGATRON,
          { "training.attention=flash-3", "cluster.hardware=h100-80g-sxm" },
          { "--attention-backend flash\n", "flash_attn_3 is installed, otherwise 2" },
          { NULL } },
        { FRAMEWORK_MEGATRON,
          { "training.precision=fp16", "layout.stack=megatron-core" },
          { "--fp16\n" },
          { "--bf16", "--accumulate-allreduce-grads-in-fp32" } },
        { FRAMEWORK_MEGATRON,
          { "training.precision=fp16", "layout.stack=none" },
          { "--fp16\n", "--accumulate-allreduce-grads-in-fp32\n" },
          { NULL } },
        { FRAMEWORK_MEGATRON,
          { "training.precision=bf16", "layout.stack=none" },
          { "--bf16\n" },
          { "--accumulate-allreduce-grads-in-fp32" } },
        { FRAMEWORK_MEGATRON,
          { "training.precision=fp8", "cluster.hardware=h100-80g-sxm" },
          { "--bf16 --fp8-format hybrid\n" },
          { "--fp8-recipe" } },
        { FRAMEWORK_MEGATRON,
          { "training.precision=fp8", "training.fp8_recipe=tensorwise",
            "cluster.hardware=h100-80g-sxm" },
          { "--bf16 --fp8-format hybrid\n", "--fp8-recipe tensorwise\n" },
          { NULL } },
        { FRAMEWORK_MEGATRON,
          { "training.precision=fp8", "training.fp8_recipe=mxfp8",
            "cluster.hardware=b200-180g-sxm" },
          { "--bf16 --fp8-format e4m3\n", "--fp8-recipe mxfp8\n" },
          { NULL } },
        { FRAMEWORK_MEGATRON,
          { "training.precision=fp8", "training.fp8_recipe=rowwise",
            "cluster.hardware=h100-80g-sxm" },
          { "# training.fp8_recipe rowwise: a recipe of torchao" },
          { "--fp8-recipe" } },
        { FRAMEWORK_MEGATRON,
          { "model.precision={\"language\":\"fp8\"}", "cluster.hardware=h100-80g-sxm" },
          { "--bf16 --fp8-format hybrid\n", "# model.precision: Megatron-LM has one precision for "
                                            "all modules, not bf16 for vision" },
          { NULL } },
        { FRAMEWORK_MEGATRON,
          { "layout.backend=megatron-lm", "training.precision_aware_optimizer=true",
            "training.exp_avg_dtype=bf16", "training.main_grads_dtype=bf16" },
          { "--use-precision-aware-optimizer\n", "--exp-avg-dtype bf16\n",
            "--main-grads-dtype bf16 --grad-reduce-in-bf16\n" },
          { "--exp-avg-sq-dtype" } },
        { FRAMEWORK_MEGATRON,
          { "model=llama3-8b", "layout.pp=1", "policy.recompute=none",
            "training.offload_blocks=4" },
          { "--cpu-offloading-num-layers 4\n" },
          { "!" } },
        { FRAMEWORK_MEGATRON,
          { "model=llama3-8b", "policy.recompute=none", "training.offload_blocks=4" },
          { "! training.offload_blocks 4" },
          { NULL } },
        { FRAMEWORK_DEEPSPEED,
          { "layout.pp=1" },
          { "--checkpoint-activations --deepspeed-activation-checkpointing\n" },
          { NULL } },
        { FRAMEWORK_DEEPSPEED,
          { "layout.pp=1", "layout.tp=1", "layout.backend=deepspeed" },
          { "# all blocks recompute: " },
          { "--" } },
        { FRAMEWORK_DEEPSPEED,
          { "layout.pp=1", "layout.tp=1", "layout.backend=fsdp", "layout.zero_stage=3" },
          { "! layout.backend fsdp" },
          { "{", "#" } },
        { FRAMEWORK_MEGATRON,
          { "layout.pp=1", "layout.tp=1", "layout.backend=fsdp", "layout.zero_stage=3" },
          { "! layout.backend fsdp" },
          { "--", "#" } },
    };
    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
        struct arena *arena = arena_create();
        bool refused;
        const char *text = text_of(arena, cases[i].framework, cases[i].set, &refused);
        for (int k = 0; k < 3; k++) {
            if (cases[i].with[k] != NULL && strstr(text, cases[i].with[k]) == NULL)
                fail_msg("case %zu: no \"%s\" in\n%s", i, cases[i].with[k], text);
            if (cases[i].without[k] != NULL && strstr(text, cases[i].without[k]) != NULL)
                fail_msg("case %zu: \"%s\" in\n%s", i, cases[i].without[k], text);
        }
        arena_destroy(arena);
    }
}

/* Every field of layout and training: another value changes what is said. A new field fails here
 * until it has a row. */
struct field_case {
    const char *field;
    const char *base[4], *changed[3];
    const char *no_effect; /* why the field decides nothing that is launched */
};

static const struct field_case field_cases[] = {
    { "layout.backend", { "layout.backend=megatron-lm" }, { "layout.backend=deepspeed" }, NULL },
    { "layout.stack", { NULL }, { "layout.stack=megatron-deepspeed-2023" }, NULL },
    { "layout.tp", { NULL }, { "layout.tp=1" }, NULL },
    { "layout.sp", { NULL }, { "layout.sp=false" }, NULL },
    { "layout.tp_overlap", { NULL }, { "layout.tp_overlap=true" }, NULL },
    { "layout.pp", { NULL }, { "layout.pp=1" }, NULL },
    { "layout.vpp", { NULL }, { "layout.vpp=2" }, NULL },
    { "layout.cp", { NULL }, { "layout.cp=2" }, NULL },
    { "layout.cp_kind", { "layout.cp=2" }, { "layout.cp_kind=all-to-all" }, NULL },
    { "layout.cp_heads",
      { "layout.cp=4", "layout.tp=1", "layout.pp=1" },
      { "layout.cp_heads=2" },
      NULL },
    { "layout.cp_balanced", { "layout.cp=2" }, { "layout.cp_balanced=false" }, NULL },
    { "layout.dp", { NULL }, { "layout.dp=4", "cluster.gpu_count=16" }, NULL },
    { "layout.zero_stage", { NULL }, { "layout.zero_stage=0" }, NULL },
    { "layout.zero_group", { NULL }, { "layout.zero_group=1" }, NULL },
    { "layout.overlap_gradient_reduce",
      { "layout.overlap_gradient_reduce=true" },
      { "layout.overlap_gradient_reduce=false" },
      NULL },
    { "layout.overlap_parameter_gather",
      { "layout.overlap_gradient_reduce=true", "layout.overlap_parameter_gather=false" },
      { "layout.overlap_parameter_gather=true" },
      NULL },
    { "training.global_batch", { NULL }, { "training.global_batch={\"micro_batches\":32}" }, NULL },
    { "training.micro_batch", { NULL }, { "training.micro_batch={\"samples\":2}" }, NULL },
    { "training.precision", { NULL }, { "training.precision=fp16" }, NULL },
    { "training.fp8_recipe",
      { "training.precision=fp8", "cluster.hardware=h100-80g-sxm" },
      { "training.fp8_recipe=tensorwise" },
      NULL },
    { "training.attention", { NULL }, { "training.attention=naive" }, NULL },
    { "training.hidden_dropout", { NULL }, { "training.hidden_dropout=0.1" }, NULL },
    { "training.attention_dropout", { NULL }, { "training.attention_dropout=0.1" }, NULL },
    { "training.deterministic", { NULL }, { "training.deterministic=kernels" }, NULL },
    { "training.deterministic",
      { "training.deterministic=kernels" },
      { "training.deterministic=filled" },
      NULL },
    { "training.offload_blocks",
      { "layout.pp=1", "policy.recompute=none" },
      { "training.offload_blocks=2" },
      NULL },
    { "training.optimizer",
      { "layout.zero_stage=0" },
      { "training.optimizer=sgd-momentum" },
      NULL },
    { "training.precision_aware_optimizer",
      { "layout.backend=megatron-lm" },
      { "training.precision_aware_optimizer=true" },
      NULL },
    { "training.exp_avg_dtype",
      { "layout.backend=megatron-lm", "training.precision_aware_optimizer=true" },
      { "training.exp_avg_dtype=fp8" },
      NULL },
    { "training.exp_avg_sq_dtype",
      { "layout.backend=megatron-lm", "training.precision_aware_optimizer=true" },
      { "training.exp_avg_sq_dtype=fp16" },
      NULL },
    { "training.main_grads_dtype",
      { "layout.backend=megatron-lm", "training.precision_aware_optimizer=true" },
      { "training.main_grads_dtype=bf16" },
      NULL },
    { "training.reduce_dtype", { NULL }, { "training.reduce_dtype=bf16" }, NULL },
    { "training.adamw_kernels",
      { NULL },
      { NULL },
      "of backend fsdp alone, which no flags launch" },
    { "training.gradient_sync",
      { NULL },
      { NULL },
      "of backend fsdp alone, which no flags launch" },
    { "training.epochs", { NULL }, { NULL }, "a step is the same; it counts for days and money" },
};
enum { FIELD_CASES = sizeof field_cases / sizeof field_cases[0] };

static void join(const char **set, int *count, const char *const *from, int limit) {
    for (int i = 0; i < limit && from[i] != NULL; i++)
        set[(*count)++] = from[i];
}

static void check_field(const struct field_case *c) {
    for (int framework = FRAMEWORK_MEGATRON; framework <= FRAMEWORK_DEEPSPEED; framework++) {
        struct arena *arena = arena_create();
        const char *set[SET_LIMIT] = { "model=llama3-8b" };
        int count = 1;
        bool refused, ignored;
        join(set, &count, c->base, 4);
        const char *before = text_of(arena, (enum framework)framework, set, &refused);
        join(set, &count, c->changed, 3);
        const char *after = text_of(arena, (enum framework)framework, set, &ignored);
        /* What is refused already is not launched. */
        if (!refused && strcmp(before, after) == 0)
            fail_msg("%s: another value, and framework %d says the same:\n%s", c->field, framework,
                     after);
        if (framework == FRAMEWORK_MEGATRON) assert_false(refused);
        arena_destroy(arena);
    }
}

static void test_every_field_is_said(void **state) {
    (void)state;
    static const struct field_table *const tables[] = { &scenario_layout_table,
                                                        &scenario_training_table };
    for (size_t t = 0; t < sizeof tables / sizeof tables[0]; t++)
        for (size_t i = 0; i < tables[t]->count; i++) {
            char name[128];
            snprintf(name, sizeof name, "%s.%s", tables[t]->name, tables[t]->fields[i].name);
            int rows = 0;
            for (int k = 0; k < FIELD_CASES; k++)
                rows += strcmp(field_cases[k].field, name) == 0;
            if (rows == 0) fail_msg("%s has no row here", name);
        }
    for (int k = 0; k < FIELD_CASES; k++)
        if (field_cases[k].no_effect == NULL) check_field(&field_cases[k]);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_flags),
        cmocka_unit_test(test_words),
        cmocka_unit_test(test_every_field_is_said),
    };
    return cmocka_run_group_tests(tests, begin, fixture_end);
}
