/* field.h - declarative tables: one row per scenario field, policy parameter or option.
 *
 * The row feeds the reader, the range check, `--help`, docs/SCENARIOS.md and the resolved scenario.
 *
 *     struct cluster { int64_t gpu_count; double nic_GB_per_s; };
 *     #define AT(member) offsetof(struct cluster, member)
 *     static const struct field fields[] = {
 *         { "gpu_count", FIELD_COUNT, AT(gpu_count), 1, 1e6, NULL, "GPUs", "GPUs in the job" },
 *         { "nic_GB_per_s", FIELD_DOUBLE, AT(nic_GB_per_s), 1e-3, 1e4, "50", "GB/s", "one way" },
 *     };
 *     const struct field_table cluster_table = FIELD_TABLE("cluster", "the machines", fields);
 *     field_table_read(&cluster_table, json, object, &cluster, arena, err);
 */
#ifndef BALLAST_SIM_BASE_FIELD_H
#define BALLAST_SIM_BASE_FIELD_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include "sim/base/arena.h"
#include "sim/base/error.h"
#include "sim/base/json.h"

enum field_type {
    FIELD_BOOL,   /* bool; null is false */
    FIELD_COUNT,  /* int64_t; null is -1; a word of `choices` is FIELD_COUNT_WORD less its index */
    FIELD_DOUBLE, /* double; null is NaN */
    FIELD_TEXT,   /* const char * in the arena; null is NULL */
    FIELD_CHOICE, /* int: index in choices */
    FIELD_NODE,   /* const cJSON *: read by the caller; borrowed from the document */
    FIELD_TYPE_COUNT
};

struct field {
    const char *name;
    enum field_type type;
    size_t offset;
    double min, max;            /* of numbers; both 0: unchecked */
    const char *fallback;       /* default as JSON text; NULL: the field is required */
    const char *unit;           /* "" when it has none */
    const char *help;           /* one line, no full stop */
    const char *const *choices; /* names, NULL at the end: all values of a FIELD_CHOICE, or words
                                   that may stand for a FIELD_COUNT ("auto"); NULL: none */
};
enum { FIELD_COUNT_WORD = -2 };

struct field_table {
    const char *name; /* "cluster" */
    const char *help;
    const struct field *fields;
    size_t count;
    /* Which key of which table an unknown one means, for the hint; NULL: only what is spelled
     * alike. */
    bool (*meant)(const char *said, const char **table, const char **key);
};

#define FIELD_TABLE(name, help, fields) FIELD_TABLE_MEANT(name, help, fields, NULL)
#define FIELD_TABLE_MEANT(name, help, fields, meant)                                               \
    { (name), (help), (fields), sizeof(fields) / sizeof((fields)[0]), (meant) }

/* Reads every field of `object` (NULL: all defaults) into `out`. Unknown keys, wrong types, values
 * out of range and missing required fields are errors with position, reason and nearest name. */
bool field_table_read(const struct field_table *table, const struct json *json, const cJSON *object,
                      void *out, struct arena *arena, struct error *err);
/* The same, for an object that has one more key, which the caller reads (NULL: none). */
bool field_table_read_beside(const struct field_table *table, const struct json *json,
                             const cJSON *object, const char *other_key, void *out,
                             struct arena *arena, struct error *err);
/* The values as a new JSON object, in table order; FIELD_NODE is copied. The caller deletes it. */
cJSON *field_table_write(const struct field_table *table, const void *values);
const struct field *field_table_find(const struct field_table *table, const char *name);
/* One line a field, for --help; or a Markdown table, for docs/SCENARIOS.md. */
void field_table_help(const struct field_table *table, FILE *out);
void field_table_markdown(const struct field_table *table, FILE *out);

/* One line of UTF-8 without control characters: names stand in tables and in file names. */
bool name_is_plain(const char *name);
/* Edits between two names: letters put in, left out, replaced or swapped with the next one,
 * whatever their case. */
int name_distance(const char *a, const char *b);
/* The name among `count` names nearest to `wanted` by edit distance, or NULL if none is near.
 * name_at(names, i) returns the i-th. */
const char *nearest_name(const char *wanted, size_t count,
                         const char *(*name_at)(const void *names, size_t index),
                         const void *names);
/* The hint to an unknown name: "did you mean "tp"?", or all there are: "one of: tp, pp". */
const char *nearest_hint(struct arena *arena, const char *wanted, size_t count,
                         const char *(*name_at)(const void *names, size_t index),
                         const void *names);
const char *nearest_in_list(const char *wanted, const char *const *names); /* NULL at the end */
/* The same among the names of the .json files of a folder, without ".json"; in the arena. */
const char *nearest_file(struct arena *arena, const char *directory, const char *wanted);
/* Adds to an error that no file has the wanted name: the nearest one, or else which there are, of
 * many those that share their first word as one ("aws-*"). */
void hint_of_files(struct error *err, const char *directory, const char *wanted);

#endif
