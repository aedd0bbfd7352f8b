/* bench_cuda.cuh - what every microbenchmark shares on the GPU: opening it, random data, clocks,
 * timing.
 *
 * Two ways to time a kernel, because a GPU answers differently to both:
 *   - isolated: a millisecond of calls inside a CUDA graph, then a pause; the GPU stays at its boost
 *     clock, and no launch of the host is in the time. This is what efficiency curves are fitted to.
 *   - settled: calls without a pause until the time of a call is stable; a long matmul then runs at
 *     the power limit, as it does inside a training step.
 * A call gets its index, so that it can walk through copies of its data: repeated runs over one copy
 * would measure the L2 cache.
 *
 *     struct bench_device device = bench_device_open(0);
 *     struct bench_sample s = bench_time_isolated(&device, quick, [&](int i) { launch(i); });
 */
#ifndef BALLAST_CALIBRATE_BENCH_BENCH_CUDA_CUH
#define BALLAST_CALIBRATE_BENCH_BENCH_CUDA_CUH

#include <cuda_bf16.h>
#include <cuda_runtime.h>
#include <dlfcn.h>
#include <time.h>
#include <unistd.h>
#include "calibrate/bench/bench_common.h"
#include "calibrate/fit/gpu_name.h"

typedef __nv_bfloat16 bf16;

#define CUDA_CHECK(call)                                                                           \
    do {                                                                                           \
        const cudaError_t status_ = (call);                                                        \
        if (status_ != cudaSuccess) {                                                              \
            fprintf(stderr, "%s:%d: %s: %s\n", __FILE__, __LINE__, #call,                          \
                    cudaGetErrorString(status_));                                                  \
            exit(BENCH_FAILED);                                                                    \
        }                                                                                          \
    } while (0)

/* ---- the management library: driver version and present clocks ----
 *
 * Opened at run time, because it comes with the driver and not with the toolkit. Without it the
 * columns stay 0. */
typedef struct nvml_device_opaque *nvml_device;
enum { NVML_CLOCK_SM = 1, NVML_CLOCK_MEMORY = 2 };

struct bench_nvml {
    nvml_device handle; /* NULL: not available */
    int (*driver_version)(char *, unsigned);
    int (*clock)(nvml_device, int, unsigned *);
    int (*max_clock)(nvml_device, int, unsigned *);
    int (*power)(nvml_device, unsigned *);
    int (*power_limit)(nvml_device, unsigned *);
};

template <class Function> static bool bench_symbol(void *library, const char *name, Function *out) {
    *out = (Function)dlsym(library, name);
    return *out != NULL;
}

static inline struct bench_nvml bench_nvml_open(const char *pci_bus_id) {
    struct bench_nvml nvml = {};
    int (*init)(void), (*find)(const char *, nvml_device *);
    void *library = dlopen("libnvidia-ml.so.1", RTLD_NOW);
    if (library == NULL || !bench_symbol(library, "nvmlInit_v2", &init) ||
        !bench_symbol(library, "nvmlDeviceGetHandleByPciBusId_v2", &find) ||
        !bench_symbol(library, "nvmlSystemGetDriverVersion", &nvml.driver_version) ||
        !bench_symbol(library, "nvmlDeviceGetClockInfo", &nvml.clock) ||
        !bench_symbol(library, "nvmlDeviceGetMaxClockInfo", &nvml.max_clock) ||
        !bench_symbol(library, "nvmlDeviceGetPowerUsage", &nvml.power) ||
        !bench_symbol(library, "nvmlDeviceGetEnforcedPowerLimit", &nvml.power_limit) ||
        init() != 0 || find(pci_bus_id, &nvml.handle) != 0)
        nvml.handle = NULL;
    return nvml;
}

/* ---- device ---- */

struct bench_device {
    int index;
    cudaDeviceProp properties;
    struct bench_nvml nvml;
    char driver[96];
    struct bench_place place;
    cudaStream_t stream;
};

/* Ends the program with one sentence where there is no GPU. */
static inline struct bench_device *bench_device_open(int index) {
    struct bench_device *device = (struct bench_device *)calloc(1, sizeof *device);
    int count = 0;
    if (cudaGetDeviceCount(&count) != cudaSuccess || count <= index) {
        fprintf(stderr, "no GPU was found on this machine: nothing was measured\n");
        exit(BENCH_FAILED);
    }
    device->index = index;
    CUDA_CHECK(cudaSetDevice(index));
    CUDA_CHECK(cudaGetDeviceProperties(&device->properties, index));
    CUDA_CHECK(cudaStreamCreateWithFlags(&device->stream, cudaStreamNonBlocking));
    char bus_id[64];
    CUDA_CHECK(cudaDeviceGetPCIBusId(bus_id, sizeof bus_id, index));
    device->nvml = bench_nvml_open(bus_id);
    if (device->nvml.handle == NULL ||
        device->nvml.driver_version(device->driver, sizeof device->driver) != 0) {
        int version;
        CUDA_CHECK(cudaDriverGetVersion(&version));
        snprintf(device->driver, sizeof device->driver, "CUDA %d.%d", version / 1000,
                 version % 1000 / 10);
    }
    const struct gpu_name *known = gpu_name_find(device->properties.name);
    int memory_kHz = 0, bus_bits = 0;
    CUDA_CHECK(cudaDeviceGetAttribute(&memory_kHz, cudaDevAttrMemoryClockRate, index));
    CUDA_CHECK(cudaDeviceGetAttribute(&bus_bits, cudaDevAttrGlobalMemoryBusWidth, index));
    device->place.device = device->properties.name;
    device->place.gpu = known != NULL ? known->measured : gpu_name_short(device->properties.name);
    device->place.driver = device->driver;
    /* Two transfers a clock; data sheets round this down. */
    device->place.hbm_GB_per_s =
        known != NULL ? known->hbm_GB_per_s : 2.0 * memory_kHz * 1e3 * bus_bits / 8 / 1e9;
    return device;
}

static inline double bench_clock_MHz(const struct bench_device *device, int domain) {
    unsigned MHz = 0;
    if (device->nvml.handle != NULL && device->nvml.clock(device->nvml.handle, domain, &MHz) != 0)
        MHz = 0;
    return MHz;
}

static inline void bench_read_state(const struct bench_device *device,
                                    struct bench_sample *sample) {
    unsigned milliwatt = 0;
    sample->sm_MHz = bench_clock_MHz(device, NVML_CLOCK_SM);
    sample->memory_MHz = bench_clock_MHz(device, NVML_CLOCK_MEMORY);
    if (device->nvml.handle != NULL && device->nvml.power(device->nvml.handle, &milliwatt) != 0)
        milliwatt = 0;
    sample->power_W = milliwatt * 1e-3;
}

/* {"name": ..., "driver": ..., clocks, date}; names hold no character that JSON escapes. */
static inline void bench_write_device(const struct bench_device *device, const char *path) {
    FILE *file = fopen(path, "w");
    if (file == NULL) {
        fprintf(stderr, "cannot write %s\n", path);
        exit(BENCH_FAILED);
    }
    unsigned sm = 0, memory = 0, limit = 0;
    const struct bench_nvml *nvml = &device->nvml;
    if (nvml->handle != NULL) {
        nvml->max_clock(nvml->handle, NVML_CLOCK_SM, &sm);
        nvml->max_clock(nvml->handle, NVML_CLOCK_MEMORY, &memory);
        nvml->power_limit(nvml->handle, &limit);
    }
    int count, runtime;
    CUDA_CHECK(cudaGetDeviceCount(&count));
    CUDA_CHECK(cudaRuntimeGetVersion(&runtime));
    const time_t now = time(NULL);
    char date[32];
    struct tm utc;
    strftime(date, sizeof date, "%Y-%m-%dT%H:%M:%SZ", gmtime_r(&now, &utc));
    const struct gpu_name *known = gpu_name_find(device->properties.name);
    fprintf(file,
            "{\n  \"name\": \"%s\",\n  \"gpu\": \"%s\",\n  \"profile\": %s%s%s,\n"
            "  \"gpu_count\": %d,\n  \"driver\": \"%s\",\n  \"cuda_runtime\": \"%d.%d\",\n"
            "  \"compute_capability\": \"%d.%d\",\n  \"sm_count\": %d,\n"
            "  \"max_sm_MHz\": %u,\n  \"max_memory_MHz\": %u,\n  \"power_limit_W\": %.0f,\n"
            "  \"memory_GiB\": %.1f,\n  \"l2_MiB\": %.1f,\n  \"hbm_GB_per_s\": %.0f,\n"
            "  \"date\": \"%s\"\n}\n",
            device->properties.name, device->place.gpu, known != NULL ? "\"" : "",
            known != NULL ? known->profile : "null", known != NULL ? "\"" : "", count,
            device->driver, runtime / 1000, runtime % 1000 / 10, device->properties.major,
            device->properties.minor, device->properties.multiProcessorCount, sm, memory,
            limit * 1e-3, (double)device->properties.totalGlobalMem / 1073741824.0,
            device->properties.l2CacheSize / 1048576.0, device->place.hbm_GB_per_s, date);
    if (fclose(file) != 0) {
        fprintf(stderr, "cannot write %s\n", path);
        exit(BENCH_FAILED);
    }
}

/* ---- data ---- */

template <class Type> static Type *bench_device_array(int64_t count) {
    void *memory;
    CUDA_CHECK(cudaMalloc(&memory, (size_t)count * sizeof(Type)));
    return (Type *)memory;
}

/* Copies of one call's data so that its own traffic has left L2 before they come round again. */
static inline int bench_copy_count(const struct bench_device *device, double bytes_of_call) {
    const double wanted = 3.0 * device->properties.l2CacheSize / bytes_of_call + 1;
    return wanted < 2 ? 2 : wanted > 64 ? 64 : (int)ceil(wanted);
}

/* Two hashes make one normal number (Box and Muller). */
static __host__ __device__ inline uint32_t bench_hash(uint64_t key) {
    key ^= key >> 33;
    key *= 0xff51afd7ed558ccdull;
    key ^= key >> 33;
    key *= 0xc4ceb9fe1a85ec53ull;
    return (uint32_t)(key >> 32);
}

static __host__ __device__ inline float bench_normal(uint64_t seed, uint64_t index) {
    const uint64_t key = seed * 0x9e3779b97f4a7c15ull + 2 * index;
    const float a = ((float)bench_hash(key) + 1.0f) * 2.328306e-10f;
    const float b = (float)bench_hash(key + 1) * 2.328306e-10f;
    return sqrtf(-2 * logf(fminf(a, 1))) * cosf(6.2831853f * b);
}

template <class Type>
__global__ void bench_fill_kernel(Type *out, int64_t count, uint64_t seed, float scale) {
    const int64_t step = (int64_t)gridDim.x * blockDim.x;
    for (int64_t i = (int64_t)blockIdx.x * blockDim.x + threadIdx.x; i < count; i += step)
        out[i] = Type(bench_normal(seed, (uint64_t)i) * scale);
}

/* Normal random numbers: a GPU that multiplies zeros draws less power and runs faster. */
template <class Type>
static void bench_fill(cudaStream_t stream, Type *out, int64_t count, uint64_t seed,
                       float scale = 1) {
    cudaLaunchConfig_t config = {}; /* no <<<>>>: tests/bench_cuda/host_gpu is plain C++ */
    config.gridDim = dim3(1024);
    config.blockDim = dim3(256);
    config.stream = stream;
    CUDA_CHECK(cudaLaunchKernelEx(&config, bench_fill_kernel<Type>, out, count, seed, scale));
}

template <class Type>
static Type *bench_random_array(cudaStream_t stream, int64_t count, uint64_t seed) {
    Type *out = bench_device_array<Type>(count);
    bench_fill(stream, out, count, seed);
    return out;
}

/* NaN in every float format, so that an element nobody wrote shows in the check. */
static inline void bench_poison(cudaStream_t stream, void *out, size_t bytes) {
    CUDA_CHECK(cudaMemsetAsync(out, 0xff, bytes, stream));
}

template <class Type>
static void bench_fetch(cudaStream_t stream, const Type *from, int64_t count, float *out) {
    Type *host = (Type *)malloc((size_t)count * sizeof(Type));
    CUDA_CHECK(cudaStreamSynchronize(stream));
    CUDA_CHECK(cudaMemcpy(host, from, (size_t)count * sizeof(Type), cudaMemcpyDeviceToHost));
    for (int64_t i = 0; i < count; i++)
        out[i] = (float)host[i];
    free(host);
}

/* false after one sentence on stderr. NaN fails. */
static inline bool bench_check(const char *what, const float *got, const double *want,
                               int64_t count, double tolerance) {
    const double error = bench_relative_error(got, want, count);
    if (error < tolerance) return true;
    fprintf(stderr, "%s: the GPU's result differs from the CPU reference by %.3g (allowed %.3g)\n",
            what, error, tolerance);
    return false;
}

/* ---- timing ---- */

/* Some calls inside one graph, from call index 0 up. */
template <class Launch>
static cudaGraphExec_t bench_capture(cudaStream_t stream, int call_count, Launch launch) {
    cudaGraph_t graph;
    cudaGraphExec_t executable;
    CUDA_CHECK(cudaStreamBeginCapture(stream, cudaStreamCaptureModeThreadLocal));
    for (int i = 0; i < call_count; i++)
        launch(i);
    CUDA_CHECK(cudaStreamEndCapture(stream, &graph));
    CUDA_CHECK(cudaGraphInstantiate(&executable, graph, 0));
    CUDA_CHECK(cudaGraphDestroy(graph));
    return executable;
}

struct bench_timer {
    cudaEvent_t start, stop;
};

static inline struct bench_timer bench_timer_create(void) {
    struct bench_timer timer;
    CUDA_CHECK(cudaEventCreate(&timer.start));
    CUDA_CHECK(cudaEventCreate(&timer.stop));
    return timer;
}

static inline void bench_timer_destroy(struct bench_timer timer) {
    CUDA_CHECK(cudaEventDestroy(timer.start));
    CUDA_CHECK(cudaEventDestroy(timer.stop));
}

static inline double bench_timer_us(struct bench_timer timer) {
    float ms;
    CUDA_CHECK(cudaEventSynchronize(timer.stop));
    CUDA_CHECK(cudaEventElapsedTime(&ms, timer.start, timer.stop));
    return 1e3 * ms;
}

/* Warm-up and a first estimate. Three calls also build whatever a library builds lazily. */
template <class Launch>
static double bench_estimate_us(cudaStream_t stream, struct bench_timer timer, Launch launch) {
    for (int i = 0; i < 3; i++)
        launch(i);
    CUDA_CHECK(cudaStreamSynchronize(stream));
    CUDA_CHECK(cudaEventRecord(timer.start, stream));
    for (int i = 0; i < 5; i++)
        launch(i);
    CUDA_CHECK(cudaEventRecord(timer.stop, stream));
    return fmax(bench_timer_us(timer) / 5, 0.5);
}

template <class Launch>
static struct bench_sample bench_time_isolated(const struct bench_device *device, bool quick,
                                               Launch launch) {
    enum { SAMPLE_MAX = 40 };
    const cudaStream_t stream = device->stream;
    const struct bench_timer timer = bench_timer_create();
    const double estimate_us = bench_estimate_us(stream, timer, launch);
    const double wanted = ceil(1000 / estimate_us);
    const int call_count = wanted > 256 ? 256 : (int)wanted;
    cudaGraphExec_t graph = bench_capture(stream, call_count, launch);
    CUDA_CHECK(cudaGraphLaunch(graph, stream));
    CUDA_CHECK(cudaStreamSynchronize(stream));

    double samples[SAMPLE_MAX];
    const int count = quick ? 11 : SAMPLE_MAX;
    struct bench_sample sample = {};
    /* The pause is as long as the work, so that short kernels never reach the power limit. Those of
     * milliseconds do (sm_MHz says so), less after a longer one behind the estimate. */
    if (estimate_us > 500) usleep(200000);
    const double pause_us = fmin(fmax(2000, call_count * estimate_us), 50000);
    for (int i = 0; i < count; i++) {
        usleep((useconds_t)pause_us);
        CUDA_CHECK(cudaEventRecord(timer.start, stream));
        CUDA_CHECK(cudaGraphLaunch(graph, stream));
        CUDA_CHECK(cudaEventRecord(timer.stop, stream));
        if (i == count / 2) bench_read_state(device, &sample);
        samples[i] = bench_timer_us(timer) / call_count;
    }
    sample.time_us = bench_stats_of(samples, count);
    CUDA_CHECK(cudaGraphExecDestroy(graph));
    bench_timer_destroy(timer);
    return sample;
}

template <class Launch>
static struct bench_sample bench_time_settled(const struct bench_device *device, bool quick,
                                              Launch launch) {
    enum { BATCH_MAX = 512, WINDOW = 10 };
    const cudaStream_t stream = device->stream;
    const struct bench_timer timer = bench_timer_create();
    const double estimate_us = bench_estimate_us(stream, timer, launch);
    const int graph_calls = (int)fmin(fmax(ceil(2000 / estimate_us), 1), 256);
    /* 25 ms a batch, over which a Hopper's power limit is about a mean; NVML's reading is one of a
     * second. */
    const int replays = (int)fmax(1, round(25000 / (estimate_us * graph_calls)));
    cudaGraphExec_t graph = bench_capture(stream, graph_calls, launch);

    double samples[BATCH_MAX], elapsed_us = 0;
    struct bench_sample sample = {};
    const double least_us = quick ? 0.8e6 : 2e6, most_us = quick ? 2e6 : 10e6;
    int count = 0;
    while (count < BATCH_MAX && elapsed_us < most_us) {
        CUDA_CHECK(cudaEventRecord(timer.start, stream));
        for (int i = 0; i < replays; i++)
            CUDA_CHECK(cudaGraphLaunch(graph, stream));
        CUDA_CHECK(cudaEventRecord(timer.stop, stream));
        bench_read_state(device, &sample); /* while it runs */
        const double batch_us = bench_timer_us(timer);
        elapsed_us += batch_us;
        samples[count++] = batch_us / (replays * graph_calls);
        if (elapsed_us >= least_us && bench_is_settled(samples, count, WINDOW, 0.005)) break;
    }
    const int kept = count < WINDOW ? count : WINDOW;
    sample.time_us = bench_stats_of(&samples[count - kept], kept);
    CUDA_CHECK(cudaGraphExecDestroy(graph));
    bench_timer_destroy(timer);
    return sample;
}

#endif
