/* cost_model_band.c - how far off a step's time and memory may be: which width of the bands file
 * (step_band.h) holds for a model's stack and GPU, and what is added to it. */
#include <math.h>
#include "costmodel/cost_model.h"
#include "costmodel/stack.h"
#include "costmodel/step_band.h"

static const char *gpu_of(const struct cost_model *model) {
    return cost_model_gpu(model)->name;
}

/* A factor on the GPU was fitted on rows that are not the shipped ones: on runs of one's own. */
static bool fitted_at_home(const struct cost_model *model, const struct stack *stack) {
    const char *const *shipped = cost_model_bands(model)->calibrated_on;
    for (int64_t i = 0; stack != NULL && i < stack->factor_count; i++)
        if (stack_gpu_is(gpu_of(model), stack->factors[i].gpu))
            for (const char **row = stack->factors[i].calibrated_on; *row != NULL; row++)
                if (!step_band_lists(shipped, *row)) return true;
    return false;
}

/* What the very runs that a factor of one's own was fitted on say against it. */
static double misfit_at_home(const struct cost_model *model, const struct stack *stack) {
    double worst = 0;
    for (int64_t i = 0; stack != NULL && i < stack->factor_count; i++)
        if (stack_gpu_is(gpu_of(model), stack->factors[i].gpu))
            worst = fmax(worst, stack_factor_doubt(&stack->factors[i]));
    return worst;
}

bool cost_model_knows_multimodal(const struct cost_model *model) {
    const struct stack_use use = cost_model_stack(model);
    return use.stack != NULL &&
           stack_knows_multimodal(use.stack, use.calibrated, cost_model_writes_text(model));
}

struct step_ratios cost_model_multimodal_ratios(const struct cost_model *model) {
    const struct step_bands *bands = cost_model_bands(model);
    if (bands == NULL) return (struct step_ratios){ NAN, NAN, NAN };
    return step_band_of_images(bands, cost_model_writes_text(model),
                               cost_model_encoder_factor(model));
}

struct band cost_model_multimodal_band(const struct cost_model *model, bool pass_stack_over) {
    if (!pass_stack_over && cost_model_bands(model) != NULL && cost_model_knows_multimodal(model))
        return band_even(cost_model_stack(model).stack->multimodal_band);
    return step_ratios_band(cost_model_multimodal_ratios(model));
}

static bool has_factor_on(const struct stack *stack, const char *gpu) {
    for (int64_t i = 0; i < stack->factor_count; i++)
        if (stack_gpu_is(gpu, stack->factors[i].gpu)) return true;
    return false;
}

bool cost_model_gpu_is_strange(const struct cost_model *model) {
    const struct step_bands *bands = cost_model_bands(model);
    const struct stack *stack = cost_model_stack(model).stack;
    const char *gpu = gpu_of(model);
    if (!cost_model_is_derived(model)) return false;
    for (int64_t i = 0; bands != NULL && i < bands->stack_count; i++)
        if (stack_gpu_is(gpu, bands->stacks[i].gpu)) return false;
    for (int64_t i = 0; stack != NULL && i < stack->known_count; i++)
        if (has_factor_on(stack->known[i], gpu)) return false;
    return stack == NULL || !has_factor_on(stack, gpu);
}

static double with_operators(const struct cost_model *model, double band,
                             const struct step_doubt *doubt) {
    return hypot(band,
                 cost_model_gpu_is_strange(model) ? doubt->operators_band : doubt->stated_band);
}

struct band cost_model_step_band(const struct cost_model *model, enum band_kin kin,
                                 struct step_doubt doubt) {
    const struct step_bands *bands = cost_model_bands(model);
    if (bands == NULL) return band_even(NAN);
    const struct stack_use use = cost_model_stack(model);
    const bool home = fitted_at_home(model, use.stack);
    double band = step_band_fraction(bands, use.stack != NULL ? use.stack->name : NULL,
                                     gpu_of(model), use.calibrated && kin == KIN_LIKE_MEASURED,
                                     home, doubt.inside_range, doubt.lost_fraction);
    if (home) band = fmax(band, misfit_at_home(model, use.stack));
    const struct band even = band_even(with_operators(model, band, &doubt));
    if (kin != KIN_MULTIMODAL) return even;
    const struct band images = cost_model_multimodal_band(model, false);
    return band_wider(even, (struct band){ with_operators(model, images.below, &doubt),
                                           with_operators(model, images.above, &doubt) });
}

struct band cost_model_step_band_of_source(const struct cost_model *model, const char *source,
                                           struct step_doubt doubt) {
    const struct step_bands *bands = cost_model_bands(model);
    if (bands == NULL) return band_even(NAN);
    const struct stack_use use = cost_model_stack(model);
    const struct step_band *own =
        use.stack == NULL ? NULL : step_band_of(bands, use.stack->name, gpu_of(model));
    if (own == NULL || !step_band_lists(own->sources, source))
        return cost_model_step_band(model, KIN_LIKE_MEASURED, doubt);
    const double band = step_band_fraction(bands, use.stack->name, gpu_of(model), use.calibrated,
                                           true, doubt.inside_range, doubt.lost_fraction);
    return band_even(with_operators(model, band, &doubt));
}

struct band cost_model_unknown_stack_band(const struct cost_model *model, double lost_fraction) {
    const struct step_bands *bands = cost_model_bands(model);
    return band_even(bands == NULL ? NAN : step_band_of_unknown(bands, lost_fraction));
}

double cost_model_pair_band(const struct cost_model *model, bool text_only) {
    const struct step_bands *bands = cost_model_bands(model);
    return bands == NULL ? NAN : bands->pair[cost_model_stack(model).calibrated && text_only];
}

double cost_model_memory_band(const struct cost_model *model) {
    const struct step_bands *bands = cost_model_bands(model);
    return bands == NULL ? NAN : bands->memory;
}
