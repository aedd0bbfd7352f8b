/* scenario_policies.c - the section `policy`: names looked up in their tables, with parameters. */
#include <string.h>
#include "sim/scenario/scenario_reader.h"

static const char *batching_name(const void *list, size_t index) {
    return ((const struct batching_policy *const *)list)[index]->name;
}

static const char *schedule_name(const void *list, size_t index) {
    return ((const struct schedule_policy *const *)list)[index]->name;
}

/* Reads "name" or {"name": ..., parameters}; *row is left NULL when the name is unknown. */
static bool policy_node(struct reader *r, const char *slot, const cJSON *node, const char *fallback,
                        struct policy_choice *choice, const cJSON **name_node) {
    struct scenario *s = r->s;
    *name_node = node;
    if (node == NULL) {
        choice->name = fallback;
        return true;
    }
    if (cJSON_IsObject(node)) {
        *name_node = cJSON_GetObjectItemCaseSensitive(node, "name");
        if (*name_node == NULL)
            return json_error(s->json, node, r->err,
                              arena_format(s->arena,
                                           "say which: --set policy.%s.name=..., or "
                                           "{\"name\": ...} with its parameters beside it",
                                           slot),
                              "\"name\" is missing from the %s policy", slot);
    }
    if (!cJSON_IsString(*name_node))
        return json_error(s->json, *name_node, r->err, NULL,
                          "a %s policy is a name, or an object with a name", slot);
    choice->name = (*name_node)->valuestring;
    return true;
}

/* Parameters are every key but "name". */
static bool policy_parameters(struct reader *r, const cJSON *node, size_t size,
                              struct policy_choice *choice) {
    struct scenario *s = r->s;
    bool object = cJSON_IsObject(node);
    if (choice->table == NULL) {
        if (object && cJSON_GetArraySize(node) > 1) {
            const cJSON *extra = node->child;
            while (strcmp(extra->string, "name") == 0)
                extra = extra->next;
            return json_error(s->json, extra, r->err, NULL, "policy \"%s\" has no parameters",
                              choice->name);
        }
        return true;
    }
    for (size_t i = 0; !object && i < choice->table->count; i++) {
        const struct field *field = &choice->table->fields[i];
        if (field->fallback != NULL) continue;
        const char *hint = arena_format(s->arena, "write {\"name\": \"%s\", \"%s\": ...}: %s",
                                        choice->name, field->name, field->help);
        return json_error(s->json, node, r->err, hint, "policy \"%s\" needs \"%s\"", choice->name,
                          field->name);
    }
    choice->parameters = arena_alloc(s->arena, size);
    return field_table_read_beside(choice->table, s->json, object ? node : NULL, "name",
                                   choice->parameters, s->arena, r->err);
}

static bool unknown_policy(struct reader *r, const char *slot, const cJSON *node, const char *name,
                           const char *hint) {
    return json_error(r->s->json, node, r->err, hint, "unknown %s policy \"%s\"", slot, name);
}

static const struct planner_preset *preset_of(const struct scenario *s) {
    static const struct planner_preset none = { 0 };
    const struct planner *joint = s->joint.row;
    return joint != NULL && joint->preset != NULL ? joint->preset : &none;
}

/* Without a policy of the scenario's own, that of the joint policy, else the default. *decided: the
 * joint policy fills the slot itself, so the scenario must not. */
static bool preset_slot(struct reader *r, const char *slot, const cJSON *node, const char *preset,
                        const char **fallback, struct policy_choice *choice, bool *decided) {
    *decided = preset != NULL && strcmp(preset, PLANNER_ITSELF) == 0;
    if (!*decided) {
        if (preset != NULL) *fallback = preset;
        return true;
    }
    choice->name = r->s->joint.name;
    return node == NULL ||
           json_error(r->s->json, node, r->err, "leave it out",
                      "the joint policy \"%s\" decides the %s itself", r->s->joint.name, slot);
}

bool scenario_read_batching(struct reader *r) {
    r->rule = NULL;
    struct policy_choice *choice = &r->s->batching;
    const char *preset = preset_of(r->s)->batching;
    const cJSON *node = scenario_present(r->policy.batching), *name_node;
    if (!policy_node(r, "batching", node, preset != NULL ? preset : "random", choice, &name_node))
        return false;
    const struct batching_policy *row = batching_policy_find(choice->name);
    if (row == NULL) {
        size_t count;
        const struct batching_policy *const *list = batching_policies(&count);
        return unknown_policy(r, "batching", name_node, choice->name,
                              nearest_hint(r->s->arena, choice->name, count, batching_name, list));
    }
    choice->row = row;
    choice->table = row->parameters;
    return policy_parameters(r, node, row->parameters_size, choice);
}

bool scenario_read_schedule(struct reader *r) {
    r->rule = NULL;
    struct policy_choice *choice = &r->s->schedule;
    const cJSON *node = scenario_present(r->policy.schedule), *name_node;
    const char *fallback = r->s->layout_fields.vpp > 1 ? "interleaved" : "1f1b";
    bool decided;
    if (!preset_slot(r, "schedule", node, preset_of(r->s)->schedule, &fallback, choice, &decided))
        return false;
    if (decided) return true;
    if (!policy_node(r, "schedule", node, fallback, choice, &name_node)) return false;
    choice->row = schedule_policy_find(choice->name);
    if (choice->row == NULL) {
        size_t count;
        const struct schedule_policy *const *list = schedule_policies(&count);
        return unknown_policy(r, "schedule", name_node, choice->name,
                              nearest_hint(r->s->arena, choice->name, count, schedule_name, list));
    }
    return policy_parameters(r, node, 0, choice);
}

static bool read_planner(struct reader *r, enum planner_slot slot, const cJSON *node,
                         const char *fallback, struct policy_choice *choice) {
    const struct planner_preset *presets = preset_of(r->s);
    const char *preset = slot == PLANNER_PARTITION   ? presets->partition
                         : slot == PLANNER_RECOMPUTE ? presets->recompute
                                                     : NULL;
    const cJSON *name_node;
    bool decided;
    r->rule = NULL;
    node = scenario_present(node);
    if (!preset_slot(r, planner_slot_name(slot), node, preset, &fallback, choice, &decided))
        return false;
    if (decided) return true;
    if (!policy_node(r, planner_slot_name(slot), node, fallback, choice, &name_node)) return false;
    const struct planner *row = planner_find(slot, choice->name);
    if (row == NULL)
        return unknown_policy(r, planner_slot_name(slot), name_node, choice->name,
                              planner_hint(r->s->arena, slot, choice->name));
    choice->row = row;
    choice->table = row->parameters;
    if (!policy_parameters(r, node, row->parameters_size, choice)) return false;
    r->rule = slot == PLANNER_PARTITION ? "partition-policy" : "recompute-policy";
    struct error reason = { 0 };
    if (row->check != NULL && !row->check(r->s->model, r->s->layout.pp * r->s->layout_fields.vpp,
                                          choice->parameters, &reason))
        return json_error(r->s->json, node, r->err, NULL, "%s", reason.text);
    return true;
}

bool scenario_read_partition(struct reader *r) {
    const char *usual = r->s->stack != NULL ? r->s->stack->partition : "layer";
    if (read_planner(r, PLANNER_PARTITION, r->policy.partition, usual, &r->s->partition))
        return true;
    if (r->s->stack != NULL && scenario_present(r->policy.partition) == NULL &&
        strcmp(usual, "layer") != 0)
        error_context(r->err, "while taking \"partition\" from stack '%s'", r->s->stack->name);
    return false;
}

bool scenario_read_recompute(struct reader *r) {
    return read_planner(r, PLANNER_RECOMPUTE, r->policy.recompute, "none", &r->s->recompute);
}

bool scenario_read_joint(struct reader *r) {
    if (scenario_present(r->policy.joint) == NULL) return true;
    return read_planner(r, PLANNER_JOINT, r->policy.joint, NULL, &r->s->joint);
}
