/* scenario_precision_rules.c - rules between precisions, kernels and the GPU: what it computes in,
 * how operands in fp8 are scaled, what the optimizer keeps, and which attention kernels it has.
 */
#include <string.h>
#include "costmodel/generation.h"
#include "sim/scenario/scenario_reader.h"

static const char *precisions_hint(struct arena *arena, const struct gpu *gpu) {
    const char *list = "";
    for (int p = 0; p < PRECISION_COUNT; p++)
        if (gpu->peak_flop_per_s[p] > 0)
            list = arena_format(arena, "%s%s%s", list, list[0] != '\0' ? ", " : "",
                                precision_name((enum precision)p));
    return arena_format(arena, "training.precision or model.precision: one of %s", list);
}

/* The GPU must compute in what each module asks for. */
bool rule_precision(struct reader *r) {
    struct scenario *s = r->s;
    const struct gpu *gpu = cost_model_gpu(s->cost_model);
    for (int role = 0; role < MODULE_ROLE_COUNT; role++) {
        const struct module *m = &s->model->modules[role];
        r->rule = "precision";
        if (m->layer_count > 0 && gpu->peak_flop_per_s[m->precision] <= 0)
            return json_error(s->json,
                              r->precision_nodes[role] != NULL
                                  ? r->precision_nodes[role]
                                  : SUSPECT(r, scenario_member(r->top.training, "precision"),
                                            scenario_member(r->top.cluster, "hardware")),
                              r->err, precisions_hint(r->s->arena, gpu), "%s cannot compute in %s",
                              gpu->name, precision_name(m->precision));
    }
    return true;
}

/* Blocks of 32 are scaled by the tensor cores that know fp4 too. */
bool rule_fp8_recipe(struct reader *r) {
    struct scenario *s = r->s;
    const struct gpu *gpu = cost_model_gpu(s->cost_model);
    r->rule = "fp8-recipe";
    if (s->training_fields.fp8_recipe != FP8_RECIPE_MXFP8 ||
        !model_computes_in(s->model, PRECISION_FP8) || gpu->peak_flop_per_s[PRECISION_FP4] > 0)
        return true;
    return json_error(s->json,
                      SUSPECT(r, scenario_member(r->top.training, "fp8_recipe"),
                              scenario_member(r->top.cluster, "hardware")),
                      r->err, "\"blockwise\" scales blocks of 128 values without them",
                      "MXFP8 needs the tensor cores of Blackwell, which %s has not", gpu->name);
}

static const char *narrow_type(const struct scenario_training *training) {
    return training->exp_avg_dtype != STATE_FP32      ? "exp_avg_dtype"
           : training->exp_avg_sq_dtype != STATE_FP32 ? "exp_avg_sq_dtype"
           : training->main_grads_dtype != STATE_FP32 ? "main_grads_dtype"
                                                      : NULL;
}

/* Of fp32 modules the optimizer keeps whole weights, of others what bf16 has not: one state holds
 * for all of them. */
static bool rule_precision_aware_modules(struct reader *r, const cJSON *node) {
    const struct scenario *s = r->s;
    const struct model *model = s->model;
    const struct scenario_training *training = &s->training_fields;
    const bool bf16 = !model_computes_in(model, PRECISION_FP16) && !model_computes_in_single(model);
    int precisions = 0;
    for (int p = 0; p < PRECISION_COUNT; p++)
        precisions += model_computes_in(model, (enum precision)p);
    if (precisions > 1 && model_computes_in_single(model))
        return json_error(s->json, SUSPECT(r, node, scenario_member(r->top.model, "precision")),
                          r->err, NULL,
                          "the precision-aware optimizer takes fp32 modules alone, not beside "
                          "others");
    if (training->main_grads_dtype == STATE_BF16 && !bf16)
        return json_error(s->json, scenario_member(r->top.training, "main_grads_dtype"), r->err,
                          NULL, "gradients are kept in bf16 where bf16 is trained (--bf16) alone");
    return true;
}

/* OptimizerConfig.__post_init__ of Megatron-core: of Adam, whose state is sharded; without it all
 * of the types are fp32. */
bool rule_precision_aware(struct reader *r) {
    struct scenario *s = r->s;
    const struct scenario_training *training = &s->training_fields;
    const char *narrow = narrow_type(training);
    const cJSON *node = scenario_member(r->top.training, "precision_aware_optimizer");
    r->rule = "precision-aware";
    if (!training->precision_aware_optimizer && narrow == NULL) return true;
    if (!training->precision_aware_optimizer)
        return json_error(s->json, scenario_member(r->top.training, narrow), r->err, NULL,
                          "%s needs precision_aware_optimizer to be true", narrow);
    if (strcmp(s->optimizer->name, "adamw") != 0)
        return json_error(s->json, SUSPECT(r, node, scenario_member(r->top.training, "optimizer")),
                          r->err, NULL, "the precision-aware optimizer is adamw, not %s",
                          s->optimizer->name);
    if (strcmp(s->backend->name, "megatron-lm") != 0 || s->layout_fields.zero_stage != 1)
        return json_error(s->json,
                          SUSPECT(r, node, scenario_member(r->top.layout, "backend"),
                                  scenario_member(r->top.layout, "zero_stage")),
                          r->err, NULL,
                          "the precision-aware optimizer is that of backend megatron-lm with "
                          "ZeRO-1, not of %s with ZeRO-%ld",
                          s->backend->name, (long)s->layout_fields.zero_stage);
    return rule_precision_aware_modules(r, node);
}

bool rule_reduce_dtype(struct reader *r) {
    const struct scenario *s = r->s;
    const struct scenario_training *training = &s->training_fields;
    const cJSON *node = scenario_member(r->top.training, "reduce_dtype");
    r->rule = "reduce-dtype";
    if (training->reduce_dtype == REDUCE_USUAL) return true;
    for (int p = 0; p < PRECISION_COUNT && training->reduce_dtype == REDUCE_BF16; p++)
        if ((p == PRECISION_FP16 || precision_is_single((enum precision)p)) &&
            model_computes_in(s->model, (enum precision)p))
            return json_error(s->json,
                              SUSPECT(r, node, scenario_member(r->top.training, "precision"),
                                      scenario_member(r->top.model, "precision")),
                              r->err, "fp32, or \"usual\", what backend and stack do",
                              "gradients are reduced in bf16 where bf16, fp8 or fp4 is trained, "
                              "not in %s",
                              precision_name((enum precision)p));
    if (training->main_grads_dtype == STATE_BF16 && training->reduce_dtype != REDUCE_BF16)
        return json_error(s->json, node, r->err, NULL,
                          "main_grads_dtype bf16 goes with gradients that are reduced in bf16");
    return true;
}

bool rule_adamw_kernels(struct reader *r) {
    const struct scenario *s = r->s;
    const struct scenario_training *training = &s->training_fields;
    const cJSON *node = scenario_member(r->top.training, "adamw_kernels");
    r->rule = "adamw-kernels";
    if (training->adamw_kernels == ADAMW_KERNELS_USUAL) return true;
    if (strcmp(optimizer_names[training->optimizer], "adamw") != 0)
        return json_error(s->json, SUSPECT(r, node, scenario_member(r->top.training, "optimizer")),
                          r->err, "\"usual\", or optimizer adamw",
                          "adamw_kernels are of optimizer adamw, not of %s",
                          optimizer_names[training->optimizer]);
    if (strcmp(s->backend->name, "fsdp") != 0)
        return json_error(s->json, SUSPECT(r, node, scenario_member(r->top.layout, "backend")),
                          r->err,
                          "\"usual\": Megatron-LM and DeepSpeed bring fused updates of their own",
                          "adamw_kernels are of PyTorch's AdamW, which backend fsdp runs, not %s",
                          s->backend->name);
    if (backend_adamw_kernels(s->stack) == ADAMW_KERNELS_USUAL)
        return json_error(s->json, SUSPECT(r, node, scenario_member(r->top.layout, "stack")),
                          r->err, "\"usual\", what the stack does",
                          "adamw_kernels are of PyTorch's AdamW, which stack %s does not run",
                          s->stack->name);
    return true;
}

/* FlashAttention-3 has kernels for Hopper alone, the second and cuDNN for Ampere and later. */
bool rule_attention(struct reader *r) {
    struct scenario *s = r->s;
    const struct gpu *gpu = cost_model_gpu(s->cost_model);
    const int attention = s->training_fields.attention;
    const bool third = attention == TRAINING_FLASH_3;
    r->rule = "attention-kernel";
    static const char *const libraries[] = { [TRAINING_FLASH_1] = "FlashAttention-1",
                                             [TRAINING_FLASH_2] = "FlashAttention-2",
                                             [TRAINING_FLASH_3] = "FlashAttention-3",
                                             [TRAINING_CUDNN] = "cuDNN's attention" };
    const char *library = libraries[attention];
    if (library == NULL) return true;
    if (precision_is_single(s->main_precision))
        return json_error(s->json,
                          SUSPECT(r, scenario_member(r->top.training, "attention"),
                                  scenario_member(r->top.training, "precision")),
                          r->err, "\"flash\": PyTorch's memory-efficient kernel",
                          "%s computes in 16 bits and fewer, not in %s", library,
                          precision_name(s->main_precision));
    const enum gpu_generation make = gpu_generation_of(gpu->name);
    if (make == GENERATION_UNKNOWN || (third ? make == GENERATION_HOPPER : make > GENERATION_VOLTA))
        return true;
    return json_error(s->json,
                      SUSPECT(r, scenario_member(r->top.training, "attention"),
                              scenario_member(r->top.cluster, "hardware")),
                      r->err,
                      third ? "\"flash-2\", or \"flash\": the kernel of the stack"
                            : "\"flash\": the kernel of the stack",
                      "%s runs on %s, not on %s", library,
                      third ? "Hopper GPUs alone" : "Ampere and later GPUs", gpu->name);
}
