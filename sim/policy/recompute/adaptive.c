/* adaptive.c - OmniBal's balanced adaptive recomputation (section 4.3), from simulated memory.
 *
 * 1. Every block recomputes; what each stage leaves free is simulated at the largest micro-batch.
 * 2. One block of each kind keeps its activations; the difference is what a block of it needs, all
 *    in-flight micro-batches of the stage included.
 * 3. Each stage keeps as many blocks as fit into what is free less a reserve. Vision and language
 *    blocks need and save different amounts, so the pair of counts that saves most time is taken
 *    from all pairs.
 * 4. A trial run of the choice; as long as it does not fit, one more block recomputes.
 *
 * Stages decide alone: no stage's passes delay less by making another's longer, so the least
 * recomputation of every stage is the least time of the iteration. With interleaved chunks step 3
 * fills the best kind per byte first, chunk by chunk.
 * The largest micro-batch has each size as large as any has it, so no iteration runs out of memory
 * where recomputing everything would not.
 */
#include "sim/policy/recompute/adaptive.h"

#include <math.h>
#include <stdlib.h>
#include "sim/base/units.h"
#include "sim/policy/recompute/recompute.h"

static bool take(const struct adaptive_stage *s, const int64_t keep[ADAPTIVE_KINDS],
                 double budget_bytes, double *best_seconds, double *best_bytes) {
    bool all[ADAPTIVE_KINDS];
    double seconds = 0, bytes;
    for (int k = 0; k < ADAPTIVE_KINDS; k++) {
        all[k] = keep[k] == s->blocks[k];
        seconds += (double)keep[k] * s->seconds[k];
    }
    bytes = s->base_bytes[all[0]][all[1]];
    for (int k = 0; k < ADAPTIVE_KINDS; k++)
        if (!all[k]) bytes += (double)keep[k] * s->kept_bytes[k];
    if (bytes > budget_bytes) return false;
    if (seconds < *best_seconds || (seconds == *best_seconds && bytes >= *best_bytes)) return false;
    *best_seconds = seconds;
    *best_bytes = bytes;
    return true;
}

bool adaptive_choose(const struct adaptive_stage *s, double budget_bytes,
                     int64_t keep[ADAPTIVE_KINDS]) {
    double best_seconds = -1, best_bytes = INFINITY;
    keep[0] = keep[1] = 0;
    for (int64_t vision = 0; vision <= s->blocks[0]; vision++) {
        bool all = vision == s->blocks[0];
        double used = s->base_bytes[all][0] + (all ? 0 : (double)vision * s->kept_bytes[0]);
        double room = (budget_bytes - used) / s->kept_bytes[1];
        int64_t most = s->blocks[1] - 1;
        if (s->kept_bytes[1] > 0 && room < (double)most) most = (int64_t)floor(room);
        int64_t pairs[][ADAPTIVE_KINDS] = { { vision, s->blocks[1] }, { vision, most } };
        for (int i = 0; i < (most >= 0 ? 2 : 1); i++)
            if (take(s, pairs[i], budget_bytes, &best_seconds, &best_bytes)) {
                keep[0] = pairs[i][0];
                keep[1] = pairs[i][1];
            }
    }
    return best_seconds >= 0;
}

struct adaptive_parameters {
    double reserve_GiB;
};

static const struct field adaptive_fields[] = {
    { "reserve_GiB", FIELD_DOUBLE, offsetof(struct adaptive_parameters, reserve_GiB), 0, 1000, "2",
      "GiB", "memory of each GPU that stays free at the largest micro-batch", NULL },
};
static const struct field_table adaptive_table =
    FIELD_TABLE("adaptive", "as little recomputation as memory allows", adaptive_fields);

/* ---- a stage or a chunk of it in a plan ---- */

struct place {
    const struct planner_oracle *oracle;
    struct job_plan *plan;
    int64_t stage, part;
};

static bool kind_of(const struct model *model, int64_t layer, int *kind) {
    *kind = model->layers[layer].kind == LAYER_VISION_BLOCK ? ADAPTIVE_VISION : ADAPTIVE_LANGUAGE;
    struct gradient_need need = model_gradient_need(model, layer);
    return layer_can_recompute(model, layer) && (need.input || need.weight);
}

/* The last `keep` blocks of each kind keep. */
static void set_keep(const struct place *at, const int64_t keep[ADAPTIVE_KINDS]) {
    const struct model *model = at->oracle->model;
    int64_t left[ADAPTIVE_KINDS] = { keep[0], keep[1] };
    int64_t begin = at->plan->first_layer[at->part], end = at->plan->first_layer[at->part + 1];
    for (int64_t i = end - 1; i >= begin; i--) {
        int kind;
        bool recomputes = kind_of(model, i, &kind) && left[kind]-- <= 0;
        at->plan->recompute[i] = recomputes ? RECOMPUTE_FULL : RECOMPUTE_NONE;
    }
}

static double bytes_with(const struct place *at, int64_t vision, int64_t language) {
    set_keep(at, (int64_t[]){ vision, language });
    const struct planner_oracle *o = at->oracle;
    return o->stage_bytes(o->context, at->plan, at->stage, &o->largest);
}

static void count_blocks(const struct place *at, struct adaptive_stage *s) {
    const struct planner_oracle *o = at->oracle;
    for (int64_t i = at->plan->first_layer[at->part]; i < at->plan->first_layer[at->part + 1];
         i++) {
        int kind;
        if (!kind_of(o->model, i, &kind)) continue;
        if (s->blocks[kind]++ == 0)
            s->seconds[kind] = o->layer_seconds(o->context, i, &o->typical, PASS_SET_FORWARD);
    }
}

/* Steps 1 and 2. Where a kind has one block, its jump and its need cannot be told apart, nor need
 * they be. */
static void simulate_memory(const struct place *at, struct adaptive_stage *s) {
    const int64_t *n = s->blocks;
    for (int vision = 0; vision < 2; vision++)
        for (int language = 0; language < 2; language++)
            s->base_bytes[vision][language] =
                bytes_with(at, vision ? n[0] : 0, language ? n[1] : 0);
    if (n[0] > 1) s->kept_bytes[0] = bytes_with(at, 1, 0) - bytes_with(at, 0, 0);
    if (n[1] > 1) s->kept_bytes[1] = bytes_with(at, 0, 1) - bytes_with(at, 0, 0);
}

static double budget_of(const struct planner_oracle *oracle, const void *parameters) {
    const struct adaptive_parameters *p = parameters;
    return oracle->capacity_bytes - p->reserve_GiB * BYTES_PER_GiB;
}

static bool adaptive_plan_stage(const struct planner_oracle *oracle, const void *parameters,
                                struct job_plan *plan, int64_t stage, struct error *err) {
    (void)err;
    struct place at = { oracle, plan, stage, stage };
    struct adaptive_stage s = { 0 };
    int64_t keep[ADAPTIVE_KINDS];
    double budget = budget_of(oracle, parameters);
    count_blocks(&at, &s);
    simulate_memory(&at, &s);
    bool fits = adaptive_choose(&s, budget, keep);
    while (fits && keep[0] + keep[1] > 0 && bytes_with(&at, keep[0], keep[1]) > budget)
        keep[keep[0] > 0 ? 0 : 1]--;
    set_keep(&at, keep);
    return true;
}

/* ---- chunks: the best kind per byte first ---- */

struct item {
    struct place at;
    int kind;
    int64_t blocks;
    double seconds_per_byte;
    int64_t *keep; /* of its part */
};

static int by_value(const void *left, const void *right) {
    const struct item *a = left, *b = right;
    if (a->seconds_per_byte != b->seconds_per_byte)
        return a->seconds_per_byte > b->seconds_per_byte ? -1 : 1;
    return a->at.part != b->at.part ? (a->at.part < b->at.part ? -1 : 1) : a->kind - b->kind;
}

static bool item_fits(const struct item *item, int64_t count, double budget) {
    item->keep[item->kind] = count;
    return bytes_with(&item->at, item->keep[0], item->keep[1]) <= budget;
}

/* All if they fit, else the most of those that leave one recomputing. */
static void fill_item(const struct item *item, double budget) {
    if (item_fits(item, item->blocks, budget)) return;
    int64_t fits = 0, too_many = item->blocks;
    while (too_many - fits > 1) {
        int64_t middle = (fits + too_many) / 2;
        if (item_fits(item, middle, budget))
            fits = middle;
        else
            too_many = middle;
    }
    item->keep[item->kind] = fits;
    set_keep(&item->at, item->keep);
}

static void plan_chunks(const struct planner_oracle *oracle, struct job_plan *plan, int64_t stage,
                        double budget) {
    struct arena *scratch = arena_create();
    struct item *items = arena_array(scratch, struct item, ADAPTIVE_KINDS * plan->chunk_count);
    int64_t count = 0;
    for (int64_t chunk = 0; chunk < plan->chunk_count; chunk++) {
        struct place at = { oracle, plan, stage, chunk * plan->stage_count + stage };
        int64_t *keep = arena_array(scratch, int64_t, ADAPTIVE_KINDS);
        set_keep(&at, keep);
        struct adaptive_stage s = { 0 };
        count_blocks(&at, &s);
        for (int kind = 0; kind < ADAPTIVE_KINDS; kind++)
            if (s.blocks[kind] > 0)
                items[count++] = (struct item){ at, kind, s.blocks[kind], s.seconds[kind], keep };
    }
    for (int64_t i = 0; i < count; i++) { /* when every chunk recomputes */
        const struct item *item = &items[i];
        double all = bytes_with(&item->at, 0, 0);
        double one = bytes_with(&item->at, item->kind == 0, item->kind == 1);
        set_keep(&item->at, item->keep);
        items[i].seconds_per_byte /= fmax(one - all, 1);
    }
    qsort(items, (size_t)count, sizeof *items, by_value);
    for (int64_t i = 0; i < count; i++)
        fill_item(&items[i], budget);
    arena_destroy(scratch);
}

static bool adaptive_plan(const struct planner_oracle *oracle, const void *parameters,
                          struct job_plan *plan, struct error *err) {
    for (int64_t stage = 0; stage < plan->stage_count; stage++) {
        if (plan->chunk_count > 1)
            plan_chunks(oracle, plan, stage, budget_of(oracle, parameters));
        else if (!adaptive_plan_stage(oracle, parameters, plan, stage, err))
            return false;
    }
    return true;
}

const struct planner recompute_adaptive = {
    .name = "adaptive",
    .help = "as few recomputing blocks on each stage as memory allows (OmniBal)",
    .slot = PLANNER_RECOMPUTE,
    .parameters = &adaptive_table,
    .parameters_size = sizeof(struct adaptive_parameters),
    .plan_job = adaptive_plan,
    .plan_stage = adaptive_plan_stage,
};
