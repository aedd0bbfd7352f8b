/* sharded_pass.h - one pass of a model whose parameters (ZeRO-3, FSDP) or gradients (ZeRO-2) are
 * sharded.
 *
 * Each transformer block is a unit; all other layers form the root unit, which is gathered once per
 * pass pair and kept. The network runs one collective at a time: while a unit computes, the next
 * unit is gathered, at most two ahead; in backward a unit is gathered again and its gradients are
 * reduced behind it. What no gradient passes through, as a frozen encoder, has no backward and is
 * not gathered for one: the hooks hang on outputs that need a gradient (torch.distributed.fsdp,
 * _register_pre_backward_hooks; DeepSpeed's PreBackwardFunction).
 *
 *     int64_t ns = sharded_forward_ns(&pass);
 *
 * Sources: Zhao et al., "PyTorch FSDP" (2023), sections 3.2 and 3.3; Rajbhandari et al., "ZeRO"
 * (2020).
 */
#ifndef BALLAST_SIM_STEP_SHARDED_PASS_H
#define BALLAST_SIM_STEP_SHARDED_PASS_H

#include <stdbool.h>
#include <stdint.h>

struct sharded_unit {
    int64_t forward_ns, backward_ns; /* compute; recomputation is part of backward */
    int64_t gather_ns;               /* 0: not sharded */
    int64_t reduce_ns;               /* 0: frozen */
    int64_t gather_again_ns; /* in backward; 0: not sharded, or no gradient passes through */
};

struct sharded_pass {
    const struct sharded_unit *units; /* in order of execution */
    int64_t unit_count;
    /* What is not in units: computed before them (embeddings) and after them (head). What the last
     * gathers by itself, in either pass, hides behind nothing. */
    struct sharded_unit first, last;
    int64_t root_gather_ns, root_reduce_ns;
    bool reduces_alone; /* on the stream of the compute, so that no reduction hides */
};

int64_t sharded_forward_ns(const struct sharded_pass *pass);
int64_t sharded_backward_ns(const struct sharded_pass *pass);

#endif
