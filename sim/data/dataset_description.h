/* dataset_description.h - a description while it is read, and what reads each of its kinds. Private
 * to sim/data.
 */
#ifndef BALLAST_SIM_DATA_DATASET_DESCRIPTION_H
#define BALLAST_SIM_DATA_DATASET_DESCRIPTION_H

#include "sim/data/dataset_builder.h"

enum dataset_kind { KIND_SAMPLES, KIND_DISTRIBUTION, KIND_BOUNDS, KIND_MIXTURE, KIND_COUNT };

struct dataset_description {
    const char *name, *description, *file, *provenance, *licence, *tokenizer;
    int kind, format, status;
    int64_t tile_language_tokens, sample_count, seed, clip_limit_ms, samples_per_bound;
    double correlation;
    const cJSON *files, *parts, *vision_tiles, *text_tokens, *language_tokens, *clip_ms,
        *frame_sizes;
    const cJSON *bounds, *components;
};

struct dataset_loading {
    const struct dataset_description *d;
    const struct json *json;
    const cJSON *node; /* the description */
    const char *directory;
    const struct dataset_options *options;
    struct dataset_builder *builder;
    struct error *err;
    bool chose_parts; /* of a file, so that some of those declared may stay empty */
};

static inline const cJSON *dataset_key(const struct dataset_loading *l, const char *key) {
    return cJSON_GetObjectItemCaseSensitive(l->node, key);
}

/* Kinds "distribution" and "bounds": samples drawn from distributions, in the second with a lower
 * and an upper bound of tiles that changes as the file goes on. */
bool dataset_draw(struct dataset_loading *loading);
/* Kind "mixture": samples of other data sets, drawn by weight. */
bool dataset_mix(struct dataset_loading *loading);

extern const struct field_table dataset_component_fields;

#endif
