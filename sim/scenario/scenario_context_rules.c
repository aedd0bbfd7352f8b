/* scenario_context_rules.c - how context parallelism shares a sequence: tokens in a ring, heads in
 * an exchange, or both. */
#include "sim/scenario/scenario_reader.h"

/* The first module whose heads `ranks` of context parallelism do not divide; NULL: none. The
 * encoder's tiles are dealt whole. */
static const struct module *undivided_heads(const struct scenario *s, int64_t ranks) {
    const enum module_role cut[] = { MODULE_LANGUAGE, MODULE_DIFFUSION_DECODER };
    for (size_t i = 0; i < sizeof cut / sizeof cut[0]; i++) {
        const struct module *m = &s->model->modules[cut[i]];
        if (m->layer_count > 0 && m->heads / s->layout.tp % ranks != 0) return m;
    }
    return NULL;
}

/* As the stack shares sequences, where the layout does not say. */
static void choose_context_kind(struct reader *r) {
    struct scenario *s = r->s;
    const cJSON *said =
        scenario_present(cJSON_GetObjectItemCaseSensitive(r->top.layout, "cp_kind"));
    if (said != NULL || s->stack == NULL || s->layout.cp == 1) return;
    const bool heads_alone = s->layout_fields.cp_heads == s->layout.cp;
    if (s->stack->context_gathers && backend_is_of_stack(s->backend, s->stack) && !heads_alone) {
        s->layout_fields.cp_kind = CONTEXT_GATHERED_RING;
        scenario_assume(r, arena_format(s->arena,
                                        "context parallelism gathers keys and values and sends "
                                        "their gradients around a ring as stack %s does "
                                        "(layout.cp_kind gathered-ring)",
                                        s->stack->name));
    }
    if (!s->stack->context_heads || s->layout_fields.cp_heads > 1) return;
    const bool by_heads = undivided_heads(s, s->layout.cp) == NULL;
    if (by_heads) s->layout_fields.cp_kind = CONTEXT_ALL_TO_ALL;
    scenario_assume(
        r, by_heads
               ? arena_format(s->arena,
                              "context parallelism exchanges heads for tokens as stack %s does "
                              "(layout.cp_kind all-to-all)",
                              s->stack->name)
               : arena_format(s->arena,
                              "context parallelism is a ring (layout.cp_kind), though stack %s "
                              "exchanges heads: tp %ld x cp %ld do not divide them",
                              s->stack->name, (long)s->layout.tp, (long)s->layout.cp));
}

/* What the ranks of a ring hold, likewise. */
static void choose_context_balance(struct reader *r) {
    struct scenario *s = r->s;
    const cJSON *said =
        scenario_present(cJSON_GetObjectItemCaseSensitive(r->top.layout, "cp_balanced"));
    if (said != NULL || s->stack == NULL || !s->stack->context_contiguous || s->layout.cp == 1 ||
        s->layout_fields.cp_kind == CONTEXT_ALL_TO_ALL || !model_attends_causally(s->model))
        return;
    s->layout_fields.cp_balanced = false;
    scenario_assume(r, arena_format(s->arena,
                                    "context parallelism deals contiguous tokens as stack %s does, "
                                    "so that ranks wait for the last (layout.cp_balanced false)",
                                    s->stack->name));
}

/* An exchange of heads among all is one of kind all-to-all. */
static bool use_context_heads(struct reader *r) {
    struct scenario *s = r->s;
    struct scenario_layout *f = &s->layout_fields;
    const cJSON *heads = SUSPECT(r, scenario_member(r->top.layout, "cp_heads"),
                                 scenario_member(r->top.layout, "cp"));
    r->rule = "cp-heads-divide-cp";
    if (f->cp % f->cp_heads != 0)
        return json_error(s->json, heads, r->err, NULL, "cp_heads %ld does not divide cp %ld",
                          (long)f->cp_heads, (long)f->cp);
    if (f->cp_kind == CONTEXT_ALL_TO_ALL && f->cp_heads > 1 && f->cp_heads < f->cp)
        return json_error(s->json, heads, r->err,
                          "\"cp_kind\": \"ring\" with cp_heads is the exchange inside a ring",
                          "cp_kind all-to-all exchanges heads among all %ld ranks of cp, not %ld",
                          (long)f->cp, (long)f->cp_heads);
    if (f->cp_heads == f->cp && f->cp > 1) f->cp_kind = CONTEXT_ALL_TO_ALL;
    s->layout.cp_heads = f->cp_kind == CONTEXT_ALL_TO_ALL ? 1 : f->cp_heads;
    return true;
}

static void assume_copied_heads(struct reader *r, int64_t ranks) {
    const struct scenario *s = r->s;
    const struct module *m = &s->model->modules[MODULE_LANGUAGE];
    if (m->layer_count == 0 || ranks == 1) return;
    if (m->kv_heads < s->layout.tp * ranks)
        scenario_assume(r, arena_format(s->arena,
                                        "the %ld key-value heads are copied: %ld ranks of tp and "
                                        "of the exchange of heads share them (layout.cp_kind)",
                                        (long)m->kv_heads, (long)(s->layout.tp * ranks)));
}

static bool context_divides_heads(struct reader *r) {
    const struct scenario *s = r->s;
    const bool all = s->layout_fields.cp_kind == CONTEXT_ALL_TO_ALL;
    const int64_t ranks = all ? s->layout.cp : s->layout.cp_heads;
    const struct module *m = undivided_heads(s, ranks);
    r->rule = "cp-divides-heads";
    if (m == NULL) {
        assume_copied_heads(r, ranks);
        return true;
    }
    return json_error(
        s->json,
        SUSPECT(r, scenario_member(r->top.layout, all ? "cp" : "cp_heads"),
                scenario_member(r->top.layout, "tp"), scenario_member(r->top.layout, "cp_kind")),
        r->err,
        all ? "\"cp_kind\": \"ring\" divides tokens, not heads; with cp_heads it divides both"
            : NULL,
        "%s %ld does not divide the %ld attention heads that tp %ld leaves of %s",
        all ? "cp" : "cp_heads", (long)ranks, (long)(m->heads / s->layout.tp), (long)s->layout.tp,
        m->name);
}

bool rule_context(struct reader *r) {
    choose_context_kind(r);
    if (!use_context_heads(r)) return false;
    choose_context_balance(r);
    return context_divides_heads(r);
}
