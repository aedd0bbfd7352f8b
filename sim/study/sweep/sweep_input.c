/* sweep_input.c - what the answers rest on must be what it was when the sweep was begun: data sets
 * by their samples, models by their sizes and work, hardware by the identity of its profile. */
#include <string.h>
#include "sim/study/run_inputs.h"
#include "sim/study/sweep/sweep_race.h"

int sweep_input_name_length(const char *name) {
    const char *settings = strstr(name, " {\"");
    return (int)(settings != NULL ? (size_t)(settings - name) : strlen(name));
}

bool sweep_input_check(struct sweep_run *run, const char *kind, const char *name,
                       const char *fingerprint, struct error *err) {
    for (int64_t i = 0; i < run->input_count; i++) {
        const struct sweep_input_record *input = &run->inputs[i];
        if (strcmp(input->kind, kind) != 0 || strcmp(input->name, name) != 0) continue;
        if (strcmp(input->fingerprint, fingerprint) == 0) return true;
        error_set(err, "%s \"%.*s\" has changed since sweep \"%s\" was begun", kind,
                  sweep_input_name_length(name), name, run->sweep->file->name);
        return error_hint(err, "give the sweep another \"name\", or use another database");
    }
    struct arena *arena = run->sweep->arena;
    struct sweep_input_record *grown =
        arena_array(arena, struct sweep_input_record, run->input_count + 1);
    if (run->input_count > 0) memcpy(grown, run->inputs, sizeof *grown * (size_t)run->input_count);
    grown[run->input_count] =
        (struct sweep_input_record){ arena_text(arena, kind), arena_text(arena, name),
                                     arena_text(arena, fingerprint) };
    run->inputs = grown;
    const struct sweep_input_record *input = &run->inputs[run->input_count++];
    return run->options->store == NULL ||
           store_add_sweep_inputs(run->options->store, input, 1, err);
}

static const char *model_fingerprint(struct arena *arena, const struct model *m) {
    struct batch_shape probe = { .samples = 1,
                                 .vision_tiles = 1,
                                 .vision_tokens = 1024,
                                 .vision_square_sum = 1e6,
                                 .connector_tokens = 256,
                                 .language_tokens = 4096,
                                 .language_square_sum = 1e7,
                                 .useful_language_tokens = 4096,
                                 .video_clips = 1,
                                 .video_tokens = 2048,
                                 .video_square_sum = 4e6,
                                 .cross_square_sum = 1e6 };
    double flop = 0;
    for (int64_t i = 0; i < m->layer_count; i++)
        flop += model_layer_flop(m, i, &probe);
    return arena_format(arena, "%ld layers, %ld parameters, %.10g FLOP", (long)m->layer_count,
                        (long)model_parameters(m), flop);
}

/* What its file gives where the sweep says nothing else. */
static const char *cluster_fingerprint(struct arena *arena, const struct cluster_preset *c) {
    const struct cluster_network *n = &c->network;
    return arena_format(
        arena, "%s, %ld of %ld, %.10g B/s %.10g s %ld NICs %.10g %s mesh %ld, %.10g B %ld",
        c->hardware, (long)c->gpu_count, (long)n->gpus_per_node, n->nic_bytes_per_s_per_gpu,
        n->nic_latency_s, (long)n->nics_per_node, n->nic_efficiency_fraction,
        n->fabric != NULL ? n->fabric : "", (long)n->nvlink_mesh_gpus,
        c->host_memory_bytes_per_node, (long)c->gpus_per_host_link);
}

/* A stack's factors are those of a GPU and a precision, and of models that write text or none. */
static const char *stack_place(struct arena *arena, const struct scenario *s) {
    const char *precision = precision_name(s->main_precision);
    return arena_format(arena, "%s on %s%s%s%s", s->stack != NULL ? s->stack->name : "none",
                        s->cluster_fields.hardware,
                        s->main_precision != PRECISION_BF16 ? " in " : "",
                        s->main_precision != PRECISION_BF16 ? precision : "",
                        model_writes_text(s->model) ? "" : " for encoders and diffusion");
}

bool sweep_inputs_check(struct sweep_run *run, struct error *err) {
    const void *last_model = NULL, *last_cost = NULL;
    struct arena *scratch = arena_create();
    bool ok = true;
    for (int64_t i = run->mine_begin; ok && i < run->mine_end; i++) {
        const struct sweep_item *item = &run->items[i];
        if (!sweep_item_is_live(item)) continue;
        const struct scenario *s = item->scenario;
        if (!item->data->checked && item->data->job != NULL)
            ok =
                sweep_input_check(run, "data set",
                                  arena_format(scratch, "%s %s", s->dataset_fields.name,
                                               item->data->key + strcspn(item->data->key, " ") + 1),
                                  run_inputs_data(scratch, item->data->job->dataset), err);
        item->data->checked = ok;
        if (ok && s->model->layers != last_model)
            ok = sweep_input_check(run, "model", s->model->name,
                                   model_fingerprint(scratch, s->model), err);
        if (ok && s->cost_model != last_cost)
            ok = sweep_input_check(run, "hardware", s->cluster_fields.hardware,
                                   cost_model_profile_id(s->cost_model), err) &&
                 sweep_input_check(run, "stack", stack_place(scratch, s),
                                   cost_model_stack_id(s->cost_model, scratch), err);
        if (ok && s->cluster != NULL)
            ok = sweep_input_check(run, "cluster", s->cluster_fields.name,
                                   cluster_fingerprint(scratch, s->cluster), err);
        last_model = s->model->layers;
        last_cost = s->cost_model;
    }
    arena_destroy(scratch);
    return ok;
}
