/* backend.c - the table of backends and optimizers. */
#include "sim/layout/backend.h"

#include <assert.h>
#include <math.h>
#include <stddef.h>
#include <string.h>
#include "sim/base/units.h"

/* What PyTorch's caching allocator reserves beyond what is allocated: the one public run that logs
 * both (nanotron Llama 1B, TP2 PP4 on 8 H100: 23,018 against 22,493 MiB). Its shapes are fixed;
 * varying shapes fragment more, by how much is not known here. */
#define RESERVED_FRACTION 0.023
/* Four A100 on NVLink: each process group of three or four GPUs that ran an all-reduce took 688 MiB
 * of the card, one of two 544 (NVIDIA/nccl issue 964, 2023). */
#define COMMUNICATOR_BYTES (688.0 * BYTES_PER_MiB)
/* Where gradients are made and kept in fp32: one read, the other read and written, no cast. */
#define FP32_ACCUMULATE_BYTES 12
#define USUAL                                                                                      \
    .fp32_accumulate_bytes_moved = FP32_ACCUMULATE_BYTES,                                          \
    .step = { .gather_time = 1,                                                                    \
              .kept_activations = 1,                                                               \
              .logit_bytes = NAN,                                                                  \
              .divided_logit_bytes = NAN,                                                          \
              .reserved_fraction = RESERVED_FRACTION,                                              \
              .communicator_bytes = COMMUNICATOR_BYTES,                                            \
              .context_bytes = NAN }

/* Megatron-DeepSpeed: DeepSpeed's PipelineModule (OmniBal's backend). Its p2p calls are ordered on
 * the compute stream and divided over TP ranks (is_pipe_partitioned of runtime/pipe/engine.py), its
 * bf16 optimizer accumulates and reduces gradients in fp32; in fp16 autograd adds to a parameter's
 * own gradient (read, read, written) and that is reduced (runtime/engine.py: fp32_allreduce off,
 * communication_data_type unset). Megatron-LM: isend/irecv beside compute
 * with the default fp32 main-gradient buffer. */
/* DeepSpeed ZeRO without pipeline: gradients and their traffic in bf16 (communication_data_type of
 * its bf16 engine). FSDP: parameters gathered in bf16, gradients reduced in fp32 (reduce_dtype of
 * the usual mixed-precision policy; torchtitan, FSDP2 documentation); a block's gradients are whole
 * in bf16 before they are copied into the reduce-scatter's input, which lives until the next
 * block's (torch.distributed.fsdp, foreach_reduce); zero_grad frees them (set_to_none, the default
 * since PyTorch 2.0). */
static const struct backend backends[] = {
    { .name = "deepspeed",
      .help = "DeepSpeed ZeRO-0 to 3 without a pipeline",
      .usual_stack = "hf-deepspeed",
      .usual_zero_stage = 1,
      .send_blocks_compute = true,
      .gradient_bytes = 4,
      .gradient_reduce_bytes = 2,
      .zero1_all_reduce = false,
      USUAL },
    { .name = "fsdp",
      .help = "PyTorch FSDP: zero_stage 3 is full sharding, 2 keeps parameters gathered",
      .usual_stack = "pytorch-fsdp2",
      .usual_zero_stage = 3,                /* fully_shard has no ZeRO-1 */
      .gathers_once_beside_pipeline = true, /* torch/distributed/pipelining/stage.py */
      .send_blocks_compute = false,
      .gradient_bytes = 4,
      .gradient_reduce_bytes = 4,
      .zero1_all_reduce = false,
      .frees_gradients = true,
      .gradient_buckets = true,
      .unit_gradients = true,
      USUAL },
    { .name = "megatron-deepspeed",
      .help = "TP with sequence parallel, DeepSpeed 1F1B pipeline, ZeRO-0 or 1",
      .usual_stack = "easyllm",
      .usual_zero_stage = 1,
      .send_blocks_compute = true,
      .divides_sends = true,
      .gradient_bytes = 4,
      .gradient_reduce_bytes = 4,
      .accumulate_bytes_moved = 10,
      .fp16_gradient_reduce_bytes = 2,
      .fp16_accumulate_bytes_moved = 6,
      .zero1_all_reduce = true,
      USUAL },
    { .name = "megatron-lm",
      .help = "Megatron-core pipeline, distributed optimizer as ZeRO-1",
      .usual_stack = "megatron-core",
      .usual_zero_stage = 1,
      .send_blocks_compute = false,
      .gradient_bytes = 4,
      .gradient_reduce_bytes = 4,
      .adds_in_matmul = true,
      .zero1_all_reduce = false,
      USUAL },
};
const char *const backend_names[] = { "deepspeed", "fsdp", "megatron-deepspeed", "megatron-lm",
                                      NULL };

/* AdamW: fp32 master weight, first and second moment. One fused update reads gradient (4), master
 * (4), moments (8), writes master (4), moments (8) and the bf16 weight (2): 30 bytes. */
static const struct optimizer optimizers[] = {
    { "adamw", "fp32 master weights and two moments", 12, 30, false },
    { "sgd-momentum", "fp32 master weights and one moment", 8, 22, false },
    { "muon", "matrices of blocks by Muon, all else by adamw", 12, 30, true },
};
const char *const optimizer_names[] = { "adamw", "sgd-momentum", "muon", NULL };

const struct backend *backend_at(int index) {
    return &backends[index];
}

int backend_index(const char *name) {
    for (int i = 0; backend_names[i] != NULL; i++)
        if (strcmp(backend_names[i], name) == 0) return i;
    return -1;
}

int64_t backend_usual_zero_stage(const char *name, int64_t pp) {
    const int index = backend_index(name);
    if (index < 0) return 1;
    const struct backend *backend = &backends[index];
    return pp > 1 && !backend->gathers_once_beside_pipeline ? 1 : backend->usual_zero_stage;
}

bool backend_always_hides(const struct backend *backend, int64_t zero_stage) {
    return zero_stage >= 3 || (zero_stage == 2 && backend->unit_gradients);
}

const struct optimizer *optimizer_at(int index) {
    return &optimizers[index];
}

int optimizer_index(const char *name) {
    for (int i = 0; optimizer_names[i] != NULL; i++)
        if (strcmp(optimizer_names[i], name) == 0) return i;
    return -1;
}

static void take(double *figure, double stated) {
    if (!isnan(stated)) *figure = stated;
}

void backend_use_stack(struct backend *b, const struct stack *stack, enum precision precision,
                       bool hooks, int64_t tp, bool interleaved) {
    const double hooks_s = hooks && backend_is_of_stack(b, stack) ? stack->host_sharded_s : 0;
    take(&b->gradient_bytes, stack->gradient_bytes);
    take(&b->gradient_reduce_bytes, stack->gradient_reduce_bytes);
    if (precision == PRECISION_FP8) {
        take(&b->gradient_bytes, stack->fp8_gradient_bytes);
        take(&b->gradient_reduce_bytes, stack->fp8_gradient_bytes);
    }
    if (precision == PRECISION_FP16) {
        if (b->fp16_gradient_reduce_bytes > 0)
            b->gradient_reduce_bytes = b->fp16_gradient_reduce_bytes;
        take(&b->gradient_bytes, stack->fp16_gradient_bytes);
        take(&b->gradient_reduce_bytes, stack->fp16_gradient_bytes);
        take(&b->gradient_reduce_bytes, stack->fp16_gradient_reduce_bytes);
    }
    take(&b->accumulate_bytes_moved, stack->accumulate_bytes_moved);
    if (precision == PRECISION_FP16) {
        if (b->fp16_accumulate_bytes_moved > 0)
            b->accumulate_bytes_moved = b->fp16_accumulate_bytes_moved;
        take(&b->accumulate_bytes_moved, stack->fp16_accumulate_bytes_moved);
    }
    take(&b->fp32_accumulate_bytes_moved, stack->fp32_accumulate_bytes_moved);
    /* Megatron-core's own FSDP zeroes buffers that stay (param_and_grad_buffer.py, zero_grad). */
    if (stack->backend != NULL && strncmp(stack->backend, "megatron", 8) == 0)
        b->frees_gradients = b->gradient_buckets = false;
    b->gradient_buckets &= stack->gradient_buckets;
    b->fp8_gather_saves = isnan(stack->fp8_gather_bytes) ? 0 : 2 - stack->fp8_gather_bytes;
    b->no_master_weights = !stack->master_weights;
    b->block = stack->block;
    if (stack->block.tensor_traffic != TENSOR_BESIDE) b->block.keeps |= KEEPS_GATHERED_INPUTS;
    b->step = stack->step;
    b->step.reduces_once &= strcmp(b->name, "fsdp") == 0; /* DeepSpeed's have no no_sync */
    /* Megatron-LM's optimizers copy gradients to fp32 first (optimizer.py,
     * _copy_model_grads_to_main_grads; distrib_optimizer.py). */
    if (precision == PRECISION_FP16 && strcmp(b->name, "megatron-lm") == 0 && b->gradient_bytes < 4)
        b->step.update_bytes = fmax(b->step.update_bytes, 4);
    b->step.host_forward_s += hooks_s;
    b->step.host_backward_s += hooks_s;
    b->step.host_frozen_s = fmin(stack->step.host_frozen_s, stack->step.host_backward_s);
    if (precision_is_quantised(precision)) b->step.host_forward_s += stack->host_fp8_s;
    if (tp > 1) {
        b->step.host_forward_s += stack->host_divided_forward_s;
        b->step.host_backward_s += stack->host_divided_backward_s;
    }
    b->divides_sends |= stack->divides_sends;
    b->send_blocks_host =
        stack->waits_for_sends && !(stack->overlaps_interleaved_sends && interleaved);
    b->send_blocks_compute |= b->send_blocks_host;
    /* Megatron-LM's schedules.py had that case until it counted passes by get_pp_rank_microbatches
     * (2025); PyTorch's pipelines never had it. */
    b->fills_one_round =
        strncmp(b->name, "megatron", 8) == 0 && stack->year > 0 && stack->year <= 2024;
}

void backend_use_fp32(struct backend *b) {
    b->gradient_bytes = fmax(b->gradient_bytes, 4);
    b->gradient_reduce_bytes = fmax(b->gradient_reduce_bytes, 4);
    if (b->accumulate_bytes_moved > 0) b->accumulate_bytes_moved = b->fp32_accumulate_bytes_moved;
}

void optimizer_use_stack(struct optimizer *optimizer, const struct stack *stack,
                         enum precision precision) {
    take(&optimizer->state_bytes, stack->state_bytes);
    /* The price has the traffic of bf16 in it (stack_traffic_factor). */
    if (precision == PRECISION_FP16)
        optimizer->update_bytes_moved *= stack->fp16_optimizer_traffic / stack->optimizer_traffic;
}

const char *const state_type_names[] = { "fp32", "bf16", "fp16", "fp8", NULL };
static_assert(sizeof state_type_names / sizeof state_type_names[0] == STATE_TYPE_COUNT + 1,
              "a name per type");

/* Transformer Engine's FusedAdam (pytorch/optimizers/fused_adam.py, step) computes in fp32: states
 * of another type are copied to fp32, updated (8 bytes read and written), and scaled or cast back,
 * all of a group of parameters at once. bf16: cast 6, and back by way of a copy 10. fp16: cast 6,
 * scaled 8, its range 4, scaled 8, cast back 6. fp8: cast 5, its range 4, cast back 5. */
static const struct {
    double bytes, bytes_moved, copy_bytes;
} state_types[STATE_TYPE_COUNT] = {
    [STATE_FP32] = { 4, 8, 0 },
    [STATE_BF16] = { 2, 24, 4 },
    [STATE_FP16] = { 2, 40, 4 },
    [STATE_FP8] = { 1, 22, 4 },
};

const char *const reduce_type_names[] = { "usual", "fp32", "bf16", NULL };
static_assert(sizeof reduce_type_names / sizeof reduce_type_names[0] == REDUCE_TYPE_COUNT + 1,
              "one name for each way");

const char *const gradient_sync_names[] = { "usual", "each", "last", NULL };
static_assert(sizeof gradient_sync_names / sizeof gradient_sync_names[0] == GRADIENT_SYNC_COUNT + 1,
              "one name for each way");

/* Megatron-LM's buffers of gradients are of the type that they are reduced in
 * (distributed_data_parallel.py, grad_reduce_in_fp32), and its optimizer copies those of bf16 to
 * fp32 first (distrib_optimizer.py): 6 bytes a parameter moved, 4 held. A stack whose own are bf16
 * keeps the price of that copy. FSDP casts whole gradients of bf16 to that type while it copies them
 * together (_fsdp_collectives.py, foreach_reduce_scatter_copy_in). */
void backend_reduce_in(struct backend *b, struct optimizer *o, const struct stack *stack,
                       enum reduce_type type) {
    if (type == REDUCE_USUAL) return;
    const double bytes = type == REDUCE_FP32 ? 4 : 2;
    if (strcmp(b->name, "megatron-lm") == 0) {
        if (bytes < b->gradient_bytes) {
            o->update_bytes_moved += 6 / (stack != NULL ? stack->optimizer_traffic : 1);
            b->step.update_bytes += 4;
        } else if (bytes > b->gradient_bytes)
            b->step.update_bytes = fmax(b->step.update_bytes - 4, 0);
        if (b->accumulate_bytes_moved > 0)
            b->accumulate_bytes_moved += 2 * (bytes - b->gradient_bytes);
        b->gradient_bytes = bytes;
    }
    if (b->step.reduce_copy_bytes > 0)
        b->step.reduce_copy_bytes += bytes - b->gradient_reduce_bytes;
    b->gradient_reduce_bytes = bytes;
}

const char *const adamw_kernels_names[] = { "usual", "fused", "foreach", NULL };

enum adamw_kernels backend_adamw_kernels(const struct stack *stack) {
    if (stack == NULL) return ADAMW_KERNELS_FUSED;
    switch ((enum stack_adamw)stack->adamw) {
    case ADAMW_FUSED:
        return ADAMW_KERNELS_FUSED;
    case ADAMW_FOREACH:
        return ADAMW_KERNELS_FOREACH;
    case ADAMW_OTHER:
        break;
    }
    return ADAMW_KERNELS_USUAL;
}

/* torch/optim/adamw.py: fused reads weight, gradient and moments and writes weight and moments;
 * _multi_tensor_adamw moves 80 bytes in kernels for the decay, both moments, the root, its
 * corrections and the update, and holds the root of all second moments. Of weights, gradients and
 * moments in bf16 half. */
void optimizer_use_adamw_kernels(struct optimizer *o, struct backend *b, const struct stack *stack,
                                 enum adamw_kernels kernels) {
    const double fused_bytes = 28, foreach_bytes = 80, root_bytes = 4;
    const enum adamw_kernels own = backend_adamw_kernels(stack);
    if (kernels == ADAMW_KERNELS_USUAL || kernels == own) return;
    const double share = b->no_master_weights ? 0.5 : 1,
                 traffic = stack != NULL ? stack->optimizer_traffic : 1;
    const bool foreach = kernels == ADAMW_KERNELS_FOREACH;
    const double from = share * (foreach ? fused_bytes : foreach_bytes),
                 to = share * (foreach ? foreach_bytes : fused_bytes);
    o->update_bytes_moved = (fmax(o->update_bytes_moved * traffic - from, 0) + to) / traffic;
    b->step.update_bytes = foreach ? share * root_bytes : 0;
}

/* NVIDIA/Megatron-LM megatron/core/optimizer: optimizer_config.py, distrib_optimizer.py. The update
 * reads gradients where they were reduced and writes the model's bf16 weights by itself; their
 * other 16 bits stand for the fp32 copy (store_param_remainders). With fp8 recipes other than
 * delayed scaling gradients are cast and weights copied as without it, around moments of these
 * types (use_precision_aware_optimizer_no_fp8_or_ds_fp8). The norm reads gradients once, clipping
 * reads and writes them. main_grads_dtype bf16 goes with reductions in bf16
 * (training/arguments.py). */
void optimizer_use_precision_aware(struct optimizer *o, struct backend *b,
                                   const struct stack *stack, const struct precision_aware *how) {
    const bool bf16_weights = how->precision != PRECISION_FP16 && how->precision != PRECISION_FP32;
    const bool apart = how->fp32_weights_apart, remainders = bf16_weights && !apart;
    if (how->bf16_gradients) b->gradient_bytes = b->gradient_reduce_bytes = 2;
    b->step.update_bytes = 0; /* it reads gradients where they were reduced, or copies them below */
    const double gradient = apart ? 4 : b->gradient_bytes,
                 cast = apart && b->gradient_bytes < 4 ? b->gradient_bytes + 4 : 0,
                 weights = apart                              ? 8 + 6
                           : how->precision == PRECISION_FP32 ? 8
                           : remainders                       ? 4 + 4
                                                              : 8 + 2;
    /* fp16 is unscaled and looked through for infinities before the norm. */
    const double unscaled = how->precision == PRECISION_FP16 ? 2 * gradient : 0;
    const double moved = cast + unscaled + 4 * gradient + weights +
                         state_types[how->exp_avg].bytes_moved +
                         state_types[how->exp_avg_sq].bytes_moved;
    o->state_bytes =
        (remainders ? 2 : 4) + state_types[how->exp_avg].bytes + state_types[how->exp_avg_sq].bytes;
    b->step.update_bytes += state_types[how->exp_avg].copy_bytes +
                            state_types[how->exp_avg_sq].copy_bytes + (cast > 0 ? 4 : 0);
    /* The price has the stack's traffic in it (stack_traffic_factor). */
    o->update_bytes_moved = moved / (stack != NULL ? stack->optimizer_traffic : 1);
}

bool backend_is_of_stack(const struct backend *backend, const struct stack *stack) {
    return strcmp(backend->name, stack->backend) == 0 ||
           (strstr(backend->name, "deepspeed") != NULL &&
            strstr(stack->backend, "deepspeed") != NULL);
}
