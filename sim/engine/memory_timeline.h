/* memory_timeline.h - what a rank holds over time, from its allocations and frees.
 *
 * At one instant frees come before allocations, so a buffer may take the place of one that is given
 * up at the same time, and a buffer freed when it was made is never held. Bytes are split by class
 * (weights, activations, ...), whose meaning is the caller's. Results stand until the next reset;
 * memory is kept between uses, so no allocation once grown.
 *
 *     memory_timeline_reset(t, rank_count, class_count);
 *     memory_timeline_add(t, rank, start_ns, class_index, +saved_bytes);
 *     memory_timeline_add(t, rank, finish_ns, class_index, -saved_bytes);
 *     memory_timeline_run(t, false);
 *     t->peak_bytes[rank], t->peak_time_ns[rank], t->peak_class_bytes[rank * t->class_count + c]
 */
#ifndef BALLAST_SIM_ENGINE_MEMORY_TIMELINE_H
#define BALLAST_SIM_ENGINE_MEMORY_TIMELINE_H

#include <stdbool.h>
#include <stdint.h>

struct memory_timeline {
    int32_t rank_count, class_count;
    /* by rank */
    int64_t *peak_bytes;
    int64_t *peak_time_ns;     /* the first time the peak is held; 0 if nothing ever is */
    int64_t *peak_class_bytes; /* [rank * class_count + class], at that time */
    /* The step curve, if it was asked for: rank r holds curve_bytes[i] from curve_time_ns[i] on,
     * curve_begin[r] <= i < curve_begin[r + 1]; times rise within a rank. */
    int64_t *curve_begin; /* rank_count + 1 */
    int64_t *curve_time_ns;
    int64_t *curve_bytes;
    struct memory_timeline_buffers *buffers;
};

struct memory_timeline *memory_timeline_create(void);
void memory_timeline_destroy(struct memory_timeline *timeline);
/* Forgets all events. */
void memory_timeline_reset(struct memory_timeline *timeline, int32_t rank_count,
                           int32_t class_count);
/* bytes > 0 allocates, < 0 frees, 0 does nothing. Events may come in any order of time. */
void memory_timeline_add(struct memory_timeline *timeline, int32_t rank, int64_t time_ns,
                         int32_t class_index, int64_t bytes);
/* Freeing more of a class than is held, over one whole instant, is a mistake of ours: it stops the
 * program. */
void memory_timeline_run(struct memory_timeline *timeline, bool keep_curve);

#endif
