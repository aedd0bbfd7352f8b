/* backend.h - what a training framework does around the model: one row per backend.
 *
 * Figures are properties of the framework, each with its source in backend.c; none is fitted.
 */
#ifndef BALLAST_SIM_LAYOUT_BACKEND_H
#define BALLAST_SIM_LAYOUT_BACKEND_H

#include <stdbool.h>
#include <stdint.h>
#include "costmodel/stack.h"

struct backend {
    const char *name;
    const char *help;
    const char *usual_stack;  /* of scenarios/stacks: what prices a scenario that names none */
    bool send_blocks_compute; /* a stage computes nothing while it sends */
    bool fills_one_round;     /* see struct schedule_place */
    bool divides_sends; /* without sequence parallelism TP ranks send shares, put together again */
    double gradient_bytes;        /* per parameter, as held between micro-batches */
    double gradient_reduce_bytes; /* per parameter, as reduced over data-parallel ranks */
    /* HBM bytes per trainable parameter that each micro-batch moves to add its gradient to the kept
     * one; 0 where the weight-gradient matmul adds in place, or else autograd as usual. */
    double accumulate_bytes_moved;
    bool adds_in_matmul; /* unless it moves such bytes (Megatron-LM's accumulation fusion) */
    double fp16_gradient_reduce_bytes, fp16_accumulate_bytes_moved; /* 0: as with bf16 */
    double fp32_accumulate_bytes_moved; /* in place of such bytes where all is fp32 */
    /* ZeRO-2 and 3 go with a pipeline: what was gathered stays until the last backward, in which
     * alone gradients are reduced. */
    bool gathers_once_beside_pipeline;
    bool gathers_once; /* and there is one: simulated as ZeRO-1, which has no shares of weights */
    int64_t usual_zero_stage; /* see backend_usual_zero_stage() */
    bool zero1_all_reduce;    /* ZeRO-1 reduces whole gradients on every rank, not shards */
    bool frees_gradients;     /* the update leaves none: they come anew with the next backward */
    bool gradient_buckets;    /* ranks that hold all states reduce copies of their gradients */
    bool unit_gradients; /* ZeRO-3 reduces each block's whole gradient from a buffer of its own */
    struct stack_block block; /* as the stack runs one */
    struct stack_step step;   /* the same, its host times of this layout and precision */
    bool no_master_weights;
    double fp8_gather_saves; /* of the 2 bytes that a gathered parameter of a block has */
    double host_kernel_s;    /* one more kernel from Python */
    bool blocking_launches;  /* it waits for each kernel before it launches the next */
    bool send_blocks_host;   /* it launches nothing while the device still works on what was sent */
};

extern const char *const backend_names[]; /* in table order, NULL at the end */
const struct backend *backend_at(int index);
int backend_index(const char *name); /* -1: no backend has this name */
/* What is sharded where nobody says it: ZeRO-1 with a pipeline of a backend that has no other
 * beside one, and for a name of no backend. */
int64_t backend_usual_zero_stage(const char *name, int64_t pp);
/* What no switch changes: ZeRO-3, and FSDP as ZeRO-2, reduce as the backward goes and gather ahead of
 * the blocks. DeepSpeed's ZeRO-2 reduces so with overlap_comm alone (stage_1_and_2.py,
 * average_tensor). */
bool backend_always_hides(const struct backend *backend, int64_t zero_stage);
/* What the stack states takes the place of the backend's own figure; `precision` of the matmuls,
 * `hooks`: ZeRO-3's run on each module, `interleaved`: parts of the model take turns on each stage. */
void backend_use_stack(struct backend *backend, const struct stack *stack, enum precision precision,
                       bool hooks, int64_t tp, bool interleaved);
/* A training in fp32 makes, keeps and reduces gradients in fp32, whatever a recipe of bf16 does. */
void backend_use_fp32(struct backend *backend);

/* The stack's runs were of this backend, or of another built on the same framework. */
bool backend_is_of_stack(const struct backend *backend, const struct stack *stack);

struct optimizer {
    const char *name;
    const char *help;
    double state_bytes;        /* per trainable parameter, fp32 master copy included */
    double update_bytes_moved; /* HBM traffic of one update, per parameter of the rank's share */
    bool orthogonalises;       /* Muon: both are of what it leaves to AdamW (sim/step/muon.h) */
};

extern const char *const optimizer_names[];
const struct optimizer *optimizer_at(int index);
int optimizer_index(const char *name); /* -1: no optimizer has this name */
void optimizer_use_stack(struct optimizer *optimizer, const struct stack *stack,
                         enum precision precision);

/* Megatron-core's precision-aware optimizer: what it keeps its tensors in. */
enum state_type { STATE_FP32, STATE_BF16, STATE_FP16, STATE_FP8, STATE_TYPE_COUNT };
extern const char *const state_type_names[]; /* in order, NULL at the end */

/* What gradients are reduced in over data-parallel ranks; usual: as backend and stack have it. */
enum reduce_type { REDUCE_USUAL, REDUCE_FP32, REDUCE_BF16, REDUCE_TYPE_COUNT };
extern const char *const reduce_type_names[]; /* in order, NULL at the end */
/* bf16: of training in bf16, fp8 or fp4. Before optimizer_use_precision_aware. */
void backend_reduce_in(struct backend *b, struct optimizer *o, const struct stack *stack,
                       enum reduce_type type);
/* When sharded gradients are reduced, of micro-batches that accumulate: behind the backward of each,
 * or once a step, whole until then (PyTorch's no_sync); usual: as the stack has it. */
enum gradient_sync {
    GRADIENT_SYNC_USUAL,
    GRADIENT_SYNC_EACH,
    GRADIENT_SYNC_LAST,
    GRADIENT_SYNC_COUNT
};
extern const char *const gradient_sync_names[]; /* in order, NULL at the end */
/* How torch.optim.AdamW runs: one kernel for all tensors (fused) or one an operation (foreach). */
enum adamw_kernels { ADAMW_KERNELS_USUAL, ADAMW_KERNELS_FUSED, ADAMW_KERNELS_FOREACH };
extern const char *const adamw_kernels_names[]; /* in order, NULL at the end */
/* What it runs by itself; usual where it is not PyTorch's. `stack` NULL: fused. */
enum adamw_kernels backend_adamw_kernels(const struct stack *stack);
/* After the stack's own figures, of one that runs PyTorch's; what it moves besides (its norm and
 * clipping) stays. */
void optimizer_use_adamw_kernels(struct optimizer *optimizer, struct backend *backend,
                                 const struct stack *stack, enum adamw_kernels kernels);
struct precision_aware {
    enum state_type exp_avg, exp_avg_sq;
    bool bf16_gradients;
    enum precision precision; /* of the matmuls */
    bool fp32_weights_apart;  /* fp8 recipes that scale operands in the step itself */
};
/* After the stack's own figures; `stack` NULL: none. */
void optimizer_use_precision_aware(struct optimizer *optimizer, struct backend *backend,
                                   const struct stack *stack, const struct precision_aware *how);

#endif
