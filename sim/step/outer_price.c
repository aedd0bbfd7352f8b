/* outer_price.c - operators outside of the layers: one price each, and the list of them. */
#include "sim/step/outer_price.h"

#include <math.h>

#include "sim/base/units.h"

/* Every price outside of the layers comes from here; written down when somebody listens. */
int64_t outer_ns(const struct step_model *m, struct outer_call call,
                 const struct operator_work *work, const struct communicator *group) {
    struct price price = cost_model_price(m->scenario->cost_model, work, group);
    int64_t ns = ns_from_price(price.seconds);
    if (call.factor != 1) ns = llround(call.factor * (double)ns);
    if (m->record != NULL) {
        price.seconds = seconds_from_ns(ns);
        outer_list_add(m->record, &(struct outer_operator){ call.purpose, *work, *group, price,
                                                            call.stage, call.calls });
    }
    return ns;
}

int64_t outer_collective_ns(const struct step_model *m, struct outer_call call,
                            enum operator_kind kind, double bytes,
                            const struct communicator *group) {
    if (bytes <= 0 || group->rank_count < 2) return 0;
    struct operator_work work =
        operator_collective("data parallel", kind, PASS_UPDATE, COMMUNICATOR_DATA, bytes);
    return outer_ns(m, call, &work, group);
}

int64_t outer_shards_reduction_ns(const struct step_model *m, struct outer_call call,
                                  double bytes) {
    const struct communicator shards = layout_shard_group(&m->scenario->layout);
    return outer_collective_ns(m, call, OPERATOR_REDUCE_SCATTER, bytes, &shards);
}

int64_t outer_replicas_reduction_ns(const struct step_model *m, struct outer_call call,
                                    double bytes) {
    const struct layout *layout = &m->scenario->layout;
    const struct communicator replicas = layout_replica_group(layout);
    return outer_collective_ns(m, call, OPERATOR_ALL_REDUCE, bytes / (double)layout->zero_group,
                               &replicas);
}

bool outer_gathers_head(const struct step_model *m) {
    return m->scenario->backend->step.chunk_gathers && m->scenario->layout.zero_stage == 3 &&
           m->kind_layers[LAYER_HEAD] > 0;
}

int64_t outer_head_gather_ns(const struct step_model *m, double calls) {
    if (!outer_gathers_head(m)) return 0;
    const struct scenario *s = m->scenario;
    const struct module *language = &s->model->modules[MODULE_LANGUAGE];
    const struct communicator shards = layout_shard_group(&s->layout);
    const double weights = (double)price_table_parameters(m->prices, LAYER_HEAD)->own;
    return outer_collective_ns(m, (struct outer_call){ OUTER_REDUCTION, 0, calls, 1 },
                               OPERATOR_ALL_GATHER, weights * precision_bytes(language->precision),
                               &shards);
}

struct moving {
    double whole_s, moving_s;
};

/* Unrecorded, because nothing takes this time. */
static void add_moving(const struct step_model *m, enum operator_kind kind, double bytes,
                       const struct communicator *group, struct moving *sum) {
    if (bytes <= 0 || group->rank_count < 2) return;
    const struct cost_model *model = m->scenario->cost_model;
    const struct operator_work work =
        operator_collective("data parallel", kind, PASS_UPDATE, COMMUNICATOR_DATA, bytes);
    sum->whole_s += cost_model_price(model, &work, group).seconds;
    sum->moving_s += cost_model_moving_s(model, &work, group);
}

static double moving_share(const struct moving *sum) {
    return sum->whole_s > 0 ? sum->moving_s / sum->whole_s : 1;
}

double outer_gather_moving(const struct step_model *m, double bytes) {
    const struct communicator shards = layout_shard_group(&m->scenario->layout);
    struct moving sum = { 0 };
    add_moving(m, OPERATOR_ALL_GATHER, bytes, &shards, &sum);
    return moving_share(&sum);
}

double outer_all_reduce_moving(const struct step_model *m, double bytes,
                               const struct communicator *group) {
    struct moving sum = { 0 };
    add_moving(m, OPERATOR_ALL_REDUCE, bytes, group, &sum);
    return moving_share(&sum);
}

double outer_reduce_moving(const struct step_model *m, double bytes) {
    const struct layout *layout = &m->scenario->layout;
    const struct communicator shards = layout_shard_group(layout),
                              replicas = layout_replica_group(layout);
    struct moving sum = { 0 };
    add_moving(m, OPERATOR_REDUCE_SCATTER, bytes, &shards, &sum);
    add_moving(m, OPERATOR_ALL_REDUCE, bytes / (double)layout->zero_group, &replicas, &sum);
    return moving_share(&sum);
}

/* Whole steps of those tests take other hosts 1.45 to 1.74 times as long (docs/MODEL.md, section 9a). */
#define HOST_STEP_BAND 0.5

/* Of a start that nobody measured: as collectives that were derived (costmodel/efficiency.c). */
#define BROADCAST_BAND 0.25

/* NCCL's broadcast is a ring through all ranks, at the rate of all NICs. It begins 14 us late; from
 * rank to rank in a node its first bytes take 1.9 us (src/graph/tuning.cc, hwLat and baseLat), and
 * from node to node one slice of 512 KiB, an eighth of NCCL_BUFFSIZE, is sent whole by one NIC. */
enum { BROADCAST_SLICE_BYTES = 512 * 1024 };

static double broadcast_start_ns(const struct step_model *m, const struct communicator *group) {
    const struct communicator pair = { 2, 2, 1, 1 };
    struct operator_work slice = operator_collective("broadcast slice", OPERATOR_SEND, PASS_UPDATE,
                                                     COMMUNICATOR_DATA, BROADCAST_SLICE_BYTES);
    const double hop = cost_model_price(m->scenario->cost_model, &slice, &pair).seconds * NS_PER_S;
    return 14e3 + 1.9e3 * (double)(group->rank_count - group->node_count) +
           hop * (double)group->node_count;
}

/* Whole tensors are dealt to owners: the matrices and norms of the stage's layers. */
static int64_t owner_count(const struct step_model *m, int64_t stage, int64_t rank_count) {
    const struct model *model = m->scenario->model;
    int64_t tensors = 0;
    for (int64_t part = stage; part < m->part_count; part += m->stage_count)
        for (int64_t i = m->plan->first_layer[part]; i < m->plan->first_layer[part + 1]; i++) {
            const struct layer *layer = &model->layers[i];
            /* qkv, projection, up, down and two norms; a gate beside up */
            const bool gated = model->modules[layer->module_index].ffn == FFN_SWIGLU;
            const int64_t streams = layer->kind == LAYER_JOINT_BLOCK ? 2 : 1;
            tensors += !layer_kind_is_block(layer->kind) ? 1 : streams * (gated ? 7 : 6);
        }
    return tensors < rank_count ? tensors : rank_count;
}

/* ZeRO-1: the updated parameters come back in one all-gather, or each owner broadcasts its share,
 * one after another: the same bytes cross, and each fills a ring anew. */
int64_t outer_gather_ns(const struct step_model *m, int64_t stage, double bytes,
                        const struct communicator *group) {
    const struct backend *backend = m->scenario->backend;
    const struct outer_call call = { OUTER_UPDATE, stage, 1, backend->step.gather_time };
    const int64_t gathered_ns = outer_collective_ns(m, call, OPERATOR_ALL_GATHER, bytes, group);
    if (!backend->step.owner_broadcasts || group->node_count < 2) return gathered_ns;
    const double start = broadcast_start_ns(m, group),
                 owners = (double)owner_count(m, stage, group->rank_count);
    const int64_t starts = llround(backend->step.gather_time * owners * start);
    if (m->record != NULL) {
        struct operator_work work = operator_collective("broadcast start", OPERATOR_SEND,
                                                        PASS_UPDATE, COMMUNICATOR_DATA, 0);
        struct price price = { .seconds = (double)starts / owners / NS_PER_S,
                               .band_fraction = BROADCAST_BAND,
                               .bound = PRICE_NETWORK,
                               .source = "NCCL src/graph/tuning.cc: latency of a ring" };
        outer_list_add(m->record, &(struct outer_operator){ OUTER_UPDATE, work, *group, price,
                                                            stage, owners });
    }
    return starts + gathered_ns;
}

int64_t outer_moved_ns(const struct step_model *m, struct outer_call call, enum operator_pass pass,
                       const char *name, double bytes) {
    const struct communicator alone = { 1, 1, 1, 1 };
    if (bytes <= 0) return 0;
    struct operator_work work =
        operator_streaming(name, OPERATOR_ELEMENTWISE, pass, PRECISION_FP32, bytes);
    work.form = FORM_STATED;
    return outer_ns(m, call, &work, &alone);
}

int64_t outer_host_ns(const struct step_model *m, int64_t stage) {
    const double seconds = m->scenario->backend->step.host_step_s;
    if (m->record != NULL && seconds > 0) {
        const struct communicator alone = { 1, 1, 1, 1 };
        struct operator_work work = operator_streaming("host between steps", OPERATOR_OPTIMIZER,
                                                       PASS_UPDATE, PRECISION_FP32, 0);
        struct price price = { .seconds = seconds,
                               .launch_s = seconds,
                               .band_fraction = HOST_STEP_BAND,
                               .bound = PRICE_LAUNCH,
                               .inside_range = true,
                               .source = "host time of the stack (host_step_us)" };
        outer_list_add(m->record,
                       &(struct outer_operator){ OUTER_UPDATE, work, alone, price, stage, 1 });
    }
    return llround(seconds * NS_PER_S);
}

struct outer_lists outer_block_lists(const struct step_model *m, int64_t layer_index) {
    const struct scenario *s = m->scenario;
    const struct module *module = &s->model->modules[s->model->layers[layer_index].module_index];
    const double list_ns = s->backend->step.shard_list_s * NS_PER_S * (double)s->layout.zero_group;
    if (!(list_ns > 0) || s->layout.zero_stage < 3 || s->layout.zero_group < 2)
        return (struct outer_lists){ 0 };
    /* qkv, projection, up, down, and a gate; their biases, two norms with a shift or without */
    const double matrices = module->ffn == FFN_SWIGLU ? 5 : 4,
                 norms = module->norm == NORM_LAYER ? 4 : 2,
                 vectors = norms + (module->linear_bias ? matrices : 0);
    /* A recomputing block fetches all again, and keeps its last matrix for the backward. */
    const bool recomputes = m->plan->recompute[layer_index] == RECOMPUTE_FULL;
    const enum layer_kind kind = s->model->layers[layer_index].kind;
    const bool trained = price_table_need(m->prices, kind).weight;
    return (struct outer_lists){
        .forward_ns = llround(matrices * list_ns),
        .backward_ns = llround((recomputes ? 2 * matrices - 1 : matrices) * list_ns),
        .reduce_ns = trained ? llround((matrices + vectors) * list_ns) : 0,
        .update_ns = trained ? llround(vectors * list_ns) : 0,
    };
}
