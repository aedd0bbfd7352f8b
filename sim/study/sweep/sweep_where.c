/* sweep_where.c - a path is looked up in the field tables part by part; what these leave open
 * (parameters of policies, units of batches, definitions) is known where a table of it or the sweep
 * itself has it. */
#include "sim/study/sweep/sweep_where.h"

#include <stdlib.h>
#include <string.h>
#include <unistd.h>
#include "sim/scenario/scenario_fields.h"

struct where_check {
    const struct sweep_file *file;
    const struct scenario_options *options;
    struct arena *arena;
    const cJSON *node; /* of the condition */
    const char *text;
    struct error *err;
    bool ok;
};

/* What a path stands for. */
enum where_kind { WHERE_ANYTHING, WHERE_NUMBER, WHERE_TEXT, WHERE_NAME, WHERE_LIST };
struct where_field {
    enum where_kind kind;
    const char *const *names; /* of a text those it may be, NULL at the end; NULL: any */
    const char *folder;       /* or those of the files in there */
    int slot;                 /* or those of policies; -1: none */
};

static bool refuse(struct where_check *c, const char *hint, const char *format, const char *name) {
    if (!c->ok) return false;
    char said[256];
    snprintf(said, sizeof said, format, name);
    c->ok = json_error(c->file->json, c->node, c->err, hint, "condition \"%s\": %s", c->text, said);
    return false;
}

/* ---- what the sweep gives ---- */

/* The part of `path` after `begin`, "" where they are the same; NULL: it does not begin so. */
static const char *rest_of(const char *path, const char *begin) {
    size_t length = strlen(begin);
    if (strncmp(path, begin, length) != 0) return NULL;
    if (path[length] == '.') return path + length + 1;
    return path[length] == '\0' ? path + length : NULL;
}

typedef bool given_matches(struct where_check *c, const cJSON *node, const void *context);

/* Whether some value that the scenario or an axis gives for the path matches. */
static bool is_given(struct where_check *c, const char *path, given_matches *matches,
                     const void *context) {
    const struct sweep_file *file = c->file;
    const cJSON *node = condition_field(json_root(file->base), path);
    if (node != NULL && matches(c, node, context)) return true;
    for (int64_t a = 0; a < file->axis_count; a++) {
        const struct sweep_axis *axis = &file->axes[a];
        for (int64_t p = 0; p < axis->path_count; p++) {
            const char *rest = rest_of(path, axis->paths[p]);
            for (int64_t v = 0; rest != NULL && v < axis->value_count; v++) {
                node = condition_field(axis->values[v * axis->path_count + p], rest);
                if (node != NULL && matches(c, node, context)) return true;
            }
        }
    }
    return false;
}

static bool matches_all(struct where_check *c, const cJSON *node, const void *context) {
    (void)c, (void)node, (void)context;
    return true;
}

/* Below an axis that names a longer path there is something too. */
static bool is_given_at_all(struct where_check *c, const char *path) {
    for (int64_t a = 0; a < c->file->axis_count; a++)
        for (int64_t p = 0; p < c->file->axes[a].path_count; p++)
            if (rest_of(c->file->axes[a].paths[p], path) != NULL) return true;
    return is_given(c, path, matches_all, NULL);
}

static bool matches_text(struct where_check *c, const cJSON *node, const void *context) {
    (void)c;
    const cJSON *name = cJSON_IsObject(node) ? condition_field(node, "name") : node;
    return cJSON_IsString(name) && strcmp(name->valuestring, context) == 0;
}

static bool text_is_given(struct where_check *c, const char *path, const char *text) {
    return is_given(c, path, matches_text, text) ||
           is_given(c, arena_format(c->arena, "%s.name", path), matches_text, text);
}

/* ---- policies ---- */

static const char *const slot_names[] = { "batching", "partition", "recompute",
                                          "schedule", "joint",     NULL };
enum { SLOT_BATCHING, SLOT_PARTITION, SLOT_RECOMPUTE, SLOT_SCHEDULE, SLOT_JOINT, SLOT_COUNT };
static const enum planner_slot planner_slots[SLOT_COUNT] = { [SLOT_PARTITION] = PLANNER_PARTITION,
                                                             [SLOT_RECOMPUTE] = PLANNER_RECOMPUTE,
                                                             [SLOT_JOINT] = PLANNER_JOINT };

/* Names of the slot, and the parameters of each (NULL: none); NULL at the end of the names. */
struct slot_list {
    const char **names;
    const struct field_table **tables;
    size_t count;
};

static struct slot_list list_slot(struct where_check *c, int slot) {
    size_t batching_count, schedule_count, planner_count;
    const struct batching_policy *const *batching = batching_policies(&batching_count);
    const struct schedule_policy *const *schedules = schedule_policies(&schedule_count);
    const struct planner *const *all = planners(&planner_count);
    const size_t limit = batching_count + schedule_count + planner_count + 1;
    struct slot_list list = { .names = arena_array(c->arena, const char *, limit),
                              .tables = arena_array(c->arena, const struct field_table *, limit) };
    for (size_t i = 0; slot == SLOT_BATCHING && i < batching_count; i++) {
        list.tables[list.count] = batching[i]->parameters;
        list.names[list.count++] = batching[i]->name;
    }
    for (size_t i = 0; slot == SLOT_SCHEDULE && i < schedule_count; i++)
        list.names[list.count++] = schedules[i]->name;
    for (size_t i = 0; slot != SLOT_BATCHING && slot != SLOT_SCHEDULE && i < planner_count; i++) {
        if (all[i]->slot != planner_slots[slot]) continue;
        list.tables[list.count] = all[i]->parameters;
        list.names[list.count++] = all[i]->name;
    }
    return list;
}

/* Those of plug-ins are found by name, and not listed. */
static bool policy_exists(int slot, const char *name, const struct field_table **table) {
    *table = NULL;
    if (slot == SLOT_SCHEDULE) return schedule_policy_find(name) != NULL;
    if (slot == SLOT_BATCHING) {
        const struct batching_policy *row = batching_policy_find(name);
        if (row != NULL) *table = row->parameters;
        return row != NULL;
    }
    const struct planner *row = planner_find(planner_slots[slot], name);
    if (row != NULL) *table = row->parameters;
    return row != NULL;
}

struct parameter_sought {
    int slot;
    const char *name;
    const struct field **found;
};

static bool policy_has(struct where_check *c, const cJSON *node, const void *context) {
    (void)c;
    const struct parameter_sought *sought = context;
    const struct field_table *table;
    const cJSON *name = cJSON_IsObject(node) ? condition_field(node, "name") : node;
    if (!cJSON_IsString(name) || !policy_exists(sought->slot, name->valuestring, &table))
        return false;
    if (table != NULL) *sought->found = field_table_find(table, sought->name);
    return *sought->found != NULL;
}

/* ---- a path and its field ---- */

static struct where_field of_field(const struct field *field) {
    struct where_field out = { .slot = -1 };
    switch (field->type) {
    case FIELD_BOOL:
    case FIELD_DOUBLE:
        out.kind = WHERE_NUMBER;
        break;
    case FIELD_COUNT:
        out.kind = field->choices != NULL ? WHERE_ANYTHING : WHERE_NUMBER;
        out.names = field->choices;
        break;
    case FIELD_CHOICE:
        out.kind = WHERE_NAME;
        out.names = field->choices;
        break;
    case FIELD_TEXT:
        out.kind = WHERE_TEXT;
        break;
    default:
        break;
    }
    return out;
}

/* Fields that name a file. */
static const struct {
    const char *path, *folder;
} folders[] = {
    { "model.name", "models" },
    { "dataset.name", "datasets" },
    { "cluster.name", "clusters" },
    { "cluster.hardware", "hardware" },
    { "cluster.fabric", "hardware/fabrics" },
    { "layout.stack", "stacks" },
};

static const struct field_table *section_table(const char *name) {
    size_t count;
    const struct field_table *const *sections = scenario_sections(&count);
    for (size_t i = 1; i < count; i++) /* 0: the top level */
        if (strcmp(sections[i]->name, name) == 0) return sections[i];
    return NULL;
}

/* "layout.tp" for "tp", "layot.tp" and "training.tp", "layout.tp" for "layout.tq"; NULL: nothing is
 * near. */
static const char *nearest_path(struct where_check *c, const char *path) {
    const char *dot = strchr(path, '.');
    const char *last = dot != NULL ? dot + 1 : path;
    const char *first =
        dot != NULL ? arena_format(c->arena, "%.*s", (int)(dot - path), path) : NULL;
    const struct field_table *section = first != NULL ? section_table(first) : NULL;
    const char **names = arena_array(c->arena, const char *, 1024);
    size_t count, used = 0;
    const struct field_table *const *sections = scenario_sections(&count);
    for (size_t i = 1; i < count; i++)
        for (size_t f = 0; sections[i] != &rule_table && f < sections[i]->count; f++) {
            const char *name = sections[i]->fields[f].name;
            if (strcmp(name, last) == 0)
                return arena_format(c->arena, "%s.%s", sections[i]->name, name);
            if (section == NULL || sections[i] == section)
                names[used++] = arena_format(c->arena, "%s.%s", sections[i]->name, name);
        }
    names[used] = NULL;
    return nearest_in_list(path, names);
}

static bool unknown_field(struct where_check *c, const char *path, const char *near) {
    if (near == NULL) near = nearest_path(c, path);
    return refuse(c,
                  near != NULL ? arena_format(c->arena, "did you mean \"%s\"?", near)
                               : "`ballast check --reference` lists the fields of a scenario",
                  "a scenario has no field \"%s\"", path);
}

/* "policy.batching", "policy.batching.name" and "policy.batching.qv" */
static bool find_policy(struct where_check *c, const char *path, int slot, const char *rest,
                        struct where_field *out) {
    if (rest == NULL || strcmp(rest, "name") == 0) {
        *out = (struct where_field){ .kind = WHERE_NAME, .slot = slot };
        return true;
    }
    const struct slot_list list = list_slot(c, slot);
    const struct field *found = NULL;
    for (size_t i = 0; i < list.count && found == NULL; i++)
        if (list.tables[i] != NULL) found = field_table_find(list.tables[i], rest);
    const struct parameter_sought sought = { slot, rest, &found };
    if (found == NULL)
        is_given(c, arena_format(c->arena, "policy.%s", slot_names[slot]), policy_has, &sought);
    if (found != NULL) {
        *out = of_field(found);
        return true;
    }
    const char **names = arena_array(c->arena, const char *, 256);
    size_t used = 0;
    for (size_t i = 0; i < list.count; i++)
        for (size_t f = 0; list.tables[i] != NULL && f < list.tables[i]->count && used < 255; f++)
            names[used++] = arena_format(c->arena, "policy.%s.%s", slot_names[slot],
                                         list.tables[i]->fields[f].name);
    const char *near = nearest_in_list(path, names);
    return refuse(c,
                  near != NULL ? arena_format(c->arena, "did you mean \"%s\"?", near)
                               : "docs/SCENARIOS.md lists the policies and their parameters",
                  arena_format(c->arena, "no %s policy has a parameter \"%%s\"", slot_names[slot]),
                  rest);
}

static bool matches_number(struct where_check *c, const cJSON *node, const void *context) {
    (void)c, (void)context;
    return cJSON_IsNumber(node);
}

/* The global batch is resolved in micro-batches, so that samples are known where the sweep gives
 * them. */
static bool find_batch(struct where_check *c, const char *path, const char *rest,
                       struct where_field *out) {
    out->kind = WHERE_NUMBER;
    if (rest_of(path, "training.micro_batch") != NULL)
        return rest == NULL || strcmp(rest, "samples") == 0 ||
               unknown_field(c, path, "training.micro_batch.samples");
    if (rest == NULL)
        return refuse(
            c, "\"training.global_batch.samples\" or \"training.global_batch.micro_batches\"",
            "\"%s\" does not say in which unit", path);
    if (strcmp(rest, "micro_batches") == 0) return true;
    static const char *const units[] = { "samples", "micro_batches", NULL };
    const char *near = nearest_in_list(rest, units);
    if (strcmp(rest, "samples") != 0)
        return unknown_field(
            c, path,
            arena_format(c->arena, "training.global_batch.%s", near != NULL ? near : units[0]));
    return is_given_at_all(c, path) || is_given(c, "training.global_batch", matches_number, NULL) ||
           refuse(c, "\"training.global_batch.micro_batches\" is always known",
                  "the sweep does not give \"%s\"", path);
}

/* What a FIELD_NODE holds, or the part of it after `rest`. */
static bool find_in_node(struct where_check *c, const char *path, const char *rest,
                         struct where_field *out) {
    *out = (struct where_field){ .kind = WHERE_ANYTHING, .slot = -1 };
    static const char *const epoch[] = { "epoch", NULL };
    if (strcmp(path, "simulate.iterations") == 0) {
        out->names = epoch;
        return true;
    }
    if (strcmp(path, "model.frozen") == 0) {
        *out = (struct where_field){ .kind = WHERE_LIST, .names = module_role_names, .slot = -1 };
        return true;
    }
    const char *role = rest_of(path, "model.precision");
    if (role != NULL && *role != '\0') {
        for (int i = 0; i < MODULE_ROLE_COUNT; i++)
            if (strcmp(module_role_names[i], role) == 0) {
                *out = of_field(field_table_find(&scenario_training_table, "precision"));
                return true;
            }
        const char *near = nearest_in_list(role, module_role_names);
        return unknown_field(
            c, path, near != NULL ? arena_format(c->arena, "model.precision.%s", near) : NULL);
    }
    if (rest_of(path, "training") != NULL) return find_batch(c, path, rest, out);
    if (rest == NULL || is_given_at_all(c, path)) return true;
    return refuse(c, NULL, "neither the scenario nor an axis of the sweep has a field \"%s\"",
                  path);
}

static bool find_path(struct where_check *c, const char *path, struct where_field *out) {
    const char *dot = strchr(path, '.');
    const char *first =
        dot != NULL ? arena_format(c->arena, "%.*s", (int)(dot - path), path) : path;
    const struct field_table *table = section_table(first);
    if (dot == NULL) {
        if (table != NULL && field_table_find(table, "name") != NULL && table != &rule_table)
            return find_path(c, arena_format(c->arena, "%s.name", first), out);
        if (table != NULL && table != &rule_table)
            return refuse(
                c, arena_format(c->arena, "for example \"%s.%s\"", first, table->fields[0].name),
                "\"%s\" is a section, not a field", path);
        const struct field *top = field_table_find(&scenario_top_table, path);
        if (top == NULL || top->type == FIELD_NODE) return unknown_field(c, path, NULL);
        *out = of_field(top);
        return true;
    }
    const char *end = strchr(dot + 1, '.');
    const char *name =
        end != NULL ? arena_format(c->arena, "%.*s", (int)(end - dot - 1), dot + 1) : dot + 1;
    const struct field *field =
        table != NULL && table != &rule_table ? field_table_find(table, name) : NULL;
    if (field == NULL) return unknown_field(c, path, NULL);
    for (int slot = 0; table == &scenario_policy_table && slot < SLOT_COUNT; slot++)
        if (strcmp(slot_names[slot], name) == 0)
            return find_policy(c, path, slot, end != NULL ? end + 1 : NULL, out);
    if (field->type == FIELD_NODE) return find_in_node(c, path, end != NULL ? end + 1 : NULL, out);
    if (end != NULL) return unknown_field(c, path, arena_format(c->arena, "%s.%s", first, name));
    *out = of_field(field);
    for (size_t i = 0; i < sizeof folders / sizeof folders[0]; i++)
        if (strcmp(folders[i].path, path) == 0) out->folder = folders[i].folder;
    return true;
}

/* ---- a name and its field ---- */

static bool unknown_name(struct where_check *c, const char *path, const char *name,
                         const char *near, const char *const *list) {
    const char *hint = near != NULL ? arena_format(c->arena, "did you mean \"%s\"?", near) : NULL;
    const bool says_all = near != NULL && list != NULL && list[1] == NULL;
    for (size_t i = 0; !says_all && list != NULL && list[i] != NULL; i++)
        hint = arena_format(c->arena, "%s%s%s", hint != NULL ? hint : "",
                            i > 0          ? ", "
                            : hint != NULL ? " one of: "
                                           : "one of: ",
                            list[i]);
    return refuse(c, hint, arena_format(c->arena, "unknown %s \"%%s\"", path), name);
}

static bool check_name(struct where_check *c, const char *path, const struct where_field *field,
                       const char *name) {
    const struct field_table *ignored;
    if (field->slot >= 0) {
        const struct slot_list list = list_slot(c, field->slot);
        return policy_exists(field->slot, name, &ignored) ||
               unknown_name(c, arena_format(c->arena, "%s policy", slot_names[field->slot]), name,
                            nearest_in_list(name, list.names), list.names);
    }
    if (field->names != NULL) {
        for (size_t i = 0; field->names[i] != NULL; i++)
            if (strcmp(field->names[i], name) == 0) return true;
        return unknown_name(c, path, name, nearest_in_list(name, field->names), field->names);
    }
    if (field->folder == NULL || strchr(name, '/') != NULL || text_is_given(c, path, name) ||
        strcmp(name, "none") == 0)
        return true;
    const char *folder = arena_format(c->arena, "%s/%s", c->options->directory, field->folder);
    if (access(arena_format(c->arena, "%s/%s.json", folder, name), F_OK) == 0) return true;
    return unknown_name(c, path, name, nearest_file(c->arena, folder, name), NULL);
}

static void check_use(void *context, const struct condition_use *use) {
    struct where_check *c = context;
    if (!c->ok) return;
    struct where_field field = { .slot = -1 };
    if (use->path == NULL) {
        refuse(c, NULL, "\"%s\" is a text where only a number makes sense", use->text);
        return;
    }
    if (!find_path(c, use->path, &field)) return;
    const bool is_text = field.kind == WHERE_TEXT || field.kind == WHERE_NAME;
    if (use->kind == CONDITION_IS_NUMBER && is_text)
        refuse(c, NULL, "\"%s\" is a text, not a number", use->path);
    else if (use->kind != CONDITION_IS_ANY && use->kind != CONDITION_IS_LIST &&
             field.kind == WHERE_LIST)
        refuse(c,
               arena_format(c->arena, "\"%s\" in %s",
                            use->text != NULL ? use->text : field.names[0], use->path),
               "\"%s\" is a list", use->path);
    else if (use->kind == CONDITION_IS_TEXT && field.kind == WHERE_NUMBER)
        refuse(c, "write the number without quotes", "\"%s\" is never a text", use->path);
    else if (use->text != NULL && (is_text || field.names != NULL))
        check_name(c, use->path, &field, use->text);
}

bool sweep_where_check(const struct sweep_file *file, const struct scenario_options *options,
                       struct error *err) {
    struct where_check c = {
        .file = file, .options = options, .arena = arena_create(), .err = err, .ok = true
    };
    const cJSON *where = cJSON_GetObjectItemCaseSensitive(json_root(file->json), "where");
    for (int64_t i = 0; c.ok && i < file->condition_count; i++) {
        c.node = cJSON_GetArrayItem(where, (int)i);
        c.text = condition_text(file->conditions[i]);
        condition_for_each_field(file->conditions[i], check_use, &c);
    }
    arena_destroy(c.arena);
    return c.ok;
}
