/* scenario_rules.c - rules between fields.
 *
 * They come after reading so that their messages can speak of resolved values; each points at the
 * field that a user would change.
 */
#include <math.h>
#include <string.h>
#include "sim/policy/partition/partition.h"
#include "sim/scenario/scenario_reader.h"

#define DEFAULT_GLOBAL_BATCH_SAMPLES 1024

/* What FSDP gathered it keeps beside a pipeline, and gradients add up whole in the precision of
 * their reduction (torch/distributed/pipelining/stage.py, backward_maybe_with_nosync). */
static void gather_once(struct reader *r) {
    struct scenario *s = r->s;
    struct backend *backend = arena_new(s->arena, struct backend);
    *backend = *s->backend;
    backend->gradient_bytes = backend->gradient_reduce_bytes;
    backend->accumulate_bytes_moved = 0;
    backend->gathers_once = true;
    s->backend = backend;
    scenario_assume(r, "beside a pipeline FSDP gathers parameters once a step and keeps them, and "
                       "reduces gradients in the last backward alone, as ZeRO-1 with both hidden");
}

/* Of FSDP without a pipeline; beside one gather_once() has decided. */
static void reduce_gradients(struct scenario *s, bool once) {
    struct backend *backend = arena_new(s->arena, struct backend);
    *backend = *s->backend;
    backend->step.reduces_once = once;
    s->backend = backend;
}

bool rule_gradient_sync(struct reader *r) {
    struct scenario *s = r->s;
    const int sync = s->training_fields.gradient_sync;
    const cJSON *node = scenario_member(r->top.training, "gradient_sync");
    r->rule = "gradient-sync";
    if (sync == GRADIENT_SYNC_USUAL) return true;
    if (strcmp(s->backend->name, "fsdp") != 0 || s->layout_fields.zero_stage < 2)
        return json_error(s->json,
                          SUSPECT(r, node, scenario_member(r->top.layout, "backend"),
                                  scenario_member(r->top.layout, "zero_stage")),
                          r->err, "\"usual\", what backend and stack do",
                          "FSDP as ZeRO-2 or 3 can choose when gradients are reduced, not %s with "
                          "ZeRO-%ld",
                          s->backend->name, (long)s->layout_fields.zero_stage);
    if (s->layout_fields.pp == 1)
        reduce_gradients(s, sync == GRADIENT_SYNC_LAST);
    else if (sync == GRADIENT_SYNC_EACH)
        return json_error(s->json, SUSPECT(r, node, scenario_member(r->top.layout, "pp")), r->err,
                          "\"last\", or \"usual\"",
                          "beside a pipeline FSDP reduces gradients in the last backward alone");
    return true;
}

bool rule_layout(struct reader *r) {
    struct scenario *s = r->s;
    struct scenario_layout *f = &s->layout_fields;
    const cJSON *section = r->top.layout, *cluster = r->top.cluster;
    r->rule = "overlap-needs-sp";
    if (f->tp_overlap && f->tp > 1 && !f->sp)
        return json_error(
            s->json,
            SUSPECT(r, scenario_member(section, "tp_overlap"), scenario_member(section, "sp")),
            r->err, "all-reduces cannot run beside a matmul in pieces",
            "tp_overlap needs sequence parallelism: sp must be true");
    r->rule = "zero-without-pipeline";
    const bool gathers_once = f->zero_stage > 1 && f->pp > 1;
    if (gathers_once && !backend_at(f->backend)->gathers_once_beside_pipeline)
        return json_error(
            s->json,
            SUSPECT(r, scenario_member(section, "zero_stage"), scenario_member(section, "pp")),
            r->err, "ZeRO-1 goes with pipelines, and any stage with backend fsdp",
            "ZeRO-%ld of backend %s goes without a pipeline only: pp must be 1, got "
            "%ld",
            (long)f->zero_stage, backend_names[f->backend], (long)f->pp);
    if (gathers_once) gather_once(r);
    int64_t gpus = s->cluster_fields.gpu_count, model_ranks = f->tp * f->pp * f->cp;
    if (f->dp < 0) {
        r->rule = "gpus-divide";
        if (gpus % model_ranks != 0)
            return json_error(
                s->json,
                SUSPECT(r, scenario_member(cluster, "gpu_count"), scenario_member(section, "tp"),
                        scenario_member(section, "pp"), scenario_member(section, "cp")),
                r->err, "choose a multiple, or change tp, pp or cp",
                "%ld GPUs cannot be divided by tp x pp x cp = %ld", (long)gpus, (long)model_ranks);
        f->dp = gpus / model_ranks;
    }
    r->rule = "gpus-product";
    if (gpus != model_ranks * f->dp)
        return json_error(s->json,
                          SUSPECT(r, scenario_member(section, "dp"), scenario_member(section, "tp"),
                                  scenario_member(section, "pp"), scenario_member(section, "cp"),
                                  scenario_member(cluster, "gpu_count")),
                          r->err, "leave dp out to derive it",
                          "tp x pp x cp x dp = %ld, but the cluster has gpu_count %ld",
                          (long)(model_ranks * f->dp), (long)gpus);
    int64_t node = s->cluster_fields.gpus_per_node;
    r->rule = "whole-nodes";
    if (gpus > node && gpus % node != 0)
        return json_error(s->json,
                          SUSPECT(r, scenario_member(cluster, "gpu_count"),
                                  scenario_member(cluster, "gpus_per_node")),
                          r->err, NULL, "%ld GPUs do not fill whole nodes of %ld", (long)gpus,
                          (long)node);
    r->rule = "mesh-in-node";
    int64_t mesh = s->cluster_fields.nvlink_mesh_gpus;
    if (mesh == 1 || (mesh > node && gpus > node)) /* one node may be used in part */
        return json_error(s->json,
                          SUSPECT(r, scenario_member(cluster, "nvlink_mesh_gpus"),
                                  scenario_member(cluster, "gpus_per_node")),
                          r->err, "0 where the links go through a switch",
                          "a mesh of %ld GPUs in nodes of %ld: from 2 to all of a node", (long)mesh,
                          (long)node);
    r->rule = "tp-in-node";
    if (f->tp > node ? f->tp % node != 0 : node % f->tp != 0)
        return json_error(
            s->json,
            SUSPECT(r, scenario_member(section, "tp"), scenario_member(cluster, "gpus_per_node")),
            r->err, "tensor parallel groups must not straddle nodes",
            "tp %ld does not fit nodes of %ld GPUs", (long)f->tp, (long)node);
    int64_t shards = f->dp * f->cp;
    if (f->zero_group < 0) f->zero_group = shards;
    r->rule = "zero-group";
    if (f->zero_group > shards || shards % f->zero_group != 0)
        return json_error(s->json, scenario_member(section, "zero_group"), r->err, NULL,
                          "zero_group %ld does not divide the %ld data-parallel ranks",
                          (long)f->zero_group, (long)shards);
    s->layout =
        (struct layout){ .tp = f->tp,
                         .pp = f->pp,
                         .cp = f->cp,
                         .dp = f->dp,
                         .sequence_parallel = f->sp && f->tp > 1,
                         .zero_stage = gathers_once ? 1 : f->zero_stage,
                         .zero_group = f->zero_group,
                         .overlap_gradient_reduce = gathers_once || f->overlap_gradient_reduce,
                         .overlap_parameter_gather = gathers_once || f->overlap_parameter_gather,
                         .gpus_per_node = node };
    return true;
}

bool rule_model(struct reader *r) {
    struct scenario *s = r->s;
    const cJSON *model_node = scenario_member(r->top.model, "name");
    const cJSON *tp_node = SUSPECT(r, scenario_member(r->top.layout, "tp"), model_node);
    const cJSON *pp_node = SUSPECT(r, scenario_member(r->top.layout, "pp"), model_node);
    for (int role = 0; role < MODULE_ROLE_COUNT; role++) {
        const struct module *m = &s->model->modules[role];
        if (m->layer_count == 0 || m->heads == 0) continue;
        r->rule = "tp-divides-heads";
        if (m->heads % s->layout.tp != 0 && role == MODULE_VISION) {
            /* InternViT has 25 heads and is trained at TP 2: frameworks pad them. */
            scenario_assume(
                r, arena_format(s->arena, "the %ld heads of %s are padded to a multiple of tp %ld",
                                (long)m->heads, m->name, (long)s->layout.tp));
        } else if (m->heads % s->layout.tp != 0)
            return json_error(s->json, tp_node, r->err, "tp must divide the heads of every module",
                              "tp %ld does not divide the %ld attention heads of %s",
                              (long)s->layout.tp, (long)m->heads, m->name);
        r->rule = "tp-divides-ffn";
        if (m->ffn_hidden % s->layout.tp != 0)
            return json_error(s->json, tp_node, r->err, NULL,
                              "tp %ld does not divide the ffn width %ld of %s", (long)s->layout.tp,
                              (long)m->ffn_hidden, m->name);
    }
    const struct module *language = &s->model->modules[MODULE_LANGUAGE];
    if (language->layer_count > 0 && language->kv_heads < s->layout.tp &&
        s->layout.tp % language->kv_heads == 0)
        scenario_assume(r, arena_format(s->arena,
                                        "each of the %ld key and value heads of %s is held by %ld "
                                        "tensor-parallel ranks (tp %ld)",
                                        (long)language->kv_heads, language->name,
                                        (long)(s->layout.tp / language->kv_heads),
                                        (long)s->layout.tp));
    if (s->layout.tp > s->layout.gpus_per_node)
        scenario_assume(r, arena_format(s->arena,
                                        "tensor-parallel groups of %ld span %ld nodes of %ld GPUs: "
                                        "their collectives cross the network in every layer",
                                        (long)s->layout.tp,
                                        (long)(s->layout.tp / s->layout.gpus_per_node),
                                        (long)s->layout.gpus_per_node));
    if (!rule_context(r)) return false;
    int64_t blocks = partition_block_count(s->model);
    int64_t parts = s->layout.pp * s->layout_fields.vpp;
    /* A list of blocks may leave the embedding and the head to stages of their own, and says itself
     * what is wrong with it. */
    const cJSON *partition = scenario_member(r->policy.partition, "name");
    const bool listed = cJSON_IsString(partition) && strcmp(partition->valuestring, "manual") == 0;
    r->rule = "enough-layers";
    if (blocks < parts && !listed)
        return json_error(s->json,
                          blocks < s->layout.pp ? pp_node : scenario_member(r->top.layout, "vpp"),
                          r->err, NULL, "%ld stages need at least as many layers, %s has %ld",
                          (long)parts, s->model->name, (long)blocks);
    return true;
}

static bool samples_error(struct reader *r, const cJSON *node) {
    static const char must[] = "must be a whole number from 1 to 1e9";
    if (cJSON_IsNumber(node))
        return json_error(r->s->json, node, r->err, NULL, "%s, got %.10g", must, node->valuedouble);
    if (cJSON_IsString(node))
        return json_error(r->s->json, node, r->err, NULL, "%s, got \"%.60s\"", must,
                          node->valuestring);
    return json_error(r->s->json, node, r->err, NULL, "%s", must);
}

/* *place becomes the number that was given, or NULL. */
static bool read_batch(struct reader *r, const cJSON **place, const char *key,
                       bool micro_batches_too, double *samples, double *micro_batches) {
    *samples = *micro_batches = -1;
    const cJSON *node = *place = scenario_present(*place);
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
    if (!(given >= 1 && given <= 1e9) || given != floor(given)) return samples_error(r, node);
    return true;
}

bool rule_batch(struct reader *r) {
    struct scenario *s = r->s;
    double micro, global, global_micro_batches, none;
    r->rule = NULL;
    const cJSON *global_node = s->training_fields.global_batch;
    const cJSON *micro_node = s->training_fields.micro_batch;
    if (!read_batch(r, &micro_node, "micro_batch", false, &micro, &none)) return false;
    if (!read_batch(r, &global_node, "global_batch", true, &global, &global_micro_batches))
        return false;
    const cJSON *layout = r->top.layout;
    const cJSON *dividend = SUSPECT(r, global_node, micro_node, scenario_member(layout, "dp"),
                                    scenario_member(layout, "tp"), scenario_member(layout, "pp"),
                                    scenario_member(r->top.cluster, "gpu_count"));
    if (dividend == NULL) dividend = r->top.training;
    if (micro < 0) {
        micro = 1;
        r->micro_batch_missing = true;
    }
    if (global < 0 && global_micro_batches < 0) {
        global = DEFAULT_GLOBAL_BATCH_SAMPLES;
        scenario_assume(r, "global_batch: 1024 samples (not given)");
    }
    s->micro_batch_samples = (int64_t)micro;
    int64_t dp = s->layout.dp, per_step;
    r->rule = "batch-divides";
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

/* Groups that share a sequence need the ranks to share it; a step holds as many samples as asked
 * for, in micro-batches that many times as large. */
bool rule_sequence_groups(struct reader *r) {
    struct scenario *s = r->s;
    const int64_t joined = batching_policy_groups_joined(s->batching.row, s->batching.parameters);
    if (joined <= 1) return true;
    const cJSON *node = scenario_member(scenario_member(r->top.policy, "batching"), "sp");
    r->rule = "sp-is-cp";
    if (s->layout.cp != joined)
        return json_error(
            s->json, SUSPECT(r, node, scenario_member(r->top.layout, "cp")), r->err,
            arena_format(s->arena, "\"layout\": { \"cp\": %ld, \"cp_kind\": \"all-to-all\" }",
                         (long)joined),
            "batching joins %ld groups into one sequence for as many context-parallel ranks, "
            "layout.cp is %ld",
            (long)joined, (long)s->layout.cp);
    scenario_assume(r, arena_format(s->arena,
                                    "a micro-batch joins %ld packed groups of like length, each "
                                    "padded to the longest (policy.batching.sp)",
                                    (long)joined));
    const cJSON *batch = scenario_present(s->training_fields.global_batch);
    if (cJSON_GetObjectItemCaseSensitive(batch, "micro_batches") != NULL) return true;
    r->rule = "batch-divides";
    if (s->micro_batches_per_rank % joined != 0) {
        const long unit = (long)(s->micro_batch_samples * s->layout.dp * joined);
        if (cJSON_IsObject(batch)) batch = batch->child;
        return json_error(s->json,
                          SUSPECT(r, batch, node, scenario_member(r->top.layout, "cp"),
                                  scenario_member(r->top.layout, "dp")),
                          r->err, arena_format(s->arena, "use a multiple of %ld", unit),
                          "%ld groups of each data-parallel rank and step cannot be joined by %ld",
                          (long)s->micro_batches_per_rank, (long)joined);
    }
    s->micro_batches_per_rank /= joined;
    return true;
}

/* Chunks need a schedule that knows them, several stages, and micro-batches in whole rounds. */
bool rule_schedule(struct reader *r) {
    struct scenario *s = r->s;
    const struct schedule_policy *schedule = s->schedule.row;
    const cJSON *vpp = scenario_member(r->top.layout, "vpp");
    r->rule = "vpp-needs-pipeline";
    if (s->layout_fields.vpp > 1 && s->layout.pp < 2)
        return json_error(s->json, vpp, r->err, NULL, "vpp %ld needs more than one pipeline stage",
                          (long)s->layout_fields.vpp);
    const struct planner *joint = s->joint.row;
    r->rule = "joint-policy-needs-pipeline";
    if (joint != NULL && joint->needs_stages && s->layout.pp < 2)
        return json_error(s->json,
                          SUSPECT(r, scenario_member(r->top.layout, "pp"),
                                  scenario_member(r->top.policy, "joint")),
                          r->err, "\"layout\": { \"pp\": 2 } or more, or another policy",
                          "the joint policy \"%s\" schedules a pipeline, which one stage is not",
                          joint->name);
    r->rule = "vpp-left-to-joint-policy";
    if (s->layout_fields.vpp > 1 && joint != NULL && joint->preset != NULL && joint->preset->chunks)
        return json_error(s->json, vpp, r->err, "leave it out",
                          "the joint policy \"%s\" decides the chunks of a stage itself",
                          joint->name);
    if (schedule == NULL) return true; /* the joint policy's own */
    r->rule = "vpp-needs-interleaving";
    if (s->layout_fields.vpp > 1 && !schedule->interleaves)
        return json_error(s->json, vpp, r->err, "\"policy\": { \"schedule\": \"interleaved\" }",
                          "schedule \"%s\" runs one chunk a stage, vpp asks for %ld",
                          schedule->name, (long)s->layout_fields.vpp);
    r->rule = "interleaving-needs-vpp";
    if (schedule->needs_chunks && s->layout_fields.vpp < 2)
        return json_error(
            s->json, SUSPECT(r, scenario_member(r->top.policy, "schedule"), vpp), r->err,
            "\"layout\": { \"vpp\": 2 }, or leave the schedule out: one chunk a stage is 1f1b",
            "schedule \"%s\" deals several chunks to a stage, vpp asks for %ld", schedule->name,
            (long)s->layout_fields.vpp);
    r->rule = "whole-rounds";
    if (schedule->whole_rounds && s->micro_batches_per_rank % s->layout.pp != 0)
        return json_error(
            s->json, scenario_present(s->training_fields.global_batch), r->err, NULL,
            "schedule \"%s\" needs a multiple of %ld micro-batches per rank and step, got %ld",
            schedule->name, (long)s->layout.pp, (long)s->micro_batches_per_rank);
    return true;
}

/* The slow GPU and the slow link must exist. */
bool rule_what_if(struct reader *r) {
    struct scenario *s = r->s;
    const struct scenario_what_if *w = &s->what_if;
    const cJSON *section = r->top.what_if;
    r->rule = "what-if-place";
    if (w->slow_gpu_factor != 1 && w->slow_gpu_stage >= s->layout.pp)
        return json_error(s->json, scenario_member(section, "slow_gpu_stage"), r->err, NULL,
                          "stage %ld does not exist: pp is %ld", (long)w->slow_gpu_stage,
                          (long)s->layout.pp);
    if (w->slow_gpu_factor != 1 && w->slow_gpu_rank >= s->layout.dp)
        return json_error(s->json, scenario_member(section, "slow_gpu_rank"), r->err, NULL,
                          "data-parallel rank %ld does not exist: dp is %ld",
                          (long)w->slow_gpu_rank, (long)s->layout.dp);
    if (w->slow_link_factor != 1 && w->slow_link_stage + 1 >= s->layout.pp)
        return json_error(s->json, scenario_member(section, "slow_link_stage"), r->err, NULL,
                          "there is no link after stage %ld: pp is %ld", (long)w->slow_link_stage,
                          (long)s->layout.pp);
    return true;
}

bool rule_iterations(struct reader *r) {
    struct scenario *s = r->s;
    r->rule = NULL;
    const cJSON *node = scenario_present(s->simulate_fields.iterations);
    if (node == NULL || (cJSON_IsString(node) && strcmp(node->valuestring, "epoch") == 0))
        return true;
    if (!cJSON_IsNumber(node) || node->valuedouble < 1 || node->valuedouble > 1e9 ||
        node->valuedouble != floor(node->valuedouble))
        return json_error(s->json, node, r->err, "\"epoch\" replays the whole data set",
                          "must be \"epoch\" or a number of steps from 1 to 1e9");
    s->iteration_limit = (int64_t)node->valuedouble;
    return true;
}

/* What the scenario does not state is the encoder's, else Qwen2-VL's (tiling_default()). */
static bool rule_pixels(struct reader *r, const struct module *vision) {
    struct scenario *s = r->s;
    struct tiling *t = &s->tiling;
    if (vision->layer_count > 0 && vision->min_pixels > 0) t->min_pixels = vision->min_pixels;
    if (vision->layer_count > 0 && vision->max_pixels > 0) t->max_pixels = vision->max_pixels;
    if (s->dataset_fields.min_pixels > 0) t->min_pixels = s->dataset_fields.min_pixels;
    if (s->dataset_fields.max_pixels > 0) t->max_pixels = s->dataset_fields.max_pixels;
    s->dataset_fields.min_pixels = t->min_pixels;
    s->dataset_fields.max_pixels = t->max_pixels;
    return t->min_pixels <= t->max_pixels ||
           json_error(s->json,
                      SUSPECT(r, scenario_member(r->top.dataset, "min_pixels"),
                              scenario_member(r->top.dataset, "max_pixels")),
                      r->err, NULL, "min_pixels is above max_pixels");
}

/* Tiles are those of the encoder. A learned table of positions or a class token means that it takes
 * one image size only. */
bool rule_tiling(struct reader *r) {
    struct scenario *s = r->s;
    const struct module *vision = &s->model->modules[MODULE_VISION];
    if (!rule_pixels(r, vision)) return false;
    if (vision->layer_count == 0) return true;
    s->tiling.tile_pixels = vision->image_size;
    s->tiling.tile_language_tokens = s->model->tile_language_tokens;
    s->tiling.patch_pixels = vision->patch_size;
    if (vision->merge > 0) s->tiling.merge = vision->merge;
    if (s->dataset_fields.image_tiles < 0 && s->model->max_tiles > 0 &&
        s->tiling.kind == TILING_AS_FILE) {
        s->dataset_fields.image_tiles = s->model->max_tiles;
        scenario_assume(r, arena_format(s->arena,
                                        "an image is at most %ld tile%s, as model \"%s\" has it "
                                        "(dataset.image_tiles)",
                                        (long)s->model->max_tiles,
                                        s->model->max_tiles == 1 ? "" : "s", s->model->name));
    }
    s->tiling.file_tiles = s->dataset_fields.image_tiles > 0 ? s->dataset_fields.image_tiles : 0;
    s->fixed_tiles = module_extra_tokens(vision) > 0 || vision->position == POSITION_LEARNED;
    r->rule = "tile-size";
    if (!s->fixed_tiles || s->tiling.kind != TILING_NATIVE) return true;
    return json_error(s->json, scenario_member(r->top.dataset, "tiling"), r->err,
                      "\"internvl\" cuts images into tiles of the model's size",
                      "the encoder of model \"%s\" takes tiles of %ld pixels only: data set \"%s\" "
                      "cannot have native resolution",
                      s->model->name, (long)vision->image_size, s->dataset_fields.name);
}

_Static_assert(MODULE_VISION == 0 && MODULE_CONNECTOR == 1 && MODULE_LANGUAGE == 2 &&
                   MODULE_DIFFUSION_DECODER == 3,
               "as rule_module_names has them");

/* What a rule names must be there. */
bool rule_rules(struct reader *r, const struct rule_list *rules) {
    struct scenario *s = r->s;
    for (int64_t i = 0; i < rules->count; i++) {
        const struct rule *rule = &rules->rules[i];
        if (rule->module == RULE_ANY) continue;
        const struct module *module = &s->model->modules[rule->module];
        if (module->layer_count == 0)
            return json_error(s->json, scenario_member(rule->node, "module"), r->err, NULL,
                              "model \"%s\" has no module \"%s\"", s->model->name,
                              module_role_name((enum module_role)rule->module));
        if (rule->has_layers && rule->last_layer >= module->layer_count)
            return json_error(s->json, scenario_member(rule->node, "layers"), r->err, NULL,
                              "%s has blocks 0 to %ld, got %ld", module->name,
                              (long)module->layer_count - 1, (long)rule->last_layer);
    }
    return true;
}
