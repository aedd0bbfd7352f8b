/* json_syntax.c - a strict walk through a text that cJSON refused, by the grammar of RFC 8259, that
 * stops at the first thing that is not expected and says what was. */
#include "sim/base/json_syntax.h"

#include <ctype.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>
#include "sim/base/utf8.h"

#define TOO_EARLY "the JSON text ends too early: a value, bracket or quote is missing"
enum { DEPTH_MAX = 64, WORD_MAX = 24 };

struct walker {
    const char *text;
    size_t size, at;
    size_t open[DEPTH_MAX + 1]; /* offsets of the brackets around `at` */
    int depth;
    struct json_fault *out;
};

static bool is_space(char c) {
    return (unsigned char)c <= ' '; /* as cJSON */
}

static bool is_digit(char c) {
    return c >= '0' && c <= '9';
}

/* strchr() would find the NUL that ends `set`. */
static bool is_one_of(char c, const char *set) {
    return c != '\0' && strchr(set, c) != NULL;
}

static char here(const struct walker *w) {
    return w->at < w->size ? w->text[w->at] : '\0';
}

static void skip_space(struct walker *w) {
    while (w->at < w->size && is_space(w->text[w->at]))
        w->at++;
}

static void line_of(const struct walker *w, size_t offset, long *line) {
    *line = 1;
    for (size_t i = 0; i < offset; i++)
        *line += w->text[i] == '\n';
}

__attribute__((format(printf, 4, 5))) static bool fault(struct walker *w, size_t length,
                                                        const char *hint, const char *format, ...) {
    va_list arguments;
    va_start(arguments, format);
    vsnprintf(w->out->text, sizeof w->out->text, format, arguments);
    va_end(arguments);
    w->out->offset = w->at;
    w->out->length = length;
    snprintf(w->out->hint, sizeof w->out->hint, "%s", hint);
    return false;
}

/* Below the last thing that the text says. */
static bool ends_early(struct walker *w) {
    size_t end = w->size;
    while (end > 0 && is_space(w->text[end - 1]))
        end--;
    w->at = end;
    long line, last;
    line_of(w, end, &last);
    if (w->depth > 0) line_of(w, w->open[w->depth - 1], &line);
    char hint[96] = "";
    if (w->depth > 0 && line < last)
        snprintf(hint, sizeof hint, "the %c of line %ld is still open",
                 w->text[w->open[w->depth - 1]], line);
    return fault(w, 1, hint, TOO_EARLY);
}

/* Letters, digits and what numbers are made of, from here on. */
static size_t word_length(const struct walker *w) {
    size_t length = 0;
    while (w->at + length < w->size && (isalnum((unsigned char)w->text[w->at + length]) ||
                                        is_one_of(w->text[w->at + length], "_.+-%")))
        length++;
    return length;
}

static int shown(size_t length) {
    return length < WORD_MAX ? (int)length : WORD_MAX;
}

/* What stands here, in words. */
static const char *describe(const struct walker *w, char *text, size_t size) {
    const char c = here(w);
    const size_t word = word_length(w);
    if (c == ',') return "a comma";
    if (c == '"') return "a text in quotes";
    if (word > 0)
        snprintf(text, size, "%.*s", shown(word), w->text + w->at);
    else {
        size_t length = 1; /* of one character of UTF-8 */
        while (w->at + length < w->size && ((unsigned char)w->text[w->at + length] & 0xC0) == 0x80)
            length++;
        snprintf(text, size, "%.*s", (int)length, w->text + w->at);
    }
    return text;
}

static bool is_comment(const struct walker *w) {
    return here(w) == '/' || here(w) == '#';
}

/* A quotation mark that JSON does not know: single, or of a word processor. */
static const char *foreign_quote(const struct walker *w) {
    static const char *const marks[] = {
        "'", "`", "\xe2\x80\x9c", "\xe2\x80\x9d", "\xe2\x80\x98", "\xe2\x80\x99"
    };
    for (size_t i = 0; i < sizeof marks / sizeof marks[0]; i++)
        if (w->at + strlen(marks[i]) <= w->size &&
            strncmp(w->text + w->at, marks[i], strlen(marks[i])) == 0)
            return marks[i];
    return NULL;
}

static bool unexpected(struct walker *w, const char *wanted, const char *hint) {
    char text[64];
    if (w->at >= w->size) return ends_early(w);
    if (is_comment(w)) return fault(w, 1, "", "JSON has no comments");
    if (foreign_quote(w) != NULL)
        return fault(w, 1, "keys and texts stand in straight double quotes: \"tp\"",
                     "expected %s, got %s", wanted, foreign_quote(w));
    const size_t word = word_length(w);
    return fault(w, word > 0 ? word : 1, hint, "expected %s, got %s", wanted,
                 describe(w, text, sizeof text));
}

/* ---- values ---- */

/* UTF-16, of which \u escapes are units: a character beyond U+FFFF takes two. */
enum { HIGH_SURROGATE = 0xD800, LOW_SURROGATE = 0xDC00, AFTER_SURROGATES = 0xE000 };
static const char pair_hint[] = "\\ud83d\\ude00 are two halves, or write the character itself";

/* -1: no \uXXXX stands there. */
static long code_unit(const char *escape, size_t left) {
    char digits[5] = "";
    if (left < 6 || escape[0] != '\\' || escape[1] != 'u') return -1;
    memcpy(digits, escape + 2, 4);
    return strspn(digits, "0123456789abcdefABCDEF") == 4 ? strtol(digits, NULL, 16) : -1;
}

static bool walk_string(struct walker *w) {
    const size_t start = w->at++;
    while (w->at < w->size && w->text[w->at] != '"') {
        if (w->text[w->at] != '\\') {
            w->at++;
            continue;
        }
        const char *escape = w->text + w->at;
        const size_t left = w->size - w->at;
        if (left < 2) break;
        if (!is_one_of(escape[1], "\"\\/bfnrtu"))
            return fault(w, 2, "a backslash itself is written \\\\", "not an escape of JSON: \\%c",
                         escape[1]);
        size_t length = 2;
        while (escape[1] == 'u' && length < 6 && length < left &&
               isxdigit((unsigned char)escape[length]))
            length++;
        if (escape[1] == 'u' && length < 6)
            return fault(w, length, "for example \\u00e9", "\\u needs four hexadecimal digits");
        const long code = escape[1] == 'u' ? code_unit(escape, left) : -1;
        if (code >= HIGH_SURROGATE && code < LOW_SURROGATE) {
            const long second = code_unit(escape + length, left - length);
            if (second < LOW_SURROGATE || second >= AFTER_SURROGATES)
                return fault(w, length, pair_hint, "half of a character: %.6s", escape);
            length *= 2;
        } else if (code >= LOW_SURROGATE && code < AFTER_SURROGATES) {
            return fault(w, length, pair_hint, "half of a character: %.6s", escape);
        }
        w->at += length;
    }
    if (w->at >= w->size) {
        w->at = start;
        return fault(w, 1, "", "the text that begins here has no closing quote");
    }
    w->at++;
    return true;
}

/* "5GB", "1_000", "0x10", "+5", ".5", "1." */
static bool walk_number(struct walker *w) {
    const size_t start = w->at, length = word_length(w);
    const char *text = w->text + start;
    size_t i = text[0] == '-', digits = 0;
    while (i < length && is_digit(text[i]))
        i++, digits++;
    bool ok = digits > 0 && (digits == 1 || text[text[0] == '-'] != '0');
    if (ok && i < length && text[i] == '.') {
        const size_t point = i++;
        while (i < length && is_digit(text[i]))
            i++;
        ok = i > point + 1;
    }
    if (ok && i < length && (text[i] == 'e' || text[i] == 'E')) {
        i += i + 1 < length && (text[i + 1] == '+' || text[i + 1] == '-') ? 2 : 1;
        const size_t first = i;
        while (i < length && is_digit(text[i]))
            i++;
        ok = i > first;
    }
    if (ok && i == length) {
        w->at = start + length;
        return true;
    }
    const char *hint = "no zero in front and digits on both sides of a point: 4, 0.5";
    if (text[0] == '+')
        hint = "without the + in front";
    else if (ok && i < length &&
             (isalpha((unsigned char)text[i]) || text[i] == '%' || text[i] == '_'))
        hint = text[i] == '_' || text[i] == 'x' ? "digits alone: 1000"
                                                : "digits alone: its unit is in the key's name";
    /* Of a long one the mistake may stand at its end. */
    enum { END_SHOWN = 8 };
    if (length > WORD_MAX)
        return fault(w, length, hint, "not a number of JSON: %.*s...%.*s", WORD_MAX - END_SHOWN - 3,
                     text, END_SHOWN, text + length - END_SHOWN);
    return fault(w, length, hint, "not a number of JSON: %.*s", (int)length, text);
}

static bool walk_word(struct walker *w) {
    static const struct {
        const char *word, *hint;
    } known[] = {
        { "true", "write true" },
        { "false", "write false" },
        { "null", "write null" },
        { "none", "write null" },
        { "nil", "write null" },
        { "undefined", "write null" },
        { "yes", "write true" },
        { "no", "write false" },
        { "on", "write true" },
        { "off", "write false" },
        { "nan", "JSON has finite numbers only; leave the key out for its default" },
        { "infinity", "JSON has finite numbers only; leave the key out for its default" },
        { "inf", "JSON has finite numbers only; leave the key out for its default" },
    };
    const size_t length = word_length(w);
    for (size_t i = 0; i < 3; i++)
        if (length == strlen(known[i].word) &&
            strncmp(w->text + w->at, known[i].word, length) == 0) {
            w->at += length;
            return true;
        }
    const char *word = w->text + w->at;
    const size_t sign = word[0] == '-' || word[0] == '+';
    for (size_t i = 0; i < sizeof known / sizeof known[0]; i++)
        if (length - sign == strlen(known[i].word) &&
            strncasecmp(word + sign, known[i].word, length - sign) == 0)
            return unexpected(w, "a value", known[i].hint);
    char hint[96];
    snprintf(hint, sizeof hint, "a text stands in double quotes: \"%.*s\"", shown(length), word);
    return unexpected(w, "a value", hint);
}

static bool walk_value(struct walker *w);

static bool walk_key(struct walker *w) {
    char hint[96] = "";
    const size_t word = word_length(w);
    if (here(w) != '"') {
        if (word > 0) snprintf(hint, sizeof hint, "write \"%.*s\"", shown(word), w->text + w->at);
        return unexpected(w, "a key in double quotes", hint);
    }
    if (!walk_string(w)) return false;
    skip_space(w);
    if (here(w) != ':') return unexpected(w, "a colon after the key", "");
    w->at++;
    return true;
}

/* From the bracket to its partner. */
static bool walk_members(struct walker *w, char close) {
    if (w->depth == DEPTH_MAX) return true; /* told before */
    w->open[w->depth++] = w->at++;
    skip_space(w);
    if (here(w) == close && w->at < w->size) goto closed;
    for (;;) {
        skip_space(w);
        if ((close == '}' && !walk_key(w)) || !walk_value(w)) return false;
        skip_space(w);
        if (w->at < w->size && here(w) == close) goto closed;
        if (here(w) != ',') {
            char hint[96] = "";
            long line;
            line_of(w, w->open[w->depth - 1], &line);
            if (here(w) == '}' || here(w) == ']')
                snprintf(hint, sizeof hint, "the %c of line %ld is still open",
                         w->text[w->open[w->depth - 1]], line);
            return unexpected(
                w, close == '}' ? "a comma or } after the value" : "a comma or ] after the value",
                hint);
        }
        w->at++;
        skip_space(w);
        if (here(w) == '}' || here(w) == ']')
            return fault(w, 1, "", "a comma before the closing bracket");
    }
closed:
    w->depth--;
    w->at++;
    return true;
}

static bool walk_value(struct walker *w) {
    skip_space(w);
    const char c = here(w);
    if (w->at >= w->size) return ends_early(w);
    if (c == '{') return walk_members(w, '}');
    if (c == '[') return walk_members(w, ']');
    if (c == '"') return walk_string(w);
    const char next = w->at + 1 < w->size ? w->text[w->at + 1] : '\0';
    if (is_digit(c) || ((c == '-' || c == '+' || c == '.') && (is_digit(next) || next == '.')))
        return walk_number(w);
    if (isalpha((unsigned char)c) || ((c == '-' || c == '+') && isalpha((unsigned char)next)))
        return walk_word(w);
    return unexpected(w, "a value", "");
}

/* ---- other languages ---- */

/* The first line that says something, behind lines of # comments. */
static void skip_comments(struct walker *w) {
    skip_space(w);
    while (here(w) == '#') {
        while (w->at < w->size && w->text[w->at] != '\n')
            w->at++;
        skip_space(w);
    }
}

static bool ends_word(const struct walker *w, size_t at) {
    return at >= w->size || is_space(w->text[at]);
}

/* "tp: 2", "- 2", "---" */
static bool is_yaml(const struct walker *w) {
    const char *text = w->text;
    const size_t length = word_length(w), behind = w->at + length;
    if (length == 1 && here(w) == '-') return ends_word(w, behind);
    if (length == 3 && strncmp(text + w->at, "---", 3) == 0) return ends_word(w, behind);
    return length > 0 && behind < w->size && text[behind] == ':' && ends_word(w, behind + 1);
}

/* "tp = 2", "[layout]" and more below it */
static bool is_toml(const struct walker *w) {
    struct walker at = *w;
    const bool section = here(&at) == '[';
    at.at += section;
    if (!isalpha((unsigned char)here(&at))) return false;
    at.at += word_length(&at);
    if (!section) {
        skip_space(&at);
        return here(&at) == '=';
    }
    if (here(&at) != ']') return false;
    at.at++;
    const size_t end = at.at;
    skip_space(&at);
    return here(&at) != '\0' && memchr(w->text + end, '\n', at.at - end) != NULL;
}

static bool other_language(struct walker *w) {
    const size_t start = w->at;
    skip_comments(w);
    const char *language = is_yaml(w) ? "YAML" : is_toml(w) ? "TOML" : NULL;
    if (language == NULL) {
        w->at = start;
        return false;
    }
    const size_t word = word_length(w);
    fault(w, word > 0 ? word : 1,
          "braces around all of it, keys and texts in double quotes: { \"tp\": 2, \"sp\": true }",
          "this looks like %s, and files here are JSON", language);
    return true;
}

bool json_syntax_fault(const char *text, size_t size, struct json_fault *out) {
    struct walker w = { .text = text, .size = size, .out = out };
    if (other_language(&w)) return true;
    if (!walk_value(&w)) return true;
    skip_space(&w);
    if (w.at >= size) return false;
    if (here(&w) == '}' || here(&w) == ']') {
        fault(&w, 1, "", "one more closing bracket than was opened");
        return true;
    }
    unexpected(&w, "the end of the text", "a file holds one value: { ... }");
    return true;
}

/* ---- what cJSON takes ---- */

/* Past a string of a well-formed text. */
static size_t string_end(const char *text, size_t size, size_t at) {
    at++;
    while (at < size && text[at] != '"')
        at += text[at] == '\\' ? 2 : 1;
    return at < size ? at + 1 : size;
}

size_t json_too_deep_at(const char *text, size_t size, int limit) {
    int depth = 0;
    for (size_t at = 0; at < size;) {
        const char c = text[at];
        if (c == '"') {
            at = string_end(text, size, at);
            continue;
        }
        if ((c == '{' || c == '[') && ++depth > limit) return at;
        if (c == '}' || c == ']') depth--;
        at++;
    }
    return size;
}

size_t json_key_at(const char *text, size_t size, const char *key) {
    const size_t length = strlen(key);
    size_t found = size;
    int depth = 0;
    for (size_t at = 0; at < size;) {
        if (text[at] != '"') {
            depth += is_one_of(text[at], "{[");
            depth -= is_one_of(text[at], "}]");
            at++;
            continue;
        }
        const size_t end = string_end(text, size, at);
        size_t next = end;
        while (next < size && is_space(text[next]))
            next++;
        if (depth == 1 && next < size && text[next] == ':' && end - at == length + 2 &&
            memcmp(text + at + 1, key, length) == 0)
            found = at;
        at = end;
    }
    return found;
}

size_t json_odd_number_at(const char *text, size_t size) {
    for (size_t next = 0; next < size;) {
        const size_t start = next;
        if (text[start] == '"') {
            next = string_end(text, size, start);
            continue;
        }
        next++;
        if (text[start] != '-' && !is_digit(text[start])) continue;
        size_t at = start + (text[start] == '-');
        if (at >= size || !is_digit(text[at])) return start;
        if (text[at] == '0' && at + 1 < size && is_digit(text[at + 1])) return start;
        while (at < size && is_digit(text[at]))
            at++;
        if (at < size && text[at] == '.' && (at + 1 >= size || !is_digit(text[at + 1])))
            return start;
        while (at < size && (is_digit(text[at]) || is_one_of(text[at], ".eE+-")))
            at++;
        next = at;
    }
    return size;
}

size_t json_escaped_nul_at(const char *text, size_t size) {
    for (size_t i = 0; i + 5 < size; i++) {
        if (text[i] != '\\') continue;
        if (memcmp(text + i, "\\u0000", 6) == 0) return i;
        i++; /* what the backslash stands before */
    }
    return size;
}

bool json_is_binary(const char *text, size_t size) {
    enum { LOOKED_AT = 512 };
    const size_t end = size < LOOKED_AT ? size : LOOKED_AT;
    size_t odd = 0, at = 0;
    while (at < end) {
        const char *foreign = utf8_invalid(text + at, end - at);
        const size_t stop = foreign != NULL ? (size_t)(foreign - text) : end;
        for (; at < stop; at++)
            odd += (unsigned char)text[at] < 32 && !is_one_of(text[at], "\t\n\r");
        odd += foreign != NULL;
        at = stop + (foreign != NULL);
    }
    return odd * 3 > end;
}
