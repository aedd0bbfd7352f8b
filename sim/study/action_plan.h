/* action_plan.h - one iteration of one data-parallel rank as lists of actions, a list per pipeline
 * rank (DIP, section 6.3), and the JSON that carries them.
 *
 *     struct action_plan *plan = action_plan_make(arena, job, iteration, dp_rank, err);
 *     cJSON *json = action_plan_json(plan);      // the caller deletes it
 *
 * Actions: fw_stage and bw_stage run a pass, with the number of blocks that recompute in each way
 * and of those whose activations wait in host memory meanwhile; isend and irecv post a message and
 * return at once; wait_isend and wait_irecv wait for it. A rank executes its list one after
 * another. A receive is posted before the pass that stands before its use, so that it goes on
 * beside that pass; a send is waited for before the next one to the same rank in the same
 * direction.
 */
#ifndef BALLAST_SIM_STUDY_ACTION_PLAN_H
#define BALLAST_SIM_STUDY_ACTION_PLAN_H

#include "sim/replay/job.h"

enum action_kind {
    ACTION_FORWARD,
    ACTION_BACKWARD,
    ACTION_ISEND,
    ACTION_IRECV,
    ACTION_WAIT_ISEND,
    ACTION_WAIT_IRECV,
    ACTION_KIND_COUNT
};
const char *action_name(enum action_kind kind); /* "fw_stage" */

struct action {
    enum action_kind kind;
    int64_t chunk, micro_batch, sub; /* of the pass; of messages, of the pass that sends */
    bool backward;                   /* of messages: a gradient */
    int64_t peer;                    /* of messages: the other rank */
    int64_t start_ns, finish_ns;     /* of passes; of isend: when it arrives, in finish_ns */
    double activation_bytes, workspace_bytes, host_bytes; /* of passes */
    struct pass_choice blocks;                            /* of passes */
};

struct action_plan {
    const struct job *job;
    int64_t iteration, dp_rank, rank_count, micro_batch_count;
    int64_t makespan_ns, bound_ns; /* bound 0: the policy gives none */
    double planner_s;
    int64_t *units;          /* [module x micro_batch_count + micro-batch] */
    struct action **actions; /* by rank */
    int64_t *action_count;
    double *capacity_bytes;     /* by rank, for activations and workspace */
    double host_capacity_bytes; /* of each rank, for offloaded activations; may be INFINITY */
};

struct action_plan *action_plan_make(struct arena *arena, const struct job *job, int64_t iteration,
                                     int64_t dp_rank, struct error *err);
cJSON *action_plan_json(const struct action_plan *plan);

#endif
