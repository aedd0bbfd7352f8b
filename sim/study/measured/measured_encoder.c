/* measured_encoder.c - the vision encoder of a row: its module, its tiles, what they become.
 *
 * A name is one of the module's file or of its "names"; or it has all parts of one of them
 * ("OpenGVLab/InternViT-6B-448px-V1-5"); or they have all of its ("InternViT-6B"). Encoders of one
 * kind for several image sizes are told apart by the size in the name, else by the row's images.
 */
#include <ctype.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include "sim/base/folder_names.h"
#include "sim/study/measured/measured_parts.h"
#include "sim/study/measured/measured_row.h"

/* How a name fits, the better the greater. A name of one part ("CLIP") fits itself alone, not
 * EVA-CLIP. */
enum { FIT_NONE = 0, FIT_PART = 1, FIT_WHOLE = 100, FIT_EXACT = 1000 };

struct encoder {
    const char *name; /* of its file */
    int64_t side, patch;
    bool rotary, free_size; /* positions; images may be of another size */
    int fit;
};

/* Of "openai/clip-vit-large-patch14" what follows the owner; "CLIP ViT-L/14" has none. */
static const char *without_owner(const char *name) {
    const char *slash = strrchr(name, '/');
    return slash != NULL && isalpha((unsigned char)slash[1]) ? slash + 1 : name;
}

static int fit_of(struct arena *arena, const char *name, const struct measured_parts *wanted) {
    const struct measured_parts of = measured_parts_of(arena, without_owner(name));
    const bool holds_name = of.count > 0 && measured_parts_shared(&of, wanted) == of.count,
               holds_wanted = measured_parts_shared(wanted, &of) == wanted->count;
    return holds_name && holds_wanted   ? FIT_EXACT
           : holds_name && of.count > 1 ? FIT_WHOLE + (int)of.count
           : holds_wanted               ? FIT_PART
                                        : FIT_NONE;
}

/* false: no vision encoder whose images have a size. */
static bool read_encoder(const struct measured_context *context, const char *name,
                         const struct measured_parts *wanted, struct encoder *e) {
    struct arena *arena = context->arena;
    struct error ignored = { 0 };
    struct json *json = json_load(
        arena_format(arena, "%s/models/modules/%s.json", context->directory, name), &ignored);
    if (json == NULL) return false;
    const cJSON *module = json_root(json), *alias,
                *sources = cJSON_GetObjectItem(module, "sources");
    const char *role = cJSON_GetStringValue(cJSON_GetObjectItem(module, "role")),
               *position = cJSON_GetStringValue(cJSON_GetObjectItem(module, "position"));
    *e = (struct encoder){
        .name = name,
        .side = (int64_t)cJSON_GetNumberValue(cJSON_GetObjectItem(module, "image_size")),
        .patch = (int64_t)cJSON_GetNumberValue(cJSON_GetObjectItem(module, "patch_size")),
        .rotary = position != NULL && strcmp(position, "rotary") == 0,
        .free_size = cJSON_GetObjectItem(sources, "image_size") != NULL,
    };
    const bool sees = role != NULL && strcmp(role, "vision") == 0 && e->side >= 1 && e->patch >= 1;
    if (sees && wanted != NULL) {
        e->fit = fit_of(arena, name, wanted);
        cJSON_ArrayForEach(alias, cJSON_GetObjectItem(module, "names")) {
            const char *other = cJSON_GetStringValue(alias);
            const int fit = other != NULL ? fit_of(arena, other, wanted) : FIT_NONE;
            if (fit > e->fit) e->fit = fit;
        }
    }
    json_destroy(json);
    return sees;
}

static const char **module_names(const struct measured_context *context, int64_t *count) {
    const char *folder = arena_format(context->arena, "%s/models/modules", context->directory);
    return folder_names(context->arena, folder, ".json", count);
}

const char *measured_encoder_names(const struct measured_context *context) {
    const char *list = "";
    int64_t count;
    const char **names = module_names(context, &count);
    for (int64_t i = 0; i < count; i++) {
        struct encoder e;
        if (read_encoder(context, names[i], NULL, &e))
            list =
                arena_format(context->arena, "%s%s%s", list, list[0] != '\0' ? ", " : "", names[i]);
    }
    return list;
}

/* Length of a file's name without the size at its end: of "clip-vit-l-14-336" and
 * "internvit-6b-448px" what stands before the last dash. */
static size_t kind_length(const char *name) {
    const char *dash = strrchr(name, '-');
    const size_t digits = dash != NULL ? strspn(dash + 1, "0123456789") : 0;
    const bool is_size =
        digits > 0 && (dash[1 + digits] == '\0' || strcmp(dash + 1 + digits, "px") == 0);
    return is_size ? (size_t)(dash - name) : strlen(name);
}

static bool same_kind(const struct encoder *a, const struct encoder *b) {
    const size_t length = kind_length(a->name);
    return kind_length(b->name) == length && strncmp(a->name, b->name, length) == 0;
}

static bool sees_images_of(const struct encoder *e, int64_t pixels) {
    return pixels >= e->patch && pixels / e->patch * e->patch == e->side / e->patch * e->patch;
}

/* The best of those that fit; of one kind that which the row's images (-1: not known) have the size
 * of, else the smallest. NULL: none, or several kinds. */
static const struct encoder *choose(struct arena *arena, const struct encoder *all, int64_t count,
                                    const struct measured_parts *wanted, int64_t pixels) {
    const struct encoder *best = NULL;
    bool several = false;
    for (int64_t i = 0; i < count; i++) {
        const struct encoder *e = &all[i];
        if (e->fit == FIT_NONE || (best != NULL && e->fit < best->fit)) continue;
        if (best == NULL || e->fit > best->fit) {
            best = e;
            several = false;
        } else if (!same_kind(e, best)) {
            several = true;
        } else if (sees_images_of(e, pixels) ||
                   (e->side < best->side && !sees_images_of(best, pixels))) {
            best = e;
        }
    }
    if (best == NULL || several) return NULL;
    if (measured_parts_have(wanted, arena_format(arena, "%ld", (long)best->side))) return best;
    for (int64_t i = 0; i < count; i++)
        if (same_kind(&all[i], best) && sees_images_of(&all[i], pixels) &&
            !sees_images_of(best, pixels))
            return &all[i];
    return best;
}

/* false: the cell has no size. */
static bool image_size(const struct measured_run *r, long *width, long *height) {
    return sscanf(r->image_wh, "%ldx%ld", width, height) == 2;
}

/* Rotary positions take each image whole, in a tile as large as it; tables of positions that are
 * interpolated, smaller images as they are. */
static void choose_side(struct measured_row *row, const struct encoder *e) {
    long width, height;
    row->vision_side = e->side;
    row->vision_patch = e->patch;
    row->vision_whole = e->rotary && e->free_size;
    if (!e->free_size || !image_size(&row->run, &width, &height)) return;
    const int64_t unit = e->patch * measured_image_merge(row);
    if (!e->rotary && (width >= e->side || height >= e->side)) return;
    const double along = sqrt((double)width * (double)height) / (double)unit;
    const int64_t side = (int64_t)fmax(1, round(along)) * unit;
    if (side == e->side) return;
    row->vision_side = side;
    row->vision_own_side = true;
    measured_row_note(row, "image_wh: %ldx%ld is one tile of %ld pixels", width, height,
                      (long)side);
}

bool measured_choose_encoder(struct measured_row *row) {
    const char *wanted = row->run.vision_model;
    struct arena *arena = row->context->arena;
    const struct measured_parts parts = measured_parts_of(arena, without_owner(wanted));
    if (parts.count == 0) return false;
    int64_t count, seen = 0;
    const char **names = module_names(row->context, &count);
    struct encoder *all = arena_array(arena, struct encoder, count);
    for (int64_t i = 0; i < count; i++)
        seen += read_encoder(row->context, names[i], &parts, &all[seen]);
    long width = -1, height = -1;
    const int64_t pixels = image_size(&row->run, &width, &height) && width == height ? width : -1;
    const struct encoder *e = choose(arena, all, seen, &parts, pixels);
    if (e == NULL) return false;
    row->vision = e->name;
    if (strcmp(row->vision, wanted) != 0)
        measured_row_note(row, "vision_model: \"%s\" is %s", wanted, row->vision);
    choose_side(row, e);
    return true;
}

/* An encoder does not see what is left of a patch: SigLIP's 384 pixels are 27 patches of 14, one
 * tile. */
static int64_t tiles_along(int64_t pixels, int64_t side, int64_t patch) {
    const int64_t seen = pixels < patch ? patch : pixels / patch * patch;
    return (seen + side - 1) / side;
}

int64_t measured_count_tiles(struct measured_row *row) {
    const struct measured_run *r = &row->run;
    const int64_t side = row->vision_side, images = measured_given(r->images_per_sample, 1);
    long width, height;
    if (r->images_per_sample < 0) measured_row_note(row, "images_per_sample: 1");
    if (!image_size(r, &width, &height)) {
        measured_row_note(row, "image_wh: one tile of the encoder's %ld pixels", (long)side);
        return images;
    }
    if (row->vision_whole) return images;
    return images * tiles_along(width, side, row->vision_patch) *
           tiles_along(height, side, row->vision_patch);
}

/* Pixel shuffle or a merger of patches where the encoder's family has it. */
int64_t measured_image_merge(const struct measured_row *row) {
    const bool merges =
        strncmp(row->vision, "internvit", 9) == 0 || strncmp(row->vision, "qwen", 4) == 0;
    return measured_given(row->run.image_merge, merges ? 2 : 1);
}
