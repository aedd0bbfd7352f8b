/* bmp.c - OmniBal's balanced model partitioning (section 4.2, appendix).
 *
 *     anchor       greedy walk to an even share
 *     candidates   each cut moved by -r..r
 *     objective    VAR / VAR(anchor) + w SUM / SUM(anchor)
 *                  VAR  sum over stages of (time - mean)^2, eq. (4)
 *                  SUM  bytes over all cuts, eq. (5)
 *     choice       the top K by objective are simulated in full; the fastest that fits wins
 *
 * The paper adds VAR and SUM without units. "relative" divides both by the anchor's; "printed"
 * takes ms^2 and MiB, the units of its table. A candidate is timed as the job would run it, with
 * the recomputation that the job's policy chooses for it.
 */
#include "sim/policy/partition/bmp.h"

#include <math.h>
#include <string.h>
#include "sim/base/units.h"
#include "sim/policy/partition/partition.h"
#include "sim/policy/partition/partition_profile.h"

void bmp_anchor(const double *seconds, int64_t block_count, int64_t stage_count, int64_t *blocks) {
    double left = 0;
    for (int64_t i = 0; i < block_count; i++)
        left += seconds[i];
    int64_t block = 0;
    for (int64_t stage = 0; stage < stage_count; stage++) {
        int64_t after = stage_count - stage - 1, first = block;
        double share = left / (double)(after + 1), sum = 0;
        while (block < block_count - after &&
               (block == first || after == 0 ||
                fabs(sum + seconds[block] - share) <= fabs(sum - share)))
            sum += seconds[block++];
        blocks[stage] = block - first;
        left -= sum;
    }
}

/* ---- the objective, stage by stage ---- */

struct terms {
    const struct bmp_problem *problem;
    const double *prefix; /* seconds before each block */
    double mean, variance_scale, bytes_scale;
};

static double stage_variance(const struct terms *t, int64_t begin, int64_t end) {
    double off = t->prefix[end] - t->prefix[begin] - t->mean;
    return off * off;
}

static double stage_term(const struct terms *t, int64_t begin, int64_t end) {
    double bytes = begin > 0 ? t->problem->cut_bytes[begin] : 0;
    return stage_variance(t, begin, end) * t->variance_scale + bytes * t->bytes_scale;
}

static void measure(const struct terms *t, const int64_t *blocks, struct bmp_candidate *out) {
    out->variance = out->bytes = out->objective = 0;
    for (int64_t stage = 0, begin = 0; stage < t->problem->stage_count; begin += blocks[stage++]) {
        out->variance += stage_variance(t, begin, begin + blocks[stage]);
        if (begin > 0) out->bytes += t->problem->cut_bytes[begin];
        out->objective += stage_term(t, begin, begin + blocks[stage]);
    }
}

static struct terms terms_of(struct arena *arena, const struct bmp_problem *p) {
    double *prefix = arena_array(arena, double, p->block_count + 1);
    for (int64_t i = 0; i < p->block_count; i++)
        prefix[i + 1] = prefix[i] + p->seconds[i];
    struct terms t = { .problem = p,
                       .prefix = prefix,
                       .mean = prefix[p->block_count] / (double)p->stage_count };
    if (p->units == BMP_PRINTED) {
        t.variance_scale = 1e6;
        t.bytes_scale = p->weight / BYTES_PER_MiB;
        return t;
    }
    struct bmp_candidate anchor;
    measure(&t, p->anchor, &anchor);
    /* A perfect anchor leaves no scale: a stage's mean stands in. */
    double scale = anchor.variance > 0 ? anchor.variance : t.mean * t.mean;
    t.variance_scale = scale > 0 ? 1 / scale : 0;
    t.bytes_scale = anchor.bytes > 0 ? p->weight / anchor.bytes : 0;
    return t;
}

void bmp_measure(const struct bmp_problem *problem, const int64_t *blocks,
                 struct bmp_candidate *out) {
    struct arena *scratch = arena_create();
    struct terms t = terms_of(scratch, problem);
    measure(&t, blocks, out);
    arena_destroy(scratch);
}

/* ---- the best of all cuts within the radius ---- */

/* One of the best ways to place the cuts up to one place: what it costs, and the place and rank of
 * the way that it continues. */
struct way {
    double cost;
    int32_t place, rank;
};

struct ways {
    struct way *items; /* sorted */
    int64_t count;
};

/* Keeps the `top` cheapest; of equal costs those that came first. */
static void insert(struct ways *ways, int64_t top, struct way way) {
    if (ways->count == top && way.cost >= ways->items[top - 1].cost) return;
    int64_t at = ways->count < top ? ways->count++ : top - 1;
    while (at > 0 && ways->items[at - 1].cost > way.cost) {
        ways->items[at] = ways->items[at - 1];
        at--;
    }
    ways->items[at] = way;
}

int64_t bmp_candidates(struct arena *arena, const struct bmp_problem *p, int64_t top,
                       struct bmp_candidate *candidates) {
    struct arena *scratch = arena_create();
    struct terms t = terms_of(scratch, p);
    int64_t places = 2 * p->radius + 1, cuts = p->stage_count + 1;
    /* Cut 0 stands at 0 and cut stage_count at block_count; each is place 0 of its kind. */
    int64_t *base = arena_array(scratch, int64_t, cuts);
    for (int64_t cut = 1; cut < cuts; cut++)
        base[cut] = base[cut - 1] + p->anchor[cut - 1];
    struct ways *table = arena_array(scratch, struct ways, cuts * places);
    for (int64_t i = 0; i < cuts * places; i++)
        table[i].items = arena_array(scratch, struct way, top);
    table[0].count = 1;
    for (int64_t cut = 1; cut < cuts; cut++) {
        bool last = cut == p->stage_count;
        for (int64_t place = 0; place < (last ? 1 : places); place++) {
            int64_t end = last ? p->block_count : base[cut] - p->radius + place;
            if (end < 1 || (!last && end >= p->block_count)) continue;
            for (int64_t from = 0; from < (cut == 1 ? 1 : places); from++) {
                int64_t begin = cut == 1 ? 0 : base[cut - 1] - p->radius + from;
                const struct ways *before = &table[(cut - 1) * places + from];
                if (begin >= end) continue;
                double term = before->count > 0 ? stage_term(&t, begin, end) : 0;
                for (int64_t rank = 0; rank < before->count; rank++)
                    insert(&table[cut * places + place], top,
                           (struct way){ before->items[rank].cost + term, (int32_t)from,
                                         (int32_t)rank });
            }
        }
    }
    const struct ways *found = &table[p->stage_count * places];
    for (int64_t i = 0; i < found->count; i++) {
        int64_t *blocks = candidates[i].blocks = arena_array(arena, int64_t, p->stage_count);
        struct way way = found->items[i];
        int64_t end = p->block_count;
        for (int64_t cut = p->stage_count; cut > 0; cut--) {
            int64_t begin = cut == 1 ? 0 : base[cut - 1] - p->radius + way.place;
            blocks[cut - 1] = end - begin;
            end = begin;
            if (cut > 1) way = table[(cut - 1) * places + way.place].items[way.rank];
        }
        measure(&t, blocks, &candidates[i]);
    }
    int64_t count = found->count;
    arena_destroy(scratch);
    return count;
}

/* ---- the policy ---- */

struct bmp_parameters {
    int64_t radius, top;
    double weight;
    int anchor, units, time;
};

enum { ANCHOR_GREEDY, ANCHOR_MIN_MAX };

static const char *const anchor_names[] = { "greedy", "min-max", NULL };
static const char *const units_names[] = { "relative", "printed", NULL };
#define AT(member) offsetof(struct bmp_parameters, member)
static const struct field bmp_fields[] = {
    { "radius", FIELD_COUNT, AT(radius), 0, 64, "3", "blocks", "how far each cut moves", NULL },
    { "top", FIELD_COUNT, AT(top), 1, 1000, "12", "",
      "best partitions by the two metrics, which are simulated in full", NULL },
    { "weight", FIELD_DOUBLE, AT(weight), 0, 1e6, "1", "", "of communication beside variance",
      NULL },
    { "anchor", FIELD_CHOICE, AT(anchor), 0, 0, "\"greedy\"", "",
      "the partition to start from: filled greedily, or the exact min-max", anchor_names },
    { "units", FIELD_CHOICE, AT(units), 0, 0, "\"relative\"", "",
      "what is added: both metrics as shares of the anchor's, or ms^2 and MiB", units_names },
    { "time", FIELD_CHOICE, AT(time), 0, 0, "\"auto\"", "",
      "of a block: its forward, as OmniBal profiles, or forward and backward; auto: forward, and "
      "both where a module is frozen",
      partition_time_names },
};
#undef AT
static const struct field_table bmp_table =
    FIELD_TABLE("bmp", "OmniBal's balanced model partitioning", bmp_fields);

static struct bmp_problem problem_of(struct arena *arena, const struct planner_oracle *oracle,
                                     const struct bmp_parameters *p, int64_t part_count) {
    const struct model *model = oracle->model;
    int64_t block_count = partition_block_count(model);
    double *cut_bytes = arena_array(arena, double, block_count);
    for (int64_t block = 1; block < block_count; block++)
        cut_bytes[block] = layer_output_bytes(model, partition_stage_start(model, block) - 1,
                                              &oracle->typical);
    const double *seconds = partition_profile(arena, oracle, &oracle->typical, p->time);
    int64_t *anchor = arena_array(arena, int64_t, part_count);
    if (p->anchor == ANCHOR_GREEDY)
        bmp_anchor(seconds, block_count, part_count, anchor);
    else
        partition_min_max(arena, seconds, block_count, part_count, anchor);
    return (struct bmp_problem){ .seconds = seconds,
                                 .cut_bytes = cut_bytes,
                                 .block_count = block_count,
                                 .stage_count = part_count,
                                 .anchor = anchor,
                                 .radius = p->radius,
                                 .weight = p->weight,
                                 .units = (enum bmp_units)p->units };
}

static bool bmp_plan(const struct planner_oracle *oracle, const void *parameters,
                     struct job_plan *plan, struct error *err) {
    const struct bmp_parameters *p = parameters;
    struct arena *scratch = arena_create();
    struct bmp_problem problem = problem_of(scratch, oracle, p, plan->part_count);
    struct bmp_candidate *candidates = arena_array(scratch, struct bmp_candidate, p->top);
    int64_t count = bmp_candidates(scratch, &problem, p->top, candidates), best = -1;
    double best_seconds = INFINITY;
    bool best_fits = false, ok = true;
    for (int64_t i = 0; ok && i < count; i++) {
        double seconds;
        bool fits;
        partition_apply(oracle->model, candidates[i].blocks, plan);
        ok = partition_evaluate(oracle, plan, &seconds, &fits, err);
        if (best >= 0 && (fits == best_fits ? seconds >= best_seconds : best_fits)) continue;
        best = i;
        best_seconds = seconds;
        best_fits = fits;
    }
    if (ok) partition_apply(oracle->model, candidates[best].blocks, plan);
    arena_destroy(scratch);
    return ok;
}

const struct planner partition_bmp = {
    .name = "bmp",
    .help = "OmniBal's balanced model partitioning: cuts near an anchor, the best ones simulated",
    .slot = PLANNER_PARTITION,
    .parameters = &bmp_table,
    .parameters_size = sizeof(struct bmp_parameters),
    .plan_job = bmp_plan,
};
