/* stage_memory.c - sums of a stage's memory by class, and the moment of a step at which they
 * peak. */
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

void step_pass_memory(const struct step_model *m, int64_t stage, struct stage_memory *memory) {
    const double late = m->late_gradient_bytes[stage];
    memory->bytes[MEMORY_GRADIENTS] -= late;
    stage_memory_add_fragmentation(memory, m->scenario->backend->step.reserved_fraction);
    memory->bytes[MEMORY_FRAGMENTATION] += late;
}

static const struct stage_memory *fuller(const struct stage_memory *a,
                                         const struct stage_memory *b) {
    return stage_memory_allocated(b) > stage_memory_allocated(a) ? b : a;
}

void step_settle_memory(const struct step_model *m, int64_t stage, struct stage_memory *memory) {
    step_pass_memory(m, stage, memory);
    const double reserved = stage_memory_reserved(memory);
    /* The end of the last backward, whose own workspace does not come on top, and the update. */
    const struct stage_memory last = m->static_memory[stage];
    struct stage_memory update = last;
    update.bytes[MEMORY_WEIGHTS] -= m->gathered_weight_bytes[stage];
    update.bytes[MEMORY_WORKSPACE] = m->update_bytes[stage];
    *memory = *fuller(memory, fuller(&last, &update));
    stage_memory_add_fragmentation(memory, m->scenario->backend->step.reserved_fraction);
    memory->bytes[MEMORY_FRAGMENTATION] =
        fmax(memory->bytes[MEMORY_FRAGMENTATION], reserved - stage_memory_allocated(memory));
}

double stage_memory_reserved(const struct stage_memory *memory) {
    return stage_memory_allocated(memory) + memory->bytes[MEMORY_FRAGMENTATION];
}

double stage_memory_device(const struct stage_memory *memory) {
    return stage_memory_reserved(memory) + memory->bytes[MEMORY_COMMUNICATION] +
           memory->bytes[MEMORY_CONTEXT];
}
