/* price_slot.h - one slot per token count and axis: what a price table keeps. Private to
 * price_table.c (creation), price_slot.c (filling) and price_reading.c (answers).
 *
 * Three axes (enum token_axis): the layers of the vision encoder are indexed by its tokens, those
 * of the language model by language tokens, those of a diffusion decoder by video tokens. A slot
 * holds everything that depends on the count alone. Core attention is a run of consecutive
 * operators, one where it is fused, that are stated and priced per micro-batch from its sums of
 * lengths; a diffusion block has a second run, its cross attention. Some layers depend on two axes:
 * the token embedding merges the connector's tokens into the text, and the decoder's blocks attend
 * to the text. Their slot keeps them once for each count of those other tokens that it has met.
 *
 * Ring attention (layer_attention.c) sends keys and values while it attends to those that it has:
 * of cp equal steps the last has nothing to send. With A the time of attention and R that of the
 * ring,
 *
 *     exposed = R - min(R, A (cp - 1) / cp)
 *
 * A user's rule (costmodel/rules.h) decides while an operator is priced here. One that names blocks
 * gives those a table of their own, so that equal layers are still priced once.
 */
#ifndef BALLAST_SIM_STEP_PRICE_SLOT_H
#define BALLAST_SIM_STEP_PRICE_SLOT_H

#include "sim/step/price_table.h"

enum { SET_COUNT = 2, NO_SLOT = -1, ATTENTION_OPERATOR_LIMIT = 16, RUN_LIMIT = 2, NO_RUN = -1 };

/* Consecutive operators of core attention. */
struct attention_run {
    int64_t index, count;
};

/* The operators of one layer kind and pass, at one token count. */
struct priced_list {
    struct operator_time *operators; /* attention: 0 ns, priced per micro-batch; owned */
    int64_t count;                   /* 0: no tokens, or nothing to do in this pass */
    struct attention_run runs[RUN_LIMIT];
    int64_t run_count;
    int64_t ring_run;          /* has a ring right before it; NO_RUN: none */
    int64_t fixed_ns, comm_ns; /* without attention and the ring beside it */
    int64_t context_ns;        /* of comm_ns, what context parallelism adds */
    int64_t ring_ns;
    bool gathers_alone; /* the ring is a gather, which has the first block's attention beside it */
    double priced_ns;   /* of these, hidden traffic too */
    double band_ns;     /* sum of ns x band */
    double stated_ns;   /* ... of the bands that rules state */
    double outside_ns;  /* priced outside the measured range */
};

/* One layer kind at one token count. */
struct kind_prices {
    struct priced_list lists[SET_COUNT];
    /* What a block runs again where that is not its whole forward; else count 0. */
    struct priced_list again[RECOMPUTE_KIND_COUNT];
    double again_flop_fraction[RECOMPUTE_KIND_COUNT]; /* of the forward's matmuls */
    double saved_bytes[RECOMPUTE_KIND_COUNT], workspace_bytes, flop_fixed;
    int64_t *send_ns; /* by link; owned */
};

/* The entries of the memo that were last made from these prices, and the sums of squares they were
 * made for: micro-batches that are equal to these layers share entries. One entry for each kind, in
 * order. */
struct memo_mark {
    int64_t entry; /* the first; -1: none yet */
    double squares, cross_squares;
};

/* Kinds of an axis that depend on its tokens alone, and those that depend on a second count. */
enum { SINGLE_KIND_LIMIT = 3, PAIRED_KIND_LIMIT = 3 };

struct slot {
    struct kind_prices kinds[SINGLE_KIND_LIMIT];
};

struct paired_prices {
    struct kind_prices kinds[PAIRED_KIND_LIMIT];
    struct memo_mark mark;
};

/* Where the paired prices of a slot and a count of other tokens stand. */
struct pair_place {
    int64_t other_tokens;
    int32_t slot, index; /* NO_SLOT: empty */
};

struct axis {
    int32_t *slot_of_tokens; /* owned; NO_SLOT where not priced */
    int64_t tokens_capacity;
    struct slot *slots;      /* owned */
    struct memo_mark *marks; /* owned: of each slot */
    int64_t slot_count, slot_capacity;
    struct paired_prices *pairs; /* owned */
    int64_t pair_count, pair_capacity;
    struct pair_place *places; /* owned: an open hash table, at most half full */
    int64_t place_count;       /* a power of two, or 0 */
};

struct price_table {
    const struct scenario *scenario;
    struct communicator groups[COMMUNICATOR_KIND_COUNT];
    int64_t link_count; /* of links that differ */
    struct communicator *links;
    int64_t *link_of_stage;
    bool sums_only;
    const struct batch_shape *memo_shapes;
    int64_t memo_count;
    struct layer_time *memo; /* entries; owned unless there is a base, as memo_entry */
    int32_t *memo_entry;     /* by shape and place of the kind */
    int64_t memo_kinds, memo_place[LAYER_KIND_COUNT]; /* -1: no such layer */
    const struct price_table *base; /* where its prices are looked up first; NULL: none */
    struct tensor_split split;
    /* of the layers of a kind */
    struct gradient_need need[LAYER_KIND_COUNT];
    struct rank_parameters parameters[LAYER_KIND_COUNT];
    int64_t layer_of_kind[LAYER_KIND_COUNT]; /* a layer of the kind; -1: none */
    double flop_per_square[LAYER_KIND_COUNT], flop_per_cross[LAYER_KIND_COUNT];
    struct axis axes[TOKEN_AXIS_COUNT];
    /* Rules that name single blocks: a table of their own for each set of blocks that the same
     * rules name. NULL and 0 where there are none, and inside such a table. */
    struct price_table **of_layer;
    struct price_table **variants;
    int64_t variant_count;
    int64_t rule_layer;              /* of such a table: one of its blocks, within its module */
    const struct price_table *whole; /* of such a table: where other kinds stand; else NULL */
};

/* The kind's place among those of its axis that depend on its tokens alone, and among the others;
 * one of the two is -1. */
int price_slot_single_index(enum layer_kind kind);
int price_slot_paired_index(enum layer_kind kind);
/* The tokens of another axis that paired layers depend on. Without a connector its tokens, if a
 * data set counts any, go nowhere. */
int64_t price_slot_other_tokens(const struct price_table *table, int axis,
                                const struct batch_shape *shape);
/* Index into the axis' slots, and into its pairs; -1: not priced. */
int64_t price_slot_find(const struct axis *axis, int64_t tokens);
int64_t price_slot_find_pair(const struct axis *axis, int64_t slot, int64_t other_tokens);
/* The host does not launch ahead from one pass to the next. */
bool price_slot_passes_apart(const struct scenario *scenario);
/* It launches ahead of all that a micro-batch runs, on the only stage. */
bool price_slot_launches_ahead(const struct scenario *scenario);
/* What the last layer of a stage sends on; its price with the gather that puts shares together. */
struct price price_slot_send_price(const struct price_table *table, enum layer_kind kind,
                                   const struct batch_shape *shape,
                                   const struct communicator *pair);
struct operator_work price_slot_send_work(const struct price_table *table, enum layer_kind kind,
                                          const struct batch_shape *shape);

#endif
