/* test_measured_said.c - what a source's own words say of a run. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <cmocka.h>
#include "sim/study/measured/measured_clause.h"
#include "sim/study/measured/measured_said.h"

static void test_offload(void **state) {
    (void)state;
    static const struct {
        const char *text;
        bool offloads;
    } cases[] = {
        { "DeepSpeed ZeRO-3 with offload_optimizer cpu", true },
        { "--optimizer-cpu-offload", true },
        { "args: --cpu-optimizer --zero-stage=1", true },
        { "zero-offload-2023", true },
        { "DeepSpeed ZeRO-3 offload", true },
        { "DeepSpeed ZeRO-3 (CPU offload of the optimizer)", true },
        { "torch.optim replaced by DeepSpeedCPUAdam", true },
        { "ds_z3_offload_config.json", true },
        { "FSDP with CPU offload", true },
        { "the optimizer states are kept on the CPU", true },
        { "optimizer state in host memory", true },
        { "offloads the optimizer to host memory", true },
        { "CPUOffload(offload_params=True)", true },
        { "no dropout, optimizer offloaded to the CPU", true },
        { "ZeRO-Infinity", true },
        { "offload_optimizer_device: none", false },
        { "offload_param_device none", false },
        { "offload_optimizer: null", false },
        { "optimizer_cpu_offload=False", false },
        { "optimizer-offload-fraction 0.0", false },
        { "optimizer offload: no", false },
        { "CPUOffload(offload_params=False)", false },
        { "ZeRO-Offload disabled", false },
        { "offload_optimizer not used", false },
        { "without parameter or optimizer offload", false },
        { "beats ZeRO-Infinity by 1.2x", false },
        { "no optimizer offload", false },
        { "offload_blocks: cpu_offloading_num_layers of its recipe", false },
        { "offloads activations of the optimizer's blocks", false },
        { "no offload and no recomputation", false },
        { "distributed optimizer", false },
        { "runs on the CPU of another host", false },
        { "", false },
    };
    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++)
        if (measured_says_offload(cases[i].text) != cases[i].offloads)
            fail_msg("\"%s\"", cases[i].text);
}

/* What is not stated is not said, in the lists that people write; what stands beside it is. */
static void test_unstated(void **state) {
    (void)state;
    static const struct {
        const char *text, *recompute, *attention;
        int64_t stage;
    } cases[] = {
        { "Not stated in its files (common.sh, fp8.sh): interleaving, recomputation, attention", "",
          "", -1 },
        { "Not stated: recomputation, FlashAttention-2", "", "", -1 },
        { "Recomputation, attention kernel not stated", "", "", -1 },
        { "a log; recomputation, ZeRO stage, attention not given. ZeRO-2", "", "", 2 },
        { "unspecified: recomputation; ZeRO-3 with flash attention", "", "flash", 3 },
        { "Stack not stated. Activation checkpointing, FlashAttention-2", "full", "flash-2", -1 },
        { "full recomputation, attention kernel not stated", "full", "", -1 },
        { "selective recomputation, ZeRO-3, network not stated", "selective", "", 3 },
        { "gradient checkpointing, network not stated", "full", "", -1 },
        { "eager attention, network not stated", "", "naive", -1 },
        { "activation checkpointing (form of the card not stated)", "full", "", -1 },
        { "micro-batch not stated, recompute: none", "none", "", -1 },
        { "micro-batch not stated, recompute: selective", "selective", "", -1 },
        { "(batch not stated) gradient checkpointing: off", "none", "", -1 },
        { "network not stated, attention: naive", "", "naive", -1 },
        { "hostnames not given, flash attention: disabled", "", "naive", -1 },
        { "recomputation not reported", "", "", -1 },
        { "Compilation, attention and checkpointing not stated.", "", "", -1 },
        { "Precision, recompute, sharding of the optimizer and network rate not stated", "", "",
          -1 },
        { "recomputation of whole blocks. Sharding of states and network not stated", "full", "",
          -1 },
        { "gradient checkpointing, attention and offload not stated", "", "", -1 },
        { "full activation checkpointing, flash attention and compile are not given", "", "", -1 },
        { "flash attention and full recomputation not stated, ZeRO-3", "", "", 3 },
        { "ZeRO-2, attention and recomputation unknown", "", "", 2 },
        { "ZeRO-2 with full recomputation, attention and network not stated", "full", "", 2 },
        { "FlashAttention-2 and activation checkpointing; network and vocabulary not stated",
          "full", "flash-2", -1 },
        { "Attention, recomputation: not stated", "", "", -1 },
        { "no full recomputation, ZeRO-3 or LoRA", "none", "", -1 },
        { "no recomputation, ZeRO-3 and LoRA", "none", "", 3 },
        { "Full recomputation, ZeRO-3 and LoRA were not used", "", "", -1 },
        { "bf16, full recomputation, ZeRO-3 and LoRA not used", "full", "", 3 },
        { "bf16, full recomputation, network: not stated", "full", "", -1 },
        { "bf16, full recomputation, network and vocabulary not stated", "full", "", -1 },
        { "no recomputation, attention and network not stated", "none", "", -1 },
        { "no flash attention, dropout and network not stated", "", "naive", -1 },
        { "full recomputation and its network not stated", "full", "", -1 },
        { "whether flash attention or naive attention is faster was measured. Full recomputation",
          "full", "", -1 },
        { "It does not say whether compilation, flash attention or checkpointing were on. ZeRO-1",
          "", "", 1 },
        { "not told whether checkpointing, full recomputation", "full", "", -1 },
        { "recomputation is not disclosed", "", "", -1 },
        { "nothing said about recompute", "", "", -1 },
        { "no mention of activation recomputation", "", "", -1 },
        { "the paper does not say whether activations are recomputed", "", "", -1 },
        { "not sure about gradient checkpointing", "", "", -1 },
        { "without details of gradient checkpointing", "", "", -1 },
        { "no information on activation checkpointing", "", "", -1 },
        { "gradient checkpointing: ?", "", "", -1 },
        { "no flash attention mentioned", "", "", -1 },
        { "no gradient checkpointing", "none", "", -1 },
        { "zero_optimization stage: 3", "", "", 3 },
        { "Not stated in (a. Full recomputation", "full", "", -1 },
        { "Not stated in its \xc3\xa9t\xc3\xa9 (\xe2\x80\xa6): recomputation", "", "", -1 },
        { "not stated", "", "", -1 },
        { ", not stated:", "", "", -1 },
        { "", "", "", -1 },
    };
    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
        char text[200];
        snprintf(text, sizeof text, "%s", cases[i].text);
        clause_blank_unstated(text);
        assert_int_equal(strlen(text), strlen(cases[i].text));
        const char *recompute = measured_says_recompute(text);
        const char *attention = measured_says_attention(text);
        if (strcmp(recompute, cases[i].recompute) != 0 ||
            strcmp(attention, cases[i].attention) != 0 ||
            measured_says_zero_stage(text) != cases[i].stage)
            fail_msg("\"%s\" is \"%s\": %s, %s, %ld", cases[i].text, text, recompute, attention,
                     (long)measured_says_zero_stage(text));
    }
    static const char *const kept[] = { "LoRA, network not stated",
                                        "Mamba, batch not stated",
                                        "DDP, cluster not stated",
                                        "eager, machine not given",
                                        "batch not stated, optimizer offload: none",
                                        "optimizer offload, network not stated" };
    for (size_t i = 0; i < sizeof kept / sizeof kept[0]; i++) {
        char text[200];
        snprintf(text, sizeof text, "%s", kept[i]);
        clause_blank_unstated(text);
        assert_string_equal(text, kept[i]);
    }
}

/* Nothing that a text can hold takes more than its length. */
static void test_long_unstated(void **state) {
    (void)state;
    static const char *const parts[] = { ", not stated",         "a, unstated ",
                                         "attention, not given", "not stated in ",
                                         "not stated in (",      "recomputation, " };
    enum { BYTES = 400000 };
    char *text = malloc(BYTES + 1);
    for (size_t p = 0; p < sizeof parts / sizeof parts[0]; p++) {
        const size_t length = strlen(parts[p]);
        for (size_t i = 0; i < BYTES; i++)
            text[i] = parts[p][i % length];
        text[BYTES] = '\0';
        const clock_t start = clock();
        clause_blank_unstated(text);
        /* some milliseconds; minutes if it went back to the beginning for each */
        if ((double)(clock() - start) / CLOCKS_PER_SEC > 5) fail_msg("\"%s\"", parts[p]);
    }
    free(text);
}

static void test_context(void **state) {
    (void)state;
    static const char *const cases[][2] = {
        { "Ulysses sequence parallel of 8", "all-to-all" },
        { "DeepSpeed-Ulysses, SP 4", "all-to-all" },
        { "ring attention over four GPUs", "ring" },
        { "ring self-attention", "ring" },
        { "sequences shared around a ring", "ring" },
        { "Ulysses instead of ring attention", "" },
        { "Ulysses 2 x ring attention 4", "" },
        { "unified sequence parallel: Ulysses 4, ring 2", "" },
        { "no ring attention", "" },
        { "NCCL's ring all-reduce with sequence parallel of 8", "" },
        { "sequence parallel over NCCL rings", "" },
        { "sequence length 65536 on a ring topology", "" },
        { "No sequence parallel (Ulysses)", "" },
        { "Ulysses-free", "" },
        { "Ulysses was not used; ring", "ring" },
        { "no Ulysses", "ring" },
        { "zigzag ring-flash-attn", "ring" },
        { "ring attention is future work", "" },
        { "FSDP2, Ulysses SP 4", "all-to-all" },
        { "--cp-comm-type a2a", "all-to-all" },
        { "--cp-comm-type a2a+p2p", "" },
        { "all-to-all context parallel", "all-to-all" },
        { "expert all-to-all", "" },
        { "all-gather based CP", "all-gather" },
        { "rotate method allgather", "all-gather" },
        { "rotate method alltoall", "rotated ring" },
        { "CP rotate method all-to-all", "rotated ring" },
        { "all-gather of parameters", "" },
        { "Ulysses not stated", "" },
        { "", "" },
    };
    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++)
        if (strcmp(measured_says_context(cases[i][0]), cases[i][1]) != 0)
            fail_msg("\"%s\": %s", cases[i][0], measured_says_context(cases[i][0]));
}

static void test_exchanging_ranks(void **state) {
    (void)state;
    static const struct {
        const char *text;
        long want;
    } cases[] = {
        { "Ulysses 4 x ring 2", 4 },
        { "USP: Ulysses degree 8, ring degree 2", 8 },
        { "8-way Ulysses and ring attention", 8 },
        { "ring 2; Ulysses=4", 4 },
        { "ulysses_size: 2, ring_size: 4", 2 },
        { "Ulysses 4", 0 },
        { "Ulysses and ring attention", 0 },
        { "no Ulysses 4, ring 2", 0 },
        { "ring 2", 0 },
        { "Ulysses 8; no ring", 0 },
        { "Ulysses 8; ring attention off", 0 },
        { "Ulysses sequence parallel 8; NCCL ring all-reduce", 0 },
        { "Ulysses x 2 nodes, NCCL_ALGO=Ring", 0 },
        { "Ulysses 8K; ring attention", 0 },
        { "Ulysses 4.5; ring attention", 0 },
        { "Ulysses 1 x ring 16", 1 },
        { "", 0 },
    };
    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
        const long got = (long)measured_says_exchanging_ranks(cases[i].text);
        if (got != cases[i].want)
            fail_msg("\"%s\": %ld, not %ld", cases[i].text, got, cases[i].want);
    }
}

static void test_balance(void **state) {
    (void)state;
    static const struct {
        const char *text;
        enum measured_balance want;
    } cases[] = {
        { "ring attention on contiguous shards (not zigzag: unbalanced by the causal mask)",
          BALANCE_UNEQUAL },
        { "zigzag ring-flash-attn", BALANCE_EQUAL },
        { "ring attention, zig-zag", BALANCE_EQUAL },
        { "ring attention without zigzag", BALANCE_UNEQUAL },
        { "contiguous chunks of the sequence", BALANCE_UNEQUAL },
        { "no contiguous chunks", BALANCE_EQUAL },
        { "unbalanced ring", BALANCE_UNEQUAL },
        { "imbalanced causal ring attention", BALANCE_UNEQUAL },
        { "stages are unbalanced", BALANCE_UNSAID },
        { "not load balanced", BALANCE_UNEQUAL },
        { "no load balancing", BALANCE_UNEQUAL },
        { "without load balancing", BALANCE_UNEQUAL },
        { "load balancing disabled", BALANCE_UNEQUAL },
        { "naive ring attention (no load balancing)", BALANCE_UNEQUAL },
        { "load-balanced ring", BALANCE_EQUAL },
        { "the ring is load imbalanced", BALANCE_UNEQUAL },
        { "contiguous blocks per rank", BALANCE_UNEQUAL },
        { "contiguous sequence chunks", BALANCE_UNEQUAL },
        { "sequence split contiguously", BALANCE_UNEQUAL },
        { "non-contiguous shards", BALANCE_EQUAL },
        { "MoE load balancing off", BALANCE_UNSAID },
        { "data loader not load balanced", BALANCE_UNSAID },
        { "ZeRO-1 optimizer states in contiguous shards", BALANCE_UNSAID },
        { "documents packed into contiguous chunks of 2048 tokens", BALANCE_UNSAID },
        { "unbalanced pipeline stages with context parallel 2", BALANCE_UNSAID },
        { "contiguous memory", BALANCE_UNSAID },
        { "zigzag, later contiguous shards", BALANCE_UNSAID },
        { "zigzag not stated", BALANCE_UNSAID },
        { "ring attention", BALANCE_UNSAID },
        { "", BALANCE_UNSAID },
    };
    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++)
        if (measured_says_balance(cases[i].text) != cases[i].want)
            fail_msg("\"%s\": %d", cases[i].text, (int)measured_says_balance(cases[i].text));
}

static void test_reduce_type(void **state) {
    (void)state;
    static const struct {
        const char *text, *want; /* NULL: both */
    } cases[] = {
        { "gradients reduced in bf16", "bf16" },
        { "gradients are reduced in bfloat16", "bf16" },
        { "grads reduced in fp32", "fp32" },
        { "gradients held and reduced in bf16", "bf16" },
        { "gradients accumulated in fp32 and reduced in bf16", "bf16" },
        { "Megatron-LM --grad-reduce-in-bf16", "bf16" },
        { "grad_reduce_in_bf16: no", "" },
        { "grad_reduce_in_fp32=False", "bf16" },
        { "grad_reduce_in_fp32: True", "fp32" },
        { "--accumulate-allreduce-grads-in-fp32", "fp32" },
        { "MixedPrecisionPolicy(reduce_dtype=torch.float32)", "fp32" },
        { "reduce_dtype: bf16", "bf16" },
        { "mixed_precision_reduce = bfloat16", "bf16" },
        { "communication_data_type bf16", "bf16" },
        { "no --grad-reduce-in-bf16", "" },
        { "gradients reduced in bf16, reduce_dtype bf16", "bf16" },
        { "gradients reduced in fp32; elsewhere gradients reduced in bf16", NULL },
        { "plain DDP that reduces bf16 gradients", "" },
        { "gradients in bf16", "" },
        { "", "" },
    };
    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
        const char *got = measured_reduce_type(cases[i].text);
        if ((got == NULL) != (cases[i].want == NULL) ||
            (got != NULL && strcmp(got, cases[i].want) != 0))
            fail_msg("\"%s\": %s", cases[i].text, got == NULL ? "both" : got);
    }
    assert_true(measured_says_short_main_gradients("moments in fp32, main gradients in bf16"));
    assert_true(measured_says_short_main_gradients("main grads are in bfloat16"));
    assert_true(measured_says_short_main_gradients("fp8 beside --fp16, main gradients in fp16"));
    assert_false(measured_says_short_main_gradients("main gradients in fp32"));
    assert_false(measured_says_short_main_gradients("no main gradients in bf16"));
    assert_false(measured_says_short_main_gradients("gradients in bf16"));
    assert_true(measured_says_short_main_gradients("main gradients are kept in bf16"));
    assert_true(measured_says_short_main_gradients("main grads in torch.float16"));
    assert_true(measured_says_short_main_gradients("main gradients in half precision"));
    assert_false(measured_says_short_main_gradients("main gradients in half the memory"));
    assert_false(measured_says_short_main_gradients("main gradients in bf16: false"));
    assert_false(measured_says_short_main_gradients("main gradients in fp16 disabled"));
}

static void test_tie(void **state) {
    (void)state;
    static const struct {
        const char *text;
        enum measured_tie want;
    } cases[] = {
        { "shape from the public model config; embeddings tied", TIE_SHARED },
        { "tied embeddings; tp reduce-scatter", TIE_SHARED },
        { "no checkpointing, tied head; own trainer", TIE_SHARED },
        { "input and output embeddings tied (the printed 69,053 MB are)", TIE_SHARED },
        { "the public Qwen2.5, whose embeddings are tied; cuDNN attention", TIE_SHARED },
        { "taken with tied embeddings (untied: 5 % less)", TIE_SHARED },
        { "dropout 0, tied, 50,304 words", TIE_SHARED },
        { "--swiglu, untied embeddings not asked for", TIE_SHARED },
        { "embeddings not tied, weights kept in fp32", TIE_APART },
        { "whose embeddings are not tied", TIE_APART },
        { "Megatron pads it; untied, no biases", TIE_APART },
        { "1,294,159,104 parameters with the head untied", TIE_APART },
        { "no tied embeddings", TIE_APART },
        { "embeddings aren't tied", TIE_APART },
        { "embeddings un-tied", TIE_APART },
        { "tied_embeddings=false", TIE_APART },
        { "tied embeddings: no", TIE_APART },
        { "tie_word_embeddings: false", TIE_APART },
        { "--untie-embeddings-and-output-weights", TIE_APART },
        { "embeddings neither tied nor scaled", TIE_APART },
        { "untied embeddings as asked", TIE_APART },
        { "tie_word_embeddings: true", TIE_SHARED },
        { "no biases and tied embeddings", TIE_SHARED },
        { "without dropout and with tied embeddings", TIE_SHARED },
        { "no bias but the head is tied", TIE_SHARED },
        { "smaller than 1B parameters with tied embeddings", TIE_SHARED },
        { "", TIE_UNSAID },
        { "the job was tied to one node", TIE_UNSAID },
        { "the number of kv heads is tied to tp", TIE_UNSAID },
        { "gradient checkpointing tied to the number of heads", TIE_UNSAID },
        { "lm-eval results are tied", TIE_UNSAID },
    };
    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++)
        if (measured_says_tie(cases[i].text) != cases[i].want) fail_msg("\"%s\"", cases[i].text);
}

/* Longer than the tokens that are kept, and than a token. */
static void test_long_text(void **state) {
    (void)state;
    char text[4096];
    memset(text, 'a', sizeof text - 1);
    text[sizeof text - 1] = '\0';
    assert_false(measured_says_offload(text));
    for (size_t i = 1; i < sizeof text - 1; i += 2)
        text[i] = ' ';
    assert_string_equal(measured_reduce_type(text), "");
    memcpy(text, "ZeRO-Offload ", strlen("ZeRO-Offload "));
    assert_true(measured_says_offload(text));
}

static void test_recompute(void **state) {
    (void)state;
    static const struct {
        const char *text, *want;
    } cases[] = {
        { "README table, full activation checkpointing", "full" },
        { "gradient checkpointing, packed", "full" },
        { "checkpointing of each layer", "full" },
        { "flash-attn 2, eager, checkpointing", "full" },
        { "full AC, bf16", "full" },
        { "recompute_granularity full", "full" },
        { "FSDP2, selective AC", "selective" },
        { "checkpointing per operator", "selective" },
        { "megatron-core 0.6, recompute-activations", "selective" },
        { "no activation recomputation", "none" },
        { "without gradient checkpointing", "none" },
        { "activation checkpointing off", "none" },
        { "recomputation not used", "none" },
        { "nothing recomputed", "none" },
        { "recomputation not stated", "" },
        { "6 N a token (no recompute counted)", "" },
        { "full recomputation is counted in its TFLOP/s", "full" },
        { "recomputation not seen in the configuration", "" },
        { "recomputation unknown", "" },
        { "batch, shape and checkpointing from its script", "" },
        { "asynchronous checkpointing", "" },
        { "checkpoints saved each 500 steps", "" },
        { "AC power, full load", "" },
        { "no activation checkpointing on A100, full activation checkpointing on V100", "" },
        { "gradient checkpointing disabled", "none" },
        { "disabled gradient checkpointing", "none" },
        { "we don't use gradient checkpointing", "none" },
        { "activation checkpointing isn't on", "none" },
        { "activation checkpointing (none)", "none" },
        { "gradient checkpointing = 0", "none" },
        { "full AC disabled", "none" },
        { "no AC", "none" },
        { "AC: full", "full" },
        { "w/o recompute", "none" },
        { "activation_checkpoint.mode=none", "none" },
        { "activation checkpointing: n/a", "" },
        { "no flash attention and gradient checkpointing on", "full" },
        { "not only flash attention but also gradient checkpointing", "full" },
        { "OOM without gradient checkpointing", "" },
        { "gradient checkpointing not optional", "" },
        { "instead of full recompute we use selective", "" },
        { "could have used gradient checkpointing but there was enough memory", "" },
        { "the other run used full recompute", "" },
        { "activation checkpointing on the vision encoder only", "" },
        { "checkpointing every 500 steps to disk", "" },
        { "gradient checkpointing turned off", "none" },
        { "activation checkpointing never used", "none" },
        { "recompute_granularity: null", "none" },
        { "gradient checkpointing to save memory", "full" },
        { "gradient checkpointing to fit", "full" },
        { "run of May 2025 with full activation checkpointing", "full" },
        { "no TP + gradient checkpointing", "full" },
        { "distributed training with gradient checkpointing", "full" },
        { "100 steps with full activation checkpointing", "full" },
        { "distributed checkpointing", "" },
        { "full recompute, no selective recompute", "full" },
        { "", "" },
    };
    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++)
        if (strcmp(measured_says_recompute(cases[i].text), cases[i].want) != 0)
            fail_msg("\"%s\": %s", cases[i].text, measured_says_recompute(cases[i].text));
}

static void test_tf32(void **state) {
    (void)state;
    static const struct {
        const char *text;
        bool says;
    } cases[] = {
        { "matmuls in TF32", true }, { "torch.backends.cuda.matmul.allow_tf32 = True", true },
        { "TF32 enabled", true },    { "fp32 without TF32", false },
        { "no TF32", false },        { "allow_tf32 = False", false },
        { "TF32 off", false },       { "TF32 not stated", false },
        { "fp32", false },           { "", false },
    };
    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++)
        if (measured_says_tf32(cases[i].text) != cases[i].says) fail_msg("%s", cases[i].text);
}

static void test_flex_attention(void **state) {
    (void)state;
    assert_true(measured_says_flex_attention("the kernel is FlexAttention (Triton)"));
    assert_true(measured_says_flex_attention("flavor 8B_flex_attn, full AC"));
    assert_false(measured_says_flex_attention("SDPA, no flex attention"));
    assert_false(measured_says_flex_attention("flexible attention"));
}

static void test_attention(void **state) {
    (void)state;
    static const struct {
        const char *text, *want;
    } cases[] = {
        { "torch 2.1, flash-attn 2, eager", "flash-2" },
        { "flash-attn 2.8.3", "flash-2" },
        { "FlashAttention-3", "flash-3" },
        { "cuDNN attention", "cudnn" },
        { "PyTorch's SDPA by cuDNN's attention", "cudnn" },
        { "attention cuDNN 9.14", "cudnn" },
        { "TE's attention (cuDNN)", "cudnn" },
        { "Transformer Engine attention", "cudnn" },
        { "flash attention, that is cuDNN's attention", "cudnn" },
        { "cuDNN's attention and FlashAttention-2", "" },
        { "no cuDNN attention", "" },
        { "PyTorch prefers cuDNN's attention from CUDA 12.9 on, so the kernels of 2025", "" },
        { "without FlashAttention, cuDNN attention", "cudnn" },
        { "TE's RMS norm, cuDNN 9.8", "" },
        { "FlashAttention", "flash" },
        { "flash attention of Triton", "flash" },
        { "FA2", "flash-2" },
        { "unfused attention, dropout 0.1", "naive" },
        { "attention unfused", "naive" },
        { "eager attention", "naive" },
        { "no flash attention", "naive" },
        { "without FlashAttention-2", "naive" },
        { "FlashAttention-2 beside naive attention", "" },
        { "flash memory", "" },
        { "eager steps", "" },
        { "FAQ", "" },
        { "flash attention off", "naive" },
        { "flash_attention: no", "naive" },
        { "flash attention not used", "naive" },
        { "attn_implementation=eager", "naive" },
        { "attention 2x faster than naive attention", "" },
        { "unfused attention crashed, so fused", "" },
        { "flash_attention_2: false", "naive" },
        { "FlashAttention 2 disabled", "naive" },
        { "flash attention turned off", "naive" },
        { "SDPA, no flash-attn", "flash" },
        { "no FA3", "" },
        { "FlashAttention-2 (no FA3)", "flash-2" },
        { "flash attention by flash-attn 2.6", "flash-2" },
        { "no padding thanks to flash-attn", "flash" },
        { "without packing on FlashAttention-2", "flash-2" },
        { "", "" },
    };
    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++)
        if (strcmp(measured_says_attention(cases[i].text), cases[i].want) != 0)
            fail_msg("\"%s\": %s", cases[i].text, measured_says_attention(cases[i].text));
}

static void test_zero_stage(void **state) {
    (void)state;
    static const struct {
        const char *text;
        int64_t want;
    } cases[] = {
        { "DeepSpeed ZeRO-3 without offload", 3 },
        { "ZeRO stage 2", 2 },
        { "zero1", 1 },
        { "FSDP FULL_SHARD", 3 },
        { "SHARD_GRAD_OP", 2 },
        { "fp16 O2, sharding stage 2", 2 },
        { "not ZeRO-3", -1 },
        { "ZeRO-2 and ZeRO-3", -1 },
        { "zero 10 times", -1 },
        { "sharding 2 ways", -1 },
        { "DeepSpeed stage 3", 3 },
        { "deepspeed z3", 3 },
        { "ZeRO-3 off", -1 },
        { "FSDP NO_SHARD", 0 },
        { "FULL_SHARD was faster than NO_SHARD", -1 },
        { "full_shard auto_wrap", 3 },
        { "LLaVA stage 1 with DeepSpeed ZeRO-2", 2 },
        { "LLaVA stage 2 with deepspeed zero3", 3 },
        { "DeepSpeed SFT stage 1", -1 },
        { "FSDP2", -1 },
        { "", -1 },
    };
    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++)
        if (measured_says_zero_stage(cases[i].text) != cases[i].want)
            fail_msg("\"%s\": %ld", cases[i].text, (long)measured_says_zero_stage(cases[i].text));
}

static void test_degrees(void **state) {
    (void)state;
    static const struct {
        const char *text;
        int64_t tp, pp;
    } cases[] = {
        { "TP 4 PP 2, distributed optimizer", 4, 2 },
        { "TP=4, PP=8", 4, 8 },
        { "tp4/pp2", 4, 2 },
        { "TP size 8", 8, -1 },
        { "tensor_model_parallel_size=4, pipeline_model_parallel_size: 2", 4, 2 },
        { "tensor parallelism of 8", 8, -1 },
        { "4-way tensor parallelism and 2-way pipeline parallelism", 4, 2 },
        { "no TP 4", -1, -1 },
        { "TP 4 was slower", -1, -1 },
        { "TP 2 and TP 4", -1, -1 },
        { "without tensor parallelism", -1, -1 },
        { "tensor cores of 4 GPUs", -1, -1 },
        { "pipeline of 4 workers loads", -1, -1 },
        { "TP traffic 4 GB", -1, -1 },
        { "PPO of 4 steps, tps 12000", -1, -1 },
        { "", -1, -1 },
    };
    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++)
        if (measured_says_degree(cases[i].text, "tp", "tensor") != cases[i].tp ||
            measured_says_degree(cases[i].text, "pp", "pipeline") != cases[i].pp)
            fail_msg("\"%s\": %ld, %ld", cases[i].text,
                     (long)measured_says_degree(cases[i].text, "tp", "tensor"),
                     (long)measured_says_degree(cases[i].text, "pp", "pipeline"));
}

static void test_kernels(void **state) {
    (void)state;
    static const struct {
        const char *text;
        enum measured_kernels want;
    } cases[] = {
        { "FSDP2, eager, SDPA", KERNELS_EAGER },
        { "the course's own Llama in eager steps", KERNELS_EAGER },
        { "torch.compile, fused AdamW", KERNELS_COMPILED },
        { "whole model compiled", KERNELS_COMPILED },
        { "hf-trainer-compile-2026", KERNELS_COMPILED },
        { "not compiled", KERNELS_NOT_COMPILED },
        { "without torch.compile", KERNELS_NOT_COMPILED },
        { "before torch.compile", KERNELS_NOT_COMPILED },
        { "compiled before the first step", KERNELS_COMPILED },
        { "nothing compiled (COMPILE=no)", KERNELS_NOT_COMPILED },
        { "torch.compile disabled", KERNELS_NOT_COMPILED },
        { "torch.compile not used", KERNELS_NOT_COMPILED },
        { "torch_compile: no", KERNELS_NOT_COMPILED },
        { "no dropout and torch.compile", KERNELS_COMPILED },
        { "not compiled, then by torch.compile", KERNELS_NOT_COMPILED },
        { "not eager", KERNELS_UNSAID },
        { "no eager fallback", KERNELS_UNSAID },
        { "30% faster than eager", KERNELS_UNSAID },
        { "attn_implementation=eager", KERNELS_UNSAID },
        { "eager-attention", KERNELS_UNSAID },
        { "attention: eager", KERNELS_UNSAID },
        { "eager or SDPA", KERNELS_UNSAID },
        { "flash-attn compiled from source", KERNELS_UNSAID },
        { "compile time excluded", KERNELS_UNSAID },
        { "compiled loss", KERNELS_UNSAID },
        { "isn't compiled", KERNELS_NOT_COMPILED },
        { "the eager run was 20 % slower", KERNELS_UNSAID },
        { "3 % over eager", KERNELS_UNSAID },
        { "compared to no compile 12 % faster", KERNELS_UNSAID },
        { "no compile errors seen", KERNELS_UNSAID },
        { "no compile of the optimizer", KERNELS_UNSAID },
        { "compile broke so we ran eager", KERNELS_EAGER },
        { "torch.compile and FlashAttention-2", KERNELS_COMPILED },
        { "torch.compile turned off", KERNELS_NOT_COMPILED },
        { "", KERNELS_UNSAID },
    };
    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++)
        if (measured_says_kernels(cases[i].text) != cases[i].want)
            fail_msg("\"%s\": %d", cases[i].text, (int)measured_says_kernels(cases[i].text));
}

static void test_bf16_weights(void **state) {
    (void)state;
    static const struct {
        const char *text;
        bool want;
    } cases[] = {
        { "weights in bf16", true },
        { "weights, gradients and AdamW's states bf16", true },
        { "training.dtype bfloat16, so weights and states are bf16", true },
        { "FSDP1 all bf16", true },
        { "Transformers all in bf16", true },
        { "pure bf16", true },
        { "bf16 autocast over fp32 weights", false },
        { "fp32 weights with bf16 compute", false },
        { "bf16 weights, fp32 master weights in optimizer", false },
        { "weights in bf16, master in fp32", false },
        { "weights in bf16, masterweights fp32", false },
        { "weights in bf16 without master weights", true },
        { "weights fetched over NIC, activations bf16", false },
        { "weights in fp32, gradients bf16", false },
        { "bf16 mixed precision", false },
        { "model loaded in bf16", true },
        { "weights and both moments in bf16 without fp32 copies", true },
        { "weights are not in bf16", false },
        { "weights in bf16 would diverge", false },
        { "model.to(bfloat16), eager", true },
        { "model.bfloat16()", true },
        { "inputs.to(bfloat16)", false },
        { "torch_dtype=bfloat16", true },
        { "torch_dtype float32, bf16 autocast", false },
        { "torch_dtype bfloat16, fp32 master weights", false },
        { "", false },
    };
    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++)
        if (measured_says_bf16_weights(cases[i].text) != cases[i].want)
            fail_msg("\"%s\"", cases[i].text);
}

static void test_bf16_adapters(void **state) {
    (void)state;
    static const struct {
        const char *text;
        bool want;
    } cases[] = {
        { "adapters in bf16", true },
        { "weights, adapters, gradients and AdamW's moments in bf16", true },
        { "LoRA weights in bfloat16", true },
        { "weights in bf16, adapters in fp32", false },
        { "LoRA of rank 16 on all linear layers in bf16", false },
        { "LoRA; bf16", false },
        { "LoRA rank 16, bf16 autocast", false },
        { "adapters not in bf16", false },
        { "adapters in fp32 over a bf16 base", false },
        { "LoRA rank 16, alpha 32 on all linear layers of the language model, weights in bf16",
          false },
        { "weights in bf16", false },
        { "", false },
    };
    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++)
        if (measured_says_bf16_adapters(cases[i].text) != cases[i].want)
            fail_msg("%s", cases[i].text);
}

static void test_fp32_weights(void **state) {
    (void)state;
    static const struct {
        const char *text;
        bool want;
    } cases[] = {
        { "WEIGHTS IN FP32: every unquantized model loads so", true },
        { "bf16 autocast over fp32 weights", true },
        { "base in fp32", true },
        { "adapter weights in fp32", false },
        { "bf16 weights, fp32 master weights in optimizer", false },
        { "weights in bf16", false },
        { "no fp32 weights", false },
        { "norm weights in fp32", false },
        { "LoRA weights in fp32", false },
        { "bf16 weights fp32 optimizer states", false },
        { "optimizer keeps fp32 weights", false },
        { "lm_head weights in fp32", false },
        { "base weights in float32", true },
        { "float32 weights", true },
        { "weights are stored in fp32", true },
        { "base model in fp32", true },
        { "loss in fp32", false },
        { "", false },
    };
    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++)
        if (measured_says_fp32_weights(cases[i].text) != cases[i].want)
            fail_msg("\"%s\"", cases[i].text);
}

static void test_framework(void **state) {
    (void)state;
    static const struct {
        const char *text, *name;
        bool want;
    } cases[] = {
        { "HF Trainer, packed", "hf trainer", true },
        { "Transformers 4.49, whole checkpointing", "transformers", true },
        { "of Megatron-core 0.12", "megatron core", true },
        { "Transformers tokenizer", "transformers", false },
        { "vision transformers", "transformers", false },
        { "converted from a Megatron checkpoint", "megatron", false },
        { "nvcr.io/nvidia/pytorch:24.05", "pytorch", false },
        { "faster than Megatron-LM", "megatron lm", false },
        { "not Transformers", "transformers", false },
        { "transformer layers", "transformers", false },
        { "not using DeepSpeed", "deepspeed", false },
        { "FSDP (DeepSpeed OOMed)", "deepspeed", false },
        { "DDP does not fit, so FSDP", "ddp", false },
        { "DDP does not fit, so FSDP", "fsdp", true },
        { "full fine-tune (LoRA was 2x faster)", "lora", false },
        { "Hugging Face Trainer", "face trainer", true },
        { "run_clm.py", "run clm", true },
        { "", "transformers", false },
    };
    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++)
        if (measured_says_framework(cases[i].text, cases[i].name) != cases[i].want)
            fail_msg("\"%s\"", cases[i].text);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_offload),          cmocka_unit_test(test_unstated),
        cmocka_unit_test(test_long_unstated),    cmocka_unit_test(test_context),
        cmocka_unit_test(test_exchanging_ranks), cmocka_unit_test(test_balance),
        cmocka_unit_test(test_reduce_type),      cmocka_unit_test(test_tie),
        cmocka_unit_test(test_recompute),        cmocka_unit_test(test_tf32),
        cmocka_unit_test(test_flex_attention),   cmocka_unit_test(test_attention),
        cmocka_unit_test(test_zero_stage),       cmocka_unit_test(test_kernels),
        cmocka_unit_test(test_degrees),          cmocka_unit_test(test_bf16_adapters),
        cmocka_unit_test(test_bf16_weights),     cmocka_unit_test(test_fp32_weights),
        cmocka_unit_test(test_framework),        cmocka_unit_test(test_long_text),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
