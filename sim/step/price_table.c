/* price_table.c - one slot per token count and axis.
 *
 * Two axes: the vision axis (patch embedding, vision blocks, connector) is indexed by the encoder's
 * tokens, the language axis by language tokens. A slot holds everything that depends on the count
 * alone. Core attention is a run of consecutive operators, one where it is fused, that are stated and
 * priced per micro-batch from its sums of lengths. The token embedding depends on both axes, because it merges the connector's tokens into the text: a
 * slot of the language axis keeps its lists once for each count of connector tokens it has met.
 *
 * Ring attention (layer_attention.c) sends keys and values while it attends to those that it has: of
 * cp equal steps the last has nothing to send. With A the time of attention and R that of the ring,
 *
 *     exposed = R - min(R, A (cp - 1) / cp)
 */
#include "sim/step/price_table.h"

#include <assert.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>
#include "sim/base/units.h"

enum { AXIS_VISION, AXIS_LANGUAGE, AXIS_COUNT };
enum { SET_COUNT = 2, NO_SLOT = -1, ATTENTION_OPERATOR_LIMIT = 8 };

/* The operators of one layer kind and pass, at one token count. */
struct priced_list {
    struct operator_time *operators; /* attention: 0 ns, priced per micro-batch; owned */
    int64_t count;                   /* 0: no tokens, or nothing to do in this pass */
    int64_t fixed_ns, comm_ns;       /* without attention and the ring beside it */
    int64_t ring_ns;
    double band_ns;    /* sum of ns x band */
    double outside_ns; /* priced outside the measured range */
};

/* The token embedding with so many tokens from the connector. */
struct merged_lists {
    int64_t connector_tokens;
    struct priced_list lists[SET_COUNT];
};

struct slot {
    struct priced_list lists[LAYER_KIND_COUNT][SET_COUNT]; /* but of the token embedding */
    struct merged_lists *merged;                           /* owned */
    int64_t merged_count, merged_capacity;
    double saved_bytes[LAYER_KIND_COUNT][RECOMPUTE_KIND_COUNT];
    double workspace_bytes[LAYER_KIND_COUNT];
    double flop_fixed[LAYER_KIND_COUNT];
    int64_t *send_ns; /* [kind][stage link]; owned */
};

/* What does not depend on the token count: where core attention stands, if the list is not empty,
 * and the ring right before it. */
struct list_template {
    int64_t attention_index, attention_count; /* -1 and 0: none */
    int64_t ring_index;                       /* -1: none */
};

struct axis {
    int32_t *slot_of_tokens; /* owned; NO_SLOT where not priced */
    int64_t tokens_capacity;
    struct slot *slots; /* owned */
    int64_t slot_count, slot_capacity;
};

struct price_table {
    const struct scenario *scenario;
    struct communicator groups[COMMUNICATOR_KIND_COUNT];
    int64_t link_count;
    struct communicator *links;
    struct tensor_split split;
    struct gradient_need need[LAYER_KIND_COUNT];
    int64_t layer_of_kind[LAYER_KIND_COUNT]; /* a layer of the kind; -1: none */
    struct list_template templates[LAYER_KIND_COUNT][SET_COUNT];
    double flop_per_square[LAYER_KIND_COUNT];
    struct axis axes[AXIS_COUNT];
};

static int axis_of_kind(enum layer_kind kind) {
    return kind == LAYER_PATCH_EMBEDDING || kind == LAYER_VISION_BLOCK || kind == LAYER_CONNECTOR
               ? AXIS_VISION
               : AXIS_LANGUAGE;
}

static int64_t axis_tokens(int axis, const struct batch_shape *shape) {
    return axis == AXIS_VISION ? shape->vision_tokens : shape->language_tokens;
}

static double attention_squares(enum layer_kind kind, const struct batch_shape *shape) {
    return axis_of_kind(kind) == AXIS_VISION ? shape->vision_square_sum
                                             : shape->language_square_sum;
}

/* ---- creation ---- */

static enum operator_stream stream_of(const struct operator_list *list, int64_t i) {
    const struct operator_work *work = &list->operators[i];
    if (work->communicator == COMMUNICATOR_NONE) return STREAM_COMPUTE;
    bool beside_matmul = i + 1 < list->count && list->operators[i + 1].kind == OPERATOR_MATMUL;
    bool gathers_saved = work->pass == PASS_WEIGHT_GRADIENT,
         reduces_input = work->pass == PASS_INPUT_GRADIENT;
    if (beside_matmul && gathers_saved && list->operators[i + 1].pass == PASS_INPUT_GRADIENT)
        return STREAM_HIDDEN;
    if (beside_matmul && reduces_input && list->operators[i + 1].pass == PASS_WEIGHT_GRADIENT)
        return STREAM_HIDDEN;
    return STREAM_EXPOSED;
}

static void make_template(struct price_table *table, enum layer_kind kind, enum pass_set set) {
    const struct model *model = table->scenario->model;
    struct batch_shape probe = {
        .samples = 1,
        .vision_tiles = 1,
        .vision_tokens = model->tile_vision_tokens > 0 ? model->tile_vision_tokens : 1,
        .vision_square_sum = 1,
        .connector_tokens = model->tile_language_tokens > 0 ? model->tile_language_tokens : 1,
        .language_tokens = 1024,
        .language_square_sum = 1,
        .useful_language_tokens = 1024,
    };
    struct operator_list list = { 0 };
    layer_operators(model, table->layer_of_kind[kind], &probe, &table->split, set,
                    table->need[kind], &list);
    ballast_check(list.count <= PRICE_OPERATOR_LIMIT);
    struct list_template *t = &table->templates[kind][set];
    *t = (struct list_template){ .attention_index = -1, .ring_index = -1 };
    for (int64_t i = 0; i < list.count; i++) {
        if (operator_runs_beside_attention(&list.operators[i])) t->ring_index = i;
        if (!operator_is_core_attention(&list.operators[i])) continue;
        if (t->attention_index < 0) t->attention_index = i;
        /* one run per layer pass */
        ballast_check(i == t->attention_index + t->attention_count++);
    }
    ballast_check(t->attention_count <= ATTENTION_OPERATOR_LIMIT);
    ballast_check(t->ring_index < 0 || t->ring_index + 1 == t->attention_index);
    operator_list_free(&list);
}

struct price_table *price_table_create(struct arena *arena, const struct scenario *scenario) {
    struct price_table *table = arena_new(arena, struct price_table);
    const struct layout *layout = &scenario->layout;
    const struct model *model = scenario->model;
    table->scenario = scenario;
    for (int kind = 0; kind < COMMUNICATOR_KIND_COUNT; kind++)
        table->groups[kind] = layout_communicator(layout, (enum communicator_kind)kind);
    table->link_count = layout->pp > 1 ? layout->pp : 0; /* the last one wraps around */
    table->links = arena_array(arena, struct communicator, layout->pp);
    for (int64_t stage = 0; stage < table->link_count; stage++)
        table->links[stage] = layout_stage_link(layout, stage);
    table->split = scenario_split(scenario);
    for (int kind = 0; kind < LAYER_KIND_COUNT; kind++)
        table->layer_of_kind[kind] = -1;
    for (int64_t i = 0; i < model->layer_count; i++) {
        enum layer_kind kind = model->layers[i].kind;
        struct gradient_need need = model_gradient_need(model, i);
        if (table->layer_of_kind[kind] >= 0) {
            ballast_check(need.input == table->need[kind].input &&
                          need.weight == table->need[kind].weight);
            continue;
        }
        table->layer_of_kind[kind] = i;
        table->need[kind] = need;
        for (int set = 0; set < SET_COUNT; set++)
            make_template(table, kind, (enum pass_set)set);
        /* The definition is linear in tokens and in the sum of squares. */
        struct batch_shape none = { 0 }, square = { 0 };
        square.vision_square_sum = square.language_square_sum = 1e6;
        table->flop_per_square[kind] =
            (model_layer_flop(model, i, &square) - model_layer_flop(model, i, &none)) / 1e6;
    }
    return table;
}

static void free_slot(struct slot *slot) {
    for (int set = 0; set < SET_COUNT; set++) {
        for (int kind = 0; kind < LAYER_KIND_COUNT; kind++)
            free(slot->lists[kind][set].operators);
        for (int64_t i = 0; i < slot->merged_count; i++)
            free(slot->merged[i].lists[set].operators);
    }
    free(slot->merged);
    free(slot->send_ns);
}

void price_table_destroy(struct price_table *table) {
    if (table == NULL) return;
    for (int a = 0; a < AXIS_COUNT; a++) {
        struct axis *axis = &table->axes[a];
        for (int64_t i = 0; i < axis->slot_count; i++)
            free_slot(&axis->slots[i]);
        free(axis->slots);
        free(axis->slot_of_tokens);
    }
}

/* ---- pricing of one token count ---- */

/* Two streams: a collective starts after the operator before it and the collective before it; the
 * next compute operator waits for exposed ones, the one after it for hidden ones. Nothing is in
 * flight beside attention, so its time adds to the result. */
static int64_t list_makespan_ns(const struct operator_time *operators, int64_t count) {
    int64_t compute_end = 0, link_end = 0, join = 0, late_join = 0;
    for (int64_t i = 0; i < count; i++) {
        if (operators[i].stream == STREAM_COMPUTE) {
            compute_end = (join > compute_end ? join : compute_end) + operators[i].ns;
            join = late_join;
            continue;
        }
        /* A collective also waits for what its input still waits for. */
        int64_t start = join > compute_end ? join : compute_end;
        link_end = (link_end > start ? link_end : start) + operators[i].ns;
        late_join = link_end;
        if (operators[i].stream == STREAM_EXPOSED) join = link_end;
    }
    return late_join > compute_end ? late_join : compute_end;
}

static void price_list(const struct price_table *table, enum layer_kind kind, enum pass_set set,
                       const struct batch_shape *shape, struct priced_list *out) {
    const struct scenario *s = table->scenario;
    struct operator_list list = { 0 };
    layer_operators(s->model, table->layer_of_kind[kind], shape, &table->split, set,
                    table->need[kind], &list);
    const struct list_template *t = &table->templates[kind][set];
    int64_t compute_ns = 0;
    ballast_check(list.count < PRICE_OPERATOR_LIMIT); /* a ring adds one, see ring_operators() */
    out->operators =
        memory_alloc(sizeof *out->operators * (size_t)(list.count > 0 ? list.count : 1));
    out->count = list.count;
    for (int64_t i = 0; i < list.count; i++) {
        struct operator_time *timed = &out->operators[i];
        *timed = (struct operator_time){ .stream = stream_of(&list, i) };
        if (t->attention_index >= 0 && i >= t->attention_index &&
            i < t->attention_index + t->attention_count)
            continue;
        const struct operator_work *work = &list.operators[i];
        struct price price =
            cost_model_price(s->cost_model, work, &table->groups[work->communicator]);
        if (i == t->ring_index) {
            out->ring_ns = ns_from_seconds(price.seconds);
            continue;
        }
        timed->ns = ns_from_seconds(price.seconds);
        if (timed->stream == STREAM_COMPUTE) compute_ns += timed->ns;
        out->band_ns += (double)timed->ns * price.band_fraction;
        if (!price.inside_range) out->outside_ns += (double)timed->ns;
    }
    out->fixed_ns = list_makespan_ns(out->operators, out->count);
    out->comm_ns = out->fixed_ns - compute_ns;
    operator_list_free(&list);
}

static double rank_output_bytes(const struct price_table *table, enum layer_kind kind,
                                const struct batch_shape *shape) {
    double whole = layer_output_bytes(table->scenario->model, table->layer_of_kind[kind], shape);
    /* With sequence parallelism each TP rank sends its share of the sequence, as CP ranks do. */
    whole /= (double)table->split.cp;
    return table->split.sequence_parallel ? whole / (double)table->split.tp : whole;
}

static void price_slot(struct price_table *table, int axis, const struct batch_shape *shape,
                       struct slot *slot) {
    const struct model *model = table->scenario->model;
    memset(slot, 0, sizeof *slot);
    slot->send_ns =
        memory_alloc(sizeof *slot->send_ns * LAYER_KIND_COUNT * (size_t)(table->link_count + 1));
    for (int kind = 0; kind < LAYER_KIND_COUNT; kind++) {
        int64_t layer = table->layer_of_kind[kind];
        if (layer < 0 || axis_of_kind((enum layer_kind)kind) != axis) continue;
        for (int set = 0; set < SET_COUNT && kind != LAYER_TOKEN_EMBEDDING; set++)
            price_list(table, (enum layer_kind)kind, (enum pass_set)set, shape,
                       &slot->lists[kind][set]);
        for (int how = 0; how < RECOMPUTE_KIND_COUNT; how++)
            slot->saved_bytes[kind][how] =
                layer_saved_bytes(model, layer, shape, &table->split, (enum recompute_kind)how);
        slot->workspace_bytes[kind] = layer_workspace_bytes(model, layer, shape, &table->split);
        struct batch_shape fixed = *shape;
        fixed.vision_square_sum = fixed.language_square_sum = 0;
        slot->flop_fixed[kind] = model_layer_flop(model, layer, &fixed);
        double bytes = rank_output_bytes(table, (enum layer_kind)kind, shape);
        struct operator_work send = operator_collective("pipeline send", OPERATOR_SEND,
                                                        PASS_FORWARD, COMMUNICATOR_PIPELINE, bytes);
        for (int64_t link = 0; link < table->link_count; link++) {
            struct price price =
                cost_model_price(table->scenario->cost_model, &send, &table->links[link]);
            slot->send_ns[kind * table->link_count + link] = ns_from_seconds(price.seconds);
        }
    }
}

/* Without a connector its tokens, if a data set counts any, go nowhere. */
static int64_t merged_tokens(const struct price_table *table, const struct batch_shape *shape) {
    return table->layer_of_kind[LAYER_CONNECTOR] >= 0 ? shape->connector_tokens : 0;
}

/* NULL: not priced. A slot has few: as many as micro-batches of one length differ in tiles. */
static const struct merged_lists *find_merged(const struct slot *slot, int64_t connector_tokens) {
    for (int64_t i = 0; i < slot->merged_count; i++)
        if (slot->merged[i].connector_tokens == connector_tokens) return &slot->merged[i];
    return NULL;
}

static void prepare_merged(struct price_table *table, struct slot *slot,
                           const struct batch_shape *shape) {
    int64_t tokens = merged_tokens(table, shape);
    if (table->layer_of_kind[LAYER_TOKEN_EMBEDDING] < 0 || find_merged(slot, tokens) != NULL)
        return;
    if (slot->merged_count == slot->merged_capacity) {
        slot->merged_capacity = slot->merged_capacity > 0 ? 2 * slot->merged_capacity : 2;
        slot->merged =
            memory_realloc(slot->merged, sizeof *slot->merged * (size_t)slot->merged_capacity);
    }
    struct merged_lists *merged = &slot->merged[slot->merged_count++];
    *merged = (struct merged_lists){ .connector_tokens = tokens };
    for (int set = 0; set < SET_COUNT; set++)
        price_list(table, LAYER_TOKEN_EMBEDDING, (enum pass_set)set, shape, &merged->lists[set]);
}

static void add_slot(struct price_table *table, int a, int64_t tokens,
                     const struct batch_shape *shape) {
    struct axis *axis = &table->axes[a];
    if (axis->slot_count == axis->slot_capacity) {
        axis->slot_capacity = axis->slot_capacity > 0 ? axis->slot_capacity * 2 : 64;
        axis->slots =
            memory_realloc(axis->slots, sizeof *axis->slots * (size_t)axis->slot_capacity);
    }
    price_slot(table, a, shape, &axis->slots[axis->slot_count]);
    axis->slot_of_tokens[tokens] = (int32_t)axis->slot_count++;
}

static void prepare_axis(struct price_table *table, int a, const struct batch_shape *shape) {
    struct axis *axis = &table->axes[a];
    int64_t tokens = axis_tokens(a, shape);
    assert(tokens >= 0);
    if (tokens >= axis->tokens_capacity) {
        int64_t capacity = axis->tokens_capacity > 0 ? axis->tokens_capacity : 4096;
        while (capacity <= tokens)
            capacity *= 2;
        axis->slot_of_tokens =
            memory_realloc(axis->slot_of_tokens, sizeof *axis->slot_of_tokens * (size_t)capacity);
        for (int64_t i = axis->tokens_capacity; i < capacity; i++)
            axis->slot_of_tokens[i] = NO_SLOT;
        axis->tokens_capacity = capacity;
    }
    if (tokens == 0) return;
    if (axis->slot_of_tokens[tokens] == NO_SLOT) add_slot(table, a, tokens, shape);
    if (a == AXIS_LANGUAGE)
        prepare_merged(table, &axis->slots[axis->slot_of_tokens[tokens]], shape);
}

void price_table_prepare(struct price_table *table, const struct batch_shape *shapes,
                         int64_t count) {
    for (int64_t i = 0; i < count; i++)
        for (int a = 0; a < AXIS_COUNT; a++)
            prepare_axis(table, a, &shapes[i]);
}

/* ---- reading ---- */

/* NULL when the micro-batch has nothing for this kind (no vision tokens). */
static const struct slot *slot_of(const struct price_table *table, enum layer_kind kind,
                                  const struct batch_shape *shape) {
    int a = axis_of_kind(kind);
    const struct axis *axis = &table->axes[a];
    int64_t tokens = axis_tokens(a, shape);
    if (tokens == 0) return NULL;
    ballast_check(tokens < axis->tokens_capacity && axis->slot_of_tokens[tokens] != NO_SLOT);
    return &axis->slots[axis->slot_of_tokens[tokens]];
}

/* The core attention of one micro-batch; returns the count. */
static int64_t attention_works(const struct price_table *table, enum layer_kind kind,
                               enum pass_set set, const struct batch_shape *shape,
                               struct operator_work works[ATTENTION_OPERATOR_LIMIT]) {
    struct operator_list list = { works, 0, ATTENTION_OPERATOR_LIMIT };
    layer_attention_operators(table->scenario->model, table->layer_of_kind[kind], shape,
                              &table->split, set, table->need[kind], &list);
    ballast_check(list.operators == works); /* did not grow */
    return list.count;
}

static struct price attention_price(const struct price_table *table,
                                    const struct operator_work *work) {
    return cost_model_price(table->scenario->cost_model, work, &table->groups[COMMUNICATOR_NONE]);
}

static int64_t attention_ns(const struct price_table *table, enum layer_kind kind,
                            enum pass_set set, const struct batch_shape *shape) {
    struct operator_work works[ATTENTION_OPERATOR_LIMIT];
    int64_t count = attention_works(table, kind, set, shape, works), ns = 0;
    for (int64_t i = 0; i < count; i++)
        ns += ns_from_seconds(attention_price(table, &works[i]).seconds);
    return ns;
}

/* Of attention, what runs while the ring does: all steps but the last. */
static int64_t beside_ring_ns(const struct price_table *table, int64_t attention) {
    return attention - attention / table->split.cp;
}

static int64_t exposed_ring_ns(const struct price_table *table, const struct priced_list *list,
                               int64_t attention) {
    int64_t beside = beside_ring_ns(table, attention);
    return list->ring_ns > beside ? list->ring_ns - beside : 0;
}

static const struct priced_list *list_of(const struct price_table *table, const struct slot *slot,
                                         enum layer_kind kind, enum pass_set set,
                                         const struct batch_shape *shape) {
    if (kind != LAYER_TOKEN_EMBEDDING) return &slot->lists[kind][set];
    const struct merged_lists *merged = find_merged(slot, merged_tokens(table, shape));
    ballast_check(merged != NULL);
    return &merged->lists[set];
}

static bool has_attention(const struct price_table *table, const struct priced_list *list,
                          enum layer_kind kind, enum pass_set set) {
    return list->count > 0 && table->templates[kind][set].attention_index >= 0;
}

static void list_time(const struct price_table *table, const struct priced_list *list,
                      enum layer_kind kind, enum pass_set set, const struct batch_shape *shape,
                      int64_t *ns, int64_t *comm_ns) {
    *ns = list->fixed_ns;
    *comm_ns = list->comm_ns;
    if (!has_attention(table, list, kind, set)) return;
    int64_t attention = attention_ns(table, kind, set, shape);
    int64_t exposed = exposed_ring_ns(table, list, attention);
    *ns += attention + exposed;
    *comm_ns += exposed;
}

static bool has_unfused_attention(const struct price_table *table, enum layer_kind kind) {
    return table->split.attention == ATTENTION_NAIVE &&
           (kind == LAYER_VISION_BLOCK || kind == LAYER_LANGUAGE_BLOCK);
}

/* What the host needs to launch one pass of a transformer block: none is faster. */
static int64_t host_ns(const struct price_table *table, enum layer_kind kind, enum pass_set set) {
    const struct backend *b = table->scenario->backend;
    if (kind != LAYER_VISION_BLOCK && kind != LAYER_LANGUAGE_BLOCK) return 0;
    return ns_from_seconds(set == PASS_SET_FORWARD ? b->host_forward_s : b->host_backward_s);
}

static int64_t at_least(int64_t ns, int64_t floor_ns) {
    return ns > 0 && ns < floor_ns ? floor_ns : ns;
}

void price_table_layer(const struct price_table *table, enum layer_kind kind,
                       const struct batch_shape *shape, struct layer_time *time) {
    *time = (struct layer_time){ 0 };
    const struct slot *slot = table->layer_of_kind[kind] >= 0 ? slot_of(table, kind, shape) : NULL;
    if (slot == NULL) return;
    const struct priced_list *forward = list_of(table, slot, kind, PASS_SET_FORWARD, shape),
                             *backward = list_of(table, slot, kind, PASS_SET_BACKWARD, shape);
    list_time(table, forward, kind, PASS_SET_FORWARD, shape, &time->forward_ns,
              &time->forward_comm_ns);
    list_time(table, backward, kind, PASS_SET_BACKWARD, shape, &time->backward_ns,
              &time->backward_comm_ns);
    time->forward_ns = at_least(time->forward_ns, host_ns(table, kind, PASS_SET_FORWARD));
    time->backward_ns = at_least(time->backward_ns, host_ns(table, kind, PASS_SET_BACKWARD));
    if (time->backward_ns == 0) return;
    time->recompute_ns[RECOMPUTE_FULL] = time->forward_ns;
    time->recompute_comm_ns[RECOMPUTE_FULL] = time->forward_comm_ns;
    if (has_unfused_attention(table, kind))
        time->recompute_ns[RECOMPUTE_SELECTIVE] =
            attention_ns(table, kind, PASS_SET_FORWARD, shape);
}

/* Puts the run of attention that starts at *out there; returns its count. Beside a ring it is stated
 * as two: what runs while keys and values travel, and the step after that. */
static int64_t attention_operators(const struct price_table *table, const struct priced_list *list,
                                   enum layer_kind kind, enum pass_set set,
                                   const struct batch_shape *shape, struct operator_time *out) {
    if (table->templates[kind][set].ring_index >= 0) {
        int64_t attention = attention_ns(table, kind, set, shape);
        int64_t beside = beside_ring_ns(table, attention);
        out[-1] = (struct operator_time){ list->ring_ns, STREAM_HIDDEN };
        out[0] = (struct operator_time){ beside, STREAM_COMPUTE };
        out[1] = (struct operator_time){ attention - beside, STREAM_COMPUTE };
        return 2;
    }
    struct operator_work works[ATTENTION_OPERATOR_LIMIT];
    int64_t count = attention_works(table, kind, set, shape, works);
    for (int64_t i = 0; i < count; i++)
        out[i] = (struct operator_time){ ns_from_seconds(attention_price(table, &works[i]).seconds),
                                         STREAM_COMPUTE };
    return count;
}

int64_t price_table_operators(const struct price_table *table, enum layer_kind kind,
                              const struct batch_shape *shape, enum pass_set set,
                              struct operator_time *out) {
    const struct slot *slot = table->layer_of_kind[kind] >= 0 ? slot_of(table, kind, shape) : NULL;
    if (slot == NULL) return 0;
    const struct priced_list *list = list_of(table, slot, kind, set, shape);
    const struct list_template *t = &table->templates[kind][set];
    int64_t count = 0, next = 0;
    if (has_attention(table, list, kind, set)) {
        for (; next < t->attention_index; next++)
            out[count++] = list->operators[next];
        count += attention_operators(table, list, kind, set, shape, &out[count]);
        next += t->attention_count;
    }
    for (; next < list->count; next++)
        out[count++] = list->operators[next];
    if (count == 0) return 0;
    /* A block ends with a kernel: what it waits for the host stands there. */
    int64_t ns, comm_ns;
    list_time(table, list, kind, set, shape, &ns, &comm_ns);
    out[count - 1].ns += at_least(ns, host_ns(table, kind, set)) - ns;
    return count;
}

int64_t price_table_recompute_operators(const struct price_table *table, enum layer_kind kind,
                                        const struct batch_shape *shape, enum recompute_kind how,
                                        struct operator_time *out) {
    if (how == RECOMPUTE_FULL)
        return price_table_operators(table, kind, shape, PASS_SET_FORWARD, out);
    if (how == RECOMPUTE_NONE || !has_unfused_attention(table, kind) ||
        slot_of(table, kind, shape) == NULL)
        return 0;
    struct operator_work works[ATTENTION_OPERATOR_LIMIT];
    int64_t count = attention_works(table, kind, PASS_SET_FORWARD, shape, works);
    for (int64_t i = 0; i < count; i++)
        out[i] = (struct operator_time){ ns_from_seconds(attention_price(table, &works[i]).seconds),
                                         STREAM_COMPUTE };
    return count;
}

int64_t price_table_send_ns(const struct price_table *table, int64_t stage, enum layer_kind kind,
                            const struct batch_shape *shape) {
    const struct slot *slot = slot_of(table, kind, shape);
    return slot == NULL ? 0 : slot->send_ns[(int64_t)kind * table->link_count + stage];
}

/* Scores of unfused attention follow the squares of lengths, all else the token count. */
double price_table_saved_bytes(const struct price_table *table, enum layer_kind kind,
                               const struct batch_shape *shape, enum recompute_kind how) {
    const struct slot *slot = slot_of(table, kind, shape);
    if (slot == NULL) return 0;
    if (!has_unfused_attention(table, kind)) return slot->saved_bytes[kind][how];
    return layer_saved_bytes(table->scenario->model, table->layer_of_kind[kind], shape,
                             &table->split, how);
}

double price_table_workspace_bytes(const struct price_table *table, enum layer_kind kind,
                                   const struct batch_shape *shape) {
    const struct slot *slot = slot_of(table, kind, shape);
    if (slot == NULL) return 0;
    if (!has_unfused_attention(table, kind)) return slot->workspace_bytes[kind];
    return layer_workspace_bytes(table->scenario->model, table->layer_of_kind[kind], shape,
                                 &table->split);
}

double price_table_flop(const struct price_table *table, enum layer_kind kind,
                        const struct batch_shape *shape) {
    const struct slot *slot = table->layer_of_kind[kind] >= 0 ? slot_of(table, kind, shape) : NULL;
    return slot == NULL ? 0
                        : slot->flop_fixed[kind] +
                              table->flop_per_square[kind] * attention_squares(kind, shape);
}

double price_table_recompute_flop(const struct price_table *table, enum layer_kind kind,
                                  const struct batch_shape *shape, enum recompute_kind how) {
    if (how == RECOMPUTE_FULL) return price_table_flop(table, kind, shape);
    if (how == RECOMPUTE_NONE || !has_unfused_attention(table, kind)) return 0;
    return table->flop_per_square[kind] * attention_squares(kind, shape);
}

double price_table_training_flop(const struct price_table *table, enum layer_kind kind,
                                 const struct batch_shape *shape) {
    const struct slot *slot = table->layer_of_kind[kind] >= 0 ? slot_of(table, kind, shape) : NULL;
    if (slot == NULL) return 0;
    struct gradient_need need = table->need[kind];
    double matmul_passes = 1 + need.input + need.weight;
    double attention_passes = need.input || need.weight ? 3 : 1;
    return matmul_passes * slot->flop_fixed[kind] +
           attention_passes * table->flop_per_square[kind] * attention_squares(kind, shape);
}

double price_table_band(const struct price_table *table, const struct batch_shape *shape,
                        const int64_t layers_by_kind[LAYER_KIND_COUNT], double *outside_fraction) {
    double weighted = 0, total = 0, outside = 0;
    for (int kind = 0; kind < LAYER_KIND_COUNT; kind++) {
        const struct slot *slot =
            layers_by_kind[kind] > 0 ? slot_of(table, (enum layer_kind)kind, shape) : NULL;
        if (slot == NULL) continue;
        for (int set = 0; set < SET_COUNT; set++) {
            const struct priced_list *list =
                list_of(table, slot, (enum layer_kind)kind, (enum pass_set)set, shape);
            double ns = (double)list->fixed_ns, band_ns = list->band_ns;
            double outside_ns = list->outside_ns;
            if (has_attention(table, list, (enum layer_kind)kind, (enum pass_set)set)) {
                struct operator_work works[ATTENTION_OPERATOR_LIMIT];
                int64_t count =
                    attention_works(table, (enum layer_kind)kind, (enum pass_set)set, shape, works);
                for (int64_t i = 0; i < count; i++) {
                    struct price p = attention_price(table, &works[i]);
                    ns += p.seconds * NS_PER_S;
                    band_ns += p.seconds * NS_PER_S * p.band_fraction;
                    if (!p.inside_range) outside_ns += p.seconds * NS_PER_S;
                }
            }
            weighted += band_ns * (double)layers_by_kind[kind];
            outside += outside_ns * (double)layers_by_kind[kind];
            total += ns * (double)layers_by_kind[kind];
        }
    }
    *outside_fraction = total > 0 ? outside / total : 0;
    return total > 0 ? weighted / total : 0;
}
