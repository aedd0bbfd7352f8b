/* test_memory_timeline.c - peak, its time and its classes, and the step curve. */
#include <setjmp.h>
#include <signal.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <sys/wait.h>
#include <unistd.h>
#include <cmocka.h>

#include "sim/base/random.h"
#include "sim/engine/memory_timeline.h"

enum { WEIGHTS, ACTIVATIONS, CLASS_COUNT };

struct change {
    int64_t time_ns;
    int32_t class_index;
    int64_t bytes;
};

static const struct {
    const char *name;
    int32_t count;
    struct change changes[8];
    int64_t want_peak_bytes, want_peak_time_ns;
    int64_t want_class_bytes[CLASS_COUNT];
    int32_t want_point_count;
    struct {
        int64_t time_ns, bytes;
    } want_curve[8];
} cases[] = {
    { "nothing", 0, { { 0 } }, 0, 0, { 0, 0 }, 0, { { 0 } } },
    { "only what stays", 1, { { 0, WEIGHTS, 70 } }, 70, 0, { 70, 0 }, 1, { { 0, 70 } } },
    { "held before the run",
      2,
      { { -5, WEIGHTS, 70 }, { 10, ACTIVATIONS, 5 } },
      75,
      10,
      { 70, 5 },
      2,
      { { -5, 70 }, { 10, 75 } } },
    { "first of two equal peaks",
      4,
      { { 10, ACTIVATIONS, 5 },
        { 20, ACTIVATIONS, -5 },
        { 30, ACTIVATIONS, 5 },
        { 40, ACTIVATIONS, -5 } },
      5,
      10,
      { 0, 5 },
      4,
      { { 10, 5 }, { 20, 0 }, { 30, 5 }, { 40, 0 } } },
    { "in any order",
      4,
      { { 40, ACTIVATIONS, -8 },
        { 10, ACTIVATIONS, 8 },
        { 0, WEIGHTS, 100 },
        { 20, ACTIVATIONS, 3 } },
      111,
      20,
      { 100, 11 },
      4,
      { { 0, 100 }, { 10, 108 }, { 20, 111 }, { 40, 103 } } },
    { "frees before allocations at one instant",
      3,
      { { 0, ACTIVATIONS, 6 }, { 10, ACTIVATIONS, 5 }, { 10, ACTIVATIONS, -6 } },
      6,
      0,
      { 0, 6 },
      2,
      { { 0, 6 }, { 10, 5 } } },
    { "freed when made",
      3,
      { { 0, WEIGHTS, 1 }, { 10, ACTIVATIONS, 50 }, { 10, ACTIVATIONS, -50 } },
      1,
      0,
      { 1, 0 },
      2,
      { { 0, 1 }, { 10, 1 } } },
    { "classes at the peak, not their own peaks",
      4,
      { { 0, WEIGHTS, 10 }, { 5, WEIGHTS, -9 }, { 5, ACTIVATIONS, 20 }, { 6, ACTIVATIONS, -1 } },
      21,
      5,
      { 1, 20 },
      3,
      { { 0, 10 }, { 5, 21 }, { 6, 20 } } },
};

static void check_rank(const struct memory_timeline *timeline, int32_t rank, size_t c) {
    const char *name = cases[c].name;
    if (timeline->peak_bytes[rank] != cases[c].want_peak_bytes ||
        timeline->peak_time_ns[rank] != cases[c].want_peak_time_ns)
        fail_msg("%s: peak of %lld at %lld, want %lld at %lld", name,
                 (long long)timeline->peak_bytes[rank], (long long)timeline->peak_time_ns[rank],
                 (long long)cases[c].want_peak_bytes, (long long)cases[c].want_peak_time_ns);
    for (int32_t k = 0; k < CLASS_COUNT; k++)
        if (timeline->peak_class_bytes[rank * CLASS_COUNT + k] != cases[c].want_class_bytes[k])
            fail_msg("%s: class %d has %lld at the peak, want %lld", name, k,
                     (long long)timeline->peak_class_bytes[rank * CLASS_COUNT + k],
                     (long long)cases[c].want_class_bytes[k]);
}

static void check_curve(const struct memory_timeline *timeline, int32_t rank, size_t c) {
    int64_t begin = timeline->curve_begin[rank];
    int64_t count = timeline->curve_begin[rank + 1] - begin;
    if (count != cases[c].want_point_count)
        fail_msg("%s: %lld points, want %d", cases[c].name, (long long)count,
                 cases[c].want_point_count);
    for (int64_t i = 0; i < count; i++)
        if (timeline->curve_time_ns[begin + i] != cases[c].want_curve[i].time_ns ||
            timeline->curve_bytes[begin + i] != cases[c].want_curve[i].bytes)
            fail_msg("%s: point %lld is (%lld, %lld)", cases[c].name, (long long)i,
                     (long long)timeline->curve_time_ns[begin + i],
                     (long long)timeline->curve_bytes[begin + i]);
}

/* Every case as one rank of one timeline, its changes dealt out in turn. */
static void test_ranks_are_apart(void **state) {
    (void)state;
    enum { RANK_COUNT = sizeof(cases) / sizeof(cases[0]) };
    struct memory_timeline *timeline = memory_timeline_create();
    for (int round = 0; round < 3; round++) {
        memory_timeline_reset(timeline, RANK_COUNT, CLASS_COUNT);
        for (int32_t i = 0; i < 8; i++)
            for (int32_t r = 0; r < RANK_COUNT; r++)
                if (i < cases[r].count)
                    memory_timeline_add(timeline, r, cases[r].changes[i].time_ns,
                                        cases[r].changes[i].class_index, cases[r].changes[i].bytes);
        bool keep_curve = round != 1;
        memory_timeline_run(timeline, keep_curve);
        for (int32_t r = 0; r < RANK_COUNT; r++) {
            check_rank(timeline, r, (size_t)r);
            if (keep_curve) check_curve(timeline, r, (size_t)r);
        }
        if (!keep_curve) assert_int_equal(timeline->curve_begin[RANK_COUNT], 0);
    }
    memory_timeline_destroy(timeline);
}

/* Against a sum over all changes up to each instant. */
static void test_against_summing(void **state) {
    (void)state;
    enum { BUFFERS = 100, INSTANTS = 40 };
    struct memory_timeline *timeline = memory_timeline_create();
    for (uint32_t seed = 0; seed < 50; seed++) {
        struct random_mt mt;
        random_mt_seed(&mt, seed);
        int64_t held[INSTANTS] = { 0 };
        memory_timeline_reset(timeline, 1, 1);
        for (int i = 0; i < BUFFERS; i++) {
            int64_t from = random_mt_next(&mt) % INSTANTS;
            int64_t to = from + random_mt_next(&mt) % (uint32_t)(INSTANTS - from);
            int64_t bytes = random_mt_next(&mt) % 1000;
            memory_timeline_add(timeline, 0, to, 0, -bytes);
            memory_timeline_add(timeline, 0, from, 0, bytes);
            for (int64_t t = from; t < to; t++)
                held[t] += bytes;
        }
        memory_timeline_run(timeline, false);
        int64_t peak_time_ns = 0;
        for (int64_t t = 0; t < INSTANTS; t++)
            if (held[t] > held[peak_time_ns]) peak_time_ns = t;
        if (timeline->peak_bytes[0] != held[peak_time_ns] ||
            timeline->peak_time_ns[0] != peak_time_ns)
            fail_msg("seed %u: peak of %lld at %lld, want %lld at %lld", seed,
                     (long long)timeline->peak_bytes[0], (long long)timeline->peak_time_ns[0],
                     (long long)held[peak_time_ns], (long long)peak_time_ns);
    }
    memory_timeline_destroy(timeline);
}

static void test_freeing_too_much_stops_the_program(void **state) {
    (void)state;
    fflush(NULL);
    pid_t child = fork();
    assert_true(child >= 0);
    if (child == 0) {
        signal(SIGABRT, SIG_DFL); /* not cmocka's handler */
        if (freopen("/dev/null", "w", stderr) == NULL) _exit(1);
        struct memory_timeline *timeline = memory_timeline_create();
        memory_timeline_reset(timeline, 1, CLASS_COUNT);
        memory_timeline_add(timeline, 0, 0, WEIGHTS, 10);
        memory_timeline_add(timeline, 0, 5, ACTIVATIONS, -1);
        memory_timeline_run(timeline, false);
        _exit(0);
    }
    int status = 0;
    assert_int_equal(waitpid(child, &status, 0), child);
    assert_true(WIFSIGNALED(status));
    assert_int_equal(WTERMSIG(status), SIGABRT);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_ranks_are_apart),
        cmocka_unit_test(test_against_summing),
        cmocka_unit_test(test_freeing_too_much_stops_the_program),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
