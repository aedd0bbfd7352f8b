/* field.c - reading, writing and describing of field tables. */
#include "sim/base/field.h"

#include <ctype.h>
#include <dirent.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>
#include "sim/base/utf8.h"

/* ---- nearest name (Damerau-Levenshtein, restricted) ---- */

enum { NAME_LIMIT = 64 };

int name_distance(const char *a, const char *b) {
    int la = (int)strlen(a), lb = (int)strlen(b);
    if (la >= NAME_LIMIT || lb >= NAME_LIMIT) return NAME_LIMIT;
    int rows[3][NAME_LIMIT + 1];
    for (int j = 0; j <= lb; j++)
        rows[0][j] = j;
    for (int i = 1; i <= la; i++) {
        int *now = rows[i % 3], *last = rows[(i + 2) % 3], *before = rows[(i + 1) % 3];
        now[0] = i;
        for (int j = 1; j <= lb; j++) {
            char ca = (char)tolower((unsigned char)a[i - 1]),
                 cb = (char)tolower((unsigned char)b[j - 1]);
            int best = last[j - 1] + (ca != cb);
            if (last[j] + 1 < best) best = last[j] + 1;
            if (now[j - 1] + 1 < best) best = now[j - 1] + 1;
            if (i > 1 && j > 1 && a[i - 1] == b[j - 2] && a[i - 2] == b[j - 1] &&
                before[j - 2] + 1 < best)
                best = before[j - 2] + 1;
            now[j] = best;
        }
    }
    return rows[la % 3][lb];
}

const char *nearest_name(const char *wanted, size_t count,
                         const char *(*name_at)(const void *names, size_t index),
                         const void *names) {
    const char *best = NULL;
    int best_distance = NAME_LIMIT;
    for (size_t i = 0; i < count; i++) {
        const char *name = name_at(names, i);
        int distance = name_distance(wanted, name);
        /* A name that contains the wanted text, or the other way, is near whatever its length, but
         * a letter or two stand in every word. */
        if (strlen(wanted) >= 3 && strlen(name) >= 3 &&
            (strstr(name, wanted) != NULL || strstr(wanted, name) != NULL) && distance > 2)
            distance = 2;
        if (distance < best_distance) {
            best_distance = distance;
            best = name;
        }
    }
    int limit = (int)strlen(wanted) / 3 + 1;
    return best_distance <= (limit > 2 ? limit : 2) ? best : NULL;
}

const char *nearest_hint(struct arena *arena, const char *wanted, size_t count,
                         const char *(*name_at)(const void *names, size_t index),
                         const void *names) {
    const char *near = nearest_name(wanted, count, name_at, names), *list = "one of:";
    if (near != NULL) return arena_format(arena, "did you mean \"%s\"?", near);
    for (size_t i = 0; i < count; i++)
        list = arena_format(arena, "%s%s %s", list, i > 0 ? "," : "", name_at(names, i));
    return list;
}

static const char *list_name(const void *names, size_t index) {
    return ((const char *const *)names)[index];
}

const char *nearest_in_list(const char *wanted, const char *const *names) {
    size_t count = 0;
    while (names[count] != NULL)
        count++;
    return nearest_name(wanted, count, list_name, names);
}

static int compare_names(const void *a, const void *b) {
    return strcmp(*(const char *const *)a, *(const char *const *)b);
}

static int json_files_only(const struct dirent *entry) {
    size_t length = strlen(entry->d_name);
    return length > 5 && strcmp(entry->d_name + length - 5, ".json") == 0;
}

/* Without ".json", sorted; NULL at the end. */
static const char *const *file_names(struct arena *arena, const char *directory) {
    struct dirent **entries = NULL;
    int count = scandir(directory, &entries, json_files_only, NULL);
    if (count < 0) count = 0;
    const char **names = arena_array(arena, const char *, count + 1);
    for (int i = 0; i < count; i++) {
        char *name = arena_text(arena, entries[i]->d_name);
        name[strlen(name) - 5] = '\0';
        names[i] = name;
        free(entries[i]);
    }
    free(entries);
    qsort(names, (size_t)count, sizeof *names, compare_names);
    names[count] = NULL;
    return names;
}

const char *nearest_file(struct arena *arena, const char *directory, const char *wanted) {
    return nearest_in_list(wanted, file_names(arena, directory));
}

/* How much of the word of `length` letters, two or more, the name has, in capitals or not: all of it
 * as a word (2 a letter and 1), as the beginning of one (1 a letter, from three on), nothing. */
static int word_score(const char *name, const char *word, size_t length) {
    int best = 0;
    for (const char *at = name; *at != '\0'; at++) {
        if (at > name && isalnum((unsigned char)at[-1])) continue;
        if (strncasecmp(at, word, length) != 0) continue;
        const bool whole = !isalnum((unsigned char)at[length]);
        const int score = length < 2   ? 0
                          : whole      ? 2 * (int)length + 1
                          : length > 2 ? (int)length
                                       : 0;
        if (score > best) best = score;
    }
    return best;
}

/* Over all words of the wanted name. *all: each stands whole in this one. */
static int words_score(const char *name, const char *wanted, bool *all) {
    int sum = 0;
    *all = true;
    for (const char *at = wanted; *at != '\0';) {
        size_t length = 0;
        while (isalnum((unsigned char)at[length]))
            length++;
        if (length > 1) {
            const int score = word_score(name, at, length);
            *all &= score == 2 * (int)length + 1;
            sum += score;
        }
        at += length > 0 ? length : 1;
    }
    *all &= sum > 0;
    return sum;
}

/* "'a', 'b' or 'c'" of the names whose words say the most of the wanted one; NULL: none does.
 * *all: each of its words stands in them. */
static const char *names_of_words(struct arena *arena, const char *const *names, const char *wanted,
                                  bool *all) {
    int most = 1;
    *all = false;
    for (size_t i = 0; names[i] != NULL; i++) {
        bool whole;
        const int score = words_score(names[i], wanted, &whole);
        *all |= whole;
        if (score > most) most = score;
    }
    const char *list = NULL, *last = NULL;
    for (size_t i = 0; names[i] != NULL; i++) {
        bool whole;
        if (words_score(names[i], wanted, &whole) < most) continue;
        if (last != NULL) list = list == NULL ? last : arena_format(arena, "%s, %s", list, last);
        last = arena_format(arena, "'%s'", names[i]);
    }
    return list == NULL ? last : arena_format(arena, "%s or %s", list, last);
}

/* Letters that a typing error may change: none of a short word, which another would be. */
static bool is_mistyped(const char *wanted, const char *name) {
    return name_distance(wanted, name) <= (strlen(wanted) < 5 ? 1 : 2);
}

#define NAMES_IN_FULL 80

/* "alps, aws-*, ..." of more names than a reader would look through: those that share their first
 * word, up to a hyphen, stand as one. */
static const char *names_in_short(struct arena *arena, const char *const *names) {
    size_t count = 0;
    while (names[count] != NULL)
        count++;
    const char *list = NULL;
    for (size_t i = 0, next; i < count; i = next) {
        const size_t length = strcspn(names[i], "-");
        next = i + 1;
        while (count > NAMES_IN_FULL && next < count && strcspn(names[next], "-") == length &&
               strncmp(names[i], names[next], length) == 0)
            next++;
        const char *name =
            next == i + 1 ? names[i] : arena_format(arena, "%.*s-*", (int)length, names[i]);
        list = list == NULL ? name : arena_format(arena, "%s, %s", list, name);
    }
    return list;
}

void hint_of_files(struct error *err, const char *directory, const char *wanted) {
    struct arena *arena = arena_create();
    const char *const *names = file_names(arena, directory);
    const char *near = nearest_in_list(wanted, names);
    bool all;
    const char *alike = names_of_words(arena, names, wanted, &all);
    if (alike != NULL && (all || near == NULL || !is_mistyped(wanted, near))) {
        error_hint(err, "did you mean %s?", alike);
    } else if (near != NULL) {
        error_hint(err, "did you mean '%s'?", near);
    } else {
        const char *list = names_in_short(arena, names);
        if (list != NULL) error_hint(err, "there are: %s", list);
    }
    arena_destroy(arena);
}

static const char *table_name_at(const void *names, size_t index) {
    return ((const struct field_table *)names)->fields[index].name;
}

/* ---- reading ---- */

const struct field *field_table_find(const struct field_table *table, const char *name) {
    for (size_t i = 0; i < table->count; i++)
        if (strcmp(table->fields[i].name, name) == 0) return &table->fields[i];
    return NULL;
}

/* "one of: name, model, ...", as many as fit. */
static void list_names(const struct field_table *table, const char *before, char *text,
                       size_t size) {
    size_t used = (size_t)snprintf(text, size, "%s", before);
    for (size_t i = 0; i < table->count; i++) {
        const char *name = table->fields[i].name;
        const bool last = i + 1 == table->count;
        if (used + strlen(name) + sizeof ", ..." > size) {
            snprintf(text + used, size - used, "...");
            return;
        }
        used += (size_t)snprintf(text + used, size - used, last ? "%s" : "%s, ", name);
    }
}

static bool unknown_key(const struct field_table *table, const struct json *json, const cJSON *node,
                        struct error *err) {
    const char *near = nearest_name(node->string, table->count, table_name_at, table);
    const char *of, *key;
    const bool meant = table->meant != NULL && table->meant(node->string, &of, &key);
    char hint[512] = "";
    if (meant && strcmp(of, table->name) != 0)
        snprintf(hint, sizeof hint, "did you mean \"%s.%s\"?", of, key);
    else if (meant)
        snprintf(hint, sizeof hint, "did you mean \"%s\"?", key);
    else if (near != NULL)
        snprintf(hint, sizeof hint, "did you mean \"%s\"?", near);
    else
        list_names(table, "one of: ", hint, sizeof hint);
    return json_key_error(json, node, err, hint, "unknown key \"%s\" in \"%s\"", node->string,
                          table->name);
}

static const char *type_words[FIELD_TYPE_COUNT] = {
    [FIELD_BOOL] = "true or false",      [FIELD_COUNT] = "a whole number",
    [FIELD_DOUBLE] = "a number",         [FIELD_TEXT] = "a text in quotes",
    [FIELD_CHOICE] = "a text in quotes", [FIELD_NODE] = "a value",
};

/* Whole numbers are exact up to 2^53. */
static bool is_too_large(const struct field *field, double value) {
    return !isfinite(value) || (field->type == FIELD_COUNT && value > 0 && value == floor(value));
}

static bool wrong_type(const struct field *field, const struct json *json, const cJSON *node,
                       struct error *err) {
    char *got = cJSON_PrintUnformatted(node), words[128] = "";
    for (int i = 0; field->type == FIELD_COUNT && field->choices != NULL && field->choices[i];
         i++) {
        size_t used = strlen(words);
        snprintf(words + used, sizeof words - used, " or \"%s\"", field->choices[i]);
    }
    json_error(
        json, node, err, field->help, "must be %s%s, got %.60s", type_words[field->type], words,
        cJSON_IsNumber(node) && is_too_large(field, node->valuedouble) ? "one that is too large"
        : got != NULL                                                  ? got
                                                                       : "?");
    cJSON_free(got);
    return false;
}

static bool is_blank(const char *text) {
    return text[strspn(text, " \t\r\n")] == '\0';
}

/* Words for the reader may be none; a name, or a reference to a file or a choice, says something,
 * unless nothing is what stands for it. */
static bool may_be_blank(const struct field *field) {
    static const char *const words[] = { "description", "source", "note", "notes", "provenance" };
    for (size_t i = 0; i < sizeof words / sizeof words[0]; i++)
        if (strcmp(field->name, words[i]) == 0) return true;
    return field->fallback != NULL && strcmp(field->fallback, "\"\"") == 0;
}

static bool in_range(const struct field *field, double value) {
    return (field->min == 0 && field->max == 0) || (value >= field->min && value <= field->max);
}

static bool out_of_range(const struct field *field, const struct json *json, const cJSON *node,
                         double value, struct error *err) {
    const char *unit = field->unit != NULL ? field->unit : "";
    return json_error(json, node, err, field->help, "must be %.10g to %.10g%s%s, got %.10g",
                      field->min, field->max, unit[0] != '\0' ? " " : "", unit, value);
}

static bool read_choice(const struct field *field, const struct json *json, const cJSON *node,
                        int *out, struct error *err) {
    if (!cJSON_IsString(node)) return wrong_type(field, json, node, err);
    for (int i = 0; field->choices[i] != NULL; i++)
        if (strcmp(field->choices[i], node->valuestring) == 0) {
            *out = i;
            return true;
        }
    char list[512] = "";
    for (int i = 0; field->choices[i] != NULL; i++) {
        size_t used = strlen(list);
        snprintf(list + used, sizeof list - used, "%s%s", i > 0 ? ", " : "", field->choices[i]);
    }
    const char *near = nearest_in_list(node->valuestring, field->choices);
    char hint[640];
    if (near != NULL)
        snprintf(hint, sizeof hint, "did you mean \"%s\"? one of: %s", near, list);
    else
        snprintf(hint, sizeof hint, "one of: %s", list);
    return json_error(json, node, err, hint, "unknown %s \"%.60s\"", field->name,
                      node->valuestring);
}

/* Whether the node is one of the words that may stand for a number. */
static bool read_word(const struct field *field, const cJSON *node, int64_t *out) {
    if (field->choices == NULL || !cJSON_IsString(node)) return false;
    for (int i = 0; field->choices[i] != NULL; i++) {
        if (strcmp(field->choices[i], node->valuestring) != 0) continue;
        *out = FIELD_COUNT_WORD - i;
        return true;
    }
    return false;
}

bool name_is_plain(const char *name) {
    for (const char *c = name; *c != '\0'; c++)
        if ((unsigned char)*c < 32 || *c == 127) return false;
    return utf8_invalid(name, strlen(name)) == NULL;
}

static bool read_value(const struct field *field, const struct json *json, const cJSON *node,
                       void *out, struct arena *arena, struct error *err) {
    char *place = (char *)out + field->offset;
    bool null = cJSON_IsNull(node);
    /* null is a value only where the default says so: elsewhere it hides a mistake. */
    if (null && (field->fallback == NULL || strcmp(field->fallback, "null") != 0))
        return field->type == FIELD_NODE
                   ? json_error(json, node, err, field->help, "must not be null")
                   : wrong_type(field, json, node, err);
    switch (field->type) {
    case FIELD_BOOL:
        if (null) {
            *(bool *)place = false;
            return true;
        }
        if (!cJSON_IsBool(node)) return wrong_type(field, json, node, err);
        *(bool *)place = cJSON_IsTrue(node);
        return true;
    case FIELD_COUNT:
        if (null) {
            *(int64_t *)place = -1;
            return true;
        }
        if (read_word(field, node, (int64_t *)place)) return true;
        if (!cJSON_IsNumber(node) || node->valuedouble != floor(node->valuedouble) ||
            fabs(node->valuedouble) > 9e15)
            return wrong_type(field, json, node, err);
        if (!in_range(field, node->valuedouble))
            return out_of_range(field, json, node, node->valuedouble, err);
        *(int64_t *)place = (int64_t)node->valuedouble;
        return true;
    case FIELD_DOUBLE:
        if (null) {
            *(double *)place = NAN;
            return true;
        }
        if (!cJSON_IsNumber(node) || !isfinite(node->valuedouble))
            return wrong_type(field, json, node, err);
        if (!in_range(field, node->valuedouble))
            return out_of_range(field, json, node, node->valuedouble, err);
        *(double *)place = node->valuedouble;
        return true;
    case FIELD_TEXT:
        if (null) {
            *(const char **)place = NULL;
            return true;
        }
        if (!cJSON_IsString(node)) return wrong_type(field, json, node, err);
        if (is_blank(node->valuestring) && !may_be_blank(field))
            return json_error(json, node, err, field->help, "must not be empty");
        if (strcmp(field->name, "name") == 0 && !name_is_plain(node->valuestring))
            return json_error(json, node, err, "names stand in tables and in file names",
                              "must be one line without control characters");
        *(const char **)place = arena_text(arena, node->valuestring);
        return true;
    case FIELD_CHOICE:
        return read_choice(field, json, node, (int *)place, err);
    case FIELD_NODE:
        *(const cJSON **)place = node;
        return true;
    case FIELD_TYPE_COUNT:
        break;
    }
    ballast_bug("field %s has no type", field->name);
}

static void read_fallback(const struct field *field, void *out, struct arena *arena) {
    if (field->type == FIELD_NODE) {
        *(const cJSON **)((char *)out + field->offset) = NULL;
        return;
    }
    cJSON *value = cJSON_Parse(field->fallback);
    if (value == NULL || !read_value(field, NULL, value, out, arena, NULL))
        ballast_bug("field %s has a default that it cannot take: %s", field->name, field->fallback);
    cJSON_Delete(value);
}

bool field_table_read(const struct field_table *table, const struct json *json, const cJSON *object,
                      void *out, struct arena *arena, struct error *err) {
    return field_table_read_beside(table, json, object, NULL, out, arena, err);
}

bool field_table_read_beside(const struct field_table *table, const struct json *json,
                             const cJSON *object, const char *other_key, void *out,
                             struct arena *arena, struct error *err) {
    if (object != NULL && !cJSON_IsObject(object)) {
        char keys[512];
        list_names(table, "its keys: ", keys, sizeof keys);
        return json_error(json, object, err, keys, "\"%s\" must be an object { ... }", table->name);
    }
    if (object != NULL)
        for (const cJSON *node = object->child; node != NULL; node = node->next)
            if (field_table_find(table, node->string) == NULL &&
                (other_key == NULL || strcmp(node->string, other_key) != 0))
                return unknown_key(table, json, node, err);
    for (size_t i = 0; i < table->count; i++) {
        const struct field *field = &table->fields[i];
        const cJSON *node =
            object != NULL ? cJSON_GetObjectItemCaseSensitive(object, field->name) : NULL;
        if (node != NULL) {
            if (!read_value(field, json, node, out, arena, err)) return false;
        } else if (field->fallback != NULL) {
            read_fallback(field, out, arena);
        } else {
            return json_error(json, object, err, field->help, "\"%s\" is missing from \"%s\"",
                              field->name, table->name);
        }
    }
    return true;
}

/* ---- writing and describing ---- */

cJSON *field_table_write(const struct field_table *table, const void *values) {
    cJSON *object = cJSON_CreateObject();
    for (size_t i = 0; i < table->count; i++) {
        const struct field *field = &table->fields[i];
        const char *place = (const char *)values + field->offset;
        cJSON *node = NULL;
        switch (field->type) {
        case FIELD_BOOL:
            node = cJSON_CreateBool(*(const bool *)place);
            break;
        case FIELD_COUNT:
            if (field->choices != NULL && *(const int64_t *)place <= FIELD_COUNT_WORD) {
                node =
                    cJSON_CreateString(field->choices[FIELD_COUNT_WORD - *(const int64_t *)place]);
                break;
            }
            node = *(const int64_t *)place == -1 && field->fallback != NULL &&
                           strcmp(field->fallback, "null") == 0
                       ? cJSON_CreateNull()
                       : cJSON_CreateNumber((double)*(const int64_t *)place);
            break;
        case FIELD_DOUBLE:
            node = isnan(*(const double *)place) ? cJSON_CreateNull()
                                                 : cJSON_CreateNumber(*(const double *)place);
            break;
        case FIELD_TEXT:
            node = *(const char *const *)place == NULL
                       ? cJSON_CreateNull()
                       : cJSON_CreateString(*(const char *const *)place);
            break;
        case FIELD_CHOICE:
            node = cJSON_CreateString(field->choices[*(const int *)place]);
            break;
        case FIELD_NODE: {
            const cJSON *held = *(const cJSON *const *)place;
            node = held == NULL ? cJSON_CreateNull() : cJSON_Duplicate(held, 1);
            break;
        }
        case FIELD_TYPE_COUNT:
            ballast_bug("field %s has no type", field->name);
        }
        cJSON_AddItemToObject(object, field->name, node);
    }
    return object;
}

static void print_domain(const struct field *field, const char *separator, FILE *out) {
    if (field->type == FIELD_CHOICE) {
        for (int i = 0; field->choices[i] != NULL; i++)
            fprintf(out, "%s%s", i > 0 ? separator : "", field->choices[i]);
    } else if (field->type == FIELD_BOOL) {
        fprintf(out, "true%sfalse", separator);
    } else if (field->type == FIELD_TEXT) {
        fputs("text", out);
    } else if (field->type == FIELD_NODE) {
        fputs("see below", out);
    } else if (field->min == 0 && field->max == 0) {
        fputs(field->type == FIELD_COUNT ? "whole number" : "number", out);
    } else {
        fprintf(out, "%.10g to %.10g", field->min, field->max);
    }
    if (field->type == FIELD_COUNT && field->choices != NULL)
        for (int i = 0; field->choices[i] != NULL; i++)
            fprintf(out, "%s%s", separator, field->choices[i]);
}

void field_table_help(const struct field_table *table, FILE *out) {
    for (size_t i = 0; i < table->count; i++) {
        const struct field *field = &table->fields[i];
        fprintf(out, "    %-26s %s%s%s%s (", field->name, field->help,
                field->unit[0] != '\0' ? " [" : "", field->unit, field->unit[0] != '\0' ? "]" : "");
        print_domain(field, " | ", out);
        if (field->fallback != NULL)
            fprintf(out, "; default %s)\n", field->fallback);
        else
            fputs("; required)\n", out);
    }
}

void field_table_markdown(const struct field_table *table, FILE *out) {
    fputs("| key | values | unit | default | meaning |\n|---|---|---|---|---|\n", out);
    for (size_t i = 0; i < table->count; i++) {
        const struct field *field = &table->fields[i];
        fprintf(out, "| `%s` | ", field->name);
        print_domain(field, ", ", out);
        fprintf(out, " | %s | ", field->unit);
        if (field->fallback != NULL)
            fprintf(out, "`%s`", field->fallback);
        else
            fputs("required", out);
        fprintf(out, " | %s |\n", field->help);
    }
}
