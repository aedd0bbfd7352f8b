/* engine.h - runs a task graph: the discrete-event core. No models here.
 *
 * Guarantees: deterministic (equal times are broken by priority, then by id); every task runs once;
 * an exclusive resource never runs two tasks; a shared one never exceeds its capacity; the clock is
 * integer nanoseconds. A graph whose tasks cannot all run (a cycle, or streams whose order
 * contradicts the dependencies) is an error that names a task which waits and the one it waits for.
 *
 * Two methods, one answer: a task on a stream or on no resource starts when the last of what it
 * waits for ends, so its times follow as soon as those are known, without an agenda; only priority
 * and shared resources need one, because who gets them depends on who is there. engine_run() uses
 * the agenda for these alone (never, when there are none); engine_run_events() makes every end of a
 * task an event (tests hold both equal).
 *
 *     struct engine *e = engine_create();
 *     if (!engine_run(e, graph, err)) ...
 *     e->start_ns[task], e->finish_ns[task], e->makespan_ns
 */
#ifndef BALLAST_SIM_ENGINE_ENGINE_H
#define BALLAST_SIM_ENGINE_ENGINE_H

#include "sim/engine/task_graph.h"

struct engine {
    int64_t *start_ns, *finish_ns; /* by task, valid until the next run */
    /* By resource. Exclusive: time occupied; shared: time with any task; none: 0. */
    int64_t *busy_ns;
    int64_t makespan_ns;
    int64_t event_count;            /* pushed and popped in the last run */
    struct engine_buffers *buffers; /* kept between runs; no allocation once grown */
};

struct engine *engine_create(void);
void engine_destroy(struct engine *engine);
bool engine_run(struct engine *engine, const struct task_graph *graph, struct error *err);
bool engine_run_events(struct engine *engine, const struct task_graph *graph, struct error *err);
/* The chain of tasks that sets the makespan, last task first; returns how many were written. A task
 * waits either for a dependency or for the task before it on its resource; of several that end at
 * the same time, a dependency (the first added) is named before the resource. `graph` is the one of
 * the last run, unchanged. */
int32_t engine_critical_path(const struct engine *engine, const struct task_graph *graph,
                             int32_t *tasks, int32_t capacity);

#endif
