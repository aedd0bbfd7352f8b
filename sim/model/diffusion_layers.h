/* diffusion_layers.h - operators of the layers that only a diffusion decoder has. Private to
 * sim/model.
 */
#ifndef BALLAST_SIM_MODEL_DIFFUSION_LAYERS_H
#define BALLAST_SIM_MODEL_DIFFUSION_LAYERS_H

#include "sim/model/layer_emitter.h"

/* What the layer of a block's own makes of the timestep, first in forward and last in backward;
 * nothing where all blocks share it, or that are none of a decoder. */
void block_modulation_forward(struct emitter *e);
void block_modulation_backward(struct emitter *e);

/* The branch between self attention and feed-forward network of a diffusion block; nothing for a
 * micro-batch without text. */
void cross_attention_forward(struct emitter *e);
void cross_attention_backward(struct emitter *e);

void text_projection_forward(struct emitter *e);
void text_projection_backward(struct emitter *e);
void latent_embedding_forward(struct emitter *e);
void latent_embedding_backward(struct emitter *e);
void diffusion_head_forward(struct emitter *e);
void diffusion_head_backward(struct emitter *e);

#endif
