/* pipeline_clock.h - when the passes of one rank's pipeline end, without a task graph.
 *
 * In stage fidelity a pass waits for two things only, the pass before it on its stage and the
 * message from a neighbour, so its time follows by a recurrence once the passes stand in an order
 * in which both are known. That order depends on the schedule alone; durations change each run.
 * The engine gives the same nanosecond (test_sweep.c) and keeps the timeline too.
 *
 *     if (!pipeline_clock_order(clock, stages, chunks, micro_batches, entries)) ... dead end
 *     int64_t makespan_ns = pipeline_clock_run(clock, costs, send_blocks, finish_ns);
 */
#ifndef BALLAST_SIM_STEP_PIPELINE_CLOCK_H
#define BALLAST_SIM_STEP_PIPELINE_CLOCK_H

#include "sim/step/step.h"

struct pipeline_clock;

struct pipeline_clock *pipeline_clock_create(void);
void pipeline_clock_destroy(struct pipeline_clock *clock);
/* `entries` is what each stage runs in turn, stage after stage, 2 x micro_batches x chunks each.
 * False: stages wait for each other, and no order exists. */
bool pipeline_clock_order(struct pipeline_clock *clock, int64_t stage_count, int64_t chunk_count,
                          int64_t micro_batch_count, const struct schedule_entry *entries);
/* costs[part x micro_batches + micro-batch]. finish_ns[stage]: end of its last backward pass or the
 * send after it. Returns the end of everything. */
int64_t pipeline_clock_run(struct pipeline_clock *clock, const struct stage_cost *costs,
                           bool send_blocks_compute, int64_t *finish_ns);

#endif
