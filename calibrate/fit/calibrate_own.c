/* calibrate_own.c - what is fitted on a user's own rows, and what of them is not. */
#include <math.h>
#include <string.h>
#include <unistd.h>
#include "calibrate/fit/calibrate_job.h"

enum { OWN_MATMUL_ROWS_MIN = 24 }; /* fewer make no table (fit_matmul.c) */
#define OWN_COLLECTIVE_BYTES 6.4e7 /* nccl-tests' 64 MB, by 1000 or by 1024 */
#define OWN_MATMUL_FLOP      1e10  /* smaller ones are launches */
#define UNLIKE_SHIPPED       0.03
enum { MIX_MAX = 4 };
#define SCATTER 0.5 /* of the time; measured tables are predicted to 3 to 20 % */

static double sm_count_of(const struct calibrate_job *job) {
    return job->gpu->sm_count > 0 && job->gpu->name != NULL ? job->gpu->sm_count
                                                            : calibrate_sm_count(job->own->gpu);
}

/* "torch", or "torch (20), cublasLt (4)" where the rows are of several, in their order. */
static const char *mix_text(struct arena *arena, const char *const *names, int64_t count) {
    const char *seen[MIX_MAX];
    int64_t counts[MIX_MAX] = { 0 }, rest = 0;
    int seen_count = 0;
    for (int64_t i = 0; i < count; i++) {
        int at = 0;
        while (at < seen_count && strcmp(seen[at], names[i]) != 0)
            at++;
        if (at == MIX_MAX) {
            rest++;
            continue;
        }
        if (at == seen_count) seen[seen_count++] = names[i];
        counts[at]++;
    }
    if (seen_count < 2) return seen_count == 1 ? seen[0] : "";
    const char *text = "";
    for (int at = 0; at < seen_count; at++)
        text = arena_format(arena, "%s%s%s (%lld)", text, at > 0 ? ", " : "",
                            seen[at][0] != '\0' ? seen[at] : "not stated", (long long)counts[at]);
    return rest > 0 ? arena_format(arena, "%s, others (%lld)", text, (long long)rest) : text;
}

/* The last line is of a fit of the user's rows of this table. */
static void mark_own(struct calibrate_job *job, enum measurement_format table) {
    struct calibrate_report *report = job->report;
    report->own_used[table] = true;
    report->own_paths[table] = job->own->files[table].path;
    if (report->line_count > 0)
        report->lines[report->line_count - 1].from = job->own->files[table].path;
}

void calibrate_own_unused(struct calibrate_job *job, enum measurement_format table,
                          const char *needs) {
    const struct own_file *file = &job->own->files[table];
    if (file->path == NULL || job->report->own_used[table]) return;
    job->report->unused_count++;
    if (file->row_count == 0) {
        calibrate_add_note(job->report, job->arena, "%s: no row is of %s, it holds %s", file->path,
                           job->own->gpu, file->gpus);
        return;
    }
    calibrate_add_note(job->report, job->arena, "%s: its %lld row%s of %s %s not suffice (%s)",
                       file->path, (long long)file->row_count, file->row_count == 1 ? "" : "s",
                       job->own->gpu, file->row_count == 1 ? "does" : "do", needs);
}

/* ---- which rows ---- */

static bool whole_matmul(const struct gemm_row *row) {
    return row->dtype[0] != '\0' && row->time_us > 0 && row->m > 0 && row->n > 0 && row->k > 0;
}

bool calibrate_own_takes_matmul(const struct gemm_row *row) {
    return whole_matmul(row) && strcmp(row->dtype, "bf16") == 0 &&
           !strstr(row->framework, "groups=") &&
           calibrate_matmul_pass(row->framework) == PASS_FORWARD;
}

bool calibrate_own_whole_attention(const struct attention_row *row) {
    return row->dtype[0] != '\0' && row->time_us > 0 && row->batch > 0 && row->seqlen > 0 &&
           row->heads_q > 0 && row->heads_kv > 0 && row->heads_q % row->heads_kv == 0 &&
           row->head_dim_qk > 0 && row->head_dim_v > 0;
}

bool calibrate_is_of_rule(const struct attention_row *row, const struct attention_rule *rule) {
    return strcmp(row->direction, "fwd") == 0 && row->head_dim_qk == rule->head_dim &&
           row->head_dim_v == rule->head_dim && row->causal == rule->causal;
}

/* ---- fits ---- */

const char *calibrate_own_matmul(struct calibrate_job *job, struct matmul_fit *fit) {
    const struct own_tables *own = job->own;
    const struct gemm_rows *all = &own->rows.gemm;
    struct gemm_row *rows = arena_array(job->arena, struct gemm_row, all->count + 1);
    const char **names = arena_array(job->arena, const char *, all->count + 1);
    int64_t count = 0;
    double largest_flop = 0;
    for (int64_t i = 0; i < all->count; i++) {
        const struct gemm_row *row = &all->rows[i];
        if (!calibrate_own_takes_matmul(row)) continue;
        names[count] = row->framework;
        rows[count++] = *row;
        largest_flop = fmax(largest_flop, 2 * (double)row->m * (double)row->n * (double)row->k);
    }
    const struct matmul_conditions on = { job->gpu->bf16_flop_per_s, job->gpu->hbm_bytes_per_s,
                                          PRECISION_BF16, PASS_FORWARD, sm_count_of(job) };
    /* no table: too few shapes, however often each was measured */
    if (count < OWN_MATMUL_ROWS_MIN || largest_flop < OWN_MATMUL_FLOP ||
        !fit_matmul(job->arena, rows, count, &on, fit, NULL) || fit->axis_count[0] == 0)
        return NULL;
    job->report->matmul_fitted = true;
    calibrate_add_line(job->report, &fit->form, &fit->held_out, "matmul %s", own->gpu);
    mark_own(job, MEASUREMENT_GEMM);
    return own_tables_source(job->arena, own, MEASUREMENT_GEMM, count,
                             mix_text(job->arena, names, count));
}

/* How many lengths there are, up to two: one tells no curve over length. */
static int64_t lengths_of(const struct attention_row *rows, int64_t count) {
    for (int64_t i = 1; i < count; i++)
        if (rows[i].seqlen != rows[0].seqlen) return 2;
    return count > 0;
}

const char *calibrate_own_attention(struct calibrate_job *job, const struct attention_rule *rule,
                                    struct attention_fit *fit) {
    const struct own_tables *own = job->own;
    const struct attention_rows *all = &own->rows.attention;
    struct attention_row *rows = arena_array(job->arena, struct attention_row, all->count + 1);
    const char **names = arena_array(job->arena, const char *, all->count + 1);
    int64_t count = 0;
    for (int64_t i = 0; i < all->count; i++) {
        const struct attention_row *row = &all->rows[i];
        if (!calibrate_is_of_rule(row, rule) || strcmp(row->dtype, "bf16") != 0 ||
            !calibrate_own_whole_attention(row))
            continue;
        names[count] = row->framework;
        rows[count++] = *row;
    }
    const struct attention_conditions on = { job->gpu->bf16_flop_per_s, job->gpu->hbm_bytes_per_s,
                                             sm_count_of(job) };
    if (count < ATTENTION_ROWS_MIN || lengths_of(rows, count) < 2 ||
        !fit_attention(job->arena, rows, count, &on, fit, NULL))
        return NULL;
    calibrate_add_line(job->report, &fit->form, &fit->held_out, "attention %s d=%lld %s", own->gpu,
                       (long long)rule->head_dim, rule->causal ? "causal" : "full");
    mark_own(job, MEASUREMENT_ATTENTION);
    return own_tables_source(job->arena, own, MEASUREMENT_ATTENTION, count,
                             mix_text(job->arena, names, count));
}

const char *calibrate_own_backward(struct calibrate_job *job, struct backward_fit *fit) {
    const struct attention_rows *all = &job->own->rows.attention;
    struct attention_row *rows = arena_array(job->arena, struct attention_row, all->count + 1);
    int64_t count = 0;
    for (int64_t i = 0; i < all->count; i++)
        if (calibrate_own_whole_attention(&all->rows[i])) rows[count++] = all->rows[i];
    if (!fit_attention_backward(job->arena, rows, count, fit, NULL)) return NULL;
    calibrate_add_line(job->report, NULL, &fit->residual, "attention backward over forward");
    mark_own(job, MEASUREMENT_ATTENTION);
    return own_tables_source(job->arena, job->own, MEASUREMENT_ATTENTION, fit->residual.count,
                             "pairs of forward and backward");
}

const char *calibrate_own_streams(struct calibrate_job *job, struct streaming_fit *fit) {
    const struct own_tables *own = job->own;
    const struct membw_rows *all = &own->rows.membw, *others = &job->measured->membw;
    const char **names = arena_array(job->arena, const char *, all->count + 1);
    int64_t count = 0, norm_counts[2] = { 0 };
    for (int64_t i = 0; i < all->count; i++) {
        const enum stream_kind kind = stream_kind_of(&all->rows[i]);
        if (!(all->rows[i].fraction_of_peak > 0)) continue;
        if (kind == STREAM_ELEMENTWISE) names[count++] = all->rows[i].framework;
        if (kind == STREAM_NORM_FORWARD) norm_counts[0]++;
        if (kind == STREAM_NORM_BACKWARD) norm_counts[1]++;
    }
    const bool own_norms = norm_counts[0] > 0 && norm_counts[1] > 0;
    const struct membw_rows *norms = own_norms ? all : others;
    const struct streaming_source from = { all->rows,    all->count,
                                           own->gpu,     norms->rows,
                                           norms->count, own_norms ? own->gpu : STREAM_NORM_GPU };
    if (!fit_streaming(&from, job->arena, fit, NULL)) return NULL;
    calibrate_add_line(job->report, NULL, &fit->stream_residual, "streams %s", own->gpu);
    mark_own(job, MEASUREMENT_MEMBW);
    calibrate_add_line(job->report, NULL, &fit->norm_residual, "norms %s", from.norm_gpu);
    if (own_norms) mark_own(job, MEASUREMENT_MEMBW);
    const char *mix = mix_text(job->arena, names, count);
    const char *streams = own_tables_source(
        job->arena, own, MEASUREMENT_MEMBW, count,
        mix[0] != '\0' ? arena_format(job->arena, "streams, %s", mix) : "streams");
    if (own_norms)
        return arena_format(job->arena, "%s, %lld fused norms there", streams,
                            (long long)(norm_counts[0] + norm_counts[1]));
    return arena_format(job->arena, "%s, " STREAM_NORM_SOURCE, streams);
}

/* Beyond its sizes a table goes on at the rate that its last ones tell: they have to be large, and no
 * faster than the links. */
static bool tells_bandwidth(struct calibrate_job *job, const struct collective_fit *fit) {
    const double link = job->gpu->nvlink_bytes_per_s;
    const double most = link > 0 ? link : job->gpu->hbm_bytes_per_s;
    return fit->bytes[fit->count - 1] >= OWN_COLLECTIVE_BYTES &&
           !(most > 0 && fit->plateau_GB_per_s * 1e9 > FASTEST_OF_PEAK * most);
}

const char *calibrate_own_collective(struct calibrate_job *job, enum operator_kind op,
                                     int64_t rank_count, struct collective_fit *fit) {
    const struct nccl_rows *all = &job->own->rows.nccl;
    const char **names = arena_array(job->arena, const char *, all->count + 1);
    int64_t count = 0;
    if (!fit_collective(all->rows, all->count, job->own->gpu, op, rank_count, fit) ||
        !tells_bandwidth(job, fit))
        return NULL;
    calibrate_add_line(job->report, NULL, &fit->held_out, "%s of %lld on %s",
                       operator_kind_name(op), (long long)rank_count, job->own->gpu);
    mark_own(job, MEASUREMENT_NCCL);
    for (int64_t i = 0; i < all->count; i++)
        if (fit_collective_takes(&all->rows[i], job->own->gpu, op, rank_count))
            names[count++] = all->rows[i].nccl_version;
    const char *mix = mix_text(job->arena, names, count);
    return own_tables_source(job->arena, job->own, MEASUREMENT_NCCL, count,
                             mix[0] != '\0' ? arena_format(job->arena, "NCCL %s", mix) : "");
}

/* ---- what it says ---- */

/* Of what a table holds of other GPUs. */
static void note_others(struct calibrate_job *job, const struct own_file *file) {
    if (file->row_count > 0 && strchr(file->gpus, ',') != NULL)
        calibrate_add_note(job->report, job->arena, "%s holds %s: only those of %s are taken",
                           file->path, file->gpus, job->own->gpu);
}

/* NAME.csv.gz is read before NAME.csv beside it. */
static void note_hidden(struct calibrate_job *job, const struct own_file *file) {
    const size_t length = file->path != NULL ? strlen(file->path) : 0;
    if (length < 4 || strcmp(file->path + length - 3, ".gz") != 0) return;
    const char *plain = arena_format(job->arena, "%.*s", (int)length - 3, file->path);
    if (access(plain, F_OK) == 0)
        calibrate_add_note(job->report, job->arena, "%s is not read: %s is", plain, file->path);
}

/* Rows of one reason, and the line of the first. */
struct lost {
    int64_t count;
    long line;
};

static void lose(struct lost *lost, long line) {
    if (lost->count++ == 0) lost->line = line;
}

static void left_out(struct calibrate_job *job, enum measurement_format table, struct lost lost,
                     const char *which) {
    if (lost.count > 0)
        calibrate_add_note(job->report, job->arena, "%s: %lld row%s of %s not taken: %s (%s %ld)",
                           job->own->files[table].path, (long long)lost.count,
                           lost.count == 1 ? "" : "s", job->own->gpu, which,
                           lost.count == 1 ? "line" : "the first in line", lost.line);
}

static bool has_table(enum operator_kind op, int64_t rank_count) {
    for (int i = 0; i < RANK_COUNTS; i++)
        if (calibrate_rank_counts[i] == rank_count) return op != OPERATOR_SEND || rank_count == 2;
    return false;
}

/* Of the rows of this GPU that could be taken: why none of their collective and ranks was. */
static void collectives_left_out(struct calibrate_job *job) {
    static const enum operator_kind kinds[] = { OPERATOR_ALL_REDUCE, OPERATOR_ALL_GATHER,
                                                OPERATOR_REDUCE_SCATTER, OPERATOR_ALL_TO_ALL,
                                                OPERATOR_SEND };
    const struct nccl_rows *all = &job->own->rows.nccl;
    struct lost lone = { 0 }, small = { 0 }, other_ranks = { 0 }, nodes = { 0 };
    for (int64_t i = 0; i < all->count; i++) {
        const struct nccl_row *row = &all->rows[i];
        if (strcmp(row->gpu, job->own->gpu) != 0 || row->in_place || !(row->time_us > 0)) continue;
        if (row->n_nodes > 1) {
            lose(&nodes, row->line);
            continue;
        }
        for (size_t k = 0; k < sizeof kinds / sizeof kinds[0]; k++) {
            struct collective_fit fit;
            if (!fit_collective_takes(row, job->own->gpu, kinds[k], row->n_gpus)) continue;
            if (!has_table(kinds[k], row->n_gpus))
                lose(&other_ranks, row->line);
            else if (!fit_collective(all->rows, all->count, job->own->gpu, kinds[k], row->n_gpus,
                                     &fit))
                lose(&lone, row->line);
            else if (!tells_bandwidth(job, &fit))
                lose(&small, row->line);
        }
    }
    left_out(job, MEASUREMENT_NCCL, lone,
             "the one size of their collective and ranks; a table needs two");
    left_out(
        job, MEASUREMENT_NCCL, small,
        "the largest sizes of their collective and ranks tell no bandwidth: a table needs 64 MB, "
        "no faster than the links");
    left_out(job, MEASUREMENT_NCCL, other_ranks, "tables are of 2, 4 and 8 GPUs, of sendrecv 2");
    left_out(job, MEASUREMENT_NCCL, nodes, "of more than one node; tables are of one");
}

static void note_scatter(struct calibrate_job *job) {
    for (int64_t i = 0; i < job->report->line_count; i++) {
        const struct calibrate_line *line = &job->report->lines[i];
        if (strcmp(line->from, CALIBRATE_SHIPPED) == 0 || line->held_out.p80 < SCATTER) continue;
        calibrate_add_note(job->report, job->arena,
                           "%s: %s: one in five points lies %.0f %% or more from what the others "
                           "say: sizes are too far apart, or rows contradict each other",
                           line->from, line->what, 100 * line->held_out.p80);
    }
}

/* Long matmuls in a step run at clocks that settle under load, which these tables do not tell. */
static void note_settled(struct calibrate_job *job) {
    const double own = job->report->matmul.coefficient[MATMUL_EFFICIENCY],
                 shipped = job->gpu->relative_efficiency;
    if (!job->report->own_used[MEASUREMENT_GEMM] || job->gpu->name != NULL || !(shipped > 0) ||
        fabs(own / shipped - 1) < UNLIKE_SHIPPED)
        return;
    calibrate_add_note(
        job->report, job->arena,
        "%s: its matmuls reach %.2f of the peak, the shipped ones %.2f: long ones in a "
        "step stay at the shipped ceiling of settled clocks, %.2f of it, which your "
        "step times correct (calibrate fit --steps)",
        job->own->files[MEASUREMENT_GEMM].path, own, shipped, job->plan->settled_efficiency);
}

void calibrate_own_left_out(struct calibrate_job *job, const char *measured_dir) {
    const struct calibrate_tables *own = &job->own->rows;
    struct lost blank[MEASUREMENT_FORMAT_COUNT] = { 0 }, low = { 0 }, layouts = { 0 },
                low_attention = { 0 }, norms = { 0 }, directions = { 0 }, uneven = { 0 },
                ops = { 0 }, tests = { 0 };
    for (int64_t i = 0; i < own->gemm.count; i++) {
        const struct gemm_row *row = &own->gemm.rows[i];
        if (!whole_matmul(row))
            lose(&blank[MEASUREMENT_GEMM], row->line);
        else if (strcmp(row->dtype, "bf16") != 0)
            lose(&low, row->line);
        else if (!calibrate_own_takes_matmul(row))
            lose(&layouts, row->line);
    }
    for (int64_t i = 0; i < own->attention.count; i++) {
        const struct attention_row *row = &own->attention.rows[i];
        if (!calibrate_own_whole_attention(row))
            lose(&blank[MEASUREMENT_ATTENTION], row->line);
        else if (strcmp(row->dtype, "bf16") != 0)
            lose(&low_attention, row->line);
        else if (strcmp(row->direction, "fwd") != 0 && strcmp(row->direction, "bwd") != 0)
            lose(&directions, row->line);
        else if (row->head_dim_qk != row->head_dim_v)
            lose(&uneven, row->line);
    }
    for (int64_t i = 0; i < own->nccl.count; i++) {
        const struct nccl_row *row = &own->nccl.rows[i];
        enum operator_kind op;
        if (!(row->time_us > 0 && row->bytes > 0 && row->n_gpus > 0))
            lose(&blank[MEASUREMENT_NCCL], row->line);
        else if (!fit_collective_op(row->op, &op))
            lose(&ops, row->line);
    }
    for (int64_t i = 0; i < own->membw.count; i++) {
        const struct membw_row *row = &own->membw.rows[i];
        if (!(row->fraction_of_peak > 0))
            lose(&blank[MEASUREMENT_MEMBW], row->line);
        else if (strstr(row->test, "norm") != NULL && stream_kind_of(row) == STREAM_NONE)
            lose(&norms, row->line);
        else if (stream_kind_of(row) == STREAM_NONE)
            lose(&tests, row->line);
    }
    for (int f = 0; f < MEASUREMENT_FORMAT_COUNT; f++) {
        note_others(job, &job->own->files[f]);
        note_hidden(job, &job->own->files[f]);
    }
    note_scatter(job);
    left_out(job, MEASUREMENT_GEMM, blank[MEASUREMENT_GEMM],
             "dtype, m, n, k or time_us is blank or 0");
    left_out(job, MEASUREMENT_GEMM, low,
             "not bf16; fp8 and fp4 are bf16's curve at the shipped ceilings");
    left_out(job, MEASUREMENT_GEMM, layouts,
             "not the forward layout; the backward is the forward times the shipped factor");
    left_out(job, MEASUREMENT_ATTENTION, blank[MEASUREMENT_ATTENTION],
             "dtype, a size or time_us is blank or 0, or heads_kv does not divide heads_q");
    left_out(job, MEASUREMENT_ATTENTION, low_attention, "not bf16");
    left_out(job, MEASUREMENT_ATTENTION, directions, "neither forward nor backward");
    left_out(job, MEASUREMENT_ATTENTION, uneven, "head sizes of keys and values differ");
    left_out(job, MEASUREMENT_NCCL, ops, "a collective that no table is of");
    left_out(job, MEASUREMENT_MEMBW, tests, "not a kernel that streams are fitted on");
    left_out(job, MEASUREMENT_NCCL, blank[MEASUREMENT_NCCL],
             "n_gpus, bytes or time_us is blank or 0");
    if (job->own->files[MEASUREMENT_NCCL].row_count > 0) collectives_left_out(job);
    left_out(job, MEASUREMENT_MEMBW, blank[MEASUREMENT_MEMBW], "fraction_of_peak is blank or 0");
    left_out(job, MEASUREMENT_MEMBW, norms,
             "norms that are not fused rms_norm of cudnn or torch_compile beyond 50 MB");
    note_settled(job);
    const char *settled = calibrate_table(job->arena, measured_dir, NULL, "gemm_settled");
    if (access(settled, F_OK) == 0)
        calibrate_add_note(
            job->report, job->arena,
            "%s is not taken: the ceilings of settled clocks stay as shipped (see it "
            "with `ballast calibrate check`)",
            settled);
}

const char *calibrate_own_note(struct calibrate_job *job) {
    static const char *const parts[MEASUREMENT_FORMAT_COUNT] = {
        [MEASUREMENT_GEMM] = "matmul",
        [MEASUREMENT_ATTENTION] = "attention",
        [MEASUREMENT_NCCL] = "collectives",
        [MEASUREMENT_MEMBW] = "streaming",
    };
    const char *files = "", *rest = "";
    for (int f = 0; f < MEASUREMENT_FORMAT_COUNT; f++) {
        if (job->report->own_used[f])
            files =
                arena_format(job->arena, "%s%s%s of %s (%s)", files, files[0] != '\0' ? ", " : "",
                             job->own->files[f].path, job->own->files[f].date, parts[f]);
        else
            rest = arena_format(job->arena, "%s%s%s", rest, rest[0] != '\0' ? ", " : "", parts[f]);
    }
    if (files[0] == '\0') return job->plan->note;
    return arena_format(job->arena, "own measurements of %s: %s; settled ceilings, fp8%s%s %s: %s",
                        job->own->gpu, files, rest[0] != '\0' ? ", " : "", rest,
                        job->gpu->name != NULL ? "by a relative" : "as shipped", job->plan->note);
}
