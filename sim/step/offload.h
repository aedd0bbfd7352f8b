/* offload.h - a block's kept activations in host memory between its forward and its backward.
 *
 *     struct offload_time t = offload_time(bytes, pcie_bytes_per_s, &layer, RECOMPUTE_NONE, 2);
 *     forward_ns += t.forward_ns;      // what the copy leaves exposed
 */
#ifndef BALLAST_SIM_STEP_OFFLOAD_H
#define BALLAST_SIM_STEP_OFFLOAD_H

#include "sim/step/price_table.h"

/* Blocks whose activations stand on the GPU at once: the one that computes, and the one that is on
 * its way out or in. */
enum { OFFLOAD_BUFFER_COUNT = 2 };

struct offload_time {
    int64_t forward_ns, backward_ns; /* exposed */
};

/* Beside how many of the part's blocks the copy of its `index`th offloaded one runs. */
int64_t offload_window(int64_t blocks, int64_t offloaded, int64_t index);

/* `bytes` are what the block keeps, `how` it recomputes; the copy runs beside `window` blocks.
 * Nothing without a backward. */
struct offload_time offload_time(double bytes, double pcie_bytes_per_s,
                                 const struct layer_time *layer, enum recompute_kind how,
                                 int64_t window);

#endif
