/* shared_cache.h - one cache for all scenarios that a test program loads: the ninety files of a
 * scenario's hardware and stacks are read once, which is most of what loading takes. Not for tests
 * that change a model, a hardware, a cluster or a stack file under the same name. */
#ifndef BALLAST_TESTS_SHARED_CACHE_H
#define BALLAST_TESTS_SHARED_CACHE_H

#include <stdlib.h>
#include "sim/scenario/scenario_cache.h"

static struct scenario_cache *shared_cache_of_all;

static void shared_cache_end(void) {
    scenario_cache_destroy(shared_cache_of_all);
}

static inline struct scenario_cache *shared_cache(void) {
    if (shared_cache_of_all == NULL) {
        shared_cache_of_all = scenario_cache_create();
        atexit(shared_cache_end);
    }
    return shared_cache_of_all;
}

#endif
