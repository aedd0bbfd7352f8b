/* local_search.c - see the header. A pass is a task, numbered (2 segment + backward) x ranks +
 * rank. */
#include "tests/bench/local_search.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include "sim/base/error.h"

enum { NONE = -1, CHECK_EVERY = 64, INSERT_OF = 4 };
/* Temperatures in mean passes. */
#define HOT  0.2
#define COLD 0.002

struct edge {
    int32_t task; /* that waits */
    int64_t lag_ns;
};

struct state {
    const struct segment_graph *g;
    int32_t task_count, per_rank;
    int64_t *occupied_ns; /* by task: how long its rank has nothing else */
    int64_t *finish_after_ns;
    int32_t *edge_first, *waits;
    struct edge *edges;
    int32_t *order, *place; /* [rank x per_rank + k]; where a task stands in it */
    int64_t *start_ns;
    int32_t *cause; /* the task that fixed its start; NONE: nothing */
    int32_t *left, *queue;
    uint64_t random;
    /* of the list scheduler */
    double *number; /* by segment and direction */
    int64_t *ready_ns;
    int32_t *waiting, *waiting_count; /* by rank: released passes; how many */
    double *need_bytes;               /* [micro-batch x ranks + rank]: all that it keeps */
    double *room_bytes, *held_bytes;  /* by rank: capacity; reserved by micro-batches under way */
    bool *begun;                      /* by micro-batch */
    int32_t changes, *asked_at; /* of held_bytes; by micro-batch: when it last did not fit */
    /* of the annealing */
    double mean_ns;
    int64_t best_ns, tried;
    int32_t *best;
};

/* A budget: its part of the whole, and when it began. */
struct clock {
    const struct local_search_options *options;
    struct timespec begin;
    double next_report;
};

static uint64_t next_random(uint64_t *state) {
    uint64_t z = *state += UINT64_C(0x9e3779b97f4a7c15);
    z = (z ^ (z >> 30)) * UINT64_C(0xbf58476d1ce4e5b9);
    z = (z ^ (z >> 27)) * UINT64_C(0x94d049bb133111eb);
    return z ^ (z >> 31);
}

static double uniform(struct state *s) {
    return (double)(next_random(&s->random) >> 11) * 0x1p-53;
}

static int32_t below(struct state *s, int32_t limit) {
    return (int32_t)(uniform(s) * limit);
}

static int32_t task_of(const struct state *s, int64_t segment, bool backward, int64_t rank) {
    return (int32_t)((2 * segment + backward) * s->g->rank_count + rank);
}

static int32_t segment_of(const struct state *s, int32_t task) {
    return task / (2 * s->g->rank_count);
}

static bool is_backward(const struct state *s, int32_t task) {
    return task / s->g->rank_count % 2 == 1;
}

static const struct segment_pass *pass_of(const struct state *s, int32_t task) {
    return segment_graph_pass(s->g, segment_of(s, task), task % s->g->rank_count);
}

/* ---- dependencies ---- */

static void add_edge(struct state *s, int32_t before, int32_t after, int64_t lag_ns, bool count) {
    if (count) {
        s->edge_first[before + 1]++;
        return;
    }
    s->edges[s->edge_first[before]++] = (struct edge){ after, lag_ns };
    s->waits[after]++;
}

static void add_edges(struct state *s, bool count) {
    const struct segment_graph *g = s->g;
    int32_t last = g->rank_count - 1;
    for (int32_t i = 0; i < g->segment_count; i++) {
        const struct segment_pass *p = segment_graph_pass(g, i, 0);
        for (int32_t r = 0; r < last; r++) {
            add_edge(s, task_of(s, i, false, r), task_of(s, i, false, r + 1), p[r].send_forward_ns,
                     count);
            add_edge(s, task_of(s, i, true, r + 1), task_of(s, i, true, r),
                     p[r + 1].send_backward_ns, count);
        }
        int32_t from = g->successor_first[i], to = g->successor_first[i + 1];
        if (from == to)
            add_edge(s, task_of(s, i, false, last), task_of(s, i, true, last), 0, count);
        for (int32_t k = from; k < to; k++) {
            int32_t next = g->successors[k];
            add_edge(s, task_of(s, i, false, last), task_of(s, next, false, 0),
                     p[last].send_forward_ns, count);
            add_edge(s, task_of(s, next, true, 0), task_of(s, i, true, last),
                     segment_graph_pass(g, next, 0)->send_backward_ns, count);
        }
    }
}

static void list_edges(struct state *s) {
    size_t n = (size_t)s->task_count;
    s->edge_first = memory_alloc(sizeof *s->edge_first * (n + 2));
    memset(s->edge_first, 0, sizeof *s->edge_first * (n + 2));
    add_edges(s, true);
    for (size_t i = 0; i < n; i++)
        s->edge_first[i + 1] += s->edge_first[i];
    s->edges = memory_alloc(sizeof *s->edges * (size_t)(s->edge_first[n] + 1));
    s->waits = memory_alloc(sizeof *s->waits * n);
    memset(s->waits, 0, sizeof *s->waits * n);
    add_edges(s, false);
    /* Filling moved each start to the next one's. */
    memmove(s->edge_first + 1, s->edge_first, sizeof *s->edge_first * n);
    s->edge_first[0] = 0;
}

static void state_create(struct state *s, const struct segment_graph *g, uint64_t seed) {
    *s = (struct state){ .g = g,
                         .task_count = 2 * g->segment_count * g->rank_count,
                         .per_rank = 2 * g->segment_count,
                         .random = seed };
    size_t n = (size_t)s->task_count;
    s->occupied_ns = memory_alloc(sizeof *s->occupied_ns * n);
    s->finish_after_ns = memory_alloc(sizeof *s->finish_after_ns * n);
    s->order = memory_alloc(sizeof *s->order * n);
    s->place = memory_alloc(sizeof *s->place * n);
    s->start_ns = memory_alloc(sizeof *s->start_ns * n);
    s->cause = memory_alloc(sizeof *s->cause * n);
    s->left = memory_alloc(sizeof *s->left * n);
    s->queue = memory_alloc(sizeof *s->queue * n);
    s->best = memory_alloc(sizeof *s->best * n);
    s->number = memory_alloc(sizeof *s->number * (size_t)s->per_rank);
    s->ready_ns = memory_alloc(sizeof *s->ready_ns * n);
    s->waiting = memory_alloc(sizeof *s->waiting * n);
    s->waiting_count = memory_alloc(sizeof *s->waiting_count * (size_t)g->rank_count);
    for (int32_t t = 0; t < s->task_count; t++) {
        const struct segment_pass *p = pass_of(s, t);
        bool back = is_backward(s, t);
        s->finish_after_ns[t] = back ? p->backward_ns : p->forward_ns;
        s->occupied_ns[t] = s->finish_after_ns[t];
        if (g->send_blocks_compute)
            s->occupied_ns[t] += back ? p->send_backward_ns : p->send_forward_ns;
        s->mean_ns += (double)s->occupied_ns[t] / s->task_count;
    }
    s->need_bytes = memory_alloc(sizeof *s->need_bytes *
                                 (size_t)(g->micro_batch_count * g->rank_count));
    s->room_bytes = memory_alloc(sizeof *s->room_bytes * (size_t)g->rank_count);
    s->held_bytes = memory_alloc(sizeof *s->held_bytes * (size_t)g->rank_count);
    s->begun = memory_alloc((size_t)g->micro_batch_count);
    s->asked_at = memory_alloc(sizeof *s->asked_at * (size_t)g->micro_batch_count);
    memset(s->need_bytes, 0,
           sizeof *s->need_bytes * (size_t)(g->micro_batch_count * g->rank_count));
    for (int32_t r = 0; r < g->rank_count; r++) {
        double workspace = 0;
        for (int32_t i = 0; i < g->segment_count; i++) {
            const struct segment_pass *p = segment_graph_pass(g, i, r);
            workspace = fmax(workspace, p->workspace_bytes);
            s->need_bytes[g->micro_batch_of[i] * g->rank_count + r] += p->bytes;
        }
        s->room_bytes[r] = g->capacity_bytes[r] - workspace;
    }
    list_edges(s);
}

static void state_destroy(struct state *s) {
    free(s->occupied_ns);
    free(s->finish_after_ns);
    free(s->order);
    free(s->place);
    free(s->start_ns);
    free(s->cause);
    free(s->left);
    free(s->queue);
    free(s->best);
    free(s->number);
    free(s->ready_ns);
    free(s->waiting);
    free(s->waiting_count);
    free(s->need_bytes);
    free(s->room_bytes);
    free(s->held_bytes);
    free(s->begun);
    free(s->asked_at);
    free(s->edge_first);
    free(s->edges);
    free(s->waits);
}

/* ---- timing ---- */

static inline void release(struct state *s, int32_t before, int32_t after, int64_t ready_ns,
                           int32_t *tail) {
    if (ready_ns > s->start_ns[after] || s->cause[after] == NONE) {
        if (ready_ns >= s->start_ns[after]) s->cause[after] = before;
        if (ready_ns > s->start_ns[after]) s->start_ns[after] = ready_ns;
    }
    if (--s->left[after] == 0) s->queue[(*tail)++] = after;
}

/* Starts of all tasks; the makespan, or SEGMENT_DEAD_END where the orders contradict each other. */
static int64_t time_all(struct state *s, int32_t *last_task) {
    const struct segment_graph *g = s->g;
    int32_t n = s->task_count, head = 0, tail = 0;
    memcpy(s->left, s->waits, sizeof *s->left * (size_t)n);
    memset(s->start_ns, 0, sizeof *s->start_ns * (size_t)n);
    for (int32_t t = 0; t < n; t++) {
        s->cause[t] = NONE;
        if (s->place[t] > 0) s->left[t]++;
    }
    for (int32_t t = 0; t < n; t++)
        if (s->left[t] == 0) s->queue[tail++] = t;
    int64_t makespan = 0;
    while (head < tail) {
        int32_t t = s->queue[head++];
        int64_t free_ns = s->start_ns[t] + s->occupied_ns[t];
        int64_t finish_ns = s->start_ns[t] + s->finish_after_ns[t];
        if (free_ns > makespan) {
            makespan = free_ns;
            *last_task = t;
        }
        if (s->place[t] + 1 < s->per_rank)
            release(s, t, s->order[t % g->rank_count * s->per_rank + s->place[t] + 1], free_ns,
                    &tail);
        for (int32_t k = s->edge_first[t]; k < s->edge_first[t + 1]; k++)
            release(s, t, s->edges[k].task, finish_ns + s->edges[k].lag_ns, &tail);
    }
    return head == n ? makespan : SEGMENT_DEAD_END;
}

static bool fits(const struct state *s, int32_t rank) {
    const int32_t *order = s->order + rank * s->per_rank;
    double live = 0, capacity = s->g->capacity_bytes[rank] * (1 + 1e-12);
    for (int32_t k = 0; k < s->per_rank; k++) {
        const struct segment_pass *p = pass_of(s, order[k]);
        bool back = is_backward(s, order[k]);
        if (!back) live += p->bytes;
        if (live + p->workspace_bytes > capacity) return false;
        if (back) live -= p->bytes;
    }
    return true;
}

/* ---- moves ---- */

/* Takes the task at `from` of the rank to `to`. */
static void move(struct state *s, int32_t rank, int32_t from, int32_t to) {
    int32_t *order = s->order + rank * s->per_rank, task = order[from];
    int32_t step = from < to ? 1 : -1;
    for (int32_t k = from; k != to; k += step) {
        order[k] = order[k + step];
        s->place[order[k]] = k;
    }
    order[to] = task;
    s->place[task] = to;
}

/* The longest path, last task first; how many. */
static int32_t longest_path(const struct state *s, int32_t last, int32_t *path) {
    int32_t count = 0;
    for (int32_t t = last; t != NONE; t = s->cause[t])
        path[count++] = t;
    return count;
}

/* A pair of neighbours of the path on one rank, the earlier at *from; false: none was met. */
static bool choose(struct state *s, const int32_t *path, int32_t count, int32_t *rank,
                   int32_t *from, int32_t *to) {
    int32_t ranks = s->g->rank_count;
    for (int attempt = 0; attempt < 64; attempt++) {
        int32_t k = below(s, count - 1), later = path[k], earlier = path[k + 1];
        if (later % ranks != earlier % ranks || s->place[later] != s->place[earlier] + 1) continue;
        *rank = later % ranks;
        *from = s->place[earlier];
        *to = s->place[later];
        if (below(s, INSERT_OF) > 0) return true;
        /* To a random place of the block: the run of the path on this rank around the pair. */
        int32_t first = k + 1, end = k;
        while (first + 1 < count && path[first + 1] % ranks == *rank)
            first++;
        while (end > 0 && path[end - 1] % ranks == *rank)
            end--;
        int32_t low = s->place[path[first]], high = s->place[path[end]];
        if (below(s, 2) == 0)
            *to = *from + 1 + below(s, high - *from);
        else {
            *from = *to;
            *to = low + below(s, *from - low);
        }
        return *from != *to;
    }
    return false;
}

static double cpu_s(const struct timespec *begin) {
    struct timespec now;
    clock_gettime(CLOCK_PROCESS_CPUTIME_ID, &now);
    return (double)(now.tv_sec - begin->tv_sec) + (double)(now.tv_nsec - begin->tv_nsec) * 1e-9;
}

static void read_schedule(struct state *s, const struct segment_schedule *schedule) {
    for (int32_t r = 0; r < s->g->rank_count; r++) {
        const struct segment_task *tasks = segment_schedule_rank(s->g, schedule, r);
        for (int32_t k = 0; k < s->per_rank; k++) {
            int32_t t = task_of(s, tasks[k].segment, tasks[k].backward, r);
            s->order[r * s->per_rank + k] = t;
            s->place[t] = k;
        }
    }
}

static void write_schedule(const struct state *s, const int32_t *order,
                           struct segment_schedule *schedule) {
    for (int32_t r = 0; r < s->g->rank_count; r++)
        for (int32_t k = 0; k < s->per_rank; k++) {
            int32_t t = order[r * s->per_rank + k];
            segment_schedule_rank(s->g, schedule, r)[k] =
                (struct segment_task){ .segment = segment_of(s, t), .backward = is_backward(s, t) };
        }
    segment_order_time(s->g, schedule);
}

/* ---- the list scheduler ---- */

struct rank_now {
    int64_t free_ns, next_ns;
    int32_t done;
};

/* A micro-batch begins only where all that it keeps has room on every rank, so each can end. */
static bool pass_fits(const struct state *s, int32_t task) {
    if (is_backward(s, task)) return true;
    const struct segment_graph *g = s->g;
    int32_t m = g->micro_batch_of[segment_of(s, task)];
    if (s->begun[m]) return true;
    if (s->asked_at[m] == s->changes) return false;
    for (int32_t r = 0; r < g->rank_count; r++)
        if (s->held_bytes[r] + s->need_bytes[m * g->rank_count + r] > s->room_bytes[r]) {
            s->asked_at[m] = s->changes;
            return false;
        }
    return true;
}

static void hold_memory(struct state *s, int32_t task) {
    const struct segment_graph *g = s->g;
    int32_t m = g->micro_batch_of[segment_of(s, task)];
    s->changes++;
    if (is_backward(s, task)) {
        s->held_bytes[task % g->rank_count] -= pass_of(s, task)->bytes;
    } else if (!s->begun[m]) {
        s->begun[m] = true;
        for (int32_t r = 0; r < g->rank_count; r++)
            s->held_bytes[r] += s->need_bytes[m * g->rank_count + r];
    }
}

static void find_next(const struct state *s, int32_t rank, struct rank_now *now) {
    const int32_t *list = s->waiting + rank * s->per_rank;
    now->next_ns = INT64_MAX;
    for (int32_t i = 0; i < s->waiting_count[rank]; i++) {
        int64_t start = s->ready_ns[list[i]] > now->free_ns ? s->ready_ns[list[i]] : now->free_ns;
        if (start < now->next_ns && pass_fits(s, list[i])) now->next_ns = start;
        if (now->next_ns == now->free_ns) return;
    }
}

/* Takes the pass of the least number that can start at next_ns. */
static int32_t take_next(struct state *s, int32_t rank, const struct rank_now *now) {
    int32_t *list = s->waiting + rank * s->per_rank, best = NONE;
    for (int32_t i = 0; i < s->waiting_count[rank]; i++) {
        if (s->ready_ns[list[i]] > now->next_ns || !pass_fits(s, list[i])) continue;
        if (best == NONE || s->number[list[i] / s->g->rank_count] <
                                s->number[list[best] / s->g->rank_count])
            best = i;
    }
    int32_t task = list[best];
    list[best] = list[--s->waiting_count[rank]];
    return task;
}

/* Fills order and place from the numbers. SEGMENT_DEAD_END: memory is full of unfinished work. */
static int64_t list_schedule(struct state *s) {
    const struct segment_graph *g = s->g;
    struct rank_now now[g->rank_count];
    memset(now, 0, sizeof now);
    memset(s->held_bytes, 0, sizeof *s->held_bytes * (size_t)g->rank_count);
    memset(s->begun, 0, (size_t)g->micro_batch_count);
    memset(s->asked_at, 0, sizeof *s->asked_at * (size_t)g->micro_batch_count);
    s->changes = 1;
    memcpy(s->left, s->waits, sizeof *s->left * (size_t)s->task_count);
    memset(s->ready_ns, 0, sizeof *s->ready_ns * (size_t)s->task_count);
    memset(s->waiting_count, 0, sizeof *s->waiting_count * (size_t)g->rank_count);
    for (int32_t t = 0; t < s->task_count; t++)
        if (s->left[t] == 0) {
            int32_t rank = t % g->rank_count;
            s->waiting[rank * s->per_rank + s->waiting_count[rank]++] = t;
        }
    for (int32_t r = 0; r < g->rank_count; r++)
        find_next(s, r, &now[r]);
    int64_t makespan = 0;
    for (int32_t left = s->task_count; left > 0; left--) {
        int32_t rank = 0;
        for (int32_t r = 1; r < g->rank_count; r++)
            if (now[r].next_ns < now[rank].next_ns) rank = r;
        if (now[rank].next_ns == INT64_MAX) return SEGMENT_DEAD_END;
        int32_t t = take_next(s, rank, &now[rank]);
        int64_t start = now[rank].next_ns, finish = start + s->finish_after_ns[t];
        now[rank].free_ns = start + s->occupied_ns[t];
        if (now[rank].free_ns > makespan) makespan = now[rank].free_ns;
        hold_memory(s, t);
        if (is_backward(s, t) && now[0].next_ns > now[0].free_ns)
            find_next(s, 0, &now[0]); /* another may begin now */
        s->place[t] = now[rank].done;
        s->order[rank * s->per_rank + now[rank].done++] = t;
        for (int32_t k = s->edge_first[t]; k < s->edge_first[t + 1]; k++) {
            int32_t after = s->edges[k].task, other = after % g->rank_count;
            int64_t ready = finish + s->edges[k].lag_ns;
            if (ready > s->ready_ns[after]) s->ready_ns[after] = ready;
            if (--s->left[after] > 0) continue;
            s->waiting[other * s->per_rank + s->waiting_count[other]++] = after;
            if (other != rank) find_next(s, other, &now[other]);
        }
        find_next(s, rank, &now[rank]);
    }
    return makespan;
}

/* ---- annealing ---- */

/* How much of the budget is used, 0 to 1. */
static double used(struct clock *clock, const struct state *s) {
    const struct local_search_options *o = clock->options;
    double elapsed_s = cpu_s(&clock->begin), share = 0;
    if (o->seconds > 0) share = elapsed_s / o->seconds;
    if (o->moves > 0) share = fmax(share, (double)s->tried / (double)o->moves);
    if (o->progress != NULL && share >= clock->next_report) {
        o->progress(elapsed_s, s->tried, s->best_ns);
        clock->next_report += 0.1;
    }
    return fmin(share, 1);
}

static bool accepted(struct state *s, int64_t ns, int64_t now_ns, double share) {
    if (ns == SEGMENT_DEAD_END) return false;
    if (ns <= now_ns) return true;
    double heat = s->mean_ns * HOT * pow(COLD / HOT, share);
    return uniform(s) < exp((double)(now_ns - ns) / heat);
}

static void keep_best(struct state *s, int64_t ns) {
    if (ns >= s->best_ns) return;
    s->best_ns = ns;
    memcpy(s->best, s->order, sizeof *s->order * (size_t)s->task_count);
}

static void anneal_numbers(struct state *s, struct clock *clock, double from, double to) {
    double gap = s->mean_ns, share = 0;
    for (int32_t i = 0; i < s->per_rank; i++) {
        /* As the first schedule has them on the middle rank. */
        int32_t t = i * s->g->rank_count + s->g->rank_count / 2;
        s->number[i] = (double)s->start_ns[t];
    }
    int64_t now_ns = list_schedule(s);
    if (now_ns == SEGMENT_DEAD_END) return;
    keep_best(s, now_ns);
    while (true) {
        if (s->tried++ % CHECK_EVERY == 0) share = (used(clock, s) - from) / (to - from);
        if (share >= 1) return;
        int32_t a = below(s, s->per_rank), b = below(s, s->per_rank);
        double kept = s->number[a], spread = (uniform(s) - 0.5) * gap;
        /* Beside another's number, or somewhat earlier or later. */
        s->number[a] = below(s, 3) == 0 ? s->number[b] + 0.01 * spread
                                        : kept + spread * exp(5 * uniform(s));
        int64_t ns = list_schedule(s);
        if (!accepted(s, ns, now_ns, share)) {
            s->number[a] = kept;
            continue;
        }
        now_ns = ns;
        keep_best(s, ns);
    }
}

static void take_best(struct state *s) {
    memcpy(s->order, s->best, sizeof *s->order * (size_t)s->task_count);
    for (int32_t i = 0; i < s->task_count; i++)
        s->place[s->order[i]] = i % s->per_rank;
}

static void anneal_orders(struct state *s, struct clock *clock, double from, double to) {
    int32_t *path = memory_alloc(sizeof *path * (size_t)s->task_count), last = 0;
    take_best(s);
    int64_t now_ns = time_all(s, &last);
    int32_t length = longest_path(s, last, path);
    double share = 0;
    while (length > 1) {
        if (s->tried++ % CHECK_EVERY == 0) share = (used(clock, s) - from) / (to - from);
        if (share >= 1) break;
        int32_t rank, at, place;
        if (!choose(s, path, length, &rank, &at, &place)) continue;
        move(s, rank, at, place);
        int64_t ns = fits(s, rank) ? time_all(s, &last) : SEGMENT_DEAD_END;
        /* The numbers have found the region: only a little heat. */
        if (!accepted(s, ns, now_ns, 0.4 + 0.6 * share)) {
            move(s, rank, place, at);
            continue; /* the path is that of the state kept */
        }
        now_ns = ns;
        length = longest_path(s, last, path);
        keep_best(s, ns);
    }
    free(path);
}

int64_t local_search(const struct segment_graph *g, const struct local_search_options *options,
                     struct segment_schedule *schedule) {
    struct state s;
    struct clock clock = { .options = options };
    clock_gettime(CLOCK_PROCESS_CPUTIME_ID, &clock.begin);
    state_create(&s, g, options->seed);
    read_schedule(&s, schedule);
    int32_t last = 0;
    s.best_ns = INT64_MAX;
    int64_t first_ns = time_all(&s, &last);
    ballast_check(first_ns != SEGMENT_DEAD_END);
    keep_best(&s, first_ns);
    anneal_numbers(&s, &clock, 0, 0.5);
    anneal_orders(&s, &clock, 0.5, 1);
    write_schedule(&s, s.best, schedule);
    ballast_check(schedule->makespan_ns == s.best_ns);
    int64_t tried = s.tried;
    state_destroy(&s);
    return tried;
}
