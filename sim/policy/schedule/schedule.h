/* schedule.h - in which order a stage runs the forward and backward passes of its micro-batches.
 *
 *     const struct schedule_policy *p = schedule_policy_find("1f1b");
 *     struct schedule_place place = { .stage = 0, .stage_count = 4, .chunk_count = 1,
 *                                     .micro_batch_count = 64 };
 *     p->order(&place, entries);   // schedule_entry_count(&place) of them
 */
#ifndef BALLAST_SIM_POLICY_SCHEDULE_H
#define BALLAST_SIM_POLICY_SCHEDULE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include "sim/base/error.h"

/* With chunk_count model chunks on each stage, chunk c of stage s is part c x stage_count + s of
 * the model. */
struct schedule_place {
    int64_t stage, stage_count, chunk_count, micro_batch_count;
    bool
        fills_one_round; /* interleaved, as many micro-batches as stages: all forwards come first */
};

struct schedule_entry {
    int32_t micro_batch;
    int16_t chunk;
    int16_t sub; /* sub-microbatch of the micro-batch; 0 where the module does not split them */
    bool backward;
};

static inline int64_t schedule_entry_count(const struct schedule_place *place) {
    return 2 * place->micro_batch_count * place->chunk_count;
}

struct schedule_policy {
    const char *name;
    const char *help;
    bool interleaves;  /* knows more than one chunk a stage */
    bool needs_chunks; /* with a single chunk a stage it is not this schedule */
    /* Micro-batches must come in multiples of the stage count. */
    bool whole_rounds;
    /* Fills schedule_entry_count() entries; 0 <= stage < stage_count. */
    void (*order)(const struct schedule_place *place, struct schedule_entry *entries);
    /* Passes of (micro-batch, chunk) whose forward has run and whose backward has not, at most. */
    int64_t (*in_flight)(const struct schedule_place *place);
    /* Of plug-ins: whether all stages of this place, together, come to an end. NULL: they do. */
    bool (*check)(const struct schedule_place *place, struct error *err);
};

const struct schedule_policy *schedule_policy_find(const char *name);  /* NULL: unknown */
const struct schedule_policy *const *schedule_policies(size_t *count); /* sorted by name */
/* Adds a row of a plug-in, found by name but not listed; it stays. Before any other thread starts.
 * False: there is no room. */
bool schedule_policy_register(const struct schedule_policy *policy);

/* The rows, each defined in its own file. */
extern const struct schedule_policy schedule_1f1b;        /* one_f_one_b.c */
extern const struct schedule_policy schedule_gpipe;       /* gpipe.c */
extern const struct schedule_policy schedule_interleaved; /* interleaved.c */

#endif
