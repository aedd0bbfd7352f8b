/* launch_flags.c - a plan as options of Megatron-LM or DeepSpeed.
 *
 * Megatron-LM cuts the decoder alone; an encoder stands whole on the first stage. Equal shares need
 * no option; a first or last stage of its own has one each (--decoder-first-pipeline-num-layers,
 * --decoder-last-pipeline-num-layers), and any list of decoder layers can be written as
 * --pipeline-model-parallel-layout. Recomputation is one setting for all stages: the same number of
 * blocks in each (--recompute-method block counts them from the stage's first).
 *
 * DeepSpeed's PipelineModule takes a method, not a list of cuts: "parameters" minimises the largest
 * number of trainable parameters, "type:" deals layers of a class evenly. Its
 * activation_checkpoint_interval holds for all stages.
 */
#include "sim/study/launch_flags.h"

#include <stdarg.h>
#include <string.h>
#include "sim/policy/partition/partition.h"

/* What the flags must say of the plan, part by part. */
struct shape {
    int64_t parts;
    int64_t *vision, *language;               /* blocks */
    int64_t *vision_again, *language_again;   /* of them recomputing */
    bool first_blocks;                        /* the recomputing ones are the first of their kind */
    int64_t blocks, full, selective, encoder; /* in the model */
};

static void add(const char **list, int64_t *count, int64_t limit, const char *text) {
    ballast_check(*count < limit);
    list[(*count)++] = text;
}

#define FLAG(out, ...)                                                                             \
    add((out)->flags, &(out)->flag_count, LAUNCH_FLAG_LIMIT, arena_format(arena, __VA_ARGS__))
#define REFUSE(out, ...)                                                                           \
    add((out)->refusals, &(out)->refusal_count, LAUNCH_REFUSAL_LIMIT,                              \
        arena_format(arena, __VA_ARGS__))
#define NOTE(out, ...)                                                                             \
    add((out)->notes, &(out)->note_count, LAUNCH_REFUSAL_LIMIT, arena_format(arena, __VA_ARGS__))

static struct shape shape_of(const struct job *job, struct arena *arena) {
    const struct job_plan *plan = &job->plan;
    const struct model *model = job->scenario->model;
    struct shape s = { .parts = plan->part_count, .first_blocks = true };
    int64_t **lists[] = { &s.vision, &s.language, &s.vision_again, &s.language_again };
    for (size_t i = 0; i < sizeof lists / sizeof lists[0]; i++)
        *lists[i] = arena_array(arena, int64_t, s.parts);
    for (int64_t part = 0; part < s.parts; part++) {
        bool kept[2] = { false, false };
        for (int64_t i = plan->first_layer[part]; i < plan->first_layer[part + 1]; i++) {
            if (!layer_can_recompute(model, i)) continue;
            bool vision = model->layers[i].kind == LAYER_VISION_BLOCK;
            bool again = plan->recompute[i] != RECOMPUTE_NONE;
            (vision ? s.vision : s.language)[part]++;
            (vision ? s.vision_again : s.language_again)[part] += again;
            if (again && kept[vision]) s.first_blocks = false;
            kept[vision] = kept[vision] || !again;
            s.blocks++;
            s.encoder += vision;
            s.full += plan->recompute[i] == RECOMPUTE_FULL;
            s.selective += plan->recompute[i] == RECOMPUTE_SELECTIVE;
        }
    }
    return s;
}

static const char *list_text(struct arena *arena, const int64_t *list, int64_t count) {
    const char *text = "";
    for (int64_t i = 0; i < count; i++)
        text = arena_format(arena, i > 0 ? "%s, %ld" : "%s%ld", text, (long)list[i]);
    return text;
}

/* ---- Megatron-LM ---- */

static void megatron_sizes(const struct job *job, struct arena *arena, struct launch_flags *out) {
    const struct scenario *s = job->scenario;
    const struct layout *layout = &s->layout;
    FLAG(out, "--tensor-model-parallel-size %ld", (long)layout->tp);
    const int64_t kv_heads = s->model->modules[MODULE_LANGUAGE].kv_heads;
    if (s->model->modules[MODULE_LANGUAGE].layer_count > 0 && kv_heads < layout->tp)
        NOTE(out,
             "the %ld key and value heads (--num-query-groups) are fewer than %ld "
             "tensor-parallel ranks: versions of Megatron-LM that do not replicate them refuse "
             "this",
             (long)kv_heads, (long)layout->tp);
    if (layout->tp > layout->gpus_per_node)
        NOTE(out, "tensor-parallel groups of %ld span %ld nodes of %ld GPUs", (long)layout->tp,
             (long)(layout->tp / layout->gpus_per_node), (long)layout->gpus_per_node);
    if (layout->sequence_parallel) FLAG(out, "--sequence-parallel");
    FLAG(out, "--pipeline-model-parallel-size %ld", (long)layout->pp);
    if (layout->cp > 1) FLAG(out, "--context-parallel-size %ld", (long)layout->cp);
    /* A ring (p2p) is the default there. */
    const int kind = s->layout_fields.cp_kind;
    if (layout->cp > 1 && kind != CONTEXT_RING)
        FLAG(out, "--cp-comm-type %s", kind == CONTEXT_ALL_TO_ALL ? "a2a" : "all_gather");
    const struct batching_policy *batching = s->batching.row;
    int64_t micro = batching->packs ? 1 : s->micro_batch_samples;
    FLAG(out, "--micro-batch-size %ld", (long)micro);
    FLAG(out, "--global-batch-size %ld",
         (long)(micro * s->micro_batches_per_rank * layout->dp));
    if (batching->packs)
        NOTE(out, "a packed group counts as one sample: the data loader must deliver the groups of "
                  "batching policy \"%s\"",
             batching->name);
    static const char *const precisions[PRECISION_COUNT] = {
        [PRECISION_BF16] = "--bf16",
        [PRECISION_FP16] = "--fp16",
        [PRECISION_FP8] = "--bf16 --fp8-format hybrid",
    };
    enum precision precision = s->model->modules[MODULE_LANGUAGE].precision;
    if (precisions[precision] != NULL) FLAG(out, "%s", precisions[precision]);
    if (layout->zero_stage > 1)
        REFUSE(out, "ZeRO-%ld: the distributed optimizer shards optimizer state alone",
               (long)layout->zero_stage);
    if (layout->zero_stage == 1) FLAG(out, "--use-distributed-optimizer");
    if (layout->zero_stage == 1 && layout->zero_group < layout->dp * layout->cp)
        FLAG(out, "--num-distributed-optimizer-instances %ld",
             (long)(layout->dp * layout->cp / layout->zero_group));
    if (layout->overlap_gradient_reduce) FLAG(out, "--overlap-grad-reduce");
    if (layout->overlap_parameter_gather) FLAG(out, "--overlap-param-gather");
    for (int role = 0; role < MODULE_ROLE_COUNT; role++)
        if (s->model->modules[role].layer_count > 0 && s->model->modules[role].frozen)
            NOTE(out, "module %s is frozen: an option of the training script's own",
                 module_role_name((enum module_role)role));
}

/* "Et*8|t*9|t*9|t*6L" */
static const char *layout_text(struct arena *arena, const struct shape *s) {
    const char *text = "E";
    for (int64_t part = 0; part < s->parts; part++) {
        if (part > 0) text = arena_format(arena, "%s|", text);
        if (s->language[part] > 0)
            text = arena_format(arena, "%st*%ld", text, (long)s->language[part]);
    }
    return arena_format(arena, "%sL", text);
}

static void megatron_cuts(const struct job *job, const struct shape *s, struct arena *arena,
                          struct launch_flags *out) {
    int64_t pp = job->plan.stage_count, last = s->parts - 1;
    if (pp == 1) return;
    if (job->scenario->model->modules[MODULE_DIFFUSION_DECODER].layer_count > 0) {
        REFUSE(out, "Megatron-LM's options divide a language model alone: where the diffusion "
                    "decoder's blocks stand is up to the model's own code");
        return;
    }
    for (int64_t part = 1; part < s->parts; part++)
        if (s->vision[part] > 0) {
            REFUSE(
                out,
                "stage %ld holds vision blocks: Megatron-LM keeps the encoder whole on the first "
                "stage (policy.partition uneven-flop or encoder-first)",
                (long)(part % pp) + 1);
            return;
        }
    bool equal_middle = true, equal = true;
    for (int64_t part = 0; part < s->parts; part++) {
        equal = equal && s->language[part] == s->language[0];
        if (part > 1 && part < last)
            equal_middle = equal_middle && s->language[part] == s->language[1];
    }
    if (job->plan.chunk_count > 1 && equal)
        FLAG(out, "--num-virtual-stages-per-pipeline-rank %ld", (long)job->plan.chunk_count);
    if (equal) return;
    /* The options for the ends take no 0: only an encoder's stage has that many decoder layers. */
    const bool bare_end = s->vision[0] + s->language[0] == 0 || s->language[last] == 0;
    if (job->plan.chunk_count > 1 || (pp > 3 && !equal_middle) || bare_end) {
        FLAG(out, "--pipeline-model-parallel-layout '%s'", layout_text(arena, s));
        NOTE(out, "--pipeline-model-parallel-layout is an experimental option of recent versions "
                  "of Megatron Core");
        return;
    }
    /* Stages without an option of their own share the rest evenly. */
    bool own_last = pp > 2 && s->language[last] != s->language[1];
    bool own_first = pp == 2 || s->language[0] != s->language[1];
    if (own_first) FLAG(out, "--decoder-first-pipeline-num-layers %ld", (long)s->language[0]);
    if (own_last) FLAG(out, "--decoder-last-pipeline-num-layers %ld", (long)s->language[last]);
}

static void megatron_recompute(const struct shape *s, struct arena *arena,
                               struct launch_flags *out) {
    if (s->full + s->selective == 0) return;
    if (s->selective == s->blocks) {
        FLAG(out, "--recompute-granularity selective");
        return;
    }
    if (s->full == s->blocks) {
        FLAG(out, "--recompute-granularity full");
        FLAG(out, "--recompute-method uniform");
        FLAG(out, "--recompute-num-layers 1");
        return;
    }
    int64_t most = 0;
    bool encoder = false, same = s->selective == 0 && s->first_blocks;
    for (int64_t part = 0; part < s->parts; part++) {
        encoder = encoder || s->vision_again[part] > 0;
        if (s->language_again[part] > most) most = s->language_again[part];
    }
    for (int64_t part = 0; part < s->parts; part++) {
        int64_t want = most < s->language[part] ? most : s->language[part];
        same = same && s->language_again[part] == want;
    }
    if (same && !encoder) {
        FLAG(out, "--recompute-granularity full");
        FLAG(out, "--recompute-method block");
        FLAG(out, "--recompute-num-layers %ld", (long)most);
        if (s->encoder > 0) NOTE(out, "the encoder keeps its activations: its own configuration");
        return;
    }
    REFUSE(out,
           "recomputing decoder blocks [%s] and encoder blocks [%s] stage by stage: one "
           "--recompute-num-layers holds for all stages (policy.recompute uniform)",
           list_text(arena, s->language_again, s->parts),
           list_text(arena, s->vision_again, s->parts));
}

static void make_megatron(const struct job *job, const struct shape *s, struct arena *arena,
                          struct launch_flags *out) {
    out->framework = "Megatron-LM";
    megatron_sizes(job, arena, out);
    megatron_cuts(job, s, arena, out);
    megatron_recompute(s, arena, out);
    if (job->plan.schedule == &schedule_gpipe)
        REFUSE(out, "schedule \"gpipe\": Megatron-LM runs 1F1B, interleaved or not");
    if (job->step->iteration_planner != NULL)
        REFUSE(out, "policy \"%s\" orders each iteration anew",
               job->step->iteration_planner->name);
}

/* ---- DeepSpeed ---- */

static bool is_min_max(const struct job *job, const struct shape *s, struct arena *arena) {
    const struct model *model = job->scenario->model;
    int64_t count = partition_block_count(model);
    double *weights = arena_array(arena, double, count);
    int64_t *blocks = arena_array(arena, int64_t, s->parts);
    for (int64_t block = 0; block < count; block++)
        for (int64_t i = partition_stage_start(model, block);
             i < partition_stage_start(model, block + 1); i++)
            if (model_gradient_need(model, i).weight)
                weights[block] += (double)model_layer_parameters(model, i);
    partition_min_max(arena, weights, count, s->parts, blocks);
    for (int64_t part = 0; part < s->parts; part++)
        if (blocks[part] != s->vision[part] + s->language[part]) return false;
    return true;
}

static const char *partition_method(const struct job *job, const struct shape *s,
                                    struct arena *arena, struct launch_flags *out) {
    bool equal = true;
    for (int64_t part = 1; part < s->parts; part++)
        equal = equal && s->vision[part] + s->language[part] == s->vision[0] + s->language[0];
    if (is_min_max(job, s, arena)) return "parameters";
    if (equal) {
        NOTE(out, "\"type:\" deals layers whose class matches: name the classes of encoder and "
                  "decoder blocks so that this pattern finds both");
        return "type:.*Block";
    }
    int64_t *blocks = arena_array(arena, int64_t, s->parts);
    for (int64_t part = 0; part < s->parts; part++)
        blocks[part] = s->vision[part] + s->language[part];
    REFUSE(
        out,
        "blocks per stage [%s]: PipelineModule has no partition_method that takes a list of cuts "
        "(policy.partition {\"name\": \"parameter\", \"method\": \"min-max\"} has one)",
        list_text(arena, blocks, s->parts));
    return NULL;
}

static void deepspeed_config(const struct job *job, struct arena *arena,
                             struct launch_flags *out) {
    const struct scenario *s = job->scenario;
    const struct batching_policy *batching = s->batching.row;
    int64_t micro = batching->packs ? 1 : s->micro_batch_samples;
    cJSON *config = cJSON_CreateObject();
    cJSON_AddNumberToObject(config, "train_micro_batch_size_per_gpu", (double)micro);
    cJSON_AddNumberToObject(config, "gradient_accumulation_steps",
                            (double)s->micro_batches_per_rank);
    cJSON_AddNumberToObject(config, "train_batch_size",
                            (double)(micro * s->micro_batches_per_rank * s->layout.dp));
    enum precision precision = s->model->modules[MODULE_LANGUAGE].precision;
    if (precision == PRECISION_BF16 || precision == PRECISION_FP16) {
        cJSON *object = cJSON_AddObjectToObject(config, precision_name(precision));
        cJSON_AddBoolToObject(object, "enabled", true);
    } else if (precision == PRECISION_FP8) {
        REFUSE(out, "fp8: not an option of DeepSpeed's configuration");
    }
    cJSON *zero = cJSON_AddObjectToObject(config, "zero_optimization");
    cJSON_AddNumberToObject(zero, "stage", (double)s->layout.zero_stage);
    if (s->layout.zero_stage > 0)
        cJSON_AddBoolToObject(zero, "overlap_comm", s->layout.overlap_gradient_reduce ||
                                                        s->layout.zero_stage > 1);
    if (s->layout.zero_group < s->layout.dp * s->layout.cp) {
        if (s->layout.zero_stage == 3)
            cJSON_AddNumberToObject(zero, "mics_shard_size", (double)s->layout.zero_group);
        else
            REFUSE(out, "layout.zero_group %ld: DeepSpeed shards in groups with ZeRO-3 only (MiCS)",
                   (long)s->layout.zero_group);
    }
    char *text = cJSON_Print(config);
    out->config = arena_text(arena, text);
    cJSON_free(text);
    cJSON_Delete(config);
    if (batching->packs)
        NOTE(out, "a packed group counts as one sample: the data loader must deliver the groups of "
                  "batching policy \"%s\"",
             batching->name);
}

static void make_deepspeed(const struct job *job, const struct shape *s, struct arena *arena,
                           struct launch_flags *out) {
    out->framework = "DeepSpeed";
    const struct layout *layout = &job->scenario->layout;
    if (layout->tp > 1) FLAG(out, "--tensor-model-parallel-size %ld", (long)layout->tp);
    if (layout->sequence_parallel) FLAG(out, "--sequence-parallel");
    if (layout->pp > 1) FLAG(out, "--pipeline-model-parallel-size %ld", (long)layout->pp);
    const bool ulysses = job->scenario->layout_fields.cp_kind == CONTEXT_ALL_TO_ALL;
    if (layout->cp > 1 && ulysses && layout->tp * layout->pp > 1)
        REFUSE(out,
               "context parallel degree %ld beside tensor parallel %ld and pipeline parallel %ld: "
               "--ds-sequence-parallel-size takes neither",
               (long)layout->cp, (long)layout->tp, (long)layout->pp);
    else if (layout->cp > 1 && ulysses)
        FLAG(out, "--ds-sequence-parallel-size %ld", (long)layout->cp);
    else if (layout->cp > 1)
        REFUSE(out, "context parallel degree %ld (layout.cp_kind all-to-all has an option)",
               (long)layout->cp);
    if (out->flag_count > 0)
        NOTE(out, "parallel sizes are options of Megatron-DeepSpeed's training script");
    deepspeed_config(job, arena, out);
    bool all = s->full == s->blocks, none = s->full + s->selective == 0;
    if (!all && !none)
        REFUSE(out, "%ld of %ld blocks recompute: activation_checkpoint_interval holds for all "
                    "layers (policy.recompute full or none)",
               (long)(s->full + s->selective), (long)s->blocks);
    if (layout->pp == 1) return;
    if (job->plan.chunk_count > 1) {
        REFUSE(out, "layout.vpp %ld: DeepSpeed's pipeline is not interleaved",
               (long)job->plan.chunk_count);
        return;
    }
    if (job->plan.schedule == &schedule_gpipe || job->step->iteration_planner != NULL)
        REFUSE(out, "DeepSpeed's pipeline runs 1F1B only");
    const char *method = partition_method(job, s, arena, out);
    if (method != NULL)
        out->pipeline_module = arena_format(
            arena, "num_stages=%ld, partition_method=\"%s\", activation_checkpoint_interval=%d",
            (long)layout->pp, method, all ? 1 : 0);
}

void launch_flags_make(enum launch_framework framework, const struct job *job,
                       struct arena *arena, struct launch_flags *out) {
    *out = (struct launch_flags){ 0 };
    struct shape s = shape_of(job, arena);
    if (framework == LAUNCH_MEGATRON)
        make_megatron(job, &s, arena, out);
    else
        make_deepspeed(job, &s, arena, out);
}
