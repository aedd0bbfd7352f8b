/* batch_shape.c - sums over the samples of a micro-batch.
 *
 * Attention stays within a sequence: in the encoder that is a tile, or an image of native
 * resolution; in the language model a packed sample, or a padded row; in a diffusion decoder a
 * clip, which also attends to the text of its own sample, or together with it. Where blocks have
 * windows the squares are those of the mean block.
 */
#include "sim/step/batch_shape.h"

#include <math.h>

int64_t batch_clip_tokens(const struct model *model, const struct dataset *dataset,
                          int64_t sample) {
    const struct image_size size =
        dataset->frame_sizes != NULL ? dataset->frame_sizes[sample] : (struct image_size){ 0, 0 };
    return model_sized_clip_tokens(model, dataset->clip_ms[sample], size.width, size.height);
}

static void add_clips(struct batch_shape *shape, const struct model *model,
                      const struct dataset *dataset, const uint32_t *samples, int64_t count) {
    const bool padded = shape->language_tokens != shape->useful_language_tokens;
    for (int64_t i = 0; i < count; i++) {
        const uint32_t sample = samples[i];
        double tokens = (double)batch_clip_tokens(model, dataset, sample);
        double text = padded ? (double)(shape->language_tokens / count)
                             : (double)dataset->samples[sample].language_tokens;
        shape->video_clips += tokens > 0;
        shape->video_tokens += (int64_t)tokens;
        shape->video_square_sum += tokens * tokens;
        shape->cross_square_sum += model_clip_text_pairs(model, tokens, text);
    }
}

struct batch_shape batch_shape_of_group(const struct model *model, const struct dataset *dataset,
                                        const uint32_t *samples, int64_t count, bool packed) {
    struct batch_shape shape = { .samples = count };
    const struct module *vision = &model->modules[MODULE_VISION],
                        *language = &model->modules[MODULE_LANGUAGE];
    int64_t longest = 0;
    for (int64_t i = 0; i < count; i++) {
        const struct sample *sample = &dataset->samples[samples[i]];
        int64_t length = sample->language_tokens;
        shape.vision_tiles += sample->vision_tiles;
        shape.useful_language_tokens += length;
        shape.language_square_sum += module_sequence_square(language, (double)length);
        if (length > longest) longest = length;
        if (dataset->vision_patches != NULL) {
            int64_t patches = dataset->vision_patches[samples[i]];
            shape.vision_tokens += patches;
            shape.vision_square_sum += module_image_squares(
                vision, (double)patches, (double)dataset->vision_squares[samples[i]]);
        }
    }
    shape.language_tokens = shape.useful_language_tokens;
    if (!packed) {
        shape.language_tokens = longest * count;
        shape.language_square_sum =
            module_sequence_square(language, (double)longest) * (double)count;
    }
    if (vision->layer_count == 0) {
        shape.vision_tokens = 0;
        shape.vision_square_sum = 0;
        shape.vision_tiles = 0;
    } else if (dataset->vision_patches != NULL) {
        int64_t merged = vision->merge > 0 ? vision->merge * vision->merge : 1;
        shape.connector_tokens = shape.vision_tokens / merged;
    } else {
        double tile = (double)model->tile_vision_tokens;
        shape.vision_tokens = shape.vision_tiles * model->tile_vision_tokens;
        shape.vision_square_sum = module_image_squares(vision, (double)shape.vision_tokens,
                                                       (double)shape.vision_tiles * tile * tile);
        shape.connector_tokens = shape.vision_tiles * model->tile_language_tokens;
    }
    if (dataset->clip_ms != NULL && model->modules[MODULE_DIFFUSION_DECODER].layer_count > 0)
        add_clips(&shape, model, dataset, samples, count);
    return shape;
}

void batch_shape_as_sequence(struct batch_shape *shape, const struct model *model,
                             int64_t sequence_tokens, bool joint_attention) {
    const struct module *language = &model->modules[MODULE_LANGUAGE];
    if (sequence_tokens > shape->language_tokens) {
        double padding = (double)(sequence_tokens - shape->language_tokens);
        shape->language_tokens = sequence_tokens;
        shape->language_square_sum += module_sequence_square(language, padding);
    }
    if (joint_attention)
        shape->language_square_sum =
            module_sequence_square(language, (double)shape->language_tokens);
}

struct batch_shape batch_shape_mean(const struct batch_shape *shapes, int64_t count) {
    double samples = 0, tiles = 0, vision = 0, vision_square = 0, connector = 0, language = 0,
           square = 0, useful = 0, clips = 0, video = 0, video_square = 0, cross_square = 0;
    for (int64_t i = 0; i < count; i++) {
        samples += (double)shapes[i].samples;
        tiles += (double)shapes[i].vision_tiles;
        vision += (double)shapes[i].vision_tokens;
        vision_square += shapes[i].vision_square_sum;
        connector += (double)shapes[i].connector_tokens;
        language += (double)shapes[i].language_tokens;
        square += shapes[i].language_square_sum;
        useful += (double)shapes[i].useful_language_tokens;
        clips += (double)shapes[i].video_clips;
        video += (double)shapes[i].video_tokens;
        video_square += shapes[i].video_square_sum;
        cross_square += shapes[i].cross_square_sum;
    }
    double n = count > 0 ? (double)count : 1;
    return (struct batch_shape){
        .samples = llround(samples / n),
        .vision_tiles = llround(tiles / n),
        .vision_tokens = llround(vision / n),
        .vision_square_sum = vision_square / n,
        .connector_tokens = llround(connector / n),
        .language_tokens = llround(language / n),
        .language_square_sum = square / n,
        .useful_language_tokens = llround(useful / n),
        .video_clips = llround(clips / n),
        .video_tokens = llround(video / n),
        .video_square_sum = video_square / n,
        .cross_square_sum = cross_square / n,
    };
}

/* Element by element the most, or the least. */
static struct batch_shape extreme(const struct batch_shape *shapes, int64_t count, bool most) {
    struct batch_shape out = count > 0 ? shapes[0] : (struct batch_shape){ 0 };
#define KEEP(member)                                                                               \
    if (most ? shape->member > out.member : shape->member < out.member) out.member = shape->member
    for (int64_t i = 1; i < count; i++) {
        const struct batch_shape *shape = &shapes[i];
        KEEP(samples);
        KEEP(vision_tiles);
        KEEP(vision_tokens);
        KEEP(connector_tokens);
        KEEP(language_tokens);
        KEEP(useful_language_tokens);
        KEEP(video_clips);
        KEEP(video_tokens);
        KEEP(vision_square_sum);
        KEEP(language_square_sum);
        KEEP(video_square_sum);
        KEEP(cross_square_sum);
    }
#undef KEEP
    return out;
}

struct batch_shape batch_shape_largest(const struct batch_shape *shapes, int64_t count) {
    return extreme(shapes, count, true);
}

struct batch_shape batch_shape_smallest(const struct batch_shape *shapes, int64_t count) {
    return extreme(shapes, count, false);
}

/* Sums over a window that moves by one shape: it gains one and loses another. Sizes are whole and
 * squares far below 2^53, so that nothing is lost on the way. */
struct window {
    double sums[12];
};

static void window_move(struct window *w, const struct batch_shape *shape, double sign) {
    const double parts[12] = {
        (double)shape->samples,         (double)shape->vision_tiles,
        (double)shape->vision_tokens,   (double)shape->connector_tokens,
        (double)shape->language_tokens, (double)shape->useful_language_tokens,
        (double)shape->video_clips,     (double)shape->video_tokens,
        shape->vision_square_sum,       shape->language_square_sum,
        shape->video_square_sum,        shape->cross_square_sum,
    };
    for (int i = 0; i < 12; i++)
        w->sums[i] += sign * parts[i];
}

struct batch_shape batch_shape_largest_window(const struct batch_shape *shapes, int64_t groups,
                                              int64_t each, int64_t length) {
    struct window most = { 0 };
    for (int64_t g = 0; g < groups; g++) {
        const struct batch_shape *group = shapes + g * each;
        struct window now = { 0 };
        for (int64_t i = 0; i < each; i++) {
            window_move(&now, &group[i], 1);
            if (i >= length) window_move(&now, &group[i - length], -1);
            for (int k = 0; k < 12; k++)
                if (now.sums[k] > most.sums[k]) most.sums[k] = now.sums[k];
        }
    }
    const double n = (double)length, *s = most.sums;
#define MEAN(i) (int64_t) ceil(s[i] / n)
    return (struct batch_shape){
        .samples = MEAN(0),
        .vision_tiles = MEAN(1),
        .vision_tokens = MEAN(2),
        .connector_tokens = MEAN(3),
        .language_tokens = MEAN(4),
        .useful_language_tokens = MEAN(5),
        .video_clips = MEAN(6),
        .video_tokens = MEAN(7),
        .vision_square_sum = s[8] / n,
        .language_square_sum = s[9] / n,
        .video_square_sum = s[10] / n,
        .cross_square_sum = s[11] / n,
    };
#undef MEAN
}

/* Of `count` things, those before `at` of `all`. */
static int64_t share(int64_t count, int64_t at, int64_t all) {
    return count * at / all;
}

static struct batch_shape clip_piece(const struct batch_shape *shape, int64_t pieces,
                                     int64_t index) {
    int64_t clips = shape->video_clips, first = share(clips, index, pieces),
            last = share(clips, index + 1, pieces);
    double part = (double)(last - first) / (double)clips;
#define PART(member) (share(shape->member, last, clips) - share(shape->member, first, clips))
    return (struct batch_shape){
        .samples = PART(samples),
        .language_tokens = PART(language_tokens),
        .language_square_sum = shape->language_square_sum * part,
        .useful_language_tokens = PART(useful_language_tokens),
        .video_clips = last - first,
        .video_tokens = PART(video_tokens),
        .video_square_sum = shape->video_square_sum * part,
        .cross_square_sum = shape->cross_square_sum * part,
    };
#undef PART
}

struct batch_shape batch_shape_piece(const struct batch_shape *shape, bool clips, int64_t pieces,
                                     int64_t index) {
    if (clips) return pieces <= 1 ? *shape : clip_piece(shape, pieces, index);
    int64_t tiles = shape->vision_tiles;
    if (pieces <= 1 || tiles == 0) return *shape;
    struct batch_shape piece = { .samples = shape->samples };
    int64_t first = tiles * index / pieces, last = tiles * (index + 1) / pieces;
    piece.vision_tiles = last - first;
    piece.vision_tokens =
        shape->vision_tokens * last / tiles - shape->vision_tokens * first / tiles;
    piece.connector_tokens =
        shape->connector_tokens * last / tiles - shape->connector_tokens * first / tiles;
    piece.vision_square_sum = shape->vision_square_sum * (double)piece.vision_tiles / (double)tiles;
    return piece;
}
