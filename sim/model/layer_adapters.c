/* layer_adapters.c - the kernels of A, B and what joins them to their layer.
 *
 * Unfused, as NeMo's ParallelLinearAdapter, PEFT's lora.Linear and torchtune's LoRALinear run them:
 * two matmuls in 16 bits, one kernel for the factor alpha / r, one for the sum; backward two
 * matmuls each, the factor, and the sum of two gradients of the input. Dropout of the input is not
 * counted.
 *
 * Tensor parallelism divides A's r columns and B's output beside a column-parallel layer, A's input
 * and B's output beside a row-parallel one. The r columns between them are summed or gathered, each
 * way once. B's output beside a row-parallel layer is gathered whole and cut to the rank's rows,
 * and so is its gradient under sequence parallelism; without that, the gradient of a
 * column-parallel layer's input is summed once more (gather_output and disable_grad_reduce of
 * ParallelLinearAdapter).
 */
#include "sim/model/layer_adapters.h"

struct target {
    enum adapter_place place;
    const char *a, *b, *factor, *sum;
};

#define TARGET(place, name)                                                                        \
    { place, name " adapter A", name " adapter B", name " adapter factor", name " adapter sum" }
static const struct target targets[ADAPTER_TARGET_COUNT] = {
    [ADAPTER_Q] = TARGET(ADAPTER_OF_QKV, "q"),
    [ADAPTER_K] = TARGET(ADAPTER_OF_QKV, "k"),
    [ADAPTER_V] = TARGET(ADAPTER_OF_QKV, "v"),
    [ADAPTER_QKV] = TARGET(ADAPTER_OF_QKV, "qkv"),
    [ADAPTER_PROJ] = TARGET(ADAPTER_OF_PROJ, "proj"),
    [ADAPTER_GATE] = TARGET(ADAPTER_OF_UP, "gate"),
    [ADAPTER_UP] = TARGET(ADAPTER_OF_UP, "up"),
    [ADAPTER_GATE_UP] = TARGET(ADAPTER_OF_UP, "gate and up"),
    [ADAPTER_DOWN] = TARGET(ADAPTER_OF_DOWN, "down"),
};

static bool has(const struct module *module, int target) {
    return module->adapter_rank > 0 && (module->adapter_targets & (1u << target)) != 0;
}

/* Of one rank. */
struct shape {
    int64_t in, a_columns, out; /* A: in -> a_columns; B: the adapter's rank -> out */
    int64_t rows, whole_out;    /* of what joins the layer's own output */
    bool row_parallel;
};

static int64_t column_width(const struct layer_division *d, int target) {
    switch ((enum adapter_target)target) {
    case ADAPTER_Q:
        return d->query_width;
    case ADAPTER_K:
    case ADAPTER_V:
        return d->kv_width;
    case ADAPTER_QKV:
        return d->qkv_width;
    case ADAPTER_GATE_UP:
        return d->up_width;
    case ADAPTER_GATE:
    case ADAPTER_UP:
    case ADAPTER_PROJ:
    case ADAPTER_DOWN:
    case ADAPTER_TARGET_COUNT:
        break;
    }
    return d->ffn_width;
}

static struct shape shape_of(const struct layer_division *d, int target) {
    const enum adapter_place place = targets[target].place;
    const int64_t hidden = d->module->hidden, rank = d->module->adapter_rank;
    if (place == ADAPTER_OF_PROJ || place == ADAPTER_OF_DOWN)
        return (struct shape){ .in = place == ADAPTER_OF_PROJ ? d->query_width : d->ffn_width,
                               .a_columns = rank,
                               .out = divide_up(hidden, d->tp),
                               .rows = d->shard_tokens,
                               .whole_out = hidden,
                               .row_parallel = true };
    const int64_t out = column_width(d, target);
    return (struct shape){ .in = hidden,
                           .a_columns = divide_up(rank, d->tp),
                           .out = out,
                           .rows = d->tokens,
                           .whole_out = out };
}

int64_t adapter_count(const struct module *module, enum adapter_place place) {
    int64_t count = 0;
    for (int t = 0; t < ADAPTER_TARGET_COUNT; t++)
        count += has(module, t) && targets[t].place == place;
    return count;
}

int64_t adapters_of_block(const struct module *module) {
    int64_t count = 0;
    for (int t = 0; t < ADAPTER_TARGET_COUNT; t++)
        count += has(module, t);
    return count;
}

int64_t adapter_parameters(const struct layer_division *d) {
    const int64_t rank = d->module->adapter_rank;
    int64_t count = 0;
    for (int t = 0; t < ADAPTER_TARGET_COUNT; t++) {
        if (!has(d->module, t)) continue;
        const struct shape s = shape_of(d, t);
        count += s.in * s.a_columns + s.out * rank;
    }
    return count;
}

/* The r columns over tensor-parallel ranks, once each way. */
static void join_ranks(struct emitter *e, enum operator_pass pass, bool sums) {
    emit_collective(e, sums ? "adapter all-reduce" : "adapter all-gather",
                    sums ? OPERATOR_ALL_REDUCE : OPERATOR_ALL_GATHER, pass,
                    emit_gathered_bytes(e, e->d->tokens, e->d->module->adapter_rank));
}

void emit_adapters_forward(struct emitter *e, enum adapter_place place) {
    const struct layer_division *d = e->d;
    const double output_bytes = emit_gathered_bytes(e, d->tokens, d->module->hidden);
    for (int t = 0; t < ADAPTER_TARGET_COUNT; t++) {
        if (!has(d->module, t) || targets[t].place != place) continue;
        const struct shape s = shape_of(d, t);
        emit_linear_forward(e, targets[t].a, e->activation, d->tokens, s.a_columns, s.in);
        join_ranks(e, PASS_FORWARD, s.row_parallel);
        emit_linear_forward(e, targets[t].b, e->activation, d->tokens, s.out,
                            d->module->adapter_rank);
        if (s.row_parallel)
            emit_collective(e, "adapter output all-gather", OPERATOR_ALL_GATHER, PASS_FORWARD,
                            output_bytes);
        emit_stream(e, targets[t].factor, OPERATOR_ELEMENTWISE, PASS_FORWARD, 2, s.rows,
                    s.whole_out);
        emit_stream(e, targets[t].sum, OPERATOR_ELEMENTWISE, PASS_FORWARD, 3, s.rows, s.whole_out);
    }
}

void emit_adapters_backward(struct emitter *e, enum adapter_place place) {
    const struct layer_division *d = e->d;
    const int64_t rank = d->module->adapter_rank;
    const double hidden_bytes = emit_gathered_bytes(e, d->tokens, d->module->hidden);
    struct emitter own = *e; /* A and B are trained whatever the layer is */
    own.need.weight = true;
    for (int t = 0; t < ADAPTER_TARGET_COUNT; t++) {
        if (!has(d->module, t) || targets[t].place != place) continue;
        const struct shape s = shape_of(d, t);
        emit_stream(&own, targets[t].factor, OPERATOR_ELEMENTWISE, PASS_BACKWARD, 2, s.rows,
                    s.whole_out);
        if (s.row_parallel && d->sequence_parallel)
            emit_collective(e, "adapter output all-gather", OPERATOR_ALL_GATHER, PASS_BACKWARD,
                            hidden_bytes);
        emit_linear_input_gradient(&own, targets[t].b, e->activation, d->tokens, s.out, rank);
        emit_linear_weight_gradient(&own, targets[t].b, e->activation, d->tokens, s.out, rank);
        join_ranks(e, PASS_BACKWARD, true);
        emit_linear_input_gradient(&own, targets[t].a, e->activation, d->tokens, s.a_columns, s.in);
        emit_linear_weight_gradient(&own, targets[t].a, e->activation, d->tokens, s.a_columns,
                                    s.in);
        if (!s.row_parallel && !d->sequence_parallel)
            emit_collective(e, "adapter input all-reduce", OPERATOR_ALL_REDUCE, PASS_BACKWARD,
                            hidden_bytes);
        emit_stream(&own, targets[t].sum, OPERATOR_ELEMENTWISE, PASS_BACKWARD, 3, d->tokens, s.in);
    }
}
