/* utf8.h - texts of users are UTF-8, since they end in JSON, HTML and pictures.
 *
 *     const char *bad = utf8_invalid(text, size);   // NULL: none
 */
#ifndef BALLAST_SIM_BASE_UTF8_H
#define BALLAST_SIM_BASE_UTF8_H

#include <stdbool.h>
#include <stddef.h>

/* The first byte that begins no well-formed sequence (Unicode 15, table 3-7), or NULL. */
const char *utf8_invalid(const char *text, size_t size);

/* As Windows' programs save "Unicode": its byte order mark, or Latin letters with a zero beside
 * each. */
#define UTF16_HINT "it looks like UTF-16: save the file as UTF-8"
bool utf16_seems(const char *text, size_t size);

#endif
