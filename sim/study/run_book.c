/* run_book.c - a list of runs with questions, answered by a parallel loop.
 *
 * Without a store all runs are one loop. A store belongs to one thread, so with one the loop works in
 * rounds: the calling thread stores what a round has simulated. */
#include "sim/study/run_book.h"

#include <math.h>
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
    bool replayed; /* some question needs the epoch */
    struct execution *execution;
    struct error err;
    bool failed;
    /* answers */
    struct arena *arena; /* owned; made by the thread that runs it */
    double band_fraction;
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
        execution_destroy(book->entries[i].execution);
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
    book->entries[book->count] =
        (struct entry){ .run = *run, .band_fraction = NAN, .run_id = -1, .overflowing_stage = -1 };
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
    return e->question_count++;
}

int64_t run_book_count(const struct run_book *book) {
    return book->count;
}

/* ---- simulating ---- */

struct loop {
    struct run_book *book;
    const struct run_book_options *options;
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
        e->band_fraction = replay->band_fraction;
        if (replay->verdict == VERDICT_OUT_OF_MEMORY) e->overflowing_stage = replay->verdict_stage;
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
    int_least64_t first = atomic_load(&loop->first_failed);
    while (run < first && !atomic_compare_exchange_weak(&loop->first_failed, &first, run)) {
    }
}

static void simulate_one(void *context, int64_t index, int thread_index) {
    struct loop *loop = context;
    int64_t run = loop->first + index;
    struct entry *e = &loop->book->entries[run];
    if (run > atomic_load(&loop->first_failed)) return; /* the answer is an error already */
    e->arena = arena_create();
    struct scenario_options options = { .directory = loop->book->options->directory,
                                        .overrides = all_overrides(loop->book, e) };
    /* One thread each, unless this run is alone. */
    struct replay_options replay = { .threads = loop->threads };
    e->execution = e->replayed ? execution_run(&options, e->run.path, &replay, &e->err)
                               : execution_prepare(&options, e->run.path, &e->err);
    e->failed = e->execution == NULL;
    if (!e->failed) take_answers(e);
    if (e->failed && !loop->options->keep_going) note_failure(loop, run);
    if (!loop->keep) {
        execution_destroy(e->execution);
        e->execution = NULL;
    }
    int64_t done = atomic_fetch_add(&loop->done, 1) + 1;
    if (thread_index == 0 && loop->options->progress != NULL)
        loop->options->progress(loop->options->progress_context, done, loop->total);
}

static bool store_round(struct loop *loop, int64_t count, struct error *err) {
    for (int64_t i = loop->first; i < loop->first + count; i++) {
        struct entry *e = &loop->book->entries[i];
        if (e->failed && !loop->options->keep_going) {
            *err = e->err;
            return false;
        }
        if (loop->keep && e->replayed && !e->failed &&
            !execution_store(loop->options->store, e->execution, loop->options->provenance,
                             &e->run_id, err))
            return false;
        execution_destroy(e->execution);
        e->execution = NULL;
    }
    return true;
}

bool run_book_simulate(struct run_book *book, const struct run_book_options *options,
                       struct error *err) {
    struct thread_pool *pool = thread_pool_create(options->threads);
    int threads = thread_pool_thread_count(pool);
    struct loop loop = { .book = book,
                         .options = options,
                         .total = book->count,
                         .threads = book->count == 1 ? threads : 1,
                         .keep = options->store != NULL,
                         .first_failed = INT64_MAX };
    int64_t round = loop.keep ? 2 * threads : book->count;
    bool ok = true;
    for (; ok && loop.first < book->count; loop.first += round) {
        int64_t left = book->count - loop.first, count = left < round ? left : round;
        thread_pool_run(pool, count, simulate_one, &loop);
        ok = store_round(&loop, count, err);
    }
    thread_pool_destroy(pool);
    return ok;
}

/* ---- answers ---- */

double run_book_value(const struct run_book *book, int64_t run, int64_t slot) {
    return book->entries[run].questions[slot].answer;
}

double run_book_band(const struct run_book *book, int64_t run) {
    return book->entries[run].band_fraction;
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
