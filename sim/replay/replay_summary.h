/* replay_summary.h - what the iterations of a replay come to: time, money, utilisation, memory's
 * verdict and the band of the step. Private to sim/replay. */
#ifndef BALLAST_SIM_REPLAY_REPLAY_SUMMARY_H
#define BALLAST_SIM_REPLAY_REPLAY_SUMMARY_H

#include "sim/replay/breakdown.h"
#include "sim/replay/job.h"
#include "sim/replay/replay.h"

/* After the iterations and the stages of `replay` are there. `sums`: of each iteration; `peaks`: of
 * each iteration and rank the bytes of its fullest GPU, sorted afterwards. */
void replay_summarise(const struct job *job, struct replay *replay,
                      const struct iteration_sums *sums, double *peaks);

#endif
