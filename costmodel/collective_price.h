/* collective_price.h - seconds of collectives and messages among the ranks of a group.
 *
 * Collective of S bytes among n ranks on k nodes, r of them on the fullest node, while g groups
 * talk through a node whose NICs carry N = gpus_per_node x rate together:
 *     t = max( inside, overhead + wire / (share x efficiency) ),  share = min(N / g, r x one NIC)
 *   inside: the same collective over the r ranks of a node (efficiency.h), 0 for one rank.
 *   wire: bytes that cross a node's NICs one way:
 *     all-reduce                  2 S (n-1)/n (ring), but S for two nodes, where NCCL's trees send
 *                                 each node's sum across once: before Hopper by 11.8 GB/s a NIC at
 *                                 most, if a ring is not faster; not between cube meshes of V100
 *     all-gather, reduce-scatter  S (n-1)/n (ring)
 *     all-to-all                  S r (n-r)/n: each rank sends S/n to every rank outside
 *     send                        S, share is that of one flow
 *   overhead: of a named fabric its measured curve over S (hardware.h), else the latency of a
 *   node's part + hops x nic_latency, hops = 1 + log2 k for all-reduce (tree), 1 for a message and
 *   for all-to-all. Rings (all-gather, reduce-scatter) pass every rank: each further node is a hop
 *   of a NIC and r - 1 of NVLink or PCIe, as long as NCCL's model has them by the protocol that is
 *   done first; on a fabric each beyond the two that its curve is of.
 * Evidence: two-node all-reduce of 8 x 400 Gbit/s H100 nodes is bound by NVLink (bus bandwidth
 * 471-487 GB/s), four and more nodes by the NICs at 0.92 of ring (365-384); 30-50 us for small
 * buffers on 2-16 nodes, +10 us for each doubling. Checked up to 16 nodes; beyond that NCCL may
 * choose otherwise and congestion is not modelled, so the band widens.
 *
 *     struct collective_rates rates;
 *     collective_rates_fill(&rates, &gpu, &curves, &network);
 *     if (network.fabric) collective_rates_use_fabric(&rates, &fabric);
 *     struct price p = collective_price(&rates, &work, &group);
 */
#ifndef BALLAST_COSTMODEL_COLLECTIVE_PRICE_H
#define BALLAST_COSTMODEL_COLLECTIVE_PRICE_H

#include "costmodel/cost_model.h"
#include "costmodel/efficiency.h"
#include "costmodel/hardware.h"

/* Borrows curves, fabric and the network's name of it. */
struct collective_rates {
    struct cluster_network network;
    const struct collective_curves *curves;
    bool rings_alone; /* the tables' all-reduce of many ranks is the switch's, and it is off */
    double link_bytes_per_s;     /* of one GPU inside its node, one direction */
    bool nvlink;
    double socket_bytes_per_s;   /* between halves of a node without NVLink; 0: no limit */
    double tree_nic_bytes_per_s; /* of an all-reduce by trees on two nodes, for each NIC */
    double nic_efficiency;
    double node_nic_bytes_per_s; /* all NICs of a node */
    double one_nic_bytes_per_s;
    const char *across_source;
    const struct fabric *fabric; /* NULL: latency and efficiency of the network's own figures */
};

/* False with a sentence in `err` where a figure cannot be one of a network. */
bool cluster_network_check(const struct cluster_network *network, struct error *err);
void collective_rates_fill(struct collective_rates *rates, const struct gpu *gpu,
                           const struct collective_curves *curves,
                           const struct cluster_network *network);
/* Latency by size and efficiency as measured on that kind of network. */
void collective_rates_use_fabric(struct collective_rates *rates, const struct fabric *fabric);
/* Of a group of two or more ranks that moves something. */
struct price collective_price(const struct collective_rates *rates,
                              const struct operator_work *work, const struct communicator *group);
/* Seconds that the links need at their full rate. */
double collective_link_s(const struct collective_rates *rates, const struct operator_work *work,
                         const struct communicator *group);

#endif
