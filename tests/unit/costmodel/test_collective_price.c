/* test_collective_price.c - collectives between nodes against published tables, what a node's size
 * changes of a collective, and what it does not. */
#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>
#include <cmocka.h>
#include "costmodel/cost_model.h"
#include "costmodel/efficiency.h"

#define SCENARIOS BALLAST_SOURCE_DIR "/scenarios"
#define HARDWARE  SCENARIOS "/hardware/"

static const struct cost_model *model_on(struct arena *arena, const char *file, int64_t node) {
    const struct cluster_network network = { .gpus_per_node = node,
                                             .nic_bytes_per_s_per_gpu = 50e9,
                                             .nic_latency_s = 10e-6 };
    struct error err = { 0 };
    const struct cost_model *model = cost_model_create(arena, SCENARIOS, file, &network, &err);
    if (model == NULL) fail_msg("%s", err.text);
    return model;
}

/* Latencies of tables of four and eight ranks: 11 and 17 us. Each further rank of a ring adds 1.5,
 * each doubling of an all-reduce 6; a single table leaves the ring law. */
static void test_latency_beyond_the_tables(void **state) {
    (void)state;
    struct collective_table tables[] = {
        { .op = OPERATOR_ALL_REDUCE, .rank_count = 4, .latency_s = 11e-6 },
        { .op = OPERATOR_ALL_REDUCE, .rank_count = 8, .latency_s = 17e-6 },
        { .op = OPERATOR_ALL_GATHER, .rank_count = 4, .latency_s = 11e-6 },
        { .op = OPERATOR_ALL_GATHER, .rank_count = 8, .latency_s = 17e-6 },
        { .op = OPERATOR_REDUCE_SCATTER, .rank_count = 4, .latency_s = 6e-6 },
    };
    struct collective_curves curves = { .count = 5, .tables = tables };
    curves.first[OPERATOR_ALL_REDUCE] = 0, curves.last[OPERATOR_ALL_REDUCE] = 1;
    curves.first[OPERATOR_ALL_GATHER] = 2, curves.last[OPERATOR_ALL_GATHER] = 3;
    curves.first[OPERATOR_REDUCE_SCATTER] = curves.last[OPERATOR_REDUCE_SCATTER] = 4;
    const struct {
        enum operator_kind op;
        int64_t ranks;
        double want_us;
    } cases[] = {
        { OPERATOR_ALL_REDUCE, 8, 17 }, { OPERATOR_ALL_REDUCE, 32, 17 + 2 * 6 },
        { OPERATOR_ALL_GATHER, 8, 17 }, { OPERATOR_ALL_GATHER, 32, 17 + 24 * 1.5 },
        { OPERATOR_ALL_GATHER, 6, 14 }, { OPERATOR_REDUCE_SCATTER, 8, 14 },
    };
    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
        const double got_us = 1e6 * collective_latency_s(&curves, cases[i].op, cases[i].ranks);
        if (fabs(got_us - cases[i].want_us) > 1e-9)
            fail_msg("case %zu: got %.9g us, want %.9g", i, got_us, cases[i].want_us);
    }
}

static double node_s(const struct cost_model *model, enum operator_kind op, int64_t ranks,
                     double bytes) {
    const struct communicator node = { .rank_count = ranks,
                                       .ranks_per_node = ranks,
                                       .node_count = 1 };
    const struct operator_work work =
        operator_collective("", op, PASS_BACKWARD, COMMUNICATOR_DATA, bytes);
    return cost_model_price_isolated(model, &work, &node).seconds;
}

static double by_rings_s(const struct cost_model *model, int64_t ranks, double bytes) {
    return (node_s(model, OPERATOR_REDUCE_SCATTER, ranks, bytes) +
            node_s(model, OPERATOR_ALL_GATHER, ranks, bytes)) /
           (node_s(model, OPERATOR_REDUCE_SCATTER, 4, bytes) +
            node_s(model, OPERATOR_ALL_GATHER, 4, bytes)) *
           node_s(model, OPERATOR_ALL_REDUCE, 4, bytes);
}

/* Eight A100 have no switch that adds up: their own table tells how good the rule of rings is.
 * Hopper and Blackwell without NVLS take it; with it, or of four GPUs, as measured. */
static void test_without_nvls(void **state) {
    (void)state;
    static const struct {
        const char *gpu;
        double bus_GB_per_s; /* measured with NCCL_NVLS_ENABLE=0; 0: it has none to turn off */
    } cases[] = {
        { HARDWARE "h100-80g-sxm.json", 370 },  /* NVIDIA/nccl issue 2140, nccl-tests issue 309 */
        { HARDWARE "b300-288g-sxm.json", 695 }, /* NVIDIA/nccl issue 2140 */
        { HARDWARE "a100-80g-sxm.json", 0 },
    };
    struct arena *arena = arena_create();
    const struct cost_model *a100 = model_on(arena, HARDWARE "a100-80g-sxm.json", 8);
    for (double bytes = 128 << 20; bytes < 10e9; bytes *= 2) {
        const double off =
            by_rings_s(a100, 8, bytes) / node_s(a100, OPERATOR_ALL_REDUCE, 8, bytes) - 1;
        if (fabs(off) > 0.08) fail_msg("%g bytes: %.3f off", bytes, off);
    }
    const struct cluster_network rings = { .gpus_per_node = 8,
                                           .nic_bytes_per_s_per_gpu = 50e9,
                                           .without_nvls = true };
    const double bytes = 1 << 30;
    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
        struct error err = { 0 };
        const struct cost_model *with = model_on(arena, cases[i].gpu, 8),
                                *without =
                                    cost_model_create(arena, SCENARIOS, cases[i].gpu, &rings, &err);
        assert_non_null(without);
        const double with_s = node_s(with, OPERATOR_ALL_REDUCE, 8, bytes),
                     without_s = node_s(without, OPERATOR_ALL_REDUCE, 8, bytes),
                     bus_GB_per_s = bytes * 1.75 / without_s / 1e9;
        if (cases[i].bus_GB_per_s > 0 && fabs(bus_GB_per_s / cases[i].bus_GB_per_s - 1) > 0.03)
            fail_msg("%s: %.0f GB/s", cases[i].gpu, bus_GB_per_s);
        assert_true(cases[i].bus_GB_per_s > 0 ? without_s > with_s : without_s == with_s);
        assert_true(node_s(without, OPERATOR_ALL_REDUCE, 4, bytes) ==
                    node_s(with, OPERATOR_ALL_REDUCE, 4, bytes));
        assert_true(node_s(without, OPERATOR_ALL_GATHER, 8, bytes) ==
                    node_s(with, OPERATOR_ALL_GATHER, 8, bytes));
        assert_true(node_s(without, OPERATOR_ALL_REDUCE, 8, 4e6) >=
                    node_s(with, OPERATOR_ALL_REDUCE, 8, 4e6));
    }
    arena_destroy(arena);
}

/* The bytes that pass through a GPU are the same however many GPUs share its node. */
static void test_moving_ignores_the_node(void **state) {
    (void)state;
    struct arena *arena = arena_create();
    const struct operator_work work =
        operator_collective("", OPERATOR_ALL_GATHER, PASS_UPDATE, COMMUNICATOR_DATA, 1e9);
    double of_eight = 0;
    for (int64_t node = 1; node <= 64; node *= 2) {
        const struct communicator group = { 64, 64 / node, node, 1 };
        const struct cost_model *model = model_on(arena, HARDWARE "gb200-186g-nvl72.json", node);
        const double moving_s = cost_model_moving_s(model, &work, &group);
        if (node == 1) of_eight = moving_s;
        if (fabs(moving_s - of_eight) > 1e-12 * of_eight)
            fail_msg("nodes of %ld: %.9g s, nodes of one: %.9g s", (long)node, moving_s, of_eight);
        assert_true(moving_s <= cost_model_price(model, &work, &group).seconds);
    }
    arena_destroy(arena);
}

/* NVLink's bound of a collective over two nodes has the bus bandwidth of one node: 15/16 of the
 * buffer comes to each rank, not the 7/8 of eight ranks. NICs are out of the way. */
static void test_links_carry_all_ranks(void **state) {
    (void)state;
    struct arena *arena = arena_create();
    struct cluster_network network = { .gpus_per_node = 8,
                                       .nic_bytes_per_s_per_gpu = 1e15,
                                       .nic_latency_s = 0 };
    struct error err = { 0 };
    const struct cost_model *model =
        cost_model_create(arena, SCENARIOS, HARDWARE "h100-80g-sxm.json", &network, &err);
    if (model == NULL) fail_msg("%s", err.text);
    const struct communicator one = { 8, 1, 8, 1 }, two = { 16, 2, 8, 1 };
    const enum operator_kind kinds[] = { OPERATOR_ALL_REDUCE, OPERATOR_ALL_GATHER,
                                         OPERATOR_REDUCE_SCATTER };
    for (size_t i = 0; i < sizeof kinds / sizeof kinds[0]; i++) {
        const struct operator_work work =
            operator_collective("", kinds[i], PASS_UPDATE, COMMUNICATOR_DATA, 8e9);
        const double ratio = cost_model_price(model, &work, &two).seconds /
                             cost_model_price(model, &work, &one).seconds;
        if (fabs(ratio - (15.0 / 16) / (7.0 / 8)) > 1e-3)
            fail_msg("%s: %.9g", operator_kind_name(kinds[i]), ratio);
    }
    arena_destroy(arena);
}

static struct cost_model *load(struct arena *arena, const char *hardware, double nic_bytes_per_s) {
    struct error err = { 0 };
    const struct cluster_network own = { .gpus_per_node = 8,
                                         .nic_bytes_per_s_per_gpu = nic_bytes_per_s,
                                         .nic_latency_s = 10e-6 };
    struct cost_model *model = cost_model_create(arena, SCENARIOS, hardware, &own, &err);
    if (!model) fail_msg("%s", err.text);
    return model;
}

/* Named fabrics of a cluster against the same nodes with the two plain figures. */
static void test_fabrics(void **state) {
    (void)state;
    static const struct {
        const char *name, *gpu, *fabric;
        double nic_GB_per_s;
        enum operator_kind op;
        struct communicator group;
        double bytes, measured_us, tolerance;
    } cases[] = {
        { "p4de EFA 1 KiB",
          "a100-80g-sxm",
          "efa",
          6.25,
          OPERATOR_ALL_REDUCE,
          { 16, 2, 8, 1 },
          1024,
          165,
          0.10 },
        { "p4de EFA 16 MiB",
          "a100-80g-sxm",
          "efa",
          6.25,
          OPERATOR_ALL_REDUCE,
          { 16, 2, 8, 1 },
          16777216,
          1192,
          0.25 },
        { "p6-b200 EFA 1 MiB",
          "b200-180g-sxm",
          "efa",
          50,
          OPERATOR_ALL_REDUCE,
          { 32, 4, 8, 1 },
          1048576,
          378,
          0.20 },
        { "a3-mega TCPXO 1 KiB",
          "h100-80g-sxm",
          "tcpxo",
          25,
          OPERATOR_ALL_REDUCE,
          { 16, 2, 8, 1 },
          1024,
          147,
          0.15 },
        { "a3-mega TCPXO 64 MiB",
          "h100-80g-sxm",
          "tcpxo",
          25,
          OPERATOR_ALL_REDUCE,
          { 16, 2, 8, 1 },
          67108864,
          1262,
          0.10 },
        { "ABCI HDR 1 MiB, 16 nodes",
          "a100-40g-sxm",
          "hdr-infiniband",
          12.5,
          OPERATOR_ALL_REDUCE,
          { 128, 16, 8, 1 },
          1048576,
          200,
          0.20 },
        { "a3-ultra RoCE 16 MiB",
          "h200-141g-sxm",
          "roce",
          50,
          OPERATOR_ALL_GATHER,
          { 16, 2, 8, 1 },
          16777216,
          117.6,
          0.05 },
        { "A4 RoCE 128 MiB, two passes",
          "b200-180g-sxm",
          "roce",
          50,
          OPERATOR_ALL_REDUCE,
          { 16, 2, 8, 1 },
          134217728,
          638.5,
          0.10 },
        { "a3-mega TCPXO 128 MiB, one pass",
          "h100-80g-sxm",
          "tcpxo",
          25,
          OPERATOR_ALL_GATHER,
          { 16, 2, 8, 1 },
          134217728,
          1102,
          0.15 },
        { "NDR 1 GiB, 8 nodes",
          "h100-80g-sxm",
          "infiniband",
          50,
          OPERATOR_ALL_REDUCE,
          { 64, 8, 8, 1 },
          1073741824,
          5808,
          0.05 },
    };
    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
        struct arena *arena = arena_create();
        struct error err = { 0 };
        const struct cluster_network own = { .gpus_per_node = 8,
                                             .nic_bytes_per_s_per_gpu = cases[i].nic_GB_per_s * 1e9,
                                             .fabric = cases[i].fabric };
        const struct cost_model *model =
            cost_model_create(arena, SCENARIOS, cases[i].gpu, &own, &err);
        if (!model) fail_msg("%s: %s", cases[i].name, err.text);
        const struct operator_work w =
            operator_collective("", cases[i].op, PASS_UPDATE, COMMUNICATOR_DATA, cases[i].bytes);
        const double us = cost_model_price(model, &w, &cases[i].group).seconds * 1e6;
        if (!(fabs(us / cases[i].measured_us - 1) <= cases[i].tolerance))
            fail_msg("%s: %.1f us, measured %.1f", cases[i].name, us, cases[i].measured_us);
        arena_destroy(arena);
    }
    struct arena *arena = arena_create();
    struct error err = { 0 };
    /* Racks of 72: an all-reduce leaves by eight NICs, whatever the rack has. */
    static const struct {
        struct communicator group;
        double bytes, measured_us, tolerance;
    } racks[] = {
        { { 72, 1, 72, 1 }, 8589934592, 20299, 0.05 },
        { { 144, 2, 72, 1 }, 17179869184, 42070, 0.15 },
        { { 1440, 20, 72, 1 }, 8589934592, 45004, 0.10 },
        { { 1440, 20, 72, 1 }, 17179869184, 84625, 0.15 },
    };
    const struct cluster_network rack = { .gpus_per_node = 72, .nic_bytes_per_s_per_gpu = 50e9 };
    const struct cost_model *gb200 =
        cost_model_create(arena, SCENARIOS, "gb200-186g-nvl72", &rack, &err);
    if (!gb200) fail_msg("%s", err.text);
    for (size_t i = 0; i < sizeof racks / sizeof racks[0]; i++) {
        const struct operator_work w = operator_collective("", OPERATOR_ALL_REDUCE, PASS_UPDATE,
                                                           COMMUNICATOR_DATA, racks[i].bytes);
        const double us = cost_model_price(gb200, &w, &racks[i].group).seconds * 1e6;
        if (!(fabs(us / racks[i].measured_us - 1) <= racks[i].tolerance))
            fail_msg("%ld GPUs: %.1f us, measured %.1f", (long)racks[i].group.rank_count, us,
                     racks[i].measured_us);
    }
    /* Several NICs a GPU carry what one of their sum does. */
    const struct operator_work large =
        operator_collective("", OPERATOR_ALL_REDUCE, PASS_UPDATE, COMMUNICATOR_DATA, 8e9);
    const struct communicator four_nodes = { 32, 4, 8, 1 };
    double one_nic_s = 0;
    for (int64_t nics = 8; nics <= 32; nics *= 2) {
        const struct cluster_network ports = { .gpus_per_node = 8,
                                               .nics_per_node = nics,
                                               .nic_bytes_per_s_per_gpu = 50e9 };
        const struct cost_model *h100 =
            cost_model_create(arena, SCENARIOS, "h100-80g-sxm", &ports, &err);
        if (!h100) fail_msg("%s", err.text);
        const double seconds = cost_model_price(h100, &large, &four_nodes).seconds;
        if (nics == 8) one_nic_s = seconds;
        if (!(fabs(seconds / one_nic_s - 1) < 1e-9))
            fail_msg("%ld NICs: %g s, eight %g", (long)nics, seconds, one_nic_s);
    }
    const struct cluster_network own = { .gpus_per_node = 8,
                                         .nic_bytes_per_s_per_gpu = 1e9,
                                         .fabric = "infinband" };
    assert_null(cost_model_create(arena, SCENARIOS, "h20-96g", &own, &err));
    assert_non_null(strstr(err.text, "did you mean 'infiniband'?"));
    arena_destroy(arena);
}

/* All-reduce and all-gather between nodes as published nccl-tests tables have them (bytes, us). */
static void test_across_published(void **state) {
    (void)state;
    static const struct {
        const char *name, *gpu;
        double nic_GB_per_s;
        enum operator_kind op;
        struct communicator group;
        double bytes, measured_us, tolerance;
    } cases[] = {
        { "OCI H100 1 GiB",
          "h100-80g-sxm",
          50,
          OPERATOR_ALL_REDUCE,
          { 16, 2, 8, 1 },
          1073741824,
          4478.8,
          0.10 },
        { "NDR H100 512 MiB",
          "h100-80g-sxm",
          50,
          OPERATOR_ALL_REDUCE,
          { 64, 8, 8, 1 },
          536870912,
          2984.6,
          0.10 },
        { "p5en H200 4 GiB ring",
          "h200-141g-sxm",
          50,
          OPERATOR_ALL_REDUCE,
          { 32, 4, 8, 1 },
          4294967296,
          22807,
          0.10 },
        { "a3-ultra H200 512 MiB",
          "h200-141g-sxm",
          50,
          OPERATOR_ALL_GATHER,
          { 16, 2, 8, 1 },
          536870912,
          1580.2,
          0.12 },
        { "a3-ultra H200 16 MiB",
          "h200-141g-sxm",
          50,
          OPERATOR_ALL_GATHER,
          { 16, 2, 8, 1 },
          16777216,
          117.6,
          0.20 },
        { "a3-ultra H200 32 KiB",
          "h200-141g-sxm",
          50,
          OPERATOR_ALL_GATHER,
          { 16, 2, 8, 1 },
          32768,
          32.8,
          0.20 },
        { "ABCI A100 512 B on 8 nodes",
          "a100-40g-sxm",
          12.5,
          OPERATOR_ALL_REDUCE,
          { 64, 8, 8, 1 },
          512,
          57.0,
          0.20 },
        { "p4de A100 1 GiB",
          "a100-80g-sxm",
          6.25,
          OPERATOR_ALL_REDUCE,
          { 16, 2, 8, 1 },
          1073741824,
          26217,
          0.12 },
        { "a3-mega H100 8 GiB",
          "h100-80g-sxm",
          25,
          OPERATOR_ALL_REDUCE,
          { 16, 2, 8, 1 },
          8589934592,
          47535,
          0.10 },
    };
    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
        struct arena *arena = arena_create();
        const struct cost_model *model = load(arena, cases[i].gpu, cases[i].nic_GB_per_s * 1e9);
        const struct operator_work w =
            operator_collective("", cases[i].op, PASS_UPDATE, COMMUNICATOR_DATA, cases[i].bytes);
        const double us = cost_model_price(model, &w, &cases[i].group).seconds * 1e6;
        const double error = us / cases[i].measured_us - 1;
        print_message("%-28s measured %8.1f us, priced %8.1f, %+.1f %%\n", cases[i].name,
                      cases[i].measured_us, us, 100 * error);
        if (!(fabs(error) <= cases[i].tolerance))
            fail_msg("%s: %+.1f %% is beyond %.0f %%", cases[i].name, 100 * error,
                     100 * cases[i].tolerance);
        arena_destroy(arena);
    }
}

/* Bus bandwidths of two nodes of eight A100, GB/s: NVIDIA/nccl issues 1048 and 812, and the p4de
 * table of awsome-distributed-training; OCI's nodes have two ports of 100 Gbit/s a GPU
 * (oci-hpc-oke). With NICs of 200 Gbit/s a ring is as fast as trees. */
static void test_two_nodes_before_hopper(void **state) {
    (void)state;
    static const struct {
        int64_t nics;
        double nic_GB_per_s, bus_GB_per_s;
    } cases[] = { { 4, 25, 86 }, { 8, 25, 192 }, { 4, 12.5, 78 }, { 16, 12.5, 236 } };
    const double bytes = 4294967296;
    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
        struct arena *arena = arena_create();
        struct error err = { 0 };
        const struct cluster_network own = {
            .gpus_per_node = 8,
            .nics_per_node = cases[i].nics,
            .nic_bytes_per_s_per_gpu = (double)cases[i].nics * cases[i].nic_GB_per_s * 1e9 / 8,
            .nic_latency_s = 10e-6
        };
        const struct cost_model *model =
            cost_model_create(arena, SCENARIOS, "a100-80g-sxm", &own, &err);
        if (!model) fail_msg("%s", err.text);
        const struct communicator two = { 16, 2, 8, 1 };
        const struct operator_work work =
            operator_collective("", OPERATOR_ALL_REDUCE, PASS_UPDATE, COMMUNICATOR_DATA, bytes);
        const double bus_GB_per_s =
            2 * 15.0 / 16 * bytes / cost_model_price(model, &work, &two).seconds / 1e9;
        if (!(fabs(bus_GB_per_s / cases[i].bus_GB_per_s - 1) <= 0.08))
            fail_msg("%ld NICs of %g GB/s: %.1f GB/s, measured %g", (long)cases[i].nics,
                     cases[i].nic_GB_per_s, bus_GB_per_s, cases[i].bus_GB_per_s);
        arena_destroy(arena);
    }
}

/* What a further node adds to a ring beyond the wire: a hop of its NIC and one of NVLink or PCIe for
 * each rank but one, by the protocol that NCCL's model (src/graph/tuning.cc) has done first. */
static void test_ring_passes_every_rank(void **state) {
    (void)state;
    static const struct {
        const char *gpu, *fabric;
        int64_t inside, mesh_gpus;
        double bytes, bandwidth_fraction, want_us;
    } cases[] = {
        { "h100-80g-sxm", NULL, 8, 0, 1024, 0.25, 2.7 + 7 * 1.0 },    /* LL */
        { "h100-80g-sxm", NULL, 8, 0, 268435456, 0.92, 4 + 7 * 1.9 }, /* LL128 */
        { "h100-80g-sxm", NULL, 4, 4, 268435456, 1, 14 + 3 * 3.4 },   /* Simple: NICs at the host */
        { "h100-80g-pcie", NULL, 8, 0, 268435456, 1, 14 + 7 * 5.7 },  /* the same */
        { "h100-80g-sxm", NULL, 1, 4, 268435456, 1, 14 },             /* TP fills the nodes */
        { "gh200-96g", "slingshot", 4, 4, 268435456, 1,
          14 + 3 * 3.4 }, /* beyond the two measured */
    };
    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
        struct arena *arena = arena_create();
        struct error err = { 0 };
        const double nic_bytes_per_s = 1e9;
        const struct cluster_network own = { .gpus_per_node = cases[i].inside,
                                             .nic_bytes_per_s_per_gpu = nic_bytes_per_s,
                                             .nic_latency_s = 10e-6,
                                             .nvlink_mesh_gpus = cases[i].mesh_gpus,
                                             .fabric = cases[i].fabric };
        const struct cost_model *model =
            cost_model_create(arena, SCENARIOS, cases[i].gpu, &own, &err);
        if (!model) fail_msg("%s", err.text);
        const struct operator_work work = operator_collective("", OPERATOR_ALL_GATHER, PASS_FORWARD,
                                                              COMMUNICATOR_DATA, cases[i].bytes);
        double less_wire_s[2];
        for (int more = 0; more < 2; more++) {
            const int64_t nodes = 256 << more, ranks = nodes * cases[i].inside;
            const struct communicator g = { ranks, nodes, cases[i].inside, 1 };
            less_wire_s[more] =
                cost_model_price_isolated(model, &work, &g).seconds -
                cases[i].bytes * (double)(ranks - 1) / (double)ranks /
                    (0.9 * nic_bytes_per_s * (double)cases[i].inside * cases[i].bandwidth_fraction);
        }
        const double got_us = 1e6 * (less_wire_s[1] - less_wire_s[0]) / 256;
        if (fabs(got_us - cases[i].want_us) > 0.01)
            fail_msg("case %zu: got %.9g us a node, want %.9g", i, got_us, cases[i].want_us);
        arena_destroy(arena);
    }
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_latency_beyond_the_tables),
        cmocka_unit_test(test_without_nvls),
        cmocka_unit_test(test_moving_ignores_the_node),
        cmocka_unit_test(test_links_carry_all_ranks),
        cmocka_unit_test(test_fabrics),
        cmocka_unit_test(test_across_published),
        cmocka_unit_test(test_two_nodes_before_hopper),
        cmocka_unit_test(test_ring_passes_every_rank),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
