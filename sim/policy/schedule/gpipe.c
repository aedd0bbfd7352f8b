/* gpipe.c - all forwards, then all backwards, the last micro-batch first (Huang et al., "GPipe:
 * Efficient Training of Giant Neural Networks using Pipeline Parallelism", figure 2c). Every
 * micro-batch is in flight when the backwards begin.
 */
#include "sim/policy/schedule/schedule.h"

/* Every stage runs the same order. */
static void gpipe_order(const struct schedule_place *place, struct schedule_entry *entries) {
    int64_t micro_batch_count = place->micro_batch_count;
    for (int64_t i = 0; i < micro_batch_count; i++) {
        entries[i] = (struct schedule_entry){ .micro_batch = (int32_t)i, .backward = false };
        entries[2 * micro_batch_count - 1 - i] =
            (struct schedule_entry){ .micro_batch = (int32_t)i, .backward = true };
    }
}

static int64_t gpipe_in_flight(const struct schedule_place *place) {
    return place->micro_batch_count;
}

const struct schedule_policy schedule_gpipe = {
    .name = "gpipe",
    .help = "all forwards, then all backwards; every micro-batch in flight",
    .order = gpipe_order,
    .in_flight = gpipe_in_flight,
};
