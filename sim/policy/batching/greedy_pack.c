/* greedy_pack.c - first fit over a few open groups (next fit with one). Time is samples x open
 * groups, of all kinds; an open group is a list of samples linked through `next`. */
#include "sim/policy/batching/greedy_pack.h"

#include <stdlib.h>
#include <string.h>
#include "sim/base/arena.h"
#include "sim/policy/batching/samplers.h"

const char *const greedy_pack_order_names[] = { "shuffle", "file", NULL };

uint32_t *greedy_pack_order(enum greedy_pack_order order, const struct batch_request *request) {
    const uint32_t count = (uint32_t)request->dataset->sample_count;
    int64_t rounds;
    if (order == GREEDY_PACK_SHUFFLE)
        return sampler_sequence(SAMPLER_SHUFFLE, request->seed + (uint32_t)request->epoch, count, 1,
                                1, &rounds);
    uint32_t *items = memory_alloc(sizeof *items * count);
    for (uint32_t i = 0; i < count; i++)
        items[i] = i;
    return items;
}

struct open_group {
    uint64_t kind;
    int64_t size, units;
    uint32_t first, last;
};

struct filling {
    const struct greedy_pack *rule;
    struct batch_plan *plan;
    struct open_group *open; /* oldest first */
    int64_t open_count, open_capacity;
    uint32_t *next; /* by sample: the one after it in its group */
    uint32_t written;
};

static void close_group(struct filling *f, int64_t index) {
    const struct open_group *group = &f->open[index];
    for (uint32_t sample = group->first;; sample = f->next[sample]) {
        f->plan->samples[f->written++] = sample;
        if (sample == group->last) break;
    }
    f->plan->starts[++f->plan->group_count] = f->written;
    f->open_count--;
    memmove(f->open + index, f->open + index + 1,
            sizeof *f->open * (size_t)(f->open_count - index));
}

static void put(struct filling *f, uint32_t sample, uint64_t kind, int64_t size, int64_t units) {
    int64_t oldest = -1, of_kind = 0;
    for (int64_t i = 0; i < f->open_count; i++) {
        struct open_group *group = &f->open[i];
        if (group->kind != kind) continue;
        if (of_kind++ == 0) oldest = i;
        if (group->size + size > f->rule->size_limit || group->units + units > f->rule->unit_limit)
            continue;
        group->size += size;
        group->units += units;
        f->next[group->last] = sample;
        group->last = sample;
        return;
    }
    if (of_kind == f->rule->open_limit) close_group(f, oldest);
    if (f->open_count == f->open_capacity) {
        f->open_capacity *= 2;
        f->open = memory_realloc(f->open, sizeof *f->open * (size_t)f->open_capacity);
    }
    f->open[f->open_count++] = (struct open_group){ kind, size, units, sample, sample };
}

void greedy_pack_fill(const struct greedy_pack *rule, const struct batch_request *request,
                      const uint32_t *order, struct batch_plan *plan) {
    const struct dataset *dataset = request->dataset;
    const size_t count = (size_t)dataset->sample_count;
    plan->samples = memory_alloc(sizeof *plan->samples * count);
    plan->starts = memory_alloc(sizeof *plan->starts * (count + 1));
    plan->starts[0] = 0;
    plan->packed = true;
    struct filling f = {
        .rule = rule,
        .plan = plan,
        .open = memory_alloc(sizeof *f.open * (size_t)rule->open_limit),
        .open_capacity = rule->open_limit,
        .next = memory_alloc(sizeof *f.next * count),
    };
    for (size_t i = 0; i < count; i++) {
        int64_t size = rule->size_of(dataset, order[i]), units = rule->units_of(dataset, order[i]);
        if (size > rule->size_limit || units > rule->unit_limit)
            plan->oversize_skipped++;
        else
            put(&f, order[i], rule->kind_of != NULL ? rule->kind_of(dataset, order[i]) : 0, size,
                units);
    }
    while (f.open_count > 0)
        close_group(&f, 0);
    plan->full_group_count = plan->group_count;
    plan->samples_packed = f.written;
    free(f.next);
    free(f.open);
}

bool greedy_pack_deal(const char *policy, const struct batch_request *request,
                      struct batch_plan *plan, struct error *err) {
    const int64_t dp = request->dp;
    if (plan->group_count < dp) {
        error_set(err, "%s: only %lld micro-batch%s for %lld data-parallel rank%s", policy,
                  (long long)plan->group_count, plan->group_count == 1 ? "" : "es", (long long)dp,
                  dp == 1 ? "" : "s");
        if (plan->oversize_skipped > 0)
            return error_hint(err, "%lld sample%s beyond a limit of the policy",
                              (long long)plan->oversize_skipped,
                              plan->oversize_skipped == 1 ? " is" : "s are");
        return error_hint(err, "use fewer ranks or a larger data set");
    }
    plan->rank_count = dp;
    plan->per_rank = plan->group_count / dp;
    plan->order = memory_alloc(sizeof *plan->order * (size_t)(dp * plan->per_rank));
    for (int64_t rank = 0; rank < dp; rank++)
        for (int64_t i = 0; i < plan->per_rank; i++)
            plan->order[rank * plan->per_rank + i] = (uint32_t)(i * dp + rank);
    plan->dropped_by_sampler = plan->samples_packed - plan->starts[dp * plan->per_rank];
    return true;
}
