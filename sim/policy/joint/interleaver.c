/* interleaver.c - the dual-queue algorithm (DIP, section 5.2) and orders that are given.
 *
 * Segments are numbered by urgency (position) for a run, so that a queue of ready passes is a bit
 * set whose lowest bit is the most urgent one. Passes whose inputs arrive later stand in a short
 * list beside it. Ranks are served in the order of the start of their next pass; whatever runs
 * afterwards on another rank starts no earlier, so a decision never sees the future.
 *
 * Where the paper leaves a choice: "ready" means start <= end of the rank's last pass; of ready
 * passes of one kind the most urgent runs, not the oldest; of passes that are not ready the
 * earliest, then the backward, then the more urgent. The reserve for one micro-batch is ours:
 * without it the forwards of many micro-batches fill a rank, and none can finish.
 *
 * On a full rank nearly every ready forward is refused again and again. A refusal holds until a
 * backward of the rank frees memory, and for every forward that is no smaller and whose micro-batch
 * is no more urgent (both follow from the sums in can_finish(), which are exact: bytes are whole
 * numbers); the least such refusals are kept, and where among the ready forwards the search for one
 * that fits goes on.
 *
 * A run with a limit ends as soon as what must follow a pass (segment_tail.h) says that it is too
 * long.
 */
#include "sim/policy/joint/interleaver.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>
#include "sim/base/error.h"
#include "sim/policy/joint/segment_tail.h"

struct arrival {
    int64_t ready_ns;
    int32_t position;
};

enum { FORWARD, BACKWARD };

/* A forward of `bytes` in the micro-batch at `place` of micro_order did not fit. */
struct refusal {
    int32_t place;
    double bytes;
};
enum { REFUSAL_LIMIT = 8 };

struct queue {
    uint64_t *ready; /* bit set over positions */
    int32_t ready_count;
    /* Forwards, where memory is short: none before `from` fits until a backward of the rank, and
     * `known` (-1: none) does until one of its passes. */
    int32_t from, known;
    struct arrival *later;
    int32_t later_count;
    int64_t soonest_ns; /* of those in `later`; INT64_MAX: none */
};

struct rank_state {
    struct queue queue[2];
    int64_t free_ns; /* end of the last pass, with its blocking send */
    int64_t left_ns; /* with a limit: its passes to come and the least that follows its last one */
    bool last_backward, checks_memory;
    double live_bytes;
    int32_t head; /* index into micro_order: the first that has not finished on this rank */
    int32_t done;
    int32_t refusal_count; /* since the last backward */
    struct refusal refusals[REFUSAL_LIMIT];
};

struct interleaver {
    const struct segment_graph *graph;
    int32_t words;
    enum interleaver_turn turn;
    struct rank_state *ranks;
    int64_t *next_ns; /* by rank: start of the next pass; INT64_MAX: none can run */
    int32_t *position_of, *segment_at;
    int32_t *forward_waits, *backward_waits; /* by segment: predecessors, successors to go */
    int64_t *forward_ready, *backward_ready; /* latest of their arrivals so far */
    int32_t *micro_order;                    /* micro-batches, most urgent first */
    int32_t *micro_place;                    /* by micro-batch: its index there */
    bool *micro_seen;
    double *need_bytes;    /* [rank x micro_batches + m]: forwards to come */
    double *live_bytes;    /* the same: forwards whose backward is to come */
    int32_t *unfinished;   /* the same: backwards to come */
    double *need_at_start; /* need_bytes and unfinished before the first pass */
    int32_t *unfinished_at_start;
    double *room; /* by rank: for live activations, beside the largest workspace; whole bytes */
    double *most_need;          /* by rank: of any micro-batch, all its forwards to come */
    bool *tight;                /* by rank: all activations together do not fit */
    void *block;                /* everything above */
    struct segment_tails tails; /* owned, one block; NULL until a run has a limit */
};

static void *take(char **at, size_t bytes) {
    void *here = *at;
    *at += (bytes + 15) / 16 * 16;
    return here;
}

static void measure_memory(struct interleaver *x) {
    const struct segment_graph *g = x->graph;
    for (int32_t r = 0; r < g->rank_count; r++) {
        double sum = 0, workspace = 0;
        for (int32_t s = 0; s < g->segment_count; s++) {
            const struct segment_pass *pass = segment_graph_pass(g, s, r);
            int64_t cell = (int64_t)r * g->micro_batch_count + g->micro_batch_of[s];
            sum += pass->bytes;
            if (pass->workspace_bytes > workspace) workspace = pass->workspace_bytes;
            x->need_at_start[cell] += pass->bytes;
            x->unfinished_at_start[cell]++;
        }
        for (int32_t m = 0; m < g->micro_batch_count; m++) {
            double need = x->need_at_start[(int64_t)r * g->micro_batch_count + m];
            if (need > x->most_need[r]) x->most_need[r] = need;
        }
        x->room[r] = floor(g->capacity_bytes[r]) - workspace;
        x->tight[r] = sum > x->room[r];
    }
}

struct interleaver *interleaver_create(const struct segment_graph *g) {
    struct interleaver *x = memory_alloc(sizeof *x);
    *x = (struct interleaver){ .graph = g, .words = (g->segment_count + 63) / 64 };
    size_t ranks = (size_t)g->rank_count, segments = (size_t)g->segment_count;
    size_t micro = (size_t)g->micro_batch_count, words = (size_t)x->words;
    size_t per_queue = words * 8 + segments * sizeof(struct arrival) + 64;
    size_t bytes = ranks * (sizeof(struct rank_state) + 2 * per_queue) +
                   segments * (4 * sizeof(int32_t) + 2 * sizeof(int64_t)) + micro * 12 +
                   ranks * micro * (3 * sizeof(double) + 2 * sizeof(int32_t)) + ranks * 25 +
                   16 * 64;
    x->block = memory_alloc(bytes);
    memset(x->block, 0, bytes);
    char *at = x->block;
    x->ranks = take(&at, ranks * sizeof *x->ranks);
    for (size_t r = 0; r < ranks; r++)
        for (int q = 0; q < 2; q++) {
            x->ranks[r].queue[q].ready = take(&at, words * 8);
            x->ranks[r].queue[q].later = take(&at, segments * sizeof(struct arrival));
        }
    x->next_ns = take(&at, ranks * sizeof(int64_t));
    x->forward_ready = take(&at, segments * sizeof(int64_t));
    x->backward_ready = take(&at, segments * sizeof(int64_t));
    x->position_of = take(&at, segments * sizeof(int32_t));
    x->segment_at = take(&at, segments * sizeof(int32_t));
    x->forward_waits = take(&at, segments * sizeof(int32_t));
    x->backward_waits = take(&at, segments * sizeof(int32_t));
    x->need_bytes = take(&at, ranks * micro * sizeof(double));
    x->live_bytes = take(&at, ranks * micro * sizeof(double));
    x->need_at_start = take(&at, ranks * micro * sizeof(double));
    x->unfinished = take(&at, ranks * micro * sizeof(int32_t));
    x->unfinished_at_start = take(&at, ranks * micro * sizeof(int32_t));
    x->micro_order = take(&at, micro * sizeof(int32_t));
    x->micro_place = take(&at, micro * sizeof(int32_t));
    x->micro_seen = take(&at, micro);
    x->room = take(&at, ranks * sizeof(double));
    x->most_need = take(&at, ranks * sizeof(double));
    x->tight = take(&at, ranks);
    ballast_check(at <= (char *)x->block + bytes);
    measure_memory(x);
    return x;
}

void interleaver_destroy(struct interleaver *x) {
    if (x == NULL) return;
    free(x->block);
    free(x->tails.forward_ns);
    free(x);
}

/* ---- queues ---- */

static inline void add_ready(struct queue *q, int32_t position) {
    q->ready[position >> 6] |= UINT64_C(1) << (position & 63);
    q->ready_count++;
    if (position < q->from) q->from = position;
}

static inline void drop_ready(struct queue *q, int32_t position) {
    q->ready[position >> 6] &= ~(UINT64_C(1) << (position & 63));
    q->ready_count--;
}

static inline void add_later(struct queue *q, int32_t position, int64_t ready_ns) {
    q->later[q->later_count++] = (struct arrival){ ready_ns, position };
    if (ready_ns < q->soonest_ns) q->soonest_ns = ready_ns;
}

static inline void find_soonest(struct queue *q) {
    q->soonest_ns = INT64_MAX;
    for (int32_t i = 0; i < q->later_count; i++)
        if (q->later[i].ready_ns < q->soonest_ns) q->soonest_ns = q->later[i].ready_ns;
}

static inline void promote(struct queue *q, int64_t now_ns) {
    if (q->soonest_ns > now_ns) return;
    q->soonest_ns = INT64_MAX;
    for (int32_t i = 0; i < q->later_count;) {
        struct arrival arrival = q->later[i];
        if (arrival.ready_ns <= now_ns) {
            add_ready(q, arrival.position);
            q->later[i] = q->later[--q->later_count];
            continue;
        }
        if (arrival.ready_ns < q->soonest_ns) q->soonest_ns = arrival.ready_ns;
        i++;
    }
}

/* The most urgent ready pass at or after `from`, or -1. */
static inline int32_t first_ready(const struct queue *q, int32_t words, int32_t from) {
    int32_t word = from >> 6;
    if (word >= words) return -1;
    uint64_t bits = q->ready[word] & (~UINT64_C(0) << (from & 63));
    while (bits == 0) {
        if (++word == words) return -1;
        bits = q->ready[word];
    }
    return word * 64 + __builtin_ctzll(bits);
}

/* ---- memory ---- */

/* Banker's rule: with this forward run, the unfinished micro-batches could still be finished one
 * after another, most urgent first. The same order holds on all ranks, so the first of them can
 * always go on, and there is no dead end while each fits alone. */
static bool can_finish(const struct interleaver *x, int32_t rank, int32_t segment) {
    const struct segment_graph *g = x->graph;
    const struct rank_state *state = &x->ranks[rank];
    const double *need = x->need_bytes + (int64_t)rank * g->micro_batch_count;
    const double *live = x->live_bytes + (int64_t)rank * g->micro_batch_count;
    double own = segment_graph_pass(g, segment, rank)->bytes;
    double room = x->room[rank] - state->live_bytes - own;
    if (room < 0) return false;
    double held = state->live_bytes + own, enough = x->most_need[rank];
    for (int32_t i = state->head; i < g->micro_batch_count && held > 0 && room < enough; i++) {
        int32_t m = x->micro_order[i];
        if (x->unfinished[(int64_t)rank * g->micro_batch_count + m] == 0) continue;
        double mine = m == g->micro_batch_of[segment] ? own : 0;
        if (need[m] - mine > room) return false;
        room += live[m] + mine;
        held -= live[m] + mine;
    }
    return true;
}

static bool fits(struct interleaver *x, int32_t rank, int32_t segment) {
    const struct segment_graph *g = x->graph;
    struct rank_state *state = &x->ranks[rank];
    struct refusal own = { x->micro_place[g->micro_batch_of[segment]],
                           segment_graph_pass(g, segment, rank)->bytes };
    for (int32_t i = 0; i < state->refusal_count; i++)
        if (own.place >= state->refusals[i].place && own.bytes >= state->refusals[i].bytes)
            return false;
    if (can_finish(x, rank, segment)) return true;
    int32_t kept = 0;
    for (int32_t i = 0; i < state->refusal_count; i++)
        if (state->refusals[i].place < own.place || state->refusals[i].bytes < own.bytes)
            state->refusals[kept++] = state->refusals[i];
    if (kept < REFUSAL_LIMIT) state->refusals[kept++] = own;
    state->refusal_count = kept;
    return false;
}

/* The most urgent ready forward that fits, or -1. */
static int32_t ready_forward(struct interleaver *x, int32_t rank) {
    struct rank_state *state = &x->ranks[rank];
    struct queue *q = &state->queue[FORWARD];
    if (!state->checks_memory) return first_ready(q, x->words, 0);
    int32_t position = first_ready(q, x->words, q->from);
    while (position >= 0 && position != q->known && !fits(x, rank, x->segment_at[position]))
        position = first_ready(q, x->words, position + 1);
    q->from = position >= 0 ? position : x->words * 64;
    q->known = position;
    return position;
}

/* When the first of the forwards that fit and are not ready is, if before limit_ns; else that. */
static int64_t earliest_forward(struct interleaver *x, int32_t rank, int64_t limit_ns) {
    const struct rank_state *state = &x->ranks[rank];
    const struct queue *q = &state->queue[FORWARD];
    int64_t least = limit_ns;
    if (q->soonest_ns >= limit_ns) return limit_ns;
    if (!state->checks_memory) return q->soonest_ns;
    for (int32_t i = 0; i < q->later_count; i++)
        if (q->later[i].ready_ns < least && fits(x, rank, x->segment_at[q->later[i].position]))
            least = q->later[i].ready_ns;
    return least;
}

static void set_next(struct interleaver *x, int32_t rank) {
    struct rank_state *state = &x->ranks[rank];
    struct queue *forward = &state->queue[FORWARD], *backward = &state->queue[BACKWARD];
    if (backward->ready_count > 0 ||
        (forward->ready_count > 0 && (!state->checks_memory || ready_forward(x, rank) >= 0))) {
        x->next_ns[rank] = state->free_ns;
        return;
    }
    int64_t next = earliest_forward(x, rank, backward->soonest_ns);
    x->next_ns[rank] = next == INT64_MAX || next > state->free_ns ? next : state->free_ns;
}

/* ---- one pass ---- */

static inline void arrive(struct interleaver *x, int32_t rank, int queue, int32_t segment,
                          int64_t ready_ns) {
    struct rank_state *state = &x->ranks[rank];
    struct queue *q = &state->queue[queue];
    int32_t position = x->position_of[segment];
    if (ready_ns <= state->free_ns)
        add_ready(q, position);
    else
        add_later(q, position, ready_ns);
    if (queue == FORWARD && state->checks_memory) {
        set_next(x, rank);
        return;
    }
    int64_t start = ready_ns > state->free_ns ? ready_ns : state->free_ns;
    if (start < x->next_ns[rank]) x->next_ns[rank] = start;
}

static void leave_forward(struct interleaver *x, int32_t rank, int32_t segment, int64_t sent_ns,
                          int64_t finish_ns) {
    const struct segment_graph *g = x->graph;
    if (rank + 1 < g->rank_count) {
        arrive(x, rank + 1, FORWARD, segment, sent_ns);
        return;
    }
    int32_t from = g->successor_first[segment], to = g->successor_first[segment + 1];
    if (from == to) arrive(x, rank, BACKWARD, segment, finish_ns);
    for (int32_t i = from; i < to; i++) {
        int32_t next = g->successors[i];
        if (sent_ns > x->forward_ready[next]) x->forward_ready[next] = sent_ns;
        if (--x->forward_waits[next] == 0) arrive(x, 0, FORWARD, next, x->forward_ready[next]);
    }
}

static void leave_backward(struct interleaver *x, int32_t rank, int32_t segment, int64_t sent_ns) {
    const struct segment_graph *g = x->graph;
    if (rank > 0) {
        arrive(x, rank - 1, BACKWARD, segment, sent_ns);
        return;
    }
    for (int32_t i = g->predecessor_first[segment]; i < g->predecessor_first[segment + 1]; i++) {
        int32_t next = g->predecessors[i];
        if (sent_ns > x->backward_ready[next]) x->backward_ready[next] = sent_ns;
        if (--x->backward_waits[next] == 0)
            arrive(x, g->rank_count - 1, BACKWARD, next, x->backward_ready[next]);
    }
}

static void account(struct interleaver *x, int32_t rank, int32_t segment, bool backward) {
    const struct segment_graph *g = x->graph;
    struct rank_state *state = &x->ranks[rank];
    if (!state->checks_memory) return;
    state->queue[FORWARD].known = -1;
    const struct segment_pass *pass = segment_graph_pass(g, segment, rank);
    int64_t row = (int64_t)rank * g->micro_batch_count, cell = row + g->micro_batch_of[segment];
    if (!backward) {
        state->live_bytes += pass->bytes;
        x->need_bytes[cell] -= pass->bytes;
        x->live_bytes[cell] += pass->bytes;
        return;
    }
    state->live_bytes -= pass->bytes;
    state->refusal_count = 0;
    state->queue[FORWARD].from = 0;
    x->live_bytes[cell] -= pass->bytes;
    x->unfinished[cell]--;
    while (state->head < g->micro_batch_count &&
           x->unfinished[row + x->micro_order[state->head]] == 0)
        state->head++;
}

/* The sends of a pass take the rank's time where they block it. */
static int64_t run_pass(struct interleaver *x, int32_t rank, int32_t segment, bool backward,
                        int64_t start_ns, struct segment_schedule *schedule) {
    const struct segment_graph *g = x->graph;
    struct rank_state *state = &x->ranks[rank];
    const struct segment_pass *pass = segment_graph_pass(g, segment, rank);
    int64_t finish = start_ns + (backward ? pass->backward_ns : pass->forward_ns);
    int64_t sent = finish + (backward ? pass->send_backward_ns : pass->send_forward_ns);
    state->free_ns = g->send_blocks_compute ? sent : finish;
    state->left_ns -= state->free_ns - start_ns;
    state->last_backward = backward;
    account(x, rank, segment, backward);
    if (schedule != NULL)
        schedule->tasks[(int64_t)rank * 2 * g->segment_count + state->done] =
            (struct segment_task){ segment, backward, start_ns, finish };
    state->done++;
    if (backward)
        leave_backward(x, rank, segment, sent);
    else
        leave_forward(x, rank, segment, sent, finish);
    return state->free_ns;
}

/* ---- starting a run ---- */

static void reset(struct interleaver *x) {
    const struct segment_graph *g = x->graph;
    for (int32_t r = 0; r < g->rank_count; r++) {
        struct rank_state *state = &x->ranks[r];
        for (int q = 0; q < 2; q++) {
            memset(state->queue[q].ready, 0, (size_t)x->words * 8);
            state->queue[q].ready_count = state->queue[q].later_count = state->queue[q].from = 0;
            state->queue[q].soonest_ns = INT64_MAX;
            state->queue[q].known = -1;
        }
        state->free_ns = 0;
        state->left_ns = x->tails.rank_ns != NULL ? x->tails.rank_ns[r] : 0;
        x->next_ns[r] = INT64_MAX;
        state->last_backward = true; /* so that the first of two is a forward */
        state->checks_memory = x->tight[r];
        state->live_bytes = 0;
        state->head = state->done = state->refusal_count = 0;
    }
    size_t cells = (size_t)(g->rank_count * g->micro_batch_count);
    memcpy(x->need_bytes, x->need_at_start, cells * sizeof *x->need_bytes);
    memset(x->live_bytes, 0, cells * sizeof *x->live_bytes);
    memcpy(x->unfinished, x->unfinished_at_start, cells * sizeof *x->unfinished);
    for (int32_t s = 0; s < g->segment_count; s++) {
        x->forward_waits[s] = g->predecessor_first[s + 1] - g->predecessor_first[s];
        x->backward_waits[s] = g->successor_first[s + 1] - g->successor_first[s];
        x->forward_ready[s] = x->backward_ready[s] = 0;
    }
}

static void number_segments(struct interleaver *x, const int32_t *class_order) {
    const struct segment_graph *g = x->graph;
    int32_t position = 0, micro_batches = 0;
    memset(x->micro_seen, 0, (size_t)g->micro_batch_count);
    for (int32_t i = 0; i < g->class_count; i++) {
        int32_t class = class_order[i];
        for (int32_t k = g->class_first[class]; k < g->class_first[class + 1]; k++) {
            int32_t segment = g->class_members[k], micro = g->micro_batch_of[segment];
            x->position_of[segment] = position;
            x->segment_at[position++] = segment;
            if (x->micro_seen[micro]) continue;
            x->micro_seen[micro] = true;
            x->micro_place[micro] = micro_batches;
            x->micro_order[micro_batches++] = micro;
        }
    }
    ballast_check(position == g->segment_count);
}

static void start(struct interleaver *x) {
    const struct segment_graph *g = x->graph;
    for (int32_t s = 0; s < g->segment_count; s++)
        if (x->forward_waits[s] == 0) add_ready(&x->ranks[0].queue[FORWARD], x->position_of[s]);
    set_next(x, 0);
}

/* ---- the dual queue ---- */

static int32_t earliest_position(struct interleaver *x, int32_t rank, int queue, int64_t start_ns) {
    const struct rank_state *state = &x->ranks[rank];
    const struct queue *q = &state->queue[queue];
    int32_t best = -1;
    for (int32_t i = 0; i < q->later_count; i++) {
        if (q->later[i].ready_ns != start_ns) continue;
        if (best >= 0 && q->later[i].position > best) continue;
        if (queue == FORWARD && state->checks_memory &&
            !fits(x, rank, x->segment_at[q->later[i].position]))
            continue;
        best = q->later[i].position;
    }
    return best;
}

static void take_later(struct queue *q, int32_t position) {
    for (int32_t i = 0; i < q->later_count; i++) {
        if (q->later[i].position != position) continue;
        q->later[i] = q->later[--q->later_count];
        break;
    }
    find_soonest(q);
}

/* Chooses the next pass of the rank and takes it out of its queue. */
static int32_t choose(struct interleaver *x, int32_t rank, bool *backward) {
    struct rank_state *state = &x->ranks[rank];
    promote(&state->queue[FORWARD], state->free_ns);
    promote(&state->queue[BACKWARD], state->free_ns);
    int32_t forward = state->queue[FORWARD].ready_count > 0 ? ready_forward(x, rank) : -1;
    int32_t back = state->queue[BACKWARD].ready_count > 0
                       ? first_ready(&state->queue[BACKWARD], x->words, 0)
                       : -1;
    if (forward >= 0 || back >= 0) {
        *backward =
            forward < 0 ||
            (back >= 0 && (x->turn == TURN_URGENT ? back <= forward : !state->last_backward));
        int32_t position = *backward ? back : forward;
        drop_ready(&state->queue[*backward], position);
        return position;
    }
    *backward = true;
    int32_t position = earliest_position(x, rank, BACKWARD, x->next_ns[rank]);
    if (position < 0) {
        *backward = false;
        position = earliest_position(x, rank, FORWARD, x->next_ns[rank]);
    }
    ballast_check(position >= 0);
    take_later(&state->queue[*backward], position);
    return position;
}

/* The first of those that can start first. Even and odd ones apart, which need not wait for each
 * other. */
static inline int32_t next_rank(const int64_t *next_ns, int32_t count) {
    int32_t even = 0, odd = count > 1 ? 1 : 0;
    int64_t even_ns = next_ns[even], odd_ns = next_ns[odd];
    for (int32_t r = 2; r + 1 < count; r += 2) {
        even = next_ns[r] < even_ns ? r : even;
        even_ns = next_ns[r] < even_ns ? next_ns[r] : even_ns;
        odd = next_ns[r + 1] < odd_ns ? r + 1 : odd;
        odd_ns = next_ns[r + 1] < odd_ns ? next_ns[r + 1] : odd_ns;
    }
    if (count % 2 == 1 && next_ns[count - 1] < even_ns) {
        even = count - 1;
        even_ns = next_ns[even];
    }
    return odd_ns < even_ns || (odd_ns == even_ns && odd < even) ? odd : even;
}

/* Whether no schedule that begins like this ends before limit_ns. */
static inline bool too_long(const struct interleaver *x, int32_t rank, int32_t segment,
                            bool backward, int64_t now_ns, int64_t limit_ns) {
    int64_t cell = (int64_t)segment * x->graph->rank_count + rank;
    int64_t tail = backward ? x->tails.backward_ns[cell] : x->tails.forward_ns[cell];
    return limit_ns - now_ns <= tail || limit_ns - now_ns <= x->ranks[rank].left_ns;
}

/* Tells the clock; false: what begins like this is too long. */
static inline bool run_clock(const struct interleaver_beside *beside, int64_t at, int32_t entry) {
    beside->clock->order[at] = entry;
    return segment_clock_step(beside->clock, entry, beside->passes, beside->tails,
                              beside->limit_ns);
}

static int64_t run(struct interleaver *x, const int32_t *class_order, enum interleaver_turn turn,
                   int64_t limit_ns, const struct interleaver_beside *beside,
                   struct segment_schedule *schedule) {
    const struct segment_graph *g = x->graph;
    x->turn = turn;
    reset(x);
    number_segments(x, class_order);
    start(x);
    const int64_t count = 2 * (int64_t)g->segment_count * g->rank_count;
    int64_t makespan = 0;
    for (int64_t at = 0; at < count; at++) {
        int32_t rank = next_rank(x->next_ns, g->rank_count);
        int64_t now = x->next_ns[rank];
        if (now == INT64_MAX) return SEGMENT_DEAD_END;
        bool backward;
        int32_t segment = x->segment_at[choose(x, rank, &backward)];
        if (limit_ns != SEGMENT_DEAD_END && too_long(x, rank, segment, backward, now, limit_ns))
            return limit_ns;
        if (beside != NULL &&
            !run_clock(beside, at, 2 * (segment * g->rank_count + rank) + backward))
            return SEGMENT_DEAD_END;
        x->next_ns[rank] = INT64_MAX; /* set again below, after what the pass gives itself */
        int64_t end = run_pass(x, rank, segment, backward, now, schedule);
        set_next(x, rank);
        if (end > makespan) makespan = end;
    }
    return makespan < limit_ns ? makespan : limit_ns;
}

int64_t interleaver_run(struct interleaver *x, const int32_t *class_order,
                        enum interleaver_turn turn, struct segment_schedule *schedule) {
    int64_t makespan = run(x, class_order, turn, SEGMENT_DEAD_END, NULL, schedule);
    if (schedule != NULL) schedule->makespan_ns = makespan;
    return makespan;
}

static void measure_tails(struct interleaver *x) {
    size_t ranks = (size_t)x->graph->rank_count, cells = (size_t)x->graph->segment_count * ranks;
    int64_t *block = memory_alloc(sizeof *block * (2 * cells + ranks));
    x->tails = (struct segment_tails){ block, block + cells, block + 2 * cells };
    segment_tails_fill(x->graph, &x->tails);
}

int64_t interleaver_run_below(struct interleaver *x, const int32_t *class_order,
                              enum interleaver_turn turn, int64_t limit_ns) {
    if (x->tails.rank_ns == NULL) measure_tails(x);
    return run(x, class_order, turn, limit_ns, NULL, NULL);
}

bool interleaver_run_beside(struct interleaver *x, const int32_t *class_order,
                            enum interleaver_turn turn, const struct interleaver_beside *beside,
                            struct segment_schedule *schedule) {
    segment_clock_start(beside->clock, beside->tails);
    schedule->makespan_ns = run(x, class_order, turn, SEGMENT_DEAD_END, beside, schedule);
    return schedule->makespan_ns != SEGMENT_DEAD_END &&
           beside->clock->makespan_ns < beside->limit_ns;
}
