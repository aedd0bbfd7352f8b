/* plugin_adapter.c - what the simulator asks of a policy, asked of a plug-in's; answers checked.
 *
 * A schedule is checked by running it: each stage stands at its next pass, and runs it when what the
 * pass waits for has run elsewhere. If no stage can go on before all are done, they wait for each
 * other for ever.
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

/* ---- schedule ---- */

static void order_passes(const struct ballast_schedule *row, const struct schedule_place *place,
                         struct schedule_entry *entries) {
    const int64_t count = schedule_entry_count(place);
    struct ballast_pass *passes = memory_alloc(sizeof *passes * (size_t)count);
    memset(passes, 0xff, sizeof *passes * (size_t)count); /* what is not filled in shows */
    const struct ballast_place at = { place->stage, place->stage_count, place->chunk_count,
                                      place->micro_batch_count };
    row->order(&at, passes);
    for (int64_t i = 0; i < count; i++)
        entries[i] = (struct schedule_entry){ .micro_batch = passes[i].micro_batch,
                                                .chunk = passes[i].chunk,
                                                .backward = passes[i].backward != 0 };
    free(passes);
}

static int64_t most_in_flight(const struct ballast_schedule *row,
                              const struct schedule_place *place) {
    const int64_t count = schedule_entry_count(place);
    struct schedule_entry *entries = memory_alloc(sizeof *entries * (size_t)count);
    order_passes(row, place, entries);
    int64_t now = 0, most = 0;
    for (int64_t i = 0; i < count; i++) {
        now += entries[i].backward ? -1 : 1;
        if (now > most) most = now;
    }
    free(entries);
    return most;
}

struct schedule_run {
    const struct schedule_place *place; /* of any stage */
    struct schedule_entry *entries;     /* stage after stage */
    int64_t *at;                        /* by stage: its next entry */
    unsigned char *done;                /* by (backward, micro-batch, part) */
};

static unsigned char *pass_done(const struct schedule_run *run, bool backward, int64_t micro_batch,
                                int64_t part) {
    const int64_t parts = run->place->stage_count * run->place->chunk_count;
    return &run->done[((backward ? run->place->micro_batch_count : 0) + micro_batch) * parts +
                      part];
}

static bool is_ready(const struct schedule_run *run, const struct schedule_entry *e, int64_t part) {
    const int64_t last = run->place->stage_count * run->place->chunk_count - 1;
    if (!e->backward) return part == 0 || *pass_done(run, false, e->micro_batch, part - 1);
    return *pass_done(run, false, e->micro_batch, part) &&
           (part == last || *pass_done(run, true, e->micro_batch, part + 1));
}

static bool wrong_entry(const struct schedule_run *run, int64_t stage,
                        const struct schedule_entry *e, struct error *err) {
    if (e->micro_batch < 0 || e->micro_batch >= run->place->micro_batch_count || e->chunk < 0 ||
        e->chunk >= run->place->chunk_count)
        return !error_set(err, "stage %lld is told to run micro-batch %ld of chunk %d",
                          (long long)stage, (long)e->micro_batch, e->chunk);
    if (*pass_done(run, e->backward, e->micro_batch, e->chunk * run->place->stage_count + stage))
        return !error_set(err, "stage %lld is told to run the %s of micro-batch %ld twice",
                          (long long)stage, e->backward ? "backward" : "forward",
                          (long)e->micro_batch);
    return false;
}

/* Runs what can be run on a stage; *moved says whether anything could. */
static bool advance(struct schedule_run *run, int64_t stage, int64_t count, bool *moved,
                    struct error *err) {
    while (run->at[stage] < count) {
        const struct schedule_entry *e = &run->entries[stage * count + run->at[stage]];
        if (wrong_entry(run, stage, e, err)) return false;
        const int64_t part = e->chunk * run->place->stage_count + stage;
        if (!is_ready(run, e, part)) return true;
        *pass_done(run, e->backward, e->micro_batch, part) = 1;
        run->at[stage]++;
        *moved = true;
    }
    return true;
}

static bool stuck(const struct schedule_run *run, int64_t count, struct error *err) {
    int64_t stage = 0;
    while (run->at[stage] == count)
        stage++;
    const struct schedule_entry *e = &run->entries[stage * count + run->at[stage]];
    error_set(
        err,
        "the stages wait for each other: stage %lld cannot run the %s of micro-batch %ld, its "
        "pass %lld of %lld",
        (long long)stage, e->backward ? "backward" : "forward", (long)e->micro_batch,
        (long long)run->at[stage] + 1, (long long)count);
    return error_hint(err, "every forward needs that of the part before it, every backward that of "
                           "the part behind it");
}

static bool check_schedule(const struct ballast_schedule *row, const struct schedule_place *place,
                           struct error *err) {
    const int64_t count = schedule_entry_count(place), stages = place->stage_count;
    struct schedule_run run = {
        .place = place,
        .entries = memory_alloc(sizeof *run.entries * (size_t)(count * stages)),
        .at = calloc((size_t)stages, sizeof *run.at),
        .done = calloc((size_t)(count * stages), 1),
    };
    ballast_check(run.at != NULL && run.done != NULL);
    for (int64_t stage = 0; stage < stages; stage++) {
        struct schedule_place here = *place;
        here.stage = stage;
        order_passes(row, &here, run.entries + stage * count);
    }
    bool ok = true, moved = true;
    while (ok && moved) {
        moved = false;
        for (int64_t stage = 0; ok && stage < stages; stage++)
            ok = advance(&run, stage, count, &moved, err);
    }
    for (int64_t stage = 0; ok && stage < stages; stage++)
        if (run.at[stage] < count) ok = stuck(&run, count, err);
    free(run.entries);
    free(run.at);
    free(run.done);
    return ok;
}

/* ---- slots ---- */

static const struct ballast_batching *batching_rows[PLUGIN_SLOTS];
static const struct ballast_partition *partition_rows[PLUGIN_SLOTS];
static const struct ballast_schedule *schedule_rows[PLUGIN_SLOTS];
static size_t batching_used, partition_used, schedule_used;

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
        order_passes(schedule_rows[n], place, entries);                                            \
    }                                                                                              \
    static int64_t in_flight_##n(const struct schedule_place *place) {                             \
        return most_in_flight(schedule_rows[n], place);                                            \
    }                                                                                              \
    static bool check_##n(const struct schedule_place *place, struct error *err) {                 \
        return check_schedule(schedule_rows[n], place, err);                                       \
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
