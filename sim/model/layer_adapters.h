/* layer_adapters.h - low-rank adapters beside the linear layers of a frozen block. Private to
 * sim/model.
 *
 * Hu et al. 2021 (LoRA, arXiv 2106.09685), section 4.1: y = W x + (alpha / r) B A x with W frozen,
 * A of r x in and B of out x r. W keeps the gradient of its input and loses its own; A and B have
 * both.
 */
#ifndef BALLAST_SIM_MODEL_LAYER_ADAPTERS_H
#define BALLAST_SIM_MODEL_LAYER_ADAPTERS_H

#include "sim/model/layer_emitter.h"

/* Linear layers that read one input: q, k and v; projection; gate and up; down; of the cross
 * attention of a diffusion decoder with text q, k and v, and the projection. A single block's
 * projection and down are one layer, whose adapter is down's. */
enum adapter_place {
    ADAPTER_OF_QKV,
    ADAPTER_OF_PROJ,
    ADAPTER_OF_UP,
    ADAPTER_OF_DOWN,
    ADAPTER_OF_CROSS_QUERY,
    ADAPTER_OF_CROSS_KEY_VALUE,
    ADAPTER_OF_CROSS_PROJ
};

/* Behind the forward of the linear layers of this place, and ahead of their input gradients;
 * nothing where the module has no adapter there. */
void emit_adapters_forward(struct emitter *e, enum adapter_place place);
void emit_adapters_backward(struct emitter *e, enum adapter_place place);
/* Adapters of this place, in one stream of a joint block: 0 for none. */
int64_t adapter_count(const struct layer_division *d, enum adapter_place place);
/* Adapters of one block: 0 for none. */
int64_t adapters_of_block(const struct module *module, enum layer_kind kind);
/* Each adapter of the module casts its input to fp32, and autocast casts it back. */
bool adapter_inputs_are_cast(const struct module *module, const struct tensor_split *split);
/* A and B of one rank. */
int64_t adapter_parameters(const struct layer_division *d);

#endif
