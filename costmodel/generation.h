/* generation.h - the make of an NVIDIA GPU, as its name tells it.
 *
 * Kernels and NCCL's choices go by it rather than by any figure of the data sheet. Where a name
 * tells nothing ("my-gpu") the callers say what they take instead.
 */
#ifndef BALLAST_COSTMODEL_GENERATION_H
#define BALLAST_COSTMODEL_GENERATION_H

#include <stdbool.h>

enum gpu_generation {
    GENERATION_UNKNOWN,
    GENERATION_VOLTA,
    GENERATION_AMPERE,
    GENERATION_ADA,
    GENERATION_HOPPER,
    GENERATION_BLACKWELL
};

/* By the letter before the number: v100, a100, l40s, h20, b200; gb200 is of b200's make, gh200 of
 * h100's. */
enum gpu_generation gpu_generation_of(const char *gpu);
/* Its name begins with one of these, blanks between; a letter alone ("h") stands for a make, of
 * which gh200 is too. "": any. */
bool gpu_is_among(const char *gpu, const char *beginnings);

#endif
