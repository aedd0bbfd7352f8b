/* tiling.c - image sizes to tiles or patches.
 *
 * Dynamic tiling (OpenGVLab/InternVL, internvl_chat/internvl/train/dataset.py): among all grids of
 * min..max tiles, in order of their area, take the one whose columns/rows is nearest to
 * width/height. On an exact tie the later grid wins if the image has more than half the pixels of
 * that grid. Grids of equal area that tie have equal tile counts, so their mutual order is free.
 *
 * Smart resize (QwenLM/Qwen2-VL, qwen-vl-utils, and the Qwen2-VL image processor of Hugging Face
 * transformers): round each side to the nearest multiple of patch x merge (half to even, as Python
 * rounds), at least one; if the area then exceeds max_pixels, shrink both sides by one factor and
 * round down; if it is below min_pixels, grow and round up. The default bounds are those of the
 * published checkpoints' preprocessor_config.json.
 *
 * Any resolution (haotian-liu/LLaVA, llava/mm_utils.py, select_best_resolution; grids of the
 * released 1.6 configurations): scale the image into each canvas keeping its shape; the effective
 * pixels are those of the scaled image, at most its own; most effective pixels win, then least
 * waste, then list order.
 *
 * All comparisons are in double precision as in the originals, so that ties fall the same way.
 */
#include "sim/data/tiling.h"

#include <math.h>
#include <stddef.h>

const char *const tiling_names[] = { [TILING_AS_FILE] = "as-file",
                                     [TILING_INTERNVL] = "internvl",
                                     [TILING_NATIVE] = "native",
                                     [TILING_ANYRES] = "anyres",
                                     [TILING_ANYRES_UNPADDED] = "anyres-unpadded",
                                     NULL };

struct tiling tiling_default(void) {
    return (struct tiling){
        .kind = TILING_AS_FILE,
        .min_tiles = 1,
        .max_tiles = 12,
        .thumbnail = true,
        .tile_pixels = 448,
        .tile_language_tokens = 256,
        .patch_pixels = 14,
        .merge = 2,
        .min_pixels = 56 * 56,
        .max_pixels = 16384 * 28 * 28,
    };
}

bool tiling_check(const struct tiling *tiling, struct error *err) {
    if (tiling->kind == TILING_INTERNVL) {
        if (tiling->min_tiles < 1 || tiling->max_tiles < tiling->min_tiles ||
            tiling->max_tiles > TILING_MAX_TILES)
            return error_set(err, "tiling: %lld to %lld tiles: must be 1 <= min <= max <= %d",
                             (long long)tiling->min_tiles, (long long)tiling->max_tiles,
                             TILING_MAX_TILES);
        if (tiling->tile_pixels < 1 || tiling->tile_language_tokens < 0)
            return error_set(err, "tiling: tile_pixels must be positive and tile_language_tokens "
                                  "not negative");
    }
    const bool anyres =
        tiling->kind == TILING_ANYRES || tiling->kind == TILING_ANYRES_UNPADDED;
    if (anyres && tiling->tile_pixels < 1)
        return error_set(err, "tiling: tile_pixels must be positive");
    if (tiling->kind == TILING_NATIVE) {
        if (tiling->patch_pixels < 1 || tiling->merge < 1)
            return error_set(err, "tiling: patch_pixels and merge must be positive");
        if (tiling->min_pixels < 1 || tiling->max_pixels < tiling->min_pixels)
            return error_set(err, "tiling: %lld to %lld pixels: must be 1 <= min <= max",
                             (long long)tiling->min_pixels, (long long)tiling->max_pixels);
    }
    return true;
}

void tiling_grids_init(struct tiling_grids *grids, const struct tiling *tiling) {
    ballast_check(tiling->min_tiles >= 1 && tiling->max_tiles <= TILING_MAX_TILES);
    grids->count = 0;
    grids->thumbnail_tiles = tiling->thumbnail ? 1 : 0;
    grids->tile_area = (double)tiling->tile_pixels * (double)tiling->tile_pixels;
    for (int64_t tiles = tiling->min_tiles; tiles <= tiling->max_tiles; tiles++)
        for (int64_t columns = 1; columns <= tiles; columns++)
            if (tiles % columns == 0)
                grids->grids[grids->count++] =
                    (struct tiling_grid){ (double)columns / (double)(tiles / columns),
                                          (int32_t)tiles };
}

int64_t tiling_grids_tiles(const struct tiling_grids *grids, int64_t width, int64_t height) {
    ballast_check(width > 0 && height > 0);
    double aspect = (double)width / (double)height;
    double area = (double)width * (double)height;
    double best_distance = INFINITY;
    int32_t best = 1;
    for (int32_t i = 0; i < grids->count; i++) {
        const struct tiling_grid *grid = &grids->grids[i];
        double distance = fabs(aspect - grid->aspect);
        if (distance < best_distance) {
            best_distance = distance;
            best = grid->tiles;
        } else if (distance == best_distance && area > 0.5 * grids->tile_area * grid->tiles) {
            best = grid->tiles;
        }
    }
    return best + (best > 1 ? grids->thumbnail_tiles : 0);
}

int64_t tiling_internvl_tiles(const struct tiling *tiling, int64_t width, int64_t height) {
    struct tiling_grids grids;
    tiling_grids_init(&grids, tiling);
    return tiling_grids_tiles(&grids, width, height);
}

/* Columns and rows, in the order of the released configurations' grid points. */
static const struct {
    int8_t columns, rows;
} anyres_canvases[] = { { 1, 2 }, { 2, 1 }, { 2, 2 }, { 3, 1 }, { 1, 3 } };

/* Of anyres_canvases. */
static size_t anyres_canvas(const struct tiling *tiling, int64_t width, int64_t height) {
    ballast_check(width > 0 && height > 0);
    double w = (double)width, h = (double)height, side = (double)tiling->tile_pixels;
    double most = -1, least_waste = INFINITY;
    size_t best = 0;
    for (size_t i = 0; i < sizeof anyres_canvases / sizeof anyres_canvases[0]; i++) {
        double canvas_w = side * anyres_canvases[i].columns;
        double canvas_h = side * anyres_canvases[i].rows;
        double scale = fmin(canvas_w / w, canvas_h / h);
        double effective = fmin(floor(w * scale) * floor(h * scale), w * h);
        double waste = canvas_w * canvas_h - effective;
        if (effective < most || (effective == most && waste >= least_waste)) continue;
        most = effective;
        least_waste = waste;
        best = i;
    }
    return best;
}

int64_t tiling_anyres_tiles(const struct tiling *tiling, int64_t width, int64_t height) {
    const size_t canvas = anyres_canvas(tiling, width, height);
    return anyres_canvases[canvas].columns * anyres_canvases[canvas].rows + 1;
}

/* Rows or columns that stay of `whole` when the image's own side shrinks to `side`: padding is cut
 * on both sides alike. */
static int64_t unpadded(int64_t whole, int64_t side) {
    return whole - 2 * ((whole - side) / 2);
}

int64_t tiling_anyres_unpadded_tokens(const struct tiling *tiling, int64_t width, int64_t height) {
    const size_t canvas = anyres_canvas(tiling, width, height);
    const int64_t side = (int64_t)sqrt((double)tiling->tile_language_tokens);
    int64_t columns = side * anyres_canvases[canvas].columns,
            rows = side * anyres_canvases[canvas].rows;
    const double w = (double)width, h = (double)height;
    if (w / h > (double)columns / (double)rows)
        rows = unpadded(rows, (int64_t)(h * ((double)columns / w)));
    else
        columns = unpadded(columns, (int64_t)(w * ((double)rows / h)));
    return columns * rows + rows + tiling->tile_language_tokens;
}

static double at_least_one(double units) {
    return units < 1 ? 1 : units;
}

int64_t tiling_native_patches(const struct tiling *tiling, int64_t width, int64_t height) {
    ballast_check(width > 0 && height > 0);
    double w = (double)width, h = (double)height;
    if (fmax(w, h) / fmin(w, h) > TILING_MAX_ASPECT) return 0;
    /* Sides in units of `factor` pixels: one unit is merge x merge patches. */
    double factor = (double)(tiling->patch_pixels * tiling->merge);
    double units_h = at_least_one(rint(h / factor));
    double units_w = at_least_one(rint(w / factor));
    double pixels = units_h * units_w * factor * factor;
    if (pixels > (double)tiling->max_pixels) {
        double shrink = sqrt(h * w / (double)tiling->max_pixels);
        units_h = at_least_one(floor(h / shrink / factor));
        units_w = at_least_one(floor(w / shrink / factor));
    } else if (pixels < (double)tiling->min_pixels) {
        double grow = sqrt((double)tiling->min_pixels / (h * w));
        units_h = ceil(h * grow / factor);
        units_w = ceil(w * grow / factor);
    }
    return (int64_t)(units_h * units_w) * tiling->merge * tiling->merge;
}
