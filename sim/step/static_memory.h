/* static_memory.h - what a rank of each stage holds whatever runs: weights, gradients, optimizer
 * state, communicators. Private to step_model.c. */
#ifndef BALLAST_SIM_STEP_STATIC_MEMORY_H
#define BALLAST_SIM_STEP_STATIC_MEMORY_H

#include "sim/step/step.h"

/* After parameters were counted and units priced; fills static_memory, gathered_weight_bytes,
 * late_gradient_bytes and update_bytes. */
void step_fill_static_memory(struct step_model *m);

/* Of one layer of the model, on a rank (step_model.c). */
const struct rank_parameters *step_layer_parameters(const struct step_model *m, int64_t layer);
struct gradient_need step_layer_need(const struct step_model *m, int64_t layer);

#endif
