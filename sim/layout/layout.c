/* layout.c - the arithmetic of rank numbering. */
#include "sim/layout/layout.h"

#include <assert.h>

int64_t layout_rank_count(const struct layout *layout) {
    return layout->tp * layout->cp * layout->dp * layout->pp;
}

int64_t layout_rank(const struct layout *layout, int64_t stage, int64_t data, int64_t context,
                    int64_t tensor) {
    return ((stage * layout->dp + data) * layout->cp + context) * layout->tp + tensor;
}

/* How many groups of a kind use the NICs of node `node_index`. Groups of one kind fill blocks of
 * count x stride ranks; a block inside one node needs no NIC. */
static int64_t groups_through_node(const struct layout *layout, int64_t count, int64_t stride,
                                   int64_t node_index) {
    int64_t node = layout->gpus_per_node, block_ranks = count * stride;
    int64_t begin = node_index * node, end = begin + node, groups = 0;
    if (end > layout_rank_count(layout)) end = layout_rank_count(layout);
    for (int64_t block = begin / block_ranks; block * block_ranks < end; block++) {
        int64_t first = block * block_ranks, last = first + block_ranks - 1;
        if (first / node == last / node) continue;
        int64_t here = (last < end ? last + 1 : end) - (first > begin ? first : begin);
        groups += here < stride ? here : stride;
    }
    return groups;
}

/* How many groups have ranks on both halves of a node's GPUs. They are of one block. */
static int64_t groups_across_halves(const struct layout *layout, int64_t count, int64_t stride) {
    const int64_t node = layout->gpus_per_node, middle = node / 2, block_ranks = count * stride;
    if (node % 2 != 0) return 0;
    int64_t first = (middle - 1) / block_ranks * block_ranks, groups = 0;
    if (first + block_ranks > layout_rank_count(layout)) return 0;
    for (int64_t end = first + stride; first < end && first < middle; first++)
        groups += first + (count - 1) * stride >= middle;
    return groups;
}

/* The group of `count` ranks, `stride` apart, that spans the most nodes. Where nodes and groups do
 * not divide each other (6 data-parallel ranks on nodes of 8) groups differ, and the widest sets
 * the pace; after node-many blocks the pattern repeats. */
static struct communicator widest_group(const struct layout *layout, int64_t count,
                                        int64_t stride) {
    assert(count >= 1 && stride >= 1);
    int64_t node = layout->gpus_per_node, block_ranks = count * stride;
    int64_t blocks = layout_rank_count(layout) / block_ranks;
    struct communicator widest = { count, 1, count, 1 };
    for (int64_t block = 0; block < blocks && block < node; block++) {
        int64_t first = block * block_ranks, last = first + (count - 1) * stride;
        int64_t nodes = stride >= node ? count : last / node - first / node + 1;
        if (nodes <= widest.node_count) continue;
        int64_t beside = 0;
        widest.node_count = nodes;
        widest.ranks_per_node = 1;
        for (int64_t rank = 0; rank < count;) {
            int64_t at = first + rank * stride, node_index = at / node;
            int64_t here = ((node_index + 1) * node - at + stride - 1) / stride;
            if (here > count - rank) here = count - rank;
            if (here > widest.ranks_per_node) widest.ranks_per_node = here;
            int64_t through = groups_through_node(layout, count, stride, node_index);
            if (through > beside) beside = through;
            rank += here;
        }
        widest.groups_per_node = beside;
    }
    if (widest.node_count == 1) {
        const int64_t across = groups_across_halves(layout, count, stride);
        if (across > 1) widest.groups_per_node = across;
    }
    return widest;
}

static int64_t head_ranks(const struct layout *layout) {
    return layout->cp_heads > 1 ? layout->cp_heads : 1;
}

struct communicator layout_communicator(const struct layout *layout, enum communicator_kind kind) {
    switch (kind) {
    case COMMUNICATOR_TENSOR:
        return widest_group(layout, layout->tp, 1);
    case COMMUNICATOR_CONTEXT:
        return widest_group(layout, layout->cp, layout->tp);
    case COMMUNICATOR_CONTEXT_HEADS:
        return widest_group(layout, head_ranks(layout), layout->tp);
    case COMMUNICATOR_CONTEXT_RING:
        return widest_group(layout, layout->cp / head_ranks(layout),
                            layout->tp * head_ranks(layout));
    case COMMUNICATOR_DATA:
        return widest_group(layout, layout->dp * layout->cp,
                            layout->tp); /* CP ranks hold the same parameters */
    case COMMUNICATOR_PIPELINE:
        return layout_stage_link(layout, 0);
    case COMMUNICATOR_NONE:
    case COMMUNICATOR_KIND_COUNT:
        break;
    }
    return (struct communicator){ 1, 1, 1, 1 };
}

struct communicator layout_shard_group(const struct layout *layout) {
    return widest_group(layout, layout->zero_group, layout->tp);
}

struct communicator layout_replica_group(const struct layout *layout) {
    int64_t ranks = layout->dp * layout->cp;
    return widest_group(layout, ranks / layout->zero_group, layout->tp * layout->zero_group);
}

struct communicator layout_stage_link(const struct layout *layout, int64_t stage) {
    struct communicator link = { 1, 1, 1, 1 };
    if (layout->pp < 2) return link;
    bool wraps = stage == layout->pp - 1; /* back to the first stage, for its next chunk */
    int64_t node = layout->gpus_per_node, stage_ranks = layout->tp * layout->cp * layout->dp;
    int64_t fullest = 0; /* most ranks of one node that send to another */
    for (int64_t i = 0, here = 0; i < stage_ranks && fullest < node; i++) {
        int64_t from = stage * stage_ranks + i;
        if (from % node == 0) here = 0;
        int64_t to = wraps ? i : from + stage_ranks;
        here += from / node != to / node;
        if (here > fullest) fullest = here;
    }
    bool crosses = fullest > 0;
    link.rank_count = 2;
    link.node_count = crosses ? 2 : 1;
    link.ranks_per_node = crosses ? 1 : 2;
    if (crosses) link.groups_per_node = fullest;
    return link;
}
