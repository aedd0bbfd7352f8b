/* planning.c - one plan a policy, measured through the oracle that planners ask. */
#include "sim/study/planning.h"

#include <math.h>
#include <string.h>
#include "sim/policy/partition/exact.h"
#include "sim/policy/partition/partition.h"

struct bench {
    struct job *job;
    struct planner_oracle oracle;
    struct arena *arena;
    struct planning *out;          /* NULL: the job's own plan alone is measured */
    const struct job_plan **plans; /* of the rows that were replayed, NULL for others */
};

static struct job_plan *copy_plan(const struct bench *b, const struct job_plan *from) {
    struct job_plan *plan = arena_new(b->arena, struct job_plan);
    int64_t layers = b->oracle.model->layer_count;
    *plan = *from;
    plan->first_layer = arena_array(b->arena, int64_t, plan->part_count + 1);
    plan->recompute = arena_array(b->arena, enum recompute_kind, layers);
    memcpy(plan->first_layer, from->first_layer,
           sizeof *plan->first_layer * (size_t)(plan->part_count + 1));
    memcpy(plan->recompute, from->recompute, sizeof *plan->recompute * (size_t)layers);
    return plan;
}

static void measure_parts(const struct bench *b, const struct job_plan *plan,
                          struct planning_row *row) {
    const struct planner_oracle *o = &b->oracle;
    for (int64_t part = 0; part < plan->part_count; part++) {
        int64_t stage = part % plan->stage_count, end = plan->first_layer[part + 1];
        for (int64_t i = plan->first_layer[part]; i < end; i++) {
            row->blocks[part] += layer_can_recompute(o->model, i);
            row->recomputing[part] += plan->recompute[i] != RECOMPUTE_NONE;
        }
        struct planner_part_cost cost;
        o->part_cost(o->context, plan, part, &o->typical, &cost);
        row->forward_seconds[stage] += cost.forward_seconds;
        row->backward_seconds[stage] += cost.backward_seconds;
        if (part + 1 < plan->part_count)
            row->sent_bytes += layer_output_bytes(o->model, end - 1, &o->typical);
    }
}

static bool same_plan(const struct bench *b, const struct job_plan *x, const struct job_plan *y) {
    return memcmp(x->first_layer, y->first_layer,
                  sizeof *x->first_layer * (size_t)(x->part_count + 1)) == 0 &&
           memcmp(x->recompute, y->recompute,
                  sizeof *x->recompute * (size_t)b->oracle.model->layer_count) == 0;
}

/* A row with the same plan that was replayed already. */
static const struct planning_row *replayed_alike(const struct bench *b,
                                                 const struct job_plan *plan) {
    for (int64_t i = 0; b->out != NULL && i < b->out->row_count; i++)
        if (b->plans[i] != NULL && same_plan(b, b->plans[i], plan)) return &b->out->rows[i];
    return NULL;
}

/* All steps of the job with another plan. */
static bool replay_plan(const struct bench *b, const struct job_plan *plan,
                        struct planning_row *row, struct error *err) {
    const struct planning_row *alike = replayed_alike(b, plan);
    if (alike != NULL) {
        row->bytes = alike->bytes;
        row->training_bytes = alike->training_bytes;
        row->verdict = alike->verdict;
        row->step_seconds = alike->step_seconds;
        return true;
    }
    struct arena *scratch = arena_create();
    struct job job = *b->job;
    job.plan = *plan;
    job.step = step_model_create(scratch, job.scenario, plan, job.prices);
    struct replay *replay = replay_run(&job, &(struct replay_options){ .answer_only = true }, err);
    if (replay != NULL) {
        for (int64_t stage = 0; stage < plan->stage_count; stage++)
            row->bytes[stage] = stage_memory_device(&replay->stages[stage].peak);
        row->training_bytes = replay->training.likely_bytes;
        row->verdict = replay->verdict;
        row->step_seconds = replay->step_time_mean_s;
        if (b->out != NULL) b->plans[row - b->out->rows] = plan;
    }
    const bool ok = replay != NULL;
    replay_destroy(replay);
    arena_destroy(scratch);
    return ok;
}

static bool measure(const struct bench *b, const struct job_plan *plan, struct planning_row *row,
                    struct error *err) {
    const struct planner_oracle *o = &b->oracle;
    row->blocks = arena_array(b->arena, int64_t, plan->part_count);
    row->recomputing = arena_array(b->arena, int64_t, plan->part_count);
    row->forward_seconds = arena_array(b->arena, double, plan->stage_count);
    row->backward_seconds = arena_array(b->arena, double, plan->stage_count);
    row->bytes = arena_array(b->arena, double, plan->stage_count);
    row->worst_bytes = arena_array(b->arena, double, plan->stage_count);
    measure_parts(b, plan, row);
    row->always_fits = true;
    for (int64_t stage = 0; stage < plan->stage_count; stage++) {
        row->worst_bytes[stage] = o->stage_bytes(o->context, plan, stage, &o->largest);
        row->always_fits = row->always_fits && row->worst_bytes[stage] <= o->capacity_bytes;
    }
    row->distance_fraction = row->training_bytes = row->step_seconds = NAN;
    if (!o->simulate(o->context, plan, &row->seconds, err)) return false;
    if (b->job->step->iteration_planner == NULL) return replay_plan(b, plan, row, err);
    row->bytes = row->worst_bytes;
    row->verdict = row->always_fits ? VERDICT_FITS : VERDICT_OUT_OF_MEMORY;
    return true;
}

static struct planning_row *add_row(const struct bench *b, enum planning_group group,
                                    const char *policy, bool chosen) {
    struct planning_row *row = &b->out->rows[b->out->row_count++];
    *row = (struct planning_row){ .group = group, .policy = policy, .chosen = chosen };
    return row;
}

bool planning_own(struct job *job, struct arena *arena, struct planning_row *out,
                  struct error *err) {
    const struct bench b = { .job = job, .oracle = job_oracle(job), .arena = arena };
    *out = (struct planning_row){ .group = PLANNING_OWN, .chosen = true };
    return measure(&b, &job->plan, out, err);
}

/* The scenario's parameters for its own policy, the defaults for another; false where a policy
 * cannot do without parameters. */
static bool parameters_of(const struct bench *b, const struct planner *planner,
                          const struct policy_choice *own, const void **parameters) {
    *parameters = own->row == planner ? own->parameters : NULL;
    if (own->row == planner || planner->parameters == NULL) return true;
    for (size_t i = 0; i < planner->parameters->count; i++)
        if (planner->parameters->fields[i].fallback == NULL) return false;
    void *values = arena_alloc(b->arena, planner->parameters_size);
    struct error ignored;
    bool read = field_table_read(planner->parameters, b->job->scenario->json, NULL, values,
                                 b->arena, &ignored);
    ballast_check(read);
    *parameters = values;
    return true;
}

static bool plan_row(const struct bench *b, const struct planner *planner,
                     const struct policy_choice *own, enum planning_group group,
                     struct error *err) {
    const struct planner_oracle *o = &b->oracle;
    const void *parameters;
    if (!parameters_of(b, planner, own, &parameters)) return true;
    struct planning_row *row = add_row(b, group, planner->name, own->row == planner);
    struct job_plan *plan = copy_plan(b, &b->job->plan);
    struct error refusal = { 0 };
    bool ok =
        planner->check == NULL || planner->check(o->model, plan->part_count, parameters, &refusal);
    ok = ok && planner->plan_job(o, parameters, plan, &refusal);
    if (ok && group == PLANNING_PARTITION) ok = o->complete(o->context, plan, -1, &refusal);
    if (!ok) {
        row->refusal = arena_text(b->arena, refusal.text);
        return true;
    }
    return measure(b, plan, row, err);
}

static bool plan_all(const struct bench *b, enum planner_slot slot, const struct policy_choice *own,
                     enum planning_group group, struct error *err) {
    size_t count;
    const struct planner *const *list = planners(&count);
    for (size_t i = 0; i < count; i++)
        if (list[i]->slot == slot && list[i] != &partition_exact &&
            !plan_row(b, list[i], own, group, err))
            return false;
    return true;
}

/* The best of all partitions, as a row of its own. */
static bool search(const struct bench *b, int64_t limit, struct error *err) {
    if (b->job->plan.chunk_count > 1) return true;
    struct job_plan *plan = copy_plan(b, &b->job->plan);
    int64_t *blocks = arena_array(b->arena, int64_t, plan->part_count);
    struct exact_result best;
    if (!exact_search(&b->oracle, plan, limit, blocks, &best, err)) return false;
    bool chosen = b->job->scenario->partition.row == &partition_exact;
    struct planning_row *row = add_row(b, PLANNING_PARTITION, "exact", chosen);
    partition_apply(b->oracle.model, blocks, plan);
    if (!b->oracle.complete(b->oracle.context, plan, -1, err) || !measure(b, plan, row, err))
        return false;
    /* Cut short, it may stand behind a policy that looked elsewhere. */
    for (int64_t i = 0; i < b->out->row_count; i++) {
        const struct planning_row *r = &b->out->rows[i];
        if (r->group == PLANNING_RECOMPUTE || r->refusal != NULL || r->always_fits != best.fits)
            continue;
        best.seconds = fmin(best.seconds, r->seconds);
    }
    b->out->best_seconds = best.seconds;
    b->out->best_bound_seconds = best.bound_seconds;
    b->out->best_simulated = best.simulated;
    for (int64_t i = 0; i < b->out->row_count; i++) {
        struct planning_row *r = &b->out->rows[i];
        if (r->group == PLANNING_RECOMPUTE || r->refusal != NULL) continue;
        if (r->always_fits == best.fits) r->distance_fraction = r->seconds / best.seconds - 1;
    }
    return true;
}

bool planning_make(struct job *job, int64_t exact_limit, struct arena *arena, struct planning *out,
                   struct error *err) {
    const struct scenario *s = job->scenario;
    struct bench b = { .job = job, .oracle = job_oracle(job), .arena = arena, .out = out };
    size_t planner_count;
    planners(&planner_count);
    *out = (struct planning){ .stage_count = job->plan.stage_count,
                              .chunk_count = job->plan.chunk_count,
                              .capacity_bytes = b.oracle.capacity_bytes,
                              .replayed_steps =
                                  job->step->iteration_planner == NULL ? job->iteration_count : 0,
                              .typical = job->typical,
                              .largest = job->largest };
    out->rows = arena_array(arena, struct planning_row, planner_count + 2);
    b.plans = arena_array(arena, const struct job_plan *, planner_count + 2);
    bool joint = s->partition.row == NULL;
    struct planning_row *own =
        add_row(&b, PLANNING_OWN, joint ? s->joint.name : s->partition.name, true);
    return measure(&b, &job->plan, own, err) &&
           plan_all(&b, PLANNER_PARTITION, &s->partition, PLANNING_PARTITION, err) &&
           search(&b, exact_limit, err) &&
           plan_all(&b, PLANNER_RECOMPUTE, &s->recompute, PLANNING_RECOMPUTE, err);
}
