/* shared_resource.c - fluid flows with max-min fair rates.
 *
 * The resource has capacity 1; flow i can use c_i of it. Water-filling over the flows in rising
 * order of c (Bertsekas and Gallager, Data Networks, section 6.5.2): with `left` capacity for the n
 * flows not yet served, the next one gets x_i = min(c_i, left / n). What remains of a flow is kept
 * as time at its own rate, which shrinks at speed x_i / c_i: exactly 1 while nothing holds it back,
 * so that a flow alone ends after exactly its duration (below 2^53 ns, 104 days).
 *
 * A flow is over at the first whole nanosecond at which no more than END_SLACK_NS of it remains:
 * the slack absorbs the rounding of doubles, which would otherwise add a nanosecond to flows that
 * end on a whole one.
 */
#include "sim/engine/shared_resource.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "sim/base/arena.h"
#include "sim/base/error.h"

/* Far above the error of doubles over hours of simulated time, far below the clock's step. */
#define END_SLACK_NS 1e-3

struct flow {
    double rate;         /* c: what it can use alone */
    double remaining_ns; /* at its own rate */
    double speed;        /* remaining_ns lost per ns, 0..1 */
    int64_t finish_ns;   /* at this speed */
    int32_t task;
};

void shared_resource_free(struct shared_resource *resource) {
    free(resource->flows);
    *resource = (struct shared_resource){ 0 };
}

void shared_resource_clear(struct shared_resource *resource) {
    resource->count = 0;
    resource->updated_ns = 0;
    resource->busy_ns = 0;
}

static void advance(struct shared_resource *resource, int64_t now_ns) {
    ballast_check(now_ns >= resource->updated_ns);
    int64_t passed_ns = now_ns - resource->updated_ns;
    resource->updated_ns = now_ns;
    if (passed_ns == 0 || resource->count == 0) return;
    resource->busy_ns += passed_ns;
    for (int32_t i = 0; i < resource->count; i++) {
        struct flow *flow = &resource->flows[i];
        flow->remaining_ns = fmax(0.0, flow->remaining_ns - flow->speed * (double)passed_ns);
    }
}

static bool goes_after(const struct flow *flow, double rate, int32_t task) {
    return flow->rate > rate || (flow->rate == rate && flow->task > task);
}

void shared_resource_add(struct shared_resource *resource, int64_t now_ns, int32_t task,
                         double rate, int64_t duration_ns) {
    ballast_check(rate > 0.0 && rate <= 1.0);
    advance(resource, now_ns);
    if (resource->count == resource->capacity) {
        resource->capacity = resource->capacity > 0 ? 2 * resource->capacity : 16;
        resource->flows =
            memory_realloc(resource->flows, (size_t)resource->capacity * sizeof(struct flow));
    }
    /* A fixed order of the flows makes sums of doubles independent of the order of arrival. */
    int32_t at = resource->count++;
    for (; at > 0 && goes_after(&resource->flows[at - 1], rate, task); at--)
        resource->flows[at] = resource->flows[at - 1];
    resource->flows[at] = (struct flow){
        .rate = rate,
        .remaining_ns = (double)duration_ns,
        .finish_ns = INT64_MAX, /* until shared_resource_divide() */
        .task = task,
    };
}

int64_t shared_resource_divide(struct shared_resource *resource, int64_t now_ns) {
    advance(resource, now_ns);
    int64_t next_ns = INT64_MAX;
    double left = 1.0;
    for (int32_t i = 0; i < resource->count; i++) {
        struct flow *flow = &resource->flows[i];
        double fair = left / (double)(resource->count - i);
        double used = fmin(flow->rate, fair);
        left -= used;
        flow->speed = used / flow->rate;
        double wait_ns = ceil(flow->remaining_ns / flow->speed - END_SLACK_NS);
        flow->finish_ns = now_ns + (int64_t)fmax(0.0, wait_ns);
        if (flow->finish_ns < next_ns) next_ns = flow->finish_ns;
    }
    return next_ns;
}

bool shared_resource_take(struct shared_resource *resource, int64_t now_ns, int32_t *task) {
    advance(resource, now_ns);
    for (int32_t i = resource->count - 1; i >= 0; i--) {
        struct flow *flow = &resource->flows[i];
        if (flow->finish_ns > now_ns) continue;
        *task = flow->task;
        resource->count--;
        memmove(flow, flow + 1, (size_t)(resource->count - i) * sizeof(*flow));
        return true;
    }
    return false;
}
