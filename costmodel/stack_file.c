/* stack_file.c - one stack file: what it may state, and what it gives where it says nothing. */
#include "costmodel/stack_file.h"

#include <math.h>
#include <string.h>
#include "costmodel/figure_sources.h"
#include "costmodel/stack_check.h"
#include "sim/base/units.h"

/* The table reads into the stack itself; times in us, GiB and MiB until in_seconds_and_bytes(). */
struct stack_fields {
    struct stack stack;
    const cJSON *words, *projects, *runs, *refines, *told_by, *factors, *sources, *keeps,
        *time_rows, *memory_rows, *kernel_traffic;
};

static const char *const tensor_traffic_names[] = { "beside", "alone", "copied",
                                                    "merged", "each",  NULL };
static const char *const casts_names[] = { "fused", "norm", "linear", "dynamic", NULL };
static const char *const adamw_names[] = { "other", "fused", "foreach", NULL };
static const char *const optimizer_words[] = { "adamw", "muon", NULL };
static const char *const chunked_head_names[] = { "no", "added", "copied", "remade", NULL };
static const char *const unpads_names[] = { "never", "padded", "always", NULL };
static const char *const linear_gradients_names[] = { "fused", "split", "apart", NULL };
static const char *const recompute_style_names[] = { "whole", "needed",    "operators",
                                                     "core",  "projected", NULL };

#define AT(member)   offsetof(struct stack_fields, stack.member)
#define NODE(member) offsetof(struct stack_fields, member)
static const struct field stack_rows[] = {
    { "name", FIELD_TEXT, AT(name), 0, 0, NULL, "", "as scenarios refer to it", NULL },
    { "description", FIELD_TEXT, AT(description), 0, 0, NULL, "", "in words", NULL },
    { "base", FIELD_TEXT, AT(base), 0, 0, "null", "",
      "the stack whose figures, causes and sources hold where this file states none; words, "
      "projects, runs, refines, told_by and factors are each file's own",
      NULL },
    { "words", FIELD_NODE, NODE(words), 0, 0, "null", "",
      "a source's stack whose name holds one of these is this one; of a word with blanks, all "
      "parts; a year at its end: that one or a later one",
      NULL },
    { "projects", FIELD_NODE, NODE(projects), 0, 0, "null", "",
      "projects that train by this stack: as words, of names that hold no stack's word", NULL },
    { "runs", FIELD_NODE, NODE(runs), 0, 0, "null", "",
      "measured runs of the same backend whose source and id hold one of these are of this one, "
      "whatever year or family they name",
      NULL },
    { "refines", FIELD_NODE, NODE(refines), 0, 0, "null", "",
      "measured runs that would be of one of these stacks are of this one where told_by says so",
      NULL },
    { "told_by", FIELD_NODE, NODE(told_by), 0, 0, "null", "",
      "what their model, source, precision or notes say then: one of these is enough; \"a & b\" is "
      "both, \"model:a\" of the model alone, \"source:a\" of the source, \"release:a 1.8-1.12\" of "
      "a product's releases, "
      "\"release:a 1.13-\" from one on, \"dated:2025-08:2025-12\" of a run's months, "
      "\"dated:2025-08:\" "
      "from one on",
      NULL },
    { "year", FIELD_COUNT, AT(year), 2018, 2100, NULL, "", "of its software", NULL },
    { "backend", FIELD_TEXT, AT(backend), 0, 0, NULL, "", "the backend that runs its layouts",
      NULL },
    { "hardware", FIELD_TEXT, AT(hardware), 0, 0, "null", "",
      "of measured runs that do not name their GPU", NULL },
    { "recompute", FIELD_TEXT, AT(recompute), 0, 0, "\"none\"", "",
      "of measured runs that do not say", NULL },
    { "zero_stage", FIELD_COUNT, AT(zero_stage), 0, 3, "null", "",
      "of measured runs without a pipeline that do not say; null: the backend's usual one", NULL },
    { "partition", FIELD_TEXT, AT(partition), 0, 0, "\"layer\"", "",
      "policy.partition of a scenario that names none", NULL },
    { "recompute_style", FIELD_CHOICE, AT(block.recompute_style), 0, 0, "\"whole\"", "",
      "what a recomputing block runs again", recompute_style_names },
    { "sequence_parallel", FIELD_BOOL, AT(sequence_parallel), 0, 0, "true", "",
      "with TP, of measured runs that do not say", NULL },
    { "context_heads", FIELD_BOOL, AT(context_heads), 0, 0, "false", "",
      "context parallelism exchanges heads for tokens (layout.cp_kind all-to-all) where no layout "
      "says otherwise and its ranks divide the heads",
      NULL },
    { "context_gathers", FIELD_BOOL, AT(context_gathers), 0, 0, "false", "",
      "context parallelism gathers keys and values and sends their gradients around a ring "
      "(layout.cp_kind gathered-ring) where no layout says otherwise",
      NULL },
    { "context_contiguous", FIELD_BOOL, AT(context_contiguous), 0, 0, "false", "",
      "ranks of a ring hold contiguous tokens (layout.cp_balanced false) where no layout says "
      "otherwise",
      NULL },
    { "gpt_dropout", FIELD_BOOL, AT(gpt_dropout), 0, 0, "false", "",
      "measured GPTs with fused attention were trained with dropout", NULL },
    { "no_dropout", FIELD_BOOL, AT(no_dropout), 0, 0, "false", "",
      "GPTs are trained without dropout, with unfused attention too", NULL },
    { "overlap_gradient_reduce", FIELD_BOOL, AT(overlap_gradient_reduce), 0, 0, "false", "",
      "gradients are reduced behind the last backward", NULL },
    { "overlap_parameter_gather", FIELD_BOOL, AT(overlap_parameter_gather), 0, 0, "false", "",
      "parameters are gathered behind the next forward", NULL },
    { "overlap_shard_reduce", FIELD_BOOL, AT(overlap_shard_reduce), 0, 0, "true", "",
      "the same of DeepSpeed's ZeRO-2 (overlap_comm), behind each backward", NULL },
    { "norm_traffic", FIELD_DOUBLE, AT(norm_traffic), 0.1, 100, "1", "",
      "memory traffic of a norm over the fused kernel's", NULL },
    { "norm_backward_traffic", FIELD_DOUBLE, AT(norm_backward_traffic), 0.1, 100, "null", "",
      "the same in backward; null: as norm_traffic", NULL },
    { "elementwise_traffic", FIELD_DOUBLE, AT(elementwise_traffic), 0.1, 100, "1", "",
      "of activation, residual and dropout", NULL },
    { "rotary_traffic", FIELD_DOUBLE, AT(rotary_traffic), 0.1, 100, "1", "", "of the rotary",
      NULL },
    { "kernel_traffic", FIELD_NODE, NODE(kernel_traffic), 0, 0, "null", "",
      "of a norm, activation or rotary by what it computes: [forward, backward] of layer-norm, "
      "rms-norm, gelu, gelu-new, quick-gelu, swiglu, relu2, rotary, softmax, causal-softmax, "
      "dropped-causal-softmax (each as the one before where it is not stated); others as above",
      NULL },
    { "softmax_traffic", FIELD_DOUBLE, AT(softmax_traffic), 0.1, 100, "null", "",
      "of scale, mask and softmax of unfused attention; null: as elementwise_traffic", NULL },
    { "loss_traffic", FIELD_DOUBLE, AT(loss_traffic), 0.1, 100, "1", "", "of the loss", NULL },
    { "optimizer_traffic", FIELD_DOUBLE, AT(optimizer_traffic), 0.1, 100, "1", "",
      "of the optimizer, casts and gradient norm included", NULL },
    { "adamw", FIELD_CHOICE, AT(adamw), 0, 0, "\"other\"", "",
      "what that is of: torch.optim.AdamW in one kernel (fused), or one for each operation "
      "(foreach); other: not PyTorch's",
      adamw_names },
    { "optimizer", FIELD_CHOICE, AT(optimizer), 0, 0, "\"adamw\"", "",
      "training.optimizer of a scenario that names none", optimizer_words },
    { "muon_whole", FIELD_BOOL, AT(step.muon_whole), 0, 0, "false", "",
      "without ZeRO each rank orthogonalises all matrices (torch.optim.Muon) instead of its share",
      NULL },
    { "fp16_optimizer_traffic", FIELD_DOUBLE, AT(fp16_optimizer_traffic), 0.1, 100, "null", "",
      "the same with fp16 matmuls, the loss scale's kernels too; null: as with bf16", NULL },
    { "launch_gap_us", FIELD_DOUBLE, AT(launch_gap_s), 0, 1000, "null", "us",
      "from kernel to kernel; null: the GPU profile's", NULL },
    { "host_forward_us", FIELD_DOUBLE, AT(step.host_forward_s), 0, 1e6, "0", "us",
      "host time to launch the forward of one block: no block is faster", NULL },
    { "host_backward_us", FIELD_DOUBLE, AT(step.host_backward_s), 0, 1e6, "0", "us",
      "the same of its backward", NULL },
    { "host_recompute_us", FIELD_DOUBLE, AT(step.host_recompute_s), 0, 1e6, "0", "us",
      "what recomputing the whole block adds to the forward that it launches again", NULL },
    { "host_sharded_us", FIELD_DOUBLE, AT(host_sharded_s), 0, 1e6, "0", "us",
      "what ZeRO-3's hooks on a block's modules add to either, FSDP's on more than one rank",
      NULL },
    { "host_divided_forward_us", FIELD_DOUBLE, AT(host_divided_forward_s), 0, 1e6, "0", "us",
      "what tensor parallelism's dispatch adds to the forward", NULL },
    { "host_divided_backward_us", FIELD_DOUBLE, AT(host_divided_backward_s), 0, 1e6, "0", "us",
      "the same of the backward", NULL },
    { "host_fp8_us", FIELD_DOUBLE, AT(host_fp8_s), 0, 1e6, "0", "us",
      "what fp8 matmuls add to the forward", NULL },
    { "host_frozen_us", FIELD_DOUBLE, AT(step.host_frozen_s), 0, 1e6, "0", "us",
      "what frozen weights take from the backward", NULL },
    { "host_step_us", FIELD_DOUBLE, AT(step.host_step_s), 0, 1e6, "0", "us",
      "host time of a step beside which the device has nothing to do: loop, data, launches of the "
      "update",
      NULL },
    { "host_gpu", FIELD_TEXT, AT(host_gpu), 0, 0, "\"\"", "",
      "what the names of the GPUs begin with that the host times hold for", NULL },
    { "attention_forward_time", FIELD_DOUBLE, AT(attention_forward_time), 0.1, 100, "1", "",
      "time of its attention kernel over the profile's", NULL },
    { "attention_backward_time", FIELD_DOUBLE, AT(attention_backward_time), 0.1, 100, "1", "",
      "the same in backward", NULL },
    { "flash_2_blackwell", FIELD_BOOL, AT(flash_2_blackwell), 0, 0, "false", "",
      "on Blackwell fused attention is FlashAttention-2, unless training.attention names another",
      NULL },
    { "attention_gpu", FIELD_TEXT, AT(attention_gpu), 0, 0, "\"\"", "",
      "what the names of the GPUs begin with that these two hold for", NULL },
    { "multimodal_band", FIELD_DOUBLE, AT(multimodal_band), 0.001, 10, "null", "",
      "80 % of its measured runs of images or video lie within time x (1 +- this)", NULL },
    { "one_place", FIELD_BOOL, AT(one_place), 0, 0, "false", "",
      "stands for runs of the place that its factors were fitted on alone, so these hold what is "
      "that place's own",
      NULL },
    { "simulated", FIELD_BOOL, AT(simulated), 0, 0, "false", "",
      "stands for a simulator's figures: without factors it takes nothing more either", NULL },
    { "attention_fitted", FIELD_BOOL, AT(attention_fitted), 0, 0, "false", "",
      "calibration fits a factor on attention too", NULL },
    { "tensor_traffic", FIELD_CHOICE, AT(block.tensor_traffic), 0, 0, "\"beside\"", "",
      "how tensor and sequence parallelism's collectives run: beside gradient matmuls, alone, "
      "copied along the sequence besides, reduced for each projection besides, gathered for each "
      "too",
      tensor_traffic_names },
    { "casts", FIELD_CHOICE, AT(block.casts), 0, 0, "\"fused\"", "",
      "what writes the operands of fp8 matmuls cast: norm and activation, the norm alone, each "
      "linear layer, nothing",
      casts_names },
    { "casts_weights", FIELD_BOOL, AT(block.casts_weights), 0, 0, "false", "",
      "each pass casts the weights of fp8 and fp4 matmuls anew: by rows in the forward, by columns "
      "in the backward",
      NULL },
    { "linear_gradients", FIELD_CHOICE, AT(block.linear_gradients), 0, 0, "\"fused\"", "",
      "kernels around the gradients of linear layers: none; joining q, k and v; adding those of q, "
      "k, v, gate and up; sums of biases with both",
      linear_gradients_names },
    { "unpads", FIELD_CHOICE, AT(block.unpads), 0, 0, "\"never\"", "",
      "whose samples fused attention reads without their padding, gathered and scattered around "
      "it: nobody's, those of padded micro-batches, all",
      unpads_names },
    { "softmax_multiple", FIELD_COUNT, AT(block.softmax_multiple), 1, 4096, "1", "",
      "lengths that the one kernel of unfused attention's softmax takes are multiples of this; "
      "others are cast, masked and cast back by kernels of their own",
      NULL },
    { "tensor_hidden_fraction", FIELD_DOUBLE, AT(tensor_hidden_fraction), 0, 1, "0", "",
      "of the TP collectives that the layer rule exposes", NULL },
    { "tensor_overlap_fraction", FIELD_DOUBLE, AT(tensor_overlap_fraction), 0, 1, "0", "",
      "of the TP gathers and scatters of a run with layout.tp_overlap, beside what its factors "
      "hold (holds_tensor_overlap)",
      NULL },
    { "context_hidden_fraction", FIELD_DOUBLE, AT(context_hidden_fraction), 0, 1, "0", "",
      "of the CP traffic that the layer rule exposes", NULL },
    { "node_send_GB_per_s", FIELD_DOUBLE, AT(node_send_bytes_per_s), 0, 1e4, "0", "GB/s",
      "what a rank's sends to a stage on another node reach at most; 0: what the link gives",
      NULL },
    { "gather_time", FIELD_DOUBLE, AT(step.gather_time), 0.1, 100, "1", "",
      "of the ZeRO-1 parameter gather over one ring all-gather", NULL },
    { "owner_broadcasts", FIELD_BOOL, AT(step.owner_broadcasts), 0, 0, "false", "",
      "ZeRO-1 parameters come owner by owner instead of in one all-gather", NULL },
    { "chunked_head", FIELD_CHOICE, AT(block.chunked_head), 0, 0, "\"no\"", "",
      "head and loss run for some tokens at a time; each time's weight gradient is added by its "
      "matmul, or by an fp32 copy of the product and a sum (Liger's fused linear cross entropy), "
      "or by autograd, whose backward makes each chunk's logits and loss anew (TRL's chunked loss)",
      chunked_head_names },
    { "chunk_tokens", FIELD_COUNT, AT(block.chunk.tokens), 0, 1000000, "0", "tokens",
      "of a chunked head, at a time; 0: so many that their logits are some as large as what the "
      "head reads (Liger's rule). With it, and where logits are made anew, logit_bytes is of one "
      "chunk's",
      NULL },
    { "chunk_cast_bytes", FIELD_DOUBLE, AT(block.chunk.cast_bytes), 0, 64, "0", "bytes",
      "per weight of a head whose logits are made anew: casts, each time that they are made",
      NULL },
    { "chunk_sum_bytes", FIELD_DOUBLE, AT(block.chunk.sum_bytes), 0, 64, "0", "bytes",
      "per weight of such a head and chunk: casts and sum of its gradient", NULL },
    { "chunk_fp32", FIELD_BOOL, AT(block.chunk.fp32), 0, 0, "false", "",
      "such a head's matmuls run in fp32", NULL },
    { "chunk_autocasts", FIELD_BOOL, AT(block.chunk.autocasts), 0, 0, "false", "",
      "its casts are autocast's: a frozen head in 16 bits has none", NULL },
    { "chunk_gathers", FIELD_BOOL, AT(step.chunk_gathers), 0, 0, "false", "",
      "ZeRO-3 gathers such a head's weight for each chunk, in forward and in backward", NULL },
    { "whole_logits", FIELD_BOOL, AT(block.whole_logits), 0, 0, "false", "",
      "tensor-parallel ranks gather the logits and each computes the whole loss", NULL },
    { "packed_sample_tokens", FIELD_COUNT, AT(packed_sample_tokens), 0, 1000000, "0", "tokens",
      "mean length of its usual fine-tuning samples, which attend within themselves where a "
      "measured row says that they are packed, or that it fine-tunes; 0: packed samples attend to "
      "all before them",
      NULL },
    { "packed_long_sample_tokens", FIELD_COUNT, AT(packed_long_sample_tokens), 0, 1000000, "0",
      "tokens", "the same where sequences have 16,384 tokens and more; 0: as others", NULL },
    { "offloads_to_fit", FIELD_BOOL, AT(offloads_to_fit), 0, 0, "false", "",
      "its recipes with FSDP offload the activations of as many blocks as do not fit: a measured "
      "row that does not say how many has the fewest by which it fits",
      NULL },
    { "packs_samples", FIELD_BOOL, AT(packs_samples), 0, 0, "false", "",
      "a measured row's sequences are packed samples unless it says how long those are", NULL },
    { "holds_tensor_overlap", FIELD_BOOL, AT(holds_tensor_overlap), 0, 0, "false", "",
      "its factors, or those it borrows, are of runs with layout.tp_overlap, priced without: "
      "no more hides than tensor_overlap_fraction",
      NULL },
    { "overlap_tensor", FIELD_BOOL, AT(overlap_tensor), 0, 0, "false", "",
      "its usual runs set layout.tp_overlap; with holds_tensor_overlap one that does not takes "
      "longer by what that would save",
      NULL },
    { "odd_vocabulary", FIELD_BOOL, AT(block.odd_vocabulary), 0, 0, "false", "",
      "the vocabulary is not padded: rows of logits may begin anywhere", NULL },
    { "compiled_blocks", FIELD_BOOL, AT(block.compiled), 0, 0, "false", "",
      "a compiler pads the rows of unfused attention over an odd number of tokens, and makes an "
      "adapter's factor and sums part of the kernels around them",
      NULL },
    { "remakes_activation", FIELD_BOOL, AT(block.remakes_activation), 0, 0, "false", "",
      "the output of a block's activation is not kept: the backward makes it anew", NULL },
    { "dropout_apart", FIELD_BOOL, AT(block.dropout_apart), 0, 0, "false", "",
      "a branch is dropped out by a kernel before the one that adds it to the residual", NULL },
    { "modulation_apart", FIELD_BOOL, AT(block.modulation_apart), 0, 0, "false", "",
      "shift, scale and gate of a diffusion block are kernels of their own", NULL },
    { "branches_apart", FIELD_BOOL, AT(block.branches_apart), 0, 0, "false", "",
      "where a diffusion block takes video and text as one sequence, attention and feed-forward "
      "network have matmuls and sums over ranks of their own",
      NULL },
    { "exchanges_adapters", FIELD_BOOL, AT(block.exchanges_adapters), 0, 0, "false", "",
      "with sequence parallelism an adapter's output comes to the rank's rows by all-to-all, where "
      "others gather it whole",
      NULL },
    { "casts_adapter_inputs", FIELD_BOOL, AT(block.casts_adapter_inputs), 0, 0, "false", "",
      "an adapter's weights are fp32, to which its input is cast, and which autocast casts back",
      NULL },
    { "repeats_keys", FIELD_BOOL, AT(block.repeats_keys), 0, 0, "false", "",
      "keys and values are copied for each query head before attention, so that a gathered ring "
      "moves the copies",
      NULL },
    { "unfused_encoder", FIELD_BOOL, AT(block.unfused_encoder), 0, 0, "false", "",
      "the vision encoder's attention writes its scores, whatever the language model's does",
      NULL },
    { "divides_sends", FIELD_BOOL, AT(divides_sends), 0, 0, "false", "",
      "without sequence parallelism TP ranks send shares to the next stage, which gathers them",
      NULL },
    { "waits_for_sends", FIELD_BOOL, AT(waits_for_sends), 0, 0, "false", "",
      "a stage computes nothing while it sends to the next", NULL },
    { "blocking_launches_gpus", FIELD_COUNT, AT(blocking_launches_gpus), 0, 10000000, "0", "GPUs",
      "jobs of so many GPUs and more wait for each kernel (CUDA_LAUNCH_BLOCKING=1); 0: none do",
      NULL },
    { "overlaps_interleaved_sends", FIELD_BOOL, AT(overlaps_interleaved_sends), 0, 0, "false", "",
      "but not where parts of the model take turns on each stage", NULL },
    { "reduces_once", FIELD_BOOL, AT(step.reduces_once), 0, 0, "false", "",
      "ZeRO-2 and 3 keep gradients whole between micro-batches and reduce them behind the last",
      NULL },
    { "reduces_replicas_last", FIELD_BOOL, AT(step.reduces_replicas_last), 0, 0, "false", "",
      "all-reduces between copies of sharded states are combined and come behind the backward",
      NULL },
    { "reduce_bucket_parameters", FIELD_DOUBLE, AT(step.reduce_bucket_parameters), 0, 1e12, "0",
      "parameters",
      "gradients that are reduced beside the backward go in buckets of so many, the last of which "
      "has nothing to hide behind, and parameters come back likewise; 0: of about a layer",
      NULL },
    { "reduce_bucket_rank_parameters", FIELD_DOUBLE, AT(step.reduce_bucket_rank_parameters), 0,
      1e12, "0", "parameters", "a bucket has at least so many for each data-parallel rank", NULL },
    { "first_stage_buckets", FIELD_BOOL, AT(step.first_stage_buckets), 0, 0, "false", "",
      "such buckets are the first stage's, of its first part of the model; every other part is one "
      "bucket",
      NULL },
    { "gathers_at_forward", FIELD_BOOL, AT(step.gathers_at_forward), 0, 0, "false", "",
      "a stage whose host waits for the first activations gathers its one bucket when it has them, "
      "not beside the stages before it",
      NULL },
    { "gradient_buckets", FIELD_BOOL, AT(gradient_buckets), 0, 0, "true", "",
      "data parallelism without ZeRO reduces copies of the gradients, in buckets that stay "
      "(DistributedDataParallel of PyTorch; backend fsdp)",
      NULL },
    { "overlap_cost", FIELD_DOUBLE, AT(step.overlap_cost), 0, 10, "0", "",
      "compute time lost per time that moves ZeRO-2 and 3 traffic beside it, waits for NICs apart",
      NULL },
    { "data_overlap_cost", FIELD_DOUBLE, AT(step.data_overlap_cost), 0, 10, "0", "",
      "the same of hidden gradient reductions and parameter gathers of ZeRO-0 and 1", NULL },
    { "gradient_bytes", FIELD_DOUBLE, AT(gradient_bytes), 0, 64, "null", "bytes",
      "kept per trainable parameter; null: the backend's", NULL },
    { "gradient_reduce_bytes", FIELD_DOUBLE, AT(gradient_reduce_bytes), 0, 64, "null", "bytes",
      "reduced per trainable parameter; null: the backend's", NULL },
    { "accumulate_bytes_moved", FIELD_DOUBLE, AT(accumulate_bytes_moved), 0, 64, "null", "bytes",
      "moved per trainable parameter and micro-batch to add gradients; null: the backend's", NULL },
    { "gather_copy_bytes", FIELD_DOUBLE, AT(step.gather_copy_bytes), 0, 64, "0", "bytes",
      "moved per parameter and micro-batch by copies around the gathers of ZeRO-3; half for ZeRO-2",
      NULL },
    { "reduce_copy_bytes", FIELD_DOUBLE, AT(step.reduce_copy_bytes), 0, 64, "0", "bytes",
      "moved per trainable parameter by copies before each reduction of ZeRO-2 and 3", NULL },
    { "gradient_passes", FIELD_DOUBLE, AT(step.gradient_passes), 0, 100, "0", "",
      "times that a step reads or writes a rank's whole gradients besides, where they are reduced "
      "whole: to clear, scale and check them",
      NULL },
    { "shard_list_us", FIELD_DOUBLE, AT(step.shard_list_s), 0, 1000, "0", "us",
      "host time for each rank of each tensor that ZeRO-3 gathers or reduces as a list of shards",
      NULL },
    { "fp8_gradient_bytes", FIELD_DOUBLE, AT(fp8_gradient_bytes), 0, 64, "null", "bytes",
      "kept and reduced per trainable parameter with fp8 matmuls; null: as with bf16", NULL },
    { "fp16_gradient_bytes", FIELD_DOUBLE, AT(fp16_gradient_bytes), 0, 64, "null", "bytes",
      "the same with fp16 matmuls; null: as with bf16", NULL },
    { "fp16_gradient_reduce_bytes", FIELD_DOUBLE, AT(fp16_gradient_reduce_bytes), 0, 64, "null",
      "bytes", "of them, reduced; null: as held", NULL },
    { "fp16_accumulate_bytes_moved", FIELD_DOUBLE, AT(fp16_accumulate_bytes_moved), 0, 64, "null",
      "bytes", "as accumulate_bytes_moved, with fp16 matmuls; null: as with bf16", NULL },
    { "fp32_accumulate_bytes_moved", FIELD_DOUBLE, AT(fp32_accumulate_bytes_moved), 0, 64, "null",
      "bytes",
      "the same where all of the training is in fp32; null: 12 where bytes are stated for "
      "bf16, the gradient read and added to the kept one",
      NULL },
    { "fp8_gather_bytes", FIELD_DOUBLE, AT(fp8_gather_bytes), 0, 4, "null", "bytes",
      "gathered per parameter of a block with fp8 matmuls; null: 2, as bf16", NULL },
    { "quantised_copy_bytes", FIELD_DOUBLE, AT(step.quantised_copy_bytes), 0, 4, "0", "bytes",
      "held per parameter of a block with fp8 matmuls: copies of its matrices by rows and by "
      "columns, beside the weights",
      NULL },
    { "fp8_weights", FIELD_BOOL, AT(step.fp8_weights), 0, 0, "false", "",
      "weights of blocks with fp8 matmuls are fp8 themselves: frozen ones, which have no copy by "
      "columns, one byte a parameter",
      NULL },
    { "fp4_weights", FIELD_BOOL, AT(step.fp4_weights), 0, 0, "false", "",
      "frozen weights of blocks with fp4 matmuls are their copies by rows and by columns alone",
      NULL },
    { "placeholder_gradients", FIELD_BOOL, AT(step.placeholder_gradients), 0, 0, "false", "",
      "a bf16 buffer of each matrix of a block stands where autograd asks for a gradient", NULL },
    { "state_bytes", FIELD_DOUBLE, AT(state_bytes), 0, 64, "null", "bytes",
      "optimizer state per trainable parameter; null: the optimizer's", NULL },
    { "master_weights", FIELD_BOOL, AT(master_weights), 0, 0, "true", "",
      "the optimizer's state holds fp32 weights; false: bf16 weights are updated", NULL },
    { "kept_activations", FIELD_DOUBLE, AT(step.kept_activations), 0.1, 10, "1", "",
      "what a block keeps for its backward over what fused kernels keep", NULL },
    { "keeps", FIELD_NODE, NODE(keeps), 0, 0, "null", "",
      "tensors of an unfused block: gathered-inputs, gate-output, key-value-copy, attention-copy, "
      "fp32-scores, fp32-norms, fp32-norm-products, repeated-keys, fp32-residual, "
      "written-activation, copied-inputs",
      NULL },
    { "update_bytes", FIELD_DOUBLE, AT(step.update_bytes), 0, 64, "0", "bytes",
      "per trainable parameter of a rank's share: what the optimizer's step holds besides", NULL },
    { "logit_bytes", FIELD_DOUBLE, AT(step.logit_bytes), 0, 64, "null", "bytes",
      "held per logit at the loss's worst moment; null: 10", NULL },
    { "divided_logit_bytes", FIELD_DOUBLE, AT(step.divided_logit_bytes), 0, 64, "null", "bytes",
      "the same where TP divides the vocabulary; null: as without", NULL },
    { "reserved_fraction", FIELD_DOUBLE, AT(step.reserved_fraction), 0, 1, "0.023", "",
      "what the allocator keeps over what it hands out", NULL },
    { "context_GiB", FIELD_DOUBLE, AT(step.context_bytes), 0, 64, "null", "GiB",
      "CUDA context and library workspaces; null: the GPU's reserved_GiB", NULL },
    { "communicator_MiB", FIELD_DOUBLE, AT(step.communicator_bytes), 0, 65536, "688", "MiB",
      "buffers of one communicator of collectives", NULL },
    { "time_rows", FIELD_NODE, NODE(time_rows), 0, 0, "null", "",
      "measured runs whose time a cause here was read from", NULL },
    { "memory_rows", FIELD_NODE, NODE(memory_rows), 0, 0, "null", "",
      "measured runs whose memory a cause here was read from", NULL },
    { "pipeline_stack", FIELD_TEXT, AT(pipeline_stack), 0, 0, "null", "",
      "the stack that measured rows of it with a pipeline are of", NULL },
    { "relative", FIELD_TEXT, AT(relative), 0, 0, "null", "",
      "the stack whose factors hold while this one has none", NULL },
    { "factors", FIELD_NODE, NODE(factors), 0, 0, "null", "",
      "what calibration left, by GPU family and precision", NULL },
    { "sources", FIELD_NODE, NODE(sources), 0, 0, NULL, "", "where each figure comes from", NULL },
};
#undef NODE
#undef AT
const struct field_table stack_table = FIELD_TABLE("stack", "a software stack", stack_rows);

struct factor_fields {
    const char *gpu;
    int precision;
    double kernel_time_factor, attention_time_factor, fit_error;
    const cJSON *calibrated_on, *calibrated_runs;
};

#define AT(member) offsetof(struct factor_fields, member)
static const struct field factor_rows[] = {
    { "gpu", FIELD_TEXT, AT(gpu), 0, 0, NULL, "", "what the names of its hardware begin with",
      NULL },
    { "precision", FIELD_CHOICE, AT(precision), 0, 0, NULL, "", "of the matmuls", precision_names },
    { "kernel_time_factor", FIELD_DOUBLE, AT(kernel_time_factor), STACK_FACTOR_LEAST,
      STACK_FACTOR_MOST, NULL, "", "on every kernel", NULL },
    { "attention_time_factor", FIELD_DOUBLE, AT(attention_time_factor), 0.1, 20, "1", "",
      "on core attention besides", NULL },
    { "fit_error", FIELD_DOUBLE, AT(fit_error), 0, 10, "0", "",
      "root mean square of ln(predicted / measured) of its rows", NULL },
    { "calibrated_on", FIELD_NODE, AT(calibrated_on), 0, 0, NULL, "", "ids of measured runs",
      NULL },
    { "calibrated_runs", FIELD_NODE, AT(calibrated_runs), 0, 0, "null", "",
      "of each its GPUs, step time in s, layers and width (0: not said): tells it by another id",
      NULL },
};
#undef AT
const struct field_table stack_factor_table =
    FIELD_TABLE("factor", "what calibration left", factor_rows);

/* ---- reading ---- */

static bool read_texts(const struct json *json, const cJSON *list, struct arena *arena,
                       const char ***out, struct error *err) {
    const int count = cJSON_IsArray(list) ? cJSON_GetArraySize(list) : 0;
    *out = arena_array(arena, const char *, count + 1);
    if (list != NULL && !cJSON_IsNull(list) && !cJSON_IsArray(list))
        return json_error(json, list, err, NULL, "must be a list of texts");
    const cJSON *item;
    int i = 0;
    cJSON_ArrayForEach(item, list) {
        if (!cJSON_IsString(item)) return json_error(json, item, err, NULL, "must be a text");
        if (item->valuestring[strspn(item->valuestring, " ")] == '\0')
            return json_error(json, item, err, NULL, "must not be blank");
        (*out)[i++] = arena_text(arena, item->valuestring);
    }
    return true;
}

static bool refines_or_not(const struct json *json, const struct stack_fields *f,
                           const struct stack *stack, struct error *err) {
    if (stack->refines[0] != NULL && stack->told_by[0] == NULL)
        return json_error(json, f->refines, err, "add \"told_by\": [...]",
                          "nothing tells when it does");
    if (stack->refines[0] == NULL && stack->told_by[0] != NULL)
        return json_error(json, f->told_by, err, "add \"refines\": [...]", "it refines no stack");
    return true;
}

/* What is as without the key may be stated, so that a stack can leave its base's chunks. */
static bool chunks_or_not(const struct json *json, const struct stack *stack, struct error *err) {
    const struct stack_chunk *chunk = &stack->block.chunk;
    const struct {
        const char *key;
        enum stack_chunked_head from;
        bool set;
    } keys[] = {
        { "chunk_tokens", CHUNKED_HEAD_ADDED, chunk->tokens > 0 },
        { "chunk_cast_bytes", CHUNKED_HEAD_REMADE, chunk->cast_bytes > 0 },
        { "chunk_sum_bytes", CHUNKED_HEAD_REMADE, chunk->sum_bytes > 0 },
        { "chunk_fp32", CHUNKED_HEAD_REMADE, chunk->fp32 },
        { "chunk_autocasts", CHUNKED_HEAD_REMADE, chunk->autocasts },
        { "chunk_gathers", CHUNKED_HEAD_REMADE, stack->step.chunk_gathers },
    };
    for (size_t i = 0; i < sizeof keys / sizeof keys[0]; i++) {
        if (!keys[i].set || stack->block.chunked_head >= keys[i].from) continue;
        const cJSON *node = cJSON_GetObjectItemCaseSensitive(json_root(json), keys[i].key);
        return keys[i].from == CHUNKED_HEAD_REMADE
                   ? json_error(json, node, err,
                                "leave it out, or write \"chunked_head\": \"remade\"",
                                "is of a head that makes its logits anew")
                   : json_error(json, node, err,
                                "leave it out, or write \"chunked_head\": \"added\", \"copied\" or "
                                "\"remade\"",
                                "is of a chunked head");
    }
    return true;
}

static const char *const keep_names[] = { "gathered-inputs",    "gate-output",   "key-value-copy",
                                          "attention-copy",     "fp32-scores",   "fp32-norms",
                                          "fp32-norm-products", "repeated-keys", "fp32-residual",
                                          "written-activation", "copied-inputs" };
enum { KEEP_COUNT = sizeof keep_names / sizeof keep_names[0] };

static const char *all_keeps(struct arena *arena) {
    const char *text = "one of:";
    for (int i = 0; i < KEEP_COUNT; i++)
        text = arena_format(arena, "%s%s %s", text, i > 0 ? "," : "", keep_names[i]);
    return text;
}

static bool read_keeps(const struct json *json, const cJSON *list, struct arena *arena,
                       struct stack *out, struct error *err) {
    if (list != NULL && !cJSON_IsNull(list) && !cJSON_IsArray(list))
        return json_error(json, list, err, NULL, "must be a list of texts");
    const cJSON *item;
    cJSON_ArrayForEach(item, list) {
        unsigned found = 0;
        for (int i = 0; i < KEEP_COUNT; i++)
            if (cJSON_IsString(item) && strcmp(item->valuestring, keep_names[i]) == 0)
                found = 1u << i;
        if (found == 0)
            return json_error(json, item, err, all_keeps(arena),
                              "is no tensor that a block can keep");
        out->block.keeps |= found;
    }
    return true;
}

static bool read_kernel_traffic(const struct json *json, const cJSON *forms, struct arena *arena,
                                struct stack *out, struct error *err) {
    if (forms == NULL || cJSON_IsNull(forms)) return true;
    if (!cJSON_IsObject(forms))
        return json_error(json, forms, err, NULL, "must be an object: kernel, then its traffic");
    const cJSON *item;
    cJSON_ArrayForEach(item, forms) {
        int form = FORM_FIRST_KERNEL;
        while (form < FORM_COUNT && strcmp(operator_form_name(form), item->string) != 0)
            form++;
        if (form == FORM_COUNT) {
            const char *hint = "one of:";
            for (int known = FORM_FIRST_KERNEL; known < FORM_COUNT; known++)
                hint = arena_format(arena, "%s%s %s", hint, known > FORM_FIRST_KERNEL ? "," : "",
                                    operator_form_name((enum operator_form)known));
            return json_error(json, item, err, hint, "is no kernel");
        }
        const cJSON *pass;
        cJSON_ArrayForEach(pass, item) {
            if (!cJSON_IsNumber(pass) || pass->valuedouble < 0.1 || pass->valuedouble > 100)
                return json_error(json, pass, err, NULL, "must be a number from 0.1 to 100");
        }
        if (!cJSON_IsArray(item) || cJSON_GetArraySize(item) != 2)
            return json_error(json, item, err, NULL,
                              "must be two numbers: traffic forward and backward");
        out->kernel_traffic[form] =
            (struct stack_kernel_traffic){ cJSON_GetArrayItem(item, 0)->valuedouble,
                                           cJSON_GetArrayItem(item, 1)->valuedouble };
    }
    return true;
}

static bool read_runs(const struct json *json, const cJSON *list, struct arena *arena,
                      struct stack_factor *factor, struct error *err) {
    enum { NUMBERS = 4 };
    if (list == NULL || cJSON_IsNull(list)) return true;
    int rows = 0, count = 0;
    while (factor->calibrated_on[rows] != NULL)
        rows++;
    if (!cJSON_IsArray(list) || cJSON_GetArraySize(list) != rows)
        return json_error(json, list, err, NULL, "must have one entry for each of the %d rows",
                          rows);
    struct stack_run *runs = arena_array(arena, struct stack_run, rows + 1);
    const cJSON *item;
    cJSON_ArrayForEach(item, list) {
        double numbers[NUMBERS] = { 0 };
        bool ok = cJSON_IsArray(item) && cJSON_GetArraySize(item) == NUMBERS;
        for (int i = 0; ok && i < NUMBERS; i++) {
            const cJSON *number = cJSON_GetArrayItem(item, i);
            numbers[i] = cJSON_IsNumber(number) ? number->valuedouble : NAN;
            ok = numbers[i] >= 0 && (i > 1 || numbers[i] > 0);
        }
        if (!ok)
            return json_error(json, item, err, NULL,
                              "must be GPUs, seconds a step, layers and width");
        runs[count++] = (struct stack_run){ numbers[0], numbers[1], numbers[2], numbers[3] };
    }
    factor->runs = runs;
    return true;
}

static bool read_factors(const struct json *json, const cJSON *list, struct arena *arena,
                         struct stack *out, struct error *err) {
    if (list != NULL && !cJSON_IsNull(list) && !cJSON_IsArray(list))
        return json_error(json, list, err, NULL, "must be a list of factors");
    out->factors = arena_array(arena, struct stack_factor, cJSON_GetArraySize(list) + 1);
    const cJSON *item;
    cJSON_ArrayForEach(item, list) {
        struct factor_fields f;
        if (!field_table_read(&stack_factor_table, json, item, &f, arena, err)) return false;
        struct stack_factor *factor = &out->factors[out->factor_count++];
        *factor = (struct stack_factor){ .gpu = f.gpu,
                                         .precision = (enum precision)f.precision,
                                         .kernel_time_factor = f.kernel_time_factor,
                                         .attention_time_factor = f.attention_time_factor,
                                         .fit_error = f.fit_error };
        if (!read_texts(json, f.calibrated_on, arena, &factor->calibrated_on, err)) return false;
        if (factor->calibrated_on[0] == NULL)
            return json_error(json, item, err, NULL, "names no row that it was fitted on");
        if (!read_runs(json, f.calibrated_runs, arena, factor, err)) return false;
    }
    return true;
}

/* A key that no stack has is told as such, by who reads it. */
static bool is_figure(const cJSON *item) {
    if (field_table_find(&stack_table, item->string) == NULL) return false;
    if (strcmp(item->string, "kernel_traffic") == 0) return cJSON_IsObject(item);
    return cJSON_IsNumber(item) && strcmp(item->string, "year") != 0;
}

bool stack_check_sources(const struct json *json, const cJSON *sources, struct error *err) {
    return figure_sources_check(json, sources, is_figure, err);
}

/* What says how a stack is found, or fills in measured runs only, is no cause of a price. */
static bool is_cause(const char *name) {
    static const char *const others[] = {
        "name",
        "description",
        "base",
        "words",
        "projects",
        "runs",
        "refines",
        "told_by",
        "packs_samples",
        "packed_sample_tokens",
        "packed_long_sample_tokens",
        "offloads_to_fit",
        "year",
        "backend",
        "hardware",
        "recompute",
        "sequence_parallel",
        "context_heads",
        "context_gathers",
        "context_contiguous",
        "relative",
        "pipeline_stack",
        "factors",
        "sources",
        "overlap_gradient_reduce",
        "time_rows",
        "memory_rows",
        "attention_fitted",
        "overlap_parameter_gather",
        "overlap_shard_reduce",
        "gpt_dropout",
        "no_dropout",
        "multimodal_band",
        "one_place",
        "simulated",
        "partition",
        "zero_stage",
    };
    for (size_t i = 0; i < sizeof others / sizeof others[0]; i++)
        if (strcmp(others[i], name) == 0) return false;
    return true;
}

static void read_causes(const struct json *json, const cJSON *sources, struct arena *arena,
                        struct stack *out) {
    const cJSON *item;
    out->causes = arena_array(arena, struct stack_cause, cJSON_GetArraySize(json_root(json)) + 1);
    cJSON_ArrayForEach(item, json_root(json)) {
        if (!is_cause(item->string) || cJSON_IsNull(item)) continue;
        const cJSON *source = cJSON_GetObjectItemCaseSensitive(sources, item->string);
        char *value = cJSON_PrintUnformatted(item);
        out->causes[out->cause_count++] = (struct stack_cause){
            .name = arena_text(arena, item->string),
            .value = arena_text(arena, value),
            .source = arena_text(arena, cJSON_IsString(source) ? source->valuestring : ""),
        };
        cJSON_free(value);
    }
}

/* By the unit that its row states. */
static void in_seconds_and_bytes(struct stack_fields *f) {
    for (size_t i = 0; i < stack_table.count; i++) {
        const struct field *field = &stack_table.fields[i];
        if (field->type != FIELD_DOUBLE) continue;
        double *figure = (double *)((char *)f + field->offset);
        if (strcmp(field->unit, "us") == 0) *figure /= 1e6;
        if (strcmp(field->unit, "GB/s") == 0) *figure *= BYTES_PER_GB;
        if (strcmp(field->unit, "GiB") == 0) *figure *= BYTES_PER_GiB;
        if (strcmp(field->unit, "MiB") == 0) *figure *= BYTES_PER_MiB;
    }
}

/* Figures that stand for others where the file does not state those. */
static void fill_in(struct stack *s) {
    if (isnan(s->norm_backward_traffic)) s->norm_backward_traffic = s->norm_traffic;
    if (isnan(s->softmax_traffic)) s->softmax_traffic = s->elementwise_traffic;
    if (isnan(s->fp16_optimizer_traffic)) s->fp16_optimizer_traffic = s->optimizer_traffic;
    if (isnan(s->step.divided_logit_bytes)) s->step.divided_logit_bytes = s->step.logit_bytes;
}

bool stack_read(const struct json *json, struct arena *arena, struct stack *out,
                struct error *err) {
    struct stack_fields f = { 0 };
    if (!field_table_read(&stack_table, json, json_root(json), &f, arena, err) ||
        !stack_check_sources(json, f.sources, err))
        return false;
    in_seconds_and_bytes(&f);
    fill_in(&f.stack);
    *out = f.stack;
    read_causes(json, f.sources, arena, out);
    return read_texts(json, f.words, arena, &out->words, err) &&
           read_texts(json, f.projects, arena, &out->projects, err) &&
           read_texts(json, f.runs, arena, &out->runs, err) &&
           read_texts(json, f.refines, arena, &out->refines, err) &&
           read_texts(json, f.told_by, arena, &out->told_by, err) &&
           stack_told_by_is_sound(json, f.told_by, arena, err) &&
           refines_or_not(json, &f, out, err) && chunks_or_not(json, out, err) &&
           stack_words_are_known(json, out, err) &&
           read_texts(json, f.time_rows, arena, &out->time_rows, err) &&
           read_texts(json, f.memory_rows, arena, &out->memory_rows, err) &&
           read_kernel_traffic(json, f.kernel_traffic, arena, out, err) &&
           read_keeps(json, f.keeps, arena, out, err) &&
           read_factors(json, f.factors, arena, out, err);
}
