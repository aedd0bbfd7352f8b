/* sweep_merge.c - the databases of shards become one. */
#include "sim/study/sweep/sweep_race.h"

#include <stdlib.h>
#include <string.h>

struct merge {
    struct store *into, *from;
    struct arena *arena;
    int64_t *row_count;
};

static bool merge_inputs(struct merge *m, int64_t into_id, int64_t from_id, const char *name,
                         struct error *err) {
    int64_t have, come;
    const struct sweep_input_record *old =
        store_load(m->into, RECORD_SWEEP_INPUT, into_id, m->arena, &have, err);
    const struct sweep_input_record *new =
        old != NULL ? store_load(m->from, RECORD_SWEEP_INPUT, from_id, m->arena, &come, err) : NULL;
    if (new == NULL) return false;
    for (int64_t i = 0; i < come; i++)
        for (int64_t j = 0; j < have; j++)
            if (strcmp(new[i].kind, old[j].kind) == 0 && strcmp(new[i].name, old[j].name) == 0 &&
                strcmp(new[i].fingerprint, old[j].fingerprint) != 0)
                return error_set(err, "the parts of sweep \"%s\" rest on different %s \"%.*s\"",
                                 name, new[i].kind, sweep_input_name_length(new[i].name),
                                 new[i].name);
    return store_add_sweep_inputs(m->into, new, come, err);
}

static int compare_configurations(const void *a, const void *b) {
    return strcmp(((const struct sweep_row_record *)a)->configuration,
                  ((const struct sweep_row_record *)b)->configuration);
}

static bool is_raced(const struct sweep_row_record *row) {
    return strcmp(row->status, "raced") == 0;
}

/* Memory may be that of a twin's replay; the outcome has the race's. */
static bool same_text(const char *a, const char *b) {
    return a != NULL && b != NULL && strcmp(a, b) == 0;
}

static bool merge_rows(struct merge *m, int64_t into_id, int64_t from_id, const char *name,
                       struct error *err) {
    int64_t have, come;
    struct sweep_row_record *old =
        store_load(m->into, RECORD_SWEEP_ROW, into_id, m->arena, &have, err);
    struct sweep_row_record *new =
        old != NULL ? store_load(m->from, RECORD_SWEEP_ROW, from_id, m->arena, &come, err) : NULL;
    if (new == NULL) return false;
    bool changed = false;
    const char *delete_rounds =
        arena_format(m->arena, "DELETE FROM sweep_round WHERE sweep_id = %lld", (long long)into_id);
    qsort(old, (size_t)have, sizeof *old, compare_configurations);
    for (int64_t i = 0; i < come; i++) {
        if (strcmp(new[i].status, "replayed") == 0)
            return error_set(err, "'%s' holds replays of sweep \"%s\": it is no part of a sweep",
                             store_db(m->from)->path, name);
        const struct sweep_row_record *same =
            bsearch(&new[i], old, (size_t)have, sizeof *old, compare_configurations);
        if (same != NULL && is_raced(same) && is_raced(&new[i]) &&
            (same->total_days != new[i].total_days || !same_text(same->outcome, new[i].outcome)))
            return error_set(err, "configuration %s of sweep \"%s\" has two different answers",
                             new[i].configuration, name);
        /* What one part pruned another may have raced. */
        if (same != NULL && (strcmp(same->status, "pruned") != 0 || !is_raced(&new[i]))) continue;
        new[i].on_front = -1; /* only the whole sweep knows */
        if (!store_add_sweep_rows(m->into, &new[i], 1, err)) return false;
        *m->row_count += same == NULL;
        changed = true;
    }
    /* Those of a part, if it has some; the call that replays the best counts the whole. */
    return !changed || db_execute(store_db(m->into), delete_rounds, err);
}

bool sweep_merge(struct store *into, struct store *from, int64_t *row_count, struct error *err) {
    struct merge merge = { into, from, arena_create(), row_count };
    int64_t count;
    struct sweep_record *sweeps = store_load(from, RECORD_SWEEP, -1, merge.arena, &count, err);
    bool ok = sweeps != NULL;
    if (ok && count == 0) ok = error_set(err, "'%s' holds no sweep", store_db(from)->path);
    for (int64_t i = 0; ok && i < count; i++) {
        int64_t into_id;
        ok = store_begin_sweep(into, &sweeps[i], &into_id, err) &&
             merge_inputs(&merge, into_id, sweeps[i].id, sweeps[i].name, err) &&
             merge_rows(&merge, into_id, sweeps[i].id, sweeps[i].name, err);
    }
    arena_destroy(merge.arena);
    return ok;
}
