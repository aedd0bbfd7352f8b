/* measured_clause.c - tokens of a clause, and whether it says, denies or does neither. */
#include "sim/study/measured/measured_clause.h"

#include <ctype.h>
#include <stddef.h>
#include <string.h>
#include <strings.h>

static bool ends_clause(const char *at) {
    if (strchr(",;()[]{}\n", *at) != NULL) return true;
    if ((*at == '+' || *at == '/') && isspace((unsigned char)at[1])) return true;
    return *at == '.' && (at[1] == '\0' || isspace((unsigned char)at[1]));
}

bool clause_next(const char **text, struct clause *clause) {
    clause->count = 0;
    const char *at = *text;
    while (*at != '\0' && ends_clause(at))
        at++;
    if (*at == '\0') return false;
    while (*at != '\0' && !ends_clause(at)) {
        size_t length = 0;
        while (isalnum((unsigned char)at[length]))
            length++;
        if (length == 0 && *at == '?' && clause->count < CLAUSE_TOKENS)
            strcpy(clause->tokens[clause->count++], "unknown");
        if (length == 0) {
            at++;
            continue;
        }
        if (clause->count < CLAUSE_TOKENS) {
            char *token = clause->tokens[clause->count++];
            const size_t kept = length < CLAUSE_TOKEN_BYTES ? length : CLAUSE_TOKEN_BYTES - 1;
            for (size_t i = 0; i < kept; i++)
                token[i] = (char)tolower((unsigned char)at[i]);
            token[kept] = '\0';
        }
        at += length;
    }
    *text = at;
    return true;
}

bool clause_is_one_of(const char *token, const char *const *words) {
    for (; *words != NULL; words++)
        if (strcmp(token, *words) == 0) return true;
    return false;
}

const char *clause_token(const struct clause *clause, int i) {
    return i >= 0 && i < clause->count ? clause->tokens[i] : "";
}

bool clause_is_told(const char *token) {
    static const char *const told[] = {
        "stated",    "seen",      "said",   "given",    "known",     "named",     "shown",
        "printed",   "mentioned", "logged", "reported", "specified", "disclosed", "documented",
        "discussed", "described", "listed", "recorded", "indicated", "provided",  "clear",
        "sure",      "mention",   "say",    "state",    "specify",   "report",    "disclose",
        "document",  "tell",      "told",   NULL
    };
    return clause_is_one_of(token, told);
}

bool clause_denied_before(const struct clause *clause, int at) {
    static const char *const denials[] = { "no",      "not",    "non",    "without", "never",
                                           "than",    "vs",     "versus", "unlike",  "beats",
                                           "instead", "rather", NULL };
    for (int i = 0; i < at; i++)
        if (clause_is_one_of(clause->tokens[i], denials)) return true;
    return false;
}

bool clause_set_to_nothing(const struct clause *clause, int at) {
    static const char *const names[] = { "device",    "fraction", "ratio", "params", "param",
                                         "optimizer", "cpu",      "is",    NULL };
    static const char *const nothing[] = { "none", "null",     "no", "not", "false",
                                           "off",  "disabled", "0",  NULL };
    int i = at + 1;
    while (clause_is_one_of(clause_token(clause, i), names))
        i++;
    return clause_is_one_of(clause_token(clause, i), nothing);
}

bool clause_mentions(const struct clause *clause, const char *const *words) {
    for (int i = 0; i < clause->count; i++)
        if (clause_is_one_of(clause->tokens[i], words)) return true;
    return false;
}

bool clause_is_number(const char *token) {
    return token[0] != '\0' && token[strspn(token, "0123456789")] == '\0';
}

int clause_phrase_end(const struct clause *clause, int i, const char *const *words) {
    for (; *words != NULL; words++, i++)
        if (strcmp(clause_token(clause, i), *words) != 0) return -1;
    return i - 1;
}

bool clause_starts(const struct clause *clause, int i, const char *const *words) {
    return clause_phrase_end(clause, i, words) >= 0;
}

bool clause_is_unclear(const struct clause *clause) {
    static const char *const words[] = {
        "could",    "would",   "might",    "should",      "try",         "tried",    "trying",
        "todo",     "other",   "another",  "earlier",     "previous",    "compared", "comparison",
        "slower",   "faster",  "than",     "vs",          "versus",      "unlike",   "instead",
        "beats",    "errors",  "error",    "optional",    "oom",         "oomed",    "ooms",
        "cannot",   "needed",  "needs",    "required",    "necessary",   "crash",    "crashed",
        "broke",    "fails",   "failed",   "disk",        "saved",       "saving",   "diverge",
        "diverges", "unknown", "unstated", "unspecified", "undisclosed", "future",   "planned",
        "whether",  NULL
    };
    static const char *const purposes[] = { "fit", "fits", "save", NULL }; /* "to save memory" */
    for (int i = 0; i < clause->count; i++)
        if (clause_is_one_of(clause->tokens[i], purposes) &&
            strcmp(clause_token(clause, i - 1), "to") != 0)
            return true;
    return clause_mentions(clause, words);
}

static const char *const nothing[] = { "off",   "disabled", "disable", "none",  "no",
                                       "false", "0",        "null",    "never", NULL };

/* "(none)" behind the clause. */
static bool emptied_behind(const char *rest) {
    struct clause next;
    return rest[0] == '(' && clause_next(&rest, &next) && next.count == 1 &&
           clause_is_one_of(next.tokens[0], nothing);
}

/* "no mention of X", "nothing about X", "does not say whether X", "not sure about X": before token
 * `first`, that nobody tells. */
static bool untold_ahead(const struct clause *clause, int first) {
    static const char *const nouns[] = { "mention", "word",       "information", "info",
                                         "details", "detail",     "statement",   "data",
                                         "note",    "indication", NULL };
    static const char *const speaks[] = { "about", "said",    "stated",   "on",
                                          "known", "written", "reported", NULL };
    static const char *const without[] = { "no", "without", "any", NULL };
    for (int k = 0; k + 1 < first; k++) {
        const char *token = clause->tokens[k], *next = clause->tokens[k + 1];
        if (clause_is_one_of(token, without) && clause_is_one_of(next, nouns)) return true;
        if (strcmp(token, "nothing") == 0 && clause_is_one_of(next, speaks)) return true;
        if ((strcmp(token, "not") == 0 || strcmp(token, "t") == 0) && clause_is_told(next))
            return true;
    }
    return false;
}

static bool denied_ahead(const struct clause *clause, int first) {
    static const char *const denials[] = { "no",      "not",      "non",       "without", "never",
                                           "nothing", "neither",  "nor",       "isn",     "wasn",
                                           "aren",    "weren",    "don",       "didn",    "doesn",
                                           "disable", "disabled", "disabling", NULL };
    static const char *const stops[] = { "and",  "but", "with",   "so", "then", "plus",
                                         "also", "on",  "thanks", "by", "for",  NULL };
    enum { REACH = 5 };
    for (int k = first - 1; k >= 0 && k >= first - REACH; k--) {
        const char *token = clause->tokens[k];
        if (clause_is_one_of(token, stops)) return false;
        if (strcmp(token, "not") == 0 && strcmp(clause_token(clause, k + 1), "only") == 0) continue;
        const bool without =
            strcmp(token, "o") == 0 && strcmp(clause_token(clause, k - 1), "w") == 0;
        if (without || clause_is_one_of(token, denials)) return true;
    }
    return false;
}

enum polarity clause_polarity(const struct clause *clause, int first, int last, const char *rest) {
    static const char *const filling[] = { "is",      "was",      "are",         "were",
                                           "set",     "to",       "be",          "kernel",
                                           "kernels", "mode",     "enable",      "enabled",
                                           "turned",  "switched", "granularity", NULL };
    static const char *const contracted[] = { "isn",  "wasn", "aren",  "weren",
                                              "didn", "don",  "doesn", NULL };
    if (clause_is_unclear(clause) || untold_ahead(clause, first)) return POLARITY_UNCLEAR;
    int k = last + 1;
    while (clause_is_one_of(clause_token(clause, k), filling))
        k++;
    const char *token = clause_token(clause, k);
    if (strcmp(token, "n") == 0 && strcmp(clause_token(clause, k + 1), "a") == 0)
        return POLARITY_UNCLEAR;
    if (strcmp(token, "not") == 0 && clause_is_told(clause_token(clause, k + 1)))
        return POLARITY_UNCLEAR;
    /* "Megatron-core 0.12" */
    const bool version =
        strcmp(token, "0") == 0 && isdigit((unsigned char)clause_token(clause, k + 1)[0]);
    if (version) token = "";
    const bool denied = strcmp(token, "not") == 0 || clause_is_one_of(token, nothing) ||
                        clause_is_one_of(token, contracted) ||
                        (last + 1 == clause->count && emptied_behind(rest));
    const bool ahead = denied_ahead(clause, first);
    if (ahead && clause_is_told(token)) return POLARITY_UNCLEAR; /* "no X mentioned" */
    return denied || ahead ? POLARITY_DENIED : POLARITY_SAID;
}
