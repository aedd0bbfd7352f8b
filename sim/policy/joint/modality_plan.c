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
#include "sim/policy/partition/exact.h"
#include "sim/policy/partition/partition.h"

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

/* So many clips of the mean length of this micro-batch, with their text. */
static struct batch_shape clips_shape(const struct batch_shape *typical, int64_t clips) {
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
    return range->decoder ? clips_shape(&o->typical, size) : images_shape(o, size);
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

/* The encoder's images are of one size; a decoder's clips are taken so. Otherwise micro-batches
 * stay whole. */
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

static bool plan_apart(const struct planner_oracle *o, const struct modality_options *options,
                       const struct range *ranges, int64_t modules, struct job_plan *plan,
                       struct error *err) {
    int64_t limits[MODULE_LIMIT], counts[MODULE_LIMIT];
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
    return true;
}

/* ---- segments of all modules together ---- */

/* With few micro-batches for each stage, filling and draining weighs: segments of its own save a
 * module little there where micro-batches are alike, and each row of them sends over all stages
 * once more. The other candidates are the chunks that Megatron-LM's interleaved schedule has, 2 or
 * 4 on each stage, and below one micro-batch a stage the one chunk of 1F1B. All are timed on some
 * iterations of the job, without a memory limit. */

struct iteration_segments {
    const struct planner_oracle *oracle;
    const struct job_plan *plan;
    const struct range *ranges;
    const struct batch_shape *shapes; /* by micro-batch */
    struct segment_graph *graph;
    int32_t *level_of;
    int64_t at, class;
};

static int64_t units_in(const struct iteration_segments *s, int64_t module, int64_t micro_batch) {
    int64_t most = s->plan->modules[module].sub_batch;
    if (most == 0) return 1;
    return (most_pieces(&s->shapes[micro_batch], &s->ranges[module]) + most - 1) / most;
}

static struct batch_shape unit_in(const struct iteration_segments *s, int64_t module,
                                  int64_t micro_batch) {
    const struct batch_shape *whole = &s->shapes[micro_batch];
    const struct range *range = &s->ranges[module];
    if (s->plan->modules[module].sub_batch == 0) return *whole;
    int64_t units = units_in(s, module, micro_batch);
    int64_t size = (most_pieces(whole, range) + units - 1) / units;
    return range->decoder ? clips_shape(whole, size) : images_shape(s->oracle, size);
}

static void time_segment(const struct iteration_segments *s, int64_t chunk, int64_t segment,
                         const struct batch_shape *shape) {
    const struct planner_oracle *o = s->oracle;
    for (int64_t rank = 0; rank < s->plan->stage_count; rank++) {
        struct planner_part_cost cost;
        o->part_cost(o->context, s->plan, chunk * s->plan->stage_count + rank, shape, &cost);
        struct segment_pass *pass = segment_graph_pass(s->graph, segment, rank);
        pass->forward_ns = llround(cost.forward_seconds * 1e9);
        pass->backward_ns = llround(cost.backward_seconds * 1e9);
        pass->send_forward_ns = llround(cost.send_forward_seconds * 1e9);
        pass->send_backward_ns = llround(cost.send_backward_seconds * 1e9);
    }
}

/* Segments of one module of one micro-batch; those of the next module come after them. Units of a
 * micro-batch are taken to be equal. */
static void add_units(struct iteration_segments *s, int64_t module, int64_t micro_batch) {
    struct segment_graph *g = s->graph;
    const struct plan_module *m = &s->plan->modules[module], *next = m + 1;
    const int64_t units = units_in(s, module, micro_batch), first = s->at;
    const bool last = module + 1 == s->plan->module_count;
    const int64_t next_units = last ? 0 : units_in(s, module + 1, micro_batch);
    const struct batch_shape shape =
        units > 0 ? unit_in(s, module, micro_batch) : s->oracle->typical;
    s->oracle->prepare(s->oracle->context, &shape, 1);
    for (int64_t i = 0; i < units * m->chunk_count; i++, s->at++) {
        int64_t chunk = i % m->chunk_count;
        if (i < m->chunk_count)
            time_segment(s, m->first_chunk + chunk, s->at, &shape);
        else
            memcpy(segment_graph_pass(g, s->at, 0), segment_graph_pass(g, first + chunk, 0),
                   sizeof *g->passes * (size_t)g->rank_count);
        s->level_of[s->at] = (int32_t)(m->first_chunk + chunk);
        g->class_of[s->at] = (int32_t)s->class;
        g->micro_batch_of[s->at] = (int32_t)micro_batch;
        if (chunk + 1 < m->chunk_count) segment_graph_add(g, s->at, s->at + 1);
        for (int64_t k = 0; chunk + 1 == m->chunk_count && k < next_units; k++)
            segment_graph_add(g, s->at, first + units * m->chunk_count + k * next->chunk_count);
    }
    s->class += units > 0;
}

enum { EXPECTING_ROLLOUTS = 40, EXPECTING_MICRO_BATCHES = 24 };

static int64_t iteration_ns(const struct planner_oracle *o, const struct job_plan *plan,
                            const struct range *ranges, const struct batch_shape *shapes) {
    struct arena *scratch = arena_create();
    struct iteration_segments s = { .oracle = o, .plan = plan, .ranges = ranges, .shapes = shapes };
    int64_t segments = 0, classes = 0;
    for (int64_t b = 0; b < o->micro_batch_count; b++)
        for (int64_t i = 0; i < plan->module_count; i++) {
            segments += units_in(&s, i, b) * plan->modules[i].chunk_count;
            classes += units_in(&s, i, b) > 0;
        }
    s.graph =
        segment_graph_create(scratch, plan->stage_count, segments, classes, o->micro_batch_count);
    s.graph->send_blocks_compute = o->send_blocks_compute;
    s.level_of = arena_array(scratch, int32_t, segments);
    for (int64_t b = 0; b < o->micro_batch_count; b++)
        for (int64_t i = 0; i < plan->module_count; i++)
            add_units(&s, i, b);
    for (int64_t rank = 0; rank < plan->stage_count; rank++)
        s.graph->capacity_bytes[rank] = INFINITY;
    segment_graph_close(s.graph);
    struct segment_schedule schedule;
    schedule.tasks = arena_array(scratch, struct segment_task, segment_schedule_size(s.graph));
    struct segment_search_options options = segment_search_defaults();
    options.rollouts = EXPECTING_ROLLOUTS;
    int64_t ns = dip_order(s.graph, s.level_of, &options, &schedule);
    arena_destroy(scratch);
    return ns;
}

/* Sum of the first iterations of the job. */
static int64_t expected_ns(const struct planner_oracle *o, const struct job_plan *plan,
                           const struct range *ranges) {
    int64_t each = o->micro_batch_count, sum_ns = 0;
    for (int64_t i = 0;
         i + each <= o->shape_count && (i == 0 || i + each <= EXPECTING_MICRO_BATCHES); i += each)
        sum_ns += iteration_ns(o, plan, ranges, o->shapes + i);
    return sum_ns;
}

enum { TOGETHER_SIMULATIONS = 2000, TOGETHER_MICRO_BATCHES_A_STAGE = 8 };

enum division { DIVIDED_BY_TIME, DIVIDED_BY_PARAMETERS, DIVISION_COUNT };

/* One chunk is divided as 1F1B runs fastest, more by their time or, as Megatron-LM's are here, by
 * their parameters. False: no division was found. */
static bool plan_together(const struct planner_oracle *o, int64_t chunks, enum division division,
                          struct job_plan *plan) {
    plan->modules = arena_array(o->arena, struct plan_module, 1);
    plan->modules[0] = (struct plan_module){ .chunk_count = chunks };
    plan->module_count = 1;
    plan->chunk_count = chunks;
    plan->part_count = plan->stage_count * chunks;
    plan->first_layer = arena_array(o->arena, int64_t, plan->part_count + 1);
    if (chunks > 1) {
        if (partition_block_count(o->model) < plan->part_count) return false;
        if (division == DIVIDED_BY_PARAMETERS) /* parameters of zeros are the policy's defaults */
            return partition_parameter.plan_job(
                o, arena_array(o->arena, char, (int64_t)partition_parameter.parameters_size), plan,
                NULL);
        const struct range all = { .count = o->model->layer_count };
        double *by_layer = arena_array(o->arena, double, all.count);
        o->prepare(o->context, &o->typical, 1);
        range_seconds(o, &all, &o->typical, by_layer);
        modality_divide(by_layer, all.count, plan->part_count, plan->first_layer);
        return true;
    }
    struct exact_result result;
    int64_t *blocks = arena_array(o->arena, int64_t, plan->stage_count);
    plan->schedule = &schedule_1f1b;
    if (!exact_search(o, plan, TOGETHER_SIMULATIONS, blocks, &result, NULL) || !result.fits)
        return false;
    partition_apply(o->model, blocks, plan);
    plan->schedule = &planned;
    return true;
}

/* With as many of the largest micro-batches in flight as its schedule has. */
static bool fits(const struct planner_oracle *o, const struct job_plan *plan) {
    for (int64_t stage = 0; stage < plan->stage_count; stage++)
        if (o->stage_bytes(o->context, plan, stage, &o->largest) > o->capacity_bytes) return false;
    return true;
}

static struct job_plan without_recomputation(const struct planner_oracle *o,
                                             const struct job_plan *plan) {
    struct job_plan kept = *plan;
    kept.recompute = arena_array(o->arena, enum recompute_kind, o->model->layer_count);
    for (int64_t i = 0; i < o->model->layer_count; i++)
        kept.recompute[i] = RECOMPUTE_NONE;
    return kept;
}

/* As the memory step leaves few micro-batches: if they all fit, nothing is computed again. */
static int64_t few_ns(const struct planner_oracle *o, const struct job_plan *plan,
                      const struct range *ranges) {
    const struct job_plan kept = without_recomputation(o, plan);
    return expected_ns(o, fits(o, &kept) ? &kept : plan, ranges);
}

static int64_t kept_ns(const struct planner_oracle *o, const struct job_plan *plan,
                       const struct range *ranges) {
    const struct job_plan kept = without_recomputation(o, plan);
    return expected_ns(o, &kept, ranges);
}

/* Only where everything is kept: then nothing is slower than seen here, and what it stands against
 * is at best as fast. */
static bool fits_interleaved(const struct planner_oracle *o, const struct job_plan *plan) {
    struct job_plan kept = without_recomputation(o, plan);
    kept.schedule = &schedule_interleaved;
    return fits(o, &kept);
}

static bool may_be_together(const struct planner_oracle *o, const struct modality_options *options,
                            const struct job_plan *plan) {
    return !options->apart && options->sub_batch < 0 && options->sub_batch_clips < 0 &&
           options->vision_segments < 0 && options->other_segments < 0 && plan->module_count > 1 &&
           o->micro_batch_count <= TOGETHER_MICRO_BATCHES_A_STAGE * plan->stage_count &&
           o->shape_count >= o->micro_batch_count &&
           partition_block_count(o->model) >= plan->stage_count;
}

bool modality_plan(const struct planner_oracle *o, const struct modality_options *options,
                   struct job_plan *plan, struct error *err) {
    struct range ranges[MODULE_LIMIT];
    const struct range all = { .count = o->model->layer_count };
    int64_t modules = list_modules(o->model, ranges);
    for (int64_t i = 0; i < o->model->layer_count; i++)
        plan->recompute[i] = layer_can_recompute(o->model, i) ? options->recompute : RECOMPUTE_NONE;
    plan->schedule = &planned;
    if (!plan_apart(o, options, ranges, modules, plan, err)) return false;
    if (!may_be_together(o, options, plan)) return true;
    struct job_plan best = *plan, together = *plan;
    const struct range *best_ranges = ranges;
    if (o->micro_batch_count < plan->stage_count &&
        plan_together(o, 1, DIVIDED_BY_TIME, &together) &&
        few_ns(o, &together, &all) < few_ns(o, plan, ranges)) {
        best = together;
        best_ranges = &all;
    }
    int64_t best_ns = kept_ns(o, &best, best_ranges);
    for (int64_t chunks = 2; chunks <= 4; chunks *= 2)
        for (int division = 0; division < DIVISION_COUNT; division++) {
            together = *plan;
            if (!plan_together(o, chunks, (enum division)division, &together) ||
                !fits_interleaved(o, &together))
                continue;
            const int64_t ns = kept_ns(o, &together, &all);
            if (ns >= best_ns) continue;
            best_ns = ns;
            best = together;
        }
    *plan = best;
    return true;
}
