/* calibrate.c - from measurements to the curves file of one GPU, by its plan (plan.c).
 *
 * A GPU without measurements takes those of its relative, by a rule that its curves file repeats in
 * words, and its bands are widened by the plan's factor:
 *   - matmul: the relative's fitted curve and table as fractions of the GPU's own peaks; where a
 *     few measurements of the GPU exist, their median ratio shifts the table. A GPU so different
 *     that the relative's table would mislead (H20: an eighth of the compute at more bandwidth)
 *     gets a stated closed form.
 *   - attention: the relative's fractions. Masks and head sizes nobody measured follow the ratios
 *     in calibrate_attention_rules.
 *   - collectives: what exceeds the smallest time is scaled by the ratio of the NVLink rates; a bus
 *     bandwidth measured on the GPU caps it.
 */
#include "calibrate/fit/calibrate_job.h"

#include <math.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>
#include "calibrate/fit/curves_json.h"
#include "calibrate/fit/fit_attention.h"
#include "calibrate/fit/fit_collective.h"
#include "calibrate/fit/fit_streaming.h"
#include "calibrate/fit/plan.h"
#include "costmodel/efficiency.h"

/* Weight-gradient layout against the forward one: medians 0.704 and 0.741 on A100 PCIe, 0.478 and
 * 0.495 on B200 (MooreThreads/SimuMax). */
#define WEIGHT_GRADIENT_FACTOR 0.95

/* Curves nobody measured follow the causal head-128 curve of the same GPU. Ratios: cuDNN on H200
 * (NVIDIA/cudnn-frontend) full 0.73 with S0 300 against causal 0.71 with 800; FlashAttention-3 on
 * H100 0.80 for head size 64 and 1.10 for 256. */
#define NARROW_RATIO 0.80
const struct attention_rule calibrate_attention_rules[RULE_COUNT] = {
    { 64, false, NARROW_RATIO * 1.03, 0.4 },
    { 72, false, 0, 0 },
    { 80, false, 0, 0 },
    { 128, false, 1.03, 0.4 },
    { 256, false, 1.10 * 1.03, 0.4 },
    { 64, true, NARROW_RATIO, 1 },
    { 128, true, 1, 1 },
    { 256, true, 1.10, 1 },
};
#define RULE_BAND_FRACTION 0.2

void calibrate_add_line(struct calibrate_report *report, const struct error_summary *form,
                        const struct error_summary *held_out, const char *format, ...) {
    if (report->line_count == CALIBRATE_LINE_MAX) return;
    struct calibrate_line *line = &report->lines[report->line_count++];
    va_list arguments;
    va_start(arguments, format);
    vsnprintf(line->what, sizeof line->what, format, arguments);
    va_end(arguments);
    line->form = form ? *form : (struct error_summary){ 0 };
    line->held_out = *held_out;
    line->from = CALIBRATE_SHIPPED;
}

/* ---- matmul -----------------------------------------------------------------------------------
 */

/* The vLLM collector is left to its variant: its weights are not random and throttle less. */
static bool is_collector(const struct gemm_row *row) {
    return strncmp(row->source, "S1:", 3) == 0 && strcmp(row->dtype, "bf16") == 0 &&
           strncmp(row->framework, "vllm", 4) != 0;
}

/* Median ln(measured / predicted) of the forward and input-gradient rows of another GPU that are
 * long enough for its wall-clock timing. */
static double gemm_shift(struct calibrate_job *job, const struct matmul_fit *fit, const char *gpu) {
    const struct gemm_rows *rows = &job->measured->gemm;
    double *ratio = arena_array(job->arena, double, rows->count + 1);
    int64_t count = 0;
    struct matmul_curve curve = fit_matmul_form(fit);
    const struct plan *plan = job->plan;
    if (fit->wave_slots > 0 && plan->wave_slots > 0) curve.wave_slots = plan->wave_slots;
    const bool own = plan->variant_peak > 0;
    const double peak = own ? plan->variant_peak : plan->gemm_peak,
                 bandwidth = own ? plan->variant_bandwidth : plan->gemm_bandwidth;
    for (int64_t i = 0; i < rows->count; i++) {
        const struct gemm_row *row = &rows->rows[i];
        const struct operator_work work =
            operator_matmul("", PASS_FORWARD, PRECISION_BF16, row->m, row->n, row->k);
        struct kernel_terms terms;
        if (strcmp(row->gpu, gpu) != 0 || strstr(row->framework, "layout=NT") ||
            strcmp(row->dtype, "fp8") == 0 || work.flop < 3e10)
            continue;
        const double seconds = matmul_kernel_s(&curve, peak, bandwidth, work.flop,
                                               work.memory_bytes, row->m, row->n, row->k, &terms);
        ratio[count++] = log(row->time_us / (seconds * 1e6));
    }
    return fit_quantile(ratio, count, 0.5);
}

static cJSON *stated_matmul(struct calibrate_job *job) {
    const struct stated_form *form = job->plan->stated;
    const struct matmul_fields f = {
        .source = form->source,
        .settled_source = job->plan->settled_source,
        .launch_us = form->launch_us,
        .efficiency = form->efficiency,
        .k_half = form->k_half,
        .memory_fraction = form->memory_fraction,
        .power_onset_us = 1000,
        .power_floor = 1,
        .wave_exponent = form->wave_exponent,
        .wave_slots = form->wave_slots,
        .settled_efficiency = job->plan->settled_efficiency,
        .settled_k_half = job->plan->settled_k_half,
        .fp8_settled_efficiency = job->plan->fp8_settled_efficiency,
        .fp8_settled_k_half = job->plan->fp8_settled_k_half,
        .fp4_settled_efficiency = job->plan->fp4_efficiency,
        .weight_gradient_factor = WEIGHT_GRADIENT_FACTOR,
        .fp8_efficiency = job->plan->fp8_efficiency,
        .fp4_efficiency = job->plan->fp4_efficiency,
        .blockwise_time = job->plan->blockwise_time,
        .band_fraction = form->band,
        .outside_band_fraction = form->band * job->plan->band_factor,
    };
    return field_table_write(&efficiency_matmul_table, &f);
}

static cJSON *matmul_json(struct calibrate_job *job, const struct matmul_fit *fit,
                          const char *source, double shift, double band_factor) {
    const struct plan *plan = job->plan;
    const int64_t *axes = fit->axis_count;
    const double band = fit->held_out.p80 * band_factor;
    const struct matmul_fields f = {
        .source = source,
        .settled_source = plan->settled_source,
        .launch_us = curves_rounded(fit->coefficient[MATMUL_LAUNCH_S] * 1e6),
        .efficiency = curves_rounded(fit->coefficient[MATMUL_EFFICIENCY]),
        .k_half = curves_rounded(fit->coefficient[MATMUL_K_HALF]),
        .memory_fraction = curves_rounded(fit->coefficient[MATMUL_MEMORY_FRACTION]),
        .power_slope = curves_rounded(fit->coefficient[MATMUL_POWER_SLOPE]),
        .power_onset_us = fit->power_onset_s * 1e6,
        .power_floor = fit->power_floor,
        .wave_exponent = curves_rounded(fit->coefficient[MATMUL_WAVE_EXPONENT]),
        .wave_slots =
            fit->wave_slots > 0 && plan->wave_slots > 0 ? plan->wave_slots : fit->wave_slots,
        .settled_efficiency = plan->settled_efficiency,
        .settled_k_half = plan->settled_k_half,
        .fp8_settled_efficiency = plan->fp8_settled_efficiency,
        .fp8_settled_k_half = plan->fp8_settled_k_half,
        .fp4_settled_efficiency = plan->fp4_efficiency,
        .weight_gradient_factor = WEIGHT_GRADIENT_FACTOR,
        .fp8_efficiency = plan->fp8_efficiency,
        .fp4_efficiency = plan->fp4_efficiency,
        .blockwise_time = plan->blockwise_time,
        .band_fraction = curves_rounded(band),
        /* Beyond the table the closed form alone stands behind a price. */
        .outside_band_fraction = curves_rounded(fmax(fit->form.p80, 2 * band)),
        .m = curves_integers(fit->axis[0], axes[0]),
        .n = curves_integers(fit->axis[1], axes[1]),
        .k = curves_integers(fit->axis[2], axes[2]),
        .log_ratio_milli = curves_milli_rows(fit->log_ratio, axes[0], axes[1] * axes[2], shift),
    };
    const cJSON *const nodes[] = { f.m, f.n, f.k, f.log_ratio_milli };
    return curves_write(&efficiency_matmul_table, &f, nodes, 4);
}

static cJSON *fitted_matmul(struct calibrate_job *job) {
    const struct plan *plan = job->plan;
    const struct gemm_rows *all = &job->measured->gemm;
    struct gemm_row *rows = arena_array(job->arena, struct gemm_row, all->count + 1);
    int64_t count = 0;
    for (int64_t i = 0; i < all->count; i++)
        if (strcmp(all->rows[i].gpu, plan->gemm_gpu) == 0 && is_collector(&all->rows[i]))
            rows[count++] = all->rows[i];
    struct matmul_fit *fit = &job->report->matmul;
    const struct matmul_conditions on = { plan->gemm_peak, plan->gemm_bandwidth, PRECISION_BF16,
                                          PASS_FORWARD, calibrate_sm_count(plan->gemm_gpu) };
    if (!fit_matmul(job->arena, rows, count, &on, fit, job->err)) {
        error_context(job->err, "while fitting the matmuls of %s", plan->gemm_gpu);
        return NULL;
    }
    job->report->matmul_fitted = true;
    calibrate_add_line(job->report, &fit->form, &fit->held_out, "matmul %s", plan->gemm_gpu);
    const double shift = plan->shift_gpu         ? gemm_shift(job, fit, plan->shift_gpu)
                         : plan->matmul_time > 0 ? log(plan->matmul_time)
                                                 : 0;
    return matmul_json(job, fit,
                       arena_format(job->arena,
                                    "%s matmuls, SGLang and TensorRT-LLM collectors of "
                                    "ai-dynamo/aiconfigurator",
                                    plan->gemm_gpu),
                       shift, plan->band_factor);
}

static cJSON *own_matmul_json(struct calibrate_job *job, const char *source) {
    const struct matmul_fit *fit = &job->report->matmul;
    struct calibrate_job own = *job;
    if (job->gpu->name != NULL)
        own.plan = calibrate_plan_at_speed(job->arena, job, fit->coefficient[MATMUL_EFFICIENCY]);
    return matmul_json(&own, fit, source, 0, 1);
}

/* A band of a relative's curve, on a GPU of the user's own with other peaks. */
static void widen(const struct calibrate_job *job, cJSON *node, const char *key, double least) {
    cJSON *band = cJSON_GetObjectItemCaseSensitive(node, key);
    if (job->gpu->other_peaks && band != NULL)
        cJSON_SetNumberValue(band, fmax(band->valuedouble, least));
}

/* A GPU without fp4, or with the usual ceiling of fp8, says nothing of it; no GPU's own tables
 * have what an fp8 recipe adds. */
static cJSON *matmul_part(struct calibrate_job *job) {
    const struct plan *plan = job->plan;
    const struct {
        const char *key;
        bool said;
    } optional[] = {
        { "fp4_efficiency", plan->fp4_efficiency > 0 },
        { "fp4_settled_efficiency", plan->fp4_efficiency > 0 && plan->fp8_settled_efficiency > 0 },
        { "fp8_settled_efficiency", plan->fp8_settled_efficiency > 0 },
        { "fp8_settled_k_half", plan->fp8_settled_k_half > 0 },
        { "rowwise_time", false },
        { "blockwise_time", plan->blockwise_time > 0 },
        { "mxfp8_time", false },
    };
    const char *source = calibrate_own_matmul(job, &job->report->matmul);
    cJSON *node = source ? own_matmul_json(job, source) : NULL;
    calibrate_own_unused(
        job, MEASUREMENT_GEMM,
        "matmuls in bf16, forward layout, of 24 shapes, the largest from 1e10 FLOP on");
    if (!node) {
        node = plan->stated ? stated_matmul(job) : fitted_matmul(job);
        widen(job, node, "band_fraction", RELATIVE_MATMUL_BAND);
        widen(job, node, "outside_band_fraction", RELATIVE_SMALL_BAND);
    }
    if (node) curves_drop_unseen(node);
    for (size_t i = 0; node && i < sizeof optional / sizeof optional[0]; i++)
        if (!optional[i].said) cJSON_DeleteItemFromObjectCaseSensitive(node, optional[i].key);
    return node;
}

/* ---- attention --------------------------------------------------------------------------------
 */

/* Multiprocessors of the GPUs whose matmuls or attention were measured. */
double calibrate_sm_count(const char *gpu) {
    static const struct {
        const char *gpu;
        double sm_count;
    } counts[] = { { "A100", 108 },  { "H100", 132 },  { "H200", 132 }, { "B200", 148 },
                   { "GB200", 148 }, { "GB300", 148 }, { "L40S", 142 } };
    for (size_t i = 0; i < sizeof counts / sizeof counts[0]; i++)
        if (strncmp(gpu, counts[i].gpu, strlen(counts[i].gpu)) == 0) return counts[i].sm_count;
    return 0; /* no waves */
}

/* Whose attention it is, "A100-SXM4-80GB by sglang". */
static const char *attention_origin(const struct calibrate_job *job) {
    const struct plan *plan = job->plan;
    return plan->attention_framework == NULL
               ? plan->attention_gpu
               : arena_format(job->arena, "%s by %s", plan->attention_gpu,
                              plan->attention_framework);
}

static bool fit_one_attention(struct calibrate_job *job, const struct attention_rule *rule,
                              struct attention_fit *fit) {
    const struct plan *plan = job->plan;
    const struct attention_rows *all = &job->measured->attention;
    struct attention_row *rows = arena_array(job->arena, struct attention_row, all->count + 1);
    const char *library = plan->attention_framework;
    int64_t count = 0;
    for (int64_t i = 0; i < all->count; i++) {
        const struct attention_row *row = &all->rows[i];
        if (strcmp(row->gpu, plan->attention_gpu) == 0 && calibrate_is_of_rule(row, rule) &&
            strncmp(row->source, "S9:", 3) != 0 &&
            (library == NULL || strncmp(row->framework, library, strlen(library)) == 0))
            rows[count++] = *row;
    }
    if (count < ATTENTION_ROWS_MIN || plan->attention_efficiency > 0) return false;
    const double peak = plan->attention_peak > 0 ? plan->attention_peak : plan->gemm_peak;
    const double bandwidth =
        plan->attention_bandwidth > 0 ? plan->attention_bandwidth : plan->gemm_bandwidth;
    const struct attention_conditions on = { peak, bandwidth,
                                             calibrate_sm_count(plan->attention_gpu) };
    if (!fit_attention(job->arena, rows, count, &on, fit, NULL)) return false;
    calibrate_add_line(job->report, &fit->form, &fit->held_out, "attention %s d=%lld %s",
                       attention_origin(job), (long long)rule->head_dim,
                       rule->causal ? "causal" : "full");
    return true;
}

/* `time`: of this GPU's kernels over those that were fitted, at equal peaks. */
cJSON *calibrate_attention_curve_json(const struct attention_rule *rule,
                                      const struct attention_fit *fit, const char *source,
                                      double time, double band_factor) {
    const double *c = fit->coefficient;
    struct attention_curve_fields f = {
        .source = source,
        .head_dim = rule->head_dim,
        .causal = rule->causal,
        .efficiency = curves_rounded(fmin(c[ATTENTION_EFFICIENCY] / time, 1)),
        .length_half = curves_rounded(c[ATTENTION_LENGTH_HALF]),
        .launch_us = curves_rounded(ATTENTION_LAUNCH_S * 1e6),
        .rows_half = curves_rounded(c[ATTENTION_ROWS_HALF]),
        .power_slope = curves_rounded(c[ATTENTION_POWER_SLOPE]),
        .tile_rows = fit->tile_rows,
        .tile_slots = fmax(fit->tile_slots, 1),
        .band_fraction = curves_rounded(fmax(fit->held_out.p80, 0.02) * band_factor),
    };
    if (fit->log_ratio) {
        f.length = curves_numbers(fit->axis[0], fit->axis_count[0]);
        f.query_heads = curves_numbers(fit->axis[1], fit->axis_count[1]);
        f.group = curves_numbers(fit->axis[2], fit->axis_count[2]);
        f.log_ratio_milli = curves_milli_rows(fit->log_ratio, fit->axis_count[0],
                                              fit->axis_count[1] * fit->axis_count[2], 0);
    }
    const cJSON *const nodes[] = { f.length, f.query_heads, f.group, f.log_ratio_milli };
    cJSON *curve = curves_write(&efficiency_attention_curve_table, &f, nodes, 4);
    curves_drop_zero(curve, "rows_half");
    curves_drop_zero(curve, "power_slope");
    return curve;
}

/* fit NULL: nobody measured this head size and mask; `base` by the rule's ratios. */
static cJSON *attention_curve(struct calibrate_job *job, const struct attention_rule *rule,
                              const struct attention_fit *fit, const struct attention_fit *base) {
    const struct plan *plan = job->plan;
    const double time = plan->attention_forward_time > 0 ? plan->attention_forward_time : 1;
    if (fit)
        return calibrate_attention_curve_json(
            rule, fit,
            arena_format(job->arena, "fused attention measured on %s", attention_origin(job)), time,
            plan->band_factor);
    struct attention_fit ruled = { .held_out.p80 = RULE_BAND_FRACTION };
    const bool narrow = rule->head_dim == 64 && plan->attention_narrow > 0;
    ruled.coefficient[ATTENTION_EFFICIENCY] = base->coefficient[ATTENTION_EFFICIENCY] *
                                              (narrow ? plan->attention_narrow / NARROW_RATIO : 1) *
                                              rule->efficiency_ratio;
    ruled.coefficient[ATTENTION_LENGTH_HALF] =
        base->coefficient[ATTENTION_LENGTH_HALF] * rule->length_ratio;
    const char *source =
        plan->attention_efficiency > 0
            ? plan->attention_source
            : arena_format(job->arena,
                           "causal head-128 curve of %s times the ratios of H100 and H200 for "
                           "this head size and mask",
                           plan->attention_gpu);
    return calibrate_attention_curve_json(rule, &ruled, source, time, plan->band_factor);
}

static cJSON *attention_part(struct calibrate_job *job) {
    const struct plan *plan = job->plan;
    struct attention_fit fits[RULE_COUNT], *base = NULL;
    bool fitted[RULE_COUNT];
    const char *own[RULE_COUNT];
    /* Where nothing was measured: the stated curve. */
    struct attention_fit stated = { .coefficient = {
                                        [ATTENTION_EFFICIENCY] = plan->attention_efficiency,
                                        [ATTENTION_LENGTH_HALF] = plan->attention_length_half } };
    if (plan->attention_efficiency > 0) base = &stated;
    for (int r = 0; r < RULE_COUNT; r++) {
        own[r] = calibrate_own_attention(job, &calibrate_attention_rules[r], &fits[r]);
        fitted[r] = own[r] || fit_one_attention(job, &calibrate_attention_rules[r], &fits[r]);
        if (fitted[r] && calibrate_attention_rules[r].causal &&
            calibrate_attention_rules[r].head_dim == 128)
            base = &fits[r];
    }
    if (!base) {
        error_set(job->err, "no causal attention of head size 128 was measured on %s",
                  plan->attention_gpu);
        return NULL;
    }
    calibrate_own_unused(job, MEASUREMENT_ATTENTION,
                         "forward in bf16, six rows of one head size and mask, of two lengths");
    struct backward_fit backward;
    const char *own_backward = calibrate_own_backward(job, &backward);
    if (!own_backward) {
        if (!fit_attention_backward(job->arena, job->measured->attention.rows,
                                    job->measured->attention.count, &backward, job->err))
            return NULL;
        calibrate_add_line(job->report, NULL, &backward.residual,
                           "attention backward over forward");
    }
    cJSON *curves = cJSON_CreateArray();
    for (int r = 0; r < RULE_COUNT; r++) {
        const struct attention_rule *rule = &calibrate_attention_rules[r];
        if (own[r])
            cJSON_AddItemToArray(curves,
                                 calibrate_attention_curve_json(rule, &fits[r], own[r], 1, 1));
        else if (fitted[r] || rule->efficiency_ratio > 0) {
            cJSON *curve = attention_curve(job, rule, fitted[r] ? &fits[r] : NULL, base);
            widen(job, curve, "band_fraction", RELATIVE_FORWARD_BAND);
            cJSON_AddItemToArray(curves, curve);
        }
    }
    const double backward_gain = plan->attention_backward_time > 0 && !own_backward
                                     ? plan->attention_forward_time / plan->attention_backward_time
                                     : 1;
    const struct attention_fields f = {
        .backward_factor = curves_rounded(backward.factor * backward_gain),
        .backward_length_half = curves_rounded(backward.length_half),
        .backward_band_fraction = curves_rounded(fmax(0.12, 2 * backward.residual.p80) *
                                                 (own_backward ? 1 : plan->band_factor)),
        .backward_wide_time = plan->attention_backward_wide,
        .backward_source = own_backward ? own_backward
                                        : "pairs of forward and backward: cuDNN on H200 "
                                          "(NVIDIA/cudnn-frontend), TransformerEngine on A100 PCIe "
                                          "(MooreThreads/SimuMax)",
        .curves = curves,
    };
    const cJSON *const nodes[] = { f.curves };
    cJSON *attention = curves_write(&efficiency_attention_table, &f, nodes, 1);
    if (!own_backward) widen(job, attention, "backward_band_fraction", RELATIVE_BACKWARD_BAND);
    curves_drop_zero(attention, "backward_power_slope");
    curves_drop_zero(attention, "backward_wide_time");
    return attention;
}

/* ---- memory-bound kernels ---------------------------------------------------------------------
 */

static cJSON *streaming_part(struct calibrate_job *job) {
    const struct plan *plan = job->plan;
    const struct membw_rows *others = &job->measured->membw;
    struct streaming_fit fit;
    double band_factor = 1;
    const char *source = calibrate_own_streams(job, &fit);
    if (!source) {
        const struct streaming_source from = { others->rows, others->count, plan->stream_gpu,
                                               others->rows, others->count, STREAM_NORM_GPU };
        if (!fit_streaming(&from, job->arena, &fit, job->err)) return NULL;
        source = arena_format(
            job->arena,
            "streams of %s (RRZE-HPC/gpu-benches, BabelStream on Azure), " STREAM_NORM_SOURCE,
            plan->stream_gpu);
        calibrate_add_line(job->report, NULL, &fit.stream_residual, "streams %s", plan->stream_gpu);
        calibrate_add_line(job->report, NULL, &fit.norm_residual, "norms %s", STREAM_NORM_GPU);
        band_factor = plan->band_factor;
    }
    calibrate_own_unused(job, MEASUREMENT_MEMBW, "stream-scale, stream-triad or residual add");
    const struct streaming_fields f = {
        .source = source,
        .launch_us = plan->launch_us,
        .graph_launch_us = plan->graph_launch_us,
        .norm_forward = curves_rounded(fit.norm_forward),
        .norm_backward = curves_rounded(fit.norm_backward),
        .elementwise = curves_rounded(fit.elementwise),
        /* Not measured: they stream as elementwise kernels do. */
        .embedding = curves_rounded(fit.elementwise),
        .loss = curves_rounded(fit.elementwise),
        .optimizer = curves_rounded(fit.elementwise),
        .band_fraction = curves_rounded(fmax(0.15, fit.residual.p80) * band_factor),
    };
    return field_table_write(&efficiency_streaming_table, &f);
}

/* ---- collectives ------------------------------------------------------------------------------
 */

const int64_t calibrate_rank_counts[RANK_COUNTS] = { 2, 4, 8 };

/* Measured, or derived as fit_collective.h says. */
static bool find_collective(struct calibrate_job *job, enum operator_kind op, int64_t rank_count,
                            struct collective_fit *fit) {
    const struct plan *plan = job->plan;
    const struct collective_source source = { job->measured->nccl.rows, job->measured->nccl.count,
                                              plan->nccl_gpu, plan->nccl_relative };
    if (!fit_collective_or_derive(job->arena, &source, op, rank_count, fit)) return false;
    const struct stated_collective *stated = plan->stated_collectives;
    while (stated && stated->rank_count > 0 &&
           !(stated->op == op && stated->rank_count == rank_count))
        stated++;
    if (stated && stated->rank_count > 0) {
        *fit = collective_by_line(fit, stated->latency_us, stated->bus_GB_per_s);
        fit->rule = plan->stated_collectives_source;
    }
    if (!fit->rule)
        calibrate_add_line(job->report, NULL, &fit->held_out, "%s of %lld on %s",
                           operator_kind_name(op), (long long)rank_count, plan->nccl_gpu);
    return true;
}

/* Than the GPU whose collectives it takes. */
static bool has_other_link(const struct plan *plan) {
    return plan->link_ratio != 1 || plan->cap_GB_per_s > 0;
}

cJSON *calibrate_collective_table(struct calibrate_job *job, const struct collective_fit *fit) {
    const struct plan *plan = job->plan;
    double time_us[COLLECTIVE_FIT_SIZES];
    for (int64_t i = 0; i < fit->count; i++) {
        time_us[i] = round(fit->time_us[i] * 100) / 100;
        if (i > 0) time_us[i] = fmax(time_us[i], time_us[i - 1] + 0.01);
        time_us[i] = round(time_us[i] * 100) / 100;
    }
    const bool scaled = has_other_link(plan);
    const double band = fit->rule ? 0.25 : fmax(0.10, fit->held_out.p80);
    const struct collective_fields f = {
        .op = (int)(fit->op - OPERATOR_ALL_REDUCE),
        .rank_count = fit->rank_count,
        .source =
            fit->rule ? fit->rule : arena_format(job->arena, "nccl-tests on %s", plan->nccl_gpu),
        .plateau_GB_per_s = curves_rounded(fit->plateau_GB_per_s),
        .band_fraction = curves_rounded(scaled ? fmax(band, 0.25) : band),
        .bytes = curves_numbers(fit->bytes, fit->count),
        .time_us = curves_numbers(time_us, fit->count),
    };
    const cJSON *const nodes[] = { f.bytes, f.time_us };
    cJSON *table = curves_write(&efficiency_collective_table, &f, nodes, 2);
    cJSON_DeleteItemFromObjectCaseSensitive(table, "own_links");
    return table;
}

static bool own_collective(struct calibrate_job *job, enum operator_kind op, int64_t rank_count,
                           struct collective_fit *fit) {
    const char *gpu = job->plan->own_nccl_gpu;
    const struct nccl_rows *nccl = &job->measured->nccl;
    if (!gpu || !fit_collective(nccl->rows, nccl->count, gpu, op, rank_count, fit)) return false;
    calibrate_add_line(job->report, NULL, &fit->held_out, "%s of %lld on %s",
                       operator_kind_name(op), (long long)rank_count, gpu);
    fit->rule = arena_format(job->arena, "nccl-tests on %s", gpu);
    return true;
}

static cJSON *collectives_part(struct calibrate_job *job) {
    const struct plan *plan = job->plan;
    cJSON *list = cJSON_CreateArray();
    for (int op = OPERATOR_ALL_REDUCE; op <= OPERATOR_SEND; op++)
        for (int i = 0; i < RANK_COUNTS; i++) {
            struct collective_fit fit;
            if (op == OPERATOR_SEND && calibrate_rank_counts[i] != 2) continue;
            const char *source = calibrate_own_collective(job, (enum operator_kind)op,
                                                          calibrate_rank_counts[i], &fit);
            if (source) {
                cJSON *table = calibrate_collective_table(job, &fit);
                cJSON_ReplaceItemInObjectCaseSensitive(table, "source", cJSON_CreateString(source));
                cJSON_AddTrueToObject(table, "own_links");
                cJSON_ReplaceItemInObjectCaseSensitive(
                    table, "band_fraction",
                    cJSON_CreateNumber(curves_rounded(fmax(0.10, fit.held_out.p80))));
                cJSON_AddItemToArray(list, table);
                continue;
            }
            if (own_collective(job, (enum operator_kind)op, calibrate_rank_counts[i], &fit)) {
                cJSON_AddItemToArray(list, calibrate_collective_table(job, &fit));
                continue;
            }
            if (!find_collective(job, (enum operator_kind)op, calibrate_rank_counts[i], &fit)) {
                error_set(job->err, "%s was measured on neither %s nor %s",
                          operator_kind_name((enum operator_kind)op), plan->nccl_gpu,
                          plan->nccl_relative);
                cJSON_Delete(list);
                return NULL;
            }
            if (has_other_link(plan)) {
                const char *rule = fit.rule ? fit.rule : "measured";
                fit = collective_by_link(&fit, plan->link_ratio, plan->cap_GB_per_s);
                fit.rule = arena_format(job->arena, "%s on %s, scaled to this GPU's links", rule,
                                        plan->nccl_gpu);
                if (plan->stated_collectives)
                    fit.rule = arena_format(job->arena, "%s, scaled to this GPU's links", rule);
            }
            cJSON_AddItemToArray(list, calibrate_collective_table(job, &fit));
        }
    calibrate_own_unused(
        job, MEASUREMENT_NCCL,
        "out of place, in one node, among 2, 4 or 8 GPUs, two sizes, the larger of 64 MB");
    return list;
}

/* ---- the whole --------------------------------------------------------------------------------
 */

const char *calibrate_table(struct arena *arena, const char *measured_dir, const char *shipped_dir,
                            const char *name) {
    static const char *const endings[] = { ".csv.gz", ".csv" };
    for (size_t i = 0; i < sizeof endings / sizeof endings[0]; i++) {
        const char *path = arena_format(arena, "%s/%s%s", measured_dir, name, endings[i]);
        if (access(path, F_OK) == 0) return path;
    }
    return arena_format(arena, "%s/%s.csv.gz", shipped_dir ? shipped_dir : measured_dir, name);
}

void calibrate_add_note(struct calibrate_report *report, struct arena *arena, const char *format,
                        ...) {
    if (report->note_count == CALIBRATE_NOTE_MAX) return;
    char text[1024];
    va_list arguments;
    va_start(arguments, format);
    vsnprintf(text, sizeof text, format, arguments);
    va_end(arguments);
    report->notes[report->note_count++] = arena_text(arena, text);
}

/* `unused_notes`: so many say which tables did not suffice; of those behind them some say why rows of
 * them were not taken. */
static bool nothing_fitted(struct calibrate_job *job, int64_t unused_notes) {
    const struct calibrate_report *report = job->report;
    const char *tables = report->notes[0];
    for (int64_t i = 1; i < unused_notes; i++)
        tables = arena_format(job->arena, "%s; %s", tables, report->notes[i]);
    error_set(job->err, "nothing was fitted: %s", tables);
    for (int64_t i = unused_notes; i < report->note_count; i++)
        if (strstr(report->notes[i], " not taken: ") != NULL)
            error_hint(job->err, "%s", report->notes[i]);
    return false;
}

bool calibrate_fit_profile(struct arena *arena, const char *measured_dir, const char *shipped_dir,
                           const struct calibrate_gpu *gpu, cJSON *profile_curves_out,
                           struct calibrate_report *report, struct error *err) {
    struct own_tables own;
    struct calibrate_gpu with_peaks = *gpu;
    memset(report, 0, sizeof *report);
    const struct plan *plan = calibrate_plan(arena, gpu, err);
    if (!plan || !own_tables_read(arena, measured_dir, shipped_dir, gpu, plan->gemm_gpu, &own, err))
        return false;
    if (!(gpu->bf16_flop_per_s > 0) && !(gpu->hbm_bytes_per_s > 0)) {
        with_peaks.bf16_flop_per_s = plan->gemm_peak;
        with_peaks.hbm_bytes_per_s = plan->gemm_bandwidth;
    }
    struct calibrate_job job = { arena, plan, &own.others, &own, &with_peaks, report, err };
    if (!calibrate_own_check(&job))
        return error_context(err, "while fitting the curves of '%s'", plan->gpu);
    cJSON_AddStringToObject(profile_curves_out, "gpu", plan->gpu);
    if (gpu->name) cJSON_AddStringToObject(profile_curves_out, "relative", gpu->profile);
    cJSON_AddStringToObject(profile_curves_out, "note", plan->note);
    if (plan->derived) cJSON_AddTrueToObject(profile_curves_out, "derived");
    const struct {
        const char *name;
        cJSON *(*make)(struct calibrate_job *);
    } parts[] = {
        { "matmul", matmul_part },          { "attention", attention_part },
        { "streaming", streaming_part },    { "collectives", collectives_part },
        { "variants", calibrate_variants },
    };
    for (size_t i = 0; i < sizeof parts / sizeof parts[0]; i++) {
        cJSON *part = parts[i].make(&job);
        if (!part) return error_context(err, "while fitting the curves of '%s'", plan->gpu);
        cJSON_AddItemToObject(profile_curves_out, parts[i].name, part);
    }
    if (own.any) {
        const char *note = calibrate_own_note(&job);
        report->own = note != plan->note;
        const int64_t unused_notes = report->note_count;
        calibrate_own_left_out(&job, measured_dir);
        if (!report->own) return nothing_fitted(&job, unused_notes);
        cJSON_ReplaceItemInObjectCaseSensitive(profile_curves_out, "note",
                                               cJSON_CreateString(note));
        if (report->own_used[MEASUREMENT_GEMM])
            cJSON_DeleteItemFromObjectCaseSensitive(profile_curves_out, "derived");
    } else if (shipped_dir != NULL && strcmp(measured_dir, shipped_dir) != 0)
        calibrate_add_note(report, arena,
                           "%s: no row is your own, all name a source of the shipped tables "
                           "(\"S1:...\"): the curves are fitted on them as they stand there",
                           measured_dir);
    return true;
}
