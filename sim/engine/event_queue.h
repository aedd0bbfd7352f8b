/* event_queue.h - the simulator's agenda.
 *
 * Order: time_ns, then priority (higher first), then id (lower first). The order depends on what
 * the events say and not on when they were pushed, so two ways of filling a queue pop the same
 * sequence. Ownership: events are copied in. Memory is kept until event_queue_free(); a queue of
 * zeroes is empty.
 *
 *     struct event_queue q = { 0 };
 *     event_queue_push(&q, (struct event){ .time_ns = 1500, .priority = 0, .id = task });
 *     while (event_queue_pop(&q, &event)) handle(&event);
 */
#ifndef BALLAST_SIM_ENGINE_EVENT_QUEUE_H
#define BALLAST_SIM_ENGINE_EVENT_QUEUE_H

#include <stdbool.h>
#include <stdint.h>

struct event {
    int64_t time_ns;
    int32_t priority;
    int32_t id; /* the caller's, from 0 */
};

struct event_queue {
    struct event_key *keys; /* heap from keys[0]; lies within block */
    void *block;
    int64_t count, capacity;
};

void event_queue_free(struct event_queue *queue);
/* Forgets the events and keeps the memory. */
void event_queue_clear(struct event_queue *queue);
/* Room for so many, so that pushing does not grow the heap. */
void event_queue_reserve(struct event_queue *queue, int64_t capacity);
void event_queue_push(struct event_queue *queue, struct event event);
bool event_queue_pop(struct event_queue *queue, struct event *event); /* false: empty */

#endif
