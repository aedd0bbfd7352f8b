/* sequence_groups.c - sort by length, take neighbours, pad to the longest. */
#include "sim/policy/batching/sequence_groups.h"

#include <stdlib.h>
#include <string.h>
#include "sim/base/arena.h"

struct sized_group {
    int64_t tokens, place; /* place: in the list filled up, whose end repeats its beginning */
};

static int by_tokens(const void *a, const void *b) {
    const struct sized_group *x = a, *y = b;
    if (x->tokens != y->tokens) return x->tokens < y->tokens ? -1 : 1;
    return (x->place > y->place) - (x->place < y->place);
}

static int64_t tokens_of(const struct batch_plan *plan, const struct dataset *dataset,
                         int64_t group) {
    int64_t tokens = 0;
    for (uint32_t i = plan->starts[group]; i < plan->starts[group + 1]; i++)
        tokens += dataset->samples[plan->samples[i]].language_tokens;
    return tokens;
}

void sequence_groups_join(struct batch_plan *plan, const struct dataset *dataset, int64_t ranks) {
    if (ranks <= 1 || plan->group_count == 0) return;
    const int64_t count = plan->group_count, joined = (count + ranks - 1) / ranks;
    const int64_t places = joined * ranks;
    struct sized_group *groups = memory_alloc(sizeof *groups * (size_t)places);
    int64_t samples = 0;
    for (int64_t i = 0; i < places; i++) {
        const int64_t group = i % count;
        groups[i] = (struct sized_group){ tokens_of(plan, dataset, group), i };
        samples += plan->starts[group + 1] - plan->starts[group];
    }
    qsort(groups, (size_t)places, sizeof *groups, by_tokens);

    struct batch_plan whole = *plan;
    whole.samples = memory_alloc(sizeof *whole.samples * (size_t)samples);
    whole.starts = memory_alloc(sizeof *whole.starts * (size_t)(joined + 1));
    whole.padded_tokens = memory_alloc(sizeof *whole.padded_tokens * (size_t)joined);
    whole.starts[0] = 0;
    uint32_t used = 0;
    for (int64_t g = 0; g < joined; g++) {
        for (int64_t i = g * ranks; i < (g + 1) * ranks; i++) {
            const int64_t group = groups[i].place % count;
            const uint32_t size = plan->starts[group + 1] - plan->starts[group];
            memcpy(whole.samples + used, plan->samples + plan->starts[group],
                   sizeof *whole.samples * size);
            used += size;
        }
        whole.starts[g + 1] = used;
        whole.padded_tokens[g] = ranks * groups[(g + 1) * ranks - 1].tokens;
    }
    whole.group_count = joined;
    whole.full_group_count = plan->full_group_count / ranks;
    whole.repeated_by_sampler = used - plan->starts[count];
    free(groups);
    free(plan->samples);
    free(plan->starts);
    *plan = whole;
}
