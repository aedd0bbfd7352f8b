/* dataset_stats.h - what a data set looks like: counts, moments, quantiles, histograms.
 *
 *     struct dataset_stats *s = dataset_stats_create(dataset);
 *     s->whole.language_tokens.p99, s->parts[i].vision_tiles.mean
 *     dataset_stats_destroy(s);
 */
#ifndef BALLAST_SIM_DATA_DATASET_STATS_H
#define BALLAST_SIM_DATA_DATASET_STATS_H

#include "sim/data/dataset.h"

struct dataset_summary {
    int64_t sum, max;
    double mean, std; /* std of the sample (n - 1); 0 for a single one */
    double p50, p90, p99;
};

struct dataset_histogram {
    int64_t bin_width; /* bin i counts values in [i x bin_width, (i + 1) x bin_width) */
    int64_t bin_count;
    int64_t *counts;
};

struct dataset_part_stats {
    const char *name, *status; /* borrowed from the dataset */
    int64_t sample_count;      /* 0: the rest is 0 too */
    struct dataset_summary vision_tiles, language_tokens;
    struct dataset_summary vision_patches; /* native resolution only */
    struct dataset_summary clip_ms;        /* of samples with a clip; all 0 without any */
    int64_t clip_count;
    double text_tokens_per_second; /* of clips; 0 without any */
    /* Language tokens that do not come from vision, over tiles (or images) without dummies; 0
     * without any. */
    double text_tokens_per_tile;
    struct dataset_histogram tile_histogram;  /* bins of 1 */
    struct dataset_histogram token_histogram; /* bins of DATASET_TOKEN_BIN */
};

enum { DATASET_TOKEN_BIN = 64 };

struct dataset_stats {
    struct dataset_part_stats whole;
    struct dataset_part_stats *parts; /* in the order of dataset->parts */
    int64_t part_count;
};

struct dataset_stats *dataset_stats_create(const struct dataset *dataset);
void dataset_stats_destroy(struct dataset_stats *stats);

#endif
