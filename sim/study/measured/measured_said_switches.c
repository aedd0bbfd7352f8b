/* measured_said_switches.c - what a source says was on or off: what overlaps with compute, dropout,
 * and norms of queries and keys. */
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

/* ---- overlap ---- */

enum overlapped { OVERLAPPED_GRADIENTS, OVERLAPPED_PARAMETERS, OVERLAPPED_TENSOR, OVERLAPPED };

/* What token k is of, OVERLAPPED: of nothing that overlaps. */
static enum overlapped overlapped_by(const char *token) {
    static const char *const words[OVERLAPPED][6] = {
        { "gradients", "gradient", "grads", "grad", NULL },
        { "parameters", "parameter", "params", "param", NULL },
        { "tp", "tensor", NULL },
    };
    enum overlapped kind = OVERLAPPED_GRADIENTS;
    while (kind < OVERLAPPED && !clause_is_one_of(token, words[kind]))
        kind++;
    return kind;
}

/* "TP overlap", "tp_comm_overlap", "overlap of TP"; not "overlap-grad-reduce, TP 8". */
static bool is_tensor_overlap(const struct clause *clause, int k, int i) {
    static const char *const between[] = { "comm", "parallel", "parallelism", "of", NULL };
    const int distance = k < i ? i - k : k - i;
    const char *middle = clause_token(clause, (k + i) / 2);
    return distance == 1 || (distance == 2 && clause_is_one_of(middle, between));
}

/* Megatron-LM's overlap_grad_reduce, overlap_param_gather and tp_comm_overlap, NeMo's
 * overlap_grad_sync, DeepSpeed's overlap_comm, and "overlap of gradients and parameters". */
static void hear_overlap_at(const struct clause *clause, int i, const char *rest,
                            int heard[OVERLAPPED]) {
    static const char *const overlap[] = { "overlap", "overlaps", "overlapped", "overlapping",
                                           NULL };
    static const char *const deepspeeds[] = { "overlap", "comm", NULL };
    enum { BEHIND = 2, AHEAD = 4 };
    if (!clause_is_one_of(clause->tokens[i], overlap)) return;
    if (clause_starts(clause, i, deepspeeds) && strcmp(clause_token(clause, i - 1), "comm") != 0 &&
        strcmp(clause_token(clause, i - 1), "tp") != 0)
        hear(&heard[OVERLAPPED_GRADIENTS], clause_polarity(clause, i, i + 1, rest));
    for (int k = i - BEHIND; k <= i + AHEAD; k++) {
        const enum overlapped kind = overlapped_by(clause_token(clause, k));
        if (kind == OVERLAPPED) continue;
        if (kind == OVERLAPPED_TENSOR && !is_tensor_overlap(clause, k, i)) continue;
        int last = k > i ? k : i;
        static const char *const verbs[] = { "reduce",  "reduces", "reduction", "gather",
                                             "gathers", "sync",    NULL };
        while (clause_is_one_of(clause_token(clause, last + 1), verbs))
            last++;
        hear(&heard[kind], clause_polarity(clause, k < i ? k : i, last, rest));
    }
}

struct measured_overlap measured_says_overlap(const char *text) {
    int heard[OVERLAPPED] = { SWITCH_UNSAID, SWITCH_UNSAID, SWITCH_UNSAID };
    struct clause clause;
    while (clause_next(&text, &clause))
        for (int i = 0; i < clause.count; i++)
            hear_overlap_at(&clause, i, text, heard);
    return (struct measured_overlap){ .gradients = heard_or_not(heard[OVERLAPPED_GRADIENTS]),
                                      .parameters = heard_or_not(heard[OVERLAPPED_PARAMETERS]),
                                      .tensor = heard_or_not(heard[OVERLAPPED_TENSOR]) };
}

/* ---- dropout ---- */

static const char *const kernels_of_dropout[] = { "fusion", "fused", "add", "apart", NULL };

static bool is_dropout(const struct clause *clause, int i) {
    return strcmp(clause->tokens[i], "dropout") == 0 &&
           !clause_is_one_of(clause_token(clause, i + 1), kernels_of_dropout);
}

/* "lora_dropout 0.05" is the adapters', "BERT's dropout in the text tower" another part's, "bias
 * dropout fusion" a kernel's name. */
static bool is_dropout_of_the_model(const struct clause *clause, int i) {
    static const char *const adapters[] = { "lora", "adapter", "adapters", "bias", NULL };
    static const char *const parts[] = { "tower", "encoder", "lora", NULL };
    return is_dropout(clause, i) && !clause_mentions(clause, parts) &&
           !clause_is_one_of(clause_token(clause, i - 1), adapters);
}

static enum measured_switch says_dropout(const char *text,
                                         bool (*meant)(const struct clause *clause, int i)) {
    static const char *const zero[] = { "0", "0", NULL };
    int heard = SWITCH_UNSAID;
    struct clause clause;
    while (clause_next(&text, &clause))
        for (int i = 0; i < clause.count; i++) {
            if (!meant(&clause, i)) continue;
            const bool nought = clause_starts(&clause, i + 1, zero); /* "dropout 0.0" */
            hear(&heard, nought ? POLARITY_DENIED : clause_polarity(&clause, i, i, text));
        }
    return heard_or_not(heard);
}

enum measured_switch measured_says_dropout(const char *text) {
    return says_dropout(text, is_dropout_of_the_model);
}

enum measured_switch measured_says_adapter_dropout(const char *text) {
    return says_dropout(text, is_dropout);
}

/* ---- norms of queries and keys ---- */

enum measured_switch measured_says_qk_norm(const char *text) {
    static const char *const phrases[][5] = {
        { "qk", "norm", NULL },
        { "qk", "norms", NULL },
        { "qk", "layernorm", NULL },
        { "qk", "rmsnorm", NULL },
        { "qknorm", NULL },
        { "q", "k", "norm", NULL },
        { "norm", "of", "q", "and", NULL },
        { "norms", "of", "q", "and", NULL },
    };
    int heard = SWITCH_UNSAID;
    struct clause clause;
    while (clause_next(&text, &clause))
        for (int i = 0; i < clause.count; i++)
            for (size_t p = 0; p < sizeof phrases / sizeof phrases[0]; p++) {
                if (!clause_starts(&clause, i, phrases[p])) continue;
                int last = i;
                while (phrases[p][last - i + 1] != NULL)
                    last++;
                hear(&heard, clause_polarity(&clause, i, last, text));
            }
    return heard_or_not(heard);
}
