/* segment_order.h - orders of a segment graph's passes on the ranks: made by rule, and timed.
 *
 *     struct segment_schedule schedule;
 *     schedule.tasks = arena_array(arena, struct segment_task, segment_schedule_size(graph));
 *     segment_order_fixed(graph, level_of, &schedule);
 *     segment_order_time(graph, &schedule);       // after times changed: order stays
 */
#ifndef BALLAST_SIM_POLICY_JOINT_SEGMENT_ORDER_H
#define BALLAST_SIM_POLICY_JOINT_SEGMENT_ORDER_H

#include "sim/policy/joint/segment_graph.h"

/* Makespan of an order in which nothing can run any more. */
#define SEGMENT_DEAD_END INT64_MAX

struct segment_task {
    int32_t segment;
    bool backward;
    int64_t start_ns, finish_ns; /* sends come after finish_ns */
};

/* Order and times: rank r runs tasks[r x 2 segments ...] one after another. */
struct segment_schedule {
    struct segment_task *tasks;
    int64_t makespan_ns;
};

static inline int64_t segment_schedule_size(const struct segment_graph *graph) {
    return 2 * (int64_t)graph->segment_count * graph->rank_count;
}

static inline struct segment_task *segment_schedule_rank(const struct segment_graph *graph,
                                                         const struct segment_schedule *schedule,
                                                         int64_t rank) {
    return schedule->tasks + rank * 2 * graph->segment_count;
}

/* Fills in start, finish and makespan of the order in `schedule`; the makespan is SEGMENT_DEAD_END
 * when the order contradicts the dependencies. */
int64_t segment_order_time(const struct segment_graph *graph, struct segment_schedule *schedule);

/* The same, and the passes in an order in which none comes before its inputs: entries of
 * segment_clock. */
int64_t segment_order_passes(const struct segment_graph *graph, struct segment_schedule *schedule,
                             int32_t *entries);

/* Megatron-LM's interleaved order carried over to segments, for comparison (DIP without its
 * searcher). Its slots are (micro-batch, chunk row) as in sim/policy/schedule/interleaved.c; a slot
 * runs its micro-batch's segments of that row one after another, or none. level_of: chunk row of
 * each segment. lead: slots that a rank runs ahead of the next one before its first backward;
 * Megatron-LM has 2. Returns the makespan. */
int64_t segment_order_fixed(const struct segment_graph *graph, const int32_t *level_of,
                            int64_t lead, struct segment_schedule *schedule);

/* 1F1B of whole micro-batches: all segments of one are one forward of a rank. With several chunks
 * on a rank it waits for ever where micro-batches outnumber ranks. Returns the makespan. */
int64_t segment_order_whole(const struct segment_graph *graph, const int32_t *level_of,
                            struct segment_schedule *schedule);

/* All forwards of encoder segments (those that another class waits for), row by row, then
 * Megatron's order of the others, then all encoder backwards: Optimus' coarse-grained bubble
 * scheduling. */
int64_t segment_order_encoders_first(const struct segment_graph *graph, const int32_t *level_of,
                                     struct segment_schedule *schedule);

/* Peak of activations and workspace on a rank that runs its tasks in this order. */
double segment_order_peak_bytes(const struct segment_graph *graph,
                                const struct segment_schedule *schedule, int64_t rank);

#endif
