/* modules.c - all blocks of the modules that the scenario lists: an encoder and a language model of
 * Transformers have a switch of their own each (gradient_checkpointing_enable()). */
#include "sim/policy/recompute/recompute.h"

#include <string.h>

struct modules_parameters {
    const cJSON *modules;
};

static const struct field modules_fields[] = {
    { "modules", FIELD_NODE, offsetof(struct modules_parameters, modules), 0, 0, NULL, "",
      "list of modules whose blocks recompute, for example [\"language\"]", NULL },
};
static const struct field_table modules_table =
    FIELD_TABLE("modules", "all blocks of the listed modules", modules_fields);

/* -1: no such module, or one without blocks. */
static int role_of(const struct model *model, const cJSON *item) {
    for (int64_t i = 0; cJSON_IsString(item) && i < model->layer_count; i++) {
        const int role = model->layers[i].module_index;
        if (layer_kind_is_block(model->layers[i].kind) &&
            strcmp(module_role_name((enum module_role)role), item->valuestring) == 0)
            return role;
    }
    return -1;
}

static bool modules_check(const struct model *model, int64_t stage_count, const void *parameters,
                          struct error *err) {
    (void)stage_count;
    const struct modules_parameters *p = parameters;
    if (!cJSON_IsArray(p->modules))
        return error_set(err, "modules must be a list, for example [\"language\"]");
    if (cJSON_GetArraySize(p->modules) == 0)
        return error_set(err, "an empty list of modules recomputes nothing: say \"none\"");
    const cJSON *item;
    cJSON_ArrayForEach(item, p->modules)
        if (role_of(model, item) < 0)
            return error_set(err, "model \"%s\" has no blocks in a module \"%s\"", model->name,
                             cJSON_IsString(item) ? item->valuestring : "?");
    return true;
}

static bool modules_plan(const struct planner_oracle *oracle, const void *parameters,
                         struct job_plan *plan, struct error *err) {
    (void)err;
    const struct modules_parameters *p = parameters;
    const struct model *model = oracle->model;
    for (int64_t i = 0; i < model->layer_count; i++) {
        plan->recompute[i] = RECOMPUTE_NONE;
        const cJSON *item;
        cJSON_ArrayForEach(item, p->modules)
            if (layer_kind_is_block(model->layers[i].kind) &&
                role_of(model, item) == model->layers[i].module_index)
                plan->recompute[i] = RECOMPUTE_FULL;
    }
    return true;
}

const struct planner recompute_modules = {
    .name = "modules",
    .help = "every block of the listed modules keeps its input only",
    .slot = PLANNER_RECOMPUTE,
    .parameters = &modules_table,
    .parameters_size = sizeof(struct modules_parameters),
    .check = modules_check,
    .plan_job = modules_plan,
};
