/* samplers.c - see samplers.h. The permutations repeat, bit for bit, those of the published sampler
 * (ModelTC/OmniBal, sampler.py: PyTorch) and of a NumPy user who shuffles the groups himself. */
#include "sim/policy/batching/samplers.h"

#include <assert.h>
#include <stdlib.h>
#include <string.h>
#include "sim/base/arena.h"

const char *const sampler_names[] = { "block", "shuffle", NULL };

uint32_t sampler_seed_of(int64_t given, uint32_t published, const struct batch_request *request) {
    return given >= 0 ? (uint32_t)given : published + request->seed - BATCH_DEFAULT_SEED;
}

bool sampler_begin(const char *policy, const struct batch_request *request, struct batch_plan *plan,
                   struct error *err) {
    *plan = (struct batch_plan){ 0 };
    const struct dataset *dataset = request->dataset;
    if (request->dp < 1 || request->dp > INT32_MAX)
        return error_set(err, "%s: the number of data-parallel ranks must be 1 to %d, got %lld",
                         policy, INT32_MAX, (long long)request->dp);
    if (request->micro_batch < 1 || request->micro_batch > INT32_MAX)
        return error_set(err, "%s: a micro-batch must have 1 to %d samples, got %lld", policy,
                         INT32_MAX, (long long)request->micro_batch);
    if (dataset->sample_count < 1)
        return error_set(err, "%s: data set '%s' has no samples to batch", policy, dataset->name);
    if (dataset->sample_count > INT32_MAX)
        return error_set(err, "%s: data set '%s' has %lld samples, but at most %d can be batched",
                         policy, dataset->name, (long long)dataset->sample_count, INT32_MAX);
    if (dataset->sample_count < request->dp * request->micro_batch) {
        error_set(
            err,
            "%s: data set '%s' has %lld sample%s, too few for one micro-batch of %lld on each "
            "of %lld data-parallel ranks",
            policy, dataset->name, (long long)dataset->sample_count,
            dataset->sample_count == 1 ? "" : "s", (long long)request->micro_batch,
            (long long)request->dp);
        return error_hint(err, "use fewer ranks, a smaller micro-batch or a larger data set");
    }
    plan->samples_in = dataset->sample_count;
    return true;
}

uint32_t *sampler_torch_permutation(struct random_mt *mt, uint32_t count) {
    uint32_t *items = memory_alloc(sizeof *items * count);
    random_torch_permutation(mt, items, count);
    return items;
}

static uint32_t *numpy_permutation(struct random_mt *mt, uint32_t count) {
    uint32_t *items = memory_alloc(sizeof *items * count);
    for (uint32_t i = 0; i < count; i++)
        items[i] = i;
    random_numpy_shuffle(mt, items, count);
    return items;
}

uint32_t *sampler_sequence(enum sampler sampler, uint32_t seed, uint32_t count, int64_t dp,
                           int64_t micro_batch, int64_t *rounds) {
    *rounds = count / (dp * micro_batch);
    int64_t per_rank = *rounds * micro_batch;
    uint32_t *items = memory_alloc(sizeof *items * (size_t)(per_rank * dp));
    struct random_mt mt;
    random_mt_seed(&mt, seed);
    if (sampler == SAMPLER_BLOCK) {
        uint32_t *walk = sampler_torch_permutation(&mt, (uint32_t)per_rank);
        for (int64_t rank = 0; rank < dp; rank++)
            for (int64_t i = 0; i < per_rank; i++)
                items[rank * per_rank + i] = (uint32_t)(rank * per_rank) + walk[i];
        free(walk);
        return items;
    }
    uint32_t *all = numpy_permutation(&mt, count);
    const uint32_t *next = all;
    for (int64_t round = 0; round < *rounds; round++)
        for (int64_t rank = 0; rank < dp; rank++)
            for (int64_t i = 0; i < micro_batch; i++)
                items[rank * per_rank + round * micro_batch + i] = *next++;
    free(all);
    return items;
}

bool sampler_deal_groups(enum sampler sampler, uint32_t seed, const char *policy,
                         const struct batch_request *request, struct batch_plan *plan,
                         struct error *err) {
    if (plan->group_count < request->dp) {
        error_set(err, "%s: only %lld micro-batch%s for %lld data-parallel rank%s", policy,
                  (long long)plan->group_count, plan->group_count == 1 ? "" : "es",
                  (long long)request->dp, request->dp == 1 ? "" : "s");
        return error_hint(err, "use fewer ranks, a larger data set or smaller micro-batches");
    }
    plan->rank_count = request->dp;
    plan->order = sampler_sequence(sampler, seed, (uint32_t)plan->group_count, request->dp, 1,
                                   &plan->per_rank);
    int64_t dealt = 0;
    for (int64_t i = 0; i < plan->rank_count * plan->per_rank; i++)
        dealt += plan->starts[plan->order[i] + 1] - plan->starts[plan->order[i]];
    plan->dropped_by_sampler = plan->samples_packed + plan->repeated_by_sampler - dealt;
    return true;
}

void sampler_plan_equal(const struct batch_request *request, uint32_t *samples, int64_t rounds,
                        int64_t repeated, struct batch_plan *plan) {
    int64_t groups = rounds * request->dp;
    plan->samples = samples;
    plan->starts = memory_alloc(sizeof *plan->starts * (size_t)(groups + 1));
    plan->order = memory_alloc(sizeof *plan->order * (size_t)groups);
    for (int64_t g = 0; g < groups; g++) {
        plan->starts[g] = (uint32_t)(g * request->micro_batch);
        plan->order[g] = (uint32_t)g;
    }
    plan->starts[groups] = (uint32_t)(groups * request->micro_batch);
    plan->group_count = plan->full_group_count = groups;
    plan->rank_count = request->dp;
    plan->per_rank = rounds;
    plan->samples_packed = plan->samples_in;
    plan->repeated_by_sampler = repeated;
    plan->dropped_by_sampler = plan->samples_packed + repeated - groups * request->micro_batch;
    assert(plan->dropped_by_sampler >= 0);
}

/* ---- stable sort by a 32-bit key, inside windows ----
 * Least significant digit first, on (key, position); then each element returns to its own window,
 * which keeps the order of keys there. Linear in count for any size of window. */

enum { DIGIT_BITS = 11, DIGIT_VALUES = 1 << DIGIT_BITS };

static void sort_by_digit(const uint64_t *from, uint64_t *to, uint32_t count, int shift) {
    uint32_t place[DIGIT_VALUES] = { 0 };
    for (uint32_t i = 0; i < count; i++)
        place[(from[i] >> shift) % DIGIT_VALUES]++;
    uint32_t below = 0;
    for (int digit = 0; digit < DIGIT_VALUES; digit++) {
        uint32_t here = place[digit];
        place[digit] = below;
        below += here;
    }
    for (uint32_t i = 0; i < count; i++)
        to[place[(from[i] >> shift) % DIGIT_VALUES]++] = from[i];
}

void sampler_sort_windows(uint32_t *items, uint32_t count, uint32_t window, const uint32_t *keys) {
    if (count == 0) return;
    uint64_t *now = memory_alloc(sizeof *now * count), *next = memory_alloc(sizeof *next * count);
    uint32_t *unsorted = memory_alloc(sizeof *unsorted * count);
    uint32_t window_count = (count - 1) / window + 1;
    uint32_t *place = memory_alloc(sizeof *place * window_count);
    memcpy(unsorted, items, sizeof *items * count);

    uint64_t or_of_keys = 0;
    for (uint32_t i = 0; i < count; i++) {
        or_of_keys |= keys[items[i]];
        now[i] = (uint64_t)keys[items[i]] << 32 | i;
    }
    for (int shift = 0; shift < 32 && or_of_keys >> shift != 0; shift += DIGIT_BITS) {
        sort_by_digit(now, next, count, 32 + shift);
        uint64_t *swapped = now;
        now = next;
        next = swapped;
    }
    for (uint32_t w = 0; w < window_count; w++)
        place[w] = w * window;
    for (uint32_t i = 0; i < count; i++) {
        uint32_t position = (uint32_t)now[i];
        items[place[position / window]++] = unsorted[position];
    }
    free(place);
    free(unsorted);
    free(next);
    free(now);
}

void sampler_sort_bins(uint32_t *items, uint32_t count, const struct dataset *dataset,
                       int64_t bin_tokens) {
    uint32_t *keys = memory_alloc(sizeof *keys * (size_t)dataset->sample_count);
    for (int64_t i = 0; i < dataset->sample_count; i++)
        keys[i] = dataset->samples[i].language_tokens / (uint32_t)bin_tokens;
    sampler_sort_windows(items, count, count, keys);
    free(keys);
}
