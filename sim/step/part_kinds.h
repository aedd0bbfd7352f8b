/* part_kinds.h - which kinds of layers each part of a step model has, and which parts are alike.
 *
 *     part_kinds_fill(arena, model);   // once layers are counted and accumulation is priced
 */
#ifndef BALLAST_SIM_STEP_PART_KINDS_H
#define BALLAST_SIM_STEP_PART_KINDS_H

#include "sim/step/step.h"

/* Sets model->kinds and model->alike, which live in the arena. */
void part_kinds_fill(struct arena *arena, struct step_model *model);

#endif
