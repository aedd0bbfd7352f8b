/* dataset_json.c - records of OmniBal, LLaVA and InternVL as samples.
 *
 * Estimated tokens. Characters per token of InternLM2's tokenizer, measured on public records:
 * 4.62 on 512 detailed English captions (MODE calib_coco_512: 907 characters, 196.1 tokens on
 * average) and 1.79 on the 90 Chinese questions of VisCPM's LLaVA-QA90 (1,342 characters, 749
 * tokens). Good to about 10 % on such text, worse on code, formulas and tables.
 *
 * Chat template of InternLM2 in InternVL, without a system prompt: one token begins the sample,
 * each message adds 4 (8 a question and answer), each image 3 (<img>, </img>, newline).
 */
#include "sim/data/dataset_json.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>
#include "sim/base/field.h"
#include "sim/base/json_syntax.h"
#include "sim/data/json_splitter.h"
#include "sim/data/text_source.h"

#define CHARACTERS_PER_TOKEN     4.62
#define CJK_CHARACTERS_PER_TOKEN 1.79

enum { TEMPLATE_START_TOKENS = 1, TEMPLATE_MESSAGE_TOKENS = 4, TEMPLATE_IMAGE_TOKENS = 3 };

static const char image_marker[] = "<image>";

struct json_reader {
    struct dataset_builder *builder;
    const char *path;
    const char *default_part;
    struct image_size *images; /* of the record being read */
    int64_t image_count, image_capacity;
    int64_t video_count;
    long line, column; /* of the record being read, or of the key in it that is to blame */
    const char *text;  /* of the record */
    size_t length;
    int64_t tiled, untold; /* records of counts that give their tiles, and that do not */
    bool noted;            /* a misnamed key */
    struct error *err;
};

static bool fail(struct json_reader *r, const char *format, ...)
    __attribute__((format(printf, 2, 3)));

static bool fail(struct json_reader *r, const char *format, ...) {
    char text[512];
    va_list args;
    va_start(args, format);
    vsnprintf(text, sizeof text, format, args);
    va_end(args);
    return error_at(r->err, r->path, r->line, r->column, "%s", text);
}

/* Moves the reader's position to byte `offset` of the record. */
static void advance(struct json_reader *r, size_t offset) {
    for (size_t i = 0; i < offset; i++) {
        r->column++;
        if (r->text[i] != '\n') continue;
        r->line++;
        r->column = 1;
    }
}

/* The record's key that a message is about: the last one where it stands twice. */
static void blame(struct json_reader *r, const char *key) {
    const size_t at = json_key_at(r->text, r->length, key);
    if (at < r->length) advance(r, at);
}

/* ---- characters ---- */

/* Scripts without spaces between words, which take a token per one or two characters. */
static bool is_cjk(uint32_t c) {
    return (c >= 0x2E80 && c <= 0x9FFF) || (c >= 0xAC00 && c <= 0xD7AF) ||
           (c >= 0xF900 && c <= 0xFAFF) || (c >= 0xFF00 && c <= 0xFFEF) ||
           (c >= 0x20000 && c <= 0x3FFFF);
}

static uint32_t next_character(const unsigned char **text) {
    const unsigned char *p = *text;
    uint32_t c = *p++;
    int more = c >= 0xF0 ? 3 : c >= 0xE0 ? 2 : c >= 0xC0 ? 1 : 0;
    if (more > 0) c &= 0x3Fu >> more;
    while (more-- > 0 && (*p & 0xC0) == 0x80)
        c = c << 6 | (*p++ & 0x3Fu);
    *text = p;
    return c;
}

int64_t text_tokens_from_characters(const char *text) {
    int64_t cjk = 0, other = 0;
    const size_t marker_length = sizeof image_marker - 1;
    for (const unsigned char *p = (const unsigned char *)text; *p != '\0';) {
        if (*p == '<' && strncmp((const char *)p, image_marker, marker_length) == 0) {
            p += marker_length;
            continue;
        }
        if (is_cjk(next_character(&p)))
            cjk++;
        else
            other++;
    }
    return (int64_t)ceil((double)other / CHARACTERS_PER_TOKEN +
                         (double)cjk / CJK_CHARACTERS_PER_TOKEN);
}

static int64_t count_markers(const char *text) {
    int64_t count = 0;
    for (const char *p = text; (p = strstr(p, image_marker)) != NULL; p++)
        count++;
    return count;
}

/* ---- numbers ---- */

static bool whole_number(struct json_reader *r, const char *key, const cJSON *node, int64_t max,
                         int64_t *value) {
    const bool whole = cJSON_IsNumber(node) && node->valuedouble == floor(node->valuedouble);
    if (whole && node->valuedouble >= 0 && node->valuedouble <= (double)max) {
        *value = (int64_t)node->valuedouble;
        return true;
    }
    if (node != NULL && node->string != NULL) blame(r, node->string);
    if (whole)
        return fail(r, "%s must be 0 to %lld, got %.15g", key, (long long)max, node->valuedouble);
    if (cJSON_IsString(node)) {
        fail(r, "%s must be a whole number, got the text \"%.40s\"", key, node->valuestring);
        return error_hint(r->err, "numbers stand without quotes");
    }
    if (cJSON_IsNumber(node))
        return fail(r, "%s must be a whole number, got %.15g", key, node->valuedouble);
    return fail(r, "%s must be a whole number", key);
}

static const struct number_key {
    const char *key;
    size_t offset;
    int64_t max;
} number_keys[] = {
    { "vit_num", offsetof(struct sample_record, vision_tiles), RECORD_MAX_TILES },
    { "vision_tiles", offsetof(struct sample_record, vision_tiles), RECORD_MAX_TILES },
    { "token_num", offsetof(struct sample_record, language_tokens), RECORD_MAX_TOKENS },
    { "language_tokens", offsetof(struct sample_record, language_tokens), RECORD_MAX_TOKENS },
    { "llm_tokens", offsetof(struct sample_record, language_tokens), RECORD_MAX_TOKENS },
    { "text_tokens", offsetof(struct sample_record, text_tokens), RECORD_MAX_TOKENS },
    { "image_flags", offsetof(struct sample_record, image_flags), RECORD_MAX_TILES },
};

static bool read_numbers(struct json_reader *r, const cJSON *object, struct sample_record *record) {
    for (const cJSON *node = object->child; node != NULL; node = node->next)
        for (size_t i = 0; i < sizeof number_keys / sizeof number_keys[0]; i++) {
            const struct number_key *k = &number_keys[i];
            if (strcmp(node->string, k->key) != 0) continue;
            int64_t *value = (int64_t *)((char *)record + k->offset);
            if (*value >= 0) {
                blame(r, k->key);
                return fail(r, "\"%s\" repeats another key of this record", k->key);
            }
            if (!whole_number(r, k->key, node, k->max, value)) return false;
        }
    return true;
}

static const char *number_key_at(const void *names, size_t index) {
    (void)names;
    return number_keys[index].key;
}

/* The first number of the record whose key is near one that it lacks, and that one; NULL: none. */
static const cJSON *misnamed_number(const cJSON *object, const struct sample_record *record,
                                    const char **meant) {
    for (const cJSON *node = object->child; node != NULL; node = node->next) {
        if (!cJSON_IsNumber(node)) continue;
        *meant = nearest_name(node->string, sizeof number_keys / sizeof number_keys[0],
                              number_key_at, NULL);
        for (size_t i = 0; *meant != NULL && i < sizeof number_keys / sizeof number_keys[0]; i++)
            if (strcmp(number_keys[i].key, *meant) == 0 &&
                *(const int64_t *)((const char *)record + number_keys[i].offset) < 0)
                return node;
    }
    return NULL;
}

/* ---- images ---- */

static void add_image(struct json_reader *r, int64_t width, int64_t height) {
    if (r->image_count == r->image_capacity) {
        r->image_capacity = r->image_capacity == 0 ? 16 : r->image_capacity * 2;
        r->images = memory_realloc(r->images, (size_t)r->image_capacity * sizeof *r->images);
    }
    r->images[r->image_count++] = (struct image_size){ (uint32_t)width, (uint32_t)height };
}

static bool add_size(struct json_reader *r, const cJSON *width, const cJSON *height) {
    int64_t w = 0, h = 0;
    if (!whole_number(r, "the width of an image", width, RECORD_MAX_SIDE, &w) ||
        !whole_number(r, "the height of an image", height, RECORD_MAX_SIDE, &h))
        return false;
    if (w == 0 || h == 0) return fail(r, "an image of %lld x %lld", (long long)w, (long long)h);
    add_image(r, w, h);
    return true;
}

static bool read_size_lists(struct json_reader *r, const cJSON *widths, const cJSON *heights) {
    if (!cJSON_IsArray(widths) || !cJSON_IsArray(heights) ||
        cJSON_GetArraySize(widths) != cJSON_GetArraySize(heights))
        return fail(r, "the widths and heights of the images must be lists of equal length");
    const cJSON *w = widths->child, *h = heights->child;
    for (; w != NULL; w = w->next, h = h->next)
        if (!add_size(r, w, h)) return false;
    return true;
}

static bool read_size_pair(struct json_reader *r, const cJSON *pair) {
    if (!cJSON_IsArray(pair) || cJSON_GetArraySize(pair) != 2)
        return fail(r, "image_wh must be [width, height] or a list of them");
    return add_size(r, pair->child, pair->child->next);
}

static bool read_size_pairs(struct json_reader *r, const cJSON *pairs) {
    if (!cJSON_IsArray(pairs) || cJSON_IsNumber(pairs->child)) return read_size_pair(r, pairs);
    for (const cJSON *pair = pairs->child; pair != NULL; pair = pair->next)
        if (!read_size_pair(r, pair)) return false;
    return true;
}

static const cJSON *item(const cJSON *object, const char *key) {
    return cJSON_GetObjectItemCaseSensitive(object, key);
}

static bool read_sizes(struct json_reader *r, const cJSON *object) {
    const cJSON *width = item(object, "width"), *height = item(object, "height");
    if (item(object, "image_wh") != NULL) return read_size_pairs(r, item(object, "image_wh"));
    if (item(object, "width_list") != NULL)
        return read_size_lists(r, item(object, "width_list"), item(object, "height_list"));
    if (cJSON_IsArray(width)) return read_size_lists(r, width, height);
    if (width == NULL && height == NULL) return true;
    if (cJSON_IsNumber(width) && cJSON_IsNumber(height) && width->valuedouble == 0 &&
        height->valuedouble == 0)
        return true; /* 0 x 0: no image */
    return add_size(r, width, height);
}

/* Images that the record names, whether or not it gives their sizes. */
static int64_t named_images(const cJSON *object) {
    const char *const keys[] = { "image", "images" };
    for (int i = 0; i < 2; i++) {
        const cJSON *node = item(object, keys[i]);
        if (cJSON_IsString(node)) return node->valuestring[0] != '\0';
        if (cJSON_IsArray(node)) return cJSON_GetArraySize(node);
    }
    return 0;
}

/* ---- conversations ---- */

struct conversation {
    int64_t messages, text_tokens, markers;
};

/* A message's text is a string, or a list of typed pieces. */
static void read_content(const cJSON *content, struct conversation *c) {
    if (cJSON_IsString(content)) {
        c->text_tokens += text_tokens_from_characters(content->valuestring);
        c->markers += count_markers(content->valuestring);
    }
    for (const cJSON *piece = cJSON_IsArray(content) ? content->child : NULL; piece != NULL;
         piece = piece->next) {
        const cJSON *type = item(piece, "type"), *text = item(piece, "text");
        if (cJSON_IsString(text))
            c->text_tokens += text_tokens_from_characters(text->valuestring);
        else if (cJSON_IsString(type) && strncmp(type->valuestring, "image", 5) == 0)
            c->markers++;
    }
}

static bool read_conversation(struct json_reader *r, const cJSON *messages,
                              struct conversation *c) {
    if (!cJSON_IsArray(messages)) return fail(r, "the conversation must be a list of messages");
    for (const cJSON *message = messages->child; message != NULL; message = message->next) {
        const cJSON *content = item(message, "value");
        if (content == NULL) content = item(message, "content");
        if (content == NULL) content = item(message, "text");
        if (!cJSON_IsString(content) && !cJSON_IsArray(content))
            return fail(r, "message %lld has no text (\"value\" or \"content\")",
                        (long long)c->messages + 1);
        c->messages++;
        read_content(content, c);
    }
    return true;
}

/* Fills text_tokens from the messages if the record has no count, and the number of images. */
static bool apply_conversation(struct json_reader *r, const cJSON *object,
                               struct sample_record *record) {
    const cJSON *messages = item(object, "conversations");
    if (messages == NULL) messages = item(object, "messages");
    struct conversation c = { 0 };
    if (messages != NULL && !read_conversation(r, messages, &c)) return false;
    int64_t images = named_images(object);
    if (c.markers > images) images = c.markers;
    while (r->image_count < images)
        add_image(r, 0, 0);
    if (record->text_tokens >= 0 || record->language_tokens >= 0) return true;
    if (messages == NULL) {
        fail(r, "the record has no token count and no conversation");
        const char *meant;
        const cJSON *node = misnamed_number(object, record, &meant);
        if (node != NULL)
            return error_hint(r->err, "did you mean \"%s\" by \"%.60s\"?", meant, node->string);
        return error_hint(r->err, "a record needs token_num, text_tokens or conversations");
    }
    record->text_tokens = TEMPLATE_START_TOKENS + TEMPLATE_MESSAGE_TOKENS * c.messages +
                          TEMPLATE_IMAGE_TOKENS * r->image_count + c.text_tokens;
    record->estimated = true;
    return true;
}

/* ---- records ---- */

static bool find_part(struct json_reader *r, const cJSON *object, struct sample_record *record) {
    const cJSON *part = item(object, "part");
    if (part == NULL) part = item(object, "dataset");
    const char *name =
        cJSON_IsString(part) && part->valuestring[0] != '\0' ? part->valuestring : r->default_part;
    record->part = dataset_builder_part(r->builder, name, strlen(name));
    return record->part >= 0 || fail(r, "more than %d different parts", DATASET_MAX_PARTS);
}

/* Records hold what they like, so only a number that seems meant for a count is told of, once. */
static void note_misnamed(struct json_reader *r, const cJSON *object,
                          const struct sample_record *record) {
    const char *meant;
    const cJSON *node = r->noted ? NULL : misnamed_number(object, record, &meant);
    if (node == NULL) return;
    r->noted = true;
    dataset_builder_note(r->builder, "%s:%ld: \"%.60s\" is ignored; did you mean \"%s\"?", r->path,
                         r->line, node->string, meant);
}

static bool read_object(struct json_reader *r, const cJSON *object, struct sample_record *record) {
    if (!read_numbers(r, object, record)) return false;
    note_misnamed(r, object, record);
    if (!read_sizes(r, object) || !apply_conversation(r, object, record) ||
        !find_part(r, object, record))
        return false;
    if (item(object, "video") != NULL) r->video_count++;
    r->tiled += record->vision_tiles >= 0;
    r->untold += record->vision_tiles < 0 && r->image_count == 0 &&
                 item(object, "conversations") == NULL && item(object, "messages") == NULL;
    /* A list of token counts says nothing of images: then the tile count decides. */
    bool says = r->image_count > 0 || record->vision_tiles < 0;
    record->image_count = says ? r->image_count : -1;
    record->images = r->images;
    return true;
}

static bool read_pair(struct json_reader *r, const cJSON *pair, struct sample_record *record) {
    if (cJSON_GetArraySize(pair) != 2 && !cJSON_IsObject(pair->child))
        return fail(r, "a short record must be [tiles, tokens], got %d items",
                    cJSON_GetArraySize(pair));
    if (cJSON_IsObject(pair->child)) {
        fail(r, "a list of records on one line");
        return error_hint(r->err, "one record a line here; a list of records is a file *.json");
    }
    return find_part(r, NULL, record) &&
           whole_number(r, "the tiles", pair->child, RECORD_MAX_TILES, &record->vision_tiles) &&
           whole_number(r, "the tokens", pair->child->next, RECORD_MAX_TOKENS,
                        &record->language_tokens);
}

static bool add_record(struct json_reader *r, const cJSON *node) {
    struct sample_record record = sample_record_empty;
    r->image_count = 0;
    if (cJSON_IsObject(node)) {
        if (!read_object(r, node, &record)) return false;
    } else if (cJSON_IsArray(node)) {
        if (!read_pair(r, node, &record)) return false;
    } else {
        return fail(r, "a record must be an object { ... } or a pair [tiles, tokens]");
    }
    if (dataset_builder_add(r->builder, &record)) return true;
    fail(r, "%s", r->builder->problem);
    if (r->builder->hint != NULL) error_hint(r->err, "%s", r->builder->hint);
    return false;
}

static bool on_element(void *context, const char *text, size_t length, long line, long column,
                       struct error *err) {
    struct json_reader *r = context;
    const char *end = text;
    r->line = line;
    r->column = column;
    r->text = text;
    r->length = length;
    r->err = err;
    cJSON *node = cJSON_ParseWithLengthOpts(text, length, &end, 0);
    bool ok = node != NULL;
    const size_t odd = ok ? json_odd_number_at(text, length) : length;
    if (odd < length) {
        advance(r, odd);
        ok = fail(r, "not a number of JSON");
    } else if (ok) {
        ok = end == text + length || fail(r, "text behind the record");
    } else {
        struct json_fault fault;
        const bool found = json_syntax_fault(text, length, &fault);
        advance(r, found ? fault.offset : (size_t)(end - text));
        fail(r, "%s", found ? fault.text : "this is not JSON");
        if (found && fault.hint[0] != '\0') error_hint(err, "%s", fault.hint);
    }
    ok = ok && add_record(r, node);
    cJSON_Delete(node);
    return ok;
}

/* ---- the file ---- */

static bool read_file(struct text_source *source, struct json_splitter *splitter,
                      struct error *err) {
    bool first = true;
    while (text_source_fill(source)) {
        const char *bytes = source->window + source->begin;
        size_t count = source->end - source->begin;
        if (first && count >= 3 && memcmp(bytes, "\xEF\xBB\xBF", 3) == 0) {
            bytes += 3; /* a byte order mark */
            count -= 3;
        }
        first = false;
        if (!json_splitter_feed(splitter, bytes, count, err)) return false;
        source->begin = source->end;
    }
    if (source->failure != NULL)
        return error_at(err, source->path, splitter->line, splitter->column, "%s", source->failure);
    return json_splitter_finish(splitter, err);
}

bool dataset_json_read(struct dataset_builder *builder, const char *path, bool lines,
                       const char *default_part, const struct dataset_options *options,
                       struct error *err) {
    struct json_reader r = { .builder = builder, .path = path, .default_part = default_part };
    struct text_source source;
    if (!text_source_open(&source, path, options == NULL ? NULL : options->progress,
                          options == NULL ? NULL : options->progress_context, err))
        return false;
    dataset_builder_source(builder, path);
    struct json_splitter splitter;
    json_splitter_init(&splitter, path, lines ? JSON_SPLITTER_LINES : JSON_SPLITTER_AUTO,
                       on_element, &r);
    bool ok = read_file(&source, &splitter, err);
    if (ok && splitter.element_count == 0) ok = error_set(err, "%s holds no records", path);
    if (ok && r.video_count > 0)
        dataset_builder_note(builder, "%lld records name a video: its frames are not counted",
                             (long long)r.video_count);
    if (ok && r.tiled > 0 && r.untold > 0)
        dataset_builder_note(builder, "%s: %lld of %lld records give no tiles: text alone", path,
                             (long long)r.untold, (long long)(r.tiled + r.untold));
    json_splitter_free(&splitter);
    text_source_close(&source);
    free(r.images);
    return ok;
}
