/* explanation_parts.c - what run's breakdown is made of.
 *
 *     layers      operators at the typical micro-batch - what runs beside others = typical time
 *                 + what the replayed micro-batches differ = time of the layers of `run`
 *     elsewhere   operators - what is hidden or waited for = the class of `run`
 */
#include "sim/study/explanation_parts.h"

#include <math.h>
#include <string.h>
#include "sim/base/units.h"
#include "sim/step/outer_operators.h"

static const char *const bound_names[] = {
    [PRICE_COMPUTE] = "compute",
    [PRICE_MEMORY] = "memory",
    [PRICE_NETWORK] = "network",
    [PRICE_LAUNCH] = "launch",
};

/* ---- rows ---- */

/* "stage 1", "stages 1-4", "4 of stages 1-8"; nothing where there is one stage. */
static const char *stage_text(const char *name, int64_t first, int64_t last, int64_t count,
                              int64_t stages, struct arena *arena) {
    if (stages == 1 || count == stages) return arena_text(arena, name);
    if (count == 1) return arena_format(arena, "%s, stage %ld", name, (long)first + 1);
    if (count == last - first + 1)
        return arena_format(arena, "%s, stages %ld-%ld", name, (long)first + 1, (long)last + 1);
    return arena_format(arena, "%s, %ld of stages %ld-%ld", name, (long)count, (long)first + 1,
                        (long)last + 1);
}

static bool same_on_stages(const struct outer_operator *a, const struct outer_operator *b) {
    return a->purpose == b->purpose && strcmp(a->work.name, b->work.name) == 0 &&
           a->work.kind == b->work.kind && a->work.pass == b->work.pass &&
           a->work.network_bytes == b->work.network_bytes &&
           a->work.memory_bytes == b->work.memory_bytes && a->price.seconds == b->price.seconds &&
           a->calls == b->calls;
}

static struct price_record outer_record(const struct outer_operator *o, const char *operator,
                                        double rank_fraction, struct arena *arena) {
    const double moved = o->work.memory_bytes * (o->price.traffic > 0 ? o->price.traffic : 1),
                 bytes = operator_is_collective(o->work.kind) ? o->work.network_bytes : moved;
    return (struct price_record){
        .layer_kind = outer_purpose_name(o->purpose),
        .operator= operator,
        .kind = operator_kind_name(o->work.kind),
        .pass = operator_pass_name(o->work.pass),
        .shape = o->work.kind == OPERATOR_MATMUL
                     ? arena_format(arena, "m=%ld n=%ld k=%ld", (long)o->work.m, (long)o->work.n,
                                    (long)o->work.k)
                     : arena_format(arena, "bytes=%.0f", bytes),
        .calls_per_step = o->calls,
        .rank_fraction = rank_fraction,
        .flop = o->work.flop,
        .memory_bytes = moved,
        .network_bytes = o->work.network_bytes,
        .price_s = o->price.seconds,
        .launch_s = o->price.launch_s,
        .efficiency_fraction = o->price.efficiency,
        .bound = bound_names[o->price.bound],
        .source = o->price.source,
        .inside_range = o->price.inside_range,
        .band_fraction = o->price.band_fraction,
    };
}

static void add_outer(const struct execution *e, const struct outer_list *list, struct arena *arena,
                      struct explanation *x) {
    const int64_t stages = e->job->plan.stage_count;
    bool *done = arena_array(arena, bool, list->count + 1);
    for (int64_t i = 0; i < list->count; i++) {
        const struct outer_operator *o = &list->operators[i];
        if (done[i]) continue;
        int64_t first = o->stage, last = o->stage, count = 0;
        for (int64_t k = i; k < list->count; k++) {
            const struct outer_operator *other = &list->operators[k];
            if (done[k] || !same_on_stages(o, other)) continue;
            done[k] = true;
            count++;
            first = other->stage < first ? other->stage : first;
            last = other->stage > last ? other->stage : last;
        }
        const char *name = stage_text(o->work.name, first, last, count, stages, arena);
        x->prices[x->price_count] = outer_record(o, name, (double)count / (double)stages, arena);
        x->prices[x->price_count].price_index = x->price_count;
        x->price_count++;
    }
}

void explanation_outer_prices(const struct execution *e, struct arena *arena,
                              struct explanation *x) {
    struct outer_list list = { 0 };
    step_outer_operators(e->job->step, &e->job->typical, arena, &list);
    struct price_record *layers = x->prices;
    x->prices = arena_array(arena, struct price_record, x->price_count + list.count + 1);
    memcpy(x->prices, layers, sizeof *layers * (size_t)x->price_count);
    add_outer(e, &list, arena, x);
    outer_list_free(&list);
}

/* ---- parts ---- */

static double operators_of(const struct explanation *x, const char *name) {
    double sum = 0;
    for (int64_t i = 0; i < x->price_count; i++)
        if (strcmp(x->prices[i].layer_kind, name) == 0)
            sum += x->prices[i].price_s * x->prices[i].calls_per_step * x->prices[i].rank_fraction;
    return sum;
}

static struct step_part *add_part(struct explanation *x, const char *name, enum step_group group,
                                  double operators_s, double counted_s) {
    struct step_part *part = &x->parts[x->part_count++];
    *part = (struct step_part){ .name = name,
                                .group = group,
                                .operators_s = operators_s,
                                .beside_s = operators_s - counted_s,
                                .counted_s = counted_s };
    return part;
}

/* Layers of one kind at the typical micro-batch, mean over GPUs. */
static double typical_s(const struct execution *e, const char *name) {
    const struct model *model = e->scenario->model;
    double ns = 0;
    for (int64_t i = 0; i < model->layer_count; i++) {
        const enum layer_kind kind = model->layers[i].kind;
        struct layer_time time;
        if (strcmp(layer_kind_name(kind), name) != 0) continue;
        price_table_layer(price_table_of_layer(e->job->prices, i), kind, &e->job->typical, &time);
        ns += (double)(time.forward_ns + time.backward_ns +
                       time.recompute_ns[e->job->plan.recompute[i]]);
    }
    return ns * (double)e->scenario->micro_batches_per_rank / (double)e->job->plan.stage_count /
           NS_PER_S;
}

/* What copies to the host leave exposed, over the replayed micro-batches. */
static double exposed_copies_s(const struct execution *e) {
    const struct job *job = e->job;
    if (e->scenario->training_fields.offload_blocks == 0) return 0;
    const int64_t per_rank = e->replay->iteration_count * e->scenario->micro_batches_per_rank;
    double ns = 0;
    for (int64_t rank = 0; rank < job->batches.rank_count; rank++)
        for (int64_t i = 0; i < per_rank; i++) {
            const struct batch_shape *shape = &job->shapes[rank * job->batches.per_rank + i];
            struct layer_time times[LAYER_KIND_COUNT];
            step_layer_times(job->step, shape, times);
            for (int64_t l = 0; l < e->scenario->model->layer_count; l++) {
                struct offload_time copies = step_offload_time(job->step, l, times);
                ns += (double)(copies.forward_ns + copies.backward_ns);
            }
        }
    return ns / (double)(job->batches.rank_count * e->replay->iteration_count) /
           (double)job->plan.stage_count / NS_PER_S;
}

/* run's class under its own name, for parts that no operator makes. */
static void add_idle(const struct execution *e, struct explanation *x) {
    static const enum replay_class idle[] = { REPLAY_BUBBLE, REPLAY_STAGE_IMBALANCE,
                                              REPLAY_TIME_IMBALANCE, REPLAY_RANK_IMBALANCE,
                                              REPLAY_LOADING };
    for (size_t i = 0; i < sizeof idle / sizeof idle[0]; i++)
        if (e->replay->classes_s[idle[i]] != 0)
            add_part(x, replay_class_name(idle[i]), STEP_IDLE, 0, e->replay->classes_s[idle[i]])
                ->beside_s = -e->replay->classes_s[idle[i]];
}

void explanation_parts(const struct execution *e, struct explanation *x) {
    const double *classes = e->replay->classes_s;
    const double stages = (double)e->job->plan.stage_count;
    double layers_s = 0, accumulation_s = 0;
    for (int64_t i = 0; i < x->layer_kind_count; i++) {
        const struct layer_share *l = &x->layers[i];
        const double counted =
            (l->forward_s + l->backward_s + l->recompute_s) * (double)l->stage_count / stages;
        const double typical = typical_s(e, l->layer_kind);
        struct step_part *part =
            add_part(x, l->layer_kind, STEP_LAYERS, operators_of(x, l->layer_kind), counted);
        part->beside_s = part->operators_s - typical;
        part->others_s = counted - typical;
        layers_s += counted;
    }
    for (int64_t part = 0; part < e->job->plan.part_count; part++)
        accumulation_s +=
            (double)(e->job->step->accumulate_ns[part] * e->scenario->micro_batches_per_rank) /
            stages / NS_PER_S;
    const char *accumulation = outer_purpose_name(OUTER_ACCUMULATION),
               *copies = outer_purpose_name(OUTER_HOST_COPY);
    if (accumulation_s > 0)
        add_part(x, accumulation, STEP_LAYERS, operators_of(x, accumulation), accumulation_s);
    const double copies_s = exposed_copies_s(e);
    if (operators_of(x, copies) > 0)
        add_part(x, copies, STEP_LAYERS, operators_of(x, copies), copies_s);
    /* A rank that what_if slows, or a planner that chooses recomputation anew each step. */
    const double rest = classes[REPLAY_COMPUTE] + classes[REPLAY_PADDING] +
                        classes[REPLAY_RECOMPUTE] + classes[REPLAY_LAUNCH] +
                        classes[REPLAY_TENSOR] + classes[REPLAY_CONTEXT] +
                        classes[REPLAY_HOST_COPY] - layers_s - accumulation_s - copies_s;
    if (fabs(rest) > 1e-6 * e->replay->step_time_mean_s)
        add_part(x, "slower GPUs and choices of a step", STEP_LAYERS, 0, rest);
    const struct {
        enum outer_purpose purpose;
        enum step_group group;
        enum replay_class class;
    } outer[] = {
        { OUTER_SEND, STEP_SENDS, REPLAY_SEND },
        { OUTER_REDUCTION, STEP_REDUCTION, REPLAY_DATA },
        { OUTER_UPDATE, STEP_UPDATE, REPLAY_UPDATE },
    };
    for (size_t i = 0; i < sizeof outer / sizeof outer[0]; i++) {
        const char *name = outer_purpose_name(outer[i].purpose);
        add_part(x, name, outer[i].group, operators_of(x, name), classes[outer[i].class]);
    }
    add_idle(e, x);
}
