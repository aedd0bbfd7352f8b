/* plan.c - one row for each GPU. */
#include "calibrate/fit/plan.h"

#include "calibrate/fit/gpu_name.h"

#include <string.h>
#include "calibrate/fit/calibrate.h"
#include "sim/base/field.h"

/* 26 bf16 shapes on H20 (S26, S27) and nine in fp8 by torch with scales for blocks (S25): 0.96 of
 * either peak, less by whole waves of tiles as A100's exponent has it; 0.7 and 1.1 % in the median,
 * 1.9 and 3.3 at the 90 % quantile (without waves 3 and 13). Kernels of 10 ms and more run as fast, so
 * it keeps its clock under load, and scales cost nothing. */
#define H20_EFFICIENCY 0.96
#define H20_FP8_K_HALF 17
#define H20_K_HALF     8.5
static const struct stated_form h20_form = {
    .launch_us = 2.5,
    .efficiency = H20_EFFICIENCY,
    .k_half = H20_K_HALF,
    .memory_fraction = 0.75,
    .wave_exponent = 0.75,
    .wave_slots = 78,
    .band = 0.05,
    .source =
        "H20 matmuls, bf16 of flagos-ai/FlagGems and zzc0721/torch-performance-test-data, fp8 of "
        "vllm-project/vllm pull request 49932",
};

/* Of nccl-tests' times on a server of eight A100 PCIe without NVLink: line by line what SimuMax
 * fits (S2, configs/system/a100_pcie.json: 30 GB/s times an efficiency, and a latency). Its
 * point-to-point is not fitted, so a message is an all-to-all of two. Two L40S measure the same 20
 * GB/s, but four and eight of them 5 and 1.4 on a machine where cards do not reach each other; four
 * on others 20 and more (NVIDIA/nccl-tests issue 178, nccl issue 1639). */
#define S2_BUS(fraction) (30 * (fraction))
static const struct stated_collective pcie_collectives[] = {
    { OPERATOR_ALL_REDUCE, 2, 15.51, S2_BUS(0.6965) },
    { OPERATOR_ALL_REDUCE, 4, 3.45, S2_BUS(0.6924) },
    { OPERATOR_ALL_REDUCE, 8, 8.98, S2_BUS(0.4176) },
    { OPERATOR_ALL_GATHER, 2, 24.84, S2_BUS(0.6866) },
    { OPERATOR_ALL_GATHER, 4, 8.93, S2_BUS(0.6915) },
    { OPERATOR_ALL_GATHER, 8, 4.83, S2_BUS(0.4497) },
    { OPERATOR_REDUCE_SCATTER, 2, 131.30, S2_BUS(0.6419) },
    { OPERATOR_REDUCE_SCATTER, 4, 29.88, S2_BUS(0.6845) },
    { OPERATOR_REDUCE_SCATTER, 8, 15.64, S2_BUS(0.3688) },
    { OPERATOR_ALL_TO_ALL, 2, 24.07, S2_BUS(0.6969) },
    { OPERATOR_ALL_TO_ALL, 4, 13.84, S2_BUS(0.6380) },
    { OPERATOR_ALL_TO_ALL, 8, 30.04, S2_BUS(0.2754) },
    { OPERATOR_SEND, 2, 24.07, S2_BUS(0.6969) },
    { .rank_count = 0 },
};
#define PCIE_COLLECTIVES                                                                           \
    .nccl_gpu = "L40S", .nccl_relative = "H100-SXM5-80GB", .stated_collectives = pcie_collectives, \
    .stated_collectives_source = "fit of nccl-tests on eight A100 PCIe (MooreThreads/SimuMax)"

#define A100_SETTLED                                                                               \
    "settled curve: cuBLASLt after 10,000 warm-ups at 253-257 TFLOP/s (Azure/AI-benchmarking-"     \
    "guide), 257 with random data (thonking.ai), SGLang collector median 248"
#define HBM2E_SETTLED                                                                              \
    "settled curve: torch.mm on the published machines with this part, taken to run at their 500 " \
    "W: 0.6 of the peak in bf16 (pytorch/ao benchmarks/float8/float8_roofline.py of 2024; four "   \
    "shapes 0.55 to 0.61, pytorch-labs/float8_experimental pull requests 38 and 100); fp8: nine "  \
    "matmuls of a feed-forward layer, forward and backward, 1083 TFLOP/s where bf16 makes 600 "    \
    "(pull request 298), 0.852 of what 700 W would give, forward shapes by themselves up to 0.71 " \
    "of the peak (38, 100)"
#define HOPPER_SETTLED                                                                             \
    "settled curve: between the SGLang and TensorRT-LLM collectors of ai-dynamo/aiconfigurator "   \
    "for long kernels at the 700 W limit"
/* Cards in a PCIe slot: the best matmul in bf16 that one search found on each part is 256 TFLOP/s
 * on A100 PCIe, 268 on A100 SXM, 792 on H100 SXM, 500 on H100 PCIe and 489 on H100 NVL
 * (mag-/gpu_benchmark, README at 13f96a4). What settles is 0.94 to 0.97 of it on the three
 * whose settled speed is known, so 0.95 of it on the others: 475 on H100 PCIe, 464 on NVL. H100's
 * 771 at 700 W times power to 2/3 is 486 and 531. fp8: scaled_mm of blocks makes 580 on H100 PCIe
 * at K 5,120 and 8,192 (pytorch/ao pull request 3342), 1.22 times that with one scale a tensor, 0.62
 * of an SM of H100 at 700 W; NVL's SMs have the same power. At 500 W it is 0.852, power to 0.476. */
#define HOPPER_FP8 "fp8 that of H100 SXM times power to 0.476, as at 500 W (h100-96g-sxm)"
#define CARD_SEARCH                                                                                \
    "settled curve: 0.95 of the best matmul of one search over shapes (mag-/gpu_benchmark), as "   \
    "H100 SXM and A100 settle; "
/* A board of four: 680 W a module (apps.fz-juelich.de, JUPITER's configuration), of which the
 * processor and its memory are taken to need 100 while GPUs compute. H100 settles at 0.78 of the
 * peak at 700 W and at 0.60 at 500 W, a power of 0.78; fp8 by HOPPER_FP8. */
#define GH200_SETTLED                                                                              \
    "settled curve: H100's between 0.78 at 700 W and 0.60 at 500 W, at 580 W: a board of four "    \
    "gives each module 680 W (JUPITER's configuration page), 100 of them taken to be the "         \
    "processor's"
/* cuDNN on H200, causal, 2,048 to 32,768 tokens: 1.37 to 1.61 (NVIDIA/cudnn-frontend). */
#define HOPPER_BACKWARD_WIDE 1.45
/* What every relative of A100 and H100 takes from it, the part itself included. vLLM 0.14.0 takes
 * 1.16 times SGLang 0.5.10's time for the same attention on A100 (1,496 shapes), as long on H100,
 * and 1.12 times vLLM 0.20.0's on A100 (17 shapes): its kernel, not the hardware. */
#define A100_FRACTIONS                                                                             \
    .gemm_gpu = "A100-SXM4-80GB", .gemm_peak = A100_PEAK, .gemm_bandwidth = A100_HBM,              \
    .settled_k_half = 128, .fp8_efficiency = 0.68, .attention_gpu = "A100-SXM4-80GB",              \
    .attention_framework = "sglang", .stream_gpu = "A100-SXM4-80GB", .launch_us = 2.6,             \
    .graph_launch_us = 1.3
#define H100_FRACTIONS                                                                             \
    .gemm_gpu = "H100-SXM5-80GB", .gemm_peak = H100_PEAK, .gemm_bandwidth = 3350e9,                \
    .settled_k_half = 128, .fp8_efficiency = 0.68, .attention_gpu = "H100-SXM5-80GB",              \
    .attention_backward_wide = HOPPER_BACKWARD_WIDE, .stream_gpu = "H100-SXM5-80GB",               \
    .launch_us = 2.5, .graph_launch_us = 1.3
/* PCIe 5 over PCIe 4 of L40S's collectives: 51.5 of 26.28 GB/s between host and device. */
#define PCIE5_OVER_PCIE4 (51.5 / 26.28)
#define A100_PEAK        312e12
#define A100_HBM         2039e9
#define H100_PEAK        989e12
#define B200_PEAK        2250e12

/* Both sizes of memory have one die and one clock. */
#define H20_STATED                                                                                 \
    .note = "matmul of 35 shapes in bf16 and fp8 (vllm-project/vllm pull request 49932, "          \
            "flagos-ai/FlagGems, zzc0721/torch-performance-test-data); attention from "            \
            "Dao-AILab/flash-attention#1310; 8-GPU all-reduce measured, other collectives those "  \
            "of H100 capped at its plateau of 362 GB/s; memory fractions of H200",                 \
    .gemm_gpu = "H100-SXM5-80GB", .gemm_peak = H100_PEAK, .gemm_bandwidth = 3350e9,                \
    .stated = &h20_form, .settled_efficiency = H20_EFFICIENCY, .settled_k_half = H20_K_HALF,       \
    .fp8_efficiency = H20_EFFICIENCY, .fp8_settled_efficiency = H20_EFFICIENCY,                    \
    .fp8_settled_k_half = H20_FP8_K_HALF, .blockwise_time = 1,                                     \
    .settled_source = "as isolated: kernels of 10 ms and more run no slower",                      \
    .attention_gpu = "H100-SXM5-80GB", .attention_efficiency = 0.87, .attention_length_half = 400, \
    .attention_narrow = 0.97,                                                                      \
    .attention_source = "stated for H20 from Dao-AILab/flash-attention#1310 at length 2048",       \
    .stream_gpu = "H200-SXM", .launch_us = 2.5, .graph_launch_us = 1.3,                            \
    .nccl_gpu = "H100-SXM5-80GB", .nccl_relative = "H200-SXM", .own_nccl_gpu = "H20",              \
    .link_ratio = 1, .cap_GB_per_s = 362, .band_factor = 1.7

/* Of cuBLASLt and DeepGEMM on B200, large shapes: 0.58 and 0.63 of 9 PFLOP/s (deepseek-ai/DeepGEMM,
 * pull request 348); on GB200 cuBLASLt reaches 0.52 at cubes of 4096 and 0.75 from 8192 on. On
 * GB300 it makes 5417 TFLOP/s at cubes of 4096 and 8156, 8640 and 8555 from 8192 to 32,768 (S24),
 * 0.57 of 15,000. B300's are those times power to 2/3 (below; 1100 W of 1400), 7.3 of 13.5 PFLOP/s:
 * its own measurement by a library is of a layer of width 4096 alone, 5.1 by Transformer Engine
 * (S23), where GB300 has as much less too. Left out: 8.3 of 8192 x 8192 x 33,024 by a kernel of its
 * own in MXFP4 (HazyResearch/ThunderKittens, kernels/gemm/nvfp4_b300). */
#define B200_FP4_EFFICIENCY  0.60
#define B300_FP4_EFFICIENCY  0.54
#define GB300_FP4_EFFICIENCY 0.57

/* Matrix multiplications of the family run at the power limit, whatever the depth (fp8 of GB200:
 * 2835 to 2907 TFLOP/s at cubes of 4096 to 32768). In bf16 GB200 and B300 are B200's settled speed
 * by what one search for the best matmul finds on each (the mean of 100 calls after 50): 1745 on
 * B200, 1822 on GB200, 1769 on B300 (stas00/ml-engineering, compute/accelerator, August 2026). In
 * fp8 it has GB200 at 1.053 of B200. GB300 is GB200 over 0.857: one release of cuDNN timed both,
 * and the four longest kernels in bf16, 18 to 140 ms each, take 0.82, 0.83, 0.885 and 0.89 of
 * GB200's time (fp8 matmuls 0.875). Matmuls in fp8: B200's, the same die at 1000 of GB200's
 * 1200 W, reach the same part of their own peak, 0.9 of GB200's speed, a power of 0.58: between
 * those two and GB300 attention over 131,072 tokens, a second of it, goes as power to 0.43 to 1.0,
 * cuBLAS as 0.74. B300's reach 0.974 of GB200's at 1100 W, a power of 0.3 (and B200 was given that
 * before), but of another die. Power to 2/3 had bf16 of GB200 at 1550 before; steps in bf16 took 4
 * to 13 % longer than that. */
#define BLACKWELL_FP8_K_HALF 20
#define GB200_SETTLED                                                                              \
    "settled curve: fp8 by cuBLASLt after 10,000 warm-ups at 2835 to 2907 TFLOP/s (Azure/AI-"      \
    "benchmarking-guide); bf16 that of B200 times 1822 / 1745 TFLOP/s, the best matmul of each "   \
    "(stas00/ml-engineering)"
#define B300_SETTLED                                                                               \
    "settled curve: fp8 by Transformer Engine at 2815 TFLOP/s in a layer's shapes (NVIDIA/"        \
    "TransformerEngine, docs/examples/gemm_profiling, B300 SXM6); bf16 that of B200 times "        \
    "1769 / 1745 TFLOP/s, the best matmul of each (stas00/ml-engineering)"
#define GB300_SETTLED                                                                              \
    "settled curve: fp8 by cuBLASLt after 10,000 warm-ups at 3257 to 3308 TFLOP/s (Azure/AI-"      \
    "benchmarking-guide); bf16 that of GB200 over 0.857, as the longest attention kernels of "     \
    "cuDNN differ"

/* Two machines with B200 were measured. Kernels of TensorRT-LLM's collector make 1495 TFLOP/s below
 * 8 ms, 1462 below 12, 1384 below 20, 1331 below 50 and 1228 beyond (60 shapes from 1e13 FLOP on,
 * forward only); TransformerEngine on SimuMax's makes 1030 to 1140 in every shape from 0.3 ms on,
 * 0.74 to 0.85 of that at equal duration. Two published steps in bf16 are faster as a whole than
 * matmuls alone would be on the second machine. So a B200 is the first, 1350 or 0.60 of the peak;
 * the second, at 0.50, has a profile of its own, whose other precisions are those of a power of
 * 0.76 (0.50 / 0.60 to 3/2). */
#define B200_SETTLED                                                                               \
    "settled curve: the longest kernels of TensorRT-LLM's collector (1384 TFLOP/s at 12 to 20 "    \
    "ms, "                                                                                         \
    "1331 to 50 ms, 1228 beyond; ai-dynamo/aiconfigurator); fp8 at GB200's fraction of the peak"
#define B200_SLOW_SETTLED                                                                          \
    "settled curve: TransformerEngine medians of 0.495, 0.495 and 0.453 by layout at 10^12 to "    \
    "10^13 FLOP, called over and over (MooreThreads/SimuMax); 0.64 at 10^10 before the clock "     \
    "falls; fp8 and fp4 by the same power, to 0.3"

/* What every relative of B200 takes from it. */
#define B200_FRACTIONS                                                                             \
    .gemm_gpu = "B200-SXM", .gemm_peak = B200_PEAK, .gemm_bandwidth = 7700e9,                      \
    .settled_k_half = 64, .fp8_settled_k_half = BLACKWELL_FP8_K_HALF,                              \
    .attention_gpu = "H100-SXM5-80GB", .attention_peak = H100_PEAK, .attention_bandwidth = 3350e9, \
    .stream_gpu = "H200-SXM", .launch_us = 2.5, .graph_launch_us = 1.3, .nccl_gpu = "B200-SXM",    \
    .nccl_relative = "H100-SXM5-80GB", .link_ratio = 1
/* Twice the exponentials of GB200's: times of GB300 over GB200, medians of ten shapes. */
#define B300_ATTENTION .attention_forward_time = 0.86, .attention_backward_time = 0.92
#define B300_NOTE                                                                                  \
    "matmul shapes and collectives of B200-SXM, attention fractions of H100-SXM5-80GB on GB200 "   \
    "times what GB300 gains on it"

static const struct plan plans[] = {
    { .gpu = "a100-80g-sxm",
      .note = "measured on A100-SXM4-80GB",
      A100_FRACTIONS,
      .settled_efficiency = 0.82,
      .settled_source = A100_SETTLED,
      .nccl_gpu = "A100-SXM4-80GB",
      .nccl_relative = "H100-SXM5-80GB",
      .link_ratio = 1,
      .band_factor = 1,
      .variant_gpus = { "A100-SXM4-80GB" },
      .variant_peak = A100_PEAK,
      .variant_bandwidth = A100_HBM },
    { .gpu = "a100-80g-pcie",
      .note =
          "matmul table of A100-SXM4-80GB shifted to the TransformerEngine measurements of A100 "
          "PCIe (MooreThreads/SimuMax); attention and memory fractions of the SXM part; "
          "collectives as published of eight such cards without NVLink",
      A100_FRACTIONS,
      .shift_gpu = "A100-PCIe-80GB",
      .settled_efficiency = 0.77,
      .settled_source = "settled curve: TransformerEngine medians 0.74-0.75 at 10^12 FLOP on A100 "
                        "PCIe (MooreThreads/SimuMax)",
      PCIE_COLLECTIVES,
      .link_ratio = 1,
      .band_factor = 1.5,
      .variant_gpus = { "A100-PCIe-80GB" },
      .variant_peak = A100_PEAK,
      .variant_bandwidth = 1935e9 },
    { .gpu = "a100-40g-sxm",
      .derived = true,
      .note = "fractions of A100-SXM4-80GB, the same die at the same clocks with slower memory; "
              "all-reduce of NCCL 2.8 measured on A100-SXM4-40GB as a variant",
      A100_FRACTIONS,
      .settled_efficiency = 0.82,
      .settled_source = A100_SETTLED,
      .nccl_gpu = "A100-SXM4-80GB",
      .nccl_relative = "H100-SXM5-80GB",
      .apart_nccl_gpu = "A100-SXM4-40GB",
      .apart_nccl = "nccl 2.8",
      .link_ratio = 1,
      .band_factor = 1.3 },
    { .gpu = "a100-64g-sxm",
      .derived = true,
      .note = "fractions of A100-SXM4-80GB, a larger die of the same clock with slower memory; "
              "collectives of that part",
      A100_FRACTIONS,
      .wave_slots = 124,
      /* 0.82 at 400 W and 108 SMs; at 440 W and 124 each has 0.958 of the power, to 0.22 */
      .settled_efficiency = 0.81,
      .settled_source = A100_SETTLED "; times power an SM to 0.22",
      .nccl_gpu = "A100-SXM4-80GB",
      .nccl_relative = "H100-SXM5-80GB",
      .link_ratio = 1,
      .band_factor = 1.5 },
    { .gpu = "a100-40g-pcie",
      .derived = true,
      .note = "fractions of A100-SXM4-80GB, the same die with slower memory and 250 W; collectives "
              "of the 80 GB card",
      A100_FRACTIONS,
      /* squares of 8192 and 10,240 at 198 to 215 TFLOP/s (S26); A100 PCIe's 0.77 at 300 W times
       * power to 0.22, as it lies below the SXM part, would be 0.74 */
      .settled_efficiency = 0.68,
      .settled_source = "settled curve: squares of 8192 and 10,240 at 0.63 to 0.69 of the peak "
                        "(zzc0721/torch-performance-test-data)",
      PCIE_COLLECTIVES,
      .link_ratio = 1,
      .band_factor = 2 },
    { .gpu = "a800-80g-sxm",
      .derived = true,
      .note = "fractions of A100-SXM4-80GB, the same die; collectives scaled to 200 of 300 GB/s "
              "NVLink",
      A100_FRACTIONS,
      .settled_efficiency = 0.82,
      .settled_source = A100_SETTLED,
      .nccl_gpu = "A100-SXM4-80GB",
      .nccl_relative = "H100-SXM5-80GB",
      .link_ratio = 200.0 / 300,
      .band_factor = 1.3 },
    { .gpu = "h100-80g-sxm",
      .note = "measured on H100-SXM5-80GB",
      H100_FRACTIONS,
      .settled_efficiency = 0.78,
      .settled_source = HOPPER_SETTLED,
      .nccl_gpu = "H100-SXM5-80GB",
      .nccl_relative = "H200-SXM",
      .link_ratio = 1,
      .band_factor = 1,
      .variant_gpus = { "H100-SXM5-80GB" },
      .variant_peak = H100_PEAK,
      .variant_bandwidth = 3350e9,
      .variant_fp8_peak = 1979e12 },
    { .gpu = "h800-80g-sxm",
      .derived = true,
      .note =
          "fractions of H100-SXM5-80GB, same peaks; collectives scaled to 200 of 450 GB/s NVLink "
          "and capped at 165 GB/s, the measured broadcast plateau of an 8-GPU H800 node",
      .gemm_gpu = "H100-SXM5-80GB",
      .gemm_peak = H100_PEAK,
      .gemm_bandwidth = 3350e9,
      .settled_efficiency = 0.78,
      .settled_k_half = 128,
      .fp8_efficiency = 0.72,
      .settled_source = HOPPER_SETTLED,
      .attention_gpu = "H100-SXM5-80GB",
      .attention_backward_wide = HOPPER_BACKWARD_WIDE,
      .stream_gpu = "H100-SXM5-80GB",
      .launch_us = 2.5,
      .graph_launch_us = 1.3,
      .nccl_gpu = "H100-SXM5-80GB",
      .nccl_relative = "H200-SXM",
      .link_ratio = 200.0 / 450,
      .cap_GB_per_s = 165,
      .band_factor = 1.5 },
    { .gpu = "h20-96g", H20_STATED },
    { .gpu = "h20-141g", H20_STATED },
    { .gpu = "h200-141g-sxm",
      .note = "measured on H200-SXM",
      .gemm_gpu = "H200-SXM",
      .gemm_peak = H100_PEAK,
      .gemm_bandwidth = 4800e9,
      .settled_efficiency = 0.77,
      .settled_k_half = 128,
      .fp8_efficiency = 0.68,
      .settled_source = HOPPER_SETTLED,
      .attention_gpu = "H200-SXM",
      .attention_backward_wide = HOPPER_BACKWARD_WIDE,
      .stream_gpu = "H200-SXM",
      .launch_us = 2.4,
      .graph_launch_us = 1.3,
      .nccl_gpu = "H200-SXM",
      .nccl_relative = "H100-SXM5-80GB",
      .link_ratio = 1,
      .band_factor = 1,
      .variant_gpus = { "H200-SXM" },
      .variant_peak = H100_PEAK,
      .variant_bandwidth = 4800e9,
      .variant_fp8_peak = 1979e12 },
    { .gpu = "b200-180g-sxm",
      .note =
          "matmul and collectives measured on B200-SXM; attention fractions of "
          "H100-SXM5-80GB; memory fractions of H200. Bands are three times the residuals because "
          "TransformerEngine on B200 (MooreThreads/SimuMax) is a quarter slower than this table",
      .gemm_gpu = "B200-SXM",
      .gemm_peak = B200_PEAK,
      .gemm_bandwidth = 7700e9,
      .settled_efficiency = 0.60,
      .settled_k_half = 64,
      .fp8_efficiency = 0.65,
      .fp8_settled_efficiency = 0.58,
      .fp8_settled_k_half = BLACKWELL_FP8_K_HALF,
      .fp4_efficiency = B200_FP4_EFFICIENCY,
      .settled_source = B200_SETTLED,
      .attention_gpu = "H100-SXM5-80GB",
      .attention_peak = H100_PEAK,
      .attention_bandwidth = 3350e9,
      .stream_gpu = "H200-SXM",
      .launch_us = 2.5,
      .graph_launch_us = 1.3,
      .nccl_gpu = "B200-SXM",
      .nccl_relative = "H100-SXM5-80GB",
      .link_ratio = 1,
      .band_factor = 3,
      .variant_gpus = { "B200-SXM", "B200" },
      .variant_peak = B200_PEAK,
      .variant_bandwidth = 7700e9 },
    { .gpu = "b200-180g-sxm-slow",
      .note =
          "as b200-180g-sxm, for machines whose long matmuls run at 0.8 of it, as SimuMax's does",
      B200_FRACTIONS,
      .settled_efficiency = 0.50,
      .fp8_efficiency = 0.65,
      .fp8_settled_efficiency = 0.53,
      .fp4_efficiency = 0.55,
      .settled_source = B200_SLOW_SETTLED,
      .band_factor = 3,
      .variant_gpus = { "B200" },
      .variant_peak = B200_PEAK,
      .variant_bandwidth = 7700e9 },
    { .gpu = "h100-96g-sxm",
      .note = "fractions of H100-SXM5-80GB, the same die at the same peak with slower memory; "
              "attention takes the cube root of 700 / 500 W longer",
      H100_FRACTIONS,
      .settled_efficiency = 0.60,
      .fp8_settled_efficiency = 0.613,
      .settled_source = HBM2E_SETTLED,
      /* cube root of 700 / 500 W: power goes as f V^2, and voltage with the clock */
      .attention_forward_time = 1.119,
      .attention_backward_time = 1.119,
      .nccl_gpu = "H100-SXM5-80GB",
      .nccl_relative = "H200-SXM",
      .link_ratio = 1,
      .band_factor = 1.3 },
    { .gpu = "h100-80g-pcie",
      .derived = true,
      .note =
          "fractions of H100-SXM5-80GB on this part's peaks, attention by the cube root of power "
          "an SM; collectives of A100 PCIe at twice the speed, as PCIe 5 is",
      H100_FRACTIONS,
      .wave_slots = 114,
      .shift_gpu = "H100-PCIe-80GB",
      .variant_peak = 756e12,
      .variant_bandwidth = 2000e9,
      /* long runs at 430 to 433 (pytorch/ao pull request 3342), squares at 437 to 493 (S26), the
       * search's 475 */
      .settled_efficiency = 0.60,
      .fp8_settled_efficiency = 0.52,
      .settled_source =
          CARD_SEARCH "between that and the 430 of long runs (pytorch/ao pull request "
                      "3342); fp8: 580 of scaled_mm by blocks (the same pull) times 1.22",
      /* 114 of 132 SMs, each with 0.58 of the power: 0.72 of the speed, of a peak of 0.764 */
      .attention_forward_time = 1.06,
      .attention_backward_time = 1.06,
      PCIE_COLLECTIVES,
      .link_ratio = PCIE5_OVER_PCIE4,
      .band_factor = 2 },
    { .gpu = "h100-64g-sxm",
      .derived = true,
      .note = "fractions of H100-SXM5-80GB, the same die with slower memory; collectives of that "
              "part",
      H100_FRACTIONS,
      .settled_efficiency = 0.78,
      .settled_source = HOPPER_SETTLED ", which is assumed",
      .nccl_gpu = "H100-SXM5-80GB",
      .nccl_relative = "H200-SXM",
      .link_ratio = 1,
      .band_factor = 1.5 },
    { .gpu = "h100-94g-nvl",
      .derived = true,
      .note = "fractions of H100-SXM5-80GB on this part's peaks, attention by the cube root of "
              "power; collectives of A100 PCIe at twice the speed, as PCIe 5 is: the bridge of a "
              "pair is "
              "not priced",
      H100_FRACTIONS,
      /* between 464 of 835 and 531 by power */
      .settled_efficiency = 0.60,
      .fp8_settled_efficiency = 0.54,
      .settled_source = CARD_SEARCH "raised half way to H100 SXM's times power to 2/3; fp8 that of "
                                    "an SM of H100 PCIe, which has the same power",
      .attention_forward_time = 1.02,
      .attention_backward_time = 1.02,
      PCIE_COLLECTIVES,
      .link_ratio = PCIE5_OVER_PCIE4,
      .band_factor = 2.5 },
    { .gpu = "h200-141g-nvl",
      .derived = true,
      .note =
          "fractions of H100-SXM5-80GB on this part's peaks, matmuls by its clock, attention by "
          "the cube root of power; memory fractions of H200; collectives of A100 PCIe at twice "
          "the speed, as PCIe 5 is: the bridges of two or four cards are not priced",
      .gemm_gpu = "H100-SXM5-80GB",
      .gemm_peak = H100_PEAK,
      .gemm_bandwidth = 3350e9,
      /* the data sheet's 835 TFLOP/s are of 1,545 MHz: 835 / 989 over its 1,785 of SXM's 1,980 */
      .matmul_time = 0.937,
      .settled_k_half = 128,
      .settled_efficiency = 0.83,
      .fp8_efficiency = 0.73,
      .fp8_settled_efficiency = 0.79,
      .settled_source =
          "H100 SXM's 771 TFLOP/s times power (600 W) to 2/3; " HOPPER_FP8 "; a report on SMs and "
          "copy engines (\"M3b: who moves the bytes on the GPU\", 2026) has isolated matmuls at "
          "764 and 812 TFLOP/s, of data that it does not state",
      .attention_gpu = "H100-SXM5-80GB",
      .attention_backward_wide = HOPPER_BACKWARD_WIDE,
      /* 989 / 835 slower peak, (700 / 600 W) to 1/3 */
      .attention_forward_time = 0.89,
      .attention_backward_time = 0.89,
      .stream_gpu = "H200-SXM",
      .launch_us = 2.5,
      .graph_launch_us = 1.3,
      PCIE_COLLECTIVES,
      .link_ratio = PCIE5_OVER_PCIE4,
      .band_factor = 2 },
    { .gpu = "gh200-96g",
      .derived = true,
      .note =
          "fractions of H100-SXM5-80GB, the same die and peaks with faster memory, attention by "
          "the cube root of power; collectives of H100 within a board of four",
      H100_FRACTIONS,
      /* 680 W less 100 for the processor, between 0.78 at 700 W and 0.60 at 500 W */
      .settled_efficiency = 0.67,
      .fp8_settled_efficiency = 0.66,
      .settled_source = GH200_SETTLED "; " HOPPER_FP8,
      /* cube root of 700 / 580 W */
      .attention_forward_time = 1.065,
      .attention_backward_time = 1.065,
      .nccl_gpu = "H100-SXM5-80GB",
      .nccl_relative = "H200-SXM",
      .link_ratio = 1,
      .band_factor = 1.5 },
    { .gpu = "gb200-186g-nvl72",
      .note = "matmul shapes and collectives of B200-SXM on this part's peaks, beyond eight GPUs "
              "by the ring law; attention fractions of H100-SXM5-80GB, memory fractions of H200; "
              "attention of cuDNN measured on GB200 as a variant",
      B200_FRACTIONS,
      .settled_efficiency = 0.564,
      .fp8_efficiency = 0.65,
      .fp8_settled_efficiency = 0.58,
      .fp4_efficiency = B200_FP4_EFFICIENCY,
      .settled_source = GB200_SETTLED,
      .band_factor = 3,
      .variant_gpus = { "GB200" },
      .variant_peak = 2500e12,
      .variant_bandwidth = 8000e9 },
    { .gpu = "b300-288g-sxm",
      .note = B300_NOTE,
      B200_FRACTIONS,
      B300_ATTENTION,
      .settled_efficiency = 0.608,
      .fp8_efficiency = 0.65,
      .fp8_settled_efficiency = 0.63,
      .fp4_efficiency = B300_FP4_EFFICIENCY,
      .settled_source = B300_SETTLED,
      .band_factor = 3.5 },
    { .gpu = "gb300-288g-nvl72",
      .note = B300_NOTE "; attention of cuDNN measured on GB300 as a variant",
      B200_FRACTIONS,
      B300_ATTENTION,
      .settled_efficiency = 0.658,
      .fp8_efficiency = 0.70,
      .fp8_settled_efficiency = 0.66,
      .fp4_efficiency = GB300_FP4_EFFICIENCY,
      .settled_source = GB300_SETTLED,
      .band_factor = 3.5,
      .variant_gpus = { "GB300" },
      .variant_peak = 2500e12,
      .variant_bandwidth = 8000e9 },
    { .gpu = "v100-32g-sxm",
      .derived = true,
      .note = "matmul and memory fractions of A100-SXM4-80GB on its own peaks, attention at about "
              "half of A100's fraction because FlashAttention-2 "
              "has no kernels for it, collectives scaled to 150 of 300 GB/s NVLink",
      A100_FRACTIONS,
      .wave_slots = 80,
      /* 95.7, 97.4 and 89.4 TFLOP/s at cubes of 4096, 8192 and 10,240, the last the longest (S26) */
      .settled_efficiency = 0.75,
      .settled_source =
          "settled curve: squares of 4096 to 10,240 on the part of 16 GB, 0.72 to 0.78 "
          "of the peak (zzc0721/torch-performance-test-data)",
      .attention_efficiency = 0.30,
      .attention_length_half = 400,
      .attention_source = "stated: about half of A100's fraction, no FlashAttention-2 kernels",
      .nccl_gpu = "A100-SXM4-80GB",
      .nccl_relative = "H100-SXM5-80GB",
      .link_ratio = 150.0 / 300,
      .band_factor = 2.5 },
    { .gpu = "l40s-48g-pcie",
      .note =
          "matmul measured on L40S; collectives of A100 PCIe, those of the one L40S server that "
          "was measured (1.4 GB/s among eight) as a variant; attention fractions of "
          "A100-SXM4-80GB, the same FlashAttention-2 kernels, and its memory fractions",
      .gemm_gpu = "L40S",
      .gemm_peak = 362e12,
      .gemm_bandwidth = 864e9,
      .settled_efficiency = 0.62,
      .settled_k_half = 90,
      .fp8_efficiency = 0.60,
      .settled_source = "settled curve: fit of the TensorRT-LLM collector on L40S "
                        "(ai-dynamo/aiconfigurator)",
      .attention_gpu = "A100-SXM4-80GB",
      .attention_framework = "sglang",
      .attention_peak = A100_PEAK,
      .attention_bandwidth = A100_HBM,
      .stream_gpu = "A100-SXM4-80GB",
      .launch_us = 2.5,
      .graph_launch_us = 1.3,
      PCIE_COLLECTIVES,
      .apart_nccl_gpu = "L40S",
      .apart_nccl = "nccl 2.27",
      .link_ratio = 1,
      .band_factor = 1.5,
      .variant_gpus = { "L40S" },
      .variant_peak = 362e12,
      .variant_bandwidth = 864e9 },
};
enum { PLAN_COUNT = sizeof plans / sizeof plans[0] };

const char *const *calibrate_gpu_names(void) {
    static const char *names[PLAN_COUNT + 1];
    for (int i = 0; i < PLAN_COUNT; i++)
        names[i] = plans[i].gpu;
    return names;
}

/* Names of published tables besides those of gpu_name.h. */
static const struct {
    const char *gpu, *profile;
} gpu_names[] = {
    { "H100-PCIe-80GB", "h100-80g-pcie" },
    { "A100-SXM4", "a100-80g-sxm" },
    { "A100", "a100-80g-sxm" },
    { "H100", "h100-80g-sxm" },
    { "H800-SXM5", "h800-80g-sxm" },
    { "V100", "v100-32g-sxm" },
};

const char *calibrate_profile_of(const char *gpu) {
    const struct gpu_name *known = gpu_name_find(gpu);
    const char *given = gpu_name_short(gpu);
    if (known) return known->profile;
    for (const char *const *name = calibrate_gpu_names(); *name; name++)
        if (strcmp(gpu, *name) == 0) return *name;
    for (size_t i = 0; i < sizeof gpu_names / sizeof gpu_names[0]; i++)
        if (strcmp(given, gpu_names[i].gpu) == 0) return gpu_names[i].profile;
    return NULL;
}

bool plan_is_of(const char *gpu) {
    struct error unknown = { 0 };
    return plan_find(gpu, &unknown) != NULL;
}

const struct plan *plan_find(const char *gpu, struct error *err) {
    for (int i = 0; i < PLAN_COUNT; i++)
        if (strcmp(plans[i].gpu, gpu) == 0) return &plans[i];
    const char *near = nearest_in_list(gpu, calibrate_gpu_names());
    error_set(err, "no rule says which measurements make the curves of '%s'", gpu);
    if (near)
        error_hint(err, "did you mean '%s'?", near);
    else
        error_hint(err,
                   "`ballast calibrate --help` lists the profiles; for a GPU that is none of them "
                   "see docs/HOWTO-CALIBRATE.md");
    return NULL;
}

bool calibrate_knows(const char *gpu, struct error *err) {
    return plan_find(gpu, err) != NULL;
}
