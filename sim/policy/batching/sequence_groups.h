/* sequence_groups.h - packed groups that share one long sequence. Private to sim/policy/batching.
 *
 * OmniBal's program (ModelTC/OmniBal, dataset.py, get_sp_groups) joins `ranks` packed groups into
 * the micro-batch of a sequence-parallel group: groups are sorted by their language tokens, so that
 * those of like length stand together, `ranks` neighbours are taken, and each is padded to the
 * longest of them. The list is first filled up to a multiple of `ranks` with its own beginning.
 *
 *     sequence_groups_join(plan, dataset, 4);   // plan->padded_tokens: of a micro-batch, in all
 *
 * The plan's groups are replaced; samples of groups that were repeated count as
 * repeated_by_sampler. Before the groups are dealt to the ranks.
 */
#ifndef BALLAST_SIM_POLICY_BATCHING_SEQUENCE_GROUPS_H
#define BALLAST_SIM_POLICY_BATCHING_SEQUENCE_GROUPS_H

#include "sim/policy/batching/batching.h"

void sequence_groups_join(struct batch_plan *plan, const struct dataset *dataset, int64_t ranks);

#endif
