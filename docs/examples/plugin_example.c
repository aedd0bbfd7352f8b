/* plugin_example.c - a plug-in with a policy of each kind; docs/PLUGIN.md walks through it.
 *
 *     cc -shared -fPIC -O2 -I ../../sim plugin_example.c -o plugin_example.so
 *     ballast run study.json --plugin plugin_example.so --set policy.partition=bottleneck
 */
#include <ballast.h>
#include <stdlib.h>

/* ---- batching: sort a window of samples by length, deal it to and fro ---- */

struct item {
    uint32_t sample, tokens;
};

static int by_tokens(const void *a, const void *b) {
    const struct item *x = a, *y = b;
    if (x->tokens != y->tokens) return x->tokens < y->tokens ? 1 : -1;
    return x->sample < y->sample ? -1 : 1; /* a tie must not depend on qsort */
}

static int snake_plan(struct ballast_batches *b, const double *parameters) {
    const int64_t size = b->micro_batch_samples,
                  window = (int64_t)parameters[0] * b->rank_count * size;
    struct item *items = malloc((size_t)b->sample_count * sizeof *items);
    uint32_t *batch = malloc((size_t)size * sizeof *batch);
    uint64_t state = b->seed + 0x9e3779b97f4a7c15u * (uint64_t)(b->epoch + 1);
    for (int64_t i = 0; i < b->sample_count; i++) {
        /* Shuffled from the seed: same scenario, same plan. */
        state = state * 6364136223846793005u + 1442695040888963407u;
        const int64_t j = (int64_t)((state >> 33) % (uint64_t)(i + 1));
        items[i] = items[j];
        items[j] = (struct item){ (uint32_t)i, b->language_tokens[i] };
    }
    int going = 1;
    for (int64_t from = 0; going && from + window <= b->sample_count; from += window) {
        qsort(items + from, (size_t)window, sizeof *items, by_tokens);
        for (int64_t k = 0; going && k < window / size; k++) {
            /* 0 1 2 3, 3 2 1 0, ...: no rank gets the longest every time. */
            const int64_t round = k / b->rank_count, place = k % b->rank_count;
            const int64_t rank = round % 2 ? b->rank_count - 1 - place : place;
            for (int64_t i = 0; i < size; i++)
                batch[i] = items[from + k * size + i].sample;
            going = b->give(b, rank, batch, size);
        }
    }
    free(batch);
    free(items);
    return going;
}

static const struct ballast_parameter snake_parameters[] = {
    { "window", "micro-batches of each rank that are sorted together", 8, 1, 4096 },
};
static const struct ballast_batching batching[] = {
    { "snake", "sort windows by length and deal them to and fro", 0, snake_parameters, 1,
      snake_plan },
};

/* ---- partition: the smallest slowest part, by bisection on its time ---- */

static int fill(const struct ballast_blocks *b, double limit, int64_t *blocks_of_part) {
    int64_t block = 0;
    for (int64_t part = 0; part < b->part_count; part++) {
        const int64_t behind = b->part_count - 1 - part; /* each wants a block */
        double seconds = 0;
        blocks_of_part[part] = 0;
        while (block < b->block_count - behind) {
            seconds += b->forward_seconds[block] + b->backward_seconds[block];
            if (blocks_of_part[part] > 0 && seconds > limit) break;
            blocks_of_part[part]++;
            block++;
        }
    }
    return block == b->block_count;
}

static int bottleneck_plan(struct ballast_blocks *b, const double *parameters,
                           int64_t *blocks_of_part) {
    (void)parameters;
    double low = 0, high = 0;
    for (int64_t i = 0; i < b->block_count; i++)
        high += b->forward_seconds[i] + b->backward_seconds[i];
    for (int step = 0; step < 60; step++) {
        const double middle = (low + high) / 2;
        if (fill(b, middle, blocks_of_part))
            high = middle;
        else
            low = middle;
    }
    return fill(b, high, blocks_of_part);
}

static const struct ballast_partition partitions[] = {
    { "bottleneck", "parts whose slowest is as fast as can be", NULL, 0, bottleneck_plan },
};

/* ---- schedule: 1F1B that starts more micro-batches early, to hide the sends ---- */

static void eager_order(const struct ballast_place *place, struct ballast_pass *passes) {
    const int64_t count = place->micro_batch_count;
    int64_t ahead = 2 * (place->stage_count - place->stage) - 1, forward = 0, backward = 0, at = 0;
    if (ahead > count) ahead = count;
    while (backward < count) {
        if (forward < count && forward < backward + ahead)
            passes[at++] = (struct ballast_pass){ (int32_t)forward++, 0, 0 };
        else
            passes[at++] = (struct ballast_pass){ (int32_t)backward++, 0, 1 };
    }
}

static const struct ballast_schedule schedules[] = {
    { "eager-1f1b", "1F1B with twice the micro-batches in flight", 0, eager_order },
};

/* ---- the plug-in ---- */

const struct ballast_plugin *ballast_plugin(void) {
    static const struct ballast_plugin plugin = {
        .api_version = BALLAST_API_VERSION,
        .batching = batching,
        .batching_count = 1,
        .partitions = partitions,
        .partition_count = 1,
        .schedules = schedules,
        .schedule_count = 1,
    };
    return &plugin;
}
