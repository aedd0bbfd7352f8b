/* slowness.c - a pass is what the device does and what it waits for launches, max(device, host) in
 * all: a slower device waits less. Growth of the forward hides launches of the backward too, where
 * the host launches ahead of both. */
#include "sim/step/slowness.h"

static int64_t scaled(int64_t ns, double factor) {
    return (int64_t)((double)ns * factor + 0.5);
}

static int64_t above_zero(int64_t ns) {
    return ns > 0 ? ns : 0;
}

void pass_times_slow(struct pass_times *p, double factor, enum launch_hiding hiding) {
    const int64_t forward = p->forward_ns - p->forward_wait_ns,
                  backward = p->backward_ns - p->backward_wait_ns;
    const int64_t slow_forward = scaled(forward, factor), slow_backward = scaled(backward, factor);
    if (hiding != LAUNCHES_NEVER_HIDE && factor > 1) {
        const int64_t grown = slow_forward - forward;
        const int64_t over = above_zero(grown - p->forward_wait_ns);
        p->forward_wait_ns = above_zero(p->forward_wait_ns - grown);
        p->backward_wait_ns = above_zero(p->backward_wait_ns - (slow_backward - backward) -
                                         (hiding == LAUNCHES_HIDE_IN_BOTH ? over : 0));
    }
    p->forward_ns = slow_forward + p->forward_wait_ns;
    p->backward_ns = slow_backward + p->backward_wait_ns;
}
