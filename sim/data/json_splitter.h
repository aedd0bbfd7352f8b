/* json_splitter.h - finds the elements of a JSON list, or the values of a JSONL file, in a stream.
 *
 * Only one element is held at a time, so a list of any length is read in bounded memory. The
 * splitter looks at strings, escapes and nesting, no more: whether an element is good JSON is for
 * cJSON to say. How the bytes are cut into calls makes no difference.
 *
 *     json_splitter_init(&s, path, JSON_SPLITTER_AUTO, on_element, context);
 *     ok = json_splitter_feed(&s, bytes, count, err) && ... && json_splitter_finish(&s, err);
 *     json_splitter_free(&s);
 */
#ifndef BALLAST_SIM_DATA_JSON_SPLITTER_H
#define BALLAST_SIM_DATA_JSON_SPLITTER_H

#include <stdbool.h>
#include <stddef.h>
#include "sim/base/error.h"

/* text is borrowed and ends in a NUL byte that length does not count; line and column are those of
 * its first byte. */
typedef bool (*json_splitter_element)(void *context, const char *text, size_t length, long line,
                                      long column, struct error *err);

enum json_splitter_mode {
    JSON_SPLITTER_AUTO, /* a list if the first character is '[' */
    JSON_SPLITTER_LIST,
    JSON_SPLITTER_LINES /* values one after the other */
};

struct json_splitter {
    const char *path; /* for messages; borrowed */
    enum json_splitter_mode mode;
    json_splitter_element on_element;
    void *context;
    int state;
    long depth;
    bool in_string, escaped;
    long line, column; /* of the next byte, from 1 */
    long element_line, element_column;
    char *element;
    size_t length, capacity;
    long element_count;
};

void json_splitter_init(struct json_splitter *splitter, const char *path,
                        enum json_splitter_mode mode, json_splitter_element on_element,
                        void *context);
bool json_splitter_feed(struct json_splitter *splitter, const char *bytes, size_t count,
                        struct error *err);
/* The end of the file: an open element or list is an error. */
bool json_splitter_finish(struct json_splitter *splitter, struct error *err);
void json_splitter_free(struct json_splitter *splitter);

#endif
