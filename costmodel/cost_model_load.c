/* cost_model_load.c - a cost model from its files: GPU, curves, fabric and bands. */
#include <inttypes.h>
#include <math.h>
#include <string.h>
#include <unistd.h>
#include "costmodel/cost_model_parts.h"

enum { GPU_FILES = 2 }; /* hardware and curves stand first */

static uint64_t hash_bytes(uint64_t hash, const void *bytes, size_t size) {
    for (size_t i = 0; i < size; i++)
        hash = (hash ^ ((const unsigned char *)bytes)[i]) * 0x100000001b3u; /* FNV-1a */
    return hash;
}

/* Of the parsed values, so that a change of layout or of a comment's place is not a new profile. */
static uint64_t hash_value(uint64_t hash, const cJSON *value) {
    const unsigned char type = (unsigned char)value->type; /* the flags above do not count */
    hash = hash_bytes(hash, &type, 1);
    if (value->string) hash = hash_bytes(hash, value->string, strlen(value->string) + 1);
    if (cJSON_IsString(value))
        hash = hash_bytes(hash, value->valuestring, strlen(value->valuestring) + 1);
    if (cJSON_IsNumber(value))
        hash = hash_bytes(hash, &value->valuedouble, sizeof value->valuedouble);
    for (const cJSON *item = value->child; item; item = item->next)
        hash = hash_value(hash, item);
    return hash;
}

static void fill_streaming(struct cost_model *model) {
    const struct streaming_curve *s = &model->efficiency.streaming;
    for (int pass = 0; pass < PASS_COUNT; pass++) {
        const bool forward = pass == PASS_FORWARD;
        model->streaming_fraction[OPERATOR_NORM][pass] =
            forward ? s->norm_forward : s->norm_backward;
        model->streaming_fraction[OPERATOR_ELEMENTWISE][pass] = s->elementwise;
        model->streaming_fraction[OPERATOR_EMBEDDING][pass] = s->embedding;
        model->streaming_fraction[OPERATOR_LOSS][pass] = s->loss;
        model->streaming_fraction[OPERATOR_OPTIMIZER][pass] = s->optimizer;
    }
}

struct cost_model *cost_model_create_from(struct arena *arena, const struct json *gpu,
                                          const struct json *curves,
                                          const struct cluster_network *network,
                                          struct error *err) {
    struct cost_model *model = arena_new(arena, struct cost_model);
    if (!cluster_network_check(network, err) || !gpu_read(gpu, arena, &model->gpu, err) ||
        !efficiency_read(curves, arena, &model->efficiency, err))
        return NULL;
    collective_rates_fill(&model->rates, &model->gpu, &model->efficiency.collectives, network);
    const uint64_t hash =
        hash_value(hash_value(0xcbf29ce484222325u, json_root(gpu)), json_root(curves));
    model->profile_id = arena_format(arena, "%s@%08" PRIx64, model->gpu.name, hash >> 32);
    fill_streaming(model);
    model->rules = model->gpu.rules;
    model->writes_text = true;
    model->encoder_factor = 1;
    return model;
}

static void note_file(struct arena *arena, struct cost_model *model, const char *kind,
                      const struct json *json) {
    ballast_check(model->file_count < COST_MODEL_FILES_MAX);
    model->files[model->file_count++] =
        (struct cost_model_file){ kind, arena_text(arena, json_name(json)) };
}

/* `curves` stands beside the GPU file. */
static const char *beside(struct arena *arena, const char *file, const char *path) {
    const char *slash = strrchr(file, '/');
    if (path[0] == '/' || !slash) return path;
    return arena_format(arena, "%.*s/%s", (int)(slash - file), file, path);
}

/* A copy of a shipped GPU's file finds its curves, too. An unreadable file is a mistake in the GPU
 * file, which names it. */
static struct json *load_curves(struct arena *arena, const char *search_directory,
                                const struct json *file, const char *curves, struct error *err) {
    struct error cause = { 0 };
    const char *own = beside(arena, json_name(file), curves);
    const char *shipped = arena_format(arena, "%s/hardware/%s", search_directory, curves);
    struct json *json =
        json_load(access(own, F_OK) != 0 && access(shipped, F_OK) == 0 ? shipped : own, &cause);
    if (json || cause.located || cause.internal) {
        if (!json) *err = cause;
        return json;
    }
    const char *hint = "efficiency curves, a path beside this file or in scenarios/hardware";
    json_error(file, cJSON_GetObjectItemCaseSensitive(json_root(file), "curves"), err, hint, "%s",
               cause.text);
    return NULL;
}

static bool load_fabric(struct arena *arena, const char *search_directory, struct cost_model *model,
                        struct error *err) {
    const char *name = model->rates.network.fabric;
    struct json *json = hardware_open(arena, search_directory, "hardware/fabrics", name, err);
    struct fabric *fabric = arena_new(arena, struct fabric);
    const bool ok = json && fabric_read(json, arena, fabric, err);
    if (ok) note_file(arena, model, "fabric", json);
    json_destroy(json);
    if (!ok) return error_context(err, "while loading fabric '%s'", name);
    collective_rates_use_fabric(&model->rates, fabric);
    return true;
}

static bool load_bands(struct arena *arena, const char *search_directory, struct cost_model *model,
                       struct error *err) {
    const char *path = arena_format(arena, "%s/bands.json", search_directory);
    if (access(path, F_OK) != 0) return true;
    struct json *json = json_load(path, err);
    struct step_bands *bands = arena_new(arena, struct step_bands);
    const bool ok = json && step_bands_read(arena, json, bands, err);
    if (ok) note_file(arena, model, "bands", json);
    json_destroy(json);
    model->bands = bands;
    return ok;
}

static double link_bytes_per_s(const struct gpu *gpu) {
    return gpu->nvlink_bytes_per_s > 0 ? gpu->nvlink_bytes_per_s : gpu->pcie_bytes_per_s;
}

static bool has_other_peaks(const struct gpu *own, const struct gpu *of_curves) {
    if (fabs(own->hbm_bytes_per_s / of_curves->hbm_bytes_per_s - 1) > 0.01) return true;
    for (int precision = 0; precision < PRECISION_COUNT; precision++) {
        const double a = own->peak_flop_per_s[precision], b = of_curves->peak_flop_per_s[precision];
        if (a > 0 && b > 0 && fabs(a / b - 1) > 0.01) return true;
    }
    return false;
}

/* A GPU with a relative's curves: their fractions were measured at other peaks, their collectives,
 * which are seconds, over other links. */
static void use_relative(struct arena *arena, const char *search_directory, const char *hardware,
                         struct cost_model *model) {
    struct efficiency *efficiency = &model->efficiency;
    const bool fitted = efficiency->relative[0] != '\0'; /* its bands say what was measured */
    const char *relative = fitted ? efficiency->relative : efficiency->gpu;
    if (strcmp(hardware, relative) == 0) return; /* the shipped one itself */
    struct error unknown = { 0 };
    struct gpu of_curves;
    struct json *json = hardware_open(arena, search_directory, "hardware", relative, &unknown);
    const bool known = json != NULL && gpu_read(json, arena, &of_curves, &unknown);
    json_destroy(json);
    if (!known) return; /* curves of its own, under a name of its own */
    if (!fitted && has_other_peaks(&model->gpu, &of_curves))
        efficiency_of_relative(efficiency, arena);
    const double own = link_bytes_per_s(&model->gpu), measured = link_bytes_per_s(&of_curves);
    if (own > 0 && measured > 0 && fabs(own / measured - 1) > 0.01)
        efficiency_scale_links(efficiency, own / measured, arena);
}

struct cost_model *cost_model_create(struct arena *arena, const char *search_directory,
                                     const char *hardware, const struct cluster_network *network,
                                     struct error *err) {
    struct cost_model *model = NULL;
    struct gpu gpu;
    struct json *curves, *file = gpu_open(arena, search_directory, hardware, &curves, err);
    const bool known = file && gpu_read(file, arena, &gpu, err);
    if (known && curves == NULL)
        curves = load_curves(arena, search_directory, file, gpu.curves, err);
    if (known && curves) model = cost_model_create_from(arena, file, curves, network, err);
    if (model) {
        use_relative(arena, search_directory, hardware, model);
        note_file(arena, model, "hardware", file);
        note_file(arena, model, "curves", curves);
    }
    if (model && network->fabric && !load_fabric(arena, search_directory, model, err)) model = NULL;
    if (model && !load_bands(arena, search_directory, model, err)) model = NULL;
    if (!model) error_context(err, "while loading hardware '%s'", hardware);
    json_destroy(curves);
    json_destroy(file);
    return model;
}

struct cost_model *cost_model_create_beside(struct arena *arena, const char *search_directory,
                                            const struct cost_model *other,
                                            const struct cluster_network *network,
                                            struct error *err) {
    struct cost_model *model = arena_new(arena, struct cost_model);
    ballast_check(other->file_count >= GPU_FILES);
    *model = *other;
    model->rules = model->gpu.rules;
    model->stack = (struct stack_use){ 0 };
    model->slowest_gpu_time = 0;
    model->writes_text = true;
    model->encoder_factor = 1;
    model->file_count = GPU_FILES;
    if (!cluster_network_check(network, err)) return NULL;
    collective_rates_fill(&model->rates, &model->gpu, &model->efficiency.collectives, network);
    if (network->fabric && !load_fabric(arena, search_directory, model, err)) return NULL;
    for (int64_t i = GPU_FILES; i < other->file_count; i++)
        if (strcmp(other->files[i].kind, "bands") == 0)
            model->files[model->file_count++] = other->files[i];
    return model;
}
