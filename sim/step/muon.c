/* muon.c - Muon's update (Jordan et al. 2024, kellerjordan.github.io/posts/muon).
 *
 * Of a matrix X of a rows and b columns, m = min(a, b), n = max(a, b), five times in bf16:
 *
 *     A = X X^T            2 m m n FLOP
 *     B = b A + c A A      2 m m m
 *     X = a X + B X        2 m m n
 *
 * Sources: karpathy/nanochat nanochat/muon.py (23c5171) and optim.py (0e4b3fa), KellerJordan/Muon,
 * pytorch/pytorch torch/optim/_muon.py (098e03f). Matrices of one shape are dealt out to the ranks,
 * so that the slowest has count / ranks of them, rounded up, and their collectives are filled up to
 * that (DistMuon, _reduce_muon). Sharded ones come whole to their owner and go back in bf16
 * (pytorch/torchtitan experiments/dion_optimizer/muon.py, 175ea57). Under TP each rank orthogonalises
 * its own part (blockwise). Not modelled: kernels that compute half of a symmetric product; products
 * of several matrices in one call.
 */
#include "sim/step/muon.h"

#include <math.h>
#include <string.h>

#include "sim/model/layer_division.h"
#include "sim/step/outer_price.h"
#include "sim/step/static_memory.h"

enum { ITERATIONS = 5, PRODUCTS = 3 };

static bool is_muon(const struct step_model *m) {
    return m->scenario->optimizer->orthogonalises;
}

static bool is_megatron(const struct step_model *m) {
    return strncmp(m->scenario->backend->name, "megatron", 8) == 0;
}

static void add_shape(struct muon_stage *muon, int64_t rows, int64_t columns, int64_t count) {
    int64_t i = 0;
    while (i < muon->shape_count &&
           (muon->shapes[i].rows != rows || muon->shapes[i].columns != columns))
        i++;
    ballast_check(i < MUON_SHAPE_LIMIT);
    if (i == muon->shape_count) muon->shapes[muon->shape_count++] = (struct muon_shape){ 0 };
    muon->shapes[i].rows = rows;
    muon->shapes[i].columns = columns;
    muon->shapes[i].count += count;
}

/* q, k and v apart: as PyTorch's models have them, and Megatron-core takes its one weight to pieces
 * (muon_split_qkv); gate and up are one weight of Megatron's alone (linear_fc1). */
static void add_block(const struct step_model *m, int64_t layer, struct muon_stage *muon) {
    const struct layer_division d =
        layer_division_weights(m->scenario->model, layer, m->scenario->layout.tp);
    const int64_t hidden = d.module->hidden, streams = d.kind == LAYER_JOINT_BLOCK ? 2 : 1,
                  ups = is_megatron(m) ? 1 : layer_division_up_products(&d);
    add_shape(muon, d.query_width, hidden, streams);
    add_shape(muon, d.kv_width, hidden, 2 * streams);
    add_shape(muon, hidden, d.query_width, streams);
    add_shape(muon, d.up_width / ups, hidden, ups * streams);
    add_shape(muon, hidden, d.ffn_width, streams);
}

static int64_t owner_ranks(const struct step_model *m) {
    const struct layout *layout = &m->scenario->layout;
    if (layout->zero_stage >= 1) return layout->zero_group;
    const bool whole = m->scenario->backend->step.muon_whole || is_megatron(m);
    return whole ? 1 : layout->dp * layout->cp;
}

static int64_t owned_count(const struct muon_stage *muon, const struct muon_shape *shape) {
    return divide_up(shape->count, muon->owners);
}

static double shape_parameters(const struct muon_shape *shape) {
    return (double)shape->rows * (double)shape->columns;
}

void muon_stage_fill(const struct step_model *m, int64_t stage, struct muon_stage *muon) {
    *muon = (struct muon_stage){ .owners = 1 };
    if (!is_muon(m)) return;
    const struct model *model = m->scenario->model;
    muon->owners = owner_ranks(m);
    for (int64_t part = stage; part < m->part_count; part += m->stage_count)
        for (int64_t i = m->plan->first_layer[part]; i < m->plan->first_layer[part + 1]; i++)
            if (layer_kind_is_block(model->layers[i].kind) && step_layer_need(m, i).weight)
                add_block(m, i, muon);
    for (int64_t i = 0; i < muon->shape_count; i++) {
        const struct muon_shape *shape = &muon->shapes[i];
        muon->parameters += (double)shape->count * shape_parameters(shape);
        muon->owned += (double)owned_count(muon, shape) * shape_parameters(shape);
    }
    muon->padded = muon->owned * (double)muon->owners;
}

/* Tensor cores of before Ampere have no bf16. */
static enum precision product_precision(const struct step_model *m) {
    return cost_model_gpu(m->scenario->cost_model)->peak_flop_per_s[PRECISION_BF16] > 0
               ? PRECISION_BF16
               : PRECISION_FP16;
}

static int64_t products_ns(const struct step_model *m, int64_t stage,
                           const struct muon_shape *shape, int64_t owned) {
    const struct communicator alone = { 1, 1, 1, 1 };
    const int64_t least = shape->rows < shape->columns ? shape->rows : shape->columns,
                  most = shape->rows < shape->columns ? shape->columns : shape->rows;
    const struct {
        const char *name;
        int64_t n, k;
    } products[PRODUCTS] = { { "muon X X^T", least, most },
                             { "muon A A", least, least },
                             { "muon B X", most, least } };
    const double calls = (double)(ITERATIONS * owned);
    const struct outer_call call = { OUTER_UPDATE, stage, calls, 1 };
    int64_t ns = 0;
    for (int i = 0; i < PRODUCTS; i++) {
        const struct operator_work work =
            operator_matmul(products[i].name, PASS_UPDATE, product_precision(m), least,
                            products[i].n, products[i].k);
        ns += llround(calls * (double)outer_ns(m, call, &work, &alone));
    }
    return ns;
}

static int64_t stream_ns(const struct step_model *m, int64_t stage, const char *name,
                         double bytes) {
    return outer_moved_ns(m, (struct outer_call){ OUTER_UPDATE, stage, 1, 1 }, PASS_UPDATE, name,
                          bytes);
}

/* Around the products, compiled: c A (4 bytes a value of m x m), b A + . (6), a X + . (6 of
 * m x n). */
static double iteration_bytes(const struct muon_stage *muon) {
    double bytes = 0;
    for (int64_t i = 0; i < muon->shape_count; i++) {
        const struct muon_shape *shape = &muon->shapes[i];
        const double least = (double)(shape->rows < shape->columns ? shape->rows : shape->columns);
        bytes +=
            (double)owned_count(muon, shape) * (10 * least * least + 6 * shape_parameters(shape));
    }
    return ITERATIONS * bytes;
}

/* Bytes a parameter of one fused AdamW, of which norm, clipping and casts are what a stack's are
 * more. */
enum { FUSED_ADAMW_BYTES = 28 };

/* Momentum and Nesterov's sum (lerp_ twice, 12 each), cast and norm (4 + 6), the weight (10); where
 * weights and momentum are bf16 6 + 6, 2 + 4, 6. And what the stack's optimizer has around AdamW's
 * kernel, in fp32. */
static double parameter_bytes(const struct step_model *m) {
    const struct scenario *s = m->scenario;
    const double traffic = s->stack != NULL ? s->stack->optimizer_traffic : 1,
                 usual = s->optimizer->update_bytes_moved * traffic,
                 around = fmax(usual - FUSED_ADAMW_BYTES, 0);
    return s->backend->no_master_weights ? 24 : 44 + around;
}

/* Sharded matrices come to their owner and go back, in bf16. */
static int64_t exchange_ns(const struct step_model *m, int64_t stage,
                           const struct muon_stage *muon) {
    const struct communicator shards = layout_shard_group(&m->scenario->layout);
    const struct outer_call twice = { OUTER_UPDATE, stage, 2, 1 };
    return 2 * outer_collective_ns(m, twice, OPERATOR_ALL_TO_ALL, 2 * muon->owned, &shards);
}

/* Owners of whole matrices hold fp32 weights in PyTorch's loops, of which the matmuls cast; Megatron's
 * and DeepSpeed's gather the bf16 ones. */
static double gathered_width(const struct step_model *m) {
    const struct backend *backend = m->scenario->backend;
    if (precision_is_single(m->scenario->main_precision)) return 4;
    return strcmp(backend->name, "fsdp") == 0 && !backend->no_master_weights ? 4 : 2;
}

/* Weights that are fp32 themselves are counted as such already. */
double muon_gather_bytes(const struct step_model *m, const struct muon_stage *muon) {
    const double counted = precision_is_single(m->scenario->main_precision) ? 4 : 2;
    return muon->padded * gathered_width(m) - muon->parameters * counted;
}

/* Gradients are put beside one another before they are reduced, weights copied from where they were
 * gathered: 8 bytes a parameter each. */
enum { COPY_BYTES = 16 };

int64_t muon_update_ns(const struct step_model *m, int64_t stage, const struct muon_stage *muon) {
    if (muon->parameters <= 0) return 0;
    const struct layout *layout = &m->scenario->layout;
    const bool sharded = layout->zero_stage >= 2, dealt = !sharded && muon->owners > 1;
    int64_t ns = 0;
    for (int64_t i = 0; i < muon->shape_count; i++)
        ns += products_ns(m, stage, &muon->shapes[i], owned_count(muon, &muon->shapes[i]));
    ns += stream_ns(m, stage, "muon momentum, sums and update",
                    muon->owned * parameter_bytes(m) + iteration_bytes(muon));
    if (dealt) ns += stream_ns(m, stage, "copies of matrices", COPY_BYTES * muon->parameters);
    if (sharded) ns += exchange_ns(m, stage, muon);
    if (dealt && layout->zero_stage == 0) {
        const struct communicator all = layout_communicator(layout, COMMUNICATOR_DATA);
        const struct outer_call once = { OUTER_UPDATE, stage, 1, 1 };
        ns += outer_collective_ns(m, once, OPERATOR_ALL_GATHER, muon->padded * gathered_width(m),
                                  &all);
    }
    return ns;
}

/* The weight's fp32 copy beside both moments: one of these goes. Without ZeRO each rank has all the
 * copies, and momentum of what it owns. */
double muon_state_bytes(const struct step_model *m, const struct muon_stage *muon,
                        double state_bytes) {
    const struct layout *layout = &m->scenario->layout;
    const double master = m->scenario->backend->no_master_weights ? 0 : fmin(4, state_bytes),
                 moment = (state_bytes - master) / 2;
    if (layout->zero_stage == 0) return muon->parameters * master + muon->owned * moment;
    if (layout->zero_stage == 1) return muon->owned * (master + moment);
    return muon->parameters * (master + moment) / (double)layout->zero_group;
}
