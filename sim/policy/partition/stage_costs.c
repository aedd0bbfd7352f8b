/* stage_costs.c - a table of stages by place, first block and number of blocks, filled on demand.
 *
 * To price one stage, a plan is made in which the other stages hold one block each, except the
 * neighbours, which hold the rest; of them only the layer next to the cut matters (sends).
 */
#include "sim/policy/partition/stage_costs.h"

#include <string.h>
#include "sim/policy/partition/partition.h"

struct stage_costs {
    struct arena *arena;
    const struct planner_oracle *oracle;
    int64_t block_count, stage_count;
    int64_t *start;              /* layer of each block; [block_count] is the layer count */
    struct stage_choice ***rows; /* [stage x block_count + first block][count], NULL: not asked */
    struct job_plan plan;        /* scratch */
};

struct stage_costs *stage_costs_create(struct arena *arena, const struct planner_oracle *oracle,
                                       const struct job_plan *plan) {
    struct stage_costs *c = arena_new(arena, struct stage_costs);
    ballast_check(plan->chunk_count == 1);
    c->arena = arena;
    c->oracle = oracle;
    c->block_count = partition_block_count(oracle->model);
    c->stage_count = plan->stage_count;
    c->start = arena_array(arena, int64_t, c->block_count + 1);
    for (int64_t block = 0; block <= c->block_count; block++)
        c->start[block] = partition_stage_start(oracle->model, block);
    c->rows = arena_array(arena, struct stage_choice **, c->stage_count * c->block_count);
    c->plan = *plan;
    c->plan.first_layer = arena_array(arena, int64_t, plan->part_count + 1);
    c->plan.recompute = arena_array(arena, enum recompute_kind, oracle->model->layer_count);
    return c;
}

int64_t stage_costs_layer(const struct stage_costs *c, int64_t block) {
    return c->start[block];
}

static bool price(struct stage_costs *c, int64_t stage, int64_t first, int64_t count,
                  struct stage_choice *choice, struct error *err) {
    const struct planner_oracle *o = c->oracle;
    int64_t begin = c->start[first], end = c->start[first + count];
    int64_t layers = o->model->layer_count;
    for (int64_t s = 0; s <= c->stage_count; s++)
        c->plan.first_layer[s] = s < stage        ? c->start[s]
                                 : s == stage     ? begin
                                 : s == stage + 1 ? end
                                                  : c->start[c->block_count - c->stage_count + s];
    memset(c->plan.recompute, 0, sizeof *c->plan.recompute * (size_t)layers);
    if (!o->complete(o->context, &c->plan, stage, err)) return false;
    struct planner_part_cost cost;
    o->part_cost(o->context, &c->plan, stage, &o->typical, &cost);
    choice->forward_seconds = cost.forward_seconds;
    choice->backward_seconds = cost.backward_seconds;
    if (o->send_blocks_compute) {
        choice->forward_seconds += cost.send_forward_seconds;
        choice->backward_seconds += cost.send_backward_seconds;
    } else {
        choice->send_forward_seconds = cost.send_forward_seconds;
        choice->send_backward_seconds = cost.send_backward_seconds;
    }
    choice->bytes = o->stage_bytes(o->context, &c->plan, stage, &o->largest);
    choice->fits = choice->bytes <= o->capacity_bytes;
    enum recompute_kind *kinds = arena_array(c->arena, enum recompute_kind, end - begin);
    memcpy(kinds, c->plan.recompute + begin, sizeof *kinds * (size_t)(end - begin));
    choice->recompute = kinds;
    return true;
}

const struct stage_choice *stage_costs_of(struct stage_costs *c, int64_t stage, int64_t first,
                                          int64_t count, struct error *err) {
    struct stage_choice ***row = &c->rows[stage * c->block_count + first];
    if (*row == NULL)
        *row = arena_array(c->arena, struct stage_choice *, c->block_count - first + 1);
    if ((*row)[count] == NULL) {
        struct stage_choice *choice = arena_new(c->arena, struct stage_choice);
        if (!price(c, stage, first, count, choice, err)) return NULL;
        (*row)[count] = choice;
    }
    return (*row)[count];
}

bool stage_costs_simulate(struct stage_costs *c, const int64_t *blocks, double *seconds,
                          bool *fits, struct error *err) {
    const struct stage_choice *choices[c->stage_count];
    *fits = true;
    for (int64_t stage = 0, first = 0; stage < c->stage_count; first += blocks[stage++]) {
        choices[stage] = stage_costs_of(c, stage, first, blocks[stage], err);
        if (choices[stage] == NULL) return false;
        *fits = *fits && choices[stage]->fits;
    }
    for (int64_t stage = 0, first = 0; stage < c->stage_count; first += blocks[stage++]) {
        int64_t begin = c->start[first], end = c->start[first + blocks[stage]];
        c->plan.first_layer[stage] = begin;
        memcpy(c->plan.recompute + begin, choices[stage]->recompute,
               sizeof *choices[stage]->recompute * (size_t)(end - begin));
    }
    c->plan.first_layer[c->stage_count] = c->start[c->block_count];
    return c->oracle->simulate(c->oracle->context, &c->plan, seconds, err);
}
