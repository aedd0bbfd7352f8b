/* pack.c - image-text samples packed into sequences of one length, as DIP's data loader does.
 *
 * DIP (ASPLOS'26) sections 2.2 and 7.1: several samples, each image as its tokens among the text,
 * are packed greedily up to the context length of 8192 tokens; at 169 tokens an image at most 48
 * fit. What DIP does not say: in which order (a permutation is taken), whether a sample is split at
 * the end of a sequence (it is not: samples are whole, the rest of the sequence is padding),
 * whether attention crosses from one sample of a sequence into the next (it does by default: one
 * causal mask over the sequence, as Megatron-LM has it unless told to reset the mask).
 *
 * Ranks that wait for each other after every layer (ZeRO-3, FSDP) take the largest micro-batch's
 * time in each round; sort_window deals micro-batches of like size to one round, as length-grouped
 * samplers do.
 */
#include <stdlib.h>
#include "sim/base/arena.h"
#include "sim/policy/batching/greedy_pack.h"
#include "sim/policy/batching/policies.h"
#include "sim/policy/batching/samplers.h"

enum attention { ATTENTION_SEQUENCE, ATTENTION_SAMPLE };
static const char *const attention_names[] = { "sequence", "sample", NULL };

struct pack_parameters {
    int64_t tokens, images, open, sort_window;
    int order, attention;
    bool pad;
};

#define AT(member) offsetof(struct pack_parameters, member)
static const struct field fields[] = {
    { "tokens", FIELD_COUNT, AT(tokens), 1, 1e9, "8192", "tokens", "length of a sequence", NULL },
    { "images", FIELD_COUNT, AT(images), 0, 1e6, "null", "tiles",
      "most images in a sequence; null: as many as its tokens allow", NULL },
    { "open", FIELD_COUNT, AT(open), 1, 1e4, "1", "",
      "sequences that are filled at one time: a sample goes to the oldest that has room", NULL },
    { "order", FIELD_CHOICE, AT(order), 0, 0, "\"shuffle\"", "",
      "shuffle: a NumPy permutation of the samples; file: as they stand", greedy_pack_order_names },
    { "attention", FIELD_CHOICE, AT(attention), 0, 0, "\"sequence\"", "",
      "sequence: every token attends to all before it in the sequence; sample: in its own sample",
      attention_names },
    { "sort_window", FIELD_COUNT, AT(sort_window), 0, 1e6, "0", "",
      "so many sequences in a row, those of one step, are sorted by their images before the ranks "
      "take them in turn, so that like meets like; 0: they come as packed",
      NULL },
    { "pad", FIELD_BOOL, AT(pad), 0, 0, "true", "",
      "sequences are filled up to their length with padding", NULL },
};
static const struct field_table parameters =
    FIELD_TABLE("pack", "sequences of one length, filled with whole samples", fields);

static int64_t tokens_of(const struct dataset *dataset, uint32_t sample) {
    return dataset->samples[sample].language_tokens;
}

static int64_t images_of(const struct dataset *dataset, uint32_t sample) {
    return dataset->samples[sample].vision_tiles;
}

static bool pack_joint_attention(const void *parameter_values) {
    return ((const struct pack_parameters *)parameter_values)->attention == ATTENTION_SEQUENCE;
}

/* ---- sorting ---- */

struct sized_group {
    int64_t units;
    uint32_t group;
};

static int more_units_first(const void *a, const void *b) {
    const struct sized_group *left = a, *right = b;
    if (left->units != right->units) return left->units > right->units ? -1 : 1;
    return (left->group > right->group) - (left->group < right->group);
}

static int64_t group_images(const struct batch_plan *plan, const struct dataset *dataset,
                            int64_t group) {
    int64_t images = 0;
    for (uint32_t k = plan->starts[group]; k < plan->starts[group + 1]; k++)
        images += images_of(dataset, plan->samples[k]);
    return images;
}

/* The ranks keep the same micro-batches in each window, dealt by size. */
static void sort_windows(const struct batch_plan *plan, const struct dataset *dataset,
                         int64_t window) {
    const int64_t ranks = plan->rank_count, count = ranks * plan->per_rank;
    struct sized_group *sorted = memory_alloc(sizeof *sorted * (size_t)count);
    for (int64_t g = 0; g < count; g++)
        sorted[g] = (struct sized_group){ group_images(plan, dataset, g), (uint32_t)g };
    for (int64_t first = 0; first < count; first += window) {
        const int64_t left = count - first;
        qsort(sorted + first, (size_t)(left < window ? left : window), sizeof *sorted,
              more_units_first);
    }
    for (int64_t g = 0; g < count; g++)
        plan->order[g % ranks * plan->per_rank + g / ranks] = sorted[g].group;
    free(sorted);
}

static bool pack_plan(const struct batch_request *request, const void *parameter_values,
                      struct batch_plan *plan, struct error *err) {
    const struct pack_parameters *p = parameter_values;
    if (!sampler_begin("pack", request, plan, err)) return false;
    const struct greedy_pack rule = {
        .size_limit = p->tokens,
        .unit_limit = p->images >= 0 ? p->images : INT64_MAX,
        .open_limit = p->open,
        .size_of = tokens_of,
        .units_of = images_of,
    };
    uint32_t *order = greedy_pack_order((enum greedy_pack_order)p->order, request);
    greedy_pack_fill(&rule, request, order, plan);
    free(order);
    plan->sequence_tokens = p->pad ? p->tokens : 0;
    plan->joint_attention = pack_joint_attention(p);
    if (!greedy_pack_deal("pack", request, plan, err)) {
        batch_plan_free(plan);
        return false;
    }
    if (p->sort_window > 0) sort_windows(plan, request->dataset, p->sort_window);
    return true;
}

const struct batching_policy batching_pack = {
    .name = "pack",
    .help = "whole samples packed into sequences of one length (DIP: 8192 tokens)",
    .packs = true,
    .parameters = &parameters,
    .parameters_size = sizeof(struct pack_parameters),
    .joint_attention = pack_joint_attention,
    .plan = pack_plan,
};
