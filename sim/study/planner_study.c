/* planner_study.c - stands in for the job's planner once, to see what that is given. */
#include "sim/study/planner_study.h"

#include "sim/policy/joint/interleaver.h"

struct probe {
    planner_study_visit visit;
    void *context;
};

static bool probe_iteration(const struct planner_oracle *oracle, const void *parameters,
                            const struct job_plan *plan, struct iteration_plan *it,
                            struct error *err) {
    const struct probe *probe = parameters;
    (void)err;
    struct modality_segments segments = modality_graph(oracle, plan, it);
    struct segment_graph *g = segments.graph;
    struct planner_study study = { plan, it, &segments };
    probe->visit(probe->context, &study);
    /* The step goes on in some order, with what the visit may have chosen undone. */
    struct segment_schedule schedule;
    schedule.tasks = arena_array(it->scratch, struct segment_task, segment_schedule_size(g));
    segment_order_fixed(g, segments.chunk_of, 2, &schedule);
    modality_write(&segments, &schedule, it);
    for (int64_t cell = 0; cell < it->cell_first[plan->part_count]; cell++)
        it->choices[cell] = (struct pass_choice){ .buffer_bytes = 0 };
    return true;
}

static const struct planner probe_planner = { .name = "study",
                                              .slot = PLANNER_JOINT,
                                              .plan_iteration = probe_iteration };

bool planner_study_run(const struct job *job, int64_t iteration, planner_study_visit visit,
                       void *context, struct error *err) {
    if (job->plan.module_count == 0)
        return error_set(err, "policy \"%s\" has no modality-aware plan to study",
                         job->scenario->schedule.name);
    struct probe probe = { visit, context };
    struct step_model step = *job->step;
    step.iteration_planner = &probe_planner;
    step.iteration_parameters = &probe;
    struct step_runner *runner = step_runner_create(&step);
    int64_t count = job->scenario->micro_batches_per_rank;
    struct rank_outcome outcome;
    bool ok = step_run_rank(runner, FIDELITY_STAGE, job->shapes + iteration * count, count,
                            &outcome, err);
    step_runner_destroy(runner);
    return ok;
}
