/* measured_training.c - how a completed row trained: precision, batch, kernels, optimizer, by its
 * cells, its stack's name and its notes. */
#include <math.h>
#include <string.h>
#include <strings.h>
#include "costmodel/generation.h"
#include "costmodel/hardware.h"
#include "sim/study/measured/measured_row.h"
#include "sim/study/measured/measured_said.h"
#include "sim/study/measured/measured_words.h"

#define USUAL_DROPOUT 0.1

enum precision measured_precision(const struct measured_run *run) {
    if (strcmp(run->precision, "fp8") == 0) return PRECISION_FP8;
    return strcmp(run->precision, "fp4") == 0 ? PRECISION_FP4 : PRECISION_BF16;
}

struct stack_run measured_stack_run(const struct measured_run *run) {
    return (struct stack_run){ .gpus = (double)run->gpu_count,
                               .step_s = run->iter_time_s,
                               .layers = fmax((double)run->layers, 0),
                               .hidden = fmax((double)run->hidden, 0) };
}

const char *measured_fp8_recipe(const struct measured_run *run) {
    static const char *const signs[][2] = {
        { "delayed scaling", "delayed" },
        { "current scaling", "tensorwise" },
        { "tensorwise", "tensorwise" },
        { "fp8_cs", "tensorwise" },
        { "rowwise", "rowwise" },
        { "blockwise", "blockwise" },
        { "mxfp8", "mxfp8" },
        { "fp8_mx", "mxfp8" },
    };
    if (run->fp8_recipe[0] != '\0') return run->fp8_recipe;
    const char *found = "";
    for (size_t i = 0; i < sizeof signs / sizeof signs[0]; i++) {
        if (!measured_text_says(run->notes, signs[i][0]) ||
            measured_text_denies(run->notes, signs[i][0]))
            continue;
        if (found[0] != '\0' && strcmp(found, signs[i][1]) != 0) return "";
        found = signs[i][1];
    }
    return found;
}

static void add_fp8_recipe(cJSON *training, struct measured_row *row) {
    const char *recipe = measured_fp8_recipe(&row->run);
    if (recipe[0] == '\0') {
        if (strcmp(row->run.precision, "fp8") == 0)
            measured_row_note(row, "fp8_recipe: as usual, %s",
                              strcmp(row->backend, "fsdp") == 0
                                  ? "tensorwise where torchao scales, else delayed"
                                  : "delayed");
        return;
    }
    if (strcmp(row->run.precision, "fp8") != 0) {
        if (row->run.fp8_recipe[0] != '\0')
            measured_row_note(row, "fp8_recipe: %s is not read, the run is not in fp8", recipe);
        return;
    }
    const enum gpu_generation generation = gpu_generation_of(row->out->gpu);
    if (strcmp(recipe, "mxfp8") == 0 && generation != GENERATION_BLACKWELL &&
        generation != GENERATION_UNKNOWN) {
        measured_row_note(row, "fp8_recipe: mxfp8 is not for %s, taken as usual", row->out->gpu);
        return;
    }
    if (row->run.fp8_recipe[0] == '\0')
        measured_row_note(row, "fp8_recipe: %s, as its notes say", recipe);
    cJSON_AddStringToObject(training, "fp8_recipe", recipe);
}

/* The cell's, or what the notes say behind the option's name: "--exp-avg-dtype bf16",
 * "exp_avg_dtype=torch.bfloat16". */
static const char *type_said(const struct measured_row *row, const char *column, const char *cell) {
    if (cell[0] != '\0') return cell;
    struct arena *arena = row->context->arena;
    const char *notes = measured_plain(arena, row->run.notes),
               *name = measured_plain(arena, column);
    const char *at = strstr(notes, name);
    if (at == NULL) return "";
    at += strlen(name);
    at += strspn(at, "-=:\"'");
    const size_t length = strspn(at, "abcdefghijklmnopqrstuvwxyz0123456789.");
    char *text = arena_format(arena, "%.*s", (int)length, at);
    for (size_t end = strlen(text); end > 0 && text[end - 1] == '.'; end--) /* of the sentence */
        text[end - 1] = '\0';
    const char *word = measured_word(arena, column, text);
    return word != NULL ? word : "";
}

static bool is_narrow(const char *type) {
    return type[0] != '\0' && strcmp(type, "fp32") != 0;
}

static void add_type(cJSON *training, struct measured_row *row, const char *column,
                     const char *cell, const char *otherwise) {
    const char *said = type_said(row, column, cell), *type = said[0] != '\0' ? said : otherwise;
    if (!is_narrow(type)) return;
    if (cell[0] == '\0') measured_row_note(row, "%s: %s, as its notes say", column, type);
    cJSON_AddStringToObject(training, column, type);
}

/* Of "moments in bf16" or "bf16 moments" the type; "" where the notes do not name one. */
static const char *type_of(struct arena *arena, const char *notes, const char *what) {
    static const char *const types[] = { "bf16", "fp16", "fp8" };
    for (size_t i = 0; i < sizeof types / sizeof types[0]; i++)
        if (measured_text_says(notes, arena_format(arena, "%s in %s", what, types[i])) ||
            measured_text_says(notes, arena_format(arena, "%s %s", types[i], what)))
            return types[i];
    return "";
}

enum said { SAID_NOT, SAID_ON, SAID_OFF };

static enum said optimizer_said(const char *notes) {
    static const char *const names[] = { "precision-aware optimizer", "precision aware optimizer",
                                         "precision_aware_optimizer", "precision-aware-optimizer" };
    enum said said = SAID_NOT;
    for (size_t i = 0; i < sizeof names / sizeof names[0]; i++) {
        if (measured_text_denies(notes, names[i])) return SAID_OFF;
        if (measured_text_says(notes, names[i])) said = SAID_ON;
    }
    return said;
}

/* More than 16 bits, or a type whose gradients are reduced in them. */
static bool is_wide(const char *precision) {
    return strcmp(precision, "fp16") == 0 || strcmp(precision, "fp32") == 0 ||
           strcmp(precision, "tf32") == 0;
}

/* Of Megatron-core, by its column, a type in one of the others, or the notes; those that name no
 * type but say "moments in bf16" mean both. */
static void add_precision_aware(cJSON *training, struct measured_row *row) {
    const struct measured_run *r = &row->run;
    const bool narrow = is_narrow(type_said(row, "exp_avg_dtype", r->exp_avg_dtype)) ||
                        is_narrow(type_said(row, "exp_avg_sq_dtype", r->exp_avg_sq_dtype)) ||
                        is_narrow(type_said(row, "main_grads_dtype", r->main_grads_dtype));
    const enum said noted = optimizer_said(r->notes);
    const bool on = r->precision_aware_optimizer >= 0
                        ? r->precision_aware_optimizer == 1
                        : noted == SAID_ON || (noted == SAID_NOT && narrow);
    if (!on) {
        if (narrow)
            measured_row_note(row, "precision_aware_optimizer: off, so the types of its states "
                                   "are not read");
        return;
    }
    if (strcmp(row->backend, "megatron-lm") != 0 || row->zero_stage != 1) {
        measured_row_note(row, "precision_aware_optimizer: that of Megatron-core with ZeRO-1, "
                               "not simulated here");
        return;
    }
    if (r->precision_aware_optimizer < 0)
        measured_row_note(row, "precision_aware_optimizer: as %s",
                          noted == SAID_ON ? "its notes say" : "the types of its states say");
    cJSON_AddBoolToObject(training, "precision_aware_optimizer", true);
    const char *moment = type_of(row->context->arena, r->notes, "moments");
    add_type(training, row, "exp_avg_dtype", r->exp_avg_dtype, moment);
    add_type(training, row, "exp_avg_sq_dtype", r->exp_avg_sq_dtype, moment);
    const char *gradients = measured_says_short_main_gradients(r->notes) ? "bf16" : "";
    if (!is_wide(r->precision))
        add_type(training, row, "main_grads_dtype", r->main_grads_dtype, gradients);
    else if (is_narrow(r->main_grads_dtype))
        measured_row_note(row, "main_grads_dtype: %s goes with training in bf16, taken as fp32",
                          r->main_grads_dtype);
}

/* By the column, the stack's name or the notes. The precision-aware optimizer's main_grads_dtype
 * says it by itself. */
static void add_reduce_dtype(cJSON *training, struct measured_row *row, const char *precision) {
    const struct measured_run *r = &row->run;
    const char *type = r->reduce_dtype, *by = NULL;
    if (type[0] == '\0') {
        const cJSON *main_grads = cJSON_GetObjectItemCaseSensitive(training, "main_grads_dtype");
        if (main_grads != NULL) return;
        by = "stack";
        type = measured_reduce_type(r->stack);
        if (type != NULL && type[0] == '\0') {
            by = "notes";
            type = measured_reduce_type(r->notes);
        }
        if (type != NULL && type[0] == '\0' && strcmp(row->backend, "megatron-lm") == 0 &&
            measured_says_short_main_gradients(r->notes))
            type = "bf16";
    }
    if (type == NULL) {
        measured_row_note(row, "reduce_dtype: its %s say fp32 and bf16, taken as usual", by);
        return;
    }
    if (type[0] == '\0' || strcmp(type, "usual") == 0) return;
    if (is_wide(precision) && strcmp(type, "bf16") == 0) {
        measured_row_note(row, "reduce_dtype: bf16 goes with training in bf16, fp8 or fp4, taken "
                               "as usual");
        return;
    }
    if (by != NULL)
        measured_row_note(row, "reduce_dtype: %s, as its %s", type,
                          strcmp(by, "stack") == 0 ? "stack says" : "notes say");
    cJSON_AddStringToObject(training, "reduce_dtype", type);
}

/* By the column, the stack's name or the notes, in this order; NULL where none says. */
static const char *said_by(const struct measured_row *row, const char *cell,
                           const char *(*read)(const char *text), const char **by) {
    *by = "";
    if (cell[0] != '\0') return cell;
    const char *said = read(row->run.stack);
    *by = ", as its stack says";
    if (said != NULL) return said;
    *by = ", as its notes say";
    return read(row->run.notes);
}

/* What PyTorch's FSDP alone can choose. */
static void add_gradient_sync(cJSON *training, struct measured_row *row) {
    const struct stack *stack = row->out->stack;
    const char *by, *sync = said_by(row, row->run.gradient_sync, measured_gradient_sync, &by);
    const bool fsdp = strcmp(row->backend, "fsdp") == 0 && stack->gradient_buckets;
    if (sync == NULL || (!fsdp && by[0] != '\0')) return;
    if (!fsdp || row->zero_stage < 2 || row->pp > 1) {
        measured_row_note(row,
                          "gradient_sync: %s%s: FSDP chooses for sharded gradients without stages "
                          "alone, taken as usual",
                          sync, by);
        return;
    }
    measured_row_note(row, "gradient_sync: %s%s", sync, by[0] != '\0' ? by : ", as the row says");
    cJSON_AddStringToObject(training, "gradient_sync", sync);
}

/* What a cell in other words means: "Muon + AdamW", "adamw_torch_fused", "AdamW (fused)". */
static const char *optimizer_of(const char *said) {
    static const char *const others[] = { "8bit", "8-bit", "4bit", "4-bit", "mini", "adamax" };
    for (size_t i = 0; i < sizeof others / sizeof others[0]; i++)
        if (strcasestr(said, others[i]) != NULL) return said;
    if (strcasestr(said, "muon") != NULL) return "muon";
    if (strcasestr(said, "adamw") != NULL || strcasecmp(said, "adam") == 0) return "adamw";
    return strcasestr(said, "sgd") != NULL && strcasestr(said, "momentum") != NULL ? "sgd-momentum"
                                                                                   : said;
}

/* As the row says, else as its stack, which needs no word. Whether it is another than AdamW. */
static bool add_optimizer(cJSON *training, struct measured_row *row) {
    const char *by, *optimizer = said_by(row, row->run.optimizer, measured_optimizer, &by);
    const bool usual = row->out->stack->optimizer == STACK_MUON;
    if (optimizer != NULL) optimizer = optimizer_of(optimizer);
    if (optimizer != NULL && optimizer_index(optimizer) < 0) {
        measured_row_note(row, "optimizer: %s is not simulated, taken as usual", optimizer);
        optimizer = NULL;
    }
    if (optimizer == NULL) return usual;
    const bool other = strcmp(optimizer, "adamw") != 0;
    if (strcmp(optimizer, usual ? "muon" : "adamw") == 0) return other;
    measured_row_note(row, "optimizer: %s%s", optimizer, by[0] != '\0' ? by : ", as the row says");
    cJSON_AddStringToObject(training, "optimizer", optimizer);
    return other;
}

/* PyTorch's deterministic algorithms fill new tensors, Megatron-LM's mode until September 2026 too. */
static const char *deterministic_of(const struct measured_run *r) {
    static const char *const filled[] = { "deterministic algorithms",
                                          "use_deterministic_algorithms", "deterministic mode",
                                          "deterministic-mode" };
    if (r->deterministic[0] != '\0') return r->deterministic;
    for (size_t i = 0; i < sizeof filled / sizeof filled[0]; i++)
        if (measured_text_says(r->notes, filled[i])) return "filled";
    return measured_text_says(r->notes, "deterministic kernels") ? "kernels" : "";
}

static void add_deterministic(cJSON *training, struct measured_row *row) {
    const char *value = deterministic_of(&row->run);
    if (value[0] == '\0') return;
    cJSON_AddStringToObject(training, "deterministic", value);
    if (row->run.deterministic[0] == '\0')
        measured_row_note(row, "deterministic: %s, as its notes say", value);
}

/* Of PyTorch's AdamW. */
static void add_adamw_kernels(cJSON *training, struct measured_row *row) {
    const char *by, *kernels = said_by(row, row->run.adamw_kernels, measured_adamw_kernels, &by);
    if (row->run.adamw_kernels[0] == '\0' && measured_adamw_kernels(row->run.optimizer) != NULL) {
        kernels = measured_adamw_kernels(row->run.optimizer);
        by = ", as its optimizer says";
    }
    const bool pytorchs = strcmp(row->backend, "fsdp") == 0 &&
                          backend_adamw_kernels(row->out->stack) != ADAMW_KERNELS_USUAL;
    if (kernels == NULL || (!pytorchs && by[0] != '\0')) return;
    if (!pytorchs) {
        measured_row_note(row,
                          "adamw_kernels: %s is of PyTorch's AdamW, which %s does not run, "
                          "taken as usual",
                          kernels, row->out->stack->name);
        return;
    }
    measured_row_note(row, "adamw_kernels: %s%s", kernels,
                      by[0] != '\0' ? by : ", as the row says");
    cJSON_AddStringToObject(training, "adamw_kernels", kernels);
}

void measured_add_training(cJSON *root, struct measured_row *row) {
    const char *precision = row->run.precision;
    if (precision[0] == '\0') {
        struct gpu gpu = { .peak_flop_per_s = { [PRECISION_BF16] = 1 } };
        struct error unread = { 0 };
        hardware_gpu(row->context->arena, row->context->directory, row->out->hardware, &gpu,
                     &unread);
        precision = gpu.peak_flop_per_s[PRECISION_BF16] > 0 ? "bf16" : "fp16";
        measured_row_note(row, "precision: %s", precision);
    }
    cJSON *training = cJSON_AddObjectToObject(root, "training");
    cJSON *global = cJSON_AddObjectToObject(training, "global_batch"),
          *micro = cJSON_AddObjectToObject(training, "micro_batch");
    cJSON_AddNumberToObject(global, "samples", (double)row->global_batch);
    cJSON_AddNumberToObject(micro, "samples", (double)row->micro_batch);
    cJSON_AddStringToObject(training, "attention", row->attention);
    if (row->run.dropout >= 0) { /* the usual probability: kernels do not tell one from another */
        const bool hidden = row->run.dropout > 0, attention = row->run.dropout == 1;
        cJSON_AddNumberToObject(training, "hidden_dropout", hidden ? USUAL_DROPOUT : 0);
        cJSON_AddNumberToObject(training, "attention_dropout", attention ? USUAL_DROPOUT : 0);
    }
    add_deterministic(training, row);
    cJSON_AddStringToObject(training, "precision", precision);
    add_fp8_recipe(training, row);
    add_precision_aware(training, row);
    add_reduce_dtype(training, row, precision);
    add_gradient_sync(training, row);
    if (!add_optimizer(training, row)) add_adamw_kernels(training, row);
}
