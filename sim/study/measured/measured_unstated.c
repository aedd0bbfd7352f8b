/* measured_unstated.c - lists of what nobody says, or what is denied together, which would be taken
 * for said. */
#include "sim/study/measured/measured_clause.h"

#include <ctype.h>
#include <stddef.h>
#include <string.h>
#include <strings.h>

static const char delimiters[] = ",;:.()[]{}\n";

static bool ends_sentence(const char *at) {
    return *at == '\0' || *at == ';' || *at == '\n' ||
           (*at == '.' && (at[1] == '\0' || isspace((unsigned char)at[1])));
}

/* Behind "not stated", "unspecified" and so on at `at`; NULL: none of them. */
static char *behind_unstated(const char *text, char *at) {
    static const char *const words[] = { "unstated", "unspecified", "undisclosed", "unknown",
                                         NULL };
    static const char no[] = "not ";
    char token[CLAUSE_TOKEN_BYTES];
    if (at > text && isalnum((unsigned char)at[-1])) return NULL;
    const bool denied = strncasecmp(at, no, strlen(no)) == 0;
    const char *word = denied ? at + strlen(no) : at;
    size_t length = 0;
    for (; isalnum((unsigned char)word[length]); length++) {
        if (length + 1 == sizeof token) return NULL;
        token[length] = (char)tolower((unsigned char)word[length]);
    }
    token[length] = '\0';
    if (!(denied ? clause_is_told(token) : clause_is_one_of(token, words))) return NULL;
    return at + (word - at) + length;
}

enum { TOPIC_BYTES = 60, PLACE_BYTES = 200 };

/* "Not stated: A, B" and "Not stated in its files (C, D): A, B": the rest of the sentence. */
static void blank_list_behind(char *at) {
    at += strspn(at, " ");
    if (strncmp(at, "in ", 3) == 0 || strncmp(at, "by ", 3) == 0) {
        const char *last = at + strnlen(at, PLACE_BYTES);
        while (at < last && !ends_sentence(at) && strchr(",:()[]", *at) == NULL)
            at++;
        if (*at == '(') {
            while (at < last && !ends_sentence(at) && *at != ')')
                at++;
            at += *at == ')';
            at += strspn(at, " ");
        }
    }
    if (*at != ':') return;
    for (at++; !ends_sentence(at); at++)
        if (*at != ' ') *at = '-';
}

/* What a run does, not what it did: "recomputation", not "full recomputation" nor "DDP". */
static const char *const topics[] = { "recomputation", "recompute",
                                      "checkpointing", "attention",
                                      "kernel",        "kernels",
                                      "sharding",      "zero",
                                      "stage",         "interleaving",
                                      "dropout",       "optimizer",
                                      "precision",     "network",
                                      "vocabulary",    "schedule",
                                      "accumulation",  "sequence",
                                      "parallelism",   "parallel",
                                      "compilation",   NULL };

static bool names_topic(const struct clause *clause) {
    for (int i = 0; i < clause->count; i++)
        if (!clause_is_one_of(clause->tokens[i], topics)) return false;
    return clause->count > 0;
}

/* Words of clauses that tell of a run, whatever else they name. */
static const char *const stating[] = { "with", "by",    "using", "uses",  "on",      "for",
                                       "in",   "is",    "was",   "are",   "were",    "has",
                                       "of",   "to",    "runs",  "used",  "no",      "not",
                                       "non",  "never", "its",   "their", "without", NULL };
enum { ITEM_TOKENS = 4 };

/* "sharding of the optimizer" */
static bool names_topic_of(const struct clause *clause) {
    return clause->count > 2 && clause->count <= ITEM_TOKENS &&
           clause_is_one_of(clause->tokens[0], topics) && strcmp(clause->tokens[1], "of") == 0;
}

/* The same of an item among others that "and" or "or" joins, which tells nothing even where it names
 * a kind: "flash attention", "torch.compile", "full activation checkpointing"; not "FSDP with
 * checkpointing" nor "no recomputation". */
static bool names_item(const struct clause *clause) {
    static const char *const others[] = { "compile",  "offload",   "offloading",
                                          "residual", "residuals", NULL };
    const char *last = clause_token(clause, clause->count - 1);
    if (names_topic_of(clause)) return true;
    return clause->count > 0 && clause->count <= ITEM_TOKENS && !clause_mentions(clause, stating) &&
           (clause_is_one_of(last, topics) || clause_is_one_of(last, others));
}

/* The same of what a list may deny besides: "LoRA", "ZeRO-3", "packing". */
static bool names_feature(const struct clause *clause) {
    static const char *const features[] = {
        "lora",    "qlora", "adapters", "packing", "quantization", "zero", "liger",
        "unsloth", "fp8",   "fsdp",     "ddp",     "deepspeed",    NULL
    };
    return names_item(clause) ||
           (clause->count > 0 && clause->count <= ITEM_TOKENS &&
            !clause_mentions(clause, stating) && clause_mentions(clause, features));
}

/* Whether the text from `start` to `end` is a clause of that kind. */
static bool is_clause_of(const char *start, const char *end,
                         bool (*names)(const struct clause *clause)) {
    char copy[TOPIC_BYTES + 1];
    if (end - start > TOPIC_BYTES) return false;
    memcpy(copy, start, (size_t)(end - start));
    copy[end - start] = '\0';
    const char *rest = copy;
    struct clause clause;
    return clause_next(&rest, &clause) && *rest == '\0' && names(&clause);
}

/* Where the clause that ends at `end` begins; the point of "torch.compile" ends none. */
static char *clause_start(char *text, char *end) {
    char *start = end;
    for (;;) {
        while (start > text && end - start <= TOPIC_BYTES && strchr(delimiters, start[-1]) == NULL)
            start--;
        const bool inside = start > text + 1 && start[-1] == '.' &&
                            isalnum((unsigned char)*start) && isalnum((unsigned char)start[-2]);
        if (!inside || end - start > TOPIC_BYTES) return start;
        start--;
    }
}

/* The end of the clause before, where a comma stands between the two. */
static char *end_before(char *text, char *start) {
    while (start > text && start[-1] == ' ')
        start--;
    return start > text && start[-1] == ',' ? start - 1 : NULL;
}

/* The clauses of that kind, between commas, that end at `end`. What was blanked before is none. */
static void blank_before(char *text, char *end, bool (*names)(const struct clause *clause)) {
    while (end != NULL) {
        char *start = clause_start(text, end);
        if (!is_clause_of(start, end, names)) return;
        memset(start, '-', (size_t)(end - start));
        end = end_before(text, start);
    }
}

/* Whether nothing but items stands before `end` in its sentence: what is not one is said. */
static bool is_list(char *text, char *end, bool (*names)(const struct clause *clause)) {
    enum { LONGEST = 12 };
    for (int items = 0; end != NULL && items < LONGEST; items++) {
        char *start = clause_start(text, end);
        if (!is_clause_of(start, end, names)) return false;
        end = end_before(text, start);
        if (end != NULL) continue;
        while (start > text && start[-1] == ' ')
            start--;
        return start == text || strchr(".;\n", start[-1]) != NULL;
    }
    return false;
}

/* Behind "and", "or" or "nor" at `at`; NULL: none of them. */
static char *behind_joint(const char *text, char *at) {
    static const char *const joints[] = { "and ", "or ", "nor ", NULL };
    if (at == text || at[-1] != ' ') return NULL;
    for (const char *const *joint = joints; *joint != NULL; joint++)
        if (strncasecmp(at, *joint, strlen(*joint)) == 0) return at + strlen(*joint);
    return NULL;
}

/* "A, B and C not stated": the items ahead of the last one, which says for itself that it is not.
 * `start` is where its clause begins, `at` the "not". */
static void blank_items(char *text, char *start, char *at) {
    static const char *const own[] = { "its ", "their ", NULL };
    char *last = NULL, *last_item = NULL;
    for (char *c = start; c < at; c++)
        if (behind_joint(text, c) != NULL) {
            last = c;
            last_item = behind_joint(text, c);
        }
    if (last == NULL) {
        if (start > text && start[-1] == ',') blank_before(text, start - 1, names_topic);
        return;
    }
    for (const char *const *word = own; *word != NULL; word++)
        if (strncasecmp(last_item, *word, strlen(*word)) == 0) return;
    char *end = last;
    while (end > start && end[-1] == ' ')
        end--;
    if (end > start && !is_clause_of(start, end, names_item)) return;
    char *before = end_before(text, start);
    const bool alone = before == NULL || is_list(text, before, names_item);
    memset(start, '-', (size_t)(end - start));
    if (before != NULL) blank_before(text, before, alone ? names_item : names_topic);
}

/* Whether the sentence around `at` says that something is not known. */
static bool is_untold_sentence(const char *text, const char *at) {
    static const char *const signs[] = { " not ",  "n't ",   "unclear", "unknown",
                                         "unsure", "nobody", NULL };
    const char *start = at;
    while (start > text && at - start <= PLACE_BYTES && !ends_sentence(start - 1))
        start--;
    for (; !ends_sentence(start) && start - at <= PLACE_BYTES; start++)
        for (const char *const *sign = signs; *sign != NULL; sign++)
            if (strncasecmp(start, *sign, strlen(*sign)) == 0) return true;
    return false;
}

/* "does not say whether A, B or C were on": the items between commas, and the last two. */
static void blank_items_behind(char *at) {
    for (;;) {
        char *end = at, *joint = NULL;
        while (strchr(delimiters, *end) == NULL && end - at <= PLACE_BYTES) {
            if (joint == NULL && behind_joint(at, end) != NULL) joint = end;
            end++;
        }
        if (joint != NULL) {
            if (is_clause_of(at, joint, names_item)) memset(at, '-', (size_t)(end - at));
            return;
        }
        if (*end != ',' || !is_clause_of(at, end, names_item)) return;
        memset(at, '-', (size_t)(end - at));
        at = end + 1;
    }
}

/* Behind "not used", "disabled" and so on at `at`; NULL: none of them. */
static char *behind_unused(const char *text, char *at) {
    static const char *const signs[] = { "not used",     "not enabled", "not applied", "disabled",
                                         "switched off", "turned off",  "off",         NULL };
    if (at > text && isalnum((unsigned char)at[-1])) return NULL;
    for (const char *const *sign = signs; *sign != NULL; sign++)
        if (strncasecmp(at, *sign, strlen(*sign)) == 0 &&
            !isalnum((unsigned char)at[strlen(*sign)]))
            return at + strlen(*sign);
    return NULL;
}

/* "LoRA, ZeRO-3 and packing were not used", a whole sentence: the items ahead of the last one, which
 * is denied as it stands. */
static void blank_unused(char *text, char *at) {
    char *start = clause_start(text, at), *last = NULL;
    for (char *c = start; c < at; c++)
        if (behind_joint(text, c) != NULL) last = c;
    if (last == NULL) return;
    char *end = last;
    while (end > start && end[-1] == ' ')
        end--;
    if (end == start || !is_list(text, end, names_feature)) return;
    blank_before(text, end, names_feature);
}

/* "no A, B or C" at `at`, behind the "no": the items behind the first, which is denied as it
 * stands. "no A, B and C" denies the first alone. */
static void blank_denied(char *at) {
    char *first = NULL;
    for (bool blanks = false;; blanks = true) {
        char *item = at;
        for (int items = 0;; items++) {
            char *end = item, *joint = NULL;
            while (strchr(delimiters, *end) == NULL && end - item <= PLACE_BYTES) {
                if (joint == NULL && behind_joint(at, end) != NULL) joint = end;
                end++;
            }
            const bool denies = joint != NULL && strncasecmp(joint, "and ", 4) != 0;
            if (joint != NULL && (items == 0 || !denies)) return;
            if (!is_clause_of(item, joint != NULL ? joint : end, names_feature)) return;
            if (items == 0) first = end;
            if (blanks && items > 0) memset(item, '-', (size_t)(end - item));
            if (joint != NULL) break;
            if (*end != ',') return;
            item = end + 1;
        }
        if (blanks || first == NULL) return;
    }
}

void clause_blank_unstated(char *text) {
    static const char whether[] = "whether ";
    for (char *at = text; *at != '\0'; at++) {
        if ((at == text || at[-1] == ' ') && strncasecmp(at, whether, strlen(whether)) == 0 &&
            is_untold_sentence(text, at))
            blank_items_behind(at + strlen(whether));
        if ((at == text || !isalnum((unsigned char)at[-1])) && strncasecmp(at, "no ", 3) == 0)
            blank_denied(at + 3);
        if (behind_unused(text, at) != NULL) blank_unused(text, at);
        char *behind = behind_unstated(text, at);
        if (behind == NULL) continue;
        char *start = at;
        while (start > text && at - start <= PLACE_BYTES && strchr(delimiters, start[-1]) == NULL)
            start--;
        const bool leads = start + strspn(start, " ") == at;
        if (!leads) blank_items(text, start, at);
        if (leads && start > text && start[-1] == ':') {
            char *end = start - 1;
            if (is_list(text, end, names_item))
                blank_before(text, end, names_item);
            else if (is_clause_of(clause_start(text, end), end, names_topic))
                memset(clause_start(text, end), '-', (size_t)(end - clause_start(text, end)));
        }
        if (leads) blank_list_behind(behind);
        at = behind - 1;
    }
}
