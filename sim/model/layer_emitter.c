/* layer_emitter.c - what all layers share; the method is at the top of layer_operators.c. */
#include "sim/model/layer_emitter.h"

void emit_operator(struct emitter *e, struct operator_work work) {
    operator_list_push(e->out, work);
}

/* ---- leaves ---- */

void emit_formed_stream(struct emitter *e, const char *name, enum operator_kind kind,
                        enum operator_form form, enum operator_pass pass, double tensors,
                        int64_t rows, int64_t columns) {
    double bytes = tensors * (double)rows * (double)columns * (double)e->d->element_bytes;
    struct operator_work work = operator_streaming(name, kind, pass, e->activation, bytes);
    work.form = form;
    emit_operator(e, work);
}

enum operator_form emit_form_of_norm(enum norm_kind norm) {
    return norm == NORM_RMS ? FORM_RMS_NORM : FORM_LAYER_NORM;
}

void emit_stream(struct emitter *e, const char *name, enum operator_kind kind,
                 enum operator_pass pass, double tensors, int64_t rows, int64_t columns) {
    emit_formed_stream(e, name, kind,
                       kind == OPERATOR_NORM ? emit_form_of_norm(e->d->module->norm) : FORM_OTHER,
                       pass, tensors, rows, columns);
}

double emit_mask_tensors(const struct emitter *e) {
    return e->d->hidden_dropout ? 1.0 / (double)e->d->element_bytes : 0;
}

void emit_collective(struct emitter *e, const char *name, enum operator_kind kind,
                     enum operator_pass pass, double bytes) {
    if (e->d->tp > 1)
        emit_operator(e, operator_collective(name, kind, pass, COMMUNICATOR_TENSOR, bytes));
}

double emit_gathered_bytes(const struct emitter *e, int64_t tokens, int64_t columns) {
    return (double)tokens * (double)columns * (double)e->d->element_bytes;
}

/* What a block's matmul reads is gathered as the operand that it becomes: cast first on the shard,
 * then gathered (Transformer Engine pytorch/module, with_quantized_all_gather; torchao
 * PrepareFloat8ModuleInput). Sums are reduced in the activations' precision. */
static double gathered_operand_bytes(const struct emitter *e) {
    const double bytes = emit_gathered_bytes(e, e->d->tokens, e->d->module->hidden);
    return layer_kind_is_block(e->d->kind) && precision_is_quantised(e->matmul)
               ? bytes * precision_bytes(e->matmul) / (double)e->d->element_bytes
               : bytes;
}

static void move(struct emitter *e, const char *name, enum operator_pass pass, double bytes,
                 int64_t rows, int64_t columns) {
    if (bytes > 0)
        emit_operator(e, operator_streaming(name, OPERATOR_ELEMENTWISE, pass, PRECISION_BF16,
                                            bytes * (double)rows * (double)columns));
}

static void emit_linear(struct emitter *e, struct operator_work work) {
    work.odd_rows = e->d->odd_logits;
    work.recipe = e->d->fp8_recipe;
    emit_operator(e, work);
}

enum { TRANSPOSED_COPY_BYTES = 4 }; /* read and written in 16 bits */

/* Bytes an element moves when it becomes an operand, by rows and by columns (the backward matmuls
 * read it the other way round). Kernels of fp8 read 2 bytes and write 1 for each way, with a byte
 * of scales for every 32 where blocks have their own: compiled ones (torchao) go one way each,
 * others (Transformer Engine) both at once. One scale a tensor from its own maximum needs 2 bytes
 * more, unless the kernel before has found it: a pointwise one of the same compiled graph, or
 * Transformer Engine's norm and activation (its pull requests 2004 and 2013). fp4: 2 bytes are read
 * for the maximum over the tensor, for the cast by rows and for that by columns, which rotates them
 * first, and 0.5625 written by each cast (Transformer Engine pytorch/csrc/quantizer.cpp,
 * NVFP4Quantizer). */
static double written_bytes(const struct emitter *e) {
    const enum fp8_recipe recipe = e->d->fp8_recipe;
    const bool blocks = recipe == FP8_RECIPE_MXFP8 || recipe == FP8_RECIPE_BLOCKWISE;
    return precision_bytes(PRECISION_FP8) * (blocks ? 1 + 1.0 / 32 : 1);
}

static void cast_named(struct emitter *e, const char *name, enum operator_pass pass,
                       enum precision to, double bytes, int64_t out, int64_t in) {
    if (bytes <= 0) return;
    struct operator_work cast =
        operator_streaming(name, OPERATOR_ELEMENTWISE, pass, to, bytes * (double)out * (double)in);
    cast.form = FORM_STATED;
    emit_operator(e, cast);
}

static void cast_weight(struct emitter *e, enum operator_pass pass, enum precision to, double bytes,
                        int64_t out, int64_t in) {
    cast_named(e, pass == PASS_FORWARD ? "weight cast" : "weight cast by columns", pass, to, bytes,
               out, in);
}

/* torchao's linear layers cast their weight in each pass, forward by rows and backward by columns;
 * what FSDP gathered in fp8 is transposed for the backward (float8/float8_linear.py;
 * testing/training/roofline_utils.py has the kernels). */
static double weight_cast_bytes(const struct emitter *e, enum operator_pass pass,
                                enum precision precision) {
    if (!e->d->casts_weights || !precision_is_quantised(precision)) return 0;
    const bool forward = pass == PASS_FORWARD;
    if (precision == PRECISION_FP4) return (forward ? 4 : 2) + precision_bytes(PRECISION_FP4);
    if (e->d->weights_come_cast) return forward ? 0 : 2 * precision_bytes(PRECISION_FP8);
    const double one_way = 2 + written_bytes(e);
    switch (e->d->fp8_recipe) {
    case FP8_RECIPE_TENSORWISE:
        return forward ? 2 + one_way : one_way;
    case FP8_RECIPE_ROWWISE:
        return forward ? one_way : TRANSPOSED_COPY_BYTES + one_way;
    default:
        return one_way;
    }
}

void emit_base_cast(struct emitter *e, enum operator_pass pass, int64_t out, int64_t in) {
    if (e->d->module->fp32_base && !precision_is_single(e->activation))
        cast_named(e, "weight cast", pass, e->activation, 4 + precision_bytes(e->activation), out,
                   in);
}

void emit_linear_forward(struct emitter *e, const char *name, enum precision precision,
                         int64_t rows, int64_t out, int64_t in) {
    emit_base_cast(e, PASS_FORWARD, out, in);
    cast_weight(e, PASS_FORWARD, e->activation, weight_cast_bytes(e, PASS_FORWARD, precision), out,
                in);
    emit_linear(e, operator_matmul(name, PASS_FORWARD, precision, rows, out, in));
}

void emit_linear_input_gradient(struct emitter *e, const char *name, enum precision precision,
                                int64_t rows, int64_t out, int64_t in) {
    cast_weight(e, PASS_INPUT_GRADIENT, e->activation,
                weight_cast_bytes(e, PASS_INPUT_GRADIENT, precision), out, in);
    emit_linear(e, operator_matmul(name, PASS_INPUT_GRADIENT, precision, rows, in, out));
}

void emit_linear_weight_gradient(struct emitter *e, const char *name, enum precision precision,
                                 int64_t rows, int64_t out, int64_t in) {
    if (!e->need.weight) return;
    struct operator_work work =
        operator_matmul(name, PASS_WEIGHT_GRADIENT, precision, out, in, rows);
    if (!e->d->adds_in_matmul) operator_matmul_written_once(&work);
    emit_linear(e, work);
    /* torchao's gradients in rows are matmuls without scales, multiplied by them afterwards; that
     * of an input in the kernel that reads it (float8/float8_ops.py, post_inverse_scale). */
    if (precision == PRECISION_FP8 && e->d->fp8_recipe == FP8_RECIPE_ROWWISE)
        move(e, "weight gradient scales", PASS_WEIGHT_GRADIENT, 4, out, in);
}

static void stream_weight_gradient(struct emitter *e, const char *name, enum operator_form form,
                                   double bytes) {
    struct operator_work work =
        operator_streaming(name, OPERATOR_ELEMENTWISE, PASS_WEIGHT_GRADIENT, e->activation, bytes);
    work.form = form;
    emit_operator(e, work);
}

/* Copied: the product is cast to fp32 (2 bytes read, 4 written), then added (both read, and the sum
 * written). */
void emit_linear_weight_sum(struct emitter *e, const char *name, enum precision precision,
                            int64_t rows, int64_t out, int64_t in) {
    if (!e->need.weight) return;
    struct operator_work work =
        operator_matmul(name, PASS_WEIGHT_GRADIENT, precision, out, in, rows);
    operator_matmul_written_once(&work);
    const double weights = (double)out * (double)in, element = (double)e->d->element_bytes;
    if (e->d->chunked_head == CHUNKED_HEAD_ADDED) work.memory_bytes += element * weights;
    emit_linear(e, work);
    if (e->d->chunked_head == CHUNKED_HEAD_COPIED) {
        stream_weight_gradient(e, "weight gradient copy", FORM_STATED, (element + 4) * weights);
        stream_weight_gradient(e, "weight gradient sum", element < 4 ? FORM_MIXED_SUM : FORM_STATED,
                               (4 + 2 * element) * weights);
    } else if (e->d->chunk.sum_bytes > 0) {
        stream_weight_gradient(e, "weight gradient sum", FORM_STATED,
                               e->d->chunk.sum_bytes * weights);
    }
}

/* Frozen weights in fp32 are cast as those of any linear layer. */
void emit_head_cast(struct emitter *e, int64_t out, int64_t in) {
    if (e->d->chunk.autocasts && !e->need.weight) return;
    cast_weight(e, PASS_FORWARD, e->activation, e->d->chunk.cast_bytes, out, in);
}

/* Whether the kernel before writes the operand cast: its scale must be known by then. */
static bool comes_cast(const struct emitter *e, enum cast_of of) {
    if (e->d->fp8_recipe != FP8_RECIPE_DELAYED) return false;
    return (of == CAST_OF_NORM && (e->d->casts == CASTS_FUSED || e->d->casts == CASTS_NORM)) ||
           (of == CAST_OF_ACTIVATION && e->d->casts == CASTS_FUSED);
}

static double maximum_bytes(const struct emitter *e, enum cast_of of) {
    if (e->d->fp8_recipe != FP8_RECIPE_TENSORWISE) return 0;
    const bool found_before = e->d->casts == CASTS_DYNAMIC ? of != CAST_OF_ATTENTION
                              : e->d->casts == CASTS_LINEAR
                                  ? false
                                  : of == CAST_OF_NORM || of == CAST_OF_ACTIVATION;
    return found_before ? 0 : 2;
}

/* A scale for each column takes a kernel that reads columns as rows: the one before writes them so
 * (torchao/testing/training/roofline_utils.py). */
static double columns_bytes(const struct emitter *e) {
    return 2 + written_bytes(e) +
           (e->d->fp8_recipe == FP8_RECIPE_ROWWISE ? TRANSPOSED_COPY_BYTES / 2 : 0);
}

static double cast_bytes(const struct emitter *e, enum operator_pass pass, enum cast_of of) {
    if (e->matmul == PRECISION_FP4) return 6 + 2 * precision_bytes(PRECISION_FP4);
    if (comes_cast(e, of)) return 0;
    const double one_way = 2 + written_bytes(e), both_ways = 2 + 2 * written_bytes(e);
    const bool apart = e->d->casts == CASTS_DYNAMIC;
    return maximum_bytes(e, of) + (!apart                 ? both_ways
                                   : pass == PASS_FORWARD ? one_way
                                                          : one_way + columns_bytes(e));
}

void emit_cast(struct emitter *e, const char *name, enum operator_pass pass, enum cast_of of,
               int64_t rows, int64_t columns) {
    if (precision_is_quantised(e->matmul))
        move(e, name, pass, cast_bytes(e, pass, of), rows, columns);
}

/* Where the forward's cast wrote it by rows alone. */
void emit_cast_again(struct emitter *e, const char *name, enum cast_of of, int64_t rows,
                     int64_t columns) {
    if (e->matmul != PRECISION_FP8 || !e->need.weight) return;
    const bool by_norm = e->d->casts == CASTS_NORM && of == CAST_OF_NORM && comes_cast(e, of);
    const double bytes = e->d->casts == CASTS_DYNAMIC ? columns_bytes(e)
                         : by_norm                    ? 2 * precision_bytes(PRECISION_FP8)
                                                      : 0;
    move(e, name, PASS_BACKWARD, bytes, rows, columns);
}

/* ---- the frame around each half of a block ---- */

const struct half_names emitter_attention_half = {
    .norm = "attention norm",
    .gather = "attention all-gather",
    .saved_gather = "attention saved all-gather",
    .gradient_gather = "attention gradient all-gather",
    .reduce_scatter = "attention reduce-scatter",
    .all_reduce = "attention all-reduce",
    .residual = "attention residual",
    .residual_gradient = "attention residual gradient",
    .branch_norm = "attention branch norm",
    .modulation = "attention modulation",
};
const struct half_names emitter_mlp_half = {
    .norm = "mlp norm",
    .gather = "mlp all-gather",
    .saved_gather = "mlp saved all-gather",
    .gradient_gather = "mlp gradient all-gather",
    .reduce_scatter = "mlp reduce-scatter",
    .all_reduce = "mlp all-reduce",
    .residual = "mlp residual",
    .residual_gradient = "mlp residual gradient",
    .branch_norm = "mlp branch norm",
    .modulation = "mlp modulation",
};

/* Column-parallel projections that reduce the gradient of the half's input each by itself. */
static int64_t projection_count(const struct emitter *e, const struct half_names *half) {
    const struct layer_division *d = e->d;
    if (d->tensor_traffic < TENSOR_MERGED && !d->copies_inputs) return 1;
    if (half == &emitter_attention_half)
        return layer_division_attention_products(d, !d->branches_apart);
    return half == &emitter_mlp_half ? layer_division_up_products(d) : 1;
}

/* The same that copy what they read: a single block's branches, apart too, have one input. */
static int64_t copy_count(const struct emitter *e, const struct half_names *half) {
    const struct layer_division *d = e->d;
    if (half == &emitter_attention_half) return layer_division_attention_products(d, true);
    return half == &emitter_mlp_half ? layer_division_up_products(d) : 1;
}

/* `count` collectives of a whole activation, which DTensor cuts or joins along the sequence: the
 * library gathers and scatters rows of memory, so each takes a copy (torch.chunk and torch.cat of
 * _functional_collectives). */
static void emit_sequence_collectives(struct emitter *e, const char *name, enum operator_kind kind,
                                      enum operator_pass pass, double bytes, int64_t count) {
    for (int64_t i = 0; i < count; i++)
        emit_collective(e, name, kind, pass, bytes);
    if (e->d->tensor_traffic >= TENSOR_COPIED)
        emit_operator(e, operator_streaming("sequence copies", OPERATOR_ELEMENTWISE,
                                            pass == PASS_FORWARD ? PASS_FORWARD : PASS_BACKWARD,
                                            e->activation, 2 * bytes * (double)count));
}

static bool modulates_apart(const struct emitter *e, const struct half_names *half) {
    return e->d->modulation_apart && half->modulation != NULL;
}

/* What the half's projections take of their input before they read it, which may be gathered. */
void emit_input_forward(struct emitter *e, const struct half_names *half, bool gathered) {
    const struct layer_division *d = e->d;
    const bool each = d->tensor_traffic == TENSOR_EACH;
    if (d->sequence_parallel && (each || !gathered))
        emit_sequence_collectives(e, half->gather, OPERATOR_ALL_GATHER, PASS_FORWARD,
                                  gathered_operand_bytes(e), each ? projection_count(e, half) : 1);
    if (d->copies_inputs)
        emit_stream(e, "input copies", OPERATOR_ELEMENTWISE, PASS_FORWARD,
                    2 * (double)copy_count(e, half), d->tokens, d->module->hidden);
}

void emit_enter_forward(struct emitter *e, const struct half_names *half) {
    const struct layer_division *d = e->d;
    const int64_t hidden = d->module->hidden;
    emit_stream(e, half->norm, OPERATOR_NORM, PASS_FORWARD, 2, d->shard_tokens, hidden);
    if (modulates_apart(e, half)) /* a product and a sum, each read and written */
        emit_stream(e, half->modulation, OPERATOR_ELEMENTWISE, PASS_FORWARD, 4, d->shard_tokens,
                    hidden);
    emit_input_forward(e, half, false);
}

static bool has_branch_norm(const struct emitter *e, const struct half_names *half) {
    return e->d->module->branch_norm && half->branch_norm != NULL;
}

void emit_branch_forward(struct emitter *e, const struct half_names *half) {
    const struct layer_division *d = e->d;
    const int64_t hidden = d->module->hidden;
    const double bytes = emit_gathered_bytes(e, d->tokens, hidden);
    if (d->sequence_parallel)
        emit_sequence_collectives(e, half->reduce_scatter, OPERATOR_REDUCE_SCATTER, PASS_FORWARD,
                                  bytes, 1);
    else
        emit_collective(e, half->all_reduce, OPERATOR_ALL_REDUCE, PASS_FORWARD, bytes);
    if (has_branch_norm(e, half))
        emit_stream(e, half->branch_norm, OPERATOR_NORM, PASS_FORWARD, 2, d->shard_tokens, hidden);
}

void emit_sum_forward(struct emitter *e, const struct half_names *half, int64_t rows) {
    const struct layer_division *d = e->d;
    /* reads branch and residual, writes their sum; apart, dropout or the gate writes the branch
     * once more, which is read for the sum */
    const double tensors =
        3 + emit_mask_tensors(e) + (d->dropout_apart ? 2 : 0) + (modulates_apart(e, half) ? 2 : 0);
    emit_stream(e, half->residual, OPERATOR_ELEMENTWISE, PASS_FORWARD, tensors, rows,
                d->module->hidden);
}

void emit_leave_forward(struct emitter *e, const struct half_names *half) {
    emit_branch_forward(e, half);
    emit_sum_forward(e, half, e->d->shard_tokens);
}

void emit_sum_backward(struct emitter *e, const struct half_names *half, int64_t rows) {
    const struct layer_division *d = e->d;
    const struct module *m = d->module;
    /* The residual add itself passes the gradient on. Layer scale, or the gate of a modulated
     * block, reads and writes the gradient, and reads the branch for its own gradient, which also
     * sums the bias's; dropout reads and writes the gradient and reads its mask; a bias alone reads
     * it.
     */
    const bool gated = m->role == MODULE_DIFFUSION_DECODER && !half->ungated;
    double tensors = m->layer_scale || gated            ? (e->need.weight ? 3 : 2)
                     : d->hidden_dropout                ? 2
                     : m->linear_bias && e->need.weight ? 1
                                                        : 0;
    /* the branch's gradient (2), then the product for the gate's (3) and its sum (1) */
    if (modulates_apart(e, half) && e->need.weight) tensors += 3;
    tensors += emit_mask_tensors(e);
    if (tensors > 0)
        emit_stream(e, half->residual, OPERATOR_ELEMENTWISE, PASS_BACKWARD, tensors, rows,
                    m->hidden);
}

void emit_leave_backward(struct emitter *e, const struct half_names *half) {
    const struct layer_division *d = e->d;
    emit_sum_backward(e, half, d->shard_tokens);
    if (has_branch_norm(e, half))
        emit_stream(e, half->branch_norm, OPERATOR_NORM, PASS_BACKWARD, 3, d->shard_tokens,
                    d->module->hidden);
    if (d->sequence_parallel)
        emit_sequence_collectives(e, half->gradient_gather, OPERATOR_ALL_GATHER, PASS_BACKWARD,
                                  gathered_operand_bytes(e), 1);
}

void emit_gradient_sum(struct emitter *e, const struct half_names *half, enum operator_pass pass) {
    const struct layer_division *d = e->d;
    const double bytes = emit_gathered_bytes(e, d->tokens, d->module->hidden);
    if (d->sequence_parallel)
        emit_sequence_collectives(e, half->reduce_scatter, OPERATOR_REDUCE_SCATTER, pass, bytes,
                                  projection_count(e, half));
    else
        for (int64_t i = 0; i < projection_count(e, half); i++)
            emit_collective(e, half->all_reduce, OPERATOR_ALL_REDUCE, pass, bytes);
}

void emit_column_backward(struct emitter *e, const struct half_names *half, const char *name,
                          enum precision precision, int64_t out) {
    const struct layer_division *d = e->d;
    const int64_t hidden = d->module->hidden;
    const int64_t rows = d->kind == LAYER_HEAD ? d->head_tokens : d->tokens;
    const bool beside = d->tensor_traffic == TENSOR_BESIDE;
    /* What the reduction of the input gradient may hide behind follows it. */
    const enum operator_pass reduced = beside ? PASS_INPUT_GRADIENT : PASS_BACKWARD;
    if (d->sequence_parallel && e->need.weight && beside)
        emit_collective(e, half->saved_gather, OPERATOR_ALL_GATHER, PASS_WEIGHT_GRADIENT,
                        gathered_operand_bytes(e));
    emit_linear_input_gradient(e, name, precision, rows, out, hidden);
    emit_gradient_sum(e, half, reduced);
    emit_linear_weight_gradient(e, name, precision, rows, out, hidden);
}

void emit_linear_gradients(struct emitter *e, const struct half_names *half) {
    const struct layer_division *d = e->d;
    if (d->linear_gradients == LINEAR_GRADIENTS_FUSED) return;
    const bool attention = half == &emitter_attention_half;
    /* up too, of a single block */
    const bool both = attention && d->kind == LAYER_SINGLE_BLOCK && !d->branches_apart;
    const int64_t out = attention ? d->qkv_width + (both ? d->up_width : 0) : d->up_width;
    const int64_t sums = attention ? layer_division_attention_products(d, !d->branches_apart)
                                   : layer_division_up_products(d);
    /* a bias: the output's gradient is read once more; joined: read and written; added: two are
     * read and one written */
    double columns = 0;
    if (e->need.weight && (attention ? d->module->qkv_bias : d->module->linear_bias))
        columns += (double)out;
    if (d->linear_gradients == LINEAR_GRADIENTS_APART)
        columns += (double)(sums - 1) * 3 * (double)d->module->hidden;
    else if (attention)
        columns += 2 * (double)out;
    if (!(columns > 0)) return;
    struct operator_work work =
        operator_streaming("linear gradients", OPERATOR_ELEMENTWISE, PASS_BACKWARD, e->activation,
                           emit_gathered_bytes(e, d->tokens, 1) * columns);
    work.form = FORM_STATED;
    emit_operator(e, work);
}

void emit_enter_backward(struct emitter *e, const struct half_names *half) {
    const struct layer_division *d = e->d;
    /* the scaled gradient (2); the product for the scale's (3), its sum and the shift's (2) */
    if (modulates_apart(e, half))
        emit_stream(e, half->modulation, OPERATOR_ELEMENTWISE, PASS_BACKWARD,
                    e->need.weight ? 7 : 2, d->shard_tokens, d->module->hidden);
    /* the norm reads its input and a gradient and writes one */
    emit_stream(e, half->norm, OPERATOR_NORM, PASS_BACKWARD, 3, d->shard_tokens, d->module->hidden);
    emit_residual_gradient(e, half);
}

void emit_residual_gradient(struct emitter *e, const struct half_names *half) {
    if (half->residual_gradient != NULL)
        emit_stream(e, half->residual_gradient, OPERATOR_ELEMENTWISE, PASS_BACKWARD, 3,
                    e->d->shard_tokens, e->d->module->hidden);
}
