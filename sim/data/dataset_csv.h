/* dataset_csv.h - tables of samples: a header row, then one sample a line.
 *
 * Columns (any order; others are ignored, with a note):
 *   language_tokens | llm_tokens | token_num     text and vision tokens in the language model
 *   text_tokens                                  text alone, chat template included
 *   vision_tiles | vit_num                       tiles of the file's own pre-processing
 *   vision_patches                               encoder patches (native resolution)
 *   vision_squares                               sum over the images of their squared patches
 *   width, height  or  image_wh "640x480;32x32"  image sizes; 0 x 0 or empty: no image
 *   image_flags                                  0: text only, the tile is a dummy
 *   part | dataset  or  part_id                  part_id is an index in the description's parts
 * One of the two token columns is needed. Inside sim/data only.
 */
#ifndef BALLAST_SIM_DATA_DATASET_CSV_H
#define BALLAST_SIM_DATA_DATASET_CSV_H

#include "sim/data/dataset_builder.h"

/* default_part: name of the part of rows in a file without a part column. */
bool dataset_csv_read(struct dataset_builder *builder, const char *path, const char *default_part,
                      const struct dataset_options *options, struct error *err);

#endif
