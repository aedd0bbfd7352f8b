/* layer_attention.c - core attention, fused or not, and context parallelism.
 *
 * Flash: one operator (costmodel/operator_work.c has its FLOP and bytes). Around a ring it is one
 * kernel for the rank's own tokens, under the causal mask, and cp - 1 for those of the others,
 * which are all past or all future: in the balanced division half as many scores each and no mask
 * (all of them, where nothing is masked at all). The
 * latter are stated as one operator of cp - 1 samples. Their results are merged as they come:
 * output (in backward the gradients of queries, keys and values) is read, added to and written for
 * each but the first, which is copied (Transformer Engine, context_parallel.py, attention with
 * p2p).
 *
 * Naive, as Megatron-LM runs it without FlashAttention (Korthikanti et al. 2022, figure 3;
 * Megatron-LM, DotProductAttention). With A query elements (tokens x heads x head_dim), K elements
 * of the keys as the query heads see them, S = heads x sum(L^2) scores and s bytes an element:
 *
 *     forward    scores    Q K'       2 head_dim S FLOP    s (A + K + S) bytes
 *                softmax   scale, mask and softmax in one kernel: one read, one write  2 s S;
 *                          lengths that it does not take (a stack's softmax_multiple): 12 bytes a
 *                          score to fp32 and back, 8 (backward 12) there, 8 for a mask
 *                dropout   reads, writes, and writes a mask of one byte               (2 s + 1) S
 *                values    P V        as scores
 *     backward   the gradients of P and V, of Q and K: four matmuls, each as scores
 *                dropout reads a gradient and the mask and writes; softmax reads a gradient and its
 *                output and writes                                                       3 s S
 *
 * A causal mask saves nothing: every score is computed, and masked. A batch of equal matmuls, one
 * per head and sample of length L, is stated as one matmul with the rows of all: m = heads x
 * tokens, and n or k = L. FLOP and bytes are those of the batch (K is read for every head and
 * sample, not once). L is sum(L^2) / sum(L), the mean length that a token sees, so that FLOP are
 * exact for samples of any lengths. Each head begins head_dim elements after the one before: where
 * that is no multiple of 16 bytes (150, 450) the library falls back to kernels without tensor
 * cores. So do rows of scores that begin on every 2 bytes, where all samples have one odd length
 * (an image's patches and a class token), unless a compiler pads them. The copies that spread
 * grouped keys and values over the query heads are not counted.
 *
 * Exchange between cp context-parallel ranks, each with `tokens` of the sequence, v columns of keys
 * and q columns of queries on the TP rank. Bytes as costmodel/operator_work.h counts them:
 *
 *     all-gather   keys and values of all, 2 v tokens cp, before attention in both passes; their
 *                  gradients are reduce-scattered (Llama 3, arXiv 2407.21783, section 3.3.2)
 *     ring         in each of cp - 1 steps a rank sends the block of keys and values that it holds
 *                  to its neighbour while it attends to it: 2 v tokens (cp - 1) in all (Liu et al.
 *                  2023, Ring Attention, arXiv 2310.01889; Megatron-LM, cp_comm_type p2p). In
 *                  backward the gradients of the block travel with it: twice as much
 *     gathered ring  keys and values of all are gathered before attention in both passes, of as
 *                  many heads as the stack's code hands to attention, and read from there block by
 *                  block; in backward the fp32 gradients of a block are sent on in each of cp steps,
 *                  home at last (PyTorch, torch/distributed/tensor/experimental/_attention.py of
 *                  2024 and 2025, rotate method allgather, its default). Results are added in fp32
 *     all-to-all   before attention each rank trades its tokens of all heads for all tokens of its
 *                  heads, queries in one exchange and keys and values in another; after it the
 *                  output goes back (Jacobs et al. 2023, DeepSpeed Ulysses, arXiv 2309.14509).
 *                  Backward is the mirror image. Key-value heads fewer than cp are copied
 *
 * Where context_heads ranks exchange heads and the context_ring others do one of the first two with
 * what that leaves them (Fang and Zhao 2024, USP, arXiv 2405.07719; Gu et al. 2024, LoongTrain, arXiv
 * 2406.18485; Megatron-LM, cp_comm_type a2a+p2p), both stand one inside the other, with
 * context_heads in the place of cp in the exchange and context_ring in that of the ring. Keys and
 * values of a rank are as many as before the exchange.
 *
 * Eager PyTorch runs the gather beside the first block's attention, and sends gradients beside the
 * next one's. Compilation waits for each collective where it is called
 * (torch/distributed/_functional_collectives.py, _maybe_wrap_tensor; Inductor's
 * reorder_for_compute_comm_overlap is off unless asked for): all of it is exposed.
 *
 * Where this stops being true: the steps of the ring are one message, so that the start-up of all
 * but the first is left out, a few microseconds each; a ring sends whole blocks although the causal
 * mask makes half of them useless, as Megatron-LM does.
 */
#include "sim/model/layer_attention.h"

#include <math.h>

/* ---- core attention ---- */

struct naive_attention {
    const struct layer_division *d;
    enum precision precision;
    enum operator_pass pass; /* of what is not a matmul */
    struct operator_list *out;
};

/* So that a reader of the list knows what the work depends on. */
static void push(const struct naive_attention *a, struct operator_work work) {
    work.token_sum = (double)a->d->attention_tokens;
    work.square_sum = a->d->score_square_sum;
    operator_list_push(a->out, work);
}

enum score_side {
    SCORES_RESULT, /* (rows x head_dim) (head_dim x L) */
    SCORES_OPERAND /* (rows x L) (L x head_dim) */
};

static void batched_matmul(const struct naive_attention *a, const char *name,
                           enum score_side side) {
    const struct layer_division *d = a->d;
    const int64_t head_dim = d->module->head_dim;
    const int64_t rows = d->attention_heads * d->attention_tokens;
    const double mean_length = d->score_square_sum / (double)d->attention_tokens;
    const int64_t length = mean_length < 1 ? 1 : llround(mean_length);
    /* The gradient of an activation is written once, like a result of forward. */
    enum operator_pass pass = a->pass == PASS_FORWARD ? PASS_FORWARD : PASS_INPUT_GRADIENT;
    struct operator_work work =
        side == SCORES_RESULT ? operator_matmul(name, pass, a->precision, rows, length, head_dim)
                              : operator_matmul(name, pass, a->precision, rows, head_dim, length);
    /* Gathered or passed by, the keys of all cp ranks are read; heads dealt out bring their own. */
    const double query_elements = (double)rows * (double)head_dim;
    const double key_elements = query_elements * (double)d->context_ring;
    work.flop = 2 * d->score_count * (double)head_dim;
    work.unaligned = fmod((double)head_dim * precision_bytes(a->precision), 16) != 0;
    work.odd_batch = d->odd_scores && precision_bytes(a->precision) == 2;
    work.memory_bytes =
        precision_bytes(a->precision) * (query_elements + key_elements + d->score_count);
    push(a, work);
}

static void stream_scores(const struct naive_attention *a, const char *name,
                          enum operator_form form, double bytes_per_score) {
    struct operator_work work = operator_streaming(
        name, OPERATOR_ELEMENTWISE, a->pass, a->precision, a->d->score_count * bytes_per_score);
    work.form = form;
    push(a, work);
}

static enum operator_form softmax_form(const struct naive_attention *a) {
    return !a->d->causal             ? FORM_SOFTMAX
           : a->d->attention_dropout ? FORM_DROPPED_CAUSAL_SOFTMAX
                                     : FORM_CAUSAL_SOFTMAX;
}

/* Forward scale, mask and softmax are one kernel, or: cast to fp32, masked in place, softmax, cast
 * back. Backward the one kernel, or: cast, softmax, mask, cast. */
static void softmax(const struct naive_attention *a) {
    const double element = precision_bytes(a->precision), whole = 4, cast = element + whole;
    const bool forward = a->pass == PASS_FORWARD;
    const double one = forward ? 2 * element : 3 * element;
    const double apart = 2 * cast + (forward ? 2 : 3) * whole + (a->d->causal ? 2 * whole : 0);
    if (a->d->writes_softmax)
        stream_scores(a, "attention softmax", FORM_SOFTMAX_STEPS, apart);
    else
        stream_scores(a, "attention softmax", softmax_form(a), one);
}

static void naive_forward(const struct naive_attention *a) {
    const double element = precision_bytes(a->precision);
    batched_matmul(a, "attention scores", SCORES_RESULT);
    softmax(a);
    if (a->d->attention_dropout) stream_scores(a, "attention dropout", FORM_OTHER, 2 * element + 1);
    batched_matmul(a, "attention values", SCORES_OPERAND);
}

static void naive_backward(const struct naive_attention *a) {
    const double element = precision_bytes(a->precision);
    batched_matmul(a, "attention softmax gradient", SCORES_RESULT);
    batched_matmul(a, "attention value gradient", SCORES_OPERAND);
    if (a->d->attention_dropout) stream_scores(a, "attention dropout", FORM_OTHER, 2 * element + 1);
    softmax(a);
    batched_matmul(a, "attention query gradient", SCORES_OPERAND);
    batched_matmul(a, "attention key gradient", SCORES_OPERAND);
}

/* Fused, as the training asks for it. */
static void push_fused(const struct layer_division *d, struct operator_work work,
                       struct operator_list *out) {
    work.dropout = d->attention_dropout;
    work.deterministic = d->determinism != DETERMINISM_NONE;
    work.attention_kernel = d->attention_kernel;
    operator_list_push(out, work);
}

static bool has_ring(const struct layer_division *d) {
    return (d->context == CONTEXT_RING || d->context == CONTEXT_GATHERED_RING) &&
           d->context_ring > 1;
}

int64_t attention_key_heads(const struct layer_division *d) {
    const bool copied = has_ring(d) && d->context == CONTEXT_GATHERED_RING && d->repeats_keys;
    return copied ? d->attention_heads : d->attention_kv_heads;
}

static void ring_attention(const struct layer_division *d, enum operator_pass pass,
                           enum precision activation, struct operator_list *out) {
    const double own = d->score_square_sum / (double)d->context_ring;
    /* a mask would leave half of square_sum */
    const double others = (d->square_sum - own) / (d->causal ? 2 : 1);
    push_fused(d,
               operator_attention("attention", pass, activation, (double)d->attention_tokens, own,
                                  d->attention_heads, attention_key_heads(d), d->module->head_dim,
                                  d->causal),
               out);
    push_fused(d,
               operator_attention("attention of other ranks' keys", pass, activation,
                                  (double)((d->context_ring - 1) * d->attention_tokens), others,
                                  d->attention_heads, attention_key_heads(d), d->module->head_dim,
                                  false),
               out);
}

/* Forward q, k and v are read and written, the result's place is cleared and the result read and
 * written there; backward what was gathered is scattered and the other way round. */
void attention_unpad(const struct layer_division *d, enum operator_pass pass,
                     enum precision activation, struct operator_list *out) {
    if (!d->unpads || d->attention != ATTENTION_FLASH) return;
    const double qkv = (double)(d->query_width + 2 * d->kv_width), result = (double)d->query_width;
    const double columns = pass == PASS_FORWARD ? 2 * qkv + 3 * result : 3 * qkv + 2 * result;
    operator_list_push(
        out, operator_streaming("attention unpadding", OPERATOR_ELEMENTWISE, pass, activation,
                                precision_bytes(activation) * (double)d->tokens * columns));
}

void core_attention(const struct layer_division *d, enum operator_pass pass,
                    enum precision activation, struct operator_list *out) {
    if (d->attention == ATTENTION_FLASH && has_ring(d)) {
        ring_attention(d, pass, activation, out);
        return;
    }
    if (d->attention == ATTENTION_FLASH) {
        push_fused(d,
                   operator_attention("attention", pass, activation, (double)d->attention_tokens,
                                      d->square_sum, d->attention_heads, d->attention_kv_heads,
                                      d->module->head_dim, d->causal),
                   out);
        return;
    }
    const struct naive_attention naive = { d, activation, pass, out };
    if (pass == PASS_FORWARD)
        naive_forward(&naive);
    else
        naive_backward(&naive);
}

void core_cross_attention(const struct layer_division *d, enum operator_pass pass,
                          enum precision activation, struct operator_list *out) {
    if (d->attention == ATTENTION_FLASH) {
        push_fused(d,
                   operator_cross_attention("cross attention", pass, activation, (double)d->tokens,
                                            (double)d->text_tokens, d->cross_square_sum, d->heads,
                                            d->kv_heads, d->module->head_dim),
                   out);
        return;
    }
    struct layer_division cross = *d; /* its queries are the video's alone */
    cross.square_sum = cross.score_square_sum = d->cross_square_sum;
    cross.attention_heads = d->heads;
    cross.attention_kv_heads = d->kv_heads;
    cross.score_count = d->cross_square_sum * (double)d->heads;
    cross.context_ring = 1;
    cross.odd_scores = d->odd_cross_scores;
    cross.writes_softmax = d->writes_cross_softmax;
    core_attention(&cross, pass, activation, out);
}

bool operator_is_core_attention(const struct operator_work *work) {
    return work->token_sum > 0;
}

/* ---- context parallelism ---- */

/* What surrounds attention in one pass of a layer. */
struct context_exchange {
    const struct layer_division *d;
    enum operator_pass pass;
    int64_t query, key_value; /* columns */
    struct operator_list *out;
};

static struct context_exchange context_exchange(const struct layer_division *d,
                                                enum operator_pass pass,
                                                struct operator_list *out) {
    const int64_t head_dim = d->module->head_dim;
    return (struct context_exchange){ .d = d,
                                      .pass = pass,
                                      .query = d->attention_heads * head_dim,
                                      .key_value = 2 * attention_key_heads(d) * head_dim,
                                      .out = out };
}

static struct operator_work *exchange(const struct context_exchange *e, const char *name,
                                      enum operator_kind kind, enum communicator_kind group,
                                      double columns) {
    const double bytes = columns * (double)e->d->attention_tokens * (double)e->d->element_bytes;
    operator_list_push(e->out, operator_collective(name, kind, e->pass, group, bytes));
    return &e->out->operators[e->out->count - 1];
}

/* Heads for tokens, or back. */
static void exchange_heads(const struct context_exchange *e, const char *name, int64_t columns) {
    exchange(e, name, OPERATOR_ALL_TO_ALL,
             e->d->context_ring == 1 ? COMMUNICATOR_CONTEXT : COMMUNICATOR_CONTEXT_HEADS,
             (double)columns);
}

/* Keys and values, among those that hold the same heads. */
static struct operator_work *exchange_keys(const struct context_exchange *e, const char *name,
                                           enum operator_kind kind, double blocks) {
    return exchange(e, name, kind,
                    e->d->context_heads == 1 ? COMMUNICATOR_CONTEXT : COMMUNICATOR_CONTEXT_RING,
                    blocks * (double)e->key_value);
}

enum { FP32_BYTES = 4 };

/* Gradients of keys and values, a step for each rank of the ring. */
static struct operator_work *send_gradients(const struct context_exchange *e) {
    const struct layer_division *d = e->d;
    return exchange_keys(e, "key-value gradient ring", OPERATOR_SEND,
                         (double)d->context_ring * FP32_BYTES / (double)d->element_bytes);
}

static void gather_keys(const struct context_exchange *e) {
    const struct layer_division *d = e->d;
    const bool waits = d->context == CONTEXT_ALL_GATHER || d->waits_at_once;
    exchange_keys(e, "key-value all-gather", OPERATOR_ALL_GATHER, (double)d->context_ring)
        ->beside_attention = !waits;
    if (!waits && e->pass == PASS_BACKWARD) send_gradients(e)->beside_attention = true;
}

void context_exchange_before(const struct layer_division *d, enum operator_pass pass,
                             struct operator_list *out) {
    const struct context_exchange e = context_exchange(d, pass, out);
    const bool forward = pass == PASS_FORWARD;
    if (d->context_heads > 1 && forward) {
        exchange_heads(&e, "query all-to-all", e.query);
        exchange_heads(&e, "key-value all-to-all", e.key_value);
    } else if (d->context_heads > 1) {
        exchange_heads(&e, "output gradient all-to-all", e.query);
    }
    if (d->context_ring == 1) return;
    if (d->context == CONTEXT_RING)
        exchange_keys(&e, "key-value ring", OPERATOR_SEND,
                      (double)((d->context_ring - 1) * (forward ? 1 : 2)))
            ->beside_attention = true;
    else
        gather_keys(&e);
}

/* Bytes a value of output, or of the gradients of queries, keys and values. Transformer Engine
 * reads and writes 3 tensors a step and copies the first. PyTorch casts the first and the sum (6
 * each); compiled it reads a block (2) and reads and writes the sum (8); eagerly it casts a block
 * (6) and adds it to the gradients in another kernel (12), of keys and values joins them besides
 * (8); of outputs it takes the difference, weighs it and takes it off (12 each). */
static double merge_bytes(const struct context_exchange *e) {
    const struct layer_division *d = e->d;
    const double steps = (double)(d->context_ring - 1), query = (double)e->query,
                 key_value = (double)e->key_value, element = (double)d->element_bytes;
    const bool forward = e->pass == PASS_FORWARD;
    const double columns = forward ? query : query + key_value;
    if (d->context == CONTEXT_RING) return (3 * steps + 2) * columns * element;
    const double ends = 12 * columns;
    if (d->waits_at_once) return 10 * steps * columns + ends;
    return ends + steps * (forward ? 42 * query : 18 * query + 26 * key_value);
}

static void merge_attention(const struct context_exchange *e, enum precision activation) {
    operator_list_push(e->out, operator_streaming("attention merge", OPERATOR_ELEMENTWISE, e->pass,
                                                  activation,
                                                  merge_bytes(e) * (double)e->d->attention_tokens));
}

void context_exchange_after(const struct layer_division *d, enum operator_pass pass,
                            enum precision activation, struct operator_list *out) {
    const struct context_exchange e = context_exchange(d, pass, out);
    const bool forward = pass == PASS_FORWARD;
    if (has_ring(d) && d->context == CONTEXT_GATHERED_RING && d->waits_at_once && !forward)
        send_gradients(&e);
    if (has_ring(d) && d->attention == ATTENTION_FLASH) merge_attention(&e, activation);
    if (d->context_ring > 1 && d->context == CONTEXT_ALL_GATHER && !forward)
        exchange_keys(&e, "key-value reduce-scatter", OPERATOR_REDUCE_SCATTER,
                      (double)d->context_ring);
    if (d->context_heads == 1) return;
    if (forward) {
        exchange_heads(&e, "output all-to-all", e.query);
        return;
    }
    exchange_heads(&e, "query gradient all-to-all", e.query);
    exchange_heads(&e, "key-value gradient all-to-all", e.key_value);
}

bool operator_runs_beside_attention(const struct operator_work *work) {
    return work->beside_attention;
}
