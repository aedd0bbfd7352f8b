/* dataset_csv.c - reading and writing of sample tables.
 *
 * A million rows in a tenth of a second: the window always ends in a newline, so the inner loop
 * needs no bounds; whole numbers of up to nine digits, the only thing that a good file holds, are
 * read inline, and everything else (quotes, spaces, mistakes) takes the slow way.
 */
#include "sim/data/dataset_csv.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>
#include "sim/base/csv.h"
#include "sim/base/output_draft.h"
#include "sim/base/field.h"
#include "sim/base/utf8.h"
#include "sim/data/output_source.h"
#include "sim/data/text_source.h"

enum role {
    ROLE_IGNORED,
    ROLE_LANGUAGE_TOKENS,
    ROLE_TEXT_TOKENS,
    ROLE_VISION_TILES,
    ROLE_VISION_PATCHES,
    ROLE_VISION_SQUARES,
    ROLE_IMAGE_FLAGS,
    ROLE_CLIP,
    ROLE_WIDTH,
    ROLE_HEIGHT,
    ROLE_FRAME_WIDTH,
    ROLE_FRAME_HEIGHT,
    ROLE_PART_ID,
    ROLE_LAST_NUMBER = ROLE_PART_ID,
    ROLE_PART,
    ROLE_IMAGE_SIZES,
    ROLE_COUNT
};

static const struct column_name {
    const char *name;
    enum role role;
} column_names[] = {
    { "language_tokens", ROLE_LANGUAGE_TOKENS },
    { "llm_tokens", ROLE_LANGUAGE_TOKENS },
    { "token_num", ROLE_LANGUAGE_TOKENS },
    { "text_tokens", ROLE_TEXT_TOKENS },
    { "vision_tiles", ROLE_VISION_TILES },
    { "vit_num", ROLE_VISION_TILES },
    { "vision_patches", ROLE_VISION_PATCHES },
    { "vision_squares", ROLE_VISION_SQUARES },
    { "image_flags", ROLE_IMAGE_FLAGS },
    { "clip_ms", ROLE_CLIP },
    { "width", ROLE_WIDTH },
    { "height", ROLE_HEIGHT },
    { "frame_width", ROLE_FRAME_WIDTH },
    { "frame_height", ROLE_FRAME_HEIGHT },
    { "part", ROLE_PART },
    { "dataset", ROLE_PART },
    { "part_id", ROLE_PART_ID },
    { "image_wh", ROLE_IMAGE_SIZES },
};

static const struct role_rule {
    int64_t max;
    bool may_be_empty;
} role_rules[ROLE_COUNT] = {
    [ROLE_LANGUAGE_TOKENS] = { RECORD_MAX_TOKENS, false },
    [ROLE_TEXT_TOKENS] = { RECORD_MAX_TOKENS, false },
    [ROLE_VISION_TILES] = { RECORD_MAX_TILES, false },
    [ROLE_VISION_PATCHES] = { RECORD_MAX_TOKENS, false },
    [ROLE_VISION_SQUARES] = { (int64_t)RECORD_MAX_TOKENS * RECORD_MAX_TOKENS, true },
    [ROLE_IMAGE_FLAGS] = { RECORD_MAX_TILES, true },
    [ROLE_CLIP] = { RECORD_MAX_CLIP_MS, true },
    [ROLE_WIDTH] = { RECORD_MAX_SIDE, true },
    [ROLE_HEIGHT] = { RECORD_MAX_SIDE, true },
    [ROLE_FRAME_WIDTH] = { RECORD_MAX_SIDE, true },
    [ROLE_FRAME_HEIGHT] = { RECORD_MAX_SIDE, true },
    [ROLE_PART_ID] = { DATASET_MAX_PARTS - 1, false },
};

enum { COLUMN_LIMIT = 256, ROW_IMAGE_LIMIT = 1024, PART_NAME_LIMIT = 256 };

struct csv_reader {
    struct dataset_builder *builder;
    struct text_source source;
    const char *default_part;
    int64_t line; /* of the row being read, from 1 */
    int column_count;
    enum role roles[COLUMN_LIMIT];
    char *names[COLUMN_LIMIT];
    bool has[ROLE_COUNT];
    int64_t values[ROLE_COUNT]; /* numbers of the row being read; -1: empty or no such column */
    int64_t part;
    struct image_size images[ROW_IMAGE_LIMIT];
    int64_t image_count;
    struct error *err;
};

static bool fail_at(struct csv_reader *r, const char *line_start, const char *at,
                    const char *format, ...) __attribute__((format(printf, 4, 5)));

static bool fail_at(struct csv_reader *r, const char *line_start, const char *at,
                    const char *format, ...) {
    char text[512];
    va_list args;
    va_start(args, format);
    vsnprintf(text, sizeof text, format, args);
    va_end(args);
    return error_at(r->err, r->source.path, (long)r->line, (long)(at - line_start) + 1, "%s", text);
}

/* ---- one cell ---- */

struct cell {
    const char *text;
    size_t length;
    const char *end; /* the comma or newline behind it */
};

/* The cell at p, quotes and outer spaces removed. A quoted cell keeps doubled quotes doubled. */
static bool read_cell(struct csv_reader *r, const char *line_start, const char *p,
                      struct cell *cell) {
    while (*p == ' ')
        p++;
    const char *from = p, *to;
    if (*p == '"') {
        from = ++p;
        while (*p != '\n' && !(*p == '"' && p[1] != '"'))
            p += *p == '"' ? 2 : 1;
        if (*p == '\n') return fail_at(r, line_start, from - 1, "the quote is not closed");
        to = p++;
        while (*p == ' ' || *p == '\r')
            p++;
        if (*p != ',' && *p != '\n')
            return fail_at(r, line_start, p, "text behind a closing quote");
    } else {
        while (*p != ',' && *p != '\n')
            p++;
        to = p;
        while (to > from && (to[-1] == ' ' || to[-1] == '\r'))
            to--;
    }
    *cell = (struct cell){ from, (size_t)(to - from), p };
    return true;
}

/* For messages: control characters would garble the terminal. */
static const char *printable(const struct cell *cell, char *text, size_t size) {
    size_t n = cell->length < size - 1 ? cell->length : size - 1;
    for (size_t i = 0; i < n; i++)
        text[i] = (unsigned char)cell->text[i] < 32 ? '?' : cell->text[i];
    text[n] = '\0';
    return text;
}

static bool read_number(struct csv_reader *r, const char *line_start, int column,
                        const struct cell *cell, int64_t *value) {
    enum role role = r->roles[column];
    const struct role_rule *rule = &role_rules[role];
    char text[32];
    if (cell->length == 0) {
        *value = -1;
        if (rule->may_be_empty) return true;
        return fail_at(r, line_start, cell->text, "%s is empty", r->names[column]);
    }
    bool negative = cell->text[0] == '-' && cell->length > 1;
    int64_t number = 0;
    for (size_t i = negative; i < cell->length; i++) {
        char c = cell->text[i];
        if (c < '0' || c > '9')
            return fail_at(r, line_start, cell->text, "%s must be a whole number, got \"%s\"",
                           r->names[column], printable(cell, text, sizeof text));
        if (number <= rule->max) number = number * 10 + (c - '0');
    }
    if (negative || number > rule->max)
        return fail_at(r, line_start, cell->text, "%s must be 0 to %lld, got %s", r->names[column],
                       (long long)rule->max, printable(cell, text, sizeof text));
    *value = number;
    return true;
}

static bool read_sizes(struct csv_reader *r, const char *line_start, const struct cell *cell) {
    const char *p = cell->text, *end = cell->text + cell->length;
    r->image_count = 0;
    while (p < end) {
        int64_t sides[2] = { 0, 0 };
        for (int i = 0; i < 2; i++) {
            const char *digits = p;
            while (p < end && *p >= '0' && *p <= '9' && sides[i] <= RECORD_MAX_SIDE)
                sides[i] = sides[i] * 10 + (*p++ - '0');
            /* A ';' at the end leaves a size without digits. */
            bool separated = i == 0 ? p < end && *p++ == 'x' : p == end || (*p++ == ';' && p < end);
            if (digits == p || !separated || sides[i] < 1 || sides[i] > RECORD_MAX_SIDE)
                return fail_at(
                    r, line_start, digits,
                    "image_wh must be sizes like 640x480, separated by ';', with sides of 1 "
                    "to %d",
                    RECORD_MAX_SIDE);
        }
        if (r->image_count == ROW_IMAGE_LIMIT)
            return fail_at(r, line_start, cell->text, "more than %d images in one sample",
                           ROW_IMAGE_LIMIT);
        r->images[r->image_count++] = (struct image_size){ (uint32_t)sides[0], (uint32_t)sides[1] };
    }
    if (r->image_count == 0) r->image_count = -1;
    return true;
}

/* Doubled quotes inside a quoted cell stand for one; text has room for the cell. */
static size_t single_quotes(const struct cell *cell, char *text) {
    size_t used = 0;
    for (size_t i = 0; i < cell->length; i++) {
        text[used++] = cell->text[i];
        if (cell->text[i] == '"' && i + 1 < cell->length && cell->text[i + 1] == '"') i++;
    }
    return used;
}

static bool read_other(struct csv_reader *r, const char *line_start, int column,
                       const struct cell *cell) {
    if (r->roles[column] == ROLE_IMAGE_SIZES) return read_sizes(r, line_start, cell);
    if (r->roles[column] != ROLE_PART) return true;
    if (cell->length == 0) return fail_at(r, line_start, cell->text, "the part has no name");
    const char *name = cell->text;
    size_t length = cell->length;
    char single[PART_NAME_LIMIT];
    if (length > PART_NAME_LIMIT)
        return fail_at(r, line_start, name, "the name of the part is longer than %d bytes",
                       PART_NAME_LIMIT);
    if (memchr(name, '"', length) != NULL) {
        length = single_quotes(cell, single);
        name = single;
    }
    r->part = dataset_builder_part(r->builder, name, length);
    if (r->part >= 0) return true;
    return fail_at(r, line_start, cell->text, "more than %d different parts", DATASET_MAX_PARTS);
}

/* ---- one row ---- */

/* Without a description, part_id 7 is a part called "7". */
static bool find_part(struct csv_reader *r, const char *line_start) {
    if (r->has[ROLE_PART]) return true;
    int64_t id = r->values[ROLE_PART_ID];
    int64_t declared = r->builder->declared_part_count;
    char text[24];
    const char *name = r->default_part;
    if (r->has[ROLE_PART_ID] && declared > 0) {
        r->part = id;
        if (id < declared) return true;
        return fail_at(r, line_start, line_start,
                       "part_id %lld has no name: the description lists %lld parts", (long long)id,
                       (long long)declared);
    }
    if (r->has[ROLE_PART_ID]) {
        snprintf(text, sizeof text, "%lld", (long long)id);
        name = text;
    }
    r->part = dataset_builder_part(r->builder, name, strlen(name));
    return r->part >= 0 ||
           fail_at(r, line_start, line_start, "more than %d different parts", DATASET_MAX_PARTS);
}

static bool find_images(struct csv_reader *r, const char *line_start) {
    if (!r->has[ROLE_WIDTH]) return true;
    int64_t width = r->values[ROLE_WIDTH], height = r->values[ROLE_HEIGHT];
    if ((width > 0) != (height > 0))
        return fail_at(r, line_start, line_start,
                       "width and height must both be positive, or both be 0 for no image");
    r->image_count = width > 0 ? 1 : width == 0 && height == 0 ? 0 : -1;
    r->images[0] = (struct image_size){ (uint32_t)width, (uint32_t)height };
    return true;
}

static bool check_frames(struct csv_reader *r, const char *line_start) {
    const bool wide = r->values[ROLE_FRAME_WIDTH] > 0, high = r->values[ROLE_FRAME_HEIGHT] > 0;
    return wide == high || fail_at(r, line_start, line_start,
                                   "frame_width and frame_height must both be positive, or both "
                                   "be 0 for the model's own");
}

static bool add_row(struct csv_reader *r, const char *line_start) {
    if (!find_part(r, line_start) || !find_images(r, line_start) || !check_frames(r, line_start))
        return false;
    struct sample_record record = { .language_tokens = r->values[ROLE_LANGUAGE_TOKENS],
                                    .text_tokens = r->values[ROLE_TEXT_TOKENS],
                                    .vision_tiles = r->values[ROLE_VISION_TILES],
                                    .vision_patches = r->values[ROLE_VISION_PATCHES],
                                    .vision_squares = r->values[ROLE_VISION_SQUARES],
                                    .image_flags = r->values[ROLE_IMAGE_FLAGS],
                                    .clip_ms = r->values[ROLE_CLIP],
                                    .frame_width = r->values[ROLE_FRAME_WIDTH],
                                    .frame_height = r->values[ROLE_FRAME_HEIGHT],
                                    .image_count = r->image_count,
                                    .images = r->images,
                                    .part = r->part };
    if (dataset_builder_add(r->builder, &record)) return true;
    fail_at(r, line_start, line_start, "%s", r->builder->problem);
    if (r->builder->hint != NULL) error_hint(r->err, "%s", r->builder->hint);
    return false;
}

static bool wrong_column_count(struct csv_reader *r, const char *line_start, const char *at,
                               int count) {
    return fail_at(r, line_start, at, "the row has %s%d columns, the header has %d",
                   count > r->column_count ? "at least " : "", count, r->column_count);
}

/* Reads one row that is not blank; p moves behind its newline. */
static inline bool read_row(struct csv_reader *r, const char **start) {
    const char *line_start = *start, *p = line_start;
    for (int column = 0; column < r->column_count; column++) {
        enum role role = r->roles[column];
        const char *digits = p;
        int64_t value = 0;
        unsigned digit;
        while ((digit = (unsigned)*p - '0') < 10 && p - digits < 9) {
            value = value * 10 + digit;
            p++;
        }
        bool plain = p > digits && (*p == ',' || *p == '\n');
        if (plain && role > ROLE_IGNORED && role <= ROLE_LAST_NUMBER &&
            value <= role_rules[role].max) {
            r->values[role] = value;
        } else {
            struct cell cell;
            if (!read_cell(r, line_start, digits, &cell)) return false;
            if (role > ROLE_IGNORED && role <= ROLE_LAST_NUMBER) {
                if (!read_number(r, line_start, column, &cell, &r->values[role])) return false;
            } else if (role != ROLE_IGNORED && !read_other(r, line_start, column, &cell)) {
                return false;
            }
            p = cell.end;
        }
        bool last = column + 1 == r->column_count;
        if (*p == '\n' && !last) return wrong_column_count(r, line_start, p, column + 1);
        if (*p == ',' && last) return wrong_column_count(r, line_start, p, column + 2);
        p++;
    }
    *start = p;
    return add_row(r, line_start);
}

/* [p, end) holds whole lines. */
static bool read_rows(struct csv_reader *r, const char *p, const char *end) {
    while (p < end) {
        r->line++;
        if (*p == '\n' || (*p == '\r' && p[1] == '\n'))
            p += *p == '\n' ? 1 : 2;
        else if (!read_row(r, &p))
            return false;
    }
    return true;
}

/* ---- the header ---- */

static enum role role_of(const char *name) {
    for (size_t i = 0; i < sizeof column_names / sizeof column_names[0]; i++)
        if (strcmp(column_names[i].name, name) == 0) return column_names[i].role;
    return ROLE_IGNORED;
}

static bool add_column(struct csv_reader *r, const char *line_start, const struct cell *cell) {
    if (r->column_count == COLUMN_LIMIT)
        return fail_at(r, line_start, cell->text, "more than %d columns", COLUMN_LIMIT);
    char *name = memory_alloc(cell->length + 1);
    printable(cell, name, cell->length + 1);
    enum role role = role_of(name);
    int column = r->column_count++;
    r->names[column] = name;
    r->roles[column] = role;
    if (role != ROLE_IGNORED && r->has[role])
        return fail_at(r, line_start, cell->text, "column \"%.60s\" repeats another column", name);
    r->has[role] = true;
    return true;
}

static const char *column_name_at(const void *names, size_t index) {
    (void)names;
    return column_names[index].name;
}

/* The column that an ignored one may have been meant for; NULL: none that the file lacks. */
static const char *meant_by(const struct csv_reader *r, int column) {
    const char *near = nearest_name(r->names[column], sizeof column_names / sizeof column_names[0],
                                    column_name_at, NULL);
    return near != NULL && !r->has[role_of(near)] ? near : NULL;
}

static void note_ignored_columns(struct csv_reader *r) {
    for (int i = 0; i < r->column_count; i++) {
        if (r->roles[i] != ROLE_IGNORED) continue;
        const char *near = meant_by(r, i);
        dataset_builder_note(r->builder, "%s: column \"%.60s\" is ignored%s%s%s", r->source.path,
                             r->names[i], near != NULL ? "; did you mean \"" : "",
                             near != NULL ? near : "", near != NULL ? "\"?" : "");
    }
}

static bool missing_column(struct csv_reader *r, const char *line_start, const char *problem) {
    const char *other = csv_other_separator(line_start);
    if (other != NULL) {
        fail_at(r, line_start, line_start, "its columns are divided by %s", other);
        return error_hint(r->err, "save it with commas, and with decimal points");
    }
    fail_at(r, line_start, line_start, "%s", problem);
    for (int i = 0; i < r->column_count; i++) {
        const char *near = r->roles[i] == ROLE_IGNORED ? meant_by(r, i) : NULL;
        if (near != NULL &&
            (strstr(problem, near) != NULL || role_of(near) == ROLE_LANGUAGE_TOKENS))
            return error_hint(r->err, "did you mean \"%s\" by \"%.60s\"?", near, r->names[i]);
    }
    char list[512] = "";
    for (int i = 0; i < r->column_count; i++) {
        size_t used = strlen(list);
        snprintf(list + used, sizeof list - used, "%s%s", i > 0 ? ", " : "", r->names[i]);
    }
    return list[0] != '\0' ? error_hint(r->err, "the header's columns are: %s", list)
                           : error_hint(r->err, "the first line is empty");
}

static bool check_columns(struct csv_reader *r, const char *line_start) {
    if (!r->has[ROLE_LANGUAGE_TOKENS] && !r->has[ROLE_TEXT_TOKENS])
        return missing_column(r, line_start, "no column \"language_tokens\" or \"text_tokens\"");
    if (r->has[ROLE_WIDTH] != r->has[ROLE_HEIGHT])
        return missing_column(r, line_start,
                              r->has[ROLE_WIDTH] ? "a column \"width\" needs a column \"height\""
                                                 : "a column \"height\" needs a column \"width\"");
    if (r->has[ROLE_FRAME_WIDTH] != r->has[ROLE_FRAME_HEIGHT] ||
        (r->has[ROLE_FRAME_WIDTH] && !r->has[ROLE_CLIP]))
        return missing_column(r, line_start,
                              "columns \"frame_width\", \"frame_height\" and \"clip_ms\" stand "
                              "together");
    if (r->has[ROLE_WIDTH] && r->has[ROLE_IMAGE_SIZES])
        return missing_column(r, line_start,
                              "image sizes stand twice: in width and height, and in image_wh");
    if (r->has[ROLE_VISION_PATCHES] && !r->has[ROLE_LANGUAGE_TOKENS])
        return missing_column(r, line_start,
                              "a column \"vision_patches\" needs a column \"language_tokens\"");
    if (r->has[ROLE_VISION_SQUARES] && !r->has[ROLE_VISION_PATCHES])
        return missing_column(r, line_start,
                              "a column \"vision_squares\" needs a column \"vision_patches\"");
    return true;
}

static bool read_header(struct csv_reader *r, const char **start) {
    const char *p = *start;
    r->line = 1;
    if (strncmp(p, "\xEF\xBB\xBF", 3) == 0) p += 3; /* the mark that Excel writes */
    const char *line_start = p;
    if (csv_lone_returns(line_start)) {
        fail_at(r, line_start, line_start, CSV_LONE_RETURNS);
        return error_hint(r->err, CSV_LONE_RETURNS_HINT);
    }
    for (;; p++) {
        struct cell cell;
        if (!read_cell(r, line_start, p, &cell) || !add_column(r, line_start, &cell)) return false;
        p = cell.end;
        if (*p == '\n') break;
    }
    *start = p + 1;
    if (!check_columns(r, line_start)) return false;
    note_ignored_columns(r);
    return true;
}

/* ---- the file ---- */

/* NUL bytes, and bytes that are no UTF-8. */
static bool refuse_foreign_bytes(struct csv_reader *r, const char *from, const char *to) {
    const char *nul = memchr(from, '\0', (size_t)(to - from));
    const char *bad = nul != NULL ? nul : utf8_invalid(from, (size_t)(to - from));
    if (bad == NULL) return true;
    const char *line_start = from;
    int64_t line = r->line + 1;
    for (const char *p = from; p < bad; p++) {
        if (*p != '\n') continue;
        line++;
        line_start = p + 1;
    }
    r->line = line;
    if (nul != NULL) {
        fail_at(r, line_start, bad, "a NUL byte: this is not a text file");
        return utf16_seems(line_start, (size_t)(to - line_start)) ? error_hint(r->err, UTF16_HINT)
                                                                  : false;
    }
    fail_at(r, line_start, bad, "a byte 0x%02X that is no UTF-8", (unsigned char)*bad);
    return error_hint(r->err, "save the file as UTF-8");
}

static bool read_block(struct csv_reader *r, const char *from, const char *to) {
    if (!refuse_foreign_bytes(r, from, to)) return false;
    if (r->column_count == 0 && !read_header(r, &from)) return false;
    return read_rows(r, from, to);
}

/* One past the last newline of the window; NULL when there is none. */
static char *last_line_end(const struct text_source *s) {
    char *newline = memrchr(s->window + s->begin, '\n', s->end - s->begin);
    return newline == NULL ? NULL : newline + 1;
}

static bool read_file(struct csv_reader *r) {
    struct text_source *s = &r->source;
    while (text_source_fill(s)) {
        char *end = last_line_end(s);
        if (end == NULL) continue;
        if (!read_block(r, s->window + s->begin, end)) return false;
        s->begin = (size_t)(end - s->window);
    }
    if (s->failure != NULL)
        return error_at(r->err, s->path, (long)r->line + 1, 0, "%s", s->failure);
    if (s->begin == s->end) return true;
    s->window[s->end] = '\n'; /* the last line has none; the window has room for one more byte */
    return read_block(r, s->window + s->begin, s->window + s->end + 1);
}

bool dataset_csv_read(struct dataset_builder *builder, const char *path, const char *default_part,
                      const struct dataset_options *options, struct error *err) {
    struct csv_reader *r = memory_alloc(sizeof *r);
    memset(r, 0, sizeof *r);
    r->builder = builder;
    r->default_part = default_part;
    r->err = err;
    r->image_count = -1;
    for (int i = 0; i < ROLE_COUNT; i++)
        r->values[i] = -1;
    int64_t before = builder->kept_records;
    bool ok = text_source_open(&r->source, path, options == NULL ? NULL : options->progress,
                               options == NULL ? NULL : options->progress_context, err);
    if (ok) {
        dataset_builder_source(builder, path);
        ok = read_file(r);
        if (ok && r->column_count == 0) {
            ok = error_set(err, "%s is empty", path);
        } else if (ok && builder->kept_records == before) {
            ok = error_set(err, "%s has a header but no rows", path);
        }
        text_source_close(&r->source);
    }
    for (int i = 0; i < r->column_count; i++)
        free(r->names[i]);
    free(r);
    return ok;
}

/* ---- writing ---- */

struct csv_writer {
    gzFile file;
    const struct dataset *dataset;
    bool sizes, single;        /* image sizes are known; at most one image in a sample */
    dataset_progress progress; /* may be NULL */
    void *progress_context;
};

static void find_layout(struct csv_writer *w) {
    const struct dataset *d = w->dataset;
    w->single = true;
    if (d->image_starts == NULL) return;
    for (int64_t i = 0; i < d->sample_count; i++)
        if (d->image_starts[i + 1] - d->image_starts[i] > 1) w->single = false;
    for (uint32_t i = 0; i < d->image_starts[d->sample_count]; i++)
        if (d->images[i].width > 0) w->sizes = true;
}

static bool write_name(gzFile file, const char *name) {
    if (strpbrk(name, ",\"\r\n ") == NULL) return gzputs(file, name) >= 0;
    bool ok = gzputc(file, '"') >= 0;
    for (; ok && *name != '\0'; name++)
        ok = gzputc(file, *name) >= 0 && (*name != '"' || gzputc(file, '"') >= 0);
    return ok && gzputc(file, '"') >= 0;
}

static bool write_images(const struct csv_writer *w, int64_t i) {
    const struct dataset *d = w->dataset;
    uint32_t from = d->image_starts[i], to = d->image_starts[i + 1];
    if (gzprintf(w->file, ",%u", to > from ? (unsigned)d->samples[i].vision_tiles : 0u) <= 0)
        return false;
    if (!w->sizes) return true;
    /* A sample without all its sizes gets none. */
    bool known = to > from;
    for (uint32_t k = from; k < to; k++)
        known = known && d->images[k].width > 0;
    if (!known) return gzputs(w->file, !w->single ? "," : to == from ? ",0,0" : ",,") >= 0;
    for (uint32_t k = from; k < to; k++)
        if (gzprintf(w->file,
                     w->single   ? ",%u,%u"
                     : k == from ? ",%ux%u"
                                 : ";%ux%u",
                     d->images[k].width, d->images[k].height) <= 0)
            return false;
    return true;
}

enum { ROWS_BETWEEN_REPORTS = 1 << 16 };

static bool write_rows(const struct csv_writer *w) {
    const struct dataset *d = w->dataset;
    bool ok = gzprintf(w->file, "part,vision_tiles,language_tokens%s%s%s%s%s\n",
                       d->clip_ms != NULL ? ",clip_ms" : "",
                       d->frame_sizes != NULL ? ",frame_width,frame_height" : "",
                       d->vision_patches != NULL ? ",vision_patches,vision_squares" : "",
                       d->image_starts != NULL ? ",image_flags" : "",
                       !w->sizes   ? ""
                       : w->single ? ",width,height"
                                   : ",image_wh") > 0;
    for (int64_t i = 0; ok && i < d->sample_count; i++) {
        const struct sample *s = &d->samples[i];
        ok = write_name(w->file, d->parts[s->part].name) &&
             gzprintf(w->file, ",%u,%u", (unsigned)s->vision_tiles, s->language_tokens) > 0;
        if (ok && d->clip_ms != NULL) ok = gzprintf(w->file, ",%u", d->clip_ms[i]) > 0;
        if (ok && d->frame_sizes != NULL)
            ok = gzprintf(w->file, ",%u,%u", d->frame_sizes[i].width, d->frame_sizes[i].height) > 0;
        if (ok && d->vision_patches != NULL)
            ok = gzprintf(w->file, ",%u,%llu", d->vision_patches[i],
                          (unsigned long long)d->vision_squares[i]) > 0;
        if (ok && d->image_starts != NULL) ok = write_images(w, i);
        if (ok) ok = gzputc(w->file, '\n') >= 0;
        if (w->progress != NULL && i % ROWS_BETWEEN_REPORTS == 0)
            w->progress(w->progress_context, i, d->sample_count);
    }
    return ok;
}

bool dataset_write_csv(const struct dataset *dataset, const char *path, struct error *err) {
    return dataset_write_csv_with(dataset, path, NULL, NULL, err);
}

bool dataset_write_csv_with(const struct dataset *dataset, const char *path,
                            dataset_progress progress, void *context, struct error *err) {
    size_t length = strlen(path);
    bool zipped = length > 3 && strcmp(path + length - 3, ".gz") == 0;
    if (!output_source_allowed(dataset, path, err)) return false;
    struct output_draft draft;
    struct csv_writer w = { .dataset = dataset, .progress = progress, .progress_context = context };
    bool ok = output_draft_open(&draft, path);
    if (ok) {
        w.file = gzdopen(dup(draft.descriptor), zipped ? "wb6" : "wbT");
        ok = w.file != NULL;
    }
    if (ok) {
        gzbuffer(w.file, 1 << 17);
        find_layout(&w);
        ok = write_rows(&w);
        ok = gzclose(w.file) == Z_OK && ok;
    }
    ok = output_draft_close(&draft, ok);
    if (!ok) error_output(err, path);
    return ok;
}
