/* interconnect.h - the network that a line of text describes, and kinds of networks from their
 * measured systems.
 *
 *     struct cluster_network network;
 *     network_from_interconnect("AWS p4de EFA 4x100Gb/s per node + NVSwitch", NULL, &network);
 *     // 8 GPUs and 4 NICs a node, 6.25e9 bytes/s for each GPU, fabric "efa"
 */
#ifndef BALLAST_CALIBRATE_FIT_INTERCONNECT_H
#define BALLAST_CALIBRATE_FIT_INTERCONNECT_H

#include <cjson/cJSON.h>
#include "calibrate/fit/measurements.h"
#include "costmodel/cost_model.h"

/* NICs as "8x400Gb/s", "4 x 100 Gbit/s", "200Gb/s" (of each) or "1600Gb/s per node"; "NVL72";
 * fabrics by their words, else `fabric` is NULL. What the text leaves out is that of the usual
 * node: eight GPUs with one NIC each; four where the profile (a file of scenarios/hardware; NULL:
 * unknown) is of Grace, and its whole NVLink domain of 72, if it is of one, where the text names
 * neither a fabric nor NICs. */
void network_from_interconnect(const char *text, const char *profile, struct cluster_network *out);

/* Names of the fabrics that can be fitted, NULL at the end. */
const char *const *calibrate_fabric_names(void);
bool calibrate_knows_fabric(const char *name, struct error *err);
/* Fills the empty object as scenarios/hardware/fabrics/<name>.json, from nccl.csv or nccl.csv.gz.
 * A user's own rows (those without a key of the shipped tables, own_tables.h) whose interconnect
 * names the fabric are taken alone; else the shipped ones that the plan names. */
bool calibrate_fit_fabric(struct arena *arena, const char *measured_dir, const char *name,
                          cJSON *fabric_out, struct error *err);

#endif
