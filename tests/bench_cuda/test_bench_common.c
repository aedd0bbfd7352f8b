/* test_bench_common.c - statistics, options and CSV files of the microbenchmarks, without a GPU. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <unistd.h>
#include <cmocka.h>
#include "calibrate/bench/bench_common.h"
#include "calibrate/fit/measurements.h"

static void test_stats(void **state) {
    (void)state;
    static const struct {
        const char *name;
        int count;
        double samples[6], median, p10, p90;
    } cases[] = {
        { "one", 1, { 7 }, 7, 7, 7 },
        { "even", 4, { 4, 1, 3, 2 }, 2.5, 1.3, 3.7 },
        { "odd, an outlier", 5, { 1, 100, 2, 3, 4 }, 3, 1.4, 61.6 },
        { "none", 0, { 0 }, 0, 0, 0 },
    };
    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
        double samples[6];
        memcpy(samples, cases[i].samples, sizeof samples);
        const struct bench_stats got = bench_stats_of(samples, cases[i].count);
        if (fabs(got.median - cases[i].median) > 1e-12 || fabs(got.p10 - cases[i].p10) > 1e-12 ||
            fabs(got.p90 - cases[i].p90) > 1e-12 || got.count != cases[i].count)
            fail_msg("%s: got %g, %g to %g of %d", cases[i].name, got.median, got.p10, got.p90,
                     got.count);
    }
}

static void test_settled(void **state) {
    (void)state;
    static const struct {
        const char *name;
        int count;
        double samples[6];
        bool want;
    } cases[] = {
        { "flat", 6, { 10, 10, 10, 10, 10.02, 10 }, true },
        { "still slowing down", 6, { 8, 8.5, 9, 9.5, 10, 10.5 }, false },
        { "settled at last", 6, { 8, 10, 10, 10.01, 10, 10 }, true },
        { "too few", 5, { 10, 10, 10, 10, 10 }, false },
    };
    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++)
        if (bench_is_settled(cases[i].samples, cases[i].count, 3, 0.005) != cases[i].want)
            fail_msg("%s: wrong", cases[i].name);
}

static void test_relative_error(void **state) {
    (void)state;
    const double want[] = { 3, 4 };
    assert_true(bench_relative_error((const float[]){ 3, 4 }, want, 2) == 0);
    assert_true(fabs(bench_relative_error((const float[]){ 3, 4.5f }, want, 2) - 0.1) < 1e-12);
    /* An element nobody wrote is never within a tolerance. */
    assert_false(bench_relative_error((const float[]){ 3, NAN }, want, 2) < 1e9);
}

static void test_options(void **state) {
    (void)state;
    const char *model = "all";
    const struct bench_extra extra[] = { { "--model", "NAME", "one model", &model } };
    struct bench_options options;
    char *good[] = { "bench", "--quick", "-o", "out", "--model", "x", "--device-json", "d.json" };
    assert_int_equal(bench_options_read(8, good, "", extra, 1, &options), -1);
    assert_true(options.quick);
    assert_false(options.check_only);
    assert_string_equal(options.directory, "out");
    assert_string_equal(options.device_json, "d.json");
    assert_string_equal(model, "x");
    char *plain[] = { "bench" };
    assert_int_equal(bench_options_read(1, plain, "", NULL, 0, &options), -1);
    assert_false(options.quick);
    assert_string_equal(options.directory, ".");
    assert_null(options.device_json);
    char *unknown[] = { "bench", "--fast" }, *cut[] = { "bench", "-o" };
    assert_int_equal(bench_options_read(2, unknown, "", NULL, 0, &options), BENCH_USAGE);
    assert_int_equal(bench_options_read(2, cut, "", NULL, 0, &options), BENCH_USAGE);
}

/* ---- the files, read back by the reader that the fit uses ---- */

static const struct bench_place place = { "H200-SXM", "NVIDIA \"H200\", 141 GB", "580.1", 4800 };
static const struct bench_sample sample = { { 12.5, 12, 13, 11 }, 1980, 3201, 512.25 };

struct folder {
    char path[64];
    struct arena *arena;
    struct error err;
};

static int make_folder(void **state) {
    struct folder *f = calloc(1, sizeof *f);
    strcpy(f->path, "/tmp/ballast-bench-XXXXXX");
    *state = f;
    f->arena = arena_create();
    return mkdtemp(f->path) == NULL;
}

static int remove_folder(void **state) {
    struct folder *f = *state;
    rmdir(f->path);
    arena_destroy(f->arena);
    free(f);
    return 0;
}

static void test_gemm(void **state) {
    struct folder *f = *state;
    struct bench_csv csv = bench_csv_open(f->path, "gemm.csv", BENCH_GEMM_COLUMNS);
    bench_csv_gemm(&csv, &place, "bf16", 4096, 512, 128, "cublasLt, layout=TN", &sample);
    bench_csv_gemm(&csv, &place, "fp8", 1, 2, 3, "x", &sample);
    assert_true(bench_csv_close(&csv));
    struct gemm_rows rows;
    if (!gemm_rows_read(f->arena, csv.path, &rows, &f->err)) fail_msg("%s", f->err.text);
    unlink(csv.path);
    assert_int_equal(rows.count, 2);
    assert_string_equal(rows.rows[0].gpu, "H200-SXM");
    assert_string_equal(rows.rows[0].framework, "cublasLt, layout=TN");
    assert_string_equal(rows.rows[0].source, "ballast:matmul");
    assert_int_equal(rows.rows[0].m, 4096);
    assert_int_equal(rows.rows[0].n, 512);
    assert_int_equal(rows.rows[0].k, 128);
    assert_true(rows.rows[0].time_us == 12.5);
    assert_string_equal(rows.rows[1].dtype, "fp8");
}

static void test_attention(void **state) {
    struct folder *f = *state;
    const struct bench_attention_shape shape = { 2, 1024, 32, 8, 128, true };
    struct bench_csv csv = bench_csv_open(f->path, "attention.csv", BENCH_ATTENTION_COLUMNS);
    bench_csv_attention(&csv, &place, &shape, false, "cudnn", &sample);
    bench_csv_attention(&csv, &place, &shape, true, "cudnn", &sample);
    assert_true(bench_csv_close(&csv));
    struct attention_rows rows;
    if (!attention_rows_read(f->arena, csv.path, &rows, &f->err)) fail_msg("%s", f->err.text);
    unlink(csv.path);
    assert_int_equal(rows.count, 2);
    assert_string_equal(rows.rows[0].direction, "fwd");
    assert_string_equal(rows.rows[1].direction, "bwd");
    assert_int_equal(rows.rows[1].batch, 2);
    assert_int_equal(rows.rows[1].seqlen, 1024);
    assert_int_equal(rows.rows[1].heads_q, 32);
    assert_int_equal(rows.rows[1].heads_kv, 8);
    assert_int_equal(rows.rows[1].head_dim_qk, 128);
    assert_true(rows.rows[1].causal);
    /* 4 B S^2 H D / 2 */
    assert_true(bench_attention_flop(&shape, false) == 2.0 * 2 * 1024 * 1024 * 32 * 128);
    assert_true(bench_attention_flop(&shape, true) == 2.5 * bench_attention_flop(&shape, false));
}

static void test_membw(void **state) {
    struct folder *f = *state;
    struct bench_csv csv = bench_csv_open(f->path, "membw.csv", BENCH_MEMBW_COLUMNS);
    bench_csv_membw(&csv, &place, "rms_norm-fwd N=8192 C=4096", 134217728, "ballast", &sample);
    assert_true(bench_csv_close(&csv));
    struct membw_rows rows;
    if (!membw_rows_read(f->arena, csv.path, &rows, &f->err)) fail_msg("%s", f->err.text);
    unlink(csv.path);
    assert_int_equal(rows.count, 1);
    assert_string_equal(rows.rows[0].test, "rms_norm-fwd N=8192 C=4096");
    assert_true(rows.rows[0].bytes == 134217728);
    assert_true(fabs(rows.rows[0].fraction_of_peak - 134217728 / 12.5e-6 / 4800e9) < 1e-5);
}

static void test_nccl(void **state) {
    struct folder *f = *state;
    struct bench_csv csv = bench_csv_open(f->path, "nccl.csv", BENCH_NCCL_COLUMNS);
    bench_csv_nccl(&csv, &place, 8, "peer access", "all_reduce", 8589934592.0, true, "2.28.7",
                   &sample);
    assert_true(bench_csv_close(&csv));
    struct nccl_rows rows;
    if (!nccl_rows_read(f->arena, csv.path, &rows, &f->err)) fail_msg("%s", f->err.text);
    unlink(csv.path);
    assert_int_equal(rows.count, 1);
    assert_int_equal(rows.rows[0].n_gpus, 8);
    assert_int_equal(rows.rows[0].n_nodes, 1);
    assert_true(rows.rows[0].in_place);
    assert_true(rows.rows[0].bytes == 8589934592.0);
    assert_string_equal(rows.rows[0].nccl_version, "2.28.7");
    assert_true(bench_bus_factor("all_reduce", 8) == 1.75);
    assert_true(bench_bus_factor("all_gather", 4) == 0.75);
    assert_true(bench_bus_factor("sendrecv", 4) == 1);
}

/* The two formats that no reader knows yet: as many cells in each row as the header names. */
static void test_cell_counts(void **state) {
    struct folder *f = *state;
    const struct bench_part part = { "llama3-8b", "forward", "qkv", "TN", 8192, 1, 1e12, 1e9 };
    struct bench_csv overheads = bench_csv_open(f->path, "o.csv", BENCH_OVERHEADS_COLUMNS);
    bench_csv_overhead(&overheads, &place, "gap", 1.3, "us", "graph", "ballast:gap", &sample);
    struct bench_csv layers = bench_csv_open(f->path, "l.csv", BENCH_LAYERS_COLUMNS);
    bench_csv_layer(&layers, &place, &part, &sample);
    struct bench_csv *files[] = { &overheads, &layers };
    for (int i = 0; i < 2; i++) {
        assert_true(bench_csv_close(files[i]));
        FILE *file = fopen(files[i]->path, "r");
        char line[1024];
        int commas[2] = { 0, 0 };
        for (int l = 0; l < 2; l++) {
            assert_non_null(fgets(line, sizeof line, file));
            bool quoted = false;
            for (const char *at = line; *at; at++) {
                if (*at == '"') quoted = !quoted;
                commas[l] += *at == ',' && !quoted;
            }
        }
        fclose(file);
        unlink(files[i]->path);
        if (commas[0] != commas[1])
            fail_msg("%s: %d commas in the header, %d in the row", files[i]->path, commas[0],
                     commas[1]);
    }
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_stats),
        cmocka_unit_test(test_settled),
        cmocka_unit_test(test_relative_error),
        cmocka_unit_test(test_options),
        cmocka_unit_test_setup_teardown(test_gemm, make_folder, remove_folder),
        cmocka_unit_test_setup_teardown(test_attention, make_folder, remove_folder),
        cmocka_unit_test_setup_teardown(test_membw, make_folder, remove_folder),
        cmocka_unit_test_setup_teardown(test_nccl, make_folder, remove_folder),
        cmocka_unit_test_setup_teardown(test_cell_counts, make_folder, remove_folder),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
