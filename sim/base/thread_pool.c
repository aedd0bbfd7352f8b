/* thread_pool.c - workers sleep on a condition between runs and take indices from one counter. */
#include "sim/base/thread_pool.h"

#include <pthread.h>
#include <sched.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stdlib.h>
#include <unistd.h>
#include "sim/base/arena.h"
#include "sim/base/error.h"

struct worker {
    struct thread_pool *pool;
    pthread_t thread;
    int index;
};

struct thread_pool {
    int thread_count;
    struct worker *workers; /* thread_count - 1: the caller is thread 0 */
    pthread_mutex_t mutex;
    pthread_cond_t start, done;
    uint64_t round;
    int running;
    bool busy, stopping;
    thread_pool_work work;
    void *context;
    int64_t count;
    atomic_int_least64_t next;
};

static void take_indices(struct thread_pool *pool, int thread_index) {
    for (;;) {
        int64_t index = atomic_fetch_add_explicit(&pool->next, 1, memory_order_relaxed);
        if (index >= pool->count) return;
        pool->work(pool->context, index, thread_index);
    }
}

static void *worker_main(void *argument) {
    struct worker *worker = argument;
    struct thread_pool *pool = worker->pool;
    uint64_t seen = 0;
    for (;;) {
        pthread_mutex_lock(&pool->mutex);
        while (pool->round == seen && !pool->stopping)
            pthread_cond_wait(&pool->start, &pool->mutex);
        seen = pool->round;
        bool stopping = pool->stopping;
        pthread_mutex_unlock(&pool->mutex);
        if (stopping) return NULL;
        take_indices(pool, worker->index);
        pthread_mutex_lock(&pool->mutex);
        if (--pool->running == 0) pthread_cond_signal(&pool->done);
        pthread_mutex_unlock(&pool->mutex);
    }
}

struct thread_pool *thread_pool_create(int thread_count) {
    if (thread_count <= 0) {
        /* Those that this process may use: mpirun, taskset and containers give each its own. */
        cpu_set_t usable;
        const bool known = sched_getaffinity(0, sizeof usable, &usable) == 0;
        const long cores = known ? CPU_COUNT(&usable) : sysconf(_SC_NPROCESSORS_ONLN);
        thread_count = cores > 0 ? (int)cores : 1;
    }
    struct thread_pool *pool = memory_alloc(sizeof *pool);
    *pool = (struct thread_pool){ .thread_count = 1 };
    pthread_mutex_init(&pool->mutex, NULL);
    pthread_cond_init(&pool->start, NULL);
    pthread_cond_init(&pool->done, NULL);
    pool->workers = memory_alloc(sizeof *pool->workers * (size_t)thread_count);
    for (int i = 1; i < thread_count; i++) {
        struct worker *worker = &pool->workers[i - 1];
        *worker = (struct worker){ .pool = pool, .index = i };
        /* A machine that refuses a thread makes the run slower, not wrong. */
        if (pthread_create(&worker->thread, NULL, worker_main, worker) != 0) break;
        pool->thread_count++;
    }
    return pool;
}

void thread_pool_destroy(struct thread_pool *pool) {
    if (pool == NULL) return;
    pthread_mutex_lock(&pool->mutex);
    pool->stopping = true;
    pthread_cond_broadcast(&pool->start);
    pthread_mutex_unlock(&pool->mutex);
    for (int i = 1; i < pool->thread_count; i++)
        pthread_join(pool->workers[i - 1].thread, NULL);
    pthread_mutex_destroy(&pool->mutex);
    pthread_cond_destroy(&pool->start);
    pthread_cond_destroy(&pool->done);
    free(pool->workers);
    free(pool);
}

int thread_pool_thread_count(const struct thread_pool *pool) {
    return pool->thread_count;
}

void thread_pool_run(struct thread_pool *pool, int64_t count, thread_pool_work work,
                     void *context) {
    if (count <= 0) return;
    pthread_mutex_lock(&pool->mutex);
    ballast_check(!pool->busy); /* a run inside a run would take the outer one's indices */
    pool->busy = true;
    pool->work = work;
    pool->context = context;
    pool->count = count;
    atomic_store(&pool->next, 0);
    pool->running = pool->thread_count - 1;
    pool->round++;
    pthread_cond_broadcast(&pool->start);
    pthread_mutex_unlock(&pool->mutex);
    take_indices(pool, 0);
    pthread_mutex_lock(&pool->mutex);
    while (pool->running > 0)
        pthread_cond_wait(&pool->done, &pool->mutex);
    pool->busy = false;
    pthread_mutex_unlock(&pool->mutex);
}
