/* layer_block.h - operators of the transformer blocks. Private to sim/model.
 *
 * Each is one layer kind's passes, as layer_operators() asks for them; the frame around a branch is
 * layer_emitter.h's, what only a diffusion decoder has is in diffusion_layers.h.
 */
#ifndef BALLAST_SIM_MODEL_LAYER_BLOCK_H
#define BALLAST_SIM_MODEL_LAYER_BLOCK_H

#include "sim/model/layer_emitter.h"

/* Of an encoder, a language model, or a diffusion decoder with or without cross attention. */
void block_forward(struct emitter *e);
void block_backward(struct emitter *e);
/* What its backward runs again of it under torchtitan's selective policy, which knows these blocks
 * alone. */
void block_selective_forward(struct emitter *e);
static inline bool block_recomputes_operators(const struct tensor_split *split,
                                              enum layer_kind kind) {
    return split->block.recompute_style == RECOMPUTE_OPERATORS && !layer_kind_joins_text(kind);
}

/* LAYER_JOINT_BLOCK: video and text with weights of their own in one attention. */
void joint_block_forward(struct emitter *e);
void joint_block_backward(struct emitter *e);
/* LAYER_SINGLE_BLOCK: both in one sequence, attention and feed-forward network side by side. */
void single_block_forward(struct emitter *e);
void single_block_backward(struct emitter *e);

#endif
