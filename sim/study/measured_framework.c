/* measured_framework.c - what trained, where the stack's name tells it by half or not at all.
 *
 * "deepspeed-2021" leaves open whose model it was, "my-trainer" everything. What the notes and the
 * layout say besides is put in the words that stacks have ("transformers ddp 2021"), for
 * stack_find(). Of models that write text, as the runs are that it was tried on.
 */
#include <ctype.h>
#include <string.h>
#include <strings.h>
#include "sim/study/measured_row.h"
#include "sim/study/measured_words.h"

/* Words of names that say how a model is trained, and not by whose code. */
static bool is_general(const char *word, size_t length) {
    static const char *const general[] = {
        "transformers", "huggingface", "hf",       "trainer", "accelerate", "trl",  "peft",
        "deepspeed",    "pytorch",     "torch",    "fsdp",    "ddp",        "zero", "compile",
        "compiled",     "eager",       "autocast", "amp",     "bf",         "fp",   "liger",
    };
    while (length > 0 && isdigit((unsigned char)word[length - 1]))
        length--;
    for (size_t i = 0; i < sizeof general / sizeof general[0]; i++)
        if (strlen(general[i]) == length && strncasecmp(word, general[i], length) == 0) return true;
    return false;
}

/* The name's general words and numbers, or its others and numbers. */
static const char *part_of(struct arena *arena, const char *name, bool general) {
    char *part = arena_text(arena, name);
    for (char *at = part; *at != '\0';) {
        size_t length = 0;
        while (isalnum((unsigned char)at[length]))
            length++;
        if (strspn(at, "0123456789") < length && is_general(at, length) != general)
            memset(at, '-', length);
        at += length + (at[length] != '\0');
    }
    return part;
}

static const struct stack *find(const struct stack_list *list, const char *name, bool divided) {
    bool exact;
    return stack_find(list, name, divided, &exact);
}

/* Its other words tell more than the general ones, alone or beside them ("litgpt eager"). */
static bool names_code(struct arena *arena, const struct stack_list *list, const char *name,
                       bool divided) {
    return find(list, name, divided) != find(list, part_of(arena, name, true), divided) ||
           find(list, part_of(arena, name, false), divided) != NULL;
}

const char *measured_code(struct arena *arena, const struct stack_list *list, const char *name,
                          bool divided) {
    const char *code = part_of(arena, name, false);
    const bool hidden =
        find(list, name, divided) == find(list, part_of(arena, name, true), divided);
    return hidden && find(list, code, divided) != NULL ? code : name;
}

struct told {
    const char *name, *notes;
};

static bool names(const struct told *told, const char *word) {
    return measured_text_says(told->name, word);
}

static bool says(const struct told *told, const char *word) {
    return names(told, word) || measured_text_says(told->notes, word);
}

static bool says_one(const char *text, const char *const *words) {
    for (; *words != NULL; words++)
        if (measured_text_says(text, *words)) return true;
    return false;
}

static bool is_compiled(const struct told *told) {
    return says(told, "torch.compile") || says(told, "compile") || says(told, "compiled");
}

/* Steps, not attention: "eager attention", "eager or SDPA". */
static bool says_eager(const char *notes) {
    static const char *const attention[] = { " attention", " or ", " (materialised" };
    static const char word[] = "eager";
    for (const char *at = notes; (at = strcasestr(at, word)) != NULL; at++) {
        const char *after = at + strlen(word);
        bool whole =
            (at == notes || !isalnum((unsigned char)at[-1])) && !isalnum((unsigned char)*after);
        for (size_t i = 0; i < sizeof attention / sizeof attention[0]; i++)
            whole = whole && strncasecmp(after, attention[i], strlen(attention[i])) != 0;
        if (whole) return true;
    }
    return false;
}

static bool is_eager(const struct told *told) {
    static const char *const words[] = { "compiled", "compilation", "compile", "torch.compile" };
    for (size_t i = 0; i < sizeof words / sizeof words[0]; i++)
        if (measured_text_denies(told->notes, words[i]) ||
            measured_text_denies(told->name, words[i]))
            return true;
    return names(told, "eager") || (says_eager(told->notes) && !is_compiled(told));
}

bool measured_is_eager(const struct measured_run *run) {
    const struct told told = { run->stack, run->notes };
    return is_eager(&told);
}

/* "weights, gradients and AdamW's states bf16", "all in bf16", "bf16 weights". */
static bool weights_are_bf16(const struct told *told) {
    static const char *const whole[] = { "all in bf16", "all bf16",     "bf16 weights",
                                         "pure bf16",   "weights bf16", "bfloat16 weights",
                                         NULL };
    static const char *const other[] = { "fp32", "float32", "autocast", "mixed", "with", ";" };
    enum { NEAR = 60 };
    if (names(told, "bf16") || says_one(told->notes, whole)) return true;
    for (const char *at = told->notes; (at = strcasestr(at, "weights")) != NULL; at++) {
        const char *found = strcasestr(at, "bf16"), *long_found = strcasestr(at, "bfloat16");
        if (found == NULL || (long_found != NULL && long_found < found)) found = long_found;
        if (found == NULL || found - at > NEAR) continue;
        bool clear = true;
        for (size_t i = 0; i < sizeof other / sizeof other[0]; i++) {
            const char *between = strcasestr(at, other[i]);
            clear = clear && (between == NULL || between > found);
        }
        if (clear) return true;
    }
    return false;
}

static const char *parallel(const char *text) {
    static const char *const fsdp[] = { "fsdp", "fsdp1", "fsdp2", NULL };
    static const char *const ddp[] = { "ddp", "DistributedDataParallel", NULL };
    if (measured_text_says(text, "deepspeed")) return "deepspeed";
    return says_one(text, fsdp) ? "fsdp" : says_one(text, ddp) ? "ddp" : NULL;
}

/* Which of its data-parallel engines ran: as named, as the notes say, else by what is sharded. */
static const char *engine(const struct told *told, int64_t zero_stage) {
    const char *word = parallel(told->name);
    if (word == NULL) word = parallel(told->notes);
    return word != NULL ? word : zero_stage <= 0 ? "ddp" : "deepspeed";
}

/* Only its loss, not its norms and gates. */
static bool only_loss(const struct told *told) {
    static const char *const words[] = { "fused head and cross entropy", "fused loss", NULL };
    return says_one(told->notes, words);
}

static const char *of_transformers(struct arena *arena, const struct told *told,
                                   int64_t zero_stage) {
    const bool liger = says(told, "liger"), bf16 = weights_are_bf16(told);
    if (is_compiled(told) && !is_eager(told))
        return liger && only_loss(told) ? "compile liger loss" : "transformers compile";
    if (liger && !bf16)
        return only_loss(told) ? "transformers ddp liger loss" : "transformers liger";
    if (bf16) return liger ? "transformers-bf16-liger" : "transformers-bf16";
    const char *by = engine(told, zero_stage);
    return arena_format(arena, "transformers%s%s", strcmp(by, "deepspeed") == 0 ? "-" : " ", by);
}

/* torch.compile came in March 2023, with PyTorch 2.0. */
static const char *of_pytorch(const struct told *told, const struct measured_run *run) {
    const bool autocast = says(told, "autocast") || says(told, "amp");
    const bool whole = run->zero_stage <= 0;
    if (is_eager(told)) {
        if (weights_are_bf16(told)) return "pytorch eager bf16";
        return autocast && whole ? "pytorch autocast" : "pytorch eager";
    }
    if (is_compiled(told)) return autocast && whole ? "nanogpt" : "pytorch";
    if (run->zero_stage == 3 && measured_named_until(run->stack, 2023)) return "hf fsdp";
    return autocast && whole ? "pytorch autocast" : "pytorch";
}

static bool names_pytorch(const struct told *told) {
    return names(told, "pytorch") || names(told, "torch");
}

static const char *const transformers[] = { "transformers", "hf",      "huggingface", "trl",
                                            "accelerate",   "trainer", "peft",        NULL };

/* It says both whose models run and which engine shares their gradients, or that they are compiled,
 * which goes before. */
static bool is_complete(const struct told *told) {
    if (names(told, "compile")) return says_one(told->name, transformers) || names_pytorch(told);
    if (parallel(told->name) == NULL || names(told, "liger")) return false;
    if (names_pytorch(told)) return true;
    return says_one(told->name, transformers) && (names(told, "bf16") || !weights_are_bf16(told));
}

/* "arXiv 2312.12391" is of 2023. */
static int64_t paper_year(const char *text) {
    const char *at = strcasestr(text, "arxiv");
    if (at == NULL) return 0;
    at += strcspn(at, "0123456789");
    if (strspn(at, "0123456789") != 4 || at[4] != '.') return 0;
    const int64_t year = 2000 + (at[0] - '0') * 10 + (at[1] - '0');
    return year >= STACK_YEAR_MIN && year <= STACK_YEAR_MAX ? year : 0;
}

int64_t measured_year(const struct measured_run *run) {
    const int64_t named = stack_name_year(run->stack), paper = paper_year(run->source);
    return named > 0 ? named : paper > 0 ? paper : stack_name_year(run->source);
}

/* What a general name of PyTorch stands for; NULL: itself. */
static const char *of_named_pytorch(struct arena *arena, const struct stack_list *list,
                                    const struct measured_run *run, const struct told *told,
                                    bool divided) {
    const bool kind_named = names(told, "compile") || names(told, "eager");
    if (is_eager(told) && weights_are_bf16(told)) return "pytorch eager bf16";
    if (!kind_named && names_code(arena, list, run->source, divided))
        return is_eager(told) ? arena_format(arena, "%s eager", run->source) : run->source;
    if (divided && !is_eager(told)) return NULL;
    const char *found = of_pytorch(told, run);
    return is_complete(told) && strcmp(found, "hf fsdp") != 0 ? NULL : found;
}

const char *measured_framework(struct arena *arena, const struct stack_list *list,
                               const struct measured_run *run, bool divided) {
    static const char *const transformers_notes[] = { "transformers", "hf trainer", "run_clm",
                                                      "trl", NULL };
    static const char *const pytorch[] = { "pytorch", "torch",    "fsdp",          "fsdp1", "fsdp2",
                                           "ddp",     "autocast", "torch.compile", NULL };
    static const char *const core[] = { "megatron-core", "mcore", "Transformer Engine", NULL };
    const struct told told = { run->stack, run->notes };
    const bool writes_text = strstr(run->modality, "text") != NULL;
    if (!writes_text || names_code(arena, list, run->stack, divided)) return NULL;
    const char *found = NULL;
    if (says_one(run->stack, transformers) || names(&told, "liger"))
        found = is_complete(&told) ? NULL : of_transformers(arena, &told, run->zero_stage);
    else if (names_pytorch(&told))
        found = of_named_pytorch(arena, list, run, &told, divided);
    else if (says_one(run->notes, transformers_notes))
        found = of_transformers(arena, &told, run->zero_stage);
    else if (run->stack[0] != '\0' && parallel(run->stack) == NULL && says_one(run->notes, core))
        found = "megatron-core";
    else if (divided && !is_eager(&told))
        found = NULL;
    else if (says(&told, "deepspeed") && !divided)
        found = "transformers-deepspeed";
    else if (is_eager(&told) || says_one(run->stack, pytorch) || says_one(run->notes, pytorch))
        found = of_pytorch(&told, run);
    const int64_t year = measured_year(run);
    return found == NULL || year == 0 || stack_name_year(found) > 0
               ? found
               : arena_format(arena, "%s %ld", found, (long)year);
}
