/* price_slot.c - prices the operators of each layer kind at one token count. */
#include "sim/step/price_slot.h"

#include <assert.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>
#include "sim/base/units.h"

int price_slot_paired_index(enum layer_kind kind) {
    switch (kind) {
    case LAYER_TOKEN_EMBEDDING:
    case LAYER_DIFFUSION_BLOCK:
    case LAYER_JOINT_BLOCK: /* no decoder has both kinds */
        return 0;
    case LAYER_LATENT_EMBEDDING: /* what it sends has the text beside it */
        return 1;
    case LAYER_SINGLE_BLOCK:
        return 2;
    default:
        return -1;
    }
}

int price_slot_single_index(enum layer_kind kind) {
    static const int indices[LAYER_KIND_COUNT] = {
        [LAYER_PATCH_EMBEDDING] = 0,
        [LAYER_VISION_BLOCK] = 1,
        [LAYER_CONNECTOR] = 2,
        [LAYER_LANGUAGE_BLOCK] = 0,
        [LAYER_HEAD] = 1,
        [LAYER_TEXT_PROJECTION] = 2,
        [LAYER_DIFFUSION_HEAD] = 0,
        [LAYER_TOKEN_EMBEDDING] = -1,
        [LAYER_DIFFUSION_BLOCK] = -1,
        [LAYER_JOINT_BLOCK] = -1,
        [LAYER_SINGLE_BLOCK] = -1,
        [LAYER_LATENT_EMBEDDING] = -1,
    };
    return indices[kind];
}

static bool axis_has_pairs(const struct price_table *table, int axis) {
    for (int kind = 0; kind < LAYER_KIND_COUNT; kind++)
        if (table->layer_of_kind[kind] >= 0 &&
            (int)layer_kind_axis((enum layer_kind)kind) == axis &&
            price_slot_paired_index((enum layer_kind)kind) >= 0)
            return true;
    return false;
}

int64_t price_slot_other_tokens(const struct price_table *table, int axis,
                                const struct batch_shape *shape) {
    if (axis == TOKENS_VIDEO) return shape->language_tokens;
    return table->layer_of_kind[LAYER_CONNECTOR] >= 0 ? shape->connector_tokens : 0;
}

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

static void extend_run(struct priced_list *list, int64_t index) {
    struct attention_run *last = list->run_count > 0 ? &list->runs[list->run_count - 1] : NULL;
    if (last != NULL && last->index + last->count == index) {
        last->count++;
        return;
    }
    ballast_check(list->run_count < RUN_LIMIT);
    list->runs[list->run_count++] = (struct attention_run){ index, 1 };
}

/* Megatron-LM's --tp-comm-overlap (Transformer Engine's user buffers): a matmul beside an exposed
 * collective is cut into n pieces of its rows, so that one piece computes while another travels.
 * The gather in front of it passes the tp shards around a ring; the scatter behind it goes in four
 * pieces, and its kernels hold some multiprocessors. With G the pieces together, C the collective:
 *
 *     gather   exposed = max(C - G (n - 1) / n, 0)                       n = tp
 *     scatter  exposed = C / n + max((C - G) (n - 1) / n, 0)             n = 4
 *              G grows by 16 of the multiprocessors while the hidden part runs
 *
 * The framework is taken to leave alone what this would slow down. Source of n and of 16: NeMo's
 * user-buffer configurations for H100 (ring exchange; pipeline with num_splits 4, num_sm 16).
 * Where the factors already hold it, a run without it takes longer by what it would save. */
enum { OVERLAP_SCATTER_PIECES = 4, OVERLAP_SM_COUNT = 16 };

static int64_t pieces_ns(const struct price_table *table, const struct operator_work *matmul,
                         const struct rule_place *place, int64_t pieces) {
    struct operator_work piece =
        operator_matmul(matmul->name, matmul->pass, matmul->precision,
                        (matmul->m + pieces - 1) / pieces, matmul->n, matmul->k);
    piece.pieces = pieces;
    piece.recipe = matmul->recipe;
    piece.odd_rows = matmul->odd_rows;
    piece.unaligned = matmul->unaligned;
    return pieces * ns_from_price(cost_model_price_at(table->scenario->cost_model, &piece,
                                                      &table->groups[COMMUNICATOR_NONE], place)
                                      .seconds);
}

/* Of an exposed collective, as the stack has it of its runs with the overlap. */
static int64_t hidden_as_stated_ns(const struct stack *stack, int64_t wire_ns) {
    return stack == NULL ? 0 : llround(stack->tensor_overlap_fraction * (double)wire_ns);
}

static void overlap(const struct price_table *table, const struct operator_work *matmul,
                    const struct rule_place *place, bool gather, struct operator_time *compute,
                    struct operator_time *collective) {
    const int64_t n = gather ? table->split.tp : OVERLAP_SCATTER_PIECES;
    int64_t together_ns = pieces_ns(table, matmul, place, n), wire_ns = collective->ns;
    int64_t beside_ns = together_ns - together_ns / n;
    int64_t travels_ns = gather ? wire_ns : wire_ns - wire_ns / n;
    int64_t hidden_ns = travels_ns < beside_ns ? travels_ns : beside_ns;
    const int64_t sm_count = cost_model_gpu(table->scenario->cost_model)->sm_count;
    if (!gather) together_ns += hidden_ns * OVERLAP_SM_COUNT / sm_count;
    const int64_t saved_ns = compute->ns + hidden_ns - together_ns;
    if (saved_ns <= 0) return;
    if (!table->scenario->layout_fields.tp_overlap) {
        const int64_t stated_ns = hidden_as_stated_ns(table->scenario->stack, wire_ns);
        collective->ns = wire_ns + (saved_ns > stated_ns ? saved_ns - stated_ns : 0);
        return;
    }
    compute->ns = together_ns;
    collective->ns = wire_ns - hidden_ns;
}

/* The matmul that an exposed gather or scatter i may run beside; -1: none. */
static int64_t matmul_beside(const struct operator_list *list,
                             const struct operator_time *operators, int64_t i) {
    const struct operator_work *work = &list->operators[i];
    if (work->communicator != COMMUNICATOR_TENSOR || operators[i].stream != STREAM_EXPOSED)
        return -1;
    if (work->kind != OPERATOR_ALL_GATHER && work->kind != OPERATOR_REDUCE_SCATTER) return -1;
    const int64_t beside = work->kind == OPERATOR_ALL_GATHER ? i + 1 : i - 1;
    if (beside < 0 || beside >= list->count || list->operators[beside].kind != OPERATOR_MATMUL)
        return -1;
    return beside;
}

static void overlap_tensor_parallel(const struct price_table *table,
                                    const struct operator_list *list,
                                    const struct rule_place *place,
                                    struct operator_time *operators) {
    for (int64_t i = 0; i < list->count; i++) {
        const int64_t beside = matmul_beside(list, operators, i);
        if (beside < 0) continue;
        overlap(table, &list->operators[beside], place,
                list->operators[i].kind == OPERATOR_ALL_GATHER, &operators[beside], &operators[i]);
    }
}

/* What the factors of the stack do not hold of it. */
static void hide_as_stated(const struct stack *stack, const struct operator_list *list,
                           struct operator_time *operators) {
    for (int64_t i = 0; i < list->count; i++)
        if (matmul_beside(list, operators, i) >= 0)
            operators[i].ns -= hidden_as_stated_ns(stack, operators[i].ns);
}

/* A run that does as those that its stack's factors hold is priced without. */
static bool counts_tensor_overlap(const struct scenario *s) {
    const struct stack *stack = s->stack;
    if (stack == NULL || !stack->holds_tensor_overlap) return s->layout_fields.tp_overlap;
    return stack->overlap_tensor && !s->layout_fields.tp_overlap;
}

/* What the list takes longer than without the collectives of context parallelism. */
static int64_t context_ns(const struct operator_list *list, const struct priced_list *priced) {
    struct operator_time *rest = NULL;
    for (int64_t i = 0; i < list->count; i++) {
        if (!communicator_shares_sequence(list->operators[i].communicator) ||
            priced->operators[i].ns == 0)
            continue;
        if (rest == NULL) {
            rest = memory_alloc(sizeof *rest * (size_t)list->count);
            memcpy(rest, priced->operators, sizeof *rest * (size_t)list->count);
        }
        rest[i].ns = 0;
    }
    if (rest == NULL) return 0;
    const int64_t ns = priced->fixed_ns - list_makespan_ns(rest, list->count);
    free(rest);
    return ns;
}

static bool ring_precedes_attention(const struct operator_list *list,
                                    const struct priced_list *priced) {
    if (priced->ring_run == NO_RUN) return true;
    if (priced->ring_run >= priced->run_count) return false;
    const int64_t ring = priced->runs[priced->ring_run].index - 1;
    return ring >= 0 && operator_runs_beside_attention(&list->operators[ring]);
}

/* Takes `list`. */
static void price_list(const struct price_table *table, enum layer_kind kind,
                       struct operator_list list, struct priced_list *out) {
    const struct scenario *s = table->scenario;
    int64_t compute_ns = 0;
    const struct rule_place place = price_table_place(table, kind);
    ballast_check(list.count < PRICE_OPERATOR_LIMIT); /* a ring adds one, see ring_operators() */
    *out = (struct priced_list){ .count = list.count, .ring_run = NO_RUN };
    out->operators =
        memory_alloc(sizeof *out->operators * (size_t)(list.count > 0 ? list.count : 1));
    for (int64_t i = 0; i < list.count; i++) {
        const struct operator_work *work = &list.operators[i];
        struct operator_time *timed = &out->operators[i];
        *timed = (struct operator_time){ .stream = stream_of(&list, i) };
        if (operator_is_core_attention(work)) {
            extend_run(out, i);
            continue;
        }
        struct price price =
            cost_model_price_at(s->cost_model, work, &table->groups[work->communicator], &place);
        if (operator_runs_beside_attention(work)) {
            out->gathers_alone = work->kind == OPERATOR_ALL_GATHER;
            out->ring_ns += ns_from_price(price.seconds);
            out->ring_run = out->run_count; /* the next one */
            continue;
        }
        timed->ns = ns_from_price(price.seconds * (double)operator_calls(work));
        out->priced_ns += (double)timed->ns;
        out->band_ns += (double)timed->ns * price.band_fraction;
        out->stated_ns += (double)timed->ns * price_stated_band(&price);
        if (!price.inside_range) out->outside_ns += (double)timed->ns;
    }
    ballast_check(ring_precedes_attention(&list, out));
    if (counts_tensor_overlap(s))
        overlap_tensor_parallel(table, &list, &place, out->operators);
    else if (s->layout_fields.tp_overlap)
        hide_as_stated(s->stack, &list, out->operators);
    for (int64_t i = 0; i < list.count; i++)
        if (out->operators[i].stream == STREAM_COMPUTE) compute_ns += out->operators[i].ns;
    out->fixed_ns = list_makespan_ns(out->operators, out->count);
    out->comm_ns = out->fixed_ns - compute_ns;
    out->context_ns = context_ns(&list, out);
    operator_list_free(&list);
    if (!table->sums_only) return;
    free(out->operators);
    out->operators = NULL;
}

static double rank_output_bytes(const struct price_table *table, enum layer_kind kind,
                                const struct batch_shape *shape) {
    double whole = layer_output_bytes(table->scenario->model, table->layer_of_kind[kind], shape);
    /* With sequence parallelism each TP rank sends its share of the sequence, as CP ranks do. */
    whole /= (double)table->split.cp;
    return table->split.sequence_parallel ? whole / (double)table->split.tp : whole;
}

/* Without it each TP rank holds the whole output: it sends a share, and the next stage gathers. */
static bool divides_sends(const struct price_table *table) {
    return table->scenario->backend->divides_sends && table->split.tp > 1 &&
           !table->split.sequence_parallel;
}

static void price_set(const struct price_table *table, enum layer_kind kind, enum pass_set set,
                      const struct batch_shape *shape, struct kind_prices *out) {
    struct operator_list list = { 0 };
    layer_operators(table->scenario->model, table->layer_of_kind[kind], shape, &table->split, set,
                    table->need[kind], &list);
    price_list(table, kind, list, &out->lists[set]);
}

static double matmul_flop(const struct operator_list *list) {
    double flop = 0;
    for (int64_t i = 0; i < list->count; i++)
        if (list->operators[i].kind == OPERATOR_MATMUL)
            flop += list->operators[i].flop * (double)operator_calls(&list->operators[i]);
    return flop;
}

/* A stack that runs less again than the whole forward. */
static void price_again(const struct price_table *table, enum layer_kind kind,
                        const struct batch_shape *shape, struct kind_prices *out) {
    const struct model *model = table->scenario->model;
    const int64_t layer = table->layer_of_kind[kind];
    const enum recompute_style style = table->split.block.recompute_style;
    if (style == RECOMPUTE_WHOLE || style == RECOMPUTE_CORE || !layer_can_recompute(model, layer))
        return;
    struct operator_list whole = { 0 };
    layer_operators(model, layer, shape, &table->split, PASS_SET_FORWARD, table->need[kind],
                    &whole);
    for (int how = 0; how < RECOMPUTE_KIND_COUNT; how++) {
        if (how == RECOMPUTE_SELECTIVE && style != RECOMPUTE_OPERATORS) continue;
        struct operator_list list = { 0 };
        layer_recompute_operators(model, layer, shape, &table->split, (enum recompute_kind)how,
                                  table->need[kind], &list);
        out->again_flop_fraction[how] =
            whole.count > 0 ? matmul_flop(&list) / matmul_flop(&whole) : 0;
        price_list(table, kind, list, &out->again[how]);
    }
    operator_list_free(&whole);
}

struct operator_work price_slot_send_work(const struct price_table *table, enum layer_kind kind,
                                          const struct batch_shape *shape) {
    const double bytes = rank_output_bytes(table, kind, shape);
    return operator_collective("pipeline send", OPERATOR_SEND, PASS_FORWARD, COMMUNICATOR_PIPELINE,
                               divides_sends(table) ? bytes / (double)table->split.tp : bytes);
}

struct price price_slot_send_price(const struct price_table *table, enum layer_kind kind,
                                   const struct batch_shape *shape,
                                   const struct communicator *pair) {
    const struct cost_model *model = table->scenario->cost_model;
    const struct operator_work send = price_slot_send_work(table, kind, shape);
    struct price price = cost_model_price(model, &send, pair);
    if (!divides_sends(table)) return price;
    const struct communicator tensor =
        layout_communicator(&table->scenario->layout, COMMUNICATOR_TENSOR);
    const struct operator_work gather =
        operator_collective("pipeline gather", OPERATOR_ALL_GATHER, PASS_FORWARD,
                            COMMUNICATOR_TENSOR, rank_output_bytes(table, kind, shape));
    const double gather_s = cost_model_price(model, &gather, &tensor).seconds;
    price.seconds += gather_s;
    price.network_s += gather_s;
    return price;
}

static void price_kind(struct price_table *table, enum layer_kind kind,
                       const struct batch_shape *shape, struct kind_prices *out) {
    const struct model *model = table->scenario->model;
    const int64_t layer = table->layer_of_kind[kind];
    for (int set = 0; set < SET_COUNT; set++)
        price_set(table, kind, (enum pass_set)set, shape, out);
    price_again(table, kind, shape, out);
    for (int how = 0; how < RECOMPUTE_KIND_COUNT; how++)
        out->saved_bytes[how] =
            layer_saved_bytes(model, layer, shape, &table->split, (enum recompute_kind)how);
    out->workspace_bytes = layer_workspace_bytes(model, layer, shape, &table->split);
    struct batch_shape fixed = *shape;
    fixed.vision_square_sum = fixed.language_square_sum = 0;
    fixed.video_square_sum = fixed.cross_square_sum = 0;
    out->flop_fixed = model_layer_flop(model, layer, &fixed);
    out->send_ns = memory_alloc(sizeof *out->send_ns * (size_t)(table->link_count + 1));
    for (int64_t link = 0; link < table->link_count; link++)
        out->send_ns[link] =
            ns_from_price(price_slot_send_price(table, kind, shape, &table->links[link]).seconds);
}

static void price_slot(struct price_table *table, int axis, const struct batch_shape *shape,
                       struct slot *slot) {
    *slot = (struct slot){ 0 };
    for (int k = 0; k < LAYER_KIND_COUNT; k++) {
        const enum layer_kind kind = (enum layer_kind)k;
        const int index = price_slot_single_index(kind);
        if (table->layer_of_kind[k] < 0 || (int)layer_kind_axis(kind) != axis || index < 0)
            continue;
        price_kind(table, kind, shape, &slot->kinds[index]);
    }
}

/* ---- pairs ---- */

/* Where these are, or the empty place for them. Counts of tokens are multiples of an image's:
 * mixed. */
static struct pair_place *find_place(const struct axis *axis, int64_t slot, int64_t other_tokens) {
    const uint64_t mixed =
        ((uint64_t)slot * 0x9e3779b97f4a7c15u ^ (uint64_t)other_tokens) * 0xd6e8feb86659fd93u;
    int64_t at = (int64_t)(mixed >> 32) & (axis->place_count - 1);
    while (axis->places[at].index != NO_SLOT &&
           (axis->places[at].slot != slot || axis->places[at].other_tokens != other_tokens))
        at = (at + 1) & (axis->place_count - 1);
    return &axis->places[at];
}

int64_t price_slot_find_pair(const struct axis *axis, int64_t slot, int64_t other_tokens) {
    return axis->place_count > 0 ? find_place(axis, slot, other_tokens)->index : NO_SLOT;
}

static void grow_places(struct axis *axis) {
    struct pair_place *old = axis->places;
    const int64_t old_count = axis->place_count;
    axis->place_count = old_count > 0 ? 2 * old_count : 128;
    axis->places = memory_alloc(sizeof *axis->places * (size_t)axis->place_count);
    for (int64_t i = 0; i < axis->place_count; i++)
        axis->places[i].index = NO_SLOT;
    for (int64_t i = 0; i < old_count; i++)
        if (old[i].index != NO_SLOT) *find_place(axis, old[i].slot, old[i].other_tokens) = old[i];
    free(old);
}

static void prepare_pair(struct price_table *table, int a, int64_t slot,
                         const struct batch_shape *shape) {
    struct axis *axis = &table->axes[a];
    const int64_t tokens = price_slot_other_tokens(table, a, shape);
    if (price_slot_find_pair(axis, slot, tokens) != NO_SLOT) return;
    if (2 * (axis->pair_count + 1) > axis->place_count) grow_places(axis);
    if (axis->pair_count == axis->pair_capacity) {
        axis->pair_capacity = axis->pair_capacity > 0 ? 2 * axis->pair_capacity : 64;
        axis->pairs =
            memory_realloc(axis->pairs, sizeof *axis->pairs * (size_t)axis->pair_capacity);
    }
    *find_place(axis, slot, tokens) =
        (struct pair_place){ tokens, (int32_t)slot, (int32_t)axis->pair_count };
    struct paired_prices *pair = &axis->pairs[axis->pair_count++];
    *pair = (struct paired_prices){ .mark.entry = -1 };
    for (int k = 0; k < LAYER_KIND_COUNT; k++) {
        const enum layer_kind kind = (enum layer_kind)k;
        const int index = price_slot_paired_index(kind);
        if (table->layer_of_kind[k] < 0 || (int)layer_kind_axis(kind) != a || index < 0) continue;
        price_kind(table, kind, shape, &pair->kinds[index]);
    }
}

/* ---- slots ---- */

int64_t price_slot_find(const struct axis *axis, int64_t tokens) {
    return tokens < axis->tokens_capacity ? axis->slot_of_tokens[tokens] : NO_SLOT;
}

static bool is_priced(const struct price_table *table, int a, bool pairs,
                      const struct batch_shape *shape, int64_t tokens) {
    const struct axis *axis = &table->axes[a];
    const int64_t slot = price_slot_find(axis, tokens);
    return slot != NO_SLOT &&
           (!pairs ||
            price_slot_find_pair(axis, slot, price_slot_other_tokens(table, a, shape)) != NO_SLOT);
}

static void add_slot(struct price_table *table, int a, int64_t tokens,
                     const struct batch_shape *shape) {
    struct axis *axis = &table->axes[a];
    if (axis->slot_count == axis->slot_capacity) {
        axis->slot_capacity = axis->slot_capacity > 0 ? axis->slot_capacity * 2 : 64;
        axis->slots =
            memory_realloc(axis->slots, sizeof *axis->slots * (size_t)axis->slot_capacity);
        axis->marks =
            memory_realloc(axis->marks, sizeof *axis->marks * (size_t)axis->slot_capacity);
    }
    price_slot(table, a, shape, &axis->slots[axis->slot_count]);
    axis->marks[axis->slot_count] = (struct memo_mark){ .entry = -1 };
    axis->slot_of_tokens[tokens] = (int32_t)axis->slot_count++;
}

static void prepare_axis(struct price_table *table, int a, bool pairs,
                         const struct batch_shape *shape) {
    struct axis *axis = &table->axes[a];
    int64_t tokens = batch_shape_tokens(shape, (enum token_axis)a);
    assert(tokens >= 0);
    if (table->base != NULL && tokens > 0 && is_priced(table->base, a, pairs, shape, tokens))
        return;
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
    if (pairs) prepare_pair(table, a, axis->slot_of_tokens[tokens], shape);
}

void price_table_prepare(struct price_table *table, const struct batch_shape *shapes,
                         int64_t count) {
    const struct batch_shape *known = table->memo_shapes;
    if (known != NULL && shapes >= known && shapes + count <= known + table->memo_count) return;
    bool pairs[TOKEN_AXIS_COUNT];
    for (int a = 0; a < TOKEN_AXIS_COUNT; a++)
        pairs[a] = axis_has_pairs(table, a);
    for (int64_t i = 0; i < count; i++)
        for (int a = 0; a < TOKEN_AXIS_COUNT; a++)
            prepare_axis(table, a, pairs[a], &shapes[i]);
    for (int64_t v = 0; v < table->variant_count; v++)
        price_table_prepare(table->variants[v], shapes, count);
}
