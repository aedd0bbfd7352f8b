/* price_table.c - creation of a price table, of tables for blocks that rules name, and of its
 * key. */
#include "sim/step/price_slot.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>
#include "sim/scenario/scenario_fields.h"

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
    variant->whole = table;
    return variant;
}

static bool priced_alike(const struct rule_list *rules, const struct layer *a,
                         const struct layer *b) {
    return a->kind == b->kind && a->module_index == b->module_index &&
           !rules_tell_apart(rules, a->module_index, a->index_in_module, b->index_in_module);
}

static void make_variants(struct arena *arena, struct price_table *table) {
    const struct model *model = table->scenario->model;
    const struct rule_list *rules = cost_model_rules(table->scenario->cost_model);
    bool *named = arena_array(arena, bool, model->layer_count);
    int64_t *block = arena_array(arena, int64_t, model->layer_count); /* of each variant */
    bool any = false;
    for (int64_t i = 0; i < model->layer_count; i++) {
        const struct layer *l = &model->layers[i];
        named[i] = layer_kind_is_block(l->kind) &&
                   rules_name_layer(rules, l->module_index, l->index_in_module);
        any = any || named[i];
    }
    if (!any) return;
    table->of_layer = arena_array(arena, struct price_table *, model->layer_count);
    struct price_table **variants = arena_array(arena, struct price_table *, model->layer_count);
    int64_t count = 0;
    for (int64_t i = 0; i < model->layer_count; i++) {
        if (!named[i]) continue;
        int64_t v = 0;
        while (v < count && !priced_alike(rules, &model->layers[block[v]], &model->layers[i]))
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

const struct rank_parameters *price_table_parameters(const struct price_table *table,
                                                     enum layer_kind kind) {
    return &table->parameters[kind];
}

struct gradient_need price_table_need(const struct price_table *table, enum layer_kind kind) {
    return table->need[kind];
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

/* Layers of a kind are those of one module, and need alike: needs only grow from below upwards, so
 * where the first and the last agree all between them do. */
static void check_kinds(const struct price_table *table) {
    const struct model *model = table->scenario->model;
    int64_t last[LAYER_KIND_COUNT] = { 0 };
    for (int64_t i = 0; i < model->layer_count; i++) {
        const enum layer_kind kind = model->layers[i].kind;
        ballast_check(model->layers[table->layer_of_kind[kind]].module_index ==
                      model->layers[i].module_index);
        last[kind] = i;
    }
    for (int kind = 0; kind < LAYER_KIND_COUNT; kind++) {
        if (table->layer_of_kind[kind] < 0) continue;
        const struct gradient_need need = model_gradient_need(model, last[kind]);
        ballast_check(need.input == table->need[kind].input &&
                      need.weight == table->need[kind].weight);
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
        if (table->layer_of_kind[kind] >= 0) continue;
        table->layer_of_kind[kind] = i;
        table->need[kind] = model_gradient_need(model, i);
        table->parameters[kind] = (struct rank_parameters){
            .own = layer_rank_parameters(model, i, layout->tp),
            .tied = layer_rank_tied_parameters(model, i, layout->tp),
            .adapters = layer_rank_adapter_parameters(model, i, layout->tp),
        };
        /* The definition is linear in tokens and in the sum of squares. */
        struct batch_shape none = { 0 }, square = { 0 }, cross = { 0 };
        square.vision_square_sum = square.language_square_sum = square.video_square_sum = 1e6;
        cross.cross_square_sum = 1e6;
        double alone = model_layer_flop(model, i, &none);
        table->flop_per_square[kind] = (model_layer_flop(model, i, &square) - alone) / 1e6;
        table->flop_per_cross[kind] = (model_layer_flop(model, i, &cross) - alone) / 1e6;
    }
    check_kinds(table);
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

bool price_slot_passes_apart(const struct scenario *scenario) {
    return scenario->backend->send_blocks_host && scenario->layout.pp > 1;
}

bool price_slot_launches_ahead(const struct scenario *scenario) {
    return !scenario->backend->blocking_launches && scenario->layout.pp == 1;
}

const char *price_table_key(struct arena *arena, const struct scenario *scenario) {
    struct price_table probe = { .scenario = scenario };
    find_links(arena, &probe);
    const struct model *model = scenario->model;
    struct tensor_split split = scenario_split(scenario);
    struct communicator tensor = layout_communicator(&scenario->layout, COMMUNICATOR_TENSOR),
                        context = layout_communicator(&scenario->layout, COMMUNICATOR_CONTEXT),
                        heads = layout_communicator(&scenario->layout, COMMUNICATOR_CONTEXT_HEADS),
                        ring = layout_communicator(&scenario->layout, COMMUNICATOR_CONTEXT_RING);
    const char *key = arena_format(
        arena, "%p %p %ld %d %ld %d%d %d %u %d%d%d%d%d %ld %d%d%d%d%d%d %s %s",
        (const void *)model->layers, (const void *)scenario->cost_model, (long)split.tp,
        split.sequence_parallel, (long)split.cp, (int)split.attention, split.block.unfused_encoder,
        (int)split.context, split.block.keeps, (int)split.block.tensor_traffic,
        (int)split.block.casts + 8 * split.block.casts_weights + 16 * split.weights_come_cast,
        (int)split.block.linear_gradients, split.adds_in_matmul, split.unpads_samples,
        (long)split.block.softmax_multiple,
        split.block.dropout_apart + 2 * split.block.remakes_activation,
        split.block.modulation_apart + 2 * split.block.branches_apart +
            4 * split.block.exchanges_adapters + 8 * split.block.casts_adapter_inputs,
        split.block.whole_logits + 2 * (int)split.block.chunked_head, split.block.odd_vocabulary,
        split.block.compiled + 2 * split.block.repeats_keys, scenario->backend->divides_sends,
        group_text(arena, &tensor), group_text(arena, &context));
    if (split.context_heads > 1)
        key = arena_format(arena, "%s %ld %s %s", key, (long)split.context_heads,
                           group_text(arena, &heads), group_text(arena, &ring));
    if (split.block.chunked_head != CHUNKED_HEAD_NO)
        key = arena_format(arena, "%s %ld %d %.17g %.17g", key, (long)split.block.chunk.tokens,
                           split.block.chunk.fp32 + 2 * split.block.chunk.autocasts,
                           split.block.chunk.cast_bytes, split.block.chunk.sum_bytes);
    for (int role = 0; role < MODULE_ROLE_COUNT; role++) {
        const struct module *m = &model->modules[role];
        key = arena_format(arena, "%s %d%d%d %ld %d%d %u %u %u", key, m->frozen, m->fp32_base,
                           (int)m->precision, (long)m->adapter_rank, (int)m->adapter_weights,
                           m->adapter_dropout, m->adapter_targets[ADAPTER_MAIN],
                           m->adapter_targets[ADAPTER_TEXT], m->adapter_targets[ADAPTER_SINGLE]);
    }
    key = arena_format(arena, "%s %d", key, model->input_gradients);
    static const char *const placement[] = { "backend",
                                             "pp",
                                             "vpp",
                                             "dp",
                                             "zero_stage",
                                             "zero_group",
                                             "overlap_gradient_reduce",
                                             "overlap_parameter_gather",
                                             NULL };
    static const char *const amounts[] = { "global_batch",
                                           "micro_batch",
                                           "epochs",
                                           "optimizer",
                                           "precision_aware_optimizer",
                                           "exp_avg_dtype",
                                           "exp_avg_sq_dtype",
                                           "main_grads_dtype",
                                           "reduce_dtype",
                                           NULL };
    key = arena_format(
        arena, "%s %d %d%d%d %.17g %.17g %.17g %.17g %.17g %.17g %.17g %.17g %s %s", key,
        (int)split.block.recompute_style, price_slot_passes_apart(scenario),
        price_slot_launches_ahead(scenario), scenario->backend->blocking_launches,
        scenario->backend->step.host_forward_s, scenario->backend->step.host_backward_s,
        scenario->backend->step.host_recompute_s, scenario->backend->step.host_frozen_s,
        scenario->backend->host_kernel_s, scenario->backend->step.kept_activations,
        scenario->backend->step.logit_bytes, scenario->backend->step.divided_logit_bytes,
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

static void free_axis(struct axis *axis) {
    for (int64_t i = 0; i < axis->slot_count; i++)
        for (int k = 0; k < SINGLE_KIND_LIMIT; k++)
            free_kind(&axis->slots[i].kinds[k]);
    for (int64_t i = 0; i < axis->pair_count; i++)
        for (int k = 0; k < PAIRED_KIND_LIMIT; k++)
            free_kind(&axis->pairs[i].kinds[k]);
    free(axis->slots);
    free(axis->marks);
    free(axis->pairs);
    free(axis->places);
    free(axis->slot_of_tokens);
}

void price_table_destroy(struct price_table *table) {
    if (table == NULL) return;
    for (int64_t v = 0; v < table->variant_count; v++)
        price_table_destroy(table->variants[v]);
    if (table->base == NULL) {
        free(table->memo);
        free(table->memo_entry);
    }
    for (int a = 0; a < TOKEN_AXIS_COUNT; a++)
        free_axis(&table->axes[a]);
}

void price_table_keep_sums(struct price_table *table) {
    table->sums_only = true;
}
