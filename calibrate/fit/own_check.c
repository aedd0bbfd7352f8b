/* own_check.c - rows of the user that cannot be: a wrong unit, mostly.
 *
 * One row that is faster than the GPU can be is enough, and one that is slower by more than five
 * orders. Another slow one may be true (a throttled GPU, a link that fell back), so that only a
 * table most of whose rows are slow beyond any such cause is refused: nanoseconds in a column of
 * microseconds are 1,000 times too slow.
 */
#include <stdio.h>
#include <string.h>
#include "calibrate/fit/calibrate_job.h"
#include "costmodel/efficiency.h"

#define SLOWEST_MATMUL    50  /* times what peaks and a launch make of it */
#define SLOWEST_ATTENTION 300 /* unfused and causal, it computes and moves some 50 times as much */
#define SLOWEST_LINK      500 /* NCCL over the host's memory keeps 1/100 of NVLink's rate */
#define SLOWEST_EVER      1e5 /* of any: no throttled GPU and no link that fell back */
#define LAUNCH_S          20e-6 /* of a slow host */
#define UNLIKE            2   /* what bytes count is told in two ways: read alone, or written too */
#define LINK_BYTES_LEAST  1e6 /* smaller ones are latency */

/* Rows of a table that are slow beyond any cause, and the first of them, or of the slowest. */
struct slowness {
    int64_t row_count, slow_count;
    bool ever; /* the row below is slower than any is */
    long line;
    double times;
    char what[160];
};

static void weigh(struct slowness *slow, long line, double times, double limit, const char *what) {
    slow->row_count++;
    if (times <= limit || (slow->slow_count++ > 0 && (times <= SLOWEST_EVER || slow->ever))) return;
    slow->ever = times > SLOWEST_EVER;
    slow->line = line;
    slow->times = times;
    snprintf(slow->what, sizeof slow->what, "%s", what);
}

static bool refuse_slow(struct calibrate_job *job, enum measurement_format table,
                        const struct slowness *slow, const char *than) {
    if (!slow->ever && 2 * slow->slow_count <= slow->row_count) return true;
    error_at(job->err, job->own->files[table].path, slow->line, 0,
             "%s takes %.3g times what %s: "
             "is time_us in microseconds?",
             slow->what, slow->times, than);
    return error_hint(job->err, "%lld of %lld rows of %s are as slow", (long long)slow->slow_count,
                      (long long)slow->row_count, job->own->gpu);
}

/* False: it is faster than the GPU's peak. */
static bool check_kernel(struct calibrate_job *job, enum measurement_format table, long line,
                         const struct operator_work *work, double time_us, double slowest,
                         const char *what, struct slowness *slow) {
    const char *path = job->own->files[table].path;
    const double peak = job->gpu->bf16_flop_per_s, seconds = time_us * 1e-6;
    if (!(peak > 0))
        return error_at(job->err, path, line, 0, "bf16 on %s, whose profile has no peak in it",
                        job->own->gpu);
    const double of_peak = work->flop / (peak * seconds);
    if (of_peak > FASTEST_OF_PEAK)
        return error_at(job->err, path, line, 0,
                        "%s is %.3g times as fast as %s's peak: time_us is in microseconds", what,
                        of_peak, job->own->gpu);
    const double least_s = work->flop / peak + work->memory_bytes / job->gpu->hbm_bytes_per_s;
    weigh(slow, line, seconds / (least_s + LAUNCH_S), slowest, what);
    return true;
}

static bool check_matmuls(struct calibrate_job *job) {
    const struct gemm_rows *all = &job->own->rows.gemm;
    struct slowness slow = { 0 };
    char what[160];
    for (int64_t i = 0; i < all->count; i++) {
        const struct gemm_row *row = &all->rows[i];
        if (!calibrate_own_takes_matmul(row)) continue;
        const struct operator_work work =
            operator_matmul("", PASS_FORWARD, PRECISION_BF16, row->m, row->n, row->k);
        snprintf(what, sizeof what, "a matmul of %lld x %lld x %lld in %g us", (long long)row->m,
                 (long long)row->n, (long long)row->k, row->time_us);
        if (!check_kernel(job, MEASUREMENT_GEMM, row->line, &work, row->time_us, SLOWEST_MATMUL,
                          what, &slow))
            return false;
    }
    return refuse_slow(job, MEASUREMENT_GEMM, &slow, "the GPU's peaks and a launch make of it");
}

static bool check_attentions(struct calibrate_job *job) {
    const struct attention_rows *all = &job->own->rows.attention;
    struct slowness slow = { 0 };
    char what[160];
    for (int64_t i = 0; i < all->count; i++) {
        const struct attention_row *row = &all->rows[i];
        if (!calibrate_own_whole_attention(row) || strcmp(row->dtype, "bf16") != 0) continue;
        const bool backward = strcmp(row->direction, "bwd") == 0;
        const double tokens = (double)(row->batch * row->seqlen);
        const struct operator_work work =
            operator_attention("", backward ? PASS_BACKWARD : PASS_FORWARD, PRECISION_BF16, tokens,
                               tokens * (double)row->seqlen, row->heads_q, row->heads_kv,
                               row->head_dim_qk, row->causal);
        snprintf(what, sizeof what, "%s of %lld x %lld tokens with %lld heads of %lld in %g us",
                 backward ? "a backward of attention" : "an attention", (long long)row->batch,
                 (long long)row->seqlen, (long long)row->heads_q, (long long)row->head_dim_qk,
                 row->time_us);
        if (!check_kernel(job, MEASUREMENT_ATTENTION, row->line, &work, row->time_us,
                          SLOWEST_ATTENTION, what, &slow))
            return false;
    }
    return refuse_slow(job, MEASUREMENT_ATTENTION, &slow,
                       "the GPU's peaks and a launch make of it");
}

/* What a GPU sends cannot pass its links; where they are not known, its memory. One GPU alone
 * copies nothing in place. */
static bool check_collectives(struct calibrate_job *job) {
    const struct nccl_rows *all = &job->own->rows.nccl;
    const char *path = job->own->files[MEASUREMENT_NCCL].path;
    const double link = job->gpu->nvlink_bytes_per_s;
    const double wire = link > 0 ? link : job->gpu->pcie_bytes_per_s;
    const double most = FASTEST_OF_PEAK * (link > 0 ? link : job->gpu->hbm_bytes_per_s);
    struct slowness slow = { 0 };
    char what[160];
    for (int64_t i = 0; i < all->count; i++) {
        const struct nccl_row *row = &all->rows[i];
        enum operator_kind op;
        if (row->n_gpus < 2 || !(row->time_us > 0) || !fit_collective_op(row->op, &op)) continue;
        const double seconds = row->time_us * 1e-6;
        const double sent = collective_wire_factor(op, (double)row->n_gpus) * row->bytes;
        snprintf(what, sizeof what, "%s of %g bytes among %lld GPUs in %g us", row->op, row->bytes,
                 (long long)row->n_gpus, row->time_us);
        if (sent > most * seconds)
            return error_at(job->err, path, row->line, 0,
                            "%s is %.3g GB/s a GPU, where %s's %s has %g: time_us is in "
                            "microseconds, bytes are those of the whole buffer",
                            what, sent / seconds / 1e9, job->own->gpu,
                            link > 0 ? "NVLink" : "memory", most / FASTEST_OF_PEAK / 1e9);
        if (wire > 0 && row->n_nodes < 2 && row->bytes >= LINK_BYTES_LEAST)
            weigh(&slow, row->line, wire * seconds / sent, SLOWEST_LINK, what);
    }
    return refuse_slow(job, MEASUREMENT_NCCL, &slow, "the links at their full rate make of it");
}

static bool check_streams(struct calibrate_job *job) {
    const struct membw_rows *all = &job->own->rows.membw;
    for (int64_t i = 0; i < all->count; i++) {
        const struct membw_row *row = &all->rows[i];
        if (stream_kind_of(row) != STREAM_NONE && row->fraction_of_peak > FASTEST_OF_PEAK)
            return error_at(job->err, job->own->files[MEASUREMENT_MEMBW].path, row->line, 0,
                            "%s of %g bytes at %g of %s's peak: fraction_of_peak is a fraction, 1 "
                            "at the peak",
                            row->test, row->bytes, row->fraction_of_peak, job->own->gpu);
        const double by_time = row->bytes > 0 && row->time_us > 0
                                   ? row->bytes / (row->time_us * 1e-6) / job->gpu->hbm_bytes_per_s
                                   : 0;
        if (stream_kind_of(row) != STREAM_NONE && row->fraction_of_peak > 0 && by_time > 0 &&
            (by_time > UNLIKE * row->fraction_of_peak || row->fraction_of_peak > UNLIKE * by_time))
            return error_at(job->err, job->own->files[MEASUREMENT_MEMBW].path, row->line, 0,
                            "%s of %g bytes in %g us is %.2f of %s's peak of memory, "
                            "fraction_of_peak says %g: which of them is it?",
                            row->test, row->bytes, row->time_us, by_time, job->own->gpu,
                            row->fraction_of_peak);
    }
    return true;
}

bool calibrate_own_check(struct calibrate_job *job) {
    return check_matmuls(job) && check_attentions(job) && check_collectives(job) &&
           check_streams(job);
}
