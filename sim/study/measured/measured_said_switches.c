/* measured_said_switches.c - what a source says was on or off: what overlaps with compute, dropout,
 * and norms of queries and keys. */
#include <ctype.h>
#include <stddef.h>
#include <string.h>

#include "sim/study/measured/measured_clause.h"
#include "sim/study/measured/measured_said.h"

/* Both are nothing said, whatever follows. */
enum { CONTRADICTED = -1 };

static void hear(int *heard, enum polarity polarity) {
    if (polarity == POLARITY_UNCLEAR || *heard == CONTRADICTED) return;
    const int now = polarity == POLARITY_SAID ? SWITCH_ON : SWITCH_OFF;
    *heard = *heard == SWITCH_UNSAID || *heard == now ? now : CONTRADICTED;
}

static enum measured_switch heard_or_not(int heard) {
    return heard == CONTRADICTED ? SWITCH_UNSAID : (enum measured_switch)heard;
}

/* Of another part of the model than the language model's blocks. */
static bool is_of_another_part(const struct clause *clause) {
    static const char *const parts[] = { "tower", "encoder", "vision", "vit", NULL };
    return clause_mentions(clause, parts);
}

/* A phrase at tokens first..last, with a denial within it or anywhere behind it ("are both off"). */
static enum polarity phrase_polarity(const struct clause *clause, int first, int last,
                                     const char *rest) {
    static const char *const within[] = { "not", "never", "no", "without", NULL };
    static const char *const off[] = { "off", "false", "disabled", "none", NULL };
    static const char *const vague[] = { "whatever", "effect", NULL };
    if (clause_mentions(clause, vague)) return POLARITY_UNCLEAR;
    const enum polarity polarity = clause_polarity(clause, first, last, rest);
    if (polarity != POLARITY_SAID) return polarity;
    for (int k = first; k <= last; k++)
        if (clause_is_one_of(clause_token(clause, k), within)) return POLARITY_DENIED;
    for (int k = last + 1; k < clause->count; k++)
        if (clause_is_one_of(clause->tokens[k], off)) return POLARITY_DENIED;
    return POLARITY_SAID;
}

/* ---- overlap ---- */

enum overlapped { OVERLAPPED_GRADIENTS, OVERLAPPED_PARAMETERS, OVERLAPPED_TENSOR, OVERLAPPED };

/* What token k is of, OVERLAPPED: of nothing that overlaps. */
static enum overlapped overlapped_by(const struct clause *clause, int k) {
    static const char *const words[OVERLAPPED][6] = {
        { "gradients", "gradient", "grads", "grad", NULL },
        { "parameters", "parameter", "params", "param", NULL },
        { "tp", "tensor", NULL },
    };
    static const char *const others[] = { "accumulation", "checkpointing", "offload",
                                          "offloading",   "computation",   NULL };
    enum overlapped kind = OVERLAPPED_GRADIENTS;
    while (kind < OVERLAPPED && !clause_is_one_of(clause_token(clause, k), words[kind]))
        kind++;
    return clause_is_one_of(clause_token(clause, k + 1), others) ? OVERLAPPED : kind;
}

static bool is_overlap(const char *token) {
    static const char *const overlap[] = { "overlap", "overlaps", "overlapped", "overlapping",
                                           NULL };
    return clause_is_one_of(token, overlap);
}

/* The last of the words that say what collective it is ("grad reduce", "tensor parallelism"). */
static int end_of_collective(const struct clause *clause, int k) {
    static const char *const words[] = { "reduce",   "reduces",     "reduction", "gather",
                                         "gathers",  "sync",        "comm",      "scatter",
                                         "parallel", "parallelism", NULL };
    while (clause_is_one_of(clause_token(clause, k + 1), words))
        k++;
    return k;
}

/* "overlap_grad_reduce", "overlap of gradients and parameters": what follows token i. */
static void hear_overlap_of(const struct clause *clause, int i, const char *rest,
                            int heard[OVERLAPPED]) {
    int k = i + 1;
    if (strcmp(clause_token(clause, k), "of") == 0) k++;
    for (;;) {
        const enum overlapped kind = overlapped_by(clause, k);
        if (kind == OVERLAPPED) return;
        const int last = end_of_collective(clause, k);
        hear(&heard[kind], phrase_polarity(clause, i, last, rest));
        k = last + 1;
        if (strcmp(clause_token(clause, k), "and") != 0) return;
        k++;
    }
}

/* "TP overlap", "tp_comm_overlap", "gradients are not overlapped": what precedes token i. */
static void hear_overlap_behind(const struct clause *clause, int i, const char *rest,
                                int heard[OVERLAPPED]) {
    static const char *const between[] = { "comm", "parallel", "parallelism", "reduce",
                                           "is",   "are",      "not",         "never",
                                           "was",  "were",     "reduction",   NULL };
    int k = i - 1;
    while (k > 0 && clause_is_one_of(clause_token(clause, k), between))
        k--;
    const enum overlapped kind = overlapped_by(clause, k);
    if (kind == OVERLAPPED || is_overlap(clause_token(clause, k - 1))) return;
    hear(&heard[kind], phrase_polarity(clause, k, i, rest));
}

/* DeepSpeed's option. */
static void hear_deepspeeds_overlap(const struct clause *clause, int i, const char *rest,
                                    int heard[OVERLAPPED]) {
    static const char *const option[] = { "overlap", "comm", NULL };
    static const char *const before[] = { "tp", "comm", "ub", NULL };
    if (clause_starts(clause, i, option) && !clause_is_one_of(clause_token(clause, i - 1), before))
        hear(&heard[OVERLAPPED_GRADIENTS], phrase_polarity(clause, i, i + 1, rest));
}

struct measured_overlap measured_says_overlap(const char *text) {
    int heard[OVERLAPPED] = { SWITCH_UNSAID, SWITCH_UNSAID, SWITCH_UNSAID };
    struct clause clause;
    while (clause_next(&text, &clause))
        for (int i = 0; i < clause.count; i++) {
            if (!is_overlap(clause.tokens[i])) continue;
            hear_overlap_of(&clause, i, text, heard);
            hear_overlap_behind(&clause, i, text, heard);
            hear_deepspeeds_overlap(&clause, i, text, heard);
        }
    return (struct measured_overlap){ .gradients = heard_or_not(heard[OVERLAPPED_GRADIENTS]),
                                      .parameters = heard_or_not(heard[OVERLAPPED_PARAMETERS]),
                                      .tensor = heard_or_not(heard[OVERLAPPED_TENSOR]) };
}

/* ---- dropout ---- */

/* Which dropout token i is: of adapters, of attention's scores, of the other places of a block, or
 * of all of the model. */
enum dropped { DROPPED_ADAPTERS, DROPPED_SCORES, DROPPED_BRANCHES, DROPPED_ALL, DROPPED };

static enum dropped dropout_at(const struct clause *clause, int i) {
    static const char *const adapters[] = { "lora", "adapter", "adapters", NULL };
    static const char *const scores[] = { "attention", "attn", NULL };
    static const char *const branches[] = {
        "hidden", "resid", "residual", "embd", "embedding", NULL
    };
    static const char *const kernels[] = { "fusion", "fused", "add",   "apart",
                                           "kernel", "layer", "flags", NULL };
    static const char *const ahead[] = { "fused", "bias", NULL };
    const char *before = clause_token(clause, i - 1), *behind = clause_token(clause, i + 1);
    if (strcmp(clause->tokens[i], "dropout") != 0 || clause_is_one_of(behind, kernels) ||
        clause_is_one_of(before, ahead) || is_of_another_part(clause))
        return DROPPED;
    if (clause_is_one_of(before, adapters) || clause_mentions(clause, adapters))
        return DROPPED_ADAPTERS;
    if (clause_is_one_of(before, scores)) return DROPPED_SCORES;
    return clause_is_one_of(before, branches) ? DROPPED_BRANCHES : DROPPED_ALL;
}

/* By the number behind it ("dropout rate of 0.1"), else by "no dropout", "with dropout", "dropout
 * on": the word alone says nothing ("dropout, softmax and the loss unfused"). */
static enum polarity dropout_polarity(const struct clause *clause, int i, const char *rest) {
    static const char *const filling[] = { "of",   "rate",    "prob", "probability", "p",
                                           "at",   "is",      "was",  "set",         "to",
                                           "both", "default", NULL };
    static const char *const on[] = { "on", "enabled", "true", NULL };
    static const char *const gone[] = { "removed", "dropped", NULL };
    static const char *const silent[] = { "states", "state", "names", "says", "mentions", NULL };
    int k = i + 1;
    while (clause_is_one_of(clause_token(clause, k), filling))
        k++;
    if (clause_is_number(clause_token(clause, k))) {
        bool nought = true;
        for (; clause_is_number(clause_token(clause, k)); k++)
            nought = nought && strspn(clause->tokens[k], "0") == strlen(clause->tokens[k]);
        return nought ? POLARITY_DENIED : POLARITY_SAID;
    }
    if (clause_is_one_of(clause_token(clause, k), gone) ||
        strcmp(clause_token(clause, i - 1), "zero") == 0)
        return POLARITY_DENIED;
    for (int s = 0; s < i; s++)
        if (clause_is_one_of(clause->tokens[s], silent)) return POLARITY_UNCLEAR;
    const enum polarity polarity = phrase_polarity(clause, i, i, rest);
    const bool stated = strcmp(clause_token(clause, i - 1), "with") == 0 ||
                        clause_is_one_of(clause_token(clause, k), on);
    return polarity == POLARITY_SAID && !stated ? POLARITY_UNCLEAR : polarity;
}

static void hear_dropout(const char *text, int heard[DROPPED]) {
    struct clause clause;
    for (int d = 0; d < DROPPED; d++)
        heard[d] = SWITCH_UNSAID;
    while (clause_next(&text, &clause))
        for (int i = 0; i < clause.count; i++) {
            const enum dropped dropped = dropout_at(&clause, i);
            if (dropped != DROPPED) hear(&heard[dropped], dropout_polarity(&clause, i, text));
        }
}

/* What is said of scores and branches apart is said of the model where both are alike. */
enum measured_switch measured_says_dropout(const char *text) {
    int heard[DROPPED];
    hear_dropout(text, heard);
    const enum measured_switch all = heard_or_not(heard[DROPPED_ALL]),
                               scores = heard_or_not(heard[DROPPED_SCORES]),
                               branches = heard_or_not(heard[DROPPED_BRANCHES]);
    if (all != SWITCH_UNSAID)
        return (scores == SWITCH_UNSAID || scores == all) &&
                       (branches == SWITCH_UNSAID || branches == all)
                   ? all
                   : SWITCH_UNSAID;
    if (scores == branches) return scores;
    return scores == SWITCH_ON && branches == SWITCH_UNSAID ? SWITCH_ON : SWITCH_UNSAID;
}

enum measured_switch measured_says_adapter_dropout(const char *text) {
    int heard[DROPPED];
    hear_dropout(text, heard);
    const enum measured_switch own = heard_or_not(heard[DROPPED_ADAPTERS]);
    return own != SWITCH_UNSAID ? own : heard_or_not(heard[DROPPED_ALL]);
}

/* ---- norms of queries and keys ---- */

enum measured_switch measured_says_qk_norm(const char *text) {
    static const char *const phrases[][6] = {
        { "qk", "norm", NULL },
        { "qk", "norms", NULL },
        { "qk", "layernorm", NULL },
        { "qk", "rmsnorm", NULL },
        { "qknorm", NULL },
        { "q", "k", "norm", NULL },
        { "norm", "of", "q", "and", "k", NULL },
        { "norms", "of", "q", "and", "k", NULL },
        { "norms", "of", "queries", "and", "keys", NULL },
    };
    static const char *const constants[] = { "eps", "epsilon", NULL };
    int heard = SWITCH_UNSAID;
    struct clause clause;
    while (clause_next(&text, &clause))
        for (int i = 0; i < clause.count && !is_of_another_part(&clause); i++)
            for (size_t p = 0; p < sizeof phrases / sizeof phrases[0]; p++) {
                const int last = clause_phrase_end(&clause, i, phrases[p]);
                if (last < 0 || clause_is_one_of(clause_token(&clause, last + 1), constants))
                    continue;
                hear(&heard, phrase_polarity(&clause, i, last, text));
            }
    return heard_or_not(heard);
}
