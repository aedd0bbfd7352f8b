/* rules.h - a user's own figures in place of an estimate.
 *
 * A rule matches operators by kind, name, module, layers, pass and shape, and sets an efficiency, a
 * time, a bandwidth or a factor. Rules stand in a scenario (`rules`) and in a hardware file; of
 * those that match an operator the first decides, the scenario's before the hardware's.
 *
 *     "rules": [ { "operator": "matmul", "module": "vision", "m": [1024, null], "efficiency": 0.6,
 *                  "source": "our own kernel, 2026-03" } ]
 *
 *     struct rule_list rules = { 0 };
 *     if (!rules_read(json, node, "scenario", arena, &rules, err)) return false;
 *     cost_model_use_rules(model, &rules);       // cost_model_price_at() from here on
 *
 * Everything lives in the arena and is read-only after reading.
 */
#ifndef BALLAST_COSTMODEL_RULES_H
#define BALLAST_COSTMODEL_RULES_H

#include "costmodel/operator_work.h"
#include "sim/base/arena.h"
#include "sim/base/error.h"
#include "sim/base/field.h"
#include "sim/base/json.h"

enum { RULE_ANY = -1 };

/* Modules by number, in the order of the names. */
extern const char
    *const rule_module_names[]; /* "any" first, then module 0, 1, ...; NULL at the end */

/* Where an operator stands; RULE_ANY where that has no meaning (an optimizer's kernel) or where all
 * layers of a kind are meant. Rules that ask for more do not match then. */
struct rule_place {
    int module;
    int64_t layer; /* within its module, from 0 */
};

struct rule_range {
    double low, high; /* both included; open ends are infinite */
};

enum rule_setting { RULE_EFFICIENCY, RULE_TIME, RULE_BANDWIDTH, RULE_FACTOR };

struct rule {
    int operator_kind, module, pass; /* RULE_ANY */
    const char *name;                /* of the operator, "up"; NULL: any */
    bool has_layers;
    int64_t first_layer, last_layer;
    /* of a matmul; of attention: tokens and mean length; all: FLOP, bytes in memory or on the
     * wire */
    struct rule_range m, n, k, tokens, length, flop, bytes;
    enum rule_setting setting;
    double value;         /* fraction, seconds, bytes/s or factor */
    double band_fraction; /* NaN: that of the estimate it replaces */
    const char *text;     /* "rule 1 of the scenario (operator matmul, factor 1.2: ...)" */
    const cJSON *node;    /* for messages; borrowed from the document */
};

struct rule_list {
    int64_t count;
    const struct rule *rules;
};

/* `node` is the list, NULL or null: none. `owner` says whose in texts ("the scenario"). */
bool rules_read(const struct json *json, const cJSON *node, const char *owner, struct arena *arena,
                struct rule_list *out, struct error *err);
/* What a rule matches and sets, and whose figure it is: "operator matmul, m [1024,null], efficiency
 * 0.6: our own kernel". */
const char *rule_words(struct arena *arena, const cJSON *rule);
/* The first that matches; NULL: none does. */
const struct rule *rules_find(const struct rule_list *rules, const struct operator_work *work,
                              const struct rule_place *place);
/* Kind, pass, module and name agree, wherever the operator stands and whatever its shape. */
bool rule_names_operator(const struct rule *rule, const struct operator_work *work, int module);
/* Some shape between those of the two, which are one operator at two sizes, lies in its ranges. */
bool rule_may_fit(const struct rule *rule, const struct operator_work *small,
                  const struct operator_work *large);
/* Whether a rule names this very layer of the module; whether one names a or b alone: layers that
 * none tells apart are priced alike. */
bool rules_name_layer(const struct rule_list *rules, int module, int64_t layer);
bool rules_tell_apart(const struct rule_list *rules, int module, int64_t a, int64_t b);

extern const struct field_table rule_table;

#endif
