/* layer_head.h - operators of the head of a language model. Private to sim/model.
 *
 * The passes of LAYER_HEAD, as layer_operators() asks for them.
 */
#ifndef BALLAST_SIM_MODEL_LAYER_HEAD_H
#define BALLAST_SIM_MODEL_LAYER_HEAD_H

#include "sim/model/layer_emitter.h"

void head_forward(struct emitter *e);
void head_backward(struct emitter *e);

#endif
