/* measured_stack.c - the stack of a row: one of scenarios/stacks by its name, its words, its source
 * or what its notes say (measured_framework.c), a file of the user's, none at all, or one that runs
 * such a layout where nothing tells. What is not the name itself is noted; a name known by its family
 * alone or by halves, and one that nobody knows, have wider bands.
 */
#include <ctype.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>
#include "costmodel/generation.h"
#include "sim/study/measured/measured_row.h"
#include "sim/study/measured/measured_said.h"
#include "sim/study/measured/measured_words.h"

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
        return measured_of_year(r, 2023) ? "hf-fsdp" : "pytorch-fsdp2";
    if (few_bits && on_blackwell(row)) return "nemo-2025";
    const bool named = r->stack[0] != '\0' && !measured_names_no_stack(r);
    if (named && r->zero_stage >= 0 && !divided && strstr(r->modality, "text") != NULL)
        return measured_of_year(r, 2022) ? "hf-ddp" : "pytorch-fsdp2";
    return measured_of_year(r, 2022) ? "megatron-2022" : "megatron-core";
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
static const char *name_with_kernels(const struct measured_row *row, const char *plain) {
    const struct measured_run *r = &row->run;
    const struct stack_list *list = &row->context->stacks;
    const char *kind = kind_of_kernels(r);
    bool exact;
    if (kind == NULL) return plain;
    const struct stack *own = stack_find(list, plain, is_divided(r), &exact);
    if (own != NULL && has_kernels(own, kind)) return plain;
    const char *name = arena_format(row->context->arena, "%s-%s", plain, kind);
    const struct stack *other = stack_find(list, name, is_divided(r), &exact);
    return other != NULL && has_kernels(other, kind) ? name : plain;
}

/* A framework whose kernels may be compiled or not, and a row that does not say which. */
static void note_compiled(struct measured_row *row) {
    const struct measured_run *r = &row->run;
    const struct stack *stack = row->out->stack;
    bool exact;
    if (r->stack[0] == '\0' || stack_named(&row->context->stacks, r->stack) != NULL ||
        !measured_holds(stack->description, "compile") ||
        measured_says_kernels(r->stack) != KERNELS_UNSAID ||
        measured_says_kernels(r->notes) != KERNELS_UNSAID || has_kernels(stack, eager))
        return;
    const char *name = arena_format(row->context->arena, "%s-%s", r->stack, eager);
    const struct stack *other = stack_find(&row->context->stacks, name, is_divided(r), &exact);
    if (other == NULL || other == stack || !has_kernels(other, eager) ||
        strcmp(other->backend, stack->backend) != 0)
        return;
    measured_row_note(
        row,
        "stack: compiled kernels, though nothing says so; eager ones, some 10 to 25 %% slower, "
        "are those of %s",
        other->name);
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

/* A slip leaves the first letters and all but one in three of the others ("open-r1" is no
 * "openvla"); of short names too few are left to tell ("alpa" is no "alpaca"). */
static bool is_slip(const char *wanted, const char *name) {
    enum { ALIKE = 3, SHORTEST = 5, LETTERS_A_SLIP = 3 };
    if (strlen(wanted) < SHORTEST) return false;
    return strncasecmp(wanted, name, ALIKE) == 0 &&
           name_distance(wanted, name) <= (int)strlen(wanted) / LETTERS_A_SLIP &&
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

/* "model:qwen3" of the model alone, "source:a/b" of the source, "release:trl 1.13-" of its releases
 * from that on, "dated:2025-08:" of the first date in its name or notes, "a & b" of both: what its
 * file says the row must tell. */
static bool tells(const struct measured_row *row, const char *words) {
    static const char model[] = "model:", source[] = "source:", release[] = "release:",
                      dated[] = "dated:", both[] = " & ";
    const struct measured_run *r = &row->run;
    const char *rest = strstr(words, both);
    if (rest != NULL) {
        const char *first = arena_format(row->context->arena, "%.*s", (int)(rest - words), words);
        return tells(row, first) && tells(row, rest + strlen(both));
    }
    if (strncmp(words, model, strlen(model)) == 0)
        return measured_text_says(r->model, words + strlen(model));
    if (strncmp(words, source, strlen(source)) == 0)
        return measured_text_says(r->source, words + strlen(source));
    if (strncmp(words, release, strlen(release)) == 0) {
        const char *releases = words + strlen(release);
        return measured_release_says(row->context->arena, r->stack, releases) ||
               measured_release_says(row->context->arena, r->notes, releases);
    }
    if (strncmp(words, dated, strlen(dated)) == 0) {
        const char *months = words + strlen(dated);
        const char *told = arena_format(row->context->arena, "%s %s", r->stack, r->notes);
        return measured_text_is_dated(told, months);
    }
    return measured_text_says(r->model, words) || measured_text_says(r->source, words) ||
           measured_text_says(r->stack, words) || measured_text_says(r->precision, words) ||
           measured_text_says(r->notes, words);
}

static bool refines(const struct measured_row *row, const struct stack *stack,
                    const struct stack *named) {
    bool names = false, told = false;
    for (const char **name = stack->refines; *name != NULL; name++)
        names = names || strcmp(*name, named->name) == 0;
    for (const char **words = stack->told_by; names && !told && *words != NULL; words++)
        told = tells(row, *words);
    return told;
}

/* What a recipe or script makes of a framework may be a stack of its own, and so may be its
 * kernels for a model. Files of a user's may refine each other in a ring. */
static const struct stack *refined(const struct measured_row *row, const struct stack *stack) {
    const struct stack_list *list = &row->context->stacks;
    for (int64_t rounds = 0; rounds < list->count; rounds++) {
        const struct stack *better = NULL;
        for (int64_t i = 0; i < list->count && better == NULL; i++)
            if (refines(row, list->stacks[i], stack)) better = list->stacks[i];
        if (better == NULL || better == stack) break;
        stack = better;
    }
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
    const char *run = arena_format(arena, "%s %s", r->source, r->row_id);
    become(row, stack_of_run(list, row->out->stack, run),
           arena_format(arena, "not %s, as its source or id says", named));
    become(row, refined(row, row->out->stack), "as its model, source or notes say");
    if (measured_says_framework(r->notes, "liger"))
        become(row, stack_named(list, arena_format(arena, "%s-liger", row->out->stack->name)),
               "as its notes say");
    become(row, refined(row, row->out->stack), "as its model, source or notes say");
    const char *piped = row->out->stack->pipeline_stack;
    if (measured_given(r->pp, 1) > 1 && piped != NULL)
        become(row, stack_named(list, piped), arena_format(arena, "as %s runs pipelines", named));
}

/* How a stack was found that is not its name itself. */
static void note_found(struct measured_row *row, const char *how, const char *why) {
    const char *name = row->run.stack;
    const char *meant =
        name[0] != '\0' ? meant_by(row->context->arena, &row->context->stacks, name) : NULL;
    const char *quoted = name[0] != '\0' ? arena_format(row->context->arena, " \"%s\"", name) : "";
    measured_row_note(
        row, "stack%s%s: taken for %s%s%s", quoted, how, row->out->stack->name, why,
        meant == NULL ? "" : arena_format(row->context->arena, "; did you mean \"%s\"?", meant));
}

/* A stack whose name anybody would give, whatever the kernels and weights. */
static bool is_open(const char *name) {
    return strcmp(name, "pytorch-eager-2026") == 0;
}

/* A framework's own name that is a stack's too ("torchtitan"): no year is in it. */
static bool is_plain_name(const struct stack *stack, const char *name) {
    return strcasecmp(stack->name, name) == 0 && strchr(name, '-') == NULL;
}

/* Where no stack is named, the source's name may say one: "haotian-liu/LLaVA". */
static void find_stack(struct measured_row *row) {
    const struct measured_run *r = &row->run;
    const struct stack_list *list = &row->context->stacks;
    struct arena *arena = row->context->arena;
    const bool divided = is_divided(r), empty = r->stack[0] == '\0';
    bool exact = false, of_family = false, ignored;
    const char *plain = measured_code(arena, list, r->stack, divided);
    const char *name = name_with_kernels(row, plain);
    const struct stack *stack = stack_find(list, name, divided, &exact);
    const int64_t year = measured_year(r);
    if (stack != NULL && !exact && stack_name_year(name) == 0 && year > 0)
        stack =
            stack_find(list, arena_format(arena, "%s %ld", name, (long)year), divided, &ignored);
    if (stack != NULL && exact && year > 0 && is_plain_name(stack, name)) {
        const struct stack *of_year =
            stack_find(list, arena_format(arena, "%s %ld", name, (long)year), divided, &ignored);
        if (of_year != NULL && llabs(of_year->year - year) < llabs(stack->year - year))
            stack = of_year;
    }
    const bool open = stack_named(list, name) == NULL || is_open(name);
    const char *told = open ? measured_framework(arena, list, r, divided) : NULL;
    const struct stack *other = told != NULL ? stack_find(list, told, divided, &ignored) : NULL;
    const bool by_notes = other != NULL && other != stack;
    if (by_notes) stack = other;
    const char *slip = stack == NULL && !empty ? meant_by(arena, list, r->stack) : NULL;
    if (slip != NULL)
        stack = stack_find(list, year > 0 ? arena_format(arena, "%s %ld", slip, (long)year) : slip,
                           divided, &ignored);
    const bool named = stack != NULL;
    if (!named && empty) stack = stack_find(list, r->source, divided, &of_family);
    row->out->known_stack = stack != NULL;
    row->out->exact_stack = (exact && !by_notes) || of_family;
    row->out->half_known = by_notes || slip != NULL;
    row->out->stack = stack != NULL ? stack : stack_named(list, stack_of_layout(row));
    if (by_notes)
        note_found(row, " tells it by half", ", by notes, source and layout");
    else if (slip != NULL)
        measured_row_note(row, "stack \"%s\" is not known: taken for %s, of which it may be a slip",
                          r->stack, row->out->stack->name);
    else if (named && !exact)
        note_found(row, " is known by its family alone", "");
    else if (!named)
        note_found(row, empty ? ": none is named" : " is not known",
                   stack != NULL ? ", as its source" : "");
    else if (name != plain)
        measured_row_note(row, "stack: %s, as its notes say", stack->name);
    if (measured_year_is_of_fp16(r))
        measured_row_note(row, "stack: of 2022, as Megatron-LM in fp16 without a year");
    if (row->out->known_stack) refine(row);
    note_compiled(row);
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
