/* stage_memory.c - sums of a stage's memory by class, and the moment of a step at which they peak. */
#include "sim/step/step.h"

#include <math.h>

static const char *const class_names[MEMORY_CLASS_COUNT] = {
    [MEMORY_WEIGHTS] = "weights",
    [MEMORY_GRADIENTS] = "gradients",
    [MEMORY_OPTIMIZER] = "optimizer",
    [MEMORY_ACTIVATIONS] = "activations",
    [MEMORY_WORKSPACE] = "workspace",
    [MEMORY_FRAGMENTATION] = "fragmentation",
    [MEMORY_COMMUNICATION] = "communication",
    [MEMORY_CONTEXT] = "context",
};

const char *memory_class_name(enum memory_class class) {
    return class_names[class];
}

double stage_memory_allocated(const struct stage_memory *memory) {
    double sum = 0;
    for (int c = 0; c <= MEMORY_WORKSPACE; c++)
        sum += memory->bytes[c];
    return sum;
}

void stage_memory_add_fragmentation(struct stage_memory *memory, double reserved_fraction) {
    memory->bytes[MEMORY_FRAGMENTATION] = reserved_fraction * stage_memory_allocated(memory);
}

void step_settle_memory(const struct step_model *m, int64_t stage, struct stage_memory *memory) {
    const double fraction = m->scenario->backend->reserved_fraction;
    double *bytes = memory->bytes;
    bytes[MEMORY_GRADIENTS] -= m->late_gradient_bytes[stage];
    const double pass = stage_memory_allocated(memory);
    const double pass_reserved = (1 + fraction) * pass + m->late_gradient_bytes[stage];
    struct stage_memory update = m->static_memory[stage];
    update.bytes[MEMORY_WEIGHTS] -= m->gathered_weight_bytes[stage];
    update.bytes[MEMORY_WORKSPACE] = m->update_bytes[stage];
    if (stage_memory_allocated(&update) > pass) *memory = update;
    stage_memory_add_fragmentation(memory, fraction);
    bytes[MEMORY_FRAGMENTATION] =
        fmax(bytes[MEMORY_FRAGMENTATION], pass_reserved - stage_memory_allocated(memory));
}

double stage_memory_reserved(const struct stage_memory *memory) {
    return stage_memory_allocated(memory) + memory->bytes[MEMORY_FRAGMENTATION];
}

double stage_memory_device(const struct stage_memory *memory) {
    return stage_memory_reserved(memory) + memory->bytes[MEMORY_COMMUNICATION] +
           memory->bytes[MEMORY_CONTEXT];
}
