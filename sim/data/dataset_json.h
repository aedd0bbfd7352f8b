/* dataset_json.h - lists of JSON records, one sample each, read element by element.
 *
 * A record is one of
 *   { "vit_num": 5, "token_num": 1341, "image_flags": 5 }   OmniBal's *_token_lengths.json
 *   [ 5, 1341 ]                                             the same, short
 *   { "image": ..., "width": 640, "height": 480, "conversations": [ { "from", "value" } ] }
 *                                                           LLaVA, ShareGPT4V, InternVL
 * Image sizes may also be width_list and height_list, or image_wh [w, h] or [[w, h], ...]; messages
 * may also be { "role", "content" }; text_tokens, vision_tiles, part and the names of the table
 * importer may stand in any record. Without token counts the text is estimated from its characters.
 * Inside sim/data only.
 */
#ifndef BALLAST_SIM_DATA_DATASET_JSON_H
#define BALLAST_SIM_DATA_DATASET_JSON_H

#include "sim/data/dataset_builder.h"

/* lines: the file is JSONL even if it begins with '['. */
bool dataset_json_read(struct dataset_builder *builder, const char *path, bool lines,
                       const char *default_part, const struct dataset_options *options,
                       struct error *err);

/* Tokens of a UTF-8 text by the ratios below, rounded up. */
int64_t text_tokens_from_characters(const char *text);

#endif
