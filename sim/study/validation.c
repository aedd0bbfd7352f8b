/* validation.c - a measured row becomes a scenario of its own: an inline model, samples of one length.
 *
 * Defaults of empty cells: recompute none (full for jax-fsdp), dp what is left of the GPUs, ZeRO-1 for the
 * Megatron family and 3 for FSDP stacks, sequence parallel with TP for Megatron-core stacks, 200 Gbit/s
 * a GPU for A100 and 400 for later ones. Text samples are all seq_len long.
 */
#include "sim/study/validation.h"

#include <gsl/gsl_sort.h>
#include <gsl/gsl_statistics_double.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>
#include "sim/base/units.h"

static const char *const skip_names[VALIDATION_SKIP_COUNT] = {
    [SKIP_NOTHING] = "",
    [SKIP_NO_MEASUREMENT] = "no step time and no memory was measured",
    [SKIP_OUT_OF_MEMORY_UNPLACED] = "the run did not fit and gives no layout to try",
    [SKIP_EXPERTS] = "mixture of experts is not simulated",
    [SKIP_MODALITY] = "the sample lengths of this modality are not given",
    [SKIP_HARDWARE] = "no hardware profile",
    [SKIP_SHAPE] = "the model's shape is not given",
    [SKIP_PRECISION] = "the precision is not simulated on this hardware",
    [SKIP_ATTENTION] = "this kind of attention is not simulated",
    [SKIP_RECOMPUTE] = "this kind of recomputation is not simulated",
    [SKIP_LAYOUT] = "the layout does not add up",
    [SKIP_BATCH] = "the batch does not add up",
    [SKIP_ADAPTER] = "adapters (LoRA) are not simulated",
};

const char *validation_skip_name(enum validation_skip skip) {
    return skip_names[skip];
}

static bool family(const struct measured_run *r, const char *word) {
    return strstr(r->stack, word) != NULL;
}

static bool is_fsdp(const struct measured_run *r) {
    return r->zero_stage == 3 || family(r, "fsdp");
}

static int64_t given(int64_t value, int64_t fallback) {
    return value >= 0 ? value : fallback;
}

struct layout_of_row {
    int64_t tp, pp, cp, dp, vpp, zero_stage, zero_group, micro_batch, global_batch;
    bool sp;
    const char *backend, *recompute, *attention;
    int64_t recompute_layers; /* of layers:N; -1 otherwise */
};

static enum validation_skip place_row(const struct measured_run *r, struct layout_of_row *l) {
    l->tp = given(r->tp, 1);
    l->pp = given(r->pp, 1);
    l->cp = given(r->cp, 1);
    l->vpp = l->pp > 1 ? given(r->vpp, 1) : 1;
    int64_t model_ranks = l->tp * l->pp * l->cp;
    if (r->gpu_count < 1 || model_ranks < 1 || r->gpu_count % model_ranks != 0) return SKIP_LAYOUT;
    l->dp = r->gpu_count / model_ranks;
    if (r->dp >= 0 && r->dp != l->dp) return SKIP_LAYOUT;
    l->zero_stage = given(r->zero_stage, is_fsdp(r) ? 3 : 1);
    if (l->zero_stage > 1 && l->pp > 1) return SKIP_LAYOUT;
    l->zero_group = r->zero_group > 0 && l->dp * l->cp % r->zero_group == 0 ? r->zero_group : -1;
    l->sp = r->sp >= 0 ? r->sp == 1 : l->tp > 1 && !family(r, "2021") && !family(r, "deepspeed");
    l->backend = l->pp == 1 && l->tp == 1 && is_fsdp(r) ? "fsdp"
                 : family(r, "deepspeed") || family(r, "easyllm")
                     ? (l->pp > 1 ? "megatron-deepspeed" : "deepspeed")
                     : "megatron-lm";
    l->micro_batch = given(r->micro_batch, 1);
    l->global_batch = r->global_batch > 0 ? r->global_batch
                      : r->grad_accum > 0 ? r->grad_accum * l->micro_batch * l->dp
                                          : -1;
    if (l->global_batch < 1 || l->global_batch % (l->micro_batch * l->dp) != 0) return SKIP_BATCH;
    l->recompute_layers = -1;
    l->recompute = r->recompute[0] != '\0' ? r->recompute : family(r, "jax-fsdp") ? "full" : "none";
    if (sscanf(l->recompute, "layers:%ld", (long *)&l->recompute_layers) == 1) {
        if (l->recompute_layers > r->layers) return SKIP_RECOMPUTE;
    } else if (strcmp(l->recompute, "full") != 0 && strcmp(l->recompute, "none") != 0 &&
               strcmp(l->recompute, "selective") != 0) {
        return SKIP_RECOMPUTE;
    }
    l->attention = r->attention[0] != '\0' ? r->attention : "flash";
    if (strcmp(l->attention, "flash") != 0 && strcmp(l->attention, "naive") != 0)
        return SKIP_ATTENTION;
    return SKIP_NOTHING;
}

static enum validation_skip check_row(const struct scenario_options *options,
                                      const struct measured_run *r, struct arena *arena,
                                      struct layout_of_row *l) {
    if (isnan(r->iter_time_s) && isnan(r->peak_mem_GiB) && strcmp(r->outcome, "oom") != 0)
        return SKIP_NO_MEASUREMENT;
    if (r->moe[0] != '\0') return SKIP_EXPERTS;
    if (strstr(r->notes, "LoRA") != NULL || strstr(r->notes, "lora") != NULL) return SKIP_ADAPTER;
    if (strcmp(r->modality, "text") != 0 && r->modality[0] != '\0') return SKIP_MODALITY;
    if (r->hardware[0] == '\0' ||
        access(arena_format(arena, "%s/hardware/%s.json", options->directory, r->hardware), R_OK) !=
            0)
        return SKIP_HARDWARE;
    if (r->layers < 1 || r->hidden < 1 || r->ffn_hidden < 1 || r->heads < 1 || r->vocab < 1 ||
        r->seq_len < 1)
        return SKIP_SHAPE;
    if (strcmp(r->precision, "fp4") == 0) return SKIP_PRECISION;
    return place_row(r, l);
}

/* The scenario as a JSON document. */
static cJSON *row_scenario(const struct measured_run *r, const struct layout_of_row *l) {
    cJSON *root = cJSON_CreateObject();
    cJSON_AddStringToObject(root, "name", r->row_id[0] != '\0' ? r->row_id : "measured run");

    cJSON *model = cJSON_AddObjectToObject(root, "model");
    cJSON_AddStringToObject(model, "name", r->model[0] != '\0' ? r->model : "measured model");
    cJSON *definition = cJSON_AddObjectToObject(model, "definition");
    cJSON_AddStringToObject(definition, "name", r->model[0] != '\0' ? r->model : "measured model");
    cJSON_AddStringToObject(definition, "source", "row of measured runs");
    cJSON *language = cJSON_AddObjectToObject(definition, "language");
    bool gpt = strcmp(r->ffn, "gelu") == 0;
    cJSON_AddStringToObject(language, "name", "measured model");
    cJSON_AddStringToObject(language, "role", "language");
    cJSON_AddNumberToObject(language, "layer_count", (double)r->layers);
    cJSON_AddNumberToObject(language, "hidden", (double)r->hidden);
    cJSON_AddNumberToObject(language, "ffn_hidden", (double)r->ffn_hidden);
    cJSON_AddNumberToObject(language, "heads", (double)r->heads);
    cJSON_AddNumberToObject(language, "kv_heads", (double)given(r->kv_heads, r->heads));
    cJSON_AddNumberToObject(language, "head_dim", (double)given(r->head_dim, r->hidden / r->heads));
    cJSON_AddStringToObject(language, "ffn", r->ffn[0] != '\0' ? r->ffn : "swiglu");
    cJSON_AddStringToObject(language, "norm", gpt ? "layer" : "rms");
    cJSON_AddStringToObject(language, "position", gpt ? "learned" : "rotary");
    if (gpt) cJSON_AddNumberToObject(language, "position_count", (double)r->seq_len);
    cJSON_AddBoolToObject(language, "tied_embeddings", gpt);
    /* GPTs before FlashAttention were trained with dropout, 0.1 by Megatron-LM's default. */
    cJSON_AddBoolToObject(language, "dropout", gpt && strcmp(l->attention, "naive") == 0);
    cJSON_AddNumberToObject(language, "vocabulary", (double)r->vocab);
    cJSON_AddStringToObject(language, "source", "row of measured runs");

    cJSON *dataset = cJSON_AddObjectToObject(root, "dataset");
    cJSON_AddStringToObject(dataset, "name", "fixed length");
    cJSON *samples = cJSON_AddObjectToObject(dataset, "definition");
    cJSON_AddStringToObject(samples, "name", "fixed length");
    cJSON_AddStringToObject(samples, "description", "text of one length");
    cJSON_AddStringToObject(samples, "kind", "distribution");
    cJSON_AddNumberToObject(samples, "sample_count", (double)l->global_batch);
    cJSON_AddNumberToObject(samples, "seed", 1);
    cJSON *tiles = cJSON_AddObjectToObject(samples, "vision_tiles");
    cJSON_AddStringToObject(tiles, "distribution", "constant");
    cJSON_AddNumberToObject(tiles, "value", 0);
    cJSON *tokens = cJSON_AddObjectToObject(samples, "language_tokens");
    cJSON_AddStringToObject(tokens, "distribution", "constant");
    cJSON_AddNumberToObject(tokens, "value", (double)r->seq_len);

    cJSON *cluster = cJSON_AddObjectToObject(root, "cluster");
    cJSON_AddStringToObject(cluster, "hardware", r->hardware);
    cJSON_AddNumberToObject(cluster, "gpu_count", (double)r->gpu_count);
    int64_t node = given(r->gpus_per_node, 8);
    cJSON_AddNumberToObject(cluster, "gpus_per_node",
                            (double)(node < r->gpu_count ? node : r->gpu_count));
    bool a100 = strncmp(r->hardware, "a100", 4) == 0 || strncmp(r->hardware, "a800", 4) == 0;
    cJSON_AddNumberToObject(cluster, "nic_Gbit_per_s_per_gpu",
                            !isnan(r->nic_Gbit_per_s_per_gpu) ? r->nic_Gbit_per_s_per_gpu
                            : a100                            ? 200
                                                              : 400);

    cJSON *layout = cJSON_AddObjectToObject(root, "layout");
    cJSON_AddStringToObject(layout, "backend", l->backend);
    cJSON_AddNumberToObject(layout, "tp", (double)l->tp);
    cJSON_AddBoolToObject(layout, "sp", l->sp);
    cJSON_AddNumberToObject(layout, "pp", (double)l->pp);
    cJSON_AddNumberToObject(layout, "vpp", (double)l->vpp);
    cJSON_AddNumberToObject(layout, "cp", (double)l->cp);
    cJSON_AddNumberToObject(layout, "dp", (double)l->dp);
    cJSON_AddNumberToObject(layout, "zero_stage", (double)l->zero_stage);
    if (l->zero_group > 0) cJSON_AddNumberToObject(layout, "zero_group", (double)l->zero_group);
    /* NeMo and Megatron-Bridge overlap both by default. */
    bool overlaps = family(r, "nemo") || family(r, "bridge") || family(r, "internevo");
    cJSON_AddBoolToObject(layout, "overlap_gradient_reduce", overlaps);
    cJSON_AddBoolToObject(layout, "overlap_parameter_gather", overlaps);

    cJSON *training = cJSON_AddObjectToObject(root, "training");
    cJSON *global = cJSON_AddObjectToObject(training, "global_batch"),
          *micro = cJSON_AddObjectToObject(training, "micro_batch");
    cJSON_AddNumberToObject(global, "samples", (double)l->global_batch);
    cJSON_AddNumberToObject(micro, "samples", (double)l->micro_batch);
    cJSON_AddStringToObject(training, "attention", l->attention);
    cJSON_AddStringToObject(training, "precision", r->precision[0] != '\0' ? r->precision : "bf16");

    cJSON *policy = cJSON_AddObjectToObject(root, "policy");
    if (l->recompute_layers >= 0) {
        cJSON *recompute = cJSON_AddObjectToObject(policy, "recompute");
        cJSON_AddStringToObject(recompute, "name", "uniform");
        /* The format counts layers of the model; a stage has its share. */
        cJSON_AddNumberToObject(
            recompute, "blocks_per_stage",
            (double)((l->recompute_layers + l->pp * l->vpp - 1) / (l->pp * l->vpp)));
    } else {
        cJSON_AddStringToObject(policy, "recompute", l->recompute);
    }
    return root;
}

static void predict(const struct scenario_options *options, const struct measured_run *r,
                    const struct layout_of_row *l, struct arena *arena,
                    struct validation_row *row) {
    cJSON *document = row_scenario(r, l);
    char *text = cJSON_PrintUnformatted(document);
    cJSON_Delete(document);
    struct error err = { 0 };
    struct json *json = json_parse(r->row_id, text, strlen(text), &err);
    cJSON_free(text);
    struct replay_options replay = { .fidelity = FIDELITY_STAGE, .threads = 1 };
    struct execution *e = json != NULL ? execution_run_json(options, json, &replay, &err) : NULL;
    if (e == NULL) {
        row->skip = strstr(err.text, "cannot compute in") != NULL ? SKIP_PRECISION : SKIP_LAYOUT;
        row->skip_detail = arena_text(arena, err.text);
        return;
    }
    const struct replay *p = e->replay;
    row->predicted_s = p->step_time_mean_s;
    row->relative_error = row->predicted_s / r->iter_time_s - 1;
    row->band_low_s = row->predicted_s * (1 - p->band_fraction);
    row->band_high_s = row->predicted_s * (1 + p->band_fraction);
    row->inside_range = p->inside_range;
    row->fits_predicted = p->verdict != VERDICT_OUT_OF_MEMORY;
    const struct stage_memory *peak = &p->stages[p->verdict_stage].peak;
    double bytes = strcmp(r->peak_mem_kind, "device") == 0     ? stage_memory_device(peak)
                   : strcmp(r->peak_mem_kind, "reserved") == 0 ? stage_memory_reserved(peak)
                                                               : stage_memory_allocated(peak);
    row->predicted_peak_GiB = bytes / BYTES_PER_GiB;
    row->memory_relative_error = row->predicted_peak_GiB / r->peak_mem_GiB - 1;
    execution_destroy(e);
}

/* ---- summaries ---- */

static void summarise(const struct validation *v, const char *source, struct validation_group *g) {
    *g = (struct validation_group){ .source = source };
    double *errors = memory_alloc(sizeof *errors * (size_t)(v->runs.count + 1));
    double covered = 0;
    for (int64_t i = 0; i < v->runs.count; i++) {
        const struct validation_row *row = &v->rows[i];
        if (source != NULL && strcmp(row->measured->source, source) != 0) continue;
        g->rows++;
        if (!isnan(row->memory_relative_error)) {
            g->memory_rows++;
            g->mean_abs_memory_error += fabs(row->memory_relative_error);
        }
        if (isnan(row->relative_error)) continue;
        errors[g->evaluated++] = fabs(row->relative_error);
        g->mean_abs_relative_error += fabs(row->relative_error);
        g->mean_signed_relative_error += row->relative_error;
        if (fabs(row->relative_error) > fabs(g->worst_relative_error))
            g->worst_relative_error = row->relative_error;
        double measured = row->measured->iter_time_s;
        covered += measured >= row->band_low_s && measured <= row->band_high_s;
    }
    if (g->memory_rows > 0) g->mean_abs_memory_error /= (double)g->memory_rows;
    if (g->evaluated > 0) {
        double n = (double)g->evaluated;
        g->mean_abs_relative_error /= n;
        g->mean_signed_relative_error /= n;
        g->band_coverage = covered / n;
        gsl_sort(errors, 1, (size_t)g->evaluated);
        g->median_abs_relative_error =
            gsl_stats_median_from_sorted_data(errors, 1, (size_t)g->evaluated);
        g->p90_abs_relative_error =
            gsl_stats_quantile_from_sorted_data(errors, 1, (size_t)g->evaluated, 0.9);
    }
    free(errors);
}

struct validation *validation_run(const struct scenario_options *options, const char *path,
                                  void (*progress)(void *context, int64_t done, int64_t total),
                                  void *progress_context, struct error *err) {
    struct arena *arena = arena_create();
    struct validation *v = arena_new(arena, struct validation);
    v->arena = arena;
    if (!measured_runs_read(arena, path, &v->runs, err)) {
        validation_destroy(v);
        return NULL;
    }
    v->rows = arena_array(arena, struct validation_row, v->runs.count);
    for (int64_t i = 0; i < v->runs.count; i++) {
        struct validation_row *row = &v->rows[i];
        *row = (struct validation_row){ .measured = &v->runs.rows[i],
                                        .predicted_s = NAN,
                                        .relative_error = NAN,
                                        .band_low_s = NAN,
                                        .band_high_s = NAN,
                                        .predicted_peak_GiB = NAN,
                                        .memory_relative_error = NAN };
        struct layout_of_row layout;
        row->skip = check_row(options, row->measured, arena, &layout);
        if (row->skip == SKIP_NOTHING) predict(options, row->measured, &layout, arena, row);
        if (row->skip == SKIP_NOTHING)
            v->confusion[strcmp(row->measured->outcome, "oom") != 0][row->fits_predicted]++;
        if (progress != NULL) progress(progress_context, i + 1, v->runs.count);
    }
    v->groups = arena_array(arena, struct validation_group, v->runs.count + 1);
    for (int64_t i = 0; i < v->runs.count; i++) {
        const char *source = v->rows[i].measured->source;
        bool known = false;
        for (int64_t k = 0; k < v->group_count && !known; k++)
            known = strcmp(v->groups[k].source, source) == 0;
        if (!known) summarise(v, source, &v->groups[v->group_count++]);
    }
    summarise(v, NULL, &v->all);
    return v;
}

void validation_destroy(struct validation *v) {
    if (v != NULL) arena_destroy(v->arena);
}
