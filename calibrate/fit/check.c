/* check.c - measured rows against prices, grouped.
 *
 * Every format becomes the same question: an operator_work, perhaps a communicator, the profile and
 * variant to price it with, and the measured seconds. The four readers below only translate. */
#include "calibrate/fit/check.h"

#include <ctype.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>
#include "calibrate/fit/calibrate.h"
#include "calibrate/fit/calibrate_job.h"
#include "calibrate/fit/gpu_name.h"
#include "calibrate/fit/interconnect.h"
#include "calibrate/fit/measurements.h"
#include "calibrate/fit/own_tables.h"
#include "calibrate/fit/plan.h"
#include "calibrate/fit/robust_fit.h"
#include "costmodel/cost_model.h"
#include "costmodel/efficiency.h"
#include "costmodel/generation.h"

#define MATMUL_LARGE_FLOP      1e10
#define COLLECTIVE_LARGE_BYTES 1048576.0
/* Smaller buffers may stay in L2, which passes the memory's peak. */
#define BEYOND_CACHES_BYTES 5e8
enum { MODEL_MAX = 64, GROUP_MAX = 1024, SKIP_MAX = 64 };

struct sample {
    int64_t group;
    double relative_error;
    bool inside_band;
};

struct priced_model {
    const char *profile, *interconnect;
    struct cost_model *model;
};

struct checker {
    struct arena *arena;
    const char *scenarios, *profile; /* NULL: by the row's GPU */
    bool own_curves;                 /* the profile's, whatever variant the framework has */
    struct calibrate_check *out;
    int64_t model_count;
    struct priced_model models[MODEL_MAX];
    int64_t sample_count;
    struct sample *samples;
    struct error *err;
};

/* What a row asks. */
struct question {
    const char *gpu, *framework, *operator_name, *large_name; /* large_name NULL: not large */
    const char *interconnect;                                 /* NULL: one GPU or one node */
    const char *version; /* names the variant instead of the framework; NULL: it does */
    struct operator_work work;
    struct communicator group; /* rank_count 0: none */
    double measured_s;
    int64_t row; /* of the file, from 1 */
};

static void skip(struct checker *c, const char *reason) {
    struct calibrate_check *out = c->out;
    int64_t i = 0;
    while (i < out->skip_count && strcmp(out->skips[i].reason, reason) != 0)
        i++;
    if (i == SKIP_MAX) i--; /* reasons are few; names of unknown GPUs may not be */
    if (i == out->skip_count) out->skips[out->skip_count++].reason = reason;
    out->skips[i].row_count++;
}

/* ---- which profile and network ----------------------------------------------------------------
 */

/* Loaded once for each profile and network. */
static bool find_model(struct checker *c, const char *profile, const char *interconnect,
                       struct cost_model **model) {
    for (int64_t i = 0; i < c->model_count; i++)
        if (strcmp(c->models[i].profile, profile) == 0 &&
            strcmp(c->models[i].interconnect, interconnect) == 0) {
            *model = c->models[i].model;
            return true;
        }
    struct cluster_network network;
    network_from_interconnect(interconnect, profile, &network);
    *model = cost_model_create(c->arena, c->scenarios, profile, &network, c->err);
    if (!*model) return false;
    if (c->model_count < MODEL_MAX)
        c->models[c->model_count++] = (struct priced_model){ profile, interconnect, *model };
    return true;
}

/* The word stands whole in the text: a version's beginning does, "2.8" in "nccl 2.8.4", but neither
 * a part of a number ("2.80", "12.8") nor another library's version behind it
 * ("2.27.7+cuda2.8"). */
static bool has_word(const char *text, const char *word) {
    const size_t length = strlen(word);
    for (const char *at = strstr(text, word); at != NULL; at = strstr(at + 1, word)) {
        const bool begins = at == text || at[-1] == ' ' || at[-1] == ',';
        if (begins && !isalnum((unsigned char)at[length])) return true;
    }
    return false;
}

/* A framework's text begins with the first word of the name and has the second, if there is one. */
static bool is_named(const char *framework, const char *name) {
    const size_t first = strcspn(name, " ");
    return strncasecmp(framework, name, first) == 0 && !isalnum((unsigned char)framework[first]) &&
           (name[first] == '\0' || has_word(framework, name + first + 1));
}

/* The variant of this framework, by the longest name; -1: the profile's own curves. */
static int64_t find_variant(const struct cost_model *model, const char *framework) {
    int64_t found = -1;
    size_t longest = 0;
    for (int64_t v = 0; v < cost_model_variant_count(model); v++) {
        const char *name = cost_model_variant_name(model, v);
        if (strlen(name) <= longest || !is_named(framework, name)) continue;
        longest = strlen(name);
        found = v;
    }
    return found;
}

/* The digit of a version behind `at`: "-2", " v2.7", "==2.6", " version 3"; 0: none. */
static char version_behind(const char *at) {
    static const char separators[] = " -_=@(:.v";
    at += strspn(at, separators);
    if (strncasecmp(at, "ersion", 6) == 0) at += 6 + strspn(at + 6, separators);
    return isdigit((unsigned char)at[0]) && !isdigit((unsigned char)at[1]) ? at[0] : '\0';
}

/* The FlashAttention that the text speaks of at `at`: "FlashAttention-2", "flash_attn 2.7", "fa3". */
static char flash_version(const char *text, const char *at) {
    const bool begins = at == text || !isalpha((unsigned char)at[-1]);
    if (begins && strncasecmp(at, "fa", 2) == 0 && isdigit((unsigned char)at[2]))
        return version_behind(at + 2);
    if (strncasecmp(at, "flash", 5) != 0) return '\0';
    at += 5 + strspn(at + 5, " -_");
    if (strncasecmp(at, "attention", 9) == 0) return version_behind(at + 9);
    return strncasecmp(at, "attn", 4) == 0 ? version_behind(at + 4) : '\0';
}

/* FlashAttention-2 runs kernels of Ampere on later GPUs, unlike those that their profiles were made
 * of. A text that names another version too means that one. */
static bool runs_flash_2(const struct question *q) {
    bool second = false;
    if (q->work.kind != OPERATOR_ATTENTION) return false;
    for (const char *at = q->framework; *at != '\0'; at++) {
        const char version = flash_version(q->framework, at);
        if (version != '\0' && version != '2') return false;
        second = second || version == '2';
    }
    return second;
}

/* Its backward adds in a fixed order, which a price of a step knows for its kernel and GPU
 * (attention_modes.h), and the variant's own kernels do not. */
static bool sums_in_order(const struct question *q, const char *gpu, const char *variant) {
    static const char ordered[] = "deterministic_bwd=True";
    if (q->work.kind != OPERATOR_ATTENTION || q->work.pass != PASS_BACKWARD ||
        strstr(q->framework, ordered) == NULL || strstr(variant, ordered) != NULL)
        return false;
    const enum gpu_generation generation = gpu_generation_of(gpu);
    return runs_flash_2(q) || generation == GENERATION_BLACKWELL ||
           (generation == GENERATION_HOPPER && is_named(q->framework, "cudnn"));
}

/* ---- groups -----------------------------------------------------------------------------------
 */

static int64_t find_group(struct checker *c, const struct question *q, const char *operator_name,
                          const char *profile, const char *variant, bool flash_2) {
    struct calibrate_check *out = c->out;
    for (int64_t g = 0; g < out->group_count; g++) {
        const struct calibrate_group *group = &out->groups[g];
        if (strcmp(group->operator_name, operator_name) == 0 && strcmp(group->gpu, q->gpu) == 0 &&
            strcmp(group->framework, q->framework) == 0)
            return g;
    }
    if (out->group_count == GROUP_MAX) return -1;
    const bool kernel = q->work.kind == OPERATOR_MATMUL || q->work.kind == OPERATOR_ATTENTION;
    out->groups[out->group_count] = (struct calibrate_group){
        .operator_name = operator_name,
        .gpu = q->gpu,
        .framework = q->framework,
        .priced_by = variant ? arena_format(c->arena, "%s, variant %s", profile, variant)
                     : kernel
                         ? arena_format(c->arena,
                                        "%s, no variant of this framework: the "
                                        "profile's own curves%s",
                                        profile, flash_2 ? ", and what FlashAttention-2 makes" : "")
                         : profile,
        .exact_variant = variant || !kernel,
    };
    return out->group_count++;
}

/* ---- rows that cannot be ----------------------------------------------------------------------
 */

static bool is_compute(const struct operator_work *work) {
    return work->kind == OPERATOR_MATMUL || work->kind == OPERATOR_ATTENTION;
}

static const char *too_fast(struct arena *arena, const char *than, const struct gpu *gpu,
                            const char *units) {
    return arena_format(arena, "more than %g times as fast as the %s of '%s': %s", FASTEST_OF_PEAK,
                        than, gpu->name, units);
}

/* Why no such row is true of this GPU; NULL: it may be. */
static const char *impossible(struct arena *arena, const struct question *q,
                              const struct gpu *gpu) {
    const struct operator_work *work = &q->work;
    const double allowed_s = FASTEST_OF_PEAK * q->measured_s; /* that the peak would need */
    if (is_compute(work)) {
        const double peak = gpu->peak_flop_per_s[work->precision];
        return peak > 0 && work->flop > allowed_s * peak
                   ? too_fast(arena, "peak", gpu, "time_us is in microseconds")
                   : NULL;
    }
    if (q->group.rank_count == 0)
        return work->memory_bytes >= BEYOND_CACHES_BYTES &&
                       work->memory_bytes > allowed_s * gpu->hbm_bytes_per_s
                   ? too_fast(arena, "memory", gpu,
                              "bytes are all that is read and written, time_us is in microseconds")
                   : NULL;
    const double link =
        gpu->nvlink_bytes_per_s > 0 ? gpu->nvlink_bytes_per_s : gpu->hbm_bytes_per_s;
    const double sent =
        collective_wire_factor(work->kind, (double)q->group.rank_count) * work->network_bytes;
    return sent > allowed_s * link
               ? too_fast(arena, gpu->nvlink_bytes_per_s > 0 ? "NVLink" : "memory", gpu,
                          "bytes are those of the whole buffer, time_us is in microseconds")
               : NULL;
}

/* A hardware file of the user's is of the GPU that its name or description says. */
static bool is_called(const struct gpu *gpu, const char *name) {
    return strcmp(gpu->name, name) == 0 ||
           strcmp(gpu_name_short(gpu->description), gpu_name_short(name)) == 0;
}

/* By the GPU that the row names, whichever profile prices it; of one that is not known all may be. */
static bool find_impossible(struct checker *c, const struct question *q, const struct gpu *priced,
                            const char **why) {
    const char *profile = calibrate_profile_of(q->gpu);
    struct cost_model *model;
    if (profile == NULL && is_called(priced, q->gpu)) *why = impossible(c->arena, q, priced);
    if (profile == NULL) return true;
    if (!find_model(c, profile, "", &model)) return false;
    *why = impossible(c->arena, q, cost_model_gpu(model));
    return true;
}

static bool answer(struct checker *c, const struct question *q) {
    const char *profile = c->profile ? c->profile : calibrate_profile_of(q->gpu);
    struct cost_model *model;
    if (!profile) {
        skip(c, arena_format(c->arena, "no profile of GPU '%s'", q->gpu));
        return true;
    }
    if (!find_model(c, profile, q->interconnect ? q->interconnect : "", &model)) return false;
    const bool compute = is_compute(&q->work);
    if (compute && !(cost_model_gpu(model)->peak_flop_per_s[q->work.precision] > 0)) {
        skip(c, arena_format(c->arena, "%s on a GPU without it: '%s'",
                             precision_name(q->work.precision), q->gpu));
        return true;
    }
    const char *why = NULL;
    if (!find_impossible(c, q, cost_model_gpu(model), &why)) return false;
    if (why != NULL) {
        skip(c, why);
        return true;
    }
    const int64_t variant =
        c->own_curves ? -1 : find_variant(model, q->version ? q->version : q->framework);
    const struct communicator *ranks = q->group.rank_count ? &q->group : NULL;
    struct operator_work work = q->work;
    work.deterministic = sums_in_order(q, cost_model_gpu(model)->name,
                                       variant < 0 ? "" : cost_model_variant_name(model, variant));
    struct price price = cost_model_price_variant(model, variant, &work, ranks);
    bool flash_2 = false;
    if (variant < 0 && runs_flash_2(q)) {
        const double usual_s = price.seconds;
        work.attention_kernel = ATTENTION_KERNEL_FLASH_2;
        price = cost_model_price_variant(model, variant, &work, ranks);
        flash_2 = price.seconds != usual_s;
    }
    const char *variant_name =
        variant < 0 || !(compute || q->version) ? NULL : cost_model_variant_name(model, variant);
    const double error = price.seconds / q->measured_s - 1;
    const bool inside = fabs(q->measured_s / price.seconds - 1) <= price.band_fraction;
    const char *const names[] = { q->operator_name, q->large_name };
    int64_t last = -1;
    for (int i = 0; i < 2 && names[i]; i++) {
        const int64_t group = find_group(c, q, names[i], profile, variant_name, flash_2);
        if (group < 0) {
            skip(c, "more groups than are kept");
            continue;
        }
        last = group;
        c->samples[c->sample_count++] = (struct sample){ group, error, inside };
    }
    if (last >= 0)
        c->out->rows[c->out->priced_count++] =
            (struct calibrate_row){ q->row, last, q->measured_s, price.seconds, inside };
    return true;
}

static int compare_samples(const void *a, const void *b) {
    const struct sample *x = a, *y = b;
    return (x->group > y->group) - (x->group < y->group);
}

static void summarise(struct checker *c) {
    double *error = arena_array(c->arena, double, c->sample_count + 1);
    qsort(c->samples, (size_t)c->sample_count, sizeof *c->samples, compare_samples);
    for (int64_t i = 0, j; i < c->sample_count; i = j) {
        struct calibrate_group *group = &c->out->groups[c->samples[i].group];
        double sum = 0;
        int64_t inside_count = 0;
        for (j = i; j < c->sample_count && c->samples[j].group == c->samples[i].group; j++) {
            error[j - i] = fabs(c->samples[j].relative_error);
            sum += c->samples[j].relative_error;
            inside_count += c->samples[j].inside_band;
        }
        group->row_count = j - i;
        group->median_abs_relative_error = fit_quantile(error, j - i, 0.5);
        group->p90_abs_relative_error = fit_quantile(error, j - i, 0.9);
        group->mean_signed_relative_error = sum / (double)(j - i);
        group->inside_band_fraction = (double)inside_count / (double)(j - i);
    }
}

static void begin_rows(struct checker *c, int64_t count) {
    c->out->row_count = count;
    c->out->rows = arena_array(c->arena, struct calibrate_row, count + 1);
    c->samples = arena_array(c->arena, struct sample, 2 * count + 1);
}

/* ---- the four formats -------------------------------------------------------------------------
 */

static bool find_precision(struct checker *c, const char *dtype, enum precision *out) {
    for (int p = 0; p < PRECISION_COUNT; p++)
        if (strcasecmp(dtype, precision_name((enum precision)p)) == 0) {
            *out = (enum precision)p;
            return true;
        }
    skip(c, *dtype ? arena_format(c->arena, "precision '%s' is not priced", dtype)
                   : "no precision stated");
    return false;
}

static bool check_gemm_rows(struct checker *c, const struct gemm_rows *rows) {
    begin_rows(c, rows->count);
    for (int64_t i = 0; i < rows->count; i++) {
        const struct gemm_row *row = &rows->rows[i];
        enum precision precision;
        if (row->m < 1 || row->n < 1 || row->k < 1 || !(row->time_us > 0))
            skip(c, "no shape or no time");
        else if (strstr(row->framework, "groups="))
            skip(c, "several matmuls in one call");
        else if (find_precision(c, row->dtype, &precision)) {
            const struct operator_work work = operator_matmul(
                "", calibrate_matmul_pass(row->framework), precision, row->m, row->n, row->k);
            const struct question q = { .gpu = row->gpu,
                                        .framework = row->framework,
                                        .operator_name = "matmul",
                                        .large_name = work.flop >= MATMUL_LARGE_FLOP
                                                          ? "matmul >= 1e10 FLOP"
                                                          : NULL,
                                        .work = work,
                                        .measured_s = row->time_us / 1e6,
                                        .row = i + 1 };
            if (!answer(c, &q)) return false;
        }
    }
    return true;
}

static bool check_attention_rows(struct checker *c, const struct attention_rows *rows) {
    begin_rows(c, rows->count);
    for (int64_t i = 0; i < rows->count; i++) {
        const struct attention_row *row = &rows->rows[i];
        const bool backward = strcmp(row->direction, "bwd") == 0;
        const double tokens = (double)(row->batch * row->seqlen);
        enum precision precision;
        if (tokens < 1 || row->heads_q < 1 || row->heads_kv < 1 || row->head_dim_qk < 1 ||
            !(row->time_us > 0))
            skip(c, "no shape or no time");
        else if (row->heads_q % row->heads_kv != 0)
            skip(c, "heads_kv does not divide heads_q");
        else if (!backward && strcmp(row->direction, "fwd") != 0)
            skip(c, "neither forward nor backward");
        else if (row->head_dim_qk != row->head_dim_v)
            skip(c, "head sizes of keys and values differ");
        else if (strcmp(row->dtype, "fp8") == 0)
            skip(c, "attention in fp8 has no curve");
        else if (find_precision(c, row->dtype, &precision)) {
            const struct question q = {
                .gpu = row->gpu,
                .framework = row->framework,
                .operator_name = backward ? "attention backward" : "attention forward",
                .work = operator_attention("", backward ? PASS_BACKWARD : PASS_FORWARD, precision,
                                           tokens, tokens * (double)row->seqlen, row->heads_q,
                                           row->heads_kv, row->head_dim_qk, row->causal),
                .measured_s = row->time_us / 1e6,
                .row = i + 1
            };
            if (!answer(c, &q)) return false;
        }
    }
    return true;
}

/* Kernels that a price of this project stands for. */
static const struct {
    const char *test;
    enum operator_kind kind;
    enum operator_pass pass;
} membw_kinds[] = {
    { "BabelStream-dot", OPERATOR_MATMUL, PASS_FORWARD }, /* reads only */
    { "BabelStream-", OPERATOR_ELEMENTWISE, PASS_FORWARD },
    { "stream-scale", OPERATOR_ELEMENTWISE, PASS_FORWARD },
    { "stream-triad", OPERATOR_ELEMENTWISE, PASS_FORWARD },
    { "residual add", OPERATOR_ELEMENTWISE, PASS_FORWARD },
    { "silu*mul", OPERATOR_ELEMENTWISE, PASS_FORWARD },
    { "rms_norm-fwd", OPERATOR_NORM, PASS_FORWARD },
    { "rms_norm-bwd", OPERATOR_NORM, PASS_BACKWARD },
    { "layer_norm-fwd", OPERATOR_NORM, PASS_FORWARD },
    { "layer_norm-bwd", OPERATOR_NORM, PASS_BACKWARD },
    { "rmsnorm", OPERATOR_NORM, PASS_FORWARD },
};

#define STREAM_BYTES 1e9 /* a fraction of the bandwidth without a size: of a buffer this large */

static bool check_membw_rows(struct checker *c, const struct membw_rows *rows) {
    begin_rows(c, rows->count);
    for (int64_t i = 0; i < rows->count; i++) {
        const struct membw_row *row = &rows->rows[i];
        const size_t kind_count = sizeof membw_kinds / sizeof membw_kinds[0];
        size_t k = 0;
        while (k < kind_count &&
               strncmp(row->test, membw_kinds[k].test, strlen(membw_kinds[k].test)) != 0)
            k++;
        if (k == kind_count || membw_kinds[k].kind == OPERATOR_MATMUL) {
            skip(c, "not a kernel of a training step: test is none of stream-scale, stream-triad, "
                    "BabelStream-..., residual add, silu*mul, rms_norm-fwd, rms_norm-bwd, "
                    "layer_norm-fwd, layer_norm-bwd");
            continue;
        }
        const char *profile = c->profile ? c->profile : calibrate_profile_of(row->gpu);
        struct cost_model *model = NULL;
        double bytes = row->bytes, seconds = row->time_us / 1e6;
        if (profile && !find_model(c, profile, "", &model)) return false;
        if (model && !(bytes > 0 && seconds > 0) && row->fraction_of_peak > 0) {
            bytes = STREAM_BYTES;
            seconds = bytes / (row->fraction_of_peak * cost_model_gpu(model)->hbm_bytes_per_s);
        }
        if (profile && !(bytes > 0 && seconds > 0)) {
            skip(c, "neither size and time nor a fraction of the peak");
            continue;
        }
        const struct question q = { .gpu = row->gpu,
                                    .framework = row->framework,
                                    .operator_name = arena_format(
                                        c->arena, "%s %s", operator_kind_name(membw_kinds[k].kind),
                                        operator_pass_name(membw_kinds[k].pass)),
                                    .work = operator_streaming("", membw_kinds[k].kind,
                                                               membw_kinds[k].pass, PRECISION_BF16,
                                                               bytes),
                                    .measured_s = seconds,
                                    .row = i + 1 };
        if (!answer(c, &q)) return false;
    }
    return true;
}

static bool check_nccl_rows(struct checker *c, const struct nccl_rows *rows) {
    static const struct {
        const char *name;
        enum operator_kind kind;
    } ops[] = {
        { "all_reduce", OPERATOR_ALL_REDUCE },
        { "all_gather", OPERATOR_ALL_GATHER },
        { "reduce_scatter", OPERATOR_REDUCE_SCATTER },
        { "alltoall", OPERATOR_ALL_TO_ALL },
        { "sendrecv", OPERATOR_SEND },
    };
    enum { OP_COUNT = sizeof ops / sizeof ops[0] };
    begin_rows(c, rows->count);
    for (int64_t i = 0; i < rows->count; i++) {
        const struct nccl_row *row = &rows->rows[i];
        int op = 0;
        while (op < OP_COUNT && strcmp(ops[op].name, row->op) != 0)
            op++;
        if (op == OP_COUNT) {
            skip(c, arena_format(c->arena, "collective '%s' is not priced", row->op));
            continue;
        }
        if (row->n_gpus < 2 || !(row->bytes > 0) || !(row->time_us > 0)) {
            skip(c, "no GPUs, size or time");
            continue;
        }
        if (row->n_nodes > row->n_gpus) {
            skip(c, "more nodes than GPUs");
            continue;
        }
        struct cluster_network network;
        network_from_interconnect(
            row->interconnect, c->profile ? c->profile : calibrate_profile_of(row->gpu), &network);
        if (row->n_nodes > 1 && strstr(row->interconnect, "not stated)") && !network.fabric) {
            skip(c, "several nodes on a fabric that is not stated");
            continue;
        }
        const int64_t per_node = network.gpus_per_node;
        int64_t node_count = (row->n_gpus + per_node - 1) / per_node;
        if (row->n_nodes > node_count && per_node <= 8) node_count = row->n_nodes;
        const bool across = node_count > 1, large = row->bytes >= COLLECTIVE_LARGE_BYTES;
        const char *name = arena_format(c->arena, "%s %s", operator_kind_name(ops[op].kind),
                                        across ? "across nodes" : "in one node");
        const struct question q = {
            .gpu = row->gpu,
            .framework = "nccl",
            .operator_name = name,
            .large_name = large ? arena_format(c->arena, "%s >= 1 MiB", name) : NULL,
            .interconnect = across ? row->interconnect : NULL,
            .version = across || row->nccl_version[0] == '\0'
                           ? NULL
                           : arena_format(c->arena, "nccl %s", row->nccl_version),
            .work =
                operator_collective("", ops[op].kind, PASS_UPDATE, COMMUNICATOR_DATA, row->bytes),
            .group = { row->n_gpus, node_count, (row->n_gpus + node_count - 1) / node_count, 1 },
            .measured_s = row->time_us / 1e6,
            .row = i + 1
        };
        if (!answer(c, &q)) return false;
    }
    return true;
}

#define CHECK_FILE(name)                                                                           \
    static bool check_##name(struct checker *c, const char *path) {                                \
        struct name##_rows rows;                                                                   \
        return name##_rows_read(c->arena, path, &rows, c->err) && check_##name##_rows(c, &rows);   \
    }
CHECK_FILE(gemm)
CHECK_FILE(attention)
CHECK_FILE(nccl)
CHECK_FILE(membw)

static void begin(struct checker *checker, enum measurement_format format) {
    *checker->out = (struct calibrate_check){
        .format = measurement_format_names[format],
        .groups = arena_array(checker->arena, struct calibrate_group, GROUP_MAX),
        .skips = arena_array(checker->arena, struct calibrate_skip, SKIP_MAX + 1),
    };
}

bool calibrate_check_file(struct arena *arena, const char *scenarios_directory,
                          const char *profile_or_null, const char *path,
                          struct calibrate_check *out, struct error *err) {
    static bool (*const checks[MEASUREMENT_FORMAT_COUNT])(struct checker *, const char *) = {
        [MEASUREMENT_GEMM] = check_gemm,
        [MEASUREMENT_ATTENTION] = check_attention,
        [MEASUREMENT_NCCL] = check_nccl,
        [MEASUREMENT_MEMBW] = check_membw,
    };
    enum measurement_format format;
    *out = (struct calibrate_check){ 0 };
    if (!measurement_format_read(path, &format, err)) return false;
    if (format == MEASUREMENT_UNPRICED) return true;
    struct checker *checker = arena_new(arena, struct checker);
    *checker = (struct checker){ .arena = arena,
                                 .scenarios = scenarios_directory,
                                 .profile = profile_or_null,
                                 .out = out,
                                 .err = err };
    begin(checker, format);
    if (!checks[format](checker, path)) return error_context(err, "while checking %s", path);
    if (out->row_count == 0)
        return error_at(err, path, 1, 0, "there is a header and no row below it");
    summarise(checker);
    return true;
}

/* ---- a user's rows ----------------------------------------------------------------------------
 */

#define KEEP(name, takes)                                                                          \
    static struct name##_rows kept_##name(struct arena *arena, const struct name##_rows *all) {    \
        struct name##_rows kept = { 0, arena_array(arena, struct name##_row, all->count + 1) };    \
        for (int64_t i = 0; i < all->count; i++)                                                   \
            if (takes(&all->rows[i])) kept.rows[kept.count++] = all->rows[i];                      \
        return kept;                                                                               \
    }

static bool takes_attention(const struct attention_row *row) {
    return calibrate_own_whole_attention(row) && strcmp(row->dtype, "bf16") == 0;
}

static bool takes_collective(const struct nccl_row *row) {
    return !row->in_place && row->n_nodes < 2;
}

static bool takes_stream(const struct membw_row *row) {
    return stream_kind_of(row) != STREAM_NONE;
}

KEEP(gemm, calibrate_own_takes_matmul)
KEEP(attention, takes_attention)
KEEP(nccl, takes_collective)
KEEP(membw, takes_stream)

bool calibrate_check_own(struct arena *arena, const char *scenarios_directory,
                         const char *measured_dir, const char *shipped_dir,
                         const struct calibrate_gpu *gpu,
                         struct calibrate_check out[MEASUREMENT_FORMAT_COUNT], struct error *err) {
    struct own_tables own;
    const struct plan *plan = plan_find(gpu->profile, err);
    if (plan == NULL ||
        !own_tables_read(arena, measured_dir, shipped_dir, gpu, plan->gemm_gpu, &own, err))
        return false;
    const struct gemm_rows gemm = kept_gemm(arena, &own.rows.gemm);
    const struct attention_rows attention = kept_attention(arena, &own.rows.attention);
    const struct nccl_rows nccl = kept_nccl(arena, &own.rows.nccl);
    const struct membw_rows membw = kept_membw(arena, &own.rows.membw);
    for (int f = 0; f < MEASUREMENT_FORMAT_COUNT; f++) {
        struct checker *checker = arena_new(arena, struct checker);
        *checker = (struct checker){ .arena = arena,
                                     .scenarios = scenarios_directory,
                                     .profile = gpu->hardware,
                                     .own_curves = true,
                                     .out = &out[f],
                                     .err = err };
        begin(checker, (enum measurement_format)f);
        const bool ok = f == MEASUREMENT_GEMM        ? check_gemm_rows(checker, &gemm)
                        : f == MEASUREMENT_ATTENTION ? check_attention_rows(checker, &attention)
                        : f == MEASUREMENT_NCCL      ? check_nccl_rows(checker, &nccl)
                                                     : check_membw_rows(checker, &membw);
        if (!ok) return false;
        summarise(checker);
    }
    return true;
}

/* "matmul >= 1e10 FLOP" is one of "matmul" too. */
static bool is_of_operator(const char *name, const char *operator_name) {
    const size_t length = strlen(operator_name);
    return strncmp(name, operator_name, length) == 0 &&
           (name[length] == '\0' || strncmp(name + length, " >= ", 4) == 0);
}

struct calibrate_group *calibrate_check_operators(struct arena *arena,
                                                  const struct calibrate_check *check,
                                                  int64_t *count) {
    struct calibrate_group *out =
        arena_array(arena, struct calibrate_group, check->group_count + 1);
    double *errors = arena_array(arena, double, check->priced_count + 1);
    *count = 0;
    for (int64_t g = 0; g < check->group_count; g++) {
        const char *name = check->groups[g].operator_name;
        int64_t known = 0, inside_count = 0, rows = 0;
        while (known < *count && strcmp(out[known].operator_name, name) != 0)
            known++;
        if (known < *count) continue;
        double sum = 0;
        for (int64_t i = 0; i < check->priced_count; i++) {
            const struct calibrate_row *row = &check->rows[i];
            if (!is_of_operator(check->groups[row->group].operator_name, name)) continue;
            const double error = row->price_s / row->measured_s - 1;
            errors[rows++] = fabs(error);
            sum += error;
            inside_count += row->inside_band;
        }
        out[(*count)++] = (struct calibrate_group){
            .operator_name = name,
            .exact_variant = true,
            .row_count = rows,
            .median_abs_relative_error = fit_quantile(errors, rows, 0.5),
            .p90_abs_relative_error = fit_quantile(errors, rows, 0.9),
            .mean_signed_relative_error = sum / (double)rows,
            .inside_band_fraction = (double)inside_count / (double)rows,
        };
    }
    return out;
}

static void write_text(const char *text, FILE *out) {
    const bool quoted = strpbrk(text, ",\"") != NULL;
    fputs(quoted ? ",\"" : ",", out);
    for (; *text; text++) {
        if (*text == '"') fputc('"', out);
        fputc(*text, out);
    }
    if (quoted) fputc('"', out);
}

void calibrate_check_write(const struct calibrate_check *check, bool header, FILE *out) {
    if (header)
        fputs("row,measured_us,price_us,relative_error,inside_band,operator,gpu,framework,"
              "priced_by\n",
              out);
    for (int64_t i = 0; i < check->priced_count; i++) {
        const struct calibrate_row *row = &check->rows[i];
        const struct calibrate_group *group = &check->groups[row->group];
        fprintf(out, "%lld,%.6g,%.6g,%.5f,%d", (long long)row->row, row->measured_s * 1e6,
                row->price_s * 1e6, row->price_s / row->measured_s - 1, row->inside_band);
        write_text(group->operator_name, out);
        write_text(group->gpu, out);
        write_text(group->framework, out);
        write_text(group->priced_by, out);
        fputc('\n', out);
    }
}
