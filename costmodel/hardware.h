/* hardware.h - the files that describe GPUs and clusters.
 *
 * Three kinds, because they change for different reasons: scenarios/hardware/<gpu>.json holds a
 * GPU's data-sheet figures, each with its source; scenarios/hardware/curves/<gpu>.json what was
 * measured on it; scenarios/clusters/<cluster>.json the node and the network around it.
 *
 *     struct gpu gpu;
 *     if (!gpu_read(json, arena, &gpu, err)) return NULL;
 */
#ifndef BALLAST_COSTMODEL_HARDWARE_H
#define BALLAST_COSTMODEL_HARDWARE_H

#include "costmodel/cost_model.h"
#include "sim/base/field.h"

extern const struct field_table hardware_gpu_table, hardware_cluster_table;

/* Every figure must have an entry of its name in "sources". */
bool gpu_read(const struct json *json, struct arena *arena, struct gpu *out, struct error *err);

/* Opens <search_directory>/<folder>/<name>.json, or `name` itself if it is a path (has a slash or
 * ends in .json). An unknown name is an error with the nearest one. The caller destroys it. */
struct json *hardware_open(struct arena *arena, const char *search_directory, const char *folder,
                           const char *name, struct error *err);

#endif
