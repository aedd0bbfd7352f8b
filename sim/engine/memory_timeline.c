/* memory_timeline.c - events are put by rank with a counting sort, and by time within a rank with
 * the engine's agenda.
 *
 * The peak is looked for at the end of each instant only. That is what lets frees come first: if
 * they do, an instant never holds more than was held before it or is held after it.
 */
#include "sim/engine/memory_timeline.h"

#include <stdlib.h>
#include <string.h>

#include "sim/base/arena.h"
#include "sim/base/error.h"
#include "sim/engine/event_queue.h"

struct memory_event {
    int64_t time_ns;
    int64_t bytes;
    int32_t rank;
    int32_t class_index;
};

struct memory_timeline_buffers {
    struct memory_event *events; /* as added */
    int32_t *by_rank;            /* event indices */
    int64_t event_count, event_capacity, by_rank_capacity, curve_capacity;
    int64_t *row_begin;  /* by rank, one more: its part of by_rank */
    int64_t *held_bytes; /* by class, of the rank at hand */
    int64_t rank_capacity, class_capacity, cell_capacity;
    struct event_queue queue;
};

struct memory_timeline *memory_timeline_create(void) {
    struct memory_timeline *timeline = memory_alloc(sizeof(*timeline));
    *timeline = (struct memory_timeline){ 0 };
    timeline->buffers = memory_alloc(sizeof(*timeline->buffers));
    *timeline->buffers = (struct memory_timeline_buffers){ 0 };
    return timeline;
}

void memory_timeline_destroy(struct memory_timeline *timeline) {
    if (timeline == NULL) return;
    struct memory_timeline_buffers *buffers = timeline->buffers;
    event_queue_free(&buffers->queue);
    free(buffers->events);
    free(buffers->by_rank);
    free(buffers->row_begin);
    free(buffers->held_bytes);
    free(buffers);
    free(timeline->peak_bytes);
    free(timeline->peak_time_ns);
    free(timeline->peak_class_bytes);
    free(timeline->curve_begin);
    free(timeline->curve_time_ns);
    free(timeline->curve_bytes);
    free(timeline);
}

#define GROW(array, count) ((array) = memory_realloc((array), (size_t)(count) * sizeof(*(array))))

void memory_timeline_reset(struct memory_timeline *timeline, int32_t rank_count,
                           int32_t class_count) {
    ballast_check(rank_count > 0 && class_count > 0);
    struct memory_timeline_buffers *buffers = timeline->buffers;
    int64_t cell_count = (int64_t)rank_count * class_count;
    if (rank_count > buffers->rank_capacity) {
        buffers->rank_capacity = rank_count;
        GROW(timeline->peak_bytes, rank_count);
        GROW(timeline->peak_time_ns, rank_count);
        GROW(timeline->curve_begin, (int64_t)rank_count + 1);
        GROW(buffers->row_begin, (int64_t)rank_count + 1);
    }
    if (class_count > buffers->class_capacity) {
        buffers->class_capacity = class_count;
        GROW(buffers->held_bytes, class_count);
    }
    if (cell_count > buffers->cell_capacity) {
        buffers->cell_capacity = cell_count;
        GROW(timeline->peak_class_bytes, cell_count);
    }
    timeline->rank_count = rank_count;
    timeline->class_count = class_count;
    buffers->event_count = 0;
}

void memory_timeline_add(struct memory_timeline *timeline, int32_t rank, int64_t time_ns,
                         int32_t class_index, int64_t bytes) {
    ballast_check(rank >= 0 && rank < timeline->rank_count);
    ballast_check(class_index >= 0 && class_index < timeline->class_count);
    struct memory_timeline_buffers *buffers = timeline->buffers;
    if (bytes == 0) return;
    if (buffers->event_count == buffers->event_capacity) {
        ballast_check(buffers->event_count < INT32_MAX / 2);
        buffers->event_capacity = buffers->event_capacity > 0 ? 2 * buffers->event_capacity : 256;
        GROW(buffers->events, buffers->event_capacity);
    }
    buffers->events[buffers->event_count++] = (struct memory_event){
        .time_ns = time_ns,
        .bytes = bytes,
        .rank = rank,
        .class_index = class_index,
    };
}

static void sort_by_rank(const struct memory_timeline *timeline) {
    struct memory_timeline_buffers *buffers = timeline->buffers;
    int64_t *row_begin = buffers->row_begin;
    memset(row_begin, 0, ((size_t)timeline->rank_count + 1) * sizeof(*row_begin));
    for (int64_t i = 0; i < buffers->event_count; i++)
        row_begin[buffers->events[i].rank]++;
    for (int32_t r = 1; r <= timeline->rank_count; r++)
        row_begin[r] += row_begin[r - 1];
    for (int64_t i = buffers->event_count - 1; i >= 0; i--)
        buffers->by_rank[--row_begin[buffers->events[i].rank]] = (int32_t)i;
}

/* The instant before now_ns is complete: `rank` holds total_bytes since time_ns. */
static void close_instant(struct memory_timeline *timeline, int32_t rank, int64_t time_ns,
                          int64_t total_bytes) {
    size_t class_count = (size_t)timeline->class_count;
    const int64_t *held_bytes = timeline->buffers->held_bytes;
    for (size_t c = 0; c < class_count; c++)
        ballast_check(held_bytes[c] >= 0);
    if (total_bytes <= timeline->peak_bytes[rank]) return;
    timeline->peak_bytes[rank] = total_bytes;
    timeline->peak_time_ns[rank] = time_ns;
    memcpy(timeline->peak_class_bytes + (size_t)rank * class_count, held_bytes,
           class_count * sizeof(*held_bytes));
}

/* Returns the end of the curve after this rank's points, which begin at curve_end. */
static int64_t run_rank(struct memory_timeline *timeline, int32_t rank, bool keep_curve,
                        int64_t curve_end) {
    struct memory_timeline_buffers *buffers = timeline->buffers;
    event_queue_clear(&buffers->queue);
    for (int64_t i = buffers->row_begin[rank]; i < buffers->row_begin[rank + 1]; i++) {
        const struct memory_event *event = &buffers->events[buffers->by_rank[i]];
        event_queue_push(
            &buffers->queue,
            (struct event){ .time_ns = event->time_ns, .priority = 0, .id = buffers->by_rank[i] });
    }
    memset(buffers->held_bytes, 0, (size_t)timeline->class_count * sizeof(*buffers->held_bytes));
    int64_t total_bytes = 0;
    struct event next;
    bool more = event_queue_pop(&buffers->queue, &next);
    while (more) {
        int64_t time_ns = next.time_ns;
        for (; more && next.time_ns == time_ns; more = event_queue_pop(&buffers->queue, &next)) {
            const struct memory_event *event = &buffers->events[next.id];
            buffers->held_bytes[event->class_index] += event->bytes;
            total_bytes += event->bytes;
        }
        close_instant(timeline, rank, time_ns, total_bytes);
        if (keep_curve) {
            timeline->curve_time_ns[curve_end] = time_ns;
            timeline->curve_bytes[curve_end] = total_bytes;
            curve_end++;
        }
    }
    return curve_end;
}

void memory_timeline_run(struct memory_timeline *timeline, bool keep_curve) {
    struct memory_timeline_buffers *buffers = timeline->buffers;
    size_t rank_count = (size_t)timeline->rank_count;
    ballast_check(rank_count > 0); /* reset first */
    if (buffers->event_capacity > buffers->by_rank_capacity) {
        buffers->by_rank_capacity = buffers->event_capacity;
        GROW(buffers->by_rank, buffers->by_rank_capacity);
    }
    if (keep_curve && buffers->event_capacity > buffers->curve_capacity) {
        buffers->curve_capacity = buffers->event_capacity;
        GROW(timeline->curve_time_ns, buffers->curve_capacity);
        GROW(timeline->curve_bytes, buffers->curve_capacity);
    }
    memset(timeline->peak_bytes, 0, rank_count * sizeof(*timeline->peak_bytes));
    memset(timeline->peak_time_ns, 0, rank_count * sizeof(*timeline->peak_time_ns));
    memset(timeline->peak_class_bytes, 0,
           rank_count * (size_t)timeline->class_count * sizeof(*timeline->peak_class_bytes));
    sort_by_rank(timeline);
    int64_t curve_end = 0;
    for (int32_t r = 0; r < timeline->rank_count; r++) {
        timeline->curve_begin[r] = curve_end;
        curve_end = run_rank(timeline, r, keep_curve, curve_end);
    }
    timeline->curve_begin[timeline->rank_count] = curve_end;
}
