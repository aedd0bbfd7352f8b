/* greedy_pack.h - fills micro-batches with whole samples, in the order in which they come, under
 * two limits: a size (tokens, milliseconds) and a number of units (images, clips). Private to
 * sim/policy/batching.
 *
 *     struct greedy_pack rule = { .size_limit = 8192, .unit_limit = 48, .open_limit = 1,
 *                                 .size_of = tokens_of, .units_of = images_of };
 *     greedy_pack_fill(&rule, request, order, plan);      // plan's groups and accounting
 *     greedy_pack_deal("pack", request, plan, err);       // group g to rank g mod dp, in turn
 *
 * A sample goes to the oldest open group of its kind that has room for it. If none has and
 * open_limit groups of the kind are open, the oldest of them is closed. Groups are numbered as they
 * are closed, so that open_limit 1 keeps the order of the samples. A sample beyond a limit of its
 * own is left out and counted as oversize; no other is lost.
 */
#ifndef BALLAST_SIM_POLICY_BATCHING_GREEDY_PACK_H
#define BALLAST_SIM_POLICY_BATCHING_GREEDY_PACK_H

#include "sim/policy/batching/batching.h"

struct greedy_pack {
    int64_t size_limit, unit_limit; /* of a group */
    int64_t open_limit;             /* groups that are being filled at one time */
    int64_t (*size_of)(const struct dataset *dataset, uint32_t sample);
    int64_t (*units_of)(const struct dataset *dataset, uint32_t sample);
    /* Samples of one kind share a group; open_limit is of each kind. NULL: all may. */
    uint64_t (*kind_of)(const struct dataset *dataset, uint32_t sample);
};

enum greedy_pack_order { GREEDY_PACK_SHUFFLE, GREEDY_PACK_FILE };
extern const char *const greedy_pack_order_names[]; /* choices of a FIELD_CHOICE */

/* All samples, permuted with the request's seed and epoch, or as in the file; the caller frees. */
uint32_t *greedy_pack_order(enum greedy_pack_order order, const struct batch_request *request);
/* Fills samples, starts, counts; the plan is packed. */
void greedy_pack_fill(const struct greedy_pack *rule, const struct batch_request *request,
                      const uint32_t *order, struct batch_plan *plan);
/* Round i gives groups i dp to i dp + dp - 1 to the ranks; the tail that fills no round is
 * dropped. */
bool greedy_pack_deal(const char *policy, const struct batch_request *request,
                      struct batch_plan *plan, struct error *err);

#endif
