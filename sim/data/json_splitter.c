/* json_splitter.c - a state machine over bytes. */
#include "sim/data/json_splitter.h"

#include <ctype.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include "sim/base/arena.h"

enum state {
    STATE_START,     /* nothing but white space so far */
    STATE_FIRST,     /* behind '[': an element or ']' */
    STATE_WANTED,    /* behind ',' (or between lines): an element */
    STATE_CONTAINER, /* inside { } or [ ] */
    STATE_TEXT,      /* inside a string that is an element itself */
    STATE_SCALAR,    /* inside a number or a word */
    STATE_BEHIND,    /* behind an element: ',' or ']' */
    STATE_DONE       /* behind the list's ']' */
};

enum { ELEMENT_LIMIT_BYTES = 1 << 26 };

void json_splitter_init(struct json_splitter *splitter, const char *path,
                        enum json_splitter_mode mode, json_splitter_element on_element,
                        void *context) {
    *splitter = (struct json_splitter){ .path = path,
                                        .mode = mode,
                                        .on_element = on_element,
                                        .context = context,
                                        .state = STATE_START,
                                        .line = 1,
                                        .column = 1 };
}

void json_splitter_free(struct json_splitter *splitter) {
    free(splitter->element);
    splitter->element = NULL;
}

static bool fail_here(const struct json_splitter *s, struct error *err, const char *problem) {
    return error_at(err, s->path, s->line, s->column, "%s", problem);
}

static bool unexpected(const struct json_splitter *s, struct error *err, const char *wanted,
                       char c) {
    char text[128];
    if (isprint((unsigned char)c))
        snprintf(text, sizeof text, "expected %s, got '%c'", wanted, c);
    else
        snprintf(text, sizeof text, "expected %s, got byte 0x%02x", wanted, (unsigned char)c);
    return fail_here(s, err, text);
}

static bool append(struct json_splitter *s, char c, struct error *err) {
    if (s->length + 1 >= s->capacity) {
        if (s->length + 1 >= ELEMENT_LIMIT_BYTES)
            return error_at(err, s->path, s->element_line, s->element_column,
                            "the record that begins here is longer than 64 MiB");
        s->capacity = s->capacity == 0 ? 4096 : s->capacity * 2;
        s->element = memory_realloc(s->element, s->capacity);
    }
    s->element[s->length++] = c;
    return true;
}

static bool emit(struct json_splitter *s, struct error *err) {
    s->element[s->length] = '\0';
    s->element_count++;
    s->state = s->mode == JSON_SPLITTER_LIST ? STATE_BEHIND : STATE_WANTED;
    return s->on_element(s->context, s->element, s->length, s->element_line, s->element_column,
                         err);
}

static bool begin_element(struct json_splitter *s, char c, struct error *err) {
    s->length = 0;
    s->element_line = s->line;
    s->element_column = s->column;
    s->depth = c == '{' || c == '[';
    s->in_string = c == '"';
    s->escaped = false;
    s->state = s->depth > 0 ? STATE_CONTAINER : s->in_string ? STATE_TEXT : STATE_SCALAR;
    return append(s, c, err);
}

/* One byte inside a container or a string. */
static bool step_inside(struct json_splitter *s, char c, struct error *err) {
    if (!append(s, c, err)) return false;
    if (s->in_string) {
        if (s->escaped)
            s->escaped = false;
        else if (c == '\\')
            s->escaped = true;
        else if (c == '"')
            s->in_string = false;
    } else if (c == '"') {
        s->in_string = true;
    } else if (c == '{' || c == '[') {
        s->depth++;
    } else if (c == '}' || c == ']') {
        s->depth--;
    }
    return s->in_string || s->depth > 0 || emit(s, err);
}

static bool step_between(struct json_splitter *s, char c, struct error *err) {
    if (c == ' ' || c == '\n' || c == '\r' || c == '\t') return true;
    switch (s->state) {
    case STATE_START:
        if (s->mode == JSON_SPLITTER_AUTO)
            s->mode = c == '[' ? JSON_SPLITTER_LIST : JSON_SPLITTER_LINES;
        if (s->mode == JSON_SPLITTER_LINES) break;
        if (c != '[') return unexpected(s, err, "a list '['", c);
        s->state = STATE_FIRST;
        return true;
    case STATE_BEHIND:
        if (c != ',' && c != ']') return unexpected(s, err, "',' or ']' behind a record", c);
        s->state = c == ',' ? STATE_WANTED : STATE_DONE;
        return true;
    case STATE_DONE:
        return unexpected(s, err, "nothing behind the list", c);
    default:
        if (s->state == STATE_FIRST && c == ']') {
            s->state = STATE_DONE;
            return true;
        }
        break;
    }
    if (c == ',' || c == ']' || c == '}' || c == ':') return unexpected(s, err, "a record", c);
    return begin_element(s, c, err);
}

static bool step(struct json_splitter *s, char c, struct error *err) {
    if (c == '\0') return fail_here(s, err, "a NUL byte: this is not a text file");
    if (s->state == STATE_CONTAINER || s->state == STATE_TEXT) return step_inside(s, c, err);
    if (s->state != STATE_SCALAR) return step_between(s, c, err);
    if (strchr(" \n\r\t,]", c) == NULL) return append(s, c, err);
    /* The byte behind a number or a word is not part of it. */
    return emit(s, err) && step_between(s, c, err);
}

bool json_splitter_feed(struct json_splitter *splitter, const char *bytes, size_t count,
                        struct error *err) {
    for (size_t i = 0; i < count; i++) {
        if (!step(splitter, bytes[i], err)) return false;
        if (bytes[i] == '\n') {
            splitter->line++;
            splitter->column = 1;
        } else {
            splitter->column++;
        }
    }
    return true;
}

bool json_splitter_finish(struct json_splitter *splitter, struct error *err) {
    struct json_splitter *s = splitter;
    if (s->state == STATE_SCALAR && s->mode == JSON_SPLITTER_LINES && !emit(s, err)) return false;
    switch (s->state) {
    case STATE_START:
        return error_set(err, "%s is empty", s->path);
    case STATE_CONTAINER:
    case STATE_TEXT:
    case STATE_SCALAR:
        return error_at(err, s->path, s->line, s->column,
                        "the file ends inside the record that begins on line %ld: is it cut short?",
                        s->element_line);
    case STATE_DONE:
        return true;
    default:
        if (s->mode == JSON_SPLITTER_LINES) return true;
        return fail_here(s, err, "the file ends before the list's ']': is it cut short?");
    }
}
