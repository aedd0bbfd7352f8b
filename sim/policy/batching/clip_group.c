/* clip_group.c - short video clips share a micro-batch, as DIP's text-to-video runs do.
 *
 * DIP (ASPLOS'26) section 7.1, after Movie Gen: videos at 16 frames a second are at most 16 s long,
 * and up to 8 clips go into one micro-batch as long as they last no more than 16 s together. Each
 * clip remains a sequence of its own. The order is not said: a permutation is taken, and a clip
 * that does not fit begins a new group (`open` 1); more open groups waste less. A clip beyond the
 * limit is left out; a data set's clip_limit_ms cuts it instead, as DIP's transcoding does.
 */
#include <stdlib.h>
#include "sim/policy/batching/greedy_pack.h"
#include "sim/policy/batching/policies.h"
#include "sim/policy/batching/samplers.h"

struct clip_parameters {
    int64_t clips, open;
    double seconds;
    int order, buckets;
};

/* Frames of one size can be stacked; trainers of several sizes draw each batch from one bucket. */
enum buckets { BUCKETS_NONE, BUCKETS_SIZE, BUCKETS_SIZE_AND_LENGTH };
static const char *const bucket_names[] = { "none", "size", "size-and-length", NULL };

#define AT(member) offsetof(struct clip_parameters, member)
static const struct field fields[] = {
    { "clips", FIELD_COUNT, AT(clips), 1, 1e6, "8", "clips", "most clips in a micro-batch", NULL },
    { "seconds", FIELD_DOUBLE, AT(seconds), 0.001, 86400, "16", "s",
      "longest that the clips of a micro-batch last together", NULL },
    { "open", FIELD_COUNT, AT(open), 1, 1e4, "1", "",
      "micro-batches that are filled at one time: a clip goes to the oldest that has room", NULL },
    { "order", FIELD_CHOICE, AT(order), 0, 0, "\"shuffle\"", "",
      "shuffle: a NumPy permutation of the clips; file: as they stand", greedy_pack_order_names },
    { "buckets", FIELD_CHOICE, AT(buckets), 0, 0, "\"none\"", "",
      "clips of a micro-batch have frames of one size, and also one length, as trainers with "
      "buckets of resolutions have it; \"open\" is of each bucket",
      bucket_names },
};
static const struct field_table parameters =
    FIELD_TABLE("clip-group", "video clips grouped by number and length", fields);

static int64_t length_of(const struct dataset *dataset, uint32_t sample) {
    return dataset->clip_ms[sample];
}

static int64_t one(const struct dataset *dataset, uint32_t sample) {
    (void)dataset, (void)sample;
    return 1;
}

static uint64_t size_of_frames(const struct dataset *dataset, uint32_t sample) {
    if (dataset->frame_sizes == NULL) return 0;
    return (uint64_t)dataset->frame_sizes[sample].width << 32 | dataset->frame_sizes[sample].height;
}

/* Sides are below 2^20 and a clip's milliseconds below 2^27: mixed, two kinds hardly ever meet. */
static uint64_t size_and_length(const struct dataset *dataset, uint32_t sample) {
    return size_of_frames(dataset, sample) ^
           (uint64_t)dataset->clip_ms[sample] * 0x9e3779b97f4a7c15u;
}

static bool clip_group_plan(const struct batch_request *request, const void *parameter_values,
                            struct batch_plan *plan, struct error *err) {
    const struct clip_parameters *p = parameter_values;
    if (!sampler_begin("clip-group", request, plan, err)) return false;
    if (request->dataset->clip_ms == NULL) {
        error_set(err, "clip-group: data set '%s' has no video clips", request->dataset->name);
        return error_hint(err, "give each sample's clip_ms, or use the policy pack");
    }
    const struct greedy_pack rule = {
        .size_limit = (int64_t)(p->seconds * 1000 + 0.5),
        .unit_limit = p->clips,
        .open_limit = p->open,
        .size_of = length_of,
        .units_of = one,
        .kind_of = p->buckets == BUCKETS_SIZE              ? size_of_frames
                   : p->buckets == BUCKETS_SIZE_AND_LENGTH ? size_and_length
                                                           : NULL,
    };
    uint32_t *order = greedy_pack_order((enum greedy_pack_order)p->order, request);
    greedy_pack_fill(&rule, request, order, plan);
    free(order);
    if (greedy_pack_deal("clip-group", request, plan, err)) return true;
    batch_plan_free(plan);
    return false;
}

const struct batching_policy batching_clip_group = {
    .name = "clip-group",
    .help = "video clips share a micro-batch up to a number and a length (DIP: 8 clips, 16 s)",
    .packs = true,
    .fits_clips = true,
    .parameters = &parameters,
    .parameters_size = sizeof(struct clip_parameters),
    .plan = clip_group_plan,
};
