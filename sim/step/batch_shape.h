/* batch_shape.h - what a group of samples is to the layers of a model.
 *
 *     struct batch_shape shape = batch_shape_of_group(model, dataset, samples, count, packed);
 *     struct batch_shape typical = batch_shape_mean(shapes, shape_count);
 *
 * Samples of native resolution need an encoder that takes images of any size: one without a class
 * token, because patches are its only sequence.
 */
#ifndef BALLAST_SIM_STEP_BATCH_SHAPE_H
#define BALLAST_SIM_STEP_BATCH_SHAPE_H

#include "sim/data/dataset.h"
#include "sim/model/model.h"

/* Of a sample's clip, by its length and the size of its frames; the data set has clips. */
int64_t batch_clip_tokens(const struct model *model, const struct dataset *dataset, int64_t sample);
/* The micro-batch that a group of samples makes. */
struct batch_shape batch_shape_of_group(const struct model *model, const struct dataset *dataset,
                                        const uint32_t *samples, int64_t count, bool packed);
/* The same micro-batch as one packed sequence: padded to sequence_tokens (0: as it is), and with
 * joint_attention under one mask. Padding attends like a sample of its own, or with all others. */
void batch_shape_as_sequence(struct batch_shape *shape, const struct model *model,
                             int64_t sequence_tokens, bool joint_attention);
/* Nearly equal share `index` of `pieces` of its images, without the text; one piece: the whole.
 * With `clips` of its video clips, each with its text; they count as of their mean length. */
struct batch_shape batch_shape_piece(const struct batch_shape *shape, bool clips, int64_t pieces,
                                     int64_t index);
/* Element-wise mean of shapes, rounded; for planners. */
struct batch_shape batch_shape_mean(const struct batch_shape *shapes, int64_t count);
/* Element-wise largest: no micro-batch needs more memory than this one. */
struct batch_shape batch_shape_largest(const struct batch_shape *shapes, int64_t count);
/* Element-wise the largest mean of `length` consecutive shapes, among `groups` sets of `each`
 * consecutive ones that no window crosses; rounded up: what so many micro-batches of a step hold
 * together is no more than `length` times this one's, whatever is a sum over tokens. */
struct batch_shape batch_shape_largest_window(const struct batch_shape *shapes, int64_t groups,
                                              int64_t each, int64_t length);
/* Element-wise smallest. */
struct batch_shape batch_shape_smallest(const struct batch_shape *shapes, int64_t count);

#endif
