/* plugin_adapter.c - what the simulator asks of a policy, asked of a plug-in's; answers checked.
 * Orders of passes are in plugin_orders.c.
 */
#include "sim/plugin_adapter.h"

#include <stdlib.h>
#include <string.h>
#include "sim/policy/batching/samplers.h"
#include "sim/policy/partition/partition.h"

/* ---- batching ---- */

struct batches_host {
    struct ballast_batches interface; /* first: what the plug-in is handed */
    struct batch_plan *plan;
    unsigned char *given; /* by sample */
    int64_t *next;        /* by rank: micro-batches so far */
    uint32_t *rank_of;    /* by micro-batch */
    int64_t sample_capacity, group_capacity, used;
    bool packs;
    struct error *err;
    bool failed;
};

static struct batches_host *batches_host(struct ballast_batches *batches) {
    return batches->host;
}

static int refuse_batch(struct batches_host *h, const char *sentence, long long number) {
    if (!h->failed) error_set(h->err, sentence, number);
    h->failed = true;
    return 0;
}

static void batches_fail(struct ballast_batches *batches, const char *sentence) {
    struct batches_host *h = batches_host(batches);
    if (!h->failed) error_set(h->err, "%s", sentence);
    h->failed = true;
}

static int give(struct ballast_batches *batches, int64_t rank, const uint32_t *samples,
                int64_t count) {
    struct batches_host *h = batches_host(batches);
    if (h->failed) return 0;
    if (rank < 0 || rank >= batches->rank_count)
        return refuse_batch(h, "the policy gave a micro-batch to rank %lld, which is not there",
                            rank);
    if (count < 1 || samples == NULL || (!h->packs && count != batches->micro_batch_samples))
        return refuse_batch(h, "the policy gave a micro-batch of %lld samples", count);
    struct batch_plan *plan = h->plan;
    for (int64_t i = 0; i < count; i++) {
        if (samples[i] >= batches->sample_count)
            return refuse_batch(h, "the policy gave sample %lld, which is not there", samples[i]);
        if (h->given[samples[i]])
            return refuse_batch(h, "the policy gave sample %lld twice", samples[i]);
        h->given[samples[i]] = 1;
        plan->samples[h->used++] = samples[i];
    }
    h->rank_of[plan->group_count++] = (uint32_t)rank;
    plan->starts[plan->group_count] = (uint32_t)h->used;
    h->next[rank]++;
    return 1;
}

/* Every rank gets as many micro-batches as the one that has least; the rest is dropped. */
static bool deal(struct batches_host *h) {
    struct batch_plan *plan = h->plan;
    int64_t ranks = h->interface.rank_count, per_rank = INT64_MAX;
    for (int64_t r = 0; r < ranks; r++)
        if (h->next[r] < per_rank) per_rank = h->next[r];
    if (per_rank == 0) {
        refuse_batch(h, "the policy left a rank without micro-batches (of %lld ranks)", ranks);
        return false;
    }
    plan->order = memory_alloc(sizeof *plan->order * (size_t)(ranks * per_rank));
    memset(h->next, 0, sizeof *h->next * (size_t)ranks);
    for (int64_t g = 0; g < plan->group_count; g++) {
        int64_t rank = h->rank_of[g];
        if (h->next[rank] < per_rank)
            plan->order[rank * per_rank + h->next[rank]++] = (uint32_t)g;
        else
            plan->dropped_by_sampler += plan->starts[g + 1] - plan->starts[g];
    }
    plan->rank_count = ranks;
    plan->per_rank = per_rank;
    plan->full_group_count = plan->group_count;
    plan->packed = h->packs;
    plan->samples_packed = h->used;
    plan->leftover_dropped = plan->samples_in - h->used;
    plan->leftover_of_plugin = true;
    return true;
}

static bool plan_batches(const struct ballast_batching *row, const struct batch_request *request,
                         const void *parameters, struct batch_plan *plan, struct error *err) {
    if (!sampler_begin(row->name, request, plan, err)) return false;
    const int64_t count = request->dataset->sample_count;
    uint32_t *vision = memory_alloc(sizeof *vision * (size_t)count);
    uint32_t *tokens = memory_alloc(sizeof *tokens * (size_t)count);
    for (int64_t i = 0; i < count; i++) {
        vision[i] = batch_sample_vision(request->dataset, (uint32_t)i);
        tokens[i] = request->dataset->samples[i].language_tokens;
    }
    struct batches_host h = {
        .interface = { .size = sizeof h.interface,
                       .host = &h,
                       .sample_count = count,
                       .vision = vision,
                       .language_tokens = tokens,
                       .rank_count = request->dp,
                       .micro_batch_samples = request->micro_batch,
                       .seed = request->seed,
                       .epoch = request->epoch,
                       .give = give,
                       .fail = batches_fail },
        .plan = plan,
        .given = calloc((size_t)count, 1),
        .next = calloc((size_t)request->dp, sizeof(int64_t)),
        .rank_of = memory_alloc(sizeof(uint32_t) * (size_t)count),
        .packs = row->packs != 0,
        .err = err,
    };
    ballast_check(h.given != NULL && h.next != NULL);
    plan->samples = memory_alloc(sizeof *plan->samples * (size_t)count);
    plan->starts = memory_alloc(sizeof *plan->starts * (size_t)(count + 1));
    plan->starts[0] = 0;
    bool ok = row->plan(&h.interface, parameters) != 0;
    if (!ok) batches_fail(&h.interface, "the policy failed and gave no reason");
    ok = ok && !h.failed && deal(&h);
    free(vision);
    free(tokens);
    free(h.given);
    free(h.next);
    free(h.rank_of);
    if (ok) return true;
    batch_plan_free(plan);
    return error_context(err, "while batching with \"%s\" of a plug-in", row->name);
}

/* ---- partition ---- */

struct blocks_host {
    struct ballast_blocks interface; /* first: what the plug-in is handed */
    const struct planner_oracle *oracle;
    struct job_plan *plan;
    struct error *err;
    bool failed;
};

static bool is_partition(const struct ballast_blocks *b, const int64_t *blocks_of_part) {
    int64_t sum = 0;
    for (int64_t p = 0; p < b->part_count; p++) {
        if (blocks_of_part[p] < 1 || blocks_of_part[p] > b->block_count) return false;
        sum += blocks_of_part[p];
    }
    return sum == b->block_count;
}

static void blocks_fail(struct ballast_blocks *blocks, const char *sentence) {
    struct blocks_host *h = blocks->host;
    error_set(h->err, "%s", sentence);
    h->failed = true;
}

/* A failure of the simulation itself is no fault of the candidate: it ends the planning. */
static double simulate_blocks(struct ballast_blocks *blocks, const int64_t *blocks_of_part) {
    struct blocks_host *h = blocks->host;
    if (h->failed || !is_partition(blocks, blocks_of_part)) return -1;
    partition_apply(h->oracle->model, blocks_of_part, h->plan);
    double seconds = -1;
    h->failed = !h->oracle->complete(h->oracle->context, h->plan, -1, h->err) ||
                !h->oracle->simulate(h->oracle->context, h->plan, &seconds, h->err);
    return h->failed ? -1 : seconds;
}

static double blocks_stage_bytes(struct ballast_blocks *blocks, const int64_t *blocks_of_part,
                                 int64_t stage) {
    struct blocks_host *h = blocks->host;
    if (h->failed || stage < 0 || stage >= blocks->stage_count ||
        !is_partition(blocks, blocks_of_part))
        return -1;
    partition_apply(h->oracle->model, blocks_of_part, h->plan);
    h->failed = !h->oracle->complete(h->oracle->context, h->plan, -1, h->err);
    if (h->failed) return -1;
    return h->oracle->stage_bytes(h->oracle->context, h->plan, stage, &h->oracle->typical);
}

static bool plan_blocks(const struct ballast_partition *row, const struct planner_oracle *oracle,
                        const void *parameters, struct job_plan *plan, struct error *err) {
    const struct model *model = oracle->model;
    const int64_t count = partition_block_count(model);
    double *forward = arena_array(oracle->arena, double, count);
    double *backward = arena_array(oracle->arena, double, count);
    double *weights = arena_array(oracle->arena, double, count);
    unsigned char *is_vision = arena_array(oracle->arena, unsigned char, count);
    for (int64_t block = 0; block < count; block++) {
        const int64_t end =
            block + 1 < count ? partition_stage_start(model, block + 1) : model->layer_count;
        is_vision[block] = partition_is_vision(model, block);
        for (int64_t i = partition_stage_start(model, block); i < end; i++) {
            forward[block] +=
                oracle->layer_seconds(oracle->context, i, &oracle->typical, PASS_SET_FORWARD);
            backward[block] +=
                oracle->layer_seconds(oracle->context, i, &oracle->typical, PASS_SET_BACKWARD);
            weights[block] += (double)model_layer_parameters(model, i);
        }
    }
    struct blocks_host h = {
        .interface = { .size = sizeof h.interface,
                       .host = &h,
                       .block_count = count,
                       .part_count = plan->part_count,
                       .stage_count = plan->stage_count,
                       .forward_seconds = forward,
                       .backward_seconds = backward,
                       .parameters = weights,
                       .is_vision = is_vision,
                       .capacity_bytes = oracle->capacity_bytes,
                       .simulate = simulate_blocks,
                       .stage_bytes = blocks_stage_bytes,
                       .fail = blocks_fail },
        .oracle = oracle,
        .plan = plan,
        .err = err,
    };
    int64_t *blocks = arena_array(oracle->arena, int64_t, plan->part_count);
    if (row->plan(&h.interface, parameters, blocks) == 0 && !h.failed)
        blocks_fail(&h.interface, "the policy failed and gave no reason");
    if (h.failed) return false;
    if (is_partition(&h.interface, blocks)) {
        partition_apply(model, blocks, plan);
        return true;
    }
    const char *list = "";
    for (int64_t p = 0; p < plan->part_count; p++)
        list =
            arena_format(oracle->arena, "%s%s%lld", list, p > 0 ? ", " : "", (long long)blocks[p]);
    return error_set(err,
                     "the policy put [%s] blocks on the parts; each needs one at least, and all "
                     "together %lld",
                     list, (long long)count);
}

/* ---- slots ---- */

static const struct ballast_batching *batching_rows[PLUGIN_SLOTS];
static const struct ballast_partition *partition_rows[PLUGIN_SLOTS];
static const struct ballast_schedule *schedule_rows[PLUGIN_SLOTS];
static const struct ballast_joint *joint_rows[PLUGIN_SLOTS];
static size_t batching_used, partition_used, schedule_used, joint_used;

#define SLOT(n)                                                                                    \
    static bool batching_##n(const struct batch_request *request, const void *parameters,          \
                             struct batch_plan *plan, struct error *err) {                         \
        return plan_batches(batching_rows[n], request, parameters, plan, err);                     \
    }                                                                                              \
    static bool partition_##n(const struct planner_oracle *oracle, const void *parameters,         \
                              struct job_plan *plan, struct error *err) {                          \
        return plan_blocks(partition_rows[n], oracle, parameters, plan, err);                      \
    }                                                                                              \
    static void order_##n(const struct schedule_place *place, struct schedule_entry *entries) {    \
        plugin_order_passes(schedule_rows[n], place, entries);                                     \
    }                                                                                              \
    static int64_t in_flight_##n(const struct schedule_place *place) {                             \
        return plugin_most_in_flight(schedule_rows[n], place);                                     \
    }                                                                                              \
    static bool check_##n(const struct schedule_place *place, struct error *err) {                 \
        return plugin_check_schedule(schedule_rows[n], place, err);                                \
    }                                                                                              \
    static bool joint_##n(const struct planner_oracle *oracle, const void *parameters,             \
                          const struct job_plan *plan, struct iteration_plan *iteration,           \
                          struct error *err) {                                                     \
        return plugin_plan_iteration(joint_rows[n], oracle, parameters, plan, iteration, err);     \
    }
SLOT(0)
SLOT(1)
SLOT(2)
SLOT(3)
SLOT(4)
SLOT(5)
SLOT(6)
SLOT(7)
#define EACH(what)                                                                                 \
    { what##_0, what##_1, what##_2, what##_3, what##_4, what##_5, what##_6, what##_7 }

bool plugin_add_batching(const struct ballast_batching *row) {
    static bool (*const plans[PLUGIN_SLOTS])(const struct batch_request *, const void *,
                                             struct batch_plan *, struct error *) = EACH(batching);
    static struct batching_policy policies[PLUGIN_SLOTS];
    if (batching_used == PLUGIN_SLOTS) return false;
    const size_t slot = batching_used++;
    batching_rows[slot] = row;
    policies[slot] = (struct batching_policy){
        .name = row->name,
        .help = row->help,
        .packs = row->packs != 0,
        .parameters =
            plugin_parameter_table(row->name, row->help, row->parameters, row->parameter_count),
        .parameters_size = row->parameter_count * sizeof(double),
        .plan = plans[slot],
    };
    return batching_policy_register(&policies[slot]);
}

bool plugin_add_partition(const struct ballast_partition *row) {
    static bool (*const plans[PLUGIN_SLOTS])(const struct planner_oracle *, const void *,
                                             struct job_plan *, struct error *) = EACH(partition);
    static struct planner policies[PLUGIN_SLOTS];
    if (partition_used == PLUGIN_SLOTS) return false;
    const size_t slot = partition_used++;
    partition_rows[slot] = row;
    policies[slot] = (struct planner){
        .name = row->name,
        .help = row->help,
        .slot = PLANNER_PARTITION,
        .parameters =
            plugin_parameter_table(row->name, row->help, row->parameters, row->parameter_count),
        .parameters_size = row->parameter_count * sizeof(double),
        .plan_job = plans[slot],
    };
    return planner_register(&policies[slot]);
}

bool plugin_add_schedule(const struct ballast_schedule *row) {
    static void (*const orders[PLUGIN_SLOTS])(const struct schedule_place *,
                                              struct schedule_entry *) = EACH(order);
    static int64_t (*const flights[PLUGIN_SLOTS])(const struct schedule_place *) = EACH(in_flight);
    static bool (*const checks[PLUGIN_SLOTS])(const struct schedule_place *, struct error *) =
        EACH(check);
    static struct schedule_policy policies[PLUGIN_SLOTS];
    if (schedule_used == PLUGIN_SLOTS) return false;
    const size_t slot = schedule_used++;
    schedule_rows[slot] = row;
    policies[slot] = (struct schedule_policy){
        .name = row->name,
        .help = row->help,
        .interleaves = row->interleaves != 0,
        .order = orders[slot],
        .in_flight = flights[slot],
        .check = checks[slot],
    };
    return schedule_policy_register(&policies[slot]);
}

bool plugin_add_joint(const struct ballast_joint *row) {
    static bool (*const plans[PLUGIN_SLOTS])(const struct planner_oracle *, const void *,
                                             const struct job_plan *, struct iteration_plan *,
                                             struct error *) = EACH(joint);
    static struct planner_preset presets[PLUGIN_SLOTS];
    static struct planner policies[PLUGIN_SLOTS];
    if (joint_used == PLUGIN_SLOTS) return false;
    const size_t slot = joint_used++;
    joint_rows[slot] = row;
    presets[slot] = (struct planner_preset){ row->batching, row->partition, row->recompute,
                                             row->schedule, false };
    policies[slot] = (struct planner){
        .name = row->name,
        .help = row->help,
        .slot = PLANNER_JOINT,
        .parameters =
            plugin_parameter_table(row->name, row->help, row->parameters, row->parameter_count),
        .parameters_size = row->parameter_count * sizeof(double),
        .preset = &presets[slot],
        .plan_iteration = row->plan_iteration != NULL ? plans[slot] : NULL,
    };
    return planner_register(&policies[slot]);
}
