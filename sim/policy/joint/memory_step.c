/* memory_step.c - which blocks of each pass recompute or wait in host memory, for an order of
 * passes (DIP, section 5.3): a memory program for each rank.
 *
 * A block keeps everything, recomputes in one of its ways, and in each of these what it keeps may
 * be offloaded: copied to host memory behind its forward and back before its backward. The
 * offloaded blocks of a pass are spread evenly over it, so their copies hide beside the pass as
 * long as they take no longer together than its blocks compute; what is longer is exposed
 * (pass_cost_exposed()). A rank runs one pass at a time and each brings at most its own time of
 * copies in a direction, so the in-flight micro-batches never ask for more than the engine of
 * either direction gives, whatever passes follow each other, and what is left over at the end of
 * one goes on beside the next. Two blocks on their way out and two on their way in, double buffers
 * as Transformer Engine has, are held on the GPU as long as anything is offloaded. A pass whose
 * backward follows sooner than four copies of the largest block is not offloaded.
 *
 * Stops being true: a block at the end of a pass that finds both buffers taken waits for less than
 * one copy; kernels that move HBM's bytes beside a copy are slowed by a few percent.
 */
#include <math.h>
#include <stdlib.h>
#include <string.h>
#include "sim/policy/joint/dip.h"
#include "sim/policy/joint/memory_program.h"

enum {
    CANDIDATES = 10,                         /* the paper's S */
    OPTION_COUNT = 2 * RECOMPUTE_KIND_COUNT, /* kept on the GPU, then offloaded */
    OFFLOAD_CANDIDATES = 3 * CANDIDATES,
    BUFFERED_BLOCKS = 4,
    COUNTS_TRIED = 12, /* of offloaded blocks, and of recomputing ones beside them */
    MIXES = 2 * COUNTS_TRIED * COUNTS_TRIED,
};
#define MEMORY_GAP 0.02 /* section 5.3 allows 0.05 */
_Static_assert((int)OPTION_COUNT <= (int)MEMORY_OPTION_LIMIT, "options of a block");
_Static_assert((int)OFFLOAD_CANDIDATES <= (int)MEMORY_CANDIDATE_LIMIT, "candidates of a pass");

/* What a candidate makes of its pass. */
struct candidate_pass {
    int64_t forward_ns, backward_ns;
    double bytes;
};

/* Of one segment on one rank: what does not depend on the order. */
struct pass_candidates {
    const struct memory_candidate *kept, *offloaded; /* without and with blocks in host memory */
    const struct candidate_pass *kept_passes, *offloaded_passes;
    int32_t kept_count, offloaded_count; /* offloaded: 0 where that is not allowed */
    int64_t forward_ns, backward_ns;     /* nothing recomputed */
    double workspace_bytes;              /* whole */
};

struct memory_room {
    struct pass_candidates *passes;        /* rank x segment_count + segment */
    const struct memory_candidate **taken; /* the same: by the last memory_step_rank() */
    double *taken_buffer_bytes;            /* by rank */
    double *buffer_bytes;                  /* by rank, when it offloads */
    int64_t *copy_ns;                      /* by rank, of its largest block */
    /* one rank's program */
    int32_t *first, *last, *chosen, *trial, *counts;
    const struct memory_candidate **lists;
    double *capacity, *less, *host_capacity;
    int64_t *before_ns; /* of the passes before each of the rank's, without recomputation */
};

static struct memory_room *make_room(const struct iteration_plan *it, const struct job_plan *plan,
                                     int64_t segments) {
    struct arena *arena = it->scratch;
    struct memory_room *room = arena_new(arena, struct memory_room);
    *room = (struct memory_room){
        .passes = arena_array(arena, struct pass_candidates, segments * plan->stage_count),
        .taken = arena_array(arena, const struct memory_candidate *, segments * plan->stage_count),
        .taken_buffer_bytes = arena_array(arena, double, plan->stage_count),
        .buffer_bytes = arena_array(arena, double, plan->stage_count),
        .copy_ns = arena_array(arena, int64_t, plan->stage_count),
        .first = arena_array(arena, int32_t, segments),
        .last = arena_array(arena, int32_t, segments),
        .chosen = arena_array(arena, int32_t, segments),
        .trial = arena_array(arena, int32_t, segments),
        .counts = arena_array(arena, int32_t, segments),
        .lists = arena_array(arena, const struct memory_candidate *, segments),
        .capacity = arena_array(arena, double, 2 * segments),
        .less = arena_array(arena, double, 2 * segments),
        .host_capacity = arena_array(arena, double, 2 * segments),
        .before_ns = arena_array(arena, int64_t, 2 * segments + 1),
    };
    for (int64_t k = 0; k < 2 * segments; k++)
        room->host_capacity[k] = it->host_capacity_bytes;
    return room;
}

static const struct pass_cost *cost_of(const struct iteration_plan *it, const struct job_plan *plan,
                                       const struct modality_segments *s, int64_t segment,
                                       int64_t rank) {
    return &it->costs[modality_cell(plan, it, s, segment, rank)];
}

/* ---- candidates ---- */

/* What the pass takes and keeps beside the choice of its blocks. */
static void pass_remainder(const struct pass_cost *cost, enum recompute_kind planned,
                           double *seconds, double *bytes) {
    *seconds =
        (double)(cost->forward_ns + cost->backward_ns - pass_cost_recompute_ns(cost, planned)) *
        1e-9;
    *bytes = cost->activation_bytes - pass_cost_block_bytes(cost, planned);
}

static int32_t mix_kept(const struct pass_cost *cost, struct memory_candidate *out) {
    struct memory_group groups[PASS_GROUP_LIMIT];
    for (int32_t g = 0; g < cost->group_count; g++) {
        groups[g] = (struct memory_group){ .layers = cost->groups[g].blocks,
                                           .option_count = RECOMPUTE_KIND_COUNT };
        for (int how = 0; how < RECOMPUTE_KIND_COUNT; how++)
            groups[g].options[how] =
                (struct memory_option){ (double)cost->groups[g].recompute_ns[how] * 1e-9,
                                        cost->groups[g].block_bytes[how] };
    }
    return memory_candidates(groups, cost->group_count, CANDIDATES, out);
}

/* Its counts as a choice. */
static void fill_choice(const struct memory_candidate *c, struct pass_choice *choice) {
    for (int32_t g = 0; g < PASS_GROUP_LIMIT; g++)
        for (int how = 0; how < RECOMPUTE_KIND_COUNT; how++) {
            const int16_t away = c->counts[g][RECOMPUTE_KIND_COUNT + how];
            choice->blocks[g][how] = (int16_t)(c->counts[g][how] + away);
            choice->offloaded[g][how] = away;
        }
}

/* Seconds and bytes of the blocks by their counts; of one kind. */
static void weigh(const struct pass_cost *cost, struct memory_candidate *c) {
    const struct pass_group *group = &cost->groups[0];
    struct pass_choice choice;
    int64_t ns = 0, forward_ns, backward_ns;
    fill_choice(c, &choice);
    c->bytes = c->host_bytes = 0;
    for (int how = 0; how < RECOMPUTE_KIND_COUNT; how++) {
        ns += choice.blocks[0][how] * group->recompute_ns[how];
        c->bytes += c->counts[0][how] * group->block_bytes[how];
        c->host_bytes += choice.offloaded[0][how] * group->block_bytes[how];
    }
    pass_cost_exposed(cost, &choice, &forward_ns, &backward_ns);
    c->seconds = (double)(ns + forward_ns + backward_ns) * 1e-9;
    c->host_bytes = ceil(c->host_bytes);
}

/* The way to recompute that keeps least. */
static int smallest_kept(const struct pass_group *group) {
    int least = 0;
    for (int how = 1; how < RECOMPUTE_KIND_COUNT; how++)
        if (group->block_bytes[how] < group->block_bytes[least]) least = how;
    return least;
}

/* Of 0 to `most`, the i-th of at most COUNTS_TRIED evenly spread. */
static int16_t count_tried(int64_t most, int64_t i) {
    return (int16_t)(most < COUNTS_TRIED ? i : most * i / (COUNTS_TRIED - 1));
}

static int64_t counts_tried(int64_t most) {
    return most < COUNTS_TRIED ? most + 1 : COUNTS_TRIED;
}

/* Blocks that keep everything in host memory, blocks that recompute, with what they keep on the GPU
 * or in host memory too, and blocks that keep everything on the GPU. */
static int32_t mix_offloaded(const struct pass_cost *cost, struct memory_candidate *out) {
    const struct pass_group *group = &cost->groups[0];
    const int small = smallest_kept(group);
    int32_t count = 0;
    for (int64_t i = 0; i < counts_tried(group->blocks); i++) {
        const int16_t away = count_tried(group->blocks, i);
        const int64_t left = group->blocks - away;
        for (int64_t k = 0; k < counts_tried(left); k++)
            for (int inputs = 0; inputs < 2; inputs++) {
                const int16_t again = small == RECOMPUTE_NONE ? 0 : count_tried(left, k);
                struct memory_candidate *c = &out[count];
                *c = (struct memory_candidate){ .seconds = 0 };
                c->counts[0][RECOMPUTE_KIND_COUNT + RECOMPUTE_NONE] = away;
                if (again > 0) c->counts[0][inputs ? RECOMPUTE_KIND_COUNT + small : small] = again;
                c->counts[0][RECOMPUTE_NONE] = (int16_t)(left - again);
                if (inputs && (again == 0 || group->block_bytes[small] == 0)) continue;
                weigh(cost, c);
                count++;
            }
    }
    return count;
}

static int by_memory(const void *left, const void *right) {
    const struct memory_candidate *a = left, *b = right;
    if (a->bytes != b->bytes) return a->bytes < b->bytes ? -1 : 1;
    if (a->host_bytes != b->host_bytes) return a->host_bytes < b->host_bytes ? -1 : 1;
    return (a->seconds > b->seconds) - (a->seconds < b->seconds);
}

/* Sorted by bytes, without those that another is no worse than in time and both memories; host
 * false: in time and bytes on the GPU. */
static int32_t drop_dominated(struct memory_candidate *list, int32_t count, bool host) {
    qsort(list, (size_t)count, sizeof *list, by_memory);
    int32_t left = 0;
    for (int32_t i = 0; i < count; i++) {
        bool dominated = false;
        for (int32_t k = 0; k < left && !dominated; k++)
            dominated = (!host || list[k].host_bytes <= list[i].host_bytes) &&
                        list[k].seconds <= list[i].seconds; /* its bytes are no more */
        if (!dominated) list[left++] = list[i];
    }
    return left;
}

/* Of candidates sorted by bytes, undominated: smallest, fastest, and the fastest of each of equal
 * ranges of bytes between. */
static int32_t thin_candidates(struct memory_candidate *list, int32_t count) {
    if (count <= CANDIDATES) return count;
    const double least = list[0].bytes;
    const double range = (list[count - 1].bytes - least) / (CANDIDATES - 2);
    int32_t written = 1;
    for (int32_t i = 1; i + 1 < count && written + 1 < CANDIDATES; i++) {
        const int64_t bucket = (int64_t)((list[i].bytes - least) / range),
                      next = (int64_t)((list[i + 1].bytes - least) / range);
        if (next > bucket || i + 2 == count) list[written++] = list[i];
    }
    list[written++] = list[count - 1];
    return written;
}

static int32_t add_remainder(const struct pass_cost *cost, enum recompute_kind planned,
                             struct memory_candidate *list, int32_t count) {
    double seconds, bytes;
    pass_remainder(cost, planned, &seconds, &bytes);
    for (int32_t i = 0; i < count; i++) {
        list[i].seconds += seconds;
        list[i].bytes = ceil(list[i].bytes + bytes);
    }
    return count;
}

static int32_t list_kept(const struct pass_cost *cost, enum recompute_kind planned,
                         struct memory_candidate *list) {
    return add_remainder(cost, planned, list, mix_kept(cost, list));
}

static int64_t left_whole(const struct memory_candidate *c) {
    return c->counts[0][RECOMPUTE_NONE];
}

/* Mixes that keep no block whole on the GPU, by host memory instead of its own. */
static int32_t list_hidden(const struct memory_candidate *mixes, int32_t count,
                           struct memory_candidate *list) {
    struct memory_candidate own[MIXES];
    int32_t found = 0;
    for (int32_t i = 0; i < count; i++)
        if (left_whole(&mixes[i]) == 0) {
            own[found] = mixes[i];
            own[found].bytes = mixes[i].host_bytes;
            own[found++].host_bytes = mixes[i].bytes;
        }
    found = drop_dominated(own, found, false);
    found = thin_candidates(own, found);
    for (int32_t i = 0; i < found; i++) {
        list[i] = own[i];
        list[i].bytes = own[i].host_bytes;
        list[i].host_bytes = own[i].bytes;
    }
    return found;
}

/* With endless host memory the best mixes by what stays on the GPU are all that matters. With a
 * limit those without any offload stand beside them, and those that need least host memory for
 * what they save where as little as possible stays on the GPU. */
static int32_t list_offloaded(const struct pass_cost *cost, enum recompute_kind planned,
                              bool host_limit, struct memory_candidate *list) {
    struct memory_candidate mixes[MIXES], best[MIXES];
    int32_t found = mix_offloaded(cost, mixes);
    memcpy(best, mixes, sizeof *best * (size_t)found);
    int32_t count = thin_candidates(best, drop_dominated(best, found, false));
    memcpy(list, best, sizeof *list * (size_t)count);
    if (host_limit) {
        count += mix_kept(cost, list + count);
        count += list_hidden(mixes, found, list + count);
        count = drop_dominated(list, count, true);
    }
    return add_remainder(cost, planned, list, count);
}

static enum recompute_kind planned_kind(const struct job_plan *plan, int64_t part) {
    for (int64_t i = plan->first_layer[part]; i < plan->first_layer[part + 1]; i++)
        if (plan->recompute[i] != RECOMPUTE_NONE) return plan->recompute[i];
    return RECOMPUTE_NONE;
}

/* Sub-microbatches of one length have the same on a part: they share the list of the one before. */
static bool same_cost(const struct pass_cost *a, const struct pass_cost *b) {
    return a->forward_ns == b->forward_ns && a->backward_ns == b->backward_ns &&
           a->activation_bytes == b->activation_bytes && a->workspace_bytes == b->workspace_bytes &&
           a->group_count == b->group_count &&
           memcmp(a->groups, b->groups, sizeof *a->groups * (size_t)a->group_count) == 0;
}

/* What each of the list makes of the pass. */
static const struct candidate_pass *
list_passes(const struct iteration_plan *it, const struct pass_cost *cost,
            enum recompute_kind planned, const struct memory_candidate *list, int32_t count) {
    struct candidate_pass *passes = arena_array(it->scratch, struct candidate_pass, count);
    double seconds, remainder;
    pass_remainder(cost, planned, &seconds, &remainder);
    for (int32_t i = 0; i < count; i++) {
        struct pass_choice choice;
        int64_t forward_ns, backward_ns;
        double bytes = remainder;
        fill_choice(&list[i], &choice);
        pass_cost_exposed(cost, &choice, &forward_ns, &backward_ns);
        backward_ns += cost->backward_ns - pass_cost_recompute_ns(cost, planned);
        for (int32_t g = 0; g < cost->group_count; g++)
            for (int how = 0; how < RECOMPUTE_KIND_COUNT; how++) {
                backward_ns += choice.blocks[g][how] * cost->groups[g].recompute_ns[how];
                bytes += (double)list[i].counts[g][how] * cost->groups[g].block_bytes[how];
            }
        passes[i] =
            (struct candidate_pass){ cost->forward_ns + forward_ns, backward_ns, ceil(bytes) };
    }
    return passes;
}

static struct pass_candidates make_candidates(const struct iteration_plan *it,
                                              const struct modality_segments *s,
                                              const struct pass_cost *cost,
                                              enum recompute_kind planned) {
    struct memory_candidate *kept = arena_array(it->scratch, struct memory_candidate, CANDIDATES);
    struct pass_candidates p = {
        .kept = kept,
        .kept_count = list_kept(cost, planned, kept),
        .forward_ns = cost->forward_ns,
        .backward_ns = cost->backward_ns - pass_cost_recompute_ns(cost, planned),
        .workspace_bytes = ceil(cost->workspace_bytes),
    };
    p.kept_passes = list_passes(it, cost, planned, kept, p.kept_count);
    /* Of blocks of several kinds none are offloaded. */
    if (!s->offload || cost->group_count != 1 || cost->groups[0].block_bytes[RECOMPUTE_NONE] == 0)
        return p;
    struct memory_candidate *list =
        arena_array(it->scratch, struct memory_candidate, OFFLOAD_CANDIDATES);
    p.offloaded = list;
    p.offloaded_count = list_offloaded(cost, planned, it->host_capacity_bytes < INFINITY, list);
    p.offloaded_passes = list_passes(it, cost, planned, list, p.offloaded_count);
    return p;
}

static void list_candidates(const struct iteration_plan *it, const struct job_plan *plan,
                            struct modality_segments *s) {
    int64_t n = s->graph->segment_count;
    int64_t *last = arena_array(it->scratch, int64_t, plan->chunk_count);
    for (int64_t rank = 0; rank < plan->stage_count; rank++) {
        for (int64_t chunk = 0; chunk < plan->chunk_count; chunk++)
            last[chunk] = -1;
        for (int64_t i = 0; i < n; i++) {
            int64_t *before = &last[s->chunk_of[i]];
            const struct pass_cost *cost = cost_of(it, plan, s, i, rank);
            struct pass_candidates *own = &s->memory->passes[rank * n + i];
            if (*before >= 0 && same_cost(cost, cost_of(it, plan, s, *before, rank)))
                *own = s->memory->passes[rank * n + *before];
            else
                *own = make_candidates(
                    it, s, cost, planned_kind(plan, s->chunk_of[i] * plan->stage_count + rank));
            *before = i;
        }
        s->memory->buffer_bytes[rank] = modality_buffer_bytes(it, plan, s, rank);
        for (int64_t i = 0; i < n; i++) {
            const struct pass_cost *cost = cost_of(it, plan, s, i, rank);
            for (int32_t g = 0; g < cost->group_count; g++)
                if (cost->groups[g].copy_ns[RECOMPUTE_NONE] > s->memory->copy_ns[rank])
                    s->memory->copy_ns[rank] = cost->groups[g].copy_ns[RECOMPUTE_NONE];
        }
    }
}

double modality_buffer_bytes(const struct iteration_plan *it, const struct job_plan *plan,
                             const struct modality_segments *s, int64_t rank) {
    double largest = 0;
    for (int64_t i = 0; i < s->graph->segment_count; i++) {
        const struct pass_cost *cost = cost_of(it, plan, s, i, rank);
        for (int32_t g = 0; g < cost->group_count; g++)
            largest = fmax(largest, cost->groups[g].block_bytes[RECOMPUTE_NONE]);
    }
    return ceil(BUFFERED_BLOCKS * largest);
}

/* ---- one rank ---- */

/* Lives and room of the rank's pairs in the order of the schedule. */
static void lay_out_rank(const struct modality_segments *s, const struct segment_schedule *schedule,
                         int64_t rank) {
    struct memory_room *room = s->memory;
    const struct segment_task *tasks = segment_schedule_rank(s->graph, schedule, rank);
    const struct pass_candidates *passes = room->passes + rank * s->graph->segment_count;
    for (int32_t k = 0; k < 2 * s->graph->segment_count; k++) {
        const int64_t segment = tasks[k].segment;
        const struct pass_candidates *own = &passes[segment];
        if (tasks[k].backward)
            room->last[segment] = k;
        else
            room->first[segment] = k;
        room->capacity[k] = s->graph->capacity_bytes[rank] - own->workspace_bytes;
        room->less[k] = room->capacity[k] - room->buffer_bytes[rank];
        room->before_ns[k + 1] =
            room->before_ns[k] + (tasks[k].backward ? own->backward_ns : own->forward_ns);
    }
}

static struct memory_program program_of(const struct modality_segments *s, int64_t rank,
                                        bool offload, double host_capacity_bytes) {
    struct memory_room *room = s->memory;
    int32_t n = s->graph->segment_count;
    for (int32_t i = 0; i < n; i++) {
        const struct pass_candidates *p = &room->passes[rank * n + i];
        int64_t between_ns = room->before_ns[room->last[i]] - room->before_ns[room->first[i] + 1];
        bool away = offload && p->offloaded_count > 0 &&
                    between_ns >= BUFFERED_BLOCKS * room->copy_ns[rank];
        room->lists[i] = away ? p->offloaded : p->kept;
        room->counts[i] = away ? p->offloaded_count : p->kept_count;
    }
    return (struct memory_program){ n,
                                    2 * n,
                                    room->first,
                                    room->last,
                                    room->lists,
                                    room->counts,
                                    offload ? room->less : room->capacity,
                                    offload && host_capacity_bytes < INFINITY ? room->host_capacity
                                                                              : NULL };
}

/* Whether offloading, with the room that its buffers take, is faster than without; chooses then. */
static bool offload_rank(const struct iteration_plan *it, const struct modality_segments *s,
                         int64_t rank, struct memory_program_result *result) {
    struct memory_room *room = s->memory;
    struct memory_program program = program_of(s, rank, true, it->host_capacity_bytes);
    struct memory_program_result other;
    memory_program_solve(&program, MEMORY_GAP, room->trial, &other);
    if (!other.feasible || (result->feasible && other.seconds >= result->seconds)) return false;
    memcpy(room->chosen, room->trial, sizeof *room->chosen * (size_t)program.pair_count);
    *result = other;
    return true;
}

static bool any_blocks(const struct modality_segments *s, int64_t rank, bool *slow) {
    const struct memory_room *room = s->memory;
    int64_t n = s->graph->segment_count;
    bool any = false;
    *slow = false;
    for (int64_t i = 0; i < n; i++) {
        const struct pass_candidates *p = &room->passes[rank * n + i];
        any = any || p->offloaded_count > 0;
        *slow = *slow || room->chosen[i] + 1 < p->kept_count;
    }
    return any;
}

void memory_step_rank(const struct iteration_plan *it, const struct job_plan *plan,
                      struct modality_segments *s, const struct segment_schedule *schedule,
                      int64_t rank, struct memory_step_result *out) {
    int64_t n = s->graph->segment_count;
    if (s->memory == NULL) {
        s->memory = make_room(it, plan, n);
        list_candidates(it, plan, s);
    }
    struct memory_room *room = s->memory;
    lay_out_rank(s, schedule, rank);
    struct memory_program program = program_of(s, rank, false, INFINITY);
    struct memory_program_result result;
    memory_program_solve(&program, MEMORY_GAP, room->chosen, &result);
    bool slow, offloads = any_blocks(s, rank, &slow) && (slow || !result.feasible) &&
                          offload_rank(it, s, rank, &result);
    if (!offloads) program_of(s, rank, false, INFINITY); /* the lists that `chosen` counts in */
    out->infeasible += !result.feasible;
    if (result.gap_fraction > out->gap_fraction) out->gap_fraction = result.gap_fraction;
    const double buffer_bytes = offloads ? room->buffer_bytes[rank] : 0;
    room->taken_buffer_bytes[rank] = buffer_bytes;
    for (int64_t i = 0; i < n; i++) {
        const struct pass_candidates *own = &room->passes[rank * n + i];
        const bool away = room->lists[i] == own->offloaded;
        const struct candidate_pass *taken =
            &(away ? own->offloaded_passes : own->kept_passes)[room->chosen[i]];
        struct segment_pass *pass = segment_graph_pass(s->graph, i, rank);
        room->taken[rank * n + i] = &room->lists[i][room->chosen[i]];
        pass->forward_ns = taken->forward_ns;
        pass->backward_ns = taken->backward_ns;
        pass->bytes = taken->bytes;
        pass->workspace_bytes = own->workspace_bytes + buffer_bytes;
    }
}

void memory_step_write(const struct iteration_plan *it, const struct job_plan *plan,
                       const struct modality_segments *s) {
    const int64_t n = s->graph->segment_count;
    for (int64_t rank = 0; rank < plan->stage_count; rank++)
        for (int64_t i = 0; i < n; i++) {
            struct pass_choice *choice = &it->choices[modality_cell(plan, it, s, i, rank)];
            fill_choice(s->memory->taken[rank * n + i], choice);
            choice->buffer_bytes = s->memory->taken_buffer_bytes[rank];
        }
}

struct memory_step_result memory_step(const struct iteration_plan *it, const struct job_plan *plan,
                                      struct modality_segments *s,
                                      const struct segment_schedule *schedule) {
    struct memory_step_result result = { 0 };
    for (int64_t rank = 0; rank < plan->stage_count; rank++)
        memory_step_rank(it, plan, s, schedule, rank, &result);
    memory_step_write(it, plan, s);
    return result;
}
