/* segment_search.h - which order of segment classes gives the best (or worst) schedule.
 *
 * Monte Carlo tree search over the order of classes (DIP, section 5.1), and the two comparisons of
 * its Figure 11, depth-first and random. Every order found is run through the interleaver.
 *
 * Repeatable: a round takes a fixed number of leaves, chosen one after another with virtual loss;
 * each leaf's rollouts draw from a stream of their own, keyed by (seed, round, leaf), and results
 * are merged in the order of leaves. Threads change nothing but speed. A time budget gives that up.
 *
 *     struct segment_search_options options = segment_search_defaults();
 *     options.rollouts = 4000;
 *     segment_search(graph, &options, class_order, &result);
 */
#ifndef BALLAST_SIM_POLICY_JOINT_SEGMENT_SEARCH_H
#define BALLAST_SIM_POLICY_JOINT_SEGMENT_SEARCH_H

#include "sim/base/thread_pool.h"
#include "sim/policy/joint/interleaver.h"

enum search_method { SEARCH_TREE, SEARCH_DEPTH_FIRST, SEARCH_RANDOM, SEARCH_METHOD_COUNT };

struct segment_search_options {
    enum search_method method;
    int64_t rollouts; /* budget, in schedules */
    double seconds;   /* 0: none; otherwise a budget of wall time, whichever ends first */
    int64_t leaves_per_round, rollouts_per_leaf;
    double alpha, beta; /* score = best^alpha + beta sqrt(ln visits / visits of the child) */
    uint64_t seed;
    bool worst;               /* the longest schedule instead of the shortest */
    struct thread_pool *pool; /* NULL: the calling thread */
    /* Called whenever the best improves; may be NULL. */
    void (*progress)(void *context, int64_t rollouts, double seconds, int64_t best_ns);
    void *progress_context;
    /* Called for each order that the search begins with (first) and for each that improves the
     * best, on the calling thread; may be NULL. */
    void (*candidate)(void *context, const int32_t *class_order, enum interleaver_turn turn,
                      bool first);
    void *candidate_context;
};
struct segment_search_options segment_search_defaults(void);
const char *search_method_name(enum search_method method);

struct segment_search_result {
    enum interleaver_turn turn; /* of the best */
    int64_t best_ns;            /* SEGMENT_DEAD_END: nothing feasible was found */
    int64_t greedy_ns;          /* of the first order: micro-batches in turn */
    int64_t rollouts, nodes;
    double wall_s;
};

/* class_order: class_count entries, filled with the best order found. */
void segment_search(const struct segment_graph *graph, const struct segment_search_options *options,
                    int32_t *class_order, struct segment_search_result *result);

/* What rollouts are made of, for searches of another kind: a random stream of its own for (seed,
 * round, leaf), a number of 0 to limit - 1 of it, and one class put at another place of an
 * order. */
uint64_t segment_search_stream(uint64_t seed, int64_t round, int64_t leaf);
int32_t segment_search_below(uint64_t *stream, int32_t limit);
void segment_search_move(int32_t *order, int32_t from, int32_t to);

#endif
