/* test_nccl_json.c - what nccl-tests write with -J, and what is said about files that are not
 * that. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>
#include <cmocka.h>
#include "calibrate/fit/nccl_json.h"

#define DEVICE(rank, group, host, name)                                                            \
    "{\"rank\":" rank ",\"group\":" group ",\"pid\":42,\"hostname\":\"" host "\",\"device\":0,"    \
    "\"device_hex\":\"0000:1b:00\",\"device_info\":\"" name "\"}"
#define H100 "NVIDIA H100 80GB HBM3"
/* nthreads 1, ngpus 4: each process has four ranks and lists its first. */
#define FILE_OF(program, devices, results)                                                         \
    "{\"version\":2,\"start_time\":\"2026-01-31 12:00:00\",\"args\":[\".\\/build\\/" program       \
    "\",\"-J\",\"o.json\"],\"env\":[\"A=\\\"b\\\"\"],\"nccl_version\":22807,\"config\":{"          \
    "\"nthreads\":1,\"ngpus\":4,\"minimum_bytes\":8,\"validation\":1,\"devices\":[" devices "]},"  \
    "\"results\":[" results "],\"out_of_bounds\":{\"count\":0,\"okay\":\"true\"},\"errors\":[]}"
#define RATES(time, algbw, busbw, wrong)                                                           \
    "{\"time\":" time ",\"alg_bw\":" algbw ",\"bus_bw\":" busbw ",\"nwrong\":" wrong "}"
#define HALF(time, wrong) RATES(time, "15.840000", "27.720000", wrong)
#define RESULT(size, out, in)                                                                      \
    "{\"size\":" size ",\"count\":2,\"type\":\"float\",\"redop\":\"sum\",\"root\":\"    -1\","     \
    "\"out_of_place\":" out ",\"in_place\":" in                                                    \
    ",\"actual_iterations\":20,\"experiment_name\":\"x\"}"
#define TWO  DEVICE("0", "0", "n1", H100) "," DEVICE("4", "0", "n2", H100)
#define GOOD RESULT("524288", HALF("33.100000", "0.000000"), HALF("32.850000", "null"))
/* busbw as bytes times (n - 1) / n, which four and eight ranks make of algbw */
#define GOOD_OF(busbw)                                                                             \
    RESULT("524288", RATES("33.100000", "15.84", busbw, "0.000000"),                               \
           RATES("32.850000", "15.84", busbw, "null"))
#define EMPTY RESULT("0", HALF("0.210000", "0.000000"), HALF("0.180000", "0.000000"))

static bool read_one(struct arena *arena, const char *text, const char *op,
                     struct nccl_log_rows *rows, struct error *err) {
    char path[] = "/tmp/ballast-run-XXXXXX";
    const int file = mkstemp(path);
    assert_true(file >= 0);
    assert_int_equal(write(file, text, strlen(text)), (ssize_t)strlen(text));
    close(file);
    const struct nccl_log_options options = { .op = op };
    const bool ok = nccl_log_read(arena, path, &options, rows, err);
    unlink(path);
    return ok;
}

static void test_rows(void **state) {
    (void)state;
    static const struct {
        const char *text, *op;
        int64_t count, n_gpus, n_nodes;
    } cases[] = {
        { FILE_OF("all_reduce_perf", TWO, EMPTY "," GOOD), "all_reduce", 2, 8, 2 },
        { FILE_OF("reduce_scatter_perf", DEVICE("0", "0", "n1", H100),
                  GOOD_OF("11.88") "," GOOD_OF("11.88")),
          "reduce_scatter", 4, 4, 1 },
        { FILE_OF("all_gather_perf", DEVICE("0", "0", "n1", H100) "," DEVICE("4", "1", "n2", H100),
                  GOOD_OF("11.88")),
          "all_gather", 2, 4, 1 },
        { "\n " FILE_OF("sendrecv_perf_mpi", TWO,
                        RESULT("8", "null", RATES("9.5", "0.0", "0.0", "null"))),
          "sendrecv", 1, 8, 2 },
    };
    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
        struct arena *arena = arena_create();
        struct error err = { 0 };
        struct nccl_log_rows rows = { 0 };
        if (!read_one(arena, cases[i].text, NULL, &rows, &err)) fail_msg("%zu: %s", i, err.text);
        assert_int_equal(rows.count, cases[i].count);
        const struct nccl_row *row = &rows.rows[0].row;
        assert_string_equal(row->op, cases[i].op);
        assert_string_equal(row->gpu, "H100-SXM5-80GB");
        assert_string_equal(row->nccl_version, "2.28.7");
        assert_int_equal(row->n_gpus, cases[i].n_gpus);
        assert_int_equal(row->n_nodes, cases[i].n_nodes);
        arena_destroy(arena);
    }
    struct arena *arena = arena_create();
    struct error err = { 0 };
    struct nccl_log_rows rows = { 0 };
    assert_true(read_one(arena, cases[0].text, NULL, &rows, &err));
    assert_true(rows.rows[0].row.time_us == 33.1 && rows.rows[0].row.bytes == 524288);
    assert_true(rows.rows[0].algbw_GB_per_s == 15.84 && rows.rows[0].busbw_GB_per_s == 27.72);
    assert_false(rows.rows[0].row.in_place);
    assert_true(rows.rows[1].row.in_place && rows.rows[1].row.time_us == 32.85);
    arena_destroy(arena);
}

static void test_mistakes(void **state) {
    (void)state;
    static const struct {
        const char *text, *want;
    } cases[] = {
        { FILE_OF("all_reduce_perf", TWO, RESULT("8", HALF("9", "3.000000"), "null")),
          "error: /results/0/out_of_place/nwrong: the run found 3 wrong values" },
        { FILE_OF("all_reduce_perf", TWO, RESULT("8", HALF("\"nan\"", "null"), "null")),
          "error: /results/0/out_of_place/time: nccl-tests write a number \"time\" from 0 here" },
        { FILE_OF("all_reduce_perf", TWO,
                  RESULT("8", "{\"cpu_time\":3.0,\"alg_bw\":1.0,\"bus_bw\":1.0}", "null")),
          "is not the collective's\n" },
        { FILE_OF("all_reduce_perf",
                  DEVICE("0", "0", "n1", H100) "," DEVICE("4", "0", "n2", "NVIDIA B200"), GOOD),
          "/config/devices/1: GPUs of several kinds ran together (H100-SXM5-80GB and B200" },
        { FILE_OF("all_reduce_perf", DEVICE("0", "0", "n1", H100), GOOD),
          "/results/0/out_of_place: its busbw is 27.72 GB/s where all_reduce among 4 ranks" },
        { FILE_OF("all_reduce_perf", "", GOOD), "/config/devices: no GPU is listed" },
        { FILE_OF("all_reduce_perf", TWO, EMPTY), "/results: no results of nccl-tests" },
        { FILE_OF("scatter_perf", TWO, GOOD), "a log of scatter_perf: scatter has no price" },
        { FILE_OF("mine", TWO, GOOD), "hint: name it with --op" },
        { "{\"args\":[\"all_reduce_perf\"],\"config\":{\"nthreads\":1e300,\"ngpus\":9,"
          "\"devices\":[]},\"results\":[]}",
          "/config: so many GPUs no process has" },
        { "{\"results\":[]}", "nccl-tests write a list \"args\" here" },
        { "{\"version\":2,\"config\":{\"nthreads\":1", "the JSON text ends too early" },
    };
    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
        struct arena *arena = arena_create();
        struct error err = { 0 };
        struct nccl_log_rows rows = { 0 };
        if (read_one(arena, cases[i].text, NULL, &rows, &err)) fail_msg("%zu was read", i);
        if (!strstr(err.text, cases[i].want)) fail_msg("%zu: %s", i, err.text);
        arena_destroy(arena);
    }
    struct arena *arena = arena_create();
    struct error err = { 0 };
    struct nccl_log_rows rows = { 0 };
    assert_true(read_one(arena, FILE_OF("mine", TWO, GOOD_OF("13.86")), "alltoall", &rows, &err));
    assert_string_equal(rows.rows[0].row.op, "alltoall");
    arena_destroy(arena);
}

int main(void) {
    const struct CMUnitTest tests[] = { cmocka_unit_test(test_rows),
                                        cmocka_unit_test(test_mistakes) };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
