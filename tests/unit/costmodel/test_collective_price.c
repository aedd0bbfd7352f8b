/* test_collective_price.c - what a node's size changes of a collective, and what it does not. */
#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>
#include "costmodel/cost_model.h"
#include "costmodel/efficiency.h"

#define HARDWARE BALLAST_SOURCE_DIR "/scenarios/hardware/"

static const struct cost_model *model_on(struct arena *arena, const char *file, int64_t node) {
    const struct cluster_network network = { .gpus_per_node = node,
                                             .nic_bytes_per_s_per_gpu = 50e9,
                                             .nic_latency_s = 10e-6 };
    struct error err = { 0 };
    const struct cost_model *model =
        cost_model_create(arena, BALLAST_SOURCE_DIR "/scenarios", file, &network, &err);
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
    const struct cost_model *model = cost_model_create(
        arena, BALLAST_SOURCE_DIR "/scenarios", HARDWARE "h100-80g-sxm.json", &network, &err);
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

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_latency_beyond_the_tables),
        cmocka_unit_test(test_moving_ignores_the_node),
        cmocka_unit_test(test_links_carry_all_ranks),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
