/* layer_adapters.c - the kernels of A, B and what joins them to their layer.
 *
 * Unfused, as NeMo's ParallelLinearAdapter, PEFT's lora.Linear and torchtune's LoRALinear run them:
 * two matmuls in 16 bits, one kernel for the factor alpha / r, one for the sum; backward two
 * matmuls each, the factor, and the sum of two gradients of the input. Dropout of the input is not
 * counted.
 *
 * A column-parallel layer's B is divided with it and A is whole; a row-parallel layer's A is divided
 * and B computes the rows of its shard. The r columns between them are summed over ranks, forward
 * where A is divided, backward where B is.
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

static int64_t input_width(const struct layer_division *d, enum adapter_place place) {
    switch (place) {
    case ADAPTER_OF_PROJ:
        return d->query_width;
    case ADAPTER_OF_DOWN:
        return d->ffn_width;
    case ADAPTER_OF_QKV:
    case ADAPTER_OF_UP:
        break;
    }
    return d->module->hidden;
}

static int64_t output_width(const struct layer_division *d, int target) {
    switch ((enum adapter_target)target) {
    case ADAPTER_Q:
        return d->query_width;
    case ADAPTER_K:
    case ADAPTER_V:
        return d->kv_width;
    case ADAPTER_QKV:
        return d->qkv_width;
    case ADAPTER_GATE:
    case ADAPTER_UP:
        return d->ffn_width;
    case ADAPTER_GATE_UP:
        return d->up_width;
    case ADAPTER_PROJ:
    case ADAPTER_DOWN:
    case ADAPTER_TARGET_COUNT:
        break;
    }
    return d->module->hidden;
}

static bool is_row_parallel(enum adapter_place place) {
    return place == ADAPTER_OF_PROJ || place == ADAPTER_OF_DOWN;
}

int64_t adapter_count(const struct module *module, enum adapter_place place) {
    int64_t count = 0;
    for (int t = 0; t < ADAPTER_TARGET_COUNT; t++)
        count += has(module, t) && targets[t].place == place;
    return count;
}

int64_t adapter_parameters(const struct layer_division *d) {
    int64_t count = 0;
    for (int t = 0; t < ADAPTER_TARGET_COUNT; t++)
        if (has(d->module, t))
            count +=
                d->module->adapter_rank * (input_width(d, targets[t].place) + output_width(d, t));
    return count;
}

/* The sum of the r columns over tensor-parallel ranks. */
static void sum_ranks(struct emitter *e, enum operator_pass pass) {
    emit_collective(e, "adapter all-reduce", OPERATOR_ALL_REDUCE, pass,
                    emit_gathered_bytes(e, e->d->tokens, e->d->module->adapter_rank));
}

void emit_adapters_forward(struct emitter *e, enum adapter_place place) {
    const struct layer_division *d = e->d;
    const int64_t rank = d->module->adapter_rank;
    const bool divided_a = is_row_parallel(place);
    const int64_t rows = divided_a ? d->shard_tokens : d->tokens;
    for (int t = 0; t < ADAPTER_TARGET_COUNT; t++) {
        if (!has(d->module, t) || targets[t].place != place) continue;
        const int64_t out = output_width(d, t);
        emit_linear_forward(e, targets[t].a, e->activation, d->tokens, rank, input_width(d, place));
        if (divided_a) sum_ranks(e, PASS_FORWARD);
        emit_linear_forward(e, targets[t].b, e->activation, rows, out, rank);
        emit_stream(e, targets[t].factor, OPERATOR_ELEMENTWISE, PASS_FORWARD, 2, rows, out);
        emit_stream(e, targets[t].sum, OPERATOR_ELEMENTWISE, PASS_FORWARD, 3, rows, out);
    }
}

void emit_adapters_backward(struct emitter *e, enum adapter_place place) {
    const struct layer_division *d = e->d;
    const int64_t rank = d->module->adapter_rank, in = input_width(d, place);
    const bool divided_a = is_row_parallel(place);
    const int64_t rows = divided_a ? d->shard_tokens : d->tokens;
    struct emitter own = *e; /* A and B are trained whatever the layer is */
    own.need.weight = true;
    for (int t = 0; t < ADAPTER_TARGET_COUNT; t++) {
        if (!has(d->module, t) || targets[t].place != place) continue;
        const int64_t out = output_width(d, t);
        emit_stream(&own, targets[t].factor, OPERATOR_ELEMENTWISE, PASS_BACKWARD, 2, rows, out);
        emit_linear_input_gradient(&own, targets[t].b, e->activation, rows, out, rank);
        emit_linear_weight_gradient(&own, targets[t].b, e->activation, rows, out, rank);
        if (!divided_a) sum_ranks(e, PASS_BACKWARD);
        emit_linear_input_gradient(&own, targets[t].a, e->activation, d->tokens, rank, in);
        emit_linear_weight_gradient(&own, targets[t].a, e->activation, d->tokens, rank, in);
        emit_stream(&own, targets[t].sum, OPERATOR_ELEMENTWISE, PASS_BACKWARD, 3, d->tokens, in);
    }
}
