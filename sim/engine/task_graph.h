/* task_graph.h - tasks, what they wait for, and the resource each one occupies.
 *
 * A graph is filled once and run many times (task_graph_clear keeps the memory). Ids are dense,
 * from 0, in order of addition. A dependency may point to a later id. Between runs the caller may
 * write durations, priorities and rates where they stand; a negative duration or lag is a mistake
 * of ours, not of the user, and stops the program.
 *
 *     int32_t gpu  = task_graph_add_resource(g, RESOURCE_STREAM, "stage 0 compute");
 *     int32_t fwd  = task_graph_add_task(g, gpu, 1500, tag);
 *     int32_t bwd  = task_graph_add_task(g, gpu, 3000, tag);
 *     task_graph_add_dependency(g, fwd, bwd, 0);
 *     engine_run(engine, g, err);
 */
#ifndef BALLAST_SIM_ENGINE_TASK_GRAPH_H
#define BALLAST_SIM_ENGINE_TASK_GRAPH_H

#include <stdbool.h>
#include <stdint.h>
#include "sim/base/arena.h"
#include "sim/base/error.h"

enum resource_kind {
    RESOURCE_STREAM,   /* exclusive; tasks run in order of addition, like a CUDA stream */
    RESOURCE_PRIORITY, /* exclusive; of the ready tasks the highest priority runs, then lowest id */
    RESOURCE_SHARED,   /* all ready tasks run at once and divide it max-min fairly */
    RESOURCE_NONE,     /* a delay: occupies nothing */
};

struct task_graph {
    /* tasks */
    int64_t *duration_ns; /* on a shared resource: time when it is alone at its own `rate` */
    int32_t *resource;
    int32_t *tag; /* the caller's; the engine does not read it */
    int32_t task_count, task_capacity;
    /* of tasks on priority and shared resources only; NULL until one is set (all 0; all 1) */
    int32_t *priority;
    double *rate; /* share of the resource that the task can use alone, 0 < rate <= 1 */
    /* dependencies, as added */
    int32_t *before, *after;
    int64_t *lag_ns; /* NULL until one is not 0 */
    int32_t dependency_count, dependency_capacity;
    /* resources */
    enum resource_kind *resource_kind;
    const char **resource_name; /* borrowed */
    int32_t resource_count, resource_capacity;
};

struct task_graph *task_graph_create(void);
void task_graph_destroy(struct task_graph *graph);
void task_graph_clear(struct task_graph *graph);
/* Room for so many, so that adding does not grow the arrays. */
void task_graph_reserve(struct task_graph *graph, int64_t tasks, int64_t dependencies);

int32_t task_graph_add_resource(struct task_graph *graph, enum resource_kind kind,
                                const char *name);
int32_t task_graph_add_task(struct task_graph *graph, int32_t resource, int64_t duration_ns,
                            int32_t tag);
void task_graph_set_priority(struct task_graph *graph, int32_t task, int32_t priority);
void task_graph_set_rate(struct task_graph *graph, int32_t task, double rate);
/* `after` starts no earlier than lag_ns after `before` ends. */
void task_graph_add_dependency(struct task_graph *graph, int32_t before, int32_t after,
                               int64_t lag_ns);

#endif
