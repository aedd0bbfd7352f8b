/* shared_resource.h - tasks that run at once on one resource and divide it (a NIC, a link, the
 * SMs).
 *
 * Between two changes every flow moves at a constant speed, the max-min fair one: no flow uses more
 * than its own rate, and none could get more without taking from one that has less or as little.
 * A flow alone ends after exactly its duration; ends are rounded up to whole nanoseconds.
 *
 *     shared_resource_add(r, now_ns, task, rate, duration_ns);
 *     next_ns = shared_resource_divide(r, now_ns);             // after all that changes at now_ns
 *     while (shared_resource_take(r, next_ns, &task)) ...      // flows that have ended by next_ns
 */
#ifndef BALLAST_SIM_ENGINE_SHARED_RESOURCE_H
#define BALLAST_SIM_ENGINE_SHARED_RESOURCE_H

#include <stdbool.h>
#include <stdint.h>

struct flow;

struct shared_resource {
    struct flow *flows; /* by rate, then task; owned */
    int32_t count, capacity;
    int64_t updated_ns; /* what remains of the flows is as of this time */
    int64_t busy_ns;    /* time with any flow, until updated_ns */
};

void shared_resource_free(struct shared_resource *resource);
/* Forgets the flows and keeps the memory. */
void shared_resource_clear(struct shared_resource *resource);
void shared_resource_add(struct shared_resource *resource, int64_t now_ns, int32_t task,
                         double rate, int64_t duration_ns);
/* Sets the speeds that hold from now on; returns when the next flow ends, INT64_MAX if none runs.
 */
int64_t shared_resource_divide(struct shared_resource *resource, int64_t now_ns);
/* Removes one flow that has ended by now_ns; false when there is none. */
bool shared_resource_take(struct shared_resource *resource, int64_t now_ns, int32_t *task);

#endif
