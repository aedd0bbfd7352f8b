/* test_layout.c - rank numbers and communicators, against cases worked out by hand and against
 * counting every rank. */
#include <stdarg.h>
#include <setjmp.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>

#include <stdio.h>
#include <stdlib.h>
#include "sim/layout/layout.h"

static struct layout make(int64_t tp, int64_t cp, int64_t dp, int64_t pp, int64_t gpus_per_node) {
    return (
        struct layout){ .tp = tp, .cp = cp, .dp = dp, .pp = pp, .gpus_per_node = gpus_per_node };
}

static void test_rank_numbers(void **state) {
    (void)state;
    struct layout l = make(2, 3, 4, 5, 8);
    assert_int_equal(layout_rank_count(&l), 120);
    int64_t next = 0; /* tensor runs fastest, then context, data, pipeline */
    for (int64_t stage = 0; stage < l.pp; stage++)
        for (int64_t data = 0; data < l.dp; data++)
            for (int64_t context = 0; context < l.cp; context++)
                for (int64_t tensor = 0; tensor < l.tp; tensor++)
                    assert_int_equal(layout_rank(&l, stage, data, context, tensor), next++);
    assert_int_equal(next, 120);
}

static void check(const char *name, const char *what, struct communicator got,
                  struct communicator want) {
    if (got.rank_count != want.rank_count || got.node_count != want.node_count ||
        got.ranks_per_node != want.ranks_per_node || got.groups_per_node != want.groups_per_node)
        fail_msg("%s: %s: got %ld ranks on %ld nodes, %ld per node, %ld groups per node; want %ld, "
                 "%ld, %ld, %ld",
                 name, what, (long)got.rank_count, (long)got.node_count, (long)got.ranks_per_node,
                 (long)got.groups_per_node, (long)want.rank_count, (long)want.node_count,
                 (long)want.ranks_per_node, (long)want.groups_per_node);
}

/* Four of eight context ranks, neighbours, exchange heads; the ring goes from node to node. */
static void test_head_groups(void **state) {
    (void)state;
    struct layout l = make(2, 8, 1, 1, 8);
    l.cp_heads = 4;
    check("cp 8", "all", layout_communicator(&l, COMMUNICATOR_CONTEXT),
          (struct communicator){ 8, 2, 4, 2 });
    check("cp 8", "heads", layout_communicator(&l, COMMUNICATOR_CONTEXT_HEADS),
          (struct communicator){ 4, 1, 4, 2 });
    check("cp 8", "ring", layout_communicator(&l, COMMUNICATOR_CONTEXT_RING),
          (struct communicator){ 2, 2, 1, 8 });
    l.cp_heads = 0; /* nobody: a ring of all */
    check("no heads", "heads", layout_communicator(&l, COMMUNICATOR_CONTEXT_HEADS),
          (struct communicator){ 1, 1, 1, 1 });
    check("no heads", "ring", layout_communicator(&l, COMMUNICATOR_CONTEXT_RING),
          layout_communicator(&l, COMMUNICATOR_CONTEXT));
}

static void test_communicators(void **state) {
    (void)state;
    /* ranks, nodes, ranks per node, groups per node */
    static const struct {
        const char *name;
        int64_t tp, dp, pp, gpus_per_node;
        struct communicator tensor, data, link;
    } cases[] = {
        { "one GPU", 1, 1, 1, 8, { 1, 1, 1, 1 }, { 1, 1, 1, 1 }, { 1, 1, 1, 1 } },
        { "32 GPUs, a stage is a node",
          2,
          4,
          4,
          8,
          { 2, 1, 2, 1 },
          { 4, 1, 4, 2 }, /* two groups from one half of a node to the other */
          { 2, 2, 1, 8 } },
        { "8 GPUs, the pipeline in a node",
          2,
          1,
          4,
          8,
          { 2, 1, 2, 1 },
          { 1, 1, 1, 1 },
          { 2, 1, 2, 1 } },
        { "8 GPUs, two stages in a node",
          2,
          2,
          2,
          8,
          { 2, 1, 2, 1 },
          { 2, 1, 2, 1 },
          { 2, 1, 2, 1 } },
        { "16 GPUs, two nodes of data",
          1,
          16,
          1,
          8,
          { 1, 1, 1, 1 },
          { 16, 2, 8, 1 },
          { 1, 1, 1, 1 } },
        { "16 GPUs, data across nodes",
          8,
          2,
          1,
          8,
          { 8, 1, 8, 1 },
          { 2, 2, 1, 8 },
          { 1, 1, 1, 1 } },
        { "16 GPUs, one TP group", 16, 1, 1, 8, { 16, 2, 8, 1 }, { 1, 1, 1, 1 }, { 1, 1, 1, 1 } },
        { "64 GPUs", 4, 4, 4, 8, { 4, 1, 4, 1 }, { 4, 2, 2, 4 }, { 2, 2, 1, 8 } },
        { "64 GPUs, no pipeline", 2, 32, 1, 8, { 2, 1, 2, 1 }, { 32, 8, 4, 2 }, { 1, 1, 1, 1 } },
        { "128 GPUs, TP a node", 8, 4, 4, 8, { 8, 1, 8, 1 }, { 4, 4, 1, 8 }, { 2, 2, 1, 8 } },
        { "256 GPUs", 2, 32, 4, 8, { 2, 1, 2, 1 }, { 32, 8, 4, 2 }, { 2, 2, 1, 8 } },
        { "512 GPUs", 2, 64, 4, 8, { 2, 1, 2, 1 }, { 64, 16, 4, 2 }, { 2, 2, 1, 8 } },
        { "512 GPUs, TP a node", 8, 8, 8, 8, { 8, 1, 8, 1 }, { 8, 8, 1, 8 }, { 2, 2, 1, 8 } },
        { "nodes of one GPU", 1, 4, 2, 1, { 1, 1, 1, 1 }, { 4, 4, 1, 1 }, { 2, 2, 1, 1 } },
        /* Stages of 6 ranks on nodes of 8: ranks 2 to 5 of stage 0 send to the next node; stages 1
         * and 2 lie on two nodes each and share the NICs of node 1. */
        { "24 GPUs, stages across node borders",
          1,
          6,
          4,
          8,
          { 1, 1, 1, 1 },
          { 6, 2, 4, 2 },
          { 2, 2, 1, 4 } },
    };
    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
        struct layout l = make(cases[i].tp, 1, cases[i].dp, cases[i].pp, cases[i].gpus_per_node);
        check(cases[i].name, "tensor", layout_communicator(&l, COMMUNICATOR_TENSOR),
              cases[i].tensor);
        check(cases[i].name, "data", layout_communicator(&l, COMMUNICATOR_DATA), cases[i].data);
        check(cases[i].name, "link", layout_stage_link(&l, 0), cases[i].link);
        check(cases[i].name, "pipeline", layout_communicator(&l, COMMUNICATOR_PIPELINE),
              cases[i].link);
        check(cases[i].name, "none", layout_communicator(&l, COMMUNICATOR_NONE),
              (struct communicator){ 1, 1, 1, 1 });
    }
}

/* 16 GPUs, four stages of 4 ranks: the pipeline crosses a border once, with 4 ranks. */
static void test_links_differ_by_stage(void **state) {
    (void)state;
    struct layout l = make(2, 1, 2, 4, 8);
    check("stage 0", "link", layout_stage_link(&l, 0), (struct communicator){ 2, 1, 2, 1 });
    check("stage 1", "link", layout_stage_link(&l, 1), (struct communicator){ 2, 2, 1, 4 });
    check("stage 2", "link", layout_stage_link(&l, 2), (struct communicator){ 2, 1, 2, 1 });
    /* Interleaved chunks go on from the last stage to the first. */
    check("the last", "link", layout_stage_link(&l, 3), (struct communicator){ 2, 2, 1, 4 });
}

/* ---- counting ---- */

enum { RANK_LIMIT = 1024 };

/* Group of a rank among those of the kind: (block, offset). */
static int64_t group_of(int64_t rank, int64_t count, int64_t stride) {
    return rank / (count * stride) * stride + rank % stride;
}

/* The widest group (of equal ones the first) and what stands beside it, by looking at each rank. */
static struct communicator counted(const struct layout *l, int64_t count, int64_t stride) {
    int64_t ranks = layout_rank_count(l), node = l->gpus_per_node, groups = ranks / count;
    int64_t nodes = (ranks + node - 1) / node;
    static int64_t on[RANK_LIMIT][RANK_LIMIT]; /* ranks of a group on a node */
    for (int64_t g = 0; g < groups; g++)
        for (int64_t n = 0; n < nodes; n++)
            on[g][n] = 0;
    for (int64_t rank = 0; rank < ranks; rank++)
        on[group_of(rank, count, stride)][rank / node]++;
    struct communicator widest = { count, 1, count, 1 };
    for (int64_t g = 0; g < groups; g++) {
        int64_t spans = 0, fullest = 0, beside = 0;
        for (int64_t n = 0; n < nodes; n++) {
            if (on[g][n] == 0) continue;
            spans++;
            if (on[g][n] > fullest) fullest = on[g][n];
            int64_t through = 0;
            for (int64_t other = 0; other < groups; other++)
                through += on[other][n] > 0 && on[other][n] < count;
            if (through > beside) beside = through;
        }
        if (spans > widest.node_count)
            widest = (struct communicator){ count, spans, fullest, beside };
    }
    if (widest.node_count > 1 || node % 2 != 0) return widest;
    int64_t across = 0;
    for (int64_t g = 0; g < groups; g++) {
        int64_t low = 0;
        for (int64_t rank = 0; rank < node / 2 && rank < ranks; rank++)
            low += group_of(rank, count, stride) == g;
        across += low > 0 && low < count;
    }
    if (across > 1) widest.groups_per_node = across;
    return widest;
}

static void test_communicators_as_counted(void **state) {
    (void)state;
    static const int64_t nodes[] = { 1, 2, 4, 6, 8, 16 };
    int64_t compared = 0;
    for (size_t n = 0; n < sizeof nodes / sizeof nodes[0]; n++)
        for (int64_t tp = 1; tp <= 16; tp++)
            for (int64_t dp = 1; dp <= 12; dp++)
                for (int64_t pp = 1; pp <= 5; pp++) {
                    int64_t node = nodes[n];
                    if (tp > node ? tp % node != 0 : node % tp != 0) continue;
                    if (tp * dp * pp > node && tp * dp * pp % node != 0) continue;
                    struct layout l = make(tp, 1, dp, pp, node);
                    char name[96];
                    snprintf(name, sizeof name, "tp %ld dp %ld pp %ld on nodes of %ld", (long)tp,
                             (long)dp, (long)pp, (long)node);
                    check(name, "tensor", layout_communicator(&l, COMMUNICATOR_TENSOR),
                          counted(&l, tp, 1));
                    check(name, "data", layout_communicator(&l, COMMUNICATOR_DATA),
                          counted(&l, dp, tp));
                    compared++;
                }
    assert_true(compared > 500);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_rank_numbers),
        cmocka_unit_test(test_communicators),
        cmocka_unit_test(test_head_groups),
        cmocka_unit_test(test_links_differ_by_stage),
        cmocka_unit_test(test_communicators_as_counted),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
