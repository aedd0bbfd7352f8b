/* sweep.h - prices every configuration of a sweep file and replays the best ones in full.
 *
 * The work goes in rounds of fixed size: the scenarios of a round are read (rules reject, equal
 * ones are found), what they share is made once, each is raced on the most typical iterations, rows
 * are stored as they finish. After the last round the best are replayed as far as their scenario
 * asks; where a later step runs out of memory the next best takes its place, and layouts alike go
 * with it. Then what answers the deadline and the budget is replayed, until nothing that was only
 * raced claims to answer better. Every number depends on the definition and the limits alone: not
 * on threads or interruptions.
 *
 * Pruning leaves out what cannot matter, by bounds that are never wrong: static memory beyond the
 * GPU's, or a lower bound of time, GPU-days and money at which SWEEP_TOP_LIMIT layouts of completed
 * rounds, which fit and need no more memory than its static part, are better still. Fields that
 * come to the same layout count once there, and take one replay. A shard prunes by its own rounds:
 * what it leaves out could not matter to the whole either.
 *
 *     struct sweep *sweep = sweep_run(&options, path, err);
 *     sweep->rows[sweep->best[0]].assignments ...
 *     sweep_destroy(sweep);
 */
#ifndef BALLAST_SIM_STUDY_SWEEP_H
#define BALLAST_SIM_STUDY_SWEEP_H

#include <stdatomic.h>
#include "results/store.h"
#include "sim/study/comparison.h"
#include "sim/study/execution.h"
#include "sim/study/sweep/sweep_file.h"

enum sweep_phase { SWEEP_RACE, SWEEP_REPLAY };

/* Asked by a deadline and by a budget, each without heed of the other. */
enum sweep_question { SWEEP_CHEAPEST_IN_TIME, SWEEP_FASTEST_IN_BUDGET, SWEEP_QUESTION_COUNT };

struct sweep_team; /* sweep_team.h */

struct sweep_options {
    const struct scenario_options *scenario_options;
    const struct provenance *provenance;
    struct store *store;    /* NULL: nothing is kept */
    atomic_bool *lock_held; /* of the store's sweep_lock, for who stops the process; may be NULL */
    int threads;            /* 0: one per core */
    bool prune;
    int64_t top;                      /* negative: as the file says */
    double deadline_days, budget_usd; /* NaN: as the file says */
    struct sweep_team
        *team; /* of processes that run the sweep together; only member 0 has a store */
    int64_t shard_index,
        shard_count; /* 0 of 1: all; a shard races and leaves replays to the merge */
    /* Called from the calling thread; may be NULL. */
    void (*progress)(void *context, enum sweep_phase phase, int64_t done, int64_t total);
    void *progress_context;
};

struct sweep {
    struct arena *arena;
    struct sweep_file *file;
    struct scenario_cache *cache;
    int64_t configurations, valid, duplicates, pruned;
    int64_t evaluated, resumed; /* raced by this call; found in the database */
    double race_s;              /* that they took, with reading, rejecting and sharing */
    struct sweep_rejection_record *rejections; /* by rule name */
    int64_t rejection_count;
    /* By row_index; texts but `assignments`, which is NULL until sweep_assignments(), are set. */
    struct sweep_row_record *rows;
    int64_t row_count;
    /* By row: the row that stands for it in the lists, itself unless other fields come to the same
     * layout; equal in time, cost, memory and batching. */
    int64_t *alike;
    /* By row: whether another row differs from it in training.micro_batch alone, under a policy
     * whose packed groups have no use for that, and stands for both: it keeps the limits, or its
     * steps hold more nearly the samples that are asked for. Such a row is in no list. */
    bool *rescaled;
    int64_t rescaled_count;
    bool *rescaled_for[SWEEP_QUESTION_COUNT]; /* the same by one question's limit */
    int64_t *best; /* rows that fit, deadline and budget kept, least objective first */
    int64_t best_count, top_count; /* the first top_count of them were replayed */
    struct comparison_run *top;    /* of these */
    int64_t top_wanted;            /* that were asked for; fewer where the tries were used up */
    int64_t leaving_out;           /* rows that fit and do not train all samples */
    bool all_leave_out;            /* of those that fit */
    int64_t needing_code;        /* rows that fit, train all, and no option of the backend's says */
    bool all_need_code;          /* of those */
    double memory_band_fraction; /* of best[0] */
    int64_t replays_out_of_memory; /* of layouts whose race fitted; not in `best` */
    bool answers_replayed;         /* deadline and budget are answered by replays */
    const char **assumed;          /* of best[0], notes on its data first; NULL at the end */
    const char **warnings;         /* of best[0]; NULL at the end */
};

/* Members of a team other than 0 get the raced rows, and of the replays those that they made. */
struct sweep *sweep_run(const struct sweep_options *options, const char *path, struct error *err);
void sweep_destroy(struct sweep *sweep);
/* Otherwise its figures are those of the race: of a step or two. */
bool sweep_row_is_replayed(const struct sweep_row_record *row);
/* Whether it fits on the steps that were looked at, and a heavier one of the pass may run out of
 * memory: a bound says so, which is never too low. */
bool sweep_row_may_run_out(const struct sweep_row_record *row);
/* It fits on the steps that were looked at, and nothing bounds the others: its policy plans each
 * step. */
bool sweep_row_memory_unknown(const struct sweep_row_record *row);
/* Its plan cannot be said in the backend's own options (`reason`: the first refusal of plan --emit,
 * launch_flags.h). */
bool sweep_row_needs_code(const struct sweep_row_record *row);
/* That its verdict is about: replayed, the likely peak of the training. */
int64_t sweep_row_memory_bytes(const struct sweep_row_record *row);
/* It would fit if memory were the band's width more. */
bool sweep_row_is_roomy(const struct sweep *sweep, const struct sweep_row_record *row);
/* Whether it is one of those to choose from: it fits, stands for itself, leaves no samples out
 * unless all do, because what trains less takes less time, and its backend can be told to run it,
 * unless none can. */
bool sweep_row_counts(const struct sweep *sweep, int64_t row);
/* The row that answers it; -1: no limit was given, or none keeps it. Cheapest: least money,
 * GPU-days without prices. */
int64_t sweep_answer(const struct sweep *sweep, enum sweep_question question);
/* The same of those that are roomy, raced ones too. */
int64_t sweep_roomy_answer(const struct sweep *sweep, enum sweep_question question);
/* "h100-80g-sxm": what the sweep varies of the kind of GPU, "" where it varies none. */
const char *sweep_gpu_kind(struct sweep *sweep, int64_t row);
/* JSON text of a row's assignments, in the sweep's arena. */
const char *sweep_assignments(struct sweep *sweep, int64_t row);
/* "tp 2, pp 4, recompute none": the same in words. */
const char *sweep_label(struct sweep *sweep, int64_t row);
/* The value that the objective has least of. */
double sweep_objective_value(const struct sweep *sweep, const struct sweep_row_record *row);

/* Adds the sweeps of a shard's database to another; rows may stand in both. *row_count grows by the
 * new ones. To be called between store_begin() and store_end() of `into`, so that all parts are
 * merged or none; after a false the caller closes it. */
bool sweep_merge(struct store *into, struct store *from, int64_t *row_count, struct error *err);

#endif
