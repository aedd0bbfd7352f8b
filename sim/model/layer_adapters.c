/* layer_adapters.c - the kernels of A, B and what joins them to their layer.
 *
 * Unfused, as NeMo's ParallelLinearAdapter, PEFT's lora.Linear and torchtune's LoRALinear run them:
 * two matmuls in 16 bits, one kernel for the factor alpha / r, one for the sum; backward two
 * matmuls each, the factor, and the sum of two gradients of the input. Ahead of A its input is
 * dropped out, and where A and B are fp32 beside 16-bit layers (PEFT's autocast_adapter_dtype) cast
 * to fp32 for each adapter, which autocast takes back for the matmul; the gradient goes the same way
 * back (peft/tuners/lora/layer.py, Linear.forward).
 *
 * Tensor parallelism divides A's r columns and B's output beside a column-parallel layer, A's input
 * and B's output beside a row-parallel one. The r columns between them are summed or gathered, each
 * way once. B's output beside a row-parallel layer is gathered whole and cut to the rank's rows,
 * and so is its gradient under sequence parallelism; without that, the gradient of a
 * column-parallel layer's input is summed once more (gather_output and disable_grad_reduce of
 * ParallelLinearAdapter). DTensor divides the r columns before a row-parallel layer's B instead, whose
 * output is a partial sum like the layer's own and is reduced with it, as are gradients of an input
 * (NeMo Automodel's parallel_styles.py, ColwiseParallelLora and RowwiseParallelLora).
 *
 * A compiler makes the factor and the sums part of the kernels that read or write them anyway: one
 * tensor more for each.
 */
#include "sim/model/layer_adapters.h"

/* What an adapter's layer makes: of the rank's queries, keys, ..., or the block's width. */
enum output { OF_QUERY, OF_KEY, OF_KEY_VALUE, OF_QKV, OF_FFN, OF_UP, OF_HIDDEN };

#define ADAPTER(target, place, output, name)                                                       \
    {                                                                                              \
        target, place, output, name " adapter A", name " adapter B", name " adapter factor",       \
            name " adapter sum"                                                                    \
    }
static const struct adapter {
    enum adapter_target target;
    enum adapter_place place;
    enum output output;
    const char *a, *b, *factor, *sum;
} adapters[] = {
    ADAPTER(ADAPTER_Q, ADAPTER_OF_QKV, OF_QUERY, "q"),
    ADAPTER(ADAPTER_K, ADAPTER_OF_QKV, OF_KEY, "k"),
    ADAPTER(ADAPTER_V, ADAPTER_OF_QKV, OF_KEY, "v"),
    ADAPTER(ADAPTER_QKV, ADAPTER_OF_QKV, OF_QKV, "qkv"),
    ADAPTER(ADAPTER_PROJ, ADAPTER_OF_PROJ, OF_HIDDEN, "proj"),
    ADAPTER(ADAPTER_GATE, ADAPTER_OF_UP, OF_FFN, "gate"),
    ADAPTER(ADAPTER_UP, ADAPTER_OF_UP, OF_FFN, "up"),
    ADAPTER(ADAPTER_GATE_UP, ADAPTER_OF_UP, OF_UP, "gate and up"),
    ADAPTER(ADAPTER_DOWN, ADAPTER_OF_DOWN, OF_HIDDEN, "down"),
    /* The cross attention of a diffusion block has matrices of its own: queries apart from the
     * text's keys and values. */
    ADAPTER(ADAPTER_Q, ADAPTER_OF_CROSS_QUERY, OF_QUERY, "cross q"),
    ADAPTER(ADAPTER_QKV, ADAPTER_OF_CROSS_QUERY, OF_QUERY, "cross q"),
    ADAPTER(ADAPTER_K, ADAPTER_OF_CROSS_KEY_VALUE, OF_KEY, "cross k"),
    ADAPTER(ADAPTER_V, ADAPTER_OF_CROSS_KEY_VALUE, OF_KEY, "cross v"),
    ADAPTER(ADAPTER_QKV, ADAPTER_OF_CROSS_KEY_VALUE, OF_KEY_VALUE, "cross k and v"),
    ADAPTER(ADAPTER_PROJ, ADAPTER_OF_CROSS_PROJ, OF_HIDDEN, "cross proj"),
};
#define ADAPTER_COUNT (sizeof adapters / sizeof adapters[0])

static bool has(const struct module *module, enum layer_kind kind, enum adapter_stream stream,
                const struct adapter *adapter) {
    if (module->adapter_rank == 0 ||
        (module->adapter_targets[stream] & (1u << adapter->target)) == 0)
        return false;
    if (adapter->place >= ADAPTER_OF_CROSS_QUERY)
        return kind == LAYER_DIFFUSION_BLOCK && module->text_hidden > 0;
    return kind != LAYER_SINGLE_BLOCK || adapter->place != ADAPTER_OF_PROJ;
}

/* Of one rank. */
struct shape {
    int64_t in, a_columns, b_columns, out; /* A: in -> a_columns; B: b_columns -> out */
    int64_t tokens;                        /* that both read */
    int64_t rows, whole_out;               /* of what joins the layer's own output */
    bool row_parallel;
};

static int64_t column_width(const struct layer_division *d, enum output output) {
    switch (output) {
    case OF_QUERY:
        return d->query_width;
    case OF_KEY:
        return d->kv_width;
    case OF_KEY_VALUE:
        return 2 * d->kv_width;
    case OF_QKV:
        return d->qkv_width;
    case OF_UP:
        return d->up_width;
    case OF_FFN:
    case OF_HIDDEN:
        break;
    }
    return d->ffn_width;
}

static bool reduces_with_layer(const struct layer_division *d) {
    return d->tensor_traffic >= TENSOR_COPIED && d->tp > 1;
}

static struct shape shape_of(const struct layer_division *d, const struct adapter *adapter) {
    const int64_t hidden = d->module->hidden, rank = d->module->adapter_rank;
    const int64_t down_in =
        adapter->place != ADAPTER_OF_DOWN
            ? d->query_width
            : d->ffn_width + (d->kind == LAYER_SINGLE_BLOCK ? d->query_width : 0);
    if (adapter->output == OF_HIDDEN && reduces_with_layer(d))
        return (struct shape){ .in = down_in,
                               .a_columns = rank,
                               .b_columns = divide_up(rank, d->tp),
                               .out = hidden,
                               .tokens = d->tokens,
                               .rows = d->tokens,
                               .whole_out = hidden,
                               .row_parallel = true };
    if (adapter->output == OF_HIDDEN)
        return (struct shape){ .in = down_in,
                               .a_columns = rank,
                               .b_columns = rank,
                               .out = divide_up(hidden, d->tp),
                               .tokens = d->tokens,
                               .rows = d->shard_tokens,
                               .whole_out = hidden,
                               .row_parallel = true };
    const int64_t out = column_width(d, adapter->output),
                  tokens =
                      adapter->place == ADAPTER_OF_CROSS_KEY_VALUE ? d->text_tokens : d->tokens;
    return (struct shape){ .in = hidden,
                           .a_columns = divide_up(rank, d->tp),
                           .b_columns = rank,
                           .out = out,
                           .tokens = tokens,
                           .rows = tokens,
                           .whole_out = out };
}

static enum adapter_stream stream_of(const struct layer_division *d) {
    return d->kind == LAYER_SINGLE_BLOCK ? ADAPTER_SINGLE
           : d->text_stream              ? ADAPTER_TEXT
                                         : ADAPTER_MAIN;
}

static bool has_here(const struct layer_division *d, const struct adapter *adapter) {
    return has(d->module, d->kind, stream_of(d), adapter);
}

int64_t adapter_count(const struct layer_division *d, enum adapter_place place) {
    int64_t count = 0;
    for (size_t i = 0; i < ADAPTER_COUNT; i++)
        count += adapters[i].place == place && has_here(d, &adapters[i]);
    return count;
}

int64_t adapters_of_block(const struct module *module, enum layer_kind kind) {
    const enum adapter_stream stream = kind == LAYER_SINGLE_BLOCK ? ADAPTER_SINGLE : ADAPTER_MAIN;
    int64_t count = 0;
    for (size_t i = 0; i < ADAPTER_COUNT; i++)
        count += has(module, kind, stream, &adapters[i]) +
                 (kind == LAYER_JOINT_BLOCK && has(module, kind, ADAPTER_TEXT, &adapters[i]));
    return count;
}

int64_t adapter_parameters(const struct layer_division *d) {
    int64_t count = 0;
    for (size_t i = 0; i < ADAPTER_COUNT; i++) {
        if (!has_here(d, &adapters[i])) continue;
        const struct shape s = shape_of(d, &adapters[i]);
        count += s.in * s.a_columns + s.out * s.b_columns;
    }
    if (d->kind != LAYER_JOINT_BLOCK || d->text_stream) return count;
    const struct layer_division text = layer_division_text(d);
    return count + adapter_parameters(&text);
}

/* Bytes a value of A's input ahead of A, and of its gradient behind it. A compiler makes one kernel
 * of them, which draws its mask anew. */
static double input_bytes(const struct layer_division *d) {
    enum { TO_FP32 = 2 + 4, DROPOUT_IN_FP32 = 4 + 4 + 1, FROM_FP32 = 4 + 2 };
    const bool dropout = d->module->adapter_dropout;
    const double element = (double)d->element_bytes;
    if (d->fuses_adapters) return dropout ? 2 * element : 0;
    if (d->casts_adapter_inputs) return TO_FP32 + (dropout ? DROPOUT_IN_FP32 : 0) + FROM_FP32;
    return dropout ? 2 * element + 1 : 0;
}

/* A kernel whose bytes are counted as PyTorch runs it: no stack's elementwise_traffic is of it. */
static void emit_counted(struct emitter *e, const char *name, enum operator_pass pass,
                         double tensors, int64_t rows, int64_t columns) {
    emit_formed_stream(e, name, OPERATOR_ELEMENTWISE, FORM_STATED, pass, tensors, rows, columns);
}

static void emit_input(struct emitter *e, enum operator_pass pass, int64_t rows, int64_t columns) {
    const double bytes = input_bytes(e->d);
    if (bytes > 0)
        emit_counted(e, "adapter input", pass, bytes / (double)e->d->element_bytes, rows, columns);
}

bool adapter_inputs_are_cast(const struct module *module, const struct tensor_split *split) {
    if (precision_is_single(module->precision)) return false;
    return module->adapter_weights == ADAPTER_WEIGHTS_FP32 ||
           (module->adapter_weights == ADAPTER_WEIGHTS_USUAL && split->block.casts_adapter_inputs);
}

/* Beside a collective of its layer, in which the ranks have waited for the last: what lies between is
 * the same work on each. */
static void collective_beside(struct emitter *e, const char *name, enum operator_kind kind,
                              enum operator_pass pass, double bytes, bool beside) {
    const int64_t before = e->out->count;
    emit_collective(e, name, kind, pass, bytes);
    if (e->out->count > before) e->out->operators[before].ranks_are_there = beside;
}

/* The r columns over tensor-parallel ranks, once each way. Without sequence parallelism a
 * row-parallel layer has its collective in the forward, a column-parallel one in the backward. */
static void join_ranks(struct emitter *e, enum operator_pass pass, const struct shape *s) {
    const bool sums = pass != PASS_FORWARD || s->row_parallel;
    const bool beside = e->d->sequence_parallel || s->row_parallel == (pass == PASS_FORWARD);
    collective_beside(e, sums ? "adapter all-reduce" : "adapter all-gather",
                      sums ? OPERATOR_ALL_REDUCE : OPERATOR_ALL_GATHER, pass,
                      emit_gathered_bytes(e, s->tokens, e->d->module->adapter_rank), beside);
}

/* B's columns of all rows for all columns of the rank's own rows, or back: gathered and cut, or
 * exchanged with a copy before and one behind. Without sequence parallelism all rows are its own. */
static void join_outputs(struct emitter *e, enum operator_pass pass) {
    const struct layer_division *d = e->d;
    const double bytes = emit_gathered_bytes(e, d->tokens, d->module->hidden);
    if (!d->exchanges_adapters || !d->sequence_parallel) {
        collective_beside(e, "adapter output all-gather", OPERATOR_ALL_GATHER, pass, bytes, true);
        return;
    }
    emit_stream(e, "adapter output copies", OPERATOR_ELEMENTWISE, pass, 4, d->tokens,
                divide_up(d->module->hidden, d->tp));
    collective_beside(e, "adapter output all-to-all", OPERATOR_ALL_TO_ALL, pass,
                      bytes / (double)d->tp, true);
}

void emit_adapters_forward(struct emitter *e, enum adapter_place place) {
    const struct layer_division *d = e->d;
    for (size_t i = 0; i < ADAPTER_COUNT; i++) {
        const struct adapter *t = &adapters[i];
        if (t->place != place || !has_here(d, t)) continue;
        const struct shape s = shape_of(d, t);
        emit_input(e, PASS_FORWARD, s.tokens, s.in);
        emit_linear_forward(e, t->a, e->activation, s.tokens, s.a_columns, s.in);
        join_ranks(e, PASS_FORWARD, &s);
        emit_linear_forward(e, t->b, e->activation, s.tokens, s.out, s.b_columns);
        if (s.row_parallel && !reduces_with_layer(d)) join_outputs(e, PASS_FORWARD);
        if (!d->fuses_adapters) emit_counted(e, t->factor, PASS_FORWARD, 2, s.rows, s.whole_out);
        emit_counted(e, t->sum, PASS_FORWARD, d->fuses_adapters ? 1 : 3, s.rows, s.whole_out);
    }
}

/* The text of an adapted decoder comes encoded, and what projects it is frozen: nothing reads a
 * gradient of it. */
static bool input_has_gradient(enum adapter_place place) {
    return place != ADAPTER_OF_CROSS_KEY_VALUE;
}

void emit_adapters_backward(struct emitter *e, enum adapter_place place) {
    const struct layer_division *d = e->d;
    const double hidden_bytes = emit_gathered_bytes(e, d->tokens, d->module->hidden);
    struct emitter own = *e; /* A and B are trained whatever the layer is */
    own.need.weight = true;
    for (size_t i = 0; i < ADAPTER_COUNT; i++) {
        const struct adapter *t = &adapters[i];
        if (t->place != place || !has_here(d, t)) continue;
        const struct shape s = shape_of(d, t);
        emit_counted(&own, t->factor, PASS_BACKWARD, d->fuses_adapters ? 1 : 2, s.rows,
                     s.whole_out);
        if (s.row_parallel && d->sequence_parallel && !reduces_with_layer(d))
            join_outputs(e, PASS_BACKWARD);
        emit_linear_input_gradient(&own, t->b, e->activation, s.tokens, s.out, s.b_columns);
        emit_linear_weight_gradient(&own, t->b, e->activation, s.tokens, s.out, s.b_columns);
        join_ranks(e, PASS_BACKWARD, &s);
        const bool passes_on = input_has_gradient(place);
        if (passes_on)
            emit_linear_input_gradient(&own, t->a, e->activation, s.tokens, s.a_columns, s.in);
        emit_linear_weight_gradient(&own, t->a, e->activation, s.tokens, s.a_columns, s.in);
        if (!passes_on) continue;
        emit_input(&own, PASS_BACKWARD, s.tokens, s.in);
        if (!s.row_parallel && !d->sequence_parallel && !reduces_with_layer(d))
            collective_beside(e, "adapter input all-reduce", OPERATOR_ALL_REDUCE, PASS_BACKWARD,
                              hidden_bytes, true);
        emit_counted(&own, t->sum, PASS_BACKWARD, d->fuses_adapters ? 1 : 3, s.tokens, s.in);
    }
}
