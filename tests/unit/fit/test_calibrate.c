/* test_calibrate.c - the shipped curves are what the fit makes of the shipped measurements, and price them well. */
#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>
#include <cmocka.h>
#include "calibrate/fit/calibrate.h"
#include "calibrate/fit/measurements.h"
#include "costmodel/cost_model.h"
#include "sim/base/json.h"

#define MEASURED  BALLAST_SOURCE_DIR "/calibrate/measured"
#define SCENARIOS BALLAST_SOURCE_DIR "/scenarios"

static void compare_profile(const char *gpu) {
    struct arena *arena = arena_create();
    struct error err = { 0 };
    struct calibrate_report *report = arena_new(arena, struct calibrate_report);
    cJSON *curves = cJSON_CreateObject();
    if (!calibrate_fit_profile(arena, MEASURED, gpu, curves, report, &err))
        fail_msg("%s", err.text);
    char *fitted = calibrate_curves_text(curves), *shipped;
    size_t size;
    if (!file_read(arena_format(arena, "%s/hardware/curves/%s.json", SCENARIOS, gpu), &shipped,
                   &size, &err))
        fail_msg("%s", err.text);
    for (int64_t i = 0; i < report->line_count; i++) {
        const struct calibrate_line *line = &report->lines[i];
        print_message("%-40s n %5ld, held out: median %.1f %%, p90 %.1f, bias %+.1f\n", line->what,
                      (long)line->held_out.count, 100 * line->held_out.median,
                      100 * line->held_out.p90, 100 * line->held_out.bias);
    }
    if (size != strlen(fitted) || memcmp(fitted, shipped, size) != 0)
        fail_msg("curves/%s.json is not what the fit makes of calibrate/measured", gpu);
    free(fitted);
    free(shipped);
    cJSON_Delete(curves);
    arena_destroy(arena);
}

static void test_shipped_is_fitted(void **state) {
    (void)state;
    compare_profile("a100-80g-sxm");
    compare_profile("h20-96g");
}

static void test_unknown_gpu(void **state) {
    (void)state;
    struct arena *arena = arena_create();
    struct error err = { 0 };
    struct calibrate_report *report = arena_new(arena, struct calibrate_report);
    cJSON *curves = cJSON_CreateObject();
    assert_false(calibrate_fit_profile(arena, MEASURED, "a100-80g", curves, report, &err));
    assert_non_null(strstr(err.text, "'a100-80g'"));
    assert_non_null(strstr(err.text, "did you mean 'a100-80g-"));
    assert_false(calibrate_fit_profile(arena, "/nowhere", "h20-96g", curves, report, &err));
    assert_non_null(strstr(err.text, "/nowhere/gemm.csv.gz"));
    cJSON_Delete(curves);
    arena_destroy(arena);
}

struct recorded {
    struct gemm_rows gemm;
    struct attention_rows attention;
    struct nccl_rows nccl;
};

enum recorded_kind { RECORDED_MATMUL, RECORDED_ATTENTION, RECORDED_COLLECTIVE };

static struct cost_model *load(struct arena *arena, const char *hardware) {
    struct error err = { 0 };
    const struct cluster_network network = { .gpus_per_node = 8, .nic_bytes_per_s_per_gpu = 25e9 };
    struct cost_model *model = cost_model_create(arena, SCENARIOS, hardware, &network, &err);
    if (!model) fail_msg("%s", err.text);
    return model;
}

static bool row_seconds(const struct cost_model *model, const struct recorded *r,
                        enum recorded_kind kind, const char *gpu, int64_t i, double *log_error) {
    if (kind == RECORDED_MATMUL) {
        const struct gemm_row *row = &r->gemm.rows[i];
        if (strcmp(row->gpu, gpu) || strncmp(row->source, "S1:", 3)) return false;
        const struct operator_work w =
            operator_matmul("", PASS_FORWARD, PRECISION_BF16, row->m, row->n, row->k);
        *log_error = log(1e6 * cost_model_price_isolated(model, &w, NULL).seconds / row->time_us);
    } else if (kind == RECORDED_ATTENTION) {
        const struct attention_row *row = &r->attention.rows[i];
        if (strcmp(row->gpu, gpu) || strncmp(row->source, "S1:", 3)) return false;
        const double tokens = (double)(row->batch * row->seqlen);
        const struct operator_work w = operator_attention(
            "", PASS_FORWARD, PRECISION_BF16, tokens, tokens * (double)row->seqlen, row->heads_q,
            row->heads_kv, row->head_dim_qk, row->causal);
        *log_error = log(1e6 * cost_model_price_isolated(model, &w, NULL).seconds / row->time_us);
    } else {
        static const char *const names[] = { "all_reduce", "all_gather", "reduce_scatter",
                                             "alltoall", "sendrecv" };
        const struct nccl_row *row = &r->nccl.rows[i];
        if (strcmp(row->gpu, gpu) || row->n_nodes != 1 || row->time_us <= 0 || row->in_place)
            return false;
        int op = 0;
        while (op < 5 && strcmp(names[op], row->op) != 0)
            op++;
        if (op == 5) return false;
        const struct communicator group = { row->n_gpus, 1, row->n_gpus, 1 };
        const struct operator_work w =
            operator_collective("", (enum operator_kind)(OPERATOR_ALL_REDUCE + op), PASS_UPDATE,
                                COMMUNICATOR_DATA, row->bytes);
        *log_error = log(1e6 * cost_model_price_isolated(model, &w, &group).seconds / row->time_us);
    }
    return true;
}

/* Through the shipped files and the public call: what a user's price is worth on recorded kernels.
 * Collectives of all NCCL versions are compared, the tables are of the newest. */
static void test_recorded(void **state) {
    (void)state;
    static const struct {
        const char *hardware, *gpu;
        enum recorded_kind kind;
        double median_max, p90_max;
    } cases[] = {
        { "a100-80g-sxm", "A100-SXM4-80GB", RECORDED_MATMUL, 0.035, 0.11 },
        { "h100-80g-sxm", "H100-SXM5-80GB", RECORDED_MATMUL, 0.025, 0.10 },
        { "h200-141g-sxm", "H200-SXM", RECORDED_MATMUL, 0.040, 0.15 },
        { "b200-180g-sxm", "B200-SXM", RECORDED_MATMUL, 0.015, 0.05 },
        { "a100-80g-sxm", "A100-SXM4-80GB", RECORDED_ATTENTION, 0.11, 0.22 },
        { "h100-80g-sxm", "H100-SXM5-80GB", RECORDED_ATTENTION, 0.05, 0.15 },
        { "h200-141g-sxm", "H200-SXM", RECORDED_ATTENTION, 0.05, 0.15 },
        { "a100-80g-sxm", "A100-SXM4-80GB", RECORDED_COLLECTIVE, 0.03, 0.10 },
        { "h100-80g-sxm", "H100-SXM5-80GB", RECORDED_COLLECTIVE, 0.10, 0.60 },
        { "h200-141g-sxm", "H200-SXM", RECORDED_COLLECTIVE, 0.10, 0.60 },
        { "b200-180g-sxm", "B200-SXM", RECORDED_COLLECTIVE, 0.10, 0.60 },
    };
    static const char *const kind_names[] = { "matmul", "attention", "collective" };
    struct arena *arena = arena_create();
    struct error err = { 0 };
    struct recorded r;
    if (!gemm_rows_read(arena, MEASURED "/gemm.csv.gz", &r.gemm, &err) ||
        !attention_rows_read(arena, MEASURED "/attention.csv.gz", &r.attention, &err) ||
        !nccl_rows_read(arena, MEASURED "/nccl.csv.gz", &r.nccl, &err))
        fail_msg("%s", err.text);
    double *error = arena_array(arena, double, r.gemm.count + r.attention.count + r.nccl.count);
    for (size_t c = 0; c < sizeof cases / sizeof cases[0]; c++) {
        const struct cost_model *model = load(arena, cases[c].hardware);
        const int64_t row_count = cases[c].kind == RECORDED_MATMUL      ? r.gemm.count
                                  : cases[c].kind == RECORDED_ATTENTION ? r.attention.count
                                                                        : r.nccl.count;
        int64_t count = 0;
        for (int64_t i = 0; i < row_count; i++)
            count += row_seconds(model, &r, cases[c].kind, cases[c].gpu, i, &error[count]);
        const struct error_summary s = error_summary_of(error, count);
        print_message("%-14s %-10s n %5ld: median %.1f %%, p90 %.1f, bias %+.1f\n",
                      cases[c].hardware, kind_names[cases[c].kind], (long)s.count, 100 * s.median,
                      100 * s.p90, 100 * s.bias);
        if (!(s.median < cases[c].median_max && s.p90 < cases[c].p90_max))
            fail_msg("%s %s: median %.3f, p90 %.3f", cases[c].hardware, kind_names[cases[c].kind],
                     s.median, s.p90);
    }
    arena_destroy(arena);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_shipped_is_fitted),
        cmocka_unit_test(test_unknown_gpu),
        cmocka_unit_test(test_recorded),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
