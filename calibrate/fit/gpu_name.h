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
    int board_gpus;       /* of a host whose board holds fewer than a server's eight; else 0 */
};

/* Longer names first where one begins another. */
static const struct gpu_name gpu_name_table[] = {
    { "A100-SXM4-80GB", "A100-SXM4-80GB", "a100-80g-sxm", 2039, 0 },
    { "A100-SXM4-40GB", "A100-SXM4-40GB", "a100-40g-sxm", 1555, 0 },
    { "A100-SXM-64GB", "A100-SXM4-64GB", "a100-64g-sxm", 1640, 4 },
    { "A100 80GB PCIe", "A100-PCIe-80GB", "a100-80g-pcie", 1935, 0 },
    { "A100-PCIE-40GB", "A100-PCIe-40GB", "a100-40g-pcie", 1555, 0 },
    { "A800-SXM4-80GB", "A800-SXM4-80GB", "a800-80g-sxm", 2039, 0 },
    { "H100 80GB HBM3", "H100-SXM5-80GB", "h100-80g-sxm", 3350, 0 },
    /* Its driver says "NVIDIA H100" alone (pytorch/torchtitan, pull request 554), as tables say of
     * the part of 80 GB: calibrate import takes --gpu H100-SXM5-96GB. */
    { "H100-SXM5-96GB", "H100-SXM5-96GB", "h100-96g-sxm", 2400, 0 },
    { "H100-SXM5-64GB", "H100-SXM5-64GB", "h100-64g-sxm", 1600, 4 },
    { "H100 PCIe", "H100-PCIe", "h100-80g-pcie", 2000, 0 },
    { "H100 NVL", "H100-NVL", "h100-94g-nvl", 3938, 0 },
    { "GH200 480GB", "GH200", "gh200-96g", 4000, 4 },
    { "H800", "H800", "h800-80g-sxm", 3350, 0 },
    { "H200 NVL", "H200-NVL", "h200-141g-nvl", 4800, 0 },
    { "H200", "H200-SXM", "h200-141g-sxm", 4800, 0 },
    { "H20-3e", "H20-3e", "h20-141g", 4800, 0 },
    { "H20", "H20", "h20-96g", 4000, 0 },
    { "B200", "B200-SXM", "b200-180g-sxm", 7700, 0 }, /* and of b200-180g-sxm-slow */
    { "B300", "B300-SXM", "b300-288g-sxm", 8000, 0 },
    { "GB300", "GB300", "gb300-288g-nvl72", 8000, 4 },
    { "GB200", "GB200", "gb200-186g-nvl72", 8000, 4 },
    { "L40S", "L40S", "l40s-48g-pcie", 864, 0 },
    { "Tesla V100-SXM2-32GB", "V100-SXM2-32GB", "v100-32g-sxm", 900, 0 },
};
enum { GPU_NAME_COUNT = sizeof gpu_name_table / sizeof gpu_name_table[0] };

static inline const char *gpu_name_short(const char *device) {
    return strncmp(device, "NVIDIA ", 7) == 0 ? device + 7 : device;
}

/* GPUs of a host with the profile, which may be NULL or anyone's own. */
static inline int gpu_name_host_gpus(const char *profile) {
    for (int i = 0; profile != NULL && i < GPU_NAME_COUNT; i++)
        if (strcmp(gpu_name_table[i].profile, profile) == 0 && gpu_name_table[i].board_gpus > 0)
            return gpu_name_table[i].board_gpus;
    return 8;
}

/* By the driver's name, that of the measured tables or of the profile. NULL for a GPU without a
 * hardware file: measurements then carry the driver's short name. */
static inline const struct gpu_name *gpu_name_find(const char *name) {
    const char *given = gpu_name_short(name);
    for (int i = 0; i < GPU_NAME_COUNT; i++)
        if (strcmp(gpu_name_table[i].device, given) == 0 ||
            strcmp(gpu_name_table[i].measured, given) == 0 ||
            strcmp(gpu_name_table[i].profile, given) == 0)
            return &gpu_name_table[i];
    return NULL;
}

#endif
