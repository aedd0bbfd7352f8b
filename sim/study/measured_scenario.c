/* measured_scenario.c - checks a row, completes it, and writes the scenario that simulates it.
 *
 * The stack decides what its source leaves out: the backend, recomputation, sequence parallelism,
 * which data-parallel traffic is hidden. A stack that has no file stands for the nearest of its
 * family (stack_find()), else for one that runs such a layout; both are noted and widen the band.
 * Text samples are all seq_len long. Samples of images and text whose length the source gives as a
 * limit only ("2048 max") are those of a shipped data set, padded to the longest of their
 * micro-batch: LLaVA's image-caption pairs while the language model is frozen, its instructions
 * otherwise. Trainers deal them at random; LLaVA groups instructions by modality and length.
 */
#include "sim/study/measured_scenario.h"

#include <ctype.h>
#include <dirent.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>
#include "costmodel/hardware.h"
#include "costmodel/step_band.h"
#include "sim/model/model.h"

static const char *const skip_names[VALIDATION_SKIP_COUNT] = {
    [SKIP_NOTHING] = "",
    [SKIP_NO_MEASUREMENT] = "no step time and no memory was measured",
    [SKIP_EXPERTS] = "mixture of experts is not simulated",
    [SKIP_ARCHITECTURE] = "layers that are not a transformer's are not simulated",
    [SKIP_MODALITY] = "the modality is not simulated",
    [SKIP_HARDWARE] = "no hardware profile",
    [SKIP_SHAPE] = "the model's shape is not given",
    [SKIP_PRECISION] = "the precision is not simulated on this hardware",
    [SKIP_ATTENTION] = "this kind of attention is not simulated",
    [SKIP_RECOMPUTE] = "this kind of recomputation is not simulated",
    [SKIP_LAYOUT] = "the layout does not add up",
    [SKIP_BATCH] = "the batch does not add up",
    [SKIP_ADAPTER] = "adapters (LoRA) are not simulated",
    [SKIP_VALUE] = "a value that cannot be",
    [SKIP_VISION] = "the vision encoder is not known",
    [SKIP_FEED_FORWARD] = "this kind of feed-forward layer is not simulated",
};

const char *validation_skip_name(enum validation_skip skip) {
    return skip_names[skip];
}

/* What names that tell nothing stand for: stack_of_layout(). */
static const char *const fallback_stacks[] = { "hf-deepspeed", "hf-fsdp", "torchtitan",
                                               "megatron-2022", "megatron-core" };

static const struct stack *stack_named(const struct stack_list *list, const char *name) {
    for (int64_t i = 0; i < list->count; i++)
        if (strcmp(list->stacks[i]->name, name) == 0) return list->stacks[i];
    return NULL;
}

static bool read_bands(struct measured_context *context, struct error *err) {
    const char *path = arena_format(context->arena, "%s/bands.json", context->directory);
    struct step_bands *bands = arena_new(context->arena, struct step_bands);
    context->unknown_stack_factor = 1;
    if (access(path, R_OK) != 0) return true;
    struct json *json = json_load(path, err);
    const bool ok = json != NULL && step_bands_read(context->arena, json, bands, err);
    json_destroy(json);
    if (!ok) return false;
    context->bands = bands;
    context->unknown_stack_factor = bands->unknown_stack_factor;
    return true;
}

bool measured_context_make(struct measured_context *context, struct arena *arena,
                           const char *directory, struct error *err) {
    *context = (struct measured_context){ .arena = arena, .directory = directory };
    if (!stack_load_all(arena, directory, &context->stacks, err) || !read_bands(context, err))
        return false;
    for (size_t i = 0; i < sizeof fallback_stacks / sizeof fallback_stacks[0]; i++)
        if (stack_named(&context->stacks, fallback_stacks[i]) == NULL)
            return error_set(err,
                             "%s/stacks has no %s.json, which stands for stacks that are not known",
                             directory, fallback_stacks[i]);
    return true;
}

static int64_t given(int64_t value, int64_t fallback) {
    return value >= 0 ? value : fallback;
}

struct row {
    const struct measured_context *context;
    struct measured_run run; /* completed */
    struct measured_scenario *out;
    int64_t note_count;
    int64_t tp, pp, cp, dp, vpp, zero_stage, zero_group, micro_batch, global_batch;
    bool sp;
    const char *backend, *recompute, *attention;
    int64_t recompute_layers;       /* of layers:N; -1 otherwise */
    const char *vision;             /* its module; NULL: text alone */
    int64_t tiles, language_tokens; /* of a sample, where all are alike */
    const char *dataset;            /* a shipped one; NULL: samples of one length */
    bool by_modality;               /* its batches are LLaVA's */
};

static void note(struct row *row, const char *text) {
    if (row->note_count < MEASURED_NOTE_LIMIT) row->out->notes[row->note_count++] = text;
}

/* The row is skipped for what stands in this cell. */
static enum validation_skip skip_at(struct row *row, enum validation_skip skip, const char *column,
                                    const char *why) {
    row->out->skip_detail =
        arena_format(row->context->arena, "line %ld, %s: %s", (long)row->run.line, column, why);
    return skip;
}

static enum validation_skip skip_text(struct row *row, enum validation_skip skip,
                                      const char *column, const char *text) {
    return skip_at(row, skip, column, arena_format(row->context->arena, "got \"%.60s\"", text));
}

/* ---- stack ---- */

/* Whether a stack's name states a year, and none after `last`. */
static bool named_until(const char *stack, int64_t last) {
    const int64_t year = stack_name_year(stack);
    return year > 0 && year <= last;
}

/* For names that tell nothing. PyTorch compiles since March 2023 (2.0): what shards parameters and
 * names a year up to then is eager. */
static const char *stack_of_layout(const struct measured_run *r) {
    if (strstr(r->modality, "vision") != NULL) return "hf-deepspeed";
    if (r->zero_stage == 3 && given(r->tp, 1) == 1)
        return named_until(r->stack, 2023) ? "hf-fsdp" : "torchtitan";
    return named_until(r->stack, 2022) ? "megatron-2022" : "megatron-core";
}

static void choose_stack(struct row *row) {
    const struct measured_run *r = &row->run;
    const struct stack_list *list = &row->context->stacks;
    bool exact = false;
    const struct stack *stack = r->stack[0] != '\0' ? stack_find(list, r->stack, &exact) : NULL;
    row->out->known_stack = stack != NULL;
    if (stack == NULL) stack = stack_named(list, stack_of_layout(r));
    row->out->stack = stack;
    row->out->exact_stack = exact;
    if (!exact)
        note(row, arena_format(row->context->arena, "stack \"%s\" is not known: taken for %s",
                               r->stack, stack->name));
}

/* ---- hardware ---- */

static bool same_letters(const char *a, const char *b, size_t count) {
    for (size_t i = 0; i < count; i++)
        if (tolower((unsigned char)a[i]) != tolower((unsigned char)b[i])) return false;
    return true;
}

/* Parts between dashes that both names have. */
static int64_t shared_parts(const char *wanted, const char *name) {
    int64_t shared = 0;
    for (const char *part = wanted; part != NULL; part = strchr(part, '-')) {
        part += *part == '-';
        const size_t length = strcspn(part, "-");
        for (const char *other = name; other != NULL; other = strchr(other, '-')) {
            other += *other == '-';
            shared +=
                length > 0 && strcspn(other, "-") == length && same_letters(part, other, length);
        }
    }
    return shared;
}

/* "b200-sxm" is b200-180g-sxm: the same first part, and of those the most parts in common. */
static const char *hardware_file(const struct measured_context *context, const char *wanted) {
    const size_t first = strcspn(wanted, "-");
    const char *best = NULL;
    int64_t best_shared = 0;
    DIR *directory = opendir(arena_format(context->arena, "%s/hardware", context->directory));
    struct dirent *entry;
    while (first > 0 && directory != NULL && (entry = readdir(directory)) != NULL) {
        const size_t length = strlen(entry->d_name);
        if (length < 6 || strcmp(entry->d_name + length - 5, ".json") != 0) continue;
        const char *name = arena_format(context->arena, "%.*s", (int)(length - 5), entry->d_name);
        if (strcspn(name, "-") != first || !same_letters(wanted, name, first)) continue;
        const int64_t shared = shared_parts(wanted, name);
        if (best != NULL &&
            (shared < best_shared || (shared == best_shared && strcmp(name, best) > 0)))
            continue;
        best = name;
        best_shared = shared;
    }
    if (directory != NULL) closedir(directory);
    return best;
}

static bool choose_hardware(struct row *row) {
    const char *wanted = row->run.hardware;
    if (wanted[0] == '\0' && row->out->stack->hardware != NULL) {
        wanted = row->out->stack->hardware;
        note(row, arena_format(row->context->arena,
                               "the source names no GPU: %s, as its stack says", wanted));
    }
    row->out->hardware = hardware_file(row->context, wanted);
    if (row->out->hardware == NULL) return false;
    if (row->run.hardware[0] != '\0' && strcmp(row->out->hardware, wanted) != 0)
        note(row, arena_format(row->context->arena, "hardware %s is the profile %s", wanted,
                               row->out->hardware));
    return true;
}

/* ---- samples ---- */

/* Mean text of a sample of several tiles where the source gives the longest only: captions of the
 * shipped coco-captions, and instructions with answers of llava-instruct-10k. */
enum { CAPTION_TOKENS = 24, INSTRUCTION_TOKENS = 146 };

/* Steps of a shipped data set: enough for the mean step within 1 %. */
enum { DATASET_STEPS = 500 };

/* One image, one tile, and only the longest sample known. */
static void draw_samples(struct row *row, bool captions) {
    const struct measured_run *r = &row->run;
    row->dataset = captions ? "lcs-558k-one-tile" : "llava-665k";
    /* scripts/v1_5 of haotian-liu/LLaVA: group_by_modality_length in finetune.sh alone */
    row->by_modality =
        !captions && (strstr(r->model, "LLaVA") != NULL || strstr(r->model, "llava") != NULL);
    note(row, arena_format(row->context->arena,
                           "samples of %s, padded to the longest of their micro-batch%s",
                           row->dataset, row->by_modality ? "; grouped as LLaVA does" : ""));
}

static int by_name(const struct dirent **a, const struct dirent **b) {
    return strcmp((*a)->d_name, (*b)->d_name);
}

/* The shipped encoders that cut images into tiles, by name. */
static const char *encoder_names(const struct measured_context *context) {
    struct arena *arena = context->arena;
    const char *folder = arena_format(arena, "%s/models/modules", context->directory), *list = "";
    struct dirent **entries = NULL;
    const int count = scandir(folder, &entries, NULL, by_name);
    for (int i = 0; i < count; i++) {
        const char *file = entries[i]->d_name;
        const size_t length = strlen(file);
        struct error ignored = { 0 };
        struct json *json = length > 5 && strcmp(file + length - 5, ".json") == 0
                                ? json_load(arena_format(arena, "%s/%s", folder, file), &ignored)
                                : NULL;
        const cJSON *module = json != NULL ? json_root(json) : NULL;
        const char *role = cJSON_GetStringValue(cJSON_GetObjectItem(module, "role"));
        if (role != NULL && strcmp(role, "vision") == 0 &&
            cJSON_GetNumberValue(cJSON_GetObjectItem(module, "image_size")) >= 1)
            list = arena_format(arena, "%s%s%.*s", list, list[0] != '\0' ? ", " : "",
                                (int)(length - 5), file);
        json_destroy(json);
        free(entries[i]);
    }
    free(entries);
    return list;
}

static bool choose_samples(struct row *row) {
    const struct measured_run *r = &row->run;
    struct arena *arena = row->context->arena;
    row->language_tokens = r->seq_len;
    if (strcmp(r->modality, "vision+text") != 0) return true;
    const char *name = r->vision_model;
    const char *path =
        arena_format(arena, "%s/models/modules/%s.json", row->context->directory, name);
    struct error ignored = { 0 };
    if (name[0] == '\0' || strchr(name, '/') != NULL || access(path, R_OK) != 0) return false;
    row->vision = name;
    int64_t width = -1, height = -1, side = 0, patch = 0;
    struct json *json = json_load(path, &ignored);
    if (json != NULL) {
        const cJSON *module = json_root(json);
        side = (int64_t)cJSON_GetNumberValue(cJSON_GetObjectItem(module, "image_size"));
        patch = (int64_t)cJSON_GetNumberValue(cJSON_GetObjectItem(module, "patch_size"));
    }
    json_destroy(json);
    if (side < 1 || patch < 1) return false; /* native resolution: no tiles */
    const bool sized = sscanf(r->image_wh, "%ldx%ld", (long *)&width, (long *)&height) == 2;
    const int64_t across = sized ? (width + side - 1) / side : 1,
                  down = sized ? (height + side - 1) / side : 1;
    row->tiles = given(r->images_per_sample, 1) * across * down;
    const int64_t merge = strncmp(name, "internvit", 9) == 0 ? 2 : 1;
    const int64_t tile_tokens = (side / patch / merge) * (side / patch / merge);
    const bool exact_length = r->seq_len_text[strspn(r->seq_len_text, "0123456789")] == '\0';
    if (exact_length) return true;
    const bool captions = strstr(r->frozen, "language") != NULL;
    if (row->tiles == 1) {
        draw_samples(row, captions);
        return true;
    }
    const int64_t text = captions ? CAPTION_TOKENS : INSTRUCTION_TOKENS;
    const int64_t mean = row->tiles * tile_tokens + text;
    if (mean < r->seq_len) row->language_tokens = mean;
    note(row,
         arena_format(arena, "samples of %ld tokens: %ld of images and %ld of text, the mean of %s",
                      (long)row->language_tokens, (long)(row->tiles * tile_tokens), (long)text,
                      text == CAPTION_TOKENS ? "coco-captions" : "llava-instruct-10k"));
    return true;
}

static bool holds(const char *text, const char *word) {
    return strstr(text, word) != NULL;
}

/* NULL: an empty cell, or one of the names. */
static const char *unlike(struct arena *arena, const char *text, const char *const *names) {
    const char *list = "";
    if (text[0] == '\0') return NULL;
    for (int64_t i = 0; names[i] != NULL; i++) {
        if (strcmp(text, names[i]) == 0) return NULL;
        list = arena_format(arena, "%s%s%s", list, i > 0 ? ", " : "", names[i]);
    }
    return arena_format(arena, "got \"%s\"; one of %s", text, list);
}

static bool is_one_of(struct row *row, const char *column, const char *text,
                      const char *const *names) {
    const char *mistake = unlike(row->context->arena, text, names);
    if (mistake != NULL) skip_at(row, SKIP_NOTHING, column, mistake);
    return mistake == NULL;
}

/* ---- layout and batch ---- */

static enum validation_skip place(struct row *row) {
    const struct measured_run *r = &row->run;
    struct arena *arena = row->context->arena;
    const struct stack *stack = row->out->stack;
    row->tp = given(r->tp, 1);
    row->pp = given(r->pp, 1);
    row->cp = given(r->cp, 1);
    row->vpp = row->pp > 1 ? given(r->vpp, 1) : 1;
    const int64_t model_ranks = row->tp * row->pp * row->cp;
    if (r->gpu_count < 1) return skip_at(row, SKIP_LAYOUT, "gpu_count", "not given");
    if (r->gpu_count % model_ranks != 0)
        return skip_at(row, SKIP_LAYOUT, "gpu_count",
                       arena_format(arena, "%ld GPUs cannot be divided by tp x pp x cp = %ld",
                                    (long)r->gpu_count, (long)model_ranks));
    row->dp = r->gpu_count / model_ranks;
    if (r->dp >= 0 && r->dp != row->dp)
        return skip_at(row, SKIP_LAYOUT, "dp",
                       arena_format(arena, "%ld, but %ld GPUs over tp x pp x cp are %ld",
                                    (long)r->dp, (long)r->gpu_count, (long)row->dp));
    const bool fsdp = strcmp(stack->backend, "fsdp") == 0;
    row->zero_stage = given(r->zero_stage, fsdp && row->pp == 1 ? 3 : 1);
    if (row->zero_stage > 1 && row->pp > 1)
        return skip_at(row, SKIP_LAYOUT, "zero_stage",
                       arena_format(arena, "ZeRO-%ld on %ld pipeline stages is not simulated",
                                    (long)row->zero_stage, (long)row->pp));
    row->zero_group =
        r->zero_group > 0 && row->dp * row->cp % r->zero_group == 0 ? r->zero_group : -1;
    row->sp = r->sp >= 0 ? r->sp == 1 : row->tp > 1 && stack->sequence_parallel;
    row->backend = stack->backend;
    if (strcmp(row->backend, "deepspeed") == 0 && row->pp > 1) row->backend = "megatron-deepspeed";
    if (row->zero_stage >= 2 && strncmp(row->backend, "megatron", 8) == 0)
        row->backend = row->zero_stage == 3 ? "fsdp" : "deepspeed";
    row->micro_batch = given(r->micro_batch, 1);
    row->global_batch = r->global_batch > 0 ? r->global_batch
                        : r->grad_accum > 0 ? r->grad_accum * row->micro_batch * row->dp
                                            : -1;
    if (row->global_batch < 1)
        return skip_at(row, SKIP_BATCH, "global_batch", "not given, nor is grad_accum");
    if (row->global_batch % (row->micro_batch * row->dp) != 0)
        return skip_at(row, SKIP_BATCH, "global_batch",
                       arena_format(arena,
                                    "%ld samples do not divide into micro-batches of %ld on %ld "
                                    "data-parallel ranks",
                                    (long)row->global_batch, (long)row->micro_batch,
                                    (long)row->dp));
    row->recompute_layers = -1;
    row->recompute = r->recompute[0] != '\0' ? r->recompute : stack->recompute;
    if (sscanf(row->recompute, "layers:%ld", (long *)&row->recompute_layers) == 1)
        return row->recompute_layers < 0 || row->recompute_layers > r->layers
                   ? skip_at(row, SKIP_RECOMPUTE, "recompute",
                             arena_format(arena, "%ld layers of %ld", (long)row->recompute_layers,
                                          (long)r->layers))
                   : SKIP_NOTHING;
    static const char *const kinds[] = { "full", "none", "selective", "layers:N", NULL };
    if (strncmp(row->recompute, "layers:", 7) == 0)
        return skip_text(row, SKIP_RECOMPUTE, "recompute", row->recompute);
    return is_one_of(row, "recompute", row->recompute, kinds) ? SKIP_NOTHING : SKIP_RECOMPUTE;
}

/* A word that does not decide whether the row can be simulated: noted, with what stands for it. */
static void note_unknown(struct row *row, const char *column, const char *text,
                         const char *const *names, const char *instead) {
    const char *unknown = unlike(row->context->arena, text, names);
    if (unknown != NULL)
        note(row, arena_format(row->context->arena, "%s: %s: %s", column, unknown, instead));
}

/* Heads share the width unless theirs is given, and those of keys and values serve equal
 * numbers. */
static bool heads_add_up(struct row *row) {
    const struct measured_run *r = &row->run;
    struct arena *arena = row->context->arena;
    if (r->head_dim < 1 && r->hidden % r->heads != 0)
        skip_at(row, SKIP_VALUE, "heads",
                arena_format(arena, "%ld do not divide hidden %ld, and head_dim is not given",
                             (long)r->heads, (long)r->hidden));
    else if (r->kv_heads > 0 && r->heads % r->kv_heads != 0)
        skip_at(row, SKIP_VALUE, "kv_heads",
                arena_format(arena, "%ld do not divide the %ld heads", (long)r->kv_heads,
                             (long)r->heads));
    return row->out->skip_detail == NULL;
}

/* What the row's own words rule out, before anything is filled in. */
static enum validation_skip check_words(struct row *row) {
    const struct measured_run *r = &row->run;
    struct arena *arena = row->context->arena;
    static const char *const outcomes[] = { "ok", "oom", NULL };
    note_unknown(row, "outcome", r->outcome, outcomes, "taken as ok");
    if (r->mistake == NULL && isnan(r->iter_time_s) && isnan(r->peak_mem_GiB) &&
        strcmp(r->outcome, "oom") != 0)
        return skip_at(row, SKIP_NO_MEASUREMENT, "iter_time_s", "empty, as is peak_mem_GiB");
    if (r->moe[0] != '\0') return skip_text(row, SKIP_EXPERTS, "moe", r->moe);
    if (r->ep > 1)
        return skip_text(row, SKIP_EXPERTS, "ep", arena_format(arena, "%ld", (long)r->ep));
    if (holds(r->notes, "LoRA") || holds(r->notes, "lora"))
        return skip_text(row, SKIP_ADAPTER, "notes", r->notes);
    if (holds(r->notes, "Mamba") || holds(r->notes, "NOT a pure transformer"))
        return skip_text(row, SKIP_ARCHITECTURE, "notes", r->notes);
    if (r->mistake != NULL) {
        row->out->skip_detail = r->mistake;
        return SKIP_VALUE;
    }
    static const char *const modalities[] = { "text", "vision+text", NULL };
    if (!is_one_of(row, "modality", r->modality, modalities)) return SKIP_MODALITY;
    static const char *const feed_forwards[] = { "gelu",  "gelu-new", "quick-gelu",
                                                 "relu2", "swiglu",   NULL };
    if (!is_one_of(row, "ffn", r->ffn, feed_forwards)) return SKIP_FEED_FORWARD;
    static const char *const kernels[] = { "flash", "flash-2", "flash-3", "naive", NULL };
    if (!is_one_of(row, "attention", r->attention, kernels)) return SKIP_ATTENTION;
    static const char *const norms[] = { "layer", "rms", NULL };
    note_unknown(row, "norm", r->norm, norms, "taken as rms");
    static const char *const schedules[] = { "1f1b", "interleaved", "gpipe", NULL };
    note_unknown(row, "schedule", r->schedule, schedules, "that of vpp is taken");
    static const char *const readings[] = { "allocated", "reserved", "device", NULL };
    note_unknown(row, "peak_mem_kind", r->peak_mem_kind, readings, "taken as allocated");
    return SKIP_NOTHING;
}

static enum validation_skip check(struct row *row) {
    struct measured_run *r = &row->run;
    struct arena *arena = row->context->arena;
    const enum validation_skip words = check_words(row);
    if (words != SKIP_NOTHING) return words;
    row->attention = r->attention[0] != '\0'       ? r->attention
                     : named_until(r->stack, 2022) ? "naive"
                                                   : "flash";
    choose_stack(row);
    if (!choose_hardware(row))
        return skip_at(row, SKIP_HARDWARE, "hardware",
                       arena_format(arena, "got \"%s\"; no name in scenarios/hardware begins so",
                                    r->hardware));
    const char *empty = measured_shape_complete(row->context, r, row->out->notes, &row->note_count);
    if (empty != NULL)
        return skip_at(row, SKIP_SHAPE, empty, "empty, and nothing else of the row tells it");
    if (!heads_add_up(row)) return SKIP_VALUE;
    if (!choose_samples(row))
        return skip_at(row, SKIP_VISION, "vision_model",
                       arena_format(arena,
                                    "got \"%s\"; there are %s, or a file of your own in "
                                    "scenarios/models/modules",
                                    r->vision_model, encoder_names(row->context)));
    return place(row);
}

/* ---- the document ---- */

static void add_language(cJSON *definition, const struct row *row) {
    const struct measured_run *r = &row->run;
    cJSON *language = cJSON_AddObjectToObject(definition, "language");
    const bool gpt = strncmp(r->ffn, "gelu", 4) == 0;
    cJSON_AddStringToObject(language, "name", "measured model");
    cJSON_AddStringToObject(language, "role", "language");
    cJSON_AddNumberToObject(language, "layer_count", (double)r->layers);
    cJSON_AddNumberToObject(language, "hidden", (double)r->hidden);
    cJSON_AddNumberToObject(language, "ffn_hidden", (double)r->ffn_hidden);
    cJSON_AddNumberToObject(language, "heads", (double)r->heads);
    cJSON_AddNumberToObject(language, "kv_heads", (double)given(r->kv_heads, r->heads));
    cJSON_AddNumberToObject(language, "head_dim", (double)given(r->head_dim, r->hidden / r->heads));
    cJSON_AddStringToObject(language, "ffn", r->ffn[0] != '\0' ? r->ffn : "swiglu");
    const bool layer_norm = r->norm[0] != '\0' ? strcmp(r->norm, "layer") == 0 : gpt;
    cJSON_AddStringToObject(language, "norm", layer_norm ? "layer" : "rms");
    if (r->qk_norm[0] != '\0') cJSON_AddStringToObject(language, "qk_norm", r->qk_norm);
    cJSON_AddStringToObject(language, "position", gpt ? "learned" : "rotary");
    if (gpt) cJSON_AddNumberToObject(language, "position_count", (double)r->seq_len);
    cJSON_AddBoolToObject(language, "tied_embeddings", gpt);
    if (gpt) cJSON_AddStringToObject(language, "qkv_bias", "all");
    cJSON_AddBoolToObject(language, "linear_bias", gpt);
    /* GPTs before FlashAttention were trained with dropout, 0.1 by Megatron-LM's default. */
    const bool naive = strcmp(row->attention, "naive") == 0;
    cJSON_AddBoolToObject(language, "dropout", gpt && (naive || row->out->stack->gpt_dropout));
    cJSON_AddNumberToObject(language, "vocabulary", (double)r->vocab);
    cJSON_AddStringToObject(language, "source", "row of measured runs");
}

/* LLaVA's connector, and pixel shuffle where the encoder's family has it. */
static void add_vision(cJSON *model, cJSON *definition, const struct row *row) {
    cJSON_AddStringToObject(definition, "vision", row->vision);
    cJSON *connector = cJSON_AddObjectToObject(definition, "connector");
    const bool shuffles = strncmp(row->vision, "internvit", 9) == 0;
    cJSON_AddNumberToObject(connector, "merge", shuffles ? 2 : 1);
    cJSON_AddStringToObject(connector, "inner", "language");
    cJSON_AddBoolToObject(connector, "norm", shuffles);
    cJSON_AddStringToObject(connector, "source", "row of measured runs: two linear layers");
    cJSON *frozen = cJSON_AddArrayToObject(model, "frozen");
    static const char *const roles[] = { "vision", "connector", "language" };
    for (size_t i = 0; i < sizeof roles / sizeof roles[0]; i++)
        if (strstr(row->run.frozen, roles[i]) != NULL)
            cJSON_AddItemToArray(frozen, cJSON_CreateString(roles[i]));
}

static void add_model(cJSON *root, const struct row *row) {
    const struct measured_run *r = &row->run;
    const char *name = r->model[0] != '\0' ? r->model : "measured model";
    cJSON *model = cJSON_AddObjectToObject(root, "model");
    cJSON_AddStringToObject(model, "name", name);
    cJSON *definition = cJSON_AddObjectToObject(model, "definition");
    cJSON_AddStringToObject(definition, "name", name);
    cJSON_AddStringToObject(definition, "source", "row of measured runs");
    add_language(definition, row);
    if (row->vision != NULL) add_vision(model, definition, row);
}

static void add_constant(cJSON *samples, const char *key, double value) {
    cJSON *what = cJSON_AddObjectToObject(samples, key);
    cJSON_AddStringToObject(what, "distribution", "constant");
    cJSON_AddNumberToObject(what, "value", value);
}

/* Every image is one tile, however large. */
static void add_dataset(cJSON *root, const struct row *row) {
    cJSON *dataset = cJSON_AddObjectToObject(root, "dataset");
    cJSON_AddStringToObject(dataset, "name", row->dataset);
    if (strcmp(row->dataset, "llava-665k") == 0) {
        cJSON_AddStringToObject(dataset, "tiling", "internvl");
        cJSON_AddNumberToObject(dataset, "max_tiles", 1);
    }
    cJSON *simulate = cJSON_AddObjectToObject(root, "simulate");
    cJSON_AddNumberToObject(simulate, "iterations", DATASET_STEPS);
}

static void add_samples(cJSON *root, const struct row *row) {
    if (row->dataset != NULL) {
        add_dataset(root, row);
        return;
    }
    cJSON *dataset = cJSON_AddObjectToObject(root, "dataset");
    cJSON_AddStringToObject(dataset, "name", "fixed length");
    cJSON *samples = cJSON_AddObjectToObject(dataset, "definition");
    cJSON_AddStringToObject(samples, "name", "fixed length");
    cJSON_AddStringToObject(samples, "description", "samples of one length");
    cJSON_AddStringToObject(samples, "kind", "distribution");
    cJSON_AddNumberToObject(samples, "sample_count", (double)row->global_batch);
    cJSON_AddNumberToObject(samples, "seed", 1);
    add_constant(samples, "vision_tiles", (double)row->tiles);
    add_constant(samples, "language_tokens", (double)row->language_tokens);
}

static bool older_gpu(const char *hardware) {
    return strncmp(hardware, "a100", 4) == 0 || strncmp(hardware, "a800", 4) == 0;
}

/* NVIDIA's boards of four A100, H100 or H200 link each GPU to the three others, without a switch
 * (nvidia-smi topo: NV4 or NV6 in NVIDIA/nccl-tests issue 331, NVIDIA/cuda-samples issue 392), and
 * those of eight V100 form a cube mesh. 0: a switch. */
static int64_t mesh_gpus(const char *hardware, int64_t gpus_per_node) {
    static const char *const boards[] = { "a100", "h100", "h200" };
    if (strstr(hardware, "pcie") != NULL) return 0;
    if (strncmp(hardware, "v100", 4) == 0 && gpus_per_node == 8) return 8;
    for (size_t i = 0; i < sizeof boards / sizeof boards[0]; i++)
        if (strncmp(hardware, boards[i], 4) == 0 && gpus_per_node == 4) return 4;
    return 0;
}

static void add_cluster(cJSON *root, const struct row *row) {
    const struct measured_run *r = &row->run;
    const char *hardware = row->out->hardware;
    cJSON *cluster = cJSON_AddObjectToObject(root, "cluster");
    cJSON_AddStringToObject(cluster, "hardware", hardware);
    cJSON_AddNumberToObject(cluster, "gpu_count", (double)r->gpu_count);
    int64_t node = r->gpus_per_node;
    struct error unread = { 0 }; /* which the scenario tells */
    if (node < 1 &&
        !hardware_node_gpus(row->context->arena, row->context->directory, hardware, &node, &unread))
        node = 1;
    node = hardware_node_share(node, r->gpu_count, row->tp);
    cJSON_AddNumberToObject(cluster, "gpus_per_node", (double)node);
    const int64_t mesh = mesh_gpus(hardware, r->gpus_per_node);
    if (mesh > 0) cJSON_AddNumberToObject(cluster, "nvlink_mesh_gpus", (double)mesh);
    /* The NIC hangs on the PCIe switch of two of the eight GPUs of a V100 server, so one end of a
     * ring reaches it through the CPU: 9.24 of 12.5 GB/s, or 6.12 (NVIDIA/nccl issue 371). */
    if (mesh == 8) cJSON_AddNumberToObject(cluster, "nic_efficiency_fraction", 0.74);
    const double rate = !isnan(r->nic_Gbit_per_s_per_gpu) ? r->nic_Gbit_per_s_per_gpu
                        : older_gpu(hardware)             ? 200
                                                          : 400;
    cJSON_AddNumberToObject(cluster, "nic_Gbit_per_s_per_gpu", rate);
    /* No NIC of these clusters is slower than 100 Gbit/s: less a GPU means that GPUs share one. */
    if (r->nics_per_node > 0 || rate < 100)
        cJSON_AddNumberToObject(cluster, "nics_per_node",
                                r->nics_per_node > 0 ? (double)r->nics_per_node
                                                     : fmax(1, floor((double)node * rate / 100)));
}

static void add_layout(cJSON *root, const struct row *row) {
    cJSON *layout = cJSON_AddObjectToObject(root, "layout");
    cJSON_AddStringToObject(layout, "backend", row->backend);
    cJSON_AddStringToObject(layout, "stack", row->out->stack->name);
    cJSON_AddNumberToObject(layout, "tp", (double)row->tp);
    cJSON_AddBoolToObject(layout, "sp", row->sp);
    cJSON_AddNumberToObject(layout, "pp", (double)row->pp);
    cJSON_AddNumberToObject(layout, "vpp", (double)row->vpp);
    cJSON_AddNumberToObject(layout, "cp", (double)row->cp);
    cJSON_AddNumberToObject(layout, "dp", (double)row->dp);
    cJSON_AddNumberToObject(layout, "zero_stage", (double)row->zero_stage);
    if (row->zero_group > 0) cJSON_AddNumberToObject(layout, "zero_group", (double)row->zero_group);
    const struct measured_run *r = &row->run;
    const struct stack *stack = row->out->stack;
    cJSON_AddBoolToObject(layout, "overlap_gradient_reduce",
                          measured_run_overlaps(r, "gradients", stack->overlap_gradient_reduce));
    cJSON_AddBoolToObject(layout, "overlap_parameter_gather",
                          measured_run_overlaps(r, "parameters", stack->overlap_parameter_gather));
    if (measured_run_overlaps(r, "tensor", false))
        cJSON_AddBoolToObject(layout, "tp_overlap", true);
}

/* A number of layers that no even division gives, but two more would: embedding and head then count
 * as a layer each, so the first and the last stage have one block less (Megatron-LM's
 * account_for_embedding and account_for_loss_in_pipeline_split, Llama 3's 126; Megatron-DeepSpeed's
 * partition method "type:transformer|embedding", BLOOM's 70 and its trial's 106). Otherwise
 * DeepSpeed fills stage after stage: 78 blocks on 12 stages are eleven times 7 and one (BLOOM's
 * trials). */
static void add_partition(cJSON *policy, const struct row *row) {
    const int64_t parts = row->pp * row->vpp, layers = row->run.layers;
    if (row->pp == 1 || row->vision != NULL || layers % parts == 0) return;
    const bool ends_count = (layers + 2) % parts == 0;
    const int64_t share = ends_count ? (layers + 2) / parts : (layers + parts - 1) / parts;
    const bool fills =
        strcmp(row->backend, "megatron-deepspeed") == 0 && layers - share * (parts - 1) > 0;
    if (!ends_count && !fills) return;
    cJSON *partition = cJSON_AddObjectToObject(policy, "partition");
    cJSON_AddStringToObject(partition, "name", "manual");
    cJSON *blocks = cJSON_AddArrayToObject(partition, "blocks");
    for (int64_t part = 0; part < parts; part++) {
        const bool first = part == 0, last = part == parts - 1;
        const int64_t count = ends_count ? share - (first || last)
                              : last     ? layers - share * (parts - 1)
                                         : share;
        cJSON_AddItemToArray(blocks, cJSON_CreateNumber((double)count));
    }
}

#define USUAL_DROPOUT 0.1

static void add_training(cJSON *root, const struct row *row) {
    const char *precision = row->run.precision;
    cJSON *training = cJSON_AddObjectToObject(root, "training");
    cJSON *global = cJSON_AddObjectToObject(training, "global_batch"),
          *micro = cJSON_AddObjectToObject(training, "micro_batch");
    cJSON_AddNumberToObject(global, "samples", (double)row->global_batch);
    cJSON_AddNumberToObject(micro, "samples", (double)row->micro_batch);
    cJSON_AddStringToObject(training, "attention", row->attention);
    if (row->run.dropout >= 0) { /* the usual probability: kernels do not tell one from another */
        const double probability = row->run.dropout > 0 ? USUAL_DROPOUT : 0;
        cJSON_AddNumberToObject(training, "hidden_dropout", probability);
        cJSON_AddNumberToObject(training, "attention_dropout", probability);
    }
    if (row->run.deterministic[0] != '\0')
        cJSON_AddStringToObject(training, "deterministic", row->run.deterministic);
    cJSON_AddStringToObject(training, "precision", precision[0] != '\0' ? precision : "bf16");
    cJSON *policy = cJSON_AddObjectToObject(root, "policy");
    add_partition(policy, row);
    if (row->by_modality) {
        cJSON *batching = cJSON_AddObjectToObject(policy, "batching");
        cJSON_AddStringToObject(batching, "name", "length-group");
        cJSON_AddStringToObject(batching, "variant", "modality");
    }
    if (row->recompute_layers < 0) {
        cJSON_AddStringToObject(policy, "recompute", row->recompute);
        return;
    }
    /* The format counts layers of the model; a stage has its share. */
    const int64_t parts = row->pp * row->vpp;
    cJSON *recompute = cJSON_AddObjectToObject(policy, "recompute");
    cJSON_AddStringToObject(recompute, "name", "uniform");
    cJSON_AddNumberToObject(recompute, "blocks_per_stage",
                            (double)((row->recompute_layers + parts - 1) / parts));
}

/* What stands in for an unknown stack is one that was worth describing; most are slower. */
static void add_rules(cJSON *root, const struct row *row) {
    const double factor = row->context->unknown_stack_factor;
    if (row->out->known_stack || factor == 1) return;
    cJSON *rule = cJSON_CreateObject();
    cJSON_AddNumberToObject(rule, "factor", factor);
    cJSON_AddStringToObject(
        rule, "source",
        "unknown_stack_factor of scenarios/bands.json: what stacks took over the "
        "one that stood in for them");
    cJSON_AddItemToArray(cJSON_AddArrayToObject(root, "rules"), rule);
}

void measured_scenario_make(const struct measured_context *context, const struct measured_run *run,
                            struct measured_scenario *out) {
    *out = (struct measured_scenario){ .skip = SKIP_NOTHING,
                                       .row_id =
                                           run->row_id[0] != '\0' ? run->row_id : "measured run" };
    struct row row = { .context = context, .run = *run, .out = out };
    out->skip = check(&row);
    if (out->skip != SKIP_NOTHING) return;
    out->document = cJSON_CreateObject();
    cJSON_AddStringToObject(out->document, "name", out->row_id);
    add_model(out->document, &row);
    add_samples(out->document, &row);
    add_cluster(out->document, &row);
    add_layout(out->document, &row);
    add_training(out->document, &row);
    add_rules(out->document, &row);
}

struct execution *measured_scenario_run(const struct scenario_options *options,
                                        const struct measured_scenario *scenario,
                                        struct error *err) {
    char *text = cJSON_PrintUnformatted(scenario->document);
    struct json *json = json_parse(scenario->row_id, text, strlen(text), err);
    cJSON_free(text);
    struct replay_options replay = { .fidelity = FIDELITY_STAGE, .threads = 1 };
    return json != NULL ? execution_run_json(options, json, &replay, err) : NULL;
}
