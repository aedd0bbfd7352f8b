/* hardware.h - the files that describe GPUs and clusters.
 *
 * Four kinds, because they change for different reasons: scenarios/hardware/<gpu>.json holds a
 * GPU's data-sheet figures, each with its source; scenarios/hardware/curves/<gpu>.json what was
 * measured on it; scenarios/hardware/fabrics/<fabric>.json what was measured on a kind of network;
 * scenarios/clusters/<cluster>.json the node and the network around it.
 *
 *     struct gpu gpu;
 *     if (!gpu_read(json, arena, &gpu, err)) return NULL;
 */
#ifndef BALLAST_COSTMODEL_HARDWARE_H
#define BALLAST_COSTMODEL_HARDWARE_H

#include "costmodel/cost_model.h"
#include "sim/base/field.h"

extern const struct field_table hardware_gpu_table, hardware_cluster_table, hardware_fabric_table;

#define FABRIC_SIZE_MAX 48

/* What a kind of network adds to a collective, as its measured systems had it. */
struct fabric {
    const char *name, *description;
    double efficiency_fraction;         /* of the NIC rate, for endless buffers */
    double hop_latency_s;               /* for each doubling of the nodes beyond those measured */
    double node_count;                  /* of the measured system */
    double ranks_per_node;              /* of its groups */
    int64_t count;                      /* sizes */
    double log2_bytes[FABRIC_SIZE_MAX]; /* buffer */
    double overhead_s[FABRIC_SIZE_MAX]; /* of an all-reduce: time beyond the wire's */
    const char *source;
};

/* A fabric file's members, in its units; the fit writes them. */
struct fabric_fields {
    const char *name, *description, *source;
    double efficiency_fraction, hop_latency_us, node_count, ranks_per_node;
    const cJSON *bytes, *overhead_us;
};
bool fabric_read(const struct json *json, struct arena *arena, struct fabric *out,
                 struct error *err);
/* Seconds beyond the wire's of a buffer among ranks_per_node on each of node_count nodes. An
 * all-reduce passes the buffer twice (FABRIC_PASSES), other collectives once: what grows with the
 * buffer is theirs by the pass, the latency of the smallest is the same for all. */
enum { FABRIC_PASSES = 2 };
double fabric_overhead_s(const struct fabric *fabric, double bytes, double node_count,
                         double ranks_per_node, int passes);

/* Every figure must have an entry of its name in "sources". */
bool gpu_read(const struct json *json, struct arena *arena, struct gpu *out, struct error *err);
/* The file of a GPU by its name or path. A file of curves, as `ballast calibrate fit` writes it,
 * stands for the shipped GPU that it names, and is *curves then, else NULL; the caller destroys
 * both. NULL and *err: no such file. */
struct json *gpu_open(struct arena *arena, const char *search_directory, const char *name,
                      struct json **curves, struct error *err);

/* What that file says; `rules` without their nodes, which go with it. */
bool hardware_gpu(struct arena *arena, const char *search_directory, const char *name,
                  struct gpu *out, struct error *err);
/* NVLink domains beyond it are racks, which are let in parts. */
enum { HARDWARE_SERVER_GPUS = 8 };
/* What a scheduler calls a node of a rack is one of its trays of four, or two of them, and says
 * nothing of NVLink. */
bool hardware_is_tray(int64_t domain_gpus, int64_t node_gpus, int64_t gpu_count);
/* The GPUs of a node where nobody states them: the NVLink domain of the GPU's file. */
bool hardware_node_gpus(struct arena *arena, const char *search_directory, const char *gpu,
                        int64_t *out, struct error *err);
/* A job that does not fill its domains (128 GPUs of racks of 72) takes equal parts of them: the
 * most GPUs, up to those of the domain, that divide the job and that whole tensor-parallel groups
 * fill. */
int64_t hardware_node_share(int64_t domain_gpus, int64_t gpu_count, int64_t tp);

/* Opens <search_directory>/<folder>/<name>.json, or `name` itself if it is a path (has a slash or
 * ends in .json). An unknown name is an error with the nearest one. The caller destroys it. */
struct json *hardware_open(struct arena *arena, const char *search_directory, const char *folder,
                           const char *name, struct error *err);

#endif
