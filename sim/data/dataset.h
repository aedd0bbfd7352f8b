/* dataset.h - the samples of a training run, in file order, 8 bytes each.
 *
 *     struct dataset *d = dataset_load(arena, "scenarios", "omnibal-real", &options, err);
 *     d->samples[i].vision_tiles, d->samples[i].language_tokens
 *
 * Ownership: the dataset owns its samples; dataset_destroy(). Read-only after loading.
 */
#ifndef BALLAST_SIM_DATA_DATASET_H
#define BALLAST_SIM_DATA_DATASET_H

#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>
#include "sim/base/arena.h"
#include "sim/base/error.h"
#include "sim/base/json.h"

struct sample {
    uint32_t language_tokens; /* text (template included) plus vision tokens in the language model */
    uint16_t vision_tiles;    /* tiles, images or (native resolution) see vision_patches below */
    uint16_t part;            /* index in dataset.parts */
};

struct dataset_part {
    const char *name;
    const char *status;       /* "real" or "reconstructed" or "synthetic" */
    int64_t sample_count;
};

struct dataset {
    const char *name;
    const char *description;
    const char *status;       /* "real", "reconstructed" (if any part is) or "synthetic" */
    const char *provenance;
    struct sample *samples;
    int64_t sample_count;
    uint32_t *vision_patches; /* native resolution only: encoder patches of each sample; NULL for tiles */
    struct dataset_part *parts;
    int64_t part_count;
    int64_t tile_language_tokens; /* language tokens that one tile becomes (256) */
};

/* Image pre-processing that a scenario may choose instead of the file's own tile counts. */
enum tiling_kind { TILING_AS_FILE, TILING_INTERNVL, TILING_NATIVE /* Qwen2-VL */ };
struct tiling {
    enum tiling_kind kind;
    int64_t min_tiles, max_tiles; /* InternVL: 1 and 12 by default */
    bool thumbnail;
    int64_t tile_pixels;          /* 448 */
    int64_t tile_language_tokens; /* 256 */
    int64_t patch_pixels, merge;  /* native: 14 and 2 */
    int64_t min_pixels, max_pixels; /* native: bounds of the resized image's area */
};

struct tiling tiling_default(void);

/* A name in <search>/datasets/ or a path (.json description, or data file itself: .json/.jsonl/.csv,
 * each also .gz). tiling may be NULL (as file). */
struct dataset *dataset_load(const char *search_directory, const char *name,
                             const struct tiling *tiling, struct error *err);
void dataset_destroy(struct dataset *dataset);

/* (columns x rows) and thumbnail of InternVL dynamic tiling (algorithms: OmniBal / InternVL). */
int64_t tiling_internvl_tiles(const struct tiling *tiling, int64_t width, int64_t height);
/* Encoder patches of Qwen2-VL's smart resize; language tokens are patches / merge^2. */
int64_t tiling_native_patches(const struct tiling *tiling, int64_t width, int64_t height);

#endif
