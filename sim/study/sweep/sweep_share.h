/* sweep_share.h - what configurations of a sweep have in common, made once.
 *
 * Data sets, micro-batches of the raced iterations, and layer times of those micro-batches on a
 * layout. Asking is for one thread; what was made is read by many.
 *
 *     struct shared *data = sweep_share_data(share, scenario);
 *     sweep_share_fill(share, SHARE_DATA, pool); // makes all of them that are missing
 *     if (data->job == NULL) ...                 // data->err says why
 */
#ifndef BALLAST_SIM_STUDY_SWEEP_SHARE_H
#define BALLAST_SIM_STUDY_SWEEP_SHARE_H

#include "sim/base/thread_pool.h"
#include "sim/replay/job.h"

enum share_kind {
    SHARE_DATA,    /* job_load() */
    SHARE_BATCHES, /* job_batch(), the raced iterations only */
    SHARE_PRICES,  /* a price table of those micro-batches */
    SHARE_KIND_COUNT
};

struct shared {
    const char *key;
    enum share_kind kind;
    struct shared *data, *batches;   /* that this rests on */
    const struct scenario *scenario; /* that it is made from; only while it is made */
    bool done;
    struct error err; /* why there is none */
    struct job *job;  /* of data and batches */
    struct arena *arena;
    struct price_table *prices;
    int64_t work_ns; /* of the busiest rank and iteration, all stages: a lower bound */
    int64_t used_round;
    bool checked; /* the sweep's: its data are those that the sweep was begun with */
};

struct sweep_share;

struct sweep_share *sweep_share_create(int64_t race_iterations);
void sweep_share_destroy(struct sweep_share *share);
/* Finds or announces the thing; `scenario` must live until sweep_share_fill(). */
struct shared *sweep_share_data(struct sweep_share *share, const struct scenario *scenario);
struct shared *sweep_share_batches(struct sweep_share *share, const struct scenario *scenario,
                                   struct shared *data);
struct shared *sweep_share_prices(struct sweep_share *share, const struct scenario *scenario,
                                  struct shared *batches);
/* Makes all that was announced of one kind; what rests on failed things fails for the same
 * reason. */
void sweep_share_fill(struct sweep_share *share, enum share_kind kind, struct thread_pool *pool);
/* Forgets price tables that were not used for long, when there are many. Between rounds. */
void sweep_share_end_round(struct sweep_share *share);

#endif
