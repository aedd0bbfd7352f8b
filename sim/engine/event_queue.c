/* event_queue.c - a 4-ary heap of 16-byte keys.
 *
 * Four children instead of two halve the depth, and since keys[1] begins a cache line, the four
 * children of a node (4i + 1 .. 4i + 4) always share one. A pop moves the hole at the root down to
 * a leaf along the smallest children and then lets the last key rise from there: that key came from
 * the bottom and mostly returns to it, so comparing it on the way down would be wasted.
 */
#include "sim/engine/event_queue.h"

#include <assert.h>
#include <stdlib.h>
#include <string.h>

#include "sim/base/arena.h"
#include "sim/base/error.h"

#define CACHE_LINE_BYTES 64

/* Compared as one 128-bit number: time, then priority reversed, then id. */
struct event_key {
    uint64_t time;
    uint64_t tie;
};

__extension__ typedef unsigned __int128 wide_key;

static_assert(CACHE_LINE_BYTES == 4 * sizeof(struct event_key), "four children fill a cache line");

/* Flipping the sign bit maps signed order onto unsigned order. */
static struct event_key key_from_event(struct event event) {
    uint32_t rank = UINT32_MAX - ((uint32_t)event.priority ^ 0x80000000u);
    return (struct event_key){
        .time = (uint64_t)event.time_ns ^ (UINT64_C(1) << 63),
        .tie = (uint64_t)rank << 32 | (uint32_t)event.id,
    };
}

static struct event event_from_key(struct event_key key) {
    uint32_t rank = (uint32_t)(key.tie >> 32);
    return (struct event){
        .time_ns = (int64_t)(key.time ^ (UINT64_C(1) << 63)),
        .priority = (int32_t)((UINT32_MAX - rank) ^ 0x80000000u),
        .id = (int32_t)(uint32_t)key.tie,
    };
}

static inline wide_key wide(struct event_key key) {
    return (wide_key)key.time << 64 | key.tie;
}

void event_queue_free(struct event_queue *queue) {
    free(queue->block);
    *queue = (struct event_queue){ 0 };
}

void event_queue_clear(struct event_queue *queue) {
    queue->count = 0;
}

void event_queue_reserve(struct event_queue *queue, int64_t capacity) {
    if (capacity <= queue->capacity) return;
    void *block = memory_alloc((size_t)capacity * sizeof(struct event_key) + 2 * CACHE_LINE_BYTES);
    uintptr_t line = ((uintptr_t)block + CACHE_LINE_BYTES) & ~(uintptr_t)(CACHE_LINE_BYTES - 1);
    struct event_key *keys = (struct event_key *)(line + 3 * sizeof(struct event_key));
    if (queue->count > 0) memcpy(keys, queue->keys, (size_t)queue->count * sizeof(*keys));
    free(queue->block);
    queue->block = block;
    queue->keys = keys;
    queue->capacity = capacity;
}

static inline void rise(struct event_key *keys, int64_t hole, struct event_key key) {
    while (hole > 0) {
        int64_t parent = (hole - 1) / 4;
        if (wide(keys[parent]) <= wide(key)) break;
        keys[hole] = keys[parent];
        hole = parent;
    }
    keys[hole] = key;
}

void event_queue_push(struct event_queue *queue, struct event event) {
    ballast_check(event.id >= 0);
    if (queue->count == queue->capacity)
        event_queue_reserve(queue, queue->capacity > 0 ? 2 * queue->capacity : 64);
    rise(queue->keys, queue->count++, key_from_event(event));
}

/* Arithmetic instead of a choice: which child is least is a coin toss that no branch predictor
 * learns. */
static inline int64_t smaller(const struct event_key *keys, int64_t a, int64_t b) {
    return a + (b - a) * (wide(keys[b]) < wide(keys[a]));
}

bool event_queue_pop(struct event_queue *queue, struct event *event) {
    if (queue->count == 0) return false;
    struct event_key *keys = queue->keys;
    *event = event_from_key(keys[0]);
    int64_t count = --queue->count;
    struct event_key last = keys[count];
    int64_t hole = 0;
    int64_t child = 1;
    for (; child + 3 < count; child = 4 * hole + 1) {
        int64_t left = smaller(keys, child, child + 1);
        int64_t right = smaller(keys, child + 2, child + 3);
        int64_t least = smaller(keys, left, right);
        keys[hole] = keys[least];
        hole = least;
    }
    if (child < count) {
        int64_t least = child;
        for (int64_t i = child + 1; i < count; i++)
            least = smaller(keys, least, i);
        keys[hole] = keys[least];
        hole = least;
    }
    rise(keys, hole, last);
    return true;
}
