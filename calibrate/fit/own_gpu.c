/* own_gpu.c - the GPU that curves are fitted for: a shipped profile, or a hardware file of the
 * user's, whose curves are a relative's until it is measured. */
#include <math.h>
#include <string.h>
#include "calibrate/fit/calibrate_job.h"
#include "costmodel/hardware.h"
#include "sim/base/file_place.h"

#define SAME_PEAK 0.01

static void take_figures(struct calibrate_gpu *out, const struct gpu *file) {
    out->bf16_flop_per_s = file->peak_flop_per_s[PRECISION_BF16];
    out->hbm_bytes_per_s = file->hbm_bytes_per_s;
    out->nvlink_bytes_per_s = file->nvlink_bytes_per_s;
    out->pcie_bytes_per_s = file->pcie_bytes_per_s;
    out->sm_count = (double)file->sm_count;
}

static bool is_other(double own, double of_relative) {
    return fabs(own / of_relative - 1) > SAME_PEAK;
}

bool calibrate_gpu_read(struct arena *arena, const char *scenarios_directory, const char *gpu,
                        struct calibrate_gpu *out, struct error *err) {
    struct gpu file, relative;
    *out = (struct calibrate_gpu){ .hardware = gpu };
    struct error unknown = { 0 };
    const bool known = file_is_path(gpu) || calibrate_knows(gpu, err);
    if (!hardware_gpu(arena, scenarios_directory, gpu, &file, known ? err : &unknown)) return false;
    take_figures(out, &file);
    /* no price is asked that passes it */
    const struct cluster_network network = { .gpus_per_node = file.gpus_per_node,
                                             .nic_bytes_per_s_per_gpu = 1e9 };
    if (plan_is_of(file.name)) {
        struct error unfitted = { 0 }; /* its curves are what is made */
        const struct cost_model *shipped =
            cost_model_create(arena, scenarios_directory, file.name, &network, &unfitted);
        out->profile = arena_text(arena, file.name);
        if (shipped != NULL) out->relative_efficiency = cost_model_matmul_efficiency(shipped);
        return true;
    }
    const struct cost_model *borrowed =
        cost_model_create(arena, scenarios_directory, gpu, &network, err);
    if (borrowed == NULL) return false;
    out->profile = cost_model_curves_of(borrowed);
    out->name = arena_text(arena, file.name);
    out->description = arena_text(arena, file.description);
    if (!plan_is_of(out->profile)) {
        error_set(err, "%s has the curves of '%s', which no shipped profile is called", gpu,
                  out->profile);
        return error_hint(err,
                          "\"curves\" of a new GPU names those of its nearest shipped relative, "
                          "\"curves/h100-80g-sxm.json\"");
    }
    const struct cost_model *of_relative =
        cost_model_create(arena, scenarios_directory, out->profile, &network, err);
    if (of_relative == NULL ||
        !hardware_gpu(arena, scenarios_directory, out->profile, &relative, err))
        return false;
    out->relative_efficiency = cost_model_matmul_efficiency(of_relative);
    out->other_peaks = is_other(out->bf16_flop_per_s, relative.peak_flop_per_s[PRECISION_BF16]) ||
                       is_other(out->hbm_bytes_per_s, relative.hbm_bytes_per_s);
    return true;
}

const struct plan *calibrate_plan(struct arena *arena, const struct calibrate_gpu *gpu,
                                  struct error *err) {
    const struct plan *relative = plan_find(gpu->profile, err);
    if (relative == NULL || gpu->name == NULL) return relative;
    struct plan *own = arena_new(arena, struct plan);
    *own = *relative;
    own->gpu = gpu->name;
    own->derived = true;
    own->note = arena_format(arena, "curves of %s, as fractions of this GPU's peaks: %s",
                             relative->gpu, relative->note);
    own->variant_gpus[0] = NULL;
    if (gpu->sm_count > 0) own->wave_slots = gpu->sm_count;
    return own;
}

const struct plan *calibrate_plan_at_speed(struct arena *arena, const struct calibrate_job *job,
                                           double efficiency) {
    struct plan *own = arena_new(arena, struct plan);
    *own = *job->plan;
    const double ratio = efficiency / job->gpu->relative_efficiency;
    double *const ceilings[] = { &own->settled_efficiency, &own->fp8_efficiency,
                                 &own->fp4_efficiency, &own->fp8_settled_efficiency };
    for (size_t i = 0; i < sizeof ceilings / sizeof ceilings[0]; i++)
        *ceilings[i] = fmin(round(*ceilings[i] * ratio * 1e4) / 1e4, 1);
    own->settled_source = arena_format(
        arena,
        "ceilings of %s times %.3g, the ratio of what isolated matmuls reach of their peak; "
        "there: %s",
        job->gpu->profile, ratio, job->plan->settled_source);
    return own;
}
