/* measured_said.h - what a source's own words say of a measured run, clause by clause.
 *
 *     if (measured_says_offload(run->notes)) skip(row);                // weights or optimizer in host memory
 *     type = measured_reduce_type(run->notes);                          // "fp32", "bf16", "" or NULL
 *
 * Clauses are those of measured_clause.h. What stands behind "no", "without", "than" and the like
 * is denied, and so is an option that is set to "none", "false" or 0.
 */
#ifndef BALLAST_MEASURED_SAID_H
#define BALLAST_MEASURED_SAID_H

#include <stdbool.h>
#include <stdint.h>

/* Whether weights or optimizer state are kept in host memory: by the options of DeepSpeed,
 * Megatron-LM, PyTorch's FSDP and Accelerate, or in words. Activations that are do not count. */
bool measured_says_offload(const char *text);

/* The type that gradients are reduced in over data-parallel ranks: "fp32", "bf16"; "" where the
 * text does not say, NULL where it says both. */
const char *measured_reduce_type(const char *text);
/* When FSDP reduces gradients that accumulate, as training.gradient_sync has it: "each", "last"
 * ("under no_sync") or NULL where nothing or both are said. */
const char *measured_gradient_sync(const char *text);

/* How PyTorch's AdamW ran, as training.adamw_kernels has it: "fused" ("AdamW fused", "fused=True"),
 * "foreach" ("AdamW not fused") or NULL where nothing or both are said. */
const char *measured_adamw_kernels(const char *text);
/* "muon" where it says that matrices were updated by Muon ("Muon for the blocks", "NorMuon"), as
 * training.optimizer has it; NULL where it does not, or says of something that it is not Muon's. */
const char *measured_optimizer(const char *text);

/* The format's word for the attention kernel that it names ("FlashAttention-2" flash-2, "unfused
 * attention" naive), and for what it says is run again ("gradient checkpointing" full,
 * "recompute-activations" selective, "nothing recomputed" none); "" where it says neither, or two. */
const char *measured_says_attention(const char *text);
const char *measured_says_recompute(const char *text);

/* Whether PyTorch's FlexAttention ran ("8B_flex_attn"). */
bool measured_says_flex_attention(const char *text);
/* Whether it says that fp32's matmuls run in TF32 ("TF32 on", "allow_tf32"). */
bool measured_says_tf32(const char *text);

/* How ranks share a sequence, as layout.cp_kind has it: Ulysses and exchanges ("all-to-all"), ring
 * attention ("ring"), gathered keys ("all-gather"); "" where it says none, or two. */
const char *measured_says_context(const char *text);
/* Of ranks that exchange heads and pass keys around a ring besides, how many exchange ("Ulysses 4 x
 * ring 2": 4); 0 where it does not say both, or how many. */
int64_t measured_says_exchanging_ranks(const char *text);

/* Whether ranks that share a sequence hold as many causal pairs each ("zigzag") or not ("contiguous
 * shards", "not zigzag", "unbalanced ring"); unsaid, too, where it says both. */
enum measured_balance { BALANCE_UNSAID, BALANCE_EQUAL, BALANCE_UNEQUAL };
enum measured_balance measured_says_balance(const char *text);

/* The degree that it names: ("tp", "tensor") of "TP 4", "tensor_model_parallel_size=4", "4-way tensor
 * parallelism"; -1: none, or two. */
int64_t measured_says_degree(const char *text, const char *abbreviation, const char *name);
/* The ZeRO stage that it names ("ZeRO-3", "full_shard", "sharding stage 2"); -1: none, or two. */
int64_t measured_says_zero_stage(const char *text);

/* What it says of a model's kernels, of nothing else that is compiled or eager (attention, a loss,
 * FlashAttention from source); what goes before where it says several is the larger. */
enum measured_kernels { KERNELS_UNSAID, KERNELS_EAGER, KERNELS_COMPILED, KERNELS_NOT_COMPILED };
enum measured_kernels measured_says_kernels(const char *text);

/* Whether weights are bf16, without fp32 copies ("weights, gradients and states bf16", "pure bf16"). */
bool measured_says_bf16_weights(const char *text);
/* Whether adapters are stored in bf16 ("weights, adapters and states in bf16"). */
bool measured_says_bf16_adapters(const char *text);
/* Whether weights are fp32 themselves ("weights in fp32", "base model in float32", "autocast over
 * fp32 weights"); not the adapters', the optimizer's copies or single layers'. */
bool measured_says_fp32_weights(const char *text);

/* Whether it names a framework ("transformers", "hf trainer"), in small letters and at most two
 * words, as what trains: not by its tokenizer, a checkpoint, a container or in a comparison. */
bool measured_says_framework(const char *text, const char *name);
/* Whether it names PyTorch's DistributedDataParallel so, which shards nothing. */
bool measured_says_ddp(const char *text);

/* Whether it says "main gradients in bf16", or in fp16, as beside --fp16: two bytes each, which
 * Megatron-LM then reduces so. */
bool measured_says_short_main_gradients(const char *text);

/* What it says was on or off; unsaid, too, where it says both. Overlap is that of collectives with
 * compute: of gradients, parameters and tensor parallelism ("overlap-grad-reduce", "overlap of
 * gradients and parameters", "no TP overlap"). Dropout is the model's ("no dropout", "dropout 0.1"),
 * not an adapter's; norms of queries and keys are of either ("QK norm", "qk-layernorm"). */
enum measured_switch { SWITCH_UNSAID, SWITCH_OFF, SWITCH_ON };
struct measured_overlap {
    enum measured_switch gradients, parameters, tensor;
};
struct measured_overlap measured_says_overlap(const char *text);
enum measured_switch measured_says_dropout(const char *text);
enum measured_switch measured_says_adapter_dropout(const char *text); /* of a run with adapters */
enum measured_switch measured_says_qk_norm(const char *text);

/* Whether it says that the head shares the token embedding's table ("embeddings tied", "tied head"),
 * that it has its own ("untied", "embeddings not tied"), or neither. The first that does counts. */
enum measured_tie { TIE_UNSAID, TIE_SHARED, TIE_APART };
enum measured_tie measured_says_tie(const char *text);

#endif
