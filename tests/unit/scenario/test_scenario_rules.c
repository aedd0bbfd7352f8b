/* test_scenario_rules.c - every mistake of a user with its exact message, in the file and in
 * --set. */
#include "tests/unit/scenario/scenario_fixture.h"

#include <math.h>

#define A100_COMPUTES_IN "training.precision or model.precision: one of bf16, fp16, fp32, tf32"

static void test_rules_in_the_file(void **state) {
    (void)state;
    /* want follows "s.json:" */
    static const struct {
        const char *name;
        enum line line;
        const char *text, *want, *hint;
    } cases[] = {
        { "unknown section", LAYOUT, "\"layuot\": { \"tp\": 2 }",
          "5:1: error: /layuot: unknown key \"layuot\" in \"scenario\"",
          "did you mean \"layout\"?" },
        { "unknown key", LAYOUT, "\"layout\": { \"tp\": 2, \"ppp\": 4 }",
          "5:22: error: /layout/ppp: unknown key \"ppp\" in \"layout\"", "did you mean \"pp\"?" },
        { "unknown key, none near", LAYOUT, "\"layout\": { \"tp\": 2, \"wheels\": 4 }",
          "5:22: error: /layout/wheels: unknown key \"wheels\" in \"layout\"",
          "one of: backend, stack, tp, sp, tp_overlap, pp, vpp, cp, cp_kind, cp_heads, "
          "cp_balanced, dp, zero_stage, zero_group, overlap_gradient_reduce, "
          "overlap_parameter_gather" },
        { "duplicate key", LAYOUT, "\"layout\": { \"tp\": 2, \"pp\": 4, \"tp\": 2 }",
          "5:31: error: /layout/tp: duplicate key \"tp\"", "keep one of the two" },
        { "duplicate section", SIMULATE,
          "\"simulate\": { \"iterations\": 2 }, \"model\": \"llama3-8b\"",
          "8:34: error: /model: duplicate key \"model\"", "keep one of the two" },
        { "wrong type: count", LAYOUT, "\"layout\": { \"tp\": \"2\", \"pp\": 4 }",
          "5:19: error: /layout/tp: must be a whole number, got \"2\"", "tensor parallel degree" },
        { "wrong type: fraction", LAYOUT, "\"layout\": { \"tp\": 2.5, \"pp\": 4 }",
          "5:19: error: /layout/tp: must be a whole number, got 2.5", "tensor parallel degree" },
        { "wrong type: bool", LAYOUT, "\"layout\": { \"tp\": 2, \"pp\": 4, \"sp\": 1 }",
          "5:37: error: /layout/sp: must be true or false, got 1",
          "sequence parallel with TP (no effect at tp 1); null: as the stack's usual runs, true "
          "without a stack" },
        { "wrong type: section", LAYOUT, "\"layout\": [ 2, 4 ]",
          "5:1: error: /layout: \"layout\" must be an object { ... }",
          "its keys: backend, stack, tp, sp, tp_overlap, pp, vpp, cp, cp_kind, cp_heads, "
          "cp_balanced, dp, zero_stage, zero_group, overlap_gradient_reduce, "
          "overlap_parameter_gather" },
        { "null where no default is null", LAYOUT, "\"layout\": { \"tp\": null, \"pp\": 4 }",
          "5:19: error: /layout/tp: must be a whole number, got null", "tensor parallel degree" },
        { "null for a section that must be there", LAYOUT, "\"layout\": null",
          "5:11: error: /layout: must not be null",
          "how the model is spread over the GPUs: section `layout`" },
        { "null for the model", MODEL, "\"model\": null", "2:10: error: /model: must not be null",
          "what is trained: a model name, or the section `model`" },
        { "null for a policy's list", POLICY,
          "\"policy\": { \"partition\": { \"name\": \"manual\", \"blocks\": null } }",
          "7:56: error: /policy/partition/blocks: must not be null",
          "list of transformer blocks per stage, for example [22, 23, 24, 24]" },
        { "out of range", CLUSTER,
          "\"cluster\": { \"hardware\": \"a100-80g-sxm\", \"gpu_count\": 32, "
          "\"nic_Gbit_per_s_per_gpu\": -4 }",
          "4:85: error: /cluster/nic_Gbit_per_s_per_gpu: must be 0.01 to 100000 Gbit/s, got -4",
          "one-way network bandwidth of a node divided by its GPUs; of one node alone any figure "
          "does" },
        { "out of range: zero", LAYOUT, "\"layout\": { \"tp\": 0, \"pp\": 4 }",
          "5:19: error: /layout/tp: must be 1 to 1024 ranks, got 0", "tensor parallel degree" },
        { "unknown choice", TRAINING, "\"training\": { \"precision\": \"bf8\" }",
          "6:28: error: /training/precision: unknown precision \"bf8\"",
          "did you mean \"bf16\"? one of: bf16, fp16, fp8, fp4, fp32, tf32" },
        { "missing section: model", MODEL, "",
          "1:1: error: /: \"model\" is missing from \"scenario\"",
          "what is trained: a model name, or the section `model`" },
        { "missing section: dataset", DATASET, "",
          "1:1: error: /: \"dataset\" is missing from \"scenario\"",
          "what it is trained on: a data-set name, or the section `dataset`" },
        { "missing section: cluster", CLUSTER, "",
          "1:1: error: /: \"cluster\" is missing from \"scenario\"",
          "where: a cluster name, or the section `cluster`" },
        { "missing section: layout", LAYOUT, "",
          "1:1: error: /: \"layout\" is missing from \"scenario\"",
          "how the model is spread over the GPUs: section `layout`" },
        { "missing key", MODEL, "\"model\": { \"frozen\": [] }",
          "2:1: error: /model: \"name\" is missing from \"model\"",
          "a file in scenarios/models, or a path from the scenario's folder or the current "
          "one" },
        { "missing key of the cluster", CLUSTER,
          "\"cluster\": { \"hardware\": \"a100-80g-sxm\", \"gpu_count\": 32 }",
          "4:1: error: /cluster: \"nic_Gbit_per_s_per_gpu\" is missing from \"cluster\"",
          "one-way network bandwidth of a node divided by its GPUs; of one node alone any figure "
          "does" },
        { "unknown model", MODEL, "\"model\": \"internvl-6b-20\"",
          "2:10: error: /model/name: no model is called 'internvl-6b-20' in scenarios/models",
          "did you mean 'internvl-6b-20b'?" },
        { "unknown model as an object", MODEL,
          "\"model\": { \"frozen\": [], \"name\": \"llama-8b\" }",
          "2:34: error: /model/name: no model is called 'llama-8b' in scenarios/models",
          "did you mean 'llama3-8b'?" },
        { "unknown model path", MODEL, "\"model\": \"models/none.json\"",
          "2:10: error: /model/name: cannot read models/none.json: No such file or directory",
          NULL },
        { "unknown data set", DATASET, "\"dataset\": \"omnibal-rael\"",
          "3:12: error: /dataset/name: no data set \"omnibal-rael\" in scenarios/datasets",
          "did you mean 'omnibal-real'?" },
        { "unknown data file", DATASET, "\"dataset\": { \"name\": \"nowhere/x.csv\" }",
          "3:22: error: /dataset/name: cannot read nowhere/x.csv: No such file or directory",
          NULL },
        { "unknown hardware", CLUSTER,
          "\"cluster\": { \"gpu_count\": 32, \"nic_Gbit_per_s_per_gpu\": 100, \"hardware\": "
          "\"a100-80g-sxn\" }",
          "4:74: error: /cluster/hardware: no 'a100-80g-sxn.json' in scenarios/hardware",
          "did you mean 'a100-80g-sxm'?" },
        { "unknown cluster", CLUSTER, "\"cluster\": \"omnibal-a100-4x200\"",
          "4:12: error: /cluster/name: no 'omnibal-a100-4x200.json' in scenarios/clusters",
          "did you mean 'omnibal-a100-4x200g'?" },
        { "machine without a job", CLUSTER, "\"cluster\": \"jean-zay-a100\"",
          "4:1: error: /cluster: \"gpu_count\" is missing from \"cluster\"", "GPUs in the job" },
        { "heads of the language model", LAYOUT, "\"layout\": { \"tp\": 32, \"pp\": 1 }",
          "5:19: error: /layout/tp: tp 32 does not divide the 48 attention heads of InternLM2-20B",
          "tp must divide the heads of every module" },
        { "GPUs not divisible", LAYOUT, "\"layout\": { \"tp\": 2, \"pp\": 3 }",
          "4:55: error: /cluster/gpu_count: 32 GPUs cannot be divided by tp x pp x cp = 6",
          "choose a multiple, or change tp, pp or cp" },
        { "dp wrong", LAYOUT, "\"layout\": { \"tp\": 2, \"pp\": 4, \"dp\": 3 }",
          "5:37: error: /layout/dp: tp x pp x cp x dp = 24, but the cluster has gpu_count 32",
          "leave dp out to derive it" },
        { "nodes not filled", CLUSTER,
          "\"cluster\": { \"hardware\": \"a100-80g-sxm\", \"gpu_count\": 40, \"gpus_per_node\": "
          "16, \"nic_Gbit_per_s_per_gpu\": 100 }",
          "4:55: error: /cluster/gpu_count: 40 GPUs do not fill whole nodes of 16", NULL },
        { "tp straddles nodes", CLUSTER,
          "\"cluster\": { \"hardware\": \"a100-80g-sxm\", \"gpu_count\": 24, \"gpus_per_node\": 3, "
          "\"nic_Gbit_per_s_per_gpu\": 100 }",
          "5:19: error: /layout/tp: tp 2 does not fit nodes of 3 GPUs",
          "tensor parallel groups must not straddle nodes" },
        { "global batch", TRAINING,
          "\"training\": { \"global_batch\": { \"samples\": 65 }, \"micro_batch\": { \"samples\": "
          "4 } }",
          "6:44: error: /training/global_batch/samples: 65 samples do not divide into "
          "micro-batches of 4 on 4 data-parallel ranks",
          "use a multiple of 16" },
        { "global batch as a number", TRAINING,
          "\"training\": { \"global_batch\": 65, \"micro_batch\": 4 }",
          "6:31: error: /training/global_batch: 65 samples do not divide into micro-batches of 4 "
          "on 4 data-parallel ranks",
          "use a multiple of 16" },
        { "global batch, default", TRAINING, "\"training\": { \"micro_batch\": 3 }",
          "6:1: error: /training: 1024 samples do not divide into micro-batches of 3 on 4 "
          "data-parallel ranks",
          "use a multiple of 12" },
        { "micro-batches", TRAINING, "\"training\": { \"global_batch\": { \"micro_batches\": 6 } }",
          "6:50: error: /training/global_batch/micro_batches: 6 micro-batches cannot be dealt to 4 "
          "data-parallel ranks",
          NULL },
        { "batch unit", TRAINING, "\"training\": { \"global_batch\": { \"tokens\": 6 } }",
          "6:43: error: /training/global_batch/tokens: unknown unit \"tokens\" of global_batch",
          "samples or micro_batches" },
        { "micro-batch unit", TRAINING,
          "\"training\": { \"micro_batch\": { \"micro_batches\": 6 } }",
          "6:49: error: /training/micro_batch/micro_batches: unknown unit \"micro_batches\" of "
          "micro_batch",
          "samples" },
        { "batch with two units", TRAINING,
          "\"training\": { \"global_batch\": { \"samples\": 64, \"micro_batches\": 16 } }",
          "6:15: error: /training/global_batch: global_batch has exactly one unit",
          "write the whole object, for example {\"samples\": 4}" },
        { "batch of nothing", TRAINING, "\"training\": { \"global_batch\": { \"samples\": 0 } }",
          "6:44: error: /training/global_batch/samples: must be a whole number from 1 to 1e9, got "
          "0",
          NULL },
        { "batch of a text", TRAINING, "\"training\": { \"micro_batch\": { \"samples\": \"4\" } }",
          "6:43: error: /training/micro_batch/samples: must be a whole number from 1 to 1e9, "
          "got \"4\"",
          NULL },
        { "batch as a list", TRAINING, "\"training\": { \"micro_batch\": [ 4 ] }",
          "6:15: error: /training/micro_batch: micro_batch has exactly one unit",
          "write the whole object, for example {\"samples\": 4}" },
        { "vpp without stages", LAYOUT, "\"layout\": { \"tp\": 2, \"pp\": 1, \"vpp\": 2 }",
          "5:38: error: /layout/vpp: vpp 2 needs more than one pipeline stage", NULL },
        { "GPUs not divisible: cp", LAYOUT, "\"layout\": { \"tp\": 2, \"cp\": 3 }",
          "4:55: error: /cluster/gpu_count: 32 GPUs cannot be divided by tp x pp x cp = 6",
          "choose a multiple, or change tp, pp or cp" },
        { "heads dealt to context ranks", LAYOUT,
          "\"layout\": { \"tp\": 1, \"pp\": 1, \"cp\": 32, \"cp_kind\": \"all-to-all\" }",
          "5:37: error: /layout/cp: cp 32 does not divide the 48 attention heads that tp 1 leaves "
          "of InternLM2-20B",
          "\"cp_kind\": \"ring\" divides tokens, not heads; with cp_heads it divides both" },
        { "heads dealt to a part of the context ranks", LAYOUT,
          "\"layout\": { \"tp\": 1, \"pp\": 1, \"cp\": 32, \"cp_heads\": 32 }",
          "5:37: error: /layout/cp: cp 32 does not divide the 48 attention heads that tp 1 leaves "
          "of InternLM2-20B",
          "\"cp_kind\": \"ring\" divides tokens, not heads; with cp_heads it divides both" },
        { "cp_heads that do not divide cp", LAYOUT,
          "\"layout\": { \"tp\": 1, \"pp\": 1, \"cp\": 8, \"cp_heads\": 3 }",
          "5:52: error: /layout/cp_heads: cp_heads 3 does not divide cp 8", NULL },
        { "cp_heads without cp", LAYOUT, "\"layout\": { \"tp\": 2, \"cp_heads\": 2 }",
          "5:34: error: /layout/cp_heads: cp_heads 2 does not divide cp 1", NULL },
        { "cp_heads beside an exchange among all", LAYOUT,
          "\"layout\": { \"tp\": 1, \"cp\": 8, \"cp_heads\": 2, \"cp_kind\": \"all-to-all\" }",
          "5:43: error: /layout/cp_heads: cp_kind all-to-all exchanges heads among all 8 ranks of "
          "cp, not 2",
          "\"cp_kind\": \"ring\" with cp_heads is the exchange inside a ring" },
        { "rules of a module that is not there", MODEL,
          "\"model\": \"llama3-8b\", \"rules\": [ { \"module\": \"vision\", \"factor\": 2 } ]",
          "2:46: error: /rules/0/module: model \"llama3-8b\" has no module \"vision\"", NULL },
        { "rules of blocks that are not there", MODEL,
          "\"model\": \"llama3-8b\", \"rules\": [ { \"module\": \"language\", \"layers\": [ 30, 32 "
          "], \"factor\": 2 } ]",
          "2:58: error: /rules/0/layers: Llama3-8B has blocks 0 to 31, got 32", NULL },
        { "a rule for a name that no operator has", MODEL,
          "\"model\": \"llama3-8b\", \"rules\": [ { \"operator\": \"matmul\", \"name\": \"upp\", "
          "\"factor\": 2 } ]",
          "2:66: error: /rules/0/name: no operator that the rule could match is named \"upp\"",
          "did you mean \"up\"? one of: qkv, proj, up, down, logits" },
        { "a rule for a pass that its operators do not have", MODEL,
          "\"model\": \"llama3-8b\", \"rules\": [ { \"operator\": \"matmul\", \"pass\": "
          "\"backward\", \"factor\": 2 } ]",
          "2:34: error: /rules/0: the rule matches no operator of this scenario",
          "such operators are of other modules or of pass forward, input gradient, weight "
          "gradient: "
          "\"qkv\" and others" },
        { "rules that set nothing", SIMULATE, "\"rules\": [ { \"operator\": \"send\" } ]",
          "8:12: error: /rules/0: the rule sets nothing",
          "one of: efficiency, time_us, bandwidth_GB_per_s, factor" },
        { "overlap of all-reduces", LAYOUT,
          "\"layout\": { \"tp\": 2, \"pp\": 4, \"sp\": false, \"tp_overlap\": true }",
          "5:58: error: /layout/tp_overlap: tp_overlap needs sequence parallelism: sp must be true",
          "all-reduces cannot run beside a matmul in pieces" },
        { "unknown cp_kind", LAYOUT, "\"layout\": { \"tp\": 2, \"cp_kind\": \"rings\" }",
          "5:33: error: /layout/cp_kind: unknown cp_kind \"rings\"",
          "did you mean \"ring\"? one of: all-gather, ring, all-to-all, "
          "gathered-ring" },
        { "unknown attention", TRAINING, "\"training\": { \"attention\": \"native\" }",
          "6:28: error: /training/attention: unknown attention \"native\"",
          "did you mean \"naive\"? one of: flash, naive, flash-2, flash-3, masked, flash-1, "
          "cudnn" },
        { "zero_stage", LAYOUT, "\"layout\": { \"tp\": 2, \"pp\": 4, \"zero_stage\": 3 }",
          "5:45: error: /layout/zero_stage: ZeRO-3 of backend megatron-lm goes without a pipeline "
          "only: pp must be 1, got 4",
          "ZeRO-1 goes with pipelines, and any stage with backend fsdp" },
        { "iterations zero", SIMULATE, "\"simulate\": { \"iterations\": 0 }",
          "8:29: error: /simulate/iterations: must be \"epoch\" or a number of steps from 1 to 1e9",
          "\"epoch\" replays the whole data set" },
        { "iterations text", SIMULATE, "\"simulate\": { \"iterations\": \"all\" }",
          "8:29: error: /simulate/iterations: must be \"epoch\" or a number of steps from 1 to 1e9",
          "\"epoch\" replays the whole data set" },
        { "iterations fraction", SIMULATE, "\"simulate\": { \"iterations\": 1.5 }",
          "8:29: error: /simulate/iterations: must be \"epoch\" or a number of steps from 1 to 1e9",
          "\"epoch\" replays the whole data set" },
        { "seed", SIMULATE, "\"simulate\": { \"seed\": 4294967296 }",
          "8:23: error: /simulate/seed: must be 0 to 4294967295, got 4294967296",
          "of the batching policies; 1024 gives the published streams; drawn data have a seed of "
          "their own" },
        { "tiles", DATASET,
          "\"dataset\": { \"name\": \"omnibal-real\", \"min_tiles\": 9, \"max_tiles\": 8 }",
          "3:51: error: /dataset/min_tiles: min_tiles is above max_tiles", NULL },
        { "pixels", DATASET, "\"dataset\": { \"name\": \"omnibal-real\", \"max_pixels\": 3135 }",
          "3:1: error: /dataset: min_pixels is above max_pixels", NULL },
        { "frozen: unknown role", MODEL,
          "\"model\": { \"name\": \"internvl-6b-20b\", \"frozen\": [ \"vision\", \"head\" ] }",
          "2:61: error: /model/frozen/1: unknown module \"head\"",
          "one of: vision, connector, language, diffusion_decoder" },
        { "frozen: absent module", MODEL,
          "\"model\": { \"name\": \"llama3-8b\", \"frozen\": [ \"vision\" ] }",
          "2:45: error: /model/frozen/0: model \"llama3-8b\" has no module \"vision\"", NULL },
        { "frozen: everything", MODEL,
          "\"model\": { \"name\": \"internvl-6b-20b\", \"frozen\": [ \"vision\", \"connector\", "
          "\"language\" ] }",
          "2:39: error: /model/frozen: every module is frozen: nothing is left to train", NULL },
        { "frozen: a text", MODEL,
          "\"model\": { \"name\": \"internvl-6b-20b\", \"frozen\": \"vision\" }",
          "2:49: error: /model/frozen: must be a list of modules", "for example [\"vision\"]" },
        { "frozen: a number", MODEL,
          "\"model\": { \"name\": \"internvl-6b-20b\", \"frozen\": [ 1 ] }",
          "2:51: error: /model/frozen/0: must be the name of a module",
          "one of: vision, connector, language, diffusion_decoder" },
        { "precision of a module: unknown", MODEL,
          "\"model\": { \"name\": \"internvl-6b-20b\", \"precision\": { \"vision\": \"fp7\" } }",
          "2:64: error: /model/precision/vision: unknown precision \"fp7\"",
          "one of: bf16, fp16, fp8, fp4, fp32, tf32" },
        { "precision of a module: a number", MODEL,
          "\"model\": { \"name\": \"internvl-6b-20b\", \"precision\": { \"vision\": 8 } }",
          "2:64: error: /model/precision/vision: must be the name of a precision",
          "one of: bf16, fp16, fp8, fp4, fp32, tf32" },
        { "precision of a module: unknown role", MODEL,
          "\"model\": { \"name\": \"internvl-6b-20b\", \"precision\": { \"vison\": \"bf16\" } }",
          "2:63: error: /model/precision/vison: unknown module \"vison\"",
          "one of: vision, connector, language, diffusion_decoder" },
        { "precision of a module: a text", MODEL,
          "\"model\": { \"name\": \"internvl-6b-20b\", \"precision\": \"bf16\" }",
          "2:52: error: /model/precision: must be an object of module and precision",
          "for example {\"vision\": \"fp8\"}" },
        { "precision of a module: GPU lacks it", MODEL,
          "\"model\": { \"name\": \"internvl-6b-20b\", \"precision\": { \"language\": \"fp8\" } }",
          "2:66: error: /model/precision/language: a100-80g-sxm cannot compute in fp8",
          A100_COMPUTES_IN },
        { "precision: GPU lacks it", TRAINING, "\"training\": { \"precision\": \"fp8\" }",
          "6:28: error: /training/precision: a100-80g-sxm cannot compute in fp8",
          A100_COMPUTES_IN },
        { "main_grads_dtype: of bf16", TRAINING,
          "\"training\": { \"precision_aware_optimizer\": true, \"precision\": \"fp16\", "
          "\"main_grads_dtype\": \"bf16\" }",
          "6:91: error: /training/main_grads_dtype: gradients are kept in bf16 where bf16 is "
          "trained (--bf16) alone",
          NULL },
        { "reduce_dtype: of bf16", TRAINING,
          "\"training\": { \"precision\": \"fp16\", \"reduce_dtype\": \"bf16\" }",
          "6:52: error: /training/reduce_dtype: gradients are reduced in bf16 where bf16, fp8 or "
          "fp4 is trained, not in fp16",
          "fp32, or \"usual\", what backend and stack do" },
        { "reduce_dtype: not that of main_grads_dtype", TRAINING,
          "\"training\": { \"precision_aware_optimizer\": true, \"main_grads_dtype\": \"bf16\", "
          "\"reduce_dtype\": \"fp32\" }",
          "6:94: error: /training/reduce_dtype: main_grads_dtype bf16 goes with gradients that are "
          "reduced in bf16",
          NULL },
        { "adamw_kernels: not of PyTorch", TRAINING,
          "\"training\": { \"adamw_kernels\": \"fused\" }",
          "6:32: error: /training/adamw_kernels: adamw_kernels are of PyTorch's AdamW, which "
          "backend "
          "fsdp runs, not megatron-lm",
          "\"usual\": Megatron-LM and DeepSpeed bring fused updates of their own" },
        { "adamw_kernels: of another optimizer", TRAINING,
          "\"training\": { \"adamw_kernels\": \"fused\", \"optimizer\": \"sgd-momentum\" }",
          "6:32: error: /training/adamw_kernels: adamw_kernels are of optimizer adamw, not of "
          "sgd-momentum",
          "\"usual\", or optimizer adamw" },
        { "gradient_sync: not of FSDP", TRAINING, "\"training\": { \"gradient_sync\": \"each\" }",
          "6:32: error: /training/gradient_sync: FSDP as ZeRO-2 or 3 can choose when gradients are "
          "reduced, not megatron-lm with ZeRO-1",
          "\"usual\", what backend and stack do" },
        { "exp_avg_dtype: not precision-aware", TRAINING,
          "\"training\": { \"exp_avg_dtype\": \"bf16\" }",
          "6:32: error: /training/exp_avg_dtype: exp_avg_dtype needs precision_aware_optimizer to "
          "be "
          "true",
          NULL },
        { "precision_aware_optimizer: of adamw", TRAINING,
          "\"training\": { \"precision_aware_optimizer\": true, \"optimizer\": \"sgd-momentum\" }",
          "6:44: error: /training/precision_aware_optimizer: the precision-aware optimizer is "
          "adamw, "
          "not sgd-momentum",
          NULL },
        { "attention: GPU lacks it", TRAINING, "\"training\": { \"attention\": \"flash-3\" }",
          "6:28: error: /training/attention: FlashAttention-3 runs on Hopper GPUs alone, not on "
          "a100-80g-sxm",
          "\"flash-2\", or \"flash\": the kernel of the stack" },
        { "attention: of 16 bits", TRAINING,
          "\"training\": { \"attention\": \"cudnn\", \"precision\": \"tf32\" }",
          "6:28: error: /training/attention: cuDNN's attention computes in 16 bits and fewer, not "
          "in tf32",
          "\"flash\": PyTorch's memory-efficient kernel" },
        { "policy: unknown batching", POLICY, "\"policy\": { \"batching\": \"iff\" }",
          "7:25: error: /policy/batching: unknown batching policy \"iff\"",
          "did you mean \"isf\"?" },
        { "policy: unknown batching as an object", POLICY,
          "\"policy\": { \"batching\": { \"qv\": 9, \"name\": \"iff\" } }",
          "7:44: error: /policy/batching/name: unknown batching policy \"iff\"",
          "did you mean \"isf\"?" },
        { "policy: unknown, none near", POLICY, "\"policy\": { \"batching\": \"wheels\" }",
          "7:25: error: /policy/batching: unknown batching policy \"wheels\"",
          "one of: clip-group, device-group, isf, length-group, pack, random" },
        { "policy: unknown partition", POLICY, "\"policy\": { \"partition\": \"encoder-frist\" }",
          "7:26: error: /policy/partition: unknown partition policy \"encoder-frist\"",
          "did you mean \"encoder-first\"?" },
        { "policy: unknown recompute", POLICY, "\"policy\": { \"recompute\": \"ful\" }",
          "7:26: error: /policy/recompute: unknown recompute policy \"ful\"",
          "did you mean \"full\"?" },
        { "policy: unknown schedule", POLICY, "\"policy\": { \"schedule\": \"1f1\" }",
          "7:25: error: /policy/schedule: unknown schedule policy \"1f1\"",
          "did you mean \"1f1b\"?" },
        { "policy: unknown joint", POLICY, "\"policy\": { \"joint\": \"omnibil\" }",
          "7:22: error: /policy/joint: unknown joint policy \"omnibil\"",
          "did you mean \"omnibal\"?" },
        { "policy: unknown kind", POLICY, "\"policy\": { \"batch\": \"isf\" }",
          "7:13: error: /policy/batch: unknown key \"batch\" in \"policy\"",
          "did you mean \"batching\"?" },
        { "policy: name missing", POLICY, "\"policy\": { \"batching\": { \"qv\": 9 } }",
          "7:13: error: /policy/batching: \"name\" is missing from the batching policy",
          "say which: --set policy.batching.name=..., or {\"name\": ...} with its parameters "
          "beside it" },
        { "policy: a number", POLICY, "\"policy\": { \"schedule\": 1 }",
          "7:25: error: /policy/schedule: a schedule policy is a name, or an object with a name",
          NULL },
        { "policy: unknown parameter, name first", POLICY,
          "\"policy\": { \"batching\": { \"name\": \"isf\", \"qv\": 9, \"qx\": 3 } }",
          "7:51: error: /policy/batching/qx: unknown key \"qx\" in \"isf\"",
          "did you mean \"qv\"?" },
        { "policy: unknown parameter, name last", POLICY,
          "\"policy\": { \"batching\": { \"qx\": 3, \"qv\": 9, \"name\": \"isf\" } }",
          "7:27: error: /policy/batching/qx: unknown key \"qx\" in \"isf\"",
          "did you mean \"qv\"?" },
        { "policy: parameter out of range", POLICY,
          "\"policy\": { \"batching\": { \"name\": \"isf\", \"qv\": 9, \"iterations\": 0 } }",
          "7:65: error: /policy/batching/iterations: must be 1 to 1000000 passes, got 0",
          "sampling passes T; the first T-1 are filtered" },
        { "policy: parameter of the wrong type", POLICY,
          "\"policy\": { \"batching\": { \"name\": \"isf\", \"qv\": \"nine\" } }",
          "7:48: error: /policy/batching/qv: must be a whole number or \"auto\", got \"nine\"",
          "most vision tiles in a group (native resolution: patches, 9216 by default); auto: qv "
          "and qt from the data" },
        { "groups of a sequence without ranks that share it", POLICY,
          "\"policy\": { \"batching\": { \"name\": \"isf\", \"sp\": 4 } }",
          "7:48: error: /policy/batching/sp: batching joins 4 groups into one sequence for as many "
          "context-parallel ranks, layout.cp is 1",
          "\"layout\": { \"cp\": 4, \"cp_kind\": \"all-to-all\" }" },
        { "policy: parameter missing", POLICY,
          "\"policy\": { \"recompute\": { \"name\": \"uniform\" } }",
          "7:13: error: /policy/recompute: \"blocks_per_stage\" is missing from \"uniform\"",
          "blocks of each stage that recompute, counted from its first; all of a stage that has "
          "fewer" },
        { "policy: parameters missing, a text", POLICY, "\"policy\": { \"partition\": \"manual\" }",
          "7:26: error: /policy/partition: policy \"manual\" needs \"blocks\"",
          "write {\"name\": \"manual\", \"blocks\": ...}: list of transformer blocks per stage, "
          "for example [22, 23, 24, 24]" },
        { "policy: has no parameters", POLICY,
          "\"policy\": { \"partition\": { \"name\": \"layer\", \"method\": \"greedy\" } }",
          "7:55: error: /policy/partition/method: policy \"layer\" has no parameters", NULL },
        { "policy: schedule has no parameters", POLICY,
          "\"policy\": { \"schedule\": { \"chunks\": 2, \"name\": \"1f1b\" } }",
          "7:37: error: /policy/schedule/chunks: policy \"1f1b\" has no parameters", NULL },
        { "policy: choice", POLICY,
          "\"policy\": { \"partition\": { \"name\": \"parameter\", \"method\": \"minmax\" } }",
          "7:59: error: /policy/partition/method: unknown method \"minmax\"",
          "did you mean \"min-max\"? one of: greedy, min-max" },
        { "manual: too few stages", POLICY,
          "\"policy\": { \"partition\": { \"name\": \"manual\", \"blocks\": [ 46, 47 ] } }",
          "7:13: error: /policy/partition: blocks must be a list of 4 numbers, one per pipeline "
          "stage",
          NULL },
        { "manual: not a list", POLICY,
          "\"policy\": { \"partition\": { \"name\": \"manual\", \"blocks\": 93 } }",
          "7:13: error: /policy/partition: blocks must be a list of 4 numbers, one per pipeline "
          "stage",
          NULL },
        { "manual: an empty stage", POLICY,
          "\"policy\": { \"partition\": { \"name\": \"manual\", \"blocks\": [ 57, 12, 24, 0 ] } }",
          "7:13: error: /policy/partition: each stage needs a whole number of blocks, at least 1",
          NULL },
        { "manual: half a block", POLICY,
          "\"policy\": { \"partition\": { \"name\": \"manual\", \"blocks\": [ 57, 12, 11.5, 12.5 ] "
          "} }",
          "7:13: error: /policy/partition: each stage needs a whole number of blocks, at least 1",
          NULL },
        { "manual: a wrong sum", POLICY,
          "\"policy\": { \"partition\": { \"name\": \"manual\", \"blocks\": [ 57, 12, 12, 13 ] } }",
          "7:13: error: /policy/partition: the stages hold 94 blocks, the model has 93", NULL },
        { "stages: too many", POLICY,
          "\"policy\": { \"recompute\": { \"name\": \"stages\", \"blocks\": [ 1, 2, 3, 4, 5 ] } }",
          "7:13: error: /policy/recompute: blocks must be a list of 4 numbers, one per pipeline "
          "stage",
          NULL },
        { "stages: negative", POLICY,
          "\"policy\": { \"recompute\": { \"name\": \"stages\", \"blocks\": [ 1, 2, 3, -4 ] } }",
          "7:13: error: /policy/recompute: each stage needs a whole number of recomputing blocks, "
          "at least 0",
          NULL },
    };
    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
        struct error err = { 0 };
        write_lines(cases[i].line, cases[i].text);
        /* of rules for prices: many scenarios may share them, and match in one alone */
        const bool alone = strstr(cases[i].text, "\"rules\"") != NULL;
        struct scenario *s = (alone ? load_alone : load)(NULL, &err);
        if (s != NULL) fail_msg("%s: is accepted", cases[i].name);
        char want[512];
        snprintf(want, sizeof want, "s.json:%s", cases[i].want);
        check_message(cases[i].name, &err, want, cases[i].hint);
    }
}

static void test_rules_in_overrides(void **state) {
    (void)state;
    static const struct {
        const char *name;
        const char *overrides[5];
        const char *want, *hint;
    } cases[] = {
        { "unknown key",
          { "layout.tpp=4" },
          "--set layout.tpp=4: /layout/tpp: unknown key \"tpp\" in \"layout\"",
          "did you mean \"tp\"?" },
        { "unknown section",
          { "layuot.tp=4" },
          "--set layuot.tp=4: /layuot: unknown key \"layuot\" in \"scenario\"",
          "did you mean \"layout\"?" },
        { "wrong type",
          { "layout.tp=two" },
          "--set layout.tp=two: /layout/tp: must be a whole number, got \"two\"",
          "tensor parallel degree" },
        { "out of range",
          { "layout.tp=0" },
          "--set layout.tp=0: /layout/tp: must be 1 to 1024 ranks, got 0",
          "tensor parallel degree" },
        { "fraction",
          { "cluster.nic_efficiency_fraction=1.5" },
          "--set cluster.nic_efficiency_fraction=1.5: /cluster/nic_efficiency_fraction: must be "
          "0.01 to 1, got 1.5",
          "of the NIC rate that a collective reaches" },
        { "fp8_recipe: GPU lacks it",
          { "training.fp8_recipe=mxfp8", "training.precision=fp8",
            "cluster.hardware=h100-80g-sxm" },
          "--set training.fp8_recipe=mxfp8: /training/fp8_recipe: MXFP8 needs the tensor cores of "
          "Blackwell, which h100-80g-sxm has not",
          "\"blockwise\" scales blocks of 128 values without them" },
        { "precision_aware_optimizer: of sharded states",
          { "training.precision_aware_optimizer=true", "layout.zero_stage=0" },
          "--set training.precision_aware_optimizer=true: /training/precision_aware_optimizer: the "
          "precision-aware optimizer is that of backend megatron-lm with ZeRO-1, not of "
          "megatron-lm "
          "with ZeRO-0",
          NULL },
        { "precision_aware_optimizer: one state for all",
          { "training.precision_aware_optimizer=true", "model.precision={\"vision\":\"fp32\"}" },
          "--set training.precision_aware_optimizer=true: /training/precision_aware_optimizer: the "
          "precision-aware optimizer takes fp32 modules alone, not beside others",
          NULL },
        { "null",
          { "layout.tp=null" },
          "--set layout.tp=null: /layout/tp: must be a whole number, got null",
          "tensor parallel degree" },
        { "unknown model",
          { "model=internvl-6b-20" },
          "--set model=internvl-6b-20: /model/name: no model is called 'internvl-6b-20' in "
          "scenarios/models",
          "did you mean 'internvl-6b-20b'?" },
        { "unknown model in a section made of a text",
          { "model.name=internvl-6b-20" },
          "--set model.name=internvl-6b-20: /model/name: no model is called 'internvl-6b-20' in "
          "scenarios/models",
          "did you mean 'internvl-6b-20b'?" },
        { "unknown data set",
          { "dataset=omnibal-rael" },
          "--set dataset=omnibal-rael: /dataset/name: no data set \"omnibal-rael\" in "
          "scenarios/datasets",
          "did you mean 'omnibal-real'?" },
        { "unknown hardware",
          { "cluster.hardware=a100-80g-sxn" },
          "--set cluster.hardware=a100-80g-sxn: /cluster/hardware: no 'a100-80g-sxn.json' in "
          "scenarios/hardware",
          "did you mean 'a100-80g-sxm'?" },
        { "unknown cluster",
          { "cluster=omnibal-a100-4x200" },
          "--set cluster=omnibal-a100-4x200: /cluster/name: no 'omnibal-a100-4x200.json' in "
          "scenarios/clusters",
          "did you mean 'omnibal-a100-4x200g'?" },
        { "heads",
          { "layout.tp=32", "layout.pp=1" },
          "--set layout.tp=32: /layout/tp: tp 32 does not divide the 48 attention heads of "
          "InternLM2-20B",
          "tp must divide the heads of every module" },
        { "ffn width",
          { "model=llava-1.6-13b", "layout.tp=5", "cluster.gpu_count=20",
            "cluster.gpus_per_node=5" },
          "--set layout.tp=5: /layout/tp: tp 5 does not divide the ffn width 4096 of CLIP "
          "ViT-L/14-336",
          NULL },
        { "stages above blocks",
          { "layout.pp=128", "cluster.gpu_count=256" },
          "--set layout.pp=128: /layout/pp: 128 stages need at least as many layers, "
          "internvl-6b-20b has 93",
          NULL },
        { "groups of a step that cannot be joined",
          { "layout.cp=4", "policy.batching.sp=4", "training.global_batch.samples=40" },
          "--set training.global_batch.samples=40: /training/global_batch/samples: 10 groups of "
          "each data-parallel rank and step cannot be joined by 4",
          "use a multiple of 16" },
        { "GPUs not divisible: tp",
          { "layout.tp=3" },
          "--set layout.tp=3: /layout/tp: 32 GPUs cannot be divided by tp x pp x cp = 12",
          "choose a multiple, or change tp, pp or cp" },
        { "GPUs not divisible: gpu_count",
          { "cluster.gpu_count=30" },
          "--set cluster.gpu_count=30: /cluster/gpu_count: 30 GPUs cannot be divided by tp x pp x "
          "cp = 8",
          "choose a multiple, or change tp, pp or cp" },
        { "dp",
          { "layout.dp=3" },
          "--set layout.dp=3: /layout/dp: tp x pp x cp x dp = 24, but the cluster has gpu_count 32",
          "leave dp out to derive it" },
        { "nodes not filled",
          { "cluster.gpus_per_node=20" },
          "--set cluster.gpus_per_node=20: /cluster/gpus_per_node: 32 GPUs do not fill whole nodes "
          "of 20",
          NULL },
        { "no even parts of racks",
          { "cluster.hardware=gb200-186g-nvl72", "cluster.gpu_count=146", "layout.pp=1" },
          "--set cluster.gpu_count=146: /cluster/gpu_count: 146 GPUs do not fill whole nodes of 72",
          NULL },
        { "mesh above a node",
          { "cluster.nvlink_mesh_gpus=16" },
          "--set cluster.nvlink_mesh_gpus=16: /cluster/nvlink_mesh_gpus: a mesh of 16 GPUs in "
          "nodes of 8: from 2 to all of a node",
          "0 where the links go through a switch" },
        { "mesh of one",
          { "cluster.nvlink_mesh_gpus=1" },
          "--set cluster.nvlink_mesh_gpus=1: /cluster/nvlink_mesh_gpus: a mesh of 1 GPUs in nodes "
          "of 8: from 2 to all of a node",
          "0 where the links go through a switch" },
        { "tp straddles nodes",
          { "cluster.gpu_count=24", "cluster.gpus_per_node=3" },
          "--set cluster.gpus_per_node=3: /cluster/gpus_per_node: tp 2 does not fit nodes of 3 "
          "GPUs",
          "tensor parallel groups must not straddle nodes" },
        { "tp above a node",
          { "layout.tp=16", "cluster.gpu_count=48", "cluster.gpus_per_node=12", "layout.pp=3" },
          "--set layout.tp=16: /layout/tp: tp 16 does not fit nodes of 12 GPUs",
          "tensor parallel groups must not straddle nodes" },
        { "global batch",
          { "training.global_batch.samples=65" },
          "--set training.global_batch.samples=65: /training/global_batch/samples: 65 samples do "
          "not divide into micro-batches of 4 on 4 data-parallel ranks",
          "use a multiple of 16" },
        { "micro-batch",
          { "training.micro_batch=5" },
          "--set training.micro_batch=5: /training/micro_batch: 64 samples do not divide into "
          "micro-batches of 5 on 4 data-parallel ranks",
          "use a multiple of 20" },
        { "dp that does not divide the batch",
          { "cluster.gpu_count=24" },
          "--set cluster.gpu_count=24: /cluster/gpu_count: 64 samples do not divide into "
          "micro-batches of 4 on 3 data-parallel ranks",
          "use a multiple of 12" },
        { "batch unit",
          { "training.global_batch={\"tokens\":65}" },
          "--set training.global_batch={\"tokens\":65}: /training/global_batch/tokens: unknown "
          "unit \"tokens\" of global_batch",
          "samples or micro_batches" },
        { "vpp in a schedule without chunks",
          { "layout.vpp=2", "policy.schedule=gpipe" },
          "--set layout.vpp=2: /layout/vpp: schedule \"gpipe\" runs one chunk a stage, vpp asks "
          "for 2",
          "\"policy\": { \"schedule\": \"interleaved\" }" },
        { "vpp with a policy that cuts its own chunks",
          { "layout.vpp=2", "policy={\"joint\":\"dip\"}" },
          "--set layout.vpp=2: /layout/vpp: the joint policy \"dip\" decides the chunks of a stage "
          "itself",
          "leave it out" },
        { "a pipeline's policy on one stage",
          { "layout.pp=1", "policy={\"joint\":\"dip\"}" },
          "--set layout.pp=1: /layout/pp: the joint policy \"dip\" schedules a pipeline, which one "
          "stage is not",
          "\"layout\": { \"pp\": 2 } or more, or another policy" },
        { "encoders before the language model on one stage",
          { "layout.pp=1", "policy={\"joint\":\"optimus\"}" },
          "--set layout.pp=1: /layout/pp: the joint policy \"optimus\" schedules a pipeline, which "
          "one stage is not",
          "\"layout\": { \"pp\": 2 } or more, or another policy" },
        { "chunks without vpp",
          { "policy.schedule=interleaved" },
          "--set policy.schedule=interleaved: /policy/schedule: schedule \"interleaved\" deals "
          "several chunks to a stage, vpp asks for 1",
          "\"layout\": { \"vpp\": 2 }, or leave the schedule out: one chunk a stage is 1f1b" },
        { "heads dealt to context ranks",
          { "layout.cp_kind=all-to-all", "layout.cp=32", "layout.tp=1", "layout.pp=1" },
          "--set layout.cp=32: /layout/cp: cp 32 does not divide the 48 attention heads that tp 1 "
          "leaves of InternLM2-20B",
          "\"cp_kind\": \"ring\" divides tokens, not heads; with cp_heads it divides both" },
        { "zero_stage",
          { "layout.zero_stage=2" },
          "--set layout.zero_stage=2: /layout/zero_stage: ZeRO-2 of backend megatron-lm goes "
          "without "
          "a pipeline only: pp must be 1, got 4",
          "ZeRO-1 goes with pipelines, and any stage with backend fsdp" },
        { "iterations",
          { "simulate.iterations=-1" },
          "--set simulate.iterations=-1: /simulate/iterations: must be \"epoch\" or a number of "
          "steps from 1 to 1e9",
          "\"epoch\" replays the whole data set" },
        { "frozen",
          { "model.frozen=[\"all\"]" },
          "--set model.frozen=[\"all\"]: /model/frozen/0: unknown module \"all\"",
          "one of: vision, connector, language, diffusion_decoder" },
        { "frozen: absent module",
          { "model=llama3-8b", "model.frozen=[\"connector\"]" },
          "--set model.frozen=[\"connector\"]: /model/frozen/0: model \"llama3-8b\" has no module "
          "\"connector\"",
          NULL },
        { "frozen: everything",
          { "model=llama3-8b", "model.frozen=[\"language\"]" },
          "--set model.frozen=[\"language\"]: /model/frozen: every module is frozen: nothing is "
          "left to train",
          NULL },
        { "precision of a module",
          { "model.precision.vision=fp8" },
          "--set model.precision.vision=fp8: /model/precision/vision: a100-80g-sxm cannot compute "
          "in fp8",
          A100_COMPUTES_IN },
        { "precision",
          { "training.precision=fp8" },
          "--set training.precision=fp8: /training/precision: a100-80g-sxm cannot compute in fp8",
          A100_COMPUTES_IN },
        { "a kernel of later GPUs",
          { "cluster.hardware=v100-32g-sxm", "training.precision=fp16",
            "training.attention=cudnn" },
          "--set training.attention=cudnn: /training/attention: cuDNN's attention runs on Ampere "
          "and "
          "later GPUs, not on v100-32g-sxm",
          "\"flash\": the kernel of the stack" },
        { "precision of tensor cores that there are not",
          { "cluster.hardware=v100-32g-sxm", "training.precision=tf32" },
          "--set training.precision=tf32: /training/precision: v100-32g-sxm cannot compute in tf32",
          "training.precision or model.precision: one of fp16, fp32" },
        { "hardware without the precision",
          { "cluster.hardware=h100-80g-sxm", "training.precision=fp8",
            "cluster.hardware=a100-80g-sxm" },
          "--set training.precision=fp8: /training/precision: a100-80g-sxm cannot compute in fp8",
          A100_COMPUTES_IN },
        { "policy",
          { "policy.batching=iff" },
          "--set policy.batching=iff: /policy/batching: unknown batching policy \"iff\"",
          "did you mean \"isf\"?" },
        { "policy parameter",
          { "policy.batching.qx=1" },
          "--set policy.batching.qx=1: /policy/batching/qx: unknown key \"qx\" in \"isf\"",
          "did you mean \"qv\"?" },
        { "policy parameter out of range",
          { "policy.batching.qt=0" },
          "--set policy.batching.qt=0: /policy/batching/qt: must be 1 to 1000000000 tokens, got 0",
          "most language tokens in a group; auto: qv and qt from the data" },
        { "policy parameter missing",
          { "policy.recompute=uniform" },
          "--set policy.recompute=uniform: /policy/recompute: policy \"uniform\" needs "
          "\"blocks_per_stage\"",
          "write {\"name\": \"uniform\", \"blocks_per_stage\": ...}: blocks of each stage that "
          "recompute, counted from its first; all of a stage that has fewer" },
        { "policy without parameters",
          { "policy.partition={\"name\":\"layer\",\"x\":1}" },
          "--set policy.partition={\"name\":\"layer\",\"x\":1}: /policy/partition/x: policy "
          "\"layer\" has no parameters",
          NULL },
        { "manual",
          { "policy.partition={\"name\":\"manual\",\"blocks\":[1,2,3,4]}" },
          "--set policy.partition={\"name\":\"manual\",\"blocks\":[1,2,3,4]}: /policy/partition: "
          "the stages hold 10 blocks, the model has 93",
          NULL },
        { "manual after another pp",
          { "policy.partition={\"name\":\"manual\",\"blocks\":[46,47]}", "layout.pp=4" },
          "--set policy.partition={\"name\":\"manual\",\"blocks\":[46,47]}: /policy/partition: "
          "blocks must be a list of 4 numbers, one per pipeline stage",
          NULL },
        { "duplicate key in the value",
          { "layout={\"tp\":1,\"tp\":2}" },
          "--set layout={\"tp\":1,\"tp\":2}: /layout/tp: duplicate key \"tp\"",
          "keep one of the two" },
        { "precision-aware optimizer of another backend",
          { "training.precision_aware_optimizer=true", "layout.backend=megatron-deepspeed" },
          "--set training.precision_aware_optimizer=true: /training/precision_aware_optimizer: the "
          "precision-aware optimizer is that of backend megatron-lm with ZeRO-1, not of "
          "megatron-deepspeed with ZeRO-1",
          NULL },
        { "precision-aware optimizer of ZeRO-0",
          { "training.precision_aware_optimizer=true", "layout.zero_stage=0" },
          "--set training.precision_aware_optimizer=true: /training/precision_aware_optimizer: the "
          "precision-aware optimizer is that of backend megatron-lm with ZeRO-1, not of "
          "megatron-lm with ZeRO-0",
          NULL },
        { "no value",
          { "layout.tp" },
          "--set layout.tp: expected path=value, for example layout.tp=4",
          NULL },
        { "empty part",
          { "layout..tp=1" },
          "--set layout..tp=1: the path has an empty part",
          NULL },
        { "below a number",
          { "layout.tp.x=1" },
          "--set layout.tp.x=1: \"tp\" has nothing below it that could be set",
          NULL },
        { "item of a list",
          { "model={\"name\":\"internvl-6b-20b\",\"frozen\":[]}", "model.frozen.0=vision" },
          "--set model.frozen.0=vision: the list has no item \"0\"",
          NULL },
    };
    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
        struct error err = { 0 };
        write_lines(MODEL, NULL);
        struct scenario *s = load(cases[i].overrides, &err);
        if (s != NULL) fail_msg("%s: is accepted", cases[i].name);
        check_message(cases[i].name, &err, cases[i].want, cases[i].hint);
    }
}

/* Of a stage in the file and a pipeline in --set, the pipeline is what the user would change. */
static void test_a_pipeline_beside_the_files_zero_stage(void **state) {
    (void)state;
    const char *const overrides[] = { "layout.pp=2", NULL };
    write_lines(LAYOUT, "\"layout\": { \"backend\": \"deepspeed\", \"zero_stage\": 3 }");
    const struct scenario_options options = { .directory = SCENARIOS, .overrides = overrides };
    struct error err = { 0 };
    assert_null(scenario_load(&options, "s.json", &err));
    assert_non_null(strstr(err.text, "--set layout.pp=2: /layout/pp: ZeRO-3 of backend deepspeed"));
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_rules_in_the_file),
        cmocka_unit_test(test_rules_in_overrides),
        cmocka_unit_test(test_a_pipeline_beside_the_files_zero_stage),
    };
    return cmocka_run_group_tests(tests, enter_folder, leave_folder);
}
