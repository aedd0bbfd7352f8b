/* streaming_kernels.cuh - the memory-bound kernels of a transformer layer, one pass each over bf16
 * tensors with arithmetic in fp32.
 *
 * Fused as current training stacks fuse them: a norm with both of its gradients, the activation with
 * its gate. Rows x columns tensors are packed; columns are a multiple of 8, of a norm at most
 * NORM_COLUMNS_MAX. 16 bytes an access.
 *
 *     norm_forward<true>(stream, x, weight, NULL, y, statistics, rows, columns);    // RMS
 */
#ifndef BALLAST_CALIBRATE_BENCH_STREAMING_KERNELS_CUH
#define BALLAST_CALIBRATE_BENCH_STREAMING_KERNELS_CUH

#include <assert.h>
#include "calibrate/bench/bench_cuda.cuh"

enum { PACK = 8, NORM_THREADS = 256, NORM_COLUMNS_MAX = 4 * PACK * NORM_THREADS };
#define NORM_EPSILON 1e-6f

/* Eight bf16 in one register quad. */
struct __align__(16) pack {
    bf16 at[PACK];
};

static __device__ inline void unpack(const bf16 *from, float *to) {
    const struct pack p = *(const struct pack *)from;
#pragma unroll
    for (int i = 0; i < PACK; i++)
        to[i] = __bfloat162float(p.at[i]);
}

static __device__ inline void store(const float *from, bf16 *to) {
    struct pack p;
#pragma unroll
    for (int i = 0; i < PACK; i++)
        p.at[i] = __float2bfloat16(from[i]);
    *(struct pack *)to = p;
}

/* ---- elementwise ---- */

struct op_copy {
    static __device__ float of(float a, float) {
        return a;
    }
};
struct op_scale {
    static __device__ float of(float a, float) {
        return 0.4f * a;
    }
};
struct op_add {
    static __device__ float of(float a, float b) {
        return a + b;
    }
};
struct op_gelu {
    static __device__ float of(float a, float) {
        return 0.5f * a * (1 + erff(a * 0.70710678f));
    }
};
/* a: input, b: gradient of the output */
struct op_gelu_gradient {
    static __device__ float of(float a, float b) {
        const float cumulative = 0.5f * (1 + erff(a * 0.70710678f));
        return b * (cumulative + a * 0.39894228f * expf(-0.5f * a * a));
    }
};
/* a: gate, b: value */
struct op_silu_gate {
    static __device__ float of(float a, float b) {
        return a / (1 + expf(-a)) * b;
    }
};

/* out = Op(a, b), element by element; b may be NULL for an Op that ignores it. */
template <class Op, int Inputs>
__global__ void elementwise_kernel(const bf16 *a, const bf16 *b, bf16 *out, int64_t count) {
    const int64_t step = (int64_t)gridDim.x * blockDim.x * PACK;
    int64_t at = ((int64_t)blockIdx.x * blockDim.x + threadIdx.x) * PACK;
    for (; at < count; at += step) {
        float x[PACK], y[PACK] = {};
        unpack(a + at, x);
        if (Inputs > 1) unpack(b + at, y);
#pragma unroll
        for (int i = 0; i < PACK; i++)
            x[i] = Op::of(x[i], y[i]);
        store(x, out + at);
    }
}

/* Enough blocks that each pack has its thread: the hardware deals them out. */
static inline unsigned elementwise_blocks(int64_t count) {
    return (unsigned)((count / PACK + 255) / 256);
}

template <class Op, int Inputs>
static void elementwise(cudaStream_t stream, const bf16 *a, const bf16 *b, bf16 *out,
                        int64_t count) {
    elementwise_kernel<Op, Inputs><<<elementwise_blocks(count), 256, 0, stream>>>(a, b, out, count);
    CUDA_CHECK(cudaGetLastError());
}

/* Gradients of silu(gate) x value: reads gate, value and the gradient, writes two gradients. */
static __global__ void silu_gate_gradient_kernel(const bf16 *gate, const bf16 *value,
                                                 const bf16 *d_out, bf16 *d_gate, bf16 *d_value,
                                                 int64_t count) {
    const int64_t at = ((int64_t)blockIdx.x * blockDim.x + threadIdx.x) * PACK;
    if (at >= count) return;
    float g[PACK], v[PACK], d[PACK];
    unpack(gate + at, g);
    unpack(value + at, v);
    unpack(d_out + at, d);
#pragma unroll
    for (int i = 0; i < PACK; i++) {
        const float sigmoid = 1 / (1 + expf(-g[i]));
        const float dv = d[i] * g[i] * sigmoid;
        g[i] = d[i] * v[i] * sigmoid * (1 + g[i] * (1 - sigmoid));
        v[i] = dv;
    }
    store(g, d_gate + at);
    store(v, d_value + at);
}

static inline void silu_gate_gradient(cudaStream_t stream, const bf16 *gate, const bf16 *value,
                                      const bf16 *d_out, bf16 *d_gate, bf16 *d_value,
                                      int64_t count) {
    silu_gate_gradient_kernel<<<elementwise_blocks(count), 256, 0, stream>>>(
        gate, value, d_out, d_gate, d_value, count);
    CUDA_CHECK(cudaGetLastError());
}

/* The classic streams, in fp32: out = 0.4 a, or out = a + 0.4 b. */
template <bool Triad>
__global__ void stream_kernel(const float4 *a, const float4 *b, float4 *out, int64_t count) {
    const int64_t at = (int64_t)blockIdx.x * blockDim.x + threadIdx.x;
    if (at >= count) return;
    const float4 x = a[at];
    float4 y = { 0.4f * x.x, 0.4f * x.y, 0.4f * x.z, 0.4f * x.w };
    if (Triad) {
        const float4 z = b[at];
        y = { x.x + 0.4f * z.x, x.y + 0.4f * z.y, x.z + 0.4f * z.z, x.w + 0.4f * z.w };
    }
    out[at] = y;
}

template <bool Triad>
static void stream_floats(cudaStream_t stream, const float *a, const float *b, float *out,
                          int64_t count) {
    stream_kernel<Triad><<<(unsigned)((count / 4 + 255) / 256), 256, 0, stream>>>(
        (const float4 *)a, (const float4 *)b, (float4 *)out, count / 4);
    CUDA_CHECK(cudaGetLastError());
}

/* Rotary position of the first `columns` elements of each row, `stride` apart, in place: pairs of
 * one head of `head_dim`, element i with i + head_dim / 2. Backward is the opposite turn. */
static __global__ void rotary_kernel(bf16 *x, int64_t rows, int64_t columns, int64_t stride,
                                     int head_dim, int64_t length, float sign) {
    const int half = head_dim / 2;
    const int64_t packs = columns / (2 * PACK);
    const int64_t index = (int64_t)blockIdx.x * blockDim.x + threadIdx.x;
    if (index >= rows * packs) return;
    const int64_t row = index / packs, pair = index % packs * PACK;
    const int within = (int)(pair % half);
    bf16 *low = x + row * stride + pair / half * head_dim + within;
    float a[PACK], b[PACK];
    unpack(low, a);
    unpack(low + half, b);
#pragma unroll
    for (int i = 0; i < PACK; i++) {
        const float frequency = exp2f(-13.287712f * (float)(within + i) / (float)half);
        float sine, cosine;
        sincosf((float)(row % length) * frequency, &sine, &cosine);
        sine *= sign;
        const float turned = a[i] * cosine - b[i] * sine;
        b[i] = b[i] * cosine + a[i] * sine;
        a[i] = turned;
    }
    store(a, low);
    store(b, low + half);
}

static inline void rotary(cudaStream_t stream, bf16 *x, int64_t rows, int64_t columns,
                          int64_t stride, int head_dim, int64_t length, bool backward) {
    const int64_t threads = rows * columns / (2 * PACK);
    rotary_kernel<<<(unsigned)((threads + 255) / 256), 256, 0, stream>>>(
        x, rows, columns, stride, head_dim, length, backward ? -1.0f : 1.0f);
    CUDA_CHECK(cudaGetLastError());
}

/* ---- normalisation ---- */

/* Sums of two values over the block; every thread gets both. */
static __device__ inline float2 block_sum(float2 value) {
    __shared__ float2 partial[32];
    __syncthreads(); /* the caller's previous sum has been read */
    for (int offset = 16; offset > 0; offset /= 2) {
        value.x += __shfl_xor_sync(0xffffffffu, value.x, offset);
        value.y += __shfl_xor_sync(0xffffffffu, value.y, offset);
    }
    if (threadIdx.x % 32 == 0) partial[threadIdx.x / 32] = value;
    __syncthreads();
    float2 sum = { 0, 0 };
    for (unsigned w = 0; w < blockDim.x / 32; w++) {
        sum.x += partial[w].x;
        sum.y += partial[w].y;
    }
    return sum;
}

/* A block a row, the row in registers: Packs of 8 elements a thread. statistics: mean and 1 / sigma
 * of each row. */
template <bool Rms, int Packs>
__global__ void norm_forward_kernel(const bf16 *x, const bf16 *weight, const bf16 *bias, bf16 *y,
                                    float2 *statistics, int columns) {
    const int64_t row = blockIdx.x;
    float value[Packs][PACK];
    float2 sum = { 0, 0 };
#pragma unroll
    for (int p = 0; p < Packs; p++) {
        const int column = (p * NORM_THREADS + (int)threadIdx.x) * PACK;
        if (column >= columns) continue;
        unpack(x + row * columns + column, value[p]);
#pragma unroll
        for (int i = 0; i < PACK; i++) {
            sum.x += value[p][i];
            sum.y += value[p][i] * value[p][i];
        }
    }
    sum = block_sum(sum);
    const float mean = Rms ? 0 : sum.x / (float)columns;
    const float inverse = rsqrtf(fmaxf(sum.y / (float)columns - mean * mean, 0) + NORM_EPSILON);
    if (threadIdx.x == 0) statistics[row] = { mean, inverse };
#pragma unroll
    for (int p = 0; p < Packs; p++) {
        const int column = (p * NORM_THREADS + (int)threadIdx.x) * PACK;
        if (column >= columns) continue;
        float w[PACK], b[PACK] = {};
        unpack(weight + column, w);
        if (!Rms) unpack(bias + column, b);
#pragma unroll
        for (int i = 0; i < PACK; i++)
            value[p][i] = (value[p][i] - mean) * inverse * w[i] + b[i];
        store(value[p], y + row * columns + column);
    }
}

/* Each block walks over rows and keeps its sums of the weight's and bias's gradients in registers;
 * norm_sum_kernel adds the blocks. */
template <bool Rms, int Packs>
__global__ void norm_backward_kernel(const bf16 *x, const bf16 *weight, const bf16 *dy,
                                     const float2 *statistics, bf16 *dx, float *partial,
                                     int64_t rows, int columns) {
    float d_weight[Packs][PACK] = {}, d_bias[Packs][PACK] = {};
    for (int64_t row = blockIdx.x; row < rows; row += gridDim.x) {
        const float2 s = statistics[row];
        float normal[Packs][PACK], gradient[Packs][PACK];
        float2 sum = { 0, 0 };
#pragma unroll
        for (int p = 0; p < Packs; p++) {
            const int column = (p * NORM_THREADS + (int)threadIdx.x) * PACK;
            if (column >= columns) continue;
            float w[PACK];
            unpack(x + row * columns + column, normal[p]);
            unpack(dy + row * columns + column, gradient[p]);
            unpack(weight + column, w);
#pragma unroll
            for (int i = 0; i < PACK; i++) {
                normal[p][i] = (normal[p][i] - s.x) * s.y;
                d_weight[p][i] += gradient[p][i] * normal[p][i];
                if (!Rms) d_bias[p][i] += gradient[p][i];
                gradient[p][i] *= w[i];
                sum.x += gradient[p][i];
                sum.y += gradient[p][i] * normal[p][i];
            }
        }
        sum = block_sum(sum);
        const float centre = Rms ? 0 : sum.x / (float)columns, slope = sum.y / (float)columns;
#pragma unroll
        for (int p = 0; p < Packs; p++) {
            const int column = (p * NORM_THREADS + (int)threadIdx.x) * PACK;
            if (column >= columns) continue;
#pragma unroll
            for (int i = 0; i < PACK; i++)
                gradient[p][i] = s.y * (gradient[p][i] - centre - normal[p][i] * slope);
            store(gradient[p], dx + row * columns + column);
        }
    }
    float *mine = partial + (int64_t)blockIdx.x * 2 * columns;
#pragma unroll
    for (int p = 0; p < Packs; p++) {
        const int column = (p * NORM_THREADS + (int)threadIdx.x) * PACK;
        if (column >= columns) continue;
#pragma unroll
        for (int i = 0; i < PACK; i++) {
            mine[column + i] = d_weight[p][i];
            if (!Rms) mine[columns + column + i] = d_bias[p][i];
        }
    }
}

static __global__ void norm_sum_kernel(const float *partial, float *out, int block_count, int width,
                                       int stride) {
    const int column = (int)(blockIdx.x * blockDim.x + threadIdx.x);
    if (column >= width) return;
    float sum = 0;
    for (int b = 0; b < block_count; b++)
        sum += partial[(int64_t)b * stride + column];
    out[column] = sum;
}

/* Calls with the least number of packs that holds a row. */
#define NORM_BY_WIDTH(kernel, columns, ...)                                                        \
    do {                                                                                           \
        assert((columns) <= NORM_COLUMNS_MAX);                                                     \
        const int packs_ = ((columns) + PACK * NORM_THREADS - 1) / (PACK * NORM_THREADS);          \
        if (packs_ <= 1)                                                                           \
            kernel<Rms, 1> __VA_ARGS__;                                                            \
        else if (packs_ <= 2)                                                                      \
            kernel<Rms, 2> __VA_ARGS__;                                                            \
        else if (packs_ <= 3)                                                                      \
            kernel<Rms, 3> __VA_ARGS__;                                                            \
        else                                                                                       \
            kernel<Rms, 4> __VA_ARGS__;                                                            \
        CUDA_CHECK(cudaGetLastError());                                                            \
    } while (0)

template <bool Rms>
static void norm_forward(cudaStream_t stream, const bf16 *x, const bf16 *weight, const bf16 *bias,
                         bf16 *y, float2 *statistics, int64_t rows, int columns) {
    NORM_BY_WIDTH(
        norm_forward_kernel, columns,
        <<<(unsigned)rows, NORM_THREADS, 0, stream>>>(x, weight, bias, y, statistics, columns));
}

static inline int norm_backward_blocks(const struct bench_device *device) {
    return 2 * device->properties.multiProcessorCount;
}

/* `partial`: blocks x 2 x columns floats. d_parameters: gradients of weight, then of bias. */
template <bool Rms>
static void norm_backward(cudaStream_t stream, const bf16 *x, const bf16 *weight, const bf16 *dy,
                          const float2 *statistics, bf16 *dx, float *partial, float *d_parameters,
                          int64_t rows, int columns, int block_count) {
    const int width = Rms ? columns : 2 * columns;
    NORM_BY_WIDTH(norm_backward_kernel, columns,
                  <<<(unsigned)block_count, NORM_THREADS, 0, stream>>>(x, weight, dy, statistics,
                                                                       dx, partial, rows, columns));
    norm_sum_kernel<<<(unsigned)((width + 63) / 64), 64, 0, stream>>>(
        partial, d_parameters, block_count, width, 2 * columns);
    CUDA_CHECK(cudaGetLastError());
}

#endif
