/* price_table.c - one slot per token count and axis.
 *
 * Three axes (enum token_axis): the layers of the vision encoder are indexed by its tokens, those of
 * the language model by language tokens, those of a diffusion decoder by video tokens. A slot holds
 * everything that depends on the count alone. Core attention is a run of consecutive operators, one
 * where it is fused, that are stated and priced per micro-batch from its sums of lengths; a diffusion
 * block has a second run, its cross attention. Some layers depend on two axes: the token embedding
 * merges the connector's tokens into the text, and the decoder's blocks attend to the text. Their slot
 * keeps them once for each count of those other tokens that it has met.
 *
 * Ring attention (layer_attention.c) sends keys and values while it attends to those that it has: of
 * cp equal steps the last has nothing to send. With A the time of attention and R that of the ring,
 *
 *     exposed = R - min(R, A (cp - 1) / cp)
 *
 * A user's rule (costmodel/rules.h) decides while an operator is priced here. One that names blocks
 * gives those a table of their own, so that equal layers are still priced once.
 */
#include "sim/step/price_table.h"

#include <assert.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>
#include "sim/base/units.h"
#include "sim/scenario/scenario_fields.h"

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
    int64_t ring_ns;
    double band_ns;    /* sum of ns x band */
    double outside_ns; /* priced outside the measured range */
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

/* Layers that depend on a second count: at most two kinds of an axis. */
enum { PAIRED_KIND_LIMIT = 2 };
struct paired_prices {
    struct kind_prices kinds[PAIRED_KIND_LIMIT];
};

struct slot {
    struct kind_prices kinds[LAYER_KIND_COUNT]; /* but the paired ones */
    struct paired_prices *paired;               /* owned */
    int64_t *paired_tokens; /* owned: other_tokens() of each, side by side for the search */
    int64_t paired_count, paired_capacity;
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
    int64_t link_count; /* of links that differ */
    struct communicator *links;
    int64_t *link_of_stage;
    bool sums_only;
    const struct batch_shape *memo_shapes;
    int64_t memo_count;
    struct layer_time (*memo)[LAYER_KIND_COUNT]; /* by shape; owned unless there is a base */
    const struct price_table *base; /* where its prices are looked up first; NULL: none */
    struct tensor_split split;
    struct gradient_need need[LAYER_KIND_COUNT];
    int64_t layer_of_kind[LAYER_KIND_COUNT]; /* a layer of the kind; -1: none */
    double flop_per_square[LAYER_KIND_COUNT], flop_per_cross[LAYER_KIND_COUNT];
    struct axis axes[TOKEN_AXIS_COUNT];
    /* Rules that name single blocks: a table of their own for each set of blocks that the same rules
     * name. NULL and 0 where there are none, and inside such a table. */
    struct price_table **of_layer;
    struct price_table **variants;
    int64_t variant_count;
    int64_t rule_layer; /* of such a table: one of its blocks, within its module */
};

/* -1: the kind depends on the tokens of its axis alone. */
static int paired_index(enum layer_kind kind) {
    switch (kind) {
    case LAYER_TOKEN_EMBEDDING:
    case LAYER_DIFFUSION_BLOCK:
        return 0;
    case LAYER_LATENT_EMBEDDING: /* what it sends has the text beside it */
        return 1;
    default:
        return -1;
    }
}

static bool axis_has_pairs(const struct price_table *table, int axis) {
    for (int kind = 0; kind < LAYER_KIND_COUNT; kind++)
        if (table->layer_of_kind[kind] >= 0 &&
            (int)layer_kind_axis((enum layer_kind)kind) == axis &&
            paired_index((enum layer_kind)kind) >= 0)
            return true;
    return false;
}

/* The tokens of another axis that paired layers depend on. Without a connector its tokens, if a data
 * set counts any, go nowhere. */
static int64_t other_tokens(const struct price_table *table, int axis,
                            const struct batch_shape *shape) {
    if (axis == TOKENS_VIDEO) return shape->language_tokens;
    return table->layer_of_kind[LAYER_CONNECTOR] >= 0 ? shape->connector_tokens : 0;
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

/* A copy that prices this block alone, and counts for all that the same rules name. */
static struct price_table *make_variant(struct arena *arena, const struct price_table *table,
                                        int64_t layer) {
    const struct layer *l = &table->scenario->model->layers[layer];
    struct price_table *variant = arena_new(arena, struct price_table);
    *variant = *table;
    variant->of_layer = variant->variants = NULL;
    variant->variant_count = 0;
    memset(variant->axes, 0, sizeof variant->axes);
    for (int kind = 0; kind < LAYER_KIND_COUNT; kind++)
        variant->layer_of_kind[kind] = -1;
    variant->layer_of_kind[l->kind] = layer;
    variant->rule_layer = l->index_in_module;
    return variant;
}

static void make_variants(struct arena *arena, struct price_table *table) {
    const struct model *model = table->scenario->model;
    const struct rule_list *rules = cost_model_rules(table->scenario->cost_model);
    uint64_t *named = arena_array(arena, uint64_t, model->layer_count);
    int64_t *block = arena_array(arena, int64_t, model->layer_count); /* of each variant */
    bool any = false;
    for (int64_t i = 0; i < model->layer_count; i++) {
        const struct layer *l = &model->layers[i];
        named[i] = layer_kind_is_block(l->kind)
                       ? rules_of_layer(rules, l->module_index, l->index_in_module)
                       : 0;
        any = any || named[i] != 0;
    }
    if (!any) return;
    table->of_layer = arena_array(arena, struct price_table *, model->layer_count);
    struct price_table **variants = arena_array(arena, struct price_table *, model->layer_count);
    int64_t count = 0;
    for (int64_t i = 0; i < model->layer_count; i++) {
        if (named[i] == 0) continue;
        int64_t v = 0;
        while (v < count && (named[block[v]] != named[i] ||
                             model->layers[block[v]].kind != model->layers[i].kind))
            v++;
        if (v == count) {
            block[count] = i;
            variants[count++] = make_variant(arena, table, i);
        }
        table->of_layer[i] = variants[v];
    }
    table->variants = variants;
    table->variant_count = count;
}

const struct price_table *price_table_of_layer(const struct price_table *table,
                                               int64_t layer_index) {
    if (table->of_layer == NULL || table->of_layer[layer_index] == NULL) return table;
    return table->of_layer[layer_index];
}

int64_t price_table_variant_count(const struct price_table *table) {
    return table->variant_count;
}

struct rule_place price_table_place(const struct price_table *table, enum layer_kind kind) {
    int64_t layer = table->layer_of_kind[kind];
    return (struct rule_place){ table->scenario->model->layers[layer].module_index,
                                table->rule_layer };
}

static bool same_group(const struct communicator *a, const struct communicator *b) {
    return a->rank_count == b->rank_count && a->node_count == b->node_count &&
           a->ranks_per_node == b->ranks_per_node && a->groups_per_node == b->groups_per_node;
}

/* Most stages send over links that look alike. */
static void find_links(struct arena *arena, struct price_table *table) {
    const struct layout *layout = &table->scenario->layout;
    table->links = arena_array(arena, struct communicator, layout->pp);
    table->link_of_stage = arena_array(arena, int64_t, layout->pp);
    for (int64_t stage = 0; stage < layout->pp && layout->pp > 1; stage++) {
        struct communicator link = layout_stage_link(layout, stage); /* the last one wraps around */
        int64_t i = 0;
        while (i < table->link_count && !same_group(&table->links[i], &link))
            i++;
        if (i == table->link_count) table->links[table->link_count++] = link;
        table->link_of_stage[stage] = i;
    }
}

struct price_table *price_table_create(struct arena *arena, const struct scenario *scenario) {
    struct price_table *table = arena_new(arena, struct price_table);
    table->rule_layer = RULE_ANY;
    const struct layout *layout = &scenario->layout;
    const struct model *model = scenario->model;
    table->scenario = scenario;
    for (int kind = 0; kind < COMMUNICATOR_KIND_COUNT; kind++)
        table->groups[kind] = layout_communicator(layout, (enum communicator_kind)kind);
    find_links(arena, table);
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
        /* The definition is linear in tokens and in the sum of squares. */
        struct batch_shape none = { 0 }, square = { 0 }, cross = { 0 };
        square.vision_square_sum = square.language_square_sum = square.video_square_sum = 1e6;
        cross.cross_square_sum = 1e6;
        double alone = model_layer_flop(model, i, &none);
        table->flop_per_square[kind] = (model_layer_flop(model, i, &square) - alone) / 1e6;
        table->flop_per_cross[kind] = (model_layer_flop(model, i, &cross) - alone) / 1e6;
    }
    make_variants(arena, table);
    return table;
}

struct price_table *price_table_borrow(struct arena *arena, const struct scenario *scenario,
                                       const struct price_table *base) {
    ballast_check(base->base == NULL);
    if (base->variant_count > 0) return price_table_create(arena, scenario);
    struct price_table *table = arena_new(arena, struct price_table);
    *table = *base;
    table->base = base;
    table->scenario = scenario;
    memset(table->axes, 0, sizeof table->axes);
    table->link_count = 0;
    find_links(arena, table);
    /* The same links, in the order in which the base has priced them. */
    ballast_check(table->link_count == base->link_count);
    for (int64_t i = 0; i < table->link_count; i++)
        ballast_check(same_group(&table->links[i], &base->links[i]));
    return table;
}

static const char *group_text(struct arena *arena, const struct communicator *g) {
    return arena_format(arena, "%ld/%ld/%ld/%ld", (long)g->rank_count, (long)g->node_count,
                        (long)g->ranks_per_node, (long)g->groups_per_node);
}

/* A section without the fields that never change the price of a layer; new fields are taken to. */
static const char *section_text(struct arena *arena, const struct field_table *table,
                                const void *fields, const char *const *without) {
    cJSON *object = field_table_write(table, fields);
    for (; *without != NULL; without++)
        cJSON_DeleteItemFromObjectCaseSensitive(object, *without);
    char *text = cJSON_PrintUnformatted(object);
    const char *kept = arena_text(arena, text);
    cJSON_free(text);
    cJSON_Delete(object);
    return kept;
}

const char *price_table_key(struct arena *arena, const struct scenario *scenario) {
    struct price_table probe = { .scenario = scenario };
    find_links(arena, &probe);
    const struct model *model = scenario->model;
    struct tensor_split split = scenario_split(scenario);
    struct communicator tensor = layout_communicator(&scenario->layout, COMMUNICATOR_TENSOR),
                        context = layout_communicator(&scenario->layout, COMMUNICATOR_CONTEXT);
    const char *key =
        arena_format(arena, "%p %p %ld %d %ld %d %d %u %s %s", (const void *)model->layers,
                     (const void *)scenario->cost_model, (long)split.tp, split.sequence_parallel,
                     (long)split.cp, (int)split.attention, (int)split.context, split.keeps,
                     group_text(arena, &tensor), group_text(arena, &context));
    for (int role = 0; role < MODULE_ROLE_COUNT; role++)
        key = arena_format(arena, "%s %d%d", key, model->modules[role].frozen,
                           (int)model->modules[role].precision);
    static const char *const placement[] = { "backend",
                                             "pp",
                                             "vpp",
                                             "dp",
                                             "zero_stage",
                                             "zero_group",
                                             "overlap_gradient_reduce",
                                             "overlap_parameter_gather",
                                             NULL };
    static const char *const amounts[] = { "global_batch", "micro_batch", "epochs", "optimizer",
                                           NULL };
    key = arena_format(
        arena, "%s %d %.17g %.17g %s %s", key, (int)split.recompute_style,
        scenario->backend->host_forward_s,
        scenario->backend->host_backward_s,
        section_text(arena, &scenario_layout_table, &scenario->layout_fields, placement),
        section_text(arena, &scenario_training_table, &scenario->training_fields, amounts));
    for (int64_t i = 0; i < probe.link_count; i++)
        key = arena_format(arena, "%s %s", key, group_text(arena, &probe.links[i]));
    return key;
}

static void free_kind(struct kind_prices *prices) {
    for (int set = 0; set < SET_COUNT; set++)
        free(prices->lists[set].operators);
    for (int how = 0; how < RECOMPUTE_KIND_COUNT; how++)
        free(prices->again[how].operators);
    free(prices->send_ns);
}

static void free_slot(struct slot *slot) {
    for (int kind = 0; kind < LAYER_KIND_COUNT; kind++)
        free_kind(&slot->kinds[kind]);
    for (int64_t i = 0; i < slot->paired_count; i++)
        for (int k = 0; k < PAIRED_KIND_LIMIT; k++)
            free_kind(&slot->paired[i].kinds[k]);
    free(slot->paired);
    free(slot->paired_tokens);
}

void price_table_destroy(struct price_table *table) {
    if (table == NULL) return;
    for (int64_t v = 0; v < table->variant_count; v++)
        price_table_destroy(table->variants[v]);
    if (table->base == NULL) free(table->memo);
    for (int a = 0; a < TOKEN_AXIS_COUNT; a++) {
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
 * collective is cut into n pieces of its rows, so that one piece computes while another travels. The
 * gather in front of it passes the tp shards around a ring; the scatter behind it goes in four
 * pieces, and its kernels hold some multiprocessors. With G the pieces together, C the collective:
 *
 *     gather   exposed = max(C - G (n - 1) / n, 0)                       n = tp
 *     scatter  exposed = C / n + max((C - G) (n - 1) / n, 0)             n = 4
 *              G grows by 16 of the multiprocessors while the hidden part runs
 *
 * The framework is taken to leave alone what this would slow down. Source of n and of 16: NeMo's
 * user-buffer configurations for H100 (ring exchange; pipeline with num_splits 4, num_sm 16). */
enum { OVERLAP_SCATTER_PIECES = 4, OVERLAP_SM_COUNT = 16 };

static int64_t pieces_ns(const struct price_table *table, const struct operator_work *matmul,
                         const struct rule_place *place, int64_t pieces) {
    struct operator_work piece =
        operator_matmul(matmul->name, matmul->pass, matmul->precision,
                        (matmul->m + pieces - 1) / pieces, matmul->n, matmul->k);
    return pieces * ns_from_seconds(cost_model_price_at(table->scenario->cost_model, &piece,
                                                        &table->groups[COMMUNICATOR_NONE], place)
                                        .seconds);
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
    if (together_ns + wire_ns - hidden_ns >= compute->ns + wire_ns) return;
    compute->ns = together_ns;
    collective->ns = wire_ns - hidden_ns;
}

static void overlap_tensor_parallel(const struct price_table *table,
                                    const struct operator_list *list,
                                    const struct rule_place *place,
                                    struct operator_time *operators) {
    for (int64_t i = 0; i < list->count; i++) {
        const struct operator_work *work = &list->operators[i];
        if (work->communicator != COMMUNICATOR_TENSOR || operators[i].stream != STREAM_EXPOSED)
            continue;
        const bool gather = work->kind == OPERATOR_ALL_GATHER;
        const int64_t beside = gather ? i + 1 : i - 1;
        if (!gather && work->kind != OPERATOR_REDUCE_SCATTER) continue;
        if (beside < 0 || beside >= list->count || list->operators[beside].kind != OPERATOR_MATMUL)
            continue;
        overlap(table, &list->operators[beside], place, gather, &operators[beside], &operators[i]);
    }
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
            out->ring_ns = ns_from_seconds(price.seconds);
            out->ring_run = out->run_count; /* the next one */
            continue;
        }
        timed->ns = ns_from_seconds(price.seconds);
        out->band_ns += (double)timed->ns * price.band_fraction;
        if (!price.inside_range) out->outside_ns += (double)timed->ns;
    }
    ballast_check(out->ring_run == NO_RUN || out->ring_run < out->run_count);
    if (s->layout_fields.tp_overlap) overlap_tensor_parallel(table, &list, &place, out->operators);
    for (int64_t i = 0; i < list.count; i++)
        if (out->operators[i].stream == STREAM_COMPUTE) compute_ns += out->operators[i].ns;
    out->fixed_ns = list_makespan_ns(out->operators, out->count);
    out->comm_ns = out->fixed_ns - compute_ns;
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
        if (list->operators[i].kind == OPERATOR_MATMUL) flop += list->operators[i].flop;
    return flop;
}

/* A stack that runs less again than the whole forward. */
static void price_again(const struct price_table *table, enum layer_kind kind,
                        const struct batch_shape *shape, struct kind_prices *out) {
    const struct model *model = table->scenario->model;
    const int64_t layer = table->layer_of_kind[kind];
    if (table->split.recompute_style == RECOMPUTE_WHOLE || !layer_can_recompute(model, layer))
        return;
    struct operator_list whole = { 0 };
    layer_operators(model, layer, shape, &table->split, PASS_SET_FORWARD, table->need[kind],
                    &whole);
    for (int how = 0; how < RECOMPUTE_KIND_COUNT; how++) {
        if (how == RECOMPUTE_SELECTIVE && table->split.recompute_style != RECOMPUTE_OPERATORS)
            continue;
        struct operator_list list = { 0 };
        layer_recompute_operators(model, layer, shape, &table->split, (enum recompute_kind)how,
                                  table->need[kind], &list);
        out->again_flop_fraction[how] =
            whole.count > 0 ? matmul_flop(&list) / matmul_flop(&whole) : 0;
        price_list(table, kind, list, &out->again[how]);
    }
    operator_list_free(&whole);
}

static struct operator_work send_work(const struct price_table *table, enum layer_kind kind,
                                      const struct batch_shape *shape) {
    return operator_collective("pipeline send", OPERATOR_SEND, PASS_FORWARD, COMMUNICATOR_PIPELINE,
                               rank_output_bytes(table, kind, shape));
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
    struct operator_work send = send_work(table, kind, shape);
    for (int64_t link = 0; link < table->link_count; link++) {
        struct price price =
            cost_model_price(table->scenario->cost_model, &send, &table->links[link]);
        out->send_ns[link] = ns_from_seconds(price.seconds);
    }
}

static void price_slot(struct price_table *table, int axis, const struct batch_shape *shape,
                       struct slot *slot) {
    memset(slot, 0, sizeof *slot);
    for (int k = 0; k < LAYER_KIND_COUNT; k++) {
        enum layer_kind kind = (enum layer_kind)k;
        if (table->layer_of_kind[k] < 0 || (int)layer_kind_axis(kind) != axis) continue;
        if (paired_index(kind) < 0) price_kind(table, kind, shape, &slot->kinds[k]);
    }
}

/* NULL: not priced. A slot has few: as many as micro-batches of one length differ in the others. */
static const struct paired_prices *find_paired(const struct slot *slot, int64_t tokens) {
    for (int64_t i = 0; i < slot->paired_count; i++)
        if (slot->paired_tokens[i] == tokens) return &slot->paired[i];
    return NULL;
}

static void prepare_paired(struct price_table *table, int axis, struct slot *slot,
                           const struct batch_shape *shape) {
    int64_t tokens = other_tokens(table, axis, shape);
    if (find_paired(slot, tokens) != NULL) return;
    if (slot->paired_count == slot->paired_capacity) {
        slot->paired_capacity = slot->paired_capacity > 0 ? 2 * slot->paired_capacity : 2;
        slot->paired =
            memory_realloc(slot->paired, sizeof *slot->paired * (size_t)slot->paired_capacity);
        slot->paired_tokens = memory_realloc(
            slot->paired_tokens, sizeof *slot->paired_tokens * (size_t)slot->paired_capacity);
    }
    slot->paired_tokens[slot->paired_count] = tokens;
    struct paired_prices *paired = &slot->paired[slot->paired_count++];
    *paired = (struct paired_prices){ 0 };
    for (int k = 0; k < LAYER_KIND_COUNT; k++) {
        enum layer_kind kind = (enum layer_kind)k;
        if (table->layer_of_kind[k] < 0 || (int)layer_kind_axis(kind) != axis) continue;
        if (paired_index(kind) >= 0)
            price_kind(table, kind, shape, &paired->kinds[paired_index(kind)]);
    }
}

/* NULL: not priced, or not with so many tokens of the other axis. `pairs`: that matters. */
static const struct slot *priced_slot(const struct price_table *table, int a, bool pairs,
                                      const struct batch_shape *shape) {
    const struct axis *axis = &table->axes[a];
    int64_t tokens = batch_shape_tokens(shape, (enum token_axis)a);
    if (tokens >= axis->tokens_capacity || axis->slot_of_tokens[tokens] == NO_SLOT) return NULL;
    const struct slot *slot = &axis->slots[axis->slot_of_tokens[tokens]];
    return pairs && find_paired(slot, other_tokens(table, a, shape)) == NULL ? NULL : slot;
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

static void prepare_axis(struct price_table *table, int a, bool pairs,
                         const struct batch_shape *shape) {
    struct axis *axis = &table->axes[a];
    int64_t tokens = batch_shape_tokens(shape, (enum token_axis)a);
    assert(tokens >= 0);
    if (table->base != NULL && tokens > 0 && priced_slot(table->base, a, pairs, shape) != NULL)
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
    if (pairs) prepare_paired(table, a, &axis->slots[axis->slot_of_tokens[tokens]], shape);
}

void price_table_prepare(struct price_table *table, const struct batch_shape *shapes,
                         int64_t count) {
    bool pairs[TOKEN_AXIS_COUNT];
    for (int a = 0; a < TOKEN_AXIS_COUNT; a++)
        pairs[a] = axis_has_pairs(table, a);
    for (int64_t i = 0; i < count; i++)
        for (int a = 0; a < TOKEN_AXIS_COUNT; a++)
            prepare_axis(table, a, pairs[a], &shapes[i]);
    for (int64_t v = 0; v < table->variant_count; v++)
        price_table_prepare(table->variants[v], shapes, count);
}

/* ---- reading ---- */

/* As prices_of(), in this table alone; NULL: not priced there. */
static const struct kind_prices *own_prices(const struct price_table *table, enum layer_kind kind,
                                            const struct batch_shape *shape) {
    const int a = (int)layer_kind_axis(kind), pair = paired_index(kind);
    const struct slot *slot = priced_slot(table, a, false, shape);
    if (slot == NULL || pair < 0) return slot == NULL ? NULL : &slot->kinds[kind];
    const struct paired_prices *paired = find_paired(slot, other_tokens(table, a, shape));
    return paired == NULL ? NULL : &paired->kinds[pair];
}

/* NULL when the model has no such layer or the micro-batch nothing for it (no vision tokens). */
static const struct kind_prices *prices_of(const struct price_table *table, enum layer_kind kind,
                                           const struct batch_shape *shape) {
    if (table->layer_of_kind[kind] < 0) return NULL;
    if (batch_shape_tokens(shape, layer_kind_axis(kind)) == 0) return NULL;
    const struct kind_prices *prices =
        table->base != NULL ? own_prices(table->base, kind, shape) : NULL;
    if (prices == NULL) prices = own_prices(table, kind, shape);
    ballast_check(prices != NULL);
    return prices;
}

/* The core attention of one micro-batch, run after run; returns the count. */
static int64_t attention_works(const struct price_table *table, enum layer_kind kind,
                               enum pass_set set, const struct batch_shape *shape,
                               struct operator_work works[ATTENTION_OPERATOR_LIMIT]) {
    struct operator_list list = { works, 0, ATTENTION_OPERATOR_LIMIT };
    layer_attention_operators(table->scenario->model, table->layer_of_kind[kind], shape,
                              &table->split, set, table->need[kind], &list);
    ballast_check(list.operators == works); /* did not grow */
    return list.count;
}

static struct price attention_price(const struct price_table *table, enum layer_kind kind,
                                    const struct operator_work *work) {
    const struct rule_place place = price_table_place(table, kind);
    return cost_model_price_at(table->scenario->cost_model, work, &table->groups[COMMUNICATOR_NONE],
                               &place);
}

static int64_t run_ns(const struct price_table *table, enum layer_kind kind,
                      const struct operator_work *works, int64_t count) {
    int64_t ns = 0;
    for (int64_t i = 0; i < count; i++)
        ns += ns_from_seconds(attention_price(table, kind, &works[i]).seconds);
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

static void list_time(const struct price_table *table, const struct priced_list *list,
                      enum layer_kind kind, enum pass_set set, const struct batch_shape *shape,
                      int64_t *ns, int64_t *comm_ns) {
    *ns = list->fixed_ns;
    *comm_ns = list->comm_ns;
    if (list->run_count == 0) return;
    struct operator_work works[ATTENTION_OPERATOR_LIMIT], *next = works;
    attention_works(table, kind, set, shape, works);
    for (int64_t run = 0; run < list->run_count; run++) {
        int64_t attention = run_ns(table, kind, next, list->runs[run].count);
        int64_t exposed = run == list->ring_run ? exposed_ring_ns(table, list, attention) : 0;
        *ns += attention + exposed;
        *comm_ns += exposed;
        next += list->runs[run].count;
    }
}

static bool has_unfused_attention(const struct price_table *table, enum layer_kind kind) {
    return table->split.attention == ATTENTION_NAIVE && layer_kind_is_block(kind);
}

/* What the host needs to launch one pass of a transformer block: none is faster. */
static int64_t host_ns(const struct price_table *table, enum layer_kind kind, enum pass_set set) {
    const struct backend *b = table->scenario->backend;
    if (!layer_kind_is_block(kind)) return 0;
    return ns_from_seconds(set == PASS_SET_FORWARD ? b->host_forward_s : b->host_backward_s);
}

static int64_t at_least(int64_t ns, int64_t floor_ns) {
    return ns > 0 && ns < floor_ns ? floor_ns : ns;
}

void price_table_layer(const struct price_table *table, enum layer_kind kind,
                       const struct batch_shape *shape, struct layer_time *time) {
    if (table->memo != NULL && shape >= table->memo_shapes &&
        shape < table->memo_shapes + table->memo_count) {
        *time = table->memo[shape - table->memo_shapes][kind];
        return;
    }
    *time = (struct layer_time){ 0 };
    const struct kind_prices *prices = prices_of(table, kind, shape);
    if (prices == NULL) return;
    const struct priced_list *forward = &prices->lists[PASS_SET_FORWARD],
                             *backward = &prices->lists[PASS_SET_BACKWARD];
    list_time(table, forward, kind, PASS_SET_FORWARD, shape, &time->forward_ns,
              &time->forward_comm_ns);
    list_time(table, backward, kind, PASS_SET_BACKWARD, shape, &time->backward_ns,
              &time->backward_comm_ns);
    time->forward_ns = at_least(time->forward_ns, host_ns(table, kind, PASS_SET_FORWARD));
    time->backward_ns = at_least(time->backward_ns, host_ns(table, kind, PASS_SET_BACKWARD));
    if (time->backward_ns == 0) return;
    time->recompute_ns[RECOMPUTE_FULL] = time->forward_ns;
    time->recompute_comm_ns[RECOMPUTE_FULL] = time->forward_comm_ns;
    for (int how = 0; how < RECOMPUTE_KIND_COUNT; how++)
        if (prices->again[how].count > 0) {
            list_time(table, &prices->again[how], kind, PASS_SET_FORWARD, shape,
                      &time->recompute_ns[how], &time->recompute_comm_ns[how]);
            time->recompute_ns[how] =
                at_least(time->recompute_ns[how], host_ns(table, kind, PASS_SET_FORWARD));
        }
    if (!has_unfused_attention(table, kind) || prices->again[RECOMPUTE_SELECTIVE].count > 0)
        return;
    struct operator_work works[ATTENTION_OPERATOR_LIMIT];
    int64_t count = attention_works(table, kind, PASS_SET_FORWARD, shape, works);
    time->recompute_ns[RECOMPUTE_SELECTIVE] = run_ns(table, kind, works, count);
}

/* Puts operators of attention at *out; returns the count. Beside a ring a run is stated as two: what
 * runs while keys and values travel, and the step after that. The ring stands before *out. */
static int64_t ring_operators(const struct price_table *table, enum layer_kind kind,
                              const struct priced_list *list, const struct operator_work *works,
                              int64_t count, struct operator_time *out) {
    int64_t attention = run_ns(table, kind, works, count);
    int64_t beside = beside_ring_ns(table, attention);
    out[-1] = (struct operator_time){ list->ring_ns, STREAM_HIDDEN };
    out[0] = (struct operator_time){ beside, STREAM_COMPUTE };
    out[1] = (struct operator_time){ attention - beside, STREAM_COMPUTE };
    return 2;
}

static int64_t attention_operators(const struct price_table *table, enum layer_kind kind,
                                   const struct operator_work *works, int64_t count,
                                   struct operator_time *out) {
    for (int64_t i = 0; i < count; i++)
        out[i] = (struct operator_time){
            ns_from_seconds(attention_price(table, kind, &works[i]).seconds), STREAM_COMPUTE
        };
    return count;
}

void price_table_keep_sums(struct price_table *table) {
    table->sums_only = true;
}

void price_table_memorise(struct price_table *table, const struct batch_shape *shapes,
                          int64_t count) {
    ballast_check(table->memo == NULL && table->base == NULL);
    struct layer_time(*memo)[LAYER_KIND_COUNT] =
        memory_alloc(sizeof *memo * (size_t)(count > 0 ? count : 1));
    for (int64_t i = 0; i < count; i++)
        for (int kind = 0; kind < LAYER_KIND_COUNT; kind++)
            price_table_layer(table, (enum layer_kind)kind, &shapes[i], &memo[i][kind]);
    table->memo = memo;
    table->memo_shapes = shapes;
    table->memo_count = count;
}

static int64_t list_operators(const struct price_table *table, const struct priced_list *list,
                              enum layer_kind kind, const struct batch_shape *shape,
                              enum pass_set set, struct operator_time *out) {
    struct operator_work works[ATTENTION_OPERATOR_LIMIT], *attention = works;
    if (list->run_count > 0) attention_works(table, kind, set, shape, works);
    int64_t count = 0, next = 0;
    for (int64_t r = 0; r < list->run_count; r++) {
        const struct attention_run *run = &list->runs[r];
        for (; next < run->index; next++)
            out[count++] = list->operators[next];
        count += r == list->ring_run
                     ? ring_operators(table, kind, list, attention, run->count, &out[count])
                     : attention_operators(table, kind, attention, run->count, &out[count]);
        attention += run->count;
        next += run->count;
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

int64_t price_table_operators(const struct price_table *table, enum layer_kind kind,
                              const struct batch_shape *shape, enum pass_set set,
                              struct operator_time *out) {
    ballast_check(!table->sums_only);
    const struct kind_prices *prices = prices_of(table, kind, shape);
    return prices != NULL ? list_operators(table, &prices->lists[set], kind, shape, set, out) : 0;
}

int64_t price_table_recompute_operators(const struct price_table *table, enum layer_kind kind,
                                        const struct batch_shape *shape, enum recompute_kind how,
                                        struct operator_time *out) {
    const struct kind_prices *prices = prices_of(table, kind, shape);
    if (prices != NULL && prices->again[how].count > 0)
        return list_operators(table, &prices->again[how], kind, shape, PASS_SET_FORWARD, out);
    if (how == RECOMPUTE_FULL)
        return price_table_operators(table, kind, shape, PASS_SET_FORWARD, out);
    if (how == RECOMPUTE_NONE || !has_unfused_attention(table, kind) || prices == NULL) return 0;
    struct operator_work works[ATTENTION_OPERATOR_LIMIT];
    int64_t count = attention_works(table, kind, PASS_SET_FORWARD, shape, works);
    return attention_operators(table, kind, works, count, out);
}

int64_t price_table_send_ns(const struct price_table *table, int64_t stage, enum layer_kind kind,
                            const struct batch_shape *shape) {
    const struct kind_prices *prices = prices_of(table, kind, shape);
    return prices == NULL ? 0 : prices->send_ns[table->link_of_stage[stage]];
}

struct price price_table_send_price(const struct price_table *table, int64_t stage,
                                    enum layer_kind kind, const struct batch_shape *shape,
                                    struct operator_work *work, struct communicator *pair) {
    *pair = table->links[table->link_of_stage[stage]];
    *work = send_work(table, kind, shape);
    if (prices_of(table, kind, shape) == NULL) return (struct price){ .source = "" };
    return cost_model_price(table->scenario->cost_model, work, pair);
}

int64_t price_table_host_wait_ns(const struct price_table *table, enum layer_kind kind,
                                 const struct batch_shape *shape, enum pass_set set) {
    const struct kind_prices *prices = prices_of(table, kind, shape);
    if (prices == NULL) return 0;
    int64_t ns, comm_ns;
    list_time(table, &prices->lists[set], kind, set, shape, &ns, &comm_ns);
    return at_least(ns, host_ns(table, kind, set)) - ns;
}

/* Scores of unfused attention follow the squares of lengths, all else the token count. */
double price_table_saved_bytes(const struct price_table *table, enum layer_kind kind,
                               const struct batch_shape *shape, enum recompute_kind how) {
    const struct kind_prices *prices = prices_of(table, kind, shape);
    if (prices == NULL) return 0;
    double bytes = has_unfused_attention(table, kind)
                       ? layer_saved_bytes(table->scenario->model, table->layer_of_kind[kind],
                                           shape, &table->split, how)
                       : prices->saved_bytes[how];
    /* A block that recomputes keeps its input, however it is written. */
    bool block = kind == LAYER_VISION_BLOCK || kind == LAYER_LANGUAGE_BLOCK;
    return block && how != RECOMPUTE_FULL ? bytes * table->scenario->backend->kept_activations
                                          : bytes;
}

/* What a stack's loss holds beyond the 10 bytes a logit of layer_memory.c. */
static double loss_bytes(const struct price_table *table, enum layer_kind kind,
                         const struct batch_shape *shape) {
    double held = table->scenario->backend->logit_bytes;
    if (kind != LAYER_HEAD || isnan(held)) return 0;
    double vocabulary = (double)table->scenario->model->modules[MODULE_LANGUAGE].vocabulary;
    return (held - 10) * (double)shape->language_tokens / (double)table->split.cp * vocabulary /
           (double)table->split.tp;
}

double price_table_workspace_bytes(const struct price_table *table, enum layer_kind kind,
                                   const struct batch_shape *shape) {
    const struct kind_prices *prices = prices_of(table, kind, shape);
    if (prices == NULL) return 0;
    if (!has_unfused_attention(table, kind))
        return fmax(prices->workspace_bytes + loss_bytes(table, kind, shape), 0);
    return layer_workspace_bytes(table->scenario->model, table->layer_of_kind[kind], shape,
                                 &table->split);
}

static double attention_flop(const struct price_table *table, enum layer_kind kind,
                             const struct batch_shape *shape) {
    return table->flop_per_square[kind] * batch_shape_squares(shape, layer_kind_axis(kind)) +
           table->flop_per_cross[kind] * shape->cross_square_sum;
}

double price_table_flop(const struct price_table *table, enum layer_kind kind,
                        const struct batch_shape *shape) {
    const struct kind_prices *prices = prices_of(table, kind, shape);
    return prices == NULL ? 0 : prices->flop_fixed + attention_flop(table, kind, shape);
}

double price_table_recompute_flop(const struct price_table *table, enum layer_kind kind,
                                  const struct batch_shape *shape, enum recompute_kind how) {
    const struct kind_prices *prices = prices_of(table, kind, shape);
    if (prices != NULL && prices->again[how].count > 0)
        return prices->again_flop_fraction[how] * prices->flop_fixed +
               (how == RECOMPUTE_FULL ? attention_flop(table, kind, shape) : 0);
    if (how == RECOMPUTE_FULL) return price_table_flop(table, kind, shape);
    if (how == RECOMPUTE_NONE || !has_unfused_attention(table, kind)) return 0;
    return attention_flop(table, kind, shape);
}

double price_table_training_flop(const struct price_table *table, enum layer_kind kind,
                                 const struct batch_shape *shape) {
    const struct kind_prices *prices = prices_of(table, kind, shape);
    if (prices == NULL) return 0;
    struct gradient_need need = table->need[kind];
    double matmul_passes = 1 + need.input + need.weight;
    double attention_passes = need.input || need.weight ? 3 : 1;
    return matmul_passes * prices->flop_fixed +
           attention_passes * attention_flop(table, kind, shape);
}

/* Sums over one pass of a layer: time, time x band, time outside the measured range. */
struct band_sums {
    double ns, band_ns, outside_ns;
};

static void add_band(const struct price_table *table, enum layer_kind kind, enum pass_set set,
                     const struct priced_list *list, const struct batch_shape *shape, double layers,
                     struct band_sums *sums) {
    sums->ns += layers * (double)list->fixed_ns;
    sums->band_ns += layers * list->band_ns;
    sums->outside_ns += layers * list->outside_ns;
    struct operator_work works[ATTENTION_OPERATOR_LIMIT];
    int64_t count = list->run_count > 0 ? attention_works(table, kind, set, shape, works) : 0;
    for (int64_t i = 0; i < count; i++) {
        struct price p = attention_price(table, kind, &works[i]);
        sums->ns += layers * p.seconds * NS_PER_S;
        sums->band_ns += layers * p.seconds * NS_PER_S * p.band_fraction;
        if (!p.inside_range) sums->outside_ns += layers * p.seconds * NS_PER_S;
    }
}

double price_table_band(const struct price_table *table, const struct batch_shape *shape,
                        const int64_t layers_by_kind[LAYER_KIND_COUNT], double *outside_fraction) {
    struct band_sums sums = { 0 };
    for (int k = 0; k < LAYER_KIND_COUNT; k++) {
        enum layer_kind kind = (enum layer_kind)k;
        const struct kind_prices *prices =
            layers_by_kind[k] > 0 ? prices_of(table, kind, shape) : NULL;
        for (int set = 0; prices != NULL && set < SET_COUNT; set++)
            add_band(table, kind, (enum pass_set)set, &prices->lists[set], shape,
                     (double)layers_by_kind[k], &sums);
    }
    /* Collectives that are hidden are no part of the time. */
    *outside_fraction = sums.ns > 0 ? fmin(sums.outside_ns / sums.ns, 1) : 0;
    return sums.ns > 0 ? sums.band_ns / sums.ns : 0;
}
