/* dataset_builder.c - the rules that all importers share.
 *
 * text_tokens is given, or language_tokens - tile_language_tokens x vision_tiles. With a tiling
 * other than the file's, language_tokens = text_tokens + tile_language_tokens x new tiles, or
 * text_tokens + patches / merge^2. A text-only sample keeps the file's dummy tile (InternVL: one if
 * the file does not say; native resolution: none); its language tokens are its text.
 *
 * Attention in the encoder stays within an image, so its cost needs the squared patches of each
 * image. A file that gives the patches of a whole sample only is read as images of equal size.
 */
#include "sim/data/dataset_builder.h"

#include <stdarg.h>
#include <stdlib.h>
#include <string.h>

const struct sample_record sample_record_empty = { .language_tokens = -1,
                                                   .text_tokens = -1,
                                                   .vision_tiles = -1,
                                                   .vision_patches = -1,
                                                   .vision_squares = -1,
                                                   .clip_ms = -1,
                                                   .frame_width = -1,
                                                   .frame_height = -1,
                                                   .image_flags = -1,
                                                   .image_count = -1 };

struct dataset_builder *dataset_builder_create(const struct dataset_options *options,
                                               struct error *err) {
    struct tiling tiling =
        options != NULL && options->tiling != NULL ? *options->tiling : tiling_default();
    if (!tiling_check(&tiling, err)) return NULL;
    struct dataset_builder *b = memory_alloc(sizeof *b);
    memset(b, 0, sizeof *b);
    b->tiling = tiling;
    if (tiling.kind == TILING_INTERNVL) tiling_grids_init(&b->grids, &tiling);
    b->last_part = -1;
    b->part_slot_count = 64;
    b->part_slots = memory_alloc(b->part_slot_count * sizeof *b->part_slots);
    memset(b->part_slots, 0, b->part_slot_count * sizeof *b->part_slots);

    struct dataset *d = memory_alloc(sizeof *d);
    memset(d, 0, sizeof *d);
    d->arena = arena_create();
    d->tile_language_tokens = DEFAULT_TILE_LANGUAGE_TOKENS;
    if (options != NULL) {
        b->tile_tokens_stated = options->tile_language_tokens > 0;
        b->model_tile_language_tokens = options->model_tile_language_tokens;
        if (b->tile_tokens_stated)
            d->tile_language_tokens = options->tile_language_tokens;
        else if (options->model_tile_language_tokens > 0)
            d->tile_language_tokens = options->model_tile_language_tokens;
        d->tile_language_tokens_known = b->tile_tokens_stated;
        b->max_language_tokens = options->max_language_tokens;
        b->keep_images = options->keep_images;
    }
    b->dataset = d;
    return b;
}

void dataset_destroy(struct dataset *dataset) {
    if (dataset == NULL) return;
    free(dataset->samples);
    free(dataset->vision_patches);
    free(dataset->vision_squares);
    free(dataset->clip_ms);
    free(dataset->frame_sizes);
    free(dataset->parts);
    free(dataset->images);
    free(dataset->image_starts);
    free(dataset->notes);
    free(dataset->sources);
    arena_destroy(dataset->arena);
    free(dataset);
}

void dataset_builder_destroy(struct dataset_builder *builder) {
    int64_t part = 0;
    if (builder == NULL) return;
    dataset_builder_overlay_end(builder, &part);
    dataset_destroy(builder->dataset);
    free(builder->part_slots);
    free(builder);
}

void dataset_builder_note(struct dataset_builder *builder, const char *format, ...) {
    struct dataset *d = builder->dataset;
    char text[512];
    va_list args;
    va_start(args, format);
    vsnprintf(text, sizeof text, format, args);
    va_end(args);
    for (int64_t i = 0; i < d->note_count; i++)
        if (strcmp(d->notes[i], text) == 0) return;
    d->notes = memory_realloc(d->notes, (size_t)(d->note_count + 1) * sizeof *d->notes);
    d->notes[d->note_count++] = arena_text(d->arena, text);
}

void dataset_builder_source(struct dataset_builder *builder, const char *path) {
    struct dataset *d = builder->dataset;
    d->sources = memory_realloc(d->sources, (size_t)(d->source_count + 1) * sizeof *d->sources);
    d->sources[d->source_count++] = arena_text(d->arena, path);
}

void dataset_builder_tile_tokens(struct dataset_builder *builder, int64_t tokens) {
    if (builder->tile_tokens_stated) return;
    builder->dataset->tile_language_tokens = tokens;
    builder->dataset->tile_language_tokens_known = true;
}

/* ---- parts ---- */

static size_t text_hash(const char *text, size_t length) {
    uint64_t hash = 1469598103934665603u; /* FNV-1a */
    for (size_t i = 0; i < length; i++)
        hash = (hash ^ (unsigned char)text[i]) * 1099511628211u;
    return (size_t)(hash ^ hash >> 32);
}

static bool part_is(const struct dataset *d, int64_t part, const char *name, size_t length) {
    return strncmp(d->parts[part].name, name, length) == 0 && d->parts[part].name[length] == '\0';
}

static size_t part_slot(const struct dataset_builder *b, const char *name, size_t length) {
    size_t slot = text_hash(name, length) & (b->part_slot_count - 1);
    while (b->part_slots[slot] != 0 && !part_is(b->dataset, b->part_slots[slot] - 1, name, length))
        slot = (slot + 1) & (b->part_slot_count - 1);
    return slot;
}

static void grow_part_slots(struct dataset_builder *b) {
    b->part_slot_count *= 2;
    b->part_slots = memory_realloc(b->part_slots, b->part_slot_count * sizeof *b->part_slots);
    memset(b->part_slots, 0, b->part_slot_count * sizeof *b->part_slots);
    for (int64_t i = 0; i < b->dataset->part_count; i++) {
        const char *name = b->dataset->parts[i].name;
        b->part_slots[part_slot(b, name, strlen(name))] = (int32_t)i + 1;
    }
}

int64_t dataset_builder_part(struct dataset_builder *builder, const char *name, size_t length) {
    struct dataset *d = builder->dataset;
    /* Rows of one part usually stand together. */
    if (builder->last_part >= 0 && part_is(d, builder->last_part, name, length))
        return builder->last_part;
    size_t slot = part_slot(builder, name, length);
    if (builder->part_slots[slot] == 0) {
        if (d->part_count == DATASET_MAX_PARTS) return -1;
        if (d->part_count == builder->part_capacity) {
            builder->part_capacity = builder->part_capacity == 0 ? 16 : builder->part_capacity * 2;
            d->parts = memory_realloc(d->parts, (size_t)builder->part_capacity * sizeof *d->parts);
        }
        d->parts[d->part_count++] =
            (struct dataset_part){ .name = arena_format(d->arena, "%.*s", (int)length, name) };
        builder->part_slots[slot] = (int32_t)d->part_count;
        if ((size_t)d->part_count * 2 > builder->part_slot_count) grow_part_slots(builder);
        return builder->last_part = d->part_count - 1;
    }
    return builder->last_part = builder->part_slots[slot] - 1;
}

/* ---- samples ---- */

static bool refuse(struct dataset_builder *b, const char *hint, const char *format, ...)
    __attribute__((format(printf, 3, 4)));

static bool refuse(struct dataset_builder *b, const char *hint, const char *format, ...) {
    va_list args;
    va_start(args, format);
    vsnprintf(b->problem, sizeof b->problem, format, args);
    va_end(args);
    b->hint = hint;
    return false;
}

static bool is_text_only(const struct sample_record *r) {
    return r->image_flags == 0 || r->image_count == 0 ||
           (r->image_count < 0 && r->vision_tiles <= 0 && r->vision_patches <= 0);
}

static bool all_sizes_known(const struct sample_record *r) {
    for (int64_t i = 0; i < r->image_count; i++)
        if (r->images[i].width == 0) return false;
    return r->image_count > 0;
}

struct outcome {
    int64_t tiles, patches, language_tokens;
    uint64_t squares;
};

static void tile_images(struct dataset_builder *b, const struct sample_record *r,
                        int64_t text_tokens, struct outcome *out) {
    out->language_tokens = text_tokens;
    if (is_text_only(r)) {
        out->tiles = r->vision_tiles >= 0 ? r->vision_tiles : 1;
        return;
    }
    for (int64_t i = 0; i < r->image_count; i++) {
        const struct image_size *image = &r->images[i];
        const int64_t tiles = b->tiling.kind == TILING_INTERNVL
                                  ? tiling_grids_tiles(&b->grids, image->width, image->height)
                                  : tiling_anyres_tiles(&b->tiling, image->width, image->height);
        out->tiles += tiles;
        out->language_tokens +=
            b->tiling.kind == TILING_ANYRES_UNPADDED
                ? tiling_anyres_unpadded_tokens(&b->tiling, image->width, image->height)
                : b->tiling.tile_language_tokens * tiles;
    }
}

static bool patch_images(struct dataset_builder *b, const struct sample_record *r,
                         int64_t text_tokens, struct outcome *out) {
    if (!is_text_only(r)) {
        for (int64_t i = 0; i < r->image_count; i++) {
            const struct image_size *image = &r->images[i];
            int64_t patches = tiling_native_patches(&b->tiling, image->width, image->height);
            if (patches == 0)
                return refuse(
                    b, "drop it from the file, as training code does",
                    "native resolution refuses an image of %u x %u: one side is more than "
                    "%d times the other",
                    image->width, image->height, TILING_MAX_ASPECT);
            out->patches += patches;
            out->squares += (uint64_t)patches * (uint64_t)patches;
        }
        out->tiles = r->image_count;
    }
    out->language_tokens = text_tokens + out->patches / (b->tiling.merge * b->tiling.merge);
    return true;
}

/* False: not all sizes are known, or the file's patches are not those of the public rule. */
static bool squares_from_sizes(const struct dataset_builder *b, const struct sample_record *r,
                               struct outcome *out) {
    int64_t sum = 0;
    uint64_t squares = 0;
    for (int64_t i = 0; all_sizes_known(r) && i < r->image_count; i++) {
        int64_t patches =
            tiling_native_patches(&b->tiling, r->images[i].width, r->images[i].height);
        sum += patches;
        squares += (uint64_t)patches * (uint64_t)patches;
    }
    if (sum != out->patches) return false;
    out->squares = squares;
    return true;
}

/* The file's sum of squares, that of its image sizes, or that of images of equal size. */
static bool square_patches(struct dataset_builder *b, const struct sample_record *r,
                           struct outcome *out) {
    if (out->patches == 0 && r->vision_squares <= 0) return true;
    uint64_t patches = (uint64_t)out->patches, images = out->tiles > 1 ? (uint64_t)out->tiles : 1;
    uint64_t equal = (patches * patches + images / 2) / images;
    if (r->vision_squares < 0) {
        if (squares_from_sizes(b, r, out)) return true;
        out->squares = equal;
        b->assumed_squares += images > 1;
        return true;
    }
    out->squares = (uint64_t)r->vision_squares;
    if (out->squares >= equal && out->squares <= patches * patches) return true;
    return refuse(b, "it is the sum, over the images of the sample, of the square of their patches",
                  "vision_squares must be %llu to %llu for %lld images of %lld patches together, "
                  "got %llu",
                  (unsigned long long)equal, (unsigned long long)(patches * patches),
                  (long long)out->tiles, (long long)out->patches, (unsigned long long)out->squares);
}

/* A file's tiles are those of the model that it was made for. */
static int64_t tiles_of_model(const struct dataset_builder *b, const struct sample_record *r,
                              int64_t tiles) {
    const int64_t images = r->image_count > 0 ? r->image_count : 1,
                  most = images * b->tiling.file_tiles;
    return b->tiling.file_tiles > 0 && tiles > most ? most : tiles;
}

static bool keep_file_counts(struct dataset_builder *b, const struct sample_record *r,
                             struct outcome *out) {
    bool text_only = is_text_only(r);
    out->patches = r->vision_patches > 0 ? r->vision_patches : 0;
    if (r->vision_tiles >= 0) {
        out->tiles = tiles_of_model(b, r, r->vision_tiles);
        if (!text_only && out->patches == 0 && all_sizes_known(r)) {
            b->sized_samples++;
            b->one_tile_samples += out->tiles == r->image_count;
        }
    } else if (!text_only) {
        out->tiles = r->image_count > 0 ? r->image_count : 0;
        b->assumed_tiles += out->tiles > 0;
    }
    out->language_tokens = r->language_tokens;
    if (out->language_tokens >= 0 && out->tiles < r->vision_tiles) {
        const int64_t left_out = r->vision_tiles - out->tiles;
        out->language_tokens -= left_out * b->dataset->tile_language_tokens;
        if (out->language_tokens < 0) out->language_tokens = 0;
    }
    if (out->language_tokens < 0) {
        int64_t tiles = text_only ? 0 : out->tiles;
        out->language_tokens = r->text_tokens + b->dataset->tile_language_tokens * tiles;
        if (tiles > 0) b->dataset->tile_language_tokens_known = true;
    }
    return square_patches(b, r, out);
}

static bool text_part(struct dataset_builder *b, const struct sample_record *r, int64_t *text) {
    *text = r->text_tokens >= 0 || !is_text_only(r) ? r->text_tokens : r->language_tokens;
    if (*text >= 0) return true;
    int64_t tiles = r->vision_tiles > 0 ? r->vision_tiles : 0;
    if (r->vision_tiles < 0)
        return refuse(b, "give text_tokens, or vision_tiles beside language_tokens",
                      "another tiling needs the text tokens of the sample alone");
    *text = r->language_tokens - tiles * b->dataset->tile_language_tokens;
    if (*text >= 0) return true;
    return refuse(b,
                  "tile_language_tokens in the data set's description says what one tile becomes",
                  "%lld language tokens are fewer than %lld tiles x %lld tokens",
                  (long long)r->language_tokens, (long long)tiles,
                  (long long)b->dataset->tile_language_tokens);
}

/* language_tokens are all that the language model reads: text and what the images become. */
static bool text_is_a_part(struct dataset_builder *b, const struct sample_record *r) {
    if (r->language_tokens < 0 || r->text_tokens <= r->language_tokens) {
        b->fewer_text_samples +=
            r->text_tokens >= 0 && r->text_tokens < r->language_tokens && is_text_only(r);
        return true;
    }
    return refuse(b, "language_tokens counts text and images together; leave one of the two out",
                  "%lld text tokens are more than the sample's %lld language tokens",
                  (long long)r->text_tokens, (long long)r->language_tokens);
}

static bool count_tokens(struct dataset_builder *b, const struct sample_record *r,
                         struct outcome *out) {
    if (b->tiling.kind == TILING_AS_FILE) return keep_file_counts(b, r, out);
    int64_t text_tokens;
    if (!is_text_only(r) && !all_sizes_known(r))
        return refuse(b,
                      "give width and height with each image, or keep the file's own tile counts "
                      "(tiling \"as-file\")",
                      "the tiling needs the size of every image, and this record has none");
    if (!text_part(b, r, &text_tokens)) return false;
    if (b->tiling.kind == TILING_NATIVE) return patch_images(b, r, text_tokens, out);
    tile_images(b, r, text_tokens, out);
    return true;
}

/* What the model makes of the images is a part of the sample's sequence. */
static bool vision_fits(struct dataset_builder *b, const struct sample_record *r,
                        const struct outcome *out) {
    if (b->tiling.kind == TILING_ANYRES_UNPADDED)
        return true; /* counted from the tiles themselves */
    int64_t vision = out->tiles * b->model_tile_language_tokens;
    if (out->patches > 0) vision = out->patches / (b->tiling.merge * b->tiling.merge);
    if (b->model_tile_language_tokens == 0 || is_text_only(r) || vision <= out->language_tokens)
        return true;
    return refuse(
        b,
        "the data set was counted for another model (dataset import --tile-tokens N counts "
        "for this one), or a text-only sample is not marked by image_flags 0",
        "the model makes %lld language tokens of the images, the whole sample has %lld",
        (long long)vision, (long long)out->language_tokens);
}

static void grow_samples(struct dataset_builder *b) {
    struct dataset *d = b->dataset;
    b->sample_capacity = b->sample_capacity == 0 ? 4096 : b->sample_capacity * 2;
    size_t capacity = (size_t)b->sample_capacity;
    d->samples = memory_realloc(d->samples, capacity * sizeof *d->samples);
    if (d->vision_patches != NULL) {
        d->vision_patches = memory_realloc(d->vision_patches, capacity * sizeof *d->vision_patches);
        d->vision_squares = memory_realloc(d->vision_squares, capacity * sizeof *d->vision_squares);
    }
    if (d->clip_ms != NULL) d->clip_ms = memory_realloc(d->clip_ms, capacity * sizeof *d->clip_ms);
    if (d->frame_sizes != NULL)
        d->frame_sizes = memory_realloc(d->frame_sizes, capacity * sizeof *d->frame_sizes);
    if (b->keep_images)
        d->image_starts = memory_realloc(d->image_starts, (capacity + 1) * sizeof *d->image_starts);
}

static void keep_patches(struct dataset_builder *b, const struct outcome *out) {
    struct dataset *d = b->dataset;
    if (d->vision_patches == NULL) {
        if (out->patches == 0 && b->tiling.kind != TILING_NATIVE) return;
        size_t capacity = (size_t)b->sample_capacity;
        d->vision_patches = memory_alloc(capacity * sizeof *d->vision_patches);
        d->vision_squares = memory_alloc(capacity * sizeof *d->vision_squares);
        memset(d->vision_patches, 0, capacity * sizeof *d->vision_patches);
        memset(d->vision_squares, 0, capacity * sizeof *d->vision_squares);
        d->patches_per_language_token = b->tiling.merge * b->tiling.merge;
    }
    d->vision_patches[d->sample_count] = (uint32_t)out->patches;
    d->vision_squares[d->sample_count] = out->squares;
}

static void keep_clip(struct dataset_builder *b, int64_t clip_ms) {
    struct dataset *d = b->dataset;
    if (b->clip_limit_ms > 0 && clip_ms > b->clip_limit_ms) {
        clip_ms = b->clip_limit_ms;
        b->cut_clips++;
    }
    if (d->clip_ms == NULL) {
        if (clip_ms <= 0) return;
        d->clip_ms = memory_alloc((size_t)b->sample_capacity * sizeof *d->clip_ms);
        memset(d->clip_ms, 0, (size_t)b->sample_capacity * sizeof *d->clip_ms);
    }
    d->clip_ms[d->sample_count] = clip_ms > 0 ? (uint32_t)clip_ms : 0;
}

static void keep_frames(struct dataset_builder *b, struct image_size size) {
    struct dataset *d = b->dataset;
    if (d->frame_sizes == NULL) {
        if (size.width == 0) return;
        d->frame_sizes = memory_alloc((size_t)b->sample_capacity * sizeof *d->frame_sizes);
        memset(d->frame_sizes, 0, (size_t)b->sample_capacity * sizeof *d->frame_sizes);
    }
    d->frame_sizes[d->sample_count] = size;
}

static struct image_size frames_of(const struct sample_record *r) {
    if (r->clip_ms <= 0 || r->frame_width <= 0) return (struct image_size){ 0, 0 };
    return (struct image_size){ (uint32_t)r->frame_width, (uint32_t)r->frame_height };
}

static void keep_images(struct dataset_builder *b, const struct sample_record *r) {
    struct dataset *d = b->dataset;
    /* An image count that the record does not say is one image of unknown size, or none. */
    int64_t count = r->image_count >= 0 ? r->image_count : !is_text_only(r);
    if (is_text_only(r)) count = 0;
    d->image_starts[d->sample_count] = (uint32_t)b->image_count;
    while (b->image_count + count > b->image_capacity) {
        b->image_capacity = b->image_capacity == 0 ? 4096 : b->image_capacity * 2;
        d->images = memory_realloc(d->images, (size_t)b->image_capacity * sizeof *d->images);
    }
    for (int64_t i = 0; i < count; i++)
        d->images[b->image_count++] =
            r->image_count > 0 ? r->images[i] : (struct image_size){ 0, 0 };
}

/* ---- overlays: records that stand in place of those of another file ---- */

struct record_queue {
    struct sample_record *records; /* their images are in the data set's arena */
    int64_t count, capacity, taken;
};

void dataset_builder_overlay(struct dataset_builder *builder) {
    ballast_check(builder->overlay == NULL);
    builder->overlay = memory_alloc(sizeof *builder->overlay * (DATASET_MAX_PARTS + 1));
    memset(builder->overlay, 0, sizeof *builder->overlay * (DATASET_MAX_PARTS + 1));
    builder->filling_overlay = true;
}

void dataset_builder_under_overlay(struct dataset_builder *builder) {
    builder->filling_overlay = false;
}

static void queue_record(struct dataset_builder *b, const struct sample_record *r) {
    struct record_queue *queue = &b->overlay[r->part];
    if (queue->count == queue->capacity) {
        queue->capacity = queue->capacity == 0 ? 1024 : queue->capacity * 2;
        queue->records =
            memory_realloc(queue->records, (size_t)queue->capacity * sizeof *queue->records);
    }
    struct sample_record *copy = &queue->records[queue->count++];
    *copy = *r;
    if (r->image_count <= 0) return;
    struct image_size *images =
        arena_array(b->dataset->arena, struct image_size, (size_t)r->image_count);
    memcpy(images, r->images, (size_t)r->image_count * sizeof *images);
    copy->images = images;
}

/* The record itself, or the overlay's in its place; NULL where the overlay has no more. */
static const struct sample_record *overlaid(struct dataset_builder *b,
                                            const struct sample_record *r) {
    if (b->overlay == NULL) return r;
    struct record_queue *queue = &b->overlay[r->part];
    if (queue->count == 0) return r;
    return queue->taken < queue->count ? &queue->records[queue->taken++] : NULL;
}

int64_t dataset_builder_overlay_end(struct dataset_builder *builder, int64_t *part) {
    int64_t left = 0;
    for (int64_t i = DATASET_MAX_PARTS; builder->overlay != NULL && i >= 0; i--) {
        const struct record_queue *queue = &builder->overlay[i];
        if (queue->taken < queue->count) *part = i;
        left += queue->count - queue->taken;
        free(queue->records);
    }
    free(builder->overlay);
    builder->overlay = NULL;
    builder->filling_overlay = false;
    return left;
}

bool dataset_builder_add(struct dataset_builder *builder, const struct sample_record *record) {
    struct dataset *d = builder->dataset;
    ballast_check(record->language_tokens >= 0 || record->text_tokens >= 0);
    ballast_check(record->part >= 0 && record->part < d->part_count);
    if (builder->kept_parts != NULL && !builder->kept_parts[record->part]) return true;
    builder->kept_records++;
    if (builder->filling_overlay) {
        queue_record(builder, record);
        return true;
    }
    const char *part_name = d->parts[record->part].name;
    record = overlaid(builder, record);
    if (record == NULL)
        return refuse(builder, NULL, "the overlay has no more rows of part \"%.60s\"", part_name);
    struct outcome out = { 0 };
    if (!text_is_a_part(builder, record) || !count_tokens(builder, record, &out) ||
        !vision_fits(builder, record, &out))
        return false;
    if (out.tiles > RECORD_MAX_TILES || out.patches > UINT32_MAX ||
        out.language_tokens > UINT32_MAX || d->sample_count == UINT32_MAX)
        return refuse(builder, NULL, "a sample of %lld tiles and %lld tokens is too large",
                      (long long)out.tiles, (long long)out.language_tokens);
    if (out.language_tokens == 0 && out.tiles == 0 && out.patches == 0 && record->clip_ms <= 0)
        return refuse(builder, "leave it out, as training code does",
                      "a sample of no tokens, no images and no clip trains nothing");
    if (builder->max_language_tokens > 0 && out.language_tokens > builder->max_language_tokens) {
        out.language_tokens = builder->max_language_tokens;
        builder->cut_samples++;
    }
    if (d->sample_count == builder->sample_capacity) grow_samples(builder);
    d->samples[d->sample_count] = (struct sample){ .language_tokens = (uint32_t)out.language_tokens,
                                                   .vision_tiles = (uint16_t)out.tiles,
                                                   .part = (uint16_t)record->part };
    keep_patches(builder, &out);
    keep_clip(builder, record->clip_ms);
    keep_frames(builder, frames_of(record));
    if (builder->keep_images) keep_images(builder, record);
    struct dataset_part *part = &d->parts[record->part];
    part->sample_count++;
    if (is_text_only(record)) part->dummy_tiles += out.tiles;
    builder->estimated_samples += record->estimated;
    d->sample_count++;
    return true;
}

void dataset_builder_copy(struct dataset_builder *b, const struct dataset *from, int64_t sample,
                          int64_t part) {
    struct dataset *d = b->dataset;
    ballast_check(sample >= 0 && sample < from->sample_count && d->sample_count < UINT32_MAX);
    if (d->sample_count == b->sample_capacity) grow_samples(b);
    struct sample copy = from->samples[sample];
    copy.part = (uint16_t)part;
    d->samples[d->sample_count] = copy;
    struct outcome out = { .tiles = copy.vision_tiles };
    if (from->vision_patches != NULL) {
        out.patches = from->vision_patches[sample];
        out.squares = from->vision_squares[sample];
    }
    keep_patches(b, &out);
    keep_clip(b, from->clip_ms != NULL ? from->clip_ms[sample] : 0);
    keep_frames(b, from->frame_sizes != NULL ? from->frame_sizes[sample]
                                             : (struct image_size){ 0, 0 });
    struct sample_record images = sample_record_empty;
    images.vision_tiles = copy.vision_tiles;
    if (b->keep_images) keep_images(b, &images);
    d->parts[part].sample_count++;
    d->sample_count++;
}

/* ---- the end ---- */

static void describe_assumptions(struct dataset_builder *b) {
    if (b->assumed_tiles > 0)
        dataset_builder_note(b,
                             "%lld sample%s no tile count: one tile per image "
                             "(dataset.tiling uses the image sizes)",
                             (long long)b->assumed_tiles,
                             b->assumed_tiles == 1 ? " has images but" : "s have images but");
    /* As an import writes what had no tile counts: a guess by now looks like a record. */
    if (b->one_tile_samples > 0 && b->one_tile_samples == b->sized_samples)
        dataset_builder_note(b,
                             "%lld sample%s one tile for each image, whatever its size, and "
                             "record%s the sizes (dataset.tiling uses them)",
                             (long long)b->one_tile_samples,
                             b->one_tile_samples == 1 ? " has" : "s have",
                             b->one_tile_samples == 1 ? "s" : "");
    if (b->assumed_squares > 0)
        dataset_builder_note(b,
                             "%lld sample%s the patches of several images together: images of "
                             "equal size (a column vision_squares says otherwise)",
                             (long long)b->assumed_squares,
                             b->assumed_squares == 1 ? " gives" : "s give");
    if (b->estimated_samples > 0)
        dataset_builder_note(b,
                             "token counts of %lld sample%s are estimated from their characters "
                             "(4.62 a token, 1.79 in Chinese, Japanese and Korean)",
                             (long long)b->estimated_samples, b->estimated_samples == 1 ? "" : "s");
    if (b->fewer_text_samples > 0)
        dataset_builder_note(b,
                             "%lld sample%s fewer text_tokens than "
                             "language_tokens: the latter count",
                             (long long)b->fewer_text_samples,
                             b->fewer_text_samples == 1 ? " without images has"
                                                        : "s without images have");
    if (b->cut_clips > 0)
        dataset_builder_note(b, "%lld clip%s cut to %.6g s", (long long)b->cut_clips,
                             b->cut_clips == 1 ? " is" : "s are", (double)b->clip_limit_ms / 1000);
    if (b->cut_samples > 0)
        dataset_builder_note(b, "%lld sample%s cut to %lld language tokens",
                             (long long)b->cut_samples, b->cut_samples == 1 ? " is" : "s are",
                             (long long)b->max_language_tokens);
}

/* Without a description's word nobody says what the samples are. */
static void settle_status(struct dataset_builder *b) {
    struct dataset *d = b->dataset;
    if (d->status == NULL) d->status = b->estimated_samples > 0 ? "estimated" : "unstated";
    for (int64_t i = 0; i < d->part_count; i++)
        if (d->parts[i].status == NULL) d->parts[i].status = d->status;
}

struct dataset *dataset_builder_finish(struct dataset_builder *builder) {
    struct dataset *d = builder->dataset;
    describe_assumptions(builder);
    settle_status(builder);
    if (builder->tiling.kind != TILING_AS_FILE && builder->tiling.kind != TILING_NATIVE) {
        d->tile_language_tokens = builder->tiling.tile_language_tokens;
        d->tile_language_tokens_known = true;
    }
    if (builder->keep_images) d->image_starts[d->sample_count] = (uint32_t)builder->image_count;
    d->samples = memory_realloc(d->samples, (size_t)d->sample_count * sizeof *d->samples);
    free(builder->part_slots);
    free(builder);
    return d;
}
