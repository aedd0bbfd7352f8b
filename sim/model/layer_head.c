/* layer_head.c - the operators of a language model's head.
 *
 * Logits are in the activation precision and the loss in fp32, over a vocabulary divided by tp with
 * three all-reduces of one fp32 value per token. A chunked head runs its matmuls for some rows at a
 * time (linkedin/Liger-Kernel, ops/fused_linear_cross_entropy.py; huggingface/trl,
 * trainer/sft_trainer.py).
 */
#include "sim/model/layer_head.h"

static const struct half_names head_half = {
    .norm = "final norm",
    .gather = "head all-gather",
    .saved_gather = "head saved all-gather",
    .reduce_scatter = "head reduce-scatter",
    .all_reduce = "head all-reduce",
};

/* Bytes per logit. Forward: cast to fp32 (reads 2, writes 4), maximum (4), subtraction,
 * exponential and sum (4 + 4), division (4 + 4). Backward: softmax becomes the gradient in place
 * (4 + 4) and is cast back (4, 2). The 2s are the element of the activation precision. */
enum { LOSS_FORWARD_FP32_BYTES = 24, LOSS_BACKWARD_FP32_BYTES = 12 };

static void loss(struct emitter *e, enum operator_pass pass) {
    const struct layer_division *d = e->d;
    int fp32_bytes = pass == PASS_FORWARD ? LOSS_FORWARD_FP32_BYTES : LOSS_BACKWARD_FP32_BYTES;
    double bytes = (double)d->head_tokens * (double)d->loss_vocabulary *
                   (double)(fp32_bytes + d->element_bytes);
    emit_operator(e, operator_streaming("loss", OPERATOR_LOSS, pass, PRECISION_FP32, bytes));
}

/* cap x tanh(logit / cap) in one kernel; its backward reads the gradient and what came out. */
static void logit_cap(struct emitter *e, enum operator_pass pass) {
    if (e->d->module->logit_cap)
        emit_stream(e, "logit cap", OPERATOR_ELEMENTWISE, pass, pass == PASS_FORWARD ? 2 : 3,
                    e->d->head_tokens, e->d->vocabulary);
}

/* Where the head sees some of the positions alone: they are gathered in front of it, and their
 * gradient is scattered into zeros behind it. */
static void head_positions(struct emitter *e, enum operator_pass pass) {
    const struct layer_division *d = e->d;
    const double hidden = (double)d->module->hidden;
    if (d->head_tokens >= d->tokens) return;
    const double rows = 2 * (double)d->head_tokens + (pass == PASS_FORWARD ? 0 : (double)d->tokens);
    emit_operator(e, operator_streaming("head positions", OPERATOR_ELEMENTWISE, pass, e->activation,
                                        rows * hidden * (double)d->element_bytes));
}

/* What a chunked head runs for each chunk; of the last, what is left. */
static void each_chunk(struct emitter *e, void (*emit)(struct emitter *e, int64_t rows)) {
    const struct layer_division *d = e->d;
    const int64_t first = e->out->count, left = d->head_tokens % d->chunk_tokens;
    emit(e, d->chunk_tokens);
    for (int64_t i = first; i < e->out->count; i++)
        e->out->operators[i].repeats = d->head_tokens / d->chunk_tokens;
    if (left > 0) emit(e, left);
}

static enum precision logit_precision(const struct emitter *e) {
    return e->d->chunk.fp32 ? PRECISION_FP32 : e->activation;
}

static void logits_forward(struct emitter *e, int64_t rows) {
    const int64_t vocabulary = e->d->vocabulary, hidden = e->d->module->hidden;
    emit_head_cast(e, vocabulary, hidden);
    emit_linear_forward(e, "logits", logit_precision(e), rows, vocabulary, hidden);
}

static void logits_backward(struct emitter *e, int64_t rows) {
    const int64_t vocabulary = e->d->vocabulary, hidden = e->d->module->hidden;
    if (e->d->chunked_head == CHUNKED_HEAD_REMADE)
        logits_forward(e, rows);
    else /* Liger's makes the gradient beside the logits, of a cast of its own */
        emit_base_cast(e, PASS_INPUT_GRADIENT, vocabulary, hidden);
    emit_linear_input_gradient(e, "logits", logit_precision(e), rows, vocabulary, hidden);
    emit_linear_weight_sum(e, "logits", logit_precision(e), rows, vocabulary, hidden);
}

static void chunked_logits_backward(struct emitter *e) {
    each_chunk(e, logits_backward);
    emit_gradient_sum(e, &head_half, PASS_BACKWARD);
}

void head_forward(struct emitter *e) {
    const struct layer_division *d = e->d;
    const double token_bytes = 4.0 * (double)d->head_tokens;
    emit_enter_forward(e, &head_half);
    head_positions(e, PASS_FORWARD);
    each_chunk(e, logits_forward);
    logit_cap(e, PASS_FORWARD);
    if (d->loss_vocabulary > d->vocabulary) {
        emit_collective(e, "logits all-gather", OPERATOR_ALL_GATHER, PASS_FORWARD,
                        emit_gathered_bytes(e, d->head_tokens, d->loss_vocabulary));
        loss(e, PASS_FORWARD);
        return;
    }
    emit_collective(e, "loss maximum all-reduce", OPERATOR_ALL_REDUCE, PASS_FORWARD, token_bytes);
    loss(e, PASS_FORWARD);
    emit_collective(e, "loss target all-reduce", OPERATOR_ALL_REDUCE, PASS_FORWARD, token_bytes);
    emit_collective(e, "loss sum all-reduce", OPERATOR_ALL_REDUCE, PASS_FORWARD, token_bytes);
}

void head_backward(struct emitter *e) {
    const struct layer_division *d = e->d;
    if (d->chunked_head == CHUNKED_HEAD_REMADE) {
        logit_cap(e, PASS_FORWARD);
        loss(e, PASS_FORWARD);
    }
    loss(e, PASS_BACKWARD);
    logit_cap(e, PASS_BACKWARD);
    if (d->chunked_head == CHUNKED_HEAD_NO)
        emit_column_backward(e, &head_half, "logits", e->activation, d->vocabulary);
    else
        chunked_logits_backward(e);
    if (e->need.input) head_positions(e, PASS_BACKWARD);
    emit_enter_backward(e, &head_half);
}
