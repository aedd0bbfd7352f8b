/* imbalance.c - sums over micro-batches and steps; one pass each. */
#include "sim/study/reproduce/imbalance.h"

#include <math.h>
#include "sim/base/units.h"
#include "sim/model/layer_division.h"

struct moments {
    double count, sum, squares;
};

static void add(struct moments *m, double value) {
    m->count++;
    m->sum += value;
    m->squares += value * value;
}

static struct spread spread_of(const struct moments *m) {
    if (m->count == 0) return (struct spread){ NAN, NAN };
    double mean = m->sum / m->count;
    return (struct spread){ mean, sqrt(fmax(m->squares / m->count - mean * mean, 0)) };
}

static void merge(struct moments *into, const struct moments *from) {
    into->count += from->count;
    into->sum += from->sum;
    into->squares += from->squares;
}

static struct spread spread_of_all(const struct moments *by_stage, int64_t stage_count) {
    struct moments all = { 0 };
    for (int64_t stage = 0; stage < stage_count; stage++)
        merge(&all, &by_stage[stage]);
    return spread_of(&all);
}

static double patches_of(const struct execution *e, const struct batch_shape *shape) {
    const struct module *vision = &e->scenario->model->modules[MODULE_VISION];
    return (double)batch_patch_count(vision, shape);
}

struct collected {
    struct moments vision, language, input, *forward, *memory;
};

static void collect_micro_batches(const struct execution *e, struct collected *c) {
    const struct job *job = e->job;
    const struct step_model *step = job->step;
    int64_t used = job->iteration_count * e->scenario->micro_batches_per_rank;
    for (int64_t rank = 0; rank < job->batches.rank_count; rank++)
        for (int64_t i = 0; i < used; i++) {
            const struct batch_shape *shape = &job->shapes[rank * job->batches.per_rank + i];
            double samples = (double)(shape->samples > 0 ? shape->samples : 1);
            double vision = patches_of(e, shape) / samples;
            double language = (double)shape->language_tokens / samples;
            add(&c->vision, vision);
            add(&c->language, language);
            struct layer_time times[LAYER_KIND_COUNT];
            step_layer_times(step, shape, times);
            for (int64_t stage = 0; stage < step->stage_count; stage++) {
                double forward_ns = 0;
                for (int64_t part = stage; part < step->part_count; part += step->stage_count) {
                    struct stage_cost cost;
                    step_stage_cost(step, part, shape, times, NULL, &cost);
                    forward_ns += (double)cost.forward_ns;
                }
                add(&c->forward[stage], forward_ns * 1e-6);
                add(&c->input, stage == 0 ? vision : language);
            }
        }
}

/* Steps are alike in memory: some hundred of them, evenly over the epoch. */
enum { MEMORY_STEPS = 256 };

static void collect_memory(const struct execution *e, struct collected *c) {
    const struct job *job = e->job;
    struct step_runner *runner = step_runner_create(job->step);
    struct error ignored = { 0 };
    int64_t count = e->scenario->micro_batches_per_rank;
    int64_t stride = (job->iteration_count + MEMORY_STEPS - 1) / MEMORY_STEPS;
    for (int64_t i = 0; i < job->iteration_count; i += stride)
        for (int64_t rank = 0; rank < job->batches.rank_count; rank++) {
            const struct batch_shape *shapes =
                job->shapes + rank * job->batches.per_rank + i * count;
            struct rank_outcome outcome;
            if (!step_run_rank(runner, FIDELITY_STAGE, shapes, count, &outcome, &ignored)) continue;
            for (int64_t stage = 0; stage < job->step->stage_count; stage++)
                add(&c->memory[stage], stage_memory_device(&outcome.memory[stage]));
        }
    step_runner_destroy(runner);
}

struct imbalance *imbalance_measure(const struct execution *e, struct arena *arena) {
    int64_t stages = e->job->step->stage_count;
    struct collected c = { .forward = arena_array(arena, struct moments, stages),
                           .memory = arena_array(arena, struct moments, stages) };
    collect_micro_batches(e, &c);
    collect_memory(e, &c);
    struct imbalance *out = arena_new(arena, struct imbalance);
    *out = (struct imbalance){
        .stage_count = stages,
        .vision_tokens = spread_of(&c.vision),
        .language_tokens = spread_of(&c.language),
        .stage_input_tokens = spread_of(&c.input),
        .forward_ms = spread_of_all(c.forward, stages),
        .memory_bytes = spread_of_all(c.memory, stages),
        .stage_forward_ms = arena_array(arena, struct spread, stages),
        .stage_memory_bytes = arena_array(arena, struct spread, stages),
    };
    for (int64_t stage = 0; stage < stages; stage++) {
        out->stage_forward_ms[stage] = spread_of(&c.forward[stage]);
        out->stage_memory_bytes[stage] = spread_of(&c.memory[stage]);
    }
    return out;
}
