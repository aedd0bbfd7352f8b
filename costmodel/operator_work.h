/* operator_work.h - what one operator asks of the hardware: the only thing a price depends on.
 *
 * DIP (section 6.1) characterises an operator by floating-point operations, memory bytes and
 * network bytes; here the shape travels too, because measured efficiency depends on it.
 * All quantities are those of ONE rank (after tensor and sequence parallel division).
 */
#ifndef BALLAST_COSTMODEL_OPERATOR_WORK_H
#define BALLAST_COSTMODEL_OPERATOR_WORK_H

#include <stdbool.h>
#include <stdint.h>

enum operator_kind {
    OPERATOR_MATMUL,      /* m x k times k x n, `count` of them in one call each */
    OPERATOR_ATTENTION,   /* fused attention over packed samples */
    OPERATOR_NORM,        /* layer or RMS normalisation: memory bound */
    OPERATOR_ELEMENTWISE, /* activation, residual, bias, rotary, copy, casts: memory bound */
    OPERATOR_EMBEDDING,   /* table look-up, or its scatter in backward */
    OPERATOR_LOSS,        /* softmax cross entropy over logits */
    OPERATOR_OPTIMIZER,   /* the update of this rank's share of the parameters */
    OPERATOR_ALL_REDUCE,
    OPERATOR_ALL_GATHER,
    OPERATOR_REDUCE_SCATTER,
    OPERATOR_ALL_TO_ALL,
    OPERATOR_SEND, /* point to point */
    OPERATOR_KIND_COUNT
};

enum operator_pass {
    PASS_FORWARD,
    PASS_INPUT_GRADIENT,
    PASS_WEIGHT_GRADIENT,
    PASS_BACKWARD, /* both gradients in one kernel (attention, norm, elementwise) */
    PASS_UPDATE,   /* gradient reduction, optimizer, parameter gather */
    PASS_COUNT
};

enum precision {
    PRECISION_BF16,
    PRECISION_FP16,
    PRECISION_FP8,
    PRECISION_FP4, /* NVFP4: 4-bit values, an fp8 scale for each 16 of them */
    PRECISION_FP32,
    PRECISION_TF32, /* fp32 in all but its matmuls, which tensor cores read as 19 bits */
    PRECISION_COUNT
};

/* How the operands of an fp8 matmul are scaled, by Megatron-LM's and torchao's names. Usual: as the
 * software stack does, delayed or tensorwise. */
enum fp8_recipe {
    FP8_RECIPE_USUAL,
    FP8_RECIPE_DELAYED,    /* one scale a tensor, from the maxima of steps before */
    FP8_RECIPE_TENSORWISE, /* one scale a tensor, from its own maximum ("current scaling") */
    FP8_RECIPE_ROWWISE,    /* one a row or column */
    FP8_RECIPE_BLOCKWISE,  /* one for 1 x 128 or 128 x 128 values, in software */
    FP8_RECIPE_MXFP8,      /* one for 32 values, by the tensor cores of Blackwell */
    FP8_RECIPE_COUNT
};

/* What a memory-bound operator computes, where frameworks run different kernels for it. */
enum operator_form {
    FORM_OTHER,
    FORM_STATED,        /* a copy or sum whose bytes the stack or the backend states */
    FORM_MIXED_SUM,     /* fp32 values added to 16-bit ones, which PyTorch casts one by one */
    FORM_SOFTMAX_STEPS, /* softmax in several kernels, whose bytes are counted one by one */
    FORM_LAYER_NORM,
    FORM_RMS_NORM,
    FORM_GELU,       /* either formula, as the library has it in one kernel */
    FORM_GELU_NEW,   /* the tanh written out in the model's own code (GPT-2, Phi-2, minGPT) */
    FORM_QUICK_GELU, /* x sigmoid(1.702 x) (CLIP) */
    FORM_SWIGLU,     /* SiLU of the gate, and its product with the other half */
    FORM_RELU2,
    FORM_ROTARY,
    FORM_SOFTMAX,                /* scale, mask and softmax of unfused attention */
    FORM_CAUSAL_SOFTMAX,         /* the same of scores up to the diagonal */
    FORM_DROPPED_CAUSAL_SOFTMAX, /* with dropout behind it, which a stack may do in one kernel */
    FORM_COUNT,
    FORM_FIRST_KERNEL = FORM_LAYER_NORM /* from here on a stack may state what its own moves */
};

/* Which group of ranks a collective runs in. */
enum communicator_kind {
    COMMUNICATOR_NONE,
    COMMUNICATOR_TENSOR,
    COMMUNICATOR_CONTEXT,       /* all ranks that share a sequence */
    COMMUNICATOR_CONTEXT_HEADS, /* those of them that exchange heads, where others form a ring */
    COMMUNICATOR_CONTEXT_RING,  /* those that hold the same heads */
    COMMUNICATOR_DATA,
    COMMUNICATOR_PIPELINE, /* two neighbouring stages */
    COMMUNICATOR_KIND_COUNT
};

/* Fused attention that a training names; usual: what its stack runs. */
enum attention_kernel {
    ATTENTION_KERNEL_USUAL,
    ATTENTION_KERNEL_FLASH_1, /* FlashAttention of 2022 */
    ATTENTION_KERNEL_FLASH_2, /* FlashAttention-2 */
    ATTENTION_KERNEL_FLASH_3, /* FlashAttention-3, on Hopper as fast as cuDNN's */
    ATTENTION_KERNEL_CUDNN,   /* as the profile has it, but FlashAttention-2 before Hopper */
    ATTENTION_KERNEL_MASKED,  /* PyTorch's that reads a mask from memory */
};

struct operator_work {
    const char *name; /* "qkv", "mlp up"; static text */
    enum operator_kind kind;
    enum operator_form form; /* of a memory-bound kernel; FORM_OTHER where it does not matter */
    enum operator_pass pass;
    enum precision precision;
    enum communicator_kind communicator;
    int64_t m, n, k; /* matmul; zero otherwise */
    bool unaligned;  /* matmul: an operand does not start on 16 bytes, so tensor cores stand idle */
    enum fp8_recipe recipe; /* matmul in fp8 */
    bool odd_rows;   /* matmul of one weight: rows of an operand begin on every 2 or 4 bytes */
    bool odd_batch;  /* matmul of many small ones whose rows begin on every 2 bytes */
    int64_t pieces;  /* matmul: one of so many that a kernel is cut into; 0: the whole of it */
    int64_t repeats; /* calls of it one after another, each of what stands here; 0: one */
    /* attention: sum over packed samples of length and of length squared (query x key); cross
     * attention: of queries, and of queries x keys */
    double token_sum, square_sum;
    double key_token_sum; /* cross attention: of keys; 0: every token is query and key */
    int64_t heads, kv_heads, head_dim;
    bool causal;
    bool dropout;       /* attention: of its weights, inside the kernel */
    bool deterministic; /* attention: the backward adds in a fixed order */
    enum attention_kernel attention_kernel;
    double flop; /* matmul 2mnk; attention 4 x square_sum x heads x head_dim (half if causal);
                    backward attention 2.5 x that */
    double memory_bytes;   /* HBM reads and writes */
    bool beside_attention; /* collective: the attention behind it does not wait for it */
    bool ranks_are_there;  /* collective of TP: beside another, in which they waited for the last */
    double network_bytes;  /* collectives: the full buffer as nccl-tests counts it (all-gather and
                             reduce-scatter: the gathered buffer; all-reduce: the buffer; send: the
                             message) */
};

const char *operator_kind_name(enum operator_kind kind);
const char *operator_form_name(enum operator_form form);
const char *operator_pass_name(enum operator_pass pass);
const char *precision_name(enum precision precision);
extern const char *const precision_names[]; /* in order, NULL at the end */
/* As scenarios name them, in order, NULL at the end; FP8_RECIPE_USUAL: "usual". */
extern const char *const fp8_recipe_names[];
/* Of an element, scales included: 0.5625 for fp4. */
double precision_bytes(enum precision precision);
bool precision_is_single(enum precision precision); /* fp32 in memory */
/* Matmul operands of fewer than 16 bits: everything else of a module then runs in bf16. */
static inline bool precision_is_quantised(enum precision precision) {
    return precision == PRECISION_FP8 || precision == PRECISION_FP4;
}
const char *communicator_kind_name(enum communicator_kind kind);
/* A group of context parallelism, whole or part. */
bool communicator_shares_sequence(enum communicator_kind kind);
static inline int64_t operator_calls(const struct operator_work *work) {
    return work->repeats > 1 ? work->repeats : 1;
}
/* Moves bytes between ranks (point to point counts too). */
static inline bool operator_is_collective(enum operator_kind kind) {
    return kind >= OPERATOR_ALL_REDUCE && kind <= OPERATOR_SEND;
}

/* Fills flop and memory_bytes from shape. m, n, k must be positive. A weight gradient reads and
 * writes its result in fp32 (accumulation fused into the matmul); every other result is written
 * once in the precision, that of fp4 operands in bf16. For a weight gradient k is the number of
 * tokens. */
struct operator_work operator_matmul(const char *name, enum operator_pass pass,
                                     enum precision precision, int64_t m, int64_t n, int64_t k);
/* The same where the framework adds to the kept gradient by a kernel of its own: the result of a
 * weight gradient is written once, as that of every other matmul. */
void operator_matmul_written_once(struct operator_work *weight_gradient);
struct operator_work operator_attention(const char *name, enum operator_pass pass,
                                        enum precision precision, double token_sum,
                                        double square_sum, int64_t heads, int64_t kv_heads,
                                        int64_t head_dim, bool causal);
/* Queries attend to other tokens than their own: `pair_sum` is the sum over packed samples of
 * queries x keys. Without a mask. */
struct operator_work operator_cross_attention(const char *name, enum operator_pass pass,
                                              enum precision precision, double query_token_sum,
                                              double key_token_sum, double pair_sum, int64_t heads,
                                              int64_t kv_heads, int64_t head_dim);
/* A memory-bound kernel that moves `memory_bytes`. */
struct operator_work operator_streaming(const char *name, enum operator_kind kind,
                                        enum operator_pass pass, enum precision precision,
                                        double memory_bytes);
struct operator_work operator_collective(const char *name, enum operator_kind kind,
                                         enum operator_pass pass,
                                         enum communicator_kind communicator, double network_bytes);

#endif
