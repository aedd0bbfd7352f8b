/* step.h - one optimizer step: plan x micro-batches x prices -> task graph -> times and memory.
 *
 * struct step_model is everything about a job that does not change between iterations. It is
 * read-only while steps run; each thread owns a step_runner with the buffers.
 *
 *     struct step_model *m = step_model_create(arena, scenario, &plan, prices);
 *     struct step_runner *r = step_runner_create(m);
 *     step_run_rank(r, FIDELITY_STAGE, shapes, micro_batch_count, &outcome, err);
 *
 * Stage fidelity runs the pipeline over sums of layer times; operator fidelity puts every operator
 * on one engine, where traffic that leaves a node at the same time shares its NICs. Where nothing
 * is shared both give the same nanosecond.
 */
#ifndef BALLAST_SIM_STEP_STEP_H
#define BALLAST_SIM_STEP_STEP_H

#include "sim/engine/engine.h"
#include "sim/step/muon.h"
#include "sim/step/offload.h"
#include "sim/step/slowness.h"
#include "sim/step/price_table.h"

enum fidelity { FIDELITY_STAGE, FIDELITY_OPERATOR };

/* Memory of one rank, by what it holds. Allocated: up to workspace. Reserved adds what the
 * framework's caching allocator keeps but does not use. Device adds what lives outside it. */
enum memory_class {
    MEMORY_WEIGHTS,
    MEMORY_GRADIENTS,
    MEMORY_OPTIMIZER,
    MEMORY_ACTIVATIONS,
    MEMORY_WORKSPACE,
    MEMORY_FRAGMENTATION,
    MEMORY_COMMUNICATION,
    MEMORY_CONTEXT,
    MEMORY_CLASS_COUNT
};
const char *memory_class_name(enum memory_class class);

struct stage_memory {
    double bytes[MEMORY_CLASS_COUNT]; /* at the peak of the rank */
};
double stage_memory_allocated(const struct stage_memory *memory);
/* What the allocator keeps over what is allocated: no moments, see step_settle_memory(). */
void stage_memory_add_fragmentation(struct stage_memory *memory, double reserved_fraction);
double stage_memory_reserved(const struct stage_memory *memory);
double stage_memory_device(const struct stage_memory *memory);

/* Where busy time goes; the classes do not overlap. Time spent on padded language tokens, of
 * whatever kind, is padding. */
enum time_class {
    TIME_COMPUTE,
    TIME_COMMUNICATION, /* tensor-parallel, exposed */
    TIME_CONTEXT,       /* context-parallel, exposed */
    TIME_HOST_COPY,     /* kept activations to the host and back, exposed */
    TIME_RECOMPUTE,
    TIME_PADDING,
    TIME_SEND,   /* sends that block compute */
    TIME_DATA,   /* ZeRO-2 and 3: gathers and reductions that compute waits for */
    TIME_WAIT,   /* ZeRO-2 and 3: for slower data-parallel ranks, layer by layer */
    TIME_LAUNCH, /* for the host's launches, of padded tokens as well */
    TIME_CLASS_COUNT
};

/* One micro-batch on one part of the model: a stage, or one of its chunks when interleaved. */
struct stage_cost {
    int64_t forward_ns, backward_ns; /* recomputation is part of backward_ns */
    int64_t recompute_ns;            /* inside backward_ns, its communication included */
    int64_t send_forward_ns, send_backward_ns;
    /* of the passes, what runs again included: waiting for the host's launches */
    int64_t forward_wait_ns, backward_wait_ns;
    double class_ns[TIME_CLASS_COUNT]; /* sums to both passes; sends apart */
    double activation_bytes;           /* live between forward and backward */
    double workspace_bytes;            /* on top, while the backward runs */
    double host_bytes;                 /* offloaded by a planner's choice, likewise live */
    /* of the loss: its part of activation_bytes is gone before any block's backward */
    double loss_bytes, loss_workspace_bytes;
};

/* When the host's launches hide behind what the device does. */
enum launch_hiding step_launch_hiding(const struct scenario *scenario);

enum { PART_KINDS = LAYER_KIND_COUNT + 1 };

struct step_model {
    const struct scenario *scenario;
    const struct job_plan *plan;
    const struct price_table *prices;
    int64_t stage_count, chunk_count, part_count; /* as in struct job_plan */
    int64_t module_count;                         /* of the plan; 1 for one that does not split */
    int64_t *module_of_chunk;
    /* layers of each kind on each part: [part x LAYER_KIND_COUNT + kind]; of them, those that
     * recompute so: [(part x LAYER_KIND_COUNT + kind) x RECOMPUTE_KIND_COUNT + how] */
    int64_t *layers, *recomputing;
    /* by layer whose activations wait in host memory: blocks that its copies run beside; else 0 */
    int64_t *offload_window;
    bool has_ruled_layers; /* some block is priced apart from its kind */
    /* Of what is read from the prices, in a copy of the model: without waits for launches, on a GPU
     * that computes so many times as slowly; false and 1 otherwise. */
    bool launched;
    double slow_factor;
    enum layer_kind *last_kind; /* kind of the part's last layer: what a cut sends */
    enum layer_kind
        *kinds;     /* of each part's layers, up to LAYER_KIND_COUNT: [part x PART_KINDS + n] */
    int64_t *alike; /* by part: the first that costs every micro-batch the same but for its sends */
    /* in the whole model, by kind: layers, and those whose backward repeats some of the forward */
    double kind_layers[LAYER_KIND_COUNT], kind_recomputing[LAYER_KIND_COUNT][RECOMPUTE_KIND_COUNT];
    int64_t *rank_parameters, *trainable_rank_parameters; /* by stage */
    int64_t *part_parameters, *trainable_part_parameters;
    double *part_gather_saves; /* bytes less of the parameters that are gathered as cast */
    double *weight_bytes, *trainable_weight_bytes; /* of them, as the kernels read them */
    double *gathered_bytes;             /* of what ZeRO-1 gathers, or FSDP in a pipeline */
    struct stage_memory *static_memory; /* classes that do not change during a step */
    double *late_gradient_bytes;        /* by stage: not there at the loss */
    double *gathered_weight_bytes;      /* by stage: not there at the update */
    double *update_bytes;               /* by stage: what the update holds besides its states */
    int64_t *accumulate_ns;  /* per part: adding a micro-batch's gradients and copies around sharded
                               collectives, part of its backward */
    int64_t *synchronize_ns; /* per stage: gradient reduction */
    /* ZeRO-2 and 3 (one stage): the blocks as units; NULL otherwise */
    bool sharded;
    int64_t *unit_layer, unit_count;
    int64_t *unit_gather_ns, *unit_again_ns, *unit_reduce_ns; /* by unit; again: for the backward */
    int64_t root_gather_ns, root_reduce_ns, reduce_copy_ns; /* copies: where reduced once a step */
    int64_t head_gather_ns;        /* of a head that gathers its weight for each chunk; else 0 */
    double root_bytes, unit_bytes; /* gathered, of a unit the most */
    /* FSDP, while a block runs backward: its whole gradient, as wide as its weights, and that of
     * the block before it in the precision of the reduction, on its way */
    double unit_gradient_bytes;
    double gather_moving, reduce_moving; /* shares that slow the compute beside (outer_price.h) */
    /* Orders each iteration anew instead of plan->schedule's static order; NULL: none. Set after
     * creation by whoever owns the oracle. */
    const struct planner *iteration_planner;
    const void *iteration_parameters;
    const struct planner_oracle *oracle;
    struct outer_list
        *record; /* writes down prices outside of layers (outer_operators.h); NULL: no */
    struct muon_stage *muon;           /* per stage: matrices that are orthogonalised */
    int64_t *optimizer_ns, *gather_ns; /* per stage: update, and ZeRO-1 and 2 parameter gather */
    double *synchronize_moving,
        *update_moving; /* per stage: shares of reduction and gather that slow
                                                   the compute beside (outer_price.h) */
    int64_t update_ns;  /* both, on the slowest stage, nothing hidden */
};

struct outer_list;
/* Writes down all that the model priced outside of layers, sends and host copies apart. */
void step_model_record(const struct step_model *model, struct arena *arena,
                       struct outer_list *list);
/* Sharded gradients that are reduced behind the last micro-batch alone. */
bool step_reduces_once(const struct step_model *model);
bool step_part_has_backward(const struct step_model *model, int64_t part);
/* Of a stage whose memory holds the classes of m->static_memory and what its passes keep: without
 * the gradients that come later, whose blocks of the step before the allocator keeps. */
void step_pass_memory(const struct step_model *m, int64_t stage, struct stage_memory *memory);
/* Of a stage whose memory holds the classes of m->static_memory and the most that its passes keep:
 * the moment at which most is allocated, the passes before any gradient, the end of the last or the
 * update, and what the allocator reserves over the step. Blocks of gradients that were freed stay
 * reserved: they are too small for activations (PyTorch's caching allocator). */
void step_settle_memory(const struct step_model *m, int64_t stage, struct stage_memory *memory);

struct step_model *step_model_create(struct arena *arena, const struct scenario *scenario,
                                     const struct job_plan *plan, const struct price_table *prices);
/* Layer times of a micro-batch, once for all stages; then the sums of one part. `locked`: times of
 * the slowest rank when collectives hold the ranks together (ZeRO-2 and 3), else NULL. */
void step_layer_times(const struct step_model *model, const struct batch_shape *shape,
                      struct layer_time times[LAYER_KIND_COUNT]);
/* One layer on a GPU that computes `factor` times as slowly, its group waiting for it; and on a rank
 * that takes so many times as long, whatever holds it up. */
void layer_time_slow(struct layer_time *time, double factor, enum launch_hiding hiding);
void layer_time_straggle(struct layer_time *time, double factor);
/* step_layer_times() where those of kinds that the model has not are 0 already. */
void step_layer_times_again(const struct step_model *model, const struct batch_shape *shape,
                            struct layer_time times[LAYER_KIND_COUNT]);
void step_stage_cost(const struct step_model *model, int64_t part, const struct batch_shape *shape,
                     const struct layer_time times[LAYER_KIND_COUNT],
                     const struct layer_time locked[LAYER_KIND_COUNT], struct stage_cost *cost);
/* The same with so many of the part's blocks recomputing in each way; NULL or all 0: as the
 * plan. */
void step_stage_cost_as(const struct step_model *model, int64_t part,
                        const struct batch_shape *shape,
                        const struct layer_time times[LAYER_KIND_COUNT],
                        const struct layer_time locked[LAYER_KIND_COUNT],
                        const struct pass_choice *choice, struct stage_cost *cost);
/* Of a cost, only what the part's sends take: the rest is that of the part that is alike. */
void step_stage_sends(const struct step_model *model, int64_t part,
                      const struct layer_time times[LAYER_KIND_COUNT], struct stage_cost *cost);
/* Sub-microbatches of a micro-batch in a module of the plan; 0 where it has nothing to do there. */
int64_t step_unit_count(const struct step_model *model, int64_t module,
                        const struct batch_shape *shape);
/* How the blocks of a part recompute by the plan; how many there are and what each way costs and
 * keeps. */
void step_planned_blocks(const struct step_model *model, int64_t part, struct pass_choice *blocks);
void step_block_options(const struct step_model *model, int64_t part,
                        const struct layer_time times[LAYER_KIND_COUNT], struct pass_cost *pass);
/* FLOPs recomputed under the choice less those under the plan. */
double step_choice_flop(const struct step_model *model, int64_t part,
                        const struct layer_time times[LAYER_KIND_COUNT],
                        const struct pass_choice *choice);
/* What a stage has for activations and workspace, fragmentation taken off. */
double step_activation_capacity(const struct step_model *model, int64_t stage);
/* What a rank has of its node's host memory; INFINITY where that is not stated. */
double step_host_capacity(const struct step_model *model);

/* What copies to and from the host leave exposed of that layer; nothing if it keeps all on the
 * GPU. */
struct offload_time step_offload_time(const struct step_model *model, int64_t layer_index,
                                      const struct layer_time times[LAYER_KIND_COUNT]);

/* What is left of a stage's gradient reduction after hiding it behind a backward of so many ns, and
 * of the update after hiding the parameter gather behind a forward; whole where the layout hides
 * none. */
int64_t step_exposed_reduce_ns(const struct step_model *model, int64_t stage, int64_t backward_ns);
int64_t step_exposed_update_ns(const struct step_model *model, int64_t stage, int64_t forward_ns);

/* One data-parallel rank's pipeline in one iteration, before it waits for the others. */
struct rank_outcome {
    int64_t makespan_ns;
    /* by stage, owned by the runner, valid until its next run */
    const int64_t *finish_ns; /* end of the stage's last task */
    const int64_t *busy_ns;   /* passes, and sends that block compute */
    const struct stage_memory *memory;
    /* by part */
    const int64_t *forward_ns, *backward_ns, *recompute_ns;
    double class_ns[TIME_CLASS_COUNT]; /* summed over stages */
    double model_flop; /* forward and backward by definition, all TP ranks, all stages */
    double recompute_flop;
    int64_t bound_ns;   /* an iteration planner's: no order is faster; 0: none */
    double planner_s;   /* its wall time */
    bool planner_timed; /* ended by a wall-time budget */
    bool planner_left;  /* ended because another rank takes as long */
};

struct step_runner;
struct step_runner *step_runner_create(const struct step_model *model);
void step_runner_destroy(struct step_runner *runner);
bool step_run_rank(struct step_runner *runner, enum fidelity fidelity,
                   const struct batch_shape *shapes, int64_t micro_batch_count,
                   struct rank_outcome *outcome, struct error *err);
/* Makespan in stage fidelity when every micro-batch costs the same: by_part[part]. */
bool step_run_constant(struct step_runner *runner, const struct stage_cost *by_part,
                       int64_t micro_batch_count, int64_t *makespan_ns, struct error *err);
/* ZeRO-3: collectives hold the ranks together, so each layer takes what the slowest rank takes.
 * times[micro-batch][kind], borrowed until the next call; NULL: each rank on its own. */
void step_runner_lock(struct step_runner *runner,
                      const struct layer_time (*times)[LAYER_KIND_COUNT]);
/* The order of the next runs, stage after stage, instead of the planner's or the schedule's;
 * checked, borrowed until the next call; NULL: back to those. */
void step_runner_order(struct step_runner *runner, const struct schedule_entry *entries);
/* Another rank of the step takes so long: from now on an iteration planner need not look for orders
 * faster than that. 0: it does, as at the start. */
void step_runner_enough(struct step_runner *runner, int64_t enough_ns);
/* From now on the rank is slower than planned: all its passes by `rank`, those of one stage by
 * `stage_factor` on top, sends over the link after `link_stage` by `link_factor`. 1: not. Stage
 * fidelity only. */
struct step_slowness {
    double rank, stage_factor, link_factor;
    int64_t stage, link_stage;
};
void step_runner_slow(struct step_runner *runner, const struct step_slowness *slowness);
/* Stage fidelity keeps no timeline: nothing to look at after a run, but it is faster. */
void step_runner_times_only(struct step_runner *runner, bool times_only);
int64_t step_runner_task_count(const struct step_runner *runner); /* of the last run */

/* The timeline of the last run, for plots and traces. */
enum span_kind {
    SPAN_FORWARD,
    SPAN_BACKWARD,
    SPAN_SEND_FORWARD,
    SPAN_SEND_BACKWARD,
};
struct step_span {
    int64_t stage, chunk, micro_batch, sub;
    enum span_kind kind;
    bool communication;
    int64_t start_ns, finish_ns, recompute_ns;
};
typedef void (*step_span_visit)(void *context, const struct step_span *span);
void step_runner_spans(const struct step_runner *runner, step_span_visit visit, void *context);
/* Every pass of the last run (stage fidelity), stage by stage in the order it runs them. */
struct step_pass {
    int64_t stage, chunk, micro_batch, sub;
    bool backward;
    int64_t start_ns, finish_ns, send_ns; /* the send comes after; 0: nothing is sent */
    double activation_bytes, workspace_bytes, host_bytes;
    struct pass_choice blocks; /* how its blocks recompute, and which are offloaded */
};
typedef void (*step_pass_visit)(void *context, const struct step_pass *pass);
void step_runner_passes(const struct step_runner *runner, step_pass_visit visit, void *context);
/* Sub-microbatches of each micro-batch in a module of the plan, in the last run. */
int64_t step_runner_units(const struct step_runner *runner, int64_t module, int64_t micro_batch);
/* The passes and sends that set the makespan of the last run (stage fidelity), last first. */
void step_runner_critical_path(struct step_runner *runner, step_span_visit visit, void *context);
/* Activation bytes of a stage after each event of the last run. */
typedef void (*step_memory_visit)(void *context, int64_t stage, int64_t time_ns, double bytes);
void step_runner_memory(const struct step_runner *runner, step_memory_visit visit, void *context);

#endif
