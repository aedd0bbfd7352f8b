/* task_graph.c - parallel arrays that only grow. */
#include "sim/engine/task_graph.h"

#include <stdlib.h>
#include <string.h>

#define GROW(array, capacity)                                                                      \
    ((array) = memory_realloc((array), (size_t)(capacity) * sizeof(*(array))))

struct task_graph *task_graph_create(void) {
    struct task_graph *graph = memory_alloc(sizeof(*graph));
    *graph = (struct task_graph){ 0 };
    return graph;
}

void task_graph_destroy(struct task_graph *graph) {
    if (graph == NULL) return;
    free(graph->duration_ns);
    free(graph->resource);
    free(graph->tag);
    free(graph->priority);
    free(graph->rate);
    free(graph->before);
    free(graph->after);
    free(graph->lag_ns);
    free(graph->resource_kind);
    free(graph->resource_name);
    free(graph);
}

void task_graph_clear(struct task_graph *graph) {
    graph->task_count = 0;
    graph->dependency_count = 0;
    graph->resource_count = 0;
}

static void grow_tasks(struct task_graph *graph, int32_t capacity) {
    GROW(graph->duration_ns, capacity);
    GROW(graph->resource, capacity);
    GROW(graph->tag, capacity);
    if (graph->priority != NULL) GROW(graph->priority, capacity);
    if (graph->rate != NULL) GROW(graph->rate, capacity);
    graph->task_capacity = capacity;
}

static void grow_dependencies(struct task_graph *graph, int32_t capacity) {
    GROW(graph->before, capacity);
    GROW(graph->after, capacity);
    if (graph->lag_ns != NULL) GROW(graph->lag_ns, capacity);
    graph->dependency_capacity = capacity;
}

/* The next size of an array that is full. Ids are int32_t, and -1 is kept for "none". */
static int32_t next_capacity(int32_t capacity) {
    ballast_check(capacity < INT32_MAX);
    if (capacity < 64) return 64;
    return capacity > INT32_MAX / 2 ? INT32_MAX : 2 * capacity;
}

void task_graph_reserve(struct task_graph *graph, int64_t tasks, int64_t dependencies) {
    ballast_check(tasks <= INT32_MAX && dependencies <= INT32_MAX);
    if (tasks > graph->task_capacity) grow_tasks(graph, (int32_t)tasks);
    if (dependencies > graph->dependency_capacity) grow_dependencies(graph, (int32_t)dependencies);
}

int32_t task_graph_add_resource(struct task_graph *graph, enum resource_kind kind,
                                const char *name) {
    ballast_check(name != NULL);
    if (graph->resource_count == graph->resource_capacity) {
        graph->resource_capacity = next_capacity(graph->resource_capacity);
        GROW(graph->resource_kind, graph->resource_capacity);
        GROW(graph->resource_name, graph->resource_capacity);
    }
    int32_t resource = graph->resource_count++;
    graph->resource_kind[resource] = kind;
    graph->resource_name[resource] = name;
    return resource;
}

int32_t task_graph_add_task(struct task_graph *graph, int32_t resource, int64_t duration_ns,
                            int32_t tag) {
    ballast_check(resource >= 0 && resource < graph->resource_count);
    ballast_check(duration_ns >= 0);
    if (graph->task_count == graph->task_capacity)
        grow_tasks(graph, next_capacity(graph->task_capacity));
    int32_t task = graph->task_count++;
    graph->duration_ns[task] = duration_ns;
    graph->resource[task] = resource;
    graph->tag[task] = tag;
    if (graph->priority != NULL) graph->priority[task] = 0;
    if (graph->rate != NULL) graph->rate[task] = 1.0;
    return task;
}

void task_graph_set_priority(struct task_graph *graph, int32_t task, int32_t priority) {
    ballast_check(task >= 0 && task < graph->task_count);
    if (graph->priority == NULL) {
        GROW(graph->priority, graph->task_capacity);
        memset(graph->priority, 0, (size_t)graph->task_count * sizeof(*graph->priority));
    }
    graph->priority[task] = priority;
}

void task_graph_set_rate(struct task_graph *graph, int32_t task, double rate) {
    ballast_check(task >= 0 && task < graph->task_count);
    ballast_check(rate > 0.0 && rate <= 1.0);
    if (graph->rate == NULL) {
        GROW(graph->rate, graph->task_capacity);
        for (int32_t i = 0; i < graph->task_count; i++)
            graph->rate[i] = 1.0;
    }
    graph->rate[task] = rate;
}

void task_graph_add_dependency(struct task_graph *graph, int32_t before, int32_t after,
                               int64_t lag_ns) {
    ballast_check(before >= 0 && after >= 0);
    ballast_check(lag_ns >= 0);
    if (graph->dependency_count == graph->dependency_capacity)
        grow_dependencies(graph, next_capacity(graph->dependency_capacity));
    int32_t dependency = graph->dependency_count++;
    graph->before[dependency] = before;
    graph->after[dependency] = after;
    if (lag_ns != 0 && graph->lag_ns == NULL) {
        GROW(graph->lag_ns, graph->dependency_capacity);
        memset(graph->lag_ns, 0, (size_t)dependency * sizeof(*graph->lag_ns));
    }
    if (graph->lag_ns != NULL) graph->lag_ns[dependency] = lag_ns;
}
