/* cuda_bf16.h - the name alone: no benchmark that runs on the host computes in bf16. */
#ifndef BALLAST_HOST_GPU_CUDA_BF16_H
#define BALLAST_HOST_GPU_CUDA_BF16_H

#include <stdint.h>

struct __nv_bfloat16 {
    uint16_t bits;
};

#endif
