/* attention_modes.c - which kernel runs, and what it takes more.
 *
 * Kernel, as Transformer Engine chooses it (dot_product_attention/utils.py, get_attention_backend):
 * FlashAttention-2 before Hopper, where cuDNN's backward has no fixed order; cuDNN from Hopper on;
 * on Blackwell FlashAttention-2 again where both dropout and a fixed order are asked for, which
 * cuDNN has not (pull requests 2130 and 2584).
 *
 * Dropout in the kernel (forward and backward, p = 0.1): cuDNN 0.594 to 0.614 ms on H200, 0.480 to
 * 0.525 on B300 (TransformerEngine issue 3312, sbhd); FlashAttention-2 0.695 to 0.728 on GB200
 * (pull request 3313).
 *
 * A fixed order of sums, in backward:
 *   FlashAttention-2 (flash_bwd_launch_template.h): the blocks of keys of a head are dealt to
 *     G = ceil(SMs / heads) thread blocks instead of one each, in turn, and one fills an SM. So
 *     heads x G of them run in waves, t = t(other) makespan / (work / SMs); each of the G sums
 *     queries' gradients in fp32 for itself: zeros, sums and their reading, 8 bytes. On H100 at
 *     8,192 tokens, 32 heads, causal: 1.65, and 0.4 ms; its authors' 166 TFLOP/s (pull request
 *     1893) would be 287 without.
 *   cuDNN on Hopper (NVIDIA/cudnn-frontend pull request 398): the gradient of the scores goes
 *     through memory, heads x length^2 x 2 bytes whatever the mask: filled by PyTorch's allocation,
 *     written, and read by a matmul.
 *   cuDNN on Blackwell: 1.14, the median of GB200 and GB300 (1.09 to 1.20; NVIDIA/cudnn-frontend,
 *     attention.csv).
 *
 * FlashAttention-2 on Blackwell: 361 TFLOP/s forward (B200, 16 heads of 128, 8,192 tokens;
 * meta-pytorch/tritonbench pull request 171) and 334 backward (flash-attention issue 1589, heads of
 * 64). Stops being true: one law for all head sizes; samples of unequal length count as equal ones;
 * stacks that run neither library.
 */
#include "costmodel/attention_modes.h"

#include <math.h>
#include <string.h>

#define FLASH_BLACKWELL_FORWARD_FLOP_PER_S  361e12
#define FLASH_BLACKWELL_BACKWARD_FLOP_PER_S 334e12
#define CUDNN_ORDERED_BLACKWELL             1.14
enum {
    KEY_BLOCK = 128, /* keys of a thread block; 64 for heads above 128 */
    SCORE_BYTES = 2,
    SCORE_MOVES = 3, /* filled, written, read */
    SUM_BYTES = 8,   /* fp32: set to zero, read; adding to it is in the kernel's own time */
    WAVES_COUNTED = 16,
};

enum generation { BEFORE_HOPPER, HOPPER, BLACKWELL };

static enum generation generation_of(const struct gpu *gpu) {
    if (gpu->name[0] == 'h') return HOPPER;
    return gpu->name[0] == 'b' || strncmp(gpu->name, "gb", 2) == 0 ? BLACKWELL : BEFORE_HOPPER;
}

static double dropout_factor(enum generation generation, bool flash) {
    if (flash) return 0.728 / 0.695;
    return generation == HOPPER ? 0.614 / 0.594 : 0.525 / 0.480;
}

/* Thread blocks start in their order, each on the SM that is free first. */
static double makespan(int64_t sm_count, int64_t heads, int64_t splits, const double *work) {
    enum { SM_LIMIT = 256 };
    double busy[SM_LIMIT] = { 0 };
    const int64_t count = sm_count < SM_LIMIT ? sm_count : SM_LIMIT;
    double end = 0;
    for (int64_t head = 0; head < heads; head++)
        for (int64_t split = 0; split < splits; split++) {
            int64_t first = 0;
            for (int64_t i = 1; i < count; i++)
                if (busy[i] < busy[first]) first = i;
            busy[first] += work[split];
            end = fmax(end, busy[first]);
        }
    return end;
}

double attention_ordered_factor(int64_t sm_count, int64_t heads, double length, bool causal,
                                int64_t *splits) {
    enum { SPLIT_LIMIT = 256 };
    double work[SPLIT_LIMIT] = { 0 };
    *splits = 1;
    if (sm_count < 1 || heads < 1 || heads > WAVES_COUNTED * sm_count) return 1;
    int64_t count = (sm_count + heads - 1) / heads;
    if (count > SPLIT_LIMIT) count = SPLIT_LIMIT;
    const int64_t blocks = (int64_t)ceil(fmax(length, 1) / KEY_BLOCK);
    double all = 0;
    for (int64_t block = 0; block < blocks; block++) {
        const double scores = (double)(causal ? blocks - block : blocks);
        work[block % count] += scores;
        all += scores;
    }
    *splits = count;
    const double even = all * (double)heads / (double)sm_count;
    return fmax(makespan(sm_count, heads, count, work) / even, 1);
}

static void add_seconds(struct price *p, double seconds) {
    p->compute_s += seconds;
    p->seconds = p->launch_s + fmax(p->compute_s, p->memory_s);
}

static void fixed_order(struct price *p, const struct operator_work *work, const struct gpu *gpu,
                        double moved_bytes_per_s, enum generation generation, bool flash) {
    const double length = work->square_sum / work->token_sum;
    if (flash) {
        int64_t splits;
        const int64_t heads = llround((double)work->heads * work->token_sum / fmax(length, 1));
        p->compute_s *=
            attention_ordered_factor(gpu->sm_count, heads, length, work->causal, &splits);
        const double sums = (double)(splits - 1) * work->token_sum *
                            (double)(work->heads * work->head_dim) * SUM_BYTES;
        add_seconds(p, sums / moved_bytes_per_s);
    } else if (generation == HOPPER) {
        const double scores = work->square_sum * (double)work->heads * SCORE_BYTES;
        add_seconds(p, SCORE_MOVES * scores / moved_bytes_per_s);
    } else {
        p->compute_s *= CUDNN_ORDERED_BLACKWELL;
        add_seconds(p, 0);
    }
}

void attention_use_modes(struct price *p, const struct operator_work *work, const struct gpu *gpu,
                         double moved_bytes_per_s, bool own_kernel) {
    if (!work->dropout && !work->deterministic) return;
    if (!(work->token_sum > 0) || !(p->seconds > 0)) return;
    const enum generation generation = generation_of(gpu);
    const bool stands_in = generation == BLACKWELL && work->dropout && work->deterministic;
    const bool flash = own_kernel || generation == BEFORE_HOPPER || stands_in;
    const double before_s = p->seconds;
    const bool forward = work->pass == PASS_FORWARD;
    if (stands_in)
        p->compute_s =
            fmax(p->compute_s, work->flop / (forward ? FLASH_BLACKWELL_FORWARD_FLOP_PER_S
                                                     : FLASH_BLACKWELL_BACKWARD_FLOP_PER_S));
    if (work->dropout) p->compute_s *= dropout_factor(generation, flash);
    add_seconds(p, 0);
    if (work->deterministic && !forward)
        fixed_order(p, work, gpu, moved_bytes_per_s, generation, flash);
    p->efficiency *= before_s / p->seconds;
    if (work->deterministic) p->inside_range = false;
}
