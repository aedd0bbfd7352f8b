/* calibrate_variants.c - curves of single frameworks and of an NCCL apart, from the rows of the
 * GPUs that the plan names for them. What a framework has too few rows of it takes from the settled
 * curves. */
#include <math.h>
#include <string.h>
#include "calibrate/fit/calibrate_job.h"
#include "calibrate/fit/curves_json.h"
#include "costmodel/efficiency.h"

static const struct framework {
    const char *name, *prefix; /* of the rows' framework */
    const char *source;
    bool deterministic; /* its backward kernels add in a fixed order, which takes longer */
} frameworks[] = {
    { "sglang", "sglang", "SGLang collector of ai-dynamo/aiconfigurator", false },
    { "trtllm", "trtllm", "TensorRT-LLM collector of ai-dynamo/aiconfigurator", false },
    { "vllm", "vllm", "vLLM collector of ai-dynamo/aiconfigurator", false },
    { "transformerengine", "TransformerEngine", "TransformerEngine, MooreThreads/SimuMax", false },
    { "cublaslt", "cublasLt", "cuBLASLt, calibrate/bench", false },
    { "cudnn", "cudnn", "cuDNN, NVIDIA/cudnn-frontend and calibrate/bench", false },
    { "cudnn deterministic_bwd=True", "cudnn", "cuDNN, NVIDIA/cudnn-frontend and calibrate/bench",
      true },
};
enum { FRAMEWORK_COUNT = sizeof frameworks / sizeof frameworks[0], VARIANT_ROWS_MIN = 20 };

static bool is_of_variant(const struct plan *plan, const struct framework *framework,
                          const char *gpu, const char *row_framework) {
    const bool of_gpu = (plan->variant_gpus[0] && strcmp(gpu, plan->variant_gpus[0]) == 0) ||
                        (plan->variant_gpus[1] && strcmp(gpu, plan->variant_gpus[1]) == 0);
    return of_gpu && strncmp(row_framework, framework->prefix, strlen(framework->prefix)) == 0;
}

static double variant_sm_count(const struct plan *plan) {
    return plan->variant_gpus[0] ? calibrate_sm_count(plan->variant_gpus[0]) : 0;
}

enum operator_pass calibrate_matmul_pass(const char *framework) {
    if (strstr(framework, "layout=NN")) return PASS_INPUT_GRADIENT;
    if (strstr(framework, "layout=NT")) return PASS_WEIGHT_GRADIENT;
    return PASS_FORWARD;
}

/* A step adds weight gradients up in fp32. In bf16 the same shapes take 0.94 of the time (median of
 * 68 on B200), so the two are not one curve. */
static bool is_added_in_bf16(const char *framework) {
    return strstr(framework, "layout=NT") && strstr(framework, "out=bf16");
}

/* NULL, without an error: too few rows. */
static cJSON *variant_matmul(struct calibrate_job *job, const struct framework *framework,
                             enum precision precision, enum operator_pass pass) {
    if (framework->deterministic) return NULL; /* as those of the plain framework */
    const struct plan *plan = job->plan;
    const struct gemm_rows *all = &job->measured->gemm;
    struct gemm_row *rows = arena_array(job->arena, struct gemm_row, all->count + 1);
    int64_t count = 0;
    for (int64_t i = 0; i < all->count; i++) {
        const struct gemm_row *row = &all->rows[i];
        if (is_of_variant(plan, framework, row->gpu, row->framework) &&
            strcmp(row->dtype, precision_name(precision)) == 0 &&
            calibrate_matmul_pass(row->framework) == pass && row->m > 0 && row->time_us > 0 &&
            !strstr(row->framework, "groups=") && !is_added_in_bf16(row->framework))
            rows[count++] = *row;
    }
    const double peak = precision == PRECISION_FP8 ? plan->variant_fp8_peak : plan->variant_peak;
    const struct matmul_conditions on = { peak, plan->variant_bandwidth, precision, pass,
                                          variant_sm_count(plan) };
    struct matmul_fit fit;
    if (count < VARIANT_ROWS_MIN || !(peak > 0) ||
        !fit_matmul(job->arena, rows, count, &on, &fit, NULL))
        return NULL;
    calibrate_add_line(job->report, &fit.form, &fit.held_out, "matmul %s %s %s", framework->name,
                       precision_name(precision), operator_pass_name(pass));
    struct matmul_fields f = {
        .precision = (int)precision,
        .pass = (int)pass,
        .source = framework->source,
        .launch_us = curves_rounded(fit.coefficient[MATMUL_LAUNCH_S] * 1e6),
        .efficiency = curves_rounded(fmin(fit.coefficient[MATMUL_EFFICIENCY], 1)),
        .k_half = curves_rounded(fit.coefficient[MATMUL_K_HALF]),
        .memory_fraction = curves_rounded(fit.coefficient[MATMUL_MEMORY_FRACTION]),
        .power_slope = curves_rounded(fit.coefficient[MATMUL_POWER_SLOPE]),
        .power_onset_us = fit.power_onset_s * 1e6,
        .power_floor = fit.power_floor,
        .wave_exponent = curves_rounded(fit.coefficient[MATMUL_WAVE_EXPONENT]),
        .wave_slots = fit.wave_slots,
        .cast_fraction = curves_rounded(fit.coefficient[MATMUL_CAST_FRACTION]),
        .band_fraction = curves_rounded(fit.held_out.p80),
        .outside_band_fraction = curves_rounded(fmax(fit.form.p80, 2 * fit.held_out.p80)),
    };
    if (fit.log_ratio) {
        const int64_t *axes = fit.axis_count;
        f.m = curves_integers(fit.axis[0], axes[0]);
        f.n = curves_integers(fit.axis[1], axes[1]);
        f.k = curves_integers(fit.axis[2], axes[2]);
        f.log_ratio_milli = curves_milli_rows(fit.log_ratio, axes[0], axes[1] * axes[2], 0);
    }
    const cJSON *const nodes[] = { f.m, f.n, f.k, f.log_ratio_milli };
    cJSON *curve = curves_write(&efficiency_variant_matmul_table, &f, nodes, 4);
    curves_drop_unseen(curve);
    return curve;
}

/* The rows of one framework, head size and mask; all frameworks where it is NULL. */
static int64_t attention_rows_of(const struct calibrate_job *job, const struct framework *framework,
                                 const struct attention_rule *rule, const char *direction,
                                 struct attention_row *rows) {
    const struct attention_rows *all = &job->measured->attention;
    const bool backward = strcmp(direction, "bwd") == 0;
    int64_t count = 0;
    for (int64_t i = 0; i < all->count; i++) {
        const struct attention_row *row = &all->rows[i];
        const bool deterministic = strstr(row->framework, "deterministic_bwd=True") != NULL;
        if (is_of_variant(job->plan, framework, row->gpu, row->framework) &&
            strcmp(row->dtype, "bf16") == 0 && strcmp(row->direction, direction) == 0 &&
            row->head_dim_qk == rule->head_dim && row->head_dim_v == rule->head_dim &&
            row->causal == rule->causal && deterministic == (backward && framework->deterministic))
            rows[count++] = *row;
    }
    return count;
}

static bool has_backward_rows(const struct calibrate_job *job, const struct framework *framework,
                              struct attention_row *rows) {
    for (int r = 0; r < RULE_COUNT; r++)
        if (attention_rows_of(job, framework, &calibrate_attention_rules[r], "bwd", rows) > 0)
            return true;
    return false;
}

static cJSON *variant_attention(struct calibrate_job *job, const struct framework *framework) {
    const struct plan *plan = job->plan;
    const int64_t row_count = job->measured->attention.count;
    struct attention_row *rows = arena_array(job->arena, struct attention_row, row_count + 1);
    struct attention_row *pairs = arena_array(job->arena, struct attention_row, row_count + 1);
    if (framework->deterministic && !has_backward_rows(job, framework, rows)) return NULL;
    const struct attention_conditions on = { plan->variant_peak, plan->variant_bandwidth,
                                             variant_sm_count(plan) };
    cJSON *curves = cJSON_CreateArray();
    struct attention_curve forward[RULE_COUNT];
    struct attention_curves all = { .curves = forward };
    int64_t pair_rows = 0;
    for (int r = 0; r < RULE_COUNT; r++) {
        const struct attention_rule *rule = &calibrate_attention_rules[r];
        struct attention_fit fit;
        const int64_t count = attention_rows_of(job, framework, rule, "fwd", rows);
        if (!fit_attention(job->arena, rows, count, &on, &fit, NULL)) continue;
        calibrate_add_line(job->report, &fit.form, &fit.held_out, "attention %s d=%lld %s",
                           framework->name, (long long)rule->head_dim,
                           rule->causal ? "causal" : "full");
        cJSON_AddItemToArray(curves,
                             calibrate_attention_curve_json(rule, &fit, framework->source, 1, 1));
        if (!all.has[rule->causal]) all.first[rule->causal] = all.count;
        all.has[rule->causal] = true;
        all.last[rule->causal] = all.count;
        forward[all.count++] = (struct attention_curve){
            .head_dim = rule->head_dim,
            .causal = rule->causal,
            .launch_s = ATTENTION_LAUNCH_S,
            .efficiency = fit.coefficient[ATTENTION_EFFICIENCY],
            .length_half = fit.coefficient[ATTENTION_LENGTH_HALF],
            .rows_half = fit.coefficient[ATTENTION_ROWS_HALF],
            .power_slope = fit.coefficient[ATTENTION_POWER_SLOPE],
        };
        memcpy(pairs + pair_rows, rows, (size_t)count * sizeof *rows);
        pair_rows += count;
        pair_rows += attention_rows_of(job, framework, rule, "bwd", pairs + pair_rows);
    }
    if (!curves->child) {
        cJSON_Delete(curves);
        return NULL;
    }
    struct backward_fit backward;
    const char *source = framework->source;
    if (fit_attention_backward_rows(job->arena, pairs, pair_rows, &all, &on, &backward, NULL))
        calibrate_add_line(job->report, NULL, &backward.residual, "attention backward %s",
                           framework->name);
    else if (framework->deterministic) {
        cJSON_Delete(curves);
        return NULL; /* too few of them */
    } else {
        source = "pairs of all frameworks: no backward kernels of this one were measured";
        if (!fit_attention_backward(job->arena, job->measured->attention.rows, row_count, &backward,
                                    job->err)) {
            cJSON_Delete(curves);
            return NULL;
        }
    }
    const struct attention_fields f = {
        .backward_factor = curves_rounded(backward.factor),
        .backward_length_half = curves_rounded(backward.length_half),
        .backward_rows_half = curves_rounded(backward.rows_half),
        .backward_power_slope = curves_rounded(backward.power_slope),
        .backward_band_fraction = curves_rounded(fmax(0.08, 2 * backward.residual.p80)),
        .backward_wide_time = plan->attention_backward_wide,
        .backward_source = source,
        .curves = curves,
    };
    const cJSON *const nodes[] = { f.curves };
    cJSON *attention = curves_write(&efficiency_attention_table, &f, nodes, 1);
    curves_drop_zero(attention, "backward_power_slope");
    curves_drop_zero(attention, "backward_wide_time");
    return attention;
}

/* Measured, or derived on the same GPU between two numbers of ranks that were. */
static bool apart_collective(struct calibrate_job *job, enum operator_kind op, int64_t rank_count,
                             struct collective_fit *fit) {
    const char *gpu = job->plan->apart_nccl_gpu;
    const struct nccl_rows *nccl = &job->measured->nccl;
    const struct collective_source source = { nccl->rows, nccl->count, gpu, gpu };
    bool fewer = false, more = false;
    for (int i = 0; i < RANK_COUNTS; i++) {
        const bool measured =
            fit_collective(nccl->rows, nccl->count, gpu, op, calibrate_rank_counts[i], fit);
        fewer |= measured && calibrate_rank_counts[i] <= rank_count;
        more |= measured && calibrate_rank_counts[i] >= rank_count;
    }
    return fewer && more && fit_collective_or_derive(job->arena, &source, op, rank_count, fit);
}

/* NULL, without an error: no such rows. */
static cJSON *apart_nccl_variant(struct calibrate_job *job) {
    const struct plan *plan = job->plan;
    if (!plan->apart_nccl_gpu) return NULL;
    cJSON *list = cJSON_CreateArray();
    for (int op = OPERATOR_ALL_REDUCE; op <= OPERATOR_SEND; op++)
        for (int i = 0; i < RANK_COUNTS; i++) {
            struct collective_fit fit;
            if (!apart_collective(job, (enum operator_kind)op, calibrate_rank_counts[i], &fit))
                continue;
            if (!fit.rule)
                calibrate_add_line(job->report, NULL, &fit.held_out, "%s of %lld, %s",
                                   operator_kind_name((enum operator_kind)op),
                                   (long long)calibrate_rank_counts[i], plan->apart_nccl);
            cJSON *table = calibrate_collective_table(job, &fit);
            if (!fit.rule)
                cJSON_ReplaceItemInObjectCaseSensitive(
                    table, "source",
                    cJSON_CreateString(arena_format(job->arena, "%s on %s, nccl-tests",
                                                    plan->apart_nccl, plan->apart_nccl_gpu)));
            cJSON_AddItemToArray(list, table);
        }
    if (!list->child) {
        cJSON_Delete(list);
        return NULL;
    }
    const struct variant_fields f = { plan->apart_nccl, NULL, NULL, list };
    const cJSON *const nodes[] = { f.collectives };
    cJSON *variant = curves_write(&efficiency_variant_table, &f, nodes, 1);
    cJSON_DeleteItemFromObjectCaseSensitive(variant, "matmul");
    cJSON_DeleteItemFromObjectCaseSensitive(variant, "attention");
    return variant;
}

cJSON *calibrate_variants(struct calibrate_job *job) {
    static const struct {
        enum precision precision;
        enum operator_pass pass;
    } kinds[] = {
        { PRECISION_BF16, PASS_FORWARD },
        { PRECISION_BF16, PASS_INPUT_GRADIENT },
        { PRECISION_BF16, PASS_WEIGHT_GRADIENT },
        { PRECISION_FP8, PASS_FORWARD },
    };
    cJSON *list = cJSON_CreateArray();
    for (int i = 0; i < FRAMEWORK_COUNT; i++) {
        cJSON *matmuls = cJSON_CreateArray();
        for (size_t k = 0; k < sizeof kinds / sizeof kinds[0]; k++) {
            cJSON *curve = variant_matmul(job, &frameworks[i], kinds[k].precision, kinds[k].pass);
            if (curve) cJSON_AddItemToArray(matmuls, curve);
        }
        const struct variant_fields f = { frameworks[i].name, matmuls,
                                          variant_attention(job, &frameworks[i]), NULL };
        const bool any = matmuls->child || f.attention;
        const cJSON *const nodes[] = { f.matmul, f.attention };
        cJSON *variant = curves_write(&efficiency_variant_table, &f, nodes, 2);
        cJSON_DeleteItemFromObjectCaseSensitive(variant, "collectives");
        if (any)
            cJSON_AddItemToArray(list, variant);
        else
            cJSON_Delete(variant);
    }
    cJSON *apart = apart_nccl_variant(job);
    if (apart) cJSON_AddItemToArray(list, apart);
    return list;
}
