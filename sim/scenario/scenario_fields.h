/* scenario_fields.h - the field tables of the scenario's sections; see scenario.h. */
#ifndef BALLAST_SIM_SCENARIO_FIELDS_H
#define BALLAST_SIM_SCENARIO_FIELDS_H

#include "sim/base/field.h"

/* The top level: its sections as nodes. */
struct scenario_top {
    const char *name, *description;
    const cJSON *model, *dataset, *cluster, *layout, *training, *policy, *simulate, *rules,
        *what_if;
};

struct scenario_policy {
    const cJSON *batching, *partition, *recompute, *schedule, *joint;
};

extern const struct field_table scenario_top_table, scenario_model_table, scenario_lora_table,
    scenario_dataset_table, scenario_cluster_table, scenario_layout_table, scenario_training_table,
    scenario_policy_table, scenario_simulate_table, scenario_what_if_table;

/* Which key of which section is meant by the name that other programs have for it, or by one that
 * only one other section has; false: none. */
bool scenario_key_meant(const char *said, const char **section, const char **key);
/* Those names, from 0; NULL after the last. */
const char *scenario_usual_name(size_t index);

#endif
