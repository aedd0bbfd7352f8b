/* dataset.h - the samples of a training run, in file order, 8 bytes each (12 with video clips).
 *
 *     struct dataset *d = dataset_load("scenarios", "omnibal-real", NULL, err);
 *     d->samples[i].vision_tiles, d->samples[i].language_tokens
 *     dataset_destroy(d);
 *
 * language_tokens = text_tokens + tile_language_tokens x vision_tiles, where text_tokens already
 * holds the chat template. A text-only sample may carry one dummy tile: InternVL feeds one to the
 * encoder so that every rank runs it, but its tokens do not enter the language model.
 * Ownership: the dataset owns everything that it points to. Read-only after loading.
 */
#ifndef BALLAST_SIM_DATA_DATASET_H
#define BALLAST_SIM_DATA_DATASET_H

#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>
#include "sim/base/arena.h"
#include "sim/base/error.h"
#include "sim/base/field.h"
#include "sim/base/json.h"
#include "sim/data/tiling.h"

struct sample {
    uint32_t
        language_tokens;   /* text (template included) plus vision tokens in the language model */
    uint16_t vision_tiles; /* tiles; with native resolution: images (see vision_patches below) */
    uint16_t part;         /* index in dataset.parts */
};

struct image_size {
    uint32_t width, height; /* pixels; 0 x 0: the size is not known */
};

struct dataset_part {
    const char *name;
    const char *status; /* "real", "reconstructed", "synthetic", "estimated" or "unstated" */
    int64_t sample_count;
    int64_t dummy_tiles; /* tiles of text-only samples, which become no language tokens */
};

struct dataset {
    const char *name;
    const char *description;
    /* "real"; "reconstructed" if any part is; "synthetic": drawn from distributions; "estimated":
     * some token counts were estimated from the number of characters; "unstated": nobody says. */
    const char *status;
    const char *provenance;
    const char *licence;
    const char *tokenizer; /* NULL: not known */
    struct sample *samples;
    int64_t sample_count;
    uint32_t *
        vision_patches; /* native resolution only: encoder patches of each sample; NULL for tiles */
    /* Beside vision_patches: the sum of the squared patches of each image, because attention stays
     * within an image. */
    uint64_t *vision_squares;
    /* Milliseconds of the video clip of each sample, 0 for one without; NULL where none has any.
     * The tokens are its text alone: how many a decoder makes of the clip is the model's affair. */
    uint32_t *clip_ms;
    /* Of the frames of each clip, as they are trained on; NULL, and 0 x 0 of one sample: as large
     * as the decoder's own. Only beside clip_ms. */
    struct image_size *frame_sizes;
    int64_t patches_per_language_token; /* merge^2 when there are vision_patches, otherwise 0 */
    struct dataset_part *parts;
    int64_t part_count;
    int64_t tile_language_tokens;    /* language tokens that one tile was counted as */
    bool tile_language_tokens_known; /* false: the figure is a default, and no count rests on it */

    /* Only with options.keep_images: the images of sample i are images[image_starts[i]] to
     * images[image_starts[i + 1]] (exclusive). NULL otherwise. */
    struct image_size *images;
    uint32_t *image_starts;

    /* What the reader should know of the loading: columns ignored, counts estimated or assumed. */
    const char **notes;
    int64_t note_count;

    const char **sources; /* the files that it was read from, description included */
    int64_t source_count;

    struct arena *arena; /* holds the texts above */
};

/* Called between blocks of a file; bytes_total is 0 when it is not known (a pipe). */
typedef void (*dataset_progress)(void *context, int64_t bytes_done, int64_t bytes_total);

struct dataset_options {
    /* The mixture that it is a component of, which it cannot hold again; NULL: none. */
    const struct dataset_mixture *within;
    const struct tiling *tiling; /* NULL: as file */
    int64_t
        max_language_tokens; /* longer samples are cut to this, as the model's limit does; 0: no */
    /* Language tokens that one tile was counted as. 0: what the description states, otherwise what
     * the model makes of it, otherwise 256. */
    int64_t tile_language_tokens;
    /* Of the model that is to train on the samples: its vision tokens must find room in each. 0: no
     * model, or one without an encoder. */
    int64_t model_tile_language_tokens;
    bool keep_images;          /* for dataset_write_csv */
    dataset_progress progress; /* may be NULL */
    void *progress_context;
};

/* A name in <search>/datasets/, or a path: a .json description, or a data file itself (.json list,
 * .jsonl, .csv, each also .gz). tiling may be NULL (as file). NULL on error. */
struct dataset *dataset_load(const char *search_directory, const char *name,
                             const struct tiling *tiling, struct error *err);
struct dataset *dataset_load_with(const char *search_directory, const char *name,
                                  const struct dataset_options *options, struct error *err);
/* The same from a description inside another document (a scenario's own distribution). Paths in it
 * are relative to `directory`. */
struct dataset *dataset_from_json(const struct json *json, const cJSON *description,
                                  const char *directory, const struct dataset_options *options,
                                  struct error *err);
void dataset_destroy(struct dataset *dataset);

/* Writes the samples as dataset_load reads them back; gzipped when the path ends in .gz. The file
 * appears whole or not at all. False also for a file that the data set was read from. */
bool dataset_write_csv(const struct dataset *dataset, const char *path, struct error *err);
/* The same; `progress` (may be NULL) is told now and then how many of all samples are written. */
bool dataset_write_csv_with(const struct dataset *dataset, const char *path,
                            dataset_progress progress, void *context, struct error *err);

/* Where the description of such a table stands: the path with .json for .csv or .csv.gz. */
const char *dataset_description_path(struct arena *arena, const char *csv_path);
/* Writes it: what the table cannot hold (status, provenance, tokenizer, tokens of a tile). Only
 * another description is overwritten; dataset_check_description says beforehand whether it can be.
 */
bool dataset_check_description(const struct dataset *dataset, const char *csv_path,
                               struct error *err);
bool dataset_write_description(const struct dataset *dataset, const char *csv_path,
                               struct error *err);

/* The keys of a description, of its files and parts, and of a distribution: for documentation. */
extern const struct field_table dataset_fields, dataset_file_fields, dataset_part_fields;

#endif
