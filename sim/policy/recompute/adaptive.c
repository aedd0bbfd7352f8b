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
 * tries every count of every kind and chunk where they are few; where they are many it fills the
 * best kind per byte first and exchanges blocks for others as long as that saves time. Which of a
 * stage's chunks recomputes also changes what waits for it, so blocks then move between chunks as
 * long as the simulated iteration gets shorter.
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
        for (int language = 0; language < 2; language++) {
            /* Of a kind that is not there, all and none are the same. */
            const bool keeps_vision = vision && n[0] > 0, keeps_language = language && n[1] > 0;
            const bool known = keeps_vision != vision || keeps_language != language;
            s->base_bytes[vision][language] =
                known ? s->base_bytes[keeps_vision][keeps_language]
                      : bytes_with(at, vision ? n[0] : 0, language ? n[1] : 0);
        }
    const double none = s->base_bytes[0][0];
    if (n[0] > 1) s->kept_bytes[0] = bytes_with(at, 1, 0) - none;
    if (n[1] > 1) s->kept_bytes[1] = bytes_with(at, 0, 1) - none;
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

/* ---- chunks ---- */

/* Blocks of one kind in one chunk. */
struct item {
    struct place at;
    int kind;
    int64_t blocks;
    double seconds, seconds_per_byte;
    int64_t *keep; /* of its part */
};

struct chunks {
    struct item *items; /* best time per byte first */
    int64_t count;
    double budget;
};

static int by_value(const void *left, const void *right) {
    const struct item *a = left, *b = right;
    if (a->seconds_per_byte != b->seconds_per_byte)
        return a->seconds_per_byte > b->seconds_per_byte ? -1 : 1;
    return a->at.part != b->at.part ? (a->at.part < b->at.part ? -1 : 1) : a->kind - b->kind;
}

static void keep_blocks(const struct item *item, int64_t count) {
    item->keep[item->kind] = count;
    set_keep(&item->at, item->keep);
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
    keep_blocks(item, fits);
}

static double saved_seconds(const struct chunks *c) {
    double sum = 0;
    for (int64_t i = 0; i < c->count; i++)
        sum += c->items[i].seconds * (double)c->items[i].keep[c->items[i].kind];
    return sum;
}

static void note(const struct chunks *c, int64_t *counts) {
    for (int64_t i = 0; i < c->count; i++)
        counts[i] = c->items[i].keep[c->items[i].kind];
}

static void restore(const struct chunks *c, const int64_t *counts) {
    for (int64_t i = 0; i < c->count; i++)
        keep_blocks(&c->items[i], counts[i]);
}

/* Every count of every item but the last, which takes what is left. */
static void try_all(const struct chunks *c, int64_t at, double *best, int64_t *counts) {
    const struct item *item = &c->items[at];
    if (at + 1 == c->count) {
        keep_blocks(item, 0);
        fill_item(item, c->budget);
        double saved = saved_seconds(c);
        if (saved <= *best || !item_fits(item, item->keep[item->kind], c->budget)) return;
        *best = saved;
        note(c, counts);
        return;
    }
    for (int64_t keep = item->blocks; keep >= 0; keep--) {
        keep_blocks(item, keep);
        try_all(c, at + 1, best, counts);
    }
}

/* Fewer blocks of one item, and what that frees for the others, as long as it saves time. */
static void exchange(const struct chunks *c, double *best, int64_t *counts) {
    for (bool better = true; better;) {
        better = false;
        for (int64_t give = 0; give < c->count && !better; give++)
            for (int64_t keep = counts[give] - 1; keep >= 0 && !better; keep--)
                for (int64_t take = 0; take < c->count && !better; take++) {
                    if (take == give) continue;
                    restore(c, counts);
                    keep_blocks(&c->items[give], keep);
                    fill_item(&c->items[take], c->budget);
                    for (int64_t i = 0; i < c->count; i++)
                        if (i != give && i != take) fill_item(&c->items[i], c->budget);
                    double saved = saved_seconds(c);
                    better = saved > *best * (1 + 1e-12);
                    if (!better) continue;
                    *best = saved;
                    note(c, counts);
                }
    }
}

static struct chunks chunks_of(struct arena *scratch, const struct planner_oracle *oracle,
                               struct job_plan *plan, int64_t stage, double budget) {
    struct chunks c = { .items =
                            arena_array(scratch, struct item, ADAPTIVE_KINDS * plan->chunk_count),
                        .budget = budget };
    for (int64_t chunk = 0; chunk < plan->chunk_count; chunk++) {
        struct place at = { oracle, plan, stage, chunk * plan->stage_count + stage };
        int64_t *keep = arena_array(scratch, int64_t, ADAPTIVE_KINDS);
        set_keep(&at, keep);
        struct adaptive_stage s = { 0 };
        count_blocks(&at, &s);
        for (int kind = 0; kind < ADAPTIVE_KINDS; kind++)
            if (s.blocks[kind] > 0)
                c.items[c.count++] = (struct item){ .at = at,
                                                    .kind = kind,
                                                    .blocks = s.blocks[kind],
                                                    .seconds = s.seconds[kind],
                                                    .keep = keep };
    }
    for (int64_t i = 0; i < c.count; i++) { /* when every chunk recomputes */
        const struct item *item = &c.items[i];
        double all = bytes_with(&item->at, 0, 0);
        double one = bytes_with(&item->at, item->kind == 0, item->kind == 1);
        set_keep(&item->at, item->keep);
        c.items[i].seconds_per_byte = item->seconds / fmax(one - all, 1);
    }
    qsort(c.items, (size_t)c.count, sizeof *c.items, by_value);
    return c;
}

/* The counts of one stage that save most time. */
static struct chunks plan_chunks(struct arena *scratch, const struct planner_oracle *oracle,
                                 struct job_plan *plan, int64_t stage, double budget) {
    enum { FEW = 5000 };
    struct chunks c = chunks_of(scratch, oracle, plan, stage, budget);
    if (c.count == 0) return c;
    int64_t *counts = arena_array(scratch, int64_t, c.count);
    double choices = 1;
    for (int64_t i = 0; i < c.count; i++) {
        fill_item(&c.items[i], budget);
        if (i + 1 < c.count) choices *= (double)(c.items[i].blocks + 1);
    }
    double best = saved_seconds(&c);
    note(&c, counts);
    if (choices <= FEW)
        try_all(&c, 0, &best, counts);
    else
        exchange(&c, &best, counts);
    restore(&c, counts);
    return c;
}

/* `drop` blocks fewer of `less` keep and as many more of `more` as then fit, if the iteration gets
 * shorter. */
static bool move_blocks(const struct chunks *c, const struct item *more, const struct item *less,
                        int64_t drop, double *seconds, struct error *err) {
    int64_t keep = more->keep[more->kind], left = less->keep[less->kind];
    if (keep == more->blocks || left < drop) return false;
    const struct planner_oracle *o = more->at.oracle;
    double now = INFINITY;
    keep_blocks(less, left - drop);
    fill_item(more, c->budget);
    if (more->keep[more->kind] > keep && item_fits(more, more->keep[more->kind], c->budget) &&
        o->simulate(o->context, more->at.plan, &now, err) && now < *seconds) {
        *seconds = now;
        return true;
    }
    keep_blocks(less, left);
    keep_blocks(more, keep);
    return false;
}

/* In which chunk a stage recomputes changes which passes wait for it: blocks move between its
 * chunks as long as the simulated iteration gets shorter. */
static bool place_chunks(const struct chunks *stages, const struct planner_oracle *oracle,
                         const struct job_plan *plan, struct error *err) {
    enum { PASSES = 4, MOST_DROPPED = 2 };
    double seconds;
    if (!oracle->simulate(oracle->context, plan, &seconds, err)) return false;
    bool better = true;
    for (int pass = 0; pass < PASSES && better; pass++) {
        better = false;
        for (int64_t stage = 0; stage < plan->stage_count; stage++) {
            const struct chunks *c = &stages[stage];
            for (int64_t more = 0; more < c->count; more++)
                for (int64_t less = 0; less < c->count; less++)
                    for (int64_t drop = 1; less != more && drop <= MOST_DROPPED; drop++)
                        while (
                            move_blocks(c, &c->items[more], &c->items[less], drop, &seconds, err))
                            better = true;
        }
    }
    return err->text[0] == '\0';
}

static bool plan_all_chunks(const struct planner_oracle *oracle, struct job_plan *plan,
                            double budget, struct error *err) {
    struct arena *scratch = arena_create();
    struct chunks *stages = arena_array(scratch, struct chunks, plan->stage_count);
    for (int64_t stage = 0; stage < plan->stage_count; stage++)
        stages[stage] = plan_chunks(scratch, oracle, plan, stage, budget);
    bool ok = plan->module_count > 0 || place_chunks(stages, oracle, plan, err);
    arena_destroy(scratch);
    return ok;
}

static bool adaptive_plan(const struct planner_oracle *oracle, const void *parameters,
                          struct job_plan *plan, struct error *err) {
    if (plan->chunk_count > 1)
        return plan_all_chunks(oracle, plan, budget_of(oracle, parameters), err);
    for (int64_t stage = 0; stage < plan->stage_count; stage++)
        if (!adaptive_plan_stage(oracle, parameters, plan, stage, err)) return false;
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
