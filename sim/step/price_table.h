/* price_table.h - layer times of one scenario, tabulated once.
 *
 * Layers of one kind are equal, and all their operators but core attention depend on the token
 * count alone. So each (layer kind, token count) is priced once, operator by operator, each rounded
 * to nanoseconds; attention is priced per micro-batch, from its sum of squared lengths. A stage's
 * time is a sum of such integers, and the same integers, one by one, are the operators of operator
 * fidelity.
 *
 *     price_table_prepare(table, shapes, count);        // before pricing; not thread-safe
 *     price_table_layer(table, LAYER_LANGUAGE_BLOCK, &shape, &time);   // read-only from here on
 */
#ifndef BALLAST_SIM_STEP_PRICE_TABLE_H
#define BALLAST_SIM_STEP_PRICE_TABLE_H

#include "sim/scenario/scenario.h"
#include "sim/step/batch_shape.h"

struct layer_time {
    int64_t forward_ns, backward_ns; /* communication included */
    /* tensor- and context-parallel communication, exposed part */
    int64_t forward_comm_ns, backward_comm_ns;
    int64_t forward_context_ns, backward_context_ns; /* of it, that of context parallelism */
    /* before the backward of a block that recomputes so; communication included */
    int64_t recompute_ns[RECOMPUTE_KIND_COUNT], recompute_comm_ns[RECOMPUTE_KIND_COUNT],
        recompute_context_ns[RECOMPUTE_KIND_COUNT];
    /* of them: waiting for the host's launches */
    int64_t forward_wait_ns, backward_wait_ns, recompute_wait_ns[RECOMPUTE_KIND_COUNT];
    /* Bytes of one rank: from forward to backward, and on top while the layer runs. */
    double saved_bytes[RECOMPUTE_KIND_COUNT], workspace_bytes;
    /* Model FLOPs of all TP ranks: of forward and backward as model_layer_training_flop() defines
     * them, and of what runs again. */
    double training_flop, recompute_flop[RECOMPUTE_KIND_COUNT];
    const int64_t *send_ns; /* of its output, by price_table_link(); borrowed; NULL: nothing */
};

/* How an operator stands to its neighbours. Megatron's linear layers gather their saved input while
 * the input gradient is computed, and reduce the input gradient while the weight gradient is. Ring
 * attention passes keys and values on while it attends to those it has. */
enum operator_stream {
    STREAM_COMPUTE,
    STREAM_EXPOSED, /* a collective that the next operator waits for */
    STREAM_HIDDEN,  /* a collective beside the next operator; the one after that waits for it */
};

struct operator_time {
    int64_t ns;
    enum operator_stream stream;
};

struct price_table;

/* Borrows the scenario; lives in `arena`. */
struct price_table *price_table_create(struct arena *arena, const struct scenario *scenario);
/* A table that looks its prices up in `base`, which outlives it and is not written meanwhile, and
 * prices for itself only what is missing there. The keys of both scenarios must be equal. Where
 * rules name single blocks nothing is borrowed. */
struct price_table *price_table_borrow(struct arena *arena, const struct scenario *scenario,
                                       const struct price_table *base);
/* Chunks in which the head takes such a micro-batch; the model has a head. */
int64_t price_table_head_chunks(const struct price_table *table, const struct batch_shape *shape);
/* From now on prices are kept without their operators: price_table_operators() is not for such a
 * table, which takes a fifth of the memory. */
void price_table_keep_sums(struct price_table *table);
/* Keeps the layer times of these shapes, which outlive the table and stay where they are: looked up
 * by their address then, in tables that borrow too. After price_table_prepare(). */
void price_table_memorise(struct price_table *table, const struct batch_shape *shapes,
                          int64_t count);
/* Everything that prices depend on. Models and cost models count as equal when they are the same
 * object, as those of one scenario_cache are. */
const char *price_table_key(struct arena *arena, const struct scenario *scenario);
/* Frees what grows outside the arena. */
void price_table_destroy(struct price_table *table);
/* Prices every token count that occurs in the shapes and was not priced before. */
void price_table_prepare(struct price_table *table, const struct batch_shape *shapes,
                         int64_t count);

/* That a rank holds of a layer: `tied` of its own are the table of a tied head. */
struct rank_parameters {
    int64_t own, tied, adapters;
};
const struct rank_parameters *price_table_parameters(const struct price_table *table,
                                                     enum layer_kind kind);
/* What the backward pass of such a layer must compute. */
struct gradient_need price_table_need(const struct price_table *table, enum layer_kind kind);
/* The table that prices this layer: `table` itself, unless a rule names the block. */
const struct price_table *price_table_of_layer(const struct price_table *table,
                                               int64_t layer_index);
int64_t price_table_variant_count(const struct price_table *table); /* such tables */
/* Where operators of that kind of layer stand, for rules. */
struct rule_place price_table_place(const struct price_table *table, enum layer_kind kind);

/* All that a layer of this kind costs one micro-batch; 0 where there is nothing of it. */
void price_table_layer(const struct price_table *table, enum layer_kind kind,
                       const struct batch_shape *shape, struct layer_time *time);
/* Operator by operator, in order of execution; returns the count. `out` holds PRICE_OPERATOR_LIMIT.
 */
enum { PRICE_OPERATOR_LIMIT = 256 };
int64_t price_table_operators(const struct price_table *table, enum layer_kind kind,
                              const struct batch_shape *shape, enum pass_set set,
                              struct operator_time *out);
/* What runs again before the backward of a block that recomputes so; as above. */
int64_t price_table_recompute_operators(const struct price_table *table, enum layer_kind kind,
                                        const struct batch_shape *shape, enum recompute_kind how,
                                        struct operator_time *out);
/* Time to send the output of a layer of this kind over the link after `stage`. */
int64_t price_table_send_ns(const struct price_table *table, int64_t stage, enum layer_kind kind,
                            const struct batch_shape *shape);
int64_t price_table_link(const struct price_table *table, int64_t stage); /* index of that link */
/* The same with its work, its pair of ranks and its price. */
struct price price_table_send_price(const struct price_table *table, int64_t stage,
                                    enum layer_kind kind, const struct batch_shape *shape,
                                    struct operator_work *work, struct communicator *pair);
/* What the device waits for the launches of a layer of this kind. The host launches ahead, so that
 * a layer's passes together take no less than all their launches; the waits stand in its backward,
 * where there is one. Where the host waits for each kernel, every pass waits for all its launches.
 * All three are part of the layer's times, and 0 for passes that the layer does not have. */
struct host_waits {
    int64_t forward_ns, backward_ns, recompute_ns[RECOMPUTE_KIND_COUNT];
};
void price_table_host_waits(const struct price_table *table, enum layer_kind kind,
                            const struct batch_shape *shape, struct host_waits *waits);
/* Bytes of one rank that live from forward to backward. */
double price_table_saved_bytes(const struct price_table *table, enum layer_kind kind,
                               const struct batch_shape *shape, enum recompute_kind how);
double price_table_workspace_bytes(const struct price_table *table, enum layer_kind kind,
                                   const struct batch_shape *shape);
/* Model FLOPs of one layer's forward, whole model (all TP ranks). */
double price_table_flop(const struct price_table *table, enum layer_kind kind,
                        const struct batch_shape *shape);
/* Of a typical micro-batch's operators, by their time: the mean of their bands; of those that rules
 * state (0 for the others); the share of time outside the measured range. */
struct price_bands {
    double operators, stated, outside;
};
struct price_bands price_table_bands(const struct price_table *table,
                                     const struct batch_shape *shape,
                                     const int64_t layers_by_kind[LAYER_KIND_COUNT]);

#endif
