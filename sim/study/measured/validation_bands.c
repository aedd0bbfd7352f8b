/* validation_bands.c - 80 % bands from residuals that nothing was fitted to.
 *
 * The residual of a row is |measured / predicted - 1|, because a band stands around the prediction,
 * over 1 - HFU of its simulation: the FLOP of a step and the GPU's peak are certain, and what can
 * be wrong is the rest of its time. Widths are quantiles of these.
 *
 * Three classes of text models: rows of a stack that was calibrated on their GPU; all rows,
 * predicted without the factors of their own source; and those again as runs of a stack that nobody
 * knows. Two more, over the whole time and to either side by itself, because most such runs take
 * longer than predicted: models that write text behind encoders of images or video, and those that
 * write none (encoders alone, pairs of them, diffusion), as they are predicted, on stacks that
 * state no band of their own for them. A stack whose attention kernel is
 * not in the profiles has a factor for it (attention_fitted). Without, its rows would be predicted
 * by a kernel that is known to be another; nobody is told that, so they count as runs of an unknown
 * stack only. Those that write no text take the factor that the other sources of such found
 * (encoder_factor): what leaves their mean |predicted / measured - 1|, each source counted once,
 * the least, which is a weighted median of measured / predicted.
 *
 * The width of a calibrated stack on a GPU is the 80th percentile of its rows' residuals and
 * of those of all other stacks on all GPUs, which together weigh as much as POOL_ROWS rows: a stack
 * with few rows leans on the others. Rows inside and outside the measured range of the operators'
 * curves are pooled apart; a stack's own rows count for both, scaled by the ratio of the two pools.
 *
 * What stands in for an unknown stack is one that somebody described, and most stacks are slower.
 * Each stack says once by how much: the mean ln(measured / predicted) of its calibration rows as
 * runs of an unknown stack. The median over the stacks is the factor on such a run, and where the
 * width is measured it is that of the other sources' stacks.
 *
 * Peak memory: the same share of all readings that tell what a run needed and that no cause of a
 * stack was read from, whatever their kind; of text models, for those of others are too few.
 *
 * A quantile is the wider of two: over the rows, and with each source counted once, because a run
 * to come may be of a source like any of these, whichever has the most rows. Of classes of text of
 * fewer than SOURCES_MIN sources it is over the rows alone.
 *
 * The coverage that is reported takes, for each row, the width from the rows of other sources
 * alone.
 */
#include "sim/study/measured/validation.h"

#include <gsl/gsl_sort.h>
#include <gsl/gsl_statistics_double.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define POOL_ROWS 20.0
#define SHARE     0.8
#define TAIL      ((1 - SHARE) / 2) /* of a band whose sides are found apart */
enum { SOURCES_MIN = 10 };

struct residual {
    double size, weight;
    double of_source; /* its share of its source's weight */
};

static int compare_sizes(const void *a, const void *b) {
    const double x = ((const struct residual *)a)->size, y = ((const struct residual *)b)->size;
    return (x > y) - (x < y);
}

/* The larger of the quantiles over the rows and over the sources; NaN without residuals. */
static double quantile(struct residual *residuals, int64_t count, double of) {
    /* Shares that come to 0.8 but for rounding are 0.8. */
    const double share = of * (1 - 1e-12);
    double total = 0, sources = 0, sum = 0, sum_of_sources = 0;
    for (int64_t i = 0; i < count; i++) {
        total += residuals[i].weight;
        sources += residuals[i].of_source;
    }
    qsort(residuals, (size_t)count, sizeof *residuals, compare_sizes);
    for (int64_t i = 0; i < count; i++) {
        sum += residuals[i].weight;
        sum_of_sources += residuals[i].of_source;
        if (sum >= share * total && sum_of_sources >= share * sources) return residuals[i].size;
    }
    return NAN;
}

/* A class of rows: how each is predicted and what more it takes. */
struct class {
    const struct validation *v;
    enum band_class what;
    const double *factors;          /* by row */
    const struct validation *named; /* the same rows as they are predicted */
    bool rows_alone;                /* no quantile over its sources */
};

static bool of_images(enum band_class what) {
    return what == BAND_MULTIMODAL || what == BAND_ENCODERS;
}

/* A stack that borrows its factors is no evidence for calibrated ones, nor the other way round. */
static bool held_back(const struct class *c, int64_t i) {
    const struct validation_row *row = &c->v->rows[i];
    /* What encoders take more is held back by source, a factor of the stack is not. */
    const bool fitted =
        row->calibrated_on ||
        (of_images(c->what) && c->named->rows[i].calibrated_on && !row->finds_encoder_factor);
    return !isnan(row->relative_error) && !fitted && row->multimodal == of_images(c->what) &&
           (of_images(c->what) ? row->writes_text == (c->what == BAND_MULTIMODAL) &&
                                     !(row->stack->multimodal_band > 0)
            : c->what == BAND_UNKNOWN  ? !row->known_stack
            : c->what == BAND_RELATIVE ? !row->calibrated_stack && !row->stack->attention_fitted
                                       : row->calibrated_stack);
}

static double error_of(const struct class *c, int64_t i) {
    return c->v->rows[i].predicted_s * c->factors[i] / c->v->rows[i].measured->iter_time_s - 1;
}

/* 1 - HFU of what is predicted; the errors of multimodal models do not depend on it. */
static double lost_of(const struct class *c, int64_t i) {
    if (of_images(c->what)) return 1;
    return 1 - (1 - c->v->rows[i].lost_fraction) / c->factors[i];
}

static double residual_of(const struct class *c, int64_t i) {
    return fabs(1 / (1 + error_of(c, i)) - 1) / lost_of(c, i);
}

static bool same_place(const struct validation_row *a, const struct validation_row *b) {
    return a->stack == b->stack &&
           strncmp(a->hardware, b->hardware, strcspn(a->hardware, "-") + 1) == 0;
}

static bool same_source(const struct class *c, int64_t i, int64_t k) {
    return strcmp(c->v->rows[i].measured->source, c->v->rows[k].measured->source) == 0;
}

static int64_t source_count(const struct class *c) {
    int64_t sources = 0;
    for (int64_t i = 0; i < c->v->runs.count; i++) {
        int64_t k = 0;
        while (k < i && !(held_back(c, k) && same_source(c, i, k)))
            k++;
        sources += held_back(c, i) && k == i;
    }
    return sources;
}

/* Four fifths of a few sources are one source's residual or another's. */
static struct class make_class(const struct validation *v, enum band_class what,
                               const double *factors, const struct validation *named) {
    struct class c = { v, what, factors, named, false };
    c.rows_alone = !of_images(what) && source_count(&c) < SOURCES_MIN;
    return c;
}

/* 1 over the rows of the class that are of the source of row i; 1 where rows alone count. */
static double share_of_source(const struct class *c, int64_t i) {
    int64_t rows = 0;
    if (c->rows_alone) return 1;
    for (int64_t k = 0; k < c->v->runs.count; k++)
        rows += held_back(c, k) && same_source(c, i, k);
    return 1 / (double)rows;
}

/* Of all held-back rows but those of one source (NULL: of all); range -1: inside and outside. */
static double pooled(const struct class *c, const char *but_source, int range) {
    const struct validation *v = c->v;
    struct residual *list = memory_alloc(sizeof *list * (size_t)(v->runs.count + 1));
    int64_t count = 0;
    for (int64_t i = 0; i < v->runs.count; i++) {
        const struct validation_row *row = &v->rows[i];
        if (!held_back(c, i) || (range >= 0 && row->inside_range != (range == 1))) continue;
        if (but_source != NULL && strcmp(row->measured->source, but_source) == 0) continue;
        list[count++] = (struct residual){ residual_of(c, i), 1, share_of_source(c, i) };
    }
    /* Too few on one side of the range say nothing of it. */
    const double width = count >= 8 || range < 0 ? quantile(list, count, SHARE) : NAN;
    free(list);
    return isnan(width) && range >= 0 ? pooled(c, but_source, -1) : width;
}

/* Inside the measured range no wider than outside: where residuals say otherwise they are too few
 * to tell the two apart. */
static void pooled_by_range(const struct class *c, double *inside, double *outside) {
    *inside = pooled(c, NULL, 1);
    *outside = pooled(c, NULL, 0);
    if (*inside > *outside) *inside = *outside = pooled(c, NULL, -1);
}

/* The stack and GPU of row `like`, leaning on all others. */
static double own_width(const struct class *c, int64_t like, int64_t *rows) {
    const struct validation *v = c->v;
    struct residual *list = memory_alloc(sizeof *list * (size_t)(v->runs.count + 1));
    int64_t count = 0, others = 0;
    double other_sources = 0;
    *rows = 0;
    for (int64_t i = 0; i < v->runs.count; i++) {
        if (!held_back(c, i) || same_place(&v->rows[i], &v->rows[like])) continue;
        others++;
        other_sources += share_of_source(c, i);
    }
    for (int64_t i = 0; i < v->runs.count; i++) {
        if (!held_back(c, i)) continue;
        const bool own = same_place(&v->rows[i], &v->rows[like]);
        *rows += own;
        list[count++] =
            (struct residual){ residual_of(c, i), own ? 1 : POOL_ROWS / (double)others,
                               own ? 1 : POOL_ROWS / other_sources * share_of_source(c, i) };
    }
    const double width = quantile(list, count, SHARE);
    free(list);
    return width;
}

/* ---- models of images and encoders, whose bands have two sides ---- */

/* Of measured / predicted of all held-back rows but those of one source (NULL: of all): what the
 * share of them does not exceed or, downwards, does not fall below, over rows or sources, whichever
 * is the wider. */
static double ratio_of(const struct class *c, const char *but_source, double share, bool down) {
    const struct validation *v = c->v;
    struct residual *list = memory_alloc(sizeof *list * (size_t)(v->runs.count + 1));
    int64_t count = 0;
    for (int64_t i = 0; i < v->runs.count; i++) {
        if (!held_back(c, i)) continue;
        if (but_source != NULL && strcmp(v->rows[i].measured->source, but_source) == 0) continue;
        const double took = 1 / (1 + error_of(c, i));
        list[count++] = (struct residual){ down ? 1 / took : took, 1, share_of_source(c, i) };
    }
    const double ratio = quantile(list, count, share);
    free(list);
    return down ? 1 / ratio : ratio;
}

/* Of the rows, whatever their sources. */
static double median_ratio(const struct class *c) {
    struct residual *list = memory_alloc(sizeof *list * (size_t)(c->v->runs.count + 1));
    int64_t count = 0;
    for (int64_t i = 0; i < c->v->runs.count; i++)
        if (held_back(c, i)) list[count++] = (struct residual){ 1 / (1 + error_of(c, i)), 1, 1 };
    const double median = quantile(list, count, 0.5);
    free(list);
    return median;
}

static struct band band_of_others(const struct class *c, const char *but_source) {
    return (struct band){ 1 - ratio_of(c, but_source, 1 - TAIL, true),
                          ratio_of(c, but_source, 1 - TAIL, false) - 1 };
}

static bool covers(struct band band, double error) {
    const double took = 1 / (1 + error);
    return took >= 1 - band.below && took <= 1 + band.above;
}

/* ---- stacks that are not known, or not calibrated ---- */

/* Mean ln(measured / held back) of the rows that factors of row i's stack were fitted on; NaN
 * unless i is the first of them. Rows that gave a constant alone say nothing of factors. */
static double over_held_back(const struct validation *named, const struct validation *held,
                             int64_t i) {
    double sum = 0;
    int64_t rows = 0;
    for (int64_t k = 0; k < named->runs.count; k++) {
        const struct validation_row *row = &named->rows[k];
        if (!row->calibrated_on || !row->calibrated_stack || row->finds_encoder_factor ||
            row->stack != named->rows[i].stack || isnan(held->rows[k].relative_error))
            continue;
        if (rows == 0 && k != i) return NAN;
        sum -= log1p(held->rows[k].relative_error);
        rows++;
    }
    return rows > 0 ? sum / (double)rows : NAN;
}

/* What the calibrated stacks took over what is held back of them, their name or their factors: the
 * median of those that other sources measured (NULL: of all). */
static double held_back_factor(const struct validation *named, const struct validation *held,
                               enum band_class what, const char *but_source) {
    double *logs = memory_alloc(sizeof *logs * (size_t)(named->runs.count + 1));
    size_t count = 0;
    for (int64_t i = 0; i < named->runs.count; i++) {
        if (but_source != NULL && strcmp(named->rows[i].measured->source, but_source) == 0)
            continue;
        const double over = over_held_back(named, held, i);
        if (what == BAND_RELATIVE && !isnan(over) && named->rows[i].stack->attention_fitted)
            continue;
        if (!isnan(over)) logs[count++] = over;
    }
    gsl_sort(logs, 1, count);
    const double factor = count > 0 ? exp(gsl_stats_median_from_sorted_data(logs, 1, count)) : 1;
    free(logs);
    return factor;
}

static double *factors_by_row(const struct validation *named, const struct validation *held,
                              enum band_class what) {
    const int64_t rows = named->runs.count;
    double *factors = arena_array(named->arena, double, rows + 1);
    for (int64_t i = 0; i < rows; i++)
        factors[i] =
            held == NULL ? 1 : held_back_factor(named, held, what, named->rows[i].measured->source);
    return factors;
}

/* ---- models that write no text ---- */

static bool finds_factor(const struct validation_row *row) {
    return row->finds_encoder_factor && !isnan(row->relative_error);
}

static int64_t rows_of_source(const struct validation *held, const char *source) {
    int64_t rows = 0;
    for (int64_t i = 0; i < held->runs.count; i++)
        rows += finds_factor(&held->rows[i]) && strcmp(held->rows[i].measured->source, source) == 0;
    return rows;
}

/* By the sources but this one (NULL: by all); NaN without any. The sum over rows of
 * |factor x predicted / measured - 1| / rows of the source is that of
 * |factor - measured / predicted| times predicted / measured / rows of the source: least at the
 * median with these weights. */
static double encoder_factor(const struct validation *held, const char *but_source) {
    struct residual *list = memory_alloc(sizeof *list * (size_t)(held->runs.count + 1));
    int64_t count = 0;
    for (int64_t i = 0; i < held->runs.count; i++) {
        const struct validation_row *row = &held->rows[i];
        const char *source = row->measured->source;
        if (!finds_factor(row) || (but_source != NULL && strcmp(source, but_source) == 0)) continue;
        const double over_measured = 1 + row->relative_error,
                     weight = over_measured / (double)rows_of_source(held, source);
        list[count++] = (struct residual){ 1 / over_measured, weight, weight };
    }
    const double factor = quantile(list, count, 0.5);
    free(list);
    return factor;
}

/* Of the held-back predictions: what others of such models took; of all else, as is predicted. */
static double *image_factors(const struct validation *v, const struct validation *held) {
    double *factors = arena_array(v->arena, double, v->runs.count + 1);
    for (int64_t i = 0; i < v->runs.count; i++) {
        const struct validation_row *row = &held->rows[i];
        factors[i] = v->rows[i].predicted_s / row->predicted_s;
        if (!row->finds_encoder_factor) continue;
        const double others = encoder_factor(held, row->measured->source);
        factors[i] = isnan(others) ? 1 : others;
    }
    return factors;
}

/* ---- the file ---- */

/* What a class's rows make of the file. */
static const char *const keys_of[BAND_CLASS_COUNT][4] = {
    [BAND_CALIBRATED] = { "calibrated_inside", "calibrated_outside", "stacks" },
    [BAND_RELATIVE] = { "relative_inside", "relative_outside", "uncalibrated_stack_factor" },
    [BAND_UNKNOWN] = { "unknown", "unknown_stack_factor" },
    [BAND_MULTIMODAL] = { "multimodal_low", "multimodal_median", "multimodal_high" },
    [BAND_ENCODERS] = { "encoder_low", "encoder_median", "encoder_high" },
};

static double memory_width(const struct validation *v) {
    struct residual *list = memory_alloc(sizeof *list * (size_t)(v->runs.count + 1));
    int64_t count = 0;
    for (int64_t i = 0; i < v->runs.count; i++) {
        const struct validation_row *row = &v->rows[i];
        if (!validation_memory_counts(row) || row->multimodal) continue;
        const double residual = row->measured->peak_mem_GiB / row->predicted_peak_GiB - 1;
        list[count++] = (struct residual){ fabs(residual), 1, 1 };
    }
    const double width = quantile(list, count, SHARE);
    free(list);
    return width;
}

static double rounded(double value) {
    return round(value * 1e4) / 1e4;
}

static double least_lost(const struct class *c, double least) {
    for (int64_t i = 0; i < c->v->runs.count; i++)
        if (held_back(c, i)) least = fmin(least, lost_of(c, i));
    return least;
}

static void add_width(cJSON *o, const char *key, double width) {
    cJSON_AddNumberToObject(o, key, rounded(fmax(width, 0.001)));
}

/* How long the runs of the class took over their predictions. */
static void add_ratios(cJSON *o, const struct class *c, const char *const keys[3]) {
    const double median = median_ratio(c);
    if (isnan(median)) return;
    add_width(o, keys[0], ratio_of(c, NULL, 1 - TAIL, true));
    add_width(o, keys[1], median);
    add_width(o, keys[2], ratio_of(c, NULL, 1 - TAIL, false));
}

/* Of the held-back rows of the same place, each once. */
static void add_sources(cJSON *band, const struct class *c, const struct validation_row *like) {
    cJSON *sources = cJSON_AddArrayToObject(band, "sources");
    for (int64_t i = 0; i < c->v->runs.count; i++) {
        const char *source = c->v->rows[i].measured->source;
        if (!held_back(c, i) || !same_place(&c->v->rows[i], like)) continue;
        bool known = false;
        const cJSON *item;
        cJSON_ArrayForEach(item, sources) known |= strcmp(item->valuestring, source) == 0;
        if (!known) cJSON_AddItemToArray(sources, cJSON_CreateString(source));
    }
}

static void add_calibration_rows(cJSON *o, const struct validation *v) {
    cJSON *ids = cJSON_AddArrayToObject(o, "calibrated_on");
    for (int64_t i = 0; i < v->runs.count; i++)
        if (v->rows[i].calibrated_on ||
            (v->rows[i].finds_encoder_factor && !isnan(v->rows[i].relative_error)))
            cJSON_AddItemToArray(ids, cJSON_CreateString(v->rows[i].measured->row_id));
}

static void add_stacks(cJSON *o, const struct class *c, double inside, double outside) {
    const struct validation *v = c->v;
    const double all = pooled(c, NULL, -1);
    cJSON *stacks = cJSON_AddArrayToObject(o, "stacks");
    for (int64_t i = 0; i < v->runs.count; i++) {
        const struct validation_row *row = &v->rows[i];
        bool first = held_back(c, i);
        for (int64_t k = 0; k < i && first; k++)
            first = !held_back(c, k) || !same_place(&v->rows[k], row);
        if (!first) continue;
        int64_t rows;
        const double width = own_width(c, i, &rows);
        cJSON *band = cJSON_CreateObject();
        cJSON_AddStringToObject(band, "stack", row->stack->name);
        char gpu[64];
        snprintf(gpu, sizeof gpu, "%.*s", (int)strcspn(row->hardware, "-"), row->hardware);
        cJSON_AddStringToObject(band, "gpu", gpu);
        add_width(band, "inside", width * inside / all);
        add_width(band, "outside", width * outside / all);
        cJSON_AddNumberToObject(band, "rows", (double)rows);
        add_sources(band, c, row);
        cJSON_AddItemToArray(stacks, band);
    }
}

static void report_class(const struct class *c, struct bands_report *report) {
    const int64_t rows = c->v->runs.count;
    double *widths = memory_alloc(sizeof *widths * (size_t)(rows + 1));
    double covered = 0, sum = 0, sum_abs = 0;
    size_t count = 0;
    for (int64_t i = 0; i < rows; i++) {
        const struct validation_row *row = &c->v->rows[i];
        if (!held_back(c, i)) continue;
        const struct band band =
            of_images(c->what)
                ? band_of_others(c, row->measured->source)
                : band_even(pooled(c, row->measured->source, row->inside_range) * lost_of(c, i));
        covered += covers(band, error_of(c, i));
        widths[count++] = band_half_width(band);
        sum += error_of(c, i);
        sum_abs += fabs(error_of(c, i));
    }
    gsl_sort(widths, 1, count);
    const double n = (double)count;
    report->of[c->what].rows = (int64_t)count;
    report->of[c->what].coverage = count > 0 ? covered / n : NAN;
    report->of[c->what].mean_abs = count > 0 ? sum_abs / n : NAN;
    report->of[c->what].mean_signed = count > 0 ? sum / n : NAN;
    report->of[c->what].median_half_width =
        count > 0 ? gsl_stats_median_from_sorted_data(widths, 1, count) : NAN;
    free(widths);
}

cJSON *validation_bands(const struct validation *v, const struct validation *no_factors,
                        const struct validation *no_name, struct bands_report *report) {
    const double *of_images = image_factors(v, no_factors);
    const struct class calibrated =
        make_class(v, BAND_CALIBRATED, factors_by_row(v, NULL, BAND_CALIBRATED), v),
                       relative = make_class(no_factors, BAND_RELATIVE,
                                             factors_by_row(v, no_factors, BAND_RELATIVE), v),
                       unknown = make_class(no_name, BAND_UNKNOWN,
                                            factors_by_row(v, no_name, BAND_UNKNOWN), v),
                       multimodal = make_class(no_factors, BAND_MULTIMODAL, of_images, v),
                       encoders = make_class(no_factors, BAND_ENCODERS, of_images, v);
    double inside, outside, relative_inside, relative_outside;
    pooled_by_range(&calibrated, &inside, &outside);
    pooled_by_range(&relative, &relative_inside, &relative_outside);
    cJSON *o = cJSON_CreateObject();
    cJSON_AddStringToObject(o, "description",
                            "80 % of the development rows that nothing was fitted on lie within "
                            "prediction x (1 +- width x (1 - HFU)), of models of images and "
                            "encoders from prediction x low to prediction x high; made by ballast "
                            "calibrate bands");
    add_width(o, "calibrated_inside", inside);
    add_width(o, "calibrated_outside", outside);
    add_width(o, "relative_inside", relative_inside);
    add_width(o, "relative_outside", relative_outside);
    add_width(o, "unknown", fmax(pooled(&unknown, NULL, -1), relative_outside));
    add_ratios(o, &multimodal, keys_of[BAND_MULTIMODAL]);
    add_ratios(o, &encoders, keys_of[BAND_ENCODERS]);
    add_width(o, "lost_least", least_lost(&calibrated, least_lost(&relative, 1)));
    add_width(o, "unknown_stack_factor", held_back_factor(v, no_name, BAND_UNKNOWN, NULL));
    add_width(o, "uncalibrated_stack_factor", held_back_factor(v, no_factors, BAND_RELATIVE, NULL));
    const double of_encoders = encoder_factor(no_factors, NULL);
    if (!isnan(of_encoders)) add_width(o, "encoder_factor", of_encoders);
    const double memory = memory_width(v);
    if (!isnan(memory)) add_width(o, "memory", memory);
    if (v->pairs.pairs > 0) {
        add_width(o, "calibrated_pair", v->pairs.p80);
        add_width(o, "relative_pair", fmax(v->pairs.p80, no_factors->pairs.p80));
    }
    add_calibration_rows(o, v);
    add_stacks(o, &calibrated, inside, outside);
    report_class(&calibrated, report);
    report_class(&relative, report);
    report_class(&unknown, report);
    report_class(&multimodal, report);
    report_class(&encoders, report);
    return o;
}

static void put(cJSON *bands, const cJSON *from, const char *key) {
    const cJSON *value = cJSON_GetObjectItemCaseSensitive(from, key);
    if (value == NULL) return;
    cJSON *copy = cJSON_Duplicate(value, true);
    if (cJSON_HasObjectItem(bands, key))
        cJSON_ReplaceItemInObjectCaseSensitive(bands, key, copy);
    else
        cJSON_AddItemToObject(bands, key, copy);
}

static double number_of(const cJSON *bands, const char *key) {
    const cJSON *value = cJSON_GetObjectItemCaseSensitive(bands, key);
    return cJSON_IsNumber(value) ? value->valuedouble : NAN;
}

/* Rows that shipped factors were fitted on are so whatever rows came now. */
static void keep_calibration_rows(cJSON *bands, const cJSON *before) {
    cJSON *ids = cJSON_GetObjectItemCaseSensitive(bands, "calibrated_on");
    const cJSON *id;
    cJSON_ArrayForEach(id, cJSON_GetObjectItemCaseSensitive(before, "calibrated_on")) {
        bool known = !cJSON_IsString(id);
        const cJSON *other;
        cJSON_ArrayForEach(other, ids) known |=
            !known && strcmp(other->valuestring, id->valuestring) == 0;
        if (!known) cJSON_AddItemToArray(ids, cJSON_CreateString(id->valuestring));
    }
}

void validation_bands_keep(cJSON *bands, const cJSON *before, const struct validation *v,
                           const struct bands_report *report) {
    int64_t memory_rows = 0, encoder_rows = 0;
    for (int64_t i = 0; i < v->runs.count; i++) {
        memory_rows += validation_memory_counts(&v->rows[i]) && !v->rows[i].multimodal;
        encoder_rows += v->rows[i].finds_encoder_factor && !isnan(v->rows[i].relative_error);
    }
    for (int c = 0; c < BAND_CLASS_COUNT; c++)
        for (int k = 0; report->of[c].rows < BAND_ROWS_LEAST && keys_of[c][k] != NULL; k++)
            put(bands, before, keys_of[c][k]);
    if (v->pairs.pairs < BAND_ROWS_LEAST) {
        put(bands, before, "calibrated_pair");
        put(bands, before, "relative_pair");
    }
    if (encoder_rows < BAND_ROWS_LEAST) put(bands, before, "encoder_factor");
    if (memory_rows < BAND_ROWS_LEAST) put(bands, before, "memory");
    if (number_of(before, "lost_least") < number_of(bands, "lost_least"))
        put(bands, before, "lost_least");
    /* What is less known is never narrower. */
    const double relative = number_of(bands, "relative_outside");
    if (number_of(bands, "unknown") < relative)
        cJSON_SetNumberValue(cJSON_GetObjectItemCaseSensitive(bands, "unknown"), relative);
    keep_calibration_rows(bands, before);
}
