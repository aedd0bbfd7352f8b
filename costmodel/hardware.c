/* hardware.c - reads GPU and cluster files; human units become base units here and nowhere else. */
#include "costmodel/hardware.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>
#include "costmodel/figure_sources.h"
#include "sim/base/field.h"
#include "sim/base/units.h"

struct gpu_fields {
    const char *name, *description, *curves, *machine_of, *not_priced;
    double peak_bf16, peak_fp16, peak_fp8, peak_fp4, peak_fp32;
    double hbm_GiB, hbm_GB_per_s, nvlink_GB_per_s, pcie_GB_per_s, socket_GB_per_s, tdp_w,
        reserved_GiB, host_time_factor;
    int64_t gpus_per_node, mesh_gpus, sm_count;
    double server_nic_Gbit_per_s;
    const cJSON *sources, *rules;
};

#define AT(member) offsetof(struct gpu_fields, member)
static const struct field gpu_rows[] = {
    { "name", FIELD_TEXT, AT(name), 0, 0, NULL, "", "as scenarios refer to it", NULL },
    { "description", FIELD_TEXT, AT(description), 0, 0, NULL, "", "in words", NULL },
    { "peak_bf16_TFLOP_per_s", FIELD_DOUBLE, AT(peak_bf16), 0, 1e6, "0", "TFLOP/s",
      "dense matrix peak; 0 where there is none", NULL },
    { "peak_fp16_TFLOP_per_s", FIELD_DOUBLE, AT(peak_fp16), 1, 1e6, NULL, "TFLOP/s",
      "dense matrix peak", NULL },
    { "peak_fp8_TFLOP_per_s", FIELD_DOUBLE, AT(peak_fp8), 0, 1e6, "0", "TFLOP/s",
      "dense matrix peak; 0 where there is none", NULL },
    { "peak_fp4_TFLOP_per_s", FIELD_DOUBLE, AT(peak_fp4), 0, 1e6, "0", "TFLOP/s",
      "dense matrix peak; 0 where there is none", NULL },
    { "peak_fp32_TFLOP_per_s", FIELD_DOUBLE, AT(peak_fp32), 0, 1e6, NULL, "TFLOP/s", "vector peak",
      NULL },
    { "hbm_GiB", FIELD_DOUBLE, AT(hbm_GiB), 1, 4096, NULL, "GiB", "memory", NULL },
    { "hbm_GB_per_s", FIELD_DOUBLE, AT(hbm_GB_per_s), 10, 1e6, NULL, "GB/s", "memory bandwidth",
      NULL },
    { "nvlink_GB_per_s", FIELD_DOUBLE, AT(nvlink_GB_per_s), 0, 1e5, NULL, "GB/s",
      "one direction, per GPU; 0: none", NULL },
    { "pcie_GB_per_s", FIELD_DOUBLE, AT(pcie_GB_per_s), 0.1, 1e4, NULL, "GB/s",
      "host copy, one direction, as measured", NULL },
    { "socket_GB_per_s", FIELD_DOUBLE, AT(socket_GB_per_s), 0, 1e4, "0", "GB/s",
      "without NVLink: bus bandwidth from one half of a node's GPUs to the other, which groups "
      "that cross it share; 0: no limit",
      NULL },
    { "gpus_per_node", FIELD_COUNT, AT(gpus_per_node), 1, 1024, "8", "GPUs",
      "NVLink domain: the node of a cluster that does not state its own", NULL },
    { "mesh_gpus", FIELD_COUNT, AT(mesh_gpus), 0, 16, "0", "GPUs",
      "of measured runs: boards of so many link each GPU to the others without a switch; 0: none "
      "do",
      NULL },
    { "server_nic_Gbit_per_s", FIELD_DOUBLE, AT(server_nic_Gbit_per_s), 0.01, 1e5, "400", "Gbit/s",
      "of measured runs that do not say: NICs a GPU that servers are sold with", NULL },
    { "sm_count", FIELD_COUNT, AT(sm_count), 1, 1024, NULL, "", "streaming multiprocessors", NULL },
    { "tdp_w", FIELD_DOUBLE, AT(tdp_w), 1, 1e4, NULL, "W", "power limit", NULL },
    { "reserved_GiB", FIELD_DOUBLE, AT(reserved_GiB), 0, 64, NULL, "GiB",
      "driver and context: not usable by the framework", NULL },
    { "host_time_factor", FIELD_DOUBLE, AT(host_time_factor), 0.1, 10, "1", "",
      "what this machine's processor takes to launch kernels over a Xeon server's time", NULL },
    { "curves", FIELD_TEXT, AT(curves), 0, 0, NULL, "",
      "efficiency curves, a path beside this file or in scenarios/hardware", NULL },
    { "machine_of", FIELD_TEXT, AT(machine_of), 0, 0, "\"\"", "",
      "measured runs of this source ran here where they name the usual GPU", NULL },
    { "not_priced", FIELD_TEXT, AT(not_priced), 0, 0, "\"\"", "",
      "what some servers have of it and its figures leave out: each run says so", NULL },
    { "rules", FIELD_NODE, AT(rules), 0, 0, "null", "",
      "own figures in place of estimates, as in a scenario", NULL },
    { "sources", FIELD_NODE, AT(sources), 0, 0, NULL, "", "where each figure comes from", NULL },
};
#undef AT
const struct field_table hardware_gpu_table = FIELD_TABLE("gpu", "one GPU", gpu_rows);

struct cluster_fields {
    const char *description, *hardware, *words;
    int64_t gpu_count, gpus_per_node, nics_per_node, nvlink_mesh_gpus;
    double nic_Gbit_per_s_per_gpu, nic_latency_us, nic_efficiency_fraction;
    double host_memory_GB_per_node;
    int64_t gpus_per_host_link;
    const char *fabric;
    const cJSON *sources;
};

#define AT(member) offsetof(struct cluster_fields, member)
static const struct field cluster_rows[] = {
    { "description", FIELD_TEXT, AT(description), 0, 0, NULL, "", "in words", NULL },
    { "hardware", FIELD_TEXT, AT(hardware), 0, 0, NULL, "", "its GPU", NULL },
    { "words", FIELD_TEXT, AT(words), 0, 0, "\"\"", "",
      "measured runs whose source or notes say one of these ran here; semicolons between", NULL },
    { "gpu_count", FIELD_COUNT, AT(gpu_count), 1, 1e7, "null", "GPUs",
      "GPUs in the job; null: the scenario says", NULL },
    { "gpus_per_node", FIELD_COUNT, AT(gpus_per_node), 1, 1024, "null", "GPUs",
      "GPUs that share one NVLink domain and one set of NICs; null: what the hardware file states",
      NULL },
    { "nics_per_node", FIELD_COUNT, AT(nics_per_node), 0, 1024, "0", "NICs", "0: one per GPU",
      NULL },
    { "nic_Gbit_per_s_per_gpu", FIELD_DOUBLE, AT(nic_Gbit_per_s_per_gpu), 0.01, 1e5, NULL, "Gbit/s",
      "one direction: rate of a node's NICs over its GPUs", NULL },
    { "nic_latency_us", FIELD_DOUBLE, AT(nic_latency_us), 0, 1e6, "10", "us",
      "what one hop between nodes adds to a small collective; of a ring 0.27 to 1.4 times it", NULL },
    { "nic_efficiency_fraction", FIELD_DOUBLE, AT(nic_efficiency_fraction), 0.01, 1, "0.9", "",
      "of the NIC rate that a collective reaches", NULL },
    { "fabric", FIELD_TEXT, AT(fabric), 0, 0, "null", "",
      "a name in hardware/fabrics, instead of the latency and efficiency above", NULL },
    { "nvlink_mesh_gpus", FIELD_COUNT, AT(nvlink_mesh_gpus), 0, 16, "0", "GPUs",
      "whose links go straight to each other; 0: through a switch", NULL },
    { "host_memory_GB_per_node", FIELD_DOUBLE, AT(host_memory_GB_per_node), 1, 1e6, "null", "GB",
      "host memory of a node; null: not stated", NULL },
    { "gpus_per_host_link", FIELD_COUNT, AT(gpus_per_host_link), 1, 64, "1", "GPUs",
      "GPUs behind one link to the host", NULL },
    { "sources", FIELD_NODE, AT(sources), 0, 0, NULL, "", "where each figure comes from", NULL },
};
#undef AT
const struct field_table hardware_cluster_table =
    FIELD_TABLE("cluster", "the node and the network around the GPUs", cluster_rows);

#define AT(member) offsetof(struct fabric_fields, member)
static const struct field fabric_rows[] = {
    { "name", FIELD_TEXT, AT(name), 0, 0, NULL, "", "as clusters refer to it", NULL },
    { "description", FIELD_TEXT, AT(description), 0, 0, NULL, "", "in words", NULL },
    { "source", FIELD_TEXT, AT(source), 0, 0, NULL, "", "the measured systems", NULL },
    { "efficiency_fraction", FIELD_DOUBLE, AT(efficiency_fraction), 0.01, 1, NULL, "",
      "of the NIC rate, for endless buffers", NULL },
    { "hop_latency_us", FIELD_DOUBLE, AT(hop_latency_us), 0, 1e6, NULL, "us",
      "for each doubling of the nodes beyond those measured", NULL },
    { "node_count", FIELD_DOUBLE, AT(node_count), 2, 1e6, NULL, "nodes", "measured", NULL },
    { "ranks_per_node", FIELD_DOUBLE, AT(ranks_per_node), 1, 1024, NULL, "", "measured", NULL },
    { "bytes", FIELD_NODE, AT(bytes), 0, 0, NULL, "", "buffer sizes, ascending", NULL },
    { "overhead_us", FIELD_NODE, AT(overhead_us), 0, 0, NULL, "", "their time beyond the wire's",
      NULL },
};
#undef AT
const struct field_table hardware_fabric_table =
    FIELD_TABLE("fabric", "a kind of network between nodes", fabric_rows);

/* "sources" names every number that the object states. */
static bool is_number(const cJSON *item) {
    return cJSON_IsNumber(item);
}

static bool check_sources(const struct json *json, const cJSON *sources, struct error *err) {
    const cJSON *root = json_root(json), *item;
    if (!figure_sources_check(json, sources, is_number, err)) return false;
    cJSON_ArrayForEach(item, sources) {
        if (!cJSON_GetObjectItemCaseSensitive(root, item->string))
            return json_error(json, item, err, NULL, "is the source of a figure that is not there");
    }
    return true;
}

/* On every part of NVIDIA that has bf16, by its data sheet (156 of 312 on A100, 495 of 989 on H100,
 * 1,125 of 2,250 on B200). */
enum { TF32_OF_BF16 = 2 };

bool gpu_read(const struct json *json, struct arena *arena, struct gpu *out, struct error *err) {
    struct gpu_fields f;
    if (!field_table_read(&hardware_gpu_table, json, json_root(json), &f, arena, err) ||
        !check_sources(json, f.sources, err))
        return false;
    *out = (struct gpu){
        .name = f.name,
        .description = f.description,
        .not_priced = f.not_priced,
        .peak_flop_per_s = { [PRECISION_BF16] = f.peak_bf16 * 1e12,
                             [PRECISION_FP16] = f.peak_fp16 * 1e12,
                             [PRECISION_FP8] = f.peak_fp8 * 1e12,
                             [PRECISION_FP4] = f.peak_fp4 * 1e12,
                             [PRECISION_FP32] = f.peak_fp32 * 1e12,
                             [PRECISION_TF32] = f.peak_bf16 / TF32_OF_BF16 * 1e12 },
        .hbm_bytes = f.hbm_GiB * BYTES_PER_GiB,
        .hbm_bytes_per_s = f.hbm_GB_per_s * BYTES_PER_GB,
        .nvlink_bytes_per_s = f.nvlink_GB_per_s * BYTES_PER_GB,
        .pcie_bytes_per_s = f.pcie_GB_per_s * BYTES_PER_GB,
        .socket_bytes_per_s = f.socket_GB_per_s * BYTES_PER_GB,
        .gpus_per_node = f.gpus_per_node,
        .mesh_gpus = f.mesh_gpus,
        .server_nic_Gbit_per_s = f.server_nic_Gbit_per_s,
        .tdp_w = f.tdp_w,
        .reserved_bytes = f.reserved_GiB * BYTES_PER_GiB,
        .host_time_factor = f.host_time_factor,
        .sm_count = f.sm_count,
        .curves = f.curves,
    };
    const char *owner = arena_format(arena, "hardware \"%s\"", f.name);
    return rules_read(json, f.rules, owner, arena, &out->rules, err);
}

/* Curves say of which GPU they are; that GPU has a name. */
static const char *gpu_of_curves(const struct json *json) {
    const cJSON *root = json_root(json);
    if (cJSON_HasObjectItem(root, "name")) return NULL;
    return cJSON_GetStringValue(cJSON_GetObjectItemCaseSensitive(root, "gpu"));
}

struct json *gpu_open(struct arena *arena, const char *search_directory, const char *name,
                      struct json **curves, struct error *err) {
    *curves = NULL;
    struct json *json = hardware_open(arena, search_directory, "hardware", name, err);
    const char *gpu = json != NULL ? gpu_of_curves(json) : NULL;
    if (gpu == NULL) return json;
    *curves = json;
    struct json *file = hardware_open(arena, search_directory, "hardware", gpu, err);
    if (file == NULL)
        error_hint(err, "%s holds curves: a hardware file of %s names it in \"curves\"", name, gpu);
    return file;
}

bool hardware_gpu(struct arena *arena, const char *search_directory, const char *name,
                  struct gpu *out, struct error *err) {
    struct json *curves, *json = gpu_open(arena, search_directory, name, &curves, err);
    const bool ok = json != NULL && gpu_read(json, arena, out, err);
    json_destroy(json);
    json_destroy(curves);
    return ok;
}

bool hardware_node_gpus(struct arena *arena, const char *search_directory, const char *gpu,
                        int64_t *out, struct error *err) {
    struct gpu file;
    if (!hardware_gpu(arena, search_directory, gpu, &file, err)) return false;
    *out = file.gpus_per_node;
    return true;
}

bool hardware_is_tray(int64_t domain_gpus, int64_t node_gpus, int64_t gpu_count) {
    return domain_gpus > HARDWARE_SERVER_GPUS && (node_gpus == 4 || node_gpus == 8) &&
           node_gpus < gpu_count;
}

int64_t hardware_node_share(int64_t domain_gpus, int64_t gpu_count, int64_t tp) {
    int64_t node = domain_gpus < gpu_count ? domain_gpus : gpu_count;
    while (gpu_count % node != 0 || (tp <= node && node % tp != 0))
        node--;
    return node;
}

static bool read_fabric_sizes(const struct json *json, const struct fabric_fields *f,
                              struct fabric *out, struct error *err) {
    const cJSON *overhead = cJSON_IsArray(f->overhead_us) ? f->overhead_us->child : NULL, *bytes;
    cJSON_ArrayForEach(bytes, f->bytes) {
        if (out->count == FABRIC_SIZE_MAX)
            return json_error(json, f->bytes, err, NULL, "has more than %d sizes", FABRIC_SIZE_MAX);
        const double last = out->count ? exp2(out->log2_bytes[out->count - 1]) : 0;
        if (!cJSON_IsNumber(bytes) || bytes->valuedouble <= last)
            return json_error(json, bytes, err, NULL, "must be a number above the one before");
        if (!overhead || !cJSON_IsNumber(overhead) || !(overhead->valuedouble >= 0))
            return json_error(json, f->overhead_us, err, NULL,
                              "must have one number from 0 for each of bytes");
        out->log2_bytes[out->count] = log2(bytes->valuedouble);
        out->overhead_s[out->count++] = overhead->valuedouble / 1e6;
        overhead = overhead->next;
    }
    if (overhead)
        return json_error(json, f->overhead_us, err, NULL,
                          "must have one number from 0 for each of bytes");
    return out->count > 0 || json_error(json, f->bytes, err, NULL, "must not be empty");
}

bool fabric_read(const struct json *json, struct arena *arena, struct fabric *out,
                 struct error *err) {
    struct fabric_fields f;
    if (!field_table_read(&hardware_fabric_table, json, json_root(json), &f, arena, err))
        return false;
    *out = (struct fabric){
        .name = f.name,
        .description = f.description,
        .efficiency_fraction = f.efficiency_fraction,
        .hop_latency_s = f.hop_latency_us / 1e6,
        .node_count = f.node_count,
        .ranks_per_node = f.ranks_per_node,
        .source = f.source,
    };
    return read_fabric_sizes(json, &f, out, err);
}

/* Linear in log2 bytes, constant beyond the ends. A node's NICs see the sum over its ranks, so
 * fewer ranks with the same buffer each stand where a larger buffer of all ranks does. */
double fabric_overhead_s(const struct fabric *fabric, double bytes, double node_count,
                         double ranks_per_node, int passes) {
    const double x = log2(bytes * fabric->ranks_per_node / ranks_per_node);
    const double doublings = log2(node_count / fabric->node_count);
    const double *at = fabric->log2_bytes, *overhead_s = fabric->overhead_s;
    const int64_t last = fabric->count - 1;
    int64_t i = 0;
    double seconds = x <= at[0] ? overhead_s[0] : overhead_s[last];
    if (x > at[0] && x < at[last]) {
        while (at[i + 1] < x)
            i++;
        seconds =
            overhead_s[i] + (x - at[i]) / (at[i + 1] - at[i]) * (overhead_s[i + 1] - overhead_s[i]);
    }
    seconds = overhead_s[0] + (seconds - overhead_s[0]) * passes / FABRIC_PASSES;
    return fmax(seconds + doublings * fabric->hop_latency_s, 0);
}

static bool has_suffix(const char *text, const char *suffix) {
    const size_t size = strlen(text), suffix_size = strlen(suffix);
    return size >= suffix_size && strcmp(text + size - suffix_size, suffix) == 0;
}

struct json *hardware_open(struct arena *arena, const char *search_directory, const char *folder,
                           const char *name, struct error *err) {
    if (strchr(name, '/') || has_suffix(name, ".json")) return json_load(name, err);
    const char *place = arena_format(arena, "%s/%s", search_directory, folder),
               *path = arena_format(arena, "%s/%s.json", place, name);
    if (access(path, F_OK) == 0) return json_load(path, err);
    error_set(err, "no '%s.json' in %s", name, place);
    hint_of_files(err, place, name);
    return NULL;
}

bool cluster_preset_read(struct arena *arena, const char *search_directory, const char *cluster,
                         struct cluster_preset *out, struct error *err) {
    struct cluster_fields f;
    struct json *json = hardware_open(arena, search_directory, "clusters", cluster, err);
    if (!json) return false;
    const bool ok =
        field_table_read(&hardware_cluster_table, json, json_root(json), &f, arena, err) &&
        check_sources(json, f.sources, err);
    json_destroy(json);
    if (!ok) return false;
    *out = (struct cluster_preset){
        .description = f.description,
        .hardware = f.hardware,
        .words = f.words,
        .gpu_count = f.gpu_count > 0 ? f.gpu_count : 0,
        .network = { .gpus_per_node = f.gpus_per_node,
                     .nic_bytes_per_s_per_gpu = f.nic_Gbit_per_s_per_gpu * BYTES_PER_GB / 8,
                     .nic_latency_s = f.nic_latency_us / 1e6,
                     .nics_per_node = f.nics_per_node,
                     .nic_efficiency_fraction = f.nic_efficiency_fraction,
                     .fabric = f.fabric,
                     .nvlink_mesh_gpus = f.nvlink_mesh_gpus },
        .host_memory_bytes_per_node =
            f.host_memory_GB_per_node > 0 ? f.host_memory_GB_per_node * BYTES_PER_GB : 0,
        .gpus_per_host_link = f.gpus_per_host_link,
    };
    return true;
}
