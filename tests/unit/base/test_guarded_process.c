/* test_guarded_process.c - whatever the work does, the caller comes back in time with what was told
 * last. */
#include <stdarg.h>
#include <setjmp.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>

#include <signal.h>
#include <stdbool.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>
#include "sim/base/guarded_process.h"
#include "sim/base/thread_pool.h"

struct report {
    int64_t value;
    char rest[GUARDED_REPORT_BYTES - sizeof(int64_t)];
};

static double wall_s(void) {
    struct timespec now;
    clock_gettime(CLOCK_MONOTONIC, &now);
    return (double)now.tv_sec + (double)now.tv_nsec * 1e-9;
}

static void tell(struct guarded_process *guard, int64_t value) {
    struct report report = { .value = value };
    memset(report.rest, (int)value, sizeof report.rest);
    guarded_process_tell(guard, &report);
}

static int counter;

static void count(void *context, struct guarded_process *guard) {
    counter = 77; /* its own copy */
    for (int64_t i = 1; i <= *(int64_t *)context; i++)
        tell(guard, i);
}

static void say_nothing(void *context, struct guarded_process *guard) {
    (void)context, (void)guard;
}

static void tell_and_hang(void *context, struct guarded_process *guard) {
    tell(guard, *(int64_t *)context);
    signal(SIGTERM, SIG_IGN);
    for (;;) sleep(1000);
}

static void tell_and_spin(void *context, struct guarded_process *guard) {
    for (;;) tell(guard, *(int64_t *)context);
}

static void tell_and_crash(void *context, struct guarded_process *guard) {
    tell(guard, *(int64_t *)context);
    raise(SIGKILL);
}

static void tell_and_exit(void *context, struct guarded_process *guard) {
    tell(guard, *(int64_t *)context);
    _exit(0);
}

static const struct {
    const char *name;
    guarded_work work;
    int64_t asked, want_value;
    double limit_s, most_s;
    enum guarded_end want_end;
} cases[] = {
    { "returns", count, 5000, 5000, 60, 30, GUARDED_DONE },
    { "says nothing", say_nothing, 0, -1, 60, 30, GUARDED_DONE },
    { "hangs", tell_and_hang, 42, 42, 0.3, 20, GUARDED_KILLED },
    { "tells without end", tell_and_spin, 43, 43, 0.3, 20, GUARDED_KILLED },
    { "crashes", tell_and_crash, 44, 44, 60, 30, GUARDED_CRASHED },
    { "exits", tell_and_exit, 45, 45, 60, 30, GUARDED_CRASHED },
};
enum { CASES = sizeof cases / sizeof cases[0] };

static void test_ends(void **state) {
    (void)state;
    for (int i = 0; i < CASES; i++) {
        struct report report = { .value = -1 };
        int64_t asked = cases[i].asked;
        double start = wall_s();
        enum guarded_end end =
            guarded_process_run(cases[i].work, &asked, cases[i].limit_s, &report, sizeof report);
        double took_s = wall_s() - start;
        if (end != cases[i].want_end || report.value != cases[i].want_value)
            fail_msg("%s: end %d, want %d; told %ld, want %ld", cases[i].name, (int)end,
                     (int)cases[i].want_end, (long)report.value, (long)cases[i].want_value);
        if (took_s > cases[i].most_s) fail_msg("%s: came back after %.1f s", cases[i].name, took_s);
        if (end == GUARDED_KILLED && took_s < cases[i].limit_s)
            fail_msg("%s: killed before its limit, after %.3f s", cases[i].name, took_s);
    }
    assert_int_equal(counter, 0);
    assert_int_equal(waitpid(-1, NULL, WNOHANG), -1); /* no child is left, not even a dead one */
}

static void hang_up_and_tell(void *context, struct guarded_process *guard) {
    raise(SIGHUP);
    tell(guard, *(int64_t *)context);
}

/* What the caller ignores its child ignores (nohup); where no child is waited for, a crash is
 * noticed. */
static void test_ignored_signals(void **state) {
    (void)state;
    struct report report = { .value = -1 };
    int64_t asked = 51;
    signal(SIGHUP, SIG_IGN);
    assert_int_equal(guarded_process_run(hang_up_and_tell, &asked, 60, &report, sizeof report),
                     GUARDED_DONE);
    assert_int_equal(report.value, 51);
    signal(SIGHUP, SIG_DFL);
    report.value = -1;
    assert_int_equal(guarded_process_run(hang_up_and_tell, &asked, 60, &report, sizeof report),
                     GUARDED_CRASHED);
    assert_int_equal(report.value, -1);

    signal(SIGCHLD, SIG_IGN);
    double start = wall_s();
    assert_int_equal(guarded_process_run(tell_and_crash, &asked, 60, &report, sizeof report),
                     GUARDED_CRASHED);
    assert_int_equal(report.value, 51);
    if (wall_s() - start > 30) fail_msg("noticed after %.1f s", wall_s() - start);
    signal(SIGCHLD, SIG_DFL);
}

struct slot {
    struct report report;
    enum guarded_end end;
};

static void run_one(void *context, int64_t index, int thread_index) {
    (void)thread_index;
    struct slot *slot = (struct slot *)context + index;
    int64_t asked = 100 + index;
    double limit_s = cases[index % CASES].limit_s;
    slot->end = guarded_process_run(cases[index % CASES].work, &asked, limit_s, &slot->report,
                                    sizeof slot->report);
}

/* Several threads at once: nobody waits for another's child or hears what it tells. */
static void test_threads(void **state) {
    (void)state;
    enum { RUNS = 4 * CASES };
    struct slot *slots = calloc(RUNS, sizeof *slots);
    struct thread_pool *pool = thread_pool_create(6);
    double start = wall_s();
    thread_pool_run(pool, RUNS, run_one, slots);
    if (wall_s() - start > 60) fail_msg("%.1f s", wall_s() - start);
    thread_pool_destroy(pool);
    for (int i = 0; i < RUNS; i++) {
        int64_t want = cases[i % CASES].work == say_nothing ? 0 : 100 + i;
        if (slots[i].end != cases[i % CASES].want_end || slots[i].report.value != want)
            fail_msg("run %d (%s): end %d, told %ld", i, cases[i % CASES].name, (int)slots[i].end,
                     (long)slots[i].report.value);
    }
    free(slots);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_ends),
        cmocka_unit_test(test_threads),
        cmocka_unit_test(test_ignored_signals),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
