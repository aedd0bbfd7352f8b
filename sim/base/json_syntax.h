/* json_syntax.h - what is wrong with a text that is no JSON, and where; for json.c.
 *
 *     struct json_fault fault;
 *     if (json_syntax_fault(text, size, &fault)) say(fault.offset, fault.text, fault.hint);
 */
#ifndef BALLAST_SIM_BASE_JSON_SYNTAX_H
#define BALLAST_SIM_BASE_JSON_SYNTAX_H

#include <stdbool.h>
#include <stddef.h>

struct json_fault {
    size_t offset, length; /* what the marker stands below */
    char text[160];        /* "expected a value, got a comma" */
    char hint[160];        /* "" : none */
};

/* The first place where the text is not what RFC 8259 wants. False: there is none, but for what
 * cJSON is stricter about. White space and control characters in strings are taken as cJSON takes
 * them. */
bool json_syntax_fault(const char *text, size_t size, struct json_fault *out);

/* Offset of the first bracket that is nested deeper than `limit`, or size. */
size_t json_too_deep_at(const char *text, size_t size, int limit);
/* Offset of an escaped NUL, which would end a C string early, or size. */
size_t json_escaped_nul_at(const char *text, size_t size);
/* Offset of a number that JSON does not have ("04", "1.", "-.5") though cJSON reads it, or size.
 * The text was parsed before. */
size_t json_odd_number_at(const char *text, size_t size);
/* Offset of the last key of this name in the object that the text is, or size. The text was parsed
 * before; a key with escapes is not found. */
size_t json_key_at(const char *text, size_t size, const char *key);
/* Nobody's text: a third of its beginning are control characters or bytes that are no UTF-8. */
bool json_is_binary(const char *text, size_t size);

#endif
