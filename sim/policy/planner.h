/* planner.h - what a policy decides, and what it may ask while deciding.
 *
 * A planner fills the fields of the plan that it is responsible for and leaves the rest as it finds
 * them, so any mix is legal and an ablation is a list of mixes. It sees the oracle, not the
 * simulator behind it: prices, memory, and a full simulation of a candidate plan.
 *
 *     planner->plan_job(&oracle, parameters, &plan, err);            // once per job
 *     planner->plan_iteration(&oracle, parameters, &plan, it, err);  // once per iteration;
 * optional
 *
 * One policy is one file and one row in the table of its slot.
 *
 * A joint policy fills several slots: its preset names the policies that they take unless the
 * scenario names its own, or says that its own plan_job fills them. Plans are made in the order
 * partition, recompute, joint; the joint one may also change how many parts the model is cut into.
 */
#ifndef BALLAST_SIM_POLICY_PLANNER_H
#define BALLAST_SIM_POLICY_PLANNER_H

#include "sim/base/field.h"
#include "sim/layout/layout.h"
#include "sim/model/model.h"
#include "sim/policy/schedule/schedule.h"

/* Consecutive chunks, on every stage, that hold one module and run it in sub-microbatches of its
 * own size. A micro-batch's sub-microbatches of one module all come before those of the next. */
struct plan_module {
    int64_t first_chunk, chunk_count;
    int64_t sub_batch; /* images of a sub-microbatch at most; 0: whole micro-batches */
    bool clips;        /* it counts video clips, not images */
};

/* The static plan: which layers stand on which stage, which of them recompute, in which order
 * micro-batches run. All arrays are in the arena of the job. */
struct job_plan {
    int64_t stage_count;
    int64_t chunk_count;  /* model chunks on each stage; 1 without interleaving */
    int64_t part_count;   /* stage_count x chunk_count; part p stands on stage p % stage_count */
    int64_t *first_layer; /* part p holds layers [first_layer[p], first_layer[p + 1]) */
    /* by layer: what it drops and computes again in backward. Two values for most: none, full */
    enum recompute_kind *recompute;
    const struct schedule_policy *schedule;
    /* A modality-aware plan: the modules in order, all chunks together. 0: one that does not
     * split. */
    struct plan_module *modules;
    int64_t module_count;
};

/* Equal transformer blocks of a pass: what one of them adds to the backward and keeps, by
 * recomputation; its passes without; one copy of what it keeps to host memory or back. */
struct pass_group {
    int64_t blocks;
    int64_t recompute_ns[RECOMPUTE_KIND_COUNT];
    double block_bytes[RECOMPUTE_KIND_COUNT];
    int64_t forward_ns, backward_ns, copy_ns[RECOMPUTE_KIND_COUNT];
};
enum { PASS_GROUP_LIMIT = 4 };

/* One sub-microbatch on one part, as the plan has it, for planners of iterations. */
struct pass_cost {
    int64_t forward_ns, backward_ns;           /* recomputation in the backward */
    int64_t send_forward_ns, send_backward_ns; /* 0 where nothing is sent */
    double activation_bytes, workspace_bytes;
    /* its transformer blocks, kind by kind; a plan whose modules share segments has parts of
     * several */
    int32_t group_count;
    struct pass_group groups[PASS_GROUP_LIMIT];
};

/* What all blocks together add to the backward and keep when all recompute so. */
static inline int64_t pass_cost_recompute_ns(const struct pass_cost *cost,
                                             enum recompute_kind how) {
    int64_t ns = 0;
    for (int32_t g = 0; g < cost->group_count; g++)
        ns += cost->groups[g].blocks * cost->groups[g].recompute_ns[how];
    return ns;
}
static inline double pass_cost_block_bytes(const struct pass_cost *cost, enum recompute_kind how) {
    double bytes = 0;
    for (int32_t g = 0; g < cost->group_count; g++)
        bytes += (double)cost->groups[g].blocks * cost->groups[g].block_bytes[how];
    return bytes;
}

/* How many of a pass's blocks of each kind recompute in each way, this time; of them, those whose
 * kept bytes wait in host memory; and what every pass of the rank holds for copies beside it. */
struct pass_choice {
    int16_t blocks[PASS_GROUP_LIMIT][RECOMPUTE_KIND_COUNT];
    int16_t offloaded[PASS_GROUP_LIMIT][RECOMPUTE_KIND_COUNT];
    double buffer_bytes;
};

/* Copies that take longer than the blocks they hide beside. */
static inline void pass_cost_exposed(const struct pass_cost *cost, const struct pass_choice *choice,
                                     int64_t *forward_ns, int64_t *backward_ns) {
    int64_t copies = 0, forward = 0, backward = 0;
    for (int32_t g = 0; g < cost->group_count; g++) {
        const struct pass_group *group = &cost->groups[g];
        forward += group->blocks * group->forward_ns;
        backward += group->blocks * group->backward_ns;
        for (int how = 0; how < RECOMPUTE_KIND_COUNT; how++) {
            backward += choice->blocks[g][how] * group->recompute_ns[how];
            copies += choice->offloaded[g][how] * group->copy_ns[how];
        }
    }
    *forward_ns = copies > forward ? copies - forward : 0;
    *backward_ns = copies > backward ? copies - backward : 0;
}

/* false: the pass is as the plan has it. */
static inline bool pass_choice_given(const struct pass_choice *choice) {
    int64_t blocks = 0;
    for (int32_t g = 0; g < PASS_GROUP_LIMIT; g++)
        for (int how = 0; how < RECOMPUTE_KIND_COUNT; how++)
            blocks += choice->blocks[g][how];
    return blocks > 0;
}

/* One iteration of one data-parallel rank. */
struct iteration_plan {
    struct arena *scratch; /* for the planner; emptied before each call, one per thread */
    int64_t micro_batch_count;
    const struct batch_shape *shapes; /* by micro-batch */
    struct schedule_entry *entries;   /* stage after stage, schedule_entry_count() each */
    /* For plan_iteration; NULL elsewhere. Sub-microbatch k of micro-batch m in module i is unit
     * units[i x (micro_batch_count + 1) + m] + k; a module that takes no part in a micro-batch has
     * no unit for it. On part p it is cell cell_first[p] + unit. */
    const int32_t *units;
    const int64_t *cell_first;
    const struct pass_cost *costs;           /* by cell */
    const double *activation_capacity_bytes; /* by stage: for activations and workspace */
    double host_capacity_bytes;              /* of each rank, for offloaded activations; may be
                                              * INFINITY */
    struct pass_choice *choices;             /* by cell; left at 0: as plan->recompute has it */
    int64_t entry_count;                     /* of each stage */
    int64_t enough_ns; /* another rank of the step takes as long: no faster order helps; 0: none */
    /* out: what the planner found, for the record */
    int64_t bound_ns, planned_ns; /* no order is faster; what it expects */
    double planner_s;             /* its wall time */
    bool timed;                   /* a wall-time budget ended it: another run may differ */
    bool left;                    /* enough_ns ended it: it might find a faster order */
};

/* One micro-batch on one part of the model. Recomputation and gradient accumulation are part of the
 * backward; sends are apart. */
struct planner_part_cost {
    double forward_seconds, backward_seconds, send_forward_seconds, send_backward_seconds;
};

/* What a simulated iteration of one data-parallel rank took; arrays have stage_count entries and
 * may be NULL. */
struct planner_outcome {
    double seconds;       /* pipeline alone: without gradient reduction and update */
    double *busy_seconds; /* passes, and sends that block compute */
    double *bytes;        /* at the peak, context included: compare with capacity_bytes */
};

/* Unless it says otherwise, a call is for plan_job only. Calls for plan_iteration too change
 * nothing, so threads may make them at once, but know the shapes of the job alone and those that
 * `prepare` was given. */
struct planner_oracle {
    void *context;
    struct arena *arena;
    const struct model *model;
    const struct layout *layout;
    int64_t micro_batch_count;  /* per data-parallel rank and iteration */
    struct batch_shape typical; /* mean micro-batch of the job */
    struct batch_shape largest; /* each size the largest of all micro-batches */
    /* The first data-parallel rank's micro-batches, iteration after iteration. */
    const struct batch_shape *shapes;
    int64_t shape_count;
    /* Seconds of one layer on one rank, tensor-parallel traffic included. */
    double (*layer_seconds)(void *context, int64_t layer_index, const struct batch_shape *shape,
                            enum pass_set set);
    /* Bytes of one rank of the stage at its peak when every micro-batch has this shape. */
    double (*stage_bytes)(void *context, const struct job_plan *plan, int64_t stage,
                          const struct batch_shape *shape);
    double capacity_bytes; /* of a GPU, context included; compare with stage_bytes */
    /* Decides what the plan leaves to the job's later policies (a partition policy: which blocks
     * recompute), so that a candidate is timed as it would run. stage -1: all; otherwise at least
     * of that stage, whatever the others hold. */
    bool (*complete)(void *context, struct job_plan *plan, int64_t stage, struct error *err);
    /* One micro-batch on one part under the plan. */
    void (*part_cost)(void *context, const struct job_plan *plan, int64_t part,
                      const struct batch_shape *shape, struct planner_part_cost *cost);
    /* Full simulation of one iteration of `typical` micro-batches under the plan. */
    bool (*simulate)(void *context, const struct job_plan *plan, double *seconds,
                     struct error *err);
    /* Prices shapes that are not the job's, for the calls below and for layer_seconds. */
    void (*prepare)(void *context, const struct batch_shape *shapes, int64_t count);
    /* Full simulation of one iteration of the shapes given, in the order of iteration->entries
     * (NULL: in that of plan->schedule). For plan_iteration too. */
    bool (*simulate_iteration)(void *context, const struct job_plan *plan,
                               const struct iteration_plan *iteration,
                               struct planner_outcome *outcome, struct error *err);
    /* Bytes that one rank keeps of a layer from its forward to its backward, and what it needs on
     * top while it computes. For plan_iteration too. */
    double (*layer_saved_bytes)(void *context, int64_t layer_index, const struct batch_shape *shape,
                                bool recompute);
    double (*layer_workspace_bytes)(void *context, int64_t layer_index,
                                    const struct batch_shape *shape);
    /* Seconds to send what a layer puts out over the link after a stage; the gradient of it takes
     * as long on its way back. For plan_iteration too. */
    double (*send_seconds)(void *context, int64_t stage, int64_t layer_index,
                           const struct batch_shape *shape);
    bool send_blocks_compute; /* a send occupies the sender's compute stream */
};

/* What the slots beside a joint policy hold: a policy's name, NULL for the default of the slot, or
 * PLANNER_ITSELF where the joint policy's plan_job decides. Its check sees the model cut into
 * pp x vpp parts. */
#define PLANNER_ITSELF ""
struct planner_preset {
    const char *batching, *partition, *recompute, *schedule;
    bool chunks; /* plan_job says how many chunks a stage has: layout.vpp must not */
};

enum planner_slot { PLANNER_PARTITION, PLANNER_RECOMPUTE, PLANNER_JOINT, PLANNER_SLOT_COUNT };

struct planner {
    const char *name;
    const char *help;
    enum planner_slot slot;
    const struct field_table *parameters;
    size_t parameters_size;
    const struct planner_preset *preset; /* of joint policies; NULL: defaults */
    bool needs_stages; /* schedules a pipeline: its plan_job is asked with layout.pp >= 2 alone */
    /* Checks parameters against model and layout while the scenario is read; optional. Errors come
     * without position: the caller adds it. */
    bool (*check)(const struct model *model, int64_t part_count, const void *parameters,
                  struct error *err);
    /* Joint policies may leave it out: their preset is the plan. */
    bool (*plan_job)(const struct planner_oracle *oracle, const void *parameters,
                     struct job_plan *plan, struct error *err);
    /* Optional, of recompute policies: decides one stage as plan_job would, whatever is on the
     * others. One chunk a stage. */
    bool (*plan_stage)(const struct planner_oracle *oracle, const void *parameters,
                       struct job_plan *plan, int64_t stage, struct error *err);
    /* Optional: NULL keeps the static order of plan->schedule. Called by several threads at once;
     * the oracle may then be asked only for prices of the iteration's own shapes. */
    bool (*plan_iteration)(const struct planner_oracle *oracle, const void *parameters,
                           const struct job_plan *plan, struct iteration_plan *iteration,
                           struct error *err);
};

/* The table, sorted by slot and name. */
const struct planner *const *planners(size_t *count);
const struct planner *planner_find(enum planner_slot slot, const char *name); /* NULL: unknown */
/* Adds a row of a plug-in, found by name but not listed; it stays. Before any other thread starts.
 * False: there is no room. */
bool planner_register(const struct planner *planner);
/* The nearest name in the slot, or all of them, as a hint. */
const char *planner_hint(struct arena *arena, enum planner_slot slot, const char *name);
const char *planner_slot_name(enum planner_slot slot);

#endif
