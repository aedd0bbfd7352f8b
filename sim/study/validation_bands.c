/* validation_bands.c - half-widths of 80 % bands from residuals that nothing was fitted to.
 *
 * The residual of a row is |measured / predicted - 1|, because a band stands around the prediction.
 * The half-width of a stack on a GPU is the 80th percentile of its rows' residuals and of those of
 * all other stacks on all GPUs, which together weigh as much as POOL_ROWS rows: a stack with few
 * rows leans on the others. Rows inside and outside the measured range of the operators' curves are
 * pooled apart; a stack's own rows count for both, scaled by the ratio of the two pools.
 *
 * Peak memory: the same share of all readings that tell what a run needed and that no cause of a stack
 * was read from, whatever their kind.
 *
 * The coverage that is reported takes, for each row, the band from the rows of other sources alone.
 */
#include "sim/study/validation.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define POOL_ROWS 20.0
#define SHARE     0.8

struct residual {
    double size, weight;
};

static int compare_sizes(const void *a, const void *b) {
    const double x = ((const struct residual *)a)->size, y = ((const struct residual *)b)->size;
    return (x > y) - (x < y);
}

/* NaN without residuals. */
static double quantile(struct residual *residuals, int64_t count) {
    double total = 0, sum = 0;
    for (int64_t i = 0; i < count; i++)
        total += residuals[i].weight;
    qsort(residuals, (size_t)count, sizeof *residuals, compare_sizes);
    for (int64_t i = 0; i < count; i++) {
        sum += residuals[i].weight;
        if (sum >= SHARE * total) return residuals[i].size;
    }
    return NAN;
}

/* A stack that borrows its factors is no evidence for calibrated ones. */
static bool held_back(const struct validation_row *row) {
    return !isnan(row->relative_error) && !row->calibrated_on && row->calibrated_stack;
}

static double residual_of(const struct validation_row *row) {
    return fabs(row->measured->iter_time_s / row->predicted_s - 1);
}

static bool same_place(const struct validation_row *a, const struct validation_row *b) {
    return a->stack == b->stack &&
           strncmp(a->hardware, b->hardware, strcspn(a->hardware, "-") + 1) == 0;
}

/* Of all held-back rows but those of one source (NULL: of all); range -1: inside and outside. */
static double pooled(const struct validation *v, const char *but_source, int range) {
    struct residual *list = memory_alloc(sizeof *list * (size_t)(v->runs.count + 1));
    int64_t count = 0;
    for (int64_t i = 0; i < v->runs.count; i++) {
        const struct validation_row *row = &v->rows[i];
        if (!held_back(row) || (range >= 0 && row->inside_range != (range == 1))) continue;
        if (but_source != NULL && strcmp(row->measured->source, but_source) == 0) continue;
        list[count++] = (struct residual){ residual_of(row), 1 };
    }
    /* Too few on one side of the range say nothing of it. */
    const double width = count >= 8 || range < 0 ? quantile(list, count) : NAN;
    free(list);
    return isnan(width) && range >= 0 ? pooled(v, but_source, -1) : width;
}

/* Inside the measured range no wider than outside: where residuals say otherwise they are too few to
 * tell the two apart. */
static void pooled_by_range(const struct validation *v, double *inside, double *outside) {
    *inside = pooled(v, NULL, 1);
    *outside = pooled(v, NULL, 0);
    if (*inside > *outside) *inside = *outside = pooled(v, NULL, -1);
}

/* The stack and GPU of `like`, leaning on all others. */
static double own_width(const struct validation *v, const struct validation_row *like,
                        int64_t *rows) {
    struct residual *list = memory_alloc(sizeof *list * (size_t)(v->runs.count + 1));
    int64_t count = 0, others = 0;
    *rows = 0;
    for (int64_t i = 0; i < v->runs.count; i++)
        others += held_back(&v->rows[i]) && !same_place(&v->rows[i], like);
    for (int64_t i = 0; i < v->runs.count; i++) {
        const struct validation_row *row = &v->rows[i];
        if (!held_back(row)) continue;
        const bool own = same_place(row, like);
        *rows += own;
        list[count++] = (struct residual){ residual_of(row), own ? 1 : POOL_ROWS / (double)others };
    }
    const double width = quantile(list, count);
    free(list);
    return width;
}

static double memory_width(const struct validation *v) {
    struct residual *list = memory_alloc(sizeof *list * (size_t)(v->runs.count + 1));
    int64_t count = 0;
    for (int64_t i = 0; i < v->runs.count; i++) {
        const struct validation_row *row = &v->rows[i];
        if (!validation_memory_counts(row)) continue;
        const double residual = row->measured->peak_mem_GiB / row->predicted_peak_GiB - 1;
        list[count++] = (struct residual){ fabs(residual), 1 };
    }
    const double width = quantile(list, count);
    free(list);
    return width;
}

static double rounded(double value) {
    return round(value * 1e4) / 1e4;
}

static void add_width(cJSON *o, const char *key, double width) {
    cJSON_AddNumberToObject(o, key, rounded(fmax(width, 0.001)));
}

cJSON *validation_bands(const struct validation *v, const struct validation *left_out,
                        struct bands_report *report) {
    cJSON *o = cJSON_CreateObject();
    double inside, outside, relative_inside, relative_outside;
    pooled_by_range(v, &inside, &outside);
    pooled_by_range(left_out, &relative_inside, &relative_outside);
    const double all = pooled(v, NULL, -1);
    cJSON_AddStringToObject(o, "description",
                            "80 % of the development rows that nothing was fitted on lie within "
                            "prediction x (1 +- width); made by ballast calibrate bands");
    add_width(o, "calibrated_inside", inside);
    add_width(o, "calibrated_outside", outside);
    add_width(o, "relative_inside", relative_inside);
    add_width(o, "relative_outside", relative_outside);
    const double memory = memory_width(v);
    if (!isnan(memory)) add_width(o, "memory", memory);
    cJSON *stacks = cJSON_AddArrayToObject(o, "stacks");
    for (int64_t i = 0; i < v->runs.count; i++) {
        const struct validation_row *row = &v->rows[i];
        bool first = held_back(row);
        for (int64_t k = 0; k < i && first; k++)
            first = !held_back(&v->rows[k]) || !same_place(&v->rows[k], row);
        if (!first) continue;
        int64_t rows;
        const double width = own_width(v, row, &rows);
        cJSON *band = cJSON_CreateObject();
        cJSON_AddStringToObject(band, "stack", row->stack->name);
        char gpu[64];
        snprintf(gpu, sizeof gpu, "%.*s", (int)strcspn(row->hardware, "-"), row->hardware);
        cJSON_AddStringToObject(band, "gpu", gpu);
        add_width(band, "inside", width * inside / all);
        add_width(band, "outside", width * outside / all);
        cJSON_AddNumberToObject(band, "rows", (double)rows);
        cJSON_AddItemToArray(stacks, band);
    }
    *report = (struct bands_report){ 0 };
    double covered = 0;
    for (int64_t i = 0; i < v->runs.count; i++) {
        const struct validation_row *row = &v->rows[i];
        if (!held_back(row)) continue;
        report->rows++;
        covered += residual_of(row) <= pooled(v, row->measured->source, row->inside_range);
    }
    report->coverage = report->rows > 0 ? covered / (double)report->rows : NAN;
    return o;
}
