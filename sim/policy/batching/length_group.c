/* length_group.c - samples of similar length share a micro-batch, to save padding.
 *
 * OmniBal compares with such a policy (ablation of data balance) but describes it in half a
 * sentence, and the sampler that it ships does something else. Three variants:
 *
 *   paper   permuted samples are put in bins of length; a whole round (dp x micro_batch
 *           neighbours) comes from one bin; rounds are shuffled. Padding and imbalance between
 *           ranks both fall, as in the paper's table. The width of its bins is not published.
 *
 *   window  the permuted samples are cut into windows, each window is sorted by length,
 *           micro_batch neighbours form a micro-batch, and these are dealt to ranks at random.
 *           Least padding, but ranks get different lengths: imbalance rises above that of random
 *           batches. A window of 50 rounds follows Hugging Face's length-grouped sampler.
 *
 *   code    LLaVA's sampler as ModelTC/OmniBal ships it: the window is one round, sorted from the
 *           longest down; each sample goes to the open micro-batch with the fewest tokens so far,
 *           and one that has its samples is closed. The totals of ranks become equal, but long and
 *           short samples meet in a micro-batch, so padding grows. The last round is filled up with
 *           the first samples of the list.
 */
#include <stdlib.h>
#include "sim/base/arena.h"
#include "sim/policy/batching/policies.h"
#include "sim/policy/batching/samplers.h"

enum { PUBLISHED_SEED = 233 };

enum variant { VARIANT_CODE, VARIANT_PAPER, VARIANT_WINDOW };
static const char *const variant_names[] = { "code", "paper", "window", NULL };

struct length_parameters {
    int64_t bin_tokens, window_rounds, sampler_seed;
    int variant;
};

#define AT(member) offsetof(struct length_parameters, member)
static const struct field fields[] = {
    { "variant", FIELD_CHOICE, AT(variant), 0, 0, "\"paper\"", "",
      "paper: a round comes from one bin of length (less padding, less imbalance); window: "
      "neighbours of a sorted window form a micro-batch (least padding, more imbalance); code: the "
      "published sampler, which makes the tokens of ranks equal (more padding)",
      variant_names },
    { "bin_tokens", FIELD_COUNT, AT(bin_tokens), 1, 1e9, "512", "tokens",
      "variant paper: lengths in one bin of this width count as similar", NULL },
    { "window_rounds", FIELD_COUNT, AT(window_rounds), 1, 1e6, "50", "rounds",
      "variant window: a window holds the samples of so many rounds of all ranks", NULL },
    SAMPLER_SEED_FIELD(
        struct length_parameters, 233,
        "seeds the permutations; the epoch is added, except in variant code, as published"),
};
static const struct field_table parameters =
    FIELD_TABLE("length-group", "samples of similar length share a micro-batch", fields);

/* Sorts each window of items from long to short. */
static void sort_windows(uint32_t *items, int64_t count, int64_t window,
                         const struct dataset *dataset) {
    uint32_t *keys = memory_alloc(sizeof *keys * (size_t)dataset->sample_count);
    for (int64_t i = 0; i < dataset->sample_count; i++)
        keys[i] = UINT32_MAX - dataset->samples[i].language_tokens;
    sampler_sort_windows(items, (uint32_t)count, (uint32_t)window, keys);
    free(keys);
}

/* Variants paper and window: sorts, cuts into rounds or micro-batches and shuffles these. */
static void plan_pieces(const struct batch_request *request, const struct length_parameters *p,
                        struct batch_plan *plan) {
    const int64_t dp = request->dp, size = request->micro_batch;
    const int64_t rounds = plan->samples_in / (dp * size), used = rounds * dp * size;
    struct random_mt mt;
    random_mt_seed(&mt, sampler_seed_of(p->sampler_seed, PUBLISHED_SEED, request) +
                            (uint32_t)request->epoch);
    /* The tail is cut before sorting: otherwise each epoch would leave out the longest samples. */
    uint32_t *items = sampler_torch_permutation(&mt, (uint32_t)plan->samples_in);
    int64_t piece = size;
    if (p->variant == VARIANT_PAPER) {
        sampler_sort_bins(items, (uint32_t)used, request->dataset, p->bin_tokens);
        piece = dp * size;
    } else {
        bool whole = p->window_rounds >= rounds;
        sort_windows(items, used, whole ? used : p->window_rounds * dp * size, request->dataset);
    }
    uint32_t *pieces = sampler_torch_permutation(&mt, (uint32_t)(used / piece));
    uint32_t *samples = memory_alloc(sizeof *samples * (size_t)used);
    for (int64_t rank = 0; rank < dp; rank++)
        for (int64_t round = 0; round < rounds; round++)
            for (int64_t i = 0; i < size; i++) {
                int64_t place = (round * dp + rank) * size + i;
                samples[(rank * rounds + round) * size + i] =
                    items[pieces[place / piece] * piece + place % piece];
            }
    free(pieces);
    free(items);
    sampler_plan_equal(request, samples, rounds, 0, plan);
}

/* Deals `count` samples, sorted from long to short, to dp micro-batches of equal size. */
static void split_evenly(const uint32_t *sorted, int64_t count, int64_t dp,
                         const struct dataset *dataset, uint64_t *tokens, int64_t *sizes,
                         uint32_t *out) {
    const int64_t size = count / dp;
    for (int64_t chunk = 0; chunk < dp; chunk++) {
        tokens[chunk] = 0;
        sizes[chunk] = 0;
    }
    for (int64_t i = 0; i < count; i++) {
        int64_t smallest = 0;
        for (int64_t chunk = 1; chunk < dp; chunk++)
            if (tokens[chunk] < tokens[smallest]) smallest = chunk;
        out[smallest * size + sizes[smallest]++] = sorted[i];
        tokens[smallest] += dataset->samples[sorted[i]].language_tokens;
        if (sizes[smallest] == size) tokens[smallest] = UINT64_MAX; /* closed */
    }
}

/* The last round has too few samples: micro-batch r takes the samples r, r + dp, r + 2 dp, ... */
static void split_strided(const uint32_t *sorted, int64_t count, int64_t dp, uint32_t *out) {
    for (int64_t chunk = 0; chunk < dp; chunk++)
        for (int64_t i = chunk; i < count; i += dp)
            *out++ = sorted[i];
}

static void plan_code(const struct batch_request *request, const struct length_parameters *p,
                      struct batch_plan *plan) {
    const int64_t dp = request->dp, size = request->micro_batch, round_size = dp * size;
    const int64_t count = plan->samples_in;
    const int64_t rounds = (count + round_size - 1) / round_size;
    struct random_mt mt;
    random_mt_seed(&mt, sampler_seed_of(p->sampler_seed, PUBLISHED_SEED, request));
    uint32_t *items = sampler_torch_permutation(&mt, (uint32_t)count);
    sort_windows(items, count, round_size, request->dataset);
    uint32_t *list = memory_alloc(sizeof *list * (size_t)(rounds * round_size));
    uint64_t *tokens = memory_alloc(sizeof *tokens * (size_t)dp);
    int64_t *sizes = memory_alloc(sizeof *sizes * (size_t)dp);
    for (int64_t first = 0; first < count; first += round_size) {
        int64_t here = count - first < round_size ? count - first : round_size;
        if (here % dp == 0)
            split_evenly(items + first, here, dp, request->dataset, tokens, sizes, list + first);
        else
            split_strided(items + first, here, dp, list + first);
    }
    for (int64_t i = count; i < rounds * round_size; i++)
        list[i] = list[i - count];

    uint32_t *samples = memory_alloc(sizeof *samples * (size_t)(rounds * round_size));
    for (int64_t rank = 0; rank < dp; rank++)
        for (int64_t round = 0; round < rounds; round++)
            for (int64_t i = 0; i < size; i++)
                samples[(rank * rounds + round) * size + i] =
                    list[round * round_size + rank * size + i];
    free(sizes);
    free(tokens);
    free(list);
    free(items);
    sampler_plan_equal(request, samples, rounds, rounds * round_size - count, plan);
}

static bool length_group_plan(const struct batch_request *request, const void *parameter_values,
                              struct batch_plan *plan, struct error *err) {
    const struct length_parameters *p = parameter_values;
    if (!sampler_begin("length-group", request, plan, err)) return false;
    if (p->variant == VARIANT_CODE)
        plan_code(request, p, plan);
    else
        plan_pieces(request, p, plan);
    return true;
}

const struct batching_policy batching_length_group = {
    .name = "length-group",
    .help = "samples of similar length share a micro-batch, which saves padding",
    .parameters = &parameters,
    .parameters_size = sizeof(struct length_parameters),
    .plan = length_group_plan,
};
