/* dataset_builder.h - turns records of any importer into samples: parts, tiling, limits, notes.
 *
 *     struct dataset_builder *b = dataset_builder_create(options, err);
 *     record.part = dataset_builder_part(b, "ai2d", 4);
 *     if (!dataset_builder_add(b, &record)) ... b->problem, b->hint say why
 *     struct dataset *d = dataset_builder_finish(b);
 *
 * Inside sim/data only.
 */
#ifndef BALLAST_SIM_DATA_DATASET_BUILDER_H
#define BALLAST_SIM_DATA_DATASET_BUILDER_H

#include "sim/data/dataset.h"

enum {
    RECORD_MAX_TOKENS = 100000000, /* of one sample; more is a mistake in the file */
    RECORD_MAX_TILES = 65535,
    RECORD_MAX_SIDE = 1000000,     /* pixels */
    RECORD_MAX_CLIP_MS = 86400000, /* a day */
    DATASET_MAX_PARTS = 65535,
    DEFAULT_TILE_LANGUAGE_TOKENS = 256
};

/* What one row or element says. -1: it does not say. */
struct sample_record {
    int64_t language_tokens, text_tokens, vision_tiles, vision_patches;
    int64_t clip_ms;        /* 0: no clip */
    int64_t frame_width, frame_height; /* of its frames; -1 or 0: not given */
    int64_t vision_squares; /* sum over the images of their squared patches */
    int64_t image_flags;    /* 0: no image (any tile is a dummy) */
    int64_t image_count;    /* 0: none */
    const struct image_size *images;
    int64_t part;
    bool estimated; /* token counts come from character counts */
};

extern const struct sample_record sample_record_empty;

struct dataset_builder {
    struct dataset *dataset;
    struct tiling tiling;
    struct tiling_grids grids;
    int64_t max_language_tokens, model_tile_language_tokens;
    int64_t clip_limit_ms;   /* longer clips are cut to this; 0: no */
    bool tile_tokens_stated; /* by the options: a description has no say */
    bool keep_images;
    const bool *kept_parts; /* by part: samples of others are passed over; NULL: all are kept */
    struct record_queue *overlay; /* by part, after dataset_builder_overlay; NULL: none */
    bool filling_overlay;         /* what is added goes there */
    int64_t kept_records;         /* added and not passed over, an overlay's too */
    int64_t sample_capacity, image_count, image_capacity, part_capacity;
    int32_t *part_slots; /* open addressing: part index + 1, 0 is free */
    size_t part_slot_count;
    int64_t last_part;
    int64_t declared_part_count; /* by a description, before any record */
    int64_t assumed_tiles, assumed_squares, cut_samples, cut_clips, estimated_samples,
        fewer_text_samples;
    int64_t sized_samples, one_tile_samples; /* whose image sizes the tiling leaves unused */
    char problem[256];                       /* of the last failed add */
    const char *hint;                        /* or NULL */
};

/* options may be NULL. NULL on error (an unusable tiling). */
struct dataset_builder *dataset_builder_create(const struct dataset_options *options,
                                               struct error *err);
void dataset_builder_destroy(struct dataset_builder *builder); /* after a failure */
/* Frees the builder. */
struct dataset *dataset_builder_finish(struct dataset_builder *builder);

/* The index of the part called so, made when it is new; -1 when there are too many. */
int64_t dataset_builder_part(struct dataset_builder *builder, const char *name, size_t length);
/* The samples come from this file too. */
void dataset_builder_source(struct dataset_builder *builder, const char *path);
/* A description states what one tile was counted as. */
void dataset_builder_tile_tokens(struct dataset_builder *builder, int64_t tokens);
bool dataset_builder_add(struct dataset_builder *builder, const struct sample_record *record);
/* What is added from now on is an overlay, until dataset_builder_under_overlay; from then on the
 * n-th record of a part that the overlay holds is taken from it. A record without one is
 * refused. */
void dataset_builder_overlay(struct dataset_builder *builder);
void dataset_builder_under_overlay(struct dataset_builder *builder);
/* Ends the overlay. The number of its records whose turn has not come, and the part of the
 * first. */
int64_t dataset_builder_overlay_end(struct dataset_builder *builder, int64_t *part);
/* A sample of another data set as it is; it must have no dummy tile. */
void dataset_builder_copy(struct dataset_builder *builder, const struct dataset *from,
                          int64_t sample, int64_t part);
void dataset_builder_note(struct dataset_builder *builder, const char *format, ...)
    __attribute__((format(printf, 2, 3)));

#endif
