/* test_nccl_log.c - tables of old and new nccl-tests, several runs in a log, and what is said about
 * broken logs. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>
#include <cmocka.h>
#include "calibrate/fit/nccl_log.h"

#define LOGS BALLAST_SOURCE_DIR "/tests/data/nccl/"

static void test_rows(void **state) {
    (void)state;
    static const struct {
        const char *file;
        int64_t row, count;
        const char *gpu, *op, *version;
        int64_t n_gpus, n_nodes;
        bool in_place;
        double bytes, time_us, algbw, busbw;
    } cases[] = {
        { "all_reduce_new.log", 0, 6, "H100-SXM5-80GB", "all_reduce", "2.28.7", 8, 1, false, 8,
          17.31, 0, 0 },
        { "all_reduce_new.log", 3, 6, "H100-SXM5-80GB", "all_reduce", "2.28.7", 8, 1, true, 524288,
          32.85, 15.96, 27.93 },
        { "all_reduce_new.log", 5, 6, "H100-SXM5-80GB", "all_reduce", "2.28.7", 8, 1, true,
          134217728, 570.2, 235.39, 411.93 },
        { "all_gather_old.log", 0, 6, "A100-SXM4-40GB", "all_gather", "2.8.4", 4, 1, false, 1048576,
          48.52, 21.61, 16.21 },
        { "all_gather_old.log", 5, 6, "A100-SXM4-40GB", "all_gather", "2.8.4", 4, 1, true, 4194304,
          73.66, 56.94, 42.71 },
        { "two_runs_mpi.log", 0, 5, "H200-SXM", "sendrecv", "2.27.5", 4, 2, false, 1048576, 41.07,
          25.53, 25.53 },
        { "two_runs_mpi.log", 4, 5, "H200-SXM", "alltoall", "2.27.5", 2, 1, false, 1048576, 19.20,
          54.61, 27.31 },
    };
    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
        struct arena *arena = arena_create();
        struct error err = { 0 };
        struct nccl_log_rows rows = { 0 };
        const struct nccl_log_options options = { 0 };
        const char *path = arena_format(arena, LOGS "%s", cases[i].file);
        if (!nccl_log_read(arena, path, &options, &rows, &err))
            fail_msg("%s: %s", cases[i].file, err.text);
        if (rows.count != cases[i].count)
            fail_msg("%s: %lld rows", cases[i].file, (long long)rows.count);
        const struct nccl_log_row *got = &rows.rows[cases[i].row];
        if (strcmp(got->row.gpu, cases[i].gpu) != 0 || strcmp(got->row.op, cases[i].op) != 0 ||
            strcmp(got->row.nccl_version, cases[i].version) != 0 ||
            got->row.n_gpus != cases[i].n_gpus || got->row.n_nodes != cases[i].n_nodes ||
            got->row.in_place != cases[i].in_place || got->row.bytes != cases[i].bytes ||
            got->row.time_us != cases[i].time_us || got->algbw_GB_per_s != cases[i].algbw ||
            got->busbw_GB_per_s != cases[i].busbw)
            fail_msg("%s row %lld: got %s %s NCCL %s %lld GPUs %lld nodes in_place %d %g bytes "
                     "%g us %g %g",
                     cases[i].file, (long long)cases[i].row, got->row.gpu, got->row.op,
                     got->row.nccl_version, (long long)got->row.n_gpus, (long long)got->row.n_nodes,
                     got->row.in_place, got->row.bytes, got->row.time_us, got->algbw_GB_per_s,
                     got->busbw_GB_per_s);
        arena_destroy(arena);
    }
}

static void test_broken(void **state) {
    (void)state;
    static const struct {
        const char *file, *wanted;
    } cases[] = {
        { "wrong_values.log", "wrong_values.log:10: error: the run found 3 wrong values" },
        { "cut_short.log", "cut_short.log:11: error: must have 11 to 13 cells" },
        { "mixed_gpus.log", "mixed_gpus.log:6: error: GPUs of several kinds ran together "
                            "(B200-SXM and H100-SXM5-80GB)" },
        { "no_table.log", "no results of nccl-tests in this file" },
        { "unnamed.log", "name it with --op" },
        { "not_there.log", "not_there.log" },
    };
    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
        struct arena *arena = arena_create();
        struct error err = { 0 };
        struct nccl_log_rows rows = { 0 };
        const struct nccl_log_options options = { 0 };
        const char *path = arena_format(arena, LOGS "%s", cases[i].file);
        if (nccl_log_read(arena, path, &options, &rows, &err))
            fail_msg("%s was read", cases[i].file);
        if (!strstr(err.text, cases[i].wanted)) fail_msg("%s: got %s", cases[i].file, err.text);
        arena_destroy(arena);
    }
}

#define RANK(group, rank)                                                                          \
    "#  Rank  " rank " Group  " group " Pid  42 on  node1 device  " rank " [0x18] NVIDIA H20\n"
#define HEADER "#  size count type redop root time algbw busbw #wrong time algbw busbw #wrong\n"
#define TABLE                                                                                      \
    HEADER                                                                                         \
    " 1024 256 float sum -1 12.3 0.08 0.08 N/A 12.1 0.08 0.08 N/A\n"
#define SIZED                                                                                      \
    "# Collective test starting: all_reduce_perf\n# nThread 1 nGpus 1 minBytes 1024 maxBytes "     \
    "4096 "                                                                                        \
    "step: 2(factor)\n"
#define STARTS(name) "# Collective test starting: " name "_perf\n# nThread 1 nGpus 1\n"

static void read_text(struct arena *arena, const char *text, struct nccl_log_rows *rows) {
    char path[] = "/tmp/ballast-log-XXXXXX";
    const int descriptor = mkstemp(path);
    assert_int_equal(write(descriptor, text, strlen(text)), strlen(text));
    close(descriptor);
    const struct nccl_log_options options = { 0 };
    struct error err = { 0 };
    *rows = (struct nccl_log_rows){ 0 };
    if (!nccl_log_read(arena, path, &options, rows, &err)) fail_msg("%s", err.text);
    unlink(path);
}

/* Two hosts of one name, and a log that ends before its sizes do. */
static void test_hosts_and_ends(void **state) {
    (void)state;
    struct arena *arena = arena_create();
    struct nccl_log_rows rows;
    read_text(arena,
              STARTS("sendrecv") RANK("0", "0") RANK("0", "1") RANK("0", "0") RANK("0", "1") TABLE,
              &rows);
    assert_int_equal(rows.rows[0].row.n_nodes, 2);
    assert_int_equal(rows.rows[0].row.n_gpus, 4);
    assert_null(rows.cut);
    read_text(arena, SIZED RANK("0", "0") RANK("0", "1") TABLE, &rows);
    assert_non_null(strstr(rows.cut, " ends at 1024 bytes of maxBytes 4096"));
    read_text(arena, SIZED RANK("0", "0") RANK("0", "1") TABLE "# Avg bus bandwidth : 1\n", &rows);
    assert_null(rows.cut);
    arena_destroy(arena);
}

/* What launchers, shells and other programs make of a log. */
static void test_shapes(void **state) {
    (void)state;
    static const struct {
        const char *name, *prefix, *text;
        int64_t rank_count; /* of the row out of place */
        const char *error;  /* NULL: none */
    } cases[] = {
        { "plain, -c 0", "", STARTS("all_reduce") RANK("0", "0") RANK("0", "1") TABLE, 2, NULL },
        { "srun -l", "0: ", STARTS("all_reduce") RANK("0", "0") RANK("0", "1") TABLE, 2, NULL },
        { "Hydra", "[0] ", STARTS("all_reduce") RANK("0", "0") RANK("0", "1") TABLE, 2, NULL },
        { "a host's name", "node1: ", STARTS("all_reduce") RANK("0", "0") RANK("0", "1") TABLE, 2,
          NULL },
        { "docker compose", "worker-0  | ", STARTS("all_reduce") RANK("0", "0") TABLE, 0,
          "no results of nccl-tests" },
        { "docker compose, narrow", "worker-0 | ",
          STARTS("all_reduce") RANK("0", "0") RANK("0", "1") TABLE, 2, NULL },
        { "Open MPI and a host", "[1,0]<stdout>:node1: ",
          STARTS("all_reduce") RANK("0", "0") RANK("0", "1") TABLE, 2, NULL },
        { "kubectl", "2026-01-31T12:00:00.123456789Z ",
          STARTS("all_reduce") RANK("0", "0") RANK("0", "1") TABLE, 2, NULL },
        { "kubectl --prefix", "[pod/launcher-0/mpi] 2026-01-31T12:00:00.123456789Z ",
          STARTS("all_reduce") RANK("0", "0") RANK("0", "1") TABLE, 2, NULL },
        { "two groups", "",
          STARTS("all_reduce") RANK("0", "0") RANK("1", "1") RANK("0", "2") RANK("1", "3") TABLE, 2,
          NULL },
        { "scatter", "", STARTS("scatter") RANK("0", "0") TABLE, 0, "scatter has no price" },
        { "scatter behind another", "",
          STARTS("all_reduce") RANK("0", "0") TABLE STARTS("scatter") RANK("0", "0") TABLE, 0,
          ":10: error: a log of scatter_perf" },
        { "another program", "", STARTS("all_reduce") "# my_perf notes\n" RANK("0", "0") TABLE, 1,
          NULL },
        { "a time of another row", "",
          STARTS("all_reduce") RANK("0", "0") RANK("0", "1") HEADER
          " 1048576 262144 float sum -1 120.3 87.2 87.2 0 121.0 8.67 8.67 0\n",
          0, ":6: error: 1048576 bytes in 120.3 us are 8.716 GB/s, and its algbw is 87.2" },
        { "a rank's line is missing", "",
          STARTS("all_reduce") RANK("0", "0") RANK("0", "1") HEADER
          " 1048576 262144 float sum -1 120.3 8.72 15.25 0 121.0 8.67 15.17 0\n",
          0, "all_reduce among 2 ranks makes 8.72" },
        { "a list of other ranks than the header's", "",
          "# Collective test starting: all_reduce_perf\n# nThread 1 nGpus 2\n" RANK("0", "0")
              RANK("0", "1") TABLE "# nThread 1 nGpus 4\n" RANK("0", "0") RANK("0", "1") TABLE,
          0,
          ":11: error: the ranks above the table are 2 GPUs of 1 process, its \"# nThread\" line "
          "says 4 for each" },
        { "threads", "",
          "# Collective test starting: all_reduce_perf\n# nThread 2 nGpus 1\n" RANK("0", "0")
              RANK("0", "1") TABLE,
          2, NULL },
        { "no time", "",
          STARTS("all_reduce") RANK("0", "0") RANK("0", "1") HEADER
          " 1048576 262144 float sum -1 0.00 8.72 8.72 0 121.0 8.67 8.67 0\n",
          0, "1048576 bytes in no time" },
        { "a size in words", "",
          STARTS("all_reduce") RANK("0", "0") RANK("0", "1") TABLE
          " 1M 262144 float sum -1 120.3 8.72 8.72 0 121.0 8.67 8.67 0\n",
          0, ":7: error: looks like a result and does not begin with a whole number of bytes" },
        { "lines of NCCL_DEBUG", "",
          STARTS("all_reduce") RANK("0", "0") RANK("0", "1") TABLE
          "node1:42:57 [0] NCCL INFO Channel 00/24 : 0 1\n"
          "node1:42:57 [0] NCCL INFO Trees [0] 1/-1/-1->0->-1 [1] 1/-1/-1->0->-1\n",
          2, NULL },
        { "JSON", "", "{ \"version\": 1 }\n", 0, "hint: of JSON what nccl-tests write with -J" },
        { "empty", "", "", 0, "the file is empty" },
    };
    char path[] = "/tmp/ballast-log-XXXXXX";
    const int descriptor = mkstemp(path);
    assert_true(descriptor >= 0);
    close(descriptor);
    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
        FILE *file = fopen(path, "w");
        assert_non_null(file);
        for (const char *at = cases[i].text; *at; at += strcspn(at, "\n") + 1)
            fprintf(file, "%s%.*s\r\n", cases[i].prefix, (int)strcspn(at, "\n"), at);
        fclose(file);
        struct arena *arena = arena_create();
        struct error err = { 0 };
        struct nccl_log_rows rows = { 0 };
        const struct nccl_log_options options = { 0 };
        const bool ok = nccl_log_read(arena, path, &options, &rows, &err);
        if (ok != (cases[i].error == NULL) || (!ok && !strstr(err.text, cases[i].error)))
            fail_msg("%s: %s", cases[i].name, err.text);
        if (ok && (rows.count != 2 || rows.rows[0].row.n_gpus != cases[i].rank_count))
            fail_msg("%s: %ld rows of %ld GPUs", cases[i].name, (long)rows.count,
                     (long)rows.rows[0].row.n_gpus);
        arena_destroy(arena);
    }
    remove(path);
}

/* Options stand above what a log says; several logs end in one list; what is written is read back
 * by the reader of measurements. */
static void test_written(void **state) {
    (void)state;
    struct arena *arena = arena_create();
    struct error err = { 0 };
    struct nccl_log_rows rows = { 0 };
    const struct nccl_log_options options = { .op = "broadcast",
                                              .gpu = "my \"GPU\"",
                                              .interconnect = "NDR, 8 NICs" };
    assert_true(nccl_log_read(arena, LOGS "unnamed.log", &options, &rows, &err));
    assert_true(nccl_log_read(arena, LOGS "all_reduce_new.log", &(struct nccl_log_options){ 0 },
                              &rows, &err));
    assert_int_equal(rows.count, 8);

    char path[] = "/tmp/ballast-nccl-XXXXXX";
    const int descriptor = mkstemp(path);
    assert_true(descriptor >= 0);
    FILE *file = fdopen(descriptor, "w");
    assert_true(nccl_log_write(&rows, file));
    fclose(file);
    struct nccl_rows read = { 0 };
    if (!nccl_rows_read(arena, path, &read, &err)) fail_msg("%s", err.text);
    unlink(path);
    assert_int_equal(read.count, rows.count);
    for (int64_t i = 0; i < read.count; i++) {
        const struct nccl_row *a = &read.rows[i], *b = &rows.rows[i].row;
        if (strcmp(a->gpu, b->gpu) != 0 || strcmp(a->interconnect, b->interconnect) != 0 ||
            strcmp(a->op, b->op) != 0 || strcmp(a->nccl_version, b->nccl_version) != 0 ||
            strcmp(a->source, b->source) != 0 || a->n_gpus != b->n_gpus ||
            a->n_nodes != b->n_nodes || a->in_place != b->in_place || a->bytes != b->bytes ||
            a->time_us != b->time_us)
            fail_msg("row %lld came back different", (long long)i);
    }
    assert_string_equal(read.rows[0].gpu, "my \"GPU\"");
    assert_string_equal(read.rows[0].op, "broadcast");
    assert_string_equal(read.rows[7].source, "nccl-tests:all_reduce_new.log");
    arena_destroy(arena);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_rows),           cmocka_unit_test(test_broken),
        cmocka_unit_test(test_hosts_and_ends), cmocka_unit_test(test_shapes),
        cmocka_unit_test(test_written),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
