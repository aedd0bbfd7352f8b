/* collectives.cu - NCCL between the GPUs of one machine, all driven by one process.
 *
 * Compile: nvcc -O3 -std=c++17 -arch=native -I<repository> collectives.cu -lnccl -ldl -o collectives
 * Measures: all-reduce, all-gather, reduce-scatter, all-to-all (grouped sends and receives) and
 *   send/receive around a ring, of fp32 buffers from 8 B to 8 GiB, among 2, 4, 8 ... GPUs, out of
 *   place and, where a collective has it, in place. nccl.csv, with sizes, algorithm and bus
 *   bandwidth as nccl-tests define them.
 * Check: every collective on random small buffers against sums and copies made on the CPU.
 */
#include <nccl.h>
#include <vector>
#include "calibrate/bench/bench_cuda.cuh"

#define NCCL_CHECK(call)                                                                           \
    do {                                                                                           \
        const ncclResult_t status_ = (call);                                                       \
        if (status_ != ncclSuccess) {                                                              \
            fprintf(stderr, "%s:%d: %s: %s\n", __FILE__, __LINE__, #call,                          \
                    ncclGetErrorString(status_));                                                  \
            exit(BENCH_FAILED);                                                                    \
        }                                                                                          \
    } while (0)

enum collective { ALL_REDUCE, ALL_GATHER, REDUCE_SCATTER, ALL_TO_ALL, SEND_RECEIVE };
enum { COLLECTIVE_COUNT = SEND_RECEIVE + 1, RANK_MAX = 16, SAMPLE_MAX = 20 };
/* As nccl-tests and calibrate/measured name them. */
static const char *const collective_names[COLLECTIVE_COUNT] = { "all_reduce", "all_gather",
                                                                "reduce_scatter", "alltoall",
                                                                "sendrecv" };

struct rank {
    ncclComm_t communicator;
    cudaStream_t stream;
    cudaEvent_t start, stop;
    float *send, *receive;
};

struct group {
    int rank_count;
    struct rank rank[RANK_MAX];
};

/* One collective of `bytes`: of the gathered buffer (all-gather, reduce-scatter), of the whole
 * buffer of a rank (all-to-all), else of the buffer. */
static void run(const struct group *g, enum collective op, int64_t bytes, bool in_place) {
    const size_t count = (size_t)bytes / sizeof(float), part = count / (size_t)g->rank_count;
    NCCL_CHECK(ncclGroupStart());
    for (int r = 0; r < g->rank_count; r++) {
        const struct rank *k = &g->rank[r];
        float *to = k->receive, *own = to + (size_t)r * part;
        const ncclComm_t c = k->communicator;
        switch (op) {
        case ALL_REDUCE:
            NCCL_CHECK(ncclAllReduce(in_place ? to : k->send, to, count, ncclFloat, ncclSum, c,
                                     k->stream));
            break;
        case ALL_GATHER:
            NCCL_CHECK(ncclAllGather(in_place ? own : k->send, to, part, ncclFloat, c, k->stream));
            break;
        case REDUCE_SCATTER:
            NCCL_CHECK(ncclReduceScatter(in_place ? to : k->send, in_place ? own : to, part,
                                         ncclFloat, ncclSum, c, k->stream));
            break;
        case ALL_TO_ALL:
            for (int peer = 0; peer < g->rank_count; peer++) {
                const size_t at = (size_t)peer * part;
                NCCL_CHECK(ncclSend(k->send + at, part, ncclFloat, peer, c, k->stream));
                NCCL_CHECK(ncclRecv(to + at, part, ncclFloat, peer, c, k->stream));
            }
            break;
        case SEND_RECEIVE: {
            const int next = (r + 1) % g->rank_count;
            const int previous = (r + g->rank_count - 1) % g->rank_count;
            NCCL_CHECK(ncclSend(k->send, count, ncclFloat, next, c, k->stream));
            NCCL_CHECK(ncclRecv(to, count, ncclFloat, previous, c, k->stream));
            break;
        }
        }
    }
    NCCL_CHECK(ncclGroupEnd());
}

static bool has_in_place(enum collective op) {
    return op == ALL_REDUCE || op == ALL_GATHER || op == REDUCE_SCATTER;
}

static void synchronize(const struct group *g) {
    for (int r = 0; r < g->rank_count; r++) {
        CUDA_CHECK(cudaSetDevice(r));
        CUDA_CHECK(cudaStreamSynchronize(g->rank[r].stream));
    }
    CUDA_CHECK(cudaSetDevice(0));
}

/* ---- check ---- */

/* What rank r must hold at element i, from the buffers that were sent. */
static double expected(enum collective op, const std::vector<std::vector<float>> &sent, size_t r,
                       size_t i, size_t part) {
    const size_t ranks = sent.size();
    double sum = 0;
    switch (op) {
    case ALL_REDUCE:
    case REDUCE_SCATTER:
        for (size_t s = 0; s < ranks; s++)
            sum += sent[s][op == ALL_REDUCE ? i : r * part + i];
        return sum;
    case ALL_GATHER:
        return sent[i / part][i % part];
    case ALL_TO_ALL:
        return sent[i / part][r * part + i % part];
    case SEND_RECEIVE:
        return sent[(r + ranks - 1) % ranks][i];
    }
    return NAN;
}

static bool check(const struct group *g, enum collective op) {
    const size_t part = 1024, count = part * (size_t)g->rank_count;
    std::vector<std::vector<float>> sent((size_t)g->rank_count, std::vector<float>(count));
    for (int r = 0; r < g->rank_count; r++) {
        CUDA_CHECK(cudaSetDevice(r));
        bench_fill(g->rank[r].stream, g->rank[r].send, (int64_t)count, (uint64_t)r + 11);
        bench_poison(g->rank[r].stream, g->rank[r].receive, count * sizeof(float));
        bench_fetch(g->rank[r].stream, g->rank[r].send, (int64_t)count, sent[(size_t)r].data());
    }
    run(g, op, (int64_t)(count * sizeof(float)), false);
    synchronize(g);
    const size_t held = op == REDUCE_SCATTER ? part : count;
    for (int r = 0; r < g->rank_count; r++) {
        std::vector<float> got(held);
        std::vector<double> want(held);
        for (size_t i = 0; i < held; i++)
            want[i] = expected(op, sent, (size_t)r, i, part);
        CUDA_CHECK(cudaSetDevice(r));
        bench_fetch(g->rank[r].stream, g->rank[r].receive, (int64_t)held, got.data());
        if (!bench_check(collective_names[op], got.data(), want.data(), (int64_t)held, 1e-6))
            return false;
    }
    CUDA_CHECK(cudaSetDevice(0));
    return true;
}

/* ---- timing ---- */

/* The slowest rank's time between two events, over some repeats in a row. */
static double time_once(const struct group *g, enum collective op, int64_t bytes, bool in_place,
                        int repeats) {
    for (int r = 0; r < g->rank_count; r++) {
        CUDA_CHECK(cudaSetDevice(r));
        CUDA_CHECK(cudaEventRecord(g->rank[r].start, g->rank[r].stream));
    }
    for (int i = 0; i < repeats; i++)
        run(g, op, bytes, in_place);
    double slowest_us = 0;
    for (int r = 0; r < g->rank_count; r++) {
        CUDA_CHECK(cudaSetDevice(r));
        CUDA_CHECK(cudaEventRecord(g->rank[r].stop, g->rank[r].stream));
    }
    for (int r = 0; r < g->rank_count; r++) {
        CUDA_CHECK(cudaSetDevice(r));
        slowest_us = fmax(slowest_us, bench_timer_us({ g->rank[r].start, g->rank[r].stop }));
    }
    CUDA_CHECK(cudaSetDevice(0));
    return slowest_us / repeats;
}

static struct bench_sample measure(const struct bench_device *device, const struct group *g,
                                   enum collective op, int64_t bytes, bool in_place, bool quick) {
    double samples[SAMPLE_MAX];
    struct bench_sample sample = {};
    time_once(g, op, bytes, in_place, 3); /* warm-up */
    const double estimate_us = time_once(g, op, bytes, in_place, 5);
    const int repeats = (int)fmin(fmax(ceil(2000 / estimate_us), 1), 50);
    const int count = quick ? 7 : SAMPLE_MAX;
    for (int i = 0; i < count; i++)
        samples[i] = time_once(g, op, bytes, in_place, repeats);
    bench_read_state(device, &sample);
    sample.time_us = bench_stats_of(samples, count);
    return sample;
}

/* The largest buffer that two of fit beside each other on every GPU, at most 8 GiB. */
static int64_t largest_bytes(int gpu_count) {
    size_t least = (size_t)18 << 30;
    for (int r = 0; r < gpu_count; r++) {
        size_t free_bytes, total;
        CUDA_CHECK(cudaSetDevice(r));
        CUDA_CHECK(cudaMemGetInfo(&free_bytes, &total));
        if (free_bytes < least) least = free_bytes;
    }
    CUDA_CHECK(cudaSetDevice(0));
    int64_t bytes = (int64_t)8 << 30;
    while (2 * bytes + ((int64_t)2 << 30) > (int64_t)least)
        bytes /= 2;
    return bytes;
}

static void open_group(struct group *g, int rank_count, int64_t bytes) {
    ncclComm_t communicators[RANK_MAX];
    g->rank_count = rank_count;
    NCCL_CHECK(ncclCommInitAll(communicators, rank_count, NULL));
    for (int r = 0; r < rank_count; r++) {
        struct rank *k = &g->rank[r];
        CUDA_CHECK(cudaSetDevice(r));
        k->communicator = communicators[r];
        CUDA_CHECK(cudaStreamCreateWithFlags(&k->stream, cudaStreamNonBlocking));
        CUDA_CHECK(cudaEventCreate(&k->start));
        CUDA_CHECK(cudaEventCreate(&k->stop));
        k->send = bench_random_array<float>(k->stream, bytes / 4, (uint64_t)r + 1);
        k->receive = bench_random_array<float>(k->stream, bytes / 4, (uint64_t)r + 31);
    }
    synchronize(g);
}

static void close_group(struct group *g) {
    for (int r = 0; r < g->rank_count; r++) {
        CUDA_CHECK(cudaSetDevice(r));
        ncclCommDestroy(g->rank[r].communicator);
        cudaFree(g->rank[r].send);
        cudaFree(g->rank[r].receive);
        cudaEventDestroy(g->rank[r].start);
        cudaEventDestroy(g->rank[r].stop);
        cudaStreamDestroy(g->rank[r].stream);
    }
    CUDA_CHECK(cudaSetDevice(0));
}

int main(int argc, char **argv) {
    struct bench_options options;
    const char *interconnect = NULL;
    const struct bench_extra extra[] = { { "--interconnect", "TEXT",
                                           "what connects the GPUs, for the CSV", &interconnect } };
    const int code = bench_options_read(
        argc, argv, "NCCL collectives between the GPUs of this machine: nccl.csv.", extra, 1,
        &options);
    if (code >= 0) return code;
    struct bench_device *device = bench_device_open(0);
    if (options.device_json != NULL) bench_write_device(device, options.device_json);
    int gpu_count, nccl, peer = 0;
    CUDA_CHECK(cudaGetDeviceCount(&gpu_count));
    if (gpu_count > RANK_MAX) gpu_count = RANK_MAX;
    if (gpu_count < 2) {
        fprintf(stderr, "collectives need at least two GPUs, this machine has one\n");
        return BENCH_SKIPPED;
    }
    NCCL_CHECK(ncclGetVersion(&nccl));
    CUDA_CHECK(cudaDeviceCanAccessPeer(&peer, 0, 1));
    if (interconnect == NULL) interconnect = peer ? "peer access" : "through host memory";
    char version[32];
    snprintf(version, sizeof version, "%d.%d.%d", nccl / 10000, nccl / 100 % 100, nccl % 100);

    if (options.check_only) {
        struct group g;
        open_group(&g, gpu_count, (int64_t)1 << 20);
        bool ok = true;
        for (int op = 0; op < COLLECTIVE_COUNT; op++)
            ok &= check(&g, (enum collective)op);
        close_group(&g);
        return ok ? BENCH_DONE : BENCH_FAILED;
    }
    const int64_t most = largest_bytes(gpu_count);
    struct bench_csv csv = bench_csv_open(options.directory, "nccl.csv", BENCH_NCCL_COLUMNS);
    int done = 0, total = 0;
    for (int ranks = 2; ranks <= gpu_count; ranks *= 2)
        total += COLLECTIVE_COUNT;
    for (int ranks = 2; ranks <= gpu_count; ranks *= 2) {
        struct group g;
        open_group(&g, ranks, most);
        for (int op = 0; op < COLLECTIVE_COUNT; op++) {
            const enum collective c = (enum collective)op;
            if (!check(&g, c)) return BENCH_FAILED;
            for (int64_t bytes = 8; bytes <= most; bytes *= options.quick ? 8 : 2) {
                if (bytes < 4 * ranks && c != ALL_REDUCE && c != SEND_RECEIVE) continue;
                for (int in_place = 0; in_place <= has_in_place(c); in_place++) {
                    const struct bench_sample s =
                        measure(device, &g, c, bytes, in_place != 0, options.quick);
                    bench_csv_nccl(&csv, &device->place, ranks, interconnect, collective_names[op],
                                   (double)bytes, in_place != 0, version, &s);
                }
            }
            char what[64];
            snprintf(what, sizeof what, "%s of %d", collective_names[op], ranks);
            bench_progress(++done, total, what);
        }
        close_group(&g);
    }
    return bench_csv_close(&csv) ? BENCH_DONE : BENCH_FAILED;
}
