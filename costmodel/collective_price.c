/* collective_price.c - collectives inside a node by its tables, across nodes by a rule of NICs. */
#include "costmodel/collective_price.h"

#include <inttypes.h>
#include <math.h>
#include "costmodel/generation.h"
#include "sim/base/extremes.h"

#define NIC_EFFICIENCY_DEFAULT 0.90
/* Between nodes of eight V100 NCCL ran a ring: 9.24 GB/s at best of two nodes and one NIC of 12.5
 * (NVIDIA/nccl issue 371), where trees would show up to twice the NIC's rate. */
enum { CUBE_MESH_GPUS = 8 };
/* Trees of two nodes have a channel for each NIC, and half of what it carries is the sum
 * (perChMaxTreeBws of two nodes, NVIDIA/nccl src/graph/tuning.cc, where Ada counts as Ampere). With
 * faster NICs a ring is no slower: two nodes of A100 reach a bus bandwidth of 86 GB/s by four NICs
 * of 25 (NVIDIA/nccl issue 1048), 192 by eight (issue 812), and 78 by four of 12.5, which only
 * trees can. Hopper's 41.4 GB/s and what comes after bind no NIC that was measured. */
#define VOLTA_TREE_NIC_BYTES_PER_S  (18.5e9 / 2)
#define AMPERE_TREE_NIC_BYTES_PER_S (23.6e9 / 2)
#define FILL_BYTES                  16777216.0
/* The trees of an all-reduce leave a node by the ports of eight ranks at most, be they one NIC each
 * or several: eight H100 with 32 NICs of 100 Gbit/s reach 487 GB/s between two nodes (AWS p5,
 * awsome-distributed-training), of which eight NICs carry 100. Racks of 72 GPUs with a 400 Gbit/s
 * NIC each reach a bus bandwidth of 405 GB/s among 20 of them and of 811 between two, where half as
 * many bytes cross (nccl-tests of GB200, coreweave/nccl-tests). */
#define ALL_REDUCE_RANKS 8.0
/* What a hop of NCCL's rings takes by each of its protocols, and what they leave of the bandwidth
 * (hwLatencies, getNetOverhead, llMaxBws and "model refinements" of NVIDIA/nccl
 * src/graph/tuning.cc; on several nodes the host's 1 us a step bounds a hop of NVLink from below).
 * The 2.7, 4 and 14 us of a NIC are said as parts of the 10 us of a network's hop. */
static const struct ring_protocol {
    double nic_hops, nvlink_us, pcie_us, bandwidth_fraction, most_bytes_per_s;
    bool switched; /* LL128: only where NIC and GPU hang on one PCIe switch (PATH_PXB) */
} ring_protocols[] = {
    { 0.27, 1.0, 1.0, 0.25, 20.4e9, false },  /* LL */
    { 0.40, 1.9, 2.5, 0.92, INFINITY, true }, /* LL128 */
    { 1.40, 3.4, 5.7, 1.00, INFINITY, false } /* Simple */
};
/* Of boards of four, as of cards without NVLink, the NICs hang at the host. */
enum { BOARD_GPUS = 4 };
/* One flow of one NIC: 36 of 50 GB/s (microsoft/vidur, H100), 19.3 of 25 (FlagPerf, A100). */
#define SEND_NIC_EFFICIENCY 0.75
/* Judged, not fitted: published tables lie within 13 % from 1 GiB on, but below 128 MiB
 * fabrics with a slow start (EFA, TCPXO) and old NCCL take up to six times the price. */
#define ACROSS_BAND_FRACTION     0.35
#define ACROSS_FAR_BAND_FRACTION 0.60
#define ACROSS_NODES_MEASURED    16

bool cluster_network_check(const struct cluster_network *network, struct error *err) {
    if (network->gpus_per_node < 1)
        return error_set(err, "a node needs at least one GPU, got %" PRId64,
                         network->gpus_per_node);
    if (!(network->nic_bytes_per_s_per_gpu > 0))
        return error_set(err, "the NIC rate must be above 0, got %g bytes/s per GPU",
                         network->nic_bytes_per_s_per_gpu);
    if (!(network->nic_latency_s >= 0))
        return error_set(err, "the NIC latency must not be negative, got %g s",
                         network->nic_latency_s);
    return true;
}

static double tree_nic_bytes_per_s(const struct gpu *gpu) {
    switch (gpu_generation_of(gpu->name)) {
    case GENERATION_VOLTA:
        return VOLTA_TREE_NIC_BYTES_PER_S;
    case GENERATION_AMPERE:
    case GENERATION_ADA:
        return AMPERE_TREE_NIC_BYTES_PER_S;
    case GENERATION_HOPPER:
    case GENERATION_BLACKWELL:
        break;
    case GENERATION_UNKNOWN: /* without fp8 it is no younger than Ampere */
        if (!(gpu->peak_flop_per_s[PRECISION_FP8] > 0)) return AMPERE_TREE_NIC_BYTES_PER_S;
    }
    return INFINITY;
}

/* NVLink SHARP came with Hopper's switches; boards without one and PCIe have none. */
static bool reduces_in_switch(const struct gpu *gpu, const struct cluster_network *network) {
    const enum gpu_generation make = gpu_generation_of(gpu->name);
    return (make == GENERATION_HOPPER || make == GENERATION_BLACKWELL) &&
           gpu->nvlink_bytes_per_s > 0 && network->nvlink_mesh_gpus < 2;
}

void collective_rates_fill(struct collective_rates *rates, const struct gpu *gpu,
                           const struct collective_curves *curves,
                           const struct cluster_network *network) {
    const int64_t nic_count =
        network->nics_per_node > 0 ? network->nics_per_node : network->gpus_per_node;
    const double node_bytes_per_s =
        (double)network->gpus_per_node * network->nic_bytes_per_s_per_gpu;
    *rates = (struct collective_rates){
        .network = *network,
        .curves = curves,
        .rings_alone = network->without_nvls && reduces_in_switch(gpu, network),
        .link_bytes_per_s =
            gpu->nvlink_bytes_per_s > 0 ? gpu->nvlink_bytes_per_s : gpu->pcie_bytes_per_s,
        .nvlink = gpu->nvlink_bytes_per_s > 0,
        .socket_bytes_per_s = gpu->nvlink_bytes_per_s > 0 ? 0 : gpu->socket_bytes_per_s,
        .nic_efficiency = network->nic_efficiency_fraction > 0 ? network->nic_efficiency_fraction
                                                               : NIC_EFFICIENCY_DEFAULT,
        .tree_nic_bytes_per_s = tree_nic_bytes_per_s(gpu),
        .node_nic_bytes_per_s = node_bytes_per_s,
        .one_nic_bytes_per_s = node_bytes_per_s / (double)nic_count,
        .across_source = "NIC rule of collective_price.c over the one-node tables",
    };
}

void collective_rates_use_fabric(struct collective_rates *rates, const struct fabric *fabric) {
    rates->fabric = fabric;
    rates->nic_efficiency = fabric->efficiency_fraction;
    rates->across_source = fabric->source;
}

/* Bytes that cross a node's NICs, one way; of trees that the NICs outrun as many as they could
 * carry in that time. */
static double across_wire_bytes(const struct collective_rates *rates, enum operator_kind op,
                                double bytes, const struct communicator *g) {
    const bool trees = g->node_count == 2 && rates->network.nvlink_mesh_gpus != CUBE_MESH_GPUS;
    const double rank_count = (double)g->rank_count, inside = (double)g->ranks_per_node;
    const double ring_bytes = bytes * collective_wire_factor(op, rank_count);
    switch (op) {
    case OPERATOR_ALL_REDUCE: {
        const double nic_bytes_per_s = rates->nic_efficiency * rates->one_nic_bytes_per_s;
        const double outrun = greater_of(nic_bytes_per_s / rates->tree_nic_bytes_per_s, 1);
        return trees ? lesser_of(bytes * outrun, ring_bytes) : ring_bytes;
    }
    case OPERATOR_ALL_TO_ALL:
        return bytes * inside * (rank_count - inside) / rank_count;
    default:
        return ring_bytes;
    }
}

static bool is_ring(enum operator_kind op) {
    return op == OPERATOR_ALL_GATHER || op == OPERATOR_REDUCE_SCATTER;
}

/* How a collective may cross: what its hops take, those beyond the nodes that a fabric's curve is
 * of, and the wire. */
struct crossing {
    double hops_s, hops_beyond_s, wire_s;
};
enum { CROSSINGS_MAX = sizeof ring_protocols / sizeof ring_protocols[0], FABRIC_RING_NODES = 2 };

/* NCCL has neither trees nor, but for one GPU a node, PAT for these: the first byte passes every
 * rank (NVIDIA/nccl issues 1473 and 1594). */
static int ring_crossings(const struct collective_rates *rates, const struct communicator *g,
                          double wire_bytes, double wire_s, struct crossing *out) {
    const bool switched = rates->nvlink && rates->network.nvlink_mesh_gpus != BOARD_GPUS;
    const double hop_s =
        rates->fabric ? rates->fabric->hop_latency_s : rates->network.nic_latency_s;
    int count = 0;
    for (int i = 0; i < CROSSINGS_MAX; i++) {
        const struct ring_protocol *p = &ring_protocols[i];
        if (p->switched && !switched) continue;
        const double inside_s = 1e-6 * (rates->nvlink ? p->nvlink_us : p->pcie_us);
        const double node_s = p->nic_hops * hop_s + (double)(g->ranks_per_node - 1) * inside_s;
        out[count++] = (struct crossing){
            .hops_s = (double)(g->node_count - 1) * node_s,
            .hops_beyond_s = (double)(g->node_count - FABRIC_RING_NODES) * node_s,
            .wire_s = greater_of(wire_s / p->bandwidth_fraction, wire_bytes / p->most_bytes_per_s),
        };
    }
    return count;
}

static int across_crossings(const struct collective_rates *rates, enum operator_kind op,
                            const struct communicator *g, double wire_bytes, double wire_s,
                            struct crossing *out) {
    if (is_ring(op)) return ring_crossings(rates, g, wire_bytes, wire_s, out);
    const double hops = op == OPERATOR_ALL_REDUCE ? 1 + log2((double)g->node_count) : 1;
    out[0] = (struct crossing){ .hops_s = hops * rates->network.nic_latency_s, .wire_s = wire_s };
    return 1;
}

/* Of a ring the curve is that of two nodes; of the rest it knows how many there are. */
static double fabric_s(const struct fabric *fabric, enum operator_kind op, double bytes,
                       const struct communicator *g) {
    return fabric_overhead_s(fabric, bytes, is_ring(op) ? FABRIC_RING_NODES : (double)g->node_count,
                             (double)g->ranks_per_node,
                             op == OPERATOR_ALL_REDUCE ? FABRIC_PASSES : 1);
}

static double across_share_bytes_per_s(const struct collective_rates *rates, enum operator_kind op,
                                       const struct communicator *g) {
    const double group_count = g->groups_per_node > 0 ? (double)g->groups_per_node : 1;
    const double flow_max = op == OPERATOR_ALL_REDUCE ? ALL_REDUCE_RANKS : INFINITY;
    const double flow_count =
        op == OPERATOR_SEND ? 1 : lesser_of((double)g->ranks_per_node, flow_max);
    const double efficiency = op == OPERATOR_SEND ? SEND_NIC_EFFICIENCY : rates->nic_efficiency;
    /* Two ports a GPU serve one rank together; a message stays on one. */
    const double rank_nic_bytes_per_s =
        op == OPERATOR_SEND
            ? rates->one_nic_bytes_per_s
            : greater_of(rates->one_nic_bytes_per_s, rates->network.nic_bytes_per_s_per_gpu);
    return efficiency *
           lesser_of(rates->node_nic_bytes_per_s / group_count, flow_count * rank_nic_bytes_per_s);
}

/* Share of a GPU's links that a group can use where they go straight from GPU to GPU. Four GPUs
 * share them evenly. Eight V100 form a cube mesh of six links: within a quad one, one and two, and
 * two to the other quad (nvidia-smi topo in the reports of Oneflow-Inc/DLPerf); a pair may have but
 * one. */
static double mesh_share(int64_t mesh_gpus, int64_t ranks) {
    if (mesh_gpus == 8) return ranks == 2 ? 1.0 / 6 : ranks <= 4 ? 4.0 / 6 : 1;
    return lesser_of((double)(ranks - 1) / (double)(mesh_gpus - 1), 1);
}

/* Two and four GPUs never reduce in the switch (calibrate/fit/fit_collective.c), and a ring is a
 * reduce-scatter and an all-gather in one kernel: of more GPUs, what four spare by that. Bus
 * bandwidth at 1 GiB: 374 GB/s of eight H100, 370 and 369 measured with NVLS off (NVIDIA/nccl issue
 * 2140, nccl-tests issue 309); 692 of eight B300, 695 measured. Eight A100, which have no such
 * switch, by this rule 7 % short from 128 MiB on, up to 24 below: never less than with NVLS. */
enum { RING_RANKS = 4 };

static double ring_all_reduce_s(const struct collective_curves *curves, int64_t rank_count,
                                double bytes) {
    const struct collective_table *ignored;
    bool inside;
    const enum operator_kind halves[] = { OPERATOR_REDUCE_SCATTER, OPERATOR_ALL_GATHER };
    double two_s = 0, two_of_four_s = 0;
    for (int i = 0; i < 2; i++) {
        two_s += collective_inside_s(curves, halves[i], rank_count, bytes, &inside, &ignored);
        two_of_four_s +=
            collective_inside_s(curves, halves[i], RING_RANKS, bytes, &inside, &ignored);
    }
    return two_s / two_of_four_s *
           collective_inside_s(curves, OPERATOR_ALL_REDUCE, RING_RANKS, bytes, &inside, &ignored);
}

/* The tables are of nodes with a switch. NCCL gives each link its channels, so fewer links have each
 * carry what it carries of a buffer that is larger by as much. */
static double node_collective_s(const struct collective_rates *rates, enum operator_kind op,
                                int64_t rank_count, double bytes, bool *inside_range,
                                const struct collective_table **nearest) {
    const struct collective_curves *curves = rates->curves;
    const int64_t mesh_gpus = rates->network.nvlink_mesh_gpus;
    const double share =
        mesh_gpus < 2 ? 1 : mesh_share(mesh_gpus, op == OPERATOR_SEND ? 2 : rank_count);
    double switched_s = collective_inside_s(curves, op, rank_count, bytes, inside_range, nearest);
    if (share < 1) { /* what was measured is the buffer, not the larger one */
        bool ignored = true;
        switched_s = collective_inside_s(curves, op, rank_count, bytes / share, &ignored, nearest);
    }
    if (!rates->rings_alone || op != OPERATOR_ALL_REDUCE || rank_count <= RING_RANKS)
        return switched_s;
    const double ring_s = ring_all_reduce_s(curves, rank_count, bytes);
    if (ring_s > switched_s) *inside_range = false;
    return greater_of(ring_s, switched_s);
}

/* Groups that cross from one processor to the other at once share what links them. One alone is in
 * the table. */
static double shared_socket_s(const struct collective_rates *rates, enum operator_kind op,
                              double bytes, const struct communicator *g) {
    if (!(rates->socket_bytes_per_s > 0) || g->groups_per_node < 2) return 0;
    return bytes * collective_wire_factor(op, (double)g->rank_count) * (double)g->groups_per_node /
           rates->socket_bytes_per_s;
}

static struct price price_inside(const struct collective_rates *rates, enum operator_kind op,
                                 double bytes, const struct communicator *g) {
    const struct collective_table *nearest;
    bool inside_range = true;
    const struct collective_curves *curves = rates->curves;
    const double alone_s =
        node_collective_s(rates, op, g->rank_count, bytes, &inside_range, &nearest);
    const double latency_s = collective_latency_s(curves, op, g->rank_count);
    const double seconds = greater_of(alone_s, latency_s + shared_socket_s(rates, op, bytes, g));
    const double wire_bytes = bytes * collective_wire_factor(op, (double)g->rank_count);
    return (struct price){
        .seconds = seconds,
        .network_s = seconds,
        /* In-switch reduction sends less than the ring that bus bandwidth is defined by. */
        .efficiency = lesser_of(wire_bytes / (seconds * rates->link_bytes_per_s), 1),
        .band_fraction = nearest->band_fraction * (inside_range ? 1 : 2),
        .bound = 2 * latency_s > seconds ? PRICE_LAUNCH : PRICE_NETWORK,
        .inside_range = inside_range,
        .source = nearest->source,
    };
}

/* What a GPU's links carry of a collective over several nodes, over what they carry of one among
 * the ranks of its node: S (n-1)/n bytes come to each rank wherever the others stand. */
static double inside_wire_ratio(enum operator_kind op, const struct communicator *g) {
    if (op == OPERATOR_ALL_TO_ALL) return 1;
    return collective_wire_factor(op, (double)g->rank_count) /
           collective_wire_factor(op, (double)g->ranks_per_node);
}

static struct price price_across(const struct collective_rates *rates, enum operator_kind op,
                                 double bytes, const struct communicator *g) {
    const struct collective_curves *curves = rates->curves;
    const struct collective_table *nearest;
    bool inside_range = true;
    const bool shared_node = op != OPERATOR_SEND && g->ranks_per_node > 1;
    /* A group with one rank on each node still starts a kernel: as a message does. */
    const double start_s = shared_node ? collective_latency_s(curves, op, g->ranks_per_node)
                                       : collective_latency_s(curves, OPERATOR_SEND, 2);
    const double together_s = shared_node ? collective_latency_s(curves, op, g->rank_count) : 0;
    double moved_inside_s = 0, fill_s = 0;
    if (shared_node) {
        moved_inside_s =
            (node_collective_s(rates, op, g->ranks_per_node, bytes, &inside_range, &nearest) -
             start_s) *
            inside_wire_ratio(op, g);
        fill_s = node_collective_s(rates, op, g->ranks_per_node, lesser_of(bytes, FILL_BYTES),
                                   &inside_range, &nearest) -
                 start_s;
    }
    const double wire_bytes = across_wire_bytes(rates, op, bytes, g);
    const double wire_s = wire_bytes / across_share_bytes_per_s(rates, op, g);
    /* A message needs no agreement among nodes: it keeps the one hop's latency. */
    const bool measured = rates->fabric && op != OPERATOR_SEND;
    struct crossing crossings[CROSSINGS_MAX];
    const int count = across_crossings(rates, op, g, wire_bytes, wire_s, crossings);
    double seconds = INFINITY, overhead_s = 0;
    for (int i = 0; i < count; i++) {
        const struct crossing *c = &crossings[i];
        /* Between nodes the first byte has as many ranks to pass as inside one. */
        const double latency_s = greater_of(start_s + c->hops_s, together_s);
        const double before_s = measured ? fabric_s(rates->fabric, op, bytes, g) + c->hops_beyond_s
                                         : latency_s + fill_s;
        const double inside_s = shared_node ? latency_s + moved_inside_s : 0;
        const double so_s = greater_of(inside_s, before_s + c->wire_s);
        if (so_s < seconds) seconds = so_s, overhead_s = before_s;
    }
    const bool near = g->node_count <= ACROSS_NODES_MEASURED;
    return (struct price){
        .seconds = seconds,
        .network_s = seconds,
        .efficiency = lesser_of(wire_s / seconds, 1),
        .band_fraction = near ? ACROSS_BAND_FRACTION : ACROSS_FAR_BAND_FRACTION,
        .bound = 2 * overhead_s > seconds ? PRICE_LAUNCH : PRICE_NETWORK,
        .inside_range = near,
        .source = rates->across_source,
    };
}

struct price collective_price(const struct collective_rates *rates,
                              const struct operator_work *work, const struct communicator *group) {
    return group->node_count > 1 ? price_across(rates, work->kind, work->network_bytes, group)
                                 : price_inside(rates, work->kind, work->network_bytes, group);
}

double collective_link_s(const struct collective_rates *rates, const struct operator_work *work,
                         const struct communicator *g) {
    if (g->node_count > 1) {
        const double efficiency =
            work->kind == OPERATOR_SEND ? SEND_NIC_EFFICIENCY : rates->nic_efficiency;
        return across_wire_bytes(rates, work->kind, work->network_bytes, g) /
               (across_share_bytes_per_s(rates, work->kind, g) / efficiency);
    }
    return work->network_bytes * collective_wire_factor(work->kind, (double)g->rank_count) /
           rates->link_bytes_per_s;
}
