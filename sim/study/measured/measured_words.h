/* measured_words.h - the fixed words of the measured-run format, and how sources spell them.
 *
 * "bfloat16" is bf16, "flash_attention_2" is flash-2, "full_shard" is ZeRO-3. A spelling that
 * differs by more than case, blanks and dashes is told, so that the row can note it.
 *
 *     const char *word = measured_word("precision", cell);    // NULL: no spelling that is known
 */
#ifndef BALLAST_SIM_STUDY_MEASURED_WORDS_H
#define BALLAST_SIM_STUDY_MEASURED_WORDS_H

#include <stdbool.h>
#include <stdint.h>
#include "sim/base/arena.h"

/* The cell without blanks around it; "" for what stands where a source does not say ("n/a"). */
const char *measured_cell(struct arena *arena, const char *text);

/* Lower case, with one dash for each run of blanks, dashes and underscores. */
const char *measured_plain(struct arena *arena, const char *text);

/* The format's word of a column for a spelling; NULL if none is known or the column has none. */
const char *measured_word(struct arena *arena, const char *column, const char *cell);

/* "vision encoder, llm" is vision;language: the words of all parts with semicolons between; NULL if
 * a part is no word, or "none" stands beside another. */
const char *measured_word_list(struct arena *arena, const char *column, const char *cell);

/* "true" is 1 of `sp`, "full_shard" 3 of `zero_stage`. */
bool measured_count_word(struct arena *arena, const char *column, const char *cell, int64_t *value);

/* The column that another name of it means ("num_gpus": gpu_count; in any case, blanks for
 * underscores); NULL: none is known. */
const char *measured_column_meant(struct arena *arena, const char *name);
/* Whether it speaks of video, for which the format has no column. */
bool measured_column_of_video(const char *name);

/* Whether the text holds the word by itself, no "no", "not" or "without" before it and no "false"
 * or "off" behind. */
bool measured_text_says(const char *text, const char *word);
/* Whether it holds the word with one of those. */
bool measured_text_denies(const char *text, const char *word);
/* The ZeRO stage that the name of a stack says: "Trainer ZeRO-3" 3, "PyTorch DDP" 0; -1: none. */
int64_t measured_zero_stage(const char *stack);

#endif
