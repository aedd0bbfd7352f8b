/* job.c - the order of preparation: data, micro-batches, prices, plan, step model. */
#include "sim/replay/job.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>
#include "sim/base/units.h"
#include "sim/base/wall_clock.h"
#include "sim/replay/job_data.h"
#include "sim/replay/job_limits.h"
#include "sim/scenario/scenario_fields.h"

double job_left_out_fraction(const struct job *job) {
    return (double)job->samples_left_out / (double)job->batches.samples_in;
}

double job_dropped_fraction(const struct job *job) {
    const struct batch_plan *b = &job->batches;
    const int64_t dropped = b->dropped_by_sampler - b->repeated_by_sampler;
    return dropped > 0 ? (double)dropped / (double)b->samples_packed : 0;
}

int64_t job_samples_asked(const struct scenario *s) {
    const struct batching_policy *policy = s->batching.row;
    return policy->packs ? 1 : s->micro_batch_samples;
}

bool job_asks_for_samples(const struct scenario *s) {
    const cJSON *asked = s->training_fields.global_batch;
    return cJSON_GetObjectItemCaseSensitive(asked, "micro_batches") == NULL;
}

/* 0 when the scenario gives the number of micro-batches. */
static int64_t asked_samples_per_step(const struct scenario *s) {
    if (!job_asks_for_samples(s)) return 0;
    return s->micro_batches_per_rank * s->layout.dp * s->micro_batch_samples *
           batching_policy_groups_joined(s->batching.row, s->batching.parameters);
}

static double mean_samples_per_step(const struct job *job) {
    const struct batch_plan *b = &job->batches;
    int64_t used = job->epoch_iterations * job->scenario->micro_batches_per_rank, samples = 0;
    for (int64_t rank = 0; rank < b->rank_count; rank++)
        for (int64_t i = 0; i < used; i++) {
            uint32_t group = b->order[rank * b->per_rank + i];
            samples += b->starts[group + 1] - b->starts[group];
        }
    return (double)samples / (double)job->epoch_iterations;
}

/* To replay: what the scenario asks for of what the job holds. */
static void limit_iterations(struct job *job) {
    int64_t limit = job->scenario->iteration_limit;
    job->iteration_count = job->batches.per_rank / job->scenario->micro_batches_per_rank;
    if (limit > 0 && limit < job->iteration_count) job->iteration_count = limit;
}

static void note_short_pass(struct job *job) {
    const int64_t limit = job->scenario->iteration_limit;
    if (limit > job->iteration_count)
        job->data_notes[job->data_note_count++] =
            arena_format(job->arena,
                         "%ld steps are asked for (simulate.iterations), a pass over the data has "
                         "%ld: these are replayed, once",
                         (long)limit, (long)job->iteration_count);
}

static void note_unseen_clips(struct job *job) {
    const struct batching_policy *policy = job->scenario->batching.row;
    const bool clips = job->dataset->clip_ms != NULL &&
                       job->scenario->model->modules[MODULE_DIFFUSION_DECODER].layer_count > 0;
    if (!clips || policy->fits_clips || !(policy->packs || policy->sorts)) return;
    job->data_notes[job->data_note_count++] = arena_format(
        job->arena,
        policy->packs ? "policy %s packs by text and images: nothing bounds the clips of a "
                        "micro-batch (clip-group does)"
                      : "policy %s groups by text and images, whatever the clips (clip-group "
                        "counts them)",
        policy->name);
}

static bool make_batches(struct job *job, struct error *err) {
    const struct scenario *s = job->scenario;
    const struct batching_policy *policy = s->batching.row;
    double start = wall_clock_s();
    struct batch_request request = {
        .dataset = job->dataset,
        .dp = s->layout.dp,
        .micro_batch = job_samples_asked(s),
        .seed = (uint32_t)s->simulate_fields.seed,
    };
    if (!policy->plan(&request, s->batching.parameters, &job->batches, err)) {
        /* These data cannot be packed so: of a sweep that is one configuration less. */
        if (err != NULL && err->rule == NULL) err->rule = "batching";
        return error_context(err, "while batching with policy \"%s\"", policy->name);
    }
    job->batch_s = wall_clock_s() - start;
    note_unseen_clips(job);
    if (job->batches.limits_chosen)
        job->data_notes[job->data_note_count++] =
            arena_format(job->arena, "%s chose qv %ld and qt %ld from the data", policy->name,
                         (long)job->batches.qv, (long)job->batches.qt);
    batch_plan_balance(&job->batches, job->dataset, &job->balance);

    int64_t per_rank = job->batches.per_rank;
    job->epoch_iterations = per_rank / s->micro_batches_per_rank;
    job->pass_steps = (double)per_rank / (double)s->micro_batches_per_rank;
    job->epoch_steps = job->pass_steps / (1 - job_dropped_fraction(job));
    if (job->epoch_iterations == 0) {
        error_set(err,
                  "data set \"%s\" gives each data-parallel rank %ld micro-batch%s, one step needs "
                  "%ld: use a smaller training.global_batch",
                  job->dataset->name, (long)per_rank, per_rank == 1 ? "" : "es",
                  (long)s->micro_batches_per_rank);
        if (err != NULL) err->rule = "enough-data";
        return false;
    }
    job->samples_per_step = mean_samples_per_step(job);
    job->asked_samples_per_step = asked_samples_per_step(s);
    job->samples_left_out = batch_plan_left_out(&job->batches);
    limit_iterations(job);
    return true;
}

static void make_shapes(struct job *job) {
    const struct batch_plan *b = &job->batches;
    int64_t count = b->rank_count * b->per_rank;
    job->shapes = memory_alloc(sizeof *job->shapes * (size_t)(count > 0 ? count : 1));
    for (int64_t i = 0; i < count; i++) {
        uint32_t group = b->order[i];
        job->shapes[i] =
            batch_shape_of_group(job->scenario->model, job->dataset, b->samples + b->starts[group],
                                 (int64_t)(b->starts[group + 1] - b->starts[group]), b->packed);
        batch_shape_as_sequence(&job->shapes[i], job->scenario->model,
                                batch_plan_sequence_tokens(b, group), b->joint_attention);
    }
    job->typical = batch_shape_mean(job->shapes, count);
    job->largest = batch_shape_largest(job->shapes, count);
}

static void price_shapes(struct job *job) {
    price_table_prepare(job->prices, job->shapes, job->batches.rank_count * job->batches.per_rank);
    price_table_prepare(job->prices, &job->typical, 1);
    price_table_prepare(job->prices, &job->largest, 1);
    for (int64_t i = 0; i < job->window_count; i++)
        price_table_prepare(job->prices, &job->windows[i].shape, 1);
}

/* Clips differ in length, so that the pieces of each micro-batch are shapes of their own. */
static void price_pieces(struct job *job) {
    int64_t count = job->batches.rank_count * job->batches.per_rank;
    for (int64_t k = 0; k < job->plan.module_count; k++) {
        const struct plan_module *module = &job->plan.modules[k];
        for (int64_t i = 0; module->clips && i < count; i++) {
            int64_t pieces =
                (job->shapes[i].video_clips + module->sub_batch - 1) / module->sub_batch;
            for (int64_t n = 0; n < pieces; n++) {
                struct batch_shape piece = batch_shape_piece(&job->shapes[i], true, pieces, n);
                price_table_prepare(job->prices, &piece, 1);
            }
        }
    }
}

/* ---- a part of the iterations ---- */

struct fill {
    double
        amount; /* what its fullest rank holds; 1 for each of text, images and video is a mean rank */
    int64_t iteration;
};

static int compare_fills(const void *a, const void *b) {
    const struct fill *left = a, *right = b;
    if (left->amount != right->amount) return left->amount < right->amount ? -1 : 1;
    return (left->iteration > right->iteration) - (left->iteration < right->iteration);
}

static int compare_iterations(const void *a, const void *b) {
    const int64_t *left = a, *right = b;
    return (*left > *right) - (*left < *right);
}

/* Ranks wait for the fullest one. */
static void measure_fills(const struct job *job, struct fill *fills) {
    const int64_t count = job->scenario->micro_batches_per_rank, ranks = job->batches.rank_count;
    const struct batch_shape *mean = &job->typical;
    for (int64_t i = 0; i < job->epoch_iterations; i++) {
        fills[i] = (struct fill){ .iteration = i };
        for (int64_t rank = 0; rank < ranks; rank++) {
            const struct batch_shape *shapes =
                job->shapes + rank * job->batches.per_rank + i * count;
            double amount = 0;
            for (int64_t m = 0; m < count; m++) {
                if (mean->language_tokens > 0)
                    amount += (double)shapes[m].language_tokens / (double)mean->language_tokens;
                if (mean->vision_tokens > 0)
                    amount += (double)shapes[m].vision_tokens / (double)mean->vision_tokens;
                if (mean->video_tokens > 0)
                    amount += (double)shapes[m].video_tokens / (double)mean->video_tokens;
            }
            if (amount > fills[i].amount) fills[i].amount = amount;
        }
    }
}

/* Those that stand for all: the iterations are sorted by what they hold and cut into as many parts,
 * of each of which the one nearest to its mean is taken. A policy that bins by length may begin
 * with an iteration of the shortest samples, which tells nothing of the others. */
static void choose_iterations(const struct job *job, int64_t wanted, int64_t *chosen) {
    const int64_t all = job->epoch_iterations;
    struct fill *fills = memory_alloc(sizeof *fills * (size_t)all);
    measure_fills(job, fills);
    qsort(fills, (size_t)all, sizeof *fills, compare_fills);
    for (int64_t k = 0; k < wanted; k++) {
        const int64_t begin = all * k / wanted, end = all * (k + 1) / wanted;
        double mean = 0;
        for (int64_t i = begin; i < end; i++)
            mean += fills[i].amount / (double)(end - begin);
        int64_t best = begin;
        for (int64_t i = begin; i < end; i++)
            if (fabs(fills[i].amount - mean) < fabs(fills[best].amount - mean)) best = i;
        chosen[k] = fills[best].iteration;
    }
    qsort(chosen, (size_t)wanted, sizeof *chosen, compare_iterations);
    free(fills);
}

/* Of the iterations that are whole; windows of one are the largest micro-batches. */
static void measure_windows(struct job *job) {
    const int64_t each = job->scenario->micro_batches_per_rank;
    const int64_t lengths[JOB_WINDOW_LIMIT] = { 1, 2, 4, 8, 16, each };
    for (int i = 0; i < JOB_WINDOW_LIMIT; i++) {
        const int64_t length = lengths[i];
        const int64_t before =
            job->window_count > 0 ? job->windows[job->window_count - 1].length : 0;
        if (length <= before || length > each) continue;
        struct job_window *window = &job->windows[job->window_count++];
        window->length = length;
        for (int64_t rank = 0; rank < job->batches.rank_count; rank++) {
            const struct batch_shape of_rank[2] = { window->shape,
                                                    batch_shape_largest_window(
                                                        job->shapes + rank * job->batches.per_rank,
                                                        job->epoch_iterations, each, length) };
            window->shape = batch_shape_largest(of_rank, 2);
        }
    }
}

/* Keeps the shapes of some iterations and what was counted over all. */
static void keep_typical_iterations(struct job *job, int64_t iterations) {
    const int64_t each = job->scenario->micro_batches_per_rank, old = job->batches.per_rank,
                  count = iterations * each;
    measure_windows(job);
    int64_t *chosen = memory_alloc(sizeof *chosen * (size_t)iterations);
    choose_iterations(job, iterations, chosen);
    for (int64_t rank = 0; rank < job->batches.rank_count; rank++)
        for (int64_t k = 0; k < iterations; k++)
            memmove(job->shapes + rank * count + k * each,
                    job->shapes + rank * old + chosen[k] * each,
                    sizeof *job->shapes * (size_t)each);
    free(chosen);
    job->shapes = memory_realloc(job->shapes,
                                 sizeof *job->shapes * (size_t)(job->batches.rank_count * count));
    struct batch_plan kept = job->batches;
    kept.samples = kept.starts = kept.order = NULL;
    kept.padded_tokens = NULL;
    batch_plan_free(&job->batches);
    job->batches = kept;
    job->batches.per_rank = count;
    job->iteration_count = iterations;
}

/* ---- the oracle ---- */

/* Planners ask layer by layer, and most are as the one before. Not for plan_iteration(): writes
 * without a lock. */
static double oracle_layer_seconds(void *context, int64_t layer_index,
                                   const struct batch_shape *shape, enum pass_set set) {
    struct job *job = context;
    struct job_layer *last = &job->last_layer;
    const struct price_table *prices = price_table_of_layer(job->prices, layer_index);
    const enum layer_kind kind = job->scenario->model->layers[layer_index].kind;
    if (last->prices != prices || last->kind != kind ||
        memcmp(&last->shape, shape, sizeof *shape) != 0) {
        price_table_prepare(job->prices, shape, 1);
        struct layer_time time;
        price_table_layer(prices, kind, shape, &time);
        *last = (struct job_layer){ prices, kind, *shape, time.forward_ns, time.backward_ns };
    }
    return seconds_from_ns(set == PASS_SET_FORWARD ? last->forward_ns : last->backward_ns);
}

/* Of every micro-batch, if all are of that shape, by part: those of one stage, or -1: all. */
static void constant_costs(const struct step_model *step, const struct batch_shape *shape,
                           int64_t stage, struct stage_cost *costs) {
    struct layer_time times[LAYER_KIND_COUNT];
    step_layer_times(step, shape, times);
    for (int64_t part = 0; part < step->part_count; part++)
        if (stage < 0 || part % step->stage_count == stage)
            step_stage_cost(step, part, shape, times, NULL, &costs[part]);
}

/* Peak of what is live on a stage when every micro-batch costs the same. */
static void constant_peak(const struct job *job, const struct job_plan *plan, int64_t stage,
                          const struct stage_cost *costs, struct stage_memory *memory) {
    struct schedule_place place = { stage, plan->stage_count, plan->chunk_count,
                                    job->scenario->micro_batches_per_rank,
                                    job->scenario->backend->fills_one_round };
    int64_t count = schedule_entry_count(&place);
    struct schedule_entry *entries = memory_alloc(sizeof *entries * (size_t)count);
    plan->schedule->order(&place, entries);
    double live = 0, best = -1;
    for (int64_t i = 0; i < count; i++) {
        const struct stage_cost *cost = &costs[entries[i].chunk * plan->stage_count + stage];
        if (!entries[i].backward) live += cost->activation_bytes;
        if (live + cost->workspace_bytes > best) {
            best = live + cost->workspace_bytes;
            memory->bytes[MEMORY_ACTIVATIONS] = live;
            memory->bytes[MEMORY_WORKSPACE] = cost->workspace_bytes;
        }
        if (entries[i].backward) live -= cost->activation_bytes;
    }
    free(entries);
}

static double oracle_layer_saved_bytes(void *context, int64_t layer_index,
                                       const struct batch_shape *shape, bool recompute) {
    const struct job *job = context;
    enum layer_kind kind = job->scenario->model->layers[layer_index].kind;
    return price_table_saved_bytes(job->prices, kind, shape, recompute);
}

static double oracle_layer_workspace_bytes(void *context, int64_t layer_index,
                                           const struct batch_shape *shape) {
    const struct job *job = context;
    return price_table_workspace_bytes(job->prices, job->scenario->model->layers[layer_index].kind,
                                       shape);
}

static double oracle_send_seconds(void *context, int64_t stage, int64_t layer_index,
                                  const struct batch_shape *shape) {
    const struct job *job = context;
    return seconds_from_ns(price_table_send_ns(
        job->prices, stage, job->scenario->model->layers[layer_index].kind, shape));
}

static void oracle_prepare(void *context, const struct batch_shape *shapes, int64_t count) {
    struct job *job = context;
    price_table_prepare(job->prices, shapes, count);
}

static double oracle_stage_bytes(void *context, const struct job_plan *plan, int64_t stage,
                                 const struct batch_shape *shape) {
    struct job *job = context;
    price_table_prepare(job->prices, shape, 1);
    struct arena *scratch = arena_create();
    struct step_model *step = step_model_create(scratch, job->scenario, plan, job->prices);
    struct stage_cost *costs = arena_array(scratch, struct stage_cost, step->part_count);
    constant_costs(step, shape, stage, costs);
    struct stage_memory memory = step->static_memory[stage];
    constant_peak(job, plan, stage, costs, &memory);
    step_settle_memory(step, stage, &memory);
    double bytes = stage_memory_device(&memory);
    arena_destroy(scratch);
    return bytes;
}

static bool oracle_simulate(void *context, const struct job_plan *plan, double *seconds,
                            struct error *err) {
    struct job *job = context;
    struct arena *scratch = arena_create();
    struct step_model *step = step_model_create(scratch, job->scenario, plan, job->prices);
    struct stage_cost *costs = arena_array(scratch, struct stage_cost, step->part_count);
    constant_costs(step, &job->typical, -1, costs);
    struct step_runner *runner = step_runner_create(step);
    int64_t makespan_ns = 0;
    bool ok =
        step_run_constant(runner, costs, job->scenario->micro_batches_per_rank, &makespan_ns, err);
    *seconds = seconds_from_ns(makespan_ns);
    step_runner_destroy(runner);
    arena_destroy(scratch);
    return ok;
}

static bool oracle_simulate_iteration(void *context, const struct job_plan *plan,
                                      const struct iteration_plan *iteration,
                                      struct planner_outcome *outcome, struct error *err) {
    const struct job *job = context;
    struct arena *scratch = arena_create();
    struct step_model *step = step_model_create(scratch, job->scenario, plan, job->prices);
    struct step_runner *runner = step_runner_create(step);
    step_runner_order(runner, iteration->entries);
    struct rank_outcome rank;
    bool ok = step_run_rank(runner, FIDELITY_STAGE, iteration->shapes, iteration->micro_batch_count,
                            &rank, err);
    outcome->seconds = ok ? seconds_from_ns(rank.makespan_ns) : 0;
    for (int64_t stage = 0; ok && stage < step->stage_count; stage++) {
        if (outcome->busy_seconds != NULL)
            outcome->busy_seconds[stage] = seconds_from_ns(rank.busy_ns[stage]);
        if (outcome->bytes != NULL)
            outcome->bytes[stage] = stage_memory_device(&rank.memory[stage]);
    }
    step_runner_destroy(runner);
    arena_destroy(scratch);
    return ok;
}

static void oracle_part_cost(void *context, const struct job_plan *plan, int64_t part,
                             const struct batch_shape *shape, struct planner_part_cost *out) {
    const struct job *job = context;
    struct arena *scratch = arena_create();
    struct step_model *step = step_model_create(scratch, job->scenario, plan, job->prices);
    struct layer_time times[LAYER_KIND_COUNT];
    struct stage_cost cost;
    step_layer_times(step, shape, times);
    step_stage_cost(step, part, shape, times, NULL, &cost);
    *out = (struct planner_part_cost){ seconds_from_ns(cost.forward_ns),
                                       seconds_from_ns(cost.backward_ns),
                                       seconds_from_ns(cost.send_forward_ns),
                                       seconds_from_ns(cost.send_backward_ns) };
    arena_destroy(scratch);
}

static bool oracle_complete(void *context, struct job_plan *plan, int64_t stage,
                            struct error *err) {
    struct job *job = context;
    const struct policy_choice *choice = &job->scenario->recompute;
    const struct planner *planner = choice->row;
    struct planner_oracle oracle = job_oracle(job);
    if (planner == NULL) return true;
    return stage >= 0 && planner->plan_stage != NULL
               ? planner->plan_stage(&oracle, choice->parameters, plan, stage, err)
               : planner->plan_job(&oracle, choice->parameters, plan, err);
}

struct planner_oracle job_oracle(struct job *job) {
    const struct scenario *s = job->scenario;
    return (struct planner_oracle){
        .context = job,
        .arena = job->arena,
        .model = s->model,
        .layout = &s->layout,
        .micro_batch_count = s->micro_batches_per_rank,
        .typical = job->typical,
        .largest = job->largest,
        .shapes = job->shapes,
        .shape_count = job->batches.per_rank,
        .layer_seconds = oracle_layer_seconds,
        .stage_bytes = oracle_stage_bytes,
        .capacity_bytes = cost_model_gpu(s->cost_model)->hbm_bytes,
        .complete = oracle_complete,
        .part_cost = oracle_part_cost,
        .simulate = oracle_simulate,
        .prepare = oracle_prepare,
        .simulate_iteration = oracle_simulate_iteration,
        .layer_saved_bytes = oracle_layer_saved_bytes,
        .layer_workspace_bytes = oracle_layer_workspace_bytes,
        .send_seconds = oracle_send_seconds,
        .send_blocks_compute = s->backend->send_blocks_compute,
    };
}

/* What every planner owes: all layers in order on non-empty parts, and an order to run them in. */
static void check_plan(const struct scenario *s, const struct job_plan *plan) {
    ballast_check(plan->stage_count == s->layout.pp);
    ballast_check(plan->part_count == plan->stage_count * plan->chunk_count);
    ballast_check(plan->first_layer[0] == 0);
    ballast_check(plan->first_layer[plan->part_count] == s->model->layer_count);
    for (int64_t part = 0; part < plan->part_count; part++)
        ballast_check(plan->first_layer[part] < plan->first_layer[part + 1]);
    ballast_check(plan->schedule != NULL);
    ballast_check(plan->chunk_count == 1 || plan->schedule->interleaves);
}

static bool make_plan(struct job *job, struct error *err) {
    const struct scenario *s = job->scenario;
    struct job_plan *plan = &job->plan;
    plan->stage_count = s->layout.pp;
    plan->chunk_count = s->layout_fields.vpp;
    plan->part_count = plan->stage_count * plan->chunk_count;
    plan->first_layer = arena_array(job->arena, int64_t, plan->part_count + 1);
    plan->recompute = arena_array(job->arena, enum recompute_kind, s->model->layer_count);
    plan->schedule = s->schedule.row;
    const struct schedule_place place = { 0, plan->stage_count, plan->chunk_count,
                                          s->micro_batches_per_rank, s->backend->fills_one_round };
    if (plan->schedule != NULL && plan->schedule->check != NULL &&
        !plan->schedule->check(&place, err))
        return error_context(err, "while checking schedule \"%s\"", plan->schedule->name);
    struct planner_oracle oracle = job_oracle(job);
    const struct policy_choice *choices[] = { &s->partition, &s->recompute, &s->joint };
    for (size_t i = 0; i < sizeof choices / sizeof choices[0]; i++) {
        const struct planner *planner = choices[i]->row;
        if (planner == NULL || planner->plan_job == NULL) continue;
        if (planner->plan_job(&oracle, choices[i]->parameters, plan, err)) continue;
        if (err != NULL) err->rule = "plan";
        return error_context(err, "while planning with policy \"%s\"", planner->name);
    }
    check_plan(s, plan);
    return true;
}

/* The joint policy orders iterations, else the first that plans them. */
static void attach_iteration_planner(struct job *job) {
    const struct scenario *s = job->scenario;
    const struct policy_choice *choices[] = { &s->joint, &s->partition, &s->recompute };
    for (size_t i = 0; i < sizeof choices / sizeof choices[0]; i++) {
        const struct planner *planner = choices[i]->row;
        if (planner == NULL || planner->plan_iteration == NULL) continue;
        struct planner_oracle *oracle = arena_new(job->arena, struct planner_oracle);
        *oracle = job_oracle(job);
        job->step->iteration_planner = planner;
        job->step->iteration_parameters = choices[i]->parameters;
        job->step->oracle = oracle;
        return;
    }
}

static struct job *begin(const struct scenario *scenario) {
    struct arena *arena = arena_create();
    struct job *job = arena_new(arena, struct job);
    job->arena = arena;
    job->scenario = scenario;
    return job;
}

static bool plan_and_build(struct job *job, struct error *err) {
    if (!job_check_layer_times(job, err) || !make_plan(job, err)) return false;
    price_pieces(job);
    job->step = step_model_create(job->arena, job->scenario, &job->plan, job->prices);
    if (!job_check_outer_times(job, err)) return false;
    attach_iteration_planner(job);
    return true;
}

/* A rule for shapes that no micro-batch has would be a figure that is not used. */
static bool rules_match(const struct job *job, struct error *err) {
    const struct batch_shape smallest =
        batch_shape_smallest(job->shapes, job->batches.rank_count * job->batches.per_rank);
    return scenario_rules_match_shapes(job->scenario, &smallest, &job->largest, err);
}

static struct job *kept_if(bool ok, struct job *job) {
    if (ok) return job;
    job_destroy(job);
    return NULL;
}

struct job *job_create(const struct scenario *scenario, struct error *err) {
    struct job *job = begin(scenario);
    bool ok = job_load_data(job, err) && make_batches(job, err);
    if (ok) {
        note_short_pass(job);
        make_shapes(job);
        ok = job_check_work(job, err);
    }
    if (ok) {
        job->prices = price_table_create(job->arena, scenario);
        price_shapes(job);
        ok = rules_match(job, err);
    }
    return kept_if(ok && plan_and_build(job, err), job);
}

struct job *job_load(const struct scenario *scenario, struct error *err) {
    struct job *job = begin(scenario);
    return kept_if(job_load_data(job, err), job);
}

/* A job with all that the other one has, none of it owned. */
static struct job *borrow(const struct scenario *scenario, const struct job *from) {
    struct job *job = begin(scenario);
    struct arena *arena = job->arena;
    *job = *from;
    job->arena = arena;
    job->scenario = scenario;
    /* Others borrow from it at the same time, and each adds its own. */
    job->data_notes = arena_array(arena, const char *, from->data_note_count + JOB_OWN_NOTES);
    for (int64_t i = 0; i < from->data_note_count; i++)
        job->data_notes[i] = from->data_notes[i];
    job->borrows_data = true;
    return job;
}

struct job *job_batch(const struct scenario *scenario, const struct job *data,
                      int64_t iteration_limit, struct error *err) {
    struct job *job = borrow(scenario, data);
    if (!make_batches(job, err)) return kept_if(false, job);
    make_shapes(job);
    if (!job_check_work(job, err)) return kept_if(false, job);
    if (iteration_limit > job->iteration_count) iteration_limit = job->iteration_count;
    if (iteration_limit > 0 && iteration_limit < job->epoch_iterations)
        keep_typical_iterations(job, iteration_limit);
    return job;
}

struct job *job_plan(const struct scenario *scenario, const struct job *batched,
                     const struct price_table *prices, struct error *err) {
    struct job *job = borrow(scenario, batched);
    job->borrows_batches = true;
    limit_iterations(job); /* the batches may have been made for another */
    note_short_pass(job);
    job->prices = prices != NULL ? price_table_borrow(job->arena, scenario, prices)
                                 : price_table_create(job->arena, scenario);
    price_shapes(job);
    return kept_if(plan_and_build(job, err), job);
}

static char *text_of(cJSON *object) {
    char *text = cJSON_PrintUnformatted(object);
    cJSON_Delete(object);
    return text;
}

const char *job_data_key(struct arena *arena, const struct scenario *s) {
    char *fields = text_of(field_table_write(&scenario_dataset_table, &s->dataset_fields));
    /* The model decides the size of a tile, and what is noted about its tokens; a scenario the size
     * of its frames. */
    const struct module *decoder = &s->model->modules[MODULE_DIFFUSION_DECODER];
    const char *key =
        arena_format(arena, "%p-%ldx%ld %s", (const void *)s->model->layers,
                     (long)decoder->image_size, (long)decoder->image_height, fields);
    cJSON_free(fields);
    return key;
}

const char *job_batch_key(struct arena *arena, const struct scenario *s) {
    const struct policy_choice *policy = &s->batching;
    char *parameters = policy->table != NULL
                           ? text_of(field_table_write(policy->table, policy->parameters))
                           : NULL;
    const char *key =
        arena_format(arena, "%s %s %ld %ld %ld %ld %ld %s", job_data_key(arena, s), policy->name,
                     (long)s->layout.dp, (long)job_samples_asked(s),
                     (long)s->micro_batches_per_rank, (long)s->simulate_fields.seed,
                     (long)asked_samples_per_step(s), parameters != NULL ? parameters : "");
    cJSON_free(parameters);
    return key;
}

void job_destroy(struct job *job) {
    if (job == NULL) return;
    if (!job->borrows_data) dataset_destroy(job->dataset);
    if (!job->borrows_batches) {
        batch_plan_free(&job->batches);
        free(job->shapes);
    }
    price_table_destroy(job->prices);
    arena_destroy(job->arena);
}

void job_layers_by_kind(const struct job *job, int64_t layers[LAYER_KIND_COUNT]) {
    for (int kind = 0; kind < LAYER_KIND_COUNT; kind++)
        layers[kind] = 0;
    const struct model *model = job->scenario->model;
    for (int64_t i = 0; i < model->layer_count; i++)
        layers[model->layers[i].kind]++;
}
