/* json.h - a JSON document that knows where each value stands in its file.
 *
 * cJSON parses. Positions are found only when there is an error, by walking the text to the
 * offending key, so that meaning errors are as exact as syntax errors:
 *
 *     vlm.json:42:19: error: /cluster/nic_GB_per_s: must be 0.001 to 10000, got -4
 *         42 |   "nic_GB_per_s": -4,
 *            |                   ^~
 *       hint: one-way bandwidth per GPU
 *
 * Duplicate keys are errors. Values changed by json_override() report the command-line text.
 */
#ifndef BALLAST_SIM_BASE_JSON_H
#define BALLAST_SIM_BASE_JSON_H

#include <stdbool.h>
#include <stddef.h>
#include <cjson/cJSON.h>
#include "sim/base/error.h"

struct json; /* owned by the caller: json_load/json_parse ... json_destroy */

struct json *json_load(const char *path, struct error *err);
/* name stands for the file in messages; text is copied. */
struct json *json_parse(const char *name, const char *text, size_t size, struct error *err);
/* The same values with no text: messages name the path of a value instead of its line. */
struct json *json_copy(const struct json *json);
void json_destroy(struct json *json);

cJSON *json_root(const struct json *json);
const char *json_name(const struct json *json);

/* Sets the value at a dotted path ("cluster.gpu_count", list items by number) to JSON text, or to a
 * string when the text is not JSON. Objects on the way are made. `assignment` is "path=value". */
bool json_override(struct json *json, const char *assignment, struct error *err);
/* The same for an option of another name, a static text, which messages give instead of "--set". */
bool json_override_by(struct json *json, const char *option, const char *assignment,
                      struct error *err);

/* Takes the key at a dotted path out of its object; it must be there. Messages about what is left
 * still find their lines. */
bool json_remove(struct json *json, const char *path, struct error *err);

/* The same with a value, of which it takes a copy. False: the path leads through something that has
 * nothing below it. */
bool json_assign(struct json *json, const char *path, const cJSON *value);

/* Reports a mistake in the value `node` of this document (NULL: the document itself). hint may be
 * NULL. Always returns false. */
bool json_error(const struct json *json, const cJSON *node, struct error *err, const char *hint,
                const char *format, ...) __attribute__((format(printf, 5, 6)));

/* The same about the key of `node`, which the marker then stands below. */
bool json_key_error(const struct json *json, const cJSON *node, struct error *err, const char *hint,
                    const char *format, ...) __attribute__((format(printf, 5, 6)));

/* Whether --set gave this value, or something around it. */
bool json_is_overridden(const struct json *json, const cJSON *node);

/* The text that stood in the file where --set gave this very value; NULL: none. */
const char *json_text_before(const struct json *json, const cJSON *node);

/* Writes the slash path of a node ("/cluster/gpu_count") into text. */
void json_path(const struct json *json, const cJSON *node, char *text, size_t size);

#endif
