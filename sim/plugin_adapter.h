/* plugin_adapter.h - rows of the policy tables around those of a plug-in; between plugin*.c only.
 *
 * The functions of a table row get no pointer to their row, so each row of a plug-in has a slot,
 * and each slot functions of its own.
 */
#ifndef BALLAST_SIM_PLUGIN_ADAPTER_H
#define BALLAST_SIM_PLUGIN_ADAPTER_H

#include "sim/ballast.h"
#include "sim/base/field.h"
#include "sim/policy/planner.h"

enum { PLUGIN_SLOTS = 8, PLUGIN_PARAMETER_LIMIT = 16 };

/* Parameters as a field table of doubles, in static memory; NULL without any. */
const struct field_table *plugin_parameter_table(const char *name, const char *help,
                                                 const struct ballast_parameter *parameters,
                                                 size_t count);

/* False: no slot is left. */
bool plugin_add_batching(const struct ballast_batching *row);
bool plugin_add_partition(const struct ballast_partition *row);
bool plugin_add_schedule(const struct ballast_schedule *row);
bool plugin_add_joint(const struct ballast_joint *row);

/* plugin_orders.c: as the functions of a schedule policy, and of a planner of iterations. */
void plugin_order_passes(const struct ballast_schedule *row, const struct schedule_place *place,
                         struct schedule_entry *entries);
int64_t plugin_most_in_flight(const struct ballast_schedule *row,
                              const struct schedule_place *place);
bool plugin_check_schedule(const struct ballast_schedule *row, const struct schedule_place *place,
                           struct error *err);
bool plugin_plan_iteration(const struct ballast_joint *row, const struct planner_oracle *oracle,
                           const void *parameters, const struct job_plan *plan,
                           struct iteration_plan *it, struct error *err);

#endif
