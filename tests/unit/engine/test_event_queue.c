/* test_event_queue.c - the order of the agenda. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <cmocka.h>

#include "sim/base/random.h"
#include "sim/engine/event_queue.h"

/* Events in the order in which they are pushed; want: ids as popped. */
static const struct {
    const char *name;
    int32_t count;
    struct event pushed[8];
    int32_t want[8];
} traces[] = {
    { "nothing", 0, { { 0 } }, { 0 } },
    { "time", 4, { { 30, 0, 0 }, { 10, 0, 1 }, { 20, 0, 2 }, { 0, 0, 3 } }, { 3, 1, 2, 0 } },
    { "higher priority first", 3, { { 5, 0, 0 }, { 5, 7, 1 }, { 5, 3, 2 } }, { 1, 2, 0 } },
    { "negative priority last", 3, { { 5, -1, 0 }, { 5, 0, 1 }, { 5, 1, 2 } }, { 2, 1, 0 } },
    { "extreme priorities", 2, { { 5, INT32_MIN, 0 }, { 5, INT32_MAX, 1 } }, { 1, 0 } },
    { "time before priority", 2, { { 6, 9, 0 }, { 5, 0, 1 } }, { 1, 0 } },
    { "id last", 4, { { 5, 1, 9 }, { 5, 1, 2 }, { 5, 1, 11 }, { 5, 1, 3 } }, { 2, 3, 9, 11 } },
    { "negative times", 3, { { 0, 0, 0 }, { -5, 0, 1 }, { INT64_MIN, 0, 2 } }, { 2, 1, 0 } },
    { "latest time", 2, { { INT64_MAX, 0, 0 }, { INT64_MAX - 1, 0, 1 } }, { 1, 0 } },
    { "equal events",
      5,
      { { 1, 1, 1 }, { 1, 1, 1 }, { 1, 1, 0 }, { 1, 1, 1 }, { 0, 0, 4 } },
      { 4, 0, 1, 1, 1 } },
};

static void test_traces(void **state) {
    (void)state;
    struct event_queue queue = { 0 };
    for (size_t t = 0; t < sizeof(traces) / sizeof(traces[0]); t++) {
        event_queue_clear(&queue);
        for (int32_t i = 0; i < traces[t].count; i++)
            event_queue_push(&queue, traces[t].pushed[i]);
        struct event event;
        for (int32_t i = 0; i < traces[t].count; i++) {
            if (!event_queue_pop(&queue, &event))
                fail_msg("%s: empty after %d events", traces[t].name, i);
            if (event.id != traces[t].want[i])
                fail_msg("%s: event %d has id %d, want %d", traces[t].name, i, event.id,
                         traces[t].want[i]);
        }
        if (event_queue_pop(&queue, &event)) fail_msg("%s: one event too many", traces[t].name);
    }
    event_queue_free(&queue);
}

static void test_events_come_back_whole(void **state) {
    (void)state;
    static const struct event events[] = {
        { INT64_MIN, INT32_MIN, 0 },
        { -1, -1, INT32_MAX },
        { 0, 0, 0 },
        { INT64_MAX, INT32_MAX, 7 },
    };
    struct event_queue queue = { 0 };
    for (size_t i = 0; i < sizeof(events) / sizeof(events[0]); i++) {
        struct event event;
        event_queue_push(&queue, events[i]);
        assert_true(event_queue_pop(&queue, &event));
        if (event.time_ns != events[i].time_ns || event.priority != events[i].priority ||
            event.id != events[i].id)
            fail_msg("event %zu came back as %lld, %d, %d", i, (long long)event.time_ns,
                     event.priority, event.id);
    }
    event_queue_free(&queue);
}

static int compare(const void *left, const void *right) {
    const struct event *a = left, *b = right;
    if (a->time_ns != b->time_ns) return a->time_ns < b->time_ns ? -1 : 1;
    if (a->priority != b->priority) return a->priority > b->priority ? -1 : 1;
    return (a->id > b->id) - (a->id < b->id);
}

/* Pushes and pops at random against a list that is sorted before each pop. */
static void test_against_sorting(void **state) {
    (void)state;
    enum { ROUNDS = 40, STEPS = 400 };
    struct event_queue queue = { 0 };
    struct event list[STEPS];
    for (uint32_t round = 0; round < ROUNDS; round++) {
        struct random_mt mt;
        random_mt_seed(&mt, round);
        event_queue_clear(&queue);
        size_t count = 0;
        for (int32_t step = 0; step < STEPS; step++) {
            if (count == 0 || random_mt_next(&mt) % 8 < 5) {
                struct event event = {
                    .time_ns = random_mt_next(&mt) % 16,
                    .priority = (int32_t)(random_mt_next(&mt) % 3) - 1,
                    .id = (int32_t)(random_mt_next(&mt) % 1000),
                };
                event_queue_push(&queue, event);
                list[count++] = event;
                continue;
            }
            qsort(list, count, sizeof(list[0]), compare);
            struct event event;
            assert_true(event_queue_pop(&queue, &event));
            if (compare(&event, &list[0]) != 0)
                fail_msg("round %u, step %d: popped (%lld, %d, %d), want (%lld, %d, %d)", round,
                         step, (long long)event.time_ns, event.priority, event.id,
                         (long long)list[0].time_ns, list[0].priority, list[0].id);
            list[0] = list[--count];
        }
        assert_int_equal(queue.count, count);
    }
    event_queue_free(&queue);
}

static void test_reserve_keeps_events(void **state) {
    (void)state;
    struct event_queue queue = { 0 };
    for (int32_t i = 0; i < 10; i++)
        event_queue_push(&queue, (struct event){ 10 - i, 0, i });
    event_queue_reserve(&queue, 5000);
    struct event_key *keys = queue.keys;
    for (int32_t i = 10; i < 5000; i++)
        event_queue_push(&queue, (struct event){ i + 1, 0, i });
    assert_ptr_equal(queue.keys, keys);
    struct event event;
    for (int64_t time_ns = 1; time_ns <= 5000; time_ns++) {
        assert_true(event_queue_pop(&queue, &event));
        assert_int_equal(event.time_ns, time_ns);
    }
    assert_false(event_queue_pop(&queue, &event));
    event_queue_free(&queue);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_traces),
        cmocka_unit_test(test_events_come_back_whole),
        cmocka_unit_test(test_against_sorting),
        cmocka_unit_test(test_reserve_keeps_events),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
