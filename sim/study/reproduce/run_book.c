/* run_book.c - a list of runs with questions, answered by a parallel loop.
 *
 * All scenarios are read first. Runs whose micro-batches are equal then stand in one bundle: a
 * thread batches them once, prices them once for each layout and kernel that asks, and simulates
 * one run of the bundle after the other. Data sets are shared between bundles and given back after
 * the last.
 *
 * Without a store all bundles are one loop, the largest first. A store belongs to one thread and
 * keeps the order of the runs, so with one each run is a bundle of its own, and the loop works in
 * rounds: the calling thread stores what a round has simulated. */
#include "sim/study/reproduce/run_book.h"

#include <math.h>
#include <pthread.h>
#include <stdatomic.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>
#include "sim/base/thread_pool.h"

struct question {
    const struct quantity *quantity;
    int64_t index;
    double answer;
};

struct entry {
    struct paper_run run;
    struct question *questions; /* owned, grows */
    int64_t question_count, question_capacity;
    bool replayed, classed;                       /* some question needs the epoch, its parts */
    struct scenario *scenario;                    /* until the execution takes it over */
    const char *data_key, *batch_key, *price_key; /* runs with equal keys share */
    struct execution *execution;
    struct error err;
    bool failed;
    /* answers */
    struct arena *arena; /* owned; made by the thread that runs it */
    struct band band;
    const char *data_status;
    const char **assumptions;
    int64_t run_id, overflowing_stage;
};

struct run_book {
    struct arena *arena;
    const struct scenario_options *options;
    struct entry *entries; /* owned, grows */
    int64_t count, capacity;
};

struct run_book *run_book_create(struct arena *arena, const struct scenario_options *options) {
    struct run_book *book = memory_alloc(sizeof *book);
    *book = (struct run_book){ .arena = arena, .options = options };
    return book;
}

void run_book_destroy(struct run_book *book) {
    if (book == NULL) return;
    for (int64_t i = 0; i < book->count; i++) {
        if (book->entries[i].arena != NULL) arena_destroy(book->entries[i].arena);
        free(book->entries[i].questions);
    }
    free(book->entries);
    free(book);
}

static bool same_run(const struct paper_run *a, const struct paper_run *b) {
    if (strcmp(a->path, b->path) != 0) return false;
    for (int64_t i = 0;; i++) {
        if (a->set[i] == NULL || b->set[i] == NULL) return a->set[i] == b->set[i];
        if (strcmp(a->set[i], b->set[i]) != 0) return false;
    }
}

int64_t run_book_add(struct run_book *book, const struct paper_run *run) {
    for (int64_t i = 0; i < book->count; i++)
        if (same_run(&book->entries[i].run, run)) return i;
    if (book->count == book->capacity) {
        book->capacity = book->capacity > 0 ? 2 * book->capacity : 32;
        book->entries =
            memory_realloc(book->entries, sizeof *book->entries * (size_t)book->capacity);
    }
    book->entries[book->count] = (struct entry){
        .run = *run, .band = band_even(NAN), .run_id = -1, .overflowing_stage = -1
    };
    return book->count++;
}

int64_t run_book_ask(struct run_book *book, int64_t run, const struct quantity *quantity,
                     int64_t index) {
    struct entry *e = &book->entries[run];
    for (int64_t i = 0; i < e->question_count; i++)
        if (e->questions[i].quantity->of == quantity->of && e->questions[i].index == index)
            return i;
    if (e->question_count == e->question_capacity) {
        e->question_capacity = e->question_capacity > 0 ? 2 * e->question_capacity : 8;
        e->questions =
            memory_realloc(e->questions, sizeof *e->questions * (size_t)e->question_capacity);
    }
    e->questions[e->question_count] =
        (struct question){ .quantity = quantity, .index = index, .answer = NAN };
    e->replayed = e->replayed || quantity->replayed;
    e->classed = e->classed || quantity->classed;
    return e->question_count++;
}

int64_t run_book_count(const struct run_book *book) {
    return book->count;
}

/* ---- what runs share ---- */

/* A data set, made by the first that needs it. */
struct shared_data {
    const char *key;
    pthread_mutex_t lock;
    int64_t users; /* bundles that have not ended */
    struct job *job;
    struct error err;
};

/* Layer times of a bundle's micro-batches. */
struct shared_prices {
    const char *key;
    struct arena *arena;
    struct price_table *table;
};

/* Runs with the same micro-batches. */
struct bundle {
    int64_t *runs, count;
    struct shared_data *data;
    struct job *batched;
    struct shared_prices prices; /* of the run that was last prepared */
};

static const struct job *borrow_data(struct shared_data *data, const struct scenario *scenario,
                                     struct error *err) {
    pthread_mutex_lock(&data->lock);
    if (data->job == NULL && data->err.text[0] == '\0') data->job = job_load(scenario, &data->err);
    pthread_mutex_unlock(&data->lock);
    if (data->job == NULL) *err = data->err;
    return data->job;
}

static void return_data(struct shared_data *data) {
    pthread_mutex_lock(&data->lock);
    if (--data->users == 0) {
        job_destroy(data->job);
        data->job = NULL;
    }
    pthread_mutex_unlock(&data->lock);
}

static void prices_end(struct shared_prices *prices) {
    if (prices->table == NULL) return;
    price_table_destroy(prices->table);
    arena_destroy(prices->arena);
    *prices = (struct shared_prices){ 0 };
}

/* Runs of a bundle that ask for the same prices stand side by side. */
static const struct price_table *prices_of(struct bundle *b, const struct entry *e) {
    if (b->prices.table != NULL && strcmp(b->prices.key, e->price_key) == 0) return b->prices.table;
    prices_end(&b->prices);
    const struct job *batched = b->batched;
    int64_t count = batched->batches.rank_count * batched->batches.per_rank;
    struct arena *arena = arena_create();
    struct price_table *table = price_table_create(arena, e->scenario);
    price_table_prepare(table, batched->shapes, count);
    price_table_prepare(table, &batched->typical, 1);
    price_table_prepare(table, &batched->largest, 1);
    price_table_memorise(table, batched->shapes, count);
    b->prices = (struct shared_prices){ e->price_key, arena, table };
    return table;
}

/* ---- simulating ---- */

struct loop {
    struct run_book *book;
    const struct run_book_options *options;
    struct scenario_options scenario; /* with a cache for all runs */
    struct shared_data *data;
    struct bundle *bundles;
    int64_t data_count, bundle_count;
    int64_t first, total;
    int threads;
    bool keep; /* for the store */
    atomic_int_least64_t done, first_failed;
};

/* The row's overrides, then the user's, which win. */
static const char *const *all_overrides(const struct run_book *book, const struct entry *e) {
    const char *const *own = e->run.set, *const *more = book->options->overrides;
    int64_t own_count = 0, more_count = 0;
    while (own[own_count] != NULL)
        own_count++;
    while (more != NULL && more[more_count] != NULL)
        more_count++;
    const char **list = arena_array(e->arena, const char *, own_count + more_count + 1);
    for (int64_t i = 0; i < own_count; i++)
        list[i] = own[i];
    for (int64_t i = 0; i < more_count; i++)
        list[own_count + i] = more[i];
    return list;
}

static void take_answers(struct entry *e) {
    const struct scenario *s = e->execution->scenario;
    const struct replay *replay = e->execution->replay;
    if (replay != NULL) {
        e->band = replay->band;
        /* Of the steps that a paper measured, not of the training that its scenario would be. */
        const struct stage_memory *peak = &replay->stages[replay->verdict_stage].peak;
        if (stage_memory_device(peak) > cost_model_gpu(s->cost_model)->hbm_bytes)
            e->overflowing_stage = replay->verdict_stage;
    }
    e->data_status = arena_text(e->arena, e->execution->job->dataset->status);
    int64_t count = 0;
    while (s->assumptions[count] != NULL)
        count++;
    e->assumptions = arena_array(e->arena, const char *, count + 1);
    for (int64_t i = 0; i < count; i++)
        e->assumptions[i] = arena_text(e->arena, s->assumptions[i]);
    struct quantity_source source = { .execution = e->execution, .arena = e->arena };
    for (int64_t i = 0; i < e->question_count; i++) {
        struct question *q = &e->questions[i];
        q->answer = q->quantity->of(&source, q->index);
        if (isnan(q->answer) && q->quantity->absent == NULL && !e->failed) {
            error_set(&e->err, "%s: the run has no %s%lld", e->run.path, q->quantity->name,
                      (long long)q->index + 1);
            e->failed = true;
        }
    }
}

static void note_failure(struct loop *loop, int64_t run) {
    if (loop->options->keep_going) return;
    int_least64_t first = atomic_load(&loop->first_failed);
    while (run < first && !atomic_compare_exchange_weak(&loop->first_failed, &first, run)) {
    }
}

static void load_one(void *context, int64_t run, int thread_index) {
    (void)thread_index;
    struct loop *loop = context;
    struct entry *e = &loop->book->entries[run];
    e->arena = arena_create();
    struct scenario_options options = loop->scenario;
    options.overrides = all_overrides(loop->book, e);
    options.removals = loop->book->options->removals;
    e->scenario = scenario_load(&options, e->run.path, &e->err);
    e->failed = e->scenario == NULL;
    if (e->failed) {
        note_failure(loop, run);
        return;
    }
    e->data_key = job_data_key(e->arena, e->scenario);
    e->batch_key = job_batch_key(e->arena, e->scenario);
    e->price_key = price_table_key(e->arena, e->scenario);
}

static bool simulate_run(const struct loop *loop, struct bundle *b, struct entry *e) {
    /* One thread each, unless this run is alone. */
    const struct replay_options replay = { .threads = loop->threads,
                                           .answer_only = !e->classed && !loop->keep };
    const struct job *data = borrow_data(b->data, e->scenario, &e->err);
    if (data == NULL) return false;
    if (b->batched == NULL) b->batched = job_batch(e->scenario, data, 0, &e->err);
    if (b->batched == NULL) return false;
    struct job *job = job_plan(e->scenario, b->batched, prices_of(b, e), &e->err);
    if (job == NULL) return false;
    e->execution = execution_of_job(e->scenario, job, e->replayed ? &replay : NULL, &e->err);
    e->scenario = NULL;
    if (e->execution == NULL) return false;
    take_answers(e);
    return !e->failed;
}

/* What the bundle holds rests on the scenario of its first run, so that all end together. */
static void bundle_end(struct loop *loop, struct bundle *b) {
    for (int64_t i = 0; i < b->count; i++) {
        struct entry *e = &loop->book->entries[b->runs[i]];
        execution_destroy(e->execution);
        scenario_destroy(e->scenario);
        e->execution = NULL;
        e->scenario = NULL;
    }
    prices_end(&b->prices);
    job_destroy(b->batched);
    b->batched = NULL;
    return_data(b->data);
}

static void simulate_bundle(void *context, int64_t index, int thread_index) {
    struct loop *loop = context;
    struct bundle *b = &loop->bundles[loop->first + index];
    for (int64_t i = 0; i < b->count; i++) {
        struct entry *e = &loop->book->entries[b->runs[i]];
        if (b->runs[i] > atomic_load(&loop->first_failed)) continue; /* an error already */
        e->failed = !simulate_run(loop, b, e);
        if (e->failed) note_failure(loop, b->runs[i]);
        int64_t done = atomic_fetch_add(&loop->done, 1) + 1;
        if (thread_index == 0 && loop->options->progress != NULL)
            loop->options->progress(loop->options->progress_context, done, loop->total);
    }
    if (!loop->keep) bundle_end(loop, b);
}

static bool store_round(struct loop *loop, int64_t count, struct error *err) {
    bool ok = true;
    for (int64_t i = loop->first; i < loop->first + count; i++) {
        struct entry *e = &loop->book->entries[loop->bundles[i].runs[0]];
        ok = ok && (!e->replayed || e->failed ||
                    execution_store(loop->options->store, e->execution, loop->options->provenance,
                                    &e->run_id, err));
        bundle_end(loop, &loop->bundles[i]);
    }
    return ok;
}

/* ---- bundles ---- */

struct ordered {
    const struct entry *entry;
    int64_t run;
};

static int by_sharing(const void *a, const void *b) {
    const struct ordered *x = a, *y = b;
    int order = strcmp(x->entry->batch_key, y->entry->batch_key);
    if (order == 0) order = strcmp(x->entry->price_key, y->entry->price_key);
    return order != 0 ? order : (x->run > y->run) - (x->run < y->run);
}

static int by_run(const void *a, const void *b) {
    const struct ordered *x = a, *y = b;
    return (x->run > y->run) - (x->run < y->run);
}

static int larger_first(const void *a, const void *b) {
    const struct bundle *x = a, *y = b;
    if (x->count != y->count) return x->count > y->count ? -1 : 1;
    return (x->runs[0] > y->runs[0]) - (x->runs[0] < y->runs[0]);
}

static struct shared_data *data_of(struct loop *loop, const char *key) {
    for (int64_t i = 0; i < loop->data_count; i++)
        if (strcmp(loop->data[i].key, key) == 0) return &loop->data[i];
    struct shared_data *data = &loop->data[loop->data_count++];
    *data = (struct shared_data){ .key = key };
    pthread_mutex_init(&data->lock, NULL);
    return data;
}

/* Runs that could be read, in bundles. */
static void make_bundles(struct loop *loop) {
    struct run_book *book = loop->book;
    struct arena *arena = book->arena;
    struct ordered *order = arena_array(arena, struct ordered, book->count + 1);
    int64_t count = 0;
    for (int64_t i = 0; i < book->count; i++)
        if (!book->entries[i].failed) order[count++] = (struct ordered){ &book->entries[i], i };
    qsort(order, (size_t)count, sizeof *order, loop->keep ? by_run : by_sharing);
    int64_t *runs = arena_array(arena, int64_t, count + 1);
    loop->bundles = arena_array(arena, struct bundle, count + 1);
    loop->data = arena_array(arena, struct shared_data, count + 1);
    for (int64_t i = 0; i < count; i++) {
        runs[i] = order[i].run;
        struct bundle *last = i > 0 ? &loop->bundles[loop->bundle_count - 1] : NULL;
        if (last != NULL && !loop->keep &&
            strcmp(order[i].entry->batch_key, order[i - 1].entry->batch_key) == 0) {
            last->count++;
            continue;
        }
        struct shared_data *data = data_of(loop, order[i].entry->data_key);
        data->users++;
        loop->bundles[loop->bundle_count++] = (struct bundle){ &runs[i], 1, data, NULL, { 0 } };
    }
    if (!loop->keep)
        qsort(loop->bundles, (size_t)loop->bundle_count, sizeof *loop->bundles, larger_first);
}

static bool simulate_bundles(struct loop *loop, struct thread_pool *pool, struct error *err) {
    int64_t round = loop->keep ? 2 * thread_pool_thread_count(pool) : loop->bundle_count;
    bool ok = true;
    for (; ok && loop->first < loop->bundle_count; loop->first += round) {
        int64_t left = loop->bundle_count - loop->first, count = left < round ? left : round;
        thread_pool_run(pool, count, simulate_bundle, loop);
        if (loop->keep) ok = store_round(loop, count, err);
        if (atomic_load(&loop->first_failed) < INT64_MAX) break;
    }
    return ok;
}

bool run_book_simulate(struct run_book *book, const struct run_book_options *options,
                       struct error *err) {
    struct thread_pool *pool = thread_pool_create(options->threads);
    struct scenario_cache *cache = scenario_cache_create();
    struct loop loop = { .book = book,
                         .options = options,
                         .scenario = { .directory = book->options->directory, .cache = cache },
                         .total = book->count,
                         .threads = book->count == 1 ? thread_pool_thread_count(pool) : 1,
                         .keep = options->store != NULL,
                         .first_failed = INT64_MAX };
    thread_pool_run(pool, book->count, load_one, &loop);
    make_bundles(&loop);
    bool ok = simulate_bundles(&loop, pool, err);
    int64_t failed = atomic_load(&loop.first_failed);
    if (ok && failed < INT64_MAX) *err = book->entries[failed].err;
    ok = ok && failed == INT64_MAX;
    for (int64_t i = 0; i < book->count; i++) { /* after a failure */
        execution_destroy(book->entries[i].execution);
        scenario_destroy(book->entries[i].scenario);
        book->entries[i].execution = NULL;
        book->entries[i].scenario = NULL;
    }
    for (int64_t i = 0; i < loop.bundle_count; i++) {
        prices_end(&loop.bundles[i].prices);
        job_destroy(loop.bundles[i].batched);
    }
    for (int64_t i = 0; i < loop.data_count; i++) {
        job_destroy(loop.data[i].job);
        pthread_mutex_destroy(&loop.data[i].lock);
    }
    scenario_cache_destroy(cache);
    thread_pool_destroy(pool);
    return ok;
}

/* ---- answers ---- */

double run_book_value(const struct run_book *book, int64_t run, int64_t slot) {
    return book->entries[run].questions[slot].answer;
}

struct band run_book_band(const struct run_book *book, int64_t run) {
    return book->entries[run].band;
}

int64_t run_book_run_id(const struct run_book *book, int64_t run) {
    return book->entries[run].run_id;
}

int64_t run_book_overflowing_stage(const struct run_book *book, int64_t run) {
    return book->entries[run].overflowing_stage;
}

const char *run_book_data_status(const struct run_book *book, int64_t run) {
    return book->entries[run].data_status;
}

const char *const *run_book_assumptions(const struct run_book *book, int64_t run) {
    return book->entries[run].assumptions;
}
