/* schedule.h - in which order a stage runs the forward and backward passes of its micro-batches.
 *
 *     const struct schedule_policy *p = schedule_policy_find("1f1b");
 *     p->order(stage, stage_count, micro_batch_count, entries);   // 2 x micro_batch_count entries
 */
#ifndef BALLAST_SIM_POLICY_SCHEDULE_H
#define BALLAST_SIM_POLICY_SCHEDULE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

struct schedule_entry {
    int32_t micro_batch;
    bool backward;
};

struct schedule_policy {
    const char *name;
    const char *help;
    /* Fills 2 x micro_batch_count entries; 0 <= stage < stage_count. */
    void (*order)(int64_t stage, int64_t stage_count, int64_t micro_batch_count,
                  struct schedule_entry *entries);
    /* Micro-batches whose forward has run and whose backward has not, at most. */
    int64_t (*in_flight)(int64_t stage, int64_t stage_count, int64_t micro_batch_count);
};

const struct schedule_policy *schedule_policy_find(const char *name);  /* NULL: unknown */
const struct schedule_policy *const *schedule_policies(size_t *count); /* sorted by name */

/* The rows, each defined in its own file. */
extern const struct schedule_policy schedule_1f1b;  /* one_f_one_b.c */
extern const struct schedule_policy schedule_gpipe; /* gpipe.c */

#endif
