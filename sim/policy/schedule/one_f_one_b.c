/* one_f_one_b.c - the non-interleaved 1F1B schedule of Megatron-LM (PipeDream-Flush; Narayanan et
 * al., "Efficient Large-Scale Language Model Training on GPU Clusters Using Megatron-LM", section
 * 2.2.1; Megatron-LM, forward_backward_pipelining_without_interleaving).
 *
 * Stage s of P warms up with min(m, P - 1 - s) forwards, then runs one forward and one backward in
 * turn, then the backwards that are left. So at most min(m, P - s) micro-batches are in flight.
 */
#include "sim/policy/schedule/schedule.h"

static int64_t least(int64_t a, int64_t b) {
    return a < b ? a : b;
}

static void one_f_one_b_order(const struct schedule_place *place, struct schedule_entry *entries) {
    int64_t micro_batch_count = place->micro_batch_count;
    int64_t warm_up_count = least(micro_batch_count, place->stage_count - 1 - place->stage);
    int64_t forward = 0, backward = 0;
    for (; forward < warm_up_count; forward++)
        *entries++ = (struct schedule_entry){ .micro_batch = (int32_t)forward, .backward = false };
    for (; forward < micro_batch_count; forward++, backward++) {
        *entries++ = (struct schedule_entry){ .micro_batch = (int32_t)forward, .backward = false };
        *entries++ = (struct schedule_entry){ .micro_batch = (int32_t)backward, .backward = true };
    }
    for (; backward < micro_batch_count; backward++)
        *entries++ = (struct schedule_entry){ .micro_batch = (int32_t)backward, .backward = true };
}

static int64_t one_f_one_b_in_flight(const struct schedule_place *place) {
    return least(place->micro_batch_count, place->stage_count - place->stage);
}

const struct schedule_policy schedule_1f1b = {
    .name = "1f1b",
    .help = "one forward, one backward in turn after a warm-up; at most P micro-batches in flight",
    .order = one_f_one_b_order,
    .in_flight = one_f_one_b_in_flight,
};
