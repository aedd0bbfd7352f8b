/* segment_search.c - Monte Carlo tree search over class orders, depth-first and random search.
 *
 * A node at depth d fixes the d-th most urgent class; its score is the best below it, relative to
 * the first order's makespan. Selection takes the child with the largest UCB, as the paper gives
 * it. A node opens children only as its visits grow (2 sqrt(visits) of them): with a hundred
 * classes a sweep over all children of the root would use up the budget of a second. The next child
 * to open is the next class of the best order known.
 *
 * Rollouts below a leaf: the first completes its prefix in the best order known, three of ten at
 * random, the rest in the best order with a few classes moved. Completing only at random, as the
 * paper describes, finds the same optimum on small cases and needs longer on large ones.
 */
#include "sim/policy/joint/segment_search.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>
#include "sim/base/error.h"
#include "sim/base/wall_clock.h"

enum { NONE = -1, RANDOM_SHARE = 3, RANDOM_OF = 10, MOVE_LIMIT = 4 };

static const char *const method_names[SEARCH_METHOD_COUNT] = {
    [SEARCH_TREE] = "mcts",
    [SEARCH_DEPTH_FIRST] = "depth-first",
    [SEARCH_RANDOM] = "random",
};

const char *search_method_name(enum search_method method) {
    return method_names[method];
}

struct segment_search_options segment_search_defaults(void) {
    return (struct segment_search_options){ .method = SEARCH_TREE,
                                            .rollouts = 1000,
                                            .leaves_per_round = 8,
                                            .rollouts_per_leaf = 10,
                                            .alpha = 1,
                                            .beta = 0.1,
                                            .seed = 1 };
}

struct node {
    int32_t class, parent, first_child, next_sibling, child_count, depth;
    int32_t visits; /* virtual ones included while a round runs */
    double best;    /* score below it */
};

/* One leaf of a round: what to evaluate, and what came out. */
struct leaf {
    int32_t node;
    int64_t best_ns;
    int32_t *order; /* of the best rollout */
    enum interleaver_turn turn;
    int32_t *prefix;
    int32_t prefix_count;
};

struct scratch {
    struct interleaver *interleaver;
    int32_t *order;
    bool *used;
};

struct search {
    const struct segment_graph *graph;
    const struct segment_search_options *options;
    struct node *nodes;
    int64_t node_count, node_capacity;
    struct leaf *leaves;
    struct scratch *scratch; /* by thread */
    int32_t *best_order;
    enum interleaver_turn best_turn;
    int64_t best_ns, reference_ns, round, rollouts;
    double start_s; /* of wall_clock_s */
};

/* ---- random streams: splitmix64, keyed by (seed, round, leaf) ---- */

static uint64_t next_random(uint64_t *state) {
    uint64_t z = *state += UINT64_C(0x9e3779b97f4a7c15);
    z = (z ^ (z >> 30)) * UINT64_C(0xbf58476d1ce4e5b9);
    z = (z ^ (z >> 27)) * UINT64_C(0x94d049bb133111eb);
    return z ^ (z >> 31);
}

uint64_t segment_search_stream(uint64_t seed, int64_t round, int64_t leaf) {
    uint64_t state = seed * UINT64_C(0xd1342543de82ef95) + (uint64_t)round;
    state = next_random(&state) + (uint64_t)leaf;
    next_random(&state);
    return state;
}

int32_t segment_search_below(uint64_t *state, int32_t limit) {
    return (int32_t)((next_random(state) >> 32) * (uint64_t)limit >> 32);
}

static void shuffle(uint64_t *state, int32_t *items, int32_t count) {
    for (int32_t i = count - 1; i > 0; i--) {
        int32_t j = segment_search_below(state, i + 1), kept = items[i];
        items[i] = items[j];
        items[j] = kept;
    }
}

/* ---- scores ---- */

static double wall_s(const struct search *s) {
    return wall_clock_s() - s->start_s;
}

static bool better(const struct search *s, int64_t ns, int64_t than) {
    if (ns == SEGMENT_DEAD_END) return false;
    if (than == SEGMENT_DEAD_END) return true;
    return s->options->worst ? ns > than : ns < than;
}

static double score(const struct search *s, int64_t ns) {
    if (ns == SEGMENT_DEAD_END) return 0;
    if (s->reference_ns == SEGMENT_DEAD_END) return 1;
    double ratio = (double)s->reference_ns / (double)ns;
    return s->options->worst ? 1 / ratio : ratio;
}

static void tell(const struct search *s, const int32_t *order, enum interleaver_turn turn,
                 bool first) {
    if (s->options->candidate != NULL)
        s->options->candidate(s->options->candidate_context, order, turn, first);
}

/* Whether it is the best so far. */
static bool offer(struct search *s, int64_t ns, const int32_t *order, enum interleaver_turn turn) {
    if (!better(s, ns, s->best_ns)) return false;
    s->best_ns = ns;
    s->best_turn = turn;
    memcpy(s->best_order, order, sizeof *order * (size_t)s->graph->class_count);
    if (s->options->progress != NULL)
        s->options->progress(s->options->progress_context, s->rollouts, wall_s(s), ns);
    return true;
}

/* ---- first orders ---- */

struct class_key {
    int32_t class, micro_batch, level;
    int64_t work_ns; /* of its micro-batch */
};

/* How many classes stand before it on the longest way. */
static int32_t level_of(const struct segment_graph *g, int32_t class) {
    int32_t deepest = 0;
    for (int32_t k = g->class_first[class]; k < g->class_first[class + 1]; k++) {
        int32_t s = g->class_members[k];
        for (int32_t i = g->predecessor_first[s]; i < g->predecessor_first[s + 1]; i++) {
            int32_t before = g->class_of[g->predecessors[i]];
            if (before == class) continue;
            int32_t level = level_of(g, before) + 1;
            if (level > deepest) deepest = level;
        }
    }
    return deepest;
}

static int by_work(const void *left, const void *right) {
    const struct class_key *a = left, *b = right;
    if (a->work_ns != b->work_ns) return a->work_ns > b->work_ns ? -1 : 1;
    return a->class < b->class ? -1 : 1;
}

static int by_level(const void *left, const void *right) {
    const struct class_key *a = left, *b = right;
    if (a->level != b->level) return a->level > b->level ? -1 : 1;
    return a->class < b->class ? -1 : 1;
}

static int by_level_up(const void *left, const void *right) {
    const struct class_key *a = left, *b = right;
    if (a->level != b->level) return a->level < b->level ? -1 : 1;
    return a->class < b->class ? -1 : 1;
}

/* All orders of a graph meet a dead end or none does, so that one which is given up meets none. */
static int64_t run_order(const struct search *s, struct interleaver *interleaver,
                         const int32_t *order, enum interleaver_turn turn, int64_t best_ns) {
    return s->options->worst ? interleaver_run(interleaver, order, turn, NULL)
                             : interleaver_run_below(interleaver, order, turn, best_ns);
}

static void try_order(struct search *s, const struct class_key *keys, bool backwards) {
    int32_t n = s->graph->class_count;
    int32_t *order = s->scratch[0].order;
    for (int32_t i = 0; i < n; i++)
        order[i] = keys[backwards ? n - 1 - i : i].class;
    /* The worst is sought among the paper's own schedules, as its Figure 9 does. */
    for (int turn = 0; turn < (s->options->worst ? TURN_ALTERNATE + 1 : TURN_COUNT); turn++) {
        s->rollouts++;
        int64_t ns = run_order(s, s->scratch[0].interleaver, order, turn, s->best_ns);
        if (s->rollouts == 1) s->reference_ns = ns;
        if (ns != SEGMENT_DEAD_END) tell(s, order, turn, true);
        offer(s, ns, order, turn);
    }
}

/* Micro-batches in turn; then late modules first, early ones first, and by size both ways. */
static void try_first_orders(struct search *s) {
    const struct segment_graph *g = s->graph;
    struct class_key *keys = memory_alloc(sizeof *keys * (size_t)g->class_count);
    int64_t *work = memory_alloc(sizeof *work * (size_t)g->micro_batch_count);
    memset(work, 0, sizeof *work * (size_t)g->micro_batch_count);
    for (int32_t i = 0; i < g->segment_count; i++)
        for (int32_t r = 0; r < g->rank_count; r++)
            work[g->micro_batch_of[i]] +=
                segment_graph_pass(g, i, r)->forward_ns + segment_graph_pass(g, i, r)->backward_ns;
    for (int32_t c = 0; c < g->class_count; c++) {
        int32_t micro_batch = g->micro_batch_of[g->class_members[g->class_first[c]]];
        keys[c] = (struct class_key){ c, micro_batch, level_of(g, c), work[micro_batch] };
    }
    try_order(s, keys, false);
    qsort(keys, (size_t)g->class_count, sizeof *keys, by_level);
    try_order(s, keys, false);
    qsort(keys, (size_t)g->class_count, sizeof *keys, by_level_up);
    try_order(s, keys, false);
    qsort(keys, (size_t)g->class_count, sizeof *keys, by_work);
    try_order(s, keys, false);
    try_order(s, keys, true);
    if (s->reference_ns == SEGMENT_DEAD_END) s->reference_ns = s->best_ns;
    free(work);
    free(keys);
}

/* ---- the tree ---- */

static int32_t add_node(struct search *s, int32_t parent, int32_t class) {
    if (s->node_count == s->node_capacity) {
        s->node_capacity = s->node_capacity > 0 ? 2 * s->node_capacity : 1024;
        s->nodes = memory_realloc(s->nodes, sizeof *s->nodes * (size_t)s->node_capacity);
    }
    int32_t id = (int32_t)s->node_count++;
    s->nodes[id] = (struct node){ .class = class,
                                  .parent = parent,
                                  .first_child = NONE,
                                  .next_sibling = NONE,
                                  .depth = parent >= 0 ? s->nodes[parent].depth + 1 : 0 };
    if (parent >= 0) {
        s->nodes[id].next_sibling = s->nodes[parent].first_child;
        s->nodes[parent].first_child = id;
        s->nodes[parent].child_count++;
    }
    return id;
}

static void mark_prefix(const struct search *s, int32_t node, bool *used) {
    memset(used, 0, (size_t)s->graph->class_count);
    for (; s->nodes[node].parent >= 0; node = s->nodes[node].parent)
        used[s->nodes[node].class] = true;
}

/* The first class of the best order that neither the path nor a child has. */
static int32_t next_class(const struct search *s, int32_t node, bool *used) {
    mark_prefix(s, node, used);
    for (int32_t c = s->nodes[node].first_child; c >= 0; c = s->nodes[c].next_sibling)
        used[s->nodes[c].class] = true;
    for (int32_t i = 0; i < s->graph->class_count; i++)
        if (!used[s->best_order[i]]) return s->best_order[i];
    return NONE;
}

static int32_t best_child(const struct search *s, int32_t node) {
    const struct segment_search_options *o = s->options;
    double best = -1, log_visits = log((double)s->nodes[node].visits + 1);
    int32_t chosen = NONE;
    for (int32_t c = s->nodes[node].first_child; c >= 0; c = s->nodes[c].next_sibling) {
        double ucb = pow(s->nodes[c].best, o->alpha) +
                     o->beta * sqrt(log_visits / ((double)s->nodes[c].visits + 1));
        if (ucb <= best) continue;
        best = ucb;
        chosen = c;
    }
    return chosen;
}

static bool may_open(const struct search *s, int32_t node) {
    const struct node *n = &s->nodes[node];
    int32_t left = s->graph->class_count - n->depth;
    return n->child_count < left && (double)n->child_count < 2 * sqrt((double)n->visits + 1);
}

/* Goes down to a node that opens a child, or to the end of an order, and leaves a virtual visit. */
static int32_t select_leaf(struct search *s) {
    int32_t node = 0;
    while (s->nodes[node].depth < s->graph->class_count) {
        s->nodes[node].visits++;
        if (may_open(s, node)) {
            node = add_node(s, node, next_class(s, node, s->scratch[0].used));
            break;
        }
        node = best_child(s, node);
    }
    s->nodes[node].visits++;
    return node;
}

static void set_prefix(const struct search *s, struct leaf *leaf, int32_t node) {
    leaf->node = node;
    leaf->prefix_count = s->nodes[node].depth;
    for (int32_t i = leaf->prefix_count; i > 0; node = s->nodes[node].parent)
        leaf->prefix[--i] = s->nodes[node].class;
}

/* ---- rollouts ---- */

void segment_search_move(int32_t *order, int32_t from, int32_t to) {
    int32_t class = order[from];
    if (from < to)
        memmove(order + from, order + from + 1, sizeof *order * (size_t)(to - from));
    else
        memmove(order + to + 1, order + to, sizeof *order * (size_t)(from - to));
    order[to] = class;
}

static void move_some(uint64_t *random, int32_t *order, int32_t from, int32_t count) {
    if (count - from < 2) return;
    int32_t moves = 1 + segment_search_below(random, MOVE_LIMIT);
    for (int32_t m = 0; m < moves; m++) {
        int32_t a = from + segment_search_below(random, count - from),
                b = from + segment_search_below(random, count - from);
        segment_search_move(order, a, b);
    }
}

static void complete(const struct search *s, const struct leaf *leaf, struct scratch *scratch) {
    int32_t at = leaf->prefix_count;
    memset(scratch->used, 0, (size_t)s->graph->class_count);
    for (int32_t i = 0; i < at; i++) {
        scratch->order[i] = leaf->prefix[i];
        scratch->used[leaf->prefix[i]] = true;
    }
    for (int32_t i = 0; i < s->graph->class_count; i++)
        if (!scratch->used[s->best_order[i]]) scratch->order[at++] = s->best_order[i];
}

static void roll_out(void *context, int64_t index, int thread_index) {
    struct search *s = context;
    struct leaf *leaf = &s->leaves[index];
    struct scratch *scratch = &s->scratch[thread_index];
    int32_t n = s->graph->class_count;
    uint64_t random = segment_search_stream(s->options->seed, s->round, index);
    leaf->best_ns = SEGMENT_DEAD_END;
    for (int64_t i = 0; i < s->options->rollouts_per_leaf; i++) {
        complete(s, leaf, scratch);
        bool at_random =
            s->options->method == SEARCH_RANDOM || i % RANDOM_OF >= RANDOM_OF - RANDOM_SHARE;
        if (at_random)
            shuffle(&random, scratch->order + leaf->prefix_count, n - leaf->prefix_count);
        else if (i > 0)
            move_some(&random, scratch->order, leaf->prefix_count, n);
        /* A quarter of the rollouts takes the turns that the best does not take. */
        enum interleaver_turn turn = s->best_turn;
        if (!s->options->worst && segment_search_below(&random, 4) == 0)
            turn = turn == TURN_URGENT ? TURN_ALTERNATE : TURN_URGENT;
        int64_t ns = run_order(s, scratch->interleaver, scratch->order, turn, leaf->best_ns);
        if (!better(s, ns, leaf->best_ns)) continue;
        leaf->best_ns = ns;
        leaf->turn = turn;
        memcpy(leaf->order, scratch->order, sizeof *leaf->order * (size_t)n);
    }
}

static void back_propagate(struct search *s, const struct leaf *leaf) {
    double value = score(s, leaf->best_ns);
    for (int32_t node = leaf->node; node >= 0; node = s->nodes[node].parent)
        if (value > s->nodes[node].best) s->nodes[node].best = value;
}

static void run_leaves(struct search *s, int64_t count) {
    if (s->options->pool != NULL)
        thread_pool_run(s->options->pool, count, roll_out, s);
    else
        for (int64_t i = 0; i < count; i++)
            roll_out(s, i, 0);
}

static bool out_of_budget(const struct search *s) {
    return s->rollouts >= s->options->rollouts ||
           (s->options->seconds > 0 && wall_s(s) >= s->options->seconds);
}

static void search_tree(struct search *s) {
    int64_t per_round = s->options->leaves_per_round;
    add_node(s, NONE, NONE);
    for (s->round = 0; !out_of_budget(s); s->round++) {
        for (int64_t i = 0; i < per_round; i++) {
            s->leaves[i].prefix_count = 0;
            if (s->options->method == SEARCH_TREE)
                set_prefix(s, &s->leaves[i], select_leaf(s));
            else
                s->leaves[i].node = NONE;
        }
        run_leaves(s, per_round);
        for (int64_t i = 0; i < per_round; i++) {
            s->rollouts += s->options->rollouts_per_leaf;
            back_propagate(s, &s->leaves[i]);
            if (offer(s, s->leaves[i].best_ns, s->leaves[i].order, s->leaves[i].turn))
                tell(s, s->leaves[i].order, s->leaves[i].turn, false);
        }
    }
}

/* The next permutation in lexical order; false after the last. */
static bool next_permutation(int32_t *items, int32_t count) {
    int32_t i = count - 2, j = count - 1;
    while (i >= 0 && items[i] > items[i + 1])
        i--;
    if (i < 0) return false;
    while (items[j] < items[i])
        j--;
    int32_t kept = items[i];
    items[i] = items[j];
    items[j] = kept;
    for (int32_t a = i + 1, b = count - 1; a < b; a++, b--) {
        kept = items[a];
        items[a] = items[b];
        items[b] = kept;
    }
    return true;
}

/* A depth-first walk of the same tree: the last classes change first. */
static void search_depth_first(struct search *s) {
    int32_t n = s->graph->class_count, *order = memory_alloc(sizeof *order * (size_t)n);
    for (int32_t i = 0; i < n; i++)
        order[i] = i;
    while (!out_of_budget(s) && next_permutation(order, n)) {
        s->rollouts++;
        int64_t ns = run_order(s, s->scratch[0].interleaver, order, TURN_ALTERNATE, s->best_ns);
        if (offer(s, ns, order, TURN_ALTERNATE)) tell(s, order, TURN_ALTERNATE, false);
    }
    free(order);
}

/* ---- */

static void make_room(struct search *s, int threads) {
    size_t n = (size_t)s->graph->class_count, leaves = (size_t)s->options->leaves_per_round;
    s->scratch = memory_alloc(sizeof *s->scratch * (size_t)threads);
    for (int t = 0; t < threads; t++)
        s->scratch[t] = (struct scratch){ interleaver_create(s->graph),
                                          memory_alloc(sizeof(int32_t) * n), memory_alloc(n) };
    s->leaves = memory_alloc(sizeof *s->leaves * leaves);
    for (size_t i = 0; i < leaves; i++)
        s->leaves[i] = (struct leaf){ .order = memory_alloc(sizeof(int32_t) * n),
                                      .prefix = memory_alloc(sizeof(int32_t) * n) };
}

static void free_room(struct search *s, int threads) {
    for (int t = 0; t < threads; t++) {
        interleaver_destroy(s->scratch[t].interleaver);
        free(s->scratch[t].order);
        free(s->scratch[t].used);
    }
    for (int64_t i = 0; i < s->options->leaves_per_round; i++) {
        free(s->leaves[i].order);
        free(s->leaves[i].prefix);
    }
    free(s->scratch);
    free(s->leaves);
    free(s->nodes);
}

void segment_search(const struct segment_graph *graph, const struct segment_search_options *options,
                    int32_t *class_order, struct segment_search_result *result) {
    int threads = options->pool != NULL ? thread_pool_thread_count(options->pool) : 1;
    struct search s = { .graph = graph,
                        .options = options,
                        .best_order = class_order,
                        .best_ns = SEGMENT_DEAD_END,
                        .reference_ns = SEGMENT_DEAD_END };
    s.start_s = wall_clock_s();
    make_room(&s, threads);
    for (int32_t i = 0; i < graph->class_count; i++)
        class_order[i] = i;
    if (options->method == SEARCH_TREE) {
        try_first_orders(&s);
    } else {
        s.rollouts = 1;
        int64_t ns = interleaver_run(s.scratch[0].interleaver, class_order, TURN_ALTERNATE, NULL);
        if (ns != SEGMENT_DEAD_END) tell(&s, class_order, TURN_ALTERNATE, true);
        offer(&s, ns, class_order, TURN_ALTERNATE);
        s.reference_ns = s.best_ns;
    }
    *result = (struct segment_search_result){ .greedy_ns = s.reference_ns };
    if (options->method == SEARCH_DEPTH_FIRST)
        search_depth_first(&s);
    else
        search_tree(&s);
    result->best_ns = s.best_ns;
    result->turn = s.best_turn;
    result->rollouts = s.rollouts;
    result->nodes = s.node_count;
    result->wall_s = wall_s(&s);
    free_room(&s, threads);
}
