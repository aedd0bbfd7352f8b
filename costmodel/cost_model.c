/* cost_model.c - the price of an operator: dispatch and the training step.
 *
 * Kernels: efficiency.c gives an isolated kernel. In a training step
 *   - a matmul's compute is at least what the settled curve gives (short benchmarks run at boost
 *     clock, a step does not);
 *   - a memory-bound kernel pays the stream's kernel-to-kernel gap instead of the graph's:
 *     t = gap + bytes / (fraction(kind, pass) W) for W bytes/s of HBM;
 *   - each kernel brings with it those that no operator stands for;
 *   - a tensor-parallel collective waits for the last of its ranks.
 * Buffers that still stand in L2 are faster than this; in a step the operator before has usually
 * evicted them.
 *
 * Collectives: collective_price.h.
 */
#include "costmodel/cost_model.h"

#include <math.h>
#include <string.h>
#include "costmodel/attention_modes.h"
#include "costmodel/cost_model_parts.h"
#include "costmodel/generation.h"
#include "sim/base/extremes.h"

/* Of the fp32 peak without tensor cores, by batched matmuls whose operands do not start on 16
 * bytes. Fitted to two of BLOOM's trial runs on A100, heads of 450 in fp16 and of 150 in bf16
 * (below). */
#define UNALIGNED_EFFICIENCY 0.60
/* Of the fp32 peak, small matmuls of a batch over odd rows, docs/MODEL.md, section 3: unfused
 * attention of 197 tokens on A100 (facebookresearch/xformers pull requests 434 and 467). */
#define ODD_BATCH_FORWARD  0.33
#define ODD_BATCH_BACKWARD 0.25

/* Of one SM, by cuBLAS's kernels for operands whose rows do not begin on 16 bytes (cutlass_75 ...
 * align1): 14.2 and 64.0 ms on H200 for 72,000 x 3072 by 3072 and 14,336, bf16, where aligned ones
 * take 1.7 and 9.1 (Frankaaay/FastWAM docs/26-07-03, microbench_gemm_alignment.py). RTX 4090: 0.9
 * (pytorch issue 181718). */
#define ODD_ROW_FLOP_PER_SM_S 0.738e12

/* What a tensor-parallel collective of a step waits for the last of its ranks, which nccl-tests
 * does not show. Fitted to the rows that calibrate the stacks, with their factors: errors of 2.90 %
 * on average without, 2.80 and 2.79 with 50 and 60 us, 2.83 with 90. Profiles: 32 us a call between
 * eight V100 (1CatAI/1Cat-vLLM pull request 173), 78 from the median to the mean between two H100
 * (Qwen3 by Megatron-Bridge). */
#define RANK_WAIT_S 60e-6

/* What a kernel of a step takes besides: the kernels that a framework launches around it and that
 * no operator stands for (copies of layouts, fills, second kernels of sums), with their gaps. The
 * rows that calibrate the stacks are missed by 2.71 % without, by 2.58 with 8 us, by 2.46 with 20;
 * the unseen ones least with 6 to 8, and that was taken (docs/MODEL.md, section 2). */
#define UNPRICED_KERNELS_S 8e-6

const char *const cost_model_calibration_rows[] = { "tr11_L389", "tr11_L429", NULL };

const struct gpu *cost_model_gpu(const struct cost_model *model) {
    return &model->gpu;
}

const struct cluster_network *cost_model_network(const struct cost_model *model) {
    return &model->rates.network;
}

bool cost_model_rings_alone(const struct cost_model *model) {
    return model->rates.rings_alone;
}

const char *cost_model_profile_id(const struct cost_model *model) {
    return model->profile_id;
}

const struct cost_model_file *cost_model_files(const struct cost_model *model, int64_t *count) {
    *count = model->file_count;
    return model->files;
}

/* ---- kernels ----------------------------------------------------------------------------------
 */

/* A scenario that asks for a precision the GPU lacks is refused before pricing; frameworks then
 * compute in bf16, or in fp16 on GPUs before it, and so does this. */
static double peak_of(const struct gpu *gpu, enum precision precision) {
    const double *peak = gpu->peak_flop_per_s;
    if (peak[precision] > 0) return peak[precision];
    return peak[PRECISION_BF16] > 0 ? peak[PRECISION_BF16] : peak[PRECISION_FP16];
}

static enum price_bound bound_of(double launch_s, double compute_s, double memory_s) {
    if (launch_s > compute_s && launch_s > memory_s) return PRICE_LAUNCH;
    return compute_s >= memory_s ? PRICE_COMPUTE : PRICE_MEMORY;
}

static struct price kernel_price(const struct kernel_terms *terms, double peak_flop_per_s,
                                 double hbm_bytes_per_s, const struct operator_work *work) {
    struct price p = {
        .seconds = terms->launch_s + greater_of(terms->compute_s, terms->memory_s),
        .launch_s = terms->launch_s,
        .compute_s = terms->compute_s,
        .memory_s = terms->memory_s,
        .bound = bound_of(terms->launch_s, terms->compute_s, terms->memory_s),
        .inside_range = terms->inside_range,
    };
    p.efficiency = p.compute_s >= p.memory_s ? work->flop / (p.seconds * peak_flop_per_s)
                                             : work->memory_bytes / (p.seconds * hbm_bytes_per_s);
    /* An L2 hit can beat HBM; as a fraction of the bound that is 1. */
    p.efficiency = lesser_of(p.efficiency, 1);
    return p;
}

/* Over one scale a tensor. Blackwell runs blocks of 128 as its own of 32 (Transformer Engine). */
static double recipe_time(const struct cost_model *model, const struct matmul_curve *curve,
                          const struct operator_work *work) {
    if (work->precision != PRECISION_FP8) return 1;
    const bool scales_blocks = model->gpu.peak_flop_per_s[PRECISION_FP4] > 0;
    switch (work->recipe) {
    case FP8_RECIPE_ROWWISE:
        return curve->rowwise_time;
    case FP8_RECIPE_BLOCKWISE:
        return scales_blocks ? curve->mxfp8_time : curve->blockwise_time;
    case FP8_RECIPE_MXFP8:
        return curve->mxfp8_time;
    case FP8_RECIPE_USUAL:
    case FP8_RECIPE_DELAYED:
    case FP8_RECIPE_TENSORWISE:
    case FP8_RECIPE_COUNT:
        break;
    }
    return 1;
}

/* Kernels for such operands compute no faster; where they are the slower, nothing here measured
 * them. */
static void slow_to(struct kernel_terms *terms, double compute_s, const char **source,
                    const char *why) {
    if (compute_s <= terms->compute_s) return;
    terms->compute_s = compute_s;
    terms->inside_range = false;
    *source = why;
}

/* Of the fp32 peak, by cuBLAS's kernels without tensor cores, which no power limit holds; 0: not
 * known, as 16 bits. A100 PCIe: 18.9 of 19.5 TFLOP/s (Yinghan-Li/YHs_Sample issue 4; 0.87 to 0.96
 * from widths of 2,048 on, triton issue 2491). Squares of 4,096 to 10,240: V100 0.88 to 0.92, H100 and
 * H200 0.74 to 0.77, H100 PCIe and H20 0.70 to 0.73, L20 0.59 to 0.61 (zzc0721/torch-performance-
 * test-data issues 140, 79, 45, 95, 77, 107). B200: a course's report (csdiywithme/cs336). */
static double vector_efficiency(const char *gpu) {
    switch (gpu_generation_of(gpu)) {
    case GENERATION_VOLTA:
    case GENERATION_AMPERE:
        return 0.95;
    case GENERATION_ADA:
        return 0.60;
    case GENERATION_HOPPER:
        return 0.76;
    case GENERATION_BLACKWELL:
        return 0.70;
    case GENERATION_UNKNOWN:
        break;
    }
    return 0;
}

static struct price price_matmul(const struct cost_model *model, const struct matmul_curve *curve,
                                 const struct operator_work *work, bool in_step) {
    const bool quantised =
        precision_is_quantised(work->precision) && model->gpu.peak_flop_per_s[work->precision] > 0;
    const double quantised_efficiency =
        work->precision == PRECISION_FP4 ? curve->fp4_efficiency : curve->fp8_efficiency;
    const double nominal = peak_of(&model->gpu, work->precision);
    /* Where fp8 was not measured it keeps the bf16 curve's shape at its own efficiency; fp4 always.
     */
    double peak = quantised ? nominal * quantised_efficiency / curve->efficiency : nominal;
    if (work->pass == PASS_WEIGHT_GRADIENT) peak *= curve->weight_gradient_factor;
    struct kernel_terms terms;
    matmul_kernel_s(curve, peak, model->gpu.hbm_bytes_per_s, work->flop, work->memory_bytes,
                    work->m, work->n, work->k, &terms);
    const char *source = curve->source;
    const double of_peak =
        work->precision == PRECISION_FP32 ? vector_efficiency(model->gpu.name) : 0;
    const bool vector = of_peak > 0;
    if (vector) {
        terms.compute_s = work->flop / (of_peak * nominal);
        source = "cuBLAS without tensor cores (squares of GPUs of its make)";
    }
    if (in_step && !vector) {
        const double settled_s =
            quantised ? matmul_settled_s(curve, work->precision, nominal, work->flop, work->k)
                      : matmul_settled_s(curve, PRECISION_BF16, peak, work->flop, work->k);
        if (settled_s > terms.compute_s && settled_s > terms.memory_s)
            source = curve->settled_source;
        terms.compute_s = greater_of(terms.compute_s, settled_s);
    }
    terms.compute_s *= recipe_time(model, curve, work);
    const double peak_fp32 = model->gpu.peak_flop_per_s[PRECISION_FP32];
    if (work->unaligned && peak_fp32 > 0)
        slow_to(&terms, work->flop / (UNALIGNED_EFFICIENCY * peak_fp32), &source,
                "no tensor cores: an operand does not start on 16 bytes (two runs on A100)");
    if (work->odd_batch && peak_fp32 > 0) {
        const double share = work->pass == PASS_FORWARD ? ODD_BATCH_FORWARD : ODD_BATCH_BACKWARD;
        slow_to(&terms, work->flop / (share * peak_fp32), &source,
                "no tensor cores: rows of an odd number of scores (A100, xformers' benchmarks)");
    }
    if (work->odd_rows)
        slow_to(&terms, work->flop / (ODD_ROW_FLOP_PER_SM_S * (double)model->gpu.sm_count), &source,
                "rows of an operand do not begin on 16 bytes: kernels of Turing's time");
    struct price p = kernel_price(&terms, nominal, model->gpu.hbm_bytes_per_s, work);
    p.source = source;
    p.inside_range = p.inside_range && !precision_is_single(work->precision) &&
                     (quantised ? curve->precision == work->precision
                                : !precision_is_quantised(curve->precision));
    p.band_fraction = p.inside_range ? curve->band_fraction : curve->outside_band_fraction;
    return p;
}

static struct price price_attention(const struct cost_model *model,
                                    const struct attention_curves *curves,
                                    const struct operator_work *work) {
    const struct attention_curve *nearest;
    struct kernel_terms terms;
    const double peak = precision_is_single(work->precision)
                            ? attention_single_peak(&model->gpu)
                            : peak_of(&model->gpu, work->precision);
    attention_kernel_s(curves, peak, model->gpu.hbm_bytes_per_s, work, &terms, &nearest);
    struct price p = kernel_price(&terms, peak, model->gpu.hbm_bytes_per_s, work);
    p.source = nearest->source;
    p.band_fraction = work->pass == PASS_FORWARD
                          ? nearest->band_fraction
                          : greater_of(nearest->band_fraction, curves->backward_band_fraction);
    if (precision_is_single(work->precision)) {
        p.source = "fused attention in 16 bits, each product three in TF32 (PyTorch's kernel)";
        p.inside_range = false;
    }
    if (!p.inside_range) p.band_fraction *= 2;
    return p;
}

/* PyTorch's kernel over operands of two widths, which casts value by value: what Liger's fused linear
 * cross entropy takes beyond its matmuls and copies, 4.8, 5.1 and 5.1 ps a value on H100, H200 and
 * B200 (docs/MODEL.md, section 2). A value is 8 bytes: 4 read, 2 read, 2 written. */
#define MIXED_SUM_BYTES_PER_S (8 / 5.0e-12)

static struct price price_streaming(const struct cost_model *model,
                                    const struct operator_work *work, bool in_step) {
    const struct streaming_curve *curve = &model->efficiency.streaming;
    const double fraction = model->streaming_fraction[work->kind][work->pass];
    double bytes_per_s = fraction * model->gpu.hbm_bytes_per_s;
    if (work->form == FORM_MIXED_SUM) bytes_per_s = lesser_of(bytes_per_s, MIXED_SUM_BYTES_PER_S);
    const struct kernel_terms terms = {
        .launch_s = in_step ? curve->launch_s : curve->graph_launch_s,
        .memory_s = work->memory_bytes / bytes_per_s,
        .inside_range = true,
    };
    struct price p = kernel_price(&terms, peak_of(&model->gpu, work->precision),
                                  model->gpu.hbm_bytes_per_s, work);
    p.source = curve->source;
    p.band_fraction = curve->band_fraction;
    return p;
}

/* ---- the one call -----------------------------------------------------------------------------
 */

/* variant NULL: the profile's own curves. */
static struct price price_of(const struct cost_model *model,
                             const struct framework_variant *variant,
                             const struct operator_work *work, const struct communicator *group,
                             bool in_step) {
    static const struct price free_of_charge = { .inside_range = true, .source = "nothing to do" };
    if (operator_is_collective(work->kind)) {
        if (!group || group->rank_count <= 1 || work->network_bytes <= 0) return free_of_charge;
        if (!variant || !variant->collectives.has[work->kind] || group->node_count > 1)
            return collective_price(&model->rates, work, group);
        struct collective_rates rates = model->rates;
        rates.curves = &variant->collectives;
        return collective_price(&rates, work, group);
    }
    const struct matmul_curve *matmul = &model->efficiency.matmul;
    const struct attention_curves *attention = &model->efficiency.attention;
    switch (work->kind) {
    case OPERATOR_MATMUL:
        if (variant && variant->matmul[work->precision][work->pass])
            matmul = variant->matmul[work->precision][work->pass];
        return price_matmul(model, matmul, work, in_step);
    case OPERATOR_ATTENTION:
        if (variant && variant->attention.has[work->causal]) attention = &variant->attention;
        if (!(work->token_sum > 0)) return free_of_charge;
        return price_attention(model, attention, work);
    default:
        return work->memory_bytes > 0 ? price_streaming(model, work, in_step) : free_of_charge;
    }
}

/* What stacks that nothing was fitted for take more. */
static double usual_factor(const struct stack *stack, const struct step_bands *bands) {
    return stack != NULL && stack->uncalibrated && bands != NULL ? bands->uncalibrated_stack_factor
                                                                 : 1;
}

void cost_model_use_stack(struct cost_model *model, const struct stack *stack,
                          enum precision precision, bool writes_text) {
    model->writes_text = writes_text;
    if (stack == NULL) return;
    model->stack = stack_on(stack, model->gpu.name, precision);
    const bool of_encoders = !writes_text && !stack->held_back &&
                             !stack_states_encoders(&model->stack) && model->bands != NULL &&
                             !isnan(model->bands->encoder_factor);
    model->encoder_factor = of_encoders ? model->bands->encoder_factor : 1;
    model->stack.kernel_time_factor *=
        of_encoders ? model->encoder_factor : usual_factor(stack, model->bands);
    model->slowest_gpu_time = stack_slowest_gpu_time(model->rates.network.gpu_count);
}

struct stack_use cost_model_stack(const struct cost_model *model) {
    return model->stack;
}

bool cost_model_writes_text(const struct cost_model *model) {
    return model->writes_text;
}

double cost_model_encoder_factor(const struct cost_model *model) {
    return model->encoder_factor;
}

const struct step_bands *cost_model_bands(const struct cost_model *model) {
    return model->bands;
}

const char *cost_model_curves_of(const struct cost_model *model) {
    const struct efficiency *efficiency = &model->efficiency;
    return efficiency->relative[0] != '\0' ? efficiency->relative : efficiency->gpu;
}

double cost_model_matmul_efficiency(const struct cost_model *model) {
    return model->efficiency.matmul.efficiency;
}

bool cost_model_is_derived(const struct cost_model *model) {
    return model->efficiency.derived;
}

const char *cost_model_stack_id(const struct cost_model *model, struct arena *arena) {
    const struct stack *stack = model->stack.stack;
    if (stack == NULL) return "none";
    const char *text = arena_format(
        arena, "%s kernels %.10g attention %.10g%s band %.6g", stack->name,
        model->stack.kernel_time_factor, model->stack.attention_time_factor,
        cost_model_gpu_is_strange(model) ? " strange" : "",
        cost_model_step_band(model, KIN_LIKE_MEASURED, (struct step_doubt){ true, 1, 0, 0 }).above);
    for (int64_t i = 0; i < stack->cause_count; i++)
        text =
            arena_format(arena, "%s, %s %s", text, stack->causes[i].name, stack->causes[i].value);
    return text;
}

/* A stack's kernels against the profile's: more traffic, its factors on time. */
static void adjust(const struct cost_model *model, const struct operator_work *work,
                   struct price *p) {
    const struct stack *stack = model->stack.stack;
    const double traffic = stack_traffic_factor(stack, work);
    if (traffic != 1 && p->seconds > 0) {
        const double fused_s = p->seconds;
        p->memory_s *= traffic;
        p->seconds = p->launch_s + greater_of(p->compute_s, p->memory_s);
        p->efficiency *= traffic * fused_s / p->seconds;
        p->traffic = traffic;
    }
    const bool computes = work->kind == OPERATOR_MATMUL || work->kind == OPERATOR_ATTENTION;
    const double factor =
        stack_time_factor(&model->stack, work) * (computes ? model->slowest_gpu_time : 1);
    p->seconds *= factor;
    p->launch_s *= factor;
    p->compute_s *= factor;
    p->memory_s *= factor;
    p->network_s *= factor;
    if (factor > 0) p->efficiency = lesser_of(p->efficiency / factor, 1);
}

/* ---- rules ---- */

void cost_model_use_rules(struct cost_model *model, struct arena *arena,
                          const struct rule_list *rules) {
    const struct rule_list *own = &model->gpu.rules;
    struct rule *all = arena_array(arena, struct rule, rules->count + own->count + 1);
    for (int64_t i = 0; i < rules->count; i++)
        all[i] = rules->rules[i];
    for (int64_t i = 0; i < own->count; i++)
        all[rules->count + i] = own->rules[i];
    model->rules = (struct rule_list){ rules->count + own->count, all };
}

const struct rule_list *cost_model_rules(const struct cost_model *model) {
    return &model->rules;
}

static void price_scale(struct price *p, double factor) {
    p->seconds *= factor;
    p->launch_s *= factor;
    p->compute_s *= factor;
    p->memory_s *= factor;
    p->network_s *= factor;
    if (factor > 0) p->efficiency = lesser_of(p->efficiency / factor, 1);
}

/* One of the terms was set; efficiency is again that of the bound. */
static void rule_kernel(const struct cost_model *model, const struct operator_work *work,
                        const struct rule *rule, struct price *p) {
    const double hbm = model->gpu.hbm_bytes_per_s, peak = peak_of(&model->gpu, work->precision);
    const bool computes = work->kind == OPERATOR_MATMUL || work->kind == OPERATOR_ATTENTION;
    if (rule->setting == RULE_BANDWIDTH)
        p->memory_s = work->memory_bytes / rule->value;
    else if (computes)
        p->compute_s = work->flop / (rule->value * peak);
    else
        p->memory_s = work->memory_bytes / (rule->value * hbm);
    p->seconds = p->launch_s + greater_of(p->compute_s, p->memory_s);
    p->bound = bound_of(p->launch_s, p->compute_s, p->memory_s);
    const double ideal_s =
        p->compute_s >= p->memory_s ? work->flop / peak : work->memory_bytes / hbm;
    p->efficiency = p->seconds > 0 ? lesser_of(ideal_s / p->seconds, 1) : 1;
}

static void rule_collective(const struct cost_model *model, const struct operator_work *work,
                            const struct communicator *group, const struct rule *rule,
                            struct price *p) {
    const double ideal_s = collective_link_s(&model->rates, work, group);
    p->seconds = p->network_s =
        rule->setting == RULE_BANDWIDTH
            ? work->network_bytes * collective_wire_factor(work->kind, (double)group->rank_count) /
                  rule->value
            : ideal_s / rule->value;
    p->bound = PRICE_NETWORK;
    p->efficiency = lesser_of(ideal_s / p->seconds, 1);
}

/* Sends that the framework's own processes slow down between nodes. */
static void slow_sends(const struct stack *stack, const struct operator_work *work,
                       const struct communicator *group, struct price *p) {
    if (stack == NULL || !(stack->node_send_bytes_per_s > 0) || work->kind != OPERATOR_SEND ||
        work->communicator != COMMUNICATOR_PIPELINE || group->node_count < 2 || !(p->seconds > 0))
        return;
    const double slow_s = work->network_bytes / stack->node_send_bytes_per_s;
    if (slow_s <= p->seconds) return;
    p->efficiency *= p->seconds / slow_s;
    p->seconds = p->network_s = slow_s;
    p->bound = PRICE_NETWORK;
    p->source = "node_send_GB_per_s of its stack";
}

static void wait_for_ranks(const struct operator_work *work, struct price *p) {
    if (work->communicator != COMMUNICATOR_TENSOR || work->ranks_are_there || !(p->seconds > 0))
        return;
    p->efficiency *= p->seconds / (p->seconds + RANK_WAIT_S);
    p->seconds += RANK_WAIT_S;
    p->network_s += RANK_WAIT_S;
}

/* A stack's own gap in place of the profile's, and the kernels that no operator stands for. */
static void add_launches(const struct stack *stack, const struct operator_work *work,
                         struct price *p) {
    if (operator_is_collective(work->kind) || !(p->seconds > 0)) return;
    const bool streams = work->kind != OPERATOR_MATMUL && work->kind != OPERATOR_ATTENTION;
    const double alone_s = p->seconds;
    if (streams && stack != NULL && !isnan(stack->launch_gap_s)) p->launch_s = stack->launch_gap_s;
    p->launch_s += UNPRICED_KERNELS_S / (double)(work->pieces > 1 ? work->pieces : 1);
    p->seconds = p->launch_s + greater_of(p->compute_s, p->memory_s);
    p->efficiency = lesser_of(p->efficiency * alone_s / p->seconds, 1);
    p->bound = bound_of(p->launch_s, p->compute_s, p->memory_s);
}

double price_stated_band(const struct price *price) {
    return price->rule != NULL && !isnan(price->rule->band_fraction) ? price->rule->band_fraction
                                                                     : 0;
}

static void apply_rule(const struct cost_model *model, const struct operator_work *work,
                       const struct communicator *group, const struct rule *rule, struct price *p) {
    if (!(p->seconds > 0)) return; /* nothing to do stays so */
    const double before_s = p->seconds;
    switch (rule->setting) {
    case RULE_FACTOR:
        price_scale(p, rule->value);
        break;
    case RULE_TIME:
        price_scale(p, rule->value / p->seconds);
        break;
    case RULE_EFFICIENCY:
    case RULE_BANDWIDTH:
        if (operator_is_collective(work->kind)) {
            rule_collective(model, work, group, rule, p);
            wait_for_ranks(work, p); /* nccl-tests' figures are without */
        } else
            rule_kernel(model, work, rule, p);
        break;
    }
    /* Faster memory for a kernel that computes: the estimate holds. */
    if (rule->setting == RULE_BANDWIDTH && fabs(p->seconds / before_s - 1) < 1e-9) return;
    if (rule->setting != RULE_FACTOR) p->inside_range = true; /* the user's own figure */
    if (!isnan(rule->band_fraction)) p->band_fraction = rule->band_fraction;
    p->source = rule->text;
    p->rule = rule;
}

/* Of PyTorch 2.11, whose wheels bring cuDNN 9.15.1 (transformers pull request 48163). */
enum { MASKS_BY_CUDNN_YEAR = 2026 };

/* Seconds of traffic besides; 0 of other operators. */
static double use_attention_modes(const struct cost_model *model, const struct operator_work *work,
                                  struct price *p) {
    if (work->kind != OPERATOR_ATTENTION) return 0;
    const struct stack_use *use = &model->stack;
    const struct attention_library library = {
        .own_kernel = use->stack != NULL && use->attention_stated,
        .cudnn_takes_masks = use->stack == NULL || use->stack->year >= MASKS_BY_CUDNN_YEAR,
    };
    return attention_use_modes(p, work, &model->gpu,
                               model->efficiency.streaming.elementwise * model->gpu.hbm_bytes_per_s,
                               &library);
}

struct price cost_model_price_at(const struct cost_model *model, const struct operator_work *work,
                                 const struct communicator *group, const struct rule_place *place) {
    struct price p = price_of(model, NULL, work, group, true);
    add_launches(model->stack.stack, work, &p);
    const double moved_s = use_attention_modes(model, work, &p);
    if (model->stack.stack != NULL) adjust(model, work, &p);
    slow_sends(model->stack.stack, work, group, &p);
    wait_for_ranks(work, &p);
    if (moved_s > 0) {
        p.efficiency *= p.seconds / (p.seconds + moved_s);
        *(p.compute_s > p.memory_s ? &p.compute_s : &p.memory_s) += moved_s;
        p.seconds += moved_s;
    }
    if (model->rules.count > 0) {
        const struct rule *rule = rules_find(&model->rules, work, place);
        if (rule != NULL) apply_rule(model, work, group, rule, &p);
    }
    return p;
}

struct price cost_model_price(const struct cost_model *model, const struct operator_work *work,
                              const struct communicator *group) {
    static const struct rule_place nowhere = { RULE_ANY, RULE_ANY };
    return cost_model_price_at(model, work, group, &nowhere);
}

struct price cost_model_price_isolated(const struct cost_model *model,
                                       const struct operator_work *work,
                                       const struct communicator *group) {
    return price_of(model, NULL, work, group, false);
}

/* The unit in which overlap_cost was found (rows of nodes of eight), whatever the node is now. */
enum { MOVING_RANKS = 8 };

double cost_model_moving_s(const struct cost_model *model, const struct operator_work *work,
                           const struct communicator *group) {
    const int64_t ranks = group->rank_count < MOVING_RANKS ? group->rank_count : MOVING_RANKS;
    const double whole_s = cost_model_price(model, work, group).seconds;
    if (ranks < 2) return whole_s;
    const struct collective_table *nearest;
    bool inside_range;
    const double moving_s = collective_inside_s(&model->efficiency.collectives, work->kind, ranks,
                                                work->network_bytes, &inside_range, &nearest);
    return lesser_of(whole_s, moving_s);
}

int64_t cost_model_variant_count(const struct cost_model *model) {
    return model->efficiency.variant_count;
}

const char *cost_model_variant_name(const struct cost_model *model, int64_t variant_index) {
    ballast_check(variant_index >= 0 && variant_index < model->efficiency.variant_count);
    return model->efficiency.variants[variant_index].name;
}

int64_t cost_model_variant_find(const struct cost_model *model, const char *name) {
    for (int64_t i = 0; i < model->efficiency.variant_count; i++)
        if (strcmp(model->efficiency.variants[i].name, name) == 0) return i;
    return -1;
}

struct price cost_model_price_variant(const struct cost_model *model, int64_t variant_index,
                                      const struct operator_work *work,
                                      const struct communicator *group) {
    ballast_check(variant_index >= -1 && variant_index < model->efficiency.variant_count);
    const struct framework_variant *variant =
        variant_index < 0 ? NULL : &model->efficiency.variants[variant_index];
    struct price p = price_of(model, variant, work, group, false);
    if (variant == NULL) p.seconds += use_attention_modes(model, work, &p);
    return p;
}
