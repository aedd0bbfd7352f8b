/* test_scenario.c - the scenario reader: references by name, overrides, and the resolved scenario,
 * which must read back as itself. Messages of rules are in test_scenario_rules.c. */
#include "tests/unit/scenario/scenario_fixture.h"

#include <dirent.h>
#include <math.h>
#include <sys/stat.h>
#include "costmodel/step_band.h"
#include "sim/base/file_read.h"
#include "sim/policy/partition/partition.h"

static void test_files_that_are_no_scenario(void **state) {
    (void)state;
    static const struct {
        const char *name, *text, *want, *hint;
    } cases[] = {
        { "empty", "",
          "s.json:1:1: error: the JSON text ends too early: a value, bracket or quote is missing",
          NULL },
        { "cut short", "{ \"model\": \"x\",",
          "s.json:1:16: error: the JSON text ends too early: a value, bracket or quote is missing",
          NULL },
        { "a comment", "{\n  // why\n  \"model\": \"x\" }",
          "s.json:2:3: error: JSON has no comments", NULL },
#define KEYS                                                                                       \
    "its keys: name, description, model, dataset, cluster, layout, training, policy, simulate, "   \
    "rules, "                                                                                      \
    "what_if"
        { "a list", "[]", "s.json:1:1: error: /: \"scenario\" must be an object { ... }", KEYS },
        { "a number", "7", "s.json:1:1: error: /: \"scenario\" must be an object { ... }", KEYS },
        { "null", "null", "s.json:1:1: error: /: \"scenario\" must be an object { ... }", KEYS },
    };
    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
        struct error err = { 0 };
        write_text(cases[i].text);
        if (load(NULL, &err) != NULL) fail_msg("%s: is accepted", cases[i].name);
        check_message(cases[i].name, &err, cases[i].want, cases[i].hint);
    }
    struct error err = { 0 };
    struct scenario_options options = { .directory = SCENARIOS };
    assert_null(scenario_load(&options, "none.json", &err));
    assert_string_equal(err.text, "cannot read none.json: No such file or directory");
    assert_null(scenario_load(&options, ".", &err));
    assert_string_equal(err.text, "cannot read .: it is not a file");
    assert_null(scenario_load(&options, "internvl-6b-20b-iso", &err));
    assert_string_equal(err.text, "there is no scenario 'internvl-6b-20b-iso'\n"
                                  "  hint: did you mean 'internvl-6b-20b-isf'?");
    assert_null(scenario_load(&options, "nosuch", &err));
    assert_string_equal(err.text,
                        "there is no scenario 'nosuch'\n"
                        "  hint: the path of a file, or the name of one in " SCENARIOS "/examples");
}

/* ---- what is accepted ---- */

static void test_defaults(void **state) {
    (void)state;
    struct scenario *s = load_valid(POLICY, "\"policy\": null", NULL);
    assert_string_equal(s->name, "s");
    assert_null(s->description);
    assert_string_equal(s->batching.name, "random");
    assert_string_equal(s->partition.name, "layer");
    assert_string_equal(s->recompute.name, "none");
    assert_string_equal(s->schedule.name, "1f1b");
    assert_string_equal(s->backend->name, "megatron-lm");
    assert_string_equal(s->optimizer->name, "adamw");
    assert_int_equal(s->layout.dp, 4);
    assert_int_equal(s->layout.zero_stage, 1);
    assert_int_equal(s->layout.gpus_per_node, 8);
    assert_true(s->layout.sequence_parallel);
    assert_int_equal(s->micro_batch_samples, 4);
    assert_int_equal(s->micro_batches_per_rank, 4);
    assert_int_equal(s->iteration_limit, 2);
    assert_int_equal(s->simulate_fields.seed, 1024);
    assert_int_equal(s->training_fields.epochs, 1);
    assert_true(isnan(s->cluster_fields.price_usd_per_gpu_hour));
    scenario_destroy(s);
}

/* A text that ends in "..." is the beginning of one. */
static bool assumes(const struct scenario *s, const char *text) {
    const char *dots = strstr(text, "...");
    const size_t length = dots != NULL ? (size_t)(dots - text) : strlen(text) + 1;
    for (int64_t i = 0; s->assumptions[i] != NULL; i++)
        if (strncmp(s->assumptions[i], text, length) == 0) return true;
    return false;
}

/* Latency or efficiency of one's own take the place of the named cluster's measured fabric. */
static void test_own_network(void **state) {
    (void)state;
    static const struct {
        const char *overrides[4], *fabric;
    } cases[] = {
        { { "cluster={\"name\":\"aws-p5\",\"gpu_count\":16}", NULL }, "efa-3200" },
        { { "cluster={\"name\":\"aws-p5\",\"gpu_count\":16,\"nic_latency_us\":30}", NULL }, NULL },
        { { "cluster={\"name\":\"aws-p5\",\"gpu_count\":16,\"nic_efficiency_fraction\":0.5}",
            NULL },
          NULL },
    };
    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
        struct scenario *s = load_valid(MODEL, NULL, cases[i].overrides);
        const char *got = s->cluster_fields.fabric;
        if ((got == NULL) != (cases[i].fabric == NULL)) fail_msg("case %zu: %s", i, got);
        if (got != NULL) assert_string_equal(got, cases[i].fabric);
        assert_true((got == NULL) == assumes(s, "cluster.nic_..."));
        scenario_destroy(s);
    }
}

/* PyTorch's fully_shard shards parameters too: no ZeRO-1 unless it is asked for. */
static void test_fully_shard(void **state) {
    (void)state;
    static const struct {
        const char *overrides[4];
        int64_t want;
    } cases[] = {
        { { "layout.backend=fsdp", "layout.pp=1", NULL }, 3 },
        { { "layout.backend=fsdp", "layout.pp=1", "layout.zero_stage=2", NULL }, 2 },
        { { "layout.backend=deepspeed", "layout.pp=1", NULL }, 1 },
    };
    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
        struct scenario *s = load_valid(MODEL, NULL, cases[i].overrides);
        assert_int_equal(s->layout.zero_stage, cases[i].want);
        scenario_destroy(s);
    }
}

/* Beside a pipeline FSDP keeps what it gathered and reduces once a step: ZeRO-1 with both hidden,
 * and gradients that add up whole in fp32. */
static void test_fully_shard_beside_a_pipeline(void **state) {
    (void)state;
    struct scenario *s = load_valid(
        MODEL, NULL,
        (const char *[]){ "layout.backend=fsdp", "layout.pp=2", "layout.zero_stage=3", NULL });
    assert_int_equal(s->layout_fields.zero_stage, 3);
    assert_int_equal(s->layout.zero_stage, 1);
    assert_true(s->layout.overlap_gradient_reduce && s->layout.overlap_parameter_gather);
    assert_true(s->backend->gradient_bytes == 4 && s->backend->gathers_once);
    bool said = false;
    for (const char *const *text = s->assumptions; *text != NULL; text++)
        said |= strstr(*text, "beside a pipeline FSDP gathers") != NULL;
    assert_true(said);
    scenario_destroy(s);
}

/* The node is the hardware's where the cluster does not state it, with a cache and without. */
static void test_node(void **state) {
    (void)state;
    static const struct {
        const char *hardware;
        int64_t gpu_count, tp, want;
    } cases[] = {
        { "h100-80g-sxm", 32, 2, 8 },       { "b200-180g-sxm", 4, 2, 8 },
        { "gb200-186g-nvl72", 32, 2, 32 },  { "gb200-186g-nvl72", 128, 4, 64 },
        { "gb300-288g-nvl72", 144, 1, 72 }, { "gb300-288g-nvl72", 64, 8, 64 },
    };
    struct scenario_cache *cache = scenario_cache_create();
    for (size_t i = 0; i < 2 * (sizeof cases / sizeof cases[0]); i++) {
        const size_t at = i / 2;
        struct arena *arena = arena_create();
        const struct scenario_options options = {
            .directory = SCENARIOS,
            .cache = i % 2 != 0 ? cache : NULL,
            .overrides =
                (const char *[]){
                    arena_format(arena, "cluster.hardware=%s", cases[at].hardware),
                    arena_format(arena, "cluster.gpu_count=%ld", (long)cases[at].gpu_count),
                    arena_format(arena, "layout.tp=%ld", (long)cases[at].tp), "layout.pp=1",
                    "training={ \"global_batch\": { \"samples\": 576 } }", NULL },
        };
        struct error err = { 0 };
        write_lines(POLICY, "\"policy\": null");
        struct scenario *s = scenario_load(&options, "s.json", &err);
        if (s == NULL) fail_msg("%s: %s", cases[at].hardware, err.text);
        if (s->layout.gpus_per_node != cases[at].want)
            fail_msg("%ld of %s: nodes of %ld GPUs, want %ld", (long)cases[at].gpu_count,
                     cases[at].hardware, (long)s->layout.gpus_per_node, (long)cases[at].want);
        scenario_destroy(s);
        arena_destroy(arena);
    }
    scenario_cache_destroy(cache);
}

static void test_assumptions(void **state) {
    (void)state;
    static const struct {
        const char *name, *overrides[5], *text;
        bool want;
    } cases[] = {
        { "InternViT's 25 heads",
          { NULL },
          "the 25 heads of InternViT-6B-448px are padded to a multiple of tp 2",
          true },
        { "tp 1 pads nothing",
          { "layout.tp=1" },
          "the 25 heads of InternViT-6B-448px are padded to a multiple of tp 1",
          false },
        { "micro_batch not given",
          { "training={}", "policy.batching=random" },
          "micro_batch: 1 sample (not given)",
          true },
        { "micro_batch of a policy that packs",
          { "training={}", "policy.batching=isf" },
          "micro_batch: 1 sample (not given)",
          false },
        { "micro_batch given", { NULL }, "micro_batch: 1 sample (not given)", false },
        { "global_batch not given",
          { "training={}" },
          "global_batch: 1024 samples (not given)",
          true },
        { "sends",
          { "layout.backend=megatron-deepspeed" },
          "a stage waits for its sends to finish before it computes on (backend "
          "megatron-deepspeed)",
          true },
        { "no stages, no sends",
          { "layout.backend=megatron-deepspeed", "layout.pp=1" },
          "a stage waits for its sends to finish before it computes on (backend "
          "megatron-deepspeed)",
          false },
        { "selective recomputation of fused attention",
          { "policy.recompute=selective", "layout.stack=none" },
          "selective recomputation has nothing to drop: flash attention keeps no scores "
          "(training.attention)",
          true },
        { "of core attention whatever its kernel",
          { "policy.recompute=selective" }, /* megatron-core's style */
          "selective recomputation has nothing to drop: flash attention keeps no scores "
          "(training.attention)",
          false },
        { "selective recomputation of scores",
          { "policy.recompute=selective", "training.attention=naive" },
          "selective recomputation has nothing to drop: flash attention keeps no scores "
          "(training.attention)",
          false },
        { "fused attention in single precision",
          { "training.precision=tf32" },
          "attention in fp32 is PyTorch's fused kernel, each product three in TF32; Transformer "
          "Engine has none and writes its scores (training.attention naive)",
          true },
        { "the same by PyTorch's own layers",
          { "training.precision=fp32", "layout.backend=fsdp", "layout.pp=1" },
          "attention in fp32 is PyTorch's fused kernel, each product three in TF32",
          true },
        { "scores written in single precision",
          { "training.precision=tf32", "training.attention=naive" },
          "attention in fp32 is PyTorch's fused kernel...",
          false },
        { "16 bits", { NULL }, "attention in fp32 is PyTorch's fused kernel...", false },
        { "tiles dealt to context-parallel ranks",
          { "layout.cp=2" },
          "context-parallel ranks share the encoder's work by whole tiles",
          true },
        { "more ranks than key-value heads",
          { "layout.cp=16", "layout.cp_kind=all-to-all", "layout.tp=1", "layout.pp=1" },
          "the 8 key-value heads are copied: 16 ranks of tp and of the exchange of heads share "
          "them "
          "(layout.cp_kind)",
          true },
        { "key-value heads for all ranks",
          { "layout.cp=8", "layout.cp_kind=all-to-all", "layout.tp=1", "layout.pp=1" },
          "the 8 key-value heads are copied: 8 ranks of tp and of the exchange of heads share them "
          "(layout.cp_kind)",
          false },
        { "the usual stack of a backend",
          { "layout.backend=fsdp", "layout.pp=1" },
          "the software stack is pytorch-fsdp2, the usual one of backend fsdp (layout.stack)",
          true },
        { "a stack that is named",
          { "layout.stack=nemo-2025" },
          "the software stack is megatron-core, the usual one of backend megatron-lm "
          "(layout.stack)",
          false },
        { "an overlap that its stack's factors hold",
          { "layout.stack=nemo-2025", "layout.tp_overlap=false" },
          "layout.tp_overlap changes what is hidden: the factors of stack nemo-2025...",
          true },
        { "the same left to the stack",
          { "layout.stack=nemo-2025", "layout.tp_overlap=null" },
          "layout.tp_overlap changes what is hidden: the factors of stack nemo-2025...",
          false },
        { "no collectives to overlap",
          { "layout.stack=nemo-2025", "layout.tp_overlap=false", "layout.sp=false" },
          "layout.tp_overlap changes what is hidden: the factors of stack nemo-2025...",
          false },
        { "a stack without sequence parallelism",
          { "layout.stack=gpt-neox", "layout.tp=2" },
          "no sequence parallelism, as gpt-neox (layout.sp)",
          true },
        { "the same where the layout says",
          { "layout.stack=gpt-neox", "layout.tp=2", "layout.sp=true" },
          "no sequence parallelism, as gpt-neox (layout.sp)",
          false },
        { "the same without TP",
          { "layout.stack=gpt-neox", "layout.tp=1" },
          "no sequence parallelism, as gpt-neox (layout.sp)",
          false },
        { "a stack with it",
          { "layout.stack=megatron-core", "layout.tp=2" },
          "no sequence parallelism, as megatron-core (layout.sp)",
          false },
        { "a chunked loss over a divided vocabulary",
          { "layout.stack=hf-liger", "layout.tp=2", "layout.pp=1" },
          "each TP rank runs the chunked loss of hf-liger on its share...",
          true },
        { "a switch that cannot add up, turned off",
          { "cluster.nvls=false" },
          "cluster.nvls changes nothing...",
          true },
        { "one that can",
          { "cluster.nvls=false", "cluster.hardware=h100-80g-sxm" },
          "cluster.nvls changes nothing...",
          false },
        { "collectives of tensor parallelism",
          { "layout.tp=2" },
          "tensor-parallel collectives are exposed...",
          true },
        { "no tensor parallelism",
          { "layout.tp=1" },
          "tensor-parallel collectives are exposed...",
          false },
        { "a stack whose backend nobody names",
          { "layout.stack=jax-fsdp", "layout.pp=1" },
          "backend fsdp, that of stack jax-fsdp (layout.backend)",
          true },
        { "a stack of another backend",
          { "layout.stack=jax-fsdp", "layout.backend=megatron-lm" },
          "stack jax-fsdp, whose runs were of backend fsdp, stands for megatron-lm",
          true },
        { "a stack of a backend's relative",
          { "layout.stack=easyllm", "layout.backend=megatron-deepspeed" },
          "stack easyllm, whose runs were of backend deepspeed, stands for megatron-deepspeed",
          false },
        { "a stack's partition",
          { "layout.stack=nanotron", "policy.partition=null" },
          "partition: cumulative, as stack nanotron does (not given)",
          true },
        { "a partition that is given",
          { "layout.stack=nanotron", "policy.partition=layer" },
          "partition: cumulative, as stack nanotron does (not given)",
          false },
        { "a stack whose runs recompute",
          { "layout.stack=llama-factory-fsdp", "layout.backend=fsdp", "policy.recompute=null" },
          "recompute: none (not given), where usual runs of stack llama-factory-fsdp recompute "
          "\"full\"",
          true },
        { "recomputation that is given",
          { "layout.stack=llama-factory-fsdp", "layout.backend=fsdp", "policy.recompute=none" },
          "recompute: none (not given), ...",
          false },
        { "a part of a rack",
          { "cluster.hardware=gb200-186g-nvl72" },
          "a node is 32 GPUs of the NVLink domain of 72 of gb200-186g-nvl72 "
          "(cluster.gpus_per_node)",
          true },
        { "whole racks",
          { "cluster.hardware=gb300-288g-nvl72", "cluster.gpu_count=144",
            "training.global_batch.samples=144" },
          "a node is 72 GPUs, the NVLink domain of 72 of gb300-288g-nvl72 (cluster.gpus_per_node)",
          true },
        { "nodes of a rack that are given",
          { "cluster.hardware=gb200-186g-nvl72", "cluster.gpus_per_node=32" },
          "a node is 32 GPUs of the NVLink domain of 72 of gb200-186g-nvl72 "
          "(cluster.gpus_per_node)",
          false },
        { "a failing job's checkpoints",
          { "what_if.gpu_mtbf_hours=50000" },
          "a checkpoint stops the training for 30 s, a figure without a source "
          "(what_if.checkpoint_s not given)",
          true },
        { "a failing job's restarts",
          { "what_if.gpu_mtbf_hours=50000", "what_if.checkpoint_s=10" },
          "a failure costs 15 min until training goes on, a figure without a source "
          "(what_if.restart_min not given)",
          true },
        { "restarts that are given",
          { "what_if.gpu_mtbf_hours=50000", "what_if.restart_min=15" },
          "a failure costs 15 min until training goes on, a figure without a source "
          "(what_if.restart_min not given)",
          false },
        { "no failures",
          { "what_if.checkpoint_s=30" },
          "a failure costs 15 min until training goes on, a figure without a source "
          "(what_if.restart_min not given)",
          false },
        { "the best interval",
          { "what_if.gpu_mtbf_hours=50000" },
          "checkpoints at the interval that loses least (what_if.checkpoint_interval_min not "
          "given)",
          true },
        { "an interval that is given",
          { "what_if.gpu_mtbf_hours=50000", "what_if.checkpoint_interval_min=60" },
          "checkpoints at the interval that loses least (what_if.checkpoint_interval_min not "
          "given)",
          false },
        { "loading workers",
          { "what_if.data_loading_ms_per_sample=5" },
          "samples are loaded by 1 worker of each data-parallel rank "
          "(what_if.data_loading_workers not given)",
          true },
        { "loading beside compute",
          { "what_if.data_loading_ms_per_sample=5", "what_if.data_loading_workers=8" },
          "the next step's samples are loaded beside compute (what_if.data_loading_overlaps not "
          "given)",
          true },
        { "loading of images alone",
          { "what_if.data_loading_ms_per_megapixel=12" },
          "samples are loaded by 1 worker of each data-parallel rank "
          "(what_if.data_loading_workers not given)",
          true },
        { "no loading",
          { "what_if.data_loading_workers=8" },
          "the next step's samples are loaded beside compute (what_if.data_loading_overlaps not "
          "given)",
          false },
        { "four GPUs of a server on PCIe",
          { "cluster.hardware=l40s-48g-pcie", "cluster.gpus_per_node=4" },
          "GPUs of a node talk over PCIe, ...",
          true },
        { "two of them",
          { "cluster.hardware=l40s-48g-pcie", "cluster.gpus_per_node=2" },
          "GPUs of a node talk over PCIe, ...",
          false },
        { "a switch of NVLink", { NULL }, "GPUs of a node talk over PCIe, ...", false },
        { "no stack",
          { "layout.stack=none" },
          "the software stack is megatron-core, the usual one of backend megatron-lm "
          "(layout.stack)",
          false },
    };
    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
        struct scenario *s = load_valid(MODEL, NULL, cases[i].overrides);
        bool got = assumes(s, cases[i].text);
        if (got != cases[i].want)
            fail_msg("%s: %s (the first is: %s)", cases[i].name, got ? "assumed" : "not assumed",
                     s->assumptions[0]);
        scenario_destroy(s);
    }
}

static struct band sides_of(const struct scenario *s, enum band_kin kin, double lost_fraction) {
    return cost_model_step_band(s->cost_model, kin,
                                (struct step_doubt){ true, lost_fraction, 0.2, 0 });
}

/* Of one that is as wide to both sides. */
static double band_of(const struct scenario *s, enum band_kin kin, double lost_fraction) {
    const struct band band = sides_of(s, kin, lost_fraction);
    assert_true(band.below == band.above);
    return band.above;
}

/* Where neither a matmul nor a step was measured on a GPU the operators' band is added. */
static void test_bands_of_a_gpu_that_nobody_measured(void **state) {
    (void)state;
    static const struct {
        const char *hardware;
        bool strange;
    } cases[] = {
        { "cluster.hardware=v100-32g-sxm", true },   { "cluster.hardware=gh200-96g", true },
        { "cluster.hardware=h20-96g", false },       { "cluster.hardware=l40s-48g-pcie", false },
        { "cluster.hardware=b200-180g-sxm", false }, { "cluster.hardware=gb200-186g-nvl72", false },
        { "cluster.hardware=h800-80g-sxm", false },  { "cluster.hardware=a100-40g-sxm", false },
    };
    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
        const char *const overrides[] = { cases[i].hardware, "layout.stack=domino",
                                          "training.precision=fp16", NULL };
        struct scenario *s = load_valid(MODEL, NULL, overrides);
        const struct step_doubt none = { true, 0.5, 0, 0 }, some = { true, 0.5, 0.2, 0 };
        const double alone = cost_model_step_band(s->cost_model, KIN_OFF_STACK, none).above,
                     both = cost_model_step_band(s->cost_model, KIN_OFF_STACK, some).above,
                     want = cases[i].strange ? hypot(alone, 0.2) : alone;
        if (fabs(both - want) > 1e-12) fail_msg("%s: %g for %g", cases[i].hardware, both, want);
        scenario_destroy(s);
    }
}

/* What a stack was calibrated on is text: other models take the width of a stack without. */
static void test_bands_of_text_and_of_other_models(void **state) {
    (void)state;
    const char *const overrides[] = { "layout.backend=megatron-deepspeed", NULL };
    struct scenario *s = load_valid(MODEL, NULL, overrides); /* with an encoder */
    assert_false(model_is_text_decoder(s->model));
    const double text = band_of(s, KIN_LIKE_MEASURED, 0.5), other = band_of(s, KIN_OFF_STACK, 0.5);
    assert_true(text > 0.01 && text < other && other < 0.5);
    /* easyllm, whose stack states what OmniBal's runs were off */
    assert_true(band_of(s, KIN_MULTIMODAL, 0.9) == band_of(s, KIN_OFF_STACK, 0.9));
    assert_true(band_of(s, KIN_MULTIMODAL, 0.32) == 0.12);
    scenario_destroy(s);
    const char *const none[] = { "layout.stack=none", NULL };
    s = load_valid(MODEL, NULL, none);
    assert_true(band_of(s, KIN_LIKE_MEASURED, 0.5) == other);
    /* Most runs of models of images take longer than predicted. */
    const struct band images = sides_of(s, KIN_MULTIMODAL, 0.5),
                      busy = sides_of(s, KIN_MULTIMODAL, 0.1);
    assert_true(images.below > 0.1 && images.above > 2 * images.below);
    assert_true(images.below == busy.below && images.above == busy.above);
    const struct step_ratios took = cost_model_multimodal_ratios(s->cost_model);
    assert_true(images.below == 1 - took.low && images.above == took.high - 1);
    scenario_destroy(s);
    s = load_valid(MODEL, "\"model\": \"llama3-8b\"", NULL);
    assert_true(model_is_text_decoder(s->model));
    struct model model = *s->model;
    assert_true(model_writes_text(&model));
    model.modules[MODULE_VISION].layer_count = 24; /* LLaVA */
    assert_true(model_writes_text(&model));
    model.modules[MODULE_LANGUAGE].headless = true; /* CLIP */
    assert_false(model_writes_text(&model));
    model = *s->model;
    model.modules[MODULE_LANGUAGE].bidirectional = true; /* BERT */
    assert_false(model_writes_text(&model));
    model = *s->model;
    model.modules[MODULE_DIFFUSION_DECODER].layer_count = 28; /* text to video */
    assert_false(model_writes_text(&model));
    scenario_destroy(s);
}

static void test_batches(void **state) {
    (void)state;
    static const struct {
        const char *text;
        int64_t micro_batch_samples, micro_batches_per_rank;
    } cases[] = {
        /* dp is 4 */
        { "\"training\": { \"global_batch\": 32 }", 1, 8 },
        { "\"training\": { \"global_batch\": 32, \"micro_batch\": 2 }", 2, 4 },
        { "\"training\": { \"global_batch\": { \"micro_batches\": 32 }, \"micro_batch\": 2 }", 2,
          8 },
        { "\"training\": { \"micro_batch\": { \"samples\": 8 } }", 8, 32 },
        { "\"training\": null", 1, 256 },
        { "\"training\": { \"global_batch\": null, \"micro_batch\": null }", 1, 256 }
    };
    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
        struct scenario *s = load_valid(TRAINING, cases[i].text, NULL);
        if (s->micro_batch_samples != cases[i].micro_batch_samples ||
            s->micro_batches_per_rank != cases[i].micro_batches_per_rank)
            fail_msg("%s: got %ld samples, %ld micro-batches", cases[i].text,
                     (long)s->micro_batch_samples, (long)s->micro_batches_per_rank);
        scenario_destroy(s);
    }
}

static void test_a_tp_group_may_span_whole_nodes(void **state) {
    (void)state;
    struct scenario *s =
        load_valid(MODEL, NULL, (const char *const[]){ "layout.tp=16", "layout.pp=1", NULL });
    assert_int_equal(s->layout.tp, 16);
    assert_int_equal(s->layout.dp, 2);
    scenario_destroy(s);
}

static void test_frozen_modules_and_precisions(void **state) {
    (void)state;
    struct scenario *s = load_valid(
        MODEL,
        "\"model\": { \"name\": \"internvl-6b-20b\", \"frozen\": [ \"vision\", \"vision\" ], "
        "\"precision\": { \"vision\": \"fp8\" } }",
        (const char *const[]){ "cluster.hardware=h100-80g-sxm", "training.precision=fp16", NULL });
    assert_true(s->model->modules[MODULE_VISION].frozen);
    assert_false(s->model->modules[MODULE_LANGUAGE].frozen);
    assert_int_equal(s->model->modules[MODULE_VISION].precision, PRECISION_FP8);
    assert_int_equal(s->model->modules[MODULE_LANGUAGE].precision, PRECISION_FP16);
    assert_int_equal(s->model->modules[MODULE_CONNECTOR].precision, PRECISION_FP16);
    scenario_destroy(s);
}

/* A name takes the file's values; what the section says itself goes before. */
static void test_cluster_by_name(void **state) {
    (void)state;
    static const struct {
        const char *name, *text, *override;
        int64_t gpu_count, nics_per_node;
        double nic_Gbit_per_s_per_gpu, nic_latency_us;
        const char *hardware;
    } cases[] = {
        { "a bare string", "\"cluster\": \"omnibal-a100-4x200g\"", NULL, 32, 4, 100, 10,
          "a100-80g-sxm" },
        { "a section", "\"cluster\": { \"name\": \"omnibal-a100-4x200g\" }", NULL, 32, 4, 100, 10,
          "a100-80g-sxm" },
        { "values of its own",
          "\"cluster\": { \"gpu_count\": 64, \"name\": \"omnibal-a100-4x200g\", "
          "\"nic_latency_us\": "
          "0, \"hardware\": \"a800-80g-sxm\" }",
          NULL, 64, 4, 100, 0, "a800-80g-sxm" },
        { "an override of a bare string", "\"cluster\": \"omnibal-a100-4x200g\"",
          "cluster.gpu_count=16", 16, 4, 100, 10, "a100-80g-sxm" },
        { "an override by a name", "\"cluster\": \"omnibal-a100-4x200g\"",
          "cluster=omnibal-a100-2x200g", 32, 2, 50, 10, "a100-80g-sxm" },
        { "a name of one's own",
          "\"cluster\": { \"name\": \"mine\", \"hardware\": \"a100-80g-sxm\", \"gpu_count\": 8, "
          "\"nic_Gbit_per_s_per_gpu\": 200 }",
          NULL, 8, 0, 200, 10, "a100-80g-sxm" },
        { "a machine, of which a job takes a part",
          "\"cluster\": { \"name\": \"jean-zay-a100\", \"gpu_count\": 64 }", NULL, 64, 4, 50, 10,
          "a100-80g-sxm" },
    };
    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
        const char *overrides[] = { cases[i].override, NULL };
        struct scenario *s = load_valid(CLUSTER, cases[i].text, overrides);
        const struct scenario_cluster *c = &s->cluster_fields;
        if (c->gpu_count != cases[i].gpu_count || c->nics_per_node != cases[i].nics_per_node ||
            fabs(c->nic_Gbit_per_s_per_gpu - cases[i].nic_Gbit_per_s_per_gpu) > 1e-9 ||
            fabs(c->nic_latency_us - cases[i].nic_latency_us) > 1e-9 ||
            strcmp(c->hardware, cases[i].hardware) != 0)
            fail_msg("%s: got %ld GPUs, %ld NICs, %g Gbit/s, %g us, %s", cases[i].name,
                     (long)c->gpu_count, (long)c->nics_per_node, c->nic_Gbit_per_s_per_gpu,
                     c->nic_latency_us, c->hardware);
        scenario_destroy(s);
    }
}

/* What the scenario says, else the encoder, else as for Qwen2-VL. */
static void test_pixels(void **state) {
    (void)state;
    static const struct {
        const char *overrides[4];
        int64_t least, most;
    } cases[] = {
        { { NULL }, 3136, 12845056 },
        { { "model=qwen2.5-vl-7b", NULL }, 3136, 12845056 },
        { { "model=qwen3-vl-8b", NULL }, 65536, 16777216 },
        { { "model=qwen3-vl-8b", "dataset.min_pixels=1024", NULL }, 1024, 16777216 },
        { { "model=qwen3-vl-4b", "dataset.max_pixels=1000000", NULL }, 65536, 1000000 },
    };
    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
        struct scenario *s = load_valid(MODEL, NULL, cases[i].overrides);
        assert_int_equal(s->tiling.min_pixels, cases[i].least);
        assert_int_equal(s->tiling.max_pixels, cases[i].most);
        assert_int_equal(s->dataset_fields.min_pixels, cases[i].least);
        scenario_destroy(s);
    }
    const char *overrides[] = { "model=qwen3-vl-8b", "dataset.max_pixels=60000", NULL };
    struct error err = { 0 };
    write_lines(MODEL, NULL);
    assert_null(load(overrides, &err));
    assert_non_null(strstr(err.text, "min_pixels is above max_pixels"));
}

static void test_names_and_descriptions(void **state) {
    (void)state;
    struct scenario *s =
        load_valid(SIMULATE, "\"name\": \"a \\\"name\\\" \\u00e9\", \"description\": \"\"", NULL);
    assert_string_equal(s->name, "a \"name\" \xc3\xa9");
    assert_string_equal(s->description, "");
    assert_int_equal(s->iteration_limit, 0);
    scenario_destroy(s);
}

/* ---- the resolved scenario ---- */

static char *resolved_text(const struct scenario *s) {
    cJSON *resolved = scenario_resolved(s);
    char *text = cJSON_Print(resolved);
    cJSON_Delete(resolved);
    return text;
}

/* The resolved scenario, read as a scenario, resolves to itself and means the same job. */
static void check_round_trip(const char *name, const struct scenario *s) {
    char *text = resolved_text(s);
    struct error err = { 0 };
    const struct scenario_options options = { .directory = SCENARIOS };
    struct json *json = json_parse(s->path, text, strlen(text), &err);
    struct scenario *again = json != NULL ? scenario_load_json(&options, json, &err) : NULL;
    if (again == NULL) fail_msg("%s: resolved: %s", name, err.text);
    char *second = resolved_text(again);
    if (strcmp(text, second) != 0)
        fail_msg("%s: resolves to\n%s\nand that to\n%s", name, text, second);
    if (memcmp(&s->layout, &again->layout, sizeof s->layout) != 0 ||
        s->micro_batches_per_rank != again->micro_batches_per_rank ||
        s->micro_batch_samples != again->micro_batch_samples ||
        s->iteration_limit != again->iteration_limit ||
        model_parameters(s->model) != model_parameters(again->model) ||
        strcmp(cost_model_profile_id(s->cost_model), cost_model_profile_id(again->cost_model)) != 0)
        fail_msg("%s: the resolved scenario is another job", name);
    cJSON_free(text);
    cJSON_free(second);
    scenario_destroy(again);
}

static int64_t round_trip_folder(const char *path) {
    DIR *directory = opendir(path);
    if (directory == NULL) fail_msg("cannot open %s", path);
    int64_t count = 0;
    for (struct dirent *e = readdir(directory); e != NULL; e = readdir(directory)) {
        char file[4096];
        snprintf(file, sizeof file, "%s/%s", path, e->d_name);
        size_t length = strlen(e->d_name);
        struct stat status;
        if (e->d_name[0] == '.' || stat(file, &status) != 0) continue;
        if (S_ISDIR(status.st_mode)) {
            count += round_trip_folder(file);
            continue;
        }
        /* NAME.table.json lists scenarios, NAME.stack.json is a stack of its own, NAME-sweep.json
         * varies a scenario, inputs.json says where values come from and readings.json which stand
         * first; none of them is one. */
        if (length < 5 || strcmp(e->d_name + length - 5, ".json") != 0) continue;
        if (strstr(e->d_name, ".table.") != NULL || strstr(e->d_name, ".stack.") != NULL ||
            strstr(e->d_name, "-sweep.") != NULL || strcmp(e->d_name, "inputs.json") == 0 ||
            strcmp(e->d_name, "readings.json") == 0)
            continue;
        struct scenario_options options = { .directory = SCENARIOS };
        struct error err = { 0 };
        struct scenario *s = scenario_load(&options, file, &err);
        if (s == NULL) fail_msg("%s: %s", file, err.text);
        check_round_trip(file, s);
        scenario_destroy(s);
        count++;
    }
    closedir(directory);
    return count;
}

static void test_shipped_scenarios_round_trip(void **state) {
    (void)state;
    assert_true(round_trip_folder(SCENARIOS "/examples") >= 2);
    assert_true(round_trip_folder(SCENARIOS "/papers") >= 8);
}

static void test_odd_scenarios_round_trip(void **state) {
    (void)state;
    static const struct {
        const char *name, *overrides[6];
    } cases[] = {
        { "base", { NULL } },
        { "no batches", { "training={}" } },
        { "micro-batches", { "training={\"global_batch\":{\"micro_batches\":8}}" } },
        { "fractions",
          { "cluster.nic_efficiency_fraction=0.1", "cluster.nic_latency_us=0.30000000000000004",
            "cluster.price_usd_per_gpu_hour=1e-7" } },
        { "cluster by name", { "cluster=omnibal-a100-4x200g", "cluster.nic_latency_us=3.7" } },
        { "cluster of one's own", { "cluster.name=mine" } },
        { "frozen", { "model.frozen=[\"vision\"]" } },
        { "precisions",
          { "cluster.hardware=h100-80g-sxm", "model.precision.vision=fp8",
            "training.precision=fp16" } },
        { "policies",
          { "policy.recompute={\"name\":\"stages\",\"blocks\":[3,2,0,0]}",
            "policy.partition={\"name\":\"parameter\",\"method\":\"min-max\"}",
            "policy.schedule=gpipe", "policy.batching.llm_threshold=0" } },
        { "native",
          { "model=qwen2-vl-7b", "dataset.tiling=native", "dataset.max_pixels=1000000" } },
        { "epoch", { "simulate.iterations=epoch", "simulate.seed=4294967295" } },
        { "texts", { "name=a \"b\" \xc3\xa9 \\", "description=", "layout.sp=false" } },
    };
    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
        struct scenario *s = load_valid(MODEL, NULL, cases[i].overrides);
        check_round_trip(cases[i].name, s);
        scenario_destroy(s);
    }
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_files_that_are_no_scenario),
        cmocka_unit_test(test_defaults),
        cmocka_unit_test(test_fully_shard),
        cmocka_unit_test(test_fully_shard_beside_a_pipeline),
        cmocka_unit_test(test_node),
        cmocka_unit_test(test_assumptions),
        cmocka_unit_test(test_own_network),
        cmocka_unit_test(test_bands_of_text_and_of_other_models),
        cmocka_unit_test(test_bands_of_a_gpu_that_nobody_measured),
        cmocka_unit_test(test_batches),
        cmocka_unit_test(test_a_tp_group_may_span_whole_nodes),
        cmocka_unit_test(test_frozen_modules_and_precisions),
        cmocka_unit_test(test_cluster_by_name),
        cmocka_unit_test(test_pixels),
        cmocka_unit_test(test_names_and_descriptions),
        cmocka_unit_test(test_shipped_scenarios_round_trip),
        cmocka_unit_test(test_odd_scenarios_round_trip),
    };
    return cmocka_run_group_tests(tests, enter_folder, leave_folder);
}
