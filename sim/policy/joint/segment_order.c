/* segment_order.c - runs per-rank lists of passes, each in its order, as soon as inputs are there;
 * and the lists of the systems that DIP is compared with. */
#include "sim/policy/joint/segment_order.h"

#include <stdlib.h>
#include <string.h>
#include "sim/base/error.h"

/* When the passes of a segment on a rank are done and sent; -1: not yet. */
struct pass_times {
    int64_t forward_finish, forward_sent, backward_sent;
};

struct rank_list {
    int64_t free_ns;
    int32_t done;
};

struct runner {
    const struct segment_graph *graph;
    struct segment_schedule *schedule;
    struct rank_list *ranks;
    struct pass_times *times; /* [segment x rank_count + rank]; owned, and the ranks behind it */
};

static struct runner runner_start(const struct segment_graph *g,
                                  struct segment_schedule *schedule) {
    struct runner r = { .graph = g, .schedule = schedule };
    size_t cells = (size_t)g->segment_count * (size_t)g->rank_count, ranks = (size_t)g->rank_count;
    r.times = memory_alloc(sizeof *r.times * cells + sizeof *r.ranks * ranks);
    r.ranks = (struct rank_list *)(r.times + cells);
    for (size_t i = 0; i < cells; i++)
        r.times[i] = (struct pass_times){ -1, -1, -1 };
    memset(r.ranks, 0, sizeof *r.ranks * ranks);
    return r;
}

/* The latest of the segments' forwards on the last rank, or backwards on the first; -1: not known
 * yet. */
static int64_t latest(const struct runner *r, const int32_t *list, int32_t from, int32_t to,
                      bool backward) {
    int32_t ranks = r->graph->rank_count;
    int64_t most = 0;
    for (int32_t i = from; i < to; i++) {
        const struct pass_times *times = &r->times[(int64_t)list[i] * ranks];
        int64_t value = backward ? times[0].backward_sent : times[ranks - 1].forward_sent;
        if (value < 0) return -1;
        if (value > most) most = value;
    }
    return most;
}

/* When the inputs of a pass are there; -1: not known yet. */
static int64_t ready_ns(const struct runner *r, int32_t rank, int32_t segment, bool backward) {
    const struct segment_graph *g = r->graph;
    const struct pass_times *times = &r->times[(int64_t)segment * g->rank_count + rank];
    if (!backward) {
        if (rank > 0) return times[-1].forward_sent;
        return latest(r, g->predecessors, g->predecessor_first[segment],
                      g->predecessor_first[segment + 1], false);
    }
    /* It also needs its own forward, which other ranks may have passed before. */
    if (times->forward_finish < 0) return -1;
    if (rank + 1 < g->rank_count) return times[1].backward_sent;
    int32_t from = g->successor_first[segment], to = g->successor_first[segment + 1];
    if (from == to) return times->forward_finish;
    return latest(r, g->successors, from, to, true);
}

static void run_task(struct runner *r, int32_t rank, struct segment_task *task, int64_t inputs_ns) {
    const struct segment_graph *g = r->graph;
    struct rank_list *list = &r->ranks[rank];
    const struct segment_pass *pass = segment_graph_pass(g, task->segment, rank);
    struct pass_times *times = &r->times[(int64_t)task->segment * g->rank_count + rank];
    int64_t begin = inputs_ns > list->free_ns ? inputs_ns : list->free_ns;
    int64_t finish = begin + (task->backward ? pass->backward_ns : pass->forward_ns);
    int64_t sent = finish + (task->backward ? pass->send_backward_ns : pass->send_forward_ns);
    list->free_ns = g->send_blocks_compute ? sent : finish;
    list->done++;
    if (task->backward) {
        times->backward_sent = sent;
    } else {
        times->forward_finish = finish;
        times->forward_sent = sent;
    }
    task->start_ns = begin;
    task->finish_ns = finish;
    if (list->free_ns > r->schedule->makespan_ns) r->schedule->makespan_ns = list->free_ns;
}

/* ---- a given order ---- */

int64_t segment_order_passes(const struct segment_graph *g, struct segment_schedule *schedule,
                             int32_t *entries) {
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
                struct segment_task *task = &tasks[list->done];
                int64_t inputs = ready_ns(&r, rank, task->segment, task->backward);
                if (inputs < 0) break;
                run_task(&r, rank, task, inputs);
                if (entries != NULL)
                    *entries++ = 2 * (task->segment * g->rank_count + rank) + task->backward;
                progress = true;
                left--;
            }
        }
    }
    if (left > 0) schedule->makespan_ns = SEGMENT_DEAD_END;
    free(r.times);
    return schedule->makespan_ns;
}

int64_t segment_order_time(const struct segment_graph *g, struct segment_schedule *schedule) {
    return segment_order_passes(g, schedule, NULL);
}

/* ---- orders by rule ---- */

static bool is_encoder(const struct segment_graph *g, int32_t segment) {
    for (int32_t i = g->successor_first[segment]; i < g->successor_first[segment + 1]; i++) {
        int32_t next = g->successors[i];
        if (g->class_of[next] != g->class_of[segment] || is_encoder(g, next)) return true;
    }
    return false;
}

/* Segments sorted by (micro-batch, row): those of a slot are slots[first[micro x rows + row]
 * ...]. */
struct slot_table {
    const struct segment_graph *graph;
    int32_t rows, first_row; /* rows below first_row are not part of the order */
    int32_t *first, *segments;
};

static struct slot_table slots_create(const struct segment_graph *g, const int32_t *level_of) {
    struct slot_table t = { .graph = g };
    for (int32_t s = 0; s < g->segment_count; s++)
        if (level_of[s] >= t.rows) t.rows = level_of[s] + 1;
    size_t slots = (size_t)g->micro_batch_count * (size_t)t.rows;
    t.first = memory_alloc(sizeof *t.first * (slots + 2));
    memset(t.first, 0, sizeof *t.first * (slots + 2));
    t.segments = memory_alloc(sizeof *t.segments * (size_t)(g->segment_count + 1));
    /* Counts two places ahead, so that filling leaves the starts. */
    for (int32_t s = 0; s < g->segment_count; s++)
        t.first[g->micro_batch_of[s] * t.rows + level_of[s] + 2]++;
    for (size_t i = 2; i < slots + 2; i++)
        t.first[i] += t.first[i - 1];
    for (int32_t s = 0; s < g->segment_count; s++)
        t.segments[t.first[g->micro_batch_of[s] * t.rows + level_of[s] + 1]++] = s;
    return t;
}

static void slots_destroy(struct slot_table *t) {
    free(t->first);
    free(t->segments);
}

static struct segment_task *add_slot(const struct slot_table *t, int32_t micro_batch, int32_t row,
                                     bool backward, struct segment_task *at) {
    if (micro_batch >= t->graph->micro_batch_count) return at;
    int32_t slot = micro_batch * t->rows + row;
    for (int32_t i = t->first[slot]; i < t->first[slot + 1]; i++)
        *at++ = (struct segment_task){ .segment = t->segments[i], .backward = backward };
    return at;
}

/* The n-th pass of a rank as interleaved.c counts them, rows from first_row. */
static struct segment_task *add_nth(const struct slot_table *t, int64_t n, bool backward,
                                    struct segment_task *at) {
    int32_t ranks = t->graph->rank_count, rows = t->rows - t->first_row, round = ranks * rows;
    int32_t row = (int32_t)(n % round) / ranks;
    int32_t micro_batch = (int32_t)(n / round) * ranks + (int32_t)(n % ranks);
    if (backward) row = rows - 1 - row;
    return add_slot(t, micro_batch, t->first_row + row, backward, at);
}

enum { MEGATRON_LEAD = 2 };

static struct segment_task *add_interleaved(const struct slot_table *t, int32_t rank, int64_t lead,
                                            struct segment_task *at) {
    int32_t ranks = t->graph->rank_count, rows = t->rows - t->first_row;
    int64_t rounds = (t->graph->micro_batch_count + ranks - 1) / ranks;
    int64_t total = rounds * ranks * rows, forward = 0, backward = 0;
    /* One row: plain 1F1B. */
    int64_t ahead = rows == 1 ? ranks - 1 - rank : lead * (ranks - 1 - rank) + (rows - 1) * ranks;
    while (forward < ahead && forward < total)
        at = add_nth(t, forward++, false, at);
    while (forward < total) {
        at = add_nth(t, forward++, false, at);
        at = add_nth(t, backward++, true, at);
    }
    while (backward < total)
        at = add_nth(t, backward++, true, at);
    return at;
}

int64_t segment_order_fixed(const struct segment_graph *g, const int32_t *level_of, int64_t lead,
                            struct segment_schedule *schedule) {
    struct slot_table t = slots_create(g, level_of);
    for (int32_t rank = 0; rank < g->rank_count; rank++)
        add_interleaved(&t, rank, lead, segment_schedule_rank(g, schedule, rank));
    slots_destroy(&t);
    return segment_order_time(g, schedule);
}

static struct segment_task *add_micro_batch(const struct slot_table *t, int32_t micro_batch,
                                            bool backward, struct segment_task *at) {
    for (int32_t i = 0; i < t->rows; i++)
        at = add_slot(t, micro_batch, backward ? t->rows - 1 - i : i, backward, at);
    return at;
}

int64_t segment_order_whole(const struct segment_graph *g, const int32_t *level_of,
                            struct segment_schedule *schedule) {
    struct slot_table t = slots_create(g, level_of);
    for (int32_t rank = 0; rank < g->rank_count; rank++) {
        struct segment_task *at = segment_schedule_rank(g, schedule, rank);
        int32_t ahead = g->rank_count - 1 - rank, last = g->micro_batch_count;
        for (int32_t m = 0; m < ahead && m < last; m++)
            at = add_micro_batch(&t, m, false, at);
        for (int32_t m = 0; m < last; m++) {
            at = add_micro_batch(&t, m + ahead, false, at); /* none after the last */
            at = add_micro_batch(&t, m, true, at);
        }
    }
    slots_destroy(&t);
    return segment_order_time(g, schedule);
}

/* Rows of encoders come first, as modules do. */
static int32_t encoder_rows(const struct segment_graph *g, const int32_t *level_of) {
    int32_t rows = 0;
    for (int32_t s = 0; s < g->segment_count; s++)
        if (is_encoder(g, s) && level_of[s] >= rows) rows = level_of[s] + 1;
    return rows;
}

int64_t segment_order_encoders_first(const struct segment_graph *g, const int32_t *level_of,
                                     struct segment_schedule *schedule) {
    struct slot_table t = slots_create(g, level_of);
    t.first_row = encoder_rows(g, level_of);
    for (int32_t rank = 0; rank < g->rank_count; rank++) {
        struct segment_task *at = segment_schedule_rank(g, schedule, rank);
        for (int32_t row = 0; row < t.first_row; row++)
            for (int32_t m = 0; m < g->micro_batch_count; m++)
                at = add_slot(&t, m, row, false, at);
        at = add_interleaved(&t, rank, MEGATRON_LEAD, at);
        for (int32_t row = t.first_row - 1; row >= 0; row--)
            for (int32_t m = 0; m < g->micro_batch_count; m++)
                at = add_slot(&t, m, row, true, at);
    }
    slots_destroy(&t);
    return segment_order_time(g, schedule);
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
