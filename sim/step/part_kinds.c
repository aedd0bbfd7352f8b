/* part_kinds.c - a part costs a micro-batch what its layers cost, however the model is divided: the
 * middle stages of a pipeline mostly have as many blocks of one kind that recompute alike. Rules on
 * single blocks and the units of sharded parameters are of a part's own. */
#include "sim/step/part_kinds.h"

#include <string.h>

static bool same_counts(const int64_t *counts, int64_t part, int64_t other, int64_t of_part) {
    return memcmp(&counts[part * of_part], &counts[other * of_part],
                  sizeof *counts * (size_t)of_part) == 0;
}

/* The next of the part's layers from *at on that is offloaded; -1. */
static int64_t next_offloaded(const struct step_model *m, int64_t part, int64_t *at) {
    while (*at < m->plan->first_layer[part + 1] && m->offload_window[*at] == 0)
        ++*at;
    return *at < m->plan->first_layer[part + 1] ? (*at)++ : -1;
}

static bool same_offloads(const struct step_model *m, int64_t part, int64_t other) {
    int64_t at = m->plan->first_layer[part], other_at = m->plan->first_layer[other];
    for (;;) {
        const int64_t a = next_offloaded(m, part, &at), b = next_offloaded(m, other, &other_at);
        if (a < 0 || b < 0) return a == b;
        if (m->scenario->model->layers[a].kind != m->scenario->model->layers[b].kind ||
            m->plan->recompute[a] != m->plan->recompute[b] ||
            m->offload_window[a] != m->offload_window[b])
            return false;
    }
}

static bool is_alike(const struct step_model *m, int64_t part, int64_t other) {
    const int64_t by_recomputation = (int64_t)LAYER_KIND_COUNT * RECOMPUTE_KIND_COUNT;
    return m->module_of_chunk[part / m->stage_count] ==
               m->module_of_chunk[other / m->stage_count] &&
           m->accumulate_ns[part] == m->accumulate_ns[other] &&
           same_counts(m->layers, part, other, LAYER_KIND_COUNT) &&
           same_counts(m->recomputing, part, other, by_recomputation) &&
           same_offloads(m, part, other);
}

void part_kinds_fill(struct arena *arena, struct step_model *m) {
    m->kinds = arena_array(arena, enum layer_kind, m->part_count * PART_KINDS);
    m->alike = arena_array(arena, int64_t, m->part_count);
    for (int64_t part = 0; part < m->part_count; part++) {
        enum layer_kind *kind = &m->kinds[part * PART_KINDS];
        for (int k = 0; k < LAYER_KIND_COUNT; k++)
            if (m->layers[part * LAYER_KIND_COUNT + k] > 0) *kind++ = (enum layer_kind)k;
        *kind = LAYER_KIND_COUNT;
        int64_t *alike = &m->alike[part];
        if (m->sharded || m->has_ruled_layers)
            *alike = part;
        else
            while (*alike < part && !is_alike(m, part, *alike))
                ++*alike;
    }
}
