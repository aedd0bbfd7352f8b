/* measured_clause.h - clauses of what a source writes of a measured run.
 *
 * A clause ends at a comma, a semicolon, a bracket or a full stop before a space. Its tokens are
 * runs of letters and digits, in small letters (a question mark is "unknown"); what is longer than
 * CLAUSE_TOKENS is cut.
 *
 *     struct clause clause;
 *     while (clause_next(&text, &clause))
 *         if (clause_mentions(&clause, words)) ...
 */
#ifndef BALLAST_SIM_STUDY_MEASURED_CLAUSE_H
#define BALLAST_SIM_STUDY_MEASURED_CLAUSE_H

#include <stdbool.h>

enum { CLAUSE_TOKENS = 64, CLAUSE_TOKEN_BYTES = 32 };
struct clause {
    char tokens[CLAUSE_TOKENS][CLAUSE_TOKEN_BYTES];
    int count;
};

/* The next clause of *text, which moves behind it; false at its end. */
bool clause_next(const char **text, struct clause *clause);
/* "" before the first and behind the last. */
const char *clause_token(const struct clause *clause, int i);
/* Lists of words end in NULL. */
bool clause_is_one_of(const char *token, const char *const *words);
bool clause_mentions(const struct clause *clause, const char *const *words);
bool clause_is_number(const char *token); /* digits alone */
/* Of "not stated" and the like, the second word. */
bool clause_is_told(const char *token);
/* The words stand at token i, one behind the other. */
bool clause_starts(const struct clause *clause, int i, const char *const *words);
/* The token of the last of them, -1 where they do not. */
int clause_phrase_end(const struct clause *clause, int i, const char *const *words);

/* measured_unstated.c. Blanks, in place, what the text says that nobody says, which the functions
 * below would take for said: the rest of a sentence behind "Not stated:" or "Not stated in its files (A, B):" at the
 * beginning of a clause; the bare topics ahead of "... not stated" ("recomputation, attention kernel
 * not stated"; not "full recomputation"); of a sentence that is a list of items alone ("torch.compile,
 * full recomputation and attention not stated") all of them, and those behind "does not say whether".
 * Takes a time in proportion to the text. */
void clause_blank_unstated(char *text);

/* A denial or comparison anywhere before the token. */
bool clause_denied_before(const struct clause *clause, int at);
/* "offload_optimizer_device: none", "optimizer_cpu_offload=0": what an option is set to. */
bool clause_set_to_nothing(const struct clause *clause, int at);
/* It compares, supposes, or tells of another run or of what went wrong. */
bool clause_is_unclear(const struct clause *clause);

/* What the clause makes of its tokens first..last; `rest` is the text behind it. "without X",
 * "X off", "X (none)" deny; "X not stated" and clauses that are unclear do neither. */
enum polarity { POLARITY_UNCLEAR, POLARITY_SAID, POLARITY_DENIED };
enum polarity clause_polarity(const struct clause *clause, int first, int last, const char *rest);

#endif
