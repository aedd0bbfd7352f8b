/* attention_modes.h - what a named kernel, dropout and a fixed order of sums change in fused
 * attention.
 *
 * Source: the libraries themselves, as named in attention_modes.c. Private to costmodel.
 */
#ifndef BALLAST_COSTMODEL_ATTENTION_MODES_H
#define BALLAST_COSTMODEL_ATTENTION_MODES_H

#include "costmodel/cost_model.h"

/* What a stack runs. own_kernel: it states an attention of its own for this GPU, which is
 * FlashAttention-2 up to Hopper and on Blackwell an older cuDNN. cudnn_takes_masks: where Hopper's
 * PyTorch prefers cuDNN; on Blackwell it always does. */
struct attention_library {
    bool own_kernel, cudnn_takes_masks;
};

/* FLOP/s of PyTorch's fused kernel for fp32, whichever precision matmuls are set to: it makes each
 * of its products of three in TF32 (mem_eff_attention/gemm_kernel_utils.h, OpMultiplyAddFastF32).
 * attention_use_modes() gives it FlashAttention-2's share of that, whatever the stack. */
double attention_single_peak(const struct gpu *gpu);
/* Changes a step's price of an attention operator that asks for one; others stay as they are.
 * Returns seconds of traffic on top, to be added once the stack's factors are in the price.
 * moved_bytes_per_s: what kernels that stream reach. */
double attention_use_modes(struct price *price, const struct operator_work *work,
                           const struct gpu *gpu, double moved_bytes_per_s,
                           const struct attention_library *library);
/* Time of FlashAttention-2's deterministic backward over that of the other, for this many heads of
 * all samples and this mean length; at least 1. *splits: partial sums of the query gradient. */
double attention_ordered_factor(int64_t sm_count, int64_t heads, double length, bool causal,
                                int64_t *splits);

#endif
