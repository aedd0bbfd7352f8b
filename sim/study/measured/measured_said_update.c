/* measured_said_update.c - what a source says of the end of a step: when gradients that accumulate
 * are reduced, how PyTorch's AdamW runs, and whether Muon updates. */
#include <stdio.h>
#include <string.h>

#include "sim/study/measured/measured_clause.h"
#include "sim/study/measured/measured_said.h"

/* Found once, or again and alike; NULL where two are said. */
static bool agrees(const char **found, const char *said) {
    if (*found != NULL && strcmp(*found, said) != 0) return false;
    *found = said;
    return true;
}

/* ---- gradients ---- */

/* "gradients reduced in bf16 every micro-batch", "gradients are reduced once a step"; NULL where it
 * says neither, or how they add up. */
static const char *reduced_when(const struct clause *clause) {
    static const char *const gradients[] = { "gradients", "gradient", "grads", NULL };
    static const char *const reduced[] = { "reduced", "reduce",       "reduces",      "reducing",
                                           "synced",  "synchronized", "synchronised", NULL };
    static const char *const every[] = { "every", "each", NULL };
    static const char *const once[] = { "once", "last", "end", NULL };
    int k = 0;
    while (k < clause->count && !clause_is_one_of(clause->tokens[k], gradients))
        k++;
    while (k < clause->count && !clause_is_one_of(clause->tokens[k], reduced))
        k++;
    if (k >= clause->count || clause_denied_before(clause, k)) return NULL;
    bool each = false, last = false;
    for (int i = k + 1; i < clause->count; i++) {
        each |= clause_is_one_of(clause->tokens[i], every) &&
                strncmp(clause_token(clause, i + 1), "micro", 5) == 0;
        last |= clause_is_one_of(clause->tokens[i], once);
    }
    return last ? "last" : each ? "each" : NULL;
}

/* set_requires_gradient_sync(False) of FSDP2, with or without its brackets. */
static bool defers_at(const struct clause *clause, int i, const char *rest) {
    static const char *const requires[] = { "requires", "gradient", "sync", NULL };
    static const char *const no[] = { "false", "0", NULL };
    if (!clause_starts(clause, i, requires)) return false;
    if (i + 3 < clause->count) return clause_is_one_of(clause_token(clause, i + 3), no);
    struct clause bracket;
    return rest[0] == '(' && clause_next(&rest, &bracket) && bracket.count == 1 &&
           clause_is_one_of(bracket.tokens[0], no);
}

/* "no_sync" of `text`, not "no sync" of a device; "no" denies nothing in it. */
static const char *sync_at(const struct clause *clause, int i, const char *rest, bool names) {
    static const char *const no_sync[] = { "no", "sync", NULL }, *const each[] = { "sync", "each",
                                                                                   "batch", NULL };
    static const char *const open[] = { "left", "unset", "default", NULL };
    if (defers_at(clause, i, rest)) return "last";
    const bool is_each = clause_starts(clause, i, each);
    if (!is_each && !(names && clause_starts(clause, i, no_sync))) return NULL;
    const int last = i + (is_each ? 2 : 1);
    if (clause_is_one_of(clause_token(clause, last + 1), open)) return NULL;
    const enum polarity polarity = clause_polarity(clause, i, last, rest);
    if (polarity == POLARITY_UNCLEAR) return NULL;
    return (polarity == POLARITY_SAID) == is_each ? "each" : "last";
}

const char *measured_gradient_sync(const char *text) {
    const bool names = strstr(text, "no_sync") != NULL || strstr(text, "no-sync") != NULL;
    const char *found = NULL;
    struct clause clause;
    while (clause_next(&text, &clause)) {
        if (clause_is_unclear(&clause)) continue;
        const char *said = reduced_when(&clause);
        for (int i = 0; i < clause.count && said == NULL; i++)
            said = sync_at(&clause, i, text, names);
        if (said != NULL && !agrees(&found, said)) return NULL;
    }
    return found;
}

/* ---- AdamW ---- */

static const char fused[] = "fused", foreach[] = "foreach";

/* Of another run: "without fused Adam 12.01 s". */
static bool holds_a_time(const struct clause *clause) {
    static const char *const units[] = { "s", "ms", "seconds", NULL };
    return clause_mentions(clause, units);
}

/* What "fused" or "foreach" at token k says, with the phrase first..last around it; "fused or
 * foreach" is open. */
static const char *kernels_at(const struct clause *clause, int first, int k, int last,
                              const char *rest) {
    const bool is_fused = strcmp(clause->tokens[k], fused) == 0;
    if (strcmp(clause_token(clause, last + 1), "or") == 0) return NULL;
    /* "AdamW fused no_sync": what is denied comes behind. */
    if (strcmp(clause_token(clause, last + 1), "no") == 0 && last + 2 < clause->count)
        return is_fused ? fused : foreach;
    switch (clause_polarity(clause, first, last, rest)) {
    case POLARITY_SAID:
        return is_fused ? fused : foreach;
    case POLARITY_DENIED: /* what is not foreach may be a loop */
        return is_fused && !holds_a_time(clause) ? foreach : NULL;
    case POLARITY_UNCLEAR:
        break;
    }
    return NULL;
}

/* "AdamW(fused=True)". */
static const char *kernels_in_brackets(const char *rest) {
    static const char *const no[] = { "false", "0", NULL };
    struct clause bracket;
    rest += strspn(rest, " ");
    if (rest[0] != '(') return NULL;
    rest++;
    if (!clause_next(&rest, &bracket)) return NULL;
    const bool is_fused = strcmp(bracket.tokens[0], fused) == 0;
    if (!is_fused && strcmp(bracket.tokens[0], foreach) != 0) return NULL;
    if (bracket.count == 1) return is_fused ? fused : foreach;
    const bool off = clause_is_one_of(bracket.tokens[1], no);
    if (!off && strcmp(bracket.tokens[1], "true") != 0) return NULL;
    return is_fused == !off ? (is_fused ? fused : NULL) : foreach;
}

static bool is_kernels(const char *token) {
    return strcmp(token, fused) == 0 || strcmp(token, foreach) == 0;
}

/* At an "adamw" of PyTorch's what stands beside it. */
static const char *adamw_at(const struct clause *clause, int i, const char *rest) {
    static const char *const adam[] = { "adamw", "adam", NULL };
    static const char *const filling[] = { "torch", "with", "is",  "was", "in",
                                           "by",    "not",  "non", NULL };
    static const char *const each[] = { "for", "each", NULL };
    static const char *const trainers[] = { "adamw", "torch", NULL }; /* optim of its Trainer */
    static const char *const variants[] = { "npu", "xla", "4bit", "8bit", NULL };
    if (!clause_is_one_of(clause->tokens[i], adam)) return NULL;
    const char *before = i > 0 ? clause->tokens[i - 1] : "";
    if (strcmp(before, "unfused") == 0) return foreach;
    if (is_kernels(before)) return kernels_at(clause, i - 1, i - 1, i, rest);
    int k = i + 1;
    while (clause_is_one_of(clause_token(clause, k), filling))
        k++;
    if (k < clause->count && is_kernels(clause->tokens[k]))
        return kernels_at(clause, k, k, k, rest);
    if (k == clause->count && i + 1 == clause->count) return kernels_in_brackets(rest);
    if (k == i + 2 && clause_starts(clause, i, trainers) &&
        !clause_is_one_of(clause_token(clause, k), variants))
        return clause_polarity(clause, i, i + 1, rest) == POLARITY_SAID ? foreach : NULL;
    return clause_starts(clause, i + 1, each) && i + 3 == clause->count ? foreach : NULL;
}

const char *measured_adamw_kernels(const char *text) {
    static const char *const others[] = { "apex", "deepspeed", NULL };
    const char *found = NULL;
    struct clause clause;
    while (clause_next(&text, &clause)) {
        if (clause_is_unclear(&clause) || clause_mentions(&clause, others)) continue;
        for (int i = 0; i < clause.count; i++) {
            const char *said = adamw_at(&clause, i, text);
            if (said != NULL && !agrees(&found, said)) return NULL;
        }
    }
    return found;
}

/* ---- Muon ---- */

const char *measured_optimizer(const char *text) {
    static const char *const names[] = { "muon", "normuon", "distmuon", NULL };
    /* of another run: "the later code uses Muon" */
    static const char *const others[] = { "later", "earlier",  "newer",    "older",
                                          "paper", "original", "baseline", NULL };
    const char *found = NULL;
    struct clause clause;
    while (clause_next(&text, &clause)) {
        if (clause_is_unclear(&clause) || clause_mentions(&clause, others)) continue;
        for (int i = 0; i < clause.count; i++) {
            if (!clause_is_one_of(clause.tokens[i], names)) continue;
            if (clause_polarity(&clause, i, i, text) != POLARITY_SAID) return NULL;
            found = "muon";
        }
    }
    return found;
}
