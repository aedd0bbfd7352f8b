/* exact.c - branch and bound over stage cuts, from the first stage to the last.
 *
 * Bound. Let stage s of P take f forward and b backward for each of m micro-batches, t = f + b, and
 * have at most k forwards ahead of its backwards. Before its first forward the stages before it run
 * one forward each, after its last backward one backward each:
 *
 *     T >= m t_s + sum over j < s of t_j
 *
 * Before its first backward it has run at most k forwards, and one micro-batch has gone through
 * itself and all stages behind it and back to it:
 *
 *     T >= m t_s - (k_s - 1) f_s + sum over j != s of t_j
 *
 * Both are paths in the task graph of any schedule with that k, so the largest over all stages
 * bounds the simulated iteration from below. For stages not yet cut, the least possible value of
 * the same expression comes from dynamic programming over (stage, first block). The partition that
 * attains it is simulated first, and improved by moving single blocks from stage to stage while
 * that helps, so that a search that is stopped has a good answer too; a branch is left when its
 * bound reaches the best simulation. With about as many micro-batches as stages the bounds are
 * loose.
 *
 * Sends lie on both paths. Recomputation enters through stage_costs: each stage is priced as the
 * job's policy completes it. The sum over stages behind s starts without recomputation; once there
 * is a partition to beat, it becomes the least sum of stages that are not too slow to beat it.
 */
#include "sim/policy/partition/exact.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>
#include "sim/policy/partition/partition.h"
#include "sim/policy/partition/stage_costs.h"

struct branch {
    double bound;
    int64_t count; /* blocks of the stage */
};

struct search {
    const struct planner_oracle *oracle;
    struct stage_costs *costs;
    struct error *err;
    int64_t block_count, stage_count, micro_batches, limit;
    const double *plain; /* forward and backward of all blocks before each, nothing recomputed */
    double *in_flight;   /* k of each stage */
    /* [stage x (block_count + 1) + block]: least time of one micro-batch through the stages from
     * there on, of those that a better partition can have */
    double *behind;
    double *rest; /* [stage x (block_count + 1) + block]: bound of the stages from there on */
    int64_t *rest_take;  /* blocks of the stage in the partition that attains it */
    struct branch *branches; /* block_count of each stage */
    int64_t *blocks, *best_blocks;
    double best;
    int64_t simulated;
    bool memory, failed, cut_short; /* memory: stages must fit */
};

/* Simulated times are whole ns, so what does not lie a ns below the best does not beat it. The
 * tenth of a ns is for the rounding of sums. */
static bool hopeless(const struct search *s, double bound_seconds) {
    return bound_seconds + 0.9e-9 >= s->best;
}

static const struct stage_choice *choice_of(struct search *s, int64_t stage, int64_t first,
                                            int64_t count) {
    const struct stage_choice *choice = stage_costs_of(s->costs, stage, first, count, s->err);
    if (choice == NULL) s->failed = true;
    return choice;
}

/* What a stage of time t asks of the iteration, counted from the end of the stages before it. */
static double own_bound(const struct search *s, int64_t stage, const struct stage_choice *choice,
                        int64_t end) {
    double time = choice->forward_seconds + choice->backward_seconds;
    double behind = s->behind[(stage + 1) * (s->block_count + 1) + end];
    double hidden = (s->in_flight[stage] - 1) * choice->forward_seconds;
    return (double)s->micro_batches * time + choice->send_backward_seconds +
           fmax(0, behind + choice->send_forward_seconds - hidden);
}

/* One micro-batch through the stage and back, to and from the next. */
static double through(const struct stage_choice *choice) {
    return choice->forward_seconds + choice->backward_seconds + choice->send_forward_seconds +
           choice->send_backward_seconds;
}

static int64_t last_count(const struct search *s, int64_t stage, int64_t first) {
    return s->block_count - first - (s->stage_count - stage - 1);
}

static int64_t first_end(const struct search *s, int64_t stage) {
    return stage == 0 ? 1 : s->block_count - (s->stage_count - stage - 1);
}

static void fill_behind(struct search *s) {
    int64_t width = s->block_count + 1;
    for (int64_t stage = s->stage_count - 1; stage >= 0; stage--)
        for (int64_t first = stage; first < first_end(s, stage); first++) {
            bool last = stage == s->stage_count - 1;
            double least = INFINITY;
            int64_t most = last_count(s, stage, first);
            for (int64_t n = last ? most : 1; n <= most; n++) {
                double plain = s->plain[first + n] - s->plain[first];
                double after = last ? 0 : s->behind[(stage + 1) * width + first + n];
                if (hopeless(s, (double)s->micro_batches * plain)) break;
                if (!isfinite(after)) continue;
                const struct stage_choice *choice = choice_of(s, stage, first, n);
                if (choice == NULL) return;
                double time = choice->forward_seconds + choice->backward_seconds;
                if ((s->memory && !choice->fits) ||
                    hopeless(s, (double)s->micro_batches * time))
                    continue;
                least = fmin(least, through(choice) + after);
            }
            s->behind[stage * width + first] = least;
        }
}

/* rest[stage, first] = least over n of max(own bound, t + rest[stage + 1, first + n]). */
static void fill_rest(struct search *s) {
    int64_t width = s->block_count + 1;
    for (int64_t stage = s->stage_count - 1; stage >= 0 && !s->failed; stage--) {
        bool last = stage == s->stage_count - 1;
        for (int64_t first = stage; first < first_end(s, stage) && !s->failed; first++) {
            double least = INFINITY;
            int64_t most = last_count(s, stage, first), take = most;
            for (int64_t n = last ? most : 1; n <= most; n++) {
                double plain = s->plain[first + n] - s->plain[first];
                double after = last ? 0 : s->rest[(stage + 1) * width + first + n];
                if ((double)s->micro_batches * plain >= least) break;
                if (plain + after >= least) continue;
                const struct stage_choice *choice = choice_of(s, stage, first, n);
                if (choice == NULL) return;
                if (s->memory && !choice->fits) continue;
                double bound =
                    fmax(own_bound(s, stage, choice, first + n), through(choice) + after);
                if (bound >= least) continue;
                least = bound;
                take = n;
            }
            s->rest[stage * width + first] = least;
            s->rest_take[stage * width + first] = take;
        }
    }
}

static void simulate(struct search *s) {
    double seconds;
    bool fits;
    if (s->simulated == s->limit) {
        s->cut_short = true;
        return;
    }
    s->simulated++;
    if (!stage_costs_simulate(s->costs, s->blocks, &seconds, &fits, s->err)) {
        s->failed = true;
        return;
    }
    if (seconds >= s->best) return;
    s->best = seconds;
    memcpy(s->best_blocks, s->blocks, sizeof *s->blocks * (size_t)s->stage_count);
}

/* One block from stage `from` to stage `to`; the cuts between them move by one. */
static void move_block(struct search *s, int64_t from, int64_t to) {
    s->blocks[from]--;
    s->blocks[to]++;
}

static bool stages_fit(struct search *s) {
    for (int64_t stage = 0, first = 0; stage < s->stage_count; first += s->blocks[stage++]) {
        const struct stage_choice *choice = choice_of(s, stage, first, s->blocks[stage]);
        if (choice == NULL || (s->memory && !choice->fits)) return false;
    }
    return true;
}

/* First improvement over all pairs of stages, until a round finds none. */
static void improve(struct search *s) {
    bool better = true;
    while (better && !s->failed && !s->cut_short) {
        better = false;
        for (int64_t from = 0; from < s->stage_count; from++)
            for (int64_t to = 0; to < s->stage_count; to++) {
                memcpy(s->blocks, s->best_blocks, sizeof *s->blocks * (size_t)s->stage_count);
                if (from == to || s->blocks[from] == 1) continue;
                double best = s->best;
                move_block(s, from, to);
                if (!stages_fit(s)) continue;
                simulate(s);
                if (s->failed || s->cut_short) return;
                better = better || s->best < best;
            }
    }
}

static int by_bound(const void *left, const void *right) {
    const struct branch *a = left, *b = right;
    if (a->bound != b->bound) return a->bound < b->bound ? -1 : 1;
    return a->count < b->count ? -1 : a->count > b->count;
}

/* before: one micro-batch through the stages so far; bound: of the stages so far. */
static void descend(struct search *s, int64_t stage, int64_t first, double before, double bound) {
    if (stage == s->stage_count) {
        simulate(s);
        return;
    }
    int64_t width = s->block_count + 1, most = last_count(s, stage, first), count = 0;
    bool last = stage == s->stage_count - 1;
    struct branch *branches = s->branches + stage * s->block_count;
    for (int64_t n = last ? most : 1; n <= most; n++) {
        double plain = s->plain[first + n] - s->plain[first];
        double after = last ? 0 : s->rest[(stage + 1) * width + first + n];
        if (hopeless(s, before + (double)s->micro_batches * plain)) break;
        if (hopeless(s, before + plain + after)) continue;
        const struct stage_choice *choice = choice_of(s, stage, first, n);
        if (choice == NULL) return;
        if (s->memory && !choice->fits) continue;
        double here = fmax(bound, before + own_bound(s, stage, choice, first + n));
        branches[count++] = (struct branch){ fmax(here, before + through(choice) + after), n };
    }
    qsort(branches, (size_t)count, sizeof *branches, by_bound);
    for (int64_t i = 0; i < count && !s->failed && !s->cut_short; i++) {
        if (hopeless(s, branches[i].bound)) return;
        const struct stage_choice *choice = choice_of(s, stage, first, branches[i].count);
        s->blocks[stage] = branches[i].count;
        int64_t end = first + branches[i].count;
        double here = fmax(bound, before + own_bound(s, stage, choice, end));
        descend(s, stage + 1, end, before + through(choice), here);
    }
}

static const double *plain_times(struct arena *arena, const struct planner_oracle *o,
                                 int64_t block_count) {
    double *plain = arena_array(arena, double, block_count + 1);
    for (int64_t block = 0; block < block_count; block++) {
        plain[block + 1] = plain[block];
        int64_t end = partition_stage_start(o->model, block + 1);
        for (int64_t i = partition_stage_start(o->model, block); i < end; i++)
            plain[block + 1] += o->layer_seconds(o->context, i, &o->typical, PASS_SET_FORWARD) +
                                o->layer_seconds(o->context, i, &o->typical, PASS_SET_BACKWARD);
    }
    return plain;
}

static void start(struct search *s) {
    int64_t width = s->block_count + 1;
    s->best = INFINITY;
    s->cut_short = false;
    for (int64_t stage = 0; stage <= s->stage_count; stage++)
        for (int64_t block = 0; block < width; block++)
            s->behind[stage * width + block] = s->plain[s->block_count] - s->plain[block];
    fill_rest(s);
    if (s->failed || !isfinite(s->rest[0])) return;
    for (int64_t stage = 0, first = 0; stage < s->stage_count; first += s->blocks[stage++])
        s->blocks[stage] = s->rest_take[stage * width + first];
    simulate(s);
    if (!s->failed) improve(s);
    if (!s->failed) fill_behind(s);
    if (!s->failed) fill_rest(s);
    if (!s->failed) descend(s, 0, 0, 0, 0);
}

bool exact_search(const struct planner_oracle *oracle, const struct job_plan *plan, int64_t limit,
                  int64_t *blocks, struct exact_result *result, struct error *err) {
    if (plan->chunk_count > 1)
        return error_set(err, "the exact partition is searched with one model chunk a stage only: "
                              "layout.vpp must be 1");
    struct arena *arena = arena_create();
    int64_t block_count = partition_block_count(oracle->model), stages = plan->stage_count;
    struct search s = { .oracle = oracle,
                        .costs = stage_costs_create(arena, oracle, plan),
                        .err = err,
                        .block_count = block_count,
                        .stage_count = stages,
                        .micro_batches = oracle->micro_batch_count,
                        .limit = limit,
                        .plain = plain_times(arena, oracle, block_count),
                        .in_flight = arena_array(arena, double, stages),
                        .behind = arena_array(arena, double, (stages + 1) * (block_count + 1)),
                        .rest = arena_array(arena, double, (stages + 1) * (block_count + 1)),
                        .rest_take = arena_array(arena, int64_t, (stages + 1) * (block_count + 1)),
                        .branches = arena_array(arena, struct branch, stages *block_count),
                        .blocks = arena_array(arena, int64_t, stages),
                        .best_blocks = blocks,
                        .memory = true };
    for (int64_t stage = 0; stage < stages; stage++) {
        struct schedule_place place = { stage, stages, 1, oracle->micro_batch_count, false };
        s.in_flight[stage] = (double)plan->schedule->in_flight(&place);
    }
    start(&s);
    if (!s.failed && !isfinite(s.best)) { /* nothing fits: the fastest all the same */
        s.memory = false;
        start(&s);
    }
    *result =
        (struct exact_result){ .seconds = s.best,
                               .bound_seconds = s.cut_short ? fmin(s.rest[0], s.best) : s.best,
                               .simulated = s.simulated,
                               .fits = s.memory,
                               .proven = !s.cut_short };
    arena_destroy(arena);
    return !s.failed;
}

struct exact_parameters {
    int64_t limit;
};

static const struct field exact_fields[] = {
    { "limit", FIELD_COUNT, offsetof(struct exact_parameters, limit), 1, 1e9, "20000", "",
      "partitions simulated at most; the best so far is taken then", NULL },
};
static const struct field_table exact_table =
    FIELD_TABLE("exact", "the fastest partition in simulation", exact_fields);

static bool exact_plan(const struct planner_oracle *oracle, const void *parameters,
                       struct job_plan *plan, struct error *err) {
    const struct exact_parameters *p = parameters;
    int64_t *blocks = arena_array(oracle->arena, int64_t, plan->part_count);
    struct exact_result result;
    if (!exact_search(oracle, plan, p->limit, blocks, &result, err)) return false;
    partition_apply(oracle->model, blocks, plan);
    return true;
}

const struct planner partition_exact = {
    .name = "exact",
    .help = "the fastest partition of all in simulation, by branch and bound",
    .slot = PLANNER_PARTITION,
    .parameters = &exact_table,
    .parameters_size = sizeof(struct exact_parameters),
    .plan_job = exact_plan,
};
