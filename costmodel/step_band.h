/* step_band.h - how far off step time and memory of a simulation may be: from held-back residuals.
 *
 * scenarios/bands.json holds widths that `ballast calibrate bands` found: 80 % of the measured runs
 * that nothing was fitted on lie within prediction x (1 +- width x lost). `lost` is 1 - HFU, the
 * share of a step that its FLOP at the GPU's peak do not take: those are counted, all else is
 * modelled, and the error is a share of that. A stack that was
 * calibrated on the GPU has its own if rows of it were held back: of runs of the source that its
 * factor was fitted on. Others take that of runs predicted without their source's own calibration.
 * Runs of a calibrated stack from elsewhere lie between the two, and so does their width (its
 * logarithm in the middle): no shipped row tells where. Runs of a stack that is not known at all
 * that of runs predicted without their name too. Models of images or video, and encoders alone,
 * never take less than measured runs of such models were off, to either side, which no scale of the
 * step explains: those of the stack where it states them, else of all. Peak memory has one width,
 * of all text runs whose reading tells what they needed. How far two runs of one stack and GPU err
 * against each other is a width of its own, in ln(time).
 *
 *     struct step_bands bands;
 *     if (step_bands_read(arena, json, &bands, err))
 *         step_band_fraction(&bands, "nemo-2025", "h100-80g-sxm", true, false, inside_range, 0.6);
 */
#ifndef BALLAST_COSTMODEL_STEP_BAND_H
#define BALLAST_COSTMODEL_STEP_BAND_H

#include "sim/base/arena.h"
#include "sim/base/band.h"
#include "sim/base/error.h"
#include "sim/base/field.h"
#include "sim/base/json.h"

struct step_band {
    const char *stack, *gpu; /* gpu: what hardware names begin with */
    double width[2];         /* [inside the measured range]; of what is lost */
    int64_t rows;            /* held back */
    const char **sources;    /* of these rows; NULL at the end */
};

struct step_bands {
    /* Of what is lost: */
    double calibrated[2], relative[2]; /* [inside]: any calibrated stack; a stack that is not */
    /* Of the time itself: measured / predicted of models other than text decoders on stacks that
     * state no band for them. NaN: not stated. */
    struct step_ratios {
        double low, median, high; /* a tenth took no more, half, nine in ten */
    } images[2];                  /* [writes text]: behind encoders; encoders alone and diffusion */
    double unknown;              /* runs of a stack that is not known, by layout; NaN: not stated */
    double lost_least;           /* of the measured runs: less than this is nobody's */
    double unknown_stack_factor; /* what such a run takes over its stand-in's prediction */
    /* What a stack that nothing was fitted for takes over its prediction: the median of what the
     * calibrated ones took over theirs without their own factors. 1 where nothing is stated. */
    double uncalibrated_stack_factor;
    /* What kernels of models that write no text (encoders alone, pairs of encoders, diffusion) take
     * over their prediction, whatever the stack and in place of the factor above: what leaves the
     * sources that measured such the least off. NaN: not stated. */
    double encoder_factor;
    double memory; /* NaN: not stated */
    double
        pair[2]; /* [calibrated]: ln of the times of two runs against each other; NaN: not stated */
    const char **calibrated_on; /* rows that the shipped factors were fitted on; NULL at the end */
    struct step_band *stacks;
    int64_t stack_count;
};

bool step_bands_read(struct arena *arena, const struct json *json, struct step_bands *out,
                     struct error *err);
/* Of this stack on this GPU (or family); NULL: no row of it was held back. */
const struct step_band *step_band_of(const struct step_bands *bands, const char *stack,
                                     const char *gpu);
/* Half-width. stack NULL: none. calibrated: on this GPU and precision. home: on runs of the same
 * place. lost_fraction: 1 - HFU. */
double step_band_fraction(const struct step_bands *bands, const char *stack, const char *gpu,
                          bool calibrated, bool home, bool inside, double lost_fraction);
/* How long runs of models of images took over predictions whose kernels have this much of
 * encoder_factor; as a band. */
struct step_ratios step_band_of_images(const struct step_bands *bands, bool writes_text,
                                       double encoder_factor);
struct band step_ratios_band(struct step_ratios ratios);
/* Of a stack that is not known; NaN: not stated. */
double step_band_of_unknown(const struct step_bands *bands, double lost_fraction);
/* The text is in the list. */
bool step_band_lists(const char *const *list, const char *text);

extern const struct field_table step_bands_table, step_band_table;

#endif
