/* gpu_name.h - what the driver calls a GPU, and what measurements and hardware files call it.
 *
 * Header only, and in the common subset of C and C++: the CUDA programs of calibrate/bench include
 * it as well as the log reader.
 *
 *     const struct gpu_name *known = gpu_name_find("NVIDIA H100 80GB HBM3");
 *     puts(known != NULL ? known->measured : "new");       // H100-SXM5-80GB
 */
#ifndef BALLAST_CALIBRATE_FIT_GPU_NAME_H
#define BALLAST_CALIBRATE_FIT_GPU_NAME_H

#include <stddef.h>
#include <string.h>

struct gpu_name {
    const char *device;   /* as nvidia-smi and nccl-tests print it, without "NVIDIA " */
    const char *measured; /* column `gpu` of calibrate/measured */
    const char *profile;  /* scenarios/hardware/<profile>.json */
    double hbm_GB_per_s;  /* data sheet, as in the hardware file: `fraction_of_peak` is of this */
};

/* Longer names first where one begins another. */
static const struct gpu_name gpu_name_table[] = {
    { "A100-SXM4-80GB", "A100-SXM4-80GB", "a100-80g-sxm", 2039 },
    { "A100-SXM4-40GB", "A100-SXM4-40GB", "a100-40g-sxm", 1555 },
    { "A100-SXM-64GB", "A100-SXM4-64GB", "a100-64g-sxm", 1640 },
    { "A100 80GB PCIe", "A100-PCIe-80GB", "a100-80g-pcie", 1935 },
    { "A100-PCIE-40GB", "A100-PCIe-40GB", "a100-40g-pcie", 1555 },
    { "A800-SXM4-80GB", "A800-SXM4-80GB", "a800-80g-sxm", 2039 },
    { "H100 80GB HBM3", "H100-SXM5-80GB", "h100-80g-sxm", 3350 },
    /* Its driver says "NVIDIA H100" alone (pytorch/torchtitan, pull request 554), as tables say of
     * the part of 80 GB: calibrate import takes --gpu H100-SXM5-96GB. */
    { "H100-SXM5-96GB", "H100-SXM5-96GB", "h100-96g-sxm", 2400 },
    { "H100-SXM5-64GB", "H100-SXM5-64GB", "h100-64g-sxm", 1600 },
    { "H100 PCIe", "H100-PCIe", "h100-80g-pcie", 2000 },
    { "H100 NVL", "H100-NVL", "h100-94g-nvl", 3938 },
    { "GH200 480GB", "GH200", "gh200-96g", 4000 },
    { "H800", "H800", "h800-80g-sxm", 3350 },
    { "H200", "H200-SXM", "h200-141g-sxm", 4800 },
    { "H20-3e", "H20-3e", "h20-141g", 4800 },
    { "H20", "H20", "h20-96g", 4000 },
    { "B200", "B200-SXM", "b200-180g-sxm", 7700 }, /* and of b200-180g-sxm-slow */
    { "B300", "B300-SXM", "b300-288g-sxm", 8000 },
    { "GB300", "GB300", "gb300-288g-nvl72", 8000 },
    { "GB200", "GB200", "gb200-186g-nvl72", 8000 },
    { "L40S", "L40S", "l40s-48g-pcie", 864 },
    { "Tesla V100-SXM2-32GB", "V100-SXM2-32GB", "v100-32g-sxm", 900 },
};
enum { GPU_NAME_COUNT = sizeof gpu_name_table / sizeof gpu_name_table[0] };

static inline const char *gpu_name_short(const char *device) {
    return strncmp(device, "NVIDIA ", 7) == 0 ? device + 7 : device;
}

/* By the driver's name or that of the measured tables. NULL for a GPU without a hardware file:
 * measurements then carry the driver's short name. */
static inline const struct gpu_name *gpu_name_find(const char *name) {
    const char *given = gpu_name_short(name);
    for (int i = 0; i < GPU_NAME_COUNT; i++)
        if (strcmp(gpu_name_table[i].device, given) == 0 ||
            strcmp(gpu_name_table[i].measured, given) == 0)
            return &gpu_name_table[i];
    return NULL;
}

#endif
