/* launch_gap.cu - what a kernel costs that does next to nothing.
 *
 * Compile: nvcc -O3 -std=c++17 -arch=native -I<repository> launch_gap.cu -ldl -o launch_gap
 * Measures: time per kernel of a chain of equal tiny kernels (an empty one; one that moves 64 KiB),
 *   launched one by one into a stream and as one CUDA graph. launch_gap.csv.
 * Check: the copying kernel moves every byte.
 */
#include "calibrate/bench/bench_cuda.cuh"

enum { COPY_BYTES = 32 << 10, CHAIN = 2000, SAMPLE_MAX = 50 };

static __global__ void empty_kernel(void) {
}

/* Reads 32 KiB and writes 32 KiB. */
static __global__ void copy_kernel(const uint4 *from, uint4 *to) {
    const unsigned at = blockIdx.x * blockDim.x + threadIdx.x;
    to[at] = from[at];
}

struct buffers {
    uint4 *from, *to;
};

static void launch(cudaStream_t stream, const struct buffers *b, bool copies) {
    if (copies)
        copy_kernel<<<COPY_BYTES / 16 / 128, 128, 0, stream>>>(b->from, b->to);
    else
        empty_kernel<<<1, 32, 0, stream>>>();
}

static bool check(cudaStream_t stream, const struct buffers *b) {
    static unsigned char sent[COPY_BYTES], got[COPY_BYTES];
    for (int i = 0; i < COPY_BYTES; i++)
        sent[i] = (unsigned char)bench_hash((uint64_t)i);
    CUDA_CHECK(cudaMemcpy(b->from, sent, COPY_BYTES, cudaMemcpyHostToDevice));
    bench_poison(stream, b->to, COPY_BYTES);
    launch(stream, b, true);
    CUDA_CHECK(cudaGetLastError());
    CUDA_CHECK(cudaStreamSynchronize(stream));
    CUDA_CHECK(cudaMemcpy(got, b->to, COPY_BYTES, cudaMemcpyDeviceToHost));
    if (memcmp(sent, got, COPY_BYTES) == 0) return true;
    fprintf(stderr, "launch_gap: the copying kernel did not copy\n");
    return false;
}

static struct bench_sample measure(const struct bench_device *device, const struct buffers *b,
                                   bool copies, bool in_graph, bool quick) {
    const cudaStream_t stream = device->stream;
    const struct bench_timer timer = bench_timer_create();
    const int count = quick ? 15 : SAMPLE_MAX;
    double samples[SAMPLE_MAX];
    struct bench_sample sample = {};
    cudaGraphExec_t graph = bench_capture(stream, CHAIN, [&](int) { launch(stream, b, copies); });
    for (int i = -3; i < count; i++) { /* the first three warm up */
        CUDA_CHECK(cudaEventRecord(timer.start, stream));
        if (in_graph)
            CUDA_CHECK(cudaGraphLaunch(graph, stream));
        else
            for (int k = 0; k < CHAIN; k++)
                launch(stream, b, copies);
        CUDA_CHECK(cudaEventRecord(timer.stop, stream));
        if (i == count / 2) bench_read_state(device, &sample);
        const double us = bench_timer_us(timer) / CHAIN;
        if (i >= 0) samples[i] = us;
    }
    CUDA_CHECK(cudaGraphExecDestroy(graph));
    bench_timer_destroy(timer);
    sample.time_us = bench_stats_of(samples, count);
    return sample;
}

int main(int argc, char **argv) {
    struct bench_options options;
    const int code = bench_options_read(
        argc, argv, "Time per tiny kernel in a stream and in a graph: launch_gap.csv.", NULL, 0,
        &options);
    if (code >= 0) return code;
    struct bench_device *device = bench_device_open(0);
    if (options.device_json != NULL) bench_write_device(device, options.device_json);
    struct buffers b = { (uint4 *)bench_device_array<char>(COPY_BYTES),
                         (uint4 *)bench_device_array<char>(COPY_BYTES) };
    if (!check(device->stream, &b)) return BENCH_FAILED;
    if (options.check_only) return BENCH_DONE;
    struct bench_csv csv =
        bench_csv_open(options.directory, "launch_gap.csv", BENCH_OVERHEADS_COLUMNS);
    for (int i = 0; i < 4; i++) {
        const bool copies = i >= 2, in_graph = i % 2 == 1;
        const struct bench_sample s = measure(device, &b, copies, in_graph, options.quick);
        const char *kind = copies ? "time per tiny kernel (64 KiB moved)" : "time per empty kernel";
        bench_csv_overhead(&csv, &device->place, kind, s.time_us.median, "us",
                           in_graph ? "CUDA graph" : "stream launches back to back",
                           "ballast:launch_gap", &s);
        bench_progress(i + 1, 4, in_graph ? "graph" : "stream");
    }
    return bench_csv_close(&csv) ? BENCH_DONE : BENCH_FAILED;
}
