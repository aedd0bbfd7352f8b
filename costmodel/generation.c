/* generation.c - the letter before a GPU's number. */
#include "costmodel/generation.h"

#include <ctype.h>
#include <string.h>

/* Where the letter stands: behind the "g" of Grace. */
static const char *letter_of(const char *gpu) {
    return gpu[0] == 'g' && !isdigit((unsigned char)gpu[1]) ? gpu + 1 : gpu;
}

enum gpu_generation gpu_generation_of(const char *gpu) {
    const char *at = letter_of(gpu);
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

bool gpu_is_among(const char *gpu, const char *beginnings) {
    if (beginnings[0] == '\0') return true;
    for (const char *at = beginnings; *at != '\0';) {
        const size_t length = strcspn(at, " ");
        if (length > 0 && strncmp(length == 1 ? letter_of(gpu) : gpu, at, length) == 0) return true;
        at += length + (at[length] == ' ');
    }
    return false;
}
