/* test_thread_pool.c - every index is done once, whatever the number of threads and runs. */
#include <stdarg.h>
#include <setjmp.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>

#include <signal.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/wait.h>
#include <unistd.h>
#include "sim/base/thread_pool.h"

enum { LARGEST = 5000 };

struct tally {
    atomic_int done[LARGEST];
    atomic_int bad_thread;
    int thread_count;
};

static void count_index(void *context, int64_t index, int thread_index) {
    struct tally *tally = context;
    if (thread_index < 0 || thread_index >= tally->thread_count)
        atomic_store(&tally->bad_thread, 1);
    atomic_fetch_add(&tally->done[index], 1);
}

static void test_every_index_once(void **state) {
    (void)state;
    static const int64_t counts[] = { 0, 1, 2, 7, LARGEST, 3, -1, LARGEST, 100 };
    struct tally *tally = malloc(sizeof *tally);
    assert_non_null(tally);
    for (int threads = 1; threads <= 8; threads++) {
        struct thread_pool *pool = thread_pool_create(threads);
        assert_int_equal(thread_pool_thread_count(pool), threads);
        for (size_t run = 0; run < sizeof counts / sizeof counts[0]; run++) {
            for (int i = 0; i < LARGEST; i++)
                atomic_init(&tally->done[i], 0);
            atomic_init(&tally->bad_thread, 0);
            tally->thread_count = threads;
            thread_pool_run(pool, counts[run], count_index, tally);
            if (tally->bad_thread) fail_msg("%d threads: a thread index out of range", threads);
            for (int i = 0; i < LARGEST; i++)
                if (tally->done[i] != (i < counts[run]))
                    fail_msg("%d threads, run %zu: index %d was done %d times", threads, run, i,
                             tally->done[i]);
        }
        thread_pool_destroy(pool);
    }
    free(tally);
}

static void square(void *context, int64_t index, int thread_index) {
    (void)thread_index;
    ((int64_t *)context)[index] = index * index; /* a slot of its own: no lock needed */
}

static void test_results_are_visible_after_the_run(void **state) {
    (void)state;
    struct thread_pool *pool = thread_pool_create(4);
    for (int round = 0; round < 200; round++) {
        int64_t slots[50] = { 0 };
        thread_pool_run(pool, 50, square, slots);
        for (int64_t i = 0; i < 50; i++)
            if (slots[i] != i * i) fail_msg("round %d: slot %ld is not written", round, (long)i);
    }
    thread_pool_destroy(pool);
}

static void test_one_per_core(void **state) {
    (void)state;
    struct thread_pool *pool = thread_pool_create(0);
    assert_int_equal(thread_pool_thread_count(pool), sysconf(_SC_NPROCESSORS_ONLN));
    thread_pool_destroy(pool);
    pool = thread_pool_create(3); /* never used */
    thread_pool_destroy(pool);
    thread_pool_destroy(NULL);
}

static void run_inside(void *context, int64_t index, int thread_index) {
    (void)index, (void)thread_index;
    int64_t slots[2];
    thread_pool_run(context, 2, square, slots);
}

static void test_a_run_inside_a_run_is_a_bug(void **state) {
    (void)state;
    pid_t child = fork();
    assert_true(child >= 0);
    if (child == 0) {
        signal(SIGABRT, SIG_DFL);
        if (freopen("/dev/null", "w", stderr) == NULL) _exit(1);
        struct thread_pool *pool = thread_pool_create(1);
        thread_pool_run(pool, 2, run_inside, pool);
        _exit(0);
    }
    int status;
    assert_int_equal(waitpid(child, &status, 0), child);
    assert_true(WIFSIGNALED(status) && WTERMSIG(status) == SIGABRT);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_every_index_once),
        cmocka_unit_test(test_results_are_visible_after_the_run),
        cmocka_unit_test(test_one_per_core),
        cmocka_unit_test(test_a_run_inside_a_run_is_a_bug),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
