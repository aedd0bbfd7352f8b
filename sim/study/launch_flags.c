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

#include <math.h>
#include <stdarg.h>
#include <string.h>
#include "costmodel/generation.h"
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

/* ---- what holds for both ---- */

static bool is_adam(const struct job *job) {
    return strcmp(job->scenario->optimizer->name, "adamw") == 0;
}

/* `own`: the options are those of the framework that the job is priced with. */
static void general_notes(const struct job *job, bool own, struct arena *arena,
                          struct launch_flags *out) {
    const struct scenario *s = job->scenario;
    const char *stack = s->layout_fields.stack;
    if (!own)
        NOTE(out, "the job is priced with layout.backend %s, which is not %s", s->backend->name,
             out->framework);
    NOTE(out, "for %ld GPUs: data-parallel degree %ld, which the number of processes decides",
         (long)layout_rank_count(&s->layout), (long)s->layout.dp);
    if (strcmp(stack, "auto") != 0 && strcmp(stack, "none") != 0)
        NOTE(out, "priced with the kernels of software stack \"%s\": no option chooses them",
             stack);
}

static void groups_note(const struct job *job, struct arena *arena, struct launch_flags *out) {
    const struct batching_policy *batching = job->scenario->batching.row;
    if (batching->packs)
        NOTE(out,
             "a packed group counts as one sample: the data loader must deliver the groups of "
             "batching policy \"%s\"",
             batching->name);
}

/* Dropout of the language model: Megatron-LM's own default where the model's file says that there
 * is some and the scenario gives no probability. */
static double dropout_probability(const struct job *job, double asked) {
    enum { DEFAULT_PERCENT = 10 };
    if (!isnan(asked)) return asked;
    const bool some = job->scenario->model->modules[MODULE_LANGUAGE].dropout;
    return some ? DEFAULT_PERCENT / 100.0 : 0;
}

/* Megatron-LM and Megatron-DeepSpeed drop a tenth unless told otherwise. */
static void dropout_flags(const struct job *job, struct arena *arena, struct launch_flags *out) {
    const struct scenario_training *training = &job->scenario->training_fields;
    FLAG(out, "--hidden-dropout %g", dropout_probability(job, training->hidden_dropout));
    FLAG(out, "--attention-dropout %g", dropout_probability(job, training->attention_dropout));
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
    if (layout->sequence_parallel && s->layout_fields.tp_overlap) FLAG(out, "--tp-comm-overlap");
    FLAG(out, "--pipeline-model-parallel-size %ld", (long)layout->pp);
    if (layout->cp > 1) FLAG(out, "--context-parallel-size %ld", (long)layout->cp);
    /* A ring (p2p) is the default there. */
    const int kind = s->layout_fields.cp_kind;
    if (layout->cp_heads > 1 && kind == CONTEXT_RING)
        FLAG(out, "--cp-comm-type a2a+p2p --hierarchical-context-parallel-sizes %ld %ld",
             (long)layout->cp_heads, (long)(layout->cp / layout->cp_heads));
    else if (layout->cp > 1 && layout->cp_heads == 1 &&
             (kind == CONTEXT_ALL_TO_ALL || kind == CONTEXT_ALL_GATHER))
        FLAG(out, "--cp-comm-type %s", kind == CONTEXT_ALL_TO_ALL ? "a2a" : "all_gather");
    if (layout->cp > 1 && kind != CONTEXT_ALL_TO_ALL && !s->layout_fields.cp_balanced)
        NOTE(out, "layout.cp_balanced false: Megatron-LM deals each sequence from both ends, which "
                  "is faster than the job priced");
    const struct batching_policy *batching = s->batching.row;
    int64_t micro = batching->packs ? 1 : s->micro_batch_samples;
    FLAG(out, "--micro-batch-size %ld", (long)micro);
    FLAG(out, "--global-batch-size %ld", (long)(micro * s->micro_batches_per_rank * layout->dp));
    groups_note(job, arena, out);
    for (int role = 0; role < MODULE_ROLE_COUNT; role++)
        if (s->model->modules[role].layer_count > 0 && s->model->modules[role].frozen)
            NOTE(out, "module %s is frozen: an option of the training script's own",
                 module_role_name((enum module_role)role));
    if (s->model->modules[MODULE_LANGUAGE].adapter_rank > 0)
        NOTE(out, "adapters of rank %ld (LoRA) are the training script's own too",
             (long)s->model->modules[MODULE_LANGUAGE].adapter_rank);
}

/* validate_args: --overlap-param-gather needs the distributed optimizer and --overlap-grad-reduce;
 * DistributedOptimizer takes Adam alone, Muon has LayerWiseDistributedOptimizer. */
static void megatron_sharding(const struct job *job, struct arena *arena,
                              struct launch_flags *out) {
    const struct layout *layout = &job->scenario->layout;
    const bool adam = is_adam(job);
    const bool muon = job->scenario->optimizer->orthogonalises;
    if (muon) FLAG(out, "--optimizer %s", layout->zero_stage == 1 ? "dist_muon" : "muon");
    if (!adam && !muon) FLAG(out, "--optimizer sgd --sgd-momentum 0.9");
    if (!adam && !muon)
        NOTE(out, "training.optimizer sgd-momentum: 0.9 is Megatron-LM's own default");
    if (layout->zero_stage == 1 && !muon) FLAG(out, "--use-distributed-optimizer");
    if (layout->zero_stage == 1 && layout->zero_group < layout->dp * layout->cp)
        FLAG(out, "--num-distributed-optimizer-instances %ld",
             (long)(layout->dp * layout->cp / layout->zero_group));
    if (muon && (layout->overlap_gradient_reduce || layout->overlap_parameter_gather))
        NOTE(out, "overlap of data-parallel traffic goes with the distributed optimizer, which "
                  "Muon is none of: whether your Megatron-LM takes it is not known, so no flag is "
                  "given, and it may run slower than the job priced");
    if (muon) return;
    if (layout->overlap_gradient_reduce) FLAG(out, "--overlap-grad-reduce");
    if (!layout->overlap_parameter_gather || layout->zero_stage != 1) return;
    if (layout->overlap_gradient_reduce)
        FLAG(out, "--overlap-param-gather");
    else
        NOTE(out, "layout.overlap_parameter_gather without layout.overlap_gradient_reduce: "
                  "Megatron-LM takes --overlap-param-gather with --overlap-grad-reduce only, so "
                  "it runs slower than the job priced");
}

/* Megatron-LM's default is delayed; MXFP8 keeps gradients in E4M3 too (its arguments.py). */
static void fp8_flags(const struct scenario_training *training, struct arena *arena,
                      struct launch_flags *out) {
    const enum fp8_recipe recipe = (enum fp8_recipe)training->fp8_recipe;
    FLAG(out, "--bf16 --fp8-format %s", recipe == FP8_RECIPE_MXFP8 ? "e4m3" : "hybrid");
    if (recipe == FP8_RECIPE_ROWWISE)
        NOTE(out, "training.fp8_recipe rowwise: a recipe of torchao; Transformer Engine has none");
    else if (recipe != FP8_RECIPE_USUAL)
        FLAG(out, "--fp8-recipe %s", fp8_recipe_names[recipe]);
}

static void precision_aware_flags(const struct scenario_training *training, struct arena *arena,
                                  struct launch_flags *out) {
    if (!training->precision_aware_optimizer) return;
    FLAG(out, "--use-precision-aware-optimizer");
    if (training->exp_avg_dtype != STATE_FP32)
        FLAG(out, "--exp-avg-dtype %s", state_type_names[training->exp_avg_dtype]);
    if (training->exp_avg_sq_dtype != STATE_FP32)
        FLAG(out, "--exp-avg-sq-dtype %s", state_type_names[training->exp_avg_sq_dtype]);
    if (training->main_grads_dtype != STATE_FP32)
        FLAG(out, "--main-grads-dtype %s --grad-reduce-in-bf16",
             state_type_names[training->main_grads_dtype]);
}

static void megatron_training(const struct job *job, struct arena *arena,
                              struct launch_flags *out) {
    const struct scenario *s = job->scenario;
    const struct scenario_training *training = &s->training_fields;
    static const char *const precisions[PRECISION_COUNT] = {
        [PRECISION_BF16] = "--bf16",
        [PRECISION_FP16] = "--fp16",
        [PRECISION_FP4] = "--bf16 --fp4-format e2m1",
    };
    enum precision precision = s->model->modules[MODULE_LANGUAGE].precision;
    if (precisions[precision] != NULL) FLAG(out, "%s", precisions[precision]);
    if (precision == PRECISION_FP16 && s->backend->gradient_bytes >= 4) /* bf16 implies it */
        FLAG(out, "--accumulate-allreduce-grads-in-fp32");
    if (precision == PRECISION_FP8) fp8_flags(training, arena, out);
    if (precision == PRECISION_FP32)
        NOTE(out, "training.precision fp32: TORCH_ALLOW_TF32_CUBLAS_OVERRIDE=0, where the "
                  "container sets it to 1 (NVIDIA's do)");
    if (precision == PRECISION_TF32)
        NOTE(out, "training.precision tf32: no flag but the environment, "
                  "TORCH_ALLOW_TF32_CUBLAS_OVERRIDE=1, as NVIDIA's containers have it");
    for (int role = 0; role < MODULE_ROLE_COUNT; role++)
        if (s->model->modules[role].layer_count > 0 &&
            s->model->modules[role].precision != precision)
            NOTE(out,
                 "model.precision: Megatron-LM has one precision for all modules, not %s for %s",
                 precision_name(s->model->modules[role].precision),
                 module_role_name((enum module_role)role));
    precision_aware_flags(training, arena, out);
    /* of training.reduce_dtype, or of the stack */
    const bool bf16 = training->reduce_dtype == REDUCE_BF16 ||
                      (precision != PRECISION_FP16 && !precision_is_single(precision) &&
                       s->backend->gradient_bytes < 4);
    if (bf16 && training->main_grads_dtype != STATE_BF16) FLAG(out, "--grad-reduce-in-bf16");
    if (training->attention == TRAINING_NAIVE) FLAG(out, "--attention-backend unfused");
    if (training->attention == TRAINING_MASKED)
        NOTE(out, "training.attention masked: PyTorch's own kernel, for which there is no flag");
    if (training->attention == TRAINING_FLASH_1)
        NOTE(out, "training.attention flash-1: the package flash_attn before 2.0");
    if (training->attention == TRAINING_FLASH_2 || training->attention == TRAINING_FLASH_3)
        FLAG(out, "--attention-backend flash");
    if (training->attention == TRAINING_CUDNN) FLAG(out, "--attention-backend fused");
    const char *gpu = cost_model_gpu(s->cost_model)->name;
    if (training->attention == TRAINING_FLASH_2 && gpu_generation_of(gpu) == GENERATION_HOPPER)
        NOTE(out, "training.attention flash-2: Transformer Engine takes FlashAttention-3 where the "
                  "package flash_attn_3 is installed, so it must not be");
    if (training->attention == TRAINING_FLASH_3)
        NOTE(out, "training.attention flash-3: Transformer Engine takes FlashAttention-3 where the "
                  "package flash_attn_3 is installed, otherwise 2");
    dropout_flags(job, arena, out);
    if (training->deterministic == DETERMINISM_NONE) return;
    FLAG(out, "--deterministic-mode");
    NOTE(out, "--deterministic-mode needs NCCL_ALGO in the environment (for example Ring), and "
              "neither --use-flash-attn nor --cross-entropy-loss-fusion");
    NOTE(out, "%s",
         training->deterministic == DETERMINISM_FILLED
             ? "training.deterministic filled: versions of Megatron-LM since September 2026 "
               "do not fill new tensors"
             : "training.deterministic kernels: versions of Megatron-LM before September 2026 "
               "fill new tensors too, unless "
               "torch.utils.deterministic.fill_uninitialized_memory is False");
}

/* TransformerConfig takes offloading without recomputation; framework_limits() has the rest. */
static void megatron_offload(const struct job *job, const struct shape *s, struct arena *arena,
                             struct launch_flags *out) {
    const int64_t blocks = job->scenario->training_fields.offload_blocks;
    if (blocks == 0) return;
    if (s->full + s->selective > 0)
        REFUSE(out,
               "training.offload_blocks %ld: --cpu-offloading-num-layers holds without "
               "recomputation",
               (long)blocks);
    else if (s->parts == 1)
        FLAG(out, "--cpu-offloading-num-layers %ld", (long)blocks);
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
    /* TransformerConfig refuses 0 for the options of the ends, also beside an encoder. */
    const bool bare_end = s->language[0] == 0 || s->language[last] == 0;
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
    general_notes(job, strcmp(job->scenario->backend->name, "megatron-lm") == 0, arena, out);
    megatron_sizes(job, arena, out);
    megatron_training(job, arena, out);
    megatron_sharding(job, arena, out);
    megatron_offload(job, s, arena, out);
    megatron_cuts(job, s, arena, out);
    megatron_recompute(s, arena, out);
    if (job->step->iteration_planner != NULL)
        REFUSE(out, "policy \"%s\" orders each iteration anew", job->step->iteration_planner->name);
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
            weights[block] += (double)model_layer_trained_parameters(model, i);
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

static void deepspeed_config(const struct job *job, struct arena *arena, struct launch_flags *out) {
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
    }
    if (s->training_fields.reduce_dtype != REDUCE_USUAL)
        cJSON_AddStringToObject(config, "communication_data_type",
                                reduce_type_names[s->training_fields.reduce_dtype]);
    if (!is_adam(job) && s->layout.zero_stage > 0)
        cJSON_AddBoolToObject(config, "zero_allow_untested_optimizer", true);
    cJSON *zero = cJSON_AddObjectToObject(config, "zero_optimization");
    cJSON_AddNumberToObject(zero, "stage", (double)s->layout.zero_stage);
    if (s->layout.zero_stage > 0)
        cJSON_AddBoolToObject(zero, "overlap_comm",
                              s->layout.overlap_gradient_reduce || s->layout.zero_stage > 2);
    if (s->layout.zero_group < s->layout.dp * s->layout.cp && s->layout.zero_stage == 3)
        cJSON_AddNumberToObject(zero, "mics_shard_size", (double)s->layout.zero_group);
    char *text = cJSON_Print(config);
    out->config = arena_text(arena, text);
    cJSON_free(text);
    cJSON_Delete(config);
    groups_note(job, arena, out);
}

/* What the file does not say: the training script's own business. */
static void deepspeed_notes(const struct job *job, bool megatron, struct arena *arena,
                            struct launch_flags *out) {
    const struct scenario *s = job->scenario;
    const struct scenario_training *training = &s->training_fields;
    const struct layout *layout = &s->layout;
    if (layout->zero_stage == 0 && layout->overlap_gradient_reduce)
        NOTE(out, "layout.overlap_gradient_reduce with ZeRO-0: overlap_comm is an option of "
                  "zero_optimization alone, so DeepSpeed runs slower than the job priced");
    if (layout->zero_stage == 1 && layout->overlap_parameter_gather)
        NOTE(out, "layout.overlap_parameter_gather: DeepSpeed's ZeRO-1 gathers before the next "
                  "step, so it runs slower than the job priced");
    if (layout->sequence_parallel && s->layout_fields.tp_overlap)
        NOTE(out, "layout.tp_overlap: no option, so DeepSpeed runs slower than the job priced");
    if (s->model->modules[MODULE_LANGUAGE].precision == PRECISION_TF32)
        NOTE(out, "training.precision tf32: torch.set_float32_matmul_precision(\"high\") in the "
                  "training script");
    if (training->attention == TRAINING_NAIVE)
        NOTE(out, "training.attention naive: the model's own code, without flash attention");
    if (training->attention == TRAINING_FLASH_2 || training->attention == TRAINING_FLASH_3)
        NOTE(out, "training.attention flash-%d: attn_implementation of the model",
             training->attention == TRAINING_FLASH_2 ? 2 : 3);
    if (training->attention == TRAINING_CUDNN)
        NOTE(out, "training.attention cudnn: attn_implementation sdpa within "
                  "torch.nn.attention.sdpa_kernel(SDPBackend.CUDNN_ATTENTION)");
    if (training->attention == TRAINING_MASKED)
        NOTE(out, "training.attention masked: attn_implementation sdpa, with a mask in memory");
    if (training->attention == TRAINING_FLASH_1)
        NOTE(out, "training.attention flash-1: PyTorch 2.0 or 2.1 with attn_implementation sdpa");
    if (!is_adam(job))
        NOTE(out, "training.optimizer %s: build it in the training script", s->optimizer->name);
    if (training->deterministic != DETERMINISM_NONE)
        NOTE(out,
             "training.deterministic %s: torch.use_deterministic_algorithms(True) in the training "
             "script, with torch.utils.deterministic.fill_uninitialized_memory %s",
             training->deterministic == DETERMINISM_FILLED ? "filled" : "kernels",
             training->deterministic == DETERMINISM_FILLED ? "True" : "False");
    if (megatron) return;
    const double hidden = dropout_probability(job, training->hidden_dropout),
                 attention = dropout_probability(job, training->attention_dropout);
    if (hidden > 0 || attention > 0)
        NOTE(out, "dropout %g (hidden) and %g (attention): the model's own configuration", hidden,
             attention);
}

static void make_deepspeed(const struct job *job, const struct shape *s, struct arena *arena,
                           struct launch_flags *out) {
    const struct layout *layout = &job->scenario->layout;
    const char *backend = job->scenario->backend->name;
    const bool megatron = strcmp(backend, "megatron-deepspeed") == 0;
    general_notes(job, megatron || strcmp(backend, "deepspeed") == 0, arena, out);
    bool all = s->full == s->blocks, none = s->full + s->selective == 0;
    if (layout->tp > 1) FLAG(out, "--tensor-model-parallel-size %ld", (long)layout->tp);
    if (layout->sequence_parallel) FLAG(out, "--sequence-parallel");
    if (layout->pp > 1) FLAG(out, "--pipeline-model-parallel-size %ld", (long)layout->pp);
    const bool ulysses = job->scenario->layout_fields.cp_kind == CONTEXT_ALL_TO_ALL;
    if (layout->cp > 1 && ulysses && layout->tp * layout->pp == 1)
        FLAG(out, "--ds-sequence-parallel-size %ld", (long)layout->cp);
    if (megatron) dropout_flags(job, arena, out);
    if (all && layout->pp == 1 && megatron)
        FLAG(out, "--checkpoint-activations --deepspeed-activation-checkpointing");
    else if (all && layout->pp == 1)
        NOTE(out, "all blocks recompute: the model's code switches it on "
                  "(gradient_checkpointing_enable() in Transformers), not this file");
    if (out->flag_count > 0)
        NOTE(out, "the options before the file are of Megatron-DeepSpeed's training script");
    deepspeed_config(job, arena, out);
    deepspeed_notes(job, megatron, arena, out);
    if (!all && !none)
        REFUSE(out,
               "%ld of %ld blocks recompute: activation_checkpoint_interval holds for all "
               "layers (policy.recompute full or none)",
               (long)(s->full + s->selective), (long)s->blocks);
    if (layout->pp == 1) return;
    if (job->plan.chunk_count > 1) {
        if (job->scenario->layout_fields.vpp == 1)
            REFUSE(out, "%ld chunks a stage: DeepSpeed's pipeline is not interleaved",
                   (long)job->plan.chunk_count);
        return;
    }
    if (job->step->iteration_planner != NULL) REFUSE(out, "DeepSpeed's pipeline runs 1F1B only");
    if (job->scenario->training_fields.precision_aware_optimizer)
        REFUSE(out, "training.precision_aware_optimizer: an optimizer of Megatron-LM alone");
    const char *method = partition_method(job, s, arena, out);
    if (method != NULL)
        out->pipeline_module = arena_format(
            arena, "num_stages=%ld, partition_method=\"%s\", activation_checkpoint_interval=%d",
            (long)layout->pp, method, all ? 1 : 0);
}

static const char *const framework_names[] = {
    [FRAMEWORK_MEGATRON] = "Megatron-LM", [FRAMEWORK_DEEPSPEED] = "DeepSpeed"
};

void launch_flags_make(enum framework framework, const struct job *job, struct arena *arena,
                       struct launch_flags *out) {
    ballast_check(framework != FRAMEWORK_FSDP);
    *out = (struct launch_flags){ .framework = framework_names[framework] };
    if (framework_of_backend(job->scenario->backend->name) == FRAMEWORK_FSDP) {
        REFUSE(out,
               "layout.backend fsdp shards with PyTorch's fully_shard, which is configured in the "
               "training framework's own files: plans of megatron-lm, megatron-deepspeed and "
               "deepspeed can be emitted");
        return;
    }
    struct framework_limit limits[FRAMEWORK_LIMIT_COUNT];
    const int64_t limit_count = framework_limits(framework, job->scenario, arena, limits);
    for (int64_t i = 0; i < limit_count; i++)
        REFUSE(out, "%s", limits[i].text);
    struct shape s = shape_of(job, arena);
    if (framework == FRAMEWORK_MEGATRON)
        make_megatron(job, &s, arena, out);
    else
        make_deepspeed(job, &s, arena, out);
}

const char *launch_needs_code(const struct job *job, struct arena *arena) {
    const enum framework framework = framework_of_backend(job->scenario->backend->name);
    if (framework == FRAMEWORK_FSDP) return job->scenario->limit;
    struct launch_flags flags;
    launch_flags_make(framework, job, arena, &flags);
    return flags.refusal_count > 0 ? flags.refusals[0] : NULL;
}
