/* bench_common.h - what every microbenchmark shares and no GPU is needed for: options, statistics,
 * the columns of the CSV files.
 *
 * Header only, and in the common subset of C and C++, so that a C test can hold the files that the
 * CUDA programs write to what calibrate/fit reads. A file's first columns are those of
 * calibrate/measured; the spread and the state of the GPU stand behind them.
 *
 *     struct bench_csv csv = bench_csv_open(directory, "gemm.csv", BENCH_GEMM_COLUMNS);
 *     bench_csv_gemm(&csv, &device, "bf16", m, n, k, framework, &sample);
 *     if (!bench_csv_close(&csv)) return EXIT_FAILURE;
 *
 * Exit codes of a benchmark: 0 done, 1 no GPU or something failed, 2 bad usage, 3 nothing to
 * measure on this machine (one sentence on stderr says why).
 */
#ifndef BALLAST_CALIBRATE_BENCH_BENCH_COMMON_H
#define BALLAST_CALIBRATE_BENCH_BENCH_COMMON_H

#include <math.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { BENCH_DONE = 0, BENCH_FAILED = 1, BENCH_USAGE = 2, BENCH_SKIPPED = 3 };

/* ---- statistics ---- */

/* Times are microseconds. */
struct bench_stats {
    double median, p10, p90;
    int count;
};

static inline int bench_compare(const void *a, const void *b) {
    const double left = *(const double *)a, right = *(const double *)b;
    return (left > right) - (left < right);
}

/* Linear between the two nearest of `count` ascending values; `share` from 0 to 1. */
static inline double bench_quantile(const double *sorted, int count, double share) {
    const double at = share * (count - 1);
    const int below = (int)at;
    if (below + 1 >= count) return sorted[count - 1];
    return sorted[below] + (at - below) * (sorted[below + 1] - sorted[below]);
}

/* Sorts the samples. */
static inline struct bench_stats bench_stats_of(double *samples, int count) {
    struct bench_stats stats = { 0, 0, 0, count };
    if (count == 0) return stats;
    qsort(samples, (size_t)count, sizeof samples[0], bench_compare);
    stats.median = bench_quantile(samples, count, 0.5);
    stats.p10 = bench_quantile(samples, count, 0.1);
    stats.p90 = bench_quantile(samples, count, 0.9);
    return stats;
}

/* Whether a GPU that runs without pause has stopped slowing down: the medians of the last two
 * windows of `window` samples differ by less than the tolerance. */
static inline bool bench_is_settled(const double *samples, int count, int window,
                                    double tolerance) {
    enum { WINDOW_MAX = 64 };
    double before[WINDOW_MAX], after[WINDOW_MAX];
    if (window > WINDOW_MAX || count < 2 * window) return false;
    for (int i = 0; i < window; i++) {
        before[i] = samples[count - 2 * window + i];
        after[i] = samples[count - window + i];
    }
    const double old_median = bench_stats_of(before, window).median;
    return fabs(bench_stats_of(after, window).median - old_median) < tolerance * old_median;
}

/* How far two arrays are apart: |got - want| / |want|, NaN where got has one. */
static inline double bench_relative_error(const float *got, const double *want, int64_t count) {
    double difference = 0, norm = 0;
    for (int64_t i = 0; i < count; i++) {
        difference += (got[i] - want[i]) * (got[i] - want[i]);
        norm += want[i] * want[i];
    }
    return sqrt(difference / norm);
}

/* ---- options ---- */

struct bench_options {
    bool quick, check_only;
    const char *directory;   /* where the CSV files go */
    const char *device_json; /* NULL: not asked for */
};

/* An option of one program: whole number or text. */
struct bench_extra {
    const char *name, *metavar, *help;
    const char **value;
};

static inline int bench_usage(FILE *out, const char *program, const char *what,
                              const struct bench_extra *extra, int extra_count) {
    fprintf(out,
            "usage: %s [-o DIR] [--quick] [--check] [--device-json FILE]\n\n%s\n\n"
            "  -o DIR              folder of the CSV files (default .)\n"
            "  --quick             fewer shapes, shorter runs\n"
            "  --check             compare with the CPU reference, measure nothing\n"
            "  --device-json FILE  also write name, driver, clocks and date there\n",
            program, what);
    for (int i = 0; i < extra_count; i++) {
        char left[64];
        snprintf(left, sizeof left, "%s %s", extra[i].name, extra[i].metavar);
        fprintf(out, "  %-19s %s\n", left, extra[i].help);
    }
    return out == stdout ? BENCH_DONE : BENCH_USAGE;
}

/* -1: go on; else the exit code. */
static inline int bench_options_read(int argc, char **argv, const char *what,
                                     const struct bench_extra *extra, int extra_count,
                                     struct bench_options *out) {
    out->quick = out->check_only = false;
    out->directory = ".";
    out->device_json = NULL;
    const char *slash = strrchr(argv[0], '/');
    const char *program = slash != NULL ? slash + 1 : argv[0];
    for (int i = 1; i < argc; i++) {
        const char **value = NULL;
        if (strcmp(argv[i], "--help") == 0 || strcmp(argv[i], "-h") == 0)
            return bench_usage(stdout, program, what, extra, extra_count);
        if (strcmp(argv[i], "--quick") == 0) {
            out->quick = true;
            continue;
        }
        if (strcmp(argv[i], "--check") == 0) {
            out->check_only = true;
            continue;
        }
        if (strcmp(argv[i], "-o") == 0) value = &out->directory;
        if (strcmp(argv[i], "--device-json") == 0) value = &out->device_json;
        for (int e = 0; e < extra_count; e++)
            if (strcmp(argv[i], extra[e].name) == 0) value = extra[e].value;
        if (value == NULL || i + 1 >= argc) {
            fprintf(stderr, "%s: %s\n", program,
                    value == NULL ? "unknown option, see --help" : "the last option needs a value");
            return BENCH_USAGE;
        }
        *value = argv[++i];
    }
    return -1;
}

/* One line that `ballast calibrate bench` turns into its bar. */
static inline void bench_progress(int done, int total, const char *what) {
    fprintf(stderr, "progress %d/%d %s\n", done, total, what);
    fflush(stderr);
}

/* ---- CSV ---- */

/* Where a row was measured. */
struct bench_place {
    const char *gpu;    /* as calibrate/measured names it */
    const char *device; /* as the driver names it */
    const char *driver;
    double hbm_GB_per_s; /* data sheet */
};

/* What was measured: time, its spread, and the GPU's state while it ran (0: unknown). */
struct bench_sample {
    struct bench_stats time_us;
    double sm_MHz, memory_MHz, power_W;
};

#define BENCH_SPREAD_COLUMNS ",p10_us,p90_us,repeats,device,driver,sm_MHz,memory_MHz,power_W"
#define BENCH_GEMM_COLUMNS   "gpu,dtype,m,n,k,time_us,tflops,framework,source" BENCH_SPREAD_COLUMNS
#define BENCH_ATTENTION_COLUMNS                                                                    \
    "gpu,dtype,direction,batch,seqlen,heads_q,heads_kv,head_dim_qk,head_dim_v,causal,time_us,"     \
    "tflops,framework,source" BENCH_SPREAD_COLUMNS
#define BENCH_MEMBW_COLUMNS                                                                        \
    "gpu,test,bytes,time_us,gb_s,fraction_of_peak,framework,source" BENCH_SPREAD_COLUMNS
#define BENCH_NCCL_COLUMNS                                                                         \
    "gpu,n_gpus,n_nodes,interconnect,op,bytes,time_us,algbw_gbps,busbw_gbps,in_place,"             \
    "nccl_version,source" BENCH_SPREAD_COLUMNS
#define BENCH_OVERHEADS_COLUMNS "gpu,kind,value,unit,conditions,source,time_us" BENCH_SPREAD_COLUMNS
#define BENCH_LAYERS_COLUMNS                                                                       \
    "gpu,model,tokens,tp,pass,part,kernel,time_us,flop,bytes,source" BENCH_SPREAD_COLUMNS

struct bench_csv {
    FILE *file;
    char path[4096];
    int cell_count; /* of the row being written */
};

static inline struct bench_csv bench_csv_open(const char *directory, const char *name,
                                              const char *columns) {
    struct bench_csv csv;
    csv.cell_count = 0;
    snprintf(csv.path, sizeof csv.path, "%s/%s", directory, name);
    csv.file = fopen(csv.path, "w");
    if (csv.file == NULL) {
        fprintf(stderr, "cannot write %s\n", csv.path);
        exit(BENCH_FAILED);
    }
    fprintf(csv.file, "%s\n", columns);
    return csv;
}

/* Quoted where RFC 4180 asks for it. */
static inline void bench_csv_text(struct bench_csv *csv, const char *text) {
    if (csv->cell_count++ > 0) fputc(',', csv->file);
    if (strpbrk(text, ",\"\r\n") == NULL) {
        fputs(text, csv->file);
        return;
    }
    fputc('"', csv->file);
    for (; *text != '\0'; text++) {
        if (*text == '"') fputc('"', csv->file);
        fputc(*text == '\r' || *text == '\n' ? ' ' : *text, csv->file);
    }
    fputc('"', csv->file);
}

static inline void bench_csv_number(struct bench_csv *csv, double value) {
    char text[32];
    snprintf(text, sizeof text, "%.6g", value);
    bench_csv_text(csv, text);
}

static inline void bench_csv_integer(struct bench_csv *csv, int64_t value) {
    char text[32];
    snprintf(text, sizeof text, "%lld", (long long)value);
    bench_csv_text(csv, text);
}

static inline void bench_csv_end_row(struct bench_csv *csv, const struct bench_place *place,
                                     const struct bench_sample *sample) {
    bench_csv_number(csv, sample->time_us.p10);
    bench_csv_number(csv, sample->time_us.p90);
    bench_csv_integer(csv, sample->time_us.count);
    bench_csv_text(csv, place->device);
    bench_csv_text(csv, place->driver);
    bench_csv_number(csv, sample->sm_MHz);
    bench_csv_number(csv, sample->memory_MHz);
    bench_csv_number(csv, sample->power_W);
    fputc('\n', csv->file);
    fflush(csv->file); /* a run that is cut short keeps what it has */
    csv->cell_count = 0;
}

static inline bool bench_csv_close(struct bench_csv *csv) {
    const bool failed = ferror(csv->file) != 0;
    if (fclose(csv->file) != 0 || failed) {
        fprintf(stderr, "cannot write %s\n", csv->path);
        return false;
    }
    return true;
}

static inline void bench_csv_gemm(struct bench_csv *csv, const struct bench_place *place,
                                  const char *dtype, int64_t m, int64_t n, int64_t k,
                                  const char *framework, const struct bench_sample *sample) {
    bench_csv_text(csv, place->gpu);
    bench_csv_text(csv, dtype);
    bench_csv_integer(csv, m);
    bench_csv_integer(csv, n);
    bench_csv_integer(csv, k);
    bench_csv_number(csv, sample->time_us.median);
    bench_csv_number(csv, 2e-6 * (double)m * (double)n * (double)k / sample->time_us.median);
    bench_csv_text(csv, framework);
    bench_csv_text(csv, "ballast:matmul");
    bench_csv_end_row(csv, place, sample);
}

struct bench_attention_shape {
    int64_t batch, length, heads, kv_heads, head_dim;
    bool causal;
};

/* Forward 2 x B x S^2 x H x (Dqk + Dv), halved by the causal mask, 2.5 times that backward. */
static inline double bench_attention_flop(const struct bench_attention_shape *s, bool backward) {
    const double full = 4.0 * (double)s->batch * (double)s->length * (double)s->length *
                        (double)s->heads * (double)s->head_dim;
    return full * (s->causal ? 0.5 : 1) * (backward ? 2.5 : 1);
}

static inline void bench_csv_attention(struct bench_csv *csv, const struct bench_place *place,
                                       const struct bench_attention_shape *s, bool backward,
                                       const char *framework, const struct bench_sample *sample) {
    bench_csv_text(csv, place->gpu);
    bench_csv_text(csv, "bf16");
    bench_csv_text(csv, backward ? "bwd" : "fwd");
    bench_csv_integer(csv, s->batch);
    bench_csv_integer(csv, s->length);
    bench_csv_integer(csv, s->heads);
    bench_csv_integer(csv, s->kv_heads);
    bench_csv_integer(csv, s->head_dim);
    bench_csv_integer(csv, s->head_dim);
    bench_csv_integer(csv, s->causal);
    bench_csv_number(csv, sample->time_us.median);
    bench_csv_number(csv, 1e-6 * bench_attention_flop(s, backward) / sample->time_us.median);
    bench_csv_text(csv, framework);
    bench_csv_text(csv, "ballast:attention");
    bench_csv_end_row(csv, place, sample);
}

static inline void bench_csv_membw(struct bench_csv *csv, const struct bench_place *place,
                                   const char *test, double bytes, const char *framework,
                                   const struct bench_sample *sample) {
    const double GB_per_s = bytes * 1e-3 / sample->time_us.median;
    bench_csv_text(csv, place->gpu);
    bench_csv_text(csv, test);
    bench_csv_integer(csv, (int64_t)bytes);
    bench_csv_number(csv, sample->time_us.median);
    bench_csv_number(csv, GB_per_s);
    bench_csv_number(csv, GB_per_s / place->hbm_GB_per_s);
    bench_csv_text(csv, framework);
    bench_csv_text(csv, "ballast:streaming");
    bench_csv_end_row(csv, place, sample);
}

/* Bus bandwidth over algorithm bandwidth, as nccl-tests defines them. */
static inline double bench_bus_factor(const char *op, int ranks) {
    if (strcmp(op, "all_reduce") == 0) return 2.0 * (ranks - 1) / ranks;
    return strcmp(op, "sendrecv") == 0 ? 1 : (ranks - 1.0) / ranks;
}

static inline void bench_csv_nccl(struct bench_csv *csv, const struct bench_place *place, int ranks,
                                  const char *interconnect, const char *op, double bytes,
                                  bool in_place, const char *version,
                                  const struct bench_sample *sample) {
    const double GB_per_s = bytes * 1e-3 / sample->time_us.median;
    bench_csv_text(csv, place->gpu);
    bench_csv_integer(csv, ranks);
    bench_csv_integer(csv, 1);
    bench_csv_text(csv, interconnect);
    bench_csv_text(csv, op);
    bench_csv_integer(csv, (int64_t)bytes);
    bench_csv_number(csv, sample->time_us.median);
    bench_csv_number(csv, GB_per_s);
    bench_csv_number(csv, GB_per_s * bench_bus_factor(op, ranks));
    bench_csv_integer(csv, in_place);
    bench_csv_text(csv, version);
    bench_csv_text(csv, "ballast:collectives");
    bench_csv_end_row(csv, place, sample);
}

static inline void bench_csv_overhead(struct bench_csv *csv, const struct bench_place *place,
                                      const char *kind, double value, const char *unit,
                                      const char *conditions, const char *source,
                                      const struct bench_sample *sample) {
    bench_csv_text(csv, place->gpu);
    bench_csv_text(csv, kind);
    bench_csv_number(csv, value);
    bench_csv_text(csv, unit);
    bench_csv_text(csv, conditions);
    bench_csv_text(csv, source);
    bench_csv_number(csv, sample->time_us.median);
    bench_csv_end_row(csv, place, sample);
}

struct bench_part {
    const char *model, *pass, *part, *kernel;
    int64_t tokens, tp;
    double flop, bytes;
};

static inline void bench_csv_layer(struct bench_csv *csv, const struct bench_place *place,
                                   const struct bench_part *part,
                                   const struct bench_sample *sample) {
    bench_csv_text(csv, place->gpu);
    bench_csv_text(csv, part->model);
    bench_csv_integer(csv, part->tokens);
    bench_csv_integer(csv, part->tp);
    bench_csv_text(csv, part->pass);
    bench_csv_text(csv, part->part);
    bench_csv_text(csv, part->kernel);
    bench_csv_number(csv, sample->time_us.median);
    bench_csv_number(csv, part->flop);
    bench_csv_integer(csv, (int64_t)part->bytes);
    bench_csv_text(csv, "ballast:layers");
    bench_csv_end_row(csv, place, sample);
}

#endif
