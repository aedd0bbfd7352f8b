/* rules.c - reading and matching. What a setting does to a price is in cost_model.c. */
#include "costmodel/rules.h"

#include <assert.h>
#include <math.h>
#include <string.h>
#include "sim/base/units.h"

const char *const rule_module_names[] = {
    "any", "vision", "connector", "language", "diffusion_decoder", NULL
};

/* "any", then in the order of the enums. */
static const char *const kind_choices[] = {
    "any",       "matmul",     "attention",  "norm",           "elementwise", "embedding", "loss",
    "optimizer", "all-reduce", "all-gather", "reduce-scatter", "all-to-all",  "send",      NULL,
};
static_assert(sizeof kind_choices / sizeof kind_choices[0] == OPERATOR_KIND_COUNT + 2,
              "a name per kind");
static const char *const pass_choices[] = {
    "any", "forward", "input gradient", "weight gradient", "backward", "update", NULL,
};
static_assert(sizeof pass_choices / sizeof pass_choices[0] == PASS_COUNT + 2, "a name per pass");

struct rule_fields {
    int operator_kind, module, pass;
    const char *name, *source;
    const cJSON *layers, *m, *n, *k, *tokens, *length, *flop, *bytes;
    double efficiency, time_us, bandwidth_GB_per_s, factor, band_fraction;
};

#define AT(member) offsetof(struct rule_fields, member)
#define RANGE(member, unit, help)                                                                  \
    { #member, FIELD_NODE, AT(member), 0, 0, "null", unit, help, NULL }
static const struct field rule_rows[] = {
    { "operator", FIELD_CHOICE, AT(operator_kind), 0, 0, "\"any\"", "", "its kind", kind_choices },
    { "name", FIELD_TEXT, AT(name), 0, 0, "null", "",
      "its name as `explain` prints it, without stages: \"up\", \"optimizer\"; null: any", NULL },
    { "module", FIELD_CHOICE, AT(module), 0, 0, "\"any\"", "", "whose layer it belongs to",
      rule_module_names },
    { "layers", FIELD_NODE, AT(layers), 0, 0, "null", "",
      "blocks of the module, [first, last] from 0, or a single one; null: all", NULL },
    { "pass", FIELD_CHOICE, AT(pass), 0, 0, "\"any\"", "", "its pass", pass_choices },
    RANGE(m, "", "rows of a matmul: [least, most], null for an open end, or one number"),
    RANGE(n, "", "columns of a matmul, likewise"),
    RANGE(k, "", "depth of a matmul, likewise"),
    RANGE(tokens, "tokens", "of attention, likewise"),
    RANGE(length, "tokens", "mean length that a token of attention sees, likewise"),
    RANGE(flop, "FLOP", "likewise"),
    RANGE(bytes, "bytes", "moved in memory, or sent by a collective, likewise"),
    { "efficiency", FIELD_DOUBLE, AT(efficiency), 1e-6, 1, "null", "",
      "set: fraction of the peak of what binds it: FLOP/s of matmul and attention, HBM of other "
      "kernels, the link of a collective; a kernel's launch is added",
      NULL },
    { "time_us", FIELD_DOUBLE, AT(time_us), 1e-3, 1e9, "null", "us", "set: its time", NULL },
    { "bandwidth_GB_per_s", FIELD_DOUBLE, AT(bandwidth_GB_per_s), 1e-6, 1e6, "null", "GB/s",
      "set: rate of its memory traffic; of a collective the bus bandwidth of nccl-tests", NULL },
    { "factor", FIELD_DOUBLE, AT(factor), 1e-3, 1e3, "null", "",
      "set: its estimated time times this", NULL },
    { "band_fraction", FIELD_DOUBLE, AT(band_fraction), 0, 10, "null", "",
      "how far off the figure may be; null: as the estimate it replaces. Stated, it widens the "
      "step's band by the share of the time of what it prices inside layers",
      NULL },
    { "source", FIELD_TEXT, AT(source), 0, 0, "null", "", "where the figure comes from", NULL },
};
#undef AT
const struct field_table rule_table =
    FIELD_TABLE("rules",
                "own figures in place of estimates: a list, of which the first that "
                "matches an operator decides; each sets one of efficiency, time_us, "
                "bandwidth_GB_per_s and factor",
                rule_rows);

/* ---- reading ---- */

static bool whole_list_end(const cJSON *item, double open, double *out) {
    if (cJSON_IsNull(item))
        *out = open;
    else if (cJSON_IsNumber(item))
        *out = item->valuedouble;
    else
        return false;
    return true;
}

/* [low, high], null for an open end, or one number. */
static bool read_range(const struct json *json, const cJSON *node, struct rule_range *out,
                       struct error *err) {
    *out = (struct rule_range){ -INFINITY, INFINITY };
    if (node == NULL || cJSON_IsNull(node)) return true;
    if (cJSON_IsNumber(node)) {
        out->low = out->high = node->valuedouble;
        return true;
    }
    if (!cJSON_IsArray(node) || cJSON_GetArraySize(node) != 2 ||
        !whole_list_end(node->child, -INFINITY, &out->low) ||
        !whole_list_end(node->child->next, INFINITY, &out->high))
        return json_error(json, node, err, "for example [1024, null]",
                          "must be a number, or a list of least and most");
    if (out->low > out->high)
        return json_error(json, node, err, NULL, "the least, %g, is above the most, %g", out->low,
                          out->high);
    return true;
}

static bool is_layer(double value) {
    return value >= 0 && value <= 1e6 && value == floor(value);
}

static bool read_layers(const struct json *json, const struct rule_fields *f, struct rule *rule,
                        struct error *err) {
    struct rule_range range;
    const cJSON *node = f->layers;
    rule->has_layers = node != NULL && !cJSON_IsNull(node);
    if (!rule->has_layers) return true;
    if (!read_range(json, node, &range, err)) return false;
    if (!is_layer(range.low) || !is_layer(range.high))
        return json_error(json, node, err, "for example [0, 11]",
                          "must be whole numbers from 0: the first and the last block");
    if (f->module == 0)
        return json_error(json, node, err, "for example \"module\": \"language\"",
                          "blocks are counted within a module: name it");
    rule->first_layer = (int64_t)range.low;
    rule->last_layer = (int64_t)range.high;
    return true;
}

/* A shape that the operators of its kind do not have would never match. */
static bool check_shape(const struct json *json, const struct rule *rule,
                        const struct rule_fields *f, struct error *err) {
    const struct {
        const cJSON *node;
        const char *name;
        enum operator_kind kind;
    } shapes[] = {
        { f->m, "m", OPERATOR_MATMUL },
        { f->n, "n", OPERATOR_MATMUL },
        { f->k, "k", OPERATOR_MATMUL },
        { f->tokens, "tokens", OPERATOR_ATTENTION },
        { f->length, "length", OPERATOR_ATTENTION },
    };
    for (size_t i = 0; i < sizeof shapes / sizeof shapes[0]; i++) {
        const cJSON *node = shapes[i].node;
        if (node == NULL || cJSON_IsNull(node) || rule->operator_kind == (int)shapes[i].kind)
            continue;
        return json_error(json, node, err, NULL,
                          "\"%s\" belongs to operators of kind \"%s\": say so with \"operator\"",
                          shapes[i].name, operator_kind_name(shapes[i].kind));
    }
    return true;
}

static bool read_setting(const struct json *json, const cJSON *node, const struct rule_fields *f,
                         struct rule *rule, struct error *err) {
    const double values[] = {
        [RULE_EFFICIENCY] = f->efficiency,
        [RULE_TIME] = f->time_us * 1e-6,
        [RULE_BANDWIDTH] = f->bandwidth_GB_per_s * BYTES_PER_GB,
        [RULE_FACTOR] = f->factor,
    };
    int64_t given = 0;
    for (size_t i = 0; i < sizeof values / sizeof values[0]; i++) {
        if (isnan(values[i])) continue;
        given++;
        rule->setting = (enum rule_setting)i;
        rule->value = values[i];
    }
    if (given == 1) return true;
    return json_error(json, node, err, "one of: efficiency, time_us, bandwidth_GB_per_s, factor",
                      given == 0 ? "the rule sets nothing" : "the rule sets more than one figure");
}

const char *rule_words(struct arena *arena, const cJSON *rule) {
    const char *text = "";
    const cJSON *item;
    cJSON_ArrayForEach(item, rule) {
        if (cJSON_IsNull(item) || strcmp(item->string, "source") == 0) continue;
        char *printed = cJSON_IsString(item) ? NULL : cJSON_PrintUnformatted(item);
        text = arena_format(arena, "%s%s%s %s", text, text[0] != '\0' ? ", " : "", item->string,
                            printed != NULL ? printed : item->valuestring);
        cJSON_free(printed);
    }
    const cJSON *source = cJSON_GetObjectItemCaseSensitive(rule, "source");
    if (!cJSON_IsString(source) || source->valuestring[0] == '\0') return text;
    return arena_format(arena, "%s: %s", text, source->valuestring);
}

static bool read_rule(const struct json *json, const cJSON *node, const char *owner, int64_t number,
                      struct arena *arena, struct rule *rule, struct error *err) {
    if (!cJSON_IsObject(node))
        return json_error(json, node, err,
                          "for example { \"operator\": \"matmul\", \"factor\": 1.1 }",
                          "a rule must be an object");
    struct rule_fields f;
    if (!field_table_read(&rule_table, json, node, &f, arena, err)) return false;
    *rule = (struct rule){
        .operator_kind = f.operator_kind - 1,
        .module = f.module - 1,
        .pass = f.pass - 1,
        .name = f.name,
        .band_fraction = f.band_fraction,
        .node = node,
        .text = arena_format(arena, "rule %ld of %s (%s)", (long)number, owner,
                             rule_words(arena, node)),
    };
    return read_layers(json, &f, rule, err) && read_range(json, f.m, &rule->m, err) &&
           read_range(json, f.n, &rule->n, err) && read_range(json, f.k, &rule->k, err) &&
           read_range(json, f.tokens, &rule->tokens, err) &&
           read_range(json, f.length, &rule->length, err) &&
           read_range(json, f.flop, &rule->flop, err) &&
           read_range(json, f.bytes, &rule->bytes, err) && check_shape(json, rule, &f, err) &&
           read_setting(json, node, &f, rule, err);
}

static bool holds_range(const struct rule_range *wide, const struct rule_range *narrow) {
    return wide->low <= narrow->low && wide->high >= narrow->high;
}

/* Whether whatever `b` matches is matched by `a`. */
static bool covers(const struct rule *a, const struct rule *b) {
    return (a->operator_kind == RULE_ANY || a->operator_kind == b->operator_kind) &&
           (a->module == RULE_ANY || a->module == b->module) &&
           (a->pass == RULE_ANY || a->pass == b->pass) &&
           (a->name == NULL || (b->name != NULL && strcmp(a->name, b->name) == 0)) &&
           (!a->has_layers || (b->has_layers && a->first_layer <= b->first_layer &&
                               a->last_layer >= b->last_layer)) &&
           holds_range(&a->m, &b->m) && holds_range(&a->n, &b->n) && holds_range(&a->k, &b->k) &&
           holds_range(&a->tokens, &b->tokens) && holds_range(&a->length, &b->length) &&
           holds_range(&a->flop, &b->flop) && holds_range(&a->bytes, &b->bytes);
}

/* The first that matches decides. */
static bool check_acts(const struct json *json, struct arena *arena, const struct rule *rules,
                       int64_t index, struct error *err) {
    for (int64_t i = 0; i < index; i++)
        if (covers(&rules[i], &rules[index]))
            return json_error(json, rules[index].node, err,
                              covers(&rules[index], &rules[i])
                                  ? "leave one of them out"
                                  : arena_format(arena, "put it before rule %ld", (long)(i + 1)),
                              "the rule never decides: rule %ld matches all that it does",
                              (long)(i + 1));
    return true;
}

bool rules_read(const struct json *json, const cJSON *node, const char *owner, struct arena *arena,
                struct rule_list *out, struct error *err) {
    *out = (struct rule_list){ 0 };
    if (node == NULL || cJSON_IsNull(node)) return true;
    if (!cJSON_IsArray(node))
        return json_error(json, node, err,
                          "for example [{ \"operator\": \"matmul\", \"factor\": 1.1 }]",
                          "must be a list of rules");
    struct rule *rules = arena_array(arena, struct rule, cJSON_GetArraySize(node) + 1);
    out->rules = rules;
    const cJSON *item;
    cJSON_ArrayForEach(item, node) {
        if (!read_rule(json, item, owner, out->count + 1, arena, &rules[out->count], err) ||
            !check_acts(json, arena, rules, out->count, err))
            return false;
        out->count++;
    }
    return true;
}

/* ---- matching ---- */

static bool within(const struct rule_range *range, double value) {
    return value >= range->low && value <= range->high;
}

static bool fits_shape(const struct rule *rule, const struct operator_work *work) {
    const double bytes =
        operator_is_collective(work->kind) ? work->network_bytes : work->memory_bytes;
    if (!within(&rule->flop, work->flop) || !within(&rule->bytes, bytes)) return false;
    if (work->kind == OPERATOR_MATMUL)
        return within(&rule->m, (double)work->m) && within(&rule->n, (double)work->n) &&
               within(&rule->k, (double)work->k);
    if (work->kind == OPERATOR_ATTENTION)
        return within(&rule->tokens, work->token_sum) &&
               within(&rule->length, work->square_sum / fmax(work->token_sum, 1));
    return true;
}

static bool meets(const struct rule_range *range, double a, double b) {
    return fmax(a, b) >= range->low && fmin(a, b) <= range->high;
}

bool rule_may_fit(const struct rule *rule, const struct operator_work *small,
                  const struct operator_work *large) {
    const bool sent = operator_is_collective(small->kind);
    if (!meets(&rule->flop, small->flop, large->flop) ||
        !meets(&rule->bytes, sent ? small->network_bytes : small->memory_bytes,
               sent ? large->network_bytes : large->memory_bytes))
        return false;
    if (small->kind == OPERATOR_MATMUL)
        return meets(&rule->m, (double)small->m, (double)large->m) &&
               meets(&rule->n, (double)small->n, (double)large->n) &&
               meets(&rule->k, (double)small->k, (double)large->k);
    if (small->kind == OPERATOR_ATTENTION)
        return meets(&rule->tokens, small->token_sum, large->token_sum) &&
               meets(&rule->length, small->square_sum / fmax(large->token_sum, 1),
                     large->square_sum / fmax(small->token_sum, 1));
    return true;
}

bool rule_names_operator(const struct rule *rule, const struct operator_work *work, int module) {
    return (rule->operator_kind == RULE_ANY || rule->operator_kind == (int)work->kind) &&
           (rule->pass == RULE_ANY || rule->pass == (int)work->pass) &&
           (rule->module == RULE_ANY || rule->module == module) &&
           (rule->name == NULL || strcmp(rule->name, work->name) == 0);
}

static bool names_layer(const struct rule *rule, int64_t layer) {
    return layer >= rule->first_layer && layer <= rule->last_layer;
}

const struct rule *rules_find(const struct rule_list *rules, const struct operator_work *work,
                              const struct rule_place *place) {
    for (int64_t i = 0; i < rules->count; i++) {
        const struct rule *rule = &rules->rules[i];
        if (rule->has_layers && !names_layer(rule, place->layer)) continue;
        if (rule_names_operator(rule, work, place->module) && fits_shape(rule, work)) return rule;
    }
    return NULL;
}

bool rules_name_layer(const struct rule_list *rules, int module, int64_t layer) {
    for (int64_t i = 0; i < rules->count; i++) {
        const struct rule *rule = &rules->rules[i];
        if (rule->has_layers && rule->module == module && names_layer(rule, layer)) return true;
    }
    return false;
}

bool rules_tell_apart(const struct rule_list *rules, int module, int64_t a, int64_t b) {
    for (int64_t i = 0; i < rules->count; i++) {
        const struct rule *rule = &rules->rules[i];
        if (rule->has_layers && rule->module == module &&
            names_layer(rule, a) != names_layer(rule, b))
            return true;
    }
    return false;
}
