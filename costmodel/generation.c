/* generation.c - the letter before a GPU's number. */
#include "costmodel/generation.h"

#include <ctype.h>

enum gpu_generation gpu_generation_of(const char *gpu) {
    const char *at = gpu[0] == 'g' && !isdigit((unsigned char)gpu[1]) ? gpu + 1 : gpu;
    if (at[0] == '\0' || !isdigit((unsigned char)at[1])) return GENERATION_UNKNOWN;
    switch (at[0]) {
    case 'v':
        return GENERATION_VOLTA;
    case 'a':
        return GENERATION_AMPERE;
    case 'l':
        return GENERATION_ADA;
    case 'h':
        return GENERATION_HOPPER;
    case 'b':
        return GENERATION_BLACKWELL;
    default:
        return GENERATION_UNKNOWN;
    }
}
