/* layer_emitter.h - appends the operators that all kinds of layers are made of: kernels, matmuls,
 * and the collectives of tensor and sequence parallelism around each branch. Private to sim/model.
 */
#ifndef BALLAST_SIM_MODEL_LAYER_EMITTER_H
#define BALLAST_SIM_MODEL_LAYER_EMITTER_H

#include "sim/model/layer_division.h"

struct emitter {
    const struct layer_division *d;
    const struct batch_shape *shape;
    const struct module *connector; /* of the model, absent if layer_count is 0 */
    enum precision matmul;          /* blocks and connector */
    enum precision activation;      /* everything else: fp8 and fp4 are for matmuls of blocks */
    struct gradient_need need;
    struct operator_list *out;
};

/* The frame around a branch of a block, and around the head. */
struct half_names {
    const char *norm, *gather, *saved_gather, *gradient_gather, *reduce_scatter, *all_reduce;
    const char *residual, *residual_gradient;
    const char *branch_norm; /* of models that have it; NULL: the half never has */
    const char *modulation;  /* of a diffusion block's norm; NULL: the half never has */
    bool ungated;            /* no modulation of the branch: cross attention */
};
extern const struct half_names emitter_attention_half, emitter_mlp_half;

void emit_operator(struct emitter *e, struct operator_work work);
/* A kernel that moves `tensors` tensors of rows x columns activations through memory; of a norm,
 * the module's. */
void emit_stream(struct emitter *e, const char *name, enum operator_kind kind,
                 enum operator_pass pass, double tensors, int64_t rows, int64_t columns);
/* The same of a kernel that frameworks run in different ways. */
void emit_formed_stream(struct emitter *e, const char *name, enum operator_kind kind,
                        enum operator_form form, enum operator_pass pass, double tensors,
                        int64_t rows, int64_t columns);
enum operator_form emit_form_of_norm(enum norm_kind norm);
/* The mask of a dropout beside tensors of activations. */
double emit_mask_tensors(const struct emitter *e);
/* Nothing without tensor parallelism. */
void emit_collective(struct emitter *e, const char *name, enum operator_kind kind,
                     enum operator_pass pass, double bytes);
/* The gathered activations that a collective of this layer handles. */
double emit_gathered_bytes(const struct emitter *e, int64_t tokens, int64_t columns);

/* (rows x in) (in x out), and its gradients; that of the weight only if the layer is trained. */
void emit_linear_forward(struct emitter *e, const char *name, enum precision precision,
                         int64_t rows, int64_t out, int64_t in);
void emit_linear_input_gradient(struct emitter *e, const char *name, enum precision precision,
                                int64_t rows, int64_t out, int64_t in);
void emit_linear_weight_gradient(struct emitter *e, const char *name, enum precision precision,
                                 int64_t rows, int64_t out, int64_t in);
/* The same of some rows among many, whose product joins that of the others (enum
 * stack_chunked_head). */
void emit_linear_weight_sum(struct emitter *e, const char *name, enum precision precision,
                            int64_t rows, int64_t out, int64_t in);
/* Autocast's of a frozen weight in fp32, which it does not keep. */
void emit_base_cast(struct emitter *e, enum operator_pass pass, int64_t out, int64_t in);
/* Casts of the weight of a head whose logits are made for some rows. */
void emit_head_cast(struct emitter *e, int64_t out, int64_t in);

/* What wrote the operand that is cast: a gradient that comes from a residual's sum is of
 * neither. */
enum cast_of { CAST_OF_NORM, CAST_OF_ACTIVATION, CAST_OF_ATTENTION, CAST_OF_OTHER };
/* An operand of fp8 or fp4 is cast, unless what wrote it did that (enum stack_casts). */
void emit_cast(struct emitter *e, const char *name, enum operator_pass pass, enum cast_of of,
               int64_t rows, int64_t columns);
/* The forward's operand once more in backward, by columns, for the weight gradient. */
void emit_cast_again(struct emitter *e, const char *name, enum cast_of of, int64_t rows,
                     int64_t columns);

void emit_enter_forward(struct emitter *e, const struct half_names *half);
/* Its part behind the norm, of an input that is gathered already, or not. */
void emit_input_forward(struct emitter *e, const struct half_names *half, bool gathered);
void emit_leave_forward(struct emitter *e, const struct half_names *half);
/* The sum that ends it alone, of so many rows, without what comes before it. */
void emit_sum_forward(struct emitter *e, const struct half_names *half, int64_t rows);
/* Its part before the residual: the sum over ranks and the norm behind the branch. */
void emit_branch_forward(struct emitter *e, const struct half_names *half);
void emit_leave_backward(struct emitter *e, const struct half_names *half);
/* What dropout, bias or scale of the branch take of that, of so many rows. */
void emit_sum_backward(struct emitter *e, const struct half_names *half, int64_t rows);
/* Gradients of the column-parallel matmul, hidden -> out, with the collectives around them. */
void emit_column_backward(struct emitter *e, const struct half_names *half, const char *name,
                          enum precision precision, int64_t out);
/* Of that, the sum of the input's gradient over TP ranks. */
void emit_gradient_sum(struct emitter *e, const struct half_names *half, enum operator_pass pass);
/* What automatic differentiation runs around the half's column-parallel products, beside their
 * matmuls (enum stack_linear_gradients); nothing where the kernels are fused. */
void emit_linear_gradients(struct emitter *e, const struct half_names *half);
void emit_enter_backward(struct emitter *e, const struct half_names *half);
/* Of that, the sum of two gradients that ends it. */
void emit_residual_gradient(struct emitter *e, const struct half_names *half);

#endif
