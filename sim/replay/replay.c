/* replay.c - a parallel loop over iterations, whose sums are merged in iteration order. */
#include "sim/replay/replay.h"

#include <math.h>
#include <stdatomic.h>
#include <stdlib.h>
#include <string.h>
#include "sim/base/random.h"
#include "sim/base/thread_pool.h"
#include "sim/base/units.h"
#include "sim/base/wall_clock.h"
#include "sim/replay/breakdown.h"
#include "sim/replay/job_data.h"
#include "sim/replay/rank_rounds.h"
#include "sim/replay/replay_summary.h"

/* Keeps the stream of stragglers apart from others of the same seed. */
#define STRAGGLER_STREAM 0x73747261676cu

static const char *const class_names[REPLAY_CLASS_COUNT] = {
    [REPLAY_COMPUTE] = "compute",
    [REPLAY_PADDING] = "padding",
    [REPLAY_RECOMPUTE] = "recompute",
    [REPLAY_LAUNCH] = "launch waits",
    [REPLAY_TENSOR] = "tensor-parallel communication",
    [REPLAY_CONTEXT] = "context-parallel communication",
    [REPLAY_HOST_COPY] = "host copies",
    [REPLAY_SEND] = "pipeline sends",
    [REPLAY_BUBBLE] = "pipeline bubble",
    [REPLAY_STAGE_IMBALANCE] = "imbalance between stages",
    [REPLAY_TIME_IMBALANCE] = "imbalance over time",
    [REPLAY_RANK_IMBALANCE] = "imbalance between ranks",
    [REPLAY_DATA] = "data-parallel communication",
    [REPLAY_UPDATE] = "optimizer and parameter gather",
    [REPLAY_LOADING] = "data loading",
};

const char *replay_class_name(enum replay_class class) {
    return class_names[class];
}

bool replay_class_is_rare(enum replay_class class) {
    return class == REPLAY_CONTEXT || class == REPLAY_HOST_COPY || class == REPLAY_LOADING ||
           class == REPLAY_LAUNCH;
}

static const char *const verdict_names[] = { "fits", "tight", "out of memory" };

const char *verdict_name(enum verdict verdict) {
    return verdict_names[verdict];
}

struct part_sums {
    ns_sum forward_ns, backward_ns, recompute_ns;
};

struct stage_sums {
    ns_sum busy_ns;
    double peak_bytes, least_bytes;
    struct stage_memory peak, least;
    int64_t peak_iteration, peak_rank, least_iteration, least_rank;
};

struct worker {
    struct step_runner *runner;
    struct stage_sums *stages;
    struct part_sums *parts;
    struct layer_time (*locked)[LAYER_KIND_COUNT]; /* by micro-batch; only with sharding */
    int64_t *backward_ns;                          /* by stage: mean backward of the slowest rank */
    int64_t *begin_ns;                             /* by rank: its samples are loaded */
    struct rank_rounds *rounds;                    /* only with an iteration planner */
    /* Of samples of one length steps are alike: what ran last, and what was locked; NULL: nothing */
    const struct batch_shape *last_shapes;
    struct step_slowness last_slowness;
    struct rank_outcome last_outcome;
    int64_t locked_iteration; /* -1: none */
    struct error err;
    bool failed;
    int64_t failed_iteration;
};

struct loop {
    const struct job *job;
    const struct replay_options *options;
    struct replay *replay;
    struct iteration_sums *sums;
    struct worker *workers;
    double *peak_bytes; /* iteration x rank: of its fullest GPU */
    int64_t *finish_ns; /* thread x stage: latest finish over ranks */
    int64_t update_ns;
    atomic_int_least64_t done;
};

/* How long a forward lasts: its kernels, and as many of the waits for launches as are its own. The host
 * launches a forward and its backward alike (host_forward_us and host_backward_us of the stacks), and
 * the cost has the waits of both behind the backward. */
static int64_t forward_window_ns(const struct stage_cost *cost) {
    return cost->forward_ns + cost->backward_wait_ns / 2;
}

/* The update of the slowest stage, after what hides behind the next step's first forward. */
static int64_t exposed_update_ns(const struct job *job) {
    struct layer_time times[LAYER_KIND_COUNT];
    step_layer_times(job->step, &job->typical, times);
    int64_t most = 0;
    for (int64_t stage = 0; stage < job->step->stage_count; stage++) {
        struct stage_cost cost;
        step_stage_cost(job->step, stage, &job->typical, times, NULL, &cost);
        int64_t ns = step_exposed_update_ns(job->step, stage, forward_window_ns(&cost));
        if (ns > most) most = ns;
    }
    return most;
}

static const struct stage_sums no_sums = { .peak_bytes = -1,
                                           .least_bytes = INFINITY,
                                           .peak_iteration = INT64_MAX,
                                           .least_iteration = INT64_MAX };

static bool earlier(int64_t iteration, int64_t rank, int64_t than_iteration, int64_t than_rank) {
    return iteration < than_iteration || (iteration == than_iteration && rank < than_rank);
}

/* The most and the least of all peaks; of equal ones the earliest, so that threads do not matter.
 * (Equal sums may be made of different classes.) */
static void keep_peak(struct stage_sums *sums, double bytes, const struct stage_memory *memory,
                      int64_t iteration, int64_t rank) {
    if (bytes < sums->peak_bytes) return;
    if (bytes == sums->peak_bytes &&
        !earlier(iteration, rank, sums->peak_iteration, sums->peak_rank))
        return;
    sums->peak_bytes = bytes;
    sums->peak = *memory;
    sums->peak_iteration = iteration;
    sums->peak_rank = rank;
}

static void keep_least(struct stage_sums *sums, double bytes, const struct stage_memory *memory,
                       int64_t iteration, int64_t rank) {
    if (bytes > sums->least_bytes) return;
    if (bytes == sums->least_bytes &&
        !earlier(iteration, rank, sums->least_iteration, sums->least_rank))
        return;
    sums->least_bytes = bytes;
    sums->least = *memory;
    sums->least_iteration = iteration;
    sums->least_rank = rank;
}

/* How slow a data-parallel rank is in an iteration. Whether it straggles is drawn from a stream of
 * its own, so that scenarios that differ in layout alone have the same stragglers. */
static struct step_slowness slowness_of(const struct job *job, int64_t iteration, int64_t rank) {
    const struct scenario *s = job->scenario;
    const struct scenario_what_if *w = &s->what_if;
    struct step_slowness slow = { .rank = 1,
                                  .stage_factor = 1,
                                  .link_factor = w->slow_link_factor,
                                  .link_stage = w->slow_link_stage };
    if (rank == w->slow_gpu_rank) {
        slow.stage = w->slow_gpu_stage;
        slow.stage_factor = w->slow_gpu_factor;
    }
    if (w->straggler_fraction > 0 && w->straggler_factor > 1) {
        uint64_t index = (uint64_t)iteration * (uint64_t)s->layout.dp + (uint64_t)rank;
        uint32_t draw =
            random_stream_seed((uint64_t)s->simulate_fields.seed ^ STRAGGLER_STREAM, index);
        if ((double)draw < w->straggler_fraction * 4294967296.0) slow.rank = w->straggler_factor;
    }
    return slow;
}

static const struct batch_shape *shapes_of(const struct job *job, int64_t iteration, int64_t rank) {
    return job->shapes + rank * job->batches.per_rank +
           iteration * job->scenario->micro_batches_per_rank;
}

static bool shapes_equal(const struct job *job, const struct batch_shape *a,
                         const struct batch_shape *b) {
    return memcmp(a, b, sizeof *a * (size_t)job->scenario->micro_batches_per_rank) == 0;
}

static bool slowness_equal(const struct step_slowness *a, const struct step_slowness *b) {
    return a->rank == b->rank && a->stage_factor == b->stage_factor &&
           a->link_factor == b->link_factor && a->stage == b->stage &&
           a->link_stage == b->link_stage;
}

/* All ranks hold in one iteration what they hold in the other, and none is slower. */
static bool iterations_equal(const struct job *job, int64_t a, int64_t b) {
    for (int64_t rank = 0; rank < job->batches.rank_count; rank++) {
        const struct step_slowness slow_a = slowness_of(job, a, rank),
                                   slow_b = slowness_of(job, b, rank);
        if (!slowness_equal(&slow_a, &slow_b) ||
            !shapes_equal(job, shapes_of(job, a, rank), shapes_of(job, b, rank)))
            return false;
    }
    return true;
}

/* Collectives of ZeRO-2 and 3 hold the ranks together: each layer takes what its slowest rank
 * takes. */
static void lock_ranks(struct loop *loop, int64_t index, int thread_index) {
    const struct job *job = loop->job;
    struct worker *worker = &loop->workers[thread_index];
    int64_t count = job->scenario->micro_batches_per_rank;
    if (worker->locked_iteration >= 0 && iterations_equal(job, worker->locked_iteration, index))
        return;
    worker->locked_iteration = index;
    worker->last_shapes = NULL;
    memset(worker->locked, 0, sizeof *worker->locked * (size_t)count);
    const struct batch_shape *timed = NULL;
    double timed_factor = 1;
    struct layer_time timed_times[LAYER_KIND_COUNT];
    for (int64_t rank = 0; rank < job->batches.rank_count; rank++) {
        const struct batch_shape *shapes = shapes_of(job, index, rank);
        struct step_slowness slow = slowness_of(job, index, rank);
        struct step_model own = *job->step;
        own.slow_factor = slow.stage_factor; /* sharded: the only stage */
        for (int64_t i = 0; i < count; i++) {
            struct layer_time times[LAYER_KIND_COUNT];
            if (timed == NULL || timed_factor != own.slow_factor ||
                memcmp(timed, &shapes[i], sizeof *timed) != 0) {
                step_layer_times(&own, &shapes[i], timed_times);
                timed = &shapes[i];
                timed_factor = own.slow_factor;
            }
            memcpy(times, timed_times, sizeof times);
            for (int kind = 0; kind < LAYER_KIND_COUNT; kind++) {
                struct layer_time *most = &worker->locked[i][kind];
                layer_time_straggle(&times[kind], slow.rank);
                if (times[kind].forward_ns > most->forward_ns)
                    most->forward_ns = times[kind].forward_ns;
                if (times[kind].backward_ns > most->backward_ns)
                    most->backward_ns = times[kind].backward_ns;
                for (int how = 0; how < RECOMPUTE_KIND_COUNT; how++)
                    if (times[kind].recompute_ns[how] > most->recompute_ns[how])
                        most->recompute_ns[how] = times[kind].recompute_ns[how];
            }
        }
    }
    step_runner_lock(worker->runner, (const struct layer_time(*)[LAYER_KIND_COUNT])worker->locked);
}

/* Where a thread runs the ranks of an iteration. */
struct iteration_place {
    struct loop *loop;
    struct worker *worker;
    int64_t index;
};

static bool run_rank(void *context, int64_t rank, int64_t enough_ns, struct rank_outcome *outcome) {
    const struct iteration_place *at = context;
    const struct job *job = at->loop->job;
    const int64_t count = job->scenario->micro_batches_per_rank;
    const struct step_slowness slow = slowness_of(job, at->index, rank);
    step_runner_slow(at->worker->runner, &slow);
    step_runner_enough(at->worker->runner, enough_ns);
    if (step_run_rank(at->worker->runner, at->loop->options->fidelity,
                      shapes_of(job, at->index, rank), count, outcome, &at->worker->err))
        return true;
    at->worker->failed = true;
    at->worker->failed_iteration = at->index;
    return false;
}

/* What a rank does hangs on what it holds, how slow it is and what is locked alone. */
static bool run_rank_once(struct iteration_place *at, int64_t rank, struct rank_outcome *outcome) {
    struct worker *worker = at->worker;
    const struct job *job = at->loop->job;
    const struct batch_shape *shapes = shapes_of(job, at->index, rank);
    const struct step_slowness slow = slowness_of(job, at->index, rank);
    if (worker->last_shapes == NULL || !slowness_equal(&worker->last_slowness, &slow) ||
        !shapes_equal(job, worker->last_shapes, shapes)) {
        worker->last_shapes = NULL;
        if (!run_rank(at, rank, 0, &worker->last_outcome)) return false;
        worker->last_shapes = shapes;
        worker->last_slowness = slow;
    }
    *outcome = worker->last_outcome;
    return true;
}

static void add_rank(const struct iteration_place *at, int64_t rank, int64_t begin_ns,
                     const struct rank_outcome *outcome, int64_t *finish_ns) {
    struct worker *worker = at->worker;
    struct iteration_outcome *out = &at->loop->replay->iterations[at->index];
    struct iteration_sums *sums = &at->loop->sums[at->index];
    const struct step_model *step = at->loop->job->step;
    const int64_t count = at->loop->job->scenario->micro_batches_per_rank;
    const int64_t end_ns = begin_ns + outcome->makespan_ns;
    double *peak_bytes =
        &at->loop->peak_bytes[at->index * at->loop->job->batches.rank_count + rank];
    if (step->iteration_planner != NULL) {
        const int64_t planner_ns = ns_from_seconds(outcome->planner_s);
        if (planner_ns > out->planner_ns) out->planner_ns = planner_ns;
        sums->timed = sums->timed || outcome->planner_timed;
        sums->left_ranks += outcome->planner_left;
    }
    sums->loading_ns += begin_ns;
    if (end_ns > out->slowest_rank_ns) {
        out->slowest_rank_ns = end_ns;
        out->slowest_rank = rank;
    }
    if (end_ns < out->fastest_rank_ns) out->fastest_rank_ns = end_ns;
    for (int64_t stage = 0; stage < step->stage_count; stage++) {
        struct stage_sums *stage_sums = &worker->stages[stage];
        if (begin_ns + outcome->finish_ns[stage] > finish_ns[stage]) {
            finish_ns[stage] = begin_ns + outcome->finish_ns[stage];
            worker->backward_ns[stage] = outcome->backward_ns[stage] / count;
        }
        stage_sums->busy_ns += outcome->busy_ns[stage];
        sums->pipeline_idle_ns += outcome->makespan_ns - outcome->busy_ns[stage];
        const struct stage_memory *memory = &outcome->memory[stage];
        const double bytes = stage_memory_device(memory);
        keep_peak(stage_sums, bytes, memory, at->index, rank);
        keep_least(stage_sums, bytes, memory, at->index, rank);
        *peak_bytes = fmax(*peak_bytes, bytes);
    }
    for (int64_t part = 0; part < step->part_count; part++) {
        worker->parts[part].forward_ns += outcome->forward_ns[part];
        worker->parts[part].backward_ns += outcome->backward_ns[part];
        worker->parts[part].recompute_ns += outcome->recompute_ns[part];
    }
    for (int class = 0; class < TIME_CLASS_COUNT; class ++)
        sums->class_ns[class] += outcome->class_ns[class];
    sums->model_flop += outcome->model_flop;
    sums->recompute_flop += outcome->recompute_flop;
}

static void count_data(const struct batch_shape *shapes, int64_t count,
                       struct iteration_outcome *out) {
    for (int64_t i = 0; i < count; i++) {
        out->samples += shapes[i].samples;
        out->language_tokens += shapes[i].language_tokens;
        out->useful_language_tokens += shapes[i].useful_language_tokens;
        out->vision_tiles += shapes[i].vision_tiles;
    }
}

static void replay_iteration(void *context, int64_t index, int thread_index) {
    struct loop *loop = context;
    const struct job *job = loop->job;
    struct worker *worker = &loop->workers[thread_index];
    if (worker->failed) return;
    int64_t stages = job->step->stage_count, dp = job->batches.rank_count;
    int64_t count = job->scenario->micro_batches_per_rank;
    int64_t *finish = loop->finish_ns + thread_index * stages;
    struct iteration_outcome *out = &loop->replay->iterations[index];
    struct iteration_sums *sums = &loop->sums[index];
    struct iteration_place at = { loop, worker, index };
    *out = (struct iteration_outcome){ .fastest_rank_ns = INT64_MAX, .planner_ns = -1 };
    for (int64_t stage = 0; stage < stages; stage++)
        finish[stage] = 0;
    ns_sum makespan_sum = 0;
    int64_t latest_load = 0;
    bool loads_first = !job->scenario->what_if.data_loading_overlaps;
    if (job->step->sharded) lock_ranks(loop, index, thread_index);
    for (int64_t rank = 0; rank < dp; rank++) {
        const struct batch_shape *shapes = shapes_of(job, index, rank);
        const int64_t load = job_loading_ns(job, shapes, count);
        if (load > latest_load) latest_load = load;
        worker->begin_ns[rank] = loads_first ? load : 0;
        count_data(shapes, count, out);
    }
    if (worker->rounds != NULL && !rank_rounds_run(worker->rounds, run_rank, &at, worker->begin_ns))
        return;
    for (int64_t rank = 0; rank < dp; rank++) {
        struct rank_outcome own;
        const struct rank_outcome *outcome = &own;
        if (worker->rounds != NULL)
            outcome = rank_rounds_outcome(worker->rounds, rank);
        else if (!run_rank_once(&at, rank, &own))
            return;
        makespan_sum += worker->begin_ns[rank] + outcome->makespan_ns;
        add_rank(&at, rank, worker->begin_ns[rank], outcome, finish);
    }
    sums->rank_wait_ns = ((ns_sum)out->slowest_rank_ns * dp - makespan_sum) * stages;
    int64_t reduced = 0;
    for (int64_t stage = 0; stage < stages; stage++) {
        int64_t end =
            finish[stage] + step_exposed_reduce_ns(job->step, stage, worker->backward_ns[stage]);
        if (end > reduced) reduced = end;
    }
    if (reduced < out->slowest_rank_ns) reduced = out->slowest_rank_ns;
    out->step_time_ns = reduced + loop->update_ns;
    sums->slowest_loading_ns = latest_load;
    /* Beside this step the next one's samples are loaded; it cannot begin without them. */
    if (!loads_first && latest_load > out->step_time_ns) {
        sums->late_loading_ns = latest_load - out->step_time_ns;
        out->step_time_ns = latest_load;
    }
    int64_t done = atomic_fetch_add(&loop->done, 1) + 1;
    if (thread_index == 0 && loop->options->progress != NULL)
        loop->options->progress(loop->options->progress_context, done,
                                loop->replay->iteration_count);
}

static void merge_stages(const struct job *job, struct replay *replay, const struct loop *loop,
                         int threads) {
    double scale = 1 / ((double)(replay->iteration_count * job->batches.rank_count) * NS_PER_S);
    for (int64_t stage = 0; stage < replay->stage_count; stage++) {
        struct stage_sums all = no_sums;
        for (int t = 0; t < threads; t++) {
            const struct stage_sums *one = &loop->workers[t].stages[stage];
            all.busy_ns += one->busy_ns;
            keep_peak(&all, one->peak_bytes, &one->peak, one->peak_iteration, one->peak_rank);
            keep_least(&all, one->least_bytes, &one->least, one->least_iteration, one->least_rank);
        }
        struct schedule_place place = { stage, replay->stage_count, job->plan.chunk_count,
                                        job->scenario->micro_batches_per_rank,
                                        job->scenario->backend->fills_one_round };
        replay->stages[stage] = (struct stage_outcome){
            .busy_s = (double)all.busy_ns * scale,
            .peak = all.peak,
            .least = all.least,
            .peak_iteration = all.peak_iteration,
            .peak_rank = all.peak_rank,
            .in_flight = job->plan.schedule->in_flight(&place),
        };
    }
    for (int64_t part = 0; part < replay->part_count; part++) {
        struct part_sums all = { 0 };
        for (int t = 0; t < threads; t++) {
            all.forward_ns += loop->workers[t].parts[part].forward_ns;
            all.backward_ns += loop->workers[t].parts[part].backward_ns;
            all.recompute_ns += loop->workers[t].parts[part].recompute_ns;
        }
        struct stage_outcome *stage = &replay->stages[part % replay->stage_count];
        replay->part_forward_s[part] = (double)all.forward_ns * scale;
        replay->part_backward_s[part] = (double)all.backward_ns * scale;
        stage->forward_s += replay->part_forward_s[part];
        stage->backward_s += replay->part_backward_s[part];
        stage->recompute_s += (double)all.recompute_ns * scale;
    }
}

struct replay *replay_run(const struct job *job, const struct replay_options *options,
                          struct error *err) {
    const double start_s = wall_clock_s();
    struct arena *arena = arena_create();
    struct replay *replay = arena_new(arena, struct replay);
    replay->arena = arena;
    replay->fidelity = options->fidelity;
    replay->iteration_count = job->iteration_count;
    replay->stage_count = job->step->stage_count;
    replay->iterations = arena_array(arena, struct iteration_outcome, replay->iteration_count);
    replay->part_count = job->step->part_count;
    replay->stages = arena_array(arena, struct stage_outcome, replay->stage_count);
    replay->part_forward_s = arena_array(arena, double, replay->part_count);
    replay->part_backward_s = arena_array(arena, double, replay->part_count);

    struct thread_pool *pool = thread_pool_create(options->threads);
    int threads = thread_pool_thread_count(pool);
    struct loop loop = { .job = job, .options = options, .replay = replay };
    loop.update_ns = exposed_update_ns(job);
    loop.sums = arena_array(arena, struct iteration_sums, replay->iteration_count);
    loop.peak_bytes = arena_array(arena, double, replay->iteration_count * job->batches.rank_count);
    loop.workers = arena_array(arena, struct worker, threads);
    loop.finish_ns = arena_array(arena, int64_t, replay->stage_count * threads);
    for (int t = 0; t < threads; t++) {
        loop.workers[t].runner = step_runner_create(job->step);
        step_runner_times_only(loop.workers[t].runner, options->answer_only);
        loop.workers[t].locked_iteration = -1;
        loop.workers[t].backward_ns = arena_array(arena, int64_t, replay->stage_count);
        loop.workers[t].begin_ns = arena_array(arena, int64_t, job->batches.rank_count);
        if (job->step->iteration_planner != NULL)
            loop.workers[t].rounds = rank_rounds_create(arena, job->batches.rank_count, job->step);
        loop.workers[t].locked =
            job->step->sharded
                ? arena_alloc(arena, sizeof *loop.workers[t].locked *
                                         (size_t)job->scenario->micro_batches_per_rank)
                : NULL;
        loop.workers[t].parts = arena_array(arena, struct part_sums, replay->part_count);
        loop.workers[t].stages = arena_array(arena, struct stage_sums, replay->stage_count);
        for (int64_t stage = 0; stage < replay->stage_count; stage++)
            loop.workers[t].stages[stage] = no_sums;
    }
    thread_pool_run(pool, replay->iteration_count, replay_iteration, &loop);
    bool ok = true;
    int64_t failed_iteration = INT64_MAX;
    for (int t = 0; t < threads; t++) {
        step_runner_destroy(loop.workers[t].runner);
        /* Of several failures the earliest iteration's, so that threads do not choose the
         * message. */
        if (loop.workers[t].failed && loop.workers[t].failed_iteration < failed_iteration) {
            failed_iteration = loop.workers[t].failed_iteration;
            ok = false;
            if (err != NULL) *err = loop.workers[t].err;
        }
    }
    thread_pool_destroy(pool);
    if (ok) {
        merge_stages(job, replay, &loop, threads);
        replay_summarise(job, replay, loop.sums, loop.peak_bytes);
        ok = options->answer_only || replay_break_down(job, replay, loop.sums, loop.update_ns, err);
    }
    if (!ok) {
        replay_destroy(replay);
        return NULL;
    }
    replay->wall_s = wall_clock_s() - start_s;
    return replay;
}

void replay_destroy(struct replay *replay) {
    if (replay != NULL) arena_destroy(replay->arena);
}
