/* blaslt_matmul.cuh - one cuBLASLt matmul in the layouts that training uses.
 *
 * All matrices are row-major here. With X the activations (tokens x in), W the weights (out x in)
 * and dY the gradient of the output (tokens x out), in the letters of column-major BLAS:
 *
 *     TN  forward          Y  = X W^T     m = tokens, n = out, k = in
 *     NN  input gradient   dX = dY W      m = tokens, n = in,  k = out
 *     NT  weight gradient  dW += dY^T X   m = out,    n = in,  k = tokens; fp32, accumulates
 *
 * A row-major matrix is the transpose of a column-major one, so the out (m x n) is computed as its
 * transpose: first operand W or X, second X or dY.
 *
 *     struct blaslt_matmul p = blaslt_matmul_create(handle, MATMUL_TN, MATMUL_BF16, m, n, k);
 *     blaslt_matmul_run(&p, weight, activation, out, stream);
 */
#ifndef BALLAST_CALIBRATE_BENCH_BLASLT_MATMUL_CUH
#define BALLAST_CALIBRATE_BENCH_BLASLT_MATMUL_CUH

#include <cublasLt.h>
#include <cuda_fp8.h>
#include "calibrate/bench/bench_cuda.cuh"

enum matmul_layout { MATMUL_TN, MATMUL_NN, MATMUL_NT };
enum matmul_type { MATMUL_BF16, MATMUL_FP8 };

/* As measurements of TransformerEngine name them, which the fit knows. */
static const char *const matmul_layout_names[] = { "layout=TN accumulate=False out=bf16",
                                                   "layout=NN accumulate=False out=bf16",
                                                   "layout=NT accumulate=True out=fp32" };

#define BLASLT_CHECK(call)                                                                         \
    do {                                                                                           \
        const cublasStatus_t status_ = (call);                                                     \
        if (status_ != CUBLAS_STATUS_SUCCESS) {                                                    \
            fprintf(stderr, "%s:%d: %s: %s\n", __FILE__, __LINE__, #call,                          \
                    cublasLtGetStatusString(status_));                                             \
            exit(BENCH_FAILED);                                                                    \
        }                                                                                          \
    } while (0)

#define BLASLT_WORKSPACE_BYTES ((size_t)32 << 20) /* what NVIDIA advises for Hopper */

struct blaslt_matmul {
    cublasLtHandle_t handle;
    cublasLtMatmulDesc_t operation;
    cublasLtMatrixLayout_t first, second, out;
    cublasLtMatmulAlgo_t algorithm;
    void *workspace; /* own: plans of two streams may run at once */
    float *scale;    /* 1, for fp8 */
    bool accumulate;
    bool supported;
};

static inline cublasLtMatrixLayout_t blaslt_layout(cudaDataType_t type, int64_t rows,
                                                   int64_t columns) {
    cublasLtMatrixLayout_t layout;
    BLASLT_CHECK(
        cublasLtMatrixLayoutCreate(&layout, type, (uint64_t)rows, (uint64_t)columns, rows));
    return layout;
}

static inline void blaslt_set(cublasLtMatmulDesc_t operation,
                              cublasLtMatmulDescAttributes_t attribute, const void *value,
                              size_t size) {
    BLASLT_CHECK(cublasLtMatmulDescSetAttribute(operation, attribute, value, size));
}

/* The library's first choice, as frameworks take it. `supported` is false where it has none. */
static inline struct blaslt_matmul blaslt_matmul_create(cublasLtHandle_t handle,
                                                        enum matmul_layout layout,
                                                        enum matmul_type type, int64_t m, int64_t n,
                                                        int64_t k) {
    struct blaslt_matmul p = {};
    const cudaDataType_t in = type == MATMUL_FP8 ? CUDA_R_8F_E4M3 : CUDA_R_16BF;
    const cudaDataType_t out = layout == MATMUL_NT ? CUDA_R_32F : CUDA_R_16BF;
    const cublasOperation_t first_op = layout == MATMUL_TN ? CUBLAS_OP_T : CUBLAS_OP_N;
    const cublasOperation_t second_op = layout == MATMUL_NT ? CUBLAS_OP_T : CUBLAS_OP_N;
    p.handle = handle;
    p.accumulate = layout == MATMUL_NT;
    p.workspace = bench_device_array<char>((int64_t)BLASLT_WORKSPACE_BYTES);
    BLASLT_CHECK(cublasLtMatmulDescCreate(&p.operation, CUBLAS_COMPUTE_32F, CUDA_R_32F));
    blaslt_set(p.operation, CUBLASLT_MATMUL_DESC_TRANSA, &first_op, sizeof first_op);
    blaslt_set(p.operation, CUBLASLT_MATMUL_DESC_TRANSB, &second_op, sizeof second_op);
    if (type == MATMUL_FP8) {
        const float one = 1;
        const int8_t fast = 1; /* the accumulation that frameworks use forward */
        p.scale = bench_device_array<float>(1);
        CUDA_CHECK(cudaMemcpy(p.scale, &one, sizeof one, cudaMemcpyHostToDevice));
        blaslt_set(p.operation, CUBLASLT_MATMUL_DESC_A_SCALE_POINTER, &p.scale, sizeof p.scale);
        blaslt_set(p.operation, CUBLASLT_MATMUL_DESC_B_SCALE_POINTER, &p.scale, sizeof p.scale);
        blaslt_set(p.operation, CUBLASLT_MATMUL_DESC_FAST_ACCUM, &fast, sizeof fast);
    }
    p.first = first_op == CUBLAS_OP_T ? blaslt_layout(in, k, n) : blaslt_layout(in, n, k);
    p.second = second_op == CUBLAS_OP_T ? blaslt_layout(in, m, k) : blaslt_layout(in, k, m);
    p.out = blaslt_layout(out, n, m);

    cublasLtMatmulPreference_t preference;
    cublasLtMatmulHeuristicResult_t result;
    int found = 0;
    const size_t workspace = BLASLT_WORKSPACE_BYTES;
    BLASLT_CHECK(cublasLtMatmulPreferenceCreate(&preference));
    BLASLT_CHECK(cublasLtMatmulPreferenceSetAttribute(
        preference, CUBLASLT_MATMUL_PREF_MAX_WORKSPACE_BYTES, &workspace, sizeof workspace));
    const cublasStatus_t status = cublasLtMatmulAlgoGetHeuristic(
        handle, p.operation, p.first, p.second, p.out, p.out, preference, 1, &result, &found);
    BLASLT_CHECK(cublasLtMatmulPreferenceDestroy(preference));
    p.supported = status == CUBLAS_STATUS_SUCCESS && found > 0;
    if (p.supported) p.algorithm = result.algo;
    return p;
}

static inline void blaslt_matmul_run(const struct blaslt_matmul *p, const void *first,
                                     const void *second, void *out, cudaStream_t stream) {
    const float alpha = 1, beta = p->accumulate ? 1 : 0;
    BLASLT_CHECK(cublasLtMatmul(p->handle, p->operation, &alpha, first, p->first, second, p->second,
                                &beta, out, p->out, out, p->out, &p->algorithm, p->workspace,
                                BLASLT_WORKSPACE_BYTES, stream));
}

static inline void blaslt_matmul_destroy(struct blaslt_matmul *p) {
    cublasLtMatrixLayoutDestroy(p->first);
    cublasLtMatrixLayoutDestroy(p->second);
    cublasLtMatrixLayoutDestroy(p->out);
    cublasLtMatmulDescDestroy(p->operation);
    cudaFree(p->workspace);
    cudaFree(p->scale);
}

#endif
