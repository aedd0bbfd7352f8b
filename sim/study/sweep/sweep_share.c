/* sweep_share.c - lists by key. There are tens to hundreds of things for tens of thousands of
 * configurations, and neighbours in a sweep mostly share theirs, so a list with the last found
 * first is fast. */
#include "sim/study/sweep/sweep_share.h"

#include <stdlib.h>
#include <string.h>

enum { PRICES_KEPT = 128 }; /* one or two megabytes each */

struct shared_list {
    struct shared **items;
    int64_t count, capacity;
};

struct sweep_share {
    struct arena *keys;
    int64_t race_iterations, round;
    struct shared_list lists[SHARE_KIND_COUNT];
};

struct sweep_share *sweep_share_create(int64_t race_iterations) {
    struct sweep_share *share = memory_alloc(sizeof *share);
    *share = (struct sweep_share){ .keys = arena_create(), .race_iterations = race_iterations };
    return share;
}

static void shared_free(struct shared *thing) {
    job_destroy(thing->job);
    price_table_destroy(thing->prices);
    arena_destroy(thing->arena);
    free((char *)thing->key);
    free(thing);
}

void sweep_share_destroy(struct sweep_share *share) {
    if (share == NULL) return;
    for (int kind = SHARE_KIND_COUNT - 1; kind >= 0; kind--) {
        for (int64_t i = 0; i < share->lists[kind].count; i++)
            shared_free(share->lists[kind].items[i]);
        free(share->lists[kind].items);
    }
    arena_destroy(share->keys);
    free(share);
}

/* Moves what is found to the front by one place: what is asked for often comes to stand first. */
static struct shared *find(struct shared_list *list, const char *key) {
    for (int64_t i = 0; i < list->count; i++) {
        struct shared *thing = list->items[i];
        if (strcmp(thing->key, key) != 0) continue;
        if (i > 0) {
            list->items[i] = list->items[i / 2];
            list->items[i / 2] = thing;
        }
        return thing;
    }
    return NULL;
}

static struct shared *find_or_add(struct sweep_share *share, enum share_kind kind, const char *key,
                                  const struct scenario *scenario, struct shared *data,
                                  struct shared *batches) {
    struct shared_list *list = &share->lists[kind];
    struct shared *thing = find(list, key);
    if (thing == NULL) {
        if (list->count == list->capacity) {
            list->capacity = list->capacity > 0 ? 2 * list->capacity : 64;
            list->items = memory_realloc(list->items, sizeof *list->items * (size_t)list->capacity);
        }
        thing = memory_alloc(sizeof *thing);
        *thing = (struct shared){
            .key = strdup(key), .kind = kind, .scenario = scenario, .data = data, .batches = batches
        };
        list->items[list->count++] = thing;
    }
    thing->used_round = share->round;
    return thing;
}

struct shared *sweep_share_data(struct sweep_share *share, const struct scenario *scenario) {
    arena_reset(share->keys);
    return find_or_add(share, SHARE_DATA, job_data_key(share->keys, scenario), scenario, NULL,
                       NULL);
}

struct shared *sweep_share_batches(struct sweep_share *share, const struct scenario *scenario,
                                   struct shared *data) {
    arena_reset(share->keys);
    return find_or_add(share, SHARE_BATCHES, job_batch_key(share->keys, scenario), scenario, data,
                       NULL);
}

struct shared *sweep_share_prices(struct sweep_share *share, const struct scenario *scenario,
                                  struct shared *batches) {
    arena_reset(share->keys);
    const char *key =
        arena_format(share->keys, "%p %s", (void *)batches, price_table_key(share->keys, scenario));
    return find_or_add(share, SHARE_PRICES, key, scenario, batches->data, batches);
}

/* ---- making ---- */

/* Work of one rank in one iteration, without sends, recomputation and waiting. */
static int64_t busiest_rank_ns(const struct scenario *s, const struct job *batched,
                               const struct price_table *prices) {
    int64_t layers[LAYER_KIND_COUNT] = { 0 }, count = s->micro_batches_per_rank, most = 0;
    for (int64_t i = 0; i < s->model->layer_count; i++)
        layers[s->model->layers[i].kind]++;
    int64_t iterations = batched->batches.per_rank / count;
    for (int64_t rank = 0; rank < batched->batches.rank_count; rank++) {
        int64_t sum = 0;
        for (int64_t i = 0; i < iterations * count; i++)
            for (int kind = 0; kind < LAYER_KIND_COUNT; kind++) {
                struct layer_time time;
                price_table_layer(prices, (enum layer_kind)kind,
                                  &batched->shapes[rank * batched->batches.per_rank + i], &time);
                sum += layers[kind] * (time.forward_ns + time.backward_ns);
            }
        if (sum / iterations > most) most = sum / iterations;
    }
    return most;
}

static void make_prices(struct shared *thing) {
    const struct job *batched = thing->batches->job;
    int64_t count = batched->batches.rank_count * batched->batches.per_rank;
    thing->arena = arena_create();
    thing->prices = price_table_create(thing->arena, thing->scenario);
    price_table_keep_sums(thing->prices);
    price_table_prepare(thing->prices, batched->shapes, count);
    price_table_prepare(thing->prices, &batched->typical, 1);
    price_table_prepare(thing->prices, &batched->largest, 1);
    for (int64_t i = 0; i < batched->window_count; i++)
        price_table_prepare(thing->prices, &batched->windows[i].shape, 1);
    price_table_memorise(thing->prices, batched->shapes, count);
    /* Rules for single blocks may make them cheaper than others: no bound then. */
    if (price_table_variant_count(thing->prices) == 0)
        thing->work_ns = busiest_rank_ns(thing->scenario, batched, thing->prices);
}

struct filling {
    struct sweep_share *share;
    struct shared **missing;
};

static void fill_one(void *context, int64_t index, int thread_index) {
    (void)thread_index;
    struct filling *filling = context;
    struct shared *thing = filling->missing[index];
    const struct shared *below = thing->batches != NULL ? thing->batches : thing->data;
    if (below != NULL && below->err.text[0] != '\0')
        thing->err = below->err;
    else if (thing->kind == SHARE_DATA)
        thing->job = job_load(thing->scenario, &thing->err);
    else if (thing->kind == SHARE_BATCHES)
        thing->job = job_batch(thing->scenario, thing->data->job, filling->share->race_iterations,
                               &thing->err);
    else
        make_prices(thing);
    thing->done = true;
    thing->scenario = NULL;
}

void sweep_share_fill(struct sweep_share *share, enum share_kind kind, struct thread_pool *pool) {
    struct shared_list *list = &share->lists[kind];
    if (list->count == 0) return;
    struct filling filling = { share, memory_alloc(sizeof *filling.missing * (size_t)list->count) };
    int64_t missing = 0;
    for (int64_t i = 0; i < list->count; i++)
        if (!list->items[i]->done) filling.missing[missing++] = list->items[i];
    thread_pool_run(pool, missing, fill_one, &filling);
    free(filling.missing);
}

void sweep_share_end_round(struct sweep_share *share) {
    struct shared_list *list = &share->lists[SHARE_PRICES];
    int64_t kept = 0, count = list->count;
    for (int64_t i = 0; i < count && count > PRICES_KEPT; i++) {
        struct shared *thing = list->items[i];
        if (thing->used_round < share->round)
            shared_free(thing);
        else
            list->items[kept++] = thing;
    }
    if (count > PRICES_KEPT) list->count = kept;
    share->round++;
}
