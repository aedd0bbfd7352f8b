/* scenario_fields.c - one row per scenario field. */
#include "sim/scenario/scenario_fields.h"

#include "sim/scenario/scenario.h"

#define NODE(section, member, fallback, help)                                                      \
    { #member, FIELD_NODE, offsetof(struct section, member), 0, 0, fallback, "", help, NULL }

#define SECTION(name, help, fields) FIELD_TABLE_MEANT(name, help, fields, scenario_key_meant)

static const struct field top_fields[] = {
    { "name", FIELD_TEXT, offsetof(struct scenario_top, name), 0, 0, "null", "",
      "label in results; the file name when left out", NULL },
    { "description", FIELD_TEXT, offsetof(struct scenario_top, description), 0, 0, "null", "",
      "free text, kept with the results", NULL },
    NODE(scenario_top, model, NULL, "what is trained: a model name, or the section `model`"),
    NODE(scenario_top, dataset, NULL,
         "what it is trained on: a data-set name, or the section `dataset`"),
    NODE(scenario_top, cluster, NULL, "where: a cluster name, or the section `cluster`"),
    NODE(scenario_top, layout, NULL, "how the model is spread over the GPUs: section `layout`"),
    NODE(scenario_top, training, "null", "batch sizes and optimizer: section `training`"),
    NODE(scenario_top, policy, "null", "the balancing policies: section `policy`"),
    NODE(scenario_top, simulate, "null", "how much is simulated: section `simulate`"),
    NODE(scenario_top, rules, "null", "own figures in place of estimates: a list, see `rules`"),
    NODE(scenario_top, what_if, "null",
         "slow GPUs and links, stragglers, data loading, failures: section `what_if`"),
};
const struct field_table scenario_top_table = SECTION("scenario", "a JSON object", top_fields);

#define AT(member) offsetof(struct scenario_model, member)
static const struct field model_fields[] = {
    { "name", FIELD_TEXT, AT(name), 0, 0, NULL, "",
      "a file in scenarios/models, or a path from the scenario's folder or the current one", NULL },
    { "frozen", FIELD_NODE, AT(frozen), 0, 0, "null", "",
      "modules that are not trained: list of \"vision\", \"connector\", \"language\"", NULL },
    { "lora", FIELD_NODE, AT(lora), 0, 0, "null", "",
      "low-rank adapters in all blocks of the language model or, without one, of the diffusion "
      "decoder, which is frozen: section `lora`",
      NULL },
    { "input_gradients", FIELD_BOOL, AT(input_gradients), 0, 0, "false", "",
      "backward also runs through frozen layers that nothing trained stands before, as "
      "Transformers' "
      "enable_input_require_grads() makes it",
      NULL },
    { "frame_size", FIELD_TEXT, AT(frame_size), 0, 0, "null", "pixels",
      "of a diffusion decoder: width and height of frames, for example \"1280x720\"; null: as the "
      "model's file says. Samples whose data set gives their frames a size keep it",
      NULL },
    { "definition", FIELD_NODE, AT(definition), 0, 0, "null", "",
      "the content of a model file, written here instead of read; its name may stand in either "
      "place",
      NULL },
    { "precision", FIELD_NODE, AT(precision), 0, 0, "null", "",
      "precision of single modules, for example {\"vision\": \"fp8\"}; others follow `training`",
      NULL },
};
const struct field_table scenario_model_table =
    SECTION("model", "what is trained; a bare string is its name", model_fields);
#undef AT

#define AT(member) offsetof(struct scenario_dataset, member)
static const struct field dataset_section_fields[] = {
    { "name", FIELD_TEXT, AT(name), 0, 0, NULL, "",
      "a file in scenarios/datasets, or the path of a .csv, .json or .jsonl file (.gz too) "
      "from the scenario's folder or the current one",
      NULL },
    { "definition", FIELD_NODE, AT(definition), 0, 0, "null", "",
      "the content of a data set file, written here instead of read; its name may stand in either "
      "place",
      NULL },
    { "tiling", FIELD_CHOICE, AT(tiling), 0, 0, "\"as-file\"", "",
      "tiles as recorded, InternVL's dynamic tiling, Qwen2-VL's native resolution, or LLaVA-1.6's "
      "any resolution (with all tokens of its tiles, or as released without those of padding)",
      tiling_names },
    { "min_tiles", FIELD_COUNT, AT(min_tiles), 1, 64, "1", "tiles",
      "internvl: fewest tiles of an image", NULL },
    { "image_tiles", FIELD_COUNT, AT(image_tiles), 1, TILING_MAX_TILES, "null", "tiles",
      "as-file: at most so many of those that the data set has of an image; null: as the model's "
      "file says, else all",
      NULL },
    { "max_tiles", FIELD_COUNT, AT(max_tiles), 1, 64, "12", "tiles",
      "internvl: most tiles of an image", NULL },
    { "thumbnail", FIELD_BOOL, AT(thumbnail), 0, 0, "true", "",
      "internvl: add the whole image as one more tile when it has several", NULL },
    { "min_pixels", FIELD_COUNT, AT(min_pixels), 1, 1e9, "null", "pixels",
      "native: smallest image area; null: the encoder's, else 3136", NULL },
    { "max_pixels", FIELD_COUNT, AT(max_pixels), 1, 1e9, "null", "pixels",
      "native: largest image area; null: the encoder's, else 12845056", NULL },
    { "tile_language_tokens", FIELD_COUNT, AT(tile_language_tokens), 1, 65536, "null", "tokens",
      "language tokens that the data set counts for a tile; null: what it states, otherwise what "
      "the model makes of a tile",
      NULL },
};
const struct field_table scenario_dataset_table =
    SECTION("dataset", "the samples; a bare string is the name", dataset_section_fields);
#undef AT

#define AT(member) offsetof(struct scenario_cluster, member)
static const struct field cluster_fields[] = {
    { "name", FIELD_TEXT, AT(name), 0, 0, "null", "",
      "a file in scenarios/clusters, or a path as of a model, whose values hold unless given here",
      NULL },
    { "hardware", FIELD_TEXT, AT(hardware), 0, 0, NULL, "",
      "a GPU in scenarios/hardware, or a path from the scenario's folder or the current one",
      NULL },
    { "gpu_count", FIELD_COUNT, AT(gpu_count), 1, 1e6, NULL, "GPUs", "GPUs in the job", NULL },
    { "gpus_per_node", FIELD_COUNT, AT(gpus_per_node), 1, 1024, "null", "GPUs",
      "GPUs that share NVLink and NICs; null: the NVLink domain of the hardware file, 8 in a "
      "server; of a rack (72 in NVL72) the largest equal part that the job fills",
      NULL },
    { "nic_Gbit_per_s_per_gpu", FIELD_DOUBLE, AT(nic_Gbit_per_s_per_gpu), 0.01, 1e5, NULL, "Gbit/s",
      "one-way network bandwidth of a node divided by its GPUs; of one node alone any figure does",
      NULL },
    { "nic_latency_us", FIELD_DOUBLE, AT(nic_latency_us), 0, 1e6, "10", "us",
      "one hop between nodes, idle network; of a ring 0.27 to 1.4 times it, by NCCL's protocols", NULL },
    { "nics_per_node", FIELD_COUNT, AT(nics_per_node), 0, 1024, "0", "NICs",
      "0: one per GPU; a lone flow between nodes gets one NIC", NULL },
    { "nic_efficiency_fraction", FIELD_DOUBLE, AT(nic_efficiency_fraction), 0.01, 1, "0.9", "",
      "of the NIC rate that a collective reaches", NULL },
    { "fabric", FIELD_TEXT, AT(fabric), 0, 0, "null", "",
      "a network in scenarios/hardware/fabrics: its measured latency and efficiency hold instead",
      NULL },
    { "nvlink_mesh_gpus", FIELD_COUNT, AT(nvlink_mesh_gpus), 0, 16, "0", "GPUs",
      "GPUs of a node whose links go straight to each other: a pair of 4 has a third of them, one "
      "of 8 (V100's cube mesh) a sixth; 0: through a switch",
      NULL },
    { "nvls", FIELD_BOOL, AT(nvls), 0, 0, "true", "",
      "all-reduces inside a node are added up in the NVSwitch where Hopper's and later GPUs do "
      "(NVLink SHARP); false: by rings alone, as with NCCL_NVLS_ENABLE=0",
      NULL },
    { "host_memory_GB_per_node", FIELD_DOUBLE, AT(host_memory_GB_per_node), 1, 1e6, "null", "GB",
      "host memory that offloaded activations of a node's GPUs may take together (policy dip); "
      "null: as much as they need",
      NULL },
    { "gpus_per_host_link", FIELD_COUNT, AT(gpus_per_host_link), 1, 64, "1", "GPUs",
      "GPUs behind one link to the host, whose rate they share when they copy at once "
      "(2 behind each PCIe switch of a DGX)",
      NULL },
    { "price_usd_per_gpu_hour", FIELD_DOUBLE, AT(price_usd_per_gpu_hour), 0, 1e4, "null", "USD",
      "what a GPU-hour costs; null: no money is printed", NULL },
    { "on_demand_usd_per_gpu_hour", FIELD_DOUBLE, AT(on_demand_usd_per_gpu_hour), 0, 1e4, "null",
      "USD", "what it costs without a reservation; null: that money is not printed", NULL },
    { "source", FIELD_TEXT, AT(source), 0, 0, "null", "", "where the figures come from", NULL },
};
const struct field_table scenario_cluster_table =
    SECTION("cluster", "the machines; a bare string is the name", cluster_fields);
#undef AT

#define AT(member) offsetof(struct scenario_layout, member)
/* in the order of enum context_kind */
static const char *const context_names[] = { "all-gather", "ring", "all-to-all", "gathered-ring",
                                             NULL };
static const struct field layout_fields[] = {
    { "backend", FIELD_CHOICE, AT(backend), 0, 0, "\"megatron-lm\"", "",
      "the training framework; where a stack is named and this is not given, that of the stack",
      backend_names },
    { "stack", FIELD_TEXT, AT(stack), 0, 0, "\"auto\"", "",
      "a software stack in scenarios/stacks, or a path of a .json file, from the scenario's folder "
      "or the current one; auto: the usual one of the backend; none: kernels as the GPU profile "
      "has them",
      NULL },
    { "tp", FIELD_COUNT, AT(tp), 1, 1024, "1", "ranks", "tensor parallel degree", NULL },
    { "sp", FIELD_BOOL, AT(sp), 0, 0, "null", "",
      "sequence parallel with TP (no effect at tp 1); null: as the stack's usual runs, true "
      "without a stack",
      NULL },
    { "tp_overlap", FIELD_BOOL, AT(tp_overlap), 0, 0, "null", "",
      "gathers and scatters of TP run beside pieces of the matmul next to them (Megatron-LM's "
      "tp-comm-overlap; needs sp); null: as the stack's usual runs",
      NULL },
    { "pp", FIELD_COUNT, AT(pp), 1, 1024, "1", "stages", "pipeline stages", NULL },
    { "vpp", FIELD_COUNT, AT(vpp), 1, 64, "1", "chunks",
      "model chunks per stage; above 1 the schedule is interleaved", NULL },
    { "cp", FIELD_COUNT, AT(cp), 1, 1024, "1", "ranks",
      "context parallel degree: ranks that share each sequence of the language model", NULL },
    { "cp_kind", FIELD_CHOICE, AT(cp_kind), 0, 0, "\"ring\"", "",
      "how keys and values travel with cp > 1: all gathered before attention, around a ring beside "
      "it (Megatron-LM's p2p), heads exchanged for tokens (DeepSpeed Ulysses), or gathered while "
      "their gradients go around a ring (PyTorch's); where a layout does not say, the last two of "
      "stacks with `context_heads` and `context_gathers`",
      context_names },
    { "cp_heads", FIELD_COUNT, AT(cp_heads), 1, 1024, "1", "ranks",
      "of cp, neighbouring ranks that exchange heads for tokens, while the others do as cp_kind "
      "says (USP, LoongTrain; Megatron-LM's a2a+p2p): cp 8 with 4 is a ring of two such groups",
      NULL },
    { "cp_balanced", FIELD_BOOL, AT(cp_balanced), 0, 0, "true", "",
      "ring and all-gather: each rank holds tokens from both ends of a sequence (zigzag), so that "
      "a causal mask costs all ranks the same",
      NULL },
    { "dp", FIELD_COUNT, AT(dp), 1, 1e6, "null", "ranks",
      "data parallel degree; null: gpu_count / (tp x pp x cp)", NULL },
    { "zero_stage", FIELD_COUNT, AT(zero_stage), 0, 3, "1", "",
      "what is sharded over DP: 1 optimizer state, 2 gradients too, 3 parameters too (2 and 3 go "
      "with pp 1, or backend fsdp); of backend fsdp 3 unless given",
      NULL },
    { "zero_group", FIELD_COUNT, AT(zero_group), 1, 1e6, "null", "ranks",
      "data-parallel ranks that share one sharded copy; null: all of them (less is hybrid "
      "sharding)",
      NULL },
    { "overlap_gradient_reduce", FIELD_BOOL, AT(overlap_gradient_reduce), 0, 0, "null", "",
      "ZeRO-0 and 1: gradients are reduced behind the last micro-batch's backward; DeepSpeed's "
      "ZeRO-2: behind each; null: as the stack does",
      NULL },
    { "overlap_parameter_gather", FIELD_BOOL, AT(overlap_parameter_gather), 0, 0, "null", "",
      "ZeRO-1, and ZeRO-2 but FSDP's: parameters are gathered behind the next step's first "
      "forward; null: as the stack does",
      NULL },
};
const struct field_table scenario_layout_table =
    SECTION("layout", "how the model is spread over the GPUs", layout_fields);
#undef AT

#define AT(member) offsetof(struct scenario_training, member)
/* As enum training_attention counts them. */
static const char *const attention_names[] = { "flash",  "naive",   "flash-2", "flash-3",
                                               "masked", "flash-1", "cudnn",   NULL };
/* As enum state_type counts them. */
static const char *const gradient_type_names[] = { "fp32", "bf16", NULL };
/* As enum determinism counts them. */
static const char *const determinism_names[] = { "none", "kernels", "filled", NULL };
static const struct field training_fields[] = {
    { "global_batch", FIELD_NODE, AT(global_batch), 0, 0, "null", "",
      "{\"samples\": N}, or N alone, or {\"micro_batches\": N} of one optimizer step, over all "
      "ranks; default 1024 samples",
      NULL },
    { "micro_batch", FIELD_NODE, AT(micro_batch), 0, 0, "null", "",
      "{\"samples\": N}, or N alone, of one rank; default 1. A packing policy makes each group a "
      "micro-batch "
      "and "
      "keeps their number per step, global_batch / micro_batch: a step then holds more samples "
      "than "
      "global_batch says, and this field only rescales it (a sweep keeps the value nearest to what "
      "is asked for; global_batch in micro_batches says it directly)",
      NULL },
    { "precision", FIELD_CHOICE, AT(precision), 0, 0, "\"bf16\"", "",
      "of matmuls and activations; tf32: fp32 but for matmuls, which tensor cores make",
      precision_names },
    { "fp8_recipe", FIELD_CHOICE, AT(fp8_recipe), 0, 0, "\"usual\"", "",
      "how operands in fp8 are scaled, as Megatron-LM's --fp8-recipe and torchao name it: one "
      "scale a tensor from earlier steps (delayed) or of its own (tensorwise, \"current "
      "scaling\"), one a row (rowwise), a block of 128 values (blockwise) or of 32 (mxfp8, "
      "Blackwell alone); usual: delayed, with torchao tensorwise",
      fp8_recipe_names },
    { "attention", FIELD_CHOICE, AT(attention), 0, 0, "\"flash\"", "",
      "core attention in one fused kernel, that of the stack or by name FlashAttention of 2022, 2 "
      "or 3, or cuDNN's (Transformer Engine, PyTorch's SDPBackend.CUDNN_ATTENTION); masked: "
      "PyTorch's that reads a mask of all pairs (attn_mask of "
      "scaled_dot_product_attention); naive: matmul, softmax and matmul over scores in memory, as "
      "Megatron-LM before FlashAttention",
      attention_names },
    { "hidden_dropout", FIELD_DOUBLE, AT(hidden_dropout), 0, 1, "null", "",
      "probability of dropout after the embedding and both halves of each block of the language "
      "model, 0 for none; default as the model's file says (Megatron-LM's own default is 0.1)",
      NULL },
    { "attention_dropout", FIELD_DOUBLE, AT(attention_dropout), 0, 1, "null", "",
      "the same of its attention weights", NULL },
    { "deterministic", FIELD_CHOICE, AT(deterministic), 0, 0, "\"none\"", "",
      "kernels that give the same bits each time (Megatron-LM's --deterministic-mode); filled: "
      "besides, every new tensor is filled first, as torch.use_deterministic_algorithms does "
      "unless told otherwise and Megatron-LM had it until September 2026",
      determinism_names },
    { "offload_blocks", FIELD_COUNT, AT(offload_blocks), 0, 1e6, "0", "layers",
      "blocks of each stage, from its first, whose kept activations wait for their backward in "
      "host memory",
      NULL },
    { "optimizer", FIELD_CHOICE, AT(optimizer), 0, 0, "\"adamw\"", "",
      "decides optimizer state and update time; muon, of the blocks' matrices, adamw of the rest, "
      "is that of a stack that says so",
      optimizer_names },
    { "adamw_kernels", FIELD_CHOICE, AT(adamw_kernels), 0, 0, "\"usual\"", "",
      "of PyTorch's AdamW (backend fsdp): one kernel for all tensors (fused=True) or one for each "
      "operation (foreach=True, PyTorch's default); usual: as the stack has it",
      adamw_kernels_names },
    { "precision_aware_optimizer", FIELD_BOOL, AT(precision_aware_optimizer), 0, 0, "false", "",
      "adamw of Megatron-core that keeps 16 bits of each fp32 weight beside the bf16 one and reads "
      "gradients where they were reduced (--use-precision-aware-optimizer)",
      NULL },
    { "exp_avg_dtype", FIELD_CHOICE, AT(exp_avg_dtype), 0, 0, "\"fp32\"", "",
      "type that it keeps first moments in (--exp-avg-dtype)", state_type_names },
    { "exp_avg_sq_dtype", FIELD_CHOICE, AT(exp_avg_sq_dtype), 0, 0, "\"fp32\"", "",
      "the same of second moments", state_type_names },
    { "main_grads_dtype", FIELD_CHOICE, AT(main_grads_dtype), 0, 0, "\"fp32\"", "",
      "the same of gradients: bf16 are held and reduced so; fp32: as backend and stack have them",
      gradient_type_names },
    { "reduce_dtype", FIELD_CHOICE, AT(reduce_dtype), 0, 0, "\"usual\"", "",
      "what gradients are reduced in over data-parallel ranks, bf16 where bf16, fp8 or fp4 is "
      "trained: Megatron-LM holds them so too (--grad-reduce-in-bf16), FSDP has shards of the "
      "weights' type (reduce_dtype of its mixed precision), DeepSpeed communication_data_type; "
      "usual: as backend and stack do",
      reduce_type_names },
    { "gradient_sync", FIELD_CHOICE, AT(gradient_sync), 0, 0, "\"usual\"", "",
      "when FSDP (ZeRO-2 and 3) reduces the gradients of micro-batches that accumulate: each, "
      "behind each one's backward, which keeps them sharded (Accelerate's sync_each_batch), or "
      "last, once a step, whole until then (no_sync); usual: as the stack does",
      gradient_sync_names },
    { "epochs", FIELD_COUNT, AT(epochs), 1, 1e6, "1", "epochs",
      "passes over the data, for days and money", NULL },
};
const struct field_table scenario_training_table =
    SECTION("training", "batch sizes and optimizer", training_fields);
#undef AT

static const struct field policy_fields[] = {
    NODE(scenario_policy, batching, "null", "how samples become micro-batches; default random"),
    NODE(scenario_policy, partition, "null",
         "where the pipeline cuts the model; default layer, or as the stack does"),
    NODE(scenario_policy, recompute, "null", "which blocks recompute activations; default none"),
    NODE(scenario_policy, schedule, "null",
         "order of forward and backward passes; default 1f1b, with vpp interleaved"),
    NODE(scenario_policy, joint, "null",
         "a policy that fills several of the slots above unless they are given"),
};
const struct field_table scenario_policy_table =
    SECTION("policy", "each a name, or an object with the name and its parameters", policy_fields);

#define AT(member) offsetof(struct scenario_simulate, member)
static const struct field simulate_fields[] = {
    { "iterations", FIELD_NODE, AT(iterations), 0, 0, "null", "",
      "\"epoch\" (default) or the number of optimizer steps to replay", NULL },
    { "seed", FIELD_COUNT, AT(seed), 0, 4294967295.0, "1024", "",
      "of the batching policies; 1024 gives the published streams; drawn data have a seed of their "
      "own",
      NULL },
};
const struct field_table scenario_simulate_table =
    SECTION("simulate", "how much is simulated", simulate_fields);
#undef AT

#define AT(member) offsetof(struct scenario_what_if, member)
static const struct field what_if_fields[] = {
    { "slow_gpu_factor", FIELD_DOUBLE, AT(slow_gpu_factor), 1, 1000, "1", "",
      "one GPU, and with it its TP and CP group, takes so many times as long to compute", NULL },
    { "slow_gpu_stage", FIELD_COUNT, AT(slow_gpu_stage), 0, 1023, "0", "",
      "pipeline stage of that GPU, from 0", NULL },
    { "slow_gpu_rank", FIELD_COUNT, AT(slow_gpu_rank), 0, 999999, "0", "",
      "data-parallel rank of that GPU, from 0", NULL },
    { "straggler_fraction", FIELD_DOUBLE, AT(straggler_fraction), 0, 1, "0", "",
      "probability that a data-parallel rank straggles in a step", NULL },
    { "straggler_factor", FIELD_DOUBLE, AT(straggler_factor), 1, 1000, "1", "",
      "a straggling rank computes so many times as long", NULL },
    { "nic_factor", FIELD_DOUBLE, AT(nic_factor), 0.001, 1000, "1", "",
      "the network between nodes has so many times its bandwidth", NULL },
    { "slow_link_factor", FIELD_DOUBLE, AT(slow_link_factor), 1, 1000, "1", "",
      "sends over one pipeline link take so many times as long", NULL },
    { "slow_link_stage", FIELD_COUNT, AT(slow_link_stage), 0, 1023, "0", "",
      "stage before that link, from 0", NULL },
    { "data_loading_ms_per_sample", FIELD_DOUBLE, AT(data_loading_ms_per_sample), 0, 1e6, "0", "ms",
      "one worker reads and prepares a sample, whatever its images", NULL },
    { "data_loading_ms_per_megapixel", FIELD_DOUBLE, AT(data_loading_ms_per_megapixel), 0, 1e6, "0",
      "ms",
      "besides, of each million pixels that the vision encoder sees: decode, resize, normalise",
      NULL },
    { "data_loading_workers", FIELD_COUNT, AT(data_loading_workers), 1, 1e6, "1", "workers",
      "of each data-parallel rank (1: assumed); PyTorch's num_workers=0 is 1 worker and no "
      "data_loading_overlaps",
      NULL },
    { "data_loading_overlaps", FIELD_BOOL, AT(data_loading_overlaps), 0, 0, "true", "",
      "the next step's samples are loaded while this one computes (true: assumed)", NULL },
    { "gpu_mtbf_hours", FIELD_DOUBLE, AT(gpu_mtbf_hours), 1, 1e9, "null", "hours",
      "GPU-hours between failures that stop the job (Llama 3 405B: 50,000); null: none fails",
      NULL },
    { "checkpoint_interval_min", FIELD_DOUBLE, AT(checkpoint_interval_min), 1e-3, 1e6, "null",
      "min", "training between checkpoints; null: the interval that loses least", NULL },
    { "checkpoint_s", FIELD_DOUBLE, AT(checkpoint_s), 0, 1e5, "30", "s",
      "that a checkpoint stops the training (30: assumed, measure your own)", NULL },
    { "restart_min", FIELD_DOUBLE, AT(restart_min), 0, 1e5, "15", "min",
      "from a failure to the first step after the last checkpoint (15: assumed, measure your own)",
      NULL },
};
const struct field_table scenario_what_if_table = SECTION(
    "what_if", "what might go otherwise than planned; the defaults change nothing", what_if_fields);
