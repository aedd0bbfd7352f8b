/* stack.h - a software stack: what a training framework of a given year makes of the hardware.
 *
 * The same GPU trains at 40 % of its peak under one stack and at 60 % under another. A file of
 * scenarios/stacks states the known causes, each with its source: the attention kernel, kernels
 * that are not fused, what the host needs to launch a block, which traffic hides behind compute,
 * what memory holds. What is left is one factor on kernel times per GPU family and precision,
 * fitted on the calibration rows that it names (`ballast calibrate fit --steps`).
 *
 *     const struct stack *stack = stack_load(arena, "scenarios", "nemo-2025", err);
 *     cost_model_use_stack(model, stack, PRECISION_BF16, true);  // cost_model_price() from here on
 *
 * Everything lives in the arena and is read-only after loading.
 */
#ifndef BALLAST_COSTMODEL_STACK_H
#define BALLAST_COSTMODEL_STACK_H

#include "costmodel/operator_work.h"
#include "sim/base/arena.h"
#include "sim/base/error.h"
#include "sim/base/field.h"
#include "sim/base/json.h"

/* Bounds of a kernel_time_factor. */
#define STACK_FACTOR_LEAST 0.1
#define STACK_FACTOR_MOST  10.0
/* Kernel factors of most calibrated stacks lie between; farther off a row or its stack may be
 * wrong. */
#define STACK_USUAL_FACTOR_LEAST 0.8
#define STACK_USUAL_FACTOR_MOST  1.5

/* A run that a factor was fitted on; 0: its source does not say. */
struct stack_run {
    double gpus, step_s, layers, hidden;
};

/* What calibration left for one GPU family ("a100", a prefix of hardware names) and precision. */
struct stack_factor {
    const char *gpu;
    enum precision precision;
    double kernel_time_factor;    /* on every kernel */
    double attention_time_factor; /* on core attention besides; 1 unless the stack's is fitted */
    double fit_error;             /* root mean square of ln(predicted / measured) of its rows */
    const char **calibrated_on;   /* row ids, NULL at the end */
    const struct stack_run *runs; /* of these rows, as many; NULL: not known */
};

/* How a framework runs the forward of a recomputing block again.
 *   whole      all of it (Megatron-LM's and reentrant PyTorch checkpoints). Selective: core
 *              attention.
 *   needed     until every kept tensor is back, so not the last matmul, its reduction and the
 *              residual (non-reentrant PyTorch checkpoints stop early; XLA removes what nobody
 *              reads). Selective: core attention.
 *   operators  full as needed. Selective: attention and every other matmul were kept, counted from
 *              the first (torchtitan's selective_ac_option "op"); fp8 matmuls are none of them.
 *   core       full as whole. Selective: core attention, fused or not (Megatron-core checkpoints
 *              whatever kernel it has; the other styles repeat unfused attention alone).
 *   projected  full as needed, but the outputs of q, k and v were kept (MaxText's save_qkv_proj).
 *              Selective: core attention. */
enum recompute_style {
    RECOMPUTE_WHOLE,
    RECOMPUTE_NEEDED,
    RECOMPUTE_OPERATORS,
    RECOMPUTE_CORE,
    RECOMPUTE_PROJECTED
};

/* Tensors that an unfused block keeps for its backward beside those of layer_memory.c's fused
 * one. */
enum stack_keeps {
    KEEPS_GATHERED_INPUTS =
        1,                    /* inputs of column-parallel matmuls whole, not as the rank's shard */
    KEEPS_GATE_OUTPUT = 2,    /* of a gated MLP: the activated gate beside the product */
    KEEPS_KEY_VALUE_COPY = 4, /* keys and values once before and once after the rotary */
    KEEPS_ATTENTION_COPY = 8, /* the attention's output once more, as the projection reads it */
    /* of unfused attention, text blocks: the softmax in fp32 beside its cast */
    KEEPS_FP32_SCORES = 16,
    /* of an RMS norm made of operators: its input in fp32, and what its weight multiplies, in the
     * type of the input, or in fp32 as well */
    KEEPS_FP32_NORMS = 32,
    KEEPS_FP32_NORM_PRODUCTS = 64,
    KEEPS_REPEATED_KEYS = 128, /* keys and values once for each query head (before SDPA's GQA) */
    KEEPS_FP32_RESIDUAL = 256, /* what norms read of the residual stream, of autocast */
    /* of an activation that the model's code writes out: what its operators keep beside its input;
     * with the one above autocast's fp32 of it */
    KEEPS_WRITTEN_ACTIVATION = 512,
    /* under TP without sequence parallelism: q, k, v, gate and up copy their input each, and reduce
     * its gradient each */
    KEEPS_COPIED_INPUTS = 1024,
};

/* The collectives of tensor and sequence parallelism around a block's matmuls. */
enum stack_tensor_traffic {
    TENSOR_BESIDE, /* Megatron's linear layer: only the shard of the input is kept, and the backward's
                    * second gather and its reduction run beside the two gradient matmuls */
    TENSOR_ALONE,  /* the gathered input is kept, and each collective is waited for */
    TENSOR_COPIED, /* besides, each is gathered or scattered along the sequence: a copy (DTensor) */
    TENSOR_MERGED, /* besides, q, k, v, gate and up reduce their input's gradient each; the compiler
                    * merges their equal gathers (torch.compile, fx_graph_cse) */
    TENSOR_EACH,   /* besides, they gather their input each as well */
};

/* Who casts what an fp8 matmul reads. */
enum stack_casts {
    CASTS_FUSED,  /* norm and activation write it cast, by rows and by columns */
    CASTS_NORM,   /* the norm writes it cast, the backward transposes that; the activation does not:
                   * Transformer Engine's linear layers around a framework's own activation */
    CASTS_LINEAR, /* neither does: each linear layer casts what it reads, by rows and by columns in
                   * one kernel with scales of steps before (Transformer Engine's Linear) */
    CASTS_DYNAMIC /* nothing does: the maximum of the whole tensor must be known first, and rows and
                   * columns are cast one by one (torchao) */
};

/* What updates: torch.optim.AdamW in one kernel or one for each operation, or another's. */
enum stack_adamw { ADAMW_OTHER, ADAMW_FUSED, ADAMW_FOREACH };
/* What updates where no training says. */
enum stack_optimizer { STACK_ADAMW, STACK_MUON };

/* What automatic differentiation runs around the gradients of a block's linear layers. */
enum stack_linear_gradients {
    LINEAR_GRADIENTS_FUSED, /* kernels write them where they belong, biases are summed on the way */
    LINEAR_GRADIENTS_SPLIT, /* those of q, k and v are joined to that of their one product, and each
                             * bias's is a sum of its own over the output's gradient */
    LINEAR_GRADIENTS_APART /* q, k, v, gate and up are products of their own, whose gradients of the
                             * common input are added one to another; biases as above */
};

/* Whose samples fused attention reads without their padding: q, k and v are gathered before it,
 * its result is scattered behind it (flash_attn.bert_padding). */
enum stack_unpads {
    UNPADS_NEVER,
    UNPADS_PADDED, /* those of padded micro-batches: where a mask says that there is padding */
    UNPADS_ALWAYS
};

/* A head whose loss runs for some tokens at a time, which writes no logits of all of them: how each
 * time's gradient of its weight joins that of the times before (linkedin/Liger-Kernel,
 * ops/fused_linear_cross_entropy.py; huggingface/trl, trainer/sft_trainer.py). */
enum stack_chunked_head {
    CHUNKED_HEAD_NO,
    CHUNKED_HEAD_ADDED,  /* by the matmul itself (addmm) */
    CHUNKED_HEAD_COPIED, /* by an fp32 copy of the product and a sum */
    CHUNKED_HEAD_REMADE  /* by autograd: the backward makes a chunk's logits and loss anew first */
};

/* What a chunked head does for each chunk. */
struct stack_chunk {
    int64_t tokens; /* 0: as many as make its logits some as large as what the head reads */
    /* remade: bytes a weight that its casts move whenever logits are made, and that casts and sum
     * of the product move */
    double cast_bytes, sum_bytes;
    bool fp32;      /* remade: its matmuls run in fp32 */
    bool autocasts; /* remade: its casts are autocast's, of weights in fp32 alone */
};

/* How a framework's code runs a block and the loss: kernels that others fuse, and what they keep. */
struct stack_block {
    enum recompute_style recompute_style;
    unsigned keeps; /* enum stack_keeps: what an unfused block keeps besides */
    enum stack_tensor_traffic tensor_traffic;
    enum stack_casts casts;
    enum stack_linear_gradients linear_gradients;
    enum stack_unpads unpads;
    /* lengths of which unfused attention's softmax is one kernel; 0: any */
    int64_t softmax_multiple;
    enum stack_chunked_head chunked_head;
    struct stack_chunk chunk;
    bool whole_logits;   /* each TP rank gathers the logits and computes the whole loss */
    bool odd_vocabulary; /* not padded: rows of logits may begin anywhere */
    /* each pass casts the weights of fp8 and fp4 matmuls anew, where FSDP has not gathered them so;
     * else once a step, which is left out */
    bool casts_weights;
    bool compiled; /* pads odd rows of unfused scores; fuses what joins an adapter to its layer */
    bool unfused_encoder; /* a vision encoder's attention writes its scores, whatever the others' */
    bool remakes_activation; /* the backward makes it anew from what the up matmul wrote */
    bool dropout_apart;      /* a branch is dropped out before the kernel that adds it */
    bool modulation_apart; /* a diffusion block's shift, scale and gate are kernels of their own */
    bool repeats_keys;     /* keys and values reach SDPA once for each query head */
    bool branches_apart;   /* a single block's attention and feed-forward network share no matmul */
    /* with sequence parallelism an adapter's output comes to its rows by all-to-all, not gathered */
    bool exchanges_adapters;
    bool casts_adapter_inputs; /* to the fp32 of the adapter's weights, which autocast takes back */
};

/* What a framework does around the blocks of a step. */
struct stack_step {
    /* the host's time to launch one transformer block: a pass is never shorter */
    double host_forward_s, host_backward_s;
    double host_recompute_s; /* what a block recomputed whole adds to its forward's */
    double host_frozen_s;    /* what frozen weights take from the backward */
    double host_step_s;      /* of a step, beside nothing: loop, data, optimizer's launches */
    double gather_time;      /* ZeRO-1 parameter gather over the ring's */
    bool owner_broadcasts;   /* ZeRO-1 parameters come owner by owner, not in one all-gather */
    bool chunk_gathers; /* ZeRO-3 gathers a chunked head's weight for each chunk, in both passes */
    bool reduces_once;  /* sharded gradients stay whole between micro-batches (no_sync) */
    bool reduces_replicas_last; /* copies of sharded states are reduced behind the backward */
    /* What is reduced beside the backward goes in buckets of so many parameters, at least so many
     * for each data-parallel rank; 0: of about a layer. */
    double reduce_bucket_parameters, reduce_bucket_rank_parameters;
    bool first_stage_buckets; /* other stages, and parts after the first, are one bucket each */
    bool gathers_at_forward;  /* a stage that waits for activations gathers when it has them */
    double overlap_cost; /* compute lost per second that moves bytes of ZeRO-2 and 3 beside it */
    double data_overlap_cost; /* the same, of ZeRO-0 and 1: reductions and gathers that hide */
    double shard_list_s; /* of the host, for each rank and tensor gathered or reduced as a list */
    double gather_copy_bytes; /* per parameter and micro-batch: copies of what ZeRO-3 gathered; half
                               * of it under ZeRO-2 */
    double reduce_copy_bytes; /* per trainable parameter and sharded reduction: copies into it */
    double gradient_passes;   /* over whole gradients in a step of several ranks: cleared, scaled,
                               * looked through, copied to buckets and back */
    /* per parameter of a block whose matmuls run in fp8: copies by rows and columns
     * that stay from the forward to the backward pass, beside the weight itself */
    double quantised_copy_bytes;
    bool fp8_weights; /* of blocks whose matmuls run in fp8 they are fp8 themselves (fp8_params) */
    bool fp4_weights; /* frozen ones of blocks in fp4 are their two copies in fp4 alone */
    bool muon_whole;  /* without ZeRO each rank orthogonalises all matrices, not its share */
    bool placeholder_gradients; /* a bf16 buffer of each matrix of one block stays allocated */
    double kept_activations;    /* of a block over what its fused kernels keep */
    /* per trainable parameter of a rank's share: temporaries of the optimizer's step */
    double update_bytes;
    /* held per logit at the loss's worst moment, and where TP divides them; NaN: layer_memory.c's
     * 10 */
    double logit_bytes, divided_logit_bytes;
    double reserved_fraction; /* of what is allocated, on top */
    double context_bytes;     /* NaN: as the GPU file says */
    double communicator_bytes;
};

/* A figure that the file states, and where it comes from. */
struct stack_cause {
    const char *name, *value, *source; /* source "" for words and switches without one */
};

struct stack {
    const char *name, *description;
    const char **words;    /* a stack name that holds one of them belongs here; NULL at the end */
    const char **projects; /* the same of a name that holds no stack's word */
    const char **runs;     /* the same of a measured run's source and id */
    /* names of stacks whose measured runs are of this one where their model, source, precision or
     * notes say one of told_by; NULL at the end */
    const char **refines, **told_by;
    int64_t year;
    struct stack_block block;
    struct stack_step step;
    /* what a measured run of this stack does where its source does not say */
    const char *backend, *hardware, *recompute; /* hardware NULL: stated by every source */
    bool sequence_parallel, overlap_gradient_reduce, overlap_parameter_gather;
    bool overlap_shard_reduce; /* of DeepSpeed's ZeRO-2 */
    int64_t zero_stage;        /* without a pipeline; -1: the backend's usual one */
    const char *partition;     /* policy.partition of a scenario that names none */
    bool no_dropout;           /* ... and without it, with unfused attention too */
    bool gpt_dropout;          /* GPTs are trained with dropout, with fused attention too */
    bool context_heads; /* ranks of context parallelism exchange heads for tokens where they can */
    bool context_gathers;    /* or gather keys and values in front of a ring */
    bool context_contiguous; /* a ring's ranks hold contiguous tokens: their causal pairs differ */
    /* kernels: memory traffic over that of the fused kernel that layer_operators.c assumes */
    double norm_traffic, norm_backward_traffic;
    double elementwise_traffic, softmax_traffic, rotary_traffic, loss_traffic, optimizer_traffic;
    int adamw;                     /* enum stack_adamw: what optimizer_traffic counts */
    int optimizer;                 /* enum stack_optimizer */
    double fp16_optimizer_traffic; /* with fp16 matmuls: kernels of the loss scale as well */
    /* of kernels by what they compute, forward and backward, in place of the above; 0: as above */
    struct stack_kernel_traffic {
        double forward, backward;
    } kernel_traffic[FORM_COUNT];
    double launch_gap_s;   /* from kernel to kernel; NaN: the profile's */
    double host_sharded_s; /* what the hooks of ZeRO-3 on each of its modules add to either */
    double host_divided_forward_s, host_divided_backward_s; /* what TP's dispatch adds */
    double host_fp8_s;                                      /* what fp8 adds to the forward */
    const char *host_gpu; /* these on GPUs whose name begins so; "": on all */
    double attention_forward_time, attention_backward_time; /* over the profile's attention */
    const char *attention_gpu; /* these two on GPUs whose name begins so; "": on all */
    bool flash_2_blackwell;    /* there fused attention is FlashAttention-2 unless one is named */
    bool attention_fitted;
    double multimodal_band; /* 80 % of measured runs of its models of images or video were within
                             * time x (1 +- this); NaN: none are known */
    bool one_place;         /* stands for runs of the place that its factors were fitted on alone */
    bool simulated;         /* stands for a simulator's figures, not for measured runs */
    int64_t packed_sample_tokens; /* of its usual fine-tuning, apart in a sequence; 0: joined */
    int64_t packed_long_sample_tokens; /* the same of long sequences; 0: as above */
    bool offloads_to_fit;      /* a measured FSDP row offloads what does not fit, unless it says */
    bool packs_samples;        /* a measured row is of packed samples unless it says sample_len */
    bool holds_tensor_overlap; /* in its factors: layout.tp_overlap hides no more than stated */
    bool overlap_tensor;       /* layout.tp_overlap of runs that do not say */
    bool divides_sends;   /* without SP, TP ranks send shares to the next stage, which gathers */
    bool waits_for_sends; /* a stage computes nothing while it sends */
    /* On so many GPUs and more each kernel is waited for (CUDA_LAUNCH_BLOCKING); 0: never. */
    int64_t blocking_launches_gpus;
    bool overlaps_interleaved_sends; /* but where parts of the model take turns it computes on */
    /* PyTorch's DistributedDataParallel: gradients are copied to buckets that stay (backend fsdp). */
    bool gradient_buckets;
    /* traffic */
    double tensor_hidden_fraction;  /* of TP collectives that the layer rule exposes */
    double tensor_overlap_fraction; /* of gathers and scatters in runs with layout.tp_overlap,
                                       beside what its factors hold (holds_tensor_overlap) */
    double context_hidden_fraction; /* of CP traffic that it exposes */
    /* what a rank's sends to a stage on another node reach at most; 0: what the link gives */
    double node_send_bytes_per_s;
    /* memory; NaN: the backend's, optimizer's, or GPU's own figure */
    double gradient_bytes, gradient_reduce_bytes, accumulate_bytes_moved, state_bytes;
    /* held and reduced where the matmuls run in these precisions; NaN: as above */
    double fp8_gradient_bytes, fp16_gradient_bytes, fp16_gradient_reduce_bytes,
        fp16_accumulate_bytes_moved, fp32_accumulate_bytes_moved;
    /* per parameter of a block with fp8 matmuls, as it is gathered; NaN: 2, as bf16 */
    double fp8_gather_bytes;
    bool master_weights; /* fp32 copies in the optimizer's state; else bf16 weights are updated */
    /* measured runs whose time and whose memory a cause was read from; NULL at the end */
    const char **time_rows, **memory_rows;
    /* what the file states of pricing and memory, in its order; not what only measured runs take */
    struct stack_cause *causes;
    int64_t cause_count;
    const char *pipeline_stack; /* of its measured rows with a pipeline; NULL: itself */
    const char *base;           /* the one of its bases whose factors these may be; NULL: none */
    const char **bases; /* files whose figures hold where it has none, nearest first; NULL at end */
    const char *relative; /* whose factors hold while it has none; NULL: none */
    bool borrows;         /* the factors are its relative's */
    /* Its file has none, they are not its base's and it is no simulator's: kernels take
     * uncalibrated_stack_factor of step_band.h more, but for models that write no text. What is
     * tried or held back in its place is not. */
    bool uncalibrated;
    bool held_back; /* what encoders take more is found from this one, so they take none of it */
    struct stack_factor *factors;
    int64_t factor_count;
    const struct stack *const *known; /* all stacks of the folder: what is usual on a GPU */
    int64_t known_count;
};

/* `name` is a file in <search_directory>/stacks or a path. */
const struct stack *stack_load(struct arena *arena, const char *search_directory, const char *name,
                               struct error *err);
/* All of the folder, sorted by name. */
struct stack_list {
    const struct stack **stacks;
    int64_t count;
};
bool stack_load_all(struct arena *arena, const char *search_directory, struct stack_list *list,
                    struct error *err);

/* The first year in a name, a whole word ("nemo-2025") of these, else that of a release ("25.04");
 * 0 if it has none. */
enum { STACK_YEAR_MIN = 2017, STACK_YEAR_MAX = 2035 };
int64_t stack_name_year(const char *name);
/* The stack that a source's own name ("LLM-Foundry FSDP1", in capitals or not, with any marks
 * between its words) stands for: the same name, else the one whose word it holds (the longest; of
 * equal ones the nearest year, or the newest if the name states none, and of one year the one whose
 * backend usually runs a model that TP or PP divides, or does not), else NULL. A word that ends in a
 * year ("nanogpt 2026") is in names that state it or a later one. *exact: the name
 * itself, or the word with that stack's year, or the word of one stack alone and no year. A name
 * that holds no stack's word is of the stack of the project that it holds, found alike. */
const struct stack *stack_find(const struct stack_list *list, const char *name, bool divided,
                               bool *exact);
/* The same by names and words alone. */
const struct stack *stack_find_by_word(const struct stack_list *list, const char *name,
                                       bool divided, bool *exact);

/* The stack that a measured run is known to be of by its source and id ("dgxc-benchmarking
 * dgxc_v24.11.1_8b"), where one of the same backend says so, else the named one. */
const struct stack *stack_of_run(const struct stack_list *list, const struct stack *named,
                                 const char *run);

/* A stack on one GPU and precision: what the pricing needs. */
struct stack_use {
    const struct stack *stack; /* NULL: kernels as the profile has them */
    double kernel_time_factor, attention_time_factor;
    bool calibrated;       /* on this GPU family and precision */
    bool attention_stated; /* the stack's attention times hold on this GPU */
    bool attention_cudnn;  /* and are of a cuDNN: on Blackwell */
};
struct stack_use stack_on(const struct stack *stack, const char *gpu, enum precision precision);
/* What it states holds for models that write no text too: it stands for a simulator, or for the
 * place where its factors were fitted, whose diffusion models its band is of. */
bool stack_states_encoders(const struct stack_use *use);
/* It says how far off runs of models of images or video were (multimodal_band), for such as this:
 * calibrated on the GPU or not, of a model that writes text or not. */
bool stack_knows_multimodal(const struct stack *stack, bool calibrated, bool writes_text);
/* Logarithm of the factor that is usual on a GPU among stacks[0..count); 0 where nothing was
 * calibrated. */
double stack_usual_log_factor(const struct stack *const *stacks, int64_t count, const char *gpu,
                              enum precision precision);
/* Time of a kernel bound by the clock on the slowest of so many GPUs of one model, over their
 * median. */
double stack_slowest_gpu_time(int64_t gpu_count);
/* All of 16 bits and more run at one speed as far as factors go. */
bool stack_same_speed(enum precision a, enum precision b);
/* Is the hardware of the family: "h200-141g-sxm" of "h200", not of "h20". */
bool stack_gpu_is(const char *gpu, const char *family);
/* What a factor's rows leave open, as a fraction of the step: how far off it is on them, or how far
 * it lies beyond those of most stacks, whichever is more. */
double stack_factor_doubt(const struct stack_factor *factor);
/* Time of the priced operator over the price of its kernel. */
double stack_time_factor(const struct stack_use *use, const struct operator_work *work);
/* HBM traffic over the fused kernel's; 1 for operators that are not memory bound. */
double stack_traffic_factor(const struct stack *stack, const struct operator_work *work);

extern const struct field_table stack_table, stack_factor_table;

#endif
