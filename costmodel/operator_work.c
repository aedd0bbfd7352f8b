/* operator_work.c - flop and HBM bytes of an operator from its shape.
 *
 * Matmul (m x k) (k x n):  flop = 2 m n k;  bytes = s (m k + k n + m n) with s bytes an element.
 *   A weight gradient is accumulated into an fp32 buffer in the same kernel (Megatron-LM's gradient
 *   accumulation fusion), so its result costs a read and a write of 4 bytes: 8 m n instead of s m
 * n. Attention, fused (FlashAttention-2, arXiv 2307.08691): scores never reach HBM. forward:  flop
 * = 4 heads head_dim sum(length^2), half of it under a causal mask; bytes: read q k v, write o, and
 * the fp32 log-sum-exp of each query and head. backward: 2.5 x flop (five matmuls for two); reads q
 * k v o do and the log-sum-exp, writes dq dk dv. The fp32 partial sums of dq stay in L2 for the
 * lengths of training and are not counted. All other operators state their bytes themselves.
 */
#include "costmodel/operator_work.h"

#include <assert.h>
#include <stddef.h>
#include "sim/base/error.h"

#define FP32_BYTES 4.0

static const char *const kind_names[] = {
    [OPERATOR_MATMUL] = "matmul",
    [OPERATOR_ATTENTION] = "attention",
    [OPERATOR_NORM] = "norm",
    [OPERATOR_ELEMENTWISE] = "elementwise",
    [OPERATOR_EMBEDDING] = "embedding",
    [OPERATOR_LOSS] = "loss",
    [OPERATOR_OPTIMIZER] = "optimizer",
    [OPERATOR_ALL_REDUCE] = "all-reduce",
    [OPERATOR_ALL_GATHER] = "all-gather",
    [OPERATOR_REDUCE_SCATTER] = "reduce-scatter",
    [OPERATOR_ALL_TO_ALL] = "all-to-all",
    [OPERATOR_SEND] = "send",
};
static_assert(sizeof kind_names / sizeof kind_names[0] == OPERATOR_KIND_COUNT, "a name per kind");

static const char *const form_names[] = {
    [FORM_OTHER] = "other",
    [FORM_STATED] = "stated",
    [FORM_MIXED_SUM] = "mixed-sum",
    [FORM_SOFTMAX_STEPS] = "softmax-steps",
    [FORM_LAYER_NORM] = "layer-norm",
    [FORM_RMS_NORM] = "rms-norm",
    [FORM_GELU] = "gelu",
    [FORM_GELU_NEW] = "gelu-new",
    [FORM_QUICK_GELU] = "quick-gelu",
    [FORM_SWIGLU] = "swiglu",
    [FORM_RELU2] = "relu2",
    [FORM_ROTARY] = "rotary",
    [FORM_SOFTMAX] = "softmax",
    [FORM_CAUSAL_SOFTMAX] = "causal-softmax",
    [FORM_DROPPED_CAUSAL_SOFTMAX] = "dropped-causal-softmax",
};
static_assert(sizeof form_names / sizeof form_names[0] == FORM_COUNT, "a name per form");

static const char *const pass_names[] = {
    [PASS_FORWARD] = "forward",
    [PASS_INPUT_GRADIENT] = "input gradient",
    [PASS_WEIGHT_GRADIENT] = "weight gradient",
    [PASS_BACKWARD] = "backward",
    [PASS_UPDATE] = "update",
};
static_assert(sizeof pass_names / sizeof pass_names[0] == PASS_COUNT, "a name per pass");

const char *const precision_names[] = {
    [PRECISION_BF16] = "bf16",
    [PRECISION_FP16] = "fp16",
    [PRECISION_FP8] = "fp8",
    [PRECISION_FP4] = "fp4",
    [PRECISION_FP32] = "fp32",
    [PRECISION_TF32] = "tf32",
    NULL,
};
static_assert(sizeof precision_names / sizeof precision_names[0] == PRECISION_COUNT + 1,
              "a name per precision");
static const double bytes_of_precision[] = {
    [PRECISION_BF16] = 2, [PRECISION_FP16] = 2,
    [PRECISION_FP8] = 1,  [PRECISION_FP4] = 0.5 + 1.0 / 16,
    [PRECISION_FP32] = 4, [PRECISION_TF32] = 4,
};
static_assert(sizeof bytes_of_precision / sizeof bytes_of_precision[0] == PRECISION_COUNT,
              "bytes per precision");

const char *const fp8_recipe_names[] = {
    [FP8_RECIPE_USUAL] = "usual",
    [FP8_RECIPE_DELAYED] = "delayed",
    [FP8_RECIPE_TENSORWISE] = "tensorwise",
    [FP8_RECIPE_ROWWISE] = "rowwise",
    [FP8_RECIPE_BLOCKWISE] = "blockwise",
    [FP8_RECIPE_MXFP8] = "mxfp8",
    [FP8_RECIPE_COUNT] = NULL,
};

static const char *const communicator_names[] = {
    [COMMUNICATOR_NONE] = "none",
    [COMMUNICATOR_TENSOR] = "tensor",
    [COMMUNICATOR_CONTEXT] = "context",
    [COMMUNICATOR_CONTEXT_HEADS] = "context heads",
    [COMMUNICATOR_CONTEXT_RING] = "context ring",
    [COMMUNICATOR_DATA] = "data",
    [COMMUNICATOR_PIPELINE] = "pipeline",
};
static_assert(sizeof communicator_names / sizeof communicator_names[0] == COMMUNICATOR_KIND_COUNT,
              "a name per communicator");

const char *operator_kind_name(enum operator_kind kind) {
    ballast_check((unsigned)kind < OPERATOR_KIND_COUNT);
    return kind_names[kind];
}

const char *operator_form_name(enum operator_form form) {
    ballast_check(form < FORM_COUNT);
    return form_names[form];
}

const char *operator_pass_name(enum operator_pass pass) {
    ballast_check((unsigned)pass < PASS_COUNT);
    return pass_names[pass];
}

const char *precision_name(enum precision precision) {
    ballast_check((unsigned)precision < PRECISION_COUNT);
    return precision_names[precision];
}

bool precision_is_single(enum precision precision) {
    return precision == PRECISION_FP32 || precision == PRECISION_TF32;
}

double precision_bytes(enum precision precision) {
    ballast_check((unsigned)precision < PRECISION_COUNT);
    return bytes_of_precision[precision];
}

bool communicator_shares_sequence(enum communicator_kind kind) {
    return kind == COMMUNICATOR_CONTEXT || kind == COMMUNICATOR_CONTEXT_HEADS ||
           kind == COMMUNICATOR_CONTEXT_RING;
}

const char *communicator_kind_name(enum communicator_kind kind) {
    ballast_check((unsigned)kind < COMMUNICATOR_KIND_COUNT);
    return communicator_names[kind];
}

static double written_bytes(enum precision precision) {
    return precision_bytes(precision_is_quantised(precision) ? PRECISION_BF16 : precision);
}

struct operator_work operator_matmul(const char *name, enum operator_pass pass,
                                     enum precision precision, int64_t m, int64_t n, int64_t k) {
    ballast_check(m > 0 && n > 0 && k > 0);
    const double rows = (double)m, columns = (double)n, depth = (double)k;
    const double element_bytes = precision_bytes(precision);
    const double result_bytes =
        pass == PASS_WEIGHT_GRADIENT ? 2 * FP32_BYTES : written_bytes(precision);
    return (struct operator_work){
        .name = name,
        .kind = OPERATOR_MATMUL,
        .pass = pass,
        .precision = precision,
        .m = m,
        .n = n,
        .k = k,
        .flop = 2 * rows * columns * depth,
        .memory_bytes = element_bytes * depth * (rows + columns) + result_bytes * rows * columns,
    };
}

void operator_matmul_written_once(struct operator_work *weight_gradient) {
    ballast_check(weight_gradient->pass == PASS_WEIGHT_GRADIENT);
    weight_gradient->memory_bytes -= (2 * FP32_BYTES - written_bytes(weight_gradient->precision)) *
                                     (double)weight_gradient->m * (double)weight_gradient->n;
}

struct operator_work operator_attention(const char *name, enum operator_pass pass,
                                        enum precision precision, double token_sum,
                                        double square_sum, int64_t heads, int64_t kv_heads,
                                        int64_t head_dim, bool causal) {
    ballast_check(token_sum >= 0 && square_sum >= 0);
    ballast_check(heads > 0 && kv_heads > 0 && head_dim > 0);
    const bool backward = pass != PASS_FORWARD;
    const double element_bytes = precision_bytes(precision);
    const double query_bytes = element_bytes * token_sum * (double)(heads * head_dim);
    const double key_bytes = element_bytes * token_sum * (double)(kv_heads * head_dim);
    const double log_sum_bytes = FP32_BYTES * token_sum * (double)heads;
    const double forward_flop =
        4 * square_sum * (double)heads * (double)head_dim * (causal ? 0.5 : 1);
    return (struct operator_work){
        .name = name,
        .kind = OPERATOR_ATTENTION,
        .pass = pass,
        .precision = precision,
        .token_sum = token_sum,
        .square_sum = square_sum,
        .heads = heads,
        .kv_heads = kv_heads,
        .head_dim = head_dim,
        .causal = causal,
        .flop = backward ? 2.5 * forward_flop : forward_flop,
        .memory_bytes = backward ? 4 * query_bytes + 4 * key_bytes + log_sum_bytes
                                 : 2 * query_bytes + 2 * key_bytes + log_sum_bytes,
    };
}

struct operator_work operator_cross_attention(const char *name, enum operator_pass pass,
                                              enum precision precision, double query_token_sum,
                                              double key_token_sum, double pair_sum, int64_t heads,
                                              int64_t kv_heads, int64_t head_dim) {
    ballast_check(key_token_sum >= 0);
    struct operator_work work = operator_attention(name, pass, precision, query_token_sum, pair_sum,
                                                   heads, kv_heads, head_dim, false);
    work.key_token_sum = key_token_sum;
    const double key_columns = (double)precision_bytes(precision) * (double)(kv_heads * head_dim);
    /* keys and values, or also their gradients: those of other tokens instead of their own */
    work.memory_bytes +=
        (pass == PASS_FORWARD ? 2 : 4) * key_columns * (key_token_sum - query_token_sum);
    return work;
}

struct operator_work operator_streaming(const char *name, enum operator_kind kind,
                                        enum operator_pass pass, enum precision precision,
                                        double memory_bytes) {
    ballast_check(kind >= OPERATOR_NORM && kind <= OPERATOR_OPTIMIZER);
    ballast_check(memory_bytes >= 0);
    return (struct operator_work){
        .name = name,
        .kind = kind,
        .pass = pass,
        .precision = precision,
        .memory_bytes = memory_bytes,
    };
}

struct operator_work operator_collective(const char *name, enum operator_kind kind,
                                         enum operator_pass pass,
                                         enum communicator_kind communicator,
                                         double network_bytes) {
    ballast_check(operator_is_collective(kind));
    ballast_check(network_bytes >= 0);
    return (struct operator_work){
        .name = name,
        .kind = kind,
        .pass = pass,
        .communicator = communicator,
        .network_bytes = network_bytes,
    };
}
