/* execution.c - load, prepare, replay; the answer as records. */
#include "sim/study/execution.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>
#include "ballast_version.h"
#include "sim/base/units.h"

const char *execution_version(void) {
    return BALLAST_VERSION;
}

const char *execution_commit(void) {
    return BALLAST_COMMIT;
}

static struct execution *prepare(struct scenario *scenario, struct error *err) {
    if (scenario == NULL) return NULL;
    struct execution *e = memory_alloc(sizeof *e);
    *e = (struct execution){ .scenario = scenario };
    e->job = job_create(scenario, err);
    if (e->job == NULL) {
        execution_destroy(e);
        return NULL;
    }
    return e;
}

static struct execution *finish(struct execution *e, const struct replay_options *options,
                                struct error *err) {
    if (e == NULL) return NULL;
    e->replay = replay_run(e->job, options, err);
    if (e->replay == NULL) {
        execution_destroy(e);
        return NULL;
    }
    return e;
}

struct execution *execution_of_job(struct scenario *scenario, struct job *job,
                                   const struct replay_options *options, struct error *err) {
    struct execution *e = memory_alloc(sizeof *e);
    *e = (struct execution){ .scenario = scenario, .job = job };
    return options != NULL ? finish(e, options, err) : e;
}

struct execution *execution_prepare(const struct scenario_options *options, const char *path,
                                    struct error *err) {
    return prepare(scenario_load(options, path, err), err);
}

struct execution *execution_run(const struct scenario_options *options, const char *path,
                                const struct replay_options *replay_options, struct error *err) {
    return finish(execution_prepare(options, path, err), replay_options, err);
}

struct execution *execution_run_json(const struct scenario_options *options, struct json *json,
                                     const struct replay_options *replay_options,
                                     struct error *err) {
    struct execution *e = prepare(scenario_load_json(options, json, err), err);
    return replay_options != NULL ? finish(e, replay_options, err) : e;
}

void execution_destroy(struct execution *e) {
    if (e == NULL) return;
    replay_destroy(e->replay);
    job_destroy(e->job);
    scenario_destroy(e->scenario);
    free(e);
}

/* ---- prices ---- */

static const char *const bound_names[] = {
    [PRICE_COMPUTE] = "compute",
    [PRICE_MEMORY] = "memory",
    [PRICE_NETWORK] = "network",
    [PRICE_LAUNCH] = "launch",
};

static const char *shape_text(const struct operator_work *work, struct arena *arena) {
    switch (work->kind) {
    case OPERATOR_MATMUL:
        return arena_format(arena, "m=%ld n=%ld k=%ld", (long)work->m, (long)work->n,
                            (long)work->k);
    case OPERATOR_ATTENTION:
        return arena_format(
            arena, "tokens=%.0f mean_length=%.0f heads=%ld kv_heads=%ld head_dim=%ld%s",
            work->token_sum, work->square_sum / fmax(work->token_sum, 1), (long)work->heads,
            (long)work->kv_heads, (long)work->head_dim, work->causal ? " causal" : "");
    default:
        return work->communicator != COMMUNICATOR_NONE
                   ? arena_format(arena, "bytes=%.0f", work->network_bytes)
                   : arena_format(arena, "bytes=%.0f", work->memory_bytes);
    }
}

/* Layers that are priced alike. */
struct equal_layers {
    int64_t first, last, count; /* of the model */
    int64_t recomputing[RECOMPUTE_KIND_COUNT];
};

/* Blocks that a rule names are told apart from the others of their kind. */
static const char *operator_text(const struct execution *e, const struct equal_layers *layers,
                                 const char *name, struct arena *arena) {
    const struct layer *all = e->scenario->model->layers;
    if (price_table_of_layer(e->job->prices, layers->first) == e->job->prices)
        return arena_text(arena, name);
    if (layers->count == 1)
        return arena_format(arena, "%s, block %d", name, all[layers->first].index_in_module);
    return arena_format(arena, "%s, %ld of blocks %d-%d", name, (long)layers->count,
                        all[layers->first].index_in_module, all[layers->last].index_in_module);
}

static bool same_work(const struct operator_work *a, const struct operator_work *b) {
    return strcmp(a->name, b->name) == 0 && a->kind == b->kind && a->pass == b->pass &&
           operator_calls(a) == operator_calls(b) && a->flop == b->flop &&
           a->memory_bytes == b->memory_bytes && a->network_bytes == b->network_bytes;
}

/* Adds `layers` to those operators of a forward pass that run again so; equal ones in the same
 * order. What runs again in another shape than forward (a part of a matmul, for one), or backward,
 * stays in `list`. */
static void count_again(struct operator_list *list, int64_t layers,
                        const struct operator_list *forward, int64_t *again) {
    int64_t at = 0, kept = 0;
    for (int64_t i = 0; i < list->count; i++) {
        int64_t found = at, passed = 0;
        while (passed < forward->count &&
               !same_work(&forward->operators[found], &list->operators[i])) {
            found = (found + 1) % forward->count;
            passed++;
        }
        if (passed < forward->count) {
            again[found] += layers;
            at = (found + 1) % forward->count;
        } else {
            list->operators[kept++] = list->operators[i];
        }
    }
    list->count = kept;
}

/* Where the layers stand, which all rows of them share. */
struct price_place {
    const struct execution *execution;
    const struct equal_layers *layers;
    struct rule_place place;
    int64_t holders; /* stages with such layers */
};

/* One operator of the layers, which `runs` of them run. */
static void add_price(const struct price_place *at, const struct operator_work *work,
                      const char *pass, int64_t runs, struct arena *arena,
                      struct price_record *records, int64_t *count) {
    const struct execution *e = at->execution;
    const struct scenario *s = e->scenario;
    struct communicator group = layout_communicator(&s->layout, work->communicator);
    struct price price = cost_model_price_at(s->cost_model, work, &group, &at->place);
    struct operator_work moved = *work;
    if (price.traffic > 0) moved.memory_bytes *= price.traffic;
    records[*count] = (struct price_record){
        .price_index = *count,
        .layer_kind = layer_kind_name(s->model->layers[at->layers->first].kind),
        .operator= operator_text(e, at->layers, work->name, arena),
        .kind = operator_kind_name(work->kind),
        .pass = pass,
        .shape = shape_text(&moved, arena),
        /* Of a rank that holds such layers, on average over those ranks. */
        .calls_per_step = (double)(runs * operator_calls(work)) *
                          (double)s->micro_batches_per_rank / (double)at->holders,
        .rank_fraction = (double)at->holders / (double)e->job->plan.stage_count,
        .flop = work->flop,
        .memory_bytes = moved.memory_bytes,
        .network_bytes = work->network_bytes,
        .price_s = price.seconds,
        .launch_s = price.launch_s,
        .efficiency_fraction = price.efficiency,
        .bound = bound_names[price.bound],
        .source = price.source,
        .inside_range = price.inside_range,
        .band_fraction = price.band_fraction,
    };
    ++*count;
}

/* Stages with layers of the kind that these prices are of; NULL: any of the kind. */
static int64_t count_holders(const struct execution *e, enum layer_kind kind,
                             const struct price_table *prices) {
    const struct job_plan *plan = &e->job->plan;
    int64_t holders = 0;
    for (int64_t stage = 0; stage < plan->stage_count; stage++) {
        bool holds = false;
        for (int64_t part = stage; part < plan->part_count; part += plan->stage_count)
            for (int64_t l = plan->first_layer[part]; l < plan->first_layer[part + 1]; l++)
                holds = holds ||
                        (e->scenario->model->layers[l].kind == kind &&
                         (prices == NULL || price_table_of_layer(e->job->prices, l) == prices));
        holders += holds;
    }
    return holders;
}

static void add_prices(const struct execution *e, struct arena *arena,
                       const struct equal_layers *layers, struct price_record *records,
                       int64_t *count) {
    const struct scenario *s = e->scenario;
    const struct tensor_split split = scenario_split(s);
    const int64_t first = layers->first;
    const enum layer_kind kind = s->model->layers[first].kind;
    const struct gradient_need need = model_gradient_need(s->model, first);
    const struct price_table *prices = price_table_of_layer(e->job->prices, first);
    const struct price_place at = { e, layers, price_table_place(prices, kind),
                                    count_holders(e, kind, prices) };
    struct operator_list forward = { 0 }, backward = { 0 };
    layer_operators(s->model, first, &e->job->typical, &split, PASS_SET_FORWARD, need, &forward);
    layer_operators(s->model, first, &e->job->typical, &split, PASS_SET_BACKWARD, need, &backward);
    int64_t again[PRICE_OPERATOR_LIMIT] = { 0 };
    struct operator_list others[RECOMPUTE_KIND_COUNT] = { { 0 } };
    for (int how = 0; how < RECOMPUTE_KIND_COUNT; how++) {
        if (layers->recomputing[how] == 0) continue;
        layer_recompute_operators(s->model, first, &e->job->typical, &split,
                                  (enum recompute_kind)how, need, &others[how]);
        count_again(&others[how], layers->recomputing[how], &forward, again);
    }
    count_again(&backward, layers->count, &forward, again); /* a chunked head's logits, for one */
    for (int64_t i = 0; i < forward.count; i++) {
        const struct operator_work *work = &forward.operators[i];
        add_price(&at, work, operator_pass_name(work->pass), layers->count + again[i], arena,
                  records, count);
    }
    for (int how = 0; how < RECOMPUTE_KIND_COUNT; how++) {
        for (int64_t i = 0; i < others[how].count; i++)
            add_price(&at, &others[how].operators[i], "recompute", layers->recomputing[how], arena,
                      records, count);
        operator_list_free(&others[how]);
    }
    for (int64_t i = 0; i < backward.count; i++) {
        const struct operator_work *work = &backward.operators[i];
        add_price(&at, work, operator_pass_name(work->pass), layers->count, arena, records, count);
    }
    operator_list_free(&forward);
    operator_list_free(&backward);
}

/* Blocks of the kind, and those of them that run something again, by how. */
static int64_t blocks_of(const struct execution *e, enum layer_kind kind,
                         int64_t recomputing[RECOMPUTE_KIND_COUNT]) {
    int64_t count = 0;
    for (int64_t i = 0; i < e->scenario->model->layer_count; i++) {
        if (e->scenario->model->layers[i].kind != kind) continue;
        const struct gradient_need need = model_gradient_need(e->scenario->model, i);
        count++;
        if (need.input || need.weight) recomputing[e->job->plan.recompute[i]]++;
    }
    return count;
}

static const char *host_source(const struct scenario *s, struct arena *arena) {
    const double slower = cost_model_gpu(s->cost_model)->host_time_factor;
    const char *text = arena_format(arena, "host time of stack %s", s->stack->name);
    return slower == 1 ? text
                       : arena_format(arena, "%s, %.3g times for this GPU's host", text, slower);
}

static void add_launch_wait(const struct execution *e, enum layer_kind kind, const char *pass,
                            int64_t ns, int64_t blocks, struct arena *arena,
                            struct price_record *records, int64_t *count) {
    if (ns == 0 || blocks == 0) return;
    const double holders = (double)count_holders(e, kind, NULL);
    records[*count] = (struct price_record){
        .price_index = *count,
        .layer_kind = layer_kind_name(kind),
        .operator= "launch waits",
        .kind = "launch",
        .pass = pass,
        .shape = "",
        .calls_per_step = (double)blocks * (double)e->scenario->micro_batches_per_rank / holders,
        .rank_fraction = holders / (double)e->job->plan.stage_count,
        .price_s = seconds_from_ns(ns),
        .launch_s = seconds_from_ns(ns),
        .bound = bound_names[PRICE_LAUNCH],
        .source = host_source(e->scenario, arena),
        .inside_range = true,
        .efficiency_fraction = NAN, /* nothing runs at any rate */
        .band_fraction = NAN,       /* nobody measured how host times repeat */
    };
    ++*count;
}

/* Launches that the device waits for, as one more operator of the blocks. */
static void add_launch_waits(const struct execution *e, struct arena *arena,
                             struct price_record *records, int64_t *count) {
    for (int k = 0; k < LAYER_KIND_COUNT; k++) {
        const enum layer_kind kind = (enum layer_kind)k;
        int64_t recomputing[RECOMPUTE_KIND_COUNT] = { 0 };
        const int64_t blocks = blocks_of(e, kind, recomputing);
        if (blocks == 0 || batch_shape_tokens(&e->job->typical, layer_kind_axis(kind)) == 0)
            continue;
        struct host_waits waits;
        price_table_host_waits(e->job->prices, kind, &e->job->typical, &waits);
        add_launch_wait(e, kind, "forward", waits.forward_ns, blocks, arena, records, count);
        add_launch_wait(e, kind, "backward", waits.backward_ns, blocks, arena, records, count);
        for (int how = 0; how < RECOMPUTE_KIND_COUNT; how++)
            add_launch_wait(e, kind, "recompute", waits.recompute_ns[how], recomputing[how], arena,
                            records, count);
    }
}

struct price_record *execution_prices(const struct execution *e, struct arena *arena,
                                      int64_t *count) {
    const struct model *model = e->scenario->model;
    const struct price_table *prices = e->job->prices;
    const int64_t tables = LAYER_KIND_COUNT + price_table_variant_count(prices);
    struct price_record *records = arena_array(
        arena, struct price_record, tables * (2 + RECOMPUTE_KIND_COUNT) * PRICE_OPERATOR_LIMIT);
    bool *done = arena_array(arena, bool, model->layer_count);
    *count = 0;
    for (int64_t first = 0; first < model->layer_count; first++) {
        if (done[first]) continue;
        enum layer_kind kind = model->layers[first].kind;
        struct equal_layers layers = { .first = first };
        for (int64_t i = first; i < model->layer_count; i++) {
            if (model->layers[i].kind != kind ||
                price_table_of_layer(prices, i) != price_table_of_layer(prices, first))
                continue;
            struct gradient_need need = model_gradient_need(model, i);
            layers.recomputing[e->job->plan.recompute[i]] += need.input || need.weight;
            layers.last = i;
            layers.count++;
            done[i] = true;
        }
        if (batch_shape_tokens(&e->job->typical, layer_kind_axis(kind)) == 0) continue;
        add_prices(e, arena, &layers, records, count);
    }
    add_launch_waits(e, arena, records, count);
    return records;
}

/* ---- rows ---- */

/* Appends the layers of one part of the model. */
static const char *part_layers(const struct execution *e, int64_t part, const char *text,
                               struct arena *arena) {
    static const char *const words[LAYER_KIND_COUNT] = {
        [LAYER_PATCH_EMBEDDING] = "patch embedding",
        [LAYER_VISION_BLOCK] = "vision",
        [LAYER_CONNECTOR] = "connector",
        [LAYER_TOKEN_EMBEDDING] = "token embedding",
        [LAYER_LANGUAGE_BLOCK] = "language",
        [LAYER_HEAD] = "head",
        [LAYER_TEXT_PROJECTION] = "text projection",
        [LAYER_LATENT_EMBEDDING] = "latent embedding",
        [LAYER_DIFFUSION_BLOCK] = "diffusion",
        [LAYER_JOINT_BLOCK] = "joint",
        [LAYER_SINGLE_BLOCK] = "single",
        [LAYER_DIFFUSION_HEAD] = "diffusion head",
    };
    const struct model *model = e->scenario->model;
    const struct job_plan *plan = &e->job->plan;
    for (int64_t i = plan->first_layer[part]; i < plan->first_layer[part + 1];) {
        enum layer_kind kind = model->layers[i].kind;
        int64_t end = i;
        while (end < plan->first_layer[part + 1] && model->layers[end].kind == kind)
            end++;
        const char *comma = text[0] != '\0' ? ", " : "";
        if (layer_kind_is_block(kind))
            text = arena_format(arena, "%s%s%s %d-%d", text, comma, words[kind],
                                model->layers[i].index_in_module,
                                model->layers[end - 1].index_in_module);
        else
            text = arena_format(arena, "%s%s%s", text, comma, words[kind]);
        i = end;
    }
    return text;
}

const char *execution_stage_layers(const struct execution *e, int64_t stage, struct arena *arena) {
    const char *text = "";
    for (int64_t part = stage; part < e->job->plan.part_count; part += e->job->plan.stage_count)
        text = part_layers(e, part, text, arena);
    return text;
}

/* Ranks of some group share a node: where none do its traffic takes the NICs alone. */
static bool shares_node(const struct layout *layout, enum communicator_kind kind) {
    return layout_communicator(layout, kind).ranks_per_node > 1;
}

/* What is communicated inside nodes, at most: what shares a class with it counts too (an update
 * beside the gather of its parameters, what the same groups send over NICs). */
static double in_node_s(const struct layout *layout, const double *classes_s) {
    double sum = 0;
    if (shares_node(layout, COMMUNICATOR_TENSOR)) sum += classes_s[REPLAY_TENSOR];
    if (shares_node(layout, COMMUNICATOR_CONTEXT)) sum += classes_s[REPLAY_CONTEXT];
    if (shares_node(layout, COMMUNICATOR_DATA)) {
        sum += classes_s[REPLAY_DATA];
        if (layout->zero_stage > 0) sum += classes_s[REPLAY_UPDATE];
    }
    if (layout->pp > 1 && layout_stage_link(layout, 0).node_count == 1)
        sum += classes_s[REPLAY_SEND];
    return sum;
}

/* With its part of the waits for other stages and ranks, which last as long as the work does that
 * they wait for. */
static double over_pcie_s(const struct scenario *s, const struct replay *r) {
    static const enum replay_class waits[] = { REPLAY_BUBBLE, REPLAY_STAGE_IMBALANCE,
                                               REPLAY_TIME_IMBALANCE, REPLAY_RANK_IMBALANCE };
    if (!scenario_talks_over_pcie(s)) return 0;
    double busy_s = r->step_time_mean_s;
    for (size_t i = 0; i < sizeof waits / sizeof waits[0]; i++)
        busy_s -= r->classes_s[waits[i]];
    if (!(busy_s > 0)) return 0;
    return in_node_s(&s->layout, r->classes_s) * r->step_time_mean_s / busy_s;
}

void execution_record(const struct execution *e, const struct provenance *provenance,
                      struct arena *arena, struct run_record *run) {
    const struct scenario *s = e->scenario;
    const struct replay *r = e->replay;
    *run = run_record_empty();
    /* The record outlives the scenario. */
    run->scenario_name = arena_text(arena, s->name);
    run->scenario_file = s->path != NULL ? arena_text(arena, s->path) : NULL;
    run->tool_version = execution_version();
    run->source_commit = execution_commit();
    run->command_line = provenance->command_line;
    run->seed = s->simulate_fields.seed;
    cJSON *resolved = scenario_resolved(s);
    char *text = cJSON_PrintUnformatted(resolved);
    run->resolved_scenario = arena_text(arena, text);
    cJSON_free(text);
    cJSON_Delete(resolved);
    run->profile_id = arena_text(arena, cost_model_profile_id(s->cost_model));
    run->fidelity = r->fidelity == FIDELITY_OPERATOR ? "operator" : "stage";
    run->status = "done";
    run->repeatable = r->repeatable;
    run->wall_time_s = r->wall_s;
    run->planner_mean_ms = r->planner_mean_s * 1e3;
    run->planner_exposed_ms = r->planner_exposed_s * 1e3;
    run->gpu_count = layout_rank_count(&s->layout);
    run->dp = s->layout.dp;
    run->iteration_count = r->iteration_count;
    run->sample_count = r->samples;
    run->language_token_count = r->language_tokens;
    run->vision_tile_count = r->vision_tiles;
    run->step_time_mean_ms = r->step_time_mean_s * 1e3;
    run->step_time_p50_ms = r->step_time_p50_s * 1e3;
    run->step_time_p95_ms = r->step_time_p95_s * 1e3;
    run->step_time_p99_ms = r->step_time_p99_s * 1e3;
    run->total_days = r->total_days;
    run->gpu_days = r->gpu_days;
    run->money_usd = r->money_usd;
    run->mfu_fraction = r->mfu_fraction;
    run->hfu_fraction = r->hfu_fraction;
    run->verdict = verdict_name(r->verdict);
    run->verdict_stage_index = r->verdict_stage;
    run->verdict_class = memory_class_name(r->verdict_class);
    run->memory_peak_bytes = llround(stage_memory_device(&r->stages[r->verdict_stage].peak));
    if (!isnan(r->training.likely_bytes)) {
        run->memory_training_bytes = llround(r->training.likely_bytes);
        run->memory_training_high_bytes = llround(r->training.high_bytes);
    }
    run->memory_capacity_bytes = llround(cost_model_gpu(s->cost_model)->hbm_bytes);
    run->band_fraction = r->band.above;
    run->band_below_fraction = r->band.below;
    run->pair_band_fraction = r->pair_band_fraction;
    run->inside_range = r->inside_range;
    const double *c = r->classes_s;
    run->compute_ms = c[REPLAY_COMPUTE] * 1e3;
    run->padding_ms = c[REPLAY_PADDING] * 1e3;
    run->recompute_ms = c[REPLAY_RECOMPUTE] * 1e3;
    run->launch_wait_ms = c[REPLAY_LAUNCH] * 1e3;
    run->launch_cost_ms = r->launch_cost_s * 1e3;
    run->update_ms = c[REPLAY_UPDATE] * 1e3;
    run->exposed_tensor_ms = c[REPLAY_TENSOR] * 1e3;
    run->exposed_context_ms = c[REPLAY_CONTEXT] * 1e3;
    run->host_copy_ms = c[REPLAY_HOST_COPY] * 1e3;
    run->exposed_pipeline_ms = c[REPLAY_SEND] * 1e3;
    run->exposed_data_ms = c[REPLAY_DATA] * 1e3;
    run->bubble_ms = c[REPLAY_BUBBLE] * 1e3;
    run->stage_imbalance_ms = c[REPLAY_STAGE_IMBALANCE] * 1e3;
    run->rank_imbalance_ms = c[REPLAY_RANK_IMBALANCE] * 1e3;
    run->time_imbalance_ms = c[REPLAY_TIME_IMBALANCE] * 1e3;
    run->loading_ms = c[REPLAY_LOADING] * 1e3;
    run->pcie_ms = over_pcie_s(s, r) * 1e3;
    run->goodput_fraction = r->goodput_fraction;
    run->left_out_fraction = job_left_out_fraction(e->job);
    run->dropped_fraction = job_dropped_fraction(e->job);
    if (e->job->asked_samples_per_step > 0)
        run->asked_samples_per_step = e->job->asked_samples_per_step;
}

struct iteration_record *execution_iterations(const struct execution *e, struct arena *arena) {
    const struct replay *r = e->replay;
    struct iteration_record *rows = arena_array(arena, struct iteration_record, r->iteration_count);
    for (int64_t i = 0; i < r->iteration_count; i++) {
        const struct iteration_outcome *it = &r->iterations[i];
        rows[i] = (struct iteration_record){
            .iteration_index = i,
            .step_time_ns = it->step_time_ns,
            .slowest_rank = it->slowest_rank,
            .fastest_rank_ns = it->fastest_rank_ns,
            .sample_count = it->samples,
            .micro_batch_count = e->scenario->micro_batches_per_rank * e->scenario->layout.dp,
            .language_tokens = it->language_tokens,
            .useful_language_tokens = it->useful_language_tokens,
            .vision_tiles = it->vision_tiles,
            .planner_ns = it->planner_ns,
        };
    }
    return rows;
}
