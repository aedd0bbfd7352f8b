/* test_measured_framework.c - what trained a row whose stack's name tells it by half or not at
 * all.
 */
#include <stdlib.h>
#include <string.h>
#include "tests/unit/study/measured/measured_fixture.h"

struct row {
    const char *stack, *source, *notes;
    const char *zero_stage, *tp, *precision;
    const char *want;
};

static const char header[] =
    "row_id,source,model,layers,hidden,ffn_hidden,ffn,heads,vocab,seq_len,hardware,gpu_count,tp,"
    "micro_batch,global_batch,zero_stage,precision,stack,iter_time_s,notes\n";

static void check(const char *model, const struct row *rows, size_t count) {
    struct measured_context context = shipped_context();
    char line[2048];
    for (size_t i = 0; i < count; i++) {
        const struct row *r = &rows[i];
        snprintf(line, sizeof line,
                 "row,\"%s\",%s,12,4096,16384,gelu,32,32000,2048,%s,8,%s,1,64,%s,%s,%s,"
                 "1,\"%s\"\n",
                 r->source, model,
                 strncmp(r->precision, "fp4", 3) == 0 || strcmp(r->precision, "fp8") == 0
                     ? "b200-sxm"
                     : "a100-80g-sxm",
                 r->tp, r->zero_stage, r->precision, r->stack, r->notes);
        const struct measured_scenario m = scenario_of_row(&context, header, line);
        cJSON_Delete(m.document);
        if (strcmp(m.stack->name, r->want) != 0)
            fail_msg("%s, %s, \"%s\": got %s, not %s", r->stack, r->source, r->notes, m.stack->name,
                     r->want);
    }
    arena_destroy(context.arena);
}

/* The notes say whose code runs, how its kernels are made and which engine shares gradients; the
 * layout says the last where nothing else does. */
static void test_composed(void **state) {
    (void)state;
    static const struct row rows[] = {
        { "oumi-2024", "a page", "HF Trainer, weights in bf16", "0", "1", "bf16", "hf-bf16" },
        { "oumi-2024", "a page", "HF Trainer, bf16 autocast over fp32 weights", "0", "1", "bf16",
          "hf-ddp-2025" },
        { "oumi-2024", "a page", "HF Trainer, torch.compile", "0", "1", "bf16", "hf-compile" },
        { "oumi-2024", "a page", "HF Trainer, not compiled", "0", "1", "bf16", "hf-ddp-2025" },
        { "transformers-2021", "a page", "", "0", "1", "fp16", "hf-ddp" },
        { "transformers-2021", "a page", "", "1", "1", "fp16", "hf-deepspeed-2022" },
        { "transformers-2024", "a page", "FSDP full shard", "3", "1", "bf16", "hf-fsdp" },
        { "deepspeed-2021", "a page", "", "1", "1", "fp16", "hf-deepspeed-2022" },
        { "deepspeed-2021", "a page (Megatron-LM)", "", "3", "1", "fp16", "deepspeed-zero3-2021" },
        { "hf-trainer-liger-2026", "a page", "Liger's fused head and cross entropy", "0", "1",
          "bf16", "hf-ddp-liger-loss" },
        { "TRL with DeepSpeed ZeRO-3 and Liger kernels (2026)", "a page", "", "3", "1", "bf16",
          "hf-deepspeed-liger-2026" },
        { "TRL with DeepSpeed ZeRO-3 and Liger (2026)", "a page", "only the fused loss", "3", "1",
          "bf16", "hf-deepspeed-liger-loss-2026" },
        { "PyTorch AMP 2026", "a page", "torch.compile", "0", "1", "bf16", "nanogpt-2026" },
        { "pytorch amp 2026", "a page", "RMSNorm written out in fp32", "0", "1", "bf16",
          "pytorch-amp-written-norm-2026" },
        { "pytorch amp 2026", "a page", "gradient norm written out every 10 steps", "0", "1",
          "bf16", "pytorch-amp-2026" },
        { "pytorch amp 2026", "a page", "eager, without torch.autocast", "0", "1", "bf16",
          "pytorch-amp-2026" },
        { "own PyTorch 2024", "a page", "torch.compile, without torch.autocast", "0", "1", "bf16",
          "pytorch-fsdp2" },
        { "own PyTorch 2024", "a page", "compiled model no dropout", "0", "1", "bf16", "nanogpt" },
        { "hf-deepspeed-2025", "a page", "use_liger_kernel true", "3", "1", "bf16",
          "hf-deepspeed-liger" },
        { "hf-deepspeed-2025", "a page", "use_liger_kernel=False", "3", "1", "bf16",
          "hf-deepspeed-2025" },
        { "hf-deepspeed-2026", "a page", "use_liger_kernel: true", "3", "1", "bf16",
          "hf-deepspeed-liger-2026" },
        { "hf-deepspeed-liger-2025", "a page", "fused loss and rotary positions", "3", "1", "bf16",
          "hf-deepspeed-liger" },
        { "own PyTorch 2026", "a page", "eager (compile_model False), autocast", "0", "1", "bf16",
          "pytorch-amp-2026" },
        { "own PyTorch 2026", "a page", "compile_model=0, autocast", "0", "1", "bf16",
          "pytorch-amp-2026" },
        { "own PyTorch with torch.compile and DDP 2025", "a page", "no autocast, all in bf16", "0",
          "1", "bf16", "hf-compile-bf16" },
        { "pytorch-ddp-compile-2025", "a page", "weights in bf16 without master weights", "0", "1",
          "bf16", "hf-compile-bf16" },
        { "pytorch-ddp-compile-2025", "a page", "weights in bf16, fp32 shards", "0", "1", "bf16",
          "pytorch-fsdp2" },
        { "pytorch-eager-2026", "a page", "autocast", "0", "1", "bf16", "pytorch-amp-2026" },
        { "pytorch-eager-2026", "a page", "autocast", "3", "1", "bf16", "pytorch-eager-2026" },
        { "pytorch-eager-2026", "a page", "weights in bf16", "0", "1", "bf16",
          "pytorch-eager-bf16-2026" },
        { "pytorch-ddp-eager-2025", "a page", "autocast", "0", "1", "bf16", "hf-ddp-2025" },
        { "pytorch-fsdp-eager-2025", "a page", "autocast", "3", "1", "bf16", "torchtitan-eager" },
        { "transformers-peft-ddp-2026", "a page",
          "weights, adapters and gradients in bf16, autocast", "0", "1", "bf16", "hf-bf16-2026" },
        { "transformers-fsdp-2024", "a page", "use_liger_False", "3", "1", "bf16", "hf-fsdp" },
        { "transformers-fsdp-2024", "a page", "llama_use_liger_False_patching_type_None.log", "3",
          "1", "bf16", "hf-fsdp" },
        { "transformers-fsdp2-dtensor-2025", "a page", "", "3", "1", "bf16", "hf-fsdp-2025" },
        { "pytorch-te-2024", "a page", "", "0", "1", "bf16", "hf-te" },
        { "lightning-2022", "Dao-AILab/flash-attention", "", "0", "1", "bf16",
          "flash-attention-training" },
        { "fms-hf-tuning-fsdp-2024", "a page", "", "3", "1", "bf16", "hf-fsdp" },
        { "nemo HFAutoModelForCausalLM 2025", "a page", "", "3", "1", "bf16", "hf-bf16" },
        { "torchtune-2025", "a page", "torch.compile", "3", "1", "bf16", "torchtune-compile" },
        { "torchtune-2025", "a page", "eager", "3", "1", "bf16", "torchtune" },
        { "alpa-2022", "a page", "", "0", "2", "fp16", "jax-fsdp" },
        { "PyTorch 2024", "a page",
          "model gpt2 in bfloat16, torch.compile, autocast over fp32 weights", "0", "1", "bf16",
          "nanogpt" },
        { "PyTorch with torch.compile and FSDP 2025", "a page", "all in bf16", "3", "1", "bf16",
          "pytorch-fsdp2" },
        { "gpt-mine-2025", "a page", "bf16 autocast over fp32 weights, torch.compile", "0", "1",
          "bf16", "nanogpt-2025" },
        { "gpt-mine-2025", "a page", "bf16 autocast", "0", "1", "bf16", "hf-ddp-2025" },
        { "course-2025", "a page", "eager steps, weights, gradients and states bf16", "0", "1",
          "bf16", "pytorch-eager-bf16" },
        { "course-2025", "a page", "eager steps, weights, gradients and states bf16", "3", "2",
          "bf16", "pytorch-eager-bf16" },
        { "transformers-fsdp-2024", "a page", "weights in bf16", "3", "1", "bf16", "hf-bf16" },
        { "hf-trainer-deepspeed-2021", "a page", "", "1", "1", "fp16", "hf-deepspeed-2022" },
        { "ezpz-fsdp2-2026", "a page", "", "3", "1", "bf16", "ezpz" },
        { "torchtitan-2026", "a page", "FSDP2, eager", "3", "1", "bf16", "torchtitan-eager-2026" },
        { "torchtitan-2026", "a page", "eager attention", "3", "1", "bf16", "torchtitan-2026" },
        { "mine-2025", "a page", "of Megatron-core 0.12", "1", "1", "bf16", "megatron-core" },
    };
    check("mine", rows, sizeof rows / sizeof rows[0]);
}

/* A name that says all stays as it is, whatever the notes say besides; so does somebody's own. One
 * that is compiled does not say whether its weights are cast. */
static void test_whole_names(void **state) {
    (void)state;
    static const struct row rows[] = {
        { "transformers-fsdp-2024", "a page", "of Megatron-core", "3", "1", "bf16", "hf-fsdp" },
        { "pytorch-compile-2025", "a page", "", "0", "1", "bf16", "nanogpt-2025" },
        { "pytorch-compile-2025", "a page", "autocast", "0", "1", "bf16", "nanogpt-2025" },
        { "pytorch-compile-2025", "a page", "autocast", "3", "1", "bf16", "pytorch-fsdp2" },
        { "plain pytorch + torch.compile", "a page", "autocast(bf16) DDP", "0", "1", "bf16",
          "nanogpt" },
        { "PyTorch 2.5 eager with autocast bf16", "a page", "", "0", "1", "bf16", "hf-ddp-2025" },
        { "LigerKernel + DeepSpeed", "a page", "", "3", "1", "bf16", "hf-deepspeed-liger" },
        { "nanogpt-2025", "a page", "Transformers beside it", "0", "1", "bf16", "nanogpt-2025" },
        { "qwen-deepspeed-2023", "a page", "", "3", "1", "bf16", "qwen-deepspeed" },
        { "megatron-core-2024", "a page", "PyTorch 2.3", "1", "2", "bf16", "megatron-core-2024" },
    };
    check("mine", rows, sizeof rows / sizeof rows[0]);
}

/* Words in passing, denied or of something else. */
static void test_passing_words(void **state) {
    (void)state;
    static const struct row rows[] = {
        { "hf-trainer-2025", "a page", "FSDP (DeepSpeed OOMed)", "", "1", "bf16", "hf-fsdp-2025" },
        { "hf-transformers-fsdp2-2025", "a page", "torch.compile", "3", "1", "bf16", "hf-compile" },
        { "hf-transformers-fsdp2-2025", "a page", "not compiled", "3", "1", "bf16",
          "hf-fsdp-2025" },
        { "pytorch-2025", "a page", "FSDP2, autocast bf16, torch.compile", "", "1", "bf16",
          "pytorch-fsdp2" },
        { "hf-trainer-2025", "a page", "ZeRO-3", "", "1", "bf16", "hf-deepspeed-2025" },
        { "hetu-2022", "a page", "", "0", "2", "fp16", "megatron-2022" },
        { "torchtitn", "a page", "", "3", "1", "bf16", "torchtitan" },
        { "torchtitan-2025", "a page", "30% faster than eager", "3", "1", "bf16", "torchtitan" },
        { "torchtitan-2025", "a page", "attn_implementation=eager", "3", "1", "bf16",
          "torchtitan" },
        { "hf-trainer-2024", "a page", "flash-attn compiled from source", "0", "1", "bf16",
          "hf-ddp-2025" },
        { "hf-trainer-2024", "a page", "use_liger_kernel=False", "0", "1", "bf16", "hf-ddp-2025" },
        { "hf-trainer-bf16-2024", "a page", "DeepSpeed ZeRO-2", "2", "1", "bf16", "hf-deepspeed" },
        { "my-trainer-2025", "a page", "own PyTorch, torch.compile, FSDP2", "3", "1", "bf16",
          "pytorch-fsdp2" },
        { "trainer-ddp-2022", "a page", "torch 1.12", "0", "1", "fp16", "hf-ddp" },
        { "megatron-lm flash-attention 2023", "a page", "", "0", "1", "fp16", "megatron-2022" },
        { "nemo transformer-engine 2025", "a page", "", "1", "2", "bf16", "nemo-2025" },
        { "flash-attention-2023", "a page", "", "1", "1", "bf16", "flash-attention-training" },
        { "pytorch-fsdp-2024", "FSDP vs DeepSpeed, MosaicML blog", "", "3", "1", "bf16",
          "pytorch-fsdp2" },
        { "hf-deepspeed-2022", "a page", "GPT-2 of Megatron", "1", "1", "fp16",
          "hf-deepspeed-2022" },
        { "nemo-2025", "a page", "fp8_dpa=0", "1", "2", "bf16", "nemo-2025" },
        { "megatron-lm", "NVIDIA/Megatron-LM issue 2022", "", "0", "2", "bf16", "megatron-core" },
        { "fork-2025", "a page", "nvcr.io/nvidia/pytorch:24.05, Megatron-LM fork", "0", "1", "bf16",
          "megatron-core" },
    };
    check("Megatron-11B", rows, sizeof rows / sizeof rows[0]);
}

/* "PyTorch FSDP" of a source that is known; before torch.compile it was eager. */
static void test_pytorch_of_a_source(void **state) {
    (void)state;
    static const struct row rows[] = {
        { "pytorch-fsdp-2024", "foundation-model-stack/fms-fsdp", "", "3", "1", "bf16",
          "fms-fsdp" },
        { "pytorch-fsdp-2024", "a page", "", "3", "1", "bf16", "pytorch-fsdp2" },
        { "pytorch-fsdp-2023", "a page", "", "3", "1", "bf16", "hf-fsdp" },
        { "pytorch-fsdp-2023", "a page", "torch.compile", "3", "1", "bf16", "pytorch-fsdp2" },
    };
    check("mine", rows, sizeof rows / sizeof rows[0]);
}

/* Recipes, scripts and models that make another stack of a framework. */
static void test_refined(void **state) {
    (void)state;
    static const struct row qwen[] = {
        { "megatron-bridge-2026", "a page", "", "1", "1", "bf16", "megatron-bridge-qwen" },
        { "megatron-bridge-2026", "a page", "qwen3_8b_pretrain_config", "1", "1", "bf16",
          "megatron-bridge-qwen" },
        { "megatron-core-2026", "a page", "", "1", "1", "bf16", "megatron-core" },
    };
    static const struct row others[] = {
        { "megatron-bridge-2026", "a page", "", "1", "1", "bf16", "megatron-bridge-2026" },
        { "megatron-bridge-2026", "a page", "llama3_8b_pretrain_config", "1", "1", "bf16",
          "megatron-bridge-recipes" },
        { "nemo-2024", "a page", "megatron_gpt_pretraining.py", "1", "1", "bf16", "nemo-examples" },
        { "nemo-2025", "a page", "a bare GPTConfig", "1", "1", "bf16", "nemo-2025-plain" },
        { "megatron-2021", "Oneflow-Inc/DLPerf", "", "0", "1", "fp16", "megatron-2020" },
        { "hf-fsdp-2026", "a page", "TRL 1.6", "3", "1", "bf16", "hf-fsdp-2026" },
        { "hf-fsdp-2026", "a page", "TRL 1.12", "3", "1", "bf16", "hf-fsdp-chunked-loss-2026" },
        { "hf-fsdp-2026", "a page", "chunked_nll of TRL 1.13", "3", "1", "bf16",
          "hf-fsdp-chunked-loss-1.13" },
        { "hf-fsdp-2026", "a page", "trl==1.20.0", "3", "1", "bf16", "hf-fsdp-chunked-loss-1.13" },
        { "hf-fsdp-2026", "a page", "TRL v1.7", "3", "1", "bf16", "hf-fsdp-chunked-loss-1.13" },
        { "hf-fsdp-2026", "a page", "chunked_nll is off", "3", "1", "bf16", "hf-fsdp-2026" },
        { "TRL 1.13 by DDP", "a page", "", "0", "1", "bf16", "hf-trainer-chunked-loss-2026" },
        { "nanogpt", "a page", "torch 2.5.1", "0", "1", "bf16", "nanogpt-2025" },
        { "nanogpt", "a page", "torch 2.4", "0", "1", "bf16", "nanogpt" },
        { "hf-bf16-2026", "a page", "TRL 1.8", "0", "1", "bf16", "hf-bf16-chunked-loss-2026" },
        { "hf-bf16-2026", "a page", "cut_cross_entropy: true", "0", "1", "bf16",
          "hf-bf16-cce-2026" },
    };
    static const struct row small[] = {
        { "nemo-2025", "mlcommons/training_results_v5.1", "NVFP4", "1", "1", "fp4",
          "nemo-fp8-attention" },
        { "nemo-2025", "mlcommons/training_results_v5.1", "MXFP8", "1", "1", "fp8", "nemo-2025" },
        { "megatron-core", "mlperf-like", "", "1", "1", "fp4", "megatron-core" },
        { "megatron-bridge-2026", "a page", "tokenizer of Qwen2", "1", "1", "bf16",
          "megatron-bridge-2026" },
    };
    check("Qwen3 8B", qwen, sizeof qwen / sizeof qwen[0]);
    check("Llama 3.1 8B", small, sizeof small / sizeof small[0]);
    check("mine", others, sizeof others / sizeof others[0]);
}

/* Weights in fp32 whatever computes: the modules of autocast, where each rank has them whole. */
static void test_whole_precisions(void **state) {
    (void)state;
    static const struct row rows[] = {
        { "PyTorch 2025 eager", "a page", "", "0", "1", "fp32", "hf-ddp-2025" },
        { "PyTorch 2026 eager", "a page", "", "0", "1", "fp32", "pytorch-amp-2026" },
        { "PyTorch 2026 eager", "a page", "", "0", "1", "tf32", "pytorch-amp-2026" },
        { "PyTorch 2026 eager", "a page", "", "3", "1", "fp32", "pytorch-eager-2026" },
        { "PyTorch 2025 compiled", "a page", "", "0", "1", "tf32", "nanogpt-2025" },
        { "PyTorch 2024 compiled", "a page", "", "0", "1", "tf32", "nanogpt" },
        { "PyTorch 2026 compiled", "a page", "bf16 autocast; the loss stands outside", "0", "1",
          "bf16", "nanogpt-eager-loss-2026" },
        { "nanogpt-2025", "a page", "return_logits=False", "0", "1", "bf16", "nanogpt-loss-alone" },
        { "nanogpt-2025", "a page", "PyTorch 2.7; it returns the loss alone", "0", "1", "bf16",
          "nanogpt-loss-alone-2.6" },
        { "nanogpt-2025", "a page", "it does not return the loss alone", "0", "1", "bf16",
          "nanogpt-2025" },
        { "pytorch-eager-bf16-2026", "a page", "nn.RMSNorm", "0", "1", "bf16",
          "pytorch-eager-bf16-fused-norm-2026" },
        { "nanogpt-2026", "a page", "it returns the loss alone", "0", "1", "bf16",
          "nanogpt-loss-alone-2026" },
        { "pytorch-amp-2026", "a page", "it returns the loss alone", "0", "1", "bf16",
          "pytorch-amp-loss-alone-2026" },
        { "PyTorch 2025 eager", "a page", "model of CS336", "0", "1", "fp32", "cs336" },
        { "PyTorch 2025 compiled", "a page", "model of CS336", "0", "1", "tf32", "cs336-compile" },
    };
    check("mine", rows, sizeof rows / sizeof rows[0]);
    /* One GPU holds all, whatever else the page tells of. */
    static const char *const ends[][2] = {
        { "fp32,PyTorch 2025 eager,1,single GPU; the next table is of FSDP\n", "hf-ddp-2025" },
        { "bf16,PyTorch 2023,1,bf16 autocast; the next table is of FSDP\n", "hf-ddp" },
    };
    struct measured_context context = shipped_context();
    for (size_t i = 0; i < sizeof ends / sizeof ends[0]; i++) {
        const struct measured_scenario m = scenario_of_row(
            &context, header,
            arena_format(
                context.arena,
                "row,a page,mine,12,4096,16384,gelu,32,32000,2048,a100-80g-sxm,1,1,1,8,,%s",
                ends[i][0]));
        cJSON_Delete(m.document);
        assert_string_equal(m.stack->name, ends[i][1]);
    }
    arena_destroy(context.arena);
}

/* Nothing tells: a name that is not known is somebody's PyTorch where no layer is divided. */
static void test_layouts(void **state) {
    (void)state;
    static const struct row rows[] = {
        { "danube-2024", "a page", "", "0", "1", "bf16", "pytorch-fsdp2" },
        { "danube-2022", "a page", "", "0", "1", "bf16", "hf-ddp" },
        { "danube-2024", "a page", "", "0", "2", "bf16", "megatron-core" },
        { "", "a page", "", "0", "1", "bf16", "megatron-core" },
        { "", "a page", "", "3", "1", "bf16", "pytorch-fsdp2" },
    };
    check("mine", rows, sizeof rows / sizeof rows[0]);
}

/* The year of a source stands for one that the name lacks. */
static void test_year_of_source(void **state) {
    (void)state;
    static const struct row rows[] = {
        { "megatron-lm", "arXiv 2105.04663", "", "0", "2", "fp16", "megatron-2022" },
        { "megatron-lm", "arXiv 2411.05288", "", "0", "2", "bf16", "megatron-core-2024" },
        { "megatron-lm-2021", "arXiv 2411.05288", "", "0", "2", "fp16", "megatron-2022" },
        /* of no year: fp16 is of 2022, bf16 of any */
        { "megatron-lm", "a page", "", "0", "2", "fp16", "megatron-2022" },
        { "megatron-lm", "a page", "", "0", "2", "bf16", "megatron-core" },
        { "megatron-core", "a page", "", "0", "2", "fp16", "megatron-core" },
        { "megatron-lm with flash attention", "a page", "", "0", "2", "fp16", "megatron-core" },
        { "megatron-lm-2024", "a page", "", "0", "2", "fp16", "megatron-core-2024" },
        /* its jit scripts: as its log has it, later code compiles them */
        { "megatron-lm-2023", "a page", "nvfuser is no longer supported", "0", "2", "bf16",
          "megatron-2022-unfused" },
        { "megatron-lm-2023", "a page", "PyTorch 2.3", "0", "2", "bf16", "megatron-2022" },
        { "megatron-core", "a page", "--cross-entropy-fusion-impl te", "0", "2", "bf16",
          "megatron-core-te-loss" },
        { "colossalai-2025", "a page", "benchmark of examples/language/llama", "2", "1", "bf16",
          "colossalai" },
        { "colossalai-2023", "a page", "", "2", "1", "bf16", "hf-deepspeed" },
        { "te_llama 2024", "a page", "", "0", "1", "bf16", "hf-te" },
    };
    check("mine", rows, sizeof rows / sizeof rows[0]);
}

/* Files of one's own that refine each other, or themselves, end somewhere. */
static void test_a_ring(void **state) {
    (void)state;
    static const char text[] = "{\"name\":\"%s\",\"description\":\"d\",\"year\":2024,"
                               "\"backend\":\"fsdp\",\"refines\":[\"%s\"],"
                               "\"told_by\":[\"round\"],\"sources\":{}}\n";
    static const char *const ring[][2] = { { "ring-a", "ring-b" },
                                           { "ring-b", "ring-a" },
                                           { "ring-c", "ring-c" } };
    char folder[] = "/tmp/test_measured_framework.XXXXXX", command[1024], path[1024];
    assert_non_null(mkdtemp(folder));
    snprintf(command, sizeof command, "cp -r %s/scenarios/. %s", BALLAST_SOURCE_DIR, folder);
    assert_int_equal(system(command), 0);
    for (size_t i = 0; i < sizeof ring / sizeof ring[0]; i++) {
        snprintf(path, sizeof path, "%s/stacks/%s.json", folder, ring[i][0]);
        FILE *file = fopen(path, "w");
        assert_non_null(file);
        fprintf(file, text, ring[i][0], ring[i][1]);
        assert_int_equal(fclose(file), 0);
    }
    struct arena *arena = arena_create();
    struct measured_context context;
    struct error err = { 0 };
    if (!measured_context_make(&context, arena, folder, &err)) fail_msg("%s", err.text);
    for (size_t i = 0; i < sizeof ring / sizeof ring[0]; i++) {
        snprintf(command, sizeof command,
                 "row,a page,mine,12,4096,16384,gelu,32,32000,2048,a100-80g-sxm,8,1,1,64,3,bf16,%s,"
                 "1,round and round\n",
                 ring[i][0]);
        const struct measured_scenario m = scenario_of_row(&context, header, command);
        cJSON_Delete(m.document);
        assert_int_equal(strncmp(m.stack->name, "ring-", 5), 0);
    }
    arena_destroy(arena);
    snprintf(command, sizeof command, "rm -r %s", folder);
    assert_int_equal(system(command), 0);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_composed),
        cmocka_unit_test(test_whole_names),
        cmocka_unit_test(test_pytorch_of_a_source),
        cmocka_unit_test(test_refined),
        cmocka_unit_test(test_whole_precisions),
        cmocka_unit_test(test_layouts),
        cmocka_unit_test(test_passing_words),
        cmocka_unit_test(test_a_ring),
        cmocka_unit_test(test_year_of_source),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
