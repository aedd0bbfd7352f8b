/* interleaver.h - from a priority of segments to an order of passes on each rank (DIP, section
 * 5.2).
 *
 * Each rank keeps a queue of forward and one of backward passes. The rank that can start first goes
 * first. Where both queues hold a pass that is ready, forward and backward take turns; where one
 * does, its most urgent ready pass runs; where none does, the one that is ready first. A forward
 * that does not fit is held back until a backward has freed memory; so is one that would leave the
 * unfinished micro-batches no way to finish. When nothing can run (a micro-batch does not fit even
 * alone), the order has met a dead end and has no makespan.
 *
 *     struct interleaver *x = interleaver_create(graph);       // one per thread
 *     int64_t ns = interleaver_run(x, class_order, TURN_ALTERNATE, NULL);  // or SEGMENT_DEAD_END
 *     interleaver_destroy(x);
 */
#ifndef BALLAST_SIM_POLICY_JOINT_INTERLEAVER_H
#define BALLAST_SIM_POLICY_JOINT_INTERLEAVER_H

#include "sim/policy/joint/segment_clock.h"
#include "sim/policy/joint/segment_order.h"

struct interleaver;
struct interleaver *interleaver_create(const struct segment_graph *graph); /* borrows the graph */
void interleaver_destroy(struct interleaver *interleaver);

/* What runs where a forward and a backward are both ready: the paper's turns, or the more urgent of
 * the two. The second is ours: it lets a long chain of one micro-batch overtake. */
enum interleaver_turn { TURN_ALTERNATE, TURN_URGENT, TURN_COUNT };

/* class_order: every class once, most urgent first. schedule: NULL, or room for 2 x segments x
 * ranks tasks. Returns the makespan. */
int64_t interleaver_run(struct interleaver *interleaver, const int32_t *class_order,
                        enum interleaver_turn turn, struct segment_schedule *schedule);
/* The same for who wants to know it only if it is less than limit_ns: returns limit_ns otherwise,
 * as soon as what is left to run on a rank says so. */
int64_t interleaver_run_below(struct interleaver *interleaver, const int32_t *class_order,
                              enum interleaver_turn turn, int64_t limit_ns);

/* Other durations of the same passes, in which the order must end before limit_ns. */
struct interleaver_beside {
    struct segment_clock *clock;
    const struct segment_pass *passes;
    const struct segment_tails *tails; /* of these passes */
    int64_t limit_ns;
};
/* As interleaver_run(), and the clock times the order in those durations. False: a dead end, or
 * it is too long in them, which ends the run at once; the schedule is half done then. */
bool interleaver_run_beside(struct interleaver *interleaver, const int32_t *class_order,
                            enum interleaver_turn turn, const struct interleaver_beside *beside,
                            struct segment_schedule *schedule);

#endif
