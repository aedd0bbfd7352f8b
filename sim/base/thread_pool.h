/* thread_pool.h - a parallel for. Results never depend on the number of threads: each index writes
 * only its own slot, and the caller merges in index order.
 *
 *     thread_pool_run(pool, iteration_count, replay_one, &context);
 */
#ifndef BALLAST_SIM_BASE_THREAD_POOL_H
#define BALLAST_SIM_BASE_THREAD_POOL_H

#include <stdint.h>

struct thread_pool;
typedef void (*thread_pool_work)(void *context, int64_t index, int thread_index);

/* thread_count 0: one per core. One thread runs in the caller, without any other. */
struct thread_pool *thread_pool_create(int thread_count);
void thread_pool_destroy(struct thread_pool *pool);
int thread_pool_thread_count(const struct thread_pool *pool);
/* Returns when every index in [0, count) is done. Indices are handed out one by one. */
void thread_pool_run(struct thread_pool *pool, int64_t count, thread_pool_work work, void *context);

#endif
