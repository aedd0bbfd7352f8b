/* host_copy.cu - copies between pinned host memory and the GPU.
 *
 * Compile: nvcc -O3 -std=c++17 -arch=native -I<repository> host_copy.cu -ldl -o host_copy
 * Measures: host to device, device to host, and both at once on two streams, from 4 KiB to 1 GiB.
 *   host_copy.csv: GB/s of each direction (of the sum where both run).
 * Check: what comes back from the GPU is what was sent.
 */
#include "calibrate/bench/bench_cuda.cuh"

enum direction { HOST_TO_DEVICE, DEVICE_TO_HOST, BOTH_WAYS, DIRECTION_COUNT };
static const char *const direction_names[DIRECTION_COUNT] = { "pinned host to device",
                                                              "device to pinned host",
                                                              "both directions at once, sum" };
enum { SAMPLE_MAX = 30 };
#define BYTES_MAX ((int64_t)1 << 30)

struct copies {
    cudaStream_t down, up; /* to the device, to the host */
    unsigned char *host_from, *host_to, *device_to, *device_from;
};

static void run(const struct copies *c, enum direction direction, int64_t bytes) {
    if (direction != DEVICE_TO_HOST)
        CUDA_CHECK(cudaMemcpyAsync(c->device_to, c->host_from, (size_t)bytes,
                                   cudaMemcpyHostToDevice, c->down));
    if (direction != HOST_TO_DEVICE)
        CUDA_CHECK(cudaMemcpyAsync(c->host_to, c->device_from, (size_t)bytes,
                                   cudaMemcpyDeviceToHost, c->up));
}

static bool check(const struct copies *c) {
    const int64_t bytes = 1 << 20;
    for (int64_t i = 0; i < bytes; i++)
        c->host_from[i] = (unsigned char)bench_hash((uint64_t)i);
    run(c, HOST_TO_DEVICE, bytes);
    CUDA_CHECK(cudaStreamSynchronize(c->down));
    CUDA_CHECK(cudaMemcpy(c->device_from, c->device_to, (size_t)bytes, cudaMemcpyDeviceToDevice));
    memset(c->host_to, 0, (size_t)bytes);
    CUDA_CHECK(cudaDeviceSynchronize());
    run(c, DEVICE_TO_HOST, bytes);
    CUDA_CHECK(cudaStreamSynchronize(c->up));
    if (memcmp(c->host_from, c->host_to, (size_t)bytes) == 0) return true;
    fprintf(stderr, "host_copy: what came back is not what was sent\n");
    return false;
}

/* From the first copy's start to the last one's end: `up` begins and ends inside events of `down`. */
static double time_once(const struct copies *c, struct bench_timer timer, cudaEvent_t up_done,
                        enum direction direction, int64_t bytes, int repeats) {
    CUDA_CHECK(cudaEventRecord(timer.start, c->down));
    CUDA_CHECK(cudaStreamWaitEvent(c->up, timer.start, 0));
    for (int i = 0; i < repeats; i++)
        run(c, direction, bytes);
    CUDA_CHECK(cudaEventRecord(up_done, c->up));
    CUDA_CHECK(cudaStreamWaitEvent(c->down, up_done, 0));
    CUDA_CHECK(cudaEventRecord(timer.stop, c->down));
    return bench_timer_us(timer) / repeats;
}

static struct bench_sample measure(const struct bench_device *device, const struct copies *c,
                                   enum direction direction, int64_t bytes, bool quick) {
    const struct bench_timer timer = bench_timer_create();
    cudaEvent_t up_done;
    CUDA_CHECK(cudaEventCreateWithFlags(&up_done, cudaEventDisableTiming));
    const int repeats = bytes < 1 << 22 ? 50 : 2, count = quick ? 9 : SAMPLE_MAX;
    double samples[SAMPLE_MAX];
    struct bench_sample sample = {};
    time_once(c, timer, up_done, direction, bytes, repeats); /* warm-up */
    for (int i = 0; i < count; i++)
        samples[i] = time_once(c, timer, up_done, direction, bytes, repeats);
    bench_read_state(device, &sample);
    sample.time_us = bench_stats_of(samples, count);
    CUDA_CHECK(cudaEventDestroy(up_done));
    bench_timer_destroy(timer);
    return sample;
}

int main(int argc, char **argv) {
    struct bench_options options;
    const int code = bench_options_read(
        argc, argv, "Copies between pinned host memory and the GPU: host_copy.csv.", NULL, 0,
        &options);
    if (code >= 0) return code;
    struct bench_device *device = bench_device_open(0);
    if (options.device_json != NULL) bench_write_device(device, options.device_json);
    struct copies c = {};
    c.down = device->stream;
    CUDA_CHECK(cudaStreamCreateWithFlags(&c.up, cudaStreamNonBlocking));
    CUDA_CHECK(cudaMallocHost((void **)&c.host_from, (size_t)BYTES_MAX));
    CUDA_CHECK(cudaMallocHost((void **)&c.host_to, (size_t)BYTES_MAX));
    c.device_to = bench_device_array<unsigned char>(BYTES_MAX);
    c.device_from = bench_device_array<unsigned char>(BYTES_MAX);
    if (!check(&c)) return BENCH_FAILED;
    if (options.check_only) return BENCH_DONE;
    struct bench_csv csv =
        bench_csv_open(options.directory, "host_copy.csv", BENCH_OVERHEADS_COLUMNS);
    int done = 0, total = 0;
    for (int64_t bytes = 4096; bytes <= BYTES_MAX; bytes *= options.quick ? 64 : 4)
        total++;
    for (int64_t bytes = 4096; bytes <= BYTES_MAX; bytes *= options.quick ? 64 : 4) {
        for (int d = 0; d < DIRECTION_COUNT; d++) {
            const struct bench_sample s =
                measure(device, &c, (enum direction)d, bytes, options.quick);
            char conditions[64];
            snprintf(conditions, sizeof conditions, "%lld bytes", (long long)bytes);
            const double moved = (double)bytes * (d == BOTH_WAYS ? 2 : 1);
            bench_csv_overhead(&csv, &device->place, direction_names[d],
                               moved * 1e-3 / s.time_us.median, "GB/s", conditions,
                               "ballast:host_copy", &s);
        }
        char what[32];
        snprintf(what, sizeof what, "%lld bytes", (long long)bytes);
        bench_progress(++done, total, what);
    }
    return bench_csv_close(&csv) ? BENCH_DONE : BENCH_FAILED;
}
