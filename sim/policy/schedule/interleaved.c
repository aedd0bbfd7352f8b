/* interleaved.c - the interleaved 1F1B schedule of Megatron-LM (Narayanan et al., 2021, section
 * 2.2.2; forward_backward_pipelining_with_interleaving).
 *
 * The model is cut into P x v parts; stage s holds parts s, P + s, 2P + s, ... The k-th forward of
 * a stage takes, in rounds of P micro-batches, chunk 0 of all P, then chunk 1, and so on; the k-th
 * backward likewise from the last chunk down. Warm-up is 2 (P - 1 - s) + (v - 1) P forwards; until
 * 2024 Megatron-LM ran all of them first where m is P. The ideal bubble shrinks to (P - 1) / (v m).
 * Micro-batches must be a multiple of P.
 */
#include "sim/policy/schedule/schedule.h"

static struct schedule_entry nth_pass(const struct schedule_place *place, int64_t n,
                                      bool backward) {
    int64_t round = place->stage_count * place->chunk_count;
    int64_t chunk = n % round / place->stage_count;
    int64_t micro_batch = n / round * place->stage_count + n % place->stage_count;
    if (backward) chunk = place->chunk_count - 1 - chunk;
    return (struct schedule_entry){ .micro_batch = (int32_t)micro_batch,
                                    .chunk = (int16_t)chunk,
                                    .backward = backward };
}

static int64_t warm_up(const struct schedule_place *place) {
    int64_t total = place->micro_batch_count * place->chunk_count;
    int64_t count =
        2 * (place->stage_count - 1 - place->stage) + (place->chunk_count - 1) * place->stage_count;
    if (place->fills_one_round && place->micro_batch_count == place->stage_count) return total;
    return count < total ? count : total;
}

static void interleaved_order(const struct schedule_place *place, struct schedule_entry *entries) {
    int64_t total = place->micro_batch_count * place->chunk_count;
    int64_t forward = 0, backward = 0, ahead = warm_up(place);
    while (forward < ahead)
        *entries++ = nth_pass(place, forward++, false);
    while (forward < total) {
        *entries++ = nth_pass(place, forward++, false);
        *entries++ = nth_pass(place, backward++, true);
    }
    while (backward < total)
        *entries++ = nth_pass(place, backward++, true);
}

static int64_t interleaved_in_flight(const struct schedule_place *place) {
    int64_t total = place->micro_batch_count * place->chunk_count, ahead = warm_up(place);
    return ahead < total ? ahead + 1 : total;
}

const struct schedule_policy schedule_interleaved = {
    .name = "interleaved",
    .help = "1F1B over layout.vpp (at least 2) model chunks a stage; micro-batches a multiple of "
            "the stages",
    .interleaves = true,
    .needs_chunks = true,
    .whole_rounds = true,
    .order = interleaved_order,
    .in_flight = interleaved_in_flight,
};
