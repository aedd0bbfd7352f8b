/* isf.c - Iterative Sampling and Filtering: packs samples into groups of nearly equal size.
 *
 * OmniBal (section 4.1, algorithms 1 and 2). A pass shuffles the samples and fills one group after
 * the other, up to qv vision tiles and qt language tokens. Groups that reach a threshold are taken
 * out as finished; the samples of the others go, in order, into the next pass. T passes in all:
 * T-1 with a filter and a last one whose groups are all taken (leftovers "keep") or filtered too
 * ("drop").
 *
 * Where the published program (ModelTC/OmniBal, dataset.py) and the paper differ, threshold_rule
 * says whom to follow:
 *
 *                                     code                        paper
 *   vision threshold met when         tiles == threshold          tiles >= threshold
 *   last sample of a pass oversized   the open group is lost      the open group is closed
 *
 * Of the groups that no pass fills the program keeps the last pass's as they are, while the paper
 * leaves their samples in the data set. Training without them would lose samples in silence, so
 * that both rules keep them unless leftovers says "drop".
 *
 * The program packs tiles. Patches of native resolution would hardly ever equal the threshold, so
 * that only text would finish a group: they finish one from the threshold on, which stands as far
 * below qv as qt - 128 below the usual qt, by 1 / 32; and the default of 9 tiles is 9 x 1,024
 * patches.
 *
 * Both skip (and count) samples that exceed qv or qt alone. Algorithm 1 of the paper would give
 * each of them a group of its own that breaks the limits; its data, cut at qt, has none.
 *
 * Seeds are those of the program: pass 0 and pass 1 use seed, pass p uses seed + p - 1. With the
 * rng "numpy" the groups equal the program's, sample for sample. (It runs the last pass twice with
 * one seed and one list, which changes nothing and is left out here.)
 *
 * Speed: an entry is one 64-bit word (tokens, vision, index), so that the grouping loop reads
 * memory in order and the shuffle moves what it needs. Each sample is written to both places where
 * it may end, the finished groups and the rest of the next pass; closing a group advances one of
 * the two. The rest never overtakes the reader, so it shares the array that is read.
 */
#include <assert.h>
#include <stdlib.h>
#include <gsl/gsl_randist.h>
#include <gsl/gsl_rng.h>
#include "sim/base/arena.h"
#include "sim/policy/batching/entry_shuffle.h"
#include "sim/policy/batching/isf_choice.h"
#include "sim/policy/batching/policies.h"
#include "sim/policy/batching/samplers.h"
#include "sim/policy/batching/sequence_groups.h"

enum threshold_rule { RULE_CODE, RULE_PAPER };
enum leftovers { LEFTOVERS_KEEP, LEFTOVERS_DROP };
enum rng { RNG_NUMPY, RNG_GSL };

static const char *const rule_names[] = { "code", "paper", NULL };
static const char *const leftovers_names[] = { "keep", "drop", NULL };
static const char *const rng_names[] = { "numpy", "gsl", NULL };

struct isf_parameters {
    int64_t qv, qt, vision_threshold, llm_threshold, iterations, sampler_seed, target_batch_size,
        sp;
    int threshold_rule, leftovers, rng, sampler, choose;
};

static const char *const choose_names[] = {
    [ISF_GIVEN] = "given", [ISF_PAPER] = "paper", [ISF_CODE] = "code", NULL
};

static const char *const limit_words[] = { "auto", NULL };
enum { LIMIT_AUTO = FIELD_COUNT_WORD, DEFAULT_QV = 9, DEFAULT_QT = 4096, NATIVE_QV = 9 * 1024 };

#define AT(member) offsetof(struct isf_parameters, member)
static const struct field fields[] = {
    { "qv", FIELD_COUNT, AT(qv), 0, 1e9, "9", "tiles",
      "most vision tiles in a group (native resolution: patches, 9216 by default); auto: qv and qt "
      "from the data",
      limit_words },
    { "qt", FIELD_COUNT, AT(qt), 1, 1e9, "4096", "tokens",
      "most language tokens in a group; auto: qv and qt from the data", limit_words },
    { "choose", FIELD_CHOICE, AT(choose), 0, 0, "\"given\"", "",
      "qv and qt; given: as above, and by the published program's search if they are auto; paper: "
      "from the longest sample and the mean tokens of a tile; code: by that search",
      choose_names },
    { "target_batch_size", FIELD_COUNT, AT(target_batch_size), 1, 1e6, "4", "samples",
      "choose code: samples of a group on average, at least; at most one more", NULL },
    { "vision_threshold", FIELD_COUNT, AT(vision_threshold), 0, 1e9, "null", "tiles",
      "a group with this many tiles is finished; null: qv (native resolution: 31 / 32 of it)",
      NULL },
    { "llm_threshold", FIELD_COUNT, AT(llm_threshold), 0, 1e9, "null", "tokens",
      "a group with at least this many tokens is finished; null: qt - 128", NULL },
    { "threshold_rule", FIELD_CHOICE, AT(threshold_rule), 0, 0, "\"code\"", "",
      "code: finished when tiles == vision_threshold, and the last open group is lost if the last "
      "sample is oversized, as in the published program; paper: finished when tiles >= "
      "vision_threshold, and nothing is lost. Patches of native resolution hardly ever meet a "
      "number exactly: >= under both",
      rule_names },
    { "leftovers", FIELD_CHOICE, AT(leftovers), 0, 0, "\"keep\"", "",
      "groups unfinished after the last pass; keep: use them as they are; drop: leave their "
      "samples out",
      leftovers_names },
    { "iterations", FIELD_COUNT, AT(iterations), 1, 1e6, "10", "passes",
      "sampling passes T; the first T-1 are filtered", NULL },
    { "sp", FIELD_COUNT, AT(sp), 1, 1024, "1", "ranks",
      "sequence-parallel groups: so many packed groups of like length make one micro-batch, each "
      "padded to the longest; the ranks of layout.cp share it",
      NULL },
    { "rng", FIELD_CHOICE, AT(rng), 0, 0, "\"numpy\"", "",
      "numpy: the published groups, bit for bit; gsl: the shuffle of the GNU Scientific Library, "
      "to see that a result does not hang on the generator",
      rng_names },
    { "sampler", FIELD_CHOICE, AT(sampler), 0, 0, "\"block\"", "",
      "how ranks get groups; block: contiguous blocks, as published (unfinished groups end on the "
      "last ranks); shuffle: all groups are shuffled first",
      sampler_names },
    SAMPLER_SEED_FIELD(struct isf_parameters, 0, "added to the epoch to seed the sampler"),
};
static const struct field_table parameters = FIELD_TABLE(
    "isf", "OmniBal's Iterative Sampling and Filtering: packs samples up to qv tiles and qt tokens",
    fields);

/* ---- entries ---- */

struct entries {
    uint64_t *words; /* tokens, vision, index: from the highest bit to the lowest */
    uint32_t count;
    int vision_shift, tokens_shift;
};

static int bits_of(uint64_t value) {
    return value == 0 ? 0 : 64 - __builtin_clzll(value);
}

static bool entries_make(struct entries *entries, const struct dataset *dataset,
                         struct error *err) {
    uint32_t count = (uint32_t)dataset->sample_count, max_vision = 0, max_tokens = 0;
    for (uint32_t i = 0; i < count; i++) {
        uint32_t vision = batch_sample_vision(dataset, i);
        uint32_t tokens = dataset->samples[i].language_tokens;
        if (vision > max_vision) max_vision = vision;
        if (tokens > max_tokens) max_tokens = tokens;
    }
    int index_bits = bits_of(count - 1), vision_bits = bits_of(max_vision);
    if (index_bits + vision_bits + bits_of(max_tokens) > 63)
        return error_set(
            err,
            "isf: data set '%s' is too large to pack: %u samples of up to %u tiles and "
            "%u tokens",
            dataset->name, count, max_vision, max_tokens);
    entries->count = count;
    entries->vision_shift = index_bits;
    entries->tokens_shift = index_bits + vision_bits;
    entries->words = memory_alloc(sizeof *entries->words * count);
    for (uint32_t i = 0; i < count; i++)
        entries->words[i] = (uint64_t)dataset->samples[i].language_tokens << entries->tokens_shift |
                            (uint64_t)batch_sample_vision(dataset, i) << entries->vision_shift | i;
    return true;
}

/* ---- one pass ---- */

struct limits {
    int64_t qv, qt, vision_threshold, llm_threshold;
    bool tiles_exact; /* tiles == threshold rather than >= */
    bool loses_open_group;
};

static inline bool reaches_threshold(const struct limits *limits, int64_t vision, int64_t tokens) {
    bool tiles = limits->tiles_exact ? vision == limits->vision_threshold
                                     : vision >= limits->vision_threshold;
    return tiles | (tokens >= limits->llm_threshold);
}

/* Groups the shuffled entries. Finished groups (all groups, if take_all) are appended to the plan;
 * the entries of the others move to the front of the array and become its new content. */
static void group_pass(struct entries *entries, const struct limits *limits, bool take_all,
                       struct batch_plan *plan) {
    const uint64_t index_mask = (UINT64_C(1) << entries->vision_shift) - 1;
    const uint64_t vision_mask =
        (UINT64_C(1) << (entries->tokens_shift - entries->vision_shift)) - 1;
    uint64_t *words = entries->words;
    uint32_t *finished = plan->samples + plan->samples_packed;
    uint32_t *starts = plan->starts;
    int64_t group_count = plan->group_count, full_count = plan->full_group_count;
    uint32_t base = (uint32_t)plan->samples_packed;
    uint32_t done = 0, rest = 0, size = 0, skipped = 0; /* size: of the open group */
    int64_t vision_sum = 0, tokens_sum = 0;
    bool last_oversized = false;

    for (uint32_t i = 0; i < entries->count; i++) {
        uint64_t word = words[i];
        int64_t tokens = (int64_t)(word >> entries->tokens_shift);
        int64_t vision = (int64_t)(word >> entries->vision_shift & vision_mask);
        last_oversized = vision > limits->qv || tokens > limits->qt;
        if (last_oversized) { /* only in the first pass */
            skipped++;
            continue;
        }
        int64_t new_vision = vision_sum + vision, new_tokens = tokens_sum + tokens;
        if (new_vision > limits->qv || new_tokens > limits->qt) {
            bool full = reaches_threshold(limits, vision_sum, tokens_sum);
            bool take = full | take_all;
            full_count += full;
            group_count += take;
            done += take ? size : 0;
            rest += take ? 0 : size;
            starts[group_count] = base + done;
            size = 0;
            new_vision = vision;
            new_tokens = tokens;
        }
        vision_sum = new_vision;
        tokens_sum = new_tokens;
        finished[done + size] = (uint32_t)(word & index_mask);
        words[rest + size] = word;
        size++;
    }
    if (size > 0 && last_oversized && limits->loses_open_group) {
        plan->lost_with_last_group += size;
    } else if (size > 0) {
        bool full = reaches_threshold(limits, vision_sum, tokens_sum);
        bool take = full | take_all;
        full_count += full;
        group_count += take;
        done += take ? size : 0;
        rest += take ? 0 : size;
        starts[group_count] = base + done;
    }
    assert(done + rest + skipped <= entries->count);
    entries->count = rest;
    plan->samples_packed += done;
    plan->group_count = group_count;
    plan->full_group_count = full_count;
    plan->oversize_skipped += skipped;
}

/* ---- all passes ---- */

static void pack(struct entries *entries, const struct limits *limits,
                 const struct isf_parameters *p, bool keep, uint32_t seed,
                 struct batch_plan *plan) {
    struct random_mt mt;
    gsl_rng *gsl = p->rng == RNG_GSL ? gsl_rng_alloc(gsl_rng_mt19937) : NULL;
    for (int64_t pass = 0; pass < p->iterations && entries->count > 0; pass++) {
        uint32_t pass_seed = seed + (uint32_t)(pass > 0 ? pass - 1 : 0);
        if (gsl != NULL) {
            gsl_rng_set(gsl, pass_seed);
            gsl_ran_shuffle(gsl, entries->words, entries->count, sizeof *entries->words);
        } else {
            random_mt_seed(&mt, pass_seed);
            entry_shuffle(&mt, entries->words, entries->count);
        }
        group_pass(entries, limits, keep && pass == p->iterations - 1, plan);
    }
    plan->leftover_dropped = entries->count;
    if (gsl != NULL) gsl_rng_free(gsl);
}

static bool nothing_packed(const struct isf_parameters *p, const struct limits *limits,
                           const struct batch_plan *plan, struct error *err) {
    if (plan->oversize_skipped == plan->samples_in) {
        error_set(err,
                  "isf: each of the %lld samples alone exceeds qv = %lld tiles or qt = %lld tokens",
                  (long long)plan->samples_in, (long long)limits->qv, (long long)p->qt);
        return error_hint(err, "raise qv and qt to the size of the largest sample at least");
    }
    if (plan->lost_with_last_group > 0) {
        error_set(err,
                  "isf: the only group of samples was lost, as in the published code, because an "
                  "oversized sample came last");
        return error_hint(err, "raise qv and qt, or set threshold_rule to \"paper\"");
    }
    error_set(
        err,
        "isf: no group reached %lld tiles or %lld tokens in %lld passes, and unfinished groups "
        "are dropped",
        (long long)limits->vision_threshold, (long long)limits->llm_threshold,
        (long long)p->iterations);
    return error_hint(err, "set leftovers to \"keep\", or lower vision_threshold or llm_threshold");
}

static bool plan_given(const struct batch_request *request, const struct isf_parameters *p,
                       struct batch_plan *plan, struct error *err) {
    if (!sampler_begin("isf", request, plan, err)) return false;
    if (request->micro_batch != 1) {
        error_set(err, "isf: a micro-batch is one packed group, so it cannot have %lld samples",
                  (long long)request->micro_batch);
        return error_hint(err, "set the micro-batch to 1 and choose its size by qv and qt");
    }
    struct entries entries;
    if (!entries_make(&entries, request->dataset, err)) return false;
    const bool native = request->dataset->vision_patches != NULL;
    const int64_t qv = native && p->qv == DEFAULT_QV ? NATIVE_QV : p->qv;
    const struct limits limits = {
        .qv = qv,
        .qt = p->qt,
        .vision_threshold = p->vision_threshold >= 0 ? p->vision_threshold
                            : native                 ? qv - qv / 32
                                                     : qv,
        .llm_threshold = p->llm_threshold < 0 ? p->qt - 128 : p->llm_threshold,
        .tiles_exact = p->threshold_rule == RULE_CODE && !native,
        .loses_open_group = p->threshold_rule == RULE_CODE,
    };
    size_t count = (size_t)request->dataset->sample_count;
    plan->packed = true;
    plan->samples = memory_alloc(sizeof *plan->samples * count);
    plan->starts = memory_alloc(sizeof *plan->starts * (count + 1));
    plan->starts[0] = 0;
    pack(&entries, &limits, p, p->leftovers == LEFTOVERS_KEEP, request->seed, plan);
    free(entries.words);
    bool ok = plan->group_count > 0 || nothing_packed(p, &limits, plan, err);
    if (ok) sequence_groups_join(plan, request->dataset, p->sp);
    uint32_t sampler_seed = sampler_seed_of(p->sampler_seed, 0, request) + (uint32_t)request->epoch;
    ok = ok &&
         sampler_deal_groups((enum sampler)p->sampler, sampler_seed, "isf", request, plan, err);
    plan->qv = qv;
    plan->qt = p->qt;
    if (!ok) batch_plan_free(plan);
    return ok;
}

/* ---- limits from the data ---- */

struct trial {
    struct batch_request request;
    struct isf_parameters parameters;
};

static bool try_limits(void *context, int64_t qv, int64_t qt, struct batch_balance *balance,
                       struct error *err) {
    struct trial *trial = context;
    struct batch_plan plan;
    trial->parameters.qv = qv;
    trial->parameters.qt = qt;
    if (!plan_given(&trial->request, &trial->parameters, &plan, err)) return false;
    batch_plan_balance(&plan, trial->request.dataset, balance);
    batch_plan_free(&plan);
    return true;
}

/* "auto" for one limit chooses both, so that the other must not be a number of the user's. */
static bool settle_choice(struct isf_parameters *p, struct error *err) {
    bool automatic = p->qv == LIMIT_AUTO || p->qt == LIMIT_AUTO;
    if (!automatic) return true;
    const bool qv_given = p->qv != LIMIT_AUTO && p->qv != DEFAULT_QV,
               qt_given = p->qt != LIMIT_AUTO && p->qt != DEFAULT_QT;
    if (qv_given || qt_given) {
        error_set(err, "isf: %s \"auto\" takes both limits from the data, but %s is %lld",
                  qv_given ? "qt" : "qv", qv_given ? "qv" : "qt",
                  (long long)(qv_given ? p->qv : p->qt));
        return error_hint(err, "leave %s out or make it \"auto\" too, or give both as numbers",
                          qv_given ? "qv" : "qt");
    }
    if (p->choose == ISF_GIVEN) p->choose = ISF_CODE;
    return true;
}

bool isf_choice_of(const struct batch_request *request, const void *parameter_values,
                   struct isf_choice *out, struct error *err) {
    struct trial trial = { .request = *request,
                           .parameters = *(const struct isf_parameters *)parameter_values };
    trial.parameters.sp = 1; /* limits are those of a packed group */
    trial.request.dp = 8;    /* as published, so that the choice does not hang on the layout */
    if (!settle_choice(&trial.parameters, err)) return false;
    if (request->dataset->sample_count == 0) return error_set(err, "isf: the data set is empty");
    return isf_choose((enum isf_rule)trial.parameters.choose, request->dataset,
                      trial.parameters.target_batch_size, try_limits, &trial, out, err);
}

static bool isf_plan(const struct batch_request *request, const void *parameter_values,
                     struct batch_plan *plan, struct error *err) {
    struct isf_parameters p = *(const struct isf_parameters *)parameter_values;
    if (!settle_choice(&p, err)) return false;
    if (p.choose != ISF_GIVEN && request->micro_batch == 1) {
        struct isf_choice choice;
        if (!isf_choice_of(request, parameter_values, &choice, err)) return false;
        p.qv = choice.qv;
        p.qt = choice.qt;
    }
    if (!plan_given(request, &p, plan, err)) return false;
    plan->limits_chosen = p.choose != ISF_GIVEN;
    return true;
}

static int64_t isf_groups_joined(const void *parameter_values) {
    return ((const struct isf_parameters *)parameter_values)->sp;
}

const struct batching_policy batching_isf = {
    .name = "isf",
    .help = "pack samples into groups of nearly equal size by iterative sampling and filtering",
    .packs = true,
    .parameters = &parameters,
    .parameters_size = sizeof(struct isf_parameters),
    .groups_joined = isf_groups_joined,
    .plan = isf_plan,
};
