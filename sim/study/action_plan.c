/* action_plan.c - compiles the passes of a simulated iteration into actions. */
#include "sim/study/action_plan.h"

#include <math.h>
#include <string.h>
#include "sim/base/units.h"

static const char *const names[ACTION_KIND_COUNT] = {
    [ACTION_FORWARD] = "fw_stage",          [ACTION_BACKWARD] = "bw_stage",
    [ACTION_ISEND] = "isend",               [ACTION_IRECV] = "irecv",
    [ACTION_WAIT_ISEND] = "wait_isend",     [ACTION_WAIT_IRECV] = "wait_irecv",
};

const char *action_name(enum action_kind kind) {
    return names[kind];
}

struct compiler {
    struct arena *arena;
    const struct step_model *step;
    struct step_runner *runner;
    struct action_plan *plan;
    struct step_pass *passes; /* rank after rank */
    int64_t *pass_count, passes_at;
    int64_t *first_pass;
    /* what a rank still has to do: its last unwaited send by direction, and inputs taken already */
    struct action last_send[2];
    bool sending[2];
    bool *taken; /* by (part, micro-batch, sub, direction) of the sender, for one rank */
    int64_t most_subs;
};

static void keep_pass(void *context, const struct step_pass *pass) {
    struct compiler *c = context;
    if (c->pass_count[pass->stage] == 0) c->first_pass[pass->stage] = c->passes_at;
    c->pass_count[pass->stage]++;
    c->passes[c->passes_at++] = *pass;
}

static void emit(struct compiler *c, int64_t rank, struct action action) {
    c->plan->actions[rank][c->plan->action_count[rank]++] = action;
}

static int64_t module_of(const struct compiler *c, int64_t part) {
    return c->step->module_of_chunk[part / c->step->stage_count];
}

static int64_t units(const struct compiler *c, int64_t part, int64_t micro_batch) {
    return c->plan->units[module_of(c, part) * c->plan->micro_batch_count + micro_batch];
}

static bool *taken(const struct compiler *c, int64_t part, const struct action *message) {
    int64_t cell = (part * c->plan->micro_batch_count + message->micro_batch) * c->most_subs +
                   message->sub;
    return &c->taken[2 * cell + message->backward];
}

static int64_t part_of(const struct compiler *c, const struct step_pass *pass) {
    return pass->chunk * c->step->stage_count + pass->stage;
}

/* Where the input of a pass comes from: part, or -1 for none. */
static int64_t source_part(const struct compiler *c, const struct step_pass *pass) {
    int64_t part = part_of(c, pass) + (pass->backward ? 1 : -1);
    if (part < 0 || part >= c->step->part_count || units(c, part, pass->micro_batch) == 0)
        return -1;
    return part;
}

/* irecv (or its wait) of every message that the pass needs and the rank has not asked for. */
static void receive(struct compiler *c, const struct step_pass *pass, bool wait) {
    int64_t source = source_part(c, pass), stages = c->step->stage_count;
    if (source < 0 || source % stages == pass->stage) return;
    bool same = module_of(c, source) == module_of(c, part_of(c, pass));
    int64_t first = same ? pass->sub : 0,
            last = same ? pass->sub + 1 : units(c, source, pass->micro_batch);
    for (int64_t sub = first; sub < last; sub++) {
        struct action message = { .kind = wait ? ACTION_WAIT_IRECV : ACTION_IRECV,
                                  .chunk = source / stages,
                                  .micro_batch = pass->micro_batch,
                                  .sub = sub,
                                  .backward = pass->backward,
                                  .peer = source % stages };
        bool *done = taken(c, source, &message);
        if (*done) continue;
        if (wait) *done = true;
        emit(c, pass->stage, message);
    }
}

static void wait_send(struct compiler *c, int64_t rank, bool backward) {
    if (!c->sending[backward]) return;
    c->sending[backward] = false;
    struct action wait = c->last_send[backward];
    wait.kind = ACTION_WAIT_ISEND;
    emit(c, rank, wait);
}

static void send(struct compiler *c, const struct step_pass *pass) {
    int64_t stages = c->step->stage_count;
    int64_t target = part_of(c, pass) + (pass->backward ? -1 : 1);
    if (target < 0 || target >= c->step->part_count || target % stages == pass->stage ||
        units(c, target, pass->micro_batch) == 0)
        return;
    wait_send(c, pass->stage, pass->backward);
    c->sending[pass->backward] = true;
    c->last_send[pass->backward] = (struct action){ .kind = ACTION_ISEND,
                                                    .chunk = pass->chunk,
                                                    .micro_batch = pass->micro_batch,
                                                    .sub = pass->sub,
                                                    .backward = pass->backward,
                                                    .peer = target % stages,
                                                    .start_ns = pass->finish_ns,
                                                    .finish_ns = pass->finish_ns + pass->send_ns };
    emit(c, pass->stage, c->last_send[pass->backward]);
}

static void compile_rank(struct compiler *c, int64_t rank) {
    const struct step_pass *passes = c->passes + c->first_pass[rank];
    int64_t count = c->pass_count[rank];
    memset(c->taken, 0,
           sizeof *c->taken * 2 *
               (size_t)(c->step->part_count * c->plan->micro_batch_count * c->most_subs));
    c->sending[0] = c->sending[1] = false;
    if (count > 0) receive(c, &passes[0], false);
    for (int64_t i = 0; i < count; i++) {
        const struct step_pass *pass = &passes[i];
        receive(c, pass, true);
        /* What the next pass needs, unless it is this one's own output. */
        if (i + 1 < count) receive(c, &passes[i + 1], false);
        emit(c, rank,
             (struct action){ .kind = pass->backward ? ACTION_BACKWARD : ACTION_FORWARD,
                              .chunk = pass->chunk,
                              .micro_batch = pass->micro_batch,
                              .sub = pass->sub,
                              .backward = pass->backward,
                              .start_ns = pass->start_ns,
                              .finish_ns = pass->finish_ns,
                              .activation_bytes = pass->activation_bytes,
                              .host_bytes = pass->host_bytes,
                              .workspace_bytes = pass->workspace_bytes,
                              .blocks = pass->blocks });
        send(c, pass);
    }
    wait_send(c, rank, false);
    wait_send(c, rank, true);
}

static void count_units(struct compiler *c) {
    struct action_plan *p = c->plan;
    p->units = arena_array(c->arena, int64_t, c->step->module_count * p->micro_batch_count);
    for (int64_t i = 0; i < c->step->module_count; i++)
        for (int64_t m = 0; m < p->micro_batch_count; m++) {
            int64_t count = step_runner_units(c->runner, i, m);
            p->units[i * p->micro_batch_count + m] = count;
            if (count > c->most_subs) c->most_subs = count;
        }
}

static void compile(struct compiler *c) {
    struct action_plan *p = c->plan;
    int64_t total = 0;
    count_units(c);
    for (int64_t part = 0; part < c->step->part_count; part++)
        for (int64_t m = 0; m < p->micro_batch_count; m++)
            total += 2 * units(c, part, m);
    c->passes = arena_array(c->arena, struct step_pass, total);
    c->pass_count = arena_array(c->arena, int64_t, p->rank_count);
    c->first_pass = arena_array(c->arena, int64_t, p->rank_count);
    c->taken = arena_array(c->arena, bool,
                           2 * c->step->part_count * p->micro_batch_count * c->most_subs);
    step_runner_passes(c->runner, keep_pass, c);
    p->actions = arena_array(c->arena, struct action *, p->rank_count);
    p->action_count = arena_array(c->arena, int64_t, p->rank_count);
    p->host_capacity_bytes = step_host_capacity(c->step);
    p->capacity_bytes = arena_array(c->arena, double, p->rank_count);
    for (int64_t rank = 0; rank < p->rank_count; rank++) {
        /* A pass, its send and two waits; and two messages for each sub-microbatch it waits for. */
        p->actions[rank] = arena_array(c->arena, struct action,
                                       c->pass_count[rank] * (6 + 2 * c->most_subs) + 2);
        p->capacity_bytes[rank] = step_activation_capacity(c->step, rank);
        compile_rank(c, rank);
    }
}

struct action_plan *action_plan_make(struct arena *arena, const struct job *job, int64_t iteration,
                                     int64_t dp_rank, struct error *err) {
    if (iteration < 0 || iteration >= job->epoch_iterations || dp_rank < 0 ||
        dp_rank >= job->batches.rank_count) {
        error_set(err, "there is no iteration %ld of data-parallel rank %ld", (long)iteration,
                  (long)dp_rank);
        error_hint(err, "iterations are 0 to %ld, ranks 0 to %ld", (long)job->epoch_iterations - 1,
                   (long)job->batches.rank_count - 1);
        return NULL;
    }
    int64_t count = job->scenario->micro_batches_per_rank;
    struct action_plan *plan = arena_new(arena, struct action_plan);
    *plan = (struct action_plan){ .job = job,
                                  .iteration = iteration,
                                  .dp_rank = dp_rank,
                                  .rank_count = job->step->stage_count,
                                  .micro_batch_count = count };
    struct step_runner *runner = step_runner_create(job->step);
    struct rank_outcome outcome;
    const struct batch_shape *shapes =
        job->shapes + dp_rank * job->batches.per_rank + iteration * count;
    bool ok = step_run_rank(runner, FIDELITY_STAGE, shapes, count, &outcome, err);
    if (ok) {
        plan->makespan_ns = outcome.makespan_ns;
        plan->bound_ns = outcome.bound_ns;
        plan->planner_s = outcome.planner_s;
        struct compiler c = { .arena = arena, .step = job->step, .runner = runner, .plan = plan };
        compile(&c);
    }
    step_runner_destroy(runner);
    return ok ? plan : NULL;
}

/* ---- JSON ---- */

static void add_whole(cJSON *object, const char *key, int64_t value) {
    cJSON_AddNumberToObject(object, key, (double)value);
}

/* Of all kinds of blocks; none are left out. */
static void add_count(cJSON *object, int how,
                      const int16_t counts[PASS_GROUP_LIMIT][RECOMPUTE_KIND_COUNT]) {
    int64_t sum = 0;
    for (int32_t g = 0; g < PASS_GROUP_LIMIT; g++)
        sum += counts[g][how];
    if (sum > 0) add_whole(object, recompute_kind_name((enum recompute_kind)how), sum);
}

static cJSON *action_json(const struct action *a) {
    cJSON *o = cJSON_CreateObject();
    cJSON_AddStringToObject(o, "action", action_name(a->kind));
    add_whole(o, "chunk", a->chunk);
    add_whole(o, "micro_batch", a->micro_batch);
    add_whole(o, "sub", a->sub);
    if (a->kind > ACTION_BACKWARD) {
        cJSON_AddStringToObject(o, "carries", a->backward ? "gradient" : "activation");
        add_whole(o, "peer", a->peer);
        if (a->kind == ACTION_ISEND) add_whole(o, "arrival_ns", a->finish_ns);
        return o;
    }
    add_whole(o, "start_ns", a->start_ns);
    add_whole(o, "finish_ns", a->finish_ns);
    add_whole(o, "activation_bytes", (int64_t)a->activation_bytes);
    add_whole(o, "workspace_bytes", (int64_t)a->workspace_bytes);
    cJSON *blocks = cJSON_AddObjectToObject(o, "recompute_blocks");
    for (int how = 0; how < RECOMPUTE_KIND_COUNT; how++)
        add_count(blocks, how, a->blocks.blocks);
    if (a->host_bytes <= 0) return o;
    cJSON *away = cJSON_AddObjectToObject(o, "offload_blocks");
    for (int how = 0; how < RECOMPUTE_KIND_COUNT; how++)
        add_count(away, how, a->blocks.offloaded);
    add_whole(o, "host_bytes", (int64_t)a->host_bytes);
    return o;
}

static cJSON *modules_json(const struct action_plan *p) {
    const struct step_model *step = p->job->step;
    cJSON *list = cJSON_CreateArray();
    for (int64_t i = 0; i < step->module_count; i++) {
        cJSON *module = cJSON_CreateObject();
        int64_t first = 0, count = 0;
        for (int64_t c = step->chunk_count - 1; c >= 0; c--)
            if (step->module_of_chunk[c] == i) {
                first = c;
                count++;
            }
        add_whole(module, "first_chunk", first);
        add_whole(module, "chunk_count", count);
        cJSON *subs = cJSON_AddArrayToObject(module, "sub_microbatches");
        for (int64_t m = 0; m < p->micro_batch_count; m++)
            cJSON_AddItemToArray(
                subs, cJSON_CreateNumber((double)p->units[i * p->micro_batch_count + m]));
        cJSON_AddItemToArray(list, module);
    }
    return list;
}

cJSON *action_plan_json(const struct action_plan *p) {
    cJSON *root = cJSON_CreateObject();
    cJSON_AddStringToObject(root, "format", "ballast-actions-1");
    cJSON_AddStringToObject(root, "scenario", p->job->scenario->name);
    add_whole(root, "iteration", p->iteration);
    add_whole(root, "dp_rank", p->dp_rank);
    add_whole(root, "micro_batch_count", p->micro_batch_count);
    add_whole(root, "makespan_ns", p->makespan_ns);
    if (p->bound_ns > 0) add_whole(root, "lower_bound_ns", p->bound_ns);
    cJSON_AddItemToObject(root, "modules", modules_json(p));
    cJSON *ranks = cJSON_AddArrayToObject(root, "ranks");
    for (int64_t rank = 0; rank < p->rank_count; rank++) {
        cJSON *object = cJSON_CreateObject();
        add_whole(object, "rank", rank);
        add_whole(object, "activation_capacity_bytes", (int64_t)p->capacity_bytes[rank]);
        if (p->host_capacity_bytes < INFINITY)
            add_whole(object, "host_capacity_bytes", (int64_t)p->host_capacity_bytes);
        cJSON *actions = cJSON_AddArrayToObject(object, "actions");
        for (int64_t i = 0; i < p->action_count[rank]; i++)
            cJSON_AddItemToArray(actions, action_json(&p->actions[rank][i]));
        cJSON_AddItemToArray(ranks, object);
    }
    return root;
}
