/* layer_block.c - the transformer blocks; the method is at the top of layer_operators.c.
 *
 * Blocks of a diffusion decoder that attend to video and text at once (Esser et al. 2024, Stable
 * Diffusion 3, arXiv 2403.03206, section 4; black-forest-labs/flux src/flux/modules/layers.py;
 * Kong et al. 2024, HunyuanVideo, arXiv 2412.03603, section 4.3) are of two kinds. A joint block
 * (double stream) is two blocks of one shape, one for the tokens of the video and one for those of
 * the text, each with norms, modulation and matrices of its own, around one attention:
 *
 *     qkv of the video | qkv of the text | joined | attention | proj, feed-forward of either
 *
 * A single block (single stream) takes both as one sequence through one set of matrices, and runs
 * attention and feed-forward network side by side from one norm: q, k, v and up are one matmul, so
 * are proj and down, and there is one gate (Flux, Hunyuan; the parallel branches of Dehghani et al.
 * 2023, ViT-22B, arXiv 2302.05442, section 2):
 *
 *     norm | q, k, v and up | attention, activation | joined | proj and down | residual
 *
 * Joined means copied: what the rotary kernel writes anew is joined on the way, unless kernels run
 * as they are written (modulation_apart), values always, and queries and keys where there is no
 * rotary. The result of a single block's attention is copied beside the activation, which is
 * written there, unless as before.
 *
 * Megatron-core's Flux (NeMo, FluxSingleTransformerBlock) runs a single block's branches apart,
 * each with its two matmuls and its sum over ranks, and adds them (branches_apart).
 *
 * Under context parallelism video and text are cut alike (torchtitan, Diffusers).
 *
 * Where this stops being true: the text's half of the last joint block is counted whole where no
 * single block follows, although nobody reads its output (its backward does not run).
 */
#include "sim/model/layer_block.h"

#include <string.h>
#include "sim/model/diffusion_layers.h"
#include "sim/model/layer_adapters.h"
#include "sim/model/layer_attention.h"

/* ---- parts ---- */

/* Two sums of squares per token, of queries and of keys, when the norm spans heads of other ranks.
 */
static void qk_norm(struct emitter *e, enum operator_pass pass) {
    const struct layer_division *d = e->d;
    const struct module *m = d->module;
    if (!m->qk_norm) return;
    if (!m->qk_norm_per_head)
        emit_collective(e, "qk norm all-reduce", OPERATOR_ALL_REDUCE, pass,
                        2.0 * 4.0 * (double)d->tokens);
    emit_formed_stream(e, "qk norm", OPERATOR_NORM, emit_form_of_norm(m->qk_norm_kind), pass,
                       pass == PASS_FORWARD ? 2 : 3, d->tokens, d->query_width + d->kv_width);
}

static void rotary(struct emitter *e, enum operator_pass pass) {
    const struct layer_division *d = e->d;
    if (d->module->position == POSITION_ROTARY)
        emit_formed_stream(e, "rotary", OPERATOR_ELEMENTWISE, FORM_ROTARY, pass, 2,
                           d->attention_tokens, d->query_width + d->kv_width);
}

/* Reads what the up matmul wrote and writes what the down matmul reads; its backward reads both
 * gradients' tensors and writes the first. */
static void activation(struct emitter *e, enum operator_pass pass) {
    const struct layer_division *d = e->d;
    static const enum operator_form forms[] = {
        [FFN_GELU] = FORM_GELU,   [FFN_QUICK_GELU] = FORM_QUICK_GELU, [FFN_SWIGLU] = FORM_SWIGLU,
        [FFN_RELU2] = FORM_RELU2, [FFN_GELU_NEW] = FORM_GELU_NEW,
    };
    _Static_assert(sizeof forms / sizeof forms[0] == FFN_KIND_COUNT, "a form per activation");
    const enum operator_form form = forms[d->module->ffn];
    if (pass == PASS_BACKWARD && d->remakes_activation && e->need.weight)
        emit_formed_stream(e, "activation again", OPERATOR_ELEMENTWISE, form, pass, 1, d->tokens,
                           d->up_width + d->ffn_width);
    emit_formed_stream(e, "activation", OPERATOR_ELEMENTWISE, form, pass, 1, d->tokens,
                       pass == PASS_FORWARD ? d->up_width + d->ffn_width
                                            : 2 * d->up_width + d->ffn_width);
}

static void qkv_forward(struct emitter *e) {
    const struct layer_division *d = e->d;
    const int64_t hidden = d->module->hidden;
    emit_enter_forward(e, &emitter_attention_half);
    emit_cast(e, "qkv cast", PASS_FORWARD, CAST_OF_NORM, d->tokens, hidden);
    emit_linear_forward(e, "qkv", e->matmul, d->tokens, d->qkv_width, hidden);
    emit_adapters_forward(e, ADAPTER_OF_QKV);
    qk_norm(e, PASS_FORWARD);
}

/* The gradients inside a block are needed whenever it runs backward at all: the weights of its
 * lowest norm ask for them even if nothing below is trainable. */
static void qkv_backward(struct emitter *e) {
    const struct layer_division *d = e->d;
    const int64_t hidden = d->module->hidden;
    qk_norm(e, PASS_BACKWARD);
    emit_adapters_backward(e, ADAPTER_OF_QKV);
    emit_linear_gradients(e, &emitter_attention_half);
    emit_cast(e, "qkv cast", PASS_BACKWARD, CAST_OF_OTHER, d->tokens, d->qkv_width);
    emit_cast_again(e, "qkv operand", CAST_OF_NORM, d->tokens, hidden);
    emit_column_backward(e, &emitter_attention_half, "qkv", e->matmul, d->qkv_width);
    emit_enter_backward(e, &emitter_attention_half);
}

static void attention_forward(struct emitter *e) {
    const struct layer_division *d = e->d;
    attention_unpad(d, PASS_FORWARD, e->activation, e->out);
    context_exchange_before(d, PASS_FORWARD, e->out); /* a ring stands right before attention */
    core_attention(d, PASS_FORWARD, e->activation, e->out);
    context_exchange_after(d, PASS_FORWARD, e->activation, e->out);
}

static void attention_backward(struct emitter *e) {
    const struct layer_division *d = e->d;
    context_exchange_before(d, PASS_BACKWARD, e->out);
    core_attention(d, PASS_BACKWARD, e->activation, e->out);
    attention_unpad(d, PASS_BACKWARD, e->activation, e->out);
    context_exchange_after(d, PASS_BACKWARD, e->activation, e->out);
}

static bool is_parallel(const struct emitter *e) {
    return e->d->module->parallel_residual != PARALLEL_RESIDUAL_NO;
}

static bool shares_norm(const struct emitter *e) {
    return e->d->module->parallel_residual == PARALLEL_RESIDUAL_ONE_NORM;
}

static void proj_forward(struct emitter *e) {
    const struct layer_division *d = e->d;
    emit_cast(e, "proj cast", PASS_FORWARD, CAST_OF_ATTENTION, d->tokens, d->query_width);
    emit_linear_forward(e, "proj", e->matmul, d->tokens, d->module->hidden, d->query_width);
    emit_adapters_forward(e, ADAPTER_OF_PROJ);
    if (is_parallel(e)) /* added to the other branch before TP ranks sum both */
        emit_sum_forward(e, &emitter_attention_half, d->tokens);
    else
        emit_leave_forward(e, &emitter_attention_half);
}

static void proj_backward(struct emitter *e) {
    const struct layer_division *d = e->d;
    const int64_t hidden = d->module->hidden;
    if (is_parallel(e)) /* gathered for the other branch */
        emit_sum_backward(e, &emitter_attention_half, d->tokens);
    else
        emit_leave_backward(e, &emitter_attention_half);
    emit_adapters_backward(e, ADAPTER_OF_PROJ);
    emit_cast(e, "proj cast", PASS_BACKWARD, CAST_OF_OTHER, d->tokens, hidden);
    emit_cast_again(e, "proj operand", CAST_OF_ATTENTION, d->tokens, d->query_width);
    emit_linear_input_gradient(e, "proj", e->matmul, d->tokens, hidden, d->query_width);
    emit_linear_weight_gradient(e, "proj", e->matmul, d->tokens, hidden, d->query_width);
}

static void up_forward(struct emitter *e) {
    const struct layer_division *d = e->d;
    const int64_t hidden = d->module->hidden;
    emit_cast(e, "up cast", PASS_FORWARD, CAST_OF_NORM, d->tokens, hidden);
    emit_linear_forward(e, "up", e->matmul, d->tokens, d->up_width, hidden);
    emit_adapters_forward(e, ADAPTER_OF_UP);
    activation(e, PASS_FORWARD);
}

static void down_forward(struct emitter *e) {
    const struct layer_division *d = e->d;
    const int64_t hidden = d->module->hidden;
    emit_cast(e, "down cast", PASS_FORWARD, CAST_OF_ACTIVATION, d->tokens, d->ffn_width);
    emit_linear_forward(e, "down", e->matmul, d->tokens, hidden, d->ffn_width);
    emit_adapters_forward(e, ADAPTER_OF_DOWN);
}

static void enter_mlp_forward(struct emitter *e) {
    if (shares_norm(e))
        emit_input_forward(e, &emitter_mlp_half, true);
    else
        emit_enter_forward(e, &emitter_mlp_half);
}

static void mlp_forward(struct emitter *e) {
    enter_mlp_forward(e);
    up_forward(e);
    down_forward(e);
    emit_leave_forward(e, &emitter_mlp_half);
}

static void down_backward(struct emitter *e) {
    const struct layer_division *d = e->d;
    const int64_t hidden = d->module->hidden;
    emit_adapters_backward(e, ADAPTER_OF_DOWN);
    emit_cast(e, "down cast", PASS_BACKWARD, CAST_OF_OTHER, d->tokens, hidden);
    emit_cast_again(e, "down operand", CAST_OF_ACTIVATION, d->tokens, d->ffn_width);
    emit_linear_input_gradient(e, "down", e->matmul, d->tokens, hidden, d->ffn_width);
    emit_linear_weight_gradient(e, "down", e->matmul, d->tokens, hidden, d->ffn_width);
}

static void up_backward(struct emitter *e) {
    const struct layer_division *d = e->d;
    const int64_t hidden = d->module->hidden;
    activation(e, PASS_BACKWARD);
    emit_adapters_backward(e, ADAPTER_OF_UP);
    emit_linear_gradients(e, &emitter_mlp_half);
    emit_cast(e, "up cast", PASS_BACKWARD, CAST_OF_ACTIVATION, d->tokens, d->up_width);
    emit_cast_again(e, "up operand", CAST_OF_NORM, d->tokens, hidden);
    emit_column_backward(e, &emitter_mlp_half, "up", e->matmul, d->up_width);
}

static void mlp_backward(struct emitter *e) {
    emit_leave_backward(e, &emitter_mlp_half);
    down_backward(e);
    up_backward(e);
    if (shares_norm(e)) /* the two gradients of what the norm wrote */
        emit_residual_gradient(e, &emitter_mlp_half);
    else
        emit_enter_backward(e, &emitter_mlp_half);
}

/* ---- block ---- */

void block_forward(struct emitter *e) {
    block_modulation_forward(e);
    qkv_forward(e);
    rotary(e, PASS_FORWARD);
    attention_forward(e);
    proj_forward(e);
    if (e->d->kind == LAYER_DIFFUSION_BLOCK) cross_attention_forward(e);
    mlp_forward(e);
}

void block_backward(struct emitter *e) {
    mlp_backward(e);
    if (e->d->kind == LAYER_DIFFUSION_BLOCK) cross_attention_backward(e);
    proj_backward(e);
    attention_backward(e);
    rotary(e, PASS_BACKWARD);
    qkv_backward(e);
    block_modulation_backward(e);
}

/* torchtitan's policy counts the matmuls q, k, v, proj, gate, up, down and keeps the outputs of the
 * odd ones, of attention and of reduce-scatters; all else runs again until every kept tensor is
 * back, so never down. With fp8 it counts them too: a policy sees aten.mm on Float8Tensor operands,
 * and its runs in fp8 take as much memory as those in bf16 (76.8 and 77.0 GiB, 61.8 and 62.0;
 * pytorch/torchtitan benchmarks/llama3_h100_202412_torchtitan.md). */
void block_selective_forward(struct emitter *e) {
    const struct layer_division *d = e->d;
    const int64_t hidden = d->module->hidden;
    const bool gated = d->up_width > d->ffn_width;
    emit_enter_forward(e, &emitter_attention_half);
    emit_cast(e, "qkv cast", PASS_FORWARD, CAST_OF_NORM, d->tokens, hidden);
    emit_linear_forward(e, "qkv", e->matmul, d->tokens, d->kv_width, hidden);
    qk_norm(e, PASS_FORWARD);
    rotary(e, PASS_FORWARD);
    if (!is_parallel(e)) { /* else the MLP reads the block's input */
        emit_cast(e, "proj cast", PASS_FORWARD, CAST_OF_ATTENTION, d->tokens, d->query_width);
        emit_linear_forward(e, "proj", e->matmul, d->tokens, hidden, d->query_width);
        emit_leave_forward(e, &emitter_attention_half);
    }
    enter_mlp_forward(e);
    emit_cast(e, "up cast", PASS_FORWARD, CAST_OF_NORM, d->tokens, hidden);
    if (gated) emit_linear_forward(e, "up", e->matmul, d->tokens, d->ffn_width, hidden);
    activation(e, PASS_FORWARD);
    emit_cast(e, "down cast", PASS_FORWARD, CAST_OF_ACTIVATION, d->tokens, d->ffn_width);
    if (d->module->branch_norm) emit_branch_forward(e, &emitter_mlp_half);
}

/* ---- joint block ---- */

#define TEXT_NAME(name)                                                                            \
    { name, "text " name }
#define TEXT_ADAPTER(layer)                                                                        \
    TEXT_NAME(layer " adapter A"), TEXT_NAME(layer " adapter B"),                                  \
        TEXT_NAME(layer " adapter factor"), TEXT_NAME(layer " adapter sum")
static const char *const text_names[][2] = {
    TEXT_NAME("modulation"),
    TEXT_NAME("modulation all-gather"),
    TEXT_NAME("modulation all-reduce"),
    TEXT_NAME("attention norm"),
    TEXT_NAME("attention modulation"),
    TEXT_NAME("attention all-gather"),
    TEXT_NAME("attention saved all-gather"),
    TEXT_NAME("attention gradient all-gather"),
    TEXT_NAME("attention reduce-scatter"),
    TEXT_NAME("attention all-reduce"),
    TEXT_NAME("attention residual"),
    TEXT_NAME("attention residual gradient"),
    TEXT_NAME("input copies"),
    TEXT_NAME("qkv cast"),
    TEXT_NAME("qkv operand"),
    TEXT_NAME("qkv"),
    TEXT_NAME("qk norm all-reduce"),
    TEXT_NAME("qk norm"),
    TEXT_NAME("proj cast"),
    TEXT_NAME("proj operand"),
    TEXT_NAME("proj"),
    TEXT_NAME("mlp norm"),
    TEXT_NAME("mlp modulation"),
    TEXT_NAME("mlp all-gather"),
    TEXT_NAME("mlp saved all-gather"),
    TEXT_NAME("mlp gradient all-gather"),
    TEXT_NAME("mlp reduce-scatter"),
    TEXT_NAME("mlp all-reduce"),
    TEXT_NAME("mlp residual"),
    TEXT_NAME("mlp residual gradient"),
    TEXT_NAME("up cast"),
    TEXT_NAME("up operand"),
    TEXT_NAME("up"),
    TEXT_NAME("activation"),
    TEXT_NAME("activation again"),
    TEXT_NAME("down cast"),
    TEXT_NAME("down operand"),
    TEXT_NAME("down"),
    TEXT_NAME("sequence copies"),
    TEXT_NAME("weight gradient scales"),
    TEXT_NAME("weight cast"),
    TEXT_NAME("weight cast by columns"),
    TEXT_NAME("linear gradients"),
    TEXT_ADAPTER("q"),
    TEXT_ADAPTER("k"),
    TEXT_ADAPTER("v"),
    TEXT_ADAPTER("qkv"),
    TEXT_ADAPTER("proj"),
    TEXT_ADAPTER("gate"),
    TEXT_ADAPTER("up"),
    TEXT_ADAPTER("gate and up"),
    TEXT_ADAPTER("down"),
    TEXT_NAME("adapter all-reduce"),
    TEXT_NAME("adapter all-gather"),
    TEXT_NAME("adapter output all-gather"),
    TEXT_NAME("adapter output all-to-all"),
    TEXT_NAME("adapter output copies"),
    TEXT_NAME("adapter input all-reduce"),
};

/* Tells the text's kernels from the video's, so that rules and readers can. */
static void name_text_operators(struct operator_list *out, int64_t first) {
    for (int64_t i = first; i < out->count; i++)
        for (size_t k = 0; k < sizeof text_names / sizeof text_names[0]; k++)
            if (strcmp(out->operators[i].name, text_names[k][0]) == 0) {
                out->operators[i].name = text_names[k][1];
                break;
            }
}

/* A part of the block for the video, then for the text; backward the other way round. */
static void run_streams(struct emitter *e, void (*part)(struct emitter *e), bool backward) {
    const struct layer_division of_text = layer_division_text(e->d);
    struct emitter text = *e;
    text.d = &of_text;
    for (int turn = 0; turn < 2; turn++) {
        const bool is_text = (turn == 1) != backward;
        if (is_text && of_text.tokens == 0) continue;
        const int64_t first = e->out->count;
        part(is_text ? &text : e);
        if (is_text) name_text_operators(e->out, first);
    }
}

/* Read and written. */
static void join_streams(struct emitter *e, enum operator_pass pass) {
    const struct layer_division *d = e->d;
    const bool on_the_way = d->module->position == POSITION_ROTARY && !d->modulation_apart;
    const int64_t columns = on_the_way ? d->kv_width : d->qkv_width;
    if (d->text_tokens == 0) return;
    emit_stream(e, "joined streams", OPERATOR_ELEMENTWISE, pass, 2, d->attention_tokens, columns);
}

void joint_block_forward(struct emitter *e) {
    run_streams(e, block_modulation_forward, false);
    run_streams(e, qkv_forward, false);
    rotary(e, PASS_FORWARD);
    join_streams(e, PASS_FORWARD);
    attention_forward(e);
    run_streams(e, proj_forward, false);
    run_streams(e, mlp_forward, false);
}

void joint_block_backward(struct emitter *e) {
    run_streams(e, mlp_backward, true);
    run_streams(e, proj_backward, true);
    attention_backward(e);
    join_streams(e, PASS_BACKWARD);
    rotary(e, PASS_BACKWARD);
    run_streams(e, qkv_backward, true);
    run_streams(e, block_modulation_backward, true);
}

/* ---- single block ---- */

/* Attention's result beside the activation, which the activation's kernel writes there. */
static void join_branches(struct emitter *e, enum operator_pass pass) {
    const struct layer_division *d = e->d;
    const int64_t columns = d->query_width + (d->modulation_apart ? d->ffn_width : 0);
    emit_stream(e, "joined branches", OPERATOR_ELEMENTWISE, pass, 2, d->tokens, columns);
}

/* Two matmuls each way for one, and what adds the branches. */
static void branches_apart_forward(struct emitter *e) {
    const struct layer_division *d = e->d;
    const int64_t hidden = d->module->hidden;
    qkv_forward(e);
    up_forward(e);
    rotary(e, PASS_FORWARD);
    attention_forward(e);
    emit_cast(e, "proj cast", PASS_FORWARD, CAST_OF_ATTENTION, d->tokens, d->query_width);
    emit_linear_forward(e, "proj", e->matmul, d->tokens, hidden, d->query_width);
    emit_branch_forward(e, &emitter_attention_half);
    down_forward(e);
    emit_stream(e, "branch sum", OPERATOR_ELEMENTWISE, PASS_FORWARD, 3, d->shard_tokens, hidden);
    emit_leave_forward(e, &emitter_mlp_half);
}

/* Both branches pass the gradient on, and theirs of the one input are added. */
static void branches_apart_backward(struct emitter *e) {
    const struct layer_division *d = e->d;
    const int64_t hidden = d->module->hidden;
    emit_leave_backward(e, &emitter_mlp_half);
    down_backward(e);
    emit_cast(e, "proj cast", PASS_BACKWARD, CAST_OF_OTHER, d->tokens, hidden);
    emit_cast_again(e, "proj operand", CAST_OF_ATTENTION, d->tokens, d->query_width);
    emit_linear_input_gradient(e, "proj", e->matmul, d->tokens, hidden, d->query_width);
    emit_linear_weight_gradient(e, "proj", e->matmul, d->tokens, hidden, d->query_width);
    attention_backward(e);
    rotary(e, PASS_BACKWARD);
    up_backward(e);
    emit_stream(e, "branch gradient sum", OPERATOR_ELEMENTWISE, PASS_BACKWARD, 3, d->shard_tokens,
                hidden);
    qkv_backward(e);
}

void single_block_forward(struct emitter *e) {
    const struct layer_division *d = e->d;
    const int64_t hidden = d->module->hidden;
    block_modulation_forward(e);
    if (d->branches_apart) {
        branches_apart_forward(e);
        return;
    }
    emit_enter_forward(e, &emitter_attention_half);
    emit_cast(e, "qkv and up cast", PASS_FORWARD, CAST_OF_NORM, d->tokens, hidden);
    emit_linear_forward(e, "qkv and up", e->matmul, d->tokens, d->qkv_width + d->up_width, hidden);
    emit_adapters_forward(e, ADAPTER_OF_QKV);
    emit_adapters_forward(e, ADAPTER_OF_UP);
    qk_norm(e, PASS_FORWARD);
    rotary(e, PASS_FORWARD);
    attention_forward(e);
    activation(e, PASS_FORWARD);
    join_branches(e, PASS_FORWARD);
    emit_cast(e, "proj and down cast", PASS_FORWARD, CAST_OF_OTHER, d->tokens,
              d->query_width + d->ffn_width);
    emit_linear_forward(e, "proj and down", e->matmul, d->tokens, hidden,
                        d->query_width + d->ffn_width);
    emit_adapters_forward(e, ADAPTER_OF_DOWN);
    emit_leave_forward(e, &emitter_attention_half);
}

void single_block_backward(struct emitter *e) {
    const struct layer_division *d = e->d;
    const int64_t hidden = d->module->hidden, in = d->query_width + d->ffn_width;
    if (d->branches_apart) {
        branches_apart_backward(e);
        block_modulation_backward(e);
        return;
    }
    emit_leave_backward(e, &emitter_attention_half);
    emit_adapters_backward(e, ADAPTER_OF_DOWN);
    emit_cast(e, "proj and down cast", PASS_BACKWARD, CAST_OF_OTHER, d->tokens, hidden);
    emit_cast_again(e, "proj and down operand", CAST_OF_OTHER, d->tokens, in);
    emit_linear_input_gradient(e, "proj and down", e->matmul, d->tokens, hidden, in);
    emit_linear_weight_gradient(e, "proj and down", e->matmul, d->tokens, hidden, in);
    join_branches(e, PASS_BACKWARD);
    activation(e, PASS_BACKWARD);
    attention_backward(e);
    rotary(e, PASS_BACKWARD);
    qk_norm(e, PASS_BACKWARD);
    emit_adapters_backward(e, ADAPTER_OF_UP);
    emit_adapters_backward(e, ADAPTER_OF_QKV);
    emit_linear_gradients(e, &emitter_attention_half);
    emit_cast(e, "qkv and up cast", PASS_BACKWARD, CAST_OF_OTHER, d->tokens,
              d->qkv_width + d->up_width);
    emit_cast_again(e, "qkv and up operand", CAST_OF_NORM, d->tokens, hidden);
    emit_column_backward(e, &emitter_attention_half, "qkv and up", e->matmul,
                         d->qkv_width + d->up_width);
    emit_enter_backward(e, &emitter_attention_half);
    block_modulation_backward(e);
}
