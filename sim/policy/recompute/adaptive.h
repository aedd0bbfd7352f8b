/* adaptive.h - how many blocks of each kind a stage keeps within a budget of memory.
 *
 * Memory of a stage is linear in the blocks that keep their activations, but for one jump a kind:
 * while any block recomputes, its activations stand beside the rest during its backward. So six
 * numbers, each from a simulated stage, say what every choice needs.
 */
#ifndef BALLAST_SIM_POLICY_ADAPTIVE_H
#define BALLAST_SIM_POLICY_ADAPTIVE_H

#include <stdbool.h>
#include <stdint.h>

enum { ADAPTIVE_VISION, ADAPTIVE_LANGUAGE, ADAPTIVE_KINDS };

struct adaptive_stage {
    int64_t blocks[ADAPTIVE_KINDS];    /* that can recompute */
    double seconds[ADAPTIVE_KINDS];    /* saved by each that keeps */
    double kept_bytes[ADAPTIVE_KINDS]; /* needed by each that keeps, all in-flight micro-batches */
    /* [vision all keep][language all keep]: bytes with as few others as can be keeping */
    double base_bytes[2][2];
};

/* Blocks of each kind that keep: the most seconds saved within the budget, then the fewest bytes.
 * False when even recomputing all does not fit; nothing keeps then. */
bool adaptive_choose(const struct adaptive_stage *stage, double budget_bytes,
                     int64_t keep[ADAPTIVE_KINDS]);

#endif
