/* cudnn_attention.cuh - fused attention, forward and backward, through cuDNN's backend interface.
 *
 * cuDNN has one fused kernel for a graph of small operations, which it recognises (cuDNN developer
 * guide, "Fused attention"). The graphs here, with S = Q K^T x scale and the mask -inf above the
 * diagonal:
 *
 *     forward   P = softmax(S);  O = P V;  stats = max(S) + ln sum exp(S - max)
 *     backward  P = exp(S - stats);  D = rowsum(dO x O);  dV = P^T dO
 *               dS = P x (dO V^T - D) x scale;  dK = dS^T Q;  dQ = dS K (summed in fp32)
 *
 * With fewer key heads than query heads, dK and dV are summed over the query heads that share one.
 * Tensors are (batch, head, position, element) by stride over memory of (batch, position, head,
 * element), as the output of a fused QKV matmul lies.
 *
 *     struct cudnn_plan forward = cudnn_attention_forward(cudnn, &shape);
 *     cudnn_plan_run(&forward, pointers);                 // indexed by enum attention_tensor
 *
 * The interface of descriptors is that of the backend, so cudnn-frontend is not needed.
 */
#ifndef BALLAST_CALIBRATE_BENCH_CUDNN_ATTENTION_CUH
#define BALLAST_CALIBRATE_BENCH_CUDNN_ATTENTION_CUH

#include <cudnn.h>
#include <float.h>
#include <math.h>
#include <vector>
#include "calibrate/bench/bench_cuda.cuh"

#define CUDNN_CHECK(call)                                                                          \
    do {                                                                                           \
        const cudnnStatus_t status_ = (call);                                                      \
        if (status_ != CUDNN_STATUS_SUCCESS) {                                                     \
            char reason_[512] = "";                                                                \
            cudnnGetLastErrorString(reason_, sizeof reason_);                                      \
            fprintf(stderr, "%s:%d: %s: %s (%s)\n", __FILE__, __LINE__, #call,                     \
                    cudnnGetErrorString(status_), reason_);                                        \
            exit(BENCH_FAILED);                                                                    \
        }                                                                                          \
    } while (0)

/* Tensors in memory; the number is the tensor's id in the graph. */
enum attention_tensor {
    ATTENTION_Q,
    ATTENTION_K,
    ATTENTION_V,
    ATTENTION_O,
    ATTENTION_STATS,
    ATTENTION_DO,
    ATTENTION_DQ,
    ATTENTION_DK,
    ATTENTION_DV,
    ATTENTION_DQ_SUM,  /* fp32 */
    ATTENTION_ROW_SUM, /* D above, fp32 */
    ATTENTION_SCALE,   /* by value from here on */
    ATTENTION_ONE,
    ATTENTION_MINUS_INFINITY,
    ATTENTION_TENSOR_COUNT
};

static inline void cudnn_set(cudnnBackendDescriptor_t descriptor, cudnnBackendAttributeName_t name,
                             cudnnBackendAttributeType_t type, int64_t count, const void *value) {
    CUDNN_CHECK(cudnnBackendSetAttribute(descriptor, name, type, count, value));
}

static inline cudnnBackendDescriptor_t cudnn_descriptor(cudnnBackendDescriptorType_t type) {
    cudnnBackendDescriptor_t descriptor;
    CUDNN_CHECK(cudnnBackendCreateDescriptor(type, &descriptor));
    return descriptor;
}

/* ---- the graph under construction ---- */

struct attention_dims {
    int64_t size[4], stride[4];
};

struct attention_graph {
    struct bench_attention_shape shape;
    int64_t next_id; /* of tensors inside the kernel */
    std::vector<cudnnBackendDescriptor_t> operations, all;
};

static inline cudnnBackendDescriptor_t graph_descriptor(struct attention_graph *g,
                                                        cudnnBackendDescriptorType_t type) {
    g->all.push_back(cudnn_descriptor(type));
    return g->all.back();
}

enum tensor_place { TENSOR_MEMORY, TENSOR_INSIDE, TENSOR_VALUE };

static inline cudnnBackendDescriptor_t graph_tensor(struct attention_graph *g, int64_t id,
                                                    cudnnDataType_t type,
                                                    const struct attention_dims *dims,
                                                    enum tensor_place place) {
    const int64_t alignment = 16;
    const bool inside = place == TENSOR_INSIDE, value = place == TENSOR_VALUE;
    const int64_t own_id = inside ? ATTENTION_TENSOR_COUNT + g->next_id++ : id;
    cudnnBackendDescriptor_t t = graph_descriptor(g, CUDNN_BACKEND_TENSOR_DESCRIPTOR);
    cudnn_set(t, CUDNN_ATTR_TENSOR_UNIQUE_ID, CUDNN_TYPE_INT64, 1, &own_id);
    cudnn_set(t, CUDNN_ATTR_TENSOR_DATA_TYPE, CUDNN_TYPE_DATA_TYPE, 1, &type);
    cudnn_set(t, CUDNN_ATTR_TENSOR_DIMENSIONS, CUDNN_TYPE_INT64, 4, dims->size);
    cudnn_set(t, CUDNN_ATTR_TENSOR_STRIDES, CUDNN_TYPE_INT64, 4, dims->stride);
    cudnn_set(t, CUDNN_ATTR_TENSOR_BYTE_ALIGNMENT, CUDNN_TYPE_INT64, 1, &alignment);
    cudnn_set(t, CUDNN_ATTR_TENSOR_IS_VIRTUAL, CUDNN_TYPE_BOOLEAN, 1, &inside);
    cudnn_set(t, CUDNN_ATTR_TENSOR_IS_BY_VALUE, CUDNN_TYPE_BOOLEAN, 1, &value);
    CUDNN_CHECK(cudnnBackendFinalize(t));
    return t;
}

/* Packed in the order of its dimensions. */
static inline struct attention_dims dims_packed(int64_t a, int64_t b, int64_t c, int64_t d) {
    return { { a, b, c, d }, { b * c * d, c * d, d, 1 } };
}

static inline struct attention_dims dims_swapped(struct attention_dims dims) {
    return { { dims.size[0], dims.size[1], dims.size[3], dims.size[2] },
             { dims.stride[0], dims.stride[1], dims.stride[3], dims.stride[2] } };
}

/* A (batch, head, position, element) view of memory in the order batch, position, head, element. */
static inline struct attention_dims dims_heads(const struct bench_attention_shape *s,
                                               int64_t heads) {
    return { { s->batch, heads, s->length, s->head_dim },
             { s->length * heads * s->head_dim, s->head_dim, heads * s->head_dim, 1 } };
}

static inline struct attention_dims dims_scores(const struct bench_attention_shape *s) {
    return dims_packed(s->batch, s->heads, s->length, s->length);
}

static inline struct attention_dims dims_rows(const struct bench_attention_shape *s) {
    return dims_packed(s->batch, s->heads, s->length, 1);
}

static inline cudnnBackendDescriptor_t graph_scores(struct attention_graph *g,
                                                    cudnnDataType_t type = CUDNN_DATA_FLOAT) {
    const struct attention_dims dims = dims_scores(&g->shape);
    return graph_tensor(g, 0, type, &dims, TENSOR_INSIDE);
}

static inline cudnnBackendDescriptor_t graph_rows(struct attention_graph *g) {
    const struct attention_dims dims = dims_rows(&g->shape);
    return graph_tensor(g, 0, CUDNN_DATA_FLOAT, &dims, TENSOR_INSIDE);
}

static inline cudnnBackendDescriptor_t graph_value(struct attention_graph *g,
                                                   enum attention_tensor id) {
    const struct attention_dims dims = { { 1, 1, 1, 1 }, { 1, 1, 1, 1 } };
    return graph_tensor(g, id, CUDNN_DATA_FLOAT, &dims, TENSOR_VALUE);
}

static inline void graph_finish(struct attention_graph *g, cudnnBackendDescriptor_t operation) {
    CUDNN_CHECK(cudnnBackendFinalize(operation));
    g->operations.push_back(operation);
}

static inline void set_operand(cudnnBackendDescriptor_t operation, cudnnBackendAttributeName_t name,
                               cudnnBackendDescriptor_t operand) {
    cudnn_set(operation, name, CUDNN_TYPE_BACKEND_DESCRIPTOR, 1, &operand);
}

static inline void graph_matmul(struct attention_graph *g, cudnnBackendDescriptor_t a,
                                cudnnBackendDescriptor_t b, cudnnBackendDescriptor_t out) {
    const cudnnDataType_t compute = CUDNN_DATA_FLOAT;
    const double padding = 0;
    cudnnBackendDescriptor_t kind = graph_descriptor(g, CUDNN_BACKEND_MATMUL_DESCRIPTOR);
    cudnn_set(kind, CUDNN_ATTR_MATMUL_COMP_TYPE, CUDNN_TYPE_DATA_TYPE, 1, &compute);
    cudnn_set(kind, CUDNN_ATTR_MATMUL_PADDING_VALUE, CUDNN_TYPE_DOUBLE, 1, &padding);
    CUDNN_CHECK(cudnnBackendFinalize(kind));
    cudnnBackendDescriptor_t o = graph_descriptor(g, CUDNN_BACKEND_OPERATION_MATMUL_DESCRIPTOR);
    set_operand(o, CUDNN_ATTR_OPERATION_MATMUL_ADESC, a);
    set_operand(o, CUDNN_ATTR_OPERATION_MATMUL_BDESC, b);
    set_operand(o, CUDNN_ATTR_OPERATION_MATMUL_CDESC, out);
    set_operand(o, CUDNN_ATTR_OPERATION_MATMUL_DESC, kind);
    graph_finish(g, o);
}

/* b and condition may be NULL. */
static inline void graph_pointwise(struct attention_graph *g, cudnnPointwiseMode_t mode,
                                   cudnnBackendDescriptor_t x, cudnnBackendDescriptor_t b,
                                   cudnnBackendDescriptor_t condition, cudnnBackendDescriptor_t out,
                                   int64_t axis = -1) {
    const bool compares = mode == CUDNN_POINTWISE_CMP_GE;
    const cudnnDataType_t compute = compares ? CUDNN_DATA_BOOLEAN : CUDNN_DATA_FLOAT;
    cudnnBackendDescriptor_t kind = graph_descriptor(g, CUDNN_BACKEND_POINTWISE_DESCRIPTOR);
    cudnn_set(kind, CUDNN_ATTR_POINTWISE_MODE, CUDNN_TYPE_POINTWISE_MODE, 1, &mode);
    cudnn_set(kind, CUDNN_ATTR_POINTWISE_MATH_PREC, CUDNN_TYPE_DATA_TYPE, 1, &compute);
    if (axis >= 0) cudnn_set(kind, CUDNN_ATTR_POINTWISE_AXIS, CUDNN_TYPE_INT64, 1, &axis);
    CUDNN_CHECK(cudnnBackendFinalize(kind));
    cudnnBackendDescriptor_t o = graph_descriptor(g, CUDNN_BACKEND_OPERATION_POINTWISE_DESCRIPTOR);
    set_operand(o, CUDNN_ATTR_OPERATION_POINTWISE_PW_DESCRIPTOR, kind);
    set_operand(o, CUDNN_ATTR_OPERATION_POINTWISE_XDESC, x);
    if (b != NULL) set_operand(o, CUDNN_ATTR_OPERATION_POINTWISE_BDESC, b);
    if (condition != NULL) set_operand(o, CUDNN_ATTR_OPERATION_POINTWISE_TDESC, condition);
    set_operand(o, CUDNN_ATTR_OPERATION_POINTWISE_YDESC, out);
    graph_finish(g, o);
}

static inline void graph_reduce(struct attention_graph *g, cudnnReduceTensorOp_t mode,
                                cudnnBackendDescriptor_t x, cudnnBackendDescriptor_t out) {
    const cudnnDataType_t compute = CUDNN_DATA_FLOAT;
    cudnnBackendDescriptor_t kind = graph_descriptor(g, CUDNN_BACKEND_REDUCTION_DESCRIPTOR);
    cudnn_set(kind, CUDNN_ATTR_REDUCTION_OPERATOR, CUDNN_TYPE_REDUCTION_OPERATOR_TYPE, 1, &mode);
    cudnn_set(kind, CUDNN_ATTR_REDUCTION_COMP_TYPE, CUDNN_TYPE_DATA_TYPE, 1, &compute);
    CUDNN_CHECK(cudnnBackendFinalize(kind));
    cudnnBackendDescriptor_t o = graph_descriptor(g, CUDNN_BACKEND_OPERATION_REDUCTION_DESCRIPTOR);
    set_operand(o, CUDNN_ATTR_OPERATION_REDUCTION_XDESC, x);
    set_operand(o, CUDNN_ATTR_OPERATION_REDUCTION_YDESC, out);
    set_operand(o, CUDNN_ATTR_OPERATION_REDUCTION_DESC, kind);
    graph_finish(g, o);
}

static inline void graph_reshape(struct attention_graph *g, cudnnBackendDescriptor_t x,
                                 cudnnBackendDescriptor_t out) {
    cudnnBackendDescriptor_t o = graph_descriptor(g, CUDNN_BACKEND_OPERATION_RESHAPE_DESCRIPTOR);
    set_operand(o, CUDNN_ATTR_OPERATION_RESHAPE_XDESC, x);
    set_operand(o, CUDNN_ATTR_OPERATION_RESHAPE_YDESC, out);
    graph_finish(g, o);
}

/* ---- plans ---- */

struct cudnn_plan {
    cudnnHandle_t handle;
    cudnnBackendDescriptor_t plan; /* NULL: no kernel for this shape */
    int64_t workspace_bytes;
    void *workspace;
    std::vector<int64_t> ids; /* of the tensors that a run must name */
};

/* Of a graph, the first kernel that cuDNN's heuristic proposes and can build; NULL: none. */
static inline cudnnBackendDescriptor_t cudnn_first_plan(cudnnHandle_t handle,
                                                        struct attention_graph *g) {
    enum { PROPOSAL_MAX = 8 };
    cudnnBackendDescriptor_t graph = graph_descriptor(g, CUDNN_BACKEND_OPERATIONGRAPH_DESCRIPTOR);
    cudnn_set(graph, CUDNN_ATTR_OPERATIONGRAPH_OPS, CUDNN_TYPE_BACKEND_DESCRIPTOR,
              (int64_t)g->operations.size(), g->operations.data());
    cudnn_set(graph, CUDNN_ATTR_OPERATIONGRAPH_HANDLE, CUDNN_TYPE_HANDLE, 1, &handle);
    CUDNN_CHECK(cudnnBackendFinalize(graph));

    const cudnnBackendHeurMode_t mode = CUDNN_HEUR_MODE_A;
    cudnnBackendDescriptor_t heuristic = graph_descriptor(g, CUDNN_BACKEND_ENGINEHEUR_DESCRIPTOR);
    set_operand(heuristic, CUDNN_ATTR_ENGINEHEUR_OPERATION_GRAPH, graph);
    cudnn_set(heuristic, CUDNN_ATTR_ENGINEHEUR_MODE, CUDNN_TYPE_HEUR_MODE, 1, &mode);
    if (cudnnBackendFinalize(heuristic) != CUDNN_STATUS_SUCCESS) return NULL;
    cudnnBackendDescriptor_t proposals[PROPOSAL_MAX];
    for (int i = 0; i < PROPOSAL_MAX; i++)
        proposals[i] = graph_descriptor(g, CUDNN_BACKEND_ENGINECFG_DESCRIPTOR);
    int64_t count = 0;
    CUDNN_CHECK(cudnnBackendGetAttribute(heuristic, CUDNN_ATTR_ENGINEHEUR_RESULTS,
                                         CUDNN_TYPE_BACKEND_DESCRIPTOR, PROPOSAL_MAX, &count,
                                         proposals));
    for (int64_t i = 0; i < count && i < PROPOSAL_MAX; i++) {
        cudnnBackendDescriptor_t plan = cudnn_descriptor(CUDNN_BACKEND_EXECUTION_PLAN_DESCRIPTOR);
        set_operand(plan, CUDNN_ATTR_EXECUTION_PLAN_ENGINE_CONFIG, proposals[i]);
        cudnn_set(plan, CUDNN_ATTR_EXECUTION_PLAN_HANDLE, CUDNN_TYPE_HANDLE, 1, &handle);
        if (cudnnBackendFinalize(plan) == CUDNN_STATUS_SUCCESS) return plan;
        cudnnBackendDestroyDescriptor(plan);
    }
    return NULL;
}

static inline struct cudnn_plan cudnn_plan_of(cudnnHandle_t handle, struct attention_graph *g,
                                              std::vector<int64_t> ids) {
    struct cudnn_plan p = {};
    p.handle = handle;
    p.ids = ids;
    p.plan = cudnn_first_plan(handle, g);
    for (size_t i = 0; i < g->all.size(); i++)
        cudnnBackendDestroyDescriptor(g->all[i]);
    if (p.plan == NULL) return p;
    int64_t count;
    CUDNN_CHECK(cudnnBackendGetAttribute(p.plan, CUDNN_ATTR_EXECUTION_PLAN_WORKSPACE_SIZE,
                                         CUDNN_TYPE_INT64, 1, &count, &p.workspace_bytes));
    if (p.workspace_bytes > 0) p.workspace = bench_device_array<char>(p.workspace_bytes);
    return p;
}

/* Scores times scale, behind the causal mask where the shape has one. */
static inline cudnnBackendDescriptor_t graph_masked(struct attention_graph *g,
                                                    cudnnBackendDescriptor_t scores) {
    if (!g->shape.causal) return scores;
    const struct attention_dims dims = dims_scores(&g->shape);
    cudnnBackendDescriptor_t row = graph_tensor(g, 0, CUDNN_DATA_INT32, &dims, TENSOR_INSIDE);
    cudnnBackendDescriptor_t column = graph_tensor(g, 0, CUDNN_DATA_INT32, &dims, TENSOR_INSIDE);
    cudnnBackendDescriptor_t keep = graph_tensor(g, 0, CUDNN_DATA_BOOLEAN, &dims, TENSOR_INSIDE);
    cudnnBackendDescriptor_t masked = graph_scores(g);
    graph_pointwise(g, CUDNN_POINTWISE_GEN_INDEX, scores, NULL, NULL, row, 2);
    graph_pointwise(g, CUDNN_POINTWISE_GEN_INDEX, scores, NULL, NULL, column, 3);
    graph_pointwise(g, CUDNN_POINTWISE_CMP_GE, row, column, NULL, keep);
    graph_pointwise(g, CUDNN_POINTWISE_BINARY_SELECT, scores,
                    graph_value(g, ATTENTION_MINUS_INFINITY), keep, masked);
    return masked;
}

static inline cudnnBackendDescriptor_t graph_heads(struct attention_graph *g,
                                                   enum attention_tensor id, int64_t heads,
                                                   bool swapped = false) {
    struct attention_dims dims = dims_heads(&g->shape, heads);
    if (swapped) dims = dims_swapped(dims);
    return graph_tensor(g, id, CUDNN_DATA_BFLOAT16, &dims, TENSOR_MEMORY);
}

static inline cudnnBackendDescriptor_t graph_scaled_scores(struct attention_graph *g,
                                                           cudnnBackendDescriptor_t q,
                                                           cudnnBackendDescriptor_t k_transposed,
                                                           cudnnBackendDescriptor_t scale) {
    cudnnBackendDescriptor_t product = graph_scores(g), scaled = graph_scores(g);
    graph_matmul(g, q, k_transposed, product);
    graph_pointwise(g, CUDNN_POINTWISE_MUL, product, scale, NULL, scaled);
    return scaled;
}

static inline struct cudnn_plan cudnn_attention_forward(cudnnHandle_t handle,
                                                        const struct bench_attention_shape *shape) {
    struct attention_graph graph = { *shape, 0, {}, {} }, *g = &graph;
    const struct attention_dims rows = dims_rows(shape);
    cudnnBackendDescriptor_t stats =
        graph_tensor(g, ATTENTION_STATS, CUDNN_DATA_FLOAT, &rows, TENSOR_MEMORY);
    cudnnBackendDescriptor_t scores =
        graph_masked(g, graph_scaled_scores(g, graph_heads(g, ATTENTION_Q, shape->heads),
                                            graph_heads(g, ATTENTION_K, shape->kv_heads, true),
                                            graph_value(g, ATTENTION_SCALE)));
    cudnnBackendDescriptor_t greatest = graph_rows(g), sum = graph_rows(g), log = graph_rows(g);
    cudnnBackendDescriptor_t shifted = graph_scores(g), exponential = graph_scores(g);
    graph_reduce(g, CUDNN_REDUCE_TENSOR_MAX, scores, greatest);
    graph_pointwise(g, CUDNN_POINTWISE_SUB, scores, greatest, NULL, shifted);
    graph_pointwise(g, CUDNN_POINTWISE_EXP, shifted, NULL, NULL, exponential);
    graph_reduce(g, CUDNN_REDUCE_TENSOR_ADD, exponential, sum);
    graph_pointwise(g, CUDNN_POINTWISE_LOG, sum, NULL, NULL, log);
    graph_pointwise(g, CUDNN_POINTWISE_ADD, greatest, log, NULL, stats);
    /* The second matmul takes its operand in the type of V. */
    cudnnBackendDescriptor_t probability = graph_scores(g, CUDNN_DATA_BFLOAT16);
    graph_pointwise(g, CUDNN_POINTWISE_DIV, exponential, sum, NULL, probability);
    graph_matmul(g, probability, graph_heads(g, ATTENTION_V, shape->kv_heads),
                 graph_heads(g, ATTENTION_O, shape->heads));
    std::vector<int64_t> ids = { ATTENTION_Q, ATTENTION_K,     ATTENTION_V,
                                 ATTENTION_O, ATTENTION_STATS, ATTENTION_SCALE };
    if (shape->causal) ids.push_back(ATTENTION_MINUS_INFINITY);
    return cudnn_plan_of(handle, g, ids);
}

/* out (keys x elements) = scores^T x operand, summed over the heads that share a key head. */
static inline void graph_key_gradient(struct attention_graph *g, cudnnBackendDescriptor_t scores,
                                      cudnnBackendDescriptor_t operand, enum attention_tensor id) {
    const struct bench_attention_shape *s = &g->shape;
    const struct attention_dims transposed = dims_swapped(dims_scores(s));
    cudnnBackendDescriptor_t turned =
        graph_tensor(g, 0, CUDNN_DATA_BFLOAT16, &transposed, TENSOR_INSIDE);
    cudnnBackendDescriptor_t out = graph_heads(g, id, s->kv_heads);
    graph_reshape(g, scores, turned);
    if (s->heads == s->kv_heads) {
        graph_matmul(g, turned, operand, out);
        return;
    }
    const struct attention_dims full = dims_packed(s->batch, s->heads, s->length, s->head_dim);
    cudnnBackendDescriptor_t each = graph_tensor(g, 0, CUDNN_DATA_BFLOAT16, &full, TENSOR_INSIDE);
    graph_matmul(g, turned, operand, each);
    graph_reduce(g, CUDNN_REDUCE_TENSOR_ADD, each, out);
}

static inline struct cudnn_plan
cudnn_attention_backward(cudnnHandle_t handle, const struct bench_attention_shape *shape) {
    struct attention_graph graph = { *shape, 0, {}, {} }, *g = &graph;
    const struct attention_dims rows = dims_rows(shape), q_dims = dims_heads(shape, shape->heads);
    const struct attention_dims q_packed =
        dims_packed(shape->batch, shape->heads, shape->length, shape->head_dim);
    cudnnBackendDescriptor_t q = graph_heads(g, ATTENTION_Q, shape->heads);
    cudnnBackendDescriptor_t d_out = graph_heads(g, ATTENTION_DO, shape->heads);
    cudnnBackendDescriptor_t k_transposed = graph_heads(g, ATTENTION_K, shape->kv_heads, true);
    cudnnBackendDescriptor_t v_transposed = graph_heads(g, ATTENTION_V, shape->kv_heads, true);
    cudnnBackendDescriptor_t scale = graph_value(g, ATTENTION_SCALE);

    /* D, kept in memory because two kernels use it. */
    cudnnBackendDescriptor_t product = graph_tensor(g, 0, CUDNN_DATA_FLOAT, &q_dims, TENSOR_INSIDE);
    cudnnBackendDescriptor_t product_sum = graph_rows(g);
    cudnnBackendDescriptor_t row_sum =
        graph_tensor(g, ATTENTION_ROW_SUM, CUDNN_DATA_FLOAT, &rows, TENSOR_MEMORY);
    graph_pointwise(g, CUDNN_POINTWISE_MUL, d_out, graph_heads(g, ATTENTION_O, shape->heads), NULL,
                    product);
    graph_reduce(g, CUDNN_REDUCE_TENSOR_ADD, product, product_sum);
    /* The place of the dropout factor; the pattern has it also without dropout. */
    graph_pointwise(g, CUDNN_POINTWISE_MUL, product_sum, graph_value(g, ATTENTION_ONE), NULL,
                    row_sum);

    cudnnBackendDescriptor_t shifted = graph_scores(g), probability = graph_scores(g);
    graph_pointwise(g, CUDNN_POINTWISE_SUB, graph_scaled_scores(g, q, k_transposed, scale),
                    graph_tensor(g, ATTENTION_STATS, CUDNN_DATA_FLOAT, &rows, TENSOR_MEMORY), NULL,
                    shifted);
    graph_pointwise(g, CUDNN_POINTWISE_EXP, graph_masked(g, shifted), NULL, NULL, probability);
    graph_key_gradient(g, probability, d_out, ATTENTION_DV);

    cudnnBackendDescriptor_t d_probability = graph_scores(g), centred = graph_scores(g);
    cudnnBackendDescriptor_t weighted = graph_scores(g);
    cudnnBackendDescriptor_t d_scores = graph_scores(g, CUDNN_DATA_BFLOAT16);
    graph_matmul(g, d_out, v_transposed, d_probability);
    graph_pointwise(g, CUDNN_POINTWISE_SUB, d_probability, row_sum, NULL, centred);
    graph_pointwise(g, CUDNN_POINTWISE_MUL, centred, probability, NULL, weighted);
    graph_pointwise(g, CUDNN_POINTWISE_MUL, weighted, scale, NULL, d_scores);
    graph_key_gradient(g, d_scores, q, ATTENTION_DK);

    const struct attention_dims k_dims = dims_heads(shape, shape->kv_heads);
    cudnnBackendDescriptor_t k = graph_tensor(g, 0, CUDNN_DATA_BFLOAT16, &k_dims, TENSOR_INSIDE);
    cudnnBackendDescriptor_t d_query_sum =
        graph_tensor(g, ATTENTION_DQ_SUM, CUDNN_DATA_FLOAT, &q_packed, TENSOR_MEMORY);
    graph_reshape(g, k_transposed, k);
    graph_matmul(g, d_scores, k, d_query_sum);
    graph_pointwise(g, CUDNN_POINTWISE_IDENTITY, d_query_sum, NULL, NULL,
                    graph_heads(g, ATTENTION_DQ, shape->heads));
    std::vector<int64_t> ids = { ATTENTION_Q,      ATTENTION_K,       ATTENTION_V,
                                 ATTENTION_O,      ATTENTION_STATS,   ATTENTION_DO,
                                 ATTENTION_DQ,     ATTENTION_DK,      ATTENTION_DV,
                                 ATTENTION_DQ_SUM, ATTENTION_ROW_SUM, ATTENTION_SCALE,
                                 ATTENTION_ONE };
    if (shape->causal) ids.push_back(ATTENTION_MINUS_INFINITY);
    return cudnn_plan_of(handle, g, ids);
}

/* ---- running ---- */

/* What a run takes; by-value entries point to floats of the host. */
struct attention_pointers {
    void *at[ATTENTION_TENSOR_COUNT];
};

static inline cudnnBackendDescriptor_t cudnn_plan_bind(const struct cudnn_plan *p,
                                                       const struct attention_pointers *pointers) {
    std::vector<void *> data;
    for (size_t i = 0; i < p->ids.size(); i++)
        data.push_back(pointers->at[p->ids[i]]);
    cudnnBackendDescriptor_t pack = cudnn_descriptor(CUDNN_BACKEND_VARIANT_PACK_DESCRIPTOR);
    cudnn_set(pack, CUDNN_ATTR_VARIANT_PACK_UNIQUE_IDS, CUDNN_TYPE_INT64, (int64_t)p->ids.size(),
              p->ids.data());
    cudnn_set(pack, CUDNN_ATTR_VARIANT_PACK_DATA_POINTERS, CUDNN_TYPE_VOID_PTR,
              (int64_t)data.size(), data.data());
    cudnn_set(pack, CUDNN_ATTR_VARIANT_PACK_WORKSPACE, CUDNN_TYPE_VOID_PTR, 1, &p->workspace);
    CUDNN_CHECK(cudnnBackendFinalize(pack));
    return pack;
}

static inline void cudnn_plan_run(const struct cudnn_plan *p, cudnnBackendDescriptor_t pack) {
    CUDNN_CHECK(cudnnBackendExecute(p->handle, p->plan, pack));
}

static inline void cudnn_plan_destroy(struct cudnn_plan *p) {
    if (p->plan != NULL) cudnnBackendDestroyDescriptor(p->plan);
    cudaFree(p->workspace);
}

/* All tensors of one shape, random inputs, and the plans over them. Some GPUs have no backward
 * kernel for large heads: backward.plan is then NULL. */
struct attention_set {
    struct bench_attention_shape shape;
    struct attention_pointers pointers;
    float scale, one, minus_infinity;
    struct cudnn_plan forward, backward;
    cudnnBackendDescriptor_t forward_pack, backward_pack;
};

static inline int64_t attention_elements(const struct bench_attention_shape *s, int64_t heads) {
    return s->batch * s->length * heads * s->head_dim;
}

/* Owned: pointers into it are kept. NULL where cuDNN has no kernel at all. */
static inline struct attention_set *
attention_set_create(cudnnHandle_t handle, cudaStream_t stream,
                     const struct bench_attention_shape *shape) {
    struct attention_set *set = new attention_set();
    set->shape = *shape;
    set->forward = cudnn_attention_forward(handle, shape);
    if (set->forward.plan == NULL) {
        delete set;
        return NULL;
    }
    set->backward = cudnn_attention_backward(handle, shape);
    set->scale = 1 / sqrtf((float)shape->head_dim);
    set->one = 1;
    set->minus_infinity = -FLT_MAX;
    const int64_t query = attention_elements(shape, shape->heads);
    const int64_t key = attention_elements(shape, shape->kv_heads);
    const int64_t row_count = shape->batch * shape->heads * shape->length;
    void **at = set->pointers.at;
    at[ATTENTION_Q] = bench_random_array<bf16>(stream, query, 1);
    at[ATTENTION_K] = bench_random_array<bf16>(stream, key, 2);
    at[ATTENTION_V] = bench_random_array<bf16>(stream, key, 3);
    at[ATTENTION_DO] = bench_random_array<bf16>(stream, query, 4);
    at[ATTENTION_O] = bench_device_array<bf16>(query);
    at[ATTENTION_DQ] = bench_device_array<bf16>(query);
    at[ATTENTION_DK] = bench_device_array<bf16>(key);
    at[ATTENTION_DV] = bench_device_array<bf16>(key);
    at[ATTENTION_STATS] = bench_device_array<float>(row_count);
    at[ATTENTION_ROW_SUM] = bench_device_array<float>(row_count);
    at[ATTENTION_DQ_SUM] = bench_device_array<float>(query);
    at[ATTENTION_SCALE] = &set->scale;
    at[ATTENTION_ONE] = &set->one;
    at[ATTENTION_MINUS_INFINITY] = &set->minus_infinity;
    bench_poison(stream, at[ATTENTION_O], (size_t)query * sizeof(bf16));
    bench_poison(stream, at[ATTENTION_DQ], (size_t)query * sizeof(bf16));
    bench_poison(stream, at[ATTENTION_DK], (size_t)key * sizeof(bf16));
    bench_poison(stream, at[ATTENTION_DV], (size_t)key * sizeof(bf16));
    set->forward_pack = cudnn_plan_bind(&set->forward, &set->pointers);
    if (set->backward.plan != NULL)
        set->backward_pack = cudnn_plan_bind(&set->backward, &set->pointers);
    return set;
}

static inline void attention_set_forward(const struct attention_set *set) {
    cudnn_plan_run(&set->forward, set->forward_pack);
}

static inline void attention_set_backward(const struct attention_set *set, cudaStream_t stream) {
    /* Until 9.6 the caller clears the sum that dQ is collected in. */
    if (cudnnGetVersion() < 90600)
        CUDA_CHECK(cudaMemsetAsync(
            set->pointers.at[ATTENTION_DQ_SUM], 0,
            (size_t)attention_elements(&set->shape, set->shape.heads) * sizeof(float), stream));
    cudnn_plan_run(&set->backward, set->backward_pack);
}

static inline void attention_set_destroy(struct attention_set *set) {
    for (int i = 0; i < ATTENTION_SCALE; i++)
        cudaFree(set->pointers.at[i]);
    cudnnBackendDestroyDescriptor(set->forward_pack);
    if (set->backward_pack != NULL) cudnnBackendDestroyDescriptor(set->backward_pack);
    cudnn_plan_destroy(&set->forward);
    cudnn_plan_destroy(&set->backward);
    delete set;
}

#endif
