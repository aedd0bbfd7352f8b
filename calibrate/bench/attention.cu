/* attention.cu - fused attention, forward and backward.
 *
 * Compile: nvcc -O3 -std=c++17 -arch=native -I<repository> attention.cu -lcudnn -ldl -o attention
 * Measures: cuDNN's fused attention in bf16 by length, batch, heads, shared key heads, head size and
 *   mask, isolated, on normal random data. attention.csv.
 * Check: output and all three gradients on small shapes, causal and not, with shared key heads,
 *   against double-precision loops on the CPU.
 */
#include "calibrate/bench/cudnn_attention.cuh"

/* ---- check ---- */

/* Host copies as floats, in the memory order batch, position, head, element. */
struct host_attention {
    std::vector<float> q, k, v, d_out;
    std::vector<double> out, dq, dk, dv;
};

static std::vector<float> fetched(cudaStream_t stream, const void *from, int64_t count) {
    std::vector<float> out((size_t)count);
    bench_fetch(stream, (const bf16 *)from, count, out.data());
    return out;
}

/* One query row of one head: its probabilities, its output, and what it adds to the gradients. */
static void reference_row(const struct bench_attention_shape *s, struct host_attention *h,
                          int64_t batch, int64_t head, int64_t row) {
    const int64_t d = s->head_dim, kv_head = head / (s->heads / s->kv_heads);
    const int64_t keys = s->causal ? row + 1 : s->length;
    const int64_t q_at = ((batch * s->length + row) * s->heads + head) * d;
    const double scale = 1 / sqrt((double)d);
    const auto key_at = [&](int64_t key) {
        return ((batch * s->length + key) * s->kv_heads + kv_head) * d;
    };
    std::vector<double> p((size_t)keys), dp((size_t)keys);
    double greatest = -DBL_MAX, sum = 0, centre = 0;
    for (int64_t j = 0; j < keys; j++) {
        for (int64_t e = 0; e < d; e++)
            p[j] += scale * h->q[q_at + e] * h->k[key_at(j) + e];
        greatest = fmax(greatest, p[j]);
    }
    for (int64_t j = 0; j < keys; j++)
        sum += p[j] = exp(p[j] - greatest);
    for (int64_t j = 0; j < keys; j++) {
        p[j] /= sum;
        for (int64_t e = 0; e < d; e++) {
            h->out[q_at + e] += p[j] * h->v[key_at(j) + e];
            dp[j] += (double)h->d_out[q_at + e] * h->v[key_at(j) + e];
            h->dv[key_at(j) + e] += p[j] * h->d_out[q_at + e];
        }
        centre += p[j] * dp[j];
    }
    for (int64_t j = 0; j < keys; j++)
        for (int64_t e = 0; e < d; e++) {
            const double ds = scale * p[j] * (dp[j] - centre);
            h->dq[q_at + e] += ds * h->k[key_at(j) + e];
            h->dk[key_at(j) + e] += ds * h->q[q_at + e];
        }
}

static bool check(const struct bench_device *device, cudnnHandle_t handle,
                  const struct bench_attention_shape *s) {
    struct attention_set *set = attention_set_create(handle, device->stream, s);
    if (set == NULL || set->backward.plan == NULL) {
        fprintf(stderr, "cuDNN %zu has no fused attention for this GPU\n", cudnnGetVersion());
        return false;
    }
    void **at = set->pointers.at;
    const int64_t query = attention_elements(s, s->heads), key = attention_elements(s, s->kv_heads);
    struct host_attention h;
    h.q = fetched(device->stream, at[ATTENTION_Q], query);
    h.k = fetched(device->stream, at[ATTENTION_K], key);
    h.v = fetched(device->stream, at[ATTENTION_V], key);
    h.d_out = fetched(device->stream, at[ATTENTION_DO], query);
    h.out.resize((size_t)query);
    h.dq.resize((size_t)query);
    h.dk.resize((size_t)key);
    h.dv.resize((size_t)key);
    for (int64_t b = 0; b < s->batch; b++)
        for (int64_t head = 0; head < s->heads; head++)
            for (int64_t row = 0; row < s->length; row++)
                reference_row(s, &h, b, head, row);
    attention_set_forward(set);
    attention_set_backward(set, device->stream);
    const struct {
        const char *what;
        enum attention_tensor id;
        int64_t count;
        const std::vector<double> *want;
    } checks[] = {
        { "attention output", ATTENTION_O, query, &h.out },
        { "attention query gradient", ATTENTION_DQ, query, &h.dq },
        { "attention key gradient", ATTENTION_DK, key, &h.dk },
        { "attention value gradient", ATTENTION_DV, key, &h.dv },
    };
    bool ok = true;
    for (size_t i = 0; i < sizeof checks / sizeof checks[0]; i++) {
        const std::vector<float> got = fetched(device->stream, at[checks[i].id], checks[i].count);
        ok &=
            bench_check(checks[i].what, got.data(), checks[i].want->data(), checks[i].count, 2e-2);
    }
    attention_set_destroy(set);
    return ok;
}

/* ---- sweep ---- */

static void measure(const struct bench_device *device, cudnnHandle_t handle, bool quick,
                    struct bench_csv *csv, const struct bench_attention_shape *shape) {
    struct attention_set *set = attention_set_create(handle, device->stream, shape);
    char framework[64];
    snprintf(framework, sizeof framework, "cudnn %zu deterministic_bwd=False", cudnnGetVersion());
    if (set == NULL) {
        fprintf(stderr, "cuDNN has no kernel for head size %lld, length %lld: left out\n",
                (long long)shape->head_dim, (long long)shape->length);
        return;
    }
    const struct bench_sample forward =
        bench_time_isolated(device, quick, [&](int) { attention_set_forward(set); });
    bench_csv_attention(csv, &device->place, shape, false, framework, &forward);
    if (set->backward.plan != NULL) {
        const struct bench_sample backward = bench_time_isolated(
            device, quick, [&](int) { attention_set_backward(set, device->stream); });
        bench_csv_attention(csv, &device->place, shape, true, framework, &backward);
    } else {
        fprintf(stderr, "cuDNN has no backward kernel for head size %lld: left out\n",
                (long long)shape->head_dim);
    }
    attention_set_destroy(set);
}

/* Heads as in InternViT-6B (25 of 128), InternViT-300M (16 of 64), Llama3-8B (32 over 8), Qwen2-32B
 * (40 over 8), Llama3-70B (64 over 8) and their tensor-parallel shares. */
static const struct heads {
    int64_t heads, kv_heads, head_dim;
    bool causal, quick;
} head_kinds[] = {
    { 25, 25, 128, false, true }, { 16, 16, 64, false, true }, { 16, 16, 80, false, false },
    { 32, 8, 128, true, true },   { 40, 8, 128, true, false }, { 64, 8, 128, true, false },
    { 32, 32, 128, true, false }, { 8, 2, 128, true, false },  { 8, 8, 128, true, false },
    { 16, 16, 64, true, false },  { 8, 8, 256, true, false },
};
enum { HEADS_COUNT = sizeof head_kinds / sizeof head_kinds[0] };

/* Lengths from one tile to a long context; a launch has at most this many tokens. */
#define TOKENS_MAX 32768

static int sweep(const struct bench_device *device, cudnnHandle_t handle, bool quick,
                 struct bench_csv *csv, int total) {
    static const int64_t lengths[] = { 256, 577, 1025, 2048, 4096, 8192, 16384, 32768 };
    int done = 0;
    for (int k = 0; k < HEADS_COUNT; k++)
        for (size_t l = 0; l < sizeof lengths / sizeof lengths[0]; l++)
            for (int64_t batch = 1; batch <= 32; batch *= quick ? 8 : 4) {
                const struct heads *h = &head_kinds[k];
                const struct bench_attention_shape shape = { batch,       lengths[l],  h->heads,
                                                             h->kv_heads, h->head_dim, h->causal };
                /* A vision encoder sees no longer sequence than a few tiles. */
                if (batch * lengths[l] > TOKENS_MAX || (!h->causal && lengths[l] > 8192)) continue;
                if (quick && (!h->quick || lengths[l] == 256 || lengths[l] == 2048)) continue;
                if (csv != NULL) {
                    measure(device, handle, quick, csv, &shape);
                    char what[96];
                    snprintf(what, sizeof what, "%lld x %lld, %lld heads of %lld", (long long)batch,
                             (long long)lengths[l], (long long)h->heads, (long long)h->head_dim);
                    bench_progress(done + 1, total, what);
                }
                done++;
            }
    return done;
}

int main(int argc, char **argv) {
    struct bench_options options;
    const int code = bench_options_read(
        argc, argv, "Fused attention by cuDNN, forward and backward: attention.csv.", NULL, 0,
        &options);
    if (code >= 0) return code;
    struct bench_device *device = bench_device_open(0);
    if (options.device_json != NULL) bench_write_device(device, options.device_json);
    cudnnHandle_t handle;
    CUDNN_CHECK(cudnnCreate(&handle));
    CUDNN_CHECK(cudnnSetStream(handle, device->stream));
    const struct bench_attention_shape small[] = { { 2, 128, 4, 2, 64, true },
                                                   { 1, 256, 2, 2, 128, false } };
    if (!check(device, handle, &small[0]) || !check(device, handle, &small[1])) return BENCH_FAILED;
    if (options.check_only) return BENCH_DONE;
    struct bench_csv csv =
        bench_csv_open(options.directory, "attention.csv", BENCH_ATTENTION_COLUMNS);
    const int total = sweep(device, handle, options.quick, NULL, 0);
    sweep(device, handle, options.quick, &csv, total);
    cudnnDestroy(handle);
    return bench_csv_close(&csv) ? BENCH_DONE : BENCH_FAILED;
}
