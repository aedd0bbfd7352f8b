/* stack_factor.c - which factors hold for a stack on a GPU, and what they do to a price.
 *
 *     t = f ( gap + max( compute, traffic x memory ) )        memory-bound kernels
 *     t = f slow t(profile)                                   matmuls
 *     t = f a slow t(profile) x (forward or backward time of the stack's kernel)      attention
 *     t = (1 - hidden) t_collective                           TP and CP traffic
 *
 * f is the factor on kernels, a that of a fitted attention kernel, slow the slowest GPU's time.
 *
 * A factor that calibration left for the GPU's family and the precision holds as it is; on another
 * GPU of that generation the mean (of logarithms) of those holds too, so that two of them differ by
 * their profiles alone and not by who was measured on which. A precision that was not calibrated
 * takes the factors of the other one of its width (fp8, fp4) so. Elsewhere a factor is taken to be
 * the product of what is usual there and what is usual for the stack:
 *
 *     ln f(stack, GPU, precision) = g(GPU, precision) + s(stack)
 *     g = median of ln f over all stacks: on that GPU's generation; else on all; each with the same
 *         width of operands (16 bits or fewer) while there is one
 *     s = mean of ln f - g over the stack's own factors (or its relative's): those of the
 *         other width on that generation, else those of that width, else all
 *
 * A median, because single stacks lie far off (eager kernels, launches in the way). A stack without
 * factors or relative has s = 0; so has an unknown one.
 *
 * Core attention multiplies in 16 bits whatever the matmuls around it do (Transformer Engine's fp8
 * linear layers leave fp8_dpa off), so its kernel and what it takes over the profile's are those of
 * the rows in 16 bits: on the GPU's family, else the mean of its generation, else of all.
 *
 * GPUs of one model differ in the clock that their power limit allows, and a synchronous step waits
 * for the slowest. Sinha et al. 2022 (arXiv 2208.11035, five machines with V100 and others)
 * measured a variation of 8 % of the median, outliers left out, that is between the whiskers of a
 * box plot, 5.4 standard deviations of a normal distribution. The slowest of n is expected at (Blom
 * 1958)
 *
 *     1 + SPEED_DEVIATION x Q((n - 3/8) / (n + 1/4))     Q: quantiles of the normal distribution
 *
 * Kernels that compute take that; memory has one clock on all of them.
 */
#include "costmodel/stack.h"

#include <gsl/gsl_cdf.h>
#include <gsl/gsl_sort.h>
#include <gsl/gsl_statistics_double.h>
#include <math.h>
#include <string.h>
#include "costmodel/generation.h"

#define SPEED_DEVIATION (0.08 / 5.4)
enum { STACK_LIMIT = 1024 };

bool stack_gpu_is(const char *gpu, const char *family) {
    const size_t length = strlen(family);
    return strncmp(gpu, family, length) == 0 && (gpu[length] == '-' || gpu[length] == '\0');
}

static bool same_width(const struct stack_factor *f, enum precision precision) {
    return precision_is_quantised(f->precision) == precision_is_quantised(precision);
}

bool stack_same_speed(enum precision a, enum precision b) {
    return a == b || (!precision_is_quantised(a) && !precision_is_quantised(b));
}

enum nearness { NEAR_GENERATION, NEAR_ANY_GPU, NEAR_ANY, NEARNESS_COUNT };

static bool is_near(enum nearness nearness, const struct stack_factor *f, const char *gpu,
                    enum precision precision) {
    switch (nearness) {
    case NEAR_GENERATION:
        return same_width(f, precision) && gpu_generation_of(gpu) != GENERATION_UNKNOWN &&
               gpu_generation_of(f->gpu) == gpu_generation_of(gpu);
    case NEAR_ANY_GPU:
        return same_width(f, precision);
    case NEAR_ANY:
    case NEARNESS_COUNT:
        break;
    }
    return true;
}

double stack_usual_log_factor(const struct stack *const *stacks, int64_t count, const char *gpu,
                              enum precision precision) {
    double logs[STACK_LIMIT];
    for (int n = 0; n < NEARNESS_COUNT; n++) {
        size_t found = 0;
        for (int64_t i = 0; i < count && found < STACK_LIMIT; i++) {
            const struct stack *stack = stacks[i];
            if (stack->borrows) continue;
            double sum = 0;
            int64_t near = 0;
            for (int64_t k = 0; k < stack->factor_count; k++) {
                if (!is_near((enum nearness)n, &stack->factors[k], gpu, precision)) continue;
                sum += log(stack->factors[k].kernel_time_factor);
                near++;
            }
            if (near > 0) logs[found++] = sum / (double)near;
        }
        if (found == 0) continue;
        gsl_sort(logs, 1, found);
        return gsl_stats_median_from_sorted_data(logs, 1, found);
    }
    return 0;
}

static double usual(const struct stack *stack, const char *gpu, enum precision precision) {
    return stack_usual_log_factor(stack->known, stack->known_count, gpu, precision);
}

static double attention_on(const struct stack *stack, const char *gpu) {
    double near = 0, all = 0;
    int64_t near_count = 0, count = 0;
    for (int64_t i = 0; i < stack->factor_count; i++) {
        const struct stack_factor *f = &stack->factors[i];
        if (precision_is_quantised(f->precision)) continue;
        if (stack_gpu_is(gpu, f->gpu)) return f->attention_time_factor;
        const double log_factor = log(f->attention_time_factor);
        all += log_factor;
        count++;
        if (!is_near(NEAR_GENERATION, f, gpu, PRECISION_BF16)) continue;
        near += log_factor;
        near_count++;
    }
    if (near_count > 0) return exp(near / (double)near_count);
    return count > 0 ? exp(all / (double)count) : 1;
}

/* A stack that says nothing of its kernel runs the profile's. */
static bool states_attention(const struct stack *stack, const char *gpu) {
    const bool states = stack->attention_gpu[0] != '\0' || stack->attention_forward_time != 1 ||
                        stack->attention_backward_time != 1;
    return states && gpu_is_among(gpu, stack->attention_gpu);
}

struct stack_use stack_on(const struct stack *stack, const char *gpu, enum precision precision) {
    struct stack_use use = { .stack = stack, .kernel_time_factor = 1, .attention_time_factor = 1 };
    if (stack == NULL) return use;
    use.attention_stated = states_attention(stack, gpu);
    use.attention_cudnn = use.attention_stated && gpu_generation_of(gpu) == GENERATION_BLACKWELL;
    for (int same = 1; same >= 0; same--) { /* of the precision, else of its width */
        double near_kernel = 0, near_count = 0;
        for (int64_t i = 0; i < stack->factor_count; i++) {
            const struct stack_factor *f = &stack->factors[i];
            if (!same_width(f, precision) ||
                (same == 1 && !stack_same_speed(f->precision, precision)))
                continue;
            if (stack_gpu_is(gpu, f->gpu)) {
                use.kernel_time_factor = f->kernel_time_factor;
                use.attention_time_factor = f->attention_time_factor;
                use.calibrated = same == 1 && !stack->borrows;
                return use;
            }
            if (!is_near(NEAR_GENERATION, f, gpu, precision)) continue;
            near_kernel += log(f->kernel_time_factor);
            near_count++;
        }
        if (near_count == 0) continue;
        use.attention_time_factor = attention_on(stack, gpu);
        use.kernel_time_factor = exp(near_kernel / near_count);
        return use;
    }
    /* of another width on that generation; of the same width elsewhere; of another there */
    double own[3] = { 0 };
    int64_t counts[3] = { 0 };
    for (int64_t i = 0; i < stack->factor_count; i++) {
        const struct stack_factor *f = &stack->factors[i];
        const int kind = same_width(f, precision)                         ? 1
                         : is_near(NEAR_GENERATION, f, gpu, f->precision) ? 0
                                                                          : 2;
        own[kind] += log(f->kernel_time_factor) - usual(stack, f->gpu, f->precision);
        counts[kind]++;
    }
    use.attention_time_factor = attention_on(stack, gpu);
    int kind = 0;
    while (kind < 2 && counts[kind] == 0)
        kind++;
    const double habit = counts[kind] > 0 ? own[kind] / (double)counts[kind] : 0;
    use.kernel_time_factor = exp(usual(stack, gpu, precision) + habit);
    return use;
}

bool stack_knows_multimodal(const struct stack *stack, bool calibrated, bool writes_text) {
    return stack->multimodal_band > 0 && calibrated && (writes_text || stack->one_place);
}

bool stack_states_encoders(const struct stack_use *use) {
    return use->stack->simulated || stack_knows_multimodal(use->stack, use->calibrated, false);
}

#define MOST_DOUBT 0.99 /* a step takes some time */

double stack_factor_doubt(const struct stack_factor *factor) {
    const double f = factor->kernel_time_factor,
                 beyond = fmax(1 - STACK_USUAL_FACTOR_MOST / f, STACK_USUAL_FACTOR_LEAST / f - 1);
    return fmax(factor->fit_error, fmin(beyond, MOST_DOUBT));
}

double stack_time_factor(const struct stack_use *use, const struct operator_work *work) {
    const struct stack *stack = use->stack;
    switch (work->communicator) {
    case COMMUNICATOR_TENSOR:
        return 1 - stack->tensor_hidden_fraction;
    case COMMUNICATOR_CONTEXT:
    case COMMUNICATOR_CONTEXT_HEADS:
    case COMMUNICATOR_CONTEXT_RING:
        return 1 - stack->context_hidden_fraction;
    case COMMUNICATOR_DATA:
    case COMMUNICATOR_PIPELINE:
        return 1;
    default:
        break;
    }
    if (work->kind != OPERATOR_ATTENTION) return use->kernel_time_factor;
    /* what the stack states or was fitted for is its own kernel, not one named besides, nor that of
     * single precision */
    const bool own = work->attention_kernel == ATTENTION_KERNEL_USUAL ||
                     (work->attention_kernel == ATTENTION_KERNEL_CUDNN && use->attention_cudnn);
    if (!own || precision_is_single(work->precision)) return use->kernel_time_factor;
    const double stated = !use->attention_stated       ? 1
                          : work->pass == PASS_FORWARD ? stack->attention_forward_time
                                                       : stack->attention_backward_time;
    return use->kernel_time_factor * use->attention_time_factor * stated;
}

double stack_slowest_gpu_time(int64_t gpu_count) {
    if (gpu_count < 2) return 1;
    const double n = (double)gpu_count;
    return 1 + SPEED_DEVIATION * gsl_cdf_ugaussian_Pinv((n - 0.375) / (n + 0.25));
}

static double elementwise_traffic(const struct stack *stack, enum operator_form form) {
    switch (form) {
    case FORM_STATED:
    case FORM_MIXED_SUM:
        return 1;
    case FORM_ROTARY:
        return stack->rotary_traffic;
    case FORM_SOFTMAX_STEPS:
    case FORM_SOFTMAX:
    case FORM_CAUSAL_SOFTMAX:
    case FORM_DROPPED_CAUSAL_SOFTMAX:
        return stack->softmax_traffic;
    default:
        return stack->elementwise_traffic;
    }
}

static double traffic_in_16_bits(const struct stack *stack, const struct operator_work *work) {
    const struct stack_kernel_traffic *own = &stack->kernel_traffic[work->form];
    /* the forms of a softmax stand one behind another, from the general one */
    for (int form = work->form; form > FORM_SOFTMAX && !(own->forward > 0); form--)
        own = &stack->kernel_traffic[form - 1];
    const double stated = work->pass == PASS_FORWARD ? own->forward : own->backward;
    if (stated > 0) return stated;
    switch (work->kind) {
    case OPERATOR_NORM:
        return work->pass == PASS_FORWARD ? stack->norm_traffic : stack->norm_backward_traffic;
    case OPERATOR_ELEMENTWISE:
        return elementwise_traffic(stack, work->form);
    case OPERATOR_LOSS:
        return stack->loss_traffic;
    case OPERATOR_OPTIMIZER:
        return stack->optimizer_traffic;
    default:
        return 1;
    }
}

/* Norms, softmaxes and sums along the residual stream, which frameworks compute in fp32 between
 * casts where the rest is 16 bits wide; under autocast a power, and what follows from it, too. */
static bool is_upcast(const struct stack *stack, const struct operator_work *work) {
    switch (work->form) {
    case FORM_GELU_NEW:
        return (stack->block.keeps & KEEPS_FP32_RESIDUAL) != 0;
    case FORM_LAYER_NORM:
    case FORM_RMS_NORM:
    case FORM_SOFTMAX_STEPS:
    case FORM_SOFTMAX:
    case FORM_CAUSAL_SOFTMAX:
    case FORM_DROPPED_CAUSAL_SOFTMAX:
    case FORM_OTHER:
        return work->kind == OPERATOR_NORM || work->kind == OPERATOR_ELEMENTWISE;
    default:
        return false;
    }
}

double stack_traffic_factor(const struct stack *stack, const struct operator_work *work) {
    const double factor = traffic_in_16_bits(stack, work);
    /* in fp32 they move the same bytes but for the casts, over twice the fused kernel's */
    return factor > 1 && precision_is_single(work->precision) && is_upcast(stack, work)
               ? fmax(1, factor / 2)
               : factor;
}
