/* outer_operators.c - the list, and those of its entries that depend on the micro-batch. */
#include "sim/step/outer_operators.h"

#include <stdlib.h>
#include <string.h>

#include "sim/step/outer_price.h"

static const char *const purpose_names[OUTER_PURPOSE_COUNT] = {
    [OUTER_ACCUMULATION] = "gradient accumulation",
    [OUTER_HOST_COPY] = "host copies",
    [OUTER_SEND] = "pipeline sends",
    [OUTER_REDUCTION] = "data-parallel communication",
    [OUTER_UPDATE] = "optimizer and parameter gather",
};

const char *outer_purpose_name(enum outer_purpose purpose) {
    return purpose_names[purpose];
}

static bool alike(const struct outer_operator *a, const struct outer_operator *b) {
    return a->purpose == b->purpose && a->stage == b->stage && a->work.kind == b->work.kind &&
           a->work.pass == b->work.pass && a->work.network_bytes == b->work.network_bytes &&
           a->work.memory_bytes == b->work.memory_bytes && a->price.seconds == b->price.seconds &&
           strcmp(a->work.name, b->work.name) == 0;
}

void outer_list_add(struct outer_list *list, const struct outer_operator *one) {
    if (one->price.seconds <= 0 || one->calls <= 0) return;
    for (int64_t i = 0; i < list->count; i++) {
        if (!alike(&list->operators[i], one)) continue;
        list->operators[i].calls += one->calls;
        return;
    }
    if (list->count == list->capacity) {
        list->capacity = list->capacity > 0 ? 2 * list->capacity : 64;
        list->operators =
            memory_realloc(list->operators, sizeof *list->operators * (size_t)list->capacity);
    }
    list->operators[list->count++] = *one;
}

void outer_list_free(struct outer_list *list) {
    free(list->operators);
    *list = (struct outer_list){ 0 };
}

/* Over each cut once in each direction for each micro-batch. */
static void add_sends(const struct step_model *m, const struct batch_shape *typical,
                      struct outer_list *list) {
    const double micro_batches = (double)m->scenario->micro_batches_per_rank;
    for (int64_t part = 0; part + 1 < m->part_count; part++) {
        struct outer_operator one = { .purpose = OUTER_SEND,
                                      .stage = part % m->stage_count,
                                      .calls = micro_batches };
        one.price = price_table_send_price(m->prices, one.stage, m->last_kind[part], typical,
                                           &one.work, &one.group);
        outer_list_add(list, &one);
        if (!step_part_has_backward(m, part)) continue;
        one.stage = (part + 1) % m->stage_count;
        one.work.pass = PASS_BACKWARD;
        outer_list_add(list, &one);
    }
}

/* No copy was measured: as collectives that were derived (costmodel/efficiency.c). */
#define HOST_COPY_BAND 0.25

/* Out behind the forward of a block, and back before its backward. */
static void add_host_copies(const struct step_model *m, const struct batch_shape *typical,
                            struct arena *arena, struct outer_list *list) {
    const struct gpu *gpu = cost_model_gpu(m->scenario->cost_model);
    const double rate = scenario_host_copy_bytes_per_s(m->scenario);
    const char *source = arena_format(arena, "host link of %s, %.3g GB/s", gpu->name, rate / 1e9);
    for (int64_t part = 0; part < m->part_count; part++)
        for (int64_t i = m->plan->first_layer[part]; i < m->plan->first_layer[part + 1]; i++) {
            if (m->offload_window[i] == 0) continue;
            const enum layer_kind kind = m->scenario->model->layers[i].kind;
            const double bytes =
                price_table_saved_bytes(m->prices, kind, typical, m->plan->recompute[i]);
            const double seconds = bytes / rate;
            struct outer_operator one = {
                .purpose = OUTER_HOST_COPY,
                .work = operator_streaming("host copy", OPERATOR_ELEMENTWISE, PASS_FORWARD,
                                           PRECISION_BF16, bytes),
                .price = { .seconds = seconds,
                           .memory_s = seconds,
                           .efficiency = 1,
                           .bound = PRICE_MEMORY,
                           .band_fraction = HOST_COPY_BAND,
                           .source = source },
                .stage = part % m->stage_count,
                .calls = (double)m->scenario->micro_batches_per_rank,
            };
            outer_list_add(list, &one);
            one.work.pass = PASS_BACKWARD;
            outer_list_add(list, &one);
        }
}

/* For each chunk in both passes. */
static void add_head_gathers(const struct step_model *m, const struct batch_shape *typical,
                             struct outer_list *list) {
    if (!outer_gathers_head(m)) return;
    struct step_model recorded = *m;
    recorded.record = list;
    outer_head_gather_ns(&recorded, 2 * (double)m->scenario->micro_batches_per_rank *
                                        (double)price_table_head_chunks(m->prices, typical));
}

void step_outer_operators(const struct step_model *m, const struct batch_shape *typical,
                          struct arena *arena, struct outer_list *list) {
    step_model_record(m, arena, list);
    add_head_gathers(m, typical, list);
    add_sends(m, typical, list);
    add_host_copies(m, typical, arena, list);
}
