/* entry_shuffle.h - the shuffle of NumPy's RandomState, fast, on 8-byte entries.
 *
 * Same order as random_numpy_shuffle() on as many items: ISF spends most of its time here, so the
 * random numbers are drawn a block ahead and the entries they point at are fetched meanwhile.
 *
 *     random_mt_seed(&mt, 1024);
 *     entry_shuffle(&mt, entries, count);
 */
#ifndef BALLAST_SIM_POLICY_BATCHING_ENTRY_SHUFFLE_H
#define BALLAST_SIM_POLICY_BATCHING_ENTRY_SHUFFLE_H

#include <stdint.h>
#include "sim/base/random.h"

void entry_shuffle(struct random_mt *mt, uint64_t *entries, uint32_t count);

#endif
