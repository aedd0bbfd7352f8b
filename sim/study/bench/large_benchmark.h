/* large_benchmark.h - one iteration of the largest job of the papers, as figures of `ballast
 * bench`.
 *
 *     struct large_work work = { .options = options, .planned = true };
 *     large_benchmark_run(&work);            // in a process of its own, for its peak memory
 *
 * VLM-XL on 16,384 GPUs: TP 8 x PP 16 x DP 128, 64 micro-batches for each data-parallel rank, each
 * rank with its own data. With 1F1B, or under DIP with plans that were made before: their orders
 * and choices are kept in memory and handed to the simulation, so that planning is timed apart.
 */
#ifndef BALLAST_SIM_STUDY_LARGE_BENCHMARK_H
#define BALLAST_SIM_STUDY_LARGE_BENCHMARK_H

#include "sim/scenario/scenario.h"

struct large_work {
    const struct scenario_options *options;
    bool planned;       /* in: under DIP */
    double simulate_s;  /* reading, pricing and the iteration, without planning it */
    double plan_s;      /* all ranks' planning, one after another on one thread */
    int64_t rank_count; /* data-parallel */
    double step_s;      /* of the simulated job */
    bool ok;
    struct error err;
};
void large_benchmark_run(struct large_work *work);

#endif
