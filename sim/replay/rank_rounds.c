/* rank_rounds.c - which ranks are searched, and copies of what each rank's run left in its
 * runner. */
#include "sim/replay/rank_rounds.h"

#include <string.h>

struct kept_rank {
    struct rank_outcome outcome;
    int64_t *stage_ns; /* finish, then busy */
    int64_t *part_ns;  /* forward, backward, recompute */
    struct stage_memory *memory;
    bool done; /* searched, or with nothing left to search */
};

struct rank_rounds {
    int64_t rank_count, stage_count, part_count;
    struct kept_rank *ranks;
};

struct rank_rounds *rank_rounds_create(struct arena *arena, int64_t ranks,
                                       const struct step_model *step) {
    struct rank_rounds *rounds = arena_new(arena, struct rank_rounds);
    *rounds = (struct rank_rounds){ ranks, step->stage_count, step->part_count,
                                    arena_array(arena, struct kept_rank, ranks) };
    for (int64_t r = 0; r < ranks; r++) {
        struct kept_rank *kept = &rounds->ranks[r];
        kept->stage_ns = arena_array(arena, int64_t, 2 * step->stage_count);
        kept->part_ns = arena_array(arena, int64_t, 3 * step->part_count);
        kept->memory = arena_array(arena, struct stage_memory, step->stage_count);
    }
    return rounds;
}

static const int64_t *copy_ns(int64_t *to, const int64_t *from, int64_t count) {
    return memcpy(to, from, sizeof *to * (size_t)count);
}

static void keep(const struct rank_rounds *rounds, struct kept_rank *kept,
                 const struct rank_outcome *o) {
    const int64_t stages = rounds->stage_count, parts = rounds->part_count;
    kept->outcome = *o;
    kept->outcome.finish_ns = copy_ns(kept->stage_ns, o->finish_ns, stages);
    kept->outcome.busy_ns = copy_ns(kept->stage_ns + stages, o->busy_ns, stages);
    kept->outcome.forward_ns = copy_ns(kept->part_ns, o->forward_ns, parts);
    kept->outcome.backward_ns = copy_ns(kept->part_ns + parts, o->backward_ns, parts);
    kept->outcome.recompute_ns = copy_ns(kept->part_ns + 2 * parts, o->recompute_ns, parts);
    kept->outcome.memory = memcpy(kept->memory, o->memory, sizeof *kept->memory * (size_t)stages);
}

/* Of those that are not done the one that ends last, the first of equal ones; -1: all are done. */
static int64_t slowest_left(const struct rank_rounds *rounds, const int64_t *begin_ns) {
    int64_t slowest = -1, most_ns = -1;
    for (int64_t r = 0; r < rounds->rank_count; r++) {
        const int64_t end_ns = begin_ns[r] + rounds->ranks[r].outcome.makespan_ns;
        if (rounds->ranks[r].done || end_ns <= most_ns) continue;
        slowest = r;
        most_ns = end_ns;
    }
    return slowest;
}

/* The second search goes over the orders of the first again, so that its time holds the first's,
 * but under a budget of wall time it may get less far: a search that went on would still have what
 * the first found. */
static void keep_better(const struct rank_rounds *rounds, struct kept_rank *kept,
                        const struct rank_outcome *second) {
    const double first_s = kept->outcome.planner_s;
    const bool first_timed = kept->outcome.planner_timed;
    if (second->makespan_ns <= kept->outcome.makespan_ns) keep(rounds, kept, second);
    kept->outcome.planner_s = second->planner_s > first_s ? second->planner_s : first_s;
    kept->outcome.planner_timed = second->planner_timed || first_timed;
    kept->outcome.planner_left = second->planner_left;
}

bool rank_rounds_run(struct rank_rounds *rounds, rank_run *run, void *context,
                     const int64_t *begin_ns) {
    struct rank_outcome outcome;
    const int64_t first_enough_ns = rounds->rank_count > 1 ? INT64_MAX : 0; /* alone: the slowest */
    int64_t done_ns = 0; /* when the last of those done ends */
    for (int64_t r = 0; r < rounds->rank_count; r++) {
        struct kept_rank *kept = &rounds->ranks[r];
        if (!run(context, r, first_enough_ns, &outcome)) return false;
        keep(rounds, kept, &outcome);
        kept->done = !outcome.planner_left;
        const int64_t end_ns = begin_ns[r] + outcome.makespan_ns;
        if (kept->done && end_ns > done_ns) done_ns = end_ns;
    }
    for (int64_t r; (r = slowest_left(rounds, begin_ns)) >= 0;) {
        struct kept_rank *kept = &rounds->ranks[r];
        if (begin_ns[r] + kept->outcome.makespan_ns <= done_ns) break;
        if (!run(context, r, done_ns > begin_ns[r] ? done_ns - begin_ns[r] : 0, &outcome))
            return false;
        keep_better(rounds, kept, &outcome);
        kept->done = true;
        const int64_t end_ns = begin_ns[r] + kept->outcome.makespan_ns;
        if (end_ns > done_ns) done_ns = end_ns;
    }
    return true;
}

const struct rank_outcome *rank_rounds_outcome(const struct rank_rounds *rounds, int64_t rank) {
    return &rounds->ranks[rank].outcome;
}
