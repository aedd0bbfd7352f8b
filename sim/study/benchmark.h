/* benchmark.h - the project's speed figures. tests/bench/README.md says what each one does.
 *
 * Medians of at least five repeats on one core. Figures are printed, never judged.
 */
#ifndef BALLAST_SIM_STUDY_BENCHMARK_H
#define BALLAST_SIM_STUDY_BENCHMARK_H

#include "sim/scenario/scenario.h"

struct benchmark {
    const char *key;  /* "isf_real_ms" */
    const char *what; /* one line, with the counts */
    double median, least, most;
};

enum { BENCHMARK_LIMIT = 16 };

/* Fills at most BENCHMARK_LIMIT results; texts live in `arena`. Returns the count, or -1 on error. */
int64_t benchmark_run(const struct scenario_options *options, int64_t repeats, struct arena *arena,
                      struct benchmark *results, struct error *err);

#endif
