/* sweep_fixture.h - what the tests of sweeps share: options, and a run that must succeed. */
#ifndef BALLAST_TESTS_UNIT_STUDY_SWEEP_FIXTURE_H
#define BALLAST_TESTS_UNIT_STUDY_SWEEP_FIXTURE_H

#include <stdarg.h>
#include <setjmp.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>

#include <math.h>

#include "sim/study/sweep/sweep.h"

#define SMALL BALLAST_SOURCE_DIR "/tests/data/sweep/small-sweep.json"
#define TINY  BALLAST_SOURCE_DIR "/tests/data/sweep/tiny-sweep.json" /* a third of it */
#define FEW   BALLAST_SOURCE_DIR "/tests/data/sweep/few-sweep.json"  /* a quarter of that */

static const struct scenario_options scenario_options = { .directory = BALLAST_SOURCE_DIR
                                                          "/scenarios" };
static const struct provenance provenance = { .command_line = "test" };

static inline struct sweep_options options_with(struct store *store, int threads) {
    return (struct sweep_options){ .scenario_options = &scenario_options,
                                   .provenance = &provenance,
                                   .store = store,
                                   .threads = threads,
                                   .prune = true,
                                   .top = -1,
                                   .deadline_days = NAN,
                                   .budget_usd = NAN,
                                   .shard_count = 1 };
}

static inline struct sweep *must_run(const struct sweep_options *options, const char *path) {
    struct error err = { 0 };
    struct sweep *sweep = sweep_run(options, path, &err);
    if (sweep == NULL) fail_msg("%s", err.text);
    return sweep;
}

#endif
