/* measured_said.c - tokens of a clause, and what they say. */
#include "sim/study/measured_said.h"

#include <ctype.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { TOKEN_LIMIT = 64, TOKEN_BYTES = 32 };
struct clause {
    char tokens[TOKEN_LIMIT][TOKEN_BYTES]; /* small letters */
    int count;
};

static bool ends_clause(const char *at) {
    if (strchr(",;()[]{}\n", *at) != NULL) return true;
    return *at == '.' && (at[1] == '\0' || isspace((unsigned char)at[1]));
}

/* The next clause of *text, which moves behind it; false at its end. Longer clauses are cut. */
static bool next_clause(const char **text, struct clause *clause) {
    clause->count = 0;
    const char *at = *text;
    while (*at != '\0' && ends_clause(at))
        at++;
    if (*at == '\0') return false;
    while (*at != '\0' && !ends_clause(at)) {
        size_t length = 0;
        while (isalnum((unsigned char)at[length]))
            length++;
        if (length == 0) {
            at++;
            continue;
        }
        if (clause->count < TOKEN_LIMIT) {
            char *token = clause->tokens[clause->count++];
            const size_t kept = length < TOKEN_BYTES ? length : TOKEN_BYTES - 1;
            for (size_t i = 0; i < kept; i++)
                token[i] = (char)tolower((unsigned char)at[i]);
            token[kept] = '\0';
        }
        at += length;
    }
    *text = at;
    return true;
}

static bool is_one_of(const char *token, const char *const *words) {
    for (; *words != NULL; words++)
        if (strcmp(token, *words) == 0) return true;
    return false;
}

static const char *token_at(const struct clause *clause, int i) {
    return i >= 0 && i < clause->count ? clause->tokens[i] : "";
}

static bool denied_before(const struct clause *clause, int at) {
    static const char *const denials[] = { "no",      "not",    "non",    "without", "never",
                                           "than",    "vs",     "versus", "unlike",  "beats",
                                           "instead", "rather", NULL };
    for (int i = 0; i < at; i++)
        if (is_one_of(clause->tokens[i], denials)) return true;
    return false;
}

/* "offload_optimizer_device: none", "optimizer_cpu_offload=0": what an option is set to. */
static bool set_to_nothing(const struct clause *clause, int at) {
    static const char *const names[] = { "device",    "fraction", "ratio", "params", "param",
                                         "optimizer", "cpu",      "is",    NULL };
    static const char *const nothing[] = { "none", "null",     "no", "not", "false",
                                           "off",  "disabled", "0",  NULL };
    int i = at + 1;
    while (is_one_of(token_at(clause, i), names))
        i++;
    return is_one_of(token_at(clause, i), nothing);
}

static bool mentions(const struct clause *clause, const char *const *words) {
    for (int i = 0; i < clause->count; i++)
        if (is_one_of(clause->tokens[i], words)) return true;
    return false;
}

/* The token that says so, or -1. */
static int offload_sign(const struct clause *clause) {
    static const char *const subjects[] = {
        "optimizer", "optimizers", "optim",  "param", "params", "parameter", "parameters",
        "weights",   "state",      "states", "zero",  "zero1",  "zero2",     "zero3",
        "z1",        "z2",         "z3",     "fsdp",  "fsdp2",  "deepspeed", NULL
    };
    static const char *const others[] = { "activation", "activations", "layers", "layer",
                                          "blocks",     "block",       "kv",     NULL };
    static const char *const signs[] = { "cpuoffload",   "cpuoffloadpolicy",
                                         "cpuadam",      "zerooffload",
                                         "zeroinfinity", "deepspeedcpuadam",
                                         "cpuoptimizer", NULL };
    static const char *const host[] = { "cpu", "host", NULL };
    const bool of_states = mentions(clause, subjects) && !mentions(clause, others);
    for (int i = 0; i < clause->count; i++) {
        const char *token = clause->tokens[i], *next = token_at(clause, i + 1);
        if (is_one_of(token, signs)) return i;
        if (strcmp(token, "cpu") == 0 && strcmp(next, "optimizer") == 0) return i + 1;
        if (strcmp(token, "zero") == 0 && strcmp(next, "infinity") == 0) return i + 1;
        if (!of_states) continue;
        if (strncmp(token, "offload", strlen("offload")) == 0) return i;
        const int behind = strcmp(next, "the") == 0 ? i + 2 : i + 1;
        if ((strcmp(token, "on") == 0 && is_one_of(token_at(clause, behind), host)) ||
            (strcmp(token, "in") == 0 && strcmp(token_at(clause, behind), "host") == 0))
            return i;
    }
    return -1;
}

/* CPUOffload(offload_params=False) is two clauses. */
static bool denied_in_brackets(const char *text) {
    const char *bracket = text + strspn(text, " ");
    if (*bracket != '(') return false;
    const char *end = bracket + strcspn(bracket, ")");
    for (const char *at = bracket; at + 5 <= end; at++)
        if (strncmp(at, "False", 5) == 0 || strncmp(at, "false", 5) == 0) return true;
    return false;
}

bool measured_says_offload(const char *text) {
    struct clause clause;
    while (next_clause(&text, &clause)) {
        const int at = offload_sign(&clause);
        if (at < 0 || denied_before(&clause, at) || set_to_nothing(&clause, at)) continue;
        if (at == clause.count - 1 && denied_in_brackets(text)) continue;
        return true;
    }
    return false;
}

/* "bf16", "bfloat16", "torch.bfloat16" and so on at i, or behind "torch" and "a", else NULL. */
static const char *type_at(const struct clause *clause, int i) {
    static const char *const wide[] = { "fp32", "float32", "float", NULL };
    static const char *const narrow[] = { "bf16", "bfloat16", NULL };
    while (strcmp(token_at(clause, i), "torch") == 0)
        i++;
    if (is_one_of(token_at(clause, i), wide)) return "fp32";
    return is_one_of(token_at(clause, i), narrow) ? "bf16" : NULL;
}

static bool starts(const struct clause *clause, int i, const char *const *words) {
    for (; *words != NULL; words++, i++)
        if (strcmp(token_at(clause, i), *words) != 0) return false;
    return true;
}

/* What an option of a framework says of its reduction at token i, NULL: nothing. */
static const char *option_at(const struct clause *clause, int i) {
    static const char *const names[][4] = {
        { "reduce", "dtype", NULL },
        { "mixed", "precision", "reduce", NULL },
        { "communication", "data", "type", NULL },
    };
    for (size_t k = 0; k < sizeof names / sizeof names[0]; k++) {
        int length = 0;
        while (names[k][length] != NULL)
            length++;
        if (starts(clause, i, names[k])) return type_at(clause, i + length);
    }
    /* grad_reduce_in_bf16, --accumulate-allreduce-grads-in-fp32, each perhaps set to false */
    static const char *const grad_reduce[] = { "grad", "reduce", "in", NULL },
                             *const allreduce[] = { "allreduce", "grads", "in", NULL };
    if (!starts(clause, i, grad_reduce) && !starts(clause, i, allreduce)) return NULL;
    const char *type = type_at(clause, i + 3);
    if (type == NULL || !set_to_nothing(clause, i + 3)) return type;
    return strcmp(type, "fp32") == 0 ? "bf16" : NULL;
}

/* "gradients are held and reduced in bf16" at the token of the gradients. */
static const char *sentence_at(const struct clause *clause, int i) {
    static const char *const gradients[] = { "gradients", "gradient", "grads", NULL };
    static const char *const reduced[] = { "reduced", "reduce", "reduction", NULL };
    if (!is_one_of(clause->tokens[i], gradients)) return NULL;
    for (int k = i + 1; k < clause->count && !is_one_of(clause->tokens[k], gradients); k++)
        if (is_one_of(clause->tokens[k], reduced) && strcmp(token_at(clause, k + 1), "in") == 0)
            return type_at(clause, k + 2);
    return NULL;
}

const char *measured_reduce_type(const char *text) {
    const char *found = "";
    struct clause clause;
    while (next_clause(&text, &clause))
        for (int i = 0; i < clause.count; i++) {
            const char *type = option_at(&clause, i);
            if (type == NULL) type = sentence_at(&clause, i);
            if (type == NULL || denied_before(&clause, i)) continue;
            if (found[0] != '\0' && strcmp(found, type) != 0) return NULL;
            found = type;
        }
    return found;
}

bool measured_says_short_main_gradients(const char *text) {
    static const char *const gradients[] = { "gradients", "grads", NULL };
    static const char *const halves[] = { "fp16", "float16", NULL };
    static const char *const kept[] = { "are", "is", "kept", "held", "stored", NULL };
    struct clause clause;
    while (next_clause(&text, &clause))
        for (int i = 0; i + 1 < clause.count; i++) {
            if (strcmp(clause.tokens[i], "main") != 0 ||
                !is_one_of(clause.tokens[i + 1], gradients) || denied_before(&clause, i))
                continue;
            int at = i + 2;
            while (is_one_of(token_at(&clause, at), kept))
                at++;
            if (strcmp(token_at(&clause, at++), "in") != 0) continue;
            while (strcmp(token_at(&clause, at), "torch") == 0)
                at++;
            const char *type = type_at(&clause, at);
            const bool half = strcmp(token_at(&clause, at), "half") == 0 &&
                              strcmp(token_at(&clause, at + 1), "precision") == 0;
            if ((half || is_one_of(token_at(&clause, at), halves) ||
                 (type != NULL && strcmp(type, "bf16") == 0)) &&
                !set_to_nothing(&clause, at + half))
                return true;
        }
    return false;
}

/* Tokens between the word and what it is said of: "embeddings are not tied", "tied word embeddings". */
static bool is_filling(const char *token) {
    static const char *const words[] = { "are",   "is",    "not",     "aren", "isn",   "t",
                                         "be",    "being", "both",    "all",  "input", "output",
                                         "word",  "token", "lm",      "the",  "and",   "with",
                                         "their", "its",   "neither", "tied", NULL };
    return is_one_of(token, words);
}

/* The token of what word i is said of, "embeddings" or "head", on either side; -1: of something else. */
static int tie_subject(const struct clause *clause, int i) {
    static const char *const tables[] = { "embedding", "embeddings", "head", "vocabulary", NULL };
    for (int k = i + 1; k < clause->count; k++) {
        if (is_one_of(clause->tokens[k], tables)) return k;
        if (!is_filling(clause->tokens[k])) break;
    }
    for (int k = i - 1; k >= 0; k--) {
        if (is_one_of(clause->tokens[k], tables)) return k;
        if (!is_filling(clause->tokens[k])) break;
    }
    return clause->count == 1 ? i : -1;
}

/* A denial from right before the word and what it is said of, or what the option is set to. */
static bool tie_denied(const struct clause *clause, int i, int subject) {
    static const char *const denials[] = { "not",   "no",   "non", "without", "neither",
                                           "never", "aren", "isn", NULL };
    const int first = subject < i ? subject : i, last = subject > i ? subject : i;
    for (int k = first > 0 ? first - 1 : 0; k < i; k++)
        if (is_one_of(clause->tokens[k], denials)) return true;
    return strcmp(token_at(clause, last + 1), "not") == 0 || /* "... not asked for" */
           set_to_nothing(clause, last);
}

enum measured_tie measured_says_tie(const char *text) {
    static const char *const tie[] = { "tie", "word", "embeddings", NULL },
                             *const untie[] = { "untie", "embeddings", NULL },
                             *const untied[] = { "un", "tied", NULL };
    struct clause clause;
    while (next_clause(&text, &clause))
        for (int i = 0; i < clause.count; i++) {
            const char *token = clause.tokens[i];
            /* tie_word_embeddings: true; --untie-embeddings-and-output-weights */
            if (starts(&clause, i, tie))
                return set_to_nothing(&clause, i + 2) ? TIE_APART : TIE_SHARED;
            if (starts(&clause, i, untie))
                return denied_before(&clause, i) ? TIE_SHARED : TIE_APART;
            const bool apart = strcmp(token, "untied") == 0 || starts(&clause, i, untied);
            if (!apart && strcmp(token, "tied") != 0) continue;
            if (strcmp(token_at(&clause, i + 1), "to") == 0) continue;
            const int subject = tie_subject(&clause, i);
            if (subject < 0) continue;
            return apart != tie_denied(&clause, i, subject) ? TIE_APART : TIE_SHARED;
        }
    return TIE_UNSAID;
}

/* ---- recomputation and attention ---- */

/* "flash-attn 2.8.3", "FlashAttention-2", "fa3": the number behind i, 0 where none of these. */
static int version_after(const struct clause *clause, int i) {
    const char *next = token_at(clause, i + 1);
    const bool one = next[0] >= '1' && next[0] <= '3' && next[1] == '\0';
    return one ? next[0] - '0' : 0;
}

static const char *flash_word(int version) {
    static const char *const words[] = { "flash", "flash-1", "flash-2", "flash-3" };
    return words[version];
}

/* The kernel that token i speaks of, NULL: none. */
static const char *kernel_at(const struct clause *clause, int i) {
    static const char *const attention[] = { "attention", "attn", NULL };
    static const char *const written_out[] = { "unfused",      "naive", "materialised",
                                               "materialized", "eager", "normal",
                                               "vanilla",      "plain", NULL };
    const char *token = clause->tokens[i], *next = token_at(clause, i + 1);
    if (strcmp(token, "flashattention") == 0 || strcmp(token, "flashattn") == 0)
        return flash_word(version_after(clause, i));
    if (strcmp(token, "flash") == 0 && is_one_of(next, attention))
        return flash_word(version_after(clause, i + 1));
    if (strncmp(token, "fa", 2) == 0 && strlen(token) == 3 && token[2] >= '1' && token[2] <= '3')
        return flash_word(token[2] - '0');
    if (is_one_of(token, written_out) && is_one_of(next, attention)) return "naive";
    return is_one_of(token, attention) && is_one_of(next, written_out) ? "naive" : NULL;
}

const char *measured_says_attention(const char *text) {
    const char *found = "";
    struct clause clause;
    while (next_clause(&text, &clause))
        for (int i = 0; i < clause.count; i++) {
            const char *kernel = kernel_at(&clause, i);
            if (kernel == NULL) continue;
            if (denied_before(&clause, i)) kernel = "naive";
            if (found[0] != '\0' && strcmp(found, kernel) != 0) return "";
            found = kernel;
        }
    return found;
}

/* Of activations, not of a training's state. */
static bool speaks_of_recompute(const struct clause *clause, int i) {
    static const char *const words[] = { "recompute",     "recomputes",     "recomputed",
                                         "recomputation", "recomputing",    "checkpointing",
                                         "remat",         "rematerialized", NULL };
    static const char *const states[] = { "async", "asynchronous", "distributed", "saving",
                                          "saved", "storage",      "save",        NULL };
    static const char *const kinds[] = { "full", "selective", NULL };
    const char *token = clause->tokens[i];
    if (strcmp(token, "ac") == 0) return i > 0 && is_one_of(clause->tokens[i - 1], kinds);
    return is_one_of(token, words) && !mentions(clause, states);
}

/* "recomputation not stated": the clause tells nothing. */
static bool tells_nothing(const struct clause *clause, int i) {
    static const char *const unknown[] = { "unknown", "unstated", "unspecified", NULL };
    static const char *const told[] = { "stated",    "seen",   "said",  "given",
                                        "known",     "named",  "shown", "printed",
                                        "mentioned", "logged", NULL };
    if (mentions(clause, unknown)) return true;
    for (int k = i + 1; k < clause->count; k++)
        if (strcmp(clause->tokens[k], "not") == 0) return is_one_of(token_at(clause, k + 1), told);
    return false;
}

/* What the clause has of each block run again, NULL: it is of something else ("batch and
 * checkpointing from its script"). Megatron-LM's --recompute-activations is its selective kind. */
static const char *recompute_kind(const struct clause *clause, int i) {
    static const char *const parts[] = { "selective", "selectively", "op",   "operator",
                                         "operators", "opwise",      "core", "norm",
                                         "norms",     NULL };
    static const char *const nothing[] = { "nothing", "none", "off", "false", "not", NULL };
    static const char *const whole[] = { "activation", "activations", "gradient", "gradients",
                                         "full",       "fully",       "whole",    "uniform",
                                         "each",       "every",       "layers",   "blocks",
                                         NULL };
    if (tells_nothing(clause, i)) return NULL;
    if (denied_before(clause, i) || mentions(clause, nothing)) return "none";
    const bool flag = strcmp(clause->tokens[i], "recompute") == 0 &&
                      strcmp(token_at(clause, i + 1), "activations") == 0;
    if (flag || mentions(clause, parts)) return "selective";
    return mentions(clause, whole) || clause->count == 1 ? "full" : NULL;
}

const char *measured_says_recompute(const char *text) {
    const char *found = "";
    struct clause clause;
    while (next_clause(&text, &clause))
        for (int i = 0; i < clause.count; i++) {
            const char *kind = speaks_of_recompute(&clause, i) ? recompute_kind(&clause, i) : NULL;
            if (kind == NULL) continue;
            if (found[0] != '\0' && strcmp(found, kind) != 0) return "";
            found = kind;
        }
    return found;
}

/* ---- sharding ---- */

/* "ZeRO-3", "zero3", "ZeRO stage 2", "sharding stage 2" at token i; -1: none. */
static int64_t stage_at(const struct clause *clause, int i) {
    static const char *const sharding[] = { "zero", "sharding", NULL };
    static const char *const full[] = { "full", "shard", NULL }, *const gradients[] = {
        "shard", "grad", "op", NULL
    };
    const char *token = clause->tokens[i];
    if (strncmp(token, "zero", 4) == 0 && token[4] >= '0' && token[4] <= '3' && token[5] == '\0')
        return token[4] - '0';
    if (starts(clause, i, full)) return 3;
    if (starts(clause, i, gradients)) return 2;
    if (!is_one_of(token, sharding)) return -1;
    const bool stage = strcmp(token_at(clause, i + 1), "stage") == 0;
    if (!stage && strcmp(token, "zero") != 0) return -1;
    const char *number = token_at(clause, i + 1 + stage);
    return number[0] >= '0' && number[0] <= '3' && number[1] == '\0' ? number[0] - '0' : -1;
}

int64_t measured_says_zero_stage(const char *text) {
    int64_t found = -1;
    struct clause clause;
    while (next_clause(&text, &clause))
        for (int i = 0; i < clause.count; i++) {
            const int64_t stage = stage_at(&clause, i);
            if (stage < 0 || denied_before(&clause, i)) continue;
            if (found >= 0 && found != stage) return -1;
            found = stage;
        }
    return found;
}

/* ---- kernels, weights, frameworks ---- */

/* The word right before i, past what may stand between. */
static const char *word_before(const struct clause *clause, int i) {
    static const char *const between[] = { "torch", "the", "any", "using", "use", NULL };
    while (i > 0 && is_one_of(clause->tokens[i - 1], between))
        i--;
    return token_at(clause, i - 1);
}

static bool compares(const struct clause *clause) {
    static const char *const words[] = { "than", "vs", "versus", "unlike", "beats", NULL };
    return mentions(clause, words);
}

static enum measured_kernels kernels_at(const struct clause *clause, int i) {
    static const char *const compile[] = { "compile", "compiled", "compilation", NULL };
    static const char *const others[] = { "flash",    "flashattention", "source",   "time",
                                          "excluded", "included",       "excludes", NULL };
    static const char *const attention[] = { "attention",    "attn",   "attentions", "sdpa",
                                             "softmax",      "scores", "mask",       "fallback",
                                             "materialised", NULL };
    static const char *const denials[] = { "no",    "not",     "non", "without",
                                           "never", "nothing", "isn", NULL };
    const char *token = clause->tokens[i];
    const bool denied = is_one_of(word_before(clause, i), denials);
    if (strcmp(token, "eager") == 0)
        return denied || mentions(clause, attention) ? KERNELS_UNSAID : KERNELS_EAGER;
    if (!is_one_of(token, compile) || mentions(clause, others) ||
        strcmp(token_at(clause, i + 1), "loss") == 0)
        return KERNELS_UNSAID;
    return denied || set_to_nothing(clause, i) ? KERNELS_NOT_COMPILED : KERNELS_COMPILED;
}

enum measured_kernels measured_says_kernels(const char *text) {
    enum measured_kernels found = KERNELS_UNSAID;
    struct clause clause;
    while (next_clause(&text, &clause))
        for (int i = 0; i < clause.count && !compares(&clause); i++) {
            const enum measured_kernels kernels = kernels_at(&clause, i);
            if (kernels > found) found = kernels;
        }
    return found;
}

bool measured_says_bf16_weights(const char *text) {
    static const char *const weights[] = { "weights", "parameters", "params", NULL };
    static const char *const states[] = { "gradients", "states", "moments", NULL };
    static const char *const narrow[] = { "bf16", "bfloat16", NULL };
    static const char *const other[] = { "fp32",    "float32",     "autocast", "mixed", "over",
                                         "compute", "activations", "gathered", "fp16",  NULL };
    static const char *const all[] = { "all", "in", "bf16", NULL },
                             *const each[] = { "all", "bf16", NULL },
                             *const pure[] = { "pure", "bf16", NULL };
    bool listed = false, found = false; /* "weights, gradients and states bf16": one list */
    struct clause clause;
    if (strcasestr(text, "master") != NULL) return false;
    while (next_clause(&text, &clause)) {
        const bool whole = mentions(&clause, weights) || (listed && mentions(&clause, states));
        if (mentions(&clause, narrow) && !mentions(&clause, other)) {
            found = found || whole;
            for (int i = 0; i < clause.count; i++)
                found = found || starts(&clause, i, all) || starts(&clause, i, each) ||
                        starts(&clause, i, pure);
        }
        listed = is_one_of(token_at(&clause, clause.count - 1), weights) || (listed && whole);
    }
    return found;
}

/* Not of tokenizers, checkpoints and containers, which do not train. */
static bool speaks_of_training(const struct clause *clause) {
    static const char *const words[] = { "tokenizer", "tokenizers",   "checkpoint", "checkpoints",
                                         "converted", "vision",       "container",  "nvcr",
                                         "format",    "tokenization", NULL };
    return !mentions(clause, words) && !compares(clause);
}

bool measured_says_framework(const char *text, const char *name) {
    char words[2][TOKEN_BYTES] = { "", "" };
    struct clause clause;
    if (sscanf(name, "%31s %31s", words[0], words[1]) < 1) return false;
    const char *const wanted[] = { words[0], words[1][0] != '\0' ? words[1] : NULL, NULL };
    while (next_clause(&text, &clause))
        for (int i = 0; i < clause.count && speaks_of_training(&clause); i++)
            if (starts(&clause, i, wanted) && !denied_before(&clause, i)) return true;
    return false;
}
