/* tiling.h - what an image of a given size becomes in front of a vision encoder.
 *
 * Public pre-processings, all pure functions of width and height:
 * - InternVL dynamic tiling: square tiles in the grid whose shape is nearest to the image's, plus a
 *   thumbnail when there is more than one; each tile becomes tile_language_tokens.
 * - Qwen2-VL native resolution: the image is resized so that both sides are multiples of
 *   patch_pixels x merge and the area lies between two bounds; patches / merge^2 language tokens.
 *
 * - LLaVA-1.6 any resolution: the canvas of 1x2, 2x1, 2x2, 1x3 or 3x1 tiles that keeps most of the
 *   image's pixels, plus the whole image as one more tile: 3 to 5 tiles.
 *
 *     struct tiling t = tiling_default();
 *     t.kind = TILING_INTERNVL;
 *     if (!tiling_check(&t, err)) return false;
 *     tiles = tiling_internvl_tiles(&t, 640, 480);    // 13 with at most 12 tiles and a thumbnail
 */
#ifndef BALLAST_SIM_DATA_TILING_H
#define BALLAST_SIM_DATA_TILING_H

#include <stdbool.h>
#include <stdint.h>
#include "sim/base/error.h"

/* Image pre-processing that a scenario may choose instead of the file's own tile counts. */
enum tiling_kind {
    TILING_AS_FILE,
    TILING_INTERNVL,
    TILING_NATIVE,         /* Qwen2-VL */
    TILING_ANYRES,         /* LLaVA-1.6, every tile with all its tokens */
    TILING_ANYRES_UNPADDED /* the same without the tokens of padding, as released */
};

struct tiling {
    enum tiling_kind kind;
    int64_t file_tiles; /* as-file: an image's tiles beyond these are left out; 0: none are */
    int64_t min_tiles, max_tiles; /* InternVL: 1 and 12 by default; the thumbnail comes on top */
    bool thumbnail;
    int64_t tile_pixels;            /* 448 */
    int64_t tile_language_tokens;   /* 256 */
    int64_t patch_pixels, merge;    /* native: 14 and 2 */
    int64_t min_pixels, max_pixels; /* native: bounds of the resized image's area */
};

/* By kind, for a field or an option; NULL ends it. */
extern const char *const tiling_names[];

enum { TILING_MAX_TILES = 100, TILING_MAX_ASPECT = 200 };

struct tiling tiling_default(void);
/* Are the bounds usable (user data: they come from a scenario)? */
bool tiling_check(const struct tiling *tiling, struct error *err);

/* (columns x rows) and thumbnail of InternVL dynamic tiling. Width and height are positive. */
int64_t tiling_internvl_tiles(const struct tiling *tiling, int64_t width, int64_t height);
/* Tiles of LLaVA-1.6's any resolution, the whole image included. Width and height are positive. */
int64_t tiling_anyres_tiles(const struct tiling *tiling, int64_t width, int64_t height);
/* Language tokens of its image when the canvas loses what was padded (LLaVA's unpad_image() and a
 * newline token a row; the whole image keeps all of its own). tile_language_tokens is a square. */
int64_t tiling_anyres_unpadded_tokens(const struct tiling *tiling, int64_t width, int64_t height);
/* Encoder patches of Qwen2-VL's smart resize; language tokens are patches / merge^2. 0: the public
 * rule refuses the image, because one side is more than TILING_MAX_ASPECT times the other. */
int64_t tiling_native_patches(const struct tiling *tiling, int64_t width, int64_t height);

/* The grids of a tiling, made once for many images. */
struct tiling_grids {
    struct tiling_grid {
        double aspect; /* columns / rows */
        int32_t tiles; /* columns x rows */
    } grids[512];      /* 482 pairs have a product of at most TILING_MAX_TILES */
    int32_t count;
    int32_t thumbnail_tiles; /* 1: added to every grid of more than one tile */
    double tile_area;
};

void tiling_grids_init(struct tiling_grids *grids, const struct tiling *tiling);
int64_t tiling_grids_tiles(const struct tiling_grids *grids, int64_t width, int64_t height);

#endif
