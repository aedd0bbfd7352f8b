/* attention_modes.c - which kernel runs, and what it takes more.
 *
 * Kernel, as Transformer Engine chooses it (dot_product_attention/utils.py, get_attention_backend):
 * FlashAttention-2 before Hopper, where cuDNN's backward has no fixed order; cuDNN from Hopper on;
 * on Blackwell FlashAttention-2 again where both dropout and a fixed order are asked for, which
 * cuDNN has not (pull requests 2130 and 2584). A training may name FlashAttention-2 or 3 itself.
 *
 * FlashAttention-2 on Hopper: 1.75 and 1.625 times what the profile holds, which is the third
 * (arXiv 2407.08608: 1.5 to 2.0 and 1.5 to 1.75).
 *
 * The first FlashAttention takes twice the second's time (arXiv 2307.08691).
 *
 * Dropout in the kernel (forward and backward, p = 0.1): cuDNN 0.594 to 0.614 ms on H200, 0.480 to
 * 0.525 on B300 (TransformerEngine issue 3312, sbhd); FlashAttention-2 0.695 to 0.728 on GB200
 * (pull request 3313), heads of 128. A score draws one random number whatever its head's size, its
 * matmuls take as long as the head is wide: what dropout adds goes with 128 / head size. (Kernels
 * in CuTe DSL on SM120 lose 11 to 16 % with heads of 64, 0 to 8 with 96, -2 to 6 with 128:
 * flash-attention pull request 2439.)
 *
 * A fixed order of sums, in backward:
 *   FlashAttention-2 (flash_bwd_launch_template.h): the blocks of keys of a head are dealt to
 *     G = ceil(SMs / heads) thread blocks instead of one each, in turn, and one fills an SM: the
 *     time goes with the makespans of both. Each of the G sums queries' gradients in fp32 for
 *     itself: zeros, sums and their reading, 8 bytes. On H100 at 8,192 tokens, 32 heads, causal:
 *     1.56, and 0.4 ms.
 *   cuDNN on Hopper (NVIDIA/cudnn-frontend pull request 398): the gradient of the scores goes
 *     through memory, heads x length^2 x 2 bytes whatever the mask: filled by PyTorch's allocation,
 *     written, and read by a matmul.
 *   cuDNN on Blackwell: 1.14, the median of GB200 and GB300 (1.09 to 1.20; NVIDIA/cudnn-frontend,
 *     attention.csv).
 *
 * A mask in memory (PyTorch's scaled_dot_product_attention with attn_mask: FlashAttention takes
 * none, so its memory-efficient kernel runs, over all pairs): per pair 2.01 and 1.52 times
 * FlashAttention-2 on a GPU that makes 150 and 133 TFLOP/s with it, 2.63 and 2.45 on an RTX PRO
 * 6000 at 331 and 270 (meta-pytorch/attention-gym, examples/benchmark.py: causal, 16 samples of
 * 8,192 tokens, 16 heads of 64; the printed times of two machines). Their geometric means. Where
 * PyTorch prefers cuDNN (H100 from 2.11 on, Blackwell: sdp_utils.cpp, check_prefer_cudnn_attention;
 * transformers pull request 48163), which reads a mask too, all pairs at its own pace; not in a
 * fixed order, which its backward has not by PyTorch's rules (check_cudnn_deterministic).
 *
 * FlashAttention-2 on Blackwell: 361 TFLOP/s forward (B200, 16 heads of 128, 8,192 tokens;
 * meta-pytorch/tritonbench pull request 171) and 334 backward (flash-attention issue 1589, heads of
 * 64). Stops being true: one law for all head sizes; samples of unequal length count as equal ones;
 * stacks that run neither library; cuDNN from 9.25 on, whose scores go through memory only while
 * they fit 256 MB (pull request 398); packed batches with dropout, where cuDNN's backward takes
 * 1.26 times as long on H200, 5.2 on B300 (issue 3312) and 7.0 on GB200 (pull request 3313). The
 * workspaces, G - 1 sums and those scores, are not in the memory of a step.
 */
#include "costmodel/attention_modes.h"

#include <math.h>
#include "costmodel/generation.h"
#include "sim/base/extremes.h"

#define FLASH_BLACKWELL_FORWARD_FLOP_PER_S  361e12
#define FLASH_BLACKWELL_BACKWARD_FLOP_PER_S 334e12
#define CUDNN_ORDERED_BLACKWELL             1.14
#define DROPOUT_HEAD_DIM                    128 /* of the measurements */
#define FLASH_2_HOPPER_FORWARD              1.75
#define FLASH_2_HOPPER_BACKWARD             1.625
#define FLASH_1                             2
#define MASKED_PAIR_FORWARD                 2.30
#define MASKED_PAIR_BACKWARD                1.93
enum {
    KEY_BLOCK = 128, /* keys of a thread block; 64 for heads above 128 */
    SCORE_BYTES = 2,
    SCORE_MOVES = 3, /* filled, written, read */
    SUM_BYTES = 8,   /* fp32: set to zero, read; adding to it is in the kernel's own time */
    WAVES_COUNTED = 16,
    SM_LIMIT = 1024,
    BLOCK_LIMIT = 256, /* of one head: 32,768 keys */
    TASKS_COUNTED = 4096,
};

static double dropout_factor(enum gpu_generation generation, bool flash, int64_t head_dim) {
    const double measured = flash                             ? 0.728 / 0.695
                            : generation == GENERATION_HOPPER ? 0.614 / 0.594
                                                              : 0.525 / 0.480;
    return 1 + (measured - 1) * DROPOUT_HEAD_DIM / (double)head_dim;
}

/* Thread blocks start in their order, each on the SM that is free first: a heap of what SMs are
 * busy with, the least on top. work[task % per_head], task by task. */
static double makespan(int64_t sm_count, int64_t tasks, int64_t per_head, const double *work) {
    double busy[SM_LIMIT] = { 0 };
    double end = 0;
    for (int64_t task = 0; task < tasks; task++) {
        const double until = busy[0] + work[task % per_head];
        end = greater_of(end, until);
        int64_t at = 0;
        for (int64_t child = 1; child < sm_count; child = 2 * at + 1) {
            if (child + 1 < sm_count && busy[child + 1] < busy[child]) child++;
            if (busy[child] >= until) break;
            busy[at] = busy[child];
            at = child;
        }
        busy[at] = until;
    }
    return end;
}

double attention_ordered_factor(int64_t sm_count, int64_t heads, double length, bool causal,
                                int64_t *splits) {
    double block_work[BLOCK_LIMIT], work[SM_LIMIT] = { 0 };
    const int64_t blocks = (int64_t)ceil(greater_of(length, 1) / KEY_BLOCK);
    const int64_t sms = sm_count < SM_LIMIT ? sm_count : SM_LIMIT;
    *splits = 1;
    if (sms < 1 || heads < 1 || heads > WAVES_COUNTED * sms) return 1;
    const int64_t count = (sms + heads - 1) / heads;
    *splits = count < blocks ? count : blocks;
    double all = 0;
    for (int64_t block = 0; block < blocks; block++) {
        const double scores = (double)(causal ? blocks - block : blocks);
        if (block < BLOCK_LIMIT) block_work[block] = scores;
        work[block % *splits] += scores;
        all += scores;
    }
    /* Many small blocks fill the SMs evenly, whatever the order. */
    const double even = all * (double)heads / (double)sms;
    const double apart = blocks <= BLOCK_LIMIT && blocks * heads <= TASKS_COUNTED
                             ? makespan(sms, blocks * heads, blocks, block_work)
                             : even;
    return greater_of(makespan(sms, *splits * heads, *splits, work) / apart, 1);
}

/* Seconds of traffic beside the kernel's own; its compute goes up in place. */
static double fixed_order(struct price *p, const struct operator_work *work, const struct gpu *gpu,
                          double moved_bytes_per_s, enum gpu_generation generation, bool flash) {
    const double length = work->square_sum / work->token_sum;
    if (flash) {
        /* Key blocks: of cross attention, whose length is that of its keys too. */
        const double keys = work->key_token_sum > 0 ? work->key_token_sum : work->token_sum;
        const int64_t heads = llround((double)work->heads * keys / greater_of(length, 1));
        int64_t splits;
        p->compute_s *=
            attention_ordered_factor(gpu->sm_count, heads, length, work->causal, &splits);
        return (double)(splits - 1) * work->token_sum * (double)(work->heads * work->head_dim) *
               SUM_BYTES / moved_bytes_per_s;
    }
    if (generation == GENERATION_HOPPER)
        return SCORE_MOVES * work->square_sum * (double)work->heads * SCORE_BYTES /
               moved_bytes_per_s;
    p->compute_s *= CUDNN_ORDERED_BLACKWELL;
    return 0;
}

double attention_single_peak(const struct gpu *gpu) {
    const double tf32 = gpu->peak_flop_per_s[PRECISION_TF32];
    return tf32 > 0 ? tf32 / 3 : gpu->peak_flop_per_s[PRECISION_FP32];
}

/* What one product in 16 bits takes is this much of what PyTorch's kernel makes one of in fp32. */
static double products_of_single(const struct gpu *gpu, enum precision precision) {
    return precision_is_single(precision)
               ? gpu->peak_flop_per_s[PRECISION_BF16] / attention_single_peak(gpu)
               : 1;
}

double attention_use_modes(struct price *p, const struct operator_work *work, const struct gpu *gpu,
                           double moved_bytes_per_s, const struct attention_library *library) {
    const enum attention_kernel named = work->attention_kernel;
    const bool single = precision_is_single(work->precision);
    if (!work->dropout && !work->deterministic && named == ATTENTION_KERNEL_USUAL && !single)
        return 0;
    if (!(work->token_sum > 0) || !(p->seconds > 0)) return 0;
    const enum gpu_generation generation = gpu_generation_of(gpu->name);
    const bool masked = named == ATTENTION_KERNEL_MASKED;
    const bool first = named == ATTENTION_KERNEL_FLASH_1;
    const bool cudnn_reads_mask = masked && !work->deterministic && !single &&
                                  (generation == GENERATION_BLACKWELL ||
                                   (generation == GENERATION_HOPPER && library->cudnn_takes_masks));
    const bool flash_2 =
        (masked && !cudnn_reads_mask) || first || named == ATTENTION_KERNEL_FLASH_2 || single;
    const bool stands_in =
        generation == GENERATION_BLACKWELL && work->dropout && work->deterministic;
    const bool flash = flash_2 ||
                       (library->own_kernel && named == ATTENTION_KERNEL_USUAL &&
                        generation != GENERATION_BLACKWELL) ||
                       generation < GENERATION_HOPPER || stands_in;
    const double before_s = p->seconds;
    const bool forward = work->pass == PASS_FORWARD;
    double moved_s = 0;
    if (stands_in || (flash_2 && generation == GENERATION_BLACKWELL))
        p->compute_s =
            greater_of(p->compute_s, work->flop * products_of_single(gpu, work->precision) /
                                         (forward ? FLASH_BLACKWELL_FORWARD_FLOP_PER_S
                                                  : FLASH_BLACKWELL_BACKWARD_FLOP_PER_S));
    else if (flash_2 && generation == GENERATION_HOPPER)
        p->compute_s *= forward ? FLASH_2_HOPPER_FORWARD : FLASH_2_HOPPER_BACKWARD;
    if (first) p->compute_s *= FLASH_1;
    if (masked) {
        if (work->causal) p->compute_s *= 2;
        if (!cudnn_reads_mask && !single)
            p->compute_s *= forward ? MASKED_PAIR_FORWARD : MASKED_PAIR_BACKWARD;
        p->inside_range = false;
    }
    if (work->dropout) p->compute_s *= dropout_factor(generation, flash, work->head_dim);
    if (work->deterministic && !forward) {
        moved_s = fixed_order(p, work, gpu, moved_bytes_per_s, generation, flash);
        p->inside_range = false;
    }
    p->seconds = p->launch_s + greater_of(p->compute_s, p->memory_s);
    p->efficiency *= before_s / p->seconds;
    return moved_s;
}
