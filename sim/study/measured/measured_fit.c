/* measured_fit.c - what a run must have done to fit where its row does not say: blocks that are run
 * again, or activations of the fewest blocks in host memory where a stack's recipes offload what
 * does not fit. NVIDIA's own recipes of Llama 3 70B by FSDP (Megatron-Bridge
 * scripts/performance/configs/llama) offload the fewest tens of blocks that fit by this memory
 * model: 40 on GB200, 20 on GB300 (docs/MODEL.md, section 5).
 */
#include <string.h>

#include "sim/study/execution.h"
#include "sim/study/measured/measured_row.h"

static void set_blocks(struct measured_scenario *scenario, int64_t blocks) {
    cJSON *training = cJSON_GetObjectItemCaseSensitive(scenario->document, "training");
    cJSON_DeleteItemFromObjectCaseSensitive(training, "offload_blocks");
    if (blocks > 0) cJSON_AddNumberToObject(training, "offload_blocks", (double)blocks);
}

/* The band of memory may reach the capacity from above. */
static enum measured_fit fit_of(const struct measured_row *row, bool nearly) {
    struct scenario_options options = { .directory = row->context->directory,
                                        .stack = row->out->stack,
                                        .cache = row->context->cache };
    struct error err = { 0 };
    struct execution *e = measured_scenario_run(&options, row->out, &err);
    if (e == NULL) return FIT_NOT_SIMULATED;
    const bool fits =
        e->replay->verdict != VERDICT_OUT_OF_MEMORY || (nearly && e->replay->memory_close);
    execution_destroy(e);
    return fits ? FIT_YES : FIT_NO;
}

enum measured_fit measured_row_fit(struct measured_row *row) {
    if (row->fit == FIT_NOT_ASKED) row->fit = fit_of(row, true);
    return row->fit;
}

/* A run that cannot be simulated needs nothing. */
static bool fits_with(const struct measured_row *row, int64_t blocks) {
    set_blocks(row->out, blocks);
    return fit_of(row, false) != FIT_NO;
}

/* In the place of the note of what is usual, which begins alike. */
static void note_chosen(struct measured_row *row, const char *column, const char *text) {
    for (int64_t i = 0; i < row->note_count; i++)
        if (strncmp(row->out->notes[i], column, strlen(column)) == 0) row->out->notes[i] = text;
    row->out->chosen_to_fit = true;
}

static void set_recompute(struct measured_row *row, const char *kind) {
    cJSON *policy = cJSON_GetObjectItemCaseSensitive(row->out->document, "policy");
    cJSON_ReplaceItemInObjectCaseSensitive(policy, "recompute", cJSON_CreateString(kind));
    row->recompute = kind;
    row->fit = FIT_NOT_ASKED;
}

/* Its recipes keep activations on the host rather than run blocks again. */
static bool offloads(const struct measured_row *row) {
    return row->out->stack->offloads_to_fit && row->zero_stage >= 2 && row->pp == 1 &&
           row->vision == NULL;
}

/* Stacks whose recipes offload are those of NVIDIA's published runs, which recompute nothing that
 * they do not say. */
void measured_row_recompute(struct measured_row *row) {
    const char *usual = row->recompute;
    const bool none = strcmp(usual, "none") == 0;
    if (!row->recompute_unsaid || row->out->stack->offloads_to_fit ||
        strcmp(row->run.outcome, "oom") == 0 || (!none && strcmp(usual, "selective") != 0) ||
        measured_row_fit(row) != FIT_NO)
        return;
    static const char *const more[] = { "selective", "full" };
    for (size_t i = none ? 0 : 1; i < sizeof more / sizeof more[0]; i++) {
        set_recompute(row, more[i]);
        if (measured_row_fit(row) == FIT_NO) continue;
        note_chosen(row, "recompute: ",
                    arena_format(row->context->arena,
                                 "recompute: %s, because it would not fit with less",
                                 row->recompute));
        return;
    }
    set_recompute(row, usual);
    row->fit = FIT_NO;
}

static void set_micro_batch(struct measured_row *row, int64_t samples) {
    cJSON *training = cJSON_GetObjectItemCaseSensitive(row->out->document, "training"),
          *micro = cJSON_GetObjectItemCaseSensitive(training, "micro_batch");
    cJSON_ReplaceItemInObjectCaseSensitive(micro, "samples", cJSON_CreateNumber((double)samples));
    row->micro_batch = samples;
}

/* Without stages nothing is gained by more micro-batches than memory asks for: the largest divisor of
 * a rank's samples that fits. Few fit where gradients are kept whole while they accumulate and one
 * micro-batch has none to keep, so the search begins at the top. */
void measured_row_micro_batch(struct measured_row *row) {
    const struct measured_run *r = &row->run;
    enum { MOST = 64 }; /* more fill any GPU */
    if (r->micro_batch > 0 || r->grad_accum > 0 || row->pp > 1 || strcmp(r->outcome, "oom") == 0 ||
        row->global_batch % row->dp != 0)
        return;
    const int64_t least = row->micro_batch, local = row->global_batch / row->dp;
    int64_t most = local < MOST ? local : MOST;
    for (; most > least; most--) {
        if (local % most != 0) continue;
        set_micro_batch(row, most);
        if (fit_of(row, false) == FIT_YES) break;
    }
    set_micro_batch(row, most > least ? most : least);
    if (most <= least) return;
    row->fit = FIT_NOT_ASKED;
    note_chosen(row, "micro_batch: ",
                arena_format(row->context->arena, "micro_batch: %ld, the most with which it fits",
                             (long)most));
}

void measured_row_offload(struct measured_row *row) {
    const int64_t layers = row->run.layers;
    if (row->run.offload_blocks >= 0) {
        set_blocks(row->out, row->run.offload_blocks);
        return;
    }
    if (!offloads(row) || strcmp(row->recompute, "full") == 0 || row->recompute_layers > 0 ||
        fits_with(row, 0))
        return;
    int64_t less = 0, enough = layers - 1; /* blocks that do not suffice, and that do */
    if (!fits_with(row, enough)) {
        set_blocks(row->out, 0);
        return;
    }
    while (enough - less > 1) {
        const int64_t middle = less + (enough - less) / 2;
        if (fits_with(row, middle))
            enough = middle;
        else
            less = middle;
    }
    set_blocks(row->out, enough);
    row->out->chosen_to_fit = true;
    measured_row_note(row, "offload_blocks: %ld, the fewest by which it fits, as recipes of %s",
                      (long)enough, row->out->stack->name);
}
