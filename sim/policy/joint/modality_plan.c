/* modality_plan.c - DIP's modality-aware partitioner (section 4) on the oracle's prices.
 *
 * A module here is what runs in segments of its own: the encoder with its connector, the language
 * model with its embedding and head. Its layers are divided into P x K_i chunks by their time, so
 * that 63 blocks on 4 ranks and a heavy head come out as even as whole layers allow.
 */
#include "sim/policy/joint/dip.h"

#include <math.h>
#include <string.h>
#include "sim/policy/joint/modality_partition.h"

enum { MODULE_LIMIT = MODULE_ROLE_COUNT };
#define EFFICIENCY_SHARE 0.95

/* ---- the static order: any that respects the dependencies; iterations have their own ---- */

static void planned_order(const struct schedule_place *place, struct schedule_entry *entries) {
    for (int32_t m = 0; m < place->micro_batch_count; m++) {
        for (int64_t c = 0; c < place->chunk_count; c++)
            *entries++ = (struct schedule_entry){ .micro_batch = m, .chunk = (int16_t)c };
        for (int64_t c = place->chunk_count - 1; c >= 0; c--)
            *entries++ =
                (struct schedule_entry){ .micro_batch = m, .chunk = (int16_t)c, .backward = true };
    }
}

static int64_t planned_in_flight(const struct schedule_place *place) {
    return place->chunk_count;
}

static const struct schedule_policy planned = {
    .name = "planned",
    .help = "each iteration has its own order",
    .interleaves = true,
    .order = planned_order,
    .in_flight = planned_in_flight,
};

/* ---- modules ---- */

struct range {
    int64_t first, count; /* layers */
    bool vision, decoder;
};

static int role_group(const struct model *model, int64_t layer) {
    int role = model->layers[layer].module_index;
    return role == MODULE_CONNECTOR ? MODULE_VISION : role;
}

static int64_t list_modules(const struct model *model, struct range *ranges) {
    int64_t count = 0;
    for (int64_t i = 0; i < model->layer_count; i++) {
        if (i == 0 || role_group(model, i) != role_group(model, i - 1))
            ranges[count++] =
                (struct range){ .first = i,
                                .vision = role_group(model, i) == MODULE_VISION,
                                .decoder = role_group(model, i) == MODULE_DIFFUSION_DECODER };
        ranges[count - 1].count++;
    }
    return count;
}

static double layer_seconds(const struct planner_oracle *o, int64_t layer,
                            const struct batch_shape *shape, enum recompute_kind recompute) {
    double forward = o->layer_seconds(o->context, layer, shape, PASS_SET_FORWARD);
    double backward = o->layer_seconds(o->context, layer, shape, PASS_SET_BACKWARD);
    bool again = recompute == RECOMPUTE_FULL && layer_can_recompute(o->model, layer);
    return forward * (again ? 2 : 1) + backward;
}

static double range_seconds(const struct planner_oracle *o, const struct range *range,
                            const struct batch_shape *shape, double *by_layer) {
    /* Layers of one kind are equal; ask once a kind. */
    double known[LAYER_KIND_COUNT], sum = 0;
    for (int k = 0; k < LAYER_KIND_COUNT; k++)
        known[k] = -1;
    for (int64_t i = 0; i < range->count; i++) {
        enum layer_kind kind = o->model->layers[range->first + i].kind;
        if (known[kind] < 0)
            known[kind] = layer_seconds(o, range->first + i, shape, RECOMPUTE_NONE);
        if (by_layer != NULL) by_layer[i] = known[kind];
        sum += known[kind];
    }
    return sum;
}

/* So many clips of the job's mean length, with their text. */
static struct batch_shape clips_shape(const struct planner_oracle *o, int64_t clips) {
    const struct batch_shape *typical = &o->typical;
    int64_t all = typical->video_clips > 0 ? typical->video_clips : 1;
    double part = (double)clips / (double)all;
    return (struct batch_shape){
        .samples = clips,
        .language_tokens = llround((double)typical->language_tokens * part),
        .language_square_sum = typical->language_square_sum * part,
        .useful_language_tokens = llround((double)typical->useful_language_tokens * part),
        .video_clips = clips,
        .video_tokens = llround((double)typical->video_tokens * part),
        .video_square_sum = typical->video_square_sum * part,
        .cross_square_sum = typical->cross_square_sum * part,
    };
}

/* So many images of the model's own size, as a sub-microbatch has them. */
static struct batch_shape images_shape(const struct planner_oracle *o, int64_t images) {
    return model_batch_shape(o->model, 1, images, 0, 0);
}

static struct batch_shape pieces_shape(const struct planner_oracle *o, const struct range *range,
                                       int64_t size) {
    return range->decoder ? clips_shape(o, size) : images_shape(o, size);
}

/* B_i. A micro-batch never has more clips than the largest. */
static int64_t choose_sub_batch(const struct planner_oracle *o, const struct range *range) {
    static const int64_t sizes[] = MODALITY_SIZES;
    enum { SIZE_COUNT = sizeof sizes / sizeof sizes[0] };
    double seconds[SIZE_COUNT];
    int tried = 0;
    for (; tried < SIZE_COUNT; tried++) {
        if (range->decoder && tried > 0 && sizes[tried] > o->largest.video_clips) break;
        struct batch_shape shape = pieces_shape(o, range, sizes[tried]);
        o->prepare(o->context, &shape, 1);
        seconds[tried] = range_seconds(o, range, &shape, NULL);
    }
    return sub_batch_size(seconds, sizes, tried, EFFICIENCY_SHARE);
}

/* The encoder's images are of one size; a decoder's clips are taken so. Otherwise micro-batches stay
 * whole. */
static bool splits(const struct planner_oracle *o, const struct range *range) {
    if (range->decoder) return o->largest.video_clips > 1;
    return range->vision && o->model->tile_vision_tokens > 0 && o->largest.vision_tiles > 0;
}

static int64_t most_pieces(const struct batch_shape *shape, const struct range *range) {
    return range->decoder ? shape->video_clips : shape->vision_tiles;
}

static void prepare_pieces(const struct planner_oracle *o, int64_t sub_batch) {
    for (int64_t images = 1; images <= sub_batch; images++) {
        struct batch_shape shape = images_shape(o, images);
        o->prepare(o->context, &shape, 1);
    }
}

static int64_t block_count(const struct planner_oracle *o, const struct range *range) {
    int64_t blocks = 0;
    for (int64_t i = 0; i < range->count; i++)
        blocks += layer_can_recompute(o->model, range->first + i);
    return blocks;
}

/* Each chunk has a block, and at least one chunk there is. */
static int64_t most_segments(const struct planner_oracle *o, const struct range *range,
                             int64_t stages) {
    int64_t most = block_count(o, range) / stages;
    return most < 1 ? 1 : most;
}

/* A module stands on every stage, in as many chunks as are asked for (0 or less: not said). */
static bool holds_chunks(const struct planner_oracle *o, const struct range *range, int64_t given,
                         int64_t stages, struct error *err) {
    const int64_t most = most_segments(o, range, stages);
    const char *module = module_role_name((enum module_role)role_group(o->model, range->first));
    if (range->count < stages) {
        error_set(err, "the %ld layers of module \"%s\" do not fill %ld stages", (long)range->count,
                  module, (long)stages);
        return error_hint(err, "every module stands on all stages: a smaller layout.pp");
    }
    if (given <= most) return true;
    error_set(err,
              "%s %ld on %ld stages: the %ld blocks of module \"%s\" make at most %ld chunks for "
              "each stage",
              range->vision ? "vision_segments" : "language_segments", (long)given, (long)stages,
              (long)block_count(o, range), module, (long)most);
    return error_hint(err, "leave it out to choose by latency");
}

bool modality_plan(const struct planner_oracle *o, const struct modality_options *options,
                   struct job_plan *plan, struct error *err) {
    struct range ranges[MODULE_LIMIT];
    int64_t modules = list_modules(o->model, ranges), limits[MODULE_LIMIT], counts[MODULE_LIMIT];
    double seconds[MODULE_LIMIT];
    double *by_layer = arena_array(o->arena, double, o->model->layer_count);
    plan->modules = arena_array(o->arena, struct plan_module, modules);
    plan->module_count = modules;
    for (int64_t i = 0; i < modules; i++) {
        struct batch_shape shape = o->typical;
        if (splits(o, &ranges[i])) {
            int64_t asked = ranges[i].decoder ? options->sub_batch_clips : options->sub_batch;
            int64_t size = asked >= 0 ? asked : choose_sub_batch(o, &ranges[i]);
            plan->modules[i].sub_batch = size > 0 ? size : most_pieces(&o->largest, &ranges[i]);
            plan->modules[i].clips = ranges[i].decoder;
            if (!ranges[i].decoder) prepare_pieces(o, plan->modules[i].sub_batch);
            int64_t typical = size > 0 ? size : most_pieces(&o->typical, &ranges[i]);
            shape = pieces_shape(o, &ranges[i], typical > 0 ? typical : 1);
        }
        o->prepare(o->context, &shape, 1);
        seconds[i] = range_seconds(o, &ranges[i], &shape, by_layer + ranges[i].first);
        limits[i] = most_segments(o, &ranges[i], plan->stage_count);
        if (limits[i] > options->segments_limit) limits[i] = options->segments_limit;
    }
    modality_segment_counts(seconds, modules, limits, counts);
    plan->chunk_count = 0;
    for (int64_t i = 0; i < modules; i++) {
        int64_t given = ranges[i].vision ? options->vision_segments : options->other_segments;
        if (!holds_chunks(o, &ranges[i], given, plan->stage_count, err)) return false;
        if (given > 0) counts[i] = given;
        plan->modules[i].first_chunk = plan->chunk_count;
        plan->modules[i].chunk_count = counts[i];
        plan->chunk_count += counts[i];
    }
    plan->part_count = plan->stage_count * plan->chunk_count;
    plan->first_layer = arena_array(o->arena, int64_t, plan->part_count + 1);
    for (int64_t i = 0; i < modules; i++) {
        int64_t parts = counts[i] * plan->stage_count,
                *first = plan->first_layer + plan->modules[i].first_chunk * plan->stage_count;
        modality_divide(by_layer + ranges[i].first, ranges[i].count, parts, first);
        for (int64_t p = 0; p <= parts; p++)
            first[p] += ranges[i].first;
    }
    for (int64_t i = 0; i < o->model->layer_count; i++)
        plan->recompute[i] =
            layer_can_recompute(o->model, i) ? options->recompute : RECOMPUTE_NONE;
    plan->schedule = &planned;
    return true;
}
