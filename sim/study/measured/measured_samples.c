/* measured_samples.c - what a row's samples are: text, images and text, or what diffuses.
 *
 * Text samples are all seq_len long. Samples of images and text whose length the source gives as a
 * limit only ("2048 max") are those of a shipped data set, padded to the longest of their
 * micro-batch: LLaVA's image-caption pairs while the language model is frozen, its instructions
 * otherwise. Trainers deal them at random; LLaVA groups instructions by modality and length.
 */
#include <string.h>
#include "sim/study/measured/measured_row.h"
#include "sim/study/measured/measured_words.h"

/* A modality that no cell states is that of the others: the first that tells of images, if any. */
static void choose_modality(struct measured_row *row) {
    struct measured_run *r = &row->run;
    const bool empty = r->modality[0] == '\0';
    if ((empty || strcmp(r->modality, "text") == 0) && measured_model_is_encoder(r->model)) {
        r->modality = "encoder";
        measured_row_note(row, "modality: encoder, as the name of its model says");
        return;
    }
    if (!empty) return;
    row->images_in = r->images_per_sample > 0              ? "images_per_sample"
                     : r->image_wh[0] != '\0'              ? "image_wh"
                     : measured_holds(r->frozen, "vision") ? "frozen"
                                                           : NULL;
    if (r->vision_model[0] == '\0' && row->images_in == NULL &&
        measured_model_sees(row->context->arena, r->model) &&
        !measured_text_says(r->model, "text")) {
        row->images_in = "model";
        r->modality = "vision+text";
        measured_row_note(row, "modality: vision+text, as the name of its model says");
        return;
    }
    const bool encoder = r->vision_model[0] != '\0';
    r->modality = encoder || row->images_in != NULL ? "vision+text" : "text";
    if (encoder || row->images_in == NULL)
        measured_row_note(row, "modality: %s", r->modality);
    else
        measured_row_note(row, "modality: %s, as %s says", r->modality, row->images_in);
}

/* Cells of another modality. Beside adapters a frozen language model is what it always is. */
static void note_idle_cells(struct measured_row *row) {
    const struct measured_run *r = &row->run;
    if (r->text_len >= 0 && !measured_is_diffusion(r))
        measured_row_note(row, "text_len: is of diffusion rows, not read");
    if (strcmp(r->modality, "vision+text") == 0) return;
    const bool frozen = measured_holds(r->frozen, "vision") ||
                        measured_holds(r->frozen, "connector") ||
                        (measured_holds(r->frozen, "language") && !measured_has_lora(r));
    const struct {
        const char *column;
        bool filled;
    } cells[] = {
        { "vision_model", r->vision_model[0] != '\0' },
        { "images_per_sample", r->images_per_sample > 0 },
        { "image_wh", r->image_wh[0] != '\0' },
        { "image_merge", r->image_merge > 0 },
        { "frozen", frozen },
    };
    for (size_t i = 0; i < sizeof cells / sizeof cells[0]; i++)
        if (cells[i].filled)
            measured_row_note(row, "%s: not read, the modality is %s", cells[i].column,
                              r->modality);
}

/* Frames of a diffusion transformer are in patches of 2 x 2 latents of 8 x 8 pixels. */
static void take_image_size(struct measured_row *row) {
    enum { PATCH_PIXELS = 16 };
    struct measured_run *r = &row->run;
    long width, height;
    if (!measured_is_diffusion(r) || r->seq_len > 0 || r->seq_len_text[0] != '\0' ||
        sscanf(r->image_wh, "%ldx%ld", &width, &height) != 2)
        return;
    r->seq_len = width / PATCH_PIXELS * (height / PATCH_PIXELS);
    measured_row_note(row, "seq_len: %ld, one image of %ldx%ld in patches of %d pixels",
                      (long)r->seq_len, width, height, PATCH_PIXELS);
    r->image_wh = "";
}

void measured_choose_modality(struct measured_row *row) {
    choose_modality(row);
    take_image_size(row);
    note_idle_cells(row);
}

/* Mean text of a sample of several tiles where the source gives the longest only: captions of the
 * shipped coco-captions, and instructions with answers of llava-instruct-10k. */
enum { CAPTION_TOKENS = 24, INSTRUCTION_TOKENS = 146 };

/* An image of 640 x 480 pixels is five tiles of LLaVA-NeXT, of which 2,340 tokens are left without
 * padding: as many as of four whole ones. Where images are drawn, each is cut by its own size. */
enum { ANYRES_TILES = 4 };

/* One image, one tile, and only the longest sample known. */
static void draw_samples(struct measured_row *row, bool captions) {
    const struct measured_run *r = &row->run;
    row->dataset = captions ? "lcs-558k-one-tile" : "llava-665k";
    /* scripts/v1_5 of haotian-liu/LLaVA: group_by_modality_length in finetune.sh alone */
    row->by_modality =
        !captions && (measured_holds(r->model, "LLaVA") || measured_holds(r->model, "llava"));
    measured_row_note(row, "samples of %s, padded to the longest of their micro-batch%s",
                      row->dataset, row->by_modality ? "; grouped as LLaVA does" : "");
}

bool measured_choose_samples(struct measured_row *row) {
    const struct measured_run *r = &row->run;
    const bool longest_alone = strchr(r->seq_len_text, ' ') != NULL; /* "2048 max" */
    row->language_tokens = r->seq_len;
    if (measured_is_diffusion(r)) measured_choose_text(row);
    if (strcmp(r->modality, "vision+text") != 0) {
        if (longest_alone)
            measured_row_note(row, "seq_len: \"%.40s\": every sample has the %ld tokens",
                              r->seq_len_text, (long)r->seq_len);
        return true;
    }
    if (!measured_choose_encoder(row)) return false;
    const int64_t patches = row->vision_side / row->vision_patch;
    const bool captions = measured_holds(r->frozen, "language");
    const bool cut = strcmp(r->image_wh, "anyres") == 0;
    row->anyres = cut && longest_alone && !captions;
    row->pools = patches > 1 && measured_image_merge(row) == patches;
    row->tiles = cut ? ANYRES_TILES : measured_count_tiles(row);
    if (cut && r->images_per_sample > 1)
        measured_row_note(row, "images_per_sample: %ld is not read, anyres is of one image",
                          (long)r->images_per_sample);
    if (cut && !row->anyres)
        measured_row_note(row, "image_wh: anyres: %d tiles, whose tokens an image of 4:3 has",
                          ANYRES_TILES);
    if (!longest_alone) return true;
    const int64_t edge = patches / measured_image_merge(row), tile_tokens = edge * edge;
    if (row->tiles == 1 || row->anyres) {
        draw_samples(row, captions);
        return true;
    }
    const int64_t text = captions ? CAPTION_TOKENS : INSTRUCTION_TOKENS;
    const int64_t mean = row->tiles * tile_tokens + text;
    if (mean < r->seq_len) row->language_tokens = mean;
    measured_row_note(row, "samples of %ld tokens: %ld of images and %ld of text, the mean of %s",
                      (long)row->language_tokens, (long)(row->tiles * tile_tokens), (long)text,
                      text == CAPTION_TOKENS ? "coco-captions" : "llava-instruct-10k");
    return true;
}
