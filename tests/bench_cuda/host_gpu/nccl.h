/* nccl.h - the collectives of calibrate/bench/collectives.cu between the GPUs of cuda_runtime.h
 * beside this file.
 *
 * Refuses what NCCL leaves undefined: buffers of another GPU or too short, ranks that ask for
 * different things in one group, sends without their receives, buffers that overlap other than in
 * place. Refuses more than that, too: a group holds each collective once at most, its ranks in
 * order. A collective takes HOST_NCCL_LATENCY_US and its bytes on the wire at HOST_NCCL_GB_PER_S
 * (nccl-tests' bus bandwidth). HOST_NCCL_FAULT names one whose last element stays unwritten.
 */
#ifndef BALLAST_HOST_GPU_NCCL_H
#define BALLAST_HOST_GPU_NCCL_H

#include <algorithm>
#include <memory>
#include <vector>
#include "tests/bench_cuda/host_gpu/cuda_runtime.h"

#define HOST_NCCL_LATENCY_US 5.0
#define HOST_NCCL_GB_PER_S   1.0

enum ncclResult_t { ncclSuccess, ncclInvalidArgument, ncclInvalidUsage };
enum ncclDataType_t { ncclFloat };
enum ncclRedOp_t { ncclSum };

struct host_communicator {
    int rank, rank_count;
};
typedef host_communicator *ncclComm_t;

enum host_op { HOST_ALL_REDUCE, HOST_ALL_GATHER, HOST_REDUCE_SCATTER, HOST_SEND, HOST_RECEIVE };

struct host_call {
    host_op op;
    const float *from;
    float *to;
    size_t count; /* as the caller gave it */
    int peer;     /* of a send or receive */
    host_communicator *communicator;
    cudaStream_t stream;
};

/* What one group of calls does, once every stream in it has come there. */
struct host_meeting {
    std::vector<host_call> calls;
    std::vector<cudaStream_t> streams, arrived;
    bool done;
};

struct host_group {
    int depth;
    std::vector<host_call> calls;
};
static inline host_group &group() {
    static host_group open;
    return open;
}

static inline const char *ncclGetErrorString(ncclResult_t result) {
    static const char *const texts[] = { "no error", "invalid argument", "invalid usage" };
    return texts[result];
}
static inline ncclResult_t ncclGetVersion(int *version) {
    *version = 22703;
    return ncclSuccess;
}
static inline ncclResult_t ncclCommInitAll(ncclComm_t *out, int count, const int *) {
    if (count > host_gpu_count()) return ncclInvalidArgument;
    for (int r = 0; r < count; r++)
        out[r] = new host_communicator{ r, count };
    return ncclSuccess;
}
static inline ncclResult_t ncclCommDestroy(ncclComm_t communicator) {
    delete communicator;
    return ncclSuccess;
}

static inline size_t host_from_count(const host_call &c) {
    return c.op == HOST_RECEIVE          ? 0
           : c.op == HOST_REDUCE_SCATTER ? c.count * (size_t)c.communicator->rank_count
                                         : c.count;
}
static inline size_t host_to_count(const host_call &c) {
    return c.op == HOST_SEND         ? 0
           : c.op == HOST_ALL_GATHER ? c.count * (size_t)c.communicator->rank_count
                                     : c.count;
}

/* Apart, or where NCCL's documentation has an operation in place. */
static inline bool host_placed(const host_call &c) {
    const size_t from = host_from_count(c), to = host_to_count(c);
    const size_t own = (size_t)c.communicator->rank * c.count;
    if (from == 0 || to == 0 || c.from + from <= c.to || c.to + to <= c.from) return true;
    if (c.op == HOST_ALL_REDUCE) return c.from == c.to;
    return c.op == HOST_ALL_GATHER ? c.from == c.to + own : c.to == c.from + own;
}

static inline ncclResult_t host_call_add(const host_call &c) {
    if (group().depth == 0) return ncclInvalidUsage; /* one process drives all ranks */
    if (c.stream->device != c.communicator->rank) return ncclInvalidArgument;
    if (c.op >= HOST_SEND && (c.peer < 0 || c.peer >= c.communicator->rank_count))
        return ncclInvalidArgument;
    if ((c.op != HOST_RECEIVE &&
         !host_holds(c.from, host_from_count(c) * sizeof(float), c.communicator->rank)) ||
        (c.op != HOST_SEND &&
         !host_holds(c.to, host_to_count(c) * sizeof(float), c.communicator->rank)) ||
        !host_placed(c))
        return ncclInvalidArgument;
    group().calls.push_back(c);
    return ncclSuccess;
}

/* ---- what a group does ---- */

static inline std::vector<const host_call *> host_calls_of(const host_meeting &m, host_op op) {
    std::vector<const host_call *> found;
    for (const host_call &c : m.calls)
        if (c.op == op) found.push_back(&c);
    return found;
}

/* For each receive its send: the n-th of a pair of ranks takes what the n-th sent. False: one has
 * none, or a send is left. */
static inline bool host_pair(const host_meeting &m,
                             std::vector<std::pair<const host_call *, const host_call *>> *out) {
    auto sends = host_calls_of(m, HOST_SEND);
    for (const host_call *r : host_calls_of(m, HOST_RECEIVE)) {
        const auto of = [r](const host_call *s) {
            return s->peer == r->communicator->rank && s->communicator->rank == r->peer &&
                   s->count == r->count;
        };
        const auto found = std::find_if(sends.begin(), sends.end(), of);
        if (found == sends.end()) return false;
        out->emplace_back(*found, r);
        sends.erase(found);
    }
    return sends.empty();
}

static inline bool host_group_fits(const host_meeting &m) {
    std::vector<std::pair<const host_call *, const host_call *>> pairs;
    if (!host_pair(m, &pairs)) return false;
    for (int op = HOST_ALL_REDUCE; op <= HOST_REDUCE_SCATTER; op++) {
        const auto calls = host_calls_of(m, (host_op)op);
        if (calls.empty()) continue;
        if (calls.size() != (size_t)calls[0]->communicator->rank_count) return false;
        for (size_t r = 0; r < calls.size(); r++)
            if (calls[r]->communicator->rank != (int)r || calls[r]->count != calls[0]->count)
                return false;
    }
    return true;
}

static inline size_t host_kept(const char *name, size_t count) {
    const char *fault = getenv("HOST_NCCL_FAULT");
    return fault != NULL && strcmp(fault, name) == 0 && count > 0 ? count - 1 : count;
}

static inline void host_write(const char *name, float *to, const std::vector<float> &what) {
    std::copy(what.begin(), what.begin() + (long)host_kept(name, what.size()), to);
}

static inline double host_execute(const host_meeting &m) {
    double wire_bytes = 0;
    const auto reduces = host_calls_of(m, HOST_ALL_REDUCE),
               gathers = host_calls_of(m, HOST_ALL_GATHER),
               scatters = host_calls_of(m, HOST_REDUCE_SCATTER);
    for (const auto *calls : { &reduces, &scatters }) {
        if (calls->empty()) continue;
        const size_t ranks = calls->size(), count = (*calls)[0]->count;
        const bool scatter = calls == &scatters;
        std::vector<float> sum(host_from_count(*(*calls)[0]));
        for (size_t i = 0; i < sum.size(); i++) {
            double total = 0;
            for (const host_call *c : *calls)
                total += c->from[i];
            sum[i] = (float)total;
        }
        for (size_t r = 0; r < ranks; r++)
            host_write(scatter ? "reduce_scatter" : "all_reduce", (*calls)[r]->to,
                       scatter ? std::vector<float>(sum.begin() + (long)(r * count),
                                                    sum.begin() + (long)((r + 1) * count))
                               : sum);
        const double turns = (scatter ? 1.0 : 2.0) * (double)(ranks - 1) / (double)ranks;
        wire_bytes += turns * (double)(sum.size() * sizeof(float));
    }
    if (!gathers.empty()) {
        std::vector<float> all;
        for (const host_call *c : gathers)
            all.insert(all.end(), c->from, c->from + c->count);
        for (const host_call *c : gathers)
            host_write("all_gather", c->to, all);
        wire_bytes += (double)((gathers.size() - 1) * gathers[0]->count * sizeof(float));
    }
    std::vector<std::pair<const host_call *, const host_call *>> pairs;
    std::vector<std::vector<float>> sent; /* all are read before any is written */
    std::vector<double> out_bytes((size_t)host_gpu_count(), 0);
    host_pair(m, &pairs);
    for (const auto &pair : pairs)
        sent.emplace_back(pair.first->from, pair.first->from + pair.first->count);
    for (size_t p = 0; p < pairs.size(); p++) {
        const host_call *r = pairs[p].second;
        host_write("send", r->to, sent[p]);
        if (r->peer != r->communicator->rank)
            out_bytes[(size_t)r->peer] += (double)(r->count * sizeof(float));
    }
    return HOST_NCCL_LATENCY_US +
           (wire_bytes + *std::max_element(out_bytes.begin(), out_bytes.end())) /
               (HOST_NCCL_GB_PER_S * 1e3);
}

static inline bool host_arrive(const std::shared_ptr<host_meeting> &m, cudaStream_t stream) {
    if (m->done) return true;
    if (std::find(m->arrived.begin(), m->arrived.end(), stream) == m->arrived.end())
        m->arrived.push_back(stream);
    if (m->arrived.size() < m->streams.size()) return false;
    double start_us = 0;
    for (cudaStream_t s : m->streams)
        start_us = std::max(start_us, s->clock_us);
    const double end_us = start_us + host_execute(*m);
    for (cudaStream_t s : m->streams)
        s->clock_us = end_us;
    return m->done = true;
}

static inline ncclResult_t ncclGroupStart(void) {
    group().depth++;
    return ncclSuccess;
}
static inline ncclResult_t ncclGroupEnd(void) {
    if (group().depth == 0) return ncclInvalidUsage;
    if (--group().depth > 0) return ncclSuccess;
    auto meeting = std::make_shared<host_meeting>();
    meeting->calls.swap(group().calls);
    if (!host_group_fits(*meeting)) return ncclInvalidUsage;
    for (const host_call &c : meeting->calls)
        if (std::find(meeting->streams.begin(), meeting->streams.end(), c.stream) ==
            meeting->streams.end())
            meeting->streams.push_back(c.stream);
    for (cudaStream_t s : meeting->streams)
        s->commands.push_back([meeting, s] { return host_arrive(meeting, s); });
    return ncclSuccess;
}

/* ---- the calls ---- */

static inline ncclResult_t ncclAllReduce(const void *from, void *to, size_t count, ncclDataType_t,
                                         ncclRedOp_t, ncclComm_t c, cudaStream_t stream) {
    return host_call_add(
        { HOST_ALL_REDUCE, (const float *)from, (float *)to, count, 0, c, stream });
}
static inline ncclResult_t ncclAllGather(const void *from, void *to, size_t count, ncclDataType_t,
                                         ncclComm_t c, cudaStream_t stream) {
    return host_call_add(
        { HOST_ALL_GATHER, (const float *)from, (float *)to, count, 0, c, stream });
}
static inline ncclResult_t ncclReduceScatter(const void *from, void *to, size_t count,
                                             ncclDataType_t, ncclRedOp_t, ncclComm_t c,
                                             cudaStream_t stream) {
    return host_call_add(
        { HOST_REDUCE_SCATTER, (const float *)from, (float *)to, count, 0, c, stream });
}
static inline ncclResult_t ncclSend(const void *from, size_t count, ncclDataType_t, int peer,
                                    ncclComm_t c, cudaStream_t stream) {
    return host_call_add({ HOST_SEND, (const float *)from, NULL, count, peer, c, stream });
}
static inline ncclResult_t ncclRecv(void *to, size_t count, ncclDataType_t, int peer, ncclComm_t c,
                                    cudaStream_t stream) {
    return host_call_add({ HOST_RECEIVE, NULL, (float *)to, count, peer, c, stream });
}

#endif
