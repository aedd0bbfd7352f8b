/* fluctuation.h - how much the memory of a stage goes up and down while its pipeline is full.
 *
 * DIP (ASPLOS'26) section 7.3 counts "memory fluctuations" of Figure 10 without a formula. Two
 * readings are measured, both while the stage does forwards and backwards in turn, that is from its
 * first backward to its last forward: the standard deviation over time, and the distance from the
 * lowest to the highest point. Both in bytes, means over the replayed iterations of data-parallel
 * rank 0.
 *
 *     struct fluctuation f = fluctuation_measure(execution, 0);      // the first stage
 */
#ifndef BALLAST_SIM_STUDY_FLUCTUATION_H
#define BALLAST_SIM_STUDY_FLUCTUATION_H

#include "sim/study/execution.h"

struct fluctuation {
    double deviation_bytes, range_bytes; /* NaN: no such stage, or it is never full */
};
struct fluctuation fluctuation_measure(const struct execution *execution, int64_t stage);

/* Of points in rising time, each value holding until the next, between two times. */
struct fluctuation fluctuation_between(const struct memory_point_record *points, int64_t count,
                                       int64_t from_ns, int64_t until_ns);

#endif
