/* csv.c - one pass over the text; cells are cut in place. */
#include "sim/base/csv.h"

#include <ctype.h>
#include <math.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include "sim/base/file_read.h"
#include "sim/base/json.h"
#include "sim/base/utf8.h"

struct cutter {
    struct arena *arena;
    const char *path;
    char *at, *end;
    long line;
    const char **cells; /* of the row being cut */
    int64_t count, capacity;
};

static void add_cell(struct cutter *c, const char *text) {
    if (c->count == c->capacity) {
        c->capacity = c->capacity > 0 ? 2 * c->capacity : 64;
        const char **grown = arena_array(c->arena, const char *, c->capacity);
        if (c->count > 0) memcpy(grown, c->cells, sizeof *grown * (size_t)c->count);
        c->cells = grown;
    }
    c->cells[c->count++] = text;
}

/* Cuts one cell; *ended tells whether the row ends with it. */
static bool cut_cell(struct cutter *c, bool *ended, struct error *err) {
    char *start = c->at, *out = c->at;
    if (c->at < c->end && *c->at == '"') {
        long opened = c->line;
        for (c->at++;; c->at++) {
            if (c->at >= c->end)
                return error_at(err, c->path, opened, 0, "a quote is opened and not closed");
            if (*c->at == '"') {
                if (c->at + 1 >= c->end || c->at[1] != '"') break;
                c->at++;
            }
            if (*c->at == '\n') c->line++;
            *out++ = *c->at;
        }
        c->at++;
        if (c->at < c->end && *c->at != ',' && *c->at != '\n' && *c->at != '\r')
            return error_at(err, c->path, c->line, 0, "text follows a closing quote");
    } else {
        while (c->at < c->end && *c->at != ',' && *c->at != '\n' && *c->at != '\r')
            *out++ = *c->at++;
    }
    if (c->at < c->end && *c->at == '\r') c->at++;
    *ended = c->at >= c->end || *c->at == '\n';
    c->at++;
    *out = '\0';
    add_cell(c, start);
    return true;
}

static bool cut_row(struct cutter *c, struct error *err) {
    c->count = 0;
    bool ended = false;
    while (!ended)
        if (!cut_cell(c, &ended, err)) return false;
    return true;
}

const char *csv_other_separator(const char *line) {
    int commas = 0, semicolons = 0, tabs = 0, bars = 0;
    for (; *line != '\0' && *line != '\n'; line++) {
        commas += *line == ',';
        semicolons += *line == ';';
        tabs += *line == '\t';
        bars += *line == '|';
    }
    if (commas > 0) return NULL;
    return semicolons > 0 ? "semicolons" : tabs > 0 ? "tabs" : bars > 0 ? "bars" : NULL;
}

bool csv_lone_returns(const char *line) {
    int alone = 0; /* one may stand before a column that a tool added to a file of CR LF */
    for (; *line != '\0' && *line != '\n'; line++)
        alone += line[0] == '\r' && line[1] != '\n';
    return alone > 1;
}

static int compare_texts(const void *a, const void *b) {
    return strcmp(*(const char *const *)a, *(const char *const *)b);
}

/* A name that stands twice, or NULL. */
static const char *name_twice(struct arena *arena, const struct csv *csv) {
    const char **names = arena_array(arena, const char *, csv->column_count);
    memcpy(names, csv->header, sizeof *names * (size_t)csv->column_count);
    qsort(names, (size_t)csv->column_count, sizeof *names, compare_texts);
    for (int64_t i = 1; i < csv->column_count; i++)
        if (strcmp(names[i - 1], names[i]) == 0) return names[i];
    return NULL;
}

static const char *trimmed(struct arena *arena, const char *name) {
    name += strspn(name, " \t");
    size_t length = strlen(name);
    while (length > 0 && (name[length - 1] == ' ' || name[length - 1] == '\t'))
        length--;
    return name[length] == '\0' ? name : arena_format(arena, "%.*s", (int)length, name);
}

static bool cut_header(struct cutter *c, struct csv *csv, struct error *err) {
    if (*c->at == '{' || *c->at == '[')
        return error_at(err, c->path, 1, 0, "this is JSON: a CSV file with a header is expected");
    if (csv_lone_returns(c->at)) {
        error_at(err, c->path, 1, 0, CSV_LONE_RETURNS);
        return error_hint(err, CSV_LONE_RETURNS_HINT);
    }
    const char *other = csv_other_separator(c->at);
    if (other != NULL) {
        error_at(err, c->path, 1, 0, "its columns are divided by %s", other);
        return error_hint(err, "save it with commas, and with decimal points");
    }
    if (!cut_row(c, err)) return false;
    csv->column_count = c->count;
    csv->header = arena_array(c->arena, const char *, c->count);
    for (int64_t i = 0; i < c->count; i++)
        csv->header[i] = trimmed(c->arena, c->cells[i]);
    const char *twice = name_twice(c->arena, csv);
    if (twice != NULL) {
        error_at(err, c->path, 1, 0, "column \"%s\" stands twice in the header", twice);
        if (isdigit((unsigned char)twice[0])) error_hint(err, "has it no header row?");
        return false;
    }
    c->line++;
    return true;
}

const struct csv *csv_load(struct arena *arena, const char *path, struct error *err) {
    char *text;
    size_t size;
    if (!file_read(path, &text, &size, err)) return NULL;
    struct csv *csv = arena_new(arena, struct csv);
    csv->path = arena_text(arena, path);
    char *kept = arena_alloc(arena, size + 2);
    memcpy(kept, text, size);
    free(text);
    if (memchr(kept, '\0', size) != NULL) {
        error_at(err, path, 1, 0, "not a text file: it holds a zero byte");
        if (utf16_seems(kept, size)) error_hint(err, UTF16_HINT);
        return NULL;
    }
    const char *bad = utf8_invalid(kept, size);
    if (bad != NULL) {
        long line = 1;
        for (const char *c = kept; c < bad; c++)
            line += *c == '\n';
        error_at(err, path, line, 0, "a byte 0x%02X that is no UTF-8", (unsigned char)*bad);
        error_hint(err, "save the file as UTF-8");
        return NULL;
    }
    bool mark = size >= 3 && memcmp(kept, "\xef\xbb\xbf", 3) == 0;
    struct cutter c = { .arena = arena,
                        .path = csv->path,
                        .at = kept + (mark ? 3 : 0),
                        .end = kept + size,
                        .line = 1 };
    if (c.at >= c.end) {
        error_at(err, path, 1, 0, "the file is empty: a header row is expected");
        return NULL;
    }
    if (!cut_header(&c, csv, err)) return NULL;
    int64_t capacity = 0;
    while (c.at < c.end) {
        long line = c.line;
        if (*c.at == '\n') { /* an empty line */
            c.at++;
            c.line++;
            continue;
        }
        if (!cut_row(&c, err)) return NULL;
        c.line++;
        if (c.count != csv->column_count) {
            error_at(err, path, line, 0, "%ld cell%s, the header has %ld column%s%s", (long)c.count,
                     c.count == 1 ? "" : "s", (long)csv->column_count,
                     csv->column_count == 1 ? "" : "s",
                     csv->column_count == 1 ? "; the first line must be the header" : "");
            return NULL;
        }
        if (csv->row_count == capacity) {
            capacity = capacity > 0 ? 2 * capacity : 64;
            const char **cells = arena_array(arena, const char *, capacity * csv->column_count);
            long *lines = arena_array(arena, long, capacity);
            if (csv->row_count > 0) {
                memcpy(cells, csv->cells,
                       sizeof *cells * (size_t)(csv->row_count * csv->column_count));
                memcpy(lines, csv->lines, sizeof *lines * (size_t)csv->row_count);
            }
            csv->cells = cells;
            csv->lines = lines;
        }
        memcpy(csv->cells + csv->row_count * csv->column_count, c.cells,
               sizeof *c.cells * (size_t)c.count);
        csv->lines[csv->row_count++] = line;
    }
    return csv;
}

int64_t csv_column(const struct csv *csv, const char *name) {
    for (int64_t i = 0; i < csv->column_count; i++)
        if (strcmp(csv->header[i], name) == 0) return i;
    return -1;
}

const char *csv_cell(const struct csv *csv, int64_t row, int64_t column) {
    return column < 0 ? "" : csv->cells[row * csv->column_count + column];
}

bool csv_error(const struct csv *csv, int64_t row, int64_t column, struct error *err,
               const char *format, ...) {
    char message[512];
    va_list args;
    va_start(args, format);
    vsnprintf(message, sizeof message, format, args);
    va_end(args);
    return error_at(err, csv->path, csv->lines[row], 0, "%s: %s",
                    column >= 0 ? csv->header[column] : "row", message);
}

bool csv_number(const struct csv *csv, int64_t row, int64_t column, double *value,
                struct error *err) {
    const char *text = csv_cell(csv, row, column);
    if (text[0] == '\0') return true;
    char *end;
    double number = strtod(text, &end);
    /* strtod reads "0x10" and "inf" too, which no table means */
    const bool decimal = text[strspn(text, " +-.0123456789eE")] == '\0';
    if (*end != '\0' || !decimal)
        return csv_error(csv, row, column, err, "expected a number, got \"%.40s\"", text);
    if (!isfinite(number))
        return csv_error(csv, row, column, err, "\"%.40s\" is larger than any number here", text);
    *value = number;
    return true;
}

bool csv_count(const struct csv *csv, int64_t row, int64_t column, int64_t *value,
               struct error *err) {
    double number = -1;
    if (csv_cell(csv, row, column)[0] == '\0') return true;
    if (!csv_number(csv, row, column, &number, err)) return false;
    if (number < 0 || number > 9e15 || number != floor(number))
        return csv_error(csv, row, column, err, "expected a whole number, got \"%.40s\"",
                         csv_cell(csv, row, column));
    *value = (int64_t)number;
    return true;
}
