/* step_cells.h - a step's runner and its cells: one sub-microbatch on one part. Private to
 * step_runner.c (orders, prices, runs), step_graph.c (the task graph) and step_view.c (the last
 * run).
 */
#ifndef BALLAST_SIM_STEP_STEP_CELLS_H
#define BALLAST_SIM_STEP_STEP_CELLS_H

#include "sim/step/pipeline_clock.h"
#include "sim/step/step.h"

enum { NO_TASK = -1 };

struct step_runner {
    const struct step_model *model;
    struct engine *engine;
    struct arena *scratch; /* of iteration planners */
    struct task_graph *graph;
    enum fidelity fidelity;         /* of the graph */
    int64_t micro_batch_count;      /* of the graph; 0: none yet */
    struct schedule_entry *entries; /* stage s from s x entry_count */
    int64_t entry_count;            /* of one stage */
    /* Units of module i: the sub-microbatches of micro-batch m are units[i x (count + 1) + m] up to
     * the next entry. Their cells on part p follow cell_first[p]. */
    int32_t *units;
    int64_t *cell_first, cell_capacity;
    /* by cell: first and last task of each pass, and its send (NO_TASK: none) */
    int32_t *forward_first, *forward_last, *backward_first, *backward_last;
    int32_t *send_forward, *send_backward;
    struct stage_cost *costs;
    struct pass_cost *pass_costs; /* for planners; NULL until one asks */
    struct pass_choice *choices;
    bool chosen;                                       /* choices hold for the last run */
    bool split;                                        /* into the plan's sub-batches */
    struct layer_time (*unit_times)[LAYER_KIND_COUNT]; /* by micro-batch */
    int64_t unit_capacity;
    /* Of sub-microbatches, which the parts of a module share: piece_first[module] + unit. */
    struct layer_time (*piece_times)[LAYER_KIND_COUNT];
    int64_t *piece_first, piece_capacity;
    int32_t *compute, *communication, *link_forward, *link_backward; /* resources by stage */
    int32_t *nic; /* shared outgoing NICs by stage, or NO_TASK */
    /* while building: the last send of each stage that leaves its node, or NO_TASK */
    int32_t *latest_forward, *latest_backward;
    int64_t *finish_ns, *busy_ns, *forward_ns, *backward_ns, *recompute_ns;
    struct stage_memory *memory;
    struct pipeline_clock *clock; /* with times_only */
    struct step_slowness slowness;
    bool is_slow;
    const struct batch_shape *shapes; /* of the last run */
    const struct layer_time (*locked)[LAYER_KIND_COUNT];
    const struct schedule_entry *given; /* order of the next runs, or NULL */
    bool static_order;                  /* the graph's order is that of the schedule */
    int64_t bound_ns;                   /* of the planner's last iteration */
    int64_t enough_ns;                  /* for the planner's next ones */
    double planner_s;
    bool planner_timed, planner_left;
};

static inline const int32_t *units_of(const struct step_runner *r, int64_t part) {
    return r->units +
           r->model->module_of_chunk[part / r->model->stage_count] * (r->micro_batch_count + 1);
}

/* One sub-microbatch on one part. */
struct place_in_step {
    int64_t part, micro_batch, sub, pieces, cell;
};

static inline struct batch_shape shape_at(const struct step_runner *r,
                                          const struct place_in_step *at) {
    const struct step_model *m = r->model;
    bool clips = m->plan->module_count > 0 &&
                 m->plan->modules[m->module_of_chunk[at->part / m->stage_count]].clips;
    return batch_shape_piece(&r->shapes[at->micro_batch], clips, at->pieces, at->sub);
}

/* Priced before the passes are. */
static inline const struct layer_time *times_at(const struct step_runner *r,
                                                const struct place_in_step *at) {
    if (at->pieces == 1) return r->unit_times[at->micro_batch];
    int64_t module = r->model->module_of_chunk[at->part / r->model->stage_count];
    return r->piece_times[r->piece_first[module] + at->cell - r->cell_first[at->part]];
}

typedef void (*cell_visit)(struct step_runner *r, const struct place_in_step *at, void *context);

static inline void for_each_cell(struct step_runner *r, int64_t part, cell_visit visit,
                                 void *context) {
    const int32_t *units = units_of(r, part);
    for (int64_t i = 0; i < r->micro_batch_count; i++)
        for (int32_t unit = units[i]; unit < units[i + 1]; unit++) {
            struct place_in_step at = { part, i, unit - units[i], units[i + 1] - units[i],
                                        r->cell_first[part] + unit };
            visit(r, &at, context);
        }
}

static inline int64_t part_of(const struct step_runner *r, int64_t stage,
                              const struct schedule_entry *entry) {
    return entry->chunk * r->model->stage_count + stage;
}

static inline int64_t cell_of(const struct step_runner *r, int64_t stage,
                              const struct schedule_entry *entry) {
    int64_t part = part_of(r, stage, entry);
    return r->cell_first[part] + units_of(r, part)[entry->micro_batch] + entry->sub;
}

/* Whether the pass of a part hands anything on: to the same module's next part, or to the next
 * module, if that takes part in the micro-batch. */
static inline bool sends_to(const struct step_runner *r, int64_t to, int64_t micro_batch) {
    if (to < 0 || to >= r->model->part_count) return false;
    const int32_t *units = units_of(r, to);
    return units[micro_batch + 1] > units[micro_batch];
}

/* Tasks, their dependencies and durations from the entries and costs. */
void step_graph_build(struct step_runner *runner);
/* Stage fidelity keeps the graph and changes what depends on the micro-batches. */
void step_graph_update(struct step_runner *runner);

#endif
