/* benchmark.h - the project's speed figures. tests/bench/README.md says what each one does.
 *
 * Medians of at least five repeats on one core, two for the schedule search. Figures are printed,
 * never judged.
 */
#ifndef BALLAST_SIM_STUDY_BENCHMARK_H
#define BALLAST_SIM_STUDY_BENCHMARK_H

#include "sim/scenario/scenario.h"

struct benchmark {
    const char *key;  /* "isf_real_ms" */
    const char *what; /* one line, with the counts */
    double median, least, most;
};

enum { BENCHMARK_LIMIT = 32 };

/* Runs work(shared) in a process of its own, so that its peak memory is its own; what the work
 * writes into the `size` bytes at shared comes back. The caller provides it: starting and ending
 * processes is the command line's business. */
typedef bool (*benchmark_isolate)(void (*work)(void *shared), void *shared, size_t size,
                                  double *peak_MB, struct error *err);

/* Fills at most BENCHMARK_LIMIT results; texts live in `arena`. Returns the count, or -1 on error.
 */
int64_t benchmark_run(const struct scenario_options *options, int64_t repeats,
                      benchmark_isolate isolate, struct arena *arena, struct benchmark *results,
                      struct error *err);

#endif
