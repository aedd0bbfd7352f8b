/* sweep_race.h - the rounds of a sweep, and what its parts share while it runs. Private to the
 * sweep.
 *
 * sweep.c opens the database, then sweep_race() (sweep_race.c) fills sweep->rows round by round,
 * then sweep_replay_best() (sweep_best.c) replays, then sweep.c marks the front and stores what
 * only the whole knows. sweep_input.c notices data that have changed between two calls. With
 * several members (sweep_team.h) each prepares and races a part of every round, and
 * sweep_exchange.c gives the others what it found: then all hold the same items and go on alike,
 * but only member 0 has the database.
 */
#ifndef BALLAST_SIM_STUDY_SWEEP_RACE_H
#define BALLAST_SIM_STUDY_SWEEP_RACE_H

#include <pthread.h>
#include "sim/base/thread_pool.h"
#include "sim/study/sweep/configuration_table.h"
#include "sim/study/sweep/sweep.h"
#include "sim/study/sweep/sweep_row.h"
#include "sim/study/sweep/sweep_team.h"

/* Large enough to keep threads busy, small enough that its scenarios fit into caches. */
enum { SWEEP_ROUND = 512 };
enum { SWEEP_NO_ROW = -1 }; /* of a configuration seen that has no row yet */

/* A sweep goes on as it was begun. Shards have only their own incumbents, so that they prune
 * less. */
enum sweep_pruning { SWEEP_PRUNES_NOT, SWEEP_PRUNES, SWEEP_PRUNES_IN_SHARDS, SWEEP_PRUNING_COUNT };

struct sweep_run {
    const struct sweep_options *options;
    struct sweep *sweep;
    struct scenario_options scenario_options; /* with the cache, without --set */
    struct thread_pool *pool;
    struct sweep_lock *lock_file;
    enum sweep_pruning pruning;
    struct sweep_share *share;
    struct configuration_table known; /* of the database at the beginning: index in sweep->rows */
    struct configuration_table seen;  /* by this call */
    struct incumbents incumbents;
    struct sweep_round_record progress; /* of the rounds so far; round_index is the next one's */
    bool launches;                      /* something of them fits and needs no code */
    int64_t stored_rounds;              /* that the database holds: those stay as they are */
    int64_t replay_count;               /* by this call */
    struct sweep_item items[SWEEP_ROUND];
    int64_t mine_begin, mine_end; /* of the items those that this member prepares and races */
    struct arena *received;       /* texts of the round's items from other members */
    int64_t inputs_given;         /* to member 0 */
    int64_t round_begin, row_capacity, rejection_capacity, input_count;
    struct sweep_input_record *inputs;
    /* rows finished and not stored yet */
    pthread_mutex_t lock;
    int64_t pending[SWEEP_ROUND], pending_count;
    double committed_s;
    bool store_failed;
    struct error store_err;
};

struct sweep_row_record *sweep_run_add_row(struct sweep_run *run,
                                           const struct sweep_row_record *row);
bool sweep_race(struct sweep_run *run, struct error *err);
/* Whether this member's items of the round rest on what the sweep was begun with; remembers what
 * they rest on. */
bool sweep_inputs_check(struct sweep_run *run, struct error *err);
bool sweep_input_check(struct sweep_run *run, const char *kind, const char *name,
                       const char *fingerprint, struct error *err);
/* How much of an input's name to show: of a data set not how it is read, a JSON object. */
int sweep_input_name_length(const char *name);
/* Gives the other members what this one knows of its items, and takes theirs; the answers too where
 * they are made. All of it is free for a team of one. */
bool sweep_exchange_items(struct sweep_run *run, int64_t count, struct error *err);
/* What the database held, from member 0 to all. */
void sweep_exchange_known(struct sweep_run *run);
/* It fits and keeps deadline and budget. */
bool sweep_row_is_candidate(const struct sweep *sweep, const struct sweep_row_record *row);
/* It leaves samples out or needs code, and others that fit do not. */
bool sweep_row_is_second_class(const struct sweep *sweep, const struct sweep_row_record *row);
/* The limit of that question alone; never if it was not given. */
bool sweep_row_keeps_limit(const struct sweep *sweep, const struct sweep_row_record *row,
                           enum sweep_question question);
/* sweep->rescaled and rescaled_for, on rows, `alike` and classes as they are now
 * (sweep_rescale.c). */
void sweep_find_rescaled(struct sweep *sweep);
/* A row's reason in the database where it is rescaled. */
#define SWEEP_RESCALED                                                                             \
    "differs in training.micro_batch alone, which packed groups have no use for, from a row that " \
    "keeps the limits where this one does not, or whose steps are nearer to what is asked for"
/* By so many characters it is known, whichever version wrote it. */
enum { SWEEP_RESCALED_BEGIN = sizeof "differs in training.micro_batch alone" - 1 };
enum { SWEEP_REPLAYS_PER_ROW = 4 };
/* The best of those only raced, in order, until as many as asked for are replayed, fit, and keep
 * deadline and budget, or so many are replayed in all: a call that was interrupted chooses the same
 * as one that was not, because its replays were the first of that order. Then what answers the
 * deadline and the budget. */
bool sweep_replay_best(struct sweep_run *run, struct error *err);

static inline bool sweep_item_is_live(const struct sweep_item *item) {
    return item->state == ITEM_NEW || item->state == ITEM_KNOWN;
}

#endif
