/* json.c - cJSON with positions found on demand.
 *
 * A node has no position of its own. On an error its path is found in the tree (by pointer), and a
 * small scanner follows that path through the text. The text was parsed before, so the scanner may
 * assume that it is well formed.
 */
#include "sim/base/json.h"

#include <limits.h>
#include <stdarg.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include "sim/base/arena.h"
#include "sim/base/field.h"
#include "sim/base/file_read.h"
#include "sim/base/json_syntax.h"
#include "sim/base/utf8.h"

enum { JSON_DEPTH_LIMIT = 64, JSON_EXCERPT_WIDTH = 96 };

struct override {
    struct override *next;
    const char *option; /* "--set" */
    char *path;         /* "/cluster/gpu_count" */
    char *assignment;   /* "cluster.gpu_count=64", as the user wrote it */
    char *before;       /* the text that stood there; NULL: none, or no text */
};

static char *text_copy(const char *text, size_t length) {
    char *copy = memory_alloc(length + 1);
    memcpy(copy, text, length);
    copy[length] = '\0';
    return copy;
}

/* A key that --unset took away: the path of its object and its place in it at that time. */
struct removal {
    struct removal *next; /* the one before */
    char *parent;
    int64_t index;
};

struct json {
    char *name;
    char *text;
    size_t size;
    cJSON *root;
    struct override *overrides;
    struct removal *removals;
};

/* ---- positions ---- */

static void line_and_column(const char *text, size_t offset, long *line, long *column) {
    *line = 1;
    size_t line_start = 0;
    for (size_t i = 0; i < offset; i++) {
        if (text[i] != '\n') continue;
        ++*line;
        line_start = i + 1;
    }
    *column = (long)(offset - line_start) + 1;
}

/* "   42 |   "nic_GB_per_s": -4," and a marker below the span. */
static void append_excerpt(struct error *err, const char *text, size_t size, size_t offset,
                           size_t length, long line) {
    if (err == NULL) return;
    size_t start = offset, end = offset;
    while (start > 0 && text[start - 1] != '\n')
        start--;
    while (end < size && text[end] != '\n')
        end++;
    if (end - start > JSON_EXCERPT_WIDTH) {
        if (offset - start > JSON_EXCERPT_WIDTH / 2) start = offset - JSON_EXCERPT_WIDTH / 2;
        if (end - start > JSON_EXCERPT_WIDTH) end = start + JSON_EXCERPT_WIDTH;
    }
    size_t used = strlen(err->text);
    char *out = err->text + used;
    size_t room = sizeof err->text - used;
    int n = snprintf(out, room, "\n%6ld | ", line);
    if (n < 0 || (size_t)n >= room) return;
    size_t at = (size_t)n;
    for (size_t i = start; i < end && at + 1 < room; i++)
        out[at++] = (char)((unsigned char)text[i] < 32 ? ' ' : text[i]);
    const char *gutter = "\n       | ";
    for (size_t i = 0; gutter[i] != '\0' && at + 1 < room; i++)
        out[at++] = gutter[i];
    for (size_t i = start; i < offset && at + 1 < room; i++)
        out[at++] = ' ';
    if (at + 1 < room) out[at++] = '^'; /* also past the line's end: there something is missing */
    for (size_t i = 1; i < length && offset + i < end && at + 1 < room; i++)
        out[at++] = '~';
    out[at] = '\0';
}

struct scanner {
    const char *text;
    size_t size, at;
};

/* cJSON takes every control character for white space, so the scanner must too. */
static bool is_space(char c) {
    return (unsigned char)c <= ' ';
}

static void skip_space(struct scanner *s) {
    while (s->at < s->size && is_space(s->text[s->at]))
        s->at++;
}

static void skip_string(struct scanner *s) {
    s->at++;
    while (s->at < s->size && s->text[s->at] != '"')
        s->at += s->text[s->at] == '\\' ? 2 : 1;
    s->at = s->at < s->size ? s->at + 1 : s->size;
}

static void skip_value(struct scanner *s) {
    skip_space(s);
    int depth = 0;
    do {
        if (s->at >= s->size) return;
        char c = s->text[s->at];
        if (c == '"') {
            skip_string(s);
        } else if (c == '{' || c == '[') {
            depth++;
            s->at++;
        } else if (c == '}' || c == ']') {
            depth--;
            s->at++;
        } else if (depth > 0) {
            s->at++;
        } else {
            while (s->at < s->size && strchr(",]}", s->text[s->at]) == NULL &&
                   !is_space(s->text[s->at]))
                s->at++;
        }
        if (depth > 0) skip_space(s);
    } while (depth > 0);
}

/* Moves to the value of child `index`; key_at gets the offset of its key (or of the value in an
 * array). By index, not by key: overrides keep the order and add at the end, and of two equal keys
 * the second is the mistake. */
static bool enter_child(struct scanner *s, int64_t index, size_t *key_at) {
    skip_space(s);
    bool object = s->at < s->size && s->text[s->at] == '{';
    if (!object && (s->at >= s->size || s->text[s->at] != '[')) return false;
    s->at++;
    for (int64_t i = 0; s->at < s->size; i++) {
        skip_space(s);
        if (s->at >= s->size || s->text[s->at] == '}' || s->text[s->at] == ']') return false;
        *key_at = s->at;
        if (object) {
            skip_string(s);
            skip_space(s);
            s->at++; /* the colon */
            skip_space(s);
        }
        if (i == index) return true;
        skip_value(s);
        skip_space(s);
        if (s->at < s->size && s->text[s->at] == ',') s->at++;
    }
    return false;
}

struct trail {
    const cJSON *nodes[JSON_DEPTH_LIMIT + 2];
    int64_t index[JSON_DEPTH_LIMIT + 2];
    int length;
};

static bool find_trail(const cJSON *at, const cJSON *wanted, struct trail *trail) {
    if (at == wanted) return true;
    if (trail->length >= JSON_DEPTH_LIMIT) return false;
    int64_t index = 0;
    for (const cJSON *child = at->child; child != NULL; child = child->next, index++) {
        trail->nodes[trail->length] = child;
        trail->index[trail->length] = index;
        trail->length++;
        if (find_trail(child, wanted, trail)) return true;
        trail->length--;
    }
    return false;
}

static void trail_path(const struct trail *trail, char *text, size_t size) {
    size_t at = 0;
    text[0] = '\0';
    for (int i = 0; i < trail->length && at < size; i++) {
        int n = trail->nodes[i]->string != NULL
                    ? snprintf(text + at, size - at, "/%s", trail->nodes[i]->string)
                    : snprintf(text + at, size - at, "/%ld", (long)trail->index[i]);
        if (n < 0) break;
        at += (size_t)n;
    }
    if (trail->length == 0) snprintf(text, size, "/");
}

void json_path(const struct json *json, const cJSON *node, char *text, size_t size) {
    struct trail trail = { .length = 0 };
    if (node == NULL || !find_trail(json->root, node, &trail)) trail.length = 0;
    trail_path(&trail, text, size);
}

static bool is_at_or_below(const char *path, const char *above) {
    size_t length = strlen(above);
    return strncmp(path, above, length) == 0 && (path[length] == '\0' || path[length] == '/');
}

/* The newest override that set `path` or something around it. */
static const struct override *override_of(const struct json *json, const char *path) {
    for (const struct override *o = json->overrides; o != NULL; o = o->next)
        if (is_at_or_below(path, o->path)) return o;
    return NULL;
}

/* The newest override that made the object at `path` on its way to something below. */
static const struct override *override_below(const struct json *json, const char *path) {
    for (const struct override *o = json->overrides; o != NULL; o = o->next)
        if (is_at_or_below(o->path, path)) return o;
    return NULL;
}

bool json_is_overridden(const struct json *json, const cJSON *node) {
    struct trail trail = { .length = 0 };
    if (node == NULL || !find_trail(json->root, node, &trail)) return false;
    char path[1024];
    trail_path(&trail, path, sizeof path);
    return override_of(json, path) != NULL;
}

const char *json_text_before(const struct json *json, const cJSON *node) {
    char path[1024];
    const char *before = NULL;
    json_path(json, node, path, sizeof path);
    for (const struct override *o = json->overrides; o != NULL; o = o->next)
        if (strcmp(o->path, path) == 0) before = o->before; /* of the oldest */
    return before;
}

/* Where step `i` of the trail is in the text, in which what was removed still stands. */
static int64_t index_in_text(const struct json *json, const struct trail *trail, int i) {
    struct trail above = *trail;
    above.length = i;
    char path[1024];
    trail_path(&above, path, sizeof path);
    int64_t index = trail->index[i];
    for (const struct removal *r = json->removals; r != NULL; r = r->next)
        if (strcmp(r->parent, path) == 0 && r->index <= index) index++;
    return index;
}

enum blamed { BLAMED_VALUE, BLAMED_KEY };

static bool report(const struct json *json, const cJSON *node, enum blamed blamed,
                   struct error *err, const char *hint, const char *format, va_list args) {
    char message[2048];
    if (err == NULL) return false;
    vsnprintf(message, sizeof message, format, args);

    struct trail trail = { .length = 0 };
    bool found = node != NULL && find_trail(json->root, node, &trail);
    char path[1024];
    trail_path(&trail, path, sizeof path);
    if (json->text == NULL) {
        error_set(err, "%s: %s", path, message);
        return hint != NULL && hint[0] != '\0' ? error_hint(err, "%s", hint) : false;
    }
    const struct override *o = found ? override_of(json, path) : NULL;
    struct scanner s = { json->text, json->size, 0 };
    skip_space(&s);
    size_t value_at = s.at, mark = s.at;
    for (int i = 0; i < trail.length && o == NULL; i++) {
        size_t key_at;
        if (!enter_child(&s, index_in_text(json, &trail, i), &key_at)) {
            o = override_below(json, path); /* not in the text, so --set made it */
            break;
        }
        mark = key_at;
        value_at = s.at;
    }
    if (o != NULL) {
        error_set(err, "%s %s: %s: %s", o->option, o->assignment, path, message);
        return hint != NULL && hint[0] != '\0' ? error_hint(err, "%s", hint) : false;
    }
    size_t start = value_at, length = 1;
    bool scalar = node != NULL && trail.length > 0 && !cJSON_IsObject(node) && !cJSON_IsArray(node);
    if (blamed == BLAMED_KEY && mark < value_at) {
        struct scanner end = { json->text, json->size, mark };
        skip_string(&end);
        start = mark;
        length = end.at - mark;
    } else if (scalar) {
        struct scanner end = { json->text, json->size, value_at };
        skip_value(&end);
        length = end.at - value_at;
    } else if (trail.length > 0) {
        start = mark;
    }
    /* Hints and context of another error come below the excerpt, as those of this one do. */
    char *more = strstr(message, "\n  ");
    if (more != NULL) *more = '\0';
    long line, column;
    line_and_column(json->text, start, &line, &column);
    error_at(err, json->name, line, column, "%s: %s", path, message);
    append_excerpt(err, json->text, json->size, start, length, line);
    if (more != NULL) error_context(err, "%s", more + strlen("\n  "));
    if (hint != NULL && hint[0] != '\0') error_hint(err, "%s", hint);
    return false;
}

bool json_error(const struct json *json, const cJSON *node, struct error *err, const char *hint,
                const char *format, ...) {
    va_list args;
    va_start(args, format);
    report(json, node, BLAMED_VALUE, err, hint, format, args);
    va_end(args);
    return false;
}

bool json_key_error(const struct json *json, const cJSON *node, struct error *err, const char *hint,
                    const char *format, ...) {
    va_list args;
    va_start(args, format);
    report(json, node, BLAMED_KEY, err, hint, format, args);
    va_end(args);
    return false;
}

/* ---- loading ---- */

static bool syntax_error(const struct json *json, size_t offset, size_t length, const char *reason,
                         const char *hint, struct error *err) {
    long line, column;
    line_and_column(json->text, offset, &line, &column);
    error_at(err, json->name, line, column, "%s", reason);
    append_excerpt(err, json->text, json->size, offset, length, line);
    if (hint[0] != '\0') error_hint(err, "%s", hint);
    return false;
}

/* `offset` is where cJSON gave up. */
static bool explain_syntax(const struct json *json, size_t offset, struct error *err) {
    struct json_fault fault;
    if (json_syntax_fault(json->text, json->size, &fault))
        return syntax_error(json, fault.offset, fault.length, fault.text, fault.hint, err);
    return syntax_error(json, offset, 1, "not valid JSON here", "", err);
}

static bool check_tree(const struct json *json, const cJSON *node, struct error *err) {
    for (const cJSON *child = node->child; child != NULL; child = child->next) {
        if (cJSON_IsObject(node)) {
            for (const cJSON *other = node->child; other != child; other = other->next)
                if (strcmp(other->string, child->string) == 0)
                    return json_key_error(json, child, err, "keep one of the two",
                                          "duplicate key \"%s\"", child->string);
        }
        if (!check_tree(json, child, err)) return false;
    }
    return true;
}

struct json *json_copy(const struct json *json) {
    struct json *copy = memory_alloc(sizeof *copy);
    *copy = (struct json){ .name = text_copy(json->name, strlen(json->name)),
                           .root = cJSON_Duplicate(json->root, 1) };
    return copy;
}

struct json *json_parse(const char *name, const char *text, size_t size, struct error *err) {
    struct json *json = memory_alloc(sizeof *json);
    *json = (struct json){ 0 };
    json->name = memory_alloc(strlen(name) + 1);
    strcpy(json->name, name);
    if (size >= 3 && memcmp(text, "\xef\xbb\xbf", 3) == 0) { /* byte order mark */
        text += 3;
        size -= 3;
    }
    json->text = memory_alloc(size + 1);
    memcpy(json->text, text, size);
    json->text[size] = '\0';
    json->size = size;

    const char *nul = memchr(json->text, '\0', size);
    size_t deep = json_too_deep_at(json->text, size, JSON_DEPTH_LIMIT);
    size_t escaped = json_escaped_nul_at(json->text, size);
    const char *end = json->text, *foreign = utf8_invalid(json->text, size);
    bool ok = false;
    if ((nul != NULL || foreign != NULL) && json_is_binary(json->text, size)) {
        const char *first = nul != NULL && (foreign == NULL || nul < foreign) ? nul : foreign;
        long line, column;
        line_and_column(json->text, (size_t)(first - json->text), &line, &column);
        error_at(err, json->name, line, column, "this is not a text file"); /* nothing to show */
        if (utf16_seems(json->text, size)) error_hint(err, UTF16_HINT);
    } else if (nul != NULL) {
        syntax_error(json, (size_t)(nul - json->text), 1, "a NUL byte: this is not a text file", "",
                     err);
    } else if (foreign != NULL) {
        char said[48];
        snprintf(said, sizeof said, "a byte 0x%02X that is no UTF-8", (unsigned char)*foreign);
        syntax_error(json, (size_t)(foreign - json->text), 1, said, "save the file as UTF-8", err);
    } else if (escaped < size) {
        syntax_error(json, escaped, 1, "a NUL character cannot stand in a text", "", err);
    } else if (deep < size) {
        syntax_error(json, deep, 1, "nested too deep", "", err);
        error_hint(err, "at most %d levels of { and [", JSON_DEPTH_LIMIT);
    } else {
        json->root = cJSON_ParseWithLengthOpts(json->text, size + 1, &end, 1);
        const size_t odd = json->root != NULL ? json_odd_number_at(json->text, size) : size;
        if (odd < size) {
            syntax_error(json, odd, 1, "not a number of JSON",
                         "no zero in front and digits on both sides of a point: 4, 0.5", err);
        } else {
            ok = json->root != NULL ? check_tree(json, json->root, err)
                                    : explain_syntax(json, (size_t)(end - json->text), err);
        }
    }
    if (ok) return json;
    json_destroy(json);
    return NULL;
}

struct json *json_load(const char *path, struct error *err) {
    char *text;
    size_t size;
    if (!file_read(path, &text, &size, err)) return NULL;
    struct json *json = json_parse(path, text, size, err);
    free(text);
    return json;
}

void json_destroy(struct json *json) {
    if (json == NULL) return;
    cJSON_Delete(json->root);
    while (json->removals != NULL) {
        struct removal *next = json->removals->next;
        free(json->removals->parent);
        free(json->removals);
        json->removals = next;
    }
    while (json->overrides != NULL) {
        struct override *next = json->overrides->next;
        free(json->overrides->path);
        free(json->overrides->assignment);
        free(json->overrides->before);
        free(json->overrides);
        json->overrides = next;
    }
    free(json->text);
    free(json->name);
    free(json);
}

cJSON *json_root(const struct json *json) {
    return json->root;
}

const char *json_name(const struct json *json) {
    return json->name;
}

/* ---- --set ---- */

static cJSON *parse_value(const char *text) {
    cJSON *value = cJSON_ParseWithOpts(text, NULL, 1);
    if (value != NULL && json_odd_number_at(text, strlen(text)) == strlen(text)) return value;
    cJSON_Delete(value);
    return cJSON_CreateString(text);
}

/* The child of `parent` called `key`; NULL when it is not there. */
static cJSON *child_of(cJSON *parent, const char *key) {
    if (cJSON_IsObject(parent)) return cJSON_GetObjectItemCaseSensitive(parent, key);
    char *end;
    long index = strtol(key, &end, 10);
    bool number = *end == '\0' && key[0] >= '0' && key[0] <= '9' && index <= INT_MAX;
    return number ? cJSON_GetArrayItem(parent, (int)index) : NULL;
}

/* "a..b", ".a", "a." and "" have an empty part. */
static bool has_empty_part(const char *path) {
    size_t length = strlen(path);
    return length == 0 || path[0] == '.' || path[length - 1] == '.' || strstr(path, "..") != NULL;
}

static int count_dots(const char *path) {
    int count = 0;
    for (; *path != '\0'; path++)
        count += *path == '.';
    return count;
}

/* The container at all but the last part of `path`, which is cut up; *key is that last part. */
static cJSON *walk_path(cJSON *at, char *path, char **key) {
    char *dot;
    for (*key = path; (dot = strchr(*key, '.')) != NULL; *key = dot + 1) {
        *dot = '\0';
        cJSON *child = child_of(at, *key);
        if (child == NULL && cJSON_IsObject(at)) {
            child = cJSON_AddObjectToObject(at, *key);
        } else if (cJSON_IsString(child)) {
            /* A bare string stands for a row with its defaults: make it that row. */
            cJSON *row = cJSON_CreateObject();
            cJSON_AddStringToObject(row, "name", child->valuestring);
            if (cJSON_IsObject(at))
                cJSON_ReplaceItemInObjectCaseSensitive(at, *key, row);
            else
                cJSON_ReplaceItemViaPointer(at, child, row);
            child = row;
        }
        if (!cJSON_IsObject(child) && !cJSON_IsArray(child)) return NULL;
        at = child;
    }
    return at;
}

static void remember_override(struct json *json, const char *option, const char *assignment,
                              size_t path_length, char *before) {
    struct override *o = memory_alloc(sizeof *o);
    o->next = json->overrides;
    o->before = before;
    o->option = option;
    o->assignment = text_copy(assignment, strlen(assignment));
    o->path = memory_alloc(path_length + 2);
    o->path[0] = '/';
    memcpy(o->path + 1, assignment, path_length);
    o->path[path_length + 1] = '\0';
    for (char *c = o->path; *c != '\0'; c++)
        if (*c == '.') *c = '/';
    json->overrides = o;
}

static void remember_removal(struct json *json, const cJSON *parent, const cJSON *child) {
    struct removal *r = memory_alloc(sizeof *r);
    char path[1024];
    json_path(json, parent, path, sizeof path);
    *r = (struct removal){ json->removals, text_copy(path, strlen(path)), 0 };
    for (const cJSON *at = parent->child; at != child; at = at->next)
        r->index++;
    json->removals = r;
}

static const char *key_of(const void *object, size_t index) {
    return cJSON_GetArrayItem(object, (int)index)->string;
}

bool json_remove(struct json *json, const char *path, struct error *err) {
    char *cut = text_copy(path, strlen(path)), *key = cut, *dot;
    cJSON *at = json->root;
    for (; at != NULL && (dot = strchr(key, '.')) != NULL; key = dot + 1) {
        *dot = '\0';
        at = child_of(at, key);
    }
    cJSON *old = cJSON_IsObject(at) ? child_of(at, key) : NULL;
    if (old != NULL) {
        remember_removal(json, at, old);
        cJSON_Delete(cJSON_DetachItemViaPointer(at, old));
    }
    const char *near = old == NULL && key[0] != '\0' && cJSON_IsObject(at)
                           ? nearest_name(key, (size_t)cJSON_GetArraySize(at), key_of, at)
                           : NULL;
    if (old == NULL) error_set(err, "--unset %s: there is no such key in %s", path, json->name);
    if (near != NULL) error_hint(err, "did you mean \"%.*s%s\"?", (int)(key - cut), path, near);
    free(cut);
    return old != NULL;
}

bool json_override_by(struct json *json, const char *option, const char *assignment,
                      struct error *err) {
    const char *equals = strchr(assignment, '=');
    if (equals == NULL || equals == assignment)
        return error_set(err, "%s %s: expected path=value, for example layout.tp=4", option,
                         assignment);
    const char *foreign = utf8_invalid(assignment, strlen(assignment));
    if (foreign != NULL)
        return error_set(err, "%s: the assignment holds a byte 0x%02X that is no UTF-8", option,
                         (unsigned char)*foreign);
    const char *text = equals + 1;
    char *path = text_copy(assignment, (size_t)(equals - assignment));
    int limit = JSON_DEPTH_LIMIT - 1 - count_dots(path);
    bool ok = true;
    if (has_empty_part(path))
        ok = error_set(err, "%s %s: the path has an empty part", option, assignment);
    else if (limit < 0 || json_too_deep_at(text, strlen(text), limit) < strlen(text))
        ok = error_set(err, "%s %s: nested more than %d levels deep", option, assignment,
                       JSON_DEPTH_LIMIT);
    char *key = path;
    cJSON *at = ok ? walk_path(json->root, path, &key) : NULL;
    if (ok && at == NULL)
        ok = error_set(err, "%s %s: \"%s\" has nothing below it that could be set", option,
                       assignment, key);
    if (ok) {
        cJSON *value = parse_value(text);
        cJSON *old = child_of(at, key);
        char *before =
            cJSON_IsString(old) ? text_copy(old->valuestring, strlen(old->valuestring)) : NULL;
        if (cJSON_IsObject(at) && old == NULL) {
            cJSON_AddItemToObject(at, key, value);
        } else if (cJSON_IsObject(at)) {
            cJSON_ReplaceItemInObjectCaseSensitive(at, key, value);
        } else if (old != NULL) {
            cJSON_ReplaceItemViaPointer(at, old, value);
        } else {
            cJSON_Delete(value);
            value = NULL;
            ok = error_set(err, "%s %s: the list has no item \"%s\"", option, assignment, key);
        }
        if (ok) {
            remember_override(json, option, assignment, (size_t)(equals - assignment), before);
            ok = check_tree(json, value, err);
        }
    }
    free(path);
    return ok;
}

bool json_override(struct json *json, const char *assignment, struct error *err) {
    return json_override_by(json, "--set", assignment, err);
}

bool json_assign(struct json *json, const char *path, const cJSON *value) {
    if (has_empty_part(path)) return false;
    char *cut = text_copy(path, strlen(path)), *key;
    cJSON *at = walk_path(json->root, cut, &key);
    cJSON *old = at != NULL ? child_of(at, key) : NULL;
    bool ok = at != NULL && (old != NULL || cJSON_IsObject(at));
    if (ok) {
        cJSON *copy = cJSON_Duplicate(value, 1);
        if (old == NULL)
            cJSON_AddItemToObject(at, key, copy);
        else if (cJSON_IsObject(at))
            cJSON_ReplaceItemInObjectCaseSensitive(at, key, copy);
        else
            cJSON_ReplaceItemViaPointer(at, old, copy);
    }
    free(cut);
    return ok;
}
