/* scenario_model.c - section `model`: what a scenario changes of the model that it names.
 *
 * Models are shared by the scenarios of a sweep, so that the changes are made on a copy, whose
 * layers stay those of the file.
 */
#include <stdio.h>
#include <string.h>

#include "sim/scenario/scenario_reader.h"

enum { MOST_PIXELS = 100000 }; /* of a side, as model files have it */

static int role_by_name(const char *name) {
    for (int role = 0; role < MODULE_ROLE_COUNT; role++)
        if (strcmp(module_role_name((enum module_role)role), name) == 0) return role;
    return -1;
}

static int role_of_node(struct reader *r, const cJSON *node, const char *name) {
    int role = role_by_name(name);
    if (role < 0)
        json_error(r->s->json, node, r->err, "one of: " MODULE_ROLE_LIST, "unknown module \"%s\"",
                   name);
    else if (r->s->model->modules[role].layer_count == 0) {
        json_error(r->s->json, node, r->err, NULL, "model \"%s\" has no module \"%s\"",
                   r->s->model->name, name);
        role = -1;
    }
    return role;
}

static const char *all_precisions(struct arena *arena) {
    const char *text = "one of:";
    for (int p = 0; p < PRECISION_COUNT; p++)
        text = arena_format(arena, "%s%s %s", text, p > 0 ? "," : "", precision_names[p]);
    return text;
}

int scenario_precision_named(const cJSON *name) {
    int p = PRECISION_COUNT - 1;
    while (p >= 0 && !(cJSON_IsString(name) &&
                       strcmp(precision_name((enum precision)p), name->valuestring) == 0))
        p--;
    return p;
}

/* "1280x720", width first. */
static bool read_frame_size(const char *text, long side[2]) {
    int end = -1;
    return text[strspn(text, "0123456789x")] == '\0' && /* no blanks, no signs */
           sscanf(text, "%6ldx%6ld%n", &side[0], &side[1], &end) == 2 && text[end] == '\0' &&
           side[0] >= 1 && side[1] >= 1 && side[0] <= MOST_PIXELS && side[1] <= MOST_PIXELS;
}

static bool apply_frame_size(struct reader *r, struct model *model) {
    struct scenario *s = r->s;
    const char *text = s->model_fields.frame_size;
    if (text == NULL) return true;
    const cJSON *node = scenario_member(r->top.model, "frame_size");
    struct module *m = &model->modules[MODULE_DIFFUSION_DECODER];
    if (m->layer_count == 0)
        return json_error(s->json, node, r->err, "an encoder's tiles are of its model file's size",
                          "frame_size is of a diffusion decoder, and model \"%s\" has none",
                          model->name);
    long side[2];
    if (!read_frame_size(text, side))
        return json_error(s->json, node, r->err,
                          "width and height in pixels, for example \"1280x720\"",
                          "\"%s\" is no size of a frame", text);
    const int64_t step = m->latent_pixels * m->patch_size;
    for (int i = 0; i < 2; i++)
        if (side[i] % step != 0)
            return json_error(s->json, node, r->err, NULL,
                              "%s %ld is no multiple of latent_pixels x patch_size (%lld)",
                              i == 0 ? "width" : "height", side[i], (long long)step);
    m->image_size = side[0];
    m->image_height = side[1];
    return true;
}

bool scenario_apply_model(struct reader *r) {
    struct scenario *s = r->s;
    r->rule = NULL;
    struct model *model = arena_new(s->arena, struct model);
    *model = *s->model;
    s->model = model;
    model->input_gradients = s->model_fields.input_gradients;
    for (int role = 0; role < MODULE_ROLE_COUNT; role++)
        model->modules[role].precision = (enum precision)s->training_fields.precision;

    const cJSON *frozen = scenario_present(s->model_fields.frozen), *item;
    if (frozen != NULL && !cJSON_IsArray(frozen))
        return json_error(s->json, frozen, r->err, "for example [\"vision\"]",
                          "must be a list of modules");
    cJSON_ArrayForEach(item, frozen) {
        if (!cJSON_IsString(item))
            return json_error(s->json, item, r->err, "one of: " MODULE_ROLE_LIST,
                              "must be the name of a module");
        int role = role_of_node(r, item, item->valuestring);
        if (role < 0) return false;
        model->modules[role].frozen = true;
    }
    if (!apply_frame_size(r, model) || !scenario_apply_lora(r, model)) return false;
    const cJSON *precision = scenario_present(s->model_fields.precision);
    if (precision != NULL && !cJSON_IsObject(precision))
        return json_error(s->json, precision, r->err, "for example {\"vision\": \"fp8\"}",
                          "must be an object of module and precision");
    cJSON_ArrayForEach(item, precision) {
        int role = role_of_node(r, item, item->string);
        if (role < 0) return false;
        const int found = scenario_precision_named(item);
        if (found < 0)
            return json_error(s->json, item, r->err, all_precisions(s->arena),
                              cJSON_IsString(item) ? "unknown precision \"%s\""
                                                   : "must be the name of a precision",
                              item->valuestring);
        model->modules[role].precision = (enum precision)found;
        r->precision_nodes[role] = item;
    }
    bool trainable = false;
    for (int64_t i = 0; i < model->layer_count; i++)
        trainable = trainable || model_layer_trained_parameters(model, i) > 0;
    if (!trainable)
        return json_error(s->json, frozen, r->err, NULL,
                          "every module is frozen: nothing is left to train");
    return true;
}
