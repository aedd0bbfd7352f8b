/* segment_order.c - runs per-rank lists of passes, each in its order, as soon as inputs are there. */
#include "sim/policy/joint/segment_order.h"

#include <stdlib.h>
#include <string.h>
#include "sim/base/error.h"

/* What a rank will run: two lists whose heads compete, or one list (`forwards` alone). */
struct rank_list {
    const int32_t *forwards, *backwards;
    int32_t forward_count, backward_count, forward_at, backward_at;
    int32_t warm_up; /* forwards before the first backward */
    bool last_backward;
    int64_t free_ns;
    int32_t done;
};

struct runner {
    const struct segment_graph *graph;
    struct segment_schedule *schedule;
    struct rank_list *ranks;
    int64_t *forward_finish, *forward_sent, *backward_sent; /* by segment x rank; -1: not yet */
};

static int64_t *cells(const struct segment_graph *g) {
    size_t count = (size_t)g->segment_count * (size_t)g->rank_count;
    int64_t *values = memory_alloc(sizeof *values * count);
    for (size_t i = 0; i < count; i++)
        values[i] = -1;
    return values;
}

static struct runner runner_start(const struct segment_graph *g,
                                  struct segment_schedule *schedule) {
    struct runner r = { .graph = g, .schedule = schedule };
    r.ranks = memory_alloc(sizeof *r.ranks * (size_t)g->rank_count);
    memset(r.ranks, 0, sizeof *r.ranks * (size_t)g->rank_count);
    r.forward_finish = cells(g);
    r.forward_sent = cells(g);
    r.backward_sent = cells(g);
    return r;
}

static void runner_end(struct runner *r) {
    free(r->ranks);
    free(r->forward_finish);
    free(r->forward_sent);
    free(r->backward_sent);
}

static int64_t latest(const int32_t *list, int32_t from, int32_t to, const int64_t *sent,
                      int32_t ranks, int32_t rank) {
    int64_t most = 0;
    for (int32_t i = from; i < to; i++) {
        int64_t value = sent[(int64_t)list[i] * ranks + rank];
        if (value < 0) return -1;
        if (value > most) most = value;
    }
    return most;
}

/* When the inputs of a pass are there; -1: not known yet. */
static int64_t ready_ns(const struct runner *r, int32_t rank, int32_t segment, bool backward) {
    const struct segment_graph *g = r->graph;
    int64_t cell = (int64_t)segment * g->rank_count + rank;
    if (!backward) {
        if (rank > 0) return r->forward_sent[cell - 1];
        return latest(g->predecessors, g->predecessor_first[segment],
                      g->predecessor_first[segment + 1], r->forward_sent, g->rank_count,
                      g->rank_count - 1);
    }
    if (rank + 1 < g->rank_count) {
        /* It also needs its own forward, which other ranks may have passed before. */
        return r->forward_finish[cell] < 0 ? -1 : r->backward_sent[cell + 1];
    }
    if (r->forward_finish[cell] < 0) return -1;
    int32_t from = g->successor_first[segment], to = g->successor_first[segment + 1];
    if (from == to) return r->forward_finish[cell];
    return latest(g->successors, from, to, r->backward_sent, g->rank_count, 0);
}

static void run_task(struct runner *r, int32_t rank, int32_t segment, bool backward,
                     int64_t inputs_ns) {
    const struct segment_graph *g = r->graph;
    struct rank_list *list = &r->ranks[rank];
    const struct segment_pass *pass = segment_graph_pass(g, segment, rank);
    int64_t begin = inputs_ns > list->free_ns ? inputs_ns : list->free_ns;
    int64_t finish = begin + (backward ? pass->backward_ns : pass->forward_ns);
    int64_t sent = finish + (backward ? pass->send_backward_ns : pass->send_forward_ns);
    list->free_ns = g->send_blocks_compute ? sent : finish;
    list->last_backward = backward;
    int64_t cell = (int64_t)segment * g->rank_count + rank;
    if (backward) {
        r->backward_sent[cell] = sent;
    } else {
        r->forward_finish[cell] = finish;
        r->forward_sent[cell] = sent;
    }
    segment_schedule_rank(g, r->schedule, rank)[list->done++] =
        (struct segment_task){ segment, backward, begin, finish };
    if (list->free_ns > r->schedule->makespan_ns) r->schedule->makespan_ns = list->free_ns;
}

/* ---- a given order ---- */

int64_t segment_order_time(const struct segment_graph *g, struct segment_schedule *schedule) {
    struct runner r = runner_start(g, schedule);
    schedule->makespan_ns = 0;
    bool progress = true;
    int64_t left = segment_schedule_size(g);
    while (progress) {
        progress = false;
        for (int32_t rank = 0; rank < g->rank_count; rank++) {
            struct segment_task *tasks = segment_schedule_rank(g, schedule, rank);
            struct rank_list *list = &r.ranks[rank];
            while (list->done < 2 * g->segment_count) {
                struct segment_task task = tasks[list->done];
                int64_t inputs = ready_ns(&r, rank, task.segment, task.backward);
                if (inputs < 0) break;
                run_task(&r, rank, task.segment, task.backward, inputs);
                progress = true;
                left--;
            }
        }
    }
    if (left > 0) schedule->makespan_ns = SEGMENT_DEAD_END;
    runner_end(&r);
    return schedule->makespan_ns;
}

/* ---- two lists a rank ---- */

static bool wants_backward(const struct rank_list *list) {
    if (list->forward_at == list->forward_count) return true;
    if (list->backward_at == list->backward_count || list->forward_at < list->warm_up) return false;
    return list->forward_at > list->warm_up && !list->last_backward;
}

static bool run_head(struct runner *r, int32_t rank, bool backward) {
    struct rank_list *list = &r->ranks[rank];
    int32_t *at = backward ? &list->backward_at : &list->forward_at;
    if (*at == (backward ? list->backward_count : list->forward_count)) return false;
    int32_t segment = backward ? list->backwards[*at] : list->forwards[*at];
    int64_t inputs = ready_ns(r, rank, segment, backward);
    if (inputs < 0) return false;
    (*at)++;
    run_task(r, rank, segment, backward, inputs);
    return true;
}

static bool run_freely(struct runner *r) {
    bool any = false;
    for (bool progress = true; progress;) {
        progress = false;
        for (int32_t rank = 0; rank < r->graph->rank_count; rank++) {
            struct rank_list *list = &r->ranks[rank];
            while (list->done < 2 * r->graph->segment_count &&
                   run_head(r, rank, wants_backward(list)))
                progress = any = true;
        }
    }
    return any;
}

/* Runs out of turn what can run on the rank that has waited longest. */
static bool break_tie(struct runner *r) {
    for (int kind = 0; kind < 2; kind++) {
        int32_t best = -1;
        for (int32_t rank = 0; rank < r->graph->rank_count; rank++) {
            struct rank_list *list = &r->ranks[rank];
            bool backward = kind == 1;
            int32_t at = backward ? list->backward_at : list->forward_at;
            if (at == (backward ? list->backward_count : list->forward_count)) continue;
            int32_t segment = backward ? list->backwards[at] : list->forwards[at];
            if (ready_ns(r, rank, segment, backward) < 0) continue;
            if (best < 0 || list->free_ns < r->ranks[best].free_ns) best = rank;
        }
        if (best >= 0) return run_head(r, best, kind == 1);
    }
    return false;
}

static int64_t run_lists(struct runner *r) {
    int64_t left = 0;
    r->schedule->makespan_ns = 0;
    for (;;) {
        run_freely(r);
        if (!break_tie(r)) break;
    }
    for (int32_t rank = 0; rank < r->graph->rank_count; rank++)
        left += 2 * r->graph->segment_count - r->ranks[rank].done;
    if (left > 0) r->schedule->makespan_ns = SEGMENT_DEAD_END;
    return r->schedule->makespan_ns;
}

/* Segments in the order of (round, row, number), or with rows from the last down. */
static void list_rounds(const struct segment_graph *g, const int32_t *level_of, bool down,
                        int32_t *list) {
    int32_t levels = 0, at = 0;
    for (int32_t s = 0; s < g->segment_count; s++)
        if (level_of[s] >= levels) levels = level_of[s] + 1;
    int32_t rounds = (g->micro_batch_count + g->rank_count - 1) / g->rank_count;
    for (int32_t round = 0; round < rounds; round++)
        for (int32_t i = 0; i < levels; i++)
            for (int32_t s = 0; s < g->segment_count; s++)
                if (g->micro_batch_of[s] / g->rank_count == round &&
                    level_of[s] == (down ? levels - 1 - i : i))
                    list[at++] = s;
    ballast_check(at == g->segment_count);
}

static int32_t before_last_row(const struct segment_graph *g, const int32_t *level_of) {
    int32_t last = 0, count = 0;
    for (int32_t s = 0; s < g->segment_count; s++)
        if (level_of[s] > last) last = level_of[s];
    for (int32_t s = 0; s < g->segment_count; s++)
        count += g->micro_batch_of[s] < g->rank_count && level_of[s] < last;
    return count;
}

int64_t segment_order_fixed(const struct segment_graph *g, const int32_t *level_of,
                            struct segment_schedule *schedule) {
    int32_t *forwards = memory_alloc(sizeof *forwards * (size_t)g->segment_count);
    int32_t *backwards = memory_alloc(sizeof *backwards * (size_t)g->segment_count);
    list_rounds(g, level_of, false, forwards);
    list_rounds(g, level_of, true, backwards);
    int32_t lead = before_last_row(g, level_of);
    struct runner r = runner_start(g, schedule);
    for (int32_t rank = 0; rank < g->rank_count; rank++)
        r.ranks[rank] = (struct rank_list){ .forwards = forwards,
                                            .backwards = backwards,
                                            .forward_count = g->segment_count,
                                            .backward_count = g->segment_count,
                                            .warm_up = lead + g->rank_count - 1 - rank };
    int64_t makespan = run_lists(&r);
    runner_end(&r);
    free(forwards);
    free(backwards);
    return makespan;
}

static bool is_encoder(const struct segment_graph *g, int32_t segment) {
    for (int32_t i = g->successor_first[segment]; i < g->successor_first[segment + 1]; i++) {
        int32_t next = g->successors[i];
        if (g->class_of[next] != g->class_of[segment] || is_encoder(g, next)) return true;
    }
    return false;
}

/* Encoder segments row by row; from the last row up for backwards. Returns how many. */
static int32_t list_encoders(const struct segment_graph *g, const int32_t *level_of, bool down,
                             int32_t *list) {
    int32_t levels = 0, at = 0;
    for (int32_t s = 0; s < g->segment_count; s++)
        if (level_of[s] >= levels) levels = level_of[s] + 1;
    for (int32_t i = 0; i < levels; i++)
        for (int32_t s = 0; s < g->segment_count; s++)
            if (is_encoder(g, s) && level_of[s] == (down ? levels - 1 - i : i)) list[at++] = s;
    return at;
}

/* Moves what is no encoder from the rounds behind `at`. */
static void append_others(const struct segment_graph *g, const int32_t *rounds, int32_t *list,
                          int32_t at) {
    for (int32_t i = 0; i < g->segment_count; i++)
        if (!is_encoder(g, rounds[i])) list[at++] = rounds[i];
}

int64_t segment_order_encoders_first(const struct segment_graph *g, const int32_t *level_of,
                                     struct segment_schedule *schedule) {
    size_t count = (size_t)g->segment_count;
    int32_t *forwards = memory_alloc(sizeof *forwards * count);
    int32_t *backwards = memory_alloc(sizeof *backwards * count);
    int32_t *rounds = memory_alloc(sizeof *rounds * count);
    int32_t encoders = list_encoders(g, level_of, false, forwards);
    list_rounds(g, level_of, false, rounds);
    append_others(g, rounds, forwards, encoders);
    list_rounds(g, level_of, true, rounds);
    append_others(g, rounds, backwards, 0);
    list_encoders(g, level_of, true, backwards + g->segment_count - encoders);
    int32_t lead = encoders + before_last_row(g, level_of);
    for (int32_t s = 0; s < g->segment_count; s++)
        lead -= is_encoder(g, s) && g->micro_batch_of[s] < g->rank_count;
    struct runner r = runner_start(g, schedule);
    for (int32_t rank = 0; rank < g->rank_count; rank++)
        r.ranks[rank] = (struct rank_list){ .forwards = forwards,
                                            .backwards = backwards,
                                            .forward_count = g->segment_count,
                                            .backward_count = g->segment_count,
                                            .warm_up = lead + g->rank_count - 1 - rank };
    int64_t makespan = run_lists(&r);
    runner_end(&r);
    free(forwards);
    free(backwards);
    free(rounds);
    return makespan;
}

double segment_order_peak_bytes(const struct segment_graph *g,
                                const struct segment_schedule *schedule, int64_t rank) {
    const struct segment_task *tasks = segment_schedule_rank(g, schedule, rank);
    double live = 0, peak = 0;
    for (int32_t i = 0; i < 2 * g->segment_count; i++) {
        const struct segment_pass *pass = segment_graph_pass(g, tasks[i].segment, rank);
        if (!tasks[i].backward) live += pass->bytes;
        if (live + pass->workspace_bytes > peak) peak = live + pass->workspace_bytes;
        if (tasks[i].backward) live -= pass->bytes;
    }
    return peak;
}
