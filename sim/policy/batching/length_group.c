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

enum variant { VARIANT_CODE, VARIANT_MODALITY, VARIANT_PAPER, VARIANT_WINDOW };
static const char *const variant_names[] = { "code", "modality", "paper", "window", NULL };

struct length_parameters {
    int64_t bin_tokens, window_rounds, sampler_seed;
    int variant;
};

#define AT(member) offsetof(struct length_parameters, member)
static const struct field fields[] = {
    { "variant", FIELD_CHOICE, AT(variant), 0, 0, "\"paper\"", "",
      "paper: a round comes from one bin of length (less padding, less imbalance); window: "
      "neighbours of a sorted window form a micro-batch (least padding, more imbalance); code: the "
      "published sampler, which makes the tokens of ranks equal (more padding); modality: the same "
      "in rounds of samples that all have images or all have none, as LLaVA trains",
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

/* By sample: what a variant calls its length. The caller frees. */
static uint32_t *language_lengths(const struct dataset *dataset) {
    uint32_t *lengths = memory_alloc(sizeof *lengths * (size_t)dataset->sample_count);
    for (int64_t i = 0; i < dataset->sample_count; i++)
        lengths[i] = dataset->samples[i].language_tokens;
    return lengths;
}

/* Sorts each window of items from long to short. */
static void sort_windows(uint32_t *items, int64_t count, int64_t window, const uint32_t *lengths,
                         int64_t sample_count) {
    uint32_t *keys = memory_alloc(sizeof *keys * (size_t)sample_count);
    for (int64_t i = 0; i < sample_count; i++)
        keys[i] = UINT32_MAX - lengths[i];
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
        uint32_t *lengths = language_lengths(request->dataset);
        sort_windows(items, used, whole ? used : p->window_rounds * dp * size, lengths,
                     plan->samples_in);
        free(lengths);
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
static void split_evenly(const uint32_t *sorted, int64_t count, int64_t dp, const uint32_t *lengths,
                         uint64_t *tokens, int64_t *sizes, uint32_t *out) {
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
        tokens[smallest] += lengths[sorted[i]];
        if (sizes[smallest] == size) tokens[smallest] = UINT64_MAX; /* closed */
    }
}

/* The last round has too few samples: micro-batch r takes the samples r, r + dp, r + 2 dp, ... */
static void split_strided(const uint32_t *sorted, int64_t count, int64_t dp, uint32_t *out) {
    for (int64_t chunk = 0; chunk < dp; chunk++)
        for (int64_t i = chunk; i < count; i += dp)
            *out++ = sorted[i];
}

/* Rank by rank, from a list of rounds that hold the micro-batches of all ranks one after another.
 * `order` gives each place its round; NULL: as they stand. */
static uint32_t *deal_rounds(const uint32_t *list, const uint32_t *order, int64_t rounds,
                             int64_t dp, int64_t size) {
    uint32_t *samples = memory_alloc(sizeof *samples * (size_t)(rounds * dp * size));
    for (int64_t rank = 0; rank < dp; rank++)
        for (int64_t place = 0; place < rounds; place++) {
            const int64_t round = order != NULL ? order[place] : place;
            for (int64_t i = 0; i < size; i++)
                samples[(rank * rounds + place) * size + i] =
                    list[(round * dp + rank) * size + i];
        }
    return samples;
}

static void plan_code(const struct batch_request *request, const struct length_parameters *p,
                      struct batch_plan *plan) {
    const int64_t dp = request->dp, size = request->micro_batch, round_size = dp * size;
    const int64_t count = plan->samples_in;
    const int64_t rounds = (count + round_size - 1) / round_size;
    struct random_mt mt;
    random_mt_seed(&mt, sampler_seed_of(p->sampler_seed, PUBLISHED_SEED, request));
    uint32_t *items = sampler_torch_permutation(&mt, (uint32_t)count);
    uint32_t *lengths = language_lengths(request->dataset);
    sort_windows(items, count, round_size, lengths, count);
    uint32_t *list = memory_alloc(sizeof *list * (size_t)(rounds * round_size));
    uint64_t *tokens = memory_alloc(sizeof *tokens * (size_t)dp);
    int64_t *sizes = memory_alloc(sizeof *sizes * (size_t)dp);
    for (int64_t first = 0; first < count; first += round_size) {
        int64_t here = count - first < round_size ? count - first : round_size;
        if (here % dp == 0)
            split_evenly(items + first, here, dp, lengths, tokens, sizes, list + first);
        else
            split_strided(items + first, here, dp, list + first);
    }
    for (int64_t i = count; i < rounds * round_size; i++)
        list[i] = list[i - count];

    uint32_t *samples = deal_rounds(list, NULL, rounds, dp, size);
    free(sizes);
    free(tokens);
    free(lengths);
    free(list);
    free(items);
    sampler_plan_equal(request, samples, rounds, rounds * round_size - count, plan);
}

/* ---- modality ---- */

/* A data set marks text alone by no tiles, or by a part whose tiles are all dummies. */
static bool has_image(const struct dataset *dataset, const struct sample *sample) {
    return sample->vision_tiles > 0 && (dataset->parts == NULL ||
                                        dataset->parts[sample->part].dummy_tiles == 0);
}

/* LLaVA counts the words of the text alone; a sample is never of length 0. */
static uint32_t *text_lengths(const struct dataset *dataset) {
    uint32_t *lengths = language_lengths(dataset);
    for (int64_t i = 0; i < dataset->sample_count; i++) {
        const struct sample *sample = &dataset->samples[i];
        if (!has_image(dataset, sample)) continue;
        const int64_t vision = sample->vision_tiles * dataset->tile_language_tokens;
        lengths[i] = lengths[i] > vision ? lengths[i] - (uint32_t)vision : 1;
    }
    return lengths;
}

/* Whole rounds of the samples of one kind, appended to `list`; their number. */
static int64_t rounds_of_kind(const struct batch_request *request, bool with_image,
                              const uint32_t *lengths, struct random_mt *mt, uint32_t *list) {
    const struct dataset *dataset = request->dataset;
    const int64_t dp = request->dp, round_size = dp * request->micro_batch;
    uint32_t *members = memory_alloc(sizeof *members * (size_t)dataset->sample_count);
    int64_t count = 0;
    for (int64_t i = 0; i < dataset->sample_count; i++)
        if (has_image(dataset, &dataset->samples[i]) == with_image) members[count++] = (uint32_t)i;
    const int64_t rounds = count / round_size, used = rounds * round_size;
    uint32_t *items = sampler_torch_permutation(mt, (uint32_t)count);
    for (int64_t i = 0; i < count; i++)
        items[i] = members[items[i]];
    sort_windows(items, used, round_size, lengths, dataset->sample_count);
    uint64_t *tokens = memory_alloc(sizeof *tokens * (size_t)dp);
    int64_t *sizes = memory_alloc(sizeof *sizes * (size_t)dp);
    for (int64_t first = 0; first < used; first += round_size)
        split_evenly(items + first, round_size, dp, lengths, tokens, sizes, list + first);
    free(sizes);
    free(tokens);
    free(items);
    free(members);
    return rounds;
}

static bool plan_modality(const struct batch_request *request, const struct length_parameters *p,
                          struct batch_plan *plan, struct error *err) {
    const int64_t dp = request->dp, size = request->micro_batch;
    struct random_mt mt;
    random_mt_seed(&mt, sampler_seed_of(p->sampler_seed, PUBLISHED_SEED, request) +
                            (uint32_t)request->epoch);
    uint32_t *list = memory_alloc(sizeof *list * (size_t)plan->samples_in);
    uint32_t *lengths = text_lengths(request->dataset);
    int64_t rounds = rounds_of_kind(request, true, lengths, &mt, list);
    rounds += rounds_of_kind(request, false, lengths, &mt, list + rounds * dp * size);
    free(lengths);
    if (rounds == 0) {
        free(list);
        return error_set(err,
                         "length-group: data set '%s' has too few samples with images, and too few "
                         "without, for one micro-batch of %lld on each of %lld data-parallel ranks",
                         request->dataset->name, (long long)size, (long long)dp);
    }
    uint32_t *order = sampler_torch_permutation(&mt, (uint32_t)rounds);
    uint32_t *samples = deal_rounds(list, order, rounds, dp, size);
    free(order);
    free(list);
    sampler_plan_equal(request, samples, rounds, 0, plan);
    return true;
}

static bool length_group_plan(const struct batch_request *request, const void *parameter_values,
                              struct batch_plan *plan, struct error *err) {
    const struct length_parameters *p = parameter_values;
    if (!sampler_begin("length-group", request, plan, err)) return false;
    if (p->variant == VARIANT_MODALITY) return plan_modality(request, p, plan, err);
    if (p->variant == VARIANT_CODE)
        plan_code(request, p, plan);
    else
        plan_pieces(request, p, plan);
    return true;
}

const struct batching_policy batching_length_group = {
    .name = "length-group",
    .sorts = true,
    .help = "samples of similar length share a micro-batch, which saves padding",
    .parameters = &parameters,
    .parameters_size = sizeof(struct length_parameters),
    .plan = length_group_plan,
};
