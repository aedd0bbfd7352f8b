/* planner_benchmark.h - the speed of DIP's planner, as figures of `ballast bench`.
 *
 *     planner_benchmark_search(options, 2, &rollouts_per_s, &tasks, err);
 */
#ifndef BALLAST_SIM_STUDY_PLANNER_BENCHMARK_H
#define BALLAST_SIM_STUDY_PLANNER_BENCHMARK_H

#include "sim/scenario/scenario.h"

struct planner_figures {
    int64_t tasks, pairs, rank_count; /* passes on all ranks; stage pairs of a rank */
    double rollouts_per_s;
    double program_ms, program_gap_fraction; /* of one rank; the largest gap of the ranks */
    double short_s, long_s;                  /* makespans after a second and after a minute */
    double bound_s;
};

/* Schedules tried a second on VLM-S with 8 micro-batches; no memory step. */
bool planner_benchmark_search(const struct scenario_options *options, int threads,
                              struct planner_figures *figures, struct error *err);
/* The memory step on VLM-S with 64 micro-batches, per rank. */
bool planner_benchmark_memory(const struct scenario_options *options,
                              struct planner_figures *figures, struct error *err);
/* The search on VLM-L with 64 micro-batches: the makespan after `seconds` of wall time. */
bool planner_benchmark_plan(const struct scenario_options *options, int threads, double seconds,
                            double *makespan_s, struct planner_figures *figures,
                            struct error *err);

#endif
