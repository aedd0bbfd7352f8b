/* streaming.cu - memory-bound kernels: norms, activations, residual, copy, streams.
 *
 * Compile: nvcc -O3 -std=c++17 -arch=native -I<repository> streaming.cu -ldl -o streaming
 * Measures: RMS and layer norm forward and backward, GELU and gated SiLU forward and backward,
 *   residual add, copy (bf16), scale and triad (fp32), isolated, on data that is not in L2.
 *   membw.csv, with the bytes that a kernel must move over the time it takes.
 * Check: every kernel on a small shape against a double-precision loop on the CPU.
 */
#include <vector>
#include "calibrate/bench/streaming_kernels.cuh"

#define FRAMEWORK "ballast fused bf16"

/* ---- check ---- */

struct small {
    enum { ROWS = 33, COLUMNS = 1000, COUNT = ROWS * COLUMNS };
    bf16 *a, *b, *c, *out, *out2, *weight, *bias;
    std::vector<float> ha, hb, hc, hweight, hbias;
};

static std::vector<float> fetched(cudaStream_t stream, const bf16 *from, int64_t count) {
    std::vector<float> out((size_t)count);
    bench_fetch(stream, from, count, out.data());
    return out;
}

/* Ends the list of checks of one kernel: what the GPU wrote against what it should have. */
static bool same(cudaStream_t stream, const char *what, bf16 *got, const std::vector<double> &want,
                 double tolerance = 5e-3) {
    const std::vector<float> host = fetched(stream, got, (int64_t)want.size());
    bench_poison(stream, got, want.size() * sizeof(bf16));
    return bench_check(what, host.data(), want.data(), (int64_t)want.size(), tolerance);
}

static double gelu(double a) {
    return 0.5 * a * (1 + erf(a / sqrt(2.0)));
}

static bool check_elementwise(cudaStream_t stream, const struct small *s) {
    std::vector<double> copied, added, activated, activated_back, gated, gate_back, value_back;
    for (int i = 0; i < small::COUNT; i++) {
        const double a = s->ha[i], b = s->hb[i], c = s->hc[i], sigmoid = 1 / (1 + exp(-a));
        copied.push_back(a);
        added.push_back(a + b);
        activated.push_back(gelu(a));
        /* by difference: no formula shared with the kernel */
        activated_back.push_back(b * (gelu(a + 1e-5) - gelu(a - 1e-5)) / 2e-5);
        gated.push_back(a * sigmoid * b);
        gate_back.push_back(c * b * (sigmoid + a * sigmoid * (1 - sigmoid)));
        value_back.push_back(c * a * sigmoid);
    }
    bool ok = true;
    elementwise<op_copy, 1>(stream, s->a, NULL, s->out, small::COUNT);
    ok &= same(stream, "copy", s->out, copied);
    elementwise<op_add, 2>(stream, s->a, s->b, s->out, small::COUNT);
    ok &= same(stream, "residual add", s->out, added);
    elementwise<op_gelu, 1>(stream, s->a, NULL, s->out, small::COUNT);
    ok &= same(stream, "gelu", s->out, activated);
    elementwise<op_gelu_gradient, 2>(stream, s->a, s->b, s->out, small::COUNT);
    ok &= same(stream, "gelu gradient", s->out, activated_back);
    elementwise<op_silu_gate, 2>(stream, s->a, s->b, s->out, small::COUNT);
    ok &= same(stream, "silu gate", s->out, gated);
    silu_gate_gradient(stream, s->a, s->b, s->c, s->out, s->out2, small::COUNT);
    ok &= same(stream, "silu gate gradient", s->out, gate_back);
    return same(stream, "silu value gradient", s->out2, value_back) && ok;
}

static bool check_streams(cudaStream_t stream) {
    const int64_t count = 4096;
    float *a = bench_random_array<float>(stream, count, 5);
    float *b = bench_random_array<float>(stream, count, 6);
    float *out = bench_device_array<float>(count);
    std::vector<float> ha((size_t)count), hb((size_t)count), got((size_t)count);
    bench_fetch(stream, a, count, ha.data());
    bench_fetch(stream, b, count, hb.data());
    bool ok = true;
    for (int triad = 0; triad < 2; triad++) {
        std::vector<double> want;
        for (int64_t i = 0; i < count; i++)
            want.push_back(triad ? ha[i] + 0.4 * hb[i] : 0.4 * ha[i]);
        bench_poison(stream, out, (size_t)count * sizeof(float));
        if (triad)
            stream_floats<true>(stream, a, b, out, count);
        else
            stream_floats<false>(stream, a, b, out, count);
        bench_fetch(stream, out, count, got.data());
        ok &= bench_check(triad ? "triad" : "scale", got.data(), want.data(), count, 1e-6);
    }
    cudaFree(a);
    cudaFree(b);
    cudaFree(out);
    return ok;
}

template <bool Rms>
static bool check_norm(const struct bench_device *device, const struct small *s) {
    const cudaStream_t stream = device->stream;
    const int rows = small::ROWS, columns = small::COLUMNS, blocks = norm_backward_blocks(device);
    std::vector<double> y(small::COUNT), dx(small::COUNT), d_parameters(2 * columns);
    for (int r = 0; r < rows; r++) {
        const float *x = &s->ha[r * columns], *dy = &s->hb[r * columns];
        double mean = 0, square = 0, sum = 0, product = 0;
        for (int c = 0; c < columns && !Rms; c++)
            mean += x[c] / (double)columns;
        for (int c = 0; c < columns; c++)
            square += (x[c] - mean) * (x[c] - mean) / columns;
        const double sigma = sqrt(square + NORM_EPSILON);
        for (int c = 0; c < columns; c++) {
            const double normal = (x[c] - mean) / sigma, g = (double)dy[c] * s->hweight[c];
            y[r * columns + c] = normal * s->hweight[c] + (Rms ? 0 : s->hbias[c]);
            d_parameters[c] += dy[c] * normal;
            if (!Rms) d_parameters[columns + c] += dy[c];
            if (!Rms) sum += g / columns;
            product += g * normal / columns;
        }
        for (int c = 0; c < columns; c++)
            dx[r * columns + c] =
                ((double)dy[c] * s->hweight[c] - sum - (x[c] - mean) / sigma * product) / sigma;
    }
    float2 *statistics = bench_device_array<float2>(rows);
    float *partial = bench_device_array<float>(2 * (int64_t)blocks * columns);
    float *gradient = bench_device_array<float>(2 * columns);
    std::vector<float> got(Rms ? columns : 2 * columns);
    norm_forward<Rms>(stream, s->a, s->weight, s->bias, s->out, statistics, rows, columns);
    bool ok = same(stream, Rms ? "rms norm" : "layer norm", s->out, y);
    norm_backward<Rms>(stream, s->a, s->weight, s->b, statistics, s->out, partial, gradient, rows,
                       columns, blocks);
    ok &= same(stream, Rms ? "rms norm backward" : "layer norm backward", s->out, dx);
    bench_fetch(stream, gradient, (int64_t)got.size(), got.data());
    ok &= bench_check(Rms ? "rms norm weight gradient" : "layer norm parameter gradients",
                      got.data(), d_parameters.data(), (int64_t)got.size(), 1e-4);
    cudaFree(statistics);
    cudaFree(partial);
    cudaFree(gradient);
    return ok;
}

/* Turning forth and back must give the input again, and turning must move every row but the first
 * as far as the CPU says. */
static bool check_rotary(cudaStream_t stream) {
    const int64_t rows = 24, columns = 256, length = 12;
    const int head_dim = 64;
    bf16 *x = bench_random_array<bf16>(stream, rows * columns, 8);
    const std::vector<float> before = fetched(stream, x, rows * columns);
    std::vector<double> want((size_t)(rows * columns)), same_again(before.begin(), before.end());
    for (int64_t r = 0; r < rows; r++)
        for (int64_t c = 0; c < columns; c++) {
            const int64_t in = c % head_dim, half = head_dim / 2, pair = in % half;
            const double angle = (double)(r % length) * pow(10000.0, -(double)pair / half);
            const double own = before[r * columns + c];
            const double other = before[r * columns + (in < half ? c + half : c - half)];
            want[r * columns + c] = own * cos(angle) + (in < half ? -other : other) * sin(angle);
        }
    rotary(stream, x, rows, columns, columns, head_dim, length, false);
    const std::vector<float> turned = fetched(stream, x, rows * columns);
    rotary(stream, x, rows, columns, columns, head_dim, length, true);
    const std::vector<float> back = fetched(stream, x, rows * columns);
    cudaFree(x);
    return bench_check("rotary", turned.data(), want.data(), rows * columns, 5e-3) &&
           bench_check("rotary backward", back.data(), same_again.data(), rows * columns, 1e-2);
}

static bool check(const struct bench_device *device) {
    const cudaStream_t stream = device->stream;
    struct small s;
    bf16 **arrays[] = { &s.a, &s.b, &s.c, &s.weight, &s.bias };
    std::vector<float> *hosts[] = { &s.ha, &s.hb, &s.hc, &s.hweight, &s.hbias };
    for (int i = 0; i < 5; i++) {
        *arrays[i] = bench_random_array<bf16>(stream, small::COUNT, (uint64_t)i + 1);
        *hosts[i] = fetched(stream, *arrays[i], small::COUNT);
    }
    s.out = bench_device_array<bf16>(small::COUNT);
    s.out2 = bench_device_array<bf16>(small::COUNT);
    bench_poison(stream, s.out, small::COUNT * sizeof(bf16));
    bench_poison(stream, s.out2, small::COUNT * sizeof(bf16));
    bool ok = check_elementwise(stream, &s);
    ok &= check_streams(stream);
    ok &= check_norm<true>(device, &s);
    ok &= check_norm<false>(device, &s);
    ok &= check_rotary(stream);
    for (int i = 0; i < 5; i++)
        cudaFree(*arrays[i]);
    cudaFree(s.out);
    cudaFree(s.out2);
    return ok;
}

/* ---- sweep ---- */

struct sweep {
    const struct bench_device *device;
    bool quick;
    struct bench_csv csv;
    bf16 *pool; /* random; cut into the tensors of each kernel */
    int64_t pool_count;
};

/* Room for copies of one kernel's tensors, so that none is in L2 when its turn comes. */
#define POOL_BYTES (6.0e9)

/* Times a kernel over `tensors` tensors of `count` elements, of which `bytes` move a call. */
template <class Launch>
static void measure(struct sweep *s, const char *test, int64_t tensors, int64_t count, double bytes,
                    const char *framework, Launch launch) {
    int copies = bench_copy_count(s->device, bytes);
    if (copies * tensors * count > s->pool_count) copies = (int)(s->pool_count / (tensors * count));
    if (copies < 1) return;
    const struct bench_sample sample = bench_time_isolated(
        s->device, s->quick, [&](int i) { launch(s->pool + i % copies * tensors * count); });
    bench_csv_membw(&s->csv, &s->device->place, test, bytes, framework, &sample);
}

template <bool Rms> static void measure_norm(struct sweep *s, int64_t rows, int columns) {
    const int64_t count = rows * columns;
    const int blocks = norm_backward_blocks(s->device);
    const cudaStream_t stream = s->device->stream;
    float2 *statistics = bench_device_array<float2>(rows);
    float *partial = bench_device_array<float>(2 * (int64_t)blocks * columns);
    float *gradient = bench_device_array<float>(2 * columns);
    bf16 *parameters = bench_random_array<bf16>(stream, 2 * columns, 9);
    char test[96];
    snprintf(test, sizeof test, "%s-fwd N=%lld C=%d", Rms ? "rms_norm" : "layer_norm",
             (long long)rows, columns);
    measure(s, test, 2, count, 2.0 * 2 * (double)count, FRAMEWORK, [&](bf16 *at) {
        norm_forward<Rms>(stream, at, parameters, parameters + columns, at + count, statistics,
                          rows, columns);
    });
    snprintf(test, sizeof test, "%s-bwd N=%lld C=%d", Rms ? "rms_norm" : "layer_norm",
             (long long)rows, columns);
    measure(s, test, 3, count, 3.0 * 2 * (double)count, FRAMEWORK, [&](bf16 *at) {
        norm_backward<Rms>(stream, at, parameters, at + count, statistics, at + 2 * count, partial,
                           gradient, rows, columns, blocks);
    });
    cudaFree(statistics);
    cudaFree(partial);
    cudaFree(gradient);
    cudaFree(parameters);
}

static void measure_elementwise(struct sweep *s, int64_t tokens, int64_t width) {
    const cudaStream_t stream = s->device->stream;
    const int64_t count = tokens * width;
    const double tensor_bytes = 2.0 * (double)count;
    char test[96];
    const auto name = [&](const char *what) {
        snprintf(test, sizeof test, "%s tokens=%lld width=%lld", what, (long long)tokens,
                 (long long)width);
        return test;
    };
    measure(s, name("copy"), 2, count, 2 * tensor_bytes, FRAMEWORK,
            [&](bf16 *at) { elementwise<op_copy, 1>(stream, at, NULL, at + count, count); });
    measure(s, name("residual add"), 3, count, 3 * tensor_bytes, FRAMEWORK, [&](bf16 *at) {
        elementwise<op_add, 2>(stream, at, at + count, at + 2 * count, count);
    });
    measure(s, name("gelu-fwd"), 2, count, 2 * tensor_bytes, FRAMEWORK,
            [&](bf16 *at) { elementwise<op_gelu, 1>(stream, at, NULL, at + count, count); });
    measure(s, name("gelu-bwd"), 3, count, 3 * tensor_bytes, FRAMEWORK, [&](bf16 *at) {
        elementwise<op_gelu_gradient, 2>(stream, at, at + count, at + 2 * count, count);
    });
    measure(s, name("silu*mul-fwd"), 3, count, 3 * tensor_bytes, FRAMEWORK, [&](bf16 *at) {
        elementwise<op_silu_gate, 2>(stream, at, at + count, at + 2 * count, count);
    });
    measure(s, name("silu*mul-bwd"), 5, count, 5 * tensor_bytes, FRAMEWORK, [&](bf16 *at) {
        silu_gate_gradient(stream, at, at + count, at + 2 * count, at + 3 * count, at + 4 * count,
                           count);
    });
}

static void measure_streams(struct sweep *s) {
    const cudaStream_t stream = s->device->stream;
    const int64_t count = 1 << 28; /* floats: 1 GiB a tensor, in elements of the pool twice that */
    measure(s, "stream-scale", 2, 2 * count, 2 * 4.0 * (double)count, "ballast fp32",
            [&](bf16 *at) {
                stream_floats<false>(stream, (float *)at, NULL, (float *)at + count, count);
            });
    measure(s, "stream-triad", 2, 3 * count, 3 * 4.0 * (double)count, "ballast fp32",
            [&](bf16 *at) {
                stream_floats<true>(stream, (float *)at, (float *)at + count,
                                    (float *)at + 2 * count, count);
            });
}

int main(int argc, char **argv) {
    struct bench_options options;
    const int code = bench_options_read(
        argc, argv, "Memory-bound kernels of a transformer layer: membw.csv.", NULL, 0, &options);
    if (code >= 0) return code;
    struct bench_device *device = bench_device_open(0);
    if (options.device_json != NULL) bench_write_device(device, options.device_json);
    if (!check(device)) return BENCH_FAILED;
    if (options.check_only) return BENCH_DONE;

    struct sweep s = { device, options.quick,
                       bench_csv_open(options.directory, "membw.csv", BENCH_MEMBW_COLUMNS), NULL,
                       (int64_t)(POOL_BYTES / sizeof(bf16)) };
    s.pool = bench_random_array<bf16>(device->stream, s.pool_count, 7);
    static const int columns[] = { 1024, 3200, 4096, 5120, 6144, 8192 };
    static const int64_t tokens[] = { 1024, 4096, 16384, 32768 };
    static const int64_t widths[] = { 3200, 4096, 12800, 14336, 27648 };
    enum { COLUMNS = 6, TOKENS = 4, WIDTHS = 5, TOTAL = TOKENS + 1 };
    measure_streams(&s);
    bench_progress(1, TOTAL, "streams");
    for (int t = 0; t < TOKENS; t++) {
        for (int c = 0; c < COLUMNS; c++) {
            if (options.quick && c % 2 == 0) continue;
            measure_norm<true>(&s, tokens[t], columns[c]);
            measure_norm<false>(&s, tokens[t], columns[c]);
        }
        for (int w = 0; w < WIDTHS; w++)
            if (!options.quick || w % 2 == 1) measure_elementwise(&s, tokens[t], widths[w]);
        char what[64];
        snprintf(what, sizeof what, "%lld tokens", (long long)tokens[t]);
        bench_progress(t + 2, TOTAL, what);
    }
    cudaFree(s.pool);
    return bench_csv_close(&s.csv) ? BENCH_DONE : BENCH_FAILED;
}
