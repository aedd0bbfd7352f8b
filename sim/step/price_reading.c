/* price_reading.c - layer times, memory and work of a micro-batch, from the slots of its token
 * counts. */
#include "sim/step/price_slot.h"

#include <math.h>
#include <string.h>
#include "sim/base/units.h"
#include "sim/model/layer_adapters.h"

/* As prices_of(), in this table alone; NULL: not priced there. */
static const struct kind_prices *own_prices(const struct price_table *table, enum layer_kind kind,
                                            const struct batch_shape *shape) {
    const int a = (int)layer_kind_axis(kind), single = price_slot_single_index(kind);
    const struct axis *axis = &table->axes[a];
    const int64_t slot = price_slot_find(axis, batch_shape_tokens(shape, (enum token_axis)a));
    if (slot == NO_SLOT) return NULL;
    if (single >= 0) return &axis->slots[slot].kinds[single];
    const int64_t pair = price_slot_find_pair(axis, slot, price_slot_other_tokens(table, a, shape));
    return pair == NO_SLOT ? NULL : &axis->pairs[pair].kinds[price_slot_paired_index(kind)];
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

static void price_attention(const struct price_table *table, enum layer_kind kind,
                            const struct operator_work *works, int64_t count, int64_t *ns) {
    for (int64_t i = 0; i < count; i++)
        ns[i] = ns_from_price(attention_price(table, kind, &works[i]).seconds);
}

static void attention_times(const struct price_table *table, enum layer_kind kind,
                            enum pass_set set, const struct batch_shape *shape,
                            int64_t ns[ATTENTION_OPERATOR_LIMIT]) {
    struct operator_work works[ATTENTION_OPERATOR_LIMIT];
    const int64_t count = attention_works(table, kind, set, shape, works);
    price_attention(table, kind, works, count, ns);
}

/* Of attention, what runs while the ring does: all steps but the last; while a gather does, the
 * first. */
static int64_t beside_ring_ns(const struct price_table *table, const struct priced_list *list,
                              int64_t attention) {
    const int64_t step = attention / tensor_split_ring(&table->split);
    return list->gathers_alone ? step : attention - step;
}

static int64_t exposed_ring_ns(const struct price_table *table, const struct priced_list *list,
                               int64_t attention) {
    int64_t beside = beside_ring_ns(table, list, attention);
    return list->ring_ns > beside ? list->ring_ns - beside : 0;
}

/* `attention_ns`: its operators of core attention, in order. */
static void sum_list(const struct price_table *table, const struct priced_list *list,
                     const int64_t *attention_ns, int64_t *ns, int64_t *comm_ns,
                     int64_t *context_ns) {
    *ns = list->fixed_ns;
    *comm_ns = list->comm_ns;
    *context_ns = list->context_ns;
    for (int64_t run = 0; run < list->run_count; run++) {
        int64_t attention = 0;
        for (int64_t i = 0; i < list->runs[run].count; i++)
            attention += *attention_ns++;
        int64_t exposed = run == list->ring_run ? exposed_ring_ns(table, list, attention) : 0;
        *ns += attention + exposed;
        *comm_ns += exposed;
        *context_ns += exposed;
    }
}

static void list_time(const struct price_table *table, const struct priced_list *list,
                      enum layer_kind kind, enum pass_set set, const struct batch_shape *shape,
                      int64_t *ns, int64_t *comm_ns, int64_t *context_ns) {
    int64_t attention_ns[ATTENTION_OPERATOR_LIMIT] = { 0 };
    if (list->run_count > 0) attention_times(table, kind, set, shape, attention_ns);
    sum_list(table, list, attention_ns, ns, comm_ns, context_ns);
}

static bool has_unfused_attention(const struct price_table *table, enum layer_kind kind) {
    return layer_kind_is_block(kind) &&
           tensor_split_attention(&table->split, kind) == ATTENTION_NAIVE;
}

/* Selective recomputation runs its attention again. */
static bool repeats_attention(const struct price_table *table, enum layer_kind kind) {
    return has_unfused_attention(table, kind) ||
           (table->split.block.recompute_style == RECOMPUTE_CORE && layer_kind_is_block(kind));
}

static int64_t above_zero(int64_t ns) {
    return ns > 0 ? ns : 0;
}

/* ---- memory and work ---- */

/* Of a logit layer_memory.c keeps the fp32 softmax, 4 bytes, which a loss that holds less does not,
 * and works on 10 in all. */
#define SOFTMAX_BYTES 4
#define LOGIT_BYTES   10

/* Logits of a rank if the stack says how many bytes its loss holds of each, or of those of one chunk
 * (chunk_tokens); else 0. */
static double stated_logits(const struct price_table *table, enum layer_kind kind,
                            const struct batch_shape *shape, double *held) {
    const struct backend *backend = table->scenario->backend;
    const double stated =
        table->split.tp > 1 ? backend->step.divided_logit_bytes : backend->step.logit_bytes;
    *held = LOGIT_BYTES;
    if (kind != LAYER_HEAD || isnan(stated)) return 0;
    *held = stated;
    const struct module *language = &table->scenario->model->modules[MODULE_LANGUAGE];
    double vocabulary = (double)language->vocabulary;
    if (!table->split.block.whole_logits) vocabulary /= (double)table->split.tp;
    if (backend->block.chunked_head == CHUNKED_HEAD_REMADE || backend->block.chunk.tokens > 0) {
        const struct head_rows rows = layer_head_rows(
            table->scenario->model, table->layer_of_kind[kind], shape, &table->split);
        if (rows.all > rows.chunk) *held *= (double)rows.chunk / (double)rows.all;
    }
    return language->head_share * (double)shape->language_tokens / (double)table->split.cp *
           vocabulary;
}

int64_t price_table_head_chunks(const struct price_table *table, const struct batch_shape *shape) {
    const struct head_rows rows = layer_head_rows(
        table->scenario->model, table->layer_of_kind[LAYER_HEAD], shape, &table->split);
    return rows.chunk > 0 ? (rows.all + rows.chunk - 1) / rows.chunk : 0;
}

/* Scores of unfused attention follow the squares of lengths, all else the token count. */
static double saved_bytes(const struct price_table *table, enum layer_kind kind,
                          const struct batch_shape *shape, const struct kind_prices *prices,
                          enum recompute_kind how) {
    double bytes = has_unfused_attention(table, kind)
                       ? layer_saved_bytes(table->scenario->model, table->layer_of_kind[kind],
                                           shape, &table->split, how)
                       : prices->saved_bytes[how];
    double held;
    const double logits = stated_logits(table, kind, shape, &held);
    if (logits > 0) bytes = fmax(bytes - logits * fmax(SOFTMAX_BYTES - held, 0), 0);
    /* A block that recomputes keeps its input, however it is written. */
    bool block = kind == LAYER_VISION_BLOCK || kind == LAYER_LANGUAGE_BLOCK;
    return block && how != RECOMPUTE_FULL ? bytes * table->scenario->backend->step.kept_activations
                                          : bytes;
}

static double workspace_bytes(const struct price_table *table, enum layer_kind kind,
                              const struct batch_shape *shape, const struct kind_prices *prices) {
    double held;
    const double logits = stated_logits(table, kind, shape, &held);
    if (!has_unfused_attention(table, kind))
        return prices->workspace_bytes +
               logits * (held - LOGIT_BYTES + fmax(SOFTMAX_BYTES - held, 0));
    return layer_workspace_bytes(table->scenario->model, table->layer_of_kind[kind], shape,
                                 &table->split);
}

static double attention_flop(const struct price_table *table, enum layer_kind kind,
                             const struct batch_shape *shape) {
    return table->flop_per_square[kind] * batch_shape_squares(shape, layer_kind_axis(kind)) +
           table->flop_per_cross[kind] * shape->cross_square_sum;
}

static double forward_flop(const struct price_table *table, enum layer_kind kind,
                           const struct batch_shape *shape, const struct kind_prices *prices) {
    return prices->flop_fixed + attention_flop(table, kind, shape);
}

static double recompute_flop(const struct price_table *table, enum layer_kind kind,
                             const struct batch_shape *shape, const struct kind_prices *prices,
                             enum recompute_kind how) {
    const struct gradient_need need = table->need[kind];
    if (kind == LAYER_HEAD && table->split.block.chunked_head == CHUNKED_HEAD_REMADE)
        return need.input || need.weight ? forward_flop(table, kind, shape, prices) : 0;
    if (prices->again[how].count > 0)
        return prices->again_flop_fraction[how] * prices->flop_fixed +
               (how == RECOMPUTE_FULL ? attention_flop(table, kind, shape) : 0);
    if (how == RECOMPUTE_FULL) return forward_flop(table, kind, shape, prices);
    if (how == RECOMPUTE_NONE || !repeats_attention(table, kind)) return 0;
    return attention_flop(table, kind, shape);
}

static double training_flop(const struct price_table *table, enum layer_kind kind,
                            const struct batch_shape *shape, const struct kind_prices *prices) {
    struct gradient_need need = table->need[kind];
    double matmul_passes = 1 + need.input + need.weight;
    double attention_passes = need.input || need.weight ? 3 : 1;
    return matmul_passes * prices->flop_fixed +
           attention_passes * attention_flop(table, kind, shape);
}

double price_table_saved_bytes(const struct price_table *table, enum layer_kind kind,
                               const struct batch_shape *shape, enum recompute_kind how) {
    const struct kind_prices *prices = prices_of(table, kind, shape);
    return prices == NULL ? 0 : saved_bytes(table, kind, shape, prices, how);
}

double price_table_workspace_bytes(const struct price_table *table, enum layer_kind kind,
                                   const struct batch_shape *shape) {
    const struct kind_prices *prices = prices_of(table, kind, shape);
    return prices == NULL ? 0 : workspace_bytes(table, kind, shape, prices);
}

double price_table_flop(const struct price_table *table, enum layer_kind kind,
                        const struct batch_shape *shape) {
    const struct kind_prices *prices = prices_of(table, kind, shape);
    return prices == NULL ? 0 : forward_flop(table, kind, shape, prices);
}

/* ---- one layer, all at once ---- */

/* What the device needs. */
static void device_times(const struct price_table *table, enum layer_kind kind,
                         const struct batch_shape *shape, const struct kind_prices *prices,
                         struct layer_time *time) {
    const struct priced_list *forward = &prices->lists[PASS_SET_FORWARD],
                             *backward = &prices->lists[PASS_SET_BACKWARD];
    int64_t attention_ns[ATTENTION_OPERATOR_LIMIT] = { 0 };
    if (forward->run_count > 0) attention_times(table, kind, PASS_SET_FORWARD, shape, attention_ns);
    sum_list(table, forward, attention_ns, &time->forward_ns, &time->forward_comm_ns,
             &time->forward_context_ns);
    list_time(table, backward, kind, PASS_SET_BACKWARD, shape, &time->backward_ns,
              &time->backward_comm_ns, &time->backward_context_ns);
    if (time->backward_ns == 0) return;
    time->recompute_ns[RECOMPUTE_FULL] = time->forward_ns;
    time->recompute_comm_ns[RECOMPUTE_FULL] = time->forward_comm_ns;
    time->recompute_context_ns[RECOMPUTE_FULL] = time->forward_context_ns;
    for (int how = 0; how < RECOMPUTE_KIND_COUNT; how++)
        if (prices->again[how].count > 0)
            sum_list(table, &prices->again[how], attention_ns, &time->recompute_ns[how],
                     &time->recompute_comm_ns[how], &time->recompute_context_ns[how]);
    if (!repeats_attention(table, kind) || prices->again[RECOMPUTE_SELECTIVE].count > 0) return;
    for (int64_t run = 0, i = 0; run < forward->run_count; run++)
        for (int64_t k = 0; k < forward->runs[run].count; k++)
            time->recompute_ns[RECOMPUTE_SELECTIVE] += attention_ns[i++];
}

/* The host's time to launch a block's passes. One more kernel takes half as long backward, where no
 * Python runs. An adapter launches A, B, the factor and the sum, and backward either product twice;
 * dropout of its input one, casts of it to fp32 and back two, either way. */
static void launches_of(const struct price_table *table, enum layer_kind kind, int64_t *forward_ns,
                        int64_t *backward_ns) {
    enum { ADAPTER_FORWARD = 4, ADAPTER_BACKWARD = 6, CASTS = 2 };
    const struct backend *b = table->scenario->backend;
    *forward_ns = ns_from_seconds(b->step.host_forward_s);
    *backward_ns = ns_from_seconds(b->step.host_backward_s);
    if (*forward_ns + *backward_ns == 0) return;
    const struct model *model = table->scenario->model;
    const struct module *module =
        &model->modules[model->layers[table->layer_of_kind[kind]].module_index];
    if (module->frozen) *backward_ns -= ns_from_seconds(b->step.host_frozen_s);
    if (kind == LAYER_JOINT_BLOCK) { /* two blocks around one attention */
        *forward_ns *= 2;
        *backward_ns *= 2;
    }
    const int64_t adapters = adapters_of_block(module, kind);
    if (adapters == 0) return;
    const struct tensor_split split = scenario_split(table->scenario);
    const int input = module->adapter_dropout + CASTS * adapter_inputs_are_cast(module, &split);
    *forward_ns += adapters * ns_from_seconds((ADAPTER_FORWARD + input) * b->host_kernel_s);
    *backward_ns += adapters * ns_from_seconds((ADAPTER_BACKWARD + input) * b->host_kernel_s / 2);
}

/* Of a pass that a block runs again. */
static int64_t launches_again(const struct price_table *table, int64_t forward_ns, int how) {
    const double whole_s = table->scenario->backend->step.host_recompute_s;
    return forward_ns + (how == RECOMPUTE_FULL ? ns_from_seconds(whole_s) : 0);
}

/* What the host gets ahead by for each block of the only stage while the device runs the head, a
 * few long kernels. */
static int64_t ahead_ns(const struct price_table *table, enum layer_kind kind,
                        const struct batch_shape *shape) {
    if (!price_slot_launches_ahead(table->scenario) || kind != LAYER_LANGUAGE_BLOCK) return 0;
    const struct price_table *whole = table->whole != NULL ? table->whole : table;
    const struct kind_prices *prices = prices_of(whole, LAYER_HEAD, shape);
    if (prices == NULL) return 0;
    struct layer_time head = { 0 };
    device_times(whole, LAYER_HEAD, shape, prices, &head);
    return (head.forward_ns + head.backward_ns) /
           table->scenario->model->modules[MODULE_LANGUAGE].layer_count;
}

/* What a block's passes wait for the host, which launches ahead: together they take no less than
 * all their launches, less what it is ahead by from the head. The wait stands in the backward, where
 * there is one. Where the host waits for the device at each message between stages, it launches
 * ahead within a pass alone, and a pass takes no less than its own launches. A host that waits for
 * each kernel launches nothing meanwhile. `time` is the device's. */
static struct host_waits host_waits_of(const struct price_table *table, enum layer_kind kind,
                                       const struct batch_shape *shape,
                                       const struct kind_prices *prices,
                                       const struct layer_time *time) {
    struct host_waits waits = { 0 };
    if (!layer_kind_is_block(kind) || time->forward_ns == 0) return waits;
    int64_t forward, backward;
    launches_of(table, kind, &forward, &backward);
    if (forward + backward == 0) return waits;
    if (table->scenario->backend->blocking_launches) {
        waits.forward_ns = forward;
        if (time->backward_ns == 0) return waits;
        waits.backward_ns = backward;
        for (int how = 0; how < RECOMPUTE_KIND_COUNT; how++)
            if (how == RECOMPUTE_FULL || prices->again[how].count > 0)
                waits.recompute_ns[how] = launches_again(table, forward, how);
        return waits;
    }
    if (time->backward_ns == 0) {
        waits.forward_ns = above_zero(forward - time->forward_ns);
        if (waits.forward_ns > 0)
            waits.forward_ns = above_zero(waits.forward_ns - ahead_ns(table, kind, shape));
        return waits;
    }
    int64_t spare = time->backward_ns - backward;
    if (price_slot_passes_apart(table->scenario))
        waits.forward_ns = above_zero(forward - time->forward_ns);
    else
        spare += time->forward_ns - forward;
    /* Beside a recomputation, which launches a forward again, the host is behind sooner. */
    if (spare < launches_again(table, forward, RECOMPUTE_FULL))
        spare += ahead_ns(table, kind, shape);
    waits.backward_ns = above_zero(-spare);
    for (int how = 0; how < RECOMPUTE_KIND_COUNT; how++)
        if (how == RECOMPUTE_FULL || prices->again[how].count > 0)
            waits.recompute_ns[how] = above_zero(launches_again(table, forward, how) -
                                                 time->recompute_ns[how] - above_zero(spare));
    return waits;
}

static void fill_times(const struct price_table *table, enum layer_kind kind,
                       const struct batch_shape *shape, const struct kind_prices *prices,
                       struct layer_time *time) {
    device_times(table, kind, shape, prices, time);
    const struct host_waits waits = host_waits_of(table, kind, shape, prices, time);
    time->forward_ns += waits.forward_ns;
    time->backward_ns += waits.backward_ns;
    time->forward_wait_ns = waits.forward_ns;
    time->backward_wait_ns = waits.backward_ns;
    for (int how = 0; how < RECOMPUTE_KIND_COUNT; how++) {
        time->recompute_ns[how] += waits.recompute_ns[how];
        time->recompute_wait_ns[how] = waits.recompute_ns[how];
    }
}

static void fill_layer(const struct price_table *table, enum layer_kind kind,
                       const struct batch_shape *shape, const struct kind_prices *prices,
                       struct layer_time *time) {
    *time = (struct layer_time){ 0 };
    if (prices == NULL) return;
    fill_times(table, kind, shape, prices, time);
    for (int how = 0; how < RECOMPUTE_KIND_COUNT; how++) {
        time->saved_bytes[how] = saved_bytes(table, kind, shape, prices, (enum recompute_kind)how);
        time->recompute_flop[how] =
            recompute_flop(table, kind, shape, prices, (enum recompute_kind)how);
    }
    time->workspace_bytes = workspace_bytes(table, kind, shape, prices);
    time->training_flop = training_flop(table, kind, shape, prices);
    time->send_ns = prices->send_ns;
}

void price_table_layer(const struct price_table *table, enum layer_kind kind,
                       const struct batch_shape *shape, struct layer_time *time) {
    if (table->memo != NULL && table->memo_place[kind] >= 0 && shape >= table->memo_shapes &&
        shape < table->memo_shapes + table->memo_count) {
        *time = table->memo[table->memo_entry[(shape - table->memo_shapes) * table->memo_kinds +
                                              table->memo_place[kind]]];
        return;
    }
    fill_layer(table, kind, shape, prices_of(table, kind, shape), time);
}

/* ---- the memo ---- */

struct memo_maker {
    struct price_table *table;
    struct layer_time *entries;
    int64_t count, capacity;
};

/* Kinds of one axis that share their entries' mark: in order, with the place of each in a row. */
struct memo_group {
    int count;
    enum layer_kind kinds[SINGLE_KIND_LIMIT];
    int64_t places[SINGLE_KIND_LIMIT];
};

static struct memo_group group_of(const struct price_table *table, int axis, bool paired) {
    struct memo_group group = { 0 };
    for (int k = 0; k < LAYER_KIND_COUNT; k++) {
        const enum layer_kind kind = (enum layer_kind)k;
        if (table->layer_of_kind[k] < 0 || (int)layer_kind_axis(kind) != axis ||
            (price_slot_paired_index(kind) >= 0) != paired)
            continue;
        group.kinds[group.count] = kind;
        group.places[group.count++] = table->memo_place[k];
    }
    return group;
}

/* Besides the token counts that the mark stands for, a layer depends on the sums of squares
 * alone. */
static void fill_row(struct memo_maker *maker, const struct memo_group *group,
                     const struct batch_shape *shape, double squares,
                     const struct kind_prices *prices, struct memo_mark *mark, int32_t *row) {
    if (mark->entry < 0 || mark->squares != squares ||
        mark->cross_squares != shape->cross_square_sum) {
        if (maker->count + group->count > maker->capacity) {
            maker->capacity *= 2;
            maker->entries =
                memory_realloc(maker->entries, sizeof *maker->entries * (size_t)maker->capacity);
        }
        *mark = (struct memo_mark){ maker->count, squares, shape->cross_square_sum };
        for (int i = 0; i < group->count; i++) {
            const enum layer_kind kind = group->kinds[i];
            const int single = price_slot_single_index(kind);
            fill_layer(maker->table, kind, shape,
                       &prices[single >= 0 ? single : price_slot_paired_index(kind)],
                       &maker->entries[maker->count++]);
        }
        ballast_check(maker->count <= INT32_MAX);
    }
    for (int i = 0; i < group->count; i++)
        row[group->places[i]] = (int32_t)mark->entry + i;
}

/* Of one axis, every shape's entries; `rows` are 0, the entry of a micro-batch that has nothing
 * there. */
static void memorise_axis(struct memo_maker *maker, int a, const struct batch_shape *shapes,
                          int64_t count, int32_t *rows) {
    const struct price_table *table = maker->table;
    const struct axis *axis = &table->axes[a];
    const struct memo_group single = group_of(table, a, false), paired = group_of(table, a, true);
    if (single.count + paired.count == 0) return;
    for (int64_t i = 0; i < count; i++) {
        int32_t *row = &rows[i * table->memo_kinds];
        const int64_t tokens = batch_shape_tokens(&shapes[i], (enum token_axis)a);
        if (tokens == 0) continue;
        const double squares = batch_shape_squares(&shapes[i], (enum token_axis)a);
        const int64_t slot = price_slot_find(axis, tokens);
        ballast_check(slot != NO_SLOT);
        fill_row(maker, &single, &shapes[i], squares, axis->slots[slot].kinds, &axis->marks[slot],
                 row);
        if (paired.count == 0) continue;
        const int64_t pair =
            price_slot_find_pair(axis, slot, price_slot_other_tokens(table, a, &shapes[i]));
        ballast_check(pair != NO_SLOT);
        fill_row(maker, &paired, &shapes[i], squares, axis->pairs[pair].kinds,
                 &axis->pairs[pair].mark, row);
    }
}

void price_table_memorise(struct price_table *table, const struct batch_shape *shapes,
                          int64_t count) {
    ballast_check(table->memo == NULL && table->base == NULL);
    table->memo_kinds = 0;
    for (int kind = 0; kind < LAYER_KIND_COUNT; kind++)
        table->memo_place[kind] = table->layer_of_kind[kind] >= 0 ? table->memo_kinds++ : -1;
    struct memo_maker maker = { .table = table, .count = 1, .capacity = 1024 };
    maker.entries = memory_alloc(sizeof *maker.entries * (size_t)maker.capacity);
    maker.entries[0] = (struct layer_time){ 0 };
    const size_t cells = (size_t)(table->memo_kinds * (count > 0 ? count : 1));
    int32_t *rows = memory_alloc(sizeof *rows * cells);
    memset(rows, 0, sizeof *rows * cells);
    for (int a = 0; a < TOKEN_AXIS_COUNT; a++)
        memorise_axis(&maker, a, shapes, count, rows);
    table->memo = maker.entries;
    table->memo_entry = rows;
    table->memo_shapes = shapes;
    table->memo_count = count;
}

/* Puts operators of attention at *out; returns the count. Beside a ring a run is stated as two:
 * what runs while keys and values travel, and the step after that. The ring stands before *out. */
static int64_t ring_operators(const struct price_table *table, enum layer_kind kind,
                              const struct priced_list *list, const struct operator_work *works,
                              int64_t count, struct operator_time *out) {
    int64_t ns[ATTENTION_OPERATOR_LIMIT], attention = 0;
    price_attention(table, kind, works, count, ns);
    for (int64_t i = 0; i < count; i++)
        attention += ns[i];
    int64_t beside = beside_ring_ns(table, list, attention);
    out[-1] = (struct operator_time){ list->ring_ns, STREAM_HIDDEN };
    out[0] = (struct operator_time){ beside, STREAM_COMPUTE };
    out[1] = (struct operator_time){ attention - beside, STREAM_COMPUTE };
    return 2;
}

static int64_t attention_operators(const struct price_table *table, enum layer_kind kind,
                                   const struct operator_work *works, int64_t count,
                                   struct operator_time *out) {
    for (int64_t i = 0; i < count; i++)
        out[i] =
            (struct operator_time){ ns_from_price(attention_price(table, kind, &works[i]).seconds),
                                    STREAM_COMPUTE };
    return count;
}

static int64_t list_operators(const struct price_table *table, const struct priced_list *list,
                              enum layer_kind kind, const struct batch_shape *shape,
                              enum pass_set set, int64_t wait_ns, struct operator_time *out) {
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
    /* A block ends with a kernel: what it waits for the host stands there. */
    if (count > 0) out[count - 1].ns += wait_ns;
    return count;
}

int64_t price_table_operators(const struct price_table *table, enum layer_kind kind,
                              const struct batch_shape *shape, enum pass_set set,
                              struct operator_time *out) {
    ballast_check(!table->sums_only);
    const struct kind_prices *prices = prices_of(table, kind, shape);
    if (prices == NULL) return 0;
    struct host_waits waits;
    price_table_host_waits(table, kind, shape, &waits);
    return list_operators(table, &prices->lists[set], kind, shape, set,
                          set == PASS_SET_FORWARD ? waits.forward_ns : waits.backward_ns, out);
}

int64_t price_table_recompute_operators(const struct price_table *table, enum layer_kind kind,
                                        const struct batch_shape *shape, enum recompute_kind how,
                                        struct operator_time *out) {
    const struct kind_prices *prices = prices_of(table, kind, shape);
    if (prices == NULL) return 0;
    struct host_waits waits;
    price_table_host_waits(table, kind, shape, &waits);
    if (prices->again[how].count > 0 || how == RECOMPUTE_FULL)
        return list_operators(table,
                              prices->again[how].count > 0 ? &prices->again[how]
                                                           : &prices->lists[PASS_SET_FORWARD],
                              kind, shape, PASS_SET_FORWARD, waits.recompute_ns[how], out);
    if (how == RECOMPUTE_NONE || !repeats_attention(table, kind)) return 0;
    struct operator_work works[ATTENTION_OPERATOR_LIMIT];
    int64_t count = attention_works(table, kind, PASS_SET_FORWARD, shape, works);
    return attention_operators(table, kind, works, count, out);
}

int64_t price_table_link(const struct price_table *table, int64_t stage) {
    return table->link_of_stage[stage];
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
    *work = price_slot_send_work(table, kind, shape);
    if (prices_of(table, kind, shape) == NULL) return (struct price){ .source = "" };
    return price_slot_send_price(table, kind, shape, pair);
}

void price_table_host_waits(const struct price_table *table, enum layer_kind kind,
                            const struct batch_shape *shape, struct host_waits *waits) {
    *waits = (struct host_waits){ 0 };
    const struct backend *b = table->scenario->backend;
    const struct kind_prices *prices = prices_of(table, kind, shape);
    if (prices == NULL || b->step.host_forward_s + b->step.host_backward_s == 0) return;
    struct layer_time time = { 0 };
    device_times(table, kind, shape, prices, &time);
    *waits = host_waits_of(table, kind, shape, prices, &time);
}

/* Sums over one pass of a layer: time, time x band, time outside the measured range. */
struct band_sums {
    double ns, priced_ns, band_ns, stated_ns, outside_ns;
};

static void add_band(const struct price_table *table, enum layer_kind kind, enum pass_set set,
                     const struct priced_list *list, const struct batch_shape *shape, double layers,
                     struct band_sums *sums) {
    sums->ns += layers * (double)list->fixed_ns;
    sums->priced_ns += layers * list->priced_ns;
    sums->band_ns += layers * list->band_ns;
    sums->stated_ns += layers * list->stated_ns;
    sums->outside_ns += layers * list->outside_ns;
    struct operator_work works[ATTENTION_OPERATOR_LIMIT];
    int64_t count = list->run_count > 0 ? attention_works(table, kind, set, shape, works) : 0;
    for (int64_t i = 0; i < count; i++) {
        struct price p = attention_price(table, kind, &works[i]);
        sums->ns += layers * p.seconds * NS_PER_S;
        sums->priced_ns += layers * p.seconds * NS_PER_S;
        sums->band_ns += layers * p.seconds * NS_PER_S * p.band_fraction;
        sums->stated_ns += layers * p.seconds * NS_PER_S * price_stated_band(&p);
        if (!p.inside_range) sums->outside_ns += layers * p.seconds * NS_PER_S;
    }
}

struct price_bands price_table_bands(const struct price_table *table,
                                     const struct batch_shape *shape,
                                     const int64_t layers_by_kind[LAYER_KIND_COUNT]) {
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
    if (!(sums.ns > 0)) return (struct price_bands){ 0 };
    return (struct price_bands){ .operators = sums.band_ns / sums.priced_ns,
                                 .stated = sums.stated_ns / sums.priced_ns,
                                 .outside = fmin(sums.outside_ns / sums.ns, 1) };
}
