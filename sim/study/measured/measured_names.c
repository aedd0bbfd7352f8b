/* measured_names.c - names that sources write in their own ways: GPUs, and models that say by their
 * name what they are.
 *
 * A profile fits if the first part of its name is one of the source's ("NVIDIA H100 80GB HBM3":
 * h100, 80g), and of those the one with the most parts in common.
 */
#include <ctype.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include "sim/base/folder_names.h"
#include "sim/study/measured/measured_clause.h"
#include "sim/study/measured/measured_parts.h"
#include "sim/study/measured/measured_row.h"
#include "sim/study/measured/measured_said.h"
#include "sim/study/measured/measured_words.h"

static bool is_number(const char *part) {
    return part[0] != '\0' && part[strspn(part, "0123456789")] == '\0';
}

/* "8xh100" and "h100x8" without how many there are. */
static const char *one_of_many(struct arena *arena, const char *part) {
    const size_t digits = strspn(part, "0123456789");
    if (digits > 0 && part[digits] == 'x' && isalpha((unsigned char)part[digits + 1]))
        return part + digits + 1;
    const char *times = strrchr(part, 'x');
    if (times != NULL && times > part && isalpha((unsigned char)part[0]) &&
        isdigit((unsigned char)times[-1]) && is_number(times + 1))
        return arena_format(arena, "%.*s", (int)(times - part), part);
    return part;
}

/* The parts of a GPU's name, in which "H-100" and "GB 200" are one. */
static struct measured_parts hardware_parts(struct arena *arena, const char *wanted) {
    const struct measured_parts all = measured_parts_of(arena, wanted);
    struct measured_parts parts = { .count = 0 };
    for (int64_t i = 0; i < all.count; i++) {
        const char *part = one_of_many(arena, all.text[i]);
        const char *next = i + 1 < all.count ? all.text[i + 1] : "";
        if (is_number(part) &&
            (strcmp(next, "g") == 0 || strcmp(next, "gb") == 0 || strcmp(next, "gib") == 0)) {
            parts.text[parts.count++] = arena_format(arena, "%sg", part); /* "80 GB" */
            i++;
            continue;
        }
        const size_t letters = strspn(part, "abcdefghijklmnopqrstuvwxyz");
        if (letters > 0 && letters <= 2 && part[letters] == '\0' && is_number(next)) {
            part = arena_format(arena, "%s%s", part, next);
            i++;
        }
        parts.text[parts.count++] = part;
    }
    return parts;
}

/* Of profiles that share as much with the name: the one with the fewest parts that the name lacks,
 * then the module that most clusters have, SXM of 80 GB, and of H20 that of 96. */
static int64_t likelihood(const struct measured_parts *wanted, const struct measured_parts *name) {
    return 1000 * measured_parts_shared(name, wanted) - 10 * name->count +
           4 * measured_parts_have(name, "sxm") + 2 * measured_parts_have(name, "80g") +
           measured_parts_have(name, "96g");
}

/* A card in a PCIe slot has less power, and links of another kind; "NVL 72" is none. */
static bool is_card_without_profile(const struct measured_parts *wanted,
                                    const struct measured_parts *name) {
    const bool bridged = measured_parts_have(name, "nvl"); /* H200 NVL is a card too */
    if (measured_parts_have(wanted, "pcie") && !measured_parts_have(name, "pcie") && !bridged)
        return true;
    return measured_parts_have(wanted, "nvl") && !measured_parts_have(wanted, "72") && !bridged;
}

/* "a100, a800, h100": what the names begin with, each once; they are sorted. */
static const char *families(struct arena *arena, const char *const *names, int64_t count) {
    const char *text = "", *last = "";
    for (int64_t i = 0; i < count; i++) {
        const char *family = arena_format(arena, "%.*s", (int)strcspn(names[i], "-"), names[i]);
        if (strcmp(family, last) == 0) continue;
        text = arena_format(arena, "%s%s%s", text, text[0] != '\0' ? ", " : "", family);
        last = family;
    }
    return text;
}

const char *measured_hardware(const struct measured_context *context, const char *wanted,
                              const char **why_not) {
    struct arena *arena = context->arena;
    const struct measured_parts parts = hardware_parts(arena, wanted);
    int64_t count;
    const char **names = folder_names(arena, arena_format(arena, "%s/hardware", context->directory),
                                      ".json", &count);
    const char *best = NULL, *alike = "", *family = NULL, *other = NULL;
    int64_t best_likelihood = 0;
    for (int64_t i = 0; i < count; i++) {
        const struct measured_parts name = measured_parts_of(arena, names[i]);
        if (!measured_parts_have(&parts, name.text[0])) continue;
        if (family == NULL) family = name.text[0];
        if (strcmp(family, name.text[0]) != 0) other = name.text[0];
        alike = arena_format(arena, "%s%s%s", alike, alike[0] != '\0' ? ", " : "", names[i]);
        if (is_card_without_profile(&parts, &name)) continue;
        const int64_t likely = likelihood(&parts, &name);
        if (best != NULL && likely <= best_likelihood) continue;
        best = names[i];
        best_likelihood = likely;
    }
    if (other != NULL || (family != NULL && measured_parts_have(&parts, "mig"))) {
        *why_not = other != NULL ? arena_format(arena,
                                                "got \"%.60s\"; it names %s and %s: which of "
                                                "them?",
                                                wanted, family, other)
                                 : arena_format(arena,
                                                "got \"%.60s\"; a slice of a GPU (MIG) has no "
                                                "profile",
                                                wanted);
        return NULL;
    }
    if (alike[0] == '\0') best = measured_machines_gpu(context, wanted); /* "p5.48xlarge" */
    *why_not = alike[0] == '\0'
                   ? arena_format(
                         arena,
                         "got \"%.60s\"; no name in scenarios/hardware begins so, there are %s; a "
                         "GPU of your own is named by its file's path",
                         wanted, families(arena, names, count))
                   : arena_format(arena, "got \"%.60s\"; its PCIe form has no profile, only %s",
                                  wanted, alike);
    return best;
}

const char *measured_machine(const struct measured_context *context, const char *usual,
                             const char *source) {
    struct arena *arena = context->arena;
    const char *folder = arena_format(arena, "%s/hardware", context->directory);
    const size_t length = strlen(usual);
    int64_t count;
    const char **names = folder_names(arena, folder, ".json", &count);
    for (int64_t i = 0; i < count; i++) {
        if (strncmp(names[i], usual, length) != 0 || names[i][length] != '-') continue;
        struct error ignored = { 0 };
        struct json *json =
            json_load(arena_format(arena, "%s/%s.json", folder, names[i]), &ignored);
        const char *owner =
            json == NULL ? NULL
                         : cJSON_GetStringValue(cJSON_GetObjectItem(json_root(json), "machine_of"));
        const bool own = owner != NULL && owner[0] != '\0' && strcasestr(source, owner) != NULL;
        json_destroy(json);
        if (own) return names[i];
    }
    return usual;
}

/* "4-WAY NVLINK BRIDGES", "bridges of four"; 0: none are told of. */
static int64_t cards_of_bridges(const char *text) {
    static const char *const bridges[] = { "bridge", "bridges", NULL };
    static const struct {
        const char *ways[2][3];
        int64_t cards;
    } counts[] = {
        { { { "2", "way", NULL }, { "of", "2", NULL } }, 2 },
        { { { "two", "way", NULL }, { "of", "two", NULL } }, 2 },
        { { { "4", "way", NULL }, { "of", "4", NULL } }, 4 },
        { { { "four", "way", NULL }, { "of", "four", NULL } }, 4 },
    };
    struct clause clause;
    while (clause_next(&text, &clause))
        for (int i = 0; i < clause.count && clause_mentions(&clause, bridges); i++)
            for (size_t k = 0; k < sizeof counts / sizeof counts[0]; k++)
                if ((clause_starts(&clause, i, counts[k].ways[0]) ||
                     clause_starts(&clause, i, counts[k].ways[1])) &&
                    !clause_denied_before(&clause, i))
                    return counts[k].cards;
    return 0;
}

const char *measured_bridged(const struct measured_context *context, const char *card,
                             const char *text, int64_t *cards) {
    struct arena *arena = context->arena;
    int64_t count;
    const char **names = folder_names(arena, arena_format(arena, "%s/hardware", context->directory),
                                      ".json", &count);
    *cards = cards_of_bridges(text);
    const char *wanted = arena_format(arena, "%s-bridge%ld", card, (long)*cards);
    for (int64_t i = 0; i < count; i++)
        if (strcmp(names[i], wanted) == 0) return names[i];
    return NULL;
}

/* Of a part "80g"; 0: none is a size. */
static long memory_size(const struct measured_parts *parts) {
    for (int64_t i = 0; i < parts->count; i++) {
        char *end;
        const long size = strtol(parts->text[i], &end, 10);
        if (end > parts->text[i] && strcmp(end, "g") == 0 && size > 0) return size;
    }
    return 0;
}

const char *measured_other_memory(struct arena *arena, const char *wanted, const char *profile) {
    /* Beside the name of a GH200 stands the memory of its processor. */
    static const long processors[] = { 120, 240, 480 };
    /* B200 is sold as of 180 or 192 GB, B300 as of 270 or 288, H200 of 141 or 144. */
    const double alike = 0.07;
    const struct measured_parts of = hardware_parts(arena, wanted),
                                own = measured_parts_of(arena, profile);
    if (!measured_parts_have(&of, own.text[0])) return ""; /* a machine's name */
    const long size = memory_size(&of), has_size = memory_size(&own);
    const double apart = fabs((double)(size - has_size));
    if (size == 0 || has_size == 0 || apart <= alike * (double)has_size) return "";
    for (size_t i = 0;
         measured_parts_have(&own, "gh200") && i < sizeof processors / sizeof processors[0]; i++)
        if (size == processors[i]) return "";
    return arena_format(arena, "; its memory is %ld GB, not %ld", has_size, size);
}

bool measured_is_file(const char *wanted) {
    const size_t length = strlen(wanted);
    return length > 5 && strcmp(wanted + length - 5, ".json") == 0;
}

const char *measured_hardware_file(struct arena *arena, const char *path, const char **why_not) {
    struct error err = { 0 };
    struct json *json = json_load(path, &err);
    const cJSON *root = json != NULL ? json_root(json) : NULL;
    const char *name = cJSON_GetStringValue(cJSON_GetObjectItem(root, "name"));
    if (name == NULL) name = cJSON_GetStringValue(cJSON_GetObjectItem(root, "gpu")); /* curves */
    if (name != NULL)
        name = arena_text(arena, name);
    else
        *why_not = json == NULL ? arena_text(arena, err.text)
                                : arena_format(arena, "%s has no \"name\"", path);
    json_destroy(json);
    return name;
}

/* ---- models ---- */

/* "8x7B", "30B-A3B": experts and what of them is active. */
static bool counts_experts(const char *plain) {
    for (const char *at = plain; *at != '\0'; at++) {
        const bool starts = at == plain || !isalnum((unsigned char)at[-1]);
        if (!starts) continue;
        const char *c = at + (*at == 'a' && at > plain);
        const size_t digits = strspn(c, "0123456789.");
        if (digits == 0) continue;
        if (c > at && c[digits] == 'b' && !isalnum((unsigned char)c[digits + 1])) return true;
        const size_t more = c[digits] == 'x' ? strspn(c + digits + 1, "0123456789.") : 0;
        if (c == at && more > 0 && c[digits + 1 + more] == 'b') return true;
    }
    return false;
}

static bool holds_one(const char *text, const char *const *words) {
    for (; *words != NULL; words++)
        if (strstr(text, *words) != NULL) return true;
    return false;
}

bool measured_model_has_experts(struct arena *arena, const char *model) {
    static const char *const names[] = {
        "mixtral",     "dbrx",     "gpt-oss",  "olmoe",        "kimi-k2",          "deepseek-v2",
        "deepseek-v3", "llama-4-", "llama4-",  "grok-",        "glm-4.5",          "glm-4.6",
        "hunyuan-l",   "arctic",   "minimax-", "deepseek-moe", "granite-3.0-3b-a", NULL
    };
    const char *plain = measured_plain(arena, model);
    return counts_experts(plain) || measured_text_says(model, "moe") || holds_one(plain, names);
}

bool measured_model_is_hybrid(struct arena *arena, const char *model) {
    static const char *const names[] = { "mamba",
                                         "jamba",
                                         "zamba",
                                         "rwkv",
                                         "falcon-h1",
                                         "nemotron-h",
                                         "nemotron-nano",
                                         "qwen3-next",
                                         "qwen3.5",
                                         "qwen3.6",
                                         "qwen3.8",
                                         "nemotron-3-nano",
                                         "nemotron-3-super",
                                         "nemotron-3-ultra",
                                         "recurrentgemma",
                                         "griffin",
                                         "hyena",
                                         "retnet",
                                         "xlstm",
                                         "lfm2",
                                         NULL };
    return holds_one(measured_plain(arena, model), names);
}

bool measured_model_has_two_stacks(struct arena *arena, const char *model) {
    static const char *const words[] = { "t5", "bart", "whisper", "ul2", "nllb", "pegasus" };
    static const char *const beginnings[] = { "t5-", "mt5-", "flan-t5", "byt5", "umt5" };
    const char *slash = strrchr(model, '/');
    const char *plain = measured_plain(arena, slash != NULL ? slash + 1 : model);
    for (size_t i = 0; i < sizeof words / sizeof words[0]; i++)
        if (measured_text_says(model, words[i])) return true;
    for (size_t i = 0; i < sizeof beginnings / sizeof beginnings[0]; i++)
        if (strncmp(plain, beginnings[i], strlen(beginnings[i])) == 0) return true;
    return false;
}

bool measured_model_is_encoder(const char *model) {
    static const char *const words[] = { "bert",       "roberta", "deberta",    "electra",
                                         "modernbert", "albert",  "distilbert", "xlm-roberta" };
    for (size_t i = 0; i < sizeof words / sizeof words[0]; i++)
        if (measured_text_says(model, words[i])) return true;
    return false;
}

bool measured_model_sees(struct arena *arena, const char *model) {
    static const char *const words[] = { "vl", "vlm", "vision", "multimodal", "vila", "mllm" };
    static const char *const names[] = { "llava",   "internvl", "blip-2",       "minigpt-4",
                                         "pixtral", "cogvlm",   "deepseek-vl",  "minicpm-v",
                                         "molmo",   "idefics",  "paligemma",    "kosmos-2",
                                         "qwen-vl", "qwen2-vl", "qwen2.5-vl",   "qwen3-vl",
                                         "vila1",   "vila-",    "instructblip", NULL };
    for (size_t i = 0; i < sizeof words / sizeof words[0]; i++)
        if (measured_text_says(model, words[i])) return true;
    return holds_one(measured_plain(arena, model), names);
}

/* LitGPT, whose models Thunder's benchmark trains, makes every head a layer of its own
 * (Lightning-AI/litgpt litgpt/model.py, GPT.__init__). */
static bool unties_all(struct arena *arena, const struct measured_run *run) {
    static const char *const sources[] = { "litgpt", "lit-gpt", "lightning-thunder", NULL };
    static const char *const stacks[] = { "litgpt", "lit-gpt", "thunder", NULL };
    return holds_one(measured_plain(arena, run->source), sources) ||
           holds_one(measured_plain(arena, run->stack), stacks);
}

/* tie_word_embeddings is false in the configs of these (Hugging Face), true in other GPTs'. */
static bool gpt_is_untied(struct arena *arena, const char *model) {
    static const char *const names[] = { "neox", "pythia", "gpt-j", "gptj", "phi-", NULL };
    return holds_one(measured_plain(arena, model), names);
}

bool measured_model_is_tied(const struct measured_context *context, const struct measured_run *run,
                            bool gpt) {
    const enum measured_tie said = measured_says_tie(run->notes);
    if (said != TIE_UNSAID) return said == TIE_SHARED;
    if (unties_all(context->arena, run)) return false;
    const int64_t public_tie = measured_public_tie(context, run);
    if (public_tie >= 0) return public_tie > 0;
    return gpt && !gpt_is_untied(context->arena, run->model);
}
