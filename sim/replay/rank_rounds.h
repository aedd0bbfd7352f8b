/* rank_rounds.h - the data-parallel ranks of an iteration that an iteration planner searches one by
 * one.
 *
 * A step waits for its slowest rank, so only the slowest ones are searched to the end. First every
 * rank takes the best of the orders that its planner begins with; then, slowest first, a rank is
 * searched until it is as fast as the slowest of those done. The slowest rank's pipeline takes what
 * it takes when all are searched to the end, whatever their order; the others are a little slower
 * than they could be, which planner_left says of each. A rank's planner_s is the time of one search
 * as far as it went, not of the look before it; of both the faster order stands.
 *
 *     rank_rounds_run(rounds, run, context, begin_ns);
 *     rank_rounds_outcome(rounds, rank)->makespan_ns, ...
 */
#ifndef BALLAST_SIM_REPLAY_RANK_ROUNDS_H
#define BALLAST_SIM_REPLAY_RANK_ROUNDS_H

#include "sim/step/step.h"

struct rank_rounds;
/* For so many ranks; all of it in the arena. */
struct rank_rounds *rank_rounds_create(struct arena *arena, int64_t ranks,
                                       const struct step_model *step);

/* Simulates one rank, whose planner need not look for orders faster than enough_ns (0: it does). */
typedef bool rank_run(void *context, int64_t rank, int64_t enough_ns, struct rank_outcome *outcome);
/* begin_ns: by rank, when its pipeline begins. False: a rank failed. */
bool rank_rounds_run(struct rank_rounds *rounds, rank_run *run, void *context,
                     const int64_t *begin_ns);
/* Valid until the next run. */
const struct rank_outcome *rank_rounds_outcome(const struct rank_rounds *rounds, int64_t rank);

#endif
