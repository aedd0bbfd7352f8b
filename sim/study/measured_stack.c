/* measured_stack.c - the stack of a row: one of scenarios/stacks by its name, its words, its source
 * or what its notes say (measured_framework.c), a file of the user's, none at all, or one that runs
 * such a layout where nothing tells. What is not the name itself is noted, and widens the band.
 */
#include <ctype.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>
#include "costmodel/generation.h"
#include "sim/study/measured_row.h"
#include "sim/study/measured_words.h"

static const struct stack *stack_named(const struct stack_list *list, const char *name) {
    for (int64_t i = 0; i < list->count; i++)
        if (strcmp(list->stacks[i]->name, name) == 0) return list->stacks[i];
    return NULL;
}

/* ---- files of one's own, and none ---- */

/* Each file is read once: rows of one stack share it, as those of a shipped one do. */
struct own_stack {
    const char *path;
    const struct stack *stack;
    const struct own_stack *next;
};

const struct stack *measured_own_stack(const struct measured_context *context, const char *path,
                                       const char **why_not) {
    struct arena *arena = context->arena;
    for (const struct own_stack *own = *context->own_stacks; own != NULL; own = own->next)
        if (strcmp(own->path, path) == 0) return own->stack;
    struct error err = { 0 };
    const struct stack *stack = stack_load(arena, context->directory, path, &err);
    if (stack == NULL) {
        *why_not = arena_format(arena, "%.*s", (int)strcspn(err.text, "\n"), err.text);
        return NULL;
    }
    struct own_stack *own = arena_new(arena, struct own_stack);
    *own = (struct own_stack){ path, stack, *context->own_stacks };
    *context->own_stacks = own;
    return stack;
}

enum validation_skip measured_read_own_stack(struct measured_row *row) {
    struct measured_run *r = &row->run;
    const char *path = r->stack, *why_not = "";
    if (!measured_is_file(path)) return SKIP_NOTHING;
    row->out->stack = measured_own_stack(row->context, path, &why_not);
    if (row->out->stack == NULL) return measured_skip_at(row, SKIP_VALUE, "stack", why_not);
    row->out->layout_stack = path;
    row->out->exact_stack = row->out->known_stack = true;
    r->stack = row->out->stack->name;
    return SKIP_NOTHING;
}

bool measured_names_no_stack(const struct measured_run *run) {
    return strcasecmp(run->stack, "none") == 0;
}

const struct stack *measured_no_stack(void) {
    static const char *nothing[] = { NULL };
    static const struct stack none = { .name = "none",
                                       .description = "",
                                       .words = nothing,
                                       .runs = nothing,
                                       .refines = nothing,
                                       .told_by = nothing,
                                       .backend = "",
                                       .time_rows = nothing,
                                       .memory_rows = nothing,
                                       .multimodal_band = NAN };
    return &none;
}

/* ---- what names that tell nothing stand for ---- */

static const char *const fallback_stacks[] = { "hf-deepspeed",     "hf-fsdp",       "pytorch-fsdp2",
                                               "megatron-2022",    "megatron-core", "nemo-2025",
                                               "torchtitan-eager", "hf-ddp" };

bool measured_has_fallbacks(const struct measured_context *context, struct error *err) {
    for (size_t i = 0; i < sizeof fallback_stacks / sizeof fallback_stacks[0]; i++)
        if (stack_named(&context->stacks, fallback_stacks[i]) == NULL)
            return error_set(err,
                             "%s/stacks has no %s.json, which stands for stacks that are not known",
                             context->directory, fallback_stacks[i]);
    return true;
}

bool measured_named_until(const char *stack, int64_t last) {
    const int64_t year = stack_name_year(stack);
    return year > 0 && year <= last;
}

static bool on_blackwell(const struct measured_row *row) {
    const char *ignored = "", *wanted = row->run.hardware;
    const char *gpu = measured_is_file(wanted)
                          ? measured_hardware_file(row->context->arena, wanted, &ignored)
                          : measured_hardware(row->context, wanted, &ignored);
    return gpu != NULL && gpu_generation_of(gpu) == GENERATION_BLACKWELL;
}

static bool is_divided(const struct measured_run *r) {
    return measured_given(r->tp, 1) > 1 || measured_given(r->pp, 1) > 1;
}

/* PyTorch compiles since March 2023 (2.0): what shards parameters and names a year up to then is
 * eager. Runs in 8 and 4 bits on Blackwell are those of NVIDIA's recipes and of MLPerf's logs made
 * with them, in CUDA graphs. A name that is not known is not Megatron's: what divides nothing is
 * then somebody's own PyTorch. */
static const char *stack_of_layout(const struct measured_row *row) {
    const struct measured_run *r = &row->run;
    const bool few_bits = strcmp(r->precision, "fp8") == 0 || strcmp(r->precision, "fp4") == 0;
    const bool divided = is_divided(r);
    if (strstr(r->modality, "vision") != NULL && !divided) return "hf-deepspeed";
    /* As the public trainers are: facebookresearch/DiT, Open-Sora, Diffusers. */
    if (measured_is_diffusion(r) && !divided && !few_bits)
        return r->zero_stage == 3 ? "torchtitan-eager" : "hf-ddp";
    if (r->zero_stage == 3 && measured_given(r->tp, 1) == 1)
        return measured_named_until(r->stack, 2023) ? "hf-fsdp" : "pytorch-fsdp2";
    if (few_bits && on_blackwell(row)) return "nemo-2025";
    const bool named = r->stack[0] != '\0' && !measured_names_no_stack(r);
    if (named && r->zero_stage >= 0 && !divided && strstr(r->modality, "text") != NULL)
        return measured_named_until(r->stack, 2022) ? "hf-ddp" : "pytorch-fsdp2";
    return measured_named_until(r->stack, 2022) ? "megatron-2022" : "megatron-core";
}

/* ---- a framework's other kernels ---- */

static const char blocking_launches[] = "CUDA_LAUNCH_BLOCKING=1";
static const char eager[] = "eager", blocking[] = "blocking";

/* What the notes or the stack's name say of the kernels, as stacks name it; NULL: nothing. */
static const char *kind_of_kernels(const struct measured_run *r) {
    if (measured_is_eager(r)) return eager;
    return measured_text_says(r->notes, blocking_launches) ? blocking : NULL;
}

static bool has_kernels(const struct stack *stack, const char *kind) {
    if (kind != eager) return stack->blocking_launches_gpus > 0;
    return measured_holds(stack->name, eager) ||
           measured_holds(stack->description, "eager kernels");
}

/* "FSDP, not compiled": the same framework's eager kernels are another stack, and so are those
 * that CUDA_LAUNCH_BLOCKING=1 waits for. A framework without such a stack keeps its name, whole. */
static const char *name_with_kernels(const struct measured_row *row) {
    const struct measured_run *r = &row->run;
    const struct stack_list *list = &row->context->stacks;
    const char *kind = kind_of_kernels(r);
    bool exact;
    const char *plain = measured_code(row->context->arena, list, r->stack, is_divided(r));
    if (kind == NULL) return plain;
    const struct stack *own = stack_find(list, plain, is_divided(r), &exact);
    if (own != NULL && has_kernels(own, kind)) return plain;
    const char *name = arena_format(row->context->arena, "%s-%s", plain, kind);
    const struct stack *other = stack_find(list, name, is_divided(r), &exact);
    return other != NULL && has_kernels(other, kind) ? name : plain;
}

/* Of the stack that was chosen, on so many GPUs. */
void measured_note_launches(struct measured_row *row) {
    const struct stack *stack = row->out->stack;
    const int64_t least = stack->blocking_launches_gpus;
    if (!measured_text_says(row->run.notes, blocking_launches)) return;
    if (measured_names_no_stack(&row->run))
        measured_row_note(row, "notes: %s is not simulated without a stack", blocking_launches);
    else if (least == 0)
        measured_row_note(row, "notes: %s is not simulated with %s", blocking_launches,
                          stack->name);
    else if (row->run.gpu_count < least)
        measured_row_note(row, "notes: %s is not simulated with %s on fewer than %ld GPUs",
                          blocking_launches, stack->name, (long)least);
}

/* ---- slips of the pen ---- */

static const char *name_at(const void *names, size_t index) {
    return ((const char *const *)names)[index];
}

/* Another release or year is no slip. */
static bool differs_in_letters(const char *a, const char *b) {
    for (;; a++, b++) {
        a += strspn(a, "0123456789.");
        b += strspn(b, "0123456789.");
        if (*a != *b) return true;
        if (*a == '\0') return false;
    }
}

/* A slip leaves the first letters and most of the others. */
static bool is_slip(const char *wanted, const char *name) {
    enum { ALIKE = 3, LONGER = 2 };
    const int64_t longer = (int64_t)strlen(wanted) - (int64_t)strlen(name);
    return strncasecmp(wanted, name, ALIKE) == 0 && llabs(longer) <= LONGER &&
           differs_in_letters(wanted, name);
}

static char *dashed(struct arena *arena, const char *name) {
    char *text = arena_text(arena, name);
    for (char *c = text; *c != '\0'; c++)
        *c = *c == '_' || *c == ' ' ? '-' : (char)tolower((unsigned char)*c);
    return text;
}

static const char *meant_by(struct arena *arena, const struct stack_list *list, const char *name) {
    char *wanted = dashed(arena, name);
    char *year = strrchr(wanted, '-');
    if (year != NULL && stack_name_year(year) > 0) *year = '\0';
    size_t count = 0, limit = 0;
    for (int64_t i = 0; i < list->count; i++)
        for (const char **word = list->stacks[i]->words; *word != NULL; word++)
            limit++;
    const char **names = arena_array(arena, const char *, (int64_t)limit + list->count + 1);
    for (int64_t i = 0; i < list->count; i++) {
        names[count++] = list->stacks[i]->name;
        for (const char **word = list->stacks[i]->words; *word != NULL; word++)
            names[count++] = *word;
    }
    const char *near = nearest_name(wanted, count, name_at, names);
    if (near == NULL || strstr(wanted, dashed(arena, near)) != NULL) return NULL;
    return is_slip(wanted, near) ? near : NULL;
}

/* ---- the choice ---- */

static bool says_one(const struct measured_run *r, const char *const *words) {
    for (; *words != NULL; words++)
        if (measured_text_says(r->model, *words) || measured_text_says(r->source, *words) ||
            measured_text_says(r->notes, *words))
            return true;
    return false;
}

static bool refines(const struct stack *stack, const char *name) {
    for (const char *const *refined = stack->refines; *refined != NULL; refined++)
        if (strcmp(*refined, name) == 0) return true;
    return false;
}

/* What a recipe or script makes of a framework may be a stack of its own, and so may be its
 * kernels for a model. */
static const struct stack *refined(const struct measured_row *row, const struct stack *stack) {
    const struct stack_list *list = &row->context->stacks;
    for (int64_t i = 0; i < list->count; i++)
        if (refines(list->stacks[i], stack->name) && says_one(&row->run, list->stacks[i]->told_by))
            return refined(row, list->stacks[i]);
    return stack;
}

/* Notes why where it becomes another one. */
static void become(struct measured_row *row, const struct stack *stack, const char *why) {
    if (stack == NULL || stack == row->out->stack) return;
    row->out->stack = stack;
    measured_row_note(row, "stack: %s, %s", stack->name, why);
}

/* What else the row tells of a stack that its name, or its source, says. */
static void refine(struct measured_row *row) {
    const struct measured_run *r = &row->run;
    const struct stack_list *list = &row->context->stacks;
    struct arena *arena = row->context->arena;
    const char *named = row->out->stack->name;
    const char *run =
        arena_format(arena, "%s %s %s %s", r->source, r->row_id, r->model, r->precision);
    become(row, stack_of_run(list, row->out->stack, run),
           arena_format(arena, "not %s, as its source, id, model and precision say", named));
    become(row, refined(row, row->out->stack), "as its model, source or notes say");
    if (measured_text_says(r->notes, "liger"))
        become(row, stack_named(list, arena_format(arena, "%s-liger", row->out->stack->name)),
               "as its notes say");
    const char *piped = row->out->stack->pipeline_stack;
    if (measured_given(r->pp, 1) > 1 && piped != NULL)
        become(row, stack_named(list, piped), arena_format(arena, "as %s runs pipelines", named));
}

/* Where no stack is named, the source's name may say one: "haotian-liu/LLaVA". */
static void find_stack(struct measured_row *row) {
    const struct measured_run *r = &row->run;
    const struct stack_list *list = &row->context->stacks;
    struct arena *arena = row->context->arena;
    const bool divided = is_divided(r), empty = r->stack[0] == '\0';
    bool exact = false, by_notes = false, by_source = false;
    const char *name = name_with_kernels(row);
    const struct stack *stack = stack_find(list, name, divided, &exact);
    const int64_t year = measured_year(r);
    if (stack != NULL && !exact && stack_name_year(name) == 0 && year > 0) {
        name = arena_format(arena, "%s %ld", name, (long)year);
        stack = stack_find(list, name, divided, &exact);
        exact = false;
    }
    const char *told =
        stack_named(list, name) == NULL ? measured_framework(arena, list, r, divided) : NULL;
    if (told != NULL) {
        bool ignored;
        const struct stack *other = stack_find(list, told, divided, &ignored);
        by_notes = other != NULL && other != stack;
        if (by_notes) stack = other;
    }
    if (stack == NULL && empty) {
        stack = stack_find(list, r->source, divided, &exact);
        by_source = stack != NULL;
    }
    row->out->known_stack = stack != NULL;
    row->out->exact_stack = exact && !by_notes;
    if (stack == NULL) stack = stack_named(list, stack_of_layout(row));
    row->out->stack = stack;
    if (row->out->known_stack) refine(row);
    if (row->out->exact_stack && !by_source) {
        if (name != r->stack) measured_row_note(row, "stack: %s, as its notes say", stack->name);
        return;
    }
    const char *how = empty                   ? ": none is named"
                      : by_notes              ? " tells it by half"
                      : row->out->known_stack ? " is known by its family alone"
                                              : " is not known";
    const char *why = by_notes ? ", by its notes and layout" : by_source ? ", as its source" : "";
    const char *meant = empty ? NULL : meant_by(arena, list, r->stack);
    const char *quote = empty ? "" : "\"";
    measured_row_note(row, "stack%s%s%s%s%s: taken for %s%s%s", empty ? "" : " ", quote, r->stack,
                      quote, how, stack->name, why,
                      meant == NULL ? "" : arena_format(arena, "; did you mean \"%s\"?", meant));
}

/* Kernels have no stack; what the row leaves blank has to be that of one. */
static void choose_none(struct measured_row *row) {
    row->out->stack = stack_named(&row->context->stacks, stack_of_layout(row));
    row->out->layout_stack = "none";
    measured_row_note(row, "stack: none: kernels as the profile has them, blanks as with %s",
                      row->out->stack->name);
}

void measured_choose_stack(struct measured_row *row) {
    if (row->out->stack != NULL) return; /* a file */
    if (measured_names_no_stack(&row->run)) {
        choose_none(row);
        return;
    }
    find_stack(row);
    row->out->layout_stack = row->out->stack->name;
}
