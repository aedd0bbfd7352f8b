/* optimus.c - Optimus' coarse-grained bubble scheduling (Feng et al., ATC 2025), as DIP compares
 * with it: all encoder passes of an iteration before the language model's, their backwards after
 * it, whole micro-batches, every block recomputing. Its fine-grained filling of tensor-parallel
 * bubbles is left out, as there.
 */
#include "sim/policy/joint/dip.h"
#include "sim/policy/joint/joint.h"

struct optimus_parameters {
    int64_t language_segments;
    int recompute;
};

static const char *const recompute_names[] = { "none", "full", "selective", NULL };
#define AT(member) offsetof(struct optimus_parameters, member)
static const struct field optimus_fields[] = {
    { "language_segments", FIELD_COUNT, AT(language_segments), 1, 1e3, "1", "",
      "chunks of the language model on each stage; 1: plain 1F1B, more: interleaved", NULL },
    { "recompute", FIELD_CHOICE, AT(recompute), 0, 0, "\"full\"", "", "what every block recomputes",
      recompute_names },
};
static const struct field_table optimus_table =
    FIELD_TABLE("optimus", "encoders before and after the language model", optimus_fields);

static bool optimus_plan_job(const struct planner_oracle *oracle, const void *parameters,
                             struct job_plan *plan, struct error *err) {
    const struct optimus_parameters *p = parameters;
    struct modality_options options = { .sub_batch = 0,
                                        .vision_segments = 1,
                                        .other_segments = p->language_segments,
                                        .segments_limit = 1,
                                        .apart = true,
                                        .recompute = (enum recompute_kind)p->recompute };
    return modality_plan(oracle, &options, plan, err);
}

static bool optimus_plan_iteration(const struct planner_oracle *oracle, const void *parameters,
                                   const struct job_plan *plan, struct iteration_plan *it,
                                   struct error *err) {
    (void)parameters;
    (void)err;
    struct modality_segments segments = modality_graph(oracle, plan, it);
    struct segment_schedule schedule;
    schedule.tasks =
        arena_array(it->scratch, struct segment_task, segment_schedule_size(segments.graph));
    segment_order_encoders_first(segments.graph, segments.chunk_of, &schedule);
    modality_write(&segments, &schedule, it);
    it->planned_ns = schedule.makespan_ns;
    it->bound_ns = segment_graph_bound_ns(segments.graph);
    return true;
}

static const struct planner_preset optimus_preset = { .partition = PLANNER_ITSELF,
                                                      .recompute = PLANNER_ITSELF,
                                                      .schedule = PLANNER_ITSELF,
                                                      .chunks = true };

const struct planner joint_optimus = {
    .name = "optimus",
    .help =
        "Optimus, coarse-grained: all encoder passes before the language model's, gradients after",
    .slot = PLANNER_JOINT,
    .parameters = &optimus_table,
    .parameters_size = sizeof(struct optimus_parameters),
    .preset = &optimus_preset,
    .needs_stages = true,
    .plan_job = optimus_plan_job,
    .plan_iteration = optimus_plan_iteration,
};
