/* slowness.h - passes on a GPU that computes more slowly than the others, and by a straggler.
 *
 *     struct pass_times p = { .forward_ns = f, .backward_ns = b, .backward_wait_ns = w };
 *     pass_times_slow(&p, 2, launches);     // a GPU half as fast: the host's launches stay
 */
#ifndef BALLAST_SIM_STEP_SLOWNESS_H
#define BALLAST_SIM_STEP_SLOWNESS_H

#include <stdbool.h>
#include <stdint.h>

/* Of which pass what the device does can hide the host's launches. */
enum launch_hiding {
    LAUNCHES_HIDE_IN_BOTH, /* the host launches ahead of both passes */
    LAUNCHES_HIDE_IN_EACH, /* it waits for the device between them (sends that block it) */
    LAUNCHES_NEVER_HIDE    /* it waits for each kernel */
};

static inline int64_t scaled_ns(int64_t ns, double factor) {
    return (int64_t)((double)ns * factor + 0.5);
}

struct pass_times {
    int64_t forward_ns, backward_ns;
    int64_t forward_wait_ns, backward_wait_ns; /* of them, waiting for the host's launches */
};

/* The device takes `factor` times as long; what it takes longer hides launches, and below 1 what it
 * gains is waited for where launches are waited for already. Returns what of the growth is left to
 * hide those of a recomputation. */
int64_t pass_times_slow(struct pass_times *passes, double factor, enum launch_hiding hiding);

#endif
