/* memory_candidates.c - multiple-choice knapsack over the layers of a stage pair.
 *
 * Layers of a group are equal, so a choice is how many of them take each option. The lower convex
 * hull of a group's options is all that matters up to one layer a group: moving layers along hull
 * edges in the order of seconds saved per byte passes through every optimal trade-off of the
 * relaxed problem, and each of its stops (whole layers) is optimal for its size. The stops are then
 * thinned to the paper's S: smallest, fastest, and the fastest in each of S - 2 equal ranges of
 * bytes.
 */
#include "sim/policy/joint/memory_program.h"

#include <stdlib.h>
#include <string.h>
#include "sim/base/arena.h"
#include "sim/base/error.h"

/* Moving a layer of the group from one hull option to the next. */
struct step {
    int32_t group, from, to;
    double seconds_saved, bytes_added;
    int64_t layers;
};

static int by_bytes(const struct memory_group *g, int32_t a, int32_t b) {
    if (g->options[a].bytes != g->options[b].bytes)
        return g->options[a].bytes < g->options[b].bytes ? -1 : 1;
    if (g->options[a].seconds != g->options[b].seconds)
        return g->options[a].seconds < g->options[b].seconds ? -1 : 1;
    return a - b;
}

static double slope(const struct memory_option *a, const struct memory_option *b) {
    return (a->seconds - b->seconds) / (b->bytes - a->bytes);
}

/* Options of the group on the lower hull, by rising bytes. */
static int32_t hull(const struct memory_group *g, int32_t *list) {
    int32_t order[MEMORY_OPTION_LIMIT], count = 0;
    for (int32_t i = 0; i < g->option_count; i++) {
        int32_t at = i;
        while (at > 0 && by_bytes(g, i, order[at - 1]) < 0) {
            order[at] = order[at - 1];
            at--;
        }
        order[at] = i;
    }
    for (int32_t i = 0; i < g->option_count; i++) {
        const struct memory_option *next = &g->options[order[i]];
        if (count > 0 && next->seconds >= g->options[list[count - 1]].seconds) continue;
        while (count >= 2 && slope(&g->options[list[count - 1]], next) >=
                                 slope(&g->options[list[count - 2]], &g->options[list[count - 1]]))
            count--;
        list[count++] = order[i];
    }
    return count;
}

static int by_value(const void *left, const void *right) {
    const struct step *a = left, *b = right;
    double value_a = a->seconds_saved * b->bytes_added,
           value_b = b->seconds_saved * a->bytes_added;
    if (value_a != value_b) return value_a > value_b ? -1 : 1;
    if (a->group != b->group) return a->group - b->group;
    return a->from - b->from;
}

static int32_t list_steps(const struct memory_group *groups, int32_t group_count,
                          struct step *steps, struct memory_candidate *start) {
    int32_t count = 0;
    for (int32_t i = 0; i < group_count; i++) {
        int32_t on_hull[MEMORY_OPTION_LIMIT], hull_count = hull(&groups[i], on_hull);
        const struct memory_option *options = groups[i].options;
        start->counts[i][on_hull[0]] = (int16_t)groups[i].layers;
        start->seconds += (double)groups[i].layers * options[on_hull[0]].seconds;
        start->bytes += (double)groups[i].layers * options[on_hull[0]].bytes;
        for (int32_t k = 1; k < hull_count; k++)
            steps[count++] = (struct step){
                i, on_hull[k - 1], on_hull[k],
                options[on_hull[k - 1]].seconds - options[on_hull[k]].seconds,
                options[on_hull[k]].bytes - options[on_hull[k - 1]].bytes, groups[i].layers
            };
    }
    qsort(steps, (size_t)count, sizeof *steps, by_value);
    return count;
}

/* Keeps the smallest, the fastest, and the fastest of each range between them. */
static int32_t thin(const struct memory_candidate *stops, int64_t count, int32_t limit,
                    struct memory_candidate *out) {
    if (count <= limit) {
        memcpy(out, stops, sizeof *out * (size_t)count);
        return (int32_t)count;
    }
    int32_t written = 0;
    double least = stops[0].bytes, range = (stops[count - 1].bytes - least) / (limit - 2);
    out[written++] = stops[0];
    for (int64_t i = 1; i + 1 < count; i++) {
        int64_t bucket = (int64_t)((stops[i].bytes - least) / range);
        int64_t next = (int64_t)((stops[i + 1].bytes - least) / range);
        if ((next > bucket || i + 2 == count) && written + 1 < limit) out[written++] = stops[i];
    }
    out[written++] = stops[count - 1];
    return written;
}

int32_t memory_candidates(const struct memory_group *groups, int32_t group_count, int32_t limit,
                          struct memory_candidate *candidates) {
    ballast_check(group_count <= MEMORY_GROUP_LIMIT && limit >= 3 &&
                  limit <= MEMORY_CANDIDATE_LIMIT);
    struct step steps[MEMORY_GROUP_LIMIT * MEMORY_OPTION_LIMIT];
    struct memory_candidate now = { 0 };
    int32_t step_count = list_steps(groups, group_count, steps, &now);
    int64_t capacity = 1, count = 1;
    for (int32_t i = 0; i < step_count; i++)
        capacity += steps[i].layers;
    struct memory_candidate *stops = memory_alloc(sizeof *stops * (size_t)capacity);
    stops[0] = now;
    for (int32_t i = 0; i < step_count; i++)
        for (int64_t k = 0; k < steps[i].layers; k++) {
            now.counts[steps[i].group][steps[i].from]--;
            now.counts[steps[i].group][steps[i].to]++;
            now.seconds -= steps[i].seconds_saved;
            now.bytes += steps[i].bytes_added;
            stops[count++] = now;
        }
    int32_t written = thin(stops, count, limit, candidates);
    free(stops);
    return written;
}
