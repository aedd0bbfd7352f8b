/* dip.c - the DIP policy (Xue et al., ASPLOS 2026): modality-aware chunks and sub-microbatches, and
 * for each iteration a schedule search, dual-queue interleaving and per-layer memory choices.
 *
 * Each of its parts can be switched off, which gives the rows of the paper's ablation: order
 * "fixed" is the partitioner alone, "greedy" adds interleaving, "search" reordering, and memory the
 * last row. "encoders-first" is Optimus' coarse-grained bubble scheduling on the same pipeline.
 */
#include <math.h>
#include <stdlib.h>
#include <string.h>
#include "sim/base/units.h"
#include "sim/base/wall_clock.h"
#include "sim/policy/joint/dip.h"
#include "sim/policy/joint/joint.h"
#include "sim/policy/joint/segment_search.h"

enum { ORDER_SEARCH, ORDER_GREEDY, ORDER_FIXED, ORDER_ENCODERS_FIRST };
static const char *const order_names[] = { "search", "greedy", "fixed", "encoders-first", NULL };
enum { METHOD_TREE, METHOD_DEPTH_FIRST, METHOD_RANDOM };
static const char *const method_names[] = { "mcts", "depth-first", "random", NULL };
static const char *const recompute_names[] = { "none", "full", "selective", NULL };

struct dip_parameters {
    int order, method, recompute;
    bool memory, offload, worst, apart, rules;
    int64_t lead, sub_batch, sub_batch_clips, vision_segments, language_segments, segments_limit,
        rollouts, memory_rollouts, seed;
    double search_s, reserve_GiB;
};

#define AT(member) offsetof(struct dip_parameters, member)
static const struct field dip_fields[] = {
    { "order", FIELD_CHOICE, AT(order), 0, 0, "\"search\"", "",
      "search: MCTS over segment priorities; greedy: micro-batches in turn; fixed: Megatron-LM's "
      "order; encoders-first: Optimus",
      order_names },
    { "lead", FIELD_COUNT, AT(lead), 1, 1e3, "2", "",
      "with order fixed: passes that a stage runs ahead of the next one before its first backward",
      NULL },
    { "memory", FIELD_BOOL, AT(memory), 0, 0, "true", "",
      "per-layer memory optimisation: blocks keep their activations where memory is left", NULL },
    { "reserve_GiB", FIELD_DOUBLE, AT(reserve_GiB), 0, 1000, "0", "GiB",
      "memory of each GPU that orders and the memory step leave free, wherever a micro-batch fits "
      "beside it",
      NULL },
    { "offload", FIELD_BOOL, AT(offload), 0, 0, "false", "",
      "the memory step may also copy blocks' activations to host memory and back", NULL },
    { "recompute", FIELD_CHOICE, AT(recompute), 0, 0, "\"full\"", "",
      "what every block recomputes before the memory step", recompute_names },
    { "sub_batch", FIELD_COUNT, AT(sub_batch), 0, 1e6, "null", "images",
      "images of a sub-microbatch; 0: whole micro-batches; null: the smallest of 95 % efficiency",
      NULL },
    { "sub_batch_clips", FIELD_COUNT, AT(sub_batch_clips), 0, 1e6, "null", "clips",
      "video clips of a sub-microbatch of a diffusion decoder; 0: whole micro-batches; null: the "
      "smallest of 95 % efficiency",
      NULL },
    { "vision_segments", FIELD_COUNT, AT(vision_segments), 1, 1e3, "null", "",
      "chunks of the encoder on each stage; null: by its latency", NULL },
    { "language_segments", FIELD_COUNT, AT(language_segments), 1, 1e3, "null", "",
      "chunks of the other modules on each stage; null: by their latency", NULL },
    { "segments_limit", FIELD_COUNT, AT(segments_limit), 1, 1e3, "4", "",
      "most chunks a module gets on a stage by its latency", NULL },
    { "apart", FIELD_BOOL, AT(apart), 0, 0, "false", "",
      "each module in segments of its own even where few micro-batches a stage let segments of all "
      "modules, as 1F1B and interleaved schedules have, be faster",
      NULL },
    { "rules", FIELD_BOOL, AT(rules), 0, 0, "true", "",
      "orders by rule (1F1B, interleaved, encoders first) go through the memory step too, so that "
      "none is faster; false: as the paper's searcher, which does not know them",
      NULL },
    { "rollouts", FIELD_COUNT, AT(rollouts), 1, 1e9, "400", "",
      "schedules tried for one iteration of one data-parallel rank", NULL },
    { "memory_rollouts", FIELD_COUNT, AT(memory_rollouts), 0, 1e9, "2000", "",
      "schedules near the best that go through the memory step too, at most; 200 in a row that are "
      "no better (50 with offload), a best within 1 % of the bound or a slower data-parallel rank "
      "ends it",
      NULL },
    { "search_s", FIELD_DOUBLE, AT(search_s), 0, 1e6, "0", "s",
      "wall time that ends the search early, with and without the memory step together; results "
      "are then not repeatable; 0: none",
      NULL },
    { "method", FIELD_CHOICE, AT(method), 0, 0, "\"mcts\"", "",
      "how the search before the memory step goes; the others are for comparison", method_names },
    { "worst", FIELD_BOOL, AT(worst), 0, 0, "false", "", "search for the longest schedule instead",
      NULL },
    { "search_seed", FIELD_COUNT, AT(seed), 0, 1e9, "1", "", "seed of the search", NULL },
};
static const struct field_table dip_table =
    FIELD_TABLE("dip", "modality-aware pipeline with a schedule search", dip_fields);

static bool dip_plan_job(const struct planner_oracle *oracle, const void *parameters,
                         struct job_plan *plan, struct error *err) {
    const struct dip_parameters *p = parameters;
    struct modality_options options = { .sub_batch = p->sub_batch,
                                        .sub_batch_clips = p->sub_batch_clips,
                                        .vision_segments = p->vision_segments,
                                        .other_segments = p->language_segments,
                                        .segments_limit = p->segments_limit,
                                        .recompute = (enum recompute_kind)p->recompute,
                                        .apart = p->apart };
    return modality_plan(oracle, &options, plan, err);
}

/* ---- iterations ---- */

#define LEAST_SEARCH_S 1e-6 /* a budget that is spent: the first orders still */

struct dip_iteration {
    const struct dip_parameters *p;
    struct iteration_plan *it;
    struct modality_segments segments;
    struct segment_schedule schedule;
    double end_s;           /* of the search's budget of wall time; INFINITY: none */
    bool overfull;          /* a micro-batch does not fit alone */
    double *capacity_bytes; /* by rank, of the graph */
};

static bool time_is_up(const struct dip_iteration *d) {
    return d->end_s < INFINITY && wall_clock_s() >= d->end_s;
}

static struct segment_search_options search_options(const struct dip_parameters *p) {
    struct segment_search_options options = segment_search_defaults();
    options.method = p->method == METHOD_RANDOM        ? SEARCH_RANDOM
                     : p->method == METHOD_DEPTH_FIRST ? SEARCH_DEPTH_FIRST
                                                       : SEARCH_TREE;
    options.rollouts = p->rollouts;
    options.seconds = p->search_s;
    options.seed = (uint64_t)p->seed;
    options.worst = p->worst;
    return options;
}

bool dip_search_options(const struct planner *planner, const void *parameters,
                        struct segment_search_options *options) {
    if (planner != &joint_dip) return false;
    const struct dip_parameters *p = parameters;
    if (p->order != ORDER_SEARCH) return false;
    *options = search_options(p);
    return true;
}

static int64_t greedy_order(const struct segment_graph *g, const int32_t *order,
                            enum interleaver_turn turn, struct segment_schedule *schedule) {
    struct interleaver *x = interleaver_create(g);
    interleaver_run(x, order, turn, schedule);
    interleaver_destroy(x);
    return schedule->makespan_ns;
}

static bool fits_in_memory(const struct segment_graph *g, const struct segment_schedule *schedule) {
    for (int32_t r = 0; r < g->rank_count; r++)
        if (segment_order_peak_bytes(g, schedule, r) > g->capacity_bytes[r]) return false;
    return true;
}

enum { RULE_WHOLE, RULE_LEAD_1, RULE_LEAD_2, RULE_ENCODERS_FIRST, RULE_COUNT };

static void order_by_rule(const struct segment_graph *g, const int32_t *level_of, int rule,
                          struct segment_schedule *schedule) {
    if (rule == RULE_WHOLE)
        segment_order_whole(g, level_of, schedule);
    else if (rule == RULE_ENCODERS_FIRST)
        segment_order_encoders_first(g, level_of, schedule);
    else
        segment_order_fixed(g, level_of, rule == RULE_LEAD_1 ? 1 : 2, schedule);
}

int64_t dip_order(const struct segment_graph *g, const int32_t *level_of,
                  const struct segment_search_options *options, struct segment_schedule *schedule) {
    int32_t *order = memory_alloc(sizeof *order * (size_t)(g->class_count + 1));
    struct segment_search_result result;
    segment_search(g, options, order, &result);
    greedy_order(g, order, result.turn, schedule);
    free(order);
    if (options->worst) return schedule->makespan_ns;
    size_t bytes = sizeof *schedule->tasks * (size_t)segment_schedule_size(g);
    struct segment_schedule other = { .tasks = memory_alloc(bytes) };
    for (int rule = 0; rule < RULE_COUNT; rule++) {
        order_by_rule(g, level_of, rule, &other);
        if (other.makespan_ns >= schedule->makespan_ns || !fits_in_memory(g, &other)) continue;
        memcpy(schedule->tasks, other.tasks, bytes);
        schedule->makespan_ns = other.makespan_ns;
    }
    free(other.tasks);
    return schedule->makespan_ns;
}

/* ---- finalists ---- */

/* The search minimises the pipeline before the memory step, and of orders that are alike in that
 * the one that holds less memory leaves more blocks without recomputation. So orders are run
 * through the memory step, as the paper does with every rollout (section 5.1), and the fastest is
 * taken: those that the search begins with, in turns, which differ most from each other, and the
 * last ones of the others and of those that improved its best, one for each 25 rollouts, because
 * the step takes as long as some 20 of them. Beside them stand micro-batches in turn within a part
 * of the room: fewer are in flight, so that more of their blocks keep everything; and the orders by
 * rule, unless they are not wanted, so that none of them is faster after the memory step either. */
enum { FIRST_LIMIT = 8, LATER_LIMIT = 16, LATER_LEAST = 2, ROLLOUTS_PER_FINALIST = 25 };
static const double room_shares[] = { 0.5, 0.35, 0.25 };
enum { ROOM_SHARE_COUNT = sizeof room_shares / sizeof room_shares[0] };

struct finalists {
    int32_t class_count, first_count;
    int64_t later_count,
        later_limit; /* of the later ones, all that came; the newest take the oldest's place */
    int32_t *orders; /* in the scratch arena: FIRST_LIMIT, then later_limit */
    enum interleaver_turn later_turns[LATER_LIMIT];
};

static struct finalists finalists_start(struct dip_iteration *d) {
    int64_t limit = d->p->rollouts / ROLLOUTS_PER_FINALIST;
    if (limit < LATER_LEAST) limit = LATER_LEAST;
    if (limit > LATER_LIMIT) limit = LATER_LIMIT;
    struct finalists f = { .class_count = d->segments.graph->class_count, .later_limit = limit };
    f.orders = arena_array(d->it->scratch, int32_t, (FIRST_LIMIT + limit) * f.class_count);
    return f;
}

static void add_finalist(void *context, const int32_t *order, enum interleaver_turn turn,
                         bool first) {
    struct finalists *f = context;
    int64_t at;
    if (first && turn == TURN_ALTERNATE && f->first_count < FIRST_LIMIT) {
        at = f->first_count++;
    } else {
        int64_t later = f->later_count++ % f->later_limit;
        f->later_turns[later] = turn;
        at = FIRST_LIMIT + later;
    }
    memcpy(f->orders + at * f->class_count, order, sizeof *order * (size_t)f->class_count);
}

/* How a filled order came about. */
struct origin {
    int32_t *order; /* of classes */
    enum interleaver_turn turn;
    double room_share;
    int64_t makespan_ns; /* after the memory step; INT64_MAX: no order of classes is known yet */
};

static int64_t finalist_count(const struct finalists *f) {
    return f->first_count + (f->later_count < f->later_limit ? f->later_count : f->later_limit);
}

/* By pass: its backward when every block keeps everything; as it is where no memory step
 * follows. */
static int64_t *kept_backward_ns(const struct dip_iteration *d, const struct job_plan *plan) {
    const struct segment_graph *g = d->segments.graph;
    int64_t n = (int64_t)g->segment_count * g->rank_count;
    int64_t *kept_ns = arena_array(d->it->scratch, int64_t, n);
    enum recompute_kind planned = (enum recompute_kind)d->p->recompute;
    for (int64_t i = 0; i < n; i++) {
        int64_t segment = i / g->rank_count, rank = i % g->rank_count;
        int64_t part = d->segments.chunk_of[segment] * plan->stage_count + rank;
        const struct pass_cost *cost =
            &d->it->costs[d->it->cell_first[part] + d->segments.unit_of[segment]];
        kept_ns[i] = g->passes[i].backward_ns;
        if (d->p->memory) kept_ns[i] = cost->backward_ns - pass_cost_recompute_ns(cost, planned);
    }
    return kept_ns;
}

static int32_t *micro_batches_in_turn(const struct dip_iteration *d) {
    int32_t count = d->segments.graph->class_count;
    int32_t *order = arena_array(d->it->scratch, int32_t, count);
    for (int32_t i = 0; i < count; i++)
        order[i] = i;
    return order;
}

static void plain_order(struct dip_iteration *d) {
    greedy_order(d->segments.graph, micro_batches_in_turn(d), TURN_ALTERNATE, &d->schedule);
}

static bool same_order(const struct segment_graph *g, const struct segment_schedule *a,
                       const struct segment_schedule *b) {
    for (int64_t i = 0; i < segment_schedule_size(g); i++)
        if (a->tasks[i].segment != b->tasks[i].segment ||
            a->tasks[i].backward != b->tasks[i].backward)
            return false;
    return true;
}

/* What the memory step leaves of an order. */
struct filled {
    int64_t makespan_ns; /* INT64_MAX: none yet */
    struct segment_task *tasks;
    struct segment_pass *passes;
    struct pass_choice *choices;
    size_t task_bytes, pass_bytes, choice_bytes;
};

static struct filled filled_start(const struct dip_iteration *d, const struct job_plan *plan) {
    const struct segment_graph *g = d->segments.graph;
    int64_t tasks = segment_schedule_size(g), passes = (int64_t)g->segment_count * g->rank_count;
    int64_t choices = d->it->cell_first[plan->part_count];
    return (struct filled){
        .makespan_ns = INT64_MAX,
        .tasks = arena_array(d->it->scratch, struct segment_task, tasks),
        .passes = arena_array(d->it->scratch, struct segment_pass, passes),
        .choices = arena_array(d->it->scratch, struct pass_choice, choices),
        .task_bytes = sizeof(struct segment_task) * (size_t)tasks,
        .pass_bytes = sizeof(struct segment_pass) * (size_t)passes,
        .choice_bytes = sizeof(struct pass_choice) * (size_t)choices,
    };
}

static void keep_filled(const struct dip_iteration *d, struct filled *f) {
    memcpy(f->tasks, d->schedule.tasks, f->task_bytes);
    memcpy(f->passes, d->segments.graph->passes, f->pass_bytes);
    memcpy(f->choices, d->it->choices, f->choice_bytes);
    f->makespan_ns = d->schedule.makespan_ns;
}

static void take_filled(struct dip_iteration *d, const struct filled *f) {
    memcpy(d->schedule.tasks, f->tasks, f->task_bytes);
    memcpy(d->segments.graph->passes, f->passes, f->pass_bytes);
    memcpy(d->it->choices, f->choices, f->choice_bytes);
    d->schedule.makespan_ns = f->makespan_ns;
}

struct busy_rank {
    int32_t rank;
    int64_t busy_ns;
};

static int busiest_first(const void *left, const void *right) {
    const struct busy_rank *a = left, *b = right;
    if (a->busy_ns != b->busy_ns) return a->busy_ns > b->busy_ns ? -1 : 1;
    return a->rank - b->rank;
}

/* By what their passes take. */
static void sort_ranks(const struct segment_graph *g, const struct segment_pass *passes,
                       struct busy_rank *ranks) {
    for (int32_t r = 0; r < g->rank_count; r++)
        ranks[r] = (struct busy_rank){ r, 0 };
    for (int64_t i = 0; i < (int64_t)g->segment_count * g->rank_count; i++)
        ranks[i % g->rank_count].busy_ns += passes[i].forward_ns + passes[i].backward_ns;
    qsort(ranks, (size_t)g->rank_count, sizeof *ranks, busiest_first);
}

/* What the memory step of many orders needs. The passes before it stay as they are, so that the
 * interleaver of one order serves for the next. */
struct filling {
    struct segment_pass *before; /* the passes as they were */
    struct segment_pass *kept;   /* with every block keeping everything */
    struct segment_pass *passes; /* as the memory step leaves them */
    struct segment_tails tails;  /* of `kept`: no choice makes a pass shorter */
    struct segment_clock *clock; /* owned */
    struct interleaver *in_room; /* owned; of `room_share` */
    double room_share;
    struct filled best;
    struct busy_rank *ranks;
};

static struct filling filling_start(struct dip_iteration *d, const struct job_plan *plan) {
    struct segment_graph *g = d->segments.graph;
    struct filling f = { .best = filled_start(d, plan), .before = g->passes };
    const int64_t n = (int64_t)g->segment_count * g->rank_count;
    f.kept = arena_array(d->it->scratch, struct segment_pass, n);
    f.passes = arena_array(d->it->scratch, struct segment_pass, n);
    f.ranks = arena_array(d->it->scratch, struct busy_rank, g->rank_count);
    const int64_t *kept_ns = kept_backward_ns(d, plan);
    memcpy(f.kept, g->passes, f.best.pass_bytes);
    for (int64_t i = 0; i < n; i++)
        f.kept[i].backward_ns = kept_ns[i];
    g->passes = f.kept;
    f.tails = segment_tails_create(g);
    g->passes = f.before;
    f.clock = segment_clock_create(g);
    memcpy(f.best.passes, g->passes, f.best.pass_bytes);
    d->capacity_bytes = arena_array(d->it->scratch, double, g->rank_count);
    memcpy(d->capacity_bytes, g->capacity_bytes, sizeof *g->capacity_bytes * (size_t)g->rank_count);
    return f;
}

static void filling_end(struct filling *f) {
    interleaver_destroy(f->in_room);
    segment_clock_destroy(f->clock);
}

/* Makes the order, in a part of the room, and times it with every block keeping everything. False:
 * it is not below limit_ns then, or a micro-batch does not fit into so little room. */
static bool run_origin(struct dip_iteration *d, struct filling *f, const struct origin *o,
                       int64_t limit_ns) {
    struct segment_graph *g = d->segments.graph;
    if (f->in_room == NULL || o->room_share != f->room_share) {
        interleaver_destroy(f->in_room);
        f->room_share = o->room_share;
        for (int32_t r = 0; r < g->rank_count; r++)
            g->capacity_bytes[r] *= o->room_share;
        f->in_room = interleaver_create(g);
        memcpy(g->capacity_bytes, d->capacity_bytes,
               sizeof *g->capacity_bytes * (size_t)g->rank_count);
    }
    segment_clock_reset(f->clock);
    const struct interleaver_beside beside = { f->clock, f->kept, &f->tails, limit_ns };
    return interleaver_run_beside(f->in_room, o->order, o->turn, &beside, &d->schedule);
}

static void fill_rank(struct dip_iteration *d, const struct job_plan *plan, struct filling *f,
                      int32_t rank) {
    struct segment_graph *g = d->segments.graph;
    struct memory_step_result result = { 0 };
    int64_t longer_ns = 0;
    memory_step_rank(d->it, plan, &d->segments, &d->schedule, rank, &result);
    for (int64_t i = rank; i < (int64_t)g->segment_count * g->rank_count; i += g->rank_count)
        longer_ns += f->passes[i].forward_ns - f->kept[i].forward_ns + f->passes[i].backward_ns -
                     f->kept[i].backward_ns;
    f->clock->longer_ns[rank] = longer_ns;
}

/* The memory step on the order in d->schedule, which the clock knows. False, and half done: the
 * order is no faster than limit_ns. Ranks that are not done yet count as if their blocks kept
 * everything, and no order becomes faster when a pass becomes longer; so the ranks that are
 * expected to be the longest come first. */
static bool fill_ranks(struct dip_iteration *d, const struct job_plan *plan, struct filling *f,
                       int64_t limit_ns) {
    struct segment_graph *g = d->segments.graph;
    if (f->clock->makespan_ns >= limit_ns) return false;
    memcpy(f->passes, f->kept, f->best.pass_bytes);
    g->passes = f->passes;
    bool below = true;
    for (int64_t i = 0, look = 1; below && i < g->rank_count; i++) {
        fill_rank(d, plan, f, f->ranks[i].rank);
        if (i + 1 < look && i + 1 < g->rank_count) continue;
        look *= 2;
        below = segment_clock_run(f->clock, f->passes, &f->tails, limit_ns) < limit_ns;
    }
    d->schedule.makespan_ns = f->clock->makespan_ns;
    g->passes = f->before;
    return below;
}

/* Whether the order in d->schedule becomes faster than limit_ns; the fastest so far is kept. */
static bool fill_order(struct dip_iteration *d, const struct job_plan *plan, struct filling *f,
                       int64_t limit_ns) {
    sort_ranks(d->segments.graph, f->best.passes, f->ranks);
    if (!fill_ranks(d, plan, f, limit_ns)) return false;
    if (d->schedule.makespan_ns >= f->best.makespan_ns) return true;
    d->segments.graph->passes = f->passes;
    segment_order_time(d->segments.graph, &d->schedule);
    memory_step_write(d->it, plan, &d->segments);
    keep_filled(d, &f->best);
    d->segments.graph->passes = f->before;
    return true;
}

/* Of the order in d->schedule, however it was made. */
static void time_kept(struct dip_iteration *d, struct filling *f) {
    struct segment_graph *g = d->segments.graph;
    g->passes = f->kept;
    f->clock->makespan_ns = segment_order_passes(g, &d->schedule, f->clock->order);
    segment_clock_reset(f->clock);
    g->passes = f->before;
}

static bool order_in_rule(struct dip_iteration *d, int rule) {
    order_by_rule(d->segments.graph, d->segments.chunk_of, rule, &d->schedule);
    return d->schedule.makespan_ns != SEGMENT_DEAD_END &&
           fits_in_memory(d->segments.graph, &d->schedule);
}

/* Of finalist k; order NULL: it is one by rule. */
static struct origin finalist_origin(const struct dip_iteration *d, const struct finalists *f,
                                     int64_t k) {
    int64_t count = finalist_count(f), later = k - f->first_count;
    if (k >= count + ROOM_SHARE_COUNT) return (struct origin){ .makespan_ns = INT64_MAX };
    if (k >= count)
        return (struct origin){ micro_batches_in_turn(d), TURN_ALTERNATE, room_shares[k - count],
                                INT64_MAX };
    int64_t at = later < 0 ? k : FIRST_LIMIT + later;
    return (struct origin){ f->orders + at * f->class_count,
                            later < 0 ? TURN_ALTERNATE : f->later_turns[later], 1, INT64_MAX };
}

static bool finalist_order(struct dip_iteration *d, const struct finalists *f, int64_t k,
                           const struct origin *o, struct filling *fill) {
    /* As long as the best: it may be the same order. */
    if (o->order != NULL) return run_origin(d, fill, o, fill->best.makespan_ns + 1);
    if (!order_in_rule(d, (int)(k - finalist_count(f) - ROOM_SHARE_COUNT))) return false;
    time_kept(d, fill);
    return true;
}

/* The fastest of the finalists; returns how it came about. */
static struct origin fill_finalists(struct dip_iteration *d, const struct job_plan *plan,
                                    const struct finalists *f, struct filling *fill,
                                    const struct segment_schedule *found) {
    const int64_t found_ns = fill->best.makespan_ns;
    struct origin best = { micro_batches_in_turn(d), TURN_ALTERNATE, 1, INT64_MAX };
    int64_t last = finalist_count(f);
    if (d->p->order == ORDER_SEARCH) last += ROOM_SHARE_COUNT + (d->p->rules ? RULE_COUNT : 0);
    for (int64_t k = 0; k < last; k++) {
        struct origin o = finalist_origin(d, f, k);
        if (!finalist_order(d, f, k, &o, fill)) continue;
        if (same_order(d->segments.graph, &d->schedule, found))
            o.makespan_ns = found_ns;
        else if (fill_order(d, plan, fill, fill->best.makespan_ns))
            o.makespan_ns = d->schedule.makespan_ns;
        if (o.order != NULL && o.makespan_ns < best.makespan_ns) best = o;
    }
    return best;
}

/* ---- rollouts with the memory step ---- */

/* Orders that are alike before the memory step differ by several per cent after it where a few long
 * passes hold up the others (T2V-XL with a clip of 16 s: 49 to 44 s), so the paper scores every
 * rollout by what the step leaves (section 5.1). Here those near the best finalist are. */
enum { ROLLOUTS_WITHOUT_GAIN = 200, WHEN_OFFLOADING = 50, OTHER_TURN_OF = 8, MOVE_LIMIT = 4 };
static const double near_bound = 1.01;

/* Of two classes the one of more work, whose place matters more, goes elsewhere. */
static void move_heavy(uint64_t *random, int32_t *order, int32_t count, const int64_t *work_ns) {
    for (int32_t move = segment_search_below(random, MOVE_LIMIT); move >= 0; move--) {
        int32_t from = segment_search_below(random, count),
                other = segment_search_below(random, count);
        if (work_ns[order[other]] > work_ns[order[from]]) from = other;
        segment_search_move(order, from, segment_search_below(random, count));
    }
}

static int64_t *class_work_ns(const struct dip_iteration *d, const struct segment_pass *passes) {
    const struct segment_graph *g = d->segments.graph;
    int64_t *work = arena_array(d->it->scratch, int64_t, g->class_count);
    for (int64_t i = 0; i < (int64_t)g->segment_count * g->rank_count; i++)
        work[g->class_of[i / g->rank_count]] += passes[i].forward_ns + passes[i].backward_ns;
    return work;
}

/* A change of an order, at most as many moves as MOVE_LIMIT. */
static void vary(const struct origin *from, uint64_t *random, int32_t count, const int64_t *work_ns,
                 struct origin *to) {
    memcpy(to->order, from->order, sizeof *to->order * (size_t)count);
    move_heavy(random, to->order, count, work_ns);
    to->room_share = from->room_share;
    to->turn = from->turn;
    if (segment_search_below(random, OTHER_TURN_OF) == 0)
        to->turn = from->turn == TURN_URGENT ? TURN_ALTERNATE : TURN_URGENT;
}

/* From the best finalist on, each order a change of the best so far. */
static void search_filled(struct dip_iteration *d, const struct job_plan *plan,
                          const struct origin *from, struct filling *fill, int64_t bound_ns) {
    const int32_t n = d->segments.graph->class_count;
    /* The step takes several times as long when it offloads. */
    const int64_t patience = d->segments.offload ? WHEN_OFFLOADING : ROLLOUTS_WITHOUT_GAIN;
    const double near_ns = near_bound * (double)bound_ns;
    const int64_t *work_ns = class_work_ns(d, fill->before);
    uint64_t random = segment_search_stream((uint64_t)d->p->seed, -1, 0);
    struct origin best = *from, trial;
    best.order = arena_array(d->it->scratch, int32_t, n);
    trial.order = arena_array(d->it->scratch, int32_t, n);
    memcpy(best.order, from->order, sizeof *best.order * (size_t)n);
    for (int64_t i = 0, last_gain = 0; i < d->p->memory_rollouts && i - last_gain < patience; i++) {
        if ((double)fill->best.makespan_ns <= near_ns || time_is_up(d)) return;
        d->it->left = fill->best.makespan_ns <= d->it->enough_ns;
        if (d->it->left) return;
        vary(&best, &random, n, work_ns, &trial);
        if (!run_origin(d, fill, &trial, best.makespan_ns) ||
            !fill_order(d, plan, fill, best.makespan_ns))
            continue;
        last_gain = i;
        memcpy(best.order, trial.order, sizeof *best.order * (size_t)n);
        best.turn = trial.turn;
        best.makespan_ns = d->schedule.makespan_ns;
    }
}

/* No order and no choice of recomputation or offload is faster. */
static int64_t free_bound_ns(const struct dip_iteration *d, const struct job_plan *plan) {
    struct segment_graph *g = d->segments.graph;
    int64_t n = (int64_t)g->segment_count * g->rank_count, bound;
    int64_t *kept_ns = kept_backward_ns(d, plan);
    struct segment_pass *chosen = arena_array(d->it->scratch, struct segment_pass, n);
    memcpy(chosen, g->passes, sizeof *chosen * (size_t)n);
    for (int64_t i = 0; i < n; i++) {
        const int64_t segment = i / g->rank_count, rank = i % g->rank_count;
        g->passes[i].backward_ns = kept_ns[i];
        g->passes[i].forward_ns =
            d->it->costs[modality_cell(plan, d->it, &d->segments, segment, rank)].forward_ns;
    }
    bound = segment_graph_bound_ns(g);
    memcpy(g->passes, chosen, sizeof *chosen * (size_t)n);
    return bound;
}

static void choose_finalist(struct dip_iteration *d, const struct job_plan *plan,
                            const struct finalists *f) {
    struct segment_graph *g = d->segments.graph;
    const int64_t bound_ns = free_bound_ns(d, plan), tasks = segment_schedule_size(g);
    const struct segment_schedule found = { arena_array(d->it->scratch, struct segment_task, tasks),
                                            d->schedule.makespan_ns };
    struct filling fill = filling_start(d, plan);
    memcpy(found.tasks, d->schedule.tasks, fill.best.task_bytes);
    time_kept(d, &fill);
    fill_order(d, plan, &fill, INT64_MAX);
    const struct origin best = fill_finalists(d, plan, f, &fill, &found);
    /* One class has one order; where a micro-batch does not fit alone, no order does. */
    if (d->p->order == ORDER_SEARCH && !d->p->worst && g->class_count > 1 && !d->overfull)
        search_filled(d, plan, &best, &fill, bound_ns);
    take_filled(d, &fill.best);
    filling_end(&fill);
}

static void try_order(struct dip_iteration *d, struct finalists *finalists) {
    struct segment_graph *g = d->segments.graph;
    struct segment_search_options options = search_options(d->p);
    if (d->end_s < INFINITY) options.seconds = fmax(d->end_s - wall_clock_s(), LEAST_SEARCH_S);
    if (d->p->memory && !d->p->worst) {
        options.candidate = add_finalist;
        options.candidate_context = finalists;
    }
    if (d->p->order == ORDER_FIXED)
        segment_order_fixed(g, d->segments.chunk_of, d->p->lead, &d->schedule);
    else if (d->p->order == ORDER_ENCODERS_FIRST)
        segment_order_encoders_first(g, d->segments.chunk_of, &d->schedule);
    else if (d->p->order == ORDER_SEARCH)
        dip_order(g, d->segments.chunk_of, &options, &d->schedule);
    else
        plain_order(d);
}

/* The most memory-saving scheme: everything that blocks keep is in host memory. */
static void offload_everything(struct dip_iteration *d, const struct job_plan *plan) {
    struct segment_graph *g = d->segments.graph;
    enum recompute_kind planned = (enum recompute_kind)d->p->recompute;
    for (int64_t rank = 0; rank < g->rank_count; rank++) {
        const double buffers = modality_buffer_bytes(d->it, plan, &d->segments, rank);
        for (int64_t i = 0; i < g->segment_count; i++) {
            const struct pass_cost *cost =
                &d->it->costs[modality_cell(plan, d->it, &d->segments, i, rank)];
            struct segment_pass *pass = segment_graph_pass(g, i, rank);
            pass->bytes = ceil(cost->activation_bytes - pass_cost_block_bytes(cost, planned));
            pass->workspace_bytes = ceil(cost->workspace_bytes + buffers);
        }
    }
}

static void set_reserve(struct dip_iteration *d, double reserve_bytes) {
    for (int32_t r = 0; r < d->segments.graph->rank_count; r++)
        d->segments.graph->capacity_bytes[r] = d->it->activation_capacity_bytes[r] - reserve_bytes;
}

static void make_order(struct dip_iteration *d, const struct job_plan *plan,
                       struct finalists *finalists) {
    struct segment_graph *g = d->segments.graph;
    set_reserve(d, d->p->reserve_GiB * BYTES_PER_GiB);
    try_order(d, finalists);
    if (d->schedule.makespan_ns == SEGMENT_DEAD_END && d->p->reserve_GiB > 0) {
        set_reserve(d, 0);
        try_order(d, finalists);
    }
    if (d->schedule.makespan_ns == SEGMENT_DEAD_END && d->segments.offload) {
        offload_everything(d, plan);
        try_order(d, finalists);
    }
    if (d->schedule.makespan_ns != SEGMENT_DEAD_END) return;
    /* One micro-batch does not fit alone: out of memory is an answer, so the order goes without. */
    d->overfull = true;
    for (int32_t r = 0; r < g->rank_count; r++)
        g->capacity_bytes[r] = INFINITY;
    plain_order(d);
}

static bool dip_plan_iteration(const struct planner_oracle *oracle, const void *parameters,
                               const struct job_plan *plan, struct iteration_plan *it,
                               struct error *err) {
    (void)err;
    const double start_s = wall_clock_s();
    struct dip_iteration d = { .p = parameters, .it = it, .end_s = INFINITY };
    if (d.p->search_s > 0) d.end_s = start_s + d.p->search_s;
    d.segments = modality_graph(oracle, plan, it);
    d.segments.offload = d.p->memory && d.p->offload;
    d.schedule.tasks =
        arena_array(it->scratch, struct segment_task, segment_schedule_size(d.segments.graph));
    struct finalists finalists = finalists_start(&d);
    make_order(&d, plan, &finalists);
    if (d.p->memory) choose_finalist(&d, plan, &finalists);
    modality_write(&d.segments, &d.schedule, it);
    it->planned_ns = d.schedule.makespan_ns;
    it->bound_ns = free_bound_ns(&d, plan);
    it->planner_s = wall_clock_s() - start_s;
    it->timed = d.p->order == ORDER_SEARCH && d.p->search_s > 0;
    return true;
}

static const struct planner_preset dip_preset = { .partition = PLANNER_ITSELF,
                                                  .recompute = PLANNER_ITSELF,
                                                  .schedule = PLANNER_ITSELF,
                                                  .chunks = true };

const struct planner joint_dip = {
    .name = "dip",
    .help = "DIP: modality-aware chunks and sub-microbatches, each iteration's schedule searched, "
            "memory filled layer by layer",
    .slot = PLANNER_JOINT,
    .parameters = &dip_table,
    .parameters_size = sizeof(struct dip_parameters),
    .preset = &dip_preset,
    .needs_stages = true,
    .plan_job = dip_plan_job,
    .plan_iteration = dip_plan_iteration,
};
