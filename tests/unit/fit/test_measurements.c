/* test_measurements.c - the CSV reader: quotes, order of columns, empty cells, and what it says
 * about broken files. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>
#include <cmocka.h>
#include "calibrate/fit/measurements.h"

#define HEADER "source,gpu,dtype,n,m,k,time_us,extra,framework\n"

#define TEMPORARY "/tmp/ballast-measurements-XXXXXX"

static void write_text(char *path, const char *text) {
    const int file = mkstemp(path);
    assert_true(file >= 0);
    assert_int_equal(write(file, text, strlen(text)), (int)strlen(text));
    close(file);
}

static bool read_text(const char *text, struct arena *arena, struct gemm_rows *rows,
                      struct error *err) {
    char path[] = TEMPORARY;
    write_text(path, text);
    const bool ok = gemm_rows_read(arena, path, rows, err);
    unlink(path);
    return ok;
}

static void test_good(void **state) {
    (void)state;
    struct arena *arena = arena_create();
    struct error err = { 0 };
    struct gemm_rows rows;
    if (!read_text("\xef\xbb\xbf" HEADER
                   "\"a, \"\"b\"\"\",G,bf16,3,2,,4.5,,f\r\ns,H,bf16,1,1,1,1,x,\"y\"",
                   arena, &rows, &err))
        fail_msg("%s", err.text);
    assert_int_equal(rows.count, 2);
    assert_string_equal(rows.rows[0].source, "a, \"b\"");
    assert_int_equal(rows.rows[0].m, 2);
    assert_int_equal(rows.rows[0].n, 3);
    assert_int_equal(rows.rows[0].k, 0);
    assert_true(rows.rows[0].time_us == 4.5);
    assert_string_equal(rows.rows[1].framework, "y");
    arena_destroy(arena);
}

/* As somebody writes who has not seen the shipped tables. */
static void test_other_spellings(void **state) {
    (void)state;
    struct arena *arena = arena_create();
    struct error err = { 0 };
    struct gemm_rows rows;
    if (!read_text("gpu,dtype,m,n,k,time_us\nG,BFloat16,1,2,3,4\nG,torch.float16,1,2,3,4\n"
                   "G,FP8,1,2,3,4\nG,int8,1,2,3,4\n",
                   arena, &rows, &err))
        fail_msg("%s", err.text);
    static const char *const words[] = { "bf16", "fp16", "fp8", "int8" };
    for (int i = 0; i < 4; i++)
        assert_string_equal(rows.rows[i].dtype, words[i]);
    assert_string_equal(rows.rows[0].framework, ""); /* columns that are not there */
    assert_string_equal(rows.rows[0].source, "");

    struct attention_rows attention;
    char path[] = TEMPORARY;
    write_text(path, "gpu,dtype,direction,batch,seqlen,heads_q,heads_kv,head_dim_qk,"
                     "head_dim_v,causal,time_us\n"
                     "G,bf16,Forward,1,8,2,2,64,64,True,9\n"
                     "G,bf16,backward,1,8,2,2,64,64,false,9\n");
    if (!attention_rows_read(arena, path, &attention, &err)) fail_msg("%s", err.text);
    assert_string_equal(attention.rows[0].direction, "fwd");
    assert_true(attention.rows[0].causal);
    assert_string_equal(attention.rows[1].direction, "bwd");
    assert_false(attention.rows[1].causal);
    unlink(path);

    struct nccl_rows nccl;
    char other[] = TEMPORARY;
    write_text(other, "gpu,n_gpus,n_nodes,interconnect,op,bytes,time_us\n"
                      "G,8,1,NVLink,AllReduce,1024,9\nG,8,1,NVLink,all_gather_perf,1024,9\n"
                      "G,8,1,NVLink,Reduce_Scatter,1024,9\n");
    if (!nccl_rows_read(arena, other, &nccl, &err)) fail_msg("%s", err.text);
    assert_string_equal(nccl.rows[0].op, "all_reduce");
    assert_string_equal(nccl.rows[1].op, "all_gather");
    assert_string_equal(nccl.rows[2].op, "reduce_scatter");
    assert_string_equal(nccl.rows[0].nccl_version, "");
    unlink(other);
    arena_destroy(arena);
}

static void test_broken(void **state) {
    (void)state;
    static const struct {
        const char *name, *text, *wanted;
    } cases[] = {
        { "empty", "", "is empty" },
        { "a column is missing", "gpu,m,n,k\n",
          ":1: error: no column 'dtype'\n  hint: there must be gpu, dtype, m, n, k, time_us; "
          "calibrate/measured/README.md" },
        { "words for a number", HEADER "s,G,bf16,x,2,2,1,,f\n",
          ":2: error: n: 'x' is not a number" },
        { "a negative time", HEADER "s,G,bf16,1,2,2,-1,,f\n", "time_us: '-1'" },
        { "behind empty lines", "\r\n" HEADER "\n\ns,G,bf16,1,2,2,1,\n",
          ":5: error: must have 9 cells, got 8" },
        { "no number", HEADER "s,G,bf16,1,2,2,nan,,f\n", "'nan' is not a number from 0 to 1e+15" },
        { "endless", HEADER "s,G,bf16,1,2,2,1e99,,f\n", "'1e99' is not a number from 0 to 1e+15" },
        { "half a size", HEADER "s,G,bf16,1,2.5,2,1,,f\n", "m: '2.5' is not a whole number" },
        { "a column twice", "gpu,m,n,k,m\n", ":1: error: column 'm' stands there twice" },
        { "another unit", "source,gpu,dtype,n,m,k,time_ms,framework\n",
          ":1: error: no column 'time_us'\n  hint: is 'time_ms' meant?" },
        { "no UTF-8", HEADER "s,G\xe9,bf16,1,2,2,1,,f\n",
          ":2: error: a byte 0xE9 that is no UTF-8" },
        { "an open quote", HEADER "s,\"G,bf16,1,2,2,1,,f\n",
          ":2: error: a quote is opened and not closed" },
        { "a cell too few", HEADER "s,G,bf16,1,2,2,1,\n", ":2: error: must have 9 cells, got 8" },
    };
    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
        struct arena *arena = arena_create();
        struct error err = { 0 };
        struct gemm_rows rows;
        if (read_text(cases[i].text, arena, &rows, &err)) fail_msg("%s: accepted", cases[i].name);
        if (!strstr(err.text, cases[i].wanted))
            fail_msg("%s: no \"%s\" in \"%s\"", cases[i].name, cases[i].wanted, err.text);
        arena_destroy(arena);
    }
}

int main(void) {
    const struct CMUnitTest tests[] = { cmocka_unit_test(test_good),
                                        cmocka_unit_test(test_other_spellings),
                                        cmocka_unit_test(test_broken) };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
