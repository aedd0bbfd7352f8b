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

/* `count` ranks, `stride` apart, the first on rank 0. */
static struct communicator strided_group(const struct layout *layout, int64_t count,
                                         int64_t stride) {
    assert(count >= 1 && stride >= 1);
    int64_t node = layout->gpus_per_node;
    int64_t per_node = stride >= node ? 1 : (node + stride - 1) / stride;
    if (per_node > count) per_node = count;
    int64_t last_node = (count - 1) * stride / node;
    bool crosses = last_node > 0;
    int64_t nodes = stride >= node ? count : last_node + 1;
    /* All ranks of a node take part in some group of the kind at the same time. */
    int64_t beside =
        crosses ? (node < layout_rank_count(layout) ? node : layout_rank_count(layout)) / per_node
                : 1;
    return (struct communicator){
        .rank_count = count,
        .node_count = crosses ? nodes : 1,
        .ranks_per_node = per_node,
        .groups_per_node = beside > 0 ? beside : 1,
    };
}

struct communicator layout_communicator(const struct layout *layout, enum communicator_kind kind) {
    switch (kind) {
    case COMMUNICATOR_TENSOR:
        return strided_group(layout, layout->tp, 1);
    case COMMUNICATOR_CONTEXT:
        return strided_group(layout, layout->cp, layout->tp);
    case COMMUNICATOR_DATA:
        return strided_group(layout, layout->dp, layout->tp * layout->cp);
    case COMMUNICATOR_PIPELINE:
        return layout_stage_link(layout, 0);
    case COMMUNICATOR_NONE:
    case COMMUNICATOR_KIND_COUNT:
        break;
    }
    return (struct communicator){ 1, 1, 1, 1 };
}

struct communicator layout_stage_link(const struct layout *layout, int64_t stage) {
    struct communicator link = { 1, 1, 1, 1 };
    if (layout->pp < 2) return link;
    if (stage > layout->pp - 2) stage = layout->pp - 2;
    int64_t from = layout_rank(layout, stage, 0, 0, 0),
            to = layout_rank(layout, stage + 1, 0, 0, 0);
    bool crosses = from / layout->gpus_per_node != to / layout->gpus_per_node;
    link.rank_count = 2;
    link.node_count = crosses ? 2 : 1;
    link.ranks_per_node = crosses ? 1 : 2;
    int64_t stage_ranks = layout->tp * layout->cp * layout->dp;
    if (crosses)
        link.groups_per_node =
            stage_ranks < layout->gpus_per_node ? stage_ranks : layout->gpus_per_node;
    return link;
}
