/* paper_table.c - reads a table file, the inputs that it names and the paper's order of
 * readings. */
#include "sim/study/reproduce/paper_table.h"

#include <string.h>
#include <unistd.h>
#include "sim/base/field.h"

static const char *const status_names[] = { "stated", "assumed", "fitted", NULL };

const char *input_status_name(enum input_status status) {
    return status_names[status];
}

/* ---- the tables of keys ---- */

struct table_fields {
    const char *paper, *table, *source, *note;
    const cJSON *assumptions, *inputs, *causes, *rows, *picture;
};

struct readings_fields {
    const char *rule;
    const cJSON *main;
};

struct picture_fields {
    const char *title, *axis, *quantity, *right, *right_axis;
    double scale;
    int64_t count;
    int kind;
    const cJSON *runs;
};

struct picture_run_fields {
    const char *label, *scenario;
    const cJSON *set;
    double printed;
};

struct row_fields {
    const char *row, *scenario, *reading, *note;
    const cJSON *set, *against, *inputs, *values;
};

struct run_fields {
    const char *scenario;
    const cJSON *set;
};

struct value_fields {
    const char *quantity, *note;
    double paper;
    bool calibrated_on;
};

struct input_fields {
    const char *value, *source;
    int status;
};

#define AT(type, member) offsetof(struct type, member)
static const struct field table_rows[] = {
    { "paper", FIELD_TEXT, AT(table_fields, paper), 0, 0, NULL, "", "short name of the paper",
      NULL },
    { "table", FIELD_TEXT, AT(table_fields, table), 0, 0, NULL, "", "short name of the table",
      NULL },
    { "source", FIELD_TEXT, AT(table_fields, source), 0, 0, NULL, "", "where the paper prints it",
      NULL },
    { "note", FIELD_TEXT, AT(table_fields, note), 0, 0, "null", "", "what a reader must know",
      NULL },
    { "assumptions", FIELD_NODE, AT(table_fields, assumptions), 0, 0, "null", "",
      "list of unstated inputs in words", NULL },
    { "inputs", FIELD_NODE, AT(table_fields, inputs), 0, 0, "null", "",
      "names of inputs.json that hold for all rows", NULL },
    { "causes", FIELD_NODE, AT(table_fields, causes), 0, 0, "null", "",
      "{ \"row.quantity\": why its main reading misses it }", NULL },
    { "rows", FIELD_NODE, AT(table_fields, rows), 0, 0, NULL, "", "list of rows", NULL },
    { "picture", FIELD_NODE, AT(table_fields, picture), 0, 0, "null", "",
      "what reproduce --pictures draws", NULL },
};
static const struct field_table table_table =
    FIELD_TABLE("table", "a table of a paper", table_rows);

static const struct field readings_rows[] = {
    { "rule", FIELD_TEXT, AT(readings_fields, rule), 0, 0, NULL, "",
      "how main readings were chosen, for all tables at once", NULL },
    { "main", FIELD_NODE, AT(readings_fields, main), 0, 0, NULL, "",
      "readings: the first of them that a figure has is its main one", NULL },
};
static const struct field_table readings_table =
    FIELD_TABLE("readings", "the order of a paper's readings", readings_rows);

static const struct field row_rows[] = {
    { "row", FIELD_TEXT, AT(row_fields, row), 0, 0, NULL, "", "short name of the row", NULL },
    { "scenario", FIELD_TEXT, AT(row_fields, scenario), 0, 0, NULL, "",
      "scenario file beside the table", NULL },
    { "set", FIELD_NODE, AT(row_fields, set), 0, 0, "null", "",
      "list of \"path=value\" that change it", NULL },
    { "against", FIELD_NODE, AT(row_fields, against), 0, 0, "null", "",
      "{ scenario, set } that speedup and its like compare with", NULL },
    { "reading", FIELD_TEXT, AT(row_fields, reading), 0, 0, "null", "",
      "which reading of an unclear text", NULL },
    { "note", FIELD_TEXT, AT(row_fields, note), 0, 0, "null", "", "what a reader must know", NULL },
    { "inputs", FIELD_NODE, AT(row_fields, inputs), 0, 0, "null", "",
      "names of inputs.json that hold for this row", NULL },
    { "values", FIELD_NODE, AT(row_fields, values), 0, 0, NULL, "", "list of printed values",
      NULL },
};
static const struct field_table row_table = FIELD_TABLE("row", "a row of a table", row_rows);

static const char *const picture_kinds[] = { "bars", "lines", NULL };
static const struct field picture_rows[] = {
    { "kind", FIELD_CHOICE, AT(picture_fields, kind), 0, 0, NULL, "",
      "bars: one a run, beside it what is printed; lines: one a run, over its iterations",
      picture_kinds },
    { "title", FIELD_TEXT, AT(picture_fields, title), 0, 0, NULL, "", "above the picture", NULL },
    { "axis", FIELD_TEXT, AT(picture_fields, axis), 0, 0, NULL, "", "with its unit", NULL },
    { "quantity", FIELD_TEXT, AT(picture_fields, quantity), 0, 0, NULL, "",
      "what is drawn; of lines without its number", NULL },
    { "scale", FIELD_DOUBLE, AT(picture_fields, scale), 1e-12, 1e12, "1", "",
      "what the quantity is multiplied by", NULL },
    { "count", FIELD_COUNT, AT(picture_fields, count), 1, 1e6, "1", "", "points of a line", NULL },
    { "right", FIELD_TEXT, AT(picture_fields, right), 0, 0, "null", "",
      "lines: a quantity of the first run on the right axis", NULL },
    { "right_axis", FIELD_TEXT, AT(picture_fields, right_axis), 0, 0, "null", "", "its name",
      NULL },
    { "runs", FIELD_NODE, AT(picture_fields, runs), 0, 0, NULL, "", "list of runs", NULL },
};
static const struct field_table picture_table =
    FIELD_TABLE("picture", "a picture of a table", picture_rows);

static const struct field picture_run_rows[] = {
    { "label", FIELD_TEXT, AT(picture_run_fields, label), 0, 0, NULL, "", "its name", NULL },
    { "scenario", FIELD_TEXT, AT(picture_run_fields, scenario), 0, 0, NULL, "",
      "scenario file beside the table", NULL },
    { "set", FIELD_NODE, AT(picture_run_fields, set), 0, 0, "null", "",
      "list of \"path=value\" that change it", NULL },
    { "printed", FIELD_DOUBLE, AT(picture_run_fields, printed), 0, 0, "null", "",
      "what the paper prints, in the unit of the axis", NULL },
};
static const struct field_table picture_run_table =
    FIELD_TABLE("run", "a run of a picture", picture_run_rows);

static const struct field run_rows[] = {
    { "scenario", FIELD_TEXT, AT(run_fields, scenario), 0, 0, NULL, "",
      "scenario file beside the table", NULL },
    { "set", FIELD_NODE, AT(run_fields, set), 0, 0, "null", "",
      "list of \"path=value\" that change it", NULL },
};
static const struct field_table run_table = FIELD_TABLE("against", "a run", run_rows);

static const struct field value_rows[] = {
    { "quantity", FIELD_TEXT, AT(value_fields, quantity), 0, 0, NULL, "", "what the number is",
      NULL },
    { "paper", FIELD_DOUBLE, AT(value_fields, paper), 0, 0, "null", "",
      "the printed number; null: it is drawn without one", NULL },
    { "calibrated_on", FIELD_BOOL, AT(value_fields, calibrated_on), 0, 0, "false", "",
      "a constant was fitted to it", NULL },
    { "note", FIELD_TEXT, AT(value_fields, note), 0, 0, "null", "", "what a reader must know",
      NULL },
};
static const struct field_table value_table = FIELD_TABLE("value", "a printed value", value_rows);

static const struct field input_rows[] = {
    { "value", FIELD_TEXT, AT(input_fields, value), 0, 0, NULL, "", "what it is set to", NULL },
    { "status", FIELD_CHOICE, AT(input_fields, status), 0, 0, NULL, "", "who says so",
      status_names },
    { "source", FIELD_TEXT, AT(input_fields, source), 0, 0, "null", "",
      "where it is stated, or why it is assumed", NULL },
};
static const struct field_table input_table =
    FIELD_TABLE("input", "an input of the simulation", input_rows);
#undef AT

/* ---- reading ---- */

struct reading {
    struct arena *arena;
    const char *directory;
    const struct json *json, *inputs_json; /* inputs_json: NULL when there is no such file */
    const cJSON *main_readings;            /* of readings.json; NULL when there is no such file */
    struct error *err;
};

static bool must_be_list(struct reading *r, const cJSON *node, const char *key) {
    return cJSON_IsArray(node) || json_error(r->json, node, r->err, NULL, "%s must be a list", key);
}

static bool is_present(const cJSON *node) {
    return node != NULL && !cJSON_IsNull(node);
}

static const struct paper_input *read_input(struct reading *r, const cJSON *name) {
    const cJSON *node = r->inputs_json != NULL && cJSON_IsString(name)
                            ? cJSON_GetObjectItemCaseSensitive(json_root(r->inputs_json),
                                                               name->valuestring)
                            : NULL;
    if (node == NULL) {
        json_error(r->json, name, r->err, "inputs.json beside the table lists them",
                   "must be the name of an input");
        return NULL;
    }
    struct input_fields fields;
    if (!field_table_read(&input_table, r->inputs_json, node, &fields, r->arena, r->err))
        return NULL;
    struct paper_input *input = arena_new(r->arena, struct paper_input);
    *input = (struct paper_input){ .name = arena_text(r->arena, name->valuestring),
                                   .value = fields.value,
                                   .status = (enum input_status)fields.status,
                                   .source = fields.source };
    return input;
}

static const struct paper_input *read_assumption(struct reading *r, const cJSON *text) {
    if (!cJSON_IsString(text)) {
        json_error(r->json, text, r->err, NULL, "must be a text");
        return NULL;
    }
    struct paper_input *input = arena_new(r->arena, struct paper_input);
    *input = (struct paper_input){ .value = arena_text(r->arena, text->valuestring),
                                   .status = INPUT_ASSUMED };
    return input;
}

/* The named inputs, then the assumptions in words. */
static bool read_inputs(struct reading *r, const cJSON *names, const cJSON *assumptions,
                        const struct paper_input *const **out) {
    int count = (is_present(names) ? cJSON_GetArraySize(names) : 0) +
                (is_present(assumptions) ? cJSON_GetArraySize(assumptions) : 0);
    const struct paper_input **inputs =
        arena_array(r->arena, const struct paper_input *, count + 1);
    *out = inputs;
    if (is_present(names) && !must_be_list(r, names, "inputs")) return false;
    if (is_present(assumptions) && !must_be_list(r, assumptions, "assumptions")) return false;
    const cJSON *item;
    int at = 0;
    cJSON_ArrayForEach(item, names) {
        if ((inputs[at++] = read_input(r, item)) == NULL) return false;
    }
    cJSON_ArrayForEach(item, assumptions) {
        if ((inputs[at++] = read_assumption(r, item)) == NULL) return false;
    }
    return true;
}

static bool read_run(struct reading *r, const char *scenario, const cJSON *set,
                     struct paper_run *run) {
    int count = is_present(set) ? cJSON_GetArraySize(set) : 0, at = 0;
    const char **list = arena_array(r->arena, const char *, count + 1);
    *run = (struct paper_run){ .path = arena_format(r->arena, "%s/%s", r->directory, scenario),
                               .set = list };
    if (!is_present(set)) return true;
    if (!must_be_list(r, set, "set")) return false;
    const cJSON *item;
    cJSON_ArrayForEach(item, set) {
        if (!cJSON_IsString(item) || strchr(item->valuestring, '=') == NULL)
            return json_error(r->json, item, r->err, "for example \"layout.tp=4\"",
                              "must be \"path=value\"");
        list[at++] = arena_text(r->arena, item->valuestring);
    }
    return true;
}

static bool read_against(struct reading *r, const cJSON *node, struct paper_run *run) {
    *run = (struct paper_run){ 0 };
    if (!is_present(node)) return true;
    struct run_fields fields;
    return field_table_read(&run_table, r->json, node, &fields, r->arena, r->err) &&
           read_run(r, fields.scenario, fields.set, run);
}

static bool unknown_quantity(struct reading *r, const cJSON *name, const char *text) {
    const char *near = quantity_nearest(text);
    return json_error(r->json, name, r->err,
                      near != NULL ? arena_format(r->arena, "did you mean \"%s\"?", near) : NULL,
                      "unknown quantity \"%s\"", text);
}

static bool read_value(struct reading *r, const cJSON *node, bool has_against,
                       struct paper_value *value) {
    struct value_fields fields;
    if (!field_table_read(&value_table, r->json, node, &fields, r->arena, r->err)) return false;
    *value = (struct paper_value){ .name = fields.quantity,
                                   .paper = fields.paper,
                                   .calibrated_on = fields.calibrated_on,
                                   .note = fields.note };
    const cJSON *name = cJSON_GetObjectItemCaseSensitive(node, "quantity");
    value->quantity = quantity_find(fields.quantity, &value->index);
    if (value->quantity == NULL) return unknown_quantity(r, name, fields.quantity);
    if (quantity_compares(value->quantity) && !has_against)
        return json_error(r->json, name, r->err, "give the row \"against\": { \"scenario\": ... }",
                          "\"%s\" compares with another run", fields.quantity);
    return true;
}

/* Place in the paper's order; behind it what has no reading, then readings that it leaves out. */
static int64_t rank_of(const struct reading *r, const char *name) {
    int64_t rank = 0;
    const cJSON *item;
    cJSON_ArrayForEach(item, r->main_readings) {
        if (name != NULL && strcmp(item->valuestring, name) == 0) return rank;
        rank++;
    }
    return name == NULL ? rank : rank + 1;
}

static bool read_row(struct reading *r, const cJSON *node, struct paper_row *row) {
    struct row_fields fields;
    if (!field_table_read(&row_table, r->json, node, &fields, r->arena, r->err)) return false;
    *row = (struct paper_row){ .row = fields.row,
                               .reading = fields.reading,
                               .note = fields.note,
                               .rank = rank_of(r, fields.reading) };
    if (!must_be_list(r, fields.values, "values") ||
        !read_run(r, fields.scenario, fields.set, &row->run) ||
        !read_against(r, fields.against, &row->against) ||
        !read_inputs(r, fields.inputs, NULL, &row->inputs))
        return false;
    row->value_count = cJSON_GetArraySize(fields.values);
    row->values = arena_array(r->arena, struct paper_value, row->value_count + 1);
    int64_t at = 0;
    const cJSON *item;
    cJSON_ArrayForEach(item, fields.values) {
        if (!read_value(r, item, row->against.path != NULL, &row->values[at++])) return false;
    }
    return true;
}

/* The quantity of a picture, which stands for itself: "mfu"; of lines its first:
 * "iteration_time". */
static bool find_drawn(struct reading *r, const cJSON *node, const char *key, const char *name,
                       enum paper_picture_kind kind, const struct quantity **found) {
    int64_t index;
    const char *whole =
        kind == PICTURE_LINES ? arena_format(r->arena, "%s1", name) : name;
    *found = quantity_find(whole, &index);
    const cJSON *at = cJSON_GetObjectItemCaseSensitive(node, key);
    if (*found == NULL) return unknown_quantity(r, at, name);
    return !quantity_compares(*found) ||
           json_error(r->json, at, r->err, NULL, "\"%s\" compares two runs", name);
}

static bool read_picture_run(struct reading *r, const cJSON *node, struct paper_picture_run *run) {
    struct picture_run_fields fields;
    if (!field_table_read(&picture_run_table, r->json, node, &fields, r->arena, r->err))
        return false;
    run->label = fields.label;
    run->printed = fields.printed;
    return read_run(r, fields.scenario, fields.set, &run->run);
}

static bool read_picture(struct reading *r, const cJSON *node, struct paper_table *t) {
    if (!is_present(node)) return true;
    struct picture_fields fields;
    if (!field_table_read(&picture_table, r->json, node, &fields, r->arena, r->err) ||
        !must_be_list(r, fields.runs, "runs"))
        return false;
    struct paper_picture *p = t->picture = arena_new(r->arena, struct paper_picture);
    *p = (struct paper_picture){ .kind = (enum paper_picture_kind)fields.kind,
                                 .title = fields.title,
                                 .axis = fields.axis,
                                 .scale = fields.scale,
                                 .count = fields.count,
                                 .right_axis = fields.right_axis };
    if (!find_drawn(r, node, "quantity", fields.quantity, p->kind, &p->quantity)) return false;
    if (fields.right != NULL &&
        !find_drawn(r, node, "right", fields.right, p->kind, &p->right))
        return false;
    p->runs = arena_array(r->arena, struct paper_picture_run, cJSON_GetArraySize(fields.runs) + 1);
    const cJSON *item;
    cJSON_ArrayForEach(item, fields.runs) {
        if (!read_picture_run(r, item, &p->runs[p->run_count++])) return false;
    }
    return true;
}

static bool prints(const struct paper_table *t, const char *figure) {
    for (int64_t k = 0; k < t->row_count; k++) {
        const size_t length = strlen(t->rows[k].row);
        if (strncmp(figure, t->rows[k].row, length) != 0 || figure[length] != '.') continue;
        for (int64_t v = 0; v < t->rows[k].value_count; v++)
            if (strcmp(figure + length + 1, t->rows[k].values[v].name) == 0) return true;
    }
    return false;
}

static bool read_causes(struct reading *r, const cJSON *node, struct paper_table *t) {
    if (!is_present(node)) return true;
    struct paper_cause *causes =
        arena_array(r->arena, struct paper_cause, cJSON_GetArraySize(node) + 1);
    const cJSON *item;
    cJSON_ArrayForEach(item, node) {
        if (!cJSON_IsString(item) || item->string == NULL || !prints(t, item->string))
            return json_error(r->json, item, r->err, NULL,
                              "must be \"row.quantity\" of this table and a text");
        causes[t->cause_count++] =
            (struct paper_cause){ .figure = arena_text(r->arena, item->string),
                                  .text = arena_text(r->arena, item->valuestring) };
    }
    t->causes = causes;
    return true;
}

static bool read_table(struct reading *r, struct paper_table *t) {
    struct table_fields fields;
    if (!field_table_read(&table_table, r->json, json_root(r->json), &fields, r->arena, r->err) ||
        !must_be_list(r, fields.rows, "rows"))
        return false;
    *t = (struct paper_table){ .paper = fields.paper,
                               .table = fields.table,
                               .source = fields.source,
                               .note = fields.note };
    t->id = arena_format(r->arena, "%s.%s", t->paper, t->table);
    if (!read_inputs(r, fields.inputs, fields.assumptions, &t->inputs)) return false;
    t->row_count = cJSON_GetArraySize(fields.rows);
    t->rows = arena_array(r->arena, struct paper_row, t->row_count + 1);
    int64_t at = 0;
    const cJSON *node;
    cJSON_ArrayForEach(node, fields.rows) {
        if (!read_row(r, node, &t->rows[at++])) return false;
    }
    return read_causes(r, fields.causes, t) && read_picture(r, fields.picture, t);
}

/* A file that may be missing. */
static bool load_beside(struct arena *arena, const char *directory, const char *name,
                        struct json **json, struct error *err) {
    const char *path = arena_format(arena, "%s/%s", directory, name);
    *json = NULL;
    return access(path, F_OK) != 0 || (*json = json_load(path, err)) != NULL;
}

static bool read_readings(struct reading *r, const struct json *json, struct paper_table *t) {
    struct readings_fields fields;
    if (json == NULL) return true;
    if (!field_table_read(&readings_table, json, json_root(json), &fields, r->arena, r->err))
        return false;
    if (!cJSON_IsArray(fields.main))
        return json_error(json, fields.main, r->err, NULL, "main must be a list");
    const cJSON *item;
    cJSON_ArrayForEach(item, fields.main) {
        if (!cJSON_IsString(item))
            return json_error(json, item, r->err, NULL, "must be the name of a reading");
    }
    r->main_readings = fields.main;
    t->rule = fields.rule;
    return true;
}

struct paper_table *paper_table_read(struct arena *arena, const char *directory,
                                     const char *file_name, struct error *err) {
    struct json *json = json_load(arena_format(arena, "%s/%s", directory, file_name), err);
    struct json *inputs = NULL, *readings = NULL;
    struct paper_table *t = arena_new(arena, struct paper_table), of_paper = { 0 };
    bool ok = json != NULL && load_beside(arena, directory, "inputs.json", &inputs, err) &&
              load_beside(arena, directory, "readings.json", &readings, err);
    struct reading r = { .arena = arena,
                         .directory = directory,
                         .json = json,
                         .inputs_json = inputs,
                         .err = err };
    ok = ok && read_readings(&r, readings, &of_paper) && read_table(&r, t);
    t->rule = of_paper.rule;
    if (readings != NULL) json_destroy(readings);
    if (inputs != NULL) json_destroy(inputs);
    if (json != NULL) json_destroy(json);
    return ok ? t : NULL;
}
