/* layers.cu - one whole transformer layer, forward and backward, part by part.
 *
 * Compile: nvcc -O3 -std=c++17 -arch=native -I<repository> layers.cu -lcublasLt -ldl -o layers
 *   with attention: add -DBENCH_WITH_CUDNN -lcudnn
 * Measures: every part of one layer of InternViT-6B, Llama3-8B and Qwen2-32B (their share of a
 *   tensor-parallel rank with --tp): matmuls by cuBLASLt, norms and elementwise kernels of
 *   streaming_kernels.cuh, attention by cuDNN. The parts run one after the other in a training
 *   step's order without pause, so the GPU settles; each has its own events. layers.csv, and a table
 *   on stdout. Part names are those of `ballast explain`.
 * Check: the kernels are checked by matmul.cu, streaming.cu and attention.cu; here, that every
 *   matmul and attention has a kernel, and that no output is NaN.
 */
#include <string>
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

/* ---- the layer's tensors ---- */

/* One rank's sizes. */
struct sizes {
    int64_t tokens, length, batch;
    int hidden, query, kv, qkv, ffn, up, heads, kv_heads;
};

static struct sizes sizes_of(const struct model *m, int64_t tokens, int tp)
{
    struct sizes s;
    s.length = m->length < tokens ? m->length : tokens;
    s.batch = tokens / s.length;
    s.tokens = s.batch * s.length;
    s.heads = m->heads / tp;
    s.kv_heads = m->kv_heads / tp;
    s.hidden = m->hidden;
    s.query = s.heads * m->head_dim;
    s.kv = s.kv_heads * m->head_dim;
    s.qkv = s.query + 2 * s.kv;
    s.ffn = m->ffn / tp;
    s.up = m->gated ? 2 * s.ffn : s.ffn;
    return s;
}

/* One kernel call of the layer, with what it asks of the GPU. */
struct part {
    std::string name, kernel;
    const char *pass;
    double flop, bytes;
    std::vector<double> samples;
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
    std::vector<std::vector<void (*)(struct layer *)>> unused;
};

static bf16 *tensor(struct layer *l, int64_t count)
{
    bf16 *out = bench_random_array<bf16>(l->device->stream, count, l->memory.size() + 1);
    l->memory.push_back(out);
    return out;
}
