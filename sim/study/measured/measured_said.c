/* measured_said.c - what clauses say of offloading, reductions and tables. */
#include "sim/study/measured/measured_said.h"

#include <stddef.h>
#include <string.h>
#include "sim/study/measured/measured_clause.h"

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
    const bool of_states = clause_mentions(clause, subjects) && !clause_mentions(clause, others);
    for (int i = 0; i < clause->count; i++) {
        const char *token = clause->tokens[i], *next = clause_token(clause, i + 1);
        if (clause_is_one_of(token, signs)) return i;
        if (strcmp(token, "cpu") == 0 && strcmp(next, "optimizer") == 0) return i + 1;
        if (strcmp(token, "zero") == 0 && strcmp(next, "infinity") == 0) return i + 1;
        if (!of_states) continue;
        if (strncmp(token, "offload", strlen("offload")) == 0) return i;
        const int behind = strcmp(next, "the") == 0 ? i + 2 : i + 1;
        if ((strcmp(token, "on") == 0 && clause_is_one_of(clause_token(clause, behind), host)) ||
            (strcmp(token, "in") == 0 && strcmp(clause_token(clause, behind), "host") == 0))
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
    while (clause_next(&text, &clause)) {
        const int at = offload_sign(&clause);
        if (at < 0 || clause_denied_before(&clause, at) || clause_set_to_nothing(&clause, at))
            continue;
        if (at == clause.count - 1 && denied_in_brackets(text)) continue;
        return true;
    }
    return false;
}

/* "bf16", "bfloat16", "torch.bfloat16" and so on at i, or behind "torch" and "a", else NULL. */
static const char *type_at(const struct clause *clause, int i) {
    static const char *const wide[] = { "fp32", "float32", "float", NULL };
    static const char *const narrow[] = { "bf16", "bfloat16", NULL };
    while (strcmp(clause_token(clause, i), "torch") == 0)
        i++;
    if (clause_is_one_of(clause_token(clause, i), wide)) return "fp32";
    return clause_is_one_of(clause_token(clause, i), narrow) ? "bf16" : NULL;
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
        if (clause_starts(clause, i, names[k])) return type_at(clause, i + length);
    }
    /* grad_reduce_in_bf16, --accumulate-allreduce-grads-in-fp32, each perhaps set to false */
    static const char *const grad_reduce[] = { "grad", "reduce", "in", NULL },
                             *const allreduce[] = { "allreduce", "grads", "in", NULL };
    if (!clause_starts(clause, i, grad_reduce) && !clause_starts(clause, i, allreduce)) return NULL;
    const char *type = type_at(clause, i + 3);
    if (type == NULL || !clause_set_to_nothing(clause, i + 3)) return type;
    return strcmp(type, "fp32") == 0 ? "bf16" : NULL;
}

/* "gradients are held and reduced in bf16" at the token of the gradients. */
static const char *sentence_at(const struct clause *clause, int i) {
    static const char *const gradients[] = { "gradients", "gradient", "grads", NULL };
    static const char *const reduced[] = { "reduced", "reduce", "reduction", NULL };
    if (!clause_is_one_of(clause->tokens[i], gradients)) return NULL;
    for (int k = i + 1; k < clause->count && !clause_is_one_of(clause->tokens[k], gradients); k++)
        if (clause_is_one_of(clause->tokens[k], reduced) &&
            strcmp(clause_token(clause, k - 1), "not") != 0 &&
            strcmp(clause_token(clause, k + 1), "in") == 0)
            return type_at(clause, k + 2);
    return NULL;
}

const char *measured_reduce_type(const char *text) {
    const char *found = "";
    struct clause clause;
    while (clause_next(&text, &clause))
        for (int i = 0; i < clause.count; i++) {
            const char *type = option_at(&clause, i);
            if (type == NULL) type = sentence_at(&clause, i);
            if (type == NULL || clause_denied_before(&clause, i)) continue;
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
    while (clause_next(&text, &clause))
        for (int i = 0; i + 1 < clause.count; i++) {
            if (strcmp(clause.tokens[i], "main") != 0 ||
                !clause_is_one_of(clause.tokens[i + 1], gradients) ||
                clause_denied_before(&clause, i))
                continue;
            int at = i + 2;
            while (clause_is_one_of(clause_token(&clause, at), kept))
                at++;
            if (strcmp(clause_token(&clause, at++), "in") != 0) continue;
            while (strcmp(clause_token(&clause, at), "torch") == 0)
                at++;
            const char *type = type_at(&clause, at);
            const bool half = strcmp(clause_token(&clause, at), "half") == 0 &&
                              strcmp(clause_token(&clause, at + 1), "precision") == 0;
            if ((half || clause_is_one_of(clause_token(&clause, at), halves) ||
                 (type != NULL && strcmp(type, "bf16") == 0)) &&
                !clause_set_to_nothing(&clause, at + half))
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
    return clause_is_one_of(token, words);
}

/* The token of what word i is said of, "embeddings" or "head", on either side; -1: of something else. */
static int tie_subject(const struct clause *clause, int i) {
    static const char *const tables[] = { "embedding", "embeddings", "head", "vocabulary", NULL };
    for (int k = i + 1; k < clause->count; k++) {
        if (clause_is_one_of(clause->tokens[k], tables)) return k;
        if (!is_filling(clause->tokens[k])) break;
    }
    for (int k = i - 1; k >= 0; k--) {
        if (clause_is_one_of(clause->tokens[k], tables)) return k;
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
        if (clause_is_one_of(clause->tokens[k], denials)) return true;
    return strcmp(clause_token(clause, last + 1), "not") == 0 || /* "... not asked for" */
           clause_set_to_nothing(clause, last);
}

enum measured_tie measured_says_tie(const char *text) {
    static const char *const tie[] = { "tie", "word", "embeddings", NULL },
                             *const untie[] = { "untie", "embeddings", NULL },
                             *const untied[] = { "un", "tied", NULL };
    struct clause clause;
    while (clause_next(&text, &clause))
        for (int i = 0; i < clause.count; i++) {
            const char *token = clause.tokens[i];
            /* tie_word_embeddings: true; --untie-embeddings-and-output-weights */
            if (clause_starts(&clause, i, tie))
                return clause_set_to_nothing(&clause, i + 2) ? TIE_APART : TIE_SHARED;
            if (clause_starts(&clause, i, untie))
                return clause_denied_before(&clause, i) ? TIE_SHARED : TIE_APART;
            const bool apart = strcmp(token, "untied") == 0 || clause_starts(&clause, i, untied);
            if (!apart && strcmp(token, "tied") != 0) continue;
            if (strcmp(clause_token(&clause, i + 1), "to") == 0) continue;
            const int subject = tie_subject(&clause, i);
            if (subject < 0) continue;
            return apart != tie_denied(&clause, i, subject) ? TIE_APART : TIE_SHARED;
        }
    return TIE_UNSAID;
}
