/* balance.c - how much of a plan is padding and waiting.
 *
 * OmniBal, section 4.1: PadRatio = sum(t_max - t_i) / (t_max B) inside a micro-batch (eq. 1) and
 * DistRatio = sum(T_max - T_i) / (T_max N) across the N ranks of a round (eq. 2). Its test program
 * sums numerator and denominator of eq. (1) over all micro-batches, so that long ones weigh more;
 * pad_ratio is that figure, pad_ratio_mean the plain mean. Of eq. (2) it takes the mean over
 * rounds, with T = tiles for vision (milliseconds of clips for video) and T = padded length of one
 * sample, or of a packed sequence, for language: the number of
 * samples is the same on all ranks and cancels.
 */
#include <stdlib.h>
#include "sim/base/arena.h"
#include "sim/policy/batching/batching.h"

struct group_size {
    int64_t vision, tokens, padded_length; /* padded_length: of one row; tokens: without padding */
    int64_t padding;
};

/* Video decoders work on clips: milliseconds, to which their tokens are proportional. */
static int64_t vision_load(const struct dataset *dataset, uint32_t index) {
    return dataset->clip_ms != NULL ? dataset->clip_ms[index] : batch_sample_vision(dataset, index);
}

static struct group_size measure(const struct batch_plan *plan, const struct dataset *dataset,
                                 int64_t group) {
    struct group_size size = { 0 };
    int64_t longest = 0, first = plan->starts[group], end = plan->starts[group + 1];
    for (int64_t i = first; i < end; i++) {
        uint32_t index = plan->samples[i];
        int64_t tokens = dataset->samples[index].language_tokens;
        size.vision += vision_load(dataset, index);
        size.tokens += tokens;
        if (tokens > longest) longest = tokens;
    }
    size.padded_length = plan->packed ? size.tokens : longest;
    size.padding = plan->packed ? 0 : longest * (end - first) - size.tokens;
    const int64_t sequence = batch_plan_sequence_tokens(plan, group);
    if (sequence > size.tokens) {
        size.padded_length = sequence;
        size.padding = sequence - size.tokens;
    }
    return size;
}

static void sum_groups(const struct batch_plan *plan, const struct group_size *sizes,
                       struct batch_balance *out) {
    out->min_vision_tiles = out->min_language_tokens = INT64_MAX;
    double vision = 0, language = 0;
    for (int64_t g = 0; g < plan->group_count; g++) {
        int64_t tokens = sizes[g].tokens + sizes[g].padding;
        if (sizes[g].vision < out->min_vision_tiles) out->min_vision_tiles = sizes[g].vision;
        if (sizes[g].vision > out->max_vision_tiles) out->max_vision_tiles = sizes[g].vision;
        if (tokens < out->min_language_tokens) out->min_language_tokens = tokens;
        if (tokens > out->max_language_tokens) out->max_language_tokens = tokens;
        vision += (double)sizes[g].vision;
        language += (double)tokens;
    }
    double groups = (double)plan->group_count;
    out->average_batch_size = (double)plan->starts[plan->group_count] / groups;
    out->mean_vision_tiles = vision / groups;
    out->mean_language_tokens = language / groups;
}

static double ratio(double part, double whole) {
    return whole > 0 ? part / whole : 0;
}

/* Adds one round's eq. (2) for one of the sizes. */
struct waiting {
    int64_t max, sum;
};

static void waiting_add(struct waiting *waiting, int64_t size) {
    if (size > waiting->max) waiting->max = size;
    waiting->sum += size;
}

static double waiting_ratio(const struct waiting *waiting, int64_t ranks) {
    return ratio((double)(waiting->max * ranks - waiting->sum), (double)(waiting->max * ranks));
}

void batch_plan_balance(const struct batch_plan *plan, const struct dataset *dataset,
                        struct batch_balance *out) {
    *out = (struct batch_balance){ .iterations = plan->per_rank };
    if (plan->group_count == 0 || plan->per_rank == 0) return;
    struct group_size *sizes = memory_alloc(sizeof *sizes * (size_t)plan->group_count);
    for (int64_t g = 0; g < plan->group_count; g++)
        sizes[g] = measure(plan, dataset, g);
    sum_groups(plan, sizes, out);

    double padding = 0, padded = 0;
    for (int64_t round = 0; round < plan->per_rank; round++) {
        struct waiting vision = { 0 }, language = { 0 }, unpadded = { 0 };
        for (int64_t rank = 0; rank < plan->rank_count; rank++) {
            const struct group_size *size = &sizes[plan->order[rank * plan->per_rank + round]];
            double all = (double)(size->tokens + size->padding);
            padding += (double)size->padding;
            padded += all;
            out->pad_ratio_mean += ratio((double)size->padding, all);
            waiting_add(&vision, size->vision);
            waiting_add(&language, size->padded_length);
            waiting_add(&unpadded, size->tokens);
        }
        out->dist_ratio_vision += waiting_ratio(&vision, plan->rank_count);
        out->dist_ratio_language += waiting_ratio(&language, plan->rank_count);
        out->dist_ratio_language_unpadded += waiting_ratio(&unpadded, plan->rank_count);
    }
    double rounds = (double)plan->per_rank;
    out->pad_ratio = ratio(padding, padded);
    out->pad_ratio_mean /= rounds * (double)plan->rank_count;
    out->dist_ratio_vision /= rounds;
    out->dist_ratio_language /= rounds;
    out->dist_ratio_language_unpadded /= rounds;
    free(sizes);
}
