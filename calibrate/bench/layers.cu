/* layers.cu - one whole transformer layer, forward and backward, part by part.
 *
 * Compile: nvcc -O3 -std=c++17 -arch=native -I<repository> layers.cu -lcublasLt -ldl -o layers
 *   with attention: add -DBENCH_WITH_CUDNN -lcudnn
 * Measures: every part of one layer of InternViT-6B, Llama3-8B and Qwen2-32B (the share of one
 *   tensor-parallel rank with --tp, without its collectives): matmuls by cuBLASLt, norms and
 *   elementwise kernels of streaming_kernels.cuh, attention by cuDNN where it was found. The parts
 *   run in the order of a training step, again and again without pause, so that the GPU settles;
 *   events stand between them. layers.csv, and a table on stdout. Part names are those of
 *   `ballast explain`, so that its prices can be laid beside.
 * Check: none of its own: the kernels are those that matmul.cu, streaming.cu and attention.cu check.
 *   Each part has its own random input of the right size; results do not flow from part to part.
 */
#include <functional>
#include <vector>
#include "calibrate/bench/blaslt_matmul.cuh"
#include "calibrate/bench/streaming_kernels.cuh"
#ifdef BENCH_WITH_CUDNN
#include "calibrate/bench/cudnn_attention.cuh"
#endif

struct model {
    const char *name;
    int hidden, ffn, heads, kv_heads, head_dim;
    bool gated, rms, causal, rotary, qk_norm, layer_scale;
    int length; /* usual length of a sequence: tokens of an image tile, or of a packed text */
};

static const struct model models[] = {
    { "internvit-6b", 3200, 12800, 25, 25, 128, false, true, false, false, true, true, 1025 },
    { "llama3-8b", 4096, 14336, 32, 8, 128, true, true, true, true, false, false, 4096 },
    { "qwen2-32b", 5120, 27648, 40, 8, 128, true, true, true, true, false, false, 4096 },
};
enum { MODEL_COUNT = sizeof models / sizeof models[0] };

/* ---- one rank's layer ---- */

struct sizes {
    int64_t batch, length, tokens;
    int hidden, ffn, up, heads, kv_heads, query, kv, qkv;
};

static struct sizes sizes_of(const struct model *m, int64_t tokens, int tp) {
    struct sizes s;
    s.length = m->length < tokens ? m->length : tokens;
    s.batch = (tokens + s.length / 2) / s.length;
    s.tokens = s.batch * s.length;
    s.hidden = m->hidden;
    s.ffn = m->ffn / tp;
    s.up = m->gated ? 2 * s.ffn : s.ffn;
    s.heads = m->heads / tp;
    s.kv_heads = m->kv_heads / tp;
    s.query = s.heads * m->head_dim;
    s.kv = s.kv_heads * m->head_dim;
    s.qkv = s.query + 2 * s.kv;
    return s;
}

struct part {
    const char *name, *pass, *kernel;
    double flop, bytes;
    std::function<void()> run;
    std::vector<double> times_us;
    cudaEvent_t stop;
};

struct layer {
    const struct bench_device *device;
    const struct model *model;
    struct sizes s;
    cublasLtHandle_t handle;
    std::vector<void *> memory;
    std::vector<struct blaslt_matmul> plans;
    std::vector<struct part> parts;
    int forward_count; /* of the parts */
    bool complete;     /* every matmul and attention has a kernel */
};

static bf16 *tensor(struct layer *l, int64_t count, float scale = 1) {
    bf16 *out = bench_device_array<bf16>(count);
    l->memory.push_back(out);
    bench_fill(l->device->stream, out, count, l->memory.size(), scale);
    return out;
}

static float *floats(struct layer *l, int64_t count) {
    float *out = bench_device_array<float>(count);
    l->memory.push_back(out);
    CUDA_CHECK(cudaMemsetAsync(out, 0, (size_t)count * sizeof(float), l->device->stream));
    return out;
}

static void add_part(struct layer *l, const char *name, const char *pass, const char *kernel,
                     double flop, double bytes, std::function<void()> run) {
    struct part p = { name, pass, kernel, flop, bytes, run, {}, NULL };
    CUDA_CHECK(cudaEventCreate(&p.stop));
    l->parts.push_back(p);
}

static void add_matmul(struct layer *l, const char *name, const char *pass,
                       enum matmul_layout layout, int64_t m, int64_t n, int64_t k) {
    const struct blaslt_matmul plan = blaslt_matmul_create(l->handle, layout, MATMUL_BF16, m, n, k);
    l->plans.push_back(plan);
    if (!plan.supported) {
        fprintf(stderr, "cuBLASLt has no kernel for %s of %s\n", name, l->model->name);
        l->complete = false;
        return;
    }
    const bf16 *first = tensor(l, n * k, layout == MATMUL_NT ? 1 : 1 / sqrtf((float)k));
    const bf16 *second = tensor(l, m * k);
    void *out = layout == MATMUL_NT ? (void *)floats(l, m * n) : (void *)tensor(l, m * n);
    const double out_bytes = (double)(m * n) * (layout == MATMUL_NT ? 8 : 2);
    const cudaStream_t stream = l->device->stream;
    add_part(l, name, pass, matmul_layout_names[layout], 2.0 * (double)m * (double)n * (double)k,
             2.0 * (double)(m * k + n * k) + out_bytes,
             [=] { blaslt_matmul_run(&plan, first, second, out, stream); });
}

/* A matmul hidden -> out (or in -> hidden) and its two gradients. */
static void add_linear(struct layer *l, const char *name, int64_t out, int64_t in) {
    add_matmul(l, name, "forward", MATMUL_TN, l->s.tokens, out, in);
}

static void add_linear_gradients(struct layer *l, const char *name, int64_t out, int64_t in) {
    add_matmul(l, name, "input gradient", MATMUL_NN, l->s.tokens, in, out);
    add_matmul(l, name, "weight gradient", MATMUL_NT, out, in, l->s.tokens);
}

/* A norm over tensors of so many columns, each on its own: query and key have two. */
static void add_norm(struct layer *l, const char *name, bool backward, std::vector<int> columns) {
    const cudaStream_t stream = l->device->stream;
    const int64_t rows = l->s.tokens;
    const int blocks = norm_backward_blocks(l->device);
    std::vector<std::function<void()>> runs;
    double bytes = 0;
    for (size_t i = 0; i < columns.size(); i++) {
        const int width = columns[i];
        const bf16 *x = tensor(l, rows * width), *dy = tensor(l, rows * width);
        const bf16 *weight = tensor(l, width);
        bf16 *y = tensor(l, rows * width);
        float2 *statistics = (float2 *)floats(l, 2 * rows);
        float *partial = floats(l, 2 * (int64_t)blocks * width), *gradient = floats(l, 2 * width);
        bytes += (backward ? 3.0 : 2.0) * 2 * (double)rows * width;
        norm_forward<true>(stream, x, weight, NULL, y, statistics, rows, width);
        runs.push_back([=] {
            if (backward)
                norm_backward<true>(stream, x, weight, dy, statistics, y, partial, gradient, rows,
                                    width, blocks);
            else
                norm_forward<true>(stream, x, weight, NULL, y, statistics, rows, width);
        });
    }
    add_part(l, name, backward ? "backward" : "forward", "rms norm", 0, bytes, [=] {
        for (size_t i = 0; i < runs.size(); i++)
            runs[i]();
    });
}

/* Two tensors in, one out: residual add, sum of gradients, layer scale's gradient. */
static void add_residual(struct layer *l, const char *name, const char *pass) {
    const int64_t count = l->s.tokens * l->s.hidden;
    const bf16 *a = tensor(l, count), *b = tensor(l, count);
    bf16 *out = tensor(l, count);
    const cudaStream_t stream = l->device->stream;
    add_part(l, name, pass, "add", 0, 3 * 2.0 * (double)count,
             [=] { elementwise<op_add, 2>(stream, a, b, out, count); });
}

static void add_activation(struct layer *l, bool backward) {
    const int64_t count = l->s.tokens * l->s.ffn;
    const bool gated = l->model->gated;
    const bf16 *gate = tensor(l, count), *value = tensor(l, count), *gradient = tensor(l, count);
    bf16 *out = tensor(l, count), *out2 = tensor(l, count);
    const cudaStream_t stream = l->device->stream;
    const double tensors = backward ? (gated ? 5 : 3) : (gated ? 3 : 2);
    add_part(l, "activation", backward ? "backward" : "forward", gated ? "silu*mul" : "gelu", 0,
             tensors * 2 * (double)count, [=] {
                 if (gated && backward)
                     silu_gate_gradient(stream, gate, value, gradient, out, out2, count);
                 else if (gated)
                     elementwise<op_silu_gate, 2>(stream, gate, value, out, count);
                 else if (backward)
                     elementwise<op_gelu_gradient, 2>(stream, gate, gradient, out, count);
                 else
                     elementwise<op_gelu, 1>(stream, gate, NULL, out, count);
             });
}

static void add_rotary(struct layer *l, bool backward) {
    const struct sizes s = l->s;
    const int head_dim = l->model->head_dim;
    bf16 *x = tensor(l, s.tokens * (s.query + s.kv));
    const cudaStream_t stream = l->device->stream;
    add_part(l, "rotary", backward ? "backward" : "forward", "rotary", 0,
             2 * 2.0 * (double)s.tokens * (s.query + s.kv), [=] {
                 rotary(stream, x, s.tokens, s.query + s.kv, s.query + s.kv, head_dim, s.length,
                        backward);
             });
}

#ifdef BENCH_WITH_CUDNN
struct attention {
    cudnnHandle_t handle;
    struct attention_set *set; /* NULL: no kernel */
};

static struct attention attention_open(struct layer *l) {
    const struct bench_attention_shape shape = {
        l->s.batch, l->s.length, l->s.heads, l->s.kv_heads, l->model->head_dim, l->model->causal
    };
    struct attention a;
    CUDNN_CHECK(cudnnCreate(&a.handle));
    CUDNN_CHECK(cudnnSetStream(a.handle, l->device->stream));
    a.set = attention_set_create(a.handle, l->device->stream, &shape);
    if (a.set == NULL || a.set->backward.plan == NULL) {
        fprintf(stderr, "cuDNN has no attention kernel for %s\n", l->model->name);
        l->complete = false;
    }
    return a;
}

static void add_attention(struct layer *l, const struct attention *a, bool backward) {
    const struct attention_set *set = a->set;
    const cudaStream_t stream = l->device->stream;
    if (set == NULL || (backward && set->backward.plan == NULL)) return;
    const double query = (double)attention_elements(&set->shape, set->shape.heads);
    const double key = (double)attention_elements(&set->shape, set->shape.kv_heads);
    add_part(l, "attention", backward ? "backward" : "forward", "cudnn",
             bench_attention_flop(&set->shape, backward),
             backward ? 2 * (4 * query + 4 * key) : 2 * (2 * query + 2 * key), [=] {
                 if (backward)
                     attention_set_backward(set, stream);
                 else
                     attention_set_forward(set);
             });
}

static void attention_close(struct attention *a) {
    if (a->set != NULL) attention_set_destroy(a->set);
    cudnnDestroy(a->handle);
}
#else
/* Without cuDNN the layer is measured without its attention, which the first line says. */
struct attention {
    int none;
};
static struct attention attention_open(struct layer *l) {
    (void)l;
    fprintf(stderr, "built without cuDNN: attention is left out\n");
    return { 0 };
}
static void add_attention(struct layer *l, const struct attention *a, bool backward) {
    (void)l, (void)a, (void)backward;
}
static void attention_close(struct attention *a) {
    (void)a;
}
#endif

static void add_forward(struct layer *l, const struct attention *a) {
    const struct sizes *s = &l->s;
    add_norm(l, "attention norm", false, { s->hidden });
    add_linear(l, "qkv", s->qkv, s->hidden);
    if (l->model->qk_norm) add_norm(l, "qk norm", false, { s->query, s->kv });
    if (l->model->rotary) add_rotary(l, false);
    add_attention(l, a, false);
    add_linear(l, "proj", s->hidden, s->query);
    add_residual(l, "attention residual", "forward");
    add_norm(l, "mlp norm", false, { s->hidden });
    add_linear(l, "up", s->up, s->hidden);
    add_activation(l, false);
    add_linear(l, "down", s->hidden, s->ffn);
    add_residual(l, "mlp residual", "forward");
}

static void add_backward(struct layer *l, const struct attention *a) {
    const struct sizes *s = &l->s;
    if (l->model->layer_scale) add_residual(l, "mlp residual", "backward");
    add_linear_gradients(l, "down", s->hidden, s->ffn);
    add_activation(l, true);
    add_linear_gradients(l, "up", s->up, s->hidden);
    add_norm(l, "mlp norm", true, { s->hidden });
    add_residual(l, "mlp residual gradient", "backward");
    if (l->model->layer_scale) add_residual(l, "attention residual", "backward");
    add_linear_gradients(l, "proj", s->hidden, s->query);
    add_attention(l, a, true);
    if (l->model->rotary) add_rotary(l, true);
    if (l->model->qk_norm) add_norm(l, "qk norm", true, { s->query, s->kv });
    add_linear_gradients(l, "qkv", s->qkv, s->hidden);
    add_norm(l, "attention norm", true, { s->hidden });
    add_residual(l, "attention residual gradient", "backward");
}

/* ---- timing ---- */

enum { KEPT = 25 };

static void run_parts(struct layer *l, size_t from, size_t to) {
    for (size_t i = from; i < to; i++)
        l->parts[i].run();
}

/* One pass over the layer with an event after each part. */
static double time_parts(struct layer *l, cudaEvent_t start) {
    const cudaStream_t stream = l->device->stream;
    CUDA_CHECK(cudaEventRecord(start, stream));
    for (size_t i = 0; i < l->parts.size(); i++) {
        l->parts[i].run();
        CUDA_CHECK(cudaEventRecord(l->parts[i].stop, stream));
    }
    double total_us = 0;
    for (size_t i = 0; i < l->parts.size(); i++) {
        const double us =
            bench_timer_us({ i == 0 ? start : l->parts[i - 1].stop, l->parts[i].stop });
        l->parts[i].times_us.push_back(us);
        total_us += us;
    }
    return total_us;
}

/* The median of the last passes, when the GPU has settled. */
static struct bench_sample last_times(const struct bench_sample *state,
                                      std::vector<double> *times) {
    struct bench_sample sample = *state;
    const int count = times->size() < KEPT ? (int)times->size() : KEPT;
    sample.time_us = bench_stats_of(times->data() + (times->size() - count), count);
    return sample;
}

static void print_row(const struct part *p, const struct bench_sample *sample) {
    const double us = sample->time_us.median;
    printf("  %-28s %-16s %10.1f us", p->name, p->pass, us);
    if (p->flop > 0) printf("  %7.1f TFLOP/s", p->flop * 1e-6 / us);
    if (p->flop == 0 && p->bytes > 0) printf("  %7.0f GB/s", p->bytes * 1e-3 / us);
    printf("\n");
}

static void report(struct layer *l, struct bench_csv *csv, int tp, const struct part *p,
                   const struct bench_sample *sample) {
    const struct bench_part row = { l->model->name, p->pass, p->name, p->kernel,
                                    l->s.tokens,    tp,      p->flop, p->bytes };
    bench_csv_layer(csv, &l->device->place, &row, sample);
    print_row(p, sample);
}

static void time_layer(struct layer *l, struct bench_csv *csv, int tp, bool quick) {
    const cudaStream_t stream = l->device->stream;
    const struct bench_timer timer = bench_timer_create();
    struct bench_sample state = {};
    const double wanted_us = quick ? 1e6 : 4e6;
    double elapsed_us = 0;
    run_parts(l, 0, l->parts.size()); /* warm-up */
    while (elapsed_us < wanted_us || l->parts[0].times_us.size() < KEPT)
        elapsed_us += time_parts(l, timer.start);
    /* Whole passes without events inside, at once after, while the GPU is settled. */
    std::vector<double> whole[2];
    const size_t from[2] = { 0, (size_t)l->forward_count };
    const size_t to[2] = { (size_t)l->forward_count, l->parts.size() };
    for (int i = 0; i < KEPT; i++)
        for (int pass = 0; pass < 2; pass++) {
            CUDA_CHECK(cudaEventRecord(timer.start, stream));
            run_parts(l, from[pass], to[pass]);
            CUDA_CHECK(cudaEventRecord(timer.stop, stream));
            if (i == KEPT / 2) bench_read_state(l->device, &state);
            whole[pass].push_back(bench_timer_us(timer));
        }
    printf("%s, %lld tokens (%lld x %lld), tp %d\n", l->model->name, (long long)l->s.tokens,
           (long long)l->s.batch, (long long)l->s.length, tp);
    for (size_t i = 0; i < l->parts.size(); i++) {
        const struct bench_sample sample = last_times(&state, &l->parts[i].times_us);
        report(l, csv, tp, &l->parts[i], &sample);
    }
    for (int pass = 0; pass < 2; pass++) {
        struct part sum = { "layer", pass == 0 ? "forward" : "backward", "all parts", 0, 0, {}, {},
                            NULL };
        for (size_t i = from[pass]; i < to[pass]; i++)
            sum.flop += l->parts[i].flop;
        const struct bench_sample sample = last_times(&state, &whole[pass]);
        report(l, csv, tp, &sum, &sample);
    }
    bench_timer_destroy(timer);
}

static bool measure(const struct bench_device *device, cublasLtHandle_t handle,
                    const struct model *model, int64_t tokens, int tp, bool quick,
                    struct bench_csv *csv) {
    struct layer l = { device, model, sizes_of(model, tokens, tp), handle, {}, {}, {}, 0, true };
    struct attention a = attention_open(&l);
    add_forward(&l, &a);
    l.forward_count = (int)l.parts.size();
    add_backward(&l, &a);
    if (l.complete) time_layer(&l, csv, tp, quick);
    for (size_t i = 0; i < l.parts.size(); i++)
        cudaEventDestroy(l.parts[i].stop);
    for (size_t i = 0; i < l.plans.size(); i++)
        blaslt_matmul_destroy(&l.plans[i]);
    for (size_t i = 0; i < l.memory.size(); i++)
        cudaFree(l.memory[i]);
    attention_close(&a);
    return l.complete;
}

/* A whole number from 1; 0: not one. */
static int64_t whole_number(const char *text) {
    char *end;
    const long long value = strtoll(text, &end, 10);
    return *text != '\0' && *end == '\0' && value > 0 && value <= 1 << 20 ? value : 0;
}

int main(int argc, char **argv) {
    struct bench_options options;
    const char *name = NULL, *tokens_text = "8192", *tp_text = "1";
    const struct bench_extra extra[] = {
        { "--model", "NAME", "internvit-6b, llama3-8b or qwen2-32b (default all)", &name },
        { "--tokens", "N", "tokens of a micro-batch (default 8192)", &tokens_text },
        { "--tp", "N", "tensor-parallel ranks that share the layer (default 1)", &tp_text },
    };
    const int code = bench_options_read(
        argc, argv, "One transformer layer, forward and backward, part by part: layers.csv.", extra,
        3, &options);
    if (code >= 0) return code;
    const int64_t tokens = whole_number(tokens_text), tp = whole_number(tp_text);
    if (tokens == 0 || tp == 0) {
        fprintf(stderr, "layers: --tokens and --tp take a whole number from 1\n");
        return BENCH_USAGE;
    }
    int chosen = 0;
    for (int m = 0; m < MODEL_COUNT; m++)
        chosen += name == NULL || strcmp(models[m].name, name) == 0;
    if (chosen == 0) {
        fprintf(stderr, "layers: no model \"%s\", see --help\n", name);
        return BENCH_USAGE;
    }
    struct bench_device *device = bench_device_open(0);
    if (options.check_only) return BENCH_SKIPPED; /* nothing that the others do not check */
    if (options.device_json != NULL) bench_write_device(device, options.device_json);
    cublasLtHandle_t handle;
    BLASLT_CHECK(cublasLtCreate(&handle));
    struct bench_csv csv = bench_csv_open(options.directory, "layers.csv", BENCH_LAYERS_COLUMNS);
    int done = 0;
    bool ok = true;
    for (int m = 0; m < MODEL_COUNT; m++) {
        const struct model *model = &models[m];
        if (name != NULL && strcmp(model->name, name) != 0) continue;
        if (model->heads % tp != 0 || model->kv_heads % tp != 0 || model->ffn % tp != 0)
            fprintf(stderr, "%s cannot be divided by tp %lld: left out\n", model->name,
                    (long long)tp);
        else
            ok &= measure(device, handle, model, tokens, (int)tp, options.quick, &csv);
        bench_progress(++done, chosen, model->name);
    }
    cublasLtDestroy(handle);
    return bench_csv_close(&csv) && ok ? BENCH_DONE : BENCH_FAILED;
}
