/* cuda_runtime.h - GPUs that the host plays: what calibrate/bench/collectives.cu calls of the CUDA
 * runtime, so that the program runs where no two GPUs are.
 *
 * Stricter than a GPU where a benchmark might be right by luck. A stream is a queue that runs only
 * when something waits for it, so that reading without waiting reads what was there before; memory
 * belongs to one GPU; work given to a stream of another GPU than the current one fails, and so do a
 * kernel's pointers to another's memory and copies beyond a buffer's end. Time is simulated: every
 * stream has a clock, that only collectives move (nccl.h here).
 *
 * HOST_GPU_COUNT (default 4), HOST_GPU_NAME and HOST_GPU_LARGEST (bytes of the largest buffer that
 * two of fit, beside the program's reserve) choose the machine.
 */
#ifndef BALLAST_HOST_GPU_CUDA_RUNTIME_H
#define BALLAST_HOST_GPU_CUDA_RUNTIME_H

#include <algorithm>
#include <deque>
#include <functional>
#include <map>
#include <vector>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define __global__
#define __host__
#define __device__

enum cudaError_t {
    cudaSuccess,
    cudaErrorInvalidValue,
    cudaErrorNoDevice,
    cudaErrorInvalidResourceHandle
};
enum cudaMemcpyKind { cudaMemcpyDeviceToHost };
enum { cudaStreamNonBlocking = 1, cudaStreamCaptureModeThreadLocal = 1 };
enum cudaDeviceAttr { cudaDevAttrMemoryClockRate, cudaDevAttrGlobalMemoryBusWidth };

struct cudaDeviceProp {
    char name[256];
    size_t totalGlobalMem;
    int major, minor, multiProcessorCount, l2CacheSize;
};

struct dim3 {
    unsigned x, y, z;
    dim3(unsigned x_ = 1, unsigned y_ = 1, unsigned z_ = 1) : x(x_), y(y_), z(z_) {
    }
};
/* A kernel runs as one thread of one block. */
static const dim3 gridDim, blockDim, blockIdx(0, 0, 0), threadIdx(0, 0, 0);

/* One command of a stream. `run` says false while it must wait for another stream. */
struct host_stream {
    int device;
    double clock_us;
    std::deque<std::function<bool()>> commands;
};
struct host_event {
    int device;
    double at_us;
    host_stream *recorded_on;
};
typedef host_stream *cudaStream_t;
typedef host_event *cudaEvent_t;
typedef struct host_graph *cudaGraph_t;
typedef struct host_graph *cudaGraphExec_t;

struct host_buffer {
    size_t bytes;
    int device;
};
struct host_machine {
    int current;
    std::map<uintptr_t, host_buffer> buffers;
    std::vector<host_stream *> streams;
};
static inline host_machine &host() {
    static host_machine machine;
    return machine;
}

static inline long host_setting(const char *name, long usual) {
    const char *text = getenv(name);
    return text != NULL ? atol(text) : usual;
}
static inline int host_gpu_count(void) {
    return (int)host_setting("HOST_GPU_COUNT", 4);
}

/* Whether `bytes` from there on lie in one buffer of this GPU. */
static inline bool host_holds(const void *from, size_t bytes, int device) {
    auto &buffers = host().buffers;
    auto next = buffers.upper_bound((uintptr_t)from);
    if (next == buffers.begin()) return false;
    const auto &found = *--next;
    return found.second.device == device &&
           (uintptr_t)from + bytes <= found.first + found.second.bytes;
}

/* Runs the queue as far as it goes; the commands of other streams that it waits for run too. */
static inline void host_drain(host_stream *stream) {
    while (!stream->commands.empty()) {
        if (stream->commands.front()()) {
            stream->commands.pop_front();
            continue;
        }
        bool moved = false;
        for (host_stream *other : host().streams) {
            if (other == stream || other->commands.empty() || !other->commands.front()()) continue;
            other->commands.pop_front();
            moved = true;
        }
        if (moved) continue;
        fprintf(stderr, "host GPU: a collective waits for ranks that never come\n");
        exit(99);
    }
}

static inline cudaError_t host_enqueue(host_stream *stream, std::function<bool()> command) {
    if (stream->device != host().current) return cudaErrorInvalidResourceHandle;
    stream->commands.push_back(command);
    return cudaSuccess;
}

/* ---- the runtime ---- */

static inline const char *cudaGetErrorString(cudaError_t error) {
    static const char *const texts[] = { "no error", "invalid value", "no device",
                                         "a stream, event or buffer of another GPU" };
    return texts[error];
}
static inline cudaError_t cudaGetDeviceCount(int *count) {
    *count = host_gpu_count();
    return *count > 0 ? cudaSuccess : cudaErrorNoDevice;
}
static inline cudaError_t cudaSetDevice(int device) {
    if (device < 0 || device >= host_gpu_count()) return cudaErrorInvalidValue;
    host().current = device;
    return cudaSuccess;
}
static inline cudaError_t cudaGetDeviceProperties(cudaDeviceProp *out, int) {
    const char *name = getenv("HOST_GPU_NAME");
    *out = cudaDeviceProp();
    snprintf(out->name, sizeof out->name, "%s", name != NULL ? name : "NVIDIA Host");
    out->multiProcessorCount = 1;
    return cudaSuccess;
}
static inline cudaError_t cudaDeviceGetPCIBusId(char *out, int size, int device) {
    snprintf(out, (size_t)size, "0000:%02x:00.0", device);
    return cudaSuccess;
}
static inline cudaError_t cudaDriverGetVersion(int *version) {
    *version = 12080;
    return cudaSuccess;
}
static inline cudaError_t cudaRuntimeGetVersion(int *version) {
    return cudaDriverGetVersion(version);
}
static inline cudaError_t cudaDeviceGetAttribute(int *value, cudaDeviceAttr, int) {
    *value = 1024;
    return cudaSuccess;
}
static inline cudaError_t cudaDeviceCanAccessPeer(int *can, int, int) {
    *can = 1;
    return cudaSuccess;
}
static inline cudaError_t cudaMemGetInfo(size_t *free_bytes, size_t *total) {
    *free_bytes = ((size_t)2 << 30) + 2 * (size_t)host_setting("HOST_GPU_LARGEST", 262144);
    *total = *free_bytes;
    return cudaSuccess;
}
static inline cudaError_t cudaMalloc(void **out, size_t bytes) {
    *out = malloc(bytes);
    if (*out == NULL) return cudaErrorInvalidValue;
    memset(*out, 0xff, bytes);
    host().buffers[(uintptr_t)*out] = { bytes, host().current };
    return cudaSuccess;
}
static inline cudaError_t cudaFree(void *memory) {
    const auto found = host().buffers.find((uintptr_t)memory);
    if (found == host().buffers.end()) return cudaErrorInvalidValue;
    host().buffers.erase(found);
    free(memory);
    return cudaSuccess;
}
/* By the default stream, which does not wait for the others (cudaStreamNonBlocking). */
static inline cudaError_t cudaMemcpy(void *to, const void *from, size_t bytes, cudaMemcpyKind) {
    if (!host_holds(from, bytes, host().current)) return cudaErrorInvalidResourceHandle;
    memcpy(to, from, bytes);
    return cudaSuccess;
}
static inline cudaError_t cudaMemsetAsync(void *to, int value, size_t bytes, cudaStream_t stream) {
    if (!host_holds(to, bytes, stream->device)) return cudaErrorInvalidResourceHandle;
    return host_enqueue(stream, [=] {
        memset(to, value, bytes);
        return true;
    });
}
static inline cudaError_t cudaStreamCreateWithFlags(cudaStream_t *out, unsigned) {
    *out = new host_stream{ host().current, 0, {} };
    host().streams.push_back(*out);
    return cudaSuccess;
}
static inline cudaError_t cudaStreamSynchronize(cudaStream_t stream) {
    host_drain(stream);
    return cudaSuccess;
}
static inline cudaError_t cudaStreamDestroy(cudaStream_t stream) {
    auto &streams = host().streams;
    host_drain(stream);
    streams.erase(std::find(streams.begin(), streams.end(), stream));
    delete stream;
    return cudaSuccess;
}
static inline cudaError_t cudaEventCreate(cudaEvent_t *out) {
    *out = new host_event{ host().current, 0, NULL };
    return cudaSuccess;
}
static inline cudaError_t cudaEventDestroy(cudaEvent_t event) {
    delete event;
    return cudaSuccess;
}
static inline cudaError_t cudaEventRecord(cudaEvent_t event, cudaStream_t stream) {
    if (event->device != stream->device) return cudaErrorInvalidResourceHandle;
    event->recorded_on = stream;
    return host_enqueue(stream, [=] {
        event->at_us = stream->clock_us;
        return true;
    });
}
static inline cudaError_t cudaEventSynchronize(cudaEvent_t event) {
    if (event->recorded_on == NULL) return cudaErrorInvalidValue;
    host_drain(event->recorded_on);
    return cudaSuccess;
}
static inline cudaError_t cudaEventElapsedTime(float *ms, cudaEvent_t start, cudaEvent_t stop) {
    if (start->recorded_on == NULL || start->recorded_on != stop->recorded_on)
        return cudaErrorInvalidValue;
    *ms = (float)((stop->at_us - start->at_us) * 1e-3);
    return cudaSuccess;
}

struct cudaLaunchConfig_t {
    dim3 gridDim, blockDim;
    size_t dynamicSmemBytes;
    cudaStream_t stream;
    void *attrs;
    unsigned numAttrs;
};
template <class Type> static bool host_reaches(Type, int) {
    return true;
}
template <class Type> static bool host_reaches(Type *pointer, int device) {
    return host_holds(pointer, sizeof(Type), device);
}
template <class... Parameters, class... Arguments>
static cudaError_t cudaLaunchKernelEx(const cudaLaunchConfig_t *config,
                                      void (*kernel)(Parameters...), Arguments... arguments) {
    if (!(host_reaches(arguments, config->stream->device) && ...)) return cudaErrorInvalidValue;
    return host_enqueue(config->stream, [=] {
        kernel(arguments...);
        return true;
    });
}

/* ---- graphs: collectives need none; a program that did would stop here ---- */

static inline cudaError_t host_no_graphs(void) {
    return cudaErrorInvalidValue;
}
#define cudaStreamBeginCapture(...)       host_no_graphs()
#define cudaStreamEndCapture(stream, out) (*(out) = NULL, host_no_graphs())
#define cudaGraphInstantiate(out, ...)    (*(out) = NULL, host_no_graphs())
#define cudaGraphDestroy(graph)           host_no_graphs()
#define cudaGraphLaunch(...)              host_no_graphs()
#define cudaGraphExecDestroy(graph)       host_no_graphs()

#endif
