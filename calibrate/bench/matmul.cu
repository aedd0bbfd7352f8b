/* matmul.cu - matmuls of a training step: forward, input gradient, weight gradient.
 *
 * Compile: nvcc -O3 -std=c++17 -arch=native -I<repository> matmul.cu -lcublasLt -ldl -o matmul
 * Measures: cuBLASLt in the layouts TN, NN and NT (fp32, accumulating) in bf16, and TN in fp8 where
 *   the GPU can, on normal random data that is not in L2. gemm.csv: isolated, at boost clock, what
 *   the fit reads. gemm_settled.csv: the same shapes run without pause until the time of a call is
 *   stable, which for long ones is the power limit.
 * Check: every layout and type on a small shape against a double-precision loop on the CPU.
 */
#include "calibrate/bench/blaslt_matmul.cuh"

/* ---- check ---- */

/* out (m x n) in the layouts of blaslt_matmul.cuh; operands as floats, row-major. */
static void reference(enum matmul_layout layout, int64_t m, int64_t n, int64_t k,
                      const float *first, const float *second, double *out) {
    for (int64_t i = 0; i < m; i++)
        for (int64_t j = 0; j < n; j++)
            for (int64_t d = 0; d < k; d++) {
                const double a = layout == MATMUL_NT ? second[d * m + i] : second[i * k + d];
                const double b = layout == MATMUL_TN ? first[j * k + d] : first[d * n + j];
                out[i * n + j] += a * b;
            }
}

template <class In>
static bool check(const struct bench_device *device, cublasLtHandle_t handle,
                  enum matmul_layout layout, enum matmul_type type) {
    const int64_t m = 128, n = 192, k = 256;
    struct blaslt_matmul p = blaslt_matmul_create(handle, layout, type, m, n, k);
    if (!p.supported) {
        fprintf(stderr, "cuBLASLt has no kernel for %s\n", matmul_layout_names[layout]);
        return false;
    }
    In *first = bench_random_array<In>(device->stream, n * k, 1);
    In *second = bench_random_array<In>(device->stream, m * k, 2);
    float *out = bench_random_array<float>(device->stream, m * n, 3);
    float *got = (float *)calloc((size_t)(m * n), sizeof(float));
    float *host_first = (float *)calloc((size_t)(n * k), sizeof(float));
    float *host_second = (float *)calloc((size_t)(m * k), sizeof(float));
    double *want = (double *)calloc((size_t)(m * n), sizeof(double));
    bench_fetch(device->stream, first, n * k, host_first);
    bench_fetch(device->stream, second, m * k, host_second);
    bench_fetch(device->stream, out, m * n, got);
    for (int64_t i = 0; i < m * n && p.accumulate; i++)
        want[i] = got[i];
    if (!p.accumulate) bench_poison(device->stream, out, (size_t)(m * n) * sizeof(float));
    reference(layout, m, n, k, host_first, host_second, want);
    blaslt_matmul_run(&p, first, second, out, device->stream);
    if (p.accumulate)
        bench_fetch(device->stream, out, m * n, got);
    else
        bench_fetch(device->stream, (const bf16 *)out, m * n, got);
    /* bf16 keeps 8 bits; fp8 also accumulates with few. */
    const double tolerance = type == MATMUL_FP8 ? 2e-2 : p.accumulate ? 1e-4 : 5e-3;
    char what[96];
    snprintf(what, sizeof what, "matmul %s %s", type == MATMUL_FP8 ? "fp8" : "bf16",
             matmul_layout_names[layout]);
    const bool ok = bench_check(what, got, want, m * n, tolerance);
    cudaFree(first);
    cudaFree(second);
    cudaFree(out);
    free(got);
    free(host_first);
    free(host_second);
    free(want);
    blaslt_matmul_destroy(&p);
    return ok;
}

/* ---- sweep ---- */

/* Isolated runs come first, all of them: a GPU that was at its power limit stays slow for a while. */
enum pass { PASS_ISOLATED, PASS_SETTLED, PASS_COUNT };

struct sweep {
    const struct bench_device *device;
    cublasLtHandle_t handle;
    bool quick;
    enum pass pass;
    struct bench_csv csv[PASS_COUNT];
};

/* Short kernels wait for memory or launches and never reach the power limit. */
#define SETTLED_LEAST_US 50

template <class In>
static void measure(struct sweep *s, enum matmul_layout layout, enum matmul_type type, int64_t m,
                    int64_t n, int64_t k) {
    const char *dtype = type == MATMUL_FP8 ? "fp8" : "bf16";
    struct blaslt_matmul p = blaslt_matmul_create(s->handle, layout, type, m, n, k);
    if (!p.supported) {
        fprintf(stderr, "cuBLASLt has no %s kernel for %s, %lld x %lld x %lld: left out\n", dtype,
                matmul_layout_names[layout], (long long)m, (long long)n, (long long)k);
        blaslt_matmul_destroy(&p);
        return;
    }
    const int64_t out_bytes = m * n * (p.accumulate ? 4 : 2);
    const double call_bytes = (double)(m * k + n * k) * sizeof(In) + (double)out_bytes;
    const int copies = bench_copy_count(s->device, call_bytes);
    In *first = bench_random_array<In>(s->device->stream, n * k * copies, 1);
    In *second = bench_random_array<In>(s->device->stream, m * k * copies, 2);
    char *out = bench_device_array<char>(out_bytes * copies);
    CUDA_CHECK(cudaMemsetAsync(out, 0, (size_t)(out_bytes * copies), s->device->stream));
    const auto launch = [&](int i) {
        const int64_t copy = i % copies;
        blaslt_matmul_run(&p, first + copy * n * k, second + copy * m * k, out + copy * out_bytes,
                          s->device->stream);
    };
    char framework[128];
    snprintf(framework, sizeof framework, "cublasLt %zu %s", cublasLtGetVersion(),
             matmul_layout_names[layout]);
    struct bench_csv *csv = &s->csv[s->pass];
    if (s->pass == PASS_ISOLATED) {
        const struct bench_sample isolated = bench_time_isolated(s->device, s->quick, launch);
        bench_csv_gemm(csv, &s->device->place, dtype, m, n, k, framework, &isolated);
    } else {
        const struct bench_timer timer = bench_timer_create();
        const double estimate_us = bench_estimate_us(s->device->stream, timer, launch);
        bench_timer_destroy(timer);
        if (estimate_us > SETTLED_LEAST_US) {
            const struct bench_sample settled = bench_time_settled(s->device, s->quick, launch);
            bench_csv_gemm(csv, &s->device->place, dtype, m, n, k, framework, &settled);
        }
    }
    cudaFree(first);
    cudaFree(second);
    cudaFree(out);
    blaslt_matmul_destroy(&p);
}

/* Weights of the layers of InternViT-6B (3200), Llama3-8B (4096), Qwen2-32B (5120) and Llama3-70B
 * (8192), whole and divided by tensor parallelism, and squares. */
static const struct weight {
    int64_t out, in;
    bool quick;
} weights[] = {
    { 9600, 3200, true },   { 3200, 3200, true },  { 12800, 3200, true },  { 3200, 12800, true },
    { 6144, 4096, true },   { 4096, 4096, true },  { 28672, 4096, true },  { 4096, 14336, true },
    { 7168, 5120, false },  { 5120, 5120, false }, { 55296, 5120, false }, { 5120, 27648, true },
    { 10240, 8192, false }, { 8192, 8192, true },  { 57344, 8192, false }, { 8192, 28672, false },
    { 1024, 1024, false },  { 2048, 2048, true },  { 512, 4096, false },   { 4096, 512, true },
    { 3584, 4096, false },  { 4096, 1792, false }, { 1600, 3200, false },  { 3200, 1600, false },
    { 256, 8192, false },   { 8192, 256, false },  { 128, 4096, false },   { 4096, 128, false },
};
static const struct {
    int64_t count;
    bool quick;
} token_counts[] = { { 512, false },  { 1024, true },  { 2048, false }, { 4096, true },
                     { 8192, false }, { 16384, true }, { 32768, false } };
enum {
    WEIGHT_COUNT = sizeof weights / sizeof weights[0],
    TOKENS_COUNT = sizeof token_counts / sizeof token_counts[0]
};

static void sweep_shape(struct sweep *s, const struct weight *w, int64_t tokens, bool fp8) {
    measure<bf16>(s, MATMUL_TN, MATMUL_BF16, tokens, w->out, w->in);
    measure<bf16>(s, MATMUL_NN, MATMUL_BF16, tokens, w->in, w->out);
    measure<bf16>(s, MATMUL_NT, MATMUL_BF16, w->out, w->in, tokens);
    if (fp8) measure<__nv_fp8_e4m3>(s, MATMUL_TN, MATMUL_FP8, tokens, w->out, w->in);
}

int main(int argc, char **argv) {
    struct bench_options options;
    const int code = bench_options_read(
        argc, argv, "Matmuls of a training step by cuBLASLt: gemm.csv and gemm_settled.csv.", NULL,
        0, &options);
    if (code >= 0) return code;
    struct bench_device *device = bench_device_open(0);
    if (options.device_json != NULL) bench_write_device(device, options.device_json);
    cublasLtHandle_t handle;
    BLASLT_CHECK(cublasLtCreate(&handle));
    const int capability = 10 * device->properties.major + device->properties.minor;
    const bool fp8 = capability >= 89;
    if (!fp8) fprintf(stderr, "%s has no fp8 matmul: left out\n", device->properties.name);
    if (!check<bf16>(device, handle, MATMUL_TN, MATMUL_BF16) ||
        !check<bf16>(device, handle, MATMUL_NN, MATMUL_BF16) ||
        !check<bf16>(device, handle, MATMUL_NT, MATMUL_BF16) ||
        (fp8 && !check<__nv_fp8_e4m3>(device, handle, MATMUL_TN, MATMUL_FP8)))
        return BENCH_FAILED;
    if (options.check_only) return BENCH_DONE;

    struct sweep s = { device,
                       handle,
                       options.quick,
                       PASS_ISOLATED,
                       { bench_csv_open(options.directory, "gemm.csv", BENCH_GEMM_COLUMNS),
                         bench_csv_open(options.directory, "gemm_settled.csv",
                                        BENCH_GEMM_COLUMNS) } };
    int total = 0, done = 0;
    for (int pass = -1; pass < PASS_COUNT; pass++) /* -1 counts */
        for (int w = 0; w < WEIGHT_COUNT; w++)
            for (int t = 0; t < TOKENS_COUNT; t++) {
                if (options.quick && !(weights[w].quick && token_counts[t].quick)) continue;
                if (pass < 0) {
                    total += PASS_COUNT;
                    continue;
                }
                s.pass = (enum pass)pass;
                sweep_shape(&s, &weights[w], token_counts[t].count, fp8);
                char what[64];
                snprintf(what, sizeof what, "%s, %lld tokens, %lld x %lld",
                         pass == PASS_ISOLATED ? "isolated" : "settled",
                         (long long)token_counts[t].count, (long long)weights[w].out,
                         (long long)weights[w].in);
                bench_progress(++done, total, what);
            }
    cublasLtDestroy(handle);
    const bool closed = bench_csv_close(&s.csv[PASS_ISOLATED]);
    return bench_csv_close(&s.csv[PASS_SETTLED]) && closed ? BENCH_DONE : BENCH_FAILED;
}
