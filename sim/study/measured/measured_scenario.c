/* measured_scenario.c - checks a row, completes it, and writes the scenario that simulates it.
 *
 * The stack decides what its source leaves out: the backend, recomputation, sequence parallelism,
 * which data-parallel traffic is hidden (measured_stack.c).
 */
#include "sim/study/measured/measured_row.h"

#include <math.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>
#include "costmodel/generation.h"
#include "costmodel/step_band.h"
#include "sim/study/measured/measured_said.h"
#include "sim/study/measured/measured_words.h"

static const char *const skip_names[VALIDATION_SKIP_COUNT] = {
    [SKIP_NOTHING] = "",
    [SKIP_NO_MEASUREMENT] = "no step time and no memory was measured",
    [SKIP_EXPERTS] = "mixture of experts is not simulated",
    [SKIP_ARCHITECTURE] = "layers that are not a transformer's are not simulated",
    [SKIP_MODALITY] = "the modality is not simulated",
    [SKIP_HARDWARE] = "no hardware profile",
    [SKIP_SHAPE] = "the model's shape is not given",
    [SKIP_EMPTY] = "a cell that is needed is empty",
    [SKIP_PRECISION] = "the precision is not known, or not simulated on this hardware",
    [SKIP_ATTENTION] = "this kind of attention is not simulated",
    [SKIP_RECOMPUTE] = "this kind of recomputation is not simulated",
    [SKIP_LAYOUT] = "the layout does not add up",
    [SKIP_BATCH] = "the batch does not add up",
    [SKIP_SCHEDULE] = "this pipeline schedule is not simulated",
    [SKIP_ADAPTER] = "adapters beside quantised weights (QLoRA) are not simulated",
    [SKIP_VALUE] = "a value that cannot be",
    [SKIP_VISION] = "the vision encoder is not known",
    [SKIP_FEED_FORWARD] = "this kind of feed-forward layer is not simulated",
    [SKIP_TWO_STREAMS] =
        "this kind of attention to video, text and images together is not simulated",
    [SKIP_ENCODER_IN_STEP] =
        "an autoencoder or text encoder in a diffusion model's step is not simulated",
    [SKIP_OFFLOAD] = "weights or an optimizer in host memory are not simulated",
};

const char *validation_skip_name(enum validation_skip skip) {
    return skip_names[skip];
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
    *context =
        (struct measured_context){ .arena = arena,
                                   .directory = directory,
                                   .own_stacks = arena_new(arena, const struct own_stack *) };
    if (!stack_load_all(arena, directory, &context->stacks, err) || !read_bands(context, err) ||
        !measured_machines_load(context, err))
        return false;
    return measured_has_fallbacks(context, err);
}

void measured_row_note(struct measured_row *row, const char *format, ...) {
    char text[512];
    va_list args;
    va_start(args, format);
    vsnprintf(text, sizeof text, format, args);
    va_end(args);
    if (row->note_count < MEASURED_NOTE_LIMIT)
        row->out->notes[row->note_count++] = arena_text(row->context->arena, text);
}

enum validation_skip measured_skip_at(struct measured_row *row, enum validation_skip skip,
                                      const char *column, const char *why) {
    row->out->skip_detail =
        arena_format(row->context->arena, "line %ld, %s: %s", (long)row->run.line, column, why);
    return skip;
}

enum validation_skip measured_skip_text(struct measured_row *row, enum validation_skip skip,
                                        const char *column, const char *text) {
    return measured_skip_at(row, skip, column,
                            arena_format(row->context->arena, "got \"%.60s\"", text));
}

/* ---- hardware ---- */

/* Cards in slots talk over PCIe, unless the row says what joins them. */
static void join_by_bridges(struct measured_row *row) {
    struct measured_run *r = &row->run;
    const char *card = row->out->gpu;
    int64_t cards = 0;
    const char *joined = measured_bridged(row->context, card, r->hardware, &cards);
    if (joined == NULL) joined = measured_bridged(row->context, card, r->notes, &cards);
    if (joined == NULL) return;
    row->out->gpu = row->out->hardware = joined;
    if (r->gpus_per_node > cards) r->gpus_per_node = cards;
    measured_row_note(row, "hardware: %s, whose bridges the row tells of", joined);
}

static enum validation_skip choose_hardware(struct measured_row *row) {
    const char *wanted = row->run.hardware, *why_not = "";
    if (wanted[0] == '\0' && row->out->stack->hardware != NULL) {
        wanted = row->out->stack->hardware;
        measured_row_note(row, "the source names no GPU: %s, as its stack says", wanted);
    }
    if (wanted[0] == '\0') return measured_skip_at(row, SKIP_HARDWARE, "hardware", "empty");
    if (measured_is_file(wanted)) {
        row->out->hardware = wanted;
        row->out->gpu = measured_hardware_file(row->context->arena, wanted, &why_not);
        return row->out->gpu != NULL ? SKIP_NOTHING
                                     : measured_skip_at(row, SKIP_HARDWARE, "hardware", why_not);
    }
    row->out->gpu = row->out->hardware = measured_hardware(row->context, wanted, &why_not);
    if (row->out->hardware == NULL)
        return measured_skip_at(row, SKIP_HARDWARE, "hardware", why_not);
    const char *usual = row->out->hardware;
    if (row->run.hardware[0] != '\0' && strcmp(usual, wanted) != 0)
        measured_row_note(row, "hardware %s is the profile %s%s", wanted, usual,
                          measured_other_memory(row->context->arena, wanted, usual));
    const char *machines = measured_machines_part(row, usual);
    if (machines != usual)
        measured_row_note(row, "hardware: %s, as the machine that the row names has", machines);
    usual = machines;
    row->out->gpu = row->out->hardware = measured_machine(row->context, usual, row->run.source);
    if (row->out->hardware != usual)
        measured_row_note(row, "hardware: %s, the machine of %s", row->out->hardware,
                          row->run.source);
    join_by_bridges(row);
    measured_count_cards(row);
    return SKIP_NOTHING;
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

bool measured_is_one_of(struct measured_row *row, const char *column, const char *text,
                        const char *const *names) {
    const char *mistake = unlike(row->context->arena, text, names);
    if (mistake != NULL) measured_skip_at(row, SKIP_NOTHING, column, mistake);
    return mistake == NULL;
}

/* A word that does not decide whether the row can be simulated: noted, with what stands for it. */
static void note_unknown(struct measured_row *row, const char *column, const char *text,
                         const char *const *names, const char *instead) {
    const char *unknown = unlike(row->context->arena, text, names);
    if (unknown != NULL) measured_row_note(row, "%s: %s: %s", column, unknown, instead);
}

/* Heads share the width unless theirs is given, and those of keys and values serve equal
 * numbers. */
static bool heads_add_up(struct measured_row *row) {
    const struct measured_run *r = &row->run;
    struct arena *arena = row->context->arena;
    if (r->head_dim < 1 && r->hidden % r->heads != 0)
        measured_skip_at(row, SKIP_VALUE, "heads",
                         arena_format(arena,
                                      "%ld do not divide hidden %ld, and head_dim is not given",
                                      (long)r->heads, (long)r->hidden));
    else if (r->kv_heads > 0 && r->heads % r->kv_heads != 0)
        measured_skip_at(row, SKIP_VALUE, "kv_heads",
                         arena_format(arena, "%ld do not divide the %ld heads", (long)r->kv_heads,
                                      (long)r->heads));
    return row->out->skip_detail == NULL;
}

static const char *without_brackets(struct arena *arena, const char *text) {
    char *out = arena_text(arena, text);
    for (char *c = out; *c != '\0'; c++)
        if (strchr("()[],;", *c) != NULL) *c = ' ';
    return out;
}

/* What the row's own words rule out, before anything is filled in. */
static enum validation_skip check_words(struct measured_row *row) {
    const struct measured_run *r = &row->run;
    struct arena *arena = row->context->arena;
    static const char *const outcomes[] = { "ok", "oom", NULL };
    if (!measured_is_one_of(row, "outcome", r->outcome, outcomes)) return SKIP_VALUE;
    if (r->mistake == NULL && isnan(r->iter_time_s) && isnan(r->peak_mem_GiB) &&
        strcmp(r->outcome, "oom") != 0)
        return measured_skip_at(row, SKIP_NO_MEASUREMENT, "iter_time_s",
                                "empty or not a number, as is peak_mem_GiB");
    if (r->moe[0] != '\0') return measured_skip_text(row, SKIP_EXPERTS, "moe", r->moe);
    if (r->ep > 1)
        return measured_skip_text(row, SKIP_EXPERTS, "ep", arena_format(arena, "%ld", (long)r->ep));
    if (measured_model_has_experts(arena, r->model))
        return measured_skip_text(row, SKIP_EXPERTS, "model", r->model);
    const char *quantised = measured_quantised_lora(r);
    if (quantised != NULL)
        return measured_skip_text(row, SKIP_ADAPTER, quantised,
                                  strcmp(quantised, "model") == 0   ? r->model
                                  : strcmp(quantised, "stack") == 0 ? r->stack
                                                                    : r->notes_cell);
    if (measured_says_offload(r->stack))
        return measured_skip_text(row, SKIP_OFFLOAD, "stack", r->stack);
    const char *stage = arena_format(arena, "ZeRO %s", r->zero_stage_text);
    if (measured_says_offload(without_brackets(arena, stage)))
        return measured_skip_text(row, SKIP_OFFLOAD, "zero_stage", r->zero_stage_text);
    if (measured_says_offload(r->notes))
        return measured_skip_text(row, SKIP_OFFLOAD, "notes", r->notes_cell);
    if (measured_model_is_hybrid(arena, r->model) || measured_model_has_two_stacks(arena, r->model))
        return measured_skip_text(row, SKIP_ARCHITECTURE, "model", r->model);
    if (measured_text_says(r->notes, "Mamba") || measured_holds(r->notes, "NOT a pure transformer"))
        return measured_skip_text(row, SKIP_ARCHITECTURE, "notes", r->notes_cell);
    if (r->mistake != NULL) {
        row->out->skip_detail = r->mistake;
        return SKIP_VALUE;
    }
    static const char *const modalities[] = { "text", "vision+text", "encoder", "diffusion", NULL };
    if (r->modality[0] == '\0' && r->vision_model[0] == '\0' &&
        measured_names_diffusion(arena, r->model)) {
        row->run.modality = "diffusion";
        measured_row_note(row, "modality: diffusion, as the name of its model says");
    }
    if (!measured_is_one_of(row, "modality", r->modality, modalities)) return SKIP_MODALITY;
    const struct measured_doubt doubt = measured_doubt_diffusion(arena, r);
    if (doubt.skip != SKIP_NOTHING)
        return measured_skip_text(row, doubt.skip, doubt.column, doubt.cell);
    static const char *const feed_forwards[] = { "gelu",  "gelu-new", "quick-gelu",
                                                 "relu2", "swiglu",   NULL };
    static const char *const kernels[] = { "flash", "flash-1", "flash-2", "flash-3",
                                           "cudnn", "masked",  "naive",   NULL };
    static const char *const schedules[] = { "1f1b", "interleaved", "gpipe", NULL };
    const struct {
        const char *column, *text;
        const char *const *words;
        enum validation_skip skip;
    } cells[] = { { "ffn", r->ffn, feed_forwards, SKIP_FEED_FORWARD },
                  { "precision", r->precision, precision_names, SKIP_PRECISION },
                  { "attention", r->attention, kernels, SKIP_ATTENTION },
                  { "schedule", r->pp > 1 ? r->schedule : "", schedules, SKIP_SCHEDULE } };
    enum validation_skip first = SKIP_NOTHING;
    for (size_t i = 0; i < sizeof cells / sizeof cells[0]; i++) {
        const char *before = row->out->skip_detail;
        if (measured_is_one_of(row, cells[i].column, cells[i].text, cells[i].words)) continue;
        if (first == SKIP_NOTHING)
            first = cells[i].skip;
        else
            row->out->skip_detail =
                arena_format(arena, "%s; %s", before, strstr(row->out->skip_detail, ", ") + 2);
    }
    if (first != SKIP_NOTHING) return first;
    static const char *const heads[] = { "tokens", "none", NULL };
    note_unknown(row, "head", r->head, heads, "taken as tokens");
    static const char *const norms[] = { "layer", "rms", NULL };
    note_unknown(row, "norm", r->norm, norms, "that of ffn is taken");
    static const char *const positions[] = { "rotary", "learned", "none", NULL };
    note_unknown(row, "position", r->position, positions, "that usual with ffn is taken");
    static const char *const readings[] = { "allocated", "reserved", "device", NULL };
    note_unknown(row, "peak_mem_kind", r->peak_mem_kind, readings, "peak_mem_GiB is not scored");
    return SKIP_NOTHING;
}

static enum validation_skip skip_encoder(struct measured_row *row) {
    struct arena *arena = row->context->arena;
    const char *wanted = row->run.vision_model;
    const char *found =
        wanted[0] != '\0' ? arena_format(arena, "got \"%.60s\"", wanted)
        : row->images_in != NULL
            ? arena_format(arena, "empty, though %s tells of images", row->images_in)
            : "empty";
    return measured_skip_at(row, SKIP_VISION, "vision_model",
                            arena_format(arena,
                                         "%s; there are %s, or a file of your own in "
                                         "scenarios/models/modules",
                                         found, measured_encoder_names(row->context)));
}

/* Kernels with a name run in 16 bits from Ampere on: elsewhere the notes speak of others, or mean
 * the one that there is. */
static const char *where_it_runs(const char *kernel, bool named_ones) {
    return named_ones || kernel[0] == '\0' || strcmp(kernel, "naive") == 0 ? kernel : "flash";
}

static void choose_attention(struct measured_row *row) {
    const struct measured_run *r = &row->run;
    const bool single = strcmp(r->precision, "fp32") == 0 || strcmp(r->precision, "tf32") == 0;
    const bool named_ones = !single && !measured_text_says(r->hardware, "v100");
    const char *noted = where_it_runs(measured_says_attention(r->notes), named_ones);
    const char *named = where_it_runs(measured_says_attention(r->stack), named_ones);
    row->attention = r->attention;
    const bool finer = strcmp(noted, "flash-2") == 0 || strcmp(noted, "cudnn") == 0;
    if (strcmp(r->attention, "flash") == 0 && finer) {
        row->attention = noted;
        measured_row_note(row, "attention: %s, as its notes say", noted);
    }
    if (r->attention[0] != '\0') return;
    row->attention = noted[0] != '\0'            ? noted
                     : named[0] != '\0'          ? named
                     : measured_of_year(r, 2022) ? "naive"
                                                 : "flash";
    measured_row_note(row, "attention: %s, as %s", row->attention,
                      noted[0] != '\0'       ? "its notes say"
                      : named[0] != '\0'     ? "the stack's name says"
                      : measured_year(r) > 0 ? "usual in the year of its stack"
                                             : "usual since 2023");
}

static enum validation_skip check(struct measured_row *row) {
    struct measured_run *r = &row->run;
    for (const char **reading = r->readings; *reading != NULL; reading++)
        measured_row_note(row, "%s", *reading);
    const enum validation_skip words = check_words(row);
    if (words != SKIP_NOTHING) return words;
    const enum validation_skip unreadable = measured_read_own_stack(row);
    if (unreadable != SKIP_NOTHING) return unreadable;
    if (strcmp(r->precision, "fp32") == 0 && measured_says_tf32(r->notes)) {
        r->precision = "tf32";
        measured_row_note(row, "precision: tf32, as its notes say");
    }
    measured_read_degrees(row);
    choose_attention(row);
    measured_choose_modality(row);
    if (r->peak_mem_kind[0] == '\0' && !isnan(r->peak_mem_GiB))
        measured_row_note(row, "peak_mem_kind: taken as allocated");
    measured_choose_stack(row);
    const enum validation_skip no_hardware = choose_hardware(row);
    if (no_hardware != SKIP_NOTHING) return no_hardware;
    const enum gpu_generation generation = gpu_generation_of(row->out->gpu);
    if (strcmp(r->precision, "fp8") == 0 && strcmp(r->fp8_recipe, "mxfp8") == 0 &&
        generation != GENERATION_BLACKWELL && generation != GENERATION_UNKNOWN)
        return measured_skip_at(row, SKIP_PRECISION, "fp8_recipe",
                                arena_format(row->context->arena,
                                             "mxfp8 needs the tensor cores of Blackwell, %s has "
                                             "none",
                                             row->out->gpu));
    const char *empty = measured_shape_complete(row->context, r, row->out->notes, &row->note_count);
    if (empty != NULL)
        return strcmp(empty, "seq_len") == 0
                   ? measured_skip_at(row, SKIP_EMPTY, empty,
                                      "empty, and nothing else of the row tells it")
                   : measured_skip_at(
                         row, SKIP_SHAPE, empty,
                         arena_format(
                             row->context->arena,
                             "empty, and \"%.60s\" names no public model of scenarios/models",
                             r->model));
    if (!heads_add_up(row)) return SKIP_VALUE;
    if (!measured_choose_samples(row)) return skip_encoder(row);
    const enum validation_skip misplaced = measured_place(row);
    if (misplaced == SKIP_NOTHING) measured_note_launches(row);
    return misplaced;
}

/* The document is the caller's, also of a row that is not taken. */
static void make(const struct measured_context *context, const struct measured_run *run,
                 struct measured_scenario *out, struct measured_row *row) {
    *out = (struct measured_scenario){ .skip = SKIP_NOTHING,
                                       .row_id =
                                           run->row_id[0] != '\0' ? run->row_id : "measured run" };
    *row = (struct measured_row){ .context = context, .run = *run, .out = out };
    out->skip = check(row);
    if (out->skip != SKIP_NOTHING) return;
    out->document = measured_document(row);
    measured_row_stages(row);
    if (measured_names_no_stack(run)) /* the one whose name filled blanks is not simulated */
        out->stack = measured_no_stack();
    measured_row_offload(row);
    measured_row_recompute(row);
    measured_row_micro_batch(row);
}

/* The lowest stage of ZeRO by which it fits takes the place of the usual one. Megatron's optimizer
 * shards states alone; what shards the rest is its FSDP, which NVIDIA's recipes run where nothing
 * else divides the model. */
static void shard_to_fit(const struct measured_context *context, const struct measured_run *run,
                         struct measured_scenario *out, struct measured_row *row) {
    const bool megatron = out->known_stack && strncmp(row->backend, "megatron", 8) == 0;
    const bool divided = row->tp * row->pp * row->cp > 1;
    const int64_t most = megatron && (divided || !out->stack->offloads_to_fit) ? 1 : 3;
    struct measured_run more = *run;
    for (more.zero_stage = row->zero_stage + 1; more.zero_stage <= most; more.zero_stage++) {
        if (megatron && more.zero_stage == 2) continue;
        struct measured_scenario sharded;
        struct measured_row other;
        make(context, &more, &sharded, &other);
        if (sharded.skip == SKIP_NOTHING && measured_row_fit(&other) == FIT_YES) {
            measured_row_note(&other,
                              "zero_stage: %ld, because it would not fit with less; so by %s",
                              (long)more.zero_stage, sharded.stack->name);
            sharded.chosen_to_fit = true;
            cJSON_Delete(out->document);
            *out = sharded;
            return;
        }
        cJSON_Delete(sharded.document);
    }
}

void measured_scenario_make(const struct measured_context *context, const struct measured_run *run,
                            struct measured_scenario *out) {
    struct measured_row row;
    make(context, run, out, &row);
    if (out->skip == SKIP_NOTHING && row.sharding_unsaid && row.dp * row.cp > 1 &&
        strcmp(run->outcome, "oom") != 0 && measured_row_fit(&row) == FIT_NO)
        shard_to_fit(context, run, out, &row);
}

static struct execution *execute(const struct scenario_options *options,
                                 const struct measured_scenario *scenario,
                                 const struct replay_options *replay, struct error *err) {
    char *text = cJSON_PrintUnformatted(scenario->document);
    struct json *json = json_parse(scenario->row_id, text, strlen(text), err);
    cJSON_free(text);
    return json != NULL ? execution_run_json(options, json, replay, err) : NULL;
}

struct execution *measured_scenario_prepare(const struct scenario_options *options,
                                            const struct measured_scenario *scenario,
                                            struct error *err) {
    return execute(options, scenario, NULL, err);
}

struct execution *measured_scenario_run(const struct scenario_options *options,
                                        const struct measured_scenario *scenario,
                                        struct error *err) {
    const struct replay_options replay = { .fidelity = FIDELITY_STAGE, .threads = 1 };
    return execute(options, scenario, &replay, err);
}
