/* measured_offload.c - activations that a measured run keeps in host memory: those of as many
 * blocks as its row states or, where a stack's recipes offload what does not fit, the fewest by
 * which the run fits here. NVIDIA's own recipes of Llama 3 70B by FSDP (Megatron-Bridge
 * scripts/performance/configs/llama) offload the fewest tens of blocks that fit by this memory
 * model: 40 on GB200, 20 on GB300 (docs/MODEL.md, section 5).
 */
#include <string.h>

#include "sim/study/execution.h"
#include "sim/study/measured_row.h"

static void set_blocks(struct measured_scenario *scenario, int64_t blocks) {
    cJSON *training = cJSON_GetObjectItemCaseSensitive(scenario->document, "training");
    cJSON_DeleteItemFromObjectCaseSensitive(training, "offload_blocks");
    if (blocks > 0) cJSON_AddNumberToObject(training, "offload_blocks", (double)blocks);
}

/* A run that cannot be simulated needs nothing. */
static bool fits(const struct measured_row *row, int64_t blocks) {
    struct scenario_options options = { .directory = row->context->directory,
                                        .stack = row->out->stack };
    struct error err = { 0 };
    set_blocks(row->out, blocks);
    struct execution *e = measured_scenario_run(&options, row->out, &err);
    const bool fits = e == NULL || e->replay->verdict != VERDICT_OUT_OF_MEMORY;
    execution_destroy(e);
    return fits;
}

void measured_row_offload(struct measured_row *row) {
    const struct stack *stack = row->out->stack;
    const int64_t layers = row->run.layers;
    if (row->run.offload_blocks >= 0) {
        set_blocks(row->out, row->run.offload_blocks);
        return;
    }
    if (!stack->offloads_to_fit || row->zero_stage < 2 || row->pp > 1 || row->vision != NULL ||
        strcmp(row->recompute, "full") == 0 || row->recompute_layers > 0 || fits(row, 0))
        return;
    int64_t less = 0, enough = layers - 1; /* blocks that do not suffice, and that do */
    if (!fits(row, enough)) {
        set_blocks(row->out, 0);
        return;
    }
    while (enough - less > 1) {
        const int64_t middle = less + (enough - less) / 2;
        if (fits(row, middle))
            enough = middle;
        else
            less = middle;
    }
    set_blocks(row->out, enough);
    row->out->offload_chosen = true;
    measured_row_note(row, "offload_blocks: %ld, the fewest by which it fits, as recipes of %s",
                      (long)enough, stack->name);
}
