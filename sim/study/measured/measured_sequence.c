/* measured_sequence.c - how the ranks of context parallelism share a sequence: by rings, exchanges of
 * heads or both, in which pieces; as notes, the stack's name and its file say. */
#include <string.h>
#include "sim/study/measured/measured_row.h"
#include "sim/study/measured/measured_said.h"

/* PyTorch's ring gathers, unless its rotate method is the other. */
static const char *usual_ring(const struct stack *stack) {
    return context_kind_name(stack->context_gathers ? CONTEXT_GATHERED_RING : CONTEXT_RING);
}

/* What a stack has of the kind that is said; "" is any. */
static const char *context_kind(const struct stack *stack, const char *said) {
    static const char exchange[] = "all-to-all";
    if (strcmp(said, exchange) == 0) return exchange;
    if (strcmp(said, "rotated ring") == 0) return context_kind_name(CONTEXT_RING);
    if (stack->context_gathers || strcmp(said, "ring") == 0) return usual_ring(stack);
    if (said[0] != '\0') return said;
    return stack->context_heads ? exchange : usual_ring(stack);
}

static const char *context_kind_words(const char *kind, bool usual_balance) {
    if (strcmp(kind, "all-to-all") == 0) return "heads (Ulysses)";
    if (strcmp(kind, "all-gather") == 0) return "gathered keys and values";
    if (strcmp(kind, "gathered-ring") == 0)
        return usual_balance ? "a ring that gathers keys and values (balanced as usual)"
                             : "a ring that gathers keys and values";
    return usual_balance ? "a ring (balanced as usual)" : "a ring";
}

/* As the notes or the stack's name say, else as the stack does. Ulysses where its ranks do not
 * divide the heads is a ring (modelscope/ms-swift rings what is left over). */
void measured_add_sequence(cJSON *layout, struct measured_row *row) {
    static const char exchange[] = "all-to-all";
    const struct measured_run *r = &row->run;
    const char *said = measured_says_context(r->notes);
    if (said[0] == '\0') said = measured_says_context(r->stack);
    int64_t exchanging = measured_says_exchanging_ranks(r->notes);
    if (exchanging == 0) exchanging = measured_says_exchanging_ranks(r->stack);
    const bool mixed = exchanging > 0 && row->cp % exchanging == 0;
    if (mixed) said = exchanging == row->cp ? exchange : "ring";
    if (row->cp == 1) {
        if (said[0] != '\0' && r->cp < 0)
            measured_row_note(row, "cp: 1, though the row speaks of sharing sequences by %s", said);
        return;
    }
    const char *kind = context_kind(row->out->stack, said);
    /* PyTorch gathers keys and values for it (flex_cp_allgather), where SDPA passes them around */
    const bool flex =
        strcmp(kind, "gathered-ring") == 0 &&
        (measured_says_flex_attention(r->notes) || measured_says_flex_attention(r->stack));
    if (flex) kind = context_kind_name(CONTEXT_ALL_GATHER);
    const bool by_stack = !flex && (said[0] == '\0' || strcmp(kind, "gathered-ring") == 0);
    const bool divides = r->heads % (row->tp * row->cp) == 0;
    const enum measured_balance balance = measured_says_balance(r->notes);
    const bool contiguous = balance == BALANCE_UNSAID ? row->out->stack->context_contiguous
                                                      : balance == BALANCE_UNEQUAL;
    const bool usual_balance = balance == BALANCE_UNSAID && !contiguous;
    if (strcmp(kind, exchange) == 0 && !divides) {
        measured_row_note(row,
                          "cp: by a ring, not by heads as %s: tp %ld x cp %ld do not divide "
                          "the %ld heads",
                          by_stack ? row->out->stack->name : "the row says", (long)row->tp,
                          (long)row->cp, (long)r->heads);
        kind = usual_ring(row->out->stack);
    } else
        measured_row_note(row, "cp: by %s, as %s", context_kind_words(kind, usual_balance),
                          by_stack ? row->out->stack->name : "the row says");
    cJSON_AddStringToObject(layout, "cp_kind", kind);
    if (strcmp(kind, exchange) == 0) return;
    if (mixed && exchanging > 1 && exchanging < row->cp && r->heads % (row->tp * exchanging) == 0) {
        cJSON_AddNumberToObject(layout, "cp_heads", (double)exchanging);
        measured_row_note(row, "cp: of %ld ranks %ld exchange heads, as the row says",
                          (long)row->cp, (long)exchanging);
    }
    cJSON_AddBoolToObject(layout, "cp_balanced", !contiguous);
    if (usual_balance) return; /* said with the ring */
    measured_row_note(row, "cp: %s, as %s",
                      contiguous ? "in contiguous shards, unbalanced" : "balanced",
                      balance == BALANCE_UNSAID ? row->out->stack->name : "the row says");
}
