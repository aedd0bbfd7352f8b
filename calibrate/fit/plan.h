/* plan.h - which measurements make a GPU's curves, and what stands where none exist.
 *
 *     const struct plan *plan = plan_find("h20-96g", err);
 */
#ifndef BALLAST_CALIBRATE_FIT_PLAN_H
#define BALLAST_CALIBRATE_FIT_PLAN_H

#include "costmodel/operator_work.h"
#include "sim/base/error.h"

/* A closed form for a GPU without a relative: seconds and fractions of its own peaks. */
struct stated_form {
    double launch_us, efficiency, k_half, memory_fraction, wave_exponent, wave_slots, band;
    const char *source;
};

/* A collective inside a node whose law was published instead of its times. */
struct stated_collective {
    enum operator_kind op;
    int64_t rank_count;
    double latency_us, bus_GB_per_s;
};

struct plan {
    const char *gpu, *note;
    /* matmul */
    bool derived; /* no matmul was measured on this GPU */
    const char *gemm_gpu;
    double gemm_peak, gemm_bandwidth; /* of gemm_gpu */
    double wave_slots;                /* this GPU's own; 0: as many as gemm_gpu's */
    const char *shift_gpu;            /* its training rows shift the table; NULL: none */
    double matmul_time;               /* of gemm_gpu's fraction of the peak; 0: 1 */
    const struct stated_form *stated; /* instead of a fit */
    double settled_efficiency, settled_k_half, fp8_efficiency, fp4_efficiency;
    /* 0: as efficiency_file.c has it; fp4 settles at its own efficiency where fp8's is stated */
    double fp8_settled_efficiency, fp8_settled_k_half;
    double blockwise_time; /* 0: as efficiency_file.c has it */
    const char *settled_source;
    /* attention */
    const char *attention_gpu;
    const char *attention_framework; /* whose rows make the curves of a step; NULL: all together */
    double attention_peak, attention_bandwidth; /* of attention_gpu; 0: as of gemm_gpu */
    double attention_efficiency;                /* stated instead of fitted; 0: fitted */
    double attention_length_half;
    double attention_narrow;      /* of heads of 64 over heads of 128; 0: as on H100 */
    const char *attention_source; /* of what is stated */
    /* Of the same kernel by the fractions of attention_gpu; 0: those hold as they are. */
    double attention_forward_time, attention_backward_time;
    double attention_backward_wide; /* 0: as efficiency_file.c has it */
    /* memory */
    const char *stream_gpu;
    double launch_us, graph_launch_us;
    /* collectives */
    const char *nccl_gpu, *nccl_relative;
    const char *own_nccl_gpu; /* measured tables of the GPU itself, where the others are derived */
    /* whose tables no price should rest on (of an NCCL too old, or of a server unlike others), and
     * the version by which they are a variant */
    const char *apart_nccl_gpu, *apart_nccl;
    /* Laws that hold where nccl_gpu's tables are slower, until rank_count 0. */
    const struct stated_collective *stated_collectives;
    const char *stated_collectives_source;
    double link_ratio, cap_GB_per_s;
    double band_factor; /* 1: measured on this GPU */
    /* named frameworks: rows of this GPU under these names; peak and bandwidth of the GPU itself */
    const char *variant_gpus[2];
    double variant_peak, variant_bandwidth, variant_fp8_peak; /* and of shift_gpu, where stated */
};

/* The shipped profile of a GPU by a name that tables, drivers or hardware files give it; NULL: none
 * is known. */
const char *calibrate_profile_of(const char *gpu);
bool plan_is_of(const char *gpu);
/* NULL and a hint if no plan is of this GPU. */
const struct plan *plan_find(const char *gpu, struct error *err);

#endif
