/* utf8.c - eight ASCII bytes at a time, then by the lead byte. */
#include "sim/base/utf8.h"

#include <stdint.h>
#include <string.h>

/* Bytes of the well-formed sequence at p, of which `left` bytes are there; 0: none. */
static size_t sequence(const unsigned char *p, size_t left) {
    const unsigned char lead = p[0];
    if (lead < 0x80) return 1;
    if (lead < 0xC2 || lead > 0xF4) return 0;
    const size_t length = lead < 0xE0 ? 2 : lead < 0xF0 ? 3 : 4;
    if (left < length) return 0;
    /* No overlong forms, no surrogates, nothing above U+10FFFF. */
    const unsigned char low = lead == 0xE0 ? 0xA0 : lead == 0xF0 ? 0x90 : 0x80,
                        high = lead == 0xED ? 0x9F : lead == 0xF4 ? 0x8F : 0xBF;
    if (p[1] < low || p[1] > high) return 0;
    for (size_t i = 2; i < length; i++)
        if ((p[i] & 0xC0) != 0x80) return 0;
    return length;
}

const char *utf8_invalid(const char *text, size_t size) {
    const unsigned char *p = (const unsigned char *)text, *end = p + size;
    while (p < end) {
        uint64_t word;
        if ((size_t)(end - p) >= sizeof word) {
            memcpy(&word, p, sizeof word);
            if ((word & UINT64_C(0x8080808080808080)) == 0) {
                p += sizeof word;
                continue;
            }
        }
        const size_t length = sequence(p, (size_t)(end - p));
        if (length == 0) return (const char *)p;
        p += length;
    }
    return NULL;
}

bool utf16_seems(const char *text, size_t size) {
    if (size < 4) return false;
    if (memcmp(text, "\xFF\xFE", 2) == 0 || memcmp(text, "\xFE\xFF", 2) == 0) return true;
    const bool even = text[0] == '\0' && text[2] == '\0', odd = text[1] == '\0' && text[3] == '\0';
    return even != odd;
}
