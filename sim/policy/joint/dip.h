/* dip.h - the parts of the DIP planner (sim/policy/joint/dip.c) that have files of their own.
 *
 *     modality_plan(oracle, &options, plan, err);             // chunks, sub-batches: once per job
 *     graph = modality_graph(plan, iteration);                // one iteration as segments
 *     memory_step(plan, iteration, graph, &schedule);         // choices per pass; times follow
 */
#ifndef BALLAST_SIM_POLICY_JOINT_DIP_H
#define BALLAST_SIM_POLICY_JOINT_DIP_H

#include "sim/policy/joint/segment_search.h"
#include "sim/policy/planner.h"

/* The options under which the policy searches an iteration's order; false: it is not "dip", or has
 * its order by rule. */
bool dip_search_options(const struct planner *planner, const void *parameters,
                        struct segment_search_options *options);
/* The searched order, or the best of 1F1B, Megatron-LM's and encoders first where one of these fits
 * in memory and is faster: never worse than a rule. Not so when the worst is sought. level_of:
 * chunk row of each segment. Returns the makespan. */
int64_t dip_order(const struct segment_graph *graph, const int32_t *level_of,
                  const struct segment_search_options *options, struct segment_schedule *schedule);

struct modality_options {
    int64_t sub_batch, sub_batch_clips;      /* images, clips; -1: by the 95 % rule */
    int64_t vision_segments, other_segments; /* K_i; -1: by the latencies */
    int64_t segments_limit;                  /* on K_i when it comes from latencies */
    enum recompute_kind recompute;           /* of all blocks, before any memory step */
    bool
        apart; /* modules never share a segment; otherwise where few micro-batches make it faster */
};

/* Fills everything of the plan; false when a module cannot give every stage the K_i chunks that are
 * asked for. With few micro-batches a stage and nothing asked for, all modules may share segments.
 * The sizes tried for the 95 % rule are 1 to 32 images, those of MODALITY_SIZES. */
#define MODALITY_SIZES                                                                             \
    { 1, 2, 4, 6, 8, 10, 12, 16, 20, 24, 28, 32 }
bool modality_plan(const struct planner_oracle *oracle, const struct modality_options *options,
                   struct job_plan *plan, struct error *err);

/* Segments numbered by micro-batch, module, sub-microbatch and chunk; in the scratch arena. unit_of
 * and chunk_of give each segment's place in the iteration. */
struct memory_room;
struct modality_segments {
    struct segment_graph *graph;
    int32_t *chunk_of, *unit_of, *sub_of;
    bool offload; /* the memory step may copy blocks' activations to host memory */
    /* Candidates, which do not depend on the order, and room for one rank's program; the memory
     * step makes it when it is first run. */
    struct memory_room *memory;
};
struct modality_segments modality_graph(const struct planner_oracle *oracle,
                                        const struct job_plan *plan,
                                        const struct iteration_plan *iteration);

/* Place of a segment's pass among the iteration's costs and choices. */
int64_t modality_cell(const struct job_plan *plan, const struct iteration_plan *iteration,
                      const struct modality_segments *segments, int64_t segment, int64_t rank);

/* The order as the iteration's entries. */
void modality_write(const struct modality_segments *segments,
                    const struct segment_schedule *schedule, struct iteration_plan *iteration);

struct memory_step_result {
    double gap_fraction; /* the largest of the ranks */
    int64_t infeasible;  /* ranks that do not fit even with everything dropped */
};
/* What a rank that offloads holds on the GPU for copies. */
double modality_buffer_bytes(const struct iteration_plan *iteration, const struct job_plan *plan,
                             const struct modality_segments *segments, int64_t rank);
/* Picks how each pass of a rank recomputes, and what of it waits in host memory, so that its memory
 * is filled, for the order given; writes the graph's times and bytes. Times of the schedule are
 * stale afterwards. Ranks do not depend on each other. */
void memory_step_rank(const struct iteration_plan *iteration, const struct job_plan *plan,
                      struct modality_segments *segments, const struct segment_schedule *schedule,
                      int64_t rank, struct memory_step_result *result);
/* What each rank's last step picked, as iteration->choices; after every rank's first. */
void memory_step_write(const struct iteration_plan *iteration, const struct job_plan *plan,
                       const struct modality_segments *segments);
/* All ranks, written. */
struct memory_step_result memory_step(const struct iteration_plan *iteration,
                                      const struct job_plan *plan,
                                      struct modality_segments *segments,
                                      const struct segment_schedule *schedule);

#endif
