/* engine.c - relaxation in topological order, and an agenda for contended resources.
 *
 * Each task counts what it still waits for: its dependencies and, on a stream, the task before it.
 * When the count falls to 0 its start is the latest of their ends (plus lags). On a stream or on no
 * resource that settles its end as well, so it joins a stack of settled tasks whose followers are
 * told next; the order of the stack does not matter, because only maxima are taken. On a priority
 * or shared resource (a *contended* one) the start becomes an event: the agenda brings arrivals
 * together in order of time, and the resource is granted once all that happens at one instant is
 * known.
 *
 * Followers are kept in compressed rows (`edge_target`, rows from node.edge_begin), built for each
 * run by a counting sort of the dependencies.
 */
#include "sim/engine/engine.h"

#include <stdlib.h>
#include <string.h>

#include "sim/engine/event_queue.h"
#include "sim/engine/shared_resource.h"

/* What an event means, as its priority: at one instant all ends and arrivals come before any
 * resource is granted, so that a grant sees every task that is ready. The id of the first two is a
 * task, of the last two a resource. */
enum event_kind {
    EVENT_GRANT,    /* a contended resource starts a task or divides itself anew */
    EVENT_FLOW_END, /* a task on a shared resource ends */
    EVENT_ARRIVAL,  /* a task reaches its contended resource */
    EVENT_FINISH,   /* a task ends */
};

/* Values of node.next that are no task. */
enum { NEXT_NONE = -1, NEXT_CONTENDED = -2 };

struct node {
    int32_t waits;      /* what it still waits for; 0 from the moment its start is known */
    int32_t next;       /* the task after it on its stream */
    int32_t edge_begin; /* its followers end where those of the next node begin */
};

struct resource_state {
    /* RESOURCE_PRIORITY */
    struct event_queue ready; /* all at time 0, so that priority and id decide */
    bool running;
    int32_t latest; /* task granted last; -1: none yet */
    /* RESOURCE_SHARED */
    struct shared_resource shared;
    int64_t flow_end_ns; /* when the EVENT_FLOW_END that counts is due; older ones are ignored */
    /* both */
    bool grant_pending; /* an EVENT_GRANT is in the agenda */
};

struct engine_buffers {
    struct node *nodes; /* by task, and one more that ends the last row */
    int32_t *stack;     /* settled tasks whose followers have not been told; scratch after a run */
    int32_t *granted_after; /* of tasks on priority resources: the task granted before, or -1 */
    int32_t *edge_target;
    int64_t *edge_lag_ns;
    int32_t *stream_tail; /* by resource: last task seen while linking streams */
    struct resource_state *states;
    struct event_queue agenda;
    int32_t task_capacity, dependency_capacity, lag_capacity, resource_capacity;
};

struct run {
    struct engine *engine;
    const struct task_graph *graph;
    struct engine_buffers *buffers;
    const int64_t *edge_lag_ns; /* NULL: all 0 */
    bool every_end_is_event;
    int32_t stack_count;
    int32_t settled_count;
};

struct engine *engine_create(void) {
    struct engine *engine = memory_alloc(sizeof(*engine));
    *engine = (struct engine){ 0 };
    engine->buffers = memory_alloc(sizeof(*engine->buffers));
    *engine->buffers = (struct engine_buffers){ 0 };
    return engine;
}

void engine_destroy(struct engine *engine) {
    if (engine == NULL) return;
    struct engine_buffers *buffers = engine->buffers;
    for (int32_t i = 0; i < buffers->resource_capacity; i++) {
        event_queue_free(&buffers->states[i].ready);
        shared_resource_free(&buffers->states[i].shared);
    }
    event_queue_free(&buffers->agenda);
    free(buffers->nodes);
    free(buffers->stack);
    free(buffers->granted_after);
    free(buffers->edge_target);
    free(buffers->edge_lag_ns);
    free(buffers->stream_tail);
    free(buffers->states);
    free(buffers);
    free(engine->start_ns);
    free(engine->finish_ns);
    free(engine->busy_ns);
    free(engine);
}

/* --- preparation ------------------------------------------------------------------------------ */

/* Contents need not survive: they are written anew in each run. */
#define RENEW(array, count)                                                                        \
    (free(array), (array) = memory_alloc((size_t)(count) * sizeof(*(array))))

static void grow(struct engine *engine, const struct task_graph *graph) {
    struct engine_buffers *buffers = engine->buffers;
    if (buffers->nodes == NULL || graph->task_count > buffers->task_capacity) {
        buffers->task_capacity = graph->task_capacity;
        RENEW(buffers->nodes, (int64_t)buffers->task_capacity + 1);
        RENEW(buffers->stack, buffers->task_capacity);
        RENEW(buffers->granted_after, buffers->task_capacity);
        RENEW(engine->start_ns, buffers->task_capacity);
        RENEW(engine->finish_ns, buffers->task_capacity);
    }
    if (graph->dependency_count > buffers->dependency_capacity) {
        buffers->dependency_capacity = graph->dependency_capacity;
        RENEW(buffers->edge_target, buffers->dependency_capacity);
    }
    if (graph->lag_ns != NULL && graph->dependency_count > buffers->lag_capacity) {
        buffers->lag_capacity = graph->dependency_capacity;
        RENEW(buffers->edge_lag_ns, buffers->lag_capacity);
    }
    if (graph->resource_count > buffers->resource_capacity) {
        int32_t old = buffers->resource_capacity;
        buffers->resource_capacity = graph->resource_capacity;
        RENEW(engine->busy_ns, buffers->resource_capacity);
        RENEW(buffers->stream_tail, buffers->resource_capacity);
        buffers->states = memory_realloc(buffers->states, (size_t)buffers->resource_capacity *
                                                              sizeof(*buffers->states));
        memset(buffers->states + old, 0,
               (size_t)(buffers->resource_capacity - old) * sizeof(*buffers->states));
    }
}

static void reset_resources(struct engine *engine, const struct task_graph *graph) {
    for (int32_t r = 0; r < graph->resource_count; r++) {
        struct resource_state *state = &engine->buffers->states[r];
        engine->busy_ns[r] = 0;
        engine->buffers->stream_tail[r] = -1;
        event_queue_clear(&state->ready);
        shared_resource_clear(&state->shared);
        state->running = false;
        state->latest = -1;
        state->flow_end_ns = INT64_MAX;
        state->grant_pending = false;
    }
}

/* Links the streams and turns the counts of followers into the ends of their rows. */
static void link_tasks(struct engine *engine, const struct task_graph *graph) {
    struct node *nodes = engine->buffers->nodes;
    int32_t *tails = engine->buffers->stream_tail;
    int32_t edge_end = 0;
    int64_t sign = 0;
    for (int32_t i = 0; i < graph->task_count; i++) {
        int32_t r = graph->resource[i];
        int64_t duration_ns = graph->duration_ns[i];
        sign |= duration_ns;
        edge_end += nodes[i].edge_begin;
        nodes[i].edge_begin = edge_end;
        nodes[i].next = NEXT_NONE;
        switch (graph->resource_kind[r]) {
        case RESOURCE_STREAM:
            if (tails[r] >= 0) {
                nodes[tails[r]].next = i;
                nodes[i].waits++;
            }
            tails[r] = i;
            engine->busy_ns[r] += duration_ns;
            break;
        case RESOURCE_PRIORITY:
            nodes[i].next = NEXT_CONTENDED;
            engine->busy_ns[r] += duration_ns;
            break;
        case RESOURCE_SHARED:
            nodes[i].next = NEXT_CONTENDED;
            break;
        case RESOURCE_NONE:
            break;
        }
    }
    nodes[graph->task_count].edge_begin = edge_end;
    ballast_check(sign >= 0); /* no duration is negative */
}

static void sort_edges(const struct task_graph *graph, struct engine_buffers *buffers) {
    /* Backwards, so that each row's end moves to its begin and rows keep the order of addition. */
    for (int32_t d = graph->dependency_count - 1; d >= 0; d--) {
        int32_t slot = --buffers->nodes[graph->before[d]].edge_begin;
        buffers->edge_target[slot] = graph->after[d];
        if (graph->lag_ns != NULL) buffers->edge_lag_ns[slot] = graph->lag_ns[d];
    }
}

static void prepare(struct engine *engine, const struct task_graph *graph) {
    struct engine_buffers *buffers = engine->buffers;
    grow(engine, graph);
    reset_resources(engine, graph);
    event_queue_clear(&buffers->agenda);
    struct node *nodes = buffers->nodes;
    memset(nodes, 0, ((size_t)graph->task_count + 1) * sizeof(*nodes));
    memset(engine->start_ns, 0, (size_t)graph->task_count * sizeof(*engine->start_ns));
    for (int32_t d = 0; d < graph->dependency_count; d++) {
        int32_t before = graph->before[d], after = graph->after[d];
        ballast_check(before < graph->task_count && after < graph->task_count);
        nodes[before].edge_begin++;
        nodes[after].waits++;
    }
    link_tasks(engine, graph);
    sort_edges(graph, buffers);
    engine->makespan_ns = 0;
    engine->event_count = 0;
}

/* --- the run ---------------------------------------------------------------------------------- */

static void push_event(struct run *run, int64_t time_ns, enum event_kind kind, int32_t id) {
    event_queue_push(&run->buffers->agenda,
                     (struct event){ .time_ns = time_ns, .priority = (int32_t)kind, .id = id });
    run->engine->event_count++;
}

/* `task` waits for nothing more. */
static inline void start(struct run *run, int32_t task) {
    struct engine *engine = run->engine;
    int64_t start_ns = engine->start_ns[task];
    if (run->buffers->nodes[task].next == NEXT_CONTENDED) {
        push_event(run, start_ns, EVENT_ARRIVAL, task);
        return;
    }
    int64_t finish_ns = start_ns + run->graph->duration_ns[task];
    if (run->every_end_is_event) {
        push_event(run, finish_ns, EVENT_FINISH, task);
        return;
    }
    engine->finish_ns[task] = finish_ns;
    run->buffers->stack[run->stack_count++] = task;
}

static inline void release(struct run *run, int32_t task, int64_t ready_ns) {
    struct node *node = &run->buffers->nodes[task];
    if (run->engine->start_ns[task] < ready_ns) run->engine->start_ns[task] = ready_ns;
    if (--node->waits == 0) start(run, task);
}

/* Tells the followers of every settled task, and of those that this settles. */
static void settle(struct run *run) {
    struct engine *engine = run->engine;
    const struct node *nodes = run->buffers->nodes;
    const int32_t *edge_target = run->buffers->edge_target;
    while (run->stack_count > 0) {
        int32_t task = run->buffers->stack[--run->stack_count];
        int64_t finish_ns = engine->finish_ns[task];
        run->settled_count++;
        if (engine->makespan_ns < finish_ns) engine->makespan_ns = finish_ns;
        int32_t edge_end = nodes[task + 1].edge_begin;
        for (int32_t e = nodes[task].edge_begin; e < edge_end; e++)
            release(run, edge_target[e],
                    finish_ns + (run->edge_lag_ns != NULL ? run->edge_lag_ns[e] : 0));
        if (nodes[task].next >= 0) release(run, nodes[task].next, finish_ns);
    }
}

static void finish(struct run *run, int32_t task, int64_t now_ns) {
    run->engine->finish_ns[task] = now_ns;
    run->buffers->stack[run->stack_count++] = task;
    settle(run);
}

static void ask_for_grant(struct run *run, int32_t resource, int64_t now_ns) {
    struct resource_state *state = &run->buffers->states[resource];
    if (state->grant_pending) return;
    state->grant_pending = true;
    push_event(run, now_ns, EVENT_GRANT, resource);
}

static void on_finish(struct run *run, int32_t task, int64_t now_ns) {
    int32_t resource = run->graph->resource[task];
    if (run->graph->resource_kind[resource] == RESOURCE_PRIORITY) {
        run->buffers->states[resource].running = false;
        ask_for_grant(run, resource, now_ns);
    }
    finish(run, task, now_ns);
}

static void on_arrival(struct run *run, int32_t task, int64_t now_ns) {
    const struct task_graph *graph = run->graph;
    int32_t resource = graph->resource[task];
    struct resource_state *state = &run->buffers->states[resource];
    if (graph->resource_kind[resource] == RESOURCE_PRIORITY) {
        int32_t priority = graph->priority != NULL ? graph->priority[task] : 0;
        event_queue_push(&state->ready,
                         (struct event){ .time_ns = 0, .priority = priority, .id = task });
    } else {
        double rate = graph->rate != NULL ? graph->rate[task] : 1.0;
        shared_resource_add(&state->shared, now_ns, task, rate, graph->duration_ns[task]);
    }
    ask_for_grant(run, resource, now_ns);
}

static void on_flow_end(struct run *run, int32_t resource, int64_t now_ns) {
    struct resource_state *state = &run->buffers->states[resource];
    if (state->flow_end_ns != now_ns) return; /* another flow came or went since */
    state->flow_end_ns = INT64_MAX;
    int32_t task;
    while (shared_resource_take(&state->shared, now_ns, &task))
        finish(run, task, now_ns);
    if (state->shared.count > 0) ask_for_grant(run, resource, now_ns);
}

static void grant_priority(struct run *run, struct resource_state *state, int64_t now_ns) {
    struct event ready;
    if (state->running || !event_queue_pop(&state->ready, &ready)) return;
    int32_t task = ready.id;
    state->running = true;
    run->buffers->granted_after[task] = state->latest;
    state->latest = task;
    run->engine->start_ns[task] = now_ns;
    push_event(run, now_ns + run->graph->duration_ns[task], EVENT_FINISH, task);
}

static void grant_shared(struct run *run, struct resource_state *state, int32_t resource,
                         int64_t now_ns) {
    int64_t flow_end_ns = shared_resource_divide(&state->shared, now_ns);
    if (flow_end_ns == state->flow_end_ns) return; /* its event is in the agenda already */
    state->flow_end_ns = flow_end_ns;
    if (flow_end_ns < INT64_MAX) push_event(run, flow_end_ns, EVENT_FLOW_END, resource);
}

static void on_grant(struct run *run, int32_t resource, int64_t now_ns) {
    struct resource_state *state = &run->buffers->states[resource];
    state->grant_pending = false;
    if (run->graph->resource_kind[resource] == RESOURCE_PRIORITY)
        grant_priority(run, state, now_ns);
    else
        grant_shared(run, state, resource, now_ns);
}

static void run_agenda(struct run *run) {
    struct event event;
    while (event_queue_pop(&run->buffers->agenda, &event)) {
        switch ((enum event_kind)event.priority) {
        case EVENT_FINISH:
            on_finish(run, event.id, event.time_ns);
            break;
        case EVENT_ARRIVAL:
            on_arrival(run, event.id, event.time_ns);
            break;
        case EVENT_FLOW_END:
            on_flow_end(run, event.id, event.time_ns);
            break;
        case EVENT_GRANT:
            on_grant(run, event.id, event.time_ns);
            break;
        }
    }
}

/* --- tasks that wait for each other ----------------------------------------------------------- */

/* For every task that never started, one other such task that it waits for; -1 for the rest. A
 * dependency is preferred to the order of a stream. */
static void find_blockers(const struct run *run, int32_t *blockers) {
    const struct task_graph *graph = run->graph;
    const struct node *nodes = run->buffers->nodes;
    for (int32_t i = 0; i < graph->task_count; i++)
        blockers[i] = -1;
    for (int32_t i = 0; i < graph->task_count; i++)
        if (nodes[i].waits > 0 && nodes[i].next >= 0) blockers[nodes[i].next] = i;
    for (int32_t d = 0; d < graph->dependency_count; d++)
        if (nodes[graph->before[d]].waits > 0) blockers[graph->after[d]] = graph->before[d];
}

/* Whoever never started waits for another that never started, so following the blockers from any of
 * them ends in a circle. Its lowest task cannot wait for an earlier one on its stream, so what it
 * waits for is a dependency. */
static bool report_circle(const struct run *run, struct error *err) {
    const struct task_graph *graph = run->graph;
    int32_t *blockers = run->buffers->stack;
    find_blockers(run, blockers);
    int32_t task = 0;
    while (run->buffers->nodes[task].waits == 0)
        task++;
    for (int32_t i = 0; i < graph->task_count; i++)
        task = blockers[task];
    int32_t origin = task, first = task, length = 0;
    do {
        task = blockers[task];
        if (task < first) first = task;
        length++;
    } while (task != origin);
    int32_t second = blockers[first];
    error_set(
        err,
        "the task graph cannot finish: task %d on '%s' depends on task %d on '%s', which waits "
        "for it in turn (a circle of %d); %d of %d tasks never start",
        first, graph->resource_name[graph->resource[first]], second,
        graph->resource_name[graph->resource[second]], length,
        graph->task_count - run->settled_count, graph->task_count);
    return error_hint(err, "the order of tasks on a stream contradicts their dependencies, or the "
                           "dependencies themselves form a circle");
}

static bool run_graph(struct engine *engine, const struct task_graph *graph,
                      bool every_end_is_event, struct error *err) {
    prepare(engine, graph);
    struct run run = {
        .engine = engine,
        .graph = graph,
        .buffers = engine->buffers,
        .edge_lag_ns = graph->lag_ns != NULL ? engine->buffers->edge_lag_ns : NULL,
        .every_end_is_event = every_end_is_event,
    };
    for (int32_t i = 0; i < graph->task_count; i++)
        if (engine->buffers->nodes[i].waits == 0) start(&run, i);
    settle(&run);
    run_agenda(&run);
    for (int32_t r = 0; r < graph->resource_count; r++)
        if (graph->resource_kind[r] == RESOURCE_SHARED)
            engine->busy_ns[r] = engine->buffers->states[r].shared.busy_ns;
    return run.settled_count == graph->task_count || report_circle(&run, err);
}

bool engine_run(struct engine *engine, const struct task_graph *graph, struct error *err) {
    return run_graph(engine, graph, false, err);
}

bool engine_run_events(struct engine *engine, const struct task_graph *graph, struct error *err) {
    return run_graph(engine, graph, true, err);
}

/* --- critical path ---------------------------------------------------------------------------- */

/* For each task the one whose end set its start; -1: nothing held it back. */
static void find_causes(const struct engine *engine, const struct task_graph *graph,
                        int32_t *causes) {
    const struct node *nodes = engine->buffers->nodes;
    const int64_t *start_ns = engine->start_ns, *finish_ns = engine->finish_ns;
    for (int32_t i = 0; i < graph->task_count; i++)
        causes[i] = -1;
    for (int32_t d = 0; d < graph->dependency_count; d++) {
        int32_t before = graph->before[d], after = graph->after[d];
        int64_t lag_ns = graph->lag_ns != NULL ? graph->lag_ns[d] : 0;
        if (causes[after] < 0 && finish_ns[before] + lag_ns == start_ns[after])
            causes[after] = before;
    }
    for (int32_t i = 0; i < graph->task_count; i++) {
        int32_t next = nodes[i].next;
        if (next >= 0 && causes[next] < 0 && finish_ns[i] == start_ns[next]) causes[next] = i;
        if (graph->resource_kind[graph->resource[i]] == RESOURCE_PRIORITY && causes[i] < 0)
            causes[i] = engine->buffers->granted_after[i];
    }
}

int32_t engine_critical_path(const struct engine *engine, const struct task_graph *graph,
                             int32_t *tasks, int32_t capacity) {
    if (graph->task_count == 0) return 0;
    int32_t *causes = engine->buffers->stack;
    find_causes(engine, graph, causes);
    int32_t task = 0;
    while (engine->finish_ns[task] != engine->makespan_ns)
        task++;
    int32_t count = 0;
    for (; task >= 0 && count < capacity; task = causes[task])
        tasks[count++] = task;
    return count;
}
