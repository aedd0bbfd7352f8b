/* dataset_stats.c - moments and quantiles by GSL on sorted values.
 *
 * Values are small whole numbers, so they are sorted by counting: a million samples take
 * milliseconds. Quantiles interpolate between neighbours (GSL's definition).
 */
#include "sim/data/dataset_stats.h"

#include <gsl/gsl_sort.h>
#include <gsl/gsl_statistics.h>
#include <stdlib.h>
#include <string.h>

/* Larger values are sorted by comparison: a table of counts would be bigger than the samples. */
enum { COUNTING_LIMIT = 1 << 22 };

enum quantity { VISION_TILES, LANGUAGE_TOKENS, VISION_PATCHES, CLIP_MS };

struct scratch {
    double *values;
    int64_t *counts; /* one per value below limit, all 0 between uses */
    int64_t limit;
};

static uint32_t value_of(const struct dataset *d, int64_t i, enum quantity quantity) {
    switch (quantity) {
    case VISION_TILES:
        return d->samples[i].vision_tiles;
    case LANGUAGE_TOKENS:
        return d->samples[i].language_tokens;
    case VISION_PATCHES:
        return d->vision_patches[i];
    case CLIP_MS:
        return d->clip_ms[i];
    }
    ballast_bug("unknown quantity %d", (int)quantity);
}

static struct scratch scratch_create(const struct dataset *d) {
    int64_t max = 0;
    for (int64_t i = 0; i < d->sample_count; i++) {
        int64_t tokens = d->samples[i].language_tokens, tiles = d->samples[i].vision_tiles;
        int64_t patches = d->vision_patches != NULL ? d->vision_patches[i] : 0;
        if (tokens > max) max = tokens;
        if (tiles > max) max = tiles;
        if (patches > max) max = patches;
        if (d->clip_ms != NULL && d->clip_ms[i] > max) max = d->clip_ms[i];
    }
    struct scratch scratch = { .limit = max < COUNTING_LIMIT ? max + 1 : COUNTING_LIMIT };
    scratch.values = memory_alloc((size_t)d->sample_count * sizeof *scratch.values);
    scratch.counts = memory_alloc((size_t)scratch.limit * sizeof *scratch.counts);
    memset(scratch.counts, 0, (size_t)scratch.limit * sizeof *scratch.counts);
    return scratch;
}

static void sort_by_counting(struct scratch *scratch, int64_t count, int64_t max) {
    for (int64_t i = 0; i < count; i++)
        scratch->counts[(int64_t)scratch->values[i]]++;
    int64_t at = 0;
    for (int64_t value = 0; value <= max; value++) {
        while (scratch->counts[value] > 0) {
            scratch->values[at++] = (double)value;
            scratch->counts[value]--;
        }
    }
}

/* indices NULL: all samples. */
static struct dataset_summary summarize(const struct dataset *d, const uint32_t *indices,
                                        int64_t count, enum quantity quantity,
                                        struct scratch *scratch) {
    struct dataset_summary s = { 0 };
    if (count == 0) return s;
    for (int64_t i = 0; i < count; i++) {
        int64_t value = value_of(d, indices == NULL ? i : indices[i], quantity);
        scratch->values[i] = (double)value;
        s.sum += value;
        if (value > s.max) s.max = value;
    }
    if (s.max < scratch->limit)
        sort_by_counting(scratch, count, s.max);
    else
        gsl_sort(scratch->values, 1, (size_t)count);
    const double *sorted = scratch->values;
    size_t n = (size_t)count;
    s.mean = (double)s.sum / (double)count;
    s.std = count > 1 ? gsl_stats_sd_m(sorted, 1, n, s.mean) : 0;
    s.p50 = gsl_stats_quantile_from_sorted_data(sorted, 1, n, 0.50);
    s.p90 = gsl_stats_quantile_from_sorted_data(sorted, 1, n, 0.90);
    s.p99 = gsl_stats_quantile_from_sorted_data(sorted, 1, n, 0.99);
    return s;
}

static struct dataset_histogram count_bins(const struct dataset *d, const uint32_t *indices,
                                           int64_t count, enum quantity quantity, int64_t max,
                                           int64_t bin_width) {
    struct dataset_histogram h = { .bin_width = bin_width, .bin_count = max / bin_width + 1 };
    h.counts = memory_alloc((size_t)h.bin_count * sizeof *h.counts);
    memset(h.counts, 0, (size_t)h.bin_count * sizeof *h.counts);
    for (int64_t i = 0; i < count; i++)
        h.counts[value_of(d, indices == NULL ? i : indices[i], quantity) / bin_width]++;
    return h;
}

/* Over samples with a clip only: the others would pull the mean of a mixture down. */
static void fill_clips(struct dataset_part_stats *p, const struct dataset *d,
                       const uint32_t *indices, int64_t count, struct scratch *scratch) {
    uint32_t *with = memory_alloc((size_t)(count > 0 ? count : 1) * sizeof *with);
    double tokens = 0;
    for (int64_t i = 0; i < count; i++) {
        uint32_t index = indices == NULL ? (uint32_t)i : indices[i];
        if (d->clip_ms[index] == 0) continue;
        with[p->clip_count++] = index;
        tokens += d->samples[index].language_tokens;
    }
    p->clip_ms = summarize(d, with, p->clip_count, CLIP_MS, scratch);
    if (p->clip_count > 0) p->text_tokens_per_second = 1000 * tokens / (double)p->clip_ms.sum;
    free(with);
}

static void fill(struct dataset_part_stats *p, const struct dataset *d, const uint32_t *indices,
                 int64_t count, int64_t dummy_tiles, struct scratch *scratch) {
    p->sample_count = count;
    p->vision_tiles = summarize(d, indices, count, VISION_TILES, scratch);
    p->language_tokens = summarize(d, indices, count, LANGUAGE_TOKENS, scratch);
    int64_t tiles = p->vision_tiles.sum - dummy_tiles;
    int64_t vision_tokens = tiles * d->tile_language_tokens;
    if (d->vision_patches != NULL) {
        p->vision_patches = summarize(d, indices, count, VISION_PATCHES, scratch);
        vision_tokens = p->vision_patches.sum / d->patches_per_language_token;
    }
    if (d->clip_ms != NULL) fill_clips(p, d, indices, count, scratch);
    if (tiles > 0)
        p->text_tokens_per_tile = (double)(p->language_tokens.sum - vision_tokens) / (double)tiles;
    p->tile_histogram = count_bins(d, indices, count, VISION_TILES, p->vision_tiles.max, 1);
    p->token_histogram =
        count_bins(d, indices, count, LANGUAGE_TOKENS, p->language_tokens.max, DATASET_TOKEN_BIN);
}

/* Sample indices grouped by part, in file order inside each; starts has part_count + 1 items. */
static uint32_t *group_by_part(const struct dataset *d, int64_t *starts) {
    uint32_t *indices = memory_alloc((size_t)d->sample_count * sizeof *indices);
    int64_t *next = memory_alloc((size_t)d->part_count * sizeof *next);
    starts[0] = 0;
    for (int64_t p = 0; p < d->part_count; p++) {
        next[p] = starts[p];
        starts[p + 1] = starts[p] + d->parts[p].sample_count;
    }
    for (int64_t i = 0; i < d->sample_count; i++)
        indices[next[d->samples[i].part]++] = (uint32_t)i;
    free(next);
    return indices;
}

struct dataset_stats *dataset_stats_create(const struct dataset *dataset) {
    const struct dataset *d = dataset;
    struct dataset_stats *s = memory_alloc(sizeof *s);
    memset(s, 0, sizeof *s);
    struct scratch scratch = scratch_create(d);
    s->whole.name = d->name;
    s->whole.status = d->status;
    int64_t dummy_tiles = 0;
    for (int64_t p = 0; p < d->part_count; p++)
        dummy_tiles += d->parts[p].dummy_tiles;
    fill(&s->whole, d, NULL, d->sample_count, dummy_tiles, &scratch);

    s->part_count = d->part_count;
    s->parts = memory_alloc((size_t)d->part_count * sizeof *s->parts);
    memset(s->parts, 0, (size_t)d->part_count * sizeof *s->parts);
    int64_t *starts = memory_alloc((size_t)(d->part_count + 1) * sizeof *starts);
    uint32_t *indices = group_by_part(d, starts);
    for (int64_t p = 0; p < d->part_count; p++) {
        s->parts[p].name = d->parts[p].name;
        s->parts[p].status = d->parts[p].status;
        fill(&s->parts[p], d, indices + starts[p], d->parts[p].sample_count,
             d->parts[p].dummy_tiles, &scratch);
    }
    free(indices);
    free(starts);
    free(scratch.values);
    free(scratch.counts);
    return s;
}

void dataset_stats_destroy(struct dataset_stats *stats) {
    if (stats == NULL) return;
    for (int64_t p = -1; p < stats->part_count; p++) {
        struct dataset_part_stats *part = p < 0 ? &stats->whole : &stats->parts[p];
        free(part->tile_histogram.counts);
        free(part->token_histogram.counts);
    }
    free(stats->parts);
    free(stats);
}
