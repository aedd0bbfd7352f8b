/* scenario_reader.h - the scenario while it is being read. Private to sim/scenario.
 *
 * scenario.c reads sections and files, scenario_model.c changes the model, scenario_policies.c
 * reads the policies, scenario_rules.c weighs resolved values against each other. All of them fail
 * with a message that points at the field that a user would change.
 */
#ifndef BALLAST_SIM_SCENARIO_READER_H
#define BALLAST_SIM_SCENARIO_READER_H

#include "sim/scenario/scenario.h"
#include "sim/scenario/scenario_fields.h"

struct reader {
    struct scenario *s;
    const struct scenario_options *options;
    struct error *err;
    struct scenario_top top;
    struct scenario_policy policy;
    int64_t assumption_count, warning_count;
    /* The rule being checked, by the name under which a sweep counts what breaks it; names are kept
     * from version to version. NULL while something else is read. */
    const char *rule;
    bool micro_batch_missing;
    bool hardware_is_the_clusters;                   /* the scenario names no GPU itself */
    const cJSON *precision_nodes[MODULE_ROLE_COUNT]; /* where a module's own precision stands */
};

/* NULL for a field that is left out or null. */
const cJSON *scenario_present(const cJSON *node);
/* Where a message points: the field, or the section without it. */
const cJSON *scenario_member(const cJSON *object, const char *name);
/* Of the values that a rule weighs against each other, the one to point at: what --set changed,
 * otherwise the first. */
const cJSON *scenario_suspect(struct reader *r, const cJSON *const *nodes, size_t count);
#define SUSPECT(r, ...)                                                                            \
    scenario_suspect((r), (const cJSON *const[]){ __VA_ARGS__ },                                   \
                     sizeof((const cJSON *const[]){ __VA_ARGS__ }) / sizeof(const cJSON *))
/* Static or arena text. */
void scenario_assume(struct reader *r, const char *text);
void scenario_warn(struct reader *r, const char *text);

/* The error of a file that could not be read, at the node that names it; always false. */
bool scenario_relocate(struct reader *r, const cJSON *node, const char *what, const char *name);

/* scenario_stack.c: backend and optimizer as the stack has them; once the cost model is known, which
 * GPUs wait for launches; last, what was assumed by it. */
bool scenario_load_stack(struct reader *r);
void scenario_choose_launches(struct scenario *s);
void scenario_assume_stack(struct reader *r);

/* scenario_policies.c; in this order: a schedule depends on the layout, and all on the joint
 * policy. */
bool scenario_read_joint(struct reader *r);
bool scenario_read_batching(struct reader *r);
bool scenario_read_schedule(struct reader *r);
bool scenario_read_partition(struct reader *r);
bool scenario_read_recompute(struct reader *r);

/* scenario_model.c: frozen modules, size of frames, adapters, precisions, on a copy of the model. */
bool scenario_apply_model(struct reader *r);
/* Where the file of a path that a scenario gives is: from the scenario's own folder if it is there,
 * else from the current one; of one that --set gives (`node`, which may be NULL) the other way
 * round. Names that are no path stay as they are. */
const char *scenario_place(const struct scenario *s, const cJSON *node, const char *name);
/* enum precision, or -1. */
int scenario_precision_named(const cJSON *name);

/* scenario_lora.c */
bool scenario_apply_lora(struct reader *r, struct model *model);
bool rule_lora(struct reader *r);

/* scenario_rules.c; in this order, each on what those before it resolved. */
bool rule_tiling(struct reader *r);
bool rule_rules(struct reader *r, const struct rule_list *rules);
bool rule_precision(struct reader *r);
bool rule_fp8_recipe(struct reader *r);
bool rule_precision_aware(struct reader *r);
bool rule_reduce_dtype(struct reader *r);
bool rule_adamw_kernels(struct reader *r);
bool rule_attention(struct reader *r);
bool rule_layout(struct reader *r);
bool rule_gradient_sync(struct reader *r);
bool rule_model(struct reader *r);
bool rule_batch(struct reader *r);
bool rule_sequence_groups(struct reader *r);
bool rule_iterations(struct reader *r);
bool rule_what_if(struct reader *r);
bool rule_schedule(struct reader *r);
/* scenario_context_rules.c; of rule_model(). */
bool rule_context(struct reader *r);
/* scenario_assumptions.c */
void standing_assumptions(struct reader *r);
/* scenario_warnings.c */
void warn_of_wide_nodes(struct reader *r, int64_t domain);
void warn_of_trays(struct reader *r, int64_t domain);
void warn_of_idle_recipe(struct reader *r);
void warn_of_idle_balance(struct reader *r);
void warn_of_idle_overlap(struct reader *r);
void warn_of_near_cluster(struct reader *r, const char *name);
void warn_of_fast_nics(struct reader *r);
void warn_of_nics_beyond_pcie(struct reader *r);
void warn_of_foreign_price(struct reader *r);
/* framework_limits.c: of the scenario's own backend; a warning, because a price can still be
 * asked. */
void backend_limits(struct reader *r);
/* scenario_cost_rules.c; last. */
bool rule_rules_match(struct reader *r);

#endif
