/* backend.c - the table of backends and optimizers. */
#include "sim/layout/backend.h"

#include <stddef.h>

/* Megatron-DeepSpeed: DeepSpeed's PipelineModule (OmniBal's backend). Its p2p calls are ordered on
 * the compute stream, its bf16 optimizer accumulates and reduces gradients in fp32. Megatron-LM:
 * isend/irecv beside compute with the default fp32 main-gradient buffer. */
/* DeepSpeed ZeRO without pipeline: gradients and their traffic in bf16 (communication_data_type of its
 * bf16 engine). FSDP: parameters gathered in bf16, gradients reduced in fp32 (reduce_dtype of the
 * usual mixed-precision policy; torchtitan, FSDP2 documentation). */
static const struct backend backends[] = {
    { .name = "deepspeed",
      .help = "DeepSpeed ZeRO-0 to 3 without a pipeline",
      .send_blocks_compute = true,
      .gradient_bytes = 4,
      .gradient_reduce_bytes = 2,
      .zero1_all_reduce = false },
    { .name = "fsdp",
      .help = "PyTorch FSDP: zero_stage 3 is full sharding, 2 keeps parameters gathered",
      .send_blocks_compute = false,
      .gradient_bytes = 4,
      .gradient_reduce_bytes = 4,
      .zero1_all_reduce = false },
    { .name = "megatron-deepspeed",
      .help = "TP with sequence parallel, DeepSpeed 1F1B pipeline, ZeRO-0 or 1",
      .send_blocks_compute = true,
      .gradient_bytes = 4,
      .gradient_reduce_bytes = 4,
      .accumulate_bytes_moved = 10,
      .zero1_all_reduce = true },
    { .name = "megatron-lm",
      .help = "Megatron-core pipeline, distributed optimizer as ZeRO-1",
      .send_blocks_compute = false,
      .gradient_bytes = 4,
      .gradient_reduce_bytes = 4,
      .zero1_all_reduce = false },
};
const char *const backend_names[] = { "deepspeed", "fsdp", "megatron-deepspeed", "megatron-lm",
                                      NULL };

/* AdamW: fp32 master weight, first and second moment. One fused update reads gradient (4), master
 * (4), moments (8), writes master (4), moments (8) and the bf16 weight (2): 30 bytes. */
static const struct optimizer optimizers[] = {
    { "adamw", "fp32 master weights and two moments", 12, 30 },
    { "sgd-momentum", "fp32 master weights and one moment", 8, 22 },
};
const char *const optimizer_names[] = { "adamw", "sgd-momentum", NULL };

const struct backend *backend_at(int index) {
    return &backends[index];
}

const struct optimizer *optimizer_at(int index) {
    return &optimizers[index];
}
