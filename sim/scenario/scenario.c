/* scenario.c - reading order: sections by table, files they name, then the rules between fields.
 *
 * The rules come last so that their messages can speak of resolved values; each points at the field
 * that a user would change.
 */
#include "sim/scenario/scenario.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>
#include "sim/base/units.h"
#include "sim/policy/partition/partition.h"
#include "sim/scenario/scenario_fields.h"

enum { ASSUMPTION_LIMIT = 24 };
#define DEFAULT_GLOBAL_BATCH_SAMPLES 1024

struct reader {
    struct scenario *s;
    const struct scenario_options *options;
    struct error *err;
    struct scenario_top top;
    struct scenario_policy policy;
    int64_t assumption_count;
    const cJSON *precision_nodes[MODULE_ROLE_COUNT]; /* where a module's own precision stands */
};

static const cJSON *present(const cJSON *node) {
    return node == NULL || cJSON_IsNull(node) ? NULL : node;
}

static const cJSON *member(const cJSON *object, const char *name) {
    const cJSON *node = object != NULL ? cJSON_GetObjectItemCaseSensitive(object, name) : NULL;
    return node != NULL ? node : object;
}

/* Of the values that a rule weighs against each other, the one to point at: what --set changed,
 * otherwise the first. */
static const cJSON *suspect(struct reader *r, const cJSON *const *nodes, size_t count) {
    for (size_t i = 0; i < count; i++)
        if (json_is_overridden(r->s->json, nodes[i])) return nodes[i];
    return nodes[0];
}

#define SUSPECT(r, ...)                                                                            \
    suspect((r), (const cJSON *const[]){ __VA_ARGS__ },                                            \
            sizeof((const cJSON *const[]){ __VA_ARGS__ }) / sizeof(const cJSON *))

static void assume(struct reader *r, const char *text) {
    ballast_check(r->assumption_count + 1 < ASSUMPTION_LIMIT);
    r->s->assumptions[r->assumption_count++] = text;
}

/* A bare string stands for a section with that name and defaults: make it the object. */
static bool section_object(struct reader *r, const cJSON **node) {
    if (!cJSON_IsString(*node)) return true;
    cJSON *parent = json_root(r->s->json);
    const char *key = (*node)->string;
    cJSON *object = cJSON_CreateObject();
    cJSON_AddStringToObject(object, "name", (*node)->valuestring);
    char *kept = arena_text(r->s->arena, key);
    cJSON_ReplaceItemInObjectCaseSensitive(parent, kept, object);
    *node = cJSON_GetObjectItemCaseSensitive(parent, kept);
    return *node != NULL;
}

static bool read_section(struct reader *r, const struct field_table *table, const cJSON **node,
                         void *out) {
    *node = present(*node);
    if (*node != NULL && !section_object(r, node)) return false;
    return field_table_read(table, r->s->json, *node, out, r->s->arena, r->err);
}

/* A named file failed: its own mistakes keep their place, a wrong name gets the scenario's. */
static bool relocate(struct reader *r, const cJSON *node, const char *what, const char *name) {
    if (r->err->located) return error_context(r->err, "while loading %s \"%s\"", what, name);
    struct error inner = *r->err;
    return json_error(r->s->json, node, r->err, NULL, "%s", inner.text);
}

/* ---- cluster: a named file whose values hold unless the scenario gives its own ---- */

static void add_missing_number(cJSON *section, const char *key, double value) {
    if (cJSON_GetObjectItemCaseSensitive(section, key) == NULL)
        cJSON_AddNumberToObject(section, key, value);
}

static bool merge_cluster_file(struct reader *r) {
    cJSON *section = cJSON_GetObjectItemCaseSensitive(json_root(r->s->json), "cluster");
    const cJSON *name = section != NULL ? cJSON_GetObjectItemCaseSensitive(section, "name") : NULL;
    if (!cJSON_IsString(name)) return true;
    struct scenario *s = r->s;
    struct cluster_preset preset;
    if (!cluster_preset_read(s->arena, s->directory, name->valuestring, &preset, r->err)) {
        /* A name of one's own is welcome as long as the section says everything itself. */
        if (!r->err->located && cJSON_GetObjectItemCaseSensitive(section, "hardware") != NULL)
            return true;
        return relocate(r, name, "cluster", name->valuestring);
    }
    if (cJSON_GetObjectItemCaseSensitive(section, "hardware") == NULL)
        cJSON_AddStringToObject(section, "hardware", preset.hardware);
    add_missing_number(section, "gpu_count", (double)preset.gpu_count);
    add_missing_number(section, "gpus_per_node", (double)preset.network.gpus_per_node);
    add_missing_number(section, "nic_Gbit_per_s_per_gpu",
                       preset.network.nic_bytes_per_s_per_gpu * 8 / 1e9);
    add_missing_number(section, "nic_latency_us", preset.network.nic_latency_s * 1e6);
    add_missing_number(section, "nics_per_node", (double)preset.network.nics_per_node);
    if (preset.network.fabric != NULL && cJSON_GetObjectItemCaseSensitive(section, "fabric") == NULL)
        cJSON_AddStringToObject(section, "fabric", preset.network.fabric);
    if (preset.network.nic_efficiency_fraction > 0)
        add_missing_number(section, "nic_efficiency_fraction",
                           preset.network.nic_efficiency_fraction);
    return true;
}

/* ---- model: frozen modules and precisions ---- */

static int role_by_name(const char *name) {
    for (int role = 0; role < MODULE_ROLE_COUNT; role++)
        if (strcmp(module_role_name((enum module_role)role), name) == 0) return role;
    return -1;
}

static int role_of_node(struct reader *r, const cJSON *node, const char *name) {
    int role = role_by_name(name);
    if (role < 0)
        json_error(r->s->json, node, r->err, "one of: vision, connector, language",
                   "unknown module \"%s\"", name);
    else if (r->s->model->modules[role].layer_count == 0) {
        json_error(r->s->json, node, r->err, NULL, "model \"%s\" has no module \"%s\"",
                   r->s->model->name, name);
        role = -1;
    }
    return role;
}

static bool apply_model_options(struct reader *r) {
    struct scenario *s = r->s;
    struct model *model = arena_new(s->arena, struct model);
    *model = *s->model;
    s->model = model;
    static const enum precision by_choice[] = { PRECISION_BF16, PRECISION_FP16, PRECISION_FP8,
                                                PRECISION_FP32 };
    for (int role = 0; role < MODULE_ROLE_COUNT; role++)
        model->modules[role].precision = by_choice[s->training_fields.precision];

    const cJSON *frozen = present(s->model_fields.frozen), *item;
    if (frozen != NULL && !cJSON_IsArray(frozen))
        return json_error(s->json, frozen, r->err, "for example [\"vision\"]",
                          "must be a list of modules");
    cJSON_ArrayForEach(item, frozen) {
        if (!cJSON_IsString(item))
            return json_error(s->json, item, r->err, "one of: vision, connector, language",
                              "must be the name of a module");
        int role = role_of_node(r, item, item->valuestring);
        if (role < 0) return false;
        model->modules[role].frozen = true;
    }
    const cJSON *precision = present(s->model_fields.precision);
    if (precision != NULL && !cJSON_IsObject(precision))
        return json_error(s->json, precision, r->err, "for example {\"vision\": \"fp8\"}",
                          "must be an object of module and precision");
    cJSON_ArrayForEach(item, precision) {
        int role = role_of_node(r, item, item->string);
        if (role < 0) return false;
        int found = -1;
        for (int p = 0; p < PRECISION_COUNT; p++)
            if (cJSON_IsString(item) &&
                strcmp(precision_name((enum precision)p), item->valuestring) == 0)
                found = p;
        if (found < 0)
            return json_error(s->json, item, r->err, "one of: bf16, fp16, fp8, fp32",
                              cJSON_IsString(item) ? "unknown precision \"%s\""
                                                   : "must be the name of a precision",
                              item->valuestring);
        model->modules[role].precision = (enum precision)found;
        r->precision_nodes[role] = item;
    }
    bool trainable = false;
    for (int64_t i = 0; i < model->layer_count; i++)
        trainable = trainable || model_gradient_need(model, i).weight;
    if (!trainable)
        return json_error(s->json, frozen, r->err, NULL,
                          "every module is frozen: nothing is left to train");
    return true;
}

/* ---- policies ---- */

static const char *batching_name(const void *list, size_t index) {
    return ((const struct batching_policy *const *)list)[index]->name;
}

static const char *schedule_name(const void *list, size_t index) {
    return ((const struct schedule_policy *const *)list)[index]->name;
}

/* Reads "name" or {"name": ..., parameters}; *row is left NULL when the name is unknown. */
static bool policy_node(struct reader *r, const char *slot, const cJSON *node, const char *fallback,
                        struct policy_choice *choice, const cJSON **name_node) {
    struct scenario *s = r->s;
    *name_node = node;
    if (node == NULL) {
        choice->name = fallback;
        return true;
    }
    if (cJSON_IsObject(node)) {
        *name_node = cJSON_GetObjectItemCaseSensitive(node, "name");
        if (*name_node == NULL)
            return json_error(s->json, node, r->err, "for example {\"name\": \"isf\", \"qv\": 9}",
                              "\"name\" is missing from the %s policy", slot);
    }
    if (!cJSON_IsString(*name_node))
        return json_error(s->json, *name_node, r->err, NULL,
                          "a %s policy is a name, or an object with a name", slot);
    choice->name = (*name_node)->valuestring;
    return true;
}

/* Parameters are every key but "name". */
static bool policy_parameters(struct reader *r, const cJSON *node, size_t size,
                              struct policy_choice *choice) {
    struct scenario *s = r->s;
    bool object = cJSON_IsObject(node);
    if (choice->table == NULL) {
        if (object && cJSON_GetArraySize(node) > 1) {
            const cJSON *extra = node->child;
            while (strcmp(extra->string, "name") == 0)
                extra = extra->next;
            return json_error(s->json, extra, r->err, NULL, "policy \"%s\" has no parameters",
                              choice->name);
        }
        return true;
    }
    for (size_t i = 0; !object && i < choice->table->count; i++) {
        const struct field *field = &choice->table->fields[i];
        if (field->fallback != NULL) continue;
        const char *hint = arena_format(s->arena, "write {\"name\": \"%s\", \"%s\": ...}: %s",
                                        choice->name, field->name, field->help);
        return json_error(s->json, node, r->err, hint, "policy \"%s\" needs \"%s\"", choice->name,
                          field->name);
    }
    choice->parameters = arena_alloc(s->arena, size);
    return field_table_read_beside(choice->table, s->json, object ? node : NULL, "name",
                                   choice->parameters, s->arena, r->err);
}

static bool unknown_policy(struct reader *r, const char *slot, const cJSON *node, const char *name,
                           const char *near) {
    const char *hint = near != NULL ? arena_format(r->s->arena, "did you mean \"%s\"?", near)
                                    : "docs/SCENARIOS.md lists the policies";
    return json_error(r->s->json, node, r->err, hint, "unknown %s policy \"%s\"", slot, name);
}

static bool read_batching(struct reader *r) {
    struct policy_choice *choice = &r->s->batching;
    const cJSON *node = present(r->policy.batching), *name_node;
    if (!policy_node(r, "batching", node, "random", choice, &name_node)) return false;
    const struct batching_policy *row = batching_policy_find(choice->name);
    if (row == NULL) {
        size_t count;
        const struct batching_policy *const *list = batching_policies(&count);
        return unknown_policy(r, "batching", name_node, choice->name,
                              nearest_name(choice->name, count, batching_name, list));
    }
    choice->row = row;
    choice->table = row->parameters;
    return policy_parameters(r, node, row->parameters_size, choice);
}

static bool read_schedule(struct reader *r) {
    struct policy_choice *choice = &r->s->schedule;
    const cJSON *node = present(r->policy.schedule), *name_node;
    if (!policy_node(r, "schedule", node, r->s->layout_fields.vpp > 1 ? "interleaved" : "1f1b",
                     choice, &name_node))
        return false;
    choice->row = schedule_policy_find(choice->name);
    if (choice->row == NULL) {
        size_t count;
        const struct schedule_policy *const *list = schedule_policies(&count);
        return unknown_policy(r, "schedule", name_node, choice->name,
                              nearest_name(choice->name, count, schedule_name, list));
    }
    return policy_parameters(r, node, 0, choice);
}

static bool read_planner(struct reader *r, enum planner_slot slot, const cJSON *node,
                         const char *fallback, struct policy_choice *choice) {
    const cJSON *name_node;
    node = present(node);
    if (!policy_node(r, planner_slot_name(slot), node, fallback, choice, &name_node)) return false;
    const struct planner *row = planner_find(slot, choice->name);
    if (row == NULL)
        return unknown_policy(r, planner_slot_name(slot), name_node, choice->name,
                              planner_nearest(slot, choice->name));
    choice->row = row;
    choice->table = row->parameters;
    if (!policy_parameters(r, node, row->parameters_size, choice)) return false;
    struct error reason = { 0 };
    if (row->check != NULL && !row->check(r->s->model, r->s->layout.pp * r->s->layout_fields.vpp,
                                          choice->parameters, &reason))
        return json_error(r->s->json, node, r->err, NULL, "%s", reason.text);
    return true;
}

/* ---- rules between fields ---- */

static bool rule_layout(struct reader *r) {
    struct scenario *s = r->s;
    struct scenario_layout *f = &s->layout_fields;
    const cJSON *section = r->top.layout, *cluster = r->top.cluster;
    if (f->cp != 1)
        return json_error(s->json, member(section, "cp"), r->err, NULL,
                          "context parallelism is not simulated in this version: cp must be 1");
    if (f->zero_stage > 1 && f->pp > 1)
        return json_error(s->json, member(section, "zero_stage"), r->err,
                          "ZeRO-1 goes with pipelines",
                          "ZeRO-%ld is simulated without a pipeline only: pp must be 1, got %ld",
                          (long)f->zero_stage, (long)f->pp);
    int64_t gpus = s->cluster_fields.gpu_count, model_ranks = f->tp * f->pp * f->cp;
    if (f->dp < 0) {
        if (gpus % model_ranks != 0)
            return json_error(s->json,
                              SUSPECT(r, member(cluster, "gpu_count"), member(section, "tp"),
                                      member(section, "pp")),
                              r->err, "choose a multiple, or change tp or pp",
                              "%ld GPUs cannot be divided by tp x pp x cp = %ld", (long)gpus,
                              (long)model_ranks);
        f->dp = gpus / model_ranks;
    }
    if (gpus != model_ranks * f->dp)
        return json_error(s->json,
                          SUSPECT(r, member(section, "dp"), member(section, "tp"),
                                  member(section, "pp"), member(cluster, "gpu_count")),
                          r->err, "leave dp out to derive it",
                          "tp x pp x cp x dp = %ld, but the cluster has gpu_count %ld",
                          (long)(model_ranks * f->dp), (long)gpus);
    int64_t node = s->cluster_fields.gpus_per_node;
    if (gpus > node && gpus % node != 0)
        return json_error(
            s->json, SUSPECT(r, member(cluster, "gpu_count"), member(cluster, "gpus_per_node")),
            r->err, NULL, "%ld GPUs do not fill whole nodes of %ld", (long)gpus, (long)node);
    if (f->tp > node ? f->tp % node != 0 : node % f->tp != 0)
        return json_error(s->json,
                          SUSPECT(r, member(section, "tp"), member(cluster, "gpus_per_node")),
                          r->err, "tensor parallel groups must not straddle nodes",
                          "tp %ld does not fit nodes of %ld GPUs", (long)f->tp, (long)node);
    int64_t shards = f->dp * f->cp;
    if (f->zero_group < 0) f->zero_group = shards;
    if (f->zero_group > shards || shards % f->zero_group != 0)
        return json_error(s->json, member(section, "zero_group"), r->err, NULL,
                          "zero_group %ld does not divide the %ld data-parallel ranks",
                          (long)f->zero_group, (long)shards);
    s->layout = (struct layout){ .tp = f->tp,
                                 .pp = f->pp,
                                 .cp = f->cp,
                                 .dp = f->dp,
                                 .sequence_parallel = f->sp && f->tp > 1,
                                 .zero_stage = f->zero_stage,
                                 .zero_group = f->zero_group,
                                 .overlap_gradient_reduce = f->overlap_gradient_reduce,
                                 .overlap_parameter_gather = f->overlap_parameter_gather,
                                 .gpus_per_node = node };
    return true;
}

static bool rule_model(struct reader *r) {
    struct scenario *s = r->s;
    const cJSON *model_node = member(r->top.model, "name");
    const cJSON *tp_node = SUSPECT(r, member(r->top.layout, "tp"), model_node);
    const cJSON *pp_node = SUSPECT(r, member(r->top.layout, "pp"), model_node);
    for (int role = 0; role < MODULE_ROLE_COUNT; role++) {
        const struct module *m = &s->model->modules[role];
        if (m->layer_count == 0 || m->heads == 0) continue;
        if (m->heads % s->layout.tp != 0 && role == MODULE_VISION) {
            /* InternViT has 25 heads and is trained at TP 2: frameworks pad them. */
            assume(r,
                   arena_format(s->arena, "the %ld heads of %s are padded to a multiple of tp %ld",
                                (long)m->heads, m->name, (long)s->layout.tp));
        } else if (m->heads % s->layout.tp != 0)
            return json_error(s->json, tp_node, r->err, "tp must divide the heads of every module",
                              "tp %ld does not divide the %ld attention heads of %s",
                              (long)s->layout.tp, (long)m->heads, m->name);
        if (m->ffn_hidden % s->layout.tp != 0)
            return json_error(s->json, tp_node, r->err, NULL,
                              "tp %ld does not divide the ffn width %ld of %s", (long)s->layout.tp,
                              (long)m->ffn_hidden, m->name);
    }
    int64_t blocks = partition_block_count(s->model);
    int64_t parts = s->layout.pp * s->layout_fields.vpp;
    if (blocks < parts)
        return json_error(s->json, blocks < s->layout.pp ? pp_node : member(r->top.layout, "vpp"),
                          r->err, NULL, "%ld stages need at least as many layers, %s has %ld",
                          (long)parts, s->model->name, (long)blocks);
    return true;
}

/* *place becomes the number that was given, or NULL. */
static bool read_batch(struct reader *r, const cJSON **place, const char *key,
                       bool micro_batches_too, double *samples, double *micro_batches) {
    *samples = *micro_batches = -1;
    const cJSON *node = *place = present(*place);
    if (node == NULL) return true;
    if (cJSON_IsNumber(node)) {
        *samples = node->valuedouble;
    } else {
        if (!cJSON_IsObject(node) || cJSON_GetArraySize(node) != 1)
            return json_error(r->s->json, node, r->err,
                              "write the whole object, for example {\"samples\": 4}",
                              "%s has exactly one unit", key);
        const cJSON *value = node->child;
        if (strcmp(value->string, "samples") == 0)
            *samples = cJSON_IsNumber(value) ? value->valuedouble : 0;
        else if (micro_batches_too && strcmp(value->string, "micro_batches") == 0)
            *micro_batches = cJSON_IsNumber(value) ? value->valuedouble : 0;
        else
            return json_error(r->s->json, value, r->err,
                              micro_batches_too ? "samples or micro_batches" : "samples",
                              "unknown unit \"%s\" of %s", value->string, key);
        *place = node = value;
    }
    double given = *samples != -1 ? *samples : *micro_batches;
    if (!(given >= 1 && given <= 1e9) || given != floor(given))
        return json_error(r->s->json, node, r->err, NULL, "must be a whole number from 1 to 1e9");
    return true;
}

static bool rule_batch(struct reader *r) {
    struct scenario *s = r->s;
    double micro, global, global_micro_batches, none;
    const cJSON *global_node = s->training_fields.global_batch;
    const cJSON *micro_node = s->training_fields.micro_batch;
    if (!read_batch(r, &micro_node, "micro_batch", false, &micro, &none)) return false;
    if (!read_batch(r, &global_node, "global_batch", true, &global, &global_micro_batches))
        return false;
    const cJSON *layout = r->top.layout;
    const cJSON *dividend =
        SUSPECT(r, global_node, micro_node, member(layout, "dp"), member(layout, "tp"),
                member(layout, "pp"), member(r->top.cluster, "gpu_count"));
    if (dividend == NULL) dividend = r->top.training;
    if (micro < 0) {
        micro = 1;
        assume(r, "micro_batch: 1 sample (not given)");
    }
    if (global < 0 && global_micro_batches < 0) {
        global = DEFAULT_GLOBAL_BATCH_SAMPLES;
        assume(r, "global_batch: 1024 samples (not given)");
    }
    s->micro_batch_samples = (int64_t)micro;
    int64_t dp = s->layout.dp, per_step;
    if (global > 0) {
        int64_t unit = s->micro_batch_samples * dp;
        if ((int64_t)global % unit != 0)
            return json_error(
                s->json, dividend, r->err,
                arena_format(s->arena, "use a multiple of %ld", (long)unit),
                "%ld samples do not divide into micro-batches of %ld on %ld data-parallel ranks",
                (long)global, (long)s->micro_batch_samples, (long)dp);
        per_step = (int64_t)global / s->micro_batch_samples;
    } else {
        per_step = (int64_t)global_micro_batches;
        if (per_step % dp != 0)
            return json_error(s->json, dividend, r->err, NULL,
                              "%ld micro-batches cannot be dealt to %ld data-parallel ranks",
                              (long)per_step, (long)dp);
    }
    s->micro_batches_per_rank = per_step / dp;
    return true;
}

/* Chunks need a schedule that knows them, several stages, and micro-batches in whole rounds. */
static bool rule_schedule(struct reader *r) {
    struct scenario *s = r->s;
    const struct schedule_policy *schedule = s->schedule.row;
    const cJSON *vpp = member(r->top.layout, "vpp");
    if (s->layout_fields.vpp > 1 && s->layout.pp < 2)
        return json_error(s->json, vpp, r->err, NULL, "vpp %ld needs more than one pipeline stage",
                          (long)s->layout_fields.vpp);
    if (s->layout_fields.vpp > 1 && !schedule->interleaves)
        return json_error(s->json, vpp, r->err, "\"policy\": { \"schedule\": \"interleaved\" }",
                          "schedule \"%s\" runs one chunk a stage, vpp asks for %ld",
                          schedule->name, (long)s->layout_fields.vpp);
    if (schedule->whole_rounds && s->micro_batches_per_rank % s->layout.pp != 0)
        return json_error(
            s->json, present(s->training_fields.global_batch), r->err, NULL,
            "schedule \"%s\" needs a multiple of %ld micro-batches per rank and step, got %ld",
            schedule->name, (long)s->layout.pp, (long)s->micro_batches_per_rank);
    return true;
}

static bool rule_iterations(struct reader *r) {
    struct scenario *s = r->s;
    const cJSON *node = present(s->simulate_fields.iterations);
    if (node == NULL || (cJSON_IsString(node) && strcmp(node->valuestring, "epoch") == 0))
        return true;
    if (!cJSON_IsNumber(node) || node->valuedouble < 1 || node->valuedouble > 1e9 ||
        node->valuedouble != floor(node->valuedouble))
        return json_error(s->json, node, r->err, "\"epoch\" replays the whole data set",
                          "must be \"epoch\" or a number of steps from 1 to 1e9");
    s->iteration_limit = (int64_t)node->valuedouble;
    return true;
}

static void standing_assumptions(struct reader *r) {
    struct scenario *s = r->s;
    assume(r, "sequences of packed samples attend only within their own sample; padded ones to the "
              "padded length");
    assume(r, "tensor-parallel collectives are exposed, except those that Megatron runs beside a "
              "weight- or input-gradient matmul");
    if (s->backend->send_blocks_compute && s->layout.pp > 1)
        assume(r, "a stage waits for its sends to finish before it computes on (backend "
                  "megatron-deepspeed)");
    if (s->layout.zero_stage > 1)
        assume(r, "each block is gathered and reduced on its own, one block ahead; collectives "
                  "hold the ranks together");
    else if (!s->layout.overlap_gradient_reduce && s->layout.dp > 1)
        assume(r, "gradients are reduced after the last backward, not hidden behind it "
                  "(layout.overlap_gradient_reduce)");
    assume(r, "not modelled: data loading, checkpoints, evaluation, failures, host launch stalls, "
              "allocator stalls");
}

/* Tiles are those of the encoder. A learned table of positions or a class token means that it takes
 * one image size only. */
static bool rule_tiling(struct reader *r) {
    struct scenario *s = r->s;
    const struct module *vision = &s->model->modules[MODULE_VISION];
    if (vision->layer_count == 0) return true;
    s->tiling.tile_pixels = vision->image_size;
    s->tiling.tile_language_tokens = s->model->tile_language_tokens;
    s->tiling.patch_pixels = vision->patch_size;
    if (vision->merge > 0) s->tiling.merge = vision->merge;
    s->fixed_tiles = vision->class_token || vision->position == POSITION_LEARNED;
    if (!s->fixed_tiles || s->tiling.kind != TILING_NATIVE) return true;
    return json_error(s->json, member(r->top.dataset, "tiling"), r->err,
                      "\"internvl\" cuts images into tiles of the model's size",
                      "the encoder of model \"%s\" takes tiles of %ld pixels only: data set \"%s\" "
                      "cannot have native resolution",
                      s->model->name, (long)vision->image_size, s->dataset_fields.name);
}

/* The samples are read later, but a name that leads nowhere is a mistake of the scenario. */
static bool check_dataset(struct reader *r) {
    struct scenario *s = r->s;
    const char *name = s->dataset_fields.name;
    if (present(s->dataset_fields.definition) != NULL) return true;
    const char *path = arena_format(s->arena, "%s/datasets/%s.json", s->directory, name);
    bool by_name = strchr(name, '/') == NULL && access(path, F_OK) == 0;
    if (by_name || access(name, F_OK) == 0) return true;
    struct dataset *dataset = dataset_load(s->directory, name, &s->tiling, r->err);
    ballast_check(dataset == NULL);
    return relocate(r, member(r->top.dataset, "name"), "data set", name);
}

static bool read_files(struct reader *r) {
    struct scenario *s = r->s;
    const cJSON *definition = present(s->model_fields.definition);
    s->model = definition != NULL
                   ? model_from_json(s->arena, s->directory, s->json, definition, r->err)
                   : model_load(s->arena, s->directory, s->model_fields.name, r->err);
    if (s->model == NULL && definition != NULL) return false;
    if (s->model == NULL)
        return relocate(r, member(r->top.model, "name"), "model", s->model_fields.name);
    struct cluster_network network = {
        .gpus_per_node = s->cluster_fields.gpus_per_node,
        .nic_bytes_per_s_per_gpu = s->cluster_fields.nic_Gbit_per_s_per_gpu * 1e9 / 8,
        .nic_latency_s = s->cluster_fields.nic_latency_us * 1e-6,
        .nics_per_node = s->cluster_fields.nics_per_node,
        .nic_efficiency_fraction = s->cluster_fields.nic_efficiency_fraction,
        .fabric = s->cluster_fields.fabric,
    };
    s->cost_model =
        cost_model_create(s->arena, s->directory, s->cluster_fields.hardware, &network, r->err);
    if (s->cost_model == NULL) {
        /* Whichever of the two names is wrong. */
        struct error ignored = { 0 };
        const char *fabric = network.fabric;
        network.fabric = NULL;
        bool fabric_is_wrong =
            fabric != NULL && cost_model_create(s->arena, s->directory, s->cluster_fields.hardware,
                                                &network, &ignored) != NULL;
        return fabric_is_wrong ? relocate(r, member(r->top.cluster, "fabric"), "fabric", fabric)
                               : relocate(r, member(r->top.cluster, "hardware"), "hardware",
                                          s->cluster_fields.hardware);
    }
    return rule_tiling(r) && check_dataset(r);
}

static bool read_all(struct reader *r) {
    struct scenario *s = r->s;
    if (!field_table_read(&scenario_top_table, s->json, json_root(s->json), &r->top, s->arena,
                          r->err))
        return false;
    if (!read_section(r, &scenario_model_table, &r->top.model, &s->model_fields)) return false;
    if (!read_section(r, &scenario_dataset_table, &r->top.dataset, &s->dataset_fields))
        return false;
    if (present(r->top.cluster) != NULL && !section_object(r, &r->top.cluster)) return false;
    if (!merge_cluster_file(r)) return false;
    if (!read_section(r, &scenario_cluster_table, &r->top.cluster, &s->cluster_fields))
        return false;
    if (!read_section(r, &scenario_layout_table, &r->top.layout, &s->layout_fields)) return false;
    if (!read_section(r, &scenario_training_table, &r->top.training, &s->training_fields))
        return false;
    if (!read_section(r, &scenario_policy_table, &r->top.policy, &r->policy)) return false;
    if (!read_section(r, &scenario_simulate_table, &r->top.simulate, &s->simulate_fields))
        return false;

    s->backend = backend_at(s->layout_fields.backend);
    s->optimizer = optimizer_at(s->training_fields.optimizer);
    s->tiling = tiling_default();
    s->tiling.kind = (enum tiling_kind)s->dataset_fields.tiling;
    s->tiling.min_tiles = s->dataset_fields.min_tiles;
    s->tiling.max_tiles = s->dataset_fields.max_tiles;
    s->tiling.thumbnail = s->dataset_fields.thumbnail;
    s->tiling.min_pixels = s->dataset_fields.min_pixels;
    s->tiling.max_pixels = s->dataset_fields.max_pixels;
    if (s->tiling.min_tiles > s->tiling.max_tiles)
        return json_error(
            s->json,
            SUSPECT(r, member(r->top.dataset, "min_tiles"), member(r->top.dataset, "max_tiles")),
            r->err, NULL, "min_tiles is above max_tiles");
    if (s->tiling.min_pixels > s->tiling.max_pixels)
        return json_error(
            s->json,
            SUSPECT(r, member(r->top.dataset, "min_pixels"), member(r->top.dataset, "max_pixels")),
            r->err, NULL, "min_pixels is above max_pixels");

    if (!read_files(r) || !apply_model_options(r)) return false;
    const struct gpu *gpu = cost_model_gpu(s->cost_model);
    for (int role = 0; role < MODULE_ROLE_COUNT; role++) {
        const struct module *m = &s->model->modules[role];
        if (m->layer_count > 0 && gpu->peak_flop_per_s[m->precision] <= 0)
            return json_error(
                s->json,
                r->precision_nodes[role] != NULL ? r->precision_nodes[role]
                                                 : SUSPECT(r, member(r->top.training, "precision"),
                                                           member(r->top.cluster, "hardware")),
                r->err, NULL, "%s cannot compute in %s", gpu->name, precision_name(m->precision));
    }
    if (!rule_layout(r) || !rule_model(r) || !rule_batch(r) || !rule_iterations(r)) return false;
    if (!read_batching(r) || !read_schedule(r) || !rule_schedule(r)) return false;
    if (!read_planner(r, PLANNER_PARTITION, r->policy.partition, "layer", &s->partition))
        return false;
    if (!read_planner(r, PLANNER_RECOMPUTE, r->policy.recompute, "none", &s->recompute))
        return false;
    standing_assumptions(r);
    return true;
}

static const char *file_stem(struct arena *arena, const char *path) {
    const char *slash = strrchr(path, '/');
    char *stem = arena_text(arena, slash != NULL ? slash + 1 : path);
    char *dot = strrchr(stem, '.');
    if (dot != NULL && dot != stem) *dot = '\0';
    return stem;
}

struct scenario *scenario_load(const struct scenario_options *options, const char *path,
                               struct error *err) {
    struct json *json = json_load(path, err);
    return json != NULL ? scenario_load_json(options, json, err) : NULL;
}

struct scenario *scenario_load_json(const struct scenario_options *options, struct json *json,
                                    struct error *err) {
    struct arena *arena = arena_create();
    struct scenario *s = arena_new(arena, struct scenario);
    s->arena = arena;
    s->json = json;
    s->path = arena_text(arena, json_name(json));
    s->directory = arena_text(arena, options->directory);
    s->assumptions = arena_array(arena, const char *, ASSUMPTION_LIMIT);
    struct reader reader = { .s = s, .options = options, .err = err };
    bool ok = true;
    for (const char *const *o = options->overrides; ok && o != NULL && *o != NULL; o++)
        ok = json_override(json, *o, err);
    ok = ok && read_all(&reader);
    if (!ok) {
        scenario_destroy(s);
        return NULL;
    }
    s->name = reader.top.name != NULL ? reader.top.name : file_stem(arena, s->path);
    s->description = reader.top.description;
    return s;
}

void scenario_destroy(struct scenario *scenario) {
    if (scenario == NULL) return;
    json_destroy(scenario->json);
    arena_destroy(scenario->arena);
}

struct tensor_split scenario_split(const struct scenario *s) {
    return (struct tensor_split){ .tp = s->layout.tp,
                                  .sequence_parallel = s->layout.sequence_parallel,
                                  .cp = s->layout.cp };
}

/* ---- the resolved scenario ---- */

static cJSON *resolved_policy(const struct policy_choice *choice) {
    cJSON *object = cJSON_CreateObject();
    cJSON_AddStringToObject(object, "name", choice->name);
    if (choice->table == NULL) return object;
    cJSON *parameters = field_table_write(choice->table, choice->parameters);
    while (parameters->child != NULL) {
        cJSON *item = cJSON_DetachItemViaPointer(parameters, parameters->child);
        char *key = item->string;
        item->string = NULL;
        cJSON_AddItemToObject(object, key, item);
        cJSON_free(key);
    }
    cJSON_Delete(parameters);
    return object;
}

cJSON *scenario_resolved(const struct scenario *s) {
    cJSON *root = cJSON_CreateObject();
    cJSON_AddStringToObject(root, "name", s->name);
    if (s->description != NULL) cJSON_AddStringToObject(root, "description", s->description);
    cJSON_AddItemToObject(root, "model",
                          field_table_write(&scenario_model_table, &s->model_fields));
    cJSON_AddItemToObject(root, "dataset",
                          field_table_write(&scenario_dataset_table, &s->dataset_fields));
    cJSON_AddItemToObject(root, "cluster",
                          field_table_write(&scenario_cluster_table, &s->cluster_fields));
    cJSON_AddItemToObject(root, "layout",
                          field_table_write(&scenario_layout_table, &s->layout_fields));
    cJSON *training = field_table_write(&scenario_training_table, &s->training_fields);
    cJSON *global = cJSON_CreateObject(), *micro = cJSON_CreateObject();
    cJSON_AddNumberToObject(global, "micro_batches",
                            (double)(s->micro_batches_per_rank * s->layout.dp));
    cJSON_AddNumberToObject(micro, "samples", (double)s->micro_batch_samples);
    cJSON_ReplaceItemInObjectCaseSensitive(training, "global_batch", global);
    cJSON_ReplaceItemInObjectCaseSensitive(training, "micro_batch", micro);
    cJSON_AddItemToObject(root, "training", training);
    cJSON *policy = cJSON_AddObjectToObject(root, "policy");
    cJSON_AddItemToObject(policy, "batching", resolved_policy(&s->batching));
    cJSON_AddItemToObject(policy, "partition", resolved_policy(&s->partition));
    cJSON_AddItemToObject(policy, "recompute", resolved_policy(&s->recompute));
    cJSON_AddItemToObject(policy, "schedule", resolved_policy(&s->schedule));
    cJSON *simulate = field_table_write(&scenario_simulate_table, &s->simulate_fields);
    if (s->iteration_limit == 0)
        cJSON_ReplaceItemInObjectCaseSensitive(simulate, "iterations", cJSON_CreateString("epoch"));
    cJSON_AddItemToObject(root, "simulate", simulate);
    return root;
}
