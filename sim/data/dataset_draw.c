/* dataset_draw.c - samples drawn from distributions.
 *
 * Four uniform numbers of GSL's mt19937 per sample, in order: tiles u and v, tokens u and v (v
 * chooses the component of a mixture). Correlation is a Gaussian copula: with standard normal
 * scores a = F^-1(u_tiles) and b = F^-1(u_tokens), tokens use F(c a + sqrt(1 - c^2) b). The count
 * of random numbers does not depend on the parameters, so changing one column's distribution leaves
 * the other column as it was. Samples with video clips take two more numbers, the clip's u and v;
 * their tokens correlate with the clip instead of the tiles.
 *
 * Kind "bounds" gives each sample the bounds of tiles of its place in the file: its tiles follow
 * the distribution under the condition that they lie within (u is mapped to the part of (0, 1)
 * whose quantiles do). Where the distribution has nothing within, the nearest bound is taken.
 */
#include <gsl/gsl_cdf.h>
#include <gsl/gsl_rng.h>
#include <math.h>
#include <string.h>
#include "sim/data/dataset_description.h"
#include "sim/data/distribution.h"

/* NULL: the column is not drawn. */
struct columns {
    const struct distribution *tiles, *clips, *tokens;
};

struct bounds {
    int64_t lower, upper;
};

static bool needs(const struct dataset_loading *l, const char *key, const char *hint) {
    if (dataset_key(l, key) != NULL && !cJSON_IsNull(dataset_key(l, key))) return true;
    return json_error(l->json, l->node, l->err, hint, "\"%s\" is missing from \"dataset\"", key);
}

static bool check_keys(const struct dataset_loading *l) {
    const struct dataset_description *d = l->d;
    const char *const foreign[] = { "file", "files", "parts", "components" };
    for (size_t i = 0; i < sizeof foreign / sizeof foreign[0]; i++)
        if (dataset_key(l, foreign[i]) != NULL)
            return json_error(l->json, dataset_key(l, foreign[i]), l->err, NULL,
                              "\"%s\" has no meaning for a data set that is drawn", foreign[i]);
    if (d->kind == KIND_BOUNDS) {
        if (!needs(l, "bounds", "a list of [lower, upper], most tiles of a sample") ||
            !needs(l, "samples_per_bound", "how many samples have the same bounds") ||
            !needs(l, "vision_tiles", "the distribution within the bounds"))
            return false;
    } else if (d->sample_count < 0) {
        return needs(l, "sample_count", "how many samples to draw");
    }
    if ((d->text_tokens != NULL) == (d->language_tokens != NULL))
        return json_error(l->json, l->node, l->err, NULL,
                          "a data set that is drawn needs either \"text_tokens\" or "
                          "\"language_tokens\"");
    return true;
}

/* ---- bounds ---- */

static bool read_bound(const struct dataset_loading *l, const cJSON *node, struct bounds *out) {
    const cJSON *lower = cJSON_GetArrayItem(node, 0), *upper = cJSON_GetArrayItem(node, 1);
    bool ok = cJSON_IsArray(node) && cJSON_GetArraySize(node) == 2 && cJSON_IsNumber(lower) &&
              cJSON_IsNumber(upper) && lower->valuedouble >= 0 &&
              upper->valuedouble >= lower->valuedouble && upper->valuedouble <= RECORD_MAX_TILES;
    if (!ok)
        return json_error(l->json, node, l->err, "for example [0, 32]",
                          "must be [lower, upper] with 0 <= lower <= upper <= %d",
                          RECORD_MAX_TILES);
    *out = (struct bounds){ (int64_t)ceil(lower->valuedouble), (int64_t)floor(upper->valuedouble) };
    if (out->lower > out->upper)
        return json_error(l->json, node, l->err, NULL, "no whole number lies within the bounds");
    const cJSON *whole = l->d->language_tokens; /* its images included */
    const int64_t tile_tokens = l->d->tile_language_tokens;
    if (!cJSON_IsNumber(whole) || tile_tokens < 0 ||
        (double)(out->upper * tile_tokens) <= whole->valuedouble)
        return true;
    return json_error(l->json, node, l->err, "lower the upper bound, or raise \"language_tokens\"",
                      "%lld tiles of %lld language tokens are more than the %.0f of a sample",
                      (long long)out->upper, (long long)tile_tokens, whole->valuedouble);
}

/* NULL without an error: the kind has none. */
static struct bounds *read_bounds(const struct dataset_loading *l, int64_t *count) {
    const cJSON *list = l->d->bounds;
    if (!cJSON_IsArray(list) || list->child == NULL) {
        json_error(l->json, list, l->err, "for example [[0, 32], [4, 32]]",
                   "\"bounds\" must be a list of [lower, upper]");
        return NULL;
    }
    *count = cJSON_GetArraySize(list);
    struct bounds *bounds = arena_array(l->builder->dataset->arena, struct bounds, *count);
    int64_t i = 0;
    for (const cJSON *node = list->child; node != NULL; node = node->next)
        if (!read_bound(l, node, &bounds[i++])) return NULL;
    return bounds;
}

/* The largest u, to 2^-52, whose quantile is below `value`; 0 if there is none. */
static double below(const struct distribution *d, int64_t value, double v) {
    double low = 0, high = 1;
    for (int i = 0; i < 52; i++) {
        double middle = (low + high) / 2;
        if (middle > 0 && distribution_quantile(d, middle, v) < value)
            low = middle;
        else
            high = middle;
    }
    return low;
}

static int64_t draw_within(const struct distribution *d, double u, double v,
                           const struct bounds *bounds) {
    double from = below(d, bounds->lower, v), to = below(d, bounds->upper + 1, v);
    double inside = from + u * (to - from);
    int64_t value = inside > 0 && inside < 1 ? distribution_quantile(d, inside, v) : bounds->lower;
    if (value < bounds->lower) return bounds->lower;
    return value > bounds->upper ? bounds->upper : value;
}

/* ---- drawing ---- */

static double correlated(double u_other, double u_tokens, double correlation) {
    if (correlation == 0) return u_tokens;
    double a = gsl_cdf_ugaussian_Pinv(u_other), b = gsl_cdf_ugaussian_Pinv(u_tokens);
    return gsl_cdf_ugaussian_P(correlation * a + sqrt(1 - correlation * correlation) * b);
}

/* `bounds` may be NULL. */
static struct sample_record draw_record(const struct dataset_description *d,
                                        const struct columns *columns, const struct bounds *bounds,
                                        gsl_rng *rng) {
    double u_tiles = gsl_rng_uniform_pos(rng), v_tiles = gsl_rng_uniform_pos(rng);
    double u_tokens = gsl_rng_uniform_pos(rng), v_tokens = gsl_rng_uniform_pos(rng);
    struct sample_record record = sample_record_empty;
    record.vision_tiles = columns->tiles == NULL ? 0
                          : bounds != NULL
                              ? draw_within(columns->tiles, u_tiles, v_tiles, bounds)
                              : distribution_quantile(columns->tiles, u_tiles, v_tiles);
    double u_other = u_tiles;
    if (columns->clips != NULL) {
        u_other = gsl_rng_uniform_pos(rng);
        record.clip_ms = distribution_quantile(columns->clips, u_other, gsl_rng_uniform_pos(rng));
    }
    int64_t drawn = distribution_quantile(columns->tokens,
                                          correlated(u_other, u_tokens, d->correlation), v_tokens);
    if (d->text_tokens != NULL)
        record.text_tokens = drawn;
    else
        record.language_tokens = drawn;
    return record;
}

/* ---- sizes of frames ---- */

enum { FRAME_SIZE_LIMIT = 1000 };

struct frame_choice {
    int64_t width, height;
    double cumulative; /* share of this and those before it */
};

static bool read_side(const struct dataset_loading *l, const cJSON *node, const char *key,
                      int64_t *out) {
    const cJSON *side = cJSON_GetObjectItemCaseSensitive(node, key);
    if (!cJSON_IsNumber(side) ||
        !(side->valuedouble >= 1 && side->valuedouble <= RECORD_MAX_SIDE) ||
        side->valuedouble != floor(side->valuedouble))
        return json_error(l->json, side != NULL ? side : node, l->err,
                          "for example { \"width\": 1280, \"height\": 720, \"share\": 0.5 }",
                          "\"%s\" must be a whole number of 1 to %d pixels", key, RECORD_MAX_SIDE);
    *out = (int64_t)side->valuedouble;
    return true;
}

/* No choices where the description gives none. */
static bool read_frame_sizes(const struct dataset_loading *l, struct frame_choice **choices,
                             int64_t *count) {
    const cJSON *list = l->d->frame_sizes, *node;
    if (list == NULL || cJSON_IsNull(list)) return true;
    const int size = cJSON_GetArraySize(list);
    if (!cJSON_IsArray(list) || size < 1 || size > FRAME_SIZE_LIMIT)
        return json_error(l->json, list, l->err,
                          "for example [{ \"width\": 1280, \"height\": 720, \"share\": 0.5 }]",
                          "\"frame_sizes\" must be a list of 1 to %d sizes", FRAME_SIZE_LIMIT);
    if (l->d->clip_ms == NULL)
        return json_error(l->json, list, l->err, "\"clip_ms\" gives their lengths",
                          "\"frame_sizes\" without clips");
    *choices = arena_array(l->builder->dataset->arena, struct frame_choice, size);
    double sum = 0;
    cJSON_ArrayForEach(node, list) {
        struct frame_choice *c = &(*choices)[(*count)++];
        const cJSON *share = cJSON_GetObjectItemCaseSensitive(node, "share");
        if (!read_side(l, node, "width", &c->width) || !read_side(l, node, "height", &c->height))
            return false;
        if (!cJSON_IsNumber(share) || !(share->valuedouble > 0 && share->valuedouble <= 1e9))
            return json_error(l->json, share != NULL ? share : node, l->err, "of all clips",
                              "\"share\" must be a number above 0");
        sum += share->valuedouble;
        c->cumulative = sum;
    }
    return true;
}

/* By a stream of its own, so that all else is drawn as without sizes. */
static void draw_frame_size(const struct frame_choice *choices, int64_t count, gsl_rng *rng,
                            struct sample_record *record) {
    if (count == 0) return;
    const double drawn = gsl_rng_uniform(rng) * choices[count - 1].cumulative;
    int64_t i = 0;
    while (i < count - 1 && drawn >= choices[i].cumulative)
        i++;
    record->frame_width = choices[i].width;
    record->frame_height = choices[i].height;
}

static bool draw_samples(struct dataset_loading *l, const struct columns *columns,
                         const struct bounds *bounds, int64_t count) {
    const struct dataset_description *d = l->d;
    int64_t part = dataset_builder_part(l->builder, d->name, strlen(d->name));
    struct frame_choice *sizes = NULL;
    int64_t size_count = 0;
    if (!read_frame_sizes(l, &sizes, &size_count)) return false;
    enum { SIZE_STREAM = 0x5f3759df };
    gsl_rng *rng = gsl_rng_alloc(gsl_rng_mt19937), *size_rng = gsl_rng_alloc(gsl_rng_mt19937);
    gsl_rng_set(rng, (unsigned long)d->seed);
    gsl_rng_set(size_rng, (unsigned long)d->seed ^ SIZE_STREAM);
    bool ok = true;
    for (int64_t i = 0; ok && i < count; i++) {
        struct sample_record record =
            draw_record(d, columns, bounds != NULL ? &bounds[i / d->samples_per_bound] : NULL, rng);
        record.part = part;
        draw_frame_size(sizes, size_count, size_rng, &record);
        ok = dataset_builder_add(l->builder, &record) ||
             json_error(l->json, l->node, l->err, l->builder->hint, "sample %lld: %s", (long long)i,
                        l->builder->problem);
    }
    gsl_rng_free(size_rng);
    gsl_rng_free(rng);
    return ok;
}

static bool read_columns(struct dataset_loading *l, struct columns *columns) {
    const struct dataset_description *d = l->d;
    const struct {
        const cJSON *node;
        const struct distribution **column;
    } given[] = {
        { d->vision_tiles, &columns->tiles },
        { d->clip_ms, &columns->clips },
        { d->text_tokens != NULL ? d->text_tokens : d->language_tokens, &columns->tokens },
    };
    for (size_t i = 0; i < sizeof given / sizeof given[0]; i++) {
        if (given[i].node == NULL) continue;
        *given[i].column =
            distribution_read(l->builder->dataset->arena, l->json, given[i].node, l->err);
        if (*given[i].column == NULL) return false;
    }
    return true;
}

bool dataset_draw(struct dataset_loading *l) {
    const struct dataset_description *d = l->d;
    struct columns columns = { 0 };
    if (!check_keys(l) || !read_columns(l, &columns)) return false;
    if (d->kind == KIND_DISTRIBUTION) return draw_samples(l, &columns, NULL, d->sample_count);
    int64_t count = 0;
    const struct bounds *bounds = read_bounds(l, &count);
    if (bounds == NULL) return false;
    count *= d->samples_per_bound;
    if (d->sample_count >= 0 && d->sample_count != count)
        return json_error(l->json, dataset_key(l, "sample_count"), l->err, "leave it out",
                          "the bounds stand for %lld samples", (long long)count);
    return draw_samples(l, &columns, bounds, count);
}
