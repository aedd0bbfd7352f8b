/* scenario_cost_rules.c - every cost rule of the scenario must match an operator of its step.
 *
 * By name while the scenario is read: kind, pass, module and name against the operators of one
 * layer of each kind, and against those that stand outside of layers. By shape once the
 * micro-batches are known: each range against what lies between the smallest and the largest
 * micro-batch. Rules of a hardware file serve many models: one that matches nothing here is only
 * noted, as are the scenario's own where one set of rules serves many layouts (sweeps, which share
 * a cache).
 */
#include <math.h>
#include <stdlib.h>
#include <string.h>
#include "sim/scenario/scenario_reader.h"

/* An operator at two sizes of the micro-batch. */
struct candidate {
    struct operator_work small, large;
    int module; /* RULE_ANY: of no layer */
    bool sized; /* its shape is known */
};

struct candidates {
    struct candidate *list;
    int64_t count, capacity;
};

static void add(struct candidates *all, const struct operator_work *small,
                const struct operator_work *large, int module, bool sized) {
    if (all->count == all->capacity) {
        all->capacity = all->capacity > 0 ? 2 * all->capacity : 256;
        all->list = memory_realloc(all->list, sizeof *all->list * (size_t)all->capacity);
    }
    all->list[all->count++] = (struct candidate){ *small, *large, module, sized };
}

static void add_layer(const struct scenario *s, int64_t layer, const struct batch_shape *small,
                      const struct batch_shape *large, struct candidates *all) {
    const struct model *model = s->model;
    const struct gradient_need need = model_gradient_need(model, layer);
    const struct tensor_split split = scenario_split(s);
    for (int set = 0; set < 2; set++) {
        struct operator_list a = { 0 }, b = { 0 };
        layer_operators(model, layer, small, &split, (enum pass_set)set, need, &a);
        layer_operators(model, layer, large, &split, (enum pass_set)set, need, &b);
        /* A micro-batch without such tokens has other operators, and what a chunked head leaves for
         * its last chunk follows no size: then only names are sure. */
        const bool chunked =
            model->layers[layer].kind == LAYER_HEAD && split.block.chunked_head != CHUNKED_HEAD_NO;
        const bool alike = a.count == b.count && !chunked;
        for (int64_t i = 0; i < b.count; i++)
            add(all, alike ? &a.operators[i] : &b.operators[i], &b.operators[i],
                model->layers[layer].module_index, alike);
        operator_list_free(&a);
        operator_list_free(&b);
    }
}

/* What a step runs beside its layers, as step_model.c and price_table.c name it. */
static void add_outer(const struct scenario *s, struct candidates *all) {
    const struct layout *l = &s->layout;
    const struct {
        struct operator_work work;
        bool runs;
    } outer[] = {
        { operator_streaming("optimizer", OPERATOR_OPTIMIZER, PASS_UPDATE, PRECISION_FP32, 1),
          true },
        { operator_streaming("gradient accumulation", OPERATOR_ELEMENTWISE, PASS_BACKWARD,
                             PRECISION_FP32, 1),
          s->backend->accumulate_bytes_moved > 0 },
        { operator_collective("pipeline send", OPERATOR_SEND, PASS_FORWARD, COMMUNICATOR_PIPELINE,
                              1),
          l->pp > 1 },
        { operator_collective("data parallel", OPERATOR_ALL_REDUCE, PASS_UPDATE, COMMUNICATOR_DATA,
                              1),
          l->dp * l->cp > 1 },
        { operator_collective("data parallel", OPERATOR_REDUCE_SCATTER, PASS_UPDATE,
                              COMMUNICATOR_DATA, 1),
          l->dp * l->cp > 1 && l->zero_stage > 0 },
        { operator_collective("data parallel", OPERATOR_ALL_GATHER, PASS_UPDATE, COMMUNICATOR_DATA,
                              1),
          l->dp * l->cp > 1 && l->zero_stage > 0 },
        { operator_collective("data parallel", OPERATOR_SEND, PASS_UPDATE, COMMUNICATOR_DATA, 1),
          s->backend->step.owner_broadcasts },
    };
    for (size_t i = 0; i < sizeof outer / sizeof outer[0]; i++)
        if (outer[i].runs) add(all, &outer[i].work, &outer[i].work, RULE_ANY, false);
}

static void gather(const struct scenario *s, const struct batch_shape *small,
                   const struct batch_shape *large, struct candidates *all) {
    bool seen[LAYER_KIND_COUNT] = { false };
    for (int64_t i = 0; i < s->model->layer_count; i++) {
        const enum layer_kind kind = s->model->layers[i].kind;
        if (!seen[kind]) add_layer(s, i, small, large, all);
        seen[kind] = true;
    }
    add_outer(s, all);
}

/* ---- messages ---- */

enum { NAME_LIMIT = 64, HINT_NAMES = 8 };

/* Names of operators that agree in all but the name, each once; NULL at the end. */
static void names_of(const struct rule *rule, const struct candidates *all,
                     const char *names[NAME_LIMIT + 1]) {
    struct rule any = *rule;
    any.name = NULL;
    int64_t count = 0;
    for (int64_t i = 0; i < all->count && count < NAME_LIMIT; i++) {
        if (!rule_names_operator(&any, &all->list[i].small, all->list[i].module)) continue;
        bool known = false;
        for (int64_t k = 0; k < count && !known; k++)
            known = strcmp(names[k], all->list[i].small.name) == 0;
        if (!known) names[count++] = all->list[i].small.name;
    }
    for (int64_t i = count; i <= NAME_LIMIT; i++)
        names[i] = NULL; /* a hint looks at the one behind its last */
}

/* "pass forward, input gradient": of operators that agree but for module, pass and name. */
static const char *passes_of(const struct rule *wider, const struct candidates *all,
                             struct arena *arena) {
    bool seen[PASS_COUNT] = { false };
    const char *text = "pass";
    for (int64_t i = 0; i < all->count; i++)
        if (rule_names_operator(wider, &all->list[i].small, all->list[i].module))
            seen[all->list[i].small.pass] = true;
    for (int pass = 0; pass < PASS_COUNT; pass++)
        if (seen[pass])
            text = arena_format(arena, "%s%s %s", text, strchr(text, ' ') != NULL ? "," : "",
                                operator_pass_name((enum operator_pass)pass));
    return text;
}

static bool no_such_name(const struct json *json, const struct rule *rule,
                         const struct candidates *all, struct arena *arena, struct error *err) {
    const char *names[NAME_LIMIT + 1];
    names_of(rule, all, names);
    if (rule->name == NULL || names[0] == NULL) {
        struct rule wider = *rule;
        wider.name = NULL;
        wider.pass = wider.module = RULE_ANY;
        names_of(&wider, all, names);
        const char *hint =
            names[0] == NULL
                ? "no such operator runs in this layout"
                : arena_format(arena, "such operators are of other modules or of %s: \"%s\"%s",
                               passes_of(&wider, all, arena), names[0],
                               names[1] != NULL ? " and others" : "");
        return json_error(json, rule->node, err, hint,
                          "the rule matches no operator of this scenario");
    }
    const char *near = nearest_in_list(rule->name, names);
    const char *hint =
        near != NULL ? arena_format(arena, "did you mean \"%s\"? one of:", near) : "one of:";
    for (int64_t i = 0; i < HINT_NAMES && names[i] != NULL; i++)
        hint = arena_format(arena, "%s%s %s", hint, i > 0 ? "," : "", names[i]);
    if (names[HINT_NAMES] != NULL) hint = arena_format(arena, "%s, ...", hint);
    return json_error(json, scenario_member(rule->node, "name"), err, hint,
                      "no operator that the rule could match is named \"%s\"", rule->name);
}

static const char *shape_range(struct arena *arena, const struct candidate *c) {
    const struct operator_work *a = &c->small, *b = &c->large;
    if (a->kind == OPERATOR_MATMUL)
        return arena_format(arena, "m %ld to %ld, n %ld to %ld, k %ld to %ld", (long)a->m,
                            (long)b->m, (long)a->n, (long)b->n, (long)a->k, (long)b->k);
    if (a->kind == OPERATOR_ATTENTION)
        return arena_format(arena, "tokens %.0f to %.0f of samples of %.0f to %.0f", a->token_sum,
                            b->token_sum, a->square_sum / fmax(a->token_sum, 1),
                            b->square_sum / fmax(b->token_sum, 1));
    const bool sent = operator_is_collective(a->kind);
    return arena_format(arena, "bytes %.4g to %.4g", sent ? a->network_bytes : a->memory_bytes,
                        sent ? b->network_bytes : b->memory_bytes);
}

static bool no_such_shape(const struct json *json, const struct rule *rule,
                          const struct candidate *named, struct arena *arena, struct error *err) {
    static const char *const ranges[] = { "m", "n", "k", "tokens", "length", "flop", "bytes" };
    const cJSON *node = rule->node;
    for (size_t i = 0; i < sizeof ranges / sizeof ranges[0] && node == rule->node; i++)
        node = scenario_member(rule->node, ranges[i]);
    return json_error(
        json, node, err,
        arena_format(arena, "\"%s\" has %s", named->small.name, shape_range(arena, named)),
        "the rule matches no operator: none has such a shape");
}

/* ---- the check ---- */

static bool check_rule(const struct scenario *s, const struct rule *rule,
                       const struct candidates *all, struct arena *arena, struct error *err) {
    const struct candidate *named = NULL;
    for (int64_t i = 0; i < all->count; i++) {
        const struct candidate *c = &all->list[i];
        if (!rule_names_operator(rule, &c->small, c->module)) continue;
        if (!c->sized || rule_may_fit(rule, &c->small, &c->large)) return true;
        if (named == NULL) named = c;
    }
    return named != NULL ? no_such_shape(s->json, rule, named, arena, err)
                         : no_such_name(s->json, rule, all, arena, err);
}

bool scenario_rules_match_shapes(const struct scenario *s, const struct batch_shape *small,
                                 const struct batch_shape *large, struct error *err) {
    if (s->own_rules.count == 0) return true;
    struct candidates all = { 0 };
    gather(s, small, large, &all);
    bool ok = true;
    for (int64_t i = 0; ok && i < s->own_rules.count; i++)
        ok = check_rule(s, &s->own_rules.rules[i], &all, s->arena, err);
    free(all.list);
    return ok;
}

static void note_unmatched(struct reader *r, const struct rule_list *rules,
                           const struct candidates *all) {
    for (int64_t i = 0; i < rules->count; i++) {
        bool matches = false;
        for (int64_t k = 0; k < all->count && !matches; k++)
            matches =
                rule_names_operator(&rules->rules[i], &all->list[k].small, all->list[k].module);
        if (!matches)
            scenario_assume(r, arena_format(r->s->arena,
                                            "warning: no operator of this job is named by %s",
                                            rules->rules[i].text));
    }
}

bool rule_rules_match(struct reader *r) {
    struct scenario *s = r->s;
    const struct rule_list *shared = &cost_model_gpu(s->cost_model)->rules;
    r->rule = NULL;
    if (s->own_rules.count + shared->count == 0) return true;
    const double tokens = 4096;
    struct batch_shape shape = model_batch_shape(s->model, 1, 1, (int64_t)tokens, tokens * tokens);
    shape.video_clips = 1;
    shape.video_tokens = (int64_t)tokens;
    shape.video_square_sum = shape.cross_square_sum = tokens * tokens;
    struct candidates all = { 0 };
    gather(s, &shape, &shape, &all);
    for (int64_t i = 0; i < all.count; i++)
        all.list[i].sized = false;
    bool ok = true;
    const bool many = r->options->cache != NULL;
    for (int64_t i = 0; ok && !many && i < s->own_rules.count; i++)
        ok = check_rule(s, &s->own_rules.rules[i], &all, s->arena, r->err);
    if (many) note_unmatched(r, &s->own_rules, &all);
    if (ok) note_unmatched(r, shared, &all);
    free(all.list);
    return ok;
}
