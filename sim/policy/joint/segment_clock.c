/* segment_clock.c - one block of arrays, and passes one after another. */
#include "sim/policy/joint/segment_clock.h"

#include <stdlib.h>
#include <string.h>

struct segment_clock *segment_clock_create(const struct segment_graph *g) {
    const size_t ranks = (size_t)g->rank_count, segments = (size_t)g->segment_count;
    struct segment_clock *c = memory_alloc(sizeof *c);
    *c = (struct segment_clock){ .graph = g };
    c->longer_ns = memory_alloc(sizeof *c->longer_ns * (3 * ranks + 2 * segments));
    c->free_ns = c->longer_ns + ranks;
    c->left_ns = c->free_ns + ranks;
    c->forward_ready = c->left_ns + ranks;
    c->backward_ready = c->forward_ready + segments;
    c->order = memory_alloc(sizeof *c->order * 2 * ranks * segments);
    segment_clock_reset(c);
    return c;
}

void segment_clock_destroy(struct segment_clock *c) {
    if (c == NULL) return;
    free(c->longer_ns);
    free(c->order);
    free(c);
}

void segment_clock_reset(struct segment_clock *c) {
    memset(c->longer_ns, 0, sizeof *c->longer_ns * (size_t)c->graph->rank_count);
}

void segment_clock_start(struct segment_clock *c, const struct segment_tails *tails) {
    const size_t segments = (size_t)c->graph->segment_count;
    c->makespan_ns = 0;
    for (int32_t r = 0; r < c->graph->rank_count; r++) {
        c->free_ns[r] = 0;
        c->left_ns[r] = tails->rank_ns[r] + c->longer_ns[r];
    }
    memset(c->forward_ready, 0, sizeof *c->forward_ready * 2 * segments);
}

int64_t segment_clock_run(struct segment_clock *c, const struct segment_pass *passes,
                          const struct segment_tails *tails, int64_t limit_ns) {
    const int64_t count = 2 * (int64_t)c->graph->segment_count * c->graph->rank_count;
    segment_clock_start(c, tails);
    for (int64_t i = 0; i < count; i++)
        if (!segment_clock_step(c, c->order[i], passes, tails, limit_ns)) return limit_ns;
    return c->makespan_ns < limit_ns ? c->makespan_ns : limit_ns;
}
