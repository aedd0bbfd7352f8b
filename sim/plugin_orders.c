/* plugin_orders.c - the orders of passes that a plug-in gives: of a stage for the whole job, of all
 * stages for one iteration. Each is checked by running it: a stage stands at its next pass, and
 * runs it when what the pass waits for has run elsewhere. If no stage can go on before all are
 * done, they wait for each other for ever.
 */
#include <stdlib.h>
#include <string.h>
#include "sim/base/units.h"
#include "sim/base/wall_clock.h"
#include "sim/plugin_adapter.h"

void plugin_order_passes(const struct ballast_schedule *row, const struct schedule_place *place,
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

int64_t plugin_most_in_flight(const struct ballast_schedule *row,
                              const struct schedule_place *place) {
    const int64_t count = schedule_entry_count(place);
    struct schedule_entry *entries = memory_alloc(sizeof *entries * (size_t)count);
    plugin_order_passes(row, place, entries);
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

static bool play(const struct schedule_place *place, struct schedule_entry *entries,
                 struct error *err) {
    const int64_t count = schedule_entry_count(place), stages = place->stage_count;
    struct schedule_run run = { .place = place,
                                .entries = entries,
                                .at = calloc((size_t)stages, sizeof *run.at),
                                .done = calloc((size_t)(count * stages), 1) };
    ballast_check(run.at != NULL && run.done != NULL);
    bool ok = true, moved = true;
    while (ok && moved) {
        moved = false;
        for (int64_t stage = 0; ok && stage < stages; stage++)
            ok = advance(&run, stage, count, &moved, err);
    }
    for (int64_t stage = 0; ok && stage < stages; stage++)
        if (run.at[stage] < count) ok = stuck(&run, count, err);
    free(run.at);
    free(run.done);
    return ok;
}

bool plugin_check_schedule(const struct ballast_schedule *row, const struct schedule_place *place,
                           struct error *err) {
    const int64_t count = schedule_entry_count(place), stages = place->stage_count;
    struct schedule_entry *entries = memory_alloc(sizeof *entries * (size_t)(count * stages));
    for (int64_t stage = 0; stage < stages; stage++) {
        struct schedule_place here = *place;
        here.stage = stage;
        plugin_order_passes(row, &here, entries + stage * count);
    }
    const bool ok = play(place, entries, err);
    free(entries);
    return ok;
}

/* ---- iterations ---- */

struct iteration_host {
    struct ballast_iteration interface; /* first: what the plug-in is handed */
    const struct planner_oracle *oracle;
    const struct job_plan *plan;
    const struct iteration_plan *it;
    struct schedule_place place;
    struct schedule_entry *candidate;
    struct error *err;
    bool failed;
};

static void iteration_fail(struct ballast_iteration *iteration, const char *sentence) {
    struct iteration_host *h = iteration->host;
    if (!h->failed) error_set(h->err, "%s", sentence);
    h->failed = true;
}

static void entries_from_passes(const struct iteration_host *h, const struct ballast_pass *passes,
                                struct schedule_entry *entries) {
    for (int64_t i = 0; i < h->it->entry_count * h->place.stage_count; i++)
        entries[i] = (struct schedule_entry){ .micro_batch = passes[i].micro_batch,
                                              .chunk = passes[i].chunk,
                                              .backward = passes[i].backward != 0 };
}

static double simulate_passes(struct ballast_iteration *iteration,
                              const struct ballast_pass *passes) {
    struct iteration_host *h = iteration->host;
    struct error why = { 0 };
    if (h->failed) return -1;
    entries_from_passes(h, passes, h->candidate);
    if (!play(&h->place, h->candidate, &why)) return -1;
    struct iteration_plan candidate = *h->it;
    candidate.entries = h->candidate;
    struct planner_outcome outcome = { 0 };
    h->failed =
        !h->oracle->simulate_iteration(h->oracle->context, h->plan, &candidate, &outcome, h->err);
    return h->failed ? -1 : outcome.seconds;
}

/* Whole micro-batches have one unit each, so that the cell of micro-batch m on part p is
 * cell_first[p] + units[m]. */
static void fill_costs(struct iteration_host *h, struct ballast_iteration_pass *passes) {
    const struct iteration_plan *it = h->it;
    for (int64_t part = 0; part < h->plan->part_count; part++)
        for (int64_t m = 0; m < it->micro_batch_count; m++) {
            const struct pass_cost *cost = &it->costs[it->cell_first[part] + it->units[m]];
            passes[part * it->micro_batch_count + m] = (struct ballast_iteration_pass){
                .forward_seconds = seconds_from_ns(cost->forward_ns),
                .backward_seconds = seconds_from_ns(cost->backward_ns),
                .send_forward_seconds = seconds_from_ns(cost->send_forward_ns),
                .send_backward_seconds = seconds_from_ns(cost->send_backward_ns),
                .activation_bytes = cost->activation_bytes,
                .workspace_bytes = cost->workspace_bytes,
            };
        }
}

static void fill_micro_batches(const struct iteration_plan *it,
                               struct ballast_micro_batch *micro_batches) {
    for (int64_t m = 0; m < it->micro_batch_count; m++)
        micro_batches[m] =
            (struct ballast_micro_batch){ .samples = it->shapes[m].samples,
                                          .vision_tokens = it->shapes[m].vision_tokens,
                                          .language_tokens = it->shapes[m].language_tokens,
                                          .video_tokens = it->shapes[m].video_tokens };
}

static bool plan_passes(const struct ballast_joint *row, struct iteration_host *h,
                        const void *parameters) {
    struct iteration_plan *it = (struct iteration_plan *)h->it;
    const int64_t count = it->entry_count * h->place.stage_count;
    struct ballast_pass *passes = arena_array(it->scratch, struct ballast_pass, count);
    for (int64_t i = 0; i < count; i++)
        passes[i] = (struct ballast_pass){ it->entries[i].micro_batch, it->entries[i].chunk,
                                           it->entries[i].backward };
    h->candidate = arena_array(it->scratch, struct schedule_entry, count);
    if (row->plan_iteration(&h->interface, parameters, passes) == 0 && !h->failed)
        iteration_fail(&h->interface, "the policy failed and gave no reason");
    if (h->failed) return false;
    entries_from_passes(h, passes, it->entries);
    return play(&h->place, it->entries, h->err);
}

bool plugin_plan_iteration(const struct ballast_joint *row, const struct planner_oracle *oracle,
                           const void *parameters, const struct job_plan *plan,
                           struct iteration_plan *it, struct error *err) {
    struct ballast_iteration_pass *costs = arena_array(it->scratch, struct ballast_iteration_pass,
                                                       plan->part_count * it->micro_batch_count);
    struct ballast_micro_batch *micro_batches =
        arena_array(it->scratch, struct ballast_micro_batch, it->micro_batch_count);
    struct iteration_host h = {
        .interface = { .size = sizeof h.interface,
                       .host = &h,
                       .stage_count = plan->stage_count,
                       .chunk_count = plan->chunk_count,
                       .micro_batch_count = it->micro_batch_count,
                       .micro_batches = micro_batches,
                       .passes = costs,
                       .activation_capacity_bytes = it->activation_capacity_bytes,
                       .simulate = simulate_passes,
                       .fail = iteration_fail },
        .oracle = oracle,
        .plan = plan,
        .it = it,
        .place = { .stage_count = plan->stage_count,
                   .chunk_count = plan->chunk_count,
                   .micro_batch_count = it->micro_batch_count },
        .err = err,
    };
    fill_costs(&h, costs);
    fill_micro_batches(it, micro_batches);
    const double start_s = wall_clock_s();
    const bool planned = plan_passes(row, &h, parameters);
    it->planner_s = wall_clock_s() - start_s;
    return planned ||
           error_context(err, "while planning an iteration with \"%s\" of a plug-in", row->name);
}
