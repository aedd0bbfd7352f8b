/* measured_framework.c - what trained, where the stack's name tells it by half or not at all.
 *
 * "deepspeed-2021" leaves open whose model it was, "gpt-mine" everything. What the notes and the
 * layout say besides is put in the words that stacks have ("transformers ddp 2021"), for
 * stack_find(). Of models that write text, as the runs are that it was tried on, and where the name
 * says PyTorch or Transformers of encoders.
 */
#include <ctype.h>
#include <string.h>
#include <strings.h>
#include "sim/study/measured/measured_row.h"
#include "sim/study/measured/measured_said.h"
#include "sim/study/measured/measured_words.h"

/* Words of names that say how a model is trained, and not by whose code. */
static bool is_general(const char *word, size_t length) {
    static const char *const general[] = {
        "transformers", "huggingface", "hf",      "trainer",  "accelerate", "trl", "axolotl",
        "peft",         "deepspeed",   "pytorch", "torch",    "fsdp",       "ddp", "zero",
        "compile",      "compiled",    "eager",   "autocast", "amp",        "bf",  "fp",
        "liger",        "ligerkernel", "hugging", "face",     "dtensor",
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
    return stack_find_by_word(list, name, divided, &exact);
}

/* Its other words tell more than the general ones, alone or beside them ("litgpt eager"). */
static bool names_code(struct arena *arena, const struct stack_list *list, const char *name,
                       bool divided) {
    return find(list, name, divided) != find(list, part_of(arena, name, true), divided) ||
           find(list, part_of(arena, name, false), divided) != NULL;
}

/* Kernels are many frameworks' ("megatron-lm flash-attention"): the name without them, where that
 * still tells a stack. */
static const char *without_kernels(struct arena *arena, const struct stack_list *list,
                                   const char *name, bool divided) {
    static const char *const kernels[] = { "transformer-engine", "transformer engine",
                                           "flash-attention",    "flash attention",
                                           "flashattention",     "flash-attn",
                                           "flash_attn",         "flash_attention",
                                           "flashattn" };
    char *rest = arena_text(arena, name);
    bool any = false;
    for (size_t i = 0; i < sizeof kernels / sizeof kernels[0]; i++) {
        char *at = strcasestr(rest, kernels[i]);
        if (at == NULL) continue;
        memset(at, '-', strlen(kernels[i]));
        any = true;
    }
    return any && find(list, rest, divided) != NULL ? rest : name;
}

const char *measured_code(struct arena *arena, const struct stack_list *list, const char *name,
                          bool divided) {
    const char *plain = without_kernels(arena, list, name, divided);
    const char *code = part_of(arena, plain, false);
    const bool hidden =
        find(list, plain, divided) == find(list, part_of(arena, plain, true), divided);
    return hidden && find(list, code, divided) != NULL ? code : plain;
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

/* The name's word goes before the notes'. */
static enum measured_kernels kernels(const struct told *told) {
    const enum measured_kernels named = measured_says_kernels(told->name);
    return named != KERNELS_UNSAID ? named : measured_says_kernels(told->notes);
}

static bool is_compiled(const struct told *told) {
    return kernels(told) == KERNELS_COMPILED;
}

static bool is_eager(const struct told *told) {
    return kernels(told) == KERNELS_EAGER || kernels(told) == KERNELS_NOT_COMPILED;
}

bool measured_is_eager(const struct measured_run *run) {
    const struct told told = { run->stack, run->notes };
    return is_eager(&told);
}

static const char *const fsdp_words[] = { "fsdp", "fsdp1", "fsdp2", NULL };
static const char *const ddp_words[] = { "ddp", "DistributedDataParallel", NULL };

static const char *parallel(const char *name) {
    if (measured_text_says(name, "deepspeed")) return "deepspeed";
    return says_one(name, fsdp_words) ? "fsdp" : says_one(name, ddp_words) ? "ddp" : NULL;
}

static const char *parallel_of_notes(const char *notes) {
    static const char *const shards[] = { "full shard", "grad op", "no shard", NULL };
    if (measured_says_framework(notes, "deepspeed")) return "deepspeed";
    for (const char *const *word = fsdp_words; *word != NULL; word++)
        if (measured_says_framework(notes, *word)) return "fsdp";
    for (const char *const *word = shards; *word != NULL; word++)
        if (measured_says_framework(notes, *word)) return "fsdp";
    return measured_says_ddp(notes) ? "ddp" : NULL;
}

/* Which of its data-parallel engines ran, as named, else as the notes say; NULL: neither. */
static const char *said_engine(const struct told *told) {
    const char *named = parallel(told->name);
    return named != NULL ? named : parallel_of_notes(told->notes);
}

/* The stage that the row has, or that its name or notes say; -1: none. */
static int64_t stage(const struct measured_run *run) {
    const int64_t named = measured_zero_stage(run->stack);
    if (run->zero_stage >= 0) return run->zero_stage;
    return named >= 0 ? named : measured_says_zero_stage(run->notes);
}

/* As said, else by what is sharded. */
static const char *engine(const struct told *told, int64_t zero_stage) {
    const char *word = said_engine(told);
    return word != NULL ? word : zero_stage <= 0 ? "ddp" : "deepspeed";
}

/* Not "no autocast". */
static bool autocasts(const struct told *told) {
    return names(told, "autocast") || names(told, "amp") ||
           measured_says_framework(told->notes, "autocast") ||
           measured_says_framework(told->notes, "amp");
}

/* Autocast over them, or nothing in fewer bits at all: either way the same modules run. */
static bool computes_from_fp32(const struct told *told, const struct measured_run *run) {
    return autocasts(told) || strcasecmp(run->precision, "fp32") == 0 ||
           strcasecmp(run->precision, "tf32") == 0;
}

/* DeepSpeed keeps fp32 copies whatever the weights are. */
static bool weights_are_bf16(const struct told *told) {
    if (names(told, "deepspeed") || measured_says_framework(told->notes, "deepspeed")) return false;
    if (measured_says_fp32_weights(told->notes)) return false;
    if (measured_says_bf16_weights(told->notes)) return true; /* whom autocast casts no more */
    return names(told, "bf16") && !autocasts(told);
}

static const char *const transformers[] = { "transformers", "hugging face", "hf",
                                            "huggingface",  "trl",          "accelerate",
                                            "peft",         "axolotl",      NULL };
static const char *const liger_words[] = { "liger", "ligerkernel", NULL };

/* Not "use_liger_False". */
static bool notes_say_liger(const struct told *told) {
    return measured_says_framework(told->notes, "liger") ||
           measured_says_framework(told->notes, "ligerkernel");
}

/* Only its loss, not its norms and gates. */
static bool only_loss(const struct told *told) {
    static const char *const words[] = { "fused head and cross entropy",
                                         "(fused loss)",
                                         "fused loss alone",
                                         "fused loss only",
                                         "only the fused loss",
                                         NULL };
    return says_one(told->notes, words);
}

static const char *of_transformers(struct arena *arena, const struct told *told,
                                   int64_t zero_stage) {
    const bool bf16 = weights_are_bf16(told),
               liger = says_one(told->name, liger_words) || notes_say_liger(told);
    if (is_compiled(told))
        return liger && only_loss(told) ? "compile liger loss"
               : bf16                   ? "transformers bf16 compile"
                                        : "transformers compile";
    const char *said = said_engine(told);
    if (liger && !bf16 && said != NULL && strcmp(said, "deepspeed") == 0)
        return only_loss(told) ? "deepspeed liger loss" : "transformers deepspeed liger";
    if (liger && !bf16)
        return only_loss(told) ? "transformers ddp liger loss" : "transformers liger";
    if (bf16) return liger ? "transformers-bf16-liger" : "transformers-bf16";
    const char *by = engine(told, zero_stage);
    return arena_format(arena, "transformers%s%s", strcmp(by, "deepspeed") == 0 ? "-" : " ", by);
}

/* One GPU shards nothing, whatever the notes tell of others. */
static bool shards(const struct told *told, const struct measured_run *run, const char *engine) {
    const char *by = said_engine(told);
    if (run->gpu_count == 1) return false;
    return stage(run) == 3 || (stage(run) < 0 && by != NULL && strcmp(by, engine) == 0);
}

/* Each rank has all parameters. */
static bool is_whole(const struct told *told, const struct measured_run *run) {
    const bool parts = shards(told, run, "fsdp") || shards(told, run, "deepspeed");
    return run->gpu_count == 1 || (stage(run) <= 0 && !parts);
}

enum { LAST_YEAR_BEFORE_COMPILE = 2022 };
/* torch.compile came in March 2023, with PyTorch 2.0. */
static const char *of_pytorch(const struct told *told, const struct measured_run *run) {
    const bool autocast = computes_from_fp32(told, run), whole = is_whole(told, run);
    if (is_eager(told)) {
        if (weights_are_bf16(told)) return "pytorch eager bf16";
        return autocast && whole ? "pytorch autocast" : "pytorch eager";
    }
    const bool sharded = shards(told, run, "fsdp");
    if (!is_compiled(told) && measured_of_year(run, LAST_YEAR_BEFORE_COMPILE))
        return sharded ? "hf fsdp" : whole ? "pytorch autocast" : "pytorch eager";
    if (is_compiled(told) && weights_are_bf16(told) && whole) return "transformers bf16 compile";
    /* somebody's own model is compiled in one piece, its loss too, under autocast unless denied,
     * by whom nothing is sharded */
    const bool other = says(told, "shards") || (!autocast && says(told, "autocast"));
    if (is_compiled(told)) return whole && !other ? "nanogpt" : "pytorch";
    if (sharded && measured_of_year(run, 2023)) return "hf fsdp";
    return autocast && whole ? "pytorch autocast" : "pytorch";
}

static bool names_pytorch(const struct told *told) {
    return names(told, "pytorch") || names(told, "torch");
}

/* It says both whose models run and which engine shares their gradients, or that they are compiled,
 * which goes before. */
static bool is_complete(const struct told *told) {
    if (names(told, "compile") && says_one(told->name, transformers))
        return names(told, "bf16") || !weights_are_bf16(told);
    if (names(told, "compile")) return names_pytorch(told);
    if (parallel(told->name) == NULL || says_one(told->name, liger_words)) return false;
    const bool hf = says_one(told->name, transformers);
    if (hf && (is_compiled(told) || notes_say_liger(told))) return false;
    if (names_pytorch(told)) return true;
    if (hf && names(told, "fsdp2")) return false; /* a word of PyTorch's own models */
    return hf && (names(told, "bf16") || !weights_are_bf16(told));
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

/* Megatron-LM trains in bf16 since, where the GPU has it. */
enum { LAST_YEAR_OF_FP16 = 2022 };

/* However it is spelt: "8x NVIDIA A100-SXM4-80GB". */
static bool is_ampere(const char *hardware) {
    return strcasestr(hardware, "a100") != NULL || strcasestr(hardware, "a800") != NULL;
}

/* Behind the stack's first word in source or notes: "NeMo 24.07", "llm-foundry 2023"; or of a release there
 * of what it runs on ("torch 2.1"). */
static int64_t year_beside(const struct measured_run *run) {
    enum { SHORTEST = 4, LONGEST = 32, VERSION = 12 };
    const char *const texts[] = { run->source, run->notes };
    size_t length = strcspn(run->stack, " ,;(0123456789");
    while (length > 0 && !isalnum((unsigned char)run->stack[length - 1]))
        length--;
    const bool tells = length >= SHORTEST && length < LONGEST;
    char word[LONGEST] = "";
    if (tells) memcpy(word, run->stack, length);
    for (size_t i = 0; tells && i < sizeof texts / sizeof texts[0]; i++)
        for (const char *at = strcasestr(texts[i], word); at != NULL;
             at = strcasestr(at + 1, word)) {
            if ((at > texts[i] && isalnum((unsigned char)at[-1])) ||
                strchr(" -:=v", at[length]) == NULL)
                continue;
            char behind[VERSION + 1] = "";
            strncat(behind, at + length, VERSION);
            behind[1 + strcspn(behind + 1, " ,;)(")] = '\0';
            const int64_t year = stack_name_year(behind);
            if (year > 0) return year;
        }
    for (size_t i = 0; i < sizeof texts / sizeof texts[0]; i++) {
        const int64_t year = measured_release_year_under(run->stack, texts[i]);
        if (year > 0) return year;
    }
    return 0;
}

bool measured_year_is_of_fp16(const struct measured_run *run) {
    static const char *const codes[] = { "lm", "deepspeed", NULL };
    return stack_name_year(run->stack) == 0 && measured_release_year(run->stack) == 0 &&
           paper_year(run->source) == 0 && strcmp(run->precision, "fp16") == 0 &&
           !(run->lora_rank > 0) && !measured_is_file(run->stack) &&
           measured_text_says(run->stack, "megatron") && says_one(run->stack, codes) &&
           !measured_text_says(run->stack, "core") &&
           measured_says_attention(run->stack)[0] == '\0' && is_ampere(run->hardware);
}

int64_t measured_year(const struct measured_run *run) {
    const int64_t named = stack_name_year(run->stack);
    if (measured_year_is_of_fp16(run)) return LAST_YEAR_OF_FP16;
    const int64_t released = named > 0 ? 0 : measured_release_year(run->stack);
    if (named > 0 || released > 0) return named > 0 ? named : released;
    const int64_t printed = paper_year(run->source);
    return printed > 0 ? printed : year_beside(run);
}

bool measured_of_year(const struct measured_run *run, int64_t last) {
    const int64_t year = measured_year(run);
    return year > 0 && year <= last;
}

/* "VectorInstitute/vectorlm, a table": the repository, where its own code shards by PyTorch. */
static const char *repository(struct arena *arena, const struct stack_list *list,
                              const char *source, bool divided) {
    const size_t length = strcspn(source, " ,;(");
    const char *name = arena_format(arena, "%.*s", (int)length, source);
    if (strchr(name, '/') == NULL || !names_code(arena, list, name, divided)) return NULL;
    const struct stack *found = find(list, name, divided);
    return found != NULL && strcmp(found->backend, "fsdp") == 0 ? name : NULL;
}

/* What a general name of PyTorch stands for; NULL: itself. */
static const char *of_named_pytorch(struct arena *arena, const struct stack_list *list,
                                    const struct measured_run *run, const struct told *told,
                                    bool divided) {
    const bool kind_named = measured_says_kernels(told->name) != KERNELS_UNSAID;
    if (is_eager(told) && weights_are_bf16(told)) return "pytorch eager bf16";
    const char *own = kind_named ? NULL : repository(arena, list, run->source, divided);
    if (own != NULL) return is_eager(told) ? arena_format(arena, "%s eager", own) : own;
    if (divided && !is_eager(told)) return NULL;
    if (!divided && is_eager(told) && computes_from_fp32(told, run) && is_whole(told, run))
        return "pytorch autocast";
    const char *found = of_pytorch(told, run);
    /* "pytorch-ddp" says nothing of the kernels, which notes of autocast tell */
    const bool by_autocast = names(told, "ddp") && strcmp(found, "pytorch autocast") == 0;
    const bool before = !is_compiled(told) && measured_of_year(run, LAST_YEAR_BEFORE_COMPILE);
    const bool complete = is_complete(told) && strcmp(found, "hf fsdp") != 0 && !by_autocast &&
                          !before && !(is_compiled(told) && strcmp(found, "pytorch") != 0);
    return complete ? NULL : found;
}

/* What the notes say trains, as stacks' names begin; NULL: none of these. */
static const char *framework_of_notes(const char *notes) {
    static const char *const known[][2] = {
        { "transformers", "transformers" },
        { "hf trainer", "transformers" },
        { "run clm", "transformers" },
        { "face trainer", "transformers" },
        { "huggingface trainer", "transformers" },
        { "trl", "transformers" },
        { "megatron core", "megatron-core" },
        { "mcore", "megatron-core" },
        { "transformer engine", "megatron-core" },
        { "megatron lm", "megatron-lm" },
        { "megatron", "megatron-lm" },
        { "nemo", "nemo" },
        { "jax", "jax" },
    };
    for (size_t i = 0; i < sizeof known / sizeof known[0]; i++)
        if (measured_says_framework(notes, known[i][0])) return known[i][1];
    return NULL;
}

/* A name that nobody knows: what the notes say trains, else somebody's own PyTorch if they speak of
 * it. Names of an engine alone ("fsdp2-2025") are PyTorch's. */
static const char *of_notes(struct arena *arena, const struct measured_run *run,
                            const struct told *told, bool divided) {
    static const char *const pytorch[] = { "pytorch", "torch", NULL };
    const char *framework = framework_of_notes(run->notes);
    const bool transformers_train = framework != NULL && strcmp(framework, "transformers") == 0;
    if (transformers_train) return of_transformers(arena, told, stage(run));
    if (run->stack[0] == '\0') framework = NULL;
    if (framework != NULL && parallel(run->stack) == NULL) return framework;
    if (divided && !is_eager(told)) return NULL;
    if (strcmp(engine(told, 0), "deepspeed") == 0 && !divided) return "transformers-deepspeed";
    const bool speaks = kernels(told) != KERNELS_UNSAID || says_one(run->stack, pytorch) ||
                        parallel(run->stack) != NULL || parallel_of_notes(run->notes) != NULL ||
                        measured_says_framework(run->notes, "pytorch") ||
                        measured_says_framework(run->notes, "torch") || says(told, "autocast") ||
                        says(told, "amp");
    return speaks ? of_pytorch(told, run) : NULL;
}

const char *measured_framework(struct arena *arena, const struct stack_list *list,
                               const struct measured_run *run, bool divided) {
    const struct told told = { run->stack, run->notes };
    const bool writes_text = strstr(run->modality, "text") != NULL; /* "vision+text" too */
    const bool encoder = strcmp(run->modality, "encoder") == 0;
    const char *found;
    const char *plain = without_kernels(arena, list, run->stack, divided);
    if (!(writes_text || encoder) || names_code(arena, list, plain, divided)) return NULL;
    if (says_one(run->stack, transformers) || says_one(run->stack, liger_words))
        found = is_complete(&told) ? NULL : of_transformers(arena, &told, stage(run));
    else if (names_pytorch(&told))
        found = of_named_pytorch(arena, list, run, &told, divided);
    else if (names(&told, "trainer") && parallel(run->stack) != NULL)
        return NULL; /* "trainer-ddp": of Transformers, by its word */
    else if (encoder)
        return NULL; /* of nobody's models that are known: not tried */
    else
        found = of_notes(arena, run, &told, divided);
    const int64_t year = measured_year(run);
    return found == NULL || year == 0 || stack_name_year(found) > 0
               ? found
               : arena_format(arena, "%s %ld", found, (long)year);
}
