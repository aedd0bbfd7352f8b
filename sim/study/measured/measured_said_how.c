/* measured_said_how.c - what notes say of how a run was made: recomputation, attention, sharding,
 * kernels, weights, and what trained it.
 */
#include <ctype.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include "sim/study/measured/measured_clause.h"
#include "sim/study/measured/measured_said.h"

static bool is(const struct clause *clause, int i, const char *word) {
    return strcmp(clause_token(clause, i), word) == 0;
}

/* ---- attention ---- */

/* "flash-attn 2.8.3", "FlashAttention-2", "fa3": the number behind i, 0 where none of these. */
static int version_after(const struct clause *clause, int i) {
    const char *next = clause_token(clause, i + 1);
    const bool one = next[0] >= '1' && next[0] <= '3' && next[1] == '\0';
    return one ? next[0] - '0' : 0;
}

static const char *flash_word(int version) {
    static const char *const words[] = { "flash", "flash-1", "flash-2", "flash-3" };
    return words[version];
}

/* Transformer Engine takes cuDNN's from Hopper on. */
static bool names_cudnn(const struct clause *clause, int i) {
    return is(clause, i, "cudnn") || is(clause, i, "te") ||
           (is(clause, i, "engine") && is(clause, i - 1, "transformer"));
}

/* The kernel that token i speaks of, its last token, and whether it names a version; NULL: none. */
static const char *kernel_at(const struct clause *clause, int i, int *last, bool *versioned) {
    static const char *const attention[] = { "attention", "attn", NULL };
    static const char *const written_out[] = { "unfused",      "naive", "materialised",
                                               "materialized", "eager", "normal",
                                               "vanilla",      "plain", NULL };
    const char *token = clause_token(clause, i), *next = clause_token(clause, i + 1);
    const bool one = strcmp(token, "flashattention") == 0 || strcmp(token, "flashattn") == 0;
    const bool two = strcmp(token, "flash") == 0 && clause_is_one_of(next, attention);
    *last = i;
    *versioned = false;
    if (one || two) {
        const int version = version_after(clause, i + two);
        *versioned = version > 0;
        *last = i + two + *versioned;
        return flash_word(version);
    }
    if (strncmp(token, "fa", 2) == 0 && strlen(token) == 3 && token[2] >= '1' && token[2] <= '3') {
        *versioned = true;
        return flash_word(token[2] - '0');
    }
    if (names_cudnn(clause, i)) {
        static const char *const prefers[] = { "prefers", "prefer", NULL }; /* of some version */
        if (clause_is_one_of(clause_token(clause, i - 1), prefers)) return NULL;
        const int own = i + is(clause, i + 1, "s"); /* "cuDNN's" */
        const bool behind = clause_is_one_of(clause_token(clause, own + 1), attention);
        *versioned = true;
        *last = behind ? own + 1 : i;
        if (behind ||
            (is(clause, i, "cudnn") && clause_is_one_of(clause_token(clause, i - 1), attention)))
            return "cudnn";
        *versioned = false;
        *last = i;
    }
    if (strcmp(token, "sdpa") == 0) return "flash";
    if (clause_is_one_of(token, written_out) && is(clause, i - 1, "implementation")) return "naive";
    *last = i + 1;
    if (clause_is_one_of(token, written_out) && clause_is_one_of(next, attention)) return "naive";
    return clause_is_one_of(token, attention) && clause_is_one_of(next, written_out) ? "naive"
                                                                                     : NULL;
}

/* The more exact of two names of one kernel; NULL: two kernels. */
static const char *both_kernels(const char *a, const char *b) {
    if (a[0] == '\0' || strcmp(a, b) == 0) return b;
    if (strcmp(a, "flash") == 0 && strcmp(b, "cudnn") == 0) return b;
    if (strcmp(a, "cudnn") == 0 && strcmp(b, "flash") == 0) return a;
    const bool flash = strncmp(a, "flash", 5) == 0 && strncmp(b, "flash", 5) == 0;
    if (!flash || (a[5] != '\0' && b[5] != '\0')) return NULL;
    return a[5] != '\0' ? a : b;
}

/* Who denies FlashAttention and names no other fused kernel writes scores out; a version that is
 * denied leaves the others. */
const char *measured_says_attention(const char *text) {
    const char *found = "";
    bool denied = false;
    struct clause clause;
    while (clause_next(&text, &clause))
        for (int i = 0; i < clause.count; i++) {
            int last;
            bool versioned;
            const char *kernel = kernel_at(&clause, i, &last, &versioned);
            if (kernel == NULL) continue;
            const enum polarity polarity = clause_polarity(&clause, i, last, text);
            /* a library without cuDNN's runs another's */
            const bool fused = strncmp(kernel, "flash", 5) == 0, sdpa = is(&clause, i, "sdpa");
            /* "flash_attention_2: false" is the option, "no FA3" the version */
            if (polarity == POLARITY_DENIED)
                denied = denied || (fused && !sdpa && (!versioned || last > i));
            if (polarity != POLARITY_SAID) continue;
            found = both_kernels(found, kernel);
            if (found == NULL) return "";
        }
    return found[0] == '\0' && denied ? "naive" : found;
}

bool measured_says_flex_attention(const char *text) {
    static const char *const attention[] = { "attention", "attn", NULL };
    struct clause clause;
    while (clause_next(&text, &clause))
        for (int i = 0; i < clause.count; i++) {
            const bool two =
                is(&clause, i, "flex") && clause_is_one_of(clause_token(&clause, i + 1), attention);
            if ((two || is(&clause, i, "flexattention")) &&
                clause_polarity(&clause, i, i + two, text) == POLARITY_SAID)
                return true;
        }
    return false;
}

bool measured_says_tf32(const char *text) {
    struct clause clause;
    while (clause_next(&text, &clause))
        for (int i = 0; i < clause.count; i++) {
            const bool named = is(&clause, i, "tf32") || is(&clause, i, "tensorfloat32");
            if (named && clause_polarity(&clause, i, i, text) == POLARITY_SAID) return true;
        }
    return false;
}

/* ---- recomputation ---- */

static const char *const activations[] = { "activation", "activations", "gradient", "grad",
                                           "act",        "gradients",   NULL };

/* Of activations, not of a training's state. */
static bool speaks_of_recompute(const struct clause *clause, int i) {
    static const char *const words[] = { "recompute",     "recomputes",     "recomputed",
                                         "recomputation", "recomputing",    "checkpointing",
                                         "remat",         "rematerialized", NULL };
    static const char *const short_words[] = { "checkpoint", "ckpt", NULL };
    static const char *const parts[] = { "encoder", "tower", "storage", NULL };
    static const char *const saves[] = { "async", "asynchronous", "distributed", "sharded", NULL };
    static const char *const times[] = { "steps", "hours", "epochs", "minutes", NULL };
    static const char *const every[] = { "every", "each", NULL };
    static const char *const kinds[] = { "full", "selective", NULL };
    const char *token = clause_token(clause, i), *before = clause_token(clause, i - 1);
    if (clause_mentions(clause, parts) || clause_is_one_of(before, saves) ||
        (clause_mentions(clause, times) && clause_mentions(clause, every)))
        return false;
    if (strcmp(token, "ac") == 0)
        return clause_is_one_of(before, kinds) ||
               clause_is_one_of(clause_token(clause, i + 1), kinds) ||
               clause_polarity(clause, i, i, "") == POLARITY_DENIED;
    return clause_is_one_of(token, words) ||
           (clause_is_one_of(token, short_words) && clause_is_one_of(before, activations));
}

/* What the clause has of each block run again, NULL: it is of something else ("batch and
 * checkpointing from its script"). Megatron-LM's --recompute-activations is its selective kind. */
static const char *recompute_kind(const struct clause *clause, int i, const char *rest) {
    static const char *const parts[] = { "selective", "selectively", "op",   "operator",
                                         "operators", "opwise",      "core", "norm",
                                         "norms",     NULL };
    static const char *const whole[] = { "full",   "fully",  "whole", "uniform", "each", "every",
                                         "layers", "blocks", "on",    "yes",     "true", NULL };
    static const char *const counted[] = { "counted", "count", "counts", NULL };
    const enum polarity polarity = clause_polarity(clause, i, i, rest);
    if (polarity == POLARITY_UNCLEAR) return NULL;
    /* "no recompute counted" is of FLOP */
    const bool of_others = clause_mentions(clause, parts) || clause_mentions(clause, counted);
    if (polarity == POLARITY_DENIED) return of_others ? NULL : "none";
    const bool flag = is(clause, i, "recompute") && is(clause, i + 1, "activations");
    if (flag || clause_mentions(clause, parts)) return "selective";
    const bool all = clause_mentions(clause, whole) || clause_mentions(clause, activations);
    return all || clause->count == 1 ? "full" : NULL;
}

const char *measured_says_recompute(const char *text) {
    const char *found = "";
    struct clause clause;
    while (clause_next(&text, &clause))
        for (int i = 0; i < clause.count; i++) {
            const char *kind =
                speaks_of_recompute(&clause, i) ? recompute_kind(&clause, i, text) : NULL;
            if (kind == NULL) continue;
            if (found[0] != '\0' && strcmp(found, kind) != 0) return "";
            found = kind;
        }
    return found;
}

/* ---- context parallelism ---- */

/* How token i shares a sequence, NULL: it says nothing of that. NCCL and networks have rings, and
 * collectives are everybody's. */
static const char *context_at(const struct clause *clause, int i) {
    static const char *const around[] = { "around", "a", "ring", NULL },
                             *const self[] = { "ring", "self", "attention", NULL },
                             *const flash[] = { "ring", "flash", NULL },
                             *const exchange[] = { "all", "to", "all", NULL },
                             *const gather[] = { "all", "gather", NULL };
    static const char *const attention[] = { "attention", "attn", "attentions", NULL };
    static const char *const spared[] = { "free", "less", NULL };
    static const char *const shared[] = { "context", "cp", "kv", "rotate", NULL },
                             *const rotated[] = { "rotate", NULL },
                             *const exchanges[] = { "alltoall", "a2a", NULL };
    const char *token = clause_token(clause, i), *next = clause_token(clause, i + 1);
    if (strcmp(token, "ulysses") == 0) return clause_is_one_of(next, spared) ? NULL : "all-to-all";
    if (strcmp(token, "ringattention") == 0 || clause_starts(clause, i, around) ||
        (strcmp(token, "ring") == 0 && (clause->count == 1 || clause_is_one_of(next, attention))) ||
        clause_starts(clause, i, self) || clause_starts(clause, i, flash))
        return "ring";
    if (!clause_mentions(clause, shared)) return NULL;
    const bool exchanged = clause_is_one_of(token, exchanges) || clause_starts(clause, i, exchange);
    if (exchanged && clause_mentions(clause, rotated)) return "rotated ring"; /* PyTorch's other */
    if (strcmp(token, "a2a") == 0 || clause_starts(clause, i, exchange)) return "all-to-all";
    return strcmp(token, "allgather") == 0 || clause_starts(clause, i, gather) ? "all-gather"
                                                                               : NULL;
}

/* Who denies Ulysses has a ring. */
const char *measured_says_context(const char *text) {
    static const char *const no[] = { "no", "without", NULL };
    static const char *const rings[] = { "ring", "p2p", NULL };
    const char *found = "";
    bool denied = false, hybrid = false, no_exchange = false;
    struct clause clause;
    while (clause_next(&text, &clause))
        for (int i = 0; i < clause.count; i++) {
            const char *kind = context_at(&clause, i);
            hybrid = hybrid || clause_is_one_of(clause.tokens[i], rings);
            denied = denied || (clause_is_one_of(clause.tokens[0], no) && *text == '(');
            if (kind == NULL || denied) continue;
            const enum polarity polarity = clause_polarity(&clause, i, i, text);
            no_exchange =
                no_exchange || (polarity == POLARITY_DENIED && strcmp(kind, "all-to-all") == 0);
            if (polarity != POLARITY_SAID) continue;
            if (found[0] != '\0' && strcmp(found, kind) != 0) return "";
            found = kind;
        }
    if (found[0] == '\0' && no_exchange) return "ring";
    return hybrid && strcmp(found, "all-to-all") == 0 ? "" : found; /* "Ulysses 4, ring 2" */
}

/* The number of ranks at token i, "ulysses" ("ulysses degree 4", "4-way Ulysses"); 0: none. */
static int64_t ranks_at(const struct clause *clause, int i) {
    static const char *const between[] = { "degree",   "size",        "sp",       "of", "x",
                                           "sequence", "parallelism", "parallel", NULL };
    static const char *const way[] = { "way", "rank", "ranks", NULL };
    static const char *const machines[] = { "node", "nodes", NULL };
    int at = i + 1;
    while (clause_is_one_of(clause_token(clause, at), between))
        at++;
    if (clause_is_number(clause_token(clause, at)))
        return clause_is_one_of(clause_token(clause, at + 1), machines) ||
                       clause_is_number(clause_token(clause, at + 1)) /* "4.5" */
                   ? 0
                   : strtol(clause_token(clause, at), NULL, 10);
    if (!clause_is_one_of(clause_token(clause, i - 1), way)) return 0;
    return clause_is_number(clause_token(clause, i - 2))
               ? strtol(clause_token(clause, i - 2), NULL, 10)
               : 0;
}

int64_t measured_says_exchanging_ranks(const char *text) {
    static const char *const rings[] = { "ring", "ringattention", "p2p", NULL };
    static const char *const attentions[] = { "attention", "attn", NULL };
    static const char *const collectives[] = { "nccl", "reduce", "allreduce", NULL };
    struct clause clause;
    int64_t ranks = 0;
    bool ring = false;
    while (clause_next(&text, &clause)) {
        for (int i = 0; i < clause.count; i++) {
            const bool attention = clause_is_one_of(clause_token(&clause, i + 1), attentions);
            if (clause_polarity(&clause, i, i + attention, text) != POLARITY_SAID) continue;
            ring = ring || (clause_is_one_of(clause.tokens[i], rings) &&
                            !clause_mentions(&clause, collectives));
            if (ranks == 0 && is(&clause, i, "ulysses")) ranks = ranks_at(&clause, i);
        }
    }
    return ring ? ranks : 0;
}

/* What else is dealt out: states, documents, layers, experts. */
static bool deals_other_things(const struct clause *clause) {
    static const char *const things[] = { "zero",       "optimizer", "states", "documents",
                                          "packed",     "stage",     "stages", "pipeline",
                                          "parameters", "weights",   "moe",    "expert",
                                          "experts",    "loader",    "data",   NULL };
    return clause_mentions(clause, things);
}

/* "contiguous chunks", "contiguous sequence shards", "split contiguously". */
static bool is_contiguous(const struct clause *clause, int i) {
    static const char *const pieces[] = { "shard",  "shards", "sharding", "chunk", "chunks",
                                          "slices", "blocks", "split",    "parts", NULL };
    static const char *const of[] = { "sequence", "token", "tokens", NULL };
    static const char *const dealt[] = { "sequence", "sequences", "tokens", NULL };
    if (is(clause, i, "contiguously")) return clause_mentions(clause, dealt);
    if (!is(clause, i, "contiguous")) return false;
    const int next = i + 1 + clause_is_one_of(clause_token(clause, i + 1), of);
    return clause_is_one_of(clause_token(clause, next), pieces);
}

/* How token i says that a sequence is shared. */
static enum measured_balance balance_at(const struct clause *clause, int i) {
    enum { TERSE = 5 }; /* a clause of no more tokens speaks of nothing else */
    static const char *const zig_zag[] = { "zig", "zag", NULL };
    static const char *const shared[] = { "ring",   "context",   "cp",     "causal",
                                          "rank",   "ranks",     "tokens", "sequence",
                                          "zigzag", "sequences", NULL };
    static const char *const balance[] = { "balanced", "balance", "balancing", "balancer", NULL };
    static const char *const uneven[] = { "unbalanced", "imbalanced", NULL };
    const char *token = clause_token(clause, i);
    if (strcmp(token, "zigzag") == 0 || clause_starts(clause, i, zig_zag)) return BALANCE_EQUAL;
    if (deals_other_things(clause)) return BALANCE_UNSAID;
    const bool of_ranks = clause_mentions(clause, shared);
    if (!of_ranks && clause->count > TERSE) return BALANCE_UNSAID;
    if (is_contiguous(clause, i)) return BALANCE_UNEQUAL;
    if (clause_is_one_of(token, uneven)) return of_ranks ? BALANCE_UNEQUAL : BALANCE_UNSAID;
    return strcmp(token, "load") == 0 && clause_is_one_of(clause_token(clause, i + 1), balance)
               ? BALANCE_EQUAL
               : BALANCE_UNSAID;
}

enum measured_balance measured_says_balance(const char *text) {
    enum measured_balance found = BALANCE_UNSAID;
    struct clause clause;
    while (clause_next(&text, &clause)) {
        int i = 0; /* the first that says so: "not zigzag: unbalanced" denies one of them */
        while (i < clause.count && balance_at(&clause, i) == BALANCE_UNSAID)
            i++;
        if (i == clause.count) continue;
        const int last = i + is(&clause, i, "load"); /* "load balancing off" */
        const enum polarity polarity = clause_polarity(&clause, i, last, text);
        if (polarity == POLARITY_UNCLEAR) continue;
        const bool equal = balance_at(&clause, i) == BALANCE_EQUAL;
        const enum measured_balance said =
            equal == (polarity == POLARITY_SAID) ? BALANCE_EQUAL : BALANCE_UNEQUAL;
        if (found != BALANCE_UNSAID && found != said) return BALANCE_UNSAID;
        found = said;
    }
    return found;
}

/* ---- sharding ---- */

static int64_t digit(const char *token) {
    return token[0] >= '0' && token[0] <= '3' && token[1] == '\0' ? token[0] - '0' : -1;
}

/* "ZeRO-3", "z3", "zero3", "ZeRO stage 2", "sharding stage 2", "FULL_SHARD" at token i, with its
 * last token; -1: none. */
static int64_t stage_at(const struct clause *clause, int i, int *last) {
    static const char *const engines[] = { "zero",         "sharding", "deepspeed", "config",
                                           "optimization", "ds",       NULL };
    static const char *const full[] = { "full", "shard", NULL },
                             *const gradients[] = { "shard", "grad", "op", NULL },
                             *const none[] = { "no", "shard", NULL };
    const char *token = clause_token(clause, i);
    *last = i;
    if (strncmp(token, "zero", 4) == 0 && token[4] != '\0') return digit(token + 4);
    if (token[0] == 'z' && strlen(token) == 2) return digit(token + 1);
    *last = i + 1;
    if (strcmp(token, "zero") == 0 && digit(clause_token(clause, i + 1)) >= 0)
        return digit(clause_token(clause, i + 1));
    if (strcmp(token, "stage") == 0 && clause_is_one_of(clause_token(clause, i - 1), engines))
        return digit(clause_token(clause, i + 1));
    if (clause_starts(clause, i, full)) return 3;
    if (clause_starts(clause, i, none)) return 0;
    *last = i + 2;
    return clause_starts(clause, i, gradients) ? 2 : -1;
}

int64_t measured_says_zero_stage(const char *text) {
    int64_t found = -1;
    struct clause clause;
    while (clause_next(&text, &clause))
        for (int i = 0; i < clause.count; i++) {
            int last;
            const int64_t stage = stage_at(&clause, i, &last);
            if (stage < 0 || clause_polarity(&clause, i, last, text) != POLARITY_SAID) continue;
            if (found >= 0 && found != stage) return -1;
            found = stage;
        }
    return found;
}

/* ---- degrees ---- */

/* A number alone, without a unit that its letters would be; -1: none. */
static int64_t count_of(const char *token) {
    const size_t digits = strspn(token, "0123456789");
    return digits > 0 && digits < 6 && token[digits] == '\0' ? atoi(token) : -1;
}

/* "TP 4", "tp4", "TP size 4", "4-way tensor parallelism", "tensor_model_parallel_size=4" at token i,
 * with its last token; -1: none. */
static int64_t degree_at(const struct clause *clause, int i, const char *abbreviation,
                         const char *name, int *last) {
    static const char *const between[] = { "model",  "parallel", "parallelism", "mp", "size",
                                           "degree", "of",       "is",          NULL };
    static const char *const units[] = { "gb", "gib", "mb", "s", "ms", "percent", "x", NULL };
    const char *token = clause_token(clause, i);
    const size_t length = strlen(abbreviation);
    *last = i;
    if (strncmp(token, abbreviation, length) == 0 && token[length] != '\0')
        return count_of(token + length);
    const bool named = strcmp(token, name) == 0;
    if (!named && strcmp(token, abbreviation) != 0) return -1;
    if (strcmp(clause_token(clause, i - 1), "way") == 0)
        return count_of(clause_token(clause, i - 2));
    bool parallel = !named;
    int at = i + 1;
    for (; clause_is_one_of(clause_token(clause, at), between); at++)
        parallel = parallel || strncmp(clause_token(clause, at), "parallel", 8) == 0;
    *last = at;
    return parallel && !clause_is_one_of(clause_token(clause, at + 1), units)
               ? count_of(clause_token(clause, at))
               : -1;
}

int64_t measured_says_degree(const char *text, const char *abbreviation, const char *name) {
    int64_t found = -1;
    struct clause clause;
    while (clause_next(&text, &clause))
        for (int i = 0; i < clause.count; i++) {
            int last;
            const int64_t degree = degree_at(&clause, i, abbreviation, name, &last);
            if (degree < 1 || clause_polarity(&clause, i, last, text) != POLARITY_SAID) continue;
            if (found >= 1 && found != degree) return -1;
            found = degree;
        }
    return found;
}

/* ---- kernels ---- */

static enum measured_kernels kernels_at(const struct clause *clause, int i, const char *rest) {
    static const char *const compile[] = { "compile", "compiled", "compilation", NULL };
    static const char *const others[] = { "source",   "time",      "excluded", "included",
                                          "excludes", "optimizer", NULL };
    static const char *const parts[] = { "attn", "attention", "flashattention", NULL };
    static const char *const attention[] = { "attention",    "attn",   "attentions", "sdpa",
                                             "softmax",      "scores", "mask",       "fallback",
                                             "materialised", NULL };
    static const char *const compares[] = { "than",   "vs",     "versus",   "unlike",   "over",
                                            "slower", "faster", "compared", "other",    "another",
                                            "would",  "could",  "earlier",  "previous", NULL };
    if (is(clause, i, "eager")) {
        if (clause_mentions(clause, attention) || clause_mentions(clause, compares))
            return KERNELS_UNSAID;
        return clause_polarity(clause, i, i, rest) == POLARITY_DENIED ? KERNELS_UNSAID
                                                                      : KERNELS_EAGER;
    }
    if (!clause_is_one_of(clause_token(clause, i), compile) || clause_mentions(clause, others) ||
        is(clause, i + 1, "loss") || clause_is_one_of(clause_token(clause, i - 1), parts))
        return KERNELS_UNSAID;
    static const char *const refused[] = { "false", "off",  "disabled", "disable", "0",
                                           "no",    "none", "null",     "never",   NULL };
    if (is(clause, i, "compile") && is(clause, i + 1, "model") &&
        clause_is_one_of(clause_token(clause, i + 2), refused))
        return KERNELS_NOT_COMPILED; /* "compile_model False" */
    const int first = is(clause, i - 1, "torch") ? i - 1 : i;
    if (is(clause, first - 1, "before")) return KERNELS_NOT_COMPILED; /* "before torch.compile" */
    switch (clause_polarity(clause, i, i, rest)) {
    case POLARITY_SAID:
        return KERNELS_COMPILED;
    case POLARITY_DENIED:
        return KERNELS_NOT_COMPILED;
    default:
        return KERNELS_UNSAID;
    }
}

enum measured_kernels measured_says_kernels(const char *text) {
    enum measured_kernels found = KERNELS_UNSAID;
    struct clause clause;
    while (clause_next(&text, &clause))
        for (int i = 0; i < clause.count; i++) {
            const enum measured_kernels kernels = kernels_at(&clause, i, text);
            if (kernels > found) found = kernels;
        }
    return found;
}

/* ---- weights ---- */

/* fp32 copies of the weights, or fp32 shards; not "without master weights". */
static bool says_masters(const char *text) {
    static const char *const words[] = { "master", "masters", "masterweights", "shards", NULL };
    static const char *const shards[] = { "fp32", "shards", NULL };
    struct clause clause;
    while (clause_next(&text, &clause))
        for (int i = 0; i < clause.count; i++) {
            if (!clause_is_one_of(clause.tokens[i], words) || clause_denied_before(&clause, i))
                continue;
            if (strcmp(clause.tokens[i], "shards") != 0) return true;
            if (i > 0 && clause_starts(&clause, i - 1, shards)) return true;
        }
    return false;
}

/* "without fp32 copies" mentions nothing. */
static bool mentions_undenied(const struct clause *clause, const char *const *words) {
    for (int i = 0; i < clause->count; i++)
        if (clause_is_one_of(clause->tokens[i], words) && !clause_denied_before(clause, i))
            return true;
    return false;
}

bool measured_says_bf16_weights(const char *text) {
    static const char *const weights[] = { "weights", "parameters", "params", "model", NULL };
    static const char *const states[] = { "gradients", "states", "moments", "adapters", NULL };
    static const char *const narrow[] = { "bf16", "bfloat16", NULL };
    static const char *const other[] = { "fp32", "float32", "autocast",    "mixed",
                                         "over", "compute", "activations", "gathered",
                                         "fp16", "not",     "no",          NULL };
    static const char *const
        all[] = { "all", "in", "bf16", NULL },
        *const each[] = { "all", "bf16", NULL }, *const pure[] = { "pure", "bf16", NULL },
        *const dtype[] = { "torch", "dtype", NULL }, *const moved[] = { "model", "to", NULL };
    bool moves = false;                 /* "model.to(bfloat16)": its bracket is a clause */
    bool listed = false, found = false; /* "weights, gradients and states bf16": one list */
    struct clause clause;
    if (says_masters(text)) return false;
    while (clause_next(&text, &clause)) {
        const bool whole =
            clause_mentions(&clause, weights) || (listed && clause_mentions(&clause, states));
        const bool says = clause_mentions(&clause, narrow) && !mentions_undenied(&clause, other) &&
                          !clause_is_unclear(&clause);
        found = found || (says && whole);
        for (int i = 0; says && i < clause.count; i++)
            found = found || clause_starts(&clause, i, all) || clause_starts(&clause, i, each) ||
                    clause_starts(&clause, i, pure) || clause_starts(&clause, i, dtype);
        found = found || (moves && says);
        moves = clause_starts(&clause, clause.count - 2, moved);
        listed =
            clause_is_one_of(clause_token(&clause, clause.count - 1), weights) || (listed && whole);
    }
    return found;
}

/* "adapters", "LoRA weights": "LoRA in bf16" is said of the run. */
static bool names_adapters(const struct clause *clause) {
    static const char *const adapters[] = { "adapters", "adapter", NULL };
    static const char *const stored[] = { "weights", "matrices", "parameters", "params", NULL };
    if (clause_mentions(clause, adapters)) return true;
    for (int i = 0; i < clause->count; i++)
        if (is(clause, i, "lora") && clause_is_one_of(clause_token(clause, i + 1), stored))
            return true;
    return false;
}

bool measured_says_bf16_adapters(const char *text) {
    static const char *const narrow[] = { "bf16", "bfloat16", NULL };
    static const char *const others[] = { "fp32",      "float32",  "base",      "model", "mixed",
                                          "precision", "autocast", "autocasts", "not",   NULL };
    enum { ITEM = 4 };   /* words of an item of a list at most: "AdamW's moments" */
    bool listed = false; /* "weights, adapters, gradients and moments in bf16": one list */
    struct clause clause;
    while (clause_next(&text, &clause)) {
        const bool named = names_adapters(&clause);
        if ((named || listed) && clause_mentions(&clause, narrow) &&
            !clause_mentions(&clause, others) && !clause_is_unclear(&clause))
            return true;
        listed = (named || listed) && clause.count <= ITEM + 2;
    }
    return false;
}

/* "weights [are stored] in fp32", "base model in float32", "over fp32 weights". */
static bool ends_at_weights(const struct clause *clause, int at) {
    static const char *const between[] = { "in",   "are",    "is",    "stored", "kept",
                                           "held", "loaded", "stay",  "stays",  "as",
                                           "left", "of",     "model", NULL };
    static const char *const held[] = { "weights", "base", "parameters", "params", NULL };
    while (at > 0 && clause_is_one_of(clause->tokens[at - 1], between))
        at--;
    return at > 0 && clause_is_one_of(clause->tokens[at - 1], held);
}

bool measured_says_fp32_weights(const char *text) {
    static const char *const wide[] = { "fp32", "float32", NULL };
    static const char *const weights[] = { "weights", "parameters", "params", NULL };
    static const char *const others[] = { "adapter",       "adapters",   "lora",   "master",
                                          "masters",       "norm",       "norms",  "copies",
                                          "router",        "optimizer",  "states", "moments",
                                          "embedding",     "embeddings", "head",   "lm",
                                          "masterweights", NULL };
    struct clause clause;
    while (clause_next(&text, &clause)) {
        if (clause_mentions(&clause, others) || clause_is_unclear(&clause)) continue;
        for (int i = 0; i < clause.count; i++)
            if (clause_is_one_of(clause.tokens[i], wide) && !clause_denied_before(&clause, i) &&
                (clause_is_one_of(clause_token(&clause, i + 1), weights) ||
                 ends_at_weights(&clause, i)))
                return true;
    }
    return false;
}

/* ---- what trained ---- */

/* Not of tokenizers, checkpoints and containers, which do not train. */
static bool speaks_of_training(const struct clause *clause) {
    static const char *const words[] = { "tokenizer", "tokenizers", "checkpoint", "checkpoints",
                                         "converted", "vision",     "container",  "nvcr",
                                         "format",    NULL };
    return !clause_mentions(clause, words);
}

bool measured_says_framework(const char *text, const char *name) {
    char words[2][CLAUSE_TOKEN_BYTES] = { "", "" };
    struct clause clause;
    const int count = sscanf(name, "%31s %31s", words[0], words[1]);
    if (count < 1) return false;
    const char *const wanted[] = { words[0], count > 1 ? words[1] : NULL, NULL };
    while (clause_next(&text, &clause))
        for (int i = 0; i < clause.count && speaks_of_training(&clause); i++)
            if (clause_starts(&clause, i, wanted) &&
                clause_polarity(&clause, i, i + count - 1, text) == POLARITY_SAID)
                return true;
    return false;
}

bool measured_says_ddp(const char *text) {
    return measured_says_framework(text, "ddp") ||
           measured_says_framework(text, "distributeddataparallel");
}
