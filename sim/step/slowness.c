/* slowness.c - a pass is what the device does and what it waits for launches, max(device, host) in
 * all: a slower device waits less. Growth of the forward hides launches of the backward too, where
 * the host launches ahead of both. */
#include "sim/step/slowness.h"

static int64_t above_zero(int64_t ns) {
    return ns > 0 ? ns : 0;
}

/* Takes the growth of a device off a wait; what the wait has not taken. A device that was not waited
 * for gains all of it: how long its host could do without it is not known. */
static int64_t hide(int64_t *wait_ns, int64_t grown_ns) {
    if (grown_ns < 0 && *wait_ns == 0) return grown_ns;
    const int64_t left = grown_ns - *wait_ns;
    *wait_ns = above_zero(-left);
    return above_zero(left);
}

int64_t pass_times_slow(struct pass_times *p, double factor, enum launch_hiding hiding) {
    const int64_t forward = p->forward_ns - p->forward_wait_ns,
                  backward = p->backward_ns - p->backward_wait_ns;
    const int64_t slow_forward = scaled_ns(forward, factor),
                  slow_backward = scaled_ns(backward, factor);
    int64_t left = 0;
    if (hiding != LAUNCHES_NEVER_HIDE) {
        const int64_t over = hide(&p->forward_wait_ns, slow_forward - forward);
        left = slow_backward - backward + (hiding == LAUNCHES_HIDE_IN_BOTH ? over : 0);
        left = hide(&p->backward_wait_ns, left);
    }
    p->forward_ns = slow_forward + p->forward_wait_ns;
    p->backward_ns = slow_backward + p->backward_wait_ns;
    return left;
}
