/* segment_fixture.h - a vision-language iteration as a segment graph, and an independent check of a
 * schedule: every pass once, a rank never runs two, inputs before outputs, memory within
 * capacity. */
#ifndef BALLAST_TESTS_UNIT_POLICY_SEGMENT_FIXTURE_H
#define BALLAST_TESTS_UNIT_POLICY_SEGMENT_FIXTURE_H

#include <math.h>
#include <string.h>

#include "sim/policy/joint/segment_order.h"

struct vlm {
    int32_t ranks, micro_batches;
    const int32_t *images; /* by micro-batch */
    int32_t per_item;      /* images of a sub-microbatch */
    int32_t vision_chunks, language_chunks;
    int64_t image_ns, text_ns, send_ns; /* forward of a chunk on a rank; backward twice that */
    double image_bytes, text_bytes, capacity_bytes;
    bool blocks;
};

static inline int32_t vlm_segments(const struct vlm *v, int32_t *classes) {
    int32_t count = 0;
    *classes = 0;
    for (int32_t m = 0; m < v->micro_batches; m++) {
        int32_t items = (v->images[m] + v->per_item - 1) / v->per_item;
        count += items * v->vision_chunks + v->language_chunks;
        *classes += 1 + (items > 0);
    }
    return count;
}

static inline void vlm_pass(const struct vlm *v, struct segment_graph *g, int32_t segment,
                            int64_t forward_ns, double bytes, bool sends_on, bool sends_back) {
    for (int32_t r = 0; r < v->ranks; r++) {
        struct segment_pass *pass = segment_graph_pass(g, segment, r);
        pass->forward_ns = forward_ns;
        pass->backward_ns = 2 * forward_ns;
        pass->send_forward_ns = r + 1 < v->ranks || sends_on ? v->send_ns : 0;
        pass->send_backward_ns = r > 0 || sends_back ? v->send_ns : 0;
        pass->bytes = bytes;
    }
}

/* level: chunk row of each segment, segment_count entries; may be NULL. */
static inline struct segment_graph *vlm_graph(struct arena *arena, const struct vlm *v,
                                              int32_t **level) {
    int32_t classes, segments = vlm_segments(v, &classes), at = 0, class = 0;
    struct segment_graph *g =
        segment_graph_create(arena, v->ranks, segments, classes, v->micro_batches);
    int32_t *rows = arena_array(arena, int32_t, segments);
    g->send_blocks_compute = v->blocks;
    for (int32_t m = 0; m < v->micro_batches; m++) {
        int32_t items = (v->images[m] + v->per_item - 1) / v->per_item, left = v->images[m];
        int32_t language = at + items * v->vision_chunks;
        for (int32_t i = 0; i < items; i++) {
            int32_t images = left / (items - i);
            left -= images;
            for (int32_t c = 0; c < v->vision_chunks; c++, at++) {
                vlm_pass(v, g, at, v->image_ns * images, v->image_bytes * images, true, c > 0);
                g->class_of[at] = class;
                g->micro_batch_of[at] = m;
                rows[at] = c;
                segment_graph_add(g, at, c + 1 < v->vision_chunks ? at + 1 : language);
            }
        }
        class += items > 0;
        for (int32_t c = 0; c < v->language_chunks; c++, at++) {
            bool last = c + 1 == v->language_chunks;
            vlm_pass(v, g, at, v->text_ns, v->text_bytes, !last, c > 0 || items > 0);
            g->class_of[at] = class;
            g->micro_batch_of[at] = m;
            rows[at] = v->vision_chunks + c;
            if (!last) segment_graph_add(g, at, at + 1);
        }
        class ++;
    }
    for (int32_t r = 0; r < v->ranks; r++)
        g->capacity_bytes[r] = v->capacity_bytes > 0 ? v->capacity_bytes : INFINITY;
    segment_graph_close(g);
    if (level != NULL) *level = rows;
    return g;
}

/* NULL: valid; otherwise what is wrong. */
static inline const char *schedule_fault(const struct segment_graph *g,
                                         const struct segment_schedule *s, bool memory) {
    int64_t passes = segment_schedule_size(g), n = g->segment_count;
    int64_t *finish = arena_array(g->arena, int64_t, passes),
            *start = arena_array(g->arena, int64_t, passes), makespan = 0;
    bool *seen = arena_array(g->arena, bool, passes);
    for (int64_t r = 0; r < g->rank_count; r++) {
        const struct segment_task *tasks = segment_schedule_rank(g, s, r);
        int64_t free_ns = 0;
        double live = 0;
        for (int64_t i = 0; i < 2 * n; i++) {
            const struct segment_pass *pass = segment_graph_pass(g, tasks[i].segment, r);
            int64_t cell = (2 * tasks[i].segment + tasks[i].backward) * g->rank_count + r;
            if (seen[cell]) return "a pass runs twice";
            seen[cell] = true;
            if (tasks[i].start_ns < free_ns) return "a rank runs two passes at a time";
            int64_t ns = tasks[i].backward ? pass->backward_ns : pass->forward_ns;
            int64_t send = tasks[i].backward ? pass->send_backward_ns : pass->send_forward_ns;
            if (tasks[i].finish_ns - tasks[i].start_ns != ns) return "a pass takes another time";
            free_ns = tasks[i].finish_ns + (g->send_blocks_compute ? send : 0);
            if (free_ns > makespan) makespan = free_ns;
            start[cell] = tasks[i].start_ns;
            finish[cell] = tasks[i].finish_ns + send;
            if (!tasks[i].backward) live += pass->bytes;
            if (memory && live + pass->workspace_bytes > g->capacity_bytes[r] * (1 + 1e-9))
                return "memory above capacity";
            if (tasks[i].backward) live -= pass->bytes;
        }
    }
    if (makespan != s->makespan_ns) return "another makespan";
#define CELL(segment, backward, rank)                                                              \
    ((2 * (int64_t)(segment) + (backward)) * g->rank_count + (rank))
    for (int64_t i = 0; i < n; i++) {
        int64_t last = g->rank_count - 1;
        for (int64_t r = 0; r < last; r++) {
            if (start[CELL(i, 0, r + 1)] < finish[CELL(i, 0, r)]) return "a forward too early";
            if (start[CELL(i, 1, r)] < finish[CELL(i, 1, r + 1)]) return "a backward too early";
        }
        if (start[CELL(i, 1, last)] <
            finish[CELL(i, 0, last)] - segment_graph_pass(g, i, last)->send_forward_ns)
            return "a backward before its forward";
        for (int32_t k = g->successor_first[i]; k < g->successor_first[i + 1]; k++) {
            int64_t next = g->successors[k];
            if (start[CELL(next, 0, 0)] < finish[CELL(i, 0, last)]) return "a module too early";
            if (start[CELL(i, 1, last)] < finish[CELL(next, 1, 0)]) return "a gradient too early";
        }
    }
#undef CELL
    return NULL;
}

#endif
